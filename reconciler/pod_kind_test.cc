// SPDX-License-Identifier: Apache-2.0
#include "reconciler/pod_kind.h"

#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/names.h"

namespace tutti::reconciler {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Time kNow = Time(1'800'000'000s);

// What the API server and Kueue's webhook make of the smallest pod.
Json Spec(const std::string& requests) {
  return *Json::Parse(
      R"({"schedulingGates":[{"name":"kueue.x-k8s.io/admission"},{"name":"acme/other"}],)"
      R"("containers":[{"name":"c","image":"pause","resources":{)" +
      requests +
      R"(}}],"priority":0,"tolerations":[)"
      R"({"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},)"
      R"({"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}]})");
}

struct PodSpec {
  std::string name;
  std::string group = "group";
  int total = 2;
  std::string queue = "main";
  std::string phase = "Pending";
  std::string node = "";
  bool gated = true;
  bool finalizer = true;
  int created = 0;  // seconds
  bool deleted = false;
  bool stopped = false;  // told why before it was deleted
  api::StringMap annotations = {};
  std::string requests = R"("requests":{"cpu":"1"})";
  bool hash = true;  // the webhook was there
};

PodPtr Pod(const PodSpec& of) {
  Json spec = Spec(of.requests);
  if (!of.gated) {
    spec.Erase("schedulingGates");
  }
  if (!of.node.empty()) {
    spec.Set("nodeName", of.node);
  }
  Json labels = Json::Obj({{std::string(names::kManagedLabel), "true"},
                           {std::string(names::kQueueNameLabel), of.queue}});
  Json annotations = api::ToJson(of.annotations);
  if (!of.group.empty()) {
    labels.Set(names::kPodGroupName, of.group);
    annotations.Set(names::kPodGroupTotalCount, std::to_string(of.total));
  }
  Json metadata = Json::Obj({{"name", of.name},
                             {"namespace", "team-a"},
                             {"uid", "uid-" + of.name},
                             {"resourceVersion", "7"},
                             {"creationTimestamp", FormatTime(kNow + of.created * 1s)},
                             {"labels", std::move(labels)},
                             {"annotations", std::move(annotations)}});
  metadata.Set("finalizers", of.finalizer
                                 ? Json::Arr({std::string(names::kManagedLabel), "acme/keep"})
                                 : Json::Arr({"acme/keep"}));
  if (of.deleted) {
    metadata.Set("deletionTimestamp", FormatTime(kNow));
    metadata.Set("deletionGracePeriodSeconds", 30);
  }
  // As after admission by the webhook: the role stays when the finalizer is gone.
  if (of.hash) {
    metadata.At("annotations").Set(names::kRoleHash, RoleOf({}, Spec(of.requests)));
  }
  Json status = Json::Obj({{"phase", of.phase}});
  if (of.stopped) {
    status.Set("conditions",
               Json::Arr({Json::Obj({{"type", "TerminationTarget"}, {"status", "True"}})}));
  }
  auto pod = WatchedPodFromJson(Json::Obj({{"kind", "Pod"},
                                           {"apiVersion", "v1"},
                                           {"metadata", std::move(metadata)},
                                           {"spec", std::move(spec)},
                                           {"status", std::move(status)}}));
  EXPECT_TRUE(pod) << pod.error().message;
  return std::make_shared<const WatchedPod>(std::move(*pod));
}

std::shared_ptr<const QueuedJob> Group(const std::vector<PodSpec>& specs) {
  std::vector<PodPtr> pods;
  for (const PodSpec& spec : specs) {
    pods.push_back(Pod(spec));
  }
  const auto member = PodKind().MemberOf(*pods.front());
  EXPECT_TRUE(member.has_value());
  return PodKind().Compose(member->job_uid, pods);
}

std::vector<std::string> Described(const std::vector<api::WriteRequest>& writes) {
  std::vector<std::string> out;
  for (const api::WriteRequest& write : writes) {
    out.push_back(api::Describe(write));
  }
  return out;
}

