// SPDX-License-Identifier: Apache-2.0
// The pass: Kueue's scheduling cycle (one head per active ClusterQueue; nominate, order, process on
// the changing state) repeated until nothing changes. docs/engine.md, "The pass".
#include <algorithm>
#include <tuple>

#include "engine/engine_impl.h"

namespace tutti::engine {

AssignContext EngineImpl::Context(const QueueState& queue, WorkloadId workload,
                                  Reason reason) const {
  const FlightClaim* claim = nullptr;
  if (claim_ && Before(Key(Find(claim_->id)), Key(workload))) {
    claim = &*claim_;
  }
  AssignContext context{tree_, queue.node, queue.config, flavors_, *capacity_,
                        pods_, claim,      pinning_,     reason};
  context.fair_sharing = shares_.has_value();
  context.ignore_undeclared = rules_.ignore_undeclared;
  return context;
}

bool EngineImpl::NeedsPass() const {
  if (needs_pass_) {
    return true;
  }
  const bool nodes = capacity_->Version() != seen_capacity_version_;
  const bool flights = claim_dropped_ || capacity_->FlightVersion() != seen_flight_version_;
  if (!nodes && !flights) {
    return false;
  }
  if (nodes && std::any_of(waiting_.begin(), waiting_.end(),
                           [](const Waiting& waiting) { return !waiting.gang.pod_sets.empty(); })) {
    return true;
  }
  return std::any_of(node_waiting_.begin(), node_waiting_.end(), [&](const auto& entry) {
    const QueueState& queue = Queue(entry.second);
    return queue.health.active && ((nodes && queue.pending->HasNodeWaiters()) ||
                                   (flights && queue.pending->HasFlightWaiters()));
  });
}

PassResult EngineImpl::RunPass(Time now) {
  PassResult result;
  now_ = now;
  EnsureTree();
  for (const NodeId root : waves_.TakeOver(now)) {
    Wake(queues_of_root_[root].front());
  }
  if (!NeedsPass()) {
    return result;
  }
  const bool nodes_changed = capacity_->Version() != seen_capacity_version_;
  claim_dropped_ |= capacity_->FlightVersion() != seen_flight_version_;
  if (claim_) {
    std::erase_if(claim_->since,
                  [&](const Gang& gang) { return capacity_->Unbound(gang.id) == 0; });
  }
  if (nodes_changed) {
    std::erase_if(node_waiting_, [&](const auto& entry) {
      QueueState& queue = Queue(entry.second);
      if (!queue.wake && queue.pending->HasNodeWaiters()) {
        queue.touched = true;
        queue.pending->ReadyNodeWaiters();
      }
      return !queue.pending->HasNodeWaiters();
    });
  }
  std::set<NodeId> woken;
  for (const auto& [name, id] : lively_) {
    QueueState& queue = Queue(id);
    if (queue.wake) {
      if (queue.exists) {
        woken.insert(tree_.Root(queue.node));
      }
      queue.wake = false;
      queue.touched = true;
      queue.pending->ReadyAll();
    }
  }
  ResumeWaiting(woken, nodes_changed);
  WakeFlightWaiters();
  while (Cycle(result) || WakeFlightWaiters() || WakeAfterResigned()) {
  }
  EndHolds();
  waves_.EndPass(now);
  TellAll(result);
  needs_pass_ = false;
  only_config_ = false;
  for (const WorkloadId id : fresh_) {
    Workload(id).fresh = false;
  }
  fresh_.clear();
  for (const NodeId root : spared_fresh_) {
    Wake(queues_of_root_[root].front());  // whoever could give way was admitted just now
  }
  spared_fresh_.clear();
  seen_capacity_version_ = capacity_->Version();
  seen_flight_version_ = capacity_->FlightVersion();
  return result;
}

// True when there is something to try again.
bool EngineImpl::WakeFlightWaiters() {
  if (!claim_dropped_) {
    return false;
  }
  claim_dropped_ = false;
  bool any = false;
  for (const auto* queues : {&node_waiting_, &lively_}) {
    for (const auto& [name, id] : *queues) {
      QueueState& queue = Queue(id);
      if (queue.pending->HasFlightWaiters()) {
        queue.touched = true;
        queue.pending->ReadyFlightWaiters();
        any = true;
      }
    }
  }
  return any;
}

void EngineImpl::DropClaim() {
  claim_.reset();
  claim_dropped_ = true;
}

// After a refusal: a workload that waits for nothing but gangs in flight gets the claim, unless one
// before it has it.
void EngineImpl::MindClaim(WorkloadId workload, const Assignment& refused) {
  const OrderKey& key = Key(workload);
  const bool own = claim_ && claim_->id == key.id;
  if (!refused.waiting || refused.refusal.reason != PendingReason::kWaitingForCapacity) {
    if (own) {
      DropClaim();
    }
  } else if (own) {
    claim_->gang = *refused.waiting;
  } else if (!claim_ || Before(key, Key(Find(claim_->id)))) {
    claim_ = FlightClaim{key.id, *refused.waiting, {}};
  }
}

// Nominated entries of one cycle, unordered; hold-only ones of parked StrictFIFO heads included.
std::vector<EngineImpl::Entry> EngineImpl::Nominate() {
  std::vector<Entry> entries;
  entries.reserve(lively_.size());
  const std::set<QueueId> first = QueuesOfResumed();
  for (const auto& [name, id] : lively_) {
    QueueState& queue = Queue(id);
    if (!queue.health.active || queue.pending->Empty()) {
      continue;
    }
    Entry entry;
    entry.queue = id;
    entry.workload = NextOf(queue);
    if (entry.workload.Valid() && !first.empty() && !first.contains(id)) {
      continue;
    }
    if (entry.workload.Valid()) {
      entry.cls = queue.pending->ClassOf(entry.workload);
      NominateHead(entry);
      entries.push_back(std::move(entry));
    } else if (const WorkloadId holding = HoldingHead(queue);
               holding.Valid() && holding == Head(queue)) {
      entry.workload = holding;
      entry.cls = queue.pending->ClassOf(holding);
      entry.hold_only = true;
      entry.level = queue.pending->Class(entry.cls).hold_level;
      entries.push_back(std::move(entry));
    }
  }
  return entries;
}

void EngineImpl::NominateHead(Entry& entry) {
  Queue(entry.queue).touched = true;
  Scan(entry);
  entry.level = entry.assignment.borrowing;
  entry.reservations = reservations_;
}

Usage EngineImpl::HoldAmounts(const QueueState& queue, const Usage& usage, int level) const {
  Usage hold;
  if (queue.config.preemption.reclaim_within_cohort == api::PreemptionPolicy::kAny) {
    return hold;  // it can take back what it lent at any time
  }
  for (const auto& [pair, amount] : usage) {
    Amount most = tree_.Nominal(queue.node, pair) - tree_.Usage(queue.node, pair);
    if (level > 0) {
      const std::optional<Amount> limit = tree_.BorrowingLimit(queue.node, pair);
      most = limit ? most + *limit : amount;
    }
    AddUsage(hold, pair, std::max<Amount>(0, std::min(amount, most)));
  }
  return hold;
}

// Writes down why the class is not admitted and takes it out of the candidates.
void EngineImpl::Refuse(QueueState& queue, ClassId id, Refusal refusal) {
  WorkloadClass& cls = queue.pending->Class(id);
  cls.tried = true;
  ++cls.tries;
  cls.refused_at = admissions_;
  cls.waits_for_nodes =
      refusal.waits_for_nodes ||
      std::any_of(refusal.facts.begin(), refusal.facts.end(), [](const Fact& fact) {
        return fact.kind == FactKind::kNoPlace || fact.kind == FactKind::kNeverFits ||
               fact.kind == FactKind::kInFlight;
      });
  cls.waits_for_flights =
      std::any_of(refusal.facts.begin(), refusal.facts.end(),
                  [](const Fact& fact) { return fact.kind == FactKind::kInFlight; }) ||
      (cls.waits_for_nodes &&
       std::any_of(cls.spec->pod_sets.begin(), cls.spec->pod_sets.end(),
                   [](const PodSetSpec& spec) { return spec.shape->rules.has_value(); }));
  const api::Preemption& policy = queue.config.preemption;
  cls.order_matters = cls.waits_for_flights ||
                      policy.within_cluster_queue != api::PreemptionPolicy::kNever ||
                      policy.reclaim_within_cohort != api::PreemptionPolicy::kNever;
  cls.refusal = std::move(refusal);
  if (const uint64_t fingerprint = cls.refusal.Fingerprint(); fingerprint != cls.told) {
    cls.told = fingerprint;
    queue.changed.push_back(id);
  }
  queue.pending->Park(id);
}

void EngineImpl::Park(QueueState& queue, ClassId id, Assignment& assignment) {
  WorkloadClass& cls = queue.pending->Class(id);
  cls.hold = assignment.mode == FitMode::kPreempt ? assignment.usage : Usage{};
  cls.hold_level = assignment.borrowing;
  Refuse(queue, id, std::move(assignment.refusal));
}

// Whether nothing but what the running pass keeps for others stands against it.
bool EngineImpl::FitsWithoutHolds(const Entry& entry) {
  if (holds_.empty()) {
    return false;
  }
  for (const Hold& hold : holds_) {
    ApplyHold(hold, -1);
  }
  const bool fits = Assign(Context(Queue(entry.queue), entry.workload), Key(entry.workload).id,
                           *entry.pod_sets, {})
                        .mode == FitMode::kFit;
  for (const Hold& hold : holds_) {
    ApplyHold(hold, +1);
  }
  return fits;
}

void EngineImpl::ParkHeldBack(Entry& entry) {
  QueueState& queue = Queue(entry.queue);
  queue.pending->Class(entry.cls).hold.clear();
  Refusal refusal;
  refusal.reason = PendingReason::kWaitingForQuota;
  refusal.held_back = true;
  refusal.waits_for_nodes = !entry.assignment.gang.pod_sets.empty() && !waiting_.empty();
  Refuse(queue, entry.cls, std::move(refusal));
}

// True when something happened, so that another cycle may find more.
bool EngineImpl::Cycle(PassResult& result) {
  std::vector<Entry> entries = Nominate();
  const bool any = std::any_of(entries.begin(), entries.end(),
                               [](const Entry& entry) { return !entry.hold_only; });
  if (!any) {
    return false;
  }
  ++result.cycles;
  EntryOrder order(*this, entries);
  bool progress = false;
  std::vector<Entry*> skipped;
  Stage holds(tree_, *capacity_);  // only for this cycle
  for (Entry* next = order.Next(); next != nullptr; next = order.Next()) {
    Entry& entry = *next;
    const QueueState& queue = Queue(entry.queue);
    if (entry.hold_only) {
      const WorkloadClass& cls = queue.pending->Class(entry.cls);
      for (const auto& [pair, amount] : HoldAmounts(queue, cls.hold, cls.hold_level)) {
        holds.AddUsage(queue.node, pair, amount);
      }
    } else if (entry.assignment.mode == FitMode::kFit || entry.way_out) {
      const size_t holds_before = holds_.size();
      const Tried tried = entry.way_out ? TryPreempt(entry, result) : TryAdmit(entry, result);
      if (holds_.size() > holds_before) {
        for (const Victim& victim : holds_.back().victims) {
          order.UsageChanged(victim.queue);
        }
      }
      if (tried == Tried::kSkipped) {
        skipped.push_back(&entry);
      } else {
        progress = true;
      }
    } else {
      progress = true;
      const Usage hold = entry.assignment.mode == FitMode::kPreempt
                             ? HoldAmounts(queue, entry.assignment.usage, entry.level)
                             : Usage{};
      MindClaim(entry.workload, entry.assignment);
      if (FitsWithoutHolds(entry)) {
        ParkHeldBack(entry);
      } else {
        entry.assignment.refusal.waits_for_nodes = entry.place_missing;
        Park(Queue(entry.queue), entry.cls, entry.assignment);
      }
      for (const auto& [pair, amount] : hold) {
        holds.AddUsage(queue.node, pair, amount);
      }
    }
  }
  for (Entry* entry : skipped) {
    if (progress) {
      // It goes on with the next flavor in the next cycle.
      Queue(entry->queue).pending->Class(entry->cls).next_flavor =
          std::move(entry->assignment.next_flavor);
    } else {
      // Nothing but the hold of a waiting head stands against it, and that will not move by itself.
      ParkHeldBack(*entry);
    }
  }
  return progress || !skipped.empty();
}

EngineImpl::Tried EngineImpl::TryAdmit(Entry& entry, PassResult& result) {
  const QueueState& queue = Queue(entry.queue);
  Assignment& assignment = entry.assignment;
  for (const auto& [pair, amount] : assignment.usage) {
    if (amount > tree_.Available(queue.node, pair)) {
      return Tried::kSkipped;
    }
  }
  if (!FitsNow(entry.queue, assignment.usage)) {
    entry.later = assignment.fit.placement;
    StartWaiting(entry, result);
    return Tried::kWaits;
  }
  auto has_place = [](const FitResult& fit) {
    return fit.kind == FitKind::kFits || fit.kind == FitKind::kUndecided;
  };
  Stage stage(tree_, *capacity_);
  for (const auto& [pair, amount] : assignment.usage) {
    stage.AddUsage(queue.node, pair, amount);
  }
  if (!assignment.gang.pod_sets.empty() && entry.reservations != reservations_) {
    assignment.fit =
        capacity_->Check(assignment.gang, Reason::kNone);  // others took places meanwhile
    const FlightClaim* claim = Context(queue, entry.workload).claim;
    if (!has_place(assignment.fit) ||
        (!capacity_->CheckFlights(assignment.gang).clear &&
         !((pinning_ || assignment.fit.tied) &&
           Pinned(*capacity_, assignment.gang, assignment.fit))) ||
        (claim != nullptr && capacity_->Hinders(assignment.gang, claim->gang, claim->since))) {
      return Tried::kSkipped;
    }
  }
  AdmitDecision decision;
  Gang gang = assignment.gang;
  std::vector<size_t> gang_pod_sets = assignment.gang_pod_sets;
  FitResult fit = assignment.fit;

  // Pod sets whose flavors only want to be watched: same question, but no veto.
  const std::vector<PodSetSpec>& specs = *entry.pod_sets;
  Gang wider{gang.id, {}, gang.group_claims};
  std::vector<size_t> wider_pod_sets;
  for (size_t index = 0; index < specs.size(); ++index) {
    const std::vector<ResourceChoice>& choices = assignment.pod_sets[index];
    const bool watched =
        specs[index].count > specs[index].held_pods &&
        std::any_of(choices.begin(), choices.end(), [&](const ResourceChoice& choice) {
          const CapacityMode mode = flavors_[choice.flavor.value].mode;
          return mode == CapacityMode::kRequire || mode == CapacityMode::kObserve;
        });
    if (watched) {
      wider.pod_sets.push_back(MakeGangPodSet(specs[index], choices, flavors_));
      wider_pod_sets.push_back(index);
    }
  }
  if (wider.pod_sets.size() > gang.pod_sets.size()) {
    const FitResult wider_fit = capacity_->Check(wider);
    if (has_place(wider_fit)) {
      gang = std::move(wider);
      gang_pod_sets = std::move(wider_pod_sets);
      fit = wider_fit;
    } else {
      decision.note =
          "admitted by quota alone, no place for the whole gang was found: " + wider_fit.message;
    }
  }
  if (!gang.pod_sets.empty() && fit.kind == FitKind::kUndecided) {
    decision.note = "not proven that all pods have a place: " + fit.message;
  }
  if (!gang.pod_sets.empty() && !fit.placement.empty()) {
    if (std::optional<Gang> pinned =
            pinning_ || fit.tied ? Pinned(*capacity_, gang, fit) : std::nullopt) {
      gang = std::move(*pinned);
      decision.pinned_node = fit.placement.front().node;
    } else if (fit.tied) {
      decision.note = "pods may be bound where the claim that they share can't be used: node " +
                      fit.placement.front().node + " can't be told by kubernetes.io/hostname";
    }
    if (!KeepsPlaces(gang.id, [&] { stage.Reserve(gang, fit.placement); })) {
      return Tried::kSkipped;
    }
    ++reservations_;
    if (claim_ && claim_->id != gang.id) {
      claim_->since.push_back(gang);
    }
    decision.placed = fit.kind == FitKind::kFits;
    decision.placement = std::move(fit.placement);
    for (PlacementSlot& slot : decision.placement) {
      slot.pod_set = gang_pod_sets[slot.pod_set];
    }
  }
  stage.Commit();
  Commit(entry, std::move(decision), result);
  return Tried::kAdmitted;
}

// Quota and places are taken; moves the workload to reserved and writes the decision down.
void EngineImpl::Commit(Entry& entry, AdmitDecision decision, PassResult& result) {
  QueueState& queue = Queue(entry.queue);
  const PodSets specs = entry.pod_sets;
  decision.id = Key(entry.workload).id;
  decision.cluster_queue = queue.name;
  WorkloadState& workload = Workload(entry.workload);
  if (workload.replacement != nullptr) {
    workload.replacement->whole.clear();
  }
  for (size_t index = 0; index < specs->size(); ++index) {
    PodSetDecision pod_set;
    pod_set.name = (*specs)[index].name;
    pod_set.count = (*specs)[index].count;
    for (const ResourceChoice& choice : entry.assignment.pod_sets[index]) {
      const std::string& resource = tables_.resources.Name(choice.resource);
      pod_set.flavors[resource] = tables_.flavors.Name(choice.flavor);
      pod_set.usage[resource] = choice.amount;
      if (workload.replacement != nullptr) {
        AddUsage(workload.replacement->whole, choice.pair, choice.amount);
      }
    }
    decision.pod_sets.push_back(std::move(pod_set));
  }
  const QueueId queue_id = workload.queue;
  Detach(entry.workload);
  workload.queue = queue_id;
  workload.phase = Phase::kReserved;
  workload.admitted = false;
  workload.evicting = false;
  workload.fresh = true;
  fresh_.push_back(entry.workload);
  keys_[entry.workload.value].reserved_at = std::chrono::floor<std::chrono::seconds>(now_);
  queue.reserved.insert(entry.workload);
  workload.told = 0;
  workload.told_details = 0;
  workload.usage = std::move(entry.assignment.usage);
  ++admissions_;
  queue.book.Add(workload.usage, false, +1);
  Local(workload.local_queue).book.Add(workload.usage, false, +1);
  ChargeEntry(entry.workload);
  for (const auto& [pair, amount] : workload.usage) {
    decision.borrows =
        decision.borrows || tree_.Usage(queue.node, pair) > tree_.Nominal(queue.node, pair);
  }
  result.admitted.push_back(std::move(decision));
}

}  // namespace tutti::engine
