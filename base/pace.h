// SPDX-License-Identifier: Apache-2.0
// How often something may be told when the server is busy with what must be done. What is done
// (jobs admitted, started, taken back) is never held back. What is told (reasons for waiting,
// counts of queues, events) is told at once as long as little of it comes; more of it at
// `rest_rate` while nothing is done, and at `busy_rate` otherwise.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/time.h"

namespace tutti {

struct PaceOptions {
  double rest_rate = 100;  // told a second
  double busy_rate = 10;   // the same, for `quiet` after something was done
  double burst = 200;      // told at once
  Duration quiet = std::chrono::milliseconds(500);
};

class Pace {
 public:
  explicit Pace(PaceOptions options = {}) : options_(options), left_(options.burst) {}

  // Something is done now.
  void Act(Time now) {
    Refill(now);
    busy_until_ = std::max(busy_until_, now + options_.quiet);
  }
  // May one be told now? True: it is counted.
  bool Take(Time now) {
    if (!MayTell(now)) {
      return false;
    }
    left_ -= 1;
    return true;
  }
  [[nodiscard]] bool MayTell(Time now) {
    Refill(now);
    return left_ >= 1 - 1e-6;  // sums of rates are not exact
  }
  // When the next one may be told if nothing is done until then; after `now`.
  [[nodiscard]] Time Next(Time now) const {
    Pace then = *this;
    then.Refill(now);
    double missing = 1 - then.left_;
    Time from = now;
    if (now < busy_until_) {
      const double meanwhile = Seconds(busy_until_ - now) * options_.busy_rate;
      if (meanwhile >= missing) {
        return After(now, missing / options_.busy_rate);
      }
      missing -= meanwhile;
      from = busy_until_;
    }
    return After(from, missing / options_.rest_rate);
  }

 private:
  static double Seconds(Duration duration) {
    return std::chrono::duration<double>(duration).count();
  }
  static Time After(Time from, double seconds) {
    return from +
           std::max<Duration>(std::chrono::milliseconds(1),
                              std::chrono::ceil<Duration>(std::chrono::duration<double>(seconds)));
  }
  void Refill(Time now) {
    if (at_ == kNoTime || now <= at_) {
      at_ = std::max(at_, now);
      return;
    }
    const Time busy_end = std::clamp(busy_until_, at_, now);
    left_ +=
        Seconds(busy_end - at_) * options_.busy_rate + Seconds(now - busy_end) * options_.rest_rate;
    left_ = std::min(options_.burst, left_);
    at_ = now;
  }

  PaceOptions options_;
  double left_;  // of what may be told now
  Time at_ = kNoTime;
  Time busy_until_ = kNoTime;
};

}  // namespace tutti
