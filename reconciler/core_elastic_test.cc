// SPDX-License-Identifier: Apache-2.0
// Jobs that change their size while they run, against the in-memory cluster.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/names.h"
#include "base/slice_names.h"
#include "reconciler/core.h"
#include "reconciler/testing/cluster.h"

namespace tutti::reconciler {
namespace {

using namespace std::chrono_literals;
using api::Kind;
using api::ResourceOf;
using testing::Cluster;
using testing::JobSpec;

Options TestOptions() {
  Options options;
  options.gang_api = GangApi::kV1Alpha2;
  options.managed_namespaces.present = true;
  return options;
}

// Two nodes of 8 cpu, quota of 4 cpu, one cpu per pod.
class CoreElasticTest : public ::testing::Test {
 protected:
  void Start(Options options = TestOptions()) {
    cluster_ = std::make_unique<Cluster>(std::move(options));
    cluster().AddNamespace("team-a");
    cluster().AddFlavor("default");
    cluster().AddNode("n1", 8);
    cluster().AddNode("n2", 8);
    cluster().AddQueue("cq", "team-a", {{"cpu", "4"}});
    cluster().PatchSpec(
        Kind::kClusterQueue, {"", "cq"},
        Json::Obj({{"preemption", Json::Obj({{"withinClusterQueue", "LowerPriority"}})}}));
    for (const auto& [name, value] : {std::pair("low", 1), std::pair("high", 100)}) {
      ASSERT_TRUE(cluster().server().Create(
          ResourceOf(Kind::kWorkloadPriorityClass),
          Json::Obj({{"metadata", Json::Obj({{"name", name}})}, {"value", value}})));
    }
    cluster().Tick();
  }
  Cluster& cluster() { return *cluster_; }

  void Submit(const std::string& name, int pods, const std::string& priority = "") {
    cluster().Submit({.name = name,
                      .pods = pods,
                      .runs_for = 1h,
                      .priority_class = priority,
                      .completions = 100,
                      .annotations = {{std::string(names::kElasticJobAnnotation), "true"}}});
    cluster().Run(3s);
  }
  void Scale(const std::string& name, int pods, Duration then = 3s) {
    cluster().PatchSpec(Kind::kJob, {"team-a", name}, Json::Obj({{"parallelism", pods}}));
    cluster().Run(then);
    EXPECT_EQ(cluster().Check(), "");
  }
  // Its Workloads by age: pods, and p(ending), r(eserved), a(dmitted) or f(inished).
  std::vector<std::string> Slices(const std::string& job) {
    const std::string uid = cluster().Job("team-a", job)["metadata"]["uid"].AsString();
    std::vector<std::pair<std::string, Json>> found;
    for (const Json& workload : cluster().server().List(ResourceOf(Kind::kWorkload))) {
      if (workload["metadata"]["labels"][names::kJobUidLabel].AsString() == uid) {
        // The in-memory server counts its objects: UIDs grow.
        found.emplace_back(workload["metadata"]["uid"].AsString(), workload);
      }
    }
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
      return std::pair(a.first.size(), a.first) < std::pair(b.first.size(), b.first);
    });
    std::vector<std::string> out;
    for (const auto& [order, workload] : found) {
      const auto is = [&, &w = workload](const char* type) {
        return cluster().Condition(w, type) == "True";
      };
      out.push_back(std::to_string(workload["spec"]["podSets"].AsArray()[0]["count"].AsInt()) +
                    (is("Finished")        ? "f"
                     : is("Admitted")      ? "a"
                     : is("QuotaReserved") ? "r"
                                           : "p"));
    }
    return out;
  }
  using List = std::vector<std::string>;
  Json Live(const std::string& job) {
    const std::string uid = cluster().Job("team-a", job)["metadata"]["uid"].AsString();
    for (const Json& workload : cluster().server().List(ResourceOf(Kind::kWorkload))) {
      if (workload["metadata"]["labels"][names::kJobUidLabel].AsString() == uid &&
          cluster().Condition(workload, "Finished") != "True" &&
          cluster().Condition(workload, "QuotaReserved") == "True") {
        return workload;
      }
    }
    return {};
  }
  // Pods that run, and pods that wait by the gate.
  std::pair<int, int> Pods(const std::string& job) {
    std::pair<int, int> counts;
    for (const Json& pod : cluster().PodsOf("team-a", job)) {
      if (pod["metadata"]["deletionTimestamp"].IsNull() &&
          pod["status"]["phase"].AsString() == "Pending") {
        const bool held = !pod["spec"]["schedulingGates"].AsArray().empty();
        counts.first += held ? 0 : 1;
        counts.second += held ? 1 : 0;
      }
    }
    return counts;
  }
  int64_t Used() {
    int64_t used = 0;
    for (const engine::FlavorUsage& usage : cluster().core().engine().Report("cq").usage) {
      used += usage.reserved / 1000;
    }
    return used;
  }
  void PatchStatus(const Json& object, const char* resource_kind, const char* status) {
    const api::Resource resource =
        ResourceOf(std::string(resource_kind) == "Job" ? Kind::kJob : Kind::kWorkload);
    ASSERT_TRUE(cluster().server().MergePatch(
        resource,
        {object["metadata"]["namespace"].AsString(), object["metadata"]["name"].AsString()},
        Json::Obj({{"status", *Json::Parse(status)}}), "status"));
  }

