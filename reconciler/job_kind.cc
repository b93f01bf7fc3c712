// SPDX-License-Identifier: Apache-2.0
#include "reconciler/job_kind.h"

#include <charconv>

#include "base/names.h"
#include "reconciler/names.h"
#include "reconciler/shapes.h"

namespace tutti::reconciler {

std::string QueuedJob::WorkloadName() const {
  const api::Resource& resource = kind.Resource();
  return reconciler::WorkloadName(resource.kind, resource.group, meta.name, meta.uid);
}

int32_t QueuedJob::PodsToLand(const api::Workload& workload) const {
  return GangSize(*this, workload);
}

int32_t GangSize(const QueuedJob& job, const api::Workload& workload) {
  int32_t sum = 0;
  for (const api::PodSet& pod_set : workload.pod_sets) {
    sum += job.Remaining(pod_set);
  }
  return sum;
}

std::string JobKind::OwnerOf(const api::ObjectMeta& object) const {
  const api::Resource& resource = Resource();
  for (const api::OwnerReference& owner : object.owners) {
    if (owner.kind == resource.kind && owner.api_version.starts_with(resource.group + "/")) {
      return owner.uid;
    }
  }
  return "";
}

std::shared_ptr<const QueuedJob> JobKind::Compose(
    const std::string& /*uid*/,
    const std::vector<std::shared_ptr<const WatchedPod>>& /*pods*/) const {
  return nullptr;
}

Result<api::Workload> WorkloadWithoutPods(const JobKind& kind, const api::ObjectMeta& job) {
  const api::Resource& resource = kind.Resource();
  api::Workload workload;
  workload.meta.name = WorkloadName(resource.kind, resource.group, job.name, job.uid);
  workload.meta.ns = job.ns;
  workload.meta.labels[std::string(names::kJobUidLabel)] = job.uid;
  workload.meta.finalizers = {std::string(names::kResourceInUseFinalizer)};
  workload.meta.owners = {
      {resource.ApiVersion(), resource.kind, job.name, job.uid, /*controller=*/true}};
  for (const auto& [key, value] : job.annotations) {
    if (key.starts_with("provreq.kueue.x-k8s.io/") || key == names::kAdmissionGatedByAnnotation) {
      workload.meta.annotations[key] = value;
    }
  }
  workload.queue_name = job.Label(names::kQueueNameLabel);
  TRY_ASSIGN(workload.max_execution_seconds,
             PositiveInt(job.Label(names::kMaxExecTimeLabel),
                         "metadata.labels[kueue.x-k8s.io/max-exec-time-seconds]"));
  return workload;
}

std::string_view PrebuiltWorkloadOf(const api::ObjectMeta& job, bool annotations) {
  const std::string_view by_annotation =
      annotations ? job.Annotation(names::kPrebuiltWorkload) : std::string_view();
  return by_annotation.empty() ? job.Label(names::kPrebuiltWorkload) : by_annotation;
}

std::string PriorityClassOf(const api::Workload& workload) {
  for (const api::PodSet& pod_set : workload.pod_sets) {
    if (std::string name = RefsOf(pod_set.template_json).priority_class; !name.empty()) {
      return name;
    }
  }
  return "";
}

Result<std::optional<int32_t>> PositiveInt(std::string_view text, std::string_view where) {
  if (text.empty()) {
    return std::optional<int32_t>{};
  }
  int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value <= 0) {
    return Fail(ErrorCode::kInvalid, std::string(where) + ": \"" + std::string(text) +
                                         "\" must be a whole number greater than 0");
  }
  return std::optional<int32_t>{value};
}

api::WriteRequest JobPatch(const JobKind& kind, const api::ObjectMeta& job, Json spec) {
  api::WriteRequest write;
  write.verb = api::Verb::kMergePatch;
  write.resource = kind.Resource();
  write.key = job.Key();
  write.field_manager = names::kUpdateManager;
  write.body = Json::Obj({{"metadata", Json::Obj({{"resourceVersion", job.resource_version}})},
                          {"spec", std::move(spec)}});
  return write;
}

api::WriteRequest DeleteJob(const QueuedJob& job) {
  api::WriteRequest write;
  write.verb = api::Verb::kDelete;
  write.resource = job.kind.Resource();
  write.key = job.meta.Key();
  write.body = Json::Obj(
      {{"preconditions", Json::Obj({{"uid", job.meta.uid}})}, {"propagationPolicy", "Background"}});
  return write;
}

}  // namespace tutti::reconciler
