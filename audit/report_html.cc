// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "audit/report.h"
#include "audit/svg.h"
#include "audit/text.h"
#include "cli/objects.h"

namespace tutti::audit {
namespace {

constexpr size_t kBars = 12;
constexpr size_t kRows = 200;

constexpr std::string_view kStyle = R"(
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--dim:#5b6470;--line:#dfe3e8;--card:#f5f7f9;
--whole:#4a7fc1;--idle:#d0453a;--warn-bg:#fff4d6;--warn-fg:#6b4d00}
@media (prefers-color-scheme:dark){:root{--bg:#14171b;--fg:#e6e9ed;--dim:#9aa4b0;--line:#2e353d;
--card:#1d2228;--whole:#5b93d6;--idle:#ef6a5e;--warn-bg:#3a2f10;--warn-fg:#f0d48a}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:940px;padding:28px 20px 60px;background:var(--bg);color:var(--fg);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
h1{font-size:24px;margin:0 0 2px}h2{font-size:18px;margin:36px 0 8px}
.dim{color:var(--dim)}p{margin:6px 0 10px}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(250px,1fr));gap:12px;margin:18px 0}
.card{background:var(--card);border-radius:8px;padding:12px 14px}
.card b{display:block;font-size:26px;line-height:1.25;font-weight:650;white-space:nowrap}
.card.bad b{color:var(--idle)}
.warn{background:var(--warn-bg);color:var(--warn-fg);border-radius:8px;padding:9px 14px}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:14px}
th,td{padding:5px 10px 5px 0;text-align:left;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--dim);font-weight:600}td.n,th.n{text-align:right;white-space:nowrap;
font-variant-numeric:tabular-nums}
td.job{overflow-wrap:anywhere;min-width:170px}
svg{width:100%;height:auto;display:block;margin:6px 0}
svg text{fill:var(--dim);font:12px system-ui,"DejaVu Sans",sans-serif}
.grid{stroke:var(--line)}.whole{fill:var(--whole)}.idle{fill:var(--idle)}
.key i{display:inline-block;width:11px;height:11px;border-radius:2px;margin:0 6px 0 0}
.key span{margin-right:18px}code{font-size:13px;overflow-wrap:anywhere}
)";

std::string Number(int64_t number) {
  return Thousands(number);
}

class Page {
 public:
  explicit Page(const Audit& audit) : audit_(audit) {}

  std::string Write() {
    out_ =
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
        "<title>Partial starts</title><style>";
    out_ += kStyle;
    out_ += "</style></head><body>\n<h1>Jobs that started partially</h1>\n<p class=\"dim\">" +
            EscapeHtml(audit_.source) + " at " + FormatTime(audit_.facts.now) +
            (audit_.facts.now_is_guess ? " (the newest time in it)" : "") +
            ". Only read: nothing was changed.</p>\n";
    Headline();
    OverTime();
    Worst();
    Namespaces();
    Waiting();
    Devices();
    Quotas();
    Claims();
    Lines("Not judged", NotJudged());
    Lines("Notes", audit_.facts.notes);
    out_ += "</body></html>\n";
    return std::move(out_);
  }

 private:
  using Row = std::vector<std::string>;

  void Section(const std::string& title, const std::string& says = "") {
    out_ += "<h2>" + EscapeHtml(title) + "</h2>\n";
    if (!says.empty()) {
      out_ += "<p class=\"dim\">" + EscapeHtml(says) + "</p>\n";
    }
  }
  void Card(const std::string& value, const std::string& label, bool bad = false) {
    out_ += std::string("<div class=\"card") + (bad ? " bad" : "") + "\"><b>" + EscapeHtml(value) +
            "</b><span class=\"dim\">" + EscapeHtml(label) + "</span></div>\n";
  }
  // Columns from the second on are numbers, but for the last `texts`.
  void Table(const Row& head, const std::vector<Row>& rows, size_t texts = 0) {
    const auto cell = [&](const char* tag, size_t i, const std::string& text) {
      const char* kind =
          i == 0 ? " class=\"job\"" : (i + texts < head.size() ? " class=\"n\"" : "");
      out_ += std::string("<") + tag + kind + ">" + EscapeHtml(text) + "</" + tag + ">";
    };
    out_ += "<div class=\"wide\"><table><tr>";
    for (size_t i = 0; i < head.size(); ++i) {
      cell("th", i, head[i]);
    }
    out_ += "</tr>\n";
    for (const Row& row : rows) {
      out_ += "<tr>";
      for (size_t i = 0; i < row.size(); ++i) {
        cell("td", i, row[i]);
      }
      out_ += "</tr>\n";
    }
    out_ += "</table></div>\n";
  }
  void Cut(size_t all, size_t shown) {
    if (all > shown) {
      out_ += "<p class=\"dim\">and " + Number(static_cast<int64_t>(all - shown)) +
              " more; -o json has all</p>\n";
    }
  }
  void Lines(const std::string& title, const std::vector<std::string>& lines) {
    if (lines.empty()) {
      return;
    }
    Section(title);
    out_ += "<ul>";
    for (const std::string& line : lines) {
      out_ += "<li>" + EscapeHtml(line) + "</li>\n";
    }
    out_ += "</ul>\n";
  }
  [[nodiscard]] std::string Cost(const Money& money) const {
    return audit_.prices.Currency() + " " + money.ToString();
  }

