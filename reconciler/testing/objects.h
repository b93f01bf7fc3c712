// SPDX-License-Identifier: Apache-2.0
// What the imitations of a cluster ask of objects as JSON.
#pragma once

#include <cstdint>
#include <string>

#include "api/meta.h"
#include "api/quantity.h"
#include "api/request.h"
#include "base/json.h"
#include "reconciler/gang.h"

namespace tutti::reconciler::testing {

inline api::Resource GroupResource() {
  return PodGroupResource(GangApi::kV1Alpha2);
}

inline int64_t RequestOf(const Json& pod_or_template, const std::string& resource) {
  int64_t sum = 0;
  for (const Json& container : pod_or_template["spec"]["containers"].AsArray()) {
    const auto quantity = api::Quantity::FromJson(container["resources"]["requests"][resource]);
    sum += quantity ? api::ToAmount(resource, *quantity) : 0;
  }
  return sum;
}

inline bool Terminal(const Json& pod) {
  const std::string& phase = pod["status"]["phase"].AsString();
  return phase == "Succeeded" || phase == "Failed";
}

inline const std::string& JobUidOf(const Json& pod) {
  static const std::string kNone;
  const auto& owners = pod["metadata"]["ownerReferences"].AsArray();
  return owners.empty() ? kNone : owners.front()["uid"].AsString();
}

inline api::ObjectKey KeyOf(const Json& object) {
  return {object["metadata"]["namespace"].AsString(), object["metadata"]["name"].AsString()};
}

// Every member of `wanted` has that value already (null = absent).
inline bool Has(const Json& current, const Json& wanted) {
  for (const auto& [key, value] : wanted.AsObject()) {
    if (!(current[key] == value)) {
      return false;
    }
  }
  return true;
}

inline bool JobDone(const Json& job) {
  for (const Json& condition : job["status"]["conditions"].AsArray()) {
    const std::string& type = condition["type"].AsString();
    if ((type == "Complete" || type == "Failed") && condition["status"].AsString() == "True") {
      return true;
    }
  }
  return false;
}

}  // namespace tutti::reconciler::testing