 private:
  std::unique_ptr<Cluster> cluster_;
};

TEST_F(CoreElasticTest, AJobGrowsByASliceThatTakesThePlaceOfTheFirst) {
  Start();
  Submit("job", 2);
  EXPECT_EQ(Slices("job"), (List{"2a"}));
  EXPECT_EQ(Pods("job"), (std::pair{2, 0}));
  const std::string first = Live("job")["metadata"]["name"].AsString();
  Scale("job", 4);
  EXPECT_EQ(Slices("job"), (List{"2f", "4a"}));
  EXPECT_EQ(Pods("job"), (std::pair{4, 0}));
  EXPECT_EQ(Used(), 4);
  EXPECT_FALSE(cluster().Suspended("team-a", "job"));
  const Json annotations = Live("job")["metadata"]["annotations"];
  EXPECT_EQ(annotations[names::kSliceReplacementAnnotation].AsString(), "team-a/" + first);
  EXPECT_EQ(annotations[names::kSliceNameAnnotation].AsString(), first);
  EXPECT_EQ(
      cluster()
          .Job("team-a",
               "job")["spec"]["template"]["metadata"]["annotations"][names::kSliceNameAnnotation]
          .AsString(),
      first);
  EXPECT_EQ(cluster().Counted("kueue_replaced_workload_slices_total"), 1);
  EXPECT_EQ(cluster().Counted("kueue_evicted_workloads_total"), 0);
  for (const Json& workload : cluster().server().List(ResourceOf(Kind::kWorkload))) {
    EXPECT_EQ(workload["metadata"]["finalizers"].AsArray().empty(),
              workload["metadata"]["name"].AsString() == first)
        << "one that has ended can be deleted";
  }
}

// kueue#11977, #12045.
TEST_F(CoreElasticTest, PodsForWhichThereIsNoQuotaStayHeldAndTheOthersRunOn) {
  Start();
  Submit("other", 1);
  Submit("job", 2);
  Scale("job", 5);
  EXPECT_EQ(Slices("job"), (List{"2a", "5p"}));
  EXPECT_EQ(Pods("job"), (std::pair{2, 3}));
  EXPECT_EQ(Used(), 3);
  // It asks for what would fit now.
  Scale("job", 3);
  EXPECT_EQ(Slices("job"), (List{"2f", "3a"}));
  EXPECT_EQ(Pods("job"), (std::pair{3, 0}));
  EXPECT_EQ(Used(), 4);
}

