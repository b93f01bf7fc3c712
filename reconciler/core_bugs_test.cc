// SPDX-License-Identifier: Apache-2.0
// Bugs that others had (docs/known-bugs.md), replayed against the in-memory cluster: each test is
// named after what a user would have seen otherwise.
#include <algorithm>
#include <string>
#include <vector>

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

const api::ObjectKey kQueue{"", "cq"};
const api::ObjectKey kLocal{"team-a", "main"};

// Two nodes of 4 cpu, one team with 4 cpu of quota in which higher priorities take the room of
// lower ones.
class CoreBugsTest : public ::testing::Test {
 protected:
  static Options TestOptions() {
    Options options;
    options.gang_api = GangApi::kV1Alpha2;
    options.managed_namespaces.present = true;
    return options;
  }
  CoreBugsTest() : cluster(TestOptions()) {
    cluster.AddNamespace("team-a");
    cluster.AddFlavor("default");
    cluster.AddNode("n1", 4);
    cluster.AddNode("n2", 4);
    cluster.AddQueue("cq", "team-a", {{"cpu", "4"}});
    cluster.PatchSpec(
        Kind::kClusterQueue, kQueue,
        Json::Obj({{"preemption", Json::Obj({{"withinClusterQueue", "LowerPriority"}})}}));
    for (const auto& [name, value] : {std::pair{"low", 1}, std::pair{"high", 100}}) {
      EXPECT_TRUE(cluster.server().Create(
          ResourceOf(Kind::kWorkloadPriorityClass),
          Json::Obj({{"metadata", Json::Obj({{"name", name}})}, {"value", value}})));
    }
    cluster.Tick();
  }

  void Patch(Kind kind, const api::ObjectKey& key, const std::string& patch,
             std::string_view subresource = {}) {
    const auto json = Json::Parse(patch);
    ASSERT_TRUE(json) << patch;
    ASSERT_TRUE(cluster.server().MergePatch(ResourceOf(kind), key, *json, subresource));
  }
  Json Get(Kind kind, const api::ObjectKey& key) {
    return cluster.server().Get(ResourceOf(kind), key).value_or(Json());
  }
  std::string Is(const std::string& job, std::string_view type) const {
    const Json workload = cluster.WorkloadOf("team-a", job);
    return cluster.Condition(workload, type) + "/" + cluster.Condition(workload, type, "reason");
  }
  int64_t Waiting(Kind kind, const api::ObjectKey& key) {
    return Get(kind, key)["status"]["pendingWorkloads"].AsInt();
  }
  int64_t Reservations() const {
    return std::count_if(
        cluster.history().begin(), cluster.history().end(),
        [](const HistoryRow& row) { return row.kind == HistoryKind::kQuotaReserved; });
  }

  Cluster cluster;
};

// --- what a job asks for ---

TEST_F(CoreBugsTest, AJobThatCameBeforeItsQueueIsCountedByItsLimitsAlsoAfterARestart) {
  cluster.AddNamespace("team-b");
  cluster.Submit({.name = "early", .ns = "team-b", .pods = 1, .runs_for = 600s});
  Patch(Kind::kJob, {"team-b", "early"},
        R"({"spec":{"template":{"spec":{"containers":[
          {"name":"main","image":"x","resources":{"limits":{"cpu":"2"}}}]}}}})");
  cluster.Run(2s);
  EXPECT_EQ(cluster.Condition(cluster.WorkloadOf("team-b", "early"), "QuotaReserved", "reason"),
            "Inadmissible");
  cluster.AddQueue("late", "team-b", {{"cpu", "1"}});
  cluster.Run(3s);
  EXPECT_TRUE(cluster.Suspended("team-b", "early")) << "2 cpu of 1";
  cluster.SetQuota("late", "cpu", "2");
  cluster.Run(1s);
  EXPECT_FALSE(cluster.Suspended("team-b", "early"));
  cluster.Restart();
  cluster.Run(1s);
  ASSERT_EQ(cluster.core().engine().Report("late").usage.size(), 1U);
  EXPECT_EQ(cluster.core().engine().Report("late").usage[0].reserved, 2000);
  EXPECT_EQ(cluster.Check(), "");
}

