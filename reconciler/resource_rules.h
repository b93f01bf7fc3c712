// SPDX-License-Identifier: Apache-2.0
// Which resources of a pod quota counts: some are left out, some are counted as others
// (configuration: resources.excludeResourcePrefixes, resources.transformations). Pure.
#pragma once

#include <string>
#include <vector>

#include "api/quantity.h"

namespace tutti::reconciler {

// resources.transformations[]; one for each input.
struct ResourceTransformation {
  std::string input;
  bool replace = false;     // Replace instead of Retain
  std::string multiply_by;  // "" = by nothing
  api::ResourceList outputs;
};

struct ResourceRules {
  std::vector<std::string> excluded_prefixes;
  std::vector<ResourceTransformation> transformations;
};

// What quota counts of the requests of one pod. Outputs are input × factor, × the request of
// `multiply_by` where there is one; outputs of one name add up, and a sum below 0 counts as 0
// before it is added to what the pod asks for by that name. Amounts are whole units (cpu: milli).
[[nodiscard]] api::Amounts ApplyResourceRules(const ResourceRules& rules,
                                              const api::Amounts& requests);

}  // namespace tutti::reconciler
