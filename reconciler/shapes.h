// SPDX-License-Identifier: Apache-2.0
// From a Workload's pod templates to the engine's input. Equal pod specs share one PodShape, so
// that the engine can tell identical pods by their pointer and ten thousand alike jobs cost one
// shape. Loop thread only.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/core.h"
#include "api/kueue.h"
#include "api/pod_requests.h"

namespace tutti::reconciler {

class ShapeCache {
 public:
  struct Shaped {
    std::shared_ptr<const api::PodShape> shape;  // never null; empty when `problem` is set
    std::string problem;                         // field and fix, or ""
    bool of_limits = false;  // the problem: requests at odds with limits or LimitRanges
  };

  // `context_id` identifies the limit ranges and runtime class that went into `context`: equal ids
  // mean equal contexts.
  Shaped Get(const std::string& template_json, const api::PodContext& context,
             const std::string& context_id);

  // Drops shapes that nobody uses any more; cheap, called now and then.
  void Trim();
  [[nodiscard]] size_t Size() const { return shapes_.size(); }

 private:
  std::map<std::string, std::weak_ptr<const api::PodShape>> shapes_;
};

// Name of the RuntimeClass and of the PriorityClass that a template asks for ("" = none).
struct TemplateRefs {
  std::string runtime_class;
  std::string priority_class;
  std::string preset_group;  // spec.schedulingGroup.podGroupName set by the user
};
[[nodiscard]] TemplateRefs RefsOf(const std::string& template_json);

}  // namespace tutti::reconciler
