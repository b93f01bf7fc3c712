// SPDX-License-Identifier: Apache-2.0
// The controller where others do a part of its work: queues and Workloads kept by somebody else, no
// Job controller, Workloads that somebody else made, classes that change.
#include <gtest/gtest.h>

#include "base/names.h"
#include "reconciler/batch_job.h"
#include "reconciler/testing/cluster.h"
#include "reconciler/testing/objects.h"

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
  return options;
}

struct Parts {
  explicit Parts(Options options = TestOptions()) : cluster(std::move(options)) {
    cluster.AddNamespace("team-a");
    cluster.AddFlavor("default", {{"pool", "a"}});
    cluster.AddNode("n1", 8);
    cluster.AddQueue("cq", "team-a", {{"cpu", "4"}});
    cluster.Tick();
  }

  // The status of a Workload as another controller writes it.
  void SetStatus(const Json& workload, Json status) {
    ASSERT_TRUE(cluster.server().MergePatch(ResourceOf(Kind::kWorkload), testing::KeyOf(workload),
                                            Json::Obj({{"status", std::move(status)}}), "status"));
  }
  static Json Condition(const char* type, const char* status, const char* reason) {
    return Json::Obj({{"type", type},
                      {"status", status},
                      {"reason", reason},
                      {"message", "by test"},
                      {"lastTransitionTime", "2026-11-30T09:00:00Z"}});
  }
  void Admit(const Json& workload) {
    SetStatus(
        workload,
        Json::Obj({{"admission",
                    Json::Obj({{"clusterQueue", "elsewhere"},
                               {"podSetAssignments",
                                Json::Arr({Json::Obj({{"name", "main"},
                                                      {"flavors", Json::Obj({{"cpu", "default"}})},
                                                      {"resourceUsage", Json::Obj({{"cpu", "1"}})},
                                                      {"count", 1}})})}})},
                   {"conditions", Json::Arr({Condition("QuotaReserved", "True", "Test"),
                                             Condition("Admitted", "True", "Test")})}}));
  }
  void SetJobStatus(const std::string& job, Json status) {
    ASSERT_TRUE(cluster.server().MergePatch(ResourceOf(Kind::kJob), {"team-a", job},
                                            Json::Obj({{"status", std::move(status)}}), "status"));
  }
  void AddClass(const std::string& name, int value) {
    ASSERT_TRUE(cluster.server().Create(
        ResourceOf(Kind::kWorkloadPriorityClass),
        Json::Obj({{"metadata", Json::Obj({{"name", name}})}, {"value", value}})));
  }
  // A Workload of the name that describes the job.
  void MakeWorkload(const std::string& name, const std::string& job, int count = 1) {
    const auto decoded = api::JobFromJson(cluster.Job("team-a", job));
    ASSERT_TRUE(decoded);
    auto made = WorkloadFor(*decoded, {});
    ASSERT_TRUE(made);
    made->meta.name = name;
    made->meta.labels.clear();
    made->meta.owners.clear();
    made->meta.finalizers.clear();
    made->pod_sets[0].count = count;
    ASSERT_TRUE(cluster.server().Create(ResourceOf(Kind::kWorkload), api::ToJson(*made)));
  }
  Json Get(Kind kind, const std::string& name) {
    auto object =
        cluster.server().Get(ResourceOf(kind), {kind == Kind::kWorkload ? "team-a" : "", name});
    return object ? *object : Json();
  }

  Cluster cluster;
};

Options JobsAlone() {
  Options options = TestOptions();
  options.core = false;
  options.scheduler = false;
  options.wait_for_pods_ready.enabled = false;
  return options;
}

