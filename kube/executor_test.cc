// SPDX-License-Identifier: Apache-2.0
#include "kube/executor.h"

#include <gtest/gtest.h>

#include "kube/fake_api_server.h"
#include "kube/fake_loop.h"

namespace tutti::kube {
namespace {

using namespace std::chrono_literals;

const api::Resource kThings{"", "v1", "configmaps", "ConfigMap", true};

api::WriteRequest Create(const std::string& name) {
  return {api::Verb::kCreate, kThings, {"ns", name}, "", "", Json::Obj()};
}
api::WriteRequest Patch(const std::string& name, int value) {
  return {api::Verb::kMergePatch,
          kThings,
          {"ns", name},
          "",
          "",
          Json::Obj({{"data", Json::Obj({{"n", value}})}})};
}

class ExecutorTest : public ::testing::Test {
 protected:
  struct Open {
    api::WriteRequest request;
    std::function<void(Result<Json>)> answer;
  };

  void Make(ExecutorOptions options = {}) {
    executor_ = std::make_unique<Executor>(
        loop_,
        [this](const api::WriteRequest& request, std::function<void(Result<Json>)> done) {
          open_.push_back({request, std::move(done)});
        },
        options);
  }
  void Submit(const std::string& key, std::vector<api::WriteRequest> batch, uint64_t token = 0) {
    executor_->Submit(key, std::move(batch), token,
                      [this](const WriteOutcome& outcome) { outcomes_.push_back(outcome); });
  }
  // Answers the oldest open request.
  void Answer(Result<Json> result) {
    ASSERT_FALSE(open_.empty());
    const Open first = std::move(open_.front());
    open_.pop_front();
    first.answer(std::move(result));
    loop_.RunPosted();
  }
  void Fail(ErrorCode code) { Answer(tutti::Fail(code, "no")); }

