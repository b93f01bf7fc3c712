// SPDX-License-Identifier: Apache-2.0
// What the state machine (core.h) has to know of a kind of job, and nothing more. A kind is a
// JobKind, which finds its objects and their pods, and a QueuedJob, which is one of them: what it
// says of itself, and the writes that start it, stop it and put it back as it was submitted. Both
// are pure: whether and when anything is written is the state machine's affair. One kind, one file;
// job_kinds.h lists them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/core.h"
#include "api/kueue.h"
#include "api/request.h"
#include "base/json.h"
#include "base/result.h"
#include "reconciler/queued_pod.h"

namespace tutti::reconciler {

class JobKind;

struct Priority {
  int32_t value = 0;
  std::optional<api::PriorityClassRef> ref;
};

// What ready checks want added to the pods of one pod set at its start.
struct CheckUpdates {
  api::StringMap labels;
  api::StringMap annotations;
  api::StringMap node_selector;
  std::vector<api::Toleration> tolerations;
};

// What a start adds to the pods of one pod set.
struct StartInfo {
  std::string group_name;  // "" = not in a PodGroup
  api::StringMap labels;
  api::StringMap annotations;  // ours: others' values of these keys are replaced
  api::StringMap node_selector;
  std::vector<api::Toleration> tolerations;
  std::vector<std::string> preferred_nodes;  // steering; empty = none
  std::optional<int32_t> parallelism;        // partial admission: so many pods
  CheckUpdates updates;                      // of AdmissionChecks
  std::string pod_set = "main";
};

// Why a job is stopped, for kinds whose pods are told.
struct StopReason {
  std::string reason = "NotAdmitted";
  std::string message = "Not admitted by cluster queue";
  Time now = kNoTime;
  // What it was started as, for kinds that are put back in the same write; null: not known.
  const api::Workload* started_as = nullptr;
};

struct Chores {
  std::vector<api::WriteRequest> writes;
  std::vector<api::ObjectMeta> excess;  // objects that the writes delete because they are too many
  int new_owners = 0;                   // of the Workload
};

// Immutable; made anew whenever the API server shows another version.
class QueuedJob {
 public:
  // `object_meta` may be a member of the derived class: it is not read here.
  QueuedJob(const JobKind& job_kind, const api::ObjectMeta& object_meta)
      : kind(job_kind), meta(object_meta) {}
  virtual ~QueuedJob() = default;
  QueuedJob(const QueuedJob&) = delete;
  QueuedJob& operator=(const QueuedJob&) = delete;

  const JobKind& kind;
  // Identity, labels, age. Of a job that is made of several objects: what they have in common; the
  // UID is the one that JobKind::MemberOf says.
  const api::ObjectMeta& meta;

  // The same with its pods as they are now. REQUIRES: kind.ActsOnPods().
  [[nodiscard]] virtual std::shared_ptr<const QueuedJob> WithPods(
      std::vector<std::shared_ptr<const WatchedPod>> /*pods*/) const {
    return nullptr;
  }

  // --- what it is and does ---

  // False: the object itself says that somebody else runs it, whatever its labels are.
  [[nodiscard]] virtual bool MayBeQueued() const { return true; }
  // Nothing of it runs, or will before its start: there is nothing to stop.
  [[nodiscard]] virtual bool Suspended() const = 0;
  // Something of it is held that its start lets go.
  [[nodiscard]] virtual bool Held() const { return Suspended(); }
  // The start may be written now; else it is looked at again when the job changes.
  [[nodiscard]] virtual bool MayStart() const = 0;
  // Suspended, no pod is active, and what its start had added may be taken off.
  [[nodiscard]] virtual bool Stopped(Time now) const = 0;
  // When Stopped may become true by time alone.
  [[nodiscard]] virtual std::optional<Time> StoppedAt() const { return std::nullopt; }
  // By its own status: pods run. Those on their way out don't count.
  [[nodiscard]] virtual bool Active(Time now) const = 0;
  [[nodiscard]] virtual bool Finished(bool* success, std::string* message) const = 0;
  // Why none of its pods is wanted now, by its own object; "" = they are. It then holds no quota
  // and stands in no queue.
  [[nodiscard]] virtual std::string_view OnHold() const { return ""; }
  // When its controller last started it, as far as the object says.
  [[nodiscard]] virtual std::optional<Time> StartedAt() const { return std::nullopt; }
  // Pods of it have failed: replacements may be under way.
  [[nodiscard]] virtual bool LostPods() const { return false; }
  // Pods of a pod set of its Workload that are still to run at the same time: less those that are
  // done and won't be replaced.
  [[nodiscard]] virtual int32_t Remaining(const api::PodSet& pod_set) const = 0;
  [[nodiscard]] virtual bool PodsReady(const std::vector<const api::Pod*>& pods) const = 0;
  // By pod set: pods whose quota goes back before the job ends. Only what is more than 0.
  [[nodiscard]] virtual std::vector<std::pair<std::string, int32_t>> Reclaimable() const {
    return {};
  }

