// SPDX-License-Identifier: Apache-2.0
#include "api/cel/regex.h"

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
  auto engine = std::make_unique<Engine>(pattern, options);
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
