// SPDX-License-Identifier: Apache-2.0
#include "operator/queue_metrics.h"

#include <limits>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/config.h"

namespace tutti {
namespace {

using testing::HasSubstr;
using testing::Not;

// One ClusterQueue of a cohort, with a LocalQueue, as the engine and the caches know them.
class QueueMetricsTest : public ::testing::Test {
 protected:
  QueueMetricsTest() {
    api::ResourceFlavor flavor;
    flavor.meta.name = "default";
    engine->SetFlavor(flavor);
  }

  static api::ClusterQueue Queue(const std::string& resource, const std::string& nominal) {
    api::ClusterQueue queue;
    queue.meta.name = "cq";
    queue.meta.resource_version = "1";
    queue.cohort = "all";
    queue.namespace_selector.present = true;
    api::ResourceQuota quota;
    quota.name = resource;
    quota.nominal = *api::Quantity::Parse(nominal);
    queue.groups = {{{resource}, {{"default", {quota}}}}};
    return queue;
  }
  void Set(const api::ClusterQueue& queue) {
    engine->SetClusterQueue(queue);
    world.cluster_queues.Upsert(std::make_shared<const api::ClusterQueue>(queue));
  }
  void SetLocal(api::StopPolicy stop) {
    api::LocalQueue local;
    local.meta.ns = "team";
    local.meta.name = "lq";
    local.meta.resource_version = std::to_string(++version);
    local.cluster_queue = "cq";
    local.stop_policy = stop;
    engine->SetLocalQueue(local);
    world.local_queues.Upsert(std::make_shared<const api::LocalQueue>(local));
  }
  void RemoveLocal() {
    const auto local = world.local_queues.Find({"team", "lq"});
    ASSERT_NE(local, nullptr);
    api::LocalQueue gone = *local;
    gone.meta.resource_version = std::to_string(++version);
    engine->RemoveLocalQueue(gone.meta.Key());
    world.local_queues.Remove(gone);
  }
  void Update() {
    engine->RunPass(Time{});
    queues.Update(world, *engine, metrics);
  }
  double Of(Metric metric) const {
    return metrics.ValueForTest(metric, {"all", "cq", "default", "cpu"});
  }

  static Config TestConfig() {
    Config config;
    config.metrics.cluster_queue_resources = true;
    return config;
  }

  std::unique_ptr<engine::Engine> engine = engine::MakeEngine();
  reconciler::World world;
  Metrics metrics;
  QueueMetrics queues{TestConfig()};
  int version = 1;
};

TEST_F(QueueMetricsTest, CpuIsInCoresAndALimitThatIsNotSetIsNoLimit) {
  Set(Queue("cpu", "5"));
  Update();
  EXPECT_EQ(Of(Metric::kNominalQuota), 5);
  EXPECT_EQ(Of(Metric::kBorrowingLimit), std::numeric_limits<double>::infinity());
  EXPECT_EQ(Of(Metric::kLendingLimit), std::numeric_limits<double>::infinity());
  api::ClusterQueue limited = Queue("cpu", "5");
  limited.meta.resource_version = "2";
  limited.groups[0].flavors[0].resources[0].borrowing_limit = *api::Quantity::Parse("0");
  Set(limited);
  Update();
  EXPECT_EQ(Of(Metric::kBorrowingLimit), 0);
}

TEST_F(QueueMetricsTest, HugeQuotasStayLargeAndPositive) {
  for (const std::string resource : {"cpu", "memory", "example.com/gpu"}) {
    SCOPED_TRACE(resource);
    api::ClusterQueue queue = Queue(resource, "9E");
    queue.meta.resource_version = std::to_string(++version);
    Set(queue);
    Update();
    EXPECT_GE(metrics.ValueForTest(Metric::kNominalQuota, {"all", "cq", "default", resource}),
              9e15);
  }
}

TEST_F(QueueMetricsTest, PendingFollowsItsLocalQueue) {
  Set(Queue("cpu", "1"));
  engine::WorkloadInput input;
  input.id = "team/w";
  input.ns = "team";
  input.local_queue = "lq";
  engine::PodSetInput pod_set;
  pod_set.name = "main";
  pod_set.count = 1;
  pod_set.requests["cpu"] = 2000;
  auto shape = std::make_shared<api::PodShape>();
  shape->requests = pod_set.requests;
  pod_set.shape = std::move(shape);
  input.pod_sets = {pod_set};
  engine->SetPending(input);
  Update();
  EXPECT_THAT(metrics.Render(), Not(HasSubstr("local_queue_pending_workloads{")));
  const auto pending = [&] {
    return metrics.ValueForTest(Metric::kLocalQueuePendingWorkloads, {"lq", "team", "active"}) +
           metrics.ValueForTest(Metric::kLocalQueuePendingWorkloads,
                                {"lq", "team", "inadmissible"});
  };
  SetLocal(api::StopPolicy::kNone);
  Update();
  EXPECT_EQ(pending(), 1);
  SetLocal(api::StopPolicy::kHold);
  Update();
  EXPECT_EQ(pending(), 1) << "stopped, and still there";
  EXPECT_EQ(metrics.ValueForTest(Metric::kLocalQueueStatus, {"lq", "team", "False"}), 1);
  RemoveLocal();
  Update();
  EXPECT_THAT(metrics.Render(), Not(HasSubstr("local_queue_pending_workloads{")));
  SetLocal(api::StopPolicy::kNone);
  engine->Remove("team/w");
  Update();
  EXPECT_EQ(pending(), 0);
}

// A Cohort's series end with its object although ClusterQueues still name it, and come back when
// something changes below the name.
TEST_F(QueueMetricsTest, ADeletedCohortIsSilentUntilSomethingChangesBelowItsName) {
  api::Cohort cohort;
  cohort.meta.name = "all";
  cohort.meta.resource_version = "1";
  engine->SetCohort(cohort);
  world.cohorts.Upsert(std::make_shared<const api::Cohort>(cohort));
  Set(Queue("cpu", "5"));
  const auto quota = [this] {
    return metrics.ValueForTest(Metric::kCohortSubtreeQuota, {"all", "default", "cpu"});
  };
  constexpr const char* kQuota = "kueue_cohort_subtree_quota{";
  Update();
  EXPECT_EQ(quota(), 5);

  cohort.meta.resource_version = "2";
  engine->RemoveCohort("all");
  world.cohorts.Remove(cohort);
  Update();
  EXPECT_THAT(metrics.Render(), Not(HasSubstr(kQuota)));
  Update();
  EXPECT_THAT(metrics.Render(), Not(HasSubstr(kQuota))) << "nothing has changed";

  api::ClusterQueue larger = Queue("cpu", "7");
  larger.meta.resource_version = "2";
  Set(larger);
  Update();
  EXPECT_EQ(quota(), 7);
  Update();
  EXPECT_EQ(quota(), 7) << "and it stays";
}

TEST_F(QueueMetricsTest, ACohortThatWasOnlyEverNamedHasItsSeries) {
  Set(Queue("cpu", "5"));
  Update();
  EXPECT_EQ(metrics.ValueForTest(Metric::kCohortSubtreeQuota, {"all", "default", "cpu"}), 5);
}

}  // namespace
}  // namespace tutti
