// SPDX-License-Identifier: Apache-2.0
// What Kueue's feature gates change in the life of a Workload, against the in-memory cluster.
// Workloads here belong to no job, as Kueue's own specs make them.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "base/names.h"
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
  options.capacity = CapacityChoice::kOff;
  options.pending_reason_delay = 0s;
  return options;
}

// One queue of 4 cpu in which higher priorities take the room of lower ones.
class CoreGatesTest : public ::testing::Test {
 protected:
  void Start(Options options) {
    cluster_ = std::make_unique<Cluster>(std::move(options));
    cluster().AddNamespace("team-a");
    cluster().AddFlavor("default");
    cluster().AddQueue("cq", "team-a", {{"cpu", "4"}});
    cluster().PatchSpec(
        Kind::kClusterQueue, {"", "cq"},
        Json::Obj({{"preemption", Json::Obj({{"withinClusterQueue", "LowerPriority"}})}}));
    cluster().Tick();
  }
  Cluster& cluster() { return *cluster_; }

  // `more` is laid over the object; every pod asks for one cpu.
  void Make(const std::string& name, int count, int priority = 0, const char* more = "{}") {
    Json workload = *Json::Parse(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload"})");
    workload.Set("metadata", Json::Obj({{"name", name}, {"namespace", "team-a"}}));
    Json pods = *Json::Parse(
        R"({"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]}})");
    workload.Set(
        "spec",
        Json::Obj({{"queueName", "main"},
                   {"priority", priority},
                   {"podSets",
                    Json::Arr({Json::Obj(
                        {{"name", "main"}, {"count", count}, {"template", std::move(pods)}})})}}));
    const Json extra = *Json::Parse(more);
    for (const auto& [section, fields] : extra.AsObject()) {
      for (const auto& [field, value] : fields.AsObject()) {
        workload.At(section).Set(field, value);
      }
    }
    const auto made = cluster().server().Create(ResourceOf(Kind::kWorkload), workload);
    ASSERT_TRUE(made) << made.error().message;
    cluster().Run(600ms);
  }
  Json Get(const std::string& name) {
    return *cluster().server().Get(ResourceOf(Kind::kWorkload), {"team-a", name});
  }
  std::string Is(const std::string& name, std::string_view type) {
    const Json workload = Get(name);
    return cluster().Condition(workload, type) + "/" +
           cluster().Condition(workload, type, "reason");
  }
  std::string Message(const std::string& name, std::string_view type) {
    return cluster().Condition(Get(name), type, "message");
  }
  void Patch(const std::string& name, const char* patch) {
    api::WriteRequest write;
    write.verb = api::Verb::kMergePatch;
    write.resource = ResourceOf(Kind::kWorkload);
    write.key = {"team-a", name};
    write.body = *Json::Parse(patch);
    write.subresource = write.body.Has("status") ? "status" : "";
    const auto done = cluster().server().Do(write);
    ASSERT_TRUE(done) << done.error().message;
    cluster().Run(1s);
  }
  int64_t Used() {
    int64_t used = 0;
    for (const engine::FlavorUsage& usage : cluster().core().engine().Report("cq").usage) {
      used += usage.reserved / 1000;
    }
    return used;
  }

 private:
  std::unique_ptr<Cluster> cluster_;
};

TEST_F(CoreGatesTest, WithoutDetailWhatTheSchedulerFindsIsPending) {
  Start(TestOptions());
  Make("big", 5);
  EXPECT_EQ(Is("big", "QuotaReserved"), "False/Pending");
  EXPECT_EQ(Is("big", "Admitted"), "/");
  cluster().PatchSpec(Kind::kClusterQueue, {"", "cq"},
                      *Json::Parse(R"({"namespaceSelector":{"matchLabels":{"dep":"eng"}}})"));
  Make("foreign", 1);
  EXPECT_EQ(Is("foreign", "QuotaReserved"), "False/Pending");
  EXPECT_EQ(Message("foreign", "QuotaReserved"),
            "Workload namespace doesn't match ClusterQueue selector");
  Make("lost", 1, 0, R"({"spec":{"queueName":"nowhere"}})");
  EXPECT_EQ(Is("lost", "QuotaReserved"), "False/Inadmissible");
}

