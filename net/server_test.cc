// SPDX-License-Identifier: Apache-2.0
#include "net/server.h"

#include <condition_variable>
#include <csignal>
#include <future>
#include <mutex>
#include <thread>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/certs.h"

namespace tutti::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A client that does nothing by itself: bytes out, bytes in.
class RawClient {
 public:
  explicit RawClient(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ =
        connect(fd_, static_cast<sockaddr*>(static_cast<void*>(&address)), sizeof address) == 0;
  }
  ~RawClient() { Close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void Close() {
    if (fd_ >= 0) {
      close(fd_);
      fd_ = -1;
    }
  }
  [[nodiscard]] bool connected() const { return connected_; }
  [[nodiscard]] int fd() const { return fd_; }

  bool Send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) {
        return false;
      }
      text.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  // Reads until `end` has been seen, the connection ends, or `limit` passes.
  std::string ReadUntil(std::string_view end, milliseconds limit = milliseconds(5000)) {
    const auto deadline = steady_clock::now() + limit;
    while (end.empty() || seen_.find(end) == std::string::npos) {
      const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
      pollfd waiting{fd_, POLLIN, 0};
      if (left.count() <= 0 || poll(&waiting, 1, static_cast<int>(left.count())) <= 0) {
        break;
      }
      char buffer[65536];
      const ssize_t got = recv(fd_, buffer, sizeof buffer, 0);
      if (got <= 0) {
        ended_ = true;
        break;
      }
      seen_.append(buffer, static_cast<size_t>(got));
    }
    return std::exchange(seen_, "");
  }
  std::string ReadAll(milliseconds limit = milliseconds(5000)) { return ReadUntil("", limit); }
  [[nodiscard]] bool ended() const { return ended_; }

 private:
  int fd_;
  bool connected_ = false;
  bool ended_ = false;
  std::string seen_;
};