TEST_F(CoreBugsTest, DecimalMemoryDoesNotKeepAJobFromBeingStoppedAndPutBack) {
  cluster.AddNamespace("team-b");
  cluster.AddQueue("memory", "team-b", {{"cpu", "4"}, {"memory", "2G"}});
  cluster.PatchSpec(
      Kind::kClusterQueue, {"", "memory"},
      Json::Obj({{"preemption", Json::Obj({{"withinClusterQueue", "LowerPriority"}})}}));
  for (const auto& node : {"n1", "n2"}) {
    Patch(Kind::kNode, {"", node}, R"({"status":{"allocatable":{"memory":"4Gi"}}})", "status");
  }
  const auto submit = [&](const std::string& name, const std::string& memory) {
    cluster.Submit({.name = name, .ns = "team-b", .runs_for = 5s, .priority_class = name});
    Patch(Kind::kJob, {"team-b", name},
          R"({"spec":{"template":{"spec":{"containers":[{"name":"main","image":"x",
            "resources":{"requests":{"cpu":"0.5","memory":")" +
              memory + R"("}}}]}}}})");
  };
  submit("low", "1.5G");
  const Json before = cluster.Job("team-b", "low")["spec"]["template"];
  cluster.Run(1s);
  ASSERT_FALSE(cluster.Suspended("team-b", "low"));
  submit("high", "1000M");
  cluster.Run(2s);
  EXPECT_TRUE(cluster.Suspended("team-b", "low"));
  EXPECT_FALSE(cluster.Suspended("team-b", "high"));
  EXPECT_EQ(cluster.Job("team-b", "low")["spec"]["template"].Dump(), before.Dump());
  EXPECT_TRUE(cluster.RunUntilDone(60s));
}

TEST_F(CoreBugsTest, AJobWithMoreCompletionsThanParallelismRunsAllItsPods) {
  cluster.Submit({.name = "job", .pods = 2, .runs_for = 2s, .completions = 5});
  EXPECT_TRUE(cluster.RunUntilDone(60s));
  EXPECT_EQ(cluster.Job("team-a", "job")["status"]["succeeded"].AsInt(), 5);
  EXPECT_EQ(Is("job", "Finished"), "True/Succeeded");
  EXPECT_EQ(cluster.Check(), "");
}

TEST_F(CoreBugsTest, AnEnvironmentVariableThatIsThereTwiceHindersNothing) {
  cluster.Submit({.name = "job", .runs_for = 2s});
  Patch(Kind::kJob, {"team-a", "job"},
        R"({"spec":{"template":{"spec":{"containers":[{"name":"main","image":"x",
          "env":[{"name":"X","value":"1"},{"name":"X","value":"2"}],
          "resources":{"requests":{"cpu":"1"}}}]}}}})");
  EXPECT_TRUE(cluster.RunUntilDone(10s));
  EXPECT_EQ(Is("job", "Finished"), "True/Succeeded");
}

// --- whose job it is ---

TEST_F(CoreBugsTest, ASuspendedJobThatGetsItsQueueLaterRuns) {
  cluster.Submit({.name = "job", .queue = "", .pods = 2, .runs_for = 2s});
  Patch(Kind::kJob, {"team-a", "job"}, R"({"spec":{"suspend":true}})");
  cluster.Run(2s);
  EXPECT_TRUE(cluster.Suspended("team-a", "job"));
  EXPECT_TRUE(cluster.WorkloadOf("team-a", "job").IsNull());
  Patch(Kind::kJob, {"team-a", "job"},
        R"({"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"main"}}})");
  cluster.Run(1s);
  EXPECT_EQ(Is("job", "Admitted"), "True/Admitted");
  EXPECT_TRUE(cluster.RunUntilDone(20s));
}

TEST_F(CoreBugsTest, AnOwnerOfAKindThatNobodyMayReadDoesNotKeepAJobFromRunning) {
  cluster.Submit({.name = "job", .pods = 2, .runs_for = 2s});
  Patch(Kind::kJob, {"team-a", "job"},
        R"({"metadata":{"ownerReferences":[
          {"apiVersion":"acme.example/v1","kind":"Thing","name":"thing","uid":"none-of-ours"}]}})");
  EXPECT_TRUE(cluster.RunUntilDone(20s));
  EXPECT_EQ(Is("job", "Finished"), "True/Succeeded");
}

// --- order, and what is said ---

