// SPDX-License-Identifier: Apache-2.0
#include "sim/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Flavor(const std::string& name) {
  return R"({"kind": "ResourceFlavor", "metadata": {"name": ")" + name + R"("}})";
}

// A ClusterQueue of one resource and flavor `f`, and a LocalQueue of its name in namespace `ns`.
std::string Queue(const std::string& name, const std::string& resource, int quota,
                  const std::string& more = "") {
  return R"({"kind": "ClusterQueue", "metadata": {"name": ")" + name +
         R"("}, "spec": {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": [")" +
         resource + R"("], "flavors": [{"name": "f", "resources": [{"name": ")" + resource +
         R"(", "nominalQuota": )" + std::to_string(quota) + "}]}]}]" + more + "}}," +
         R"({"kind": "LocalQueue", "metadata": {"name": ")" + name +
         R"(", "namespace": "ns"}, "spec": {"clusterQueue": ")" + name + R"("}})";
}

std::string Job(const std::string& name, const std::string& queue, int pods, int gpus,
                const std::string& arrives, const std::string& runs) {
  return R"({"kind": "Job", "metadata": {"name": ")" + name +
         R"(", "namespace": "ns", "labels": {"kueue.x-k8s.io/queue-name": ")" + queue +
         R"("}, "annotations": {"tutti.dev/simulate-arrival": ")" + arrives +
         R"(", "tutti.dev/simulate-runtime": ")" + runs + R"("}}, "spec": {"parallelism": )" +
         std::to_string(pods) + R"(, "completions": )" + std::to_string(pods) +
         R"(, "template": {"spec": {"containers": [{"name": "c", "resources": {"limits": {"example.com/gpu": )" +
         std::to_string(gpus) + "}}}]}}}}";
}

std::string Node(const std::string& name, int gpus) {
  return R"({"kind": "Node", "metadata": {"name": ")" + name +
         R"(", "labels": {"kubernetes.io/hostname": ")" + name +
         R"("}}, "status": {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "110", "example.com/gpu": ")" +
         std::to_string(gpus) + R"("}, "conditions": [{"type": "Ready", "status": "True"}]}})";
}

Result<Report> Play(const std::string& objects, const Options& options = {}) {
  const Result<Json> list = Json::Parse(R"({"kind": "List", "items": [)" + objects + "]}");
  EXPECT_TRUE(list);
  return Simulate({{"test", *list}}, options);
}

std::vector<std::string> Lines(const Report& report) {
  std::vector<std::string> out;
  for (const Event& event : report.events) {
    if (event.kind != EventKind::kArrives) {
      out.push_back(FormatDuration(event.at) + " " + event.workload + " " +
                    std::string(ToString(event.kind)));
    }
  }
  return out;
}

// Quota 4. a (4, 10 m) at 0; b (2, 5 m) at 1 m; c (2, 20 m) at 2 m: both start when a ends.
TEST(SimulateTest, QuotaDecidesWhenJobsStart) {
  const auto report = Play(Flavor("f") + "," + Queue("q", "example.com/gpu", 4) + "," +
                           Job("a", "q", 4, 1, "0", "10m") + "," + Job("b", "q", 2, 1, "1m", "5m") +
                           "," + Job("c", "q", 1, 2, "2m", "20m"));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_THAT(
      Lines(*report),
      ElementsAre("0s ns/a starts", "1m0s ns/b waits", "2m0s ns/c waits", "10m0s ns/a ends",
                  "10m0s ns/b starts", "10m0s ns/c starts", "15m0s ns/b ends", "30m0s ns/c ends"));
  EXPECT_EQ(report->end, std::chrono::minutes(30));
  EXPECT_EQ(report->jobs[1].waited, std::chrono::minutes(9));
  EXPECT_EQ(report->jobs[2].waited, std::chrono::minutes(8));
  ASSERT_EQ(report->usage.size(), 1U);
  EXPECT_EQ(report->usage[0].peak, 4);
  // 4 for 10 minutes, 4 for 5, 2 for 15, of 30.
  EXPECT_DOUBLE_EQ(report->usage[0].mean, 3.0);
  EXPECT_THAT(report->notes, ElementsAre("no Node in the input: quota alone decides"));
}

// Quota is there for both; two nodes of 4 hold one gang of 2 x 3, and beside it only one more pod
// of 1.
TEST(SimulateTest, AGangWaitsForItsPlaces) {
  const auto report =
      Play(Flavor("f") + "," + Queue("q", "example.com/gpu", 100) + "," + Node("n1", 4) + "," +
           Node("n2", 4) + "," + Job("a", "q", 2, 3, "0", "1h") + "," +
           Job("b", "q", 2, 2, "1s", "1h") + "," + Job("c", "q", 1, 1, "2s", "1h"));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_THAT(Lines(*report),
              ElementsAre("0s ns/a starts", "1s ns/b waits", "2s ns/c starts", "1h0m0s ns/a ends",
                          "1h0m0s ns/b starts", "1h0m2s ns/c ends", "2h0m0s ns/b ends"));
  EXPECT_THAT(report->events[3].text, HasSubstr("0 of 2 pods fit now"));
}

