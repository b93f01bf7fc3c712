// SPDX-License-Identifier: Apache-2.0
// Preemption in the pass: who waits for whom, and what is kept for those who wait. docs/engine.md,
// "Preemption".
//
// Within a pass the tree shows the state after all evictions that were decided on: victims have
// left it, those who wait for them are in it. Who fits there, but not yet with the victims still
// running, waits as well. Between passes only the order of decisions is kept: as soon as anything
// in the tree is to be decided, all who wait there are decided on anew, in their turn; victims that
// are being evicted come first among the candidates, so that the same ones are chosen.
#include <algorithm>
#include <deque>

#include "engine/engine_impl.h"

namespace tutti::engine {

namespace {

// So often flavors are gone on with behind those of a try that led nowhere.
constexpr size_t kMostScans = 64;
constexpr size_t kMostMixes = 64;

bool HasPlace(const FitResult& fit) {
  return fit.kind == FitKind::kFits || fit.kind == FitKind::kUndecided;
}

bool Preempts(const api::Preemption& policy) {
  return policy.within_cluster_queue != api::PreemptionPolicy::kNever ||
         policy.reclaim_within_cohort != api::PreemptionPolicy::kNever;
}

bool IsPartial(const std::vector<size_t>& start) {
  return std::any_of(start.begin(), start.end(), [](size_t flavor) { return flavor > 0; });
}

std::string_view InWords(PreemptReason reason) {
  switch (reason) {
    case PreemptReason::kInClusterQueue:
      return "prioritization in the ClusterQueue";
    case PreemptReason::kInCohortReclamation:
      return "reclamation within the cohort";
    case PreemptReason::kInCohortFairSharing:
      return "Fair Sharing within the cohort";
    case PreemptReason::kInCohortReclaimWhileBorrowing:
      return "reclamation within the cohort while borrowing";
  }
  return "";
}

const std::string& OrUnknown(const std::string& text) {
  static const std::string kUnknown = "UNKNOWN";
  return text.empty() ? kUnknown : text;
}

}  // namespace

std::string Describe(const PreemptDecision& decision) {
  return "Preempted to accommodate a workload (UID: " + OrUnknown(decision.by_uid) +
         ", JobUID: " + OrUnknown(decision.by_job_uid) + ") due to " +
         std::string(InWords(decision.reason)) + "; preemptor path: " + decision.by_path +
         "; preemptee path: " + decision.path;
}

// --- who may give way ---

// Those who must not be preempted for it: the workloads for which it was evicted itself, and those
// for which these were, since the last change from outside; so evictions can't go round in circles.
// And those who gave way for it before and run again, for then it did not help.
std::set<WorkloadId> EngineImpl::SparedBy(WorkloadId preemptor) const {
  std::set<WorkloadId> spared;
  for (const auto& [victim, by] : evicted_by_) {
    if (by.contains(preemptor) && !Workload(victim).evicting) {
      spared.insert(victim);
    }
  }
  if (const WorkloadId replaced = Replaced(preemptor); replaced.Valid()) {
    spared.insert(replaced);
  }
  std::vector<WorkloadId> open = {preemptor};
  while (!open.empty()) {
    const auto found = evicted_by_.find(open.back());
    open.pop_back();
    if (found == evicted_by_.end()) {
      continue;
    }
    for (const WorkloadId by : found->second) {
      if (spared.insert(by).second) {
        open.push_back(by);
      }
    }
  }
  return spared;
}

void EngineImpl::ForgetEvictions(NodeId root) {
  std::erase_if(evicted_by_, [&](const auto& entry) {
    const WorkloadState& victim = Workload(entry.first);
    const QueueId queue =
        victim.phase == Phase::kReserved ? victim.queue : Local(victim.local_queue).queue;
    return !queue.Valid() || !Queue(queue).exists || tree_.Root(Queue(queue).node) == root;
  });
}

void EngineImpl::VisitHolders(NodeId node, const VictimQuestion& question,
                              const std::set<WorkloadId>& spared,
                              const std::function<void(const Holder&)>& visit) {
  const QueueId id = queue_at_[node.value];
  if (!id.Valid()) {
    return;
  }
  const api::PreemptionPolicy policy = node == question.queue
                                           ? question.policy.within_cluster_queue
                                           : question.policy.reclaim_within_cohort;
  for (const WorkloadId workload : Queue(id).reserved) {
    const OrderKey& key = Key(workload);
    // They are in order of priority.
    if (policy != api::PreemptionPolicy::kAny && key.priority > question.priority) {
      return;
    }
    const WorkloadState& state = Workload(workload);
    if (question.only_lower && key.priority >= question.priority && !state.evicting) {
      if (Queue(id).evicting == 0) {
        return;
      }
      continue;
    }
    if (spared.contains(workload) || held_victims_.contains(workload)) {
      continue;
    }
    if (state.fresh) {
      spared_fresh_.insert(tree_.Root(node));
      continue;
    }
    visit({workload, node, key.priority, key.queue_time, key.reserved_at, state.evicting, &key.uid,
           &key.id, &state.usage});
  }
}

// The result refers to `usage`.
VictimQuestion EngineImpl::Question(QueueId queue, WorkloadId preemptor, const Usage& usage) {
  const OrderKey& key = Key(preemptor);
  VictimQuestion question{tree_,
                          Queue(queue).node,
                          Queue(queue).config.preemption,
                          key.priority,
                          key.queue_time,
                          {},
                          usage,
                          {},
                          {}};
  question.only_lower =
      waves_.HoldsBack(tree_.Root(question.queue), queue, Workload(preemptor).arrival, now_);
  if (shares_) {
    question.shares = &*shares_;
    question.fair_sharing = &*fair_sharing_;
  }
  return question;
}

// --- nomination ---

// Kueue goes on with later flavors in the next cycles when a try leads nowhere, for each pod set
// and group behind the one that it got; that finds mixes of flavors which no single scan does.
// False: it leads nowhere; the assignment is then that of the whole scan, for its reasons.
bool EngineImpl::ScanFlavors(Entry& entry, const AssignContext& context,
                             const std::vector<size_t>& begin, const std::set<WorkloadId>& spared) {
  const std::string& id = Key(entry.workload).id;
  auto leads = [&](Assignment assignment) {
    entry.assignment = std::move(assignment);
    entry.way_out =
        entry.assignment.mode == FitMode::kPreempt && FindWayOut(entry, entry.assignment, spared);
    return entry.way_out || entry.assignment.mode == FitMode::kFit;
  };
  if (const auto known = resumed_flavors_.find(entry.workload); known != resumed_flavors_.end()) {
    // Its victims were taken for these flavors; with others they would have gone for nothing. Where
    // it takes nothing from them the first flavor that fits now is as good.
    AssignContext same = context;
    same.only = std::move(known->second);
    resumed_flavors_.erase(known);
    if (leads(Assign(same, id, *entry.pod_sets, {}))) {
      return true;
    }
  }
  if (IsPartial(begin) && leads(Assign(context, id, *entry.pod_sets, begin))) {
    return true;
  }
  if (leads(Assign(context, id, *entry.pod_sets, {}))) {
    return true;
  }
  Assignment whole = std::move(entry.assignment);
  std::set<std::vector<size_t>> seen;
  std::vector<size_t> start = whole.next_flavor;
  while (IsPartial(start) && seen.size() < kMostScans && seen.insert(start).second) {
    if (leads(Assign(context, id, *entry.pod_sets, start))) {
      return true;
    }
    start = std::move(entry.assignment.next_flavor);
  }
  if (Queue(entry.queue).config.fungibility.prefer_preemption_over_borrowing && context.chance) {
    // A flavor that fits by borrowing was passed over for victims that are not enough.
    AssignContext nobody = context;
    nobody.chance = {};
    if (leads(Assign(nobody, id, *entry.pod_sets, {}))) {
      return true;
    }
  }
  if (std::optional<Assignment> mix = FindMix(entry, context)) {
    return leads(std::move(*mix));
  }
  entry.assignment = std::move(whole);
  return false;
}

// Scans take the best flavor for one pod set after the other, which may leave none for the last.
// So in the end all mixes are tried in order, as far as kMostMixes go: what is found must not
// depend on where a scan began, that is, on what was tried before.
std::optional<Assignment> EngineImpl::FindMix(const Entry& entry,
                                              const AssignContext& context) const {
  const std::vector<PodSetSpec>& pod_sets = *entry.pod_sets;
  const size_t groups = context.queue.groups.size();
  // Groups of resources don't take from each other.
  if (pod_sets.size() < 2 ||
      std::all_of(context.queue.groups.begin(), context.queue.groups.end(),
                  [](const GroupConfig& group) { return group.flavors.size() < 2; })) {
    return std::nullopt;
  }
  const auto asked = [&](const PodSetSpec& pod_set, size_t group) {
    const auto in_group = [&](ResourceId resource) {
      const ResourcePosition* position = context.queue.Find(resource);
      return position != nullptr && position->group == group;
    };
    return in_group(pods_) ||
           std::any_of(pod_set.per_pod.begin(), pod_set.per_pod.end(),
                       [&](const auto& request) { return in_group(request.first); });
  };
  AssignContext exact = context;
  exact.chance = {};
  size_t tries = 0;
  std::optional<Assignment> found;
  const std::function<void()> descend = [&] {
    const size_t slot = exact.only.size();
    if (slot == pod_sets.size() * groups) {
      return;
    }
    if (!asked(pod_sets[slot / groups], slot % groups)) {
      exact.only.push_back(kNoFlavor);
      descend();
      exact.only.pop_back();
      return;
    }
    const size_t flavors = context.queue.groups[slot % groups].flavors.size();
    for (size_t flavor = 0; flavor < flavors && !found && tries < kMostMixes; ++flavor) {
      ++tries;
      exact.only.push_back(flavor);
      Assignment assignment = Assign(exact, Key(entry.workload).id, pod_sets, {});
      if (assignment.mode == FitMode::kFit) {
        found = std::move(assignment);
      } else if (assignment.fitting > slot) {
        descend();
      }
      exact.only.pop_back();
    }
  };
  descend();
  return found;
}

// Flavors for all pods, or, with partial admission, for as many as can be had: of D pods that may
// be left out in all, the smallest number (by bisection, as Kueue does) of which each pod set
// leaves its share.
void EngineImpl::Scan(Entry& entry) {
  QueueState& queue = Queue(entry.queue);
  WorkloadClass& cls = queue.pending->Class(entry.cls);
  const std::vector<size_t> begin = std::move(cls.next_flavor);
  cls.next_flavor.clear();
  entry.pod_sets = SpecsOf(entry.workload, cls);

  AssignContext context = Context(queue, entry.workload);
  const Usage none;
  VictimQuestion question = Question(entry.queue, entry.workload, none);
  std::set<WorkloadId> spared;
  if (Preempts(queue.config.preemption)) {
    spared = SparedBy(entry.workload);
    question.holders = [&](NodeId node, const std::function<void(const Holder&)>& visit) {
      VisitHolders(node, question, spared, visit);
    };
    context.chance = [&question](FlavorResourceId pair, Amount amount) {
      return ChanceOf(question, pair, amount);
    };
  }
  int64_t spare = 0;
  for (const PodSetSpec& spec : *entry.pod_sets) {
    spare += spec.count - spec.min_count;
  }
  if (ScanFlavors(entry, context, begin, spared) || !partial_admission_ || spare == 0) {
    return;
  }
  Entry whole = entry;
  std::optional<Entry> found;
  int64_t low = 0;
  int64_t high = spare + 1;
  while (low < high) {
    const int64_t without = low + (high - low) / 2;
    auto fewer = std::make_shared<std::vector<PodSetSpec>>(cls.spec->pod_sets);
    for (PodSetSpec& spec : *fewer) {
      spec.count -= static_cast<int32_t>((spec.count - spec.min_count) * without / spare);
    }
    entry.pod_sets = std::move(fewer);
    if (ScanFlavors(entry, context, begin, spared)) {
      found = entry;
      high = without;
    } else {
      low = without + 1;
    }
  }
  entry = found ? std::move(*found) : std::move(whole);
}

std::set<std::string> EngineImpl::Leaving() {
  std::erase_if(leaving_, [&](const std::string& id) {
    const WorkloadId known = Find(id);
    const bool reserved = known.Valid() && Workload(known).phase == Phase::kReserved;
    return reserved ? !Workload(known).evicting : capacity_->BoundOf(id) == 0;
  });
  return leaving_;
}

// Whether the workload can be admitted once others have gone, with the flavors of the assignment.
bool EngineImpl::FindWayOut(Entry& entry, const Assignment& assignment,
                            const std::set<WorkloadId>& spared) {
  entry.victims.clear();
  entry.later.clear();
  entry.waiting = waiting_.size();
  VictimQuestion question = Question(entry.queue, entry.workload, assignment.usage);
  std::set<FlavorResourceId> all;
  for (size_t index = 0; index < assignment.pod_sets.size(); ++index) {
    const bool placed = std::find(assignment.gang_pod_sets.begin(), assignment.gang_pod_sets.end(),
                                  index) != assignment.gang_pod_sets.end();
    for (const ResourceChoice& choice : assignment.pod_sets[index]) {
      if (!choice.fits) {
        question.contested.insert(choice.pair);
      }
      if (placed || !choice.fits) {
        all.insert(choice.pair);
      }
    }
  }
  if (question.contested.empty() && !assignment.unplaced) {
    return false;  // nothing but gangs in flight is in the way
  }
  question.holders = [&](NodeId node, const std::function<void(const Holder&)>& visit) {
    VisitHolders(node, question, spared, visit);
  };
  std::unique_ptr<CapacityTrial> trial;
  std::set<std::string> leaving;
  if (!assignment.gang.pod_sets.empty()) {
    leaving = Leaving();
    trial = capacity_->Try();
    for (const Waiting& other : waiting_) {
      trial->Promise(other.gang, other.placement);
    }
    question.placed = [&](const std::vector<WorkloadId>& gone) {
      std::set<std::string> names = leaving;
      for (const WorkloadId workload : gone) {
        names.insert(Key(workload).id);
      }
      trial->SetGone(names);
      FitResult fit = trial->Check(assignment.gang);
      entry.later = std::move(fit.placement);
      entry.place_missing = entry.place_missing || !HasPlace(fit);
      return HasPlace(fit);
    };
    if (question.contested.empty()) {
      if (!leaving.empty() && question.placed({})) {
        return true;
      }
      question.contested = all;
    }
  }
  if (!Preempts(question.policy)) {
    return false;
  }
  entry.victims = FindVictims(question);
  if (entry.victims.empty() && trial != nullptr && question.contested != all) {
    question.contested = std::move(all);
    entry.victims = FindVictims(question);
  }
  if (!entry.victims.empty() && question.placed) {
    std::vector<WorkloadId> gone;
    for (const Victim& victim : entry.victims) {
      gone.push_back(victim.workload);
    }
    question.placed(gone);  // for where the pods go then
  }
  return !entry.victims.empty();
}

// --- holds ---

void EngineImpl::ApplyHold(const Hold& hold, int sign) {
  for (const Victim& victim : hold.victims) {
    for (const auto& [pair, amount] : *victim.usage) {
      if (sign > 0) {
        tree_.RemoveUsage(victim.queue, pair, amount);
      } else {
        tree_.AddUsage(victim.queue, pair, amount);
      }
    }
  }
  for (const auto& [pair, amount] : hold.usage) {
    if (sign > 0) {
      tree_.AddUsage(hold.queue, pair, amount);
    } else {
      tree_.RemoveUsage(hold.queue, pair, amount);
    }
  }
}

void EngineImpl::EndHolds() {
  for (const Hold& hold : holds_) {
    ApplyHold(hold, -1);
  }
  holds_.clear();
  held_victims_.clear();
}

// Whether the quota is there while all victims still have theirs.
bool EngineImpl::FitsNow(QueueId queue, const Usage& usage) {
  if (holds_.empty()) {
    return true;  // the tree is as it is
  }
  for (const Hold& hold : holds_) {
    ApplyHold(hold, -1);
  }
  const bool fits = std::all_of(usage.begin(), usage.end(), [&](const auto& entry) {
    return entry.second <= tree_.Available(Queue(queue).node, entry.first);
  });
  for (const Hold& hold : holds_) {
    ApplyHold(hold, +1);
  }
  return fits;
}

// How many of the waiting gangs have a place, one after the other, when those who leave are gone.
size_t EngineImpl::PlaceWaiting(const std::set<std::string>& leaving, bool remember) {
  size_t placed = 0;
  const std::unique_ptr<CapacityTrial> trial = capacity_->Try();
  trial->SetGone(leaving);
  for (Waiting& waiting : waiting_) {
    if (waiting.gang.pod_sets.empty()) {
      continue;
    }
    FitResult fit = trial->Check(waiting.gang);
    if (!HasPlace(fit)) {
      continue;
    }
    ++placed;
    trial->Promise(waiting.gang, fit.placement);
    if (remember) {
      waiting.placement = std::move(fit.placement);
    }
  }
  return placed;
}

// Whether the places of those who wait are still there after `reserve` of this gang. It may be one
// that gave way and has old pods still: its new places don't go with them.
bool EngineImpl::KeepsPlaces(const std::string& gang, const std::function<void()>& reserve) {
  const bool any = std::any_of(waiting_.begin(), waiting_.end(), [](const Waiting& waiting) {
    return !waiting.gang.pod_sets.empty();
  });
  if (!any) {
    reserve();
    return true;
  }
  std::set<std::string> leaving = Leaving();
  const size_t before = PlaceWaiting(leaving, /*remember=*/false);
  reserve();
  leaving.erase(gang);
  return PlaceWaiting(leaving, /*remember=*/true) >= before;
}

// --- decisions ---

EngineImpl::Tried EngineImpl::TryPreempt(Entry& entry, PassResult& result) {
  QueueState& queue = Queue(entry.queue);
  if (std::any_of(entry.victims.begin(), entry.victims.end(),
                  [&](const Victim& victim) { return held_victims_.contains(victim.workload); })) {
    return Tried::kSkipped;  // another one of this cycle has them
  }
  const Hold without{queue.node, {}, entry.victims};
  ApplyHold(without, +1);
  const Usage& usage = entry.assignment.usage;
  bool fits = std::all_of(usage.begin(), usage.end(), [&](const auto& wanted) {
    return wanted.second <= tree_.Available(queue.node, wanted.first);
  });
  ApplyHold(without, -1);
  if (fits && !entry.assignment.gang.pod_sets.empty() &&
      (entry.waiting != waiting_.size() || entry.reservations != reservations_)) {
    // Others of this cycle took places.
    const std::unique_ptr<CapacityTrial> trial = capacity_->Try();
    std::set<std::string> gone = Leaving();
    for (const Victim& victim : entry.victims) {
      gone.insert(Key(victim.workload).id);
    }
    trial->SetGone(gone);
    for (const Waiting& other : waiting_) {
      trial->Promise(other.gang, other.placement);
    }
    FitResult fit = trial->Check(entry.assignment.gang);
    fits = HasPlace(fit);
    entry.later = std::move(fit.placement);
  }
  if (!fits) {
    return Tried::kSkipped;
  }
  if (!entry.victims.empty() && Workload(entry.workload).preemption_gated) {
    Refusal refusal = std::move(entry.assignment.refusal);
    refusal.reason = PendingReason::kPreemptionGated;
    refusal.plain = "Workload requires preemption, but it's gated";
    queue.pending->Class(entry.cls).hold.clear();
    Refuse(queue, entry.cls, std::move(refusal));
    return Tried::kWaits;
  }
  StartWaiting(entry, result);
  return Tried::kWaits;
}

void EngineImpl::StartWaiting(Entry& entry, PassResult& result) {
  QueueState& queue = Queue(entry.queue);
  Waiting waiting;
  waiting.workload = entry.workload;
  waiting.refusal = std::move(entry.assignment.refusal);
  waiting.refusal.reason = PendingReason::kWaitingForPreemptedWorkloads;
  waiting.victims = entry.victims.size();
  for (const PodSetSpec& spec : queue.pending->Class(entry.cls).spec->pod_sets) {
    waiting.pod_sets.push_back(spec.name);
  }
  waiting.flavors = std::move(entry.assignment.contested);
  waiting.gang = std::move(entry.assignment.gang);
  waiting.placement = std::move(entry.later);
  if (entry.victims.empty()) {
    waiting.refusal.plain =
        "fits as soon as workloads that give way to others, or are being evicted, are gone";
  }
  if (claim_ && claim_->id == Key(entry.workload).id) {
    DropClaim();
  }
  for (const Victim& victim : entry.victims) {
    held_victims_.insert(victim.workload);
    if (!victim.evicting) {
      evicted_by_[victim.workload].insert(entry.workload);
      if (Key(victim.workload).priority >= Key(entry.workload).priority) {
        waves_.Strike(tree_.Root(queue.node), entry.queue);
      }
      result.preempted.push_back(Decide(entry.workload, entry.queue, victim));
      SetEvicting(victim.workload, true);
      leaving_.insert(Key(victim.workload).id);
    }
  }
  holds_.push_back({queue.node, std::move(entry.assignment.usage), std::move(entry.victims)});
  ApplyHold(holds_.back(), +1);

  queue.pending->Remove(entry.workload);
  Workload(entry.workload).place = Place::kWaiting;
  queue.waiting.insert(entry.workload);
  queue.untold.push_back(entry.workload);
  Mark(entry.queue);
  waiting_.push_back(std::move(waiting));
}

// "/parent/child/queue".
std::string EngineImpl::PathOf(QueueId queue) const {
  std::string path = "/" + Queue(queue).name;
  std::string cohort = Queue(queue).config.cohort;
  for (size_t depth = 0; !cohort.empty() && depth <= cohorts_.size(); ++depth) {
    path.insert(0, "/" + cohort);
    const auto known = cohorts_.find(cohort);
    cohort = known == cohorts_.end() ? "" : known->second.parent;
  }
  return path;
}

PreemptDecision EngineImpl::Decide(WorkloadId by, QueueId queue, const Victim& victim) const {
  const WorkloadState& preemptor = Workload(by);
  const WorkloadState& state = Workload(victim.workload);
  PreemptDecision decision;
  decision.id = Key(victim.workload).id;
  decision.uid = state.workload_uid;
  decision.cluster_queue = Queue(state.queue).name;
  decision.by = Key(by).id;
  decision.by_uid = preemptor.workload_uid;
  decision.by_job_uid = preemptor.job_uid;
  decision.by_cluster_queue = Queue(queue).name;
  decision.reason = victim.reason;
  decision.by_path = PathOf(queue);
  decision.path = PathOf(state.queue);
  return decision;
}

// --- from pass to pass ---

const EngineImpl::Waiting* EngineImpl::FindWaiting(WorkloadId id) const {
  const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                  [&](const Waiting& waiting) { return waiting.workload == id; });
  return found == waiting_.end() ? nullptr : &*found;
}