  FakeLoop loop_;
  std::deque<Open> open_;
  std::vector<WriteOutcome> outcomes_;
  std::unique_ptr<Executor> executor_;
};

TEST_F(ExecutorTest, OneObjectsWritesGoOneAfterTheOther) {
  Make();
  Submit("a", {Create("a"), Patch("a", 1)}, 7);
  Submit("a", {Patch("a", 2)}, 8);
  Submit("b", {Create("b")}, 9);
  ASSERT_EQ(open_.size(), 2U);
  EXPECT_EQ(open_[0].request.key.name, "a");
  EXPECT_EQ(open_[1].request.key.name, "b");
  Answer(Json());
  EXPECT_EQ(open_.back().request.verb, api::Verb::kMergePatch);
  EXPECT_TRUE(outcomes_.empty());
  Answer(Json());  // b
  Answer(Json());  // a's patch
  ASSERT_EQ(outcomes_.size(), 2U);
  EXPECT_EQ(outcomes_[1].token, 7U);
  EXPECT_EQ(outcomes_[1].done, 2U);
  EXPECT_EQ(outcomes_[1].attempts, 2);
  EXPECT_EQ(open_.front().request.body["data"]["n"].AsInt(), 2);
  Answer(Json());
  EXPECT_FALSE(executor_->Busy("a"));
}

TEST_F(ExecutorTest, TheFirstErrorEndsABatch) {
  Make();
  Submit("a", {Patch("a", 1), Patch("a", 2)}, 1);
  Fail(ErrorCode::kConflict);
  ASSERT_EQ(outcomes_.size(), 1U);
  EXPECT_EQ(outcomes_[0].result.error().code, ErrorCode::kConflict);
  EXPECT_EQ(outcomes_[0].done, 0U);
  EXPECT_FALSE(outcomes_[0].maybe_ours);
  EXPECT_TRUE(open_.empty());
}

TEST_F(ExecutorTest, ErrorsThatRepeatingCantHelpAreReturnedAtOnce) {
  Make();
  for (const ErrorCode code : {ErrorCode::kConflict, ErrorCode::kNotFound, ErrorCode::kInvalid,
                               ErrorCode::kForbidden, ErrorCode::kAlreadyExists}) {
    outcomes_.clear();
    Submit("a", {Patch("a", 1)});
    Fail(code);
    ASSERT_EQ(outcomes_.size(), 1U);
    EXPECT_EQ(outcomes_[0].result.error().code, code);
    EXPECT_EQ(outcomes_[0].attempts, 1);
  }
}

TEST_F(ExecutorTest, TroubleIsRetriedWithGrowingPausesWhileOtherObjectsGoOn) {
  Make();
  Submit("a", {Patch("a", 1)});
  Fail(ErrorCode::kUnavailable);
  EXPECT_TRUE(open_.empty());
  Submit("b", {Patch("b", 1)});
  ASSERT_EQ(open_.size(), 1U);
  Answer(Json());
  loop_.Advance(200ms);
  EXPECT_TRUE(open_.empty());
  loop_.Advance(150ms);
  ASSERT_EQ(open_.size(), 1U);
  Fail(ErrorCode::kTimeout);
  loop_.Advance(400ms);
  EXPECT_TRUE(open_.empty());
  loop_.Advance(250ms);
  Answer(Json());
  ASSERT_EQ(outcomes_.size(), 2U);
  EXPECT_TRUE(outcomes_[1].result.has_value());
  EXPECT_EQ(outcomes_[1].attempts, 3);
}

TEST_F(ExecutorTest, TheServersRetryAfterIsKept) {
  Make();
  Submit("a", {Patch("a", 1)});
  Answer(tutti::Fail(Error{ErrorCode::kThrottled, "busy", 429, 5s}));
  loop_.Advance(4900ms);
  EXPECT_TRUE(open_.empty());
  loop_.Advance(200ms);
  EXPECT_EQ(open_.size(), 1U);
}

TEST_F(ExecutorTest, ACreateThatExistsAfterALostAnswerMayBeOurs) {
  Make();
  Submit("a", {Create("a")});
  Fail(ErrorCode::kUnavailable);
  loop_.Advance(1s);
  Fail(ErrorCode::kAlreadyExists);
  ASSERT_EQ(outcomes_.size(), 1U);
  EXPECT_EQ(outcomes_[0].result.error().code, ErrorCode::kAlreadyExists);
  EXPECT_TRUE(outcomes_[0].maybe_ours);
}

TEST_F(ExecutorTest, AThrottledRequestWasNotCarriedOut) {
  Make();
  Submit("a", {Create("a")});
  Fail(ErrorCode::kThrottled);
  loop_.Advance(1s);
  Fail(ErrorCode::kAlreadyExists);
  ASSERT_EQ(outcomes_.size(), 1U);
  EXPECT_FALSE(outcomes_[0].maybe_ours);
}

TEST_F(ExecutorTest, RetriesEnd) {
  ExecutorOptions options;
  options.max_attempts = 3;
  Make(options);
  Submit("a", {Create("a")});
  for (int i = 0; i < 3; ++i) {
    loop_.Advance(1min);
    Fail(ErrorCode::kUnavailable);
  }
  ASSERT_EQ(outcomes_.size(), 1U);
  EXPECT_EQ(outcomes_[0].attempts, 3);
  EXPECT_EQ(outcomes_[0].result.error().code, ErrorCode::kUnavailable);
}

TEST_F(ExecutorTest, TheCapHoldsAndShrinksAndGrowsBack) {
  ExecutorOptions options;
  options.max_in_flight = 10;
  Make(options);
  for (int i = 0; i < 200; ++i) {
    Submit(std::to_string(i), {Patch("x", i)});
  }
  EXPECT_EQ(open_.size(), 10U);
  EXPECT_EQ(executor_->Queued(), 190U);
  Fail(ErrorCode::kThrottled);
  EXPECT_EQ(executor_->Cap(), 6);
  Fail(ErrorCode::kThrottled);
  EXPECT_EQ(executor_->Cap(), 6) << "one congestion counts once";
  for (int i = 0; i < 100; ++i) {
    Answer(Json());
  }
  EXPECT_EQ(executor_->Cap(), 10);
  EXPECT_EQ(executor_->InFlight(), 10);
}

TEST_F(ExecutorTest, SlowAnswersShrinkTheCap) {
  Make();
  Submit("a", {Patch("a", 1)});
  loop_.Advance(3s);
  Answer(Json());
  EXPECT_LT(executor_->Cap(), 16);
}

TEST_F(ExecutorTest, StopDropsWhatIsNotSentAndTheRestOfOpenBatches) {
  ExecutorOptions options;
  options.max_in_flight = 1;
  options.min_in_flight = 1;
  Make(options);
  Submit("a", {Create("a"), Patch("a", 1)}, 1);
  Submit("a", {Patch("a", 2)}, 2);
  Submit("b", {Create("b")}, 3);
  executor_->Stop();
  loop_.RunPosted();
  ASSERT_EQ(outcomes_.size(), 2U);
  EXPECT_EQ(outcomes_[0].result.error().code, ErrorCode::kCancelled);
  Submit("c", {Create("c")}, 4);
  loop_.RunPosted();
  EXPECT_EQ(outcomes_.size(), 3U);
  Answer(Json());
  ASSERT_EQ(outcomes_.size(), 4U);
  EXPECT_EQ(outcomes_[3].token, 1U);
  EXPECT_EQ(outcomes_[3].done, 1U);
  EXPECT_EQ(outcomes_[3].result.error().code, ErrorCode::kCancelled);
  EXPECT_TRUE(open_.empty());
  executor_->Start();
  Submit("c", {Create("c")}, 5);
  EXPECT_EQ(open_.size(), 1U);
}

TEST_F(ExecutorTest, NoRetryAfterStop) {
  Make();
  Submit("a", {Create("a")});
  Submit("b", {Create("b")});
  Fail(ErrorCode::kUnavailable);  // a waits for its retry
  executor_->Stop();
  Fail(ErrorCode::kUnavailable);  // b was in flight
  loop_.Advance(1min);
  EXPECT_EQ(outcomes_.size(), 2U);
  EXPECT_TRUE(open_.empty());
}

TEST_F(ExecutorTest, NothingIsSentBehindTheFence) {
  Make();
  bool ours = true;
  executor_->SetFence([&](Time) { return ours; });
  Submit("a", {Create("a"), Patch("a", 1)});
  ours = false;
  Submit("b", {Create("b")});
  loop_.RunPosted();
  EXPECT_EQ(open_.size(), 1U);
  ASSERT_EQ(outcomes_.size(), 1U);
  EXPECT_EQ(outcomes_[0].result.error().code, ErrorCode::kCancelled);
  Answer(Json());
  EXPECT_TRUE(open_.empty());
  ASSERT_EQ(outcomes_.size(), 2U);
  EXPECT_EQ(outcomes_[1].done, 1U);
}

TEST_F(ExecutorTest, BackgroundWritesTakeAQuarterAndWaitForTheRest) {
  ExecutorOptions options;
  options.max_in_flight = 8;
  options.max_background = 20;
  Make(options);
  int refused = 0;
  for (int i = 0; i < 30; ++i) {
    executor_->Submit(
        "event" + std::to_string(i), {Create("e")}, 0,
        [&](const WriteOutcome& outcome) { refused += outcome.result ? 0 : 1; },
        WritePriority::kBackground);
  }
  loop_.RunPosted();
  EXPECT_EQ(open_.size(), 2U);
  EXPECT_EQ(refused, 8);
  for (int i = 0; i < 6; ++i) {
    Submit("job" + std::to_string(i), {Patch("x", i)});
  }
  EXPECT_EQ(open_.size(), 8U);
}

TEST_F(ExecutorTest, DrainReportsWhenNothingIsLeft) {
  Make();
  Submit("a", {Create("a")});
  Submit("a", {Patch("a", 1)});
  bool drained = false;
  executor_->DrainAll([&] { drained = true; });
  Answer(Json());
  EXPECT_FALSE(drained);
  Answer(Json());
  EXPECT_TRUE(drained);
}

TEST_F(ExecutorTest, EveryAttemptIsSampled) {
  Make();
  std::string samples;
  executor_->SetSampleHook([&](const WriteSample& sample) {
    samples.append(sample.resource).append(" ").append(sample.code).append("; ");
  });
  Submit("a", {Create("a")});
  Fail(ErrorCode::kThrottled);
  loop_.Advance(1s);
  Answer(Json());
  EXPECT_EQ(samples, "configmaps Throttled; configmaps OK; ");
  EXPECT_EQ(executor_->Writes(), 2U);
}

TEST_F(ExecutorTest, WorksWithASenderThatAnswersAtOnce) {
  FakeApiServer server;
  Executor executor(
      loop_, [&](const api::WriteRequest& request, const std::function<void(Result<Json>)>& done) {
        done(server.Do(request));
      });
  int good = 0;
  for (int i = 0; i < 50; ++i) {
    const std::string name = "n" + std::to_string(i);
    executor.Submit(name, {Create(name), Patch(name, i)}, 0,
                    [&](const WriteOutcome& outcome) { good += outcome.result ? 1 : 0; });
  }
  loop_.RunPosted();
  EXPECT_EQ(good, 50);
}

}  // namespace
}  // namespace tutti::kube
