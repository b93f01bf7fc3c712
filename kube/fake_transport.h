// SPDX-License-Identifier: Apache-2.0
// A Transport whose other end is a FakeApiServer: the real client, watchers and executor run
// against it without sockets. Answers are posted to a Loop, so nothing happens inside the calls.
// One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kube/fake_api_server.h"
#include "kube/loop.h"
#include "kube/transport.h"

namespace tutti::kube {

class FakeTransport final : public Transport {
 public:
  FakeTransport(Loop& loop, FakeApiServer& server);
  ~FakeTransport() override;

  RequestId Send(HttpRequest request, std::function<void(Result<HttpResponse>)> done) override;
  RequestId OpenStream(HttpRequest request, StreamCallbacks callbacks) override;
  void Cancel(RequestId id) override;
  void Close() override;  // what is under way ends as kCancelled through the loop

  // Time from a call to its answer, and from a change to its watch event.
  void SetDelay(Duration delay) { delay_ = delay; }
  // Answers instead of the server; nullopt lets the request through.
  using Intercept = std::function<std::optional<Result<HttpResponse>>(const HttpRequest&)>;
  void SetIntercept(Intercept intercept) { intercept_ = std::move(intercept); }
  // Ends all open streams as a broken connection; the next ones work.
  void BreakStreams();
  // Streams stay open, but what would be delivered meanwhile is lost (a dead peer).
  void Freeze(bool frozen) { frozen_ = frozen; }
  void SendBookmarks();
  // A raw line to all open streams, without its '\n'.
  void SendLine(const std::string& line);
  void SetStreamingLists(bool supported) { streaming_lists_ = supported; }
  // What discovery shows: "scheduling.k8s.io/v1alpha2" -> plurals. In order of preference.
  void SetApis(std::vector<std::pair<std::string, std::vector<std::string>>> apis) {
    apis_ = std::move(apis);
  }
  [[nodiscard]] size_t OpenStreams() const { return streams_.size(); }
  [[nodiscard]] const std::vector<std::string>& Requests() const { return requests_; }

 private:
  struct Parsed;
  struct Stream;
  static Parsed ParseTarget(const std::string& target);
  HttpResponse Answer(const HttpRequest& request);
  HttpResponse List(const Parsed& parsed);
  std::optional<HttpResponse> Discover(const std::string& path) const;
  void Later(std::function<void()> fn);
  void Deliver(const std::shared_ptr<Stream>& stream, std::string lines);
  void End(const std::shared_ptr<Stream>& stream, Result<HttpResponse> how);
  void CheckIdle(const std::shared_ptr<Stream>& stream);
  void OnEvent(const FakeApiServer::Event& event);
  static std::string Line(const Stream& stream, const FakeApiServer::Event& event);

  Loop& loop_;
  FakeApiServer& server_;
  Duration delay_{};
  Intercept intercept_;
  bool frozen_ = false;
  bool closed_ = false;
  bool streaming_lists_ = true;
  std::vector<std::pair<std::string, std::vector<std::string>>> apis_;
  RequestId next_id_ = 1;
  std::map<RequestId, std::function<void(Result<HttpResponse>)>> pending_;
  std::map<RequestId, std::shared_ptr<Stream>> streams_;
  std::vector<std::string> requests_;  // "GET /api/v1/…", in order
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace tutti::kube
