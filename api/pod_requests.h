// SPDX-License-Identifier: Apache-2.0
// From a pod template to what its pods will really ask for: API defaulting, LimitRange, RuntimeClass
// overhead, sidecars and pod-level resources, in the order in which the API server and kube-scheduler
// apply them to a Pod (a Job's template itself is never defaulted).
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
};

// kInvalid names the field: a malformed quantity, a negative request, requests above limits.
// `pod` is a PodTemplateSpec or a Pod ({metadata?, spec}).
Result<PodShape> ShapeOf(const Json& pod, const PodContext& context);

// LimitRange violations (min/max per container and per pod) as Kueue checks them: one message per
// violation, empty when none. Also requests > limits.
std::vector<std::string> CheckLimits(const Json& pod, const PodContext& context);

}  // namespace tutti::api
