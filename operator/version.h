// SPDX-License-Identifier: Apache-2.0
// What was built: stamped by cmake/Version.cmake into version.cc at build time, only when it
// changed.
#pragma once

#include <string>

namespace tutti {

extern const char* const kVersionText;  // v0.1.0-12-gabc1234, or 0.0.0-dev outside a repository
extern const char* const kGitCommit;    // full hash, "" outside a repository
extern const char* const kBuildDate;  // of the commit or SOURCE_DATE_EPOCH, RFC 3339, "" if unknown

[[nodiscard]] std::string CompilerText();  // "gcc 12.2.0"
[[nodiscard]] std::string PlatformText();  // "linux/amd64"

}  // namespace tutti
