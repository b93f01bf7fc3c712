// SPDX-License-Identifier: Apache-2.0
// Workload slices (Kueue's elastic jobs): a job that may change its size while it runs has a
// Workload per size. One of them, the head, is what the job has or waits for; when the job grows,
// another one waits to take its place. Pods come with a gate and lose it as far as there is quota.
// Which Workload is what, and the objects and writes of it; pure functions. What is done with them:
// elastic.cc.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/kueue.h"
#include "api/request.h"
#include "reconciler/job_kind.h"
#include "reconciler/queued_pod.h"

namespace tutti::reconciler {

// Made for an elastic job.
[[nodiscard]] bool IsSlice(const api::Workload& workload);
// The name that all Workloads of one chain, and their pods, have in common: that of the first.
[[nodiscard]] std::string SliceName(const api::Workload& workload);
// The Workload whose place this one takes; only of the same namespace.
[[nodiscard]] std::optional<api::ObjectKey> ReplacedKey(const api::Workload& workload);

struct Slices {
  const api::Workload* head = nullptr;
  const api::Workload* next = nullptr;  // waits to take the head's place; null = none
};
// Of the Workloads of one job that have not Finished, in any order. The head is the last one that
// has quota and isn't replaced by another that has; one that is being evicted only if no other has
// any. Without quota: the newest.
[[nodiscard]] Slices ChooseSlices(std::vector<const api::Workload*> live);

// Makes `fresh`, which has a name, a slice: the first of its chain, or the one that is to take the
// place of `replaced`. The pods of that one run by its template, so it has that, too.
void MakeSlice(api::Workload& fresh, const api::Workload* replaced);

// Pods of the pod set, as large as it is, that won't run again (QueuedJob::Reclaimable): the job
// may ask for more than this Workload of it has.
[[nodiscard]] int32_t DonePods(const QueuedJob& job, const api::PodSet& pod_set);
// Has fewer pods than it was admitted with.
[[nodiscard]] bool IsScaledDown(const api::Workload& workload, const api::PodSet& pod_set);
// spec.podSets[].count, in the order of the pod sets; guarded by resourceVersion.
[[nodiscard]] api::WriteRequest ResizePatch(const api::Workload& workload,
                                            const std::vector<int32_t>& counts);

// Pods of the pod set that were let go, and neither have ended nor are on their way out.
[[nodiscard]] int32_t CountStarted(const std::vector<PodPtr>& pods, const std::string& pod_set);
// Held pods for which there is room, those of the lowest name first. `granted`: by pod set, how
// many may run at the same time; `pods`: all of the chain.
[[nodiscard]] std::vector<PodPtr> PodsToLetGo(const std::vector<PodPtr>& pods,
                                              const std::map<std::string, int32_t>& granted);
// Off with the gate; `updates` are those of the Workload by which it runs, which its template may
// be older than. Guarded by resourceVersion. REQUIRES: pod.slice_hold.
[[nodiscard]] api::WriteRequest LetGoPatch(const WatchedPod& pod, const CheckUpdates& updates);

}  // namespace tutti::reconciler
