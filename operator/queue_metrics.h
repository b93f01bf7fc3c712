// SPDX-License-Identifier: Apache-2.0
// Gauges of queues that are read off the engine now and then, rather than told by the reconcilers:
// quota and usage of ClusterQueues, counts of LocalQueues. Loop thread only.
#pragma once

#include <set>
#include <string>

#include "api/meta.h"
#include "engine/engine.h"
#include "operator/config.h"
#include "operator/metrics.h"
#include "reconciler/world.h"

namespace tutti {

class QueueMetrics {
 public:
  explicit QueueMetrics(const Config::MetricsSection& config) : config_(config) {}

  // Sets what exists and drops the series of LocalQueues that are gone.
  void Update(const reconciler::World& world, const engine::Engine& engine, Metrics& metrics);

 private:
  const Config::MetricsSection config_;
  std::set<api::ObjectKey> local_queues_;
};

}  // namespace tutti
