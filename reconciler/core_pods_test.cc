// SPDX-License-Identifier: Apache-2.0
// Pods and pod groups in the whole core, against the in-memory cluster. Nothing gets a node here.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

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
  CorePodsTest() {
    Options options;
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
              const api::StringMap& labels = {}) {
    Json pod = *Json::Parse(
        R"({"apiVersion":"v1","kind":"Pod","spec":{"schedulingGates":[{"name":"kueue.x-k8s.io/admission"}],)"
        R"("containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]},"status":{"phase":"Pending"}})");
    Json metadata = Json::Obj({{"name", name},
                               {"namespace", "team-a"},
                               {"finalizers", Json::Arr({std::string(names::kManagedLabel)})},
                               {"labels", api::ToJson(labels)},
                               {"annotations", Json::Obj()}});
    metadata.At("labels").Set(names::kManagedLabel, "true");
    metadata.At("labels").Set(names::kQueueNameLabel, "main");
    if (!group.empty()) {
      metadata.At("labels").Set(names::kPodGroupName, group);
      metadata.At("annotations").Set(names::kPodGroupTotalCount, std::to_string(total));
    }
    pod.Set("metadata", std::move(metadata));
    const auto made = cluster().server().Create(ResourceOf(Kind::kPod), pod);
    ASSERT_TRUE(made) << made.error().message;
    cluster().Run(1s);
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
  for (const char* name : {"a", "b"}) {
    api::WriteRequest write;
    write.verb = api::Verb::kDelete;
    write.resource = ResourceOf(Kind::kPod);
    write.key = {"team-a", name};
    ASSERT_TRUE(cluster().server().Do(write));
  }
  cluster().Run(2s);
  for (const char* name : {"a", "b"}) {
    EXPECT_FALSE(cluster().server().Get(ResourceOf(Kind::kPod), {"team-a", name})) << name;
  }
}

}  // namespace
}  // namespace tutti::reconciler
