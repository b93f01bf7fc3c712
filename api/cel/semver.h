// SPDX-License-Identifier: Apache-2.0
// Semantic versions as the API server's CEL library reads and compares them (semver.org 2.0.0).
#pragma once

#include <string>
#include <string_view>

#include "api/cel/value.h"

namespace tutti::api::cel {

// False: not a version. `out` refers to `text`.
[[nodiscard]] bool ParseSemver(std::string_view text, SemverObject& out);
// -1, 0, 1; build metadata doesn't count.
[[nodiscard]] int CompareSemver(const SemverObject& a, const SemverObject& b);
// semver(text, true): a leading "v", leading zeros and missing parts are put right. False: it can't
// be.
[[nodiscard]] bool NormalizeSemver(std::string_view text, std::string& out);
[[nodiscard]] Value SemverValue(const SemverObject* semver);

}  // namespace tutti::api::cel
