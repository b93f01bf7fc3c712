// SPDX-License-Identifier: Apache-2.0
// The body of an answer as it comes in: collected, or handed on as whole lines.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace tutti::kube {

class AnswerBody {
 public:
  // Not set: the body is collected.
  void SetLines(std::function<void(std::string_view)> on_lines) { on_lines_ = std::move(on_lines); }
  // False: larger than anything that can be meant.
  [[nodiscard]] bool Feed(std::string_view data) {
    if (on_lines_ == nullptr) {
      kept_.append(data);
      return kept_.size() <= kMaxBody;
    }
    const size_t last = data.rfind('\n');
    if (last == std::string_view::npos) {
      kept_.append(data);
    } else {
      const std::string_view whole = data.substr(0, last + 1);
      if (kept_.empty()) {
        on_lines_(whole);
      } else {
        std::string lines = std::exchange(kept_, {});
        lines.append(whole);
        on_lines_(lines);
      }
      kept_.append(data.substr(last + 1));
    }
    return kept_.size() <= kMaxLine;
  }
  // What was collected.
  [[nodiscard]] std::string Take() {
    return on_lines_ == nullptr ? std::move(kept_) : std::string();
  }

 private:
  static constexpr size_t kMaxLine = size_t{64} << 20;   // one watch event
  static constexpr size_t kMaxBody = size_t{512} << 20;  // one answer
  std::function<void(std::string_view)> on_lines_;
  std::string kept_;  // the body, or an unfinished line
};

}  // namespace tutti::kube
