// SPDX-License-Identifier: Apache-2.0
// Configuration objects and workloads of the engine: what is where. Deciding is in engine_pass.cc.
#include <algorithm>
#include <limits>

#include "engine/engine_impl.h"

namespace tutti::engine {

std::unique_ptr<Engine> MakeEngine() {
  return std::make_unique<EngineImpl>();
}

EngineImpl::EngineImpl() : capacity_(MakeCapacity()) {
  pods_ = tables_.resources.Intern("pods");
  seen_capacity_version_ = capacity_->Version();
}

void UsageBook::Add(const Usage& more, bool is_admitted, int sign) {
  reserving += sign;
  admitted += is_admitted ? sign : 0;
  for (const auto& [pair, amount] : more) {
    Sums& sums = usage[pair];
    sums.reserved += sign * amount;
    sums.admitted += is_admitted ? sign * amount : 0;
    if (sums == Sums{}) {
      usage.erase(pair);
    }
  }
}

// --- tables ---

QueueId EngineImpl::QueueByName(const std::string& name) {
  auto [position, added] =
      queue_ids_.try_emplace(name, QueueId{static_cast<uint32_t>(queues_.size())});
  if (added) {
    queues_.emplace_back(&keys_, [this, id = position->second] { Mark(id); });
    queues_.back().name = name;
  }
  return position->second;
}

void EngineImpl::Mark(QueueId id) {
  QueueState& queue = Queue(id);
  if (!queue.lively) {
    queue.lively = true;
    lively_.emplace(queue.name, id);
  }
}

// Nothing to try, to keep or to tell, until it is marked again.
bool EngineImpl::IsIdle(const QueueState& queue) const {
  const bool tells = queue.touched || queue.tell_all || !queue.untold.empty() || queue.wake;
  return !tells && (!queue.health.active || queue.pending->Empty() ||
                    (!NextOf(queue).Valid() && !HoldingHead(queue).Valid()));
}

LocalQueueId EngineImpl::LocalByKey(const api::ObjectKey& key) {
  auto [position, added] =
      local_queue_ids_.try_emplace(key, LocalQueueId{static_cast<uint32_t>(local_queues_.size())});
  if (added) {
    local_queues_.emplace_back();
    local_queues_.back().key = key;
  }
  return position->second;
}

FlavorConfig& EngineImpl::Flavor(const std::string& name) {
  const FlavorId id = tables_.flavors.Intern(name);
  if (flavors_.size() < tables_.flavors.Size()) {
    flavors_.resize(tables_.flavors.Size());
  }
  return flavors_[id.value];
}

WorkloadId EngineImpl::Find(const std::string& id) const {
  auto found = workload_ids_.find(std::string_view(id));
  return found == workload_ids_.end() ? WorkloadId{} : *found;
}

WorkloadId EngineImpl::FindOrAdd(const std::string& id) {
  if (const WorkloadId known = Find(id); known.Valid()) {
    return known;
  }
  WorkloadId added;
  if (free_.empty()) {
    added = WorkloadId{static_cast<uint32_t>(workloads_.size())};
    workloads_.emplace_back();
    keys_.emplace_back();
  } else {
    added = free_.back();
    free_.pop_back();
  }
  keys_[added.value].id = id;
  workload_ids_.insert(added);
  return added;
}

// Takes over what the caller says of it, but its place in the order.
void EngineImpl::Fill(WorkloadId id, const WorkloadInput& input,
                      std::shared_ptr<const WorkloadSpec> spec) {
  WorkloadState& workload = Workload(id);
  SetReplacement(id, input);
  DropSpec(workload);
  workload.spec = std::move(spec);
  workload.workload_uid = input.workload_uid;
  workload.job_uid = input.job_uid;
  workload.misconfigured = input.misconfigured;
  workload.preemption_gated = input.preemption_gated;
  workload.invalid_requests = input.invalid_requests;
}

void EngineImpl::Free(WorkloadId id) {
  DropReplacement(id);
  DropSpec(Workload(id));
  workload_ids_.erase(id);
  Workload(id) = WorkloadState{};
  evicted_by_.erase(id);
  for (auto& [victim, by] : evicted_by_) {
    by.erase(id);
  }
  keys_[id.value] = OrderKey{};
  free_.push_back(id);
}

std::shared_ptr<const WorkloadSpec> EngineImpl::SpecOf(const WorkloadInput& input) {
  std::string key = ClassKey(input);
  if (const auto known = specs_.find(key); known != specs_.end()) {
    return known->second;
  }
  auto spec = std::make_shared<const WorkloadSpec>(WorkloadSpec{std::move(key), Specs(input)});
  specs_.emplace(spec->key, spec);
  return spec;
}

// Forgets the spec when this was the last workload that had it. Of its class in a PendingQueue it
// is no member any more.
void EngineImpl::DropSpec(WorkloadState& workload) {
  if (workload.spec != nullptr && workload.spec.use_count() == 2) {
    specs_.erase(workload.spec->key);
  }
  workload.spec.reset();
}

// --- configuration ---

void EngineImpl::SetPartialAdmission(bool on) {
  if (partial_admission_ != on) {
    partial_admission_ = on;
    ConfigChanged();
  }
}

void EngineImpl::SetRules(const Rules& rules) {
  if (rules_ != rules) {
    rules_ = rules;
    waves_.SetInterval(rules.preemption_interval);
    ConfigChanged();
  }
}

void EngineImpl::SetFlavor(const api::ResourceFlavor& flavor) {
  FlavorConfig& known = Flavor(flavor.meta.name);
  FlavorConfig compiled = Compile(flavor);
  compiled.mode = known.mode;
  if (compiled != known) {
    known = std::move(compiled);
    ConfigChanged();
  }
}

void EngineImpl::RemoveFlavor(const std::string& name) {
  FlavorConfig& known = Flavor(name);
  if (known.exists) {
    const CapacityMode mode = known.mode;
    known = FlavorConfig{};
    known.mode = mode;
    ConfigChanged();
  }
}

void EngineImpl::SetFlavorCapacityMode(const std::string& flavor, CapacityMode mode) {
  FlavorConfig& known = Flavor(flavor);
  if (known.mode != mode) {
    known.mode = mode;
    ConfigChanged();
  }
}

void EngineImpl::SetCohort(const api::Cohort& cohort) {
  CohortConfig compiled = Compile(cohort, tables_);
  auto [known, added] = cohorts_.try_emplace(cohort.meta.name);
  if (added || known->second != compiled) {
    known->second = std::move(compiled);
    ConfigChanged();
  }
}

void EngineImpl::RemoveCohort(const std::string& name) {
  if (cohorts_.erase(name) > 0) {
    ConfigChanged();
  }
}

void EngineImpl::SetClusterQueue(const api::ClusterQueue& queue) {
  const QueueId id = QueueByName(queue.meta.name);
  QueueState& known = Queue(id);
  QueueConfig compiled = Compile(queue, tables_);
  if (known.exists && known.config == compiled) {
    return;
  }
  const bool resolve = !known.exists || known.config.selector != compiled.selector ||
                       known.config.usage_based != compiled.usage_based ||
                       known.config.strict_fifo != compiled.strict_fifo;
  known.exists = true;
  known.config = std::move(compiled);
  ConfigChanged();
  if (resolve) {
    ResolveQueue(id);
  }
}

void EngineImpl::RemoveClusterQueue(const std::string& name) {
  auto found = queue_ids_.find(name);
  if (found == queue_ids_.end() || !Queue(found->second).exists) {
    return;
  }
  QueueState& queue = Queue(found->second);
  queue.exists = false;
  queue.config = QueueConfig{};
  ConfigChanged();
  ResolveQueue(found->second);
}

void EngineImpl::SetQueueProblem(const std::string& cluster_queue, const std::string& reason,
                                 const std::string& message) {
  QueueState& queue = Queue(QueueByName(cluster_queue));
  if (queue.outside_reason != reason || queue.outside_message != message) {
    queue.outside_reason = reason;
    queue.outside_message = message;
    ConfigChanged();
  }
}

void EngineImpl::SetLocalQueue(const api::LocalQueue& queue) {
  LocalQueueState& known = Local(LocalByKey(queue.meta.Key()));
  const bool stopped = queue.stop_policy != api::StopPolicy::kNone;
  const QueueId target = QueueByName(queue.cluster_queue);
  const double weight = queue.fair_weight.ApproximateDouble();
  if (known.exists && known.fair_weight != weight) {
    known.fair_weight = weight;
    PlaceLane(LocalByKey(queue.meta.Key()));
  }
  if (known.exists && known.stopped == stopped && known.queue == target) {
    return;
  }
  known.fair_weight = weight;
  known.exists = true;
  known.stopped = stopped;
  known.queue = target;
  Resolve(known.pending);
  PlaceLane(LocalByKey(queue.meta.Key()));
}

void EngineImpl::RemoveLocalQueue(const api::ObjectKey& key) {
  auto found = local_queue_ids_.find(key);
  if (found == local_queue_ids_.end() || !Local(found->second).exists) {
    return;
  }
  LocalQueueState& known = Local(found->second);
  known.exists = false;
  known.stopped = false;
  known.queue = QueueId{};
  past_.Remove(key);
  Resolve(known.pending);
}

void EngineImpl::SetNamespace(const std::string& name, const api::StringMap& labels) {
  auto [known, added] = namespaces_.try_emplace(name);
  if (!added && known->second == labels) {
    return;
  }
  known->second = labels;
  capacity_->SetNamespace(name, labels);
  for (auto at = local_queue_ids_.lower_bound({name, ""});
       at != local_queue_ids_.end() && at->first.ns == name; ++at) {
    Resolve(Local(at->second).pending);
  }
}

void EngineImpl::RemoveNamespace(const std::string& name) {
  if (namespaces_.contains(name)) {
    SetNamespace(name, {});
    namespaces_.erase(name);
    capacity_->RemoveNamespace(name);
  }
}

// --- pending workloads ---

WorkloadId EngineImpl::HoldingHead(const QueueState& queue) const {
  if (!queue.config.strict_fifo || queue.pending->Empty()) {
    return WorkloadId{};
  }
  const WorkloadId first = queue.pending->First();
  const WorkloadClass& known = queue.pending->Class(queue.pending->ClassOf(first));
  return !known.ready && !known.hold.empty() ? first : WorkloadId{};
}

void EngineImpl::Attach(WorkloadId id) {
  WorkloadState& workload = Workload(id);
  LocalQueueState& local = Local(workload.local_queue);
  workload.place_in_local = static_cast<uint32_t>(local.pending.size());
  local.pending.push_back(id);
  ++pending_count_;
  needs_pass_ = true;
  only_config_ = false;
  workload.queue = QueueId{};
  workload.place = Place::kUnqueued;
  if (!local.exists || local.stopped || !Queue(local.queue).exists) {
    untold_.push_back(id);
    return;
  }
  workload.queue = local.queue;
  QueueState& queue = Queue(local.queue);
  queue.untold.push_back(id);
  Mark(workload.queue);
  static const api::StringMap kNoLabels;
  auto labels = namespaces_.find(local.key.ns);
  if (!workload.misconfigured.empty() ||
      !queue.config.selector.Matches(labels == namespaces_.end() ? kNoLabels : labels->second)) {
    workload.place = Place::kOutside;
    queue.outside.insert(id);
    return;
  }
  const WorkloadId holding = HoldingHead(queue);
  Enqueue(id);
  if (holding.Valid() && holding != HoldingHead(queue)) {
    Wake(workload.queue);
  }
}

void EngineImpl::Enqueue(WorkloadId id) {
  WorkloadState& workload = Workload(id);
  QueueState& queue = Queue(workload.queue);
  const LocalQueueState& local = Local(workload.local_queue);
  workload.place = Place::kQueued;
  const LocalQueueId lane = IsUsageBased(queue) ? workload.local_queue : LocalQueueId{};
  queue.pending->Add(id, workload.spec, lane);
  if (lane.Valid()) {
    queue.pending->SetUsage(lane, past_.Usage(local.key, local.fair_weight));
  }
  const WorkloadClass& joined = queue.pending->Class(queue.pending->ClassOf(id));
  workload.joined_at = joined.ready ? WorkloadState::kNotParked : joined.tries;
}

void EngineImpl::Detach(WorkloadId id) {
  WorkloadState& workload = Workload(id);
  if (claim_ && claim_->id == Key(id).id) {
    DropClaim();
  }
  std::vector<WorkloadId>& siblings = Local(workload.local_queue).pending;
  siblings[workload.place_in_local] = siblings.back();
  Workload(siblings.back()).place_in_local = workload.place_in_local;
  siblings.pop_back();
  --pending_count_;
  if (workload.place == Place::kOutside) {
    Queue(workload.queue).outside.erase(id);
  } else if (workload.place == Place::kQueued) {
    QueueState& queue = Queue(workload.queue);
    const WorkloadId holding = HoldingHead(queue);
    const bool was_first = queue.pending->First() == id;
    queue.pending->Remove(id);
    if (holding.Valid() && holding != HoldingHead(queue)) {
      Wake(workload.queue);
    }
    if (was_first && !queue.pending->Empty()) {
      needs_pass_ = true;  // the next one is at the head now
      only_config_ = false;
      queue.touched = true;
      Mark(workload.queue);
    }
  } else if (workload.place == Place::kWaiting) {
    Queue(workload.queue).waiting.erase(id);
    Mark(workload.queue);
    std::erase_if(waiting_, [&](const Waiting& waiting) { return waiting.workload == id; });
    Wake(workload.queue);  // nothing is kept for it any more
  }
  workload.place = Place::kUnqueued;
  workload.queue = QueueId{};
}

void EngineImpl::Resolve(std::vector<WorkloadId> ids) {
  std::sort(ids.begin(), ids.end());
  for (const WorkloadId id : ids) {
    Detach(id);
    Attach(id);
  }
}

void EngineImpl::ResolveQueue(QueueId queue) {
  for (const auto& [key, id] : local_queue_ids_) {
    if (Local(id).exists && Local(id).queue == queue) {
      Resolve(Local(id).pending);
    }
  }
}

std::vector<PodSetSpec> EngineImpl::Specs(const WorkloadInput& input) {
  std::vector<PodSetSpec> specs;
  for (const PodSetInput& pod_set : input.pod_sets) {
    const int32_t count = std::max(0, pod_set.count);
    PodSetSpec spec{
        pod_set.name, count,         std::clamp(pod_set.min_count.value_or(count), 0, count),
        {},           pod_set.shape, input.group_claims};
    for (const auto& [resource, amount] : pod_set.requests) {
      if (resource != "pods") {
        spec.per_pod.emplace_back(tables_.resources.Intern(resource), std::max<int64_t>(0, amount));
      }
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

void EngineImpl::SetPending(const WorkloadInput& input) {
  const WorkloadId id = FindOrAdd(input.id);
  WorkloadState& workload = Workload(id);
  OrderKey key = MakeKey(input.priority, input.queue_time, input.uid, input.id);
  std::shared_ptr<const WorkloadSpec> spec = SpecOf(input);
  const LocalQueueId local = LocalByKey({input.ns, input.local_queue});
  if (workload.phase == Phase::kPending) {
    if (keys_[id.value] == key && workload.spec == spec && workload.local_queue == local &&
        workload.misconfigured == input.misconfigured &&
        (workload.replacement == nullptr || workload.replacement->replaced == input.replaced)) {
      return;
    }
    Detach(id);
  } else if (workload.phase == Phase::kReserved) {
    ReleaseQuota(id);
    capacity_->Release(input.id);
  }
  if (keys_[id.value].priority != input.priority) {
    evicted_by_.erase(id);
  }
  if (workload.phase != Phase::kReserved) {
    workload.arrival = waves_.Arrive();
  }
  if (workload.phase != Phase::kPending) {
    workload.told = 0;
    workload.told_details = 0;
  }
  workload.phase = Phase::kPending;
  Fill(id, input, std::move(spec));
  workload.local_queue = local;
  keys_[id.value] = std::move(key);
  Recount(input.id);
  Attach(id);
}

// --- reserved workloads ---

void EngineImpl::AddToBooks(WorkloadId id, int sign) {
  const WorkloadState& workload = Workload(id);
  QueueState& queue = Queue(workload.queue);
  queue.book.Add(workload.usage, workload.admitted, sign);
  queue.evicting += workload.evicting ? sign : 0;
  if (sign > 0) {
    queue.reserved.insert(id);
  } else {
    queue.reserved.erase(id);
  }
  Local(workload.local_queue).book.Add(workload.usage, workload.admitted, sign);
  if (config_dirty_ || !queue.exists) {
    return;  // the tree will be built from the books
  }
  for (const auto& [pair, amount] : workload.usage) {
    if (sign > 0) {
      tree_.AddUsage(queue.node, pair, amount);
    } else {
      tree_.RemoveUsage(queue.node, pair, amount);
    }
  }
}

void EngineImpl::SetEvicting(WorkloadId id, bool evicting) {
  WorkloadState& workload = Workload(id);
  Queue(workload.queue).evicting += int{evicting} - int{workload.evicting};
  workload.evicting = evicting;
}

void EngineImpl::ReleaseQuota(WorkloadId id) {
  AddToBooks(id, -1);
  Wake(Workload(id).queue);
  RefundEntry(id);
  Workload(id).usage.clear();
  Workload(id).admitted = false;
  Workload(id).evicting = false;
}

bool EngineImpl::SetReserved(const WorkloadInput& input, const api::Admission& admission,
                             bool admitted, bool plan, Time reserved_at) {
  const WorkloadId id = FindOrAdd(input.id);
  WorkloadState& workload = Workload(id);
  const bool settles = workload.phase == Phase::kReserved && !workload.admitted && admitted;
  Usage before;
  QueueId queue_before;
  bool less_important = false;
  if (workload.phase == Phase::kPending) {
    Detach(id);
  } else if (workload.phase == Phase::kReserved) {
    less_important = input.priority < Key(id).priority;  // others may take its quota now
    before = workload.usage;
    queue_before = workload.queue;
    AddToBooks(id, -1);
  }
  workload.phase = Phase::kReserved;
  Fill(id, input, SpecOf(input));
  workload.local_queue = LocalByKey({input.ns, input.local_queue});
  workload.queue = QueueByName(admission.cluster_queue);
  workload.admitted = admitted;
  workload.told = 0;
  workload.told_details = 0;
  keys_[id.value] = MakeKey(input.priority, input.queue_time, input.uid, input.id,
                            std::chrono::floor<std::chrono::seconds>(reserved_at));

  workload.usage.clear();
  for (const api::PodSetAssignment& assignment : admission.assignments) {
    auto pod_set = std::find_if(input.pod_sets.begin(), input.pod_sets.end(),
                                [&](const auto& known) { return known.name == assignment.name; });
    for (const auto& [resource, quantity] : assignment.resource_usage) {
      auto flavor = assignment.flavors.find(resource);
      if (flavor == assignment.flavors.end()) {
        continue;
      }
      Amount amount = std::max<int64_t>(0, api::ToAmount(resource, quantity));
      // Pods that were given back (reclaimable) no longer count.
      const int32_t reserved_count = assignment.count.value_or(0);
      if (pod_set != input.pod_sets.end() && pod_set->count < reserved_count) {
        amount = (amount * std::max(0, pod_set->count) + reserved_count - 1) / reserved_count;
      }
      Flavor(flavor->second);  // known by name from now on
      AddUsage(workload.usage,
               tables_.pairs.Intern(tables_.flavors.Intern(flavor->second),
                                    tables_.resources.Intern(resource)),
               amount);
    }
  }
  if (workload.replacement != nullptr) {
    workload.replacement->whole = workload.usage;
    workload.usage = Beyond(workload.replacement->whole, Replaced(id));
  }
  AddToBooks(id, +1);
  Recount(input.id);
  if (!config_dirty_ && Queue(workload.queue).exists) {
    for (const auto& [pair, amount] : workload.usage) {
      ExcuseOverLimit(Queue(workload.queue).node, pair);
    }
  }
  if (queue_before.Valid() &&
      (queue_before != workload.queue || before != workload.usage || less_important)) {
    Wake(queue_before);
  }
  if (settles) {
    SettleEntry(id);
  }
  return !plan || PlanReserved(id, admission);
}

bool EngineImpl::PlanReserved(WorkloadId id, const api::Admission& admission) {
  const WorkloadState& workload = Workload(id);
  const std::string& name = Key(id).id;
  capacity_->Release(name);
  std::vector<PodSetSpec> specs = workload.spec->pod_sets;
  SetHeld(id, specs);
  Gang required{name, {}, specs.empty() ? std::vector<api::PodClaim>() : specs[0].group_claims};
  for (const PodSetSpec& spec : specs) {
    auto assignment = std::find_if(admission.assignments.begin(), admission.assignments.end(),
                                   [&](const auto& known) { return known.name == spec.name; });
    if (assignment == admission.assignments.end()) {
      continue;
    }
    std::vector<ResourceChoice> choices;
    bool wanted = false;
    for (const auto& [resource, flavor] : assignment->flavors) {
      const CapacityMode mode = Flavor(flavor).mode;
      wanted = wanted || mode == CapacityMode::kRequire;
      choices.push_back(
          {tables_.resources.Intern(resource), tables_.flavors.Intern(flavor), {}, 0});
    }
    PodSetSpec unbound = spec;
    unbound.count = assignment->count ? std::min(spec.count, *assignment->count) : spec.count;
    unbound.count -= capacity_->Bound(name, spec.name);
    if (wanted && unbound.count > 0) {
      required.pod_sets.push_back(MakeGangPodSet(unbound, choices, flavors_));
    }
  }
  if (required.pod_sets.empty()) {
    return true;
  }
  const FitResult fit = capacity_->Check(required, Reason::kNone);
  if (fit.kind != FitKind::kFits && fit.kind != FitKind::kUndecided) {
    return false;
  }
  if (!fit.placement.empty()) {
    capacity_->Reserve(required, fit.placement);
  }
  return true;
}

void EngineImpl::MarkAdmitted(const std::string& id) {
  const WorkloadId known = Find(id);
  if (!known.Valid() || Workload(known).phase != Phase::kReserved || Workload(known).admitted) {
    return;
  }
  AddToBooks(known, -1);
  Workload(known).admitted = true;
  AddToBooks(known, +1);
  SettleEntry(known);
}

void EngineImpl::MarkEvicting(const std::string& id, bool evicting) {
  const WorkloadId known = Find(id);
  if (known.Valid() && Workload(known).phase == Phase::kReserved &&
      Workload(known).evicting != evicting) {
    SetEvicting(known, evicting);
    if (evicting) {
      leaving_.insert(id);
    } else {
      Wake(Workload(known).queue);  // somebody may count on it
    }
  }
}

void EngineImpl::Remove(const std::string& id) {
  const WorkloadId known = Find(id);
  if (!known.Valid()) {
    return;
  }
  if (Workload(known).phase == Phase::kPending) {
    Detach(known);
  } else {
    const bool by_itself = !Workload(known).evicting;
    const QueueId queue = Workload(known).queue;
    ReleaseQuota(known);
    capacity_->Release(id);
    if (by_itself && !config_dirty_ && Queue(queue).exists) {
      ForgetEvictions(tree_.Root(Queue(queue).node));
      waves_.RoomCame(tree_.Root(Queue(queue).node));
    }
  }
  Free(known);
  Recount(id);
}

}  // namespace tutti::engine
