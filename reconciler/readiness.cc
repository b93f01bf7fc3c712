// SPDX-License-Identifier: Apache-2.0
// What a running job is watched for after its start: readiness of its pods and the time limits that
// come from it, its maximum execution time, pods whose quota goes back early. See core.h; rules of
// Kueue v0.19.2 (waitForPodsReady, maximumExecutionTimeSeconds, reclaimablePods).
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "reconciler/core.h"
#include "reconciler/slices.h"
#include "reconciler/status.h"
#include "reconciler/workload_writes.h"

namespace tutti::reconciler {

bool Core::SyncPodsReady(Unit& unit, const QueuedJob& job, const api::Workload& workload) {
  if (!options_.wait_for_pods_ready.enabled) {
    return false;
  }
  if (Sliced(job) && workload.Admitted() && Outgrown(job, workload)) {
    return false;  // the job's own numbers are those of a size that it doesn't have yet
  }
  const bool ready = job.PodsReady(world_.PodsOf(unit.job_uid));
  api::Workload next = workload;
  if (!SetPodsReady(next.status, ready, now_)) {
    return false;
  }
  if (ready &&
      api::FindCondition(next.status.conditions, "PodsReady")->reason == reason::kStarted) {
    // Once per admission: a recovery is another reason.
    const auto labels = QueueLabels(workload, workload.status.admission->cluster_queue);
    Observe("kueue_ready_wait_time_seconds", labels,
            std::chrono::duration<double>(now_ - QueuedSince(workload)).count());
    Observe("kueue_admitted_until_ready_wait_time_seconds", labels,
            SecondsSince(api::FindCondition(workload.status.conditions, "Admitted")));
  }
  Emit(unit, {ApplyStatus(next)});
  return true;
}

Time Core::QueuedSince(const api::Workload& workload) {
  const api::Condition* requeued = api::FindCondition(workload.status.conditions, "Requeued");
  return requeued != nullptr ? requeued->last_transition : workload.meta.created;
}

bool Core::KeepTime(Unit& unit, const QueuedJob* job, const api::Workload& workload) {
  const api::Condition* admitted = api::FindCondition(workload.status.conditions, "Admitted");
  if (workload.max_execution_seconds.has_value()) {
    const Time end =
        admitted->last_transition +
        std::chrono::seconds(*workload.max_execution_seconds -
                             workload.status.accumulated_past_execution_seconds.value_or(0));
    if (now_ >= end) {
      Deactivate(unit, workload, reason::kMaximumExecutionTimeExceeded,
                 "exceeding the maximum execution time");
      return false;
    }
    WakeAt(unit, end);
  }
  const WaitForPodsReady& wait = options_.wait_for_pods_ready;
  const api::Condition* ready = api::FindCondition(workload.status.conditions, "PodsReady");
  if (!wait.enabled || (ready != nullptr && ready->status == "True")) {
    return true;
  }
  Time deadline = admitted->last_transition + wait.timeout;
  std::string_view cause = reason::kWaitForStart;
  if (ready != nullptr && ready->reason == reason::kWaitForRecovery) {
    if (!wait.recovery_timeout.has_value()) {
      return true;
    }
    deadline = ready->last_transition + *wait.recovery_timeout;
    cause = reason::kWaitForRecovery;
  }
  if (now_ < deadline) {
    WakeAt(unit, deadline);
    return true;
  }
  EvictNotReady(unit, job, workload,
                {.reason = std::string(reason::kPodsReadyTimeout),
                 .cause = std::string(cause),
                 .message = "Exceeded the PodsReady timeout " + unit.key.ToString()},
                wait.backoff_base, wait.backoff_max);
  return false;
}

bool Core::SyncReclaimable(Unit& unit, const QueuedJob& job, const api::Workload& workload) {
  std::map<std::string, int32_t> counts(workload.status.reclaimable_pods.begin(),
                                        workload.status.reclaimable_pods.end());
  bool changed = false;
  bool smaller = false;
  for (const api::PodSet& pod_set : workload.pod_sets) {
    const int32_t count = DonePods(job, pod_set);
    int32_t& told = counts[pod_set.name];
    // Never less than it was, the API refuses that while quota is reserved; but for one that was
    // made smaller: what was told counts from its former size.
    if (Sliced(job) && IsScaledDown(workload, pod_set)) {
      smaller = smaller || told != count;
      told = count;
    } else if (count > told) {
      told = count;
      changed = true;
    }
  }
  // All of them is the end of the job, which says the same.
  if (!smaller && (!changed || GangSize(job, workload) == 0)) {
    return false;
  }
  if (now_ < unit.reclaim_at) {
    WakeAt(unit, unit.reclaim_at);
    return false;
  }
  unit.reclaim_at = now_ + options_.reclaim_interval;
  Emit(unit, {ApplyReclaimable(workload, counts)});
  return true;
}

}  // namespace tutti::reconciler
