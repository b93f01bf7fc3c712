// SPDX-License-Identifier: Apache-2.0
#include "reconciler/provisioning.h"

#include <chrono>
#include <memory>

#include <gtest/gtest.h>

#include "base/names.h"
#include "reconciler/names.h"

namespace tutti::reconciler {
namespace {

using namespace std::chrono_literals;

const Time kNow{1000s};

api::PodSet PodSetOf(const std::string& name, int32_t count, const std::string& spec) {
  api::PodSet pod_set;
  pod_set.name = name;
  pod_set.count = count;
  pod_set.template_json = R"({"spec":)" + spec + "}";
  return pod_set;
}

constexpr const char* kCpuPod =
    R"({"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]})";
constexpr const char* kGpuPod =
    R"({"containers":[{"name":"c","resources":{"requests":{"cpu":"1000m"},
        "limits":{"nvidia.com/gpu":"1"}}}]})";

class ProvisioningCheckTest : public ::testing::Test {
 protected:
  ProvisioningCheckTest() {
    workload.meta.name = "wl";
    workload.meta.ns = "ns";
    workload.meta.uid = "uid-wl";
    workload.pod_sets = {PodSetOf("driver", 1, kCpuPod), PodSetOf("worker", 6, kGpuPod)};
    workload.status.admission.emplace();
    workload.status.admission->cluster_queue = "cq";
    for (const api::PodSet& pod_set : workload.pod_sets) {
      api::PodSetAssignment assignment;
      assignment.name = pod_set.name;
      assignment.flavors["cpu"] = "spot";
      workload.status.admission->assignments.push_back(assignment);
    }
    config.class_name = "class";
    check.name = "prov";
    check.state = "Pending";
    check.last_transition = kNow - 100s;
  }

  api::ProvisioningRequest Request(int32_t attempt, const std::string& condition = "",
                                   const std::string& message = "") {
    api::ProvisioningRequest request;
    request.meta.name = ProvisioningRequestName("wl", "prov", attempt);
    request.meta.ns = "ns";
    request.class_name = config.class_name;
    for (const AskedPods& asked : PodsToAskFor(workload, config)) {
      request.pod_sets.push_back(
          {ProvisioningTemplateName(request.meta.name, asked.pod_sets.front()->name),
           static_cast<int32_t>(asked.count)});
    }
    if (!condition.empty()) {
      request.conditions.push_back({condition, "True", "Test", message, kNow, 0});
    }
    return request;
  }
  api::AdmissionCheckState After(const api::ProvisioningRequest& request) {
    return CheckAfter(workload, check, &config,
                      {&request, *ProvisioningAttempt(request.meta.name, "wl", "prov")}, kNow);
  }
  void Admit() { workload.status.conditions.push_back({"Admitted", "True", "", "", kNow, 0}); }

  api::Workload workload;
  api::ProvisioningConfig config;
  api::AdmissionCheckState check;
};

// --- which pods are asked for ---

TEST_F(ProvisioningCheckTest, AllPodSetsAreAskedForUnlessResourcesAreNamed) {
  auto asked = PodsToAskFor(workload, config);
  ASSERT_EQ(asked.size(), 2U);
  EXPECT_EQ(asked[0].count, 1);
  EXPECT_EQ(asked[1].count, 6);
  config.managed_resources = {"nvidia.com/gpu"};
  asked = PodsToAskFor(workload, config);
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].pod_sets.front()->name, "worker");
  config.managed_resources = {"example.com/other"};
  EXPECT_TRUE(PodsToAskFor(workload, config).empty());
}

TEST_F(ProvisioningCheckTest, PodsThatWereNotAdmittedAreNotAskedFor) {
  workload.status.admission->assignments[1].count = 4;
  EXPECT_EQ(PodsToAskFor(workload, config)[1].count, 4);
  workload.status.admission->assignments[0].count = 0;
  workload.status.admission->assignments[1].count = 0;
  EXPECT_TRUE(PodsToAskFor(workload, config).empty());
  const auto after = CheckAfter(workload, check, &config, {}, kNow);
  EXPECT_EQ(after.state, "Ready");
  EXPECT_EQ(after.message, "the provisioning request is not needed");
}

