// SPDX-License-Identifier: Apache-2.0
// Jobs whose nodes an autoscaler makes on request, against the in-memory cluster: what is asked
// for, what each answer leads to, and what is left at the end.
#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "base/names.h"
#include "reconciler/core.h"
#include "reconciler/testing/cluster.h"

namespace tutti::reconciler {
namespace {

using namespace std::chrono_literals;
using api::Kind;
using testing::Cluster;

Options TestOptions() {
  Options options;
  options.managed_namespaces.present = true;
  return options;
}

// One node of 8 cpu, one team with 8 cpu of quota, whose queue has the check "prov".
class CoreProvisioningTest : public ::testing::Test {
 protected:
  CoreProvisioningTest() : cluster(TestOptions()) {
    cluster.AddNamespace("team-a");
    cluster.AddFlavor("default", {{"pool", "made"}});
    cluster.AddQueue("cq", "team-a", {{"cpu", "8"}});
    cluster.PatchSpec(
        Kind::kClusterQueue, {"", "cq"},
        Json::Obj(
            {{"admissionChecksStrategy",
              Json::Obj({{"admissionChecks", Json::Arr({Json::Obj({{"name", "prov"}})})}})}}));
    EXPECT_TRUE(cluster.server().Create(
        api::ResourceOf(Kind::kAdmissionCheck),
        Json::Obj(
            {{"metadata", Json::Obj({{"name", "prov"}})},
             {"spec", Json::Obj({{"controllerName", names::kProvisioningController},
                                 {"parameters", Json::Obj({{"apiGroup", names::kKueueGroup},
                                                           {"kind", "ProvisioningRequestConfig"},
                                                           {"name", "config"}})}})}})));
    AddConfig(Json::Obj(
        {{"provisioningClassName", "class"},
         {"retryStrategy", Json::Obj({{"backoffLimitCount", 1}, {"backoffBaseSeconds", 20}})}}));
    cluster.SetProvisioning(true);
    cluster.Run(2s);
  }

  void AddConfig(Json spec) {
    EXPECT_TRUE(cluster.server().Create(
        api::ProvisioningConfigResource(),
        Json::Obj({{"metadata", Json::Obj({{"name", "config"}})}, {"spec", std::move(spec)}})));
  }
  std::vector<Json> Requests() {
    return cluster.server().List(api::ProvisioningRequestResource(), "team-a");
  }
  std::string RequestName(int attempt) {
    return cluster.WorkloadOf("team-a", "job")["metadata"]["name"].AsString() + "-prov-" +
           std::to_string(attempt);
  }
  // The autoscaler's word.
  void Say(int attempt, const std::string& condition, const std::string& message = "",
           Json details = Json()) {
    Json status = Json::Obj({{"conditions", Json::Arr({Json::Obj({{"type", condition},
                                                                  {"status", "True"},
                                                                  {"reason", "Test"},
                                                                  {"message", message}})})}});
    if (!details.IsNull()) {
      status.Set("provisioningClassDetails", std::move(details));
    }
    EXPECT_TRUE(cluster.server().MergePatch(api::ProvisioningRequestResource(),
                                            {"team-a", RequestName(attempt)},
                                            Json::Obj({{"status", std::move(status)}}), "status"));
  }
  std::string Is(std::string_view type) const {
    const Json workload = cluster.WorkloadOf("team-a", "job");
    return cluster.Condition(workload, type) + "/" + cluster.Condition(workload, type, "reason");
  }
  Json Check() const {
    return cluster.WorkloadOf("team-a", "job")["status"]["admissionChecks"].AsArray().at(0);
  }
  std::string CheckCondition(std::string_view field) {
    return cluster.Condition(
        *cluster.server().Get(api::ResourceOf(Kind::kAdmissionCheck), {"", "prov"}), "Active",
        field);
  }
  int64_t Events(std::string_view reason) const {
    return std::count_if(cluster.events().begin(), cluster.events().end(),
                         [&](const EventRecord& event) { return event.reason == reason; });
  }
  Json Template(int attempt) {
    const auto found = cluster.server().Get(api::PodTemplateResource(),
                                            {"team-a", "ppt-" + RequestName(attempt) + "-main"});
    return found ? *found : Json();
  }
  void AddNode() {
    cluster.AddNode("n1", 8);
    EXPECT_TRUE(cluster.server().MergePatch(
        api::ResourceOf(Kind::kNode), {"", "n1"},
        Json::Obj({{"metadata", Json::Obj({{"labels", Json::Obj({{"pool", "made"}})}})}})));
  }

