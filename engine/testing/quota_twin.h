// SPDX-License-Identifier: Apache-2.0
// The quota tree and the classical search for victims beside a naive twin: the formulas of
// docs/engine.md, sections 2 and 9, recomputed from scratch for every answer. Runs from random
// numbers (quota_twin_test.cc) and from a fuzzer's bytes (fuzz/quota_fuzz.cc).
#pragma once

#include <functional>
#include <string>

namespace tutti::engine::testing {

struct TwinResult {
  std::string difference;  // "" = both gave the same answers
  int questions = 0;       // for victims
  int preemptions = 0;     // questions that had an answer
};

// Builds a forest, adds and removes workloads, and asks. `choose(n)` gives a number below n.
[[nodiscard]] TwinResult PlayQuotaTwin(const std::function<int(int)>& choose);

}  // namespace tutti::engine::testing
