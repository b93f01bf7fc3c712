// SPDX-License-Identifier: Apache-2.0
// See device_share.h.
#include "engine/device_share.h"

namespace tutti::engine {
namespace {

__extension__ using Wide = __int128;

// The first min + k * step that isn't below. Steps count whole units, as in Kubernetes.
api::Quantity RoundUpToRange(const api::Quantity& asked, const api::CapacityPolicy& policy) {
  if (asked < *policy.min)
    return *policy.min;
  if (!policy.step || policy.step->Value() <= 0)
    return asked;
  const Wide min = policy.min->Value();
  const Wide step = policy.step->Value();
  const Wide above = Wide{asked.Value()} - min;
  const Wide rounded = min + (above + step - 1) / step * step;
  constexpr Wide kMax = INT64_MAX;
  return api::Quantity::FromInt(static_cast<int64_t>(rounded > kMax ? kMax : rounded));
}

api::Quantity Rounded(const api::Quantity* asked, const api::DeviceCapacity& capacity) {
  if (asked == nullptr) {
    return capacity.policy && capacity.policy->default_value ? *capacity.policy->default_value
                                                             : capacity.value;
  }
  if (!capacity.policy)
    return *asked;
  const api::CapacityPolicy& policy = *capacity.policy;
  if (policy.has_range && policy.min)
    return RoundUpToRange(*asked, policy);
  for (const api::Quantity& valid : policy.valid_values) {
    if (*asked <= valid)
      return valid;
  }
  return *asked;
}

bool Violates(const api::Quantity& amount, const api::CapacityPolicy& policy) {
  if (policy.default_value && amount == *policy.default_value)
    return false;
  if (policy.has_range) {
    if (policy.max && amount > *policy.max)
      return true;
    if (!policy.step || policy.step->Value() <= 0)
      return false;
    const Wide min = policy.min ? policy.min->Value() : 0;
    return (Wide{amount.Value()} - min) % policy.step->Value() != 0;
  }
  if (policy.valid_values.empty())
    return false;
  for (const api::Quantity& valid : policy.valid_values) {
    if (amount == valid)
      return false;
  }
  return true;
}

const api::Quantity* Find(const Capacities* capacities, const std::string& name) {
  if (capacities == nullptr)
    return nullptr;
  const auto it = capacities->find(name);
  return it == capacities->end() ? nullptr : &it->second;
}

}  // namespace

std::optional<Capacities> ConsumedBy(const Capacities& requested, const api::Device& device) {
  for (const auto& [name, amount] : requested) {
    if (!device.capacity.contains(name))
      return std::nullopt;
  }
  Capacities out;
  for (const auto& [name, capacity] : device.capacity) {
    api::Quantity amount = Rounded(Find(&requested, name), capacity);
    if (capacity.policy && Violates(amount, *capacity.policy))
      return std::nullopt;
    out.emplace(name, std::move(amount));
  }
  return out;
}

bool CapacityLeft(const api::Device& device, const Capacities& consumed, const Capacities* taken,
                  const Capacities* also_taken) {
  for (const auto& [name, amount] : consumed) {
    const auto capacity = device.capacity.find(name);
    if (capacity == device.capacity.end())
      continue;
    api::Quantity sum = amount;
    for (const Capacities* more : {taken, also_taken}) {
      if (const api::Quantity* other = Find(more, name))
        sum = sum + *other;
    }
    if (sum > capacity->second.value)
      return false;
  }
  return true;
}

}  // namespace tutti::engine
