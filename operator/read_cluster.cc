// SPDX-License-Identifier: Apache-2.0
#include "operator/read_cluster.h"

#include <array>
#include <cstdlib>
#include <future>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "api/meta.h"
#include "kube/client.h"

namespace tutti {
namespace {

struct Listed {
  const char* group;
  std::vector<const char*> versions;  // best first
  const char* plural;
  const char* kind;
  bool namespaced;
  const char* ns;              // only this one
  const char* without;         // what the report lacks when it may not be listed
  bool for_decisions = false;  // ClusterToRead::for_decisions
};

const std::vector<Listed>& Wanted() {
  static const std::vector<Listed> wanted = {
      {"", {"v1"}, "nodes", "Node", false, "", "free capacity, fragments and prices by label"},
      {"coordination.k8s.io", {"v1"}, "leases", "Lease", true, "kube-node-lease", ""},
      {"", {"v1"}, "limitranges", "LimitRange", true, "", "defaults of requests"},
      {"node.k8s.io", {"v1"}, "runtimeclasses", "RuntimeClass", false, "", "overheads of pods"},
      {"batch", {"v1"}, "jobs", "Job", true, "", "Jobs"},
      {"jobset.x-k8s.io", {"v1alpha2"}, "jobsets", "JobSet", true, "", "JobSets"},
      {"scheduling.k8s.io",
       {"v1beta1", "v1alpha2"},
       "podgroups",
       "PodGroup",
       true,
       "",
       "native gangs"},
      {"scheduling.x-k8s.io", {"v1alpha1"}, "podgroups", "PodGroup", true, "", "pod groups"},
      {"scheduling.volcano.sh", {"v1beta1"}, "podgroups", "PodGroup", true, "", "Volcano's gangs"},
      {"batch.volcano.sh", {"v1alpha1"}, "jobs", "Job", true, "", "Volcano's jobs"},
      {"kueue.x-k8s.io",
       {"v1beta2", "v1beta1"},
       "workloads",
       "Workload",
       true,
       "",
       "why jobs wait for quota"},
      {"kueue.x-k8s.io",
       {"v1beta2", "v1beta1"},
       "clusterqueues",
       "ClusterQueue",
       false,
       "",
       "quotas"},
      {"kueue.x-k8s.io", {"v1beta2", "v1beta1"}, "localqueues", "LocalQueue", true, "", "queues"},
      {"kueue.x-k8s.io",
       {"v1beta2", "v1beta1"},
       "resourceflavors",
       "ResourceFlavor",
       false,
       "",
       "quotas"},
      {"", {"v1"}, "namespaces", "Namespace", false, "", "labels of namespaces", true},
      {"scheduling.k8s.io",
       {"v1"},
       "priorityclasses",
       "PriorityClass",
       false,
       "",
       "priorities",
       true},
      {"kueue.x-k8s.io",
       {"v1beta2", "v1beta1"},
       "workloadpriorityclasses",
       "WorkloadPriorityClass",
       false,
       "",
       "priorities",
       true},
      {"kueue.x-k8s.io", {"v1beta2", "v1beta1"}, "cohorts", "Cohort", false, "", "cohorts", true},
      {"kueue.x-k8s.io",
       {"v1beta2", "v1beta1"},
       "admissionchecks",
       "AdmissionCheck",
       false,
       "",
       "admission checks",
       true},
      {"apps", {"v1"}, "statefulsets", "StatefulSet", true, "", "StatefulSets", true},
      {"resource.k8s.io", {"v1"}, "resourceslices", "ResourceSlice", false, "", "devices"},
      {"resource.k8s.io", {"v1"}, "deviceclasses", "DeviceClass", false, "", "devices"},
      {"resource.k8s.io", {"v1"}, "resourceclaims", "ResourceClaim", true, "", "devices"},
      {"resource.k8s.io",
       {"v1"},
       "resourceclaimtemplates",
       "ResourceClaimTemplate",
       true,
       "",
       "devices"},
      {"", {"v1"}, "persistentvolumeclaims", "PersistentVolumeClaim", true, "", "volumes"},
      {"", {"v1"}, "persistentvolumes", "PersistentVolume", false, "", "volumes"},
      {"storage.k8s.io", {"v1"}, "storageclasses", "StorageClass", false, "", "volumes"},
      {"storage.k8s.io", {"v1"}, "csinodes", "CSINode", false, "", "volumes"},
      {"storage.k8s.io", {"v1"}, "csidrivers", "CSIDriver", false, "", "volumes"},
      {"", {"v1"}, "pods", "Pod", true, "", "who started partially"},
  };
  return wanted;
}

std::string Path() {
  if (const char* path = std::getenv("KUBECONFIG"); path != nullptr && *path != '\0') {
    return path;
  }
  const char* home = std::getenv("HOME");
  return std::string(home != nullptr ? home : "") + "/.kube/config";
}

class Lister {
 public:
  Lister(kube::Transport& transport, const ObjectSink& sink) : client_(transport), sink_(sink) {}

