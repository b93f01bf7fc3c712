// SPDX-License-Identifier: Apache-2.0
// YAML text to JSON values by the rules that Kubernetes tools use (YAML 1.1 scalars: unquoted yes
// and on are true, a leading 0 is octal), with the line of every value kept for error messages.
// Stricter than the library below: duplicate keys are errors. For files only (configuration), never
// for API traffic. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace tutti::yaml {

struct Document {
  Json value;
  // Line (from 1) of each value by its path: "metrics.bindAddress", "resources.transformations[0]".
  std::map<std::string, int> lines;
  [[nodiscard]] int LineOf(const std::string& path) const;  // 0 when unknown
};

inline constexpr size_t kMaxBytes = 1 << 20;
inline constexpr int kMaxDepth = 64;
inline constexpr int kMaxNodes = 100'000;  // after aliases are followed

// Every document of the text; empty documents are left out. kDecode names the line.
Result<std::vector<Document>> Parse(std::string_view text);

// The only document of the text as JSON (null for an empty text). kDecode if there are several.
Result<Json> ToJson(std::string_view text);

}  // namespace tutti::yaml
