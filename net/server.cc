// SPDX-License-Identifier: Apache-2.0
#include "net/server.h"

#include <array>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>  // before Boost.Asio: 1.74 forgets it

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>

#include "net/certs.h"

namespace tutti::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using Code = boost::system::error_code;
using ContextPointer = std::shared_ptr<asio::ssl::context>;

constexpr std::chrono::milliseconds kLingerLimit{500};
constexpr size_t kFirstRead = 4096;

Result<ContextPointer> MakeContext(const TlsMaterial& material, TlsMinimum minimum) {
  try {
    auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
    context->set_options(asio::ssl::context::default_workarounds |
                         asio::ssl::context::no_compression);
    SSL_CTX_set_min_proto_version(context->native_handle(),
                                  minimum == TlsMinimum::k13 ? TLS1_3_VERSION : TLS1_2_VERSION);
    context->use_certificate_chain(asio::buffer(material.certificate_pem));
    context->use_private_key(asio::buffer(material.key_pem), asio::ssl::context::pem);
    if (SSL_CTX_check_private_key(context->native_handle()) != 1) {
      return Fail(ErrorCode::kInvalid, "the key does not belong to the certificate");
    }
    if (!material.client_ca_pem.empty()) {
      context->set_verify_mode(asio::ssl::verify_peer);
      for (const std::string& ca : SplitBundle(material.client_ca_pem)) {
        context->add_certificate_authority(asio::buffer(ca));
      }
      // Without it a client that resumes a session with its certificate would be refused.
      constexpr unsigned char kSessions[] = "tutti";
      SSL_CTX_set_session_id_context(context->native_handle(), kSessions, sizeof kSessions);
    }
    return context;
  } catch (const std::exception& error) {
    return Fail(ErrorCode::kInvalid, std::string("certificate or key: ") + error.what());
  }
}

// What the server needs to know of a connection, whatever its transport.
class Connection {
 public:
  virtual ~Connection() = default;
  virtual void BeginStop() = 0;  // idle: close; busy: close after the answer
  virtual void Abort() = 0;
};

// State shared by the acceptor and the connections; outlives both.
class Core {
 public:
  Core(ServerOptions server_options, Router server_router)
      : options(std::move(server_options)), router(std::move(server_router)) {}

  const ServerOptions options;
  const Router router;
  asio::io_context io;
  std::atomic<bool> stopping{false};
  std::atomic<uint64_t> accepted{0};
  std::atomic<uint64_t> refused{0};
  std::atomic<uint64_t> handshake_errors{0};
  std::atomic<uint64_t> requests{0};
  std::atomic<uint64_t> bad_requests{0};

  ContextPointer context() const {
    const std::scoped_lock lock(mutex_);
    return context_;
  }
  void set_context(ContextPointer context) {
    const std::scoped_lock lock(mutex_);
    context_ = std::move(context);
  }

  void Add(const std::shared_ptr<Connection>& connection) {
    const std::scoped_lock lock(mutex_);
    connections_[connection.get()] = connection;
  }
  void Remove(Connection* connection) {
    const std::scoped_lock lock(mutex_);
    connections_.erase(connection);
    if (connections_.empty()) {
      empty_.notify_all();
    }
  }
  int open() const {
    const std::scoped_lock lock(mutex_);
    return static_cast<int>(connections_.size());
  }
  std::vector<std::shared_ptr<Connection>> All() const {
    const std::scoped_lock lock(mutex_);
    std::vector<std::shared_ptr<Connection>> all;
    for (const auto& [key, weak] : connections_) {
      if (auto connection = weak.lock()) {
        all.push_back(std::move(connection));
      }
    }
    return all;
  }
  bool WaitEmpty(std::chrono::milliseconds limit) const {
    std::unique_lock lock(mutex_);
    return empty_.wait_for(lock, limit, [this] { return connections_.empty(); });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable empty_;
  std::map<Connection*, std::weak_ptr<Connection>> connections_;
  ContextPointer context_;
};

// The plain and the TLS transport, as far as they differ.
struct PlainTransport {
  beast::tcp_stream stream;
  PlainTransport(tcp::socket socket, const ContextPointer& /*context*/)
      : stream(std::move(socket)) {}
  beast::tcp_stream& lowest() { return stream; }
  template <typename Done>
  void Handshake(Done done) {
    done(Code());
  }
  std::string ClientName() { return ""; }
  template <typename Done>
  void Goodbye(Done done) {
    done(Code());
  }
};

struct TlsTransport {
  ContextPointer context;  // kept: the certificate may be replaced meanwhile
  beast::ssl_stream<beast::tcp_stream> stream;
  TlsTransport(tcp::socket socket, const ContextPointer& tls)
      : context(tls), stream(std::move(socket), *context) {}
  beast::tcp_stream& lowest() { return beast::get_lowest_layer(stream); }
  template <typename Done>
  void Handshake(Done done) {
    stream.async_handshake(asio::ssl::stream_base::server, std::move(done));
  }
  std::string ClientName() {
    SSL* ssl = stream.native_handle();
    const std::unique_ptr<X509, decltype(&X509_free)> certificate(SSL_get1_peer_certificate(ssl),
                                                                  &X509_free);
    if (!certificate || SSL_get_verify_result(ssl) != X509_V_OK) {
      return "";
    }
    char name[256] = "";
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()), NID_commonName, name,
                              sizeof name);
    return name;
  }
  template <typename Done>
  void Goodbye(Done done) {
    stream.async_shutdown(std::move(done));
  }
};

