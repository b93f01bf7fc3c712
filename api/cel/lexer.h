// SPDX-License-Identifier: Apache-2.0
// Tokens of CEL (the grammar of the language definition, as cel-go v0.26 reads it).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tutti::api::cel {

enum class TokenKind : uint8_t {
  kEnd,
  kIdentifier,
  kInt,
  kUint,
  kDouble,
  kString,
  kBytes,
  kTrue,
  kFalse,
  kNull,
  kSymbol,  // an operator or punctuation; "in" is one
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  uint32_t offset = 0;
  std::string_view text;  // of the source
  std::string value;      // kString, kBytes: without quotes and escapes
};

// The last token is kEnd. Error: kInvalid, with the position.
[[nodiscard]] Result<std::vector<Token>> Tokenize(std::string_view source);

// Whether the bytes are UTF-8 without surrogates and overlong forms.
[[nodiscard]] bool IsUtf8(std::string_view text);
void AppendUtf8(std::string& out, uint32_t rune);

}  // namespace tutti::api::cel