  // False: this version is not served.
  Result<bool> List(const Listed& listed, const std::string& version, const std::string& ns) {
    const api::Resource resource{listed.group, version, listed.plural, listed.kind,
                                 listed.namespaced};
    kube::ListOptions options;
    options.ns = *listed.ns != '\0' ? listed.ns : (listed.namespaced ? ns : "");
    bool again = false;
    while (true) {
      Result<Json> page = Page(resource, options);
      if (!page && page.error().code == ErrorCode::kNotFound) {
        return false;
      }
      if (!page && page.error().code == ErrorCode::kExpired && !again) {
        again = true;  // what came already is not taken twice
        options.continue_token.clear();
        continue;
      }
      if (!page) {
        return Fail(page.error());
      }
      for (Json& item : page->At("items").MutableArray()) {
        item.Set("kind", listed.kind);
        item.Set("apiVersion", resource.ApiVersion());
        sink_.take(item, std::string(listed.kind) + " of the cluster");
      }
      options.continue_token = (*page)["metadata"]["continue"].AsString();
      if (options.continue_token.empty()) {
        return true;
      }
    }
  }

 private:
  Result<Json> Page(const api::Resource& resource, const kube::ListOptions& options) {
    std::promise<Result<Json>> promise;
    client_.List(resource, options,
                 [&promise](Result<Json> answer) { promise.set_value(std::move(answer)); });
    return promise.get_future().get();
  }

  kube::Client client_;
  const ObjectSink& sink_;
};

}  // namespace

Status ListObjects(kube::Transport& transport, const ClusterToRead& cluster,
                   const ObjectSink& sink) {
  Lister lister(transport, sink);
  size_t answered = 0;
  for (const Listed& listed : Wanted()) {
    if (listed.for_decisions && !cluster.for_decisions) {
      continue;
    }
    for (const char* version : listed.versions) {
      Result<bool> served = lister.List(listed, version, cluster.ns);
      if (!served && served.error().code == ErrorCode::kForbidden && listed.namespaced &&
          *listed.ns == '\0' && cluster.ns.empty() && !cluster.fallback_ns.empty()) {
        const std::string refusal = served.error().message;
        ++answered;
        served = lister.List(listed, version, cluster.fallback_ns);
        if (served && *served) {
          sink.note(std::string(listed.plural) + " can be listed in namespace " +
                    cluster.fallback_ns + " only, so the report lacks those of others: " + refusal);
        }
      }
      if (served) {
        ++answered;
        if (*served) {
          break;
        }
        continue;
      }
      const ErrorCode code = served.error().code;
      if (code != ErrorCode::kForbidden && answered == 0) {
        return Fail(served.error());  // no such server, no such credentials
      }
      answered += code == ErrorCode::kForbidden ? 1 : 0;
      if (*listed.without != '\0') {
        sink.note(std::string(listed.plural) + " can't be listed, so the report lacks " +
                  listed.without + ": " + served.error().message);
      }
      break;
    }
  }
  return {};
}

Result<kube::ClusterAccess> AccessTo(const std::string& kubeconfig, const std::string& context) {
  TRY_ASSIGN(kube::ClusterAccess access,
             kube::LoadKubeconfig(kubeconfig.empty() ? Path() : kubeconfig, context));
  if (access.exec.has_value()) {
    TRY(kube::RunExecPlugin(access));
  }
  return access;
}

Result<std::string> ReadCluster(const ClusterToRead& cluster, const ObjectSink& sink) {
  TRY_ASSIGN(const kube::ClusterAccess access, AccessTo(cluster.kubeconfig, cluster.context));
  TRY_ASSIGN(const std::unique_ptr<kube::Transport> transport,
             kube::MakeCpprestTransport(access, {.threads = 2, .user_agent = cluster.user_agent}));
  const Status listed = ListObjects(*transport, cluster, sink);
  transport->Close();
  if (!listed) {
    return Fail(listed.error());
  }
  return "cluster " + access.server + (cluster.ns.empty() ? "" : ", namespace " + cluster.ns);
}

}  // namespace tutti
