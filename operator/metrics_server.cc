// SPDX-License-Identifier: Apache-2.0
#include "operator/metrics_server.h"

#include <chrono>
#include <map>
#include <mutex>
#include <utility>

#include "net/certs.h"
#include "operator/health.h"
#include "operator/webhook_server.h"

namespace tutti {
namespace {

using std::chrono::hours;
using Clock = std::chrono::steady_clock;

constexpr size_t kMaxRemembered = 256;
constexpr std::string_view kBearer = "Bearer ";

api::Resource TokenReviews() {
  return {"authentication.k8s.io", "v1", "tokenreviews", "TokenReview", false};
}

api::Resource SubjectAccessReviews() {
  return {"authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", false};
}

Json ReviewOf(const api::Resource& resource, Json spec) {
  return Json::Obj({{"apiVersion", resource.ApiVersion()},
                    {"kind", resource.kind},
                    {"metadata", Json::Obj()},
                    {"spec", std::move(spec)}});
}

}  // namespace

Result<ScrapeAccess> ReviewScraper(const CreateReview& create, const std::string& token) {
  TRY_ASSIGN(const Json who,
             create(TokenReviews(), ReviewOf(TokenReviews(), Json::Obj({{"token", token}}))));
  const Json& status = who["status"];
  const Json& user = status["user"];
  if (!status["authenticated"].AsBool() || user["username"].AsString().empty()) {
    return ScrapeAccess::kUnauthenticated;
  }
  Json spec =
      Json::Obj({{"user", user["username"]},
                 {"nonResourceAttributes", Json::Obj({{"path", "/metrics"}, {"verb", "get"}})}});
  for (const auto& [from, to] :
       {std::pair("groups", "groups"), std::pair("uid", "uid"), std::pair("extra", "extra")}) {
    if (!user[from].IsNull()) {
      spec.Set(to, user[from]);
    }
  }
  TRY_ASSIGN(const Json may,
             create(SubjectAccessReviews(), ReviewOf(SubjectAccessReviews(), std::move(spec))));
  return may["status"]["allowed"].AsBool() ? ScrapeAccess::kAllowed : ScrapeAccess::kForbidden;
}

Result<net::TlsMaterial> MetricsCertificate(const std::string& directory, Time now) {
  if (!directory.empty()) {
    return LoadCertificateDirectory(directory);
  }
  net::CertificateSpec spec;
  spec.common_name = "tutti-metrics";
  spec.dns_names = {"tutti-metrics-service"};
  spec.not_before = now - hours(1);
  spec.not_after = now + hours(24 * 365 * 5);  // longer than any process lives
  TRY_ASSIGN(const net::KeyPair ca, net::MakeCa(spec));
  TRY_ASSIGN(const net::KeyPair leaf, net::MakeLeaf(ca, spec));
  return net::TlsMaterial{leaf.certificate_pem + ca.certificate_pem, leaf.key_pem};
}

struct MetricsServer::Shared {
  CreateReview create;
  net::Handler page;
  std::mutex mutex;
  // Decisions by token, and until when. Only answers are remembered, not failures to get one.
  std::map<std::string, std::pair<ScrapeAccess, Clock::time_point>, std::less<>> remembered;

  Result<ScrapeAccess> Check(const std::string& token) {
    const Clock::time_point now = Clock::now();
    {
      const std::scoped_lock lock(mutex);
      const auto found = remembered.find(token);
      if (found != remembered.end() && now < found->second.second) {
        return found->second.first;
      }
    }
    TRY_ASSIGN(const ScrapeAccess access, ReviewScraper(create, token));
    const std::scoped_lock lock(mutex);
    if (remembered.size() >= kMaxRemembered) {
      remembered.clear();
    }
    remembered[token] = {
        access, now + (access == ScrapeAccess::kAllowed ? kRememberAllowed : kRememberRefused)};
    return access;
  }

  net::Response Serve(const net::Request& request) {
    const std::string_view header = request.Header("authorization");
    if (header.substr(0, kBearer.size()) != kBearer || header.size() == kBearer.size()) {
      return net::Response::Text(401, "a bearer token is needed\n");
    }
    const auto access = Check(std::string(header.substr(kBearer.size())));
    if (!access) {
      return net::Response::Text(503,
                                 "the token can't be checked: " + access.error().message + "\n");
    }
    switch (*access) {
      case ScrapeAccess::kUnauthenticated:
        return net::Response::Text(401, "the token is not valid\n");
      case ScrapeAccess::kForbidden:
        return net::Response::Text(403, "needs the right to get the non-resource URL /metrics\n");
      case ScrapeAccess::kAllowed:
        break;
    }
    return page(request);
  }
};

MetricsServer::MetricsServer(std::shared_ptr<Shared> shared, std::unique_ptr<net::Server> server)
    : shared_(std::move(shared)), server_(std::move(server)) {}

MetricsServer::~MetricsServer() = default;

Status MetricsServer::SetCertificate(const net::TlsMaterial& material) {
  if (material.certificate_pem == present_.certificate_pem &&
      material.key_pem == present_.key_pem) {
    return {};
  }
  TRY(server_->SetCertificate(material));
  present_ = material;
  return {};
}

Result<std::unique_ptr<MetricsServer>> MetricsServer::Start(const Address& address,
                                                            TlsVersion minimum,
                                                            const net::TlsMaterial& certificate,
                                                            Metrics* metrics, CreateReview create) {
  auto shared = std::make_shared<Shared>();
  shared->create = std::move(create);
  shared->page = MetricsHandler(metrics, {});
  net::Router router;
  router.Handle("GET", "/metrics",
                [shared](const net::Request& request) { return shared->Serve(request); });
  net::ServerOptions options;
  options.host = address.host;
  options.port = address.port;
  options.threads = 2;  // a review waits for the API server
  options.tls = true;
  options.tls_minimum = minimum == TlsVersion::k13 ? net::TlsMinimum::k13 : net::TlsMinimum::k12;
  options.certificate = certificate;
  options.max_body = 64 * 1024;
  options.max_connections = 128;
  auto server = net::Server::Start(options, std::move(router));
  if (!server) {
    return Fail(server.error().With("metrics.bindAddress"));
  }
  return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(shared), std::move(*server)));
}

}  // namespace tutti
