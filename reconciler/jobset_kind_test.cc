// SPDX-License-Identifier: Apache-2.0
#include "reconciler/jobset_kind.h"

#include <chrono>
#include <string>

#include <gtest/gtest.h>

#include "base/names.h"

namespace tutti::reconciler {
namespace {

using namespace std::chrono_literals;

constexpr const char* kTraining = R"({
  "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
  "metadata": {"name": "train", "namespace": "team", "uid": "u1", "resourceVersion": "5",
               "labels": {"kueue.x-k8s.io/queue-name": "lq"}},
  "spec": {"suspend": true, "replicatedJobs": [
    {"name": "Driver", "replicas": 1, "template": {"spec": {"template": {
      "metadata": {"annotations": {"c": "d"}}, "spec": {
      "containers": [{"name": "c", "image": "x"}]}}}}},
    {"name": "workers", "replicas": 3, "template": {"spec": {"parallelism": 4, "completions": 2,
      "template": {"metadata": {"annotations": {"a": "b",
                   "kueue.x-k8s.io/podset-preferred-topology": "rack"}},
                   "spec": {"nodeSelector": {"disk": "ssd"},
                            "containers": [{"name": "c", "image": "y"}]}}}}}]}})";

Json Parsed(const std::string& text) {
  auto parsed = Json::Parse(text);
  EXPECT_TRUE(parsed);
  return parsed ? *parsed : Json();
}

std::shared_ptr<const QueuedJob> Made(const Json& object) {
  auto job = JobSetKind().Decode(object);
  EXPECT_TRUE(job);
  return *job;
}

Json WithStatus(Json object, const std::string& status) {
  object.Set("status", Parsed(status));
  return object;
}

api::Workload Described(const QueuedJob& job) {
  auto workload = job.Describe();
  EXPECT_TRUE(workload);
  return *workload;
}

std::vector<StartInfo> Infos() {
  StartInfo driver;
  driver.pod_set = "driver";
  driver.node_selector = {{"pool", "cpu"}};
  driver.labels = {{std::string(names::kPodSetLabel), "driver"}};
  driver.preferred_nodes = {"n1"};
  StartInfo workers = driver;
  workers.pod_set = "workers";
  workers.node_selector = {{"pool", "gpu"}};
  workers.labels = {{std::string(names::kPodSetLabel), "workers"}};
  workers.group_name = driver.group_name = "g1";
  return {driver, workers};
}

TEST(JobSetKindTest, EveryReplicatedJobIsAPodSet) {
  const api::Workload workload = Described(*Made(Parsed(kTraining)));
  EXPECT_TRUE(workload.meta.name.starts_with("jobset-train-"));
  EXPECT_EQ(workload.queue_name, "lq");
  ASSERT_EQ(workload.pod_sets.size(), 2U);
  EXPECT_EQ(workload.pod_sets[0].name, "driver");
  EXPECT_EQ(workload.pod_sets[0].count, 1);
  EXPECT_EQ(workload.pod_sets[1].name, "workers");
  EXPECT_EQ(workload.pod_sets[1].count, 6) << "3 Jobs of 2 pods: completions count";
  EXPECT_EQ(workload.pod_sets[1].topology_request["preferred"].AsString(), "rack");
  EXPECT_EQ(workload.pod_sets[1].topology_request["subGroupCount"].AsInt(), 3);
}

