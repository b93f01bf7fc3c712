// SPDX-License-Identifier: Apache-2.0
#include "api/core.h"

#include <gtest/gtest.h>

namespace tutti::api {
namespace {

Json Parsed(std::string_view text) {
  Result<Json> json = Json::Parse(text);
  EXPECT_TRUE(json.has_value()) << text;
  return json.value_or(Json());
}

TEST(Toleration, FollowsTheSchedulersRules) {
  const Taint taint{"gpu", "a100", "NoSchedule"};
  EXPECT_TRUE((Toleration{"gpu", "Equal", "a100", "NoSchedule", {}}).Tolerates(taint));
  EXPECT_TRUE((Toleration{"gpu", "", "a100", "", {}}).Tolerates(taint));
  EXPECT_TRUE((Toleration{"gpu", "Exists", "", "", {}}).Tolerates(taint));
  EXPECT_TRUE((Toleration{"", "Exists", "", "", {}}).Tolerates(taint));
  EXPECT_FALSE((Toleration{"", "Exists", "", "NoExecute", {}}).Tolerates(taint));
  EXPECT_FALSE((Toleration{"gpu", "Equal", "h100", "", {}}).Tolerates(taint));
  EXPECT_FALSE((Toleration{"cpu", "Exists", "", "", {}}).Tolerates(taint));
  EXPECT_FALSE((Toleration{"gpu", "Gt", "1", "", {}}).Tolerates(taint));
}

TEST(Requirement, FollowsTheSchedulersRules) {
  const StringMap labels{{"zone", "a"}, {"cores", "16"}, {"text", "x"}};
  const auto matches = [&](const char* key, const char* op, std::vector<std::string> values) {
    return Requirement{key, op, std::move(values)}.Matches(labels);
  };
  EXPECT_TRUE(matches("zone", "In", {"b", "a"}));
  EXPECT_FALSE(matches("zone", "In", {}));
  EXPECT_FALSE(matches("absent", "In", {""}));
  EXPECT_TRUE(matches("absent", "NotIn", {"a"}));
  EXPECT_FALSE(matches("zone", "NotIn", {"a"}));
  EXPECT_TRUE(matches("zone", "Exists", {}));
  EXPECT_TRUE(matches("absent", "DoesNotExist", {}));
  EXPECT_TRUE(matches("cores", "Gt", {"15"}));
  EXPECT_FALSE(matches("cores", "Gt", {"16"}));
  EXPECT_TRUE(matches("cores", "Lt", {"+17"}));
  EXPECT_FALSE(matches("cores", "Lt", {"1", "99"}));
  EXPECT_FALSE(matches("text", "Gt", {"1"}));
  EXPECT_FALSE(matches("absent", "Gt", {"1"}));
  EXPECT_FALSE(matches("zone", "Like", {"a"}));
}

TEST(NodeSelectorTerm, WithoutRequirementsMatchesNothing) {
  EXPECT_FALSE(NodeSelectorTerm{}.Matches({}, "n"));
  const NodeSelectorTerm by_name{{}, {{"metadata.name", "NotIn", {"n1"}}}};
  EXPECT_FALSE(by_name.Matches({}, "n1"));
  EXPECT_TRUE(by_name.Matches({}, "n2"));
  const NodeSelectorTerm other_field{{}, {{"metadata.uid", "In", {"n1"}}}};
  EXPECT_FALSE(other_field.Matches({}, "n1"));
}

TEST(LabelSelector, NilMatchesNothingAndEmptyMatchesAll) {
  EXPECT_FALSE(LabelSelectorFromJson(Json())->Matches({{"a", "b"}}));
  EXPECT_TRUE(LabelSelectorFromJson(Json::Obj())->Matches({}));
  const auto selector = LabelSelectorFromJson(Parsed(
      R"({"matchLabels":{"team":"x"},"matchExpressions":[{"key":"old","operator":"DoesNotExist"}]})"));
  ASSERT_TRUE(selector.has_value());
  EXPECT_TRUE(selector->Matches({{"team", "x"}}));
  EXPECT_FALSE(selector->Matches({{"team", "x"}, {"old", ""}}));
  EXPECT_FALSE(selector->Matches({{"team", "y"}}));
}

TEST(LabelSelector, RefusesWhatTheApiRefuses) {
  for (const char* text :
       {R"("x")", R"({"matchExpressions":[{"key":"a","operator":"Gt","values":["1"]}]})",
        R"({"matchExpressions":[{"key":"a","operator":"In"}]})",
        R"({"matchExpressions":[{"key":"a","operator":"Exists","values":["1"]}]})",
        R"({"matchExpressions":[{"operator":"Exists"}]})"}) {
    EXPECT_FALSE(LabelSelectorFromJson(Parsed(text)).has_value()) << text;
  }
  const auto bad = LabelSelectorFromJson(
      Parsed(R"({"matchExpressions":[{"key":"a","operator":"Near","values":["1"]}]})"));
  ASSERT_FALSE(bad.has_value());
  EXPECT_EQ(bad.error().message,
            "matchExpressions[0].operator: \"Near\" must be In, NotIn, Exists or DoesNotExist");
}

TEST(HostPort, ClashesOnTheSamePortProtocolAndAddress) {
  EXPECT_TRUE(Clash({"", "TCP", 80}, {"10.0.0.1", "TCP", 80}));
  EXPECT_TRUE(Clash({"10.0.0.1", "TCP", 80}, {"0.0.0.0", "", 80}));
  EXPECT_FALSE(Clash({"10.0.0.1", "TCP", 80}, {"10.0.0.2", "TCP", 80}));
  EXPECT_FALSE(Clash({"", "TCP", 80}, {"", "UDP", 80}));
  EXPECT_FALSE(Clash({"", "TCP", 80}, {"", "TCP", 81}));
  EXPECT_FALSE(Clash({"", "TCP", 0}, {"", "TCP", 0}));
}

TEST(Tolerations, SurviveARoundTrip) {
  const Json json = Parsed(R"([{"key":"a","operator":"Exists","effect":"NoExecute",
                                "tolerationSeconds":30},{"operator":"Exists"},
                               {"key":"b","value":"c"}])");
  EXPECT_EQ(ToJson(*TolerationsFromJson(json)), json);
  EXPECT_FALSE(TolerationsFromJson(Parsed(R"([1])")).has_value());
  EXPECT_FALSE(TaintsFromJson(Parsed(R"({"key":"a"})")).has_value());
}

