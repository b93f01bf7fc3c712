// SPDX-License-Identifier: Apache-2.0
#include "operator/front_proxy.h"

#include <algorithm>
#include <cctype>

namespace tutti {
namespace {

constexpr std::string_view kCa = "requestheader-client-ca-file";
constexpr std::string_view kNames = "requestheader-allowed-names";
constexpr std::string_view kUserHeaders = "requestheader-username-headers";

// A JSON list of texts inside of a text.
Result<std::vector<std::string>> Texts(const Json& data, std::string_view key) {
  std::vector<std::string> texts;
  const std::string& raw = data[key].AsString();
  if (raw.empty()) {
    return texts;
  }
  const auto list = Json::Parse(raw);
  if (!list || !list->IsArray()) {
    return Fail(ErrorCode::kInvalid, std::string(key) + ": must be a JSON list");
  }
  for (const Json& item : list->AsArray()) {
    texts.push_back(item.AsString());
  }
  return texts;
}

}  // namespace

const api::ObjectKey& FrontProxyConfigMap() {
  static const api::ObjectKey key{"kube-system", "extension-apiserver-authentication"};
  return key;
}

api::Resource ConfigMapResource() {
  return {"", "v1", "configmaps", "ConfigMap", true};
}

Result<FrontProxy> ParseFrontProxy(const Json& config_map) {
  const Json& data = config_map["data"];
  FrontProxy proxy;
  proxy.ca_pem = data[kCa].AsString();
  if (proxy.ca_pem.empty()) {
    return Fail(ErrorCode::kInvalid,
                std::string(kCa) +
                    ": is missing; the API server runs without --requestheader-"
                    "client-ca-file, so it can't pass on requests");
  }
  TRY_ASSIGN(proxy.allowed_names, Texts(data, kNames));
  TRY_ASSIGN(proxy.username_headers, Texts(data, kUserHeaders));
  for (std::string& header : proxy.username_headers) {
    std::transform(header.begin(), header.end(), header.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  }
  if (proxy.username_headers.empty()) {
    return Fail(ErrorCode::kInvalid, std::string(kUserHeaders) + ": is missing");
  }
  return proxy;
}

Result<std::string> UserOf(const FrontProxy& proxy, const net::Request& request) {
  if (request.client_name.empty()) {
    return Fail(ErrorCode::kForbidden,
                "only the API server's aggregation layer is served: ask the API server");
  }
  const auto& names = proxy.allowed_names;
  if (!names.empty() && std::find(names.begin(), names.end(), request.client_name) == names.end()) {
    return Fail(ErrorCode::kForbidden, "the client certificate is of \"" + request.client_name +
                                           "\", which is not in requestheader-allowed-names");
  }
  for (const std::string& header : proxy.username_headers) {
    if (const std::string_view user = request.Header(header); !user.empty()) {
      return std::string(user);
    }
  }
  return Fail(ErrorCode::kForbidden, "the request names no user");
}

}  // namespace tutti
