// SPDX-License-Identifier: Apache-2.0
#include "reconciler/pod_kind.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/names.h"
#include "reconciler/pod_template.h"
#include "reconciler/workload_writes.h"

namespace tutti::reconciler {
namespace {

constexpr std::string_view kMainPodSet = "main";

// UIDs are never of this form, so a group is never taken for a pod.
std::string GroupUid(const std::string& ns, const std::string& name) {
  return "pod-group/" + ns + "/" + name;
}

api::WriteRequest PodWrite(const WatchedPod& pod, api::Verb verb) {
  api::WriteRequest write;
  write.verb = verb;
  write.resource = api::ResourceOf(api::Kind::kPod);
  write.key = pod.meta.Key();
  write.field_manager = names::kUpdateManager;
  return write;
}

class SinglePod final : public QueuedJob {
 public:
  SinglePod(const JobKind& job_kind, PodPtr pod)
      : QueuedJob(job_kind, pod->meta), pod_(std::move(pod)) {}

  [[nodiscard]] bool Suspended() const override { return !Started(*pod_); }
  [[nodiscard]] bool Held() const override { return reconciler::Held(*pod_); }
  [[nodiscard]] bool MayStart() const override { return true; }
  [[nodiscard]] bool Stopped(Time now) const override { return Suspended() && !Active(now); }
  [[nodiscard]] std::optional<Time> StoppedAt() const override { return Overdue(*pod_); }
  [[nodiscard]] bool Active(Time now) const override { return Running(*pod_, now); }
  [[nodiscard]] bool Finished(bool* success, std::string* message) const override {
    if (!pod_->Terminal()) {
      return false;
    }
    *success = pod_->phase == "Succeeded";
    *message = pod_->queued->message;
    return true;
  }
  [[nodiscard]] int32_t Remaining(const api::PodSet& /*pod_set*/) const override {
    return pod_->Terminal() ? 0 : 1;
  }
  [[nodiscard]] bool PodsReady(const std::vector<const api::Pod*>& /*pods*/) const override {
    return pod_->ready;
  }
  // Taking it back would delete what its user has made; the time limits of waitForPodsReady do.
  [[nodiscard]] bool WatchesLanding() const override { return false; }

  [[nodiscard]] Result<api::Workload> Describe() const override {
    TRY_ASSIGN(api::Workload workload, WorkloadWithoutPods(kind, meta));
    workload.pod_sets.push_back(PodSetOf(*pod_, std::string(kMainPodSet), 1));
    return workload;
  }
  [[nodiscard]] bool Matches(const api::Workload& workload) const override {
    if (workload.pod_sets.size() != 1 || workload.pod_sets.front().count != 1) {
      return false;
    }
    // What a start adds isn't taken off a pod again, so it doesn't count.
    return SamePods(ParseTemplate(workload.pod_sets.front().template_json),
                    Json::Obj({{"spec", ParseTemplate(pod_->queued->spec_json)}}),
                    /*may_be_started=*/true);
  }

  [[nodiscard]] Result<std::vector<api::WriteRequest>> Start(
      const api::Workload& /*workload*/, const std::vector<StartInfo>& infos) const override {
    TRY_ASSIGN(api::WriteRequest write,
               UngatePatch(*pod_, infos.empty() ? StartInfo{} : infos.front()));
    return std::vector<api::WriteRequest>{std::move(write)};
  }
  [[nodiscard]] std::vector<api::WriteRequest> Stop(const StopReason& why) const override {
    return Started(*pod_) ? StopPod(*pod_, why) : std::vector<api::WriteRequest>{};
  }
  [[nodiscard]] std::vector<api::WriteRequest> Restore(
      const api::Workload& /*workload*/) const override {
    return {};
  }
  [[nodiscard]] bool HasLeftovers() const override { return false; }
  [[nodiscard]] std::vector<api::WriteRequest> Finalize() const override {
    std::vector<api::WriteRequest> writes;
    if (auto write = FinalizePod(*pod_)) {
      writes.push_back(std::move(*write));
    }
    return writes;
  }
  [[nodiscard]] std::vector<api::WriteRequest> Discard(const StopReason& why) const override {
    return meta.deleted.has_value() ? std::vector<api::WriteRequest>{} : StopPod(*pod_, why);
  }
  [[nodiscard]] bool RunsAgain() const override { return false; }
  [[nodiscard]] std::string CreatorUid() const override { return ""; }

