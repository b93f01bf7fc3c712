// SPDX-License-Identifier: Apache-2.0
// Preemption carried out, against the in-memory cluster: the victim is evicted and stopped, the
// preemptor waits for its pods to go and starts; whatever fails in between, nothing is done twice.
#include <algorithm>
#include <string>

#include <gmock/gmock.h>
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
  return options;
}

// One queue of 4 cpu in which higher priorities take the room of lower ones.
class CorePreemptionTest : public ::testing::Test {
 protected:
  CorePreemptionTest() : cluster(TestOptions()) {
    cluster.AddNamespace("team-a");
    cluster.AddFlavor("default");
    cluster.AddNode("n1", 4);
    cluster.AddNode("n2", 4);
    cluster.AddQueue("cq", "team-a", {{"cpu", "4"}});
    cluster.PatchSpec(
        Kind::kClusterQueue, {"", "cq"},
        Json::Obj({{"preemption", Json::Obj({{"withinClusterQueue", "LowerPriority"}})}}));
    for (const auto& [name, value] : {std::pair{"low", 1}, std::pair{"high", 100}}) {
      EXPECT_TRUE(cluster.server().Create(
          api::ResourceOf(Kind::kWorkloadPriorityClass),
          Json::Obj({{"metadata", Json::Obj({{"name", name}})}, {"value", value}})));
    }
    cluster.Tick();
  }

  std::string Is(const std::string& job, std::string_view type) const {
    const Json workload = cluster.WorkloadOf("team-a", job);
    return cluster.Condition(workload, type) + "/" + cluster.Condition(workload, type, "reason");
  }
  int64_t Events(std::string_view reason) const {
    return std::count_if(cluster.events().begin(), cluster.events().end(),
                         [&](const EventRecord& event) { return event.reason == reason; });
  }
  int64_t Evictions(const std::string& job) const {
    int64_t total = 0;
    const Json workload = cluster.WorkloadOf("team-a", job);
    for (const Json& entry : workload["status"]["schedulingStats"]["evictions"].AsArray()) {
      total += entry["count"].AsInt();
    }
    return total;
  }

  Cluster cluster;
};

TEST_F(CorePreemptionTest, TheVictimGivesWayTheOtherStartsAndThenItComesBack) {
  cluster.SetGrace(3s);
  cluster.Submit({.name = "low", .pods = 3, .runs_for = 5s, .priority_class = "low"});
  cluster.Run(1s);
  const Json before = cluster.Job("team-a", "low");
  cluster.Submit({.name = "high", .pods = 3, .runs_for = 5s, .priority_class = "high"});
  cluster.Run(1s);
  EXPECT_EQ(Is("low", "Evicted"), "True/Preempted");
  EXPECT_EQ(Is("low", "Preempted"), "True/InClusterQueue");
  EXPECT_EQ(cluster.Condition(cluster.WorkloadOf("team-a", "low"), "Preempted", "message"),
            cluster.Condition(cluster.WorkloadOf("team-a", "low"), "Evicted", "message"));
  cluster.Run(3s);
  EXPECT_FALSE(cluster.Suspended("team-a", "high"));
  EXPECT_EQ(Is("low", "Requeued"), "True/Preempted");
  EXPECT_EQ(Evictions("low"), 1);
  EXPECT_EQ(Events("Preempted"), 1);
  EXPECT_EQ(Events("PreemptedWorkload"), 1);
  EXPECT_EQ(Events("EvictedDueToPreempted"), 1);
  EXPECT_EQ(cluster.Counted("kueue_preempted_workloads_total"), 1);
  EXPECT_TRUE(cluster.RunUntilDone(60s));
  EXPECT_EQ(Is("low", "Preempted"), "False/QuotaReserved");
  EXPECT_EQ(cluster.Check(), "");
}

