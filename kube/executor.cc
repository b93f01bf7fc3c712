// SPDX-License-Identifier: Apache-2.0
#include "kube/executor.h"

#include <algorithm>
#include <utility>

namespace tutti::kube {
namespace {

// One congestion counts once, though many answers carry it.
constexpr Duration kShrinkInterval = std::chrono::milliseconds(500);

bool Retryable(ErrorCode code) {
  return code == ErrorCode::kThrottled || code == ErrorCode::kUnavailable ||
         code == ErrorCode::kTimeout;
}

}  // namespace

class Executor::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(Loop& loop, DoFn send, ExecutorOptions options)
      : loop_(loop),
        send_(std::move(send)),
        options_(options),
        cap_(static_cast<double>(options.max_in_flight)) {}

  void Submit(std::string key, std::vector<api::WriteRequest> requests, uint64_t token, DoneFn done,
              WritePriority priority) {
    Batch batch;
    batch.requests = std::move(requests);
    batch.token = token;
    batch.done = std::move(done);
    batch.priority = priority;
    if (stopped_) {
      ReportLater(std::move(batch),
                  Fail(ErrorCode::kCancelled, "not the leader, or shutting down"));
      return;
    }
    if (batch.requests.empty()) {
      ReportLater(std::move(batch), Json());
      return;
    }
    if (priority == WritePriority::kBackground) {
      if (background_queued_ >= options_.max_background) {
        ReportLater(std::move(batch), Fail(ErrorCode::kThrottled, "too many background writes"));
        return;
      }
      ++background_queued_;
    }
    ++queued_;
    Lane& lane = lanes_[key];
    lane.queue.push_back(std::move(batch));
    if (lane.state == LaneState::kIdle) {
      MakeReady(key, lane);
    }
    Pump();
  }

  void Start() { stopped_ = false; }

  void Stop() {
    stopped_ = true;
    ready_[0].clear();
    ready_[1].clear();
    for (auto it = lanes_.begin(); it != lanes_.end();) {
      Lane& lane = it->second;
      // The first batch of a lane in flight stays: its answer is still to come.
      const size_t keep = lane.state == LaneState::kInFlight ? 1 : 0;
      while (lane.queue.size() > keep) {
        Batch batch = std::move(lane.queue[keep]);
        lane.queue.erase(lane.queue.begin() + static_cast<ptrdiff_t>(keep));
        Uncount(batch);
        ReportLater(std::move(batch),
                    Fail(ErrorCode::kCancelled, "dropped: not the leader any more"));
      }
      lane.generation = ++generations_;  // a back-off's timer finds another one
      if (lane.queue.empty()) {
        it = lanes_.erase(it);
      } else {
        lane.queue.front().dropped = true;
        ++it;
      }
    }
    CheckDrained();
  }

  void SetFence(std::function<bool(Time)> fence) { fence_ = std::move(fence); }
  void SetSampleHook(std::function<void(const WriteSample&)> hook) { hook_ = std::move(hook); }
  void DrainAll(std::function<void()> done) {
    drained_.push_back(std::move(done));
    CheckDrained();
  }

  [[nodiscard]] bool Busy(const std::string& key) const { return lanes_.count(key) != 0; }
  [[nodiscard]] size_t Queued() const { return queued_; }
  [[nodiscard]] int InFlight() const { return in_flight_; }
  [[nodiscard]] int Cap() const { return std::max(options_.min_in_flight, static_cast<int>(cap_)); }
  [[nodiscard]] uint64_t Writes() const { return writes_; }

 private:
  struct Batch {
    std::vector<api::WriteRequest> requests;
    std::vector<Json> answers;
    size_t next = 0;
    uint64_t token = 0;
    DoneFn done;
    WritePriority priority = WritePriority::kNormal;
    int attempts = 0;
    int tries = 0;         // of the present request
    bool unknown = false;  // a try of the present request may have been carried out
    bool dropped = false;  // Stop came while it was in flight
  };
  enum class LaneState { kIdle, kReady, kInFlight, kBackoff };
  struct Lane {
    std::deque<Batch> queue;
    LaneState state = LaneState::kIdle;
    uint64_t generation = 0;
  };

  void MakeReady(const std::string& key, Lane& lane) {
    lane.state = LaneState::kReady;
    ready_[static_cast<size_t>(lane.queue.front().priority)].push_back(key);
  }

  void Uncount(const Batch& batch) {
    --queued_;
    if (batch.priority == WritePriority::kBackground) {
      --background_queued_;
    }
  }

