// SPDX-License-Identifier: Apache-2.0
#include "engine/device_share.h"

#include <gtest/gtest.h>

#include "engine/device_test_util.h"

namespace tutti::engine {
namespace {

// What a request of `asked` ("" = none) takes of a device with 40Gi; "refused" if it can't.
std::string Takes(const std::string& asked, const api::CapacityPolicy& policy) {
  api::Device device = WithCapacity(MakeDevice("d"), "memory", "40Gi");
  device.capacity["memory"].policy = policy;
  Capacities requested;
  if (!asked.empty())
    requested["memory"] = Amount(asked);
  const auto consumed = ConsumedBy(requested, device);
  return consumed ? api::FormatAmount("memory", consumed->at("memory").Value()) : "refused";
}

TEST(ConsumedBy, WithoutAPolicyItIsWhatWasAskedOrAll) {
  const api::Device device = WithCapacity(MakeDevice("d"), "memory", "40Gi");
  EXPECT_EQ(ConsumedBy({}, device)->at("memory"), Amount("40Gi"));
  EXPECT_EQ(ConsumedBy({{"memory", Amount("1500m")}}, device)->at("memory"), Amount("1500m"));
  EXPECT_FALSE(ConsumedBy({{"cores", Amount("1")}}, device).has_value());
}

TEST(ConsumedBy, RangesRoundUpByStepsFromTheMinimum) {
  api::CapacityPolicy policy;
  policy.default_value = Amount("2Gi");
  policy.has_range = true;
  policy.min = Amount("1Gi");
  policy.max = Amount("9Gi");
  policy.step = Amount("4Gi");
  EXPECT_EQ(Takes("", policy), "2Gi");
  EXPECT_EQ(Takes("1", policy), "1Gi");
  EXPECT_EQ(Takes("1Gi", policy), "1Gi");
  EXPECT_EQ(Takes("1025Mi", policy), "5Gi");
  EXPECT_EQ(Takes("5Gi", policy), "5Gi");
  EXPECT_EQ(Takes("9Gi", policy), "9Gi");
  EXPECT_EQ(Takes("9217Mi", policy), "refused");
  policy.step.reset();
  EXPECT_EQ(Takes("1025Mi", policy), "1025Mi");
  policy.step = Amount("0");
  EXPECT_EQ(Takes("3Gi", policy), "3Gi") << "a step of 0 is none";
}

TEST(ConsumedBy, ListsRoundUpToTheNextValue) {
  api::CapacityPolicy policy;
  policy.default_value = Amount("8Gi");
  policy.valid_values = {Amount("4Gi"), Amount("8Gi"), Amount("32Gi")};
  EXPECT_EQ(Takes("", policy), "8Gi");
  EXPECT_EQ(Takes("1Gi", policy), "4Gi");
  EXPECT_EQ(Takes("4Gi", policy), "4Gi");
  EXPECT_EQ(Takes("9Gi", policy), "32Gi");
  EXPECT_EQ(Takes("33Gi", policy), "refused");
}

TEST(ConsumedBy, HugeAmountsDoNotWrap) {
  api::CapacityPolicy policy;
  policy.has_range = true;
  policy.min = Amount("1");
  policy.step = Amount("9223372036854775807");
  EXPECT_EQ(Takes("9223372036854775807", policy), "refused");
}

TEST(CapacityLeft, SumsWhatIsTakenExactly) {
  const api::Device device = WithCapacity(MakeDevice("d"), "m", "1");
  const Capacities half{{"m", Amount("500m")}};
  const Capacities more{{"m", Amount("500000001n")}};
  EXPECT_TRUE(CapacityLeft(device, half, &half, nullptr));
  EXPECT_FALSE(CapacityLeft(device, more, &half, nullptr));
  EXPECT_FALSE(CapacityLeft(device, half, &half, &half));
}

TEST(DeviceTrial, GivesBackExactlyWhatItTook) {
  DeviceBook book;
  book.Take({1, false, {}});
  book.Take({2, true, {{"m", Amount("100m")}}});
  DeviceBook before;
  before.Take({1, false, {}});
  before.Take({2, true, {{"m", Amount("0.1")}}});
  ASSERT_TRUE(book == before);
  {
    DeviceTrial trial(book);
    trial.Take({{3, false, {}}, {2, true, {{"m", Amount("1n")}, {"x", Amount("1")}}}});
    const size_t mark = trial.Mark();
    EXPECT_EQ(book.Whole(3), 1);
    trial.Take({{4, true, {{"m", Amount("1")}}}});
    EXPECT_EQ(book.Consumed(2)->at("m"), Amount("100000001n"));
    trial.Rollback(mark);
    EXPECT_EQ(book.Consumed(4), nullptr);
    EXPECT_FALSE(book.Taken(4));
    EXPECT_EQ(book.Shares(2), 2);
    EXPECT_FALSE(book == before);
  }
  EXPECT_TRUE(book == before);
}

}  // namespace
}  // namespace tutti::engine
