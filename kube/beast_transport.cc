// SPDX-License-Identifier: Apache-2.0
// Transport on Boost.Beast: one thread, on which everything happens, and a pool of connections that
// are kept. It costs a fraction of the CPU of cpprestsdk's (docs/performance.md). What the library
// doesn't do is done here: the pool, deadlines, and a second attempt on a fresh connection when a
// kept one turns out to have been closed.
#include <algorithm>
#include <atomic>
#include <deque>
#include <future>
#include <limits>
#include <map>
#include <thread>
#include <utility>  // before Boost.Asio: 1.74 forgets it
#include <variant>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <stdlib.h>

#include "base/log.h"
#include "kube/answer_body.h"
#include "kube/client_tls.h"
#include "kube/token_source.h"
#include "kube/transport.h"

namespace tutti::kube {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using Code = boost::system::error_code;
using SteadyClock = std::chrono::steady_clock;

constexpr size_t kChunk = 16 * 1024;  // of an answer, read at once: a TLS record
constexpr uint32_t kMaxHeader = 64 * 1024;
// The API server closes idle connections after a while; those are not worth a try.
constexpr auto kIdleLimit = std::chrono::seconds(60);

struct ServerAddress {
  bool tls = true;
  std::string host;  // without brackets
  std::string port;
  std::string authority;  // as in `server`
  std::string prefix;     // of all paths; no '/' at the end
};

Result<ServerAddress> ParseServer(const std::string& server) {
  const Error bad{ErrorCode::kInvalid,
                  "server: '" + server + "' is not an address of the form https://host:port",
                  0,
                  {}};
  ServerAddress address;
  size_t at = 0;
  if (server.starts_with("https://")) {
    at = 8;
  } else if (server.starts_with("http://")) {
    at = 7;
    address.tls = false;
  } else {
    return Fail(bad);
  }
  const size_t slash = std::min(server.find('/', at), server.size());
  address.authority = server.substr(at, slash - at);
  address.prefix = server.substr(slash);
  while (!address.prefix.empty() && address.prefix.back() == '/') {
    address.prefix.pop_back();
  }
  std::string rest;
  if (address.authority.starts_with('[')) {
    const size_t end = address.authority.find(']');
    if (end == std::string::npos) {
      return Fail(bad);
    }
    address.host = address.authority.substr(1, end - 1);
    rest = address.authority.substr(end + 1);
  } else {
    const size_t colon = std::min(address.authority.find(':'), address.authority.size());
    address.host = address.authority.substr(0, colon);
    rest = address.authority.substr(colon);
  }
  address.port = rest.empty() ? (address.tls ? "443" : "80") : rest.substr(1);
  const bool digits = std::all_of(address.port.begin(), address.port.end(),
                                  [](char c) { return c >= '0' && c <= '9'; });
  if (address.host.empty() || address.port.empty() || !digits ||
      (!rest.empty() && rest[0] != ':') ||
      address.authority.find_first_of("@ ?#") != std::string::npos) {
    return Fail(bad);
  }
  return address;
}

class Connection {
 public:
  Connection(asio::io_context& io, asio::ssl::context* tls)
      : stream_(tls != nullptr ? Stream(std::in_place_index<1>, io, *tls)
                               : Stream(std::in_place_index<0>, io)) {}

  beast::tcp_stream& lowest() {
    return tls() != nullptr ? beast::get_lowest_layer(*tls()) : std::get<0>(stream_);
  }
  beast::ssl_stream<beast::tcp_stream>* tls() { return std::get_if<1>(&stream_); }
  template <typename Function>
  void With(Function function) {
    std::visit(std::move(function), stream_);
  }
  void Abort() {
    Code ignored;
    lowest().socket().close(ignored);
  }

  beast::flat_buffer buffer;
  bool used = false;  // it has carried a whole answer
  SteadyClock::time_point idle_since;

 private:
  using Stream = std::variant<beast::tcp_stream, beast::ssl_stream<beast::tcp_stream>>;
  Stream stream_;
};
using ConnectionPointer = std::shared_ptr<Connection>;

struct Call {
  Call(asio::io_context& io, RequestId call_id, HttpRequest call_request)
      : id(call_id), request(std::move(call_request)), deadline(io) {}

  const RequestId id;
  HttpRequest request;
  bool stream = false;
  std::function<void(Result<HttpResponse>)> done;
  std::function<void(std::string_view)> on_lines;

