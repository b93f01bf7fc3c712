// SPDX-License-Identifier: Apache-2.0
// The controller without the network: objects and answers go in, `Step(now)` advances time, and one
// batch of things to do comes out as data. It owns the caches, the engine and one small record per
// workload (a Unit); truth stays in the API objects, so a new Core fed with them goes on where the
// last one stopped.
//
//   OnJob, OnPod, OnWorkload, … ─┐                         ┌─> effects (writes, ordered per unit)
//   OnOutcome (own writes) ──────┼─> Step(now) ─> Output ──┼─> events, history, metrics
//   time ────────────────────────┘                         └─> NextWake()
//
// Loop thread only. Deterministic: same calls, same output.
//
// Protocol of one job (docs/lifecycle.md): held -> Workload created -> quota and place reserved in
// one pass -> status written -> PodGroup created and Job released -> landing watched -> finished,
// or taken back whole: evicted, suspended, restored as submitted, requeued.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/core.h"
#include "api/kueue.h"
#include "api/provisioning.h"
#include "api/storage.h"
#include "base/json.h"
#include "base/pace.h"
#include "base/result.h"
#include "engine/engine.h"
#include "reconciler/job_kind.h"
#include "reconciler/options.h"
#include "reconciler/output.h"
#include "reconciler/shapes.h"
#include "reconciler/status.h"
#include "reconciler/world.h"

namespace tutti::reconciler {

class Observer;

// One workload and the job that owns it.
struct Unit {
  api::ObjectKey key;          // of the Workload, existing or to be created
  std::string job_uid;         // "" = a Workload without a Job
  Time job_gone_at = kNoTime;  // its deletion was seen
  uint64_t in_flight = 0;      // token of the effect under way; 0 = none
  int failures = 0;            // of writes in a row
  Time retry_at = kNoTime;
  Time wake_at = kNoTime;  // registered timer

  enum class InEngine { kNo, kPending, kReserved };
  InEngine in_engine = InEngine::kNo;
  std::string engine_key;   // what the engine was told last, to tell it only changes
  std::string guessed_for;  // mode Observe: engine_key of what `assumed` was decided on
  // The LocalQueue in which it counts as pending though the engine does not have it (back-off,
  // gates).
  std::optional<api::ObjectKey> waiting_in;
  api::ObjectKey queued_in;  // LocalQueue, as the engine was told last
  std::string reserved_in;   // ClusterQueue, as reserved last

  // The engine admitted it; the status is not written (or its Workload not created) yet.
  std::optional<engine::AdmitDecision> assumed;
  Time assumed_at = kNoTime;  // of the decision: what the status says, however late it is written
  Time told_at = kNoTime;     // assumed_at of the decision that events and counters have
  bool creating = false;      // the Workload's POST is under way
  // Writes refused for good (by a rule, not by the moment) in a row, and what the last one said.
  int refusals = 0;
  std::string refusal;

  // A pending reason that is not written yet.
  std::optional<engine::PendingDecision> pending;
  Time pending_since = kNoTime;
  bool pending_in_flight = false;  // `pending` is in the write under way
  // It is kept back by waitForPodsReady.blockAdmission: the reason is "Waiting".
  bool pending_blocked = false;
  bool pending_in_line = false;  // in Core::tell_line_
  bool pending_turn = false;     // its turn there has come
  int pending_updates = 0;       // times that only the message was new since it was queued
  Time pending_told = kNoTime;   // last write of a reason

  // The engine wants it to give way; until the eviction is written.
  std::optional<engine::PreemptDecision> preempted;
  // An eviction was sent and not told yet: told when it is seen carried out, so that a repeated one
  // counts once.
  std::optional<Eviction> evicting;

  // With quota: whether the place that it needs was found, and whether it was given up because its
  // checks take long.
  bool placed = true;
  bool place_dropped = false;
  Time reclaim_at = kNoTime;  // next write of reclaimablePods
  Time stopped_at = kNoTime;  // since when the Job is suspended without pods and not restored yet

  // A release was sent and not told yet; the group's name ("" = none). Told when it is seen carried
  // out, so that a repeated one counts once.
  std::optional<std::string> releasing;

