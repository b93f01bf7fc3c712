// SPDX-License-Identifier: Apache-2.0
// See preemption.h. Rules: Kueue 0.19.2, classical preemption (KEP-1337, KEP-79); the order of
// candidates, the attempts with and without borrowing and the filling back are the same, so that
// the same workloads give way.
#include "engine/preemption.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "engine/removals.h"

namespace tutti::engine {

namespace {

enum class Standing : uint8_t {
  kSameQueue,
  kHierarchy,  // the preemptor's part of the tree owns what the candidate uses
  kOnlyWithoutBorrowing,
  kWhileBorrowing,
};

struct Candidate {
  Holder holder;
  NodeId common;  // lowest ancestor of both queues; not valid in the same queue
  Standing standing = Standing::kSameQueue;
};

PreemptReason ReasonOf(Standing standing) {
  switch (standing) {
    case Standing::kSameQueue:
      return PreemptReason::kInClusterQueue;
    case Standing::kHierarchy:
    case Standing::kOnlyWithoutBorrowing:
      return PreemptReason::kInCohortReclamation;
    case Standing::kWhileBorrowing:
      return PreemptReason::kInCohortReclaimWhileBorrowing;
  }
  return PreemptReason::kInClusterQueue;
}

class ClassicalSearch {
 public:
  explicit ClassicalSearch(const VictimQuestion& question)
      : question_(question), tree_(question.tree) {}

  std::vector<Victim> Run() {
    Collect();
    for (const bool borrow : Attempts()) {
      if (std::vector<Victim> victims = Attempt(borrow); !victims.empty()) {
        return victims;
      }
    }
    return {};
  }

 private:
  // --- candidates ---

  [[nodiscard]] bool Uses(const Holder& holder) const {
    return std::any_of(holder.usage->begin(), holder.usage->end(), [&](const auto& entry) {
      return question_.contested.contains(entry.first);
    });
  }

  // Whether the node uses no more than its quota of everything that is contested.
  [[nodiscard]] bool WithinQuota(NodeId node) const {
    return std::all_of(question_.contested.begin(), question_.contested.end(),
                       [&](FlavorResourceId pair) {
                         return tree_.Usage(node, pair) <= tree_.SubtreeQuota(node, pair);
                       });
  }

  // Whether the node's own quota holds the amounts; these become what its parent has to help with.
  bool HoldsByItself(NodeId node, Usage& amounts) const {
    bool holds = true;
    for (auto& [pair, amount] : amounts) {
      holds = holds && tree_.Usage(node, pair) + amount <= tree_.SubtreeQuota(node, pair);
      amount = std::max<Amount>(0, amount - tree_.LocalAvailable(node, pair));
    }
    return holds;
  }

  void Collect() {
    const api::Preemption& policy = question_.policy;
    if (policy.within_cluster_queue != api::PreemptionPolicy::kNever) {
      question_.holders(question_.queue, [&](const Holder& holder) {
        if (Uses(holder) && MayPreempt(question_, policy.within_cluster_queue, holder)) {
          same_queue_.push_back({holder, NodeId{}, Standing::kSameQueue});
        }
      });
    }
    if (policy.reclaim_within_cohort != api::PreemptionPolicy::kNever) {
      Usage remaining = question_.usage;
      bool advantage = HoldsByItself(question_.queue, remaining);
      NodeId done;
      for (NodeId node = tree_.Parent(question_.queue); node.Valid(); node = tree_.Parent(node)) {
        CollectBelow(node, node, done, advantage);
        advantage = HoldsByItself(node, remaining) || advantage;
        done = node;
      }
    }
    Sort(hierarchy_);
    Sort(by_priority_);
    Sort(same_queue_);
    for (const bool evicting : {true, false}) {
      for (const std::vector<Candidate>* list : {&hierarchy_, &by_priority_, &same_queue_}) {
        for (const Candidate& candidate : *list) {
          if (candidate.holder.evicting == evicting) {
            candidates_.push_back(&candidate);
          }
        }
      }
    }
  }

  void CollectBelow(NodeId node, NodeId common, NodeId done, bool advantage) {
    for (const NodeId child : tree_.Children(node)) {
      if (child == done || child == question_.queue || WithinQuota(child)) {
        continue;
      }
      CollectBelow(child, common, done, advantage);
      question_.holders(child, [&](const Holder& holder) {
        if (!Uses(holder) ||
            !MayPreempt(question_, question_.policy.reclaim_within_cohort, holder)) {
          return;
        }
        if (advantage) {
          hierarchy_.push_back({holder, common, Standing::kHierarchy});
        } else {
          by_priority_.push_back({holder, common, StandingOf(holder)});
        }
      });
    }
  }

