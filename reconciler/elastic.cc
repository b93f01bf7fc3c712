// SPDX-License-Identifier: Apache-2.0
// Elastic jobs: which of a job's Workloads is its head, the one that waits to take the head's
// place, changes of size, and pods that wait for quota. See core.h and slices.h; rules of Kueue
// v0.19.2 (ElasticJobsViaWorkloadSlices).
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/names.h"
#include "base/slice_names.h"
#include "reconciler/admission_checks.h"
#include "reconciler/core.h"
#include "reconciler/names.h"
#include "reconciler/slices.h"
#include "reconciler/status.h"
#include "reconciler/workload_writes.h"

namespace tutti::reconciler {
namespace {

template <typename Key>
void Link(std::map<Key, std::set<api::ObjectKey>>& index, const Key& key,
          const api::ObjectKey& member, bool linked) {
  if (linked) {
    index[key].insert(member);
  } else if (const auto known = index.find(key); known != index.end()) {
    known->second.erase(member);
    if (known->second.empty()) {
      index.erase(known);
    }
  }
}

// Ended because another Workload of the job goes on.
bool IsSucceeded(const api::Workload& workload) {
  const api::Condition* finished = api::FindCondition(workload.status.conditions, "Finished");
  return finished != nullptr && finished->status == "True" &&
         (finished->reason == reason::kSliceReplaced || finished->reason == reason::kOutOfSync);
}

std::vector<int32_t> CountsOf(const api::Workload& workload) {
  std::vector<int32_t> counts;
  for (const api::PodSet& pod_set : workload.pod_sets) {
    counts.push_back(pod_set.count);
  }
  return counts;
}

bool AnyMore(const std::vector<int32_t>& wanted, const std::vector<int32_t>& have) {
  for (size_t i = 0; i < wanted.size() && i < have.size(); ++i) {
    if (wanted[i] > have[i]) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool Core::Sliced(const QueuedJob& job) const {
  return options_.workload_slices && job.Elastic() &&
         PrebuiltWorkloadOf(job.meta, options_.prebuilt_by_annotation).empty();
}

bool Core::Describes(const api::Workload& workload, const QueuedJob& job) const {
  return Sliced(job) ? job.MatchesButCounts(workload) : job.Matches(workload);
}

void Core::LinkSlice(const api::Workload& workload, const std::string& job_uid, bool deleted) {
  const api::ObjectKey key = workload.meta.Key();
  if (const auto replaced = ReplacedKey(workload)) {
    Link(slices_of_, *replaced, key, !deleted);
  }
  if (IsSlice(workload)) {
    if (!job_uid.empty()) {
      Link(slices_of_job_, job_uid, key, !deleted);
    }
    Link(slices_of_chain_, api::ObjectKey{key.ns, SliceName(workload)}, key, !deleted);
  }
}

void Core::DirtySlices(const std::string& job_uid) {
  if (const auto slices = slices_of_job_.find(job_uid); slices != slices_of_job_.end()) {
    dirty_units_.insert(slices->second.begin(), slices->second.end());
  }
}

void Core::LinkSlicePod(const WatchedPod& pod, bool deleted) {
  const std::string_view name = pod.meta.Annotation(names::kSliceNameAnnotation);
  if (name.empty()) {
    return;
  }
  const api::ObjectKey chain{pod.meta.ns, std::string(name)};
  Link(pods_of_chain_, chain, pod.meta.Key(), !deleted);
  if (const auto slices = slices_of_chain_.find(chain); slices != slices_of_chain_.end()) {
    dirty_units_.insert(slices->second.begin(), slices->second.end());
  }
}

void Core::FollowSlices(const QueuedJob& job) {
  const api::ObjectKey current = unit_of_job_.at(job.meta.uid);
  std::set<api::ObjectKey> keys = {current};
  if (const auto slices = slices_of_job_.find(job.meta.uid); slices != slices_of_job_.end()) {
    keys.insert(slices->second.begin(), slices->second.end());
  }
  std::vector<std::shared_ptr<const api::Workload>> kept;
  std::vector<const api::Workload*> live;
  for (const api::ObjectKey& key : keys) {
    auto workload = world_.workloads.Find(key);
    if (workload != nullptr && !workload->Finished()) {
      live.push_back(workload.get());
      kept.push_back(std::move(workload));
    }
  }
  if (const Slices slices = ChooseSlices(std::move(live)); slices.head != nullptr) {
    TakeUp(job, slices.head->meta.Key());
    return;
  }
  // A new chain. Its name is that of the job's present generation: one that was used before may be
  // that of a Workload that is gone or has ended.
  const auto unit = units_.find(current);
  const auto workload = world_.workloads.Find(current);
  const bool under_way = unit != units_.end() && unit->second.in_flight != 0;
  if (!under_way && (workload == nullptr || IsSucceeded(*workload))) {
    TakeUp(job, WorkloadKeyOf(job));
  }
}

void Core::TakeUp(const QueuedJob& job, const api::ObjectKey& key) {
  api::ObjectKey& current = unit_of_job_.at(job.meta.uid);
  if (current == key) {
    return;
  }
  Unit& to = units_[key];
  to.key = key;
  to.job_uid = job.meta.uid;
  if (const auto from = units_.find(current); from != units_.end()) {
    // The pods run on: what is known of them goes with them. Where they haven't all landed yet, the
    // additional ones have the whole time.
    to.landed = std::exchange(from->second.landed, false);
    const Time released_at = std::exchange(from->second.released_at, kNoTime);
    to.released_at = released_at != kNoTime && !to.landed ? now_ : released_at;
    from->second.first_bound_at.reset();
    to.stopped_at = std::exchange(from->second.stopped_at, kNoTime);
    Dirty(current);
  }
  current = key;
  RelinkPodsOf(job.meta.uid);
  Dirty(key);
}

void Core::ReconcileSlice(Unit& unit, const QueuedJob& job, const api::Workload* workload) {
  const api::ObjectKey head_key = unit_of_job_.at(unit.job_uid);
  const auto head = world_.workloads.Find(head_key);
  if (workload == nullptr) {
    if (head != nullptr && Outgrown(job, *head) && unit.key == WorkloadKeyOf(job) &&
        NextSlice(*head) == nullptr) {
      CreateWorkload(unit, job);
      if (unit.in_flight != 0) {
        return;
      }
    }
    Forget(api::ObjectKey(unit.key));
    return;
  }
  if (workload->meta.deleted.has_value()) {
    LeaveEngine(unit);
    SetWaiting(unit, workload, false);
    if (workload->meta.HasFinalizer(names::kResourceInUseFinalizer)) {
      Emit(unit, {DropFinalizer(*workload)});
    }
    return;
  }
  if (workload->Finished()) {
    const bool held = unit.in_engine == Unit::InEngine::kReserved;
    LeaveEngine(unit);
    SetWaiting(unit, workload, false);
    if (const auto now = units_.find(head_key);
        held && head != nullptr && now != units_.end() &&
        now->second.in_engine == Unit::InEngine::kReserved && !now->second.engine_key.empty()) {
      // Its pods are the head's now. A place is looked for only for those that are still to come.
      PlanAgain(now->second, job, *head);
    }
    if (workload->meta.HasFinalizer(names::kResourceInUseFinalizer)) {
      Emit(unit, {DropFinalizer(*workload)});
      return;
    }
    DeleteFinished(unit, *workload);
    return;
  }
  if (EndReplaced(unit, *workload)) {
    return;
  }
  const auto next = head != nullptr ? NextSlice(*head) : nullptr;
  const std::optional<std::vector<int32_t>> wanted =
      head != nullptr ? WantedCounts(job, *head) : std::nullopt;
  if (next == nullptr || next->meta.Key() != unit.key || !head->active || !wanted.has_value() ||
      !AnyMore(*wanted, CountsOf(*head)) || !job.MatchesButCounts(*workload)) {
    FinishSlice(unit, *workload, nullptr);
    return;
  }
  if (workload->Evicted() && workload->status.admission.has_value()) {
    // None of the job's pods run by it, so nobody has to be waited for.
    HoldQuota(unit, nullptr, *workload);
    if (unit.evicting.has_value()) {
      TellEviction(unit, *workload);
    }
    api::Workload after = *workload;
    EndEviction(after.status, options_.wait_for_pods_ready.enabled, now_, Style());
    LeaveEngine(unit);
    Emit(unit, {ApplyStatus(after)});
    return;
  }
  if (*wanted != CountsOf(*workload)) {
    if (unit.assumed.has_value()) {
      LeaveEngine(unit);  // decided for another size
    }
    Emit(unit, {ResizePatch(*workload, *wanted)});
    return;
  }
  if (unit.assumed.has_value()) {
    if (!GivesWay(*head) && workload->active &&
        unit.queued_in == api::ObjectKey{unit.key.ns, workload->queue_name} &&
        workload->meta.Annotation(names::kAdmissionGatedByAnnotation).empty()) {
      WriteReservation(unit, *workload);
      return;
    }
    LeaveEngine(unit);  // changed meanwhile: decided again
  }
  if (!SyncPriority(unit, &job, *workload)) {
    ReconcilePending(unit, nullptr, *workload);
  }
}

void Core::FinishSlice(Unit& unit, const api::Workload& workload, const api::Workload* by) {
  if (workload.QuotaReserved()) {
    HoldQuota(unit, nullptr, workload);
  } else {
    LeaveEngine(unit);
  }
  api::Workload next = workload;
  if (by != nullptr) {
    FinishReplaced(next.status, *by, now_);
  } else {
    SetCondition(next.status.conditions,
                 {"Finished", "True", std::string(reason::kOutOfSync),
                  "The job does not ask for this size any more", now_, 0},
                 now_);
  }
  const api::Condition& finished = *api::FindCondition(next.status.conditions, "Finished");
  EventOn(workload, /*warning=*/false, finished.reason, finished.message);
  History(HistoryKind::kFinished, unit, &next, finished.reason, finished.message);
  CountFinished(workload);
  Emit(unit, {ApplyStatus(next)});
}

bool Core::EndReplaced(Unit& unit, const api::Workload& workload) {
  const auto slices = slices_of_.find(unit.key);
  if (slices == slices_of_.end() || !options_.core || !options_.workload_slices ||
      !workload.QuotaReserved()) {
    return false;
  }
  for (const api::ObjectKey& key : slices->second) {
    const auto slice = world_.workloads.Find(key);
    if (slice == nullptr || !slice->QuotaReserved() || slice->Finished() || slice->Evicted() ||
        slice->status.admission->cluster_queue != workload.status.admission->cluster_queue) {
      continue;
    }
    Count("kueue_replaced_workload_slices_total",
          {{"cluster_queue", workload.status.admission->cluster_queue}});
    FinishSlice(unit, workload, slice.get());
    return true;
  }
  return false;
}

std::optional<std::vector<int32_t>> Core::WantedCounts(const QueuedJob& job,
                                                       const api::Workload& workload) {
  const auto described = job.Describe();
  if (!described || described->pod_sets.size() != workload.pod_sets.size()) {
    return std::nullopt;
  }
  for (size_t i = 0; i < described->pod_sets.size(); ++i) {
    if (described->pod_sets[i].name != workload.pod_sets[i].name) {
      return std::nullopt;
    }
  }
  return CountsOf(*described);
}

bool Core::Outgrown(const QueuedJob& job, const api::Workload& workload) {
  if (!workload.QuotaReserved() || workload.Finished() || workload.Evicted() || !workload.active ||
      workload.meta.deleted.has_value()) {
    return false;
  }
  const auto wanted = WantedCounts(job, workload);
  return wanted.has_value() && AnyMore(*wanted, CountsOf(workload));
}

bool Core::Resize(Unit& unit, const QueuedJob& job, const api::Workload& workload) {
  if (!workload.QuotaReserved()) {
    // What was given back counts from the size that it had.
    std::map<std::string, int32_t> told(workload.status.reclaimable_pods.begin(),
                                        workload.status.reclaimable_pods.end());
    bool stale = false;
    for (const api::PodSet& pod_set : workload.pod_sets) {
      const int32_t done = DonePods(job, pod_set);
      if (int32_t& count = told[pod_set.name]; count > done) {
        count = done;
        stale = true;
      }
    }
    if (stale) {
      Emit(unit, {ApplyReclaimable(workload, told)});
      return true;
    }
  }
  const auto wanted = WantedCounts(job, workload);
  if (!wanted.has_value() || *wanted == CountsOf(workload)) {
    return false;
  }
  if (!workload.QuotaReserved() || !AnyMore(*wanted, CountsOf(workload))) {
    if (!workload.QuotaReserved() && unit.assumed.has_value()) {
      LeaveEngine(unit);  // decided for another size
    }
    HoldQuota(unit, &job, workload);
    Emit(unit, {ResizePatch(workload, *wanted)});
    return true;
  }
  if (!Outgrown(job, workload)) {
    return false;
  }
  if (const auto next = NextSlice(workload)) {
    Dirty(next->meta.Key());
    return false;
  }
  const api::ObjectKey key = WorkloadKeyOf(job);
  if (key != unit.key && world_.workloads.Find(key) == nullptr) {
    Unit& fresh = units_[key];
    fresh.key = key;
    fresh.job_uid = unit.job_uid;
    Dirty(key);
  }
  return false;
}

std::shared_ptr<const api::Workload> Core::NextSlice(const api::Workload& workload) const {
  const auto slices = slices_of_.find(workload.meta.Key());
  if (slices == slices_of_.end()) {
    return nullptr;
  }
  std::vector<std::shared_ptr<const api::Workload>> kept = {
      std::make_shared<const api::Workload>(workload)};
  std::vector<const api::Workload*> live = {kept.front().get()};
  for (const api::ObjectKey& key : slices->second) {
    auto slice = world_.workloads.Find(key);
    if (slice != nullptr && !slice->Finished()) {
      live.push_back(slice.get());
      kept.push_back(std::move(slice));
    }
  }
  const api::Workload* next = ChooseSlices(std::move(live)).next;
  return next != nullptr ? world_.workloads.Find(next->meta.Key()) : nullptr;
}

bool Core::GivesWay(const api::Workload& workload) const {
  const auto unit = units_.find(workload.meta.Key());
  return workload.Evicted() || (unit != units_.end() && unit->second.preempted.has_value());
}

int32_t Core::GivenBack(const api::Workload& workload, const api::PodSet& pod_set,
                        const QueuedJob* job) const {
  if (!options_.reclaimable_pods) {
    return 0;
  }
  const auto& all = workload.status.reclaimable_pods;
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const auto& entry) { return entry.first == pod_set.name; });
  const int32_t told = found != all.end() ? found->second : 0;
  // Of a larger size, maybe: until it is written anew, no more than the job says.
  return job != nullptr && Sliced(*job) && IsScaledDown(workload, pod_set)
             ? std::min(told, DonePods(*job, pod_set))
             : told;
}

api::Admission Core::HeldBy(const api::Workload& workload) const {
  const auto job = world_.JobOf(world_.OwnerOf(workload.meta));
  api::Admission held = *workload.status.admission;
  for (api::PodSetAssignment& assignment : held.assignments) {
    const auto spec =
        std::find_if(workload.pod_sets.begin(), workload.pod_sets.end(),
                     [&](const auto& known) { return known.name == assignment.name; });
    const int32_t count = assignment.count.value_or(0);
    if (spec == workload.pod_sets.end()) {
      continue;
    }
    const int32_t left = std::max(0, spec->count - GivenBack(workload, *spec, job.get()));
    if (left >= count) {
      continue;
    }
    for (auto& [resource, quantity] : assignment.resource_usage) {
      const int64_t amount = api::ToAmount(resource, quantity);
      quantity = api::FromAmount(
          resource, api::SaturatingMul(amount / count, left) + amount % count * left / count);
    }
    assignment.count = left;
  }
  return held;
}

std::vector<PodPtr> Core::PodsOfSlice(const api::Workload& workload,
                                      const std::string& job_uid) const {
  std::vector<PodPtr> pods;
  if (const auto chain = pods_of_chain_.find({workload.meta.ns, SliceName(workload)});
      chain != pods_of_chain_.end()) {
    for (const api::ObjectKey& key : chain->second) {
      if (auto pod = world_.pods.Find(key)) {
        pods.push_back(std::move(pod));
      }
    }
  }
  // Of a job that isn't elastic (any more) no pod says so.
  for (PodPtr& pod : QueuedPodsOf(job_uid)) {
    if (pod->meta.Annotation(names::kSliceNameAnnotation).empty()) {
      pods.push_back(std::move(pod));
    }
  }
  return pods;
}

bool Core::LetPodsGo(Unit& unit, const QueuedJob& job, const api::Workload& workload) {
  std::map<std::string, int32_t> granted;
  for (const engine::PodSetInput& pod_set : ReservedInput(unit, &job, workload).pod_sets) {
    granted[pod_set.name] = pod_set.count;
  }
  std::vector<api::WriteRequest> writes;
  for (const PodPtr& pod : PodsToLetGo(PodsOfSlice(workload, unit.job_uid), granted)) {
    const auto updates = UpdatesFor(workload.status, pod->meta.Label(names::kPodSetLabel));
    writes.push_back(LetGoPatch(*pod, updates ? *updates : CheckUpdates{}));
  }
  if (writes.empty()) {
    return false;
  }
  Emit(unit, std::move(writes));
  return true;
}

}  // namespace tutti::reconciler
