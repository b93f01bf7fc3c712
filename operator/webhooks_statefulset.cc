// SPDX-License-Identifier: Apache-2.0
// Rules for StatefulSets: its pods are held for it, and what they ask for stays as it is while it
// has a queue. Its labels are not written into its template: a change of queue would replace every
// pod.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/names.h"
#include "operator/webhooks.h"
#include "operator/webhooks_common.h"
#include "reconciler/queued_pod.h"

namespace tutti::webhooks {
namespace {

using reconciler::kStatefulSetParent;

// Its pods are held for another kind, which has made it (a LeaderWorkerSet).
bool OfAnotherKind(const Json& set) {
  const std::string& parent =
      set["spec"]["template"]["metadata"]["annotations"][names::kSuspendingParent].AsString();
  return !parent.empty() && parent != kStatefulSetParent;
}

bool Queued(const Json& set, const std::string& queue, const Rules& rules) {
  return !queue.empty() || (rules.manage_jobs_without_queue_name && IsRoot(set));
}

void CheckReplicas(const Json& set, const Json& old, std::vector<std::string>& problems) {
  const int64_t now = set["spec"]["replicas"].AsInt(1);
  const int64_t before = old["spec"]["replicas"].AsInt(1);
  if (now != before && now != 0 && before != 0) {
    problems.push_back("spec.replicas: cannot be changed from " + std::to_string(before) + " to " +
                       std::to_string(now) +
                       " while the StatefulSet has a queue: scale to 0 first");
  } else if (before == 0 && now > 0 && set["status"]["replicas"].AsInt() > 0) {
    problems.push_back(
        "spec.replicas: scaling down is still in progress: wait until its pods are "
        "gone");
  }
}

}  // namespace

Verdict MutateStatefulSet(const Request& request, const Rules& rules) {
  Verdict verdict;
  const Json& set = *request.object;
  if (!rules.statefulsets || !Manages(rules, request.ns) || OfAnotherKind(set)) {
    return verdict;
  }
  const std::string queue =
      IsRoot(set) ? QueueOf(set, request, rules) : Label(set, names::kQueueNameLabel);
  if (!Queued(set, queue, rules)) {
    return verdict;
  }
  MapPatch labels(verdict.patch, "/metadata/labels", set["metadata"]["labels"]);
  if (!queue.empty()) {
    labels.Set(names::kQueueNameLabel, queue);
  }
  if (rules.default_priority_class && Label(set, names::kPriorityClassLabel).empty()) {
    labels.Set(names::kPriorityClassLabel, "default");
  }
  const Json& metadata = set["spec"]["template"]["metadata"];
  if (!metadata.IsObject()) {
    verdict.patch.Push(Operation("add", "/spec/template/metadata", Json::Obj()));
  }
  MapPatch annotations(verdict.patch, "/spec/template/metadata/annotations",
                       metadata["annotations"]);
  annotations.Set(names::kSuspendingParent, kStatefulSetParent);
  return verdict;
}

Verdict ValidateStatefulSet(const Request& request, const Rules& rules) {
  Verdict verdict;
  const Json& set = *request.object;
  if (!rules.statefulsets || OfAnotherKind(set)) {
    return verdict;
  }
  CheckQueueName(set, verdict.problems);
  CheckGates(request, &verdict.problems);
  if (rules.elastic_jobs && Annotation(set, names::kElasticJobAnnotation) == "true") {
    verdict.problems.push_back(Field("annotations", names::kElasticJobAnnotation) +
                               "a StatefulSet can't be elastic: take it off");
  }
  if (!request.IsUpdate()) {
    return verdict;
  }
  const Json& old = *request.old_object;
  const bool held = old["status"]["readyReplicas"].AsInt() == 0;
  const std::string& queue = Label(set, names::kQueueNameLabel);
  const std::string& old_queue = Label(old, names::kQueueNameLabel);
  if ((!held || queue.empty()) && queue != old_queue) {
    verdict.problems.push_back(
        Field("labels", names::kQueueNameLabel) +
        (queue.empty() ? "cannot be removed: set another queue, or delete the StatefulSet"
                       : "cannot be changed from \"" + old_queue + "\" to \"" + queue +
                             "\" while pods are ready: scale to 0 first"));
  }
  CheckPriorityClass(request, held, verdict.problems);
  if (Manages(rules, request.ns) && Queued(set, queue, rules)) {
    if (!reconciler::SameRole(set["spec"]["template"]["spec"], old["spec"]["template"]["spec"])) {
      verdict.problems.push_back(
          "spec.template.spec: what the pods ask for (requests, ports, node selector, affinity, "
          "tolerations, claims) cannot be changed while the StatefulSet has a queue: make another "
          "one");
    }
    CheckReplicas(set, old, verdict.problems);
  }
  return verdict;
}

}  // namespace tutti::webhooks