TEST(JobSetKindTest, AStartAddsWhatAJobSetLetsBeChangedAndARestoreTakesItOff) {
  const Json submitted = Parsed(kTraining);
  const auto job = Made(submitted);
  const api::Workload workload = Described(*job);
  const auto start = job->Start(workload, Infos());
  ASSERT_TRUE(start);
  ASSERT_EQ(start->size(), 1U);
  EXPECT_EQ(start->front().body["metadata"]["resourceVersion"].AsString(), "5");
  Json started = submitted;
  ApplyMergePatch(started, start->front().body);
  EXPECT_FALSE(started["spec"]["suspend"].AsBool(true));
  const Json& workers =
      started["spec"]["replicatedJobs"].AsArray()[1]["template"]["spec"]["template"];
  EXPECT_EQ(workers["spec"]["nodeSelector"], Json::Obj({{"disk", "ssd"}, {"pool", "gpu"}}));
  EXPECT_EQ(workers["metadata"]["labels"][names::kPodGroupLabel].AsString(), "g1");
  EXPECT_FALSE(workers["spec"].Has("affinity")) << "immutable in a JobSet";
  EXPECT_EQ(workers["metadata"]["annotations"]["a"].AsString(), "b");

  started.At("spec").Set("suspend", true);
  const auto running = Made(started);
  EXPECT_TRUE(running->HasLeftovers());
  EXPECT_EQ(running->GroupLabel(), "g1");
  const auto restore = running->Restore(workload);
  ASSERT_EQ(restore.size(), 1U);
  ApplyMergePatch(started, restore.front().body);
  EXPECT_FALSE(Made(started)->HasLeftovers());
  EXPECT_EQ(
      started["spec"]["replicatedJobs"].AsArray()[1]["template"]["spec"]["template"]["spec"],
      submitted["spec"]["replicatedJobs"].AsArray()[1]["template"]["spec"]["template"]["spec"]);
  EXPECT_TRUE(Made(submitted)->Restore(workload).empty()) << "nothing to take off";
}

TEST(JobSetKindTest, OneWriteSuspendsItAndPutsItsTemplatesBack) {
  const Json submitted = Parsed(kTraining);
  const auto job = Made(submitted);
  const api::Workload workload = Described(*job);
  const auto start = job->Start(workload, Infos());
  ASSERT_TRUE(start);
  Json object = submitted;
  ApplyMergePatch(object, start->front().body);
  StopReason why;
  why.started_as = &workload;
  const auto stop = Made(object)->Stop(why);
  ASSERT_EQ(stop.size(), 1U);
  ApplyMergePatch(object, stop.front().body);
  EXPECT_EQ(object["spec"].DumpSorted(), submitted["spec"].DumpSorted());
}

TEST(JobSetKindTest, AContradictionOfTemplateAndFlavorNamesTheField) {
  const auto job = Made(Parsed(kTraining));
  std::vector<StartInfo> infos = Infos();
  infos[1].node_selector = {{"disk", "hdd"}};
  const auto start = job->Start(Described(*job), infos);
  ASSERT_FALSE(start);
  EXPECT_NE(start.error().message.find("spec.replicatedJobs[1].template.spec.template"),
            std::string::npos)
      << start.error().message;
}

TEST(JobSetKindTest, ItIsStoppedWhenItsControllerHasSeenThatAndNothingRuns) {
  const Json object = Parsed(kTraining);
  EXPECT_TRUE(Made(object)->Stopped(kNoTime)) << "never started";
  EXPECT_FALSE(Made(WithStatus(object, R"({"conditions":[
      {"type":"Suspended","status":"False"}]})"))
                   ->Stopped(kNoTime));
  EXPECT_FALSE(Made(WithStatus(object, R"({"replicatedJobsStatus":[
      {"name":"workers","active":1}],"conditions":[{"type":"Suspended","status":"True"}]})"))
                   ->Stopped(kNoTime));
  EXPECT_TRUE(Made(WithStatus(object, R"({"replicatedJobsStatus":[
      {"name":"workers","active":0}],"conditions":[{"type":"Suspended","status":"True"}]})"))
                  ->Stopped(kNoTime));
}

