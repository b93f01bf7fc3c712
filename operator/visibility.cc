// SPDX-License-Identifier: Apache-2.0
#include "operator/visibility.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "base/json.h"

namespace tutti::visibility {
namespace {

constexpr std::string_view kGroup = "visibility.kueue.x-k8s.io";
constexpr std::string_view kVersions[] = {"v1beta2", "v1beta1"};  // preferred first
constexpr int64_t kDefaultLimit = 1000;
constexpr int64_t kMaxLimit = 100'000;

std::string GroupVersion(std::string_view version) {
  return std::string(kGroup) + "/" + std::string(version);
}

std::vector<std::string> Split(const std::string& path) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (begin < path.size()) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (end > begin) {
      parts.push_back(path.substr(begin, end - begin));
    }
    begin = end + 1;
  }
  return parts;
}

bool IsVersion(const std::string& text) {
  return std::find(std::begin(kVersions), std::end(kVersions), text) != std::end(kVersions);
}

// --- what there is ---

Json Group() {
  Json versions = Json::Arr();
  for (const std::string_view version : kVersions) {
    versions.Push(Json::Obj({{"groupVersion", GroupVersion(version)}, {"version", version}}));
  }
  return Json::Obj({{"kind", "APIGroup"},
                    {"apiVersion", "v1"},
                    {"name", kGroup},
                    {"preferredVersion", versions.AsArray().front()},
                    {"versions", versions}});
}

Json Resources(const std::string& version) {
  Json resources = Json::Arr();
  for (const auto& [plural, kind, namespaced] : {std::tuple("clusterqueues", "ClusterQueue", false),
                                                 std::tuple("localqueues", "LocalQueue", true)}) {
    std::string singular = kind;
    std::transform(singular.begin(), singular.end(), singular.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    resources.Push(Json::Obj({{"name", plural},
                              {"singularName", singular},
                              {"namespaced", namespaced},
                              {"kind", kind},
                              {"verbs", Json::Arr()}}));
    resources.Push(Json::Obj({{"name", std::string(plural) + "/pendingworkloads"},
                              {"singularName", ""},
                              {"namespaced", namespaced},
                              {"kind", "PendingWorkloadsSummary"},
                              {"verbs", Json::Arr({"get"})}}));
  }
  return Json::Obj({{"kind", "APIResourceList"},
                    {"apiVersion", "v1"},
                    {"groupVersion", GroupVersion(version)},
                    {"resources", resources}});
}

Json OpenApi(const std::vector<std::string>& parts) {
  const Json info = Json::Obj({{"title", kGroup}, {"version", "v1"}});
  if (parts[1] == "v2") {
    return Json::Obj({{"swagger", "2.0"}, {"info", info}, {"paths", Json::Obj()}});
  }
  if (parts.size() > 2) {
    return Json::Obj({{"openapi", "3.0.0"}, {"info", info}, {"paths", Json::Obj()}});
  }
  Json paths = Json::Obj();
  for (const std::string_view version : kVersions) {
    const std::string path = "apis/" + GroupVersion(version);
    paths.Set(path, Json::Obj({{"serverRelativeURL", "/openapi/v3/" + path}}));
  }
  return Json::Obj({{"paths", paths}});
}

// --- who waits ---

// A number of the query; `fallback` when it is absent or empty.
bool ReadNumber(const net::Request& request, std::string_view name, int64_t fallback,
                int64_t* out) {
  const std::string text = request.QueryParameter(name);
  if (text.empty()) {
    *out = fallback;
    return true;
  }
  char* end = nullptr;
  errno = 0;
  *out = std::strtoll(text.c_str(), &end, 10);
  return errno == 0 && *end == '\0';
}

Json ItemOf(const PendingWorkload& workload, int64_t in_cluster_queue, int64_t in_local_queue) {
  Json metadata = Json::Obj({{"name", workload.key.name},
                             {"namespace", workload.key.ns},
                             {"creationTimestamp", FormatTime(workload.created)}});
  if (!workload.owners.empty()) {
    Json owners = Json::Arr();
    for (const api::OwnerReference& owner : workload.owners) {
      owners.Push(Json::Obj({{"apiVersion", owner.api_version},
                             {"kind", owner.kind},
                             {"name", owner.name},
                             {"uid", owner.uid}}));
    }
    metadata.Set("ownerReferences", std::move(owners));
  }
  return Json::Obj({{"metadata", std::move(metadata)},
                    {"priority", static_cast<int64_t>(workload.priority)},
                    {"localQueueName", workload.local_queue},
                    {"positionInClusterQueue", in_cluster_queue},
                    {"positionInLocalQueue", in_local_queue}});
}

net::Response Pending(const net::Request& request, const std::string& version,
                      const api::ObjectKey& queue, const Lookup& lookup) {
  int64_t limit = 0;
  int64_t offset = 0;
  if (!ReadNumber(request, "limit", kDefaultLimit, &limit) ||
      !ReadNumber(request, "offset", 0, &offset)) {
    return Failure(400, "BadRequest", "limit and offset must be whole numbers");
  }
  limit = limit == 0 ? kDefaultLimit : std::clamp<int64_t>(limit, 0, kMaxLimit);
  offset = std::max<int64_t>(offset, 0);
  const auto found = lookup(queue);
  if (!found) {
    return Failure(503, "ServiceUnavailable", found.error().message);
  }
  if (!found->has_value()) {
    const std::string resource = queue.ns.empty() ? "clusterqueue" : "localqueue";
    return Failure(404, "NotFound",
                   resource + "." + std::string(kGroup) + " \"" + queue.name + "\" not found");
  }
  Json items = Json::Arr();
  std::map<std::pair<std::string, std::string>, int64_t> in_local_queue;
  int64_t matching = 0;
  int64_t position = 0;
  for (const PendingWorkload& workload : **found) {
    const int64_t local = in_local_queue[{workload.key.ns, workload.local_queue}]++;
    const bool wanted =
        queue.ns.empty() || (workload.key.ns == queue.ns && workload.local_queue == queue.name);
    if (wanted) {
      if (matching >= offset && matching - offset < limit) {
        items.Push(ItemOf(workload, position, local));
      }
      ++matching;
    }
    ++position;
  }
  const Json summary = Json::Obj({{"kind", "PendingWorkloadsSummary"},
                                  {"apiVersion", GroupVersion(version)},
                                  {"metadata", Json::Obj()},
                                  {"items", std::move(items)}});
  return net::Response::JsonText(200, summary.Dump());
}

}  // namespace