TEST(PodKindTest, RolesAreHashedAsKueueHashesThem) {
  EXPECT_EQ(RoleOf({}, Spec(R"("requests":{"cpu":"1"})")), "4b0469f7");
  EXPECT_EQ(RoleOf({}, Spec("")), "bf90803c");
  api::ObjectMeta meta;
  meta.annotations[std::string(names::kRoleHash)] = "main";
  EXPECT_EQ(RoleOf(meta, Spec("")), "main");
}

TEST(PodKindTest, OnlyHeldPodsAreQueued) {
  EXPECT_TRUE(PodKind().MemberOf(*Pod({.name = "a"})));
  Json bare = Json::Obj(
      {{"kind", "Pod"},
       {"metadata",
        Json::Obj({{"name", "a"},
                   {"namespace", "team-a"},
                   {"uid", "u"},
                   {"labels", Json::Obj({{std::string(names::kManagedLabel), "true"}})}})},
       {"spec", Json::Obj({{"containers", Json::Arr()}})}});
  const auto pod = WatchedPodFromJson(bare);
  ASSERT_TRUE(pod);
  EXPECT_FALSE(PodKind().MemberOf(*pod));  // the template of some Job has the label
  EXPECT_FALSE(PodKindOfParents().MemberOf(*Pod({.name = "a"})));
  EXPECT_TRUE(PodKindOfParents().MemberOf(
      *Pod({.name = "a", .annotations = {{std::string(names::kSuspendingParent), "deployment"}}})));
}

TEST(PodKindTest, AGroupWhoseUserDeletesAllPodsIsLetGo) {
  const auto group = Group({{.name = "a", .deleted = true}, {.name = "b", .deleted = true}});
  EXPECT_TRUE(group->meta.deleted.has_value());
  EXPECT_EQ(group->Finalize().size(), 2U);
  EXPECT_FALSE(Group({{.name = "a", .deleted = true}, {.name = "b"}})->meta.deleted.has_value());
  EXPECT_FALSE(Group({{.name = "a", .deleted = true, .stopped = true},
                      {.name = "b", .deleted = true, .stopped = true}})
                   ->meta.deleted.has_value());  // others may come in their place
}

TEST(PodKindTest, AGroupIsDescribedWhenAllItsPodsAreThere) {
  const auto incomplete = Group({{.name = "a"}});
  const auto refused = incomplete->Describe();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "'group' group has fewer runnable pods than expected");
  const auto job = Group({{.name = "a"}, {.name = "b", .requests = ""}});
  const auto workload = job->Describe();
  ASSERT_TRUE(workload) << workload.error().message;
  EXPECT_EQ(workload->meta.name, "group");
  EXPECT_EQ(workload->queue_name, "main");
  EXPECT_EQ(workload->meta.owners.size(), 2U);
  EXPECT_EQ(workload->meta.Annotation(names::kIsGroupWorkload), "true");
  ASSERT_EQ(workload->pod_sets.size(), 2U);
  EXPECT_EQ(workload->pod_sets[0].name, "4b0469f7");
  EXPECT_EQ(workload->pod_sets[1].name, "bf90803c");
  EXPECT_THAT(workload->pod_sets[0].template_json, HasSubstr("acme/other"));
  EXPECT_EQ(workload->pod_sets[0].template_json.find("x-k8s.io/admission"), std::string::npos);
  EXPECT_TRUE(job->Matches(*workload));
  EXPECT_TRUE(job->MayTake(*workload));
  api::Workload foreign = *workload;
  foreign.meta.annotations.clear();
  EXPECT_FALSE(job->MayTake(foreign));
}

TEST(PodKindTest, PodsThatDisagreeAreNamed) {
  const auto queues = Group({{.name = "a"}, {.name = "b", .queue = "other"}})->Describe();
  ASSERT_FALSE(queues);
  EXPECT_THAT(queues.error().message, HasSubstr("queue-name"));
  EXPECT_THAT(queues.error().message, HasSubstr("pod b"));
  const auto totals = Group({{.name = "a"}, {.name = "b", .total = 3}})->Describe();
  ASSERT_FALSE(totals);
  EXPECT_THAT(totals.error().message, HasSubstr("pod-group-total-count"));
}

TEST(PodKindTest, NoWorkloadForAGroupWhosePodsAreOnTheirWayOut) {
  const auto job = Group({{.name = "a", .node = "n", .gated = false, .deleted = true},
                          {.name = "b", .node = "n", .gated = false, .deleted = true}});
  EXPECT_FALSE(job->Describe());
}

