// SPDX-License-Identifier: Apache-2.0
// The table of metrics and the page of documentation made from it.
#include <cassert>

#include "operator/metrics.h"

namespace tutti {
namespace {

using Names = std::vector<std::string_view>;
constexpr auto kCounter = MetricType::kCounter;
constexpr auto kGauge = MetricType::kGauge;
constexpr auto kHistogram = MetricType::kHistogram;

// 1, 2.5, 5, 10, … with `count` entries.
std::vector<double> Waits(int count) {
  std::vector<double> buckets{1};
  double next = 2.5;
  for (int i = 1; i < count; ++i) {
    buckets.push_back(next);
    next *= 2;
  }
  return buckets;
}

std::vector<double> Latencies() {
  return {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
          0.05,   0.1,     0.25,   0.5,   1,      2.5,   5,    10};
}

std::vector<MetricInfo> Build() {
  const Names cq{"cluster_queue"};
  const Names lq{"name", "namespace"};
  const Names cq_priority{"cluster_queue", "priority_class"};
  const Names quota{"cohort", "cluster_queue", "flavor", "resource"};
  const Names cq_eviction{"cluster_queue", "reason", "underlying_cause", "priority_class"};
  const Names lq_priority{"name", "namespace", "priority_class"};
  const Names lq_resource{"name", "namespace", "flavor", "resource"};
  std::vector<MetricInfo> table;
  const auto kueue = [&table](Metric id, std::string_view name, MetricType type,
                              const Names& labels, std::string_view help,
                              std::vector<double> buckets = {}) {
    table.push_back({id, name, type, labels, true, help, std::move(buckets)});
  };
  const auto ours = [&table](Metric id, std::string_view name, MetricType type, const Names& labels,
                             std::string_view help, std::vector<double> buckets = {}) {
    table.push_back({id, name, type, labels, false, help, std::move(buckets)});
  };

  kueue(Metric::kAdmissionAttempts, "kueue_admission_attempts_total", kCounter, {"result"},
        "Passes over the queues; success if something was admitted, else inadmissible.");
  kueue(Metric::kAdmissionAttemptDuration, "kueue_admission_attempt_duration_seconds", kHistogram,
        {"result"}, "Time of one pass over the queues.", Latencies());
  ours(Metric::kBuildInfo, "kueue_build_info", kGauge,
       {"git_version", "git_commit", "build_date", "go_version", "compiler", "platform"},
       "Always 1; the labels tell the build (go_version is empty).");
  kueue(Metric::kPendingWorkloads, "kueue_pending_workloads", kGauge, {"cluster_queue", "status"},
        "Workloads that wait; status is active (may be admitted) or inadmissible (parked).");
  kueue(Metric::kLocalQueuePendingWorkloads, "kueue_local_queue_pending_workloads", kGauge,
        {"name", "namespace", "status"}, "As kueue_pending_workloads, per LocalQueue.");
  kueue(Metric::kFinishedWorkloadsTotal, "kueue_finished_workloads_total", kCounter, cq_priority,
        "Workloads that finished.");
  kueue(Metric::kQuotaReservedWorkloads, "kueue_quota_reserved_workloads_total", kCounter,
        cq_priority, "Workloads that got quota.");
  kueue(Metric::kQuotaReservedWaitTime, "kueue_quota_reserved_wait_time_seconds", kHistogram,
        cq_priority, "From creation or the last requeue to the quota.", Waits(14));
  kueue(Metric::kAdmittedWorkloads, "kueue_admitted_workloads_total", kCounter, cq_priority,
        "Workloads admitted.");
  kueue(Metric::kAdmissionWaitTime, "kueue_admission_wait_time_seconds", kHistogram, cq_priority,
        "From creation or the last requeue to admission.", Waits(16));
  kueue(Metric::kEvictedWorkloads, "kueue_evicted_workloads_total", kCounter, cq_eviction,
        "Evictions.");
  kueue(Metric::kEvictedWorkloadsOnce, "kueue_evicted_workloads_once_total", kCounter, cq_eviction,
        "Workloads evicted for the first time for this reason.");
  kueue(Metric::kFinishedWorkloads, "kueue_finished_workloads", kGauge, cq,
        "Workloads that have finished and still exist.");
  kueue(Metric::kWorkloadCreationLatency, "kueue_workload_creation_latency_seconds", kHistogram,
        {"job_kind"}, "From the creation of a job to that of its Workload.",
        {0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24});
  kueue(Metric::kLocalQueueFinishedWorkloadsTotal, "kueue_local_queue_finished_workloads_total",
        kCounter, lq_priority, "As kueue_finished_workloads_total, per LocalQueue.");
  kueue(Metric::kLocalQueueQuotaReservedWorkloads,
        "kueue_local_queue_quota_reserved_workloads_total", kCounter, lq_priority,
        "As kueue_quota_reserved_workloads_total, per LocalQueue.");
  kueue(Metric::kLocalQueueQuotaReservedWaitTime,
        "kueue_local_queue_quota_reserved_wait_time_seconds", kHistogram, lq_priority,
        "As kueue_quota_reserved_wait_time_seconds, per LocalQueue.", Waits(14));
  kueue(Metric::kLocalQueueAdmittedWorkloads, "kueue_local_queue_admitted_workloads_total",
        kCounter, lq_priority, "As kueue_admitted_workloads_total, per LocalQueue.");
  kueue(Metric::kLocalQueueAdmissionWaitTime, "kueue_local_queue_admission_wait_time_seconds",
        kHistogram, lq_priority, "As kueue_admission_wait_time_seconds, per LocalQueue.",
        Waits(14));
  kueue(Metric::kLocalQueueEvictedWorkloads, "kueue_local_queue_evicted_workloads_total", kCounter,
        {"name", "namespace", "reason", "underlying_cause", "priority_class"},
        "As kueue_evicted_workloads_total, per LocalQueue.");
  kueue(Metric::kLocalQueueFinishedWorkloads, "kueue_local_queue_finished_workloads", kGauge, lq,
        "As kueue_finished_workloads, per LocalQueue.");
  kueue(Metric::kCohortInfo, "kueue_cohort_info", kGauge,
        {"cohort", "parent_cohort", "root_cohort"}, "Always 1.");
  kueue(Metric::kPreemptedWorkloads, "kueue_preempted_workloads_total", kCounter,
        {"preempting_cluster_queue", "reason"}, "Workloads that gave way to another.");
  kueue(Metric::kPodsReadyToEvictedTime, "kueue_pods_ready_to_evicted_time_seconds", kHistogram,
        {"cluster_queue", "reason", "underlying_cause"},
        "From the readiness of all pods to the eviction.", Waits(14));
  kueue(Metric::kWorkloadEvictionLatency, "kueue_workload_eviction_latency_seconds", kHistogram,
        {"cluster_queue", "reason"}, "From an eviction until its quota is free.", Waits(14));
  kueue(Metric::kPodGateRemoval, "kueue_pod_scheduling_gate_removal_seconds", kHistogram,
        {"name", "cluster_queue", "is_group"},
        "From the admission of a pod, or of its pod group, to the removal of its scheduling gate.",
        {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10});
  kueue(Metric::kReadyWaitTime, "kueue_ready_wait_time_seconds", kHistogram, cq_priority,
        "From creation or the last requeue until all pods are ready (waitForPodsReady).",
        Waits(14));
  kueue(Metric::kAdmittedUntilReadyWaitTime, "kueue_admitted_until_ready_wait_time_seconds",
        kHistogram, cq_priority, "From admission until all pods are ready (waitForPodsReady).",
        Waits(14));
  kueue(Metric::kAdmissionChecksWaitTime, "kueue_admission_checks_wait_time_seconds", kHistogram,
        cq_priority, "From the reservation to admission, of workloads with admission checks.",
        Waits(14));
  kueue(Metric::kLocalQueueReadyWaitTime, "kueue_local_queue_ready_wait_time_seconds", kHistogram,
        lq_priority, "As kueue_ready_wait_time_seconds, per LocalQueue.", Waits(14));
  kueue(Metric::kLocalQueueAdmittedUntilReadyWaitTime,
        "kueue_local_queue_admitted_until_ready_wait_time_seconds", kHistogram, lq_priority,
        "As kueue_admitted_until_ready_wait_time_seconds, per LocalQueue.", Waits(14));
  kueue(Metric::kLocalQueueAdmissionChecksWaitTime,
        "kueue_local_queue_admission_checks_wait_time_seconds", kHistogram, lq_priority,
        "As kueue_admission_checks_wait_time_seconds, per LocalQueue.", Waits(14));
  kueue(Metric::kReservingActiveWorkloads, "kueue_reserving_active_workloads", kGauge, cq,
        "Workloads that hold quota.");
  kueue(Metric::kLocalQueueReservingActiveWorkloads, "kueue_local_queue_reserving_active_workloads",
        kGauge, lq, "As kueue_reserving_active_workloads, per LocalQueue.");
  kueue(Metric::kAdmittedActiveWorkloads, "kueue_admitted_active_workloads", kGauge, cq,
        "Admitted workloads that have not ended.");
  kueue(Metric::kLocalQueueAdmittedActiveWorkloads, "kueue_local_queue_admitted_active_workloads",
        kGauge, lq, "As kueue_admitted_active_workloads, per LocalQueue.");
  kueue(Metric::kClusterQueueStatus, "kueue_cluster_queue_status", kGauge,
        {"cluster_queue", "status"},
        "1 for the present status of pending, active and terminating, else 0.");
  kueue(Metric::kLocalQueueStatus, "kueue_local_queue_status", kGauge,
        {"name", "namespace", "active"},
        "1 for the present state of True, False and Unknown, else 0.");
  kueue(Metric::kClusterQueueInfo, "kueue_cluster_queue_info", kGauge,
        {"cluster_queue", "parent_cohort", "root_cohort"}, "Always 1.");
  kueue(
      Metric::kClusterQueueWeightedShare, "kueue_cluster_queue_weighted_share", kGauge,
      {"cluster_queue", "cohort"},
      "Share of what could be borrowed, per mille, divided by the weight; fair sharing only. NaN: "
      "of a borrower of weight 0.");
  kueue(Metric::kCohortWeightedShare, "kueue_cohort_weighted_share", kGauge, {"cohort"},
        "As kueue_cluster_queue_weighted_share, of a Cohort.");
  kueue(Metric::kLocalQueuePastUsage, "kueue_local_queue_admission_fair_sharing_usage", kGauge,
        {"name", "namespace", "cluster_queue"},
        "Past usage, weighted, that orders LocalQueues; admission fair sharing only.");
  kueue(Metric::kResourceReservation, "kueue_cluster_queue_resource_reservation", kGauge, quota,
        "Amount reserved (metrics.enableClusterQueueResources).");
  kueue(Metric::kResourceUsage, "kueue_cluster_queue_resource_usage", kGauge, quota,
        "Amount used by admitted workloads (metrics.enableClusterQueueResources).");
  kueue(Metric::kNominalQuota, "kueue_cluster_queue_nominal_quota", kGauge, quota,
        "Nominal quota (metrics.enableClusterQueueResources).");
  kueue(Metric::kBorrowingLimit, "kueue_cluster_queue_borrowing_limit", kGauge, quota,
        "Borrowing limit, +Inf when not set (metrics.enableClusterQueueResources).");
  kueue(Metric::kLendingLimit, "kueue_cluster_queue_lending_limit", kGauge, quota,
        "Lending limit, +Inf when not set (metrics.enableClusterQueueResources).");
  kueue(Metric::kLocalQueueResourceReservation, "kueue_local_queue_resource_reservation", kGauge,
        lq_resource, "Amount reserved, per LocalQueue (metrics.enableClusterQueueResources).");
  kueue(Metric::kLocalQueueResourceUsage, "kueue_local_queue_resource_usage", kGauge, lq_resource,
        "Amount used by admitted workloads, per LocalQueue (metrics.enableClusterQueueResources).");
  kueue(Metric::kResourcePending, "kueue_cluster_queue_resource_pending", kGauge,
        {"cluster_queue", "resource"},
        "Amount that waiting workloads ask for (metrics.enableClusterQueueResources).");
  kueue(Metric::kUnadmittedWorkloads, "kueue_unadmitted_workloads", kGauge,
        {"cluster_queue", "reason", "underlying_cause"},
        "Workloads that aren't admitted, by the reasons of their conditions Admitted and "
        "QuotaReserved; gate UnadmittedWorkloadsObservability only.");
  kueue(Metric::kLocalQueueUnadmittedWorkloads, "kueue_local_queue_unadmitted_workloads", kGauge,
        {"name", "namespace", "cluster_queue", "reason", "underlying_cause"},
        "As kueue_unadmitted_workloads, per LocalQueue.");
  kueue(Metric::kReplacedWorkloadSlices, "kueue_replaced_workload_slices_total", kCounter, cq,
        "Workload slices of elastic jobs that a larger one has replaced.");
  kueue(Metric::kCohortSubtreeQuota, "kueue_cohort_subtree_quota", kGauge,
        {"cohort", "flavor", "resource"},
        "Quota of a Cohort and all below it, less what these keep for themselves.");
  kueue(Metric::kCohortSubtreeReservations, "kueue_cohort_subtree_resource_reservations", kGauge,
        {"cohort", "flavor", "resource"}, "Amount reserved by all ClusterQueues below a Cohort.");
  kueue(Metric::kCohortSubtreeActive, "kueue_cohort_subtree_admitted_active_workloads", kGauge,
        {"cohort"}, "Admitted workloads that have not ended, of all ClusterQueues below a Cohort.");
  kueue(Metric::kCohortSubtreeAdmitted, "kueue_cohort_subtree_admitted_workloads_total", kCounter,
        {"cohort", "priority_class"}, "Workloads admitted in ClusterQueues below a Cohort.");

  ours(Metric::kApiWrites, "tutti_api_writes_total", kCounter, {"verb", "resource", "code"},
       "Writes sent to the API server; code is the HTTP status, 0 without an answer.");
  ours(Metric::kApiWriteSeconds, "tutti_api_write_duration_seconds", kHistogram, {"verb"},
       "Time of a write, until the answer.", Latencies());
  ours(Metric::kWatchEvents, "tutti_watch_events_total", kCounter, {"kind", "type"},
       "Events received from the API server.");
  ours(Metric::kObjects, "tutti_objects", kGauge, {"kind"}, "Objects in the cache.");
  ours(Metric::kLoopTurnSeconds, "tutti_loop_turn_seconds", kHistogram, {},
       "Time of one turn of the deciding thread.", Latencies());
  ours(Metric::kPassSeconds, "tutti_pass_seconds", kHistogram, {},
       "Time of one pass of the engine over all queues.", Latencies());
  ours(Metric::kPassCycles, "tutti_pass_cycles_total", kCounter, {},
       "Admission cycles inside the passes.");
  ours(Metric::kPasses, "tutti_passes_total", kCounter, {}, "Passes of the engine.");
  ours(Metric::kUnitWriteFailures, "tutti_unit_write_failures_total", kCounter, {"code"},
       "Writes for a workload that failed, by class of error.");
  ours(Metric::kReleasedGangs, "tutti_released_gangs_total", kCounter, {"cluster_queue"},
       "Jobs started, whole.");
  ours(Metric::kLandingTimeouts, "tutti_landing_timeouts_total", kCounter, {"cluster_queue"},
       "Jobs taken back because their pods were not all placed in time.");
  ours(Metric::kLandingSeconds, "tutti_landing_seconds", kHistogram, {"cluster_queue"},
       "From a job's release to the binding of its last pod.",
       {0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300});
  ours(Metric::kNativeGangs, "tutti_native_gangs", kGauge, {"state"},
       "1 for what is known of native gangs (off, unproven, gating, not_gating), else 0.");
  ours(Metric::kPartialGangSeconds, "tutti_partial_gang_seconds_total", kCounter, lq,
       "Time that jobs of a LocalQueue were there in part, some pods with a node and others that "
       "they need without, for 10 s or longer; whoever started them.");
  ours(
      Metric::kObservedDecisions, "tutti_observed_decisions_total", kCounter, {"kind", "agreed"},
      "Mode Observe: decisions of the live controller (Reserved, Preempted), and workloads that it "
      "leaves waiting though they could start (NotStarted); agreed: Tutti would have done the "
      "same.");
  ours(Metric::kObserveAgreement, "tutti_observe_agreement_ratio", kGauge, {},
       "Mode Observe: part of the last 1000 observed decisions in which Tutti would have done the "
       "same.");
  ours(Metric::kLeader, "tutti_leader", kGauge, {},
       "1 while this replica holds the lease, else 0.");
  ours(Metric::kLedgerRows, "tutti_ledger_rows_total", kCounter, {}, "Rows written to the ledger.");
  ours(Metric::kLedgerDropped, "tutti_ledger_dropped_total", kCounter, {},
       "Rows lost: the queue was full or the file could not be written.");
  ours(Metric::kLedgerErrors, "tutti_ledger_errors_total", kCounter, {"kind"},
       "Trouble with the ledger: open, write, corrupt.");
  ours(Metric::kLedgerQueued, "tutti_ledger_queued", kGauge, {}, "Rows waiting to be written.");
  ours(Metric::kEvents, "tutti_events_total", kCounter, {"outcome"},
       "Events: written, counted in one that exists (coalesced), or dropped.");
  ours(Metric::kToTell, "tutti_waiting_to_be_told", kGauge, {"what"},
       "Reasons for waiting and events that are held back while jobs are admitted.");
  ours(Metric::kLogBugs, "tutti_bugs_total", kCounter, {},
       "Broken internal rules that were survived; please report them.");
  ours(Metric::kWebhookRequests, "tutti_webhook_requests_total", kCounter, {"path", "allowed"},
       "Admission and conversion reviews answered.");
  ours(Metric::kVisibilityRequests, "tutti_visibility_requests_total", kCounter, {"code"},
       "Requests to the visibility API, by HTTP status.");
  ours(Metric::kProcessCpu, "process_cpu_seconds_total", kCounter, {},
       "User and system CPU time of the process.");
  ours(Metric::kProcessResident, "process_resident_memory_bytes", kGauge, {}, "Resident memory.");
  ours(Metric::kProcessVirtual, "process_virtual_memory_bytes", kGauge, {}, "Virtual memory.");
  ours(Metric::kProcessOpenFds, "process_open_fds", kGauge, {}, "Open file descriptors.");
  ours(Metric::kProcessMaxFds, "process_max_fds", kGauge, {}, "Limit of open file descriptors.");
  ours(Metric::kProcessStartTime, "process_start_time_seconds", kGauge, {},
       "Start of the process, seconds since 1970.");
  return table;
}

}  // namespace

const std::vector<MetricInfo>& MetricTable() {
  static const std::vector<MetricInfo> table = [] {
    auto built = Build();
    assert(built.size() == static_cast<size_t>(Metric::kCount));
    for (size_t i = 0; i < built.size(); ++i) {
      assert(built[i].id == static_cast<Metric>(i));
    }
    return built;
  }();
  return table;
}

const MetricInfo& InfoOf(Metric metric) {
  return MetricTable().at(static_cast<size_t>(metric));
}

std::string MetricsMarkdown() {
  std::string text =
      "# Metrics\n\n"
      "Served in the Prometheus text format on the health listener (`/metrics`, plain HTTP), and "
      "on\n"
      "`metrics.bindAddress` over HTTPS for bearers of the right to it (configuration.md).\n"
      "Names, labels and buckets of `kueue_*` are those of Kueue v0.19.2 for the\n"
      "features that exist here; each of them, `kueue_build_info` apart, also has the label\n"
      "`replica_role` (leader, follower, standalone). Series of a deleted queue vanish.\n"
      "This page is checked against the table in `operator/metrics_table.cc` by a test.\n\n"
      "| Name | Type | Labels | Meaning |\n|---|---|---|---|\n";
  for (const MetricInfo& info : MetricTable()) {
    std::string labels;
    for (const std::string_view label : info.labels) {
      labels += (labels.empty() ? "" : ", ") + std::string(label);
    }
    text += "| `" + std::string(info.name) + "` | ";
    text += info.type == kCounter ? "counter" : info.type == kGauge ? "gauge" : "histogram";
    text += " | " + labels + " | " + std::string(info.help) + " |\n";
  }
  text +=
      "\n## What of Kueue's metrics isn't here\n\n"
      "Those of features that aren't, and these for other reasons:\n\n| Name | Why |\n|---|---|\n";
  for (const MissingMetric& missing : MissingMetrics()) {
    text += "| `" + std::string(missing.name) + "` | " + std::string(missing.why) + " |\n";
  }
  return text;
}

const std::vector<MissingMetric>& MissingMetrics() {
  constexpr std::string_view kMulti = "MultiKueue";
  static const std::vector<MissingMetric> missing = {
      {"kueue_admission_cycle_preemption_skips", "cycles are repeated in memory"},
      {"multikueue_workloads_admitted_total", kMulti},
      {"multikueue_workloads_dispatched_total", kMulti},
  };
  return missing;
}

}  // namespace tutti