TEST(CorePartsTest, WithoutTheCoreControllersQueuesAreLeftAloneAndJobsFollowTheirWorkloads) {
  Parts parts(JobsAlone());
  Cluster& cluster = parts.cluster;
  cluster.SetJobController(false);
  cluster.Submit({.name = "job"});
  cluster.Run(3s);
  const Json workload = cluster.WorkloadOf("team-a", "job");
  EXPECT_TRUE(workload["status"]["conditions"].AsArray().empty()) << workload.Dump();
  EXPECT_TRUE(parts.Get(Kind::kClusterQueue, "cq")["status"].IsNull());
  EXPECT_FALSE(parts.Get(Kind::kClusterQueue, "cq")["metadata"].Has("finalizers"));

  parts.Admit(workload);
  cluster.Run(2s);
  EXPECT_FALSE(cluster.Suspended("team-a", "job"));
  EXPECT_EQ(
      cluster.Job("team-a", "job")["spec"]["template"]["spec"]["nodeSelector"]["pool"].AsString(),
      "a");

  // Evicted by somebody else: suspended at once, quota given back when nothing is active.
  parts.SetJobStatus("job", Json::Obj({{"active", 1}}));
  Json conditions = cluster.WorkloadOf("team-a", "job")["status"]["conditions"];
  conditions.Push(Parts::Condition("Evicted", "True", "Preempted"));
  parts.SetStatus(workload, Json::Obj({{"conditions", conditions}}));
  cluster.Run(3s);
  EXPECT_TRUE(cluster.Suspended("team-a", "job"));
  EXPECT_EQ(cluster.Condition(cluster.WorkloadOf("team-a", "job"), "QuotaReserved"), "True");
  parts.SetJobStatus("job", Json::Obj({{"active", 0}}));
  cluster.Run(3s);
  EXPECT_EQ(cluster.Condition(cluster.WorkloadOf("team-a", "job"), "QuotaReserved"), "False");
}

TEST(CorePartsTest, WithoutAJobControllerTheStartTimeIsResetAndTheTemplateRestored) {
  Parts parts;
  Cluster& cluster = parts.cluster;
  cluster.SetJobController(false);
  cluster.Submit({.name = "job"});
  cluster.Run(2s);
  ASSERT_FALSE(cluster.Suspended("team-a", "job"));
  parts.SetJobStatus("job", Json::Obj({{"startTime", FormatTime(cluster.now())}}));
  const Json workload = cluster.WorkloadOf("team-a", "job");
  cluster.PatchSpec(Kind::kWorkload, testing::KeyOf(workload), Json::Obj({{"active", false}}));
  cluster.Run(4s);
  const Json job = cluster.Job("team-a", "job");
  EXPECT_TRUE(job["spec"]["suspend"].AsBool());
  EXPECT_TRUE(job["status"]["startTime"].IsNull());
  EXPECT_FALSE(job["spec"]["template"]["spec"].Has("nodeSelector")) << job.Dump();
  EXPECT_EQ(cluster.Condition(cluster.WorkloadOf("team-a", "job"), "QuotaReserved"), "False");
}

TEST(CorePartsTest, AJobWaitsForThePrebuiltWorkloadThatItNamesAndTakesItOver) {
  Parts parts;
  Cluster& cluster = parts.cluster;
  cluster.Submit({.name = "job",
                  .runs_for = 1s,
                  .labels = {{std::string(names::kPrebuiltWorkload), "theirs"}}});
  cluster.Run(2s);
  EXPECT_TRUE(cluster.server().List(ResourceOf(Kind::kWorkload)).empty());
  EXPECT_TRUE(cluster.Suspended("team-a", "job"));
  EXPECT_EQ(cluster.events().back().reason, "PrebuiltWorkloadNotFound");

  parts.MakeWorkload("theirs", "job");
  EXPECT_TRUE(cluster.RunUntilDone(10s));
  cluster.Run(1s);
  ASSERT_EQ(cluster.server().List(ResourceOf(Kind::kWorkload)).size(), 1U);
  const Json workload = parts.Get(Kind::kWorkload, "theirs");
  EXPECT_EQ(testing::JobUidOf(workload),
            cluster.Job("team-a", "job")["metadata"]["uid"].AsString());
  EXPECT_EQ(cluster.Condition(workload, "Finished", "reason"), "Succeeded");
}

TEST(CorePartsTest, APrebuiltWorkloadThatDescribesSomethingElseEndsOutOfSync) {
  Parts parts;
  Cluster& cluster = parts.cluster;
  cluster.Submit({.name = "job", .annotations = {{std::string(names::kPrebuiltWorkload), "odd"}}});
  parts.MakeWorkload("odd", "job", /*count=*/3);
  cluster.Run(3s);
  EXPECT_EQ(cluster.Condition(parts.Get(Kind::kWorkload, "odd"), "Finished", "reason"),
            "OutOfSync");
  EXPECT_TRUE(cluster.Suspended("team-a", "job"));
  EXPECT_EQ(cluster.core().engine().Report("cq").reserving, 0);
}

