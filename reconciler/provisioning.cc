// SPDX-License-Identifier: Apache-2.0
#include "reconciler/provisioning.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "base/names.h"
#include "reconciler/names.h"
#include "reconciler/pod_template.h"
#include "reconciler/status.h"

namespace tutti::reconciler {
namespace {

constexpr std::string_view kConfigKind = "ProvisioningRequestConfig";
constexpr std::string_view kPending = "Pending";
constexpr std::string_view kReady = "Ready";
constexpr std::string_view kRetry = "Retry";
constexpr std::string_view kRejected = "Rejected";

bool Uses(const Json& pod_spec, const std::vector<std::string>& resources) {
  for (const std::string_view list : {"containers", "initContainers"}) {
    for (const Json& container : pod_spec[list].AsArray()) {
      for (const std::string& resource : resources) {
        if (container["resources"]["requests"].Has(resource) ||
            container["resources"]["limits"].Has(resource)) {
          return true;
        }
      }
    }
  }
  return false;
}

bool SameRequests(const Json& a, const Json& b) {
  const auto left = api::ResourceListFromJson(a["resources"]["requests"]);
  const auto right = api::ResourceListFromJson(b["resources"]["requests"]);
  return left && right && *left == *right;
}

bool SameContainers(const Json& a, const Json& b) {
  return a.AsArray().size() == b.AsArray().size() &&
         std::equal(a.AsArray().begin(), a.AsArray().end(), b.AsArray().begin(), SameRequests);
}

bool Mergeable(const Json& a, const Json& b, api::PodSetMerge policy) {
  if (policy != api::PodSetMerge::kIdenticalRequirements) {
    return policy == api::PodSetMerge::kIdenticalTemplates && a == b;
  }
  const Json& left = a["spec"];
  const Json& right = b["spec"];
  if (!SameContainers(left["containers"], right["containers"]) ||
      !SameContainers(left["initContainers"], right["initContainers"])) {
    return false;
  }
  const std::string_view fields[] = {"resources", "nodeSelector", "tolerations", "affinity",
                                     "resourceClaims"};
  return std::all_of(std::begin(fields), std::end(fields), [&](std::string_view field) {
    return SameOrEmpty(left[field], right[field]);
  });
}

bool AsConfigured(const api::ProvisioningRequest& request, const api::ProvisioningConfig& config) {
  return request.class_name == config.class_name &&
         std::all_of(config.parameters.begin(), config.parameters.end(), [&](const auto& entry) {
           const std::string* value = api::FindIn(request.parameters, entry.first);
           return value != nullptr && *value == entry.second;
         });
}

std::string MessageOf(const api::ProvisioningRequest& request, std::string_view type) {
  const api::Condition* condition = api::FindCondition(request.conditions, type);
  return condition != nullptr ? condition->message : "";
}

// What provisioned pods carry: every pod set whose template the request has, merged ones too.
Json UpdatesOf(const api::Workload& workload, const api::ProvisioningConfig& config,
               const api::ProvisioningRequest& request) {
  const Json annotations =
      Json::Obj({{std::string(api::kConsumeProvisioningRequestAnnotation), request.meta.name},
                 {std::string(api::kProvisioningClassAnnotation), request.class_name}});
  Json selector = Json::Obj();
  for (const auto& [key, detail] : config.node_selector) {
    if (const std::string* value = api::FindIn(request.class_details, detail)) {
      selector.Set(key, *value);
    }
  }
  Json updates = Json::Arr();
  for (const AskedPods& asked : PodsToAskFor(workload, config)) {
    const std::string name =
        ProvisioningTemplateName(request.meta.name, asked.pod_sets.front()->name);
    if (std::none_of(request.pod_sets.begin(), request.pod_sets.end(),
                     [&](const auto& pod_set) { return pod_set.pod_template == name; })) {
      continue;
    }
    for (const api::PodSet* pod_set : asked.pod_sets) {
      Json update = Json::Obj({{"name", pod_set->name}, {"annotations", annotations}});
      if (!selector.AsObject().empty()) {
        update.Set("nodeSelector", selector);
      }
      updates.Push(std::move(update));
    }
  }
  return updates;
}

// A failed attempt: another one follows after a pause, or that was the last.
void AfterFailure(const api::ProvisioningConfig& config, const Attempt& latest,
                  std::string_view what, const std::string& why, api::AdmissionCheckState& check) {
  if (latest.number > config.backoff_limit) {
    check.state = kRejected;
    check.message = why;
    return;
  }
  check.message = "Retrying after " + std::string(what) + ": " + why;
  if (latest.number <= check.retry_count) {
    return;  // answered by a retry already
  }
  check.state = kRetry;
  const Duration pause =
      Backoff(check.retry_count + 1, std::chrono::seconds(config.backoff_base_seconds),
              std::chrono::seconds(config.backoff_max_seconds));
  check.requeue_after_seconds =
      static_cast<int32_t>(std::chrono::duration_cast<std::chrono::seconds>(pause).count());
}

void Answer(const api::Workload& workload, const api::ProvisioningConfig& config,
            const Attempt& latest, api::AdmissionCheckState& check) {
  const api::ProvisioningRequest& request = *latest.request;
  const auto is = [&](std::string_view type) { return api::IsTrue(request.conditions, type); };
  if (is("Failed")) {
    AfterFailure(config, latest, "failure", MessageOf(request, "Failed"), check);
  } else if (is("CapacityRevoked")) {
    // The nodes are gone: replacement pods would wait for ever, so the workload is deactivated.
    if (workload.active && !workload.Finished()) {
      check.state = kRejected;
      check.message = MessageOf(request, "CapacityRevoked");
    }
  } else if (is("BookingExpired")) {
    // Of pods that run the booking is no longer needed.
    if (!workload.Admitted()) {
      AfterFailure(config, latest, "booking expired", MessageOf(request, "BookingExpired"), check);
    }
  } else if (is("Provisioned")) {
    if (check.state != kReady) {
      check.state = kReady;
      check.message = MessageOf(request, "Provisioned");
      check.pod_set_updates = UpdatesOf(workload, config, request);
    }
  } else if (is("Accepted")) {
    if (api::FindCondition(request.conditions, "Provisioned") != nullptr) {
      check.state = kPending;
      check.message = MessageOf(request, "Provisioned");  // when nodes are expected
    }
  } else {
    check.state = kPending;
    check.message.clear();
  }
}

// Adds the flavors' labels and tolerations to a pod template.
Status AddFlavors(const api::PodSetAssignment* assignment,
                  const Store<api::ResourceFlavor>& flavors, Json& pod_spec) {
  std::set<std::string> names;
  if (assignment != nullptr) {
    for (const auto& [resource, flavor] : assignment->flavors) {
      names.insert(flavor);
    }
  }
  for (const std::string& name : names) {
    const auto flavor = flavors.Find({"", name});
    if (flavor == nullptr) {
      continue;
    }
    for (const auto& [key, value] : flavor->node_labels) {
      const Json* current = pod_spec["nodeSelector"].Find(key);
      if (current != nullptr && current->AsString() != value) {
        return Fail(ErrorCode::kInvalid, "spec.nodeSelector[" + key + "] is \"" +
                                             current->AsString() + "\", but ResourceFlavor \"" +
                                             name + "\" needs \"" + value + "\"");
      }
      pod_spec.At("nodeSelector").Set(key, value);
    }
    const Json more = api::ToJson(flavor->tolerations);
    for (const Json& toleration : more.AsArray()) {
      const auto& list = pod_spec["tolerations"].AsArray();
      if (std::find(list.begin(), list.end(), toleration) == list.end()) {
        pod_spec.At("tolerations").Push(toleration);
      }
    }
  }
  return {};
}

// A limit without a request is one: an autoscaler reads requests.
void FillRequests(Json& holder) {
  if (!holder["resources"]["limits"].IsObject()) {
    return;
  }
  Json& resources = holder.At("resources");
  const Json limits = resources["limits"];
  for (const auto& [name, amount] : limits.AsObject()) {
    if (!resources["requests"].Has(name)) {
      resources.At("requests").Set(name, amount);
    }
  }
}

api::OwnerReference OwnerOf(const api::Workload& workload) {
  return {std::string(names::kKueueVersion), "Workload", workload.meta.name, workload.meta.uid,
          /*controller=*/true};
}

Json MetadataFor(const api::Workload& workload, const std::string& name) {
  return Json::Obj({{"name", name},
                    {"namespace", workload.meta.ns},
                    {"labels", Json::Obj({{std::string(names::kManagedLabel), "true"}})},
                    {"ownerReferences", Json::Arr({api::ToJson(OwnerOf(workload))})}});
}

}  // namespace

CheckProblem ProvisioningProblem(const api::AdmissionCheck& check,
                                 const Store<api::ProvisioningConfig>& configs, bool served) {
  const auto bad = [](std::string message) {
    return CheckProblem{"BadParametersRef", std::move(message)};
  };
  if (!check.parameters.has_value()) {
    return bad("spec.parameters: missing parameters reference; name a " + std::string(kConfigKind));
  }
  const api::CheckParameters& reference = *check.parameters;
  if (reference.name.empty()) {
    return bad("spec.parameters.name: empty; name a " + std::string(kConfigKind));
  }
  if (reference.group != names::kKueueGroup) {
    return bad("spec.parameters.apiGroup: wrong group \"" + reference.group + "\", expecting \"" +
               std::string(names::kKueueGroup) + "\"");
  }
  if (reference.kind != kConfigKind) {
    return bad("spec.parameters.kind: wrong kind \"" + reference.kind + "\", expecting \"" +
               std::string(kConfigKind) + "\"");
  }
  if (configs.Find({"", reference.name}) == nullptr) {
    return bad("spec.parameters.name: " + std::string(kConfigKind) + " \"" + reference.name +
               "\" does not exist; create it or name another");
  }
  if (!served) {
    return {"ProvisioningRequestNotServed",
            "The API server does not serve ProvisioningRequest (autoscaling.x-k8s.io/v1): install "
            "the CRD of the cluster autoscaler; the check is active soon after that"};
  }
  return {};
}

std::vector<AskedPods> PodsToAskFor(const api::Workload& workload,
                                    const api::ProvisioningConfig& config) {
  std::vector<AskedPods> asked;
  std::vector<Json> templates;  // of asked
  for (const api::PodSet& pod_set : workload.pod_sets) {
    const auto& assignments = workload.status.admission->assignments;
    const auto assignment =
        std::find_if(assignments.begin(), assignments.end(),
                     [&](const auto& entry) { return entry.name == pod_set.name; });
    const bool assigned = assignment != assignments.end();
    const int32_t count =
        assigned && assignment->count.has_value() ? *assignment->count : pod_set.count;
    Json pod_template = ParseTemplate(pod_set.template_json);
    if (pod_set.count <= 0 || count <= 0 ||
        (!config.managed_resources.empty() &&
         !Uses(pod_template["spec"], config.managed_resources))) {
      continue;
    }
    const auto like = std::find_if(templates.begin(), templates.end(), [&](const Json& other) {
      return Mergeable(other, pod_template, config.merge);
    });
    if (like != templates.end()) {
      AskedPods& first = asked[static_cast<size_t>(like - templates.begin())];
      first.pod_sets.push_back(&pod_set);
      first.count += count;
      continue;
    }
    asked.push_back({{&pod_set}, assigned ? &*assignment : nullptr, count});
    templates.push_back(std::move(pod_template));
  }
  return asked;
}

Attempt LatestAttempt(const std::vector<const api::ProvisioningRequest*>& requests,
                      std::string_view workload, std::string_view check,
                      const api::ProvisioningConfig& config) {
  Attempt latest;
  for (const api::ProvisioningRequest* request : requests) {
    if (request->meta.deleted.has_value() || !AsConfigured(*request, config)) {
      continue;
    }
    const auto attempt = ProvisioningAttempt(request->meta.name, workload, check);
    if (attempt.has_value() && *attempt > latest.number) {
      latest = {request, *attempt};
    }
  }
  return latest;
}

api::AdmissionCheckState CheckAfter(const api::Workload& workload, api::AdmissionCheckState check,
                                    const api::ProvisioningConfig* config, const Attempt& latest,
                                    Time now) {
  const std::string before = check.state;
  if (config == nullptr) {
    check.state = kPending;
    check.message = "the check is not active";
  } else if (PodsToAskFor(workload, *config).empty()) {
    if (check.state != kReady) {
      check.state = kReady;
      check.message = "the provisioning request is not needed";
      check.pod_set_updates = Json();
    }
  } else if (latest.request != nullptr) {
    Answer(workload, *config, latest, check);
  }
  if (check.state != before) {
    check.last_transition = now;
  }
  return check;
}

std::optional<int32_t> NextAttempt(const api::Workload& workload,
                                   const api::AdmissionCheckState& check, const Attempt& latest) {
  if (check.state == kReady) {
    return std::nullopt;
  }
  if (latest.request == nullptr) {
    return check.retry_count + 1;  // earlier ones were deleted with the evictions that they caused
  }
  const api::Conditions& conditions = latest.request->conditions;
  const bool over = api::IsTrue(conditions, "Failed") ||
                    (api::IsTrue(conditions, "BookingExpired") && !workload.Admitted());
  // In Retry and Rejected the eviction comes first.
  return over && check.state == kPending ? std::optional<int32_t>(latest.number + 1) : std::nullopt;
}

api::WriteRequest CreateRequest(const api::Workload& workload,
                                const api::ProvisioningConfig& config, const std::string& name,
                                const std::vector<AskedPods>& pods) {
  api::StringMap parameters = config.parameters;
  for (const auto& [key, value] : workload.meta.annotations) {
    if (key.starts_with(names::kProvisioningParameterPrefix)) {
      parameters[key.substr(names::kProvisioningParameterPrefix.size())] = value;
    }
  }
  Json pod_sets = Json::Arr();
  for (const AskedPods& asked : pods) {
    pod_sets.Push(Json::Obj(
        {{"podTemplateRef",
          Json::Obj({{"name", ProvisioningTemplateName(name, asked.pod_sets.front()->name)}})},
         {"count", asked.count}}));
  }
  Json spec =
      Json::Obj({{"provisioningClassName", config.class_name}, {"podSets", std::move(pod_sets)}});
  if (!parameters.empty()) {
    spec.Set("parameters", api::ToJson(parameters));
  }
  api::WriteRequest write;
  write.verb = api::Verb::kCreate;
  write.resource = api::ProvisioningRequestResource();
  write.key = {workload.meta.ns, name};
  write.field_manager = names::kUpdateManager;
  write.body = Json::Obj({{"apiVersion", write.resource.ApiVersion()},
                          {"kind", write.resource.kind},
                          {"metadata", MetadataFor(workload, name)},
                          {"spec", std::move(spec)}});
  return write;
}

Result<api::WriteRequest> CreateTemplate(const api::Workload& workload, const AskedPods& pods,
                                         const Store<api::ResourceFlavor>& flavors,
                                         const std::string& request,
                                         const api::PodTemplate* existing) {
  const api::PodSet& pod_set = *pods.pod_sets.front();
  Json pod_template = ParseTemplate(pod_set.template_json);
  Json& spec = pod_template.At("spec");
  TRY(AddFlavors(pods.assignment, flavors, spec));
  for (const std::string_view list : {"containers", "initContainers"}) {
    if (spec.Has(list)) {
      for (Json& container : spec.At(list).MutableArray()) {
        FillRequests(container);
      }
    }
  }
  FillRequests(spec);
  api::WriteRequest write;
  write.verb = existing != nullptr ? api::Verb::kUpdate : api::Verb::kCreate;
  write.resource = api::PodTemplateResource();
  write.key = {workload.meta.ns, ProvisioningTemplateName(request, pod_set.name)};
  write.field_manager = names::kUpdateManager;
  Json metadata = MetadataFor(workload, write.key.name);
  if (existing != nullptr) {
    metadata.Set("resourceVersion", existing->meta.resource_version);
  }
  write.body = Json::Obj({{"apiVersion", write.resource.ApiVersion()},
                          {"kind", write.resource.kind},
                          {"metadata", std::move(metadata)},
                          {"template", std::move(pod_template)}});
  return write;
}

std::optional<api::WriteRequest> HandOver(const api::PodTemplate& pod_template,
                                          const api::ProvisioningRequest& request) {
  const api::OwnerReference* controller = pod_template.meta.Controller();
  if (controller != nullptr && controller->uid == request.meta.uid) {
    return std::nullopt;
  }
  Json owners = Json::Arr();
  for (const api::OwnerReference& owner : pod_template.meta.owners) {
    if (!owner.controller) {
      owners.Push(api::ToJson(owner));
    }
  }
  const api::Resource resource = api::ProvisioningRequestResource();
  owners.Push(api::ToJson(api::OwnerReference{resource.ApiVersion(), resource.kind,
                                              request.meta.name, request.meta.uid,
                                              /*controller=*/true}));
  api::WriteRequest write;
  write.verb = api::Verb::kMergePatch;
  write.resource = api::PodTemplateResource();
  write.key = pod_template.meta.Key();
  write.field_manager = names::kUpdateManager;
  write.body =
      Json::Obj({{"metadata", Json::Obj({{"resourceVersion", pod_template.meta.resource_version},
                                         {"ownerReferences", std::move(owners)}})}});
  return write;
}

api::WriteRequest DeleteRequest(const api::ProvisioningRequest& request) {
  api::WriteRequest write;
  write.verb = api::Verb::kDelete;
  write.resource = api::ProvisioningRequestResource();
  write.key = request.meta.Key();
  write.body = Json::Obj({{"preconditions", Json::Obj({{"uid", request.meta.uid}})}});
  return write;
}

api::WriteRequest ApplyChecks(const api::Workload& workload,
                              const std::vector<api::AdmissionCheckState>& checks) {
  api::Workload next = workload;
  next.status.checks = checks;
  Json body = api::StatusApplyBody(next, /*strict=*/true);
  Json list = body["status"]["admissionChecks"];
  body.Set("status", Json::Obj({{"admissionChecks", std::move(list)}}));
  api::WriteRequest write = ApplyStatus(workload);
  write.field_manager = names::kProvisioningController;
  write.body = std::move(body);
  return write;
}

std::string OwningWorkload(const api::ObjectMeta& meta) {
  const api::OwnerReference* owner = meta.Controller();
  return owner != nullptr && owner->kind == "Workload" &&
                 owner->api_version.starts_with(std::string(names::kKueueGroup) + "/")
             ? owner->uid
             : "";
}

}  // namespace tutti::reconciler
