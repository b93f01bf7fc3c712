// SPDX-License-Identifier: Apache-2.0
#include "engine/waves.h"

#include <gtest/gtest.h>

namespace tutti::engine {
namespace {

constexpr NodeId kTree{1};
constexpr NodeId kOtherTree{2};
constexpr QueueId kQueue{1};
constexpr QueueId kSibling{2};
const Time kNow = kNoTime + std::chrono::hours(1);

TEST(WavesTest, OneOfAQueueInAPassAndNobodyUntilTheWaveIsOver) {
  Waves waves;
  waves.SetInterval(std::chrono::seconds(1));
  const uint64_t early = waves.Arrive();
  EXPECT_FALSE(waves.HoldsBack(kTree, kQueue, early, kNow));
  waves.Strike(kTree, kQueue);
  EXPECT_TRUE(waves.HoldsBack(kTree, kQueue, early, kNow));
  EXPECT_FALSE(waves.HoldsBack(kTree, kSibling, early, kNow));
  waves.EndPass(kNow);
  EXPECT_TRUE(waves.HoldsBack(kTree, kSibling, early, kNow));
  EXPECT_FALSE(waves.HoldsBack(kOtherTree, kSibling, early, kNow));
  EXPECT_FALSE(waves.HoldsBack(kTree, kSibling, waves.Arrive(), kNow));  // it has just come

  EXPECT_EQ(waves.Over(), kNow + std::chrono::seconds(10));
  waves.RoomCame(kOtherTree);
  EXPECT_EQ(waves.Over(), kNow + std::chrono::seconds(10));
  waves.RoomCame(kTree);
  EXPECT_EQ(waves.Over(), kNow + std::chrono::seconds(1));
  EXPECT_TRUE(waves.TakeOver(kNow).empty());
  const Time later = kNow + std::chrono::seconds(1);
  EXPECT_FALSE(waves.HoldsBack(kTree, kQueue, early, later));
  EXPECT_EQ(waves.TakeOver(later), std::vector<NodeId>{kTree});
  EXPECT_EQ(waves.Over(), std::nullopt);
  EXPECT_TRUE(waves.TakeOver(later).empty());
}

TEST(WavesTest, WithoutAnIntervalNobodyIsHeldBack) {
  Waves waves;
  const uint64_t early = waves.Arrive();
  waves.Strike(kTree, kQueue);
  EXPECT_FALSE(waves.HoldsBack(kTree, kQueue, early, kNow));
  waves.EndPass(kNow);
  EXPECT_FALSE(waves.HoldsBack(kTree, kQueue, early, kNow));
}

}  // namespace
}  // namespace tutti::engine
