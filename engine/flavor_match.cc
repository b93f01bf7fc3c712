// SPDX-License-Identifier: Apache-2.0
// See flavor_match.h.
#include "engine/flavor_match.h"

#include <algorithm>

namespace tutti::engine {

namespace {

bool Tolerated(const api::Taint& taint, const std::vector<api::Toleration>& tolerations) {
  return std::any_of(
      tolerations.begin(), tolerations.end(),
      [&](const api::Toleration& toleration) { return toleration.Tolerates(taint); });
}

}  // namespace

std::optional<size_t> UntoleratedTaint(const api::PodShape& shape, const FlavorConfig& flavor) {
  for (size_t index = 0; index < flavor.taints.size(); ++index) {
    const api::Taint& taint = flavor.taints[index];
    if (taint.effect != "NoSchedule" && taint.effect != "NoExecute") {
      continue;
    }
    if (!Tolerated(taint, shape.tolerations) && !Tolerated(taint, flavor.tolerations)) {
      return index;
    }
  }
  return std::nullopt;
}

bool MatchesNodeLabels(const api::PodShape& shape, const FlavorConfig& flavor) {
  for (const auto& [key, value] : shape.node_selector) {
    auto label = flavor.labels.find(key);
    if (label != flavor.labels.end() && label->second != value) {
      return false;
    }
  }
  bool any_term_matches = shape.required_affinity.empty();
  for (const api::NodeSelectorTerm& term : shape.required_affinity) {
    bool relevant = false;
    bool matches = true;
    for (const api::Requirement& requirement : term.expressions) {
      if (flavor.labels.contains(requirement.key)) {
        relevant = true;
        matches = matches && requirement.Matches(flavor.labels);
      }
    }
    if (!relevant) {
      return true;
    }
    any_term_matches = any_term_matches || matches;
  }
  return any_term_matches;
}

}  // namespace tutti::engine
