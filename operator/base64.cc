// SPDX-License-Identifier: Apache-2.0
#include "operator/base64.h"

#include <cstdint>

namespace tutti {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string EncodeBase64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - at);
    uint32_t group = 0;
    for (size_t i = 0; i < 3; ++i) {
      group = (group << 8U) | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    }
    for (size_t i = 0; i < 4; ++i) {
      out += i <= count ? kAlphabet[(group >> (18U - 6U * i)) & 63U] : '=';
    }
  }
  return out;
}

Result<std::string> DecodeBase64(std::string_view text) {
  std::string out;
  uint32_t group = 0;
  size_t digits = 0;
  size_t padding = 0;
  for (const char c : text) {
    if (c == '\n' || c == '\r') {
      continue;
    }
    const size_t value = kAlphabet.find(c);
    if (c == '=') {
      ++padding;
    } else if (value == std::string_view::npos || padding > 0) {
      return Fail(ErrorCode::kDecode, "not base64");
    }
    group = (group << 6U) | (c == '=' ? 0U : static_cast<uint32_t>(value));
    if (++digits % 4 == 0) {
      if (padding > 2) {
        return Fail(ErrorCode::kDecode, "not base64");
      }
      for (size_t i = 0; i < 3 - padding; ++i) {
        out += static_cast<char>((group >> (16U - 8U * i)) & 255U);
      }
      group = 0;
    }
  }
  if (digits % 4 != 0) {
    return Fail(ErrorCode::kDecode, "not base64 (cut off)");
  }
  return out;
}

}  // namespace tutti
