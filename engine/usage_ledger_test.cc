// SPDX-License-Identifier: Apache-2.0
// Admission fair sharing's bookkeeping, by hand.
#include "engine/usage_ledger.h"

#include <chrono>
#include <limits>

#include <gtest/gtest.h>

namespace tutti::engine {
namespace {

using std::chrono::minutes;

const Time kStart = Time{} + std::chrono::hours(1);
const api::ObjectKey kA{"team", "a"};

UsageLedger Ledger(Duration half_life = minutes(10), Duration sampling = minutes(10)) {
  UsageLedger ledger;
  ledger.Configure({half_life, sampling, {}});
  return ledger;
}

TEST(UsageLedgerTest, NothingUsedIsZero) {
  EXPECT_EQ(Ledger().Usage(kA, 1), 0);
  EXPECT_EQ(Ledger().Usage(kA, 0), std::numeric_limits<double>::infinity());
}

TEST(UsageLedgerTest, ThePastFadesByHalfInAHalfLife) {
  UsageLedger ledger = Ledger();
  ledger.Restore(kA, {{"gpu", 8}}, kStart);
  ledger.Sample(kA, {}, kStart + minutes(10));
  EXPECT_DOUBLE_EQ(ledger.Usage(kA, 1), 4);
  ledger.Sample(kA, {{"gpu", 2}}, kStart + minutes(20));
  EXPECT_DOUBLE_EQ(ledger.Usage(kA, 1), 3) << "half of 4, half of 2";
}

TEST(UsageLedgerTest, SmallStepsAreOneBigStep) {
  UsageLedger small = Ledger();
  UsageLedger big = Ledger();
  for (UsageLedger* ledger : {&small, &big}) {
    ledger->Restore(kA, {{"gpu", 8}}, kStart);
  }
  for (int step = 1; step <= 600; ++step) {
    small.Sample(kA, {{"gpu", 2}}, kStart + std::chrono::seconds(step));
  }
  big.Sample(kA, {{"gpu", 2}}, kStart + minutes(10));
  EXPECT_NEAR(small.Usage(kA, 1), big.Usage(kA, 1), 1e-9);
}

TEST(UsageLedgerTest, EnteringHasAPriceUntilItIsSettledOrRefunded) {
  UsageLedger ledger = Ledger();
  ledger.Charge(kA, "team/x", {{"gpu", 8}}, kStart);
  EXPECT_DOUBLE_EQ(ledger.Usage(kA, 1), 4) << "half a half-life's worth";
  ledger.Charge(kA, "team/x", {{"gpu", 8}}, kStart);
  EXPECT_DOUBLE_EQ(ledger.Usage(kA, 1), 4) << "charged twice, it pays once";
  ledger.Charge(kA, "team/y", {{"gpu", 2}}, kStart);
  ledger.Refund(kA, "team/x");
  ledger.Refund(kA, "team/x");
  EXPECT_DOUBLE_EQ(ledger.Usage(kA, 1), 1);
  ledger.Settle(kA, "team/y", {{"gpu", 2}}, kStart);
  EXPECT_DOUBLE_EQ(ledger.Usage(kA, 1), 1) << "now consumed";
  ledger.Refund(kA, "team/y");
  EXPECT_DOUBLE_EQ(ledger.Usage(kA, 1), 1) << "nothing is left to give back";
  ledger.Settle(kA, "team/y", {{"gpu", 2}}, kStart);
  EXPECT_DOUBLE_EQ(ledger.Usage(kA, 1), 1) << "settled twice, it pays once";
}

TEST(UsageLedgerTest, WeightsOfResourcesAndOfTheQueue) {
  UsageLedger ledger;
  ledger.Configure({minutes(10), minutes(10), {{"gpu", 10}, {"memory", 0}}});
  ledger.Restore(kA, {{"gpu", 1}, {"cpu", 3}, {"memory", 1e12}}, kStart);
  EXPECT_DOUBLE_EQ(ledger.Usage(kA, 1), 13);
  EXPECT_DOUBLE_EQ(ledger.Usage(kA, 2), 6.5);
}

TEST(UsageLedgerTest, WithoutHalfLifeThePastDoesNotCount) {
  UsageLedger ledger = Ledger(Duration::zero());
  ledger.Restore(kA, {{"gpu", 8}}, kStart);
  ledger.Charge(kA, "team/x", {{"gpu", 8}}, kStart);
  ledger.Sample(kA, {{"gpu", 2}}, kStart + minutes(1));
  EXPECT_EQ(ledger.Usage(kA, 1), 0);
}

TEST(UsageLedgerTest, AClockThatStepsBackChangesNothing) {
  UsageLedger ledger = Ledger();
  ledger.Restore(kA, {{"gpu", 8}}, kStart);
  ledger.Sample(kA, {{"gpu", 100}}, kStart - minutes(60));
  EXPECT_DOUBLE_EQ(ledger.Usage(kA, 1), 8);
  ledger.Sample(kA, {}, kStart + minutes(10));
  EXPECT_DOUBLE_EQ(ledger.Usage(kA, 1), 4) << "not more than from the last update";
}

TEST(UsageLedgerTest, WhatIsRestoredBeforeTheFirstStepIsNotFiftyYearsOld) {
  UsageLedger ledger = Ledger();
  ledger.Restore(kA, {{"gpu", 8}}, kNoTime);
  ledger.Sample(kA, {}, kStart);
  EXPECT_DOUBLE_EQ(ledger.Usage(kA, 1), 8);
}

TEST(UsageLedgerTest, AStatusIsRestoredOnce) {
  UsageLedger ledger = Ledger();
  ledger.Charge(kA, "team/x", {{"gpu", 8}}, kStart);
  ledger.Settle(kA, "team/x", {}, kStart);  // before the status was seen
  ledger.Restore(kA, {{"gpu", 8}}, kStart);
  ledger.Restore(kA, {{"gpu", 8}}, kStart);
  EXPECT_DOUBLE_EQ(ledger.Usage(kA, 1), 12);
  ledger.Remove(kA);
  EXPECT_EQ(ledger.Usage(kA, 1), 0);
}

}  // namespace
}  // namespace tutti::engine
