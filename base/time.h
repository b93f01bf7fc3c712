// SPDX-License-Identifier: Apache-2.0
// Time as a value. Nothing below operator/ reads a clock: `now` comes in as an argument, so that
// every decision can be replayed. Kubernetes stores whole seconds (metav1.Time) or microseconds
// (MicroTime); both are RFC 3339 in UTC.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tutti {

using Duration = std::chrono::microseconds;
using Time = std::chrono::sys_time<Duration>;

// 1970-01-01T00:00:00Z stands for "not set", as Go's zero time does in Kubernetes objects.
inline constexpr Time kNoTime{};

[[nodiscard]] Result<Time> ParseTime(std::string_view rfc3339);
[[nodiscard]] std::string FormatTime(Time time);       // whole seconds: 2026-11-30T09:00:00Z
[[nodiscard]] std::string FormatMicroTime(Time time);  // 2026-11-30T09:00:00.123456Z

// Go's duration notation as used in configuration files: "1h15m30.5s", "300ms", "0".
[[nodiscard]] Result<Duration> ParseDuration(std::string_view text);
[[nodiscard]] std::string FormatDuration(Duration duration);

}  // namespace tutti
