// SPDX-License-Identifier: Apache-2.0
#include "engine/testing/quota_twin.h"

#include <cstdlib>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace tutti::engine {
namespace {

TEST(QuotaTwinTest, AmountsAndVictimsAreThoseOfTheFormulas) {
  const char* wanted = std::getenv("TUTTI_TWIN_SEEDS");  // NOLINT(concurrency-mt-unsafe)
  const uint32_t seeds =
      wanted == nullptr ? 4000 : static_cast<uint32_t>(std::strtoul(wanted, nullptr, 10));
  int questions = 0;
  int preemptions = 0;
  for (uint32_t seed = 1; seed <= seeds; ++seed) {
    std::mt19937 random(seed);
    const testing::TwinResult result = testing::PlayQuotaTwin(
        [&](int sides) { return static_cast<int>(random() % static_cast<uint32_t>(sides)); });
    ASSERT_EQ(result.difference, "") << "seed " << seed;
    questions += result.questions;
    preemptions += result.preemptions;
  }
  EXPECT_GT(questions, static_cast<int>(seeds));
  EXPECT_GT(preemptions, static_cast<int>(seeds) / 8);
}

}  // namespace
}  // namespace tutti::engine
