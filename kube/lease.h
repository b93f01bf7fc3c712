// SPDX-License-Identifier: Apache-2.0
// Leader election over a coordination.k8s.io/v1 Lease: a pure machine (LeaseMachine) and the driver
// that runs it (LeaderElector). Times of other holders are never compared with our clock: a lease
// is free when it hasn't changed for its own duration by our observation. Our own term ends
// renew_deadline after the START of the last successful renewal, whatever the network does.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "api/meta.h"
#include "api/request.h"
#include "base/json.h"
#include "base/result.h"
#include "base/time.h"
#include "kube/client.h"
#include "kube/loop.h"

namespace tutti::kube {

struct LeaseOptions {
  api::ObjectKey key;    // namespace and name of the Lease
  std::string identity;  // <hostname>_<uuid>, unique per process
  Duration lease_duration = std::chrono::seconds(15);
  Duration renew_deadline = std::chrono::seconds(10);
  Duration retry_period = std::chrono::seconds(2);
  uint64_t seed = 1;  // jitter
};

// kInvalid names the field: duration > deadline > 1.2 * period > 0, identity, key.
Status Check(const LeaseOptions& options);

class LeaseMachine {
 public:
  struct Next {
    enum class Do { kGet, kWrite, kWait, kStopped };
    Do what = Do::kWait;
    api::WriteRequest write;  // kWrite: create or update with resourceVersion
    Time until = kNoTime;  // kWait: call OnTimer then (also while a request is open, see Deadline)
  };

  explicit LeaseMachine(LeaseOptions options);

  Next Start(Time now);
  Next OnTimer(Time now);
  Next OnGet(const Result<Json>& lease, Time now);
  Next OnWritten(const Result<Json>& lease, Time now);
  // Gives the lease up: one write that empties the holder, or kStopped at once.
  Next Release(Time now);

  // True until the deadline of the current term, which passes by itself.
  [[nodiscard]] bool IsLeader(Time now) const { return leading_ && now < deadline_; }
  [[nodiscard]] Time Deadline() const { return deadline_; }            // of the current term
  [[nodiscard]] const std::string& Holder() const { return holder_; }  // as last seen; "" = free
  [[nodiscard]] int64_t Transitions() const { return transitions_; }

 private:
  Next Wait(Time now);
  Next TryWrite(Time now);
  void Observe(const Json& lease, Time now);
  Json Spec(Time now) const;

  LeaseOptions options_;
  bool leading_ = false;
  bool releasing_ = false;
  int release_tries_ = 0;
  Time deadline_ = kNoTime;
  Time request_started_ = kNoTime;
  Json observed_;  // the whole object as last seen; null: none
  Time observed_at_ = kNoTime;
  std::string holder_;
  std::string acquire_time_;
  int64_t transitions_ = 0;
  uint64_t random_;
};

// Loop thread only. `on_lost` runs before anything else that follows from the loss; after it the
// elector tries again, unless stopped.
class LeaderElector {
 public:
  struct Callbacks {
    std::function<void()> on_acquired;
    std::function<void()> on_lost;
    std::function<void(const std::string& holder)> on_new_holder;  // may be empty
  };
  // `get` and `write` may answer on any thread.
  using GetFn = std::function<void(const api::ObjectKey&, std::function<void(Result<Json>)>)>;
  using WriteFn = std::function<void(const api::WriteRequest&, std::function<void(Result<Json>)>)>;

  LeaderElector(Loop& loop, GetFn get, WriteFn write, LeaseOptions options, Callbacks callbacks);
  LeaderElector(Loop& loop, Client& client, LeaseOptions options, Callbacks callbacks);
  ~LeaderElector();
  LeaderElector(const LeaderElector&) = delete;
  LeaderElector& operator=(const LeaderElector&) = delete;

  void Start();
  // on_lost first (when leading), then the lease is emptied, then `done` (also when that fails).
  void Stop(std::function<void()> done);
  [[nodiscard]] bool IsLeader() const;  // by the clock; for Executor::SetFence
  [[nodiscard]] std::string Holder() const;

 private:
  class Driver;
  std::shared_ptr<Driver> driver_;
};

}  // namespace tutti::kube
