// SPDX-License-Identifier: Apache-2.0
// A workload without quota: may it stand in the queue, what the engine is told of it, and what its
// status says of the reason. See core.h.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <string>
#include <utility>

#include "base/names.h"
#include "reconciler/core.h"
#include "reconciler/slices.h"
#include "reconciler/status.h"
#include "reconciler/workload_writes.h"

namespace tutti::reconciler {
namespace {

// Between two writes of a reason that differ in the message only.
constexpr Duration kFirstUpdate = std::chrono::seconds(1);
constexpr Duration kLastUpdate = std::chrono::minutes(5);
constexpr const char* kBackoffFinished = "The workload backoff was finished";

// Any of spec.preemptionGates that status does not show as open: nobody is preempted for it.
bool GatesClosed(const api::Workload& workload) {
  const Json::Array& states = workload.status.other["preemptionGates"].AsArray();
  return std::any_of(
      workload.preemption_gates.begin(), workload.preemption_gates.end(), [&](const auto& name) {
        return std::none_of(states.begin(), states.end(), [&](const Json& state) {
          return state["name"].AsString() == name && state["position"].AsString() == "Open";
        });
      });
}

}  // namespace

void Core::EndBackoff(Unit& unit, const api::Workload& workload) {
  const api::Condition* requeued = api::FindCondition(workload.status.conditions, "Requeued");
  if (requeued == nullptr || requeued->status != "False" ||
      (requeued->reason != reason::kPodsReadyTimeout &&
       requeued->reason != reason::kAdmissionCheck)) {
    return;
  }
  if (workload.status.requeue_at.has_value() && now_ < *workload.status.requeue_at) {
    WakeAt(unit, *workload.status.requeue_at);
    return;
  }
  api::Workload next = workload;
  Requeue(next.status, reason::kBackoffFinished, kBackoffFinished, now_);
  Emit(unit, {ApplyStatus(next)});
}

bool Core::ReadyToQueue(Unit& unit, const QueuedJob* job, const api::Workload& workload) {
  if (!workload.meta.Annotation(names::kAdmissionGatedByAnnotation).empty()) {
    api::Workload next = workload;
    if (SetPendingReason(next.status, reason::kAdmissionGated,
                         "Admission is gated by: " + std::string(workload.meta.Annotation(
                                                         names::kAdmissionGatedByAnnotation)),
                         {}, now_, Style())) {
      Emit(unit, {ApplyStatus(next)});
    }
    return false;
  }
  if (options_.preemption_gates) {
    api::Workload next = workload;
    if (SyncPreemptionGates(next, now_)) {
      Emit(unit, {ApplyStatus(next)});
      return false;  // goes on with the answer
    }
  }
  if (FollowDeactivation(unit, job, workload) || !workload.active) {
    api::Workload next = workload;
    if (options_.detailed_reasons && unit.in_flight == 0 &&
        SetPendingReason(next.status, reason::kDeactivated, "The workload is deactivated", {}, now_,
                         Style())) {
      Emit(unit, {ApplyStatus(next)});
    }
    return false;
  }
  if (!IsFalse(workload.status.conditions, "Requeued")) {
    if (!workload.status.requeue_at.has_value()) {
      // Pods that are missing come back here.
      return job == nullptr || !job->WaitsForReplacements(workload).value_or(false);
    }
    if (now_ < *workload.status.requeue_at) {
      WakeAt(unit, *workload.status.requeue_at);
      return false;
    }
    Emit(unit, {StatusPatch(workload,
                            Json::Obj({{"requeueState", Json::Obj({{"requeueAt", Json()}})}}))});
    return false;
  }
  const std::string& why = api::FindCondition(workload.status.conditions, "Requeued")->reason;
  const auto local = world_.local_queues.Find({unit.key.ns, workload.queue_name});
  const auto queue =
      local != nullptr ? world_.cluster_queues.Find({"", local->cluster_queue}) : nullptr;
  std::string_view back = reason::kBackoffFinished;
  std::string message = kBackoffFinished;
  if (why == reason::kClusterQueueStopped) {
    if (queue == nullptr || queue->stop_policy != api::StopPolicy::kNone) {
      return false;
    }
    back = reason::kClusterQueueRestarted;
    message = "The ClusterQueue was restarted after being stopped";
  } else if (why == reason::kLocalQueueStopped) {
    if (local == nullptr || local->stop_policy != api::StopPolicy::kNone) {
      return false;
    }
    back = reason::kLocalQueueRestarted;
    message = "The LocalQueue was restarted after being stopped";
  } else if (why.starts_with(reason::kDeactivated)) {
    back = reason::kReactivated;
    message = "The workload was reactivated";
  } else if (workload.status.requeue_at.has_value() && now_ < *workload.status.requeue_at) {
    WakeAt(unit, *workload.status.requeue_at);
    return false;
  }
  api::Workload next = workload;
  Requeue(next.status, back, message, now_);
  History(HistoryKind::kRequeued, unit, &next, std::string(back), message);
  Emit(unit, {ApplyStatus(next)});
  return false;  // goes on with the answer
}

void Core::ReconcilePending(Unit& unit, const QueuedJob* job, const api::Workload& workload) {
  if (unit.in_engine == Unit::InEngine::kReserved && !StartsAgain(workload)) {
    LeaveEngine(unit);  // the reservation was withdrawn from outside
  }
  if (job != nullptr) {
    if (!job->Suspended()) {
      StopJob(unit, *job, workload, {});
      return;
    }
    // When its reservation was withdrawn from outside, or somebody else decides. Else the writes of
    // a reservation and of the end of an eviction say it.
    if ((!options_.core || !options_.scheduler ||
         api::IsTrue(workload.status.conditions, "PodsReady")) &&
        SyncPodsReady(unit, *job, workload)) {
      return;
    }
    if (job->HasLeftovers() || !world_.GroupsOf(unit.job_uid).empty()) {
      const bool stopped = StopJob(unit, *job, workload, {});
      if (unit.in_flight != 0) {
        return;
      }
      if (!stopped) {
        // Not as submitted yet: a start on top of the old one could not be undone.
        LeaveEngine(unit);
        SetWaiting(unit, &workload, workload.active);
        return;
      }
      StripStuckGroups(unit);
    }
    const std::string_view queue = job->meta.Label(names::kQueueNameLabel);
    if (queue != workload.queue_name && Managed(*job)) {
      LeaveEngine(unit);
      SetWaiting(unit, &workload, false);
      Emit(unit,
           {WorkloadPatch(workload, Json::Obj({{"spec", Json::Obj({{"queueName", queue}})}}))});
      return;
    }
    if (SyncPriority(unit, job, workload)) {
      return;
    }
    const std::string_view gates = job->meta.Annotation(names::kAdmissionGatedByAnnotation);
    if (gates != workload.meta.Annotation(names::kAdmissionGatedByAnnotation)) {
      Json value = gates.empty() ? Json() : Json(gates);
      Emit(unit,
           {WorkloadPatch(
               workload,
               Json::Obj({{"metadata",
                           Json::Obj({{"annotations",
                                       Json::Obj({{std::string(names::kAdmissionGatedByAnnotation),
                                                   value}})}})}}))});
      return;
    }
  }
  if (!options_.core) {
    return;
  }
  if (job == nullptr && SyncPriority(unit, nullptr, workload)) {
    return;
  }
  if (!ReadyToQueue(unit, job, workload)) {
    LeaveEngine(unit);
    SetWaiting(unit, &workload, workload.active);
    if (unit.in_flight == 0 && job != nullptr) {
      DeleteDeactivated(unit, *job, workload);
    }
    return;
  }
  const auto local = world_.local_queues.Find({unit.key.ns, workload.queue_name});
  const auto queue =
      local != nullptr ? world_.cluster_queues.Find({"", local->cluster_queue}) : nullptr;
  if (queue != nullptr && SyncCheckList(unit, workload, *queue)) {
    return;  // goes on with the answer, and keeps its place in the queue
  }
  SetWaiting(unit, &workload, false);
  if (unit.in_engine == Unit::InEngine::kReserved) {
    LeaveEngine(unit);  // and back in the same step: nobody gets in between
  }
  Shape(unit, workload);
  engine::WorkloadInput input = InputFor(unit, workload, job);
  std::string key = EngineKeyOf(input);
  if (unit.in_engine != Unit::InEngine::kPending || unit.engine_key != key) {
    engine_->SetPending(input);
    unit.in_engine = Unit::InEngine::kPending;
    unit.queued_in = {unit.key.ns, workload.queue_name};
    unit.engine_key = std::move(key);
    DirtyLocal({unit.key.ns, workload.queue_name});
  }
  if (!options_.scheduler) {
    // No pass tells it; what stands in the way before any decision is told all the same.
    auto why = engine_->WhyPending(input.id);
    if (why.has_value() &&
        (CoarseReason(why->reason) == reason::kInadmissible || IsDue(unit, workload))) {
      unit.pending_since = now_;
      unit.pending = std::move(*why);
    }
  }
  WritePendingReason(unit, workload);
}

std::string Core::EngineKeyOf(const engine::WorkloadInput& input) {
  std::string key = input.local_queue + "|" + std::to_string(input.priority) + "|" +
                    std::to_string(input.queue_time.time_since_epoch().count()) + "|" +
                    input.misconfigured + (input.preemption_gated ? "|gated" : "");
  if (input.replaced.has_value()) {
    key += "|" + input.replaces;
    for (const api::PodSetAssignment& held : input.replaced->assignments) {
      key += ":" + std::to_string(held.count.value_or(0));
    }
  }
  for (const engine::PodSetInput& pod_set : input.pod_sets) {
    key += "|" + pod_set.name + ":" + std::to_string(pod_set.count) + "@" +
           std::to_string(reinterpret_cast<uintptr_t>(pod_set.shape.get()));
    if (pod_set.requests != pod_set.shape->requests) {  // devices, rules
      for (const auto& [resource, amount] : pod_set.requests) {
        key += "," + resource + "=" + std::to_string(amount);
      }
    }
  }
  return key;
}

void Core::WritePendingReason(Unit& unit, const api::Workload& workload) {
  if (!unit.pending.has_value()) {
    return;
  }
  const bool detailed = options_.detailed_reasons;
  const std::string_view reason = unit.pending_blocked
                                      ? (detailed ? reason::kWaitingForPodsReady : reason::kWaiting)
                                  : detailed ? DetailedReason(unit.pending->reason)
                                             : CoarseReason(unit.pending->reason);
  const bool urgent = IsDue(unit, workload);
  const api::Condition* told = api::FindCondition(workload.status.conditions, "QuotaReserved");
  const bool update = told != nullptr && told->status == "False" && told->reason == reason;
  Time due = urgent ? unit.pending_since : unit.pending_since + options_.pending_reason_delay;
  if (update && unit.pending_updates > 0) {
    due =
        std::max(due, unit.pending_told + Backoff(unit.pending_updates, kFirstUpdate, kLastUpdate));
  }
  if (now_ < due) {
    WakeAt(unit, due);
    return;
  }
  std::vector<std::pair<std::string, api::ResourceList>> requests;
  const engine::WorkloadInput input = InputFor(unit, workload, nullptr);
  for (const engine::PodSetInput& pod_set : input.pod_sets) {
    api::ResourceList list;
    for (const auto& [resource, amount] : pod_set.requests) {
      list[resource] = api::FromAmount(resource, api::SaturatingMul(amount, pod_set.count));
    }
    requests.emplace_back(pod_set.name, std::move(list));
  }
  api::Workload next = workload;
  bool changed =
      SetPendingReason(next.status, reason, unit.pending->message, requests, now_, Style());
  if (unit.pending->reason == engine::PendingReason::kPreemptionGated) {
    changed |= SetBlockedOnPreemptionGates(next.status, unit.pending->message, now_);
  }
  const std::string granular(engine::ToString(unit.pending->reason));
  const std::string message = unit.pending->message;
  if (!changed) {
    unit.pending.reset();
    return;
  }
  if (!urgent && !std::exchange(unit.pending_turn, false) &&
      !(tell_line_.empty() && reasons_.Take(now_))) {
    unit.pending_in_line = true;
    tell_line_.emplace(unit.pending_since, unit.key);
    return;
  }
  unit.pending_told = now_;
  unit.pending_updates += update ? 1 : 0;
  // Kept until it is written: the engine tells a reason only once.
  unit.pending_in_flight = true;
  EventOn(workload, /*warning=*/true, reason, message);
  History(HistoryKind::kPending, unit, &next, granular, message);
  Emit(unit, {ApplyStatus(next)}, Emission::kTells);
}

void Core::TellReasons() {
  while (!tell_line_.empty() && reasons_.MayTell(now_)) {
    const api::ObjectKey key = tell_line_.begin()->second;
    tell_line_.erase(tell_line_.begin());
    const auto found = units_.find(key);
    if (found == units_.end() || !std::exchange(found->second.pending_in_line, false)) {
      continue;
    }
    if (!found->second.pending.has_value() || found->second.in_flight != 0) {
      continue;  // told or admitted since; a write under way looks again when it ends
    }
    (void)reasons_.Take(now_);
    found->second.pending_turn = true;
    ReconcileUnit(found->second);
    if (const auto unit = units_.find(key); unit != units_.end()) {
      unit->second.pending_turn = false;
    }
  }
}

// Told without delay: what a person must mend, and, if asked for, that it waits at all.
bool Core::IsDue(const Unit& unit, const api::Workload& workload) const {
  return (unit.pending.has_value() &&
          CoarseReason(unit.pending->reason) == reason::kInadmissible) ||
         (options_.explicit_status &&
          api::FindCondition(workload.status.conditions, "QuotaReserved") == nullptr);
}

ReasonStyle Core::Style() const {
  return options_.detailed_reasons ? ReasonStyle::kDetailed : ReasonStyle::kCoarse;
}

void Core::Shape(Unit& unit, const api::Workload& workload) {
  if (unit.shape_uid == workload.meta.uid && unit.shape_generation == workload.meta.generation &&
      unit.shape_context == context_version_ && unit.shaped.shape != nullptr) {
    return;
  }
  unit.shape_uid = workload.meta.uid;
  unit.shape_generation = workload.meta.generation;
  unit.shape_context = context_version_;
  const std::string text =
      workload.pod_sets.empty() ? "{}" : workload.pod_sets.front().template_json;
  unit.refs = RefsOf(text);
  if (!unit.refs.preset_group.empty()) {
    units_of_preset_[{unit.key.ns, unit.refs.preset_group}].insert(unit.key);
  }
  const api::PodContext context = world_.ContextOf(unit.key.ns, unit.refs.runtime_class);
  const std::string context_id = context.limit_ranges.empty() && context.runtime_class == nullptr
                                     ? ""
                                     : unit.key.ns + "#" + std::to_string(context_version_);
  unit.shaped = shapes_.Get(text, context, context_id);
}

// Kueue's queue-order timestamp: an eviction for readiness or by a check puts a workload behind
// those that came before it, and, where priorities don't order a cohort, so does one that took back
// what had been borrowed.
Time Core::QueueTime(const api::Workload& workload, Time created) const {
  const api::Condition* evicted = api::FindCondition(workload.status.conditions, "Evicted");
  if (evicted != nullptr && evicted->status == "True" &&
      ((evicted->reason == reason::kPodsReadyTimeout &&
        !options_.wait_for_pods_ready.requeue_by_creation) ||
       evicted->reason == reason::kAdmissionCheck)) {
    return evicted->last_transition;
  }
  const api::Condition* preempted = api::FindCondition(workload.status.conditions, "Preempted");
  if (!options_.rules.priority_within_cohort && preempted != nullptr &&
      preempted->status == "True" &&
      preempted->reason ==
          engine::ToString(engine::PreemptReason::kInCohortReclaimWhileBorrowing)) {
    return preempted->last_transition + std::chrono::milliseconds(1);
  }
  return created;
}

void Core::DeleteDeactivated(Unit& unit, const QueuedJob& job, const api::Workload& workload) {
  const api::Condition* evicted = api::FindCondition(workload.status.conditions, "Evicted");
  if (!options_.retain_deactivated.has_value() || workload.active || evicted == nullptr ||
      evicted->status != "True" ||
      !evicted->reason.starts_with(std::string(reason::kDeactivated) + "DueTo")) {
    return;
  }
  const Time end = evicted->last_transition + *options_.retain_deactivated;
  if (now_ < end) {
    WakeAt(unit, end);
    return;
  }
  Event(job, /*warning=*/false, "Deleted", "Deleted job: deactivation retention period expired");
  Emit(unit, {DeleteJob(job)});
}

// Gate PriorityBoost; a webhook refuses what isn't a number.
int32_t Core::Boost(const api::Workload& workload) const {
  if (!options_.priority_boost) {
    return 0;
  }
  const std::string_view text = workload.meta.Annotation(names::kPriorityBoostAnnotation);
  int32_t boost = 0;
  const auto [end, error] = std::from_chars(text.data() + (text.starts_with('+') ? 1 : 0),
                                            text.data() + text.size(), boost);
  return error == std::errc() && end == text.data() + text.size() ? boost : 0;
}

// The workload slice whose place this one takes.
std::shared_ptr<const api::Workload> Core::ReplacedBy(const api::Workload& workload) const {
  if (!options_.workload_slices) {
    return nullptr;
  }
  const std::optional<api::ObjectKey> key = ReplacedKey(workload);
  return key.has_value() ? world_.workloads.Find(*key) : nullptr;
}

engine::WorkloadInput Core::InputFor(Unit& unit, const api::Workload& workload,
                                     const QueuedJob* job) {
  Shape(unit, workload);
  engine::WorkloadInput input;
  input.id = unit.key.ToString();
  input.ns = unit.key.ns;
  input.local_queue = workload.queue_name;
  input.priority = int64_t{workload.priority} + Boost(workload);
  // The job's own age decides, not that of the record we keep of it. Who observes another
  // controller goes by what that one sees, the Workload alone.
  const bool observes = options_.mode == Mode::kObserve;
  input.uid = job != nullptr
                  ? job->meta.uid
                  : (unit.job_uid.empty() || observes ? workload.meta.uid : unit.job_uid);
  input.workload_uid = workload.meta.uid;
  input.job_uid = workload.meta.Label(names::kJobUidLabel);
  input.preemption_gated = options_.preemption_gates && GatesClosed(workload);
  input.queue_time = workload.meta.created;
  const std::shared_ptr<const QueuedJob> owner = observes ? nullptr : world_.JobOf(unit.job_uid);
  if (owner != nullptr) {
    input.queue_time = owner->meta.created;
  }
  input.queue_time = QueueTime(workload, input.queue_time);
  input.misconfigured = workload.problem.empty() ? unit.shaped.problem : workload.problem;
  input.invalid_requests = workload.problem.empty() && unit.shaped.of_limits;
  if (const auto replaced = ReplacedBy(workload);
      replaced != nullptr && replaced->QuotaReserved() && !replaced->Finished() &&
      (workload.QuotaReserved() || !GivesWay(*replaced))) {
    input.replaces = replaced->meta.Key().ToString();
    input.replaced = HeldBy(*replaced);
    if (owner != nullptr) {
      // What the job has keeps its place by the job's age; for more it stands in line as others do.
      input.queue_time =
          QueueTime(workload, workload.meta.created != kNoTime ? workload.meta.created : now_);
    }
  }
  if (input.misconfigured.empty() && owner != nullptr) {
    input.misconfigured = GroupProblem(unit, *owner);
  }
  if (owner != nullptr) {
    if (auto shared = owner->GangClaims()) {
      input.group_claims = std::move(*shared);
    }
  }
  for (size_t i = 0; i < workload.pod_sets.size(); ++i) {
    const api::PodSet& spec = workload.pod_sets[i];
    engine::PodSetInput pod_set;
    pod_set.name = spec.name;
    pod_set.count = std::max(0, spec.count - GivenBack(workload, spec, owner.get()));
    if (owner != nullptr) {
      pod_set.count =
          std::min(pod_set.count, std::max(1, owner->Remaining(spec)));  // what is left to do
    }
    pod_set.min_count = spec.min_count;
    if (i == 0) {
      pod_set.shape = unit.shaped.shape;
    } else {
      const TemplateRefs refs = RefsOf(spec.template_json);
      const api::PodContext context = world_.ContextOf(unit.key.ns, refs.runtime_class);
      const auto shaped = shapes_.Get(spec.template_json, context,
                                      unit.key.ns + "#" + std::to_string(context_version_));
      pod_set.shape = shaped.shape;
      if (input.misconfigured.empty() && !shaped.problem.empty()) {
        input.misconfigured = shaped.problem;
        input.invalid_requests = shaped.of_limits;
      }
    }
    pod_set.requests = ApplyResourceRules(options_.resources, pod_set.shape->requests);
    ChargeDevices(unit, input.group_claims, pod_set, input.misconfigured);
    input.pod_sets.push_back(std::move(pod_set));
  }
  return input;
}

}  // namespace tutti::reconciler
