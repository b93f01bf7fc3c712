// SPDX-License-Identifier: Apache-2.0
#include "engine/testing/quota_twin.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/preemption.h"
#include "engine/quota_tree.h"

namespace tutti::engine::testing {
namespace {

constexpr int kPairs = 2;             // of flavor and resource
using Amounts = std::vector<Amount>;  // by pair

struct NaiveWorkload {
  int queue = 0;
  int64_t priority = 0;
  Time queue_time = kNoTime;
  Time reserved_at = kNoTime;
  bool evicting = false;
  std::string uid;
  Amounts asks = Amounts(kPairs);
  bool present = true;
};

struct NaiveNode {
  int parent = -1;
  bool is_queue = false;
  std::vector<QuotaLimits> limits = std::vector<QuotaLimits>(kPairs);
};

// Nothing is kept but what was said: nodes, limits and workloads.
class NaiveForest {
 public:
  std::vector<NaiveNode> nodes;
  std::vector<NaiveWorkload> workloads;

  [[nodiscard]] std::vector<int> Children(int node) const {
    std::vector<int> children;
    for (int other = 0; other < static_cast<int>(nodes.size()); ++other) {
      if (nodes[other].parent == node) {
        children.push_back(other);
      }
    }
    return children;
  }
  [[nodiscard]] int Height(int node) const {
    int height = 0;
    for (const int child : Children(node)) {
      height = std::max(height, Height(child) + 1);
    }
    return height;
  }
  [[nodiscard]] int Root(int node) const {
    return nodes[node].parent < 0 ? node : Root(nodes[node].parent);
  }
  [[nodiscard]] Amount Subtree(int node, int pair) const {
    Amount sum = nodes[node].limits[pair].nominal;
    for (const int child : Children(node)) {
      sum += Subtree(child, pair) - Local(child, pair);
    }
    return sum;
  }
  [[nodiscard]] Amount Local(int node, int pair) const {
    const std::optional<Amount>& lending = nodes[node].limits[pair].lending;
    return lending ? std::max<Amount>(0, Subtree(node, pair) - *lending) : 0;
  }
  [[nodiscard]] Amount Used(int node, int pair) const {
    Amount sum = 0;
    for (const NaiveWorkload& workload : workloads) {
      sum += workload.present && workload.queue == node ? workload.asks[pair] : 0;
    }
    for (const int child : Children(node)) {
      sum += std::max<Amount>(0, Used(child, pair) - Local(child, pair));
    }
    return sum;
  }
  [[nodiscard]] Amount Kept(int node, int pair) const {
    return std::max<Amount>(0, Local(node, pair) - Used(node, pair));
  }
  [[nodiscard]] Amount Raw(int node, int pair) const {
    const int parent = nodes[node].parent;
    if (parent < 0) {
      return Subtree(node, pair) - Used(node, pair);
    }
    Amount rest = Raw(parent, pair);
    if (const std::optional<Amount>& borrowing = nodes[node].limits[pair].borrowing) {
      rest = std::min(rest, Subtree(node, pair) - Local(node, pair) -
                                std::max<Amount>(0, Used(node, pair) - Local(node, pair)) +
                                *borrowing);
    }
    return Kept(node, pair) + rest;
  }
  [[nodiscard]] Amount Potential(int node, int pair) const {
    NaiveForest empty = *this;
    empty.workloads.clear();
    return empty.Raw(node, pair);
  }
  // The height of the lowest subtree that holds the amount, and whether it is not the whole tree.
  [[nodiscard]] std::pair<int, bool> LowestThatHolds(int queue, int pair, Amount amount) const {
    if (nodes[queue].parent < 0) {
      return {0, false};
    }
    if (Used(queue, pair) + amount <= nodes[queue].limits[pair].nominal) {
      return {0, true};
    }
    for (int node = queue; nodes[node].parent >= 0;) {
      amount -= Kept(node, pair);
      node = nodes[node].parent;
      if (Used(node, pair) + amount <= Subtree(node, pair)) {
        return {Height(node), nodes[node].parent >= 0};
      }
    }
    return {Height(Root(queue)), false};
  }
};

// Section 9 of docs/engine.md, word by word.
class NaiveSearch {
 public:
  NaiveSearch(NaiveForest forest, int queue, api::Preemption policy, int64_t priority,
              Time queue_time, Amounts asks)
      : forest_(std::move(forest)),
        queue_(queue),
        policy_(policy),
        priority_(priority),
        queue_time_(queue_time),
        asks_(std::move(asks)) {
    for (int pair = 0; pair < kPairs; ++pair) {
      contested_.push_back(asks_[pair] > std::max<Amount>(0, forest_.Raw(queue_, pair)));
    }
  }

