// SPDX-License-Identifier: Apache-2.0
// The engine's state and how its parts hang together. Owned by the loop thread.
//
//   names ── config (flavors, queues, cohorts) ── QuotaTree (rebuilt lazily when config changes)
//                     │
//   LocalQueue ── QueueState ── PendingQueue (classes of equal workloads, order)
//                     │              │ RunPass: nominate → order → Stage → commit
//   WorkloadState ────┴── usage books (queue, LocalQueue) and Capacity reservations
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/assigner.h"
#include "engine/config.h"
#include "engine/engine.h"
#include "engine/fair_share.h"
#include "engine/ids.h"
#include "engine/pending_queue.h"
#include "engine/preemption.h"
#include "engine/quota_tree.h"
#include "engine/refusal.h"
#include "engine/stage.h"
#include "engine/tournament.h"
#include "engine/usage_ledger.h"
#include "engine/waves.h"
#include "engine/workload_spec.h"

namespace tutti::engine {

// Sums of what reserved workloads use.
struct UsageBook {
  struct Sums {
    Amount reserved = 0;
    Amount admitted = 0;
    bool operator==(const Sums&) const = default;
  };
  int32_t reserving = 0;
  int32_t admitted = 0;
  std::map<FlavorResourceId, Sums> usage;  // no zero entries
  bool operator==(const UsageBook&) const = default;
  void Add(const Usage& more, bool is_admitted, int sign);
};

// Finds a workload by its id, which only its OrderKey has.
struct HashOfId {
  using is_transparent = void;
  const OrderTable* keys;
  size_t operator()(std::string_view id) const { return std::hash<std::string_view>()(id); }
  size_t operator()(WorkloadId id) const { return (*this)((*keys)[id.value].id); }
};
struct SameId {
  using is_transparent = void;
  const OrderTable* keys;
  bool operator()(WorkloadId a, WorkloadId b) const { return a == b; }
  bool operator()(WorkloadId a, std::string_view id) const { return (*keys)[a.value].id == id; }
  bool operator()(std::string_view id, WorkloadId a) const { return (*this)(a, id); }
};

struct LocalQueueState {
  api::ObjectKey key;
  bool exists = false;
  bool stopped = false;
  QueueId queue;  // not valid when the LocalQueue does not exist
  double fair_weight = 1;
  std::vector<WorkloadId> pending;  // in no order; WorkloadState::place_in_local
  UsageBook book;
};

struct QueueState {
  QueueState(const OrderTable* keys, std::function<void()> on_change)
      : pending(std::make_unique<PendingQueue>(keys, std::move(on_change))),
        outside(ByOrder{keys}),
        waiting(ByOrder{keys}),
        reserved(ByYielding{keys}) {}
  std::string name;
  bool exists = false;
  QueueConfig config;
  std::string outside_reason;  // SetQueueProblem
  std::string outside_message;
  NodeId node;  // valid when it exists and the tree is fresh
  QueueHealth health;
  std::unique_ptr<PendingQueue> pending;
  WorkloadSet outside;  // pending, but kept out of the order: misconfigured, foreign namespace
  WorkloadSet waiting;  // pending, decided on, until those whom they preempt are gone
  HolderSet reserved;
  int evicting = 0;  // of `reserved`
  UsageBook book;

  bool lively = false;    // in EngineImpl::lively_
  bool wake = false;      // parked classes are to be tried again
  bool touched = false;   // tried something in this pass
  bool tell_all = false;  // compare every workload with what it was told
  std::vector<WorkloadId> untold;
  std::vector<ClassId> changed;  // classes with a new refusal
  uint64_t told_behind = 0;      // fingerprint of what those behind a StrictFIFO head were told
  WorkloadId told_head;
};

// Of a workload that takes the place of another (engine_slices.cc): WorkloadInput::replaces and
// ::replaced, and all that it was admitted with.
struct Replacement {
  std::string replaces;
  std::optional<api::Admission> replaced;
  Usage whole;
};

// There may be a million of these: what is rare is apart, and what equal workloads share is shared.
// Id, uid and the times are in the OrderKey.
struct WorkloadState {
  static constexpr uint64_t kNotParked = std::numeric_limits<uint64_t>::max();
  enum class Phase : uint8_t { kFree, kPending, kReserved };
  enum class Place : uint8_t { kUnqueued, kOutside, kQueued, kWaiting };
  Phase phase = Phase::kFree;
  Place place = Place::kUnqueued;
  bool preemption_gated = false;
  bool invalid_requests = false;
  // Of reserved ones.
  bool admitted = false;
  bool evicting = false;
  bool fresh = false;  // reserved by the running pass