  Cluster cluster;
};

TEST_F(CoreProvisioningTest, AJobWaitsForItsNodesAndStartsOnThem) {
  cluster.Submit({.name = "job", .pods = 4, .runs_for = 5s});
  cluster.Run(2s);
  EXPECT_EQ(Is("QuotaReserved"), "True/QuotaReserved") << "with no node at all";
  ASSERT_EQ(Requests().size(), 1U);
  EXPECT_EQ(Requests()[0]["metadata"]["name"].AsString(), RequestName(1));
  EXPECT_EQ(Requests()[0]["spec"]["podSets"].AsArray()[0]["count"].AsInt(), 4);
  EXPECT_EQ(Template(1)["template"]["spec"]["nodeSelector"], Json::Obj({{"pool", "made"}}));
  EXPECT_EQ(Template(1)["metadata"]["ownerReferences"].AsArray()[0]["kind"].AsString(),
            "ProvisioningRequest");
  EXPECT_EQ(Events("ProvisioningRequestCreated"), 1);
  EXPECT_TRUE(cluster.Suspended("team-a", "job"));

  AddNode();
  Say(1, "Provisioned", "made");
  cluster.Run(2s);
  EXPECT_EQ(Is("Admitted"), "True/Admitted");
  const Json job = cluster.Job("team-a", "job");
  EXPECT_FALSE(job["spec"]["suspend"].AsBool(true));
  EXPECT_EQ(job["spec"]["template"]["metadata"]["annotations"]
               ["autoscaling.x-k8s.io/consume-provisioning-request"]
                   .AsString(),
            RequestName(1));
  EXPECT_TRUE(cluster.RunUntilDone(30s));
  cluster.Run(1s);
  EXPECT_TRUE(Requests().empty()) << "the request of a finished job goes";
  EXPECT_EQ(Events("AdmissionCheckUpdated"), 1);
  EXPECT_EQ(cluster.Check(), "");
}

TEST_F(CoreProvisioningTest, AFailureGivesTheQuotaBackAndTriesAgainAfterThePause) {
  AddNode();
  cluster.Submit({.name = "job", .pods = 4, .runs_for = 5s});
  cluster.Run(60s);
  Say(1, "Failed", "no capacity");
  cluster.Run(2s);
  EXPECT_EQ(Is("Evicted"), "True/AdmissionCheck");
  EXPECT_EQ(Is("QuotaReserved"), "False/Pending");
  EXPECT_EQ(Check()["retryCount"].AsInt(), 1);
  EXPECT_TRUE(Requests().empty());
  cluster.Run(16s);
  EXPECT_EQ(Is("QuotaReserved"), "False/Pending") << "the pause counts from the failure";
  cluster.Run(6s);
  ASSERT_EQ(Requests().size(), 1U);
  EXPECT_EQ(Requests()[0]["metadata"]["name"].AsString(), RequestName(2));
  Say(2, "Failed", "no capacity");
  cluster.Run(2s);
  EXPECT_EQ(Is("Evicted"), "True/DeactivatedDueToAdmissionCheck");
  EXPECT_TRUE(Requests().empty());
  EXPECT_EQ(Events("AdmissionCheckRejected"), 1);
}

TEST_F(CoreProvisioningTest, ARequestFollowsItsConfiguration) {
  cluster.Submit({.name = "job", .pods = 4, .runs_for = 5s});
  cluster.Run(2s);
  ASSERT_EQ(Requests().size(), 1U);
  const std::string uid = Requests()[0]["metadata"]["uid"].AsString();
  EXPECT_TRUE(cluster.server().MergePatch(
      api::ProvisioningConfigResource(), {"", "config"},
      Json::Obj({{"spec", Json::Obj({{"provisioningClassName", "other"}})}})));
  cluster.Run(2s);
  ASSERT_EQ(Requests().size(), 1U);
  EXPECT_NE(Requests()[0]["metadata"]["uid"].AsString(), uid);
  EXPECT_EQ(Requests()[0]["metadata"]["name"].AsString(), RequestName(1));
  EXPECT_EQ(Requests()[0]["spec"]["provisioningClassName"].AsString(), "other");
  EXPECT_EQ(Template(1)["metadata"]["ownerReferences"].AsArray()[0]["uid"].AsString(),
            Requests()[0]["metadata"]["uid"].AsString())
      << "the template of the old one is used again";
  EXPECT_TRUE(cluster.server().Delete(api::ProvisioningConfigResource(), {"", "config"}));
  cluster.Run(2s);
  EXPECT_TRUE(Requests().empty());
  EXPECT_EQ(Check()["message"].AsString(), "the check is not active");
  EXPECT_EQ(CheckCondition("reason"), "BadParametersRef");
}

TEST_F(CoreProvisioningTest, WhatTheServerRefusesIsSaidInTheCheckUntilItWorks) {
  bool refused = true;
  cluster.server().AddAdmission(
      [&](const api::WriteRequest& request, std::string_view, const Json&, Json&) -> Status {
        if (refused && request.resource.kind == "ProvisioningRequest") {
          return Fail(ErrorCode::kForbidden, "quota of requests exceeded");
        }
        return {};
      });
  cluster.Submit({.name = "job", .pods = 4, .runs_for = 5s});
  cluster.Run(5s);
  EXPECT_EQ(Check()["message"].AsString(), "Error creating ProvisioningRequest \"" +
                                               RequestName(1) + "\": quota of requests exceeded");
  EXPECT_EQ(Events("FailedCreate"), 1) << "said once, tried again";
  EXPECT_EQ(Is("QuotaReserved"), "True/QuotaReserved");
  refused = false;
  cluster.Run(30s);
  EXPECT_EQ(Requests().size(), 1U);
  EXPECT_EQ(Check()["message"].AsString(), "");
}

TEST_F(CoreProvisioningTest, ACheckWithoutTheKindOnTheServerSaysSoAndWorksWhenItAppears) {
  cluster.SetProvisioning(false);
  cluster.Run(2s);
  EXPECT_EQ(CheckCondition("status"), "False");
  EXPECT_EQ(CheckCondition("reason"), "ProvisioningRequestNotServed");
  cluster.Submit({.name = "job", .pods = 4, .runs_for = 5s});
  cluster.Run(3s);
  EXPECT_EQ(Is("QuotaReserved"), "False/Inadmissible");
  cluster.SetProvisioning(true);
  cluster.Run(3s);
  EXPECT_EQ(CheckCondition("status"), "True");
  EXPECT_EQ(Requests().size(), 1U);
}

TEST_F(CoreProvisioningTest, ARestartFindsItsRequestsAgain) {
  cluster.Submit({.name = "job", .pods = 4, .runs_for = 60s});
  cluster.Run(2s);
  const uint64_t writes = cluster.writes();
  cluster.Restart();
  cluster.Run(5s);
  EXPECT_EQ(Requests().size(), 1U);
  EXPECT_EQ(cluster.writes(), writes) << "nothing is asked twice";
  AddNode();
  Say(1, "Provisioned");
  cluster.Run(2s);
  EXPECT_EQ(Is("Admitted"), "True/Admitted");
  Say(1, "CapacityRevoked", "reclaimed");
  cluster.Run(3s);
  EXPECT_EQ(Is("Evicted"), "True/DeactivatedDueToAdmissionCheck");
  EXPECT_TRUE(Requests().empty());
}

TEST_F(CoreProvisioningTest, FaultsLoseAndDoubleNothing) {
  AddNode();
  cluster.SetFaults(0.3);
  cluster.Submit({.name = "job", .pods = 4, .runs_for = 5s});
  cluster.Run(30s);
  ASSERT_EQ(Requests().size(), 1U);
  Say(1, "Failed");
  cluster.Run(90s);
  ASSERT_EQ(Requests().size(), 1U);
  EXPECT_EQ(Requests()[0]["metadata"]["name"].AsString(), RequestName(2));
  Say(2, "Provisioned");
  EXPECT_TRUE(cluster.RunUntilDone(120s));
  cluster.Run(10s);
  EXPECT_TRUE(Requests().empty());
  EXPECT_EQ(cluster.Check(), "");
}

}  // namespace
}  // namespace tutti::reconciler
