// SPDX-License-Identifier: Apache-2.0
// The ways in which a workload loses its quota: evicted in its status, its job suspended, quota
// kept until no pod is active, the job restored as submitted. See core.h.
#include <algorithm>
#include <string>
#include <utility>

#include "base/names.h"
#include "reconciler/core.h"
#include "reconciler/status.h"
#include "reconciler/workload_writes.h"

namespace tutti::reconciler {

void Core::EvictUnit(Unit& unit, const api::Job* job, const api::Workload& workload,
                     std::string_view reason, std::string_view cause, const std::string& message,
                     bool back_off) {
  std::optional<Time> requeue_at;
  if (back_off) {
    requeue_at = now_ + reconciler::Backoff(workload.status.requeue_count.value_or(0) + 1,
                                            options_.backoff_base, options_.backoff_max);
  }
  api::Workload next = workload;
  if (!Evict(next.status, reason, cause, message, requeue_at, now_)) {
    return;
  }
  if (reason == reason::kDeactivated) {
    ForgetRequeues(next.status);
  }
  std::vector<api::WriteRequest> writes = {ApplyStatus(next)};
  if (job != nullptr && !job->suspend) {
    writes.push_back(SuspendPatch(*job));
    Event(*job, /*warning=*/false, "Stopped", message);
  }
  EventOn(workload, /*warning=*/false, "EvictedDueTo" + std::string(reason), message);
  History(HistoryKind::kEvicted, unit, &workload, std::string(cause.empty() ? reason : cause),
          message);
  const std::string queue = workload.status.admission.has_value()
                                ? workload.status.admission->cluster_queue
                                : std::string();
  Count("kueue_evicted_workloads_total", {{"cluster_queue", queue},
                                          {"reason", std::string(reason)},
                                          {"underlying_cause", std::string(cause)}});
  if (cause == reason::kNotPlaced) {
    Count("tutti_landing_timeouts_total", {{"cluster_queue", queue}});
  }
  Emit(unit, std::move(writes));
}

bool Core::StopJob(Unit& unit, const api::Job& job, const api::Workload& workload,
                   std::vector<api::WriteRequest> with_restore) {
  unit.releasing.reset();
  unit.reads.clear();
  unit.group_since = kNoTime;
  unit.released_at = kNoTime;
  unit.first_bound_at.reset();
  unit.landed = false;
  unit.unplaced_since.reset();
  if (!job.suspend) {
    Event(job, /*warning=*/false, "Stopped", "Stopped by Tutti");
    Emit(unit, {SuspendPatch(job)});
    return false;
  }
  if (!RestoreWindowOpen(job)) {
    return false;  // the Job's status comes back here
  }
  std::vector<api::WriteRequest> writes;
  if (HasLeftovers(job)) {
    if (auto restore = RestorePatch(job, workload)) {
      writes.push_back(std::move(*restore));
    }
  }
  for (api::WriteRequest& write : DeleteGroups(unit.job_uid)) {
    writes.push_back(std::move(write));
  }
  for (api::WriteRequest& write : with_restore) {
    writes.push_back(std::move(write));
  }
  Emit(unit, std::move(writes));
  return true;
}

void Core::ReconcileEvicted(Unit& unit, const api::Job& job, const api::Workload& workload) {
  // Quota is kept until the job has no active pods; then the job is restored and quota goes back.
  api::Workload next = workload;
  EndEviction(next.status, now_);
  const auto backoff = workload.status.requeue_at;
  const bool at_once = StartsAgain(workload);
  if (at_once) {
    Requeue(next.status, reason::kGangRestarts, "The gang starts again as a whole", now_);
  }
  if (StopJob(unit, job, workload, {ApplyStatus(next)})) {
    if (!at_once) {
      LeaveEngine(unit);
    }
    History(HistoryKind::kRequeued, unit, &next,
            api::FindCondition(workload.status.conditions, "Evicted")->reason,
            backoff.has_value() ? "not before " + FormatTime(*backoff) : "");
  } else if (unit.in_engine != Unit::InEngine::kReserved) {
    SyncReservation(unit, &job, workload);
  }
}

}  // namespace tutti::reconciler
