// SPDX-License-Identifier: Apache-2.0
// What a pod's device claims cost in quota: deviceClassMappings of the configuration turn device
// classes into named resources of the ClusterQueues (KEP-2941, Kueue v0.19.2 pkg/dra). A mapping
// counts devices; with sources it charges a counter (partitionable devices) or a capacity
// (consumable capacity) of them instead. Only claims made from templates cost quota: a claim that
// is shared by its name belongs to no single workload. Pure; one DeviceQuota for all pods.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "api/dra.h"
#include "api/quantity.h"
#include "engine/device_inventory.h"
#include "engine/device_mapping.h"

namespace tutti::engine {

// A claim of a pod that is made from a template.
struct TemplateClaim {
  std::string name;    // of spec.resourceClaims
  std::string source;  // name of the ResourceClaimTemplate, for messages
  const api::ClaimSpec* spec = nullptr;
};

struct DeviceCharge {
  api::Amounts amounts;            // of one pod, by mapped resource
  std::set<std::string> replaced;  // extended resources of the pod that `amounts` stands for
  // Why it can't be counted, for a person; "" = it can. The pod is not admissible then.
  std::string problem;
  bool operator==(const DeviceCharge&) const = default;
};

class DeviceQuota {
 public:
  // Mappings as the configuration checks them (operator/config): resources are unique.
  // `extended_resources`: those that a device class stands for are charged as the class (gate
  // KueueDRAIntegrationExtendedResource).
  explicit DeviceQuota(std::vector<DeviceClassMapping> mappings, bool extended_resources = true);
  DeviceQuota(const DeviceQuota&) = delete;  // by_class_ points into mappings_
  DeviceQuota& operator=(const DeviceQuota&) = delete;

  // A claim on a class without a mapping is a problem: devices are never free by oversight.
  // `requests` are the pod's (api::PodShape::requests).
  [[nodiscard]] DeviceCharge ChargeOf(const std::vector<TemplateClaim>& claims,
                                      const api::Amounts& requests,
                                      const DeviceInventory& inventory) const;

 private:
  struct Charged {  // one source of one class
    std::string resource;
    const DeviceQuotaSource* source = nullptr;
  };
  struct ClassCharge {
    std::string resource;  // what a device counts as; with sources only a name
    std::vector<Charged> sources;
  };

  void AddRequest(const api::ExactRequest& request, const std::string& where,
                  const DeviceInventory& inventory, std::set<int32_t>& used,
                  DeviceCharge& charge) const;
  void AddSource(const Charged& charged, const api::ExactRequest& request, const std::string& where,
                 const DeviceInventory& inventory, DeviceCharge& charge) const;
  void AddExtendedResources(const api::Amounts& requests, const DeviceInventory& inventory,
                            DeviceCharge& charge) const;

  std::vector<DeviceClassMapping> mappings_;
  bool extended_resources_ = true;
  std::map<std::string, ClassCharge> by_class_;
};

}  // namespace tutti::engine
