// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "audit/object_stream.h"
#include "audit/report.h"
#include "audit/testing/dump.h"
#include "audit/text.h"

namespace tutti::audit {
namespace {

using testing::HasSubstr;
using testing::Not;

Prices TestPrices() {
  return *Prices::FromJson(*Json::Parse(planted::PriceFile()));
}

Audit AuditOf(const std::string& text, const HistoryOptions& options = {},
              CollectOptions collect = {}) {
  Collector collector(collect);
  ObjectStream stream(
      "in", [&](const Json& object, const std::string& where) { collector.Take(object, where); });
  stream.Feed(text);
  stream.Finish();
  for (const std::string& problem : stream.Problems()) {
    collector.Note(problem);
  }
  return MakeAudit("in", collector.Finish(), TestPrices(), options);
}

std::string List(const std::vector<std::string>& items) {
  std::string out = R"({"kind":"List","items":[)";
  for (const std::string& item : items) {
    out += (out.back() == '[' ? "" : ",") + item;
  }
  return out + "]}";
}

// Times are minutes and seconds after noon: "05:30".
std::string At(const std::string& time) {
  return "\"2026-12-01T12:" + time + "Z\"";
}

std::string Node(const std::string& name, int gpus, const std::string& more = "") {
  return R"({"apiVersion":"v1","kind":"Node","metadata":{"name":")" + name +
         R"(","labels":{"kubernetes.io/hostname":")" + name + R"("}},"spec":{)" + more +
         R"(},"status":{"allocatable":{"cpu":"16","memory":"64Gi","pods":"110","nvidia.com/gpu":")" +
         std::to_string(gpus) + R"("},"conditions":[{"type":"Ready","status":"True"}]}})";
}

std::string Job(const std::string& name, int pods, const std::string& status = "",
                const std::string& gpus = "4") {
  const std::string count = std::to_string(pods);
  return R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"name":")" + name +
         R"(","namespace":"team","creationTimestamp":)" + At("00:00") +
         R"(},"spec":{"parallelism":)" + count + R"(,"completions":)" + count +
         R"(,"template":{"spec":{"containers":[{"name":"c","resources":{"limits":{"nvidia.com/gpu":")" +
         gpus + R"("}}}]}}},"status":{)" + status + "}}";
}

struct PodSpec {
  std::string name = {};
  std::string owner = {};  // "Job a"; "" = none
  std::string bound = {};  // "" = no node
  std::string ended = {};
  bool failed = false;
  std::string metadata = {};  // more of it, with a comma in front
  std::string spec = {};
  std::string node = "n1";
  std::string started = {};
};

std::string Pod(const PodSpec& pod) {
  std::string owner;
  if (!pod.owner.empty()) {
    const size_t space = pod.owner.find(' ');
    owner = R"(,"ownerReferences":[{"apiVersion":"batch/v1","controller":true,"kind":")" +
            pod.owner.substr(0, space) + R"(","name":")" + pod.owner.substr(space + 1) + R"("}])";
  }
  std::string status = R"("phase":"Pending")";
  if (!pod.bound.empty()) {
    const std::string started = pod.started.empty() ? pod.bound : pod.started;
    status = std::string(R"("phase":")") +
             (pod.ended.empty() ? "Running" : (pod.failed ? "Failed" : "Succeeded")) +
             R"(","conditions":[{"type":"PodScheduled","status":"True","lastTransitionTime":)" +
             At(pod.bound) + R"(}],"containerStatuses":[{"name":"c","state":{)" +
             (pod.ended.empty() ? R"("running":{"startedAt":)" + At(started) + "}"
                                : R"("terminated":{"startedAt":)" + At(started) +
                                      R"(,"finishedAt":)" + At(pod.ended) + "}") +
             "}}]";
  }
  return R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")" + pod.name +
         R"(","namespace":"team","uid":")" + pod.name + R"(","creationTimestamp":)" + At("00:00") +
         owner + pod.metadata + R"(},"spec":{)" +
         (pod.bound.empty() ? "" : R"("nodeName":")" + pod.node + R"(",)") + pod.spec +
         R"("containers":[{"name":"c","resources":{"limits":{"nvidia.com/gpu":"4"}}}]},"status":{)" +
         status + "}}";
}

