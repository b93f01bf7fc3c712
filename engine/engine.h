// SPDX-License-Identifier: Apache-2.0
// The deciding part: queues, quota (flavors, cohorts, borrowing and lending limits) and the
// whole-gang capacity check, in one pass. Pure: no I/O, no clock, no thread, no log. Total: every
// call has a defined answer for every input. The same calls in the same order give the same
// decisions, byte for byte. Not thread-safe; owned by the loop thread.
//
// Rules: Kueue's admission semantics (docs/engine.md names the rule for each step); one difference
// in form: the cycle is repeated on the assumed state until nothing changes, so a pass admits
// everything that fits now.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/core.h"
#include "api/kueue.h"
#include "api/quantity.h"
#include "base/time.h"
#include "engine/capacity.h"

namespace tutti::engine {

// Whether a flavor's admissions need a proven place (architecture decision D8). A flavor for which
// nothing was set is kRequire. A pod set needs a place if any of its assigned flavors is kRequire.
enum class CapacityMode {
  kRequire,  // quota and a place for the whole gang
  kRelease,  // quota only; the landing time-out takes back what does not land
  kObserve,  // quota only; the missing place is said in the message of the decision
  kOff,      // quota only
};

struct PodSetInput {
  std::string name;
  int32_t count = 0;  // effective: spec count minus reclaimable pods
  std::optional<int32_t> min_count;
  api::Amounts requests;  // per pod, as quota counts them (after exclusions, transformations)
  std::shared_ptr<const api::PodShape> shape;  // never null
};

struct WorkloadInput {
  std::string id;   // "namespace/name"
  std::string uid;  // last tie-break of the order
  std::string ns;
  std::string local_queue;
  // For messages: uids of the Workload object and of its job (label kueue.x-k8s.io/job-uid).
  std::string workload_uid = {};
  std::string job_uid = {};
  int64_t priority = 0;
  Time queue_time = kNoTime;  // queue-order timestamp
  std::vector<PodSetInput> pod_sets;
  // Of the pods' claims those that all pods of the gang share (its PodGroup's, KEP-5729).
  std::vector<api::PodClaim> group_claims = {};
  // A preemption gate is closed: it may be admitted, but nobody is preempted for it.
  bool preemption_gated = false;
  // Problems found outside (limits, unreadable template): not empty = never admissible as it is.
  std::string misconfigured;
  // The problem is one of the pods' requests (PendingReason::kNotAccepted).
  bool invalid_requests = false;
  // A workload slice (elastic jobs): the reserved workload whose place this one takes, and what it
  // was admitted with. Of the same ClusterQueue: only what is more than that is asked for, in the
  // same flavors, and both together count once. "" = none.
  std::string replaces = {};
  std::optional<api::Admission> replaced = {};
};

struct PodSetDecision {
  std::string name;
  int32_t count = 0;       // less than asked for by partial admission
  api::StringMap flavors;  // resource -> flavor
  api::Amounts usage;      // total for `count` pods, resource `pods` included when covered
};

struct AdmitDecision {
  std::string id;
  std::string cluster_queue;
  std::vector<PodSetDecision> pod_sets;
  bool borrows = false;
  bool placed = false;  // a place was proven and reserved in Capacity under `id`
  // What is reserved in Capacity; slot.pod_set is an index into pod_sets. Not empty and `placed`
  // false: a best guess (kUndecided).
  Placement placement;
  // The only node of the placement, when the release must bind the gang to it (SetPinning, or
  // FitResult::tied whatever was set).
  std::string pinned_node;
  std::string note;  // kObserve, kUndecided: what was not proven
};

// Kueue's granular reasons (gate UnadmittedWorkloadsObservability) plus ours.
enum class PendingReason {
  kMisconfigured,     // queue, ClusterQueue or flavor missing; what it refers to is
  kNotAccepted,       // namespace or requests that the ClusterQueue or a LimitRange refuses
  kSuspended,         // LocalQueue or ClusterQueue stopped or inactive
  kNoMatchingFlavor,  // no flavor that the pods can use (taints, affinity) or resource not covered
  kExceedsMaxQuota,   // more than could ever be available to the ClusterQueue
  kWaitingForQuota,   // fits the maximum, not now
  kNeverFitsCluster,  // no place even on the empty cluster
  kWaitingForCapacity,            // quota is there, a place for the whole gang is not
  kWaitingForPreemptedWorkloads,  // others are being evicted for it
  kPreemptionGated,               // others would have to be, but a gate is closed
  kBehindHead,                    // StrictFIFO: waits for an older workload
  kPendingEvaluation,             // not tried yet
};
[[nodiscard]] std::string_view ToString(PendingReason reason);

struct PendingDecision {
  std::string id;
  PendingReason reason = PendingReason::kPendingEvaluation;
  std::string message;  // names the missing thing and the amount
};

// Kueue's reasons of the condition Preempted.
enum class PreemptReason {
  kInClusterQueue,
  kInCohortReclamation,
  kInCohortFairSharing,
  kInCohortReclaimWhileBorrowing,
};
[[nodiscard]] std::string_view ToString(PreemptReason reason);  // "InClusterQueue", …

// A reserved workload that has to give way. It holds its quota and place until the caller tells
// that its pods are gone (SetPending, Remove).
struct PreemptDecision {
  std::string id;
  std::string uid;  // WorkloadInput::workload_uid
  std::string cluster_queue;
  // For whom.
  std::string by;
  std::string by_uid;  // WorkloadInput::workload_uid
  std::string by_job_uid;
  std::string by_cluster_queue;
  PreemptReason reason = PreemptReason::kInClusterQueue;
  std::string by_path;  // the queues' places in the tree, as the text shows them
  std::string path;
};
// Kueue's text of the conditions Evicted and Preempted.
[[nodiscard]] std::string Describe(const PreemptDecision& decision);

struct PassResult {
  std::vector<AdmitDecision> admitted;  // in order of admission
  // Each once: they are marked as evicting. In the order in which their preemptors were decided on.
  std::vector<PreemptDecision> preempted;
  std::vector<PendingDecision>
      pending;  // only those whose reason or message changed since last told
  int cycles = 0;
};

// What status and metrics show of one ClusterQueue, LocalQueue or Cohort.
struct FlavorUsage {
  std::string flavor;
  std::string resource;
  int64_t reserved = 0;  // workloads with quota reserved
  int64_t admitted = 0;  // of these, admitted ones
  int64_t borrowed = 0;  // max(0, reserved - nominal)
  int64_t nominal = 0;
};
struct QueueReport {
  int32_t pending = 0;
  // Of these, those that wait for a change: what else waits is to be tried, has been decided on, or
  // is kept from quota that would be there. Of a StrictFIFO queue only those that can't be in line.
  int32_t parked = 0;
  int32_t reserving = 0;
  int32_t admitted = 0;
  std::vector<FlavorUsage>
      usage;  // every flavor and resource of the queue, zeros included, spec order
  // Fair sharing: how much more than its quota is reserved, per mille of what it could borrow,
  // divided by its weight; infinite for a borrower of weight 0. Not set without fair sharing.
  std::optional<double> weighted_share;
};
// A share as status.fairSharing.weightedShare has it: rounded up; the largest int64 for an infinite
// one.
[[nodiscard]] int64_t RoundShare(double share);

// Of all ClusterQueues in the subtree of a Cohort.
struct CohortReport {
  int32_t admitted = 0;            // workloads
  std::vector<FlavorUsage> usage;  // nominal: quota of the subtree; reserved: by its ClusterQueues
};

// Fair sharing between ClusterQueues (configuration section fairSharing, KEP-1714): who has
// borrowed least, by weight, goes first, and who has borrowed most gives way.
enum class FairStrategy { kLessThanOrEqualToFinalShare, kLessThanInitialShare };
struct FairSharing {
  // Rules by which a workload may preempt those of other ClusterQueues: the first is tried for all
  // candidates, the second for what it left. Empty = both, in the order above.
  std::vector<FairStrategy> strategies;
  bool operator==(const FairSharing&) const = default;
};

// Why a ClusterQueue can't admit: reason and message of its Active condition ("" = active).
struct QueueHealth {
  bool active = true;
  std::string reason = "Ready";
  std::string message = "Can admit new workloads";
};

// Admission fair sharing (configuration section admissionFairSharing, KEP-4136) within
// ClusterQueues of admission mode UsageBasedAdmissionFairSharing: the LocalQueue that used less
// lately goes first.
struct AdmissionFairSharing {
  Duration usage_half_life = Duration::zero();  // 0: the past doesn't count
  Duration usage_sampling_interval = std::chrono::minutes(5);
  std::map<std::string, double> resource_weights;  // 1 for those not named
  bool operator==(const AdmissionFairSharing&) const = default;
};
// Resource -> amount in base units (cores, bytes, devices).
using Consumption = std::map<std::string, double>;
struct PastUsage {
  Consumption consumed;  // what admitted workloads used, faded
  double usage = 0;  // weighted, prices of entering included, divided by the LocalQueue's weight
  Time updated = kNoTime;  // when the past was last faded
};

// Kueue's feature gates that change what is decided, and its resources.quotaCheckStrategy.
struct Rules {
  bool priority_within_cohort = true;  // PrioritySortingWithinCohort: heads by priority, then time
  bool ignore_undeclared = false;      // IgnoreUndeclared: a resource of no group costs nothing
  // Of workloads that equal one which was refused, those that came later are told just that
  // (SchedulingEquivalenceHashing with UnadmittedWorkloadsExplicitStatus).
  bool tell_bypassed = false;
  // Between waves of evictions in a tree of cohorts for workloads that are no more important than
  // their victims, when something has ended meanwhile, else ten times that (waves.h); 0 = no limit.
  Duration preemption_interval{};
  bool operator==(const Rules&) const = default;
};

class Engine {
 public:
  virtual ~Engine() = default;

