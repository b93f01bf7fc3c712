// SPDX-License-Identifier: Apache-2.0
// An HTTP/1.1 server, plain or TLS, with hard limits: size of header and body, time for the
// handshake, the header, the body, the answer and idle connections, number of connections. Handlers
// run on the server's own threads, so they must be quick and thread-safe. Boost.Beast stays inside
// server.cc.
//
// A handler may answer with a stream: the header is sent at once and chunks follow whenever the
// Stream handle is given some, from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tutti::net {

struct Request {
  std::string method;
  std::string path;                            // decoded by nobody: as sent, without the query
  std::string query;                           // without "?"
  std::map<std::string, std::string> headers;  // names in lower case; the last value wins
  std::string body;
  std::string peer;  // address of the client
  // Common name of the client's certificate; "" when none was given. Only of certificates that
  // TlsMaterial::client_ca_pem vouches for: with another one there is no connection.
  std::string client_name;

  [[nodiscard]] std::string_view Header(std::string_view lower_case_name) const;
  // The first value of a query parameter, percent-decoded; "" when absent.
  [[nodiscard]] std::string QueryParameter(std::string_view name) const;
};

// A response that goes on. Thread-safe; the last handle gone ends the response.
class Stream {
 public:
  virtual ~Stream() = default;
  // False: the client is gone, or reads so slowly that too much is waiting (it is cut off).
  virtual bool Send(std::string chunk) = 0;
  [[nodiscard]] virtual bool Closed() const = 0;
};

struct Response {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  // Set: `body` is the first chunk and the handle is passed here.
  std::function<void(std::shared_ptr<Stream>)> stream;

  static Response Text(int status, std::string text);
  static Response JsonText(int status, std::string json);
};

using Handler = std::function<Response(const Request&)>;

// Exact paths first, then the longest prefix. A known path with another method: 405.
class Router {
 public:
  // `method` "" = every method.
  void Handle(std::string method, std::string path, Handler handler);
  void HandlePrefix(std::string method, std::string prefix, Handler handler);
  [[nodiscard]] Response Serve(const Request& request) const;

 private:
  struct Route {
    std::string method;
    std::string path;
    bool prefix = false;
    Handler handler;
  };
  std::vector<Route> routes_;
};

struct TlsMaterial {
  std::string certificate_pem;  // the leaf first, then the chain
  std::string key_pem;
  // CAs of the clients' certificates; "" = clients are not asked for one.
  std::string client_ca_pem = {};
};

enum class TlsMinimum { k12, k13 };

struct ServerOptions {
  std::string host;   // "" = every address (IPv6 and IPv4)
  uint16_t port = 0;  // 0 = any free one, see Server::port()
  int threads = 1;
  bool tls = false;
  TlsMaterial certificate;  // may be empty with tls: handshakes fail until SetCertificate
  TlsMinimum tls_minimum = TlsMinimum::k12;

  size_t max_header = 32 * 1024;
  size_t max_body = 8 * 1024 * 1024;
  size_t max_stream_backlog = 4 * 1024 * 1024;
  int max_connections = 1024;
  std::chrono::milliseconds handshake_timeout{10'000};
  std::chrono::milliseconds header_timeout{10'000};  // from the first byte
  std::chrono::milliseconds body_timeout{30'000};
  std::chrono::milliseconds write_timeout{30'000};
  std::chrono::milliseconds idle_timeout{120'000};
};

struct ServerStats {
  uint64_t accepted = 0;
  uint64_t refused = 0;  // over max_connections
  uint64_t handshake_errors = 0;
  uint64_t requests = 0;
  uint64_t bad_requests = 0;  // cut off by a limit or malformed
  int open = 0;
};

class Server {
 public:
  // Listens before it returns. kUnavailable names the address that can't be bound.
  static Result<std::unique_ptr<Server>> Start(const ServerOptions& options, Router router);
  virtual ~Server() = default;  // Stop with no grace

  [[nodiscard]] virtual uint16_t port() const = 0;
  // For connections from now on; those that exist go on with theirs. kInvalid when the two don't
  // belong together or can't be read; the present one stays then.
  virtual Status SetCertificate(const TlsMaterial& material) = 0;
  // No new connections; idle ones are closed, requests in progress may end within `grace`.
  virtual void Stop(std::chrono::milliseconds grace) = 0;
  [[nodiscard]] virtual ServerStats stats() const = 0;
};

}  // namespace tutti::net