  asio::steady_timer deadline;
  SteadyClock::time_point active;
  bool ended = false;
  bool answered = false;  // a byte of an answer has come
  bool again = false;     // this is the second attempt
  ConnectionPointer connection;
  http::request<http::string_body> message;
  std::optional<http::response_parser<http::buffer_body>> parser;
  std::vector<char> chunk;
  int status = 0;
  std::optional<std::chrono::milliseconds> retry_after;
  AnswerBody body;

  [[nodiscard]] std::string Where() const { return request.method + " " + request.target + ": "; }
};
using CallPointer = std::shared_ptr<Call>;

// Errors by which a connection shows that the server had closed it before the request.
bool IsStale(const Code& code) {
  return code == http::error::end_of_stream || code == asio::error::eof ||
         code == asio::error::connection_reset || code == asio::error::broken_pipe ||
         code == asio::ssl::error::stream_truncated;
}

std::optional<std::chrono::milliseconds> RetryAfter(std::string_view header) {
  const int64_t seconds = ::strtoll(std::string(header).c_str(), nullptr, 10);
  return seconds > 0 && seconds < 3600
             ? std::optional<std::chrono::milliseconds>(std::chrono::seconds(seconds))
             : std::nullopt;
}

class BeastTransport final : public Transport {
 public:
  BeastTransport(const ClusterAccess& access, TransportOptions options, ServerAddress server,
                 std::shared_ptr<const ClientTls> tls)
      : options_(std::move(options)),
        server_(std::move(server)),
        verified_name_(access.tls_server_name.empty() ? server_.host : access.tls_server_name),
        verify_(!access.insecure),
        token_(access),
        work_(asio::make_work_guard(io_)),
        resolver_(io_) {
    if (server_.tls) {
      tls_.emplace(asio::ssl::context::tls_client);
      tls->Apply(tls_->native_handle());
      tls_->set_verify_mode(verify_ ? asio::ssl::verify_peer : asio::ssl::verify_none);
    }
    thread_ = std::thread([this] { Run(); });
  }
  ~BeastTransport() override {
    Close();
    work_.reset();
    io_.stop();
    thread_.join();
  }

  RequestId Send(HttpRequest request, std::function<void(Result<HttpResponse>)> done) override {
    auto call = std::make_shared<Call>(io_, next_id_++, std::move(request));
    call->done = std::move(done);
    return Add(std::move(call));
  }
  RequestId OpenStream(HttpRequest request, StreamCallbacks callbacks) override {
    auto call = std::make_shared<Call>(io_, next_id_++, std::move(request));
    call->stream = true;
    call->done = std::move(callbacks.on_end);
    call->on_lines = std::move(callbacks.on_lines);
    return Add(std::move(call));
  }
  void Cancel(RequestId id) override {
    asio::post(io_, [this, id] {
      if (const auto known = calls_.find(id); known != calls_.end()) {
        EndCancelled(known->second);
      }
    });
  }
  void Close() override {
    std::promise<void> closed;
    asio::post(io_, [&] {
      closed_ = true;
      const std::map<RequestId, CallPointer> calls = calls_;
      for (const auto& [id, call] : calls) {
        EndCancelled(call);
      }
      idle_.clear();
      closed.set_value();
    });
    closed.get_future().wait();
  }

 private:
  void Run() {
    for (;;) {
      try {
        io_.run();
        return;
      } catch (const std::exception& error) {
        log::Error("the connection to the API server failed", {{"error", error.what()}});
      }
    }
  }

  // --- everything below is on the thread ---

  RequestId Add(CallPointer call) {
    const RequestId id = call->id;
    asio::post(io_, [this, call = std::move(call)] { Begin(call); });
    return id;
  }

  void Begin(const CallPointer& call) {
    calls_[call->id] = call;
    call->active = SteadyClock::now();
    if (closed_) {
      in_flight_ += call->stream ? 0 : 1;  // given back at the end
      EndCancelled(call);
      return;
    }
    Watch(call, call->request.timeout);
    if (call->stream) {
      Start(call);
    } else if (in_flight_ < options_.max_connections) {
      ++in_flight_;
      Start(call);
    } else {
      queue_.push_back(call);
    }
  }

