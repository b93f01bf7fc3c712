// SPDX-License-Identifier: Apache-2.0
// StatefulSets in the whole core, against the in-memory cluster. Its controller and the webhooks
// are played by the tests; nothing gets a node.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/names.h"
#include "reconciler/core.h"
#include "reconciler/names.h"
#include "reconciler/statefulset_kind.h"
#include "reconciler/testing/cluster.h"

namespace tutti::reconciler {
namespace {

using namespace std::chrono_literals;
using api::Kind;
using api::ResourceOf;
using testing::Cluster;

class CoreStatefulSetTest : public ::testing::Test {
 protected:
  CoreStatefulSetTest() {
    Options options;
    options.managed_namespaces.present = true;
    options.capacity = CapacityChoice::kOff;
    options.job_kinds = {&StatefulSetKind()};
    cluster_ = std::make_unique<Cluster>(std::move(options));
    cluster().SetScheduler(false);
    cluster().AddNamespace("team-a");
    cluster().AddFlavor("default");
    cluster().AddQueue("cq", "team-a", {{"cpu", "4"}});
    cluster().Tick();
  }
  Cluster& cluster() { return *cluster_; }

  // As the webhook leaves it; each pod asks for 1 cpu. Returns its UID.
  std::string Make(const std::string& name, int replicas, const std::string& held_for) {
    Json set = *Json::Parse(
        R"({"apiVersion":"apps/v1","kind":"StatefulSet","spec":{"template":{"metadata":{},)"
        R"("spec":{"containers":[{"name":"c","image":"a:1","resources":{"requests":{"cpu":"1"}}}]}}}})");
    set.Set("metadata",
            Json::Obj({{"name", name},
                       {"namespace", "team-a"},
                       {"labels", Json::Obj({{std::string(names::kQueueNameLabel), "main"}})}}));
    set.At("spec").Set("replicas", replicas);
    if (!held_for.empty()) {
      set.At("spec")
          .At("template")
          .At("metadata")
          .Set("annotations", Json::Obj({{std::string(names::kSuspendingParent), held_for}}));
    }
    const auto made = cluster().server().Create(StatefulSetKind().Resource(), set);
    EXPECT_TRUE(made) << made.error().message;
    return made ? (*made)["metadata"]["uid"].AsString() : "";
  }
  // The same, and it is seen.
  std::string Create(const std::string& name, int replicas,
                     const std::string& held_for = "statefulset") {
    std::string uid = Make(name, replicas, held_for);
    cluster().Run(1s);
    return uid;
  }
  // Pod `name` of the StatefulSet, as its controller and the pods' webhook make it; with a
  // finalizer as older releases of Kueue did.
  void MakePod(const std::string& set, const std::string& uid, const std::string& name,
               bool finalizer = false) {
    Json pod = *Json::Parse(
        R"({"apiVersion":"v1","kind":"Pod","spec":{"schedulingGates":[{"name":"kueue.x-k8s.io/admission"}],)"
        R"("containers":[{"name":"c","image":"a:1","resources":{"requests":{"cpu":"1"}}}]},"status":{"phase":"Pending"}})");
    pod.Set("metadata",
            Json::Obj(
                {{"name", name},
                 {"namespace", "team-a"},
                 {"annotations", Json::Obj({{std::string(names::kSuspendingParent), "statefulset"},
                                            {std::string(names::kRoleHash), "1a2b3c4d"}})},
                 {"ownerReferences", Json::Arr({Json::Obj({{"apiVersion", "apps/v1"},
                                                           {"kind", "StatefulSet"},
                                                           {"name", set},
                                                           {"uid", uid},
                                                           {"controller", true}})})}}));
    if (finalizer) {
      pod.At("metadata").Set("finalizers", Json::Arr({std::string(names::kManagedLabel)}));
    }
    const auto made = cluster().server().Create(ResourceOf(Kind::kPod), pod);
    ASSERT_TRUE(made) << made.error().message;
    cluster().Run(1s);
  }
  void PatchSet(const std::string& name, const std::string& spec) {
    const auto done = cluster().server().MergePatch(StatefulSetKind().Resource(), {"team-a", name},
                                                    Json::Obj({{"spec", *Json::Parse(spec)}}));
    ASSERT_TRUE(done) << done.error().message;
    cluster().Run(1s);
  }
  void DeletePod(const std::string& name) {
    ASSERT_TRUE(cluster().server().Delete(ResourceOf(Kind::kPod), {"team-a", name}));
    cluster().Run(1s);
  }
  Json Pod(const std::string& name) {
    const auto found = cluster().server().Get(ResourceOf(Kind::kPod), {"team-a", name});
    return found ? *found : Json();
  }
  bool Held(const std::string& name) {
    return !Pod(name)["spec"]["schedulingGates"].AsArray().empty();
  }
  // Null while there is none.
  Json Workload(const std::string& name, const std::string& uid) {
    const auto found = cluster().server().Get(
        ResourceOf(Kind::kWorkload), {"team-a", WorkloadName("StatefulSet", "apps", name, uid)});
    return found ? *found : Json();
  }
  std::string Quota(const std::string& name, const std::string& uid) {
    const Json workload = Workload(name, uid);
    return cluster().Condition(workload, "QuotaReserved") + "/" +
           cluster().Condition(workload, "QuotaReserved", "reason");
  }

