// SPDX-License-Identifier: Apache-2.0
// Bytes decide on a forest of queues and cohorts, on what runs there and on who asks for room: the
// quota tree and the search for victims answer as their naive twin does.
#include "engine/testing/quota_twin.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  size_t at = 0;
  const auto choose = [&](int sides) { return at < size ? data[at++] % sides : 0; };
  const tutti::engine::testing::TwinResult result = tutti::engine::testing::PlayQuotaTwin(choose);
  if (!result.difference.empty()) {
    std::fprintf(stderr, "%s\n", result.difference.c_str());
  }
  REQUIRE(result.difference.empty());
  return 0;
}