  // After release.
  Time released_at = kNoTime;
  std::optional<Time> first_bound_at;
  bool landed = false;
  std::optional<Time> unplaced_since;  // a replacement pod of a landed gang waits for a node
  std::map<std::string, std::vector<std::string>> planned_nodes;  // by pod set
  std::string pinned_node;                                        // "" = the scheduler may choose
  // Since when a PodGroup in deletion has a finalizer and no pods.
  Time group_stuck_since = kNoTime;
  Time group_since = kNoTime;  // a group with claims was sent
  // What was read for this start, by path; nullopt while the answer is to come.
  std::map<std::string, std::optional<Result<Json>>> reads;

  // Objects that ask for nodes (provisioning.h) are being created: kind and name of what each of
  // the writes under way creates ("" = nothing), for which check, and what the last attempt failed
  // with.
  std::vector<std::pair<std::string, std::string>> asking;
  std::string asking_check;
  std::string ask_error;
  std::string ask_error_check;
  std::set<std::string> dropped_requests;  // UIDs of those whose deletion was sent

  // Cached from the pod template of a given generation.
  std::string shape_uid;
  int64_t shape_generation = -1;
  uint64_t shape_context = 0;
  ShapeCache::Shaped shaped;
  TemplateRefs refs;
};

class Core {
 public:
  explicit Core(Options options);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // --- inputs: an object as a watch or an answer shows it; `deleted`: its last state ---
  // A job of a kind in Options::job_kinds; jobs that are made of pods come in by OnPod.
  void OnJob(std::shared_ptr<const QueuedJob> job, bool deleted);
  void OnPod(std::shared_ptr<const WatchedPod> pod, bool deleted);
  void OnNode(std::shared_ptr<const api::Node> node, bool deleted);
  void OnNamespace(std::shared_ptr<const api::Namespace> ns, bool deleted);
  void OnLimitRange(std::shared_ptr<const api::LimitRange> range, bool deleted);
  void OnPriorityClass(std::shared_ptr<const api::PriorityClass> priority, bool deleted);
  void OnRuntimeClass(std::shared_ptr<const api::RuntimeClass> runtime, bool deleted);
  void OnPodGroup(std::shared_ptr<const api::PodGroup> group, bool deleted);
  void OnResourceSlice(std::shared_ptr<const api::ResourceSlice> slice, bool deleted);
  void OnDeviceClass(std::shared_ptr<const api::DeviceClass> device_class, bool deleted);
  void OnResourceClaim(std::shared_ptr<const api::ResourceClaim> claim, bool deleted);
  void OnResourceClaimTemplate(std::shared_ptr<const api::ResourceClaimTemplate> claim_template,
                               bool deleted);
  void OnPersistentVolumeClaim(std::shared_ptr<const api::PersistentVolumeClaim> claim,
                               bool deleted);
  void OnPersistentVolume(std::shared_ptr<const api::PersistentVolume> volume, bool deleted);
  void OnStorageClass(std::shared_ptr<const api::StorageClass> storage_class, bool deleted);
  void OnCsiNode(std::shared_ptr<const api::CsiNode> node, bool deleted);
  void OnCsiDriver(std::shared_ptr<const api::CsiDriver> driver, bool deleted);
  void OnCsiStorageCapacity(std::shared_ptr<const api::CsiStorageCapacity> capacity, bool deleted);
  void OnVolumeAttachment(std::shared_ptr<const api::VolumeAttachment> attachment, bool deleted);
  void OnWorkload(std::shared_ptr<const api::Workload> workload, bool deleted);
  void OnClusterQueue(std::shared_ptr<const api::ClusterQueue> queue, bool deleted);
  void OnLocalQueue(std::shared_ptr<const api::LocalQueue> queue, bool deleted);
  void OnCohort(std::shared_ptr<const api::Cohort> cohort, bool deleted);
  void OnFlavor(std::shared_ptr<const api::ResourceFlavor> flavor, bool deleted);
  void OnAdmissionCheck(std::shared_ptr<const api::AdmissionCheck> check, bool deleted);
  void OnWorkloadPriorityClass(std::shared_ptr<const api::WorkloadPriorityClass> priority,
                               bool deleted);
  void OnProvisioningConfig(std::shared_ptr<const api::ProvisioningConfig> config, bool deleted);
  void OnProvisioningRequest(std::shared_ptr<const api::ProvisioningRequest> request, bool deleted);
  // Those with the label kueue.x-k8s.io/managed.
  void OnPodTemplate(std::shared_ptr<const api::PodTemplate> pod_template, bool deleted);
  // Whether the API server has ProvisioningRequests; when it has, all of them and their
  // PodTemplates have been passed in. Before the first call no check is judged by that.
  void SetProvisioning(bool served);
  // All kinds have been listed once: from now on absence means something.
  void OnSynced();
  // Answer to an effect: the objects that its writes returned, in order, and the error of the first
  // write that failed. Unknown tokens are ignored.
  void OnOutcome(uint64_t token, const std::vector<Json>& objects,
                 const std::optional<Error>& error);

