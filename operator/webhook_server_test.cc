// SPDX-License-Identifier: Apache-2.0
#include "operator/webhook_server.h"

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "operator/base64.h"
#include "operator/webhook_certs.h"

namespace tutti {
namespace {

// POSTs over TLS, trusting only `ca_pem`; "" when the connection is refused.
std::string Post(uint16_t port, const std::string& ca_pem, const std::string& path,
                 const std::string& body) {
  std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes with write()
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  connect(fd, static_cast<sockaddr*>(static_cast<void*>(&address)), sizeof address);
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  BIO* bio = BIO_new_mem_buf(ca_pem.data(), static_cast<int>(ca_pem.size()));
  X509* ca = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
  X509_STORE_add_cert(SSL_CTX_get_cert_store(context), ca);
  X509_free(ca);
  BIO_free(bio);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  SSL* ssl = SSL_new(context);
  SSL_set_fd(ssl, fd);
  X509_VERIFY_PARAM_set1_host(SSL_get0_param(ssl), "hooks.ns.svc", 0);
  std::string answer;
  if (SSL_connect(ssl) == 1) {
    const std::string request =
        "POST " + path +
        " HTTP/1.1\r\nHost: hooks.ns.svc\r\nConnection: close\r\nContent-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body;
    SSL_write(ssl, request.data(), static_cast<int>(request.size()));
    char buffer[4096];
    int got = 0;
    while ((got = SSL_read(ssl, buffer, sizeof buffer)) > 0) {
      answer.append(buffer, static_cast<size_t>(got));
    }
  }
  SSL_free(ssl);
  SSL_CTX_free(context);
  close(fd);
  return answer;
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