// The first of its queue, whether it waits or is to be tried; not valid when there is none.
WorkloadId EngineImpl::Head(const QueueState& queue) const {
  const WorkloadId first = queue.pending->First();
  if (queue.waiting.empty()) {
    return first;
  }
  const WorkloadId waiting = *queue.waiting.begin();
  return !first.Valid() || Before(Key(waiting), Key(first)) ? waiting : first;
}

// The workload to try next; not valid when there is none.
WorkloadId EngineImpl::NextOf(const QueueState& queue) const {
  const WorkloadId next = queue.pending->Candidate(queue.config.strict_fifo);
  return queue.config.strict_fifo && next != Head(queue) ? WorkloadId{} : next;
}

// Queues with workloads that waited when the pass began and have not had their turn. Until they
// have, other queues are not looked at: what was freed for them would go to somebody else. Nor are
// those whose next one gave way for one of them: it would take its room back on the right of
// another one of its queue, and the two would chase each other's victims for ever.
std::set<QueueId> EngineImpl::QueuesOfResumed() const {
  std::set<QueueId> queues;
  std::set<WorkloadId> undecided;
  for (const WorkloadId id : resumed_) {
    const WorkloadState& workload = Workload(id);
    if (workload.phase != Phase::kPending || workload.place != Place::kQueued) {
      continue;
    }
    const QueueState& queue = Queue(workload.queue);
    if (queue.health.active && queue.pending->Class(queue.pending->ClassOf(id)).ready &&
        NextOf(queue).Valid()) {
      queues.insert(workload.queue);
      undecided.insert(id);
    }
  }
  std::set<QueueId> first = queues;
  std::erase_if(first, [&](QueueId queue) {
    const auto found = evicted_by_.find(NextOf(Queue(queue)));
    return found != evicted_by_.end() &&
           std::any_of(found->second.begin(), found->second.end(),
                       [&](WorkloadId by) { return undecided.contains(by); });
  });
  return first.empty() ? queues : first;
}

