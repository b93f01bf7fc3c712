// SPDX-License-Identifier: Apache-2.0
// The formulas of hierarchical cohorts; see quota_tree.h and docs/engine.md.
#include "engine/quota_tree.h"

#include <algorithm>

namespace tutti::engine {

namespace {

constexpr Amount kZero = 0;

auto CellPosition(auto& cells, FlavorResourceId id) {
  return std::lower_bound(cells.begin(), cells.end(), id,
                          [](const auto& cell, FlavorResourceId key) { return cell.first < key; });
}

}  // namespace

Amount QuotaTree::Cell::Local() const {
  return limits.lending ? std::max(kZero, subtree - *limits.lending) : kZero;
}

Amount QuotaTree::Cell::LocalAvailable() const {
  return std::max(kZero, Local() - usage);
}

const QuotaTree::Cell& QuotaTree::Get(NodeId node, FlavorResourceId id) const {
  static const Cell kNone;
  const auto& cells = nodes_[node.value].cells;
  auto position = CellPosition(cells, id);
  return position != cells.end() && position->first == id ? position->second : kNone;
}

QuotaTree::Cell& QuotaTree::GetOrAdd(NodeId node, FlavorResourceId id) {
  auto& cells = nodes_[node.value].cells;
  auto position = CellPosition(cells, id);
  if (position == cells.end() || position->first != id) {
    position = cells.insert(position, {id, Cell{}});
  }
  return position->second;
}

NodeId QuotaTree::AddNode() {
  nodes_.emplace_back();
  return NodeId{static_cast<uint32_t>(nodes_.size() - 1)};
}

void QuotaTree::SetParent(NodeId child, NodeId parent) {
  nodes_[child.value].parent = parent;
}

void QuotaTree::SetLimits(NodeId node, FlavorResourceId id, const QuotaLimits& limits) {
  GetOrAdd(node, id).limits = limits;
}

void QuotaTree::Finish() {
  // Depth of each node; a walk longer than the number of nodes is in a cycle.
  std::vector<std::pair<size_t, NodeId>> by_depth;
  for (uint32_t index = 0; index < nodes_.size(); ++index) {
    size_t depth = 0;
    NodeId at = nodes_[index].parent;
    while (at.Valid() && depth <= nodes_.size()) {
      ++depth;
      at = nodes_[at.value].parent;
    }
    nodes_[index].in_cycle = at.Valid();
    by_depth.emplace_back(depth, NodeId{index});
  }
  for (uint32_t index = 0; index < nodes_.size(); ++index) {
    Node& node = nodes_[index];
    if (node.in_cycle) {
      node.parent = NodeId{};
    } else if (node.parent.Valid()) {
      nodes_[node.parent.value].children.push_back(NodeId{index});
    }
  }
  std::sort(by_depth.begin(), by_depth.end(), std::greater<>());
  for (const auto& [depth, id] : by_depth) {
    const Node& node = nodes_[id.value];
    for (auto& [pair, cell] : nodes_[id.value].cells) {
      cell.subtree += cell.limits.nominal;
      cell.has_quota = true;
    }
    if (!node.parent.Valid()) {
      continue;
    }
    Node& parent = nodes_[node.parent.value];
    parent.height = std::max(parent.height, node.height + 1);
    for (const auto& [pair, cell] : node.cells) {
      GetOrAdd(node.parent, pair).subtree += cell.subtree - cell.Local();
    }
  }
}

void QuotaTree::AddUsage(NodeId node, FlavorResourceId id, Amount amount) {
  while (node.Valid() && amount > 0) {
    Cell& cell = GetOrAdd(node, id);
    const Amount kept = cell.LocalAvailable();
    cell.usage += amount;
    amount = std::max(kZero, amount - kept);
    node = nodes_[node.value].parent;
  }
}

void QuotaTree::RemoveUsage(NodeId node, FlavorResourceId id, Amount amount) {
  while (node.Valid() && amount > 0) {
    Cell& cell = GetOrAdd(node, id);
    const Amount beyond = std::max(kZero, cell.usage - cell.Local());
    cell.usage -= amount;
    amount = std::min(amount, beyond);
    node = nodes_[node.value].parent;
  }
}

NodeId QuotaTree::Root(NodeId node) const {
  while (nodes_[node.value].parent.Valid()) {
    node = nodes_[node.value].parent;
  }
  return node;
}

std::vector<FlavorResourceId> QuotaTree::Cells(NodeId node) const {
  std::vector<FlavorResourceId> ids;
  for (const auto& [id, cell] : nodes_[node.value].cells) {
    ids.push_back(id);
  }
  return ids;
}

std::vector<FlavorResourceId> QuotaTree::QuotaCells(NodeId node) const {
  std::vector<FlavorResourceId> ids;
  for (const auto& [id, cell] : nodes_[node.value].cells) {
    if (cell.has_quota) {
      ids.push_back(id);
    }
  }
  return ids;
}

QuotaTree::Borrowed QuotaTree::BorrowedBy(NodeId node) const {
  Borrowed borrowed;
  for (const auto& [id, cell] : nodes_[node.value].cells) {
    if (cell.has_quota && cell.usage > cell.subtree) {
      borrowed.emplace_back(id, cell.usage - cell.subtree);
    }
  }
  return borrowed;
}

Amount QuotaTree::Nominal(NodeId node, FlavorResourceId id) const {
  return Get(node, id).limits.nominal;
}

std::optional<Amount> QuotaTree::BorrowingLimit(NodeId node, FlavorResourceId id) const {
  return Get(node, id).limits.borrowing;
}

Amount QuotaTree::Usage(NodeId node, FlavorResourceId id) const {
  return Get(node, id).usage;
}

Amount QuotaTree::SubtreeQuota(NodeId node, FlavorResourceId id) const {
  return Get(node, id).subtree;
}

Amount QuotaTree::LocalQuota(NodeId node, FlavorResourceId id) const {
  return Get(node, id).Local();
}

Amount QuotaTree::LocalAvailable(NodeId node, FlavorResourceId id) const {
  return Get(node, id).LocalAvailable();
}

Amount QuotaTree::RawAvailable(NodeId node, FlavorResourceId id) const {
  const Cell& cell = Get(node, id);
  const NodeId parent = nodes_[node.value].parent;
  if (!parent.Valid()) {
    return cell.subtree - cell.usage;
  }
  Amount from_parent = RawAvailable(parent, id);
  if (cell.limits.borrowing) {
    const Amount lendable = cell.subtree - cell.Local();
    const Amount used_of_it = std::max(kZero, cell.usage - cell.Local());
    from_parent = std::min(from_parent, lendable - used_of_it + *cell.limits.borrowing);
  }
  return cell.LocalAvailable() + from_parent;
}

Amount QuotaTree::Available(NodeId node, FlavorResourceId id) const {
  return std::max(kZero, RawAvailable(node, id));
}

Amount QuotaTree::PotentialAvailable(NodeId node, FlavorResourceId id) const {
  const Cell& cell = Get(node, id);
  const NodeId parent = nodes_[node.value].parent;
  if (!parent.Valid()) {
    return cell.subtree;
  }
  Amount potential = cell.Local() + PotentialAvailable(parent, id);
  if (cell.limits.borrowing) {
    potential = std::min(potential, cell.subtree + *cell.limits.borrowing);
  }
  return potential;
}

QuotaTree::Level QuotaTree::LowestSubtreeThatFits(NodeId queue, FlavorResourceId id,
                                                  Amount amount) const {
  const Cell& own = Get(queue, id);
  NodeId at = nodes_[queue.value].parent;
  if (!at.Valid()) {
    return {0, false};
  }
  if (own.usage + amount <= own.limits.nominal) {
    return {0, true};
  }
  Amount remaining = amount - own.LocalAvailable();
  NodeId last = queue;
  while (at.Valid()) {
    const Cell& cell = Get(at, id);
    if (cell.usage + remaining <= cell.subtree) {
      return {nodes_[at.value].height, nodes_[at.value].parent.Valid()};
    }
    remaining -= cell.LocalAvailable();
    last = at;
    at = nodes_[at.value].parent;
  }
  return {nodes_[last.value].height, false};
}

}  // namespace tutti::engine