TEST_F(CoreBugsTest, AChangedValueOfAPriorityClassReordersWhatWaits) {
  cluster.Submit({.name = "runs", .pods = 4, .runs_for = 8s, .priority_class = "high"});
  cluster.Run(1s);
  EXPECT_TRUE(cluster.server().Create(
      ResourceOf(Kind::kWorkloadPriorityClass),
      Json::Obj({{"metadata", Json::Obj({{"name", "middle"}})}, {"value", 10}})));
  cluster.Submit({.name = "middle", .pods = 4, .runs_for = 3s, .priority_class = "middle"});
  cluster.Submit({.name = "low", .pods = 4, .runs_for = 3s, .priority_class = "low"});
  cluster.Run(2s);
  Patch(Kind::kWorkloadPriorityClass, {"", "low"}, R"({"value":20})");
  cluster.Run(1s);
  EXPECT_EQ(cluster.WorkloadOf("team-a", "low")["spec"]["priority"].AsInt(), 20);
  cluster.Run(6s);
  EXPECT_TRUE(cluster.Finished("team-a", "runs"));
  EXPECT_FALSE(cluster.Suspended("team-a", "low"));
  EXPECT_TRUE(cluster.Suspended("team-a", "middle"));
}

TEST_F(CoreBugsTest, MessagesDoNotGrowWithEachPreemption) {
  cluster.Submit({.name = "low", .pods = 4, .runs_for = 600s, .priority_class = "low"});
  cluster.Run(1s);
  std::vector<size_t> lengths;
  for (int round = 0; round < 5; ++round) {
    const std::string name = "high-" + std::to_string(round);
    cluster.Submit({.name = name, .pods = 4, .runs_for = 2s, .priority_class = "high"});
    cluster.Run(1s);
    const Json workload = cluster.WorkloadOf("team-a", "low");
    ASSERT_EQ(Is("low", "Evicted"), "True/Preempted") << round;
    size_t length = 0;
    for (const std::string type : {"QuotaReserved", "Admitted", "Evicted", "Preempted"}) {
      length += cluster.Condition(workload, type, "message").size();
    }
    lengths.push_back(length);
    cluster.Run(6s);
    ASSERT_FALSE(cluster.Suspended("team-a", "low")) << round;
  }
  EXPECT_LE(lengths.back(), lengths.front() + 8) << "a UID may have a digit more";
}

TEST_F(CoreBugsTest, WaitTimesInEventsAreThoseThatPassed) {
  cluster.Submit({.name = "first", .pods = 4, .runs_for = 20s});
  cluster.Run(1s);
  cluster.Submit({.name = "second", .pods = 4, .runs_for = 1s});
  EXPECT_TRUE(cluster.RunUntilDone(60s));
  int told = 0;
  for (const EventRecord& event : cluster.events()) {
    const size_t at = event.message.find("wait time");
    if (at == std::string::npos) {
      continue;
    }
    ++told;
    const size_t was = event.message.find("was ", at);
    ASSERT_NE(was, std::string::npos) << event.message;
    const double seconds = std::stod(event.message.substr(was + 4));
    EXPECT_GE(seconds, 0) << event.message;
    EXPECT_LE(seconds, 25) << event.message;
  }
  EXPECT_GE(told, 2);
}

TEST_F(CoreBugsTest, AConditionThatAnotherSetWhileAJobIsAdmittedIsKept) {
  bool set = false;
  cluster.server().SetBefore([&](const api::WriteRequest& request, std::string_view) -> Status {
    if (set || request.resource.kind != "Workload" || request.subresource != "status" ||
        request.field_manager == "acme") {
      return {};
    }
    set = true;
    api::WriteRequest other = request;
    other.field_manager = "acme";
    other.body.Set(
        "status",
        Json::Obj({{"conditions",
                    Json::Arr({Json::Obj({{"type", "acme.example/Seen"},
                                          {"status", "True"},
                                          {"reason", "Acme"},
                                          {"message", ""},
                                          {"lastTransitionTime", FormatTime(cluster.now())}})})}}));
    other.body.At("metadata").Erase("resourceVersion");
    EXPECT_TRUE(cluster.server().Do(other, "acme"));
    return {};
  });
  cluster.Submit({.name = "job", .pods = 2, .runs_for = 3s});
  cluster.Run(2s);
  EXPECT_TRUE(set);
  EXPECT_EQ(Is("job", "acme.example/Seen"), "True/Acme");
  EXPECT_EQ(Is("job", "Admitted"), "True/Admitted");
  EXPECT_TRUE(cluster.RunUntilDone(20s));
  EXPECT_EQ(Is("job", "acme.example/Seen"), "True/Acme");
}

// --- queues ---