// Back into the queues: all that wait in a tree where something may be decided differently now.
void EngineImpl::ResumeWaiting(const std::set<NodeId>& woken, bool nodes_changed) {
  resumed_.clear();
  resumed_flavors_.clear();
  std::set<NodeId> busy = woken;
  for (const auto& [name, id] : lively_) {
    const QueueState& queue = Queue(id);
    if (queue.exists && queue.health.active && NextOf(queue).Valid()) {
      busy.insert(tree_.Root(queue.node));
    }
  }
  std::vector<Waiting> stay;
  for (Waiting& waiting : waiting_) {
    WorkloadState& workload = Workload(waiting.workload);
    QueueState& queue = Queue(workload.queue);
    if (!busy.contains(tree_.Root(queue.node)) &&
        !(nodes_changed && !waiting.gang.pod_sets.empty())) {
      stay.push_back(std::move(waiting));
      continue;
    }
    queue.waiting.erase(waiting.workload);
    queue.touched = true;
    Enqueue(waiting.workload);
    queue.pending->Ready(queue.pending->ClassOf(waiting.workload));
    resumed_.push_back(waiting.workload);
    resumed_flavors_[waiting.workload] = std::move(waiting.flavors);
  }
  waiting_ = std::move(stay);
}

// What was kept for one that waited when the pass began, and that neither waits nor runs now, is
// free for those that were refused before. True when there is something to try again.
bool EngineImpl::WakeAfterResigned() {
  std::set<NodeId> roots;
  for (const WorkloadId id : resumed_) {
    const WorkloadState& workload = Workload(id);
    if (workload.phase == Phase::kPending && workload.place == Place::kQueued) {
      roots.insert(tree_.Root(Queue(workload.queue).node));
    }
  }
  resumed_.clear();
  bool any = false;
  for (const NodeId root : roots) {
    for (const QueueId id : queues_of_root_[root]) {
      QueueState& queue = Queue(id);
      if (queue.health.active && !queue.pending->Empty()) {
        queue.touched = true;
        queue.pending->ReadyAll();
        any = true;
      }
    }
  }
  return any;
}

}  // namespace tutti::engine
