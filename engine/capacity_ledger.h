// SPDX-License-Identifier: Apache-2.0
// The books behind Capacity: what nodes have, what pods and promises take of it. Per node only sums
// and one entry per (gang, request) are kept; equal requests, labels and taint sets are shared.
// Rules of counting: 1.36 NodeResourcesFit (architecture.md, "no node is promised more than it
// has"). Loop thread.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/core.h"
#include "engine/capacity.h"
#include "engine/node_filter.h"
#include "engine/node_marks.h"
#include "engine/pod_tags.h"

namespace tutti::engine {

__extension__ using Wide = __int128;  // sums of any number of int64 stay exact

constexpr std::string_view kPodsResource = "pods";
constexpr int32_t kPodsId = 0;

// Names that kube-scheduler's Fit looks at; all others it ignores on both sides.
[[nodiscard]] bool CountsForFit(std::string_view name);
[[nodiscard]] bool PortsClash(const std::vector<api::HostPort>& a,
                              const std::vector<api::HostPort>& b);
// Sorted, without ports that mean nothing.
[[nodiscard]] std::vector<api::HostPort> PortsOf(const api::PodShape& shape);

// What a bound pod takes. Equal loads are one object.
struct Load {
  std::vector<std::pair<int32_t, int64_t>>
      requests;                      // resource id, amount > 0; always one of "pods"
  std::vector<api::HostPort> ports;  // sorted
  auto operator<=>(const Load&) const = default;
};
using LoadRef = std::map<Load, int64_t>::iterator;  // with the number of holders

struct Cell {
  int32_t resource = 0;
  int64_t allocatable = 0;
  Wide used = 0;
};

struct GangState;

// Pods of one gang with one load on one node.
struct Holding {
  GangState* gang = nullptr;
  LoadRef load;
  int32_t bound = 0;
  int32_t promised = 0;
};

struct NodeState {
  NodeFacts facts;
  size_t slot = 0;          // of NodeMarks
  bool present = false;     // false: only pods or promises speak of it
  int64_t promised = 0;     // unbound pods promised to it
  std::vector<Cell> cells;  // by resource id
  std::vector<Holding> holdings;
  std::vector<TagUse> tags;  // pods as rules of other pods see them

  [[nodiscard]] const Cell* Find(int32_t resource) const {
    for (const Cell& cell : cells) {
      if (cell.resource == resource)
        return &cell;
    }
    return nullptr;
  }
  Cell& At(int32_t resource) {
    auto it = std::lower_bound(cells.begin(), cells.end(), resource,
                               [](const Cell& cell, int32_t id) { return cell.resource < id; });
    if (it == cells.end() || it->resource != resource)
      it = cells.insert(it, Cell{resource, 0, 0});
    return *it;
  }
};

// What is free of a resource, at least 0.
[[nodiscard]] int64_t FreeOn(const NodeState& node, int32_t resource, Basis basis);
[[nodiscard]] bool PortTakenOn(const NodeState& node, const std::vector<api::HostPort>& ports,
                               Basis basis);

// Where the claims of pods are looked up, and whether they share some of them with their group; the
// same for all pods without claims.
struct ClaimScope {
  std::string ns;
  bool shared = false;
  bool operator==(const ClaimScope&) const = default;
};
[[nodiscard]] ClaimScope ScopeOf(const Gang& gang, const GangPodSet& set);

// Pods in flight (promised, not bound) that are alike in everything that decides where they may go.
struct FlightKind {
  std::shared_ptr<const api::PodShape> shape;
  api::StringMap node_selector;
  std::vector<api::Toleration> tolerations;
  ClaimScope scope;
  int64_t unbound = 0;
  int64_t gangs = 0;  // in flight, of pods of this kind alone
  int64_t plans = 0;  // that refer to it
  // Whether these are such pods.
  [[nodiscard]] bool Is(const api::PodShape& other, const api::StringMap& selector,
                        const std::vector<api::Toleration>& tolerated,
                        const ClaimScope& claims) const {
    return node_selector == selector && tolerations == tolerated && scope == claims &&
           (shape.get() == &other || *shape == other);
  }
};
using FlightKinds = std::map<uint64_t, FlightKind>;  // by id; ids are never used twice

struct SetPlan {
  std::string name;
  std::shared_ptr<const api::PodShape> shape;
  api::StringMap node_selector;
  std::vector<api::Toleration> tolerations;
  LoadRef load;
  const PodTag* tag = nullptr;  // null: its labels are not known
  FlightKinds::iterator flight;
  std::vector<std::pair<NodeState*, int32_t>> slots;  // unbound ones, by node name
  [[nodiscard]] int64_t Unbound() const {
    int64_t sum = 0;
    for (const auto& [node, count] : slots)
      sum += count;
    return sum;
  }
};

struct Reservation {
  uint64_t serial = 0;
  int64_t unbound = 0;
  std::vector<SetPlan> sets;
  // Kind of all pods that were promised a place; null when there are several.
  FlightKind* only_kind = nullptr;
};

struct GangState {
  std::string id;
  std::optional<Reservation> reservation;
  int64_t bound = 0;
  std::vector<std::pair<int32_t, int32_t>>
      bound_sets;  // id of a podset's name, its bound pods (> 0)
};

struct PodRecord {
  NodeState* node = nullptr;
  LoadRef load;
  GangState* gang = nullptr;
  int32_t pod_set = 0;       // id of its name
  uint64_t used_serial = 0;  // the reservation of which it used a slot
  const PodTag* tag = nullptr;
  bool leaving = false;
};

class CapacityLedger {
 public:
  CapacityLedger();
  CapacityLedger(const CapacityLedger&) = delete;
  CapacityLedger& operator=(const CapacityLedger&) = delete;

