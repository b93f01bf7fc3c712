// SPDX-License-Identifier: Apache-2.0
// Admission webhooks: an AdmissionReview in, its answer out. They are for what admission policies
// can't say and for servers without MutatingAdmissionPolicy; where the policies are, they find
// nothing left to do. Our own writes pass untouched. Rules: Kueue v0.19.2's webhooks for these
// kinds. Pure and thread-safe: one call per request, no state.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace tutti::webhooks {

struct Rules {
  std::string own_user;  // system:serviceaccount:<namespace>:<name>
  bool manage_jobs_without_queue_name = false;
  bool pods = false;          // framework pod: pods are queued by themselves
  bool deployments = false;   // framework deployment
  bool statefulsets = false;  // framework statefulset
  bool pod_groups = false;    // the server knows spec.schedulingGroup
  // Gate PartialAdmission; off: minCount is taken out of new Workloads.
  bool partial_admission = false;
  // Gate ElasticJobsViaWorkloadSlices: a pod set may shrink while quota is reserved, and the pods
  // of elastic Jobs get their gate.
  bool elastic_jobs = false;
  // Gate PriorityBoost: the annotation kueue.x-k8s.io/priority-boost must be a number.
  bool priority_boost = false;
  // Whether the namespace has a LocalQueue named "default"; thread-safe. Not set = never.
  std::function<bool(const std::string& ns)> has_default_queue;
  // Updates come to the validating webhook only (Kueue's configurations): somebody who resumes a
  // queued Job is let through, and the controller stops it again.
  bool others_may_resume = false;
  // Whether managedJobsNamespaceSelector matches the namespace; thread-safe. Not set = always.
  std::function<bool(const std::string& ns)> manages;
  // New Jobs without a class get the WorkloadPriorityClass "default": it exists, and the gate
  // WorkloadPriorityClassDefaulting is on.
  bool default_priority_class = false;
};

// One request of a review, taken apart.
struct Request {
  std::string operation;  // CREATE, UPDATE
  std::string subresource;
  std::string user;
  std::string ns;
  const Json* object = nullptr;
  const Json* old_object = nullptr;  // the null value on CREATE
  [[nodiscard]] bool IsUpdate() const { return operation == "UPDATE"; }
};

struct Verdict {
  std::vector<std::string>
      problems;  // each "field: what is wrong and what to do"; not empty = denied
  Json patch;    // a JSON patch (list), null = nothing
};

// Paths that Answer knows.
[[nodiscard]] const std::vector<std::string_view>& Paths();

// The AdmissionReview to send back. kInvalid when the body is no review (HTTP 400), kNotFound for
// an unknown path.
Result<Json> Answer(std::string_view path, const Json& review, const Rules& rules);

// The single rules, for tests and for the dispatcher.
// Any kind that is held by spec.suspend.
Verdict MutateJob(const Request& request, const Rules& rules);
Verdict ValidateSuspendedKind(const Request& request, const Rules& rules);
Verdict ValidateJob(const Request& request, const Rules& rules);
Verdict MutatePod(const Request& request, const Rules& rules);  // also: join the PodGroup
Verdict ValidateJobSet(const Request& request, const Rules& rules);
Verdict ValidatePod(const Request& request, const Rules& rules);
Verdict MutateDeployment(const Request& request, const Rules& rules);
Verdict ValidateDeployment(const Request& request, const Rules& rules);
Verdict MutateStatefulSet(const Request& request, const Rules& rules);
Verdict ValidateStatefulSet(const Request& request, const Rules& rules);
Verdict MutateWorkload(const Request& request, const Rules& rules);
Verdict MutateWithFinalizer(const Request& request,
                            const Rules& rules);  // ClusterQueue, ResourceFlavor
Verdict ValidateWorkload(const Request& request, const Rules& rules);
Verdict ValidateClusterQueue(const Request& request, const Rules& rules);
Verdict ValidateCohort(const Request& request, const Rules& rules);
Verdict ValidateResourceFlavor(const Request& request, const Rules& rules);

// A Job or pod that belongs to no other controller (a CronJob's Jobs stand for themselves).
[[nodiscard]] bool IsRoot(const Json& object);
// Names in kueue.x-k8s.io/admission-gated-by.
[[nodiscard]] std::vector<std::string> GateNames(const Json& object);
// Problems of that annotation; an update may only remove gates.
void CheckGates(const Request& request, std::vector<std::string>* problems);

}  // namespace tutti::webhooks
