// SPDX-License-Identifier: Apache-2.0
// The hand-over to the native gang scheduler: what happens between the release of a gang and its
// end when members, groups, claims or other controllers don't behave.
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
using api::ResourceOf;
using testing::Cluster;

class CoreHandoverTest : public ::testing::Test {
 protected:
  static Options TestOptions() {
    Options options;
    options.reject_claims_without_quota = false;
    options.gang_api = GangApi::kV1Alpha2;
    options.managed_namespaces.present = true;
    return options;
  }
  // Two nodes of 4 cpu, one team with 8 cpu of quota.
  CoreHandoverTest() : cluster(TestOptions()) {
    cluster.AddNamespace("team-a");
    cluster.AddFlavor("default");
    cluster.AddNode("n1", 4);
    cluster.AddNode("n2", 4);
    cluster.AddQueue("cq", "team-a", {{"cpu", "8"}});
    cluster.Tick();
  }
  static api::ObjectKey KeyOf(const Json& object) {
    return {object["metadata"]["namespace"].AsString(), object["metadata"]["name"].AsString()};
  }
  std::vector<Json> Groups() { return cluster.server().List(PodGroupResource(GangApi::kV1Alpha2)); }
  Json Workload(const std::string& job) { return cluster.WorkloadOf("team-a", job); }
  std::string Evicted(const std::string& job) {
    return cluster.Condition(Workload(job), "Evicted", "message");
  }
  std::string EvictionCause(const std::string& job) {
    const Json evictions = Workload(job)["status"]["schedulingStats"]["evictions"];
    return evictions.AsArray().empty() ? "" : evictions.AsArray()[0]["underlyingCause"].AsString();
  }
  void Patch(Kind kind, const api::ObjectKey& key, const std::string& patch,
             std::string_view subresource = {}) {
    const auto json = Json::Parse(patch);
    ASSERT_TRUE(json) << patch;
    ASSERT_TRUE(cluster.server().MergePatch(ResourceOf(kind), key, *json, subresource));
  }
  bool HasEvent(std::string_view reason, std::string_view part) {
    return std::any_of(cluster.events().begin(), cluster.events().end(), [&](const auto& event) {
      return event.reason == reason && event.message.find(part) != std::string::npos;
    });
  }
  Cluster cluster;
};

TEST_F(CoreHandoverTest, AReleaseThatIsRepeatedCountsOnce) {
  int failed = 0;
  cluster.server().SetBefore([&](const api::WriteRequest& request, std::string_view who) -> Status {
    if (who.empty() && request.resource.kind == "Job" && failed < 2) {
      ++failed;
      return Fail(ErrorCode::kUnavailable, "try later");
    }
    return {};
  });
  cluster.Submit({.name = "gang", .pods = 3, .runs_for = 2s});
  EXPECT_TRUE(cluster.RunUntilDone(30s));
  EXPECT_EQ(failed, 2);
  EXPECT_EQ(cluster.Counted("tutti_released_gangs_total"), 1);
  EXPECT_EQ(std::count_if(cluster.history().begin(), cluster.history().end(),
                          [](const auto& row) { return row.kind == HistoryKind::kReleased; }),
            1);
}

TEST_F(CoreHandoverTest, AReleaseWhoseAnswerIsLostCountsOnce) {
  bool lost = false;
  cluster.server().SetAfter([&](const api::WriteRequest& request, std::string_view who) -> Status {
    if (who.empty() && request.resource.kind == "Job" && !lost) {
      lost = true;
      return Fail(ErrorCode::kUnavailable, "connection lost");
    }
    return {};
  });
  cluster.Submit({.name = "gang", .pods = 3, .runs_for = 2s});
  EXPECT_TRUE(cluster.RunUntilDone(30s));
  EXPECT_TRUE(lost);
  EXPECT_EQ(cluster.Counted("tutti_released_gangs_total"), 1);
}