  // Whether its pods are watched to their nodes after a start, and how many are to get one: all
  // that its controller makes, or all that there are.
  [[nodiscard]] virtual bool WatchesLanding() const { return true; }
  [[nodiscard]] virtual int32_t PodsToLand(const api::Workload& workload) const;

  // --- its Workload ---

  [[nodiscard]] virtual std::string WorkloadName() const;
  // It is the only owner, and the controller, of a Workload that somebody else made for it.
  [[nodiscard]] virtual bool OwnsAlone() const { return true; }
  // An existing Workload of that name may be used.
  [[nodiscard]] virtual bool MayTake(const api::Workload& /*workload*/) const { return true; }
  // All but its priority. kInvalid when a label or annotation can't be used; the message names it.
  [[nodiscard]] virtual Result<api::Workload> Describe() const = 0;
  // Whether `workload` still describes the job.
  [[nodiscard]] virtual bool Matches(const api::Workload& workload) const = 0;

  // --- elastic jobs (slices.cc) ---

  // Its size may change while it runs: it has a Workload per size.
  [[nodiscard]] virtual bool Elastic() const { return false; }
  // Matches, but for the numbers of pods.
  [[nodiscard]] virtual bool MatchesButCounts(const api::Workload& workload) const {
    return Matches(workload);
  }
  // Its pods come with the gate of elastic jobs, and are to lose it as far as there is quota.
  [[nodiscard]] virtual bool PodsHaveSliceGate() const { return false; }

  // --- writes; each is guarded by a resourceVersion or a UID ---

  // Lets it run. kInvalid when the job and what is to be added contradict each other, for good.
  // `infos`: one per pod set. REQUIRES: MayStart().
  [[nodiscard]] virtual Result<std::vector<api::WriteRequest>> Start(
      const api::Workload& workload, const std::vector<StartInfo>& infos) const = 0;
  // Holds it. Its pods go; Stopped becomes true later.
  [[nodiscard]] virtual std::vector<api::WriteRequest> Stop(const StopReason& why) const = 0;
  // Where it doesn't get to Stopped though no pod is active: what its controller should have done.
  [[nodiscard]] virtual std::vector<api::WriteRequest> ResetStart() const { return {}; }
  // Takes off what a start has added. REQUIRES: Stopped.
  [[nodiscard]] virtual std::vector<api::WriteRequest> Restore(
      const api::Workload& workload) const = 0;
  // Something that a start had added is still there.
  [[nodiscard]] virtual bool HasLeftovers() const = 0;

  // What is put in order on the way: objects of the job that are too many or of no use any more,
  // owners of the Workload. `workload` is null before it exists.
  [[nodiscard]] virtual Chores Tidy(const api::Workload* /*workload*/) const { return {}; }
  // At its end: what keeps its objects from going.
  [[nodiscard]] virtual std::vector<api::WriteRequest> Finalize() const { return {}; }
  // Its Workload is being deleted: objects that are of no use without it.
  [[nodiscard]] virtual std::vector<api::WriteRequest> Discard(const StopReason& /*why*/) const {
    return {};
  }
  // Pods of it have to be replaced by their user before it can go on; nullopt: not such a kind.
  [[nodiscard]] virtual std::optional<bool> WaitsForReplacements(
      const api::Workload& /*workload*/) const {
    return std::nullopt;
  }
  // After an eviction it can run again.
  [[nodiscard]] virtual bool RunsAgain() const { return true; }

