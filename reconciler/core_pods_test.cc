// SPDX-License-Identifier: Apache-2.0
// Pods and pod groups in the whole core, against the in-memory cluster. Nothing gets a node here.
#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/names.h"
#include "reconciler/core.h"
#include "reconciler/pod_kind.h"
#include "reconciler/testing/cluster.h"

namespace tutti::reconciler {
namespace {

using namespace std::chrono_literals;
using api::Kind;
using api::ResourceOf;
using testing::Cluster;

class CorePodsTest : public ::testing::Test {
 protected:
  explicit CorePodsTest(Options options = {}) {
    options.managed_namespaces.present = true;
    options.capacity = CapacityChoice::kOff;
    options.wait_for_pods_ready.timeout = 30s;
    options.job_kinds = {&PodKind()};
    options.label_keys_to_copy = {"cost-center"};
    cluster_ = std::make_unique<Cluster>(std::move(options));
    cluster().SetScheduler(false);
    cluster().AddNamespace("team-a");
    cluster().AddFlavor("default");
    cluster().AddQueue("cq", "team-a", {{"cpu", "4"}});
    cluster().Tick();
  }
  Cluster& cluster() { return *cluster_; }

  // As the webhook leaves it; group "" = by itself.
  void Create(const std::string& name, const std::string& group = "", int total = 1,
              const api::StringMap& labels = {}, const std::string& queue = "main") {
    Json pod = *Json::Parse(
        R"({"apiVersion":"v1","kind":"Pod","spec":{"schedulingGates":[{"name":"kueue.x-k8s.io/admission"}],)"
        R"("containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]},"status":{"phase":"Pending"}})");
    Json metadata = Json::Obj({{"name", name},
                               {"namespace", "team-a"},
                               {"finalizers", Json::Arr({std::string(names::kManagedLabel)})},
                               {"labels", api::ToJson(labels)},
                               {"annotations", Json::Obj()}});
    metadata.At("labels").Set(names::kManagedLabel, "true");
    metadata.At("labels").Set(names::kQueueNameLabel, queue);
    if (!group.empty()) {
      metadata.At("labels").Set(names::kPodGroupName, group);
      metadata.At("annotations").Set(names::kPodGroupTotalCount, std::to_string(total));
    }
    pod.Set("metadata", std::move(metadata));
    const auto made = cluster().server().Create(ResourceOf(Kind::kPod), pod);
    ASSERT_TRUE(made) << made.error().message;
    cluster().Run(1s);
  }
  void Delete(const std::string& name) {
    api::WriteRequest write;
    write.verb = api::Verb::kDelete;
    write.resource = ResourceOf(Kind::kPod);
    write.key = {"team-a", name};
    const auto done = cluster().server().Do(write);
    ASSERT_TRUE(done) << name << ": " << done.error().message;
  }
  void SetPhase(const std::string& name, const std::string& phase) {
    api::WriteRequest write;
    write.verb = api::Verb::kMergePatch;
    write.resource = ResourceOf(Kind::kPod);
    write.key = {"team-a", name};
    write.subresource = "status";
    write.body = Json::Obj({{"status", Json::Obj({{"phase", phase}})}});
    const auto done = cluster().server().Do(write);
    ASSERT_TRUE(done) << name << ": " << done.error().message;
  }
  std::vector<Json> Pods() { return cluster().server().List(ResourceOf(Kind::kPod)); }
  std::vector<Json> Workloads() { return cluster().server().List(ResourceOf(Kind::kWorkload)); }
  // Pods that have quota.
  int64_t Reserved() {
    int64_t count = 0;
    for (const Json& workload : Workloads()) {
      for (const Json& pod_set : workload["status"]["admission"]["podSetAssignments"].AsArray()) {
        if (cluster().Condition(workload, "Finished") != "True") {
          count += pod_set["count"].AsInt();
        }
      }
    }
    return count;
  }
  // The Workload of a group; null while there is none.
  Json Group(const std::string& name) {
    const auto found = cluster().server().Get(ResourceOf(Kind::kWorkload), {"team-a", name});
    return found ? *found : Json();
  }
  std::string Is(const std::string& group, std::string_view type) {
    const Json workload = Group(group);
    return cluster().Condition(workload, type) + "/" +
           cluster().Condition(workload, type, "reason");
  }
  // How often this was said of pods.
  int64_t Told(const std::string& reason, const std::string& words) {
    const auto& events = cluster().events();
    return std::count_if(events.begin(), events.end(), [&](const EventRecord& event) {
      return event.reason == reason && event.message.find(words) != std::string::npos;
    });
  }

 private:
  std::unique_ptr<Cluster> cluster_;
};