TEST_F(CoreHandoverTest, BackoffGoesOnAfterALandingAndStartsAnewAfterADeactivation) {
  cluster.SetScheduler(false);
  cluster.Submit({.name = "gang", .pods = 3, .runs_for = 600s});
  cluster.Run(65s);
  const auto count = [&] { return Workload("gang")["status"]["requeueState"]["count"].AsInt(0); };
  EXPECT_EQ(count(), 1);
  cluster.SetScheduler(true);
  cluster.Run(20s);
  ASSERT_FALSE(cluster.Suspended("team-a", "gang"));
  EXPECT_EQ(count(), 1) << "a landing resets nothing, as in Kueue";
  Patch(Kind::kWorkload, KeyOf(Workload("gang")), R"({"spec":{"active":false}})");
  cluster.Run(3s);
  EXPECT_TRUE(cluster.Suspended("team-a", "gang"));
  EXPECT_TRUE(Workload("gang")["status"]["requeueState"].IsNull());
}

TEST_F(CoreHandoverTest, AWorkloadThatIsDeactivatedWhileItWaitsForgetsItsBackoff) {
  cluster.SetScheduler(false);
  cluster.Submit({.name = "gang", .pods = 3, .runs_for = 1s});
  cluster.Run(63s);
  ASSERT_FALSE(Workload("gang")["status"]["requeueState"].IsNull());
  Patch(Kind::kWorkload, KeyOf(Workload("gang")), R"({"spec":{"active":false}})");
  cluster.Run(2s);
  EXPECT_TRUE(Workload("gang")["status"]["requeueState"].IsNull());
}

TEST_F(CoreHandoverTest, AQueueStatusThatIsRefusedForGoodIsTriedLessAndLessOften) {
  int tries = 0;
  cluster.server().SetBefore([&](const api::WriteRequest& request, std::string_view) -> Status {
    if (request.resource.kind == "ClusterQueue" && request.subresource == "status") {
      ++tries;
      return Fail(ErrorCode::kForbidden, "a policy says no");
    }
    return {};
  });
  cluster.Submit({.name = "job", .pods = 1, .runs_for = 600s});
  cluster.Run(60s);
  EXPECT_LE(tries, 8);
  EXPECT_GE(tries, 4);
  cluster.server().SetBefore({});
  cluster.Run(70s);
  const auto queue = cluster.server().Get(ResourceOf(Kind::kClusterQueue), {"", "cq"});
  EXPECT_EQ((*queue)["status"]["admittedWorkloads"].AsInt(), 1);
}

TEST_F(CoreHandoverTest, PodsRefusedByAQuotaAreNamedAndTheJobRunsOnceItIsRaised) {
  cluster.SetPodLimit(2);
  cluster.Submit({.name = "gang", .pods = 3, .runs_for = 2s});
  cluster.Run(62s);
  EXPECT_TRUE(cluster.Suspended("team-a", "gang"));
  EXPECT_NE(Evicted("gang").find("only 2 pods exist: Error creating: pods \"x\" is forbidden: "
                                 "exceeded quota: rq"),
            std::string::npos)
      << Evicted("gang");
  cluster.SetPodLimit(1000);
  EXPECT_TRUE(cluster.RunUntilDone(60s));
}

TEST_F(CoreHandoverTest, WithoutGangsThatHoldNoGroupIsMadeAndTheQueueSaysWhy) {
  cluster.core().SetGangFinding({GangFinding::State::kDoesNotGate, "a gate is off"});
  cluster.Submit({.name = "gang", .pods = 3, .runs_for = 2s});
  cluster.Run(2s);
  EXPECT_TRUE(Groups().empty());
  const auto queue = cluster.server().Get(ResourceOf(Kind::kClusterQueue), {"", "cq"});
  EXPECT_EQ(cluster.Condition(*queue, "tutti.dev/NativeGangs"), "False");
  EXPECT_EQ(cluster.Condition(*queue, "tutti.dev/NativeGangs", "message"), "a gate is off");
  EXPECT_TRUE(cluster.RunUntilDone(20s));
}

