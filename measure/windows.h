// SPDX-License-Identifier: Apache-2.0
// A ledger cut into windows of time. Pure. Only what was watched counts; whether a start is partial
// and for how long is the answer of audit::Follow.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "audit/histories.h"
#include "audit/prices.h"
#include "measure/ledger.h"

namespace tutti::measure {

// Accelerators x time, and what that costs. Seconds are counted in microseconds and shown in hours.
struct Share {
  int64_t device_seconds = 0;
  audit::Money cost;
  Share& operator+=(const Share& other);
};

// Times that jobs of several pods waited, from their creation until all pods first had a node.
struct Waits {
  size_t jobs = 0;
  Duration p50{};
  Duration p90{};
  Duration longest{};
};

// Jobs by the accelerators that they ask for: none, 1-7, 8, 9-16, 17-64, more.
inline constexpr size_t kSizes = 6;
[[nodiscard]] const std::array<const char*, kSizes>& SizeNames();

struct Window {
  Time from;
  Time to;
  Duration watched{};  // of it
  bool sampled = false;

  size_t created = 0;              // jobs of several pods
  size_t started = 0;              // that can be judged: their first pod got a node in this window
  size_t partial = 0;              // of these, partially
  size_t restarted_partially = 0;  // started before, and again, partially
  size_t lost = 0;                 // times that a job lost a member and went on in part
  Duration partial_time{};

  Share asked;         // by jobs of several pods that are not over: running or waiting
  Share whole;         // held by those that were whole
  Share partially;     // held by those that were not whole yet
  Share lost_members;  // held by those that had lost a member
  Share others;        // held by pods that work alone, and by jobs that can't be judged
  Share supply;        // of the nodes
  Waits waits;
  size_t waiting = 0;  // at its end
  Duration longest_waiting{};
  std::map<std::string, size_t> evictions;      // by reason
  std::map<std::string, size_t> pods_taken;     // by reason, of jobs of several pods
  std::array<size_t, kSizes> sizes{};           // of `created`
  std::array<int64_t, kSizes> asked_by_size{};  // device-seconds

  [[nodiscard]] int64_t Held() const;    // device-seconds
  [[nodiscard]] int64_t Wasted() const;  // held by jobs that were not whole
};

// What windows are made from: the ledger and the starts in it.
class Windows {
 public:
  Windows(Recorded recorded, audit::Prices prices, const audit::HistoryOptions& options);

  [[nodiscard]] Window Cut(Time from, Time to) const;
  // From the first to the last moment that was watched.
  [[nodiscard]] Time Begin() const;
  [[nodiscard]] Time End() const { return recorded_.facts.now; }
  [[nodiscard]] const Recorded& recorded() const { return recorded_; }
  [[nodiscard]] const audit::Prices& prices() const { return prices_; }
  [[nodiscard]] Duration Tolerance() const { return options_.tolerance; }
  // What stands in the way of trusting the numbers, for people.
  [[nodiscard]] std::vector<std::string> Notes(const Window& window) const;

 private:
  // Parts of [begin, end) that were watched and are in the window.
  template <typename Take>
  void Watched(const Window& window, Time begin, Time end, Take take) const;
  void CountGang(Window& out, size_t index) const;
  void CountHeld(Window& out, const audit::PodTimes& pod, Time end,
                 const audit::GangHistory* history) const;
  [[nodiscard]] Time EndOf(const audit::Gang& gang) const;

  Recorded recorded_;
  audit::Prices prices_;
  audit::HistoryOptions options_;
  audit::Histories histories_;
};

}  // namespace tutti::measure
