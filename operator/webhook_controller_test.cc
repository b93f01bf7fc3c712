// SPDX-License-Identifier: Apache-2.0
#include "operator/webhook_controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kube/fake_api_server.h"
#include "kube/fake_loop.h"
#include "kube/fake_transport.h"
#include "operator/front_proxy.h"
#include "operator/webhook_certs.h"

namespace tutti {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

class WebhookControllerTest : public testing::Test {
 protected:
  WebhookControllerTest()
      : transport_(loop_, server_),
        client_(transport_),
        executor_(loop_,
                  [this](const api::WriteRequest& request, std::function<void(Result<Json>)> done) {
                    client_.Do(request, std::move(done));
                  }) {
    config_ = ParseConfig("", {}).value();
    config_.webhook.host = "127.0.0.1";
    config_.webhook.port = 0;
    config_.visibility = {"127.0.0.1", 0};
    config_.internal_certs.webhook_service = "tutti-webhook-service";
    config_.internal_certs.webhook_secret = "tutti-webhook-server-cert";
  }

  void Install() {
    for (const auto& [resource, name] :
         {std::pair{MutatingWebhookResource(), "tutti-mutating-webhook-configuration"},
          std::pair{ValidatingWebhookResource(), "tutti-validating-webhook-configuration"}}) {
      const Json webhook = Json::Obj({{"name", "a.tutti.dev"}, {"clientConfig", Json::Obj()}});
      ASSERT_TRUE(server_.Create(resource, Json::Obj({{"apiVersion", resource.ApiVersion()},
                                                      {"kind", resource.kind},
                                                      {"metadata", Json::Obj({{"name", name}})},
                                                      {"webhooks", Json::Arr({webhook})}})));
    }
    // As the chart makes it: there, and empty.
    ASSERT_TRUE(server_.Create(
        SecretResource(), Json::Obj({{"apiVersion", "v1"},
                                     {"kind", "Secret"},
                                     {"metadata", Json::Obj({{"name", "tutti-webhook-server-cert"},
                                                             {"namespace", "tutti-system"}})}})));
  }

  std::unique_ptr<WebhookController> Start() {
    auto controller = std::make_unique<WebhookController>(
        config_, WebhookController::Dependencies{.loop = &loop_,
                                                 .client = &client_,
                                                 .executor = &executor_,
                                                 .metrics = &metrics_,
                                                 .may_write = [this] { return leader_; },
                                                 .pending = {}});
    controller->Start();
    return controller;
  }

  std::string Bundle(const api::Resource& resource, const std::string& name) {
    return server_.Get(resource, {"", name})
        .value()["webhooks"]
        .AsArray()
        .at(0)["clientConfig"]["caBundle"]
        .AsString();
  }

