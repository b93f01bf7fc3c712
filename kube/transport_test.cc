// SPDX-License-Identifier: Apache-2.0
// Both real transports against a scripted HTTP server on loopback (plain; TLS is checked by
// kube_live_test against a real API server).
#include "kube/transport.h"

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <thread>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace tutti::kube {
namespace {

using namespace std::chrono_literals;

// Each connection has a thread; `script` gets the request's head and the socket.
class Server {
 public:
  using Script = std::function<void(const std::string& head, int socket)>;

  explicit Server(Script script) : script_(std::move(script)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_, 64), 0);
    socklen_t length = sizeof address;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { Accept(); });
  }
  ~Server() {
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    {
      const std::lock_guard lock(mutex_);
      for (const int socket : sockets_) {
        ::shutdown(socket, SHUT_RDWR);
      }
    }
    for (std::thread& thread : threads_) {
      thread.join();
    }
    for (const int socket : sockets_) {
      ::close(socket);
    }
    ::close(listener_);
  }
  [[nodiscard]] std::string Url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  [[nodiscard]] int Connections() const { return connections_; }

 private:
  void Accept() {
    for (;;) {
      const int socket = ::accept(listener_, nullptr, nullptr);
      if (socket < 0) {
        return;
      }
      ++connections_;
      const std::lock_guard lock(mutex_);
      sockets_.push_back(socket);
      threads_.emplace_back([this, socket] { Serve(socket); });
    }
  }
  void Serve(int socket) {
    std::string data;
    char buffer[4096];
    for (;;) {
      size_t end = 0;
      while ((end = data.find("\r\n\r\n")) == std::string::npos) {
        const ssize_t n = ::recv(socket, buffer, sizeof buffer, 0);
        if (n <= 0) {
          return;
        }
        data.append(buffer, static_cast<size_t>(n));
      }
      const std::string head = data.substr(0, end + 4);
      data.erase(0, end + 4);
      if (const size_t at = head.find("Content-Length:"); at != std::string::npos) {
        const size_t length = std::stoul(head.substr(at + 15));
        while (data.size() < length) {
          const ssize_t n = ::recv(socket, buffer, sizeof buffer, 0);
          if (n <= 0) {
            return;
          }
          data.append(buffer, static_cast<size_t>(n));
        }
        data.erase(0, length);
      }
      script_(head, socket);
    }
  }

  Script script_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<int> connections_{0};
  std::thread acceptor_;
  std::mutex mutex_;
  std::vector<int> sockets_;
  std::vector<std::thread> threads_;
};

