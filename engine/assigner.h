// SPDX-License-Identifier: Apache-2.0
// Flavor assignment: for each pod set and each resource group of the ClusterQueue the first flavor
// (in listed order) that the pods can use, that has quota and, where the flavor's capacity mode
// asks for it, a place for the whole gang so far. Pure question: changes nothing.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/core.h"
#include "engine/capacity.h"
#include "engine/config.h"
#include "engine/quota_tree.h"
#include "engine/refusal.h"

namespace tutti::engine {

// A pod set as deciding needs it.
struct PodSetSpec {
  std::string name;
  int32_t count = 0;
  int32_t min_count = 0;  // of partial admission; `count` where it can't be less
  std::vector<std::pair<ResourceId, int64_t>> per_pod;  // not negative, without `pods`
  std::shared_ptr<const api::PodShape> shape;
  std::vector<api::PodClaim> group_claims = {};  // of the whole workload
  // Of a workload slice: what the one that it replaces has, which is kept and in the same flavors.
  struct Held {
    ResourceId resource;
    FlavorId flavor;
    Amount amount = 0;
  };
  std::vector<Held> held = {};
  int32_t held_pods = 0;
};

// The first of those that have a place and wait only for gangs in flight: what is released after it
// must not make it wait longer (docs/engine.md, "In flight").
struct FlightClaim {
  std::string id;
  Gang gang;
  std::vector<Gang> since;  // released since it waits, not all pods bound
};

// What preemption could do for one pair of flavor and resource.
struct PreemptionChance {
  enum class Kind : uint8_t {
    kNone,     // nobody would have to give way
    kPreempt,  // somebody of the own ClusterQueue would
    kReclaim,  // somebody would, of other ClusterQueues only
  };
  Kind kind = Kind::kNone;
  int level = 0;  // borrowing height afterwards
};

// Instead of the place of a flavor in its group.
inline constexpr size_t kNoFlavor = std::numeric_limits<size_t>::max();

struct AssignContext {
  const QuotaTree& tree;
  NodeId node;
  const QueueConfig& queue;
  const std::vector<FlavorConfig>& flavors;  // by FlavorId
  const Capacity& capacity;
  ResourceId pods;                     // the resource "pods"
  const FlightClaim* claim = nullptr;  // one that this workload has to mind
  bool pinning = false;                // Engine::SetPinning
  Reason reason = Reason::kText;       // kNone: facts about places may have no text
  // Asked for pairs that others would have to give. Empty: nobody gives way.
  std::function<PreemptionChance(FlavorResourceId, Amount)> chance = {};
  // Per pod set and group (no more than given): the only flavor to try; kNoFlavor: all of them.
  std::vector<size_t> only = {};
  bool fair_sharing = false;
  bool ignore_undeclared = false;  // Rules
};

enum class FitMode : uint8_t {
  kNoFit,    // can't be admitted, and preemption could not change that
  kPreempt,  // could be admitted if others gave way; whether they do is asked next
  kFit,
};

struct ResourceChoice {
  ResourceId resource;
  FlavorId flavor;
  FlavorResourceId pair;
  int64_t amount = 0;  // of the whole pod set
  bool fits = true;    // false: others would have to give way
  Amount held = 0;     // PodSetSpec::held: no part of what is asked for
};

using Usage = std::vector<std::pair<FlavorResourceId, Amount>>;  // sorted by pair, no zeros

struct Assignment {
  FitMode mode = FitMode::kFit;
  std::vector<std::vector<ResourceChoice>> pod_sets;  // sorted by resource
  Usage usage;                                        // without what is held
  int borrowing = 0;  // height of the subtree that has to help out; 0 = own quota
  Refusal refusal;    // filled unless kFit
  // The pod sets that need a proven place, and the answer (of kFit).
  Gang gang;
  std::vector<size_t> gang_pod_sets;  // index of each in pod_sets
  FitResult fit;
  bool unplaced = false;        // quota is there for all, a place is not
  std::optional<Gang> waiting;  // refused, though it has a place, because of gangs in flight
  // Per pod set and group: the flavor to go on with if this assignment comes to nothing; 0 = all
  // tried.
  std::vector<size_t> next_flavor;
  // The same for the flavor that was taken, where others have to give way for it; else kNoFlavor.
  std::vector<size_t> contested;
  // So many of these, from the first on, are flavors that fit (or nothing was asked for).
  size_t fitting = 0;
};
// `start`: next_flavor of an earlier try, or empty.
[[nodiscard]] Assignment Assign(const AssignContext& context, const std::string& gang_id,
                                const std::vector<PodSetSpec>& pod_sets,
                                const std::vector<size_t>& start);

// The pods of one pod set as the capacity check sees them: node labels and tolerations of all
// assigned flavors added.
[[nodiscard]] GangPodSet MakeGangPodSet(const PodSetSpec& pod_set,
                                        const std::vector<ResourceChoice>& choices,
                                        const std::vector<FlavorConfig>& flavors);

// The gang bound to the only node of its placement, where that is safe: the label must name this
// node alone, and the place there must not be one that a gang in flight may take or needs.
[[nodiscard]] std::optional<Gang> Pinned(const Capacity& capacity, const Gang& gang,
                                         const FitResult& fit);

void AddUsage(Usage& usage, FlavorResourceId pair, Amount amount);

}  // namespace tutti::engine