// One connection: read a request, let the router answer it, write, again. All of it on the strand
// of the socket.
template <typename Transport>
class Session final : public Connection, public std::enable_shared_from_this<Session<Transport>> {
 public:
  Session(std::shared_ptr<Core> core, tcp::socket socket, const ContextPointer& context)
      : core_(std::move(core)), transport_(std::move(socket), context) {
    Code ignored;
    peer_ = transport_.lowest().socket().remote_endpoint(ignored).address().to_string(ignored);
  }

  ~Session() override { core_->Remove(this); }

  void Start() {
    core_->Add(this->shared_from_this());
    auto self = this->shared_from_this();
    asio::post(transport_.lowest().get_executor(), [self] { self->DoHandshake(); });
  }

  void BeginStop() override {
    auto self = this->shared_from_this();
    asio::post(transport_.lowest().get_executor(), [self] {
      self->close_after_ = true;
      if (self->idle_ || self->streaming_) {
        self->CloseSocket();
      }
    });
  }

  void Abort() override {
    auto self = this->shared_from_this();
    asio::post(transport_.lowest().get_executor(), [self] { self->CloseSocket(); });
  }

 private:
  // The handle given to handlers. Chunks are posted to the session's strand.
  class StreamHandle final : public Stream {
   public:
    explicit StreamHandle(std::shared_ptr<Session> session) : session_(std::move(session)) {}
    ~StreamHandle() override {
      if (session_->core_->stopping) {
        return;  // nobody runs posted work any more
      }
      auto session = session_;
      asio::post(session->transport_.lowest().get_executor(), [session] { session->EndStream(); });
    }
    bool Send(std::string chunk) override {
      if (session_->stream_closed_ || session_->core_->stopping) {
        return false;
      }
      if (chunk.empty()) {
        return true;
      }
      if (session_->backlog_.fetch_add(chunk.size()) + chunk.size() >
          session_->core_->options.max_stream_backlog) {
        session_->stream_closed_ = true;
        session_->Abort();
        return false;
      }
      auto session = session_;
      asio::post(
          session->transport_.lowest().get_executor(),
          [session, text = std::move(chunk)]() mutable { session->QueueChunk(std::move(text)); });
      return true;
    }
    bool Closed() const override { return session_->stream_closed_; }

   private:
    std::shared_ptr<Session> session_;
  };

  void DoHandshake() {
    transport_.lowest().expires_after(core_->options.handshake_timeout);
    auto self = this->shared_from_this();
    transport_.Handshake([self](Code error) {
      if (error) {
        ++self->core_->handshake_errors;
        self->CloseSocket();
        return;
      }
      self->client_name_ = self->transport_.ClientName();
      self->WaitForRequest();
    });
  }

