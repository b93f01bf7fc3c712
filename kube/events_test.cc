// SPDX-License-Identifier: Apache-2.0
#include "kube/events.h"

#include <gtest/gtest.h>

#include "kube/fake_api_server.h"

namespace tutti::kube {
namespace {

using namespace std::chrono_literals;

class EventsTest : public ::testing::Test {
 protected:
  void Record(const std::string& reason, const std::string& message) {
    recorder_.Record(job_, "Normal", reason, message, now_);
  }
  std::vector<Json> Stored() {
    for (api::WriteRequest& request : requests_) {
      EXPECT_TRUE(server_.Do(request).has_value());
    }
    requests_.clear();
    return server_.List(api::ResourceOf(api::Kind::kEvent));
  }

  Time now_{1'900'000'000s};
  ObjectReference job_{"batch/v1", "Job", "team-a", "train", "uid-1", ""};
  std::vector<api::WriteRequest> requests_;
  EventRecorder recorder_{{}, [this](const std::string&, api::WriteRequest request) {
                            requests_.push_back(std::move(request));
                          }};
  FakeApiServer server_;
};

TEST_F(EventsTest, AnEventNamesItsObjectAndSource) {
  Record("Admitted", "Admitted by ClusterQueue cq");
  const std::vector<Json> events = Stored();
  ASSERT_EQ(events.size(), 1U);
  const Json& event = events[0];
  EXPECT_EQ(event["metadata"]["namespace"].AsString(), "team-a");
  EXPECT_EQ(event["metadata"]["name"].AsString().rfind("train.", 0), 0U);
  EXPECT_EQ(event["involvedObject"]["kind"].AsString(), "Job");
  EXPECT_EQ(event["involvedObject"]["uid"].AsString(), "uid-1");
  EXPECT_EQ(event["reason"].AsString(), "Admitted");
  EXPECT_EQ(event["count"].AsInt(), 1);
  EXPECT_EQ(event["firstTimestamp"].AsString(), FormatTime(now_));
  EXPECT_EQ(event["source"]["component"].AsString(), "tutti");
}

TEST_F(EventsTest, AnEventIsSentToTheApiThatItsBodyIsWrittenIn) {
  Record("Admitted", "Admitted by ClusterQueue cq");
  ASSERT_EQ(requests_.size(), 1U);
  EXPECT_EQ(requests_[0].resource.ApiVersion(), requests_[0].body["apiVersion"].AsString());
  EXPECT_EQ(requests_[0].resource.Path("team-a", ""), "/api/v1/namespaces/team-a/events");
}

TEST_F(EventsTest, EventsOfAnyMessageAreOneObject) {
  for (const char* victim : {"a", "b", "c"}) {
    recorder_.Record(job_, "Normal", "PreemptedWorkload", victim, now_, /*any_message=*/true);
  }
  const std::vector<Json> events = Stored();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0]["message"].AsString(), "a");
  EXPECT_EQ(recorder_.Coalesced(), 2U);
}

TEST_F(EventsTest, EqualEventsAreCountedInOneObject) {
  for (int i = 0; i < 5; ++i) {
    Record("Pending", "needs 8 more nvidia.com/gpu");
    now_ += 1s;
  }
  EXPECT_EQ(requests_.size(), 1U);
  now_ += 10s;
  recorder_.Flush(now_);
  recorder_.Flush(now_);
  EXPECT_EQ(requests_.size(), 2U);
  const std::vector<Json> events = Stored();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0]["count"].AsInt(), 5);
  EXPECT_EQ(recorder_.Coalesced(), 4U);
}

TEST_F(EventsTest, DifferentMessagesAreDifferentEvents) {
  Record("Pending", "needs 8");
  Record("Pending", "needs 4");
  EXPECT_EQ(Stored().size(), 2U);
}

TEST_F(EventsTest, AnEqualEventMuchLaterIsANewOne) {
  Record("Pending", "needs 8");
  now_ += 11min;
  recorder_.Flush(now_);
  Record("Pending", "needs 8");
  EXPECT_EQ(Stored().size(), 2U);
}

TEST_F(EventsTest, OneNoisyObjectIsLimitedAndOthersAreNot) {
  for (int i = 0; i < 40; ++i) {
    Record("Noise", std::to_string(i));
  }
  EXPECT_EQ(requests_.size(), 25U);
  EXPECT_EQ(recorder_.Dropped(), 15U);
  job_.name = "other";
  Record("Noise", "x");
  EXPECT_EQ(requests_.size(), 26U);
  job_.name = "train";
  now_ += 300s;
  Record("Noise", "after a while");
  Record("Noise", "and again");
  EXPECT_EQ(requests_.size(), 27U);
}

TEST_F(EventsTest, ClusterScopedObjectsHaveTheirEventsInDefault) {
  job_ = {"kueue.x-k8s.io/v1beta2", "ClusterQueue", "", "cq", "uid-2", ""};
  Record("Stopped", "x");
  ASSERT_EQ(requests_.size(), 1U);
  EXPECT_EQ(requests_[0].key.ns, "default");
  EXPECT_FALSE(requests_[0].body["involvedObject"].Has("namespace"));
}

TEST_F(EventsTest, LongNamesAndMessagesAreCutAtACharacter) {
  job_.name = std::string(253, 'n');
  std::string message(1023, 'x');
  message += "\xc3\xa9 and more";
  Record("Long", message);
  ASSERT_EQ(requests_.size(), 1U);
  EXPECT_LE(requests_[0].key.name.size(), 253U);
  EXPECT_EQ(requests_[0].body["message"].AsString().size(), 1023U);
}

TEST_F(EventsTest, MemoryIsBounded) {
  EventOptions options;
  options.max_tracked = 10;
  options.pace.burst = 2000;
  uint64_t written = 0;
  EventRecorder recorder(options, [&](const std::string&, const api::WriteRequest&) { ++written; });
  for (int i = 0; i < 1000; ++i) {
    job_.name = "job" + std::to_string(i);
    recorder.Record(job_, "Normal", "R", "m", now_);
  }
  EXPECT_EQ(written, 1000U);
  job_.name = "job999";
  recorder.Record(job_, "Normal", "R", "m", now_);
  EXPECT_EQ(recorder.Coalesced(), 1U);
}

TEST_F(EventsTest, WhileOtherWritesAreMoreImportantEventsWaitAndTheOldestGiveWay) {
  EventOptions options;
  options.pace.burst = 1;
  options.max_waiting = 3;
  std::vector<std::string> written;
  EventRecorder recorder(options, [&](const std::string&, const api::WriteRequest& request) {
    written.push_back(request.body["reason"].AsString());
  });
  recorder.GiveWay(now_);
  for (const char* reason : {"a", "b", "c", "d", "e"}) {
    recorder.Record(job_, "Normal", reason, "m", now_);
  }
  EXPECT_EQ(written, std::vector<std::string>({"a"}));
  EXPECT_EQ(recorder.Waiting(), 3U);
  EXPECT_EQ(recorder.Dropped(), 1U);
  for (std::optional<Time> next = recorder.Pump(now_); next.has_value();
       next = recorder.Pump(*next)) {
    now_ = *next;
  }
  EXPECT_EQ(written, std::vector<std::string>({"a", "c", "d", "e"}));
}

}  // namespace
}  // namespace tutti::kube