  void Watch(const CallPointer& call, SteadyClock::duration after) {
    call->deadline.expires_after(after);
    call->deadline.async_wait([this, call](Code code) {
      if (code || call->ended) {
        return;
      }
      if (call->stream) {
        const auto silent = SteadyClock::now() - call->active;
        if (silent < call->request.timeout) {
          Watch(call, call->request.timeout - silent);
          return;
        }
      }
      End(call, Fail(ErrorCode::kTimeout,
                     call->Where() + "no " + (call->stream ? "data" : "answer") + " within " +
                         std::to_string(call->request.timeout.count()) + " ms"));
    });
  }

  void Start(const CallPointer& call) {
    http::request<http::string_body>& message = call->message;
    message.method_string(call->request.method);
    message.target(server_.prefix + call->request.target);
    message.version(11);
    message.set(http::field::host, server_.authority);
    message.set(http::field::accept, "application/json");
    message.set(http::field::user_agent, options_.user_agent);
    if (const std::string token = token_.Get(); !token.empty()) {
      message.set(http::field::authorization, "Bearer " + token);
    }
    const bool has_body = !call->request.body.empty();
    if (has_body) {
      message.set(http::field::content_type, call->request.content_type);
      message.body() = std::move(call->request.body);
    }
    if (has_body || (call->request.method != "GET" && call->request.method != "DELETE")) {
      message.content_length(message.body().size());
    }
    const auto now = SteadyClock::now();
    while (!idle_.empty()) {
      ConnectionPointer connection = std::move(idle_.back());
      idle_.pop_back();
      if (now - connection->idle_since < kIdleLimit) {
        call->connection = std::move(connection);
        Write(call);
        return;
      }
      idle_.clear();  // the others are older
    }
    Connect(call);
  }

  // A handler's first question: has the call gone on without it?
  static bool IsOver(const CallPointer& call, const ConnectionPointer& connection) {
    return call->ended || call->connection != connection;
  }

  void Connect(const CallPointer& call) {
    call->connection = std::make_shared<Connection>(io_, tls_ ? &*tls_ : nullptr);
    resolver_.async_resolve(
        server_.host, server_.port,
        [this, call, connection = call->connection](Code code,
                                                    const tcp::resolver::results_type& found) {
          if (IsOver(call, connection)) {
            return;
          }
          if (code) {
            Break(call, code);
            return;
          }
          connection->lowest().async_connect(found, [this, call, connection](Code failed,
                                                                             const tcp::endpoint&) {
            if (IsOver(call, connection)) {
              return;
            }
            if (failed) {
              Break(call, failed);
              return;
            }
            Code ignored;
            connection->lowest().socket().set_option(tcp::no_delay(true), ignored);
            connection->lowest().socket().set_option(asio::socket_base::keep_alive(true), ignored);
            Handshake(call);
          });
        });
  }

  void Handshake(const CallPointer& call) {
    beast::ssl_stream<beast::tcp_stream>* tls = call->connection->tls();
    if (tls == nullptr) {
      Write(call);
      return;
    }
    Code not_an_address;
    (void)asio::ip::make_address(verified_name_, not_an_address);
    if (not_an_address) {
      SSL_set_tlsext_host_name(tls->native_handle(), verified_name_.c_str());
    }
    if (verify_) {
      tls->set_verify_callback(asio::ssl::host_name_verification(verified_name_));
    }
    tls->async_handshake(
        asio::ssl::stream_base::client, [this, call, connection = call->connection](Code code) {
          if (IsOver(call, connection)) {
            return;
          }
          if (code) {
            Break(call, code, " (check certificate-authority and tls-server-name)");
            return;
          }
          Write(call);
        });
  }

  void Write(const CallPointer& call) {
    call->connection->With([&](auto& stream) {
      http::async_write(stream, call->message,
                        [this, call, connection = call->connection](Code code, size_t) {
                          if (IsOver(call, connection)) {
                            return;
                          }
                          if (code) {
                            Break(call, code);
                            return;
                          }
                          ReadHeader(call);
                        });
    });
  }

  void ReadHeader(const CallPointer& call) {
    call->parser.emplace();
    call->parser->body_limit(std::numeric_limits<uint64_t>::max());  // AnswerBody has limits
    call->parser->header_limit(kMaxHeader);
    call->connection->With([&](auto& stream) {
      http::async_read_header(stream, call->connection->buffer, *call->parser,
                              [this, call, connection = call->connection](Code code, size_t bytes) {
                                if (IsOver(call, connection)) {
                                  return;
                                }
                                call->answered = call->answered || bytes > 0;
                                if (code) {
                                  Break(call, code);
                                  return;
                                }
                                OnHeader(call);
                              });
    });
  }

