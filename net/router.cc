// SPDX-License-Identifier: Apache-2.0
#include "net/server.h"

namespace tutti::net {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  if (c >= 'a' && c <= 'f') {
    return c - 'a' + 10;
  }
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

std::string Decode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+') {
      out += ' ';
    } else if (text[i] == '%' && i + 2 < text.size() && HexDigit(text[i + 1]) >= 0 &&
               HexDigit(text[i + 2]) >= 0) {
      out += static_cast<char>(HexDigit(text[i + 1]) * 16 + HexDigit(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

std::string_view Request::Header(std::string_view lower_case_name) const {
  const auto found = headers.find(std::string(lower_case_name));
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

std::string Request::QueryParameter(std::string_view name) const {
  std::string_view rest = query;
  while (!rest.empty()) {
    const size_t end = rest.find('&');
    const std::string_view item = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    const size_t equals = item.find('=');
    if (Decode(item.substr(0, equals)) == name) {
      return equals == std::string_view::npos ? "" : Decode(item.substr(equals + 1));
    }
  }
  return "";
}

Response Response::Text(int status, std::string text) {
  Response response;
  response.status = status;
  response.body = std::move(text);
  return response;
}

Response Response::JsonText(int status, std::string json) {
  Response response;
  response.status = status;
  response.content_type = "application/json";
  response.body = std::move(json);
  return response;
}

void Router::Handle(std::string method, std::string path, Handler handler) {
  routes_.push_back({std::move(method), std::move(path), false, std::move(handler)});
}

void Router::HandlePrefix(std::string method, std::string prefix, Handler handler) {
  routes_.push_back({std::move(method), std::move(prefix), true, std::move(handler)});
}

Response Router::Serve(const Request& request) const {
  const Route* best = nullptr;
  bool known_path = false;
  for (const Route& route : routes_) {
    const bool matches =
        route.prefix ? request.path.rfind(route.path, 0) == 0 : request.path == route.path;
    if (!matches) {
      continue;
    }
    known_path = true;
    // HEAD is GET without the body (which the server leaves out).
    const bool method = route.method.empty() || route.method == request.method ||
                        (route.method == "GET" && request.method == "HEAD");
    if (!method) {
      continue;
    }
    const bool better = best == nullptr || (best->prefix && !route.prefix) ||
                        (best->prefix && route.prefix && route.path.size() > best->path.size());
    if (better) {
      best = &route;
    }
  }
  if (best == nullptr) {
    return known_path ? Response::Text(405, "method not allowed\n")
                      : Response::Text(404, "not found\n");
  }
  return best->handler(request);
}

}  // namespace tutti::net
