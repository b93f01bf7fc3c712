// SPDX-License-Identifier: Apache-2.0
// Engines with many queues and workloads, the same at each call, for benchmarks and for the guard
// of costs (cost_guard.cc). Quota alone decides.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace tutti::engine::testing {

// Of `nominal` thousandths of a core.
[[nodiscard]] api::ClusterQueue Queue(const std::string& name, const std::string& cohort,
                                      int64_t nominal);
[[nodiscard]] std::string Name(int64_t index);  // of a ClusterQueue and its LocalQueue

// As long and as random as in a cluster, and always the same.
[[nodiscard]] std::string Uid(char first, int64_t number);

class Scale {
 public:
  // Different requests among the workloads, as in a cluster of many teams.
  static constexpr int kShapes = 20;

  Scale();
  void AddQueue(const api::ClusterQueue& queue);
  // As long as ids are in a cluster.
  [[nodiscard]] static std::string Id(int64_t number);
  // One pod of a core and a little; the number orders them by age.
  [[nodiscard]] WorkloadInput Workload(int64_t number, const std::string& queue,
                                       int64_t priority = 0) const;
  Engine& engine() { return *engine_; }

 private:
  std::unique_ptr<Engine> engine_;
  std::vector<std::shared_ptr<const api::PodShape>> shapes_;
};

// Queues full with one workload each that takes all of it, and `pending` waiting in them.
[[nodiscard]] std::unique_ptr<Scale> Full(int64_t queues, int64_t pending);
// A tree of cohorts in 4 levels that is full: 8 queues with `candidates` workloads beyond what they
// own, and the queue "lender", which may take back what it lent. Null when it isn't full.
[[nodiscard]] std::unique_ptr<Scale> Lent(int64_t candidates);
// Fair sharing among `queues` of one cohort, each with 10 workloads for the place of one. `running`
// gets the ids of those that have a place.
[[nodiscard]] std::unique_ptr<Scale> Shared(int64_t queues, std::vector<std::string>& running);

}  // namespace tutti::engine::testing
