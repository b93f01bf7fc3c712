// SPDX-License-Identifier: Apache-2.0
// Trouble of one kind at a time, each named after what a user would see: lost answers, late
// watches, refused writes, objects that vanish or come twice, controllers that are away.
#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "base/names.h"
#include "reconciler/batch_job.h"
#include "reconciler/core.h"
#include "reconciler/gang.h"
#include "reconciler/testing/cluster.h"

namespace tutti::reconciler {
namespace {

using namespace std::chrono_literals;
using api::Kind;
using api::ResourceOf;
using testing::Cluster;

class CoreTroubleTest : public ::testing::Test {
 protected:
  static Options TestOptions(GangApi gang_api = GangApi::kV1Alpha2) {
    Options options;
    options.gang_api = gang_api;
    options.managed_namespaces.present = true;
    return options;
  }
  // Two nodes of 4 cpu, one team with 8 cpu of quota.
  explicit CoreTroubleTest(GangApi gang_api = GangApi::kV1Alpha2) : cluster(TestOptions(gang_api)) {
    cluster.AddNamespace("team-a");
    cluster.AddFlavor("default");
    cluster.AddNode("n1", 4);
    cluster.AddNode("n2", 4);
    cluster.AddQueue("cq", "team-a", {{"cpu", "8"}});
    cluster.Tick();
  }
  Json Queue() {
    return cluster.server().Get(ResourceOf(Kind::kClusterQueue), {"", "cq"}).value_or(Json());
  }
  std::vector<Json> Groups() { return cluster.server().List(PodGroupResource(GangApi::kV1Alpha2)); }
  std::vector<Json> Workloads() { return cluster.server().List(ResourceOf(Kind::kWorkload)); }
  void Patch(Kind kind, const api::ObjectKey& key, const std::string& patch,
             std::string_view subresource = {}) {
    const auto json = Json::Parse(patch);
    ASSERT_TRUE(json) << patch;
    ASSERT_TRUE(cluster.server().MergePatch(ResourceOf(kind), key, *json, subresource));
  }
  static api::ObjectKey KeyOf(const Json& object) {
    return {object["metadata"]["namespace"].AsString(), object["metadata"]["name"].AsString()};
  }
  bool HasEvent(std::string_view reason, std::string_view part) {
    return std::any_of(cluster.events().begin(), cluster.events().end(), [&](const auto& event) {
      return event.reason == reason && event.message.find(part) != std::string::npos;
    });
  }
  Cluster cluster;
};

TEST_F(CoreTroubleTest, AMissingPriorityClassIsSaidInAnEventAndTheJobWaitsForIt) {
  cluster.Submit({.name = "job", .pods = 1, .runs_for = 1s, .priority_class = "absent"});
  cluster.Run(2s);
  EXPECT_TRUE(HasEvent("WorkloadPriorityClassNotFound", "\"absent\""));
  EXPECT_TRUE(Workloads().empty());
  ASSERT_TRUE(cluster.server().Create(
      ResourceOf(Kind::kWorkloadPriorityClass),
      Json::Obj({{"metadata", Json::Obj({{"name", "absent"}})}, {"value", 7}})));
  EXPECT_TRUE(cluster.RunUntilDone(10s));
  EXPECT_EQ(cluster.WorkloadOf("team-a", "job")["spec"]["priority"].AsInt(), 7);
}

TEST_F(CoreTroubleTest, APendingReasonWhoseWriteFailedIsWrittenLater) {
  cluster.Submit({.name = "first", .pods = 8, .runs_for = 600s});
  cluster.Run(1s);
  cluster.Submit({.name = "second", .pods = 8, .runs_for = 1s});
  int failed = 0;
  cluster.server().SetBefore([&](const api::WriteRequest& request, std::string_view) -> Status {
    if (request.resource.kind == "Workload" && request.subresource == "status" && failed < 2) {
      ++failed;
      return Fail(ErrorCode::kUnavailable, "try later");
    }
    return {};
  });
  cluster.Run(10s);
  EXPECT_EQ(failed, 2);
  const Json workload = cluster.WorkloadOf("team-a", "second");
  EXPECT_EQ(cluster.Condition(workload, "QuotaReserved"), "False");
  EXPECT_NE(cluster.Condition(workload, "QuotaReserved", "message").find("cpu"), std::string::npos);
}

TEST_F(CoreTroubleTest, AnAdmissionWhoseAnswerIsLostKeepsItsQuota) {
  cluster.SetWatchLag(true);
  // Carried out, but what the controller hears is the conflict of its own second attempt.
  bool lost = false;
  cluster.server().SetAfter([&](const api::WriteRequest& request, std::string_view) -> Status {
    if (!lost && request.resource.kind == "Workload" && request.subresource == "status") {
      lost = true;
      return Fail(ErrorCode::kConflict, "the object has been modified");
    }
    return {};
  });
  cluster.Submit({.name = "older", .pods = 6, .runs_for = 600s});
  cluster.Submit({.name = "younger", .pods = 6, .runs_for = 600s});
  for (int i = 0; i < 25; ++i) {
    cluster.Tick();
    ASSERT_EQ(cluster.Check(), "");
    int reserved = 0;
    for (const Json& workload : Workloads()) {
      reserved += cluster.Condition(workload, "QuotaReserved") == "True" ? 1 : 0;
    }
    ASSERT_LE(reserved, 1) << "12 cpu are promised out of 8";
  }
  EXPECT_TRUE(lost);
  EXPECT_FALSE(cluster.Suspended("team-a", "older") && cluster.Suspended("team-a", "younger"));
}

TEST_F(CoreTroubleTest, AReleaseThatIsRefusedMakesRoomForOthers) {
  cluster.server().AddAdmission([](const api::WriteRequest& request, std::string_view,
                                   const Json& before, Json& object) -> Status {
    if (request.resource.kind == "Job" && object["metadata"]["name"].AsString() == "bad" &&
        !before.IsNull() && !object["spec"]["suspend"].AsBool(false)) {
      return Fail(ErrorCode::kForbidden, "a policy says no");
    }
    return {};
  });
  cluster.Submit({.name = "bad", .pods = 8, .runs_for = 1s});
  cluster.Tick();
  cluster.Submit({.name = "good", .pods = 8, .runs_for = 1s});
  cluster.Run(10s);
  EXPECT_TRUE(cluster.Finished("team-a", "good"));
  EXPECT_TRUE(cluster.Suspended("team-a", "bad"));
  const Json workload = cluster.WorkloadOf("team-a", "bad");
  EXPECT_NE(workload.Dump().find("a policy says no"), std::string::npos);
  EXPECT_EQ(cluster.Check(), "");
}

TEST_F(CoreTroubleTest, AWithdrawnReservationIsUndoneInTheJobBeforeItStartsAgain) {
  // Two flavors with different node labels; after the withdrawal only the second has quota.
  cluster.AddFlavor("a", {{"zone", "a"}});
  cluster.AddFlavor("b", {{"zone", "b"}});
  const auto groups = [](const char* of_a) {
    return std::string(R"([{"coveredResources":["cpu"],"flavors":[
      {"name":"a","resources":[{"name":"cpu","nominalQuota":")") +
           of_a + R"("}]},{"name":"b","resources":[{"name":"cpu","nominalQuota":"8"}]}]}])";
  };
  Patch(Kind::kClusterQueue, {"", "cq"}, R"({"spec":{"resourceGroups":)" + groups("8") + "}}");
  cluster.Submit({.name = "gang", .pods = 3, .runs_for = 5s});
  cluster.Run(1s);
  const auto zone = [&] {
    return cluster.Job("team-a", "gang")["spec"]["template"]["spec"]["nodeSelector"]["zone"]
        .AsString();
  };
  ASSERT_EQ(zone(), "a");
  Patch(Kind::kClusterQueue, {"", "cq"}, R"({"spec":{"resourceGroups":)" + groups("0") + "}}");
  Patch(Kind::kWorkload, KeyOf(cluster.WorkloadOf("team-a", "gang")),
        R"({"status":{"admission":null,"conditions":[
          {"type":"QuotaReserved","status":"False","reason":"Pending","message":"withdrawn"}]}})",
        "status");
  cluster.Run(2s);
  EXPECT_EQ(zone(), "b");
  EXPECT_TRUE(cluster.RunUntilDone(30s));
  EXPECT_EQ(cluster.Condition(cluster.WorkloadOf("team-a", "gang"), "Finished", "reason"),
            "Succeeded");
}