 private:
  PodPtr pod_;
};

class PodKindImpl final : public JobKind {
 public:
  explicit PodKindImpl(bool of_parents) : of_parents_(of_parents) {}

  [[nodiscard]] std::string_view Framework() const override { return "pod"; }
  [[nodiscard]] const api::Resource& Resource() const override {
    static const api::Resource kResource = api::ResourceOf(api::Kind::kPod);
    return kResource;
  }
  [[nodiscard]] Result<std::shared_ptr<const QueuedJob>> Decode(
      const Json& /*object*/) const override {
    return Fail(ErrorCode::kInternal, "pods are composed");
  }
  [[nodiscard]] std::optional<PodMember> MemberOf(const WatchedPod& pod) const override {
    if (pod.queued == nullptr ||
        (of_parents_ && pod.meta.Annotation(names::kSuspendingParent).empty())) {
      return std::nullopt;
    }
    const std::string group = GroupNameOf(pod.meta);
    if (group.empty()) {
      // A pod of a StatefulSet is queued when it has been put into its group.
      if (pod.meta.Annotation(names::kSuspendingParent) == kStatefulSetParent) {
        return std::nullopt;
      }
      return PodMember{pod.meta.uid, std::string(kMainPodSet), this};
    }
    return PodMember{GroupUid(pod.meta.ns, group), pod.queued->role, this};
  }
  [[nodiscard]] std::string OwnerOf(const api::ObjectMeta& object) const override {
    if (object.Annotation(names::kIsGroupWorkload) == "true") {
      return GroupUid(object.ns, object.name);
    }
    for (const api::OwnerReference& owner : object.owners) {
      if (owner.kind == "Pod" && owner.api_version == "v1") {
        return owner.uid;
      }
    }
    return "";
  }
  [[nodiscard]] bool MadeOfPods() const override { return true; }
  [[nodiscard]] std::shared_ptr<const QueuedJob> Compose(
      const std::string& uid, const std::vector<PodPtr>& pods) const override {
    std::string group = GroupNameOf(pods.front()->meta);
    return group.empty() ? MakeSinglePod(*this, pods.front())
                         : MakePodGroup(*this, uid, std::move(group), pods);
  }