  // Answer to a Read of the output. Unknown tokens are ignored.
  void OnRead(uint64_t token, Result<Json> answer);
  // Whether native gangs hold; before the first call they are taken on trust.
  void SetGangFinding(GangFinding finding);

  // Does everything that is due. Nothing is decided before OnSynced.
  Output Step(Time now);
  // When Step has something to do without further input; nullopt = never.
  [[nodiscard]] std::optional<Time> NextWake() const;
  // Reasons for waiting that are held back by more important writes.
  [[nodiscard]] size_t ReasonsWaiting() const { return tell_line_.size(); }
  // True when Step has something to do now.
  [[nodiscard]] bool Busy() const;

  [[nodiscard]] const engine::Engine& engine() const { return *engine_; }
  [[nodiscard]] const World& world() const { return world_; }
  [[nodiscard]] const std::map<api::ObjectKey, Unit>& units() const { return units_; }
  [[nodiscard]] size_t KnownShapes() const { return shapes_.Size(); }
  // Engine invariants plus: every unit is in one state, nothing is assumed twice. "" or the
  // problem.
  [[nodiscard]] std::string SanityCheck() const;

 private:
  friend class Observer;
  struct QueueState {
    Time looked_at = kNoTime;
    Time last_write = kNoTime;
    bool in_flight = false;
    int failures = 0;  // of writes in a row
  };

  // core.cc
  void Dirty(const api::ObjectKey& unit);
  void DirtyAll();
  void DirtyQueue(const std::string& cluster_queue);
  void DirtyCohortsAbove(const std::string& cluster_queue);
  // From the nearest one up, be they objects or names only.
  [[nodiscard]] std::vector<std::string> CohortsAbove(const std::string& cluster_queue) const;
  void RestorePast(const api::LocalQueue& queue);
  void SamplePast();
  void DirtyLocal(const api::ObjectKey& local_queue);
  void WakeAt(Unit& unit, Time when);
  enum class Emission { kActs, kTells };
  void Emit(Unit& unit, std::vector<api::WriteRequest> writes, Emission why = Emission::kActs);
  // What is read on demand for a unit: the answer, or nullptr while it is to come.
  const Result<Json>* Ask(Unit& unit, const std::string& path);
  void RunPass();
  [[nodiscard]] Time PassDue() const;
  void ApplyAdmissions(const engine::PassResult& pass);
  void ApplyPreemptions(const engine::PassResult& pass);
  void SetPendingDecision(Unit& unit, engine::PendingDecision decision, bool blocked);
  // waitForPodsReady.blockAdmission: somebody's pods are not ready yet. Tells those that wait.
  bool BlockedByReadiness();
  void TellUnblocked();  // what they wait for instead
  void AbsorbObject(const Json& object);
  void Event(const QueuedJob& job, bool warning, std::string_view reason, std::string message);
  void EventOn(const api::Workload& workload, bool warning, std::string_view reason,
               std::string message);
  void History(HistoryKind kind, const Unit& unit, const api::Workload* workload,
               std::string reason, std::string message);
  void Count(std::string name, std::vector<std::pair<std::string, std::string>> labels,
             double value = 1);
  void Observe(std::string name, std::vector<std::pair<std::string, std::string>> labels,
               double value);
  // Labels of what is counted per ClusterQueue and per LocalQueue.
  static std::vector<std::pair<std::string, std::string>> QueueLabels(
      const api::Workload& workload, const std::string& cluster_queue);

