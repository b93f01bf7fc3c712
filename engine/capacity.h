// SPDX-License-Identifier: Apache-2.0
// Is there a place for all pods of a gang at once? The model of free capacity is kube-scheduler's
// own (filters NodeResourcesFit, NodeUnschedulable, TaintToleration, NodeAffinity, NodeName,
// NodePorts, DynamicResources, those of volumes, of the 1.36 default profile): allocatable minus
// all non-terminal pods, terminating ones included, minus reservations of gangs that were promised
// a place and are not bound yet.
//
// Pure data: no I/O, no clock, no thread; same calls, same answers. Not thread-safe. Complexity of
// a check is O(nodes) per distinct pod shape.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "api/core.h"
#include "api/dra.h"
#include "engine/device_quota.h"

namespace tutti::engine {

struct SlotDevices;  // device_ledger.h
class VolumeBook;    // volume_book.h

// Pods of one podset, with what the assigned flavors add to them.
struct GangPodSet {
  std::string name;
  int32_t count = 0;
  std::shared_ptr<const api::PodShape> shape;  // never null
  api::StringMap node_selector;                // nodeLabels of the assigned flavors
  std::vector<api::Toleration> tolerations;    // tolerations of the assigned flavors
};

// What rules of other pods see of a pod.
struct PodIdentity {
  std::string ns;
  api::StringMap labels;
  bool leaving = false;  // being deleted
};

struct Gang {
  std::string id;  // the workload, "ns/name"; claims are looked up in its namespace
  std::vector<GangPodSet> pod_sets;
  // Claims of its PodGroup (KEP-5729): a pod's claim that is equal to one of these is one claim for
  // all pods of the gang.
  std::vector<api::PodClaim> group_claims = {};
};

struct PlacementSlot {
  size_t pod_set = 0;  // index into Gang::pod_sets
  std::string node;
  int32_t count = 0;
  // What the pods were given on trial; Reserve promises it. Null without devices.
  std::shared_ptr<const SlotDevices> devices = nullptr;
  // Where the pods are; devices are not compared.
  bool operator==(const PlacementSlot& other) const {
    return pod_set == other.pod_set && node == other.node && count == other.count;
  }
};
using Placement = std::vector<PlacementSlot>;  // ordered by pod set, then node name

enum class FitKind {
  kFits,
  kNotNow,     // would fit on this cluster if other pods and reservations were gone
  kNever,      // not even on the empty cluster: nodes are too small, too few, or none matches
  kUndecided,  // the pods use rules that are left to the scheduler (`message` names them)
};

struct FitResult {
  FitKind kind = FitKind::kFits;
  Placement placement;  // for kFits (and a best guess for kUndecided)
  // All pods are on one node because they share a claim that gets devices of that node. Of such
  // pods kube-scheduler 1.36.3 may bind others elsewhere (kubernetes/kubernetes#140087).
  bool tied = false;
  // For a person, e.g. "18 of 32 pods fit now; per pod nvidia.com/gpu 8: 14 more nodes with that
  // much free are needed (40 nodes match, 22 are full, 3 are cordoned)".
  std::string message;
};

// Whether a "no" has to say what is missing, which costs more than the answer: all nodes are
// looked at for it.
enum class Reason : uint8_t { kNone, kText };

struct FlightResult {
  bool clear = true;
  // Not clear: the gangs to wait for, in the order of their reservations.
  std::vector<std::string> waits_for;
};

// What if: pods and promises of some gangs are gone, and others have promises. Everything is undone
// when it is destroyed; until then nothing may be told to its Capacity, and no other trial begun.
class CapacityTrial {
 public:
  virtual ~CapacityTrial() = default;
  // Exactly these gangs are gone; their bound pods, promises and devices count as free. Rules about
  // other pods and volumes still see them.
  virtual void SetGone(const std::set<std::string>& gangs) = 0;
  virtual void Promise(const Gang& gang, const Placement& placement) = 0;
  // As Capacity::Check without a reason; nothing is remembered.
  [[nodiscard]] virtual FitResult Check(const Gang& gang) const = 0;
};

class Capacity {
 public:
  virtual ~Capacity() = default;

  virtual void SetNode(const api::Node& node) = 0;
  virtual void RemoveNode(const std::string& name) = 0;

  // A pod that is bound to `node` and not terminal. `gang` is the id of the workload that it
  // belongs to ("" = foreign) and `pod_set` the podset's name: binding a pod uses up one slot of
  // that gang's reservation, on the same node if one is left there, else any other of the podset.
  // Calling it again for the same uid replaces what was known. A slot is used when a pod becomes
  // known as a pod of that gang and podset; pods known before Reserve use none, a used slot stays
  // used when its pod goes.
  // `who`: as rules of other pods see it; without a namespace none sees it.
  virtual void SetPod(const std::string& uid, const std::string& node,
                      std::shared_ptr<const api::PodShape> shape, const std::string& gang,
                      const std::string& pod_set, const PodIdentity& who = {}) = 0;
  virtual void RemovePod(const std::string& uid) = 0;
  // Labels of namespaces, for rules that select pods by them.
  virtual void SetNamespace(const std::string& name, const api::StringMap& labels) = 0;
  virtual void RemoveNamespace(const std::string& name) = 0;

