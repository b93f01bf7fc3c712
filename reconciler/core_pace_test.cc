// SPDX-License-Identifier: Apache-2.0
// What is told about waiting jobs and queues leaves the server to what is done.
#include <gtest/gtest.h>

#include "reconciler/testing/cluster.h"
#include "reconciler/testing/objects.h"

namespace tutti::reconciler {
namespace {

using namespace std::chrono_literals;
using testing::Cluster;

Options TestOptions() {
  Options options;
  options.managed_namespaces.present = true;
  options.capacity = CapacityChoice::kOff;
  return options;
}

struct Crowd {
  explicit Crowd(int jobs) : cluster(TestOptions()) {
    cluster.AddNamespace("team-a");
    cluster.AddFlavor("default");
    cluster.AddNode("n1", 8);
    cluster.AddQueue("cq", "team-a", {{"cpu", "1"}});
    cluster.Tick();
    for (int i = 0; i < jobs; ++i) {
      cluster.Submit(
          {.name = "job-" + std::to_string(1000 + i), .runs_for = std::chrono::hours(24)});
    }
  }
  int Told() const {
    int told = 0;
    for (const HistoryRow& row : cluster.history()) {
      told += row.kind == HistoryKind::kPending ? 1 : 0;
    }
    return told;
  }
  Cluster cluster;
};

TEST(CorePaceTest, ReasonsOfManyWaitingJobsAreToldInTimeNotAllAtOnce) {
  Crowd crowd(400);
  crowd.cluster.Run(1500ms);
  EXPECT_LT(crowd.Told(), 260);  // a burst; the creation of 400 Workloads came first
  EXPECT_GT(crowd.cluster.core().ReasonsWaiting(), 100U);
  crowd.cluster.Run(6s);
  EXPECT_EQ(crowd.cluster.core().ReasonsWaiting(), 0U);
  EXPECT_GE(crowd.Told(), 399);
}

TEST(CorePaceTest, WhatAPersonMustMendIsToldAtOnceHoweverManyWait) {
  Crowd crowd(400);
  crowd.cluster.Run(1500ms);
  crowd.cluster.Submit({.name = "typo", .queue = "no-such-queue"});
  crowd.cluster.Run(600ms);
  EXPECT_GT(crowd.cluster.core().ReasonsWaiting(), 0U);
  EXPECT_EQ(crowd.cluster.Condition(crowd.cluster.WorkloadOf("team-a", "typo"), "QuotaReserved",
                                    "reason"),
            "Inadmissible");
}

TEST(CorePaceTest, AMessageThatChangesAllTheTimeIsWrittenMoreAndMoreSeldom) {
  Crowd crowd(2);  // one runs, one waits
  crowd.cluster.Run(3s);
  const int before = crowd.Told();
  for (int i = 0; i < 300; ++i) {  // 5 minutes
    // "1 more needed", "2 more needed": the running job shrinks what is there.
    crowd.cluster.SetQuota("cq", "cpu", i % 2 == 0 ? "500m" : "1");
    crowd.cluster.Run(1s, 500ms);
  }
  const int writes = crowd.Told() - before;
  EXPECT_GT(writes, 4);
  EXPECT_LT(writes, 15);  // 1 s, 2 s, 4 s, …
}

}  // namespace
}  // namespace tutti::reconciler