// Its pods are nobody's here, so nobody says when they are gone. Its queue may be deleted, and one
// of the same name doesn't find it taken.
TEST_F(CoreGatesTest, AWorkloadOfItsOwnThatIsDeactivatedHoldsNothing) {
  Start(TestOptions());
  Make("own", 1, 0, R"({"spec":{"maximumExecutionTimeSeconds":2}})");
  ASSERT_EQ(Is("own", "Admitted"), "True/Admitted");
  cluster().Run(4s);
  ASSERT_EQ(Is("own", "Evicted"), "True/DeactivatedDueToMaximumExecutionTimeExceeded");
  EXPECT_EQ(Is("own", "QuotaReserved"), "True/QuotaReserved");
  EXPECT_EQ(Used(), 0);
  const auto queue = cluster().server().Get(ResourceOf(Kind::kClusterQueue), {"", "cq"});
  EXPECT_EQ((*queue)["status"]["admittedWorkloads"].AsInt(), 0);
  EXPECT_EQ((*queue)["status"]["reservingWorkloads"].AsInt(), 0);
  ASSERT_TRUE(cluster().server().Delete(ResourceOf(Kind::kClusterQueue), {"", "cq"}));
  cluster().Run(2s);
  EXPECT_FALSE(cluster().server().Get(ResourceOf(Kind::kClusterQueue), {"", "cq"}));
}

TEST_F(CoreGatesTest, BeforeAnyDecisionItIsPendingEvaluation) {
  Options options = TestOptions();
  options.detailed_reasons = true;
  options.explicit_status = true;
  options.scheduler = false;
  Start(std::move(options));
  Make("new", 1);
  EXPECT_EQ(Is("new", "QuotaReserved"), "False/PendingEvaluation");
  EXPECT_EQ(Message("new", "QuotaReserved"),
            "Workload is pending evaluation in the scheduling queue");
}

// Who runs it says when its pods are gone.
TEST_F(CoreGatesTest, ADeactivatedWorkloadOfAForeignControllerKeepsItsQuota) {
  Start(TestOptions());
  Make("foreign", 1, 0,
       R"({"metadata":{"ownerReferences":[{"apiVersion":"example.com/v1","kind":"Ring",
           "name":"ring","uid":"ring-1","controller":true}]}})");
  ASSERT_EQ(Is("foreign", "Admitted"), "True/Admitted");
  Patch("foreign", R"({"spec":{"active":false}})");
  ASSERT_EQ(Is("foreign", "Evicted"), "True/Deactivated");
  EXPECT_EQ(Used(), 1);
}

TEST_F(CoreGatesTest, TheBackOffOfAWorkloadOfItsOwnEndsWhileItKeepsItsQuota) {
  Options options = TestOptions();
  options.wait_for_pods_ready.enabled = true;
  options.wait_for_pods_ready.timeout = 1s;
  options.wait_for_pods_ready.backoff_base = 2s;
  Start(std::move(options));
  Make("own", 1);
  cluster().Run(2s);
  ASSERT_EQ(Is("own", "Evicted"), "True/PodsReadyTimeout");
  ASSERT_TRUE(Get("own")["status"]["requeueState"].Has("requeueAt"));
  Json conditions = Get("own")["status"]["conditions"];
  conditions.Push(*Json::Parse(R"({"type":"Requeued","status":"False","reason":"PodsReadyTimeout",
      "message":"","lastTransitionTime":"2026-01-01T00:00:00Z"})"));
  Patch("own", Json::Obj({{"status", Json::Obj({{"conditions", conditions}})}}).Dump().c_str());
  cluster().Run(3s);
  EXPECT_EQ(Is("own", "Requeued"), "True/BackoffFinished");
  EXPECT_EQ(Get("own")["status"]["requeueState"].Dump(), R"({"count":1})");
  EXPECT_EQ(Is("own", "QuotaReserved"), "True/QuotaReserved");
}

TEST_F(CoreGatesTest, DetailedReasonsSayWhichKindOfWaitingItIs) {
  Options options = TestOptions();
  options.detailed_reasons = true;
  Start(options);
  Make("runs", 3);
  Make("waits", 2);
  Make("big", 5);
  Make("lost", 1, 0, R"({"spec":{"queueName":"nowhere"}})");
  EXPECT_EQ(Is("runs", "Admitted"), "True/Admitted");
  EXPECT_EQ(Is("waits", "QuotaReserved"), "False/WaitingForQuota");
  EXPECT_EQ(Is("waits", "Admitted"), "False/NoReservation");
  EXPECT_EQ(Is("big", "QuotaReserved"), "False/ExceedsMaxQuota");
  EXPECT_EQ(Is("lost", "QuotaReserved"), "False/Misconfigured");
  Patch("waits", R"({"spec":{"active":false}})");
  EXPECT_EQ(Is("waits", "QuotaReserved"), "False/Deactivated");
  cluster().PatchSpec(Kind::kClusterQueue, {"", "cq"}, *Json::Parse(R"({"stopPolicy":"Hold"})"));
  cluster().Run(1s);
  EXPECT_EQ(Is("big", "QuotaReserved"), "False/Suspended");
}