// kueue#6407.
TEST_F(CoreElasticTest, AJobThatShrinksMakesRoomForOneThatWaits) {
  Start();
  Submit("job", 4);
  Submit("waiter", 2);
  EXPECT_TRUE(cluster().Suspended("team-a", "waiter"));
  Scale("job", 2);
  EXPECT_EQ(Slices("job"), (List{"2a"})) << "in place";
  EXPECT_EQ(Pods("job"), (std::pair{2, 0}));
  EXPECT_FALSE(cluster().Suspended("team-a", "waiter"));
  EXPECT_EQ(Used(), 4);
}

TEST_F(CoreElasticTest, AJobThatShrinksKeepsQuotaUntilItsPodsGo) {
  Start();
  Submit("job", 4);
  Submit("waiter", 2);
  cluster().SetJobController(false);
  Scale("job", 2, 5s);
  EXPECT_EQ(Slices("job"), (List{"2a"}));
  EXPECT_EQ(Pods("job").first, 4);
  EXPECT_EQ(Used(), 4);
  EXPECT_TRUE(cluster().Suspended("team-a", "waiter"));
  cluster().SetJobController(true);
  cluster().Run(3s);
  EXPECT_FALSE(cluster().Suspended("team-a", "waiter"));
  EXPECT_EQ(cluster().Check(), "");
}

// While a larger slice waits behind others the job can still give quota back.
TEST_F(CoreElasticTest, AJobThatThinksBetterOfGrowingGivesUpItsSliceAndShrinks) {
  Start();
  Submit("job", 3);
  Submit("waiter", 2);
  Scale("job", 6);
  EXPECT_EQ(Slices("job"), (List{"3a", "6p"}));
  Scale("job", 2);
  EXPECT_EQ(Slices("job"), (List{"2a", "6f"}));
  EXPECT_FALSE(cluster().Suspended("team-a", "waiter"));
  EXPECT_EQ(Used(), 4);
}

TEST_F(CoreElasticTest, BeforeItHasQuotaItsWorkloadIsChangedInPlace) {
  Start();
  Submit("first", 3);
  Submit("job", 3);
  EXPECT_EQ(Slices("job"), (List{"3p"}));
  Scale("job", 5);
  EXPECT_EQ(Slices("job"), (List{"5p"}));
  Scale("job", 1);
  EXPECT_EQ(Slices("job"), (List{"1a"}));
  EXPECT_EQ(Pods("job"), (std::pair{1, 0}));
}

// What runs has its place by the job's age, what is asked for in addition has not.
TEST_F(CoreElasticTest, GrowthStandsInLineBehindThoseThatWaitedBefore) {
  Start();
  Submit("job", 2);
  Submit("waiter", 3);
  EXPECT_TRUE(cluster().Suspended("team-a", "waiter"));
  Scale("job", 5);
  EXPECT_EQ(cluster().core().engine().PendingOrder("cq").front(),
            "team-a/" + cluster().WorkloadOf("team-a", "waiter")["metadata"]["name"].AsString());
}

// kueue#9015, #11195.
TEST_F(CoreElasticTest, ASliceWhoseAdmissionIsNotWrittenLeavesTheFirstAlone) {
  Start();
  Submit("job", 2);
  cluster().server().AddAdmission([refused = 0](const api::WriteRequest& request, std::string_view,
                                                const Json&, Json& object) mutable -> Status {
    const bool larger = request.resource.kind == "Workload" && request.subresource == "status" &&
                        object["spec"]["podSets"].AsArray()[0]["count"].AsInt() == 4 &&
                        !object["status"]["admission"].IsNull();
    return larger && refused++ < 3 ? Status(Fail(ErrorCode::kUnavailable, "not now")) : Status();
  });
  Scale("job", 4, 400ms);
  EXPECT_EQ(Slices("job").front(), "2a");
  EXPECT_EQ(Pods("job").first, 2);
  cluster().Run(5s);
  EXPECT_EQ(Slices("job"), (List{"2f", "4a"}));
  EXPECT_EQ(Used(), 4);
}