std::string Get(uint16_t port, const std::string& path, const std::string& method = "GET") {
  RawClient client(port);
  client.Send(method + " " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  return client.ReadAll();
}

Router EchoRouter() {
  Router router;
  router.Handle("GET", "/hello", [](const Request& request) {
    return Response::Text(200, "hello " + request.QueryParameter("name"));
  });
  router.Handle("POST", "/echo",
                [](const Request& request) { return Response::JsonText(200, request.body); });
  router.HandlePrefix("GET", "/tree/",
                      [](const Request& request) { return Response::Text(200, request.path); });
  router.HandlePrefix("GET", "/tree/leaf/",
                      [](const Request&) { return Response::Text(200, "leaf"); });
  router.Handle("GET", "/throw",
                [](const Request&) -> Response { throw std::runtime_error("boom"); });
  return router;
}

ServerOptions Loopback() {
  ServerOptions options;
  options.host = "127.0.0.1";
  return options;
}

std::unique_ptr<Server> StartOrDie(const ServerOptions& options, Router router = EchoRouter()) {
  auto server = Server::Start(options, std::move(router));
  EXPECT_TRUE(server) << server.error().message;
  return std::move(*server);
}

TEST(ServerTest, AnswersOnAPortOfItsOwnChoice) {
  auto server = StartOrDie(Loopback());
  ASSERT_NE(server->port(), 0);
  const std::string answer = Get(server->port(), "/hello?x=1&name=a%20b+c");
  EXPECT_THAT(answer, testing::StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, testing::EndsWith("\r\n\r\nhello a b c"));
}

TEST(ServerTest, RoutesByExactPathThenLongestPrefix) {
  auto server = StartOrDie(Loopback());
  EXPECT_THAT(Get(server->port(), "/tree/a/b"), testing::EndsWith("/tree/a/b"));
  EXPECT_THAT(Get(server->port(), "/tree/leaf/b"), testing::EndsWith("\r\n\r\nleaf"));
  EXPECT_THAT(Get(server->port(), "/nothing"), testing::StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(Get(server->port(), "/echo"), testing::StartsWith("HTTP/1.1 405"));
  const std::string head = Get(server->port(), "/tree/leaf/b", "HEAD");
  EXPECT_THAT(head, testing::HasSubstr("Content-Length: 4\r\n"));
  EXPECT_THAT(head, testing::EndsWith("\r\n\r\n"));
}

TEST(ServerTest, HandlerExceptionIsA500) {
  auto server = StartOrDie(Loopback());
  EXPECT_THAT(Get(server->port(), "/throw"), testing::StartsWith("HTTP/1.1 500"));
}

TEST(ServerTest, KeepsTheConnectionForTheNextRequest) {
  auto server = StartOrDie(Loopback());
  RawClient client(server->port());
  for (int i = 0; i < 3; ++i) {
    client.Send("GET /hello?name=x HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_THAT(client.ReadUntil("hello x"), testing::StartsWith("HTTP/1.1 200"));
  }
  // Two at once are answered in order.
  client.Send(
      "GET /hello?name=1 HTTP/1.1\r\nHost: x\r\n\r\nGET /hello?name=2 HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(client.ReadUntil("hello 2"), testing::HasSubstr("hello 1"));
  EXPECT_EQ(server->stats().accepted, 1U);
  EXPECT_EQ(server->stats().requests, 5U);
}

TEST(ServerTest, TakesBodiesInOnePieceChunkedAndAfterContinue) {
  auto server = StartOrDie(Loopback());
  RawClient client(server->port());
  client.Send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab");
  client.Send("cde");
  EXPECT_THAT(client.ReadUntil("abcde"), testing::HasSubstr("application/json"));
  client.Send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nxyz\r\n0\r\n\r\n");
  EXPECT_THAT(client.ReadUntil("xyz"), testing::HasSubstr("200 OK"));
  client.Send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  EXPECT_THAT(client.ReadUntil("\r\n\r\n"), testing::StartsWith("HTTP/1.1 100"));
  client.Send("123");
  EXPECT_THAT(client.ReadUntil("123"), testing::HasSubstr("200 OK"));
}

TEST(ServerTest, LargeBodyPasses) {
  auto server = StartOrDie(Loopback());
  const std::string body(3'000'000, 'b');
  RawClient client(server->port());
  std::thread sender([&] {
    client.Send("POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n" + body);
  });
  const std::string answer = client.ReadAll(milliseconds(20'000));
  sender.join();
  EXPECT_GT(answer.size(), body.size());
}

TEST(ServerTest, RefusesWhatIsTooLargeOrMalformed) {
  struct Case {
    std::string name;
    std::string bytes;
    std::string status;
  };
  ServerOptions options = Loopback();
  options.max_body = 1000;
  const std::vector<Case> cases = {
      {"header", "GET /hello HTTP/1.1\r\nHost: x\r\nX: " + std::string(40'000, 'h') + "\r\n\r\n",
       "431"},
      {"announced body", "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n", "413"},
      {"chunked body",
       "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" +
           std::string(2000, 'c') + "\r\n0\r\n\r\n",
       "413"},
      {"chunk size",
       "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n", "400"},
      {"no HTTP", "hello there\r\n\r\n", "400"},
      {"version", "GET /hello HTTP/7.3\r\nHost: x\r\n\r\n", "400"},
  };
  auto server = StartOrDie(options);
  for (const Case& c : cases) {
    RawClient client(server->port());
    client.Send(c.bytes);
    EXPECT_THAT(client.ReadAll(), testing::StartsWith("HTTP/1.1 " + c.status)) << c.name;
    EXPECT_TRUE(client.ended()) << c.name;
  }
  EXPECT_EQ(server->stats().bad_requests, cases.size());
}

TEST(ServerTest, SlowAndSilentClientsAreCutOff) {
  ServerOptions options = Loopback();
  options.header_timeout = milliseconds(100);
  options.body_timeout = milliseconds(100);
  options.idle_timeout = milliseconds(150);
  auto server = StartOrDie(options);
  for (const std::string& bytes :
       {std::string(), std::string("GET /hel"),
        std::string("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab")}) {
    RawClient client(server->port());
    client.Send(bytes);
    EXPECT_EQ(client.ReadAll(), "") << bytes;
    EXPECT_TRUE(client.ended()) << bytes;
  }
}

TEST(ServerTest, DrippingHeaderDoesNotExtendItsTime) {
  ServerOptions options = Loopback();
  options.header_timeout = milliseconds(200);
  auto server = StartOrDie(options);
  RawClient client(server->port());
  client.Send("GET /hello HTTP/1.1\r\n");
  const auto start = steady_clock::now();
  // A byte each 20 ms for as long as the server reads.
  while (!client.ended() && steady_clock::now() - start < std::chrono::seconds(20)) {
    client.Send("X");
    client.ReadUntil("never", milliseconds(20));
  }
  EXPECT_TRUE(client.ended());
}

TEST(ServerTest, ConnectionsBeyondTheLimitAreClosed) {
  ServerOptions options = Loopback();
  options.max_connections = 2;
  auto server = StartOrDie(options);
  RawClient first(server->port());
  RawClient second(server->port());
  for (RawClient* client : {&first, &second}) {
    client->Send("GET /hello?name=x HTTP/1.1\r\nHost: x\r\n\r\n");
    client->ReadUntil("hello x");
  }
  RawClient third(server->port());
  third.Send("GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(third.ReadAll(), "");
  EXPECT_EQ(server->stats().refused, 1U);
}

TEST(ServerTest, StopLetsARequestInProgressEnd) {
  std::promise<void> entered;
  std::promise<void> release;
  auto released = release.get_future().share();
  Router router;
  router.Handle("GET", "/slow", [&entered, released](const Request&) {
    entered.set_value();
    released.wait();
    return Response::Text(200, "done");
  });
  auto server = StartOrDie(Loopback(), std::move(router));
  RawClient idle(server->port());
  RawClient busy(server->port());
  busy.Send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
  entered.get_future().wait();
  std::thread stopper([&] { server->Stop(milliseconds(10'000)); });
  release.set_value();
  EXPECT_THAT(busy.ReadAll(), testing::EndsWith("done"));
  stopper.join();
  EXPECT_EQ(idle.ReadAll(), "");
  RawClient late(server->port());
  EXPECT_FALSE(late.connected());
}

TEST(ServerTest, AddressInUseNamesIt) {
  auto server = StartOrDie(Loopback());
  ServerOptions options = Loopback();
  options.port = server->port();
  const auto second = Server::Start(options, EchoRouter());
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message,
              testing::HasSubstr("127.0.0.1:" + std::to_string(options.port)));
}

// Hands the stream handles of a server to the test.
class StreamBox {
 public:
  void Put(std::shared_ptr<Stream> stream) {
    const std::scoped_lock lock(mutex_);
    stream_ = std::move(stream);
    ready_.notify_all();
  }
  std::shared_ptr<Stream> Take() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [this] { return stream_ != nullptr; });
    return std::move(stream_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::shared_ptr<Stream> stream_;
};

Router StreamRouter(StreamBox* box) {
  Router router;
  router.Handle("GET", "/events", [box](const Request&) {
    Response response;
    response.content_type = "text/event-stream";
    response.body = "first\n";
    response.stream = [box](std::shared_ptr<Stream> stream) { box->Put(std::move(stream)); };
    return response;
  });
  return router;
}

TEST(ServerTest, StreamSendsChunksUntilItsHandleGoes) {
  StreamBox box;
  auto server = StartOrDie(Loopback(), StreamRouter(&box));
  RawClient client(server->port());
  client.Send("GET /events HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(client.ReadUntil("first\n\r\n"), testing::HasSubstr("Transfer-Encoding: chunked"));
  auto stream = box.Take();
  EXPECT_TRUE(stream->Send("second\n"));
  EXPECT_EQ(client.ReadUntil("second\n\r\n"), "7\r\nsecond\n\r\n");
  stream.reset();
  EXPECT_EQ(client.ReadAll(), "0\r\n\r\n");
}

TEST(ServerTest, StreamNoticesThatTheClientLeft) {
  StreamBox box;
  auto server = StartOrDie(Loopback(), StreamRouter(&box));
  RawClient client(server->port());
  client.Send("GET /events HTTP/1.1\r\nHost: x\r\n\r\n");
  client.ReadUntil("first");
  auto stream = box.Take();
  client.Close();
  const auto deadline = steady_clock::now() + std::chrono::seconds(5);
  while (stream->Send("x") && steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(stream->Closed());
}

TEST(ServerTest, StreamToAReaderThatDoesNotReadIsCutOff) {
  StreamBox box;
  ServerOptions options = Loopback();
  options.max_stream_backlog = 100'000;
  auto server = StartOrDie(options, StreamRouter(&box));
  RawClient client(server->port());
  client.Send("GET /events HTTP/1.1\r\nHost: x\r\n\r\n");
  client.ReadUntil("first");
  auto stream = box.Take();
  size_t sent = 0;
  while (stream->Send(std::string(50'000, 's')) && sent < 1'000'000'000) {
    sent += 50'000;
  }
  EXPECT_LT(sent, 1'000'000'000U);
  EXPECT_TRUE(stream->Closed());
}

TEST(ServerTest, StopEndsStreams) {
  StreamBox box;
  auto server = StartOrDie(Loopback(), StreamRouter(&box));
  RawClient client(server->port());
  client.Send("GET /events HTTP/1.1\r\nHost: x\r\n\r\n");
  client.ReadUntil("first");
  auto stream = box.Take();
  server->Stop(milliseconds(5000));
  EXPECT_FALSE(stream->Send("late"));
  client.ReadAll();
  EXPECT_TRUE(client.ended());
}

// --- TLS ---

struct Pki {
  KeyPair ca;
  KeyPair leaf;
};

Pki MakePki(const std::string& name) {
  const Time now = std::chrono::floor<Duration>(std::chrono::system_clock::now());
  CertificateSpec spec;
  spec.common_name = name;
  spec.not_before = now - std::chrono::hours(1);
  spec.not_after = now + std::chrono::hours(1);
  Pki pki;
  pki.ca = MakeCa(spec).value();
  spec.ip_addresses = {"127.0.0.1"};
  pki.leaf = MakeLeaf(pki.ca, spec).value();
  return pki;
}

// A request over TLS that trusts only `ca`; "" when the handshake fails.
class TlsClient {
 public:
  TlsClient(uint16_t port, const std::string& ca_pem, int max_version = 0) : raw_(port) {
    std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes with write()
    context_ = SSL_CTX_new(TLS_client_method());
    BIO* bio = BIO_new_mem_buf(ca_pem.data(), static_cast<int>(ca_pem.size()));
    X509* ca = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context_), ca);
    X509_free(ca);
    BIO_free(bio);
    SSL_CTX_set_verify(context_, SSL_VERIFY_PEER, nullptr);
    if (max_version != 0) {
      SSL_CTX_set_max_proto_version(context_, max_version);
    }
    ssl_ = SSL_new(context_);
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_), "127.0.0.1");
    SSL_set_fd(ssl_, raw_.fd());
    connected_ = SSL_connect(ssl_) == 1;
    ERR_clear_error();
  }
  ~TlsClient() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }
  [[nodiscard]] bool connected() const { return connected_; }
  std::string Get(const std::string& path) {
    const std::string request = "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n";
    if (!connected_ || SSL_write(ssl_, request.data(), static_cast<int>(request.size())) <= 0) {
      return "";
    }
    std::string answer;
    while (answer.find("hello") == std::string::npos) {
      char buffer[4096];
      const int got = SSL_read(ssl_, buffer, sizeof buffer);
      if (got <= 0) {
        break;
      }
      answer.append(buffer, static_cast<size_t>(got));
    }
    return answer;
  }

 private:
  RawClient raw_;
  SSL_CTX* context_ = nullptr;
  SSL* ssl_ = nullptr;
  bool connected_ = false;
};

ServerOptions TlsLoopback(const Pki& pki) {
  ServerOptions options = Loopback();
  options.tls = true;
  options.certificate = {pki.leaf.certificate_pem + pki.ca.certificate_pem, pki.leaf.key_pem};
  return options;
}

TEST(TlsServerTest, ServesOverTlsAndChecksOut) {
  const Pki pki = MakePki("one");
  auto server = StartOrDie(TlsLoopback(pki));
  TlsClient client(server->port(), pki.ca.certificate_pem);
  ASSERT_TRUE(client.connected());
  EXPECT_THAT(client.Get("/hello"), testing::StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(client.Get("/hello"), testing::StartsWith("HTTP/1.1 200"));
}

TEST(TlsServerTest, NewCertificateServesNewConnectionsAndOldOnesGoOn) {
  const Pki one = MakePki("one");
  const Pki two = MakePki("two");
  auto server = StartOrDie(TlsLoopback(one));
  TlsClient old(server->port(), one.ca.certificate_pem);
  ASSERT_TRUE(old.connected());
  ASSERT_TRUE(server->SetCertificate({two.leaf.certificate_pem, two.leaf.key_pem}));
  EXPECT_FALSE(TlsClient(server->port(), one.ca.certificate_pem).connected());
  EXPECT_TRUE(TlsClient(server->port(), two.ca.certificate_pem).connected());
  EXPECT_THAT(old.Get("/hello"), testing::StartsWith("HTTP/1.1 200"));
}

TEST(TlsServerTest, WrongMaterialIsRefusedAndThePresentOneStays) {
  const Pki pki = MakePki("one");
  auto server = StartOrDie(TlsLoopback(pki));
  EXPECT_FALSE(server->SetCertificate({pki.leaf.certificate_pem, pki.ca.key_pem}));
  EXPECT_FALSE(server->SetCertificate({"garbage", "garbage"}));
  EXPECT_TRUE(TlsClient(server->port(), pki.ca.certificate_pem).connected());
}

TEST(TlsServerTest, WithoutACertificateNobodyConnectsUntilOneIsSet) {
  const Pki pki = MakePki("one");
  ServerOptions options = Loopback();
  options.tls = true;
  auto server = StartOrDie(options);
  EXPECT_FALSE(TlsClient(server->port(), pki.ca.certificate_pem).connected());
  ASSERT_TRUE(server->SetCertificate({pki.leaf.certificate_pem, pki.leaf.key_pem}));
  EXPECT_TRUE(TlsClient(server->port(), pki.ca.certificate_pem).connected());
}

TEST(TlsServerTest, OldProtocolVersionsAreRefused) {
  const Pki pki = MakePki("one");
  ServerOptions options = TlsLoopback(pki);
  options.tls_minimum = TlsMinimum::k13;
  auto server = StartOrDie(options);
  EXPECT_FALSE(TlsClient(server->port(), pki.ca.certificate_pem, TLS1_2_VERSION).connected());
  EXPECT_TRUE(TlsClient(server->port(), pki.ca.certificate_pem).connected());
}

TEST(TlsServerTest, PlainTextAndSilenceDoNotHoldTheServer) {
  const Pki pki = MakePki("one");
  ServerOptions options = TlsLoopback(pki);
  options.handshake_timeout = milliseconds(100);
  auto server = StartOrDie(options);
  RawClient plain(server->port());
  plain.Send("GET /hello HTTP/1.1\r\n\r\n");
  plain.ReadAll();
  EXPECT_TRUE(plain.ended());
  RawClient silent(server->port());
  silent.ReadAll();
  EXPECT_TRUE(silent.ended());
  server->Stop(milliseconds(5000));
  EXPECT_EQ(server->stats().handshake_errors, 2U);
}

}  // namespace
}  // namespace tutti::net
