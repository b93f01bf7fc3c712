// SPDX-License-Identifier: Apache-2.0
// The capacity check inside: a question prepared, and the object that answers it. capacity.cc
// decides, capacity_explain.cc says why not. Loop thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/capacity.h"
#include "engine/capacity_ledger.h"
#include "engine/device_fit.h"
#include "engine/fit_memory.h"
#include "engine/fit_message.h"
#include "engine/gang_fit.h"
#include "engine/in_flight.h"
#include "engine/node_filter.h"
#include "engine/placement_rules.h"
#include "engine/volume_fit.h"

namespace tutti::engine {

// --- a question, prepared
// -------------------------------------------------------------------------------

// Pods that are alike in everything that decides where they may go.
struct KindQuery {
  const GangPodSet* first = nullptr;
  std::vector<size_t> pod_sets;
  std::vector<api::HostPort> ports;
};

struct Query {
  const std::vector<const NodeState*>* nodes = nullptr;  // the bins of the problem
  std::vector<std::string> names;                        // of the resources, sorted, "pods" last
  std::vector<int32_t> ids;                              // -1: no node or pod ever had it
  std::vector<KindQuery> kinds;
  std::vector<NodeFilter> filters;
  std::vector<Verdict> verdicts;        // nodes x kinds
  std::optional<PlacementRules> rules;  // of the only kind
  std::string undecided;
  FitProblem kinds_only;        // kinds and clash; FillNodes adds the nodes
  std::vector<char> delegated;  // by resource: where a node has none, devices stand for it
  std::shared_ptr<const GangDevices> devices;  // null: no pod needs any
  std::unique_ptr<const GangVolumes> volumes;  // null: no pod has any

  void Undecided(const std::string& what) {
    undecided += (undecided.empty() ? "left to the scheduler: " : "; ") + what;
  }
};

// The nodes of a question as the search for devices sees them. Both must outlive it.
class QueryBins final : public DeviceBins {
 public:
  QueryBins(const CapacityLedger& ledger, const std::vector<const NodeState*>& nodes)
      : ledger_(ledger), nodes_(nodes) {}
  [[nodiscard]] const std::string& Name(size_t bin) const override {
    return nodes_[bin]->facts.name;
  }
  [[nodiscard]] size_t Slot(size_t bin) const override { return nodes_[bin]->slot; }
  [[nodiscard]] const NodeMarks& Marks() const override { return ledger_.Marks(); }
  [[nodiscard]] bool Offers(size_t bin, const std::string& resource) const override;

 private:
  const CapacityLedger& ledger_;
  const std::vector<const NodeState*>& nodes_;
};

class CapacityImpl final : public Capacity, private NodeLabels {
 public:
  void SetNode(const api::Node& node) override {
    const NodeState* state = ledger_.FindNode(node.meta.name);
    const bool added = state == nullptr;
    const auto labels = added ? decltype(NodeFacts::labels)() : state->facts.labels;
    ledger_.SetNode(node);
    if (added || labels != ledger_.FindNode(node.meta.name)->facts.labels)
      devices_.NodeChanged(node.meta.name);
    DevicesChanged(false);
  }
  void RemoveNode(const std::string& name) override {
    ledger_.RemoveNode(name);
    devices_.NodeChanged(name);
    DevicesChanged(false);
  }
  void SetDevicesKnown(bool known) override {
    devices_known_ = known;
    ledger_.Marks().MarkAll();
  }
  void SetResourceSlice(std::shared_ptr<const api::ResourceSlice> slice) override {
    const bool changed = devices_.SetSlice(std::move(slice));
    charge_version_ += changed ? 1 : 0;
    DevicesChanged(changed);
  }
  void RemoveResourceSlice(const std::string& name) override {
    ++charge_version_;
    DevicesChanged(devices_.RemoveSlice(name));
  }
  void SetDeviceClass(const api::DeviceClass& device_class) override {
    ++charge_version_;
    DevicesChanged(devices_.SetClass(device_class));
    ledger_.SetDelegated(devices_.inventory().MappedResources());
  }
  void RemoveDeviceClass(const std::string& name) override {
    ++charge_version_;
    DevicesChanged(devices_.RemoveClass(name));
    ledger_.SetDelegated(devices_.inventory().MappedResources());
  }
  void SetResourceClaimTemplate(const api::ResourceClaimTemplate& claim_template) override {
    ++charge_version_;
    DevicesChanged(devices_.SetTemplate(claim_template));
  }
  void RemoveResourceClaimTemplate(const api::ObjectKey& key) override {
    ++charge_version_;
    DevicesChanged(devices_.RemoveTemplate(key));
  }
  void SetResourceClaim(const api::ResourceClaim& claim, const std::string& gang,
                        const std::string& pod_set) override {
    DevicesChanged(devices_.SetClaim(claim, gang, pod_set));
  }
  void RemoveResourceClaim(const api::ObjectKey& key) override {
    DevicesChanged(devices_.RemoveClaim(key));
  }
  DeviceCharge ChargeOf(const DeviceQuota& quota, const std::string& ns, const api::PodShape& shape,
                        const std::vector<api::PodClaim>& shared) const override;
  uint64_t DeviceVersion() const override { return charge_version_; }
  void SetPod(const std::string& uid, const std::string& node,
              std::shared_ptr<const api::PodShape> shape, const std::string& gang,
              const std::string& pod_set, const PodIdentity& who) override {
    ledger_.SetPod(uid, node, *shape, gang, pod_set, who);
    volumes_.SetPod(uid, node, std::move(shape));
  }
  void SetNamespace(const std::string& name, const api::StringMap& labels) override {
    ledger_.SetNamespace(name, labels);
  }
  void RemoveNamespace(const std::string& name) override { ledger_.RemoveNamespace(name); }
  void RemovePod(const std::string& uid) override {
    ledger_.RemovePod(uid);
    volumes_.RemovePod(uid);
  }
  VolumeBook& Volumes() override { return volumes_; }
  std::unique_ptr<CapacityTrial> Try() override;
  int64_t BoundOf(const std::string& gang_id) const override { return ledger_.BoundOf(gang_id); }
  using Capacity::Check;
  FitResult Check(const Gang& gang, Reason reason) const override;
  FlightResult CheckFlights(const Gang& gang) const override;
  bool Hinders(const Gang& next, const Gang& waiting,
               const std::vector<Gang>& since) const override;
  void Reserve(const Gang& gang, const Placement& placement) override {
    ledger_.Reserve(gang, placement);
    DevicesChanged(devices_.Reserve(gang.id, PromisesOf(gang, placement)));
  }
  void Release(const std::string& gang_id) override {
    ledger_.Release(gang_id);
    DevicesChanged(devices_.Release(gang_id));
  }
  int32_t Unbound(const std::string& gang_id) const override { return ledger_.Unbound(gang_id); }
  int32_t Bound(const std::string& gang_id, const std::string& pod_set) const override {
    return ledger_.Bound(gang_id, pod_set);
  }
  bool PlanBroken(const std::string& gang_id) const override {
    return ledger_.PlanBroken(gang_id) || devices_.PlanBroken(gang_id);
  }
  int32_t CountNodes(const api::StringMap& labels) const override {
    return ledger_.CountNodes(labels);
  }
  uint64_t Version() const override {
    return ledger_.Version() + device_version_ + volumes_.version();
  }
  uint64_t FlightVersion() const override {
    return ledger_.FlightVersion() + devices_.Version() + volumes_.version();
  }
  std::string SanityCheck() const override {
    std::string problem = ledger_.SanityCheck();
    if (problem.empty())
      problem = devices_.SanityCheck();
    return problem.empty() ? volumes_.SanityCheck() : problem;
  }