// --- groups of others ---

TEST_F(CoreHandoverTest, AGroupOfAnotherOwnerIsRefusedWithAReasonUntilItIsGone) {
  ASSERT_TRUE(cluster.server().Create(
      PodGroupResource(GangApi::kV1Alpha2),
      *Json::Parse(R"({"metadata":{"name":"theirs","namespace":"team-a","ownerReferences":[
        {"apiVersion":"batch/v1","kind":"Job","name":"other","uid":"u-other"}]},
        "spec":{"schedulingPolicy":{"gang":{"minCount":2}}}})")));
  cluster.Submit({.name = "gang", .pods = 3, .runs_for = 1s, .preset_group = "theirs"});
  cluster.Submit({.name = "good", .pods = 1, .runs_for = 1s});
  cluster.Run(5s);
  EXPECT_TRUE(cluster.Suspended("team-a", "gang"));
  EXPECT_TRUE(cluster.Finished("team-a", "good"));
  EXPECT_EQ(cluster.Condition(Workload("gang"), "QuotaReserved", "reason"), "Inadmissible");
  EXPECT_NE(cluster.Condition(Workload("gang"), "QuotaReserved", "message")
                .find("\"theirs\" belongs to Job \"other\""),
            std::string::npos)
      << Workload("gang")["status"].Dump();
  ASSERT_EQ(Groups().size(), 1U);
  ASSERT_TRUE(cluster.server().Delete(PodGroupResource(GangApi::kV1Alpha2), {"team-a", "theirs"}));
  EXPECT_TRUE(cluster.RunUntilDone(20s));
}

TEST_F(CoreHandoverTest, TwoJobsInOneGroupOfTheirUserStartTogether) {
  ASSERT_TRUE(
      cluster.server().Create(PodGroupResource(GangApi::kV1Alpha2),
                              *Json::Parse(R"({"metadata":{"name":"both","namespace":"team-a"},
        "spec":{"schedulingPolicy":{"gang":{"minCount":4}}}})")));
  cluster.Submit({.name = "first", .pods = 2, .runs_for = 3s, .preset_group = "both"});
  cluster.Run(3s);
  for (const Json& pod : cluster.PodsOf("team-a", "first")) {
    EXPECT_TRUE(pod["spec"]["nodeName"].AsString().empty()) << "half of the group has started";
  }
  cluster.Submit({.name = "second", .pods = 2, .runs_for = 3s, .preset_group = "both"});
  EXPECT_TRUE(cluster.RunUntilDone(20s));
  EXPECT_EQ(cluster.Counted("tutti_landing_timeouts_total"), 0);
  ASSERT_EQ(Groups().size(), 1U) << "the user's group is the user's to delete";
}

TEST_F(CoreHandoverTest, AGroupThatTheJobControllerMadeIsUsedAndNoSecondOneMade) {
  cluster.SetJobControllerGroups(true);
  cluster.Submit({.name = "gang", .pods = 3, .runs_for = 2s, .indexed = true});
  cluster.Run(1s);
  ASSERT_EQ(Groups().size(), 1U);
  EXPECT_EQ(Groups()[0]["metadata"]["name"].AsString(), "gang-by-controller");
  EXPECT_FALSE(cluster.Job("team-a", "gang")["spec"]["template"]["metadata"]["labels"].Has(
      names::kPodGroupLabel));
  ASSERT_EQ(cluster.PodsOf("team-a", "gang").size(), 3U);
  EXPECT_TRUE(cluster.RunUntilDone(20s));
  EXPECT_EQ(cluster.Counted("kueue_evicted_workloads_total"), 0);
}

TEST_F(CoreHandoverTest, AGroupOfTheJobControllerGivesWayWhenItsQuorumIsOutOfReach) {
  cluster.SetJobControllerGroups(true);
  cluster.Submit({.name = "gang", .pods = 3, .runs_for = 20s, .indexed = true});
  cluster.Run(2s);
  const auto pods = cluster.PodsOf("team-a", "gang");
  ASSERT_EQ(pods.size(), 3U);
  Patch(Kind::kPod, KeyOf(pods[0]), R"({"status":{"phase":"Succeeded"}})", "status");
  cluster.KillPod(KeyOf(pods[1]));
  cluster.Run(3s);
  EXPECT_EQ(EvictionCause("gang"), "MemberLost");
  ASSERT_EQ(Groups().size(), 1U);
  EXPECT_NE(Groups()[0]["metadata"]["name"].AsString(), "gang-by-controller");
  EXPECT_EQ(Groups()[0]["spec"]["schedulingPolicy"]["gang"]["minCount"].AsInt(), 2);
  EXPECT_TRUE(cluster.RunUntilDone(60s));
}

TEST_F(CoreHandoverTest, AGroupThatTheJobControllerMakesTooLateStartsTheGangAgainAtOnce) {
  cluster.SetScheduler(false);
  cluster.Submit({.name = "gang", .pods = 3, .runs_for = 2s, .indexed = true});
  cluster.Run(1s);
  ASSERT_FALSE(cluster.Suspended("team-a", "gang"));
  const std::string uid = cluster.Job("team-a", "gang")["metadata"]["uid"].AsString();
  ASSERT_TRUE(cluster.server().Create(
      PodGroupResource(GangApi::kV1Alpha2),
      *Json::Parse(
          R"({"metadata":{"name":"gang-by-controller","namespace":"team-a","ownerReferences":[
        {"apiVersion":"batch/v1","kind":"Job","name":"gang","controller":true,"uid":")" +
          uid + R"("}]},"spec":{"schedulingPolicy":{"gang":{"minCount":3}}}})")));
  cluster.SetScheduler(true);
  EXPECT_TRUE(cluster.RunUntilDone(10s));
  EXPECT_EQ(EvictionCause("gang"), "OtherGroup");
}

