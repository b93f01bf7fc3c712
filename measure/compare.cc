// SPDX-License-Identifier: Apache-2.0
#include "measure/compare.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "audit/text.h"
#include "measure/report.h"

namespace tutti::measure {
namespace {

using audit::FormatCents;
using audit::Hours;
using audit::Percent;

using audit::Thousands;

constexpr size_t kFewJobs = 10;
constexpr Duration kLittleTime = std::chrono::hours(1);
// Differences of the load that are said: of what is asked for at a time, of jobs per time, of what
// the nodes had, and of the mix of sizes (part of the hours that other sizes ask for).
constexpr double kOfLoad = 0.25;
constexpr double kOfSupply = 0.10;
constexpr double kOfMix = 0.25;
constexpr double kWatched = 0.80;

double Seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// Per second of watching.
double Rate(double what, const Window& window) {
  return window.watched > Duration::zero() ? what / Seconds(window.watched) : 0;
}

// How much more b is than a: 0.5 = half more. Of nothing: whether there is something.
double More(double a, double b) {
  return a > 0 ? b / a - 1 : (b > 0 ? 1 : 0);
}

std::string Times(double more) {
  const auto percent = static_cast<int64_t>(std::lround(std::abs(more) * 100));
  return std::to_string(percent) + " % " + (more > 0 ? "more" : "less");
}

// Part of the hours asked for that would have to be of another size for both to be alike.
double MixDiffers(const Window& a, const Window& b) {
  double sum = 0;
  const auto all = [](const Window& window) {
    int64_t total = 0;
    for (const int64_t one : window.asked_by_size) {
      total += one;
    }
    return static_cast<double>(total);
  };
  const double in_a = all(a);
  const double in_b = all(b);
  if (in_a == 0 || in_b == 0) {
    return 0;
  }
  for (size_t i = 0; i < kSizes; ++i) {
    sum += std::abs(static_cast<double>(a.asked_by_size[i]) / in_a -
                    static_cast<double>(b.asked_by_size[i]) / in_b);
  }
  return sum / 2;
}

void Judge(const Window& window, const char* letter, Comparison& out) {
  if (window.watched < kLittleTime) {
    out.comparable = Comparable::kNo;
    out.reasons.push_back(std::string(letter) + " was watched for " + audit::Span(window.watched) +
                          " only");
  }
  if (window.started < kFewJobs) {
    out.comparable = Comparable::kNo;
    out.reasons.push_back("in " + std::string(letter) + " " +
                          Thousands(static_cast<int64_t>(window.started)) +
                          " jobs of several pods started: too few to tell anything");
  }
}

void Care(Comparison& out, std::string reason) {
  if (out.comparable == Comparable::kYes) {
    out.comparable = Comparable::kWithCare;
  }
  out.reasons.push_back(std::move(reason));
}

void JudgeLoad(Comparison& out) {
  const Window& a = out.a;
  const Window& b = out.b;
  const double asked = More(Rate(static_cast<double>(a.asked.device_seconds), a),
                            Rate(static_cast<double>(b.asked.device_seconds), b));
  if (std::abs(asked) > kOfLoad) {
    Care(out, "at a time, B's jobs ask for " + Times(asked) +
                  " accelerators: waits and waste would differ by that alone");
  }
  const double jobs =
      More(Rate(static_cast<double>(a.created), a), Rate(static_cast<double>(b.created), b));
  if (std::abs(jobs) > kOfLoad) {
    Care(out, "B has " + Times(jobs) + " new jobs of several pods in the same time");
  }
  if (const double mix = MixDiffers(a, b); mix > kOfMix) {
    Care(out, "the mix of sizes differs: " + Percent(std::lround(mix * 1000), 1000) +
                  " of the hours asked for would have to be of jobs of another size");
  }
  const double supply = More(Rate(static_cast<double>(a.supply.device_seconds), a),
                             Rate(static_cast<double>(b.supply.device_seconds), b));
  if (std::abs(supply) > kOfSupply) {
    Care(out, "B's nodes have " + Times(supply) + " accelerators");
  }
  for (const auto& [window, letter] : {std::pair(&a, "A"), {&b, "B"}}) {
    const double part =
        Seconds(window->watched) / std::max(Seconds(window->to - window->from), 1.0);
    if (part < kWatched) {
      Care(out, std::string(letter) + " was watched for " +
                    Percent(std::lround(part * 1000), 1000) + " of its time only");
    }
  }
  if (a.sampled != b.sampled) {
    Care(out, std::string(a.sampled ? "A" : "B") +
                  " is made of dumps, the other was watched: short-lived jobs are missing in the "
                  "dumps");
  }
}

std::string_view ToString(Comparable comparable) {
  switch (comparable) {
    case Comparable::kYes:
      return "yes";
    case Comparable::kWithCare:
      return "with care";
    case Comparable::kNo:
      return "no";
  }
  return "";
}

class Page : private audit::TextPage {
 public:
  Page(const Comparison& comparison, size_t width) : TextPage(width), it_(comparison) {}