  // Workloads (by index) and reasons, in the order in which they were chosen.
  using Found = std::vector<std::pair<int, PreemptReason>>;
  Found Run() {
    for (int index = 0; index < static_cast<int>(forest_.workloads.size()); ++index) {
      Classify(index);
    }
    std::sort(candidates_.begin(), candidates_.end(), [&](const auto& a, const auto& b) {
      const NaiveWorkload& x = forest_.workloads[a.workload];
      const NaiveWorkload& y = forest_.workloads[b.workload];
      return std::make_tuple(!x.evicting, a.row, x.priority, y.reserved_at, x.uid) <
             std::make_tuple(!y.evicting, b.row, y.priority, x.reserved_at, y.uid);
    });
    const auto has = [&](Row row) {
      return std::any_of(candidates_.begin(), candidates_.end(),
                         [&](const Candidate& candidate) { return candidate.row == row; });
    };
    bool something_free = true;  // of the nominal quota, of all that is short
    for (int pair = 0; pair < kPairs; ++pair) {
      something_free = something_free &&
                       (!contested_[pair] ||
                        forest_.Used(queue_, pair) < forest_.nodes[queue_].limits[pair].nominal);
    }
    const bool forbidden = !policy_.borrow_within_cohort;
    std::vector<bool> attempts = {true, false};
    if ((!has(Row::kOwner) && !has(Row::kOthers)) || (forbidden && !something_free)) {
      attempts = {true};
    } else if (forbidden && !has(Row::kOwner)) {
      attempts = {false, true};
    }
    for (const bool borrow : attempts) {
      if (Found found = Attempt(borrow); !found.empty()) {
        return found;
      }
    }
    return {};
  }

 private:
  enum class Row { kOwner, kOthers, kOwnQueue };  // in the order in which they are taken
  struct Candidate {
    int workload = 0;
    Row row = Row::kOwnQueue;
    bool also_while_borrowing = true;
    std::vector<int> chain;  // its queue and the cohorts below the common ancestor
  };

  [[nodiscard]] bool Allowed(api::PreemptionPolicy policy, const NaiveWorkload& workload) const {
    switch (policy) {
      case api::PreemptionPolicy::kNever:
        return false;
      case api::PreemptionPolicy::kAny:
        return true;
      case api::PreemptionPolicy::kLowerPriority:
        return workload.priority < priority_;
      case api::PreemptionPolicy::kLowerOrNewerEqualPriority:
        return workload.priority < priority_ ||
               (workload.priority == priority_ && workload.queue_time > queue_time_);
    }
    return false;
  }

  [[nodiscard]] bool OverQuota(int node) const {
    for (int pair = 0; pair < kPairs; ++pair) {
      if (contested_[pair] && forest_.Used(node, pair) > forest_.Subtree(node, pair)) {
        return true;
      }
    }
    return false;
  }

  [[nodiscard]] std::vector<int> Path(int node) const {
    std::vector<int> path;
    for (; node >= 0; node = forest_.nodes[node].parent) {
      path.push_back(node);
    }
    return path;
  }

  // Whether a node of the own path below `ancestor` holds the request by its own quota.
  [[nodiscard]] bool OwnedBelow(int ancestor) const {
    Amounts rest = asks_;
    for (int node = queue_; node != ancestor; node = forest_.nodes[node].parent) {
      bool holds = true;
      for (int pair = 0; pair < kPairs; ++pair) {
        if (asks_[pair] == 0) {
          continue;  // not asked for
        }
        holds = holds && forest_.Used(node, pair) + rest[pair] <= forest_.Subtree(node, pair);
        rest[pair] = std::max<Amount>(0, rest[pair] - forest_.Kept(node, pair));
      }
      if (holds) {
        return true;
      }
    }
    return false;
  }

