// SPDX-License-Identifier: Apache-2.0
#include "engine/capacity.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/capacity_test_util.h"

namespace tutti::engine {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int64_t kGi = int64_t{1} << 30;

class CapacityTest : public testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(capacity_->SanityCheck(), ""); }

  void Node(const std::string& name, api::Amounts allocatable, api::StringMap labels = {},
            std::vector<api::Taint> taints = {}) {
    capacity_->SetNode(
        MakeNode(name, std::move(allocatable), std::move(labels), std::move(taints)));
  }
  void Cordon(const std::string& name, api::Amounts allocatable) {
    api::Node node = MakeNode(name, std::move(allocatable));
    node.unschedulable = true;
    capacity_->SetNode(node);
  }
  void Pod(const std::string& uid, const std::string& node, api::Amounts requests,
           const std::string& gang = "", const std::string& pod_set = "main") {
    capacity_->SetPod(uid, node, MakeShape(std::move(requests)), gang, pod_set);
  }
  FitResult Check(const Gang& gang) { return capacity_->Check(gang); }
  FitKind Kind(int32_t count, api::Amounts requests) {
    return Check(MakeGang("ns/probe", count, std::move(requests))).kind;
  }
  FitResult CheckAndReserve(const Gang& gang) {
    FitResult result = Check(gang);
    EXPECT_EQ(result.kind, FitKind::kFits) << result.message;
    capacity_->Reserve(gang, result.placement);
    return result;
  }

  std::unique_ptr<Capacity> capacity_ = MakeCapacity();
};

// --- amounts
// ---------------------------------------------------------------------------------------------

TEST_F(CapacityTest, AGangOfNoPodsFitsEvenWithoutNodes) {
  EXPECT_EQ(Check(Gang{"ns/empty", {}}).kind, FitKind::kFits);
  EXPECT_EQ(Kind(0, {{"cpu", 1}}), FitKind::kFits);
}

TEST_F(CapacityTest, PodSetOfCountZeroTakesNothingAndEndsNothing) {
  Node("a", {{"cpu", 1000}});
  const Gang gang{"ns/lws",
                  {MakeSet("leader", 1, MakeShape({{"cpu", 1000}})),
                   MakeSet("workers", 0, MakeShape({{"cpu", 1000}}))}};
  const FitResult result = Check(gang);
  EXPECT_EQ(result.kind, FitKind::kFits);
  EXPECT_EQ(result.placement, (Placement{{0, "a", 1}}));
}