TEST_F(CoreGatesTest, AnExplicitStatusIsThereBeforeAnythingWasDecided) {
  Options options = TestOptions();
  options.pending_reason_delay = 60s;
  options.detailed_reasons = true;
  options.scheduler = false;
  Start(options);
  Make("silent", 1);
  EXPECT_EQ(Is("silent", "QuotaReserved"), "/");

  options.explicit_status = true;
  Start(options);
  Make("told", 1);
  EXPECT_EQ(Is("told", "QuotaReserved"), "False/PendingEvaluation");
  EXPECT_EQ(Is("told", "Admitted"), "False/NoReservation");
}

TEST_F(CoreGatesTest, ABoostedWorkloadTakesTheRoomOfAMoreImportantOne) {
  for (const bool on : {false, true}) {
    Options options = TestOptions();
    options.priority_boost = on;
    Start(options);
    Make("mid", 4, 10);
    Make("low", 4, 0);
    Patch("low", R"({"metadata":{"annotations":{"kueue.x-k8s.io/priority-boost":"100"}}})");
    EXPECT_EQ(Is("mid", "Evicted"), on ? "True/Preempted" : "/");
    const auto& events = cluster().events();
    EXPECT_EQ(std::any_of(events.begin(), events.end(),
                          [](const EventRecord& event) {
                            return event.message.find(
                                       "preemptor effective priority: 100 (base: 0, boost: 100)") !=
                                   std::string::npos;
                          }),
              on);
  }
}

TEST_F(CoreGatesTest, WhileAPreemptionGateIsClosedNobodyGivesWay) {
  Start(TestOptions());
  Make("low", 4, 0);
  Make("high", 2, 10, R"({"spec":{"preemptionGates":[{"name":"gate"}]}})");
  cluster().Run(1s);
  EXPECT_EQ(Is("low", "Evicted"), "/");
  EXPECT_EQ(Is("high", "QuotaReserved"), "False/Pending");
  EXPECT_EQ(Is("high", "BlockedOnPreemptionGates"), "True/PreemptionGated");
  const Json gates = Get("high")["status"]["preemptionGates"];
  ASSERT_EQ(gates.AsArray().size(), 1U);
  EXPECT_EQ(gates.AsArray()[0]["name"].AsString(), "gate");
  EXPECT_EQ(gates.AsArray()[0]["position"].AsString(), "Closed");
  Patch("high", R"({"status":{"preemptionGates":[{"name":"gate","position":"Open",
                    "lastTransitionTime":"2026-01-01T00:00:00Z"}]}})");
  EXPECT_EQ(Is("low", "Evicted"), "True/Preempted");
}

TEST_F(CoreGatesTest, WithoutTheGatePreemptionGatesMeanNothing) {
  Options options = TestOptions();
  options.preemption_gates = false;
  Start(options);
  Make("low", 4, 0);
  Make("high", 2, 10, R"({"spec":{"preemptionGates":[{"name":"gate"}]}})");
  cluster().Run(1s);
  EXPECT_EQ(Is("low", "Evicted"), "True/Preempted");
}

TEST_F(CoreGatesTest, ReclaimablePodsGiveTheirQuotaBackUnlessThatIsOff) {
  for (const bool on : {true, false}) {
    Options options = TestOptions();
    options.reclaimable_pods = on;
    Start(options);
    Make("first", 4);
    Make("second", 1);
    Patch("first", R"({"status":{"reclaimablePods":[{"name":"main","count":1}]}})");
    EXPECT_EQ(Is("second", "Admitted"), on ? "True/Admitted" : "/");
  }
}

TEST_F(CoreGatesTest, ALargerSliceTakesThePlaceOfItsPredecessorAndCountsOnce) {
  Start(TestOptions());
  Make("one", 2);
  EXPECT_EQ(Used(), 2);
  Make("two", 4, 0,
       R"({"metadata":{"annotations":
           {"kueue.x-k8s.io/workload-slice-replacement-for":"team-a/one"}}})");
  cluster().Run(1s);
  EXPECT_EQ(Is("two", "Admitted"), "True/Admitted");
  EXPECT_EQ(Is("one", "Finished"), "True/WorkloadSliceReplaced");
  EXPECT_EQ(cluster().Counted("kueue_replaced_workload_slices_total"), 1);
  EXPECT_EQ(Used(), 4);
  // Made smaller where it is.
  Patch("two", R"({"spec":{"podSets":[{"name":"main","count":3,"template":{"spec":{"containers":[
      {"name":"c","resources":{"requests":{"cpu":"1"}}}]}}}]}})");
  EXPECT_EQ(Used(), 3);
  cluster().Restart();
  cluster().Run(1s);
  EXPECT_EQ(Used(), 3);
  EXPECT_EQ(cluster().core().SanityCheck(), "");
}

