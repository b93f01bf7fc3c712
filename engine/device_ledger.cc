// SPDX-License-Identifier: Apache-2.0
// See device_ledger.h.
#include "engine/device_ledger.h"

#include <algorithm>
#include <set>

namespace tutti::engine {
namespace {

bool SameDevices(const DeviceUses& a, const DeviceUses& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const DeviceUse& x, const DeviceUse& y) { return x.id == y.id; });
}

bool Overlap(const DeviceUses& a, const DeviceUses& b) {
  return std::any_of(a.begin(), a.end(), [&](const DeviceUse& x) {
    return std::any_of(b.begin(), b.end(), [&](const DeviceUse& y) { return x.id == y.id; });
  });
}

std::string HolderOf(const api::ObjectKey& key, const ClaimRecord& claim) {
  return claim.gang.empty() ? SharedKey(key) : claim.gang;
}

}  // namespace

std::string SharedKey(const api::ObjectKey& claim) {
  return "claim " + claim.ToString();
}

std::string GroupKey(const std::string& gang, const std::string& claim) {
  return "group of " + gang + ": " + claim;
}

// --- what exists
// ----------------------------------------------------------------------------------------

bool DeviceLedger::SetSlice(std::shared_ptr<const api::ResourceSlice> slice) {
  const bool changed = inventory_.SetSlice(std::move(slice));
  version_ += changed ? 1 : 0;
  return changed;
}

bool DeviceLedger::RemoveSlice(const std::string& name) {
  ++version_;
  // An outdated or broken slice may have been in the way.
  return inventory_.RemoveSlice(name);
}

bool DeviceLedger::SetClass(const api::DeviceClass& device_class) {
  inventory_.TrimSelectors(1024);
  const bool changed = inventory_.SetClass(device_class);
  ClassesChanged(changed);
  return changed;
}

bool DeviceLedger::RemoveClass(const std::string& name) {
  // Another class may now stand for an extended resource.
  const bool changed = inventory_.RemoveClass(name);
  ClassesChanged(changed);
  return changed;
}

void DeviceLedger::ClassesChanged(bool changed) {
  ++version_;
  if (changed)
    served_.clear();
  changes_.all |= changed;
}

bool DeviceLedger::SetTemplate(const api::ResourceClaimTemplate& claim_template) {
  std::shared_ptr<const api::ClaimSpec>& known = templates_[claim_template.meta.Key()];
  if (known != nullptr && *known == claim_template.spec)
    return false;
  known = std::make_shared<const api::ClaimSpec>(claim_template.spec);
  ++version_;
  inventory_.TrimSelectors(1024);
  return true;
}

bool DeviceLedger::RemoveTemplate(const api::ObjectKey& key) {
  templates_.erase(key);
  ++version_;
  return false;
}

const ClaimRecord* DeviceLedger::FindClaim(const api::ObjectKey& key) const {
  const auto it = claims_.find(key);
  return it == claims_.end() ? nullptr : &it->second;
}

std::shared_ptr<const api::ClaimSpec> DeviceLedger::FindTemplate(const api::ObjectKey& key) const {
  const auto it = templates_.find(key);
  return it == templates_.end() ? nullptr : it->second;
}

// --- claims
// ---------------------------------------------------------------------------------------------

void DeviceLedger::Touch(int32_t id) {
  const std::string* node = inventory_.OnlyNodeOf(id);
  if (node == nullptr)
    served_.clear();
  else if (!node->empty() && (changes_.nodes.empty() || changes_.nodes.back() != *node))
    changes_.nodes.push_back(*node);
}

ChangedViews DeviceLedger::TakeChanges() {
  ChangedViews out = inventory_.TakeChanges();
  out.all |= std::exchange(changes_.all, false);
  out.nodes.insert(out.nodes.end(), std::make_move_iterator(changes_.nodes.begin()),
                   std::make_move_iterator(changes_.nodes.end()));
  changes_.nodes.clear();
  return out;
}

