// SPDX-License-Identifier: Apache-2.0
// Gauges of queues that are read off the engine now and then, rather than told by the reconcilers:
// quota and usage of ClusterQueues, counts of LocalQueues. Loop thread only.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "api/kueue.h"
#include "api/meta.h"
#include "engine/engine.h"
#include "operator/config.h"
#include "operator/metrics.h"
#include "reconciler/world.h"

namespace tutti {

class QueueMetrics {
 public:
  explicit QueueMetrics(const Config& config)
      : config_(config.metrics),
        custom_(config.gates.Enabled("CustomMetricLabels") ? config.metrics.custom_labels
                                                           : std::vector<CustomLabel>()),
        cohorts_(config.gates.Enabled("MetricsForCohorts")),
        reasons_(config.gates.Enabled("UnadmittedWorkloadsObservability")) {}

  [[nodiscard]] const CustomLabels& custom_labels() const { return custom_; }
  // What the objects have for the custom labels; before anything is counted for them.
  void ShowCustomLabels(const reconciler::World& world, Metrics& metrics) const;
  // Sets what exists and drops the series that it set before and that have no reason any more. A
  // reader in between sees the old or the new value of a series, never none.
  void Update(const reconciler::World& world, const engine::Engine& engine, Metrics& metrics);
  // Whether this LocalQueue has metrics of its own (metrics.localQueueMetrics).
  [[nodiscard]] bool Wants(const reconciler::World& world, const api::ObjectKey& local_queue) const;

 private:
  struct Series {
    Metric metric;
    std::vector<std::string> labels;
    friend auto operator<=>(const Series&, const Series&) = default;
  };

  void Set(Metric metric, std::vector<std::string> labels, double value, Metrics& metrics);
  void Quotas(const api::ClusterQueue& queue, const engine::QueueReport& report, Metrics& metrics);

  void SetFinished(const reconciler::World& world, Metrics& metrics);
  // Admitted workloads by the custom labels of workloads.
  void SetAdmitted(const reconciler::World& world, Metrics& metrics);
  bool IsSilent(const std::string& cohort, bool exists, const engine::CohortReport& report);
  void SetUnadmitted(const reconciler::World& world, Metrics& metrics);
  void SetCohorts(const reconciler::World& world, const engine::Engine& engine, Metrics& metrics);
  // What is counted, rather than set, of LocalQueues that are gone.
  void ForgetLocalQueues(const reconciler::World& world, Metrics& metrics);

  const Config::MetricsSection config_;
  const CustomLabels custom_;
  const bool cohorts_;
  const bool reasons_;
  std::set<Series> known_;    // of the update before
  std::set<Series> present_;  // of the one under way
  std::set<api::ObjectKey> local_queues_;
  std::set<std::string> named_cohorts_;
  std::set<std::string> cohort_objects_;
  // Cohorts whose object was deleted while somebody still names them, and their numbers then.
  std::map<std::string, std::string> deleted_cohorts_;
};

}  // namespace tutti
