// SPDX-License-Identifier: Apache-2.0
// Statuses of ClusterQueues and LocalQueues (coalesced: at most one write per second and queue, and
// only when something changed) and the finalizers that keep queues and flavors in use. See core.h.
#include <algorithm>
#include <cmath>
#include <string>

#include "base/names.h"
#include "reconciler/admission_checks.h"
#include "reconciler/core.h"
#include "reconciler/provisioning.h"
#include "reconciler/status.h"

namespace tutti::reconciler {
namespace {

constexpr std::string_view kCapacityCondition = "tutti.dev/Capacity";
constexpr std::string_view kGangCondition = "tutti.dev/NativeGangs";
constexpr Duration kLastQueueRetry = std::chrono::minutes(5);

Json UsageList(const engine::QueueReport& report, bool admitted_only, bool with_borrowed) {
  Json list = Json::Arr();
  for (const engine::FlavorUsage& usage : report.usage) {
    Json* flavor = nullptr;
    for (Json& entry : list.MutableArray()) {
      if (entry["name"].AsString() == usage.flavor) {
        flavor = &entry;
      }
    }
    if (flavor == nullptr) {
      list.Push(Json::Obj({{"name", usage.flavor}, {"resources", Json::Arr()}}));
      flavor = &list.MutableArray().back();
    }
    const int64_t total = admitted_only ? usage.admitted : usage.reserved;
    Json entry = Json::Obj(
        {{"name", usage.resource}, {"total", api::FromAmount(usage.resource, total).ToString()}});
    if (with_borrowed) {
      const int64_t borrowed = std::max<int64_t>(0, total - usage.nominal);
      entry.Set("borrowed", api::FromAmount(usage.resource, borrowed).ToString());
    }
    flavor->At("resources").Push(std::move(entry));
  }
  return list;
}

// What a restart goes on from: RestorePast reads it back.
Json PastUsageJson(const engine::PastUsage& past, const engine::QueueReport& report) {
  Json consumed = Json::Obj();
  for (const engine::FlavorUsage& usage : report.usage) {
    consumed.Set(usage.resource, "0");
  }
  for (const auto& [resource, amount] : past.consumed) {
    // Below a thousandth nothing is left; beyond int64 nothing is measured.
    const double milli = std::min(std::round(amount * 1000), 9e18);
    if (milli > 0) {
      consumed.Set(resource, api::Quantity::FromMilli(static_cast<int64_t>(milli)).ToString());
    }
  }
  return Json::Obj(
      {{"weightedShare", 0},
       {"admissionFairSharingStatus", Json::Obj({{"consumedResources", std::move(consumed)},
                                                 {"lastUpdate", FormatTime(past.updated)}})}});
}

// Only the members that `wanted` has count: others belong to someone else.
bool SameStatus(const std::string& current_text, const Json& wanted) {
  const auto current = Json::Parse(current_text.empty() ? "{}" : current_text);
  if (!current) {
    return false;
  }
  for (const auto& [key, value] : wanted.AsObject()) {
    const Json& now = (*current)[key];
    const bool both_empty = value.IsArray() && value.AsArray().empty() && now.IsNull();
    const bool both_zero = value.IsInt() && value.AsInt() == 0 && now.IsNull();
    if (!both_empty && !both_zero && !(now == value)) {
      return false;
    }
  }
  return true;
}

api::WriteRequest StatusApply(api::Kind kind, const api::ObjectMeta& meta, Json status) {
  api::WriteRequest write;
  write.verb = api::Verb::kApply;
  write.resource = api::ResourceOf(kind);
  write.key = meta.Key();
  write.subresource = "status";
  write.field_manager = names::kUpdateManager;
  Json metadata = Json::Obj({{"name", meta.name}, {"uid", meta.uid}});
  if (!meta.ns.empty()) {
    metadata.Set("namespace", meta.ns);
  }
  write.body = Json::Obj({{"apiVersion", write.resource.ApiVersion()},
                          {"kind", write.resource.kind},
                          {"metadata", std::move(metadata)},
                          {"status", std::move(status)}});
  return write;
}

std::string_view ModeName(engine::CapacityMode mode) {
  switch (mode) {
    case engine::CapacityMode::kRequire:
      return "Require";
    case engine::CapacityMode::kRelease:
      return "Release";
    case engine::CapacityMode::kObserve:
      return "Observe";
    case engine::CapacityMode::kOff:
      return "Off";
  }
  return "Off";
}

}  // namespace

void Core::EmitQueueWrite(const std::string& order_key, api::WriteRequest write) {
  QueueState& state = queue_states_[order_key];
  state.in_flight = true;
  state.looked_at = state.last_write = now_;
  Effect effect;
  effect.token = next_token_++;
  effect.order_key = order_key;
  effect.writes.push_back(std::move(write));
  effect.tells = true;
  queue_of_token_[effect.token] = order_key;
  out_.effects.push_back(std::move(effect));
}

Time Core::NextQueueWrite(const QueueState& state) const {
  // The first failure is usually a stale version; a write refused for good must not go on at the
  // full pace.
  const Duration wait =
      state.failures > 1 ? Backoff(state.failures, options_.queue_status_interval, kLastQueueRetry)
                         : options_.queue_status_interval;
  return state.looked_at + wait;
}

void Core::DirtyStatus(const std::string& order_key) {
  if (dirty_queues_.insert(order_key).second) {
    status_due_ = std::min(status_due_, StatusDue(order_key));
  }
}

// Time::max: when the answer to the write under way has come.
Time Core::StatusDue(const std::string& order_key) const {
  const auto state = queue_states_.find(order_key);
  if (state == queue_states_.end()) {
    return kNoTime;
  }
  return state->second.in_flight ? Time::max() : NextQueueWrite(state->second);
}

void Core::ReconcileQueues() {
  if (now_ < status_due_) {
    return;
  }
  const std::set<std::string> dirty = std::exchange(dirty_queues_, {});
  status_due_ = Time::max();
  if (!options_.core) {
    return;
  }
  // Where not all can be told, the turn is of the one that was written longest ago.
  std::vector<std::pair<Time, std::string>> due;
  for (const std::string& order_key : dirty) {
    const auto state = queue_states_.find(order_key);
    if (now_ < StatusDue(order_key)) {
      DirtyStatus(order_key);
    } else {
      due.emplace_back(state != queue_states_.end() ? state->second.last_write : kNoTime,
                       order_key);
    }
  }
  std::sort(due.begin(), due.end());
  for (const auto& [last_write, order_key] : due) {
    const std::string kind = order_key.substr(0, order_key.find('/'));
    const std::string rest = order_key.substr(kind.size() + 1);
    if (kind == "ClusterQueue") {
      ReconcileClusterQueue({"", rest});
    } else if (kind == "LocalQueue") {
      const auto slash = rest.find('/');
      ReconcileLocalQueue({rest.substr(0, slash), rest.substr(slash + 1)});
    } else if (kind == "Cohort") {
      ReconcileCohort({"", rest});
    } else if (kind == "AdmissionCheck") {
      ReconcileAdmissionCheck({"", rest});
    } else {
      ReconcileFlavor({"", rest});
    }
  }
}

bool Core::MayTellStatus(const std::string& order_key) {
  if (statuses_.Take(now_)) {
    return true;
  }
  queue_states_[order_key].looked_at = now_;
  DirtyStatus(order_key);
  return false;
}

void Core::FinalizerWrite(const std::string& order_key, api::Kind kind, const api::ObjectMeta& meta,
                          bool wanted) {
  Json finalizers = Json::Arr();
  for (const std::string& finalizer : meta.finalizers) {
    if (finalizer != names::kResourceInUseFinalizer) {
      finalizers.Push(finalizer);
    }
  }
  if (wanted) {
    finalizers.Push(names::kResourceInUseFinalizer);
  }
  api::WriteRequest write;
  write.verb = api::Verb::kMergePatch;
  write.resource = api::ResourceOf(kind);
  write.key = meta.Key();
  write.field_manager = names::kUpdateManager;
  write.body = Json::Obj({{"metadata", Json::Obj({{"resourceVersion", meta.resource_version},
                                                  {"finalizers", std::move(finalizers)}})}});
  EmitQueueWrite(order_key, std::move(write));
}

void Core::ReconcileClusterQueue(const api::ObjectKey& key) {
  const std::string order_key = "ClusterQueue/" + key.name;
  const auto queue = world_.cluster_queues.Find(key);
  if (queue == nullptr) {
    queue_states_.erase(order_key);
    return;
  }
  const engine::QueueReport report = engine_->Report(key.name);
  const bool has_finalizer = queue->meta.HasFinalizer(names::kResourceInUseFinalizer);
  if (queue->meta.deleted.has_value() ? (has_finalizer && report.reserving == 0) : !has_finalizer) {
    FinalizerWrite(order_key, api::Kind::kClusterQueue, queue->meta,
                   !queue->meta.deleted.has_value());
    DirtyStatus(order_key);
    return;
  }
  int32_t pending = report.pending;
  for (const auto& [local_key, count] : waiting_in_queue_) {
    const auto local = world_.local_queues.Find(local_key);
    if (local != nullptr && local->cluster_queue == key.name) {
      pending += count;
    }
  }
  const engine::QueueHealth health = engine_->Health(key.name);
  api::Conditions conditions = queue->conditions;
  api::Condition active;
  active.type = "Active";
  active.status = health.active ? "True" : "False";
  active.reason = health.reason;
  active.message = health.message;
  active.observed_generation = queue->meta.generation;
  bool news = api::SetCondition(conditions, std::move(active), now_);
  // How admissions of this queue are checked for a place, flavor by flavor.
  std::string modes;
  bool proven = true;
  bool off = true;  // everywhere: these conditions would say nothing
  for (const api::ResourceGroup& group : queue->groups) {
    for (const api::FlavorQuotas& flavor : group.flavors) {
      const auto mode = capacity_modes_.find(flavor.name);
      if (mode == capacity_modes_.end()) {
        continue;
      }
      proven = proven && mode->second == engine::CapacityMode::kRequire;
      off = off && mode->second == engine::CapacityMode::kOff;
      const std::string text = flavor.name + ": " + std::string(ModeName(mode->second));
      if (modes.find(text) == std::string::npos) {
        modes += (modes.empty() ? "" : ", ") + text;
      }
    }
  }
  off = off && options_.capacity == CapacityChoice::kOff;
  if (off) {
    std::erase_if(conditions, [](const api::Condition& condition) {
      return condition.type == kCapacityCondition || condition.type == kGangCondition;
    });
  }
  api::Condition capacity;
  capacity.type = kCapacityCondition;
  capacity.status = proven && !modes.empty() ? "True" : "False";
  capacity.reason = proven && !modes.empty() ? "PlaceRequired" : "QuotaOnly";
  capacity.message =
      modes.empty() ? "No flavor of this queue exists" : "Capacity check per flavor: " + modes;
  capacity.observed_generation = queue->meta.generation;
  if (!off) {
    news |= api::SetCondition(conditions, std::move(capacity), now_);
  }

  if (!off && !gang_finding_.message.empty()) {  // known by now
    using State = GangFinding::State;
    const State state = gang_finding_.state;
    api::Condition gangs;
    gangs.type = kGangCondition;
    gangs.status = state == State::kGates      ? "True"
                   : state == State::kUnproven ? "Unknown"
                                               : "False";
    gangs.reason = state == State::kGates         ? "Proven"
                   : state == State::kUnproven    ? "Unproven"
                   : state == State::kDoesNotGate ? "NotGating"
                                                  : "Off";
    gangs.message = gang_finding_.message;
    gangs.observed_generation = queue->meta.generation;
    news |= api::SetCondition(conditions, std::move(gangs), now_);
  }

  Json status = Json::Obj();
  status.Set("conditions", api::ToJson(conditions));
  status.Set("pendingWorkloads", pending);
  status.Set("reservingWorkloads", report.reserving);
  status.Set("admittedWorkloads", report.admitted);
  status.Set("flavorsReservation", UsageList(report, /*admitted_only=*/false, /*borrowed=*/true));
  status.Set("flavorsUsage", UsageList(report, /*admitted_only=*/true, /*borrowed=*/true));
  if (report.weighted_share) {
    status.Set("fairSharing",
               Json::Obj({{"weightedShare", engine::RoundShare(*report.weighted_share)}}));
  }
  const auto set = [&](const char* name, std::vector<std::pair<std::string, std::string>> labels,
                       double value) {
    out_.metrics.push_back({MetricSample::Op::kSet, name, std::move(labels), value});
  };
  const int32_t in_line = report.pending - report.parked;
  set("kueue_pending_workloads", {{"cluster_queue", key.name}, {"status", "active"}}, in_line);
  set("kueue_pending_workloads", {{"cluster_queue", key.name}, {"status", "inadmissible"}},
      pending - in_line);
  set("kueue_reserving_active_workloads", {{"cluster_queue", key.name}}, report.reserving);
  set("kueue_admitted_active_workloads", {{"cluster_queue", key.name}}, report.admitted);
  for (const char* name : {"active", "pending", "terminating"}) {
    const std::string_view now = queue->meta.deleted.has_value() ? "terminating"
                                 : health.active                 ? "active"
                                                                 : "pending";
    set("kueue_cluster_queue_status", {{"cluster_queue", key.name}, {"status", name}},
        now == name ? 1 : 0);
  }
  if (!SameStatus(queue->status_json, status) && (news || MayTellStatus(order_key))) {
    EmitQueueWrite(order_key,
                   StatusApply(api::Kind::kClusterQueue, queue->meta, std::move(status)));
  }
}

void Core::ReconcileLocalQueue(const api::ObjectKey& key) {
  const std::string order_key = "LocalQueue/" + key.ToString();
  const auto queue = world_.local_queues.Find(key);
  if (queue == nullptr) {
    queue_states_.erase(order_key);
    return;
  }
  const engine::QueueReport report = engine_->ReportLocal(key);
  const auto waiting = waiting_in_queue_.find(key);
  const int32_t pending =
      report.pending + (waiting != waiting_in_queue_.end() ? waiting->second : 0);
  const auto parent = world_.cluster_queues.Find({"", queue->cluster_queue});
  api::Condition active;
  active.type = "Active";
  active.status = "False";
  if (queue->stop_policy != api::StopPolicy::kNone) {
    active.reason = "Stopped";
    active.message = "LocalQueue is stopped";
  } else if (parent == nullptr) {
    active.reason = "ClusterQueueDoesNotExist";
    active.message = "Can't submit new workloads to clusterQueue";
  } else if (!engine_->Health(queue->cluster_queue).active) {
    active.reason = "ClusterQueueIsInactive";
    active.message = "Can't submit new workloads to clusterQueue";
  } else {
    active.status = "True";
    active.reason = "Ready";
    active.message = "Can submit new workloads to localQueue";
  }
  active.observed_generation = queue->meta.generation;
  api::Conditions conditions = queue->conditions;
  const bool news = api::SetCondition(conditions, std::move(active), now_);
  Json status = Json::Obj();
  status.Set("conditions", api::ToJson(conditions));
  // What still has quota of a ClusterQueue that is gone is nobody's usage.
  status.Set("pendingWorkloads", pending);
  status.Set("reservingWorkloads", parent != nullptr ? report.reserving : 0);
  status.Set("admittedWorkloads", parent != nullptr ? report.admitted : 0);
  if (parent != nullptr) {
    status.Set("flavorsReservation",
               UsageList(report, /*admitted_only=*/false, /*borrowed=*/false));
    status.Set("flavorsUsage", UsageList(report, /*admitted_only=*/true, /*borrowed=*/false));
  }
  if (const auto past = engine_->PastUsageOf(key)) {
    status.Set("fairSharing", PastUsageJson(*past, report));
  }
  if (!SameStatus(queue->status_json, status) && (news || MayTellStatus(order_key))) {
    EmitQueueWrite(order_key, StatusApply(api::Kind::kLocalQueue, queue->meta, std::move(status)));
  }
}

// A Cohort has nothing in its status but its share.
void Core::ReconcileCohort(const api::ObjectKey& key) {
  const std::string order_key = "Cohort/" + key.name;
  const auto cohort = world_.cohorts.Find(key);
  if (cohort == nullptr) {
    queue_states_.erase(order_key);
    return;
  }
  if (const std::optional<double> share = engine_->CohortShare(key.name)) {
    Json status =
        Json::Obj({{"fairSharing", Json::Obj({{"weightedShare", engine::RoundShare(*share)}})}});
    if (!SameStatus(cohort->status_json, status) && MayTellStatus(order_key)) {
      EmitQueueWrite(order_key, StatusApply(api::Kind::kCohort, cohort->meta, std::move(status)));
    }
  }
}

// Checks of a controller that Kueue brings along: ours says whether they can work, the one that
// this version does not have is named. Other controllers keep the condition of their checks
// themselves.
void Core::ReconcileAdmissionCheck(const api::ObjectKey& key) {
  const std::string order_key = "AdmissionCheck/" + key.name;
  const auto check = world_.admission_checks.Find(key);
  if (check == nullptr) {
    queue_states_.erase(order_key);
    return;
  }
  const auto seen =
      claimed_checks_
          .try_emplace(check->meta.uid, api::FindCondition(check->conditions, "Active") != nullptr)
          .first;
  const bool used =
      std::any_of(world_.cluster_queues.All().begin(), world_.cluster_queues.All().end(),
                  [&](const auto& entry) { return UsesCheck(*entry.second, key.name); });
  const bool has_finalizer = check->meta.HasFinalizer(names::kResourceInUseFinalizer);
  if (check->meta.deleted.has_value() ? (has_finalizer && !used) : !has_finalizer) {
    FinalizerWrite(order_key, api::Kind::kAdmissionCheck, check->meta,
                   !check->meta.deleted.has_value());
    DirtyStatus(order_key);
    return;
  }
  const bool provisioning = check->controller == names::kProvisioningController;
  if (!check->controller.starts_with(std::string(names::kKueueGroup) + "/") ||
      (provisioning && !provisioning_.has_value())) {
    return;
  }
  // Ours is judged again whenever something changes. Of the others, who says otherwise after we
  // have seen it is their controller.
  const bool ours = provisioning && *provisioning_;
  if (!ours && api::FindCondition(check->conditions, "Active") != nullptr && !seen->second) {
    return;
  }
  seen->second = ours;
  api::Conditions conditions = check->conditions;
  api::Condition active;
  active.type = "Active";
  active.status = "False";
  if (provisioning) {
    CheckProblem problem = ProvisioningProblem(*check, world_.provisioning_configs, *provisioning_);
    active.status = problem.reason.empty() ? "True" : "False";
    active.reason = problem.reason.empty() ? "Active" : std::move(problem.reason);
    active.message =
        problem.message.empty() ? "The admission check is active" : std::move(problem.message);
  } else {
    active.reason = "ControllerNotFound";
    active.message = "spec.controllerName: no controller for " + check->controller +
                     " in this version; a ClusterQueue that names this check admits nothing";
  }
  active.observed_generation = check->meta.generation;
  if (api::SetCondition(conditions, std::move(active), now_)) {
    EmitQueueWrite(order_key, StatusApply(api::Kind::kAdmissionCheck, check->meta,
                                          Json::Obj({{"conditions", api::ToJson(conditions)}})));
  }
}

void Core::ReconcileFlavor(const api::ObjectKey& key) {
  const std::string order_key = "ResourceFlavor/" + key.name;
  const auto flavor = world_.flavors.Find(key);
  if (flavor == nullptr) {
    queue_states_.erase(order_key);
    return;
  }
  const bool used = !engine_->QueuesUsingFlavor(key.name).empty();
  const bool has_finalizer = flavor->meta.HasFinalizer(names::kResourceInUseFinalizer);
  if (flavor->meta.deleted.has_value() ? (has_finalizer && !used) : !has_finalizer) {
    FinalizerWrite(order_key, api::Kind::kResourceFlavor, flavor->meta,
                   !flavor->meta.deleted.has_value());
  }
}

}  // namespace tutti::reconciler
