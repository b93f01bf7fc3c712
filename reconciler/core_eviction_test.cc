// SPDX-License-Identifier: Apache-2.0
// The ways in which a workload loses its quota, against the in-memory cluster: stopped queues,
// deactivation, admission checks, readiness, time limits, retention; and back again.
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
using testing::Cluster;

const api::ObjectKey kQueue{"", "cq"};
const api::ObjectKey kLocal{"team-a", "main"};

Options TestOptions() {
  Options options;
  options.gang_api = GangApi::kV1Alpha2;
  options.managed_namespaces.present = true;
  return options;
}

// Two nodes of 4 cpu, one team with 8 cpu of quota.
class CoreEvictionTest : public ::testing::Test {
 protected:
  CoreEvictionTest() : CoreEvictionTest(TestOptions()) {}
  explicit CoreEvictionTest(Options options) : cluster(std::move(options)) {
    cluster.AddNamespace("team-a");
    cluster.AddFlavor("default");
    cluster.AddNode("n1", 4);
    cluster.AddNode("n2", 4);
    cluster.AddQueue("cq", "team-a", {{"cpu", "8"}});
    cluster.Tick();
  }

  std::string Is(const std::string& job, std::string_view type) const {
    const Json workload = cluster.WorkloadOf("team-a", job);
    return cluster.Condition(workload, type) + "/" + cluster.Condition(workload, type, "reason");
  }
  std::string Says(const std::string& job, std::string_view type) const {
    return cluster.Condition(cluster.WorkloadOf("team-a", job), type, "message");
  }
  api::ObjectKey WorkloadKey(const std::string& job) const {
    return {"team-a", cluster.WorkloadOf("team-a", job)["metadata"]["name"].AsString()};
  }
  void SetActive(const std::string& job, bool active) {
    cluster.PatchSpec(Kind::kWorkload, WorkloadKey(job), Json::Obj({{"active", active}}));
  }
  void Stop(Kind kind, const api::ObjectKey& key, const std::string& policy) {
    cluster.PatchSpec(kind, key, Json::Obj({{"stopPolicy", policy}}));
  }
  void UseChecks(Json checks) {
    cluster.PatchSpec(Kind::kClusterQueue, kQueue,
                      Json::Obj({{"admissionChecksStrategy",
                                  Json::Obj({{"admissionChecks", std::move(checks)}})}}));
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
  void ExpectStoppedAsSubmitted(const std::string& job) const {
    const Json object = cluster.Job("team-a", job);
    EXPECT_TRUE(object["spec"]["suspend"].AsBool());
    EXPECT_TRUE(cluster.PodsOf("team-a", job).empty());
    EXPECT_FALSE(object["spec"]["template"]["metadata"]["labels"].Has(names::kPodSetLabel));
    EXPECT_TRUE(cluster.WorkloadOf("team-a", job)["status"]["admission"].IsNull());
  }

  Cluster cluster;
};

// --- stopped queues ---

TEST_F(CoreEvictionTest, HoldLetsRunningJobsRunAndAdmitsNothingNew) {
  cluster.Submit({.name = "runs", .pods = 2, .runs_for = 600s});
  cluster.Run(1s);
  Stop(Kind::kClusterQueue, kQueue, "Hold");
  cluster.Submit({.name = "waits", .pods = 2, .runs_for = 2s});
  cluster.Run(5s);
  EXPECT_FALSE(cluster.Suspended("team-a", "runs"));
  EXPECT_EQ(Is("runs", "Evicted"), "/");
  EXPECT_TRUE(cluster.Suspended("team-a", "waits"));
  EXPECT_EQ(Is("waits", "QuotaReserved"), "False/Inadmissible");
  Stop(Kind::kClusterQueue, kQueue, "None");
  cluster.Run(2s);
  EXPECT_FALSE(cluster.Suspended("team-a", "waits"));
  EXPECT_EQ(cluster.Check(), "");
}

TEST_F(CoreEvictionTest, AStoppedQueueIsDrainedOnceAndItsJobsComeBackWithIt) {
  for (const bool local : {false, true}) {
    const std::string name = local ? "of-local" : "of-cluster";
    const Kind kind = local ? Kind::kLocalQueue : Kind::kClusterQueue;
    const api::ObjectKey& key = local ? kLocal : kQueue;
    const std::string what = local ? "LocalQueue" : "ClusterQueue";
    cluster.Submit({.name = name, .pods = 3, .runs_for = 3s});
    cluster.Run(1s);
    ASSERT_FALSE(cluster.Suspended("team-a", name));
    Stop(kind, key, "HoldAndDrain");
    cluster.Run(5s);
    EXPECT_EQ(Is(name, "Evicted"), "True/" + what + "Stopped");
    EXPECT_EQ(Says(name, "Evicted"), "The " + what + " is stopped");
    EXPECT_EQ(Is(name, "QuotaReserved"), "False/Pending");
    EXPECT_EQ(Is(name, "Admitted"), "False/NoReservation");
    EXPECT_EQ(Is(name, "Requeued"), "False/" + what + "Stopped");
    EXPECT_EQ(Evictions(name), 1);
    EXPECT_EQ(Events("EvictedDueTo" + what + "Stopped"), 1);
    ExpectStoppedAsSubmitted(name);
    Stop(kind, key, "None");
    cluster.Run(1s);
    EXPECT_EQ(Is(name, "Requeued"), "True/" + what + "Restarted");
    EXPECT_EQ(Is(name, "Evicted"), "False/QuotaReserved");
    EXPECT_TRUE(cluster.RunUntilDone(20s));
    EXPECT_EQ(cluster.Check(), "");
  }
}

// --- activity ---

TEST_F(CoreEvictionTest, ADeactivatedJobStopsAndStartsAgainWhenItIsActive) {
  cluster.Submit({.name = "job", .pods = 3, .runs_for = 3s});
  cluster.Run(1s);
  SetActive("job", false);
  cluster.Run(5s);
  EXPECT_EQ(Is("job", "Evicted"), "True/Deactivated");
  EXPECT_EQ(Says("job", "Evicted"), "The workload is deactivated");
  EXPECT_EQ(Is("job", "Requeued"), "False/Deactivated");
  EXPECT_EQ(Events("EvictedDueToDeactivated"), 1);
  ExpectStoppedAsSubmitted("job");
  SetActive("job", true);
  cluster.Run(1s);
  EXPECT_EQ(Is("job", "Requeued"), "True/Reactivated");
  EXPECT_TRUE(cluster.RunUntilDone(20s));
}

TEST_F(CoreEvictionTest, ADeactivatedWaitingJobIsNotAdmittedNotEvenAfterARestart) {
  cluster.Submit({.name = "runs", .pods = 8, .runs_for = 5s});
  cluster.Submit({.name = "waits", .pods = 8, .runs_for = 1s});
  cluster.Run(1s);
  SetActive("waits", false);
  cluster.Run(1s);
  EXPECT_EQ(Is("waits", "Evicted"), "True/Deactivated");
  EXPECT_EQ(Events("EvictedDueToDeactivated"), 0) << "it had no quota to lose";
  cluster.Restart();
  cluster.Run(20s);
  EXPECT_TRUE(cluster.Finished("team-a", "runs"));
  EXPECT_TRUE(cluster.Suspended("team-a", "waits"));
  for (const HistoryRow& row : cluster.history()) {
    EXPECT_FALSE(row.job == "waits" && row.kind == HistoryKind::kQuotaReserved);
  }
  SetActive("waits", true);
  EXPECT_TRUE(cluster.RunUntilDone(20s));
}

TEST_F(CoreEvictionTest, EditingTheSpecOfADeactivatedJobDoesNotReactivateIt) {
  cluster.Submit({.name = "job", .pods = 2, .runs_for = 600s});
  cluster.Run(1s);
  SetActive("job", false);
  cluster.Run(5s);
  cluster.PatchSpec(Kind::kJob, {"team-a", "job"},
                    Json::Obj({{"parallelism", 3}, {"completions", 3}}));
  cluster.Run(5s);
  const Json workload = cluster.WorkloadOf("team-a", "job");
  EXPECT_EQ(workload["spec"]["podSets"].AsArray()[0]["count"].AsInt(), 3);
  EXPECT_FALSE(workload["spec"]["active"].AsBool(true));
  EXPECT_TRUE(cluster.Suspended("team-a", "job"));
}

TEST_F(CoreEvictionTest, ADeactivatedWorkloadForgetsItsBackOff) {
  cluster.SetScheduler(false);
  cluster.Submit({.name = "job", .pods = 2, .runs_for = 1s});
  cluster.Run(63s);
  ASSERT_FALSE(cluster.WorkloadOf("team-a", "job")["status"]["requeueState"].IsNull());
  SetActive("job", false);
  cluster.Run(1s);
  EXPECT_TRUE(cluster.WorkloadOf("team-a", "job")["status"]["requeueState"].IsNull());
  EXPECT_EQ(Is("job", "Evicted"), "True/PodsReadyTimeout") << "evicted already, for another reason";
}

// --- checks ---

TEST_F(CoreEvictionTest, AJobStartsOnlyWhenAllItsChecksAreReady) {
  cluster.AddCheck("one");
  cluster.AddCheck("two");
  UseChecks(Json::Arr({Json::Obj({{"name", "one"}}), Json::Obj({{"name", "two"}})}));
  cluster.Submit({.name = "job", .pods = 2, .runs_for = 2s});
  cluster.Run(2s);
  EXPECT_EQ(Is("job", "QuotaReserved"), "True/QuotaReserved");
  EXPECT_EQ(Is("job", "Admitted"), "/");
  EXPECT_TRUE(cluster.Suspended("team-a", "job"));
  EXPECT_EQ(Events("Admitted"), 0);
  cluster.SetCheck("team-a", "job", "one", "Ready");
  cluster.Run(2s);
  EXPECT_TRUE(cluster.Suspended("team-a", "job"));
  cluster.SetCheck(
      "team-a", "job", "two", "Ready", "",
      Json::Obj(
          {{"podSetUpdates", Json::Arr({Json::Obj({{"name", "main"},
                                                   {"labels", Json::Obj({{"from", "check"}})},
                                                   {"annotations", Json::Obj({{"a", "b"}})}})})}}));
  cluster.Run(1s);
  EXPECT_EQ(Is("job", "Admitted"), "True/Admitted");
  EXPECT_EQ(Events("Admitted"), 1);
  ASSERT_EQ(cluster.PodsOf("team-a", "job").size(), 2U);
  EXPECT_EQ(cluster.PodsOf("team-a", "job")[0]["metadata"]["labels"]["from"].AsString(), "check");
  EXPECT_EQ(cluster.PodsOf("team-a", "job")[0]["metadata"]["annotations"]["a"].AsString(), "b");
  EXPECT_TRUE(cluster.RunUntilDone(20s));
  EXPECT_EQ(cluster.Check(), "");
}

TEST_F(CoreEvictionTest, WhatAReadyCheckAddsIsTakenOffAgain) {
  cluster.AddCheck("one");
  UseChecks(Json::Arr({Json::Obj({{"name", "one"}})}));
  cluster.Submit({.name = "job", .pods = 2, .runs_for = 600s});
  cluster.Run(1s);
  const Json before = cluster.Job("team-a", "job")["spec"]["template"];
  cluster.SetCheck(
      "team-a", "job", "one", "Ready", "",
      Json::Obj({{"podSetUpdates",
                  Json::Arr({Json::Obj(
                      {{"name", "main"},
                       {"labels", Json::Obj({{"from", "check"}})},
                       {"annotations", Json::Obj({{"a", "b"}})},
                       {"tolerations",
                        Json::Arr({Json::Obj({{"key", "t"}, {"operator", "Exists"}})})}})})}}));
  cluster.Run(1s);
  ASSERT_FALSE(cluster.Suspended("team-a", "job"));
  SetActive("job", false);
  cluster.Run(5s);
  const Json after = cluster.Job("team-a", "job")["spec"]["template"];
  EXPECT_EQ(after["spec"].Dump(), before["spec"].Dump());
  EXPECT_EQ(after["metadata"]["labels"].Dump(), before["metadata"]["labels"].Dump());
  EXPECT_TRUE(after["metadata"]["annotations"].AsObject().empty());
}

TEST_F(CoreEvictionTest, AConflictOfACheckWithTheJobEndsTheWorkloadWithTheFieldNamed) {
  cluster.AddCheck("one");
  UseChecks(Json::Arr({Json::Obj({{"name", "one"}})}));
  cluster.Submit({.name = "job", .pods = 2, .runs_for = 600s});
  cluster.Run(1s);
  cluster.SetCheck(
      "team-a", "job", "one", "Ready", "",
      Json::Obj({{"podSetUpdates",
                  Json::Arr({Json::Obj(
                      {{"name", "main"},
                       {"labels", Json::Obj({{"batch.kubernetes.io/job-name", "another"}})}})})}}));
  cluster.Run(1s);
  EXPECT_EQ(Is("job", "Finished"), "True/FailedToStart");
  EXPECT_NE(Says("job", "Finished").find("spec.template.metadata.labels"), std::string::npos)
      << Says("job", "Finished");
  EXPECT_TRUE(cluster.Suspended("team-a", "job"));
}

TEST_F(CoreEvictionTest, ARetryPutsTheJobBackInTheQueueAfterTheWaitThatTheCheckAsksFor) {
  cluster.AddCheck("one");
  UseChecks(Json::Arr({Json::Obj({{"name", "one"}})}));
  cluster.Submit({.name = "job", .pods = 2, .runs_for = 2s});
  cluster.Run(1s);
  cluster.SetCheck("team-a", "job", "one", "Retry", "no room",
                   Json::Obj({{"requeueAfterSeconds", 30}}));
  cluster.Run(2s);
  EXPECT_EQ(Is("job", "Evicted"), "True/AdmissionCheck");
  EXPECT_EQ(Says("job", "Evicted"),
            "Evicted due to AdmissionCheck in Retry state: \"one\" (no room)");
  EXPECT_EQ(Is("job", "QuotaReserved"), "False/Pending");
  EXPECT_EQ(Is("job", "Requeued"), "False/AdmissionCheck");
  EXPECT_EQ(cluster.WorkloadOf("team-a", "job")["status"]["admissionChecks"]
                .AsArray()[0]["state"]
                .AsString(),
            "Pending");
  cluster.Run(20s);
  EXPECT_EQ(Is("job", "Requeued"), "False/AdmissionCheck") << "never True while it waits";
  cluster.Run(10s);
  EXPECT_EQ(Is("job", "Requeued"), "True/BackoffFinished");
  EXPECT_EQ(Is("job", "QuotaReserved"), "True/QuotaReserved");
  cluster.SetCheck("team-a", "job", "one", "Ready");
  EXPECT_TRUE(cluster.RunUntilDone(20s));
}

TEST_F(CoreEvictionTest, ARejectionDeactivates) {
  cluster.AddCheck("one");
  UseChecks(Json::Arr({Json::Obj({{"name", "one"}})}));
  cluster.Submit({.name = "job", .pods = 2, .runs_for = 600s});
  cluster.Run(1s);
  cluster.SetCheck("team-a", "job", "one", "Ready");
  cluster.Run(1s);
  ASSERT_FALSE(cluster.Suspended("team-a", "job"));
  cluster.SetCheck("team-a", "job", "one", "Rejected", "revoked");
  cluster.Run(5s);
  EXPECT_EQ(Is("job", "Evicted"), "True/DeactivatedDueToAdmissionCheck");
  EXPECT_EQ(Is("job", "DeactivationTarget"), "/");
  EXPECT_FALSE(cluster.WorkloadOf("team-a", "job")["spec"]["active"].AsBool(true));
  EXPECT_EQ(Events("AdmissionCheckRejected"), 1);
  EXPECT_EQ(Events("EvictedDueToDeactivatedDueToAdmissionCheck"), 1);
  ExpectStoppedAsSubmitted("job");
}

TEST_F(CoreEvictionTest, AQueueWhoseCheckIsMissingOrInactiveSaysSoAndAdmitsWhenItIsThere) {
  UseChecks(Json::Arr({Json::Obj({{"name", "one"}})}));
  cluster.Submit({.name = "job", .pods = 2, .runs_for = 600s});
  cluster.Run(3s);
  const auto active = [&](std::string_view field) {
    return cluster.Condition(*cluster.server().Get(api::ResourceOf(Kind::kClusterQueue), kQueue),
                             "Active", field);
  };
  EXPECT_EQ(active("reason"), "AdmissionCheckNotFound");
  EXPECT_EQ(active("message"),
            "Can't admit new workloads: references missing AdmissionCheck(s): one.");
  cluster.AddCheck("one", /*active=*/false);
  cluster.Run(2s);
  EXPECT_EQ(active("reason"), "AdmissionCheckInactive");
  EXPECT_EQ(Is("job", "QuotaReserved"), "False/Inadmissible");
  EXPECT_TRUE(cluster.server().MergePatch(
      api::ResourceOf(Kind::kAdmissionCheck), {"", "one"},
      Json::Obj(
          {{"status", Json::Obj({{"conditions", Json::Arr({Json::Obj({{"type", "Active"},
                                                                      {"status", "True"},
                                                                      {"reason", "Test"},
                                                                      {"message", ""}})})}})}}),
      "status"));
  cluster.Run(3s);
  EXPECT_EQ(active("status"), "True");
  EXPECT_EQ(Is("job", "QuotaReserved"), "True/QuotaReserved");
  EXPECT_TRUE((*cluster.server().Get(api::ResourceOf(Kind::kAdmissionCheck),
                                     {"", "one"}))["metadata"]["finalizers"]
                  .AsArray()[0]
                  .AsString() == names::kResourceInUseFinalizer);
}

TEST_F(CoreEvictionTest, AReservationThatWaitsForChecksIsTakenAwayWhenItsQueueStops) {
  cluster.AddCheck("one");
  UseChecks(Json::Arr({Json::Obj({{"name", "one"}})}));
  cluster.Submit({.name = "job", .pods = 2, .runs_for = 600s});
  cluster.Run(1s);
  ASSERT_EQ(Is("job", "QuotaReserved"), "True/QuotaReserved");
  Stop(Kind::kClusterQueue, kQueue, "Hold");
  cluster.Tick();
  EXPECT_EQ(Is("job", "QuotaReserved"), "False/Inadmissible");
  EXPECT_EQ(Is("job", "Evicted"), "/") << "nothing ran";
  Stop(Kind::kClusterQueue, kQueue, "None");
  cluster.Run(1s);
  EXPECT_EQ(Is("job", "QuotaReserved"), "True/QuotaReserved");
}

TEST_F(CoreEvictionTest, ACheckThatTakesLongKeepsItsQuotaAndLendsItsPlace) {
  cluster.AddNamespace("team-b");
  cluster.AddQueue("other", "team-b", {{"cpu", "8"}});
  cluster.AddCheck("slow");
  UseChecks(Json::Arr({Json::Obj({{"name", "slow"}})}));
  cluster.Submit({.name = "job", .pods = 8, .runs_for = 2s});
  cluster.Run(1s);
  ASSERT_EQ(Is("job", "QuotaReserved"), "True/QuotaReserved");
  cluster.Submit({.name = "rival", .ns = "team-b", .pods = 8, .runs_for = 30s});
  cluster.Run(30s);
  EXPECT_TRUE(cluster.Suspended("team-b", "rival")) << "its place is planned";
  cluster.Run(40s);
  EXPECT_FALSE(cluster.Suspended("team-b", "rival")) << "not for ever";
  EXPECT_EQ(Is("job", "QuotaReserved"), "True/QuotaReserved") << "but its quota is kept";
  cluster.SetCheck("team-a", "job", "slow", "Ready");
  cluster.Run(2s);
  EXPECT_EQ(Is("job", "Evicted"), "True/PodsReadyTimeout") << "no place is left for now";
  cluster.Run(40s);
  EXPECT_TRUE(cluster.Finished("team-b", "rival"));
  EXPECT_EQ(Is("job", "QuotaReserved"), "True/QuotaReserved");
  cluster.SetCheck("team-a", "job", "slow", "Ready");
  EXPECT_TRUE(cluster.RunUntilDone(60s));
  EXPECT_EQ(cluster.Check(), "");
}

TEST_F(CoreEvictionTest, AJobThatChangesItsQueueWhileChecksArePendingGivesItsQuotaBack) {
  cluster.AddQueue("second", "team-c", {{"cpu", "8"}});
  EXPECT_TRUE(cluster.server().Create(
      api::ResourceOf(Kind::kLocalQueue),
      Json::Obj({{"metadata", Json::Obj({{"name", "better"}, {"namespace", "team-a"}})},
                 {"spec", Json::Obj({{"clusterQueue", "second"}})}})));
  cluster.AddCheck("one");
  UseChecks(Json::Arr({Json::Obj({{"name", "one"}})}));
  cluster.Submit({.name = "job", .pods = 2, .runs_for = 2s});
  cluster.Run(1s);
  ASSERT_EQ(Is("job", "QuotaReserved"), "True/QuotaReserved");
  EXPECT_TRUE(cluster.server().MergePatch(
      api::ResourceOf(Kind::kJob), {"team-a", "job"},
      Json::Obj({{"metadata", Json::Obj({{"labels", Json::Obj({{std::string(names::kQueueNameLabel),
                                                                "better"}})}})}})));
  cluster.Run(2s);
  EXPECT_EQ(cluster.WorkloadOf("team-a", "job")["spec"]["queueName"].AsString(), "better");
  EXPECT_TRUE(cluster.WorkloadOf("team-a", "job")["status"]["admissionChecks"].AsArray().empty());
  EXPECT_TRUE(cluster.RunUntilDone(20s));
}

}  // namespace
}  // namespace tutti::reconciler