  void WaitForRequest() {
    if (close_after_ || core_->stopping) {
      CloseSocket();
      return;
    }
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(core_->options.max_header));
    parser_->body_limit(core_->options.max_body);
    if (buffer_.size() > 0) {
      ReadHeader();  // the next request came along with the last one
      return;
    }
    // The time for the header starts with its first byte.
    idle_ = true;
    transport_.lowest().expires_after(core_->options.idle_timeout);
    auto self = this->shared_from_this();
    transport_.stream.async_read_some(buffer_.prepare(kFirstRead),
                                      [self](Code error, size_t bytes) {
                                        if (error) {
                                          self->Goodbye();
                                          return;
                                        }
                                        self->idle_ = false;
                                        self->buffer_.commit(bytes);
                                        self->ReadHeader();
                                      });
  }

  void ReadHeader() {
    transport_.lowest().expires_after(core_->options.header_timeout);
    auto self = this->shared_from_this();
    http::async_read_header(
        transport_.stream, buffer_, *parser_, [self](Code error, size_t /*bytes*/) {
          if (error) {
            self->OnReadError(error);
            return;
          }
          self->transport_.lowest().expires_after(self->core_->options.body_timeout);
          const auto& header = self->parser_->get();
          if (!self->parser_->is_done() &&
              beast::iequals(header[http::field::expect], "100-continue")) {
            self->SendContinue();
            return;
          }
          self->ReadBody();
        });
  }

  void ReadBody() {
    auto self = this->shared_from_this();
    http::async_read(transport_.stream, buffer_, *parser_, [self](Code error, size_t /*bytes*/) {
      if (error) {
        self->OnReadError(error);
        return;
      }
      self->ServeRequest();
    });
  }

  void OnReadError(Code error) {
    if (error == http::error::need_buffer || error == http::error::header_limit ||
        error == http::error::buffer_overflow) {
      Refuse(431,
             "the header is larger than " + std::to_string(core_->options.max_header) + " bytes\n");
      return;
    }
    if (error == http::error::body_limit) {
      Refuse(413,
             "the body is larger than " + std::to_string(core_->options.max_body) + " bytes\n");
      return;
    }
    // Malformed input gets an answer; a client that is gone or too slow does not.
    const bool malformed =
        error.category() == make_error_code(http::error::bad_method).category() &&
        error != http::error::end_of_stream && error != http::error::partial_message;
    if (malformed) {
      Refuse(400, "malformed request: " + error.message() + "\n");
      return;
    }
    ++core_->bad_requests;
    Goodbye();
  }

  void SendContinue() {
    auto response = std::make_shared<http::response<http::empty_body>>(http::status::continue_, 11);
    auto self = this->shared_from_this();
    http::async_write(transport_.stream, *response, [self, response](Code error, size_t /*bytes*/) {
      if (error) {
        self->CloseSocket();
        return;
      }
      self->ReadBody();
    });
  }

  void ServeRequest() {
    ++core_->requests;
    auto message = parser_->release();
    Request request;
    request.method = std::string(message.method_string());
    const std::string_view target(message.target().data(), message.target().size());
    const size_t question = target.find('?');
    request.path = std::string(target.substr(0, question));
    request.query =
        question == std::string_view::npos ? "" : std::string(target.substr(question + 1));
    for (const auto& field : message) {
      std::string name(field.name_string());
      for (char& c : name) {
        c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      }
      request.headers[std::move(name)] = std::string(field.value());
    }
    request.body = std::move(message.body());
    request.peer = peer_;
    request.client_name = client_name_;
    const bool head = message.method() == http::verb::head;
    const bool keep_alive = message.keep_alive() && message.version() == 11;

    Response response;
    try {
      response = core_->router.Serve(request);
    } catch (const std::exception& error) {
      response = Response::Text(500, std::string("internal error: ") + error.what() + "\n");
    }
    Answer(std::move(response), head, keep_alive);
  }

  void Refuse(int status, std::string text) {
    ++core_->bad_requests;
    Answer(Response::Text(status, std::move(text)), /*head=*/false, /*keep_alive=*/false);
  }

  void Answer(Response response, bool head, bool keep_alive) {
    close_after_ = close_after_ || !keep_alive || core_->stopping;
    transport_.lowest().expires_after(core_->options.write_timeout);
    if (response.stream && !head) {
      BeginStream(std::move(response));
      return;
    }
    auto message = std::make_shared<http::response<http::string_body>>();
    Fill(response, &message->base());
    message->version(11);
    message->result(static_cast<unsigned>(response.status));
    message->keep_alive(!close_after_);
    const size_t size = response.body.size();
    message->body() = head ? "" : std::move(response.body);
    message->content_length(size);
    auto self = this->shared_from_this();
    http::async_write(transport_.stream, *message, [self, message](Code error, size_t /*bytes*/) {
      if (error || self->close_after_) {
        self->Goodbye();
        return;
      }
      self->WaitForRequest();
    });
  }

  static void Fill(const Response& response, http::response_header<>* header) {
    header->set(http::field::content_type, response.content_type);
    header->set("X-Content-Type-Options", "nosniff");
    for (const auto& [name, value] : response.headers) {
      header->set(name, value);
    }
  }

  void BeginStream(Response response) {
    streaming_ = true;
    close_after_ = true;
    auto message = std::make_shared<http::response<http::empty_body>>();
    Fill(response, &message->base());
    message->version(11);
    message->result(static_cast<unsigned>(response.status));
    message->chunked(true);
    message->keep_alive(false);
    auto serializer = std::make_shared<http::response_serializer<http::empty_body>>(*message);
    auto handle = std::make_shared<StreamHandle>(this->shared_from_this());
    writing_ = true;
    if (!response.body.empty()) {
      handle->Send(std::move(response.body));
    }
    response.stream(std::move(handle));
    // The read that notices a client's leaving has no deadline, each write has one.
    transport_.lowest().expires_never();
    WatchClient();
    transport_.lowest().expires_after(core_->options.write_timeout);
    auto self = this->shared_from_this();
    http::async_write_header(
        transport_.stream, *serializer,
        [self, message, serializer](Code error, size_t /*bytes*/) { self->OnChunkWritten(error); });
  }

  // While a stream is written, a read notices that the client closes the connection.
  void WatchClient() {
    auto self = this->shared_from_this();
    transport_.stream.async_read_some(asio::buffer(scratch_), [self](Code error, size_t /*bytes*/) {
      if (error && error != beast::error::timeout) {
        self->CloseSocket();
        return;
      }
      if (!error) {
        self->WatchClient();
      }
    });
  }

  void QueueChunk(std::string text) {
    chunks_.push_back(std::move(text));
    WriteNext();
  }

  void EndStream() {
    stream_ended_ = true;
    WriteNext();
  }

  void WriteNext() {
    if (writing_ || stream_closed_) {
      return;
    }
    auto self = this->shared_from_this();
    if (chunks_.empty()) {
      if (stream_ended_) {
        stream_closed_ = true;
        writing_ = true;
        transport_.lowest().expires_after(core_->options.write_timeout);
        asio::async_write(transport_.stream, http::make_chunk_last(),
                          [self](Code /*error*/, size_t /*bytes*/) { self->CloseSocket(); });
      }
      return;
    }
    writing_ = true;
    chunk_ = std::move(chunks_.front());
    chunks_.pop_front();
    backlog_ -= chunk_.size();
    transport_.lowest().expires_after(core_->options.write_timeout);
    asio::async_write(transport_.stream, http::make_chunk(asio::buffer(chunk_)),
                      [self](Code error, size_t /*bytes*/) { self->OnChunkWritten(error); });
  }

  void OnChunkWritten(Code error) {
    writing_ = false;
    if (error) {
      CloseSocket();
      return;
    }
    WriteNext();
  }

  void Goodbye() {
    auto self = this->shared_from_this();
    transport_.lowest().expires_after(kLingerLimit);
    transport_.Goodbye([self](Code /*error*/) { self->Linger(); });
  }

  // Sends FIN and reads what is still coming for a moment: closing with unread bytes would reset
  // the connection and destroy an answer that the client hasn't read yet.
  void Linger() {
    Code ignored;
    transport_.lowest().socket().shutdown(tcp::socket::shutdown_send, ignored);
    LingerRead();
  }

  void LingerRead() {
    auto self = this->shared_from_this();
    transport_.lowest().async_read_some(asio::buffer(scratch_),
                                        [self](Code error, size_t /*bytes*/) {
                                          if (error) {
                                            self->CloseSocket();
                                            return;
                                          }
                                          self->LingerRead();
                                        });
  }

  void CloseSocket() {
    stream_closed_ = true;
    transport_.lowest().close();
  }

  const std::shared_ptr<Core> core_;
  Transport transport_;
  std::string peer_;
  std::string client_name_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  bool idle_ = false;
  bool close_after_ = false;

  bool streaming_ = false;
  bool stream_ended_ = false;
  bool writing_ = false;
  std::deque<std::string> chunks_;
  std::string chunk_;
  std::atomic<bool> stream_closed_{false};
  std::atomic<size_t> backlog_{0};
  std::array<char, 1024> scratch_{};
};

