// SPDX-License-Identifier: Apache-2.0
// Mode Observe: another controller's decisions are followed and compared, and nothing is written.
#include "reconciler/observer.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/kueue.h"
#include "reconciler/core.h"
#include "reconciler/testing/cluster.h"

namespace tutti::reconciler {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using Kind = ObservedDecision::Kind;

const Time kNoon = *ParseTime("2026-12-01T12:00:00Z");

class ObserverTest : public ::testing::Test {
 protected:
  ObserverTest() : core_(ObserveOptions()) {
    core_.OnNamespace(Decode(api::NamespaceFromJson(Json::Obj({{"metadata", Meta("", "ns")}}))),
                      false);
    core_.OnFlavor(Decode(api::ResourceFlavorFromJson(Json::Obj({{"metadata", Meta("", "f")}}))),
                   false);
    Queue("4");
    core_.OnLocalQueue(
        Decode(api::LocalQueueFromJson(Json::Obj(
            {{"metadata", Meta("ns", "lq")}, {"spec", Json::Obj({{"clusterQueue", "cq"}})}}))),
        false);
    core_.OnSynced();
    Step();
  }

  static Options ObserveOptions() {
    Options options;
    options.mode = Mode::kObserve;
    options.capacity = CapacityChoice::kOff;
    options.managed_namespaces.present = true;
    return options;
  }
  template <typename T>
  static std::shared_ptr<const T> Decode(Result<T> decoded) {
    EXPECT_TRUE(decoded) << decoded.error().message;
    return std::make_shared<const T>(std::move(*decoded));
  }
  Json Meta(const std::string& ns, const std::string& name, Time created = kNoon) {
    Json meta = Json::Obj({{"name", name},
                           {"uid", ns + "." + name},
                           {"resourceVersion", std::to_string(++version_)},
                           {"generation", version_},
                           {"creationTimestamp", FormatTime(created)}});
    if (!ns.empty()) {
      meta.Set("namespace", ns);
    }
    return meta;
  }
  void Queue(const std::string& quota, const std::string& within = "Never") {
    core_.OnClusterQueue(
        Decode(api::ClusterQueueFromJson(*Json::Parse(
            R"({"metadata":)" + Meta("", "cq").Dump() +
            R"(,"spec":{"namespaceSelector":{},"preemption":{"withinClusterQueue":")" + within +
            R"("},"resourceGroups":[{"coveredResources":["cpu"],"flavors":[{"name":"f",)" +
            R"("resources":[{"name":"cpu","nominalQuota":")" + quota + R"("}]}]}]}})"))),
        false);
  }
  // `status` as JSON; created so many seconds after noon.
  void Workload(const std::string& name, int cpu, int created, const std::string& status = "{}",
                int priority = 0, bool deleted = false) {
    core_.OnWorkload(
        Decode(api::WorkloadFromJson(*Json::Parse(
            R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload","metadata":)" +
            Meta("ns", name, kNoon + std::chrono::seconds(created)).Dump() +
            R"(,"spec":{"active":true,"queueName":"lq","priority":)" + std::to_string(priority) +
            R"(,"podSets":[{"name":"main","count":1,"template":{"spec":{"containers":[{"name":"c",)" +
            R"("resources":{"requests":{"cpu":")" + std::to_string(cpu) +
            R"("}}}]}}}]},"status":)" + status + "}"))),
        deleted);
  }
  static std::string Reserved(int cpu, const std::string& more = "",
                              const std::string& flavor = "f") {
    return R"({"admission":{"clusterQueue":"cq","podSetAssignments":[{"name":"main","count":1,)"
           R"("flavors":{"cpu":")" +
           flavor + R"("},"resourceUsage":{"cpu":")" + std::to_string(cpu) +
           R"("}}]},"conditions":[{"type":"QuotaReserved","status":"True","reason":"QuotaReserved",)" +
           R"("message":"","lastTransitionTime":"2026-12-01T12:10:00Z"})" + more + "]}";
  }
  static std::string Evicted() {
    return R"(,{"type":"Evicted","status":"True","reason":"Preempted","message":"",)"
           R"("lastTransitionTime":"2026-12-01T12:10:00Z"},{"type":"Preempted","status":"True",)"
           R"("reason":"InClusterQueue","message":"","lastTransitionTime":"2026-12-01T12:10:00Z"})";
  }
  Output Step(Duration later = 100ms) {
    now_ += later;
    Output out = core_.Step(now_);
    EXPECT_TRUE(out.effects.empty());
    EXPECT_TRUE(out.reads.empty());
    EXPECT_TRUE(out.bugs.empty());
    EXPECT_EQ(core_.SanityCheck(), "");
    EXPECT_FALSE(core_.Busy());
    return out;
  }

  int64_t version_ = 0;
  Time now_ = kNoon + 1h;
  Core core_;
};

TEST_F(ObserverTest, WhatTheOtherControllerAdmitsInOrderIsForeseen) {
  Workload("a", 3, 1);
  Workload("b", 3, 2);
  EXPECT_TRUE(Step().observed.empty());
  Workload("a", 3, 1, Reserved(3));
  const Output first = Step();
  ASSERT_EQ(first.observed.size(), 1U);
  EXPECT_TRUE(first.observed[0].agreed) << first.observed[0].ours;
  EXPECT_EQ(first.observed[0].live, "cq: 1 main of cpu f");
  EXPECT_EQ(first.observed[0].cluster_queue, "cq");
  EXPECT_EQ(core_.engine().Report("cq").reserving, 1);
  Workload("a", 3, 1, Reserved(3), 0, /*deleted=*/true);
  EXPECT_TRUE(Step().observed.empty());
  Workload("b", 3, 2, Reserved(3));
  const Output second = Step();
  ASSERT_EQ(second.observed.size(), 1U);
  EXPECT_TRUE(second.observed[0].agreed);
}

