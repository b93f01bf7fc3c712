// SPDX-License-Identifier: Apache-2.0
#include "operator/metrics_text.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

namespace tutti {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily Gauge(double value, std::vector<ClientMetric::Label> labels = {}) {
  MetricFamily family{"g", "A gauge.", MetricType::Gauge, {}};
  ClientMetric metric;
  metric.label = std::move(labels);
  metric.gauge.value = value;
  family.metric.push_back(std::move(metric));
  return family;
}

std::string ValueOf(double value) {
  const std::string text = MetricsText({Gauge(value)});
  return text.substr(text.rfind(' ') + 1);
}

TEST(MetricsTextTest, ANumberIsTheShortestThatReadsBackTheSame) {
  EXPECT_EQ(ValueOf(0.1), "0.1\n");
  EXPECT_EQ(ValueOf(1000), "1000\n");
  EXPECT_EQ(ValueOf(133.33333333333334), "133.33333333333334\n");
  EXPECT_EQ(ValueOf(std::nan("")), "NaN\n");
  EXPECT_EQ(ValueOf(-std::numeric_limits<double>::infinity()), "-Inf\n");
}

TEST(MetricsTextTest, LabelsAndHelpAreEscaped) {
  MetricFamily family = Gauge(1, {{"a", "say \"x\"\n\\"}, {"b", "y"}});
  family.help = "one\ntwo \"q\" \\";
  EXPECT_EQ(MetricsText({family}),
            "# HELP g one\\ntwo \"q\" \\\\\n# TYPE g gauge\n"
            "g{a=\"say \\\"x\\\"\\n\\\\\",b=\"y\"} 1\n");
}

// The library's own text is the reference where its numbers are right.
TEST(MetricsTextTest, CountersAndHistogramsAreAsTheLibraryPrintsThem) {
  MetricFamily counter{"c_total", "Count.", MetricType::Counter, {}};
  ClientMetric metric;
  metric.label = {{"k", "v"}};
  metric.counter.value = 42;
  counter.metric.push_back(metric);
  MetricFamily histogram{"h_seconds", "Times.", MetricType::Histogram, {}};
  ClientMetric times;
  times.histogram.sample_count = 3;
  times.histogram.sample_sum = 4.5;
  times.histogram.bucket = {{1, 0.5}, {2, 1}, {3, std::numeric_limits<double>::infinity()}};
  histogram.metric.push_back(times);
  times.label = {{"k", "v"}};
  times.histogram.bucket.pop_back();
  histogram.metric.push_back(times);
  const std::vector<MetricFamily> families = {counter, histogram};
  EXPECT_EQ(MetricsText(families), prometheus::TextSerializer().Serialize(families));
}

}  // namespace
}  // namespace tutti
