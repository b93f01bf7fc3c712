// SPDX-License-Identifier: Apache-2.0
#include "base/time.h"

#include <array>
#include <cstdio>
#include <limits>

namespace tutti {
namespace {

using namespace std::chrono;

// Reads exactly `count` digits; false when there are fewer.
bool ReadDigits(std::string_view text, size_t& at, size_t count, int& out) {
  out = 0;
  for (size_t i = 0; i < count; ++i, ++at) {
    if (at >= text.size() || text[at] < '0' || text[at] > '9') {
      return false;
    }
    out = out * 10 + (text[at] - '0');
  }
  return true;
}

bool ReadChar(std::string_view text, size_t& at, char expected) {
  if (at >= text.size() || text[at] != expected) {
    return false;
  }
  ++at;
  return true;
}

std::string Format(Time time, bool with_micros) {
  const auto day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(time - day);
  std::array<char, 48> buffer{};
  const int year = static_cast<int>(date.year());
  const auto month = static_cast<unsigned>(date.month());
  const auto dom = static_cast<unsigned>(date.day());
  const int hour = static_cast<int>(clock.hours().count());
  const int minute = static_cast<int>(clock.minutes().count());
  const int second = static_cast<int>(clock.seconds().count());
  if (with_micros) {
    std::snprintf(buffer.data(), buffer.size(), "%04d-%02u-%02uT%02d:%02d:%02d.%06dZ", year, month,
                  dom, hour, minute, second, static_cast<int>(clock.subseconds().count()));
  } else {
    std::snprintf(buffer.data(), buffer.size(), "%04d-%02u-%02uT%02d:%02d:%02dZ", year, month, dom,
                  hour, minute, second);
  }
  return buffer.data();
}

}  // namespace

Result<Time> ParseTime(std::string_view text) {
  const auto bad = [&] {
    return Fail(ErrorCode::kDecode, "not an RFC 3339 time: \"" + std::string(text) + "\"");
  };
  size_t at = 0;
  int y = 0, mo = 0, d = 0, h = 0, mi = 0, s = 0;
  if (!ReadDigits(text, at, 4, y) || !ReadChar(text, at, '-') || !ReadDigits(text, at, 2, mo) ||
      !ReadChar(text, at, '-') || !ReadDigits(text, at, 2, d) ||
      (!ReadChar(text, at, 'T') && !ReadChar(text, at, 't')) || !ReadDigits(text, at, 2, h) ||
      !ReadChar(text, at, ':') || !ReadDigits(text, at, 2, mi) || !ReadChar(text, at, ':') ||
      !ReadDigits(text, at, 2, s)) {
    return bad();
  }
  const year_month_day date{year(y), month(static_cast<unsigned>(mo)),
                            day(static_cast<unsigned>(d))};
  if (!date.ok() || h > 23 || mi > 59 || s > 60) {
    return bad();
  }
  int64_t micros = 0;
  if (ReadChar(text, at, '.')) {
    int digits = 0;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
      if (digits < 6) {
        micros = micros * 10 + (text[at] - '0');
      }
      ++digits;
      ++at;
    }
    if (digits == 0) {
      return bad();
    }
    for (; digits < 6; ++digits) {
      micros *= 10;
    }
  }
  minutes offset{0};
  if (!ReadChar(text, at, 'Z') && !ReadChar(text, at, 'z')) {
    if (at >= text.size() || (text[at] != '+' && text[at] != '-')) {
      return bad();
    }
    const int sign = text[at++] == '-' ? -1 : 1;
    int oh = 0, om = 0;
    if (!ReadDigits(text, at, 2, oh) || !ReadChar(text, at, ':') || !ReadDigits(text, at, 2, om) ||
        oh > 23 || om > 59) {
      return bad();
    }
    offset = minutes(sign * (oh * 60 + om));
  }
  if (at != text.size()) {
    return bad();
  }
  return Time(sys_days(date)) + hours(h) + minutes(mi) + seconds(s) + microseconds(micros) - offset;
}

std::string FormatTime(Time time) {
  return Format(floor<seconds>(time), /*with_micros=*/false);
}

std::string FormatMicroTime(Time time) {
  return Format(time, /*with_micros=*/true);
}

Result<Duration> ParseDuration(std::string_view text) {
  const auto bad = [&] {
    return Fail(ErrorCode::kInvalid,
                "not a duration like 1h30m, 15s or 300ms: \"" + std::string(text) + "\"");
  };
  if (text == "0") {
    return Duration(0);
  }
  size_t at = 0;
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    ++at;
  }
  if (at == text.size()) {
    return bad();
  }
  constexpr double kLimit = 9.0e18;
  double total_micros = 0;
  while (at < text.size()) {
    double value = 0;
    double scale = 1;
    bool digits = false;
    bool fraction = false;
    for (; at < text.size() && ((text[at] >= '0' && text[at] <= '9') || text[at] == '.'); ++at) {
      if (text[at] == '.') {
        if (fraction) {
          return bad();
        }
        fraction = true;
        continue;
      }
      digits = true;
      value = value * 10 + (text[at] - '0');
      if (fraction) {
        scale *= 10;
      }
    }
    if (!digits) {
      return bad();
    }
    size_t end = at;
    while (end < text.size() && text[end] != '.' && (text[end] < '0' || text[end] > '9')) {
      ++end;
    }
    const std::string_view unit = text.substr(at, end - at);
    at = end;
    double micros = 0;
    if (unit == "ns") {
      micros = 1e-3;
    } else if (unit == "us" || unit == "µs") {
      micros = 1;
    } else if (unit == "ms") {
      micros = 1e3;
    } else if (unit == "s") {
      micros = 1e6;
    } else if (unit == "m") {
      micros = 60e6;
    } else if (unit == "h") {
      micros = 3600e6;
    } else {
      return bad();
    }
    total_micros += value / scale * micros;
    if (total_micros > kLimit) {
      return bad();
    }
  }
  const auto count = static_cast<int64_t>(total_micros + 0.5);
  return Duration(negative ? -count : count);
}

std::string FormatDuration(Duration duration) {
  int64_t micros = duration.count();
  if (micros == 0) {
    return "0s";
  }
  std::string out;
  if (micros < 0) {
    out = "-";
    micros = micros == std::numeric_limits<int64_t>::min() ? std::numeric_limits<int64_t>::max()
                                                           : -micros;
  }
  if (micros < 1'000'000) {
    return out + (micros % 1000 == 0 ? std::to_string(micros / 1000) + "ms"
                                     : std::to_string(micros) + "us");
  }
  const int64_t h = micros / 3'600'000'000;
  const int64_t m = micros / 60'000'000 % 60;
  const int64_t s = micros / 1'000'000 % 60;
  int64_t rest = micros % 1'000'000;
  if (h > 0) {
    out += std::to_string(h) + "h";
  }
  if (h > 0 || m > 0) {
    out += std::to_string(m) + "m";
  }
  out += std::to_string(s);
  if (rest > 0) {
    std::string digits = std::to_string(1'000'000 + rest).substr(1);
    digits.erase(digits.find_last_not_of('0') + 1);
    out += "." + digits;
  }
  return out + "s";
}

}  // namespace tutti