TEST_F(CoreTroubleTest, AVanishedWorkloadInBackoffIsNotCountedAsPendingForEver) {
  cluster.SetScheduler(false);
  cluster.Submit({.name = "gang", .pods = 3, .runs_for = 1s});
  cluster.Run(63s);
  ASSERT_TRUE(cluster.Suspended("team-a", "gang"));
  cluster.Run(2s);
  EXPECT_EQ(Queue()["status"]["pendingWorkloads"].AsInt(), 1);
  Patch(Kind::kWorkload, KeyOf(cluster.WorkloadOf("team-a", "gang")),
        R"({"metadata":{"finalizers":null}})");
  cluster.DeleteJob({"team-a", "gang"});
  cluster.Run(3s);
  EXPECT_TRUE(Workloads().empty());
  EXPECT_EQ(Queue()["status"]["pendingWorkloads"].AsInt(), 0);
}

TEST_F(CoreTroubleTest, AQueueInDeletionIsLetGoAlsoWhenItsLocalQueueWentFirst) {
  cluster.Submit({.name = "job", .pods = 1, .runs_for = 600s});
  cluster.Run(2s);
  ASSERT_TRUE(cluster.server().Delete(ResourceOf(Kind::kClusterQueue), {"", "cq"}));
  ASSERT_TRUE(cluster.server().Delete(ResourceOf(Kind::kLocalQueue), {"team-a", "main"}));
  cluster.Run(3s);
  EXPECT_FALSE(Queue().IsNull()) << "a job still holds its quota";
  cluster.DeleteJob({"team-a", "job"});
  cluster.Run(3s);
  EXPECT_TRUE(Queue().IsNull());
  ASSERT_TRUE(cluster.server().Delete(ResourceOf(Kind::kResourceFlavor), {"", "default"}));
  cluster.Run(3s);
  EXPECT_FALSE(cluster.server().Get(ResourceOf(Kind::kResourceFlavor), {"", "default"}));
}