CollectOptions Noon(int minutes) {
  CollectOptions options;
  options.now = *ParseTime("2026-12-01T12:00:00Z") + std::chrono::minutes(minutes);
  return options;
}

TEST(AuditTest, PlantedPartialStartsAreFoundToTheSecondAndToTheCent) {
  for (const uint64_t seed : {1, 2, 3}) {
    std::string text;
    planted::DumpOptions options;
    options.seed = seed;
    const planted::DumpTruth truth =
        planted::WriteDump(options, [&text](std::string_view piece) { text += piece; });
    const Audit audit = AuditOf(text);
    ASSERT_EQ(truth.planted.size(), 50U);
    EXPECT_EQ(FormatTime(audit.facts.now), truth.at);
    EXPECT_EQ(audit.summary.partial, 50U);
    EXPECT_EQ(audit.summary.idle_seconds, truth.device_seconds);
    std::map<std::string, const GangHistory*> found;
    for (const size_t index : audit.worst) {
      const GangHistory& history = audit.histories.gangs[index];
      found[audit.facts.gangs[history.gang].Title()] = &history;
    }
    for (const planted::Planted& one : truth.planted) {
      const auto it = found.find("Job " + one.ns + "/" + one.job);
      ASSERT_NE(it, found.end()) << one.job << " of seed " << seed;
      const GangHistory& history = *it->second;
      EXPECT_EQ(history.PartialAtStart(), std::chrono::seconds(one.seconds)) << one.job;
      EXPECT_EQ(history.IdleDeviceSeconds(true), one.device_seconds) << one.job;
      EXPECT_EQ(history.IdleCost(true).Cents(), one.cents) << one.job;
      EXPECT_EQ(history.spells.front().ongoing, one.ongoing) << one.job;
    }
    EXPECT_GT(audit.summary.lost, 0U);
    EXPECT_GT(audit.histories.unjudged.size(), 1U);
  }
}

TEST(AuditTest, APartialStartThatIsStillSo) {
  const Audit audit = AuditOf(
      List({Node("n1", 8), Job("a", 3), Pod({.name = "a-0", .owner = "Job a", .bound = "10:00"}),
            Pod({.name = "a-1", .owner = "Job a", .bound = "12:00"}),
            Pod({.name = "a-2", .owner = "Job a"})}),
      {}, Noon(30));
  ASSERT_EQ(audit.summary.partial_now, 1U);
  const Spell& spell = audit.histories.gangs[0].spells.at(0);
  EXPECT_EQ(spell.held, 2);
  EXPECT_EQ(spell.missing, 1);
  EXPECT_EQ(spell.device_seconds, 4 * (20 + 18) * 60);
  ASSERT_EQ(audit.cluster.waiting.size(), 1U);
  EXPECT_EQ(audit.cluster.waiting[0].bound, 2);
  EXPECT_EQ(audit.cluster.waiting[0].verdict, "no room now");
  EXPECT_THAT(audit.cluster.waiting[0].why, HasSubstr("short of nvidia.com/gpu"));
  EXPECT_THAT(audit.cluster.waiting[0].why, HasSubstr("most is held by Job team/a"));
}

TEST(AuditTest, TheToleranceIsNotCounted) {
  const auto input = [](const std::string& second) {
    return List({Node("n1", 8), Job("a", 2),
                 Pod({.name = "a-0", .owner = "Job a", .bound = "10:00"}),
                 Pod({.name = "a-1", .owner = "Job a", .bound = second})});
  };
  EXPECT_EQ(AuditOf(input("10:10"), {}, Noon(30)).summary.partial, 0U);
  EXPECT_EQ(AuditOf(input("10:11"), {}, Noon(30)).summary.partial, 1U);
}

