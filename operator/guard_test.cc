// SPDX-License-Identifier: Apache-2.0
#include "operator/guard.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

using namespace std::chrono_literals;

Json MustParse(const char* text) {
  auto parsed = Json::Parse(text);
  EXPECT_TRUE(parsed) << text;
  return parsed ? *parsed : Json();
}

const Time kNow = *ParseTime("2026-11-30T09:00:00Z");

GuardInput WithLease(const char* ns, const char* holder, const char* renewed) {
  GuardInput input;
  input.own_namespace = "tutti-system";
  input.own_identity = "me";
  input.leases = MustParse(R"({"items":[{"metadata":{"name":"c1f6bfd2.kueue.x-k8s.io"},
      "spec":{"leaseDurationSeconds":15}}]})");
  Json& lease = input.leases.At("items").MutableArray()[0];
  lease.At("metadata").Set("namespace", ns);
  lease.At("spec").Set("holderIdentity", holder).Set("renewTime", renewed);
  return input;
}

TEST(GuardTest, LiveLeaseInAnotherNamespaceIsNamed) {
  const auto found =
      OtherControllers(WithLease("kueue-system", "kueue-0", "2026-11-30T08:59:50.000000Z"), kNow);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].find("kueue-system/c1f6bfd2.kueue.x-k8s.io is held by kueue-0"),
            std::string::npos)
      << found[0];
}

TEST(GuardTest, ReleasedExpiredAndOwnLeasesAreNobody) {
  EXPECT_TRUE(
      OtherControllers(WithLease("kueue-system", "", "2026-11-30T08:59:50Z"), kNow).empty());
  EXPECT_TRUE(
      OtherControllers(WithLease("kueue-system", "kueue-0", "2026-11-30T08:50:00Z"), kNow).empty());
  EXPECT_TRUE(
      OtherControllers(WithLease("tutti-system", "other", "2026-11-30T08:59:59Z"), kNow).empty());
}

TEST(GuardTest, ForeignWebhookOfTheseKindsIsNamed) {
  GuardInput input;
  input.own_namespace = "tutti-system";
  input.webhook_lists.push_back(MustParse(R"({"items":[
    {"metadata":{"name":"kueue-validating-webhook-configuration"},"webhooks":[
      {"name":"vworkload.kb.io","rules":[{"apiGroups":["kueue.x-k8s.io"]}],
       "clientConfig":{"service":{"namespace":"kueue-system","name":"kueue-webhook-service"}}}]},
    {"metadata":{"name":"ours"},"webhooks":[
      {"name":"vworkload.kb.io","rules":[{"apiGroups":["kueue.x-k8s.io"]}],
       "clientConfig":{"service":{"namespace":"tutti-system","name":"webhook"}}}]},
    {"metadata":{"name":"unrelated"},"webhooks":[
      {"name":"x.example.org","rules":[{"apiGroups":["apps"]}],
       "clientConfig":{"service":{"namespace":"x","name":"y"}}}]}]})"));
  const auto found = OtherControllers(input, kNow);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].find("kueue-system/kueue-webhook-service"), std::string::npos) << found[0];
}

}  // namespace
}  // namespace tutti