// --- pods that take their time to go ---

class CoreGraceTest : public CoreHandoverTest {
 protected:
  // The gang runs, is drained, and its queue opens again while the old pods terminate.
  void DrainAndReopen(const testing::JobSpec& job) {
    cluster.SetGrace(30s);
    cluster.Submit(job);
    cluster.Run(2s);
    ASSERT_FALSE(cluster.Suspended("team-a", job.name));
    Patch(Kind::kClusterQueue, {"", "cq"}, R"({"spec":{"stopPolicy":"HoldAndDrain"}})");
    cluster.Run(2s);
    ASSERT_TRUE(cluster.Suspended("team-a", job.name));
    ASSERT_EQ(cluster.PodsOf("team-a", job.name).size(), static_cast<size_t>(job.pods));
    Patch(Kind::kClusterQueue, {"", "cq"}, R"({"spec":{"stopPolicy":"None"}})");
    cluster.Run(4s);
  }
};

TEST_F(CoreGraceTest, WithRoomTheNextStartDoesNotWaitForTheOldPods) {
  DrainAndReopen({.name = "gang", .pods = 3, .runs_for = 60s});
  EXPECT_FALSE(cluster.Suspended("team-a", "gang"));
  EXPECT_EQ(cluster.PodsOf("team-a", "gang").size(), 6U);
  int bound = 0;
  for (const Json& pod : cluster.PodsOf("team-a", "gang")) {
    bound += pod["spec"]["nodeName"].AsString().empty() ? 0 : 1;
  }
  EXPECT_EQ(bound, 6) << "a fresh name waits for nobody";
  EXPECT_EQ(cluster.Counted("tutti_released_gangs_total"), 2);
}

