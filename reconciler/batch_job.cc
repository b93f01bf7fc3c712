// SPDX-License-Identifier: Apache-2.0
#include "reconciler/batch_job.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/names.h"
#include "base/slice_names.h"
#include "reconciler/pod_template.h"

namespace tutti::reconciler {
namespace {

constexpr std::string_view kCompletionsFollowAnnotation =
    "kueue.x-k8s.io/job-completions-equal-parallelism";

// With the annotation a Job's completions follow its parallelism.
void SetParallelism(const api::Job& job, int32_t parallelism, Json& spec) {
  spec.Set("parallelism", parallelism);
  const std::string_view follow = job.meta.Annotation(kCompletionsFollowAnnotation);
  if (follow == "true" || follow == "True" || follow == "TRUE" || follow == "t" || follow == "T" ||
      follow == "1") {
    spec.Set("completions", parallelism);
  }
}

// Until it is restored a job has what its start has added, whatever became of its quota.
bool IsStarted(const Json& pod_template) {
  return pod_template["metadata"]["labels"].Has(names::kPodSetLabel);
}

}  // namespace

Result<api::Workload> WorkloadFor(const api::Job& job, const Priority& priority) {
  TRY_ASSIGN(api::Workload workload, WorkloadWithoutPods(BatchJobKind(), job.meta));
  api::PodSet pod_set;
  pod_set.count = job.PodCount();
  TRY_ASSIGN(pod_set.min_count,
             PositiveInt(job.meta.Annotation(names::kMinParallelismAnnotation),
                         "metadata.annotations[kueue.x-k8s.io/job-min-parallelism]"));
  if (pod_set.min_count.has_value() && *pod_set.min_count >= pod_set.count) {
    return Fail(ErrorCode::kInvalid,
                "metadata.annotations[kueue.x-k8s.io/job-min-parallelism] must be less than the "
                "number of pods (" +
                    std::to_string(pod_set.count) + ")");
  }
  pod_set.template_json = SubmittedTemplate(job.template_json).Dump();
  workload.pod_sets.push_back(std::move(pod_set));
  workload.priority = priority.value;
  workload.priority_class = priority.ref;
  return workload;
}

bool EquivalentButCount(const api::Job& job, const api::Workload& workload) {
  if (workload.pod_sets.size() != 1) {
    return false;
  }
  const auto limit = PositiveInt(job.meta.Label(names::kMaxExecTimeLabel), "");
  if (limit && *limit != workload.max_execution_seconds) {
    return false;
  }
  const api::PodSet& pod_set = workload.pod_sets.front();
  const auto minimum = PositiveInt(job.meta.Annotation(names::kMinParallelismAnnotation), "");
  if (minimum && *minimum != pod_set.min_count) {
    return false;
  }
  const bool admitted = workload.QuotaReserved();
  const Json current = ParseTemplate(job.template_json);
  return SamePods(ParseTemplate(pod_set.template_json), current,
                  /*may_be_started=*/admitted || IsStarted(current));
}

bool Equivalent(const api::Job& job, const api::Workload& workload) {
  if (!EquivalentButCount(job, workload)) {
    return false;
  }
  const api::PodSet& pod_set = workload.pod_sets.front();
  return job.PodCount() == pod_set.count ||
         (pod_set.min_count.has_value() && job.PodCount() <= pod_set.count &&
          IsStarted(ParseTemplate(job.template_json)));
}

Result<api::WriteRequest> StartPatch(const api::Job& job, const api::Workload& workload,
                                     const StartInfo& info) {
  const Json recorded =
      workload.pod_sets.empty() ? Json() : ParseTemplate(workload.pod_sets.front().template_json);
  TRY_ASSIGN(Json pod_template,
             TemplateAdditions(recorded, ParseTemplate(job.template_json), info, "spec.template"));
  Json spec = Json::Obj({{"suspend", false}});
  if (info.parallelism.has_value() && *info.parallelism != job.parallelism) {
    SetParallelism(job, *info.parallelism, spec);
  }
  if (!pod_template.AsObject().empty()) {
    spec.Set("template", std::move(pod_template));
  }
  return JobPatch(BatchJobKind(), job.meta, std::move(spec));
}

api::WriteRequest SuspendPatch(const api::Job& job) {
  return JobPatch(BatchJobKind(), job.meta, Json::Obj({{"suspend", true}}));
}

api::WriteRequest ResetStartPatch(const api::Job& job) {
  api::WriteRequest write = JobPatch(BatchJobKind(), job.meta, Json());
  write.subresource = "status";
  write.body.Erase("spec");
  write.body.Set("status", Json::Obj({{"startTime", Json()}}));
  return write;
}

bool RestoreWindowOpen(const api::Job& job) {
  return job.suspend && job.active == 0 &&
         (!job.start_time.has_value() || api::IsTrue(job.conditions, "Suspended"));
}

std::optional<api::WriteRequest> RestorePatch(const api::Job& job, const api::Workload& workload) {
  if (workload.pod_sets.size() != 1) {
    return std::nullopt;
  }
  Json patch = TemplateRestore(ParseTemplate(workload.pod_sets.front().template_json),
                               ParseTemplate(job.template_json));
  Json spec = Json::Obj();
  if (!patch.AsObject().empty()) {
    spec.Set("template", std::move(patch));
  }
  // Partial admission lowered parallelism; give back what was asked for.
  const int32_t wanted = workload.pod_sets.front().count;
  if (workload.pod_sets.front().min_count.has_value() && job.PodCount() < wanted) {
    SetParallelism(job, wanted, spec);
  }
  if (spec.AsObject().empty()) {
    return std::nullopt;
  }
  return JobPatch(BatchJobKind(), job.meta, std::move(spec));
}

std::string GroupLabelOf(const api::Job& job) {
  return ParseTemplate(job.template_json)["metadata"]["labels"][names::kPodGroupLabel].AsString();
}

Result<std::vector<api::PodClaim>> GangClaimsOf(const api::Job& job) {
  constexpr std::string_view kWhere = "metadata.annotations[tutti.dev/gang-claims]: ";
  constexpr size_t kMaxClaims = 4;
  std::vector<api::PodClaim> shared;
  std::string_view text = job.meta.Annotation(names::kGangClaimsAnnotation);
  if (text.empty()) {
    return shared;
  }
  const auto fail = [&](const std::string& what) {
    return Fail(ErrorCode::kInvalid, std::string(kWhere) + what);
  };
  std::vector<std::string> wanted;
  for (size_t from = 0; from <= text.size();) {
    const size_t comma = std::min(text.find(',', from), text.size());
    std::string_view name = text.substr(from, comma - from);
    while (name.starts_with(' ')) {
      name.remove_prefix(1);
    }
    while (name.ends_with(' ')) {
      name.remove_suffix(1);
    }
    if (name.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end()) {
      return fail(name.empty() ? "an empty name between commas"
                               : "\"" + std::string(name) + "\" is named twice");
    }
    wanted.emplace_back(name);
    from = comma + 1;
  }
  if (wanted.size() > kMaxClaims) {
    return fail("at most 4 claims can be shared by a gang");
  }
  const Json parsed = ParseTemplate(job.template_json);
  if (!parsed["spec"]["schedulingGroup"]["podGroupName"].AsString().empty()) {
    return fail(
        "needs a group of the queue controller: remove the annotation, or "
        "spec.template.spec.schedulingGroup");
  }
  size_t index = 0;
  for (const Json& entry : parsed["spec"]["resourceClaims"].AsArray()) {
    const std::string& name = entry["name"].AsString();
    if (const auto it = std::find(wanted.begin(), wanted.end(), name); it != wanted.end()) {
      wanted.erase(it);
      shared.push_back({name, entry["resourceClaimName"].AsString(),
                        entry["resourceClaimTemplateName"].AsString()});
    } else if (!shared.empty()) {
      return Fail(ErrorCode::kInvalid,
                  "spec.template.spec.resourceClaims[" + std::to_string(index) + "]: \"" + name +
                      "\" belongs to one pod and must come before \"" + shared.front().name +
                      "\", which the gang shares (tutti.dev/gang-claims): kube-scheduler would "
                      "give each the devices of the other");
    }
    ++index;
  }
  if (!wanted.empty()) {
    return fail("\"" + wanted.front() + "\" is not in spec.template.spec.resourceClaims");
  }
  return shared;
}

namespace {

constexpr std::string_view kMainPodSet = "main";

class BatchJob final : public QueuedJob {
 public:
  explicit BatchJob(api::Job job) : QueuedJob(BatchJobKind(), job_.meta), job_(std::move(job)) {
    const std::string gate = "\"" + std::string(names::kElasticGate) + "\"";
    const bool says_so = meta.Annotation(names::kElasticJobAnnotation) == "true" &&
                         meta.Annotation(names::kMinParallelismAnnotation).empty();
    if (says_so || job_.template_json.find(gate) != std::string::npos) {
      const Json pod_spec = ParseTemplate(job_.template_json)["spec"];
      const Json::Array& gates = pod_spec["schedulingGates"].AsArray();
      slice_gate_ = std::any_of(gates.begin(), gates.end(), [](const Json& entry) {
        return entry["name"].AsString() == names::kElasticGate;
      });
      elastic_ = says_so && !pod_spec.Has("schedulingGroup");
    }
  }
  [[nodiscard]] bool MayBeQueued() const override {
    // A Job of another controller belongs to that controller: it is queued through its parent or
    // not at all. CronJobs are no queued kind: their Jobs are. The policies that hold Jobs say the
    // same.
    const api::OwnerReference* owner = meta.Controller();
    if (owner != nullptr &&
        !(owner->kind == "CronJob" && owner->api_version.starts_with("batch/"))) {
      return false;
    }
    return job_.managed_by.empty() || job_.managed_by == "kubernetes.io/job-controller";
  }
  [[nodiscard]] bool Suspended() const override { return job_.suspend; }
  [[nodiscard]] bool MayStart() const override { return RestoreWindowOpen(job_); }
  [[nodiscard]] bool Stopped(Time /*now*/) const override { return RestoreWindowOpen(job_); }
  [[nodiscard]] bool Active(Time /*now*/) const override { return job_.active > 0; }
  [[nodiscard]] bool Finished(bool* success, std::string* message) const override {
    return job_.Finished(success, message);
  }
  [[nodiscard]] std::optional<Time> StartedAt() const override { return job_.start_time; }
  [[nodiscard]] bool LostPods() const override { return job_.failed > 0; }
  [[nodiscard]] int32_t Remaining(const api::PodSet& pod_set) const override {
    // An elastic job may ask for more pods than this Workload of it has.
    return Elastic() ? std::min(job_.GangSize(), pod_set.count) : job_.GangSize();
  }
  [[nodiscard]] bool PodsReady(const std::vector<const api::Pod*>& /*pods*/) const override {
    return static_cast<int64_t>(job_.succeeded) + job_.ready + job_.uncounted_succeeded >=
           job_.PodCount();
  }
  [[nodiscard]] std::vector<std::pair<std::string, int32_t>> Reclaimable() const override {
    const int32_t count = job_.PodCount() - job_.GangSize();
    if (job_.parallelism <= 1 || !job_.completions.has_value() || count <= 0) {
      return {};
    }
    return {{std::string(kMainPodSet), count}};
  }

