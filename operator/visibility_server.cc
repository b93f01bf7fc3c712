// SPDX-License-Identifier: Apache-2.0
#include "operator/visibility_server.h"

#include <mutex>
#include <utility>

namespace tutti {

struct VisibilityServer::Shared {
  std::mutex mutex;
  std::shared_ptr<const FrontProxy> proxy;
  visibility::Lookup lookup;
  Metrics* metrics = nullptr;

  net::Response Serve(const net::Request& request) {
    std::shared_ptr<const FrontProxy> present;
    {
      const std::scoped_lock lock(mutex);
      present = proxy;
    }
    net::Response response;
    if (const auto user = UserOf(*present, request); !user) {
      response = visibility::Failure(401, "Unauthorized", user.error().message);
    } else {
      response = visibility::Answer(request, lookup);
    }
    if (metrics != nullptr) {
      metrics->Add(Metric::kVisibilityRequests, {std::to_string(response.status)});
    }
    return response;
  }
};

VisibilityServer::VisibilityServer(std::shared_ptr<Shared> shared,
                                   std::unique_ptr<net::Server> server)
    : shared_(std::move(shared)), server_(std::move(server)) {}

VisibilityServer::~VisibilityServer() = default;

Result<std::unique_ptr<VisibilityServer>> VisibilityServer::Start(const Address& address,
                                                                  TlsVersion minimum,
                                                                  visibility::Lookup lookup,
                                                                  Metrics* metrics) {
  auto shared = std::make_shared<Shared>();
  shared->proxy = std::make_shared<const FrontProxy>();
  shared->lookup = std::move(lookup);
  shared->metrics = metrics;
  net::Router router;
  router.HandlePrefix("", "/",
                      [shared](const net::Request& request) { return shared->Serve(request); });
  net::ServerOptions options;
  options.host = address.host;
  options.port = address.port;
  options.threads = 2;  // a look-up waits for the loop
  options.tls = true;
  options.tls_minimum = minimum == TlsVersion::k13 ? net::TlsMinimum::k13 : net::TlsMinimum::k12;
  options.max_body = 64 * 1024;
  auto server = net::Server::Start(options, std::move(router));
  if (!server) {
    return Fail(server.error().With("visibilityServer.bindPort"));
  }
  return std::unique_ptr<VisibilityServer>(
      new VisibilityServer(std::move(shared), std::move(*server)));
}

Status VisibilityServer::Set(net::TlsMaterial material, FrontProxy proxy) {
  material.client_ca_pem = proxy.ca_pem;
  {
    const std::scoped_lock lock(shared_->mutex);
    shared_->proxy = std::make_shared<const FrontProxy>(std::move(proxy));
  }
  if (material.certificate_pem == present_.certificate_pem &&
      material.key_pem == present_.key_pem && material.client_ca_pem == present_.client_ca_pem) {
    return {};
  }
  TRY(server_->SetCertificate(material));
  present_ = std::move(material);
  return {};
}

}  // namespace tutti