TEST(AuditTest, PodsThatEndWellLeaveNoHoleAndALostOneDoes) {
  const Audit audit =
      AuditOf(List({Node("n1", 8), Job("well", 2),
                    Pod({.name = "w-0", .owner = "Job well", .bound = "01:00", .ended = "05:00"}),
                    Pod({.name = "w-1", .owner = "Job well", .bound = "01:00"}), Job("lost", 2),
                    Pod({.name = "l-0",
                         .owner = "Job lost",
                         .bound = "01:00",
                         .ended = "05:00",
                         .failed = true}),
                    Pod({.name = "l-1", .owner = "Job lost", .bound = "01:00"}),
                    Pod({.name = "l-2", .owner = "Job lost", .bound = "09:00"})}),
              {}, Noon(30));
  EXPECT_EQ(audit.summary.partial, 0U);
  EXPECT_EQ(audit.summary.lost, 1U);
  EXPECT_EQ(audit.summary.idle_lost_seconds, 4 * 4 * 60);
}

TEST(AuditTest, WhatCannotBeJudgedIsCountedWithItsReason) {
  const Audit audit = AuditOf(
      List(
          {Node("n1", 8),
           Job("gone", 2,
               R"("succeeded":2,"conditions":[{"type":"Complete","status":"True","lastTransitionTime":)" +
                   At("20:00") + "}]"),
           Job("some", 2, R"("succeeded":1,"active":1)"),
           Pod({.name = "s-1", .owner = "Job some", .bound = "01:00"}),
           Pod({.name = "o-1", .owner = "Job other", .bound = "01:00"})}),
      {}, Noon(30));
  EXPECT_EQ(audit.summary.judged, 0U);
  EXPECT_EQ(audit.histories.unjudged.at("it has ended and its pods are gone"), 1U);
  EXPECT_EQ(audit.histories.unjudged.at("some of its pods are gone, or not in the input"), 1U);
  EXPECT_THAT(ToText(audit, 80), HasSubstr("1 Pod of the kind of job Job whose job is not in the"));
}

TEST(AuditTest, AllKindsOfGangs) {
  const std::string group =
      R"(,"labels":{"kueue.x-k8s.io/pod-group-name":"g"},"annotations":{"kueue.x-k8s.io/pod-group-total-count":"2"})";
  const std::string set = R"(,"labels":{"jobset.sigs.k8s.io/jobset-name":"s"})";
  const std::string volcano = R"(,"annotations":{"scheduling.k8s.io/group-name":"v"})";
  const Audit audit = AuditOf(
      List(
          {Node("n1", 100),
           R"({"apiVersion":"jobset.x-k8s.io/v1alpha2","kind":"JobSet","metadata":{"name":"s","namespace":"team"},"spec":{"replicatedJobs":[{"name":"a","replicas":2,"template":{"spec":{"parallelism":1,"completions":1,"template":{}}}}]}})",
           R"({"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"PodGroup","metadata":{"name":"v","namespace":"team"},"spec":{"minMember":2}})",
           R"({"apiVersion":"scheduling.k8s.io/v1alpha2","kind":"PodGroup","metadata":{"name":"p","namespace":"team"},"spec":{"schedulingPolicy":{"gang":{"minCount":2}}}})",
           R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload","metadata":{"name":"w","namespace":"team","ownerReferences":[{"apiVersion":"kubeflow.org/v1","kind":"PyTorchJob","name":"t","uid":"t","controller":true}]},"spec":{"podSets":[{"name":"main","count":2,"template":{"spec":{"containers":[]}}}]}})",
           Pod({.name = "g-0", .bound = "01:00", .metadata = group}),
           Pod({.name = "g-1", .bound = "02:00", .metadata = group}),
           Pod({.name = "s-0", .owner = "Job s-a-0", .bound = "01:00", .metadata = set}),
           Pod({.name = "s-1", .owner = "Job s-a-1", .bound = "03:00", .metadata = set}),
           Pod({.name = "v-0", .bound = "01:00", .metadata = volcano}),
           Pod({.name = "v-1", .bound = "04:00", .metadata = volcano}),
           Pod({.name = "p-0",
                .bound = "01:00",
                .spec = R"("schedulingGroup":{"podGroupName":"p"},)"}),
           Pod({.name = "p-1",
                .bound = "05:00",
                .spec = R"("schedulingGroup":{"podGroupName":"p"},)"}),
           Pod({.name = "t-0", .owner = "PyTorchJob t", .bound = "01:00"}),
           Pod({.name = "t-1", .owner = "PyTorchJob t", .bound = "06:00"}),
           Pod({.name = "web-0", .owner = "ReplicaSet web", .bound = "01:00"})}),
      {}, Noon(30));
  std::map<std::string, int64_t> minutes;
  for (const GangHistory& history : audit.histories.gangs) {
    minutes[audit.facts.gangs[history.gang].Title()] =
        std::chrono::floor<std::chrono::minutes>(history.PartialAtStart()).count();
  }
  EXPECT_EQ(minutes, (std::map<std::string, int64_t>{{"pod group team/g", 1},
                                                     {"JobSet team/s", 2},
                                                     {"Volcano PodGroup team/v", 3},
                                                     {"PodGroup team/p", 4},
                                                     {"PyTorchJob team/t", 5}}));
}

