// SPDX-License-Identifier: Apache-2.0
#include "why/search.h"

#include <algorithm>
#include <set>

#include "api/batch.h"
#include "base/names.h"
#include "cli/objects.h"

namespace tutti::why {

using reconciler::Core;
using reconciler::Unit;

std::string RootOf(const Core& core, const std::string& cluster_queue) {
  const auto queue = core.world().cluster_queues.Find({"", cluster_queue});
  if (queue == nullptr || queue->cohort.empty()) {
    return "queue " + cluster_queue;
  }
  std::string name = queue->cohort;
  std::set<std::string> seen;  // parents may form a cycle
  while (seen.insert(name).second) {
    const auto cohort = core.world().cohorts.Find({"", name});
    if (cohort == nullptr || cohort->parent.empty()) {
      break;
    }
    name = cohort->parent;
  }
  return "cohort " + name;
}

bool IsAboutPlaces(const Verdict& verdict) {
  return verdict.reason == engine::PendingReason::kNeverFitsCluster ||
         verdict.reason == engine::PendingReason::kWaitingForCapacity;
}

Search::Search(const State& state, const Core& base, const api::ObjectKey& workload, Time now,
               const SearchLimits& limits)
    : state_(state),
      base_(base),
      key_(workload),
      now_(now),
      budget_(limits.trials),
      unit_(base.units().at(workload)),
      before_(Judge(base, workload)),
      queue_(QueueOf(base, unit_)),
      root_(RootOf(base, queue_)),
      pods_(PodsOf(state, base, unit_)),
      total_(TotalOf(pods_)) {
  for (const auto& [resource, amount] : total_) {
    // Devices are what jobs wait for, wherever there are some.
    if (amount > 0 &&
        (short_of_.empty() || resource == "cpu" || resource.find('/') != std::string::npos)) {
      short_of_ = resource;
    }
  }
}

Verdict Search::Try(const std::vector<Edit>& edits) {
  if (out_.tried >= budget_) {
    out_.cut_short = true;
    return Verdict{Verdict::Kind::kWaits, {}, engine::PendingReason::kPendingEvaluation, ""};
  }
  ++out_.tried;
  State changed = state_;
  changed.Apply(edits);
  return Judge(*changed.Decide(now_), key_);
}

bool Search::Starts(const std::vector<Edit>& edits) {
  return Try(edits).kind == Verdict::Kind::kStarts;
}

std::optional<int64_t> Search::Least(int64_t most, int64_t guess,
                                     const std::function<std::vector<Edit>(int64_t)>& edits) {
  int64_t low = 0;      // not enough
  int64_t high = most;  // enough
  if (most <= 0 || !Starts(edits(most))) {
    return std::nullopt;
  }
  if (guess > 0 && guess < most) {
    (Starts(edits(guess)) ? high : low) = guess;
    if (high == guess && guess > 1) {
      (Starts(edits(guess - 1)) ? high : low) = guess - 1;
    }
  }
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (Starts(edits(middle)) ? high : low) = middle;
  }
  return high;
}

void Search::Found(RemedyKind kind, std::string text, std::vector<Edit> edits) {
  Remedy remedy;
  remedy.kind = kind;
  remedy.text = std::move(text);
  remedy.edits = std::move(edits);
  out_.found.push_back(std::move(remedy));
}

void Search::NotEnough(const std::string& what, const Verdict& verdict) {
  if (verdict.message.empty()) {
    return;  // the budget ended: nothing is known
  }
  std::string why = verdict.message;
  if (why == before_.message) {
    why = IsAboutPlaces(verdict) ? "changes nothing, since there is no place" : "changes nothing";
  }
  // With a single pod set it is clear which one is meant.
  const std::string prefix = "couldn't assign flavors to pod set ";
  if (pods_.size() == 1 && why.starts_with(prefix + pods_.front().name + ": ")) {
    why.erase(0, prefix.size() + pods_.front().name.size() + 2);
  }
  const std::string text = what + ": " + why;
  if (std::find(out_.not_enough.begin(), out_.not_enough.end(), text) == out_.not_enough.end()) {
    out_.not_enough.push_back(text);
  }
}

