// SPDX-License-Identifier: Apache-2.0
// Transport on cpprestsdk. What the library doesn't do is done here: a cap on connections,
// deadlines (its own time-out only limits silence), one parsed set of certificates for all
// connections, and an end for every task chain (an unobserved exception would end the process).
// Answers are written by the library into Sink on its pool threads, so bodies and lines aren't
// copied through tasks.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <cpprest/http_client.h>
#include <pplx/threadpool.h>
#include <stdlib.h>

#include "kube/answer_body.h"
#include "kube/client_tls.h"
#include "kube/token_source.h"
#include "kube/transport.h"

namespace tutti::kube {
namespace {

using SteadyClock = std::chrono::steady_clock;
using SteadyTime = SteadyClock::time_point;

// The library's own limit for silence; ours are shorter.
constexpr auto kLibraryTimeout = std::chrono::hours(24);

// --- one request --------------------------------------------------------------------------------

struct Call;
using Deadlines = std::multimap<SteadyTime, std::shared_ptr<Call>>;

// Guarded by `delivery`, which is held while on_lines runs: after the end nothing is delivered.
struct Call {
  RequestId id = 0;
  std::optional<Deadlines::iterator> deadline;  // guarded by Core::mutex_
  HttpRequest request;
  bool stream = false;
  std::function<void(Result<HttpResponse>)> done;
  std::function<void(std::string_view)> on_lines;
  pplx::cancellation_token_source cancel;
  std::atomic<bool> cancelled{false};
  std::atomic<SteadyTime::rep> last_activity{0};

  std::recursive_mutex delivery;  // recursive: on_lines may call Cancel
  bool ended = false;
  int status = 0;
  std::optional<std::chrono::milliseconds> retry_after;
  std::string early;  // what came before the status was known
  AnswerBody body;
  bool too_large = false;

  void Touch() { last_activity = SteadyClock::now().time_since_epoch().count(); }

  // Once; false when it had ended before.
  bool End(Result<HttpResponse> how) {
    std::function<void(Result<HttpResponse>)> callback;
    {
      const std::lock_guard lock(delivery);
      if (ended) {
        return false;
      }
      ended = true;
      callback = std::move(done);
      done = nullptr;
    }
    callback(std::move(how));
    return true;
  }

  void OnHeaders(int code, std::optional<std::chrono::milliseconds> after) {
    const std::lock_guard lock(delivery);
    Touch();
    status = code;
    retry_after = after;
    if (stream && code >= 200 && code < 300) {
      // Lines end with the call.
      body.SetLines([this](std::string_view lines) {
        if (!ended) {
          on_lines(lines);
        }
      });
    }
    if (!early.empty()) {
      too_large = !body.Feed(std::exchange(early, {}));
    }
  }

  // False: the answer is larger than anything that can be meant.
  bool OnData(std::string_view data) {
    const std::lock_guard lock(delivery);
    Touch();
    if (ended) {
      return true;
    }
    if (status == 0) {
      early.append(data);
    } else {
      too_large = !body.Feed(data) || too_large;
    }
    return !too_large;
  }
};

// What the library writes an answer's body into.
class Sink final : public concurrency::streams::details::streambuf_state_manager<uint8_t> {
 public:
  explicit Sink(std::shared_ptr<Call> call)
      : streambuf_state_manager<uint8_t>(std::ios_base::out), call_(std::move(call)) {}

  bool can_seek() const override { return false; }
  bool has_size() const override { return false; }
  size_t buffer_size(std::ios_base::openmode) const override { return 0; }
  void set_buffer_size(size_t, std::ios_base::openmode) override {}
  size_t in_avail() const override { return 0; }
  pos_type getpos(std::ios_base::openmode) const override { return static_cast<pos_type>(total_); }
  pos_type seekpos(pos_type, std::ios_base::openmode) override { return traits::eof(); }
  pos_type seekoff(off_type, std::ios_base::seekdir, std::ios_base::openmode) override {
    return traits::eof();
  }
  bool acquire(uint8_t*& ptr, size_t& count) override {
    ptr = nullptr;
    count = 0;
    return false;
  }
  void release(uint8_t*, size_t) override {}