 private:
  std::optional<Query> Prepare(const Gang& gang, const std::vector<const NodeState*>& nodes) const;
  FitProblem FillNodes(const Query& query, Basis basis) const;
  Placement ToPlacement(const Gang& gang, const Query& query,
                        const std::vector<Assigned>& assigned) const;
  std::string Explain(const Gang& gang, const Query& query, const FitProblem& now,
                      const FitProblem& empty, FitFacts facts,
                      const std::vector<int64_t>& placed) const;
  static SearchResult Ruled(const Query& query, const FitProblem& problem,
                            const std::vector<int64_t>& caps, Basis basis);
  FitResult RuledOut(const Query& query, int64_t placed) const;
  KindFacts FactsOf(const Gang& gang, const Query& query, const FitProblem& now,
                    const FitProblem& empty, size_t kind, bool never) const;
  std::vector<std::string> Holders(const Query& query, size_t kind, int32_t resource) const;
  [[nodiscard]] const std::vector<const NodeState*>& Nodes() const { return ledger_.Nodes(); }

  static std::string KeyOf(const Gang& gang);
  // "No" again, from what is remembered and the nodes that have changed; nothing if that doesn't
  // decide it.
  std::optional<FitKind> Recall(const Gang& gang, const std::string& key) const;
  bool Update(const Gang& gang, Refused& known) const;
  bool ArrangementHolds(const Gang& gang, const Refused& known, size_t slot) const;
  void Remember(const Gang& gang, const std::string& key, const Query& query, const FitProblem& now,
                const FitProblem& empty, const SearchResult& when_empty) const;

  // For devices.
  [[nodiscard]] bool NeedsDevices(const api::PodShape& shape) const;
  [[nodiscard]] bool NeedsDevices(const Gang& gang) const;
  [[nodiscard]] VolumeUse UseOfVolumes(const api::PodShape& shape, int64_t count) const;
  [[nodiscard]] VolumeUse UseOfVolumes(const Gang& gang) const;
  [[nodiscard]] bool Matches(const api::NodeSelector& selector,
                             const std::string& node) const override;
  DeviceSearch Find(const Query& query, FitProblem& problem, Basis basis) const;
  void AttachDevices(const Gang& gang, const Query& query, DevicePlan plan,
                     Placement& placement) const;
  static std::vector<PodPromise> PromisesOf(const Gang& gang, const Placement& placement);
  void DevicesChanged(bool helps);

  CapacityLedger ledger_;
  DeviceLedger devices_{*this};
  bool devices_known_ = false;
  uint64_t device_version_ = 0;  // something may fit that did not
  uint64_t charge_version_ = 0;
  VolumeBook volumes_;
  InFlight flights_{ledger_, devices_, devices_known_, volumes_};
  mutable FitMemory memory_;
  friend class CapacityTrialImpl;
  bool on_trial_ = false;  // answers aren't remembered, and nothing that was remembered counts
};

}  // namespace tutti::engine