  // --- configuration objects (as the API has them; unusable ones make their queue inactive) ---
  virtual void SetFlavor(const api::ResourceFlavor& flavor) = 0;
  virtual void RemoveFlavor(const std::string& name) = 0;
  virtual void SetFlavorCapacityMode(const std::string& flavor, CapacityMode mode) = 0;
  virtual void SetCohort(const api::Cohort& cohort) = 0;
  virtual void RemoveCohort(const std::string& name) = 0;
  virtual void SetClusterQueue(const api::ClusterQueue& queue) = 0;
  virtual void RemoveClusterQueue(const std::string& name) = 0;
  // A reason from outside that keeps the ClusterQueue inactive (a missing AdmissionCheck, say);
  // shown by Health after the engine's own reasons. "" = none. Kept for a ClusterQueue that does
  // not exist yet.
  virtual void SetQueueProblem(const std::string& cluster_queue, const std::string& reason,
                               const std::string& message) = 0;
  virtual void SetLocalQueue(const api::LocalQueue& queue) = 0;
  virtual void RemoveLocalQueue(const api::ObjectKey& key) = 0;
  virtual void SetNamespace(const std::string& name, const api::StringMap& labels) = 0;
  virtual void RemoveNamespace(const std::string& name) = 0;

  // Not set = off (the default): order by borrowing, priority, time; classical preemption.
  virtual void SetFairSharing(const std::optional<FairSharing>& fair_sharing) = 0;

