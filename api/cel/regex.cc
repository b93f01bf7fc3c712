// SPDX-License-Identifier: Apache-2.0
#include "api/cel/regex.h"

#include <algorithm>
#include <string>
#include <utility>

#include <re2/re2.h>

namespace tutti::api::cel {
namespace {

re2::StringPiece Piece(std::string_view text) {
  return {text.data(), text.size()};
}

// Bytes of the rune at the start of `text`.
size_t RuneWidth(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t width = lead < 0xC0 ? 1 : (lead < 0xE0 ? 2 : (lead < 0xF0 ? 3 : 4));
  return width <= text.size() ? width : 1;
}

// Go's syntax in RE2's: (?<name>…) is written (?P<name>…). False: \C, a single byte, which Go
// doesn't have.
bool FromGo(std::string_view pattern, std::string& out) {
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const std::string_view rest = pattern.substr(i);
    if (rest.starts_with("\\Q") && !in_class) {
      const size_t end = std::min(pattern.find("\\E", i), pattern.size());
      out += pattern.substr(i, end - i);
      i = end - 1;
    } else if (rest[0] == '\\' && rest.size() > 1) {
      if (rest[1] == 'C') {
        return false;
      }
      out += rest.substr(0, 2);
      ++i;
    } else if (!in_class && rest.starts_with("(?<")) {
      out += "(?P<";
      i += 2;
    } else {
      if (rest[0] == '[' && !in_class) {
        in_class = true;
        // A bracket right at the start is a member of the class.
        const size_t skip = rest.starts_with("[^]") ? 2 : (rest.starts_with("[]") ? 1 : 0);
        out += rest.substr(0, skip);
        i += skip;
      } else if (rest[0] == ']') {
        in_class = false;
      }
      out.push_back(pattern[i]);
    }
  }
  return true;
}

}  // namespace

struct Regex::Engine {
  explicit Engine(std::string_view pattern, const re2::RE2::Options& options)
      : re(Piece(pattern), options) {}
  re2::RE2 re;
};

Regex::Regex(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}
Regex::~Regex() = default;

std::unique_ptr<const Regex> Regex::Compile(std::string_view pattern) {
  re2::RE2::Options options;
  options.set_log_errors(false);
  std::string translated;
  if (!FromGo(pattern, translated)) {
    return nullptr;
  }
  auto engine = std::make_unique<Engine>(translated, options);
  if (!engine->re.ok()) {
    return nullptr;
  }
  return std::unique_ptr<const Regex>(new Regex(std::move(engine)));
}

bool Regex::Matches(std::string_view text) const {
  return re2::RE2::PartialMatch(Piece(text), engine_->re);
}

std::vector<std::string_view> Regex::FindAll(std::string_view text, size_t limit) const {
  std::vector<std::string_view> out;
  size_t at = 0;
  size_t last_end = std::string_view::npos;
  re2::StringPiece match;
  while (out.size() < limit && at <= text.size() &&
         engine_->re.Match(Piece(text), at, text.size(), re2::RE2::UNANCHORED, &match, 1)) {
    const auto begin = static_cast<size_t>(match.data() - text.data());
    const size_t end = begin + match.size();
    // As in Go: no empty match right behind the one before it.
    if (end > begin || begin != last_end) {
      out.push_back(text.substr(begin, match.size()));
    }
    last_end = end;
    at = end > begin ? end : (end < text.size() ? end + RuneWidth(text.substr(end)) : end + 1);
  }
  return out;
}

}  // namespace tutti::api::cel
