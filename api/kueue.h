// SPDX-License-Identifier: Apache-2.0
// kueue.x-k8s.io/v1beta2: the fields that have a meaning here. Field names follow the API's
// documentation (sigs.k8s.io/kueue v0.19.2). Decoders accept every object that the schema lets
// through and put what is wrong with it into `problem`, so that one bad object never stops a watch.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/core.h"
#include "api/meta.h"
#include "api/quantity.h"
#include "base/result.h"

namespace tutti::api {

enum class StopPolicy { kNone, kHold, kHoldAndDrain };

struct ResourceQuota {
  std::string name;
  Quantity nominal;
  std::optional<Quantity> borrowing_limit;
  std::optional<Quantity> lending_limit;
};
struct FlavorQuotas {
  std::string name;
  std::vector<ResourceQuota> resources;
};
struct ResourceGroup {
  std::vector<std::string> covered_resources;
  std::vector<FlavorQuotas> flavors;
};

struct FlavorFungibility {
  bool borrow_try_next = false;  // whenCanBorrow: TryNextFlavor (default MayStopSearch)
  bool preempt_try_next = true;  // whenCanPreempt: TryNextFlavor (default)
  bool prefer_preemption_over_borrowing = false;  // preference
  bool operator==(const FlavorFungibility&) const = default;
};

enum class PreemptionPolicy { kNever, kLowerPriority, kLowerOrNewerEqualPriority, kAny };
struct Preemption {
  PreemptionPolicy within_cluster_queue = PreemptionPolicy::kNever;
  PreemptionPolicy reclaim_within_cohort = PreemptionPolicy::kNever;
  bool borrow_within_cohort = false;  // policy LowerPriority
  std::optional<int32_t> max_priority_threshold;
  bool operator==(const Preemption&) const = default;
};

struct ClusterQueue {
  ObjectMeta meta;
  std::string cohort;  // "" = none
  bool strict_fifo = false;
  LabelSelector namespace_selector;
  std::vector<ResourceGroup> groups;
  FlavorFungibility fungibility;
  Preemption preemption;
  StopPolicy stop_policy = StopPolicy::kNone;
  struct Check {
    std::string name;
    std::vector<std::string> on_flavors;
  };
  std::vector<Check> admission_checks;
  Quantity fair_weight = Quantity::FromInt(1);
  bool usage_based_admission = false;  // admissionScope.admissionMode
  Conditions conditions;               // status
  std::string
      status_json;      // the whole status as last seen, compact and sorted: to write only changes
  std::string problem;  // "" or what makes this object unusable: names the field and the fix
};

struct Cohort {
  ObjectMeta meta;
  std::string parent;
  std::vector<ResourceGroup> groups;
  Quantity fair_weight = Quantity::FromInt(1);
  std::string status_json;  // as ClusterQueue::status_json
  std::string problem;
};

struct LocalQueue {
  ObjectMeta meta;
  std::string cluster_queue;
  StopPolicy stop_policy = StopPolicy::kNone;
  Quantity fair_weight = Quantity::FromInt(1);
  Conditions conditions;
  std::string status_json;
};

struct ResourceFlavor {
  ObjectMeta meta;
  StringMap node_labels;
  std::vector<Taint> node_taints;
  std::vector<Toleration> tolerations;
  std::string topology_name;
};

// spec.parameters of an AdmissionCheck: the object with the settings of its controller.
struct CheckParameters {
  std::string group;
  std::string kind;
  std::string name;
  bool operator==(const CheckParameters&) const = default;
};

struct AdmissionCheck {
  ObjectMeta meta;
  std::string controller;
  std::optional<CheckParameters> parameters;
  Conditions conditions;
};

struct Topology {
  ObjectMeta meta;
  std::vector<std::string> levels;
};

struct WorkloadPriorityClass {
  ObjectMeta meta;
  int32_t value = 0;
  std::string description;
};

struct PodSet {
  std::string name = "main";
  int32_t count = 1;
  std::optional<int32_t> min_count;
  std::string template_json;  // compact PodTemplateSpec
  Json topology_request;      // null when absent
};

struct PodSetAssignment {
  std::string name = "main";
  StringMap flavors;            // resource -> flavor
  ResourceList resource_usage;  // total of the podset
  std::optional<int32_t> count;
  Json topology_assignment;  // as found, null when absent: kept in our writes
  std::string delayed_topology_request;
  bool operator==(const PodSetAssignment&) const = default;
};

struct Admission {
  std::string cluster_queue;
  std::vector<PodSetAssignment> assignments;
  bool operator==(const Admission&) const = default;
};

struct AdmissionCheckState {
  std::string name;
  std::string state;  // Pending, Ready, Retry, Rejected
  std::string message;
  Time last_transition = kNoTime;
  int32_t retry_count = 0;
  Json pod_set_updates;  // as found
  std::optional<int32_t> requeue_after_seconds;
  bool operator==(const AdmissionCheckState&) const = default;
};

struct EvictionCount {
  std::string reason;
  std::string underlying_cause;
  int32_t count = 0;
  bool operator==(const EvictionCount&) const = default;
};

struct PriorityClassRef {
  std::string group;
  std::string kind;
  std::string name;
  bool operator==(const PriorityClassRef&) const = default;
};

struct WorkloadStatus {
  Conditions conditions;
  std::optional<Admission> admission;
  std::vector<AdmissionCheckState> checks;
  std::optional<int32_t> requeue_count;
  std::optional<Time> requeue_at;
  std::vector<std::pair<std::string, int32_t>> reclaimable_pods;
  std::vector<EvictionCount> evictions;
  // per podset, requests of a workload that could not be admitted yet
  std::vector<std::pair<std::string, ResourceList>> resource_requests;
  std::optional<int32_t> accumulated_past_execution_seconds;
  // clusterName, nominatedClusterNames, unhealthyNodes, preemptionGates as found: the same manager
  // owns them, so our writes carry them on. Null when there is none.
  Json other;
  bool operator==(const WorkloadStatus&) const = default;
};

struct Workload {
  ObjectMeta meta;
  std::string queue_name;
  std::vector<PodSet> pod_sets;
  int32_t priority = 0;
  std::optional<PriorityClassRef> priority_class;
  bool active = true;
  std::optional<int32_t> max_execution_seconds;
  std::vector<std::string> preemption_gates;  // names
  WorkloadStatus status;
  std::string problem;

