// SPDX-License-Identifier: Apache-2.0
// Structured logging without a logging library in the headers: an event text and key/value fields.
// The sink (spdlog, JSON lines) is set by operator/; without one nothing is written. Thread-safe
// once the sink is set. Never used in engine/ and reconciler/, whose output is data.
#pragma once

#include <functional>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "base/json.h"

namespace tutti::log {

enum class Level { kDebug, kInfo, kWarn, kError };

using Field = std::pair<std::string_view, Json>;
using Sink = std::function<void(Level, std::string_view event, const Field* fields, size_t count)>;

void SetSink(Sink sink);  // REQUIRES: called before other threads start
void Write(Level level, std::string_view event, std::initializer_list<Field> fields);

inline void Debug(std::string_view event, std::initializer_list<Field> fields = {}) {
  Write(Level::kDebug, event, fields);
}
inline void Info(std::string_view event, std::initializer_list<Field> fields = {}) {
  Write(Level::kInfo, event, fields);
}
inline void Warn(std::string_view event, std::initializer_list<Field> fields = {}) {
  Write(Level::kWarn, event, fields);
}
inline void Error(std::string_view event, std::initializer_list<Field> fields = {}) {
  Write(Level::kError, event, fields);
}

}  // namespace tutti::log
