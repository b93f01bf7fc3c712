// SPDX-License-Identifier: Apache-2.0
#include "reconciler/testing/cluster.h"

#include <algorithm>
#include <set>
#include <utility>

#include <gtest/gtest.h>

#include "base/names.h"
#include "reconciler/gang.h"

namespace tutti::reconciler::testing {
namespace {

using api::Kind;
using api::ResourceOf;

api::Resource GroupResource() {
  return PodGroupResource(GangApi::kV1Alpha2);
}

int64_t RequestOf(const Json& pod_or_template, const std::string& resource) {
  int64_t sum = 0;
  for (const Json& container : pod_or_template["spec"]["containers"].AsArray()) {
    const auto quantity = api::Quantity::FromJson(container["resources"]["requests"][resource]);
    sum += quantity ? api::ToAmount(resource, *quantity) : 0;
  }
  return sum;
}

bool Terminal(const Json& pod) {
  const std::string& phase = pod["status"]["phase"].AsString();
  return phase == "Succeeded" || phase == "Failed";
}

const std::string& JobUidOf(const Json& pod) {
  static const std::string kNone;
  const auto& owners = pod["metadata"]["ownerReferences"].AsArray();
  return owners.empty() ? kNone : owners.front()["uid"].AsString();
}

api::ObjectKey KeyOf(const Json& object) {
  return {object["metadata"]["namespace"].AsString(), object["metadata"]["name"].AsString()};
}

// Every member of `wanted` has that value already (null = absent).
bool Has(const Json& current, const Json& wanted) {
  for (const auto& [key, value] : wanted.AsObject()) {
    if (!(current[key] == value)) {
      return false;
    }
  }
  return true;
}

bool JobDone(const Json& job) {
  for (const Json& condition : job["status"]["conditions"].AsArray()) {
    const std::string& type = condition["type"].AsString();
    if ((type == "Complete" || type == "Failed") && condition["status"].AsString() == "True") {
      return true;
    }
  }
  return false;
}

}  // namespace

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
  Json labels = Json::Obj();
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
  if (!job.preset_group.empty()) {
    pod_spec.Set("schedulingGroup", Json::Obj({{"podGroupName", job.preset_group}}));
  }
  auto created = server_.Create(
      ResourceOf(Kind::kJob),
      Json::Obj(
          {{"metadata",
            Json::Obj({{"name", job.name}, {"namespace", job.ns}, {"labels", std::move(labels)}})},
           {"spec", Json::Obj({{"parallelism", job.pods},
                               {"completions", job.pods},
                               {"template", Json::Obj({{"spec", std::move(pod_spec)}})}})}}));
  ASSERT_TRUE(created) << created.error().message;
  run_time_[(*created)["metadata"]["uid"].AsString()] = job.runs_for;
}

void Cluster::DeleteJob(const api::ObjectKey& key) {
  const auto job = server_.Get(ResourceOf(Kind::kJob), key);
  if (!job) {
    return;
  }
  const std::string uid = (*job)["metadata"]["uid"].AsString();
  EXPECT_TRUE(server_.Delete(ResourceOf(Kind::kJob), key));
  // The garbage collector.
  const auto collect = [&](const api::Resource& resource) {
    for (const Json& object : server_.List(resource)) {
      for (const Json& owner : object["metadata"]["ownerReferences"].AsArray()) {
        if (owner["uid"].AsString() == uid) {
          EXPECT_TRUE(server_.Delete(resource, KeyOf(object)));
        }
      }
    }
  };
  collect(ResourceOf(Kind::kPod));
  collect(GroupResource());
  collect(ResourceOf(Kind::kWorkload));
}

