// SPDX-License-Identifier: Apache-2.0
#include "base/time.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

using namespace std::chrono_literals;

TEST(TimeTest, ReadsAndWritesRfc3339) {
  const auto time = ParseTime("2026-11-30T09:05:07Z");
  ASSERT_TRUE(time);
  EXPECT_EQ(FormatTime(*time), "2026-11-30T09:05:07Z");
  EXPECT_EQ(FormatMicroTime(*time + 1500us), "2026-11-30T09:05:07.001500Z");
  EXPECT_EQ(*ParseTime("2026-11-30T10:35:07.000000+01:30"), *time);
  EXPECT_EQ(*ParseTime("2026-11-30T09:05:07.123456789Z"), *time + 123456us);
}

TEST(TimeTest, RefusesOtherText) {
  for (const char* text : {"", "2026-11-30", "2026-13-30T09:05:07Z", "2026-02-30T09:05:07Z",
                           "2026-11-30T09:05:07", "2026-11-30T25:05:07Z", "2026-11-30T09:05:07Zx",
                           "2026-11-30T09:05:07.Z", "2026-11-30T09:05:07+1:00"}) {
    EXPECT_FALSE(ParseTime(text)) << text;
  }
}

TEST(TimeTest, DurationsUseGosNotation) {
  EXPECT_EQ(*ParseDuration("1h15m30.5s"), 1h + 15min + 30s + 500ms);
  EXPECT_EQ(*ParseDuration("300ms"), 300ms);
  EXPECT_EQ(*ParseDuration("0"), 0s);
  EXPECT_EQ(*ParseDuration("-5s"), -5s);
  for (const char* text :
       {"", "5", "s", "5 s", "1h5", "1.2.3s", "5d", "-", "99999999999999999999h"}) {
    EXPECT_FALSE(ParseDuration(text)) << text;
  }
  EXPECT_EQ(FormatDuration(1h + 15min + 30s + 500ms), "1h15m30.5s");
  EXPECT_EQ(FormatDuration(60s), "1m0s");
  EXPECT_EQ(FormatDuration(250ms), "250ms");
}

}  // namespace
}  // namespace tutti
