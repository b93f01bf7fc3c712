// SPDX-License-Identifier: Apache-2.0
#include "reconciler/statefulset_kind.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "api/decode.h"
#include "base/names.h"
#include "reconciler/pod_kind.h"
#include "reconciler/pod_template.h"

namespace tutti::reconciler {
namespace {

constexpr std::string_view kMainPodSet = "main";

class StatefulSet final : public GatedPodsJob {
 public:
  explicit StatefulSet(const Json& object)
      : GatedPodsJob(StatefulSetKind(), meta_, {}), meta_(api::MetaFromJson(object["metadata"])) {
    const Json& spec = object["spec"];
    replicas_ = api::ReadInt32(spec["replicas"], 1);
    const Json& pods = spec["template"];
    held_by_gates_ =
        pods["metadata"]["annotations"][names::kSuspendingParent].AsString() == kStatefulSetParent;
    pod_spec_json_ = pods["spec"].Dump();
  }
  StatefulSet(const StatefulSet& other, std::vector<PodPtr> pods)
      : GatedPodsJob(StatefulSetKind(), meta_, std::move(pods)),
        meta_(other.meta_),
        replicas_(other.replicas_),
        held_by_gates_(other.held_by_gates_),
        pod_spec_json_(other.pod_spec_json_) {}

  [[nodiscard]] std::shared_ptr<const QueuedJob> WithPods(std::vector<PodPtr> pods) const override {
    return std::make_shared<const StatefulSet>(*this, std::move(pods));
  }

  // The webhook's mark: pods of any other template have no gate, and would be deleted in vain.
  [[nodiscard]] bool MayBeQueued() const override { return held_by_gates_; }
  [[nodiscard]] std::optional<Time> StoppedAt() const override {
    std::optional<Time> last;
    for (const PodPtr& pod : pods_) {
      if (const std::optional<Time> overdue = Overdue(*pod)) {
        last = std::max(last.value_or(kNoTime), *overdue);
      }
    }
    return last;
  }
  [[nodiscard]] bool Finished(bool* /*success*/, std::string* /*message*/) const override {
    return false;
  }
  [[nodiscard]] std::string_view OnHold() const override {
    return replicas_ == 0 ? "StatefulSet scaled to zero; workload on hold" : "";
  }
  [[nodiscard]] int32_t Remaining(const api::PodSet& pod_set) const override {
    return pod_set.count;
  }
  [[nodiscard]] bool PodsReady(const std::vector<const api::Pod*>& /*pods*/) const override {
    return std::count_if(pods_.begin(), pods_.end(), [](const PodPtr& pod) {
             return pod->ready && !pod->Terminal() && !pod->meta.deleted.has_value();
           }) >= replicas_;
  }
  // Its pods may come one after the other, and a service is not stopped for one that is lost; the
  // time limits of waitForPodsReady apply.
  [[nodiscard]] bool WatchesLanding() const override { return false; }

  [[nodiscard]] Result<api::Workload> Describe() const override {
    TRY_ASSIGN(api::Workload workload, WorkloadWithoutPods(kind, meta));
    workload.meta.annotations[std::string(names::kIsGroupWorkload)] = "true";
    api::PodSet pod_set;
    pod_set.name = kMainPodSet;
    pod_set.count = replicas_;
    pod_set.template_json = Json::Obj({{"spec", ParseTemplate(pod_spec_json_)}}).Dump();
    workload.pod_sets.push_back(std::move(pod_set));
    return workload;
  }
  [[nodiscard]] bool Matches(const api::Workload& workload) const override {
    if (workload.pod_sets.size() != 1) {
      return false;
    }
    // Fewer pods than it has quota for are no reason to stop those that run.
    const api::PodSet& pod_set = workload.pod_sets.front();
    const bool enough =
        workload.QuotaReserved() ? replicas_ <= pod_set.count : replicas_ == pod_set.count;
    return enough &&
           SameRole(ParseTemplate(pod_set.template_json)["spec"], ParseTemplate(pod_spec_json_));
  }

