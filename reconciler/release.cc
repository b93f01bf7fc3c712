// SPDX-License-Identifier: Apache-2.0
// From a reservation to running pods: the PodGroup, the one PATCH that releases the job, the
// landing watch, and taking a job back. See core.h.
#include <algorithm>
#include <string>

#include "base/names.h"
#include "reconciler/core.h"
#include "reconciler/gang.h"
#include "reconciler/landing.h"
#include "reconciler/names.h"
#include "reconciler/status.h"

namespace tutti::reconciler {
namespace {

constexpr std::string_view kMainPodSet = "main";
// A PodGroup without pods that is still there so long after its deletion has no controller.
constexpr Duration kGroupGrace = std::chrono::seconds(10);
// So many refusals of the release in a row, and the job makes room for others.
constexpr int kMaxRefusals = 3;
// Each pod carries the names of the nodes that it should prefer. A gang on more nodes than this
// fills them anyway; without the limit, 1,000 pods on 1,000 nodes would carry a million names.
constexpr size_t kMostSteered = 128;

std::string GroupLabelOf(const api::Job& job) {
  const auto parsed = Json::Parse(job.template_json);
  return parsed ? (*parsed)["metadata"]["labels"][names::kPodGroupLabel].AsString() : "";
}

// Kueue writes the ClusterQueue's name as a label only where it is a valid label value.
bool IsDnsLabel(std::string_view name) {
  return !name.empty() && name.size() <= 63 && name.find('.') == std::string_view::npos;
}

}  // namespace

std::vector<api::WriteRequest> Core::DeleteGroups(const std::string& job_uid) const {
  std::vector<api::WriteRequest> writes;
  if (options_.gang_api == GangApi::kNone) {
    return writes;
  }
  for (const api::PodGroup* group : world_.GroupsOf(job_uid)) {
    if (!group->meta.deleted.has_value()) {
      writes.push_back(DeleteGroup(options_.gang_api, *group));
    }
  }
  return writes;
}

bool Core::StripStuckGroups(Unit& unit) {
  std::vector<const api::PodGroup*> stuck;
  const std::vector<const api::Pod*> pods = world_.PodsOf(unit.job_uid);
  for (const api::PodGroup* group : world_.GroupsOf(unit.job_uid)) {
    const bool in_use = std::any_of(pods.begin(), pods.end(), [&](const api::Pod* pod) {
      return !pod->Terminal() && pod->scheduling_group == group->meta.name;
    });
    if (group->meta.deleted.has_value() && !group->meta.finalizers.empty() && !in_use) {
      stuck.push_back(group);
    }
  }
  if (stuck.empty() || options_.gang_api == GangApi::kNone) {
    unit.group_stuck_since = kNoTime;
    return false;
  }
  if (unit.group_stuck_since == kNoTime) {
    unit.group_stuck_since = now_;
  }
  if (now_ < unit.group_stuck_since + kGroupGrace) {
    WakeAt(unit, unit.group_stuck_since + kGroupGrace);
    return true;
  }
  std::vector<api::WriteRequest> writes;
  for (const api::PodGroup* group : stuck) {
    writes.push_back(StripGroup(options_.gang_api, group->meta.Key()));
  }
  unit.group_stuck_since = kNoTime;
  if (const auto job = world_.job_by_uid.find(unit.job_uid); job != world_.job_by_uid.end()) {
    if (const auto object = world_.jobs.Find(job->second)) {
      Event(*object, /*warning=*/true, "GroupFinalizerRemoved",
            "PodGroup " + stuck.front()->meta.name +
                " was not let go after its last pod: is the feature gate GenericWorkload on in the "
                "kube-controller-manager?");
    }
  }
  Emit(unit, std::move(writes));
  return true;
}

void Core::EvictUnit(Unit& unit, const api::Job* job, const api::Workload& workload,
                     std::string_view reason, std::string_view cause, const std::string& message,
                     bool back_off) {
  std::optional<Time> requeue_at;
  if (back_off) {
    requeue_at = now_ + reconciler::Backoff(workload.status.requeue_count.value_or(0) + 1,
                                            options_.backoff_base, options_.backoff_max);
  }
  api::Workload next = workload;
  if (!Evict(next.status, reason, cause, message, requeue_at, now_)) {
    return;
  }
  std::vector<api::WriteRequest> writes = {ApplyStatus(next)};
  if (job != nullptr && !job->suspend) {
    writes.push_back(SuspendPatch(*job));
    Event(*job, /*warning=*/false, "Stopped", message);
  }
  EventOn(workload, /*warning=*/false, "EvictedDueTo" + std::string(reason), message);
  History(HistoryKind::kEvicted, unit, &workload, std::string(cause.empty() ? reason : cause),
          message);
  const std::string queue = workload.status.admission.has_value()
                                ? workload.status.admission->cluster_queue
                                : std::string();
  Count("kueue_evicted_workloads_total", {{"cluster_queue", queue},
                                          {"reason", std::string(reason)},
                                          {"underlying_cause", std::string(cause)}});
  if (cause == reason::kNotPlaced) {
    Count("tutti_landing_timeouts_total", {{"cluster_queue", queue}});
  }
  Emit(unit, std::move(writes));
}

bool Core::SyncReservation(Unit& unit, const api::Job* job, const api::Workload& workload) {
  engine::WorkloadInput input = InputFor(unit, workload, job);
  const api::Admission& admission = *workload.status.admission;
  for (size_t i = 0; i < input.pod_sets.size(); ++i) {
    for (const api::PodSetAssignment& assignment : admission.assignments) {
      if (assignment.name == input.pod_sets[i].name && assignment.count.has_value()) {
        input.pod_sets[i].count = *assignment.count;
      }
    }
  }
  // Places are needed only for pods that are still to come.
  if (job != nullptr && input.pod_sets.size() == 1) {
    input.pod_sets[0].count = std::min(input.pod_sets[0].count, job->GangSize());
  }
  std::string key = "R|" + admission.cluster_queue;
  for (const engine::PodSetInput& pod_set : input.pod_sets) {
    key += "|" + std::to_string(pod_set.count);
  }
  for (const api::PodSetAssignment& assignment : admission.assignments) {
    for (const auto& [resource, flavor] : assignment.flavors) {
      const auto usage = assignment.resource_usage.find(resource);
      key += "|" + flavor + "/" + resource + "=" +
             (usage != assignment.resource_usage.end() ? usage->second.ToString() : "0");
    }
  }
  if (unit.in_engine == Unit::InEngine::kReserved && unit.engine_key.empty()) {
    // Our own admission came back: the engine reserved it already, place included.
    unit.engine_key = key;
    engine_->MarkAdmitted(input.id);
    DirtyLocal({unit.key.ns, workload.queue_name});
    return true;
  }
  if (unit.in_engine == Unit::InEngine::kReserved && unit.engine_key == key) {
    return true;
  }
  const bool grows = unit.in_engine != Unit::InEngine::kReserved;
  const bool placed =
      engine_->SetReserved(input, admission, workload.Admitted(), /*plan=*/grows && !unit.landed);
  unit.in_engine = Unit::InEngine::kReserved;
  unit.queued_in = {unit.key.ns, workload.queue_name};
  unit.reserved_in = admission.cluster_queue;
  unit.engine_key = std::move(key);
  DirtyLocal({unit.key.ns, workload.queue_name});
  return placed;
}

void Core::ReconcileReserved(Unit& unit, const api::Job& job, const api::Workload& workload) {
  SetWaiting(unit, &workload, false);
  if (!workload.active) {
    EvictUnit(unit, &job, workload, reason::kDeactivated, "", "The workload is deactivated",
              /*back_off=*/false);
    return;
  }
  const auto queue = world_.cluster_queues.Find({"", workload.status.admission->cluster_queue});
  if (queue != nullptr && queue->stop_policy == api::StopPolicy::kHoldAndDrain) {
    EvictUnit(unit, &job, workload, reason::kClusterQueueStopped, "", "The ClusterQueue is stopped",
              /*back_off=*/false);
    return;
  }
  const auto local = world_.local_queues.Find({unit.key.ns, workload.queue_name});
  if (local != nullptr && local->stop_policy == api::StopPolicy::kHoldAndDrain) {
    EvictUnit(unit, &job, workload, reason::kLocalQueueStopped, "", "The LocalQueue is stopped",
              /*back_off=*/false);
    return;
  }
  const bool placed = SyncReservation(unit, &job, workload);
  if (!workload.Admitted()) {
    return;  // checks are pending; nothing is started
  }
  if (job.suspend) {
    if (!placed) {
      EvictUnit(unit, &job, workload, reason::kPodsReadyTimeout, reason::kNotPlaced,
                "The place that was reserved for the workload is gone", /*back_off=*/true);
      return;
    }
    if (unit.refusals >= kMaxRefusals) {
      EvictUnit(unit, &job, workload, reason::kPodsReadyTimeout, reason::kNotPlaced,
                "The job can't be released: " + unit.refusal, /*back_off=*/true);
      return;
    }
    StartJob(unit, job, workload);
    return;
  }
  if (unit.released_at == kNoTime) {
    // Released by an earlier life of the controller.
    const api::Condition* admitted = api::FindCondition(workload.status.conditions, "Admitted");
    unit.released_at = std::max(job.start_time.value_or(kNoTime), admitted->last_transition);
    if (now_ - unit.released_at >= options_.landing_timeout) {
      // Long past its landing. Whole, or whole but for members lost since: what is missing now are
      // replacements. Anything else never landed and gets the usual time from now on.
      const std::vector<const api::Pod*> pods = world_.PodsOf(unit.job_uid);
      const auto bound = std::count_if(pods.begin(), pods.end(), [](const api::Pod* pod) {
        return !pod->node_name.empty() && !pod->Terminal() && !pod->meta.deleted.has_value();
      });
      unit.landed = bound > 0 && (bound >= job.GangSize() || job.failed > 0);
      if (!unit.landed) {
        unit.released_at = now_;
      }
    }
  }
  if (!unit.landed) {
    WatchLanding(unit, job, workload);
  } else {
    WatchRunning(unit, job, workload);
  }
}

std::optional<std::vector<api::WriteRequest>> Core::PrepareGroup(Unit& unit, const api::Job& job,
                                                                 const api::Workload& workload,
                                                                 int32_t needed,
                                                                 std::string& name) {
  std::vector<api::WriteRequest> writes;
  if (options_.gang_api == GangApi::kNone) {
    return writes;
  }
  if (unit.refs.preset_group.empty()) {
    if (needed <= 1) {
      return writes;
    }
    for (int number = TotalEvictions(workload.status) + 1;; ++number) {
      name = GroupName(job.meta.name, workload.meta.uid, number);
      const auto existing = world_.groups.Find({job.meta.ns, name});
      if (existing == nullptr) {
        writes.push_back(
            CreateGroup(options_.gang_api, job, name, needed, unit.refs.priority_class));
        return writes;
      }
      if (CanAdopt(*existing, job, needed)) {
        return writes;  // created before a crash
      }
    }
  }
  // The user named the group in the template: the name is fixed, so its last use must be over
  // first.
  const std::string& preset = unit.refs.preset_group;
  for (const api::Pod* pod : world_.PodsOf(unit.job_uid)) {
    if (!pod->Terminal() && pod->scheduling_group == preset) {
      return std::nullopt;  // a pod's end comes back here
    }
  }
  const auto existing = world_.groups.Find({job.meta.ns, preset});
  if (existing == nullptr) {
    writes.push_back(
        CreateGroup(options_.gang_api, job, preset, std::max(needed, 1), unit.refs.priority_class));
    return writes;
  }
  if (OwningJob(existing->meta) != job.meta.uid) {
    return writes;  // the user's own
  }
  if (CanAdopt(*existing, job, std::max(needed, 1))) {
    return writes;
  }
  if (!existing->meta.deleted.has_value()) {
    Emit(unit, {DeleteGroup(options_.gang_api, *existing)});
  } else {
    StripStuckGroups(unit);
  }
  return std::nullopt;  // its end comes back here
}

void Core::StartJob(Unit& unit, const api::Job& job, const api::Workload& workload) {
  if (!RestoreWindowOpen(job)) {
    return;  // old pods are winding down; the Job's status comes back here
  }
  Shape(unit, workload);
  StartInfo info;
  const api::Admission& admission = *workload.status.admission;
  info.labels[std::string(names::kPodSetLabel)] = kMainPodSet;
  info.labels[std::string(names::kLocalQueueNameLabel)] = workload.queue_name;
  if (IsDnsLabel(admission.cluster_queue)) {
    info.labels[std::string(names::kClusterQueueNameLabel)] = admission.cluster_queue;
  }
  std::set<std::string> flavors;
  for (const api::PodSetAssignment& assignment : admission.assignments) {
    for (const auto& [resource, flavor] : assignment.flavors) {
      flavors.insert(flavor);
    }
    if (assignment.count.has_value() && !workload.pod_sets.empty() &&
        *assignment.count < workload.pod_sets.front().count) {
      info.parallelism = *assignment.count;
    }
  }
  for (const std::string& name : flavors) {
    const auto flavor = world_.flavors.Find({"", name});
    if (flavor == nullptr) {
      continue;
    }
    info.node_selector.insert(flavor->node_labels.begin(), flavor->node_labels.end());
    info.tolerations.insert(info.tolerations.end(), flavor->tolerations.begin(),
                            flavor->tolerations.end());
  }
  if (!unit.pinned_node.empty()) {
    info.node_selector.emplace("kubernetes.io/hostname", unit.pinned_node);
  } else if (options_.steering != Steering::kNone && unit.planned_nodes.size() <= kMostSteered) {
    info.preferred_nodes = unit.planned_nodes;
  }
  auto prepared =
      PrepareGroup(unit, job, workload, info.parallelism.value_or(job.GangSize()), info.group_name);
  if (!prepared.has_value()) {
    return;
  }
  std::vector<api::WriteRequest> writes = std::move(*prepared);
  auto start = StartPatch(job, workload, info);
  if (!start) {
    api::Workload next = workload;
    Finish(next.status, /*success=*/false, start.error().message, now_);
    SetCondition(next.status.conditions,
                 {"Finished", "True", "FailedToStart", start.error().message, now_, 0}, now_);
    Event(job, /*warning=*/true, "FailedToStart", start.error().message);
    History(HistoryKind::kFinished, unit, &next, "FailedToStart", start.error().message);
    Emit(unit, {ApplyStatus(next)});
    return;
  }
  writes.push_back(std::move(*start));
  unit.released_at = now_;
  unit.first_bound_at.reset();
  unit.landed = false;
  Event(job, /*warning=*/false, "Started", "Admitted by clusterQueue " + admission.cluster_queue);
  History(HistoryKind::kReleased, unit, &workload, info.group_name.empty() ? "Plain" : "Gang",
          info.group_name);
  Count("tutti_released_gangs_total", {{"cluster_queue", admission.cluster_queue}});
  Emit(unit, std::move(writes));
}

void Core::WatchLanding(Unit& unit, const api::Job& job, const api::Workload& workload) {
  LandingInput input;
  input.pods = world_.PodsOf(unit.job_uid);
  input.needed = job.GangSize();
  input.group = options_.gang_api == GangApi::kNone ? "" : GroupLabelOf(job);
  input.released_at = unit.released_at;
  input.timeout = options_.landing_timeout;
  input.partial_timeout = options_.partial_binding_timeout;
  const bool some_bound =
      std::any_of(input.pods.begin(), input.pods.end(), [](const api::Pod* pod) {
        return !pod->node_name.empty() && !pod->Terminal() && !pod->meta.deleted.has_value();
      });
  if (some_bound && !unit.first_bound_at.has_value()) {
    unit.first_bound_at = now_;
  }
  input.first_bound_at = unit.first_bound_at;
  const LandingResult result = JudgeLanding(input, now_);
  switch (result.kind) {
    case LandingResult::Kind::kLanded:
      unit.landed = true;
      History(HistoryKind::kLanded, unit, &workload, "Landed", "");
      Observe("tutti_landing_seconds",
              {{"cluster_queue", workload.status.admission->cluster_queue}},
              std::chrono::duration<double>(now_ - unit.released_at).count());
      WatchRunning(unit, job, workload);
      return;
    case LandingResult::Kind::kWaiting:
      WakeAt(unit, result.look_again_at);
      return;
    case LandingResult::Kind::kTakeBack:
      EvictUnit(unit, &job, workload, reason::kPodsReadyTimeout, reason::kNotPlaced, result.message,
                /*back_off=*/true);
      return;
  }
}

void Core::WatchRunning(Unit& unit, const api::Job& job, const api::Workload& workload) {
  int32_t live = 0;
  int32_t bound = 0;
  const api::Pod* unplaced = nullptr;
  for (const api::Pod* pod : world_.PodsOf(unit.job_uid)) {
    if (pod->Terminal() || pod->meta.deleted.has_value()) {
      continue;
    }
    ++live;
    if (!pod->node_name.empty()) {
      ++bound;
    } else {
      unplaced = pod;
    }
  }
  if (unplaced == nullptr) {
    unit.unplaced_since.reset();
    return;
  }
  // A member was lost and its replacement has no node yet. The scheduler lets it pass only when the
  // group's quorum is met by live pods; members that have finished don't count.
  if (options_.gang_api != GangApi::kNone && !unplaced->scheduling_group.empty()) {
    const auto group = world_.groups.Find({job.meta.ns, unplaced->scheduling_group});
    const bool ours = group == nullptr || OwningJob(group->meta) == unit.job_uid;
    if (group != nullptr && ours && group->min_count > live) {
      Event(job, /*warning=*/false, "GroupOpened",
            "Replacement pod " + unplaced->meta.name +
                " passes without the whole gang: " + std::to_string(live) +
                " live pods are left of " + std::to_string(group->min_count));
      Emit(unit, OpenGroup(options_.gang_api, job, *group, unit.refs.priority_class));
      return;
    }
    if (group == nullptr) {
      // Deleted for opening, and the last write was lost.
      api::PodGroup lost;
      lost.meta.name = unplaced->scheduling_group;
      lost.meta.ns = job.meta.ns;
      lost.meta.deleted = now_;
      auto writes = OpenGroup(options_.gang_api, job, lost, unit.refs.priority_class);
      writes.erase(writes.begin());  // nothing to strip
      Emit(unit, std::move(writes));
      return;
    }
  }
  if (!unit.unplaced_since.has_value()) {
    unit.unplaced_since = now_;
    // Promise the missing members a place, so that nobody else is admitted on it.
    engine::WorkloadInput input = InputFor(unit, workload, &job);
    if (input.pod_sets.size() == 1) {
      input.pod_sets[0].count = live;
      engine_->SetReserved(input, *workload.status.admission, /*admitted=*/true, /*plan=*/true);
    }
  }
  const Time deadline = *unit.unplaced_since + options_.landing_timeout;
  if (now_ < deadline) {
    WakeAt(unit, deadline);
    return;
  }
  EvictUnit(unit, &job, workload, reason::kPodsReadyTimeout, reason::kNotPlaced,
            std::to_string(live - bound) + " of " + std::to_string(live) +
                " pods lost their place and found no other; pod " + unplaced->meta.name +
                (unplaced->unschedulable_message.empty() ? " is not scheduled"
                                                         : ": " + unplaced->unschedulable_message),
            /*back_off=*/true);
}

}  // namespace tutti::reconciler