  [[nodiscard]] Result<api::Workload> Describe() const override { return WorkloadFor(job_, {}); }
  [[nodiscard]] bool Matches(const api::Workload& workload) const override {
    return Equivalent(job_, workload);
  }

  // Not where the Job names a group: then the API server keeps its parallelism as it is.
  [[nodiscard]] bool Elastic() const override { return elastic_; }
  [[nodiscard]] bool MatchesButCounts(const api::Workload& workload) const override {
    return EquivalentButCount(job_, workload);
  }
  [[nodiscard]] bool PodsHaveSliceGate() const override { return slice_gate_; }

  [[nodiscard]] Result<std::vector<api::WriteRequest>> Start(
      const api::Workload& workload, const std::vector<StartInfo>& infos) const override {
    TRY_ASSIGN(api::WriteRequest write,
               StartPatch(job_, workload, infos.empty() ? StartInfo{} : infos.front()));
    return std::vector<api::WriteRequest>{std::move(write)};
  }
  [[nodiscard]] std::vector<api::WriteRequest> Stop(const StopReason& /*why*/) const override {
    return {SuspendPatch(job_)};
  }
  [[nodiscard]] std::vector<api::WriteRequest> ResetStart() const override {
    return {ResetStartPatch(job_)};
  }
  [[nodiscard]] std::vector<api::WriteRequest> Restore(
      const api::Workload& workload) const override {
    std::vector<api::WriteRequest> writes;
    if (auto write = RestorePatch(job_, workload)) {
      writes.push_back(std::move(*write));
    }
    return writes;
  }
  [[nodiscard]] bool HasLeftovers() const override {
    return TemplateHasLeftovers(ParseTemplate(job_.template_json));
  }

