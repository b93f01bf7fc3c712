// SPDX-License-Identifier: Apache-2.0
// Certificates and key of a kubeconfig, parsed once for all connections of a transport.
#pragma once

#include <memory>

#include "base/result.h"
#include "kube/kubeconfig.h"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace tutti::kube {

class ClientTls {
 public:
  // kInvalid names the field that can't be used.
  static Result<std::shared_ptr<const ClientTls>> Make(const ClusterAccess& access);
  ~ClientTls();
  ClientTls(const ClientTls&) = delete;
  ClientTls& operator=(const ClientTls&) = delete;

  // Roots, own certificate, least version. Whether the server is verified is left to the caller.
  void Apply(ssl_ctx_st* context) const;

 private:
  struct Material;
  explicit ClientTls(std::unique_ptr<Material> material);
  std::unique_ptr<Material> material_;
};

}  // namespace tutti::kube