 private:
  bool of_parents_;
};

}  // namespace

const JobKind& PodKind() {
  static const PodKindImpl kKind(/*of_parents=*/false);
  return kKind;
}

const JobKind& PodKindOfParents() {
  static const PodKindImpl kKind(/*of_parents=*/true);
  return kKind;
}

std::shared_ptr<const QueuedJob> MakeSinglePod(const JobKind& kind, PodPtr pod) {
  return std::make_shared<const SinglePod>(kind, std::move(pod));
}

bool GatedPodsJob::Suspended() const {
  return std::none_of(pods_.begin(), pods_.end(), [](const PodPtr& pod) { return Started(*pod); });
}
bool GatedPodsJob::Held() const {
  return std::any_of(pods_.begin(), pods_.end(),
                     [](const PodPtr& pod) { return reconciler::Held(*pod); });
}
bool GatedPodsJob::Active(Time now) const {
  return std::any_of(pods_.begin(), pods_.end(),
                     [now](const PodPtr& pod) { return Running(*pod, now); });
}

bool RunnableOrSucceeded(const WatchedPod& pod) {
  return (!pod.meta.deleted.has_value() || pod.HasNode()) && pod.phase != "Failed";
}

bool Held(const WatchedPod& pod) {
  return pod.queued->gated && !pod.Terminal() && !pod.meta.deleted.has_value();
}

bool Started(const WatchedPod& pod) {
  return !pod.queued->gated && !pod.Terminal() && !pod.meta.deleted.has_value();
}

std::optional<Time> Overdue(const WatchedPod& pod) {
  if (!pod.meta.deleted.has_value()) {
    return std::nullopt;
  }
  return *pod.meta.deleted + std::chrono::seconds(pod.queued->grace_seconds);
}

bool Running(const WatchedPod& pod, Time now) {
  if (pod.Terminal() || (pod.phase != "Running" && !pod.HasNode())) {
    return false;
  }
  const std::optional<Time> overdue = Overdue(pod);
  return !overdue.has_value() || now < *overdue;
}

Result<api::WriteRequest> UngatePatch(const WatchedPod& pod, const StartInfo& info) {
  const Json spec = ParseTemplate(pod.queued->spec_json);
  const Json current =
      Json::Obj({{"metadata", Json::Obj({{"labels", api::ToJson(pod.meta.labels)},
                                         {"annotations", api::ToJson(pod.meta.annotations)}})},
                 {"spec", spec}});
  TRY_ASSIGN(Json patch, TemplateAdditions(current, current, info, "pod"));
  Json gates = Json::Arr();
  for (const Json& gate : spec["schedulingGates"].AsArray()) {
    const std::string& name = gate["name"].AsString();
    if (name != names::kAdmissionGate && name != names::kTopologyGate) {
      gates.Push(gate);
    }
  }
  patch.At("spec").Set("schedulingGates", std::move(gates));
  // A policy has no hash to give: its role is what it was when it was held.
  if (pod.meta.Annotation(names::kRoleHash).empty()) {
    patch.At("metadata").At("annotations").Set(names::kRoleHash, pod.queued->role);
  }
  patch.At("metadata").Set("resourceVersion", pod.meta.resource_version);
  api::WriteRequest write = PodWrite(pod, api::Verb::kMergePatch);
  write.body = std::move(patch);
  return write;
}

std::vector<api::WriteRequest> StopPod(const WatchedPod& pod, const StopReason& why) {
  api::WriteRequest tell = PodWrite(pod, api::Verb::kApply);
  tell.subresource = "status";
  api::Condition condition{"TerminationTarget", "True", why.reason, why.message, why.now, 0};
  Json conditions = api::ToJson(api::Conditions{std::move(condition)});
  for (Json& entry : conditions.MutableArray()) {
    entry.Erase("observedGeneration");
  }
  tell.body = Json::Obj(
      {{"apiVersion", "v1"},
       {"kind", "Pod"},
       {"metadata",
        Json::Obj({{"name", pod.meta.name}, {"namespace", pod.meta.ns}, {"uid", pod.meta.uid}})},
       {"status", Json::Obj({{"conditions", std::move(conditions)}})}});
  return {std::move(tell), DeletePod(pod)};
}

std::optional<api::WriteRequest> FinalizePod(const WatchedPod& pod) {
  if (!pod.meta.HasFinalizer(names::kManagedLabel)) {
    return std::nullopt;
  }
  Json rest = Json::Arr();
  for (const std::string& finalizer : pod.meta.finalizers) {
    if (finalizer != names::kManagedLabel) {
      rest.Push(finalizer);
    }
  }
  api::WriteRequest write = PodWrite(pod, api::Verb::kMergePatch);
  write.body = Json::Obj({{"metadata", Json::Obj({{"resourceVersion", pod.meta.resource_version},
                                                  {"finalizers", std::move(rest)}})}});
  return write;
}

api::WriteRequest DeletePod(const WatchedPod& pod) {
  api::WriteRequest write = PodWrite(pod, api::Verb::kDelete);
  write.body = Json::Obj({{"preconditions", Json::Obj({{"uid", pod.meta.uid}})}});
  return write;
}

api::PodSet PodSetOf(const WatchedPod& pod, std::string name, int32_t count) {
  // Our gates are no property of what is asked for.
  Json spec = ParseTemplate(pod.queued->spec_json);
  Json gates = Json::Arr();
  for (const Json& gate : spec["schedulingGates"].AsArray()) {
    const std::string& gate_name = gate["name"].AsString();
    if (gate_name != names::kAdmissionGate && gate_name != names::kTopologyGate) {
      gates.Push(gate);
    }
  }
  if (gates.AsArray().empty()) {
    spec.Erase("schedulingGates");
  } else {
    spec.Set("schedulingGates", std::move(gates));
  }
  api::PodSet out;
  out.name = std::move(name);
  out.count = count;
  out.template_json = Json::Obj({{"spec", std::move(spec)}}).Dump();
  return out;
}

api::WriteRequest OwnersPatch(const api::Workload& workload,
                              const std::vector<api::OwnerReference>& more) {
  Json owners = Json::Arr();
  for (const api::OwnerReference& owner : workload.meta.owners) {
    owners.Push(api::ToJson(owner));
  }
  for (const api::OwnerReference& owner : more) {
    owners.Push(api::ToJson(owner));
  }
  return WorkloadPatch(
      workload, Json::Obj({{"metadata", Json::Obj({{"ownerReferences", std::move(owners)}})}}));
}

}  // namespace tutti::reconciler
