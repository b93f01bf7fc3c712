// SPDX-License-Identifier: Apache-2.0
#include "reconciler/resource_rules.h"

#include <algorithm>

namespace tutti::reconciler {
namespace {

const ResourceTransformation* Find(const ResourceRules& rules, const std::string& input) {
  for (const ResourceTransformation& rule : rules.transformations) {
    if (rule.input == input) {
      return &rule;
    }
  }
  return nullptr;
}

}  // namespace

api::Amounts ApplyResourceRules(const ResourceRules& rules, const api::Amounts& requests) {
  api::Amounts counted = requests;
  std::erase_if(counted, [&](const auto& request) {
    return std::any_of(
        rules.excluded_prefixes.begin(), rules.excluded_prefixes.end(),
        [&](const std::string& prefix) { return request.first.starts_with(prefix); });
  });
  const api::Amounts asked = counted;
  api::ResourceList generated;
  for (const auto& [name, amount] : asked) {
    const ResourceTransformation* rule = Find(rules, name);
    if (rule == nullptr) {
      continue;
    }
    api::Quantity input = api::FromAmount(name, amount);
    if (const auto times = asked.find(rule->multiply_by); times != asked.end()) {
      input = input * api::FromAmount(times->first, times->second);
    }
    for (const auto& [output, factor] : rule->outputs) {
      generated[output] = generated[output] + input * factor;
    }
    if (rule->replace) {
      counted.erase(name);
    }
  }
  for (const auto& [name, quantity] : generated) {
    if (quantity.Sign() >= 0) {
      counted[name] = api::SaturatingAdd(counted[name], api::ToAmount(name, quantity));
    } else {
      counted.try_emplace(name, 0);
    }
  }
  return counted;
}

}  // namespace tutti::reconciler