  [[nodiscard]] bool Finished() const { return IsTrue(status.conditions, "Finished"); }
  [[nodiscard]] bool Admitted() const { return IsTrue(status.conditions, "Admitted"); }
  [[nodiscard]] bool QuotaReserved() const {
    return IsTrue(status.conditions, "QuotaReserved") && status.admission.has_value();
  }
  [[nodiscard]] bool Evicted() const { return IsTrue(status.conditions, "Evicted"); }
};

// kDecode only for objects without a name.
Result<ClusterQueue> ClusterQueueFromJson(const Json& json);
Result<Cohort> CohortFromJson(const Json& json);
Result<LocalQueue> LocalQueueFromJson(const Json& json);
Result<ResourceFlavor> ResourceFlavorFromJson(const Json& json);
Result<AdmissionCheck> AdmissionCheckFromJson(const Json& json);
Result<Topology> TopologyFromJson(const Json& json);
Result<WorkloadPriorityClass> WorkloadPriorityClassFromJson(const Json& json);
Result<Workload> WorkloadFromJson(const Json& json);
// `problem`, if given, gets what is malformed (appended with "; ").
WorkloadStatus WorkloadStatusFromJson(const Json& status, std::string* problem = nullptr);

// A Workload to create: apiVersion, kind, metadata and spec (no status).
Json ToJson(const Workload& workload);
// The body of a server-side apply of the status as manager kueue-admission: apiVersion, kind, name,
// namespace, uid and the whole set of fields and conditions which that manager owns in Kueue
// (a field left out is removed by the API server). With `strict`, resourceVersion is included.
Json StatusApplyBody(const Workload& workload, bool strict);

}  // namespace tutti::api
