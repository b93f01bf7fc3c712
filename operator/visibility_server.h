// SPDX-License-Identifier: Apache-2.0
// The HTTPS server of the visibility API: visibility.h behind net/, for requests that the API
// server's aggregation layer passes on (front_proxy.h) and for nobody else. The loop thread hands
// in certificates; requests are answered on the server's threads.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "net/server.h"
#include "operator/config.h"
#include "operator/front_proxy.h"
#include "operator/metrics.h"
#include "operator/visibility.h"

namespace tutti {

class VisibilityServer {
 public:
  // Listens at once; without a certificate, handshakes fail until Set. `metrics` may be null.
  static Result<std::unique_ptr<VisibilityServer>> Start(const Address& address, TlsVersion minimum,
                                                         visibility::Lookup lookup,
                                                         Metrics* metrics);
  ~VisibilityServer();

  [[nodiscard]] uint16_t port() const { return server_->port(); }
  // Does nothing when both are the present ones.
  Status Set(net::TlsMaterial material, FrontProxy proxy);
  void Stop() { server_->Stop(std::chrono::milliseconds(5000)); }

 private:
  struct Shared;
  VisibilityServer(std::shared_ptr<Shared> shared, std::unique_ptr<net::Server> server);
  std::shared_ptr<Shared> shared_;
  std::unique_ptr<net::Server> server_;
  net::TlsMaterial present_;
};

}  // namespace tutti