  // devices.cc
  void LinkClaim(const api::ResourceClaim& claim);
  void DevicesChanged(uint64_t version_before);
  // Adds what the pod set's devices cost to its requests, or says why that can't be told.
  // Claims that the gang shares cost no pod anything, as claims that exist by themselves.
  void ChargeDevices(const Unit& unit, const std::vector<api::PodClaim>& shared,
                     engine::PodSetInput& pod_set, std::string& misconfigured);
  void LinkClaimsOf(const std::string& pod_uid);

  // inputs.cc
  void ForgetJob(const std::string& uid);
  void JobChanged(const std::shared_ptr<const QueuedJob>& job, bool deleted);
  // The job that is made of pods with this UID, or acts on them, as they are now.
  void ComposeJob(const PodMember& member);
  [[nodiscard]] std::vector<std::shared_ptr<const WatchedPod>> QueuedPodsOf(
      const std::string& job_uid) const;
  void LinkPod(const WatchedPod& pod);
  void RelinkPodsOf(const std::string& job_uid);
  void UnlinkPod(const std::string& job_uid, const api::ObjectKey& pod);
  void RefreshCapacityModes();
  [[nodiscard]] engine::CapacityMode ModeOf(const api::ResourceFlavor& flavor) const;
  [[nodiscard]] bool Managed(const QueuedJob& job) const;
  // The topmost managed job that has made the job, itself or through others; nullptr = none.
  [[nodiscard]] std::shared_ptr<const QueuedJob> ManagedAncestor(const QueuedJob& job) const;

  // units.cc: the state machine; each returns after at most one effect
  void ReconcileUnit(Unit& unit);
  void ReconcileWithoutJob(Unit& unit, const api::Workload& workload);
  void ReconcileDuplicate(Unit& unit, const QueuedJob& job, const api::Workload* workload);
  void Forget(const api::ObjectKey& unit);
  void ReconcileFinished(Unit& unit, const QueuedJob& job, const api::Workload* workload,
                         bool success, const std::string& message);
  // A job that a managed one has made doesn't run while that one has no quota.
  void HoldChild(Unit& unit, const QueuedJob& job);
  // A Workload of another kind has the name that the job's would have.
  void ReconcileRefused(Unit& unit, const QueuedJob& job);
  // QueuedJob::Tidy, and the condition WaitingForReplacementPods. True when something was written.
  bool RunChores(Unit& unit, const QueuedJob& job, const api::Workload* workload);
  void CreateWorkload(Unit& unit, const QueuedJob& job);
  // Where the Workload of a job is or is to be.
  [[nodiscard]] api::ObjectKey WorkloadKeyOf(const QueuedJob& job) const;
  // A Workload that somebody else made for the job becomes the job's. False: it is another one's.
  // REQUIRES: the job names a prebuilt Workload, which is `workload`.
  bool AdoptWorkload(Unit& unit, const QueuedJob& job, const api::Workload& workload);
  // spec.priority follows the job's classes, or its own WorkloadPriorityClass. True when something
  // was written.
  bool SyncPriority(Unit& unit, const QueuedJob* job, const api::Workload& workload);
  bool SyncSpec(Unit& unit, const QueuedJob& job, const api::Workload& workload);
  [[nodiscard]] std::optional<Priority> PriorityOf(const QueuedJob& job,
                                                   std::string_view class_of_pods);
  void LeaveEngine(Unit& unit);
  void SetWaiting(Unit& unit, const api::Workload* workload, bool waiting);

  void WriteReservation(Unit& unit, const api::Workload& workload);
  void CountFinished(const api::Workload& workload);
  // Retention of finished Workloads.
  void DeleteFinished(Unit& unit, const api::Workload& workload);