 protected:
  pplx::task<int_type> _putc(uint8_t byte) override {
    Write(&byte, 1);
    return pplx::task_from_result<int_type>(byte);
  }
  using streambuf_state_manager<uint8_t>::_putn;
  pplx::task<size_t> _putn(const uint8_t* ptr, size_t count) override {
    // A short write makes the library give the connection up.
    return pplx::task_from_result<size_t>(Write(ptr, count) ? count : 0);
  }
  pplx::task<int_type> _bumpc() override { return Eof(); }
  int_type _sbumpc() override { return traits::eof(); }
  pplx::task<int_type> _getc() override { return Eof(); }
  int_type _sgetc() override { return traits::eof(); }
  pplx::task<int_type> _nextc() override { return Eof(); }
  pplx::task<int_type> _ungetc() override { return Eof(); }
  pplx::task<size_t> _getn(uint8_t*, size_t) override { return pplx::task_from_result<size_t>(0); }
  size_t _scopy(uint8_t*, size_t) override { return 0; }
  pplx::task<bool> _sync() override { return pplx::task_from_result(true); }
  uint8_t* _alloc(size_t) override { return nullptr; }
  void _commit(size_t) override {}

 private:
  static pplx::task<int_type> Eof() { return pplx::task_from_result<int_type>(traits::eof()); }
  bool Write(const uint8_t* ptr, size_t count) {
    total_ += static_cast<off_type>(count);
    return call_->OnData({reinterpret_cast<const char*>(ptr), count});
  }

  std::shared_ptr<Call> call_;
  off_type total_ = 0;
};

Error ToError(const Call& call, const std::string& what) {
  const std::string where = call.request.method + " " + call.request.target + ": ";
  if (call.cancelled) {
    return {ErrorCode::kCancelled, where + "cancelled", 0, {}};
  }
  if (call.too_large) {
    return {ErrorCode::kDecode, where + "the answer is too large", 0, {}};
  }
  std::string hint;
  if (what.find("handshake") != std::string::npos ||
      what.find("certificate") != std::string::npos) {
    hint = " (check certificate-authority and tls-server-name)";
  }
  return {ErrorCode::kUnavailable, where + what + hint, 0, {}};
}

// --- the transport ------------------------------------------------------------------------------

// Held by every task chain; the transport waits for them in Close.
class Core : public std::enable_shared_from_this<Core> {
 public:
  Core(const ClusterAccess& access, TransportOptions options,
       const web::http::client::http_client_config& config, const std::string& base,
       std::string prefix)
      : options_(std::move(options)),
        prefix_(std::move(prefix)),
        host_header_(access.tls_server_name),
        token_(access),
        client_(utility::string_t(base), config) {
    helper_ = std::thread([this] { Help(); });
  }

  RequestId Add(HttpRequest request, bool stream, std::function<void(Result<HttpResponse>)> done,
                std::function<void(std::string_view)> on_lines) {
    auto call = std::make_shared<Call>();
    call->request = std::move(request);
    call->stream = stream;
    call->done = std::move(done);
    call->on_lines = std::move(on_lines);
    call->Touch();
    bool launch = false;
    RequestId id = 0;
    {
      const std::lock_guard lock(mutex_);
      id = call->id = next_id_++;
      if (closed_) {
        call->cancelled = true;
        orphans_.push_back(call);
        wake_.notify_one();
        return id;
      }
      calls_[id] = call;
      call->deadline = deadlines_.emplace(SteadyClock::now() + call->request.timeout, call);
      if (*call->deadline == deadlines_.begin()) {
        wake_.notify_one();
      }
      if (stream) {
        launch = true;
      } else if (in_flight_ < options_.max_connections) {
        ++in_flight_;
        launch = true;
      } else {
        queue_.push_back(call);
      }
    }
    if (launch) {
      Launch(call);
    }
    return id;
  }

  void Cancel(RequestId id) {
    std::shared_ptr<Call> call;
    {
      const std::lock_guard lock(mutex_);
      const auto it = calls_.find(id);
      if (it == calls_.end()) {
        return;
      }
      call = it->second;
      call->cancelled = true;
      if (RemoveQueued(call)) {
        orphans_.push_back(call);
        wake_.notify_one();
        return;
      }
    }
    call->cancel.cancel();
  }

  void Close() {
    std::vector<std::shared_ptr<Call>> running;
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      for (const std::shared_ptr<Call>& call : queue_) {
        call->cancelled = true;
        Forget(*call);
        orphans_.push_back(call);
      }
      queue_.clear();
      for (const auto& [id, call] : calls_) {
        call->cancelled = true;
        running.push_back(call);
      }
      wake_.notify_one();
    }
    for (const std::shared_ptr<Call>& call : running) {
      call->cancel.cancel();
    }
    std::unique_lock lock(mutex_);
    // A name look-up can't be cancelled; such a chain is left to itself after a while (it holds
    // this object) and its caller is told.
    if (!idle_.wait_for(lock, std::chrono::seconds(5),
                        [this] { return calls_.empty() && orphans_.empty(); })) {
      for (const auto& [id, call] : calls_) {
        orphans_.push_back(call);
      }
      wake_.notify_one();
      idle_.wait(lock, [this] { return orphans_.empty(); });
    }
  }