TEST_F(ProvisioningCheckTest, AlikePodSetsAreMergedAsThePolicySays) {
  // Other labels and limits, the same requests in another notation.
  workload.pod_sets[0].template_json =
      R"({"metadata":{"labels":{"role":"a"}},"spec":{"nodeSelector":{},"containers":[
          {"name":"c","image":"x","resources":{"requests":{"cpu":"1"}}}]}})";
  config.merge = api::PodSetMerge::kIdenticalTemplates;
  EXPECT_EQ(PodsToAskFor(workload, config).size(), 2U);
  config.merge = api::PodSetMerge::kIdenticalRequirements;
  const auto asked = PodsToAskFor(workload, config);
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].count, 7);
  EXPECT_EQ(asked[0].pod_sets.size(), 2U);
  workload.pod_sets[1].template_json =
      R"({"spec":{"tolerations":[{"key":"gpu"}],"containers":[
          {"name":"c","resources":{"requests":{"cpu":"1"}}}]}})";
  EXPECT_EQ(PodsToAskFor(workload, config).size(), 2U);
}

// --- what is written ---

TEST_F(ProvisioningCheckTest, ARequestHasTheParametersOfItsConfigAndOfTheJob) {
  config.parameters = {{"a", "1"}, {"b", "2"}};
  workload.meta.annotations = {{"provreq.kueue.x-k8s.io/b", "3"}, {"other/x", "4"}};
  const auto write = CreateRequest(workload, config, "wl-prov-1", PodsToAskFor(workload, config));
  EXPECT_EQ(write.body["spec"]["parameters"], Json::Obj({{"a", "1"}, {"b", "3"}}));
  EXPECT_EQ(write.body["spec"]["provisioningClassName"].AsString(), "class");
  EXPECT_EQ(
      write.body["spec"]["podSets"].AsArray()[1],
      Json::Obj({{"podTemplateRef", Json::Obj({{"name", "ppt-wl-prov-1-worker"}})}, {"count", 6}}));
  EXPECT_EQ(write.body["metadata"]["labels"], Json::Obj({{"kueue.x-k8s.io/managed", "true"}}));
  EXPECT_EQ(write.body["metadata"]["ownerReferences"].AsArray()[0]["uid"].AsString(), "uid-wl");
}

TEST_F(ProvisioningCheckTest, ATemplateIsWhatThePodsWillBe) {
  Store<api::ResourceFlavor> flavors;
  auto flavor = std::make_shared<api::ResourceFlavor>();
  flavor->meta.name = "spot";
  flavor->node_labels = {{"pool", "spot"}};
  flavor->tolerations.emplace_back().key = "spot";
  flavors.Upsert(flavor);
  const auto asked = PodsToAskFor(workload, config);
  const auto write = CreateTemplate(workload, asked[1], flavors, "wl-prov-1", nullptr);
  ASSERT_TRUE(write);
  EXPECT_EQ(write->verb, api::Verb::kCreate);
  const Json& spec = write->body["template"]["spec"];
  EXPECT_EQ(spec["nodeSelector"], Json::Obj({{"pool", "spot"}}));
  EXPECT_EQ(spec["tolerations"].AsArray().size(), 1U);
  EXPECT_EQ(spec["containers"].AsArray()[0]["resources"]["requests"],
            Json::Obj({{"cpu", "1000m"}, {"nvidia.com/gpu", "1"}}))
      << "an autoscaler reads requests";

  api::PodTemplate left;
  left.meta.resource_version = "7";
  const auto again = CreateTemplate(workload, asked[1], flavors, "wl-prov-1", &left);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->verb, api::Verb::kUpdate);
  EXPECT_EQ(again->body["metadata"]["resourceVersion"].AsString(), "7");

  workload.pod_sets[1].template_json = R"({"spec":{"nodeSelector":{"pool":"mine"}}})";
  const auto contradiction =
      CreateTemplate(workload, PodsToAskFor(workload, config)[1], flavors, "wl-prov-1", nullptr);
  ASSERT_FALSE(contradiction);
  EXPECT_EQ(contradiction.error().message,
            "spec.nodeSelector[pool] is \"mine\", but ResourceFlavor \"spot\" needs \"spot\"");
}

