// SPDX-License-Identifier: Apache-2.0
#include "kube/watch_machine.h"

#include <gtest/gtest.h>

namespace tutti::kube {
namespace {

using Do = WatchMachine::Next::Do;
using namespace std::chrono_literals;

constexpr Time kStart = Time{1000000s};

WatchItem Item(WatchItem::Type type, const std::string& name, const std::string& version,
               const std::string& uid = "u") {
  WatchItem item;
  item.type = type;
  item.key = {"ns", name};
  item.uid = uid + name;
  item.resource_version = version;
  if (type != WatchItem::Type::kBookmark && type != WatchItem::Type::kInitialEnd) {
    item.object = std::make_shared<const std::string>(name + "@" + version);
  }
  return item;
}

WatchItem Added(const std::string& name, const std::string& version) {
  return Item(WatchItem::Type::kAdded, name, version);
}

std::string Text(const std::vector<UntypedWatchEvent>& events) {
  std::string out;
  for (const UntypedWatchEvent& event : events) {
    static const char* const kNames[] = {"initial", "added",  "modified", "deleted",
                                         "synced",  "absent", "relisted"};
    out += kNames[static_cast<int>(event.type)];
    if (event.object != nullptr) {
      out += " " + *std::static_pointer_cast<const std::string>(event.object);
    }
    if (event.previous != nullptr) {
      out += " was " + *std::static_pointer_cast<const std::string>(event.previous);
    }
    out += "; ";
  }
  return out;
}

WatchLimits Paged() {
  WatchLimits limits;
  limits.try_streaming_list = false;
  return limits;
}

class WatchMachineTest : public ::testing::Test {
 protected:
  // A machine that has listed a@1 and b@2 by pages and is watching from version 10.
  WatchMachine Watching() {
    WatchMachine machine(Paged());
    machine.Start(kStart);
    machine.OnPage({Added("a", "1"), Added("b", "2")}, "10", "", kStart, events_);
    events_.clear();
    return machine;
  }
  std::vector<UntypedWatchEvent> events_;
};

TEST_F(WatchMachineTest, PagesAreFollowedToTheEndAndThenWatchedFromTheirVersion) {
  WatchMachine machine(Paged());
  EXPECT_EQ(machine.Start(kStart).what, Do::kList);
  auto next = machine.OnPage({Added("a", "1")}, "10", "more", kStart, events_);
  EXPECT_EQ(next.what, Do::kList);
  EXPECT_EQ(next.continue_token, "more");
  EXPECT_FALSE(machine.Synced());
  next = machine.OnPage({Added("b", "2")}, "10", "", kStart, events_);
  EXPECT_EQ(next.what, Do::kWatch);
  EXPECT_EQ(next.resource_version, "10");
  EXPECT_GE(next.timeout_seconds, 300);
  EXPECT_LE(next.timeout_seconds, 600);
  EXPECT_EQ(Text(events_), "initial a@1; initial b@2; synced; ");
  EXPECT_TRUE(machine.Synced());
}

TEST_F(WatchMachineTest, AStreamedListIsSyncedByItsLastBookmark) {
  WatchMachine machine{WatchLimits{}};
  auto next = machine.Start(kStart);
  EXPECT_EQ(next.what, Do::kWatch);
  EXPECT_TRUE(next.send_initial_events);
  EXPECT_EQ(next.resource_version, "");
  next = machine.OnItems({Added("a", "1"), Item(WatchItem::Type::kInitialEnd, "", "7")}, kStart,
                         events_);
  EXPECT_EQ(next.what, Do::kNothing);
  machine.OnItems({Added("b", "8")}, kStart, events_);
  EXPECT_EQ(Text(events_), "initial a@1; synced; added b@8; ");
  next = machine.OnWatchEnd(nullptr, kStart + 5min);
  EXPECT_EQ(next.what, Do::kWatch);
  EXPECT_FALSE(next.send_initial_events);
  EXPECT_EQ(next.resource_version, "8");
}

TEST_F(WatchMachineTest, AServerWithoutStreamedListsIsAskedForPages) {
  WatchMachine machine{WatchLimits{}};
  machine.Start(kStart);
  const Error refused{ErrorCode::kInvalid, "sendInitialEvents is forbidden", 422, {}};
  EXPECT_EQ(machine.OnWatchEnd(&refused, kStart).what, Do::kList);
  EXPECT_EQ(machine.OnPage({}, "5", "", kStart, events_).what, Do::kWatch);
  const Error gone{ErrorCode::kExpired, "", 410, {}};
  EXPECT_EQ(machine.OnWatchEnd(&gone, kStart + 1min).what, Do::kList) << "not asked again";
}

TEST_F(WatchMachineTest, ChangesCarryTheFormerState) {
  WatchMachine machine = Watching();
  machine.OnItems(
      {Item(WatchItem::Type::kModified, "a", "11"), Item(WatchItem::Type::kDeleted, "b", "12")},
      kStart, events_);
  EXPECT_EQ(Text(events_), "modified a@11 was a@1; deleted b@12; ");
  EXPECT_EQ(machine.Size(), 1U);
}

TEST_F(WatchMachineTest, BookmarksMoveThePositionThatAReconnectStartsFrom) {
  WatchMachine machine = Watching();
  machine.OnItems({Item(WatchItem::Type::kBookmark, "", "99")}, kStart, events_);
  const Error broken{ErrorCode::kUnavailable, "reset", 0, {}};
  const auto wait = machine.OnWatchEnd(&broken, kStart + 1min);
  ASSERT_EQ(wait.what, Do::kWait);
  const auto next = machine.OnTimer(wait.until);
  EXPECT_EQ(next.what, Do::kWatch);
  EXPECT_EQ(next.resource_version, "99");
  EXPECT_EQ(Text(events_), "");
}

TEST_F(WatchMachineTest, AfterExpiryTheDifferencesOfTheNewListAreReported) {
  WatchMachine machine = Watching();
  WatchItem error;
  error.type = WatchItem::Type::kError;
  error.error = {ErrorCode::kExpired, "too old", 410, {}};
  EXPECT_EQ(machine.OnItems({error}, kStart, events_).what, Do::kList);
  machine.OnPage({Item(WatchItem::Type::kAdded, "a", "20"), Added("c", "21")}, "30", "", kStart,
                 events_);
  EXPECT_EQ(Text(events_), "modified a@20 was a@1; added c@21; deleted b@2; relisted; ");
  EXPECT_EQ(machine.Counters().expired, 1U);
}

TEST_F(WatchMachineTest, AnUnchangedObjectIsNotReportedByARelist) {
  WatchMachine machine = Watching();
  const Error gone{ErrorCode::kExpired, "", 410, {}};
  machine.OnWatchEnd(&gone, kStart);
  machine.OnPage({Added("a", "1"), Added("b", "2")}, "30", "", kStart, events_);
  EXPECT_EQ(Text(events_), "relisted; ");
}

TEST_F(WatchMachineTest, ARecreatedObjectIsDeletedFirst) {
  WatchMachine machine = Watching();
  const Error gone{ErrorCode::kExpired, "", 410, {}};
  machine.OnWatchEnd(&gone, kStart);
  machine.OnPage({Item(WatchItem::Type::kAdded, "a", "20", "other"), Added("b", "2")}, "30", "",
                 kStart, events_);
  EXPECT_EQ(Text(events_), "deleted a@1; added a@20; relisted; ");
}

TEST_F(WatchMachineTest, ExpiryInTheMiddleOfAListStartsItOverWithoutLosingObjects) {
  WatchMachine machine(Paged());
  machine.Start(kStart);
  machine.OnPage({Added("a", "1"), Added("x", "1")}, "10", "more", kStart, events_);
  const Error gone{ErrorCode::kExpired, "", 410, {}};
  EXPECT_EQ(machine.OnListError(gone, kStart).what, Do::kList);
  machine.OnPage({Added("a", "1")}, "12", "", kStart, events_);
  EXPECT_EQ(Text(events_), "initial a@1; initial x@1; deleted x@1; synced; ");
}

TEST_F(WatchMachineTest, RepeatedExpiryBacksOff) {
  WatchMachine machine = Watching();
  const Error gone{ErrorCode::kExpired, "", 410, {}};
  EXPECT_EQ(machine.OnWatchEnd(&gone, kStart).what, Do::kList);
  EXPECT_EQ(machine.OnListError(gone, kStart).what, Do::kWait);
}

TEST_F(WatchMachineTest, BackoffGrowsToItsLimitAndEndsWithSuccess) {
  WatchMachine machine = Watching();
  const Error broken{ErrorCode::kUnavailable, "refused", 0, {}};
  Time now = kStart;
  Duration last{};
  for (int i = 0; i < 12; ++i) {
    const auto wait = machine.OnWatchEnd(&broken, now);
    ASSERT_EQ(wait.what, Do::kWait);
    last = wait.until - now;
    EXPECT_GE(last, 800ms);
    EXPECT_LE(last, 30s);
    if (i == 0) {
      EXPECT_LE(last, 1600ms);
    }
    now = wait.until;
    ASSERT_EQ(machine.OnTimer(now).what, Do::kWatch);
  }
  EXPECT_EQ(last, 30s);
  machine.OnItems({Added("c", "40")}, now, events_);
  const auto wait = machine.OnWatchEnd(&broken, now);
  EXPECT_LE(wait.until - now, 1600ms);
}

TEST_F(WatchMachineTest, TheServersRetryAfterIsKept) {
  WatchMachine machine(Paged());
  machine.Start(kStart);
  const Error busy{ErrorCode::kThrottled, "", 429, 25s};
  EXPECT_GE(machine.OnListError(busy, kStart).until, kStart + 25s);
}

TEST_F(WatchMachineTest, AServerThatEndsEveryWatchAtOnceIsNotAskedInATightLoop) {
  WatchMachine machine = Watching();
  EXPECT_EQ(machine.OnWatchEnd(nullptr, kStart + 10ms).what, Do::kWait);
}

TEST_F(WatchMachineTest, AnObjectThatTheDecoderRefusesDoesntStopOrDeleteAnything) {
  WatchMachine machine = Watching();
  WatchItem bad = Item(WatchItem::Type::kModified, "a", "11");
  bad.object = nullptr;
  bad.error = {ErrorCode::kDecode, "spec: nonsense", 0, {}};
  EXPECT_EQ(machine.OnItems({bad, Added("c", "12")}, kStart, events_).what, Do::kNothing);
  EXPECT_EQ(Text(events_), "added c@12; ");
  EXPECT_EQ(machine.Counters().decode_errors, 1U);
  const Error gone{ErrorCode::kExpired, "", 410, {}};
  machine.OnWatchEnd(&gone, kStart + 1min);
  events_.clear();
  machine.OnPage({bad, Added("b", "2"), Added("c", "12")}, "30", "", kStart, events_);
  EXPECT_EQ(Text(events_), "relisted; ");
}

TEST_F(WatchMachineTest, AnUnreadableLineOfAStreamedListDeletesNothing) {
  WatchMachine machine{WatchLimits{}};
  machine.Start(kStart);
  machine.OnItems({Added("a", "1"), Item(WatchItem::Type::kInitialEnd, "", "7")}, kStart, events_);
  const Error gone{ErrorCode::kExpired, "", 410, {}};
  machine.OnWatchEnd(&gone, kStart + 1min);
  WatchItem unreadable;
  unreadable.type = WatchItem::Type::kError;
  unreadable.error = {ErrorCode::kDecode, "JSON", 0, {}};
  events_.clear();
  machine.OnItems({unreadable, Item(WatchItem::Type::kInitialEnd, "", "9")}, kStart, events_);
  EXPECT_EQ(Text(events_), "relisted; ");
  EXPECT_EQ(machine.Size(), 1U);
}

TEST_F(WatchMachineTest, InputsThatDontBelongToTheStateAreIgnored) {
  WatchMachine machine = Watching();
  EXPECT_EQ(machine.OnPage({Added("z", "1")}, "1", "", kStart, events_).what, Do::kNothing);
  EXPECT_EQ(machine.OnTimer(kStart).what, Do::kNothing);
  EXPECT_EQ(Text(events_), "");
}

TEST_F(WatchMachineTest, EqualSeedsGiveEqualTimeouts) {
  WatchLimits limits = Paged();
  limits.seed = 7;
  WatchMachine one(limits);
  WatchMachine two(limits);
  one.Start(kStart);
  two.Start(kStart);
  EXPECT_EQ(one.OnPage({}, "1", "", kStart, events_).timeout_seconds,
            two.OnPage({}, "1", "", kStart, events_).timeout_seconds);
}

}  // namespace
}  // namespace tutti::kube
