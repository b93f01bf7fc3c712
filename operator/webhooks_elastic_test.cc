// SPDX-License-Identifier: Apache-2.0
// Elastic Jobs: their gate, and what can't be elastic.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/testing/parse.h"
#include "operator/webhooks.h"

namespace tutti::webhooks {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Json JobWith(const std::string& annotations, const std::string& pod_spec = R"("containers":[])",
             const std::string& queue = "q") {
  return P(R"({"metadata":{"name":"j","annotations":{)" + annotations + R"(},"labels":{)" +
           (queue.empty() ? "" : R"("kueue.x-k8s.io/queue-name":")" + queue + "\"") +
           R"(}},"spec":{"suspend":true,"parallelism":4,"template":{"spec":{)" + pod_spec + "}}}}");
}

constexpr const char* kElastic = R"("kueue.x-k8s.io/elastic-job":"true")";

Rules ElasticRules(bool on = true) {
  Rules rules;
  rules.elastic_jobs = on;
  return rules;
}

Request CreateOf(const Json& object) {
  static const Json kNone;
  Request request;
  request.operation = "CREATE";
  request.ns = "team-a";
  request.user = "alice";
  request.object = &object;
  request.old_object = &kNone;
  return request;
}

std::string PatchOf(const Json& job, const Rules& rules = ElasticRules()) {
  return MutateJob(CreateOf(job), rules).patch.Dump();
}

TEST(WebhooksElasticTest, ThePodsOfAQueuedElasticJobGetTheirGateOnce) {
  EXPECT_EQ(PatchOf(JobWith(kElastic)),
            R"([{"op":"add","path":"/spec/template/spec/schedulingGates",)"
            R"("value":[{"name":"kueue.x-k8s.io/elastic-job"}]}])");
  EXPECT_EQ(PatchOf(JobWith(kElastic, R"("schedulingGates":[{"name":"a/b"}])")),
            R"([{"op":"add","path":"/spec/template/spec/schedulingGates/-",)"
            R"("value":{"name":"kueue.x-k8s.io/elastic-job"}}])");
  for (const Json& job :
       {JobWith(kElastic, R"("schedulingGates":[{"name":"kueue.x-k8s.io/elastic-job"}])"),
        JobWith(""), JobWith(R"("kueue.x-k8s.io/elastic-job":"yes")")}) {
    EXPECT_EQ(PatchOf(job), "null") << job.Dump();
  }
}

// Nobody would ever take the gate off.
TEST(WebhooksElasticTest, WithoutAQueueOrTheFeatureGateThereIsNone) {
  EXPECT_EQ(PatchOf(JobWith(kElastic, R"("containers":[])", "")), "null");
  EXPECT_EQ(PatchOf(JobWith(kElastic), ElasticRules(false)), "null");
}

TEST(WebhooksElasticTest, AnElasticJobIsNotAdmittedInPart) {
  const Json job = JobWith(std::string(kElastic) + R"(,"kueue.x-k8s.io/job-min-parallelism":"2")");
  EXPECT_THAT(ValidateJob(CreateOf(job), ElasticRules()).problems,
              ElementsAre(HasSubstr("kueue.x-k8s.io/job-min-parallelism")));
  EXPECT_THAT(ValidateJob(CreateOf(job), ElasticRules(false)).problems, IsEmpty());
}

TEST(WebhooksElasticTest, OnlyAJobCanBeElastic) {
  const Json set = JobWith(kElastic);
  EXPECT_THAT(ValidateSuspendedKind(CreateOf(set), ElasticRules()).problems,
              ElementsAre(HasSubstr("kueue.x-k8s.io/elastic-job")));
  EXPECT_THAT(ValidateSuspendedKind(CreateOf(set), ElasticRules(false)).problems, IsEmpty());
}

// kueue#12670: else nothing of the Workload could be written any more.
TEST(WebhooksElasticTest, AnElasticWorkloadMayStillSayWhatItGaveBackInItsFormerSize) {
  const auto workload = [](int count, int reclaimed, const std::string& annotations) {
    return P(R"({"metadata":{"name":"w","annotations":{)" + annotations +
             R"(}},"spec":{"podSets":[{"name":"main","count":)" + std::to_string(count) +
             R"(,"template":{"spec":{"containers":[]}}}]},"status":{"reclaimablePods":)" +
             R"([{"name":"main","count":)" + std::to_string(reclaimed) + "}]}}");
  };
  const Json before = workload(8, 4, kElastic);
  const auto problems = [&](const Json& now) {
    Request request = CreateOf(now);
    request.operation = "UPDATE";
    request.old_object = &before;
    return ValidateWorkload(request, ElasticRules()).problems;
  };
  EXPECT_THAT(problems(workload(3, 4, kElastic)), IsEmpty());
  EXPECT_THAT(problems(workload(2, 3, kElastic)), ElementsAre(HasSubstr("must be at most")));
  EXPECT_THAT(problems(workload(3, 4, "")), ElementsAre(HasSubstr("must be at most")));
}

TEST(WebhooksElasticTest, AnElasticWorkloadHasNoMinCount) {
  const Json workload = P(R"({"metadata":{"name":"w","annotations":{)" + std::string(kElastic) +
                          R"(}},"spec":{"podSets":[{"name":"main","count":3,"minCount":1,)"
                          R"("template":{"spec":{"containers":[]}}}]}})");
  EXPECT_THAT(ValidateWorkload(CreateOf(workload), ElasticRules()).problems,
              ElementsAre(HasSubstr("minCount")));
  EXPECT_THAT(ValidateWorkload(CreateOf(workload), ElasticRules(false)).problems, IsEmpty());
}

}  // namespace
}  // namespace tutti::webhooks
