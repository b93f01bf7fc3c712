// SPDX-License-Identifier: Apache-2.0
#include "api/meta.h"

#include <algorithm>
#include <array>

#include "api/decode.h"

namespace tutti::api {
namespace {

constexpr size_t kMaxMessage = 32768;
// The previous manifest as text; as large as the object and of no use here.
constexpr std::string_view kLastApplied = "kubectl.kubernetes.io/last-applied-configuration";

void CutMessage(std::string& message) {
  if (message.size() <= kMaxMessage) {
    return;
  }
  size_t end = kMaxMessage;
  while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xC0U) == 0x80U) {
    --end;
  }
  message.resize(end);
}

void AppendEscaped(std::string& path, std::string_view segment) {
  static constexpr std::string_view kHex = "0123456789ABCDEF";
  path.push_back('/');
  for (const char c : segment) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~' || c == ':';
    if (plain) {
      path.push_back(c);
    } else {
      const auto byte = static_cast<unsigned char>(c);
      path.push_back('%');
      path.push_back(kHex[byte >> 4U]);
      path.push_back(kHex[byte & 15U]);
    }
  }
}

}  // namespace

const OwnerReference* ObjectMeta::Controller() const {
  const auto it = std::find_if(owners.begin(), owners.end(),
                               [](const OwnerReference& owner) { return owner.controller; });
  return it == owners.end() ? nullptr : &*it;
}

std::string_view ObjectMeta::Label(std::string_view key) const {
  const std::string* value = FindIn(labels, key);
  return value != nullptr ? std::string_view(*value) : std::string_view();
}

std::string_view ObjectMeta::Annotation(std::string_view key) const {
  const std::string* value = FindIn(annotations, key);
  return value != nullptr ? std::string_view(*value) : std::string_view();
}

bool ObjectMeta::HasFinalizer(std::string_view finalizer) const {
  return std::find(finalizers.begin(), finalizers.end(), finalizer) != finalizers.end();
}

ObjectMeta MetaFromJson(const Json& metadata) {
  ObjectMeta out;
  for (const auto& [key, value] : metadata.AsObject()) {
    if (key == "name") {
      out.name = value.AsString();
    } else if (key == "namespace") {
      out.ns = value.AsString();
    } else if (key == "uid") {
      out.uid = value.AsString();
    } else if (key == "resourceVersion") {
      out.resource_version = value.AsString();
    } else if (key == "generation") {
      out.generation = ReadInt64(value);
    } else if (key == "creationTimestamp") {
      out.created = ReadTime(value);
    } else if (key == "deletionTimestamp") {
      if (value.IsString()) {  // being deleted, whatever the time says
        out.deleted = ReadTime(value);
      }
    } else if (key == "labels") {
      out.labels = StringMapFromJson(value);
    } else if (key == "annotations") {
      out.annotations = StringMapFromJson(value);
      if (const auto it = out.annotations.find(std::string(kLastApplied));
          it != out.annotations.end()) {
        out.annotations.erase(it);
      }
    } else if (key == "ownerReferences") {
      for (const Json& owner : value.AsArray()) {
        out.owners.push_back({owner["apiVersion"].AsString(), owner["kind"].AsString(),
                              owner["name"].AsString(), owner["uid"].AsString(),
                              owner["controller"].AsBool()});
      }
    } else if (key == "finalizers") {
      out.finalizers = ReadStrings(value);
    }
  }
  return out;
}

StringMap StringMapFromJson(const Json& json) {
  StringMap out;
  for (const auto& [key, value] : json.AsObject()) {
    if (value.IsString() || value.IsNull()) {  // null is the empty string, as Go decodes it
      out[key] = value.AsString();
    }
  }
  return out;
}

Json ToJson(const StringMap& map) {
  Json::Object out;
  out.reserve(map.size());
  for (const auto& [key, value] : map) {
    out.emplace_back(key, value);
  }
  return Json(std::move(out));
}

Json ToJson(const OwnerReference& owner) {
  Json out = Json::Obj({{"apiVersion", owner.api_version},
                        {"kind", owner.kind},
                        {"name", owner.name},
                        {"uid", owner.uid}});
  if (owner.controller) {
    out.Set("controller", true);
    out.Set("blockOwnerDeletion", true);
  }
  return out;
}

const std::string* FindIn(const StringMap& map, std::string_view key) {
  const auto it = map.find(std::string(key));
  return it == map.end() ? nullptr : &it->second;
}

const Condition* FindCondition(const Conditions& conditions, std::string_view type) {
  const auto it = std::find_if(conditions.begin(), conditions.end(),
                               [&](const Condition& condition) { return condition.type == type; });
  return it == conditions.end() ? nullptr : &*it;
}

bool IsTrue(const Conditions& conditions, std::string_view type) {
  const Condition* condition = FindCondition(conditions, type);
  return condition != nullptr && condition->status == "True";
}