  void Headline() {
    const Summary& sum = audit_.summary;
    out_ +=
        "<p>A job of several pods starts partially when some of its pods get a node and the others "
        "have to wait for one. The first ones then hold their accelerators and do nothing.</p>\n"
        "<div class=\"cards\">\n";
    Card(Number(static_cast<int64_t>(sum.partial)),
         "of " + Number(static_cast<int64_t>(sum.judged)) +
             " jobs of several pods started partially",
         sum.partial > 0);
    Card(Hours(sum.idle_seconds),
         "accelerator-hours waited idle (" + Percent(sum.idle_seconds, sum.device_seconds) +
             " of those held)",
         sum.idle_seconds > 0);
    Card(Cost(sum.idle_cost),
         std::string("is what these cost") +
             (audit_.prices.AreExamples() ? ", at example prices" : ""),
         sum.idle_seconds > 0);
    Card(Span(sum.longest), "the longest wait of a partly started job");
    Card(Number(static_cast<int64_t>(sum.partial_now)), "are in that state now",
         sum.partial_now > 0);
    Card(Number(static_cast<int64_t>(audit_.cluster.waiting.size())), "jobs wait for nodes now");
    out_ += "</div>\n";
    if (audit_.prices.AreExamples()) {
      out_ +=
          "<p class=\"warn\">The prices are made-up round numbers. Give yours with "
          "<code>--prices FILE</code>.</p>\n";
    }
    if (sum.lost > 0) {
      out_ += "<p>Not counted above: " + Number(static_cast<int64_t>(sum.lost)) +
              " jobs lost a pod after the start and held the other pods' accelerators meanwhile: " +
              Hours(sum.idle_lost_seconds) + " hours, " + EscapeHtml(Cost(sum.idle_lost_cost)) +
              ".</p>\n";
    }
  }

  void OverTime() {
    const std::string plot =
        DevicesPlot(audit_.histories.devices, audit_.summary.first, audit_.facts.now);
    if (plot.empty()) {
      return;
    }
    Section("Accelerators held by jobs of several pods");
    out_ +=
        "<p class=\"key dim\"><span><i style=\"background:var(--whole)\"></i>by whole jobs</span>"
        "<span><i style=\"background:var(--idle)\"></i>idle, by jobs that were not "
        "whole</span></p>" +
        plot + "\n";
  }

  void Worst() {
    if (audit_.worst.empty()) {
      return;
    }
    Section("The partial starts", "The most costly first. Times are UTC.");
    std::vector<Bar> bars;
    std::vector<Row> rows;
    for (const size_t index : audit_.worst) {
      const GangHistory& history = audit_.histories.gangs[index];
      const Gang& gang = audit_.facts.gangs[history.gang];
      const std::string span = Span(history.PartialAtStart());
      const Spell& first = history.spells.front();
      if (bars.size() < kBars) {
        const Money cost = history.IdleCost(true);
        const int64_t seconds =
            std::chrono::floor<std::chrono::seconds>(history.PartialAtStart()).count();
        const bool costly = audit_.summary.idle_cost.Cents() > 0;
        bars.push_back({gang.ns + "/" + gang.name, costly ? cost.Cents() : seconds,
                        (costly ? Cost(cost) + ", " : "") + span});
      }
      if (rows.size() == kRows) {
        break;
      }
      rows.push_back({gang.Title(), Number(gang.size), Number(history.devices),
                      FormatTime(first.begin).substr(0, 19).replace(10, 1, " "),
                      span + (first.ongoing ? ", still" : ""),
                      Hours(history.IdleDeviceSeconds(true)), history.IdleCost(true).ToString()});
    }
    out_ += BarsPlot(bars) + "\n";
    Table({"Job", "Pods", "GPUs", "From", "For", "Idle hours", audit_.prices.Currency()}, rows);
    Cut(audit_.worst.size(), rows.size());
  }

