// SPDX-License-Identifier: Apache-2.0
// The health listener: plain HTTP with liveness, readiness and /metrics, for probes and scrapers on
// the pod network. Handlers run on the server's thread; what they ask must be thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "net/server.h"
#include "operator/config.h"
#include "operator/metrics.h"

namespace tutti {

struct HealthChecks {
  // "" = yes, otherwise what is missing (shown to the caller).
  std::function<std::string()> ready;
  std::function<std::string()> alive;
  // Shown on a second line while ready; "" = nothing.
  std::function<std::string()> detail;
};

class HealthServer {
 public:
  // `metrics` must outlive the server. A refresh, if given, runs before the page is made.
  static Result<std::unique_ptr<HealthServer>> Start(const Address& address,
                                                     const Config::Health& names, Metrics* metrics,
                                                     HealthChecks checks,
                                                     std::function<void()> refresh = {});
  [[nodiscard]] uint16_t port() const { return server_->port(); }
  void Stop() { server_->Stop(std::chrono::milliseconds(1000)); }

 private:
  explicit HealthServer(std::unique_ptr<net::Server> server) : server_(std::move(server)) {}
  std::unique_ptr<net::Server> server_;
};

// GET /metrics alone, plain, on metrics.bindAddress (metricsPlain: true).
Result<std::unique_ptr<net::Server>> StartMetricsServer(const Address& address, Metrics* metrics);

// GET /metrics for any server of ours.
net::Handler MetricsHandler(Metrics* metrics, std::function<void()> refresh);

}  // namespace tutti
