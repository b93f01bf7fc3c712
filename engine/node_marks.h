// SPDX-License-Identifier: Apache-2.0
// When did what a node can take change last? Every change ticks a clock that only this file knows
// the meaning of. What was counted for a node at some time is still right as long as the node has
// no later mark. Nodes are known by slots: small numbers that stay while the node is known and are
// used again afterwards (the newcomer is marked).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::engine {

class NodeMarks {
 public:
  void Mark(size_t slot) {
    if (slot >= changed_.size())
      changed_.resize(slot + 1, 0);
    changed_[slot] = ++now_;
  }
  void MarkAll() { all_ = ++now_; }

  [[nodiscard]] uint64_t Now() const { return now_; }
  // When all nodes changed at once.
  [[nodiscard]] uint64_t All() const { return all_; }
  [[nodiscard]] bool Since(size_t slot, uint64_t time) const {
    return all_ > time || (slot < changed_.size() && changed_[slot] > time);
  }
  // Slots that were marked after `time`, ascending; REQUIRES: All() <= time. O(slots), a few
  // microseconds for 5,000.
  [[nodiscard]] std::vector<size_t> SlotsSince(uint64_t time) const {
    std::vector<size_t> out;
    for (size_t slot = 0; slot < changed_.size(); ++slot) {
      if (changed_[slot] > time)
        out.push_back(slot);
    }
    return out;
  }

 private:
  uint64_t now_ = 1;
  uint64_t all_ = 0;
  std::vector<uint64_t> changed_;
};

}  // namespace tutti::engine