  // After it nothing is called back any more.
  void Shutdown() {
    Close();
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      wake_.notify_one();
    }
    helper_.join();
  }

 private:
  // Starts the request on the calling thread; everything later happens on the library's pool.
  void Launch(const std::shared_ptr<Call>& call) {
    auto self = shared_from_this();
    try {
      web::http::http_request message(utility::string_t(call->request.method));
      message.set_request_uri(web::uri(prefix_ + call->request.target));
      auto& headers = message.headers();
      headers.add("Accept", "application/json");
      headers.add("User-Agent", options_.user_agent);
      if (!host_header_.empty()) {
        headers.add("Host", host_header_);  // also the name that the certificate must carry
      }
      if (const std::string token = token_.Get(); !token.empty()) {
        headers.add("Authorization", "Bearer " + token);
      }
      if (!call->request.body.empty()) {
        message.set_body(std::move(call->request.body), call->request.content_type);
      }
      message.set_response_stream(concurrency::streams::ostream(
          concurrency::streams::streambuf<uint8_t>(std::make_shared<Sink>(call))));
      client_.request(std::move(message), call->cancel.get_token())
          .then([call](pplx::task<web::http::http_response> task) {
            const web::http::http_response response = task.get();
            std::optional<std::chrono::milliseconds> after;
            const auto header = response.headers().find("Retry-After");
            if (header != response.headers().end()) {
              const int64_t seconds = ::strtoll(header->second.c_str(), nullptr, 10);
              if (seconds > 0 && seconds < 3600) {
                after = std::chrono::seconds(seconds);
              }
            }
            call->OnHeaders(response.status_code(), after);
            return response.content_ready();
          })
          .then([self, call](pplx::task<web::http::http_response> task) {
            std::string what;
            try {
              task.get();
            } catch (const std::exception& e) {
              what = e.what();
              if (what.empty()) {
                what = "connection failed";
              }
            } catch (...) {
              what = "cancelled";
            }
            self->Finish(call, what);
          });
    } catch (const std::exception& e) {
      Finish(call, e.what());
    }
  }

  void Finish(const std::shared_ptr<Call>& call, const std::string& what) {
    {
      std::unique_lock lock(call->delivery);
      if (call->status == 401) {
        token_.OnUnauthorized();
      }
      if (!what.empty() || call->cancelled || call->too_large) {
        const Error error = ToError(*call, what);
        lock.unlock();
        call->End(Fail(error));
      } else {
        HttpResponse response{call->status, call->body.Take(), call->retry_after};
        lock.unlock();
        call->End(std::move(response));
      }
    }
    std::shared_ptr<Call> next;
    {
      const std::lock_guard lock(mutex_);
      Forget(*call);
      if (!call->stream) {
        if (queue_.empty()) {
          --in_flight_;
        } else {
          next = queue_.front();
          queue_.pop_front();
        }
      }
      if (calls_.empty()) {
        idle_.notify_all();
      }
    }
    if (next != nullptr) {
      Launch(next);
    }
  }

  bool RemoveQueued(const std::shared_ptr<Call>& call) {  // REQUIRES: mutex_ held
    const auto it = std::find(queue_.begin(), queue_.end(), call);
    if (it == queue_.end()) {
      return false;
    }
    queue_.erase(it);
    Forget(*call);
    return true;
  }

  void Forget(Call& call) {  // REQUIRES: mutex_ held
    calls_.erase(call.id);
    if (call.deadline.has_value()) {
      deadlines_.erase(*call.deadline);
      call.deadline.reset();
    }
  }