  // Not set = off (the default).
  virtual void SetAdmissionFairSharing(const std::optional<AdmissionFairSharing>& config) = 0;
  // What an earlier run left in the LocalQueue's status; only the first call counts.
  virtual void RestoreConsumption(const api::ObjectKey& local_queue, const Consumption& consumed,
                                  Time now) = 0;
  // Lets the LocalQueue's past fade and adds what it uses now: to be called about every sampling
  // interval.
  virtual void SampleConsumption(const api::ObjectKey& local_queue, Time now) = 0;

  // Whether releases bind a gang that has its place on a single node to that node (label
  // kubernetes.io/hostname): decisions then say where, and nobody waits for where it goes.
  virtual void SetPinning(bool on) = 0;

  // Whether workloads may be admitted with fewer pods than they ask for, down to min_count (Kueue's
  // gate PartialAdmission). Off unless said: the caller must start no more than was decided.
  virtual void SetPartialAdmission(bool on) = 0;
  virtual void SetRules(const Rules& rules) = 0;

  // --- nodes and pods ---
  [[nodiscard]] virtual Capacity& capacity() = 0;
  [[nodiscard]] virtual const Capacity& capacity() const = 0;

  // --- workloads; an id is in exactly one of: unknown, pending, reserved ---
  // Adds or replaces a pending workload (a reserved one of the same id is released first).
  virtual void SetPending(const WorkloadInput& workload) = 0;
  // Counts the usage of an admission that exists in the API, whatever the limits say. `input` is
  // needed to reserve its place; `admitted` says whether it counts in FlavorUsage::admitted.
  // `reserved_at`: time of its condition QuotaReserved (whole seconds count); who reserved last
  // gives way first.
  // `plan`: look for a place for pods that are not bound yet (restart, admission by someone else);
  // false = keep what is reserved. Returns false if a place was wanted and none was found.
  virtual bool SetReserved(const WorkloadInput& input, const api::Admission& admission,
                           bool admitted, bool plan, Time reserved_at) = 0;
  virtual void MarkAdmitted(const std::string& id) = 0;
  // Whether the eviction of a reserved workload is under way, for whatever reason. It still holds
  // its quota and place, but will give them back, so it is the first to be counted on when others
  // have to give way. RunPass marks those that it preempts; false = the eviction was given up.
  // Unknown and pending workloads: nothing happens. SetReserved keeps the mark.
  virtual void MarkEvicting(const std::string& id, bool evicting) = 0;
  // Quota back; the reservation of nodes is dropped too (bound pods stay counted by themselves).
  virtual void Remove(const std::string& id) = 0;