TEST_F(ObserverTest, SomebodyElseAdmittedIsADifferenceAndFollowed) {
  Workload("a", 3, 1);
  Workload("b", 3, 2);
  Step();
  Workload("b", 3, 2, Reserved(3));
  const Output out = Step();
  ASSERT_EQ(out.observed.size(), 1U);
  EXPECT_FALSE(out.observed[0].agreed);
  EXPECT_THAT(out.observed[0].ours, HasSubstr("waits: "));
  // What it wrote holds; the other one waits here, too.
  EXPECT_EQ(core_.engine().Report("cq").reserving, 1);
  ASSERT_TRUE(core_.engine().WhyPending("ns/a"));
}

TEST_F(ObserverTest, EventsOfOneStepAreJudgedOneAfterTheOther) {
  Workload("a", 3, 1);
  Workload("a", 3, 1, Reserved(3));
  Workload("a", 3, 1, Reserved(3), 0, /*deleted=*/true);
  Workload("b", 3, 2);
  Workload("b", 3, 2, Reserved(3));
  const Output out = Step();
  ASSERT_EQ(out.observed.size(), 2U);
  EXPECT_TRUE(out.observed[0].agreed && out.observed[1].agreed);
}

TEST_F(ObserverTest, OtherFlavorsAreADifference) {
  Workload("a", 3, 1);
  Step();
  Workload("a", 3, 1, Reserved(3, "", "g"));
  const Output out = Step();
  ASSERT_EQ(out.observed.size(), 1U);
  EXPECT_FALSE(out.observed[0].agreed);
  EXPECT_EQ(out.observed[0].live, "cq: 1 main of cpu g");
  EXPECT_EQ(out.observed[0].ours, "cq: 1 main of cpu f");
}

TEST_F(ObserverTest, WhoIsLeftWaitingThoughThereIsRoomIsToldOnce) {
  Workload("a", 3, 1);
  Step();
  ASSERT_TRUE(core_.NextWake());
  EXPECT_EQ(*core_.NextWake(), now_ + 10s);
  EXPECT_TRUE(Step(9s).observed.empty());
  Workload("late", 4, 5);  // changes nothing for the first
  EXPECT_TRUE(Step(100ms).observed.empty());
  const Output out = Step(1s);
  ASSERT_EQ(out.observed.size(), 1U);
  EXPECT_EQ(out.observed[0].kind, Kind::kNotStarted);
  EXPECT_FALSE(out.observed[0].agreed);
  EXPECT_TRUE(Step(20s).observed.empty());
  EXPECT_FALSE(core_.NextWake());
}

TEST_F(ObserverTest, WhoHasToGiveWayIsForeseen) {
  Queue("4", "LowerPriority");
  Workload("low", 3, 1);
  Workload("low", 3, 1, Reserved(3));
  Step();
  Workload("high", 3, 2, "{}", 10);
  Step();
  Workload("low", 3, 1, Reserved(3, Evicted()));
  const Output out = Step();
  ASSERT_EQ(out.observed.size(), 1U);
  EXPECT_EQ(out.observed[0].kind, Kind::kPreempted);
  EXPECT_TRUE(out.observed[0].agreed) << out.observed[0].ours;
  // It goes, and the other one gets its quota.
  Workload("low", 3, 1);
  Step();
  Workload("high", 3, 2, Reserved(3), 10);
  const Output then = Step();
  ASSERT_EQ(then.observed.size(), 1U);
  EXPECT_TRUE(then.observed[0].agreed);
}

TEST_F(ObserverTest, SomebodyElsesVictimIsADifference) {
  Workload("low", 3, 1);
  Workload("low", 3, 1, Reserved(3));
  Step();
  Workload("high", 3, 2, "{}", 10);
  Step();
  Workload("low", 3, 1, Reserved(3, Evicted()));
  const Output out = Step();
  ASSERT_EQ(out.observed.size(), 1U);
  EXPECT_FALSE(out.observed[0].agreed);
  EXPECT_EQ(out.observed[0].ours, "is left alone");
}

// Time in part is counted whoever starts a job, and only what lasts.
TEST(PartialGangsTest, TheTimeUntilAGangIsWholeIsCounted) {
  Options options;
  options.managed_namespaces.present = true;
  options.capacity = CapacityChoice::kOff;
  options.landing_timeout = 300s;
  options.partial_binding_timeout = 300s;
  testing::Cluster cluster(options);
  cluster.AddNamespace("team-a");
  cluster.AddFlavor("default");
  cluster.AddNode("n1", 2);
  cluster.AddQueue("cq", "team-a", {{"cpu", "8"}});
  cluster.Tick();
  cluster.Submit({.name = "whole", .pods = 2, .runs_for = 5s});
  cluster.Run(20s);
  EXPECT_EQ(cluster.Counted("tutti_partial_gang_seconds_total"), 0);
  cluster.Submit({.name = "partial", .pods = 4, .runs_for = 600s});
  cluster.Run(31s);
  EXPECT_NEAR(cluster.Counted("tutti_partial_gang_seconds_total"), 30, 11);
  cluster.AddNode("n2", 2);
  cluster.Run(2s);
  const double until_whole = cluster.Counted("tutti_partial_gang_seconds_total");
  EXPECT_NEAR(until_whole, 32, 1.5);
  cluster.Run(30s);
  EXPECT_EQ(cluster.Counted("tutti_partial_gang_seconds_total"), until_whole);
}

}  // namespace
}  // namespace tutti::reconciler
