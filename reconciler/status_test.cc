// SPDX-License-Identifier: Apache-2.0
#include "reconciler/status.h"

#include <gtest/gtest.h>

namespace tutti::reconciler {
namespace {

using namespace std::chrono_literals;

const Time kNow{1'900'000'000s};

engine::AdmitDecision Decision() {
  engine::AdmitDecision decision;
  decision.id = "team/w";
  decision.cluster_queue = "cq";
  engine::PodSetDecision pod_set;
  pod_set.name = "main";
  pod_set.count = 3;
  pod_set.flavors["cpu"] = "default";
  pod_set.usage["cpu"] = 1500;
  decision.pod_sets.push_back(pod_set);
  return decision;
}

std::string Of(const api::WorkloadStatus& status, std::string_view type) {
  const api::Condition* condition = api::FindCondition(status.conditions, type);
  return condition == nullptr ? "" : condition->status + "/" + condition->reason;
}

TEST(StatusTest, AReservationAdmitsInTheSameWriteWhenNoCheckIsPending) {
  api::WorkloadStatus status;
  EXPECT_TRUE(Reserve(status, Decision(), kNow));
  EXPECT_EQ(Of(status, "QuotaReserved"), "True/QuotaReserved");
  EXPECT_EQ(Of(status, "Admitted"), "True/Admitted");
  ASSERT_TRUE(status.admission.has_value());
  EXPECT_EQ(status.admission->assignments[0].resource_usage["cpu"].ToString(), "1500m");
  EXPECT_FALSE(Reserve(status, Decision(), kNow + 1s)) << "twice changes nothing";
}

TEST(StatusTest, APendingCheckHoldsTheAdmissionBack) {
  api::WorkloadStatus status;
  status.checks.emplace_back();
  status.checks.back().state = "Pending";
  EXPECT_TRUE(Reserve(status, Decision(), kNow));
  EXPECT_EQ(Of(status, "QuotaReserved"), "True/QuotaReserved");
  EXPECT_EQ(Of(status, "Admitted"), "");
}

TEST(StatusTest, AnEvictionIsCountedOnceAndKeepsTheReservation) {
  api::WorkloadStatus status;
  Reserve(status, Decision(), kNow);
  EXPECT_TRUE(
      Evict(status, reason::kPodsReadyTimeout, reason::kNotPlaced, "late", kNow + 10s, kNow));
  EXPECT_FALSE(
      Evict(status, reason::kPodsReadyTimeout, reason::kNotPlaced, "late", kNow + 10s, kNow));
  EXPECT_EQ(TotalEvictions(status), 1);
  EXPECT_EQ(status.requeue_count, 1);
  EXPECT_EQ(status.requeue_at, kNow + 10s);
  EXPECT_TRUE(status.admission.has_value());
  EXPECT_EQ(Of(status, "QuotaReserved"), "True/QuotaReserved");
}

TEST(StatusTest, AfterAnEvictionTheWayBackIsRequeuedAndReservedAgain) {
  api::WorkloadStatus status;
  Reserve(status, Decision(), kNow);
  Evict(status, reason::kPodsReadyTimeout, reason::kNotPlaced, "late", kNow + 10s, kNow);
  EXPECT_TRUE(EndEviction(status, kNow + 1s));
  EXPECT_FALSE(status.admission.has_value());
  EXPECT_EQ(Of(status, "QuotaReserved"), "False/Pending");
  EXPECT_EQ(Of(status, "Admitted"), "False/NoReservation");
  EXPECT_EQ(Of(status, "Requeued"), "False/PodsReadyTimeout");
  EXPECT_FALSE(EndEviction(status, kNow + 2s));
  EXPECT_TRUE(Requeue(status, reason::kBackoffFinished, "over", kNow + 10s));
  EXPECT_EQ(Of(status, "Requeued"), "True/BackoffFinished");
  EXPECT_FALSE(status.requeue_at.has_value());
  EXPECT_EQ(status.requeue_count, 1) << "the next back-off is longer";
  EXPECT_TRUE(Reserve(status, Decision(), kNow + 11s));
  EXPECT_EQ(Of(status, "Evicted"), "False/QuotaReserved");
  EXPECT_EQ(api::FindCondition(status.conditions, "Evicted")->message, "Previously: late");
}

TEST(StatusTest, DifferentCausesAreCountedApart) {
  api::WorkloadStatus status;
  Evict(status, reason::kPodsReadyTimeout, reason::kNotPlaced, "a", std::nullopt, kNow);
  Evict(status, reason::kClusterQueueStopped, "", "b", std::nullopt, kNow);
  Evict(status, reason::kPodsReadyTimeout, reason::kNotPlaced, "c", std::nullopt, kNow);
  ASSERT_EQ(status.evictions.size(), 2U);
  EXPECT_EQ(status.evictions[0].count, 2);
  EXPECT_EQ(TotalEvictions(status), 3);
  EXPECT_FALSE(status.requeue_count.has_value());
}

TEST(StatusTest, ChecksStartAgainAfterAnEviction) {
  api::WorkloadStatus status;
  status.checks.emplace_back();
  status.checks.back().state = "Ready";
  Reserve(status, Decision(), kNow);
  Evict(status, reason::kDeactivated, "", "off", std::nullopt, kNow);
  EXPECT_EQ(status.checks[0].state, "Pending");
  EXPECT_NE(status.checks[0].message.find("Previously: Ready"), std::string::npos);
}

TEST(StatusTest, TheSameReasonIsNoChange) {
  api::WorkloadStatus status;
  api::ResourceList list;
  list["cpu"] = *api::Quantity::Parse("1500m");
  EXPECT_TRUE(SetPendingReason(status, reason::kPending, "needs 1", {{"main", list}}, kNow));
  EXPECT_FALSE(SetPendingReason(status, reason::kPending, "needs 1", {{"main", list}}, kNow + 9s));
  EXPECT_TRUE(SetPendingReason(status, reason::kPending, "needs 2", {{"main", list}}, kNow + 9s));
  EXPECT_EQ(api::FindCondition(status.conditions, "QuotaReserved")->last_transition, kNow)
      << "another message is no transition";
}

TEST(StatusTest, EveryReasonOfTheEngineHasOneOfTheApi) {
  EXPECT_EQ(CoarseReason(engine::PendingReason::kMisconfigured), reason::kInadmissible);
  EXPECT_EQ(CoarseReason(engine::PendingReason::kSuspended), reason::kInadmissible);
  EXPECT_EQ(CoarseReason(engine::PendingReason::kWaitingForQuota), reason::kPending);
  EXPECT_EQ(CoarseReason(engine::PendingReason::kWaitingForCapacity), reason::kPending);
  EXPECT_EQ(CoarseReason(engine::PendingReason::kBehindHead), reason::kPending);
}

TEST(StatusTest, BackoffDoublesUpToItsLimit) {
  EXPECT_EQ(Backoff(1, 10s, 600s), Duration(10s));
  EXPECT_EQ(Backoff(2, 10s, 600s), Duration(20s));
  EXPECT_EQ(Backoff(6, 10s, 600s), Duration(320s));
  EXPECT_EQ(Backoff(7, 10s, 600s), Duration(600s));
  EXPECT_EQ(Backoff(INT32_MAX, 10s, 600s), Duration(600s));
}

}  // namespace
}  // namespace tutti::reconciler
