// SPDX-License-Identifier: Apache-2.0
#include "reconciler/names.h"

#include <gtest/gtest.h>

namespace tutti::reconciler {
namespace {

const std::string kUid = "0b1a4d2e-7c55-4f2b-9d1e-3a5b8c6d7e8f";

TEST(NamesTest, AWorkloadIsNamedAfterKindOwnerAndHash) {
  const std::string name = WorkloadName("Job", "batch", "train", kUid);
  EXPECT_EQ(name.substr(0, 10), "job-train-");
  EXPECT_EQ(name.size(), 15U);
  EXPECT_EQ(name, WorkloadName("Job", "batch", "train", kUid));
}

TEST(NamesTest, AJobCreatedAgainUnderItsNameGetsAnotherWorkload) {
  EXPECT_NE(WorkloadName("Job", "batch", "train", kUid),
            WorkloadName("Job", "batch", "train", "another-uid"));
}

TEST(NamesTest, LongNamesStayWithinTheLimitAndApart) {
  const std::string same(260, 'a');
  const std::string name = WorkloadName("Job", "batch", same, "uid-1");
  EXPECT_EQ(name.size(), 253U);
  EXPECT_NE(name, WorkloadName("Job", "batch", same, "uid-2"));
}

TEST(NamesTest, AGroupNameIsALabelValueForEveryJobName) {
  EXPECT_EQ(GroupName("train", kUid, 3), "train-0b1a4d2e-3");
  for (size_t length : {1U, 50U, 51U, 52U, 63U, 253U}) {
    const std::string name = GroupName(std::string(length, 'j'), kUid, 1234567);
    EXPECT_LE(name.size(), 63U) << length;
    EXPECT_NE(name.find("-0b1a4d2e-1234567"), std::string::npos) << length;
  }
}

TEST(NamesTest, ACutGroupNameHasNoDotOrDashBeforeItsNumber) {
  const std::string dotted = std::string(51, 'j') + "." + std::string(20, 'k');
  EXPECT_EQ(GroupName(dotted, kUid, 1), std::string(51, 'j') + "-0b1a4d2e-1");
}

TEST(NamesTest, AnotherAdmissionGetsAnotherGroup) {
  EXPECT_NE(GroupName("train", kUid, 1), GroupName("train", kUid, 2));
}

TEST(NamesTest, ProvisioningNamesAreKueuesAndTellTheirAttempt) {
  EXPECT_EQ(ProvisioningRequestName("wl", "check", 1), "wl-check-1");
  EXPECT_EQ(ProvisioningTemplateName("wl-check-1", "main"), "ppt-wl-check-1-main");
  EXPECT_EQ(ProvisioningAttempt("wl-check-12", "wl", "check"), 12);
  for (const char* other : {"wl-check-", "wl-check-x", "wl-check-1x", "wl-other-1", "wl-check-1-1",
                            "wl-check--1", "x-wl-check-1"}) {
    EXPECT_EQ(ProvisioningAttempt(other, "wl", "check"), std::nullopt) << other;
  }
  EXPECT_EQ(ProvisioningAttempt("wl-check-1-2", "wl", "check-1"), 2);
}

TEST(NamesTest, ACutProvisioningNameStillTellsItsAttempt) {
  for (size_t length : {230U, 238U, 239U, 240U, 241U, 252U}) {
    const std::string workload(length, 'w');
    for (int32_t attempt : {1, 2, 13}) {
      const std::string name = ProvisioningRequestName(workload, "check", attempt);
      EXPECT_LE(name.size(), 253U);
      EXPECT_EQ(ProvisioningAttempt(name, workload, "check"), attempt) << length;
    }
    EXPECT_LE(ProvisioningTemplateName(workload, "main").size(), 253U);
  }
}

}  // namespace
}  // namespace tutti::reconciler
