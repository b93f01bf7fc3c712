// SPDX-License-Identifier: Apache-2.0
// Carries out writes: in order per key with one in flight, keys side by side up to an adaptive cap,
// with retries by class of error. Lives on the loop thread; outcomes are delivered there. Losing
// the lease (Stop) drops everything that hasn't been sent.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "api/request.h"
#include "base/json.h"
#include "base/result.h"
#include "base/time.h"
#include "kube/loop.h"

namespace tutti::kube {

struct WriteOutcome {
  uint64_t token = 0;
  Result<Json> result;  // the object after the last request, or the error of the one that failed
  std::vector<Json> answers;  // of the requests that succeeded, in order, the last one included
  size_t done = 0;            // requests of the batch that succeeded; the rest was not sent
  int attempts = 0;           // of all requests together
  // AlreadyExists, Conflict or NotFound after an attempt whose outcome was unknown: that attempt
  // may have been carried out.
  bool maybe_ours = false;
};

enum class WritePriority { kNormal, kBackground };  // background: at most a quarter of the cap

// One attempt, for metrics.
struct WriteSample {
  api::Verb verb = api::Verb::kMergePatch;
  std::string_view resource;  // plural
  std::string_view subresource;
  std::string_view code;  // "OK" or the name of the ErrorCode
  Duration latency{};
};

struct ExecutorOptions {
  int max_in_flight = 16;
  int min_in_flight = 2;
  Duration slow = std::chrono::seconds(2);  // an answer slower than this shrinks the cap
  Duration backoff_min = std::chrono::milliseconds(250);
  Duration backoff_max = std::chrono::seconds(15);
  int max_attempts = 12;         // per request; then the error goes to the submitter
  size_t max_background = 1000;  // queued background batches; more end as kThrottled at once
};

class Executor {
 public:
  using DoFn = std::function<void(const api::WriteRequest&, std::function<void(Result<Json>)>)>;
  using DoneFn = std::function<void(const WriteOutcome&)>;

  // `send` may answer on any thread (Client::Do) or at once (FakeApiServer::Do).
  Executor(Loop& loop, DoFn send, ExecutorOptions options = {});
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Batches of one key run one after the other; inside a batch the first error ends it.
  // Throttled, Unavailable and Timeout are retried with back-off; everything else is returned at
  // once. While stopped the outcome is kCancelled. `done` may be empty and never runs inside
  // Submit.
  void Submit(std::string key, std::vector<api::WriteRequest> batch, uint64_t token, DoneFn done,
              WritePriority priority = WritePriority::kNormal);

  void Start();  // accepts work (a new executor is started)
  // Everything not yet sent ends as kCancelled; what is in flight still reports, without retries
  // and without the rest of its batch.
  void Stop();
  // Checked before each send; false works like Stop for that request. For the lease's deadline.
  void SetFence(std::function<bool(Time now)> may_write);
  void SetSampleHook(std::function<void(const WriteSample&)> hook);
  // `done` runs on the loop when nothing is queued or in flight any more.
  void DrainAll(std::function<void()> done);

  [[nodiscard]] bool Busy(const std::string& key) const;
  [[nodiscard]] size_t Queued() const;  // batches, not counting those in flight
  [[nodiscard]] int InFlight() const;
  [[nodiscard]] int Cap() const;          // now
  [[nodiscard]] uint64_t Writes() const;  // attempts so far

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace tutti::kube
