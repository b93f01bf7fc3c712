// SPDX-License-Identifier: Apache-2.0
// Numbers and times as Go reads and prints them (strconv, time): the texts are visible in CEL.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tutti::api::cel {

[[nodiscard]] bool ParseDouble(std::string_view text, double& out);  // strconv.ParseFloat
[[nodiscard]] bool ParseInt64(std::string_view text, int64_t& out);  // strconv.ParseInt, base 10
[[nodiscard]] bool ParseUint64(std::string_view text, uint64_t& out);
[[nodiscard]] bool ParseBool(std::string_view text, bool& out);
[[nodiscard]] std::string FormatShortest(double value);  // %g
[[nodiscard]] std::string FormatPlain(double value);     // shortest without an exponent
[[nodiscard]] bool ParseGoDuration(std::string_view text, int64_t& nanos);

struct Moment {
  int64_t seconds = 0;  // Unix
  uint32_t nanos = 0;
  int32_t zone_minutes = 0;
};
[[nodiscard]] bool ParseRfc3339(std::string_view text, Moment& out);
[[nodiscard]] std::string FormatRfc3339(const Moment& moment);

struct CivilTime {
  int64_t year = 0;
  int month = 1;        // 1..12
  int day = 1;          // 1..31
  int day_of_year = 0;  // 0..365
  int weekday = 0;      // 0: Sunday
  int hour = 0;
  int minute = 0;
  int second = 0;
};
[[nodiscard]] CivilTime ToCivil(int64_t unix_seconds);

inline constexpr int64_t kMinUnixTime = -62135596800;  // 0001-01-01T00:00:00Z
inline constexpr int64_t kMaxUnixTime = 253402300799;  // 9999-12-31T23:59:59Z

}  // namespace tutti::api::cel
