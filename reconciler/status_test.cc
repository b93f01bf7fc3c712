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

Eviction NotPlaced(const std::string& message, std::optional<Time> requeue_at = std::nullopt) {
  return {.reason = "PodsReadyTimeout",
          .cause = "NotPlaced",
          .message = message,
          .requeue_at = requeue_at,
          .counts = requeue_at.has_value()};
}

std::string Of(const api::WorkloadStatus& status, std::string_view type) {
  const api::Condition* condition = api::FindCondition(status.conditions, type);
  return condition == nullptr ? "" : condition->status + "/" + condition->reason;
}

TEST(StatusTest, AReservationAdmitsInTheSameWriteWhenNoCheckIsPending) {
  api::WorkloadStatus status;
  EXPECT_TRUE(Reserve(status, Decision(), {}, false, kNow));
  EXPECT_EQ(Of(status, "QuotaReserved"), "True/QuotaReserved");
  EXPECT_EQ(Of(status, "Admitted"), "True/Admitted");
  ASSERT_TRUE(status.admission.has_value());
  EXPECT_EQ(status.admission->assignments[0].resource_usage["cpu"].ToString(), "1500m");
  EXPECT_FALSE(Reserve(status, Decision(), {}, false, kNow + 1s)) << "twice changes nothing";
}

TEST(StatusTest, APendingCheckHoldsTheAdmissionBack) {
  api::WorkloadStatus status;
  status.checks.emplace_back();
  status.checks.back().state = "Pending";
  EXPECT_TRUE(Reserve(status, Decision(), {}, false, kNow));
  EXPECT_EQ(Of(status, "QuotaReserved"), "True/QuotaReserved");
  EXPECT_EQ(Of(status, "Admitted"), "");
}

TEST(StatusTest, ConditionsNameTheGenerationThatTheyWereDecidedFor) {
  api::Workload workload;
  workload.meta.generation = 3;
  Reserve(workload.status, Decision(), {}, false, kNow);
  const auto written = [&workload](size_t index) {
    return ApplyStatus(workload).body["status"]["conditions"].AsArray()[index];
  };
  EXPECT_EQ(written(0)["type"], Json("QuotaReserved"));
  EXPECT_EQ(written(0)["observedGeneration"], Json(3));
  EXPECT_EQ(written(1)["observedGeneration"], Json(3));

  // As the API server tells it back, and later with another spec.
  workload.status.conditions =
      api::ConditionsFromJson(ApplyStatus(workload).body["status"]["conditions"]);
  workload.meta.generation = 4;
  EXPECT_FALSE(Reserve(workload.status, Decision(), {}, false, kNow + 1s)) << "nothing to write";
  EXPECT_EQ(written(0)["observedGeneration"], Json(3));
  EXPECT_TRUE(SetPodsReady(workload.status, true, kNow + 2s));
  EXPECT_TRUE(Unreserve(workload.status, reason::kPending, "gone", kNow + 2s));
  EXPECT_EQ(written(0)["observedGeneration"], Json(4));
  EXPECT_EQ(written(2)["type"], Json("PodsReady"));
  EXPECT_EQ(written(2)["observedGeneration"], Json(4));
}

