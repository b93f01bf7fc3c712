// SPDX-License-Identifier: Apache-2.0
// Small readers shared by the decoders of this room. They never fail: what has the wrong type
// counts as absent, numbers out of range end at the limits of their type. Pure; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "api/meta.h"
#include "base/json.h"
#include "base/result.h"
#include "base/time.h"

namespace tutti::api {

inline int32_t ClampToInt32(int64_t value) {
  return static_cast<int32_t>(std::clamp<int64_t>(value, std::numeric_limits<int32_t>::min(),
                                                  std::numeric_limits<int32_t>::max()));
}

inline int64_t ReadInt64(const Json& json, int64_t fallback = 0) {
  if (json.IsDouble()) {  // integers beyond int64 arrive as doubles
    const double value = json.AsDouble();
    if (value >= 9.2e18) {
      return std::numeric_limits<int64_t>::max();
    }
    if (value <= -9.2e18) {
      return std::numeric_limits<int64_t>::min();
    }
  }
  return json.AsInt(fallback);
}

inline int32_t ReadInt32(const Json& json, int32_t fallback = 0) {
  return json.IsNumber() ? ClampToInt32(ReadInt64(json)) : fallback;
}

inline std::optional<int32_t> ReadOptionalInt32(const Json& json) {
  return json.IsNumber() ? std::optional<int32_t>(ReadInt32(json)) : std::nullopt;
}

inline std::vector<std::string> ReadStrings(const Json& json) {
  std::vector<std::string> out;
  out.reserve(json.AsArray().size());
  for (const Json& item : json.AsArray()) {
    if (item.IsString()) {
      out.push_back(item.AsString());
    }
  }
  return out;
}

inline std::optional<Time> ReadOptionalTime(const Json& json) {
  if (!json.IsString()) {
    return std::nullopt;
  }
  Result<Time> time = ParseTime(json.AsString());
  return time ? std::optional<Time>(*time) : std::nullopt;
}

inline Time ReadTime(const Json& json) {
  return ReadOptionalTime(json).value_or(kNoTime);
}

// The metadata of an object; kDecode when it has no name.
inline Result<ObjectMeta> ReadMeta(const Json& object, std::string_view kind) {
  ObjectMeta meta = MetaFromJson(object["metadata"]);
  if (meta.name.empty()) {
    return Fail(ErrorCode::kDecode, std::string(kind) + ": metadata.name is missing");
  }
  return meta;
}

}  // namespace tutti::api
