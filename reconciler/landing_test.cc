// SPDX-License-Identifier: Apache-2.0
#include "reconciler/landing.h"

#include <deque>

#include <gtest/gtest.h>

namespace tutti::reconciler {
namespace {

using namespace std::chrono_literals;
using Kind = LandingResult::Kind;

const Time kStart{1'900'000'000s};

class LandingTest : public ::testing::Test {
 protected:
  api::Pod& Add(const std::string& node, const std::string& group = "g",
                const char* phase = "Pending") {
    api::Pod& pod = pods_.emplace_back();
    pod.meta.name = "pod-" + std::to_string(pods_.size());
    pod.node_name = node;
    pod.scheduling_group = group;
    pod.phase = phase;
    return pod;
  }
  LandingResult Judge(Duration after, std::optional<Duration> first_bound = std::nullopt) {
    LandingInput input;
    for (const api::Pod& pod : pods_) {
      input.pods.push_back(&pod);
    }
    input.needed = 3;
    input.group = group_;
    input.released_at = kStart;
    if (first_bound) {
      input.first_bound_at = kStart + *first_bound;
    }
    input.timeout = 60s;
    input.partial_timeout = 10s;
    return JudgeLanding(input, kStart + after);
  }
  std::deque<api::Pod> pods_;
  std::string group_ = "g";
};

TEST_F(LandingTest, AGangHasLandedWhenAllItsPodsHaveANode) {
  Add("n1");
  Add("n1");
  EXPECT_EQ(Judge(1s, 1s).kind, Kind::kWaiting);
  Add("n2");
  EXPECT_EQ(Judge(1s, 1s).kind, Kind::kLanded);
}

TEST_F(LandingTest, FinishedAndDyingPodsDoNotCount) {
  Add("n1");
  Add("n1");
  Add("n2", "g", "Succeeded");
  Add("n2").meta.deleted = kStart;
  const LandingResult result = Judge(1s, 1s);
  EXPECT_EQ(result.kind, Kind::kWaiting);
  EXPECT_EQ(result.bound, 2);
  EXPECT_EQ(result.live, 2);
}

TEST_F(LandingTest, NothingBoundIsTakenBackAtTheTimeout) {
  Add("").unschedulable_message = "0/2 nodes are available";
  Add("");
  Add("");
  const LandingResult before = Judge(59s);
  EXPECT_EQ(before.kind, Kind::kWaiting);
  EXPECT_EQ(before.look_again_at, kStart + 60s);
  const LandingResult result = Judge(60s);
  EXPECT_EQ(result.kind, Kind::kTakeBack);
  EXPECT_EQ(result.message,
            "0 of 3 pods were placed within 60s; pod pod-1: 0/2 nodes are available");
}

TEST_F(LandingTest, ATornGangIsTakenBackTenSecondsAfterItsFirstBinding) {
  Add("n1");
  Add("");
  Add("");
  const LandingResult before = Judge(14s, 5s);
  EXPECT_EQ(before.kind, Kind::kWaiting);
  EXPECT_EQ(before.look_again_at, kStart + 15s);
  const LandingResult result = Judge(15s, 5s);
  EXPECT_EQ(result.kind, Kind::kTakeBack);
  EXPECT_EQ(result.message, "1 of 3 pods were placed 10s after the first");
}

TEST_F(LandingTest, WhenTheBoundOnesAreGoneTheWholeTimeoutCountsAgain) {
  Add("");
  Add("");
  Add("");
  EXPECT_EQ(Judge(30s, 5s).kind, Kind::kWaiting);
}

TEST_F(LandingTest, PodsThatWereNeverCreatedAreSaid) {
  Add("n1");
  Add("n1");
  const LandingResult result = Judge(60s, 55s);
  EXPECT_EQ(result.kind, Kind::kTakeBack);
  EXPECT_NE(result.message.find("only 2 pods exist"), std::string::npos) << result.message;
  EXPECT_NE(result.message.find("ResourceQuota"), std::string::npos) << result.message;
}

TEST_F(LandingTest, AWaitingPodOutsideOfItsGroupIsTakenBackAtOnce) {
  Add("");
  Add("", "");
  const LandingResult result = Judge(1s);
  EXPECT_EQ(result.kind, Kind::kTakeBack);
  EXPECT_NE(result.message.find("pod pod-2 is not in group g"), std::string::npos)
      << result.message;
}

TEST_F(LandingTest, WithoutGroupsMembershipIsNotAsked) {
  group_.clear();
  Add("n1", "");
  Add("n1", "");
  Add("n1", "somebody's");
  EXPECT_EQ(Judge(1s, 1s).kind, Kind::kLanded);
}

TEST_F(LandingTest, TheMessageIsThatOfAPodThatItselfDoesNotFit) {
  Add("").unschedulable_message = "waiting for minCount pods from a gang";
  Add("").unschedulable_message = "Insufficient nvidia.com/gpu";
  Add("");
  EXPECT_NE(Judge(60s).message.find("pod pod-2: Insufficient nvidia.com/gpu"), std::string::npos);
}

TEST_F(LandingTest, TheNewestEventSpeaks) {
  const auto events = Json::Parse(R"({"items":[
    {"message":"old","lastTimestamp":"2026-11-30T09:00:00Z"},
    {"message":"new","lastTimestamp":null,"series":{"lastObservedTime":"2026-11-30T09:00:09.5Z"}},
    {"message":"older","eventTime":"2026-11-30T08:00:00.000000Z"}]})");
  ASSERT_TRUE(events);
  EXPECT_EQ(NewestMessage(*events), "new");
  EXPECT_EQ(NewestMessage(Json()), "");
  const Json long_one = Json::Obj(
      {{"items", Json::Arr({Json::Obj({{"message", std::string(499, 'x') + "\u00e4\u00e4"}})})}});
  EXPECT_EQ(NewestMessage(long_one), std::string(499, 'x') + "…");
}

}  // namespace
}  // namespace tutti::reconciler
