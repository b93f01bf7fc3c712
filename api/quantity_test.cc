// SPDX-License-Identifier: Apache-2.0
#include "api/quantity.h"

#include <fstream>
#include <limits>

#include <gtest/gtest.h>

namespace tutti::api {
namespace {

Quantity Q(std::string_view text) {
  Result<Quantity> quantity = Quantity::Parse(text);
  EXPECT_TRUE(quantity.has_value()) << text;
  return quantity.value_or(Quantity());
}

std::vector<std::string> SplitTabs(const std::string& line) {
  std::vector<std::string> out(1);
  for (const char c : line) {
    if (c == '\t') {
      out.emplace_back();
    } else {
      out.back().push_back(c);
    }
  }
  return out;
}

TEST(Quantity, AgreesWithApimachineryOnTheTable) {
  std::ifstream file(std::string(TUTTI_SOURCE_DIR) + "/api/testdata/quantity.tsv");
  ASSERT_TRUE(file.is_open());
  int rows = 0;
  int refused = 0;
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with("#")) {
      continue;
    }
    const std::vector<std::string> row = SplitTabs(line);
    ASSERT_GE(row.size(), 2U) << line;
    Result<Json> input = Json::Parse(row[0]);
    ASSERT_TRUE(input.has_value()) << line;
    const Result<Quantity> quantity = Quantity::Parse(input->AsString());
    ++rows;
    if (row[1] == "refused") {
      ++refused;
      EXPECT_FALSE(quantity.has_value()) << line;
      continue;
    }
    ASSERT_GE(row.size(), 4U) << line;
    ASSERT_TRUE(quantity.has_value()) << line;
    EXPECT_EQ(std::to_string(quantity->Value()), row[1]) << line;
    EXPECT_EQ(std::to_string(quantity->MilliValue()), row[2]) << line;
    EXPECT_EQ(quantity->ToString(), row[3]) << line;
    EXPECT_EQ(Q(quantity->ToString()), *quantity) << line;
  }
  EXPECT_GT(rows, 900);
  EXPECT_GT(refused, 100);
}

TEST(Quantity, RefusesWithAMessageThatQuotesTheText) {
  const Result<Quantity> quantity = Quantity::Parse("1Kb");
  ASSERT_FALSE(quantity.has_value());
  EXPECT_EQ(quantity.error().code, ErrorCode::kInvalid);
  EXPECT_NE(quantity.error().message.find("\"1Kb\""), std::string::npos);
  EXPECT_NE(quantity.error().message.find("1Gi"), std::string::npos);
}

TEST(Quantity, ReadsJsonStringsNumbersAndNull) {
  EXPECT_EQ(*Quantity::FromJson(Json("500m")), Q("0.5"));
  EXPECT_EQ(*Quantity::FromJson(Json(" 1Gi\n")), Q("1Gi"));
  EXPECT_EQ(*Quantity::FromJson(Json(3)), Q("3"));
  EXPECT_EQ(*Quantity::FromJson(Json(0.1)), Q("100m"));
  EXPECT_EQ(*Quantity::FromJson(Json(1e21)), Q("1e21"));
  EXPECT_EQ(*Quantity::FromJson(Json()), Quantity());
  EXPECT_FALSE(Quantity::FromJson(Json(true)).has_value());
  EXPECT_FALSE(Quantity::FromJson(Json::Arr()).has_value());
  EXPECT_FALSE(Quantity::FromJson(Json("1 Gi")).has_value());
}

TEST(Quantity, ComparesByValueAcrossFormats) {
  EXPECT_EQ(Q("1Gi"), Q("1073741824"));
  EXPECT_EQ(Q("1000m"), Q("1"));
  EXPECT_EQ(Q("0Mi"), Q("0"));
  EXPECT_LT(Q("999m"), Q("1"));
  EXPECT_LT(Q("-1Gi"), Q("-1G"));
  EXPECT_LT(Q("-1"), Q("1n"));
  EXPECT_LT(Q("1e37"), Q("1e38"));
  EXPECT_GT(Q("9223372036854775808"), Q("9223372036854775807"));
  EXPECT_GT(Q("12345678901234567890123456789012345678"), Q("1e37"));
}

