// SPDX-License-Identifier: Apache-2.0
// A workload with quota: what the engine counts for it, its place while checks are pending, and the
// checks themselves. See core.h.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "reconciler/admission_checks.h"
#include "reconciler/core.h"
#include "reconciler/slices.h"
#include "reconciler/status.h"

namespace tutti::reconciler {

engine::WorkloadInput Core::ReservedInput(Unit& unit, const QueuedJob* job,
                                          const api::Workload& workload) {
  engine::WorkloadInput input = InputFor(unit, workload, job);
  const api::Admission& admission = *workload.status.admission;
  for (size_t i = 0; i < input.pod_sets.size(); ++i) {
    for (const api::PodSetAssignment& assignment : admission.assignments) {
      // Reclaimable pods count from the full size, as Kueue counts them: of a part that was
      // admitted quota goes back only when fewer are left than it has.
      if (assignment.name == input.pod_sets[i].name && assignment.count.has_value()) {
        input.pod_sets[i].count = std::min(input.pod_sets[i].count, *assignment.count);
      }
    }
  }
  // Pods that have succeeded need neither quota nor a place any more. All others do, those too that
  // the Job has yet to make again.
  if (job != nullptr) {
    for (size_t i = 0; i < input.pod_sets.size(); ++i) {
      int32_t& count = input.pod_sets[i].count;
      count = std::min(count, job->Remaining(workload.pod_sets[i]));
    }
  }
  if (job != nullptr && Sliced(*job)) {
    // One that was made smaller gives quota back as its pods go.
    const std::vector<PodPtr> pods = PodsOfSlice(workload, unit.job_uid);
    for (engine::PodSetInput& pod_set : input.pod_sets) {
      for (const api::PodSetAssignment& assignment : admission.assignments) {
        if (assignment.name == pod_set.name) {
          pod_set.count = std::max(pod_set.count, std::min(CountStarted(pods, pod_set.name),
                                                           assignment.count.value_or(0)));
        }
      }
    }
  }
  return input;
}

void Core::SyncReservation(Unit& unit, const QueuedJob* job, const api::Workload& workload) {
  const engine::WorkloadInput input = ReservedInput(unit, job, workload);
  const api::Admission& admission = *workload.status.admission;
  const bool admitted = workload.Admitted();
  std::string key = "R|" + admission.cluster_queue + "|" + std::to_string(input.priority);
  for (const engine::PodSetInput& pod_set : input.pod_sets) {
    key += "|" + std::to_string(pod_set.count);
  }
  for (const api::PodSetAssignment& assignment : admission.assignments) {
    for (const auto& [resource, flavor] : assignment.flavors) {
      const auto usage = assignment.resource_usage.find(resource);
      key += "|" + flavor + "/" + resource + "=" +
             (usage != assignment.resource_usage.end() ? usage->second.ToString() : "0");
    }
  }
  key += admitted ? "|admitted" : "";
  if (unit.in_engine == Unit::InEngine::kReserved && unit.engine_key.empty()) {
    // Our own admission came back: the engine reserved it already, place included.
    unit.engine_key = key;
    unit.placed = true;
    if (admitted) {
      engine_->MarkAdmitted(input.id);
    }
    DirtyLocal({unit.key.ns, workload.queue_name});
    return;
  }
  if (unit.in_engine == Unit::InEngine::kReserved && unit.engine_key == key) {
    return;
  }
  const bool grows = unit.in_engine != Unit::InEngine::kReserved;
  // Whose checks are pending for long has no place until they are ready (HoldPlace).
  const bool wanted = !unit.landed && !workload.Evicted() &&
                      (admitted || now_ < ReservedAt(workload) + options_.place_hold);
  // Of an elastic job that runs: places for as many pods as are still to come.
  const bool resized = job != nullptr && Sliced(*job) && !job->Suspended() && !grows && admitted &&
                       !workload.Evicted();
  const bool plan = (wanted && (grows || unit.place_dropped)) || resized;
  const bool placed = engine_->SetReserved(input, admission, admitted, plan, ReservedAt(workload));
  if (plan) {
    unit.placed = placed;
    unit.place_dropped = false;
  } else if (grows) {
    unit.place_dropped = !wanted;
  }
  unit.in_engine = Unit::InEngine::kReserved;
  unit.queued_in = {unit.key.ns, workload.queue_name};
  unit.reserved_in = admission.cluster_queue;
  unit.engine_key = std::move(key);
  if (workload.Evicted()) {
    engine_->MarkEvicting(input.id, true);
  }
  DirtyLocal({unit.key.ns, workload.queue_name});
}

void Core::HoldQuota(Unit& unit, const QueuedJob* job, const api::Workload& workload) {
  if (workload.QuotaReserved() && !workload.Finished() &&
      unit.in_engine != Unit::InEngine::kReserved) {
    SyncReservation(unit, job, workload);
  }
}

void Core::PlanAgain(Unit& unit, const QueuedJob& job, const api::Workload& workload) {
  engine_->SetReserved(ReservedInput(unit, &job, workload), *workload.status.admission,
                       workload.Admitted(), /*plan=*/true, ReservedAt(workload));
}

void Core::HoldPlace(Unit& unit, const api::Workload& workload) {
  if (unit.place_dropped) {
    return;
  }
  const Time end = ReservedAt(workload) + options_.place_hold;
  if (now_ < end) {
    WakeAt(unit, end);
    return;
  }
  engine_->capacity().Release(unit.key.ToString());
  unit.place_dropped = true;
}

bool Core::SyncCheckList(Unit& unit, const api::Workload& workload,
                         const api::ClusterQueue& queue) {
  std::vector<api::AdmissionCheckState> checks = workload.status.checks;
  if (!SyncChecks(checks, RequiredChecks(queue, workload.status.admission), now_)) {
    return false;
  }
  Emit(unit, {ChecksPatch(workload, checks)});
  return true;
}

void Core::TellAdmission(const api::Workload& workload) {
  const std::string& queue = workload.status.admission->cluster_queue;
  const double since_reservation =
      std::chrono::duration<double>(now_ - ReservedAt(workload)).count();
  const std::string seconds =
      std::to_string(static_cast<int64_t>(std::max(0.0, since_reservation) + 0.5));
  EventOn(
      workload, /*warning=*/false, "Admitted",
      "Admitted by ClusterQueue " + queue + ", wait time since reservation was " + seconds + "s");
  const auto labels = QueueLabels(workload, queue);
  Count("kueue_admitted_workloads_total", labels);
  for (const std::string& cohort : CohortsAbove(queue)) {
    Count("kueue_cohort_subtree_admitted_workloads_total",
          {{"cohort", cohort},
           {"priority_class", workload.priority_class ? workload.priority_class->name : ""}});
  }
  Observe("kueue_admission_wait_time_seconds", labels,
          std::chrono::duration<double>(now_ - QueuedSince(workload)).count());
  if (!workload.status.checks.empty()) {
    Observe("kueue_admission_checks_wait_time_seconds", labels, since_reservation);
  }
}

}  // namespace tutti::reconciler
