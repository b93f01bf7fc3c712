// SPDX-License-Identifier: Apache-2.0
#include "operator/version.h"

namespace tutti {

std::string CompilerText() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

std::string PlatformText() {
#if defined(__x86_64__)
  return "linux/amd64";
#elif defined(__aarch64__)
  return "linux/arm64";
#else
  return "linux/unknown";
#endif
}

}  // namespace tutti