  // Devices (dynamic resource allocation, docs/devices.md). Until the caller says that it passes on
  // everything of resource.k8s.io/v1, pods with claims are left to the scheduler.
  virtual void SetDevicesKnown(bool known) = 0;
  virtual void SetResourceSlice(std::shared_ptr<const api::ResourceSlice> slice) = 0;
  virtual void RemoveResourceSlice(const std::string& name) = 0;
  virtual void SetDeviceClass(const api::DeviceClass& device_class) = 0;
  virtual void RemoveDeviceClass(const std::string& name) = 0;
  virtual void SetResourceClaimTemplate(const api::ResourceClaimTemplate& claim_template) = 0;
  virtual void RemoveResourceClaimTemplate(const api::ObjectKey& key) = 0;
  // A claim that was made for a pod of a gang comes with that gang's id and the podset's name (else
  // "" and ""): its allocation, once there, takes the place of what the gang was promised, so that
  // nothing counts twice. Call it again when the gang becomes known.
  virtual void SetResourceClaim(const api::ResourceClaim& claim, const std::string& gang,
                                const std::string& pod_set) = 0;
  virtual void RemoveResourceClaim(const api::ObjectKey& key) = 0;
  // Volumes and their claims (docs/engine.md, section 4): what is put in there counts at once.
  [[nodiscard]] virtual VolumeBook& Volumes() = 0;
  // What the devices of one such pod cost in quota, but for the claims that it shares with its
  // gang; claims are looked up in `ns`.
  [[nodiscard]] virtual DeviceCharge ChargeOf(const DeviceQuota& quota, const std::string& ns,
                                              const api::PodShape& shape,
                                              const std::vector<api::PodClaim>& shared) const = 0;
  // Grows when slices, device classes or claim templates change: ChargeOf may answer differently.
  [[nodiscard]] virtual uint64_t DeviceVersion() const = 0;

  // All pods of all podsets together, or nothing, with all devices of their claims. Deterministic:
  // nodes are tried in an order that packs (fullest suitable node first, then name). Exact for
  // gangs of identical pods; for unlike pods a search with a step budget, whose failure is reported
  // as kNotNow with a message saying so. Without a reason: the same kind (a search that has more
  // steps left may find more), and the message of kNotNow and kNever may be empty; asked again it
  // costs the nodes that have changed. Shapes are known by their address: they must not change.
  [[nodiscard]] virtual FitResult Check(const Gang& gang, Reason reason) const = 0;
  [[nodiscard]] FitResult Check(const Gang& gang) const { return Check(gang, Reason::kText); }

  [[nodiscard]] virtual std::unique_ptr<CapacityTrial> Try() = 0;

  // Whether the gang may be released beside those in flight (reserved, not all pods bound).
  // kube-scheduler scores nodes by itself and may bind such a pod elsewhere than planned, so plans
  // alone don't prove that all of them land. Clear only if, on whatever admissible nodes and in
  // whatever order the scheduler puts the pods of the others, this gang keeps its places, and so
  // does each gang in flight that would land without this one. REQUIRES: Check says kFits or
  // kUndecided. Sufficient, not necessary, for pods of unlike size; exact when all are alike, and
  // always clear when nothing in flight can reach the same nodes. Pods with rules that are left to
  // the scheduler are not proven to land, here and there. It doesn't cover pods that nobody knows
  // of yet, nor, for unlike pods of one gang, that the scheduler finds the arrangement. May become
  // clear when FlightVersion() or Version() grows.
  [[nodiscard]] virtual FlightResult CheckFlights(const Gang& gang) const = 0;
  // For a gang that waits for those in flight: whether releasing `next` could make it wait longer.
  // True if `waiting` has its places now, `next` can reach one of them, and on some nodes the pods
  // of `next` and of `since` (released while it has waited) could leave it too few.
  [[nodiscard]] virtual bool Hinders(const Gang& next, const Gang& waiting,
                                     const std::vector<Gang>& since) const = 0;

  // Promises the places. The reservation of `gang.id` must not exist yet (it would be replaced).
  virtual void Reserve(const Gang& gang, const Placement& placement) = 0;
  // Drops the promise; pods that are bound stay counted until they are removed.
  virtual void Release(const std::string& gang_id) = 0;
  // Slots of the reservation that no bound pod has used yet.
  [[nodiscard]] virtual int32_t Unbound(const std::string& gang_id) const = 0;
  // Pods of this podset that are known (SetPod) as bound, with or without a reservation.
  [[nodiscard]] virtual int32_t Bound(const std::string& gang_id,
                                      const std::string& pod_set) const = 0;
  // Same, of all podsets.
  [[nodiscard]] virtual int64_t BoundOf(const std::string& gang_id) const = 0;
  // Same, limited to slots on nodes that no longer exist or no longer admit the pod (cordoned,
  // taint, shrunk): such a plan will not land as planned.
  [[nodiscard]] virtual bool PlanBroken(const std::string& gang_id) const = 0;

  // Nodes that match a set of labels (a flavor's nodeLabels): are there any at all?
  [[nodiscard]] virtual int32_t CountNodes(const api::StringMap& labels) const = 0;

  // Grows whenever something changed that can make a gang fit which did not fit before. A node
  // heartbeat that changes nothing relevant leaves it alone.
  [[nodiscard]] virtual uint64_t Version() const = 0;

  // Grows whenever a pod binds or goes, a reservation with unbound pods is made or dropped, or
  // nodes or labels of namespaces change: what gangs in flight and rules about other pods depend
  // on. (A reservation made or a node gone may leave a gang in flight without hope, which then
  // holds nobody back.)
  [[nodiscard]] virtual uint64_t FlightVersion() const = 0;

  // Checks the bookkeeping against a recomputation from scratch; "" or what is wrong.
  [[nodiscard]] virtual std::string SanityCheck() const = 0;
};

std::unique_ptr<Capacity> MakeCapacity();

}  // namespace tutti::engine
