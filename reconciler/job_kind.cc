// SPDX-License-Identifier: Apache-2.0
#include "reconciler/job_kind.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/names.h"
#include "reconciler/names.h"

namespace tutti::reconciler {
namespace {

constexpr std::array<std::string_view, 3> kServerLabels = {"controller-uid", "job-name",
                                                           "batch.kubernetes.io/controller-uid"};
// Kept in the Workload's template as Kueue does, but not the user's.
constexpr std::string_view kJobNameLabel = "batch.kubernetes.io/job-name";
constexpr std::string_view kHostnameLabel = "kubernetes.io/hostname";
constexpr int kSteeringWeight = 100;
constexpr std::string_view kCompletionsFollowAnnotation =
    "kueue.x-k8s.io/job-completions-equal-parallelism";

Json ParseTemplate(const std::string& text) {
  auto parsed = Json::Parse(text);
  return parsed ? std::move(*parsed) : Json::Obj();
}

// Members of an object that are absent or empty mean the same to the API server.
bool SameOrEmpty(const Json& a, const Json& b) {
  const auto empty = [](const Json& json) {
    return json.IsNull() || (json.IsObject() && json.AsObject().empty()) ||
           (json.IsArray() && json.AsArray().empty());
  };
  return (empty(a) && empty(b)) || a == b;
}

Result<std::optional<int32_t>> PositiveInt(std::string_view text, std::string_view where) {
  if (text.empty()) {
    return std::optional<int32_t>{};
  }
  int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value <= 0) {
    return Fail(ErrorCode::kInvalid, std::string(where) + ": \"" + std::string(text) +
                                         "\" must be a whole number greater than 0");
  }
  return std::optional<int32_t>{value};
}

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

// With the annotation a Job's completions follow its parallelism.
void SetParallelism(const api::Job& job, int32_t parallelism, Json& spec) {
  spec.Set("parallelism", parallelism);
  const std::string_view follow = job.meta.Annotation(kCompletionsFollowAnnotation);
  if (follow == "true" || follow == "True" || follow == "TRUE" || follow == "t" || follow == "T" ||
      follow == "1") {
    spec.Set("completions", parallelism);
  }
}

api::WriteRequest JobPatch(const api::Job& job, Json spec) {
  api::WriteRequest write;
  write.verb = api::Verb::kMergePatch;
  write.resource = api::ResourceOf(api::Kind::kJob);
  write.key = job.meta.Key();
  write.field_manager = names::kUpdateManager;
  write.body = Json::Obj({{"metadata", Json::Obj({{"resourceVersion", job.meta.resource_version}})},
                          {"spec", std::move(spec)}});
  return write;
}

}  // namespace