  void Classify(int index) {
    const NaiveWorkload& workload = forest_.workloads[index];
    bool uses = false;
    for (int pair = 0; pair < kPairs; ++pair) {
      uses = uses || (contested_[pair] && workload.asks[pair] > 0);
    }
    if (!workload.present || !uses) {
      return;
    }
    Candidate candidate;
    candidate.workload = index;
    if (workload.queue == queue_) {
      if (Allowed(policy_.within_cluster_queue, workload)) {
        candidates_.push_back(candidate);
      }
      return;
    }
    const std::vector<int> own = Path(queue_);
    int ancestor = -1;
    for (const int node : Path(workload.queue)) {
      if (std::find(own.begin(), own.end(), node) != own.end()) {
        ancestor = node;
        break;
      }
      candidate.chain.push_back(node);
    }
    if (ancestor < 0 || !Allowed(policy_.reclaim_within_cohort, workload) ||
        !std::all_of(candidate.chain.begin(), candidate.chain.end(),
                     [&](int node) { return OverQuota(node); })) {
      return;
    }
    candidate.row = OwnedBelow(ancestor) ? Row::kOwner : Row::kOthers;
    const bool low =
        workload.priority < priority_ && (!policy_.max_priority_threshold.has_value() ||
                                          workload.priority <= *policy_.max_priority_threshold);
    candidate.also_while_borrowing =
        candidate.row == Row::kOwner || (policy_.borrow_within_cohort && low);
    candidates_.push_back(candidate);
  }

  [[nodiscard]] bool Fits(bool borrow) const {
    for (int pair = 0; pair < kPairs; ++pair) {
      if (asks_[pair] == 0) {
        continue;
      }
      if (asks_[pair] > std::max<Amount>(0, forest_.Raw(queue_, pair)) ||
          (!borrow && forest_.Used(queue_, pair) + asks_[pair] > forest_.Subtree(queue_, pair))) {
        return false;
      }
    }
    return true;
  }

  Found Attempt(bool borrow) {
    std::vector<const Candidate*> gone;
    bool fits = false;
    for (const Candidate& candidate : candidates_) {
      if ((borrow && !candidate.also_while_borrowing) ||
          !std::all_of(candidate.chain.begin(), candidate.chain.end(),
                       [&](int node) { return OverQuota(node); })) {
        continue;
      }
      forest_.workloads[candidate.workload].present = false;
      gone.push_back(&candidate);
      fits = Fits(borrow);
      if (fits) {
        break;
      }
    }
    for (int index = static_cast<int>(gone.size()) - 2; fits && index >= 0; --index) {
      forest_.workloads[gone[index]->workload].present = true;
      if (Fits(borrow)) {
        gone.erase(gone.begin() + index);
      } else {
        forest_.workloads[gone[index]->workload].present = false;
      }
    }
    Found found;
    for (const Candidate* candidate : gone) {
      forest_.workloads[candidate->workload].present = true;
      const PreemptReason reason =
          candidate->row == Row::kOwnQueue ? PreemptReason::kInClusterQueue
          : candidate->row == Row::kOthers && candidate->also_while_borrowing
              ? PreemptReason::kInCohortReclaimWhileBorrowing
              : PreemptReason::kInCohortReclamation;
      found.emplace_back(candidate->workload, reason);
    }
    return fits ? found : Found{};
  }

  NaiveForest forest_;
  int queue_;
  api::Preemption policy_;
  int64_t priority_;
  Time queue_time_;
  Amounts asks_;
  std::vector<bool> contested_;
  std::vector<Candidate> candidates_;
};

class Game {
 public:
  explicit Game(const std::function<int(int)>& choose) : choose_(choose) {}

