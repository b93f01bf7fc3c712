// SPDX-License-Identifier: Apache-2.0
// One small cluster for each way to be short of something, and for each answer that isn't waiting.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "audit/text.h"
#include "why/answer.h"
#include "why/testing/world.h"

namespace tutti::why {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::JobSpec;
using ::testing::Not;
using testing::World;

// One team with a quota of 8 cpu and two nodes of 4 cpu.
struct Team : World {
  explicit Team(const std::string& quota = "8", const Json& more = Json::Obj()) {
    Flavor("default");
    Queue("cq", {{"default", {{"cpu", quota}}}}, more);
    LocalQueue("main", "cq");
    Node("n1", {{"cpu", "4"}});
    Node("n2", {{"cpu", "4"}});
  }
};

Answer Ask(World& world, const std::string& target) {
  world.state.Finish();
  EXPECT_EQ(world.problem, "");
  const auto parsed = ParseTarget(target, "team");
  EXPECT_TRUE(parsed);
  auto answer = Explain(world.state, *parsed, world.now(), {});
  EXPECT_TRUE(answer) << answer.error().message;
  return *std::move(answer);
}
JobAnswer AskJob(World& world, const std::string& target) {
  return std::get<JobAnswer>(Ask(world, target).what);
}
std::vector<std::string> Texts(const JobAnswer& answer) {
  std::vector<std::string> out;
  for (const Remedy& remedy : answer.remedies.value_or(Remedies{}).found) {
    out.push_back(std::string(ToString(remedy.kind)) + ": " + remedy.text);
  }
  return out;
}

TEST(WhyTest, ShortOfQuotaItNamesTheAmountWhoHasItAndWhoseEndWouldDo) {
  Team team("8");
  team.Running({.name = "big", .pods = 3}, "default", {"n1"});
  team.Running({.name = "small", .pods = 2}, "default", {"n2"});
  team.Waiting({.name = "new", .pods = 5});
  // Quota isn't enough, and nor are places: 1 + 2 cpu are free.
  team.Node("n3", {{"cpu", "4"}});
  const JobAnswer answer = AskJob(team, "job/new");
  EXPECT_EQ(answer.state, JobAnswer::State::kWaits);
  EXPECT_EQ(answer.reason, "WaitingForQuota");
  EXPECT_THAT(answer.message, HasSubstr("2 more needed"));
  EXPECT_EQ(answer.position, 1U);
  ASSERT_EQ(answer.holders.size(), 2U);
  EXPECT_EQ(answer.holders.front().title, "Job team/big");
  EXPECT_EQ(answer.quota.front().reserved, 5000);
  EXPECT_EQ(answer.quota.front().asked, 5000);
  EXPECT_THAT(Texts(answer),
              ElementsAre("ends: when it has ended: Job team/small (2 cpu)",
                          "ends: when it has ended: Job team/big (3 cpu)",
                          "parallelism: run 3 instead of 5 pods at a time (spec.parallelism: 3)",
                          "quota: 2 more quota of cpu in flavor default in ClusterQueue cq"));
}

TEST(WhyTest, WithQuotaButNoPlaceMoreQuotaIsNotEnoughAndNodesAre) {
  Team team("100");
  team.Running({.name = "old", .pods = 2, .each = {{"cpu", "3"}}}, "default", {"n1", "n2"});
  team.Waiting({.name = "new", .pods = 2, .each = {{"cpu", "2"}}});
  const JobAnswer answer = AskJob(team, "job/new");
  EXPECT_EQ(answer.reason, "WaitingForCapacity");
  EXPECT_THAT(Texts(answer), ElementsAre("ends: when it has ended: Job team/old (6 cpu)",
                                         "nodes: 1 more node like n1 (4 cpu each)"));
  EXPECT_THAT(answer.remedies->not_enough,
              Contains(AllOf(HasSubstr("more quota alone"), HasSubstr("no place"))));
}

TEST(WhyTest, ShortOfBothItTakesQuotaAndNodesTogether) {
  Team team("4");
  team.Waiting({.name = "new", .pods = 3, .each = {{"cpu", "4"}}});
  const JobAnswer answer = AskJob(team, "job/new");
  EXPECT_THAT(Texts(answer),
              Contains("quotaAndNodes: 8 more quota of cpu in flavor default in ClusterQueue cq, "
                       "and 1 more node like n1 (4 cpu each)"));
  EXPECT_THAT(Texts(answer),
              Contains("parallelism: run 1 instead of 3 pods at a time (spec.parallelism: 1)"));
}

TEST(WhyTest, SeveralSmallJobsHaveToEndTogetherAndNoneOfThemTooMany) {
  Team team("8");
  for (const char* name : {"a", "b", "c", "d"}) {
    team.Running({.name = name, .pods = 2}, "default", {name[0] < 'c' ? "n1" : "n2"});
  }
  team.Waiting({.name = "new", .pods = 1, .each = {{"cpu", "4"}}});
  const JobAnswer answer = AskJob(team, "job/new");
  ASSERT_FALSE(answer.remedies->found.empty());
  const Remedy& ends = answer.remedies->found.front();
  EXPECT_EQ(ends.kind, RemedyKind::kEnds);
  EXPECT_EQ(ends.jobs.size(), 2U) << ends.text;  // both on one node
}

TEST(WhyTest, ANodeSelectorThatNoNodeHasIsTheThingToDrop) {
  Team team("8");
  team.Waiting({.name = "new",
                .pods = 2,
                .pod_spec = Json::Obj({{"nodeSelector", Json::Obj({{"disk", "nvme"}})}})});
  const JobAnswer answer = AskJob(team, "job/new");
  EXPECT_THAT(Texts(answer), Contains("placement: without the node selector disk=nvme"));
}

TEST(WhyTest, ATaintThatIsNotToleratedIsNamed) {
  World world;
  world.Flavor(
      "spot", Json::Obj(),
      Json::Arr({Json::Obj({{"key", "spot"}, {"value", "true"}, {"effect", "NoSchedule"}})}));
  world.Queue("cq", {{"spot", {{"cpu", "8"}}}});
  world.LocalQueue("main", "cq");
  world.Waiting({.name = "new"});
  const JobAnswer answer = AskJob(world, "job/new");
  EXPECT_EQ(answer.reason, "NoMatchingFlavor");
  EXPECT_THAT(Texts(answer), Contains("placement: tolerating the taint spot=true"));
}

TEST(WhyTest, CordonedNodesWouldDo) {
  Team team("100");
  team.Node("n3", {{"cpu", "4"}}, Json::Obj(), Json::Obj({{"unschedulable", true}}));
  team.Node("n4", {{"cpu", "4"}}, Json::Obj(), Json::Obj({{"unschedulable", true}}));
  team.Waiting({.name = "new", .pods = 3, .each = {{"cpu", "4"}}});
  const JobAnswer answer = AskJob(team, "job/new");
  ASSERT_THAT(Texts(answer), Contains(HasSubstr("uncordon: uncordon 1 node: n3")));
}

TEST(WhyTest, AStoppedQueueIsToBeResumed) {
  Team team("8", Json::Obj({{"stopPolicy", "Hold"}}));
  team.Waiting({.name = "new"});
  const JobAnswer answer = AskJob(team, "job/new");
  EXPECT_THAT(Texts(answer), ElementsAre("resume: resume ClusterQueue cq (spec.stopPolicy: None)"));
  const auto queue = std::get<QueueAnswer>(Ask(team, "queue/main").what);
  EXPECT_FALSE(queue.active);
  EXPECT_THAT(queue.summary, HasSubstr("admits nothing"));
}

TEST(WhyTest, AHigherPriorityClassSaysWhoWouldHaveToGiveWay) {
  Team team("4", Json::Obj({{"preemption", Json::Obj({{"withinClusterQueue", "LowerPriority"}})}}));
  team.PriorityClass("high", 10);
  team.Running({.name = "old", .pods = 4}, "default", {"n1"});
  team.Waiting({.name = "new", .pods = 2});
  const JobAnswer answer = AskJob(team, "job/new");
  EXPECT_THAT(Texts(answer),
              Contains(AllOf(HasSubstr("priority class high"),
                             HasSubstr("1 job would have to give way: Job team/old"))));
}

TEST(WhyTest, BehindTheHeadOfAStrictQueueNothingOfItsOwnHelps) {
  Team team("8", Json::Obj({{"queueingStrategy", "StrictFIFO"}}));
  team.Waiting({.name = "first", .pods = 3, .each = {{"cpu", "4"}}});
  team.Waiting({.name = "second", .created = "2026-12-01T12:05:00Z"});
  const JobAnswer answer = AskJob(team, "job/second");
  EXPECT_EQ(answer.reason, "BehindHead");
  EXPECT_EQ(answer.position, 2U);
  EXPECT_EQ(answer.waiting, 2U);
  EXPECT_THAT(
      Texts(answer),
      Contains("ahead: when what is before it in the queue is gone, or waits elsewhere: Job "
               "team/first"));
}

TEST(WhyTest, QuotaThatTheCohortLendsIsShownAndCounted) {
  World world;
  world.Flavor("default");
  world.Queue("mine", {{"default", {{"cpu", "2"}}}}, Json::Obj({{"cohortName", "all"}}));
  world.Queue("theirs", {{"default", {{"cpu", "4"}}}}, Json::Obj({{"cohortName", "all"}}));
  world.LocalQueue("main", "mine");
  world.LocalQueue("other", "theirs");
  world.Node("n1", {{"cpu", "16"}});
  world.Running({.name = "lent", .pods = 4, .queue = "other"}, "default", {"n1"});
  world.Waiting({.name = "new", .pods = 3});
  const JobAnswer answer = AskJob(world, "job/new");
  EXPECT_EQ(answer.cohort, "all");
  EXPECT_EQ(answer.quota.front().cohort_nominal, 6000);
  EXPECT_EQ(answer.quota.front().cohort_reserved, 4000);
  ASSERT_EQ(answer.holders.size(), 1U);
  EXPECT_EQ(answer.holders.front().cluster_queue, "theirs");
  EXPECT_THAT(Texts(answer),
              Contains("quota: 1 more quota of cpu in flavor default in ClusterQueue mine"));
}

TEST(WhyTest, QuotaUsedByJobsThatMayNotBeListedIsSaidAndNothingIsPromised) {
  Team team("8");
  Json queue = *team.state.Find("ClusterQueue", {"", "cq"});
  queue.Set(
      "status",
      Json::Obj(
          {{"flavorsReservation",
            Json::Arr({Json::Obj(
                {{"name", "default"},
                 {"resources", Json::Arr({Json::Obj({{"name", "cpu"}, {"total", "6"}})})}})})}}));
  team.Add(queue);
  team.Waiting({.name = "new", .pods = 4});
  const Answer answer = Ask(team, "job/new");
  const JobAnswer& job = std::get<JobAnswer>(answer.what);
  EXPECT_FALSE(job.remedies.has_value());
  EXPECT_THAT(job.summary, HasSubstr("can't be seen from here"));
  EXPECT_THAT(answer.notes, ElementsAre(HasSubstr("6 cpu of flavor default in ClusterQueue cq")));
}

TEST(WhyTest, AQueueThatMayNotBeListedIsNotCalledMissingAndTheStatusIsQuoted) {
  World world;
  world.LocalQueue("main", "secret");
  world.Waiting({.name = "new"});
  Json workload = *world.state.Find("Workload", World::WorkloadKey("new"));
  workload.Set("status",
               Json::Obj({{"conditions", Json::Arr({Json::Obj({{"type", "QuotaReserved"},
                                                               {"status", "False"},
                                                               {"reason", "Pending"},
                                                               {"message", "2 more needed"}})})}}));
  world.Add(workload);
  const JobAnswer answer = AskJob(world, "job/new");
  EXPECT_EQ(answer.summary,
            "waits, and ClusterQueue secret is not in the input: it doesn't exist, or may not be "
            "listed");
  EXPECT_EQ(answer.message, "2 more needed");
  EXPECT_FALSE(answer.remedies.has_value());
}

TEST(WhyTest, WhatDoesNotWaitIsAnAnswerToo) {
  Team team("8");
  team.Running({.name = "runs", .pods = 2}, "default", {"n1", "n2"});
  team.Waiting({.name = "fits", .pods = 1});
  Json loose = *team.state.Find("Job", {"team", "fits"});
  loose.At("metadata").Set("name", "loose");
  loose.At("metadata").Set("uid", "uid-loose");
  loose.At("metadata").Erase("labels");
  team.Add(loose);
  Json ended = *team.state.Find("Job", {"team", "runs"});
  ended.At("metadata").Set("name", "ended");
  ended.At("metadata").Set("uid", "uid-ended");
  ended.Set("status",
            Json::Obj({{"conditions",
                        Json::Arr({Json::Obj({{"type", "Complete"}, {"status", "True"}})})}}));
  team.Add(ended);
  Json off = *team.state.Find("Workload", {"team", "job-fits"});
  off.At("metadata").Set("name", "off");
  off.At("metadata").Set("uid", "uid-off");
  off.At("metadata").Erase("ownerReferences");
  off.At("spec").Set("active", false);
  team.Add(off);

  const JobAnswer runs = AskJob(team, "job/runs");
  EXPECT_EQ(runs.state, JobAnswer::State::kHasQuota);
  EXPECT_THAT(runs.summary, HasSubstr("2 of 2 pods have a node"));
  EXPECT_EQ(AskJob(team, "pod/runs-0").title, "Job team/runs");
  EXPECT_EQ(AskJob(team, "workload/job-runs").title, "Job team/runs");
  EXPECT_EQ(AskJob(team, "job/fits").state, JobAnswer::State::kStartsNext);
  const JobAnswer not_queued = AskJob(team, "job/loose");
  EXPECT_EQ(not_queued.state, JobAnswer::State::kNotQueued);
  EXPECT_THAT(not_queued.summary, HasSubstr("names no queue"));
  EXPECT_EQ(AskJob(team, "job/ended").state, JobAnswer::State::kFinished);
  const JobAnswer held = AskJob(team, "workload/off");
  EXPECT_EQ(held.state, JobAnswer::State::kHeldBack);
  EXPECT_THAT(held.summary, HasSubstr("deactivated"));
}

TEST(WhyTest, AQueueSaysWhoIsNextAndWhy) {
  Team team("4");
  team.Running({.name = "old", .pods = 4}, "default", {"n1"});
  team.Waiting({.name = "new"});
  team.Waiting({.name = "later", .created = "2026-12-01T12:05:00Z"});
  for (const char* target : {"queue/main", "clusterqueue/cq", "queue/cq"}) {
    const auto queue = std::get<QueueAnswer>(Ask(team, target).what);
    EXPECT_TRUE(queue.active);
    EXPECT_EQ(queue.waiting, 2U);
    EXPECT_EQ(queue.holding, 1U);
    EXPECT_EQ(queue.head, "Job team/new");
    EXPECT_EQ(queue.head_reason, "WaitingForQuota");
    EXPECT_EQ(queue.quota.front().reserved, 4000);
  }
}

TEST(WhyTest, UnknownNamesAndFormsAreSaidClearly) {
  Team team;
  team.Waiting({.name = "train"});
  team.state.Finish();
  const auto answer = Explain(team.state, *ParseTarget("job/trian", "team"), team.now(), {});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().message, "Job team/trian doesn't exist");
  EXPECT_THAT(Candidates(team.state, *ParseTarget("job/trian", "team")), ElementsAre("train"));
  for (const char* wrong : {"train", "job/", "deployment/x", ""}) {
    EXPECT_FALSE(ParseTarget(wrong, "team")) << wrong;
  }
}

