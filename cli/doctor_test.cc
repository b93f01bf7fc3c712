// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor.h"

#include <gtest/gtest.h>

namespace tutti::cli {
namespace {

// A 1.36 cluster with everything on and the chart installed.
DoctorFacts Well() {
  DoctorFacts facts;
  facts.server = "https://cluster:6443";
  facts.git_version = "v1.36.3";
  facts.minor = 36;
  facts.queue_versions = {"v1beta2"};
  facts.group_versions = {"v1alpha2"};
  facts.claim_versions = {"v1"};
  facts.mutating_policy_versions = {"v1"};
  facts.validating_policy_versions = {"v1"};
  const std::map<std::string, bool> gates = {{"GenericWorkload", true},
                                             {"GangScheduling", true},
                                             {"DRAWorkloadResourceClaims", true},
                                             {"WorkloadWithJob", false}};
  facts.api_server = {gates, "its metrics"};
  facts.controller_manager = {gates, "the flags of pod kube-system/kcm"};
  facts.scheduler = {gates, "the flags of pod kube-system/scheduler"};
  facts.policies = {"tutti-hold-queued-jobs", "tutti-keep-jobs-held", "tutti-only-queue-releases",
                    "tutti-pod-joins-group", "tutti-labelled-pod-is-in-its-group"};
  facts.job_webhook = false;
  facts.resource_slices = 40;
  facts.device_classes = 2;
  facts.rights.account = "tutti-system/tutti-controller-manager";
  return facts;
}

Finding Of(const DoctorFacts& facts, std::string_view area) {
  for (const Finding& finding : Diagnose(facts)) {
    if (finding.area == area) {
      return finding;
    }
  }
  ADD_FAILURE() << "no finding about " << area;
  return {};
}

TEST(DoctorTest, NothingIsMissing) {
  for (const Finding& finding : Diagnose(Well())) {
    EXPECT_EQ(finding.level, FindingLevel::kOk) << finding.area << ": " << finding.text;
    EXPECT_TRUE(finding.fix.empty()) << finding.area;
  }
  EXPECT_NE(ToText(Well(), Diagnose(Well())).find("Nothing is missing."), std::string::npos);
}

TEST(DoctorTest, GatesOffNamesTheExactFlagsOfEachComponent) {
  DoctorFacts facts = Well();
  facts.group_versions.clear();
  const Finding finding = Of(facts, "native gangs");
  EXPECT_EQ(finding.level, FindingLevel::kMissing);
  EXPECT_NE(finding.instead.find("60 s"), std::string::npos);
  EXPECT_EQ(finding.fix,
            (std::vector<std::string>{
                "kube-apiserver           --runtime-config=scheduling.k8s.io/v1alpha2=true "
                "--feature-gates=GenericWorkload=true,GangScheduling=true",
                "kube-controller-manager  --feature-gates=GenericWorkload=true,GangScheduling=true",
                "kube-scheduler           "
                "--feature-gates=GenericWorkload=true,GangScheduling=true"}));
  EXPECT_FALSE(AllWell(Diagnose(facts)));

  facts.git_version = "v1.37.2";
  facts.minor = 37;
  EXPECT_EQ(
      Of(facts, "native gangs").fix.front(),
      "kube-apiserver           --runtime-config=scheduling.k8s.io/v1beta1=true "
      "--feature-gates=GenericWorkload=true");  // GangScheduling would stop 1.37 from starting
  facts.minor = 35;
  EXPECT_EQ(Of(facts, "native gangs").fix, std::vector<std::string>{"needs Kubernetes 1.36"});
}

TEST(DoctorTest, ManagedControlPlanesGetNoFlags) {
  DoctorFacts facts = Well();
  facts.git_version = "v1.36.1-eks-3cfe0ce";
  facts.group_versions.clear();
  const Finding finding = Of(facts, "native gangs");
  ASSERT_EQ(finding.fix.size(), 1U);
  EXPECT_EQ(finding.fix[0].find("--feature-gates"), std::string::npos);
  EXPECT_NE(Of(facts, "version").text.find("EKS"), std::string::npos);
}

TEST(DoctorTest, OneComponentWithoutItsGateIsNamed) {
  DoctorFacts facts = Well();
  facts.scheduler.gates.erase("GangScheduling");
  Finding finding = Of(facts, "native gangs");
  EXPECT_EQ(finding.level, FindingLevel::kMissing);
  EXPECT_NE(finding.text.find("kube-scheduler lacks GangScheduling"), std::string::npos);
  EXPECT_EQ(finding.fix,
            std::vector<std::string>{"kube-scheduler  --feature-gates=GangScheduling=true"});

  facts = Well();
  facts.controller_manager.gates["GenericWorkload"] = false;
  finding = Of(facts, "native gangs");
  EXPECT_NE(finding.text.find("kube-controller-manager lacks GenericWorkload"), std::string::npos);
  EXPECT_NE(finding.instead.find("finalizer"), std::string::npos);
}

TEST(DoctorTest, UnseenComponentsAreSaidNotGuessed) {
  DoctorFacts facts = Well();
  facts.scheduler = {};
  facts.controller_manager = {};
  const Finding finding = Of(facts, "native gangs");
  EXPECT_EQ(finding.level, FindingLevel::kOk);
  EXPECT_NE(finding.text.find("kube-controller-manager, kube-scheduler can't be seen"),
            std::string::npos);
}

TEST(DoctorTest, MissingPoliciesSayWhatHoldsJobsInstead) {
  DoctorFacts facts = Well();
  facts.policies->erase("tutti-keep-jobs-held");
  Finding finding = Of(facts, "holding Jobs");
  EXPECT_EQ(finding.level, FindingLevel::kMissing);
  EXPECT_NE(finding.text.find("tutti-keep-jobs-held"), std::string::npos);
  EXPECT_NE(finding.instead.find("may start for a moment"), std::string::npos);

  facts.policies.emplace();
  facts.mutating_policy_versions.clear();
  facts.minor = 34;
  facts.git_version = "v1.34.5";
  finding = Of(facts, "holding Jobs");
  ASSERT_EQ(finding.fix.size(), 2U);
  EXPECT_EQ(finding.fix[0], "helm upgrade … --set webhook.enabled=true --set webhook.jobs=true");
  EXPECT_NE(finding.fix[1].find("MutatingAdmissionPolicy=true"), std::string::npos);

  facts.job_webhook = true;
  EXPECT_NE(Of(facts, "holding Jobs").instead.find("webhook holds"), std::string::npos);
}

TEST(DoctorTest, MissingCrdsAndRightsAreProblems) {
  DoctorFacts facts = Well();
  facts.queue_versions.clear();
  EXPECT_EQ(Of(facts, "queue API").level, FindingLevel::kProblem);
  facts.queue_versions = {"v1beta1"};
  EXPECT_NE(Of(facts, "queue API").text.find("only as v1beta1"), std::string::npos);
  facts.rights.denied = {"watch pods", "patch jobs"};
  EXPECT_NE(Of(facts, "rights").text.find("may not watch pods, patch jobs"), std::string::npos);
}

TEST(DoctorTest, DeviceFindings) {
  DoctorFacts facts = Well();
  facts.resource_slices = 0;
  EXPECT_NE(Of(facts, "devices (DRA)").text.find("no driver publishes devices"), std::string::npos);
  facts.claim_versions = {"v1beta1"};
  EXPECT_EQ(Of(facts, "devices (DRA)").level, FindingLevel::kMissing);
}

TEST(DoctorTest, GatesFromMetrics) {
  const ComponentGates gates = GatesFromMetrics(
      "# TYPE kubernetes_feature_enabled gauge\n"
      "kubernetes_feature_enabled{name=\"GenericWorkload\",stage=\"ALPHA\"} 1\n"
      "kubernetes_feature_enabled{name=\"GangScheduling\",stage=\"ALPHA\"} 0\n"
      "kubernetes_feature_enabled{stage=\"BETA\",name=\"X\"} 1\n"
      "kubernetes_feature_enabled{name=\"torn\n"
      "other{name=\"Y\"} 1");
  EXPECT_EQ(gates.gates, (std::map<std::string, bool>{
                             {"GenericWorkload", true}, {"GangScheduling", false}, {"X", true}}));
  EXPECT_EQ(gates.source, "its metrics");
  EXPECT_EQ(GatesFromMetrics("").source, "");
}

TEST(DoctorTest, GatesFromTheFlagsOfStaticPods) {
  const auto pods = Json::Parse(R"({"items":[
    {"metadata":{"name":"kube-scheduler-a","namespace":"kube-system","labels":{"component":"kube-scheduler"}},
     "spec":{"containers":[{"command":["kube-scheduler","--v=2","--feature-gates=A=true,B=false,C=true"]}]}},
    {"metadata":{"name":"kube-scheduler-b","namespace":"kube-system","labels":{"component":"kube-scheduler"}},
     "spec":{"containers":[{"command":["kube-scheduler"],"args":["--feature-gates","A=true"]}]}},
    {"metadata":{"name":"etcd","namespace":"kube-system","labels":{"component":"etcd"}}}]})");
  ASSERT_TRUE(pods);
  const ComponentGates gates = GatesFromPods(*pods, "kube-scheduler");
  // Of two schedulers either may decide: a gate is on when both have it.
  EXPECT_EQ(gates.gates, (std::map<std::string, bool>{{"A", true}, {"B", false}, {"C", false}}));
  EXPECT_EQ(gates.source, "the flags of pod kube-system/kube-scheduler-a");
  EXPECT_EQ(GatesFromPods(*pods, "kube-apiserver").source, "");
}

TEST(DoctorTest, TextIsWrappedAndFlagsAreNot) {
  DoctorFacts facts = Well();
  facts.group_versions.clear();
  const std::string text = ToText(facts, Diagnose(facts));
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    if (line.find("--feature-gates") == std::string::npos) {
      EXPECT_LE(line.size(), 80U) << line;
    }
    at = end + 1;
  }
  EXPECT_NE(text.find("missing  native gangs"), std::string::npos);
  EXPECT_EQ(ToJson(facts, Diagnose(facts))["findings"].AsArray().size(), 8U);
}

}  // namespace
}  // namespace tutti::cli
