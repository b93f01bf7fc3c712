// SPDX-License-Identifier: Apache-2.0
// The way of one job through the controller core, against the in-memory cluster.
#include "reconciler/core.h"

#include <algorithm>
#include <memory>

#include <gtest/gtest.h>

#include "base/names.h"
#include "reconciler/gang.h"
#include "reconciler/testing/cluster.h"

namespace tutti::reconciler {
namespace {

using namespace std::chrono_literals;
using testing::Cluster;
using testing::JobSpec;

Options TestOptions(GangApi gang_api = GangApi::kV1Alpha2) {
  Options options;
  options.gang_api = gang_api;
  options.managed_namespaces.present = true;
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
};

TEST(CoreTest, AJobThatFitsRunsAndItsQuotaGoesToTheNext) {
  World world;
  Cluster& cluster = world.cluster;
  cluster.Submit({.name = "first", .pods = 8, .runs_for = 3s});
  cluster.Tick();
  cluster.Submit({.name = "second", .pods = 8, .runs_for = 3s});
  cluster.Run(1s);
  EXPECT_FALSE(cluster.Suspended("team-a", "first"));
  EXPECT_TRUE(cluster.Suspended("team-a", "second"));
  EXPECT_TRUE(cluster.RunUntilDone(30s));
  EXPECT_EQ(cluster.Condition(cluster.WorkloadOf("team-a", "second"), "Finished"), "True");
  EXPECT_TRUE(cluster.server().List(PodGroupResource(GangApi::kV1Alpha2)).empty());
  EXPECT_EQ(cluster.Check(), "");
}

TEST(CoreTest, WithoutASchedulerNothingIsAdmittedAndWhatHoldsQuotaGivesItBack) {
  Options options = TestOptions();
  options.scheduler = false;
  World world(options);
  Cluster& cluster = world.cluster;
  cluster.Submit({.name = "first", .pods = 1, .runs_for = 1s});
  cluster.Run(5s);
  EXPECT_TRUE(cluster.Suspended("team-a", "first"));
  EXPECT_EQ(cluster.Condition(cluster.WorkloadOf("team-a", "first"), "QuotaReserved"), "");
  EXPECT_EQ(cluster.Check(), "");
}

TEST(CoreTest, LabelsThatAreAskedForAreCopiedToTheWorkload) {
  Options options = TestOptions();
  options.label_keys_to_copy = {std::string(names::kQueueNameLabel), "absent"};
  World world(options);
  world.cluster.Submit({.name = "job"});
  world.cluster.Tick();
  const Json labels = world.cluster.WorkloadOf("team-a", "job")["metadata"]["labels"];
  EXPECT_EQ(labels[names::kQueueNameLabel].AsString(), "main");
  EXPECT_FALSE(labels.Has("absent"));
}

TEST(CoreTest, WithTheCapacityCheckOffAQueueHasNoConditionsOfOurs) {
  Options options = TestOptions();
  options.capacity = CapacityChoice::kOff;
  World off(options);
  World on;
  for (auto& [world, expected] : {std::pair<World&, size_t>{off, 1}, {on, 2}}) {
    world.cluster.Run(3s);
    const auto queue =
        world.cluster.server().Get(api::ResourceOf(api::Kind::kClusterQueue), {"", "cq"});
    ASSERT_TRUE(queue);
    EXPECT_EQ((*queue)["status"]["conditions"].AsArray().size(), expected) << queue->Dump();
  }
}

TEST(CoreTest, WithoutASchedulerAMissingQueueIsToldAllTheSame) {
  Options options = TestOptions();
  options.scheduler = false;
  World world(options);
  Cluster& cluster = world.cluster;
  cluster.AddNamespace("team-b");
  cluster.Submit({.name = "lost", .ns = "team-b", .pods = 1, .runs_for = 1s});
  cluster.Run(5s);
  EXPECT_EQ(cluster.Condition(cluster.WorkloadOf("team-b", "lost"), "QuotaReserved"), "False");
}

TEST(CoreTest, AWaitingJobIsToldWhatIsMissing) {
  World world;
  Cluster& cluster = world.cluster;
  cluster.Submit({.name = "first", .pods = 6, .runs_for = 60s});
  cluster.Tick();
  cluster.Submit({.name = "second", .pods = 3, .runs_for = 1s});
  cluster.Run(3s);
  const Json workload = cluster.WorkloadOf("team-a", "second");
  EXPECT_EQ(cluster.Condition(workload, "QuotaReserved"), "False");
  EXPECT_EQ(cluster.Condition(workload, "QuotaReserved", "reason"), "Pending");
  EXPECT_NE(cluster.Condition(workload, "QuotaReserved", "message")
                .find("insufficient unused quota for cpu in flavor default, 1 more needed"),
            std::string::npos)
      << cluster.Condition(workload, "QuotaReserved", "message");
}

TEST(CoreTest, QuotaWithoutAPlaceDoesNotStartAJob) {
  World world;
  Cluster& cluster = world.cluster;
  // Three pods of 3 cpu need three nodes; there are two.
  cluster.Submit({.name = "wide", .pods = 2, .cpu_milli = 3000, .runs_for = 5s});
  cluster.Tick();
  cluster.Submit({.name = "late", .pods = 1, .cpu_milli = 2000, .runs_for = 1s});
  cluster.Run(2s);
  EXPECT_FALSE(cluster.Suspended("team-a", "wide"));
  EXPECT_TRUE(cluster.Suspended("team-a", "late"));
  const std::string message =
      cluster.Condition(cluster.WorkloadOf("team-a", "late"), "QuotaReserved", "message");
  EXPECT_NE(message.find("cpu"), std::string::npos) << message;
  EXPECT_TRUE(cluster.RunUntilDone(20s));
}

TEST(CoreTest, AGangGetsAFreshGroupAndOnePodJobsGetNone) {
  World world;
  Cluster& cluster = world.cluster;
  cluster.Submit({.name = "gang", .pods = 3, .runs_for = 60s});
  cluster.Submit({.name = "single", .pods = 1, .runs_for = 60s});
  cluster.Run(1s);
  const auto groups = cluster.server().List(PodGroupResource(GangApi::kV1Alpha2));
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0]["spec"]["schedulingPolicy"]["gang"]["minCount"].AsInt(), 3);
  EXPECT_FALSE(groups[0]["metadata"]["ownerReferences"].AsArray()[0]["controller"].AsBool());
  const Json labels = cluster.Job("team-a", "gang")["spec"]["template"]["metadata"]["labels"];
  EXPECT_EQ(labels[names::kPodGroupLabel].AsString(), groups[0]["metadata"]["name"].AsString());
  EXPECT_FALSE(cluster.Suspended("team-a", "single"));
  EXPECT_FALSE(cluster.Job("team-a", "single")["spec"]["template"]["metadata"]["labels"].Has(
      names::kPodGroupLabel));
}