  void OnHeader(const CallPointer& call) {
    call->active = SteadyClock::now();
    const auto& header = call->parser->get();
    call->status = static_cast<int>(header.result_int());
    if (call->status < 200) {
      ReadHeader(call);  // the answer is still to come
      return;
    }
    if (const auto after = header.find(http::field::retry_after); after != header.end()) {
      call->retry_after = RetryAfter({after->value().data(), after->value().size()});
    }
    if (call->stream && call->status < 300) {
      // Lines end with the call.
      call->body.SetLines([raw = call.get()](std::string_view lines) {
        if (!raw->ended) {
          raw->on_lines(lines);
        }
      });
    }
    call->chunk.resize(kChunk);
    ReadBody(call);
  }

  void ReadBody(const CallPointer& call) {
    if (call->parser->is_done()) {
      Finish(call);
      return;
    }
    auto& target = call->parser->get().body();
    target.data = call->chunk.data();
    target.size = call->chunk.size();
    call->connection->With([&](auto& stream) {
      http::async_read_some(
          stream, call->connection->buffer, *call->parser,
          [this, call, connection = call->connection](Code code, size_t) {
            if (IsOver(call, connection)) {
              return;
            }
            if (code == http::error::need_buffer) {
              code = {};  // the chunk is full
            }
            const size_t got = call->chunk.size() - call->parser->get().body().size;
            if (got > 0) {
              call->active = SteadyClock::now();
              if (!call->body.Feed({call->chunk.data(), got})) {
                End(call, Fail(ErrorCode::kDecode, call->Where() + "the answer is too large"));
                return;
              }
            }
            if (code) {
              Break(call, code);
              return;
            }
            ReadBody(call);
          });
    });
  }

  void Finish(const CallPointer& call) {
    if (call->status == 401) {
      token_.OnUnauthorized();
    }
    if (call->parser->keep_alive() && !closed_) {
      call->connection->used = true;
      call->connection->idle_since = SteadyClock::now();
      idle_.push_back(std::move(call->connection));
      call->connection = nullptr;
      if (idle_.size() > static_cast<size_t>(options_.max_connections)) {
        idle_.pop_front();
      }
    }
    End(call, HttpResponse{call->status, call->body.Take(), call->retry_after});
  }

  void Break(const CallPointer& call, const Code& code, std::string_view hint = "") {
    if (call->connection->used && !call->answered && !call->again && IsStale(code)) {
      call->again = true;
      call->connection->Abort();
      Connect(call);
      return;
    }
    End(call, Fail(ErrorCode::kUnavailable, call->Where() + code.message() + std::string(hint)));
  }

  void EndCancelled(const CallPointer& call) {
    End(call, Fail(ErrorCode::kCancelled, call->Where() + "cancelled"));
  }

  // Once for each call.
  void End(const CallPointer& call, Result<HttpResponse> how) {
    call->ended = true;
    call->deadline.cancel();
    if (call->connection != nullptr) {
      call->connection->Abort();
    }
    calls_.erase(call->id);
    if (const auto queued = std::find(queue_.begin(), queue_.end(), call); queued != queue_.end()) {
      queue_.erase(queued);
    } else if (!call->stream) {
      if (queue_.empty()) {
        --in_flight_;
      } else {
        const CallPointer next = queue_.front();
        queue_.pop_front();
        Start(next);
      }
    }
    // The callbacks may hold who called; they go now.
    const auto done = std::exchange(call->done, nullptr);
    done(std::move(how));
  }

  const TransportOptions options_;
  const ServerAddress server_;
  const std::string verified_name_;
  const bool verify_;
  TokenSource token_;
  std::optional<asio::ssl::context> tls_;
  std::atomic<RequestId> next_id_{1};

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  tcp::resolver resolver_;
  std::map<RequestId, CallPointer> calls_;  // queued and running
  std::deque<CallPointer> queue_;
  std::deque<ConnectionPointer> idle_;  // most recently used last
  int in_flight_ = 0;                   // without streams
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Transport>> MakeBeastTransport(const ClusterAccess& access,
                                                      const TransportOptions& options) {
  TRY(CheckUsable(access));
  TRY_ASSIGN(ServerAddress server, ParseServer(access.server));
  TRY_ASSIGN(std::shared_ptr<const ClientTls> tls, ClientTls::Make(access));
  return std::unique_ptr<Transport>(
      std::make_unique<BeastTransport>(access, options, std::move(server), std::move(tls)));
}

}  // namespace tutti::kube
