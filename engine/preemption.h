// SPDX-License-Identifier: Apache-2.0
// Who has to give way so that a workload can be admitted: Kueue's search for a small set of
// victims, with one addition, that the pods must get a place as well (docs/engine.md,
// "Preemption"). The search tries removals out in the tree and leaves it as it was.
//
//   VictimQuestion ── FindVictims ──> victims, or none
//                        ├ classical: by priority and who has borrowed (preemption.cc)
//                        └ fair sharing: by shares (fair_preemption.cc)
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "api/kueue.h"
#include "base/time.h"
#include "engine/assigner.h"
#include "engine/engine.h"
#include "engine/fair_share.h"
#include "engine/ids.h"
#include "engine/quota_tree.h"

namespace tutti::engine {

// A workload that holds quota, as the search sees it.
struct Holder {
  WorkloadId workload;
  NodeId queue;
  int64_t priority = 0;
  Time queue_time = kNoTime;
  Time reserved_at = kNoTime;
  bool evicting = false;  // its eviction is under way already
  const std::string* uid = nullptr;
  const std::string* id = nullptr;
  const Usage* usage = nullptr;
};

struct Victim {
  WorkloadId workload;
  NodeId queue;
  const Usage* usage = nullptr;
  bool evicting = false;
  PreemptReason reason = PreemptReason::kInClusterQueue;
};

struct VictimQuestion {
  QuotaTree& tree;  // changed while the search runs, restored at its end
  NodeId queue;
  const api::Preemption& policy;
  int64_t priority = 0;
  Time queue_time = kNoTime;
  std::set<FlavorResourceId> contested;  // what is short; candidates use some of it
  const Usage& usage;                    // all that the workload asks for
  // Calls back for each workload that holds quota of this ClusterQueue and may be chosen at all;
  // nobody for a Cohort. In any order.
  std::function<void(NodeId, const std::function<void(const Holder&)>&)> holders;
  // Whether the pods have a place once these are gone. Asked only when the quota fits; an empty
  // function: quota alone decides. More victims never take a place away.
  std::function<bool(const std::vector<WorkloadId>&)> placed = {};
  // Both set: fair sharing decides; borrowWithinCohort of the policy means nothing then.
  const FairShares* shares = nullptr;
  const FairSharing* fair_sharing = nullptr;
  bool only_lower = false;  // only who is less important gives way, or is leaving anyway
};

// Empty: nobody's removal would help, or nobody may be removed. The victims are in the order in
// which they were chosen.
[[nodiscard]] std::vector<Victim> FindVictims(const VictimQuestion& question);
// Its part for fair sharing.
[[nodiscard]] std::vector<Victim> FindFairVictims(const VictimQuestion& question);

// What preemption could do for one pair (Kueue's preemption oracle): `amount` is asked for by the
// ClusterQueue of the question, whose `contested`, `usage` and `placed` aren't looked at.
[[nodiscard]] PreemptionChance ChanceOf(const VictimQuestion& question, FlavorResourceId pair,
                                        Amount amount);

}  // namespace tutti::engine