TEST(PodKindTest, FastAdmissionTakesTheFirstPodForAll) {
  const auto job = Group(
      {{.name = "a", .total = 3, .annotations = {{std::string(names::kPodGroupFast), "true"}}}});
  const auto workload = job->Describe();
  ASSERT_TRUE(workload) << workload.error().message;
  ASSERT_EQ(workload->pod_sets.size(), 1U);
  EXPECT_EQ(workload->pod_sets[0].count, 3);
  EXPECT_EQ(job->WaitsForReplacements(*workload), false);
}

TEST(PodKindTest, AnIncompleteFastGroupIsNotReady) {
  const auto ready = WatchedPodFromJson(*Json::Parse(
      R"({"kind":"Pod","metadata":{"name":"a","namespace":"team-a","uid":"u",)"
      R"("labels":{"kueue.x-k8s.io/managed":"true","kueue.x-k8s.io/pod-group-name":"g"},)"
      R"("annotations":{"kueue.x-k8s.io/pod-group-total-count":"2",)"
      R"("kueue.x-k8s.io/pod-group-fast-admission":"true","kueue.x-k8s.io/role-hash":"r"}},)"
      R"("spec":{"containers":[],"nodeName":"n"},)"
      R"("status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}})"));
  ASSERT_TRUE(ready);
  const auto job = PodKind().Compose(PodKind().MemberOf(*ready)->job_uid,
                                     {std::make_shared<const WatchedPod>(*ready)});
  EXPECT_FALSE(job->PodsReady({}));
}

TEST(PodKindTest, AGroupWhosePodsEndOneByOneStaysReady) {
  const PodSpec done{.name = "a", .phase = "Succeeded", .gated = false};
  EXPECT_FALSE(Group({done, {.name = "b"}})->PodsReady({}));
  EXPECT_TRUE(Group({done, {.name = "b", .phase = "Succeeded", .gated = false}})->PodsReady({}));
}

TEST(PodKindTest, AStartTakesOnlyOurGatesOff) {
  const auto job = Group({{.name = "a"}, {.name = "b"}});
  const auto workload = job->Describe();
  ASSERT_TRUE(workload);
  StartInfo info;
  info.pod_set = "4b0469f7";
  info.node_selector = {{"zone", "a"}};
  const auto writes = job->Start(*workload, {info});
  ASSERT_TRUE(writes);
  ASSERT_EQ(writes->size(), 2U);
  const Json& body = (*writes)[0].body;
  EXPECT_EQ(body["spec"]["schedulingGates"].Dump(), R"([{"name":"acme/other"}])");
  EXPECT_EQ(body["spec"]["nodeSelector"]["zone"].AsString(), "a");
  EXPECT_EQ(body["metadata"]["resourceVersion"].AsString(), "7");
}

TEST(PodKindTest, APodThatAPolicyHoldsKeepsItsRoleWhenItStarts) {
  const auto job = Group({{.name = "a", .hash = false}, {.name = "b"}});
  const auto workload = job->Describe();
  ASSERT_TRUE(workload);
  ASSERT_EQ(workload->pod_sets.size(), 1U) << "the policy can't say the hash that the webhook says";
  StartInfo info;
  info.pod_set = workload->pod_sets.front().name;
  info.node_selector = {{"zone", "a"}};  // would make another hash
  const auto writes = job->Start(*workload, {info});
  ASSERT_TRUE(writes);
  ASSERT_EQ(writes->size(), 2U);
  EXPECT_EQ((*writes)[0].body["metadata"]["annotations"][names::kRoleHash].AsString(),
            info.pod_set);
  EXPECT_FALSE((*writes)[1].body["metadata"].Has("annotations"));
}

TEST(PodKindTest, ExcessPodsGoNewestAndHeldFirst) {
  const auto job = Group({{.name = "a", .node = "n", .gated = false, .created = 9},
                          {.name = "b", .created = 1},
                          {.name = "c", .created = 2}});
  const Chores chores = job->Tidy(nullptr);
  ASSERT_EQ(chores.excess.size(), 1U);
  EXPECT_EQ(chores.excess[0].name, "c");
  EXPECT_THAT(Described(chores.writes), ElementsAre("PATCH pods team-a/c", "DELETE pods team-a/c"));
}

