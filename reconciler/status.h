// SPDX-License-Identifier: Apache-2.0
// The state changes of a Workload as pure functions on its status: which conditions turn, with
// which reasons and messages, in one write (Kueue's table of writes). Each returns whether anything
// changed.
#pragma once

#include <optional>
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
}  // namespace reason

// The status as one server-side apply of its owner, guarded by resourceVersion.
[[nodiscard]] api::WriteRequest ApplyStatus(const api::Workload& workload);

// Quota reserved and, as no admission checks are pending, admitted, in the same write.
bool Reserve(api::WorkloadStatus& status, const engine::AdmitDecision& decision, Time now);

// When the condition QuotaReserved became what it is; kNoTime without one.
[[nodiscard]] Time ReservedAt(const api::Workload& workload);

// QuotaReserved=False with the reason that the API has for it, and the requests that were tried.
bool SetPendingReason(api::WorkloadStatus& status, std::string_view reason,
                      const std::string& message,
                      const std::vector<std::pair<std::string, api::ResourceList>>& requests,
                      Time now);
// Kueue's coarse reason of a pending decision: Inadmissible or Pending.
[[nodiscard]] std::string_view CoarseReason(engine::PendingReason reason);

// Evicted=True. The reservation stays until the job's pods are gone (EndEviction). With
// `requeue_at` the eviction counts in requeueState and the workload stays out of the queue until
// that time.
bool Evict(api::WorkloadStatus& status, std::string_view reason, std::string_view underlying_cause,
           const std::string& message, std::optional<Time> requeue_at, Time now);

// Quota given back after an eviction; Requeued=False until the cause is gone (Requeue).
bool EndEviction(api::WorkloadStatus& status, Time now);

// Back into the queue: Requeued=True, requeueAt gone.
bool Requeue(api::WorkloadStatus& status, std::string_view reason, const std::string& message,
             Time now);

// A deactivated workload starts counting anew (Kueue's API doc of requeueState.count: nothing else
// resets it, a landing neither).
bool ForgetRequeues(api::WorkloadStatus& status);

// Quota lost although nothing was started (the queue was stopped or vanished).
bool Unreserve(api::WorkloadStatus& status, std::string_view reason, const std::string& message,
               Time now);

bool Finish(api::WorkloadStatus& status, bool success, const std::string& message, Time now);

// base * 2^(count-1), at most max; count >= 1.
[[nodiscard]] Duration Backoff(int32_t count, Duration base, Duration max);

// Evictions counted so far, all reasons: the number of the next admission's PodGroup.
[[nodiscard]] int32_t TotalEvictions(const api::WorkloadStatus& status);

}  // namespace tutti::reconciler