TEST_F(CoreGraceTest, PlacesOfTerminatingPodsAreTakenUntilTheyAreGone) {
  DrainAndReopen({.name = "gang", .pods = 4, .cpu_milli = 2000, .runs_for = 60s});
  EXPECT_TRUE(cluster.Suspended("team-a", "gang")) << "released onto places that are taken";
  cluster.Run(30s);
  EXPECT_FALSE(cluster.Suspended("team-a", "gang"));
  EXPECT_EQ(cluster.Counted("tutti_landing_timeouts_total"), 0);
  EXPECT_TRUE(cluster.RunUntilDone(120s));
}

TEST_F(CoreGraceTest, AGroupThatTheUserNamedWaitsForItsOldPods) {
  DrainAndReopen({.name = "gang", .pods = 3, .runs_for = 60s, .preset_group = "mine"});
  EXPECT_TRUE(cluster.Suspended("team-a", "gang"));
  cluster.Run(32s);
  EXPECT_FALSE(cluster.Suspended("team-a", "gang"));
  EXPECT_TRUE(cluster.RunUntilDone(120s));
}

TEST_F(CoreGraceTest, AfterARestartOldPodsAreNotTakenForThePodsOfTheNextStart) {
  DrainAndReopen({.name = "gang", .pods = 3, .runs_for = 60s});
  cluster.SetScheduler(false);
  Patch(Kind::kClusterQueue, {"", "cq"}, R"({"spec":{"stopPolicy":"HoldAndDrain"}})");
  cluster.Run(2s);
  Patch(Kind::kClusterQueue, {"", "cq"}, R"({"spec":{"stopPolicy":"None"}})");
  cluster.Run(2s);
  cluster.Restart();
  cluster.Run(1s);
  // 6 of 8 cpu are still taken by old pods at most; the promise to the gang itself must stand.
  cluster.Submit({.name = "late", .pods = 4, .runs_for = 1s});
  cluster.Run(2s);
  EXPECT_TRUE(cluster.Suspended("team-a", "late"));
  EXPECT_EQ(cluster.Check(), "");
  cluster.SetScheduler(true);
  EXPECT_TRUE(cluster.RunUntilDone(300s));
}

TEST_F(CoreHandoverTest, AGangWhoseSizeIsChangedWhileItRunsStartsAgainInItsNewSize) {
  cluster.Submit({.name = "gang", .pods = 4, .runs_for = 10s});
  cluster.Run(2s);
  Patch(Kind::kJob, {"team-a", "gang"}, R"({"spec":{"parallelism":2}})");
  cluster.Run(3s);
  ASSERT_EQ(Groups().size(), 1U);
  EXPECT_EQ(Groups()[0]["spec"]["schedulingPolicy"]["gang"]["minCount"].AsInt(), 2);
  EXPECT_EQ(cluster.PodsOf("team-a", "gang").size(), 2U);
  EXPECT_TRUE(cluster.RunUntilDone(60s));
  EXPECT_EQ(cluster.Check(), "");
}

TEST_F(CoreHandoverTest, TwoMembersLostAtOnceAreReplacedWithinTheGroup) {
  cluster.Submit({.name = "gang", .pods = 3, .runs_for = 20s});
  cluster.Run(2s);
  const std::string uid = Groups()[0]["metadata"]["uid"].AsString();
  const auto pods = cluster.PodsOf("team-a", "gang");
  cluster.SetPodLimit(2);  // the replacements come one after the other
  cluster.KillPod(KeyOf(pods[0]));
  cluster.KillPod(KeyOf(pods[1]));
  cluster.Run(2s);
  cluster.SetPodLimit(1000);
  cluster.Run(2s);
  ASSERT_EQ(Groups().size(), 1U);
  EXPECT_EQ(Groups()[0]["metadata"]["uid"].AsString(), uid) << "opened without need";
  EXPECT_TRUE(cluster.RunUntilDone(60s));
}