TEST_F(CoreTroubleTest, ASecondWorkloadOfAJobIsDeletedAndHoldsNothing) {
  cluster.Submit({.name = "job", .pods = 2, .runs_for = 600s});
  cluster.Run(1s);
  Json copy = cluster.WorkloadOf("team-a", "job");
  const std::string name = copy["metadata"]["name"].AsString();
  copy.At("metadata").Set("name", "second");
  copy.At("metadata").Erase("uid");
  copy.At("metadata").Erase("resourceVersion");
  copy.Erase("status");
  ASSERT_TRUE(cluster.server().Create(ResourceOf(Kind::kWorkload), copy));
  cluster.Run(3s);
  ASSERT_EQ(Workloads().size(), 1U);
  EXPECT_EQ(Workloads()[0]["metadata"]["name"].AsString(), name);
  EXPECT_EQ(cluster.core().engine().Report("cq").reserving, 1);
  EXPECT_FALSE(cluster.Suspended("team-a", "job"));
}

TEST_F(CoreTroubleTest, AWorkloadUnderAnotherNameIsTakenOver) {
  cluster.SetController(false);
  cluster.Submit({.name = "job", .pods = 2, .runs_for = 1s});
  const auto job = api::JobFromJson(cluster.Job("team-a", "job"));
  ASSERT_TRUE(job);
  auto made = WorkloadFor(*job, {});
  ASSERT_TRUE(made);
  made->meta.name = "made-by-another-rule";
  ASSERT_TRUE(cluster.server().Create(ResourceOf(Kind::kWorkload), api::ToJson(*made)));
  cluster.SetController(true);
  EXPECT_TRUE(cluster.RunUntilDone(10s));
  cluster.Run(1s);
  ASSERT_EQ(Workloads().size(), 1U);
  EXPECT_EQ(cluster.Condition(Workloads()[0], "Finished", "reason"), "Succeeded");
}