  // Lanes get their turn in the order in which they became ready; background ones when nothing else
  // waits, at most a quarter of the cap at a time.
  void Pump() {
    while (in_flight_ < Cap()) {
      const bool background = ready_[0].empty();
      std::deque<std::string>& ready = ready_[background ? 1 : 0];
      if (ready.empty() || (background && background_in_flight_ >= std::max(1, Cap() / 4))) {
        return;
      }
      const std::string key = std::move(ready.front());
      ready.pop_front();
      Lane& lane = lanes_.at(key);
      if (fence_ && !fence_(loop_.Now())) {
        Batch batch = std::move(lane.queue.front());
        Uncount(batch);
        Finish(key, lane, std::move(batch),
               Fail(ErrorCode::kCancelled, "dropped: the lease is not ours at this moment"));
        continue;
      }
      SendFirst(key, lane);
    }
  }

  void SendFirst(const std::string& key, Lane& lane) {
    Batch& batch = lane.queue.front();
    lane.state = LaneState::kInFlight;
    Uncount(batch);
    ++in_flight_;
    if (batch.priority == WritePriority::kBackground) {
      ++background_in_flight_;
    }
    SendRequest(key, batch);
  }

  void SendRequest(const std::string& key, Batch& batch) {
    ++batch.attempts;
    ++batch.tries;
    ++writes_;
    send_(batch.requests[batch.next], [weak = weak_from_this(), loop = &loop_, key,
                                       started = loop_.Now()](Result<Json> result) {
      // Any thread. The time is taken here: it must not contain the loop's own queue.
      const Duration latency = loop->Now() - started;
      auto shared = std::make_shared<Result<Json>>(std::move(result));
      loop->Post([weak, key, latency, shared] {
        if (const std::shared_ptr<Impl> self = weak.lock()) {
          self->OnAnswer(key, latency, std::move(*shared));
        }
      });
    });
  }

  void OnAnswer(const std::string& key, Duration latency, Result<Json> result) {
    Lane& lane = lanes_.at(key);
    Batch& batch = lane.queue.front();
    Sample(batch.requests[batch.next], latency, result);
    Adapt(latency, result);
    if (result) {
      batch.answers.push_back(*result);
      ++batch.next;
      batch.tries = 0;
      batch.unknown = false;
      if (batch.next < batch.requests.size()) {
        if (batch.dropped || (fence_ && !fence_(loop_.Now()))) {
          result = Fail(ErrorCode::kCancelled, "the rest of the batch was dropped");
        } else {
          SendRequest(key, batch);
          return;
        }
      }
    } else if (!batch.dropped && Retryable(result.error().code) &&
               batch.tries < options_.max_attempts) {
      batch.unknown = batch.unknown || result.error().code != ErrorCode::kThrottled;
      Retry(key, lane, result.error());
      Pump();
      return;
    }
    Batch finished = std::move(batch);
    Release(finished);
    Finish(key, lane, std::move(finished), std::move(result));
    Pump();
  }

  void Release(const Batch& batch) {
    --in_flight_;
    if (batch.priority == WritePriority::kBackground) {
      --background_in_flight_;
    }
  }

  void Retry(const std::string& key, Lane& lane, const Error& error) {
    Batch& batch = lane.queue.front();
    Release(batch);
    ++queued_;
    if (batch.priority == WritePriority::kBackground) {
      ++background_queued_;
    }
    lane.state = LaneState::kBackoff;
    Duration wait = options_.backoff_min;
    for (int i = 1; i < batch.tries && wait < options_.backoff_max; ++i) {
      wait *= 2;
    }
    wait = std::min(wait, options_.backoff_max);
    // Spread by up to a quarter, so that lanes that failed together don't come back together.
    spread_ = spread_ * 6364136223846793005ULL + 1442695040888963407ULL;
    wait += Duration(static_cast<int64_t>(spread_ >> 33) % (wait.count() / 4 + 1));
    if (error.retry_after.has_value()) {
      wait = std::max<Duration>(wait, *error.retry_after);
    }
    const uint64_t generation = lane.generation = ++generations_;
    loop_.PostAt(loop_.Now() + wait, [weak = weak_from_this(), key, generation] {
      const std::shared_ptr<Impl> self = weak.lock();
      if (self == nullptr) {
        return;
      }
      const auto it = self->lanes_.find(key);
      if (it != self->lanes_.end() && it->second.generation == generation &&
          it->second.state == LaneState::kBackoff) {
        self->MakeReady(key, it->second);
        self->Pump();
      }
    });
  }