 private:
  std::unique_ptr<Cluster> cluster_;
};

TEST_F(CoreStatefulSetTest, QuotaForAllReplicasIsTakenBeforeThePodsCome) {
  const std::string uid = Create("db", 3);
  const Json workload = Workload("db", uid);
  const Json& pod_set = workload["spec"]["podSets"].AsArray().at(0);
  EXPECT_EQ(pod_set["name"].AsString(), "main");
  EXPECT_EQ(pod_set["count"].AsInt(), 3);
  EXPECT_EQ(workload["metadata"]["ownerReferences"].AsArray().at(0)["uid"].AsString(), uid);
  EXPECT_EQ(Quota("db", uid), "True/QuotaReserved");
  // One after the other, as its controller makes them.
  for (const char* name : {"db-0", "db-1", "db-2"}) {
    MakePod("db", uid, name);
    EXPECT_FALSE(Held(name)) << name;
  }
  const Json pod = Pod("db-1");
  const Json& metadata = pod["metadata"];
  EXPECT_EQ(metadata["labels"][names::kQueueNameLabel].AsString(), "main");
  EXPECT_EQ(metadata["labels"][names::kManagedLabel].AsString(), "true");
  EXPECT_EQ(metadata["annotations"][names::kPodGroupName].AsString(),
            WorkloadName("StatefulSet", "apps", "db", uid));
  EXPECT_EQ(metadata["annotations"][names::kPodGroupTotalCount].AsString(), "3");
  EXPECT_EQ(metadata["annotations"][names::kRoleHash].AsString(), "main");
}

// Releases of Kueue before 0.19 made names without the UID.
TEST_F(CoreStatefulSetTest, AWorkloadOfItsOwnUnderAnotherNameIsUsed) {
  const std::string uid = Make("db", 2, "statefulset");
  Json workload = *Json::Parse(
      R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload","spec":{"queueName":"main","podSets":[)"
      R"({"name":"main","count":2,"template":{"spec":{"containers":[)"
      R"({"name":"c","image":"a:1","resources":{"requests":{"cpu":"1"}}}]}}}]}})");
  workload.Set(
      "metadata",
      Json::Obj({{"name", WorkloadName("StatefulSet", "apps", "db", "")},
                 {"namespace", "team-a"},
                 {"annotations", Json::Obj({{std::string(names::kIsGroupWorkload), "true"}})},
                 {"ownerReferences", Json::Arr({Json::Obj({{"apiVersion", "apps/v1"},
                                                           {"kind", "StatefulSet"},
                                                           {"name", "db"},
                                                           {"uid", uid}})})}}));
  ASSERT_TRUE(cluster().server().Create(ResourceOf(Kind::kWorkload), workload));
  cluster().Run(2s);
  const auto workloads = cluster().server().List(ResourceOf(Kind::kWorkload));
  ASSERT_EQ(workloads.size(), 1U);
  EXPECT_EQ(cluster().Condition(workloads.front(), "QuotaReserved"), "True");
  MakePod("db", uid, "db-0");
  EXPECT_FALSE(Held("db-0"));
}

TEST_F(CoreStatefulSetTest, AllPodsAreHeldUntilThereIsQuotaForAll) {
  Create("first", 3);
  const std::string uid = Create("second", 2);
  MakePod("second", uid, "second-0");
  MakePod("second", uid, "second-1");
  cluster().Run(2s);
  EXPECT_EQ(Quota("second", uid), "False/Pending");
  EXPECT_TRUE(Held("second-0"));
  EXPECT_TRUE(Held("second-1"));
  ASSERT_TRUE(cluster().server().Delete(StatefulSetKind().Resource(), {"team-a", "first"}));
  cluster().Run(2s);
  EXPECT_FALSE(Held("second-0"));
  EXPECT_FALSE(Held("second-1"));
}

TEST_F(CoreStatefulSetTest, ScaledToZeroItKeepsItsQuotaUntilItsPodsAreGone) {
  const std::string uid = Create("db", 1);
  MakePod("db", uid, "db-0");
  PatchSet("db", R"({"replicas":0})");
  EXPECT_EQ(Quota("db", uid), "True/QuotaReserved");
  DeletePod("db-0");
  EXPECT_EQ(Quota("db", uid), "False/OnHold");
  EXPECT_TRUE(Workload("db", uid)["status"]["admission"].IsNull());
  cluster().Run(5s);
  EXPECT_EQ(Quota("db", uid), "False/OnHold");
}

TEST_F(CoreStatefulSetTest, ItComesBackFromZeroWithAnotherSize) {
  const std::string uid = Create("db", 1);
  PatchSet("db", R"({"replicas":0})");
  ASSERT_EQ(Quota("db", uid), "False/OnHold");
  cluster().Restart();
  cluster().Run(2s);
  EXPECT_EQ(Quota("db", uid), "False/OnHold");
  PatchSet("db", R"({"replicas":4})");
  EXPECT_EQ(Quota("db", uid), "True/QuotaReserved");
  EXPECT_EQ(Workload("db", uid)["spec"]["podSets"].AsArray().at(0)["count"].AsInt(), 4);
}

TEST_F(CoreStatefulSetTest, ScaledToZeroWhileItWaitsItLeavesTheQueue) {
  Create("first", 4);
  const std::string uid = Create("second", 2);
  cluster().Run(2s);
  ASSERT_EQ(Quota("second", uid), "False/Pending");
  PatchSet("second", R"({"replicas":0})");
  EXPECT_EQ(Quota("second", uid), "False/OnHold");
  ASSERT_TRUE(cluster().server().Delete(StatefulSetKind().Resource(), {"team-a", "first"}));
  cluster().Run(2s);
  EXPECT_EQ(Quota("second", uid), "False/OnHold");
}

TEST_F(CoreStatefulSetTest, ADrainedOneIsDeletedPodByPodAndHeldAgain) {
  const std::string uid = Create("db", 2);
  MakePod("db", uid, "db-0");
  MakePod("db", uid, "db-1");
  cluster().PatchSpec(Kind::kClusterQueue, {"", "cq"}, Json::Obj({{"stopPolicy", "HoldAndDrain"}}));
  cluster().Run(2s);
  EXPECT_TRUE(Pod("db-0").IsNull());
  EXPECT_TRUE(Pod("db-1").IsNull());
  EXPECT_EQ(cluster().Condition(Workload("db", uid), "QuotaReserved"), "False");
  MakePod("db", uid, "db-0");
  EXPECT_TRUE(Held("db-0"));
  cluster().PatchSpec(Kind::kClusterQueue, {"", "cq"}, Json::Obj({{"stopPolicy", "None"}}));
  cluster().Run(2s);
  EXPECT_FALSE(Held("db-0"));
}

// kueue#13830: pods of evicted services keep their finalizers, and are made again thousands of
// times.
TEST_F(CoreStatefulSetTest, EachEvictionDeletesEveryPodOnceAndLeavesNoFinalizer) {
  const std::string uid = Create("db", 2);
  const std::vector<std::string> names = {"db-0", "db-1"};
  int made = 0;
  // Its controller makes what is missing, again and again.
  const auto run = [&](int seconds, bool finalizer) {
    for (int second = 0; second < seconds; ++second) {
      for (const std::string& name : names) {
        if (Pod(name).IsNull()) {
          MakePod("db", uid, name, finalizer);
          ++made;
        }
      }
      cluster().Run(1s);
    }
  };
  run(5, /*finalizer=*/true);
  const api::ObjectKey workload{"team-a", WorkloadName("StatefulSet", "apps", "db", uid)};
  for (int round = 0; round < 3; ++round) {
    ASSERT_FALSE(Held("db-0") || Held("db-1")) << "round " << round;
    const int before = made;
    cluster().PatchSpec(Kind::kWorkload, workload, Json::Obj({{"active", false}}));
    run(30, /*finalizer=*/false);
    EXPECT_EQ(made - before, 2) << "round " << round;
    for (const std::string& name : names) {
      EXPECT_TRUE(Held(name)) << "round " << round;
      EXPECT_FALSE(Pod(name)["metadata"].Has("deletionTimestamp")) << "round " << round;
    }
    EXPECT_EQ(cluster().Condition(Workload("db", uid), "QuotaReserved"), "False");
    cluster().PatchSpec(Kind::kWorkload, workload, Json::Obj({{"active", true}}));
    run(10, /*finalizer=*/false);
    EXPECT_EQ(made - before, 2) << "those that were held are started";
  }
}

TEST_F(CoreStatefulSetTest, AnotherImageDoesntStopIt) {
  const std::string uid = Create("db", 2);
  const std::string before = Workload("db", uid)["metadata"]["uid"].AsString();
  PatchSet("db", R"({"template":{"spec":{"containers":[)"
                 R"({"name":"c","image":"a:2","resources":{"requests":{"cpu":"1"}}}]}}})");
  EXPECT_EQ(Workload("db", uid)["metadata"]["uid"].AsString(), before);
  EXPECT_EQ(Quota("db", uid), "True/QuotaReserved");
}

TEST_F(CoreStatefulSetTest, MorePodsThanItHasQuotaForStartItAnew) {
  const std::string uid = Create("db", 2);
  MakePod("db", uid, "db-0");
  MakePod("db", uid, "db-1");
  PatchSet("db", R"({"replicas":3})");
  cluster().Run(3s);
  EXPECT_TRUE(Pod("db-0").IsNull());
  EXPECT_EQ(Workload("db", uid)["spec"]["podSets"].AsArray().at(0)["count"].AsInt(), 3);
  EXPECT_EQ(Quota("db", uid), "True/QuotaReserved");
}

TEST_F(CoreStatefulSetTest, FewerPodsThanItHasQuotaForDontStopIt) {
  const std::string uid = Create("db", 3);
  MakePod("db", uid, "db-0");
  const std::string before = Workload("db", uid)["metadata"]["uid"].AsString();
  PatchSet("db", R"({"replicas":2})");
  EXPECT_EQ(Workload("db", uid)["metadata"]["uid"].AsString(), before);
  EXPECT_FALSE(Pod("db-0").IsNull());
}

TEST_F(CoreStatefulSetTest, OneThatTheWebhookHasNotMarkedIsLeftAlone) {
  EXPECT_TRUE(Workload("db", Create("db", 1, "")).IsNull());
  EXPECT_TRUE(
      Workload("lws", Create("lws", 1, "leaderworkerset.x-k8s.io/leaderworkerset")).IsNull());
}

}  // namespace
}  // namespace tutti::reconciler