// kueue#6221, #6257; and the pods don't run on without quota.
TEST_F(CoreElasticTest, AJobThatGivesWayWhileItWantsToGrowIsStoppedAndWaitsInItsNewSize) {
  Start();
  Submit("job", 3, "low");
  Scale("job", 4, 200ms);
  Submit("urgent", 3, "high");
  cluster().Run(5s);
  EXPECT_FALSE(cluster().Suspended("team-a", "urgent"));
  EXPECT_TRUE(cluster().Suspended("team-a", "job"));
  EXPECT_EQ(Pods("job"), (std::pair{0, 0}));
  EXPECT_EQ(Used(), 3);
  EXPECT_EQ(Slices("job").back(), "4p");
  EXPECT_EQ(cluster().Check(), "");
  cluster().DeleteJob({"team-a", "urgent"});
  cluster().Run(5s);
  EXPECT_EQ(Slices("job").back(), "4a");
  EXPECT_EQ(Pods("job"), (std::pair{4, 0}));
  EXPECT_EQ(Used(), 4);
}

TEST_F(CoreElasticTest, APendingSliceOfAnEvictedJobGoesOnAlone) {
  Start();
  Submit("job", 3, "low");
  Scale("job", 6);
  ASSERT_EQ(Slices("job"), (List{"3a", "6p"}));
  Submit("urgent", 2, "high");
  cluster().Run(5s);
  EXPECT_EQ(Slices("job"), (List{"3f", "6p"}));
  EXPECT_TRUE(cluster().Suspended("team-a", "job"));
  EXPECT_EQ(cluster().Counted("kueue_finished_workloads_total"), 1);
  EXPECT_EQ(cluster().Counted("kueue_evicted_workloads_total"), 1);
  EXPECT_EQ(Used(), 2);
}

// kueue#12965, #11200.
TEST_F(CoreElasticTest, ManyChangesInOneSecondEndInTheLastOne) {
  Start();
  Submit("job", 1);
  for (const int pods : {2, 3, 1, 4, 2, 4}) {
    cluster().PatchSpec(Kind::kJob, {"team-a", "job"}, Json::Obj({{"parallelism", pods}}));
    cluster().Tick(20ms);
  }
  cluster().Run(4s);
  const List slices = Slices("job");
  EXPECT_EQ(slices.back(), "4a");
  EXPECT_EQ(std::count_if(slices.begin(), slices.end(),
                          [](const std::string& slice) { return !slice.ends_with("f"); }),
            1);
  EXPECT_EQ(Pods("job"), (std::pair{4, 0}));
  EXPECT_EQ(Used(), 4);
}

TEST_F(CoreElasticTest, ARestartAtAnyMomentFindsTheSameHead) {
  Start();
  Submit("job", 2);
  for (const int pods : {4, 1, 3}) {
    cluster().PatchSpec(Kind::kJob, {"team-a", "job"}, Json::Obj({{"parallelism", pods}}));
    for (int i = 0; i < 12; ++i) {
      cluster().Restart();
      cluster().Tick();
      ASSERT_EQ(cluster().Check(), "");
    }
    EXPECT_EQ(Slices("job").back(), std::to_string(pods) + "a");
    EXPECT_EQ(Pods("job"), (std::pair{pods, 0}));
    EXPECT_EQ(Used(), pods);
  }
  EXPECT_EQ(Slices("job"), (List{"2f", "1f", "3a"}));
  EXPECT_EQ(cluster().Counted("kueue_evicted_workloads_total"), 0);
}