// Decided on in the moment in which the preemptor's Workload is created.
TEST_F(CorePreemptionTest, TheMessageOfAVictimNamesTheWorkloadOfANewJob) {
  cluster.Submit({.name = "low", .pods = 3, .runs_for = 600s, .priority_class = "low"});
  cluster.Run(1s);
  cluster.Submit({.name = "high", .pods = 3, .runs_for = 5s, .priority_class = "high"});
  cluster.Run(1s);
  const Json high = cluster.WorkloadOf("team-a", "high");
  EXPECT_THAT(cluster.Condition(cluster.WorkloadOf("team-a", "low"), "Evicted", "message"),
              ::testing::HasSubstr("(UID: " + std::string(high["metadata"]["uid"].AsString()) +
                                   ", JobUID: "));
}

TEST_F(CorePreemptionTest, NobodyGivesWayForAJobWhoseWorkloadIsRefused) {
  cluster.Submit({.name = "low", .pods = 3, .runs_for = 600s, .priority_class = "low"});
  cluster.Run(1s);
  bool refuse = true;
  cluster.server().SetBefore([&](const api::WriteRequest& request, std::string_view) -> Status {
    if (request.resource.kind == "Workload" && request.verb == api::Verb::kCreate && refuse) {
      return Fail(ErrorCode::kForbidden, "no more Workloads");
    }
    return {};
  });
  cluster.Submit({.name = "high", .pods = 3, .runs_for = 5s, .priority_class = "high"});
  cluster.Run(1s);
  EXPECT_EQ(Is("low", "Evicted"), "/");
  EXPECT_FALSE(cluster.Suspended("team-a", "low"));
  refuse = false;
  cluster.Run(60s);
  EXPECT_EQ(Evictions("low"), 1);
  EXPECT_TRUE(cluster.Finished("team-a", "high"));
  EXPECT_EQ(cluster.Check(), "");
}

TEST_F(CorePreemptionTest, AnEvictionThatFailsAtFirstIsToldOnce) {
  cluster.Submit({.name = "low", .pods = 3, .runs_for = 600s, .priority_class = "low"});
  cluster.Run(1s);
  cluster.Submit({.name = "high", .pods = 3, .runs_for = 5s, .priority_class = "high"});
  int failures = 4;
  cluster.server().SetBefore([&](const api::WriteRequest& request, std::string_view) -> Status {
    if (request.resource.kind == "Workload" && request.verb == api::Verb::kApply &&
        request.body["status"].Has("schedulingStats") && failures > 0) {
      --failures;
      return Fail(ErrorCode::kInternal, "no");
    }
    return {};
  });
  cluster.Run(10s);
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(Evictions("low"), 1);
  EXPECT_EQ(Events("EvictedDueToPreempted"), 1);
  EXPECT_EQ(cluster.Counted("kueue_evicted_workloads_total"), 1);
  EXPECT_EQ(cluster.Counted("kueue_evicted_workloads_once_total"), 1);
  EXPECT_TRUE(cluster.Finished("team-a", "high") || !cluster.Suspended("team-a", "high"));
}

TEST_F(CorePreemptionTest, AnEvictionLandsThoughAnotherWritesTheWorkloadAllTheTime) {
  cluster.Submit({.name = "low", .pods = 3, .runs_for = 600s, .priority_class = "low"});
  cluster.Run(1s);
  cluster.Submit({.name = "high", .pods = 3, .runs_for = 600s, .priority_class = "high"});
  // Somebody is always a moment faster.
  int faster = 5;
  cluster.server().SetBefore([&](const api::WriteRequest& request, std::string_view who) -> Status {
    if (who.empty() && request.verb == api::Verb::kApply &&
        request.body["status"].Has("schedulingStats") && faster > 0) {
      --faster;
      EXPECT_TRUE(cluster.server().MergePatch(
          api::ResourceOf(Kind::kWorkload), request.key,
          Json::Obj({{"metadata",
                      Json::Obj({{"annotations", Json::Obj({{"n", std::to_string(faster)}})}})}})));
    }
    return {};
  });
  cluster.Run(5s);
  EXPECT_EQ(faster, 0);
  EXPECT_EQ(Is("low", "Evicted"), "True/Preempted");
  EXPECT_FALSE(cluster.Suspended("team-a", "high"));
}

