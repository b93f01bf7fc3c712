// SPDX-License-Identifier: Apache-2.0
// Selectors, tolerations and taints from any JSON: {"labels", "selector", "tolerations", "taints"}.
#include "api/core.h"
#include "fuzz/fuzz.h"

namespace api = tutti::api;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const tutti::Result<tutti::Json> parsed = tutti::Json::Parse(AsText(data, size));
  if (!parsed) {
    return 0;
  }
  const tutti::Json& json = *parsed;
  const api::StringMap labels = api::StringMapFromJson(json["labels"]);
  if (const auto selector = api::LabelSelectorFromJson(json["selector"])) {
    const bool matches = selector->Matches(labels);
    REQUIRE(selector->present || !matches);
    bool all = selector->present;
    api::NodeSelectorTerm term;
    for (const api::Requirement& requirement : selector->requirements) {
      all = all && requirement.Matches(labels);
      term.expressions.push_back(requirement);
      // In and NotIn, Exists and DoesNotExist are each other's opposite.
      api::Requirement opposite = requirement;
      opposite.op = requirement.op == "In"       ? "NotIn"
                    : requirement.op == "NotIn"  ? "In"
                    : requirement.op == "Exists" ? "DoesNotExist"
                                                 : "Exists";
      REQUIRE(opposite.Matches(labels) != requirement.Matches(labels));
    }
    REQUIRE(matches == all);
    REQUIRE(term.Matches(labels, "node") == (matches && !term.expressions.empty()));
  }
  const auto tolerations = api::TolerationsFromJson(json["tolerations"]);
  const auto taints = api::TaintsFromJson(json["taints"]);
  if (tolerations) {
    const auto again = api::TolerationsFromJson(api::ToJson(*tolerations));
    REQUIRE(again.has_value());
    REQUIRE(*again == *tolerations);
  }
  if (tolerations && taints) {
    for (const api::Toleration& toleration : *tolerations) {
      for (const api::Taint& taint : *taints) {
        if (toleration.Tolerates(taint)) {
          REQUIRE(toleration.effect.empty() || toleration.effect == taint.effect);
        }
      }
    }
  }
  return 0;
}