TEST(CoreTest, WhatDoesNotLandIsTakenBackWholeAndRestored) {
  World world;
  Cluster& cluster = world.cluster;
  cluster.SetScheduler(false);
  cluster.Submit({.name = "gang", .pods = 3, .runs_for = 2s});
  cluster.Tick();
  const Json before = cluster.Job("team-a", "gang")["spec"]["template"];
  cluster.Run(65s);
  EXPECT_TRUE(cluster.Suspended("team-a", "gang"));
  EXPECT_TRUE(cluster.PodsOf("team-a", "gang").empty());
  EXPECT_TRUE(cluster.server().List(PodGroupResource(GangApi::kV1Alpha2)).empty());
  const Json job = cluster.Job("team-a", "gang");
  EXPECT_FALSE(job["spec"]["template"]["metadata"]["labels"].Has(names::kPodGroupLabel));
  EXPECT_FALSE(job["spec"]["template"]["metadata"]["labels"].Has(names::kPodSetLabel));
  const Json workload = cluster.WorkloadOf("team-a", "gang");
  EXPECT_EQ(cluster.Condition(workload, "Evicted", "reason"), "PodsReadyTimeout");
  EXPECT_EQ(
      workload["status"]["schedulingStats"]["evictions"].AsArray()[0]["underlyingCause"].AsString(),
      "NotPlaced");
  EXPECT_TRUE(workload["status"]["admission"].IsNull());
  EXPECT_FALSE(workload["status"]["requeueState"]["requeueAt"].IsNull());
  EXPECT_EQ(cluster.Check(), "");
  cluster.SetScheduler(true);
  EXPECT_TRUE(cluster.RunUntilDone(60s));
  EXPECT_EQ(cluster.Job("team-a", "gang")["spec"]["template"]["spec"], before["spec"]);
}