  // elastic.cc: jobs that change their size while they run (slices.h)
  [[nodiscard]] bool Sliced(const QueuedJob& job) const;
  // QueuedJob::Matches; of an elastic job without the numbers of pods, which Resize looks after.
  [[nodiscard]] bool Describes(const api::Workload& workload, const QueuedJob& job) const;
  void LinkSlice(const api::Workload& workload, const std::string& job_uid, bool deleted);
  // All units of an elastic job.
  void DirtySlices(const std::string& job_uid);
  // The units of the chain that a pod with a slice's name belongs to.
  void LinkSlicePod(const WatchedPod& pod, bool deleted);
  // The job's unit becomes that of its head. REQUIRES: Sliced(job).
  void FollowSlices(const QueuedJob& job);
  void TakeUp(const QueuedJob& job, const api::ObjectKey& key);
  // A unit of an elastic job that isn't its head: it waits to take the head's place, or has ended.
  void ReconcileSlice(Unit& unit, const QueuedJob& job, const api::Workload* workload);
  // `by`: has taken its place; null: it is of no use any more.
  void FinishSlice(Unit& unit, const api::Workload& workload, const api::Workload* by);
  // A workload slice whose place another one has taken: finished, and true.
  bool EndReplaced(Unit& unit, const api::Workload& workload);
  // The head's number of pods follows the job: in place where it isn't more than there is quota
  // for, else by another Workload. True when something was written.
  bool Resize(Unit& unit, const QueuedJob& job, const api::Workload& workload);
  // The pods that the job asks for, in the order of its pod sets; nullopt: they are other pod sets.
  [[nodiscard]] static std::optional<std::vector<int32_t>> WantedCounts(
      const QueuedJob& job, const api::Workload& workload);
  // Has quota, and the job asks for more.
  [[nodiscard]] static bool Outgrown(const QueuedJob& job, const api::Workload& workload);
  // The Workload that waits to take this one's place; null = none.
  [[nodiscard]] std::shared_ptr<const api::Workload> NextSlice(const api::Workload& workload) const;
  // Is being evicted, or about to be.
  [[nodiscard]] bool GivesWay(const api::Workload& workload) const;
  // What a reserved Workload holds by its status, less the pods that it was made smaller by and
  // those that have been given back.
  [[nodiscard]] api::Admission HeldBy(const api::Workload& workload) const;
  // Pods of its pod set that have been given back.
  [[nodiscard]] int32_t GivenBack(const api::Workload& workload, const api::PodSet& pod_set,
                                  const QueuedJob* job) const;
  // The pods of its chain, and those of its job that don't say of which chain they are.
  [[nodiscard]] std::vector<PodPtr> PodsOfSlice(const api::Workload& workload,
                                                const std::string& job_uid) const;
  // Held pods start as far as there is quota. True when something was written.
  bool LetPodsGo(Unit& unit, const QueuedJob& job, const api::Workload& workload);

  // eviction.cc: how quota is taken away. What returns after a write does so with unit.in_flight
  // set.
  void EvictUnit(Unit& unit, const QueuedJob* job, const api::Workload& workload,
                 const Eviction& eviction);
  void TellEviction(Unit& unit, const api::Workload& workload);
  void TellPreemption(const api::Workload& victim, const engine::PreemptDecision& decision);
  [[nodiscard]] double SecondsSince(const api::Condition* condition) const;
  // Not placed as planned: evicted with back-off, cause NotPlaced.
  void TakeBack(Unit& unit, const QueuedJob& job, const api::Workload& workload,
                const std::string& message);
  // With back-off by requeueState.count, or deactivated when that reaches its limit.
  void EvictNotReady(Unit& unit, const QueuedJob* job, const api::Workload& workload,
                     Eviction eviction, Duration backoff_base, Duration backoff_max);
  // By the controller: DeactivationTarget, then spec.active=false; the eviction follows from that.
  void Deactivate(Unit& unit, const api::Workload& workload, std::string_view cause,
                  const std::string& message);
  // Acts on spec.active and DeactivationTarget. True when something was written.
  bool FollowDeactivation(Unit& unit, const QueuedJob* job, const api::Workload& workload);
  // Everything that may end a reservation, or admit it. True = it stays as it is.
  // REQUIRES: workload.QuotaReserved(), not evicted.
  bool KeepReservation(Unit& unit, const QueuedJob* job, const api::Workload& workload);
  // Of a workload without a job that still has its quota though its back-off is over.
  void EndBackoff(Unit& unit, const api::Workload& workload);
  // Whether the Workload exists for which it gives way: what is written names its UID. One that was
  // decided on in the moment in which its Workload is created is waited for.
  bool KnowsPreemptor(Unit& unit);
  // A reservation from which nothing was started ends without an eviction.
  void Withdraw(Unit& unit, const api::Workload& workload, std::string_view reason,
                const std::string& message);
  // Of a job that wants no pods now: quota is given back when none runs any more.
  void PutOnHold(Unit& unit, const QueuedJob& job, const api::Workload& workload);
  // Suspends, waits, restores. True when the job is stopped and as submitted.
  bool StopJob(Unit& unit, const QueuedJob& job, const api::Workload& workload,
               std::vector<api::WriteRequest> with_restore);
  void ReconcileEvicted(Unit& unit, const QueuedJob& job, const api::Workload& workload);

