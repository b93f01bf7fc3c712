// SPDX-License-Identifier: Apache-2.0
// The status of a Workload: reading it, and the body with which the manager kueue-admission applies
// it. An apply removes what it leaves out, so the body always carries the whole set of that
// manager.
#include <algorithm>
#include <array>

#include "api/decode.h"
#include "api/kueue.h"
#include "base/names.h"

namespace tutti::api {
namespace {

constexpr std::array<std::string_view, 9> kOwnConditions = {
    "QuotaReserved",      "Admitted", "Evicted",
    "Preempted",          "Requeued", "PodsReady",
    "DeactivationTarget", "Finished", "BlockedOnPreemptionGates"};
constexpr std::array<std::string_view, 4> kOtherFields = {"clusterName", "nominatedClusterNames",
                                                          "unhealthyNodes", "preemptionGates"};

void AddProblem(std::string* problem, const std::string& text) {
  if (problem != nullptr) {
    *problem += (problem->empty() ? "" : "; ") + text;
  }
}

ResourceList ReadResources(const Json& json, const std::string& path, std::string* problem) {
  ResourceList out;
  for (const auto& [resource, value] : json.AsObject()) {
    Result<Quantity> quantity = Quantity::FromJson(value);
    if (!quantity) {
      AddProblem(problem, path + "[" + resource + "]: " + quantity.error().message);
    } else if (quantity->Sign() < 0) {
      AddProblem(problem, path + "[" + resource + "]: must not be negative");
    } else {
      out[resource] = std::move(*quantity);
    }
  }
  return out;
}

Admission ReadAdmission(const Json& json, std::string* problem) {
  Admission out;
  out.cluster_queue = json["clusterQueue"].AsString();
  for (const Json& item : json["podSetAssignments"].AsArray()) {
    PodSetAssignment assignment;
    if (!item["name"].AsString().empty()) {
      assignment.name = item["name"].AsString();
    }
    assignment.flavors = StringMapFromJson(item["flavors"]);
    assignment.resource_usage =
        ReadResources(item["resourceUsage"],
                      "status.admission.podSetAssignments[" +
                          std::to_string(out.assignments.size()) + "].resourceUsage",
                      problem);
    assignment.count = ReadOptionalInt32(item["count"]);
    assignment.topology_assignment = item["topologyAssignment"];
    assignment.delayed_topology_request = item["delayedTopologyRequest"].AsString();
    out.assignments.push_back(std::move(assignment));
  }
  return out;
}

AdmissionCheckState ReadCheck(const Json& json) {
  AdmissionCheckState out;
  out.name = json["name"].AsString();
  out.state = json["state"].AsString();
  out.message = json["message"].AsString();
  out.last_transition = ReadTime(json["lastTransitionTime"]);
  out.retry_count = ReadInt32(json["retryCount"]);
  out.pod_set_updates = json["podSetUpdates"];
  out.requeue_after_seconds = ReadOptionalInt32(json["requeueAfterSeconds"]);
  return out;
}

Json AdmissionJson(const Admission& admission) {
  Json out = Json::Obj({{"clusterQueue", admission.cluster_queue}});
  for (const PodSetAssignment& assignment : admission.assignments) {
    Json item = Json::Obj({{"name", assignment.name}});
    if (!assignment.flavors.empty()) {
      item.Set("flavors", ToJson(assignment.flavors));
    }
    if (!assignment.resource_usage.empty()) {
      item.Set("resourceUsage", ToJson(assignment.resource_usage));
    }
    if (assignment.count) {
      item.Set("count", *assignment.count);
    }
    if (!assignment.topology_assignment.IsNull()) {
      item.Set("topologyAssignment", assignment.topology_assignment);
    }
    if (!assignment.delayed_topology_request.empty()) {
      item.Set("delayedTopologyRequest", assignment.delayed_topology_request);
    }
    out.At("podSetAssignments").Push(std::move(item));
  }
  return out;
}

Json CheckJson(const AdmissionCheckState& check) {
  Json out = Json::Obj({{"name", check.name},
                        {"state", check.state},
                        {"lastTransitionTime", FormatTime(check.last_transition)},
                        {"message", check.message}});
  if (!check.pod_set_updates.IsNull()) {
    out.Set("podSetUpdates", check.pod_set_updates);
  }
  if (check.retry_count != 0) {
    out.Set("retryCount", check.retry_count);
  }
  if (check.requeue_after_seconds) {
    out.Set("requeueAfterSeconds", *check.requeue_after_seconds);
  }
  return out;
}

}  // namespace

WorkloadStatus WorkloadStatusFromJson(const Json& status, std::string* problem) {
  WorkloadStatus out;
  out.conditions = ConditionsFromJson(status["conditions"]);
  if (status["admission"].IsObject()) {
    out.admission = ReadAdmission(status["admission"], problem);
  }
  for (const Json& item : status["admissionChecks"].AsArray()) {
    out.checks.push_back(ReadCheck(item));
  }
  out.requeue_count = ReadOptionalInt32(status["requeueState"]["count"]);
  out.requeue_at = ReadOptionalTime(status["requeueState"]["requeueAt"]);
  for (const Json& item : status["reclaimablePods"].AsArray()) {
    out.reclaimable_pods.emplace_back(item["name"].AsString(),
                                      std::max(ReadInt32(item["count"]), 0));
  }
  for (const Json& item : status["schedulingStats"]["evictions"].AsArray()) {
    out.evictions.push_back(
        {item["reason"].AsString(), item["underlyingCause"].AsString(), ReadInt32(item["count"])});
  }
  for (const Json& item : status["resourceRequests"].AsArray()) {
    // What a scheduler reported; nothing is decided by it, so odd amounts are dropped silently.
    out.resource_requests.emplace_back(item["name"].AsString(),
                                       ReadResources(item["resources"], "", nullptr));
  }
  out.accumulated_past_execution_seconds =
      ReadOptionalInt32(status["accumulatedPastExecutionTimeSeconds"]);
  for (const std::string_view field : kOtherFields) {
    if (const Json* value = status.Find(field); value != nullptr && !value->IsNull()) {
      out.other.Set(field, *value);
    }
  }
  return out;
}

Json StatusApplyBody(const Workload& workload, bool strict) {
  const WorkloadStatus& from = workload.status;
  Json status = Json::Obj();
  if (from.admission) {
    status.Set("admission", AdmissionJson(*from.admission));
  }
  Conditions conditions;
  for (const Condition& condition : from.conditions) {
    if (std::find(kOwnConditions.begin(), kOwnConditions.end(), condition.type) !=
        kOwnConditions.end()) {
      conditions.push_back(condition);
      if (condition.observed_generation == 0) {  // decided by what the workload is now
        conditions.back().observed_generation = workload.meta.generation;
      }
    }
  }
  if (!conditions.empty()) {
    status.Set("conditions", ToJson(conditions));
  }
  for (const AdmissionCheckState& check : from.checks) {
    status.At("admissionChecks").Push(CheckJson(check));
  }
  if (from.requeue_count || from.requeue_at) {
    Json& requeue = status.At("requeueState");
    if (from.requeue_count) {
      requeue.Set("count", *from.requeue_count);
    }
    if (from.requeue_at) {
      requeue.Set("requeueAt", FormatTime(*from.requeue_at));
    }
  }
  if (!from.admission) {  // an admission says more
    for (const auto& [name, resources] : from.resource_requests) {
      Json item = Json::Obj({{"name", name}});
      if (!resources.empty()) {
        item.Set("resources", ToJson(resources));
      }
      status.At("resourceRequests").Push(std::move(item));
    }
  }
  if (from.accumulated_past_execution_seconds) {
    status.Set("accumulatedPastExecutionTimeSeconds", *from.accumulated_past_execution_seconds);
  }
  for (const EvictionCount& eviction : from.evictions) {
    status.At("schedulingStats")
        .At("evictions")
        .Push(Json::Obj({{"reason", eviction.reason},
                         {"underlyingCause", eviction.underlying_cause},
                         {"count", eviction.count}}));
  }
  for (const auto& [field, value] : from.other.AsObject()) {
    status.Set(field, value);
  }

  Json metadata = Json::Obj({{"name", workload.meta.name}, {"namespace", workload.meta.ns}});
  if (!workload.meta.uid.empty()) {
    metadata.Set("uid", workload.meta.uid);
  }
  if (strict && !workload.meta.resource_version.empty()) {
    metadata.Set("resourceVersion", workload.meta.resource_version);
  }
  return Json::Obj({{"apiVersion", names::kKueueVersion},
                    {"kind", "Workload"},
                    {"metadata", std::move(metadata)},
                    {"status", std::move(status)}});
}

}  // namespace tutti::api