Json SubmittedTemplate(const api::Job& job) {
  Json out = ParseTemplate(job.template_json);
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

Result<api::Workload> WorkloadFor(const api::Job& job, const Priority& priority) {
  api::Workload workload;
  workload.meta.name = WorkloadName("Job", "batch", job.meta.name, job.meta.uid);
  workload.meta.ns = job.meta.ns;
  workload.meta.labels[std::string(names::kJobUidLabel)] = job.meta.uid;
  workload.meta.finalizers = {std::string(names::kResourceInUseFinalizer)};
  workload.meta.owners = {{"batch/v1", "Job", job.meta.name, job.meta.uid, /*controller=*/true}};
  for (const auto& [key, value] : job.meta.annotations) {
    if (key.starts_with("provreq.kueue.x-k8s.io/") || key == names::kAdmissionGatedByAnnotation) {
      workload.meta.annotations[key] = value;
    }
  }
  workload.queue_name = job.meta.Label(names::kQueueNameLabel);
  TRY_ASSIGN(workload.max_execution_seconds,
             PositiveInt(job.meta.Label(names::kMaxExecTimeLabel),
                         "metadata.labels[kueue.x-k8s.io/max-exec-time-seconds]"));
  api::PodSet pod_set;
  pod_set.count = job.PodCount();
  TRY_ASSIGN(pod_set.min_count,
             PositiveInt(job.meta.Annotation(names::kMinParallelismAnnotation),
                         "metadata.annotations[kueue.x-k8s.io/job-min-parallelism]"));
  if (pod_set.min_count.has_value() && *pod_set.min_count >= pod_set.count) {
    return Fail(ErrorCode::kInvalid,
                "metadata.annotations[kueue.x-k8s.io/job-min-parallelism] must be less than the "
                "number of pods (" +
                    std::to_string(pod_set.count) + ")");
  }
  pod_set.template_json = SubmittedTemplate(job).Dump();
  workload.pod_sets.push_back(std::move(pod_set));
  workload.priority = priority.value;
  workload.priority_class = priority.ref;
  return workload;
}

std::string_view PrebuiltWorkloadOf(const api::Job& job, bool annotations) {
  const std::string_view by_annotation =
      annotations ? job.meta.Annotation(names::kPrebuiltWorkload) : std::string_view();
  return by_annotation.empty() ? job.meta.Label(names::kPrebuiltWorkload) : by_annotation;
}

bool Equivalent(const api::Job& job, const api::Workload& workload) {
  if (workload.pod_sets.size() != 1) {
    return false;
  }
  const auto limit = PositiveInt(job.meta.Label(names::kMaxExecTimeLabel), "");
  if (limit && *limit != workload.max_execution_seconds) {
    return false;
  }
  const api::PodSet& pod_set = workload.pod_sets.front();
  const auto minimum = PositiveInt(job.meta.Annotation(names::kMinParallelismAnnotation), "");
  if (minimum && *minimum != pod_set.min_count) {
    return false;
  }
  const bool admitted = workload.QuotaReserved();
  const Json recorded = ParseTemplate(pod_set.template_json);
  const Json current = ParseTemplate(job.template_json);
  // Of a job that may run in part, what a start has left of it until it is restored.
  const bool in_part = pod_set.min_count.has_value() && job.PodCount() <= pod_set.count &&
                       current["metadata"]["labels"].Has(names::kPodSetLabel);
  if (job.PodCount() != pod_set.count && !in_part) {
    return false;
  }
  const Json& was = recorded["spec"];
  const Json& is = current["spec"];
  if (!SameOrEmpty(was["containers"], is["containers"]) ||
      !SameOrEmpty(was["initContainers"], is["initContainers"])) {
    return false;
  }
  // A started job carries the flavor's tolerations on top of its own.
  return admitted || SameOrEmpty(was["tolerations"], is["tolerations"]);
}

Result<api::WriteRequest> StartPatch(const api::Job& job, const api::Workload& workload,
                                     const StartInfo& info) {
  const Json current = ParseTemplate(job.template_json);
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
                "spec.template.spec.nodeSelector", kFlavor, selector));
  TRY(MergeInto(current["spec"]["nodeSelector"], info.updates.node_selector,
                "spec.template.spec.nodeSelector", kCheck, selector));
  TRY(MergeInto(current["metadata"]["labels"], info.updates.labels, "spec.template.metadata.labels",
                kCheck, labels));
  Json annotations = Json::Obj();
  TRY(MergeInto(current["metadata"]["annotations"], info.updates.annotations,
                "spec.template.metadata.annotations", kCheck, annotations));
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
    const Json recorded =
        workload.pod_sets.empty() ? Json() : ParseTemplate(workload.pod_sets.front().template_json);
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
  Json spec = Json::Obj({{"suspend", false}});
  if (info.parallelism.has_value() && *info.parallelism != job.parallelism) {
    SetParallelism(job, *info.parallelism, spec);
  }
  if (!pod_template.AsObject().empty()) {
    spec.Set("template", std::move(pod_template));
  }
  return JobPatch(job, std::move(spec));
}

api::WriteRequest SuspendPatch(const api::Job& job) {
  return JobPatch(job, Json::Obj({{"suspend", true}}));
}

api::WriteRequest ResetStartPatch(const api::Job& job) {
  api::WriteRequest write = JobPatch(job, Json());
  write.subresource = "status";
  write.body.Erase("spec");
  write.body.Set("status", Json::Obj({{"startTime", Json()}}));
  return write;
}

