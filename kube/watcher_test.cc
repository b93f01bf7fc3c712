// SPDX-License-Identifier: Apache-2.0
// The watcher with the real client over the in-memory API server.
#include "kube/watcher.h"

#include <gtest/gtest.h>

#include "kube/fake_loop.h"
#include "kube/fake_transport.h"

namespace tutti::kube {
namespace {

using namespace std::chrono_literals;

struct Thing {
  std::string name;
  std::string color;
};

Result<Thing> DecodeThing(const Json& json) {
  if (json["data"]["color"].AsString() == "bad") {
    return Fail(ErrorCode::kDecode, "data.color: bad");
  }
  return Thing{json["metadata"]["name"].AsString(), json["data"]["color"].AsString()};
}

const api::Resource kThings{"", "v1", "configmaps", "ConfigMap", true};

class WatcherTest : public ::testing::Test {
 protected:
  void Put(const std::string& name, const std::string& color) {
    const Json object = Json::Obj(
        {{"metadata",
          Json::Obj({{"name", name}, {"namespace", "ns"}, {"labels", Json::Obj({{"c", color}})}})},
         {"data", Json::Obj({{"color", color}})}});
    if (!server_.Create(kThings, object)) {
      ASSERT_TRUE(server_.MergePatch(kThings, {"ns", name}, object).has_value());
    }
  }
  void Open(WatchOptions options = {}) {
    watch_ = WatchTyped<Thing>(client_, loop_, kThings, std::move(options), &DecodeThing,
                               [this](const WatchEvent<Thing>& event) { Note(event); });
  }
  void Note(const WatchEvent<Thing>& event) {
    static const char* const kNames[] = {"+", "+", "~", "-", "synced", "absent", "relisted"};
    log_ += kNames[static_cast<int>(event.type)];
    if (event.object != nullptr) {
      log_ += event.object->name + ":" + event.object->color;
    }
    log_ += " ";
  }
  std::string Take() { return std::exchange(log_, ""); }