// Its quota was cut to the pods that were there, and never restored: jobs of others went beyond the
// limit (seen by GangChurn).
TEST_F(CoreHandoverTest, AGangKeepsItsQuotaWhileLostMembersAreStillToBeMadeAgain) {
  cluster.SetQuota("cq", "cpu", "4");
  cluster.Submit({.name = "gang", .pods = 4, .runs_for = 20s});
  cluster.Run(2s);
  ASSERT_FALSE(cluster.Suspended("team-a", "gang"));
  const auto pods = cluster.PodsOf("team-a", "gang");
  cluster.SetScheduler(false);
  cluster.SetPodLimit(3);  // one replacement comes and has no node, the other is yet to come
  cluster.KillPod(KeyOf(pods[0]));
  cluster.KillPod(KeyOf(pods[1]));
  cluster.Run(1s);
  cluster.Submit({.name = "next", .pods = 1, .runs_for = 1s});
  cluster.Run(2s);
  EXPECT_EQ(cluster.core().engine().Report("cq").usage.front().reserved, 4000);
  EXPECT_TRUE(cluster.Suspended("team-a", "next"));
  cluster.SetPodLimit(1000);
  cluster.SetScheduler(true);
  EXPECT_TRUE(cluster.RunUntilDone(120s));
  EXPECT_EQ(cluster.Check(), "");
}

// --- claims of the group ---

constexpr const char* kTemplateClaims =
    R"([{"name":"gpu","resourceClaimTemplateName":"gpu"},
        {"name":"net","resourceClaimTemplateName":"net"}])";
constexpr const char* kNamedClaims = R"([{"name":"net","resourceClaimName":"fabric"}])";

TEST_F(CoreHandoverTest, ClaimsOfTheGangAreMadeWithTheGroupBeforeTheRelease) {
  cluster.SetClaimGates(/*server=*/true, /*manager=*/false);
  cluster.Submit(
      {.name = "gang", .pods = 3, .runs_for = 2s, .claims = kTemplateClaims, .gang_claims = "net"});
  cluster.Run(2s);
  ASSERT_EQ(Groups().size(), 1U);
  const Json claims = Groups()[0]["spec"]["resourceClaims"];
  ASSERT_EQ(claims.AsArray().size(), 1U);
  EXPECT_EQ(claims.AsArray()[0]["resourceClaimTemplateName"].AsString(), "net");
  EXPECT_TRUE(cluster.Suspended("team-a", "gang")) << "released before the claim has a name";
  cluster.SetClaimGates(true, true);
  EXPECT_TRUE(cluster.RunUntilDone(20s));
  EXPECT_EQ(cluster.Counted("kueue_evicted_workloads_total"), 0);
}

TEST_F(CoreHandoverTest, ClaimsThatAreNotMadeWithinFiveSecondsTakeTheGangBack) {
  cluster.SetClaimGates(/*server=*/true, /*manager=*/false);
  cluster.Submit(
      {.name = "gang", .pods = 3, .runs_for = 2s, .claims = kTemplateClaims, .gang_claims = "net"});
  cluster.Run(8s);
  EXPECT_NE(Evicted("gang").find("no ResourceClaim was made for \"net\""), std::string::npos)
      << Evicted("gang");
  EXPECT_TRUE(cluster.Suspended("team-a", "gang"));
  EXPECT_TRUE(Groups().empty());
  cluster.SetClaimGates(true, true);
  EXPECT_TRUE(cluster.RunUntilDone(60s));
}

TEST_F(CoreHandoverTest, AServerThatDropsTheClaimsIsNamed) {
  cluster.SetClaimGates(/*server=*/false, /*manager=*/true);
  cluster.Submit(
      {.name = "gang", .pods = 3, .runs_for = 2s, .claims = kTemplateClaims, .gang_claims = "net"});
  cluster.Run(3s);
  EXPECT_NE(Evicted("gang").find("DRAWorkloadResourceClaims is off"), std::string::npos)
      << Evicted("gang");
  EXPECT_TRUE(cluster.PodsOf("team-a", "gang").empty());
}