void Search::TryQueues() {
  std::vector<Edit> all;
  std::string names;
  const auto resume = [&](std::string_view kind, const api::ObjectKey& key) {
    const Json* object = state_.Find(kind, key);
    if (object == nullptr) {
      return;
    }
    const std::string& policy = (*object)["spec"]["stopPolicy"].AsString();
    if (policy.empty() || policy == "None") {
      return;
    }
    Json changed = *object;
    changed.At("spec").Set("stopPolicy", "None");
    all.push_back({std::string(kind), key, std::move(changed)});
    names += (names.empty() ? "" : " and ") + std::string(kind) + " " + key.ToString();
  };
  const auto workload = base_.world().workloads.Find(key_);
  const std::string local = workload != nullptr ? workload->queue_name : unit_.queued_in.name;
  resume("LocalQueue", {key_.ns, local});
  resume("ClusterQueue", {"", queue_});
  if (all.empty()) {
    return;
  }
  const Verdict verdict = Try(all);
  if (verdict.kind == Verdict::Kind::kStarts) {
    Found(RemedyKind::kResume, "resume " + names + " (spec.stopPolicy: None)", std::move(all));
  } else {
    NotEnough("resuming " + names, verdict);
  }
}

void Search::TryUncordon() {
  constexpr size_t kMostNodes = 10;
  std::vector<Edit> edits;
  for (const api::ObjectKey& key : state_.Names("Node")) {
    const Json* node = state_.Find("Node", key);
    if ((*node)["spec"]["unschedulable"].AsBool()) {
      Json changed = *node;
      Json& spec = changed.At("spec");
      spec.Erase("unschedulable");
      Json taints = Json::Arr();
      for (const Json& taint : spec["taints"].AsArray()) {
        if (taint["key"].AsString() != "node.kubernetes.io/unschedulable") {
          taints.Push(taint);
        }
      }
      spec.Set("taints", std::move(taints));
      edits.push_back({"Node", key, std::move(changed)});
    }
  }
  if (edits.empty()) {
    return;
  }
  const Verdict verdict = Try(edits);
  if (verdict.kind != Verdict::Kind::kStarts) {
    NotEnough(cli::Count(edits.size(), "cordoned node") + " back in use", verdict);
    return;
  }
  if (edits.size() <= kMostNodes) {
    for (size_t i = edits.size(); i-- > 0 && edits.size() > 1;) {
      std::vector<Edit> fewer = edits;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      if (Starts(fewer)) {
        edits = std::move(fewer);
      }
    }
  }
  std::string names;
  for (const Edit& edit : edits) {
    names += (names.empty() ? "" : ", ") + edit.key.name;
  }
  const auto count = static_cast<int32_t>(edits.size());
  const std::string text = "uncordon " + cli::Count(edits.size(), "node") + ": " + names;
  Found(RemedyKind::kUncordon, text, std::move(edits));
  out_.found.back().nodes = count;
}

void Search::TryParallelism() {
  const auto job = base_.world().JobOf(unit_.job_uid);
  if (job == nullptr || job->kind.Resource().kind != "Job" || pods_.size() != 1 ||
      pods_.front().count < 2) {
    return;
  }
  const Json* object = state_.Find("Job", job->meta.Key());
  const Json* workload = state_.Find("Workload", key_);
  const auto with = [&](int64_t pods) {
    std::vector<Edit> edits;
    Json changed = *object;
    changed.At("spec").Set("parallelism", pods);
    edits.push_back({"Job", job->meta.Key(), std::move(changed)});
    if (workload != nullptr) {
      Json described = *workload;
      Json& pod_set = described.At("spec").At("podSets").MutableArray().front();
      pod_set.Set("count", pods);
      pod_set.Erase("minCount");
      edits.push_back({"Workload", key_, std::move(described)});
    }
    // A least number of pods above the new one would contradict it.
    edits.front().object->At("metadata").At("annotations").Erase(names::kMinParallelismAnnotation);
    return edits;
  };
  int64_t low = 1;
  const Verdict one = Try(with(1));
  if (one.kind != Verdict::Kind::kStarts) {
    NotEnough("fewer pods at a time, even 1", one);
    return;
  }
  int64_t high = pods_.front().count;  // too many
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (Starts(with(middle)) ? low : high) = middle;
  }
  Found(RemedyKind::kParallelism,
        "run " + std::to_string(low) + " instead of " + std::to_string(pods_.front().count) +
            " pods at a time (spec.parallelism: " + std::to_string(low) + ")",
        with(low));
  out_.found.back().parallelism = static_cast<int32_t>(low);
}