  LocalQueueId local_queue;
  uint32_t place_in_local = 0;  // index in LocalQueueState::pending
  QueueId queue;
  std::shared_ptr<const WorkloadSpec> spec;
  std::string workload_uid;
  std::string job_uid;
  std::string misconfigured;
  std::unique_ptr<Replacement> replacement;  // null: none
  uint64_t arrival = 0;                      // Waves::Arrive when it came or was changed
  uint64_t told = 0;                         // fingerprint of the reason told last; 0 = nothing
  uint64_t told_details = 0;                 // Explanation::details of the message told last
  uint64_t joined_at = kNotParked;           // WorkloadClass::tries when it joined a parked class
  Usage usage;  // of reserved ones; without what the one that it replaces has
};

class EngineImpl final : public Engine {
 public:
  EngineImpl();

  void SetFlavor(const api::ResourceFlavor& flavor) override;
  void RemoveFlavor(const std::string& name) override;
  void SetFlavorCapacityMode(const std::string& flavor, CapacityMode mode) override;
  void SetCohort(const api::Cohort& cohort) override;
  void RemoveCohort(const std::string& name) override;
  void SetClusterQueue(const api::ClusterQueue& queue) override;
  void RemoveClusterQueue(const std::string& name) override;
  void SetQueueProblem(const std::string& cluster_queue, const std::string& reason,
                       const std::string& message) override;
  void SetLocalQueue(const api::LocalQueue& queue) override;
  void RemoveLocalQueue(const api::ObjectKey& key) override;
  void SetNamespace(const std::string& name, const api::StringMap& labels) override;
  void RemoveNamespace(const std::string& name) override;
  void SetFairSharing(const std::optional<FairSharing>& fair_sharing) override;
  void SetAdmissionFairSharing(const std::optional<AdmissionFairSharing>& config) override;
  void RestoreConsumption(const api::ObjectKey& local_queue, const Consumption& consumed,
                          Time now) override;
  void SampleConsumption(const api::ObjectKey& local_queue, Time now) override;
  void SetPinning(bool on) override { pinning_ = on; }
  void SetPartialAdmission(bool on) override;
  void SetRules(const Rules& rules) override;
  [[nodiscard]] Capacity& capacity() override { return *capacity_; }
  [[nodiscard]] const Capacity& capacity() const override { return *capacity_; }
  void SetPending(const WorkloadInput& workload) override;
  bool SetReserved(const WorkloadInput& input, const api::Admission& admission, bool admitted,
                   bool plan, Time reserved_at) override;
  void MarkAdmitted(const std::string& id) override;
  void MarkEvicting(const std::string& id, bool evicting) override;
  void Remove(const std::string& id) override;
  PassResult RunPass(Time now) override;
  [[nodiscard]] bool NeedsPass() const override;
  [[nodiscard]] std::optional<Time> DueAt() const override { return waves_.Over(); }
  [[nodiscard]] bool OnlyConfigChanged() const override { return needs_pass_ && only_config_; }
  [[nodiscard]] QueueHealth Health(const std::string& cluster_queue) const override;
  [[nodiscard]] QueueReport Report(const std::string& cluster_queue) const override;
  [[nodiscard]] QueueReport ReportLocal(const api::ObjectKey& local_queue) const override;
  [[nodiscard]] api::Amounts PendingRequests(const std::string& cluster_queue) const override;
  [[nodiscard]] CohortReport ReportCohort(const std::string& cohort) const override;
  [[nodiscard]] std::optional<double> CohortShare(const std::string& cohort) const override;
  [[nodiscard]] std::optional<PastUsage> PastUsageOf(
      const api::ObjectKey& local_queue) const override;
  [[nodiscard]] std::vector<std::string> PendingOrder(
      const std::string& cluster_queue) const override;
  [[nodiscard]] std::optional<PendingDecision> WhyPending(const std::string& id) const override;
  [[nodiscard]] std::vector<std::string> QueuesUsingFlavor(
      const std::string& flavor) const override;
  [[nodiscard]] std::string SanityCheck() const override;

