// SPDX-License-Identifier: Apache-2.0
// See flight_devices.h.
#include "engine/flight_devices.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <unordered_map>

#include "engine/device_allocator.h"

namespace tutti::engine {
namespace {

// Different ones at a time; each costs 8 bytes per node.
constexpr size_t kMostKinds = 256;

std::string TextOf(const DeviceAlternative& alternative, const DeviceInventory& inventory) {
  std::string text;
  const auto add = [&](const std::string& part) { text += part + '\n'; };
  for (const std::string& selector :
       inventory.FindClass(alternative.request->device_class)->selectors)
    add(selector);
  for (const std::string& selector : alternative.request->selectors)
    add(selector);
  for (const api::Toleration& toleration : alternative.request->tolerations) {
    add("tolerates");
    add(toleration.key);
    add(toleration.op);
    add(toleration.value);
    add(toleration.effect);
  }
  return text;
}

}  // namespace

void FlightDevices::Refresh() {
  kinds_.clear();
  known_.clear();
  overlap_.clear();
  const DeviceInventory& inventory = devices_.inventory();
  // Claims of pods that are not bound yet: the pod still counts as one that may go anywhere, so
  // what it was given counts as free.
  std::unordered_map<int32_t, int32_t> lifted;  // looked up, never iterated
  for (const auto& [serial, gang] : ledger_.InFlight()) {
    devices_.ForClaimsOf(gang->id, [&](const ClaimRecord& claim) {
      if (claim.consumer.empty() || ledger_.KnowsPod(claim.consumer))
        return;
      for (const DeviceUse& use : claim.uses)
        ++lifted[use.id];
    });
  }
  nodes_.assign(ledger_.Slots(), {});
  for (size_t slot = 0; slot < nodes_.size(); ++slot) {
    const NodeState* state = ledger_.NodeAt(slot);
    if (state == nullptr)
      continue;
    Node& node = nodes_[slot];
    for (const PoolView& pool : inventory.ViewOf(state->facts.name).pools) {
      for (const PoolView::Device& device : pool.devices) {
        if (!device.here)
          continue;
        const PublishedDevice& published = inventory.At(device.place);
        const std::string* only = inventory.OnlyNodeOf(published.id);
        if (node.places.size() == static_cast<size_t>(kMostOfNode)) {
          node.many = true;
          break;
        }
        const Bits bit = Bits{1} << node.places.size();
        node.places.push_back(device.place);
        if (published.device->facts.allow_multiple_allocations || !published.charges.empty() ||
            only == nullptr || *only != state->facts.name)
          node.odd |= bit;
        const auto up = lifted.find(published.id);
        if (devices_.ClaimsWith(published.id) > (up == lifted.end() ? 0 : up->second))
          node.taken_bound |= bit;
      }
    }
  }
}

int32_t FlightDevices::KindOf(const DeviceAlternative& alternative, DeviceNeeds& needs) {
  const DeviceInventory& inventory = devices_.inventory();
  const auto [known, added] = known_.try_emplace(TextOf(alternative, inventory), 0);
  if (added) {
    if (kinds_.size() == kMostKinds) {
      known_.erase(known);
      return -1;
    }
    Kind kind;
    kind.bits.assign(nodes_.size(), 0);
    kind.wide = inventory.SelectsWide(alternative.selectors);
    for (size_t slot = 0; slot < nodes_.size(); ++slot) {
      const Node& node = nodes_[slot];
      kind.odd |= node.many;
      for (size_t d = 0; d < node.places.size(); ++d) {
        bool matches = true;
        for (const int32_t selector : alternative.selectors) {
          const Selection selection = inventory.Select(selector, node.places[d]);
          kind.odd |= selection == Selection::kError;
          matches = selection == Selection::kMatches;
          if (!matches)
            break;
        }
        if (matches && !TaintBlocks(*inventory.At(node.places[d]).device, *alternative.request))
          kind.bits[slot] |= Bits{1} << d;
      }
      kind.odd |= (kind.bits[slot] & node.odd) != 0;
    }
    // What selects the same devices is the same kind.
    const auto same = std::find_if(kinds_.begin(), kinds_.end(),
                                   [&](const Kind& other) { return other.bits == kind.bits; });
    known->second = kFirstKind + static_cast<int32_t>(same - kinds_.begin());
    if (same == kinds_.end()) {
      kinds_.push_back(std::move(kind));
    } else {
      same->odd |= kind.odd;
      same->wide |= kind.wide;
    }
  }
  needs.counted &= !At(known->second).odd;
  needs.wide |= At(known->second).wide;
  return known->second;
}

DeviceNeeds FlightDevices::NeedsOf(const api::PodShape& shape, const ClaimScope& scope) {
  const DeviceInventory& inventory = devices_.inventory();
  DeviceNeeds needs;
  needs.any = !shape.claims.empty();
  needs.counted = !scope.shared;
  for (const api::ContainerResource& asked : shape.container_resources) {
    const api::DeviceClass* device_class = inventory.ClassOfResource(asked.resource);
    if (device_class == nullptr)
      continue;
    needs.any = true;
    needs.counted = false;
    std::vector<int32_t> selectors;
    for (const std::string& expression : device_class->selectors)
      selectors.push_back(inventory.Selector(expression));
    needs.wide |= inventory.SelectsWide(selectors);
  }
  std::map<int32_t, int64_t> amounts;
  for (const api::PodClaim& claim : shape.claims) {
    std::shared_ptr<const api::ClaimSpec> spec;
    if (claim.claim.empty()) {
      spec = devices_.FindTemplate({scope.ns, claim.claim_template});
    } else {
      needs.counted = false;  // pods share it
      if (const ClaimRecord* record = devices_.FindClaim({scope.ns, claim.claim}))
        spec = record->spec;
    }
    const Result<CompiledClaim> compiled =
        spec == nullptr ? Result<CompiledClaim>(Fail(ErrorCode::kNotFound, ""))
                        : CompileClaim(spec, "", inventory);
    if (!compiled) {
      needs.counted = false;
      needs.wide = true;  // nobody knows
      continue;
    }
    for (const CompiledRequest& request : compiled->requests) {
      for (const DeviceAlternative& alternative : request.alternatives) {
        const int32_t kind = KindOf(alternative, needs);
        if (kind < 0) {
          needs.counted = false;
          needs.wide = true;
          continue;
        }
        needs.counted &= !request.is_list && !alternative.all &&
                         !alternative.request->admin_access &&
                         alternative.request->capacity.empty() && spec->constraints.empty();
        if (!alternative.all && alternative.count > 0)
          amounts[kind] = api::SaturatingAdd(amounts[kind], alternative.count);
      }
    }
  }
  needs.amounts.assign(amounts.begin(), amounts.end());
  for (size_t a = 0; a < needs.amounts.size(); ++a) {
    for (size_t b = 0; b < a; ++b)
      needs.counted &= !Overlap(needs.amounts[a].first, needs.amounts[b].first);
  }
  return needs;
}

int64_t FlightDevices::FreeOn(int32_t kind, const NodeState& node, Basis basis) const {
  const Kind& devices = At(kind);
  if (node.slot >= devices.bits.size())
    return 0;
  const Bits bits = devices.bits[node.slot];
  if (bits == 0 || basis == Basis::kEmpty)
    return std::popcount(bits);
  const Node& known = nodes_[node.slot];
  if (basis == Basis::kBoundOnly)
    return std::popcount(bits & ~known.taken_bound);
  int64_t free = 0;  // promises come and go without a Refresh
  for (size_t d = 0; d < known.places.size(); ++d) {
    const int32_t id = devices_.inventory().At(known.places[d]).id;
    free += (bits >> d & 1U) != 0 && !devices_.book().Taken(id) ? 1 : 0;
  }
  return free;
}

bool FlightDevices::Overlap(int32_t a, int32_t b) {
  if (a == b)
    return false;
  const auto [known, added] = overlap_.try_emplace(std::minmax(a, b), false);
  if (added) {
    const std::vector<Bits>& left = At(a).bits;
    const std::vector<Bits>& right = At(b).bits;
    for (size_t slot = 0; slot < left.size() && !known->second; ++slot)
      known->second = (left[slot] & right[slot]) != 0;
  }
  return known->second;
}

std::vector<std::string> FlightDevices::Unclear() const {
  std::vector<std::string> gangs;
  for (const auto& [id, pods] : devices_.Promises()) {
    // Claims of bound pods, by podset and the pod's name for the claim; only where a promise is
    // open, since each claim that becomes known closes one.
    std::map<std::pair<std::string, std::string>, int64_t> known;
    for (const PodPromise& pod : pods) {
      for (const PromisedClaim& claim : pod.claims) {
        if (claim.shared.empty() && claim.name != kExtendedClaim)
          known.try_emplace({pod.pod_set, claim.name}, 0);
      }
    }
    if (known.empty() || ledger_.BoundOf(id) == 0)
      continue;
    devices_.ForClaimsOf(id, [&](const ClaimRecord& claim) {
      const auto it = known.find({claim.pod_set, claim.pod_claim});
      if (it != known.end() && claim.allocated && ledger_.KnowsPod(claim.consumer))
        ++it->second;
    });
    if (std::any_of(known.begin(), known.end(), [&](const auto& entry) {
          return entry.second < ledger_.Bound(id, entry.first.first);
        }))
      gangs.push_back(id);
  }
  return gangs;
}

}  // namespace tutti::engine
