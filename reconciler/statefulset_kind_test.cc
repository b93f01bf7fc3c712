// SPDX-License-Identifier: Apache-2.0
#include "reconciler/statefulset_kind.h"

#include <memory>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/names.h"
#include "reconciler/pod_kind.h"

namespace tutti::reconciler {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Time kNow = Time(1'800'000'000s);

Json SetWith(int replicas) {
  Json set = *Json::Parse(
      R"({"metadata":{"name":"db","namespace":"team-a","uid":"set-uid","labels":)"
      R"({"kueue.x-k8s.io/queue-name":"main"}},"spec":{"template":{"metadata":{"annotations":)"
      R"({"kueue.x-k8s.io/pod-suspending-parent":"statefulset"}},"spec":{"containers":)"
      R"([{"name":"c","image":"a:1","resources":{"requests":{"cpu":"1"}}}]}}}})");
  set.At("spec").Set("replicas", replicas);
  return set;
}

struct PodSpec {
  std::string name;
  bool gated = true;
  bool deleted = false;
  bool ready = false;
  bool finalizer = false;
};

PodPtr Pod(const PodSpec& of) {
  Json pod = *Json::Parse(
      R"({"kind":"Pod","apiVersion":"v1","spec":{"containers":[{"name":"c"}]},"status":{"phase":"Pending"}})");
  Json metadata = Json::Obj(
      {{"name", of.name},
       {"namespace", "team-a"},
       {"uid", "uid-" + of.name},
       {"resourceVersion", "7"},
       {"annotations", Json::Obj({{std::string(names::kSuspendingParent), "statefulset"}})},
       {"ownerReferences", Json::Arr({Json::Obj({{"apiVersion", "apps/v1"},
                                                 {"kind", "StatefulSet"},
                                                 {"name", "db"},
                                                 {"uid", "set-uid"},
                                                 {"controller", true}})})}});
  if (of.gated) {
    pod.At("spec").Set("schedulingGates",
                       Json::Arr({Json::Obj({{"name", std::string(names::kAdmissionGate)}})}));
  }
  if (of.deleted) {
    metadata.Set("deletionTimestamp", FormatTime(kNow));
  }
  if (of.finalizer) {
    metadata.Set("finalizers", Json::Arr({std::string(names::kManagedLabel)}));
  }
  if (of.ready) {
    pod.At("status").Set("phase", "Running");
    pod.At("status").Set("conditions",
                         Json::Arr({Json::Obj({{"type", "Ready"}, {"status", "True"}})}));
  }
  pod.Set("metadata", std::move(metadata));
  auto decoded = WatchedPodFromJson(pod);
  EXPECT_TRUE(decoded) << decoded.error().message;
  return std::make_shared<const WatchedPod>(std::move(*decoded));
}

std::shared_ptr<const QueuedJob> Set(int replicas, const std::vector<PodSpec>& specs) {
  auto set = StatefulSetKind().Decode(SetWith(replicas));
  EXPECT_TRUE(set) << set.error().message;
  std::vector<PodPtr> pods;
  for (const PodSpec& spec : specs) {
    pods.push_back(Pod(spec));
  }
  return (*set)->WithPods(std::move(pods));
}

std::vector<std::string> Names(const std::vector<api::WriteRequest>& writes) {
  std::vector<std::string> out;
  for (const api::WriteRequest& write : writes) {
    out.push_back(write.key.name);
  }
  return out;
}

TEST(StatefulSetKindTest, APodIsItsControllersAndNobodyElses) {
  const auto member = StatefulSetKind().MemberOf(*Pod({"db-0"}));
  ASSERT_TRUE(member.has_value());
  EXPECT_EQ(member->job_uid, "set-uid");
  EXPECT_EQ(member->pod_set, "main");
  EXPECT_FALSE(PodKind().MemberOf(*Pod({"db-0"})).has_value());
}

TEST(StatefulSetKindTest, NoMorePodsStartThanThereIsQuotaFor) {
  const auto set = Set(2, {{"db-0", /*gated=*/false}, {"db-1"}, {"db-2"}});
  auto workload = set->Describe();
  ASSERT_TRUE(workload) << workload.error().message;
  const auto writes = set->Start(*workload, {StartInfo{}});
  ASSERT_TRUE(writes) << writes.error().message;
  EXPECT_THAT(Names(*writes), ElementsAre("db-1"));
}

TEST(StatefulSetKindTest, ItIsReadyWhenAllReplicasAre) {
  const PodSpec first{"db-0", /*gated=*/false, /*deleted=*/false, /*ready=*/true};
  EXPECT_FALSE(Set(2, {first})->PodsReady({}));
  PodSpec second = first;
  second.name = "db-1";
  EXPECT_TRUE(Set(2, {first, second})->PodsReady({}));
  second.deleted = true;
  EXPECT_FALSE(Set(2, {first, second})->PodsReady({}));
}

TEST(StatefulSetKindTest, FinalizersOfAnOlderKueueComeOffPodsThatAreDeleted) {
  const PodSpec lives{"db-0", /*gated=*/false, /*deleted=*/false, /*ready=*/true,
                      /*finalizer=*/true};
  PodSpec dies = lives;
  dies.name = "db-1";
  dies.deleted = true;
  EXPECT_THAT(Names(Set(2, {lives, dies})->Tidy(nullptr).writes), ElementsAre("db-1"));
  EXPECT_THAT(Names(Set(2, {lives, dies})->Finalize()), ElementsAre("db-0", "db-1"));
  EXPECT_THAT(Names(Set(2, {{"db-0"}})->Finalize()), IsEmpty());
}

TEST(StatefulSetKindTest, OnlyWhatMattersToAdmissionMakesAnotherWorkload) {
  const auto set = Set(2, {});
  auto workload = set->Describe();
  ASSERT_TRUE(workload);
  EXPECT_TRUE(set->Matches(*workload));
  Json other = SetWith(2);
  other.At("spec").At("template").At("spec").At("containers").MutableArray()[0].Set("image", "a:2");
  EXPECT_TRUE((*StatefulSetKind().Decode(other))->Matches(*workload));
  other.At("spec").At("template").At("spec").Set("nodeSelector", Json::Obj({{"zone", "b"}}));
  EXPECT_FALSE((*StatefulSetKind().Decode(other))->Matches(*workload));
  EXPECT_FALSE(Set(3, {})->Matches(*workload));
}

}  // namespace
}  // namespace tutti::reconciler