void DeviceLedger::Take(const DeviceUses& uses, const std::string& holder) {
  int32_t number = -1;
  for (const DeviceUse& use : uses) {
    book_.Take(use);
    Touch(use.id);
    if (number < 0)
      number = holder_names_.Acquire(holder);
    else
      holder_names_.Hold(number);
    const auto index = static_cast<size_t>(use.id);
    if (index >= holders_.size())
      holders_.resize(index + 1);
    holders_[index].push_back(number);
  }
}

void DeviceLedger::Give(const DeviceUses& uses, const std::string& holder) {
  const int32_t number = uses.empty() ? -1 : holder_names_.Find(holder);
  for (const DeviceUse& use : uses) {
    book_.Give(use);
    Touch(use.id);
    std::vector<int32_t>& holders = holders_[static_cast<size_t>(use.id)];
    holders.erase(std::find(holders.begin(), holders.end(), number));
    holder_names_.Release(number);
    inventory_.ReleaseId(use.id);
  }
}

// Holds the ids.
DeviceUses DeviceLedger::UsesOf(const api::ClaimAllocation& allocation) {
  DeviceUses uses;
  for (const api::DeviceResult& result : allocation.results) {
    if (result.admin_access)
      continue;
    uses.push_back({inventory_.AcquireId(result.driver, result.pool, result.device),
                    !result.share_id.empty(), result.consumed});
  }
  return uses;
}

void DeviceLedger::CountClaim(const api::ObjectKey& key, const ClaimRecord& record, int sign) {
  ++version_;
  for (const DeviceUse& use : record.uses) {
    const auto index = static_cast<size_t>(use.id);
    if (index >= claims_with_.size())
      claims_with_.resize(index + 1, 0);
    claims_with_[index] += sign;
  }
  if (record.gang.empty())
    return;
  std::set<api::ObjectKey>& of_gang = claims_of_[record.gang];
  if (sign > 0)
    of_gang.insert(key);
  else
    of_gang.erase(key);
  if (of_gang.empty())
    claims_of_.erase(record.gang);
}

bool DeviceLedger::SetClaim(const api::ResourceClaim& claim, const std::string& gang,
                            const std::string& pod_set) {
  const api::ObjectKey key = claim.meta.Key();
  ClaimRecord record;
  record.allocated = claim.allocation.has_value();
  record.deleting = claim.meta.deleted.has_value();
  record.consumers = claim.reserved_for.size();
  if (record.consumers == 1 && claim.reserved_for.front().resource == "pods")
    record.consumer = claim.reserved_for.front().uid;
  record.gang = gang;
  record.pod_set = pod_set;
  record.pod_claim = claim.meta.Annotation(api::kExtendedResourceClaimAnnotation) == "true"
                         ? kExtendedClaim
                         : std::string(claim.meta.Annotation(api::kPodClaimNameAnnotation));
  if (claim.allocation) {
    record.node_selector = claim.allocation->node_selector;
    record.uses = UsesOf(*claim.allocation);
  }
  const auto it = claims_.find(key);
  const ClaimRecord old = it == claims_.end() ? ClaimRecord() : it->second;
  record.spec = old.spec != nullptr && *old.spec == claim.spec
                    ? old.spec
                    : std::make_shared<const api::ClaimSpec>(claim.spec);
  if (it != claims_.end() && record == old) {
    for (const DeviceUse& use : record.uses)
      inventory_.ReleaseId(use.id);
    return false;
  }
  // Claims that gangs name may be what they wait for; devices that are free again are, too.
  const bool helps = it == claims_.end() || (old.allocated && record.uses != old.uses) ||
                     old.allocated != record.allocated || record.consumers < old.consumers ||
                     old.spec != record.spec;
  const bool given = record.allocated && (!old.allocated || old.gang != gang);
  CountClaim(key, old, -1);
  CountClaim(key, record, +1);
  Take(record.uses, HolderOf(key, record));
  Give(old.uses, HolderOf(key, old));
  claims_[key] = record;
  if (given && !gang.empty())
    Confirm(key, record);
  return helps;
}

