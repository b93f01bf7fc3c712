// SPDX-License-Identifier: Apache-2.0
#include "reconciler/testing/cluster.h"

#include <algorithm>
#include <set>
#include <utility>

#include <gtest/gtest.h>

#include "base/names.h"
#include "base/slice_names.h"
#include "reconciler/testing/objects.h"

namespace tutti::reconciler::testing {

using api::Kind;
using api::ResourceOf;

Cluster::Cluster(Options options, uint64_t seed)
    : options_(std::move(options)), random_(seed), now_(*ParseTime("2026-11-30T09:00:00Z")) {
  server_.SetNow(now_);
  server_.Subscribe(
      [this](const kube::FakeApiServer::Event& event) { undelivered_.push_back(event); });
  // The chart's policies: queued Jobs start held, and only the controller releases them.
  server_.AddAdmission([](const api::WriteRequest& request, std::string_view who,
                          const Json& old_object, Json& object) -> Status {
    if (request.resource.kind != "Job" || !request.subresource.empty() ||
        object["metadata"]["labels"][names::kQueueNameLabel].AsString().empty()) {
      return {};
    }
    if (old_object.IsNull()) {
      object.At("spec").Set("suspend", true);
      if (object["metadata"]["annotations"][names::kElasticJobAnnotation].AsString() == "true") {
        object.At("spec")
            .At("template")
            .At("spec")
            .Set("schedulingGates", Json::Arr({Json::Obj({{"name", names::kElasticGate}})}));
      }
    } else if (who == "user" && old_object["spec"]["suspend"].AsBool()) {
      object.At("spec").Set("suspend", true);
    }
    return {};
  });
  // The API server's rule for a Job's template, and its labels.
  server_.AddAdmission([](const api::WriteRequest& request, std::string_view,
                          const Json& old_object, Json& object) -> Status {
    if (request.resource.kind != "Job" || !request.subresource.empty()) {
      return {};
    }
    if (old_object.IsNull()) {
      object.At("spec")
          .At("template")
          .At("metadata")
          .At("labels")
          .Set("batch.kubernetes.io/job-name", object["metadata"]["name"]);
      return {};
    }
    if (!(old_object["spec"]["template"] == object["spec"]["template"])) {
      const Json& status = old_object["status"];
      bool suspended = status["startTime"].IsNull();
      for (const Json& condition : status["conditions"].AsArray()) {
        suspended = suspended || (condition["type"].AsString() == "Suspended" &&
                                  condition["status"].AsString() == "True");
      }
      if (!old_object["spec"]["suspend"].AsBool() || !suspended || status["active"].AsInt() > 0) {
        return Fail(ErrorCode::kInvalid, "spec.template: field is immutable");
      }
    }
    return {};
  });
  // Fields of a gate that is off are dropped without a word.
  server_.AddAdmission([this](const api::WriteRequest& request, std::string_view, const Json&,
                              Json& object) -> Status {
    if (request.resource.kind == "PodGroup" && !claim_server_) {
      object.At("spec").Erase("resourceClaims");
    }
    return {};
  });
  core_ = std::make_unique<Core>(options_);
  core_->OnSynced();
}

Cluster::~Cluster() = default;

void Cluster::AddNode(const std::string& name, int64_t cpu, int64_t gpus) {
  Json allocatable = Json::Obj({{"cpu", std::to_string(cpu)}, {"pods", "110"}});
  if (gpus > 0) {
    allocatable.Set("nvidia.com/gpu", std::to_string(gpus));
  }
  EXPECT_TRUE(server_.Create(
      ResourceOf(Kind::kNode),
      Json::Obj(
          {{"metadata",
            Json::Obj({{"name", name}, {"labels", Json::Obj({{"kubernetes.io/hostname", name}})}})},
           {"status", Json::Obj({{"allocatable", std::move(allocatable)}})}})));
}

void Cluster::RemoveNode(const std::string& name) {
  for (const Json& pod : server_.List(ResourceOf(Kind::kPod))) {
    if (pod["spec"]["nodeName"].AsString() == name) {
      KillPod(KeyOf(pod));
    }
  }
  EXPECT_TRUE(server_.Delete(ResourceOf(Kind::kNode), {"", name}));
}

void Cluster::Cordon(const std::string& name, bool cordoned) {
  EXPECT_TRUE(server_.MergePatch(ResourceOf(Kind::kNode), {"", name},
                                 Json::Obj({{"spec", Json::Obj({{"unschedulable", cordoned}})}})));
}

void Cluster::AddNamespace(const std::string& name) {
  EXPECT_TRUE(server_.Create(
      ResourceOf(Kind::kNamespace),
      Json::Obj({{"metadata",
                  Json::Obj({{"name", name},
                             {"labels", Json::Obj({{"kubernetes.io/metadata.name", name}})}})}})));
}

void Cluster::AddCheck(const std::string& name, bool active) {
  EXPECT_TRUE(server_.Create(
      ResourceOf(Kind::kAdmissionCheck),
      Json::Obj({{"metadata", Json::Obj({{"name", name}})},
                 {"spec", Json::Obj({{"controllerName", "example.com/checks"}})},
                 {"status", Json::Obj({{"conditions",
                                        Json::Arr({Json::Obj({{"type", "Active"},
                                                              {"status", active ? "True" : "False"},
                                                              {"reason", "Test"},
                                                              {"message", ""}})})}})}})));
}

void Cluster::SetCheck(const std::string& ns, const std::string& job, const std::string& check,
                       const std::string& state, const std::string& message, const Json& more) {
  const Json workload = WorkloadOf(ns, job);
  Json list = workload["status"]["admissionChecks"];
  bool found = false;
  for (Json& entry : list.MutableArray()) {
    if (entry["name"].AsString() != check) {
      continue;
    }
    found = true;
    entry.Set("state", state);
    entry.Set("message", message);
    entry.Set("lastTransitionTime", FormatTime(now_));
    for (const auto& [field, value] : more.AsObject()) {
      entry.Set(field, value);
    }
  }
  ASSERT_TRUE(found) << check << " is not in " << workload["status"].Dump();
  EXPECT_TRUE(server_.MergePatch(
      ResourceOf(Kind::kWorkload), KeyOf(workload),
      Json::Obj({{"status", Json::Obj({{"admissionChecks", std::move(list)}})}}), "status"));
}

void Cluster::PatchSpec(Kind kind, const api::ObjectKey& key, Json spec) {
  EXPECT_TRUE(server_.MergePatch(ResourceOf(kind), key, Json::Obj({{"spec", std::move(spec)}})));
}

void Cluster::AddFlavor(const std::string& name, const api::StringMap& labels) {
  EXPECT_TRUE(
      server_.Create(ResourceOf(Kind::kResourceFlavor),
                     Json::Obj({{"metadata", Json::Obj({{"name", name}})},
                                {"spec", Json::Obj({{"nodeLabels", api::ToJson(labels)}})}})));
}

void Cluster::AddQueue(const std::string& cluster_queue, const std::string& ns,
                       const std::vector<std::pair<std::string, std::string>>& quota,
                       const std::string& cohort, bool strict) {
  Json covered = Json::Arr();
  Json resources = Json::Arr();
  for (const auto& [resource, nominal] : quota) {
    covered.Push(resource);
    resources.Push(Json::Obj({{"name", resource}, {"nominalQuota", nominal}}));
    quota_[cluster_queue][resource] = api::ToAmount(resource, *api::Quantity::Parse(nominal));
  }
  cohort_of_[cluster_queue] = cohort;
  Json spec = Json::Obj(
      {{"namespaceSelector", Json::Obj()},
       {"queueingStrategy", strict ? "StrictFIFO" : "BestEffortFIFO"},
       {"resourceGroups",
        Json::Arr({Json::Obj(
            {{"coveredResources", std::move(covered)},
             {"flavors", Json::Arr({Json::Obj(
                             {{"name", "default"}, {"resources", std::move(resources)}})})}})})}});
  if (!cohort.empty()) {
    spec.Set("cohortName", cohort);
  }
  EXPECT_TRUE(server_.Create(
      ResourceOf(Kind::kClusterQueue),
      Json::Obj({{"metadata", Json::Obj({{"name", cluster_queue}})}, {"spec", std::move(spec)}})));
  EXPECT_TRUE(
      server_.Create(ResourceOf(Kind::kLocalQueue),
                     Json::Obj({{"metadata", Json::Obj({{"name", "main"}, {"namespace", ns}})},
                                {"spec", Json::Obj({{"clusterQueue", cluster_queue}})}})));
}

void Cluster::SetQuota(const std::string& cluster_queue, const std::string& resource,
                       const std::string& nominal) {
  auto queue = server_.Get(ResourceOf(Kind::kClusterQueue), {"", cluster_queue});
  ASSERT_TRUE(queue);
  Json groups = (*queue)["spec"]["resourceGroups"];
  for (Json& entry :
       groups.MutableArray()[0].At("flavors").MutableArray()[0].At("resources").MutableArray()) {
    if (entry["name"].AsString() == resource) {
      entry.Set("nominalQuota", nominal);
    }
  }
  quota_[cluster_queue][resource] = api::ToAmount(resource, *api::Quantity::Parse(nominal));
  EXPECT_TRUE(server_.MergePatch(
      ResourceOf(Kind::kClusterQueue), {"", cluster_queue},
      Json::Obj({{"spec", Json::Obj({{"resourceGroups", std::move(groups)}})}})));
}

void Cluster::Submit(const JobSpec& job) {
  Json requests = Json::Obj({{"cpu", std::to_string(job.cpu_milli) + "m"}});
  if (job.gpus > 0) {
    requests.Set("nvidia.com/gpu", std::to_string(job.gpus));
  }
  Json labels = api::ToJson(job.labels);
  if (!job.queue.empty()) {
    labels.Set(names::kQueueNameLabel, job.queue);
  }
  if (!job.priority_class.empty()) {
    labels.Set(names::kPriorityClassLabel, job.priority_class);
  }
  Json pod_spec = Json::Obj(
      {{"containers",
        Json::Arr({Json::Obj({{"name", "main"},
                              {"image", "x"},
                              {"resources", Json::Obj({{"requests", std::move(requests)}})}})})}});
  if (!job.claim_template.empty()) {
    pod_spec.Set("resourceClaims",
                 Json::Arr({Json::Obj(
                     {{"name", "gpu"}, {"resourceClaimTemplateName", job.claim_template}})}));
  }
  if (!job.volume_claim.empty()) {
    pod_spec.Set("volumes",
                 Json::Arr({Json::Obj(
                     {{"name", "data"},
                      {"persistentVolumeClaim", Json::Obj({{"claimName", job.volume_claim}})}})}));
  }
  if (!job.preset_group.empty()) {
    pod_spec.Set("schedulingGroup", Json::Obj({{"podGroupName", job.preset_group}}));
  }
  if (!job.claims.empty()) {
    pod_spec.Set("resourceClaims", Json::Parse(job.claims).value());
  }
  Json metadata =
      Json::Obj({{"name", job.name}, {"namespace", job.ns}, {"labels", std::move(labels)}});
  Json annotations = api::ToJson(job.annotations);
  if (!job.gang_claims.empty()) {
    annotations.Set(names::kGangClaimsAnnotation, job.gang_claims);
  }
  if (!annotations.AsObject().empty()) {
    metadata.Set("annotations", std::move(annotations));
  }
  Json spec = Json::Obj({{"parallelism", job.pods},
                         {"completions", job.completions > 0 ? job.completions : job.pods},
                         {"template", Json::Obj({{"spec", std::move(pod_spec)}})}});
  if (job.indexed) {
    spec.Set("completionMode", "Indexed");
  }
  auto created =
      server_.Create(ResourceOf(Kind::kJob),
                     Json::Obj({{"metadata", std::move(metadata)}, {"spec", std::move(spec)}}));
  ASSERT_TRUE(created) << created.error().message;
  run_time_[(*created)["metadata"]["uid"].AsString()] = job.runs_for;
}

void Cluster::DeleteJob(const api::ObjectKey& key) {
  if (server_.Get(ResourceOf(Kind::kJob), key)) {
    EXPECT_TRUE(server_.Delete(ResourceOf(Kind::kJob), key));
    CollectGarbage();
  }
}

void Cluster::CollectGarbage() {
  std::set<std::string> jobs;
  for (const Json& job : server_.List(ResourceOf(Kind::kJob))) {
    jobs.insert(job["metadata"]["uid"].AsString());
  }
  for (const api::Resource& resource :
       {ResourceOf(Kind::kPod), GroupResource(), ResourceOf(Kind::kWorkload)}) {
    for (const Json& object : server_.List(resource)) {
      if (!object["metadata"]["deletionTimestamp"].IsNull()) {
        continue;
      }
      for (const Json& owner : object["metadata"]["ownerReferences"].AsArray()) {
        const std::string& uid = owner["uid"].AsString();
        if (run_time_.contains(uid) && !jobs.contains(uid)) {  // was submitted and is gone
          EXPECT_TRUE(server_.Delete(resource, KeyOf(object)));
          break;
        }
      }
    }
  }
}

void Cluster::KillPod(const api::ObjectKey& key) {
  const auto pod = server_.Get(ResourceOf(Kind::kPod), key);
  if (pod && (*pod)["metadata"]["deletionTimestamp"].IsNull()) {
    if ((*pod)["spec"]["nodeName"].AsString().empty() &&
        !(*pod)["metadata"]["finalizers"].AsArray().empty()) {
      EXPECT_TRUE(
          server_.MergePatch(ResourceOf(Kind::kPod), key,
                             Json::Obj({{"metadata", Json::Obj({{"finalizers", Json()}})}})));
    }
    EXPECT_TRUE(server_.Delete(ResourceOf(Kind::kPod), key));
  }
}

void Cluster::SetStatus(const api::Resource& resource, const api::ObjectKey& key, Json status) {
  const auto current = server_.Get(resource, key);
  if (current && Has((*current)["status"], status)) {
    return;
  }
  EXPECT_TRUE(
      server_.MergePatch(resource, key, Json::Obj({{"status", std::move(status)}}), "status"));
}

void Cluster::Feed(const kube::FakeApiServer::Event& event) {
  const bool deleted = event.type == "DELETED";
  const auto give = [&](auto decoded, auto handler) {
    ASSERT_TRUE(decoded) << decoded.error().message;
    using T = typename decltype(decoded)::value_type;
    (*core_.*handler)(std::make_shared<const T>(std::move(*decoded)), deleted);
  };
  const Json& object = *event.object;
  const std::string& kind = event.resource.kind;
  if (kind == "Workload" && event.resource.group == GroupResource().group) {
    return;  // nobody watches the Job controller's
  }
  for (const JobKind* job_kind : options_.job_kinds) {
    if (!job_kind->MadeOfPods() && kind == job_kind->Resource().kind &&
        event.resource.group == job_kind->Resource().group) {
      auto job = job_kind->Decode(object);
      ASSERT_TRUE(job) << job.error().message;
      core_->OnJob(std::move(*job), deleted);
      return;
    }
  }
  if (kind == "Pod") {
    give(WatchedPodFromJson(object), &Core::OnPod);
  } else if (kind == "Node") {
    give(api::NodeFromJson(object), &Core::OnNode);
  } else if (kind == "Namespace") {
    give(api::NamespaceFromJson(object), &Core::OnNamespace);
  } else if (kind == "PodGroup") {
    give(api::PodGroupFromJson(object), &Core::OnPodGroup);
  } else if (kind == "Workload") {
    give(api::WorkloadFromJson(object), &Core::OnWorkload);
  } else if (kind == "ClusterQueue") {
    give(api::ClusterQueueFromJson(object), &Core::OnClusterQueue);
  } else if (kind == "Cohort") {
    give(api::CohortFromJson(object), &Core::OnCohort);
  } else if (kind == "LocalQueue") {
    give(api::LocalQueueFromJson(object), &Core::OnLocalQueue);
  } else if (kind == "ResourceFlavor") {
    give(api::ResourceFlavorFromJson(object), &Core::OnFlavor);
  } else if (kind == "AdmissionCheck") {
    give(api::AdmissionCheckFromJson(object), &Core::OnAdmissionCheck);
  } else if (kind == "WorkloadPriorityClass") {
    give(api::WorkloadPriorityClassFromJson(object), &Core::OnWorkloadPriorityClass);
  } else if (kind == "ProvisioningRequestConfig") {
    give(api::ProvisioningConfigFromJson(object), &Core::OnProvisioningConfig);
  } else if (kind == "ProvisioningRequest") {
    give(api::ProvisioningRequestFromJson(object), &Core::OnProvisioningRequest);
  } else if (kind == "PodTemplate") {
    give(api::PodTemplateFromJson(object), &Core::OnPodTemplate);
  } else if (kind == "LimitRange") {
    give(api::LimitRangeFromJson(object), &Core::OnLimitRange);
  }
}

void Cluster::Deliver() {
  const auto events = std::exchange(undelivered_, {});
  for (const auto& event : events) {
    Feed(event);
  }
}

Status Cluster::Fault(bool before) {
  if (faults_ <= 0) {
    return {};
  }
  std::uniform_real_distribution<double> dice(0, 1);
  if (dice(random_) < faults_ / 2) {
    return Fail(ErrorCode::kUnavailable,
                before ? "connection refused" : "connection lost after the request was sent");
  }
  return {};
}

void Cluster::StepController() {
  if (!controller_on_) {
    return;
  }
  Deliver();
  for (int turn = 0; turn < 100; ++turn) {
    Output output = core_->Step(now_);
    for (HistoryRow& row : output.history) {
      history_.push_back(std::move(row));
    }
    for (EventRecord& event : output.events) {
      events_.push_back(std::move(event));
    }
    for (const MetricSample& sample : output.metrics) {
      if (sample.op == MetricSample::Op::kAdd) {
        counted_[sample.name] += sample.value;
      } else if (sample.op == MetricSample::Op::kObserve) {
        ++observed_[sample.name];
      }
    }
    EXPECT_TRUE(output.bugs.empty()) << output.bugs.front();
    for (const Effect& effect : output.effects) {
      std::vector<Json> answers;
      std::optional<Error> error;
      for (const api::WriteRequest& write : effect.writes) {
        if (Status fault = Fault(/*before=*/true); !fault) {
          error = fault.error();
          break;
        }
        ++writes_;
        Result<Json> answer = server_.Do(write);
        if (Status fault = Fault(/*before=*/false); !fault) {
          error = fault.error();
          break;
        }
        if (!answer) {
          error = answer.error();
          break;
        }
        answers.push_back(std::move(*answer));
      }
      core_->OnOutcome(effect.token, answers, error);
    }
    for (const Read& read : output.reads) {
      core_->OnRead(read.token, Answer(read.path));
    }
    if (!watch_lag_) {
      Deliver();
    }
    if (output.effects.empty() && output.reads.empty() && !core_->Busy()) {
      break;
    }
  }
  const std::string problem = core_->SanityCheck();
  EXPECT_TRUE(problem.empty()) << problem;
}

void Cluster::Tick(Duration step) {
  now_ += step;
  server_.SetNow(now_);
  if (garbage_collector_on_) {
    CollectGarbage();
  }
  RunKubelets();
  if (job_controller_on_) {
    RunJobController();
  }
  RunClaimController();
  RunScheduler();
  StepController();
}

void Cluster::Run(Duration duration, Duration step) {
  for (const Time end = now_ + duration; now_ < end;) {
    Tick(step);
  }
}

bool Cluster::RunUntilDone(Duration limit) {
  for (const Time end = now_ + limit; now_ < end;) {
    Tick();
    const auto jobs = server_.List(ResourceOf(Kind::kJob));
    if (std::all_of(jobs.begin(), jobs.end(), [](const Json& job) { return JobDone(job); })) {
      return true;
    }
  }
  return false;
}

void Cluster::Restart() {
  core_ = std::make_unique<Core>(options_);
  undelivered_.clear();
  for (const api::Resource& resource :
       {ResourceOf(Kind::kNamespace), ResourceOf(Kind::kNode), ResourceOf(Kind::kAdmissionCheck),
        api::ProvisioningConfigResource(), ResourceOf(Kind::kResourceFlavor),
        ResourceOf(Kind::kClusterQueue), ResourceOf(Kind::kLocalQueue),
        ResourceOf(Kind::kWorkloadPriorityClass), ResourceOf(Kind::kWorkload),
        ResourceOf(Kind::kJob), ResourceOf(Kind::kPod), GroupResource(),
        api::ProvisioningRequestResource(), api::PodTemplateResource()}) {
    for (const Json& object : server_.List(resource)) {
      kube::FakeApiServer::Event event;
      event.type = "ADDED";
      event.resource = resource;
      event.key = KeyOf(object);
      event.object = std::make_shared<const Json>(object);
      Feed(event);
    }
  }
  if (provisioning_.has_value()) {
    core_->SetProvisioning(*provisioning_);
  }
  core_->OnSynced();
}

void Cluster::SetProvisioning(bool served) {
  provisioning_ = served;
  core_->SetProvisioning(served);
}

Json Cluster::Job(const std::string& ns, const std::string& name) const {
  auto job = server_.Get(ResourceOf(Kind::kJob), {ns, name});
  return job ? *job : Json();
}

Json Cluster::WorkloadOf(const std::string& ns, const std::string& job) const {
  const std::string uid = Job(ns, job)["metadata"]["uid"].AsString();
  for (const Json& workload : server_.List(ResourceOf(Kind::kWorkload), ns)) {
    if (JobUidOf(workload) == uid) {
      return workload;
    }
  }
  return {};
}

std::vector<Json> Cluster::PodsOf(const std::string& ns, const std::string& job) const {
  const std::string uid = Job(ns, job)["metadata"]["uid"].AsString();
  std::vector<Json> pods;
  for (const Json& pod : server_.List(ResourceOf(Kind::kPod), ns)) {
    if (JobUidOf(pod) == uid) {
      pods.push_back(pod);
    }
  }
  return pods;
}

bool Cluster::Suspended(const std::string& ns, const std::string& job) const {
  return Job(ns, job)["spec"]["suspend"].AsBool();
}

bool Cluster::Finished(const std::string& ns, const std::string& job) const {
  return JobDone(Job(ns, job));
}

std::string Cluster::Condition(const Json& object, std::string_view type,
                               std::string_view field) const {
  for (const Json& condition : object["status"]["conditions"].AsArray()) {
    if (condition["type"].AsString() == type) {
      return condition[field].AsString();
    }
  }
  return "";
}

double Cluster::Counted(const std::string& metric) const {
  const auto found = counted_.find(metric);
  return found != counted_.end() ? found->second : 0;
}

int Cluster::Observed(const std::string& metric) const {
  const auto found = observed_.find(metric);
  return found != observed_.end() ? found->second : 0;
}

std::string Cluster::Check() const {
  // Quota as an outsider sees it: requests of released jobs with active pods, per cohort.
  std::map<std::string, std::map<std::string, int64_t>> used;
  std::map<std::string, std::map<std::string, int64_t>> limit;
  const auto group_of = [&](const std::string& queue) {
    const auto cohort = cohort_of_.find(queue);
    return cohort == cohort_of_.end() || cohort->second.empty() ? "queue " + queue
                                                                : "cohort " + cohort->second;
  };
  for (const auto& [queue, resources] : quota_) {
    for (const auto& [resource, nominal] : resources) {
      limit[group_of(queue)][resource] += nominal;
    }
  }
  std::map<std::string, std::string> queue_of_ns;
  for (const Json& local : server_.List(ResourceOf(Kind::kLocalQueue))) {
    queue_of_ns[local["metadata"]["namespace"].AsString()] =
        local["spec"]["clusterQueue"].AsString();
  }
  std::map<std::string, std::map<std::string, int64_t>> on_node;
  for (const Json& pod : server_.List(ResourceOf(Kind::kPod))) {
    if (Terminal(pod) || !pod["metadata"]["deletionTimestamp"].IsNull() ||
        !pod["spec"]["schedulingGates"].AsArray().empty()) {
      continue;  // quota is free when no pod is active
    }
    const std::string& ns = pod["metadata"]["namespace"].AsString();
    for (const char* resource : {"cpu", "nvidia.com/gpu"}) {
      if (quota_.contains(queue_of_ns[ns])) {
        used[group_of(queue_of_ns[ns])][resource] += RequestOf(pod, resource);
      }
    }
  }
  for (const auto& [group, resources] : used) {
    for (const auto& [resource, amount] : resources) {
      const auto& limits = limit[group];
      const auto allowed = limits.find(resource);
      if (allowed != limits.end() && amount > allowed->second) {
        return group + " uses " + std::to_string(amount) + " of " + resource + ", allowed " +
               std::to_string(allowed->second);
      }
    }
  }
  return core_->SanityCheck();
}

}  // namespace tutti::reconciler::testing
