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

Json SetWith(const std::string& queue, int replicas, const std::string& cpu = "1",
             const std::string& status = "{}") {
  const std::string labels =
      queue.empty() ? "{}" : R"({"kueue.x-k8s.io/queue-name":")" + queue + R"("})";
  return P(R"({"metadata":{"name":"db","labels":)" + labels + R"(},"spec":{"replicas":)" +
           std::to_string(replicas) +
           R"(,"template":{"metadata":{"labels":{"app":"db"}},"spec":{"containers":[{"name":"c",)" +
           R"("image":"a:1","resources":{"requests":{"cpu":")" + cpu + R"("}}}]}}},"status":)" +
           status + "}");
}

Rules StatefulSetRules() {
  Rules rules;
  rules.statefulsets = true;
  return rules;
}

Request RequestOf(const Json& object, const Json& old_object) {
  Request request;
  request.operation = old_object.IsNull() ? "CREATE" : "UPDATE";
  request.ns = "team-a";
  request.user = "alice";
  request.object = &object;
  request.old_object = &old_object;
  return request;
}

std::string PatchOf(const Json& object, const Rules& rules = StatefulSetRules()) {
  const Json none;
  return MutateStatefulSet(RequestOf(object, none), rules).patch.Dump();
}

std::vector<std::string> ProblemsOf(const Json& object, const Json& old_object = Json(),
                                    const Rules& rules = StatefulSetRules()) {
  return ValidateStatefulSet(RequestOf(object, old_object), rules).problems;
}

constexpr const char* kMarked =
    R"([{"op":"add","path":"/spec/template/metadata/annotations","value":{}},)"
    R"({"op":"add","path":"/spec/template/metadata/annotations/kueue.x-k8s.io~1pod-suspending-parent","value":"statefulset"}])";

TEST(WebhooksStatefulSetTest, ATemplateWithAQueueIsMarkedAndNothingElseIsChanged) {
  EXPECT_EQ(PatchOf(SetWith("lq", 2)), kMarked);
  EXPECT_EQ(PatchOf(SetWith("", 2)), "null");
  EXPECT_EQ(PatchOf(SetWith("lq", 2), Rules{}), "null");
}

TEST(WebhooksStatefulSetTest, WhatIsQueuedWithoutAQueueOrByDefault) {
  Rules all = StatefulSetRules();
  all.manage_jobs_without_queue_name = true;
  EXPECT_EQ(PatchOf(SetWith("", 2), all), kMarked);
  Rules by_default = StatefulSetRules();
  by_default.has_default_queue = [](const std::string&) { return true; };
  EXPECT_THAT(PatchOf(SetWith("", 2), by_default), HasSubstr(R"(queue-name","value":"default")"));
  // What somebody else has made is queued when it says so itself.
  Json made = SetWith("", 2);
  made.At("metadata")
      .Set("ownerReferences",
           P(R"([{"apiVersion":"acme/v1","kind":"Database","controller":true}])"));
  EXPECT_EQ(PatchOf(made, all), "null");
  EXPECT_EQ(PatchOf(made, by_default), "null");
  made.At("metadata").Set("labels", P(R"({"kueue.x-k8s.io/queue-name":"lq"})"));
  EXPECT_EQ(PatchOf(made), kMarked);
}

TEST(WebhooksStatefulSetTest, OneWhosePodsAreHeldForAnotherKindIsLeftAlone) {
  Json set = SetWith("not a queue", 2);
  set.At("spec")
      .At("template")
      .At("metadata")
      .Set(
          "annotations",
          P(R"({"kueue.x-k8s.io/pod-suspending-parent":"leaderworkerset.x-k8s.io/leaderworkerset"})"));
  EXPECT_EQ(PatchOf(set), "null");
  EXPECT_THAT(ProblemsOf(set), IsEmpty());
}

TEST(WebhooksStatefulSetTest, TheQueueStaysWhilePodsAreReady) {
  const Json ready = SetWith("lq", 2, "1", R"({"readyReplicas":1})");
  EXPECT_THAT(ProblemsOf(SetWith("not a queue", 2)),
              ElementsAre(HasSubstr("kueue.x-k8s.io/queue-name")));
  EXPECT_THAT(ProblemsOf(SetWith("other", 2), ready),
              ElementsAre(HasSubstr("while pods are ready: scale to 0 first")));
  EXPECT_THAT(ProblemsOf(SetWith("other", 2), SetWith("lq", 2)), IsEmpty());
  EXPECT_THAT(ProblemsOf(SetWith("", 2), SetWith("lq", 2)),
              ElementsAre(HasSubstr("cannot be removed")));
}

TEST(WebhooksStatefulSetTest, ItIsScaledToZeroAndFromZeroOnly) {
  EXPECT_THAT(ProblemsOf(SetWith("lq", 3), SetWith("lq", 2)),
              ElementsAre(HasSubstr("spec.replicas: cannot be changed from 2 to 3")));
  EXPECT_THAT(ProblemsOf(SetWith("lq", 0), SetWith("lq", 2)), IsEmpty());
  EXPECT_THAT(ProblemsOf(SetWith("lq", 5), SetWith("lq", 0)), IsEmpty());
  EXPECT_THAT(ProblemsOf(SetWith("lq", 5, "1", R"({"replicas":1})"), SetWith("lq", 0)),
              ElementsAre(HasSubstr("scaling down is still in progress")));
  EXPECT_THAT(ProblemsOf(SetWith("", 3), SetWith("", 2)), IsEmpty());
}

TEST(WebhooksStatefulSetTest, WhatItsPodsAskForStaysAsItIs) {
  EXPECT_THAT(ProblemsOf(SetWith("lq", 2, "2"), SetWith("lq", 2, "1")),
              ElementsAre(HasSubstr("spec.template.spec")));
  EXPECT_THAT(ProblemsOf(SetWith("", 2, "2"), SetWith("", 2, "1")), IsEmpty());
  Json image = SetWith("lq", 2);
  image.At("spec").At("template").At("spec").At("containers").MutableArray()[0].Set("image", "b:1");
  EXPECT_THAT(ProblemsOf(image, SetWith("lq", 2)), IsEmpty());
}

TEST(WebhooksStatefulSetTest, ItCanNotBeElastic) {
  Json set = SetWith("lq", 2);
  set.At("metadata").Set("annotations", P(R"({"kueue.x-k8s.io/elastic-job":"true"})"));
  EXPECT_THAT(ProblemsOf(set), IsEmpty());
  Rules elastic = StatefulSetRules();
  elastic.elastic_jobs = true;
  EXPECT_THAT(ProblemsOf(set, Json(), elastic), ElementsAre(HasSubstr("elastic-job")));
}

TEST(WebhooksStatefulSetTest, ItsPodsAreHeldWithoutAFinalizer) {
  const Json pod = P(R"({"metadata":{"annotations":{"kueue.x-k8s.io/pod-suspending-parent":)"
                     R"("statefulset"}},"spec":{"containers":[{"name":"c"}]}})");
  const Json none;
  const std::string patch = MutatePod(RequestOf(pod, none), StatefulSetRules()).patch.Dump();
  EXPECT_THAT(patch, HasSubstr(R"("/spec/schedulingGates")"));
  EXPECT_THAT(patch, Not(HasSubstr("finalizers")));
  EXPECT_EQ(MutatePod(RequestOf(pod, none), Rules{}).patch.Dump(), "null");
}

}  // namespace
}  // namespace tutti::webhooks
