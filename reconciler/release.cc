// SPDX-License-Identifier: Apache-2.0
// From a reservation to running pods: the PodGroup, the one PATCH that releases the job, the
// landing watch, and taking a job back. See core.h.
#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "base/names.h"
#include "base/slice_names.h"
#include "reconciler/admission_checks.h"
#include "reconciler/core.h"
#include "reconciler/gang.h"
#include "reconciler/landing.h"
#include "reconciler/names.h"
#include "reconciler/slices.h"
#include "reconciler/status.h"

namespace tutti::reconciler {
namespace {

// So many refusals of the release in a row, and the job makes room for others.
constexpr int kMaxRefusals = 3;
// So long before a gang is taken back the reason is looked for.
constexpr Duration kAskBefore = std::chrono::seconds(3);
// Each pod carries the names of the nodes that it should prefer. A gang on more nodes than this
// fills them anyway; without the limit, 1,000 pods on 1,000 nodes would carry a million names.
constexpr size_t kMostSteered = 128;

// The Job controller's word on pods that it can't make is an event, nothing else.
std::string FailedCreatePath(const QueuedJob& job) {
  return "/api/v1/namespaces/" + job.meta.ns +
         "/events?fieldSelector=reason%3DFailedCreate%2CinvolvedObject.uid%3D" + job.CreatorUid();
}

// Kueue writes the ClusterQueue's name as a label only where it is a valid label value.
bool IsDnsLabel(std::string_view name) {
  return !name.empty() && name.size() <= 63 && name.find('.') == std::string_view::npos;
}

}  // namespace

void Core::ReconcileReserved(Unit& unit, const QueuedJob& job, const api::Workload& workload) {
  SetWaiting(unit, &workload, false);
  if (SyncPriority(unit, &job, workload) || !KeepReservation(unit, &job, workload) ||
      !workload.Admitted()) {
    return;
  }
  if ((job.PodsHaveSliceGate() || Sliced(job)) && LetPodsGo(unit, job, workload)) {
    return;
  }
  if (job.Held()) {
    // What is not watched to its nodes is not stopped for the place of one more pod, either.
    if (!unit.placed && (job.WatchesLanding() || job.Suspended())) {
      TakeBack(unit, job, workload, "The place that was reserved for the workload is gone");
      return;
    }
    if (unit.refusals >= kMaxRefusals) {
      TakeBack(unit, job, workload, "The job can't be released: " + unit.refusal);
      return;
    }
    StartJob(unit, job, workload);
    return;
  }
  if (SyncPodsReady(unit, job, workload) || SyncReclaimable(unit, job, workload)) {
    return;
  }
  if (!job.WatchesLanding()) {
    return;
  }
  if (unit.released_at == kNoTime) {
    // Released by an earlier life of the controller.
    const api::Condition* admitted = api::FindCondition(workload.status.conditions, "Admitted");
    unit.released_at = std::max(job.StartedAt().value_or(kNoTime), admitted->last_transition);
    // One that has grown: its first pods landed before.
    const bool grown = Sliced(job) && ReplacedKey(workload).has_value();
    if (grown || now_ - unit.released_at >= options_.landing_timeout) {
      // Long past its landing. Whole, or whole but for members lost since: what is missing now are
      // replacements. Anything else never landed and gets the usual time from now on.
      const std::vector<const api::Pod*> pods = world_.PodsOf(unit.job_uid);
      const auto bound = std::count_if(pods.begin(), pods.end(), [](const api::Pod* pod) {
        return !pod->node_name.empty() && !pod->Terminal() && !pod->meta.deleted.has_value();
      });
      unit.landed = bound > 0 && (grown || bound >= job.PodsToLand(workload) || job.LostPods());
      if (!unit.landed) {
        unit.released_at = now_;
      }
    }
  }
  if (!unit.landed) {
    WatchLanding(unit, job, workload);
  } else if (!Sliced(job)) {
    // A job that runs isn't stopped for the pods by which it grows: they are left to the scheduler.
    WatchRunning(unit, job, workload);
  }
}

Result<std::vector<StartInfo>> Core::StartInfosFor(const Unit& unit,
                                                   const api::Workload& workload) const {
  const api::Admission& admission = *workload.status.admission;
  std::vector<StartInfo> infos;
  for (const api::PodSet& pod_set : workload.pod_sets) {
    StartInfo& info = infos.emplace_back();
    info.pod_set = pod_set.name;
    info.labels[std::string(names::kPodSetLabel)] = pod_set.name;
    if (IsSlice(workload) && options_.workload_slices) {
      info.annotations[std::string(names::kSliceNameAnnotation)] = SliceName(workload);
    }
    info.labels[std::string(names::kLocalQueueNameLabel)] = workload.queue_name;
    if (IsDnsLabel(admission.cluster_queue)) {
      info.labels[std::string(names::kClusterQueueNameLabel)] = admission.cluster_queue;
    }
    std::set<std::string> flavors;
    for (const api::PodSetAssignment& assignment : admission.assignments) {
      if (assignment.name != pod_set.name) {
        continue;
      }
      for (const auto& [resource, flavor] : assignment.flavors) {
        flavors.insert(flavor);
      }
      if (assignment.count.has_value() && pod_set.min_count.has_value()) {
        info.parallelism = std::min(*assignment.count, pod_set.count);
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
    const auto nodes = unit.planned_nodes.find(pod_set.name);
    if (!unit.pinned_node.empty()) {
      info.node_selector.emplace("kubernetes.io/hostname", unit.pinned_node);
    } else if (options_.steering != Steering::kNone && nodes != unit.planned_nodes.end() &&
               nodes->second.size() <= kMostSteered) {
      info.preferred_nodes = nodes->second;
    }
    TRY_ASSIGN(info.updates, UpdatesFor(workload.status, pod_set.name));
  }
  return infos;
}

void Core::StartJob(Unit& unit, const QueuedJob& job, const api::Workload& workload) {
  if (!job.MayStart()) {
    return;  // old pods are winding down; the Job's status comes back here
  }
  Shape(unit, workload);
  Result<std::vector<StartInfo>> infos = StartInfosFor(unit, workload);
  int32_t needed = 0;
  for (size_t i = 0; i < workload.pod_sets.size(); ++i) {
    const int32_t left = job.Remaining(workload.pod_sets[i]);
    needed += infos ? std::min(left, (*infos)[i].parallelism.value_or(left)) : left;
  }
  GroupPlan plan = PlanGroup(unit, job, workload, needed);
  if (unit.in_flight != 0 || plan.kind == GroupPlan::Kind::kWait) {
    return;
  }
  if (plan.kind == GroupPlan::Kind::kRefused) {
    TakeBack(unit, job, workload, "The job can't be released: " + plan.reason);
    return;
  }
  std::vector<api::WriteRequest> writes = std::move(plan.writes);
  Result<std::vector<api::WriteRequest>> start = Fail(ErrorCode::kInvalid, "");
  if (infos) {
    for (StartInfo& info : *infos) {
      info.group_name = plan.name;
    }
    start = job.Start(workload, *infos);
  } else {
    start = Fail(ErrorCode::kInvalid, infos.error().message);
  }
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
  std::move(start->begin(), start->end(), std::back_inserter(writes));
  if (job.Suspended() || !unit.landed) {  // else a replacement in a gang that runs
    unit.released_at = now_;
    unit.first_bound_at.reset();
    unit.landed = false;
  }
  unit.releasing = plan.name;
  Emit(unit, std::move(writes));
}

void Core::TellRelease(Unit& unit, const QueuedJob& job, const api::Workload& workload) {
  const std::string group = *std::exchange(unit.releasing, std::nullopt);
  const std::string queue = workload.status.admission.has_value()
                                ? workload.status.admission->cluster_queue
                                : std::string();
  Event(job, /*warning=*/false, "Started", "Admitted by clusterQueue " + queue);
  History(HistoryKind::kReleased, unit, &workload, group.empty() ? "Plain" : "Gang", group);
  Count("tutti_released_gangs_total", {{"cluster_queue", queue}});
}

void Core::WatchLanding(Unit& unit, const QueuedJob& job, const api::Workload& workload) {
  LandingInput input;
  input.pods = world_.PodsOf(unit.job_uid);
  input.needed = job.PodsToLand(workload);
  input.group = options_.gang_api == GangApi::kNone ? "" : job.GroupLabel();
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
  if (const api::PodGroup* theirs = world_.ControllersGroupOf(unit.job_uid);
      theirs != nullptr && !input.group.empty()) {
    job_controller_groups_ = true;
    EvictUnit(unit, &job, workload,
              {.reason = std::string(reason::kGangRestart),
               .cause = std::string(reason::kOtherGroup),
               .message = "The Job controller has put the job into PodGroup " + theirs->meta.name +
                          " (feature gate WorkloadWithJob): it starts again in that group"});
    return;
  }
  const std::string events = FailedCreatePath(job);
  if (const auto read = unit.reads.find(events);
      read != unit.reads.end() && read->second.has_value() && *read->second) {
    input.create_error = NewestMessage(**read->second);
  }
  const LandingResult result = JudgeLanding(input, now_);
  switch (result.kind) {
    case LandingResult::Kind::kLanded:
      unit.landed = true;
      History(HistoryKind::kLanded, unit, &workload, "Landed", "");
      Observe("tutti_landing_seconds",
              {{"cluster_queue", workload.status.admission->cluster_queue}},
              std::chrono::duration<double>(now_ - unit.released_at).count());
      if (!Sliced(job)) {
        WatchRunning(unit, job, workload);
      }
      return;
    case LandingResult::Kind::kWaiting: {
      // Pods that don't exist shortly before the end are refused by something: by what?
      const Time ask_at = result.look_again_at - kAskBefore;
      if (result.live < input.needed && now_ >= ask_at && !job.CreatorUid().empty()) {
        Ask(unit, events);
      }
      WakeAt(unit, now_ < ask_at ? ask_at : result.look_again_at);
      return;
    }
    case LandingResult::Kind::kTakeBack:
      TakeBack(unit, job, workload, result.message);
      return;
  }
}

void Core::WatchRunning(Unit& unit, const QueuedJob& job, const api::Workload& workload) {
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
  if (HelpReplacement(unit, job, workload, unplaced, live)) {
    return;
  }
  if (unplaced == nullptr) {
    unit.unplaced_since.reset();
    return;
  }
  // A member was lost and its replacement has no node yet.
  if (!unit.unplaced_since.has_value()) {
    unit.unplaced_since = now_;
    // Promise the missing members a place, so that nobody else is admitted on it.
    PlanAgain(unit, job, workload);
  }
  const Time deadline = *unit.unplaced_since + options_.landing_timeout;
  if (now_ < deadline) {
    WakeAt(unit, deadline);
    return;
  }
  TakeBack(unit, job, workload,
           std::to_string(live - bound) + " of " + std::to_string(live) +
               " pods lost their place and found no other; pod " + unplaced->meta.name +
               (unplaced->unschedulable_message.empty() ? " is not scheduled"
                                                        : ": " + unplaced->unschedulable_message));
}

}  // namespace tutti::reconciler
