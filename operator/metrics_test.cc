// SPDX-License-Identifier: Apache-2.0
#include "operator/metrics.h"

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(MetricsTest, TableHasEachMetricOnceInTheOrderOfTheEnum) {
  std::set<std::string_view> names;
  ASSERT_EQ(MetricTable().size(), static_cast<size_t>(Metric::kCount));
  for (size_t i = 0; i < MetricTable().size(); ++i) {
    const MetricInfo& info = MetricTable()[i];
    EXPECT_EQ(info.id, static_cast<Metric>(i)) << info.name;
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_EQ(info.type == MetricType::kHistogram, !info.buckets.empty()) << info.name;
    const bool total = info.name.size() > 6 && info.name.substr(info.name.size() - 6) == "_total";
    EXPECT_EQ(info.type == MetricType::kCounter, total) << info.name;
    EXPECT_FALSE(info.help.empty()) << info.name;
  }
}

// Every metric of Kueue v0.19.2 is here or is named as missing.
TEST(MetricsTest, KueuesMetricsAreAllAccountedFor) {
  std::set<std::string_view> ours;
  for (const MetricInfo& info : MetricTable()) {
    if (info.name.rfind("kueue_", 0) == 0) {
      ours.insert(info.name);
    }
  }
  for (const MissingMetric& missing : MissingMetrics()) {
    EXPECT_TRUE(ours.insert(missing.name).second) << missing.name << " is here";
    EXPECT_FALSE(missing.why.empty());
  }
  const std::set<std::string_view> kueues = {
      "kueue_admission_attempt_duration_seconds",
      "kueue_admission_attempts_total",
      "kueue_admission_checks_wait_time_seconds",
      "kueue_admission_cycle_preemption_skips",
      "kueue_admission_wait_time_seconds",
      "kueue_admitted_active_workloads",
      "kueue_admitted_until_ready_wait_time_seconds",
      "kueue_admitted_workloads_total",
      "kueue_build_info",
      "kueue_cluster_queue_borrowing_limit",
      "kueue_cluster_queue_info",
      "kueue_cluster_queue_lending_limit",
      "kueue_cluster_queue_nominal_quota",
      "kueue_cluster_queue_resource_pending",
      "kueue_cluster_queue_resource_reservation",
      "kueue_cluster_queue_resource_usage",
      "kueue_cluster_queue_status",
      "kueue_cluster_queue_weighted_share",
      "kueue_cohort_info",
      "kueue_cohort_subtree_admitted_active_workloads",
      "kueue_cohort_subtree_admitted_workloads_total",
      "kueue_cohort_subtree_quota",
      "kueue_cohort_subtree_resource_reservations",
      "kueue_cohort_weighted_share",
      "kueue_evicted_workloads_once_total",
      "kueue_evicted_workloads_total",
      "kueue_finished_workloads",
      "kueue_finished_workloads_total",
      "kueue_local_queue_admission_checks_wait_time_seconds",
      "kueue_local_queue_admission_fair_sharing_usage",
      "kueue_local_queue_admission_wait_time_seconds",
      "kueue_local_queue_admitted_active_workloads",
      "kueue_local_queue_admitted_until_ready_wait_time_seconds",
      "kueue_local_queue_admitted_workloads_total",
      "kueue_local_queue_evicted_workloads_total",
      "kueue_local_queue_finished_workloads",
      "kueue_local_queue_finished_workloads_total",
      "kueue_local_queue_pending_workloads",
      "kueue_local_queue_quota_reserved_wait_time_seconds",
      "kueue_local_queue_quota_reserved_workloads_total",
      "kueue_local_queue_ready_wait_time_seconds",
      "kueue_local_queue_reserving_active_workloads",
      "kueue_local_queue_resource_reservation",
      "kueue_local_queue_resource_usage",
      "kueue_local_queue_status",
      "kueue_local_queue_unadmitted_workloads",
      "kueue_pending_workloads",
      "kueue_pod_scheduling_gate_removal_seconds",
      "kueue_pods_ready_to_evicted_time_seconds",
      "kueue_preempted_workloads_total",
      "kueue_quota_reserved_wait_time_seconds",
      "kueue_quota_reserved_workloads_total",
      "kueue_ready_wait_time_seconds",
      "kueue_replaced_workload_slices_total",
      "kueue_reserving_active_workloads",
      "kueue_unadmitted_workloads",
      "kueue_workload_creation_latency_seconds",
      "kueue_workload_eviction_latency_seconds",
      "multikueue_workloads_admitted_total",
      "multikueue_workloads_dispatched_total",
  };
  EXPECT_EQ(ours, kueues);
}

TEST(MetricsTest, DocumentationIsMadeFromTheTable) {
  const std::string path = std::string(TUTTI_SOURCE_DIR) + "/docs/metrics.md";
  if (std::getenv("TUTTI_UPDATE_DOCS") != nullptr) {  // NOLINT(concurrency-mt-unsafe)
    std::ofstream(path) << MetricsMarkdown();
  }
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), MetricsMarkdown()) << "run operator_test with TUTTI_UPDATE_DOCS=1";
}

