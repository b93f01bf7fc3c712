// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "audit/report.h"
#include "audit/text.h"
#include "cli/objects.h"

namespace tutti::audit {
namespace {

constexpr size_t kRows = 10;
constexpr size_t kRoomy = 100;  // columns
constexpr int kFrom = 3;        // the column that gives way below that

std::string Jobs(size_t count) {
  return Thousands(static_cast<int64_t>(count)) + (count == 1 ? " job" : " jobs");
}

class Page : private TextPage {
 public:
  Page(const Audit& audit, size_t width) : TextPage(width), audit_(audit) {}

  std::string Write() {
    Paragraph("Audit of " + audit_.source + " at " + FormatTime(audit_.facts.now) +
              (audit_.facts.now_is_guess ? " (the newest time in it)" : "") +
              ". Only read: nothing was changed.");
    Headline();
    Worst();
    Losses();
    NotJudged();
    Waiting();
    Devices();
    Quotas();
    Claims();
    Notes(audit_.facts.notes);
    return Take();
  }

 private:
  void More(size_t all, size_t shown, const std::string& what) {
    if (all > shown) {
      Line("  and " + Thousands(static_cast<int64_t>(all - shown)) + " more " + what +
           " (-o json has all)");
    }
  }
  [[nodiscard]] std::string Cost(const Money& money) const {
    return audit_.prices.Currency() + " " + money.ToString();
  }
  [[nodiscard]] std::string AtPrices() const {
    return audit_.prices.AreExamples() ? " at EXAMPLE prices" : "";
  }
  [[nodiscard]] const Gang& GangOf(const GangHistory& history) const {
    return audit_.facts.gangs[history.gang];
  }

  void Headline() {
    const Summary& sum = audit_.summary;
    Section("PARTIAL STARTS");
    if (sum.judged == 0) {
      Paragraph(sum.gangs == 0
                    ? "No job of several pods was found."
                    : Jobs(sum.gangs) +
                          " of several pods were found, but of none it can be said how it "
                          "started; why is listed below.",
                "  ");
      return;
    }
    if (sum.partial == 0) {
      Paragraph("None: each of the " + Jobs(sum.judged) +
                    " of several pods whose start can be judged started "
                    "with all its pods within " +
                    Span(audit_.tolerance) + ", or not at all.",
                "  ");
    } else {
      Paragraph(Thousands(static_cast<int64_t>(sum.partial)) + " of " + Jobs(sum.judged) +
                    " of several pods (" +
                    Percent(static_cast<int64_t>(sum.partial), static_cast<int64_t>(sum.judged)) +
                    ") started partially: some pods had a node, the others had to wait for one." +
                    (sum.partial_now > 0
                         ? " " + Thousands(static_cast<int64_t>(sum.partial_now)) +
                               (sum.partial_now == 1 ? " is" : " are") + " in that state now."
                         : ""),
                "  ");
      Line("");
      Table({"", ""}, {{"in that state, all together", Span(sum.partial_time)},
                       {"the longest", Span(sum.longest)},
                       {"accelerator-hours that waited idle", Hours(sum.idle_seconds)},
                       {"of all that these " + Jobs(sum.judged) + " held",
                        Percent(sum.idle_seconds, sum.device_seconds)},
                       {"cost of the idle ones" + AtPrices(), Cost(sum.idle_cost)}});
      if (audit_.prices.AreExamples()) {
        Line("");
        Paragraph("The prices are made up: " + ExamplePrices() + ". Give yours with --prices FILE.",
                  "  ");
      }
    }
  }

  // Of the resources that there are.
  std::string ExamplePrices() const {
    std::string out;
    for (const auto& [resource, total] : audit_.cluster.totals) {
      bool found = false;
      const int64_t price = audit_.prices.PerHour(resource, {}, &found);
      if (found) {
        out += (out.empty() ? "" : ", ") + resource + " " + audit_.prices.Currency() + " " +
               FormatPrice(price) + " an hour";
      }
    }
    return out.empty() ? "round numbers per hour" : out;
  }

  void Worst() {
    if (audit_.worst.empty()) {
      return;
    }
    Section("THE MOST COSTLY PARTIAL STARTS");
    std::vector<Row> rows;
    for (const size_t index : audit_.worst) {
      if (rows.size() == kRows) {
        break;
      }
      const GangHistory& history = audit_.histories.gangs[index];
      const Gang& gang = GangOf(history);
      const Spell& first = history.spells.front();
      rows.push_back({gang.Title(), std::to_string(gang.size), Thousands(history.devices),
                      FormatTime(first.begin).substr(5, 11).replace(5, 1, " "),
                      Span(history.PartialAtStart()) + (first.ongoing ? " *" : "  "),
                      Hours(history.IdleDeviceSeconds(true)), history.IdleCost(true).ToString()});
    }
    const bool ongoing = audit_.summary.partial_now > 0;
    Row head = {"JOB", "PODS", "GPUS", "FROM (UTC)", "FOR  ", "IDLE H", audit_.prices.Currency()};
    if (width() < kRoomy) {  // the name says more
      head.erase(head.begin() + kFrom);
      for (Row& row : rows) {
        row.erase(row.begin() + kFrom);
      }
    }
    Table(head, rows);
    More(audit_.worst.size(), rows.size(), "partial starts");
    if (ongoing) {
      Line("  * still so");
    }
  }

