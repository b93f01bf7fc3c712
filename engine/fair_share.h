// SPDX-License-Identifier: Apache-2.0
// Fair sharing's measure: how far a ClusterQueue or Cohort has gone beyond what it owns, as a share
// of what it could get, divided by its weight (Kueue's DominantResourceShare, KEP-1714). Worked
// numbers: docs/engine.md, "Fair sharing".
//
// Shares are doubles, computed in Kueue's order of operations (IEEE 754, no fused steps), so that
// ties fall as they do there; amounts of quota stay integers.
#pragma once

#include <map>
#include <vector>

#include "engine/assigner.h"
#include "engine/config.h"
#include "engine/ids.h"
#include "engine/quota_tree.h"

namespace tutti::engine {

struct FairShare {
  double ratio = 0;     // most borrowed resource: per mille of what the parent's tree could give
  double weight = 1;    // of the node; 0 = borrows only what nobody else wants
  ResourceId dominant;  // that resource; not valid when nothing is borrowed
  std::vector<FlavorResourceId> borrowed;  // pairs that are used beyond the subtree's quota

  // ratio / weight; infinite for a borrower of weight 0.
  [[nodiscard]] double Weighted() const;
  [[nodiscard]] bool BorrowsAnyOf(const Usage& wanted) const;
};

// -1, 0, 1: lower goes first when workloads are admitted, higher gives way when they are preempted.
// A borrower of weight 0 is above all others; two of them are compared by ratio.
[[nodiscard]] int CompareShares(const FairShare& a, const FairShare& b);

// Weights of the nodes of a QuotaTree, and what each node's parent could give if nothing were used
// (it depends on quotas alone, so it is computed once). Valid until the tree is built anew.
class FairShares {
 public:
  // `tree` is finished; both outlive this object.
  FairShares(const QuotaTree& tree, const Tables& tables);

  // 1 for nodes that were not named. Values below 0 count as 0.
  void SetWeight(NodeId node, double weight);
  // At the present usage of the tree. A node without parent has share 0: there is nobody to share
  // with. O(pairs of the node).
  [[nodiscard]] FairShare Of(NodeId node) const;

 private:
  using Lendable = std::map<ResourceId, Amount>;
  const QuotaTree& tree_;
  const Tables& tables_;
  std::vector<double> weights_;     // by node
  std::vector<Lendable> lendable_;  // by node; empty for leaves
};

}  // namespace tutti::engine
