// SPDX-License-Identifier: Apache-2.0
// Dynamic resource allocation, resource.k8s.io/v1 (KEP-4381, 4815, 4816, 5007, 5055, 5075): the
// parts of ResourceSlice, DeviceClass, ResourceClaim and ResourceClaimTemplate that decide which
// devices a pod gets. Plain values. Decoders fail (kInvalid, the message names the field) where
// Go's decoder would: a member of the wrong type, a malformed quantity. What validation of the API
// server excludes is not checked again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/cel/device_selector.h"
#include "api/core.h"
#include "api/meta.h"
#include "api/quantity.h"
#include "base/json.h"
#include "base/result.h"

namespace tutti::api {

// AllocationResultsMaxSize and ResourceClaimReservedForMaxSize of the API.
inline constexpr int32_t kMaxDevicesPerClaim = 32;
inline constexpr int32_t kMaxClaimConsumers = 256;
inline constexpr std::string_view kPodClaimNameAnnotation = "resource.kubernetes.io/pod-claim-name";
inline constexpr std::string_view kExtendedResourceClaimAnnotation =
    "resource.kubernetes.io/extended-resource-claim";
// deviceclass.resource.kubernetes.io/<class> asks for a device of the class as if it were an
// extended resource.
inline constexpr std::string_view kImplicitResourcePrefix = "deviceclass.resource.kubernetes.io/";

// --- ResourceSlice

struct CapacityPolicy {
  std::optional<Quantity> default_value;
  std::vector<Quantity> valid_values;  // ascending
  bool has_range = false;
  std::optional<Quantity> min, max, step;  // of the range
  bool operator==(const CapacityPolicy&) const = default;
};

struct DeviceCapacity {
  Quantity value;
  std::optional<CapacityPolicy> policy;
  bool operator==(const DeviceCapacity&) const = default;
};

struct CounterConsumption {
  std::string counter_set;
  std::map<std::string, Quantity> counters;
  bool operator==(const CounterConsumption&) const = default;
};

struct Device {
  std::string name;
  cel::SelectorDevice facts;                       // driver, attributes, capacities
  std::map<std::string, DeviceCapacity> capacity;  // by the name as it is written
  std::vector<CounterConsumption> consumes;
  std::vector<Taint> taints;  // effects None, NoSchedule, NoExecute
  // Where the device is, with ResourceSliceSpec::per_device_nodes.
  std::string node_name;
  std::optional<NodeSelector> node_selector;
  bool all_nodes = false;
  bool binds_to_node = false;
  std::vector<std::string> binding_conditions;
  std::vector<std::string> binding_failure_conditions;
};
bool operator==(const Device& a, const Device& b);

struct CounterSet {
  std::string name;
  std::map<std::string, Quantity> counters;
  bool operator==(const CounterSet&) const = default;
};

struct ResourceSlice {
  ObjectMeta meta;
  std::string driver;
  std::string pool;
  int64_t generation = 0;
  int64_t slice_count = 0;  // slices of the pool in this generation
  // At most one of these four.
  std::string node_name;
  std::optional<NodeSelector> node_selector;
  bool all_nodes = false;
  bool per_device_nodes = false;
  std::vector<Device> devices;
  std::vector<CounterSet> shared_counters;
};
// Everything but the metadata.
[[nodiscard]] bool SameSpec(const ResourceSlice& a, const ResourceSlice& b);

// A name with a domain ("driver.example.com/model"), or one without and the driver as its domain.
// Null when the device has no such attribute.
[[nodiscard]] const cel::AttributeValue* FindAttribute(const Device& device,
                                                       std::string_view qualified_name);
// Equal and of the same type; versions by their text (semver has one form for each). Lists never
// are: 1.36's scheduler can't compare them.
[[nodiscard]] bool SameAttribute(const cel::AttributeValue& a, const cel::AttributeValue& b);
[[nodiscard]] bool IsListAttribute(const cel::AttributeValue& value);

// --- DeviceClass

struct DeviceClass {
  ObjectMeta meta;
  std::vector<std::string> selectors;  // CEL expressions; "" for a kind that is not known
  std::string extended_resource_name;  // "" = none
};

// --- ResourceClaim

struct ExactRequest {
  std::string name;  // of a subrequest: its own
  std::string device_class;
  std::vector<std::string> selectors;  // CEL expressions; "" for a kind that is not known
  std::string mode;                    // ExactCount (also by default) or All
  int64_t count = 1;
  bool admin_access = false;  // never for a subrequest
  std::vector<Toleration> tolerations;
  std::map<std::string, Quantity> capacity;  // by the name as it is written
  bool operator==(const ExactRequest&) const = default;
};

struct DeviceRequest {
  std::string name;
  std::optional<ExactRequest> exactly;        // its name is that of the request
  std::vector<ExactRequest> first_available;  // alternatives, best first
  bool operator==(const DeviceRequest&) const = default;
};

struct DeviceConstraint {
  std::vector<std::string> requests;  // "main" or "main/sub"; empty = all
  std::string match_attribute;        // exactly one of the two
  std::string distinct_attribute;
  bool operator==(const DeviceConstraint&) const = default;
};

struct ClaimSpec {
  std::vector<DeviceRequest> requests;
  std::vector<DeviceConstraint> constraints;
  bool operator==(const ClaimSpec&) const = default;
};

struct DeviceResult {
  std::string request;  // "main" or "main/sub"
  std::string driver;
  std::string pool;
  std::string device;
  bool admin_access = false;
  std::string share_id;  // "" = the device is not shared
  std::map<std::string, Quantity> consumed;
  bool operator==(const DeviceResult&) const = default;
};

struct ClaimAllocation {
  std::vector<DeviceResult> results;
  std::optional<NodeSelector> node_selector;  // nothing: usable on every node
  bool operator==(const ClaimAllocation&) const = default;
};

struct ClaimConsumer {
  std::string group;     // "" = core
  std::string resource;  // pods, podgroups
  std::string name;
  std::string uid;
  bool operator==(const ClaimConsumer&) const = default;
};

struct ResourceClaim {
  ObjectMeta meta;
  ClaimSpec spec;
  std::optional<ClaimAllocation> allocation;
  std::vector<ClaimConsumer> reserved_for;
};

struct ResourceClaimTemplate {
  ObjectMeta meta;
  ClaimSpec spec;
};

Result<ResourceSlice> ResourceSliceFromJson(const Json& json);
Result<DeviceClass> DeviceClassFromJson(const Json& json);
Result<ResourceClaim> ResourceClaimFromJson(const Json& json);
Result<ResourceClaimTemplate> ResourceClaimTemplateFromJson(const Json& json);

}  // namespace tutti::api
