// SPDX-License-Identifier: Apache-2.0
// See device_book.h.
#include "engine/device_book.h"

#include <algorithm>

namespace tutti::engine {

void DeviceBook::Take(const DeviceUse& use) {
  const auto index = static_cast<size_t>(use.id);
  if (index >= entries_.size())
    entries_.resize(index + 1);
  Entry& entry = entries_[index];
  if (!use.shared) {
    ++entry.whole;
    return;
  }
  if (++entry.shares == 1)
    entry.consumed = std::make_unique<Capacities>();
  for (const auto& [name, amount] : use.consumed) {
    const auto [it, added] = entry.consumed->emplace(name, amount);
    if (!added)
      it->second = it->second + amount;
  }
}

void DeviceBook::Give(const DeviceUse& use) {
  Entry& entry = entries_[static_cast<size_t>(use.id)];
  if (!use.shared) {
    --entry.whole;
    return;
  }
  if (--entry.shares == 0) {
    entry.consumed.reset();
    return;
  }
  for (const auto& [name, amount] : use.consumed) {
    const auto it = entry.consumed->find(name);
    it->second = it->second - amount;
  }
}

bool operator==(const DeviceBook& a, const DeviceBook& b) {
  const auto without_zeros = [](const Capacities* capacities) {
    Capacities out;
    if (capacities != nullptr)
      out = *capacities;
    std::erase_if(out, [](const auto& entry) { return entry.second.IsZero(); });
    return out;
  };
  const size_t size = std::max(a.entries_.size(), b.entries_.size());
  for (size_t i = 0; i < size; ++i) {
    const auto id = static_cast<int32_t>(i);
    if (a.Whole(id) != b.Whole(id) || a.Shares(id) != b.Shares(id) ||
        without_zeros(a.Consumed(id)) != without_zeros(b.Consumed(id))) {
      return false;
    }
  }
  return true;
}

void DeviceTrial::Take(const DeviceUses& uses) {
  for (const DeviceUse& use : uses) {
    book_.Take(use);
    taken_.push_back(use);
  }
}

void DeviceTrial::Rollback(size_t mark) {
  while (taken_.size() > mark) {
    book_.Give(taken_.back());
    taken_.pop_back();
  }
}

}  // namespace tutti::engine