  void Namespaces() {
    std::map<std::string, std::pair<Money, size_t>> by;
    for (const size_t index : audit_.worst) {
      const GangHistory& history = audit_.histories.gangs[index];
      auto& [cost, jobs] = by[audit_.facts.gangs[history.gang].ns];
      cost += history.IdleCost(true);
      ++jobs;
    }
    if (by.size() < 2) {
      return;
    }
    std::vector<Bar> bars;
    for (const auto& [ns, sum] : by) {
      bars.push_back(
          {ns, sum.first.Cents(), Cost(sum.first) + ", " + cli::Count(sum.second, "job")});
    }
    std::stable_sort(bars.begin(), bars.end(),
                     [](const Bar& a, const Bar& b) { return a.value > b.value; });
    bars.resize(std::min(bars.size(), kBars));
    Section("Cost of idle accelerators by namespace");
    out_ += BarsPlot(bars) + "\n";
  }

  void Waiting() {
    if (audit_.cluster.waiting.empty()) {
      return;
    }
    Section("Jobs that wait now",
            "Whether they would fit is the answer of the engine that would place them.");
    std::vector<Row> rows;
    for (const WaitingGang& one : audit_.cluster.waiting) {
      if (rows.size() == kRows) {
        break;
      }
      const Gang& gang = audit_.facts.gangs[one.gang];
      std::string why = (gang.suspended ? "suspended; " : "") + one.verdict +
                        (one.why.empty() ? "" : ": " + one.why);
      if (gang.waits_for_quota && !gang.quota_message.empty()) {
        why += (why.empty() ? "" : ". ") + std::string("Quota: ") + gang.quota_message;
      }
      rows.push_back({gang.Title(), std::to_string(one.bound) + " of " + std::to_string(gang.size),
                      Span(audit_.facts.now - one.since), why});
    }
    Table({"Job", "Pods placed", "Waits for", "Why"}, rows, 1);
    Cut(audit_.cluster.waiting.size(), rows.size());
  }

  void Devices() {
    if (audit_.cluster.totals.empty()) {
      return;
    }
    Section(
        "Accelerators of the cluster",
        "Of use to no job: free, but no pod of any job seen here could take them where they are.");
    std::vector<Row> rows;
    for (const auto& [resource, total] : audit_.cluster.totals) {
      rows.push_back({resource, Number(total.allocatable), Number(total.used),
                      Number(total.allocatable - total.used), Number(total.stranded)});
    }
    Table({"Resource", "All", "Taken", "Free", "Of use to no job"}, rows);
    rows.clear();
    for (const Fragment& one : audit_.cluster.fragments) {
      if (rows.size() == kRows) {
        break;
      }
      rows.push_back(
          {one.node, Number(one.stranded), Number(one.free), one.resource + ": " + one.why});
    }
    if (!rows.empty()) {
      Table({"Node", "Of no use", "Free", "Why"}, rows, 1);
      Cut(audit_.cluster.fragments.size(), rows.size());
    }
  }

  void Quotas() {
    if (audit_.cluster.quotas.empty()) {
      return;
    }
    Section("Quotas that their nodes can't hold",
            "A job may get quota that no node can serve. Nodes that an autoscaler would add don't "
            "count.");
    std::vector<Row> rows;
    for (const QuotaFinding& one : audit_.cluster.quotas) {
      rows.push_back({one.queue.empty() ? "all queues together" : one.queue,
                      api::FormatAmount(one.resource, one.quota),
                      api::FormatAmount(one.resource, one.capacity), std::to_string(one.nodes),
                      one.resource + " of flavor " + one.flavor});
    }
    Table({"ClusterQueue", "Quota", "Nodes have", "Nodes", "Of what"}, rows, 1);
  }

  void Claims() {
    if (audit_.cluster.claims.empty()) {
      return;
    }
    Section("Requests that could be claims by property (DRA)",
            audit_.facts.device_drivers.empty() ? "No driver publishes devices here yet." : "");
    std::vector<Row> rows;
    for (const ClaimHint& hint : audit_.cluster.claims) {
      std::string labels = hint.resource;
      for (const auto& [key, value] : hint.wanted) {
        labels += ", " + key + " " + value;
      }
      rows.push_back({labels, Number(static_cast<int64_t>(hint.gangs)), hint.example,
                      hint.selector.empty() ? "" : hint.device_class + ": " + hint.selector});
    }
    Table({"Asked for now", "Jobs", "Such as", "Class and selector of a claim"}, rows, 2);
  }

  [[nodiscard]] std::vector<std::string> NotJudged() const {
    std::vector<std::string> out;
    for (const auto& [reason, count] : audit_.histories.unjudged) {
      out.push_back(Number(static_cast<int64_t>(count)) + (count == 1 ? " job: " : " jobs: ") +
                    reason);
    }
    return out;
  }

  const Audit& audit_;
  std::string out_;
};

}  // namespace

std::string ToHtml(const Audit& audit) {
  return Page(audit).Write();
}

}  // namespace tutti::audit