TEST(MetricsTest, CountersGaugesAndHistogramsAreRendered) {
  Metrics metrics;
  metrics.Add(Metric::kAdmittedWorkloads, {"cq-a", "high"});
  metrics.Add(Metric::kAdmittedWorkloads, {"cq-a", "high"}, 2);
  metrics.Set(Metric::kPendingWorkloads, {"cq-a", "active"}, 7);
  metrics.Observe(Metric::kAdmissionWaitTime, {"cq-a", ""}, 6);
  metrics.Set(Metric::kObjects, {"Job"}, 3);
  const std::string page = metrics.Render();
  EXPECT_THAT(page, testing::HasSubstr("# TYPE kueue_admitted_workloads_total counter\n"));
  EXPECT_THAT(page, testing::HasSubstr(
                        "kueue_admitted_workloads_total{cluster_queue=\"cq-a\",priority_class="
                        "\"high\",replica_role=\"standalone\"} 3\n"));
  EXPECT_THAT(page,
              testing::HasSubstr("kueue_pending_workloads{cluster_queue=\"cq-a\",replica_role="
                                 "\"standalone\",status=\"active\"} 7\n"));
  EXPECT_THAT(
      page, testing::ContainsRegex("kueue_admission_wait_time_seconds_bucket\\{.*le=\"5\"\\} 0\n"));
  EXPECT_THAT(page, testing::ContainsRegex(
                        "kueue_admission_wait_time_seconds_bucket\\{.*le=\"10\"\\} 1\n"));
  EXPECT_THAT(page, testing::HasSubstr("tutti_objects{kind=\"Job\"} 3\n"));
}

TEST(MetricsTest, WaitBucketsAreKueues) {
  const auto& buckets = InfoOf(Metric::kQuotaReservedWaitTime).buckets;
  EXPECT_THAT(buckets, testing::ElementsAre(1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560,
                                            5120, 10240));
  EXPECT_EQ(InfoOf(Metric::kAdmissionWaitTime).buckets.size(), 16U);
}

TEST(MetricsTest, SeriesOfADeletedQueueVanish) {
  Metrics metrics;
  for (const std::string_view queue : {"cq-a", "cq-b"}) {
    metrics.Set(Metric::kPendingWorkloads, {queue, "active"}, 1);
    metrics.Add(Metric::kEvictedWorkloads, {queue, "Preempted", "", ""});
    metrics.Set(Metric::kResourceUsage, {"cohort", queue, "f", "cpu"}, 1);
    metrics.Observe(Metric::kAdmissionWaitTime, {queue, ""}, 1);
    metrics.Set(Metric::kLocalQueuePendingWorkloads, {queue, "ns", "active"}, 1);
  }
  metrics.RemoveClusterQueue("cq-a");
  EXPECT_THAT(metrics.Render(), testing::Not(testing::HasSubstr("cluster_queue=\"cq-a\"")));
  EXPECT_THAT(metrics.Render(), testing::HasSubstr("cluster_queue=\"cq-b\""));
  EXPECT_EQ(metrics.ValueForTest(Metric::kLocalQueuePendingWorkloads, {"cq-a", "ns", "active"}), 1);
  metrics.RemoveLocalQueue({"ns", "cq-a"});
  EXPECT_THAT(metrics.Render(), testing::Not(testing::HasSubstr("cq-a")));
  metrics.Set(Metric::kPendingWorkloads, {"cq-a", "active"}, 5);  // the queue comes back
  EXPECT_EQ(metrics.ValueForTest(Metric::kPendingWorkloads, {"cq-a", "active"}), 5);
}

TEST(MetricsTest, RoleChangesTheLabelAndDropsOldGauges) {
  Metrics metrics;
  metrics.SetRole("follower");
  metrics.Set(Metric::kPendingWorkloads, {"cq", "active"}, 1);
  metrics.Add(Metric::kAdmittedWorkloads, {"cq", ""});
  metrics.SetRole("leader");
  metrics.Set(Metric::kPendingWorkloads, {"cq", "active"}, 2);
  const std::string page = metrics.Render();
  EXPECT_THAT(page, testing::HasSubstr(
                        "kueue_pending_workloads{cluster_queue=\"cq\",replica_role=\"leader\""));
  EXPECT_THAT(page, testing::Not(testing::HasSubstr(
                        "kueue_pending_workloads{cluster_queue=\"cq\",replica_role=\"follower\"")));
  EXPECT_THAT(page, testing::HasSubstr(
                        "kueue_admitted_workloads_total{cluster_queue=\"cq\",priority_class=\"\","
                        "replica_role=\"follower\"} 1"));
}

TEST(MetricsTest, WrongUseIsCountedAndOtherwiseIgnored) {
  Metrics metrics;
  metrics.Add(Metric::kAdmittedWorkloads, {"one label, two are due"});
  metrics.Set(Metric::kAdmittedWorkloads, {"cq", "p"}, 3);  // a counter
  EXPECT_EQ(metrics.ValueForTest(Metric::kLogBugs), 2);
  EXPECT_THAT(metrics.Render(), testing::Not(testing::HasSubstr("kueue_admitted_workloads_total")));
}

TEST(MetricsTest, ProcessNumbersAreThere) {
  Metrics metrics;
  const std::string page = metrics.Render();
  EXPECT_GT(metrics.ValueForTest(Metric::kProcessResident), 1e6);
  EXPECT_GT(metrics.ValueForTest(Metric::kProcessOpenFds), 2);
  EXPECT_GT(metrics.ValueForTest(Metric::kProcessStartTime), 1.6e9);
  EXPECT_THAT(page, testing::HasSubstr("process_cpu_seconds_total"));
}

TEST(MetricsTest, ThreadsMayCountWhileThePageIsMade) {
  Metrics metrics;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&metrics, t] {
      for (int i = 0; i < 1000; ++i) {
        metrics.Add(Metric::kApiWrites, {"PATCH", "jobs", "200"});
        metrics.Set(Metric::kPendingWorkloads, {"cq" + std::to_string(t), "active"}, i);
        if (i % 100 == 0) {
          metrics.RemoveClusterQueue("cq" + std::to_string(t));
          EXPECT_FALSE(metrics.Render().empty());
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(metrics.ValueForTest(Metric::kApiWrites, {"PATCH", "jobs", "200"}), 4000);
}

}  // namespace
}  // namespace tutti