  TwinResult Play() {
    Build();
    Compare();
    for (int step = 4 + choose_(12); step > 0 && result_.difference.empty(); --step) {
      const int what = choose_(6);
      if (what < 3) {
        AddWorkload();
      } else if (what == 3) {
        RemoveWorkload();
      } else {
        AskForVictims();
      }
      Compare();
    }
    return std::move(result_);
  }

 private:
  static NodeId Node(int index) { return NodeId{static_cast<uint32_t>(index)}; }
  static FlavorResourceId Pair(int index) { return FlavorResourceId{static_cast<uint32_t>(index)}; }

  void Build() {
    const int cohorts = choose_(4);
    const int queues = 1 + choose_(4);
    for (int index = 0; index < cohorts + queues; ++index) {
      NaiveNode node;
      node.is_queue = index >= cohorts;
      const int above = std::min(index, cohorts);
      if (above > 0 && choose_(5) > 0) {
        node.parent = choose_(above);
      }
      tree_.AddNode();
      for (int pair = 0; pair < kPairs; ++pair) {
        if (!node.is_queue && choose_(2) == 0) {
          continue;
        }
        QuotaLimits& limits = node.limits[pair];
        limits.nominal = choose_(7);
        if (node.parent >= 0 && choose_(4) == 0) {
          limits.borrowing = choose_(5);
        }
        if (node.parent >= 0 && choose_(4) == 0) {
          limits.lending = choose_(5);
        }
      }
      forest_.nodes.push_back(node);
    }
    for (int index = 0; index < cohorts + queues; ++index) {
      const NaiveNode& node = forest_.nodes[index];
      if (node.parent >= 0) {
        tree_.SetParent(Node(index), Node(node.parent));
      }
      for (int pair = 0; pair < kPairs; ++pair) {
        tree_.SetLimits(Node(index), Pair(pair), node.limits[pair]);
      }
      if (node.is_queue) {
        queues_.push_back(index);
      }
    }
    tree_.Finish();
  }

  int AnyQueue() { return queues_[choose_(static_cast<int>(queues_.size()))]; }

  void AddWorkload() {
    NaiveWorkload workload;
    workload.queue = AnyQueue();
    workload.priority = choose_(4);
    workload.queue_time = kNoTime + std::chrono::seconds(choose_(8));
    workload.reserved_at = kNoTime + std::chrono::seconds(choose_(4));
    workload.evicting = choose_(8) == 0;
    workload.uid = std::to_string(choose_(10)) + "-" + std::to_string(forest_.workloads.size());
    for (int pair = 0; pair < kPairs; ++pair) {
      workload.asks[pair] = choose_(5);
    }
    // Now and then more is used than allowed, as after a quota was lowered.
    const bool fits = workload.asks[0] <= forest_.Raw(workload.queue, 0) &&
                      workload.asks[1] <= forest_.Raw(workload.queue, 1);
    if (!fits && choose_(6) > 0) {
      return;
    }
    for (int pair = 0; pair < kPairs; ++pair) {
      tree_.AddUsage(Node(workload.queue), Pair(pair), workload.asks[pair]);
    }
    forest_.workloads.push_back(workload);
  }

  void RemoveWorkload() {
    if (forest_.workloads.empty()) {
      return;
    }
    const int index = choose_(static_cast<int>(forest_.workloads.size()));
    NaiveWorkload& workload = forest_.workloads[index];
    for (int pair = 0; workload.present && pair < kPairs; ++pair) {
      tree_.RemoveUsage(Node(workload.queue), Pair(pair), workload.asks[pair]);
    }
    workload.present = false;
  }

