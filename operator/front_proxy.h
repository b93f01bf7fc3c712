// SPDX-License-Identifier: Apache-2.0
// Who may speak for users: the API server's aggregation layer. It proves itself by a client
// certificate of the request-header CA and says in headers for whom it asks; it has authorized the
// request before it passes it on. Configured by the ConfigMap extension-apiserver-authentication in
// kube-system, as for every aggregated API server. Pure.
#pragma once

#include <string>
#include <vector>

#include "api/meta.h"
#include "base/json.h"
#include "base/result.h"
#include "net/server.h"

namespace tutti {

struct FrontProxy {
  std::string ca_pem;
  std::vector<std::string> allowed_names;     // common names; empty = every one
  std::vector<std::string> username_headers;  // in lower case; the first one that is set counts
};

[[nodiscard]] const api::ObjectKey& FrontProxyConfigMap();
[[nodiscard]] api::Resource ConfigMapResource();

// kInvalid names the missing or malformed key. An API server without an aggregation layer has none
// of them.
Result<FrontProxy> ParseFrontProxy(const Json& config_map);

// The user for whom the request is made. kForbidden: it doesn't come through the API server.
// REQUIRES: `request` came over TLS whose client CA is proxy.ca_pem.
Result<std::string> UserOf(const FrontProxy& proxy, const net::Request& request);

}  // namespace tutti