TEST(SimulateTest, EndsWhenAsked) {
  Options options;
  options.until = std::chrono::minutes(5);
  const auto report = Play(
      Flavor("f") + "," + Queue("q", "example.com/gpu", 1) + "," + Job("a", "q", 1, 1, "0", "1h") +
          "," + Job("b", "q", 1, 1, "1m", "1h") + "," + Job("late", "q", 1, 1, "1h", "1h"),
      options);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->end, std::chrono::minutes(5));
  EXPECT_FALSE(report->jobs[0].ended);
  EXPECT_EQ(report->jobs[1].waited, std::chrono::minutes(4));
  EXPECT_EQ(report->jobs[1].reason, "WaitingForQuota");
}

// A dump of a real cluster: creation times and the run times of Jobs that have ended.
TEST(SimulateTest, PlaysADumpAgain) {
  const auto job = [](const std::string& name, const std::string& created,
                      const std::string& times) {
    return R"({"kind": "Job", "metadata": {"name": ")" + name + R"(", "namespace": "ns",
        "creationTimestamp": ")" +
           created + R"(", "labels": {"kueue.x-k8s.io/queue-name": "q"}},
        "spec": {"template": {"spec": {"containers": [{"name": "c", "resources": {"requests":
        {"example.com/gpu": 1}}}]}}}, "status": {)" +
           times + "}}";
  };
  const auto report =
      Play(Flavor("f") + "," + Queue("q", "example.com/gpu", 1) + "," +
           job("b", "2026-11-01T10:00:30Z",
               R"("startTime": "2026-11-01T11:00:00Z", "completionTime": "2026-11-01T11:10:00Z")") +
           "," +
           job("a", "2026-11-01T10:00:00Z",
               R"("startTime": "2026-11-01T10:00:00Z", "completionTime": "2026-11-01T10:20:00Z")"));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_THAT(Lines(*report), ElementsAre("0s ns/a starts", "30s ns/b waits", "20m0s ns/a ends",
                                          "20m0s ns/b starts", "30m0s ns/b ends"));
}

TEST(SimulateTest, SaysWhatIsWrong) {
  const std::string good = Flavor("f") + "," + Queue("q", "example.com/gpu", 1);
  const auto message = [&](const std::string& objects) {
    const auto report = Play(objects);
    return report ? "" : report.error().message;
  };
  EXPECT_THAT(message(good), HasSubstr("no Job and no Workload with a queue"));
  EXPECT_THAT(message(good + "," + Job("a", "q", 1, 1, "soon", "1h")),
              HasSubstr("metadata.annotations[tutti.dev/simulate-arrival]: must be a duration"));
  EXPECT_THAT(message(good + "," + Job("a", "q", 1, 1, "0", "-1h")),
              HasSubstr("tutti.dev/simulate-runtime"));
  EXPECT_THAT(
      message(good + "," + Job("a", "q", 1, 1, "0", "1h") + "," + Job("a", "q", 1, 1, "0", "1h")),
      HasSubstr("Job ns/a is in the input twice"));
  EXPECT_THAT(message(good + R"(,{"kind": "Job", "metadata": {"name": "a", "labels": {
        "kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/priority-class": "high"}}, "spec": {
        "template": {"spec": {"containers": [{"name": "c"}]}}}})"),
              HasSubstr("WorkloadPriorityClass high is not in the input"));
}

TEST(SimulateTest, TextIsForPeople) {
  const auto report = Play(Flavor("f") + "," + Queue("q", "example.com/gpu", 2) + "," +
                           Job("a", "q", 2, 1, "0", "90m") + "," + Job("b", "q", 4, 1, "1m", "1h"));
  ASSERT_TRUE(report);
  EXPECT_EQ(ToText(*report), R"(TIME   JOB
0s     ns/a  starts  2 pods, flavor f
1m     ns/b  waits   )" + report->jobs[1].message +
                                 R"(
1h30m  ns/a  ends

2 jobs in 1h30m: 1 ended, 0 running, 1 waiting; 0 preemptions
wait: median 0s, p90 1h29m, longest 1h29m

CLUSTER QUEUE  FLAVOR  RESOURCE         QUOTA  MEAN  PEAK
q              f       example.com/gpu  2      2     2

Still waiting:
  ns/b: )" + report->jobs[1].message +
                                 R"(
note: no Node in the input: quota alone decides
)");
}