bool RestoreWindowOpen(const api::Job& job) {
  return job.suspend && job.active == 0 &&
         (!job.start_time.has_value() || api::IsTrue(job.conditions, "Suspended"));
}

std::optional<api::WriteRequest> RestorePatch(const api::Job& job, const api::Workload& workload) {
  if (workload.pod_sets.size() != 1) {
    return std::nullopt;
  }
  const Json recorded = ParseTemplate(workload.pod_sets.front().template_json);
  Json current = ParseTemplate(job.template_json);
  // Compare only what a start changes; labels that the API server adds stay.
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
  Json spec = Json::Obj();
  if (!patch.AsObject().empty()) {
    spec.Set("template", std::move(patch));
  }
  // Partial admission lowered parallelism; give back what was asked for.
  const int32_t wanted = workload.pod_sets.front().count;
  if (workload.pod_sets.front().min_count.has_value() && job.PodCount() < wanted) {
    SetParallelism(job, wanted, spec);
  }
  if (spec.AsObject().empty()) {
    return std::nullopt;
  }
  return JobPatch(job, std::move(spec));
}

std::string GroupLabelOf(const api::Job& job) {
  const auto parsed = Json::Parse(job.template_json);
  return parsed ? (*parsed)["metadata"]["labels"][names::kPodGroupLabel].AsString() : "";
}

Result<std::vector<api::PodClaim>> GangClaimsOf(const api::Job& job) {
  constexpr std::string_view kWhere = "metadata.annotations[tutti.dev/gang-claims]: ";
  constexpr size_t kMaxClaims = 4;
  std::vector<api::PodClaim> shared;
  std::string_view text = job.meta.Annotation(names::kGangClaimsAnnotation);
  if (text.empty()) {
    return shared;
  }
  const auto fail = [&](const std::string& what) {
    return Fail(ErrorCode::kInvalid, std::string(kWhere) + what);
  };
  std::vector<std::string> wanted;
  for (size_t from = 0; from <= text.size();) {
    const size_t comma = std::min(text.find(',', from), text.size());
    std::string_view name = text.substr(from, comma - from);
    while (name.starts_with(' ')) {
      name.remove_prefix(1);
    }
    while (name.ends_with(' ')) {
      name.remove_suffix(1);
    }
    if (name.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end()) {
      return fail(name.empty() ? "an empty name between commas"
                               : "\"" + std::string(name) + "\" is named twice");
    }
    wanted.emplace_back(name);
    from = comma + 1;
  }
  if (wanted.size() > kMaxClaims) {
    return fail("at most 4 claims can be shared by a gang");
  }
  const Json parsed = ParseTemplate(job.template_json);
  if (!parsed["spec"]["schedulingGroup"]["podGroupName"].AsString().empty()) {
    return fail(
        "needs a group of the queue controller: remove the annotation, or "
        "spec.template.spec.schedulingGroup");
  }
  size_t index = 0;
  for (const Json& entry : parsed["spec"]["resourceClaims"].AsArray()) {
    const std::string& name = entry["name"].AsString();
    if (const auto it = std::find(wanted.begin(), wanted.end(), name); it != wanted.end()) {
      wanted.erase(it);
      shared.push_back({name, entry["resourceClaimName"].AsString(),
                        entry["resourceClaimTemplateName"].AsString()});
    } else if (!shared.empty()) {
      return Fail(ErrorCode::kInvalid,
                  "spec.template.spec.resourceClaims[" + std::to_string(index) + "]: \"" + name +
                      "\" belongs to one pod and must come before \"" + shared.front().name +
                      "\", which the gang shares (tutti.dev/gang-claims): kube-scheduler would "
                      "give each the devices of the other");
    }
    ++index;
  }
  if (!wanted.empty()) {
    return fail("\"" + wanted.front() + "\" is not in spec.template.spec.resourceClaims");
  }
  return shared;
}

}  // namespace tutti::reconciler
