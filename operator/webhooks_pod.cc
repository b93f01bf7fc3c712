// SPDX-License-Identifier: Apache-2.0
// Rules for pods and Deployments: hold pods by a scheduling gate, hand a Deployment's queue on to
// its pods; what labels and annotations of pod groups may say.
#include <cstdint>
#include <string>

#include "api/meta.h"
#include "base/names.h"
#include "operator/syntax.h"
#include "operator/webhooks.h"
#include "operator/webhooks_common.h"
#include "reconciler/queued_pod.h"

namespace tutti::webhooks {
namespace {

constexpr std::string_view kDeployment = "deployment";

bool HasItem(const Json& list, std::string_view field, std::string_view wanted) {
  for (const Json& item : list.AsArray()) {
    if ((field.empty() ? item.AsString() : item[field].AsString()) == wanted) {
      return true;
    }
  }
  return false;
}

// A pod of a Job is queued through the Job, or not at all.
bool OfJob(const Json& pod) {
  for (const Json& owner : pod["metadata"]["ownerReferences"].AsArray()) {
    if (owner["controller"].AsBool() && owner["kind"].AsString() == "Job" &&
        owner["apiVersion"].AsString().rfind("batch/", 0) == 0) {
      return true;
    }
  }
  return false;
}

void AddToList(const Json& list, const std::string& path, Json item, Json& patch) {
  if (list.IsArray()) {
    patch.Push(Operation("add", path + "/-", std::move(item)));
  } else {
    patch.Push(Operation("add", path, Json::Arr({std::move(item)})));
  }
}

void HoldPod(const Request& request, const Rules& rules, Json& patch) {
  const Json& pod = *request.object;
  const bool parent = Has(pod, "annotations", names::kSuspendingParent);
  MapPatch labels(patch, "/metadata/labels", pod["metadata"]["labels"]);
  if (!parent) {
    if (!rules.pods || !Manages(rules, request.ns) || OfJob(pod)) {
      return;
    }
    const std::string queue = QueueOf(pod, request, rules);
    if (!queue.empty()) {
      labels.Set(names::kQueueNameLabel, queue);
    }
    if (queue.empty() && !rules.manage_jobs_without_queue_name) {
      return;
    }
    if (rules.default_priority_class && Label(pod, names::kPriorityClassLabel).empty()) {
      labels.Set(names::kPriorityClassLabel, "default");
    }
    labels.Set(names::kManagedLabel, "true");
    const Json& finalizers = pod["metadata"]["finalizers"];
    if (!HasItem(finalizers, "", names::kManagedLabel)) {
      AddToList(finalizers, "/metadata/finalizers", std::string(names::kManagedLabel), patch);
    }
  } else if (!rules.pods && !rules.deployments && !rules.statefulsets) {
    return;  // nobody would let it go again
  }
  const Json& gates = pod["spec"]["schedulingGates"];
  if (!HasItem(gates, "name", names::kAdmissionGate)) {
    AddToList(gates, "/spec/schedulingGates", Json::Obj({{"name", names::kAdmissionGate}}), patch);
  }
  MapPatch annotations(patch, "/metadata/annotations", pod["metadata"]["annotations"]);
  annotations.Set(names::kRoleHash,
                  reconciler::RoleOf(api::MetaFromJson(pod["metadata"]), pod["spec"]));
}

bool Gated(const Json& pod) {
  return HasItem(pod["spec"]["schedulingGates"], "name", names::kAdmissionGate);
}

bool Terminated(const Json& pod) {
  const std::string& phase = pod["status"]["phase"].AsString();
  return phase == "Succeeded" || phase == "Failed";
}

std::string GroupOf(const Json& pod) {
  const std::string& annotation = Annotation(pod, names::kPodGroupName);
  return annotation.empty() ? Label(pod, names::kPodGroupName) : annotation;
}

std::string GroupField(const Json& pod) {
  return Field(Annotation(pod, names::kPodGroupName).empty() ? "labels" : "annotations",
               names::kPodGroupName);
}

}  // namespace

void CheckQueueName(const Json& object, std::vector<std::string>& problems) {
  if (Has(object, "labels", names::kQueueNameLabel)) {
    const std::string problem = syntax::CheckSubdomain(Label(object, names::kQueueNameLabel));
    if (!problem.empty()) {
      problems.push_back(Field("labels", names::kQueueNameLabel) +
                         "not the name of a LocalQueue: " + problem);
    }
  }
}

void CheckPriorityClass(const Request& request, bool held, std::vector<std::string>& problems) {
  const std::string& now = Label(*request.object, names::kPriorityClassLabel);
  const std::string& before = Label(*request.old_object, names::kPriorityClassLabel);
  const std::string field = Field("labels", names::kPriorityClassLabel);
  if (!before.empty() && now.empty()) {
    problems.push_back(field + "cannot be removed: set it to another WorkloadPriorityClass");
  } else if (!held && before.empty() && !now.empty()) {
    problems.push_back(field + "cannot be added to what runs already");
  }
}

namespace {

void CheckGroup(const Request& request, std::vector<std::string>& problems) {
  const Json& pod = *request.object;
  const std::string group = GroupOf(pod);
  const std::string count_field = Field("annotations", names::kPodGroupTotalCount);
  const bool has_count = Has(pod, "annotations", names::kPodGroupTotalCount);
  if (group.empty() && has_count) {
    problems.push_back(GroupField(pod) + "must be set where " +
                       std::string(names::kPodGroupTotalCount) + " is");
  }
  if (!group.empty()) {
    const std::string problem = syntax::CheckSubdomain(group);
    if (!problem.empty()) {
      problems.push_back(GroupField(pod) + "not the name of a group: " + problem);
    }
    if (!has_count) {
      problems.push_back(count_field + "must be set where " + std::string(names::kPodGroupName) +
                         " is: the number of the group's pods");
    }
  }
  if (has_count) {
    const std::string& text = Annotation(pod, names::kPodGroupTotalCount);
    const auto count = Positive(text);
    if (!count || *count > INT32_MAX) {
      problems.push_back(count_field + "\"" + text + "\" must be a whole number greater than 0");
    }
  }
  const std::string& prebuilt = PrebuiltName(pod);
  if (!group.empty() && !prebuilt.empty() && prebuilt != group) {
    problems.push_back(
        Field(Annotation(pod, names::kPrebuiltWorkload).empty() ? "labels" : "annotations",
              names::kPrebuiltWorkload) +
        "must be the name of the group, \"" + group + "\"");
  }
  if (!request.IsUpdate()) {
    return;
  }
  const Json& old = *request.old_object;
  if (!GroupOf(old).empty() && GroupOf(old) != group) {
    problems.push_back(GroupField(pod) + "cannot be changed from \"" + GroupOf(old) + "\" to \"" +
                       group + "\"");
  }
  if (!group.empty() && Annotation(old, names::kRetriableInGroup) == "false" &&
      Annotation(pod, names::kRetriableInGroup) != "false") {
    problems.push_back(Field("annotations", names::kRetriableInGroup) +
                       "cannot be taken back: the group may have ended by it");
  }
}

}  // namespace

Verdict MutatePod(const Request& request, const Rules& rules) {
  Verdict verdict;
  const Json& pod = *request.object;
  if (request.IsUpdate()) {
    return verdict;
  }
  const std::string& group = Label(pod, names::kPodGroupLabel);
  if (rules.pod_groups && !group.empty() && !pod["spec"].Has("schedulingGroup")) {
    verdict.patch.Push(
        Operation("add", "/spec/schedulingGroup", Json::Obj({{"podGroupName", group}})));
  }
  HoldPod(request, rules, verdict.patch);
  return verdict;
}

Verdict ValidatePod(const Request& request, const Rules& rules) {
  Verdict verdict;
  if (!rules.pods && !rules.deployments && !rules.statefulsets) {
    return verdict;
  }
  const Json& pod = *request.object;
  CheckQueueName(pod, verdict.problems);
  if (Has(pod, "labels", names::kManagedLabel) && Label(pod, names::kManagedLabel) != "true") {
    verdict.problems.push_back(Field("labels", names::kManagedLabel) + "can only be \"true\"");
  }
  if (Has(pod, "labels", names::kMaxExecTimeLabel)) {
    const auto limit = Positive(Label(pod, names::kMaxExecTimeLabel));
    if (!limit || *limit > INT32_MAX) {
      verdict.problems.push_back(Field("labels", names::kMaxExecTimeLabel) +
                                 "must be a number of seconds from 1 to 2147483647");
    }
  }
  CheckGroup(request, verdict.problems);
  CheckGates(request, &verdict.problems);
  if (request.IsUpdate()) {
    const Json& old = *request.old_object;
    const bool held = Gated(pod) || Terminated(pod);
    const std::string& queue = Label(pod, names::kQueueNameLabel);
    const std::string& old_queue = Label(old, names::kQueueNameLabel);
    if (!held && !old_queue.empty() && queue != old_queue) {
      verdict.problems.push_back(Field("labels", names::kQueueNameLabel) +
                                 "cannot be changed from \"" + old_queue + "\" to \"" + queue +
                                 "\" while the pod runs");
    }
    if (Label(pod, names::kMaxExecTimeLabel) != Label(old, names::kMaxExecTimeLabel) &&
        !(held && (Gated(old) || Terminated(old)))) {
      verdict.problems.push_back(Field("labels", names::kMaxExecTimeLabel) +
                                 "can be changed only while the pod is held");
    }
    CheckPriorityClass(request, held, verdict.problems);
  }
  return verdict;
}

Verdict MutateDeployment(const Request& request, const Rules& rules) {
  Verdict verdict;
  const Json& deployment = *request.object;
  if (!rules.deployments || !Manages(rules, request.ns) || !IsRoot(deployment)) {
    return verdict;
  }
  MapPatch own(verdict.patch, "/metadata/labels", deployment["metadata"]["labels"]);
  const std::string queue = QueueOf(deployment, request, rules);
  if (!queue.empty()) {
    own.Set(names::kQueueNameLabel, queue);
  }
  if (queue.empty() && !rules.manage_jobs_without_queue_name) {
    return verdict;
  }
  std::string priority = Label(deployment, names::kPriorityClassLabel);
  if (rules.default_priority_class && priority.empty()) {
    priority = "default";
    own.Set(names::kPriorityClassLabel, priority);
  }
  const Json& metadata = deployment["spec"]["template"]["metadata"];
  if (!metadata.IsObject()) {
    verdict.patch.Push(Operation("add", "/spec/template/metadata", Json::Obj()));
  }
  MapPatch annotations(verdict.patch, "/spec/template/metadata/annotations",
                       metadata["annotations"]);
  annotations.Set(names::kSuspendingParent, kDeployment);
  MapPatch labels(verdict.patch, "/spec/template/metadata/labels", metadata["labels"]);
  labels.Set(names::kManagedLabel, "true");
  if (!queue.empty()) {
    labels.Set(names::kQueueNameLabel, queue);
  }
  if (!priority.empty()) {
    labels.Set(names::kPriorityClassLabel, priority);
  }
  return verdict;
}

Verdict ValidateDeployment(const Request& request, const Rules& rules) {
  Verdict verdict;
  if (!rules.deployments) {
    return verdict;
  }
  const Json& deployment = *request.object;
  CheckQueueName(deployment, verdict.problems);
  CheckGates(request, &verdict.problems);
  if (request.IsUpdate()) {
    const Json& old = *request.old_object;
    const bool held = old["status"]["readyReplicas"].AsInt() == 0;
    const std::string& queue = Label(deployment, names::kQueueNameLabel);
    const std::string& old_queue = Label(old, names::kQueueNameLabel);
    if ((!held || queue.empty()) && queue != old_queue) {
      verdict.problems.push_back(
          Field("labels", names::kQueueNameLabel) +
          (queue.empty() ? "cannot be removed: set another queue, or delete the Deployment"
                         : "cannot be changed from \"" + old_queue + "\" to \"" + queue +
                               "\" while pods are ready: scale to 0 first"));
    }
    CheckPriorityClass(request, held, verdict.problems);
  }
  return verdict;
}

}  // namespace tutti::webhooks
