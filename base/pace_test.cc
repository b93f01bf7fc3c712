// SPDX-License-Identifier: Apache-2.0
#include "base/pace.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Time kStart = Time(seconds(1'000'000));

// How many are told in `length`, asked every millisecond, while `done` writes a second are done.
int Told(Pace& pace, Time from, Duration length, int done) {
  int told = 0;
  double owed = 0;
  for (Time now = from; now < from + length; now += milliseconds(1)) {
    for (owed += done / 1000.0; owed >= 1; owed -= 1) {
      pace.Act(now);
    }
    while (pace.Take(now)) {
      ++told;
    }
  }
  return told;
}

TEST(PaceTest, AtRestABurstIsToldAtOnceAndThenAtTheRate) {
  Pace pace;
  EXPECT_EQ(Told(pace, kStart, milliseconds(1), 0), 200);
  EXPECT_NEAR(Told(pace, kStart + milliseconds(1), seconds(10), 0), 1000, 2);
}

TEST(PaceTest, WhatIsDoneComesFirstAndAFewAreToldAllTheSame) {
  Pace pace;
  Told(pace, kStart, seconds(1), 400);  // the burst is used up
  EXPECT_NEAR(Told(pace, kStart + seconds(1), seconds(10), 400), 100, 2);
  EXPECT_NEAR(Told(pace, kStart + seconds(11), seconds(10), 12), 100, 2);  // however slow it is
  EXPECT_NEAR(Told(pace, kStart + seconds(21), seconds(10), 0), 955, 10);
}

TEST(PaceTest, NextIsWhenOneMayBeTold) {
  for (const int after : {0, 300, 450, 1000}) {
    Pace pace({.rest_rate = 100, .busy_rate = 1, .burst = 1});
    pace.Act(kStart);
    const Time now = kStart + milliseconds(after);
    EXPECT_TRUE(pace.Take(now));
    EXPECT_FALSE(pace.Take(now));
    const Time next = pace.Next(now);
    EXPECT_GT(next, now);
    EXPECT_FALSE(pace.MayTell(next - milliseconds(1))) << after;
    EXPECT_TRUE(pace.MayTell(next)) << after;
  }
}

}  // namespace
}  // namespace tutti