  // As in capacity.h.
  void SetNode(const api::Node& node);
  void RemoveNode(const std::string& name);
  void SetPod(const std::string& uid, const std::string& node, const api::PodShape& shape,
              const std::string& gang, const std::string& pod_set, const PodIdentity& who);
  void SetNamespace(const std::string& name, const api::StringMap& labels);
  void RemoveNamespace(const std::string& name);
  [[nodiscard]] const api::StringMap& NamespaceLabels(const std::string& name) const;
  void RemovePod(const std::string& uid);
  void Reserve(const Gang& gang, const Placement& placement);
  void Release(const std::string& gang_id);
  [[nodiscard]] int32_t Unbound(const std::string& gang_id) const;
  [[nodiscard]] int32_t Bound(const std::string& gang_id, const std::string& pod_set) const;
  [[nodiscard]] int64_t BoundOf(const std::string& gang_id) const;  // of all podsets
  // Whether a pod is known, which means bound.
  [[nodiscard]] bool KnowsPod(const std::string& uid) const { return pods_.contains(uid); }
  [[nodiscard]] bool PlanBroken(const std::string& gang_id) const;
  [[nodiscard]] int32_t CountNodes(const api::StringMap& labels) const;
  [[nodiscard]] uint64_t Version() const { return version_; }
  [[nodiscard]] uint64_t FlightVersion() const { return flight_version_; }
  [[nodiscard]] std::string SanityCheck() const;

  // Resources that devices stand for on nodes that have none: no plan is broken for lack of them.
  void SetDelegated(std::set<std::string> resources) { delegated_ = std::move(resources); }
  // For trials that put everything back: takes what the gang holds off the nodes, as if it weren't
  // there, and returns it for Show. No version grows.
  using Hidden = std::vector<std::pair<NodeState*, Holding>>;
  [[nodiscard]] Hidden Hide(const std::string& gang_id);
  void Show(const Hidden& hidden);
  // Promised on trial; Unpromise takes a list of such promises.
  [[nodiscard]] Hidden Promise(const Gang& gang, const Placement& placement);
  void Unpromise(const Hidden& promised);

  // Null: no such node.
  [[nodiscard]] const NodeState* FindNode(const std::string& name) const;

