// SPDX-License-Identifier: Apache-2.0
#include "api/core.h"

#include <algorithm>

#include "api/decode.h"
#include "api/pod_requests.h"

namespace tutti::api {
namespace {

std::shared_ptr<const PodShape> EmptyShape() {
  static const std::shared_ptr<const PodShape> kEmpty = std::make_shared<const PodShape>();
  return kEmpty;
}

Result<ResourceList> ReadList(const Json& json, std::string_view path) {
  Result<ResourceList> list = ResourceListFromJson(json);
  if (!list) {
    return Fail(
        Error{ErrorCode::kInvalid, std::string(path) + list.error().message, 0, std::nullopt});
  }
  for (auto& [resource, quantity] : *list) {
    quantity = quantity.RoundedUpToMilli();
  }
  return list;
}

void FillAbsent(ResourceList& target, const ResourceList& from) {
  target.insert(from.begin(), from.end());  // keeps what is there
}

}  // namespace

Result<Pod> PodFromJson(const Json& json) {
  Pod out;
  TRY_ASSIGN(out.meta, ReadMeta(json, "Pod"));
  const Json& spec = json["spec"];
  const Json& status = json["status"];
  out.phase = status["phase"].AsString();
  out.node_name = spec["nodeName"].AsString();
  out.scheduling_group = spec["schedulingGroup"]["podGroupName"].AsString();
  out.scheduled = !out.node_name.empty();
  for (const Json& condition : status["conditions"].AsArray()) {
    const std::string& type = condition["type"].AsString();
    const bool is_true = condition["status"].AsString() == "True";
    if (type == "Ready") {
      out.ready = is_true;
    } else if (type == "PodScheduled") {
      out.scheduled = out.scheduled || is_true;
      if (condition["status"].AsString() == "False") {
        out.unschedulable_message = condition["message"].AsString();
      }
    }
  }
  if (out.scheduled) {
    out.unschedulable_message.clear();
  }
  if (out.Terminal() || !spec.IsObject()) {
    out.shape = EmptyShape();  // holds nothing on a node any more
    return out;
  }
  Result<PodShape> shape = ShapeOfRunning(json);
  if (!shape) {
    return Fail(shape.error().With("Pod " + out.meta.Key().ToString()));
  }
  out.shape = InternShape(std::move(*shape));
  return out;
}

bool PodAffinityTerm::Matches(const std::string& ns, const StringMap& ns_labels,
                              const StringMap& labels) const {
  return (std::binary_search(namespaces.begin(), namespaces.end(), ns) ||
          namespace_selector.Matches(ns_labels)) &&
         selector.Matches(labels);
}

Result<Node> NodeFromJson(const Json& json) {
  Node out;
  TRY_ASSIGN(out.meta, ReadMeta(json, "Node"));
  const Json& spec = json["spec"];
  out.unschedulable = spec["unschedulable"].AsBool();
  TRY_ASSIGN(out.taints, TaintsFromJson(spec["taints"]));
  const Json& status = json["status"];
  const bool has_allocatable = status["allocatable"].IsObject();
  TRY_ASSIGN(const ResourceList list, ReadList(status[has_allocatable ? "allocatable" : "capacity"],
                                               "Node " + out.meta.name + ": status.allocatable"));
  out.allocatable = ToAmounts(list);
  return out;
}

Result<Namespace> NamespaceFromJson(const Json& json) {
  Namespace out;
  TRY_ASSIGN(out.meta, ReadMeta(json, "Namespace"));
  return out;
}

Result<PriorityClass> PriorityClassFromJson(const Json& json) {
  PriorityClass out;
  TRY_ASSIGN(out.meta, ReadMeta(json, "PriorityClass"));
  out.value = ReadInt32(json["value"]);
  out.global_default = json["globalDefault"].AsBool();
  return out;
}

Result<RuntimeClass> RuntimeClassFromJson(const Json& json) {
  RuntimeClass out;
  TRY_ASSIGN(out.meta, ReadMeta(json, "RuntimeClass"));
  TRY_ASSIGN(out.overhead, ReadList(json["overhead"]["podFixed"],
                                    "RuntimeClass " + out.meta.name + ": overhead.podFixed"));
  return out;
}

Result<LimitRange> LimitRangeFromJson(const Json& json) {
  LimitRange out;
  TRY_ASSIGN(out.meta, ReadMeta(json, "LimitRange"));
  const std::string object = "LimitRange " + out.meta.Key().ToString() + ": spec.limits[";
  for (const Json& item : json["spec"]["limits"].AsArray()) {
    const std::string path = object + std::to_string(out.items.size()) + "].";
    LimitRangeItem limits;
    limits.type = item["type"].AsString();
    TRY_ASSIGN(limits.max, ReadList(item["max"], path + "max"));
    TRY_ASSIGN(limits.min, ReadList(item["min"], path + "min"));
    TRY_ASSIGN(limits.default_limit, ReadList(item["default"], path + "default"));
    TRY_ASSIGN(limits.default_request, ReadList(item["defaultRequest"], path + "defaultRequest"));
    if (limits.type == "Container") {  // as the API server defaults the object itself
      FillAbsent(limits.default_limit, limits.max);
      FillAbsent(limits.default_request, limits.default_limit);
      FillAbsent(limits.default_request, limits.min);
    }
    out.items.push_back(std::move(limits));
  }
  return out;
}

Result<PodGroup> PodGroupFromJson(const Json& json) {
  PodGroup out;
  TRY_ASSIGN(out.meta, ReadMeta(json, "PodGroup"));
  out.min_count = std::max(ReadInt32(json["spec"]["schedulingPolicy"]["gang"]["minCount"]), 0);
  for (const Json& claim : json["spec"]["resourceClaims"].AsArray()) {
    out.claims.push_back({claim["name"].AsString(), claim["resourceClaimName"].AsString(),
                          claim["resourceClaimTemplateName"].AsString()});
  }
  for (const Json& status : json["status"]["resourceClaimStatuses"].AsArray()) {
    out.made_claims.push_back(status["name"].AsString());
  }
  out.conditions = ConditionsFromJson(json["status"]["conditions"]);
  return out;
}

}  // namespace tutti::api