TEST(AuditTest, DevicesByClaimsCostWhatTheirClassCosts) {
  const std::string made =
      R"({"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaimTemplate","metadata":{"name":"two","namespace":"team"},"spec":{"spec":{"devices":{"requests":[{"name":"g","exactly":{"deviceClassName":"gpu.nvidia.com","count":2}}]}}}})";
  const auto pod = [](const std::string& name, const std::string& bound) {
    return R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")" + name +
           R"(","namespace":"team","uid":")" + name +
           R"(","ownerReferences":[{"apiVersion":"batch/v1","controller":true,"kind":"Job","name":"a"}]},"spec":{"nodeName":"n1","resourceClaims":[{"name":"g","resourceClaimTemplateName":"two"}],"containers":[{"name":"c","resources":{"claims":[{"name":"g"}]}}]},"status":{"phase":"Running","conditions":[{"type":"PodScheduled","status":"True","lastTransitionTime":)" +
           At(bound) + "}]}}";
  };
  Collector collector(Noon(30));
  ObjectStream stream(
      "in", [&](const Json& object, const std::string& where) { collector.Take(object, where); });
  stream.Feed(List({Node("n1", 0), made, Job("a", 2), pod("a-0", "10:00"), pod("a-1", "20:00")}));
  stream.Finish();
  const Prices prices = *Prices::FromJson(
      *Json::Parse(R"({"prices":[{"resource":"gpu.nvidia.com","perHour":"3"}]})"));
  const Audit audit = MakeAudit("in", collector.Finish(), prices, {});
  EXPECT_EQ(audit.summary.idle_seconds, 2 * 600);
  EXPECT_EQ(audit.summary.idle_cost.ToString(), "1.00");
}

TEST(AuditTest, OneWrongClockDoesNotMoveTheTimeOfTheDump) {
  const auto lease = [](const std::string& name, const std::string& time) {
    return R"({"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":")" + name +
           R"(","namespace":"kube-node-lease"},"spec":{"renewTime":")" + time + R"("}})";
  };
  const Audit audit = AuditOf(
      List({lease("a", "2026-12-01T12:00:05.000000Z"), lease("b", "2026-12-01T12:00:07.000000Z"),
            lease("c", "2030-01-01T00:00:00.000000Z"), Job("j", 2)}));
  EXPECT_EQ(FormatTime(audit.facts.now), "2026-12-01T12:00:07Z");
  EXPECT_FALSE(audit.facts.now_is_guess);
}

TEST(AuditTest, FreeDevicesThatNoJobCanUse) {
  // n1 has 2 of 8 free, n2 all 8 but is cordoned, n3 has 8 and room for two pods of 4.
  const std::string used =
      R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","namespace":"team","uid":"x"},"spec":{"nodeName":"n1","containers":[{"name":"c","resources":{"limits":{"nvidia.com/gpu":"6"}}}]},"status":{"phase":"Running"}})";
  const Audit audit =
      AuditOf(List({Node("n1", 8), Node("n2", 8, R"("unschedulable":true)"), Node("n3", 8), used,
                    Job("a", 2), Pod({.name = "a-0", .owner = "Job a"}),
                    Pod({.name = "a-1", .owner = "Job a"})}),
              {}, Noon(30));
  ASSERT_EQ(audit.cluster.fragments.size(), 2U);
  EXPECT_EQ(audit.cluster.fragments[0].node, "n2");
  EXPECT_EQ(audit.cluster.fragments[0].stranded, 8);
  EXPECT_EQ(audit.cluster.fragments[0].why, "the node is cordoned");
  EXPECT_EQ(audit.cluster.fragments[1].node, "n1");
  EXPECT_EQ(audit.cluster.fragments[1].stranded, 2);
  EXPECT_EQ(audit.cluster.fragments[1].why, "no job asks for fewer than 4 on one node");
  EXPECT_EQ(audit.cluster.totals.at("nvidia.com/gpu").stranded, 10);
  ASSERT_EQ(audit.cluster.waiting.size(), 1U);
  EXPECT_EQ(audit.cluster.waiting[0].verdict, "fits now");
}

