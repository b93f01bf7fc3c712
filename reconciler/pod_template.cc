// SPDX-License-Identifier: Apache-2.0
#include "reconciler/pod_template.h"

#include <algorithm>
#include <array>

#include "base/names.h"

namespace tutti::reconciler {
namespace {

constexpr std::array<std::string_view, 3> kServerLabels = {"controller-uid", "job-name",
                                                           "batch.kubernetes.io/controller-uid"};
// Kept in the Workload's template as Kueue does, but not the user's.
constexpr std::string_view kJobNameLabel = "batch.kubernetes.io/job-name";
constexpr std::string_view kHostnameLabel = "kubernetes.io/hostname";
constexpr int kSteeringWeight = 100;

// Adds `more` to the string map at template path; an existing key with another value is an error.
Status MergeInto(const Json& existing, const api::StringMap& more, std::string_view where,
                 std::string_view who, Json& patch) {
  for (const auto& [key, value] : more) {
    const Json* current = existing.Find(key);
    if (current != nullptr && current->AsString() != value) {
      return Fail(ErrorCode::kInvalid, std::string(where) + "[" + key + "] is \"" +
                                           current->AsString() + "\" in the job, but " +
                                           std::string(who) + " needs \"" + value + "\"");
    }
    const Json* added = patch.Find(key);
    if (added != nullptr && added->AsString() != value) {
      return Fail(ErrorCode::kInvalid, std::string(where) + "[" + key + "]: " + std::string(who) +
                                           " needs \"" + value + "\", but the assigned flavor \"" +
                                           added->AsString() + "\"");
    }
    if (current == nullptr) {
      patch.Set(key, value);
    }
  }
  return {};
}

Json PreferredNodeAffinity(const Json& existing_affinity, const std::vector<std::string>& nodes) {
  Json values = Json::Arr();
  for (const std::string& node : nodes) {
    values.Push(node);
  }
  Json term = Json::Obj(
      {{"weight", kSteeringWeight},
       {"preference", Json::Obj({{"matchExpressions",
                                  Json::Arr({Json::Obj({{"key", kHostnameLabel},
                                                        {"operator", "In"},
                                                        {"values", std::move(values)}})})}})}});
  Json terms = existing_affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"];
  terms.Push(std::move(term));
  return Json::Obj({{"nodeAffinity", Json::Obj({{"preferredDuringSchedulingIgnoredDuringExecution",
                                                 std::move(terms)}})}});
}

}  // namespace

Json ParseTemplate(const std::string& text) {
  auto parsed = Json::Parse(text);
  return parsed ? std::move(*parsed) : Json::Obj();
}

bool SameOrEmpty(const Json& a, const Json& b) {
  const auto empty = [](const Json& json) {
    return json.IsNull() || (json.IsObject() && json.AsObject().empty()) ||
           (json.IsArray() && json.AsArray().empty());
  };
  return (empty(a) && empty(b)) || a == b;
}

Json SubmittedTemplate(const std::string& template_json) {
  Json out = ParseTemplate(template_json);
  if (Json& metadata = out.At("metadata"); metadata.IsObject()) {
    if (Json& labels = metadata.At("labels"); labels.IsObject()) {
      for (const std::string_view label : kServerLabels) {
        labels.Erase(label);
      }
    }
    if (metadata["labels"].AsObject().empty()) {
      metadata.Erase("labels");
    }
    metadata.Erase("creationTimestamp");
  }
  if (out["metadata"].AsObject().empty()) {
    out.Erase("metadata");
  }
  return out;
}

bool SamePods(const Json& recorded, const Json& current, bool may_be_started) {
  const Json& was = recorded["spec"];
  const Json& is = current["spec"];
  if (!SameOrEmpty(was["containers"], is["containers"]) ||
      !SameOrEmpty(was["initContainers"], is["initContainers"])) {
    return false;
  }
  // A started job carries the flavor's tolerations on top of its own.
  return may_be_started || SameOrEmpty(was["tolerations"], is["tolerations"]);
}

Result<Json> TemplateAdditions(const Json& recorded, const Json& current, const StartInfo& info,
                               std::string_view path) {
  Json labels = Json::Obj();
  Json selector = Json::Obj();
  api::StringMap wanted_labels = info.labels;
  if (!info.group_name.empty()) {
    wanted_labels[std::string(names::kPodGroupLabel)] = info.group_name;
  }
  for (const auto& [key, value] : wanted_labels) {
    if (current["metadata"]["labels"][key].AsString() != value) {
      labels.Set(key, value);  // our own keys: ours to overwrite
    }
  }
  constexpr std::string_view kFlavor = "the assigned flavor";
  constexpr std::string_view kCheck = "an admission check";
  TRY(MergeInto(current["spec"]["nodeSelector"], info.node_selector,
                std::string(path) + ".spec.nodeSelector", kFlavor, selector));
  TRY(MergeInto(current["spec"]["nodeSelector"], info.updates.node_selector,
                std::string(path) + ".spec.nodeSelector", kCheck, selector));
  TRY(MergeInto(current["metadata"]["labels"], info.updates.labels,
                std::string(path) + ".metadata.labels", kCheck, labels));
  Json annotations = Json::Obj();
  for (const auto& [key, value] : info.annotations) {
    if (current["metadata"]["annotations"][key].AsString() != value) {
      annotations.Set(key, value);
    }
  }
  TRY(MergeInto(current["metadata"]["annotations"], info.updates.annotations,
                std::string(path) + ".metadata.annotations", kCheck, annotations));
  Json pod_spec = Json::Obj();
  if (!selector.AsObject().empty()) {
    pod_spec.Set("nodeSelector", std::move(selector));
  }
  std::vector<api::Toleration> wanted_tolerations = info.tolerations;
  wanted_tolerations.insert(wanted_tolerations.end(), info.updates.tolerations.begin(),
                            info.updates.tolerations.end());
  if (!wanted_tolerations.empty()) {
    Json tolerations = current["spec"]["tolerations"];
    const Json more = api::ToJson(wanted_tolerations);
    bool added = false;
    for (const Json& toleration : more.AsArray()) {
      const auto& list = tolerations.AsArray();
      if (std::find(list.begin(), list.end(), toleration) == list.end()) {
        tolerations.Push(toleration);
        added = true;
      }
    }
    if (added) {
      pod_spec.Set("tolerations", std::move(tolerations));
    }
  }
  if (!info.preferred_nodes.empty()) {
    pod_spec.Set("affinity",
                 PreferredNodeAffinity(recorded["spec"]["affinity"], info.preferred_nodes));
  }
  Json pod_template = Json::Obj();
  if (!labels.AsObject().empty()) {
    pod_template.At("metadata").Set("labels", std::move(labels));
  }
  if (!annotations.AsObject().empty()) {
    pod_template.At("metadata").Set("annotations", std::move(annotations));
  }
  if (!pod_spec.AsObject().empty()) {
    pod_template.Set("spec", std::move(pod_spec));
  }
  return pod_template;
}

Json TemplateRestore(const Json& recorded, const Json& current) {
  // Labels that the API server adds stay.
  Json from = Json::Obj();
  Json to = Json::Obj();
  Json labels_now = current["metadata"]["labels"];
  for (const std::string_view label : kServerLabels) {
    labels_now.Erase(label);
  }
  Json labels_then = recorded["metadata"]["labels"];
  labels_now.Erase(kJobNameLabel);
  labels_then.Erase(kJobNameLabel);
  if (!SameOrEmpty(labels_now, labels_then)) {
    from.At("metadata").Set("labels", labels_now.IsNull() ? Json::Obj() : labels_now);
    to.At("metadata").Set("labels", labels_then.IsNull() ? Json::Obj() : labels_then);
  }
  if (!SameOrEmpty(current["metadata"]["annotations"], recorded["metadata"]["annotations"])) {
    from.At("metadata").Set("annotations", current["metadata"]["annotations"]);
    to.At("metadata")
        .Set("annotations", recorded["metadata"]["annotations"].IsNull()
                                ? Json::Obj()
                                : recorded["metadata"]["annotations"]);
  }
  Json patch = DiffMergePatch(from, to);
  for (const std::string_view field :
       {"nodeSelector", "tolerations", "affinity", "schedulingGates"}) {
    const Json& now_value = current["spec"][field];
    const Json& then_value = recorded["spec"][field];
    if (SameOrEmpty(now_value, then_value)) {
      continue;
    }
    Json& spec = patch.At("spec");
    if (now_value.IsObject() && then_value.IsObject()) {
      spec.Set(field, DiffMergePatch(now_value, then_value));
    } else {
      spec.Set(field, then_value);  // null removes
    }
  }
  return patch;
}

bool TemplateHasLeftovers(const Json& current) {
  const Json& labels = current["metadata"]["labels"];
  return labels.Has(names::kPodSetLabel) || labels.Has(names::kPodGroupLabel);
}

}  // namespace tutti::reconciler
