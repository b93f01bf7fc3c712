// SPDX-License-Identifier: Apache-2.0
// See fit_memory.h.
#include "engine/fit_memory.h"

#include <iterator>
#include <utility>

namespace tutti::engine {

void Refused::Set(size_t slot, size_t kind, AloneCount count) {
  const size_t kinds = wanted.size();
  if ((slot + 1) * kinds > alone.size())
    alone.resize((slot + 1) * kinds);
  AloneCount& known = alone[slot * kinds + kind];
  now[kind] += int64_t{count.now} - known.now;
  empty[kind] += int64_t{count.empty} - known.empty;
  known = count;
}

bool Refused::Short(const std::vector<int64_t>& sums) const {
  for (size_t kind = 0; kind < wanted.size(); ++kind) {
    if (sums[kind] < wanted[kind])
      return true;
  }
  return false;
}

Refused* FitMemory::Find(const std::string& key) {
  ++asks_;
  const auto it = by_key_.find(key);
  if (it == by_key_.end())
    return nullptr;
  it->second->asked = asks_;
  entries_.splice(entries_.end(), entries_, it->second);
  return &it->second->refused;
}

void FitMemory::Forget(const std::string& key) {
  const auto it = by_key_.find(key);
  if (it == by_key_.end())
    return;
  bytes_ -= it->second->bytes;
  entries_.erase(it->second);
  by_key_.erase(it);
}

void FitMemory::Keep(const std::string& key, Refused refused) {
  Forget(key);
  const size_t bytes = sizeof(Entry) + 2 * key.size() + refused.alone.size() * sizeof(AloneCount) +
                       refused.arrangement.size() * sizeof(Refused::Part);
  while (bytes_ + bytes > kLimit) {
    if (entries_.empty() || asks_ - entries_.front().asked < 2 * entries_.size())
      return;
    Forget(std::string(entries_.front().key));
  }
  entries_.push_back({key, std::move(refused), asks_, bytes});
  by_key_[key] = std::prev(entries_.end());
  bytes_ += bytes;
}

}  // namespace tutti::engine
