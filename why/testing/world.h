// SPDX-License-Identifier: Apache-2.0
// Small clusters for tests, written down as a dump would have them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/time.h"
#include "why/state.h"

namespace tutti::why::testing {

inline constexpr const char* kThen = "2026-12-01T12:00:00Z";

inline reconciler::Options TestOptions() {
  reconciler::Options options;
  options.managed_namespaces.present = true;
  options.wait_for_pods_ready.enabled = false;
  return options;
}

struct Quota {
  std::string flavor;
  std::map<std::string, std::string> nominal;  // by resource
};

struct JobSpec {
  std::string name;
  int pods = 1;
  std::map<std::string, std::string> each = {{"cpu", "1"}};
  std::string queue = "main";
  int priority = 0;
  Json pod_spec = Json::Obj();  // merged into the template's spec
  std::string created = kThen;
  bool workload = true;  // its Workload exists
};

class World {
 public:
  explicit World(reconciler::Options options = TestOptions()) : state(std::move(options)) {}

  void Add(const Json& object) {
    const Status taken = state.Take(object);
    if (!taken) {
      problem += taken.error().message + "\n";
    }
  }
  void Flavor(const std::string& name, const Json& labels = Json::Obj(),
              const Json& taints = Json::Arr()) {
    Add(Kueue("ResourceFlavor", "", name,
              Json::Obj({{"nodeLabels", labels}, {"nodeTaints", taints}})));
  }
  void Queue(const std::string& name, const std::vector<Quota>& quotas,
             const Json& more = Json::Obj()) {
    Json covered = Json::Arr();
    Json flavors = Json::Arr();
    for (const Quota& quota : quotas) {
      Json resources = Json::Arr();
      for (const auto& [resource, nominal] : quota.nominal) {
        resources.Push(Json::Obj({{"name", resource}, {"nominalQuota", nominal}}));
        if (&quota == &quotas.front()) {
          covered.Push(resource);
        }
      }
      flavors.Push(Json::Obj({{"name", quota.flavor}, {"resources", std::move(resources)}}));
    }
    Json spec = Json::Obj(
        {{"namespaceSelector", Json::Obj()},
         {"queueingStrategy", "BestEffortFIFO"},
         {"resourceGroups", Json::Arr({Json::Obj({{"coveredResources", std::move(covered)},
                                                  {"flavors", std::move(flavors)}})})}});
    ApplyMergePatch(spec, more);
    Add(Kueue("ClusterQueue", "", name, std::move(spec)));
  }
  void LocalQueue(const std::string& name, const std::string& cluster_queue) {
    queues_[name] = cluster_queue;
    Add(Kueue("LocalQueue", "team", name, Json::Obj({{"clusterQueue", cluster_queue}})));
  }
  void Node(const std::string& name, const std::map<std::string, std::string>& allocatable,
            Json labels = Json::Obj(), const Json& spec = Json::Obj()) {
    labels.Set("kubernetes.io/hostname", name);
    Json list = ToJson(allocatable);
    list.Set("pods", "110");
    Json meta = Meta("", name);
    meta.Set("labels", std::move(labels));
    Add(Json::Obj({{"apiVersion", "v1"},
                   {"kind", "Node"},
                   {"metadata", std::move(meta)},
                   {"spec", spec},
                   {"status", Json::Obj({{"allocatable", std::move(list)}})}}));
  }
  void Waiting(const JobSpec& spec) {
    Add(JobOf(spec, /*suspend=*/true));
    if (spec.workload) {
      Add(WorkloadOf(spec));
    }
  }
  // Its pods on the given nodes, one each in turn.
  void Running(const JobSpec& spec, const std::string& flavor,
               const std::vector<std::string>& nodes) {
    Json job = JobOf(spec, /*suspend=*/false);
    job.Set("status",
            Json::Obj({{"active", spec.pods}, {"ready", spec.pods}, {"startTime", spec.created}}));
    Add(job);
    Json flavors = Json::Obj();
    Json usage = Json::Obj();
    for (const auto& [resource, amount] : spec.each) {
      flavors.Set(resource, flavor);
      usage.Set(
          resource,
          api::FromAmount(
              resource,
              api::SaturatingMul(api::ToAmount(resource, *api::Quantity::Parse(amount)), spec.pods))
              .ToString());
    }
    Json workload = WorkloadOf(spec);
    const auto condition = [&](const char* type) {
      return Json::Obj({{"type", type},
                        {"status", "True"},
                        {"reason", "Test"},
                        {"message", ""},
                        {"lastTransitionTime", spec.created}});
    };
    workload.Set(
        "status",
        Json::Obj(
            {{"admission", Json::Obj({{"clusterQueue", queues_.at(spec.queue)},
                                      {"podSetAssignments",
                                       Json::Arr({Json::Obj({{"name", "main"},
                                                             {"flavors", std::move(flavors)},
                                                             {"resourceUsage", std::move(usage)},
                                                             {"count", spec.pods}})})}})},
             {"conditions", Json::Arr({condition("QuotaReserved"), condition("Admitted")})}}));
    Add(workload);
    for (int i = 0; i < spec.pods && !nodes.empty(); ++i) {
      Json meta = Meta("team", spec.name + "-" + std::to_string(i));
      meta.Set("ownerReferences", Json::Arr({Owner(spec.name)}));
      Json pod_spec = TemplateOf(spec)["spec"];
      pod_spec.Set("nodeName", nodes[static_cast<size_t>(i) % nodes.size()]);
      Add(Json::Obj({{"apiVersion", "v1"},
                     {"kind", "Pod"},
                     {"metadata", std::move(meta)},
                     {"spec", std::move(pod_spec)},
                     {"status", Json::Obj({{"phase", "Running"}})}}));
    }
  }
  void PriorityClass(const std::string& name, int value) {
    Json object = Kueue("WorkloadPriorityClass", "", name, Json());
    object.Erase("spec");
    object.Set("value", value);
    Add(object);
  }

