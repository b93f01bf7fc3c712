// SPDX-License-Identifier: Apache-2.0
#include "kube/lease.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace tutti::kube {
namespace {

constexpr double kJitter = 1.2;  // attempts of those who don't hold it: 1 to 2.2 periods apart

}  // namespace

Status Check(const LeaseOptions& options) {
  if (options.identity.empty()) {
    return Fail(ErrorCode::kInvalid, "leader election: the identity is empty");
  }
  if (options.key.name.empty() || options.key.ns.empty()) {
    return Fail(ErrorCode::kInvalid,
                "leaderElection.resourceName and resourceNamespace must be set");
  }
  if (options.retry_period <= Duration::zero()) {
    return Fail(ErrorCode::kInvalid, "leaderElection.retryPeriod must be above zero");
  }
  if (options.renew_deadline <=
      Duration(static_cast<int64_t>(kJitter * static_cast<double>(options.retry_period.count())))) {
    return Fail(ErrorCode::kInvalid,
                "leaderElection.renewDeadline must be more than 1.2 times retryPeriod");
  }
  if (options.lease_duration <= options.renew_deadline ||
      options.lease_duration < std::chrono::seconds(1)) {
    return Fail(ErrorCode::kInvalid,
                "leaderElection.leaseDuration must be longer than renewDeadline and at least 1s");
  }
  return {};
}

LeaseMachine::LeaseMachine(LeaseOptions options)
    : options_(std::move(options)), random_(options_.seed) {}

LeaseMachine::Next LeaseMachine::Start(Time now) {
  request_started_ = now;
  return {Next::Do::kGet, {}, kNoTime};
}

LeaseMachine::Next LeaseMachine::OnTimer(Time now) {
  if (IsLeader(now) && !observed_.IsNull()) {
    return TryWrite(now);  // as long as nobody else writes, no read is needed
  }
  leading_ = leading_ && now < deadline_;
  request_started_ = now;
  return {Next::Do::kGet, {}, kNoTime};
}

LeaseMachine::Next LeaseMachine::Wait(Time now) {
  Duration wait = options_.retry_period;
  if (!IsLeader(now)) {
    random_ = random_ * 6364136223846793005ULL + 1442695040888963407ULL;
    const double share = static_cast<double>(random_ >> 11) / static_cast<double>(1ULL << 53);
    wait += Duration(static_cast<int64_t>(share * kJitter * static_cast<double>(wait.count())));
  }
  return {Next::Do::kWait, {}, now + wait};
}

void LeaseMachine::Observe(const Json& lease, Time now) {
  // A term counts from our last sight of a change; the clock of the holder plays no part.
  if (observed_.IsNull() || !(observed_["spec"] == lease["spec"])) {
    observed_at_ = now;
  }
  observed_ = lease;
  const Json& spec = lease["spec"];
  holder_ = spec["holderIdentity"].AsString();
  transitions_ = spec["leaseTransitions"].AsInt();
  acquire_time_ = spec["acquireTime"].AsString();
}

LeaseMachine::Next LeaseMachine::OnGet(const Result<Json>& lease, Time now) {
  if (!lease) {
    if (lease.error().code == ErrorCode::kNotFound && !releasing_) {
      observed_ = Json();
      holder_.clear();
      return TryWrite(now);
    }
    return releasing_ ? Next{Next::Do::kStopped, {}, kNoTime} : Wait(now);
  }
  Observe(*lease, now);
  if (holder_ != options_.identity) {
    leading_ = false;
    if (releasing_) {
      return {Next::Do::kStopped, {}, kNoTime};
    }
    const Duration term = std::chrono::seconds((*lease)["spec"]["leaseDurationSeconds"].AsInt());
    if (!holder_.empty() && now < observed_at_ + term) {
      return Wait(now);
    }
  }
  return TryWrite(now);
}

Json LeaseMachine::Spec(Time now) const {
  const bool renewal = holder_ == options_.identity && !observed_.IsNull();
  Json spec = Json::Obj();
  const int64_t seconds =
      std::chrono::duration_cast<std::chrono::seconds>(options_.lease_duration).count();
  spec.Set("holderIdentity", releasing_ ? std::string() : options_.identity);
  spec.Set("leaseDurationSeconds", releasing_ ? int64_t{1} : seconds);
  spec.Set("acquireTime",
           renewal && !releasing_ && !acquire_time_.empty() ? acquire_time_ : FormatMicroTime(now));
  spec.Set("renewTime", FormatMicroTime(now));
  spec.Set("leaseTransitions",
           observed_.IsNull() ? int64_t{0} : (renewal ? transitions_ : transitions_ + 1));
  return spec;
}

