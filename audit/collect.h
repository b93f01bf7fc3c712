// SPDX-License-Identifier: Apache-2.0
// Objects in any order to facts: gangs with their pods' times, nodes, queues. Total: what can't be
// used is counted and said, and the rest goes on.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "api/dra.h"
#include "api/kueue.h"
#include "audit/model.h"
#include "base/json.h"
#include "cli/cluster_input.h"
#include "engine/capacity.h"

namespace tutti::audit {

struct Facts {
  std::vector<Gang> gangs;
  std::vector<NodeFacts> nodes;  // [0] stands for "none"
  std::map<std::string, api::ResourceFlavor> flavors;
  std::map<std::string, api::ClusterQueue> cluster_queues;
  std::map<api::ObjectKey, api::LocalQueue> local_queues;
  std::set<std::string> device_drivers;  // that publish slices
  std::unique_ptr<engine::Capacity> capacity;
  std::unique_ptr<cli::ClusterInput> cluster;  // of `capacity`
  Time now = kNoTime;                          // of the audit
  bool now_is_guess = false;
  std::map<std::string, size_t> kinds;  // objects seen
  size_t pods_on_nodes = 0;
  // Unlike pods of jobs that ask for devices, without what differs from pod to pod; most common
  // first.
  std::vector<std::shared_ptr<const api::PodShape>> demand;
  std::vector<OtherPod> others;  // those with devices (CollectOptions::for_ledger)
  std::vector<std::string> notes;

  // What the devices of a pod are: extended resources that are accelerators, and DeviceClasses of
  // its claims, each with a count. A claim that pods share is counted for none but the first.
  [[nodiscard]] api::Amounts DevicesOf(const std::string& ns, const api::PodShape& shape,
                                       std::set<std::string>* shared_seen = nullptr) const;
  std::map<api::ObjectKey, api::ClaimSpec> claims;
  std::map<api::ObjectKey, api::ClaimSpec> claim_templates;
};

struct CollectOptions {
  bool keep_manifests = false;  // of Jobs, for proposals
  // Also what a report of one moment has no use for: Facts::others, Gang::devices.
  bool for_ledger = false;
  // The time of the audit; none: the newest time that any object names.
  std::optional<Time> now;
};

class Collector {
 public:
  explicit Collector(CollectOptions options);
  ~Collector();

  // `where` for messages.
  void Take(const Json& object, const std::string& where);
  // Something that the caller could not read: shown among the notes.
  void Note(std::string text) { facts_.notes.push_back(std::move(text)); }
  // After the last object.
  Facts Finish();

 private:
  struct LoosePod {
    std::string unit;  // "" = of no gang
    PodTimes times;
    int32_t total = 0;  // of a Kueue pod group
    std::string group;  // spec.schedulingGroup
    std::string ns;
  };
  // Whose it is, for messages.
  std::string TakePod(const Json& object, const std::string& ns);
  void TakeJob(const Json& object, const std::string& ns);
  void TakeJobSet(const Json& object, const std::string& ns);
  void TakeVolcanoJob(const Json& object, const std::string& ns);
  void TakeGroup(const Json& object, const std::string& ns);
  void TakeWorkload(const Json& object);
  void TakeNode(const Json& object);
  void SeeTime(const Json& text);
  Gang& GangOf(const std::string& unit, const std::string& kind, const std::string& ns,
               const std::string& name);
  std::shared_ptr<const std::string> KeepTemplate(const Json& pod_template);
  uint32_t NodeIndex(const std::string& name);
  void Problem(const std::string& kind, const std::string& text);
  void JoinPods();
  void CountDevices();
  void Demand();
  void JoinWorkloads();
  void Missing();

  const CollectOptions options_;
  Facts facts_;
  std::unordered_map<std::string, size_t> units_;  // key of a gang -> index
  std::unordered_set<std::string> seen_;           // objects
  std::unordered_map<std::string, uint32_t> node_index_;
  std::unordered_map<std::string, std::shared_ptr<const std::string>> templates_;
  std::vector<LoosePod> pods_;
  std::vector<api::Workload> workloads_;
  std::map<std::string, int32_t> quorums_;  // native groups by ns/name
  std::map<std::string, size_t> others_;    // kinds that are not looked at
  struct Problems {
    size_t count = 0;
    std::string first;
  };
  std::map<std::string, Problems> problems_;  // by kind
  Time newest_ = kNoTime;
  std::vector<Time> renewed_;  // by the nodes, in their Leases
  size_t twice_ = 0;
  size_t skewed_ = 0;
  std::string skewed_node_;
  Duration skew_{};
};

}  // namespace tutti::audit