  // --- native gangs (groups.cc) ---

  // Its pods can be put into a PodGroup when it is released.
  [[nodiscard]] virtual bool JoinsGroups() const { return false; }
  // The PodGroup that its pods join by our label, as it is now; "" = none.
  [[nodiscard]] virtual std::string GroupLabel() const { return ""; }
  // The claims that the whole gang is to share (annotation tutti.dev/gang-claims).
  [[nodiscard]] virtual Result<std::vector<api::PodClaim>> GangClaims() const {
    return std::vector<api::PodClaim>{};
  }
  // Its controller may make a group of its own at its first sync. When that was: kNoTime = not yet;
  // nullopt = it never does.
  [[nodiscard]] virtual std::optional<Time> ControllersFirstSync() const { return std::nullopt; }

  // --- for people ---

  // The object that events are about.
  [[nodiscard]] virtual const api::ObjectMeta& EventMeta() const { return meta; }
  // UID of what makes its pods, whose FailedCreate events say why one is missing; "" = nobody.
  [[nodiscard]] virtual std::string CreatorUid() const { return meta.uid; }
};

// Pods that are still to run at the same time, of all pod sets.
[[nodiscard]] int32_t GangSize(const QueuedJob& job, const api::Workload& workload);

struct PodMember {
  std::string job_uid;
  std::string pod_set;
  const JobKind* kind = nullptr;
};

// One per kind, for ever.
class JobKind {
 public:
  JobKind() = default;
  virtual ~JobKind() = default;
  JobKind(const JobKind&) = delete;
  JobKind& operator=(const JobKind&) = delete;

  // As in the configuration file (integrations.frameworks): "batch/job".
  [[nodiscard]] virtual std::string_view Framework() const = 0;
  [[nodiscard]] virtual const api::Resource& Resource() const = 0;
  // Its CRD may be missing, and may come later.
  [[nodiscard]] virtual bool Optional() const { return false; }
  // Not for kinds that are made of pods.
  [[nodiscard]] virtual Result<std::shared_ptr<const QueuedJob>> Decode(
      const Json& object) const = 0;
  // The job of this kind that a pod belongs to.
  [[nodiscard]] virtual std::optional<PodMember> MemberOf(const WatchedPod& pod) const = 0;
  // UID of the job of this kind that owns an object (a Workload, a PodGroup); "" = none.
  [[nodiscard]] virtual std::string OwnerOf(const api::ObjectMeta& object) const;
  // Its jobs have an object, and are started and stopped by their pods (QueuedJob::WithPods).
  [[nodiscard]] virtual bool ActsOnPods() const { return false; }
  // Its jobs have no object: they are made of pods, by Compose.
  [[nodiscard]] virtual bool MadeOfPods() const { return false; }
  // The job that these pods are: all with this UID by MemberOf, not empty.
  [[nodiscard]] virtual std::shared_ptr<const QueuedJob> Compose(
      const std::string& uid, const std::vector<std::shared_ptr<const WatchedPod>>& pods) const;
};

// The part of a Workload that is the same for all kinds: name, owner, labels and annotations,
// queue, time limit; no pod sets. kInvalid as QueuedJob::Describe.
Result<api::Workload> WorkloadWithoutPods(const JobKind& kind, const api::ObjectMeta& job);
// Name of the Workload that somebody else makes for the job; "" = none, ours is used. The
// annotation comes first; `annotations` false (gate WorkloadIdentifierAnnotations): the label only.
[[nodiscard]] std::string_view PrebuiltWorkloadOf(const api::ObjectMeta& job, bool annotations);
// The class that decides a job's priority when no label does: the first that a pod set names.
[[nodiscard]] std::string PriorityClassOf(const api::Workload& workload);
// A label's or annotation's value as a number above 0; nullopt when it is empty.
Result<std::optional<int32_t>> PositiveInt(std::string_view text, std::string_view where);
// A merge patch of the job's object, guarded by resourceVersion.
[[nodiscard]] api::WriteRequest JobPatch(const JobKind& kind, const api::ObjectMeta& job,
                                         Json spec);
// With its pods (propagation Background); guarded by the UID.
[[nodiscard]] api::WriteRequest DeleteJob(const QueuedJob& job);

}  // namespace tutti::reconciler
