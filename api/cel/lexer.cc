// SPDX-License-Identifier: Apache-2.0
#include "api/cel/lexer.h"

#include <algorithm>
#include <array>

#include "api/cel/ast.h"

namespace tutti::api::cel {
namespace {

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

bool IsHex(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

uint32_t HexValue(char c) {
  if (IsDigit(c)) {
    return static_cast<uint32_t>(c - '0');
  }
  return static_cast<uint32_t>((c >= 'a' ? c - 'a' : c - 'A') + 10);
}

bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  Result<std::vector<Token>> Run() {
    std::vector<Token> out;
    while (true) {
      SkipBlank();
      Token token;
      token.offset = static_cast<uint32_t>(at_);
      if (at_ == source_.size()) {
        out.push_back(std::move(token));
        return out;
      }
      if (!Next(token)) {
        return Fail(ErrorCode::kInvalid, Position(source_, token.offset) + problem_);
      }
      if (token.text.empty()) {
        token.text = source_.substr(token.offset, at_ - token.offset);
      }
      out.push_back(std::move(token));
    }
  }

 private:
  [[nodiscard]] char Peek(size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }

  void SkipBlank() {
    while (at_ < source_.size()) {
      const char c = source_[at_];
      if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f') {
        ++at_;
      } else if (c == '/' && Peek(1) == '/') {
        at_ = std::min(source_.find('\n', at_), source_.size());
      } else {
        return;
      }
    }
  }

  bool Next(Token& token) {
    if (IsString(token)) {
      return ReadString(token);
    }
    const char c = Peek();
    if (IsLetter(c)) {
      while (IsLetter(Peek()) || IsDigit(Peek())) {
        ++at_;
      }
      const std::string_view word = source_.substr(token.offset, at_ - token.offset);
      token.kind = word == "true"    ? TokenKind::kTrue
                   : word == "false" ? TokenKind::kFalse
                   : word == "null"  ? TokenKind::kNull
                   : word == "in"    ? TokenKind::kSymbol
                                     : TokenKind::kIdentifier;
      return true;
    }
    if (IsDigit(c) || (c == '.' && IsDigit(Peek(1)))) {
      ReadNumber(token);
      return true;
    }
    static constexpr std::array<std::string_view, 6> kTwo = {"==", "!=", "<=", ">=", "&&", "||"};
    token.kind = TokenKind::kSymbol;
    for (const std::string_view two : kTwo) {
      if (source_.substr(at_, 2) == two) {
        at_ += 2;
        return true;
      }
    }
    if (std::string_view("[]{}().,-!?:+*/%<>").find(c) != std::string_view::npos) {
      ++at_;
      return true;
    }
    problem_ = "a character that is not part of the language";
    return false;
  }

  void ReadNumber(Token& token) {
    token.kind = TokenKind::kInt;
    if (Peek() == '0' && Peek(1) == 'x' && IsHex(Peek(2))) {
      at_ += 2;
      while (IsHex(Peek())) {
        ++at_;
      }
    } else {
      while (IsDigit(Peek())) {
        ++at_;
      }
      if (Peek() == '.' && IsDigit(Peek(1))) {
        token.kind = TokenKind::kDouble;
        ++at_;
        while (IsDigit(Peek())) {
          ++at_;
        }
      }
      if (Peek() == 'e' || Peek() == 'E') {
        const size_t sign = Peek(1) == '+' || Peek(1) == '-' ? 1 : 0;
        if (IsDigit(Peek(1 + sign))) {
          token.kind = TokenKind::kDouble;
          at_ += 1 + sign;
          while (IsDigit(Peek())) {
            ++at_;
          }
        }
      }
    }
    if (token.kind == TokenKind::kInt && (Peek() == 'u' || Peek() == 'U')) {
      token.kind = TokenKind::kUint;
      ++at_;
    }
  }

  // Looks past the prefixes b and r; sets them and the position of the quote.
  bool IsString(Token& token) {
    size_t ahead = 0;
    bytes_ = Peek(ahead) == 'b' || Peek(ahead) == 'B';
    ahead += bytes_ ? 1 : 0;
    raw_ = Peek(ahead) == 'r' || Peek(ahead) == 'R';
    ahead += raw_ ? 1 : 0;
    const char quote = Peek(ahead);
    if (quote != '"' && quote != '\'') {
      return false;
    }
    token.kind = bytes_ ? TokenKind::kBytes : TokenKind::kString;
    at_ += ahead;
    return true;
  }

