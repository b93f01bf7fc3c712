// SPDX-License-Identifier: Apache-2.0
#include "operator/logging.h"

#include <array>
#include <cctype>
#include <memory>
#include <mutex>

#ifndef SPDLOG_FMT_EXTERNAL
#define SPDLOG_FMT_EXTERNAL
#endif
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace tutti::logging {
namespace {

constexpr std::array<std::string_view, 4> kReserved = {"ts", "level", "msg", "suppressed"};

std::string_view Name(log::Level level) {
  switch (level) {
    case log::Level::kDebug:
      return "debug";
    case log::Level::kInfo:
      return "info";
    case log::Level::kWarn:
      return "warn";
    case log::Level::kError:
      return "error";
  }
  return "error";
}

spdlog::level::level_enum ToSpdlog(log::Level level) {
  switch (level) {
    case log::Level::kDebug:
      return spdlog::level::debug;
    case log::Level::kInfo:
      return spdlog::level::info;
    case log::Level::kWarn:
      return spdlog::level::warn;
    case log::Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

// Length of the well-formed UTF-8 sequence at `at`, 0 when there is none.
size_t SequenceLength(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  if (first < 0x80) {
    return 1;
  }
  size_t length = 0;
  uint32_t code = 0;
  uint32_t lowest = 0;
  if ((first & 0xE0U) == 0xC0U) {
    length = 2;
    code = first & 0x1FU;
    lowest = 0x80;
  } else if ((first & 0xF0U) == 0xE0U) {
    length = 3;
    code = first & 0x0FU;
    lowest = 0x800;
  } else if ((first & 0xF8U) == 0xF0U) {
    length = 4;
    code = first & 0x07U;
    lowest = 0x10000;
  } else {
    return 0;
  }
  if (at + length > text.size()) {
    return 0;
  }
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0U) != 0x80U) {
      return 0;
    }
    code = (code << 6U) | (byte(at + i) & 0x3FU);
  }
  const bool valid = code >= lowest && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
  return valid ? length : 0;
}

std::string CleanUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t length = SequenceLength(text, at);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      ++at;
    } else {
      out.append(text.substr(at, length));
      at += length;
    }
  }
  return out;
}

Json Clean(const Json& value) {
  if (value.IsString()) {
    return CleanUtf8(value.AsString());
  }
  if (value.IsArray()) {
    Json::Array items;
    for (const Json& item : value.AsArray()) {
      items.push_back(Clean(item));
    }
    return items;
  }
  if (value.IsObject()) {
    Json::Object members;
    for (const auto& [key, member] : value.AsObject()) {
      members.emplace_back(CleanUtf8(key), Clean(member));
    }
    return members;
  }
  return value;
}

struct Sink {
  std::mutex mutex;  // for the limiter; spdlog has its own
  RepeatLimiter limiter;
  std::shared_ptr<spdlog::logger> logger;

  void Write(log::Level level, std::string_view event, const log::Field* fields, size_t count) {
    const auto spd_level = ToSpdlog(level);
    if (!logger->should_log(spd_level)) {
      return;
    }
    const Time now = std::chrono::floor<Duration>(std::chrono::system_clock::now());
    uint64_t suppressed = 0;
    if (level >= log::Level::kWarn) {
      const std::scoped_lock lock(mutex);
      const auto allowed = limiter.Allow(event, now);
      if (!allowed) {
        return;
      }
      suppressed = *allowed;
    }
    const std::string line = FormatLine(now, level, event, fields, count, suppressed);
    logger->log(spd_level, spdlog::string_view_t(line.data(), line.size()));
  }
};

}  // namespace

Result<log::Level> ParseLevel(std::string_view text) {
  std::string lower;
  for (const char c : text) {
    lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  if (lower == "debug") {
    return log::Level::kDebug;
  }
  if (lower.empty() || lower == "info") {
    return log::Level::kInfo;
  }
  if (lower == "warn" || lower == "warning") {
    return log::Level::kWarn;
  }
  if (lower == "error" || lower == "panic") {
    return log::Level::kError;
  }
  const bool number =
      lower.size() <= 4 && lower.find_first_not_of("0123456789") == std::string::npos;
  if (number) {
    return lower == "0" || lower == "1" ? log::Level::kInfo : log::Level::kDebug;
  }
  return Fail(ErrorCode::kInvalid, "log level '" + std::string(text) +
                                       "' is not known; use debug, info, warn, error or a number");
}

std::string FormatLine(Time now, log::Level level, std::string_view event, const log::Field* fields,
                       size_t count, uint64_t suppressed) {
  Json::Object line;
  line.reserve(count + 4);
  line.emplace_back("ts", FormatMicroTime(now));
  line.emplace_back("level", Name(level));
  line.emplace_back("msg", CleanUtf8(event));
  for (size_t i = 0; i < count; ++i) {
    std::string key = CleanUtf8(fields[i].first);
    for (const std::string_view reserved : kReserved) {
      if (key == reserved) {
        key = "field_" + key;
        break;
      }
    }
    line.emplace_back(std::move(key), Clean(fields[i].second));
  }
  if (suppressed > 0) {
    line.emplace_back("suppressed", static_cast<int64_t>(suppressed));
  }
  return Json(std::move(line)).Dump();
}

std::optional<uint64_t> RepeatLimiter::Allow(std::string_view event, Time now) {
  auto found = states_.find(event);
  if (found == states_.end()) {
    if (states_.size() >= kMaxEvents) {
      auto oldest = states_.begin();
      for (auto it = states_.begin(); it != states_.end(); ++it) {
        if (it->second.start < oldest->second.start) {
          oldest = it;
        }
      }
      states_.erase(oldest);
    }
    found = states_.emplace(std::string(event), State{now, 0, 0}).first;
  }
  State& state = found->second;
  // A clock that was set back starts a new interval as well.
  if (now - state.start >= interval_ || now < state.start) {
    state.start = now;
    state.written = 0;
  }
  if (state.written >= burst_) {
    ++state.held_back;
    return std::nullopt;
  }
  ++state.written;
  return std::exchange(state.held_back, 0);
}

void Install(const Options& options) {
  auto sink = std::make_shared<Sink>();
  sink->logger =
      std::make_shared<spdlog::logger>("tutti", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  sink->logger->set_pattern("%v", spdlog::pattern_time_type::utc);
  sink->logger->set_level(ToSpdlog(options.level));
  sink->logger->flush_on(spdlog::level::trace);
  log::SetSink([sink](log::Level level, std::string_view event, const log::Field* fields,
                      size_t count) { sink->Write(level, event, fields, count); });
}

void Shutdown() {
  log::SetSink(nullptr);
  spdlog::shutdown();
}

}  // namespace tutti::logging
