// SPDX-License-Identifier: Apache-2.0
// Every metric that the operator exports: one table (name, type, labels, meaning), from which the
// registry, docs/metrics.md and the tests are made. kueue_* names, labels and buckets are those of
// Kueue v0.19.2 for the features that exist here; tutti_* are ours. Thread-safe; prometheus-cpp
// stays inside metrics.cc. Series of a deleted queue are removed with RemoveQueue/RemoveSeries.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/meta.h"
#include "operator/custom_labels.h"

namespace tutti {

enum class Metric {
  // Kueue's
  kAdmissionAttempts,         // result
  kAdmissionAttemptDuration,  // result
  kBuildInfo,                 // git_version, git_commit, build_date, go_version, compiler, platform
  kPendingWorkloads,          // cluster_queue, status
  kLocalQueuePendingWorkloads,  // name, namespace, status
  kFinishedWorkloadsTotal,      // cluster_queue, priority_class
  kQuotaReservedWorkloads,
  kQuotaReservedWaitTime,
  kAdmittedWorkloads,
  kAdmissionWaitTime,
  kEvictedWorkloads,  // cluster_queue, reason, underlying_cause, priority_class
  kEvictedWorkloadsOnce,
  kFinishedWorkloads,                 // cluster_queue
  kWorkloadCreationLatency,           // job_kind
  kLocalQueueFinishedWorkloadsTotal,  // name, namespace, priority_class
  kLocalQueueQuotaReservedWorkloads,
  kLocalQueueQuotaReservedWaitTime,
  kLocalQueueAdmittedWorkloads,
  kLocalQueueAdmissionWaitTime,
  kLocalQueueEvictedWorkloads,   // name, namespace, reason, underlying_cause, priority_class
  kLocalQueueFinishedWorkloads,  // name, namespace
  kCohortInfo,                   // cohort, parent_cohort, root_cohort
  kPreemptedWorkloads,
  kPodsReadyToEvictedTime,
  kWorkloadEvictionLatency,
  kPodGateRemoval,
  kReadyWaitTime,
  kAdmittedUntilReadyWaitTime,
  kAdmissionChecksWaitTime,
  kLocalQueueReadyWaitTime,
  kLocalQueueAdmittedUntilReadyWaitTime,
  kLocalQueueAdmissionChecksWaitTime,
  kReservingActiveWorkloads,
  kLocalQueueReservingActiveWorkloads,
  kAdmittedActiveWorkloads,
  kLocalQueueAdmittedActiveWorkloads,
  kClusterQueueStatus,         // cluster_queue, status
  kLocalQueueStatus,           // name, namespace, active
  kClusterQueueInfo,           // cluster_queue, parent_cohort, root_cohort
  kClusterQueueWeightedShare,  // cluster_queue, cohort
  kCohortWeightedShare,        // cohort
  kLocalQueuePastUsage,        // name, namespace, cluster_queue
  kResourceReservation,        // cohort, cluster_queue, flavor, resource
  kResourceUsage,
  kNominalQuota,
  kBorrowingLimit,
  kLendingLimit,
  kLocalQueueResourceReservation,  // name, namespace, flavor, resource
  kLocalQueueResourceUsage,
  kResourcePending,                // cluster_queue, resource
  kUnadmittedWorkloads,            // cluster_queue, reason, underlying_cause
  kLocalQueueUnadmittedWorkloads,  // name, namespace, cluster_queue, reason, underlying_cause
  kReplacedWorkloadSlices,         // cluster_queue
  kCohortSubtreeQuota,             // cohort, flavor, resource
  kCohortSubtreeReservations,      // cohort, flavor, resource
  kCohortSubtreeActive,            // cohort
  kCohortSubtreeAdmitted,          // cohort, priority_class
  // ours
  kApiWrites,        // verb, resource, code
  kApiWriteSeconds,  // verb
  kWatchEvents,      // kind, type
  kObjects,          // kind
  kLoopTurnSeconds,
  kPassSeconds,
  kPassCycles,
  kPasses,
  kUnitWriteFailures,   // code
  kReleasedGangs,       // cluster_queue
  kLandingTimeouts,     // cluster_queue
  kLandingSeconds,      // cluster_queue; release to last binding
  kNativeGangs,         // state
  kPartialGangSeconds,  // name, namespace
  kObservedDecisions,   // kind, agreed
  kObserveAgreement,
  kLeader,
  kLedgerRows,
  kLedgerDropped,
  kLedgerErrors,  // kind
  kLedgerQueued,
  kEvents,  // outcome
  kToTell,  // what
  kLogBugs,
  kWebhookRequests,     // path, allowed
  kVisibilityRequests,  // code
  // process_* are read when the page is made
  kProcessCpu,
  kProcessResident,
  kProcessVirtual,
  kProcessOpenFds,
  kProcessMaxFds,
  kProcessStartTime,
  kCount,
};

enum class MetricType { kCounter, kGauge, kHistogram };

struct MetricInfo {
  Metric id;
  std::string_view name;
  MetricType type;
  std::vector<std::string_view> labels;  // without replica_role
  bool has_role;                         // carries replica_role, as every metric of Kueue's
  std::string_view help;
  std::vector<double> buckets;
};

[[nodiscard]] const std::vector<MetricInfo>& MetricTable();
[[nodiscard]] const MetricInfo& InfoOf(Metric metric);
// Metrics of Kueue v0.19.2 that are not in the table.
struct MissingMetric {
  std::string_view name;
  std::string_view why;
};
[[nodiscard]] const std::vector<MissingMetric>& MissingMetrics();  // sorted by name
// docs/metrics.md, made from the tables.
[[nodiscard]] std::string MetricsMarkdown();

class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  using Labels = std::vector<std::string_view>;  // in the table's order
  // A call with the wrong number of labels or on the wrong type is dropped and counted in
  // tutti_bugs_total.
  void Add(Metric counter, const Labels& labels = {}, double by = 1);
  void Set(Metric gauge, const Labels& labels, double value);
  void Set(Metric gauge, double value) { Set(gauge, {}, value); }
  void Observe(Metric histogram, const Labels& labels, double value);
  void Observe(Metric histogram, double value) { Observe(histogram, {}, value); }
  [[nodiscard]] double ValueForTest(Metric metric, const Labels& labels = {}) const;

  // From now on metrics of ClusterQueues, LocalQueues and Cohorts carry these, too; labels of
  // workloads split kueue_admitted_active_workloads. REQUIRES: no series of such a metric exists.
  void UseCustomLabels(const CustomLabels& labels);
  // What the object (namespace/name of a LocalQueue) has for them. Gauges with other values are
  // dropped, to be set anew; counters stay.
  void SetCustomValues(CustomLabel::Source source, const std::string& object,
                       std::vector<std::string> values);
  // Its labels are followed by the values of the custom labels of workloads.
  [[nodiscard]] bool SplitByWorkload(Metric metric) const;

  void Remove(Metric metric, const Labels& labels);
  void Clear(Metric metric);  // every series of it
  // Every series of a ClusterQueue, a LocalQueue.
  void RemoveClusterQueue(std::string_view name);
  void RemoveLocalQueue(const api::ObjectKey& key);
  // Those about the Cohort itself; what is said of its ClusterQueues stays.
  void RemoveCohort(std::string_view name);

  // leader, follower or standalone. Gauges of the role before are dropped, counters stay.
  void SetRole(std::string_view role);

  // The page in the text format, process_* refreshed.
  [[nodiscard]] std::string Render();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti
