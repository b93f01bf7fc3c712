// SPDX-License-Identifier: Apache-2.0
#include "reconciler/names.h"

#include <algorithm>
#include <array>
#include <cctype>

#include <openssl/evp.h>

namespace tutti::reconciler {
namespace {

constexpr size_t kMaxName = 253;
constexpr size_t kHashLength = 5;
constexpr size_t kMaxLabelValue = 63;

// The first `digits` hex digits of SHA-1. Not for security: it is the name rule of Kueue's
// Workloads.
std::string ShortSha1(const std::string& text, size_t digits) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> sum{};
  unsigned int length = 0;
  if (EVP_Digest(text.data(), text.size(), sum.data(), &length, EVP_sha1(), nullptr) != 1) {
    return std::string(digits, '0');
  }
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < length && out.size() < digits; ++i) {
    out.push_back(kHex[sum[i] >> 4U]);
    out.push_back(kHex[sum[i] & 15U]);
  }
  out.resize(digits);
  return out;
}

}  // namespace

std::string WorkloadName(std::string_view kind, std::string_view group, std::string_view owner_name,
                         std::string_view owner_uid) {
  std::string prefix(kind);
  std::transform(prefix.begin(), prefix.end(), prefix.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  prefix += "-" + std::string(owner_name);
  prefix.resize(std::min(prefix.size(), kMaxName - 1 - kHashLength));
  const std::string input = std::string(kind) + "\n" + std::string(group) + "\n" +
                            std::string(owner_name) + "\n" + std::string(owner_uid);
  return prefix + "-" + ShortSha1(input, kHashLength);
}

std::string GroupName(std::string_view job_name, std::string_view workload_uid, int number) {
  const std::string suffix =
      "-" + std::string(workload_uid.substr(0, 8)) + "-" + std::to_string(number);
  std::string name(job_name.substr(0, kMaxLabelValue - suffix.size()));
  while (!name.empty() && (name.back() == '-' || name.back() == '.')) {
    name.pop_back();
  }
  return name + suffix;
}

}  // namespace tutti::reconciler
