// SPDX-License-Identifier: Apache-2.0
// Claims made ready for the allocator: classes looked up, selectors compiled, constraints sorted to
// the requests that they cover. And the claim that kube-scheduler makes by itself for extended
// resources that a device class stands for (KEP-5004).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "api/core.h"
#include "api/dra.h"
#include "base/result.h"
#include "engine/device_inventory.h"

namespace tutti::engine {

// A request, or one subrequest of a list of alternatives.
struct DeviceAlternative {
  const api::ExactRequest* request = nullptr;
  std::string label;                // "gpu", of a subrequest "gpu/small"
  std::vector<int32_t> selectors;   // numbers of the inventory: of the class, then its own
  size_t class_selectors = 0;       // how many of them are of the class
  bool all = false;                 // every device that is selected
  int64_t count = 0;                // otherwise; >= 0
  std::vector<size_t> constraints;  // of the claim, those that cover it
};

struct CompiledRequest {
  bool is_list = false;  // firstAvailable
  std::vector<DeviceAlternative> alternatives;
};

struct CompiledClaim {
  std::shared_ptr<const api::ClaimSpec> spec;  // what `request` points into
  std::string label;                           // for messages: "claim gpu (template ns/one-gpu)"
  std::vector<CompiledRequest> requests;
};

// kNotFound: a device class doesn't exist (yet). kInvalid: the scheduler would refuse the claim.
// Valid until the inventory's selectors are trimmed; a changed class needs a new one.
[[nodiscard]] Result<CompiledClaim> CompileClaim(std::shared_ptr<const api::ClaimSpec> spec,
                                                 std::string label,
                                                 const DeviceInventory& inventory);

// The requests for `resources` of a pod's containers, in kube-scheduler's order. Init containers
// reuse what later long-running containers have asked for. Null when nothing is asked for.
[[nodiscard]] std::shared_ptr<const api::ClaimSpec> ExtendedResourceClaim(
    const std::vector<api::ContainerResource>& containers, const std::set<std::string>& resources,
    const DeviceInventory& inventory);

}  // namespace tutti::engine