void Say(int socket, const std::string& text) {
  ::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
}
void Reply(int socket, int status, const std::string& body, const std::string& headers = "") {
  Say(socket, "HTTP/1.1 " + std::to_string(status) + " X\r\n" + headers +
                  "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
}
void BeginChunks(int socket) {
  Say(socket, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
}
void Chunk(int socket, const std::string& text) {
  char size[32];
  std::snprintf(size, sizeof size, "%zx\r\n", text.size());
  Say(socket, size + text + "\r\n");
}

// A point that one thread reaches and another waits for.
class Gate {
 public:
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

using Maker = Result<std::unique_ptr<Transport>> (*)(const ClusterAccess&, const TransportOptions&);

class TransportTest : public testing::TestWithParam<Maker> {
 protected:
  static std::unique_ptr<Transport> Make(const std::string& url, TransportOptions options = {},
                                         ClusterAccess access = {}) {
    access.server = url;
    auto transport = GetParam()(access, options);
    EXPECT_TRUE(transport.has_value()) << transport.error().message;
    return std::move(*transport);
  }
};
INSTANTIATE_TEST_SUITE_P(Both, TransportTest,
                         testing::Values(&MakeBeastTransport, &MakeCpprestTransport),
                         [](const auto& maker) {
                           return maker.param == &MakeBeastTransport ? "Beast" : "Cpprestsdk";
                         });

Result<HttpResponse> Call(Transport& transport, HttpRequest request) {
  std::promise<Result<HttpResponse>> promise;
  transport.Send(std::move(request),
                 [&](Result<HttpResponse> answer) { promise.set_value(std::move(answer)); });
  return promise.get_future().get();
}

HttpRequest Get(const std::string& target, std::chrono::milliseconds timeout = 30s) {
  HttpRequest request;
  request.target = target;
  request.timeout = timeout;
  return request;
}

// With and without the space that is allowed there.
bool HasHeader(const std::string& head, const std::string& name, const std::string& value) {
  return head.find("\r\n" + name + ":" + value + "\r\n") != std::string::npos ||
         head.find("\r\n" + name + ": " + value + "\r\n") != std::string::npos;
}

struct StreamLog {
  std::mutex mutex;
  std::string lines;
  Gate first;
  std::promise<Result<HttpResponse>> end;

  StreamCallbacks Callbacks() {
    return {[this](std::string_view data) {
              {
                const std::lock_guard lock(mutex);
                lines += "(" + std::string(data) + ")";
              }
              first.Open();
            },
            [this](Result<HttpResponse> how) { end.set_value(std::move(how)); }};
  }
};

TEST_P(TransportTest, SendsMethodBodyAndCredentialsAndReturnsTheAnswer) {
  std::promise<std::string> head_seen;
  Server server([&](const std::string& head, int socket) {
    head_seen.set_value(head);
    Reply(socket, 429, "busy", "Retry-After: 3\r\n");
  });
  ClusterAccess access;
  access.token = "secret";
  const auto transport = Make(server.Url() + "/prefix/", {}, access);
  HttpRequest request = Get("/api/v1/x?a=b%20c");
  request.method = "PATCH";
  request.content_type = "application/merge-patch+json";
  request.body = "{}";
  const auto answer = Call(*transport, request);
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_EQ(answer->status, 429);
  EXPECT_EQ(answer->body, "busy");
  EXPECT_EQ(answer->retry_after, 3s);
  const std::string seen = head_seen.get_future().get();
  EXPECT_EQ(seen.rfind("PATCH /prefix/api/v1/x?a=b%20c HTTP/1.1", 0), 0U) << seen;
  EXPECT_TRUE(HasHeader(seen, "Authorization", "Bearer secret")) << seen;
  EXPECT_TRUE(HasHeader(seen, "Content-Type", "application/merge-patch+json")) << seen;
}

TEST_P(TransportTest, ATokenFileIsReadAgainAfterItWasRefused) {
  const std::string file =
      std::filesystem::temp_directory_path() / ("transport_test_token." + std::to_string(getpid()));
  std::ofstream(file) << "one\n";
  Server server([&](const std::string& head, int socket) {
    const bool good = head.find("Bearer two") != std::string::npos;
    Reply(socket, good ? 200 : 401, "");
  });
  ClusterAccess access;
  access.token_file = file;
  const auto transport = Make(server.Url(), {}, access);
  EXPECT_EQ(Call(*transport, Get("/"))->status, 401);
  std::ofstream(file) << "two\n";
  // At most one reading a second; the loop is bounded by that, not by a guess.
  int status = 0;
  for (int i = 0; i < 100'000 && status != 200; ++i) {
    status = Call(*transport, Get("/"))->status;
  }
  EXPECT_EQ(status, 200);
  std::filesystem::remove(file);
}

TEST_P(TransportTest, ADeadlineEndsACallThatIsNotAnswered) {
  Server server([](const std::string&, int) {});
  const auto transport = Make(server.Url());
  const auto answer = Call(*transport, Get("/", 50ms));
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::kTimeout);
}

TEST_P(TransportTest, ARefusedOrBrokenConnectionIsUnavailable) {
  std::string url;
  {
    Server server([](const std::string&, int) {});
    url = server.Url();
  }
  const auto transport = Make(url);
  EXPECT_EQ(Call(*transport, Get("/")).error().code, ErrorCode::kUnavailable);
  Server cutting([](const std::string&, int socket) {
    Say(socket, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
    ::shutdown(socket, SHUT_RDWR);
  });
  const auto other = Make(cutting.Url());
  EXPECT_EQ(Call(*other, Get("/")).error().code, ErrorCode::kUnavailable);
}

TEST_P(TransportTest, OnlySoManyRequestsAreInFlight) {
  std::mutex mutex;
  std::condition_variable changed;
  int open = 0;
  int most = 0;
  int arrived = 0;
  bool go = false;
  Server server([&](const std::string&, int socket) {
    std::unique_lock lock(mutex);
    most = std::max(most, ++open);
    ++arrived;
    changed.notify_all();
    changed.wait(lock, [&] { return go; });
    --open;
    lock.unlock();
    Reply(socket, 200, "{}");
  });
  TransportOptions options;
  options.max_connections = 3;
  const auto transport = Make(server.Url(), options);
  std::atomic<int> good{0};
  std::promise<void> all;
  std::atomic<int> left{20};
  for (int i = 0; i < 20; ++i) {
    transport->Send(Get("/"), [&](Result<HttpResponse> answer) {
      good += answer.has_value() ? 1 : 0;
      if (--left == 0) {
        all.set_value();
      }
    });
  }
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return arrived == 3; });
    go = true;
    changed.notify_all();
  }
  all.get_future().wait();
  EXPECT_EQ(good, 20);
  const std::lock_guard lock(mutex);
  EXPECT_EQ(most, 3);
}

