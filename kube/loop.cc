// SPDX-License-Identifier: Apache-2.0
#include "kube/loop.h"

#include <ctime>

namespace tutti::kube {
namespace {

// Goes on while the machine sleeps, unlike steady_clock itself: a term of leadership must not
// outlive a nap.
std::chrono::steady_clock::time_point SinceBoot() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::steady_clock::time_point(std::chrono::seconds(now.tv_sec) +
                                               std::chrono::nanoseconds(now.tv_nsec));
}

}  // namespace

ThreadLoop::ThreadLoop()
    : wall_start_(std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now())),
      steady_start_(SinceBoot()) {}

Time ThreadLoop::Now() const {
  return wall_start_ + std::chrono::duration_cast<Duration>(SinceBoot() - steady_start_);
}

void ThreadLoop::Post(std::function<void()> fn) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(fn));
  }
  wake_.notify_one();
}

void ThreadLoop::PostAt(Time when, std::function<void()> fn) {
  {
    const std::lock_guard lock(mutex_);
    timers_.emplace(when, std::move(fn));
  }
  wake_.notify_one();
}

void ThreadLoop::Run() {
  std::unique_lock lock(mutex_);
  thread_ = std::this_thread::get_id();
  for (;;) {
    const Time now = Now();
    while (!timers_.empty() && timers_.begin()->first <= now) {
      queue_.push_back(std::move(timers_.begin()->second));
      timers_.erase(timers_.begin());
    }
    if (!queue_.empty()) {
      std::vector<std::function<void()>> batch;
      batch.swap(queue_);
      lock.unlock();
      for (std::function<void()>& fn : batch) {
        fn();
        fn = nullptr;
      }
      lock.lock();
      continue;
    }
    if (stop_) {
      break;
    }
    if (timers_.empty()) {
      wake_.wait(lock);
    } else {
      wake_.wait_for(lock, timers_.begin()->first - now);
    }
  }
  stop_ = false;
  thread_ = {};
}

void ThreadLoop::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
}

bool ThreadLoop::OnLoop() const {
  const std::lock_guard lock(mutex_);
  return thread_ == std::this_thread::get_id();
}

}  // namespace tutti::kube
