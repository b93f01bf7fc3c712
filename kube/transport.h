// SPDX-License-Identifier: Apache-2.0
// HTTP to one API server as four calls, so that the library below can be replaced. Callbacks arrive
// on I/O threads, exactly once per request (also after Cancel and Close, as kCancelled), never from
// inside the call that started the request, and must not block. There are two implementations, one
// on Boost.Beast and one on cpprestsdk (docs/decisions/011-http-client.md); fake_transport.h puts
// an in-memory server behind the same interface.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kube/kubeconfig.h"

namespace tutti::kube {

struct HttpRequest {
  std::string method = "GET";
  std::string target;        // path and query, percent-encoded: /api/v1/pods?limit=500
  std::string content_type;  // of the body
  std::string body;
  // Send: from the call to the complete answer, waiting for a free connection included.
  // OpenStream: the longest silence (a dead connection is noticed after it).
  std::chrono::milliseconds timeout{30'000};
};

struct HttpResponse {
  int status = 0;
  std::string body;
  std::optional<std::chrono::milliseconds> retry_after;  // the header, when it holds seconds
};

using RequestId = uint64_t;

struct StreamCallbacks {
  // Whole lines of a 2xx answer, each with its '\n'; one or more per call, in order.
  std::function<void(std::string_view lines)> on_lines;
  // The end. A value: the server ended the stream in order (2xx, empty body) or answered with
  // another status (its body is given). An error: connection trouble, silence or cancellation.
  std::function<void(Result<HttpResponse>)> on_end;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual RequestId Send(HttpRequest request, std::function<void(Result<HttpResponse>)> done) = 0;
  virtual RequestId OpenStream(HttpRequest request, StreamCallbacks callbacks) = 0;
  virtual void Cancel(RequestId id) = 0;  // no effect when the request has ended
  // Cancels everything, waits until the last callback has returned. Later calls end as kCancelled.
  // REQUIRES: not called from a callback.
  virtual void Close() = 0;
};

struct TransportOptions {
  int threads = 4;           // cpprestsdk's process-wide pool; only the first transport's counts
  int max_connections = 32;  // requests in flight, streams not counted
  std::string user_agent = "tutti";
};

// Errors of both: a certificate or key that can't be used, an unsupported address; names the field.

// One thread of its own for all connections and callbacks.
Result<std::unique_ptr<Transport>> MakeBeastTransport(const ClusterAccess& access,
                                                      const TransportOptions& options);
// REQUIRES: called before other threads start (the first call sets environment variables that
// keep the TLS library from loading the system's CA files for every connection).
Result<std::unique_ptr<Transport>> MakeCpprestTransport(const ClusterAccess& access,
                                                        const TransportOptions& options);

}  // namespace tutti::kube
