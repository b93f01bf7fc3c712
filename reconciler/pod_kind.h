// SPDX-License-Identifier: Apache-2.0
// Pods as a queued kind: one by itself, or several as a pod group. They are held by a scheduling
// gate, started by taking it off, and stopped by deletion: a pod can't be put back. Rules of Kueue
// v0.19.2 (integration `pod`).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reconciler/job_kind.h"
#include "reconciler/queued_pod.h"

namespace tutti::reconciler {

[[nodiscard]] const JobKind& PodKind();
// Where only kinds that work through pods are configured (deployment, statefulset): pods without a
// parent of such a kind (annotation pod-suspending-parent) are nobody's.
[[nodiscard]] const JobKind& PodKindOfParents();

// One pod.
[[nodiscard]] std::shared_ptr<const QueuedJob> MakeSinglePod(const JobKind& kind, PodPtr pod);
// The pods of one group; not empty.
[[nodiscard]] std::shared_ptr<const QueuedJob> MakePodGroup(const JobKind& kind, std::string uid,
                                                            std::string name,
                                                            std::vector<PodPtr> pods);

// A job of several pods that are held by their gates: what it is by the state of its pods.
class GatedPodsJob : public QueuedJob {
 public:
  [[nodiscard]] bool Suspended() const override;
  [[nodiscard]] bool Held() const override;
  [[nodiscard]] bool MayStart() const override { return true; }
  [[nodiscard]] bool Stopped(Time now) const override { return Suspended() && !Active(now); }
  [[nodiscard]] bool Active(Time now) const override;

 protected:
  // `about` is the deriving class's own, as for QueuedJob.
  GatedPodsJob(const JobKind& job_kind, const api::ObjectMeta& about, std::vector<PodPtr> pods)
      : QueuedJob(job_kind, about), pods_(std::move(pods)) {}

  std::vector<PodPtr> pods_;
};

// --- what the kinds have in common; pure ---

// It can still run, runs or has succeeded. A pod in deletion that has no node never runs.
[[nodiscard]] bool RunnableOrSucceeded(const WatchedPod& pod);
// Neither held, done nor on its way out.
[[nodiscard]] bool Started(const WatchedPod& pod);
[[nodiscard]] bool Held(const WatchedPod& pod);
// Takes room on a node. One whose deletion is overdue (a lost node) doesn't count: the quota would
// be held for ever.
[[nodiscard]] bool Running(const WatchedPod& pod, Time now);
// When Running may end by time alone.
[[nodiscard]] std::optional<Time> Overdue(const WatchedPod& pod);

// Off with our gates, on with what the start adds. kInvalid as TemplateAdditions.
Result<api::WriteRequest> UngatePatch(const WatchedPod& pod, const StartInfo& info);
// The pod is told why (condition TerminationTarget), then deleted.
[[nodiscard]] std::vector<api::WriteRequest> StopPod(const WatchedPod& pod, const StopReason& why);
// Our finalizer off; nobody else's. nullopt: it has none.
[[nodiscard]] std::optional<api::WriteRequest> FinalizePod(const WatchedPod& pod);
[[nodiscard]] api::WriteRequest DeletePod(const WatchedPod& pod);
// The pod set that a pod is.
[[nodiscard]] api::PodSet PodSetOf(const WatchedPod& pod, std::string name, int32_t count);
[[nodiscard]] api::WriteRequest OwnersPatch(const api::Workload& workload,
                                            const std::vector<api::OwnerReference>& more);

}  // namespace tutti::reconciler
