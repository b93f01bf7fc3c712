// SPDX-License-Identifier: Apache-2.0
#include "audit/text.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tutti::audit {
namespace {

std::string TwoDigits(int64_t number) {
  std::string out = number < 10 ? "0" : "";
  out += std::to_string(number);
  return out;
}

}  // namespace

std::string Span(Duration duration) {
  const int64_t seconds = std::chrono::floor<std::chrono::seconds>(duration).count();
  if (seconds < 60) {
    return std::to_string(seconds) + " s";
  }
  const int64_t minutes = seconds / 60;
  if (minutes < 60) {
    return std::to_string(minutes) + " min" +
           (seconds % 60 != 0 ? " " + TwoDigits(seconds % 60) + " s" : "");
  }
  const int64_t hours = minutes / 60;
  if (hours < 48) {
    return std::to_string(hours) + " h " + TwoDigits(minutes % 60) + " min";
  }
  return std::to_string(hours / 24) + " d " + std::to_string(hours % 24) + " h";
}

std::string Thousands(int64_t number) {
  std::string out = std::to_string(number);
  for (size_t i = out.size(), begin = number < 0 ? 1 : 0; i > begin + 3;) {
    i -= 3;
    out.insert(i, 1, ',');
  }
  return out;
}

std::string Hours(int64_t device_seconds) {
  const int64_t tenths = (device_seconds + 180) / 360;
  return tenths >= 100'000 ? Thousands((device_seconds + 1800) / 3600)
                           : Thousands(tenths / 10) + "." + std::to_string(tenths % 10);
}

std::string Percent(int64_t part, int64_t whole) {
  if (whole <= 0) {
    return "-";
  }
  const double percent = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  if (part > 0 && percent < 1) {
    return "<1 %";
  }
  return std::to_string(static_cast<int64_t>(percent + 0.5)) + " %";
}

size_t Columns(std::string_view utf8) {
  return static_cast<size_t>(
      std::count_if(utf8.begin(), utf8.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::vector<std::string> Wrap(std::string_view text, size_t width) {
  std::vector<std::string> lines;
  std::string line;
  while (!text.empty()) {
    const size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    if (!line.empty() && Columns(line) + 1 + Columns(word) > width) {
      lines.push_back(std::move(line));
      line.clear();
    }
    line += (line.empty() ? "" : " ") + std::string(word);
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
  }
  if (!line.empty()) {
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string Shorten(std::string_view text, size_t width) {
  if (Columns(text) <= width || width < 5) {
    return std::string(text);
  }
  const auto cut = [&](size_t columns, bool from_end) {
    size_t at = from_end ? text.size() : 0;
    while (columns > 0) {
      if (from_end) {
        do {
          --at;
        } while ((text[at] & 0xC0) == 0x80);
      } else {
        do {
          ++at;
        } while (at < text.size() && (text[at] & 0xC0) == 0x80);
      }
      --columns;
    }
    return at;
  };
  const size_t tail = (width - 1) / 2;
  return std::string(text.substr(0, cut(width - 1 - tail, false))) + "…" +
         std::string(text.substr(cut(tail, true)));
}

std::string Table(const std::vector<std::string>& head,
                  const std::vector<std::vector<std::string>>& rows, size_t width) {
  constexpr size_t kLeast = 20;  // of the first column
  std::vector<size_t> widths(head.size());
  const auto measure = [&widths](const std::vector<std::string>& row) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], Columns(row[i]));
    }
  };
  measure(head);
  for (const auto& row : rows) {
    measure(row);
  }
  const size_t gaps = 2 * head.size();
  const size_t others = std::accumulate(widths.begin() + 1, widths.end(), size_t{0});
  if (widths[0] + others + gaps > width) {
    const size_t left = width > others + gaps + kLeast ? width - others - gaps : kLeast;
    widths[0] = std::min(widths[0], left);
  }
  std::string out;
  const auto put = [&](const std::vector<std::string>& row) {
    std::string line = "  ";
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string cell = i == 0 ? Shorten(row[i], widths[0]) : row[i];
      const std::string pad(widths[i] - std::min(widths[i], Columns(cell)), ' ');
      line += i == 0 ? cell + pad : "  " + pad + cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  if (!head.front().empty()) {
    put(head);
  }
  for (const auto& row : rows) {
    put(row);
  }
  return out;
}

TextPage::TextPage(size_t width) : width_(std::max<size_t>(width, 60)) {}

std::string TextPage::Take() {
  return std::exchange(out_, {});
}

void TextPage::Line(const std::string& text) {
  out_ += text;
  out_ += '\n';
}

void TextPage::Paragraph(const std::string& text, const std::string& indent) {
  for (const std::string& line : Wrap(text, width_ - indent.size())) {
    Line(indent + line);
  }
}

void TextPage::Hang(const std::string& mark, const std::string& text) {
  bool first = true;
  for (const std::string& line : Wrap(text, width_ - mark.size())) {
    Line((std::exchange(first, false) ? mark : std::string(mark.size(), ' ')) + line);
  }
}

void TextPage::Section(const std::string& title) {
  Line("");
  Line(title);
}

void TextPage::Table(const Row& head, const std::vector<Row>& rows) {
  out_ += audit::Table(head, rows, width_);
}

void TextPage::Notes(const std::vector<std::string>& notes) {
  if (notes.empty()) {
    return;
  }
  Section("NOTES");
  for (const std::string& note : notes) {
    Paragraph(note, "  ");
  }
}

}  // namespace tutti::audit