TEST_F(CoreTroubleTest, AJobCreatedAgainUnderItsNameStartsFromTheBeginning) {
  cluster.Submit({.name = "job", .pods = 8, .runs_for = 600s});
  cluster.Run(1s);
  const std::string first = cluster.WorkloadOf("team-a", "job")["metadata"]["name"].AsString();
  cluster.DeleteJob({"team-a", "job"});
  cluster.Submit({.name = "job", .pods = 8, .runs_for = 1s});
  EXPECT_TRUE(cluster.RunUntilDone(20s));
  cluster.Run(1s);
  ASSERT_EQ(Workloads().size(), 1U);
  EXPECT_NE(Workloads()[0]["metadata"]["name"].AsString(), first);
  EXPECT_EQ(cluster.core().units().size(), 1U);
}

TEST_F(CoreTroubleTest, AJobDeletedWithoutItsDependentsLeavesNoQuotaBehind) {
  cluster.Submit({.name = "job", .pods = 2, .runs_for = 600s});
  cluster.Run(1s);
  const api::ObjectKey workload = KeyOf(cluster.WorkloadOf("team-a", "job"));
  for (const Json& pod : cluster.PodsOf("team-a", "job")) {
    Patch(Kind::kPod, KeyOf(pod), R"({"metadata":{"ownerReferences":null}})");
  }
  Patch(Kind::kWorkload, workload, R"({"metadata":{"ownerReferences":null}})");
  ASSERT_TRUE(cluster.server().Delete(ResourceOf(Kind::kJob), {"team-a", "job"}));
  cluster.Run(2s);
  const auto left = cluster.server().Get(ResourceOf(Kind::kWorkload), workload);
  ASSERT_TRUE(left);
  EXPECT_EQ(cluster.Condition(*left, "Finished", "reason"), "OwnerNotFound");
  EXPECT_TRUE((*left)["metadata"]["finalizers"].AsArray().empty());
  EXPECT_EQ(cluster.core().engine().Report("cq").reserving, 0);
  EXPECT_TRUE(cluster.core().world().pods_by_job.empty());
}

TEST_F(CoreTroubleTest, TheWorkloadOfADeletedJobEndsWhereNoGarbageCollectorComes) {
  cluster.SetGarbageCollector(false);
  cluster.Submit({.name = "big", .pods = 100, .runs_for = 600s});
  cluster.Run(1s);
  const api::ObjectKey workload = KeyOf(cluster.WorkloadOf("team-a", "big"));
  ASSERT_TRUE(cluster.server().Delete(ResourceOf(Kind::kJob), {"team-a", "big"}));
  cluster.Run(1s);
  auto left = cluster.server().Get(ResourceOf(Kind::kWorkload), workload);
  ASSERT_TRUE(left);
  EXPECT_EQ(cluster.Condition(*left, "Finished"), "");
  cluster.Run(3s);
  left = cluster.server().Get(ResourceOf(Kind::kWorkload), workload);
  ASSERT_TRUE(left);
  EXPECT_EQ(cluster.Condition(*left, "Finished", "reason"), "OwnerNotFound");
  EXPECT_TRUE((*left)["metadata"]["finalizers"].AsArray().empty());
  EXPECT_EQ(cluster.core().engine().Report("cq").pending, 0);
}

