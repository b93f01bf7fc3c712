// SPDX-License-Identifier: Apache-2.0
#include "reconciler/queued_pod.h"

#include <algorithm>
#include <utility>

#include "base/names.h"
#include "base/slice_names.h"
#include "reconciler/names.h"

namespace tutti::reconciler {
namespace {

bool HasGate(const Json& spec, std::string_view name) {
  const auto& gates = spec["schedulingGates"].AsArray();
  return std::any_of(gates.begin(), gates.end(),
                     [&](const Json& gate) { return gate["name"].AsString() == name; });
}

// Empty is null, as where the rule comes from.
Json OrNull(const Json& value) {
  const bool empty = (value.IsArray() && value.AsArray().empty()) ||
                     (value.IsObject() && value.AsObject().empty());
  return empty ? Json() : value;
}

Json ContainersOf(const Json& containers) {
  Json out;
  for (const Json& container : containers.AsArray()) {
    out.Push(Json::Obj(
        {{"ports", OrNull(container["ports"])},
         {"resources", Json::Obj({{"requests", OrNull(container["resources"]["requests"])}})}}));
  }
  return out;
}

// What matters of a pod to admission.
Json ShapeOf(const Json& spec) {
  Json shape = Json::Obj();
  shape.Set("affinity", OrNull(spec["affinity"]));
  shape.Set("containers", ContainersOf(spec["containers"]));
  shape.Set("initContainers", ContainersOf(spec["initContainers"]));
  shape.Set("nodeSelector", OrNull(spec["nodeSelector"]));
  shape.Set("overhead", OrNull(spec["overhead"]));
  shape.Set("priority", spec["priority"]);
  shape.Set("resourceClaims", OrNull(spec["resourceClaims"]));
  if (spec.Has("resources")) {
    shape.Set("resources", OrNull(spec["resources"]["requests"]));
  }
  shape.Set("runtimeClassName", spec["runtimeClassName"]);
  shape.Set("tolerations", OrNull(spec["tolerations"]));
  shape.Set("topologySpreadConstraints", OrNull(spec["topologySpreadConstraints"]));
  return shape;
}

}  // namespace

std::string RoleOf(const api::ObjectMeta& meta, const Json& spec) {
  if (const std::string_view annotation = meta.Annotation(names::kRoleHash); !annotation.empty()) {
    return std::string(annotation);
  }
  constexpr size_t kDigits = 8;
  return ShortSha256(Json::Obj({{"spec", ShapeOf(spec)}}).Dump(), kDigits);
}

bool SameRole(const Json& spec, const Json& other) {
  return ShapeOf(spec) == ShapeOf(other);
}

std::string GroupNameOf(const api::ObjectMeta& pod) {
  const std::string_view annotation = pod.Annotation(names::kPodGroupName);
  return std::string(annotation.empty() ? pod.Label(names::kPodGroupName) : annotation);
}

Result<WatchedPod> WatchedPodFromJson(const Json& json) {
  WatchedPod out;
  TRY_ASSIGN(static_cast<api::Pod&>(out), api::PodFromJson(json));
  const Json& spec = json["spec"];
  if (HasGate(spec, names::kElasticGate)) {
    auto hold = std::make_shared<SliceHold>();
    for (const Json& gate : spec["schedulingGates"].AsArray()) {
      if (gate["name"].AsString() != names::kElasticGate) {
        hold->other_gates.push_back(gate["name"].AsString());
      }
    }
    hold->node_selector = api::StringMapFromJson(spec["nodeSelector"]);
    out.slice_hold = std::move(hold);
  }
  const bool gated = HasGate(spec, names::kAdmissionGate);
  const bool held = gated || out.meta.HasFinalizer(names::kManagedLabel) ||
                    !out.meta.Annotation(names::kRoleHash).empty() ||
                    !out.meta.Annotation(names::kSuspendingParent).empty();
  const bool managed = out.meta.Label(names::kManagedLabel) == "true" ||
                       out.meta.Annotation(names::kSuspendingParent) == kStatefulSetParent;
  if (!managed || !held) {
    return out;
  }
  auto queued = std::make_shared<QueuedPod>();
  queued->spec_json = spec.Dump();
  queued->gated = gated;
  queued->role = RoleOf(out.meta, spec);
  queued->message = json["status"]["message"].AsString();
  queued->grace_seconds = json["metadata"]["deletionGracePeriodSeconds"].AsInt();
  const api::Conditions conditions = api::ConditionsFromJson(json["status"]["conditions"]);
  const api::Condition* target = api::FindCondition(conditions, "TerminationTarget");
  queued->stopped = target != nullptr && target->status == "True";
  if (const api::Condition* ready = api::FindCondition(conditions, "ContainersReady");
      ready != nullptr && ready->status == "False" && ready->reason == "PodFailed") {
    queued->failed_at = ready->last_transition;
  }
  out.queued = std::move(queued);
  return out;
}

}  // namespace tutti::reconciler
