// SPDX-License-Identifier: Apache-2.0
// Jobs whose pods have volumes, through the controller core.
#include <gtest/gtest.h>

#include "api/storage.h"
#include "reconciler/core.h"
#include "reconciler/testing/cluster.h"

namespace tutti::reconciler {
namespace {

using namespace std::chrono_literals;
using testing::Cluster;

class VolumesTest : public ::testing::Test {
 protected:
  static Options WithVolumes(bool known) {
    Options options;
    options.gang_api = GangApi::kV1Alpha2;
    options.managed_namespaces.present = true;
    options.volumes = known;
    return options;
  }

  static void SetUp(Cluster& cluster) {
    cluster.AddNamespace("team-a");
    cluster.AddFlavor("default");
    cluster.AddNode("n1", 4);
    cluster.AddNode("n2", 4);
    cluster.AddQueue("cq", "team-a", {{"cpu", "8"}});
    cluster.Tick();
  }

  static void Claim(Cluster& cluster, const std::string& volume) {
    auto claim = std::make_shared<api::PersistentVolumeClaim>();
    claim->meta.ns = "team-a";
    claim->meta.name = "data";
    claim->spec.storage_class = "local";
    claim->spec.volume_name = volume;
    claim->bind_complete = !volume.empty();
    cluster.core().OnPersistentVolumeClaim(claim, false);
  }

  static std::string Message(Cluster& cluster, const std::string& job) {
    return cluster.Condition(cluster.WorkloadOf("team-a", job), "QuotaReserved", "message");
  }
};

TEST_F(VolumesTest, AJobWaitsForItsClaimAndStartsWhenTheClaimIsBound) {
  Cluster cluster{WithVolumes(true)};
  SetUp(cluster);
  cluster.Submit({.name = "gang", .pods = 2, .runs_for = 60s, .volume_claim = "data"});
  cluster.Run(2s);
  EXPECT_TRUE(cluster.Suspended("team-a", "gang"));
  EXPECT_NE(Message(cluster, "gang").find("PersistentVolumeClaim team-a/data doesn't exist"),
            std::string::npos)
      << Message(cluster, "gang");
  Claim(cluster, "");
  cluster.Run(2s);
  EXPECT_NE(Message(cluster, "gang").find("is not bound yet"), std::string::npos)
      << Message(cluster, "gang");
  auto volume = std::make_shared<api::PersistentVolume>();
  volume->meta.name = "pv";
  cluster.core().OnPersistentVolume(volume, false);
  Claim(cluster, "pv");
  cluster.Run(1s);
  EXPECT_FALSE(cluster.Suspended("team-a", "gang")) << Message(cluster, "gang");
  EXPECT_EQ(cluster.Check(), "");
}

TEST_F(VolumesTest, AJobWaitsForRoomOnTheNodeOfItsVolume) {
  Cluster cluster{WithVolumes(true)};
  SetUp(cluster);
  auto volume = std::make_shared<api::PersistentVolume>();
  volume->meta.name = "pv";
  volume->affinity = api::NodeSelector{{{{{"kubernetes.io/hostname", "In", {"n3"}}}, {}}}};
  cluster.core().OnPersistentVolume(volume, false);
  Claim(cluster, "pv");
  cluster.Submit({.name = "gang", .pods = 2, .runs_for = 60s, .volume_claim = "data"});
  cluster.Run(2s);
  EXPECT_TRUE(cluster.Suspended("team-a", "gang"));
  EXPECT_NE(Message(cluster, "gang").find("PersistentVolume pv of claim team-a/data"),
            std::string::npos)
      << Message(cluster, "gang");
  cluster.AddNode("n3", 4);
  cluster.Run(1s);
  EXPECT_FALSE(cluster.Suspended("team-a", "gang")) << Message(cluster, "gang");
}

TEST_F(VolumesTest, WithoutTheRightToReadThemVolumesAreLeftToTheScheduler) {
  Cluster cluster{WithVolumes(false)};
  SetUp(cluster);
  cluster.Submit({.name = "gang", .pods = 2, .runs_for = 60s, .volume_claim = "data"});
  cluster.Run(2s);
  EXPECT_FALSE(cluster.Suspended("team-a", "gang"));
}

}  // namespace
}  // namespace tutti::reconciler
