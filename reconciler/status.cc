// SPDX-License-Identifier: Apache-2.0
#include "reconciler/status.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/names.h"

namespace tutti::reconciler {
namespace {

using api::Condition;
using api::SetCondition;

// What says something new has no observedGeneration: the write (api::StatusApplyBody) gives it the
// present one. What says
// the same keeps its own, or each look at it would be a write.
bool Put(api::Conditions& conditions, Condition condition, Time now) {
  const std::string type = condition.type;
  const Condition* known = api::FindCondition(conditions, type);
  condition.observed_generation = known != nullptr ? known->observed_generation : 0;
  if (!SetCondition(conditions, std::move(condition), now)) {
    return false;
  }
  for (Condition& changed : conditions) {
    if (changed.type == type) {
      changed.observed_generation = 0;
    }
  }
  return true;
}

bool Set(api::WorkloadStatus& status, std::string_view type, bool value, std::string_view reason,
         std::string message, Time now) {
  Condition condition;
  condition.type = type;
  condition.status = value ? "True" : "False";
  condition.reason = reason;
  condition.message = std::move(message);
  return Put(status.conditions, std::move(condition), now);
}

// A True condition is turned off when quota is reserved again; its story is kept in the message.
bool ResetIfTrue(api::WorkloadStatus& status, std::string_view type, Time now) {
  const Condition* condition = api::FindCondition(status.conditions, type);
  if (condition == nullptr || condition->status != "True") {
    return false;
  }
  return Set(status, type, false, "QuotaReserved", "Previously: " + condition->message, now);
}

bool AllChecksReady(const api::WorkloadStatus& status) {
  return std::all_of(status.checks.begin(), status.checks.end(),
                     [](const api::AdmissionCheckState& check) { return check.state == "Ready"; });
}

constexpr std::string_view kNotAllReady = "Not all pods are ready or succeeded";

void WaitForStart(api::WorkloadStatus& status, Time now) {
  Set(status, "PodsReady", false, reason::kWaitForStart, std::string(kNotAllReady), now);
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

bool SyncAdmitted(api::WorkloadStatus& status, Time now, ReasonStyle style) {
  const bool reserved =
      api::IsTrue(status.conditions, "QuotaReserved") && status.admission.has_value();
  const bool ready = AllChecksReady(status);
  const bool was = api::IsTrue(status.conditions, "Admitted");
  const bool detailed = style == ReasonStyle::kDetailed &&
                        (api::FindCondition(status.conditions, "QuotaReserved") != nullptr ||
                         api::FindCondition(status.conditions, "Admitted") != nullptr);
  if (was == (reserved && ready) && (was || !detailed)) {
    return false;
  }
  if (was) {
    const Duration ran = now - api::FindCondition(status.conditions, "Admitted")->last_transition;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(ran).count();
    status.accumulated_past_execution_seconds = static_cast<int32_t>(std::clamp<int64_t>(
        status.accumulated_past_execution_seconds.value_or(0) + std::max<int64_t>(0, seconds), 0,
        INT32_MAX));
  }
  if (reserved && ready) {
    return Set(status, "Admitted", true, "Admitted", "The workload is admitted", now);
  }
  if (reserved) {
    return Set(status, "Admitted", false,
               detailed ? "UnsatisfiedAdmissionChecks" : "UnsatisfiedChecks",
               "The workload has not all checks ready", now);
  }
  return ready || detailed ? Set(status, "Admitted", false, "NoReservation",
                                 "The workload has no reservation", now)
                           : Set(status, "Admitted", false, "NoReservationUnsatisfiedChecks",
                                 "The workload has no reservation and not all checks ready", now);
}

api::Admission AdmissionOf(const engine::AdmitDecision& decision) {
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
  return admission;
}

bool Reserve(api::WorkloadStatus& status, const engine::AdmitDecision& decision,
             const std::set<std::string>& required, bool pods_ready, Time now, ReasonStyle style) {
  const api::WorkloadStatus before = status;
  status.admission = AdmissionOf(decision);
  Set(status, "QuotaReserved", true, "QuotaReserved",
      "Quota reserved in ClusterQueue " + decision.cluster_queue, now);
  ResetIfTrue(status, "Evicted", now);
  ResetIfTrue(status, "Preempted", now);
  ResetIfTrue(status, "BlockedOnPreemptionGates", now);
  std::set<std::string> unlisted = required;
  for (const api::AdmissionCheckState& check : status.checks) {
    unlisted.erase(check.name);
  }
  if (unlisted.empty() && AllChecksReady(status)) {
    std::string message = "The workload is admitted";
    if (!decision.note.empty()) {
      message += "; " + decision.note;
    }
    Set(status, "Admitted", true, "Admitted", std::move(message), now);
  } else if (style == ReasonStyle::kDetailed) {
    Set(status, "Admitted", false, "UnsatisfiedAdmissionChecks",
        "The workload has not all checks ready", now);
  }
  if (pods_ready) {
    WaitForStart(status, now);
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
    case engine::PendingReason::kNotAccepted:
    case engine::PendingReason::kWaitingForPreemptedWorkloads:
    case engine::PendingReason::kPreemptionGated:
    case engine::PendingReason::kBehindHead:
    case engine::PendingReason::kPendingEvaluation:
      return reason::kPending;
  }
  return reason::kPending;
}

std::string_view DetailedReason(engine::PendingReason reason) {
  switch (reason) {
    case engine::PendingReason::kMisconfigured:
    case engine::PendingReason::kNotAccepted:
      return reason::kMisconfigured;
    case engine::PendingReason::kPreemptionGated:
      return reason::kAdmissionGated;
    case engine::PendingReason::kBehindHead:
      return reason::kPendingEvaluation;
    case engine::PendingReason::kSuspended:
    case engine::PendingReason::kNoMatchingFlavor:
    case engine::PendingReason::kExceedsMaxQuota:
    case engine::PendingReason::kWaitingForQuota:
    case engine::PendingReason::kNeverFitsCluster:
    case engine::PendingReason::kWaitingForCapacity:
    case engine::PendingReason::kWaitingForPreemptedWorkloads:
    case engine::PendingReason::kPendingEvaluation:
      return engine::ToString(reason);
  }
  return reason::kPendingEvaluation;
}

bool SetBlockedOnPreemptionGates(api::WorkloadStatus& status, const std::string& message,
                                 Time now) {
  return Set(status, "BlockedOnPreemptionGates", true, reason::kPreemptionGated, message, now);
}

bool SetPendingReason(api::WorkloadStatus& status, std::string_view reason,
                      const std::string& message,
                      const std::vector<std::pair<std::string, api::ResourceList>>& requests,
                      Time now, ReasonStyle style) {
  const api::WorkloadStatus before = status;
  status.admission.reset();
  Set(status, "QuotaReserved", false, reason, message, now);
  SyncAdmitted(status, now, style);
  status.resource_requests = requests;
  return !(status == before);
}

std::string ReasonOf(const Eviction& eviction) {
  return eviction.reason == reason::kDeactivated && !eviction.cause.empty()
             ? eviction.reason + "DueTo" + eviction.cause
             : eviction.reason;
}

bool Evict(api::WorkloadStatus& status, const Eviction& eviction, Time now) {
  if (!Set(status, "Evicted", true, ReasonOf(eviction), eviction.message, now)) {
    return false;
  }
  for (api::AdmissionCheckState& check : status.checks) {
    if (check.state == "Pending") {
      continue;
    }
    // Of a Retry the count and the wait are kept, for the check's controller to go on with.
    check.retry_count = check.state == "Retry" ? check.retry_count + 1 : 0;
    check.message = "Reset to Pending after eviction. Previously: " + check.state;
    check.state = "Pending";
    check.pod_set_updates = Json();
    check.last_transition = now;
  }
  if (api::IsTrue(status.conditions, "BlockedOnPreemptionGates")) {
    Set(status, "BlockedOnPreemptionGates", false, ReasonOf(eviction), eviction.message, now);
  }
  if (status.other.IsObject()) {
    for (const std::string_view field :
         {"clusterName", "nominatedClusterNames", "unhealthyNodes"}) {
      status.other.Erase(field);
    }
    if (status.other.Has("preemptionGates")) {
      for (Json& gate : status.other.At("preemptionGates").MutableArray()) {
        gate.Set("position", "Closed");
        gate.Set("lastTransitionTime", FormatTime(now));
      }
    }
  }
  const auto found = std::find_if(
      status.evictions.begin(), status.evictions.end(), [&](const api::EvictionCount& entry) {
        return entry.reason == eviction.reason && entry.underlying_cause == eviction.cause;
      });
  if (found != status.evictions.end()) {
    ++found->count;
  } else {
    status.evictions.push_back({eviction.reason, eviction.cause, 1});
  }
  if (eviction.requeue_at.has_value() &&
      (!status.requeue_at.has_value() || *status.requeue_at < *eviction.requeue_at)) {
    status.requeue_at = eviction.requeue_at;  // never earlier than what somebody else asked for
  }
  if (eviction.counts) {
    status.requeue_count = status.requeue_count.value_or(0) + 1;
  }
  return true;
}

bool SetPreempted(api::WorkloadStatus& status, const engine::PreemptDecision& decision, Time now) {
  return Set(status, "Preempted", true, engine::ToString(decision.reason),
             engine::Describe(decision), now);
}

bool SetDeactivationTarget(api::WorkloadStatus& status, std::string_view cause,
                           const std::string& message, Time now) {
  return Set(status, "DeactivationTarget", true, cause, message, now);
}

bool EndEviction(api::WorkloadStatus& status, bool pods_ready, Time now, ReasonStyle style) {
  const api::WorkloadStatus before = status;
  const Condition* evicted = api::FindCondition(status.conditions, "Evicted");
  const std::string reason = evicted != nullptr ? evicted->reason : std::string(reason::kPending);
  const std::string message = evicted != nullptr ? evicted->message : "The workload was evicted";
  status.admission.reset();
  Set(status, "QuotaReserved", false,
      style == ReasonStyle::kDetailed ? reason::kPendingEvaluation : reason::kPending, message,
      now);
  SyncAdmitted(status, now, style);
  if (reason == "DeactivatedDueToMaximumExecutionTimeExceeded") {
    status.accumulated_past_execution_seconds.reset();  // a new activation has all of its time
  }
  Set(status, "Requeued", reason == reason::kPreempted, reason, message, now);
  if (pods_ready) {
    WaitForStart(status, now);
  }
  return !(status == before);
}

bool SetWaitingForReplacements(api::Conditions& conditions, bool waits, Time now) {
  constexpr std::string_view kType = "WaitingForReplacementPods";
  const api::Condition* known = api::FindCondition(conditions, kType);
  if (known == nullptr && !waits) {
    return false;
  }
  api::Condition next{std::string(kType), "False", "PodsReady", "No pods need replacement", now, 0};
  if (waits) {
    next.status = "True";
    const api::Condition* evicted = api::FindCondition(conditions, "Evicted");
    if (evicted != nullptr && evicted->status == "True") {
      next.reason = evicted->reason;
      next.message = evicted->message;
    } else if (known != nullptr && known->status == "True") {
      return false;  // the reason is that of its beginning
    } else {
      next.reason = "PodsFailed";
      next.message = "Some Failed pods need replacement";
    }
  }
  return Put(conditions, std::move(next), now);
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
               Time now, ReasonStyle style) {
  return SetPendingReason(status, reason, message, {}, now, style);
}

bool Finish(api::WorkloadStatus& status, bool success, const std::string& message, Time now) {
  return Set(status, "Finished", true, success ? "Succeeded" : "Failed", message, now);
}

bool FinishReplaced(api::WorkloadStatus& status, const api::Workload& by, Time now) {
  return Set(status, "Finished", true, reason::kSliceReplaced,
             "Replaced to accommodate a workload (UID: " + by.meta.uid +
                 ", JobUID: " + std::string(by.meta.Label(names::kJobUidLabel)) +
                 ") due to workload slice aggregation",
             now);
}

bool SyncPreemptionGates(api::Workload& workload, Time now) {
  Json& other = workload.status.other;
  Json gates = Json::Arr();
  size_t known = 0;
  for (const std::string& name : workload.preemption_gates) {
    Json state = Json::Obj(
        {{"name", name}, {"position", "Closed"}, {"lastTransitionTime", FormatTime(now)}});
    for (const Json& entry : other["preemptionGates"].AsArray()) {
      if (entry["name"].AsString() == name) {
        state = entry;
        ++known;
      }
    }
    gates.Push(std::move(state));
  }
  if (known == workload.preemption_gates.size() &&
      known == other["preemptionGates"].AsArray().size()) {
    return false;
  }
  if (workload.preemption_gates.empty()) {
    other.Erase("preemptionGates");
  } else {
    other.Set("preemptionGates", std::move(gates));
  }
  return true;
}

bool SetPodsReady(api::WorkloadStatus& status, bool ready, Time now) {
  const Condition* known = api::FindCondition(status.conditions, "PodsReady");
  if (!api::IsTrue(status.conditions, "Admitted")) {
    return Set(status, "PodsReady", false, reason::kWaitForStart, std::string(kNotAllReady), now);
  }
  const bool broke = known != nullptr && (known->reason == reason::kWaitForRecovery ||
                                          known->reason == reason::kRecovered);
  if (ready) {
    return Set(status, "PodsReady", true, broke ? reason::kRecovered : reason::kStarted,
               "All pods reached readiness and the workload is running", now);
  }
  if (known != nullptr && (known->status == "True" || known->reason == reason::kWaitForRecovery)) {
    return Set(status, "PodsReady", false, reason::kWaitForRecovery,
               "At least one pod has failed, waiting for recovery", now);
  }
  return Set(status, "PodsReady", false, reason::kWaitForStart, std::string(kNotAllReady), now);
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