  std::string Write() {
    Name("A", it_.a_name, it_.a);
    Name("B", it_.b_name, it_.b);
    Line("");
    switch (it_.comparable) {
      case Comparable::kYes:
        Paragraph("The load is alike: what differs below is not explained by it.");
        break;
      case Comparable::kWithCare:
        Paragraph("To be compared with care, since the load is not the same:");
        break;
      case Comparable::kNo:
        Paragraph("NOT TO BE COMPARED:");
        break;
    }
    for (const std::string& reason : it_.reasons) {
      Item(reason);
    }
    Load();
    Outcome();
    if (!it_.notes.empty()) {
      Line("");
      Line("NOTES");
      for (const std::string& note : it_.notes) {
        Item(note);
      }
    }
    return Take();
  }

 private:
  void Item(const std::string& text) { Hang("  - ", text); }
  void Name(const std::string& letter, const std::string& name, const Window& window) {
    Paragraph(letter + ": " + name + ", " + FormatTime(window.from) + " to " +
              FormatTime(window.to) + ", watched for " + audit::Span(window.watched));
  }
  static std::string Change(double a, double b) {
    if (a == 0 && b == 0) {
      return "=";
    }
    if (a == 0) {
      return "new";
    }
    const auto percent = std::lround((b / a - 1) * 100);
    return (percent > 0 ? "+" : "") + std::to_string(percent) + " %";
  }
  Row Counts(const std::string& name, size_t a, size_t b) const {
    return {name, Thousands(static_cast<int64_t>(a)), Thousands(static_cast<int64_t>(b)),
            Change(Rate(static_cast<double>(a), it_.a), Rate(static_cast<double>(b), it_.b))};
  }
  Row HoursRow(const std::string& name, int64_t a, int64_t b) const {
    return {name, Hours(a), Hours(b),
            Change(Rate(static_cast<double>(a), it_.a), Rate(static_cast<double>(b), it_.b))};
  }
  static Row Parts(const std::string& name, int64_t a, int64_t of_a, int64_t b, int64_t of_b) {
    const auto part = [](int64_t one, int64_t of) {
      return of > 0 ? static_cast<double>(one) / static_cast<double>(of) : 0;
    };
    return {name, Percent(a, of_a), Percent(b, of_b), Change(part(a, of_a), part(b, of_b))};
  }

  void Load() {
    Line("");
    Line("LOAD (the change is per time watched)");
    const Window& a = it_.a;
    const Window& b = it_.b;
    std::vector<Row> rows = {
        Counts("new jobs of several pods", a.created, b.created),
        HoursRow("accelerator-hours asked for", a.asked.device_seconds, b.asked.device_seconds),
        HoursRow("accelerator-hours the nodes had", a.supply.device_seconds,
                 b.supply.device_seconds)};
    for (size_t i = 0; i < kSizes; ++i) {
      if (a.sizes[i] + b.sizes[i] > 0) {
        rows.push_back(Counts("  jobs for " + std::string(SizeNames()[i]) +
                                  (i == 2 ? " accelerators" : (i == 5 ? " than 64" : "")),
                              a.sizes[i], b.sizes[i]));
      }
    }
    Table({"WHAT", "A", "B", "CHANGE"}, rows);
  }

