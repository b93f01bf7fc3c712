// SPDX-License-Identifier: Apache-2.0
#include "reconciler/admission_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::reconciler {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Time kNow{1'900'000'000s};

api::AdmissionCheckState Check(const std::string& name, const std::string& state,
                               const std::string& message = "", Time last_transition = kNoTime,
                               std::optional<int32_t> requeue_after = std::nullopt) {
  api::AdmissionCheckState check;
  check.name = name;
  check.state = state;
  check.message = message;
  check.last_transition = last_transition;
  check.requeue_after_seconds = requeue_after;
  return check;
}

api::ClusterQueue Queue(std::vector<api::ClusterQueue::Check> checks) {
  api::ClusterQueue queue;
  queue.meta.name = "cq";
  api::ResourceGroup group;
  group.flavors = {{"spot", {}}, {"reserved", {}}};
  queue.groups.push_back(group);
  queue.admission_checks = std::move(checks);
  return queue;
}

std::optional<api::Admission> On(const std::string& flavor) {
  api::Admission admission;
  api::PodSetAssignment assignment;
  assignment.flavors["cpu"] = flavor;
  admission.assignments.push_back(assignment);
  return admission;
}

TEST(AdmissionChecksTest, BeforeAReservationOnlyChecksThatApplyToAllFlavorsAreNeeded) {
  const api::ClusterQueue queue =
      Queue({{"everywhere", {}}, {"on-spot", {"spot"}}, {"on-both", {"spot", "reserved"}}});
  EXPECT_THAT(RequiredChecks(queue, std::nullopt), ElementsAre("everywhere", "on-both"));
  EXPECT_THAT(RequiredChecks(queue, On("spot")), ElementsAre("everywhere", "on-both", "on-spot"));
  EXPECT_THAT(RequiredChecks(queue, On("reserved")), ElementsAre("everywhere", "on-both"));
  EXPECT_THAT(RequiredChecks(Queue({}), On("spot")), IsEmpty());
}

TEST(AdmissionChecksTest, TheListKeepsWhatIsKnownDropsTheRestAndIsSorted) {
  std::vector<api::AdmissionCheckState> checks = {Check("old", "Ready"), Check("b", "Ready")};
  EXPECT_TRUE(SyncChecks(checks, {"a", "b"}, kNow));
  ASSERT_EQ(checks.size(), 2U);
  EXPECT_EQ(checks[0].name, "a");
  EXPECT_EQ(checks[0].state, "Pending");
  EXPECT_EQ(checks[0].last_transition, kNow);
  EXPECT_EQ(checks[1].state, "Ready");
  EXPECT_FALSE(SyncChecks(checks, {"a", "b"}, kNow + 1s));
  EXPECT_TRUE(SyncChecks(checks, {}, kNow + 1s));
  EXPECT_TRUE(checks.empty());
}

TEST(AdmissionChecksTest, ChecksAreNamedWithWhatTheySay) {
  api::WorkloadStatus status;
  status.checks = {Check("b", "Retry"), Check("c", "Ready"), Check("a", "Retry", "no room")};
  EXPECT_EQ(DescribeChecks(status, "Retry"),
            "AdmissionChecks in Retry state: \"a\" (no room); \"b\"");
  EXPECT_EQ(DescribeChecks(status, "Ready"), "AdmissionCheck in Ready state: \"c\"");
}

TEST(AdmissionChecksTest, TheLongestWaitThatIsAskedForCounts) {
  api::WorkloadStatus status;
  status.checks = {Check("a", "Retry", "", kNow, 30), Check("b", "Retry", "", kNow - 10s, 60),
                   Check("c", "Pending", "", kNow, 600), Check("d", "Retry", "", kNow)};
  EXPECT_EQ(RetryAt(status, kNow), kNow + 50s);
  EXPECT_EQ(RetryAt(status, kNow + 50s), std::nullopt) << "that time has come";
}

TEST(AdmissionChecksTest, UpdatesOfSeveralChecksAddUpAndAConflictNamesFieldAndCheck) {
  api::WorkloadStatus status;
  const auto update = [](const char* text) { return Json::Parse(text).value(); };
  status.checks = {Check("a", "Ready"), Check("b", "Ready")};
  status.checks[0].pod_set_updates = update(R"([{"name":"main","labels":{"x":"1"},
      "nodeSelector":{"zone":"west"},"tolerations":[{"key":"t","operator":"Exists"}]},
      {"name":"other","labels":{"y":"1"}}])");
  status.checks[1].pod_set_updates = update(R"([{"name":"main","annotations":{"p":"q"},
      "nodeSelector":{"zone":"west"},"tolerations":[{"key":"t","operator":"Exists"}]}])");
  const auto updates = UpdatesFor(status, "main");
  ASSERT_TRUE(updates) << updates.error().message;
  EXPECT_EQ(updates->labels, (api::StringMap{{"x", "1"}}));
  EXPECT_EQ(updates->annotations, (api::StringMap{{"p", "q"}}));
  EXPECT_EQ(updates->node_selector, (api::StringMap{{"zone", "west"}}));
  EXPECT_EQ(updates->tolerations.size(), 1U);
  status.checks[1].pod_set_updates = update(R"([{"name":"main","nodeSelector":{"zone":"east"}}])");
  const auto conflict = UpdatesFor(status, "main");
  ASSERT_FALSE(conflict);
  EXPECT_THAT(conflict.error().message,
              HasSubstr("status.admissionChecks[b].podSetUpdates.nodeSelector[zone]"));
}

TEST(AdmissionChecksTest, AQueueSaysWhichOfItsChecksAreMissingOrInactive) {
  Store<api::AdmissionCheck> checks;
  const auto add = [&](const std::string& name, bool active,
                       const std::string& controller = "example.com/c") {
    auto check = std::make_shared<api::AdmissionCheck>();
    check->meta.name = name;
    check->meta.resource_version = "1";
    check->controller = controller;
    if (active) {
      api::SetCondition(check->conditions, {"Active", "True", "Active", "", kNow, 0}, kNow);
    }
    checks.Upsert(check);
  };
  add("good", true);
  add("asleep", false);
  EXPECT_EQ(ChecksProblem(Queue({{"good", {}}}), checks).first, "");
  EXPECT_EQ(ChecksProblem(Queue({{"good", {}}, {"asleep", {}}}), checks).second,
            "references inactive AdmissionCheck(s): asleep");
  const auto both = ChecksProblem(Queue({{"z", {}}, {"asleep", {}}, {"b", {}}}), checks);
  EXPECT_EQ(both.first, "AdmissionCheckNotFound");
  EXPECT_EQ(both.second,
            "references missing AdmissionCheck(s): b,z, references inactive AdmissionCheck(s): "
            "asleep");
  add("mk1", true, "kueue.x-k8s.io/multikueue");
  add("mk2", true, "kueue.x-k8s.io/multikueue");
  EXPECT_EQ(ChecksProblem(Queue({{"mk1", {}}, {"mk2", {}}}), checks).first,
            "MultipleMultiKueueAdmissionChecks");
  EXPECT_EQ(ChecksProblem(Queue({{"mk1", {"spot"}}}), checks).first,
            "MultiKueueAdmissionCheckAppliedPerFlavor");
}

}  // namespace
}  // namespace tutti::reconciler
