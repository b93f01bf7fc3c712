// SPDX-License-Identifier: Apache-2.0
// Jobs whose pods have ResourceClaims, through the controller core.
#include <map>

#include <gtest/gtest.h>

#include "reconciler/core.h"
#include "reconciler/testing/cluster.h"

namespace tutti::reconciler {
namespace {

using namespace std::chrono_literals;
using testing::Cluster;

class DevicesTest : public ::testing::Test {
 protected:
  static Options WithDevices() {
    Options options;
    options.gang_api = GangApi::kV1Alpha2;
    options.managed_namespaces.present = true;
    options.devices = true;
    options.device_mappings = {{"gpus", {"gpu"}, {}}};
    return options;
  }

  void SetUp() override {
    cluster_.AddNamespace("team-a");
    cluster_.AddFlavor("default");
    cluster_.AddNode("n1", 4);
    cluster_.AddNode("n2", 4);
    cluster_.AddQueue("cq", "team-a", {{"cpu", "8"}, {"gpus", "6"}});
    cluster_.Tick();
    auto device_class = std::make_shared<api::DeviceClass>();
    device_class->meta.name = "gpu";
    cluster_.core().OnDeviceClass(device_class, false);
    auto claim_template = std::make_shared<api::ResourceClaimTemplate>();
    claim_template->meta.ns = "team-a";
    claim_template->meta.name = "one-gpu";
    claim_template->spec = OneGpu();
    cluster_.core().OnResourceClaimTemplate(claim_template, false);
  }

  static api::ClaimSpec OneGpu() {
    api::DeviceRequest request;
    request.name = "gpu";
    request.exactly.emplace();
    request.exactly->name = "gpu";
    request.exactly->device_class = "gpu";
    request.exactly->mode = "ExactCount";
    return {{request}, {}};
  }

  void Gpus(const std::string& node, int count, bool deleted = false) {
    auto slice = std::make_shared<api::ResourceSlice>();
    slice->meta.name = node + "-gpus";
    slice->driver = "gpu.example.com";
    slice->pool = node;
    slice->slice_count = 1;
    slice->node_name = node;
    for (int i = 0; i < count; ++i) {
      api::Device device;
      device.name = "gpu-" + std::to_string(i);
      device.facts.driver = slice->driver;
      slice->devices.push_back(std::move(device));
    }
    cluster_.core().OnResourceSlice(slice, deleted);
  }

  // The claim of a job's pod number `pod`, with this device of its node.
  std::shared_ptr<api::ResourceClaim> ClaimOf(const std::string& job, size_t pod,
                                              const std::string& device) {
    const Json object = cluster_.PodsOf("team-a", job).at(pod);
    const std::string& name = object["metadata"]["name"].AsString();
    auto claim = std::make_shared<api::ResourceClaim>();
    claim->meta.ns = "team-a";
    claim->meta.name = name + "-gpu";
    claim->meta.resource_version = std::to_string(++version_);
    claim->meta.annotations[std::string(api::kPodClaimNameAnnotation)] = "gpu";
    claim->meta.owners.push_back(
        {"v1", "Pod", name, object["metadata"]["uid"].AsString(), /*controller=*/true});
    claim->spec = OneGpu();
    claim->allocation.emplace();
    api::DeviceResult result;
    result.driver = "gpu.example.com";
    result.pool = object["spec"]["nodeName"].AsString();
    result.device = device;
    claim->allocation->results.push_back(std::move(result));
    return claim;
  }

  std::string Message(const std::string& job) {
    return cluster_.Condition(cluster_.WorkloadOf("team-a", job), "QuotaReserved", "message");
  }

