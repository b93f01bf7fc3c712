// SPDX-License-Identifier: Apache-2.0
#include "operator/metrics_server.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/certs.h"
#include "operator/testing_tls.h"

namespace tutti {
namespace {

// An API server that knows the tokens "reader", "stranger" and "broken".
struct Reviews {
  int tokens = 0;
  std::string asked;  // the last SubjectAccessReview

  Result<Json> Create(const api::Resource& resource, const Json& body) {
    EXPECT_EQ(body["kind"].AsString(), resource.kind);
    if (resource.plural == "tokenreviews") {
      ++tokens;
      const std::string& token = body["spec"]["token"].AsString();
      if (token == "broken") {
        return Fail(ErrorCode::kUnavailable, "no connection");
      }
      const bool known = token == "reader" || token == "stranger";
      const Json user = Json::Obj({{"username", token}, {"groups", Json::Arr({"g"})}});
      return Json::Obj({{"status", Json::Obj({{"authenticated", known},
                                              {"user", known ? user : Json::Obj()}})}});
    }
    asked = body["spec"].Dump();
    return Json::Obj(
        {{"status", Json::Obj({{"allowed", body["spec"]["user"].AsString() == "reader"}})}});
  }
};

TEST(MetricsServerTest, TheApiServerSaysWhoMayRead) {
  Reviews reviews;
  const CreateReview create = [&reviews](const api::Resource& resource, const Json& body) {
    return reviews.Create(resource, body);
  };
  EXPECT_EQ(ReviewScraper(create, "reader").value(), ScrapeAccess::kAllowed);
  EXPECT_EQ(
      reviews.asked,
      R"({"user":"reader","nonResourceAttributes":{"path":"/metrics","verb":"get"},"groups":["g"]})");
  EXPECT_EQ(ReviewScraper(create, "stranger").value(), ScrapeAccess::kForbidden);
  EXPECT_EQ(ReviewScraper(create, "nobody").value(), ScrapeAccess::kUnauthenticated);
  EXPECT_FALSE(ReviewScraper(create, "broken"));
}

TEST(MetricsServerTest, PageIsServedOverTlsToReadersOnly) {
  Reviews reviews;
  Metrics metrics;
  metrics.Set(Metric::kLeader, {}, 1);
  const Time now = std::chrono::floor<Duration>(std::chrono::system_clock::now());
  const auto certificate = MetricsCertificate("", now);
  ASSERT_TRUE(certificate) << certificate.error().message;
  auto server = MetricsServer::Start({"127.0.0.1", 0}, TlsVersion::k12, *certificate, &metrics,
                                     [&reviews](const api::Resource& resource, const Json& body) {
                                       return reviews.Create(resource, body);
                                     });
  ASSERT_TRUE(server) << server.error().message;
  const auto get = [&server](const std::string& headers, const std::string& path = "/metrics") {
    return testing_tls::Exchange(
        (*server)->port(),
        "GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + headers + "\r\n", {});
  };
  EXPECT_THAT(get(""), testing::StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(get("Authorization: Basic x\r\n"), testing::StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(get("Authorization: Bearer nobody\r\n"), testing::StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(get("Authorization: Bearer stranger\r\n"), testing::StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(get("Authorization: Bearer broken\r\n"), testing::StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(
      get("Authorization: Bearer reader\r\n"),
      testing::AllOf(testing::StartsWith("HTTP/1.1 200"), testing::HasSubstr("tutti_leader 1")));
  EXPECT_THAT(get("Authorization: Bearer reader\r\n", "/other"),
              testing::StartsWith("HTTP/1.1 404"));
  const int before = reviews.tokens;
  EXPECT_THAT(get("Authorization: Bearer reader\r\n"), testing::StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(reviews.tokens, before);  // remembered
  EXPECT_THAT(get("Authorization: Bearer broken\r\n"), testing::StartsWith("HTTP/1.1 503"));
  EXPECT_EQ(reviews.tokens, before + 1);  // a failure is not
}

TEST(MetricsServerTest, CertificateOfADirectoryIsUsed) {
  const std::string directory = testing::TempDir() + "metrics-certs";
  std::filesystem::create_directory(directory);
  EXPECT_THAT(MetricsCertificate(directory, kNoTime).error().message,
              testing::HasSubstr(directory + "/tls.crt"));
  std::ofstream(directory + "/tls.crt") << "c";
  std::ofstream(directory + "/tls.key") << "k";
  EXPECT_EQ(MetricsCertificate(directory, kNoTime).value().key_pem, "k");
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace tutti
