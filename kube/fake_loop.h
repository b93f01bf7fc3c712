// SPDX-License-Identifier: Apache-2.0
// A Loop with virtual time on the caller's thread: tests and the simulator decide when time passes.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <utility>

#include "kube/loop.h"

namespace tutti::kube {

class FakeLoop final : public Loop {
 public:
  explicit FakeLoop(Time now = Time{std::chrono::hours(24 * 365 * 56)}) : now_(now) {}
  void Post(std::function<void()> fn) override { queue_.push_back(std::move(fn)); }
  void PostAt(Time when, std::function<void()> fn) override {
    timers_.emplace(when, std::move(fn));
  }
  [[nodiscard]] Time Now() const override { return now_; }

  // Runs what is posted, and what that posts, without letting time pass.
  void RunPosted();
  // Lets time pass, running timers in order, each at its own time.
  void Advance(Duration by);
  // Jumps to the next timer and runs it; false when there is none.
  bool Step();
  [[nodiscard]] size_t Timers() const { return timers_.size(); }

 private:
  Time now_;
  std::deque<std::function<void()>> queue_;
  std::multimap<Time, std::function<void()>> timers_;
};

}  // namespace tutti::kube
