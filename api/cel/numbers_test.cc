// SPDX-License-Identifier: Apache-2.0
#include "api/cel/numbers.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace tutti::api::cel {
namespace {

TEST(CelNumbers, ReadsDoublesAsGoDoes) {
  const std::vector<std::pair<std::string, double>> good = {
      {"1", 1},      {"-1.5", -1.5}, {"+2", 2},    {".5", 0.5},   {"5.", 5},
      {"1e3", 1000}, {"1E-2", 0.01}, {"1_0", 10},  {"0x1p4", 16}, {"0x_1p0", 1},
      {"1e-400", 0}, {"0x1.8p1", 3}, {"-0", -0.0}, {"0.1e1", 1},
  };
  for (const auto& [text, value] : good) {
    double parsed = 7;
    EXPECT_TRUE(ParseDouble(text, parsed)) << text;
    EXPECT_EQ(parsed, value) << text;
  }
  for (const char* text : {"", ".", "e5", "1e", "- 1", "--1", "+-1", "1e400", "0x1", "_1", "1_",
                           "1__0", "0x", "1 ", "abc", "1,5", "infinit"}) {
    double parsed = 0;
    EXPECT_FALSE(ParseDouble(text, parsed)) << text;
  }
  double parsed = 0;
  EXPECT_TRUE(ParseDouble("-Inf", parsed));
  EXPECT_EQ(parsed, -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(ParseDouble("NaN", parsed));
  EXPECT_TRUE(std::isnan(parsed));
}

TEST(CelNumbers, PrintsDoublesAsGoDoes) {
  const std::vector<std::pair<double, std::string>> cases = {
      {1, "1"},           {-0.0, "-0"},          {0.1, "0.1"},
      {123456, "123456"}, {1e21, "1e+21"},       {1e-5, "1e-05"},
      {0.0001, "0.0001"}, {1.5e300, "1.5e+300"}, {-2.25, "-2.25"},
  };
  for (const auto& [value, text] : cases) {
    EXPECT_EQ(FormatShortest(value), text);
  }
  EXPECT_EQ(FormatPlain(1e21), "1000000000000000000000");
  EXPECT_EQ(FormatPlain(1.25e-7), "0.000000125");
}

TEST(CelNumbers, ReadsDurationsAsGoDoes) {
  const std::vector<std::pair<std::string, int64_t>> good = {
      {"0", 0},
      {"1h30m", 5'400'000'000'000},
      {"-1.5s", -1'500'000'000},
      {"1us", 1000},
      {"1\xC2\xB5s", 1000},
      {".5ms", 500'000},
      {"1.s", 1'000'000'000},
      {"9223372036854775807ns", INT64_MAX},
      {"-9223372036854775808ns", INT64_MIN},
  };
  for (const auto& [text, nanos] : good) {
    int64_t parsed = 7;
    EXPECT_TRUE(ParseGoDuration(text, parsed)) << text;
    EXPECT_EQ(parsed, nanos) << text;
  }
  for (const char* text :
       {"", "5", "1d", "s", ".s", "1h-1m", "9223372036854775808ns", "3000000h", "1 s"}) {
    int64_t parsed = 0;
    EXPECT_FALSE(ParseGoDuration(text, parsed)) << text;
  }
}

TEST(CelNumbers, TimesComeBackAsTheyWere) {
  for (const char* text :
       {"1970-01-01T00:00:00Z", "2024-02-29T23:59:59.000000001Z", "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.5+05:30", "1999-12-31T00:00:00-11:00", "1600-03-01T12:00:00Z"}) {
    Moment moment;
    ASSERT_TRUE(ParseRfc3339(text, moment)) << text;
    EXPECT_EQ(FormatRfc3339(moment), text);
  }
  for (const char* text : {"2023-02-29T00:00:00Z", "2024-13-01T00:00:00Z", "2024-01-01T24:00:00Z",
                           "2024-01-01", "2024-01-01T00:00:00", "2024-01-01t00:00:00Z",
                           "2024-01-01T00:00:60Z", "24-01-01T00:00:00Z"}) {
    Moment moment;
    EXPECT_FALSE(ParseRfc3339(text, moment)) << text;
  }
  const CivilTime leap = ToCivil(1709208000);  // 2024-02-29T12:00:00Z
  EXPECT_EQ(leap.year, 2024);
  EXPECT_EQ(leap.month, 2);
  EXPECT_EQ(leap.day, 29);
  EXPECT_EQ(leap.weekday, 4);
  EXPECT_EQ(leap.day_of_year, 59);
  EXPECT_EQ(leap.hour, 12);
  const CivilTime before = ToCivil(-1);
  EXPECT_EQ(before.year, 1969);
  EXPECT_EQ(before.second, 59);
  EXPECT_EQ(before.weekday, 3);
}

}  // namespace
}  // namespace tutti::api::cel