TEST_P(TransportTest, AStreamDeliversWholeLinesWhateverTheChunks) {
  Server server([](const std::string&, int socket) {
    BeginChunks(socket);
    Chunk(socket, "one\ntw");
    Chunk(socket, "o\nth");
    Chunk(socket, "re");
    Chunk(socket, "e\n");
    Say(socket, "0\r\n\r\n");
  });
  const auto transport = Make(server.Url());
  StreamLog log;
  transport->OpenStream(Get("/watch"), log.Callbacks());
  const auto end = log.end.get_future().get();
  ASSERT_TRUE(end.has_value()) << end.error().message;
  EXPECT_EQ(end->status, 200);
  std::string joined;
  for (const char c : log.lines) {
    if (c != '(' && c != ')') {
      joined += c;
    }
  }
  EXPECT_EQ(joined, "one\ntwo\nthree\n");
  EXPECT_EQ(log.lines.find("tw)"), std::string::npos);
}

TEST_P(TransportTest, ALineArrivesBeforeTheStreamEnds) {
  Server server([](const std::string&, int socket) {
    BeginChunks(socket);
    Chunk(socket, "now\n");
  });
  const auto transport = Make(server.Url());
  StreamLog log;
  const RequestId id = transport->OpenStream(Get("/watch"), log.Callbacks());
  log.first.Wait();
  transport->Cancel(id);
  const auto end = log.end.get_future().get();
  ASSERT_FALSE(end.has_value());
  EXPECT_EQ(end.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(log.lines, "(now\n)");
}

TEST_P(TransportTest, ASilentStreamEnds) {
  Server server([](const std::string&, int socket) {
    BeginChunks(socket);
    Chunk(socket, "x\n");
  });
  const auto transport = Make(server.Url());
  StreamLog log;
  transport->OpenStream(Get("/watch", 100ms), log.Callbacks());
  const auto end = log.end.get_future().get();
  ASSERT_FALSE(end.has_value());
  EXPECT_EQ(end.error().code, ErrorCode::kTimeout);
}

TEST_P(TransportTest, ABrokenStreamIsUnavailable) {
  Server server([](const std::string&, int socket) {
    BeginChunks(socket);
    Chunk(socket, "x\n");
    ::shutdown(socket, SHUT_RDWR);
  });
  const auto transport = Make(server.Url());
  StreamLog log;
  transport->OpenStream(Get("/watch"), log.Callbacks());
  const auto end = log.end.get_future().get();
  ASSERT_FALSE(end.has_value());
  EXPECT_EQ(end.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(log.lines, "(x\n)");
}

TEST_P(TransportTest, ARefusedStreamGivesTheBody) {
  Server server([](const std::string&, int socket) { Reply(socket, 410, "line\nline\n"); });
  const auto transport = Make(server.Url());
  StreamLog log;
  transport->OpenStream(Get("/watch"), log.Callbacks());
  const auto end = log.end.get_future().get();
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->status, 410);
  EXPECT_EQ(end->body, "line\nline\n");
  EXPECT_EQ(log.lines, "");
}

TEST_P(TransportTest, CloseEndsEverythingAndLaterCallsToo) {
  Server server([](const std::string& head, int socket) {
    if (head.find("/watch") != std::string::npos) {
      BeginChunks(socket);
      Chunk(socket, "x\n");
    }
  });
  TransportOptions options;
  options.max_connections = 2;
  const auto transport = Make(server.Url(), options);
  StreamLog log;
  transport->OpenStream(Get("/watch"), log.Callbacks());
  log.first.Wait();
  std::atomic<int> cancelled{0};
  for (int i = 0; i < 10; ++i) {
    transport->Send(Get("/hang"), [&](Result<HttpResponse> answer) {
      cancelled += !answer && answer.error().code == ErrorCode::kCancelled ? 1 : 0;
    });
  }
  transport->Close();
  EXPECT_EQ(cancelled, 10);
  EXPECT_EQ(log.end.get_future().get().error().code, ErrorCode::kCancelled);
  EXPECT_EQ(Call(*transport, Get("/")).error().code, ErrorCode::kCancelled);
}

TEST_P(TransportTest, ConnectionsAreUsedAgain) {
  Server server([](const std::string&, int socket) { Reply(socket, 200, "{}"); });
  const auto transport = Make(server.Url());
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(Call(*transport, Get("/")).has_value());
  }
  EXPECT_LE(server.Connections(), 4);
}

