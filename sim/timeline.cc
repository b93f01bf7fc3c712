// SPDX-License-Identifier: Apache-2.0
#include "sim/timeline.h"

#include <algorithm>
#include <set>
#include <utility>

#include "sim/simulator.h"

namespace tutti::sim {
namespace {

bool IsJob(std::string_view kind) {
  return kind == "Job" || kind == "Workload";
}

std::string WhereOf(const engine::AdmitDecision& decision) {
  std::set<std::string> flavors;
  int32_t pods = 0;
  for (const engine::PodSetDecision& pod_set : decision.pod_sets) {
    pods += pod_set.count;
    for (const auto& [resource, flavor] : pod_set.flavors) {
      flavors.insert(flavor);
    }
  }
  std::set<std::string> nodes;
  for (const engine::PlacementSlot& slot : decision.placement) {
    nodes.insert(slot.node);
  }
  std::string out = cli::Count(static_cast<size_t>(pods), "pod");
  if (!nodes.empty()) {
    out += " on " + (nodes.size() == 1 ? *nodes.begin() : cli::Count(nodes.size(), "node"));
  }
  for (const std::string& flavor : flavors) {
    out += (flavor == *flavors.begin() ? ", flavor " : "+") + flavor;
  }
  return out + (decision.borrows ? ", borrows" : "");
}

// The run of one input.
class Run {
 public:
  explicit Run(const Options& options) : options_(options) {
    if (options.fair_sharing) {
      simulator_.ShareFairly();
    }
  }

  Status Load(const std::vector<cli::Document>& documents) {
    std::vector<cli::InputObject> jobs;
    cli::OnlyOnce once;
    const auto take = [&](const cli::InputObject& object) -> Status {
      if (!Simulator::Knows(object.kind) && !IsJob(object.kind)) {
        ++other_kinds_[object.kind];
        return {};
      }
      TRY(once.Check(object));
      if (IsJob(object.kind)) {
        jobs.push_back(object);
        return {};
      }
      if (object.kind == "ClusterQueue") {
        queues_.push_back(object.name);
      }
      return simulator_.Apply(object);
    };
    TRY(cli::ForEachObject(documents, take));
    for (const cli::InputObject& object : jobs) {
      Result<std::optional<Submission>> submission = simulator_.Read(object);
      if (!submission) {
        return Fail(submission.error().With(object.where + ": " + object.Title()));
      }
      if (*submission) {
        if (!ids_.insert((*submission)->input.id).second) {
          return Fail(ErrorCode::kInvalid, object.where + ": a Job and a Workload are both named " +
                                               (*submission)->input.id + ": rename one");
        }
        submissions_.push_back(std::move(**submission));
      }
    }
    simulator_.Finish();
    if (submissions_.empty()) {
      std::string why = "no Job and no Workload with a queue to simulate";
      for (const std::string& note : Notes()) {
        why += "; " + note;
      }
      return Fail(ErrorCode::kInvalid, why);
    }
    SortByArrival();
    return {};
  }

  Result<Report> Play() {
    size_t next = 0;
    simulator_.SpreadEvictions();
    while (next < submissions_.size() || !ends_.empty() || simulator_.DueAt()) {
      Duration now = next < submissions_.size() ? submissions_[next].arrives : Duration::max();
      if (!ends_.empty()) {
        now = std::min(now, ends_.begin()->first);
      }
      now = std::min(now, simulator_.DueAt().value_or(Duration::max()));
      if (options_.until && now > *options_.until) {
        break;
      }
      Advance(now);
      while (!ends_.empty() && ends_.begin()->first == now) {
        const size_t index = ends_.begin()->second;
        ends_.erase(ends_.begin());
        End(index);
      }
      const size_t first = next;
      for (; next < submissions_.size() && submissions_[next].arrives == now; ++next) {
        Arrive(next);
      }
      TRY(Settle());
      for (size_t i = first; i < next; ++i) {
        if (!report_.jobs[i].started) {
          Note(EventKind::kWaits, i, report_.jobs[i].message);
        }
      }
    }
    if (options_.until && *options_.until > now_) {
      Advance(*options_.until);
    }
    return Finish();
  }

 private:
  void SortByArrival() {
    Time first = kNoTime;
    for (const Submission& submission : submissions_) {
      if (!submission.arrival_said && submission.created != kNoTime &&
          (first == kNoTime || submission.created < first)) {
        first = submission.created;
      }
    }
    for (Submission& submission : submissions_) {
      if (!submission.arrival_said && submission.created != kNoTime) {
        submission.arrives = submission.created - first;
      }
    }
    std::stable_sort(
        submissions_.begin(), submissions_.end(),
        [](const Submission& a, const Submission& b) { return a.arrives < b.arrives; });
    for (size_t i = 0; i < submissions_.size(); ++i) {
      const Submission& submission = submissions_[i];
      index_[submission.input.id] = i;
      JobResult job;
      job.workload = submission.input.id;
      job.title = submission.title;
      job.pods = submission.pods;
      job.arrives = submission.arrives;
      report_.jobs.push_back(std::move(job));
    }
  }

