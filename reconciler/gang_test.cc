// SPDX-License-Identifier: Apache-2.0
#include "reconciler/gang.h"

#include <gtest/gtest.h>

#include "reconciler/batch_job.h"

namespace tutti::reconciler {
namespace {

const QueuedJob& TheJob() {
  static const auto kJob = [] {
    api::Job job;
    job.meta.ns = "team";
    job.meta.name = "train";
    job.meta.uid = "u-1";
    return MakeBatchJob(std::move(job));
  }();
  return *kJob;
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

TEST(GangTest, ClaimsAreWrittenAsTheyAreNamed) {
  for (const GangApi version : {GangApi::kV1Alpha2, GangApi::kV1Beta1}) {
    const Json claims = CreateGroup(version, TheJob(), "train-1", 3, "",
                                    {{"net", "", "net-template"}, {"disk", "disk-1", ""}})
                            .body["spec"]["resourceClaims"];
    ASSERT_EQ(claims.AsArray().size(), 2U);
    EXPECT_EQ(claims.AsArray()[0]["resourceClaimTemplateName"].AsString(), "net-template");
    EXPECT_FALSE(claims.AsArray()[0].Has("resourceClaimName"));
    EXPECT_EQ(claims.AsArray()[1]["resourceClaimName"].AsString(), "disk-1");
  }
}

TEST(GangTest, WhoseGroupItIs) {
  api::PodGroup ours = TheGroup();
  EXPECT_TRUE(MadeFor(ours, "u-1"));
  EXPECT_FALSE(MadeFor(ours, "u-2"));
  EXPECT_EQ(ForeignGroup(ours, "u-1"), "");
  EXPECT_NE(ForeignGroup(ours, "u-2").find("belongs to Job \"train\""), std::string::npos);
  api::PodGroup shared = ours;
  shared.meta.owners.push_back({"batch/v1", "Job", "second", "u-2", false});
  EXPECT_FALSE(MadeFor(shared, "u-1"));
  EXPECT_EQ(ForeignGroup(shared, "u-2"), "");
  api::PodGroup users = ours;
  users.meta.owners.clear();
  EXPECT_FALSE(MadeFor(users, "u-1"));
  EXPECT_EQ(ForeignGroup(users, "u-1"), "");
  api::PodGroup controllers = ours;
  controllers.meta.owners[0].controller = true;
  EXPECT_TRUE(MadeByController(controllers, "u-1"));
  EXPECT_FALSE(MadeFor(controllers, "u-1"));
  EXPECT_FALSE(MadeByController(ours, "u-1"));
}

TEST(GangTest, AGroupOfTheJobControllerGoesWithItsWorkload) {
  api::PodGroup group = TheGroup();
  group.meta.owners[0].controller = true;
  group.meta.owners.push_back({"scheduling.k8s.io/v1alpha2", "Workload", "train-w", "w-1", false});
  const auto writes = DeleteControllersGroup(GangApi::kV1Alpha2, group);
  ASSERT_EQ(writes.size(), 2U);
  EXPECT_EQ(writes[0].resource.plural, "workloads");
  EXPECT_EQ(writes[0].resource.group, "scheduling.k8s.io");
  EXPECT_EQ(writes[0].key.name, "train-w");
  EXPECT_EQ(writes[0].body["preconditions"]["uid"].AsString(), "w-1");
  EXPECT_EQ(writes[1].key.name, "train-1");
}

}  // namespace
}  // namespace tutti::reconciler
