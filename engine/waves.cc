// SPDX-License-Identifier: Apache-2.0
#include "engine/waves.h"

#include <algorithm>

namespace tutti::engine {

bool Waves::HoldsBack(NodeId root, QueueId queue, uint64_t arrival, Time now) const {
  if (interval_ == Duration::zero()) {
    return false;
  }
  if (struck_.contains({root, queue})) {
    return true;
  }
  const auto wave = waves_.find(root);
  return wave != waves_.end() && now < OverAt(wave->second) && arrival <= wave->second.arrivals;
}

void Waves::EndPass(Time now) {
  if (interval_ == Duration::zero()) {
    struck_.clear();
  }
  for (const auto& [root, queue] : struck_) {
    waves_[root] = Wave{now, arrivals_};
  }
  struck_.clear();
}

void Waves::RoomCame(NodeId root) {
  if (const auto wave = waves_.find(root); wave != waves_.end()) {
    wave->second.room_came = true;
  }
}

std::optional<Time> Waves::Over() const {
  std::optional<Time> first;
  for (const auto& [root, wave] : waves_) {
    first = first ? std::min(*first, OverAt(wave)) : OverAt(wave);
  }
  return first;
}

std::vector<NodeId> Waves::TakeOver(Time now) {
  std::vector<NodeId> roots;
  for (const auto& [root, wave] : waves_) {
    if (OverAt(wave) <= now) {
      roots.push_back(root);
    }
  }
  for (const NodeId root : roots) {
    waves_.erase(root);
  }
  return roots;
}

}  // namespace tutti::engine
