// SPDX-License-Identifier: Apache-2.0
// Regular expressions of RE2, the syntax that Go has, too.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

namespace tutti::api::cel {

class Regex {  // immutable, thread-safe
 public:
  // Null: not a regular expression, or too large.
  static std::unique_ptr<const Regex> Compile(std::string_view pattern);
  ~Regex();
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  [[nodiscard]] bool Matches(std::string_view text) const;  // anywhere in it
  // Leftmost matches that don't overlap, at most `limit`; views into `text`.
  [[nodiscard]] std::vector<std::string_view> FindAll(std::string_view text, size_t limit) const;

 private:
  struct Engine;
  explicit Regex(std::unique_ptr<Engine> engine);
  std::unique_ptr<Engine> engine_;
};

}  // namespace tutti::api::cel
