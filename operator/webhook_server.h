// SPDX-License-Identifier: Apache-2.0
// The HTTPS server of the admission webhooks and of the conversion between versions: webhooks.h and
// conversion.h behind net/. The loop thread hands in rules and certificates; requests are answered
// on the server's threads.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "net/server.h"
#include "operator/config.h"
#include "operator/metrics.h"
#include "operator/webhooks.h"

namespace tutti {

class WebhookServer {
 public:
  // Listens at once; without a certificate, handshakes fail until SetCertificate. `metrics` may be
  // null.
  static Result<std::unique_ptr<WebhookServer>> Start(const Address& address, TlsVersion minimum,
                                                      webhooks::Rules rules, Metrics* metrics);
  ~WebhookServer();

  [[nodiscard]] uint16_t port() const { return server_->port(); }
  // Does nothing when it is the present one.
  Status SetCertificate(const net::TlsMaterial& material);
  [[nodiscard]] bool HasCertificate() const { return !present_.key_pem.empty(); }
  void SetRules(webhooks::Rules rules);
  void Stop() { server_->Stop(std::chrono::milliseconds(5000)); }

 private:
  struct Shared;
  WebhookServer(std::shared_ptr<Shared> shared, std::unique_ptr<net::Server> server);
  std::shared_ptr<Shared> shared_;
  std::unique_ptr<net::Server> server_;
  net::TlsMaterial present_;
};

// tls.crt and tls.key of a directory (a mounted Secret, as cert-manager makes it), for
// internalCertManagement.enable: false.
Result<net::TlsMaterial> LoadCertificateDirectory(const std::string& directory);

}  // namespace tutti