TEST_F(ProvisioningCheckTest, ATemplateIsHandedOverOnce) {
  api::PodTemplate pod_template;
  pod_template.meta.owners = {{"kueue.x-k8s.io/v1beta2", "Workload", "wl", "uid-wl", true}};
  api::ProvisioningRequest request = Request(1);
  request.meta.uid = "uid-r";
  const auto write = HandOver(pod_template, request);
  ASSERT_TRUE(write);
  const Json& owners = write->body["metadata"]["ownerReferences"];
  ASSERT_EQ(owners.AsArray().size(), 1U) << "one controller";
  EXPECT_EQ(owners.AsArray()[0]["uid"].AsString(), "uid-r");
  pod_template.meta.owners = {
      {"autoscaling.x-k8s.io/v1", "ProvisioningRequest", "r", "uid-r", true}};
  EXPECT_FALSE(HandOver(pod_template, request));
}

// --- what an answer means ---

TEST_F(ProvisioningCheckTest, ProvisionedMakesTheCheckReadyWithUpdatesForEveryPodSet) {
  config.node_selector = {{"pool", "PoolName"}, {"zone", "NoSuchDetail"}};
  config.merge = api::PodSetMerge::kIdenticalRequirements;
  api::ProvisioningRequest request = Request(1, "Provisioned", "nodes are there");
  ASSERT_EQ(request.pod_sets.size(), 1U);
  request.class_details = {{"PoolName", "p7"}};
  const auto after = After(request);
  EXPECT_EQ(after.state, "Ready");
  EXPECT_EQ(after.message, "nodes are there");
  EXPECT_EQ(after.last_transition, kNow);
  const auto& updates = after.pod_set_updates.AsArray();
  ASSERT_EQ(updates.size(), 2U) << "the merged pod set's pods are provisioned too";
  EXPECT_EQ(
      updates[1],
      Json::Obj({{"name", "worker"},
                 {"annotations",
                  Json::Obj({{"autoscaling.x-k8s.io/consume-provisioning-request", "wl-prov-1"},
                             {"autoscaling.x-k8s.io/provisioning-class-name", "class"}})},
                 {"nodeSelector", Json::Obj({{"pool", "p7"}})}}));
  EXPECT_EQ(NextAttempt(workload, after, {&request, 1}), std::nullopt);
}

TEST_F(ProvisioningCheckTest, AFailureIsARetryThatWaitsFromTheFailureOn) {
  config.backoff_base_seconds = 30;
  auto after = After(Request(1, "Failed", "no capacity"));
  EXPECT_EQ(after.state, "Retry");
  EXPECT_EQ(after.message, "Retrying after failure: no capacity");
  EXPECT_EQ(after.requeue_after_seconds, 30);
  EXPECT_EQ(after.last_transition, kNow);
  EXPECT_EQ(NextAttempt(workload, after, {}), 1) << "the eviction counts it";
  // The eviction went by; the request of the second attempt fails too.
  check.retry_count = 1;
  after = After(Request(2, "Failed"));
  EXPECT_EQ(after.state, "Retry");
  EXPECT_EQ(after.requeue_after_seconds, 60);
  check.retry_count = 2;
  config.backoff_max_seconds = 100;
  EXPECT_EQ(After(Request(3, "Failed")).requeue_after_seconds, 100);
  check.retry_count = 3;
  after = After(Request(4, "Failed", "enough"));
  EXPECT_EQ(after.state, "Rejected");
  EXPECT_EQ(after.message, "enough");
}

TEST_F(ProvisioningCheckTest, AnOldFailureIsFollowedByTheNextAttempt) {
  // Requests are kept over evictions (gate CleanupProvisioningRequestsOnEviction off).
  check.retry_count = 1;
  const auto request = Request(1, "Failed", "no capacity");
  const auto after = After(request);
  EXPECT_EQ(after.state, "Pending");
  EXPECT_EQ(NextAttempt(workload, after, {&request, 1}), 2);
}