class BeastServer final : public Server {
 public:
  BeastServer(const ServerOptions& options, Router router)
      : core_(std::make_shared<Core>(options, std::move(router))),
        acceptor_(core_->io),
        retry_(core_->io) {}

  ~BeastServer() override { Stop(std::chrono::milliseconds(0)); }

  Status Listen() {
    const ServerOptions& options = core_->options;
    const std::string address = options.host + ":" + std::to_string(options.port);
    if (options.tls && !options.certificate.certificate_pem.empty()) {
      TRY(SetCertificate(options.certificate));
    }
    Code error;
    tcp::endpoint endpoint;
    if (options.host.empty()) {
      endpoint = tcp::endpoint(tcp::v6(), options.port);
    } else {
      const std::string host = options.host == "localhost" ? "127.0.0.1" : options.host;
      endpoint = tcp::endpoint(asio::ip::make_address(host, error), options.port);
      if (error) {
        return Fail(ErrorCode::kInvalid,
                    "listen on " + address + ": the host must be an IP address");
      }
    }
    acceptor_.open(endpoint.protocol(), error);
    if (error && options.host.empty()) {
      endpoint = tcp::endpoint(tcp::v4(), options.port);  // a machine without IPv6
      acceptor_.open(endpoint.protocol(), error);
    }
    if (!error && options.host.empty() && endpoint.protocol() == tcp::v6()) {
      acceptor_.set_option(asio::ip::v6_only(false), error);
    }
    if (!error) {
      acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    }
    if (!error) {
      acceptor_.bind(endpoint, error);
    }
    if (!error) {
      acceptor_.listen(asio::socket_base::max_listen_connections, error);
    }
    if (error) {
      return Fail(ErrorCode::kUnavailable, "listen on " + address + ": " + error.message());
    }
    port_ = acceptor_.local_endpoint().port();
    Accept();
    for (int i = 0; i < std::max(1, options.threads); ++i) {
      threads_.emplace_back([this] { core_->io.run(); });
    }
    return {};
  }

