// SPDX-License-Identifier: Apache-2.0
#include "measure/report.h"

#include <algorithm>
#include <utility>

#include "audit/text.h"

namespace tutti::measure {
namespace {

using audit::FormatCents;
using audit::Hours;
using audit::Percent;

using audit::Thousands;

constexpr size_t kRoomy = 100;  // columns from which on rows of parts have room for all numbers

std::string Number(size_t value) {
  return Thousands(static_cast<int64_t>(value));
}

std::string Jobs(size_t count) {
  return Number(count) + (count == 1 ? " job" : " jobs");
}

// "2 Preempted, 1 PodsReadyTimeout"
std::string Reasons(const std::map<std::string, size_t>& counts) {
  std::vector<std::pair<size_t, std::string>> order;
  for (const auto& [reason, count] : counts) {
    order.emplace_back(count, reason);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string out;
  for (const auto& [count, reason] : order) {
    out += (out.empty() ? "" : ", ") + Number(count) + " " + reason;
  }
  return out;
}

size_t Sum(const std::map<std::string, size_t>& counts) {
  size_t sum = 0;
  for (const auto& [reason, count] : counts) {
    sum += count;
  }
  return sum;
}

Json CountsJson(const std::map<std::string, size_t>& counts) {
  Json out = Json::Obj();
  for (const auto& [reason, count] : counts) {
    out.Set(reason, static_cast<int64_t>(count));
  }
  return out;
}

class Page : private audit::TextPage {
 public:
  Page(const Report& report, size_t width) : TextPage(width), report_(report) {}

  std::string Write() {
    const Window& all = report_.all;
    Paragraph(report_.ledger + ": " + report_.source + " from " + FormatTime(all.from) + " to " +
              FormatTime(all.to) + ", watched for " + audit::Span(all.watched) + ".");
    if (all.watched == Duration::zero()) {
      Line("");
      Paragraph("Nothing was watched in this time, so nothing can be said of it.", "  ");
      Notes(report_.notes);
      return Take();
    }
    Starts(all);
    Accelerators(all);
    Waits(all);
    Evictions(all);
    Parts();
    Notes(report_.notes);
    return Take();
  }

 private:
  void Starts(const Window& all) {
    Section("STARTS OF JOBS OF SEVERAL PODS");
    if (all.started + all.restarted_partially == 0) {
      Paragraph("None that can be judged.", "  ");
      return;
    }
    Table(
        {"", ""},
        {{"started", Number(all.started)},
         {"of these partially",
          Number(all.partial) + " (" +
              Percent(static_cast<int64_t>(all.partial), static_cast<int64_t>(all.started)) + ")"},
         {"started again partially", Number(all.restarted_partially)},
         {"time in that state, all together", audit::Span(all.partial_time)},
         {"lost a member later and ran on in part", Number(all.lost) + " times"}});
  }

  void Accelerators(const Window& all) {
    Section("ACCELERATOR-HOURS");
    const std::string money =
        report_.currency + (report_.prices_are_examples ? " (EXAMPLE prices)" : "");
    const auto row = [&](const std::string& name, const Share& share, int64_t of) {
      return Row{name, Hours(share.device_seconds), of > 0 ? Percent(share.device_seconds, of) : "",
                 FormatCents(share.cost.Cents())};
    };
    Share held = all.whole;
    held += all.others;
    held += all.partially;
    held += all.lost_members;
    Share wasted = all.partially;
    wasted += all.lost_members;
    const int64_t of = held.device_seconds;
    const Row head = {"WHAT", "HOURS", "OF HELD", money};
    Table(head, {row("the nodes had", all.supply, 0),
                 row("asked for by jobs of several pods", all.asked, 0), row("held", held, of),
                 row("  by jobs that were whole", all.whole, of),
                 row("  by pods that work alone, or unjudged", all.others, of),
                 row("  wasted: by jobs that were not whole", wasted, of),
                 row("    not whole yet (partial starts)", all.partially, of),
                 row("    not whole any more (lost members)", all.lost_members, of)});
    if (all.supply.device_seconds > 0) {
      Line("");
      Paragraph("Held " + Percent(of, all.supply.device_seconds) +
                    " of what the nodes had; of use (held, but not wasted) " +
                    Percent(of - wasted.device_seconds, all.supply.device_seconds) + ".",
                "  ");
    }
  }

  void Waits(const Window& all) {
    Section("WAITS FROM CREATION UNTIL ALL PODS HAD A NODE");
    if (all.waits.jobs == 0) {
      Paragraph("No job of several pods got all of its pods placed in this time.", "  ");
    } else {
      Table({"", ""}, {{"jobs", Number(all.waits.jobs)},
                       {"half of them at most", audit::Span(all.waits.p50)},
                       {"nine of ten at most", audit::Span(all.waits.p90)},
                       {"the longest", audit::Span(all.waits.longest)}});
    }
    if (all.waiting > 0) {
      Paragraph(Jobs(all.waiting) + (all.waiting == 1 ? " waits" : " wait") +
                    " at the end, the longest for " + audit::Span(all.longest_waiting) + ".",
                "  ");
    }
  }

  void Evictions(const Window& all) {
    if (all.evictions.empty() && all.pods_taken.empty()) {
      return;
    }
    Section("EVICTIONS");
    if (!all.evictions.empty()) {
      Paragraph("jobs that lost their quota: " + Reasons(all.evictions), "  ");
    }
    if (!all.pods_taken.empty()) {
      Paragraph("pods that lost their node: " + Reasons(all.pods_taken), "  ");
    }
  }

  void Parts() {
    if (report_.parts.empty()) {
      return;
    }
    Section("OVER TIME");
    const bool roomy = width() >= kRoomy;
    Row head = {"FROM (UTC)", "STARTS", "PARTIAL", "ASKED H", "HELD H", "WASTED H", "WAIT P50"};
    if (roomy) {
      head.insert(head.end(), {"WAIT P90", "EVICTED", "WATCHED"});
    }
    std::vector<Row> rows;
    for (const Window& part : report_.parts) {
      Row row = {FormatTime(part.from).substr(5, 11).replace(5, 1, " "),
                 Number(part.started),
                 Number(part.partial + part.restarted_partially),
                 Hours(part.asked.device_seconds),
                 Hours(part.Held()),
                 Hours(part.Wasted()),
                 SpanOrDash(part.waits.p50, part.waits.jobs > 0)};
      if (roomy) {
        row.push_back(SpanOrDash(part.waits.p90, part.waits.jobs > 0));
        row.push_back(Number(Sum(part.evictions)));
        row.push_back(Percent(part.watched.count(), (part.to - part.from).count()));
      }
      rows.push_back(std::move(row));
    }
    Table(head, rows);
  }

  const Report& report_;
};

Json ShareJson(const Share& share) {
  return Json::Obj(
      {{"deviceSeconds", share.device_seconds}, {"cost", FormatCents(share.cost.Cents())}});
}

int64_t Seconds(Duration duration) {
  return std::chrono::floor<std::chrono::seconds>(duration).count();
}

}  // namespace

std::string SpanOrDash(Duration duration, bool any) {
  return any ? audit::Span(duration) : "-";
}

Report MakeReport(std::string ledger, const Windows& windows, Time from, Time to, Duration every) {
  Report out;
  out.ledger = std::move(ledger);
  out.source = windows.recorded().source;
  out.currency = windows.prices().Currency();
  out.prices_are_examples = windows.prices().AreExamples();
  out.all = windows.Cut(from, to);
  for (Time at = from; every > Duration::zero() && at < to; at += every) {
    out.parts.push_back(windows.Cut(at, std::min(at + every, to)));
  }
  out.notes = windows.Notes(out.all);
  if (out.prices_are_examples) {
    out.notes.emplace_back("the prices are made up, as examples: give yours with --prices FILE");
  }
  return out;
}

std::string ToText(const Report& report, size_t width) {
  return Page(report, width).Write();
}

Json ToJson(const Window& window) {
  const auto number = [](size_t value) { return static_cast<int64_t>(value); };
  Json sizes = Json::Obj();
  for (size_t i = 0; i < kSizes; ++i) {
    sizes.Set(SizeNames()[i], Json::Obj({{"jobs", number(window.sizes[i])},
                                         {"askedDeviceSeconds", window.asked_by_size[i]}}));
  }
  Json waits = Json();
  if (window.waits.jobs > 0) {
    waits = Json::Obj({{"jobs", number(window.waits.jobs)},
                       {"p50Seconds", Seconds(window.waits.p50)},
                       {"p90Seconds", Seconds(window.waits.p90)},
                       {"longestSeconds", Seconds(window.waits.longest)}});
  }
  return Json::Obj({{"from", FormatTime(window.from)},
                    {"to", FormatTime(window.to)},
                    {"watchedSeconds", Seconds(window.watched)},
                    {"fromDumps", window.sampled},
                    {"created", number(window.created)},
                    {"started", number(window.started)},
                    {"startedPartially", number(window.partial)},
                    {"restartedPartially", number(window.restarted_partially)},
                    {"lostMembers", number(window.lost)},
                    {"partialSeconds", Seconds(window.partial_time)},
                    {"supply", ShareJson(window.supply)},
                    {"asked", ShareJson(window.asked)},
                    {"heldWhole", ShareJson(window.whole)},
                    {"heldByOthers", ShareJson(window.others)},
                    {"wastedAtStarts", ShareJson(window.partially)},
                    {"wastedAfterLosses", ShareJson(window.lost_members)},
                    {"waits", std::move(waits)},
                    {"waiting", number(window.waiting)},
                    {"longestWaitingSeconds", Seconds(window.longest_waiting)},
                    {"evictions", CountsJson(window.evictions)},
                    {"podsTaken", CountsJson(window.pods_taken)},
                    {"byAccelerators", std::move(sizes)}});
}

Json ToJson(const Report& report) {
  Json parts = Json::Arr();
  for (const Window& part : report.parts) {
    parts.Push(ToJson(part));
  }
  Json notes = Json::Arr();
  for (const std::string& note : report.notes) {
    notes.Push(note);
  }
  return Json::Obj({{"ledger", report.ledger},
                    {"source", report.source},
                    {"currency", report.currency},
                    {"pricesAreExamples", report.prices_are_examples},
                    {"all", ToJson(report.all)},
                    {"parts", std::move(parts)},
                    {"notes", std::move(notes)}});
}

}  // namespace tutti::measure