 private:
  using Phase = WorkloadState::Phase;
  using Place = WorkloadState::Place;

  using PodSets = std::shared_ptr<const std::vector<PodSetSpec>>;

  // One head of a ClusterQueue in one cycle.
  struct Entry {
    QueueId queue;
    WorkloadId workload;
    ClassId cls;
    bool hold_only = false;  // a parked StrictFIFO head that only keeps its quota
    int level = 0;
    uint64_t reservations = 0;  // value of reservations_ at nomination
    PodSets pod_sets;           // with the counts of `assignment`
    Assignment assignment;
    // Of FitMode::kPreempt: whether it can be admitted once `victims` (none: others that leave
    // anyway) are gone, and where its pods go then.
    bool way_out = false;
    bool place_missing = false;  // others could give quota, but no place
    std::vector<Victim> victims;
    Placement later;
    size_t waiting = 0;  // size of waiting_ at nomination
  };
  enum class Tried : uint8_t { kAdmitted, kWaits, kSkipped };
  // A workload that will be admitted when its victims are gone.
  struct Waiting {
    WorkloadId workload;
    Refusal refusal;
    size_t victims = 0;
    std::vector<std::string> pod_sets;  // names
    std::vector<size_t> flavors;        // Assignment::contested
    Gang gang;
    Placement placement;
  };
  // What the running pass keeps for a waiting workload: the tree has its usage in place of that of
  // its victims.
  struct Hold {
    NodeId queue;
    Usage usage;
    std::vector<Victim> victims;
  };
  // Hands out the entries of one cycle, each once; an entry has been processed when the next is
  // asked for.
  class EntryOrder {
   public:
    // `entries` may be reordered; they outlive this object and keep their usage until handed out.
    EntryOrder(EngineImpl& engine, std::vector<Entry>& entries);
    Entry* Next();  // null at the end
    // The usage of a ClusterQueue has changed that is not the one of the last entry.
    void UsageChanged(NodeId queue);

   private:
    std::vector<Entry>& entries_;
    std::optional<Tournament> tournament_;  // with fair sharing
    size_t next_ = 0;
  };
  struct Explanation {
    PendingReason reason = PendingReason::kPendingEvaluation;
    uint64_t fingerprint = 0;
    uint64_t details = 0;  // of the text
    std::string text;      // only when asked for
  };

  // --- tables (engine.cc) ---
  QueueState& Queue(QueueId id) { return queues_[id.value]; }
  [[nodiscard]] const QueueState& Queue(QueueId id) const { return queues_[id.value]; }
  // Something changed in it: the next pass looks at it.
  void Mark(QueueId id);
  [[nodiscard]] bool IsIdle(const QueueState& queue) const;
  LocalQueueState& Local(LocalQueueId id) { return local_queues_[id.value]; }
  [[nodiscard]] const LocalQueueState& Local(LocalQueueId id) const {
    return local_queues_[id.value];
  }
  WorkloadState& Workload(WorkloadId id) { return workloads_[id.value]; }
  [[nodiscard]] const WorkloadState& Workload(WorkloadId id) const { return workloads_[id.value]; }
  [[nodiscard]] const OrderKey& Key(WorkloadId id) const { return keys_[id.value]; }
  QueueId QueueByName(const std::string& name);
  LocalQueueId LocalByKey(const api::ObjectKey& key);
  FlavorConfig& Flavor(const std::string& name);
  [[nodiscard]] WorkloadId Find(const std::string& id) const;
  WorkloadId FindOrAdd(const std::string& id);
  void Fill(WorkloadId id, const WorkloadInput& input, std::shared_ptr<const WorkloadSpec> spec);
  void Free(WorkloadId id);
  [[nodiscard]] std::shared_ptr<const WorkloadSpec> SpecOf(const WorkloadInput& input);
  void DropSpec(WorkloadState& workload);

  // --- quota tree (engine_tree.cc) ---
  void ConfigChanged();
  void EnsureTree() const;  // rebuilds tree_ and health when configuration changed
  void Rebuild();
  void ShareFairly();
  void JudgeHealth(QueueState& queue) const;
  void Wake(QueueId queue);  // the whole cohort tree of it
  void ExcuseOverLimit(NodeId node, FlavorResourceId pair);

