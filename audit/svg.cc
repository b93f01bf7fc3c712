// SPDX-License-Identifier: Apache-2.0
#include "audit/svg.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "audit/text.h"

namespace tutti::audit {
namespace {

constexpr int kWidth = 860;
constexpr int kHeight = 220;
constexpr int kLeft = 52;
constexpr int kBottom = 26;
constexpr int kTop = 12;
constexpr int kPlotWidth = kWidth - kLeft - 12;
constexpr int kPlotHeight = kHeight - kBottom - kTop;
constexpr int kBuckets = 200;

struct Levels {
  std::array<double, kBuckets> whole{};
  std::array<double, kBuckets> partial{};
};

// The mean of each bucket.
Levels Average(const std::vector<DevicesAt>& changes, Time begin, Duration width) {
  Levels out;
  int64_t whole = 0;
  int64_t partial = 0;
  Time at = begin;
  const auto fill = [&](Time to) {
    while (at < to) {
      const int64_t bucket = (at - begin) / width;
      if (bucket >= kBuckets) {
        return;
      }
      const Time edge = begin + width * (bucket + 1);
      const Time stop = std::min(edge, to);
      const double share =
          static_cast<double>((stop - at).count()) / static_cast<double>(width.count());
      out.whole[static_cast<size_t>(bucket)] += share * static_cast<double>(whole);
      out.partial[static_cast<size_t>(bucket)] += share * static_cast<double>(partial);
      at = stop;
    }
  };
  for (const DevicesAt& change : changes) {
    fill(change.at);
    whole += change.whole;
    partial += change.partial;
  }
  fill(begin + width * kBuckets);
  return out;
}

std::string Tenth(double value) {
  const auto tenths = static_cast<int64_t>(value * 10 + 0.5);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
}

double X(size_t bucket) {
  return kLeft + static_cast<double>(kPlotWidth) * static_cast<double>(bucket) / kBuckets;
}

// A round number that is at least `value`: a digit times a power of ten.
int64_t RoundUp(double value) {
  for (int64_t power = 1;; power *= 10) {
    for (const int64_t step : {1, 2, 3, 4, 5, 6, 8}) {
      if (static_cast<double>(step * power) >= value) {
        return step * power;
      }
    }
  }
}

std::string Text(double x, double y, std::string_view anchor, std::string_view text) {
  return "<text x=\"" + Tenth(x) + "\" y=\"" + Tenth(y) + "\" text-anchor=\"" +
         std::string(anchor) + "\">" + EscapeHtml(text) + "</text>";
}

}  // namespace

std::string EscapeHtml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string DevicesPlot(const std::vector<DevicesAt>& changes, Time begin, Time end) {
  if (changes.empty() || end <= begin) {
    return "";
  }
  const Duration width = std::max((end - begin) / kBuckets, Duration(1));
  const Levels levels = Average(changes, begin, width);
  double most = 0;
  for (size_t i = 0; i < static_cast<size_t>(kBuckets); ++i) {
    most = std::max(most, levels.whole[i] + levels.partial[i]);
  }
  if (most <= 0) {
    return "";
  }
  const int64_t top = RoundUp(most);
  const auto y = [&](double value) {
    return kTop + kPlotHeight * (1 - value / static_cast<double>(top));
  };
  std::string svg = "<svg viewBox=\"0 0 " + std::to_string(kWidth) + " " + std::to_string(kHeight) +
                    "\" role=\"img\" aria-label=\"Accelerators held over time\">";
  for (const int64_t part : {0, 1, 2}) {
    const double value = static_cast<double>(top) * static_cast<double>(part) / 2;
    svg += "<line class=\"grid\" x1=\"" + std::to_string(kLeft) + "\" x2=\"" +
           std::to_string(kLeft + kPlotWidth) + "\" y1=\"" + Tenth(y(value)) + "\" y2=\"" +
           Tenth(y(value)) + "\"/>";
    if (top % 2 == 0 || part != 1) {
      svg += Text(kLeft - 8, y(value) + 4, "end", Thousands(static_cast<int64_t>(value)));
    }
  }
  const auto area = [&](const char* name, const auto& lower, const auto& upper) {
    std::string points;
    for (size_t i = 0; i < static_cast<size_t>(kBuckets); ++i) {
      points += Tenth(X(i)) + "," + Tenth(y(upper(i))) + " " + Tenth(X(i + 1)) + "," +
                Tenth(y(upper(i))) + " ";
    }
    for (size_t i = static_cast<size_t>(kBuckets); i-- > 0;) {
      points += Tenth(X(i + 1)) + "," + Tenth(y(lower(i))) + " " + Tenth(X(i)) + "," +
                Tenth(y(lower(i))) + " ";
    }
    points.pop_back();
    svg += "<polygon class=\"" + std::string(name) + "\" points=\"" + points + "\"/>";
  };
  const auto whole = [&](size_t i) { return levels.whole[i]; };
  area(
      "whole", [](size_t) { return 0.0; }, whole);
  area("idle", whole, [&](size_t i) { return levels.whole[i] + levels.partial[i]; });
  for (const int part : {0, 1, 2, 3}) {
    const Time at = begin + (end - begin) * part / 3;
    svg += Text(kLeft + kPlotWidth * part / 3.0, kHeight - 6,
                part == 0 ? "start" : (part == 3 ? "end" : "middle"),
                FormatTime(at).substr(0, 16).replace(10, 1, " "));
  }
  return svg + "</svg>";
}

std::string BarsPlot(const std::vector<Bar>& bars) {
  constexpr int kRow = 24;
  constexpr int kLabel = 330;
  constexpr int kText = 200;
  int64_t most = 1;
  for (const Bar& bar : bars) {
    most = std::max(most, bar.value);
  }
  std::string svg = "<svg viewBox=\"0 0 " + std::to_string(kWidth) + " " +
                    std::to_string(kRow * static_cast<int>(bars.size())) + "\" role=\"img\">";
  double y = 0;
  for (const Bar& bar : bars) {
    const double length = std::max(2.0, (kWidth - kLabel - kText) * static_cast<double>(bar.value) /
                                            static_cast<double>(most));
    svg += Text(kLabel - 10, y + 16, "end", Shorten(bar.label, 44));
    svg += "<rect class=\"idle\" x=\"" + std::to_string(kLabel) + "\" y=\"" + Tenth(y + 4) +
           "\" width=\"" + Tenth(length) + "\" height=\"16\" rx=\"2\"/>";
    svg += Text(kLabel + length + 8, y + 16, "start", bar.text);
    y += kRow;
  }
  return svg + "</svg>";
}

}  // namespace tutti::audit