  // pending.cc: without quota
  void ReconcilePending(Unit& unit, const QueuedJob* job, const api::Workload& workload);
  bool ReadyToQueue(Unit& unit, const QueuedJob* job, const api::Workload& workload);
  [[nodiscard]] Time QueueTime(const api::Workload& workload, Time created) const;
  // Retention of Jobs whose Workload the controller has deactivated.
  void DeleteDeactivated(Unit& unit, const QueuedJob& job, const api::Workload& workload);
  void WritePendingReason(Unit& unit, const api::Workload& workload);
  void TellReasons();  // of those in line whose turn has come
  [[nodiscard]] bool IsDue(const Unit& unit, const api::Workload& workload) const;
  [[nodiscard]] ReasonStyle Style() const;
  [[nodiscard]] int32_t Boost(const api::Workload& workload) const;
  [[nodiscard]] std::shared_ptr<const api::Workload> ReplacedBy(
      const api::Workload& workload) const;
  engine::WorkloadInput InputFor(Unit& unit, const api::Workload& workload, const QueuedJob* job);
  // Differs when the engine has to be told again.
  [[nodiscard]] static std::string EngineKeyOf(const engine::WorkloadInput& input);
  void Shape(Unit& unit, const api::Workload& workload);

  // reservation.cc: with quota
  // What a workload with quota holds: its admission, less the pods that have succeeded.
  engine::WorkloadInput ReservedInput(Unit& unit, const QueuedJob* job,
                                      const api::Workload& workload);
  void SyncReservation(Unit& unit, const QueuedJob* job, const api::Workload& workload);
  // What has quota by its status is counted, whatever becomes of it.
  void HoldQuota(Unit& unit, const QueuedJob* job, const api::Workload& workload);
  // Looks for a place for the pods that have none.
  void PlanAgain(Unit& unit, const QueuedJob& job, const api::Workload& workload);
  // While checks are pending the place is kept for Options::place_hold only.
  void HoldPlace(Unit& unit, const api::Workload& workload);
  // The list of checks follows the ClusterQueue and the flavors. True when it was written.
  bool SyncCheckList(Unit& unit, const api::Workload& workload, const api::ClusterQueue& queue);
  void TellAdmission(const api::Workload& workload);

  // readiness.cc: what a running job is watched for. True when something was written (KeepTime:
  // false).
  bool SyncPodsReady(Unit& unit, const QueuedJob& job, const api::Workload& workload);
  bool SyncReclaimable(Unit& unit, const QueuedJob& job, const api::Workload& workload);
  bool KeepTime(Unit& unit, const QueuedJob* job, const api::Workload& workload);
  // Creation, or the last return to the queue.
  [[nodiscard]] static Time QueuedSince(const api::Workload& workload);

  // release.cc: from reservation to landing
  void ReconcileReserved(Unit& unit, const QueuedJob& job, const api::Workload& workload);
  // What the start adds to each pod set. kInvalid: two checks contradict each other.
  [[nodiscard]] Result<std::vector<StartInfo>> StartInfosFor(const Unit& unit,
                                                             const api::Workload& workload) const;
  void StartJob(Unit& unit, const QueuedJob& job, const api::Workload& workload);
  void TellRelease(Unit& unit, const QueuedJob& job, const api::Workload& workload);
  void WatchLanding(Unit& unit, const QueuedJob& job, const api::Workload& workload);
  void WatchRunning(Unit& unit, const QueuedJob& job, const api::Workload& workload);

