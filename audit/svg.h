// SPDX-License-Identifier: Apache-2.0
// The plots of the HTML report as inline SVG: no scripts, colors from the page's variables.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "audit/model.h"

namespace tutti::audit {

[[nodiscard]] std::string EscapeHtml(std::string_view text);

// Devices that gangs held from `begin` to `end`: whole ones below, idle ones above. "" when there
// were none.
[[nodiscard]] std::string DevicesPlot(const std::vector<DevicesAt>& changes, Time begin, Time end);

struct Bar {
  std::string label;
  int64_t value = 0;
  std::string text;  // the value, for people
};
// Horizontal bars, the longest as wide as the plot.
[[nodiscard]] std::string BarsPlot(const std::vector<Bar>& bars);

}  // namespace tutti::audit