TEST(PodKindTest, AReplacedPodIsLetGoAndNobodyElsesFinalizer) {
  const auto first = Group({{.name = "a"}, {.name = "b"}});
  const auto workload = first->Describe();
  ASSERT_TRUE(workload);
  const PodSpec failed{.name = "a", .phase = "Failed", .node = "n", .gated = false};
  EXPECT_TRUE(Group({failed, {.name = "b"}})->Tidy(&*workload).writes.empty());
  EXPECT_EQ(Group({failed, {.name = "b"}})->WaitsForReplacements(*workload), true);
  const auto replaced = Group({failed, {.name = "b"}, {.name = "c"}});
  const Chores chores = replaced->Tidy(&*workload);
  EXPECT_THAT(Described(chores.writes),
              ElementsAre("PATCH pods team-a/a", "PATCH workloads team-a/group"));
  EXPECT_EQ(chores.writes[0].body["metadata"]["finalizers"].Dump(), R"(["acme/keep"])");
  EXPECT_EQ(chores.new_owners, 1);
  EXPECT_EQ(replaced->WaitsForReplacements(*workload), false);
}

TEST(PodKindTest, ADeletedPodWithoutANodeMakesRoomForItsReplacement) {
  const auto workload = Group({{.name = "a"}, {.name = "b"}})->Describe();
  ASSERT_TRUE(workload);
  const auto job =
      Group({{.name = "a", .gated = false, .deleted = true}, {.name = "b"}, {.name = "c"}});
  EXPECT_TRUE(job->Matches(*workload));
  const Chores chores = job->Tidy(&*workload);
  EXPECT_TRUE(chores.excess.empty());
  EXPECT_THAT(Described(chores.writes),
              ElementsAre("PATCH pods team-a/a", "PATCH workloads team-a/group"));
}

TEST(PodKindTest, AGroupEndsWhenAllHaveSucceededOrNoneIsToBeRetried) {
  bool success = false;
  std::string message;
  const PodSpec done{.name = "a", .phase = "Succeeded", .gated = false};
  const PodSpec failed{.name = "b", .phase = "Failed", .gated = false};
  PodSpec final = failed;
  final.annotations[std::string(names::kRetriableInGroup)] = "false";
  EXPECT_FALSE(Group({done, failed})->Finished(&success, &message));
  EXPECT_TRUE(Group({done, final})->Finished(&success, &message));
  EXPECT_EQ(message, "Pods succeeded: 1/2.");
  PodSpec serving = done;
  serving.total = 1;
  EXPECT_TRUE(Group({serving})->Finished(&success, &message));
  serving.annotations[std::string(names::kPodGroupServing)] = "true";
  EXPECT_FALSE(Group({serving})->Finished(&success, &message));
}

TEST(PodKindTest, APodStuckTerminatingHoldsQuotaOnlyUntilItIsOverdue) {
  const auto job =
      Group({{.name = "a", .phase = "Running", .node = "n", .gated = false, .deleted = true}});
  EXPECT_TRUE(job->Active(kNow + 29s));
  EXPECT_FALSE(job->Active(kNow + 30s));
  EXPECT_TRUE(job->Stopped(kNow + 30s));
  EXPECT_EQ(job->StoppedAt(), kNow + 30s);
}

TEST(PodKindTest, AStopTellsThePodAndDeletesIt) {
  const auto job = Group({{.name = "a", .node = "n", .gated = false}, {.name = "b"}});
  const auto writes = job->Stop({"WorkloadEvictedDueToPreempted", "by test", kNow});
  EXPECT_THAT(Described(writes),
              ElementsAre("APPLY pods team-a/a (status)", "DELETE pods team-a/a"));
  const Json& condition = writes[0].body["status"]["conditions"].AsArray()[0];
  EXPECT_EQ(condition["type"].AsString(), "TerminationTarget");
  EXPECT_EQ(condition["reason"].AsString(), "WorkloadEvictedDueToPreempted");
}

}  // namespace
}  // namespace tutti::reconciler
