// SPDX-License-Identifier: Apache-2.0
#include "operator/visibility_server.h"

#include <chrono>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/certs.h"
#include "operator/testing_tls.h"

namespace tutti {
namespace {

using std::chrono::hours;

net::KeyPair Ca(const std::string& name) {
  const Time now = std::chrono::floor<Duration>(std::chrono::system_clock::now());
  net::CertificateSpec spec;
  spec.common_name = name;
  spec.not_before = now - hours(1);
  spec.not_after = now + hours(1);
  return net::MakeCa(spec).value();
}

net::KeyPair Leaf(const net::KeyPair& ca, const std::string& name, net::LeafUse use) {
  const Time now = std::chrono::floor<Duration>(std::chrono::system_clock::now());
  net::CertificateSpec spec;
  spec.common_name = name;
  spec.dns_names = {name};
  spec.use = use;
  spec.not_before = now - hours(1);
  spec.not_after = now + hours(1);
  return net::MakeLeaf(ca, spec).value();
}

std::string Get(uint16_t port, const net::KeyPair& client, const std::string& headers) {
  return testing_tls::Exchange(
      port, "GET /apis HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + headers + "\r\n",
      {.certificate = client});
}

TEST(VisibilityServerTest, OnlyTheFrontProxyIsAnswered) {
  const net::KeyPair front_proxy_ca = Ca("front-proxy-ca");
  const net::KeyPair other_ca = Ca("other-ca");
  const net::KeyPair server_ca = Ca("server-ca");
  const net::KeyPair leaf = Leaf(server_ca, "server", net::LeafUse::kServer);
  Metrics metrics;
  auto server = VisibilityServer::Start(
      {"127.0.0.1", 0}, TlsVersion::k12, [](const api::ObjectKey&) { return std::nullopt; },
      &metrics);
  ASSERT_TRUE(server) << server.error().message;
  const uint16_t port = (*server)->port();
  const std::string user = "X-Remote-User: alice\r\n";
  const auto client = [](const net::KeyPair& ca, const std::string& name) {
    return Leaf(ca, name, net::LeafUse::kClient);
  };
  EXPECT_EQ(Get(port, {}, user), "");  // no certificate yet
  const FrontProxy proxy{front_proxy_ca.certificate_pem, {"front-proxy-client"}, {"x-remote-user"}};
  ASSERT_TRUE((*server)->Set({leaf.certificate_pem, leaf.key_pem, ""}, proxy));

  EXPECT_THAT(Get(port, client(front_proxy_ca, "front-proxy-client"), user),
              testing::StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Get(port, {}, user), testing::StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(Get(port, client(front_proxy_ca, "mallory"), user),
              testing::StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(Get(port, client(front_proxy_ca, "front-proxy-client"), ""),
              testing::StartsWith("HTTP/1.1 401"));
  EXPECT_EQ(Get(port, client(other_ca, "front-proxy-client"), user), "");
  // A server's certificate of the same CA is no client's.
  EXPECT_EQ(Get(port, Leaf(front_proxy_ca, "front-proxy-client", net::LeafUse::kServer), user), "");
  EXPECT_EQ(metrics.ValueForTest(Metric::kVisibilityRequests, {"200"}), 1);
  EXPECT_EQ(metrics.ValueForTest(Metric::kVisibilityRequests, {"401"}), 3);
  EXPECT_EQ((*server)->Set({leaf.certificate_pem, "no key", ""}, proxy).error().code,
            ErrorCode::kInvalid);
}

}  // namespace
}  // namespace tutti
