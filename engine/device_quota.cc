// SPDX-License-Identifier: Apache-2.0
#include "engine/device_quota.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "engine/device_share.h"

namespace tutti::engine {
namespace {

// Numbers of the selectors of a request's class, then its own.
std::vector<int32_t> SelectorsOf(const api::ExactRequest& request, const api::DeviceClass& owner,
                                 const DeviceInventory& inventory) {
  std::vector<int32_t> out;
  for (const auto* list : {&owner.selectors, &request.selectors}) {
    for (const std::string& expression : *list) {
      out.push_back(inventory.Selector(expression));
    }
  }
  return out;
}

struct Matching {
  std::vector<int32_t> places;
  std::string problem;
};

// Devices that all selectors match.
Matching Match(const std::vector<int32_t>& selectors, const std::vector<int32_t>& places,
               const DeviceInventory& inventory) {
  Matching out;
  for (const int32_t place : places) {
    const PublishedDevice& device = inventory.At(place);
    if (device.id < 0) {
      continue;
    }
    bool matches = true;
    for (const int32_t selector : selectors) {
      const Selection selection = inventory.Select(selector, place);
      if (selection == Selection::kError) {
        out.problem = "a selector fails on device " + inventory.NameOf(device.id) + ": " +
                      inventory.SelectorError(selector, place);
        return out;
      }
      if (selection != Selection::kMatches) {
        matches = false;
        break;
      }
    }
    if (matches) {
      out.places.push_back(place);
    }
  }
  return out;
}

// The most that one of the devices takes of the source; nothing if none has it.
std::optional<api::Quantity> MostTaken(const DeviceQuotaSource& source,
                                       const api::ExactRequest& request,
                                       const std::vector<int32_t>& places,
                                       const DeviceInventory& inventory) {
  std::optional<api::Quantity> most;
  const auto take = [&most](const api::Quantity& amount) {
    if (!most || *most < amount) {
      most = amount;
    }
  };
  for (const int32_t place : places) {
    const api::Device& device = *inventory.At(place).device;
    if (source.kind == DeviceQuotaSource::Kind::kCounter) {
      for (const api::CounterConsumption& consumption : device.consumes) {
        const auto counter = consumption.counters.find(source.name);
        if (counter != consumption.counters.end()) {
          take(counter->second);
        }
      }
      continue;
    }
    const auto consumed = ConsumedBy(request.capacity, device);
    if (consumed.has_value()) {
      const auto capacity = consumed->find(source.name);
      if (capacity != consumed->end()) {
        take(capacity->second);
      }
    }
  }
  return most;
}

}  // namespace

DeviceQuota::DeviceQuota(std::vector<DeviceClassMapping> mappings, bool extended_resources)
    : mappings_(std::move(mappings)), extended_resources_(extended_resources) {
  for (const DeviceClassMapping& mapping : mappings_) {
    for (const std::string& name : mapping.classes) {
      ClassCharge& charge = by_class_[name];
      if (charge.resource.empty()) {
        charge.resource = mapping.resource;
      }
      for (const DeviceQuotaSource& source : mapping.sources) {
        charge.sources.push_back({mapping.resource, &source});
      }
    }
  }
}

DeviceCharge DeviceQuota::ChargeOf(const std::vector<TemplateClaim>& claims,
                                   const api::Amounts& requests,
                                   const DeviceInventory& inventory) const {
  DeviceCharge charge;
  for (const TemplateClaim& claim : claims) {
    std::set<int32_t> used;  // one device can't satisfy two requests of a claim
    for (const api::DeviceRequest& request : claim.spec->requests) {
      const std::string where = "resourceClaims[" + claim.name + "] (ResourceClaimTemplate " +
                                claim.source + "), request " + request.name + ": ";
      if (!request.exactly.has_value()) {
        charge.problem =
            where + "firstAvailable can't be counted against quota: ask for one device class";
      } else if (request.exactly->admin_access) {
        charge.problem = where +
                         "adminAccess can't be counted against quota: use a Job outside "
                         "of the queues";
      } else if (request.exactly->mode == "All") {
        charge.problem =
            where + "allocationMode All can't be counted against quota: ask for a count";
      } else {
        AddRequest(*request.exactly, where, inventory, used, charge);
      }
      if (!charge.problem.empty()) {
        return charge;
      }
    }
  }
  if (extended_resources_) {
    AddExtendedResources(requests, inventory, charge);
  }
  return charge;
}

void DeviceQuota::AddRequest(const api::ExactRequest& request, const std::string& where,
                             const DeviceInventory& inventory, std::set<int32_t>& used,
                             DeviceCharge& charge) const {
  const auto mapped = by_class_.find(request.device_class);
  if (mapped == by_class_.end()) {
    charge.problem = where + "DeviceClass " + request.device_class +
                     " is in no deviceClassMappings of the configuration: add it there, and its "
                     "resource to the ClusterQueue";
    return;
  }
  const ClassCharge& cost = mapped->second;
  if (!cost.sources.empty()) {
    for (const Charged& charged : cost.sources) {
      AddSource(charged, request, where, inventory, charge);
      if (!charge.problem.empty()) {
        return;
      }
    }
    return;
  }
  if (!request.selectors.empty()) {
    const api::DeviceClass* owner = inventory.FindClass(request.device_class);
    if (owner == nullptr) {
      charge.problem = where + "DeviceClass " + request.device_class + " doesn't exist";
      return;
    }
    // Devices in use count: whether they are free is the capacity check's question.
    std::vector<int32_t> everywhere(inventory.Places());
    std::iota(everywhere.begin(), everywhere.end(), 0);
    const Matching matching = Match(SelectorsOf(request, *owner, inventory), everywhere, inventory);
    if (!matching.problem.empty()) {
      charge.problem = where + matching.problem;
      return;
    }
    int64_t found = 0;
    for (const int32_t place : matching.places) {
      if (found < request.count && used.insert(place).second) {
        ++found;
      }
    }
    if (found < request.count) {
      charge.problem = where + "asks for " + std::to_string(request.count) + " devices, but only " +
                       std::to_string(found) +
                       " in the cluster match its selectors and those of DeviceClass " +
                       request.device_class;
      return;
    }
  }
  int64_t& sum = charge.amounts[cost.resource];
  sum = api::SaturatingAdd(sum, std::max<int64_t>(0, request.count));
}

void DeviceQuota::AddSource(const Charged& charged, const api::ExactRequest& request,
                            const std::string& where, const DeviceInventory& inventory,
                            DeviceCharge& charge) const {
  const DeviceQuotaSource& source = *charged.source;
  const api::DeviceClass* owner = inventory.FindClass(request.device_class);
  if (owner == nullptr) {
    charge.problem = where + "DeviceClass " + request.device_class + " doesn't exist";
    return;
  }
  std::vector<int32_t> selectors = SelectorsOf(request, *owner, inventory);
  if (!source.selector.empty()) {
    selectors.push_back(inventory.Selector(source.selector));
  }
  const Matching matching = Match(selectors, inventory.DevicesOf(source.driver), inventory);
  if (!matching.problem.empty()) {
    charge.problem = where + matching.problem;
    return;
  }
  if (static_cast<int64_t>(matching.places.size()) < request.count) {
    charge.problem = where + "asks for " + std::to_string(request.count) + " devices of driver " +
                     source.driver + ", but only " + std::to_string(matching.places.size()) +
                     " match (quota " + charged.resource + ")";
    return;
  }
  const auto most = MostTaken(source, request, matching.places, inventory);
  if (!most.has_value()) {
    charge.problem = where + "no device that matches has the " +
                     (source.kind == DeviceQuotaSource::Kind::kCounter ? "counter " : "capacity ") +
                     source.name + ", or can give what is asked of it (quota " + charged.resource +
                     ")";
    return;
  }
  const int64_t amount = std::max<int64_t>(0, api::ToAmount(charged.resource, *most));
  int64_t& sum = charge.amounts[charged.resource];
  sum = api::SaturatingAdd(sum, api::SaturatingMul(amount, std::max<int64_t>(0, request.count)));
}

void DeviceQuota::AddExtendedResources(const api::Amounts& requests,
                                       const DeviceInventory& inventory,
                                       DeviceCharge& charge) const {
  for (const auto& [resource, amount] : requests) {
    if (amount <= 0 || resource.find('/') == std::string::npos) {
      continue;
    }
    const api::DeviceClass* owner = inventory.ClassOfResource(resource);
    if (owner == nullptr) {
      continue;
    }
    const auto mapped = by_class_.find(owner->meta.name);
    if (mapped == by_class_.end()) {
      continue;  // stays what it is: a resource of its own name
    }
    if (!mapped->second.sources.empty()) {
      charge.problem = "resources.requests[" + resource + "]: DeviceClass " + owner->meta.name +
                       " is charged by counters or capacities: ask for it by a "
                       "ResourceClaimTemplate";
      return;
    }
    int64_t& sum = charge.amounts[mapped->second.resource];
    sum = api::SaturatingAdd(sum, amount);
    if (mapped->second.resource != resource) {
      charge.replaced.insert(resource);
    }
  }
}

}  // namespace tutti::engine
