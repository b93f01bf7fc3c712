// SPDX-License-Identifier: Apache-2.0
// The state changes of a Workload as pure functions on its status: which conditions turn, with
// which reasons and messages, in one write (Kueue's table of writes). Each returns whether anything
// changed.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "api/kueue.h"
#include "api/request.h"
#include "base/time.h"
#include "engine/engine.h"

namespace tutti::reconciler {

namespace reason {
inline constexpr std::string_view kPending = "Pending";
inline constexpr std::string_view kInadmissible = "Inadmissible";
inline constexpr std::string_view kAdmissionGated = "AdmissionGated";
inline constexpr std::string_view kPodsReadyTimeout = "PodsReadyTimeout";
inline constexpr std::string_view kNotPlaced = "NotPlaced";
// The gang starts again as a whole, at once and with its old place in the queue; our own reason.
inline constexpr std::string_view kGangRestart = "GangRestart";
inline constexpr std::string_view kMemberLost = "MemberLost";
inline constexpr std::string_view kOtherGroup = "OtherGroup";
inline constexpr std::string_view kDeactivated = "Deactivated";
inline constexpr std::string_view kClusterQueueStopped = "ClusterQueueStopped";
inline constexpr std::string_view kLocalQueueStopped = "LocalQueueStopped";
inline constexpr std::string_view kBackoffFinished = "BackoffFinished";
inline constexpr std::string_view kClusterQueueRestarted = "ClusterQueueRestarted";
inline constexpr std::string_view kLocalQueueRestarted = "LocalQueueRestarted";
inline constexpr std::string_view kReactivated = "Reactivated";
inline constexpr std::string_view kGangRestarts = "GangRestarts";
inline constexpr std::string_view kPreempted = "Preempted";
inline constexpr std::string_view kAdmissionCheck = "AdmissionCheck";
inline constexpr std::string_view kRequeuingLimitExceeded = "RequeuingLimitExceeded";
inline constexpr std::string_view kMaximumExecutionTimeExceeded = "MaximumExecutionTimeExceeded";
inline constexpr std::string_view kWaitForStart = "WaitForStart";
inline constexpr std::string_view kWaitForRecovery = "WaitForRecovery";
inline constexpr std::string_view kStarted = "Started";
inline constexpr std::string_view kRecovered = "Recovered";
inline constexpr std::string_view kWaiting = "Waiting";
inline constexpr std::string_view kWaitingForPodsReady = "WaitingForPodsReady";
inline constexpr std::string_view kMisconfigured = "Misconfigured";
inline constexpr std::string_view kSuspended = "Suspended";
inline constexpr std::string_view kPendingEvaluation = "PendingEvaluation";
inline constexpr std::string_view kPreemptionGated = "PreemptionGated";
inline constexpr std::string_view kOnHold = "OnHold";
inline constexpr std::string_view kSliceReplaced = "WorkloadSliceReplaced";
inline constexpr std::string_view kOutOfSync = "OutOfSync";
}  // namespace reason

// Which reasons QuotaReserved=False and Admitted=False have: Kueue's few old ones, or the detailed
// ones of its gate UnadmittedWorkloadsObservability; then Admitted=False stands beside every
// QuotaReserved=False.
enum class ReasonStyle { kCoarse, kDetailed };

// The status as one server-side apply of its owner, guarded by resourceVersion.
[[nodiscard]] api::WriteRequest ApplyStatus(const api::Workload& workload);

// The admission that a decision means.
[[nodiscard]] api::Admission AdmissionOf(const engine::AdmitDecision& decision);

// Quota reserved; Admitted in the same write when every check of `required` is listed and all that
// are listed are Ready (none is the usual case). `pods_ready`: write PodsReady=False/WaitForStart
// too (waitForPodsReady).
bool Reserve(api::WorkloadStatus& status, const engine::AdmitDecision& decision,
             const std::set<std::string>& required, bool pods_ready, Time now,
             ReasonStyle style = ReasonStyle::kCoarse);

// Admitted follows QuotaReserved and the checks; written only when its truth changes. The time
// since it was admitted is added to accumulatedPastExecutionTimeSeconds when that ends.
bool SyncAdmitted(api::WorkloadStatus& status, Time now, ReasonStyle style = ReasonStyle::kCoarse);

// When the condition QuotaReserved became what it is; kNoTime without one.
[[nodiscard]] Time ReservedAt(const api::Workload& workload);

// QuotaReserved=False with the reason that the API has for it, and the requests that were tried.
bool SetPendingReason(api::WorkloadStatus& status, std::string_view reason,
                      const std::string& message,
                      const std::vector<std::pair<std::string, api::ResourceList>>& requests,
                      Time now, ReasonStyle style = ReasonStyle::kCoarse);
// The condition BlockedOnPreemptionGates.
bool SetBlockedOnPreemptionGates(api::WorkloadStatus& status, const std::string& message, Time now);
// Kueue's detailed reason of a pending decision, or ours where it has none.
[[nodiscard]] std::string_view DetailedReason(engine::PendingReason reason);
// Kueue's coarse reason of a pending decision: Inadmissible or Pending.
[[nodiscard]] std::string_view CoarseReason(engine::PendingReason reason);

// How a workload loses its quota.
struct Eviction {
  std::string reason;
  std::string cause = {};  // underlying cause; of a deactivation it becomes part of the reason
  std::string message = {};
  std::optional<Time> requeue_at = {};  // stays out of the queue until then
  bool counts = false;                  // in requeueState.count
};

// Evicted=True. The reservation stays until the job's pods are gone (EndEviction). Checks go back
// to Pending and preemption gates close. False when the same eviction is there already.
bool Evict(api::WorkloadStatus& status, const Eviction& eviction, Time now);
// The reason of the condition: "DeactivatedDueTo<cause>" for a deactivation with a cause.
[[nodiscard]] std::string ReasonOf(const Eviction& eviction);

// Preempted=True beside the eviction.
bool SetPreempted(api::WorkloadStatus& status, const engine::PreemptDecision& decision, Time now);

// DeactivationTarget=True: spec.active is to become false, and the eviction gets this cause.
bool SetDeactivationTarget(api::WorkloadStatus& status, std::string_view cause,
                           const std::string& message, Time now);

// Quota given back after an eviction; Requeued=False until the cause is gone (Requeue), but True at
// once after a preemption.
bool EndEviction(api::WorkloadStatus& status, bool pods_ready, Time now,
                 ReasonStyle style = ReasonStyle::kCoarse);

// WaitingForReplacementPods: True while pods of a group that failed, or were taken back, are not
// replaced. False when nothing is to be written.
bool SetWaitingForReplacements(api::Conditions& conditions, bool waits, Time now);

// Back into the queue: Requeued=True, requeueAt gone.
bool Requeue(api::WorkloadStatus& status, std::string_view reason, const std::string& message,
             Time now);

// A deactivated workload starts counting anew (Kueue's API doc of requeueState.count: nothing else
// resets it, a landing neither).
bool ForgetRequeues(api::WorkloadStatus& status);

// Quota lost although nothing was started (the queue was stopped or vanished).
bool Unreserve(api::WorkloadStatus& status, std::string_view reason, const std::string& message,
               Time now, ReasonStyle style = ReasonStyle::kCoarse);

bool Finish(api::WorkloadStatus& status, bool success, const std::string& message, Time now);
// A workload slice whose place `by` has taken.
bool FinishReplaced(api::WorkloadStatus& status, const api::Workload& by, Time now);

// status.preemptionGates follows spec.preemptionGates: new ones are closed.
bool SyncPreemptionGates(api::Workload& workload, Time now);

// PodsReady as Kueue's job reconciler writes it: WaitForStart until the first time, WaitForRecovery
// after it, Started or Recovered when ready.
bool SetPodsReady(api::WorkloadStatus& status, bool ready, Time now);

// base * 2^(count-1), at most max; count >= 1.
[[nodiscard]] Duration Backoff(int32_t count, Duration base, Duration max);

// Evictions counted so far, all reasons: the number of the next admission's PodGroup.
[[nodiscard]] int32_t TotalEvictions(const api::WorkloadStatus& status);

}  // namespace tutti::reconciler
