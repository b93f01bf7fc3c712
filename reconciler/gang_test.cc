// SPDX-License-Identifier: Apache-2.0
#include "reconciler/gang.h"

#include <gtest/gtest.h>

namespace tutti::reconciler {
namespace {

api::Job TheJob() {
  api::Job job;
  job.meta.ns = "team";
  job.meta.name = "train";
  job.meta.uid = "u-1";
  return job;
}

api::PodGroup TheGroup() {
  api::PodGroup group;
  group.meta.ns = "team";
  group.meta.name = "train-1";
  group.meta.uid = "g-1";
  group.meta.owners = {{"batch/v1", "Job", "train", "u-1", false}};
  group.min_count = 3;
  return group;
}

TEST(GangTest, AGroupIsOwnedByItsJobButNotControlled) {
  const api::WriteRequest write = CreateGroup(GangApi::kV1Alpha2, TheJob(), "train-1", 3, "high");
  EXPECT_EQ(write.verb, api::Verb::kCreate);
  EXPECT_EQ(write.body["apiVersion"].AsString(), "scheduling.k8s.io/v1alpha2");
  EXPECT_EQ(write.body["spec"]["schedulingPolicy"]["gang"]["minCount"].AsInt(), 3);
  const Json& owner = write.body["metadata"]["ownerReferences"].AsArray()[0];
  EXPECT_EQ(owner["uid"].AsString(), "u-1");
  EXPECT_FALSE(owner["controller"].AsBool());
}

TEST(GangTest, OnlyTheNewerApiIsToldThePriority) {
  const auto spec = [](GangApi version) {
    return CreateGroup(version, TheJob(), "train-1", 3, "high").body["spec"];
  };
  EXPECT_FALSE(spec(GangApi::kV1Alpha2).Has("priorityClassName"));
  EXPECT_EQ(spec(GangApi::kV1Beta1)["priorityClassName"].AsString(), "high");
}

TEST(GangTest, AnOpenedGroupKeepsItsNameAndPriority) {
  const auto writes = OpenGroup(GangApi::kV1Beta1, TheJob(), TheGroup(), "high");
  ASSERT_EQ(writes.size(), 3U);
  EXPECT_EQ(writes[0].verb, api::Verb::kDelete);
  EXPECT_EQ(writes[0].body["preconditions"]["uid"].AsString(), "g-1");
  EXPECT_EQ(writes[1].verb, api::Verb::kMergePatch);
  EXPECT_TRUE(writes[1].body["metadata"].Has("finalizers"));
  EXPECT_EQ(writes[2].key.name, "train-1");
  EXPECT_TRUE(writes[2].body["spec"]["schedulingPolicy"].Has("basic"));
  EXPECT_EQ(writes[2].body["spec"]["priorityClassName"].AsString(), "high");
}

TEST(GangTest, OpeningGoesOnWhereACrashLeftIt) {
  api::PodGroup group = TheGroup();
  group.meta.deleted = Time{};
  const auto writes = OpenGroup(GangApi::kV1Alpha2, TheJob(), group, "");
  ASSERT_EQ(writes.size(), 2U);
  EXPECT_EQ(writes[0].verb, api::Verb::kMergePatch);
}

TEST(GangTest, OnlyAnOwnFittingLivingGroupIsAdopted) {
  EXPECT_TRUE(CanAdopt(TheGroup(), TheJob(), 3));
  EXPECT_FALSE(CanAdopt(TheGroup(), TheJob(), 2));
  api::PodGroup foreign = TheGroup();
  foreign.meta.owners[0].uid = "u-2";
  EXPECT_FALSE(CanAdopt(foreign, TheJob(), 3));
  api::PodGroup dying = TheGroup();
  dying.meta.deleted = Time{};
  EXPECT_FALSE(CanAdopt(dying, TheJob(), 3));
}

}  // namespace
}  // namespace tutti::reconciler
