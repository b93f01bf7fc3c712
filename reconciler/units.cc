// SPDX-License-Identifier: Apache-2.0
// The state machine of one workload and its job: which of its states it is in. Level triggered:
// every call looks at what is there and emits at most one effect. See core.h.
#include <algorithm>
#include <chrono>
#include <string>

#include "base/names.h"
#include "reconciler/admission_checks.h"
#include "reconciler/core.h"
#include "reconciler/names.h"
#include "reconciler/slices.h"
#include "reconciler/status.h"
#include "reconciler/workload_writes.h"

namespace tutti::reconciler {
namespace {

// Jobs and Workloads are watched apart: the job of a new Workload may be seen a moment later.
constexpr Duration kOrphanGrace = std::chrono::seconds(2);

// Copies labels (or annotations: `map`) of a job to its Workload. Of a job that is made of pods
// each of them may have one, and those that do have to agree.
Status CopyKeys(const std::vector<std::string>& keys, const QueuedJob& job,
                const std::vector<const api::Pod*>& pods, api::StringMap api::ObjectMeta::*map,
                std::string_view field, api::StringMap& to) {
  std::vector<const api::ObjectMeta*> metas = {&job.meta};
  if (job.kind.MadeOfPods()) {
    for (const api::Pod* pod : pods) {
      metas.push_back(&pod->meta);
    }
  }
  for (const std::string& key : keys) {
    const std::string* value = nullptr;
    for (const api::ObjectMeta* meta : metas) {
      const auto own = (meta->*map).find(key);
      if (own == (meta->*map).end()) {
        continue;
      }
      if (value != nullptr && *value != own->second) {
        return Fail(ErrorCode::kInvalid, "metadata." + std::string(field) + "[" + key +
                                             "]: is copied to the Workload, but the pods have "
                                             "different values, \"" +
                                             *value + "\" and \"" + own->second + "\"");
      }
      value = &own->second;
    }
    if (value != nullptr) {
      to.emplace(key, *value);
    }
  }
  return {};
}

}  // namespace

void Core::LeaveEngine(Unit& unit) {
  if (unit.in_engine != Unit::InEngine::kNo) {
    engine_->Remove(unit.key.ToString());
    unit.in_engine = Unit::InEngine::kNo;
    DirtyLocal(unit.queued_in);
    DirtyQueue(unit.reserved_in);  // also when its LocalQueue is gone already
    unit.reserved_in.clear();
    if (const auto victims = victims_of_.extract(unit.key)) {
      dirty_units_.insert(victims.mapped().begin(), victims.mapped().end());
    }
  }
  unit.engine_key.clear();
  unit.assumed.reset();
  unit.pending.reset();
  unit.preempted.reset();
  unit.evicting.reset();
  unit.place_dropped = false;
}

void Core::Forget(const api::ObjectKey& key) {
  const auto found = units_.find(key);
  if (found == units_.end()) {
    return;
  }
  Unit& unit = found->second;
  LeaveEngine(unit);
  SetWaiting(unit, nullptr, false);
  if (const auto owner = unit_of_job_.find(unit.job_uid);
      owner != unit_of_job_.end() && owner->second == key) {
    unit_of_job_.erase(owner);
    children_of_.erase(unit.job_uid);
  }
  if (unit.wake_at != kNoTime) {
    timers_.erase({unit.wake_at, key});
  }
  if (const auto preset = units_of_preset_.find({key.ns, unit.refs.preset_group});
      preset != units_of_preset_.end()) {
    preset->second.erase(key);
    if (preset->second.empty()) {
      units_of_preset_.erase(preset);
    }
  }
  units_with_devices_.erase(key);
  units_.erase(found);
}

void Core::SetWaiting(Unit& unit, const api::Workload* workload, bool waiting) {
  std::optional<api::ObjectKey> queue;
  if (waiting && workload != nullptr) {
    queue = api::ObjectKey{unit.key.ns, workload->queue_name};
  }
  if (unit.waiting_in == queue) {
    return;
  }
  if (unit.waiting_in.has_value()) {
    const auto count = waiting_in_queue_.find(*unit.waiting_in);
    if (count != waiting_in_queue_.end() && --count->second <= 0) {
      waiting_in_queue_.erase(count);
    }
    DirtyLocal(*unit.waiting_in);
  }
  if (queue.has_value()) {
    ++waiting_in_queue_[*queue];
    DirtyLocal(*queue);
  }
  unit.waiting_in = std::move(queue);
}

void Core::ReconcileUnit(Unit& unit) {
  if (unit.in_flight != 0) {
    return;  // its outcome marks the unit again
  }
  if (now_ < unit.retry_at) {
    WakeAt(unit, unit.retry_at);
    return;
  }
  const auto workload = world_.workloads.Find(unit.key);
  if (workload != nullptr && EndProvisioning(unit, *workload)) {
    return;
  }
  const std::shared_ptr<const QueuedJob> job = world_.JobOf(unit.job_uid);
  if (job == nullptr) {
    if (workload != nullptr) {
      ReconcileWithoutJob(unit, *workload);
      return;
    }
    if (!StripStuckGroups(unit)) {
      Forget(api::ObjectKey(unit.key));
    }
    return;
  }
  const bool sliced = Sliced(*job);
  bool success = false;
  std::string message;
  const bool ended = job->Finished(&success, &message);
  if (sliced && !ended && !job->meta.deleted.has_value() && unit_of_job_.contains(unit.job_uid)) {
    FollowSlices(*job);
  }
  if (const auto known = unit_of_job_.find(unit.job_uid);
      known != unit_of_job_.end() && known->second != unit.key) {
    if (!sliced) {
      ReconcileDuplicate(unit, *job, workload.get());
      return;
    }
    if (workload == nullptr || (!ended && !job->meta.deleted.has_value())) {
      ReconcileSlice(unit, *job, workload.get());
      return;
    }
  }
  if (unit.key.name == unit.job_uid) {
    ReconcileRefused(unit, *job);
    return;
  }
  // An eviction of pods ends in their deletion, and is told to its end.
  const bool leaving = job->kind.MadeOfPods() && workload != nullptr && workload->Evicted() &&
                       workload->status.admission.has_value();
  if (job->meta.deleted.has_value() && !leaving) {
    // Nothing is started any more; quota is given back when its pods are gone.
    if (unit.in_engine == Unit::InEngine::kPending) {
      LeaveEngine(unit);
    }
    if (workload != nullptr) {
      HoldQuota(unit, job.get(), *workload);
    }
    if (std::vector<api::WriteRequest> writes = job->Finalize(); !writes.empty()) {
      Emit(unit, std::move(writes));
      return;
    }
    if (workload != nullptr && world_.ActivePods(unit.job_uid) == 0) {
      ReconcileWithoutJob(unit, *workload);
    }
    return;
  }
  if (unit.releasing.has_value() && !job->Held() && workload != nullptr) {
    TellRelease(unit, *job, *workload);
  }
  if (ended) {
    ReconcileFinished(unit, *job, workload.get(), success, message);
    return;
  }
  if (workload == nullptr) {
    if (!Managed(*job)) {
      LeaveEngine(unit);
      HoldChild(unit, *job);
      return;
    }
    if (!job->OnHold().empty()) {
      LeaveEngine(unit);
      return;
    }
    if (!RunChores(unit, *job, nullptr)) {
      CreateWorkload(unit, *job);
    }
    return;
  }
  const bool prebuilt = !PrebuiltWorkloadOf(job->meta, options_.prebuilt_by_annotation).empty();
  if (prebuilt && job->OwnsAlone() && !workload->meta.deleted.has_value() &&
      !AdoptWorkload(unit, *job, *workload)) {
    return;
  }
  if (workload->meta.deleted.has_value()) {
    HoldQuota(unit, job.get(), *workload);
    if (std::vector<api::WriteRequest> writes =
            job->Discard({"WorkloadDeleted", "The workload is deleted", now_});
        !writes.empty()) {
      Event(*job, /*warning=*/false, "Stopped", "The workload is deleted");
      Emit(unit, std::move(writes));
      return;
    }
    std::vector<api::WriteRequest> last;
    if (workload->meta.HasFinalizer(names::kResourceInUseFinalizer)) {
      last.push_back(DropFinalizer(*workload));
    }
    if (StopJob(unit, *job, *workload, std::move(last))) {
      LeaveEngine(unit);
    }
    return;
  }
  if (workload->Finished()) {
    // Finished by someone else (an owner that vanished, an operator's hand): the job does not run.
    LeaveEngine(unit);
    SetWaiting(unit, workload.get(), false);
    if (!job->Suspended()) {
      StopJob(unit, *job, *workload, {});
    } else {
      Emit(unit, job->Finalize());
    }
    return;
  }
  const bool leaves = workload->Evicted() && workload->status.admission.has_value();
  if (!job->OnHold().empty() && !leaves) {
    PutOnHold(unit, *job, *workload);
    return;
  }
  if (prebuilt && !job->Matches(*workload)) {
    api::Workload next = *workload;
    SetCondition(next.status.conditions,
                 {"Finished", "True", std::string(reason::kOutOfSync),
                  "The prebuilt workload is out of sync with its user job", now_, 0},
                 now_);
    LeaveEngine(unit);
    History(HistoryKind::kFinished, unit, &next, std::string(reason::kOutOfSync), "");
    Emit(unit, {ApplyStatus(next)});
    return;
  }
  if (!Describes(*workload, *job)) {
    HoldQuota(unit, job.get(), *workload);
    if (workload->QuotaReserved() || unit.assumed.has_value()) {
      Event(*job, /*warning=*/false, "DeletedWorkload",
            "Deleted not matching Workload: " + unit.key.ToString());
      Emit(unit, {DeleteWorkload(*workload)});
      return;
    }
    if (!SyncSpec(unit, *job, *workload)) {
      LeaveEngine(unit);  // nothing is admitted that is not what would run
      SetWaiting(unit, workload.get(), true);
    }
    return;
  }
  if (RunChores(unit, *job, workload.get())) {
    return;
  }
  if (EndReplaced(unit, *workload)) {
    return;
  }
  if (leaves) {
    ReconcileEvicted(unit, *job, *workload);
    return;
  }
  if (sliced && Resize(unit, *job, *workload)) {
    return;
  }
  if (unit.assumed.has_value() && !workload->QuotaReserved() &&
      (!workload->active || unit.queued_in != api::ObjectKey{unit.key.ns, workload->queue_name} ||
       !workload->meta.Annotation(names::kAdmissionGatedByAnnotation).empty())) {
    LeaveEngine(unit);  // changed meanwhile: decided again
  }
  if (unit.assumed.has_value() && !workload->QuotaReserved()) {
    WriteReservation(unit, *workload);
    return;
  }
  if (workload->QuotaReserved()) {
    unit.assumed.reset();
    ReconcileReserved(unit, *job, *workload);
    return;
  }
  ReconcilePending(unit, job.get(), *workload);
}

void Core::ReconcileWithoutJob(Unit& unit, const api::Workload& workload) {
  const bool had_job = !unit.job_uid.empty();
  if (had_job && world_.ActivePods(unit.job_uid) > 0) {
    HoldQuota(unit, nullptr, workload);
    return;  // garbage collection is under way; a pod's event comes back here
  }
  if (workload.meta.deleted.has_value()) {
    LeaveEngine(unit);
    SetWaiting(unit, &workload, false);
    if (workload.meta.HasFinalizer(names::kResourceInUseFinalizer)) {
      History(HistoryKind::kDeleted, unit, &workload, "Deleted", "");
      Emit(unit, {DropFinalizer(workload)});
    }
    return;
  }
  const std::string made_for(workload.meta.Label(names::kJobUidLabel));
  const auto job = world_.JobOf(made_for);
  // Its job was deleted with the dependents left alone, or the garbage collector takes its time.
  const bool alone = workload.meta.owners.empty() && !made_for.empty() &&
                     (job == nullptr || job->meta.deleted.has_value());
  const bool orphaned = !workload.Finished() && (alone || (had_job && unit.job_gone_at != kNoTime));
  const Time orphaned_at = (alone ? workload.meta.created : unit.job_gone_at) + kOrphanGrace;
  if (options_.core && orphaned && now_ < orphaned_at) {
    WakeAt(unit, orphaned_at);
  } else if (options_.core && orphaned) {
    LeaveEngine(unit);
    SetWaiting(unit, &workload, false);
    api::Workload next = workload;
    SetCondition(
        next.status.conditions,
        {"Finished", "True", "OwnerNotFound", "The owner of the workload is gone", now_, 0}, now_);
    std::vector<api::WriteRequest> writes = {ApplyStatus(next)};
    if (workload.meta.HasFinalizer(names::kResourceInUseFinalizer)) {
      writes.push_back(DropFinalizer(workload));
    }
    History(HistoryKind::kFinished, unit, &next, "OwnerNotFound", "");
    Emit(unit, std::move(writes));
    return;
  }
  if (had_job || workload.Finished()) {
    LeaveEngine(unit);
    SetWaiting(unit, &workload, false);
    if (had_job && workload.meta.HasFinalizer(names::kResourceInUseFinalizer)) {
      History(HistoryKind::kDeleted, unit, &workload, "Deleted", "");
      Emit(unit, {DropFinalizer(workload)});  // the garbage collector deletes it next
      return;
    }
    DeleteFinished(unit, workload);
    return;
  }
  if (!options_.core) {
    HoldQuota(unit, nullptr, workload);
    return;
  }
  if (EndReplaced(unit, workload)) {
    return;
  }
  // A Workload of its own: admitted by its status alone; whoever made it acts on that.
  if (unit.assumed.has_value() && !workload.QuotaReserved()) {
    WriteReservation(unit, workload);
    return;
  }
  if (workload.QuotaReserved()) {
    unit.assumed.reset();
    SetWaiting(unit, &workload, false);
    if (!workload.Evicted()) {
      if (!SyncPriority(unit, nullptr, workload)) {
        KeepReservation(unit, nullptr, workload);
      }
      return;
    }
    // One that nobody runs holds nothing when it is deactivated: who would say that it is over?
    const bool holds = workload.active || workload.meta.Controller() != nullptr;
    if (holds) {
      HoldQuota(unit, nullptr, workload);
    }
    if (unit.evicting.has_value()) {
      TellEviction(unit, workload);
    }
    if (!holds) {
      LeaveEngine(unit);
    }
    if (!workload.active) {
      FollowDeactivation(unit, nullptr, workload);
    } else {
      EndBackoff(unit, workload);
    }
    return;
  }
  ReconcilePending(unit, nullptr, workload);
}

void Core::WriteReservation(Unit& unit, const api::Workload& workload) {
  const engine::AdmitDecision& decision = *unit.assumed;
  const std::string& queue = decision.cluster_queue;
  const auto spec = world_.cluster_queues.Find({"", queue});
  api::Workload next = workload;
  Reserve(next.status, decision,
          spec != nullptr ? RequiredChecks(*spec, AdmissionOf(decision)) : std::set<std::string>{},
          options_.wait_for_pods_ready.enabled, unit.assumed_at, Style());
  if (unit.told_at != unit.assumed_at) {  // else again, after a failure
    unit.told_at = unit.assumed_at;
    EventOn(workload, /*warning=*/false, "QuotaReserved",
            "Quota reserved in ClusterQueue " + queue);
    History(HistoryKind::kQuotaReserved, unit, &next, "QuotaReserved", decision.note);
    const auto labels = QueueLabels(workload, queue);
    Count("kueue_quota_reserved_workloads_total", labels);
    Observe("kueue_quota_reserved_wait_time_seconds", labels,
            std::chrono::duration<double>(now_ - QueuedSince(workload)).count());
    if (next.Admitted()) {
      TellAdmission(next);
    }
  }
  Emit(unit, {ApplyStatus(next)});
}

// A second Workload of a job that has one: it would hold quota for the same pods again.
void Core::ReconcileDuplicate(Unit& unit, const QueuedJob& job, const api::Workload* workload) {
  if (workload == nullptr) {
    Forget(api::ObjectKey(unit.key));
    return;
  }
  LeaveEngine(unit);
  SetWaiting(unit, workload, false);
  std::vector<api::WriteRequest> writes;
  if (!workload->meta.deleted.has_value()) {
    Event(job, /*warning=*/false, "DeletedWorkload",
          "Deleted not matching Workload: " + unit.key.ToString());
    writes.push_back(DeleteWorkload(*workload));
  } else if (workload->meta.HasFinalizer(names::kResourceInUseFinalizer)) {
    writes.push_back(DropFinalizer(*workload));
  }
  Emit(unit, std::move(writes));
}

void Core::ReconcileFinished(Unit& unit, const QueuedJob& job, const api::Workload* workload,
                             bool success, const std::string& message) {
  if (unit.in_engine != Unit::InEngine::kNo) {
    LeaveEngine(unit);
  }
  SetWaiting(unit, workload, false);
  std::vector<api::WriteRequest> writes;
  if (workload != nullptr && !workload->Finished()) {
    api::Workload next = *workload;
    Finish(next.status, success, message.empty() ? "Job finished" : message, now_);
    writes.push_back(ApplyStatus(next));
    History(HistoryKind::kFinished, unit, &next, success ? "Succeeded" : "Failed", message);
    Event(job, /*warning=*/false, "FinishedWorkload",
          "Workload '" + unit.key.ToString() + "' is declared finished");
    CountFinished(*workload);
  }
  if (workload != nullptr && workload->meta.HasFinalizer(names::kResourceInUseFinalizer)) {
    writes.push_back(DropFinalizer(*workload));
  }
  for (api::WriteRequest& write : DeleteGroups(unit.job_uid)) {
    writes.push_back(std::move(write));
  }
  for (api::WriteRequest& write : job.Finalize()) {
    writes.push_back(std::move(write));
  }
  if (!writes.empty()) {
    Emit(unit, std::move(writes));
    return;
  }
  StripStuckGroups(unit);
  if (workload != nullptr && unit.in_flight == 0) {
    DeleteFinished(unit, *workload);
  }
}

void Core::CountFinished(const api::Workload& workload) {
  Count("kueue_finished_workloads_total",
        QueueLabels(workload, workload.status.admission.has_value()
                                  ? workload.status.admission->cluster_queue
                                  : ""));
}

void Core::DeleteFinished(Unit& unit, const api::Workload& workload) {
  if (!options_.retain_finished.has_value() || !workload.Finished() ||
      workload.meta.deleted.has_value()) {
    return;
  }
  const Time end = api::FindCondition(workload.status.conditions, "Finished")->last_transition +
                   *options_.retain_finished;
  if (now_ < end) {
    WakeAt(unit, end);
    return;
  }
  std::vector<api::WriteRequest> writes;
  if (workload.meta.HasFinalizer(names::kResourceInUseFinalizer)) {
    writes.push_back(DropFinalizer(workload));
  }
  writes.push_back(DeleteWorkload(workload));
  EventOn(workload, /*warning=*/false, "Deleted",
          "Deleted finished workload due to elapsed retention");
  Emit(unit, std::move(writes));
}

void Core::ReconcileRefused(Unit& unit, const QueuedJob& job) {
  const api::ObjectKey wanted = WorkloadKeyOf(job);
  if (const auto other = world_.workloads.Find(wanted);
      other != nullptr && !job.MayTake(*other) && !job.meta.deleted.has_value()) {
    Event(job, /*warning=*/true, "WorkloadNameConflict",
          "A Workload named \"" + wanted.name +
              "\" already exists but is not a pod group workload; this pod group cannot be "
              "admitted");
    Emit(unit, job.Tidy(nullptr).writes);
    return;
  }
  const std::string uid = unit.job_uid;
  refused_units_[wanted].erase(unit.key);
  Forget(api::ObjectKey(unit.key));  // ends `unit`
  if (const auto again = world_.JobOf(uid)) {
    JobChanged(again, /*deleted=*/false);
  }
}

bool Core::RunChores(Unit& unit, const QueuedJob& job, const api::Workload* workload) {
  Chores chores = job.Tidy(workload);
  if (!chores.writes.empty()) {
    const api::Resource& resource = job.kind.Resource();
    for (const api::ObjectMeta& excess : chores.excess) {
      out_.events.push_back({resource.ApiVersion(), resource.kind, excess.Key(), excess.uid,
                             /*warning=*/false, "ExcessPodDeleted", "Excess pod deleted"});
    }
    if (chores.new_owners > 0) {
      EventOn(*workload, /*warning=*/false, "OwnerReferencesAdded",
              "Added " + std::to_string(chores.new_owners) + " owner reference(s)");
    }
    if (workload != nullptr) {
      HoldQuota(unit, &job, *workload);
    }
    Emit(unit, std::move(chores.writes));
    return true;
  }
  if (workload == nullptr) {
    return false;
  }
  const std::optional<bool> waits = job.WaitsForReplacements(*workload);
  api::Conditions conditions = workload->status.conditions;
  if (!waits.has_value() || !SetWaitingForReplacements(conditions, *waits, now_)) {
    return false;
  }
  HoldQuota(unit, &job, *workload);
  Emit(unit, {ApplyReplacements(*workload, conditions)});
  return true;
}

std::optional<Priority> Core::PriorityOf(const QueuedJob& job, std::string_view class_of_pods) {
  const std::string_view label = job.meta.Label(names::kPriorityClassLabel);
  if (!label.empty()) {
    const auto found = world_.workload_priorities.Find({"", std::string(label)});
    if (found == nullptr) {
      return std::nullopt;
    }
    return Priority{found->value,
                    api::PriorityClassRef{std::string(names::kKueueGroup), "WorkloadPriorityClass",
                                          std::string(label)}};
  }
  const auto of_class = [](const api::PriorityClass& found) {
    return Priority{found.value,
                    api::PriorityClassRef{"scheduling.k8s.io", "PriorityClass", found.meta.name}};
  };
  if (!class_of_pods.empty()) {
    const auto found = world_.priorities.Find({"", std::string(class_of_pods)});
    return found != nullptr ? std::optional<Priority>(of_class(*found)) : std::nullopt;
  }
  for (const auto& [key, found] : world_.priorities.All()) {
    if (found->global_default) {
      return of_class(*found);
    }
  }
  return Priority{};
}

bool Core::SyncPriority(Unit& unit, const QueuedJob* job, const api::Workload& workload) {
  const bool by_class = workload.priority_class.has_value() &&
                        workload.priority_class->kind == "WorkloadPriorityClass";
  std::optional<Priority> wanted;
  if (job != nullptr && PrebuiltWorkloadOf(job->meta, options_.prebuilt_by_annotation).empty() &&
      (by_class || !workload.QuotaReserved())) {
    // With quota the class can be exchanged, but not added: the API refuses that.
    wanted = PriorityOf(*job, PriorityClassOf(workload));
  } else if (by_class && options_.core) {
    if (const auto found = world_.workload_priorities.Find({"", workload.priority_class->name})) {
      wanted = Priority{found->value, workload.priority_class};
    }
  }
  if (!wanted.has_value() ||
      (wanted->value == workload.priority && wanted->ref == workload.priority_class)) {
    return false;
  }
  Json ref;
  if (wanted->ref.has_value()) {
    ref = Json::Obj(
        {{"group", wanted->ref->group}, {"kind", wanted->ref->kind}, {"name", wanted->ref->name}});
  }
  if (job != nullptr && wanted->ref != workload.priority_class) {
    Event(*job, /*warning=*/false, "UpdatedWorkload",
          "Updated workload priority class: " + unit.key.ToString());
  }
  Emit(unit,
       {WorkloadPatch(workload, Json::Obj({{"spec", Json::Obj({{"priority", wanted->value},
                                                               {"priorityClassRef", ref}})}}))});
  return true;
}

api::ObjectKey Core::WorkloadKeyOf(const QueuedJob& job) const {
  const std::string_view prebuilt = PrebuiltWorkloadOf(job.meta, options_.prebuilt_by_annotation);
  if (!prebuilt.empty()) {
    api::ObjectKey key{job.meta.ns, std::string(prebuilt)};
    const auto unit = units_.find(key);
    if (unit == units_.end() || unit->second.job_uid.empty() ||
        unit->second.job_uid == job.meta.uid) {
      return key;
    }
  }
  if (Sliced(job)) {
    const api::Resource& resource = job.kind.Resource();
    return {job.meta.ns, WorkloadName(resource.kind, resource.group, job.meta.name, job.meta.uid,
                                      std::to_string(job.meta.generation))};
  }
  return {job.meta.ns, job.WorkloadName()};
}

bool Core::AdoptWorkload(Unit& unit, const QueuedJob& job, const api::Workload& workload) {
  const api::OwnerReference* owner = workload.meta.Controller();
  if (owner != nullptr) {
    if (owner->uid != job.meta.uid && !job.Suspended()) {
      Emit(unit, job.Stop({.now = now_}));
    }
    return owner->uid == job.meta.uid;
  }
  Json owners = Json::Arr();
  for (const api::OwnerReference& other : workload.meta.owners) {
    owners.Push(api::ToJson(other));
  }
  const api::Resource& resource = job.kind.Resource();
  owners.Push(api::ToJson(api::OwnerReference{resource.ApiVersion(), resource.kind, job.meta.name,
                                              job.meta.uid, /*controller=*/true}));
  Emit(unit,
       {WorkloadPatch(
           workload, Json::Obj({{"metadata",
                                 Json::Obj({{"ownerReferences", std::move(owners)},
                                            {"labels", Json::Obj({{std::string(names::kJobUidLabel),
                                                                   job.meta.uid}})}})}}))});
  return false;  // goes on with the answer
}

void Core::HoldChild(Unit& unit, const QueuedJob& job) {
  const auto ancestor = ManagedAncestor(job);
  if (ancestor == nullptr || job.Suspended()) {
    return;
  }
  const auto known = unit_of_job_.find(ancestor->meta.uid);
  const auto workload =
      known != unit_of_job_.end() ? world_.workloads.Find(known->second) : nullptr;
  if (workload == nullptr || !workload->Admitted()) {
    Event(job, /*warning=*/false, "Suspended", "Kueue managed child job suspended");
    Emit(unit, job.Stop({.now = now_}));
  }
}

void Core::CreateWorkload(Unit& unit, const QueuedJob& job) {
  // Of an elastic job that grows: it runs, by another Workload.
  const auto known = unit_of_job_.find(unit.job_uid);
  const auto replaced = known != unit_of_job_.end() && known->second != unit.key
                            ? world_.workloads.Find(known->second)
                            : nullptr;
  if (!job.Suspended() && replaced == nullptr) {
    // A queue name was given to a running job, or the policy was not there: hold it first.
    const StopReason why{.now = now_};
    Event(job, /*warning=*/false, "Stopped", why.message);
    Emit(unit, job.Stop(why));
    return;
  }
  if ((job.Active(now_) && replaced == nullptr) || job.meta.deleted.has_value()) {
    return;
  }
  if (const std::string_view name = PrebuiltWorkloadOf(job.meta, options_.prebuilt_by_annotation);
      !name.empty()) {
    Event(job, /*warning=*/true, "PrebuiltWorkloadNotFound",
          "Workload \"" + std::string(name) +
              "\" does not exist or belongs to another job: create it, or take " +
              std::string(names::kPrebuiltWorkload) + " off the job");
    return;  // comes back when it is created
  }
  auto workload = job.Describe();
  if (!workload) {
    Event(job, /*warning=*/true, "ErrWorkloadCompose", workload.error().message);
    return;
  }
  const std::string class_of_pods = PriorityClassOf(*workload);
  const std::optional<Priority> priority = PriorityOf(job, class_of_pods);
  if (!priority.has_value()) {
    const std::string_view label = job.meta.Label(names::kPriorityClassLabel);
    Event(job, /*warning=*/true, "WorkloadPriorityClassNotFound",
          label.empty() ? "PriorityClass \"" + class_of_pods +
                              "\" of the pod template does "
                              "not exist; create it or name another"
                        : "WorkloadPriorityClass \"" + std::string(label) +
                              "\" does not exist; create it or change the label "
                              "kueue.x-k8s.io/priority-class");
    return;  // comes back when a class is created
  }
  workload->priority = priority->value;
  workload->priority_class = priority->ref;
  workload->meta.name = unit.key.name;
  if (Sliced(job)) {
    MakeSlice(*workload, replaced.get());
  }
  const std::vector<const api::Pod*> pods = world_.PodsOf(unit.job_uid);
  Status copied = CopyKeys(options_.label_keys_to_copy, job, pods, &api::ObjectMeta::labels,
                           "labels", workload->meta.labels);
  if (copied) {
    copied = CopyKeys(options_.annotation_keys_to_copy, job, pods, &api::ObjectMeta::annotations,
                      "annotations", workload->meta.annotations);
  }
  if (!copied) {
    Event(job, /*warning=*/true, "ErrWorkloadCompose", copied.error().message);
    return;
  }
  if (unit.assumed.has_value()) {
    LeaveEngine(unit);  // decided for a record that was never written; decided again right away
  }
  // Its place in the queue is the job's, from now on: an older job never loses its place because
  // its Workload is written a moment later.
  unit.creating = true;
  if (workload->meta.Annotation(names::kAdmissionGatedByAnnotation).empty()) {
    engine_->SetPending(InputFor(unit, *workload, &job));
    unit.in_engine = Unit::InEngine::kPending;
    unit.queued_in = {unit.key.ns, workload->queue_name};
    unit.engine_key.clear();
  }
  unit.shape_generation = -1;
  api::WriteRequest write;
  write.verb = api::Verb::kCreate;
  write.resource = api::ResourceOf(api::Kind::kWorkload);
  write.key = unit.key;
  write.field_manager = names::kUpdateManager;
  write.body = api::ToJson(*workload);
  Event(job, /*warning=*/false, "CreatedWorkload", "Created Workload: " + unit.key.ToString());
  if (replaced == nullptr) {
    Observe("kueue_workload_creation_latency_seconds", {{"job_kind", job.kind.Resource().kind}},
            std::chrono::duration<double>(now_ - job.meta.created).count());
  }
  History(HistoryKind::kCreated, unit, &*workload, "Created", "");
  Emit(unit, {std::move(write)});
}

bool Core::SyncSpec(Unit& unit, const QueuedJob& job, const api::Workload& workload) {
  auto wanted = job.Describe();
  if (!wanted) {
    Event(job, /*warning=*/true, "ErrWorkloadCompose", wanted.error().message);
    return false;
  }
  const auto priority = PriorityOf(job, PriorityClassOf(*wanted));
  if (!priority.has_value()) {
    return false;
  }
  wanted->priority = priority->value;
  wanted->priority_class = priority->ref;
  LeaveEngine(unit);
  unit.shape_generation = -1;
  Json spec = api::ToJson(*wanted)["spec"];
  Event(job, /*warning=*/false, "UpdatedWorkload",
        "Updated not matching Workload for suspended job: " + unit.key.ToString());
  Emit(unit, {WorkloadPatch(workload, Json::Obj({{"spec", std::move(spec)}}))});
  return true;
}

}  // namespace tutti::reconciler