  // groups.cc: PodGroups
  // What must be true of a job's group before its release.
  struct GroupPlan {
    enum class Kind { kReady, kWait, kRefused };
    Kind kind = Kind::kReady;
    std::string name;                       // for the label; "" = none
    std::vector<api::WriteRequest> writes;  // before the release, in the same effect
    std::string reason;                     // kRefused

    GroupPlan Wait() {
      kind = Kind::kWait;
      return std::move(*this);
    }
    GroupPlan Refuse(std::string why) {
      kind = Kind::kRefused;
      reason = std::move(why);
      return std::move(*this);
    }
  };
  [[nodiscard]] bool UseGroups() const;
  // Why a job could not be released as it asks for its group; "" = it could.
  [[nodiscard]] std::string GroupProblem(const Unit& unit, const QueuedJob& job) const;
  GroupPlan PlanGroup(Unit& unit, const QueuedJob& job, const api::Workload& workload,
                      int32_t needed);
  GroupPlan PlanPresetGroup(Unit& unit, const QueuedJob& job, int32_t needed);
  GroupPlan PlanControllersGroup(Unit& unit, const api::PodGroup& theirs, int32_t needed,
                                 bool claims);
  GroupPlan AwaitClaims(Unit& unit, const api::PodGroup& group,
                        const std::vector<api::PodClaim>& claims, GroupPlan plan);
  bool HelpReplacement(Unit& unit, const QueuedJob& job, const api::Workload& workload,
                       const api::Pod* unplaced, int32_t live);
  [[nodiscard]] std::vector<api::WriteRequest> DeleteGroups(const std::string& job_uid) const;
  // Takes the finalizer off groups whose controller does not do it. True while there are such
  // groups.
  bool StripStuckGroups(Unit& unit);

  // provision.cc: nodes are asked for (AdmissionChecks of names::kProvisioningController). True
  // when something was written.
  bool SyncProvisioning(Unit& unit, const api::Workload& workload);
  // Requests of a workload that has ended or gives its quota back go away.
  bool EndProvisioning(Unit& unit, const api::Workload& workload);
  void TellAsked(Unit& unit, size_t written, const std::optional<Error>& error);
  [[nodiscard]] std::vector<const api::ProvisioningRequest*> RequestsOf(
      const api::Workload& workload) const;
  void JudgeProvisioningChecks();
  // Flavors whose nodes are made by an autoscaler on request.
  [[nodiscard]] std::set<std::string> ProvisionedFlavors() const;

  // partial.cc: gangs of which some pods have a node and others don't, for how long
  void CountPartial();
  static constexpr Duration kLeastPartial = std::chrono::seconds(10);  // that counts

  // queues.cc: statuses and finalizers of queues and flavors
  void ReconcileQueues();
  void ReconcileClusterQueue(const api::ObjectKey& key);
  void ReconcileLocalQueue(const api::ObjectKey& key);
  void ReconcileCohort(const api::ObjectKey& key);
  void ReconcileFlavor(const api::ObjectKey& key);
  void ReconcileAdmissionCheck(const api::ObjectKey& key);
  // Tells the engine what the queue's checks keep it from.
  void JudgeChecks(const api::ClusterQueue& queue);
  void EmitQueueWrite(const std::string& order_key, api::WriteRequest write);
  // Its status, or a finalizer, is to be looked at when it is due.
  void DirtyStatus(const std::string& order_key);
  [[nodiscard]] Time StatusDue(const std::string& order_key) const;
  // May the counts of a queue be written now? Else it is looked at again later.
  bool MayTellStatus(const std::string& order_key);
  // When the next write of a queue may go out: coalesced, and later after failures.
  [[nodiscard]] Time NextQueueWrite(const QueueState& state) const;
  void FinalizerWrite(const std::string& order_key, api::Kind kind, const api::ObjectMeta& meta,
                      bool wanted);