  static api::ObjectKey WorkloadKey(const std::string& job) { return {"team", "job-" + job}; }
  [[nodiscard]] Time now() const { return *ParseTime(kThen) + std::chrono::hours(1); }

  State state;
  std::string problem;  // objects that could not be read

 private:
  static Json ToJson(const std::map<std::string, std::string>& list) {
    Json out = Json::Obj();
    for (const auto& [name, amount] : list) {
      out.Set(name, amount);
    }
    return out;
  }
  static Json Meta(const std::string& ns, const std::string& name) {
    Json meta = Json::Obj({{"name", name}, {"uid", "uid-" + name}, {"creationTimestamp", kThen}});
    if (!ns.empty()) {
      meta.Set("namespace", ns);
    }
    return meta;
  }
  static Json Kueue(const std::string& kind, const std::string& ns, const std::string& name,
                    Json spec) {
    return Json::Obj({{"apiVersion", "kueue.x-k8s.io/v1beta2"},
                      {"kind", kind},
                      {"metadata", Meta(ns, name)},
                      {"spec", std::move(spec)}});
  }
  static Json Owner(const std::string& job) {
    return Json::Obj({{"apiVersion", "batch/v1"},
                      {"kind", "Job"},
                      {"name", job},
                      {"uid", "uid-" + job},
                      {"controller", true}});
  }
  static Json TemplateOf(const JobSpec& spec) {
    Json pod = Json::Obj(
        {{"restartPolicy", "Never"},
         {"containers",
          Json::Arr({Json::Obj({{"name", "c"},
                                {"image", "none"},
                                {"resources", Json::Obj({{"requests", ToJson(spec.each)},
                                                         {"limits", ToJson(spec.each)}})}})})}});
    ApplyMergePatch(pod, spec.pod_spec);
    return Json::Obj({{"metadata", Json::Obj()}, {"spec", std::move(pod)}});
  }
  static Json JobOf(const JobSpec& spec, bool suspend) {
    Json meta = Meta("team", spec.name);
    meta.Set("creationTimestamp", spec.created);
    meta.Set("labels", Json::Obj({{"kueue.x-k8s.io/queue-name", spec.queue}}));
    return Json::Obj({{"apiVersion", "batch/v1"},
                      {"kind", "Job"},
                      {"metadata", std::move(meta)},
                      {"spec", Json::Obj({{"suspend", suspend},
                                          {"parallelism", spec.pods},
                                          {"completions", spec.pods},
                                          {"template", TemplateOf(spec)}})}});
  }
  static Json WorkloadOf(const JobSpec& spec) {
    Json object =
        Kueue("Workload", "team", "job-" + spec.name,
              Json::Obj({{"queueName", spec.queue},
                         {"priority", spec.priority},
                         {"active", true},
                         {"podSets", Json::Arr({Json::Obj({{"name", "main"},
                                                           {"count", spec.pods},
                                                           {"template", TemplateOf(spec)}})})}}));
    object.At("metadata").Set("creationTimestamp", spec.created);
    object.At("metadata").Set("ownerReferences", Json::Arr({Owner(spec.name)}));
    return object;
  }

  std::map<std::string, std::string> queues_;
};

}  // namespace tutti::why::testing