TEST_P(TransportTest, UnusableAccessIsRefusedByField) {
  ClusterAccess access;
  access.server = "h:6443";
  EXPECT_NE(GetParam()(access, {}).error().message.find("server"), std::string::npos);
  access.server = "https://h:6443";
  access.ca_pem = "nonsense";
  EXPECT_NE(GetParam()(access, {}).error().message.find("certificate-authority"),
            std::string::npos);
  access.ca_pem = "";
  access.client_cert_pem = "x";
  EXPECT_NE(GetParam()(access, {}).error().message.find("client-key"), std::string::npos);
  access.client_cert_pem = "";
  access.exec = ExecPlugin{};
  EXPECT_NE(GetParam()(access, {}).error().message.find("exec"), std::string::npos);
}

// An API server closes connections that are idle for long, and at its end. (cpprestsdk gives an
// error, and the executor tries again.)
TEST(BeastTransportTest, AConnectionThatWasClosedMeanwhileIsReplacedWithoutAnError) {
  std::mutex mutex;
  std::vector<int> sockets;
  Server server([&](const std::string&, int socket) {
    Reply(socket, 200, "{}");
    const std::lock_guard lock(mutex);
    sockets.push_back(socket);
  });
  ClusterAccess access;
  access.server = server.Url();
  const auto transport = std::move(*MakeBeastTransport(access, {}));
  for (int i = 0; i < 20; ++i) {
    HttpRequest request = Get("/");
    request.method = "POST";
    request.body = "{}";
    request.content_type = "application/json";
    const auto answer = Call(*transport, request);
    ASSERT_TRUE(answer.has_value()) << answer.error().message;
    // Its script may still be on its way to the lock; then the connection stays, and is used.
    const std::lock_guard lock(mutex);
    for (const int socket : sockets) {
      ::shutdown(socket, SHUT_RDWR);
    }
    sockets.clear();
  }
  EXPECT_GT(server.Connections(), 1);
}

TEST(BeastTransportTest, AnAddressIsUnderstoodOrRefused) {
  for (const char* bad : {"", "https://", "https://:6443", "https://host:port", "ftp://host",
                          "https://[::1", "https://user@host"}) {
    ClusterAccess access;
    access.server = bad;
    const auto refused = MakeBeastTransport(access, {});
    EXPECT_FALSE(refused.has_value()) << bad;
  }
  for (const char* good : {"https://host", "https://host/", "http://127.0.0.1:8080/prefix/",
                           "https://[::1]:6443", "https://host.example.org:6443"}) {
    ClusterAccess access;
    access.server = good;
    const auto made = MakeBeastTransport(access, {});
    EXPECT_TRUE(made.has_value()) << good;
  }
}

}  // namespace
}  // namespace tutti::kube