  FakeLoop loop_;
  FakeApiServer server_;
  FakeTransport transport_{loop_, server_};
  Client client_{transport_};
  std::unique_ptr<Watch> watch_;
  std::string log_;
};

TEST_F(WatcherTest, DeliversWhatExistsAndThenWhatChanges) {
  Put("a", "red");
  Open();
  loop_.RunPosted();
  EXPECT_EQ(Take(), "+a:red synced ");
  Put("b", "blue");
  Put("a", "green");
  ASSERT_TRUE(server_.Delete(kThings, {"ns", "b"}).has_value());
  loop_.RunPosted();
  EXPECT_EQ(Take(), "+b:blue ~a:green -b:blue ");
  EXPECT_TRUE(watch_->Synced());
  EXPECT_EQ(watch_->Size(), 1U);
}

TEST_F(WatcherTest, ListsByPagesWhereStreamedListsAreRefused) {
  transport_.SetStreamingLists(false);
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    Put(name, "x");
  }
  WatchOptions options;
  options.limits.page_size = 2;
  Open(options);
  loop_.RunPosted();
  EXPECT_EQ(Take(), "+a:x +b:x +c:x +d:x +e:x synced ");
  EXPECT_EQ(watch_->LastError(), "");
  Put("f", "y");
  loop_.RunPosted();
  EXPECT_EQ(Take(), "+f:y ");
}

TEST_F(WatcherTest, ABrokenConnectionIsResumedWithoutALoss) {
  Open();
  loop_.RunPosted();
  Put("a", "red");
  loop_.RunPosted();
  Take();
  transport_.BreakStreams();
  Put("b", "blue");
  loop_.RunPosted();
  EXPECT_EQ(Take(), "");
  EXPECT_NE(watch_->LastError(), "");
  loop_.Advance(2s);
  EXPECT_EQ(Take(), "+b:blue ");
}

TEST_F(WatcherTest, ObjectsDeletedWhileThePositionExpiredAreReported) {
  Put("a", "red");
  Put("b", "blue");
  Open();
  loop_.RunPosted();
  Take();
  transport_.BreakStreams();
  ASSERT_TRUE(server_.Delete(kThings, {"ns", "a"}).has_value());
  server_.Compact();
  loop_.Advance(2s);
  EXPECT_EQ(Take(), "-a:red relisted ");
}

TEST_F(WatcherTest, ASilentConnectionIsReplaced) {
  Open();
  loop_.RunPosted();
  Take();
  transport_.Freeze(true);
  Put("a", "red");
  loop_.Advance(2min);
  EXPECT_EQ(Take(), "");
  transport_.Freeze(false);
  loop_.Advance(1min + 5s);
  EXPECT_EQ(Take(), "+a:red ");
}

TEST_F(WatcherTest, BookmarksKeepAQuietConnectionOpen) {
  Open();
  loop_.RunPosted();
  const size_t requests = transport_.Requests().size();
  for (int i = 0; i < 4; ++i) {
    loop_.Advance(1min);
    transport_.SendBookmarks();
  }
  loop_.Advance(30s);
  EXPECT_EQ(transport_.Requests().size(), requests);
}

TEST_F(WatcherTest, TheServersTimeLimitJustReopensTheWatch) {
  Open();
  loop_.RunPosted();
  for (int i = 0; i < 11; ++i) {
    transport_.SendBookmarks();
    loop_.Advance(1min);
  }
  Put("a", "red");
  loop_.RunPosted();
  EXPECT_EQ(Take(), "synced +a:red ");
  EXPECT_GE(watch_->Counters().watches, 2U);
  EXPECT_EQ(watch_->Counters().errors, 0U);
}

TEST_F(WatcherTest, OneBadObjectDoesntHideTheOthers) {
  Put("a", "bad");
  Put("b", "blue");
  Open();
  loop_.RunPosted();
  EXPECT_EQ(Take(), "+b:blue synced ");
  Put("a", "red");
  transport_.SendLine("{\"type\":\"ADDED\",\"object\":{");
  Put("c", "cyan");
  loop_.RunPosted();
  EXPECT_EQ(Take(), "+a:red +c:cyan ");
  EXPECT_EQ(watch_->Counters().decode_errors, 2U);
}

TEST_F(WatcherTest, NumbersAndNestingThatTheServerAcceptsAreReadableHere) {
  Open();
  loop_.RunPosted();
  Take();
  transport_.SendLine(
      R"({"type":"ADDED","object":{"metadata":{"name":"odd","namespace":"ns","uid":"1",)"
      R"("resourceVersion":"2000"},"data":{"color":"red","n":100000000000000000000,"d":)" +
      std::string(3000, '[') + std::string(3000, ']') + "}}}");
  loop_.RunPosted();
  EXPECT_EQ(Take(), "+odd:red ");
  EXPECT_EQ(watch_->Counters().decode_errors, 0U);
}

TEST_F(WatcherTest, SelectorsTurnChangesIntoComingAndGoing) {
  Put("a", "red");
  WatchOptions options;
  options.label_selector = "c=red";
  Open(options);
  loop_.RunPosted();
  Put("b", "blue");
  Put("b", "red");
  Put("a", "blue");
  loop_.RunPosted();
  EXPECT_EQ(Take(), "+a:red synced +b:red -a:blue ");
}

TEST_F(WatcherTest, AServerThatIsDownIsRetried) {
  bool down = true;
  transport_.SetIntercept([&](const HttpRequest&) -> std::optional<Result<HttpResponse>> {
    if (down) {
      return Fail(ErrorCode::kUnavailable, "connection refused");
    }
    return std::nullopt;
  });
  Put("a", "red");
  Open();
  loop_.Advance(10s);
  EXPECT_EQ(Take(), "");
  down = false;
  loop_.Advance(30s);
  EXPECT_EQ(Take(), "+a:red synced ");
  EXPECT_EQ(watch_->LastError(), "");
}

TEST_F(WatcherTest, NothingArrivesAfterItsEnd) {
  Put("a", "red");
  Open();
  watch_.reset();
  loop_.Advance(1min);
  EXPECT_EQ(Take(), "");
  EXPECT_EQ(transport_.OpenStreams(), 0U);
}

TEST_F(WatcherTest, AHandlerMayEndTheWatch) {
  Put("a", "red");
  Put("b", "red");
  int seen = 0;
  watch_ =
      WatchTyped<Thing>(client_, loop_, kThings, {}, &DecodeThing, [&](const WatchEvent<Thing>&) {
        ++seen;
        watch_.reset();
      });
  loop_.Advance(1s);
  EXPECT_EQ(seen, 1);
}

}  // namespace
}  // namespace tutti::kube