TEST(CorePartsTest, TwoJobsThatNameOnePrebuiltWorkloadDoNotShareIt) {
  Parts parts;
  Cluster& cluster = parts.cluster;
  const api::StringMap label = {{std::string(names::kPrebuiltWorkload), "one"}};
  cluster.Submit({.name = "first", .runs_for = 600s, .labels = label});
  cluster.Tick();
  cluster.Submit({.name = "second", .runs_for = 600s, .labels = label});
  cluster.Tick();
  parts.MakeWorkload("one", "first");
  cluster.Run(3s);
  EXPECT_FALSE(cluster.Suspended("team-a", "first"));
  EXPECT_TRUE(cluster.Suspended("team-a", "second"));
  EXPECT_EQ(cluster.server().List(ResourceOf(Kind::kWorkload)).size(), 1U);
}

TEST(CorePartsTest, WithTheGateOffAnAnnotationNamesNoWorkload) {
  Options options = TestOptions();
  options.prebuilt_by_annotation = false;
  Parts parts(options);
  Cluster& cluster = parts.cluster;
  cluster.Submit({.name = "job",
                  .runs_for = 1s,
                  .annotations = {{std::string(names::kPrebuiltWorkload), "theirs"}}});
  EXPECT_TRUE(cluster.RunUntilDone(10s));
}

TEST(CorePartsTest, ThePriorityOfARunningJobFollowsItsClassAndItsLabel) {
  Parts parts;
  Cluster& cluster = parts.cluster;
  parts.AddClass("high", 1000);
  parts.AddClass("low", 10);
  cluster.Submit({.name = "job", .runs_for = 600s, .priority_class = "high"});
  cluster.Run(2s);
  ASSERT_FALSE(cluster.Suspended("team-a", "job"));
  ASSERT_TRUE(cluster.server().MergePatch(ResourceOf(Kind::kWorkloadPriorityClass), {"", "high"},
                                          Json::Obj({{"value", 500}})));
  cluster.Run(1s);
  EXPECT_EQ(cluster.WorkloadOf("team-a", "job")["spec"]["priority"].AsInt(), 500);
  ASSERT_TRUE(cluster.server().MergePatch(
      ResourceOf(Kind::kJob), {"team-a", "job"},
      Json::Obj({{"metadata",
                  Json::Obj({{"labels",
                              Json::Obj({{std::string(names::kPriorityClassLabel), "low"}})}})}})));
  cluster.Run(1s);
  const Json workload = cluster.WorkloadOf("team-a", "job");
  EXPECT_EQ(workload["spec"]["priority"].AsInt(), 10);
  EXPECT_EQ(workload["spec"]["priorityClassRef"]["name"].AsString(), "low");
  EXPECT_FALSE(cluster.Suspended("team-a", "job"));
}

TEST(CorePartsTest, AWaitingJobThatMayRunInPartFromNowOnStartsInPart) {
  Parts parts;
  Cluster& cluster = parts.cluster;
  cluster.Submit({.name = "wide", .pods = 6, .runs_for = 600s});
  cluster.Run(1s);
  ASSERT_TRUE(cluster.Suspended("team-a", "wide"));
  ASSERT_TRUE(cluster.server().MergePatch(
      ResourceOf(Kind::kJob), {"team-a", "wide"},
      Json::Obj(
          {{"metadata",
            Json::Obj({{"annotations",
                        Json::Obj({{std::string(names::kMinParallelismAnnotation), "1"}})}})}})));
  cluster.Run(2s);
  EXPECT_FALSE(cluster.Suspended("team-a", "wide"));
  EXPECT_EQ(cluster.Job("team-a", "wide")["spec"]["parallelism"].AsInt(), 4);
}

TEST(CorePartsTest, TheWorkloadOfADeletedJobIsLetGoBeforeAnybodyDeletesIt) {
  Parts parts;
  Cluster& cluster = parts.cluster;
  cluster.SetJobController(false);
  cluster.Submit({.name = "job"});
  cluster.Run(1s);
  const api::ObjectKey key = testing::KeyOf(cluster.WorkloadOf("team-a", "job"));
  cluster.SetGarbageCollector(false);
  ASSERT_TRUE(cluster.server().Delete(ResourceOf(Kind::kJob), {"team-a", "job"}));
  cluster.Run(1s);
  const Json workload = parts.Get(Kind::kWorkload, key.name);
  ASSERT_FALSE(workload.IsNull());
  EXPECT_TRUE(workload["metadata"]["finalizers"].AsArray().empty());
  EXPECT_EQ(cluster.core().engine().Report("cq").reserving, 0);
}

