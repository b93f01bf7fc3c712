// SPDX-License-Identifier: Apache-2.0
// See preemption.h. Rules: Kueue 0.19.2, classical preemption (KEP-1337, KEP-79); the order of
// candidates, the attempts with and without borrowing and the filling back are the same, so that
// the same workloads give way.
#include "engine/preemption.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <tuple>
#include <utility>

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

// Lower priority first, then who reserved last. Sorted as far as it is looked at: most searches end
// after a few of thousands.
class Candidates {
 public:
  void Add(Candidate candidate) { items_.push_back(std::move(candidate)); }
  [[nodiscard]] bool Empty() const { return items_.empty(); }
  // Null behind the last one; valid until the next call.
  [[nodiscard]] const Candidate* At(size_t index) {
    if (index >= items_.size()) {
      return nullptr;
    }
    if (index >= sorted_) {
      const size_t end = std::min(items_.size(), std::max<size_t>(kFirst, 4 * sorted_));
      std::partial_sort(items_.begin() + static_cast<ptrdiff_t>(sorted_),
                        items_.begin() + static_cast<ptrdiff_t>(end), items_.end(), Before);
      sorted_ = end;
    }
    return &items_[index];
  }

 private:
  static constexpr size_t kFirst = 32;
  static bool Before(const Candidate& a, const Candidate& b) {
    return std::tie(a.holder.priority, b.holder.reserved_at, *a.holder.uid, *a.holder.id) <
           std::tie(b.holder.priority, a.holder.reserved_at, *b.holder.uid, *b.holder.id);
  }
  std::vector<Candidate> items_;
  size_t sorted_ = 0;
};

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
          same_queue_[Late(holder)].Add({holder, NodeId{}, Standing::kSameQueue});
          for (const auto& [pair, amount] : *holder.usage) {
            AddUsage(own_, pair, amount);
          }
        }
      });
    }
    if (policy.reclaim_within_cohort != api::PreemptionPolicy::kNever) {
      Usage remaining = question_.usage;
      bool advantage = HoldsByItself(question_.queue, remaining);
      // False: whoever is found without an advantage would be kOnlyWithoutBorrowing, in vain.
      const bool others_help =
          question_.policy.borrow_within_cohort || (!MustBorrow() && MayHaveRoom());
      NodeId done;
      for (NodeId node = tree_.Parent(question_.queue); node.Valid(); node = tree_.Parent(node)) {
        if (advantage || others_help) {
          CollectBelow(node, node, done, advantage);
        }
        advantage = HoldsByItself(node, remaining) || advantage;
        done = node;
      }
    }
  }

  // Whose eviction is under way already goes first.
  static size_t Late(const Holder& holder) { return holder.evicting ? 0 : 1; }

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
          hierarchy_[Late(holder)].Add({holder, common, Standing::kHierarchy});
        } else {
          by_priority_[Late(holder)].Add({holder, common, StandingOf(holder)});
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

  // --- attempts ---

  // It has no quota of its own left, and mayn't preempt others to borrow.
  [[nodiscard]] bool MustBorrow() const {
    return !question_.policy.borrow_within_cohort &&
           std::any_of(
               question_.contested.begin(), question_.contested.end(), [&](FlavorResourceId pair) {
                 return tree_.Usage(question_.queue, pair) >= tree_.Nominal(question_.queue, pair);
               });
  }

  // Whether the preemptor may borrow, in the order in which that is tried.
  [[nodiscard]] std::vector<bool> Attempts() const {
    const bool no_hierarchy = hierarchy_[0].Empty() && hierarchy_[1].Empty();
    if ((no_hierarchy && by_priority_[0].Empty() && by_priority_[1].Empty()) || MustBorrow()) {
      return {true};
    }
    if (!question_.policy.borrow_within_cohort && no_hierarchy) {
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

  // Without borrowing it needs room in its own quota, which only its own queue can give: false
  // when that is too little whoever goes.
  [[nodiscard]] bool MayHaveRoom() const {
    return std::all_of(question_.usage.begin(), question_.usage.end(), [&](const auto& entry) {
      const auto& [pair, amount] = entry;
      const auto own = std::find_if(own_.begin(), own_.end(),
                                    [&](const auto& sum) { return sum.first == entry.first; });
      return tree_.Usage(question_.queue, pair) - (own != own_.end() ? own->second : 0) + amount <=
             tree_.SubtreeQuota(question_.queue, pair);
    });
  }

  std::vector<Victim> Attempt(bool borrow) {
    if (!borrow && !MayHaveRoom()) {
      return {};
    }
    Removals removals(question_, borrow);
    TakeUntilEnough(removals, borrow);
    return removals.Suffices() ? removals.Minimal() : std::vector<Victim>{};
  }

  void TakeUntilEnough(Removals& removals, bool borrow) {
    for (const size_t late : {0, 1}) {
      for (Candidates* list : {&hierarchy_[late], &by_priority_[late], &same_queue_[late]}) {
        for (size_t index = 0; const Candidate* candidate = list->At(index); ++index) {
          if (MayGo(*candidate, borrow) &&
              removals.Take(candidate->holder, ReasonOf(candidate->standing))) {
            return;
          }
        }
      }
    }
  }

  const VictimQuestion& question_;
  QuotaTree& tree_;
  // Each: those whose eviction is under way, and the others.
  std::array<Candidates, 2> hierarchy_;
  std::array<Candidates, 2> by_priority_;
  std::array<Candidates, 2> same_queue_;
  Usage own_;  // all that same_queue_ uses
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
