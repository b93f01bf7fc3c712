// SPDX-License-Identifier: Apache-2.0
// Manifests for people: block YAML, and what changed as a unified diff that `git apply` takes.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace tutti::audit {

// Members in their order. Strings that YAML could read as something else are quoted.
[[nodiscard]] std::string ToYaml(const Json& value);

// "" when both are equal; an empty `before` is a new file.
[[nodiscard]] std::string UnifiedDiff(const std::string& path, std::string_view before,
                                      std::string_view after);

}  // namespace tutti::audit