TEST(AuditTest, QuotasThatNodesCannotHold) {
  const auto queue = [](const std::string& name, const std::string& gpus) {
    return R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"ClusterQueue","metadata":{"name":")" +
           name +
           R"("},"spec":{"resourceGroups":[{"coveredResources":["nvidia.com/gpu"],"flavors":[{"name":"f","resources":[{"name":"nvidia.com/gpu","nominalQuota":")" +
           gpus + R"("}]}]}]}})";
  };
  const Audit audit = AuditOf(
      List(
          {Node("n1", 8),
           R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"ResourceFlavor","metadata":{"name":"f"}})",
           queue("small", "8"), queue("big", "9")}),
      {}, Noon(1));
  ASSERT_EQ(audit.cluster.quotas.size(), 2U);
  EXPECT_EQ(audit.cluster.quotas[0].queue, "big");
  EXPECT_EQ(audit.cluster.quotas[0].capacity, 8);
  EXPECT_EQ(audit.cluster.quotas[1].queue, "");
  EXPECT_EQ(audit.cluster.quotas[1].quota, 17);
}

TEST(AuditTest, RequestsThatCouldBeClaims) {
  const Audit audit =
      AuditOf(List({Node("n1", 8), Job("a", 2),
                    Pod({.name = "a-0",
                         .owner = "Job a",
                         .spec = R"("nodeSelector":{"nvidia.com/gpu.product":"NVIDIA-L4"},)"}),
                    Pod({.name = "a-1",
                         .owner = "Job a",
                         .spec = R"("nodeSelector":{"nvidia.com/gpu.product":"NVIDIA-L4"},)"})}),
              {}, Noon(1));
  ASSERT_EQ(audit.cluster.claims.size(), 1U);
  EXPECT_EQ(audit.cluster.claims[0].gangs, 1U);
  EXPECT_EQ(audit.cluster.claims[0].device_class, "gpu.nvidia.com");
  EXPECT_THAT(audit.cluster.claims[0].selector, HasSubstr("== \"NVIDIA-L4\""));
}

TEST(AuditTest, ClocksThatDifferAreSaid) {
  const std::vector<std::string> items = {
      Node("n1", 8), Job("a", 2),
      Pod({.name = "a-0", .owner = "Job a", .bound = "10:00", .started = "05:00"}),
      Pod({.name = "a-1", .owner = "Job a", .bound = "10:00"})};
  EXPECT_THAT(
      ToText(AuditOf(List(items), {}, Noon(30)), 200),
      HasSubstr(
          "clocks differ: 1 pod ran before the scheduler placed it, by up to 5 min (node n1)"));
  const Audit early = AuditOf(List(items), {}, Noon(1));
  EXPECT_EQ(FormatTime(early.facts.now), "2026-12-01T12:10:00Z");
  EXPECT_THAT(ToText(early, 200), HasSubstr("the newer one is used"));
}

TEST(AuditTest, MissingAndUnknownKindsAreSaidAndTheRestGoesOn) {
  const Audit audit = AuditOf(
      List(
          {R"({"apiVersion":"example.com/v9","kind":"Widget","metadata":{"name":"w"}})",
           R"({"apiVersion":"kueue.x-k8s.io/v1beta7","kind":"ResourceFlavor","metadata":{"name":"f"}})",
           R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"bad","namespace":"team"},"spec":{"containers":[{"resources":{"requests":{"cpu":"much"}}}]}})",
           Job("a", 2), Job("a", 2)}),
      {}, Noon(1));
  const std::string text = ToText(audit, 300);
  EXPECT_THAT(text, HasSubstr("no Node in the input"));
  EXPECT_THAT(text, HasSubstr("not looked at: Widget (1)"));
  EXPECT_THAT(text, HasSubstr("of kueue.x-k8s.io/v1beta7"));
  EXPECT_THAT(text, HasSubstr("1 Pod can't be read"));
  EXPECT_THAT(text, HasSubstr("1 object came twice"));
  EXPECT_EQ(audit.summary.judged, 1U);
}

