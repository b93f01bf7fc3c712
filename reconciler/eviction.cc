// SPDX-License-Identifier: Apache-2.0
// The ways in which a workload loses its quota: evicted in its status, its job suspended, quota
// kept until no pod is active, the job restored as submitted. See core.h.
#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/names.h"
#include "reconciler/admission_checks.h"
#include "reconciler/core.h"
#include "reconciler/status.h"
#include "reconciler/workload_writes.h"

namespace tutti::reconciler {

void Core::EvictUnit(Unit& unit, const QueuedJob* job, const api::Workload& workload,
                     const Eviction& eviction) {
  api::Workload next = workload;
  if (!Evict(next.status, eviction, now_)) {
    return;
  }
  api::RemoveCondition(next.status.conditions, "DeactivationTarget");
  if (eviction.reason == reason::kDeactivated) {
    ForgetRequeues(next.status);
  }
  if (eviction.reason == reason::kPreempted && unit.preempted.has_value()) {
    SetPreempted(next.status, *unit.preempted, now_);
  } else {
    unit.preempted.reset();  // it goes for another reason
  }
  std::vector<api::WriteRequest> writes = {ApplyStatus(next)};
  if (job != nullptr && !job->Suspended()) {
    for (api::WriteRequest& write : job->Stop(
             {"WorkloadEvictedDueTo" + ReasonOf(eviction), eviction.message, now_, &workload})) {
      writes.push_back(std::move(write));
    }
    Event(*job, /*warning=*/false, "Stopped", eviction.message);
  }
  if (workload.QuotaReserved()) {
    engine_->MarkEvicting(unit.key.ToString(), true);
    unit.evicting = eviction;  // told when it is seen carried out
  }
  Emit(unit, std::move(writes));
}

void Core::TellEviction(Unit& unit, const api::Workload& workload) {
  const Eviction eviction = *std::exchange(unit.evicting, std::nullopt);
  const std::optional<engine::PreemptDecision> preempted =
      std::exchange(unit.preempted, std::nullopt);
  const std::string& reason = eviction.reason;
  const std::string& cause = eviction.cause;
  EventOn(workload, /*warning=*/false, "EvictedDueTo" + ReasonOf(eviction), eviction.message);
  History(HistoryKind::kEvicted, unit, &workload, cause.empty() ? reason : cause, eviction.message);
  const std::string queue = workload.status.admission.has_value()
                                ? workload.status.admission->cluster_queue
                                : std::string();
  auto labels = QueueLabels(workload, queue);
  labels.emplace_back("reason", reason);
  labels.emplace_back("underlying_cause", cause);
  Count("kueue_evicted_workloads_total", labels);
  for (const api::EvictionCount& entry : workload.status.evictions) {
    if (entry.reason == reason && entry.underlying_cause == cause && entry.count == 1) {
      Count("kueue_evicted_workloads_once_total", labels);
    }
  }
  if (api::IsTrue(workload.status.conditions, "PodsReady")) {
    Observe("kueue_pods_ready_to_evicted_time_seconds",
            {{"cluster_queue", queue}, {"reason", reason}, {"underlying_cause", cause}},
            SecondsSince(api::FindCondition(workload.status.conditions, "PodsReady")));
  }
  if (cause == reason::kNotPlaced) {
    Count("tutti_landing_timeouts_total", {{"cluster_queue", queue}});
  }
  if (preempted.has_value()) {
    TellPreemption(workload, *preempted);
  }
}

void Core::TellPreemption(const api::Workload& victim, const engine::PreemptDecision& decision) {
  Count("kueue_preempted_workloads_total",
        {{"preempting_cluster_queue", decision.by_cluster_queue},
         {"reason", std::string(engine::ToString(decision.reason))}});
  const auto slash = decision.by.find('/');
  const auto by =
      world_.workloads.Find({decision.by.substr(0, slash), decision.by.substr(slash + 1)});
  const auto in_words = [&](int64_t base, int32_t boost) {
    return std::to_string(base + boost) + " (base: " + std::to_string(base) +
           ", boost: " + std::to_string(boost) + ")";
  };
  const std::string priorities =
      "; preemptor effective priority: " +
      (by != nullptr ? in_words(by->priority, Boost(*by)) : in_words(0, 0)) +
      "; preemptee effective priority: " + in_words(victim.priority, Boost(victim));
  EventOn(victim, /*warning=*/false, "Preempted", engine::Describe(decision) + priorities);
  if (by != nullptr) {
    EventOn(*by, /*warning=*/false, "PreemptedWorkload",
            "Preempted workload " + decision.id + " (UID: " + victim.meta.uid +
                ") in ClusterQueue " + decision.cluster_queue + priorities);
    out_.events.back().any_message = true;  // it may take the room of many
  }
}

double Core::SecondsSince(const api::Condition* condition) const {
  return condition == nullptr
             ? 0
             : std::chrono::duration<double>(now_ - condition->last_transition).count();
}

void Core::TakeBack(Unit& unit, const QueuedJob& job, const api::Workload& workload,
                    const std::string& message) {
  EvictNotReady(unit, &job, workload,
                {.reason = std::string(reason::kPodsReadyTimeout),
                 .cause = std::string(reason::kNotPlaced),
                 .message = message},
                options_.backoff_base, options_.backoff_max);
}

void Core::EvictNotReady(Unit& unit, const QueuedJob* job, const api::Workload& workload,
                         Eviction eviction, Duration backoff_base, Duration backoff_max) {
  const int32_t count = workload.status.requeue_count.value_or(0) + 1;
  const std::optional<int32_t>& limit = options_.wait_for_pods_ready.backoff_limit;
  if (options_.wait_for_pods_ready.enabled && limit.has_value() && count > *limit) {
    Deactivate(unit, workload, reason::kRequeuingLimitExceeded,
               "exceeding the maximum number of re-queuing retries");
    return;
  }
  eviction.requeue_at = now_ + Backoff(count, backoff_base, backoff_max);
  eviction.counts = true;
  EvictUnit(unit, job, workload, eviction);
}

void Core::Deactivate(Unit& unit, const api::Workload& workload, std::string_view cause,
                      const std::string& message) {
  api::Workload next = workload;
  SetDeactivationTarget(next.status, cause, message, now_);
  if (cause == reason::kMaximumExecutionTimeExceeded) {
    next.status.accumulated_past_execution_seconds.reset();
    EventOn(workload, /*warning=*/true, cause,
            "The maximum execution time (" + std::to_string(*workload.max_execution_seconds) +
                "s) exceeded");
  } else if (cause == reason::kAdmissionCheck) {
    EventOn(workload, /*warning=*/true, "AdmissionCheckRejected", "Deactivated due to " + message);
  }
  Emit(unit, {ApplyStatus(next), DeactivatePatch(workload)});
}

bool Core::FollowDeactivation(Unit& unit, const QueuedJob* job, const api::Workload& workload) {
  const api::Condition* target =
      api::FindCondition(workload.status.conditions, "DeactivationTarget");
  const bool targeted = target != nullptr && target->status == "True";
  if (workload.active) {
    if (targeted) {
      Emit(unit, {DeactivatePatch(workload)});  // the write before it was the last of another life
    }
    return targeted;
  }
  if (!workload.Evicted()) {
    Eviction eviction{.reason = std::string(reason::kDeactivated)};
    eviction.message = "The workload is deactivated";
    if (targeted) {
      eviction.cause = target->reason;
      eviction.message += " due to " + target->message;
    }
    EvictUnit(unit, job, workload, eviction);
    return true;
  }
  // Whoever wrote them: an apply removes only what its own manager owns.
  Json status = Json::Obj();
  if (workload.status.requeue_count.has_value() || workload.status.requeue_at.has_value()) {
    status.Set("requeueState", Json());
  }
  if (target != nullptr) {
    api::Conditions rest = workload.status.conditions;
    api::RemoveCondition(rest, "DeactivationTarget");
    status.Set("conditions", api::ToJson(rest));
  }
  if (status.AsObject().empty()) {
    return false;
  }
  Emit(unit, {StatusPatch(workload, std::move(status))});
  return true;
}

bool Core::KeepReservation(Unit& unit, const QueuedJob* job, const api::Workload& workload) {
  // First of all the engine knows what is held: after a start nobody else may get it meanwhile.
  SyncReservation(unit, job, workload);
  if (!options_.core) {
    return true;
  }
  if (FollowDeactivation(unit, job, workload)) {
    return false;
  }
  if (unit.preempted.has_value() && KnowsPreemptor(unit)) {
    EvictUnit(
        unit, job, workload,
        {.reason = std::string(reason::kPreempted), .message = engine::Describe(*unit.preempted)});
    return false;
  }
  const auto queue = world_.cluster_queues.Find({"", workload.status.admission->cluster_queue});
  const auto local = world_.local_queues.Find({unit.key.ns, workload.queue_name});
  if (queue != nullptr && SyncCheckList(unit, workload, *queue)) {
    return false;
  }
  if (SyncProvisioning(unit, workload)) {
    return false;
  }
  if (AnyCheckIs(workload.status, "Rejected")) {
    Deactivate(unit, workload, reason::kAdmissionCheck,
               DescribeChecks(workload.status, "Rejected"));
    return false;
  }
  if (AnyCheckIs(workload.status, "Retry")) {
    EvictUnit(unit, job, workload,
              {.reason = std::string(reason::kAdmissionCheck),
               .message = "Evicted due to " + DescribeChecks(workload.status, "Retry"),
               .requeue_at = RetryAt(workload.status, now_)});
    return false;
  }
  const api::StopPolicy local_stop = local != nullptr ? local->stop_policy : api::StopPolicy::kNone;
  const api::StopPolicy queue_stop = queue != nullptr ? queue->stop_policy : api::StopPolicy::kNone;
  // An elastic job that has grown runs while the checks of its new size are pending.
  const bool runs = job != nullptr && !job->Suspended() && Sliced(*job);
  if (workload.Admitted() || runs) {
    if (local_stop == api::StopPolicy::kHoldAndDrain) {
      EvictUnit(unit, job, workload,
                {.reason = std::string(reason::kLocalQueueStopped),
                 .message = "The LocalQueue is stopped"});
      return false;
    }
    if (queue_stop == api::StopPolicy::kHoldAndDrain) {
      EvictUnit(unit, job, workload,
                {.reason = std::string(reason::kClusterQueueStopped),
                 .message = "The ClusterQueue is stopped"});
      return false;
    }
  }
  if (workload.Admitted()) {
    return KeepTime(unit, job, workload);
  }
  api::Workload next = workload;
  if (SyncAdmitted(next.status, now_, Style())) {
    if (next.Admitted()) {
      TellAdmission(next);
    }
    Emit(unit, {ApplyStatus(next)});
    return false;
  }
  // Reserved and not admitted: nothing runs, so the reservation is simply taken away.
  const std::string& queue_name = workload.status.admission->cluster_queue;
  std::string why;
  const auto detailed = [&](std::string_view reason) {
    return options_.detailed_reasons ? reason : reason::kInadmissible;
  };
  std::string_view reason = detailed(reason::kSuspended);
  if (local == nullptr || local->meta.deleted.has_value()) {
    why = "LocalQueue " + workload.queue_name + " is terminating or missing";
    reason = detailed(reason::kMisconfigured);
  } else if (local_stop != api::StopPolicy::kNone) {
    why = "LocalQueue " + workload.queue_name + " is stopped";
  } else if (queue == nullptr || queue->meta.deleted.has_value()) {
    why = "ClusterQueue " + queue_name + " is terminating or missing";
    reason = detailed(reason::kMisconfigured);
  } else if (queue_stop != api::StopPolicy::kNone) {
    why = "ClusterQueue " + queue_name + " is stopped";
  }
  if (!why.empty() && !runs) {
    Withdraw(unit, workload, reason, why);
    return false;
  }
  if (job != nullptr && job->Suspended() && Managed(*job) &&
      job->meta.Label(names::kQueueNameLabel) != workload.queue_name) {
    Withdraw(unit, workload,
             options_.detailed_reasons ? reason::kPendingEvaluation : reason::kPending,
             "The queue of the job was changed to " +
                 std::string(job->meta.Label(names::kQueueNameLabel)));
    return false;
  }
  HoldPlace(unit, workload);
  return true;
}

void Core::Withdraw(Unit& unit, const api::Workload& workload, std::string_view reason,
                    const std::string& message) {
  api::Workload next = workload;
  Unreserve(next.status, reason, message, now_, Style());
  LeaveEngine(unit);
  EventOn(workload, /*warning=*/true, reason, message);
  History(HistoryKind::kPending, unit, &workload, std::string(reason), message);
  Emit(unit, {ApplyStatus(next)});
}

bool Core::KnowsPreemptor(Unit& unit) {
  engine::PreemptDecision& decision = *unit.preempted;
  if (!decision.by_uid.empty()) {
    return true;
  }
  const auto slash = decision.by.find('/');
  const api::ObjectKey key{decision.by.substr(0, slash), decision.by.substr(slash + 1)};
  if (const auto by = world_.workloads.Find(key)) {
    decision.by_uid = by->meta.uid;
    return true;
  }
  const auto preemptor = units_.find(key);
  if (preemptor != units_.end() && preemptor->second.in_engine == Unit::InEngine::kPending) {
    victims_of_[key].insert(unit.key);
    return false;
  }
  // It was refused, or is gone: nobody has to give way.
  engine_->MarkEvicting(unit.key.ToString(), false);
  unit.preempted.reset();
  return false;
}

void Core::PutOnHold(Unit& unit, const QueuedJob& job, const api::Workload& workload) {
  SetWaiting(unit, &workload, false);
  if (RunChores(unit, job, &workload)) {
    return;
  }
  if (job.Active(now_) || !job.Suspended()) {
    HoldQuota(unit, &job, workload);
    if (const std::optional<Time> at = job.StoppedAt()) {
      WakeAt(unit, *at);
    }
    return;  // the end of its pods comes back here
  }
  const api::Condition* reserved = api::FindCondition(workload.status.conditions, "QuotaReserved");
  const bool told = reserved != nullptr && reserved->reason == reason::kOnHold;
  if (!told && workload.active && options_.core) {
    Withdraw(unit, workload, reason::kOnHold, std::string(job.OnHold()));
  } else {
    LeaveEngine(unit);
  }
}

bool Core::StopJob(Unit& unit, const QueuedJob& job, const api::Workload& workload,
                   std::vector<api::WriteRequest> with_restore) {
  unit.releasing.reset();
  unit.reads.clear();
  unit.group_since = kNoTime;
  unit.released_at = kNoTime;
  unit.first_bound_at.reset();
  unit.landed = false;
  unit.unplaced_since.reset();
  if (!job.Suspended()) {
    unit.stopped_at = kNoTime;
    StopReason why{"WorkloadStopped", "Stopped by Tutti", now_, &workload};
    if (const api::Condition* evicted = api::FindCondition(workload.status.conditions, "Evicted");
        evicted != nullptr && evicted->status == "True") {
      why.reason = "WorkloadEvictedDueTo" + evicted->reason;
      why.message = evicted->message;
    }
    Event(job, /*warning=*/false, "Stopped", why.message);
    Emit(unit, job.Stop(why));
    return false;
  }
  if (!job.Stopped(now_)) {
    if (job.Active(now_)) {
      if (const std::optional<Time> at = job.StoppedAt()) {
        WakeAt(unit, *at);
      }
      return false;  // the job's status comes back here
    }
    if (unit.stopped_at == kNoTime) {
      unit.stopped_at = now_;
    }
    if (now_ < unit.stopped_at + options_.job_controller_grace) {
      WakeAt(unit, unit.stopped_at + options_.job_controller_grace);
    } else {
      Emit(unit, job.ResetStart());
    }
    return false;
  }
  unit.stopped_at = kNoTime;
  std::vector<api::WriteRequest> writes;
  if (job.HasLeftovers()) {
    writes = job.Restore(workload);
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

void Core::ReconcileEvicted(Unit& unit, const QueuedJob& job, const api::Workload& workload) {
  // Quota is kept until the job has no active pods; then the job is restored and quota goes back.
  SetWaiting(unit, &workload, false);
  HoldQuota(unit, &job, workload);
  if (unit.evicting.has_value()) {
    TellEviction(unit, workload);
  }
  if (options_.core && !workload.active && FollowDeactivation(unit, &job, workload)) {
    return;
  }
  api::Workload next = workload;
  EndEviction(next.status, options_.wait_for_pods_ready.enabled, now_, Style());
  if (!job.RunsAgain() && options_.pods_stay_evicted) {
    const api::Condition evicted = *api::FindCondition(workload.status.conditions, "Evicted");
    SetCondition(next.status.conditions,
                 {"Requeued", "False", evicted.reason, evicted.message, now_, 0}, now_);
  }
  const auto backoff = workload.status.requeue_at;
  if (const auto larger = Sliced(job) && workload.active ? NextSlice(workload) : nullptr) {
    // Of an elastic job that wanted to grow: what waits in line is the Workload of its new size.
    api::Workload last = workload;
    FinishReplaced(last.status, *larger, now_);
    if (StopJob(unit, job, workload, {ApplyStatus(last)})) {
      const api::Condition& finished = *api::FindCondition(last.status.conditions, "Finished");
      EventOn(workload, /*warning=*/false, finished.reason, finished.message);
      History(HistoryKind::kFinished, unit, &last, finished.reason, finished.message);
      CountFinished(workload);
    }
    return;
  }
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
  }
}

}  // namespace tutti::reconciler