  uint16_t port() const override { return port_; }

  Status SetCertificate(const TlsMaterial& material) override {
    TRY_ASSIGN(ContextPointer context, MakeContext(material, core_->options.tls_minimum));
    core_->set_context(std::move(context));
    return {};
  }

  void Stop(std::chrono::milliseconds grace) override {
    if (threads_.empty()) {
      return;
    }
    core_->stopping = true;
    asio::post(core_->io, [this] {
      Code ignored;
      acceptor_.close(ignored);
      retry_.cancel();
    });
    for (const auto& connection : core_->All()) {
      connection->BeginStop();
    }
    if (!core_->WaitEmpty(grace)) {
      for (const auto& connection : core_->All()) {
        connection->Abort();
      }
      core_->WaitEmpty(std::chrono::seconds(1));
    }
    core_->io.stop();
    for (std::thread& thread : threads_) {
      thread.join();
    }
    threads_.clear();
    // Handlers of closed sockets hold the connections, and these the context: let them go.
    core_->io.restart();
    while (core_->io.poll() > 0) {
    }
  }

  ServerStats stats() const override {
    return {core_->accepted, core_->refused,      core_->handshake_errors,
            core_->requests, core_->bad_requests, core_->open()};
  }

 private:
  void Accept() {
    acceptor_.async_accept(asio::make_strand(core_->io), [this](Code error, tcp::socket socket) {
      if (core_->stopping || error == asio::error::operation_aborted) {
        return;
      }
      if (error) {
        // Out of descriptors, for example: try again a little later instead of spinning.
        retry_.expires_after(std::chrono::milliseconds(50));
        retry_.async_wait([this](Code cancelled) {
          if (!cancelled) {
            Accept();
          }
        });
        return;
      }
      Open(std::move(socket));
      Accept();
    });
  }

  void Open(tcp::socket socket) {
    if (core_->open() >= core_->options.max_connections) {
      ++core_->refused;
      return;  // the socket closes
    }
    Code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    if (!core_->options.tls) {
      ++core_->accepted;
      std::make_shared<Session<PlainTransport>>(core_, std::move(socket), nullptr)->Start();
      return;
    }
    const ContextPointer context = core_->context();
    if (!context) {
      ++core_->refused;  // no certificate yet
      return;
    }
    ++core_->accepted;
    std::make_shared<Session<TlsTransport>>(core_, std::move(socket), context)->Start();
  }

  std::shared_ptr<Core> core_;
  tcp::acceptor acceptor_;
  asio::steady_timer retry_;
  uint16_t port_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::Start(const ServerOptions& options, Router router) {
  auto server = std::make_unique<BeastServer>(options, std::move(router));
  TRY(server->Listen());
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace tutti::net