TEST_F(CoreHandoverTest, ANamedClaimHasToExist) {
  cluster.Submit(
      {.name = "gang", .pods = 3, .runs_for = 2s, .claims = kNamedClaims, .gang_claims = "net"});
  cluster.Run(3s);
  EXPECT_NE(Evicted("gang").find("ResourceClaim \"fabric\""), std::string::npos) << Evicted("gang");
  cluster.AddClaim("fabric");
  EXPECT_TRUE(cluster.RunUntilDone(60s));
}

TEST_F(CoreHandoverTest, AReplacementStaysOutOfAGroupWithANamedClaim) {
  cluster.AddClaim("fabric");
  cluster.Submit(
      {.name = "gang", .pods = 3, .runs_for = 20s, .claims = kNamedClaims, .gang_claims = "net"});
  cluster.Run(2s);
  const auto pods = cluster.PodsOf("team-a", "gang");
  ASSERT_EQ(pods.size(), 3U);
  const std::string uid = Groups()[0]["metadata"]["uid"].AsString();
  Patch(Kind::kPod, KeyOf(pods[0]), R"({"status":{"phase":"Succeeded"}})", "status");
  cluster.SetPodLimit(1);  // as during the Job controller's back-off
  cluster.KillPod(KeyOf(pods[1]));
  cluster.Run(2s);
  EXPECT_TRUE(HasEvent("GroupClosed", "quorum"));
  cluster.SetPodLimit(1000);
  cluster.Run(2s);
  ASSERT_EQ(Groups().size(), 1U);
  EXPECT_EQ(Groups()[0]["metadata"]["uid"].AsString(), uid) << "the claim was lost with its group";
  EXPECT_TRUE(cluster.RunUntilDone(60s));
  EXPECT_EQ(cluster.Counted("kueue_evicted_workloads_total"), 0);
}

TEST_F(CoreHandoverTest, AGangWithTemplateClaimsStartsAgainWholeAndKeepsItsPlace) {
  cluster.Submit({.name = "gang",
                  .pods = 3,
                  .cpu_milli = 2000,
                  .runs_for = 20s,
                  .claims = kTemplateClaims,
                  .gang_claims = "net"});
  cluster.Run(2s);
  cluster.Submit({.name = "younger", .pods = 4, .cpu_milli = 2000, .runs_for = 5s});
  cluster.Run(2s);
  const auto pods = cluster.PodsOf("team-a", "gang");
  ASSERT_EQ(pods.size(), 3U);
  Patch(Kind::kPod, KeyOf(pods[0]), R"({"status":{"phase":"Succeeded"}})", "status");
  cluster.KillPod(KeyOf(pods[1]));
  cluster.Run(4s);
  EXPECT_EQ(EvictionCause("gang"), "MemberLost");
  EXPECT_FALSE(cluster.Suspended("team-a", "gang")) << "it lost its place in the queue";
  EXPECT_TRUE(cluster.Suspended("team-a", "younger"));
  ASSERT_EQ(Groups().size(), 1U);
  EXPECT_EQ(Groups()[0]["spec"]["schedulingPolicy"]["gang"]["minCount"].AsInt(), 2);
  EXPECT_TRUE(cluster.RunUntilDone(90s));
}

TEST_F(CoreHandoverTest, ClaimsInTheWrongOrderAreRefusedByTheField) {
  cluster.Submit(
      {.name = "gang", .pods = 3, .runs_for = 2s, .claims = kTemplateClaims, .gang_claims = "gpu"});
  cluster.Run(2s);
  EXPECT_EQ(cluster.Condition(Workload("gang"), "QuotaReserved", "reason"), "Inadmissible");
  EXPECT_NE(cluster.Condition(Workload("gang"), "QuotaReserved", "message")
                .find("spec.template.spec.resourceClaims[1]: \"net\""),
            std::string::npos)
      << Workload("gang")["status"].Dump();
}

}  // namespace
}  // namespace tutti::reconciler
