// SPDX-License-Identifier: Apache-2.0
#include "reconciler/batch_job.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/names.h"

namespace tutti::reconciler {
namespace {

Json Parse(const std::string& text) {
  auto json = Json::Parse(text);
  EXPECT_TRUE(json) << text;
  return json ? *json : Json();
}

constexpr const char* kJob = R"({
  "apiVersion": "batch/v1", "kind": "Job",
  "metadata": {"name": "train", "namespace": "team", "uid": "u-1", "resourceVersion": "7",
    "labels": {"kueue.x-k8s.io/queue-name": "main"}},
  "spec": {"suspend": true, "parallelism": 4, "completions": 4,
    "template": {
      "metadata": {"labels": {"app": "train", "job-name": "train", "controller-uid": "u-1",
        "batch.kubernetes.io/job-name": "train", "batch.kubernetes.io/controller-uid": "u-1"}},
      "spec": {"containers": [{"name": "main", "image": "x"}],
        "tolerations": [{"key": "mine", "operator": "Exists"}],
        "nodeSelector": {"disk": "ssd"},
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
          {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}]}}}}}})";

api::Job Decode(const Json& json) {
  auto job = api::JobFromJson(json);
  EXPECT_TRUE(job);
  return job ? *job : api::Job();
}

api::Workload Recorded(const api::Job& job) {
  auto workload = WorkloadFor(job, {});
  EXPECT_TRUE(workload);
  return workload ? *workload : api::Workload();
}

// The object after a merge patch, as the server would have it.
api::Job After(Json json, const api::WriteRequest& write) {
  EXPECT_EQ(write.verb, api::Verb::kMergePatch);
  ApplyMergePatch(json, write.body);
  return Decode(json);
}

StartInfo FullStart() {
  StartInfo info;
  info.group_name = "train-w-1";
  info.labels[std::string(names::kPodSetLabel)] = "main";
  info.node_selector["zone"] = "a";
  api::Toleration toleration;
  toleration.key = "flavor";
  toleration.op = "Exists";
  info.tolerations.push_back(toleration);
  info.preferred_nodes = {"n1", "n2"};
  return info;
}

TEST(JobKindTest, TheWorkloadRecordsTheTemplateWithoutWhatTheServerAdded) {
  const api::Workload workload = Recorded(Decode(Parse(kJob)));
  ASSERT_EQ(workload.pod_sets.size(), 1U);
  EXPECT_EQ(workload.pod_sets[0].count, 4);
  EXPECT_EQ(workload.queue_name, "main");
  const Json labels = Parse(workload.pod_sets[0].template_json)["metadata"]["labels"];
  EXPECT_TRUE(labels.Has("app"));
  EXPECT_FALSE(labels.Has("controller-uid"));
  EXPECT_FALSE(labels.Has("job-name"));
  EXPECT_FALSE(labels.Has("batch.kubernetes.io/controller-uid"));
  EXPECT_EQ(workload.meta.Label(names::kJobUidLabel), "u-1");
  ASSERT_EQ(workload.meta.owners.size(), 1U);
  EXPECT_TRUE(workload.meta.owners[0].controller);
}

TEST(JobKindTest, AStartAddsAndKeepsWhatTheUserHad) {
  const Json json = Parse(kJob);
  const api::Job job = Decode(json);
  const auto write = StartPatch(job, Recorded(job), FullStart());
  ASSERT_TRUE(write) << write.error().message;
  EXPECT_EQ(write->body["metadata"]["resourceVersion"].AsString(), "7");
  const api::Job started = After(json, *write);
  EXPECT_FALSE(started.suspend);
  const Json pod = Parse(started.template_json);
  EXPECT_EQ(pod["metadata"]["labels"][names::kPodGroupLabel].AsString(), "train-w-1");
  EXPECT_EQ(pod["metadata"]["labels"]["app"].AsString(), "train");
  EXPECT_EQ(pod["spec"]["nodeSelector"]["disk"].AsString(), "ssd");
  EXPECT_EQ(pod["spec"]["nodeSelector"]["zone"].AsString(), "a");
  EXPECT_EQ(pod["spec"]["tolerations"].AsArray().size(), 2U);
  const auto& terms =
      pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
          .AsArray();
  ASSERT_EQ(terms.size(), 2U);
  EXPECT_EQ(terms[0]["weight"].AsInt(), 1);
  EXPECT_EQ(terms[1]["preference"]["matchExpressions"].AsArray()[0]["values"].Dump(),
            R"(["n1","n2"])");
}