  [[nodiscard]] Standing StandingOf(const Holder& holder) const {
    const api::Preemption& policy = question_.policy;
    const bool above =
        holder.priority >= question_.priority || (policy.max_priority_threshold.has_value() &&
                                                  holder.priority > *policy.max_priority_threshold);
    return policy.borrow_within_cohort && !above ? Standing::kWhileBorrowing
                                                 : Standing::kOnlyWithoutBorrowing;
  }

  // Lower priority first, then who reserved last.
  static void Sort(std::vector<Candidate>& candidates) {
    std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
      return std::tie(a.holder.priority, b.holder.reserved_at, *a.holder.uid, *a.holder.id) <
             std::tie(b.holder.priority, a.holder.reserved_at, *b.holder.uid, *b.holder.id);
    });
  }

  // --- attempts ---

  // Whether the preemptor may borrow, in the order in which that is tried.
  [[nodiscard]] std::vector<bool> Attempts() const {
    const bool forbidden = !question_.policy.borrow_within_cohort;
    const bool below_nominal = std::all_of(
        question_.contested.begin(), question_.contested.end(), [&](FlavorResourceId pair) {
          return tree_.Usage(question_.queue, pair) < tree_.Nominal(question_.queue, pair);
        });
    if ((hierarchy_.empty() && by_priority_.empty()) || (forbidden && !below_nominal)) {
      return {true};
    }
    if (forbidden && hierarchy_.empty()) {
      return {false, true};
    }
    return {true, false};
  }

  // As the search goes on, others get back below their quota and are safe then.
  [[nodiscard]] bool MayGo(const Candidate& candidate, bool borrow) const {
    if (candidate.standing == Standing::kSameQueue) {
      return true;
    }
    if (borrow && candidate.standing == Standing::kOnlyWithoutBorrowing) {
      return false;
    }
    for (NodeId node = candidate.holder.queue; node.Valid() && node != candidate.common;
         node = tree_.Parent(node)) {
      if (WithinQuota(node)) {
        return false;
      }
    }
    return true;
  }

  std::vector<Victim> Attempt(bool borrow) {
    Removals removals(question_, borrow);
    for (const Candidate* candidate : candidates_) {
      if (MayGo(*candidate, borrow) &&
          removals.Take(candidate->holder, ReasonOf(candidate->standing))) {
        break;
      }
    }
    return removals.Suffices() ? removals.Minimal() : std::vector<Victim>{};
  }

  const VictimQuestion& question_;
  QuotaTree& tree_;
  std::vector<Candidate> hierarchy_;
  std::vector<Candidate> by_priority_;
  std::vector<Candidate> same_queue_;
  std::vector<const Candidate*> candidates_;
};

}  // namespace

std::vector<Victim> FindVictims(const VictimQuestion& question) {
  return question.shares != nullptr ? FindFairVictims(question) : ClassicalSearch(question).Run();
}

PreemptionChance ChanceOf(const VictimQuestion& question, FlavorResourceId pair, Amount amount) {
  const Usage usage = {{pair, amount}};
  const VictimQuestion single{question.tree,
                              question.queue,
                              question.policy,
                              question.priority,
                              question.queue_time,
                              {pair},
                              usage,
                              question.holders,
                              {},
                              question.shares,
                              question.fair_sharing};
  QuotaTree& tree = question.tree;
  const std::vector<Victim> victims = FindVictims(single);
  PreemptionChance chance;
  if (!victims.empty()) {
    const bool own = std::any_of(victims.begin(), victims.end(), [&](const Victim& victim) {
      return victim.queue == question.queue;
    });
    chance.kind = own ? PreemptionChance::Kind::kPreempt : PreemptionChance::Kind::kReclaim;
  }
  for (const Victim& victim : victims) {
    for (const auto& [used, what] : *victim.usage) {
      tree.RemoveUsage(victim.queue, used, what);
    }
  }
  chance.level = tree.LowestSubtreeThatFits(question.queue, pair, amount).height;
  for (const Victim& victim : victims) {
    for (const auto& [used, what] : *victim.usage) {
      tree.AddUsage(victim.queue, used, what);
    }
  }
  return chance;
}

}  // namespace tutti::engine