TEST(CoreTest, APodPrefersThePlannedNodesUnlessSteeringIsOff) {
  for (const Steering steering : {Options{}.steering, Steering::kNone}) {
    Options options = TestOptions();
    options.steering = steering;
    World world(options);
    Cluster& cluster = world.cluster;
    cluster.Submit({.name = "gang", .pods = 2, .runs_for = 60s});
    cluster.Run(1s);
    const Json affinity = cluster.Job("team-a", "gang")["spec"]["template"]["spec"]["affinity"];
    if (steering == Steering::kNone) {
      EXPECT_TRUE(affinity.IsNull());
      continue;
    }
    EXPECT_EQ(affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"].Dump(),
              R"([{"weight":100,"preference":{"matchExpressions":[)"
              R"({"key":"kubernetes.io/hostname","operator":"In","values":["n1"]}]}}])");
    EXPECT_TRUE(
        affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"].IsNull());
  }
}

TEST(CoreTest, WithNodeSelectorAGangOnOneNodeIsBoundToItAndPutBackAsItWas) {
  Options options = TestOptions();
  options.steering = Steering::kNodeSelector;
  World world(options);
  Cluster& cluster = world.cluster;
  cluster.SetScheduler(false);
  cluster.Submit({.name = "gang", .pods = 2, .runs_for = 2s});
  const Json before = cluster.Job("team-a", "gang")["spec"]["template"]["spec"];
  cluster.Run(1s);
  EXPECT_EQ(cluster.Job("team-a", "gang")["spec"]["template"]["spec"]["nodeSelector"].Dump(),
            R"({"kubernetes.io/hostname":"n1"})");
  cluster.Run(65s);
  EXPECT_TRUE(cluster.Suspended("team-a", "gang"));
  EXPECT_EQ(cluster.Job("team-a", "gang")["spec"]["template"]["spec"].Dump(), before.Dump());
}

TEST(CoreTest, JobsThatArriveWhileNobodyIsThereStartInOrderOfAge) {
  World world;
  Cluster& cluster = world.cluster;
  cluster.SetController(false);
  for (int i = 0; i < 6; ++i) {
    // Names in the opposite order of age.
    cluster.Submit({.name = "job-" + std::to_string(9 - i), .pods = 8, .runs_for = 2s});
    cluster.Run(2s);
  }
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(cluster.Suspended("team-a", "job-" + std::to_string(9 - i)));
  }
  cluster.SetController(true);
  cluster.Restart();
  EXPECT_TRUE(cluster.RunUntilDone(60s));
  std::vector<std::string> released;
  for (const HistoryRow& row : cluster.history()) {
    if (row.kind == HistoryKind::kReleased) {
      released.push_back(row.job);
    }
  }
  EXPECT_EQ(released,
            (std::vector<std::string>{"job-9", "job-8", "job-7", "job-6", "job-5", "job-4"}));
}

TEST(CoreTest, AQueueLabelOnARunningJobSuspendsItFirst) {
  World world;
  Cluster& cluster = world.cluster;
  cluster.Submit({.name = "wild", .queue = "", .pods = 2, .runs_for = 30s});
  cluster.Run(2s);
  ASSERT_EQ(cluster.PodsOf("team-a", "wild").size(), 2U);
  ASSERT_TRUE(cluster.server().MergePatch(
      api::ResourceOf(api::Kind::kJob), {"team-a", "wild"},
      Json::Obj({{"metadata", Json::Obj({{"labels", Json::Obj({{std::string(names::kQueueNameLabel),
                                                                "main"}})}})}})));
  cluster.Run(2s);
  const Json workload = cluster.WorkloadOf("team-a", "wild");
  EXPECT_EQ(cluster.Condition(workload, "Admitted"), "True");
  EXPECT_FALSE(cluster.Suspended("team-a", "wild"));
}

TEST(CoreTest, DeletedJobGivesItsQuotaBack) {
  World world;
  Cluster& cluster = world.cluster;
  cluster.Submit({.name = "first", .pods = 8, .runs_for = 600s});
  cluster.Tick();
  cluster.Submit({.name = "second", .pods = 8, .runs_for = 1s});
  cluster.Run(2s);
  cluster.DeleteJob({"team-a", "first"});
  cluster.Run(2s);
  EXPECT_FALSE(cluster.Suspended("team-a", "second"));
  EXPECT_EQ(cluster.server().List(api::ResourceOf(api::Kind::kWorkload)).size(), 1U);
}

TEST(CoreTest, LostMemberAfterAnotherFinishedIsLetThroughAlone) {
  World world;
  Cluster& cluster = world.cluster;
  cluster.Submit({.name = "gang", .pods = 3, .runs_for = 20s});
  cluster.Run(2s);
  const auto pods = cluster.PodsOf("team-a", "gang");
  ASSERT_EQ(pods.size(), 3U);
  ASSERT_TRUE(cluster.server().MergePatch(
      api::ResourceOf(api::Kind::kPod), {"team-a", pods[0]["metadata"]["name"].AsString()},
      Json::Obj({{"status", Json::Obj({{"phase", "Succeeded"}})}}), "status"));
  cluster.KillPod({"team-a", pods[1]["metadata"]["name"].AsString()});
  EXPECT_TRUE(cluster.RunUntilDone(60s));
  EXPECT_EQ(cluster.Check(), "");
}

