// SPDX-License-Identifier: Apache-2.0
#include "operator/logging.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tutti::logging {
namespace {

using std::chrono::seconds;

const Time kNow = Time(seconds(1'800'000'000)) + Duration(42);

std::string Line(std::string_view event, const std::vector<log::Field>& fields,
                 uint64_t suppressed = 0) {
  return FormatLine(kNow, log::Level::kWarn, event, fields.data(), fields.size(), suppressed);
}

TEST(LoggingTest, LineIsOneJsonObjectWithTimeInMicroseconds) {
  EXPECT_EQ(
      Line("started", {{"port", 8081}, {"tls", false}, {"list", Json::Arr({1, "a"})}}),
      R"({"ts":"2027-01-15T08:00:00.000042Z","level":"warn","msg":"started","port":8081,"tls":false,"list":[1,"a"]})");
}

TEST(LoggingTest, NothingInATextEndsTheLineOrTheObject) {
  const std::string line = Line("a \"quote\"\nand a line", {{"key\"", Json("b\r\n\x01")}});
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto json = Json::Parse(line);
  ASSERT_TRUE(json) << line;
  EXPECT_EQ((*json)["msg"].AsString(), "a \"quote\"\nand a line");
  EXPECT_EQ((*json)["key\""].AsString(), "b\r\n\x01");
}

TEST(LoggingTest, BytesThatAreNotUtf8AreReplaced) {
  const std::string line =
      Line("\xC3\xA4 \xFF \xC3", {{"nested", Json::Obj({{"x", Json("\xED\xA0\x80")}})}});
  const auto json = Json::Parse(line);
  ASSERT_TRUE(json) << line;
  EXPECT_EQ((*json)["msg"].AsString(), "\xC3\xA4 \xEF\xBF\xBD \xEF\xBF\xBD");
  EXPECT_EQ((*json)["nested"]["x"].AsString(), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(LoggingTest, FieldsCannotReplaceOurOwn) {
  const auto json = Json::Parse(Line("event", {{"level", "none"}, {"ts", 1}}, 7)).value();
  EXPECT_EQ(json["level"].AsString(), "warn");
  EXPECT_EQ(json["field_level"].AsString(), "none");
  EXPECT_EQ(json["field_ts"].AsInt(), 1);
  EXPECT_EQ(json["suppressed"].AsInt(), 7);
}

TEST(LoggingTest, LevelsAreWordsOrVerbosities) {
  struct Case {
    std::string text;
    log::Level level;
  };
  for (const Case& c : std::vector<Case>{{"debug", log::Level::kDebug},
                                         {"Info", log::Level::kInfo},
                                         {"", log::Level::kInfo},
                                         {"warn", log::Level::kWarn},
                                         {"error", log::Level::kError},
                                         {"panic", log::Level::kError},
                                         {"1", log::Level::kInfo},
                                         {"2", log::Level::kDebug},
                                         {"10", log::Level::kDebug}}) {
    ASSERT_TRUE(ParseLevel(c.text)) << c.text;
    EXPECT_EQ(*ParseLevel(c.text), c.level) << c.text;
  }
  EXPECT_FALSE(ParseLevel("loud"));
  EXPECT_FALSE(ParseLevel("-1"));
}

TEST(LoggingTest, RepeatsAreHeldBackCountedAndTold) {
  RepeatLimiter limiter(2, seconds(10));
  EXPECT_EQ(limiter.Allow("x", kNow), 0U);
  EXPECT_EQ(limiter.Allow("x", kNow), 0U);
  EXPECT_EQ(limiter.Allow("x", kNow + seconds(9)), std::nullopt);
  EXPECT_EQ(limiter.Allow("y", kNow + seconds(9)), 0U);
  EXPECT_EQ(limiter.Allow("x", kNow + seconds(9)), std::nullopt);
  EXPECT_EQ(limiter.Allow("x", kNow + seconds(10)), 2U);
  EXPECT_EQ(limiter.Allow("x", kNow + seconds(10)), 0U);
  EXPECT_EQ(limiter.Allow("x", kNow - seconds(100)), 0U);  // the clock was set back
}

TEST(LoggingTest, RemembersABoundedNumberOfEvents) {
  RepeatLimiter limiter(1, seconds(10));
  limiter.Allow("first", kNow);
  for (int i = 0; i < 2000; ++i) {
    limiter.Allow("event " + std::to_string(i), kNow + seconds(1));
  }
  EXPECT_EQ(limiter.Allow("first", kNow + seconds(2)), 0U);  // forgotten, so it may speak
}

TEST(LoggingTest, SinkWritesLinesToStderrAboveTheLevel) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(fds[1], STDERR_FILENO);
    close(fds[0]);
    close(fds[1]);
    Install({log::Level::kInfo});
    log::Debug("not shown");
    log::Info("shown {} %v", {{"n", 1}});
    for (int i = 0; i < 50; ++i) {
      log::Error("again");
    }
    Shutdown();
    log::Info("after the end");
    _exit(0);
  }
  close(fds[1]);
  std::string output;
  char buffer[4096];
  ssize_t got = 0;
  while ((got = read(fds[0], buffer, sizeof buffer)) > 0) {
    output.append(buffer, static_cast<size_t>(got));
  }
  close(fds[0]);
  waitpid(child, nullptr, 0);
  std::istringstream lines(output);
  std::vector<std::string> messages;
  for (std::string line; std::getline(lines, line);) {
    const auto json = Json::Parse(line);
    ASSERT_TRUE(json) << line;
    messages.push_back((*json)["msg"].AsString());
  }
  ASSERT_EQ(messages.size(), 11U) << output;
  EXPECT_EQ(messages[0], "shown {} %v");
  EXPECT_EQ(messages[1], "again");
}

}  // namespace
}  // namespace tutti::logging
