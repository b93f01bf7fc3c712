// SPDX-License-Identifier: Apache-2.0
// Workload slices (Kueue's elastic jobs): a job that grows gets a second workload, which takes the
// place of the first. Until that is gone both are reserved; the second counts only what it has
// beyond the first, so that together they cost what the second asks for.
#include <algorithm>

#include "engine/engine_impl.h"

namespace tutti::engine {

void EngineImpl::DropReplacement(WorkloadId id) {
  WorkloadState& workload = Workload(id);
  if (workload.replacement == nullptr) {
    return;
  }
  const auto known = replacers_.find(workload.replacement->replaces);
  known->second.erase(Key(id).id);
  if (known->second.empty()) {
    replacers_.erase(known);
  }
  workload.replacement.reset();
}

void EngineImpl::SetReplacement(WorkloadId id, const WorkloadInput& input) {
  DropReplacement(id);
  if (!input.replaces.empty()) {
    Workload(id).replacement =
        std::make_unique<Replacement>(Replacement{input.replaces, input.replaced, {}});
    replacers_[input.replaces].insert(Key(id).id);
  }
}

// The workload whose place this one takes, as long as it holds quota of the same ClusterQueue.
WorkloadId EngineImpl::Replaced(WorkloadId id) const {
  const WorkloadState& workload = Workload(id);
  if (workload.replacement == nullptr) {
    return WorkloadId{};
  }
  const WorkloadId old = Find(workload.replacement->replaces);
  return old.Valid() && old != id && Workload(old).phase == Phase::kReserved &&
                 Workload(old).queue == workload.queue
             ? old
             : WorkloadId{};
}

void EngineImpl::SetHeld(WorkloadId id, std::vector<PodSetSpec>& specs) const {
  if (!Replaced(id).Valid() || !Workload(id).replacement->replaced) {
    return;
  }
  const api::Admission& replaced = *Workload(id).replacement->replaced;
  for (PodSetSpec& spec : specs) {
    for (const api::PodSetAssignment& old : replaced.assignments) {
      if (old.name != spec.name) {
        continue;
      }
      spec.held_pods = old.count.value_or(0);
      spec.min_count = spec.count;  // a slice grows whole
      for (const auto& [resource, flavor] : old.flavors) {
        const auto amount = old.resource_usage.find(resource);
        // Known by name since it was reserved.
        spec.held.push_back({tables_.resources.Find(resource), tables_.flavors.Find(flavor),
                             amount == old.resource_usage.end()
                                 ? 0
                                 : std::max<int64_t>(0, api::ToAmount(resource, amount->second))});
      }
    }
  }
}

// The pod sets of a class, with what this member of it has already.
EngineImpl::PodSets EngineImpl::SpecsOf(WorkloadId id, const WorkloadClass& cls) const {
  if (!Replaced(id).Valid()) {
    return {cls.spec, &cls.spec->pod_sets};
  }
  auto specs = std::make_shared<std::vector<PodSetSpec>>(cls.spec->pod_sets);
  SetHeld(id, *specs);
  return specs;
}

Usage EngineImpl::Beyond(const Usage& whole, WorkloadId replaced) const {
  if (!replaced.Valid()) {
    return whole;
  }
  const WorkloadState& old = Workload(replaced);
  const Usage& held = old.replacement == nullptr ? old.usage : old.replacement->whole;
  Usage beyond;
  for (const auto& [pair, amount] : whole) {
    const auto known = std::find_if(held.begin(), held.end(), [&, key = pair](const auto& entry) {
      return entry.first == key;
    });
    AddUsage(beyond, pair, std::max<Amount>(0, amount - (known == held.end() ? 0 : known->second)));
  }
  return beyond;
}

// After what `replaced` holds has changed, or it holds nothing any more.
void EngineImpl::Recount(const std::string& replaced) {
  const auto known = replacers_.find(replaced);
  if (known == replacers_.end()) {
    return;
  }
  for (const std::string& name : known->second) {
    const WorkloadId id = Find(name);
    WorkloadState& workload = Workload(id);
    if (workload.phase != Phase::kReserved) {
      continue;
    }
    Usage usage = Beyond(workload.replacement->whole, Replaced(id));
    if (usage == workload.usage) {
      continue;
    }
    AddToBooks(id, -1);
    workload.usage = std::move(usage);
    AddToBooks(id, +1);
    if (!config_dirty_ && Queue(workload.queue).exists) {
      for (const auto& [pair, amount] : workload.usage) {
        ExcuseOverLimit(Queue(workload.queue).node, pair);
      }
    }
  }
}

}  // namespace tutti::engine