  void Outcome() {
    Line("");
    Line("WHAT CAME OF IT");
    const Window& a = it_.a;
    const Window& b = it_.b;
    const auto wait = [](const std::string& name, Duration in_a, Duration in_b, bool any_a,
                         bool any_b) {
      return Row{name, SpanOrDash(in_a, any_a), SpanOrDash(in_b, any_b),
                 any_a && any_b ? Change(Seconds(in_a), Seconds(in_b)) : "-"};
    };
    const bool any_a = a.waits.jobs > 0;
    const bool any_b = b.waits.jobs > 0;
    const auto total = [](const std::map<std::string, size_t>& counts) {
      size_t sum = 0;
      for (const auto& [reason, count] : counts) {
        sum += count;
      }
      return sum;
    };
    audit::Money wasted_a = a.partially.cost;
    wasted_a += a.lost_members.cost;
    audit::Money wasted_b = b.partially.cost;
    wasted_b += b.lost_members.cost;
    const auto number = [](size_t value) { return static_cast<int64_t>(value); };
    Table({"WHAT", "A", "B", "CHANGE"},
          {Counts("jobs that started", a.started, b.started),
           Parts("  of these partially", number(a.partial), number(a.started), number(b.partial),
                 number(b.started)),
           HoursRow("accelerator-hours held", a.Held(), b.Held()),
           Parts("  held, of what the nodes had", a.Held(), a.supply.device_seconds, b.Held(),
                 b.supply.device_seconds),
           HoursRow("  wasted by jobs that were not whole", a.Wasted(), b.Wasted()),
           Parts("  wasted, of what was held", a.Wasted(), a.Held(), b.Wasted(), b.Held()),
           {"cost of the wasted, " + it_.currency + (it_.prices_are_examples ? " (EXAMPLE)" : ""),
            FormatCents(wasted_a.Cents()), FormatCents(wasted_b.Cents()),
            Change(Rate(static_cast<double>(wasted_a.Cents()), a),
                   Rate(static_cast<double>(wasted_b.Cents()), b))},
           wait("wait, half of the jobs at most", a.waits.p50, b.waits.p50, any_a, any_b),
           wait("wait, nine of ten at most", a.waits.p90, b.waits.p90, any_a, any_b),
           wait("wait, the longest", a.waits.longest, b.waits.longest, any_a, any_b),
           Counts("jobs that lost their quota", total(a.evictions), total(b.evictions)),
           Counts("pods that lost their node", total(a.pods_taken), total(b.pods_taken))});
  }

  const Comparison& it_;
};

}  // namespace

Comparison Compare(const Windows& a, const Window& window_a, std::string a_name, const Windows& b,
                   const Window& window_b, std::string b_name) {
  Comparison out;
  out.a = window_a;
  out.b = window_b;
  out.a_name = std::move(a_name);
  out.b_name = std::move(b_name);
  out.currency = a.prices().Currency();
  out.prices_are_examples = a.prices().AreExamples();
  Judge(out.a, "A", out);
  Judge(out.b, "B", out);
  if (a.recorded().source != b.recorded().source) {
    Care(out, "A is " + a.recorded().source + ", B is " + b.recorded().source);
  }
  JudgeLoad(out);
  for (const std::string& note : a.Notes(window_a)) {
    out.notes.push_back("A: " + note);
  }
  for (const std::string& note : b.Notes(window_b)) {
    out.notes.push_back("B: " + note);
  }
  return out;
}

std::string ToText(const Comparison& comparison, size_t width) {
  return Page(comparison, width).Write();
}

Json ToJson(const Comparison& comparison) {
  const auto list = [](const std::vector<std::string>& texts) {
    Json out = Json::Arr();
    for (const std::string& text : texts) {
      out.Push(text);
    }
    return out;
  };
  Json a = ToJson(comparison.a);
  a.Set("name", comparison.a_name);
  Json b = ToJson(comparison.b);
  b.Set("name", comparison.b_name);
  return Json::Obj({{"comparable", ToString(comparison.comparable)},
                    {"reasons", list(comparison.reasons)},
                    {"currency", comparison.currency},
                    {"pricesAreExamples", comparison.prices_are_examples},
                    {"a", std::move(a)},
                    {"b", std::move(b)},
                    {"notes", list(comparison.notes)}});
}

}  // namespace tutti::measure
