// SPDX-License-Identifier: Apache-2.0
// Whom a workload may preempt under fair sharing (KEP-1714): those of the ClusterQueues that have
// borrowed most, as long as the rules on shares allow it. docs/engine.md, "Preemption under fair
// sharing". The steps are Kueue's: the ClusterQueue with the highest share is asked again and
// again, since each victim lowers it.
#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>

#include "engine/preemption.h"
#include "engine/removals.h"

namespace tutti::engine {

namespace {

// Hands out the ClusterQueue that is to give way next: from the root, at each level, the child with
// the highest share among those that borrow and have candidates left.
class Targets {
 public:
  // `candidates`: indices into `holders`, in the order in which they give way.
  Targets(const VictimQuestion& question, const std::vector<Holder>& holders,
          const std::vector<size_t>& candidates)
      : question_(question) {
    for (NodeId at = question.queue; at.Valid(); at = question.tree.Parent(at)) {
      path_.insert(at);
      root_ = at;
    }
    std::set<NodeId> known;
    for (const size_t index : candidates) {
      NodeId child = holders[index].queue;
      left_[child].push_back(index);
      for (NodeId parent = question.tree.Parent(child);
           parent.Valid() && known.insert(child).second;
           child = parent, parent = question.tree.Parent(child)) {
        children_[parent].push_back(child);
      }
    }
  }

  // Not valid when nobody is left. What was handed out last may have changed since.
  NodeId Next() {
    for (NodeId at = last_; at.Valid(); at = question_.tree.Parent(at)) {
      shares_.erase(at);
    }
    last_ = Choose();
    return last_;
  }
  [[nodiscard]] bool Has(NodeId queue) const {
    auto found = left_.find(queue);
    return found != left_.end() && !found->second.empty();
  }
  size_t Pop(NodeId queue) {
    const size_t first = left_.at(queue).front();
    left_.at(queue).pop_front();
    return first;
  }
  void Drop(NodeId queue) { dropped_.insert(queue); }

 private:
  NodeId Choose() {
    if (!question_.tree.HasParent(question_.queue)) {
      return Has(question_.queue) ? question_.queue : NodeId{};
    }
    while (!dropped_.contains(root_)) {
      if (const NodeId found = Below(root_); found.Valid()) {
        return found;
      }
    }
    return NodeId{};
  }

  const FairShare& ShareOf(NodeId node) {
    auto known = shares_.find(node);
    if (known == shares_.end()) {
      known = shares_.emplace(node, question_.shares->Of(node)).first;
    }
    return known->second;
  }

  // Not valid: something was dropped, ask again.
  NodeId Below(NodeId cohort) {
    NodeId best_queue;
    NodeId best_cohort;
    const FairShare* queue_share = nullptr;
    const FairShare* cohort_share = nullptr;
    std::vector<NodeId>& children = children_[cohort];
    std::erase_if(children, [&](NodeId child) { return dropped_.contains(child); });
    for (const NodeId child : children) {
      const FairShare& share = ShareOf(child);
      const bool borrows = !share.borrowed.empty();
      if (left_.contains(child)) {
        // The preemptor's own queue stays as long as it has candidates.
        if ((!borrows && child != question_.queue) || !Has(child)) {
          dropped_.insert(child);
          continue;
        }
        const int order = best_queue.Valid() ? CompareShares(share, *queue_share) : 1;
        if (order > 0 || (order == 0 && left_.at(child).front() < left_.at(best_queue).front())) {
          best_queue = child;
          queue_share = &share;
        }
      } else if (!borrows && !path_.contains(child)) {
        dropped_.insert(child);
      } else if (!best_cohort.Valid() || CompareShares(share, *cohort_share) >= 0) {
        best_cohort = child;
        cohort_share = &share;
      }
    }
    if (!best_queue.Valid() && !best_cohort.Valid()) {
      dropped_.insert(cohort);
      return NodeId{};
    }
    // Of equals the Cohort: the most unfair one in it can be chosen then.
    if (best_cohort.Valid() &&
        (!best_queue.Valid() || CompareShares(*cohort_share, *queue_share) >= 0)) {
      return Below(best_cohort);
    }
    return best_queue;
  }