TEST(Pod, RunningPodHasItsNodeReadinessAndRequests) {
  const auto pod = PodFromJson(Parsed(R"({
    "metadata":{"name":"p","namespace":"ns"},
    "spec":{"nodeName":"n1","schedulingGroup":{"podGroupName":"g"},
            "containers":[{"name":"c","resources":{"requests":{"cpu":"2"}}}]},
    "status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"},
              {"type":"PodScheduled","status":"True"}]}})"));
  ASSERT_TRUE(pod.has_value());
  EXPECT_EQ(pod->node_name, "n1");
  EXPECT_EQ(pod->scheduling_group, "g");
  EXPECT_TRUE(pod->ready);
  EXPECT_TRUE(pod->scheduled);
  EXPECT_FALSE(pod->Terminal());
  ASSERT_NE(pod->shape, nullptr);
  EXPECT_EQ(pod->shape->requests, (Amounts{{"cpu", 2000}}));
  EXPECT_EQ(pod->shape->node_name, "");
}

TEST(Pod, PendingPodSaysWhy) {
  const auto pod = PodFromJson(Parsed(R"({"metadata":{"name":"p"},"spec":{},"status":{
    "phase":"Pending","conditions":[{"type":"PodScheduled","status":"False",
    "reason":"Unschedulable","message":"0/3 nodes are available"}]}})"));
  ASSERT_TRUE(pod.has_value());
  EXPECT_FALSE(pod->scheduled);
  EXPECT_EQ(pod->unschedulable_message, "0/3 nodes are available");
}

