// SPDX-License-Identifier: Apache-2.0
#include "operator/metrics_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace tutti {
namespace {

void AppendNumber(double value, std::string& out) {
  if (std::isnan(value)) {
    out += "NaN";
    return;
  }
  if (std::isinf(value)) {
    out += value > 0 ? "+Inf" : "-Inf";
    return;
  }
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
  out.append(text.data(), end.ptr);
}

void AppendEscaped(std::string_view text, bool quotes, std::string& out) {
  for (const char c : text) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '"' && quotes) {
      out += "\\\"";
    } else {
      out += c;
    }
  }
}

// `more_name` "" = no label besides those of the metric.
void AppendSeries(const prometheus::MetricFamily& family, std::string_view suffix,
                  const prometheus::ClientMetric& metric, std::string_view more_name,
                  std::string_view more_value, std::string& out) {
  out += family.name;
  out += suffix;
  bool first = true;
  const auto label = [&](std::string_view name, std::string_view value) {
    out += first ? '{' : ',';
    first = false;
    out += name;
    out += "=\"";
    AppendEscaped(value, /*quotes=*/true, out);
    out += '"';
  };
  for (const prometheus::ClientMetric::Label& known : metric.label) {
    label(known.name, known.value);
  }
  if (!more_name.empty()) {
    label(more_name, more_value);
  }
  out += first ? " " : "} ";
}

void AppendHistogram(const prometheus::MetricFamily& family, const prometheus::ClientMetric& metric,
                     std::string& out) {
  const prometheus::ClientMetric::Histogram& histogram = metric.histogram;
  AppendSeries(family, "_count", metric, "", "", out);
  out += std::to_string(histogram.sample_count) + "\n";
  AppendSeries(family, "_sum", metric, "", "", out);
  AppendNumber(histogram.sample_sum, out);
  out += "\n";
  bool infinite = false;
  for (const prometheus::ClientMetric::Bucket& bucket : histogram.bucket) {
    std::string bound;
    AppendNumber(bucket.upper_bound, bound);
    infinite = infinite || std::isinf(bucket.upper_bound);
    AppendSeries(family, "_bucket", metric, "le", bound, out);
    out += std::to_string(bucket.cumulative_count) + "\n";
  }
  if (!infinite) {
    AppendSeries(family, "_bucket", metric, "le", "+Inf", out);
    out += std::to_string(histogram.sample_count) + "\n";
  }
}

}  // namespace

std::string MetricsText(const std::vector<prometheus::MetricFamily>& families) {
  std::string out;
  for (const prometheus::MetricFamily& family : families) {
    const bool histogram = family.type == prometheus::MetricType::Histogram;
    const bool counter = family.type == prometheus::MetricType::Counter;
    out += "# HELP " + family.name + " ";
    AppendEscaped(family.help, /*quotes=*/false, out);
    out += "\n# TYPE " + family.name +
           (histogram ? " histogram\n"
            : counter ? " counter\n"
                      : " gauge\n");
    for (const prometheus::ClientMetric& metric : family.metric) {
      if (histogram) {
        AppendHistogram(family, metric, out);
        continue;
      }
      AppendSeries(family, "", metric, "", "", out);
      AppendNumber(counter ? metric.counter.value : metric.gauge.value, out);
      out += "\n";
    }
  }
  return out;
}

}  // namespace tutti
