// SPDX-License-Identifier: Apache-2.0
#include "reconciler/shapes.h"

#include <utility>

#include "base/json.h"

namespace tutti::reconciler {

ShapeCache::Shaped ShapeCache::Get(const std::string& template_json, const api::PodContext& context,
                                   const std::string& context_id) {
  const auto empty = [] { return std::make_shared<const api::PodShape>(); };
  auto parsed = Json::Parse(template_json);
  if (!parsed) {
    return {empty(), "spec.template: " + parsed.error().message, false};
  }
  std::string key = (*parsed)["spec"].Dump() + "\n" + context_id;
  // Rules about other pods look at labels and namespaces, the pods' own included.
  if ((*parsed)["spec"].Has("affinity") || (*parsed)["spec"].Has("topologySpreadConstraints")) {
    key += "\n" + context.ns + "\n" + (*parsed)["metadata"]["labels"].Dump();
  }
  if (const auto it = shapes_.find(key); it != shapes_.end()) {
    if (auto shape = it->second.lock()) {
      return {std::move(shape), "", false};
    }
  }
  auto shape = api::ShapeOf(*parsed, context);
  if (!shape) {
    const std::string& message = shape.error().message;
    return {empty(), message, message.starts_with(api::kRequestsAboveLimits)};
  }
  std::string problem;
  if (const auto violations = api::CheckLimits(*parsed, context); !violations.empty()) {
    problem = "resources didn't satisfy LimitRange constraints: " + api::Aggregate(violations);
  }
  auto shared = std::make_shared<const api::PodShape>(std::move(*shape));
  if (problem.empty()) {
    shapes_[std::move(key)] = shared;
  }
  const bool of_limits = !problem.empty();
  return {std::move(shared), std::move(problem), of_limits};
}

void ShapeCache::Trim() {
  std::erase_if(shapes_, [](const auto& entry) { return entry.second.expired(); });
}

TemplateRefs RefsOf(const std::string& template_json) {
  TemplateRefs refs;
  if (const auto parsed = Json::Parse(template_json)) {
    const Json& spec = (*parsed)["spec"];
    refs.runtime_class = spec["runtimeClassName"].AsString();
    refs.priority_class = spec["priorityClassName"].AsString();
    refs.preset_group = spec["schedulingGroup"]["podGroupName"].AsString();
  }
  return refs;
}

}  // namespace tutti::reconciler
