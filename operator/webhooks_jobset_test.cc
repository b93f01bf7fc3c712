// SPDX-License-Identifier: Apache-2.0
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

// A held JobSet of 2 Jobs of 3 pods with these annotations on its pod template.
Json JobSetWith(const std::string& annotations, const std::string& queue = "lq") {
  return P(R"({"metadata":{"name":"train","labels":{"kueue.x-k8s.io/queue-name":")" + queue +
           R"("}},"spec":{"suspend":true,"replicatedJobs":[{"name":"workers","replicas":2,
             "template":{"spec":{"parallelism":3,"completions":3,"template":{"metadata":
             {"annotations":)" +
           annotations + "}}}}}]}}");
}

std::vector<std::string> ProblemsOf(const Json& object, const Json& old_object = Json()) {
  Request request;
  request.operation = old_object.IsNull() ? "CREATE" : "UPDATE";
  request.ns = "team-a";
  request.user = "alice";
  request.object = &object;
  request.old_object = &old_object;
  return ValidateJobSet(request, Rules{}).problems;
}

TEST(WebhooksJobSetTest, WhatHoldsForEveryHeldKindHoldsForJobSets) {
  EXPECT_THAT(ProblemsOf(JobSetWith("{}")), IsEmpty());
  EXPECT_THAT(ProblemsOf(JobSetWith("{}", "indexed_job")),
              ElementsAre(HasSubstr("kueue.x-k8s.io/queue-name")));
  Json resumed = JobSetWith("{}");
  resumed.At("spec").Set("suspend", false);
  EXPECT_THAT(ProblemsOf(resumed, JobSetWith("{}")), ElementsAre(HasSubstr("spec.suspend")));
}

TEST(WebhooksJobSetTest, WhatTopologyAnnotationsMaySay) {
  struct Case {
    std::string annotations;
    std::string problem;  // "" = none
  };
  const std::vector<Case> cases = {
      {R"({"kueue.x-k8s.io/podset-required-topology":"cloud.com/rack"})", ""},
      {R"({"kueue.x-k8s.io/podset-required-topology":"cloud.com/rack",
           "kueue.x-k8s.io/podset-preferred-topology":"cloud.com/rack"})",
       "more than one topology annotation"},
      {R"({"kueue.x-k8s.io/podset-preferred-topology":"no label!"})",
       "[kueue.x-k8s.io/podset-preferred-topology]: not the name of a node label"},
      {R"({"kueue.x-k8s.io/podset-unconstrained-topology":"yes"})", "\"true\" or \"false\""},
      {R"({"kueue.x-k8s.io/podset-group-name":"g"})", "neither"},
      {R"({"kueue.x-k8s.io/podset-group-name":"7",
           "kueue.x-k8s.io/podset-required-topology":"cloud.com/rack"})",
       "must not be a number"},
      {R"({"kueue.x-k8s.io/podset-slice-size":"2"})", "may not be set when"},
      {R"({"kueue.x-k8s.io/podset-slice-required-topology":"cloud.com/rack"})", "must be set when"},
      {R"({"kueue.x-k8s.io/podset-slice-required-topology":"cloud.com/rack",
           "kueue.x-k8s.io/podset-slice-size":"6"})",
       ""},
      {R"({"kueue.x-k8s.io/podset-slice-required-topology":"cloud.com/rack",
           "kueue.x-k8s.io/podset-slice-size":"30"})",
       "Invalid value: \"30\": must not be greater than pod set count 6"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.annotations);
    if (c.problem.empty()) {
      EXPECT_THAT(ProblemsOf(JobSetWith(c.annotations)), IsEmpty());
    } else {
      EXPECT_THAT(ProblemsOf(JobSetWith(c.annotations)),
                  ElementsAre(AllOf(HasSubstr("spec.replicatedJobs[0].template.spec.template."
                                              "metadata.annotations"),
                                    HasSubstr(c.problem))));
    }
  }
}

}  // namespace
}  // namespace tutti::webhooks
