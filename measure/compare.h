// SPDX-License-Identifier: Apache-2.0
// Two windows beside each other, before and after, and whether they can be compared at all: less
// waste under half the load proves nothing. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "measure/windows.h"

namespace tutti::measure {

enum class Comparable {
  kYes,
  kWithCare,  // the load differs: what it would change by itself is said
  kNo,        // too little was seen, or something else
};

struct Comparison {
  Window a;
  Window b;
  std::string a_name;  // "before.db", "ledger.db from … to …"
  std::string b_name;
  Comparable comparable = Comparable::kYes;
  std::vector<std::string> reasons;  // why not, or with care; the worst first
  std::vector<std::string> notes;    // of either, with its letter
  std::string currency;
  bool prices_are_examples = false;
};

// REQUIRES: both with the same prices and tolerance.
[[nodiscard]] Comparison Compare(const Windows& a, const Window& window_a, std::string a_name,
                                 const Windows& b, const Window& window_b, std::string b_name);

// At most `width` columns as far as names allow.
[[nodiscard]] std::string ToText(const Comparison& comparison, size_t width);
[[nodiscard]] Json ToJson(const Comparison& comparison);

}  // namespace tutti::measure