TEST_F(CorePodsTest, AGroupComesBackFromItsBackOffAndStillWaitsForItsPods) {
  Create("a", "group");
  EXPECT_EQ(Is("group", "Admitted"), "True/Admitted");
  EXPECT_EQ(cluster().Observed("kueue_pod_scheduling_gate_removal_seconds"), 1);
  cluster().Run(40s);
  EXPECT_EQ(Is("group", "Evicted"), "True/PodsReadyTimeout");
  cluster().Run(90s);
  EXPECT_EQ(Is("group", "Requeued"), "True/BackoffFinished");
  EXPECT_EQ(Is("group", "WaitingForReplacementPods"), "True/PodsReadyTimeout");
  EXPECT_EQ(cluster().Condition(Group("group"), "QuotaReserved"), "False");
  Create("b", "group");
  cluster().Run(2s);
  EXPECT_EQ(cluster().Condition(Group("group"), "QuotaReserved"), "True");
}

TEST_F(CorePodsTest, WhatIsCopiedMayStandOnAnyPodOfAGroup) {
  Create("a", "group", 2);
  Create("b", "group", 2, {{"cost-center", "7"}});
  EXPECT_EQ(Group("group")["metadata"]["labels"]["cost-center"].AsString(), "7");
}

TEST_F(CorePodsTest, PodsThatDisagreeOnWhatIsCopiedAreNotQueued) {
  Create("a", "group", 2, {{"cost-center", "7"}});
  Create("b", "group", 2, {{"cost-center", "8"}});
  EXPECT_TRUE(Group("group").IsNull());
  EXPECT_GE(Told("ErrWorkloadCompose", "metadata.labels[cost-center]"), 1);
}

TEST_F(CorePodsTest, AStopFromOutsideIsToldWithTheReasonOfTheEviction) {
  Create("a", "group");
  api::WriteRequest write;
  write.verb = api::Verb::kMergePatch;
  write.resource = ResourceOf(Kind::kWorkload);
  write.key = {"team-a", "group"};
  write.subresource = "status";
  write.body = *Json::Parse(
      R"({"status":{"admission":null,"conditions":[{"type":"Evicted","status":"True","reason":"Preempted",)"
      R"("message":"By test","lastTransitionTime":"2027-01-15T08:00:00Z"}]}})");
  const auto done = cluster().server().Do(write);
  ASSERT_TRUE(done) << done.error().message;
  cluster().Run(1s);
  EXPECT_EQ(Told("Stopped", "By test"), 1);
}

TEST_F(CorePodsTest, AHeldGroupThatItsUserDeletesIsLetGo) {
  Create("blocker-a", "blocker", 4);
  for (const char* name : {"blocker-b", "blocker-c", "blocker-d"}) {
    Create(name, "blocker", 4);
  }
  Create("a", "group", 2);
  Create("b", "group", 2);
  cluster().Run(2s);
  ASSERT_EQ(cluster().Condition(Group("group"), "QuotaReserved"), "False");
  Delete("a");
  Delete("b");
  cluster().Run(2s);
  for (const char* name : {"a", "b"}) {
    EXPECT_FALSE(cluster().server().Get(ResourceOf(Kind::kPod), {"team-a", name})) << name;
  }
}

TEST_F(CorePodsTest, PodsDeletedAtTheMomentTheySucceedAreLetGo) {
  for (const char* name : {"a", "b", "c"}) {
    Create(name, "group", 3);
  }
  ASSERT_EQ(Is("group", "Admitted"), "True/Admitted");
  for (const char* name : {"a", "b", "c"}) {
    SetPhase(name, "Succeeded");
    Delete(name);
  }
  cluster().Run(2s);
  EXPECT_TRUE(Pods().empty());
}

TEST_F(CorePodsTest, APodOfAQueueThatDoesNotExistCanBeDeleted) {
  Create("alone", "", 1, {}, "nowhere");
  Create("a", "group", 2, {}, "nowhere");
  Create("b", "group", 2, {}, "nowhere");
  Create("incomplete", "other", 2, {}, "nowhere");
  for (const char* name : {"alone", "a", "b", "incomplete"}) {
    Delete(name);
  }
  cluster().Run(2s);
  EXPECT_TRUE(Pods().empty());
}