  void Losses() {
    const Summary& sum = audit_.summary;
    if (sum.lost > 0) {
      Section("LOST MEMBERS");
      Paragraph(Jobs(sum.lost) +
                    " lost a pod after the start and held the other pods' devices meanwhile: " +
                    Hours(sum.idle_lost_seconds) + " accelerator-hours, " +
                    Cost(sum.idle_lost_cost) + AtPrices() + ". Not counted above.",
                "  ");
    }
  }

  void NotJudged() {
    if (audit_.histories.unjudged.empty()) {
      return;
    }
    Section("NOT JUDGED");
    for (const auto& [reason, count] : audit_.histories.unjudged) {
      Paragraph(Jobs(count) + ": " + reason, "  ");
    }
  }

  void Waiting() {
    if (audit_.cluster.waiting.empty()) {
      return;
    }
    Section("JOBS THAT WAIT NOW");
    size_t shown = 0;
    for (const WaitingGang& waiting : audit_.cluster.waiting) {
      if (shown++ == kRows) {
        break;
      }
      const Gang& gang = audit_.facts.gangs[waiting.gang];
      Paragraph(
          gang.Title() + ", " + cli::Count(static_cast<size_t>(gang.size), "pod") +
              (waiting.bound > 0 ? " of which " + std::to_string(waiting.bound) + " placed" : "") +
              ", for " + Span(audit_.facts.now - waiting.since) +
              (waiting.verdict.empty()
                   ? ""
                   : (gang.suspended ? ": suspended; " : ": ") + waiting.verdict),
          "  ");
      if (gang.waits_for_quota && !gang.quota_message.empty()) {
        Paragraph("quota: " + gang.quota_message, "      ");
      }
      if (!waiting.why.empty()) {
        Paragraph("room: " + waiting.why, "      ");
      } else if (waiting.verdict == "fits now" && !gang.waits_for_quota && !gang.suspended) {
        Paragraph("room: there is a place for all its pods, unless others take it first", "      ");
      }
    }
    More(audit_.cluster.waiting.size(), std::min(shown, kRows), "that wait");
  }

  void Devices() {
    if (audit_.cluster.totals.empty()) {
      return;
    }
    Section("ACCELERATORS");
    std::vector<Row> rows;
    for (const auto& [resource, total] : audit_.cluster.totals) {
      rows.push_back({resource, Thousands(total.allocatable), Thousands(total.used),
                      Thousands(total.allocatable - total.used), Thousands(total.stranded)});
    }
    Table({"RESOURCE", "ALL", "TAKEN", "FREE", "OF USE TO NO JOB"}, rows);
    if (audit_.cluster.fragments.empty()) {
      return;
    }
    Line("");
    Line("  Free, but of use to no job:");
    // Alike reasons together: one line for each, with the nodes that have most.
    std::map<std::string, std::pair<int64_t, std::vector<const Fragment*>>> reasons;
    for (const Fragment& fragment : audit_.cluster.fragments) {
      auto& [sum, list] = reasons[fragment.resource + ": " + fragment.why];
      sum += fragment.stranded;
      list.push_back(&fragment);
    }
    size_t shown = 0;
    for (const auto& [reason, what] : reasons) {
      if (shown++ == kRows) {
        break;
      }
      std::string nodes;
      for (size_t i = 0; i < what.second.size() && i < 3; ++i) {
        nodes += (i == 0 ? "" : ", ") + what.second[i]->node;
      }
      Paragraph(Thousands(what.first) + " " + reason + " (" +
                    cli::Count(what.second.size(), "node") + ": " + nodes +
                    (what.second.size() > 3 ? ", …" : "") + ")",
                "  ");
    }
    More(reasons.size(), std::min(shown, kRows), "reasons");
  }

  void Quotas() {
    if (audit_.cluster.quotas.empty()) {
      return;
    }
    Section("QUOTAS THAT THEIR NODES CAN'T HOLD");
    std::vector<Row> rows;
    for (const QuotaFinding& one : audit_.cluster.quotas) {
      rows.push_back({one.queue.empty() ? "all queues together" : "ClusterQueue " + one.queue,
                      one.flavor, one.resource, api::FormatAmount(one.resource, one.quota),
                      api::FormatAmount(one.resource, one.capacity), std::to_string(one.nodes)});
    }
    const size_t all = rows.size();
    rows.resize(std::min(rows.size(), kRows));
    Table({"QUEUE", "FLAVOR", "RESOURCE", "QUOTA", "NODES HAVE", "NODES"}, rows);
    More(all, rows.size(), "quotas");
  }

  void Claims() {
    if (audit_.cluster.claims.empty()) {
      return;
    }
    Section("REQUESTS THAT COULD BE CLAIMS BY PROPERTY (DRA)");
    size_t shown = 0;
    for (const ClaimHint& hint : audit_.cluster.claims) {
      if (shown++ == kRows) {
        break;
      }
      std::string labels;
      for (const auto& [key, value] : hint.wanted) {
        labels += (labels.empty() ? " with " : ", ") + key + " " + value;
      }
      Paragraph(
          Jobs(hint.gangs) + " ask for " + hint.resource + labels + ", such as " + hint.example,
          "  ");
      if (!hint.selector.empty()) {
        Paragraph("class " + hint.device_class + ", selector " + hint.selector, "      ");
      }
    }
    More(audit_.cluster.claims.size(), std::min(shown, kRows), "kinds of requests");
    if (audit_.facts.device_drivers.empty()) {
      Paragraph("No driver publishes devices in this cluster yet (no ResourceSlice in the input).",
                "  ");
    }
  }

  const Audit& audit_;
};

}  // namespace

std::string ToText(const Audit& audit, size_t width) {
  return Page(audit, width).Write();
}

}  // namespace tutti::audit