  Options options_;
  Pace reasons_{PaceOptions{.busy_rate = 3}};   // of waiting, that are written
  Pace statuses_{PaceOptions{.busy_rate = 5}};  // of queues
  // Units whose reason for waiting is due and has to wait itself, the oldest reason first.
  std::set<std::pair<Time, api::ObjectKey>> tell_line_;
  World world_;
  std::unique_ptr<engine::Engine> engine_;
  ShapeCache shapes_;
  size_t shapes_trimmed_ = 0;  // how many were left after the last sweep
  std::map<api::ObjectKey, Unit> units_;
  std::map<std::string, api::ObjectKey> unit_of_job_;         // by job UID
  std::map<std::string, std::set<std::string>> children_of_;  // UIDs, by that of their ancestor
  // Units of jobs that may not take the Workload of their name (QueuedJob::MayTake), by that name.
  std::map<api::ObjectKey, std::set<api::ObjectKey>> refused_units_;
  // Workload slices by the one whose place they take, by the UID of their job, and by their chain.
  std::map<api::ObjectKey, std::set<api::ObjectKey>> slices_of_;
  std::map<std::string, std::set<api::ObjectKey>> slices_of_job_;
  std::map<api::ObjectKey, std::set<api::ObjectKey>> slices_of_chain_;
  // Pods that say of which chain they are.
  std::map<api::ObjectKey, std::set<api::ObjectKey>> pods_of_chain_;
  // Who gives way for a job whose Workload is being created, by that Workload.
  std::map<api::ObjectKey, std::set<api::ObjectKey>> victims_of_;
  // PodGroups that templates name, and whose they are.
  std::map<api::ObjectKey, std::set<api::ObjectKey>> units_of_preset_;
  std::set<api::ObjectKey> dirty_units_;
  std::set<std::pair<Time, api::ObjectKey>> timers_;
  std::map<uint64_t, api::ObjectKey> unit_of_token_;
  std::map<uint64_t, std::string> queue_of_token_;
  std::map<uint64_t, std::pair<api::ObjectKey, std::string>> read_of_token_;  // unit, path
  std::set<std::string> dirty_queues_;  // order keys (DirtyStatus): "ClusterQueue/x",
                                        // "LocalQueue/ns/x", "ResourceFlavor/x"
  Time status_due_ = Time::max();       // of the first of dirty_queues_
  std::map<std::string, QueueState> queue_states_;
  // Checks by UID: had the condition Active when they were first seen, and ours not since.
  std::map<std::string, bool> claimed_checks_;
  std::map<api::ObjectKey, int32_t> waiting_in_queue_;  // LocalQueue -> units outside the engine
  std::map<std::string, std::shared_ptr<const api::Node>> nodes_;
  std::set<std::string> autoscaled_nodes_;
  std::map<std::string, engine::CapacityMode> capacity_modes_;  // as told to the engine
  bool capacity_modes_stale_ = true;
  std::set<std::string> provisioned_flavors_;
  bool provisioned_flavors_stale_ = true;
  std::optional<bool> provisioning_;  // ProvisioningRequests are served; nullopt = not known yet
  engine::DeviceQuota device_quota_;
  std::set<api::ObjectKey> units_with_devices_;  // of units_: ask for some, or did once
  uint64_t context_version_ = 1;                 // of limit ranges and runtime classes
  uint64_t next_token_ = 1;
  Time last_pass_ = kNoTime;
  bool synced_ = false;
  bool first_step_ = true;
  GangFinding gang_finding_;
  bool blocked_ = false;                // by waitForPodsReady.blockAdmission, at the last step
  bool job_controller_groups_ = false;  // it makes groups by itself (gate WorkloadWithJob)
  Time now_ = kNoTime;
  Time next_sample_ = kNoTime;              // of past usage; not set without admission fair sharing
  std::set<std::string> look_for_partial_;  // UIDs of jobs whose pods have changed
  struct Partial {
    Time since;
    Time counted;  // up to
    api::ObjectKey local_queue;
  };
  std::map<std::string, Partial> partial_;  // by UID of the job
  std::unique_ptr<Observer> observer_;      // mode Observe
  Output out_;
};

}  // namespace tutti::reconciler
