// SPDX-License-Identifier: Apache-2.0
#include "operator/health.h"

namespace tutti {
namespace {

net::Handler CheckHandler(std::function<std::string()> check,
                          std::function<std::string()> detail = {}) {
  return [check = std::move(check), detail = std::move(detail)](const net::Request&) {
    if (const std::string problem = check ? check() : ""; !problem.empty()) {
      return net::Response::Text(503, problem + "\n");
    }
    const std::string more = detail ? detail() : "";
    return net::Response::Text(200, more.empty() ? "ok" : "ok\n" + more + "\n");
  };
}

// Probes and scrapes only: nobody sends bodies, and few connect.
net::ServerOptions SmallServer(const Address& address) {
  net::ServerOptions options;
  options.host = address.host;
  options.port = address.port;
  options.max_body = 64 * 1024;
  options.max_connections = 128;
  return options;
}

}  // namespace

net::Handler MetricsHandler(Metrics* metrics, std::function<void()> refresh) {
  return [metrics, refresh = std::move(refresh)](const net::Request&) {
    if (refresh) {
      refresh();
    }
    net::Response response = net::Response::Text(200, metrics->Render());
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    return response;
  };
}

Result<std::unique_ptr<HealthServer>> HealthServer::Start(const Address& address,
                                                          const Config::Health& names,
                                                          Metrics* metrics, HealthChecks checks,
                                                          std::function<void()> refresh) {
  net::Router router;
  router.Handle("GET", "/" + names.liveness_name, CheckHandler(std::move(checks.alive)));
  router.Handle("GET", "/" + names.readiness_name,
                CheckHandler(std::move(checks.ready), std::move(checks.detail)));
  router.Handle("GET", "/metrics", MetricsHandler(metrics, std::move(refresh)));
  auto server = net::Server::Start(SmallServer(address), std::move(router));
  if (!server) {
    return Fail(server.error().With("health.healthProbeBindAddress"));
  }
  return std::unique_ptr<HealthServer>(new HealthServer(std::move(*server)));
}

Result<std::unique_ptr<net::Server>> StartMetricsServer(const Address& address, Metrics* metrics) {
  net::Router router;
  router.Handle("GET", "/metrics", MetricsHandler(metrics, {}));
  auto server = net::Server::Start(SmallServer(address), std::move(router));
  if (!server) {
    return Fail(server.error().With("metrics.bindAddress"));
  }
  return server;
}

}  // namespace tutti