bool DeviceLedger::RemoveClaim(const api::ObjectKey& key) {
  const auto it = claims_.find(key);
  if (it == claims_.end())
    return false;
  const bool helps = !it->second.uses.empty();
  CountClaim(key, it->second, -1);
  Give(it->second.uses, HolderOf(key, it->second));
  claims_.erase(it);
  return helps;
}

// --- promises
// -------------------------------------------------------------------------------------------

bool DeviceLedger::Reserve(const std::string& gang, std::vector<PodPromise> pods) {
  const bool freed = Release(gang);
  std::erase_if(pods, [](const PodPromise& pod) { return pod.claims.empty(); });
  if (pods.empty())
    return freed;
  for (const PodPromise& pod : pods) {
    for (const PromisedClaim& claim : pod.claims) {
      for (const DeviceUse& use : claim.uses)
        inventory_.HoldId(use.id);
      Take(claim.uses, gang);
    }
  }
  promises_[gang] = std::move(pods);
  return freed;
}

bool DeviceLedger::Release(const std::string& gang) {
  const auto it = promises_.find(gang);
  if (it == promises_.end())
    return false;
  for (const PodPromise& pod : it->second) {
    for (const PromisedClaim& claim : pod.claims)
      Give(claim.uses, gang);
  }
  promises_.erase(it);
  return true;
}

// Of several pods whose claim this may be, the one that was promised these devices, then one that
// was promised some of them, then the first.
void DeviceLedger::Confirm(const api::ObjectKey& key, const ClaimRecord& record) {
  const auto it = promises_.find(record.gang);
  if (it == promises_.end())
    return;
  const std::string shared = SharedKey(key);
  const std::string group = record.pod_claim.empty() ? "" : GroupKey(record.gang, record.pod_claim);
  std::vector<PodPromise>& pods = it->second;
  PodPromise* best_pod = nullptr;
  size_t best_claim = 0;
  int best_rank = -1;
  for (PodPromise& pod : pods) {
    for (size_t c = 0; c < pod.claims.size(); ++c) {
      const PromisedClaim& claim = pod.claims[c];
      const bool alike = claim.shared.empty()
                             ? claim.name == record.pod_claim && pod.pod_set == record.pod_set
                             : claim.shared == shared || claim.shared == group;
      if (!alike)
        continue;
      const int rank = SameDevices(claim.uses, record.uses) ? 2
                       : Overlap(claim.uses, record.uses)   ? 1
                                                            : 0;
      if (rank > best_rank) {
        best_rank = rank;
        best_pod = &pod;
        best_claim = c;
      }
    }
  }
  if (best_pod == nullptr)
    return;
  Give(best_pod->claims[best_claim].uses, record.gang);
  best_pod->claims.erase(best_pod->claims.begin() + static_cast<std::ptrdiff_t>(best_claim));
  if (best_pod->claims.empty())
    pods.erase(pods.begin() + (best_pod - pods.data()));
  if (pods.empty())
    promises_.erase(it);
}

bool DeviceLedger::PlanBroken(const std::string& gang) const {
  const auto it = promises_.find(gang);
  if (it == promises_.end())
    return false;
  for (const PodPromise& pod : it->second) {
    std::set<int32_t> seen;
    for (const PoolView& pool : inventory_.ViewOf(pod.node).pools) {
      for (const PoolView::Device& device : pool.devices) {
        if (device.here)
          seen.insert(inventory_.At(device.place).id);
      }
    }
    for (const PromisedClaim& claim : pod.claims) {
      for (const DeviceUse& use : claim.uses) {
        if (!seen.contains(use.id) || book_.Whole(use.id) > 1)
          return true;
      }
    }
  }
  return false;
}