void Cluster::KillPod(const api::ObjectKey& key) {
  if (server_.Get(ResourceOf(Kind::kPod), key)) {
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

void Cluster::RunJobController() {
  const auto pods = server_.List(ResourceOf(Kind::kPod));
  for (const Json& job : server_.List(ResourceOf(Kind::kJob))) {
    if (JobDone(job)) {
      continue;
    }
    const api::ObjectKey key = KeyOf(job);
    const std::string& uid = job["metadata"]["uid"].AsString();
    int64_t active = 0;
    int64_t succeeded = 0;
    std::vector<api::ObjectKey> live;
    for (const Json& pod : pods) {
      if (JobUidOf(pod) != uid) {
        continue;
      }
      if (pod["status"]["phase"].AsString() == "Succeeded") {
        ++succeeded;
      } else if (!Terminal(pod)) {
        ++active;
        live.push_back(KeyOf(pod));
      }
    }
    const int64_t completions = job["spec"]["completions"].AsInt(1);
    const bool suspend = job["spec"]["suspend"].AsBool();
    if (suspend) {
      for (const api::ObjectKey& pod : live) {
        KillPod(pod);
      }
      SetStatus(ResourceOf(Kind::kJob), key,
                Json::Obj({{"active", 0},
                           {"startTime", Json()},
                           {"succeeded", succeeded},
                           {"conditions",
                            Json::Arr({Json::Obj({{"type", "Suspended"}, {"status", "True"}})})}}));
      continue;
    }
    if (succeeded >= completions) {
      SetStatus(ResourceOf(Kind::kJob), key,
                Json::Obj({{"active", 0},
                           {"succeeded", succeeded},
                           {"conditions",
                            Json::Arr({Json::Obj({{"type", "Complete"}, {"status", "True"}})})}}));
      continue;
    }
    const int64_t wanted =
        std::min({job["spec"]["parallelism"].AsInt(1), completions - succeeded, pod_limit_});
    for (; active < wanted; ++active) {
      Json pod_template = job["spec"]["template"];
      Json metadata = pod_template["metadata"];
      metadata.Set("name", key.name + "-" + std::to_string(next_pod_++));
      metadata.Set("namespace", key.ns);
      metadata.Set("ownerReferences", Json::Arr({Json::Obj({{"apiVersion", "batch/v1"},
                                                            {"kind", "Job"},
                                                            {"name", key.name},
                                                            {"uid", uid},
                                                            {"controller", true}})}));
      Json spec = pod_template["spec"];
      const std::string& group = metadata["labels"][names::kPodGroupLabel].AsString();
      if (!group.empty() && options_.gang_api != GangApi::kNone) {
        spec.Set("schedulingGroup", Json::Obj({{"podGroupName", group}}));
      }
      EXPECT_TRUE(server_.Create(ResourceOf(Kind::kPod),
                                 Json::Obj({{"metadata", std::move(metadata)},
                                            {"spec", std::move(spec)},
                                            {"status", Json::Obj({{"phase", "Pending"}})}})));
    }
    Json status = Json::Obj(
        {{"active", active},
         {"succeeded", succeeded},
         {"conditions", Json::Arr({Json::Obj({{"type", "Suspended"}, {"status", "False"}})})}});
    if (job["status"]["startTime"].IsNull()) {
      status.Set("startTime", FormatTime(now_));
    } else {
      status.Set("startTime", job["status"]["startTime"]);
    }
    SetStatus(ResourceOf(Kind::kJob), key, std::move(status));
  }
}

void Cluster::RunScheduler() {
  if (!scheduler_on_) {
    return;
  }
  struct Room {
    int64_t cpu = 0;
    int64_t gpus = 0;
    bool open = true;
  };
  std::map<std::string, Room> rooms;
  for (const Json& node : server_.List(ResourceOf(Kind::kNode))) {
    Room& room = rooms[node["metadata"]["name"].AsString()];
    room.cpu = api::ToAmount("cpu", *api::Quantity::FromJson(node["status"]["allocatable"]["cpu"]));
    if (const Json* gpus = node["status"]["allocatable"].Find("nvidia.com/gpu")) {
      room.gpus = api::ToAmount("nvidia.com/gpu", *api::Quantity::FromJson(*gpus));
    }
    room.open = !node["spec"]["unschedulable"].AsBool();
  }
  std::map<std::string, std::vector<Json>> waiting;  // group (or pod) -> unbound pods
  std::map<std::string, int64_t> members;            // group -> live pods
  std::map<std::string, int64_t> bound;
  for (const Json& pod : server_.List(ResourceOf(Kind::kPod))) {
    if (Terminal(pod)) {
      continue;
    }
    const std::string ns = pod["metadata"]["namespace"].AsString();
    const std::string& group = pod["spec"]["schedulingGroup"]["podGroupName"].AsString();
    const std::string& node = pod["spec"]["nodeName"].AsString();
    const std::string id =
        group.empty() ? ns + "//" + pod["metadata"]["name"].AsString() : ns + "/" + group;
    ++members[id];
    if (!node.empty()) {
      ++bound[id];
      if (const auto room = rooms.find(node); room != rooms.end()) {
        room->second.cpu -= RequestOf(pod, "cpu");
        room->second.gpus -= RequestOf(pod, "nvidia.com/gpu");
      }
    } else {
      waiting[id].push_back(pod);
    }
  }
  for (const auto& [id, pods] : waiting) {
    int64_t quorum = 1;
    if (id.find("//") == std::string::npos) {
      const auto slash = id.find('/');
      const auto group = server_.Get(GroupResource(), {id.substr(0, slash), id.substr(slash + 1)});
      if (!group) {
        continue;  // pods wait for their group
      }
      quorum = (*group)["spec"]["schedulingPolicy"]["gang"]["minCount"].AsInt(0);
      if (members[id] < quorum) {
        continue;  // gated
      }
    }
    auto trial = rooms;
    std::vector<std::pair<api::ObjectKey, std::string>> plan;
    for (const Json& pod : pods) {
      // Spreads: the node with most room, as the default scheduler does.
      std::string best;
      for (const auto& [name, room] : trial) {
        if (room.open && room.cpu >= RequestOf(pod, "cpu") &&
            room.gpus >= RequestOf(pod, "nvidia.com/gpu") &&
            (best.empty() || room.cpu > trial[best].cpu)) {
          best = name;
        }
      }
      if (best.empty()) {
        continue;
      }
      trial[best].cpu -= RequestOf(pod, "cpu");
      trial[best].gpus -= RequestOf(pod, "nvidia.com/gpu");
      plan.emplace_back(KeyOf(pod), best);
    }
    if (bound[id] + static_cast<int64_t>(plan.size()) < quorum || plan.empty()) {
      continue;
    }
    rooms = std::move(trial);
    for (const auto& [key, node] : plan) {
      EXPECT_TRUE(server_.MergePatch(ResourceOf(Kind::kPod), key,
                                     Json::Obj({{"spec", Json::Obj({{"nodeName", node}})}})));
    }
  }
}

void Cluster::RunKubelets() {
  for (const Json& pod : server_.List(ResourceOf(Kind::kPod))) {
    if (Terminal(pod) || pod["spec"]["nodeName"].AsString().empty()) {
      continue;
    }
    const std::string& uid = pod["metadata"]["uid"].AsString();
    const Time start = started_.emplace(uid, now_).first->second;
    const auto runs_for = run_time_.find(JobUidOf(pod));
    if (runs_for != run_time_.end() && now_ - start >= runs_for->second) {
      SetStatus(ResourceOf(Kind::kPod), KeyOf(pod), Json::Obj({{"phase", "Succeeded"}}));
    }
  }
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
  if (kind == "Job") {
    give(api::JobFromJson(object), &Core::OnJob);
  } else if (kind == "Pod") {
    give(api::PodFromJson(object), &Core::OnPod);
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
  } else if (kind == "LocalQueue") {
    give(api::LocalQueueFromJson(object), &Core::OnLocalQueue);
  } else if (kind == "ResourceFlavor") {
    give(api::ResourceFlavorFromJson(object), &Core::OnFlavor);
  } else if (kind == "AdmissionCheck") {
    give(api::AdmissionCheckFromJson(object), &Core::OnAdmissionCheck);
  } else if (kind == "WorkloadPriorityClass") {
    give(api::WorkloadPriorityClassFromJson(object), &Core::OnWorkloadPriorityClass);
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
    if (!watch_lag_) {
      Deliver();
    }
    if (output.effects.empty() && !core_->Busy()) {
      break;
    }
  }
  const std::string problem = core_->SanityCheck();
  EXPECT_TRUE(problem.empty()) << problem;
}

void Cluster::Tick(Duration step) {
  now_ += step;
  server_.SetNow(now_);
  RunKubelets();
  RunJobController();
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
  for (const Kind kind : {Kind::kNamespace, Kind::kNode, Kind::kResourceFlavor, Kind::kClusterQueue,
                          Kind::kLocalQueue, Kind::kWorkloadPriorityClass, Kind::kWorkload,
                          Kind::kJob, Kind::kPod, Kind::kPodGroup}) {
    const api::Resource resource = kind == Kind::kPodGroup ? GroupResource() : ResourceOf(kind);
    for (const Json& object : server_.List(resource)) {
      kube::FakeApiServer::Event event;
      event.type = "ADDED";
      event.resource = resource;
      event.key = KeyOf(object);
      event.object = std::make_shared<const Json>(object);
      Feed(event);
    }
  }
  core_->OnSynced();
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
    if (Terminal(pod)) {
      continue;
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