TEST_F(CorePodsTest, AGroupThatWaitsForAReplacementHoldsNoQuotaHoweverLong) {
  Create("a", "group", 2);
  Create("b", "group", 2);
  ASSERT_EQ(Is("group", "Admitted"), "True/Admitted");
  SetPhase("a", "Failed");
  cluster().Run(40s);
  ASSERT_EQ(Is("group", "Evicted"), "True/PodsReadyTimeout");
  for (int minute = 0; minute < 20; ++minute) {
    cluster().Run(1min, 1s);
    EXPECT_EQ(cluster().Condition(Group("group"), "QuotaReserved"), "False") << minute;
  }
  EXPECT_EQ(Group("group")["status"]["requeueState"]["count"].AsInt(), 1);
}

// The pods of a Deployment, whose images are never ready: each is deleted when its time is over,
// and made again under another name.
TEST_F(CorePodsTest, PodsThatAreMadeAgainAndAgainLeaveNoWorkloadThatIsAdmitted) {
  cluster().SetGarbageCollector(false);
  for (int round = 0; round < 8; ++round) {
    const std::string name = "web-" + std::to_string(round);
    Create(name);
    cluster().Run(40s);
    EXPECT_FALSE(cluster().server().Get(ResourceOf(Kind::kPod), {"team-a", name})) << name;
    cluster().Run(2min, 1s);
    for (const Json& workload : Workloads()) {
      EXPECT_NE(cluster().Condition(workload, "QuotaReserved"), "True")
          << workload["metadata"]["name"].AsString() << " in round " << round;
    }
  }
}

// Pods come, end and are deleted at random: never more run than there is quota for, and none is
// held for long while there is room.
TEST_F(CorePodsTest, UnderChurnOfPodsQuotaHoldsAndNobodyIsForgotten) {
  std::mt19937_64 random(7);
  const auto chance = [&](int percent) { return random() % 100 < static_cast<uint64_t>(percent); };
  int made = 0;
  Time room_since = cluster().now();
  int64_t most = 0;
  for (int turn = 0; turn < 300; ++turn) {
    if (chance(40)) {
      const std::string name = "p" + std::to_string(made++);
      if (chance(20)) {
        Create(name + "-a", name, 2);
        Create(name + "-b", name, 2);
      } else {
        Create(name);
      }
    }
    for (const Json& pod : Pods()) {
      const std::string& name = pod["metadata"]["name"].AsString();
      if (chance(2)) {
        Delete(name);
      } else if (pod["spec"]["schedulingGates"].AsArray().empty() && chance(6)) {
        SetPhase(name, chance(70) ? "Succeeded" : "Failed");
      }
    }
    cluster().Tick();
    int64_t running = 0;
    bool held = false;
    for (const Json& pod : Pods()) {
      const std::string& phase = pod["status"]["phase"].AsString();
      if (phase == "Succeeded" || phase == "Failed" || pod["metadata"].Has("deletionTimestamp")) {
        continue;
      }
      const bool single = !pod["metadata"]["labels"].Has(names::kPodGroupName);
      const bool gated = !pod["spec"]["schedulingGates"].AsArray().empty();
      running += gated ? 0 : 1;
      held = held || (gated && single);
    }
    ASSERT_LE(running, 4) << "turn " << turn;
    most = std::max(most, running);
    if (!held || Reserved() >= 4) {
      room_since = cluster().now();
    }
    ASSERT_LE(cluster().now() - room_since, 5s) << "turn " << turn;
    ASSERT_EQ(cluster().core().SanityCheck(), "") << "turn " << turn;
  }
  EXPECT_EQ(most, 4);
  EXPECT_GT(made, 80);
}

class CorePodsWithALimitTest : public CorePodsTest {
 protected:
  static Options Limited() {
    Options options;
    options.wait_for_pods_ready.backoff_limit = 1;
    return options;
  }
  CorePodsWithALimitTest() : CorePodsTest(Limited()) {}
};

TEST_F(CorePodsWithALimitTest, AGroupAtTheLimitOfReturnsIsDeactivatedAndHoldsNothing) {
  Create("a", "group");
  cluster().Run(40s);
  ASSERT_EQ(Is("group", "Evicted"), "True/PodsReadyTimeout");
  Create("b", "group");
  cluster().Run(3min, 1s);
  EXPECT_EQ(Is("group", "Evicted"), "True/DeactivatedDueToRequeuingLimitExceeded");
  EXPECT_EQ(Is("group", "QuotaReserved"), "False/Pending");
  EXPECT_TRUE(Group("group")["status"]["admission"].IsNull());
  Create("c", "group");
  cluster().Run(10min, 1s);
  EXPECT_EQ(cluster().Condition(Group("group"), "QuotaReserved"), "False") << "one end, no churn";
}

}  // namespace
}  // namespace tutti::reconciler
