// SPDX-License-Identifier: Apache-2.0
#include "reconciler/slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/names.h"
#include "reconciler/batch_job.h"
#include "reconciler/names.h"

namespace tutti::reconciler {
namespace {

using ::testing::ElementsAre;

// A Workload created at second `at`; `state`: "" pending, "R" with quota, "E" evicted.
api::Workload Slice(const std::string& name, int at, const std::string& state,
                    const std::string& replaces = "") {
  api::Workload workload;
  workload.meta.name = name;
  workload.meta.ns = "team-a";
  workload.meta.uid = "uid-" + name;
  workload.meta.created = kNoTime + std::chrono::seconds(1000 + at);
  if (!replaces.empty()) {
    workload.meta.annotations[std::string(names::kSliceReplacementAnnotation)] =
        "team-a/" + replaces;
  }
  if (state.find('R') != std::string::npos) {
    workload.status.admission = api::Admission{};
    workload.status.conditions.push_back(
        {"QuotaReserved", "True", "QuotaReserved", "", kNoTime, 0});
  }
  if (state.find('E') != std::string::npos) {
    workload.status.conditions.push_back({"Evicted", "True", "Preempted", "", kNoTime, 0});
  }
  return workload;
}

// "head next" of these Workloads, in both orders in which they may be looked at.
std::string Choose(const std::vector<api::Workload>& workloads) {
  std::vector<const api::Workload*> live;
  for (const api::Workload& workload : workloads) {
    live.push_back(&workload);
  }
  const auto text = [](const Slices& slices) {
    return (slices.head != nullptr ? slices.head->meta.name : "-") + " " +
           (slices.next != nullptr ? slices.next->meta.name : "-");
  };
  const std::string forth = text(ChooseSlices(live));
  const std::string back = text(ChooseSlices({live.rbegin(), live.rend()}));
  return forth == back ? forth : forth + " or " + back;
}

TEST(SlicesTest, TheHeadHasQuotaAndTheNextOneWaitsForItsPlace) {
  EXPECT_EQ(Choose({}), "- -");
  EXPECT_EQ(Choose({Slice("a", 1, "")}), "a -");
  EXPECT_EQ(Choose({Slice("a", 1, "R")}), "a -");
  EXPECT_EQ(Choose({Slice("a", 1, "R"), Slice("b", 2, "", "a")}), "a b");
  EXPECT_EQ(Choose({Slice("a", 1, "R"), Slice("b", 2, "E", "a")}), "a b");
  EXPECT_EQ(Choose({Slice("a", 1, "R"), Slice("b", 2, "R", "a")}), "b -");
  EXPECT_EQ(Choose({Slice("a", 1, "R"), Slice("b", 2, "R", "a"), Slice("c", 3, "", "b")}), "b c");
  EXPECT_EQ(Choose({Slice("a", 1, "R"), Slice("b", 2, "", "elsewhere")}), "a -");
}

TEST(SlicesTest, OneThatIsBeingEvictedKeepsTheJobUntilItIsStopped) {
  EXPECT_EQ(Choose({Slice("a", 1, "RE"), Slice("b", 2, "", "a")}), "a b");
  EXPECT_EQ(Choose({Slice("a", 1, "RE"), Slice("b", 2, "R", "a")}), "b -");
  EXPECT_EQ(Choose({Slice("a", 1, "E"), Slice("b", 2, "", "a")}), "b -");
  EXPECT_EQ(Choose({Slice("a", 1, "E"), Slice("b", 2, "E", "a")}), "b -");
}

// kueue#12965, #11200: creation is known to the second only.
TEST(SlicesTest, OfThreeSlicesOfOneSecondTheLastOneWins) {
  EXPECT_EQ(Choose({Slice("c", 1, "R"), Slice("b", 1, "R", "c"), Slice("a", 1, "R", "b")}), "a -");
  EXPECT_EQ(Choose({Slice("c", 1, ""), Slice("b", 1, "", "c"), Slice("a", 1, "", "b")}), "a -");
  EXPECT_EQ(Choose({Slice("a", 1, "R", "b"), Slice("b", 1, "R", "a")}), "b a") << "a circle";
}

TEST(SlicesTest, ASliceIsMadeWithTheTemplateByWhichThePodsRun) {
  api::Workload first = Slice("first", 1, "");
  first.pod_sets.push_back({"main", 2, std::nullopt, R"({"spec":{"containers":[]}})", Json()});
  MakeSlice(first, nullptr);
  EXPECT_TRUE(IsSlice(first));
  EXPECT_EQ(SliceName(first), "first");
  EXPECT_FALSE(ReplacedKey(first).has_value());

  api::Workload second = Slice("second", 2, "");
  second.pod_sets.push_back(
      {"main", 3, std::nullopt, R"({"spec":{"nodeSelector":{"flavor":"x"}}})", Json()});
  MakeSlice(second, &first);
  EXPECT_EQ(SliceName(second), "first");
  EXPECT_EQ(ReplacedKey(second), first.meta.Key());
  EXPECT_EQ(second.pod_sets.front().count, 3);
  EXPECT_EQ(*Json::Parse(second.pod_sets.front().template_json),
            *Json::Parse(R"({"spec":{"containers":[]},"metadata":{"annotations":)"
                         R"({"kueue.x-k8s.io/workload-slice-name":"first"}}})"));
}

PodPtr MakePod(const std::string& name, const std::string& state) {
  Json pod =
      *Json::Parse(R"({"metadata":{"uid":"u","namespace":"team-a",)"
                   R"("labels":{"kueue.x-k8s.io/podset":"main"}},"spec":{"containers":[]}})");
  pod.At("metadata").Set("name", name);
  if (state == "held") {
    pod.At("spec").Set("schedulingGates",
                       *Json::Parse(R"([{"name":"kueue.x-k8s.io/elastic-job"},{"name":"x/y"}])"));
    pod.At("spec").Set("nodeSelector", *Json::Parse(R"({"zone":"a"})"));
  } else if (state == "done") {
    pod.Set("status", *Json::Parse(R"({"phase":"Succeeded"})"));
  } else if (state == "leaving") {
    pod.At("metadata").Set("deletionTimestamp", "2026-01-01T00:00:00Z");
    pod.At("spec").Set("nodeName", "n1");
  }
  auto decoded = WatchedPodFromJson(pod);
  EXPECT_TRUE(decoded);
  return std::make_shared<const WatchedPod>(*decoded);
}

std::vector<std::string> LetGo(const std::vector<PodPtr>& pods, int32_t granted) {
  std::vector<std::string> names;
  for (const PodPtr& pod : PodsToLetGo(pods, {{"main", granted}})) {
    names.push_back(pod->meta.name);
  }
  return names;
}

// kueue#11977, #13121.
TEST(SlicesTest, AsManyPodsRunAsThereIsQuotaFor) {
  const std::vector<PodPtr> pods = {MakePod("e", "held"), MakePod("d", "held"),
                                    MakePod("c", "runs"), MakePod("b", "done"),
                                    MakePod("a", "leaving")};
  EXPECT_THAT(LetGo(pods, 2), ElementsAre()) << "one runs, one is on its way out";
  EXPECT_THAT(LetGo(pods, 3), ElementsAre("d"));
  EXPECT_THAT(LetGo(pods, 9), ElementsAre("d", "e"));
  EXPECT_TRUE(PodsToLetGo(pods, {{"other", 9}}).empty());
  EXPECT_EQ(CountStarted(pods, "main"), 1);
}

TEST(SlicesTest, APodLosesOurGateAndGetsWhatTheChecksOfItsSizeSay) {
  CheckUpdates updates;
  updates.annotations["example.com/request"] = "second";
  updates.node_selector = {{"zone", "b"}, {"pool", "new"}};
  const Json body = LetGoPatch(*MakePod("p", "held"), updates).body;
  EXPECT_EQ(body["spec"]["schedulingGates"].Dump(), R"([{"name":"x/y"}])");
  EXPECT_EQ(body["spec"]["nodeSelector"].Dump(), R"({"pool":"new"})")
      << "a selector can only be added to";
  EXPECT_EQ(body["metadata"]["annotations"].Dump(), R"({"example.com/request":"second"})");
}

std::shared_ptr<const QueuedJob> JobFrom(const std::string& annotations,
                                         const std::string& pod_spec,
                                         const std::string& spec = R"("parallelism":5)") {
  const auto json = Json::Parse(R"({"metadata":{"name":"j","namespace":"team-a","uid":"u",)"
                                R"("annotations":{)" +
                                annotations + R"(}},"spec":{)" + spec + R"(,"template":{"spec":{)" +
                                pod_spec + R"(}}}})");
  EXPECT_TRUE(json);
  auto job = BatchJobKind().Decode(*json);
  EXPECT_TRUE(job);
  return *job;
}

constexpr const char* kElastic = R"("kueue.x-k8s.io/elastic-job":"true")";
constexpr const char* kGated = R"("schedulingGates":[{"name":"kueue.x-k8s.io/elastic-job"}])";

TEST(SlicesTest, AJobIsElasticWhereItSaysSoAndCanBe) {
  EXPECT_TRUE(JobFrom(kElastic, kGated)->Elastic());
  EXPECT_FALSE(JobFrom("", kGated)->Elastic());
  EXPECT_TRUE(JobFrom("", kGated)->PodsHaveSliceGate());
  EXPECT_FALSE(JobFrom(kElastic, R"("containers":[{"name":"kueue.x-k8s.io/elastic-job"}])")
                   ->PodsHaveSliceGate());
  EXPECT_FALSE(
      JobFrom(std::string(kElastic) + R"(,"kueue.x-k8s.io/job-min-parallelism":"2")", kGated)
          ->Elastic());
  EXPECT_FALSE(JobFrom(kElastic, std::string(kGated) + R"(,"schedulingGroup":{"podGroupName":"g"})")
                   ->Elastic())
      << "the API server keeps its parallelism as it is";
}

TEST(SlicesTest, AnElasticJobHasNoGroup) {
  EXPECT_FALSE(JobFrom(kElastic, kGated)->JoinsGroups());
  EXPECT_TRUE(JobFrom("", R"("containers":[])")->JoinsGroups());
  const auto claims =
      JobFrom(std::string(kElastic) + R"(,"tutti.dev/gang-claims":"net")", kGated)->GangClaims();
  ASSERT_FALSE(claims);
  EXPECT_THAT(claims.error().message, ::testing::HasSubstr("tutti.dev/gang-claims"));
}

TEST(SlicesTest, OfASmallerSizeOnlyItsOwnPodsRemain) {
  const auto job = JobFrom(kElastic, kGated, R"("parallelism":5,"completions":20)");
  EXPECT_EQ(job->Remaining({"main", 2, std::nullopt, "{}", Json()}), 2);
  EXPECT_EQ(job->Remaining({"main", 9, std::nullopt, "{}", Json()}), 5);
}

TEST(SlicesTest, PodsBeyondTheCompletionsAreNotGivenBackFromThoseThatRun) {
  const auto json =
      Json::Parse(R"({"metadata":{"name":"j","namespace":"n","uid":"u"},"status":{"succeeded":1},)"
                  R"("spec":{"parallelism":5,"completions":3,"template":{"spec":{}}}})");
  const auto job = BatchJobKind().Decode(*json);
  ASSERT_TRUE(job);
  EXPECT_THAT((*job)->Reclaimable(), ElementsAre(std::pair<std::string, int32_t>("main", 1)));
}

TEST(SlicesTest, NamesHaveTheGenerationOfTheJobInTheirHash) {
  const std::string plain = WorkloadName("Job", "batch", "j", "u");
  EXPECT_NE(WorkloadName("Job", "batch", "j", "u", "2"), plain);
  EXPECT_NE(WorkloadName("Job", "batch", "j", "u", "2"),
            WorkloadName("Job", "batch", "j", "u", "3"));
}

}  // namespace
}  // namespace tutti::reconciler
