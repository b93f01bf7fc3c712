// SPDX-License-Identifier: Apache-2.0
// The step: due timers, dirty units, one engine pass, queue statuses. See core.h.
#include "reconciler/core.h"

#include <algorithm>

#include "base/names.h"
#include "engine/volume_book.h"
#include "reconciler/observer.h"
#include "reconciler/status.h"

namespace tutti::reconciler {
namespace {

constexpr Duration kFirstRetry = std::chrono::milliseconds(100);
constexpr Duration kLastRetry = std::chrono::seconds(30);
constexpr Duration kCollectConfig = std::chrono::milliseconds(500);
// Forgotten shapes that may pile up before they are swept out.
constexpr size_t kShapesKept = 1000;
// So often an admission whose write may have been carried out is tried again before it is given up.
constexpr int kAdmissionTries = 4;

// Of the condition QuotaReserved: waits for the pods of others (blockAdmission).
bool IsToldToWait(const api::Condition* reserved) {
  return reserved != nullptr &&
         (reserved->reason == reason::kWaiting || reserved->reason == reason::kWaitingForPodsReady);
}

bool Refused(ErrorCode code) {
  return code == ErrorCode::kInvalid || code == ErrorCode::kForbidden;
}

}  // namespace

std::string_view ToString(HistoryKind kind) {
  switch (kind) {
    case HistoryKind::kCreated:
      return "Created";
    case HistoryKind::kPending:
      return "Pending";
    case HistoryKind::kQuotaReserved:
      return "QuotaReserved";
    case HistoryKind::kReleased:
      return "Released";
    case HistoryKind::kLanded:
      return "Landed";
    case HistoryKind::kEvicted:
      return "Evicted";
    case HistoryKind::kRequeued:
      return "Requeued";
    case HistoryKind::kFinished:
      return "Finished";
    case HistoryKind::kDeleted:
      return "Deleted";
  }
  return "Created";
}

std::string_view ToString(ObservedDecision::Kind kind) {
  switch (kind) {
    case ObservedDecision::Kind::kReserved:
      return "Reserved";
    case ObservedDecision::Kind::kPreempted:
      return "Preempted";
    case ObservedDecision::Kind::kNotStarted:
      return "NotStarted";
  }
  return "Reserved";
}

Core::Core(Options options)
    : options_(std::move(options)),
      engine_(engine::MakeEngine()),
      device_quota_(options_.device_mappings, options_.extended_resource_quota) {
  world_.kinds = options_.job_kinds;
  engine_->capacity().SetDevicesKnown(options_.devices);
  engine_->capacity().Volumes().SetKnown(options_.volumes);
  engine_->SetPartialAdmission(true);  // StartJob starts as many pods as were admitted
  engine_->SetFairSharing(options_.fair_sharing);
  engine_->SetAdmissionFairSharing(options_.admission_fair_sharing);
  engine_->SetPinning(options_.steering == Steering::kNodeSelector);
  engine_->SetRules(options_.rules);
  if (options_.mode == Mode::kObserve) {
    observer_ = std::make_unique<Observer>(*this);
  }
}
Core::~Core() = default;

void Core::OnSynced() {
  synced_ = true;
  DirtyAll();
}

void Core::Dirty(const api::ObjectKey& unit) {
  dirty_units_.insert(unit);
}

void Core::DirtyAll() {
  for (const auto& [key, unit] : units_) {
    dirty_units_.insert(key);
  }
}

void Core::DirtyQueue(const std::string& cluster_queue) {
  if (cluster_queue.empty()) {
    return;
  }
  DirtyStatus("ClusterQueue/" + cluster_queue);
  if (options_.fair_sharing) {
    DirtyCohortsAbove(cluster_queue);
  }
}

// What a ClusterQueue uses counts in the shares of all Cohorts above it.
void Core::DirtyCohortsAbove(const std::string& cluster_queue) {
  for (const std::string& name : CohortsAbove(cluster_queue)) {
    if (world_.cohorts.Find({"", name}) != nullptr) {  // else there is nothing to write to
      DirtyStatus("Cohort/" + name);
    }
  }
}

std::vector<std::string> Core::CohortsAbove(const std::string& cluster_queue) const {
  std::vector<std::string> names;
  const auto queue = world_.cluster_queues.Find({"", cluster_queue});
  std::string name = queue != nullptr ? queue->cohort : "";
  while (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) {
    names.push_back(name);
    const auto cohort = world_.cohorts.Find({"", name});
    name = cohort != nullptr ? cohort->parent : "";
  }
  return names;
}

void Core::DirtyLocal(const api::ObjectKey& local_queue) {
  DirtyStatus("LocalQueue/" + local_queue.ToString());
  if (const auto queue = world_.local_queues.Find(local_queue)) {
    DirtyQueue(queue->cluster_queue);
  }
}

void Core::WakeAt(Unit& unit, Time when) {
  // An earlier one stays: when it is due, the unit is looked at and asks again for what comes
  // later.
  if (unit.wake_at != kNoTime && unit.wake_at <= when) {
    return;
  }
  if (unit.wake_at != kNoTime) {
    timers_.erase({unit.wake_at, unit.key});
  }
  unit.wake_at = when;
  timers_.insert({when, unit.key});
}

void Core::Emit(Unit& unit, std::vector<api::WriteRequest> writes, Emission why) {
  if (writes.empty()) {
    return;
  }
  Effect effect;
  effect.token = next_token_++;
  effect.order_key = "Workload/" + unit.key.ToString();
  effect.writes = std::move(writes);
  effect.tells = why == Emission::kTells;
  unit.in_flight = effect.token;
  unit_of_token_[effect.token] = unit.key;
  if (why == Emission::kActs) {
    reasons_.Act(now_);
    statuses_.Act(now_);
  }
  out_.effects.push_back(std::move(effect));
}

const Result<Json>* Core::Ask(Unit& unit, const std::string& path) {
  const auto [entry, fresh] = unit.reads.try_emplace(path);
  if (fresh) {
    const uint64_t token = next_token_++;
    read_of_token_[token] = {unit.key, path};
    out_.reads.push_back({token, path});
  }
  return entry->second.has_value() ? &*entry->second : nullptr;
}

void Core::OnRead(uint64_t token, Result<Json> answer) {
  const auto entry = read_of_token_.find(token);
  if (entry == read_of_token_.end()) {
    return;
  }
  const auto [key, path] = std::move(entry->second);
  read_of_token_.erase(entry);
  if (const auto unit = units_.find(key); unit != units_.end()) {
    if (const auto read = unit->second.reads.find(path); read != unit->second.reads.end()) {
      read->second = std::move(answer);
      Dirty(key);
    }
  }
}

void Core::Event(const QueuedJob& job, bool warning, std::string_view reason, std::string message) {
  const api::Resource& resource = job.kind.Resource();
  const api::ObjectMeta& about = job.EventMeta();
  out_.events.push_back({resource.ApiVersion(), resource.kind, about.Key(), about.uid, warning,
                         std::string(reason), std::move(message)});
}

void Core::EventOn(const api::Workload& workload, bool warning, std::string_view reason,
                   std::string message) {
  out_.events.push_back({std::string(names::kKueueVersion), "Workload", workload.meta.Key(),
                         workload.meta.uid, warning, std::string(reason), std::move(message)});
}

void Core::Count(std::string name, std::vector<std::pair<std::string, std::string>> labels,
                 double value) {
  out_.metrics.push_back({MetricSample::Op::kAdd, std::move(name), std::move(labels), value});
}

std::vector<std::pair<std::string, std::string>> Core::QueueLabels(
    const api::Workload& workload, const std::string& cluster_queue) {
  return {{"cluster_queue", cluster_queue},
          {"name", workload.queue_name},
          {"namespace", workload.meta.ns},
          {"priority_class", workload.priority_class ? workload.priority_class->name : ""}};
}

void Core::Observe(std::string name, std::vector<std::pair<std::string, std::string>> labels,
                   double value) {
  out_.metrics.push_back({MetricSample::Op::kObserve, std::move(name), std::move(labels), value});
}

void Core::History(HistoryKind kind, const Unit& unit, const api::Workload* workload,
                   std::string reason, std::string message) {
  HistoryRow row;
  row.time = now_;
  row.kind = kind;
  row.workload = unit.key;
  row.reason = std::move(reason);
  row.message = std::move(message);
  if (const auto job = world_.JobOf(unit.job_uid)) {
    row.job = job->meta.name;
  }
  if (workload != nullptr) {
    row.workload_uid = workload->meta.uid;
    row.local_queue = workload->queue_name;
    for (const api::PodSet& pod_set : workload->pod_sets) {
      row.pods += pod_set.count;
    }
    if (workload->status.admission.has_value()) {
      row.cluster_queue = workload->status.admission->cluster_queue;
      for (const api::PodSetAssignment& assignment : workload->status.admission->assignments) {
        for (const auto& [resource, flavor] : assignment.flavors) {
          const auto usage = assignment.resource_usage.find(resource);
          if (usage != assignment.resource_usage.end()) {
            row.amounts.push_back({flavor, resource, api::ToAmount(resource, usage->second)});
          }
        }
      }
    } else if (const auto queue = world_.local_queues.Find({unit.key.ns, workload->queue_name})) {
      row.cluster_queue = queue->cluster_queue;
    }
  }
  out_.history.push_back(std::move(row));
}

void Core::AbsorbObject(const Json& object) {
  const std::string& kind = object["kind"].AsString();
  if (kind == "Workload" && object["apiVersion"].AsString().starts_with("scheduling.k8s.io/")) {
    return;  // another kind of that name
  }
  const auto absorb = [&](auto decoded, auto&& take) {
    if (decoded) {
      using T = typename decltype(decoded)::value_type;
      take(std::make_shared<const T>(std::move(*decoded)));
    }
  };
  for (const JobKind* job_kind : world_.kinds) {
    const api::Resource& resource = job_kind->Resource();
    if (!job_kind->MadeOfPods() && kind == resource.kind &&
        object["apiVersion"].AsString() == resource.ApiVersion()) {
      if (auto job = job_kind->Decode(object)) {
        OnJob(std::move(*job), false);
      }
      return;
    }
  }
  if (kind == "Workload") {
    absorb(api::WorkloadFromJson(object), [&](auto ptr) { OnWorkload(std::move(ptr), false); });
  } else if (kind == "Pod") {
    absorb(WatchedPodFromJson(object), [&](auto ptr) { OnPod(std::move(ptr), false); });
  } else if (kind == "PodGroup") {
    absorb(api::PodGroupFromJson(object), [&](auto ptr) { OnPodGroup(std::move(ptr), false); });
  } else if (kind == "ClusterQueue") {
    absorb(api::ClusterQueueFromJson(object),
           [&](auto ptr) { OnClusterQueue(std::move(ptr), false); });
  } else if (kind == "LocalQueue") {
    absorb(api::LocalQueueFromJson(object), [&](auto ptr) { OnLocalQueue(std::move(ptr), false); });
  } else if (kind == "AdmissionCheck") {
    absorb(api::AdmissionCheckFromJson(object),
           [&](auto ptr) { OnAdmissionCheck(std::move(ptr), false); });
  } else if (kind == "ResourceFlavor") {
    absorb(api::ResourceFlavorFromJson(object), [&](auto ptr) { OnFlavor(std::move(ptr), false); });
  } else if (kind == api::ProvisioningRequestResource().kind) {
    absorb(api::ProvisioningRequestFromJson(object),
           [&](auto ptr) { OnProvisioningRequest(std::move(ptr), false); });
  } else if (kind == api::PodTemplateResource().kind) {
    absorb(api::PodTemplateFromJson(object),
           [&](auto ptr) { OnPodTemplate(std::move(ptr), false); });
  }
}

void Core::OnOutcome(uint64_t token, const std::vector<Json>& objects,
                     const std::optional<Error>& error) {
  for (const Json& object : objects) {
    AbsorbObject(object);
  }
  if (const auto queue = queue_of_token_.find(token); queue != queue_of_token_.end()) {
    QueueState& state = queue_states_[queue->second];
    state.in_flight = false;
    state.failures = error.has_value() ? state.failures + 1 : 0;
    if (error.has_value() && error->code != ErrorCode::kNotFound) {
      DirtyStatus(queue->second);
    }
    if (dirty_queues_.contains(queue->second)) {
      status_due_ = std::min(status_due_, StatusDue(queue->second));
    }
    queue_of_token_.erase(queue);
    return;
  }
  const auto entry = unit_of_token_.find(token);
  if (entry == unit_of_token_.end()) {
    return;
  }
  const api::ObjectKey key = entry->second;
  unit_of_token_.erase(entry);
  const auto found = units_.find(key);
  if (found == units_.end() || found->second.in_flight != token) {
    return;
  }
  Unit& unit = found->second;
  unit.in_flight = 0;
  const bool created = std::exchange(unit.creating, false);
  const bool told_pending = std::exchange(unit.pending_in_flight, false);
  TellAsked(unit, objects.size(), error);
  if (!error.has_value()) {
    unit.failures = 0;
    unit.refusals = 0;
    unit.retry_at = kNoTime;
    if (told_pending) {
      unit.pending.reset();
    }
  } else {
    ++unit.failures;
    const bool refused = Refused(error->code);
    if (refused) {
      ++unit.refusals;
      unit.refusal = error->message;
    }
    const auto workload = world_.workloads.Find(key);
    if (refused && unit.evicting.has_value() && workload != nullptr && !workload->Evicted()) {
      // It can't be made to give way; the engine looks for somebody else.
      engine_->MarkEvicting(key.ToString(), false);
      unit.evicting.reset();
      unit.preempted.reset();
    }
    if (unit.assumed.has_value() && (workload == nullptr || !workload->QuotaReserved())) {
      // An admission that was not written is taken back; the next pass decides again. Where it may
      // have been written and only the answer is lost, or the cache is behind, it keeps its place:
      // nobody else may get the quota before that is known.
      if (refused || error->code == ErrorCode::kNotFound || unit.failures > kAdmissionTries) {
        LeaveEngine(unit);
      }
    } else if (created && refused) {
      LeaveEngine(unit);  // a job that can't have a Workload stands in nobody's way
    }
    // A stale version or a name that exists is settled by the next look at the object.
    const bool settle_now =
        (error->code == ErrorCode::kConflict || error->code == ErrorCode::kAlreadyExists ||
         error->code == ErrorCode::kNotFound) &&
        unit.failures <= 2;
    unit.retry_at =
        now_ + (settle_now ? Duration(0) : Backoff(unit.failures, kFirstRetry, kLastRetry));
    if (refused) {
      if (const auto job = world_.JobOf(unit.job_uid)) {
        Event(*job, /*warning=*/true, "WriteRefused", error->message);
      }
    }
    Count("tutti_unit_write_failures_total", {{"code", std::string(ToString(error->code))}});
  }
  Dirty(key);
}

Output Core::Step(Time now) {
  now_ = now;
  if (synced_) {
    SamplePast();
    while (!timers_.empty() && timers_.begin()->first <= now) {
      const api::ObjectKey key = timers_.begin()->second;
      timers_.erase(timers_.begin());
      if (const auto found = units_.find(key); found != units_.end()) {
        found->second.wake_at = kNoTime;
        dirty_units_.insert(key);
      }
    }
    if (capacity_modes_stale_) {
      RefreshCapacityModes();
    }
    CountPartial();
    if (observer_ != nullptr) {
      observer_->Step();
      dirty_queues_.clear();  // nothing is written
      status_due_ = Time::max();
      return std::exchange(out_, Output{});
    }
    std::vector<api::ObjectKey> due(dirty_units_.begin(), dirty_units_.end());
    dirty_units_.clear();
    if (first_step_) {
      // After a start, what holds quota is planned again first, in the order of reservation, before
      // anything new is admitted.
      first_step_ = false;
      const auto reserved_at = [&](const api::ObjectKey& key) {
        const auto workload = world_.workloads.Find(key);
        if (workload == nullptr || !workload->QuotaReserved()) {
          return Time::max();
        }
        return api::FindCondition(workload->status.conditions, "QuotaReserved")->last_transition;
      };
      std::stable_sort(due.begin(), due.end(), [&](const auto& a, const auto& b) {
        return reserved_at(a) < reserved_at(b);
      });
    }
    for (const api::ObjectKey& key : due) {
      if (const auto found = units_.find(key); found != units_.end()) {
        ReconcileUnit(found->second);
      }
    }
    TellReasons();
    const bool was_blocked = std::exchange(blocked_, BlockedByReadiness());
    if (PassDue() <= now_) {
      RunPass();
    }
    if (was_blocked && !blocked_) {
      TellUnblocked();
    }
    ReconcileQueues();
    if (shapes_.Size() > shapes_trimmed_ * 2 + kShapesKept) {
      shapes_.Trim();
      shapes_trimmed_ = shapes_.Size();
    }
  }
  return std::exchange(out_, Output{});
}

// Time::max() = not without further input. Changes of configuration alone are taken together: ten
// edits of a queue in a row don't ask all that wait there ten times.
Time Core::PassDue() const {
  if (!options_.scheduler || blocked_) {
    return Time::max();
  }
  const Time due = engine_->DueAt().value_or(Time::max());
  if (!engine_->NeedsPass()) {
    return due;
  }
  const bool collects = engine_->OnlyConfigChanged() && last_pass_ != kNoTime;
  return std::min(due, collects ? last_pass_ + kCollectConfig : now_);
}

void Core::RunPass() {
  last_pass_ = now_;
  const engine::PassResult pass = engine_->RunPass(now_);
  Count("tutti_passes_total", {});
  Count("tutti_pass_cycles_total", {}, pass.cycles);
  ++out_.passes;
  for (const engine::PendingDecision& decision : pass.pending) {
    const auto slash = decision.id.find('/');
    const auto found = units_.find({decision.id.substr(0, slash), decision.id.substr(slash + 1)});
    if (found == units_.end()) {
      continue;
    }
    SetPendingDecision(found->second, decision, /*blocked=*/false);
  }
  ApplyPreemptions(pass);
  ApplyAdmissions(pass);
}

void Core::SetPendingDecision(Unit& unit, engine::PendingDecision decision, bool blocked) {
  const bool known = unit.pending.has_value() && !unit.pending_in_flight;
  // It is to be told already, and waits for that: what is told then is the newest.
  const bool same = known && unit.pending_blocked == blocked &&
                    DetailedReason(unit.pending->reason) == DetailedReason(decision.reason);
  if (!known) {
    unit.pending_since = now_;
    unit.pending_in_flight = false;
  }
  unit.pending = std::move(decision);
  unit.pending_blocked = blocked;
  if (same) {
    return;
  }
  if (options_.explicit_status || CoarseReason(unit.pending->reason) == reason::kInadmissible) {
    Dirty(unit.key);
  } else {
    WakeAt(unit, unit.pending_since + options_.pending_reason_delay);
  }
}

bool Core::BlockedByReadiness() {
  const WaitForPodsReady& wait = options_.wait_for_pods_ready;
  if (!wait.enabled || !wait.block_admission) {
    return false;
  }
  const bool blocked = std::any_of(units_.begin(), units_.end(), [&](const auto& entry) {
    const Unit& unit = entry.second;
    if (unit.in_engine != Unit::InEngine::kReserved) {
      return false;
    }
    const auto workload = world_.workloads.Find(unit.key);
    return unit.assumed.has_value() || workload == nullptr ||
           (workload->Admitted() && !api::IsTrue(workload->status.conditions, "PodsReady"));
  });
  if (!blocked || !engine_->NeedsPass()) {
    return blocked;
  }
  for (const auto& [key, queue] : world_.cluster_queues.All()) {
    const std::vector<std::string> order = engine_->PendingOrder(key.name);
    if (order.empty()) {
      continue;
    }
    const auto slash = order.front().find('/');
    const auto found =
        units_.find({order.front().substr(0, slash), order.front().substr(slash + 1)});
    const auto workload = found != units_.end() ? world_.workloads.Find(found->first) : nullptr;
    if (workload == nullptr || found->second.pending_blocked) {
      continue;
    }
    const api::Condition* reserved =
        api::FindCondition(workload->status.conditions, "QuotaReserved");
    if (!IsToldToWait(reserved)) {
      SetPendingDecision(found->second,
                         {order.front(), engine::PendingReason::kPendingEvaluation,
                          "waiting for all admitted workloads to be in PodsReady condition"},
                         /*blocked=*/true);
    }
  }
  return true;
}

void Core::TellUnblocked() {
  for (auto& [key, unit] : units_) {
    const auto workload = world_.workloads.Find(key);
    if (unit.in_engine != Unit::InEngine::kPending || workload == nullptr) {
      continue;
    }
    const api::Condition* reserved =
        api::FindCondition(workload->status.conditions, "QuotaReserved");
    if (unit.pending_blocked || IsToldToWait(reserved)) {
      if (auto why = engine_->WhyPending(key.ToString())) {
        SetPendingDecision(unit, std::move(*why), /*blocked=*/false);
      }
    }
  }
}

void Core::ApplyPreemptions(const engine::PassResult& pass) {
  for (const engine::PreemptDecision& decision : pass.preempted) {
    const auto slash = decision.id.find('/');
    const auto found = units_.find({decision.id.substr(0, slash), decision.id.substr(slash + 1)});
    if (found == units_.end()) {
      engine_->Remove(decision.id);
      out_.bugs.push_back("the engine preempted an unknown workload: " + decision.id);
      continue;
    }
    Unit& unit = found->second;
    unit.preempted = decision;
    if (const auto slices = slices_of_.find(unit.key); slices != slices_of_.end()) {
      dirty_units_.insert(slices->second.begin(), slices->second.end());
    }
    if (unit.in_flight == 0) {
      ReconcileUnit(unit);  // else when the answer to what is under way arrives
    }
  }
}

void Core::ApplyAdmissions(const engine::PassResult& pass) {
  const bool one_by_one =
      options_.wait_for_pods_ready.enabled && options_.wait_for_pods_ready.block_admission;
  bool first = true;
  for (const engine::AdmitDecision& decision : pass.admitted) {
    const auto slash = decision.id.find('/');
    const auto found = units_.find({decision.id.substr(0, slash), decision.id.substr(slash + 1)});
    if (found == units_.end()) {
      engine_->Remove(decision.id);
      out_.bugs.push_back("the engine admitted an unknown workload: " + decision.id);
      continue;
    }
    Unit& unit = found->second;
    if (one_by_one && !std::exchange(first, false)) {
      LeaveEngine(unit);  // its turn comes when the pods of the first are ready
      Dirty(unit.key);
      continue;
    }
    unit.assumed = decision;
    unit.assumed_at = now_;
    unit.in_engine = Unit::InEngine::kReserved;
    unit.reserved_in = decision.cluster_queue;
    unit.engine_key.clear();
    unit.pending.reset();
    unit.pending_in_flight = false;
    unit.pending_updates = 0;
    unit.pinned_node = decision.pinned_node;
    unit.planned_nodes.clear();
    for (const engine::PlacementSlot& slot : decision.placement) {
      auto& nodes = unit.planned_nodes[decision.pod_sets[slot.pod_set].name];
      if (std::find(nodes.begin(), nodes.end(), slot.node) == nodes.end()) {
        nodes.push_back(slot.node);
      }
    }
    DirtyQueue(decision.cluster_queue);
    if (unit.in_flight != 0) {
      continue;  // written when the answer to what is under way arrives
    }
    ReconcileUnit(unit);
  }
}

std::optional<Time> Core::NextWake() const {
  std::optional<Time> next;
  const auto consider = [&](Time time) {
    if (!next.has_value() || time < *next) {
      next = time;
    }
  };
  if (!timers_.empty()) {
    consider(timers_.begin()->first);
  }
  if (!tell_line_.empty()) {
    consider(reasons_.Next(now_));
  }
  if (next_sample_ != kNoTime) {
    consider(next_sample_);
  }
  for (const auto& [uid, partial] : partial_) {
    consider(partial.counted + kLeastPartial);
  }
  if (observer_ != nullptr) {
    if (const Time look = observer_->NextLook(); look != kNoTime) {
      consider(look);
    }
    return next;
  }
  if (const Time due = PassDue(); due != Time::max()) {
    consider(std::max(due, now_));
  }
  if (status_due_ != Time::max()) {
    consider(std::max(status_due_, now_));
  }
  return next;
}

bool Core::Busy() const {
  return synced_ && (!dirty_units_.empty() || capacity_modes_stale_ || PassDue() <= now_);
}

std::string Core::SanityCheck() const {
  std::string problem = engine_->SanityCheck();
  if (!problem.empty()) {
    return problem;
  }
  for (const auto& [key, unit] : units_) {
    if (unit.assumed.has_value() && unit.in_engine != Unit::InEngine::kReserved) {
      return "unit " + key.ToString() + " is assumed but holds nothing in the engine";
    }
    if (unit.in_flight != 0 && !unit_of_token_.contains(unit.in_flight)) {
      return "unit " + key.ToString() + " waits for a write that nobody knows";
    }
  }
  return "";
}

}  // namespace tutti::reconciler