TEST(CorePartsTest, TolerationsOfAFlavorDoNotBecomeTheJobsOwnWhenItsReservationIsWithdrawn) {
  Parts parts;
  Cluster& cluster = parts.cluster;
  cluster.PatchSpec(
      Kind::kResourceFlavor, {"", "default"},
      Json::Obj(
          {{"tolerations", Json::Arr({Json::Obj({{"key", "spot"}, {"operator", "Exists"}})})}}));
  cluster.Submit({.name = "job", .runs_for = 600s});
  cluster.Run(2s);
  const auto tolerations = [&] {
    return cluster.Job("team-a", "job")["spec"]["template"]["spec"]["tolerations"].AsArray().size();
  };
  ASSERT_FALSE(cluster.Suspended("team-a", "job"));
  ASSERT_EQ(tolerations(), 1U);
  ASSERT_TRUE(cluster.server().Delete(ResourceOf(Kind::kLocalQueue), {"team-a", "main"}));
  parts.SetStatus(
      cluster.WorkloadOf("team-a", "job"),
      Json::Obj(
          {{"admission", Json()},
           {"conditions", Json::Arr({Parts::Condition("QuotaReserved", "False", "Pending")})}}));
  cluster.Run(5s);
  EXPECT_TRUE(cluster.Suspended("team-a", "job"));
  EXPECT_EQ(tolerations(), 0U);
  const Json recorded = cluster.WorkloadOf("team-a", "job")["spec"]["podSets"].AsArray()[0];
  EXPECT_FALSE(recorded["template"]["spec"].Has("tolerations")) << recorded.Dump();
}

TEST(CorePartsTest, AWorkloadWithoutAnOwnerEndsWhileItsJobIsStillBeingDeleted) {
  Parts parts;
  Cluster& cluster = parts.cluster;
  cluster.SetJobController(false);
  cluster.SetGarbageCollector(false);
  cluster.Submit({.name = "job"});
  cluster.Run(1s);
  const api::ObjectKey key = testing::KeyOf(cluster.WorkloadOf("team-a", "job"));
  ASSERT_TRUE(cluster.server().MergePatch(
      ResourceOf(Kind::kWorkload), key,
      Json::Obj({{"metadata", Json::Obj({{"ownerReferences", Json()}})}})));
  ASSERT_TRUE(cluster.server().MergePatch(
      ResourceOf(Kind::kJob), {"team-a", "job"},
      Json::Obj({{"metadata", Json::Obj({{"finalizers", Json::Arr({"orphan"})}})}})));
  ASSERT_TRUE(cluster.server().Delete(ResourceOf(Kind::kJob), {"team-a", "job"}));
  cluster.Run(2s);
  EXPECT_EQ(cluster.Condition(parts.Get(Kind::kWorkload, key.name), "Finished", "reason"),
            "OwnerNotFound");
  EXPECT_EQ(cluster.core().engine().Report("cq").reserving, 0);
}

TEST(CorePartsTest, ACheckOfKueuesControllersIsToldOnceThatNobodyIsThere) {
  Parts parts;
  Cluster& cluster = parts.cluster;
  ASSERT_TRUE(cluster.server().Create(
      ResourceOf(Kind::kAdmissionCheck),
      Json::Obj({{"metadata", Json::Obj({{"name", "multi"}})},
                 {"spec", Json::Obj({{"controllerName", "kueue.x-k8s.io/multikueue"}})}})));
  cluster.Run(3s);
  EXPECT_EQ(cluster.Condition(parts.Get(Kind::kAdmissionCheck, "multi"), "Active"), "False");
  // Somebody brings a controller.
  ASSERT_TRUE(cluster.server().MergePatch(
      ResourceOf(Kind::kAdmissionCheck), {"", "multi"},
      Json::Obj({{"status", Json::Obj({{"conditions", Json::Arr({Parts::Condition("Active", "True",
                                                                                  "Theirs")})}})}}),
      "status"));
  cluster.Run(5s);
  EXPECT_EQ(cluster.Condition(parts.Get(Kind::kAdmissionCheck, "multi"), "Active"), "True");
}