TEST(AuditTest, NothingIsTotal) {
  const Audit audit = AuditOf("{}");
  EXPECT_THAT(ToText(audit, 80), HasSubstr("No job of several pods was found."));
  EXPECT_THAT(ToHtml(audit), HasSubstr("</html>"));
  EXPECT_EQ(ToJson(audit)["summary"]["jobs"].AsInt(-1), 0);
}

TEST(AuditTest, TheTextKeepsToItsWidth) {
  std::string text;
  planted::DumpOptions options;
  options.jobs = 300;
  options.nodes = 30;
  (void)planted::WriteDump(options, [&text](std::string_view piece) { text += piece; });
  const Audit audit = AuditOf(text);
  for (const size_t width : {80, 120}) {
    std::string page = ToText(audit, width);
    while (!page.empty()) {
      const size_t end = page.find('\n');
      EXPECT_LE(Columns(page.substr(0, end)), width) << page.substr(0, end);
      page.erase(0, end + 1);
    }
  }
}

TEST(AuditTest, TheHtmlPageNeedsNothingElseAndEscapesNames) {
  const Audit audit = AuditOf(List({Node("n1", 8), Job("a<b>", 2),
                                    Pod({.name = "a-0", .owner = "Job a<b>", .bound = "10:00"}),
                                    Pod({.name = "a-1", .owner = "Job a<b>", .bound = "12:00"})}),
                              {}, Noon(30));
  const std::string page = ToHtml(audit);
  EXPECT_THAT(page, HasSubstr("a&lt;b&gt;"));
  EXPECT_THAT(page, Not(HasSubstr("a<b>")));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("http://")));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme:dark"));
}

TEST(PricesTest, MoneyIsRoundedOnce) {
  Money sum;
  for (int i = 0; i < 3; ++i) {
    sum += Money(10'000, 1, 12);  // a third of a cent each
  }
  EXPECT_EQ(Money(10'000, 1, 12).Cents(), 0);
  EXPECT_EQ(sum.Cents(), 1);
  EXPECT_EQ(Money(10'000, 1, 18).Cents(), 1);  // half a cent
  EXPECT_EQ(Money(25'000, 1000, 3'600'000).ToString(), "2,500,000.00");
}

TEST(PricesTest, WrongPricesNameTheField) {
  const auto problem = [](const char* text) {
    const Result<Prices> prices = Prices::FromJson(*Json::Parse(text));
    return prices ? std::string() : prices.error().message;
  };
  EXPECT_THAT(problem("{}"), HasSubstr("prices: must be a list"));
  EXPECT_THAT(problem(R"({"prices":[{"perHour":"1"}]})"), HasSubstr("prices[0].resource"));
  EXPECT_THAT(problem(R"({"prices":[{"resource":"x","perHour":1.5}]})"), HasSubstr("in quotes"));
  for (const char* bad : {"", "-1", "1.23456", "1.", ".5", "x", "1e3"}) {
    EXPECT_FALSE(ParsePrice(bad)) << bad;
  }
  EXPECT_EQ(*ParsePrice("0.0375"), 375);
  EXPECT_EQ(FormatPrice(375), "0.0375");
  EXPECT_EQ(FormatPrice(25'000), "2.50");
}

TEST(PricesTest, TheLabelsThatFitBestDecide) {
  const Prices prices = TestPrices();
  EXPECT_EQ(prices.PerHour("nvidia.com/gpu", {}), 23'450);
  EXPECT_EQ(prices.PerHour("nvidia.com/gpu", {{"nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"}}),
            41'190);
  bool found = true;
  EXPECT_EQ(prices.PerHour("amd.com/gpu", {}, &found), 0);
  EXPECT_FALSE(found);
  EXPECT_EQ(Prices::Examples().PerHour("nvidia.com/mig-1g.5gb", {}), 5'000);
}

}  // namespace
}  // namespace tutti::audit
