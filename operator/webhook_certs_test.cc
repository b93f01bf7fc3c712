// SPDX-License-Identifier: Apache-2.0
#include "operator/webhook_certs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/base64.h"

namespace tutti {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

const Time kStart(seconds(1'800'000'000));

Json Configuration(const std::string& kind, const std::string& name) {
  return Json::Obj(
      {{"kind", kind},
       {"metadata", Json::Obj({{"name", name}})},
       {"webhooks", Json::Arr({Json::Obj({{"name", "a"}, {"clientConfig", Json::Obj()}}),
                               Json::Obj({{"name", "b"}, {"clientConfig", Json::Obj()}})})}});
}

Json Definition(const std::string& name, const Json& conversion) {
  return Json::Obj(
      {{"kind", "CustomResourceDefinition"},
       {"metadata", Json::Obj({{"name", name},
                               {"labels", Json::Obj({{"app.kubernetes.io/part-of", "tutti"}})}})},
       {"spec", Json::Obj({{"conversion", conversion}})}});
}

Json ConversionAt(const Json& client_config) {
  return Json::Obj(
      {{"strategy", "Webhook"}, {"webhook", Json::Obj({{"clientConfig", client_config}})}});
}

Json ServiceAt(const std::string& ns, const std::string& name) {
  return Json::Obj({{"service", Json::Obj({{"namespace", ns}, {"name", name}})}});
}

// The API server as far as the planner's writes go.
class WebhookCertsTest : public testing::Test {
 protected:
  WebhookCertsTest() {
    options_.secret = {"tutti-system", "tutti-webhook-server-cert"};
    options_.service = "tutti-webhook-service";
    configurations_ = {
        Configuration("MutatingWebhookConfiguration", "tutti-mutating-webhook-configuration"),
        Configuration("ValidatingWebhookConfiguration", "tutti-validating-webhook-configuration"),
        Configuration("MutatingWebhookConfiguration", "somebody-elses")};
  }

  WebhookCertPlan Plan(Time now) {
    auto plan = PlanWebhookCerts(options_, ParseWebhookSecret(secret_), configurations_, now);
    EXPECT_TRUE(plan) << plan.error().message;
    return *plan;
  }

  void Carry(const api::WriteRequest& write) {
    if (write.resource.plural == "secrets") {
      if (write.verb == api::Verb::kCreate) {
        EXPECT_TRUE(secret_.IsNull());
        secret_ = write.body;
      } else {
        EXPECT_EQ(write.body["metadata"]["resourceVersion"].AsString(),
                  secret_["metadata"]["resourceVersion"].AsString());
        ApplyMergePatch(secret_, write.body);
      }
      secret_.At("metadata").Set("resourceVersion", std::to_string(++version_));
      return;
    }
    for (Json& configuration : configurations_) {
      if (configuration["metadata"]["name"].AsString() != write.key.name) {
        continue;
      }
      EXPECT_EQ(configuration["kind"].AsString(), write.resource.kind);
      if (write.resource.kind == "CustomResourceDefinition") {
        ASSERT_EQ(write.body.AsArray().size(), 2U);
        EXPECT_EQ(write.body.AsArray()[0]["path"].AsString(), "/spec/conversion/strategy");
        const Json& add = write.body.AsArray()[1];
        EXPECT_EQ(add["path"].AsString(), "/spec/conversion/webhook/clientConfig/caBundle");
        configuration.At("spec")
            .At("conversion")
            .At("webhook")
            .At("clientConfig")
            .Set("caBundle", add["value"]);
        continue;
      }
      for (const Json& op : write.body.AsArray()) {
        const std::string& path = op["path"].AsString();
        const size_t index = static_cast<size_t>(path.at(10) - '0');
        Json& webhook = configuration.At("webhooks").MutableArray().at(index);
        if (op["op"].AsString() == "test") {
          EXPECT_EQ(webhook["name"], op["value"]);
        } else {
          EXPECT_EQ(path.substr(11), "/clientConfig/caBundle");
          webhook.At("clientConfig").Set("caBundle", op["value"]);
        }
      }
    }
  }

  // Plans and carries out until nothing is left to write; the number of rounds.
  int Settle(Time now) {
    for (int round = 0;; ++round) {
      const auto plan = Plan(now);
      if (plan.writes.empty() || round > 10) {
        return round;
      }
      for (const auto& write : plan.writes) {
        Carry(write);
      }
    }
  }

  std::vector<std::string> Bundle(size_t configuration) {
    return net::SplitBundle(DecodeBase64(configurations_[configuration]["webhooks"]
                                             .AsArray()[0]["clientConfig"]["caBundle"]
                                             .AsString())
                                .value());
  }

  WebhookCertOptions options_;
  Json secret_;
  std::vector<Json> configurations_;
  int version_ = 0;
};

TEST_F(WebhookCertsTest, FromNothingToServingAndTrusted) {
  auto plan = Plan(kStart);
  EXPECT_TRUE(plan.serve.key_pem.empty());
  EXPECT_FALSE(plan.ready);
  ASSERT_EQ(plan.writes.size(), 1U);
  EXPECT_EQ(plan.writes[0].verb, api::Verb::kCreate);
  Carry(plan.writes[0]);
  plan = Plan(kStart);
  EXPECT_FALSE(plan.ready);  // not trusted yet
  EXPECT_EQ(plan.writes.size(), 2U);
  for (const auto& write : plan.writes) {
    Carry(write);
  }
  plan = Plan(kStart);
  EXPECT_TRUE(plan.writes.empty());
  EXPECT_TRUE(plan.ready);
  EXPECT_TRUE(net::KeyMatches(plan.serve.certificate_pem, plan.serve.key_pem));
  const auto leaf = net::Inspect(plan.serve.certificate_pem).value();
  EXPECT_THAT(leaf.dns_names, testing::Contains("tutti-webhook-service.tutti-system.svc"));
  EXPECT_THAT(Bundle(0), testing::ElementsAre(testing::_));
  EXPECT_EQ(Bundle(0), Bundle(1));
  EXPECT_TRUE(net::IsSignedBy(plan.serve.certificate_pem, Bundle(0)[0]));
  EXPECT_FALSE(
      configurations_[2]["webhooks"].AsArray()[0]["clientConfig"].Has("caBundle"));  // not ours
}

TEST_F(WebhookCertsTest, NothingIsWrittenTwice) {
  EXPECT_EQ(Settle(kStart), 2);
  EXPECT_EQ(Settle(kStart + hours(24)), 0);
}

TEST_F(WebhookCertsTest, LeafIsReplacedAtTwoThirdsByTheSameCa) {
  Settle(kStart);
  const auto before = Plan(kStart).serve.certificate_pem;
  const auto bundle = Bundle(0);
  EXPECT_LE(Plan(kStart).next_check, kStart + hours(1));
  EXPECT_EQ(Settle(kStart + hours(24 * 61)), 1);
  EXPECT_NE(Plan(kStart + hours(24 * 61)).serve.certificate_pem, before);
  EXPECT_EQ(Bundle(0), bundle);
}

TEST_F(WebhookCertsTest, NewCaIsTrustedByEverybodyBeforeItIsUsedAndTheOldOneStaysTrusted) {
  // The life of the leaf is long, so that only the CA is due.
  options_.leaf_life = hours(24 * 365);
  Settle(kStart);
  const Time due = kStart + hours(24 * 250);
  const std::string old_ca = ParseWebhookSecret(secret_).ca.certificate_pem;

  auto plan = Plan(due);  // 1: the next CA is stored
  ASSERT_EQ(plan.writes.size(), 1U);
  Carry(plan.writes[0]);
  EXPECT_EQ(ParseWebhookSecret(secret_).ca.certificate_pem, old_ca);

  plan = Plan(due);  // 2: and published; one configuration gets it, the other write fails
  ASSERT_EQ(plan.writes.size(), 2U);
  EXPECT_TRUE(plan.ready);
  Carry(plan.writes[0]);
  EXPECT_THAT(Bundle(0), testing::SizeIs(2));
  EXPECT_THAT(Bundle(1), testing::SizeIs(1));

  plan = Plan(due);  // not switched while one doesn't trust it
  ASSERT_EQ(plan.writes.size(), 1U);
  EXPECT_EQ(plan.writes[0].resource.kind, "ValidatingWebhookConfiguration");
  Carry(plan.writes[0]);

  plan = Plan(due);  // 3: the switch; what is served until it is done is the old leaf
  ASSERT_EQ(plan.writes.size(), 1U);
  EXPECT_TRUE(net::IsSignedBy(plan.serve.certificate_pem, old_ca));
  Carry(plan.writes[0]);

  EXPECT_LE(Settle(due), 1);
  plan = Plan(due);
  EXPECT_FALSE(net::IsSignedBy(plan.serve.certificate_pem, old_ca));
  EXPECT_THAT(Bundle(0), testing::Contains(old_ca));  // replicas may still serve the old leaf
  EXPECT_THAT(Bundle(0), testing::SizeIs(2));
  EXPECT_TRUE(plan.ready);

  Settle(kStart + hours(24 * 366));  // the old one has ended
  EXPECT_THAT(Bundle(0), testing::Not(testing::Contains(old_ca)));
}

TEST_F(WebhookCertsTest, DamagedSecretIsRepairedAtOnce) {
  Settle(kStart);
  secret_.At("data").Set("tls.key", EncodeBase64("garbage"));
  EXPECT_TRUE(Plan(kStart).serve.key_pem.empty());
  Settle(kStart);
  EXPECT_TRUE(Plan(kStart).ready);
  secret_.At("data").Set("ca.crt", "not base64!");
  Settle(kStart);
  EXPECT_TRUE(Plan(kStart).ready);
  secret_.Erase("data");
  Settle(kStart);
  EXPECT_TRUE(Plan(kStart).ready);
}

TEST_F(WebhookCertsTest, AfterALongSleepEverythingIsNew) {
  Settle(kStart);
  const Time later = kStart + hours(24 * 1000);
  EXPECT_TRUE(Plan(later).serve.key_pem.empty());
  Settle(later);
  EXPECT_TRUE(Plan(later).ready);
}

TEST_F(WebhookCertsTest, ForeignBundleIsPutRight) {
  Settle(kStart);
  configurations_[0].At("webhooks").MutableArray()[1].At("clientConfig").Set("caBundle", "AAAA");
  EXPECT_FALSE(Plan(kStart).ready);
  EXPECT_EQ(Settle(kStart), 1);
  EXPECT_TRUE(Plan(kStart).ready);
}

TEST_F(WebhookCertsTest, DefinitionsThatAskUsForConversionAreCallersToo) {
  const Json ours = ServiceAt("tutti-system", "tutti-webhook-service");
  EXPECT_TRUE(CallsUs(options_, Definition("a", ConversionAt(ours))));
  EXPECT_TRUE(CallsUs(options_, Definition("a", ConversionAt(Json::Obj({{"url", "https://x"}})))));
  EXPECT_FALSE(CallsUs(options_, Definition("a", Json::Obj({{"strategy", "None"}}))));
  EXPECT_FALSE(CallsUs(
      options_, Definition("a", ConversionAt(ServiceAt("kueue-system", "kueue-webhook-service")))));
  EXPECT_FALSE(
      CallsUs(options_, Definition("a", ConversionAt(ServiceAt("x", "tutti-webhook-service")))));

  configurations_ = {Definition("clusterqueues.kueue.x-k8s.io", ConversionAt(ours))};
  EXPECT_EQ(Settle(kStart), 2);
  EXPECT_TRUE(Plan(kStart).ready);
  const Json& config = configurations_[0]["spec"]["conversion"]["webhook"]["clientConfig"];
  EXPECT_TRUE(net::IsSignedBy(Plan(kStart).serve.certificate_pem,
                              DecodeBase64(config["caBundle"].AsString()).value()));
}

}  // namespace
}  // namespace tutti