TEST(SimulateLineTest, GoesStepByStep) {
  const Json answer = SimulateLine(
      R"({"id": 7, "items": [)" + Flavor("f") + "," + Queue("q", "example.com/gpu", 2) +
      R"(], "steps": [{"apply": [)" + Job("a", "q", 2, 1, "0", "1h") + "," +
      Job("b", "q", 1, 1, "0", "1h") + R"(]}, {"end": ["ns/a"]}]})");
  EXPECT_EQ(answer["id"].AsInt(), 7);
  ASSERT_EQ(answer["steps"].AsArray().size(), 2U) << answer.Dump();
  const Json& first = answer["steps"].AsArray()[0];
  EXPECT_EQ(first["admitted"].AsArray()[0]["workload"].AsString(), "ns/a");
  EXPECT_EQ(first["pending"].AsArray()[0]["workload"].AsString(), "ns/b");
  EXPECT_EQ(first["pending"].AsArray()[0]["reason"].AsString(), "WaitingForQuota");
  const Json& second = answer["steps"].AsArray()[1];
  EXPECT_EQ(second["admitted"]
                .AsArray()[0]["podSets"]
                .AsArray()[0]["flavors"]["example.com/gpu"]
                .AsString(),
            "f");
  EXPECT_TRUE(second["pending"].AsArray().empty());
}

// Both ask for one borrowed device more; a has one already, b none, but b's job is younger.
TEST(SimulateLineTest, SharesFairlyWhereTheLineSaysSo) {
  const auto first = [](const std::string& option) {
    const std::string cohort = R"(, "cohortName": "all")";
    const std::string gpu = "example.com/gpu";
    const Json answer = SimulateLine(
        R"({"id": 1, )" + option + R"("items": [)" + Flavor("f") + "," +
        Queue("lender", gpu, 4, cohort) + "," + Queue("a", gpu, 0, cohort) + "," +
        Queue("b", gpu, 0, cohort) + R"(], "steps": [{"apply": [)" +
        Job("a1", "a", 1, 1, "0", "1h") + R"(]}, {"apply": [)" + Job("a2", "a", 1, 1, "0", "1h") +
        "," + Job("b1", "b", 1, 1, "0", "1h") + R"(]}]})");
    return answer["steps"].AsArray()[1]["admitted"].AsArray()[0]["workload"].AsString();
  };
  EXPECT_EQ(first(""), "ns/a2");
  EXPECT_EQ(first(R"("fairSharing": true, )"), "ns/b1");
}

TEST(SimulateLineTest, AnswersWhateverComes) {
  EXPECT_TRUE(SimulateLine("x").Has("error"));
  EXPECT_TRUE(SimulateLine("{}").Has("error"));
  EXPECT_TRUE(SimulateLine(R"({"id": 1, "items": [1], "steps": []})").Has("error"));
  EXPECT_THAT(
      SimulateLine(R"({"id": 1, "items": [], "steps": [{"delete": [{"kind": "Job"}]}]})")["error"]
          .AsString(),
      HasSubstr("steps[0].delete"));
}

// Three queues of 87 GPUs with jobs of 64, 8 and 1 reclaim from each other. Without waves each end
// set off evictions of everybody for everybody, 3,356 in all, and the jobs took 106 s, not 80.
TEST(SimulateTest, AnEndDoesNotSetOffAChainOfEvictions) {
  struct Kind {
    std::string name;
    int jobs = 0;
    int gpus = 0;
    int every = 0;  // ms
    std::string runs;
  };
  const std::vector<Kind> kinds = {
      {"large", 8, 64, 200, "10s"}, {"node", 25, 8, 60, "5s"}, {"gpu", 25, 1, 60, "2500ms"}};
  const std::string cohort =
      R"(, "cohortName": "all", "preemption": {"reclaimWithinCohort": "Any"})";
  std::string objects = Flavor("f");
  for (int queue = 0; queue < 3; ++queue) {
    const std::string name = "q" + std::to_string(queue);
    objects += "," + Queue(name, "example.com/gpu", 87, cohort);
    int after = queue * 37;
    for (const Kind& kind : kinds) {
      for (int i = 0; i < kind.jobs; ++i) {
        objects += "," + Job(kind.name + "-" + name + "-" + std::to_string(i), name, 1, kind.gpus,
                             std::to_string(after + i * kind.every) + "ms", kind.runs);
      }
      ++after;
    }
  }
  for (const bool fair : {false, true}) {
    Options options;
    options.fair_sharing = fair;
    const auto report = Play(objects, options);
    ASSERT_TRUE(report) << report.error().message;
    size_t evictions = 0;
    for (const Event& event : report->events) {
      evictions += event.kind == EventKind::kPreempted ? 1 : 0;
    }
    EXPECT_LT(evictions, 87U) << fair;  // of 174 jobs
    for (const JobResult& job : report->jobs) {
      EXPECT_TRUE(job.ended.has_value()) << job.workload;
    }
    EXPECT_LT(report->end, std::chrono::seconds(95)) << fair;
  }
}

}  // namespace
}  // namespace tutti::sim
