// SPDX-License-Identifier: Apache-2.0
// See tournament.h.
#include "engine/tournament.h"

#include <utility>

namespace tutti::engine {

// Kueue's gate FairSharingPrioritizeNonBorrowing is on: who stays within quota goes first.
bool Tournament::Less::operator()(const Contender& a, const Contender& b) const {
  if (a.borrows != b.borrows) {
    return b.borrows;
  }
  if (const int order = CompareShares(a.share, b.share); order != 0) {
    return order < 0;
  }
  return before(*a.entry->key, *b.entry->key);
}

void Tournament::Add(size_t index, NodeId queue, const Usage& usage, const OrderKey& key) {
  entries_[queue] = Entry{index, queue, &usage, &key, false};
}

const Tournament::Entry* Tournament::Winner(NodeId node) const {
  if (auto entry = entries_.find(node); entry != entries_.end()) {
    return entry->second.popped ? nullptr : &entry->second;
  }
  auto cohort = cohorts_.find(node);
  return cohort == cohorts_.end() || cohort->second.empty() ? nullptr
                                                            : cohort->second.begin()->entry;
}

// Puts `child` into its parent's contest anew, and so on up to the root.
void Tournament::Refresh(NodeId child) {
  for (NodeId parent = tree_.Parent(child); parent.Valid();
       child = parent, parent = tree_.Parent(child)) {
    Contenders& contest = cohorts_.try_emplace(parent, Less{before_}).first->second;
    if (auto place = places_.find(child); place != places_.end()) {
      contest.erase(place->second);
      places_.erase(place);
    }
    const Entry* winner = Winner(child);
    if (winner == nullptr) {
      continue;
    }
    Contender contender{child, winner, {}, false};
    for (const auto& [pair, amount] : *winner->usage) {
      tree_.AddUsage(winner->queue, pair, amount);
    }
    contender.share = shares_.Of(child);
    for (const auto& [pair, amount] : *winner->usage) {
      tree_.RemoveUsage(winner->queue, pair, amount);
    }
    contender.borrows = contender.share.BorrowsAnyOf(*winner->usage);
    places_[child] = contest.insert(std::move(contender)).first;
  }
}

void Tournament::Start() {
  started_ = true;
  for (const auto& [queue, entry] : entries_) {
    roots_.insert(tree_.Root(queue));
  }
  // Lower levels first would save a few refreshes of the upper ones; trees have few levels.
  for (const auto& [queue, entry] : entries_) {
    Refresh(queue);
  }
}

std::optional<size_t> Tournament::Pop() {
  if (!started_) {
    Start();
  }
  for (const NodeId queue : changed_) {
    Refresh(queue);
  }
  changed_.clear();
  const Entry* best = nullptr;
  for (auto root = roots_.begin(); root != roots_.end();) {
    const Entry* winner = Winner(*root);
    if (winner == nullptr) {
      root = roots_.erase(root);
      continue;
    }
    if (best == nullptr || before_(*winner->key, *best->key)) {
      best = winner;
    }
    ++root;
  }
  if (best == nullptr) {
    return std::nullopt;
  }
  changed_.insert(best->queue);
  entries_.at(best->queue).popped = true;  // contests know it until they are refreshed
  return best->index;
}

}  // namespace tutti::engine