LeaseMachine::Next LeaseMachine::TryWrite(Time now) {
  request_started_ = now;
  Next next;
  next.what = Next::Do::kWrite;
  next.write.resource = api::ResourceOf(api::Kind::kLease);
  next.write.key = options_.key;
  if (observed_.IsNull()) {
    next.write.verb = api::Verb::kCreate;
    next.write.body = Json::Obj(
        {{"apiVersion", "coordination.k8s.io/v1"},
         {"kind", "Lease"},
         {"metadata", Json::Obj({{"namespace", options_.key.ns}, {"name", options_.key.name}})}});
  } else {
    next.write.verb = api::Verb::kUpdate;  // observed_ carries the resourceVersion
    next.write.body = observed_;
  }
  next.write.body.Set("spec", Spec(now));
  return next;
}

LeaseMachine::Next LeaseMachine::OnWritten(const Result<Json>& lease, Time now) {
  if (lease) {
    Observe(*lease, now);
    if (releasing_) {
      return {Next::Do::kStopped, {}, kNoTime};
    }
    // The server counted from some moment after the request was sent, so this is on the safe side.
    deadline_ = request_started_ + options_.renew_deadline;
    leading_ = now < deadline_;
    return leading_ ? Wait(now) : TryWrite(now);
  }
  const ErrorCode code = lease.error().code;
  const bool changed = code == ErrorCode::kConflict || code == ErrorCode::kAlreadyExists ||
                       code == ErrorCode::kNotFound;
  if (changed || code == ErrorCode::kUnavailable || code == ErrorCode::kTimeout) {
    observed_ = Json();  // somebody wrote, maybe we: look before the next attempt
  }
  if (releasing_) {
    if (changed && release_tries_++ < 2) {
      request_started_ = now;
      return {Next::Do::kGet, {}, kNoTime};
    }
    return {Next::Do::kStopped, {}, kNoTime};
  }
  leading_ = leading_ && now < deadline_;
  return Wait(now);
}

LeaseMachine::Next LeaseMachine::Release(Time now) {
  const bool ours = holder_ == options_.identity;
  releasing_ = true;
  leading_ = false;
  deadline_ = kNoTime;
  if (!ours) {
    return {Next::Do::kStopped, {}, kNoTime};
  }
  if (observed_.IsNull()) {
    request_started_ = now;
    return {Next::Do::kGet, {}, kNoTime};
  }
  return TryWrite(now);
}

// --- driver -------------------------------------------------------------------------------------

class LeaderElector::Driver : public std::enable_shared_from_this<Driver> {
 public:
  Driver(Loop& loop, GetFn get, WriteFn write, LeaseOptions options, Callbacks callbacks)
      : loop_(loop),
        get_(std::move(get)),
        write_(std::move(write)),
        options_(options),
        machine_(std::move(options)),
        callbacks_(std::move(callbacks)) {}

  void Start() { Act(machine_.Start(loop_.Now())); }

  void Stop(std::function<void()> done) {
    if (stopping_ || stopped_) {
      loop_.Post(std::move(done));
      return;
    }
    stopping_ = true;
    stopped_done_ = std::move(done);
    // What is under way belongs to the old generation; a renewal that still gets through shows up
    // as a conflict of the release, which looks again.
    ++generation_;
    const LeaseMachine::Next next = machine_.Release(loop_.Now());
    SayIfLost();
    Act(next);
  }

  void Forget() { stopped_ = true; }
  [[nodiscard]] bool IsLeader() const { return !stopped_ && machine_.IsLeader(loop_.Now()); }
  [[nodiscard]] const std::string& Holder() const { return machine_.Holder(); }

 private:
  template <typename Fn>
  auto Later(Fn fn) {
    return [weak = weak_from_this(), generation = generation_, fn = std::move(fn)] {
      const std::shared_ptr<Driver> self = weak.lock();
      if (self != nullptr && !self->stopped_ && self->generation_ == generation) {
        fn(*self);
      }
    };
  }

  using Step = LeaseMachine::Next (LeaseMachine::*)(const Result<Json>&, Time);