// kueue#12958, #13044: reclaimablePods of the larger size would leave quota for one pod to ten.
TEST_F(CoreElasticTest, PodsGivenBackCountFromTheNewSize) {
  Options options = TestOptions();
  options.capacity = CapacityChoice::kOff;
  Start(options);
  cluster().SetQuota("cq", "cpu", "20");
  cluster().SetJobController(false);
  Submit("job", 20);
  cluster().PatchSpec(Kind::kJob, {"team-a", "job"}, Json::Obj({{"completions", 20}}));
  PatchStatus(cluster().Job("team-a", "job"), "Job", R"({"succeeded":9})");
  cluster().Run(3s);
  EXPECT_EQ(Live("job")["status"]["reclaimablePods"].AsArray()[0]["count"].AsInt(), 9);
  EXPECT_EQ(Used(), 11);
  Scale("job", 10);
  EXPECT_EQ(Slices("job"), (List{"10a"}));
  EXPECT_TRUE(Live("job")["status"]["reclaimablePods"].AsArray().empty());
  EXPECT_EQ(Used(), 10);
}

// Else there would be quota for no pod at all.
TEST_F(CoreElasticTest, PodsGivenBackBeforeAnEvictionCountFromTheSizeAfterIt) {
  Start();
  cluster().Submit({.name = "job",
                    .pods = 4,
                    .runs_for = 1h,
                    .annotations = {{std::string(names::kElasticJobAnnotation), "true"}}});
  cluster().Run(3s);
  cluster().SetJobController(false);
  PatchStatus(cluster().Job("team-a", "job"), "Job", R"({"succeeded":3})");
  cluster().Run(3s);
  ASSERT_EQ(Live("job")["status"]["reclaimablePods"].AsArray()[0]["count"].AsInt(), 3);
  PatchStatus(cluster().Job("team-a", "job"), "Job", R"({"active":0})");
  cluster().PatchSpec(Kind::kClusterQueue, {"", "cq"}, Json::Obj({{"stopPolicy", "HoldAndDrain"}}));
  cluster().Run(5s);
  Scale("job", 2);
  ASSERT_EQ(Slices("job"), (List{"2p"}));
  cluster().PatchSpec(Kind::kClusterQueue, {"", "cq"}, Json::Obj({{"stopPolicy", "None"}}));
  cluster().Run(3s);
  EXPECT_EQ(Slices("job"), (List{"2a"}));
  EXPECT_EQ(Used(), 1) << "one of its four pods is still to run";
}

TEST_F(CoreElasticTest, ADrainedQueueStopsTheJobAndItComesBackInItsChain) {
  Start();
  Submit("job", 2);
  Scale("job", 3);
  const std::string chain =
      Live("job")["metadata"]["annotations"][names::kSliceNameAnnotation].AsString();
  cluster().PatchSpec(Kind::kClusterQueue, {"", "cq"}, Json::Obj({{"stopPolicy", "HoldAndDrain"}}));
  cluster().Run(3s);
  EXPECT_TRUE(cluster().Suspended("team-a", "job"));
  EXPECT_EQ(Slices("job"), (List{"2f", "3p"}));
  Scale("job", 4);
  EXPECT_EQ(Slices("job"), (List{"2f", "4p"})) << "in place: it has no quota";
  cluster().PatchSpec(Kind::kClusterQueue, {"", "cq"}, Json::Obj({{"stopPolicy", "None"}}));
  cluster().Run(3s);
  EXPECT_EQ(Slices("job"), (List{"2f", "4a"}));
  EXPECT_EQ(Pods("job"), (std::pair{4, 0}));
  EXPECT_EQ(
      cluster()
          .Job("team-a",
               "job")["spec"]["template"]["metadata"]["annotations"][names::kSliceNameAnnotation]
          .AsString(),
      chain);
}

TEST_F(CoreElasticTest, AHeadThatItsUserDeletesStartsANewChain) {
  Start();
  Submit("job", 1);
  Scale("job", 2);
  const Json before = Live("job");
  ASSERT_TRUE(cluster().server().Delete(ResourceOf(Kind::kWorkload),
                                        {"team-a", before["metadata"]["name"].AsString()}));
  cluster().Run(5s);
  const Json now = Live("job");
  EXPECT_EQ(Slices("job"), (List{"1f", "2a"}));
  EXPECT_NE(now["metadata"]["name"].AsString(), before["metadata"]["name"].AsString());
  EXPECT_EQ(now["metadata"]["annotations"][names::kSliceNameAnnotation].AsString(),
            now["metadata"]["name"].AsString());
  EXPECT_EQ(Pods("job"), (std::pair{2, 0}));
}

