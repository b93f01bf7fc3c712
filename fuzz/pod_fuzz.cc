// SPDX-License-Identifier: Apache-2.0
// Any JSON may arrive as a pod: nothing crashes, no amount is negative, and what ShapeOf accepts
// has no malformed quantity.
#include "api/core.h"
#include "api/pod_requests.h"
#include "fuzz/fuzz.h"

namespace api = tutti::api;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const tutti::Result<tutti::Json> json = tutti::Json::Parse(AsText(data, size));
  if (!json) {
    return 0;
  }
  api::LimitRange range;
  range.meta.name = "range";
  range.items.resize(2);
  range.items[0].type = "Container";
  range.items[0].default_limit["cpu"] = api::Quantity::FromInt(4);
  range.items[0].max["memory"] = api::Quantity::FromInt(1000);
  range.items[1].type = "Pod";
  range.items[1].min["cpu"] = api::Quantity::FromMilli(10);
  api::PodContext context;
  context.limit_ranges = {&range};

  const tutti::Result<api::PodShape> shape = api::ShapeOf(*json, context);
  const std::vector<std::string> problems = api::CheckQuantities(*json, context.path);
  if (shape) {
    for (const auto& [resource, amount] : shape->requests) {
      REQUIRE(amount >= 0);
    }
    for (const std::string& problem : problems) {
      REQUIRE(problem.find("[pods]: the name is reserved") != std::string::npos);
    }
    const auto one = api::InternShape(*shape);
    REQUIRE(*one == *shape);
    REQUIRE(one == api::InternShape(*shape));
    for (const api::NodeSelectorTerm& term : shape->required_affinity) {
      (void)term.Matches(shape->node_selector, "node");
    }
  } else {
    REQUIRE(shape.error().code == tutti::ErrorCode::kInvalid);
    REQUIRE(!shape.error().message.empty());
  }
  (void)api::CheckLimits(*json, context);
  if (const auto running = api::ShapeOfRunning(*json)) {
    for (const auto& [resource, amount] : running->requests) {
      REQUIRE(amount >= 0);
    }
  }
  if (const auto pod = api::PodFromJson(*json)) {
    REQUIRE(pod->shape != nullptr);
  }
  (void)api::NodeFromJson(*json);
  return 0;
}
