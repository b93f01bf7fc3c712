// SPDX-License-Identifier: Apache-2.0
#include "api/batch.h"

#include <gtest/gtest.h>

namespace tutti::api {
namespace {

Job Parsed(std::string_view spec, std::string_view status = "{}") {
  Result<Json> json = Json::Parse(R"({"metadata":{"name":"j","namespace":"ns"},"spec":)" +
                                  std::string(spec) + R"(,"status":)" + std::string(status) + "}");
  EXPECT_TRUE(json.has_value()) << spec;
  Result<Job> job = JobFromJson(json.value_or(Json()));
  EXPECT_TRUE(job.has_value());
  return job.value_or(Job());
}

TEST(Job, WithoutSizesIsOnePod) {
  const Job job = Parsed("{}");
  EXPECT_EQ(job.parallelism, 1);
  EXPECT_EQ(job.completions, 1);
  EXPECT_EQ(job.PodCount(), 1);
}

TEST(Job, GangIsWhatIsStillToRunTogether) {
  EXPECT_EQ(Parsed(R"({"parallelism":4,"completions":10})").GangSize(), 4);
  EXPECT_EQ(Parsed(R"({"parallelism":4,"completions":10})", R"({"succeeded":8})").GangSize(), 2);
  EXPECT_EQ(Parsed(R"({"parallelism":4,"completions":10})",
                   R"({"succeeded":7,"uncountedTerminatedPods":{"succeeded":["a","b"]}})")
                .GangSize(),
            1);
  EXPECT_EQ(Parsed(R"({"parallelism":4,"completions":4,"completionMode":"Indexed"})",
                   R"({"succeeded":1,"completedIndexes":"0","failedIndexes":"1-2"})")
                .GangSize(),
            1);
  EXPECT_EQ(Parsed(R"({"parallelism":4,"completions":2})", R"({"succeeded":9})").GangSize(), 0);
  EXPECT_EQ(Parsed(R"({"parallelism":3})").GangSize(), 3);
  EXPECT_EQ(Parsed(R"({"parallelism":3})", R"({"succeeded":1,"active":2})").GangSize(), 2);
}

TEST(Job, IndexesThatFewerCompletionsTookAwayDontCountAsDone) {
  const auto job = JobFromJson(*Json::Parse(
      R"({"metadata":{"name":"a"},"spec":{"parallelism":10,"completions":10,
          "completionMode":"Indexed"},"status":{"succeeded":15,"completedIndexes":"5-9,12-19",
          "failedIndexes":"4,11"}})"));
  ASSERT_TRUE(job);
  EXPECT_EQ(job->GangSize(), 4);  // 0-3
}

TEST(Job, IsFinishedByItsTerminalConditionsOnly) {
  bool success = false;
  std::string message;
  EXPECT_FALSE(Parsed("{}", R"({"conditions":[{"type":"FailureTarget","status":"True"}]})")
                   .Finished(&success, &message));
  EXPECT_FALSE(Parsed("{}", R"({"conditions":[{"type":"Complete","status":"False"}]})").Finished());
  EXPECT_TRUE(
      Parsed("{}", R"({"conditions":[{"type":"Complete","status":"True","message":"done"}]})")
          .Finished(&success, &message));
  EXPECT_TRUE(success);
  EXPECT_EQ(message, "done");
  EXPECT_TRUE(Parsed("{}", R"({"conditions":[{"type":"Failed","status":"True"}]})")
                  .Finished(&success, nullptr));
  EXPECT_FALSE(success);
}

TEST(Job, KeepsTheTemplateAsSubmitted) {
  const Job job = Parsed(
      R"({"suspend":true,"managedBy":"x/y","template":{"spec": {"z":1, "containers":[{"name":"c",
          "unknownField":[1.5,null]}]}}})");
  EXPECT_TRUE(job.suspend);
  EXPECT_EQ(job.managed_by, "x/y");
  EXPECT_EQ(job.template_json,
            R"({"spec":{"z":1,"containers":[{"name":"c","unknownField":[1.5,null]}]}})");
}

TEST(Job, NumbersOutOfRangeEndAtTheLimits) {
  const Job job =
      Parsed(R"({"parallelism":99999999999,"completions":-5})", R"({"active":-1,"ready":1e30})");
  EXPECT_EQ(job.parallelism, INT32_MAX);
  EXPECT_EQ(job.completions, 0);
  EXPECT_EQ(job.active, 0);
  EXPECT_EQ(job.ready, INT32_MAX);
  EXPECT_EQ(job.GangSize(), 0);
}

TEST(Job, WithoutANameIsRefused) {
  const Result<Job> job = JobFromJson(Json::Obj());
  ASSERT_FALSE(job.has_value());
  EXPECT_EQ(job.error().code, ErrorCode::kDecode);
}

TEST(CountIndexes, ReadsRangesAndSkipsNonsense) {
  const auto count = [](std::string_view ranges) { return CountIndexes(ranges, INT32_MAX); };
  EXPECT_EQ(count(""), 0);
  EXPECT_EQ(count("1,3-5,7"), 5);
  EXPECT_EQ(count("0-99999"), 100000);
  EXPECT_EQ(count("x,2,5-3,-1,4-,,6"), 2);
  EXPECT_EQ(count("0-9223372036854775807,0-9223372036854775807"), INT32_MAX);
  EXPECT_EQ(CountIndexes("1,3-5,7", 4), 2);
}

}  // namespace
}  // namespace tutti::api