  bool ReadString(Token& token) {
    const char quote = Peek();
    const bool triple = Peek(1) == quote && Peek(2) == quote;
    at_ += triple ? 3 : 1;
    problem_ = "a string without an end";
    std::string& out = token.value;
    while (at_ < source_.size()) {
      const char c = source_[at_];
      if (c == quote && (!triple || (Peek(1) == quote && Peek(2) == quote))) {
        at_ += triple ? 3 : 1;
        return true;
      }
      if (c == '\r' || c == '\n') {
        if (!triple) {
          return false;
        }
        at_ += c == '\r' && Peek(1) == '\n' ? 2 : 1;
        out.push_back('\n');
        continue;
      }
      if (c != '\\' || raw_) {
        out.push_back(c);
        ++at_;
        continue;
      }
      if (!ReadEscape(out)) {
        problem_ = "an escape sequence that doesn't exist";
        return false;
      }
    }
    return false;
  }

  bool ReadEscape(std::string& out) {
    const char c = Peek(1);
    at_ += 2;
    static constexpr std::string_view kNames = "abfnrtv\\'\"`?";
    static constexpr std::string_view kValues = "\a\b\f\n\r\t\v\\'\"`?";
    if (const size_t i = kNames.find(c); c != '\0' && i != std::string_view::npos) {
      out.push_back(kValues[i]);
      return true;
    }
    uint32_t value = 0;
    if (c >= '0' && c <= '3') {
      value = static_cast<uint32_t>(c - '0');
      for (int i = 0; i < 2; ++i, ++at_) {
        if (Peek() < '0' || Peek() > '7') {
          return false;
        }
        value = value * 8 + static_cast<uint32_t>(Peek() - '0');
      }
      return Append(out, value, /*byte=*/true);
    }
    const bool byte = c == 'x' || c == 'X';
    const int digits = byte ? 2 : (c == 'u' ? 4 : (c == 'U' ? 8 : 0));
    if (digits == 0 || (bytes_ && !byte)) {
      return false;
    }
    for (int i = 0; i < digits; ++i, ++at_) {
      if (!IsHex(Peek())) {
        return false;
      }
      value = value * 16 + HexValue(Peek());
    }
    return Append(out, value, byte);
  }

  bool Append(std::string& out, uint32_t value, bool byte) const {
    if (bytes_ && byte) {
      out.push_back(static_cast<char>(value));
      return true;
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
      return false;
    }
    AppendUtf8(out, value);
    return true;
  }

  std::string_view source_;
  size_t at_ = 0;
  bool bytes_ = false;
  bool raw_ = false;
  std::string problem_;
};

}  // namespace

Result<std::vector<Token>> Tokenize(std::string_view source) {
  return Lexer(source).Run();
}

void AppendUtf8(std::string& out, uint32_t rune) {
  if (rune < 0x80) {
    out.push_back(static_cast<char>(rune));
  } else if (rune < 0x800) {
    out.push_back(static_cast<char>(0xC0U | (rune >> 6U)));
    out.push_back(static_cast<char>(0x80U | (rune & 0x3FU)));
  } else if (rune < 0x10000) {
    out.push_back(static_cast<char>(0xE0U | (rune >> 12U)));
    out.push_back(static_cast<char>(0x80U | ((rune >> 6U) & 0x3FU)));
    out.push_back(static_cast<char>(0x80U | (rune & 0x3FU)));
  } else {
    out.push_back(static_cast<char>(0xF0U | (rune >> 18U)));
    out.push_back(static_cast<char>(0x80U | ((rune >> 12U) & 0x3FU)));
    out.push_back(static_cast<char>(0x80U | ((rune >> 6U) & 0x3FU)));
    out.push_back(static_cast<char>(0x80U | (rune & 0x3FU)));
  }
}

bool IsUtf8(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const auto lead = static_cast<uint8_t>(text[i]);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const size_t length = lead >= 0xF0 ? 4 : (lead >= 0xE0 ? 3 : 2);
    if (lead < 0xC2 || lead > 0xF4 || i + length > text.size()) {
      return false;
    }
    uint32_t rune = lead & (0x7FU >> length);
    for (size_t k = 1; k < length; ++k) {
      const auto next = static_cast<uint8_t>(text[i + k]);
      if ((next & 0xC0U) != 0x80U) {
        return false;
      }
      rune = (rune << 6U) | (next & 0x3FU);
    }
    if ((length == 3 && (rune < 0x800 || (rune >= 0xD800 && rune <= 0xDFFF))) ||
        (length == 4 && (rune < 0x10000 || rune > 0x10FFFF))) {
      return false;
    }
    i += length;
  }
  return true;
}

}  // namespace tutti::api::cel
