// SPDX-License-Identifier: Apache-2.0
#include "kube/fake_loop.h"

namespace tutti::kube {

void FakeLoop::RunPosted() {
  while (!queue_.empty()) {
    const std::function<void()> fn = std::move(queue_.front());
    queue_.pop_front();
    fn();
  }
}

void FakeLoop::Advance(Duration by) {
  const Time end = now_ + by;
  RunPosted();
  while (!timers_.empty() && timers_.begin()->first <= end) {
    Step();
  }
  now_ = end;
}

bool FakeLoop::Step() {
  RunPosted();
  if (timers_.empty()) {
    return false;
  }
  now_ = std::max(now_, timers_.begin()->first);
  const std::function<void()> fn = std::move(timers_.begin()->second);
  timers_.erase(timers_.begin());
  fn();
  RunPosted();
  return true;
}

}  // namespace tutti::kube
