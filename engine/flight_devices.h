// SPDX-License-Identifier: Apache-2.0
// Devices of pods in flight as amounts: where every device that a request may be given is as good
// as any other, "two GPUs of a node" counts like two of a resource, and in_flight.h can count
// places. For pods for which that doesn't hold it says so: they are released one after the other.
//
// A *device kind* is what a request selects: the devices of each node that its class, selectors and
// tolerations let through. Pure; only caches change in const calls.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "api/core.h"
#include "engine/capacity_ledger.h"
#include "engine/device_ledger.h"
#include "engine/device_request.h"

namespace tutti::engine {

// Of one pod.
struct DeviceNeeds {
  bool any = false;  // it has claims, or asks for resources that devices stand for
  // The amounts say all: its own claims only, each request for a number of whole devices, all of
  // them of single nodes and without counters, no constraints, and what two requests select is
  // either the same everywhere or has no device in common.
  bool counted = true;
  bool wide = false;  // it may be given devices that concern several nodes
  std::vector<std::pair<int32_t, int64_t>> amounts;  // device kind, number; sorted
};

class FlightDevices {
 public:
  // Ids of device kinds begin here; those of resources end below.
  static constexpr int32_t kFirstKind = 1 << 24;
  // A node with more devices than this is not looked into.
  static constexpr int64_t kMostOfNode = 64;
  static bool IsKind(int32_t resource) { return resource >= kFirstKind; }

  // Both must outlive this.
  FlightDevices(const CapacityLedger& ledger, const DeviceLedger& devices)
      : ledger_(ledger), devices_(devices) {}
  FlightDevices(const FlightDevices&) = delete;
  FlightDevices& operator=(const FlightDevices&) = delete;

  // To be called before the others whenever pods, nodes, claims or slices may have changed; all
  // earlier ids are void then.
  void Refresh();
  [[nodiscard]] DeviceNeeds NeedsOf(const api::PodShape& shape, const ClaimScope& scope);
  // Devices of the kind that are free on a node; kBoundOnly: of claims, only those of pods that are
  // bound (or of nobody in flight) take devices.
  [[nodiscard]] int64_t FreeOn(int32_t kind, const NodeState& node, Basis basis) const;
  // Whether two different kinds have a device in common.
  [[nodiscard]] bool Overlap(int32_t a, int32_t b);
  // Gangs with pods that are bound although their claims are not known as allocated yet: which
  // devices they have is not known. By id.
  [[nodiscard]] std::vector<std::string> Unclear() const;

 private:
  // Devices are bits, in the order in which the node's pools list them.
  using Bits = uint64_t;
  struct Node {
    std::vector<int32_t> places;
    bool many = false;     // more than there are bits
    Bits odd = 0;          // shared, with counters, or of several nodes
    Bits taken_bound = 0;  // by claims, but those of pods that are not bound
  };
  struct Kind {
    std::vector<Bits> bits;  // by slot
    bool odd = false;        // may be given an odd device, or a selector fails, or too many to tell
    bool wide = false;
  };

  int32_t KindOf(const DeviceAlternative& alternative, DeviceNeeds& needs);
  [[nodiscard]] const Kind& At(int32_t kind) const {
    return kinds_[static_cast<size_t>(kind - kFirstKind)];
  }

  const CapacityLedger& ledger_;
  const DeviceLedger& devices_;
  std::vector<Node> nodes_;  // by slot
  std::vector<Kind> kinds_;
  std::map<std::string, int32_t> known_;  // by what is selected, as text
  std::map<std::pair<int32_t, int32_t>, bool> overlap_;
};

}  // namespace tutti::engine