TEST(JobKindTest, AStopPutsTheJobBackExactlyAsItWasSubmitted) {
  for (const bool bare : {false, true}) {
    Json json = Parse(kJob);
    if (bare) {
      Json& pod = json.At("spec").At("template").At("spec");
      for (const char* field : {"tolerations", "nodeSelector", "affinity"}) {
        pod.Erase(field);
      }
    }
    const api::Job job = Decode(json);
    const api::Workload workload = Recorded(job);
    const auto start = StartPatch(job, workload, FullStart());
    ASSERT_TRUE(start);
    Json running = json;
    ApplyMergePatch(running, start->body);
    ApplyMergePatch(running, SuspendPatch(job).body);
    const auto restore = RestorePatch(Decode(running), workload);
    ASSERT_TRUE(restore.has_value());
    ApplyMergePatch(running, restore->body);
    const Json& now = running["spec"]["template"];
    const Json& then = json["spec"]["template"];
    EXPECT_EQ(now["metadata"]["labels"].Dump(), then["metadata"]["labels"].Dump());
    for (const char* field : {"tolerations", "nodeSelector", "affinity", "containers"}) {
      EXPECT_EQ(now["spec"][field].Dump(), then["spec"][field].Dump()) << field << " bare " << bare;
    }
    EXPECT_FALSE(RestorePatch(Decode(running), workload).has_value()) << "nothing is left to undo";
  }
}

TEST(JobKindTest, PodAffinityOfTheUserSurvivesSteeringAndRestore) {
  Json json = Parse(kJob);
  const Json mine = Parse(R"({"podAntiAffinity": {"x": 1}})");
  json.At("spec").At("template").At("spec").Set("affinity", mine);
  const api::Job job = Decode(json);
  const api::Workload workload = Recorded(job);
  const auto start = StartPatch(job, workload, FullStart());
  ASSERT_TRUE(start);
  ApplyMergePatch(json, start->body);
  EXPECT_TRUE(json["spec"]["template"]["spec"]["affinity"].Has("podAntiAffinity"));
  EXPECT_TRUE(json["spec"]["template"]["spec"]["affinity"].Has("nodeAffinity"));
  const auto restore = RestorePatch(Decode(json), workload);
  ASSERT_TRUE(restore.has_value());
  ApplyMergePatch(json, restore->body);
  EXPECT_EQ(json["spec"]["template"]["spec"]["affinity"].Dump(), mine.Dump());
}

TEST(JobKindTest, ASelectorThatContradictsTheFlavorIsAnErrorThatNamesIt) {
  const api::Job job = Decode(Parse(kJob));
  StartInfo info;
  info.node_selector["disk"] = "hdd";
  const auto write = StartPatch(job, Recorded(job), info);
  ASSERT_FALSE(write);
  EXPECT_EQ(write.error().code, ErrorCode::kInvalid);
  EXPECT_NE(write.error().message.find("nodeSelector[disk] is \"ssd\""), std::string::npos)
      << write.error().message;
}

TEST(JobKindTest, ATolerationThatTheJobHasIsNotAddedTwice) {
  const api::Job job = Decode(Parse(kJob));
  StartInfo info;
  api::Toleration mine;
  mine.key = "mine";
  mine.op = "Exists";
  info.tolerations.push_back(mine);
  const auto write = StartPatch(job, Recorded(job), info);
  ASSERT_TRUE(write);
  EXPECT_FALSE(write->body["spec"]["template"]["spec"].Has("tolerations"));
}

TEST(JobKindTest, PartialAdmissionLowersParallelismAndTheRestoreGivesItBack) {
  Json json = Parse(kJob);
  json.At("metadata").Set("annotations", Parse(R"({"kueue.x-k8s.io/job-min-parallelism": "2"})"));
  const api::Job job = Decode(json);
  const api::Workload workload = Recorded(job);
  EXPECT_EQ(workload.pod_sets[0].min_count, 2);
  StartInfo info = FullStart();
  info.parallelism = 2;
  info.tolerations.clear();
  const auto start = StartPatch(job, workload, info);
  ASSERT_TRUE(start);
  ApplyMergePatch(json, start->body);
  EXPECT_EQ(json["spec"]["parallelism"].AsInt(), 2);
  EXPECT_TRUE(Equivalent(Decode(json), workload)) << "also when its quota was just taken away";
  json.At("spec").Set("suspend", true);
  EXPECT_TRUE(Equivalent(Decode(json), workload)) << "also before it is restored";
  Json smaller = Parse(kJob);
  smaller.At("spec").Set("parallelism", 2);
  EXPECT_FALSE(Equivalent(Decode(smaller), workload)) << "its user made it smaller";
  const auto restore = RestorePatch(Decode(json), workload);
  ASSERT_TRUE(restore.has_value());
  EXPECT_EQ(restore->body["spec"]["parallelism"].AsInt(), 4);
}