  [[nodiscard]] Result<std::vector<api::WriteRequest>> Start(
      const api::Workload& workload, const std::vector<StartInfo>& infos) const override {
    std::vector<api::WriteRequest> writes;
    const StartInfo info = infos.empty() ? StartInfo{} : infos.front();
    auto room =
        GangSize(*this, workload) -
        std::count_if(pods_.begin(), pods_.end(), [](const PodPtr& pod) { return Started(*pod); });
    for (const PodPtr& pod : pods_) {
      if (room > 0 && reconciler::Held(*pod)) {
        TRY_ASSIGN(api::WriteRequest write, UngatePatch(*pod, info));
        Mark(workload, write.body.At("metadata"));
        writes.push_back(std::move(write));
        --room;
      }
    }
    return writes;
  }
  [[nodiscard]] std::vector<api::WriteRequest> Stop(const StopReason& why) const override {
    std::vector<api::WriteRequest> writes;
    for (const PodPtr& pod : pods_) {
      if (Started(*pod)) {
        std::vector<api::WriteRequest> stop = StopPod(*pod, why);
        std::move(stop.begin(), stop.end(), std::back_inserter(writes));
      }
    }
    return writes;
  }
  [[nodiscard]] std::vector<api::WriteRequest> Restore(
      const api::Workload& /*workload*/) const override {
    return {};
  }
  [[nodiscard]] bool HasLeftovers() const override { return false; }
  // Pods that were made under an older Kueue have its finalizer.
  [[nodiscard]] Chores Tidy(const api::Workload* /*workload*/) const override {
    Chores chores;
    for (const PodPtr& pod : pods_) {
      if (pod->Terminal() || pod->meta.deleted.has_value()) {
        LetGo(*pod, chores.writes);
      }
    }
    return chores;
  }
  [[nodiscard]] std::vector<api::WriteRequest> Finalize() const override {
    std::vector<api::WriteRequest> writes;
    for (const PodPtr& pod : pods_) {
      LetGo(*pod, writes);
    }
    return writes;
  }

 private:
  static void LetGo(const WatchedPod& pod, std::vector<api::WriteRequest>& writes) {
    if (std::optional<api::WriteRequest> write = FinalizePod(pod)) {
      writes.push_back(std::move(*write));
    }
  }
  // A started pod shows whose it is, as the member of a pod group does.
  void Mark(const api::Workload& workload, Json& metadata) const {
    Json labels = metadata["labels"].IsObject() ? metadata["labels"] : Json::Obj();
    labels.Set(names::kManagedLabel, "true");
    for (const std::string_view label : {names::kQueueNameLabel, names::kPriorityClassLabel}) {
      if (const std::string_view value = meta.Label(label); !value.empty()) {
        labels.Set(label, value);
      }
    }
    Json annotations = metadata["annotations"].IsObject() ? metadata["annotations"] : Json::Obj();
    annotations.Set(names::kPodGroupName, workload.meta.name);
    annotations.Set(names::kPrebuiltWorkload, workload.meta.name);
    annotations.Set(names::kPodGroupTotalCount, std::to_string(replicas_));
    annotations.Set(names::kPodGroupFast, "true");
    annotations.Set(names::kPodGroupServing, "true");
    annotations.Set(names::kRoleHash, kMainPodSet);
    metadata.Set("labels", std::move(labels));
    metadata.Set("annotations", std::move(annotations));
  }

  api::ObjectMeta meta_;
  int32_t replicas_ = 1;
  bool held_by_gates_ = false;
  std::string pod_spec_json_;
};

class Kind final : public JobKind {
 public:
  [[nodiscard]] std::string_view Framework() const override { return kStatefulSetParent; }
  [[nodiscard]] const api::Resource& Resource() const override {
    static const api::Resource kResource{"apps", "v1", "statefulsets", "StatefulSet", true};
    return kResource;
  }
  [[nodiscard]] bool ActsOnPods() const override { return true; }
  [[nodiscard]] Result<std::shared_ptr<const QueuedJob>> Decode(const Json& object) const override {
    TRY(api::ReadMeta(object, "StatefulSet"));
    return std::shared_ptr<const QueuedJob>(std::make_shared<StatefulSet>(object));
  }
  [[nodiscard]] std::optional<PodMember> MemberOf(const WatchedPod& pod) const override {
    const api::OwnerReference* owner = pod.meta.Controller();
    if (pod.queued == nullptr || owner == nullptr || owner->kind != Resource().kind ||
        owner->api_version != Resource().ApiVersion() ||
        pod.meta.Annotation(names::kSuspendingParent) != kStatefulSetParent) {
      return std::nullopt;
    }
    return PodMember{owner->uid, std::string(kMainPodSet), this};
  }
};

}  // namespace

const JobKind& StatefulSetKind() {
  static const Kind kKind;
  return kKind;
}

}  // namespace tutti::reconciler
