// SPDX-License-Identifier: Apache-2.0
// Plain imitations of the Job controller, the claim controller, the scheduler and the kubelets.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/names.h"
#include "reconciler/testing/cluster.h"
#include "reconciler/testing/objects.h"

namespace tutti::reconciler::testing {

using api::Kind;
using api::ResourceOf;

// As the Job controller and the chart's policies make it. False when it is refused.
bool Cluster::MakePod(const Json& job) {
  const api::ObjectKey key = KeyOf(job);
  Json pod_template = job["spec"]["template"];
  Json metadata = pod_template["metadata"];
  metadata.Set("name", key.name + "-" + std::to_string(next_pod_++));
  metadata.Set("namespace", key.ns);
  metadata.Set("ownerReferences", Json::Arr({Json::Obj({{"apiVersion", "batch/v1"},
                                                        {"kind", "Job"},
                                                        {"name", key.name},
                                                        {"uid", job["metadata"]["uid"]},
                                                        {"controller", true}})}));
  if (grace_ > Duration(0)) {
    metadata.Set("finalizers", Json::Arr({"test/kubelet"}));
  }
  Json spec = pod_template["spec"];
  if (const auto theirs = server_.Get(GroupResource(), {key.ns, key.name + "-by-controller"})) {
    spec.Set("schedulingGroup", Json::Obj({{"podGroupName", key.name + "-by-controller"}}));
  }
  const std::string group = metadata["labels"][names::kPodGroupLabel].AsString();
  if (!group.empty() && options_.gang_api != GangApi::kNone) {
    const auto object = server_.Get(GroupResource(), {key.ns, group});
    if (object && (*object)["metadata"]["labels"].Has(names::kStartedLabel)) {
      metadata.At("labels").Erase(names::kPodGroupLabel);
    } else if (!spec.Has("schedulingGroup")) {
      spec.Set("schedulingGroup", Json::Obj({{"podGroupName", group}}));
    } else if (spec["schedulingGroup"]["podGroupName"].AsString() != group) {
      return false;  // the guarding policy
    }
  }
  EXPECT_TRUE(server_.Create(ResourceOf(Kind::kPod),
                             Json::Obj({{"metadata", std::move(metadata)},
                                        {"spec", std::move(spec)},
                                        {"status", Json::Obj({{"phase", "Pending"}})}})));
  return true;
}

void Cluster::MakeControllersGroup(const Json& job) {
  const api::ObjectKey key = KeyOf(job);
  const std::string name = key.name + "-by-controller";
  api::Resource workloads = GroupResource();
  workloads.kind = "Workload";
  workloads.plural = "workloads";
  const Json owner = Json::Obj({{"apiVersion", "batch/v1"},
                                {"kind", "Job"},
                                {"name", key.name},
                                {"uid", job["metadata"]["uid"]},
                                {"controller", true}});
  auto workload = server_.Get(workloads, {key.ns, name});
  const bool is_new = job["status"]["startTime"].IsNull() &&
                      job["status"]["conditions"].AsArray().empty() &&
                      job["spec"]["completionMode"].AsString() == "Indexed" &&
                      job["spec"]["parallelism"].AsInt(1) > 1;
  if (!workload && is_new) {
    workload = server_.Create(
        workloads, Json::Obj({{"metadata", Json::Obj({{"name", name},
                                                      {"namespace", key.ns},
                                                      {"ownerReferences", Json::Arr({owner})}})}}));
  }
  if (!workload || server_.Get(GroupResource(), {key.ns, name})) {
    return;
  }
  const Json second = Json::Obj({{"apiVersion", "scheduling.k8s.io/v1alpha2"},
                                 {"kind", "Workload"},
                                 {"name", name},
                                 {"uid", (*workload)["metadata"]["uid"]}});
  EXPECT_TRUE(server_.Create(
      GroupResource(),
      Json::Obj(
          {{"metadata", Json::Obj({{"name", name},
                                   {"namespace", key.ns},
                                   {"ownerReferences", Json::Arr({owner, second})}})},
           {"spec",
            Json::Obj({{"schedulingPolicy",
                        Json::Obj({{"gang", Json::Obj({{"minCount",
                                                        job["spec"]["parallelism"]}})}})}})}})));
}

void Cluster::RunClaimController() {
  if (!claim_manager_) {
    return;
  }
  for (const Json& group : server_.List(GroupResource())) {
    Json made = Json::Arr();
    for (const Json& claim : group["spec"]["resourceClaims"].AsArray()) {
      if (claim.Has("resourceClaimTemplateName")) {
        made.Push(Json::Obj(
            {{"name", claim["name"]}, {"resourceClaimName", claim["name"].AsString() + "-made"}}));
      }
    }
    if (!made.AsArray().empty()) {
      SetStatus(GroupResource(), KeyOf(group),
                Json::Obj({{"resourceClaimStatuses", std::move(made)}}));
    }
  }
}

Result<Json> Cluster::Answer(const std::string& path) const {
  constexpr std::string_view kClaims = "/resourceclaims/";
  if (const auto at = path.find(kClaims); at != std::string::npos) {
    const std::string name = path.substr(at + kClaims.size());
    return claims_.contains(name)
               ? Result<Json>(Json::Obj({{"kind", "ResourceClaim"}}))
               : Fail(ErrorCode::kNotFound, "resourceclaims \"" + name + "\" not found");
  }
  Json items = Json::Arr();
  if (pod_limit_ < 1000) {
    items.Push(Json::Obj({{"lastTimestamp", FormatTime(now_)},
                          {"message",
                           "Error creating: pods \"x\" is forbidden: exceeded quota: "
                           "rq, requested: pods=1, limited: pods=" +
                               std::to_string(pod_limit_)}}));
  }
  return Json::Obj({{"kind", "EventList"}, {"items", std::move(items)}});
}

void Cluster::RunJobController() {
  const auto pods = server_.List(ResourceOf(Kind::kPod));
  for (const Json& job : server_.List(ResourceOf(Kind::kJob))) {
    if (JobDone(job)) {
      continue;
    }
    const api::ObjectKey key = KeyOf(job);
    const std::string& uid = job["metadata"]["uid"].AsString();
    if (job_controller_groups_) {
      MakeControllersGroup(job);
    }
    int64_t active = 0;
    int64_t ready = 0;
    int64_t succeeded = 0;
    std::vector<api::ObjectKey> live;
    std::set<api::ObjectKey> unbound;
    for (const Json& pod : pods) {
      if (JobUidOf(pod) != uid) {
        continue;
      }
      if (pod["status"]["phase"].AsString() == "Succeeded") {
        ++succeeded;
      } else if (!Terminal(pod) && pod["metadata"]["deletionTimestamp"].IsNull()) {
        ++active;
        ready += readiness_on_ && !pod["spec"]["nodeName"].AsString().empty() ? 1 : 0;
        live.push_back(KeyOf(pod));
        if (pod["spec"]["nodeName"].AsString().empty()) {
          unbound.insert(KeyOf(pod));
        }
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
                           {"ready", 0},
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
    for (; active < wanted && MakePod(job); ++active) {
    }
    // Too many: those without a node go first.
    std::stable_partition(live.begin(), live.end(),
                          [&](const api::ObjectKey& pod) { return !unbound.contains(pod); });
    for (; active > wanted; --active, live.pop_back()) {
      KillPod(live.back());
    }
    Json status = Json::Obj(
        {{"active", active},
         {"ready", ready},
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
    if (Terminal(pod) || !pod["spec"]["schedulingGates"].AsArray().empty()) {
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
    if (const auto deleted = ParseTime(pod["metadata"]["deletionTimestamp"].AsString())) {
      if (now_ - *deleted >= grace_) {
        EXPECT_TRUE(
            server_.MergePatch(ResourceOf(Kind::kPod), KeyOf(pod),
                               Json::Obj({{"metadata", Json::Obj({{"finalizers", Json()}})}})));
      }
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

}  // namespace tutti::reconciler::testing