TEST_F(CoreBugsTest, AQueueInDeletionGoesOnCountingWhatWaits) {
  cluster.Submit({.name = "runs", .pods = 4, .runs_for = 600s});
  cluster.Run(1s);
  cluster.Submit({.name = "waits", .pods = 4, .runs_for = 600s});
  cluster.Run(2s);
  EXPECT_EQ(Waiting(Kind::kClusterQueue, kQueue), 1);
  ASSERT_TRUE(cluster.server().Delete(ResourceOf(Kind::kClusterQueue), kQueue));
  cluster.Run(3s);
  const Json queue = Get(Kind::kClusterQueue, kQueue);
  EXPECT_EQ(cluster.Condition(queue, "Active"), "False");
  EXPECT_EQ(cluster.Condition(queue, "Active", "reason"), "Terminating");
  cluster.DeleteJob({"team-a", "waits"});
  cluster.Run(3s);
  EXPECT_EQ(Waiting(Kind::kClusterQueue, kQueue), 0);
  EXPECT_EQ(Waiting(Kind::kLocalQueue, kLocal), 0);
  EXPECT_EQ(Get(Kind::kClusterQueue, kQueue)["status"]["reservingWorkloads"].AsInt(), 1);
  cluster.DeleteJob({"team-a", "runs"});
  cluster.Run(3s);
  EXPECT_TRUE(Get(Kind::kClusterQueue, kQueue).IsNull());
}

TEST_F(CoreBugsTest, TheLastAdmissionLeavesNobodyPending) {
  for (int index = 0; index < 20; ++index) {
    cluster.Submit({.name = "job-" + std::to_string(index), .pods = 4, .runs_for = 1s});
    cluster.Run(index % 3 == 0 ? 2s : 1s);
  }
  EXPECT_TRUE(cluster.RunUntilDone(120s));
  cluster.Run(2s);
  EXPECT_EQ(Waiting(Kind::kClusterQueue, kQueue), 0);
  EXPECT_EQ(Waiting(Kind::kLocalQueue, kLocal), 0);
  EXPECT_EQ(Reservations(), 20);
}

TEST_F(CoreBugsTest, ALocalQueueShowsNoUsageOfAClusterQueueThatIsGone) {
  cluster.Submit({.name = "job", .pods = 2, .runs_for = 600s});
  cluster.Run(2s);
  const auto used = [&] {
    int64_t flavors = 0;
    const Json queue = Get(Kind::kLocalQueue, kLocal);
    for (const std::string list : {"flavorsUsage", "flavorsReservation"}) {
      for (const Json& flavor : queue["status"][list].AsArray()) {
        for (const Json& resource : flavor["resources"].AsArray()) {
          flavors += resource["total"].AsString() == "0" ? 0 : 1;
        }
      }
    }
    return flavors;
  };
  EXPECT_EQ(used(), 2);
  ASSERT_TRUE(cluster.server().Delete(ResourceOf(Kind::kClusterQueue), kQueue));
  cluster.Tick();
  Patch(Kind::kClusterQueue, kQueue, R"({"metadata":{"finalizers":null}})");
  cluster.Run(3s);
  ASSERT_TRUE(Get(Kind::kClusterQueue, kQueue).IsNull());
  EXPECT_EQ(used(), 0);
}

TEST_F(CoreBugsTest, PendingCountsFollowALocalQueue) {
  cluster.AddNamespace("team-b");
  cluster.Submit({.name = "job", .ns = "team-b", .queue = "late", .pods = 5, .runs_for = 600s});
  cluster.Run(2s);
  EXPECT_EQ(Waiting(Kind::kClusterQueue, kQueue), 0);
  const api::ObjectKey late{"team-b", "late"};
  const auto create = [&] {
    ASSERT_TRUE(cluster.server().Create(
        ResourceOf(Kind::kLocalQueue),
        Json::Obj({{"metadata", Json::Obj({{"name", "late"}, {"namespace", "team-b"}})},
                   {"spec", Json::Obj({{"clusterQueue", "cq"}})}})));
  };
  create();
  cluster.Run(3s);
  EXPECT_EQ(Waiting(Kind::kClusterQueue, kQueue), 1);
  EXPECT_EQ(Waiting(Kind::kLocalQueue, late), 1);
  Patch(Kind::kLocalQueue, late, R"({"metadata":{"finalizers":null}})");
  ASSERT_TRUE(cluster.server().Delete(ResourceOf(Kind::kLocalQueue), late));
  cluster.Run(3s);
  EXPECT_EQ(Waiting(Kind::kClusterQueue, kQueue), 0);
  create();
  cluster.Run(3s);
  EXPECT_EQ(Waiting(Kind::kClusterQueue, kQueue), 1);
  cluster.DeleteJob({"team-b", "job"});
  cluster.Run(3s);
  EXPECT_EQ(Waiting(Kind::kClusterQueue, kQueue), 0);
  EXPECT_EQ(Waiting(Kind::kLocalQueue, late), 0);
}