const PromisedClaim* DeviceLedger::PromisedTo(const std::string& shared,
                                              const std::string& except_gang) const {
  for (const auto& [gang, pods] : promises_) {
    if (gang == except_gang)
      continue;
    for (const PodPromise& pod : pods) {
      for (const PromisedClaim& claim : pod.claims) {
        if (claim.shared == shared)
          return &claim;
      }
    }
  }
  return nullptr;
}

// --- memory of counts
// -----------------------------------------------------------------------------------

template <typename Visit>
void DeviceLedger::ForUsesOf(const std::string& gang, const Visit& visit) const {
  ForClaimsOf(gang, [&](const ClaimRecord& claim) {
    for (const DeviceUse& use : claim.uses)
      visit(use);
  });
  const auto promised = promises_.find(gang);
  if (promised == promises_.end())
    return;
  for (const PodPromise& pod : promised->second) {
    for (const PromisedClaim& claim : pod.claims) {
      for (const DeviceUse& use : claim.uses)
        visit(use);
    }
  }
}

void DeviceLedger::Hide(const std::string& gang) const {
  ForUsesOf(gang, [this](const DeviceUse& use) { book_.Give(use); });
}

void DeviceLedger::Show(const std::string& gang) const {
  ForUsesOf(gang, [this](const DeviceUse& use) { book_.Take(use); });
}

std::vector<ServedCount>& DeviceLedger::ServedCounts(
    const std::vector<std::shared_ptr<const api::ClaimSpec>>& claims, bool empty,
    size_t slots) const {
  constexpr size_t kMaxKinds = 256;
  if (served_.size() >= kMaxKinds)
    served_.clear();
  std::vector<ServedCount>& counts = served_[{claims, empty}];
  if (counts.size() < slots)
    counts.resize(slots);
  return counts;
}

// --- self-check
// -----------------------------------------------------------------------------------------

std::string DeviceLedger::SanityCheck() const {
  if (std::string problem = inventory_.SanityCheck(); !problem.empty())
    return problem;
  DeviceBook expected;
  std::map<int32_t, std::multiset<std::string>> holders;
  std::map<int32_t, int32_t> with;
  size_t of_gangs = 0;
  for (const auto& [key, claim] : claims_) {
    for (const DeviceUse& use : claim.uses) {
      expected.Take(use);
      ++with[use.id];
      holders[use.id].insert(HolderOf(key, claim));
    }
    const auto of_gang = claims_of_.find(claim.gang);
    of_gangs += claim.gang.empty() ? 0 : 1;
    if (!claim.gang.empty() && (of_gang == claims_of_.end() || !of_gang->second.contains(key)))
      return "claim " + key.ToString() + " is not listed with its gang";
  }
  for (const auto& [gang, keys] : claims_of_)
    of_gangs -= keys.size();
  if (of_gangs != 0)
    return "a gang lists a claim that isn't its own";
  for (size_t id = 0; id < claims_with_.size(); ++id) {
    const auto it = with.find(static_cast<int32_t>(id));
    if (claims_with_[id] != (it == with.end() ? 0 : it->second))
      return "the claims with a device are counted wrong";
  }
  for (const auto& [gang, pods] : promises_) {
    if (pods.empty())
      return "the promises of gang " + gang + " are kept without need";
    for (const PodPromise& pod : pods) {
      if (pod.claims.empty())
        return "gang " + gang + " keeps a pod without claims";
      for (const PromisedClaim& claim : pod.claims) {
        for (const DeviceUse& use : claim.uses) {
          expected.Take(use);
          holders[use.id].insert(gang);
        }
      }
    }
  }
  for (size_t id = 0; id < holders_.size(); ++id) {
    std::multiset<std::string> names;
    for (const int32_t holder : holders_[id])
      names.insert(HolderName(holder));
    if (names != holders[static_cast<int32_t>(id)])
      return "the holders of a device are listed wrong";
  }
  return expected == book_ ? "" : "the devices in use are counted wrong";
}

}  // namespace tutti::engine
