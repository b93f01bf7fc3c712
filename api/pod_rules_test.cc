// SPDX-License-Identifier: Apache-2.0
#include "api/pod_rules.h"

#include <gtest/gtest.h>

namespace tutti::api {
namespace {

PodShape Read(const std::string& spec, const std::string& labels = R"({"app": "a", "rev": "2"})") {
  auto json = Json::Parse(R"({"metadata": {"labels": )" + labels + R"(}, "spec": )" + spec + "}");
  EXPECT_TRUE(json) << spec;
  PodShape shape;
  ReadRules(json ? *json : Json(), "team", shape);
  return shape;
}

std::string Affinity(const std::string& kind, const std::string& term) {
  return R"({"affinity": {")" + kind +
         R"(": {"requiredDuringSchedulingIgnoredDuringExecution": [)" + term + "]}}}";
}

TEST(PodRulesTest, APodWithoutRulesHasNone) {
  for (
      const char* spec :
      {"{}", R"({"affinity": {"podAffinity": {}, "nodeAffinity": {}}})",
       R"({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [1]}}})",
       R"({"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway", "maxSkew": 1}]})"}) {
    const PodShape shape = Read(spec);
    EXPECT_FALSE(shape.has_pod_affinity || shape.has_topology_spread || shape.rules) << spec;
  }
}

TEST(PodRulesTest, TermsSayWhichPodsTheyMean) {
  const struct {
    const char* term;
    bool own;        // app=a in namespace team
    bool elsewhere;  // the same in another namespace, labelled env=prod
  } cases[] = {
      {R"({"topologyKey": "k", "labelSelector": {"matchLabels": {"app": "a"}}})", true, false},
      {R"({"topologyKey": "k", "labelSelector": {"matchLabels": {"app": "b"}}})", false, false},
      {R"({"topologyKey": "k", "labelSelector": {}})", true, false},
      {R"({"topologyKey": "k"})", false, false},
      {R"({"topologyKey": "k", "labelSelector": {}, "namespaces": ["other"]})", false, true},
      {R"({"topologyKey": "k", "labelSelector": {}, "namespaces": ["other", "team"]})", true, true},
      {R"({"topologyKey": "k", "labelSelector": {}, "namespaceSelector": {}})", true, true},
      {R"({"topologyKey": "k", "labelSelector": {}, "namespaceSelector": {"matchLabels": {"env": "prod"}}})",
       false, true},
      {R"({"topologyKey": "k", "labelSelector": {}, "namespaces": ["team"],
           "namespaceSelector": {"matchLabels": {"env": "prod"}}})",
       true, true},
  };
  for (const auto& test : cases) {
    const PodShape shape = Read(Affinity("podAffinity", test.term));
    ASSERT_TRUE(shape.has_pod_affinity && shape.rules) << test.term;
    ASSERT_EQ(shape.rules->affinity.size(), 1U);
    const PodAffinityTerm& term = shape.rules->affinity[0];
    EXPECT_EQ(term.Matches("team", {}, shape.rules->labels), test.own) << test.term;
    EXPECT_EQ(term.Matches("other", {{"env", "prod"}}, shape.rules->labels), test.elsewhere)
        << test.term;
  }
}

TEST(PodRulesTest, LabelKeysBecomePartOfTheSelector) {
  const PodShape shape = Read(
      Affinity("podAntiAffinity",
               R"({"topologyKey": "k", "labelSelector": {}, "matchLabelKeys": ["app", "absent"],
          "mismatchLabelKeys": ["rev"]})"));
  ASSERT_TRUE(shape.rules);
  const PodAffinityTerm& term = shape.rules->anti_affinity.at(0);
  EXPECT_TRUE(term.Matches("team", {}, {{"app", "a"}, {"rev", "1"}}));
  EXPECT_FALSE(term.Matches("team", {}, {{"app", "a"}, {"rev", "2"}}));
  EXPECT_FALSE(term.Matches("team", {}, {{"app", "b"}, {"rev", "1"}}));
}

TEST(PodRulesTest, SpreadHasTheDefaultsOfTheApi) {
  const PodShape shape = Read(R"({"topologySpreadConstraints": [
    {"whenUnsatisfiable": "DoNotSchedule", "topologyKey": "zone", "maxSkew": 1, "labelSelector": {}},
    {"whenUnsatisfiable": "ScheduleAnyway", "topologyKey": "x", "maxSkew": 1},
    {"whenUnsatisfiable": "DoNotSchedule", "topologyKey": "rack", "maxSkew": 3, "minDomains": 4,
     "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor", "matchLabelKeys": ["rev"],
     "labelSelector": {"matchLabels": {"app": "a"}}}]})");
  ASSERT_TRUE(shape.has_topology_spread && shape.rules);
  ASSERT_EQ(shape.rules->spread.size(), 2U);
  const SpreadConstraint& zone = shape.rules->spread[0];
  EXPECT_EQ(zone.min_domains, 1);
  EXPECT_TRUE(zone.honor_affinity);
  EXPECT_FALSE(zone.honor_taints);
  const SpreadConstraint& rack = shape.rules->spread[1];
  EXPECT_EQ(rack.max_skew, 3);
  EXPECT_EQ(rack.min_domains, 4);
  EXPECT_FALSE(rack.honor_affinity);
  EXPECT_TRUE(rack.honor_taints);
  EXPECT_TRUE(rack.selector.Matches({{"app", "a"}, {"rev", "2"}}));
  EXPECT_FALSE(rack.selector.Matches({{"app", "a"}, {"rev", "1"}}));
}

TEST(PodRulesTest, WhatCannotBeReadIsLeftToTheScheduler) {
  for (const std::string& spec :
       {Affinity("podAffinity", R"({"labelSelector": {}})"),
        Affinity(
            "podAffinity",
            R"({"topologyKey": "k", "labelSelector": {"matchLabels": {"controller-uid": "u"}}})"),
        Affinity("podAffinity", R"({"topologyKey": "k", "labelSelector": {}, "matchLabelKeys":
                 ["batch.kubernetes.io/job-completion-index"]})"),
        Affinity("podAntiAffinity", R"({"topologyKey": "k", "labelSelector":
                 {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}})"),
        std::string(R"({"topologySpreadConstraints": [{"topologyKey": "k", "maxSkew": 1}]})"),
        std::string(R"({"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule",
          "topologyKey": "k", "maxSkew": 0}]})")}) {
    const PodShape shape = Read(spec);
    EXPECT_TRUE(shape.has_pod_affinity || shape.has_topology_spread) << spec;
    EXPECT_FALSE(shape.rules) << spec;
  }
}

TEST(PodRulesTest, ThePodsOfAJobHaveItsNameInTwoLabels) {
  const StringMap labels = RuleLabels(
      {{"batch.kubernetes.io/job-name", "train"}, {"controller-uid", "u"}, {"app", "a"}});
  EXPECT_EQ(
      labels,
      (StringMap{{"app", "a"}, {"batch.kubernetes.io/job-name", "train"}, {"job-name", "train"}}));
}

}  // namespace
}  // namespace tutti::api