  // --- workloads (engine.cc) ---
  void Attach(WorkloadId id);
  void Enqueue(WorkloadId id);
  void Detach(WorkloadId id);
  void Resolve(std::vector<WorkloadId> ids);
  void ResolveQueue(QueueId queue);
  [[nodiscard]] WorkloadId HoldingHead(const QueueState& queue) const;
  void AddToBooks(WorkloadId id, int sign);
  void ReleaseQuota(WorkloadId id);
  void SetEvicting(WorkloadId id, bool evicting);  // REQUIRES: it is reserved
  bool PlanReserved(WorkloadId id, const api::Admission& admission);
  [[nodiscard]] std::vector<PodSetSpec> Specs(const WorkloadInput& input);
  [[nodiscard]] bool IsParked(WorkloadId id) const;

  // --- workload slices (engine_slices.cc) ---
  [[nodiscard]] WorkloadId Replaced(WorkloadId id) const;
  void SetReplacement(WorkloadId id, const WorkloadInput& input);
  void DropReplacement(WorkloadId id);
  void SetHeld(WorkloadId id, std::vector<PodSetSpec>& specs) const;
  [[nodiscard]] PodSets SpecsOf(WorkloadId id, const WorkloadClass& cls) const;
  [[nodiscard]] Usage Beyond(const Usage& whole, WorkloadId replaced) const;
  void Recount(const std::string& replaced);

  // --- past usage of LocalQueues (engine_usage.cc) ---
  [[nodiscard]] bool IsUsageBased(const QueueState& queue) const;
  [[nodiscard]] Consumption BaseUnits(const Usage& usage) const;
  [[nodiscard]] Consumption AdmittedUse(const LocalQueueState& local) const;
  void PlaceLane(LocalQueueId id);
  void ChargeEntry(WorkloadId id);
  void RefundEntry(WorkloadId id);
  void SettleEntry(WorkloadId id);

  // --- the pass (engine_pass.cc) ---
  std::vector<Entry> Nominate();
  void NominateHead(Entry& entry);
  [[nodiscard]] Usage HoldAmounts(const QueueState& queue, const Usage& usage, int level) const;
  bool Cycle(PassResult& result);
  Tried TryAdmit(Entry& entry, PassResult& result);
  void Commit(Entry& entry, AdmitDecision decision, PassResult& result);
  void Park(QueueState& queue, ClassId id, Assignment& assignment);
  void ParkHeldBack(Entry& entry);
  bool FitsWithoutHolds(const Entry& entry);
  void Refuse(QueueState& queue, ClassId id, Refusal refusal);
  [[nodiscard]] AssignContext Context(const QueueState& queue, WorkloadId workload,
                                      Reason reason = Reason::kNone) const;
  bool WakeFlightWaiters();

  // --- preemption (engine_preempt.cc) ---
  void Scan(Entry& entry);
  bool ScanFlavors(Entry& entry, const AssignContext& context, const std::vector<size_t>& begin,
                   const std::set<WorkloadId>& spared);
  [[nodiscard]] std::optional<Assignment> FindMix(const Entry& entry,
                                                  const AssignContext& context) const;
  bool FindWayOut(Entry& entry, const Assignment& assignment, const std::set<WorkloadId>& spared);
  VictimQuestion Question(QueueId queue, WorkloadId preemptor, const Usage& usage);
  void VisitHolders(NodeId node, const VictimQuestion& question, const std::set<WorkloadId>& spared,
                    const std::function<void(const Holder&)>& visit);
  [[nodiscard]] std::set<WorkloadId> SparedBy(WorkloadId preemptor) const;
  Tried TryPreempt(Entry& entry, PassResult& result);
  void StartWaiting(Entry& entry, PassResult& result);
  [[nodiscard]] PreemptDecision Decide(WorkloadId by, QueueId queue, const Victim& victim) const;
  [[nodiscard]] std::string PathOf(QueueId queue) const;
  void ApplyHold(const Hold& hold, int sign);
  [[nodiscard]] bool FitsNow(QueueId queue, const Usage& usage);
  bool KeepsPlaces(const std::string& gang, const std::function<void()>& reserve);
  size_t PlaceWaiting(const std::set<std::string>& leaving, bool remember);
  [[nodiscard]] std::set<std::string> Leaving();
  void ResumeWaiting(const std::set<NodeId>& woken, bool nodes_changed);
  bool WakeAfterResigned();
  void EndHolds();
  void ForgetEvictions(NodeId root);
  [[nodiscard]] const Waiting* FindWaiting(WorkloadId id) const;
  [[nodiscard]] WorkloadId Head(const QueueState& queue) const;
  [[nodiscard]] WorkloadId NextOf(const QueueState& queue) const;
  [[nodiscard]] std::set<QueueId> QueuesOfResumed() const;
  void MindClaim(WorkloadId workload, const Assignment& refused);
  void DropClaim();

