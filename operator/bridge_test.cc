// SPDX-License-Identifier: Apache-2.0
#include "operator/bridge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti {
namespace {

using reconciler::MetricSample;

MetricSample Sample(MetricSample::Op op, const std::string& name, double value,
                    std::vector<std::pair<std::string, std::string>> more = {}) {
  MetricSample sample{
      op,
      name,
      {{"cluster_queue", "cq"}, {"name", "lq"}, {"namespace", "team"}, {"priority_class", "high"}},
      value};
  sample.labels.insert(sample.labels.end(), more.begin(), more.end());
  return sample;
}

TEST(BridgeTest, WhatIsCountedOfAClusterQueueIsCountedOfItsLocalQueueToo) {
  Metrics metrics;
  const auto all = [](const api::ObjectKey& queue) {
    return queue == api::ObjectKey{"team", "lq"};
  };
  EXPECT_TRUE(
      Record(Sample(MetricSample::Op::kAdd, "kueue_admitted_workloads_total", 2), metrics, all));
  EXPECT_TRUE(Record(Sample(MetricSample::Op::kAdd, "kueue_evicted_workloads_total", 1,
                            {{"reason", "Preempted"}, {"underlying_cause", ""}}),
                     metrics, all));
  EXPECT_TRUE(
      Record(Sample(MetricSample::Op::kObserve, "kueue_quota_reserved_wait_time_seconds", 3),
             metrics, all));
  EXPECT_EQ(metrics.ValueForTest(Metric::kAdmittedWorkloads, {"cq", "high"}), 2);
  EXPECT_EQ(metrics.ValueForTest(Metric::kLocalQueueAdmittedWorkloads, {"lq", "team", "high"}), 2);
  EXPECT_EQ(metrics.ValueForTest(Metric::kEvictedWorkloads, {"cq", "Preempted", "", "high"}), 1);
  EXPECT_EQ(metrics.ValueForTest(Metric::kLocalQueueEvictedWorkloads,
                                 {"lq", "team", "Preempted", "", "high"}),
            1);
  EXPECT_THAT(
      metrics.Render(),
      testing::HasSubstr("kueue_local_queue_quota_reserved_wait_time_seconds_count{name=\"lq\""));
}

TEST(BridgeTest, LocalQueuesThatAreNotWantedHaveNoSeries) {
  Metrics metrics;
  EXPECT_TRUE(Record(Sample(MetricSample::Op::kAdd, "kueue_admitted_workloads_total", 1), metrics,
                     [](const api::ObjectKey&) { return false; }));
  EXPECT_THAT(metrics.Render(),
              testing::Not(testing::HasSubstr("local_queue_admitted_workloads_total{")));
}

TEST(BridgeTest, UnknownMetricsAreTold) {
  Metrics metrics;
  EXPECT_FALSE(Record(Sample(MetricSample::Op::kAdd, "kueue_nonsense_total", 1), metrics,
                      [](const api::ObjectKey&) { return true; }));
}

TEST(BridgeTest, SeriesOfADeletedClusterQueueVanish) {
  Metrics metrics;
  const auto none = [](const api::ObjectKey&) { return false; };
  EXPECT_TRUE(
      Record(Sample(MetricSample::Op::kAdd, "kueue_admitted_workloads_total", 1), metrics, none));
  EXPECT_TRUE(Record({MetricSample::Op::kRemove, "", {{"cluster_queue", "cq"}}, 0}, metrics, none));
  EXPECT_THAT(metrics.Render(), testing::Not(testing::HasSubstr("cluster_queue=\"cq\"")));
}

TEST(BridgeTest, SeriesOfADeletedCohortVanishAndThoseOfItsClusterQueuesStay) {
  Metrics metrics;
  const auto none = [](const api::ObjectKey&) { return false; };
  metrics.Add(Metric::kCohortSubtreeAdmitted, {"all", "high"});
  metrics.Set(Metric::kNominalQuota, {"all", "cq", "default", "cpu"}, 4);
  EXPECT_TRUE(Record({MetricSample::Op::kRemove, "", {{"cohort", "all"}}, 0}, metrics, none));
  EXPECT_EQ(metrics.ValueForTest(Metric::kCohortSubtreeAdmitted, {"all", "high"}), 0);
  EXPECT_EQ(metrics.ValueForTest(Metric::kNominalQuota, {"all", "cq", "default", "cpu"}), 4);
}

TEST(BridgeTest, SeriesOfADeletedLocalQueueVanishAndThoseOfItsClusterQueueStay) {
  Metrics metrics;
  const auto all = [](const api::ObjectKey&) { return true; };
  const std::vector<std::pair<std::string, std::string>> labels = {
      {"cluster_queue", "cq"}, {"name", "lq"}, {"namespace", "team"}, {"priority_class", ""}};
  EXPECT_TRUE(
      Record({MetricSample::Op::kAdd, "kueue_admitted_workloads_total", labels, 1}, metrics, all));
  EXPECT_THAT(metrics.Render(), testing::HasSubstr("name=\"lq\""));
  EXPECT_TRUE(Record({MetricSample::Op::kRemove, "", {{"name", "lq"}, {"namespace", "team"}}, 0},
                     metrics, all));
  EXPECT_THAT(metrics.Render(), testing::Not(testing::HasSubstr("name=\"lq\"")));
  EXPECT_THAT(metrics.Render(), testing::HasSubstr("cluster_queue=\"cq\""));
}

}  // namespace
}  // namespace tutti
