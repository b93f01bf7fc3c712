// SPDX-License-Identifier: Apache-2.0
// Devices for the claims of one pod on one node, chosen as kube-scheduler 1.36 does
// (structured/internal/incubating): depth first over claims, requests and devices, with full
// backtracking; the first complete solution wins. Where 1.36.3 has bugs that 1.37 has fixed, this
// is the fixed rule (docs/devices.md lists them).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/dra.h"
#include "engine/device_book.h"
#include "engine/device_inventory.h"
#include "engine/device_request.h"

namespace tutti::engine {

enum class AllocationEnd {
  kDone,
  kNoDevices,  // proven: no combination of devices of this node will do
  kUpdating,   // the scheduler gives up on the pod until a pool is complete or valid again
  kInvalid,    // the scheduler gives up on the pod until the claim, class or device changes
  kGaveUp,     // the budget of steps is used up
};

struct PickedDevice {
  int32_t place = -1;  // of the inventory
  size_t request = 0;  // index in the claim
  size_t alternative = 0;
  bool admin = false;  // takes nothing
  DeviceUse use;
};

struct AllocatedClaim {
  std::vector<PickedDevice> devices;
  // Where pods that use the claim may run. Nothing: everywhere.
  std::optional<api::NodeSelector> node_selector;
  bool must_be_bound = false;  // a device has binding conditions: the pod waits for its driver
  [[nodiscard]] DeviceUses Uses() const;
};

struct Allocation {
  AllocationEnd end = AllocationEnd::kNoDevices;
  std::string message;  // of kUpdating and kInvalid: names claim, request, selector, device
  std::vector<AllocatedClaim> claims;  // of kDone: one per claim, in their order
};

// Steps that one pod on one node may take: one per device, request and claim looked into.
inline constexpr int64_t kStepsPerPod = 100'000;
// More claims or requests at once are not tried (kGaveUp): the search recurses over them.
inline constexpr size_t kMaxClaimsToAllocate = 32;

// `claims` in the pod's order, only those that are to be allocated. `book` is what is taken.
// `steps` is reduced by the steps taken, at most kStepsPerPod. Without `with_selectors` the claims'
// node selectors are left out (to count pods, they aren't needed).
[[nodiscard]] Allocation AllocateDevices(const DeviceInventory& inventory, const DeviceBook& book,
                                         const std::string& node,
                                         const std::vector<const CompiledClaim*>& claims,
                                         int64_t& steps, bool with_selectors = true);

// Whether a taint keeps the request away: NoSchedule and NoExecute that it doesn't tolerate.
[[nodiscard]] bool TaintBlocks(const api::Device& device, const api::ExactRequest& request);

// What is left of each counter of a generation; may be negative.
[[nodiscard]] std::vector<api::Quantity> CountersLeft(const DeviceInventory& inventory,
                                                      const DeviceBook& book,
                                                      const PoolGeneration& generation);

}  // namespace tutti::engine
