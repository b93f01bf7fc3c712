// SPDX-License-Identifier: Apache-2.0
// An answer for a terminal, without colours, and as JSON.
#include <algorithm>
#include <utility>

#include "audit/text.h"
#include "cli/objects.h"
#include "why/answer.h"

namespace tutti::why {
namespace {

constexpr size_t kHolders = 5;
constexpr size_t kLabel = 10;   // columns of what stands before a value
constexpr size_t kRoomy = 100;  // columns from which on a row has room for all amounts
constexpr size_t kAll = 100;

class Page : private audit::TextPage {
 public:
  Page(const Answer& answer, size_t width) : TextPage(width), answer_(answer) {}

  std::string Write() {
    std::visit([this](const auto& what) { Show(what); }, answer_.what);
    if (!answer_.notes.empty()) {
      Section("Notes");
      for (const std::string& note : answer_.notes) {
        Item("-", note);
      }
    }
    return Take();
  }

 private:
  void Item(const std::string& bullet, const std::string& text) { Hang("  " + bullet + " ", text); }
  void Field(const std::string& label, const std::string& text) {
    Hang("  " + label + std::string(kLabel - std::min(kLabel - 1, label.size()), ' '), text);
  }
  // The first columns are names, which give way where a row is too wide, the widest first; the
  // first `left` begin at the left.
  void NamesTable(const std::vector<Row>& rows, size_t names, size_t left) {
    std::vector<size_t> widths(rows.front().size());
    for (const Row& row : rows) {
      for (size_t i = 0; i < row.size(); ++i) {
        widths[i] = std::max(widths[i], audit::Columns(row[i]));
      }
    }
    size_t all = 0;
    for (const size_t width : widths) {
      all += width + 2;
    }
    for (size_t over = all > width() ? all - width() : 0; over > 0;) {
      const auto widest =
          std::max_element(widths.begin(), widths.begin() + static_cast<std::ptrdiff_t>(names));
      if (*widest <= kLabel) {
        break;
      }
      --*widest;
      --over;
    }
    for (const Row& row : rows) {
      std::string line;
      for (size_t i = 0; i < row.size(); ++i) {
        const std::string cell = i < names ? audit::Shorten(row[i], widths[i]) : row[i];
        const std::string pad(widths[i] - std::min(widths[i], audit::Columns(cell)), ' ');
        line += "  " + (i < left ? cell + pad : pad + cell);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      Line(line);
    }
  }

  [[nodiscard]] std::string Ago(Time time) const {
    return FormatTime(time) + " (" + audit::Span(answer_.now - time) + ")";
  }
  [[nodiscard]] static std::string QueueText(const std::string& queue, const std::string& cohort) {
    return "ClusterQueue " + queue + (cohort.empty() ? "" : " (cohort " + cohort + ")");
  }

  void Quota(const std::vector<QuotaLine>& lines, const std::string& queue, bool job) {
    if (lines.empty()) {
      return;
    }
    const bool cohort = std::any_of(lines.begin(), lines.end(), [](const QuotaLine& line) {
      return line.cohort_nominal.has_value();
    });
    Section("Quota of ClusterQueue " + queue);
    std::vector<Row> rows = {{"FLAVOR", "RESOURCE", "QUOTA", "USED", "BORROWED"}};
    if (cohort) {
      rows.front().insert(rows.front().end(), {"COHORT", "USED"});
    }
    if (job) {
      rows.front().emplace_back("JOB ASKS");
    }
    for (const QuotaLine& line : lines) {
      const auto text = [&](int64_t amount) { return api::FormatAmount(line.resource, amount); };
      Row row = {line.flavor, line.resource, text(line.nominal), text(line.reserved),
                 text(line.borrowed)};
      if (cohort) {
        row.push_back(line.cohort_nominal ? text(*line.cohort_nominal) : "-");
        row.push_back(line.cohort_reserved ? text(*line.cohort_reserved) : "-");
      }
      if (job) {
        row.push_back(text(line.asked));
      }
      rows.push_back(std::move(row));
    }
    NamesTable(rows, 2, 2);
  }

  void Holders(const std::vector<Holder>& holders, const std::string& cohort) {
    if (holders.empty()) {
      return;
    }
    Section(cohort.empty() ? "Who has the quota" : "Who has the quota (in the whole cohort)");
    std::vector<Row> rows;
    for (size_t i = 0; i < std::min(holders.size(), kHolders); ++i) {
      const Holder& holder = holders[i];
      rows.push_back({holder.title, holder.cluster_queue,
                      AmountsText(holder.amounts, width() < kRoomy ? 1 : kAll),
                      holder.since == kNoTime ? "-" : audit::Span(answer_.now - holder.since)});
    }
    rows.insert(rows.begin(), {"JOB", "CLUSTERQUEUE", "HAS", "FOR"});
    NamesTable(rows, 2, 3);
    if (holders.size() > kHolders) {
      Line("  and " + cli::Count(holders.size() - kHolders, "more job") + " (-o json has all)");
    }
  }

  void Show(const JobAnswer& job) {
    Hang("", job.title + " " + job.summary + ".");
    if (job.state == JobAnswer::State::kNotQueued) {
      return;
    }
    Line("");
    std::string pods;
    for (const PodsAsked& asked : job.pods) {
      pods += (pods.empty() ? "" : "; ") + cli::Count(static_cast<size_t>(asked.count), "pod") +
              (job.pods.size() > 1 ? " " + asked.name : "") + " of " + AmountsText(asked.each);
    }
    if (!pods.empty()) {
      const bool one = job.pods.size() == 1 && job.pods.front().count == 1;
      Field("asks for", pods + (one ? "" : ", together " + AmountsText(TotalOf(job.pods))));
    }
    if (!job.cluster_queue.empty()) {
      Field("queue", job.local_queue + " of " + QueueText(job.cluster_queue, job.cohort) +
                         (job.position == 0 ? ""
                                            : "; number " + std::to_string(job.position) + " of " +
                                                  std::to_string(job.waiting) + " that wait") +
                         "; priority " + std::to_string(job.priority));
    }
    const bool waits = job.state == JobAnswer::State::kWaits ||
                       job.state == JobAnswer::State::kWaitsForOthersToStop ||
                       job.state == JobAnswer::State::kHeldBack ||
                       job.state == JobAnswer::State::kStartsNext;
    if (job.since != kNoTime) {
      Field(waits ? "waits" : "since", waits ? "since " + Ago(job.since) : Ago(job.since));
    }
    if (!job.message.empty()) {
      Field("short of", job.message + " (" + job.reason + ")");
    }
    if (waits && job.state != JobAnswer::State::kStartsNext) {
      Field("when", "unknown: nobody has said how long the others run");
    }
    Quota(job.quota, job.cluster_queue, /*job=*/true);
    Holders(job.holders, job.cohort);
    if (!job.remedies) {
      return;
    }
    Section("Any one of these would start it now");
    size_t number = 0;
    for (const Remedy& remedy : job.remedies->found) {
      Item(std::to_string(++number) + ".", remedy.text);
    }
    if (number == 0) {
      Item("-", "nothing that was tried");
    }
    if (!job.remedies->not_enough.empty()) {
      Section("Not enough by itself");
      for (const std::string& text : job.remedies->not_enough) {
        Item("-", text);
      }
    }
    Line("");
    Hang("  ",
         cli::Count(job.remedies->tried, "change") +
             " tried on a copy of this state; nothing was changed." +
             (job.remedies->cut_short ? " Not everything could be tried: there may be smaller ones."
                                      : ""));
  }

  void Show(const QueueAnswer& queue) {
    Hang("", queue.title + " " + queue.summary + ".");
    Line("");
    Field("is", QueueText(queue.cluster_queue, queue.cohort));
    Field("has quota", cli::Count(queue.holding, "job"));
    Field("waits", cli::Count(queue.waiting, "job"));
    if (!queue.head.empty()) {
      Field("next", queue.head + (queue.head_message.empty() ? ""
                                                             : ": " + queue.head_message + " (" +
                                                                   queue.head_reason + ")"));
    }
    Quota(queue.quota, queue.cluster_queue, /*job=*/false);
    Holders(queue.holders, queue.cohort);
  }

  const Answer& answer_;
};

Json JsonOf(const api::Amounts& amounts) {
  Json out = Json::Obj();
  for (const auto& [resource, amount] : amounts) {
    out.Set(resource, api::FromAmount(resource, amount).ToString());
  }
  return out;
}

Json JsonOf(const std::vector<std::string>& texts) {
  Json out = Json::Arr();
  for (const std::string& text : texts) {
    out.Push(text);
  }
  return out;
}

Json TimeOrNull(Time time) {
  return time == kNoTime ? Json() : Json(FormatTime(time));
}

Json JsonOf(const std::vector<QuotaLine>& lines) {
  Json out = Json::Arr();
  for (const QuotaLine& line : lines) {
    const auto text = [&](int64_t amount) {
      return api::FromAmount(line.resource, amount).ToString();
    };
    Json one = Json::Obj({{"flavor", line.flavor},
                          {"resource", line.resource},
                          {"nominal", text(line.nominal)},
                          {"reserved", text(line.reserved)},
                          {"borrowed", text(line.borrowed)},
                          {"asked", text(line.asked)}});
    if (line.cohort_nominal) {
      one.Set("cohortNominal", text(*line.cohort_nominal));
      one.Set("cohortReserved", text(line.cohort_reserved.value_or(0)));
    }
    out.Push(std::move(one));
  }
  return out;
}

Json JsonOf(const std::vector<Holder>& holders) {
  Json out = Json::Arr();
  for (const Holder& holder : holders) {
    out.Push(Json::Obj({{"job", holder.title},
                        {"clusterQueue", holder.cluster_queue},
                        {"holds", JsonOf(holder.amounts)},
                        {"since", TimeOrNull(holder.since)}}));
  }
  return out;
}

Json JsonOf(const Remedy& remedy) {
  Json out = Json::Obj({{"kind", ToString(remedy.kind)}, {"text", remedy.text}});
  if (!remedy.quota.empty()) {
    Json quota = Json::Arr();
    for (const MoreQuota& more : remedy.quota) {
      quota.Push(Json::Obj({{"clusterQueue", more.cluster_queue},
                            {"flavor", more.flavor},
                            {"resource", more.resource},
                            {"more", api::FromAmount(more.resource, more.amount).ToString()}}));
    }
    out.Set("quota", std::move(quota));
  }
  if (remedy.nodes > 0) {
    out.Set("nodes", remedy.nodes);
  }
  if (remedy.parallelism > 0) {
    out.Set("parallelism", remedy.parallelism);
  }
  if (!remedy.jobs.empty()) {
    out.Set("jobs", JsonOf(remedy.jobs));
  }
  return out;
}

Json JsonOf(const JobAnswer& job) {
  Json pods = Json::Arr();
  for (const PodsAsked& asked : job.pods) {
    pods.Push(Json::Obj(
        {{"name", asked.name}, {"count", asked.count}, {"requests", JsonOf(asked.each)}}));
  }
  Json out = Json::Obj({{"job", job.title},
                        {"state", ToString(job.state)},
                        {"summary", job.summary},
                        {"workload", job.workload},
                        {"localQueue", job.local_queue},
                        {"clusterQueue", job.cluster_queue},
                        {"cohort", job.cohort},
                        {"priority", job.priority},
                        {"podSets", std::move(pods)},
                        {"since", TimeOrNull(job.since)},
                        {"position", static_cast<int64_t>(job.position)},
                        {"waiting", static_cast<int64_t>(job.waiting)},
                        {"reason", job.reason},
                        {"message", job.message},
                        {"when", "unknown"},
                        {"quota", JsonOf(job.quota)},
                        {"holders", JsonOf(job.holders)}});
  if (job.remedies) {
    Json found = Json::Arr();
    for (const Remedy& remedy : job.remedies->found) {
      found.Push(JsonOf(remedy));
    }
    out.Set("remedies", std::move(found));
    out.Set("notEnough", JsonOf(job.remedies->not_enough));
    out.Set("tried", static_cast<int64_t>(job.remedies->tried));
    out.Set("cutShort", job.remedies->cut_short);
  }
  return out;
}

Json JsonOf(const QueueAnswer& queue) {
  return Json::Obj({{"queue", queue.title},
                    {"clusterQueue", queue.cluster_queue},
                    {"cohort", queue.cohort},
                    {"active", queue.active},
                    {"summary", queue.summary},
                    {"waiting", static_cast<int64_t>(queue.waiting)},
                    {"holding", static_cast<int64_t>(queue.holding)},
                    {"head", queue.head},
                    {"headReason", queue.head_reason},
                    {"headMessage", queue.head_message},
                    {"quota", JsonOf(queue.quota)},
                    {"holders", JsonOf(queue.holders)}});
}

}  // namespace

std::string ToText(const Answer& answer, size_t width) {
  return Page(answer, width).Write();
}

Json ToJson(const Answer& answer) {
  Json out = std::visit([](const auto& what) { return JsonOf(what); }, answer.what);
  out.Set("at", TimeOrNull(answer.now));
  out.Set("source", answer.source);
  out.Set("notes", JsonOf(answer.notes));
  return out;
}

}  // namespace tutti::why
