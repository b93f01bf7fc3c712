// SPDX-License-Identifier: Apache-2.0
// What a changed object means: caches and indexes are updated, the engine is told, and the units
// that may have something to do are marked. See core.h.
#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "api/pod_rules.h"
#include "base/names.h"
#include "base/slice_names.h"
#include "reconciler/admission_checks.h"
#include "reconciler/core.h"
#include "reconciler/names.h"
#include "reconciler/observer.h"

namespace tutti::reconciler {
namespace {

bool SameNode(const api::Node& a, const api::Node& b) {
  return a.unschedulable == b.unschedulable && a.taints == b.taints &&
         a.allocatable == b.allocatable && a.meta.labels == b.meta.labels;
}

bool SignOfAutoscaler(const api::Node& node) {
  const auto has_prefix = [](const api::StringMap& map, std::string_view prefix) {
    const auto it = map.lower_bound(std::string(prefix));
    return it != map.end() && it->first.starts_with(prefix);
  };
  return has_prefix(node.meta.labels, "karpenter.sh/") ||
         has_prefix(node.meta.annotations, "cluster-autoscaler.kubernetes.io/");
}

// The gate of ours that the pod has just lost; "" = none.
std::string_view LostGate(const WatchedPod& before, const WatchedPod& now) {
  if (before.meta.uid != now.meta.uid) {
    return "";
  }
  if (before.slice_hold != nullptr && now.slice_hold == nullptr) {
    return names::kElasticGate;
  }
  const bool lost = before.queued != nullptr && before.queued->gated && now.queued != nullptr &&
                    !now.queued->gated;
  return lost ? names::kAdmissionGate : "";
}

std::optional<double> SecondsSinceAdmission(const api::Workload& workload, Time now) {
  if (!workload.Admitted() || !workload.status.admission.has_value()) {
    return std::nullopt;
  }
  const api::Condition* admitted = api::FindCondition(workload.status.conditions, "Admitted");
  return std::max(0.0, std::chrono::duration<double>(now - admitted->last_transition).count());
}

}  // namespace

bool Core::Managed(const QueuedJob& job) const {
  if (!job.MayBeQueued()) {
    return false;
  }
  if (job.meta.Label(names::kQueueNameLabel).empty() && !options_.manage_jobs_without_queue_name) {
    return false;
  }
  const auto ns = world_.namespaces.Find({"", job.meta.ns});
  return ns != nullptr && options_.managed_namespaces.Matches(ns->meta.labels);
}

std::shared_ptr<const QueuedJob> Core::ManagedAncestor(const QueuedJob& job) const {
  constexpr int kMostLevels = 10;  // owners may form a cycle
  std::shared_ptr<const QueuedJob> found;
  const api::OwnerReference* owner = job.meta.Controller();
  for (int level = 0; owner != nullptr && level < kMostLevels; ++level) {
    const auto parent = world_.JobOf(owner->uid);
    if (parent == nullptr) {
      break;
    }
    if (Managed(*parent)) {
      found = parent;
    }
    owner = parent->meta.Controller();
  }
  return found;
}

void Core::OnJob(std::shared_ptr<const QueuedJob> job, bool deleted) {
  auto& store = world_.jobs[std::string(job->kind.Framework())];
  const auto change = deleted ? store.Remove(*job) : store.Upsert(job);
  if (!change.applied) {
    return;
  }
  if (!deleted && change.before != nullptr && change.before->meta.uid != job->meta.uid) {
    // Deleted and created again between two events.
    ForgetJob(change.before->meta.uid);
    if (const auto old = unit_of_job_.find(change.before->meta.uid); old != unit_of_job_.end()) {
      Dirty(old->second);
    }
  }
  if (!deleted && job->kind.ActsOnPods()) {
    job = job->WithPods(QueuedPodsOf(job->meta.uid));
  }
  JobChanged(job, deleted);
}

void Core::ForgetJob(const std::string& uid) {
  const auto job = world_.job_by_uid.find(uid);
  if (job == world_.job_by_uid.end()) {
    return;
  }
  const auto others = world_.jobs_of_namespace.find(job->second->meta.ns);
  others->second.erase(uid);
  if (others->second.empty()) {
    world_.jobs_of_namespace.erase(others);
  }
  world_.job_by_uid.erase(job);
  std::set<api::ObjectKey> keys;
  if (const auto known = unit_of_job_.find(uid); known != unit_of_job_.end()) {
    keys.insert(known->second);
  }
  if (const auto slices = slices_of_job_.find(uid); slices != slices_of_job_.end()) {
    keys.insert(slices->second.begin(), slices->second.end());
  }
  for (const api::ObjectKey& key : keys) {
    if (const auto unit = units_.find(key); unit != units_.end()) {
      unit->second.job_gone_at = now_;
    }
  }
}

void Core::JobChanged(const std::shared_ptr<const QueuedJob>& job, bool deleted) {
  const std::string uid = job->meta.uid;
  const std::shared_ptr<const QueuedJob> before = world_.JobOf(uid);
  if (deleted) {
    ForgetJob(uid);
  } else {
    world_.job_by_uid[uid] = job;
    world_.jobs_of_namespace[job->meta.ns].insert(uid);
  }
  auto known = unit_of_job_.find(uid);
  if (known != unit_of_job_.end() && !deleted && before != nullptr &&
      PrebuiltWorkloadOf(before->meta, options_.prebuilt_by_annotation) !=
          PrebuiltWorkloadOf(job->meta, options_.prebuilt_by_annotation)) {
    // Another Workload from now on. The one before is deleted as a duplicate.
    const api::ObjectKey last = known->second;
    Forget(last);
    known = unit_of_job_.end();
    if (const auto workload = world_.workloads.Find(last)) {
      Unit& duplicate = units_[last];
      duplicate.key = last;
      duplicate.job_uid = uid;
      Dirty(last);
    }
  }
  if (known == unit_of_job_.end()) {
    const auto ancestor = ManagedAncestor(*job);
    if (deleted || (!Managed(*job) && ancestor == nullptr)) {
      return;
    }
    if (ancestor != nullptr) {
      children_of_[ancestor->meta.uid].insert(uid);
    }
    api::ObjectKey key = WorkloadKeyOf(*job);
    if (const auto workload = world_.workloads.Find(key);
        workload != nullptr && !job->MayTake(*workload)) {
      const api::ObjectKey refused{job->meta.ns, uid};  // no Workload can have this name
      refused_units_[key].insert(refused);
      key = refused;
    }
    Unit& unit = units_[key];
    unit.key = key;
    unit.job_uid = uid;
    known = unit_of_job_.emplace(uid, key).first;
    RelinkPodsOf(uid);
  }
  if (const auto unit = units_.find(known->second); !deleted && unit != units_.end()) {
    unit->second.job_gone_at = kNoTime;  // a group of pods that are made anew
  }
  Dirty(known->second);
  DirtySlices(uid);
}

void Core::LinkPod(const WatchedPod& pod) {
  LinkClaimsOf(pod.meta.uid);
  if (pod.node_name.empty() || pod.Terminal() || pod.shape == nullptr) {
    engine_->capacity().RemovePod(pod.meta.uid);
    return;
  }
  std::string gang;
  std::string pod_set;
  // A pod that is on its way out takes its place, but is no member: its job may be starting anew.
  if (const auto member = world_.MemberOf(pod); member && !pod.meta.deleted.has_value()) {
    if (const auto unit = unit_of_job_.find(member->job_uid); unit != unit_of_job_.end()) {
      gang = unit->second.ToString();
      pod_set = member->pod_set;
    }
  }
  engine_->capacity().SetPod(
      pod.meta.uid, pod.node_name, pod.shape, gang, pod_set,
      {pod.meta.ns, api::RuleLabels(pod.meta.labels), pod.meta.deleted.has_value()});
}

void Core::RelinkPodsOf(const std::string& job_uid) {
  const auto index = world_.pods_by_job.find(job_uid);
  if (index == world_.pods_by_job.end()) {
    return;
  }
  for (const api::ObjectKey& key : index->second) {
    if (const auto pod = world_.pods.Find(key)) {
      LinkPod(*pod);
    }
  }
}

void Core::OnPod(std::shared_ptr<const WatchedPod> pod, bool deleted) {
  const auto change = deleted ? world_.pods.Remove(*pod) : world_.pods.Upsert(pod);
  if (!change.applied) {
    return;
  }
  if (change.before != nullptr && change.before->meta.uid != pod->meta.uid) {
    engine_->capacity().RemovePod(change.before->meta.uid);
  }
  const PodMember member = world_.MemberOf(*pod).value_or(PodMember{});
  const std::string& job = member.job_uid;
  if (change.before != nullptr) {
    // The name went to another job's pod, or the pod lost its owner.
    if (const auto was = world_.MemberOf(*change.before); was && was->job_uid != job) {
      UnlinkPod(was->job_uid, pod->meta.Key());
      ComposeJob(*was);
    }
  }
  if (deleted) {
    engine_->capacity().RemovePod(pod->meta.uid);
  } else {
    LinkPod(*pod);
  }
  if (change.before != nullptr) {
    LinkSlicePod(*change.before, /*deleted=*/true);
  }
  LinkSlicePod(*pod, deleted);
  if (job.empty()) {
    return;
  }
  if (deleted) {
    UnlinkPod(job, pod->meta.Key());
    ComposeJob(member);
    return;
  }
  world_.pods_by_job[job].insert(pod->meta.Key());
  look_for_partial_.insert(job);
  ComposeJob(member);
  if (const auto unit = unit_of_job_.find(job); unit != unit_of_job_.end()) {
    const auto workload = world_.workloads.Find(unit->second);
    const std::string_view gate =
        change.before != nullptr ? LostGate(*change.before, *pod) : std::string_view();
    if (workload != nullptr && !gate.empty()) {
      if (const std::optional<double> after = SecondsSinceAdmission(*workload, now_)) {
        Observe("kueue_pod_scheduling_gate_removal_seconds",
                {{"name", std::string(gate)},
                 {"cluster_queue", workload->status.admission->cluster_queue},
                 {"is_group", GroupNameOf(pod->meta).empty() ? "false" : "true"}},
                *after);
      }
    }
    Dirty(unit->second);
  }
}

std::vector<std::shared_ptr<const WatchedPod>> Core::QueuedPodsOf(
    const std::string& job_uid) const {
  std::vector<std::shared_ptr<const WatchedPod>> pods;
  if (const auto index = world_.pods_by_job.find(job_uid); index != world_.pods_by_job.end()) {
    for (const api::ObjectKey& key : index->second) {
      if (auto pod = world_.pods.Find(key)) {
        pods.push_back(std::move(pod));
      }
    }
  }
  return pods;
}

void Core::ComposeJob(const PodMember& member) {
  if (member.kind->ActsOnPods()) {
    if (const auto job = world_.JobOf(member.job_uid)) {
      JobChanged(job->WithPods(QueuedPodsOf(member.job_uid)), /*deleted=*/false);
    }
    return;
  }
  if (!member.kind->MadeOfPods()) {
    return;
  }
  const std::vector<std::shared_ptr<const WatchedPod>> pods = QueuedPodsOf(member.job_uid);
  if (!pods.empty()) {
    JobChanged(member.kind->Compose(member.job_uid, pods), /*deleted=*/false);
  } else if (const auto last = world_.JobOf(member.job_uid)) {
    JobChanged(last, /*deleted=*/true);
  }
}

void Core::UnlinkPod(const std::string& job_uid, const api::ObjectKey& pod) {
  look_for_partial_.insert(job_uid);
  if (const auto index = world_.pods_by_job.find(job_uid); index != world_.pods_by_job.end()) {
    index->second.erase(pod);
    if (index->second.empty()) {
      world_.pods_by_job.erase(index);
    }
  }
  if (const auto unit = unit_of_job_.find(job_uid); unit != unit_of_job_.end()) {
    Dirty(unit->second);
  }
}

void Core::OnNode(std::shared_ptr<const api::Node> node, bool deleted) {
  if (deleted) {
    engine_->capacity().RemoveNode(node->meta.name);
    autoscaled_nodes_.erase(node->meta.name);
    capacity_modes_stale_ = true;
    nodes_.erase(node->meta.name);
    return;
  }
  auto& known = nodes_[node->meta.name];
  // Heartbeats change nothing that a decision depends on.
  if (known != nullptr && SameNode(*known, *node)) {
    return;
  }
  known = node;
  engine_->capacity().SetNode(*node);
  const bool autoscaled = SignOfAutoscaler(*node);
  if (autoscaled) {
    autoscaled_nodes_.insert(node->meta.name);
  } else {
    autoscaled_nodes_.erase(node->meta.name);
  }
  capacity_modes_stale_ = true;
}

void Core::OnNamespace(std::shared_ptr<const api::Namespace> ns, bool deleted) {
  const auto change = deleted ? world_.namespaces.Remove(*ns) : world_.namespaces.Upsert(ns);
  if (!change.applied) {
    return;
  }
  if (deleted) {
    engine_->RemoveNamespace(ns->meta.name);
    return;
  }
  if (change.before != nullptr && change.before->meta.labels == ns->meta.labels) {
    return;
  }
  engine_->SetNamespace(ns->meta.name, ns->meta.labels);
  // Jobs that were seen before their namespace, or that a label change made managed.
  if (const auto jobs = world_.jobs_of_namespace.find(ns->meta.name);
      jobs != world_.jobs_of_namespace.end()) {
    for (const std::string& uid : jobs->second) {
      JobChanged(world_.JobOf(uid), /*deleted=*/false);
    }
  }
}

void Core::OnLimitRange(std::shared_ptr<const api::LimitRange> range, bool deleted) {
  if ((deleted ? world_.limit_ranges.Remove(*range) : world_.limit_ranges.Upsert(range)).applied) {
    ++context_version_;
    DirtyAll();
  }
}

void Core::OnRuntimeClass(std::shared_ptr<const api::RuntimeClass> runtime, bool deleted) {
  if ((deleted ? world_.runtime_classes.Remove(*runtime) : world_.runtime_classes.Upsert(runtime))
          .applied) {
    ++context_version_;
    DirtyAll();
  }
}

void Core::OnPriorityClass(std::shared_ptr<const api::PriorityClass> priority, bool deleted) {
  if ((deleted ? world_.priorities.Remove(*priority) : world_.priorities.Upsert(priority))
          .applied) {
    DirtyAll();
  }
}

void Core::OnAdmissionCheck(std::shared_ptr<const api::AdmissionCheck> check, bool deleted) {
  const auto change =
      deleted ? world_.admission_checks.Remove(*check) : world_.admission_checks.Upsert(check);
  if (change.applied) {
    DirtyStatus("AdmissionCheck/" + check->meta.name);
    if (deleted || change.before == nullptr || change.before->parameters != check->parameters) {
      provisioned_flavors_stale_ = capacity_modes_stale_ = true;
      DirtyAll();  // requests are made as the parameters say
    }
    for (const auto& [key, queue] : world_.cluster_queues.All()) {
      if (UsesCheck(*queue, check->meta.name)) {
        JudgeChecks(*queue);
      }
    }
  }
}

void Core::JudgeChecks(const api::ClusterQueue& queue) {
  const auto [reason, message] = ChecksProblem(queue, world_.admission_checks);
  engine_->SetQueueProblem(queue.meta.name, reason, message);
  DirtyQueue(queue.meta.name);
  for (const auto& [key, local] : world_.local_queues.All()) {
    if (local->cluster_queue == queue.meta.name) {
      DirtyStatus("LocalQueue/" + key.ToString());
    }
  }
}

void Core::OnWorkloadPriorityClass(std::shared_ptr<const api::WorkloadPriorityClass> priority,
                                   bool deleted) {
  if ((deleted ? world_.workload_priorities.Remove(*priority)
               : world_.workload_priorities.Upsert(priority))
          .applied) {
    DirtyAll();
  }
}

void Core::OnPodGroup(std::shared_ptr<const api::PodGroup> group, bool deleted) {
  const auto change = deleted ? world_.groups.Remove(*group) : world_.groups.Upsert(group);
  if (!change.applied) {
    return;
  }
  if (const auto preset = units_of_preset_.find(group->meta.Key());
      preset != units_of_preset_.end()) {
    for (const api::ObjectKey& unit : preset->second) {
      Dirty(unit);
    }
  }
  const std::string job = world_.OwnerOf(group->meta);
  if (job.empty()) {
    return;
  }
  auto& index = world_.groups_by_job[job];
  if (deleted) {
    index.erase(group->meta.Key());
    if (index.empty()) {
      world_.groups_by_job.erase(job);
    }
  } else {
    index.insert(group->meta.Key());
  }
  if (const auto unit = unit_of_job_.find(job); unit != unit_of_job_.end()) {
    Dirty(unit->second);
  }
}

void Core::OnWorkload(std::shared_ptr<const api::Workload> workload, bool deleted) {
  const api::ObjectKey key = workload->meta.Key();
  const auto change =
      deleted ? world_.workloads.Remove(*workload) : world_.workloads.Upsert(workload);
  if (!change.applied) {
    return;
  }
  if (const auto victims = victims_of_.extract(key)) {
    dirty_units_.insert(victims.mapped().begin(), victims.mapped().end());
  }
  if (const auto refused = refused_units_.find(key); deleted && refused != refused_units_.end()) {
    dirty_units_.insert(refused->second.begin(), refused->second.end());
    refused_units_.erase(refused);
  }
  if (observer_ != nullptr) {
    observer_->Saw(key, change.before, deleted ? nullptr : workload);
  }
  if (deleted && !units_.contains(key)) {
    return;
  }
  Unit& unit = units_[key];
  unit.key = key;
  if (unit.job_uid.empty()) {
    if (const std::string owner = world_.OwnerOf(workload->meta); !owner.empty()) {
      unit.job_uid = owner;
      auto [known, fresh] = unit_of_job_.emplace(owner, key);
      const auto job = world_.JobOf(owner);
      const bool named =
          job != nullptr && !PrebuiltWorkloadOf(job->meta, options_.prebuilt_by_annotation).empty();
      if (!fresh && known->second != key && !named &&
          world_.workloads.Find(known->second) == nullptr) {
        // A Workload under another name than ours is taken over, unless we have made one already.
        const auto other = units_.find(known->second);
        if (other == units_.end() || other->second.in_flight == 0) {
          const api::ObjectKey old = known->second;
          known->second = key;
          fresh = true;
          if (other != units_.end()) {
            Forget(old);
          }
        }
      }
      if (fresh) {
        RelinkPodsOf(owner);
      }
    }
  }
  if (change.before != nullptr && change.before->status.admission.has_value() &&
      change.before->QuotaReserved() && !workload->QuotaReserved() && workload->Evicted()) {
    const api::Condition* evicted = api::FindCondition(workload->status.conditions, "Evicted");
    Observe("kueue_workload_eviction_latency_seconds",
            {{"cluster_queue", change.before->status.admission->cluster_queue},
             {"reason", evicted->reason}},
            std::max(0.0, SecondsSince(evicted)));
  }
  if (change.before != nullptr && change.before->queue_name != workload->queue_name) {
    DirtyLocal({key.ns, change.before->queue_name});
  }
  if (const auto slices = slices_of_.find(key); slices != slices_of_.end()) {
    for (const api::ObjectKey& slice : slices->second) {
      Dirty(slice);  // what it has to ask for depends on what this one has
    }
  }
  if (const auto replaced = ReplacedBy(*workload)) {
    Dirty(replaced->meta.Key());  // ends when the other has quota
  }
  LinkSlice(*workload, unit.job_uid, deleted);
  DirtyLocal({key.ns, workload->queue_name});
  Dirty(key);
  if (const auto children = children_of_.find(unit.job_uid); children != children_of_.end()) {
    for (const std::string& child : children->second) {
      if (const auto known = unit_of_job_.find(child); known != unit_of_job_.end()) {
        Dirty(known->second);
      }
    }
  }
}

void Core::OnClusterQueue(std::shared_ptr<const api::ClusterQueue> queue, bool deleted) {
  const auto change =
      deleted ? world_.cluster_queues.Remove(*queue) : world_.cluster_queues.Upsert(queue);
  if (!change.applied) {
    return;
  }
  DirtyQueue(queue->meta.name);
  if (deleted || (change.before != nullptr && change.before->meta.uid != queue->meta.uid)) {
    // At once: a queue of the same name may be there before the statuses are written, and its
    // counters start from 0.
    out_.metrics.push_back(
        {MetricSample::Op::kRemove, "", {{"cluster_queue", queue->meta.name}}, 0});
  }
  for (const auto& [key, check] : world_.admission_checks.All()) {
    DirtyStatus("AdmissionCheck/" + key.name);  // its finalizer depends on its users
  }
  for (const auto& [key, flavor] : world_.flavors.All()) {
    DirtyStatus("ResourceFlavor/" + key.name);  // its finalizer depends on its users
  }
  if (deleted) {
    engine_->RemoveClusterQueue(queue->meta.name);
  } else if (change.before == nullptr || change.before->meta.generation != queue->meta.generation ||
             change.before->meta.deleted != queue->meta.deleted) {
    engine_->SetClusterQueue(*queue);
    JudgeChecks(*queue);
    provisioned_flavors_stale_ = capacity_modes_stale_ = true;
  } else {
    return;  // only its status changed
  }
  for (const auto& [key, local] : world_.local_queues.All()) {
    if (local->cluster_queue == queue->meta.name) {
      DirtyStatus("LocalQueue/" + key.ToString());
    }
  }
  DirtyAll();
}

void Core::OnLocalQueue(std::shared_ptr<const api::LocalQueue> queue, bool deleted) {
  const auto change =
      deleted ? world_.local_queues.Remove(*queue) : world_.local_queues.Upsert(queue);
  if (!change.applied) {
    return;
  }
  const api::ObjectKey key = queue->meta.Key();
  if (deleted || (change.before != nullptr && change.before->meta.uid != queue->meta.uid)) {
    out_.metrics.push_back(
        {MetricSample::Op::kRemove, "", {{"name", key.name}, {"namespace", key.ns}}, 0});
  }
  DirtyStatus("LocalQueue/" + key.ToString());
  DirtyQueue(queue->cluster_queue);
  if (deleted) {
    engine_->RemoveLocalQueue(key);
  } else if (change.before == nullptr || change.before->meta.generation != queue->meta.generation) {
    engine_->SetLocalQueue(*queue);
    if (change.before == nullptr) {
      RestorePast(*queue);
    }
  } else {
    return;
  }
  DirtyAll();
}

void Core::OnCohort(std::shared_ptr<const api::Cohort> cohort, bool deleted) {
  const auto change = deleted ? world_.cohorts.Remove(*cohort) : world_.cohorts.Upsert(cohort);
  if (!change.applied) {
    return;
  }
  DirtyStatus("Cohort/" + cohort->meta.name);
  if (deleted) {
    out_.metrics.push_back({MetricSample::Op::kRemove, "", {{"cohort", cohort->meta.name}}, 0});
    engine_->RemoveCohort(cohort->meta.name);
  } else if (change.before == nullptr ||
             change.before->meta.generation != cohort->meta.generation) {
    engine_->SetCohort(*cohort);
  } else {
    return;  // only its status changed
  }
  for (const auto& [key, queue] : world_.cluster_queues.All()) {
    DirtyQueue(key.name);
  }
}

void Core::OnFlavor(std::shared_ptr<const api::ResourceFlavor> flavor, bool deleted) {
  const auto change = deleted ? world_.flavors.Remove(*flavor) : world_.flavors.Upsert(flavor);
  if (!change.applied) {
    return;
  }
  const std::string& name = flavor->meta.name;
  DirtyStatus("ResourceFlavor/" + name);
  capacity_modes_stale_ = true;
  if (deleted) {
    engine_->RemoveFlavor(name);
  } else if (change.before == nullptr ||
             change.before->meta.generation != flavor->meta.generation ||
             change.before->meta.annotations != flavor->meta.annotations) {
    engine_->SetFlavor(*flavor);
  } else {
    return;
  }
  for (const std::string& queue : engine_->QueuesUsingFlavor(name)) {
    DirtyQueue(queue);
  }
}

engine::CapacityMode Core::ModeOf(const api::ResourceFlavor& flavor) const {
  CapacityChoice choice = options_.capacity;
  const std::string_view annotation = flavor.meta.Annotation(names::kCapacityModeAnnotation);
  if (annotation == "Require") {
    choice = CapacityChoice::kRequire;
  } else if (annotation == "Release") {
    choice = CapacityChoice::kRelease;
  } else if (annotation == "Observe") {
    choice = CapacityChoice::kObserve;
  } else if (annotation == "Off") {
    choice = CapacityChoice::kOff;
  }
  switch (choice) {
    case CapacityChoice::kRequire:
      return engine::CapacityMode::kRequire;
    case CapacityChoice::kRelease:
      return engine::CapacityMode::kRelease;
    case CapacityChoice::kObserve:
      return engine::CapacityMode::kObserve;
    case CapacityChoice::kOff:
      return engine::CapacityMode::kOff;
    case CapacityChoice::kAuto:
      break;
  }
  const bool autoscaled = options_.autoscaler_seen || !autoscaled_nodes_.empty() ||
                          provisioned_flavors_.contains(flavor.meta.name);
  const bool has_nodes = engine_->capacity().CountNodes(flavor.node_labels) > 0;
  return has_nodes && !autoscaled ? engine::CapacityMode::kRequire : engine::CapacityMode::kRelease;
}

void Core::RefreshCapacityModes() {
  capacity_modes_stale_ = false;
  if (std::exchange(provisioned_flavors_stale_, false)) {
    provisioned_flavors_ = ProvisionedFlavors();
  }
  for (const auto& [key, flavor] : world_.flavors.All()) {
    const engine::CapacityMode mode = ModeOf(*flavor);
    const auto known = capacity_modes_.find(key.name);
    if (known != capacity_modes_.end() && known->second == mode) {
      continue;
    }
    capacity_modes_[key.name] = mode;
    engine_->SetFlavorCapacityMode(key.name, mode);
    for (const std::string& queue : engine_->QueuesUsingFlavor(key.name)) {
      DirtyQueue(queue);
    }
  }
}

}  // namespace tutti::reconciler