TEST(WhyTest, TheSearchEndsWithItsBudgetAndSaysSo) {
  Team team("4");
  team.Running({.name = "old", .pods = 4}, "default", {"n1"});
  team.Waiting({.name = "new", .pods = 4});
  team.state.Finish();
  const auto base = team.state.Decide(team.now());
  const Remedies all = FindRemedies(team.state, *base, World::WorkloadKey("new"), team.now(), {});
  EXPECT_FALSE(all.cut_short);
  const Remedies few =
      FindRemedies(team.state, *base, World::WorkloadKey("new"), team.now(), {.trials = 2});
  EXPECT_TRUE(few.cut_short);
  EXPECT_EQ(few.tried, 2U);
}

TEST(WhyTest, TheTextKeepsToItsWidthAndJsonHasTheSame) {
  Team team("8");
  for (const char* name : {"a-job-with-a-rather-long-name-of-a-team", "b", "c", "d", "e", "f"}) {
    team.Running({.name = name}, "default", {"n1"});
  }
  team.Waiting({.name = "new", .pods = 5});
  const Answer answer = Ask(team, "job/new");
  for (const size_t width : {80U, 120U}) {
    const std::string text = ToText(answer, width);
    EXPECT_THAT(text, Not(HasSubstr("\x1b")));
    for (size_t from = 0; from < text.size();) {
      const size_t end = text.find('\n', from);
      EXPECT_LE(audit::Columns(text.substr(from, end - from)), width);
      from = end + 1;
    }
    EXPECT_THAT(text, HasSubstr("and 1 more job (-o json has all)"));
  }
  const Json json = ToJson(answer);
  EXPECT_EQ(json["state"].AsString(), "Waits");
  EXPECT_EQ(json["holders"].AsArray().size(), 6U);
  EXPECT_EQ(json["remedies"].AsArray().size(),
            std::get<JobAnswer>(answer.what).remedies->found.size());
  EXPECT_EQ(json["when"].AsString(), "unknown");
}

}  // namespace
}  // namespace tutti::why
