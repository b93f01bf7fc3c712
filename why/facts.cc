// SPDX-License-Identifier: Apache-2.0
// What a decided state says of one workload.
#include <algorithm>

#include "api/pod_requests.h"
#include "reconciler/resource_rules.h"
#include "reconciler/shapes.h"
#include "why/remedies.h"

namespace tutti::why {

using reconciler::Core;
using reconciler::Unit;

Verdict Judge(const Core& core, const api::ObjectKey& workload) {
  Verdict verdict;
  const auto found = core.units().find(workload);
  if (found == core.units().end() || found->second.in_engine == Unit::InEngine::kNo) {
    return verdict;
  }
  if (found->second.in_engine == Unit::InEngine::kReserved) {
    verdict.kind = Verdict::Kind::kStarts;
    return verdict;
  }
  verdict.kind = Verdict::Kind::kWaits;
  const std::string id = workload.ToString();
  if (const auto why = core.engine().WhyPending(id)) {
    verdict.reason = why->reason;
    verdict.message = why->message;
  }
  for (const auto& [key, unit] : core.units()) {
    if (unit.preempted.has_value() && unit.preempted->by == id) {
      verdict.victims.push_back(key);
    }
  }
  if (!verdict.victims.empty()) {
    verdict.kind = Verdict::Kind::kPreempts;
  }
  return verdict;
}

std::string TitleOf(const Core& core, const Unit& unit) {
  const auto job = core.world().JobOf(unit.job_uid);
  if (job != nullptr && !job->kind.MadeOfPods()) {
    return job->kind.Resource().kind + " " + job->meta.Key().ToString();
  }
  const auto workload = core.world().workloads.Find(unit.key);
  if (job == nullptr && workload != nullptr) {
    if (const api::OwnerReference* owner = workload->meta.Controller()) {
      return owner->kind + " " + api::ObjectKey{unit.key.ns, owner->name}.ToString();
    }
  }
  return (job != nullptr ? "Pods of " : "Workload ") + unit.key.ToString();
}

api::Amounts HeldBy(const Core& core, const Unit& unit, const std::string& flavor) {
  api::Amounts held;
  if (unit.assumed.has_value()) {
    for (const engine::PodSetDecision& pod_set : unit.assumed->pod_sets) {
      for (const auto& [resource, of] : pod_set.flavors) {
        const auto amount = pod_set.usage.find(resource);
        if ((flavor.empty() || of == flavor) && amount != pod_set.usage.end()) {
          held[resource] = api::SaturatingAdd(held[resource], amount->second);
        }
      }
    }
    return held;
  }
  const auto workload = core.world().workloads.Find(unit.key);
  if (workload == nullptr || !workload->status.admission.has_value()) {
    return held;
  }
  for (const api::PodSetAssignment& pod_set : workload->status.admission->assignments) {
    for (const auto& [resource, of] : pod_set.flavors) {
      const auto amount = pod_set.resource_usage.find(resource);
      if ((flavor.empty() || of == flavor) && amount != pod_set.resource_usage.end()) {
        held[resource] =
            api::SaturatingAdd(held[resource], api::ToAmount(resource, amount->second));
      }
    }
  }
  return held;
}

std::string QueueOf(const Core& core, const Unit& unit) {
  if (unit.assumed.has_value()) {
    return unit.assumed->cluster_queue;
  }
  const auto workload = core.world().workloads.Find(unit.key);
  if (workload != nullptr && workload->QuotaReserved()) {
    return workload->status.admission->cluster_queue;
  }
  const std::string name = workload != nullptr ? workload->queue_name : unit.queued_in.name;
  const auto local = core.world().local_queues.Find({unit.key.ns, name});
  return local != nullptr ? local->cluster_queue : "";
}

std::vector<PodsAsked> PodsOf(const State& state, const Core& core, const Unit& unit) {
  std::vector<PodsAsked> out;
  const auto job = core.world().JobOf(unit.job_uid);
  std::vector<api::PodSet> pod_sets;
  if (const auto workload = core.world().workloads.Find(unit.key)) {
    pod_sets = workload->pod_sets;
  } else if (job != nullptr) {
    if (const auto described = job->Describe()) {
      pod_sets = described->pod_sets;
    }
  }
  for (const api::PodSet& pod_set : pod_sets) {
    PodsAsked asked{pod_set.name, pod_set.count, {}};
    if (job != nullptr) {
      asked.count = std::min(asked.count, std::max(1, job->Remaining(pod_set)));
    }
    const reconciler::TemplateRefs refs = reconciler::RefsOf(pod_set.template_json);
    const Result<Json> parsed = Json::Parse(pod_set.template_json);
    if (parsed) {
      if (const auto shape =
              api::ShapeOf(*parsed, core.world().ContextOf(unit.key.ns, refs.runtime_class))) {
        asked.each = reconciler::ApplyResourceRules(state.options().resources, shape->requests);
      }
    }
    out.push_back(std::move(asked));
  }
  return out;
}

api::Amounts TotalOf(const std::vector<PodsAsked>& pods) {
  api::Amounts total;
  for (const PodsAsked& asked : pods) {
    api::AddTo(total, asked.each, asked.count);
  }
  return total;
}

std::string AmountsText(const api::Amounts& amounts, size_t most) {
  std::string text;
  size_t shown = 0;
  size_t left = 0;
  for (const bool devices : {true, false}) {
    for (const auto& [resource, amount] : amounts) {
      if (amount == 0 || devices != (resource.find('/') != std::string::npos)) {
        continue;
      }
      if (shown == most) {
        ++left;
        continue;
      }
      ++shown;
      text += (text.empty() ? "" : ", ") + api::FormatAmount(resource, amount) + " " + resource;
    }
  }
  return text.empty() ? "nothing" : text + (left > 0 ? ", …" : "");
}

std::string_view ToString(RemedyKind kind) {
  switch (kind) {
    case RemedyKind::kResume:
      return "resume";
    case RemedyKind::kUncordon:
      return "uncordon";
    case RemedyKind::kEnds:
      return "ends";
    case RemedyKind::kAhead:
      return "ahead";
    case RemedyKind::kPlacement:
      return "placement";
    case RemedyKind::kParallelism:
      return "parallelism";
    case RemedyKind::kQuota:
      return "quota";
    case RemedyKind::kNodes:
      return "nodes";
    case RemedyKind::kQuotaAndNodes:
      return "quotaAndNodes";
    case RemedyKind::kPriority:
      return "priority";
  }
  return "";
}

}  // namespace tutti::why
