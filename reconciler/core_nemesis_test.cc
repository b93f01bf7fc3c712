// SPDX-License-Identifier: Apache-2.0
// Random trouble from a seed: failed and half-failed writes, restarts between any two steps, killed
// pods, nodes that come and go, quota that changes. After each step the invariants hold; when the
// trouble ends every job finishes, none started twice at a time, nothing is left behind.
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "reconciler/gang.h"
#include "reconciler/testing/cluster.h"

namespace tutti::reconciler {
namespace {

using namespace std::chrono_literals;
using testing::Cluster;

// `rival`: the Job controller makes groups of its own for the Indexed ones among the jobs, and
// deleted pods take their time to go.
void Ordeal(uint64_t seed, GangApi gang_api, bool rival = false) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Options options;
  options.gang_api = gang_api;
  options.managed_namespaces.present = true;
  options.landing_timeout = 20s;
  Cluster cluster(options, seed);
  std::mt19937_64 random(seed);
  const auto pick = [&](int from, int to) {
    return std::uniform_int_distribution<int>(from, to)(random);
  };
  cluster.AddFlavor("default");
  int nodes = 5;
  for (int i = 0; i < nodes; ++i) {
    cluster.AddNode("n" + std::to_string(i), 8);
  }
  for (const char* team : {"team-a", "team-b"}) {
    cluster.AddNamespace(team);
    cluster.AddQueue(std::string("cq-") + team, team, {{"cpu", "20"}}, "all");
  }
  cluster.SetFaults(0.1);
  cluster.SetJobControllerGroups(rival);
  cluster.SetGrace(rival ? 3s : 0s);
  int submitted = 0;
  for (int step = 0; step < 150; ++step) {
    if (submitted < 25 && pick(0, 3) == 0) {
      cluster.Submit({.name = "job-" + std::to_string(submitted++),
                      .ns = pick(0, 1) == 0 ? "team-a" : "team-b",
                      .pods = pick(0, 1) == 0 ? 1 : pick(2, 8),
                      .cpu_milli = pick(1, 4) * 1000,
                      .runs_for = std::chrono::seconds(pick(1, 10)),
                      .indexed = rival && submitted % 2 == 0});
    }
    switch (pick(0, 40)) {
      case 0:
        cluster.Restart();
        break;
      case 1: {
        const auto pods = cluster.server().List(api::ResourceOf(api::Kind::kPod));
        if (!pods.empty()) {
          const Json& pod = pods[static_cast<size_t>(pick(0, static_cast<int>(pods.size()) - 1))];
          if (pod["status"]["phase"].AsString() != "Succeeded") {
            cluster.KillPod(
                {pod["metadata"]["namespace"].AsString(), pod["metadata"]["name"].AsString()});
          }
        }
        break;
      }
      case 2:
        cluster.Cordon("n" + std::to_string(pick(0, 4)), pick(0, 1) == 0);
        break;
      case 3:
        cluster.AddNode("n" + std::to_string(nodes++), 8);
        break;
      default:
        break;
    }
    cluster.Tick(std::chrono::milliseconds(pick(50, 800)));
    ASSERT_EQ(cluster.Check(), "");
  }
  cluster.SetFaults(0);
  for (int i = 0; i < 5; ++i) {
    cluster.Cordon("n" + std::to_string(i), false);
  }
  if (!cluster.RunUntilDone(20min)) {
    for (const Json& job : cluster.server().List(api::ResourceOf(api::Kind::kJob))) {
      const std::string name = job["metadata"]["name"].AsString();
      const std::string ns = job["metadata"]["namespace"].AsString();
      if (!cluster.Finished(ns, name)) {
        ADD_FAILURE() << ns << "/" << name << " is stuck: " << job.Dump() << "\n"
                      << cluster.WorkloadOf(ns, name)["status"].Dump();
      }
    }
    return;
  }
  cluster.Run(5s);
  for (const Json& group : cluster.server().List(PodGroupResource(GangApi::kV1Alpha2))) {
    EXPECT_TRUE(group["metadata"]["name"].AsString().ends_with("-by-controller"))
        << "groups are left behind";
  }
  for (const Json& workload : cluster.server().List(api::ResourceOf(api::Kind::kWorkload))) {
    EXPECT_EQ(cluster.Condition(workload, "Finished"), "True");
    EXPECT_TRUE(workload["metadata"]["finalizers"].AsArray().empty());
  }
  EXPECT_EQ(cluster.Check(), "");
}

TEST(CoreNemesisTest, NativeGangsSurviveRandomTrouble) {
  for (uint64_t seed = 1; seed <= 40 && !::testing::Test::HasFailure(); ++seed) {
    Ordeal(seed, GangApi::kV1Alpha2);
  }
}

TEST(CoreNemesisTest, SlowPodsAndGroupsOfTheJobControllerChangeNothing) {
  for (uint64_t seed = 201; seed <= 220 && !::testing::Test::HasFailure(); ++seed) {
    Ordeal(seed, GangApi::kV1Alpha2, /*rival=*/true);
  }
}

TEST(CoreNemesisTest, TheApiOf137ChangesNothing) {
  for (uint64_t seed = 301; seed <= 310 && !::testing::Test::HasFailure(); ++seed) {
    Ordeal(seed, GangApi::kV1Beta1, /*rival=*/seed % 2 == 0);
  }
}

TEST(CoreNemesisTest, WithoutTheNativeApiTheSameHolds) {
  for (uint64_t seed = 101; seed <= 120 && !::testing::Test::HasFailure(); ++seed) {
    Ordeal(seed, GangApi::kNone);
  }
}

}  // namespace
}  // namespace tutti::reconciler