TEST_F(CoreTroubleTest, AGroupThatNobodyLetsGoIsFreedTenSecondsAfterItsLastPod) {
  cluster.Submit({.name = "gang", .pods = 3, .runs_for = 3s});
  cluster.Run(1s);
  ASSERT_EQ(Groups().size(), 1U);
  ASSERT_TRUE(cluster.server().MergePatch(
      PodGroupResource(GangApi::kV1Alpha2), KeyOf(Groups()[0]),
      Json::Obj(
          {{"metadata", Json::Obj({{"finalizers", Json::Arr({"scheduling.k8s.io/podgroup"})}})}})));
  EXPECT_TRUE(cluster.RunUntilDone(10s));
  cluster.Run(8s);
  ASSERT_EQ(Groups().size(), 1U);
  EXPECT_FALSE(Groups()[0]["metadata"]["deletionTimestamp"].IsNull());
  cluster.Run(4s);
  EXPECT_TRUE(Groups().empty());
  EXPECT_TRUE(HasEvent("GroupFinalizerRemoved", "GenericWorkload"));
}

TEST_F(CoreTroubleTest, AGroupNameOfTheUserIsKeptAndUsedAgainOnlyWhenItIsFree) {
  cluster.SetScheduler(false);
  cluster.Submit({.name = "gang", .pods = 3, .runs_for = 2s, .preset_group = "mine"});
  cluster.Run(1s);
  ASSERT_EQ(Groups().size(), 1U);
  EXPECT_EQ(Groups()[0]["metadata"]["name"].AsString(), "mine");
  EXPECT_EQ(Groups()[0]["spec"]["schedulingPolicy"]["gang"]["minCount"].AsInt(), 3);
  EXPECT_FALSE(cluster.Job("team-a", "gang")["spec"]["template"]["metadata"]["labels"].Has(
      names::kPodGroupLabel));
  const std::string uid = Groups()[0]["metadata"]["uid"].AsString();
  cluster.Run(65s);
  EXPECT_TRUE(cluster.Suspended("team-a", "gang"));
  EXPECT_TRUE(Groups().empty());
  cluster.Run(10s);
  ASSERT_EQ(Groups().size(), 1U);
  EXPECT_NE(Groups()[0]["metadata"]["uid"].AsString(), uid);
  cluster.SetScheduler(true);
  EXPECT_TRUE(cluster.RunUntilDone(30s));
}

class CoreTroubleWithoutGangsTest : public CoreTroubleTest {
 protected:
  CoreTroubleWithoutGangsTest() : CoreTroubleTest(GangApi::kNone) {}
};

TEST_F(CoreTroubleWithoutGangsTest, AHalfGangFromBeforeARestartIsTakenBack) {
  cluster.SetPodLimit(2);
  cluster.Submit({.name = "gang", .pods = 3, .runs_for = 600s});
  cluster.Run(1s);
  ASSERT_EQ(cluster.PodsOf("team-a", "gang").size(), 2U);
  cluster.SetController(false);
  cluster.Run(90s, 1s);
  cluster.SetController(true);
  cluster.Restart();
  cluster.Run(15s);
  EXPECT_TRUE(cluster.Suspended("team-a", "gang"));
  const Json workload = cluster.WorkloadOf("team-a", "gang");
  EXPECT_NE(cluster.Condition(workload, "Evicted", "message").find("only 2 pods exist"),
            std::string::npos)
      << workload["status"].Dump();
}

TEST_F(CoreTroubleWithoutGangsTest, AWholeGangFromBeforeARestartIsLeftAlone) {
  cluster.Submit({.name = "gang", .pods = 3, .runs_for = 600s});
  cluster.Run(1s);
  cluster.SetController(false);
  cluster.Run(90s, 1s);
  cluster.SetController(true);
  const uint64_t writes = cluster.writes();
  cluster.Restart();
  cluster.Run(90s, 1s);
  EXPECT_FALSE(cluster.Suspended("team-a", "gang"));
  EXPECT_EQ(cluster.writes(), writes);
}

}  // namespace
}  // namespace tutti::reconciler
