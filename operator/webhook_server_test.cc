// SPDX-License-Identifier: Apache-2.0
#include "operator/webhook_server.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/base64.h"
#include "operator/testing_tls.h"
#include "operator/webhook_certs.h"

namespace tutti {
namespace {

// POSTs over TLS, trusting only `ca_pem`; "" when the connection is refused.
std::string Post(uint16_t port, const std::string& ca_pem, const std::string& path,
                 const std::string& body) {
  return testing_tls::Exchange(
      port,
      "POST " + path + " HTTP/1.1\r\nHost: hooks.ns.svc\r\nConnection: close\r\nContent-Length: " +
          std::to_string(body.size()) + "\r\n\r\n" + body,
      {.trusted_ca = ca_pem, .host = "hooks.ns.svc"});
}

TEST(WebhookServerTest, ServesReviewsWithTheCertificateOfTheSecret) {
  const Time now = std::chrono::floor<Duration>(std::chrono::system_clock::now());
  WebhookCertOptions options;
  options.secret = {"ns", "cert"};
  options.service = "hooks";
  const auto create = PlanWebhookCerts(options, {}, {}, now);
  ASSERT_TRUE(create);
  const WebhookSecret secret = ParseWebhookSecret(create->writes.at(0).body);
  const auto plan = PlanWebhookCerts(options, secret, {}, now);
  ASSERT_TRUE(plan);

  Metrics metrics;
  webhooks::Rules rules;
  rules.own_user = "us";
  auto server = WebhookServer::Start({"127.0.0.1", 0}, TlsVersion::k12, rules, &metrics);
  ASSERT_TRUE(server) << server.error().message;
  const uint16_t port = (*server)->port();
  const std::string ca = secret.ca.certificate_pem;
  const std::string review =
      R"({"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"7","operation":"CREATE","userInfo":{"username":"a"},)"
      R"("object":{"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"q"}},"spec":{}}}})";
  EXPECT_FALSE((*server)->HasCertificate());
  EXPECT_EQ(Post(port, ca, "/mutate-batch-v1-job", review), "");
  ASSERT_TRUE((*server)->SetCertificate(plan->serve));
  EXPECT_TRUE((*server)->HasCertificate());

  const std::string answer = Post(port, ca, "/mutate-batch-v1-job", review);
  EXPECT_THAT(answer, testing::StartsWith("HTTP/1.1 200"));
  const auto json = Json::Parse(answer.substr(answer.find("\r\n\r\n") + 4));
  ASSERT_TRUE(json) << answer;
  EXPECT_THAT(DecodeBase64((*json)["response"]["patch"].AsString()).value(),
              testing::HasSubstr("/spec/suspend"));
  EXPECT_EQ(metrics.ValueForTest(Metric::kWebhookRequests, {"/mutate-batch-v1-job", "true"}), 1);

  EXPECT_THAT(Post(port, ca, "/mutate-batch-v1-job", "{"), testing::StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(Post(port, ca, "/mutate-batch-v1-job", "{}"), testing::StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(Post(port, ca, "/elsewhere", review), testing::StartsWith("HTTP/1.1 404"));

  const std::string conversion =
      R"({"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"8",)"
      R"("desiredAPIVersion":"kueue.x-k8s.io/v1beta2","objects":[{"apiVersion":"kueue.x-k8s.io/v1beta1",)"
      R"("kind":"ClusterQueue","metadata":{"name":"c"},"spec":{"cohort":"all"}}]}})";
  EXPECT_THAT(Post(port, ca, "/convert", conversion), testing::HasSubstr("cohortName"));
  EXPECT_EQ(metrics.ValueForTest(Metric::kWebhookRequests, {"/convert", "true"}), 1);

  rules.own_user = "a";  // now the requester is us
  (*server)->SetRules(rules);
  EXPECT_THAT(Post(port, ca, "/mutate-batch-v1-job", review),
              testing::Not(testing::HasSubstr("patch")));
}

TEST(WebhookServerTest, CertificateDirectoryIsRead) {
  const std::string directory = testing::TempDir() + "webhook-certs";
  std::filesystem::create_directory(directory);
  EXPECT_THAT(LoadCertificateDirectory(directory).error().message, testing::HasSubstr("tls.crt"));
  std::ofstream(directory + "/tls.crt") << "c";
  std::ofstream(directory + "/tls.key") << "k";
  const auto material = LoadCertificateDirectory(directory);
  ASSERT_TRUE(material);
  EXPECT_EQ(material->certificate_pem, "c");
  EXPECT_EQ(material->key_pem, "k");
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace tutti