TEST_F(CoreElasticTest, OneThatIsDeactivatedStaysSoWhateverItAskedFor) {
  Start();
  Submit("job", 2);
  Scale("job", 5);
  ASSERT_EQ(Slices("job"), (List{"2a", "5p"}));
  const std::string head = Live("job")["metadata"]["name"].AsString();
  cluster().PatchSpec(Kind::kWorkload, {"team-a", head}, Json::Obj({{"active", false}}));
  cluster().Run(5s);
  EXPECT_TRUE(cluster().Suspended("team-a", "job"));
  EXPECT_EQ(Slices("job"), (List{"5p", "5f"}));
  Scale("job", 3);
  EXPECT_TRUE(cluster().Suspended("team-a", "job"));
  cluster().PatchSpec(Kind::kWorkload, {"team-a", head}, Json::Obj({{"active", true}}));
  cluster().Run(5s);
  EXPECT_EQ(Slices("job"), (List{"3a", "5f"}));
  EXPECT_EQ(Pods("job"), (std::pair{3, 0}));
}

TEST_F(CoreElasticTest, ADeactivatedSliceLeavesTheJobInItsSize) {
  Start();
  Submit("job", 2);
  Scale("job", 5);
  for (const Json& workload : cluster().server().List(ResourceOf(Kind::kWorkload))) {
    if (workload["spec"]["podSets"].AsArray()[0]["count"].AsInt() == 5) {
      cluster().PatchSpec(Kind::kWorkload, {"team-a", workload["metadata"]["name"].AsString()},
                          Json::Obj({{"active", false}}));
    }
  }
  cluster().Run(3s);
  EXPECT_EQ(Slices("job"), (List{"2a", "5p"}));
  EXPECT_EQ(Pods("job"), (std::pair{2, 3}));
  EXPECT_FALSE(cluster().Suspended("team-a", "job"));
}

TEST_F(CoreElasticTest, ChecksOfTheNewSizeHoldItsPodsBackAndNoOthers) {
  Start();
  cluster().AddCheck("check");
  cluster().PatchSpec(
      Kind::kClusterQueue, {"", "cq"},
      Json::Obj({{"admissionChecksStrategy",
                  Json::Obj({{"admissionChecks", Json::Arr({Json::Obj({{"name", "check"}})})}})}}));
  cluster().Run(1s);
  Submit("job", 2);
  const auto answer = [&](const char* state) {
    const Json workload = Live("job");
    Json checks = workload["status"]["admissionChecks"];
    checks.MutableArray()[0].Set("state", state);
    ASSERT_TRUE(cluster().server().MergePatch(
        ResourceOf(Kind::kWorkload), {"team-a", workload["metadata"]["name"].AsString()},
        Json::Obj({{"status", Json::Obj({{"admissionChecks", checks}})}}), "status"));
    cluster().Run(3s);
  };
  answer("Ready");
  EXPECT_EQ(Slices("job"), (List{"2a"}));
  Scale("job", 4);
  EXPECT_EQ(Slices("job"), (List{"2f", "4r"}));
  EXPECT_EQ(Pods("job"), (std::pair{2, 2}));
  EXPECT_FALSE(cluster().Suspended("team-a", "job"));
  // A queue that takes nothing new in doesn't stop what runs.
  cluster().PatchSpec(Kind::kClusterQueue, {"", "cq"}, Json::Obj({{"stopPolicy", "Hold"}}));
  cluster().Run(3s);
  EXPECT_FALSE(cluster().Suspended("team-a", "job"));
  answer("Ready");
  EXPECT_EQ(Slices("job"), (List{"2f", "4a"}));
  EXPECT_EQ(Pods("job"), (std::pair{4, 0}));
}