TEST_F(CoreGatesTest, ASliceThatDoesNotFitLeavesItsPredecessorAlone) {
  Start(TestOptions());
  Make("one", 2);
  Make("two", 5, 0,
       R"({"metadata":{"annotations":
           {"kueue.x-k8s.io/workload-slice-replacement-for":"team-a/one"}}})");
  cluster().Run(1s);
  EXPECT_EQ(Is("one", "Admitted"), "True/Admitted");
  EXPECT_EQ(Is("one", "Finished"), "/");
  EXPECT_EQ(Is("two", "QuotaReserved"), "False/Pending");
  EXPECT_EQ(Used(), 2);
}

// Kueue ended the foreign Workload (kueue#13082).
TEST_F(CoreGatesTest, ASliceReplacesNobodyOfAnotherNamespace) {
  Start(TestOptions());
  Make("one", 2);
  const Json foreign = *Json::Parse(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload",
      "metadata":{"name":"one","namespace":"team-b"},"spec":{"queueName":"main","podSets":[
      {"name":"main","count":1,"template":{"spec":{"containers":[{"name":"c"}]}}}]}})");
  ASSERT_TRUE(cluster().server().Create(ResourceOf(Kind::kWorkload), foreign));
  int made = 0;
  for (const std::string replaced : {"team-b/one", "one", "/one", "team-a/", "team-a/one/one"}) {
    const std::string name = "two-" + std::to_string(++made);
    const Json metadata =
        Json::Obj({{"annotations",
                    Json::Obj({{std::string(names::kSliceReplacementAnnotation), replaced}})}});
    Make(name, 4, 0, Json::Obj({{"metadata", metadata}}).Dump().c_str());
    cluster().Run(1s);
    EXPECT_EQ(Is("one", "Admitted"), "True/Admitted") << replaced;
    EXPECT_EQ(Is("one", "Finished"), "/") << replaced;
    EXPECT_EQ(Is(name, "QuotaReserved"), "False/Pending") << replaced << ": counts in full";
  }
  EXPECT_EQ(Used(), 2);
  const auto there = cluster().server().Get(ResourceOf(Kind::kWorkload), {"team-b", "one"});
  ASSERT_TRUE(there);
  EXPECT_EQ(cluster().Condition(*there, "Finished"), "");
}

TEST_F(CoreGatesTest, ManyEditsOfAQueueInARowAreOnePass) {
  Start(TestOptions());
  Make("big", 9);
  cluster().Run(1s);
  const double before = cluster().Counted("tutti_passes_total");
  for (int edit = 0; edit < 10; ++edit) {
    cluster().SetQuota("cq", "cpu", std::to_string(4001 + edit) + "m");
    cluster().Tick(10ms);
  }
  cluster().Run(1s);
  EXPECT_EQ(cluster().Counted("tutti_passes_total"), before + 2);
  cluster().SetQuota("cq", "cpu", "9");
  cluster().Run(600ms);
  EXPECT_EQ(Is("big", "Admitted"), "True/Admitted");
}

// Watches of different kinds aren't ordered: the job may be seen after its Workload.
TEST_F(CoreGatesTest, AWorkloadOfAnUnknownJobIsNoOrphanInItsFirstTwoSeconds) {
  Start(TestOptions());
  Make("low", 4, 0);
  Make("high", 4, 10, R"({"metadata":{"labels":{"kueue.x-k8s.io/job-uid":"job-uid"}}})");
  EXPECT_EQ(Is("high", "Finished"), "/");
  cluster().Run(1s);
  EXPECT_NE(Message("low", "Preempted").find("JobUID: job-uid"), std::string::npos);
  cluster().Run(2s);
  EXPECT_EQ(Is("high", "Finished"), "True/OwnerNotFound");
}

TEST_F(CoreGatesTest, RequestsAtOddsWithLimitsAreNamedAsKueueNamesThem) {
  Start(TestOptions());
  Make("over", 1, 0,
       R"({"spec":{"podSets":[{"name":"main","count":1,"template":{"spec":{"containers":[
      {"name":"c","resources":{"requests":{"cpu":"3"},"limits":{"cpu":"2"}}}]}}}]}})");
  EXPECT_EQ(Is("over", "QuotaReserved"), "False/Pending");
  EXPECT_TRUE(Message("over", "QuotaReserved").starts_with("resources validation failed: "))
      << Message("over", "QuotaReserved");
  api::LimitRange range;
  range.items.emplace_back();
  range.items.back().type = "Container";
  range.items.back().max["cpu"] = *api::Quantity::Parse("500m");
  api::PodContext context;
  context.limit_ranges = {&range};
  const ShapeCache::Shaped above = ShapeCache().Get(
      R"({"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]}})", context,
      "");
  EXPECT_TRUE(above.of_limits);
  EXPECT_TRUE(above.problem.starts_with("resources didn't satisfy LimitRange constraints: "))
      << above.problem;
}

}  // namespace
}  // namespace tutti::reconciler
