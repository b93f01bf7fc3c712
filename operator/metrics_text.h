// SPDX-License-Identifier: Apache-2.0
// The page of metrics in Prometheus' text format 0.0.4. Why not the library's TextSerializer: it
// prints 16 digits of a number, of which some need 17, so that a share read back isn't the one that
// was set, and others don't (0.1). Here every number is the shortest that reads back the same, as
// Go's client prints it.
#pragma once

#include <string>
#include <vector>

#include <prometheus/metric_family.h>

namespace tutti {

[[nodiscard]] std::string MetricsText(const std::vector<prometheus::MetricFamily>& families);

}  // namespace tutti
