// SPDX-License-Identifier: Apache-2.0
// The one deciding thread, as kube/ sees it: watchers, executor, lease and events keep all of their
// state on it, I/O threads only post. Two implementations: ThreadLoop for programs, FakeLoop
// (fake_loop.h) with virtual time for tests and the simulator.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/time.h"

namespace tutti::kube {

class Loop {
 public:
  virtual ~Loop() = default;
  // From any thread; functions run in the order in which they were posted.
  virtual void Post(std::function<void()> fn) = 0;
  // From any thread; runs at or after `when` (in order of time, then of posting). There is no way
  // to cancel: whoever posts guards its function with a generation or a weak_ptr.
  virtual void PostAt(Time when, std::function<void()> fn) = 0;
  // Wall clock at the start plus steady progress: never goes backwards. From any thread.
  [[nodiscard]] virtual Time Now() const = 0;
};

// A loop that its owner runs on a thread of its choice.
class ThreadLoop final : public Loop {
 public:
  ThreadLoop();
  void Post(std::function<void()> fn) override;
  void PostAt(Time when, std::function<void()> fn) override;
  [[nodiscard]] Time Now() const override;

  void Run();                         // until Stop; what was posted before Stop still runs
  void Stop();                        // from any thread
  [[nodiscard]] bool OnLoop() const;  // true on the thread that is inside Run

 private:
  const Time wall_start_;
  const std::chrono::steady_clock::time_point steady_start_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::function<void()>> queue_;
  std::multimap<Time, std::function<void()>> timers_;
  bool stop_ = false;
  std::thread::id thread_;
};

}  // namespace tutti::kube