  // The helper thread: deadlines, and callbacks of requests that never reached the library.
  void Help() {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      if (!orphans_.empty()) {
        const std::vector<std::shared_ptr<Call>> orphans = orphans_;
        lock.unlock();
        for (const std::shared_ptr<Call>& call : orphans) {
          call->End(Fail(ErrorCode::kCancelled,
                         call->request.method + " " + call->request.target + ": cancelled"));
        }
        lock.lock();
        orphans_.erase(orphans_.begin(), orphans_.begin() + static_cast<ptrdiff_t>(orphans.size()));
        idle_.notify_all();
        continue;
      }
      const SteadyTime now = SteadyClock::now();
      if (!deadlines_.empty() && deadlines_.begin()->first <= now) {
        const std::shared_ptr<Call> call = deadlines_.begin()->second;
        deadlines_.erase(deadlines_.begin());
        call->deadline.reset();
        const SteadyTime active{SteadyClock::duration(call->last_activity.load())};
        if (call->stream && active + call->request.timeout > now) {
          call->deadline = deadlines_.emplace(active + call->request.timeout, call);
          continue;
        }
        RemoveQueued(call);
        lock.unlock();
        call->End(
            Fail(ErrorCode::kTimeout, call->request.method + " " + call->request.target + ": no " +
                                          (call->stream ? "data" : "answer") + " within " +
                                          std::to_string(call->request.timeout.count()) + " ms"));
        call->cancel.cancel();
        lock.lock();
        idle_.notify_all();
        continue;
      }
      if (deadlines_.empty()) {
        wake_.wait(lock);
      } else {
        const SteadyTime next = deadlines_.begin()->first;  // a copy: the entry may go meanwhile
        wake_.wait_until(lock, next);
      }
    }
  }

  const TransportOptions options_;
  const std::string prefix_;
  const std::string host_header_;
  TokenSource token_;
  web::http::client::http_client client_;

  std::mutex mutex_;
  std::condition_variable wake_;                      // helper thread
  std::condition_variable idle_;                      // Close
  std::map<RequestId, std::shared_ptr<Call>> calls_;  // queued and running
  std::deque<std::shared_ptr<Call>> queue_;
  std::vector<std::shared_ptr<Call>> orphans_;
  Deadlines deadlines_;
  int in_flight_ = 0;  // without streams
  RequestId next_id_ = 1;
  bool closed_ = false;
  bool stop_ = false;
  std::thread helper_;
};

class CpprestTransport final : public Transport {
 public:
  explicit CpprestTransport(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  ~CpprestTransport() override { core_->Shutdown(); }

  RequestId Send(HttpRequest request, std::function<void(Result<HttpResponse>)> done) override {
    return core_->Add(std::move(request), /*stream=*/false, std::move(done), {});
  }
  RequestId OpenStream(HttpRequest request, StreamCallbacks callbacks) override {
    return core_->Add(std::move(request), /*stream=*/true, std::move(callbacks.on_end),
                      std::move(callbacks.on_lines));
  }
  void Cancel(RequestId id) override { core_->Cancel(id); }
  void Close() override { core_->Close(); }

 private:
  std::shared_ptr<Core> core_;
};

void PrepareProcess(int threads) {
  static std::once_flag once;
  std::call_once(once, [threads] {
    ::setenv("SSL_CERT_FILE", "/nonexistent/ca.pem", /*overwrite=*/1);
    ::setenv("SSL_CERT_DIR", "/nonexistent", /*overwrite=*/1);
    try {
      crossplat::threadpool::initialize_with_threads(static_cast<size_t>(threads));
    } catch (const std::exception&) {
      // somebody used the pool before: it works with its own number
    }
  });
}

}  // namespace

Result<std::unique_ptr<Transport>> MakeCpprestTransport(const ClusterAccess& access,
                                                        const TransportOptions& options) {
  TRY(CheckUsable(access));
  TRY_ASSIGN(std::shared_ptr<const ClientTls> tls, ClientTls::Make(access));
  PrepareProcess(options.threads);
  try {
    const web::uri server{utility::string_t(access.server)};
    if ((server.scheme() != "https" && server.scheme() != "http") || server.host().empty()) {
      return Fail(ErrorCode::kInvalid, "server: '" + access.server +
                                           "' is not an address of the form https://host:port");
    }
    std::string prefix = server.path();
    while (!prefix.empty() && prefix.back() == '/') {
      prefix.pop_back();
    }
    web::http::client::http_client_config config;
    config.set_timeout(kLibraryTimeout);
    config.set_validate_certificates(!access.insecure);
    config.set_max_redirects(0);
    config.set_ssl_context_callback(
        [tls](boost::asio::ssl::context& context) { tls->Apply(context.native_handle()); });
    auto core = std::make_shared<Core>(access, options, config, server.authority().to_string(),
                                       std::move(prefix));
    return std::unique_ptr<Transport>(std::make_unique<CpprestTransport>(std::move(core)));
  } catch (const std::exception& e) {
    return Fail(ErrorCode::kInvalid, "server: '" + access.server + "': " + e.what());
  }
}

}  // namespace tutti::kube