  const VictimQuestion& question_;
  NodeId root_;
  std::set<NodeId> path_;                           // from the preemptor's queue to the root
  std::map<NodeId, std::deque<size_t>> left_;       // by ClusterQueue
  std::map<NodeId, std::vector<NodeId>> children_;  // that lead to candidates, by Cohort
  std::set<NodeId> dropped_;
  // A share changes only by victims below it: those of the last queue and what is above it.
  std::map<NodeId, FairShare> shares_;
  NodeId last_;
};

class FairSearch {
 public:
  explicit FairSearch(const VictimQuestion& question)
      : question_(question), tree_(question.tree), shares_(*question.shares) {
    const std::vector<FairStrategy>& named = question.fair_sharing->strategies;
    strategies_ = named.empty() ? std::vector{FairStrategy::kLessThanOrEqualToFinalShare,
                                              FairStrategy::kLessThanInitialShare}
                                : named;
  }

  std::vector<Victim> Run() {
    Collect();
    if (holders_.empty()) {
      return {};
    }
    // Shares are those with the new workload.
    Removals removals(question_, /*borrow=*/true, /*counted=*/true);
    removals_ = &removals;
    if (!First() && strategies_.size() > 1) {
      Second();
    }
    if (!removals.Suffices()) {
      return {};
    }
    return removals.Minimal([this](const Victim& back, const std::vector<Victim>& others) {
      return StaysFair(back, others);
    });
  }

 private:
  [[nodiscard]] bool IsContested(const Usage& usage) const {
    return std::any_of(usage.begin(), usage.end(), [&](const auto& entry) {
      return question_.contested.contains(entry.first);
    });
  }

  void Collect() {
    const auto add = [&](NodeId queue, api::PreemptionPolicy policy) {
      question_.holders(queue, [&](const Holder& holder) {
        if (MayPreempt(question_, policy, holder) && IsContested(*holder.usage)) {
          holders_.push_back(holder);
        }
      });
    };
    if (question_.policy.within_cluster_queue != api::PreemptionPolicy::kNever) {
      add(question_.queue, question_.policy.within_cluster_queue);
    }
    if (question_.policy.reclaim_within_cohort != api::PreemptionPolicy::kNever) {
      std::vector<NodeId> open = {tree_.Root(question_.queue)};
      while (!open.empty()) {
        const NodeId node = open.back();
        open.pop_back();
        const std::vector<NodeId>& below = tree_.Children(node);
        open.insert(open.end(), below.begin(), below.end());
        if (node != question_.queue && Borrows(node)) {
          add(node, question_.policy.reclaim_within_cohort);
        }
      }
    }
    std::sort(holders_.begin(), holders_.end(), [&](const Holder& a, const Holder& b) {
      const bool own_a = a.queue == question_.queue;
      const bool own_b = b.queue == question_.queue;
      return std::tie(b.evicting, own_a, a.priority, b.reserved_at, *a.uid, *a.id) <
             std::tie(a.evicting, own_b, b.priority, a.reserved_at, *b.uid, *b.id);
    });
  }

  [[nodiscard]] bool Borrows(NodeId queue) const {
    return std::any_of(question_.contested.begin(), question_.contested.end(),
                       [&](FlavorResourceId pair) {
                         return tree_.Usage(queue, pair) > tree_.Nominal(queue, pair);
                       });
  }

  // The two subtrees that compete: below the lowest Cohort that holds both queues.
  struct Rivals {
    NodeId preemptor;
    NodeId target;
  };
  [[nodiscard]] Rivals RivalsOf(NodeId target) const {
    std::set<NodeId> above;
    for (NodeId at = target; at.Valid(); at = tree_.Parent(at)) {
      above.insert(at);
    }
    NodeId mine = question_.queue;
    while (!above.contains(tree_.Parent(mine))) {
      mine = tree_.Parent(mine);
    }
    NodeId theirs = target;
    while (tree_.Parent(theirs) != tree_.Parent(mine)) {
      theirs = tree_.Parent(theirs);
    }
    return {mine, theirs};
  }

  // The share of `node` if `usage` of `queue` were gone (sign -1), or there as well (+1).
  FairShare ShareWith(NodeId node, NodeId queue, const Usage& usage, int sign) {
    const auto change = [&](int direction) {
      for (const auto& [pair, amount] : usage) {
        if (direction > 0) {
          tree_.AddUsage(queue, pair, amount);
        } else {
          tree_.RemoveUsage(queue, pair, amount);
        }
      }
    };
    change(sign);
    FairShare share = shares_.Of(node);
    change(-sign);
    return share;
  }

