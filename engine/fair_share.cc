// SPDX-License-Identifier: Apache-2.0
// See fair_share.h.
#include "engine/fair_share.h"

#include <algorithm>
#include <limits>

namespace tutti::engine {

namespace {

bool IsBoundless(const FairShare& share) {
  return share.weight == 0 && share.ratio > 0;
}

int Order(double a, double b) {
  return a < b ? -1 : (a > b ? 1 : 0);
}

}  // namespace

double FairShare::Weighted() const {
  if (ratio == 0) {
    return 0;
  }
  return weight == 0 ? std::numeric_limits<double>::infinity() : ratio / weight;
}

bool FairShare::BorrowsAnyOf(const Usage& wanted) const {
  return std::any_of(wanted.begin(), wanted.end(), [&](const auto& entry) {
    return entry.second > 0 && std::binary_search(borrowed.begin(), borrowed.end(), entry.first);
  });
}

int CompareShares(const FairShare& a, const FairShare& b) {
  if (IsBoundless(a) != IsBoundless(b)) {
    return IsBoundless(a) ? 1 : -1;
  }
  return IsBoundless(a) ? Order(a.ratio, b.ratio) : Order(a.Weighted(), b.Weighted());
}

FairShares::FairShares(const QuotaTree& tree, const Tables& tables)
    : tree_(tree), tables_(tables), weights_(tree.Size(), 1.0), lendable_(tree.Size()) {
  for (uint32_t index = 0; index < tree.Size(); ++index) {
    const NodeId parent = tree.Parent(NodeId{index});
    if (!parent.Valid() || !lendable_[parent.value].empty()) {
      continue;
    }
    Lendable& lendable = lendable_[parent.value];
    for (const FlavorResourceId pair : tree.QuotaCells(tree.Root(parent))) {
      lendable[tables.pairs.Resource(pair)] += tree.PotentialAvailable(parent, pair);
    }
  }
}

void FairShares::SetWeight(NodeId node, double weight) {
  weights_[node.value] = std::max(0.0, weight);
}

FairShare FairShares::Of(NodeId node) const {
  FairShare share;
  share.weight = weights_[node.value];
  const NodeId parent = tree_.Parent(node);
  if (!parent.Valid()) {
    return share;
  }
  std::vector<std::pair<ResourceId, Amount>> borrowed;  // few
  for (const auto& [pair, amount] : tree_.BorrowedBy(node)) {
    share.borrowed.push_back(pair);
    const ResourceId resource = tables_.pairs.Resource(pair);
    const auto known = std::find_if(borrowed.begin(), borrowed.end(),
                                    [&](const auto& entry) { return entry.first == resource; });
    if (known == borrowed.end()) {
      borrowed.emplace_back(resource, amount);
    } else {
      known->second += amount;
    }
  }
  const Lendable& lendable = lendable_[parent.value];
  for (const auto& [resource, amount] : borrowed) {
    auto found = lendable.find(resource);
    if (found == lendable.end() || found->second <= 0) {
      continue;
    }
    const double ratio = static_cast<double>(Saturate(amount)) * 1000.0 /
                         static_cast<double>(Saturate(found->second));
    if (ratio > share.ratio ||
        (ratio == share.ratio && share.dominant.Valid() &&
         tables_.resources.Name(resource) < tables_.resources.Name(share.dominant))) {
      share.ratio = ratio;
      share.dominant = resource;
    }
  }
  return share;
}

}  // namespace tutti::engine
