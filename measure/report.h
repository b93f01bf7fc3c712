// SPDX-License-Identifier: Apache-2.0
// Windows of a ledger for a terminal and for programs. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "measure/windows.h"

namespace tutti::measure {

struct Report {
  std::string ledger;
  Window all;
  std::vector<Window> parts;  // in order; empty: not asked for
  std::vector<std::string> notes;
  std::string source;
  std::string currency;
  bool prices_are_examples = false;
};

// `every` zero: no parts. The last part may be shorter.
[[nodiscard]] Report MakeReport(std::string ledger, const Windows& windows, Time from, Time to,
                                Duration every);

// At most `width` columns as far as names allow.
[[nodiscard]] std::string ToText(const Report& report, size_t width);
// Times RFC 3339, durations and device-seconds as integers, costs as decimal text.
[[nodiscard]] Json ToJson(const Report& report);
[[nodiscard]] Json ToJson(const Window& window);

// "2 h 05 min", "-" of nothing.
[[nodiscard]] std::string SpanOrDash(Duration duration, bool any);

}  // namespace tutti::measure