  kube::FakeLoop loop_;
  kube::FakeApiServer server_;
  kube::FakeTransport transport_;
  kube::Client client_;
  kube::Executor executor_;
  Metrics metrics_;
  Config config_;
  bool leader_ = true;
};

TEST_F(WebhookControllerTest, WithoutAConfigurationNothingIsServedOrWritten) {
  auto controller = Start();
  loop_.Advance(seconds(30));
  EXPECT_EQ(controller->NotReady(), "");
  EXPECT_EQ(controller->port(), 0);
  EXPECT_EQ(executor_.Writes(), 0U);
}

TEST_F(WebhookControllerTest, AlwaysMeansWithoutAConfigurationOfOurs) {
  config_.webhooks = WebhookServing::kAlways;
  config_.internal_certs.enabled = false;
  config_.webhook.cert_dir = "/nonexistent";
  auto controller = Start();
  EXPECT_NE(controller->NotReady(), "");  // the API server may call as soon as we are ready
  loop_.Advance(seconds(1));
  EXPECT_NE(controller->port(), 0);
  EXPECT_NE(controller->NotReady(), "");  // no certificate there
}

TEST_F(WebhookControllerTest, LeaderMakesCertificatesAndPublishesThem) {
  Install();
  auto controller = Start();
  loop_.Advance(seconds(10));
  EXPECT_EQ(controller->NotReady(), "");
  EXPECT_NE(controller->port(), 0);
  const std::string bundle =
      Bundle(MutatingWebhookResource(), "tutti-mutating-webhook-configuration");
  EXPECT_NE(bundle, "");
  EXPECT_EQ(Bundle(ValidatingWebhookResource(), "tutti-validating-webhook-configuration"), bundle);
  const uint64_t writes = executor_.Writes();
  EXPECT_EQ(writes, 3U);
  loop_.Advance(minutes(10));
  EXPECT_EQ(executor_.Writes(), writes);
}

TEST_F(WebhookControllerTest, FollowerServesWhatTheLeaderWroteAndWritesNothing) {
  Install();
  leader_ = false;
  auto follower = Start();
  loop_.Advance(seconds(10));
  EXPECT_NE(follower->NotReady(), "");
  EXPECT_EQ(executor_.Writes(), 0U);
  leader_ = true;
  auto leader = Start();
  loop_.Advance(seconds(10));
  leader_ = false;
  leader.reset();
  loop_.Advance(seconds(10));
  EXPECT_EQ(follower->NotReady(), "");
}

TEST_F(WebhookControllerTest, ConfigurationThatComesLaterIsFound) {
  auto controller = Start();
  loop_.Advance(seconds(30));
  Install();
  loop_.Advance(seconds(30));
  EXPECT_NE(controller->port(), 0);
  EXPECT_EQ(controller->NotReady(), "");
}

TEST_F(WebhookControllerTest, DefinitionThatAsksForConversionIsServedAndTrustsUs) {
  transport_.SetApis({{"kueue.x-k8s.io/v1beta1", {"clusterqueues"}},
                      {"kueue.x-k8s.io/v1beta2", {"clusterqueues"}}});
  const api::ObjectKey key{"", "clusterqueues.kueue.x-k8s.io"};
  const Json service =
      Json::Obj({{"name", "tutti-webhook-service"}, {"namespace", "tutti-system"}});
  const Json conversion =
      Json::Obj({{"strategy", "Webhook"},
                 {"webhook", Json::Obj({{"clientConfig", Json::Obj({{"service", service}})}})}});
  ASSERT_TRUE(server_.Create(CustomResourceDefinitionResource(),
                             Json::Obj({{"apiVersion", "apiextensions.k8s.io/v1"},
                                        {"kind", "CustomResourceDefinition"},
                                        {"metadata", Json::Obj({{"name", key.name}})},
                                        {"spec", Json::Obj({{"conversion", conversion}})}})));
  auto controller = Start();
  loop_.Advance(seconds(30));
  EXPECT_NE(controller->port(), 0);
  EXPECT_EQ(controller->NotReady(), "");
  EXPECT_NE(server_.Get(CustomResourceDefinitionResource(), key)
                .value()["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"]
                .AsString(),
            "");
}

TEST_F(WebhookControllerTest, VisibilityIsServedWhereAnApiServicePointsToUs) {
  const api::ObjectKey key{"", "v1beta2.visibility.kueue.x-k8s.io"};
  const auto api_service = [&key](const std::string& service) {
    return Json::Obj(
        {{"apiVersion", "apiregistration.k8s.io/v1"},
         {"kind", "APIService"},
         {"metadata", Json::Obj({{"name", key.name}})},
         {"spec", Json::Obj({{"service",
                              Json::Obj({{"name", service}, {"namespace", "tutti-system"}})}})}});
  };
  ASSERT_TRUE(server_.Create(ApiServiceResource(), api_service("kueue-visibility-server")));
  auto controller = Start();
  loop_.Advance(seconds(30));
  EXPECT_EQ(controller->visibility_port(), 0);  // Kueue's own

  ASSERT_TRUE(server_.Delete(ApiServiceResource(), key));
  ASSERT_TRUE(server_.Create(ApiServiceResource(), api_service("tutti-webhook-service")));
  loop_.Advance(seconds(30));
  EXPECT_NE(controller->visibility_port(), 0);
  EXPECT_EQ(controller->port(), 0);       // no webhooks
  EXPECT_NE(controller->NotReady(), "");  // whom to believe isn't known

  net::CertificateSpec ca;
  ca.common_name = "front-proxy-ca";
  ca.not_before = loop_.Now() - minutes(5);
  ca.not_after = loop_.Now() + minutes(50);
  ASSERT_TRUE(server_.Create(
      ConfigMapResource(),
      Json::Obj(
          {{"apiVersion", "v1"},
           {"kind", "ConfigMap"},
           {"metadata", Json::Obj({{"name", FrontProxyConfigMap().name},
                                   {"namespace", FrontProxyConfigMap().ns}})},
           {"data",
            Json::Obj({{"requestheader-client-ca-file", net::MakeCa(ca).value().certificate_pem},
                       {"requestheader-username-headers", R"(["X-Remote-User"])"}})}})));
  loop_.Advance(seconds(30));
  EXPECT_EQ(controller->NotReady(), "");
  EXPECT_NE(server_.Get(ApiServiceResource(), key).value()["spec"]["caBundle"].AsString(), "");
}

TEST_F(WebhookControllerTest, WhatTheRulesGoByIsNewOnlyWhenItChanges) {
  auto controller = Start();
  reconciler::World world;
  EXPECT_FALSE(controller->Knows(world));
  const auto shown = [&] {
    const bool is_new = !controller->Knows(world);
    controller->SetWorld(world);
    return is_new;
  };
  EXPECT_TRUE(shown());
  EXPECT_FALSE(shown());
  api::Namespace team;
  team.meta.name = "team";
  team.meta.resource_version = "1";
  world.namespaces.Upsert(std::make_shared<const api::Namespace>(team));
  EXPECT_TRUE(shown());
  team.meta.resource_version = "2";
  team.meta.labels["batch"] = "yes";
  world.namespaces.Upsert(std::make_shared<const api::Namespace>(team));
  EXPECT_TRUE(shown());
  api::LocalQueue queue;
  queue.meta.ns = "team";
  queue.meta.name = "default";
  queue.meta.resource_version = "3";
  world.local_queues.Upsert(std::make_shared<const api::LocalQueue>(queue));
  EXPECT_TRUE(shown());
  queue.meta.resource_version = "4";
  world.local_queues.Upsert(std::make_shared<const api::LocalQueue>(queue));
  EXPECT_FALSE(shown()) << "its status alone has changed";
  api::WorkloadPriorityClass priority;
  priority.meta.name = "default";
  priority.meta.resource_version = "5";
  world.workload_priorities.Upsert(std::make_shared<const api::WorkloadPriorityClass>(priority));
  EXPECT_TRUE(shown());
  world.local_queues.Remove(queue);
  EXPECT_TRUE(shown());
  EXPECT_FALSE(shown());
}

TEST_F(WebhookControllerTest, WithoutTheGateVisibilityIsNotServed) {
  config_.gates = FeatureGates::From({{"VisibilityOnDemand", false}}).value();
  ASSERT_TRUE(server_.Create(
      ApiServiceResource(),
      Json::Obj({{"apiVersion", "apiregistration.k8s.io/v1"},
                 {"kind", "APIService"},
                 {"metadata", Json::Obj({{"name", "v1beta2.visibility.kueue.x-k8s.io"}})},
                 {"spec", Json::Obj({{"service", Json::Obj({{"name", "tutti-webhook-service"},
                                                            {"namespace", "tutti-system"}})}})}})));
  auto controller = Start();
  loop_.Advance(seconds(30));
  EXPECT_EQ(controller->visibility_port(), 0);
  EXPECT_EQ(controller->NotReady(), "");
}

}  // namespace
}  // namespace tutti