TEST(Pod, TerminalPodHoldsNothingAndIdenticalPodsShareAShape) {
  const char* text = R"({"metadata":{"name":"p"},"spec":{"nodeName":"n1","containers":[
      {"resources":{"requests":{"cpu":"3"}}}]},"status":{"phase":"PHASE"}})";
  const auto with_phase = [&](const char* phase) {
    std::string copy = text;
    copy.replace(copy.find("PHASE"), 5, phase);
    return PodFromJson(Parsed(copy)).value_or(Pod());
  };
  EXPECT_TRUE(with_phase("Succeeded").Terminal());
  EXPECT_TRUE(with_phase("Failed").shape->requests.empty());
  const Pod one = with_phase("Running");
  const Pod two = with_phase("Pending");
  EXPECT_EQ(one.shape, two.shape);
  EXPECT_EQ(one.shape->requests.at("cpu"), 3000);
}

TEST(Node, CountsAllocatableAndKeepsTaints) {
  const auto node = NodeFromJson(Parsed(R"({"metadata":{"name":"n"},
    "spec":{"unschedulable":true,"taints":[{"key":"k","effect":"NoSchedule"}]},
    "status":{"capacity":{"cpu":"8"},"allocatable":{"cpu":"7910m","memory":"15Gi","pods":"110",
              "nvidia.com/gpu":"4"}}})"));
  ASSERT_TRUE(node.has_value());
  EXPECT_TRUE(node->unschedulable);
  ASSERT_EQ(node->taints.size(), 1U);
  EXPECT_EQ(node->allocatable,
            (Amounts{{"cpu", 7910}, {"memory", 15LL << 30}, {"nvidia.com/gpu", 4}, {"pods", 110}}));
}

TEST(LimitRange, IsDefaultedAsTheApiServerDoes) {
  const auto range = LimitRangeFromJson(Parsed(R"({"metadata":{"name":"r","namespace":"ns"},
    "spec":{"limits":[{"type":"Container","max":{"cpu":"4"},"min":{"cpu":"1","memory":"1Gi"}},
                      {"type":"Pod","max":{"cpu":"8"}}]}})"));
  ASSERT_TRUE(range.has_value());
  ASSERT_EQ(range->items.size(), 2U);
  EXPECT_EQ(ToJson(range->items[0].default_limit).Dump(), R"({"cpu":"4"})");
  EXPECT_EQ(ToJson(range->items[0].default_request).Dump(), R"({"cpu":"4","memory":"1Gi"})");
  EXPECT_TRUE(range->items[1].default_limit.empty());
}

TEST(SmallKinds, AreDecoded) {
  EXPECT_EQ(
      PriorityClassFromJson(Parsed(R"({"metadata":{"name":"p"},"value":-7,"globalDefault":true})"))
          ->value,
      -7);
  EXPECT_EQ(RuntimeClassFromJson(
                Parsed(R"({"metadata":{"name":"r"},"overhead":{"podFixed":{"cpu":"250m"}}})"))
                ->overhead.at("cpu")
                .MilliValue(),
            250);
  EXPECT_EQ(
      NamespaceFromJson(Parsed(R"({"metadata":{"name":"n","labels":{"a":"b"}}})"))->meta.Label("a"),
      "b");
  EXPECT_EQ(PodGroupFromJson(Parsed(R"({"metadata":{"name":"g"},"spec":{"schedulingPolicy":
                {"gang":{"minCount":5}}}})"))
                ->min_count,
            5);
  EXPECT_EQ(PodGroupFromJson(
                Parsed(R"({"metadata":{"name":"g"},"spec":{"schedulingPolicy":{"basic":{}}}})"))
                ->min_count,
            0);
}

TEST(Decoders, RefuseObjectsWithoutANameAndNameTheBadField) {
  EXPECT_EQ(PodFromJson(Json::Obj()).error().code, ErrorCode::kDecode);
  EXPECT_EQ(NodeFromJson(Json(7)).error().code, ErrorCode::kDecode);
  const auto node =
      NodeFromJson(Parsed(R"({"metadata":{"name":"n"},"status":{"allocatable":{"cpu":"lots"}}})"));
  ASSERT_FALSE(node.has_value());
  EXPECT_NE(node.error().message.find("Node n: status.allocatable[cpu]"), std::string::npos);
}

}  // namespace
}  // namespace tutti::api
