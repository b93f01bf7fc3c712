// SPDX-License-Identifier: Apache-2.0
// Fair sharing as statuses show it: shares of ClusterQueues and Cohorts, past usage of LocalQueues.
#include <gtest/gtest.h>

#include "reconciler/core.h"
#include "reconciler/testing/cluster.h"

namespace tutti::reconciler {
namespace {

using namespace std::chrono_literals;
using api::Kind;
using api::ResourceOf;
using testing::Cluster;

Options TestOptions() {
  Options options;
  options.managed_namespaces.present = true;
  return options;
}

void AddCohort(Cluster& cluster, const std::string& name) {
  EXPECT_TRUE(cluster.server().Create(
      ResourceOf(Kind::kCohort),
      Json::Obj({{"metadata", Json::Obj({{"name", name}})}, {"spec", Json::Obj()}})));
}

Json Status(Cluster& cluster, Kind kind, const api::ObjectKey& key) {
  auto object = cluster.server().Get(ResourceOf(kind), key);
  return object ? (*object)["status"] : Json();
}

// Two teams with 4 cpu each in one cohort, 8 cpu on two nodes.
void Fill(Cluster& cluster) {
  cluster.AddFlavor("default");
  cluster.AddNode("n1", 4);
  cluster.AddNode("n2", 4);
  AddCohort(cluster, "all");
  for (const char* team : {"a", "b"}) {
    cluster.AddNamespace(std::string("team-") + team);
    cluster.AddQueue(team, std::string("team-") + team, {{"cpu", "4"}}, "all");
  }
  cluster.Tick();
}

TEST(SharesTest, StatusesShowWhatIsBorrowed) {
  Options options = TestOptions();
  options.fair_sharing.emplace();
  Cluster cluster(options);
  Fill(cluster);
  cluster.Submit({.name = "big", .pods = 6, .runs_for = 30s});
  cluster.Run(3s);
  // 2 of the 8 that the cohort has.
  EXPECT_EQ(Status(cluster, Kind::kClusterQueue, {"", "a"})["fairSharing"]["weightedShare"].AsInt(),
            250);
  EXPECT_TRUE(Status(cluster, Kind::kClusterQueue, {"", "b"})["fairSharing"].Has("weightedShare"));
  EXPECT_TRUE(Status(cluster, Kind::kCohort, {"", "all"})["fairSharing"].Has("weightedShare"));
  EXPECT_TRUE(cluster.RunUntilDone(60s));
  cluster.Run(3s);
  EXPECT_EQ(Status(cluster, Kind::kClusterQueue, {"", "a"})["fairSharing"]["weightedShare"].AsInt(),
            0);
  const uint64_t writes = cluster.writes();
  cluster.Run(5s);
  EXPECT_EQ(cluster.writes(), writes) << "a share that is told is not told again";
  EXPECT_EQ(cluster.Check(), "");
}

TEST(SharesTest, WithoutFairSharingNoShareIsWritten) {
  Cluster cluster(TestOptions());
  Fill(cluster);
  cluster.Submit({.name = "big", .pods = 6, .runs_for = 30s});
  cluster.Run(3s);
  EXPECT_FALSE(Status(cluster, Kind::kClusterQueue, {"", "a"}).Has("fairSharing"));
  EXPECT_TRUE(Status(cluster, Kind::kCohort, {"", "all"}).IsNull());
  EXPECT_FALSE(Status(cluster, Kind::kLocalQueue, {"team-a", "main"}).Has("fairSharing"));
}

TEST(SharesTest, PastUsageOutlivesARestart) {
  Options options = TestOptions();
  options.admission_fair_sharing = engine::AdmissionFairSharing{10min, 1min, {}};
  Cluster cluster(options);
  Fill(cluster);
  ASSERT_TRUE(cluster.server().MergePatch(
      ResourceOf(Kind::kClusterQueue), {"", "a"},
      Json::Obj(
          {{"spec",
            Json::Obj({{"admissionScope",
                        Json::Obj({{"admissionMode", "UsageBasedAdmissionFairSharing"}})}})}})));
  const auto consumed = [&] {
    const Json status = Status(cluster, Kind::kLocalQueue, {"team-a", "main"});
    const Json& past = status["fairSharing"]["admissionFairSharingStatus"];
    EXPECT_NE(past["lastUpdate"].AsString(), "");
    const auto cpu = api::Quantity::FromJson(past["consumedResources"]["cpu"]);
    return cpu ? cpu->ApproximateDouble() : -1;
  };
  cluster.Run(2min, 1s);
  EXPECT_EQ(consumed(), 0) << "told, too";
  cluster.Submit({.name = "job", .pods = 4, .runs_for = 10min});
  cluster.Run(11min, 1s);
  EXPECT_TRUE(cluster.RunUntilDone(1min));
  cluster.Run(1min, 1s);
  // Ten minutes of 4 cpu with a half-life of as much are about 2, which fade a little.
  const double before = consumed();
  EXPECT_GT(before, 1.6);
  EXPECT_LT(before, 2.3);
  cluster.Restart();
  cluster.Run(5s, 1s);
  EXPECT_NEAR(consumed(), before, 0.2);
  const auto past = cluster.core().engine().PastUsageOf({"team-a", "main"});
  ASSERT_TRUE(past.has_value());
  EXPECT_NEAR(past->usage, before, 0.2);
  EXPECT_TRUE(Status(cluster, Kind::kLocalQueue, {"team-b", "main"}).Has("fairSharing"))
      << "counted whether or not its queue is ordered by it";
}

}  // namespace
}  // namespace tutti::reconciler