TEST_F(CapacityTest, ThePodLimitOfANodeCountsEveryPod) {
  Node("a", {{"cpu", 100'000}, {"pods", 3}});
  Pod("1", "a", {});
  Pod("2", "a", {});
  const FitResult result = Check(MakeGang("ns/x", 2, {{"cpu", 100}}));
  EXPECT_EQ(result.kind, FitKind::kNotNow);
  EXPECT_THAT(result.message, HasSubstr("short of pod slots: 1 more needed"));
  EXPECT_EQ(Kind(1, {{"cpu", 100}}), FitKind::kFits);
}

TEST_F(CapacityTest, ANodeWithoutPodSlotsTakesNothing) {
  Node("a", {{"cpu", 1000}, {"pods", 0}});
  EXPECT_EQ(Kind(1, {}), FitKind::kNever);
}

TEST_F(CapacityTest, AllPodSlotsCanBeUsedBesideDaemonPods) {
  Node("a", {{"cpu", 1'000'000}, {"pods", 110}});
  for (int i = 0; i < 10; ++i)
    Pod("daemon" + std::to_string(i), "a", {});
  EXPECT_EQ(Kind(100, {{"cpu", 10}}), FitKind::kFits);
  EXPECT_EQ(Kind(101, {{"cpu", 10}}), FitKind::kNotNow);
}

TEST_F(CapacityTest, APodThatAsksForNothingFitsOnAnOvercommittedNode) {
  Node("a", {{"cpu", 1000}});
  Pod("1", "a", {{"cpu", 5000}});
  EXPECT_EQ(Kind(1, {}), FitKind::kFits);
  EXPECT_EQ(Kind(1, {{"cpu", 0}, {"nvidia.com/gpu", 0}}), FitKind::kFits);
  EXPECT_EQ(Kind(1, {{"cpu", 1}}), FitKind::kNotNow);
}

TEST_F(CapacityTest, AResourceThatNoNodeHasIsZeroEverywhere) {
  Node("a", {{"cpu", 1000}});
  const FitResult result = Check(MakeGang("ns/x", 1, {{"nvidia.com/gpu", 1}}));
  EXPECT_EQ(result.kind, FitKind::kNever);
  EXPECT_THAT(result.message,
              HasSubstr("a pod needs nvidia.com/gpu 1, the largest usable node has 0"));
}

TEST_F(CapacityTest, NamesThatTheSchedulerIgnoresAreIgnored) {
  Node("a", {{"cpu", 1000}});
  EXPECT_EQ(Kind(1, {{"cpu", 1000}, {"bogus", 5}, {"requests.example.com/x", 5}}), FitKind::kFits);
  EXPECT_EQ(Kind(1, {{"hugepages-2Mi", 1}}), FitKind::kNever);
  EXPECT_EQ(Kind(1, {{"attachable-volumes-csi", 1}}), FitKind::kNever);
}

TEST_F(CapacityTest, NegativeRequestsNeverMakeRoom) {
  Node("a", {{"cpu", 1000}});
  Pod("1", "a", {{"cpu", -1000}});
  EXPECT_EQ(Kind(1, {{"cpu", 1001}}), FitKind::kNever);
  EXPECT_EQ(Kind(1, {{"cpu", 1000}, {"nvidia.com/gpu", -2}}), FitKind::kFits);
}

TEST_F(CapacityTest, HugeRequestsDoNotOverflow) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  Node("a", {{"memory", kMax}, {"cpu", kMax}});
  for (int i = 0; i < 5; ++i)
    Pod(std::to_string(i), "a", {{"memory", kMax}});
  EXPECT_EQ(Kind(1, {{"memory", 1}}), FitKind::kNotNow);
  EXPECT_EQ(Kind(3, {{"cpu", kMax / 2}}), FitKind::kNever);
  for (int i = 0; i < 5; ++i)
    capacity_->RemovePod(std::to_string(i));
  EXPECT_EQ(Kind(1, {{"memory", kMax}}), FitKind::kFits);
}

TEST_F(CapacityTest, QuotaInSumIsNotEnoughWhenNoNodeIsLargeEnough) {
  Node("a", {{"cpu", 4000}});
  Node("b", {{"cpu", 4000}});
  const FitResult result = Check(MakeGang("ns/x", 1, {{"cpu", 6000}}));
  EXPECT_EQ(result.kind, FitKind::kNever);
  EXPECT_THAT(result.message, HasSubstr("a pod needs cpu 6, the largest usable node has 4"));
}

TEST_F(CapacityTest, AGangOfWhichOnePartCanNeverFitIsRefusedWhole) {
  Node("a", {{"nvidia.com/gpu", 3}});
  const Gang gang{"ns/x",
                  {MakeSet("small", 1, MakeShape({{"nvidia.com/gpu", 2}})),
                   MakeSet("big", 1, MakeShape({{"nvidia.com/gpu", 5}}))}};
  EXPECT_EQ(Check(gang).kind, FitKind::kNever);
  EXPECT_EQ(Kind(1, {{"nvidia.com/gpu", 3}}), FitKind::kFits);
}

TEST_F(CapacityTest, SeveralGangsAreNotLetInBeyondWhatIsThere) {
  Node("a", {{"cpu", 60'000}});
  Pod("guaranteed", "a", {{"cpu", 15'000}});
  CheckAndReserve(MakeGang("ns/1", 1, {{"cpu", 20'000}}));
  CheckAndReserve(MakeGang("ns/2", 1, {{"cpu", 5000}}));
  EXPECT_EQ(Check(MakeGang("ns/3", 1, {{"cpu", 40'000}})).kind, FitKind::kNotNow);
}

TEST_F(CapacityTest, ANodeInTwoFlavorsIsSoldOnce) {
  Node("a", {{"cpu", 4000}}, {{"tier", "a"}, {"pool", "b"}});
  Gang one = MakeGang("ns/1", 1, {{"cpu", 4000}});
  one.pod_sets[0].node_selector = {{"tier", "a"}};
  Gang two = MakeGang("ns/2", 1, {{"cpu", 4000}});
  two.pod_sets[0].node_selector = {{"pool", "b"}};
  CheckAndReserve(one);
  EXPECT_EQ(Check(two).kind, FitKind::kNotNow);
}

TEST_F(CapacityTest, PodsOfAnySchedulerAndPodsOnTheirWayOutAreCounted) {
  Node("a", {{"cpu", 4000}});
  auto shape = MakeShape({{"cpu", 3000}});
  shape->scheduler_name = "other";
  capacity_->SetPod("1", "a", shape, "", "");
  EXPECT_EQ(Kind(1, {{"cpu", 2000}}), FitKind::kNotNow);
  capacity_->RemovePod("1");
  EXPECT_EQ(Kind(1, {{"cpu", 2000}}), FitKind::kFits);
}

TEST_F(CapacityTest, APodThatIsKnownBeforeItsNodeIsCounted) {
  Pod("1", "late", {{"cpu", 3000}});
  EXPECT_EQ(Kind(1, {{"cpu", 1000}}), FitKind::kNever);
  Node("late", {{"cpu", 4000}});
  EXPECT_EQ(Kind(1, {{"cpu", 1000}}), FitKind::kFits);
  EXPECT_EQ(Kind(1, {{"cpu", 2000}}), FitKind::kNotNow);
  capacity_->RemoveNode("late");
  EXPECT_EQ(Kind(1, {{"cpu", 1000}}), FitKind::kNever);
  Node("late", {{"cpu", 4000}});
  EXPECT_EQ(Kind(1, {{"cpu", 2000}}), FitKind::kNotNow);
}

// --- rules about nodes
// -----------------------------------------------------------------------------------

TEST_F(CapacityTest, ATaintedNodeIsNotCountedAndTheReasonSaysSo) {
  Node("a", {{"cpu", 4000}});
  Node("b", {{"cpu", 4000}}, {}, {{"maintenance", "", "NoSchedule"}});
  const FitResult result = Check(MakeGang("ns/x", 2, {{"cpu", 4000}}));
  EXPECT_EQ(result.kind, FitKind::kNever);
  EXPECT_THAT(result.message, HasSubstr("1 tainted (maintenance:NoSchedule)"));
  Gang tolerant = MakeGang("ns/y", 2, {{"cpu", 4000}});
  tolerant.pod_sets[0].tolerations = {{"maintenance", "Exists", "", "", {}}};
  EXPECT_EQ(Check(tolerant).kind, FitKind::kFits);
}

TEST_F(CapacityTest, ACordonedNodeIsNotCountedAndTheReasonSaysSo) {
  Node("a", {{"cpu", 4000}});
  Cordon("b", {{"cpu", 4000}});
  const FitResult result = Check(MakeGang("ns/x", 2, {{"cpu", 4000}}));
  EXPECT_EQ(result.kind, FitKind::kNever);
  EXPECT_THAT(result.message, HasSubstr("1 cordoned"));
  Node("b", {{"cpu", 4000}});
  EXPECT_EQ(Kind(2, {{"cpu", 4000}}), FitKind::kFits);
}

TEST_F(CapacityTest, ANodeIsUsableWhateverItsHostNameEquals) {
  Node("n1", {{"cpu", 4000}}, {{"block", "n1"}});
  Gang gang = MakeGang("ns/x", 1, {{"cpu", 4000}});
  gang.pod_sets[0].node_selector = {{"block", "n1"}};
  EXPECT_EQ(Check(gang).kind, FitKind::kFits);
}

TEST_F(CapacityTest, LabelsWithACommonPrefixAreDifferentPlaces) {
  Node("a", {{"cpu", 4000}}, {{"rack", "rack10"}});
  Gang gang = MakeGang("ns/x", 1, {{"cpu", 4000}});
  gang.pod_sets[0].node_selector = {{"rack", "rack1"}};
  const FitResult result = Check(gang);
  EXPECT_EQ(result.kind, FitKind::kNever);
  EXPECT_THAT(result.message, HasSubstr("no node matches rack=rack1"));
}

TEST_F(CapacityTest, CountsTheNodesOfAFlavor) {
  Node("a", {}, {{"pool", "x"}, {"zone", "1"}});
  Node("b", {}, {{"pool", "x"}});
  Node("c", {}, {{"pool", "y"}});
  Pod("1", "only-a-pod", {});
  EXPECT_EQ(capacity_->CountNodes({}), 3);
  EXPECT_EQ(capacity_->CountNodes({{"pool", "x"}}), 2);
  EXPECT_EQ(capacity_->CountNodes({{"pool", "x"}, {"zone", "1"}}), 1);
  EXPECT_EQ(capacity_->CountNodes({{"pool", "z"}}), 0);
  capacity_->RemoveNode("a");
  EXPECT_EQ(capacity_->CountNodes({{"pool", "x"}}), 1);
}

TEST_F(CapacityTest, PodsWithAHostPortNeedANodeEach) {
  Node("a", {{"cpu", 4000}});
  Node("b", {{"cpu", 4000}});
  auto shape = MakeShape({{"cpu", 100}});
  shape->host_ports = {{"", "TCP", 8080}};
  EXPECT_EQ(Check(MakeGang("ns/x", 2, shape)).kind, FitKind::kFits);
  const FitResult result = Check(MakeGang("ns/x", 3, shape));
  EXPECT_EQ(result.kind, FitKind::kNever);
  EXPECT_THAT(result.message,
              HasSubstr("short of nodes with host port 8080/TCP free: 1 more needed"));
}

TEST_F(CapacityTest, AHostPortInUseByAPodOrAPromiseIsTaken) {
  Node("a", {{"cpu", 4000}});
  Node("b", {{"cpu", 4000}});
  auto shape = MakeShape({{"cpu", 100}});
  shape->host_ports = {{"10.0.0.1", "TCP", 8080}};
  capacity_->SetPod("1", "a", shape, "", "");
  auto everywhere = MakeShape({{"cpu", 100}});
  everywhere->host_ports = {{"0.0.0.0", "", 8080}};
  const FitResult one = CheckAndReserve(MakeGang("ns/x", 1, everywhere));
  EXPECT_EQ(one.placement, (Placement{{0, "b", 1}}));
  const FitResult two = Check(MakeGang("ns/y", 1, everywhere));
  EXPECT_EQ(two.kind, FitKind::kNotNow);
  EXPECT_THAT(two.message, HasSubstr("2 with the host port taken"));
  auto other = MakeShape({{"cpu", 100}});
  other->host_ports = {{"10.0.0.2", "TCP", 8080}};
  EXPECT_EQ(Check(MakeGang("ns/z", 1, other)).placement, (Placement{{0, "a", 1}}));
}

TEST_F(CapacityTest, PodSetsWithTheSameHostPortDoNotShareANode) {
  Node("a", {{"cpu", 4000}});
  auto leader = MakeShape({{"cpu", 100}});
  leader->host_ports = {{"", "TCP", 9000}};
  auto worker = MakeShape({{"cpu", 200}});
  worker->host_ports = {{"", "TCP", 9000}};
  const Gang gang{"ns/x", {MakeSet("leader", 1, leader), MakeSet("worker", 1, worker)}};
  EXPECT_EQ(Check(gang).kind, FitKind::kNever);
  Node("b", {{"cpu", 4000}});
  EXPECT_EQ(Check(gang).kind, FitKind::kFits);
}

// --- placement
// -------------------------------------------------------------------------------------------

TEST_F(CapacityTest, TheFullestNodeThatSuitsIsUsedFirstThenTheFirstByName) {
  Node("c", {{"nvidia.com/gpu", 8}});
  Node("b", {{"nvidia.com/gpu", 8}});
  Node("a", {{"nvidia.com/gpu", 8}});
  Pod("1", "c", {{"nvidia.com/gpu", 5}});
  EXPECT_EQ(Check(MakeGang("ns/x", 4, {{"nvidia.com/gpu", 1}})).placement,
            (Placement{{0, "a", 1}, {0, "c", 3}}));
  EXPECT_EQ(Check(MakeGang("ns/x", 1, {{"nvidia.com/gpu", 4}})).placement,
            (Placement{{0, "a", 1}}));
}

TEST_F(CapacityTest, TheOrderInWhichNodesBecameKnownDoesNotMatter) {
  std::unique_ptr<Capacity> other = MakeCapacity();
  const std::vector<std::string> names = {"d", "a", "c", "b"};
  for (const std::string& name : names)
    Node(name, {{"cpu", 4000}, {"x.io/y", 2}});
  for (size_t i = names.size(); i-- > 0;) {
    other->SetNode(MakeNode(names[i], {{"x.io/y", 2}, {"cpu", 4000}}));
  }
  const Gang gang = MakeGang("ns/x", 9, {{"cpu", 1000}});
  EXPECT_EQ(Check(gang).placement, other->Check(gang).placement);
  const Gang large = MakeGang("ns/x", 17, {{"cpu", 1000}, {"x.io/y", 1}});
  EXPECT_EQ(Check(large).message, other->Check(large).message);
}

TEST_F(CapacityTest, ALeaderDoesNotTakeAWorkersPlace) {
  Node("n2", {{"cpu", 2000}});
  Node("n4", {{"cpu", 4000}});
  Node("n3", {{"cpu", 3000}});
  const Gang gang{"ns/x",
                  {MakeSet("leader", 1, MakeShape({{"cpu", 1000}})),
                   MakeSet("workers", 4, MakeShape({{"cpu", 2000}}))}};
  const FitResult result = Check(gang);
  EXPECT_EQ(result.kind, FitKind::kFits);
  EXPECT_EQ(result.placement, (Placement{{0, "n3", 1}, {1, "n2", 1}, {1, "n3", 1}, {1, "n4", 2}}));
}

TEST_F(CapacityTest, AlikePodSetsAreCountedTogetherAndPlacedApart) {
  Node("a", {{"cpu", 3000}});
  Node("b", {{"cpu", 3000}});
  const Gang gang{"ns/x",
                  {MakeSet("first", 4, MakeShape({{"cpu", 1000}})),
                   MakeSet("second", 2, MakeShape({{"cpu", 1000}}))}};
  EXPECT_EQ(Check(gang).placement, (Placement{{0, "a", 3}, {0, "b", 1}, {1, "b", 2}}));
}

TEST_F(CapacityTest, PodSetsOnDifferentFlavorsAreCheckedTogether) {
  Node("cpu1", {{"cpu", 4000}}, {{"pool", "cpu"}});
  Node("gpu1", {{"cpu", 4000}, {"nvidia.com/gpu", 1}}, {{"pool", "gpu"}});
  Gang gang{"ns/x",
            {MakeSet("driver", 1, MakeShape({{"cpu", 4000}})),
             MakeSet("worker", 1, MakeShape({{"cpu", 1000}, {"nvidia.com/gpu", 1}}))}};
  gang.pod_sets[0].node_selector = {{"pool", "cpu"}};
  gang.pod_sets[1].node_selector = {{"pool", "gpu"}};
  EXPECT_EQ(CheckAndReserve(gang).placement, (Placement{{0, "cpu1", 1}, {1, "gpu1", 1}}));
  gang.id = "ns/y";
  EXPECT_EQ(Check(gang).kind, FitKind::kNotNow);
}

// --- promises
// --------------------------------------------------------------------------------------------

TEST_F(CapacityTest, APromiseTakesRoomUntilItIsReleased) {
  Node("a", {{"cpu", 4000}});
  const Gang gang = MakeGang("ns/x", 4, {{"cpu", 1000}});
  CheckAndReserve(gang);
  EXPECT_EQ(capacity_->Unbound("ns/x"), 4);
  EXPECT_EQ(Kind(1, {{"cpu", 1000}}), FitKind::kNotNow);
  capacity_->Release("ns/x");
  EXPECT_EQ(capacity_->Unbound("ns/x"), 0);
  EXPECT_EQ(Kind(4, {{"cpu", 1000}}), FitKind::kFits);
}

TEST_F(CapacityTest, ABoundPodUsesTheSlotOnItsNode) {
  Node("a", {{"cpu", 2000}});
  Node("b", {{"cpu", 2000}});
  CheckAndReserve(MakeGang("ns/x", 4, {{"cpu", 1000}}));
  const uint64_t version = capacity_->Version();
  Pod("1", "b", {{"cpu", 1000}}, "ns/x");
  EXPECT_EQ(capacity_->Unbound("ns/x"), 3);
  EXPECT_EQ(capacity_->Version(), version);  // nothing became free
  Pod("1", "b", {{"cpu", 1000}}, "ns/x");    // the same pod again
  EXPECT_EQ(capacity_->Unbound("ns/x"), 3);
  EXPECT_EQ(Kind(1, {{"cpu", 1000}}), FitKind::kNotNow);
}

TEST_F(CapacityTest, CountsTheBoundPodsOfEachPodSet) {
  Node("a", {{"cpu", 4000}});
  Pod("1", "a", {}, "ns/x", "leader");
  Pod("2", "a", {}, "ns/x", "worker");
  Pod("3", "elsewhere", {}, "ns/x", "worker");
  Pod("4", "a", {}, "ns/y", "worker");
  EXPECT_EQ(capacity_->Bound("ns/x", "worker"), 2);
  EXPECT_EQ(capacity_->Bound("ns/x", "leader"), 1);
  EXPECT_EQ(capacity_->Bound("ns/x", "unknown"), 0);
  EXPECT_EQ(capacity_->Bound("ns/z", "worker"), 0);
  Pod("2", "a", {}, "ns/x", "leader");
  capacity_->RemovePod("3");
  EXPECT_EQ(capacity_->Bound("ns/x", "worker"), 0);
  EXPECT_EQ(capacity_->Bound("ns/x", "leader"), 2);
}

TEST_F(CapacityTest, APodBoundElsewhereUsesAnotherSlotAndFreesThatNode) {
  Node("a", {{"cpu", 1000}});
  Node("b", {{"cpu", 1000}});
  const FitResult plan = CheckAndReserve(MakeGang("ns/x", 1, {{"cpu", 1000}}));
  EXPECT_EQ(plan.placement, (Placement{{0, "a", 1}}));
  const uint64_t version = capacity_->Version();
  Pod("1", "b", {{"cpu", 1000}}, "ns/x");
  EXPECT_EQ(capacity_->Unbound("ns/x"), 0);
  EXPECT_GT(capacity_->Version(), version);
  EXPECT_EQ(Check(MakeGang("ns/y", 1, {{"cpu", 1000}})).placement, (Placement{{0, "a", 1}}));
}

TEST_F(CapacityTest, APodWithoutASlotIsCountedAsItIs) {
  Node("a", {{"cpu", 4000}});
  CheckAndReserve(MakeGang("ns/x", 1, {{"cpu", 1000}}));
  Pod("1", "a", {{"cpu", 1000}}, "ns/x");
  Pod("2", "a", {{"cpu", 1000}}, "ns/x");
  Pod("3", "a", {{"cpu", 1000}}, "ns/x", "other-set");
  EXPECT_EQ(capacity_->Unbound("ns/x"), 0);
  EXPECT_EQ(Kind(1, {{"cpu", 1000}}), FitKind::kFits);
  EXPECT_EQ(Kind(2, {{"cpu", 1000}}), FitKind::kNotNow);
}

TEST_F(CapacityTest, APodThatTurnsOutToBelongToTheGangUsesItsSlotThen) {
  Node("a", {{"cpu", 4000}});
  CheckAndReserve(MakeGang("ns/x", 2, {{"cpu", 1000}}));
  Pod("1", "a", {{"cpu", 1000}});
  EXPECT_EQ(capacity_->Unbound("ns/x"), 2);
  Pod("1", "a", {{"cpu", 1000}}, "ns/x");
  EXPECT_EQ(capacity_->Unbound("ns/x"), 1);
  Pod("1", "a", {{"cpu", 1000}});
  Pod("1", "a", {{"cpu", 1000}}, "ns/x");  // not a second slot for the same pod
  EXPECT_EQ(capacity_->Unbound("ns/x"), 1);
}

TEST_F(CapacityTest, PodsKnownBeforeAReplannedReservationUseNoSlotOfIt) {
  Node("a", {{"cpu", 4000}});
  Pod("1", "a", {{"cpu", 1000}}, "ns/x");
  CheckAndReserve(MakeGang("ns/x", 1, {{"cpu", 1000}}));
  Pod("1", "a", {{"cpu", 1000}}, "ns/x");
  EXPECT_EQ(capacity_->Unbound("ns/x"), 1);
  Pod("2", "a", {{"cpu", 1000}}, "ns/x");
  EXPECT_EQ(capacity_->Unbound("ns/x"), 0);
}

TEST_F(CapacityTest, AUsedSlotStaysUsedWhenThePodGoes) {
  Node("a", {{"cpu", 2000}});
  CheckAndReserve(MakeGang("ns/x", 2, {{"cpu", 1000}}));
  Pod("1", "a", {{"cpu", 1000}}, "ns/x");
  capacity_->RemovePod("1");
  EXPECT_EQ(capacity_->Unbound("ns/x"), 1);
  EXPECT_EQ(Kind(1, {{"cpu", 1000}}), FitKind::kFits);
}

TEST_F(CapacityTest, ReleaseKeepsBoundPodsCounted) {
  Node("a", {{"cpu", 2000}});
  CheckAndReserve(MakeGang("ns/x", 2, {{"cpu", 1000}}));
  Pod("1", "a", {{"cpu", 1000}}, "ns/x");
  capacity_->Release("ns/x");
  EXPECT_EQ(Kind(1, {{"cpu", 1000}}), FitKind::kFits);
  EXPECT_EQ(Kind(2, {{"cpu", 1000}}), FitKind::kNotNow);
  capacity_->RemovePod("1");
  EXPECT_EQ(Kind(2, {{"cpu", 1000}}), FitKind::kFits);
}

TEST_F(CapacityTest, TwoReplacementsDoNotClaimTheSameSpareNode) {
  for (const char* name : {"n1", "n2", "n3"})
    Node(name, {{"cpu", 1000}});
  const Gang a = MakeGang("ns/a", 1, {{"cpu", 1000}});
  const Gang b = MakeGang("ns/b", 1, {{"cpu", 1000}});
  CheckAndReserve(a);
  CheckAndReserve(b);
  Cordon("n1", {{"cpu", 1000}});
  Cordon("n2", {{"cpu", 1000}});
  EXPECT_TRUE(capacity_->PlanBroken("ns/a"));
  EXPECT_TRUE(capacity_->PlanBroken("ns/b"));
  capacity_->Release("ns/a");
  EXPECT_EQ(CheckAndReserve(a).placement, (Placement{{0, "n3", 1}}));
  EXPECT_FALSE(capacity_->PlanBroken("ns/a"));
  capacity_->Release("ns/b");
  EXPECT_EQ(Check(b).kind, FitKind::kNotNow);
}

TEST_F(CapacityTest, APlanBreaksWhenItsNodeGoesShrinksOrIsTaintedOrFilled) {
  const auto fresh = [&] {
    capacity_ = MakeCapacity();
    Node("a", {{"cpu", 2000}}, {{"pool", "x"}});
    Gang gang = MakeGang("ns/x", 2, {{"cpu", 1000}});
    gang.pod_sets[0].node_selector = {{"pool", "x"}};
    CheckAndReserve(gang);
    EXPECT_FALSE(capacity_->PlanBroken("ns/x"));
  };
  fresh();
  capacity_->RemoveNode("a");
  EXPECT_TRUE(capacity_->PlanBroken("ns/x"));
  EXPECT_EQ(capacity_->Unbound("ns/x"), 2);
  fresh();
  Node("a", {{"cpu", 1999}}, {{"pool", "x"}});
  EXPECT_TRUE(capacity_->PlanBroken("ns/x"));
  fresh();
  Node("a", {{"cpu", 2000}}, {{"pool", "x"}}, {{"k", "", "NoExecute"}});
  EXPECT_TRUE(capacity_->PlanBroken("ns/x"));
  fresh();
  Node("a", {{"cpu", 2000}});
  EXPECT_TRUE(capacity_->PlanBroken("ns/x"));
  fresh();
  Pod("foreign", "a", {{"cpu", 1}});
  EXPECT_TRUE(capacity_->PlanBroken("ns/x"));
  fresh();
  Pod("1", "a", {{"cpu", 1000}}, "ns/x");
  Pod("2", "a", {{"cpu", 1000}}, "ns/x");
  capacity_->RemoveNode("a");
  EXPECT_FALSE(capacity_->PlanBroken("ns/x"));  // all bound: no plan left
}

// --- wake-up
// ---------------------------------------------------------------------------------------------

TEST_F(CapacityTest, TheVersionGrowsOnEverythingThatCanHelp) {
  uint64_t last = capacity_->Version();
  const auto grown = [&] {
    const uint64_t now = capacity_->Version();
    const bool result = now > last;
    last = now;
    return result;
  };
  Node("a", {{"cpu", 4000}});
  EXPECT_TRUE(grown());
  Node("a", {{"cpu", 5000}});
  EXPECT_TRUE(grown());
  Node("a", {{"cpu", 5000}, {"nvidia.com/gpu", 1}});
  EXPECT_TRUE(grown());
  Node("a", {{"cpu", 5000}}, {{"pool", "x"}}, {{"k", "v", "NoSchedule"}});
  EXPECT_TRUE(grown());  // labels
  Node("a", {{"cpu", 5000}}, {{"pool", "x"}}, {{"k", "w", "NoSchedule"}});
  EXPECT_TRUE(grown());  // the old taint is gone
  Node("a", {{"cpu", 5000}}, {{"pool", "x"}});
  EXPECT_TRUE(grown());
  Cordon("b", {{"cpu", 5000}});
  EXPECT_TRUE(grown());
  Node("b", {{"cpu", 5000}});
  EXPECT_TRUE(grown());
  Pod("1", "a", {{"cpu", 2000}});
  EXPECT_FALSE(grown());
  Pod("1", "a", {{"cpu", 1000}});
  EXPECT_TRUE(grown());
  Pod("1", "b", {{"cpu", 1000}});
  EXPECT_TRUE(grown());
  capacity_->RemovePod("1");
  EXPECT_TRUE(grown());
  CheckAndReserve(MakeGang("ns/x", 1, {{"cpu", 1000}}));
  EXPECT_FALSE(grown());
  capacity_->Release("ns/x");
  EXPECT_TRUE(grown());
}

TEST_F(CapacityTest, TheVersionStaysWhereNothingHelps) {
  Node("a", {{"cpu", 4000}}, {{"pool", "x"}}, {{"k", "v", "NoSchedule"}});
  Pod("1", "a", {{"cpu", 1000}});
  const uint64_t version = capacity_->Version();
  for (int i = 0; i < 50; ++i) {
    Node("a", {{"cpu", 4000}}, {{"pool", "x"}}, {{"k", "v", "NoSchedule"}});  // heartbeats
    Pod("1", "a", {{"cpu", 1000}});
  }
  Node("a", {{"cpu", 3000}}, {{"pool", "x"}}, {{"k", "v", "NoSchedule"}, {"l", "", "NoExecute"}});
  Node("a", {{"cpu", 3000}}, {{"pool", "x"}},
       {{"l", "", "NoExecute"}, {"k", "v", "NoSchedule"}, {"p", "", "PreferNoSchedule"}});
  Pod("1", "a", {{"cpu", 2000}});
  Pod("2", "a", {});
  capacity_->RemovePod("unknown");
  capacity_->Release("ns/unknown");
  capacity_->RemoveNode("unknown");
  EXPECT_EQ(capacity_->Version(), version);
  capacity_->RemoveNode("a");
  EXPECT_EQ(capacity_->Version(), version);
}

TEST_F(CapacityTest, AGangWaitingBehindAForeignPodFitsOnceThatPodIsGone) {
  Node("a", {{"cpu", 4000}});
  Pod("foreign", "a", {{"cpu", 3000}});
  EXPECT_EQ(Kind(1, {{"cpu", 2000}}), FitKind::kNotNow);
  const uint64_t version = capacity_->Version();
  capacity_->RemovePod("foreign");
  EXPECT_GT(capacity_->Version(), version);
  EXPECT_EQ(Kind(1, {{"cpu", 2000}}), FitKind::kFits);
}

// --- rules that are left to the scheduler
// ----------------------------------------------------------------

TEST_F(CapacityTest, RulesThatAreNotDecidedHereAreNamed) {
  Node("a", {{"cpu", 4000}});
  auto shape = MakeShape({{"cpu", 1000}});
  shape->has_pod_affinity = true;
  shape->has_inline_disks = true;
  shape->scheduler_name = "mine";
  const FitResult result = Check(MakeGang("ns/x", 2, shape));
  EXPECT_EQ(result.kind, FitKind::kUndecided);
  EXPECT_EQ(
      result.message,
      "left to the scheduler: inter-pod affinity, disks in the pod itself, schedulerName mine");
  EXPECT_EQ(result.placement, (Placement{{0, "a", 2}}));
  shape = MakeShape({{"cpu", 1000}});
  shape->has_topology_spread = shape->has_scheduling_gates = true;
  shape->claims = {{"gpu", "", "one-gpu"}};
  EXPECT_EQ(
      Check(MakeGang("ns/x", 1, shape)).message,
      "left to the scheduler: topology spread (DoNotSchedule), resource claims, scheduling gates");
  shape = MakeShape({{"cpu", 1000}});
  shape->scheduler_name = "default-scheduler";
  EXPECT_EQ(Check(MakeGang("ns/x", 1, shape)).kind, FitKind::kFits);
}

TEST_F(CapacityTest, APlainLackOfRoomIsAFailureWhateverElseIsLeftOpen) {
  Node("a", {{"cpu", 4000}});
  auto shape = MakeShape({{"cpu", 1000}});
  shape->has_topology_spread = true;
  EXPECT_EQ(Check(MakeGang("ns/x", 5, shape)).kind, FitKind::kNever);
  Pod("1", "a", {{"cpu", 1000}});
  EXPECT_EQ(Check(MakeGang("ns/x", 4, shape)).kind, FitKind::kNotNow);
}

// --- messages
// --------------------------------------------------------------------------------------------

TEST_F(CapacityTest, TheMessageNamesWhatIsShortWhereAndWhoHasIt) {
  for (int i = 0; i < 8; ++i)
    Node("n" + std::to_string(i), {{"nvidia.com/gpu", 8}, {"cpu", 64'000}});
  Cordon("n8", {{"nvidia.com/gpu", 8}, {"cpu", 64'000}});
  Pod("1", "n0", {{"nvidia.com/gpu", 8}}, "team-a/big");
  Pod("2", "n1", {{"nvidia.com/gpu", 8}}, "team-a/big");
  Pod("3", "n2", {{"nvidia.com/gpu", 4}}, "team-b/small");
  Pod("4", "n2", {{"nvidia.com/gpu", 2}});
  const Gang gang = MakeGang("ns/x", 8, {{"nvidia.com/gpu", 8}, {"cpu", 1000}});
  EXPECT_EQ(Check(gang).message,
            "5 of 8 pods fit now; short of nvidia.com/gpu: 24 more needed, 8 per pod on one node; "
            "9 nodes match: 3 full, 1 cordoned; "
            "most is held by team-a/big, team-b/small, pods outside the queues");
}

TEST_F(CapacityTest, TheMessageSaysWhenTheRoomIsThereInPieces) {
  for (const char* name : {"a", "b"}) {
    Node(name, {{"cpu", 4000}});
    Pod(name, name, {{"cpu", 2000}}, "ns/other");
  }
  EXPECT_THAT(
      Check(MakeGang("ns/x", 1, {{"cpu", 3000}})).message,
      HasSubstr("short of cpu: 3 more needed, 3 per pod on one node (enough is free in all, but "
                "in smaller pieces)"));
}

TEST_F(CapacityTest, TheMessageOfSeveralPodSetsSaysWhichIsShort) {
  Node("a", {{"cpu", 4000}, {"memory", 8 * kGi}});
  Pod("1", "a", {{"cpu", 1000}}, "ns/other");
  const Gang gang{"ns/x",
                  {MakeSet("driver", 1, MakeShape({{"cpu", 500}})),
                   MakeSet("worker", 2, MakeShape({{"cpu", 1500}, {"memory", 4 * kGi}}))}};
  EXPECT_EQ(
      Check(gang).message,
      "2 of 3 pods fit now (driver 0 of 1, worker 2 of 2); podset driver: the podsets fit one by "
      "one but not together; 1 node matches; most is held by ns/other");
}

TEST_F(CapacityTest, TheMessageDoesNotMoveWithWhatDoesNotMatter) {
  Node("a", {{"cpu", 4000}, {"memory", 8 * kGi}}, {{"pool", "x"}});
  Node("b", {{"cpu", 4000}, {"memory", 8 * kGi}}, {{"pool", "y"}});
  Pod("1", "a", {{"cpu", 3000}}, "ns/other");
  Gang gang = MakeGang("ns/x", 1, {{"cpu", 2000}});
  gang.pod_sets[0].node_selector = {{"pool", "x"}};
  const std::string message = Check(gang).message;
  Pod("2", "b", {{"cpu", 4000}}, "ns/third");
  Node("c", {{"cpu", 4000}}, {{"pool", "y"}});
  Pod("3", "a", {{"cpu", 500}}, "ns/other");
  Node("a", {{"cpu", 4200}, {"memory", 9 * kGi}}, {{"pool", "x"}});
  EXPECT_EQ(Check(gang).message, message);
}

TEST_F(CapacityTest, NeverSaysWhatTheClusterLacks) {
  EXPECT_THAT(Check(MakeGang("ns/x", 1, api::Amounts{})).message,
              HasSubstr("the cluster has no node"));
  Cordon("a", {{"cpu", 4000}});
  EXPECT_THAT(Check(MakeGang("ns/x", 1, api::Amounts{})).message,
              HasSubstr("no usable node: 1 node matches: 1 cordoned"));
  Node("b", {{"cpu", 4000}, {"memory", kGi}});
  Node("c", {{"cpu", 1000}, {"memory", 4 * kGi}});
  EXPECT_THAT(Check(MakeGang("ns/x", 1, {{"cpu", 2000}, {"memory", 2 * kGi}})).message,
              HasSubstr("no node has cpu 2, memory 2Gi together"));
  const FitResult few = Check(MakeGang("ns/x", 6, {{"cpu", 1000}}));
  EXPECT_EQ(few.kind, FitKind::kNever);
  EXPECT_THAT(few.message, HasSubstr("room for 5 of 6 pods when it is empty; short of cpu: 1 more "
                                     "needed, 1 per pod on one node"));
  EXPECT_THAT(few.message, Not(HasSubstr("held by")));
}

// --- in-flight gangs
// -------------------------------------------------------------------------------------

TEST_F(CapacityTest, AnInFlightPodMayTakeAnotherNodeThanPlanned) {
  Node("a", {{"nvidia.com/gpu", 4}});
  Node("b", {{"nvidia.com/gpu", 4}});
  const Gang whole = MakeGang("ns/whole", 1, {{"nvidia.com/gpu", 4}});
  EXPECT_TRUE(capacity_->CheckFlights(whole).clear);
  CheckAndReserve(MakeGang("ns/flying", 2, {{"nvidia.com/gpu", 1}}));
  EXPECT_EQ(Check(whole).kind, FitKind::kFits);        // by plan, both on a
  EXPECT_FALSE(capacity_->CheckFlights(whole).clear);  // the scheduler may spread them
  Pod("1", "a", {{"nvidia.com/gpu", 1}}, "ns/flying");
  Pod("2", "a", {{"nvidia.com/gpu", 1}}, "ns/flying");
  EXPECT_TRUE(capacity_->CheckFlights(whole).clear);
}

TEST_F(CapacityTest, InFlightPodsThatCannotReachTheNodesDoNotMatter) {
  Node("a", {{"cpu", 4000}}, {{"pool", "x"}});
  Node("b", {{"cpu", 4000}}, {{"pool", "y"}});
  Gang flying = MakeGang("ns/flying", 1, {{"cpu", 1000}});
  flying.pod_sets[0].node_selector = {{"pool", "x"}};
  CheckAndReserve(flying);
  Gang gang = MakeGang("ns/x", 1, {{"cpu", 4000}});
  gang.pod_sets[0].node_selector = {{"pool", "y"}};
  EXPECT_TRUE(capacity_->CheckFlights(gang).clear);
  gang.pod_sets[0].shape = MakeShape({{"cpu", 3000}});
  gang.pod_sets[0].node_selector = {};
  EXPECT_TRUE(capacity_->CheckFlights(gang).clear);  // one place is left wherever it goes
  gang.pod_sets[0].count = 2;
  EXPECT_EQ(Check(gang).kind, FitKind::kFits);
  EXPECT_TRUE(capacity_->CheckFlights(gang).clear);  // and room for the other beside it
}

}  // namespace
}  // namespace tutti::engine
