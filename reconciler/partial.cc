// SPDX-License-Identifier: Apache-2.0
// How long gangs are there in part: some of their pods have a node, others that they need have
// none. Of jobs in a queue, whoever starts them. See core.h.
#include <chrono>
#include <string>
#include <utility>

#include "reconciler/core.h"

namespace tutti::reconciler {

void Core::CountPartial() {
  for (auto& [uid, partial] : partial_) {
    // Pods never come to their nodes, nor end, at the same moment: only what lasts counts.
    if (now_ < partial.since + kLeastPartial) {
      continue;
    }
    Count("tutti_partial_gang_seconds_total",
          {{"name", partial.local_queue.name}, {"namespace", partial.local_queue.ns}},
          std::chrono::duration<double>(now_ - partial.counted).count());
    partial.counted = now_;
  }
  for (const std::string& uid : std::exchange(look_for_partial_, {})) {
    const auto job = world_.JobOf(uid);
    const auto unit = unit_of_job_.find(uid);
    const auto workload =
        unit != unit_of_job_.end() ? world_.workloads.Find(unit->second) : nullptr;
    int32_t placed = 0;
    if (job != nullptr && workload != nullptr && !workload->Finished() &&
        !job->meta.deleted.has_value()) {
      for (const api::Pod* pod : world_.PodsOf(uid)) {
        placed += !pod->Terminal() && !pod->meta.deleted.has_value() && !pod->node_name.empty();
      }
    }
    if (placed > 0 && placed < GangSize(*job, *workload)) {
      partial_.try_emplace(uid, Partial{now_, now_, {unit->second.ns, workload->queue_name}});
    } else {
      partial_.erase(uid);
    }
  }
}

}  // namespace tutti::reconciler