TEST(JobKindTest, CompletionsFollowParallelismWhereTheJobAsksForIt) {
  Json json = Parse(kJob);
  json.At("metadata").Set("annotations", Parse(R"({"kueue.x-k8s.io/job-min-parallelism": "2",
                                    "kueue.x-k8s.io/job-completions-equal-parallelism": "true"})"));
  const api::Job job = Decode(json);
  const api::Workload workload = Recorded(job);
  StartInfo info = FullStart();
  info.parallelism = 2;
  const auto start = StartPatch(job, workload, info);
  ASSERT_TRUE(start);
  ApplyMergePatch(json, start->body);
  EXPECT_EQ(json["spec"]["completions"].AsInt(), 2);
  const auto restore = RestorePatch(Decode(json), workload);
  ASSERT_TRUE(restore.has_value());
  EXPECT_EQ(restore->body["spec"]["parallelism"].AsInt(), 4);
  EXPECT_EQ(restore->body["spec"]["completions"].AsInt(), 4);
}

TEST(JobKindTest, UpdatesOfChecksGoIntoTheTemplateAndConflictsAreErrors) {
  const api::Job job = Decode(Parse(kJob));
  StartInfo info = FullStart();
  info.updates.labels["from"] = "check";
  info.updates.annotations["note"] = "x";
  info.updates.node_selector["zone"] = "a";  // as the flavor says
  info.updates.node_selector["rack"] = "7";
  info.updates.tolerations = info.tolerations;
  const auto start = StartPatch(job, Recorded(job), info);
  ASSERT_TRUE(start) << start.error().message;
  const Json& pods = start->body["spec"]["template"];
  EXPECT_EQ(pods["metadata"]["labels"]["from"].AsString(), "check");
  EXPECT_EQ(pods["metadata"]["annotations"]["note"].AsString(), "x");
  EXPECT_EQ(pods["spec"]["nodeSelector"]["rack"].AsString(), "7");
  EXPECT_EQ(pods["spec"]["tolerations"].AsArray().size(), 2U) << "its own and one more";

  for (const auto& [field, change] :
       std::vector<std::pair<std::string, std::function<void(CheckUpdates&)>>>{
           {"spec.template.metadata.labels[app]",
            [](CheckUpdates& updates) { updates.labels["app"] = "other"; }},
           {"spec.template.spec.nodeSelector[disk]",
            [](CheckUpdates& updates) { updates.node_selector["disk"] = "tape"; }},
           {"spec.template.spec.nodeSelector[zone]",
            [](CheckUpdates& updates) { updates.node_selector["zone"] = "b"; }}}) {
    StartInfo bad = FullStart();
    change(bad.updates);
    const auto refused = StartPatch(job, Recorded(job), bad);
    ASSERT_FALSE(refused) << field;
    EXPECT_NE(refused.error().message.find(field), std::string::npos) << refused.error().message;
  }
}

TEST(JobKindTest, UnusableLabelsAndAnnotationsAreNamed) {
  const struct {
    const char* part;
    const char* key;
    const char* value;
  } cases[] = {{"labels", "kueue.x-k8s.io/max-exec-time-seconds", "soon"},
               {"labels", "kueue.x-k8s.io/max-exec-time-seconds", "0"},
               {"labels", "kueue.x-k8s.io/max-exec-time-seconds", "99999999999"},
               {"annotations", "kueue.x-k8s.io/job-min-parallelism", "-1"},
               {"annotations", "kueue.x-k8s.io/job-min-parallelism", "2x"},
               {"annotations", "kueue.x-k8s.io/job-min-parallelism", "4"}};
  for (const auto& test : cases) {
    Json json = Parse(kJob);
    json.At("metadata").At(test.part).Set(test.key, test.value);
    const auto workload = WorkloadFor(Decode(json), {});
    ASSERT_FALSE(workload) << test.key << "=" << test.value;
    EXPECT_NE(workload.error().message.find(test.key), std::string::npos)
        << workload.error().message;
  }
}