TEST(CoreTest, DrainedQueueTakesJobsBackAndStartsThemAgainLater) {
  World world;
  Cluster& cluster = world.cluster;
  cluster.Submit({.name = "gang", .pods = 3, .runs_for = 10s});
  cluster.Run(2s);
  const auto set_policy = [&](const char* policy) {
    ASSERT_TRUE(
        cluster.server().MergePatch(api::ResourceOf(api::Kind::kClusterQueue), {"", "cq"},
                                    Json::Obj({{"spec", Json::Obj({{"stopPolicy", policy}})}})));
  };
  set_policy("HoldAndDrain");
  cluster.Run(3s);
  EXPECT_TRUE(cluster.Suspended("team-a", "gang"));
  EXPECT_TRUE(cluster.PodsOf("team-a", "gang").empty());
  EXPECT_EQ(cluster.Condition(cluster.WorkloadOf("team-a", "gang"), "Evicted", "reason"),
            "ClusterQueueStopped");
  set_policy("None");
  EXPECT_TRUE(cluster.RunUntilDone(30s));
}

TEST(CoreTest, AdmissionCheckWithoutAControllerSaysSo) {
  World world;
  Cluster& cluster = world.cluster;
  const api::Resource checks = api::ResourceOf(api::Kind::kAdmissionCheck);
  for (const auto& [name, controller] :
       {std::pair("ours", "kueue.x-k8s.io/multikueue"), {"theirs", "example.org/budget"}}) {
    ASSERT_TRUE(cluster.server().Create(
        checks, Json::Obj({{"metadata", Json::Obj({{"name", name}})},
                           {"spec", Json::Obj({{"controllerName", controller}})}})));
  }
  cluster.Run(3s);
  const Json ours = *cluster.server().Get(checks, {"", "ours"});
  EXPECT_EQ(cluster.Condition(ours, "Active"), "False");
  EXPECT_EQ(cluster.Condition(ours, "Active", "reason"), "ControllerNotFound");
  EXPECT_TRUE((*cluster.server().Get(checks, {"", "theirs"}))["status"].IsNull());
}

TEST(CoreTest, CountersOfAQueueThatIsMadeAgainStartFromZero) {
  World world;
  Core& core = world.cluster.core();
  const auto queue = [](const std::string& uid, const std::string& version) {
    const auto json = Json::Parse(R"({"metadata":{"name":"again","uid":")" + uid +
                                  R"(","resourceVersion":")" + version + R"("},"spec":{}})");
    return std::make_shared<const api::ClusterQueue>(*api::ClusterQueueFromJson(*json));
  };
  const auto dropped = [&] {
    const Output output = core.Step(world.cluster.now());
    return std::count_if(output.metrics.begin(), output.metrics.end(), [](const auto& sample) {
      return sample.op == MetricSample::Op::kRemove && sample.labels.front().second == "again";
    });
  };
  core.OnClusterQueue(queue("1", "900001"), /*deleted=*/false);
  EXPECT_EQ(dropped(), 0);
  // Deleted and there again before anything is written of it.
  core.OnClusterQueue(queue("1", "900002"), /*deleted=*/true);
  core.OnClusterQueue(queue("2", "900003"), /*deleted=*/false);
  EXPECT_EQ(dropped(), 1);
  // The deletion itself was missed.
  core.OnClusterQueue(queue("3", "900004"), /*deleted=*/false);
  EXPECT_EQ(dropped(), 1);
}

TEST(CoreTest, NothingIsWrittenTwiceWhenNothingChanges) {
  World world;
  Cluster& cluster = world.cluster;
  cluster.Submit({.name = "first", .pods = 8, .runs_for = 600s});
  cluster.Tick();
  cluster.Submit({.name = "second", .pods = 8, .runs_for = 1s});
  cluster.Run(5s);
  const uint64_t writes = cluster.writes();
  cluster.Run(60s);
  EXPECT_EQ(cluster.writes(), writes);
  cluster.Restart();
  cluster.Run(5s);
  EXPECT_EQ(cluster.writes(), writes) << "a restart repeats no write";
}

}  // namespace
}  // namespace tutti::reconciler
