// SPDX-License-Identifier: Apache-2.0
// A workload with quota: what the engine counts for it. See core.h.
#include <algorithm>
#include <string>
#include <utility>

#include "base/names.h"
#include "reconciler/core.h"
#include "reconciler/status.h"
#include "reconciler/workload_writes.h"

namespace tutti::reconciler {

engine::WorkloadInput Core::ReservedInput(Unit& unit, const api::Job* job,
                                          const api::Workload& workload) {
  engine::WorkloadInput input = InputFor(unit, workload, job);
  const api::Admission& admission = *workload.status.admission;
  for (size_t i = 0; i < input.pod_sets.size(); ++i) {
    for (const api::PodSetAssignment& assignment : admission.assignments) {
      if (assignment.name == input.pod_sets[i].name && assignment.count.has_value()) {
        input.pod_sets[i].count = *assignment.count;
      }
    }
  }
  // Pods that have succeeded need neither quota nor a place any more. All others do, those too that
  // the Job has yet to make again.
  if (job != nullptr && input.pod_sets.size() == 1) {
    input.pod_sets[0].count = std::min(input.pod_sets[0].count, job->GangSize());
  }
  return input;
}

bool Core::SyncReservation(Unit& unit, const api::Job* job, const api::Workload& workload) {
  const engine::WorkloadInput input = ReservedInput(unit, job, workload);
  const api::Admission& admission = *workload.status.admission;
  std::string key = "R|" + admission.cluster_queue;
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
  if (unit.in_engine == Unit::InEngine::kReserved && unit.engine_key.empty()) {
    // Our own admission came back: the engine reserved it already, place included.
    unit.engine_key = key;
    engine_->MarkAdmitted(input.id);
    DirtyLocal({unit.key.ns, workload.queue_name});
    return true;
  }
  if (unit.in_engine == Unit::InEngine::kReserved && unit.engine_key == key) {
    return true;
  }
  const bool grows = unit.in_engine != Unit::InEngine::kReserved;
  const bool placed = engine_->SetReserved(input, admission, workload.Admitted(),
                                           /*plan=*/grows && !unit.landed, ReservedAt(workload));
  unit.in_engine = Unit::InEngine::kReserved;
  unit.queued_in = {unit.key.ns, workload.queue_name};
  unit.reserved_in = admission.cluster_queue;
  unit.engine_key = std::move(key);
  DirtyLocal({unit.key.ns, workload.queue_name});
  return placed;
}

}  // namespace tutti::reconciler