TEST(JobKindTest, OtherPodsOrAnotherCountAreNoLongerTheSameJob) {
  const Json json = Parse(kJob);
  const api::Workload workload = Recorded(Decode(json));
  EXPECT_TRUE(Equivalent(Decode(json), workload));
  Json image = json;
  image.At("spec").At("template").At("spec").At("containers").MutableArray()[0].Set("image", "y");
  EXPECT_FALSE(Equivalent(Decode(image), workload));
  Json wider = json;
  wider.At("spec").Set("parallelism", 2);
  EXPECT_FALSE(Equivalent(Decode(wider), workload));
  Json tolerant = json;
  tolerant.At("spec").At("template").At("spec").Erase("tolerations");
  EXPECT_FALSE(Equivalent(Decode(tolerant), workload));
  Json labelled = json;
  labelled.At("spec").At("template").At("metadata").At("labels").Set("more", "labels");
  EXPECT_TRUE(Equivalent(Decode(labelled), workload)) << "labels change no request";
}

TEST(JobKindTest, ARunningJobWithTheFlavorsTolerationsIsStillTheSame) {
  const Json json = Parse(kJob);
  const api::Job job = Decode(json);
  api::Workload workload = Recorded(job);
  const auto start = StartPatch(job, workload, FullStart());
  ASSERT_TRUE(start);
  const api::Job running = After(json, *start);
  EXPECT_TRUE(Equivalent(running, workload)) << "its quota was withdrawn: it is to be restored";
  workload.status.admission.emplace();
  api::SetCondition(workload.status.conditions,
                    {"QuotaReserved", "True", "QuotaReserved", "", {}, 0}, Time{});
  EXPECT_TRUE(Equivalent(running, workload));
}

TEST(JobKindTest, TheTemplateIsTouchedOnlyWhenNothingOfTheJobRuns) {
  api::Job job = Decode(Parse(kJob));
  EXPECT_TRUE(RestoreWindowOpen(job)) << "never started";
  job.active = 1;
  EXPECT_FALSE(RestoreWindowOpen(job));
  job.active = 0;
  job.start_time = Time{};
  EXPECT_FALSE(RestoreWindowOpen(job)) << "the Job controller has not seen the suspension";
  job.conditions.push_back({"Suspended", "True", "", "", {}, 0});
  EXPECT_TRUE(RestoreWindowOpen(job));
  job.suspend = false;
  EXPECT_FALSE(RestoreWindowOpen(job));
}

api::Job WithClaims(const std::string& annotation) {
  api::Job job;
  job.meta.annotations["tutti.dev/gang-claims"] = annotation;
  job.template_json =
      R"({"spec":{"resourceClaims":[{"name":"gpu","resourceClaimTemplateName":"g"},
        {"name":"net","resourceClaimTemplateName":"n"},
        {"name":"disk","resourceClaimName":"d"}]}})";
  return job;
}

TEST(JobKindTest, GangClaimsAreThoseOfTheTemplateInItsOrder) {
  const auto claims = GangClaimsOf(WithClaims("disk, net"));
  ASSERT_TRUE(claims) << claims.error().message;
  ASSERT_EQ(claims->size(), 2U);
  EXPECT_EQ((*claims)[0].name, "net");
  EXPECT_EQ((*claims)[0].claim_template, "n");
  EXPECT_EQ((*claims)[1].claim, "d");
  EXPECT_TRUE(GangClaimsOf(WithClaims(""))->empty());
}

TEST(JobKindTest, GangClaimsThatCannotBeSharedAreRefusedByTheField) {
  for (const auto& [annotation, part] : std::vector<std::pair<std::string, std::string>>{
           {"net,net", "\"net\" is named twice"},
           {"net,", "an empty name"},
           {"fabric", "\"fabric\" is not in spec.template.spec.resourceClaims"},
           {"a,b,c,d,e", "at most 4"},
           {"net", "spec.template.spec.resourceClaims[2]: \"disk\""}}) {
    const auto claims = GangClaimsOf(WithClaims(annotation));
    ASSERT_FALSE(claims) << annotation;
    EXPECT_NE(claims.error().message.find(part), std::string::npos) << claims.error().message;
  }
}

}  // namespace
}  // namespace tutti::reconciler