  void Note(EventKind kind, size_t index, std::string text) {
    report_.events.push_back({now_, kind, report_.jobs[index].workload, std::move(text)});
  }

  // Time goes on to `to`; what is held until then counts.
  void Advance(Duration to) {
    for (const auto& [key, held] : held_) {
      totals_[key] += static_cast<double>(held) * static_cast<double>((to - now_).count());
    }
    now_ = to;
  }

  void Arrive(size_t index) {
    simulator_.Submit(submissions_[index], now_);
    waits_since_[index] = now_;
    Note(EventKind::kArrives, index,
         cli::Count(static_cast<size_t>(submissions_[index].pods), "pod"));
  }

  void End(size_t index) {
    simulator_.End(submissions_[index].input.id);
    report_.jobs[index].ended = now_;
    Note(EventKind::kEnds, index, "");
  }

  Status Settle() {
    TRY_ASSIGN(const std::vector<Settled> passes, simulator_.Settle(now_));
    for (const Settled& settled : passes) {
      for (const engine::PendingDecision& pending : settled.pending) {
        JobResult& job = report_.jobs[index_.at(pending.id)];
        job.reason = engine::ToString(pending.reason);
        job.message = pending.message;
      }
      for (const engine::AdmitDecision& decision : settled.admitted) {
        Start(decision);
      }
      for (const Preemption& preemption : settled.preempted) {
        TakeOff(preemption);
      }
    }
    MeasureUsage();
    return {};
  }

  void Start(const engine::AdmitDecision& decision) {
    const size_t index = index_.at(decision.id);
    JobResult& job = report_.jobs[index];
    job.started = now_;
    job.cluster_queue = decision.cluster_queue;
    job.waited += now_ - waits_since_[index];
    waits_since_.erase(index);
    Note(EventKind::kStarts, index, WhereOf(decision));
    if (submissions_[index].runs) {
      ends_.emplace(now_ + *submissions_[index].runs, index);
    }
  }

  // It starts from the beginning when its turn comes again.
  void TakeOff(const Preemption& preemption) {
    const size_t index = index_.at(preemption.victim);
    JobResult& job = report_.jobs[index];
    ++job.preempted;
    if (submissions_[index].runs) {
      ends_.erase({*job.started + *submissions_[index].runs, index});
    }
    waits_since_[index] = now_;
    Note(EventKind::kPreempted, index, "for " + preemption.preemptor);
  }

  void MeasureUsage() {
    for (const std::string& queue : queues_) {
      for (const engine::FlavorUsage& usage : simulator_.engine().Report(queue).usage) {
        const Key key{queue, usage.flavor, usage.resource};
        held_[key] = usage.reserved;
        peaks_[key] = std::max(peaks_[key], usage.reserved);
        nominal_[key] = usage.nominal;
      }
    }
  }

  Report Finish() {
    report_.end = now_;
    for (const auto& [index, since] : waits_since_) {
      report_.jobs[index].waited += now_ - since;
    }
    for (JobResult& job : report_.jobs) {
      if (job.started && !waits_since_.contains(index_.at(job.workload))) {
        job.reason.clear();
        job.message.clear();
      }
    }
    const double span = static_cast<double>(now_.count());
    for (const auto& [key, nominal] : nominal_) {
      const auto& [queue, flavor, resource] = key;
      report_.usage.push_back({queue, flavor, resource, nominal,
                               span > 0 ? totals_[key] / span : static_cast<double>(held_[key]),
                               peaks_[key]});
    }
    report_.notes = Notes();
    return std::move(report_);
  }

  [[nodiscard]] std::vector<std::string> Notes() const {
    std::vector<std::string> notes = simulator_.Notes();
    for (const auto& [kind, count] : other_kinds_) {
      notes.push_back(kind + " is not looked at: " + cli::Count(count, "object"));
    }
    return notes;
  }

  using Key = std::tuple<std::string, std::string, std::string>;  // queue, flavor, resource
  Options options_;
  Simulator simulator_;
  std::vector<std::string> queues_;
  std::map<std::string, size_t> other_kinds_;
  std::set<std::string> ids_;
  std::vector<Submission> submissions_;  // in order of arrival
  std::map<std::string, size_t> index_;
  std::set<std::pair<Duration, size_t>> ends_;
  std::map<size_t, Duration> waits_since_;
  Duration now_{};
  std::map<Key, int64_t> held_;
  std::map<Key, int64_t> peaks_;
  std::map<Key, int64_t> nominal_;
  std::map<Key, double> totals_;
  Report report_;
};

// A batch line: steps that the caller brings.
class Steps {
 public:
  Result<Json> Play(const Json& line) {
    if (line["fairSharing"].AsBool()) {
      simulator_.ShareFairly();
    }
    TRY(ApplyAll(line["items"], "items", /*jobs=*/false));
    simulator_.Finish();
    Json steps = Json::Arr();
    const Json::Array& wanted = line["steps"].AsArray();
    for (size_t i = 0; i < wanted.size(); ++i) {
      now_ += std::chrono::minutes(1);
      TRY_ASSIGN(Json step, PlayOne(wanted[i], "steps[" + std::to_string(i) + "]"));
      steps.Push(std::move(step));
    }
    return steps;
  }

