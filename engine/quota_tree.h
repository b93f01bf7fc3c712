// SPDX-License-Identifier: Apache-2.0
// Quota and usage of ClusterQueues and Cohorts as a forest (Kueue's hierarchical cohorts, KEP-79):
// what a subtree owns, what it keeps for itself (lending limit), what it may take from outside
// (borrowing limit), what is used. All maths is per (flavor, resource). docs/engine.md has the
// formulas with worked numbers.
//
//        root cohort            usage of a parent = sum over children of what they use beyond
//        /        \             the part that they keep for themselves (LocalQuota)
//    cohort a    queue c
//     / \                                                                                       .
//  queue a1 queue a2
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "engine/ids.h"

namespace tutti::engine {

struct QuotaLimits {
  Amount nominal = 0;
  std::optional<Amount> borrowing;  // not set = no limit
  std::optional<Amount> lending;    // not set = everything may be lent
  bool operator==(const QuotaLimits&) const = default;
};

class QuotaTree {
 public:
  // --- building; Finish() ends it ---
  NodeId AddNode();
  void SetParent(NodeId child, NodeId parent);
  void SetLimits(NodeId node, FlavorResourceId id, const QuotaLimits& limits);
  // Finds cycles (nodes in or below one are cut off from their parents and report InCycle) and sums
  // up subtree quotas.
  void Finish();

  // --- usage ---
  void AddUsage(NodeId node, FlavorResourceId id, Amount amount);
  // Exact inverse of AddUsage, in any order.
  void RemoveUsage(NodeId node, FlavorResourceId id, Amount amount);

  // --- questions ---
  [[nodiscard]] size_t Size() const { return nodes_.size(); }
  [[nodiscard]] bool InCycle(NodeId node) const { return nodes_[node.value].in_cycle; }
  [[nodiscard]] NodeId Parent(NodeId node) const { return nodes_[node.value].parent; }
  [[nodiscard]] bool HasParent(NodeId node) const { return nodes_[node.value].parent.Valid(); }
  [[nodiscard]] const std::vector<NodeId>& Children(NodeId node) const {
    return nodes_[node.value].children;
  }
  [[nodiscard]] NodeId Root(NodeId node) const;
  // Distance to the furthest leaf: 0 for a ClusterQueue, 1 for a Cohort of ClusterQueues.
  [[nodiscard]] int Height(NodeId node) const { return nodes_[node.value].height; }
  [[nodiscard]] std::vector<FlavorResourceId> Cells(NodeId node) const;
  // Of these, the pairs for which the node or something below it has a quota (perhaps 0).
  [[nodiscard]] std::vector<FlavorResourceId> QuotaCells(NodeId node) const;
  // The QuotaCells that are used beyond SubtreeQuota, in order, and by how much.
  using Borrowed = std::vector<std::pair<FlavorResourceId, Amount>>;
  [[nodiscard]] Borrowed BorrowedBy(NodeId node) const;

  [[nodiscard]] Amount Nominal(NodeId node, FlavorResourceId id) const;
  [[nodiscard]] std::optional<Amount> BorrowingLimit(NodeId node, FlavorResourceId id) const;
  [[nodiscard]] Amount Usage(NodeId node, FlavorResourceId id) const;
  [[nodiscard]] Amount SubtreeQuota(NodeId node, FlavorResourceId id) const;
  [[nodiscard]] Amount LocalQuota(NodeId node, FlavorResourceId id) const;
  // What is left of the part that it keeps for itself; at least 0.
  [[nodiscard]] Amount LocalAvailable(NodeId node, FlavorResourceId id) const;
  // What the node could still take now; negative when more is used than allowed.
  [[nodiscard]] Amount RawAvailable(NodeId node, FlavorResourceId id) const;
  // Same, at least 0.
  [[nodiscard]] Amount Available(NodeId node, FlavorResourceId id) const;
  // What the node could take if nothing were used anywhere.
  [[nodiscard]] Amount PotentialAvailable(NodeId node, FlavorResourceId id) const;

  struct Level {
    int height = 0;           // of the lowest subtree that holds the amount; 0 = the queue itself
    bool below_root = false;  // that subtree is not the whole tree
  };
  [[nodiscard]] Level LowestSubtreeThatFits(NodeId queue, FlavorResourceId id, Amount amount) const;

 private:
  struct Cell {
    QuotaLimits limits;
    bool has_quota = false;  // here or below
    Amount subtree = 0;
    Amount usage = 0;
    [[nodiscard]] Amount Local() const;
    [[nodiscard]] Amount LocalAvailable() const;
  };
  struct Node {
    NodeId parent;
    std::vector<NodeId> children;
    int height = 0;
    bool in_cycle = false;
    std::vector<std::pair<FlavorResourceId, Cell>> cells;  // sorted by id
  };
  [[nodiscard]] const Cell& Get(NodeId node, FlavorResourceId id) const;
  Cell& GetOrAdd(NodeId node, FlavorResourceId id);

  std::vector<Node> nodes_;
};

}  // namespace tutti::engine
