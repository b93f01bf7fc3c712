// SPDX-License-Identifier: Apache-2.0
// /metrics over HTTPS for those who may read it, as in Kueue: the bearer token is reviewed by the
// API server (TokenReview), and its user needs `get` on the non-resource URL /metrics
// (SubjectAccessReview). The chart's ClusterRole tutti-metrics-reader gives that right.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "api/meta.h"
#include "base/json.h"
#include "base/result.h"
#include "base/time.h"
#include "net/server.h"
#include "operator/config.h"
#include "operator/metrics.h"

namespace tutti {

// Creates an object of the API server and returns its answer; blocks. From any thread.
using CreateReview = std::function<Result<Json>(const api::Resource& resource, Json body)>;

enum class ScrapeAccess { kAllowed, kUnauthenticated, kForbidden };

// Whether the holder of the token may GET /metrics. An error: the API server gave no answer.
Result<ScrapeAccess> ReviewScraper(const CreateReview& create, const std::string& token);

// Certificate and key for the metrics server: tls.crt and tls.key of `directory`, or, when that is
// "", ones made here for this process, which scrapers can't verify.
Result<net::TlsMaterial> MetricsCertificate(const std::string& directory, Time now);

class MetricsServer {
 public:
  // How long a decision about a token holds; a refusal not so long, for a right that was just
  // given.
  static constexpr std::chrono::seconds kRememberAllowed{60};
  static constexpr std::chrono::seconds kRememberRefused{5};

  // Listens at once. `metrics` must outlive it.
  static Result<std::unique_ptr<MetricsServer>> Start(const Address& address, TlsVersion minimum,
                                                      const net::TlsMaterial& certificate,
                                                      Metrics* metrics, CreateReview create);
  ~MetricsServer();

  [[nodiscard]] uint16_t port() const { return server_->port(); }
  // For connections from now on; does nothing when it is the present one, which stays when this one
  // is unusable.
  Status SetCertificate(const net::TlsMaterial& material);

 private:
  struct Shared;
  MetricsServer(std::shared_ptr<Shared> shared, std::unique_ptr<net::Server> server);
  std::shared_ptr<Shared> shared_;
  std::unique_ptr<net::Server> server_;
  net::TlsMaterial present_;
};

}  // namespace tutti
