// SPDX-License-Identifier: Apache-2.0
// Strong 32-bit ids inside the engine and the tables that turn names into them. Names appear only
// at the border: in calls, decisions and messages. Ids are given in the order of first use, so the
// same calls give the same ids.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::engine {

template <typename Tag>
struct Id {
  uint32_t value = std::numeric_limits<uint32_t>::max();
  [[nodiscard]] bool Valid() const { return value != std::numeric_limits<uint32_t>::max(); }
  auto operator<=>(const Id&) const = default;
};

using FlavorId = Id<struct FlavorTag>;
using ResourceId = Id<struct ResourceTag>;
using FlavorResourceId = Id<struct FlavorResourceTag>;  // a pair (flavor, resource)
using NodeId = Id<struct QuotaNodeTag>;  // a ClusterQueue or Cohort in the quota tree
using QueueId = Id<struct QueueTag>;     // a ClusterQueue
using LocalQueueId = Id<struct LocalQueueTag>;
using WorkloadId = Id<struct WorkloadTag>;
using ClassId = Id<struct ClassTag>;  // equal workloads of one ClusterQueue

// Quota amounts. Inputs are int64 (saturated at the border); sums of any number of them are exact
// in 128 bits, so that nothing wraps and a saturated sum is never mistaken for "unlimited".
__extension__ using Amount = __int128;

[[nodiscard]] inline int64_t Saturate(Amount amount) {
  if (amount > std::numeric_limits<int64_t>::max()) {
    return std::numeric_limits<int64_t>::max();
  }
  if (amount < std::numeric_limits<int64_t>::min()) {
    return std::numeric_limits<int64_t>::min();
  }
  return static_cast<int64_t>(amount);
}

template <typename IdType>
class Names {
 public:
  IdType Intern(std::string_view name) {
    if (auto found = ids_.find(name); found != ids_.end()) {
      return found->second;
    }
    const IdType id{static_cast<uint32_t>(names_.size())};
    auto inserted = ids_.emplace(std::string(name), id).first;
    names_.push_back(&inserted->first);
    return id;
  }
  // Not valid when the name was never used.
  [[nodiscard]] IdType Find(std::string_view name) const {
    auto found = ids_.find(name);
    return found == ids_.end() ? IdType{} : found->second;
  }
  [[nodiscard]] const std::string& Name(IdType id) const { return *names_[id.value]; }
  [[nodiscard]] size_t Size() const { return names_.size(); }

 private:
  std::map<std::string, IdType, std::less<>> ids_;
  std::vector<const std::string*> names_;
};

// Pairs of flavor and resource.
class FlavorResources {
 public:
  FlavorResourceId Intern(FlavorId flavor, ResourceId resource) {
    auto [position, inserted] = ids_.try_emplace(
        {flavor, resource}, FlavorResourceId{static_cast<uint32_t>(pairs_.size())});
    if (inserted) {
      pairs_.emplace_back(flavor, resource);
    }
    return position->second;
  }
  [[nodiscard]] FlavorId Flavor(FlavorResourceId id) const { return pairs_[id.value].first; }
  [[nodiscard]] ResourceId Resource(FlavorResourceId id) const { return pairs_[id.value].second; }

 private:
  std::map<std::pair<FlavorId, ResourceId>, FlavorResourceId> ids_;
  std::vector<std::pair<FlavorId, ResourceId>> pairs_;
};

}  // namespace tutti::engine