  // The quorum of a group is fixed, the number of pods of an elastic job isn't.
  [[nodiscard]] bool JoinsGroups() const override { return !Elastic(); }
  [[nodiscard]] std::string GroupLabel() const override { return GroupLabelOf(job_); }
  [[nodiscard]] Result<std::vector<api::PodClaim>> GangClaims() const override {
    if (Elastic() && !meta.Annotation(names::kGangClaimsAnnotation).empty()) {
      return Fail(ErrorCode::kInvalid,
                  "metadata.annotations[tutti.dev/gang-claims]: an elastic Job has no PodGroup "
                  "whose claims its pods could share: take off this annotation or "
                  "kueue.x-k8s.io/elastic-job");
    }
    return GangClaimsOf(job_);
  }
  // The rule of the Job controller's feature gate WorkloadWithJob, without knowing the gate.
  [[nodiscard]] std::optional<Time> ControllersFirstSync() const override {
    if (!job_.indexed || job_.parallelism <= 1 || job_.completions != job_.parallelism) {
      return std::nullopt;
    }
    // Of a job that was started before, or whose condition has no time: long ago.
    const Time long_ago = kNoTime + std::chrono::microseconds(1);
    const api::Condition* synced = api::FindCondition(job_.conditions, "Suspended");
    if (synced != nullptr) {
      return std::max(synced->last_transition, long_ago);
    }
    return job_.start_time.has_value() ? long_ago : kNoTime;
  }

