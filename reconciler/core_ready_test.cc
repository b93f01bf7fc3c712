// SPDX-License-Identifier: Apache-2.0
// What a job is watched for once it runs, against the in-memory cluster: readiness of its pods,
// time limits, pods that are given back early, partial admission, retention.
#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "base/names.h"
#include "reconciler/core.h"
#include "reconciler/gang.h"
#include "reconciler/testing/cluster.h"

namespace tutti::reconciler {
namespace {

using namespace std::chrono_literals;
using api::Kind;
using testing::Cluster;

Options TestOptions() {
  Options options;
  options.gang_api = GangApi::kV1Alpha2;
  options.managed_namespaces.present = true;
  options.wait_for_pods_ready.timeout = 2min;
  options.wait_for_pods_ready.recovery_timeout = 1min;
  return options;
}

// Two nodes of 4 cpu, one team with 8 cpu of quota.
struct World {
  Cluster cluster;
  explicit World(Options options = TestOptions()) : cluster(std::move(options)) {
    cluster.AddNamespace("team-a");
    cluster.AddFlavor("default");
    cluster.AddNode("n1", 4);
    cluster.AddNode("n2", 4);
    cluster.AddQueue("cq", "team-a", {{"cpu", "8"}});
    cluster.Tick();
  }
  std::string Is(const std::string& job, std::string_view type) const {
    const Json workload = cluster.WorkloadOf("team-a", job);
    return cluster.Condition(workload, type) + "/" + cluster.Condition(workload, type, "reason");
  }
  void SetActive(const std::string& job, bool active) {
    cluster.PatchSpec(Kind::kWorkload,
                      {"team-a", cluster.WorkloadOf("team-a", job)["metadata"]["name"].AsString()},
                      Json::Obj({{"active", active}}));
  }
};

TEST(CoreReadyTest, ReadinessIsShownAsKueueShowsIt) {
  World world;
  Cluster& cluster = world.cluster;
  cluster.SetReadiness(false);
  cluster.Submit({.name = "job", .pods = 2, .runs_for = 600s});
  cluster.Run(1s);
  EXPECT_EQ(world.Is("job", "PodsReady"), "False/WaitForStart");
  cluster.SetReadiness(true);
  cluster.Run(1s);
  EXPECT_EQ(world.Is("job", "PodsReady"), "True/Started");
  cluster.SetReadiness(false);
  cluster.Run(1s);
  EXPECT_EQ(world.Is("job", "PodsReady"), "False/WaitForRecovery");
  cluster.SetReadiness(true);
  cluster.Run(1s);
  EXPECT_EQ(world.Is("job", "PodsReady"), "True/Recovered");
}

TEST(CoreReadyTest, AJobThatIsNotReadyInTimeBacksOffForLongerEachTime) {
  World world;
  Cluster& cluster = world.cluster;
  cluster.SetReadiness(false);
  cluster.Submit({.name = "job", .pods = 2, .runs_for = 600s});
  cluster.Run(125s);
  EXPECT_EQ(world.Is("job", "Evicted"), "True/PodsReadyTimeout");
  EXPECT_EQ(cluster.WorkloadOf("team-a", "job")["status"]["schedulingStats"]["evictions"]
                .AsArray()[0]["underlyingCause"]
                .AsString(),
            "WaitForStart");
  EXPECT_EQ(world.Is("job", "Requeued"), "False/PodsReadyTimeout");
  EXPECT_EQ(world.Is("job", "PodsReady"), "False/WaitForStart");
  cluster.Run(50s);
  EXPECT_EQ(world.Is("job", "Requeued"), "False/PodsReadyTimeout") << "60 s of back-off";
  cluster.Run(10s);
  EXPECT_EQ(world.Is("job", "Requeued"), "True/BackoffFinished");
  EXPECT_FALSE(cluster.Suspended("team-a", "job"));
  cluster.Run(180s);
  EXPECT_EQ(world.Is("job", "Requeued"), "False/PodsReadyTimeout") << "120 s the second time";
  EXPECT_EQ(cluster.WorkloadOf("team-a", "job")["status"]["requeueState"]["count"].AsInt(), 2);
  cluster.SetReadiness(true);
  cluster.Run(80s);
  EXPECT_FALSE(cluster.Suspended("team-a", "job"));
  EXPECT_EQ(world.Is("job", "PodsReady"), "True/Started");
}

TEST(CoreReadyTest, AJobThatDoesNotRecoverInTimeIsTakenBack) {
  World world;
  Cluster& cluster = world.cluster;
  cluster.Submit({.name = "job", .pods = 2, .runs_for = 600s});
  cluster.Run(1s);
  cluster.SetReadiness(false);
  cluster.Run(50s);
  EXPECT_EQ(world.Is("job", "Evicted"), "/");
  cluster.Run(15s);
  EXPECT_EQ(world.Is("job", "Evicted"), "True/PodsReadyTimeout");
  EXPECT_EQ(cluster.WorkloadOf("team-a", "job")["status"]["schedulingStats"]["evictions"]
                .AsArray()[0]["underlyingCause"]
                .AsString(),
            "WaitForRecovery");
}

TEST(CoreReadyTest, TheLimitOfReturnsDeactivatesAndReactivationStartsTheCountAnew) {
  Options options = TestOptions();
  options.wait_for_pods_ready.backoff_limit = 1;
  World world(options);
  Cluster& cluster = world.cluster;
  cluster.SetReadiness(false);
  cluster.Submit({.name = "job", .pods = 2, .runs_for = 600s});
  cluster.Run(125s + 60s + 125s);
  EXPECT_EQ(world.Is("job", "Evicted"), "True/DeactivatedDueToRequeuingLimitExceeded");
  EXPECT_TRUE(cluster.WorkloadOf("team-a", "job")["status"]["admission"].IsNull());
  EXPECT_TRUE(cluster.Suspended("team-a", "job"));
  EXPECT_EQ(
      cluster.Condition(cluster.WorkloadOf("team-a", "job"), "Evicted", "message"),
      "The workload is deactivated due to exceeding the maximum number of re-queuing retries");
  cluster.Run(1h, 10s);
  EXPECT_TRUE(cluster.Suspended("team-a", "job")) << "one end, no churn";
  world.SetActive("job", true);
  cluster.Run(125s);
  EXPECT_EQ(world.Is("job", "Evicted"), "True/PodsReadyTimeout");
  EXPECT_EQ(cluster.WorkloadOf("team-a", "job")["status"]["requeueState"]["count"].AsInt(), 1);
}

TEST(CoreReadyTest, ReadyTimesAreTakenOncePerAdmission) {
  World world;
  Cluster& cluster = world.cluster;
  cluster.Submit({.name = "job", .pods = 2, .runs_for = 600s});
  cluster.Run(2s);
  cluster.SetReadiness(false);
  cluster.Run(2s);
  cluster.SetReadiness(true);
  cluster.Run(2s);
  EXPECT_EQ(world.Is("job", "PodsReady"), "True/Recovered");
  EXPECT_EQ(cluster.Observed("kueue_ready_wait_time_seconds"), 1);
}

TEST(CoreReadyTest, WithBlockAdmissionTheNextStartsWhenTheFirstIsReady) {
  Options options = TestOptions();
  options.wait_for_pods_ready.block_admission = true;
  World world(options);
  Cluster& cluster = world.cluster;
  cluster.SetReadiness(false);
  cluster.Submit({.name = "first", .pods = 2, .runs_for = 600s});
  cluster.Tick();
  cluster.Submit({.name = "second", .pods = 2, .runs_for = 600s});
  cluster.Submit({.name = "third", .pods = 2, .runs_for = 600s});
  cluster.Run(5s);
  EXPECT_FALSE(cluster.Suspended("team-a", "first"));
  EXPECT_TRUE(cluster.Suspended("team-a", "second"));
  EXPECT_EQ(world.Is("second", "QuotaReserved"), "False/Waiting");
  EXPECT_EQ(cluster.Condition(cluster.WorkloadOf("team-a", "second"), "QuotaReserved", "message"),
            "waiting for all admitted workloads to be in PodsReady condition");
  cluster.SetReadiness(true);
  cluster.Run(2s);
  EXPECT_FALSE(cluster.Suspended("team-a", "second"));
  EXPECT_FALSE(cluster.Suspended("team-a", "third"));
  EXPECT_EQ(cluster.Check(), "");
}

TEST(CoreReadyTest, WithBlockAdmissionAnEvictionLetsTheNextIn) {
  Options options = TestOptions();
  options.wait_for_pods_ready.block_admission = true;
  World world(options);
  Cluster& cluster = world.cluster;
  cluster.SetReadiness(false);
  cluster.Submit({.name = "first", .pods = 2, .runs_for = 600s});
  cluster.Tick();
  cluster.Submit({.name = "second", .pods = 2, .runs_for = 600s});
  cluster.Run(119s);
  EXPECT_TRUE(cluster.Suspended("team-a", "second"));
  cluster.Run(4s);
  EXPECT_EQ(world.Is("first", "Evicted"), "True/PodsReadyTimeout");
  EXPECT_FALSE(cluster.Suspended("team-a", "second"));
}

TEST(CoreReadyTest, AMaximumExecutionTimeCountsOverAllAdmissionsAndThenDeactivates) {
  World world;
  Cluster& cluster = world.cluster;
  cluster.Submit({.name = "job",
                  .pods = 2,
                  .runs_for = 600s,
                  .labels = {{std::string(names::kMaxExecTimeLabel), "30"}}});
  cluster.Run(11s);
  world.SetActive("job", false);
  cluster.Run(60s);
  EXPECT_NEAR(
      static_cast<double>(
          cluster.WorkloadOf("team-a", "job")["status"]["accumulatedPastExecutionTimeSeconds"]
              .AsInt()),
      11, 2);
  world.SetActive("job", true);
  cluster.Run(15s);
  EXPECT_FALSE(cluster.Suspended("team-a", "job"));
  cluster.Run(10s);
  EXPECT_EQ(world.Is("job", "Evicted"), "True/DeactivatedDueToMaximumExecutionTimeExceeded");
  EXPECT_TRUE(cluster.Suspended("team-a", "job"));
  EXPECT_EQ(std::count_if(cluster.events().begin(), cluster.events().end(),
                          [](const EventRecord& event) {
                            return event.reason == "MaximumExecutionTimeExceeded" && event.warning;
                          }),
            1);
  cluster.Run(2min, 5s);
  EXPECT_TRUE(cluster.Suspended("team-a", "job"));
  world.SetActive("job", true);
  cluster.Run(25s);
  EXPECT_FALSE(cluster.Suspended("team-a", "job")) << "a new activation has all of its time";
  cluster.Run(10s);
  EXPECT_TRUE(cluster.Suspended("team-a", "job"));
}

TEST(CoreReadyTest, PodsThatAreDoneGiveTheirQuotaBackAndTheWorkloadSaysSo) {
  World world;
  Cluster& cluster = world.cluster;
  cluster.Submit({.name = "job", .pods = 4, .runs_for = 600s, .completions = 6});
  cluster.Run(1s);
  const auto succeed = [&](size_t count) {
    const auto pods = cluster.PodsOf("team-a", "job");
    size_t done = 0;
    for (const Json& pod : pods) {
      if (done < count && pod["status"]["phase"].AsString() != "Succeeded") {
        EXPECT_TRUE(cluster.server().MergePatch(
            api::ResourceOf(Kind::kPod), {"team-a", pod["metadata"]["name"].AsString()},
            Json::Obj({{"status", Json::Obj({{"phase", "Succeeded"}})}}), "status"));
        ++done;
      }
    }
    EXPECT_EQ(done, count);
    cluster.Run(3s);
  };
  const auto reclaimable = [&] {
    return cluster.WorkloadOf("team-a", "job")["status"]["reclaimablePods"].AsArray().empty()
               ? 0
               : cluster.WorkloadOf("team-a", "job")["status"]["reclaimablePods"]
                     .AsArray()[0]["count"]
                     .AsInt();
  };
  succeed(2);
  EXPECT_EQ(reclaimable(), 0) << "4 of 6 are left, and 4 run at a time";
  succeed(1);
  EXPECT_EQ(reclaimable(), 1);
  succeed(1);
  EXPECT_EQ(reclaimable(), 2);
  EXPECT_EQ(cluster.core().engine().Report("cq").usage[0].reserved, 2000);
}

TEST(CoreReadyTest, AFinishedWorkloadIsDeletedAfterItsTime) {
  Options options = TestOptions();
  options.retain_finished = 30s;
  World world(options);
  Cluster& cluster = world.cluster;
  cluster.Submit({.name = "job", .pods = 2, .runs_for = 1s});
  ASSERT_TRUE(cluster.RunUntilDone(10s));
  cluster.Run(20s);
  EXPECT_FALSE(cluster.WorkloadOf("team-a", "job").IsNull());
  cluster.Restart();
  cluster.Run(15s);
  EXPECT_TRUE(cluster.WorkloadOf("team-a", "job").IsNull());
  EXPECT_TRUE(cluster.Finished("team-a", "job")) << "the Job itself stays";
  cluster.Run(5s);
  EXPECT_TRUE(cluster.WorkloadOf("team-a", "job").IsNull()) << "and gets no new one";
}

TEST(CoreReadyTest, AJobThatTheControllerDeactivatedIsDeletedAfterItsTime) {
  Options options = TestOptions();
  options.retain_deactivated = 30s;
  options.wait_for_pods_ready.backoff_limit = 0;
  World world(options);
  Cluster& cluster = world.cluster;
  cluster.SetReadiness(false);
  cluster.Submit({.name = "by-controller", .pods = 2, .runs_for = 600s});
  cluster.Submit({.name = "by-user", .pods = 2, .runs_for = 600s});
  cluster.Run(1s);
  world.SetActive("by-user", false);
  cluster.Run(130s);
  EXPECT_EQ(world.Is("by-controller", "Evicted"), "True/DeactivatedDueToRequeuingLimitExceeded");
  cluster.Run(30s);
  EXPECT_TRUE(cluster.Job("team-a", "by-controller").IsNull());
  EXPECT_TRUE(cluster.server().List(api::ResourceOf(Kind::kWorkload)).size() == 1U);
  EXPECT_FALSE(cluster.Job("team-a", "by-user").IsNull());
}

TEST(CoreReadyTest, AnInterruptedDeactivationIsCarriedThroughByTheNextLife) {
  Options options = TestOptions();
  options.wait_for_pods_ready.backoff_limit = 0;
  World world(options);
  Cluster& cluster = world.cluster;
  cluster.SetReadiness(false);
  cluster.Submit({.name = "job", .pods = 2, .runs_for = 600s});
  cluster.Run(118s);
  cluster.SetFaults(1);  // every write fails, half of them after they were carried out
  for (int i = 0; i < 8; ++i) {
    cluster.Restart();
    cluster.Run(1s);
  }
  cluster.SetFaults(0);
  cluster.Restart();
  cluster.Run(5s);
  EXPECT_EQ(world.Is("job", "Evicted"), "True/DeactivatedDueToRequeuingLimitExceeded");
  EXPECT_EQ(world.Is("job", "DeactivationTarget"), "/");
  EXPECT_EQ(cluster.WorkloadOf("team-a", "job")["status"]["schedulingStats"]["evictions"]
                .AsArray()[0]["count"]
                .AsInt(),
            1);
}

}  // namespace
}  // namespace tutti::reconciler