  // One pass: every active queue, until nothing more can be admitted. Admitted workloads are moved
  // from pending to reserved (assumed); call Remove or SetPending to undo.
  virtual PassResult RunPass(Time now) = 0;
  // Whether anything happened since the last pass that could change its outcome.
  [[nodiscard]] virtual bool NeedsPass() const = 0;
  // When a pass has something to do without further input; nullopt = never.
  [[nodiscard]] virtual std::optional<Time> DueAt() const = 0;
  // Of a pass that is needed: whether nothing but configuration has changed. Such passes may wait
  // for more changes to come.
  [[nodiscard]] virtual bool OnlyConfigChanged() const = 0;

  // --- reports ---
  [[nodiscard]] virtual QueueHealth Health(const std::string& cluster_queue) const = 0;
  [[nodiscard]] virtual QueueReport Report(const std::string& cluster_queue) const = 0;
  [[nodiscard]] virtual QueueReport ReportLocal(const api::ObjectKey& local_queue) const = 0;
  // What all pending workloads of a ClusterQueue ask for, summed up; with a zero for each of its
  // resources. O(pending).
  [[nodiscard]] virtual api::Amounts PendingRequests(const std::string& cluster_queue) const = 0;
  // As QueueReport::weighted_share; not set without fair sharing or when nothing names the Cohort.
  [[nodiscard]] virtual std::optional<double> CohortShare(const std::string& cohort) const = 0;
  // Of a Cohort that exists, be it by name only; empty in a cycle.
  [[nodiscard]] virtual CohortReport ReportCohort(const std::string& cohort) const = 0;
  // Not set without admission fair sharing. Counted whether or not the LocalQueue's ClusterQueue is
  // ordered by it, so that it is known when that begins.
  [[nodiscard]] virtual std::optional<PastUsage> PastUsageOf(
      const api::ObjectKey& local_queue) const = 0;
  // Ids of pending workloads of a ClusterQueue in queue order.
  [[nodiscard]] virtual std::vector<std::string> PendingOrder(
      const std::string& cluster_queue) const = 0;
  [[nodiscard]] virtual std::optional<PendingDecision> WhyPending(const std::string& id) const = 0;
  [[nodiscard]] virtual std::vector<std::string> QueuesUsingFlavor(
      const std::string& flavor) const = 0;

  // The invariants of architecture.md that concern the engine, recomputed from scratch: usage sums,
  // limits, one state per workload, no node promised twice. "" or what is wrong.
  [[nodiscard]] virtual std::string SanityCheck() const = 0;
};

std::unique_ptr<Engine> MakeEngine();

}  // namespace tutti::engine