  // The lane goes on with its next batch; `batch` (moved out of it) is reported.
  void Finish(const std::string& key, Lane& lane, Batch batch, Result<Json> result) {
    lane.queue.pop_front();
    lane.state = LaneState::kIdle;
    lane.generation = ++generations_;
    if (lane.queue.empty()) {
      lanes_.erase(key);
    } else {
      MakeReady(key, lane);
    }
    ReportLater(std::move(batch), std::move(result));
    CheckDrained();
  }

  void ReportLater(Batch batch, Result<Json> result) {
    if (!batch.done) {
      return;
    }
    auto outcome = std::make_shared<WriteOutcome>();
    outcome->token = batch.token;
    outcome->answers = std::move(batch.answers);
    outcome->done = batch.next;
    outcome->attempts = batch.attempts;
    if (!result && batch.unknown) {
      const ErrorCode code = result.error().code;
      outcome->maybe_ours = code == ErrorCode::kAlreadyExists || code == ErrorCode::kConflict ||
                            code == ErrorCode::kNotFound;
    }
    outcome->result = std::move(result);
    loop_.Post([done = std::move(batch.done), outcome] { done(*outcome); });
  }

  void Sample(const api::WriteRequest& request, Duration latency, const Result<Json>& result) {
    if (hook_) {
      hook_({request.verb, request.resource.plural, request.subresource,
             result ? std::string_view("OK") : ToString(result.error().code), latency});
    }
  }

  // Additive growth while the cap is what limits us, a cut when the server says or shows that it
  // is too much.
  void Adapt(Duration latency, const Result<Json>& result) {
    const bool overload =
        latency > options_.slow || (!result && (result.error().code == ErrorCode::kThrottled ||
                                                result.error().code == ErrorCode::kTimeout));
    if (overload) {
      const Time now = loop_.Now();
      if (now - shrunk_at_ >= kShrinkInterval) {
        shrunk_at_ = now;
        cap_ = std::max(static_cast<double>(options_.min_in_flight), cap_ * 0.6);
      }
      return;
    }
    if (in_flight_ >= Cap()) {
      cap_ = std::min(static_cast<double>(options_.max_in_flight), cap_ + 1.0 / cap_);
    }
  }

  void CheckDrained() {
    if (!lanes_.empty() || drained_.empty()) {
      return;
    }
    for (std::function<void()>& done : drained_) {
      loop_.Post(std::move(done));
    }
    drained_.clear();
  }

  Loop& loop_;
  const DoFn send_;
  const ExecutorOptions options_;
  std::function<bool(Time)> fence_;
  std::function<void(const WriteSample&)> hook_;
  std::map<std::string, Lane> lanes_;
  std::array<std::deque<std::string>, 2> ready_;  // keys, by priority
  std::vector<std::function<void()>> drained_;
  double cap_;
  Time shrunk_at_ = kNoTime;
  bool stopped_ = false;
  int in_flight_ = 0;
  int background_in_flight_ = 0;
  size_t queued_ = 0;
  size_t background_queued_ = 0;
  uint64_t writes_ = 0;
  uint64_t generations_ = 0;
  uint64_t spread_ = 1;
};

Executor::Executor(Loop& loop, DoFn send, ExecutorOptions options)
    : impl_(std::make_shared<Impl>(loop, std::move(send), options)) {}
Executor::~Executor() = default;

void Executor::Submit(std::string key, std::vector<api::WriteRequest> batch, uint64_t token,
                      DoneFn done, WritePriority priority) {
  impl_->Submit(std::move(key), std::move(batch), token, std::move(done), priority);
}
void Executor::Start() {
  impl_->Start();
}
void Executor::Stop() {
  impl_->Stop();
}
void Executor::SetFence(std::function<bool(Time now)> may_write) {
  impl_->SetFence(std::move(may_write));
}
void Executor::SetSampleHook(std::function<void(const WriteSample&)> hook) {
  impl_->SetSampleHook(std::move(hook));
}
void Executor::DrainAll(std::function<void()> done) {
  impl_->DrainAll(std::move(done));
}
bool Executor::Busy(const std::string& key) const {
  return impl_->Busy(key);
}
size_t Executor::Queued() const {
  return impl_->Queued();
}
int Executor::InFlight() const {
  return impl_->InFlight();
}
int Executor::Cap() const {
  return impl_->Cap();
}
uint64_t Executor::Writes() const {
  return impl_->Writes();
}

}  // namespace tutti::kube
