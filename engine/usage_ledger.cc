// SPDX-License-Identifier: Apache-2.0
// See usage_ledger.h.
#include "engine/usage_ledger.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tutti::engine {

namespace {

void AddTo(Consumption& sum, const Consumption& more, double factor) {
  for (const auto& [resource, amount] : more) {
    sum[resource] += amount * factor;
  }
}

}  // namespace

double UsageLedger::Alpha(Duration elapsed) const {
  if (config_.usage_half_life <= Duration::zero()) {
    return 0;
  }
  const double spans = static_cast<double>(std::max(elapsed, Duration::zero()).count()) /
                       static_cast<double>(config_.usage_half_life.count());
  return 1.0 - std::pow(0.5, spans);
}

UsageLedger::Entry& UsageLedger::At(const api::ObjectKey& local_queue, Time now) {
  auto [position, added] = entries_.try_emplace(local_queue);
  if (added) {
    position->second.last_update = now;
  }
  return position->second;
}

void UsageLedger::Fade(Entry& entry, const Consumption& admitted, Time now) const {
  if (entry.last_update == kNoTime) {
    entry.last_update = now;  // made before there was a clock
  }
  if (config_.usage_half_life <= Duration::zero()) {
    entry.consumed.clear();  // nothing of the past counts
  } else {
    const double alpha = Alpha(now - entry.last_update);
    for (auto& [resource, amount] : entry.consumed) {
      amount *= 1 - alpha;
    }
    AddTo(entry.consumed, admitted, alpha);
  }
  entry.last_update = std::max(entry.last_update, now);
}

void UsageLedger::Restore(const api::ObjectKey& local_queue, const Consumption& consumed,
                          Time now) {
  Entry& entry = At(local_queue, now);
  if (!entry.restored) {
    entry.restored = true;
    AddTo(entry.consumed, consumed, 1);
  }
}

void UsageLedger::Charge(const api::ObjectKey& local_queue, const std::string& workload,
                         const Consumption& requests, Time now) {
  Consumption& charge = At(local_queue, now).charges[workload];
  charge.clear();
  AddTo(charge, requests, Alpha(config_.usage_sampling_interval));
}

void UsageLedger::Refund(const api::ObjectKey& local_queue, const std::string& workload) {
  if (auto entry = entries_.find(local_queue); entry != entries_.end()) {
    entry->second.charges.erase(workload);
  }
}

void UsageLedger::Settle(const api::ObjectKey& local_queue, const std::string& workload,
                         const Consumption& admitted, Time now) {
  Entry& entry = At(local_queue, now);
  Fade(entry, admitted, now);
  if (auto charge = entry.charges.find(workload); charge != entry.charges.end()) {
    AddTo(entry.consumed, charge->second, 1);
    entry.charges.erase(charge);
  }
}

void UsageLedger::Sample(const api::ObjectKey& local_queue, const Consumption& admitted, Time now) {
  Fade(At(local_queue, now), admitted, now);
}

double UsageLedger::Usage(const api::ObjectKey& local_queue, double weight) const {
  if (weight <= 0) {
    return std::numeric_limits<double>::infinity();
  }
  auto entry = entries_.find(local_queue);
  if (entry == entries_.end()) {
    return 0;
  }
  Consumption sum = entry->second.consumed;
  for (const auto& [workload, charge] : entry->second.charges) {
    AddTo(sum, charge, 1);
  }
  double usage = 0;
  for (const auto& [resource, amount] : sum) {
    auto found = config_.resource_weights.find(resource);
    usage += (found == config_.resource_weights.end() ? 1.0 : found->second) * amount;
  }
  return usage / weight;
}

Consumption UsageLedger::Consumed(const api::ObjectKey& local_queue) const {
  auto entry = entries_.find(local_queue);
  return entry == entries_.end() ? Consumption{} : entry->second.consumed;
}

Time UsageLedger::UpdatedAt(const api::ObjectKey& local_queue) const {
  auto entry = entries_.find(local_queue);
  return entry == entries_.end() ? kNoTime : entry->second.last_update;
}

}  // namespace tutti::engine