TEST_F(CoreElasticTest, BothSlicesFollowThePriorityOfTheJob) {
  Start();
  Submit("job", 2, "low");
  Scale("job", 5);
  ASSERT_EQ(Slices("job"), (List{"2a", "5p"}));
  ASSERT_TRUE(cluster().server().MergePatch(
      ResourceOf(Kind::kJob), {"team-a", "job"},
      Json::Obj(
          {{"metadata", Json::Obj({{"labels", Json::Obj({{std::string(names::kPriorityClassLabel),
                                                          "high"}})}})}})));
  cluster().Run(2s);
  for (const Json& workload : cluster().server().List(ResourceOf(Kind::kWorkload))) {
    EXPECT_EQ(workload["spec"]["priority"].AsInt(), 100);
  }
}

TEST_F(CoreElasticTest, PodsThatFindNoNodeDoNotStopThoseThatRun) {
  Options options = TestOptions();
  options.capacity = CapacityChoice::kRelease;
  options.landing_timeout = 5s;
  Start(options);
  Submit("job", 2);
  cluster().Cordon("n1", true);
  cluster().Cordon("n2", true);
  Scale("job", 4, 20s);
  EXPECT_EQ(Slices("job"), (List{"2f", "4a"}));
  EXPECT_EQ(Pods("job"), (std::pair{4, 0}));
  cluster().Restart();
  cluster().Run(20s);
  EXPECT_FALSE(cluster().Suspended("team-a", "job"));
  EXPECT_EQ(cluster().Counted("kueue_evicted_workloads_total"), 0);
}

TEST_F(CoreElasticTest, PodsThatAreToComeKeepTheirPlaceOnTheNodes) {
  Start();
  cluster().SetQuota("cq", "cpu", "16");
  Submit("job", 6);
  cluster().SetScheduler(false);
  Scale("job", 12);
  ASSERT_EQ(Slices("job"), (List{"6f", "12a"}));
  Submit("other", 5);
  EXPECT_TRUE(cluster().Suspended("team-a", "other")) << "16 cpu: 6 run, 6 are to come";
  cluster().SetScheduler(true);
  Scale("job", 11);
  EXPECT_FALSE(cluster().Suspended("team-a", "other"));
}

TEST_F(CoreElasticTest, WithTheFeatureGateOffAChangeOfSizeStartsTheJobAgain) {
  Options options = TestOptions();
  options.workload_slices = false;
  Start(options);
  Submit("job", 2);
  EXPECT_EQ(Pods("job"), (std::pair{2, 0})) << "the gate in its template is taken off all the same";
  Scale("job", 4, 8s);
  EXPECT_EQ(Slices("job"), (List{"4a"}));
  EXPECT_EQ(Pods("job"), (std::pair{4, 0}));
}

TEST_F(CoreElasticTest, AJobThatEndsWhileASliceWaitsLeavesNothing) {
  Start();
  cluster().Submit({.name = "job",
                    .pods = 2,
                    .runs_for = 6s,
                    .completions = 2,
                    .annotations = {{std::string(names::kElasticJobAnnotation), "true"}}});
  cluster().Run(3s);
  cluster().PatchSpec(Kind::kJob, {"team-a", "job"},
                      Json::Obj({{"parallelism", 6}, {"completions", 6}}));
  cluster().Run(1s);
  ASSERT_EQ(Slices("job"), (List{"2a", "6p"}));
  cluster().PatchSpec(Kind::kJob, {"team-a", "job"}, Json::Obj({{"completions", 2}}));
  ASSERT_TRUE(cluster().RunUntilDone(20s));
  cluster().Run(2s);
  for (const std::string& slice : Slices("job")) {
    EXPECT_TRUE(slice.ends_with("f")) << slice;
  }
  EXPECT_EQ(Used(), 0);
  cluster().DeleteJob({"team-a", "job"});
  cluster().Run(3s);
  EXPECT_TRUE(cluster().server().List(ResourceOf(Kind::kWorkload)).empty());
  EXPECT_TRUE(cluster().core().units().empty());
}

}  // namespace
}  // namespace tutti::reconciler
