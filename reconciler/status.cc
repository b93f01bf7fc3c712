// SPDX-License-Identifier: Apache-2.0
#include "reconciler/status.h"

#include <algorithm>

#include "base/names.h"

namespace tutti::reconciler {
namespace {

using api::Condition;
using api::SetCondition;

bool Set(api::WorkloadStatus& status, std::string_view type, bool value, std::string_view reason,
         std::string message, Time now) {
  Condition condition;
  condition.type = type;
  condition.status = value ? "True" : "False";
  condition.reason = reason;
  condition.message = std::move(message);
  return SetCondition(status.conditions, std::move(condition), now);
}

// A True condition is turned off when quota is reserved again; its story is kept in the message.
bool ResetIfTrue(api::WorkloadStatus& status, std::string_view type, Time now) {
  const Condition* condition = api::FindCondition(status.conditions, type);
  if (condition == nullptr || condition->status != "True") {
    return false;
  }
  return Set(status, type, false, "QuotaReserved", "Previously: " + condition->message, now);
}

bool AdmittedFalse(api::WorkloadStatus& status, Time now) {
  if (!api::IsTrue(status.conditions, "Admitted")) {
    return false;
  }
  return Set(status, "Admitted", false, "NoReservation", "The workload has no reservation", now);
}

}  // namespace

api::WriteRequest ApplyStatus(const api::Workload& workload) {
  api::WriteRequest write;
  write.verb = api::Verb::kApply;
  write.resource = api::ResourceOf(api::Kind::kWorkload);
  write.key = workload.meta.Key();
  write.subresource = "status";
  write.field_manager = names::kAdmissionManager;
  write.body = api::StatusApplyBody(workload, /*strict=*/true);
  return write;
}

bool Reserve(api::WorkloadStatus& status, const engine::AdmitDecision& decision, Time now) {
  api::Admission admission;
  admission.cluster_queue = decision.cluster_queue;
  for (const engine::PodSetDecision& pod_set : decision.pod_sets) {
    api::PodSetAssignment assignment;
    assignment.name = pod_set.name;
    assignment.flavors = pod_set.flavors;
    assignment.count = pod_set.count;
    for (const auto& [resource, amount] : pod_set.usage) {
      assignment.resource_usage[resource] = api::FromAmount(resource, amount);
    }
    admission.assignments.push_back(std::move(assignment));
  }
  const api::WorkloadStatus before = status;
  status.admission = std::move(admission);
  Set(status, "QuotaReserved", true, "QuotaReserved",
      "Quota reserved in ClusterQueue " + decision.cluster_queue, now);
  ResetIfTrue(status, "Evicted", now);
  ResetIfTrue(status, "Preempted", now);
  ResetIfTrue(status, "BlockedOnPreemptionGates", now);
  const bool checks_ready =
      std::all_of(status.checks.begin(), status.checks.end(),
                  [](const api::AdmissionCheckState& check) { return check.state == "Ready"; });
  if (checks_ready) {
    std::string message = "The workload is admitted";
    if (!decision.note.empty()) {
      message += "; " + decision.note;
    }
    Set(status, "Admitted", true, "Admitted", std::move(message), now);
  }
  status.resource_requests.clear();
  return !(status == before);
}

Time ReservedAt(const api::Workload& workload) {
  const api::Condition* reserved = api::FindCondition(workload.status.conditions, "QuotaReserved");
  return reserved != nullptr ? reserved->last_transition : kNoTime;
}

std::string_view CoarseReason(engine::PendingReason reason) {
  switch (reason) {
    case engine::PendingReason::kMisconfigured:
    case engine::PendingReason::kSuspended:
      return reason::kInadmissible;
    case engine::PendingReason::kNoMatchingFlavor:
    case engine::PendingReason::kExceedsMaxQuota:
    case engine::PendingReason::kWaitingForQuota:
    case engine::PendingReason::kNeverFitsCluster:
    case engine::PendingReason::kWaitingForCapacity:
    case engine::PendingReason::kWaitingForPreemptedWorkloads:
    case engine::PendingReason::kBehindHead:
    case engine::PendingReason::kPendingEvaluation:
      return reason::kPending;
  }
  return reason::kPending;
}

bool SetPendingReason(api::WorkloadStatus& status, std::string_view reason,
                      const std::string& message,
                      const std::vector<std::pair<std::string, api::ResourceList>>& requests,
                      Time now) {
  const api::WorkloadStatus before = status;
  status.admission.reset();
  Set(status, "QuotaReserved", false, reason, message, now);
  AdmittedFalse(status, now);
  status.resource_requests = requests;
  return !(status == before);
}

bool Evict(api::WorkloadStatus& status, std::string_view reason, std::string_view underlying_cause,
           const std::string& message, std::optional<Time> requeue_at, Time now) {
  if (!Set(status, "Evicted", true, reason, message, now)) {
    return false;
  }
  for (api::AdmissionCheckState& check : status.checks) {
    check.message = "Reset to Pending after eviction. Previously: " + check.state;
    check.state = "Pending";
    check.last_transition = now;
  }
  const auto found = std::find_if(
      status.evictions.begin(), status.evictions.end(), [&](const api::EvictionCount& entry) {
        return entry.reason == reason && entry.underlying_cause == underlying_cause;
      });
  if (found != status.evictions.end()) {
    ++found->count;
  } else {
    status.evictions.push_back({std::string(reason), std::string(underlying_cause), 1});
  }
  if (requeue_at.has_value()) {
    status.requeue_count = status.requeue_count.value_or(0) + 1;
    status.requeue_at = requeue_at;
  }
  return true;
}

bool EndEviction(api::WorkloadStatus& status, Time now) {
  const api::WorkloadStatus before = status;
  const Condition* evicted = api::FindCondition(status.conditions, "Evicted");
  const std::string reason = evicted != nullptr ? evicted->reason : std::string(reason::kPending);
  const std::string message = evicted != nullptr ? evicted->message : "The workload was evicted";
  status.admission.reset();
  Set(status, "QuotaReserved", false, reason::kPending, message, now);
  AdmittedFalse(status, now);
  Set(status, "Requeued", false, reason, message, now);
  return !(status == before);
}

bool Requeue(api::WorkloadStatus& status, std::string_view reason, const std::string& message,
             Time now) {
  const api::WorkloadStatus before = status;
  Set(status, "Requeued", true, reason, message, now);
  status.requeue_at.reset();
  return !(status == before);
}

bool ForgetRequeues(api::WorkloadStatus& status) {
  const bool known = status.requeue_count.has_value() || status.requeue_at.has_value();
  status.requeue_count.reset();
  status.requeue_at.reset();
  return known;
}

bool Unreserve(api::WorkloadStatus& status, std::string_view reason, const std::string& message,
               Time now) {
  return SetPendingReason(status, reason, message, {}, now);
}

bool Finish(api::WorkloadStatus& status, bool success, const std::string& message, Time now) {
  return Set(status, "Finished", true, success ? "Succeeded" : "Failed", message, now);
}

Duration Backoff(int32_t count, Duration base, Duration max) {
  Duration delay = base;
  for (int32_t i = 1; i < count && delay < max; ++i) {
    delay *= 2;
  }
  return std::min(delay, max);
}

int32_t TotalEvictions(const api::WorkloadStatus& status) {
  int64_t total = 0;
  for (const api::EvictionCount& entry : status.evictions) {
    total += entry.count;
  }
  return static_cast<int32_t>(std::min<int64_t>(total, INT32_MAX));
}

}  // namespace tutti::reconciler
