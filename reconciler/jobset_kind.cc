// SPDX-License-Identifier: Apache-2.0
#include "reconciler/jobset_kind.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "api/decode.h"
#include "base/names.h"
#include "reconciler/pod_template.h"

namespace tutti::reconciler {
namespace {

constexpr std::string_view kController = "jobset.sigs.k8s.io/jobset-controller";
// On pods, by the JobSet controller.
constexpr std::string_view kUidLabel = "jobset.sigs.k8s.io/jobset-uid";
constexpr std::string_view kReplicatedJobLabel = "jobset.sigs.k8s.io/replicatedjob-name";

struct ReplicatedJob {
  std::string name;
  std::string pod_set;  // names of pod sets are in lower case
  int32_t replicas = 1;
  int32_t pods_each = 1;
  std::string template_json;  // of the pods
  // Of its status: Jobs, not pods.
  int32_t active = 0;
  int32_t ready = 0;
  int32_t succeeded = 0;
};

std::string PodSetName(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

ReplicatedJob ReadReplicatedJob(const Json& json, const Json& statuses) {
  ReplicatedJob out;
  out.name = json["name"].AsString();
  out.pod_set = PodSetName(out.name);
  out.replicas = api::ReadInt32(json["replicas"], 1);
  const Json& spec = json["template"]["spec"];
  const int32_t parallelism = api::ReadInt32(spec["parallelism"], 1);
  out.pods_each = std::min(parallelism, api::ReadInt32(spec["completions"], parallelism));
  out.template_json = spec["template"].Dump();
  for (const Json& status : statuses.AsArray()) {
    if (status["name"].AsString() == out.name) {
      out.active = api::ReadInt32(status["active"]);
      out.ready = api::ReadInt32(status["ready"]);
      out.succeeded = std::clamp(api::ReadInt32(status["succeeded"]), 0, out.replicas);
    }
  }
  return out;
}

// What topology-aware scheduling has to know of a pod set. Every replicated job has the fields that
// tell its pods apart; the rest is what its annotations ask for.
Json TopologyRequest(const ReplicatedJob& job) {
  Json request = Json::Obj({{"podIndexLabel", "batch.kubernetes.io/job-completion-index"},
                            {"subGroupIndexLabel", "jobset.sigs.k8s.io/job-index"},
                            {"subGroupCount", job.replicas}});
  const Json annotations = ParseTemplate(job.template_json)["metadata"]["annotations"];
  const auto text = [&](std::string_view annotation, std::string_view field) {
    if (const std::string& value = annotations[annotation].AsString(); !value.empty()) {
      request.Set(field, value);
    }
  };
  text("kueue.x-k8s.io/podset-required-topology", "required");
  text("kueue.x-k8s.io/podset-preferred-topology", "preferred");
  text("kueue.x-k8s.io/podset-group-name", "podSetGroupName");
  text("kueue.x-k8s.io/podset-slice-required-topology", "podSetSliceRequiredTopology");
  if (const std::string& value =
          annotations["kueue.x-k8s.io/podset-unconstrained-topology"].AsString();
      !value.empty()) {
    request.Set("unconstrained", value == "true");
  }
  const std::string& size = annotations["kueue.x-k8s.io/podset-slice-size"].AsString();
  if (const auto number = PositiveInt(size, "kueue.x-k8s.io/podset-slice-size");
      number && number->has_value()) {
    request.Set("podSetSliceSize", **number);
  }
  return request;
}

class JobSet final : public QueuedJob {
 public:
  explicit JobSet(const Json& object)
      : QueuedJob(JobSetKind(), meta_), meta_(api::MetaFromJson(object["metadata"])) {
    const Json& spec = object["spec"];
    suspend_ = spec["suspend"].AsBool();
    managed_by_ = spec["managedBy"].AsString();
    in_order_ = spec["startupPolicy"]["startupPolicyOrder"].AsString() == "InOrder";
    replicated_json_ = spec["replicatedJobs"].Dump();
    for (const Json& entry : spec["replicatedJobs"].AsArray()) {
      jobs_.push_back(ReadReplicatedJob(entry, object["status"]["replicatedJobsStatus"]));
      in_order_ = in_order_ || !entry["dependsOn"].AsArray().empty();
    }
    conditions_ = api::ConditionsFromJson(object["status"]["conditions"]);
    restarts_ = api::ReadInt32(object["status"]["restarts"]);
  }

  [[nodiscard]] bool MayBeQueued() const override {
    return meta.Controller() == nullptr && (managed_by_.empty() || managed_by_ == kController);
  }
  [[nodiscard]] bool Suspended() const override { return suspend_; }
  [[nodiscard]] bool MayStart() const override { return Wound(); }
  [[nodiscard]] bool Stopped(Time /*now*/) const override { return Wound(); }
  [[nodiscard]] bool Active(Time /*now*/) const override {
    return std::any_of(jobs_.begin(), jobs_.end(),
                       [](const ReplicatedJob& job) { return job.active > 0; });
  }
  [[nodiscard]] bool Finished(bool* success, std::string* message) const override {
    for (const std::string_view type : {"Completed", "Failed"}) {
      const api::Condition* condition = api::FindCondition(conditions_, type);
      if (condition != nullptr && condition->status == "True") {
        *success = type == "Completed";
        *message = condition->message;
        return true;
      }
    }
    return false;
  }
  [[nodiscard]] std::optional<Time> StartedAt() const override {
    const api::Condition* suspended = api::FindCondition(conditions_, "Suspended");
    return suspended != nullptr && suspended->status == "False"
               ? std::optional<Time>(suspended->last_transition)
               : std::nullopt;
  }
  [[nodiscard]] bool LostPods() const override { return restarts_ > 0; }
  [[nodiscard]] int32_t Remaining(const api::PodSet& pod_set) const override {
    const ReplicatedJob* job = Find(pod_set.name);
    return job != nullptr ? (job->replicas - job->succeeded) * job->pods_each : pod_set.count;
  }
  [[nodiscard]] bool PodsReady(const std::vector<const api::Pod*>& /*pods*/) const override {
    return std::all_of(jobs_.begin(), jobs_.end(), [](const ReplicatedJob& job) {
      return job.ready + job.succeeded >= job.replicas;
    });
  }
  [[nodiscard]] std::vector<std::pair<std::string, int32_t>> Reclaimable() const override {
    std::vector<std::pair<std::string, int32_t>> out;
    for (const ReplicatedJob& job : jobs_) {
      if (job.succeeded > 0) {
        out.emplace_back(job.pod_set, job.succeeded * job.pods_each);
      }
    }
    return out;
  }
  // Where one replicated job waits for another, pods that are missing are no sign of trouble.
  [[nodiscard]] bool WatchesLanding() const override { return !in_order_; }

  [[nodiscard]] Result<api::Workload> Describe() const override {
    TRY_ASSIGN(api::Workload workload, WorkloadWithoutPods(kind, meta));
    for (const ReplicatedJob& job : jobs_) {
      api::PodSet pod_set;
      pod_set.name = job.pod_set;
      pod_set.count = job.replicas * job.pods_each;
      pod_set.template_json = SubmittedTemplate(job.template_json).Dump();
      pod_set.topology_request = TopologyRequest(job);
      workload.pod_sets.push_back(std::move(pod_set));
    }
    return workload;
  }
  [[nodiscard]] bool Matches(const api::Workload& workload) const override {
    // Until it is restored a job has what its start has added, whatever became of its quota.
    const bool may_be_started = workload.QuotaReserved() || HasLeftovers();
    return workload.pod_sets.size() == jobs_.size() &&
           std::equal(jobs_.begin(), jobs_.end(), workload.pod_sets.begin(),
                      [&](const ReplicatedJob& job, const api::PodSet& pod_set) {
                        return pod_set.name == job.pod_set &&
                               pod_set.count == job.replicas * job.pods_each &&
                               SamePods(ParseTemplate(pod_set.template_json),
                                        ParseTemplate(job.template_json), may_be_started);
                      });
  }

  [[nodiscard]] Result<std::vector<api::WriteRequest>> Start(
      const api::Workload& workload, const std::vector<StartInfo>& infos) const override {
    std::vector<Json> patches(jobs_.size());
    for (size_t i = 0; i < jobs_.size(); ++i) {
      const auto info = std::find_if(infos.begin(), infos.end(), [&](const StartInfo& entry) {
        return entry.pod_set == jobs_[i].pod_set;
      });
      if (info == infos.end()) {
        continue;
      }
      StartInfo mutable_parts = *info;
      mutable_parts.preferred_nodes.clear();  // affinity can't be changed in a JobSet
      TRY_ASSIGN(patches[i], TemplateAdditions(RecordedOf(workload, jobs_[i]),
                                               ParseTemplate(jobs_[i].template_json), mutable_parts,
                                               "spec.replicatedJobs[" + std::to_string(i) +
                                                   "].template.spec.template"));
    }
    Json spec = Json::Obj({{"suspend", false}});
    if (Json list = Patched(patches); !list.IsNull()) {
      spec.Set("replicatedJobs", std::move(list));
    }
    return std::vector<api::WriteRequest>{JobPatch(kind, meta, std::move(spec))};
  }
  // Its templates may be put back with the suspension: the Jobs that run have copies of their own.
  [[nodiscard]] std::vector<api::WriteRequest> Stop(const StopReason& why) const override {
    Json spec = Json::Obj({{"suspend", true}});
    if (why.started_as != nullptr) {
      if (Json list = Restored(*why.started_as); !list.IsNull()) {
        spec.Set("replicatedJobs", std::move(list));
      }
    }
    return {JobPatch(kind, meta, std::move(spec))};
  }
  [[nodiscard]] std::vector<api::WriteRequest> Restore(
      const api::Workload& workload) const override {
    Json list = Restored(workload);
    if (list.IsNull()) {
      return {};
    }
    return {JobPatch(kind, meta, Json::Obj({{"replicatedJobs", std::move(list)}}))};
  }
  [[nodiscard]] bool HasLeftovers() const override {
    return std::any_of(jobs_.begin(), jobs_.end(), [](const ReplicatedJob& job) {
      return TemplateHasLeftovers(ParseTemplate(job.template_json));
    });
  }

  // Of replicated jobs that wait for each other no group would ever be complete.
  [[nodiscard]] bool JoinsGroups() const override { return !in_order_; }
  [[nodiscard]] std::string GroupLabel() const override {
    return jobs_.empty()
               ? ""
               : ParseTemplate(
                     jobs_.front().template_json)["metadata"]["labels"][names::kPodGroupLabel]
                     .AsString();
  }
  // Its pods are made by Jobs of its own.
  [[nodiscard]] std::string CreatorUid() const override { return ""; }

 private:
  // Suspended, nothing runs, and its controller has seen that.
  [[nodiscard]] bool Wound() const {
    const api::Condition* suspended = api::FindCondition(conditions_, "Suspended");
    return suspend_ && !Active(kNoTime) && (suspended == nullptr || suspended->status == "True");
  }
  [[nodiscard]] const ReplicatedJob* Find(const std::string& pod_set) const {
    const auto found = std::find_if(jobs_.begin(), jobs_.end(), [&](const ReplicatedJob& job) {
      return job.pod_set == pod_set;
    });
    return found != jobs_.end() ? &*found : nullptr;
  }
  // The template as the Workload has it; null when it has none.
  static Json RecordedOf(const api::Workload& workload, const ReplicatedJob& job) {
    for (const api::PodSet& pod_set : workload.pod_sets) {
      if (pod_set.name == job.pod_set) {
        return ParseTemplate(pod_set.template_json);
      }
    }
    return {};
  }
  // spec.replicatedJobs as the Workload has its templates; null when that is what it is.
  [[nodiscard]] Json Restored(const api::Workload& workload) const {
    std::vector<Json> patches(jobs_.size());
    for (size_t i = 0; i < jobs_.size(); ++i) {
      const Json recorded = RecordedOf(workload, jobs_[i]);
      if (!recorded.IsNull()) {
        patches[i] = TemplateRestore(recorded, ParseTemplate(jobs_[i].template_json));
      }
    }
    Json list = Patched(patches);
    if (!list.IsNull()) {
      for (Json& job : list.MutableArray()) {
        DropEmpty(job.At("template").At("spec").At("template"));
      }
    }
    return list;
  }
  // The server keeps the empty maps of a custom resource, which nobody has submitted.
  static void DropEmpty(Json& pods) {
    constexpr std::pair<std::string_view, std::string_view> kParts[] = {
        {"metadata", "labels"}, {"metadata", "annotations"}, {"spec", "nodeSelector"}};
    for (const auto& [part, field] : kParts) {
      if (pods[part][field].IsObject() && pods[part][field].AsObject().empty()) {
        pods.At(part).Erase(field);
      }
    }
  }
  // spec.replicatedJobs with its pod templates patched; null when no patch changes anything. The
  // list is written whole: a merge patch knows no other way.
  [[nodiscard]] Json Patched(const std::vector<Json>& patches) const {
    if (std::all_of(patches.begin(), patches.end(),
                    [](const Json& patch) { return patch.AsObject().empty(); })) {
      return {};
    }
    auto list = Json::Parse(replicated_json_);
    for (size_t i = 0; list && i < patches.size(); ++i) {
      if (!patches[i].AsObject().empty()) {
        ApplyMergePatch(list->MutableArray()[i].At("template").At("spec").At("template"),
                        patches[i]);
      }
    }
    return list ? std::move(*list) : Json();
  }

  api::ObjectMeta meta_;
  bool suspend_ = false;
  bool in_order_ = false;
  std::string managed_by_;
  std::string replicated_json_;
  std::vector<ReplicatedJob> jobs_;
  api::Conditions conditions_;
  int32_t restarts_ = 0;
};

class Kind final : public JobKind {
 public:
  [[nodiscard]] std::string_view Framework() const override { return "jobset.x-k8s.io/jobset"; }
  [[nodiscard]] const api::Resource& Resource() const override {
    static const api::Resource kResource{"jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", true};
    return kResource;
  }
  [[nodiscard]] bool Optional() const override { return true; }
  [[nodiscard]] Result<std::shared_ptr<const QueuedJob>> Decode(const Json& object) const override {
    TRY(api::ReadMeta(object, "JobSet"));
    return std::shared_ptr<const QueuedJob>(std::make_shared<JobSet>(object));
  }
  [[nodiscard]] std::optional<PodMember> MemberOf(const WatchedPod& pod) const override {
    const std::string_view uid = pod.meta.Label(kUidLabel);
    const api::OwnerReference* owner = pod.meta.Controller();
    if (uid.empty() || owner == nullptr || owner->kind != "Job") {
      return std::nullopt;
    }
    return PodMember{std::string(uid), PodSetName(std::string(pod.meta.Label(kReplicatedJobLabel))),
                     this};
  }
};

}  // namespace

const JobKind& JobSetKind() {
  static const Kind kKind;
  return kKind;
}

}  // namespace tutti::reconciler
