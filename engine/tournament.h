// SPDX-License-Identifier: Apache-2.0
// The order in which fair sharing looks at the heads of ClusterQueues in one cycle (Kueue's
// tournament, KEP-1714): at each Cohort the children's heads compete, the one whose subtree would
// have the lowest share with its workload wins and competes one level up. After each pop the shares
// along the popped queue's path are taken anew, since processing it may have changed its usage; of
// other queues whose usage changes it has to be told.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "engine/fair_share.h"
#include "engine/pending_queue.h"

namespace tutti::engine {

class Tournament {
 public:
  // All outlive this object. The tree is as before after each call (usage is added and taken back).
  // `by_priority` false: of equal shares the older one goes first, whatever the priorities.
  Tournament(QuotaTree& tree, const FairShares& shares, bool by_priority = true)
      : tree_(tree), shares_(shares), before_(by_priority ? Before : IsOlder) {}

  // `usage` and `key` stay valid until the entry is popped. One entry per queue. `index` is what
  // Pop returns.
  void Add(size_t index, NodeId queue, const Usage& usage, const OrderKey& key);
  // The next entry; nothing when none is left. Of several trees the one whose winner is first in
  // order (priority, time) goes first: they share places, though no quota. O(depth × log children)
  // share computations aside.
  std::optional<size_t> Pop();
  void UsageChanged(NodeId queue) { changed_.insert(queue); }

 private:
  struct Entry {
    size_t index = 0;
    NodeId queue;
    const Usage* usage = nullptr;
    const OrderKey* key = nullptr;
    bool popped = false;
  };
  // A child of a Cohort with the entry that won below it.
  struct Contender {
    NodeId child;
    const Entry* entry = nullptr;
    FairShare share;  // of `child`, with the entry's usage
    bool borrows = false;
  };
  struct Less {
    bool (*before)(const OrderKey&, const OrderKey&);
    bool operator()(const Contender& a, const Contender& b) const;
  };
  using Contenders = std::set<Contender, Less>;

  void Start();
  void Refresh(NodeId child);
  [[nodiscard]] const Entry* Winner(NodeId node) const;

  QuotaTree& tree_;
  const FairShares& shares_;
  bool (*const before_)(const OrderKey&, const OrderKey&);
  std::map<NodeId, Entry> entries_;  // by queue
  std::map<NodeId, Contenders> cohorts_;
  std::map<NodeId, Contenders::iterator> places_;  // of children in their parent's set
  std::set<NodeId> roots_;                         // with entries
  std::set<NodeId> changed_;                       // queues whose paths are to be refreshed
  bool started_ = false;
};

}  // namespace tutti::engine
