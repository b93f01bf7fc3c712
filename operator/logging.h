// SPDX-License-Identifier: Apache-2.0
// The sink of base/log.h: one JSON object per line on stderr, through spdlog (level filter, sink,
// flushing). Every text is escaped here, since spdlog's patterns don't escape. The same error again
// and again is written a few times per interval and then counted. Thread-safe after Install.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/log.h"
#include "base/result.h"
#include "base/time.h"

namespace tutti::logging {

// "debug", "info", "warn", "error", "panic" or a verbosity: 0 and 1 = info, 2 and more = debug
// (the values of --zap-log-level).
Result<log::Level> ParseLevel(std::string_view text);

// {"ts":…,"level":…,"msg":event,…fields}. Bytes that are not UTF-8 become U+FFFD; a field named
// like one of ours gets a "field_" before its name. `suppressed` > 0 adds "suppressed".
std::string FormatLine(Time now, log::Level level, std::string_view event, const log::Field* fields,
                       size_t count, uint64_t suppressed = 0);

// How often the same event may be written: `burst` times per `interval`, the rest is counted and
// the count goes out with the next line that is let through. Not thread-safe.
class RepeatLimiter {
 public:
  explicit RepeatLimiter(int burst = 10, Duration interval = std::chrono::seconds(10))
      : burst_(burst), interval_(interval) {}
  // Nothing: don't write. Otherwise the number of lines held back since the last one.
  std::optional<uint64_t> Allow(std::string_view event, Time now);

 private:
  struct State {
    Time start = kNoTime;
    int written = 0;
    uint64_t held_back = 0;
  };
  static constexpr size_t kMaxEvents = 1024;  // beyond that the oldest are forgotten
  int burst_;
  Duration interval_;
  std::map<std::string, State, std::less<>> states_;
};

struct Options {
  log::Level level = log::Level::kInfo;
};

// Sets base/log.h's sink. REQUIRES: called before other threads start.
void Install(const Options& options);
// Flushes; later log calls are dropped. REQUIRES: no other thread logs.
void Shutdown();

}  // namespace tutti::logging