TEST_F(CorePreemptionTest, ARestartAtAnyWriteOfAPreemptionRepeatsNothing) {
  for (int dies_at = 0; dies_at < 12; ++dies_at) {
    SCOPED_TRACE("the controller dies at write " + std::to_string(dies_at));
    const std::string number = std::to_string(dies_at);
    cluster.Submit({.name = "low" + number, .pods = 3, .runs_for = 600s, .priority_class = "low"});
    cluster.Run(1s);
    ASSERT_FALSE(cluster.Suspended("team-a", "low" + number));
    cluster.Submit(
        {.name = "high" + number, .pods = 3, .runs_for = 600s, .priority_class = "high"});
    int left = dies_at;
    bool dead = false;
    cluster.server().SetBefore([&](const api::WriteRequest&, std::string_view who) -> Status {
      if (!who.empty()) {
        return {};
      }
      dead = dead || left-- == 0;
      return dead ? Status(Fail(ErrorCode::kUnavailable, "the process has died")) : Status();
    });
    cluster.Tick();
    cluster.server().SetBefore(nullptr);
    cluster.Restart();
    cluster.Run(3s);
    EXPECT_FALSE(cluster.Suspended("team-a", "high" + number));
    EXPECT_TRUE(cluster.Suspended("team-a", "low" + number));
    EXPECT_EQ(Evictions("low" + number), 1);
    EXPECT_EQ(cluster.Check(), "");
    cluster.DeleteJob({"team-a", "low" + number});
    cluster.DeleteJob({"team-a", "high" + number});
    cluster.Run(1s);
  }
}

TEST_F(CorePreemptionTest, AVictimThatIsDeletedMeanwhileLeavesNobodyWaiting) {
  cluster.SetGrace(3s);
  cluster.Submit({.name = "low", .pods = 3, .runs_for = 600s, .priority_class = "low"});
  cluster.Run(1s);
  cluster.Submit({.name = "high", .pods = 3, .runs_for = 600s, .priority_class = "high"});
  cluster.Tick();
  ASSERT_EQ(Is("low", "Evicted"), "True/Preempted");
  cluster.DeleteJob({"team-a", "low"});
  cluster.Run(5s);
  EXPECT_FALSE(cluster.Suspended("team-a", "high"));
  EXPECT_EQ(cluster.Check(), "");
}

TEST_F(CorePreemptionTest, APartOfAJobCountsAsThatPartAndIsRestoredWhole) {
  cluster.Submit({.name = "part",
                  .pods = 6,
                  .runs_for = 5s,
                  .priority_class = "low",
                  .annotations = {{std::string(names::kMinParallelismAnnotation), "2"}}});
  cluster.Run(1s);
  EXPECT_EQ(cluster.Job("team-a", "part")["spec"]["parallelism"].AsInt(), 4);
  EXPECT_EQ(cluster.core().engine().Report("cq").usage[0].reserved, 4000);
  const std::string uid = cluster.WorkloadOf("team-a", "part")["metadata"]["uid"].AsString();
  cluster.Submit({.name = "high", .pods = 4, .runs_for = 30s, .priority_class = "high"});
  cluster.Run(2s);
  EXPECT_FALSE(cluster.Suspended("team-a", "high"));
  EXPECT_TRUE(cluster.Suspended("team-a", "part"));
  EXPECT_EQ(cluster.WorkloadOf("team-a", "part")["metadata"]["uid"].AsString(), uid);
  EXPECT_EQ(Is("part", "Evicted"), "True/Preempted");
  EXPECT_EQ(cluster.Job("team-a", "part")["spec"]["parallelism"].AsInt(), 6);
  cluster.AddNode("n3", 4);
  cluster.SetQuota("cq", "cpu", "10");
  cluster.Run(2s);
  EXPECT_FALSE(cluster.Suspended("team-a", "part"));
  EXPECT_EQ(cluster.Job("team-a", "part")["spec"]["parallelism"].AsInt(), 6);
  EXPECT_TRUE(cluster.RunUntilDone(60s));
}

}  // namespace
}  // namespace tutti::reconciler