  Cluster cluster_{WithDevices()};
  uint64_t version_ = 1000;
};

TEST_F(DevicesTest, AJobWaitsUntilAllItsDevicesExist) {
  Gpus("n1", 1);
  cluster_.Submit({.name = "gang", .pods = 2, .runs_for = 60s, .claim_template = "one-gpu"});
  cluster_.Run(2s);
  EXPECT_TRUE(cluster_.Suspended("team-a", "gang"));
  EXPECT_NE(Message("gang").find("1 more of class gpu needed"), std::string::npos)
      << Message("gang");
  Gpus("n2", 1);
  cluster_.Run(1s);
  EXPECT_FALSE(cluster_.Suspended("team-a", "gang"));
  EXPECT_EQ(cluster_.Check(), "");
}

TEST_F(DevicesTest, AMissingTemplateIsSaidAndItsArrivalStartsTheJob) {
  Gpus("n1", 1);
  cluster_.Submit({.name = "job", .pods = 1, .runs_for = 60s, .claim_template = "late"});
  cluster_.Run(2s);
  EXPECT_NE(Message("job").find("ResourceClaimTemplate team-a/late does not exist"),
            std::string::npos)
      << Message("job");
  auto claim_template = std::make_shared<api::ResourceClaimTemplate>();
  claim_template->meta.ns = "team-a";
  claim_template->meta.name = "late";
  claim_template->spec = OneGpu();
  cluster_.core().OnResourceClaimTemplate(claim_template, false);
  cluster_.Run(1s);
  EXPECT_FALSE(cluster_.Suspended("team-a", "job"));
}

TEST_F(DevicesTest, DevicesCostQuota) {
  Gpus("n1", 4);
  Gpus("n2", 4);
  cluster_.Submit({.name = "five", .pods = 5, .runs_for = 5s, .claim_template = "one-gpu"});
  cluster_.Run(1s);
  EXPECT_FALSE(cluster_.Suspended("team-a", "five")) << Message("five");
  cluster_.Submit({.name = "two", .pods = 2, .runs_for = 5s, .claim_template = "one-gpu"});
  cluster_.Run(2s);
  EXPECT_TRUE(cluster_.Suspended("team-a", "two"));
  EXPECT_NE(Message("two").find("gpus"), std::string::npos) << Message("two");
  EXPECT_TRUE(cluster_.RunUntilDone(60s));
  EXPECT_EQ(cluster_.Check(), "");
}

// known-bugs D13
TEST_F(DevicesTest, AForgedClaimNeitherAddsToNorTakesFromWhatAJobIsCharged) {
  Gpus("n1", 4);
  Gpus("n2", 4);
  cluster_.Submit({.name = "five", .pods = 5, .runs_for = 60s, .claim_template = "one-gpu"});
  cluster_.Run(1s);
  ASSERT_FALSE(cluster_.Suspended("team-a", "five")) << Message("five");
  std::map<std::string, int> taken;  // by node
  for (size_t pod = 0; pod < 5; ++pod) {
    const auto claim = ClaimOf("five", pod, "");
    api::DeviceResult& result = claim->allocation->results.front();
    result.device = "gpu-" + std::to_string(taken[result.pool]++);
    cluster_.core().OnResourceClaim(claim, false);
  }
  for (int i = 0; i < 4; ++i) {
    // As if the scheduler had made it for a pod with an extended resource.
    const auto claim = ClaimOf("five", 0, "gpu-0");
    claim->meta.name = "forged-" + std::to_string(i);
    claim->meta.annotations["resource.kubernetes.io/extended-resource-claim"] = "true";
    claim->allocation.reset();
    cluster_.core().OnResourceClaim(claim, false);
  }
  cluster_.Submit({.name = "two", .pods = 2, .runs_for = 60s, .claim_template = "one-gpu"});
  cluster_.Run(2s);
  EXPECT_TRUE(cluster_.Suspended("team-a", "two"));
  cluster_.Submit({.name = "one", .pods = 1, .runs_for = 60s, .claim_template = "one-gpu"});
  cluster_.Run(1s);
  EXPECT_FALSE(cluster_.Suspended("team-a", "one")) << Message("one");
}

// known-bugs D4
TEST_F(DevicesTest, AClassThatIsDeletedAndMadeAgainIsLookedAtBothTimes) {
  Gpus("n1", 2);
  auto device_class = std::make_shared<api::DeviceClass>();
  device_class->meta.name = "gpu";
  cluster_.core().OnDeviceClass(device_class, true);
  cluster_.Submit({.name = "job", .pods = 1, .runs_for = 5s, .claim_template = "one-gpu"});
  cluster_.Run(2s);
  EXPECT_TRUE(cluster_.Suspended("team-a", "job"));
  EXPECT_NE(Message("job").find("device class gpu does not exist"), std::string::npos)
      << Message("job");
  cluster_.core().OnDeviceClass(device_class, false);
  cluster_.Run(1s);
  EXPECT_FALSE(cluster_.Suspended("team-a", "job")) << Message("job");
}

// known-bugs D5
TEST(DevicesOffTest, AJobWithClaimsIsRefusedWhereDevicesCantBeCounted) {
  for (const bool served : {false, true}) {
    Options options;
    options.managed_namespaces.present = true;
    options.devices = served;
    options.device_quota = false;
    Cluster cluster(options);
    cluster.AddNamespace("team-a");
    cluster.AddFlavor("default");
    cluster.AddNode("n1", 4);
    cluster.AddQueue("cq", "team-a", {{"cpu", "8"}});
    cluster.Tick();
    cluster.Submit({.name = "job", .pods = 1, .runs_for = 5s, .claim_template = "one-gpu"});
    cluster.Run(5s);
    EXPECT_TRUE(cluster.Suspended("team-a", "job"));
    const Json workload = cluster.WorkloadOf("team-a", "job");
    EXPECT_EQ(cluster.Condition(workload, "QuotaReserved", "reason"), "Inadmissible");
    EXPECT_NE(cluster.Condition(workload, "QuotaReserved", "message")
                  .find("resourceClaims: devices can't be counted here"),
              std::string::npos);
  }
}

// known-bugs D3, D4: no loop while it can't be counted, and told again when it can.
TEST_F(DevicesTest, AClassThatCantBeCountedIsSaidOnceAndLookedAtAgainWhenItChanges) {
  Gpus("n1", 2);
  auto claim_template = std::make_shared<api::ResourceClaimTemplate>();
  claim_template->meta.ns = "team-a";
  claim_template->meta.name = "nic";
  claim_template->spec = OneGpu();
  claim_template->spec.requests[0].exactly->device_class = "nic";
  cluster_.core().OnResourceClaimTemplate(claim_template, false);
  cluster_.Submit({.name = "job", .pods = 1, .runs_for = 5s, .claim_template = "nic"});
  cluster_.Run(2s);
  EXPECT_NE(Message("job").find("DeviceClass nic is in no deviceClassMappings"), std::string::npos)
      << Message("job");
  const auto writes = cluster_.writes();
  cluster_.Run(30s);
  EXPECT_EQ(cluster_.writes(), writes);
  claim_template->spec.requests[0].exactly->device_class = "gpu";
  cluster_.core().OnResourceClaimTemplate(claim_template, false);
  cluster_.Run(1s);
  EXPECT_FALSE(cluster_.Suspended("team-a", "job")) << Message("job");
}

TEST_F(DevicesTest, PromisesBecomeAllocationsAndEndWithTheClaims) {
  Gpus("n1", 2);
  cluster_.Submit({.name = "gang", .pods = 2, .runs_for = 5s, .claim_template = "one-gpu"});
  cluster_.Run(1s);
  ASSERT_EQ(cluster_.PodsOf("team-a", "gang").size(), 2U);
  // The pods are bound to the nodes of the imitated scheduler; only the claims count here.
  const auto first = ClaimOf("gang", 0, "gpu-0");
  const auto second = ClaimOf("gang", 1, "gpu-1");
  first->allocation->results[0].pool = second->allocation->results[0].pool = "n1";
  cluster_.core().OnResourceClaim(first, false);
  cluster_.core().OnResourceClaim(second, false);
  cluster_.Submit({.name = "next", .pods = 1, .runs_for = 5s, .claim_template = "one-gpu"});
  cluster_.Run(15s);
  ASSERT_TRUE(cluster_.Finished("team-a", "gang"));
  EXPECT_TRUE(cluster_.Suspended("team-a", "next")) << "the claims are still allocated";
  EXPECT_NE(Message("next").find("2 taken"), std::string::npos) << Message("next");
  cluster_.core().OnResourceClaim(first, true);
  cluster_.core().OnResourceClaim(second, true);
  cluster_.Run(1s);
  EXPECT_FALSE(cluster_.Suspended("team-a", "next"));
  EXPECT_TRUE(cluster_.RunUntilDone(30s));
  EXPECT_EQ(cluster_.Check(), "");
}

TEST_F(DevicesTest, AClaimThatIsSeenBeforeItsPodIsLinkedLater) {
  Gpus("n1", 2);
  Gpus("n2", 2);
  cluster_.Submit({.name = "gang", .pods = 1, .runs_for = 60s, .claim_template = "one-gpu"});
  cluster_.Run(1s);
  const auto claim = ClaimOf("gang", 0, "gpu-0");
  // As if the pod had not been seen yet.
  const Json pod = cluster_.PodsOf("team-a", "gang").at(0);
  cluster_.core().OnPod(std::make_shared<const WatchedPod>(WatchedPodFromJson(pod).value()), true);
  cluster_.core().OnResourceClaim(claim, false);
  EXPECT_EQ(cluster_.core().world().claims_by_pod.size(), 1U);
  Json seen = pod;
  seen.At("metadata").Set("resourceVersion", "100000");
  cluster_.core().OnPod(std::make_shared<const WatchedPod>(WatchedPodFromJson(seen).value()),
                        false);
  EXPECT_EQ(cluster_.core().SanityCheck(), "");
  // One of the four devices is taken, not two.
  cluster_.Submit({.name = "more", .pods = 3, .runs_for = 60s, .claim_template = "one-gpu"});
  cluster_.Run(1s);
  EXPECT_FALSE(cluster_.Suspended("team-a", "more")) << Message("more");
  cluster_.core().OnResourceClaim(claim, true);
  EXPECT_TRUE(cluster_.core().world().claims_by_pod.empty());
}

}  // namespace
}  // namespace tutti::reconciler
