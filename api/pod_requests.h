// SPDX-License-Identifier: Apache-2.0
// From a pod template to what its pods will really ask for: API defaulting, LimitRange,
// RuntimeClass overhead, sidecars and pod-level resources, in the order in which the API server and
// kube-scheduler apply them to a Pod (a Job's template itself is never defaulted).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/core.h"
#include "base/json.h"
#include "base/result.h"

namespace tutti::api {

struct PodContext {
  std::vector<const LimitRange*> limit_ranges;  // of the namespace, in name order
  const RuntimeClass* runtime_class = nullptr;  // the one that the template names, if it exists
  std::string ns;                               // of the pods
  // Where the template is, for messages: spec.podSets[0].template, or "" for a Pod.
  std::string path = "spec.template";
};

// How the message about requests above limits begins.
inline constexpr std::string_view kRequestsAboveLimits = "resources validation failed: ";

// kInvalid names the field: a malformed quantity, a negative request, requests above limits.
// `pod` is a PodTemplateSpec or a Pod ({metadata?, spec}).
Result<PodShape> ShapeOf(const Json& pod, const PodContext& context);

// The shape of a Pod as the API server returned it: nothing is defaulted any more, an in-place
// resize in progress counts with its larger side (status.containerStatuses[].resources), and
// node_name is left empty (Pod::node_name has it). Amounts that overflow saturate.
Result<PodShape> ShapeOfRunning(const Json& pod);

// One pointer for equal shapes, for as long as somebody holds it. May be called from any thread.
std::shared_ptr<const PodShape> InternShape(PodShape shape);

// What the API server would refuse in the requests and limits of a template, one message per field:
// malformed or negative quantities, and the name `pods`, which Kueue's API reserves.
std::vector<std::string> CheckQuantities(const Json& pod, const std::string& path);

// Several problems as one text, as Kubernetes puts them together: "a" or "[a, b]".
std::string Aggregate(const std::vector<std::string>& problems);

// LimitRange violations (min/max per container and per pod) as Kueue checks them: one message per
// violation, empty when none. Also requests > limits.
std::vector<std::string> CheckLimits(const Json& pod, const PodContext& context);

}  // namespace tutti::api