bool SetCondition(Conditions& conditions, Condition condition, Time now) {
  CutMessage(condition.message);
  // The API keeps whole seconds; so do we, or an echo of our own write would look like a change.
  now = std::chrono::floor<std::chrono::seconds>(now);
  const auto it = std::find_if(conditions.begin(), conditions.end(), [&](const Condition& other) {
    return other.type == condition.type;
  });
  if (it == conditions.end()) {
    condition.last_transition = now;
    conditions.push_back(std::move(condition));
    return true;
  }
  condition.last_transition = it->status == condition.status ? it->last_transition : now;
  const bool changed = it->status != condition.status || it->reason != condition.reason ||
                       it->message != condition.message ||
                       it->observed_generation != condition.observed_generation;
  *it = std::move(condition);
  return changed;
}

bool RemoveCondition(Conditions& conditions, std::string_view type) {
  return std::erase_if(conditions,
                       [&](const Condition& condition) { return condition.type == type; }) > 0;
}

Conditions ConditionsFromJson(const Json& json) {
  Conditions out;
  out.reserve(json.AsArray().size());
  for (const Json& item : json.AsArray()) {
    Condition condition{item["type"].AsString(),
                        item["status"].AsString(),
                        item["reason"].AsString(),
                        item["message"].AsString(),
                        ReadTime(item["lastTransitionTime"]),
                        ReadInt64(item["observedGeneration"])};
    if (!condition.type.empty() && FindCondition(out, condition.type) == nullptr) {
      out.push_back(std::move(condition));
    }
  }
  return out;
}

Json ToJson(const Conditions& conditions) {
  Json::Array out;
  out.reserve(conditions.size());
  for (const Condition& condition : conditions) {
    Json item = Json::Obj({{"type", condition.type}, {"status", condition.status}});
    if (condition.observed_generation != 0) {
      item.Set("observedGeneration", condition.observed_generation);
    }
    item.Set("lastTransitionTime", FormatTime(condition.last_transition));
    item.Set("reason", condition.reason);
    item.Set("message", condition.message);
    out.push_back(std::move(item));
  }
  return Json(std::move(out));
}

std::string Resource::Path(std::string_view ns, std::string_view name,
                           std::string_view subresource) const {
  std::string out = group.empty() ? "/api" : "/apis/" + group;
  out += "/" + version;
  if (namespaced && !ns.empty()) {
    out += "/namespaces";
    AppendEscaped(out, ns);
  }
  out += "/" + plural;
  if (!name.empty()) {
    AppendEscaped(out, name);
    if (!subresource.empty()) {
      AppendEscaped(out, subresource);
    }
  }
  return out;
}

Resource ResourceOf(Kind kind) {
  switch (kind) {
    case Kind::kJob:
      return {"batch", "v1", "jobs", "Job", true};
    case Kind::kPod:
      return {"", "v1", "pods", "Pod", true};
    case Kind::kNode:
      return {"", "v1", "nodes", "Node", false};
    case Kind::kNamespace:
      return {"", "v1", "namespaces", "Namespace", false};
    case Kind::kLimitRange:
      return {"", "v1", "limitranges", "LimitRange", true};
    case Kind::kPriorityClass:
      return {"scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", false};
    case Kind::kRuntimeClass:
      return {"node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", false};
    case Kind::kPodGroup:
      return {"scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", true};
    case Kind::kResourceSlice:
      return {"resource.k8s.io", "v1", "resourceslices", "ResourceSlice", false};
    case Kind::kDeviceClass:
      return {"resource.k8s.io", "v1", "deviceclasses", "DeviceClass", false};
    case Kind::kResourceClaim:
      return {"resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", true};
    case Kind::kResourceClaimTemplate:
      return {"resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", true};
    case Kind::kPersistentVolumeClaim:
      return {"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true};
    case Kind::kPersistentVolume:
      return {"", "v1", "persistentvolumes", "PersistentVolume", false};
    case Kind::kStorageClass:
      return {"storage.k8s.io", "v1", "storageclasses", "StorageClass", false};
    case Kind::kCsiNode:
      return {"storage.k8s.io", "v1", "csinodes", "CSINode", false};
    case Kind::kCsiDriver:
      return {"storage.k8s.io", "v1", "csidrivers", "CSIDriver", false};
    case Kind::kCsiStorageCapacity:
      return {"storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", true};
    case Kind::kVolumeAttachment:
      return {"storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", false};
    case Kind::kWorkload:
      return {"kueue.x-k8s.io", "v1beta2", "workloads", "Workload", true};
    case Kind::kClusterQueue:
      return {"kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue", false};
    case Kind::kLocalQueue:
      return {"kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue", true};
    case Kind::kCohort:
      return {"kueue.x-k8s.io", "v1beta2", "cohorts", "Cohort", false};
    case Kind::kResourceFlavor:
      return {"kueue.x-k8s.io", "v1beta2", "resourceflavors", "ResourceFlavor", false};
    case Kind::kAdmissionCheck:
      return {"kueue.x-k8s.io", "v1beta2", "admissionchecks", "AdmissionCheck", false};
    case Kind::kTopology:
      return {"kueue.x-k8s.io", "v1beta2", "topologies", "Topology", false};
    case Kind::kWorkloadPriorityClass:
      return {"kueue.x-k8s.io", "v1beta2", "workloadpriorityclasses", "WorkloadPriorityClass",
              false};
    case Kind::kEvent:
      return {"", "v1", "events", "Event", true};
    case Kind::kLease:
      return {"coordination.k8s.io", "v1", "leases", "Lease", true};
  }
  return {};
}

}  // namespace tutti::api
