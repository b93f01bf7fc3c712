// SPDX-License-Identifier: Apache-2.0
#include "api/meta.h"

#include <gtest/gtest.h>

#include "api/request.h"

namespace tutti::api {
namespace {

Time At(std::string_view text) {
  return ParseTime(text).value_or(kNoTime);
}

Json Parsed(std::string_view text) {
  Result<Json> json = Json::Parse(text);
  EXPECT_TRUE(json.has_value()) << text;
  return json.value_or(Json());
}

TEST(ObjectMeta, ReadsWhatDecisionsNeedAndDropsTheLastAppliedManifest) {
  const ObjectMeta meta = MetaFromJson(Parsed(R"({
    "name":"n","namespace":"ns","uid":"u","resourceVersion":"12","generation":3,
    "creationTimestamp":"2026-11-30T09:00:00Z","deletionTimestamp":"2026-11-30T10:00:00Z",
    "labels":{"a":"b","empty":null},
    "annotations":{"x":"y","kubectl.kubernetes.io/last-applied-configuration":"{}"},
    "managedFields":[{"manager":"m"}],
    "ownerReferences":[{"apiVersion":"v1","kind":"K","name":"o1","uid":"1"},
                       {"apiVersion":"v1","kind":"K","name":"o2","uid":"2","controller":true}],
    "finalizers":["f1","f2"]})"));
  EXPECT_EQ(meta.Key(), (ObjectKey{"ns", "n"}));
  EXPECT_EQ(meta.uid, "u");
  EXPECT_EQ(meta.resource_version, "12");
  EXPECT_EQ(meta.generation, 3);
  EXPECT_EQ(meta.created, At("2026-11-30T09:00:00Z"));
  EXPECT_EQ(meta.deleted, At("2026-11-30T10:00:00Z"));
  EXPECT_EQ(meta.Label("a"), "b");
  EXPECT_EQ(meta.Label("missing"), "");
  EXPECT_EQ(meta.labels.count("empty"), 1U);
  EXPECT_EQ(meta.annotations, (StringMap{{"x", "y"}}));
  ASSERT_NE(meta.Controller(), nullptr);
  EXPECT_EQ(meta.Controller()->name, "o2");
  EXPECT_TRUE(meta.HasFinalizer("f2"));
  EXPECT_FALSE(meta.HasFinalizer("f3"));
}

TEST(ObjectMeta, WrongTypesCountAsAbsent) {
  const ObjectMeta meta = MetaFromJson(Parsed(
      R"({"name":1,"labels":[],"annotations":{"a":1},"generation":1e30,"ownerReferences":"x",
          "creationTimestamp":"yesterday"})"));
  EXPECT_EQ(meta.name, "");
  EXPECT_TRUE(meta.labels.empty());
  EXPECT_TRUE(meta.annotations.empty());
  EXPECT_EQ(meta.generation, INT64_MAX);
  EXPECT_EQ(meta.created, kNoTime);
}

TEST(Conditions, TransitionTimeMovesOnlyWithTheStatus) {
  Conditions conditions;
  const Time first = At("2026-11-30T09:00:00.9Z");
  const Time second = At("2026-11-30T09:05:00Z");
  EXPECT_TRUE(SetCondition(conditions, {"Ready", "False", "Wait", "m", {}, 1}, first));
  EXPECT_EQ(conditions[0].last_transition, At("2026-11-30T09:00:00Z"));  // whole seconds
  EXPECT_FALSE(SetCondition(conditions, {"Ready", "False", "Wait", "m", {}, 1}, second));
  EXPECT_EQ(conditions[0].last_transition, At("2026-11-30T09:00:00Z"));
  EXPECT_TRUE(SetCondition(conditions, {"Ready", "False", "Other", "m", {}, 1}, second));
  EXPECT_EQ(conditions[0].last_transition, At("2026-11-30T09:00:00Z"));
  EXPECT_TRUE(SetCondition(conditions, {"Ready", "True", "Other", "m", {}, 1}, second));
  EXPECT_EQ(conditions[0].last_transition, second);
  EXPECT_TRUE(IsTrue(conditions, "Ready"));
  EXPECT_FALSE(IsTrue(conditions, "Absent"));
  EXPECT_TRUE(RemoveCondition(conditions, "Ready"));
  EXPECT_FALSE(RemoveCondition(conditions, "Ready"));
}

TEST(Conditions, LongMessagesAreCutBetweenCharacters) {
  Conditions conditions;
  std::string message(32767, 'a');
  message += "\xc3\xa9 and more";  // é straddles the limit
  SetCondition(conditions, {"T", "True", "R", message, {}, 0}, kNoTime);
  EXPECT_EQ(conditions[0].message, std::string(32767, 'a'));
  SetCondition(conditions, {"T", "True", "R", std::string(32768, 'b'), {}, 0}, kNoTime);
  EXPECT_EQ(conditions[0].message.size(), 32768U);
}

TEST(Conditions, SurviveARoundTrip) {
  Conditions conditions;
  SetCondition(conditions, {"A", "True", "R", "m", {}, 4}, At("2026-11-30T09:00:00Z"));
  SetCondition(conditions, {"B", "Unknown", "S", "", {}, 0}, At("2026-11-30T09:00:01Z"));
  EXPECT_EQ(ConditionsFromJson(ToJson(conditions)), conditions);
  EXPECT_EQ(ToJson(conditions).AsArray()[1].Has("observedGeneration"), false);
  EXPECT_EQ(ToJson(conditions).AsArray()[1]["message"], Json(""));  // required by the schema
}

TEST(Conditions, DuplicateAndNamelessEntriesAreDropped) {
  const Conditions conditions = ConditionsFromJson(Parsed(
      R"([{"type":"A","status":"True"},{"type":"A","status":"False"},{"status":"True"},7])"));
  ASSERT_EQ(conditions.size(), 1U);
  EXPECT_EQ(conditions[0].status, "True");
}

TEST(Resource, PathsFollowTheApi) {
  EXPECT_EQ(ResourceOf(Kind::kPod).Path("ns", "p", "status"),
            "/api/v1/namespaces/ns/pods/p/status");
  EXPECT_EQ(ResourceOf(Kind::kPod).Path(""), "/api/v1/pods");
  EXPECT_EQ(ResourceOf(Kind::kNode).Path("ignored", "n"), "/api/v1/nodes/n");
  EXPECT_EQ(ResourceOf(Kind::kWorkload).Path("ns"),
            "/apis/kueue.x-k8s.io/v1beta2/namespaces/ns/workloads");
  EXPECT_EQ(ResourceOf(Kind::kLease).Path("ns", "a/b?c"),
            "/apis/coordination.k8s.io/v1/namespaces/ns/leases/a%2Fb%3Fc");
  EXPECT_EQ(ResourceOf(Kind::kJob).ApiVersion(), "batch/v1");
  EXPECT_EQ(ResourceOf(Kind::kNamespace).ApiVersion(), "v1");
}

TEST(WriteRequest, IsDescribedInOneLine) {
  WriteRequest request;
  request.resource = ResourceOf(Kind::kJob);
  request.key = {"team-a", "train"};
  request.subresource = "status";
  EXPECT_EQ(Describe(request), "PATCH jobs team-a/train (status)");
  request.verb = Verb::kDelete;
  request.subresource = "";
  EXPECT_EQ(Describe(request), "DELETE jobs team-a/train");
}

TEST(OwnerReference, OfAControllerBlocksDeletion) {
  EXPECT_EQ(ToJson(OwnerReference{"batch/v1", "Job", "j", "u", true}).Dump(),
            R"({"apiVersion":"batch/v1","kind":"Job","name":"j","uid":"u","controller":true,)"
            R"("blockOwnerDeletion":true})");
  EXPECT_FALSE(ToJson(OwnerReference{"v1", "Pod", "p", "u", false}).Has("controller"));
}

}  // namespace
}  // namespace tutti::api