  // What is known of nodes elsewhere changes what they can take, too, and is marked by the caller.
  [[nodiscard]] NodeMarks& Marks() { return marks_; }
  [[nodiscard]] const NodeMarks& Marks() const { return marks_; }
  [[nodiscard]] size_t Slots() const { return by_slot_.size(); }
  // Null: no node that exists has this slot.
  [[nodiscard]] const NodeState* NodeAt(size_t slot) const {
    const NodeState* node = slot < by_slot_.size() ? by_slot_[slot] : nullptr;
    return node != nullptr && node->present ? node : nullptr;
  }

  // Nodes that exist, by name. Valid until the next change.
  [[nodiscard]] const std::vector<const NodeState*>& Nodes() const;
  // Gangs with unbound pods, in the order of their reservations; and those of several kinds of
  // pods.
  [[nodiscard]] const std::map<uint64_t, const GangState*>& InFlight() const { return in_flight_; }
  [[nodiscard]] const std::map<uint64_t, const GangState*>& Mixed() const { return mixed_; }
  [[nodiscard]] const FlightKinds& Flights() const { return flights_; }
  // Null when it has no reservation.
  [[nodiscard]] const Reservation* ReservationOf(const std::string& gang_id) const;
  // Changes with every node and every bound pod.
  [[nodiscard]] uint64_t BoundVersion() const { return bound_version_; }
  [[nodiscard]] const FactPool& Facts() const { return pool_; }
  // -1: no node or pod ever had it.
  [[nodiscard]] int32_t FindResource(const std::string& name) const;

 private:
  // State of a node before the current call changed it.
  struct Touched {
    NodeState* node;
    std::vector<Cell> cells;
    std::vector<api::HostPort> ports;
  };

  int32_t ResourceId(const std::string& name);
  LoadRef AcquireLoad(const api::PodShape& shape);
  void ReleaseLoad(LoadRef load);
  NodeState& NodeOf(const std::string& name);
  void DropIfUnused(NodeState* node);
  GangState& GangOf(const std::string& id);
  void DropIfUnused(GangState* gang);
  void Touch(NodeState* node);
  static void Count(NodeState& node, const Holding& holding, int sign);
  void Add(NodeState* node, GangState* gang, LoadRef load, int32_t bound, int32_t promised);
  void Finish();
  void NodesChanged();
  FlightKinds::iterator FlightOf(const Gang& gang, const GangPodSet& set);
  void EnterFlight(GangState& gang);
  void LeaveFlight(const GangState& gang);
  bool UseSlot(GangState& gang, const std::string& pod_set, NodeState* node);
  void DropReservation(GangState& gang);
  void ForgetPod(const PodRecord& record);
  static void CountBound(GangState& gang, int32_t pod_set, int32_t change);
  static std::vector<api::HostPort> PortsInUse(const NodeState& node);
  [[nodiscard]] bool Delegated(const NodeState& node, int32_t resource) const;
  [[nodiscard]] bool SlotBroken(const SetPlan& plan, const NodeState& node,
                                const NodeFilter& filter) const;

  FactPool pool_;
  StringPool pod_set_names_;
  TagPool tags_;
  std::map<std::string, api::StringMap> namespaces_;
  std::map<std::string, int32_t> resource_ids_;
  std::vector<std::string> resource_names_;
  std::map<Load, int64_t> loads_;
  std::map<std::string, NodeState> nodes_;
  NodeMarks marks_;
  std::vector<const NodeState*> by_slot_;  // null: unused
  std::vector<size_t> free_slots_;
  std::map<std::string, GangState> gangs_;
  std::map<std::string, PodRecord> pods_;
  std::set<std::string> delegated_;
  FlightKinds flights_;
  std::map<uint64_t, const GangState*> in_flight_;  // by serial
  std::map<uint64_t, const GangState*> mixed_;      // of these
  uint64_t last_flight_ = 0;
  uint64_t version_ = 1;
  uint64_t flight_version_ = 1;
  uint64_t bound_version_ = 1;
  uint64_t last_serial_ = 0;

  std::vector<Touched> touched_;                   // only within a call
  mutable std::vector<const NodeState*> present_;  // by name
  mutable bool present_stale_ = false;
};

}  // namespace tutti::engine