 private:
  api::Job job_;
  bool slice_gate_ = false;  // the pod template has the gate of elastic jobs
  bool elastic_ = false;
};

class BatchKind final : public JobKind {
 public:
  [[nodiscard]] std::string_view Framework() const override { return "batch/job"; }
  [[nodiscard]] const api::Resource& Resource() const override {
    static const api::Resource kResource = api::ResourceOf(api::Kind::kJob);
    return kResource;
  }
  [[nodiscard]] Result<std::shared_ptr<const QueuedJob>> Decode(const Json& object) const override {
    TRY_ASSIGN(api::Job job, api::JobFromJson(object));
    return MakeBatchJob(std::move(job));
  }
  [[nodiscard]] std::optional<PodMember> MemberOf(const WatchedPod& pod) const override {
    std::string uid = OwnerOf(pod.meta);
    if (uid.empty()) {
      return std::nullopt;
    }
    return PodMember{std::move(uid), std::string(kMainPodSet), this};
  }
};

}  // namespace

const JobKind& BatchJobKind() {
  static const BatchKind kKind;
  return kKind;
}

std::shared_ptr<const QueuedJob> MakeBatchJob(api::Job job) {
  return std::make_shared<const BatchJob>(std::move(job));
}

}  // namespace tutti::reconciler