TEST_F(ProvisioningCheckTest, AnExpiredBookingIsARetryUnlessThePodsRun) {
  EXPECT_EQ(After(Request(1, "BookingExpired", "late")).message,
            "Retrying after booking expired: late");
  check.state = "Ready";
  Admit();
  const auto request = Request(1, "BookingExpired");
  EXPECT_EQ(After(request), check);
}

TEST_F(ProvisioningCheckTest, RevokedCapacityIsARejectionOfWhatIsStillActive) {
  check.state = "Ready";
  Admit();
  const auto request = Request(1, "CapacityRevoked", "the nodes are gone");
  EXPECT_EQ(After(request).state, "Rejected");
  EXPECT_EQ(After(request).message, "the nodes are gone");
  workload.active = false;
  EXPECT_EQ(After(request).state, "Ready");
}

TEST_F(ProvisioningCheckTest, AnAcceptedRequestPassesOnWhenNodesAreExpected) {
  api::ProvisioningRequest request = Request(1, "Accepted");
  EXPECT_EQ(After(request), check);
  request.conditions.push_back({"Provisioned", "False", "", "ETA: noon", kNow, 0});
  EXPECT_EQ(After(request).message, "ETA: noon");
  EXPECT_EQ(After(request).state, "Pending");
}

TEST_F(ProvisioningCheckTest, ANewRequestClearsWhatWasSaidBefore) {
  check.message = "Error creating ProvisioningRequest";
  EXPECT_EQ(After(Request(1)).message, "");
}

TEST_F(ProvisioningCheckTest, ACheckThatIsNotActiveIsPending) {
  check.state = "Ready";
  const auto after = CheckAfter(workload, check, nullptr, {}, kNow);
  EXPECT_EQ(after.state, "Pending");
  EXPECT_EQ(after.message, "the check is not active");
}

TEST_F(ProvisioningCheckTest, OnlyRequestsThatAreAsConfiguredCount) {
  config.parameters = {{"a", "1"}};
  auto first = Request(1);
  auto second = Request(2);
  auto third = Request(3);
  first.parameters = {{"a", "1"}, {"more", "x"}};
  second.parameters = {{"a", "1"}};
  third.parameters = {{"a", "2"}};
  auto other = Request(4);
  other.meta.name = "wl-other-4";
  other.parameters = config.parameters;
  const Attempt latest = LatestAttempt({&first, &second, &third, &other}, "wl", "prov", config);
  EXPECT_EQ(latest.request, &second);
  EXPECT_EQ(latest.number, 2);
  config.class_name = "other";
  EXPECT_EQ(LatestAttempt({&first, &second}, "wl", "prov", config).request, nullptr);
}

TEST(ProvisioningProblemTest, NamesTheFieldAndTheFix) {
  Store<api::ProvisioningConfig> configs;
  api::AdmissionCheck check;
  const auto says = [&](bool served = true) {
    return ProvisioningProblem(check, configs, served).message;
  };
  EXPECT_NE(says().find("missing parameters reference"), std::string::npos);
  check.parameters = {"other.io", "ProvisioningRequestConfig", "prov"};
  EXPECT_NE(says().find("wrong group \"other.io\""), std::string::npos);
  check.parameters->group = names::kKueueGroup;
  check.parameters->kind = "Other";
  EXPECT_NE(says().find("wrong kind \"Other\""), std::string::npos);
  check.parameters->kind = "ProvisioningRequestConfig";
  EXPECT_NE(says().find("\"prov\" does not exist"), std::string::npos);
  auto config = std::make_shared<api::ProvisioningConfig>();
  config->meta.name = "prov";
  configs.Upsert(config);
  EXPECT_EQ(says(), "");
  EXPECT_EQ(ProvisioningProblem(check, configs, /*served=*/false).reason,
            "ProvisioningRequestNotServed");
}

}  // namespace
}  // namespace tutti::reconciler
