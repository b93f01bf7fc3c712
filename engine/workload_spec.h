// SPDX-License-Identifier: Apache-2.0
// What equal workloads have in common. A cluster runs many jobs of few shapes: each is kept once.
#pragma once

#include <string>
#include <vector>

#include "engine/assigner.h"
#include "engine/engine.h"

namespace tutti::engine {

// Immutable. Within an engine, equal workloads have the same object.
struct WorkloadSpec {
  std::string key;  // ClassKey
  std::vector<PodSetSpec> pod_sets;
};

// Everything about a workload, but its place among equals, that can influence a decision or its
// text.
[[nodiscard]] std::string ClassKey(const WorkloadInput& input);

}  // namespace tutti::engine