net::Response Failure(int code, const std::string& reason, const std::string& message) {
  const Json status = Json::Obj({{"kind", "Status"},
                                 {"apiVersion", "v1"},
                                 {"metadata", Json::Obj()},
                                 {"status", "Failure"},
                                 {"message", message},
                                 {"reason", reason},
                                 {"code", code}});
  return net::Response::JsonText(code, status.Dump());
}

net::Response Answer(const net::Request& request, const Lookup& lookup) {
  const std::vector<std::string> parts = Split(request.path);
  const size_t size = parts.size();
  if (request.method != "GET") {
    return Failure(405, "MethodNotAllowed", "this API can only be read");
  }
  if (size >= 2 && parts[0] == "openapi" && (parts[1] == "v2" || parts[1] == "v3")) {
    return net::Response::JsonText(200, OpenApi(parts).Dump());
  }
  if (size >= 1 && parts[0] == "apis") {
    if (size == 1) {
      return net::Response::JsonText(200, Json::Obj({{"kind", "APIGroupList"},
                                                     {"apiVersion", "v1"},
                                                     {"groups", Json::Arr({Group()})}})
                                              .Dump());
    }
    if (size == 2 && parts[1] == kGroup) {
      return net::Response::JsonText(200, Group().Dump());
    }
    if (size >= 3 && parts[1] == kGroup && IsVersion(parts[2])) {
      if (size == 3) {
        return net::Response::JsonText(200, Resources(parts[2]).Dump());
      }
      if (size == 6 && parts[3] == "clusterqueues" && parts[5] == "pendingworkloads") {
        return Pending(request, parts[2], {"", parts[4]}, lookup);
      }
      if (size == 8 && parts[3] == "namespaces" && parts[5] == "localqueues" &&
          parts[7] == "pendingworkloads") {
        return Pending(request, parts[2], {parts[4], parts[6]}, lookup);
      }
    }
  }
  return Failure(404, "NotFound",
                 "the server could not find the requested resource: only the subresource "
                 "pendingworkloads of clusterqueues and localqueues can be read");
}

}  // namespace tutti::visibility