void Search::TryPriority() {
  const auto job = base_.world().JobOf(unit_.job_uid);
  const Json* workload = state_.Find("Workload", key_);
  const int64_t now = workload != nullptr ? (*workload)["spec"]["priority"].AsInt() : 0;
  std::vector<std::pair<int64_t, std::string>> classes;
  for (const auto& [key, found] : base_.world().workload_priorities.All()) {
    if (found->value > now) {
      classes.emplace_back(found->value, key.name);
    }
  }
  std::sort(classes.begin(), classes.end());
  Verdict last;
  for (const auto& [value, name] : classes) {
    std::vector<Edit> edits;
    if (job != nullptr && !job->kind.MadeOfPods()) {
      const std::string& kind = job->kind.Resource().kind;
      Json changed = *state_.Find(kind, job->meta.Key());
      changed.At("metadata").At("labels").Set(names::kPriorityClassLabel, name);
      edits.push_back({kind, job->meta.Key(), std::move(changed)});
    }
    if (workload != nullptr) {
      Json changed = *workload;
      Json& spec = changed.At("spec");
      spec.Set("priority", value);
      spec.Set("priorityClassRef", Json::Obj({{"group", names::kKueueGroup},
                                              {"kind", "WorkloadPriorityClass"},
                                              {"name", name}}));
      edits.push_back({"Workload", key_, std::move(changed)});
    }
    last = Try(edits);
    std::vector<std::string> victims;
    if (last.kind == Verdict::Kind::kPreempts) {
      std::vector<Edit> gone = edits;  // proved: when they are gone it starts
      for (const api::ObjectKey& victim : last.victims) {
        const Unit& unit = base_.units().at(victim);
        victims.push_back(TitleOf(base_, unit));
        for (Edit& edit : EndOf(unit)) {
          gone.push_back(std::move(edit));
        }
      }
      if (!Starts(gone)) {
        continue;
      }
    } else if (last.kind != Verdict::Kind::kStarts) {
      continue;
    }
    std::string text =
        "priority class " + name + " (label " + std::string(names::kPriorityClassLabel) + ")";
    if (!victims.empty()) {
      text += "; then " + cli::Count(victims.size(), "job") + " would have to give way:";
      for (const std::string& victim : victims) {
        text += (&victim == &victims.front() ? " " : ", ") + victim;
      }
    }
    Found(RemedyKind::kPriority, std::move(text), std::move(edits));
    out_.found.back().jobs = std::move(victims);
    return;
  }
  if (!classes.empty()) {
    NotEnough("any higher priority class, even " + classes.back().second, last);
  }
}

Remedies Search::Run() {
  TryQueues();
  TryQuota();
  TryUncordon();
  TryNodes();
  TryEnds();
  TryAhead();
  TryPlacement();
  TryParallelism();
  TryPriority();
  std::stable_sort(out_.found.begin(), out_.found.end(),
                   [](const Remedy& a, const Remedy& b) { return a.kind < b.kind; });
  return std::move(out_);
}

Remedies FindRemedies(const State& state, const Core& base, const api::ObjectKey& workload,
                      Time now, const SearchLimits& limits) {
  return Search(state, base, workload, now, limits).Run();
}

}  // namespace tutti::why
