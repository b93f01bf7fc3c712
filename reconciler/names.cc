// SPDX-License-Identifier: Apache-2.0
#include "reconciler/names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include <openssl/evp.h>

namespace tutti::reconciler {
namespace {

constexpr size_t kMaxName = 253;
constexpr size_t kHashLength = 5;
constexpr size_t kMaxLabelValue = 63;

// The first `digits` hex digits. Not for security: Kueue's rules for names are made so.
std::string ShortHash(const EVP_MD* kind, const std::string& text, size_t digits) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> sum{};
  unsigned int length = 0;
  if (EVP_Digest(text.data(), text.size(), sum.data(), &length, kind, nullptr) != 1) {
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

// As long as a name can be with "-" and the hash behind it.
constexpr size_t kMaxProvisioningName = kMaxName - 1 - kHashLength;
// Attempts whose cut names are recognised: nobody retries so often.
constexpr int32_t kMaxAttempts = 1000;

std::string Cut(std::string name) {
  if (name.size() <= kMaxProvisioningName) {
    return name;
  }
  const std::string hash = ShortHash(EVP_sha1(), name, kHashLength);
  name.resize(kMaxProvisioningName);
  return name + "-" + hash;
}

}  // namespace

std::string WorkloadName(std::string_view kind, std::string_view group, std::string_view owner_name,
                         std::string_view owner_uid, std::string_view extra) {
  std::string prefix(kind);
  std::transform(prefix.begin(), prefix.end(), prefix.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  prefix += "-" + std::string(owner_name);
  prefix.resize(std::min(prefix.size(), kMaxName - 1 - kHashLength));
  std::string input = std::string(kind) + "\n" + std::string(group) + "\n" +
                      std::string(owner_name) + "\n" + std::string(owner_uid);
  if (!extra.empty()) {
    input += "\n" + std::string(extra);
  }
  return prefix + "-" + ShortHash(EVP_sha1(), input, kHashLength);
}

std::string ShortSha256(const std::string& text, size_t digits) {
  return ShortHash(EVP_sha256(), text, digits);
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

std::string ProvisioningRequestName(std::string_view workload, std::string_view check,
                                    int32_t attempt) {
  return Cut(std::string(workload) + "-" + std::string(check) + "-" + std::to_string(attempt));
}

std::string ProvisioningTemplateName(std::string_view request, std::string_view pod_set) {
  return Cut("ppt-" + std::string(request) + "-" + std::string(pod_set));
}

std::optional<int32_t> ProvisioningAttempt(std::string_view request, std::string_view workload,
                                           std::string_view check) {
  const std::string prefix = std::string(workload) + "-" + std::string(check) + "-";
  if (prefix.size() < kMaxProvisioningName && request.starts_with(prefix)) {
    int32_t attempt = 0;
    const char* end = request.data() + request.size();
    const auto [stop, error] = std::from_chars(request.data() + prefix.size(), end, attempt);
    if (error == std::errc() && stop == end && attempt > 0) {
      return attempt;
    }
  }
  if (prefix.size() + std::to_string(kMaxAttempts).size() > kMaxProvisioningName) {
    for (int32_t attempt = 1; attempt <= kMaxAttempts; ++attempt) {
      if (request == ProvisioningRequestName(workload, check, attempt)) {
        return attempt;
      }
    }
  }
  return std::nullopt;
}

}  // namespace tutti::reconciler
