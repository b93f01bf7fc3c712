// SPDX-License-Identifier: Apache-2.0
#include "reconciler/observer.h"

#include <algorithm>
#include <utility>

#include "base/names.h"
#include "reconciler/core.h"
#include "reconciler/status.h"
#include "reconciler/workload_writes.h"

namespace tutti::reconciler {
namespace {

// The other controller decides on what was there a moment before its write is seen.
constexpr Duration kRecent = std::chrono::seconds(5);
// Whoever could start for so long and does not: a difference.
constexpr Duration kNotStartedAfter = std::chrono::seconds(10);

bool Deactivated(const api::Workload& workload) {
  return !workload.active;
}

// "cq-a: main 4 x nvidia.com/gpu h100, cpu h100"
std::string Text(const std::string& queue, const std::string& name, int32_t count,
                 const api::StringMap& flavors, bool first) {
  std::string out = first ? queue + ":" : ";";
  out += " " + std::to_string(count) + " " + name;
  bool any = false;
  for (const auto& [resource, flavor] : flavors) {
    out += any ? ", " : " of ";
    out += resource + " " + flavor;
    any = true;
  }
  return out;
}

std::string Describe(const api::Admission& admission) {
  std::string out;
  for (const api::PodSetAssignment& part : admission.assignments) {
    out +=
        Text(admission.cluster_queue, part.name, part.count.value_or(0), part.flavors, out.empty());
  }
  return out;
}

std::string Describe(const engine::AdmitDecision& decision) {
  std::string out;
  for (const engine::PodSetDecision& part : decision.pod_sets) {
    out += Text(decision.cluster_queue, part.name, part.count, part.flavors, out.empty());
  }
  return out;
}

// Both say it in the same words exactly when they are the same.
bool Same(const engine::AdmitDecision& decision, const api::Admission& admission) {
  return Describe(decision) == Describe(admission);
}

std::pair<std::string, std::string> KeyParts(const std::string& id) {
  const size_t slash = id.find('/');
  return {id.substr(0, slash), id.substr(slash + 1)};
}

api::ObjectKey KeyOf(const std::string& id) {
  const auto [ns, name] = KeyParts(id);
  return {ns, name};
}

bool Preempted(const api::Workload* workload) {
  if (workload == nullptr || !workload->Evicted()) {
    return false;
  }
  const api::Condition* evicted = api::FindCondition(workload->status.conditions, "Evicted");
  return evicted->reason == reason::kPreempted;
}

bool Holds(const api::Workload* workload) {
  return workload != nullptr && workload->QuotaReserved() && !workload->Finished() &&
         workload->status.admission.has_value();
}

}  // namespace

void Observer::Saw(const api::ObjectKey& key, std::shared_ptr<const api::Workload> before,
                   std::shared_ptr<const api::Workload> after) {
  if (first_) {
    return;  // what was there at the start is followed by the first step
  }
  changes_.push_back({key, std::move(before), std::move(after)});
}

void Observer::Step() {
  if (std::exchange(first_, false)) {
    std::vector<std::pair<Time, api::ObjectKey>> order;  // those with quota as they got it
    for (const auto& [key, unit] : core_.units_) {
      const auto workload = core_.world_.workloads.Find(key);
      order.emplace_back(Holds(workload.get()) ? ReservedAt(*workload) : Time::max(), key);
    }
    std::sort(order.begin(), order.end());
    for (const auto& [at, key] : order) {
      Follow(core_.units_.at(key), core_.world_.workloads.Find(key));
    }
  }
  for (const Change& change : std::exchange(changes_, {})) {
    Judge(change);
    if (const auto unit = core_.units_.find(change.key); unit != core_.units_.end()) {
      Follow(unit->second, change.after);
    }
  }
  // What changes besides: times that have come, limits, classes.
  for (const api::ObjectKey& key : std::exchange(core_.dirty_units_, {})) {
    if (const auto unit = core_.units_.find(key); unit != core_.units_.end()) {
      Follow(unit->second, core_.world_.workloads.Find(key));
    }
  }
  if (stale_ || core_.engine_->NeedsPass()) {
    Pass();
  }
  TellNotStarted();
}

void Observer::Follow(Unit& unit, const std::shared_ptr<const api::Workload>& workload) {
  const std::string id = unit.key.ToString();
  if (workload == nullptr) {
    core_.LeaveEngine(unit);
    guesses_.erase(unit.key);
    victims_.erase(unit.key);
    reasons_.erase(unit.key);
    if (core_.world_.workloads.Find(unit.key) == nullptr &&
        core_.world_.JobOf(unit.job_uid) == nullptr) {
      core_.Forget(api::ObjectKey(unit.key));  // ends `unit`
    }
    return;
  }
  if (workload->Finished() || (Deactivated(*workload) && !workload->QuotaReserved())) {
    core_.LeaveEngine(unit);
    return;
  }
  if (!Holds(workload.get())) {
    FollowPending(unit, *workload);
    return;
  }
  const bool guessed = unit.assumed.has_value() && Same(*unit.assumed, *workload->status.admission);
  if (unit.assumed.has_value() && !guessed) {
    core_.LeaveEngine(unit);
  }
  stale_ = stale_ || (!guessed && unit.in_engine != Unit::InEngine::kReserved);
  unit.assumed.reset();
  if (const auto guess = guesses_.find(unit.key); guess != guesses_.end()) {
    guess->second.stands = false;
  }
  core_.SyncReservation(unit, nullptr, *workload);
  const auto victim = victims_.find(unit.key);
  const bool expected = victim != victims_.end() && victim->second.stands;
  core_.engine_->MarkEvicting(id, workload->Evicted() || expected);
}

void Observer::FollowPending(Unit& unit, const api::Workload& workload) {
  const api::WorkloadStatus& status = workload.status;
  const bool gated = !workload.meta.Annotation(names::kAdmissionGatedByAnnotation).empty();
  const bool held = IsFalse(status.conditions, "Requeued");
  const bool early = status.requeue_at.has_value() && core_.now_ < *status.requeue_at;
  if (gated || held || early || !workload.active) {
    core_.LeaveEngine(unit);
    if (early) {
      core_.WakeAt(unit, *status.requeue_at);
    }
    return;
  }
  const engine::WorkloadInput input = core_.InputFor(unit, workload, nullptr);
  const std::string key = Core::EngineKeyOf(input);
  const auto guess = guesses_.find(unit.key);
  const bool guessed = unit.assumed.has_value() && guess != guesses_.end();
  if (guessed && unit.guessed_for == key) {
    return;  // stands until the next pass
  }
  if (!guessed && unit.in_engine == Unit::InEngine::kPending && unit.engine_key == key) {
    return;
  }
  core_.LeaveEngine(unit);
  core_.engine_->SetPending(input);
  unit.in_engine = Unit::InEngine::kPending;
  unit.queued_in = {unit.key.ns, workload.queue_name};
  unit.engine_key = key;
  if (guess != guesses_.end()) {
    guess->second.stands = false;
  }
}

void Observer::TakeBackGuesses() {
  for (auto& [key, guess] : guesses_) {
    const auto found = core_.units_.find(key);
    if (!guess.stands || found == core_.units_.end() || !found->second.assumed.has_value()) {
      continue;
    }
    Unit& unit = found->second;
    const auto workload = core_.world_.workloads.Find(key);
    core_.LeaveEngine(unit);
    if (workload != nullptr && !Holds(workload.get())) {
      const engine::WorkloadInput input = core_.InputFor(unit, *workload, nullptr);
      core_.engine_->SetPending(input);
      unit.in_engine = Unit::InEngine::kPending;
      unit.queued_in = {key.ns, workload->queue_name};
      unit.engine_key = Core::EngineKeyOf(input);
    }
  }
  for (auto& [key, victim] : victims_) {
    if (!std::exchange(victim.stands, false)) {
      continue;
    }
    const auto workload = core_.world_.workloads.Find(key);
    core_.engine_->MarkEvicting(key.ToString(), workload != nullptr && workload->Evicted());
  }
}

void Observer::Pass() {
  stale_ = false;
  TakeBackGuesses();
  const engine::PassResult pass = core_.engine_->RunPass(core_.now_);
  core_.last_pass_ = core_.now_;
  core_.Count("tutti_passes_total", {});
  core_.Count("tutti_pass_cycles_total", {}, pass.cycles);
  ++core_.out_.passes;
  std::set<api::ObjectKey> stand;
  for (const engine::AdmitDecision& decision : pass.admitted) {
    const api::ObjectKey key = KeyOf(decision.id);
    const auto found = core_.units_.find(key);
    if (found == core_.units_.end()) {
      core_.engine_->Remove(decision.id);
      core_.out_.bugs.push_back("the engine admitted an unknown workload: " + decision.id);
      continue;
    }
    Unit& unit = found->second;
    unit.assumed = decision;
    unit.in_engine = Unit::InEngine::kReserved;
    unit.reserved_in = decision.cluster_queue;
    unit.guessed_for = std::exchange(unit.engine_key, "");
    Guess& guess = guesses_[key];
    const bool goes_on = guess.stands && Describe(guess.decision) == Describe(decision);
    guess = {decision, goes_on ? guess.first : core_.now_, core_.now_, /*stands=*/true,
             goes_on && guess.told};
    stand.insert(key);
    reasons_.erase(key);
  }
  for (auto& [key, guess] : guesses_) {
    guess.stands = guess.stands && stand.contains(key);
  }
  for (const engine::PreemptDecision& decision : pass.preempted) {
    victims_[KeyOf(decision.id)] = {decision, core_.now_, /*stands=*/true};
  }
  for (const engine::PendingDecision& decision : pass.pending) {
    reasons_[KeyOf(decision.id)] = decision.message;
  }
}

std::string Observer::WhyNot(const api::ObjectKey& key) const {
  if (const auto why = core_.engine_->WhyPending(key.ToString())) {
    return "waits: " + why->message;
  }
  const auto told = reasons_.find(key);
  return told != reasons_.end() ? "waits: " + told->second : "is not in a queue";
}

void Observer::Judge(const Change& change) {
  if (!Holds(change.before.get()) && Holds(change.after.get())) {
    JudgeReservation(change);
  } else if (Holds(change.before.get()) && Preempted(change.after.get()) &&
             !Preempted(change.before.get())) {
    JudgePreemption(change);
  }
}

void Observer::JudgeReservation(const Change& change) {
  if (stale_ || core_.engine_->NeedsPass()) {
    Pass();  // on what was there before this
  }
  const api::Admission& live = *change.after->status.admission;
  const auto guess = guesses_.find(change.key);
  if (guess != guesses_.end() && guess->second.last + kRecent >= core_.now_ &&
      Same(guess->second.decision, live)) {
    Tell(ObservedDecision::Kind::kReserved, change.key, /*agreed=*/true, Describe(live),
         Describe(live));
    return;
  }
  if (guess != guesses_.end() && guess->second.stands) {
    const bool same = Same(guess->second.decision, live);
    Tell(ObservedDecision::Kind::kReserved, change.key, same, Describe(live),
         Describe(guess->second.decision));
    return;
  }
  Tell(ObservedDecision::Kind::kReserved, change.key, /*agreed=*/false, Describe(live),
       WhyNot(change.key));
}

void Observer::JudgePreemption(const Change& change) {
  if (stale_ || core_.engine_->NeedsPass()) {
    Pass();
  }
  const api::Condition* preempted =
      api::FindCondition(change.after->status.conditions, "Preempted");
  const std::string live = preempted != nullptr ? preempted->reason : "preempted";
  const auto victim = victims_.find(change.key);
  const bool known = victim != victims_.end() &&
                     (victim->second.stands || victim->second.last + kRecent >= core_.now_);
  const std::string ours =
      known ? std::string(engine::ToString(victim->second.decision.reason)) : "is left alone";
  Tell(ObservedDecision::Kind::kPreempted, change.key, live == ours, live, ours);
}

void Observer::TellNotStarted() {
  for (auto& [key, guess] : guesses_) {
    if (guess.stands && !guess.told && guess.first + kNotStartedAfter <= core_.now_) {
      guess.told = true;
      Tell(ObservedDecision::Kind::kNotStarted, key, /*agreed=*/false,
           "waits for " + std::to_string(kNotStartedAfter / std::chrono::seconds(1)) +
               " s since it could start",
           Describe(guess.decision));
    }
  }
}

Time Observer::NextLook() const {
  Time next = kNoTime;
  for (const auto& [key, guess] : guesses_) {
    if (guess.stands && !guess.told && (next == kNoTime || guess.first + kNotStartedAfter < next)) {
      next = guess.first + kNotStartedAfter;
    }
  }
  return next;
}

void Observer::Tell(ObservedDecision::Kind kind, const api::ObjectKey& key, bool agreed,
                    std::string live, std::string ours) {
  ObservedDecision decision;
  decision.time = core_.now_;
  decision.kind = kind;
  decision.workload = key;
  decision.agreed = agreed;
  decision.live = std::move(live);
  decision.ours = std::move(ours);
  if (const auto workload = core_.world_.workloads.Find(key)) {
    decision.workload_uid = workload->meta.uid;
    decision.local_queue = workload->queue_name;
    if (const auto queue = core_.world_.local_queues.Find({key.ns, workload->queue_name})) {
      decision.cluster_queue = queue->cluster_queue;
    }
  }
  core_.Count("tutti_observed_decisions_total",
              {{"kind", std::string(ToString(kind))}, {"agreed", agreed ? "true" : "false"}});
  core_.out_.observed.push_back(std::move(decision));
}

}  // namespace tutti::reconciler