  void AskForVictims() {
    const int queue = AnyQueue();
    api::Preemption policy;
    policy.within_cluster_queue = static_cast<api::PreemptionPolicy>(choose_(3));
    policy.reclaim_within_cohort = static_cast<api::PreemptionPolicy>(choose_(4));
    policy.borrow_within_cohort = choose_(2) == 0;
    if (policy.borrow_within_cohort && choose_(2) == 0) {
      policy.max_priority_threshold = choose_(4);
    }
    const int64_t priority = choose_(5);
    const Time queue_time = kNoTime + std::chrono::seconds(choose_(8));
    Amounts asks(kPairs);
    Usage usage;
    std::set<FlavorResourceId> contested;
    for (int pair = 0; pair < kPairs; ++pair) {
      asks[pair] = choose_(7);
      AddUsage(usage, Pair(pair), asks[pair]);
      if (asks[pair] > tree_.Available(Node(queue), Pair(pair))) {
        contested.insert(Pair(pair));
      }
    }
    if (contested.empty()) {
      return;
    }
    ++result_.questions;
    std::vector<Usage> used(forest_.workloads.size());
    VictimQuestion question{tree_, Node(queue), policy, priority, queue_time, contested, usage, {}};
    question.holders = [&](NodeId node, const std::function<void(const Holder&)>& visit) {
      for (size_t index = 0; index < forest_.workloads.size(); ++index) {
        const NaiveWorkload& workload = forest_.workloads[index];
        if (!workload.present || Node(workload.queue) != node) {
          continue;
        }
        used[index].clear();
        for (int pair = 0; pair < kPairs; ++pair) {
          AddUsage(used[index], Pair(pair), workload.asks[pair]);
        }
        visit({WorkloadId{static_cast<uint32_t>(index)}, node, workload.priority,
               workload.queue_time, workload.reserved_at, workload.evicting, &workload.uid,
               &workload.uid, &used[index]});
      }
    };
    NaiveSearch::Found found;
    for (const Victim& victim : FindVictims(question)) {
      found.emplace_back(static_cast<int>(victim.workload.value), victim.reason);
    }
    const NaiveSearch::Found expected =
        NaiveSearch(forest_, queue, policy, priority, queue_time, asks).Run();
    result_.preemptions += expected.empty() ? 0 : 1;
    if (found != expected) {
      result_.difference = "victims of queue " + std::to_string(queue) + ": " + Text(found) +
                           ", the twin says " + Text(expected);
    }
  }

  [[nodiscard]] std::string Text(const NaiveSearch::Found& found) const {
    std::string text = "[";
    for (const auto& [index, reason] : found) {
      text += " " + forest_.workloads[index].uid + ":" + std::string(ToString(reason));
    }
    return text + " ]";
  }

  void Compare() {
    for (int node = 0; node < static_cast<int>(forest_.nodes.size()); ++node) {
      const bool same_height = tree_.Height(Node(node)) == forest_.Height(node);
      Expect(same_height, node, 0, "height");
      for (int pair = 0; pair < kPairs; ++pair) {
        const NodeId id = Node(node);
        const FlavorResourceId of = Pair(pair);
        Expect(tree_.SubtreeQuota(id, of) == forest_.Subtree(node, pair), node, pair, "subtree");
        Expect(tree_.LocalQuota(id, of) == forest_.Local(node, pair), node, pair, "local");
        Expect(tree_.Usage(id, of) == forest_.Used(node, pair), node, pair, "usage");
        Expect(tree_.RawAvailable(id, of) == forest_.Raw(node, pair), node, pair, "available");
        Expect(tree_.PotentialAvailable(id, of) == forest_.Potential(node, pair), node, pair,
               "potential");
        const Amount amount = choose_(9);
        const QuotaTree::Level level = tree_.LowestSubtreeThatFits(id, of, amount);
        Expect(!forest_.nodes[node].is_queue || std::make_pair(level.height, level.below_root) ==
                                                    forest_.LowestThatHolds(node, pair, amount),
               node, pair, "level");
      }
    }
  }

  void Expect(bool same, int node, int pair, const char* what) {
    if (!same && result_.difference.empty()) {
      result_.difference =
          std::string(what) + " of node " + std::to_string(node) + ", pair " + std::to_string(pair);
    }
  }

  const std::function<int(int)>& choose_;
  NaiveForest forest_;
  QuotaTree tree_;
  std::vector<int> queues_;
  TwinResult result_;
};

}  // namespace

TwinResult PlayQuotaTwin(const std::function<int(int)>& choose) {
  return Game(choose).Play();
}

}  // namespace tutti::engine::testing
