// SPDX-License-Identifier: Apache-2.0
// Gangs in flight: released, not all pods bound. kube-scheduler scores nodes by itself and may bind
// their pods elsewhere than planned (LeastAllocated spreads), in any order, so two plans that fit
// beside each other don't prove that both gangs land. Decided here: does a gang land, and do those
// in flight still land, on whatever admissible nodes the scheduler puts the others?
//
// Devices count as amounts where they are interchangeable (flight_devices.h); pods with others are
// released only when nothing in flight can meet them, and nothing that can is released beside them.
//
// Sufficient, not necessary, for pods of different size; exact when all pods are alike. Of unlike
// pods of one gang it proves that an arrangement remains, not that the scheduler finds it. Pods
// with rules that are left to the scheduler are never proven to land; they count as pods that take
// room. Pure; only a cache changes in const calls, so not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/capacity.h"
#include "engine/capacity_ledger.h"
#include "engine/device_ledger.h"
#include "engine/flight_devices.h"
#include "engine/volume_book.h"

namespace tutti::engine {

class InFlight {
 public:
  // All must outlive this. `devices_known`: as in Capacity; not constant.
  InFlight(const CapacityLedger& ledger, const DeviceLedger& devices, const bool& devices_known,
           const VolumeBook& volumes)
      : ledger_(ledger),
        device_ledger_(devices),
        devices_known_(devices_known),
        volumes_(volumes),
        devices_(ledger, devices) {}
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  // See Capacity::CheckFlights and Capacity::Hinders.
  [[nodiscard]] FlightResult Check(const Gang& gang) const;
  [[nodiscard]] bool Hinders(const Gang& next, const Gang& waiting,
                             const std::vector<Gang>& since) const;

 private:
  // Of a resource: `places` places go when somebody takes `cost` of it, on each of `nodes` nodes.
  struct Step {
    int64_t cost = 0;
    int64_t places = 0;
    int64_t nodes = 0;
  };
  // Pods of one kind against the nodes.
  struct View {
    std::shared_ptr<const api::PodShape> shape;
    api::StringMap node_selector;
    std::vector<api::Toleration> tolerations;
    ClaimScope scope;
    // Resource id or device kind (sorted), amount > 0.
    std::vector<std::pair<int32_t, int64_t>> requests;
    DeviceNeeds devices;
    bool unknown_resource = false;  // no node has it
    bool unproven = false;          // rules that are left to the scheduler
    std::vector<api::HostPort> ports;
    Basis basis = Basis::kBoundOnly;
    std::vector<int64_t> cap;   // per node: pods of this kind if they had the free amounts alone
    std::vector<int64_t> ever;  // per node: the same on the empty node
    int64_t places = 0;         // their sum
    int64_t most = 0;           // their maximum
    std::map<int32_t, std::vector<Step>> steps;  // by resource, cheapest first; filled when needed
    [[nodiscard]] int64_t Request(int32_t resource) const;
    // Its devices can't be counted.
    [[nodiscard]] bool Opaque() const { return devices.any && !devices.counted; }
    [[nodiscard]] bool Alike(const View& other) const;
  };
  using ViewRef = std::shared_ptr<View>;
  struct Group {
    ViewRef view;
    int64_t count = 0;
  };
  using Groups = std::vector<Group>;

  void Refresh() const;
  [[nodiscard]] ViewRef MakeView(std::shared_ptr<const api::PodShape> shape,
                                 const api::StringMap& node_selector,
                                 const std::vector<api::Toleration>& tolerations,
                                 const ClaimScope& scope, Basis basis) const;
  void LimitByVolumes(View& view) const;
  [[nodiscard]] ViewRef ViewOf(uint64_t flight) const;
  [[nodiscard]] ViewRef ViewOf(const Gang& gang, const GangPodSet& set) const;
  [[nodiscard]] Groups GroupsOf(const Gang& gang) const;
  [[nodiscard]] Groups GroupsOf(const Reservation& reservation) const;

  [[nodiscard]] static bool Reaches(const View& from, const View& to);
  [[nodiscard]] static bool Meet(const Groups& a, const Groups& b);
  [[nodiscard]] bool Opaque(const Groups& gang) const;
  [[nodiscard]] int64_t FreeAt(const NodeState& node, int32_t resource, Basis basis) const;
  [[nodiscard]] int64_t Takes(const View& by, int32_t resource) const;
  [[nodiscard]] int64_t Damage(const View& by, const View& to) const;
  [[nodiscard]] const std::vector<Step>& Steps(View& view, int32_t resource) const;
  [[nodiscard]] static bool Unproven(const Groups& gang);
  [[nodiscard]] Groups FlyingBut(const Groups& own) const;
  [[nodiscard]] bool Keeps(const Groups& gang, const Groups& others) const;
  [[nodiscard]] bool KeepsLike(View& view, int64_t count, const Groups& others) const;
  [[nodiscard]] bool KeepsUnlike(const Groups& gang, const Groups& others) const;
  [[nodiscard]] int64_t LossByAmounts(View& view, const Groups& others) const;
  [[nodiscard]] int64_t LossByNode(const View& view, const Groups& others) const;

  const CapacityLedger& ledger_;
  const DeviceLedger& device_ledger_;
  const bool& devices_known_;
  const VolumeBook& volumes_;
  mutable FlightDevices devices_;
  mutable uint64_t seen_ = 0;  // BoundVersion and changes of volumes, of the cached views
  mutable uint64_t seen_devices_ = 0;
  mutable bool seen_known_ = false;
  mutable std::map<uint64_t, ViewRef> views_;
};

}  // namespace tutti::engine