TEST(StatusTest, AMessageThatWasCutIsWrittenOnce) {
  api::Workload workload;
  workload.meta.generation = 2;
  const std::string message(40'000, 'x');
  EXPECT_TRUE(SetPendingReason(workload.status, reason::kPending, message, {}, kNow));
  workload.status.conditions =
      api::ConditionsFromJson(ApplyStatus(workload).body["status"]["conditions"]);
  EXPECT_FALSE(SetPendingReason(workload.status, reason::kPending, message, {}, kNow));
}

TEST(StatusTest, AnEvictionIsCountedOnceAndKeepsTheReservation) {
  api::WorkloadStatus status;
  Reserve(status, Decision(), {}, false, kNow);
  EXPECT_TRUE(Evict(status, NotPlaced("late", kNow + 10s), kNow));
  EXPECT_FALSE(Evict(status, NotPlaced("late", kNow + 10s), kNow));
  EXPECT_EQ(TotalEvictions(status), 1);
  EXPECT_EQ(status.requeue_count, 1);
  EXPECT_EQ(status.requeue_at, kNow + 10s);
  EXPECT_TRUE(status.admission.has_value());
  EXPECT_EQ(Of(status, "QuotaReserved"), "True/QuotaReserved");
}

TEST(StatusTest, AfterAnEvictionTheWayBackIsRequeuedAndReservedAgain) {
  api::WorkloadStatus status;
  Reserve(status, Decision(), {}, false, kNow);
  Evict(status, NotPlaced("late", kNow + 10s), kNow);
  EXPECT_TRUE(EndEviction(status, false, kNow + 1s));
  EXPECT_FALSE(status.admission.has_value());
  EXPECT_EQ(Of(status, "QuotaReserved"), "False/Pending");
  EXPECT_EQ(Of(status, "Admitted"), "False/NoReservation");
  EXPECT_EQ(Of(status, "Requeued"), "False/PodsReadyTimeout");
  EXPECT_FALSE(EndEviction(status, false, kNow + 2s));
  EXPECT_TRUE(Requeue(status, reason::kBackoffFinished, "over", kNow + 10s));
  EXPECT_EQ(Of(status, "Requeued"), "True/BackoffFinished");
  EXPECT_FALSE(status.requeue_at.has_value());
  EXPECT_EQ(status.requeue_count, 1) << "the next back-off is longer";
  EXPECT_TRUE(Reserve(status, Decision(), {}, false, kNow + 11s));
  EXPECT_EQ(Of(status, "Evicted"), "False/QuotaReserved");
  EXPECT_EQ(api::FindCondition(status.conditions, "Evicted")->message, "Previously: late");
}

TEST(StatusTest, DifferentCausesAreCountedApart) {
  api::WorkloadStatus status;
  Evict(status, NotPlaced("a"), kNow);
  Evict(status, {.reason = "ClusterQueueStopped", .message = "b"}, kNow);
  Evict(status, NotPlaced("c"), kNow);
  ASSERT_EQ(status.evictions.size(), 2U);
  EXPECT_EQ(status.evictions[0].count, 2);
  EXPECT_EQ(TotalEvictions(status), 3);
  EXPECT_FALSE(status.requeue_count.has_value());
}

TEST(StatusTest, ChecksStartAgainAfterAnEviction) {
  api::WorkloadStatus status;
  status.checks.emplace_back();
  status.checks.back().state = "Ready";
  Reserve(status, Decision(), {}, false, kNow);
  Evict(status, {.reason = "Deactivated", .message = "off"}, kNow);
  EXPECT_EQ(status.checks[0].state, "Pending");
  EXPECT_NE(status.checks[0].message.find("Previously: Ready"), std::string::npos);
}

TEST(StatusTest, ARequiredCheckThatIsNotListedYetHoldsTheAdmissionBack) {
  api::WorkloadStatus status;
  Reserve(status, Decision(), {"prov"}, false, kNow);
  EXPECT_EQ(Of(status, "QuotaReserved"), "True/QuotaReserved");
  EXPECT_EQ(Of(status, "Admitted"), "");
  status.checks.emplace_back();
  status.checks[0].name = "prov";
  status.checks[0].state = "Pending";
  EXPECT_FALSE(SyncAdmitted(status, kNow + 1s));
  status.checks[0].state = "Ready";
  EXPECT_TRUE(SyncAdmitted(status, kNow + 2s));
  EXPECT_EQ(Of(status, "Admitted"), "True/Admitted");
}

TEST(StatusTest, TheTimeThatAWorkloadWasAdmittedAddsUpOverItsEvictions) {
  api::WorkloadStatus status;
  Reserve(status, Decision(), {}, false, kNow);
  Evict(status, NotPlaced("late"), kNow + 5s);
  EXPECT_FALSE(status.accumulated_past_execution_seconds.has_value()) << "its pods still run";
  EndEviction(status, false, kNow + 7s);
  EXPECT_EQ(status.accumulated_past_execution_seconds, 7);
  Reserve(status, Decision(), {}, false, kNow + 20s);
  Evict(status, NotPlaced("late again"), kNow + 21s);
  EndEviction(status, false, kNow + 23s);
  EXPECT_EQ(status.accumulated_past_execution_seconds, 10);
}

TEST(StatusTest, ARetryIsCountedInItsCheckAndItsUpdatesAreForgotten) {
  api::WorkloadStatus status;
  status.checks.resize(2);
  status.checks[0].state = "Retry";
  status.checks[0].retry_count = 1;
  status.checks[0].pod_set_updates = Json::Arr();
  status.checks[0].requeue_after_seconds = 30;
  status.checks[1].state = "Pending";
  status.checks[1].message = "as it was";
  Evict(status, {.reason = "AdmissionCheck", .message = "again"}, kNow);
  EXPECT_EQ(status.checks[0].retry_count, 2);
  EXPECT_EQ(status.checks[0].requeue_after_seconds, 30);
  EXPECT_TRUE(status.checks[0].pod_set_updates.IsNull());
  EXPECT_EQ(status.checks[0].message, "Reset to Pending after eviction. Previously: Retry");
  EXPECT_EQ(status.checks[1].message, "as it was");
}

TEST(StatusTest, AnEvictionNeverShortensAWaitThatSomebodyElseAskedFor) {
  api::WorkloadStatus status;
  status.requeue_at = kNow + 60s;
  Evict(status, NotPlaced("late", kNow + 10s), kNow);
  EXPECT_EQ(status.requeue_at, kNow + 60s);
  EXPECT_EQ(status.requeue_count, 1);
}

TEST(StatusTest, TheCauseOfADeactivationIsPartOfTheReasonAndNotOfTheCount) {
  api::WorkloadStatus status;
  Evict(status,
        {.reason = "Deactivated", .cause = "RequeuingLimitExceeded", .message = "too often"}, kNow);
  EXPECT_EQ(Of(status, "Evicted"), "True/DeactivatedDueToRequeuingLimitExceeded");
  ASSERT_EQ(status.evictions.size(), 1U);
  EXPECT_EQ(status.evictions[0].reason, "Deactivated");
  EXPECT_EQ(status.evictions[0].underlying_cause, "RequeuingLimitExceeded");
}

TEST(StatusTest, APreemptedWorkloadMayComeBackAtOnce) {
  api::WorkloadStatus status;
  Reserve(status, Decision(), {}, false, kNow);
  Evict(status, {.reason = "Preempted", .message = "for another"}, kNow + 1s);
  EndEviction(status, false, kNow + 2s);
  EXPECT_EQ(Of(status, "Requeued"), "True/Preempted");
}

TEST(StatusTest, PreemptionGatesCloseAndTheRestOfOthersFieldsGoes) {
  api::WorkloadStatus status;
  status.other = Json::Obj(
      {{"clusterName", "west"},
       {"unhealthyNodes", Json::Arr()},
       {"preemptionGates",
        Json::Arr(
            {Json::Obj({{"name", "g"}, {"position", "Open"}, {"lastTransitionTime", ""}})})}});
  Evict(status, {.reason = "Preempted", .message = "for another"}, kNow);
  EXPECT_FALSE(status.other.Has("clusterName"));
  EXPECT_FALSE(status.other.Has("unhealthyNodes"));
  EXPECT_EQ(status.other["preemptionGates"].AsArray()[0]["position"].AsString(), "Closed");
}

TEST(StatusTest, ReadinessThatIsLostAndFoundIsARecovery) {
  api::WorkloadStatus status;
  Reserve(status, Decision(), {}, true, kNow);
  EXPECT_EQ(Of(status, "PodsReady"), "False/WaitForStart");
  EXPECT_FALSE(SetPodsReady(status, false, kNow + 1s));
  EXPECT_TRUE(SetPodsReady(status, true, kNow + 2s));
  EXPECT_EQ(Of(status, "PodsReady"), "True/Started");
  EXPECT_TRUE(SetPodsReady(status, false, kNow + 3s));
  EXPECT_EQ(Of(status, "PodsReady"), "False/WaitForRecovery");
  EXPECT_TRUE(SetPodsReady(status, true, kNow + 4s));
  EXPECT_EQ(Of(status, "PodsReady"), "True/Recovered");
  EXPECT_FALSE(SetPodsReady(status, true, kNow + 5s));
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

TEST(StatusTest, WithDetailAdmittedFalseStandsBesideEveryReservedFalse) {
  api::WorkloadStatus status;
  EXPECT_FALSE(SyncAdmitted(status, kNow, ReasonStyle::kDetailed)) << "nothing was decided yet";
  SetPendingReason(status, "WaitingForQuota", "needs 1", {}, kNow, ReasonStyle::kDetailed);
  EXPECT_EQ(Of(status, "Admitted"), "False/NoReservation");
  EXPECT_FALSE(SyncAdmitted(status, kNow + 1s, ReasonStyle::kDetailed));
  Reserve(status, Decision(), {"check"}, false, kNow + 2s, ReasonStyle::kDetailed);
  EXPECT_EQ(Of(status, "Admitted"), "False/UnsatisfiedAdmissionChecks");
  api::WorkloadStatus plain;
  SetPendingReason(plain, reason::kPending, "needs 1", {}, kNow);
  EXPECT_EQ(api::FindCondition(plain.conditions, "Admitted"), nullptr);
}

TEST(StatusTest, EveryReasonOfTheEngineHasOneOfTheApi) {
  EXPECT_EQ(CoarseReason(engine::PendingReason::kMisconfigured), reason::kInadmissible);
  EXPECT_EQ(CoarseReason(engine::PendingReason::kSuspended), reason::kInadmissible);
  EXPECT_EQ(CoarseReason(engine::PendingReason::kWaitingForQuota), reason::kPending);
  EXPECT_EQ(CoarseReason(engine::PendingReason::kWaitingForCapacity), reason::kPending);
  EXPECT_EQ(CoarseReason(engine::PendingReason::kBehindHead), reason::kPending);
  EXPECT_EQ(CoarseReason(engine::PendingReason::kNotAccepted), reason::kPending);
  EXPECT_EQ(DetailedReason(engine::PendingReason::kNotAccepted), reason::kMisconfigured);
  EXPECT_EQ(DetailedReason(engine::PendingReason::kSuspended), reason::kSuspended);
  EXPECT_EQ(DetailedReason(engine::PendingReason::kWaitingForQuota), "WaitingForQuota");
  EXPECT_EQ(DetailedReason(engine::PendingReason::kBehindHead), reason::kPendingEvaluation);
  EXPECT_EQ(DetailedReason(engine::PendingReason::kPreemptionGated), reason::kAdmissionGated);
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