TEST(CorePartsTest, AJobThatAManagedJobHasMadeRunsOnlyWhileThatOneIsAdmitted) {
  Parts parts;
  Cluster& cluster = parts.cluster;
  cluster.SetJobController(false);
  cluster.Submit({.name = "parent", .cpu_milli = 5000});
  cluster.Submit({.name = "child", .queue = ""});
  const Json parent = cluster.Job("team-a", "parent");
  const auto own = [&] {
    ASSERT_TRUE(cluster.server().MergePatch(
        ResourceOf(Kind::kJob), {"team-a", "child"},
        Json::Obj(
            {{"metadata", Json::Obj({{"ownerReferences",
                                      Json::Arr({Json::Obj({{"apiVersion", "batch/v1"},
                                                            {"kind", "Job"},
                                                            {"name", "parent"},
                                                            {"uid", parent["metadata"]["uid"]},
                                                            {"controller", true}})})}})}})));
  };
  own();
  cluster.Run(1s);
  EXPECT_TRUE(cluster.Suspended("team-a", "child"));
  EXPECT_EQ(cluster.server().List(ResourceOf(Kind::kWorkload)).size(), 1U);
  // With quota for the parent nobody stops the child any more.
  cluster.SetQuota("cq", "cpu", "8");
  cluster.Run(2s);
  ASSERT_FALSE(cluster.Suspended("team-a", "parent"));
  cluster.PatchSpec(Kind::kJob, {"team-a", "child"}, Json::Obj({{"suspend", false}}));
  cluster.Run(2s);
  EXPECT_FALSE(cluster.Suspended("team-a", "child"));
}

TEST(CorePartsTest, AJobWhosePriorityFallsGivesWayToOneThatWaitsAlready) {
  Parts parts;
  Cluster& cluster = parts.cluster;
  ASSERT_TRUE(cluster.server().MergePatch(
      ResourceOf(Kind::kClusterQueue), {"", "cq"},
      Json::Obj({{"spec", Json::Obj({{"preemption",
                                      Json::Obj({{"withinClusterQueue", "LowerPriority"}})}})}})));
  parts.AddClass("high", 1000);
  parts.AddClass("low", 10);
  cluster.Submit({.name = "job", .runs_for = 600s, .priority_class = "high"});
  cluster.Run(1s);
  cluster.Submit({.name = "next", .cpu_milli = 4000, .runs_for = 600s, .priority_class = "high"});
  cluster.Run(3s);
  ASSERT_TRUE(cluster.Suspended("team-a", "next"));
  ASSERT_TRUE(cluster.server().MergePatch(
      ResourceOf(Kind::kJob), {"team-a", "job"},
      Json::Obj({{"metadata",
                  Json::Obj({{"labels",
                              Json::Obj({{std::string(names::kPriorityClassLabel), "low"}})}})}})));
  cluster.Run(5s);
  EXPECT_TRUE(cluster.Suspended("team-a", "job"));
  EXPECT_FALSE(cluster.Suspended("team-a", "next"));
  EXPECT_EQ(cluster.Observed("kueue_workload_eviction_latency_seconds"), 1);
}

TEST(CorePartsTest, ChangingTheTimeLimitOfASuspendedJobChangesItsWorkload) {
  Parts parts;
  Cluster& cluster = parts.cluster;
  cluster.Submit(
      {.name = "wide", .pods = 5, .labels = {{std::string(names::kMaxExecTimeLabel), "60"}}});
  cluster.Run(1s);
  EXPECT_EQ(cluster.WorkloadOf("team-a", "wide")["spec"]["maximumExecutionTimeSeconds"].AsInt(),
            60);
  ASSERT_TRUE(cluster.server().MergePatch(
      ResourceOf(Kind::kJob), {"team-a", "wide"},
      Json::Obj({{"metadata",
                  Json::Obj({{"labels",
                              Json::Obj({{std::string(names::kMaxExecTimeLabel), "90"}})}})}})));
  cluster.Run(1s);
  EXPECT_EQ(cluster.WorkloadOf("team-a", "wide")["spec"]["maximumExecutionTimeSeconds"].AsInt(),
            90);
}

}  // namespace
}  // namespace tutti::reconciler
