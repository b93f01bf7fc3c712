// SPDX-License-Identifier: Apache-2.0
// Words and numbers for people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace tutti::audit {

// "45 s", "3 min 20 s", "2 h 05 min", "3 d 4 h".
[[nodiscard]] std::string Span(Duration duration);
// Device-seconds as hours: "1,234.5", from 10,000 on "12,345".
[[nodiscard]] std::string Hours(int64_t device_seconds);
[[nodiscard]] std::string Thousands(int64_t number);  // "12,345"
// "37 %", "<1 %"; "-" of nothing.
[[nodiscard]] std::string Percent(int64_t part, int64_t whole);
// Broken at spaces to lines of at most `width` columns, where words allow it; UTF-8.
[[nodiscard]] std::vector<std::string> Wrap(std::string_view text, size_t width);
[[nodiscard]] size_t Columns(std::string_view utf8);
// Cut to `width` columns, in the middle, with "…".
[[nodiscard]] std::string Shorten(std::string_view text, size_t width);
// Lines of columns, indented by two; without a head when its first cell is empty. The first column
// gives way where the table is too wide; the others are numbers, to the right.
[[nodiscard]] std::string Table(const std::vector<std::string>& head,
                                const std::vector<std::vector<std::string>>& rows, size_t width);

// A page for a terminal that grows line by line; no narrower than 60 columns.
class TextPage {
 public:
  using Row = std::vector<std::string>;

  explicit TextPage(size_t width);
  [[nodiscard]] size_t width() const { return width_; }
  [[nodiscard]] std::string Take();  // the page; it is empty then

  void Line(const std::string& text);
  void Paragraph(const std::string& text, const std::string& indent = "");
  // The first line after `mark`, the others below it.
  void Hang(const std::string& mark, const std::string& text);
  void Section(const std::string& title);
  void Table(const Row& head, const std::vector<Row>& rows);
  void Notes(const std::vector<std::string>& notes);  // a section; nothing without notes

 private:
  size_t width_;
  std::string out_;
};

}  // namespace tutti::audit