TEST(JobSetKindTest, JobsThatHaveSucceededGiveTheirQuotaBack) {
  const auto job = Made(WithStatus(Parsed(kTraining), R"({"replicatedJobsStatus":[
      {"name":"Driver","ready":1},{"name":"workers","ready":2,"succeeded":1}]})"));
  const api::Workload workload = Described(*job);
  EXPECT_EQ(job->Reclaimable(), (std::vector<std::pair<std::string, int32_t>>{{"workers", 2}}));
  EXPECT_EQ(job->Remaining(workload.pod_sets[0]), 1);
  EXPECT_EQ(job->Remaining(workload.pod_sets[1]), 4);
  EXPECT_TRUE(job->PodsReady({}));
}

TEST(JobSetKindTest, WhatStartsInOrderIsNoGang) {
  Json object = Parsed(kTraining);
  EXPECT_TRUE(Made(object)->JoinsGroups());
  EXPECT_TRUE(Made(object)->WatchesLanding());
  object.At("spec").Set("startupPolicy", Json::Obj({{"startupPolicyOrder", "InOrder"}}));
  EXPECT_FALSE(Made(object)->JoinsGroups());
  EXPECT_FALSE(Made(object)->WatchesLanding());
  Json waits = Parsed(kTraining);
  waits.At("spec")
      .At("replicatedJobs")
      .MutableArray()[1]
      .Set("dependsOn", Json::Arr({Json::Obj({{"name", "Driver"}, {"status", "Ready"}})}));
  EXPECT_FALSE(Made(waits)->JoinsGroups());
}

TEST(JobSetKindTest, AChangeOfItsSizeIsAnotherJob) {
  const Json object = Parsed(kTraining);
  const api::Workload workload = Described(*Made(object));
  EXPECT_TRUE(Made(object)->Matches(workload));
  Json more = object;
  more.At("spec").At("replicatedJobs").MutableArray()[1].Set("replicas", 4);
  EXPECT_FALSE(Made(more)->Matches(workload));
}

TEST(JobSetKindTest, WithoutItsQuotaItIsTheSameJobUntilItIsRestored) {
  const Json object = Parsed(kTraining);
  const auto job = Made(object);
  const api::Workload workload = Described(*job);
  ASSERT_FALSE(workload.QuotaReserved());
  std::vector<StartInfo> infos = Infos();
  infos[1].tolerations = {{"spot", "Exists", "", "NoSchedule", std::nullopt}};
  const auto start = job->Start(workload, infos);
  ASSERT_TRUE(start);
  Json started = object;
  ApplyMergePatch(started, start->front().body);
  EXPECT_TRUE(Made(started)->Matches(workload));
}

TEST(JobSetKindTest, EndsAndOwners) {
  bool success = false;
  std::string message;
  EXPECT_FALSE(Made(Parsed(kTraining))->Finished(&success, &message));
  EXPECT_TRUE(Made(WithStatus(Parsed(kTraining), R"({"conditions":[
      {"type":"Failed","status":"True","message":"too many restarts"}]})"))
                  ->Finished(&success, &message));
  EXPECT_FALSE(success);
  EXPECT_EQ(message, "too many restarts");
  Json foreign = Parsed(kTraining);
  foreign.At("spec").Set("managedBy", "kueue.x-k8s.io/multikueue");
  EXPECT_FALSE(Made(foreign)->MayBeQueued());
}

TEST(JobSetKindTest, APodBelongsToTheJobSetThatItsLabelsName) {
  const auto pod = WatchedPodFromJson(Parsed(R"({"metadata":{"name":"p","namespace":"team",
      "labels":{"jobset.sigs.k8s.io/jobset-uid":"u1",
                "jobset.sigs.k8s.io/replicatedjob-name":"Driver"},
      "ownerReferences":[{"apiVersion":"batch/v1","kind":"Job","name":"j","uid":"u2",
                          "controller":true}]},
      "spec":{"containers":[{"name":"c"}]}})"));
  ASSERT_TRUE(pod);
  const auto member = JobSetKind().MemberOf(*pod);
  ASSERT_TRUE(member.has_value());
  EXPECT_EQ(member->job_uid, "u1");
  EXPECT_EQ(member->pod_set, "driver");
}

}  // namespace
}  // namespace tutti::reconciler