 private:
  Status ApplyAll(const Json& items, const std::string& where, bool jobs) {
    std::vector<cli::Document> documents;
    const Json::Array& objects = items.AsArray();
    for (size_t i = 0; i < objects.size(); ++i) {
      documents.push_back({where + "[" + std::to_string(i) + "]", objects[i]});
    }
    return cli::ForEachObject(documents, [&](const cli::InputObject& object) -> Status {
      if (Simulator::Knows(object.kind)) {
        return simulator_.Apply(object);
      }
      if (!jobs || !IsJob(object.kind)) {
        return Fail(ErrorCode::kInvalid, object.kind + " can't be used here");
      }
      TRY_ASSIGN(const std::optional<Submission> submission, simulator_.Read(object));
      if (!submission) {
        return Fail(ErrorCode::kInvalid, "takes no part: " + simulator_.Notes().back());
      }
      now_ += std::chrono::seconds(1);
      simulator_.Submit(*submission, now_);
      waiting_.insert(submission->input.id);
      return {};
    });
  }

  static Json ToJson(const engine::AdmitDecision& decision) {
    Json pod_sets = Json::Arr();
    for (const engine::PodSetDecision& pod_set : decision.pod_sets) {
      Json flavors = Json::Obj({});
      for (const auto& [resource, flavor] : pod_set.flavors) {
        flavors.Set(resource, flavor);
      }
      pod_sets.Push(Json::Obj({{"name", pod_set.name},
                               {"count", static_cast<int64_t>(pod_set.count)},
                               {"flavors", std::move(flavors)}}));
    }
    return Json::Obj({{"workload", decision.id},
                      {"clusterQueue", decision.cluster_queue},
                      {"podSets", std::move(pod_sets)}});
  }

  Result<Json> PlayOne(const Json& step, const std::string& where) {
    TRY(ApplyAll(step["apply"], where + ".apply", /*jobs=*/true));
    for (const Json& object : step["delete"].AsArray()) {
      const Status deleted = simulator_.Delete(
          object["kind"].AsString(), object["namespace"].AsString(), object["name"].AsString());
      if (!deleted) {
        return Fail(deleted.error().With(where + ".delete"));
      }
    }
    for (const Json& id : step["end"].AsArray()) {
      simulator_.End(id.AsString());
      waiting_.erase(id.AsString());
    }
    Json admitted = Json::Arr();
    Json preempted = Json::Arr();
    TRY_ASSIGN(const std::vector<Settled> passes, simulator_.Settle(now_));
    for (const Settled& settled : passes) {
      for (const engine::AdmitDecision& decision : settled.admitted) {
        waiting_.erase(decision.id);
        admitted.Push(ToJson(decision));
      }
      for (const Preemption& preemption : settled.preempted) {
        waiting_.insert(preemption.victim);
        preempted.Push(Json::Obj({{"victim", preemption.victim},
                                  {"preemptor", preemption.preemptor},
                                  {"reason", preemption.reason}}));
      }
    }
    Json pending = Json::Arr();
    for (const std::string& id : waiting_) {
      const std::optional<engine::PendingDecision> why = simulator_.engine().WhyPending(id);
      pending.Push(Json::Obj({{"workload", id},
                              {"reason", why ? engine::ToString(why->reason) : ""},
                              {"message", why ? why->message : ""}}));
    }
    return Json::Obj({{"admitted", std::move(admitted)},
                      {"preempted", std::move(preempted)},
                      {"pending", std::move(pending)}});
  }

  Simulator simulator_;
  Duration now_{};
  std::set<std::string> waiting_;
};

}  // namespace

std::string_view ToString(EventKind kind) {
  switch (kind) {
    case EventKind::kArrives:
      return "arrives";
    case EventKind::kWaits:
      return "waits";
    case EventKind::kStarts:
      return "starts";
    case EventKind::kPreempted:
      return "preempted";
    case EventKind::kEnds:
      return "ends";
  }
  return "";
}

Result<Report> Simulate(const std::vector<cli::Document>& documents, const Options& options) {
  Run run(options);
  TRY(run.Load(documents));
  return run.Play();
}

Json SimulateLine(std::string_view line) {
  const Result<Json> parsed = Json::Parse(line);
  if (!parsed) {
    return Json::Obj({{"id", nullptr}, {"error", parsed.error().message}});
  }
  const Json& id = (*parsed)["id"];
  for (const char* field : {"items", "steps"}) {
    if (!(*parsed)[field].IsArray()) {
      return Json::Obj({{"id", id}, {"error", std::string(field) + ": must be an array"}});
    }
  }
  Result<Json> steps = Steps().Play(*parsed);
  if (!steps) {
    return Json::Obj({{"id", id}, {"error", steps.error().message}});
  }
  return Json::Obj({{"id", id}, {"steps", std::move(*steps)}});
}

}  // namespace tutti::sim
