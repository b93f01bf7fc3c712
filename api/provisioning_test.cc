// SPDX-License-Identifier: Apache-2.0
#include "api/provisioning.h"

#include <gtest/gtest.h>

namespace tutti::api {
namespace {

Json Parsed(std::string_view text) {
  auto parsed = Json::Parse(text);
  EXPECT_TRUE(parsed);
  return parsed ? *parsed : Json();
}

TEST(ProvisioningTest, AConfigIsReadWithAllOfItsSettings) {
  const auto config = ProvisioningConfigFromJson(Parsed(R"({
    "metadata": {"name": "prov"},
    "spec": {"provisioningClassName": "check-capacity.autoscaling.x-k8s.io",
             "parameters": {"a": "1"}, "managedResources": ["nvidia.com/gpu"],
             "retryStrategy": {"backoffLimitCount": 0, "backoffBaseSeconds": 5,
                               "backoffMaxSeconds": 10},
             "podSetMergePolicy": "IdenticalPodTemplates",
             "podSetUpdates": {"nodeSelector": [{"key": "pool",
                               "valueFromProvisioningClassDetail": "PoolName"}]}}})"));
  ASSERT_TRUE(config);
  EXPECT_EQ(config->class_name, "check-capacity.autoscaling.x-k8s.io");
  EXPECT_EQ(config->parameters, (StringMap{{"a", "1"}}));
  EXPECT_EQ(config->managed_resources, std::vector<std::string>{"nvidia.com/gpu"});
  EXPECT_EQ(config->backoff_limit, 0);
  EXPECT_EQ(config->backoff_base_seconds, 5);
  EXPECT_EQ(config->backoff_max_seconds, 10);
  EXPECT_EQ(config->merge, PodSetMerge::kIdenticalTemplates);
  ASSERT_EQ(config->node_selector.size(), 1U);
  EXPECT_EQ(config->node_selector[0].second, "PoolName");
}

TEST(ProvisioningTest, AConfigWithoutARetryStrategyHasTheDefaultsOfTheApi) {
  const auto config = ProvisioningConfigFromJson(
      Parsed(R"({"metadata": {"name": "prov"}, "spec": {"provisioningClassName": "c"}})"));
  ASSERT_TRUE(config);
  EXPECT_EQ(config->backoff_limit, 3);
  EXPECT_EQ(config->backoff_base_seconds, 60);
  EXPECT_EQ(config->backoff_max_seconds, 1800);
  EXPECT_EQ(config->merge, PodSetMerge::kNone);
}

TEST(ProvisioningTest, ARequestIsReadWithItsConditionsAndDetails) {
  const auto request = ProvisioningRequestFromJson(Parsed(R"({
    "metadata": {"name": "r", "namespace": "ns"},
    "spec": {"provisioningClassName": "c", "parameters": {"a": "1"},
             "podSets": [{"podTemplateRef": {"name": "t"}, "count": 4}]},
    "status": {"conditions": [{"type": "Provisioned", "status": "True"}],
               "provisioningClassDetails": {"PoolName": "p1"}}})"));
  ASSERT_TRUE(request);
  EXPECT_EQ(request->pod_sets, (std::vector<ProvisioningRequest::PodSet>{{"t", 4}}));
  EXPECT_TRUE(IsTrue(request->conditions, "Provisioned"));
  EXPECT_EQ(request->class_details, (StringMap{{"PoolName", "p1"}}));
  EXPECT_FALSE(ProvisioningRequestFromJson(Json::Obj()));
}

}  // namespace
}  // namespace tutti::api