  // --- explanations (engine_explain.cc) ---
  [[nodiscard]] std::string TextOf(const WorkloadClass& cls, const Refusal& refusal) const;
  [[nodiscard]] Explanation Explain(WorkloadId id, bool with_text) const;
  void Refresh(QueueState& queue, ClassId id);
  void FillTexts(WorkloadId id);
  void TellAll(PassResult& result);
  void TellQueue(QueueState& queue, PassResult& result);
  void TellOne(WorkloadId id, bool numbers_too, PassResult& result);

  Tables tables_;
  ResourceId pods_;
  std::vector<FlavorConfig> flavors_;  // by FlavorId
  std::map<std::string, CohortConfig> cohorts_;
  std::map<std::string, api::StringMap> namespaces_;
  std::map<std::string, QueueId> queue_ids_;
  std::deque<QueueState> queues_;
  // Queues, by name, that a pass has to look at: with something to try, to keep or to tell. Those
  // with classes that wait for nodes or flights are (at least) in the other one, or in this.
  std::map<std::string_view, QueueId> lively_;
  std::map<std::string_view, QueueId> node_waiting_;
  std::map<api::ObjectKey, LocalQueueId> local_queue_ids_;
  std::deque<LocalQueueState> local_queues_;

  OrderTable keys_;
  std::deque<WorkloadState> workloads_;
  std::vector<WorkloadId> free_;
  // By OrderKey::id. Looked up, never iterated.
  std::unordered_set<WorkloadId, HashOfId, SameId> workload_ids_{0, HashOfId{&keys_},
                                                                 SameId{&keys_}};
  // By key; those that a workload has. Looked up, never iterated.
  std::unordered_map<std::string_view, std::shared_ptr<const WorkloadSpec>> specs_;
  std::vector<WorkloadId> untold_;  // pending ones outside of any ClusterQueue
  size_t pending_count_ = 0;

  bool config_dirty_ = false;
  QuotaTree tree_;
  std::map<std::string, NodeId> cohort_nodes_;  // implicit Cohorts included
  std::optional<FairSharing> fair_sharing_;
  std::optional<FairShares> shares_;  // of tree_, with fair sharing
  bool usage_based_ = false;          // admission fair sharing is on
  UsageLedger past_;
  std::map<NodeId, std::vector<QueueId>> queues_of_root_;
  std::vector<QueueId> queue_at_;                          // by NodeId; not valid for Cohorts
  std::set<std::pair<NodeId, FlavorResourceId>> excused_;  // (root, pair) over limit not by us

  std::unique_ptr<Capacity> capacity_;
  bool pinning_ = false;
  bool partial_admission_ = false;
  Rules rules_;
  std::map<std::string, std::set<std::string>> replacers_;  // by the id that they replace
  uint64_t seen_capacity_version_ = 0;
  uint64_t seen_flight_version_ = 0;
  std::optional<FlightClaim> claim_;
  bool claim_dropped_ = false;  // since the flight waiters were tried
  uint64_t reservations_ = 0;   // grows with each reservation made by a pass
  uint64_t admissions_ = 0;     // grows with each admission
  bool needs_pass_ = false;
  bool only_config_ = false;  // of needs_pass_

  std::vector<Waiting> waiting_;       // in the order of decisions
  std::vector<Hold> holds_;            // only within a pass
  std::set<WorkloadId> held_victims_;  // of holds_
  std::vector<WorkloadId> resumed_;    // waited when the pass began
  std::map<WorkloadId, std::vector<size_t>> resumed_flavors_;
  std::vector<WorkloadId> fresh_;  // reserved by the running pass
  std::set<NodeId> spared_fresh_;  // roots where one of these would have been a candidate
  std::set<std::string> leaving_;  // evicting, or still with pods after an eviction
  std::map<WorkloadId, std::set<WorkloadId>> evicted_by_;  // victim -> for whom
  Waves waves_;
  Time now_ = kNoTime;  // of the pass
};

}  // namespace tutti::engine
