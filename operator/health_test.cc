// SPDX-License-Identifier: Apache-2.0
#include "operator/health.h"

#include <atomic>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace tutti {
namespace {

std::string Get(uint16_t port, const std::string& path) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (connect(fd, static_cast<sockaddr*>(static_cast<void*>(&address)), sizeof address) == 0) {
    const std::string request = "GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    send(fd, request.data(), request.size(), MSG_NOSIGNAL);
    char buffer[4096];
    ssize_t got = 0;
    while ((got = recv(fd, buffer, sizeof buffer, 0)) > 0) {
      answer.append(buffer, static_cast<size_t>(got));
    }
  }
  close(fd);
  return answer;
}

TEST(HealthTest, ReadinessSaysWhatIsMissingAndMetricsAreServed) {
  Metrics metrics;
  std::atomic<bool> synced{false};
  HealthChecks checks;
  checks.detail = [] { return std::string("native gangs hold"); };
  checks.ready = [&synced] { return synced ? "" : "waiting for the caches"; };
  std::atomic<int> refreshed{0};
  auto server = HealthServer::Start({"127.0.0.1", 0}, {}, &metrics, checks, [&] { ++refreshed; });
  ASSERT_TRUE(server) << server.error().message;
  const uint16_t port = (*server)->port();
  EXPECT_THAT(Get(port, "/healthz"),
              testing::AllOf(testing::StartsWith("HTTP/1.1 200"), testing::EndsWith("ok")));
  EXPECT_THAT(Get(port, "/readyz"), testing::AllOf(testing::StartsWith("HTTP/1.1 503"),
                                                   testing::HasSubstr("waiting for the caches")));
  synced = true;
  EXPECT_THAT(Get(port, "/readyz"), testing::AllOf(testing::StartsWith("HTTP/1.1 200"),
                                                   testing::EndsWith("ok\nnative gangs hold\n")));
  metrics.Set(Metric::kLeader, 1);
  EXPECT_THAT(Get(port, "/metrics"), testing::AllOf(testing::HasSubstr("text/plain; version=0.0.4"),
                                                    testing::HasSubstr("tutti_leader 1\n")));
  EXPECT_EQ(refreshed, 1);
}

TEST(HealthTest, NamesOfTheEndpointsAreConfigurable) {
  Metrics metrics;
  Config::Health names;
  names.readiness_name = "ready";
  auto server = HealthServer::Start({"127.0.0.1", 0}, names, &metrics, {});
  ASSERT_TRUE(server);
  EXPECT_THAT(Get((*server)->port(), "/ready"), testing::StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Get((*server)->port(), "/readyz"), testing::StartsWith("HTTP/1.1 404"));
}

TEST(HealthTest, TakenAddressNamesTheField) {
  Metrics metrics;
  auto first = HealthServer::Start({"127.0.0.1", 0}, {}, &metrics, {});
  ASSERT_TRUE(first);
  auto second = HealthServer::Start({"127.0.0.1", (*first)->port()}, {}, &metrics, {});
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, testing::HasSubstr("health.healthProbeBindAddress"));
}

}  // namespace
}  // namespace tutti