  // What it owns it gets, whatever the shares are (gate FairSharingPreemptWithinNominal).
  [[nodiscard]] bool Entitled() const {
    return std::all_of(
        question_.contested.begin(), question_.contested.end(), [&](const auto& pair) {
          return tree_.Usage(question_.queue, pair) <= tree_.Nominal(question_.queue, pair);
        });
  }

  // By the first rule; true when it was enough.
  bool First() {
    std::vector<size_t> all(holders_.size());
    for (size_t index = 0; index < all.size(); ++index) {
      all[index] = index;
    }
    Targets targets(question_, holders_, all);
    const bool entitled = Entitled();
    for (NodeId queue = targets.Next(); queue.Valid(); queue = targets.Next()) {
      if (queue == question_.queue || entitled) {
        const Holder& holder = holders_[targets.Pop(queue)];
        if (removals_->Take(holder, queue == question_.queue
                                        ? PreemptReason::kInClusterQueue
                                        : PreemptReason::kInCohortReclamation)) {
          return true;
        }
        continue;
      }
      const Rivals rivals = RivalsOf(queue);
      const FairShare mine = shares_.Of(rivals.preemptor);
      const FairShare theirs = shares_.Of(rivals.target);
      bool passed = false;
      while (targets.Has(queue) && !passed) {
        const size_t candidate = targets.Pop(queue);
        const Holder& holder = holders_[candidate];
        passed = strategies_.front() == FairStrategy::kLessThanInitialShare
                     ? CompareShares(mine, theirs) < 0
                     : CompareShares(mine, ShareWith(rivals.target, queue, *holder.usage, -1)) <= 0;
        if (!passed) {
          retry_.push_back(candidate);
        } else if (removals_->Take(holder, PreemptReason::kInCohortFairSharing)) {
          return true;
        }
      }
    }
    return false;
  }

  // One candidate of each queue at most: this rule doesn't depend on the candidate.
  bool Second() {
    Targets targets(question_, holders_, retry_);
    for (NodeId queue = targets.Next(); queue.Valid(); queue = targets.Next()) {
      const Rivals rivals = RivalsOf(queue);
      const bool passed =
          CompareShares(shares_.Of(rivals.preemptor), shares_.Of(rivals.target)) < 0;
      const Holder& holder = holders_[targets.Pop(queue)];
      if (passed && removals_->Take(holder, PreemptReason::kInCohortFairSharing)) {
        return true;
      }
      targets.Drop(queue);
    }
    return false;
  }

  // An own workload that stays makes the own share larger: the others must still be allowed to be
  // preempted then, or they could preempt back (kueue#14543).
  bool StaysFair(const Victim& back, const std::vector<Victim>& others) {
    if (back.queue != question_.queue) {
      return true;
    }
    return std::all_of(others.begin(), others.end(), [&](const Victim& victim) {
      if (victim.reason == PreemptReason::kInCohortReclamation) {
        return Entitled();
      }
      if (victim.reason != PreemptReason::kInCohortFairSharing) {
        return true;
      }
      const Rivals rivals = RivalsOf(victim.queue);
      const FairShare mine = shares_.Of(rivals.preemptor);
      return std::any_of(strategies_.begin(), strategies_.end(), [&](FairStrategy strategy) {
        return strategy == FairStrategy::kLessThanInitialShare
                   ? CompareShares(mine,
                                   ShareWith(rivals.target, victim.queue, *victim.usage, +1)) < 0
                   : CompareShares(mine, shares_.Of(rivals.target)) <= 0;
      });
    });
  }

  const VictimQuestion& question_;
  QuotaTree& tree_;
  const FairShares& shares_;
  std::vector<FairStrategy> strategies_;
  std::vector<Holder> holders_;  // candidates, in the order in which they give way
  std::vector<size_t> retry_;    // of these, those whom the first rule protects
  Removals* removals_ = nullptr;
};

}  // namespace

std::vector<Victim> FindFairVictims(const VictimQuestion& question) {
  return FairSearch(question).Run();
}

}  // namespace tutti::engine