TEST(Quantity, AddsExactly) {
  EXPECT_EQ((Q("100u") + Q("100u")).MilliValue(), 1);
  EXPECT_EQ((Q("1500m") + Q("0.5")).ToString(), "2");
  EXPECT_EQ((Q("1Gi") + Q("1Gi")).ToString(), "2Gi");
  EXPECT_EQ((Q("1Gi") + Q("1")).ToString(), "1073741825");
  EXPECT_EQ((Q("1") + Q("-1")).ToString(), "0");
  EXPECT_EQ((Q("9223372036854775807") + Q("1")).ToString(), "9223372036854775808");
  EXPECT_EQ((Q("1e100") + Q("1n")).Value(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ((Q("-1e100") + Q("1e50")).Value(), std::numeric_limits<int64_t>::min());
}

TEST(Quantity, SubtractsAsTheApiServerDoes) {
  EXPECT_EQ((Q("1") - Q("1.5")).ToString(), "-500m");
  EXPECT_EQ((Q("2Gi") - Q("1Gi")).ToString(), "1Gi");
  // The opposite of the smallest int64 is itself in 64 bits …
  const Quantity smallest = Quantity::FromInt(std::numeric_limits<int64_t>::min());
  EXPECT_LT(Q("1") - smallest, Q("0"));
  EXPECT_EQ((Q("1") - smallest).AsInt64(), std::numeric_limits<int64_t>::min() + 1);
  // … and isn't beyond them.
  EXPECT_EQ((Q("-1") - smallest).ToString(), "9223372036854775807");
  EXPECT_EQ((Q("1.5Gi") - smallest).Sign(), 1);
  EXPECT_EQ((Q("10E") - smallest).Sign(), 1);
}

TEST(Quantity, SumsStayIn64BitsAsLongAsTheyFit) {
  const auto none = std::nullopt;
  const int64_t largest = std::numeric_limits<int64_t>::max();
  EXPECT_EQ((Quantity::FromInt(largest - 1) + Q("1")).AsInt64(), largest);
  EXPECT_EQ((Quantity::FromInt(largest) + Q("1")).AsInt64(), none);
  // What was beyond them once stays there.
  EXPECT_EQ((Quantity::FromInt(largest) + Q("1") - Q("1")).AsInt64(), none);
  EXPECT_EQ((Q("10Gi") + Quantity::FromInt(-largest - 1)).AsInt64(),
            (int64_t{10} << 30) - largest - 1);
}

TEST(Quantity, IsAnIntegerWhereTheApiServerKeepsOne) {
  const auto none = std::nullopt;
  EXPECT_EQ(Q("0").AsInt64(), 0);
  EXPECT_EQ(Q("100k").AsInt64(), 100'000);
  EXPECT_EQ(Q("10Gi").AsInt64(), int64_t{10} << 30);
  EXPECT_EQ(Q("1e3").AsInt64(), 1000);
  EXPECT_EQ(Q("9223372036854775807").AsInt64(), none);  // 19 digits are kept as a decimal
  EXPECT_EQ(Q("1.0").AsInt64(), none);
  EXPECT_EQ(Q("1000m").AsInt64(), none);
  EXPECT_EQ(Q("1.5Gi").AsInt64(), none);
  EXPECT_EQ((Q("500m") + Q("500m")).AsInt64(), none);
  EXPECT_EQ((Q("1Gi") + Q("1")).AsInt64(), (int64_t{1} << 30) + 1);
  EXPECT_EQ((Q("0") + Q("1.5Gi")).AsInt64(), none);
  EXPECT_EQ(Q("1e18").AsInt64(), 1'000'000'000'000'000'000);
  EXPECT_EQ(Q("10e18").AsInt64(), none);
}

TEST(Quantity, ApproximatesAsADouble) {
  EXPECT_EQ(Q("1.5").ApproximateDouble(), 1.5);
  EXPECT_EQ(Q("10Gi").ApproximateDouble(), 10737418240.0);
  EXPECT_EQ(Q("-500m").ApproximateDouble(), -0.5);
  EXPECT_EQ(Q("1e30").ApproximateDouble(), 1e30);
  // Numbers of more than 64 bits are kept in billionths, and rounded twice.
  EXPECT_EQ(Q("12345678901234567890").ApproximateDouble(), 12345678901234567890e9 * 1e-9);
  EXPECT_EQ(Q("-9Ei").ApproximateDouble(), -9223372036854775807.0);
  EXPECT_EQ(Q("0").ApproximateDouble(), 0.0);
}

TEST(Quantity, PrintsComputedValuesInCanonicalForm) {
  EXPECT_EQ(Quantity::FromInt(0).ToString(), "0");
  EXPECT_EQ(Quantity::FromInt(1000).ToString(), "1k");
  EXPECT_EQ(Quantity::FromMilli(1500).ToString(), "1500m");
  EXPECT_EQ(Quantity::FromMilli(2000).ToString(), "2");
  EXPECT_EQ(Quantity::FromBytes(1024).ToString(), "1Ki");
  EXPECT_EQ(Quantity::FromBytes(1000).ToString(), "1k");
  EXPECT_EQ(Quantity::FromBytes(1500).ToString(), "1500");
  EXPECT_EQ(Quantity::FromInt(std::numeric_limits<int64_t>::min()).ToString(),
            "-9223372036854775808");
}

TEST(Amounts, CountCpuInMilliAndTheRestInUnitsRoundedUp) {
  EXPECT_EQ(ToAmount("cpu", Q("1.0001")), 1001);
  EXPECT_EQ(ToAmount("memory", Q("1.5")), 2);
  EXPECT_EQ(ToAmount("nvidia.com/gpu", Q("8")), 8);
  EXPECT_EQ(ToAmount("cpu", Q("1e30")), std::numeric_limits<int64_t>::max());
}

TEST(Amounts, PrintForAPersonAndComeBackTheSame) {
  EXPECT_EQ(FormatAmount("cpu", 1500), "1500m");
  EXPECT_EQ(FormatAmount("cpu", 2000), "2");
  EXPECT_EQ(FormatAmount("memory", 1073741824), "1Gi");
  EXPECT_EQ(FormatAmount("ephemeral-storage", 1536LL << 20), "1536Mi");
  EXPECT_EQ(FormatAmount("hugepages-2Mi", 4LL << 20), "4Mi");
  EXPECT_EQ(FormatAmount("nvidia.com/gpu", 8), "8");
  for (const char* resource : {"cpu", "memory", "nvidia.com/gpu"}) {
    for (const int64_t amount :
         {int64_t{0}, int64_t{1}, int64_t{1000}, int64_t{1024}, int64_t{123456789},
          std::numeric_limits<int64_t>::max(), int64_t{-123456789}}) {
      EXPECT_EQ(ToAmount(resource, FromAmount(resource, amount)), amount) << resource;
      EXPECT_EQ(ToAmount(resource, Q(FormatAmount(resource, amount))), amount) << resource;
    }
  }
}

TEST(Quantity, ProductsAreExact) {
  const auto product = [](const char* a, const char* b) {
    return Quantity::Parse(a).value() * Quantity::Parse(b).value();
  };
  EXPECT_EQ(product("3", "500m"), Quantity::Parse("1500m").value());
  EXPECT_EQ(product("2Gi", "2"), Quantity::Parse("4Gi").value());
  EXPECT_EQ(product("2Gi", "2").ToString(), "4Gi");
  EXPECT_EQ(product("2", "-8"), Quantity::Parse("-16").value());
  EXPECT_TRUE(product("0", "7").IsZero());
  EXPECT_EQ(product("9223372036854775807", "9223372036854775807").Value(), INT64_MAX);
}

TEST(Amounts, SumsSaturateAndNeverWrap) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(SaturatingAdd(kMax, 1), kMax);
  EXPECT_EQ(SaturatingAdd(kMin, -1), kMin);
  EXPECT_EQ(SaturatingMul(kMax, 2), kMax);
  EXPECT_EQ(SaturatingMul(kMax, -2), kMin);
  Amounts sum{{"cpu", kMax - 1}};
  AddTo(sum, {{"cpu", 1000}, {"memory", 5}}, 3);
  EXPECT_EQ(sum, (Amounts{{"cpu", kMax}, {"memory", 15}}));
  MaxInto(sum, {{"memory", 20}, {"gpu", 1}});
  EXPECT_EQ(sum, (Amounts{{"cpu", kMax}, {"gpu", 1}, {"memory", 20}}));
}

TEST(ResourceList, NamesTheResourceOfABadQuantity) {
  const Result<Json> json = Json::Parse(R"({"cpu": "1", "memory": "1Gb"})");
  const Result<ResourceList> list = ResourceListFromJson(*json);
  ASSERT_FALSE(list.has_value());
  EXPECT_NE(list.error().message.find("[memory]"), std::string::npos);
  EXPECT_FALSE(ResourceListFromJson(Json("x")).has_value());
  EXPECT_TRUE(ResourceListFromJson(Json())->empty());
}

TEST(ResourceList, WritesCanonicalStrings) {
  EXPECT_EQ(ToJson(ResourceList{{"memory", Q("1.5Gi")}, {"cpu", Q("0.5")}}).Dump(),
            R"({"cpu":"500m","memory":"1536Mi"})");
}

}  // namespace
}  // namespace tutti::api
