// SPDX-License-Identifier: Apache-2.0
#include "operator/webhook_server.h"

#include <chrono>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string_view>
#include <vector>

#include "operator/conversion.h"

namespace tutti {
namespace {

Result<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file || text.str().empty()) {
    return Fail(ErrorCode::kNotFound, "cannot read " + path);
  }
  return text.str();
}

}  // namespace

struct WebhookServer::Shared {
  std::mutex mutex;
  std::shared_ptr<const webhooks::Rules> rules;
  Metrics* metrics = nullptr;

  std::shared_ptr<const webhooks::Rules> Rules() {
    const std::scoped_lock lock(mutex);
    return rules;
  }

  net::Response Serve(const net::Request& request) {
    const auto review = Json::Parse(request.body);
    if (!review) {
      return net::Response::Text(400, "the body is not JSON: " + review.error().message + "\n");
    }
    const bool converts = request.path == conversion::kPath;
    const auto answer =
        converts ? conversion::Answer(*review) : webhooks::Answer(request.path, *review, *Rules());
    if (!answer) {
      return net::Response::Text(answer.error().code == ErrorCode::kNotFound ? 404 : 400,
                                 answer.error().message + "\n");
    }
    if (metrics != nullptr) {
      const Json& response = (*answer)["response"];
      const bool allowed =
          converts ? response.Has("convertedObjects") : response["allowed"].AsBool();
      metrics->Add(Metric::kWebhookRequests, {request.path, allowed ? "true" : "false"});
    }
    return net::Response::JsonText(200, answer->Dump());
  }
};

WebhookServer::WebhookServer(std::shared_ptr<Shared> shared, std::unique_ptr<net::Server> server)
    : shared_(std::move(shared)), server_(std::move(server)) {}

WebhookServer::~WebhookServer() = default;

Result<std::unique_ptr<WebhookServer>> WebhookServer::Start(const Address& address,
                                                            TlsVersion minimum,
                                                            webhooks::Rules rules,
                                                            Metrics* metrics) {
  auto shared = std::make_shared<Shared>();
  shared->rules = std::make_shared<const webhooks::Rules>(std::move(rules));
  shared->metrics = metrics;
  net::Router router;
  std::vector<std::string_view> paths = webhooks::Paths();
  paths.push_back(conversion::kPath);
  for (const std::string_view path : paths) {
    router.Handle("POST", std::string(path),
                  [shared](const net::Request& request) { return shared->Serve(request); });
  }
  net::ServerOptions options;
  options.host = address.host;
  options.port = address.port;
  options.tls = true;
  options.tls_minimum = minimum == TlsVersion::k13 ? net::TlsMinimum::k13 : net::TlsMinimum::k12;
  auto server = net::Server::Start(options, std::move(router));
  if (!server) {
    return Fail(server.error().With("webhook.port"));
  }
  return std::unique_ptr<WebhookServer>(new WebhookServer(std::move(shared), std::move(*server)));
}

Status WebhookServer::SetCertificate(const net::TlsMaterial& material) {
  if (material.certificate_pem == present_.certificate_pem &&
      material.key_pem == present_.key_pem) {
    return {};
  }
  TRY(server_->SetCertificate(material));
  present_ = material;
  return {};
}

void WebhookServer::SetRules(webhooks::Rules rules) {
  const std::scoped_lock lock(shared_->mutex);
  shared_->rules = std::make_shared<const webhooks::Rules>(std::move(rules));
}

Result<net::TlsMaterial> LoadCertificateDirectory(const std::string& directory) {
  net::TlsMaterial material;
  TRY_ASSIGN(material.certificate_pem, ReadFile(directory + "/tls.crt"));
  TRY_ASSIGN(material.key_pem, ReadFile(directory + "/tls.key"));
  return material;
}

}  // namespace tutti