  JsonCallback Answer(Step step) {
    return [weak = weak_from_this(), generation = generation_, loop = &loop_,
            step](Result<Json> result) {  // any thread
      auto shared = std::make_shared<Result<Json>>(std::move(result));
      loop->Post([weak, generation, shared, step] {
        const std::shared_ptr<Driver> self = weak.lock();
        if (self != nullptr && !self->stopped_ && self->generation_ == generation) {
          if (!*shared && shared->error().code != ErrorCode::kNotFound) {
            log::Warn("leader election", {{"error", shared->error().message}});
          }
          self->Act((self->machine_.*step)(*shared, self->loop_.Now()));
        }
      });
    };
  }

  void Act(const LeaseMachine::Next& next) {
    Say();
    if (stopped_) {
      return;
    }
    ++generation_;
    switch (next.what) {
      case LeaseMachine::Next::Do::kGet:
        get_(options_.key, Answer(&LeaseMachine::OnGet));
        break;
      case LeaseMachine::Next::Do::kWrite:
        write_(next.write, Answer(&LeaseMachine::OnWritten));
        break;
      case LeaseMachine::Next::Do::kWait:
        loop_.PostAt(next.until, Later([](Driver& self) {
                       self.Act(self.machine_.OnTimer(self.loop_.Now()));
                     }));
        break;
      case LeaseMachine::Next::Do::kStopped:
        stopped_ = true;
        if (stopped_done_) {
          loop_.Post(std::move(stopped_done_));
        }
        break;
    }
  }

  void SayIfLost() {
    if (leading_ && !machine_.IsLeader(loop_.Now())) {
      leading_ = false;
      callbacks_.on_lost();
    }
  }

  void Say() {
    SayIfLost();
    if (!leading_ && machine_.IsLeader(loop_.Now())) {
      leading_ = true;
      callbacks_.on_acquired();
    }
    if (machine_.Holder() != said_holder_) {
      said_holder_ = machine_.Holder();
      if (callbacks_.on_new_holder && !said_holder_.empty()) {
        callbacks_.on_new_holder(said_holder_);
      }
    }
    // The end of the term is noticed even when an answer never comes.
    if (leading_ && machine_.Deadline() != watched_deadline_) {
      watched_deadline_ = machine_.Deadline();
      loop_.PostAt(watched_deadline_, [weak = weak_from_this()] {
        const std::shared_ptr<Driver> self = weak.lock();
        if (self != nullptr && !self->stopped_) {
          self->SayIfLost();
        }
      });
    }
  }

  Loop& loop_;
  const GetFn get_;
  const WriteFn write_;
  const LeaseOptions options_;
  LeaseMachine machine_;
  const Callbacks callbacks_;
  uint64_t generation_ = 0;
  bool leading_ = false;  // as told to the callbacks
  bool stopping_ = false;
  bool stopped_ = false;
  std::function<void()> stopped_done_;
  std::string said_holder_;
  Time watched_deadline_ = kNoTime;
};

LeaderElector::LeaderElector(Loop& loop, GetFn get, WriteFn write, LeaseOptions options,
                             Callbacks callbacks)
    : driver_(std::make_shared<Driver>(loop, std::move(get), std::move(write), std::move(options),
                                       std::move(callbacks))) {}

// Requests are cut at half of the deadline, so that one lost answer leaves time for another try.
LeaderElector::LeaderElector(Loop& loop, Client& client, LeaseOptions options, Callbacks callbacks)
    : LeaderElector(
          loop,
          [&client, limit = std::chrono::duration_cast<std::chrono::milliseconds>(
                        options.renew_deadline / 2)](const api::ObjectKey& key, JsonCallback done) {
            client.Get(api::ResourceOf(api::Kind::kLease), key, std::move(done), limit);
          },
          [&client, limit = std::chrono::duration_cast<std::chrono::milliseconds>(
                        options.renew_deadline / 2)](const api::WriteRequest& request,
                                                     JsonCallback done) {
            client.Do(request, std::move(done), limit);
          },
          options, std::move(callbacks)) {}

LeaderElector::~LeaderElector() {
  driver_->Forget();
}

void LeaderElector::Start() {
  driver_->Start();
}
void LeaderElector::Stop(std::function<void()> done) {
  driver_->Stop(std::move(done));
}
bool LeaderElector::IsLeader() const {
  return driver_->IsLeader();
}
std::string LeaderElector::Holder() const {
  return driver_->Holder();
}

}  // namespace tutti::kube