TEST_F(CoreBugsTest, AReservationUnderAnInactiveCheckDoesNotKeepAQueueInDeletion) {
  cluster.AddCheck("check");
  cluster.PatchSpec(
      Kind::kClusterQueue, kQueue,
      Json::Obj({{"admissionChecksStrategy",
                  Json::Obj({{"admissionChecks", Json::Arr({Json::Obj({{"name", "check"}})})}})}}));
  cluster.Submit({.name = "job", .pods = 2, .runs_for = 600s});
  cluster.Run(2s);
  ASSERT_EQ(Is("job", "QuotaReserved"), "True/QuotaReserved");
  Patch(Kind::kAdmissionCheck, {"", "check"},
        R"({"status":{"conditions":[{"type":"Active","status":"False","reason":"Test",
          "message":""}]}})",
        "status");
  cluster.Run(1s);
  ASSERT_TRUE(cluster.server().Delete(ResourceOf(Kind::kClusterQueue), kQueue));
  cluster.Run(3s);
  EXPECT_EQ(cluster.Condition(cluster.WorkloadOf("team-a", "job"), "QuotaReserved"), "False");
  EXPECT_TRUE(Get(Kind::kClusterQueue, kQueue).IsNull());
}

TEST_F(CoreBugsTest, AnAdmissionThatFailedDoesNotKeepAQueueInDeletion) {
  cluster.server().SetBefore([&](const api::WriteRequest& request, std::string_view) -> Status {
    if (request.resource.kind == "Workload" && request.body["status"].Has("admission")) {
      return Fail(ErrorCode::kInternal, "no");
    }
    return {};
  });
  cluster.Submit({.name = "job", .pods = 1, .runs_for = 600s});
  cluster.Run(3s);
  EXPECT_TRUE(cluster.Suspended("team-a", "job"));
  cluster.DeleteJob({"team-a", "job"});
  ASSERT_TRUE(cluster.server().Delete(ResourceOf(Kind::kClusterQueue), kQueue));
  cluster.Run(10s);
  EXPECT_TRUE(Get(Kind::kClusterQueue, kQueue).IsNull());
}

// --- restarts ---

TEST_F(CoreBugsTest, ARestartDoesNotAdmitWhatHasFinished) {
  cluster.Submit({.name = "succeeds", .pods = 2, .runs_for = 1s});
  cluster.Submit({.name = "fails", .pods = 2, .runs_for = 600s});
  cluster.Run(4s);
  Patch(Kind::kJob, {"team-a", "fails"},
        R"({"status":{"active":0,"conditions":[{"type":"Failed","status":"True",
          "reason":"BackoffLimitExceeded","message":"m"}]}})",
        "status");
  for (const Json& pod : cluster.PodsOf("team-a", "fails")) {
    cluster.KillPod({"team-a", pod["metadata"]["name"].AsString()});
  }
  cluster.Run(2s);
  EXPECT_EQ(Is("succeeds", "Finished"), "True/Succeeded");
  EXPECT_EQ(Is("fails", "Finished"), "True/Failed");
  EXPECT_EQ(Reservations(), 2);
  const uint64_t writes = cluster.writes();
  cluster.Restart();
  cluster.Run(2s);
  // What their pods ask for is looked at again.
  ASSERT_TRUE(
      cluster.server().Create(ResourceOf(Kind::kLimitRange),
                              *Json::Parse(R"({"metadata":{"name":"range","namespace":"team-a"},
        "spec":{"limits":[{"type":"Container","defaultRequest":{"cpu":"3"}}]}})")));
  cluster.Run(3s);
  EXPECT_EQ(Reservations(), 2);
  EXPECT_EQ(cluster.writes(), writes);
  EXPECT_EQ(cluster.core().engine().Report("cq").reserving, 0);
  EXPECT_EQ(cluster.core().engine().Report("cq").pending, 0);
}

}  // namespace
}  // namespace tutti::reconciler
