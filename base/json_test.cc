// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <gtest/gtest.h>

#include "base/json_lenient.h"

namespace tutti {
namespace {

Json MustParse(std::string_view text) {
  auto parsed = Json::Parse(text);
  EXPECT_TRUE(parsed) << text;
  return parsed ? *parsed : Json();
}

TEST(JsonTest, IntegersSurviveARoundTrip) {
  EXPECT_EQ(MustParse(R"({"a":9223372036854775807,"b":-1,"c":1.5})").Dump(),
            R"({"a":9223372036854775807,"b":-1,"c":1.5})");
}

TEST(JsonTest, MembersKeepTheirOrder) {
  EXPECT_EQ(MustParse(R"({"z":1,"a":{"y":[true,null,"x"]}})").Dump(),
            R"({"z":1,"a":{"y":[true,null,"x"]}})");
  EXPECT_EQ(MustParse(R"({"z":1,"a":{"y":1,"b":2}})").DumpSorted(), R"({"a":{"b":2,"y":1},"z":1})");
}

TEST(JsonTest, QuotesNewlinesAndControlCharactersAreEscaped) {
  EXPECT_EQ(Json("a\"b\n\x01").Dump(), R"("a\"b\n\u0001")");
}

TEST(JsonTest, LastDuplicateKeyWins) {
  EXPECT_EQ(MustParse(R"({"a":1,"b":2,"a":3})").Dump(), R"({"a":3,"b":2})");
}

TEST(JsonTest, BadTextIsAnError) {
  for (const char* text : {"", "{", "[1,]", "{\"a\":}", "nul", "\"\xff\"", "1 2"}) {
    EXPECT_FALSE(Json::Parse(text)) << text;
  }
  EXPECT_FALSE(Json::Parse(std::string(2000, '[')));
}

TEST(JsonTest, PathsThroughAbsentMembersAreNull) {
  const Json json = MustParse(R"({"a":{"b":3}})");
  EXPECT_EQ(json["a"]["b"].AsInt(), 3);
  EXPECT_TRUE(json["x"]["y"]["z"].IsNull());
  EXPECT_EQ(json["a"]["b"].AsString(), "");
}

TEST(JsonTest, MemberOrderDoesNotMatterForEquality) {
  EXPECT_EQ(MustParse(R"({"a":1,"b":2})"), MustParse(R"({"b":2,"a":1.0})"));
  EXPECT_FALSE(MustParse(R"({"a":1})") == MustParse(R"({"a":1,"b":null})"));
}

// The table of RFC 7386, appendix A.
TEST(JsonTest, MergePatchFollowsTheRfcTable) {
  const struct {
    const char* target;
    const char* patch;
    const char* want;
  } kRows[] = {
      {R"({"a":"b"})", R"({"a":"c"})", R"({"a":"c"})"},
      {R"({"a":"b"})", R"({"b":"c"})", R"({"a":"b","b":"c"})"},
      {R"({"a":"b"})", R"({"a":null})", R"({})"},
      {R"({"a":"b","b":"c"})", R"({"a":null})", R"({"b":"c"})"},
      {R"({"a":["b"]})", R"({"a":"c"})", R"({"a":"c"})"},
      {R"({"a":{"b":"c"}})", R"({"a":{"b":"d","c":null}})", R"({"a":{"b":"d"}})"},
      {R"({"a":[{"b":"c"}]})", R"({"a":[1]})", R"({"a":[1]})"},
      {R"(["a","b"])", R"(["c","d"])", R"(["c","d"])"},
      {R"({"a":"b"})", R"(["c"])", R"(["c"])"},
      {R"({"e":null})", R"({"a":1})", R"({"e":null,"a":1})"},
      {R"({})", R"({"a":{"bb":{"ccc":null}}})", R"({"a":{"bb":{}}})"},
  };
  for (const auto& row : kRows) {
    Json target = MustParse(row.target);
    ApplyMergePatch(target, MustParse(row.patch));
    EXPECT_EQ(target, MustParse(row.want)) << row.target << " + " << row.patch;
  }
}

TEST(JsonTest, DiffOfTwoValuesTurnsOneIntoTheOther) {
  const Json from = MustParse(R"({"a":1,"b":{"c":2,"d":3},"e":[1,2]})");
  const Json to = MustParse(R"({"b":{"c":2,"x":"y"},"e":[1],"f":true})");
  const Json patch = DiffMergePatch(from, to);
  Json patched = from;
  ApplyMergePatch(patched, patch);
  EXPECT_EQ(patched, to);
  EXPECT_EQ(DiffMergePatch(to, to), Json::Obj());
}

TEST(JsonTest, IntegersBeyond64BitsBecomeDoublesWithoutSpoilingTheRest) {
  const Json json =
      MustParse(R"({"a":100000000000000000000,"b":[-9223372036854775809,7],"a":1,"c":"x"})");
  EXPECT_EQ(json["a"].AsInt(), 1);
  EXPECT_TRUE(json["b"].AsArray()[0].IsDouble());
  EXPECT_EQ(json["b"].AsArray()[0].AsDouble(), -9223372036854775808.0);
  EXPECT_EQ(json["b"].AsArray()[1].AsInt(), 7);
  EXPECT_EQ(json["c"].AsString(), "x");
  EXPECT_FALSE(Json::Parse("[1e400]").has_value());
  EXPECT_FALSE(Json::Parse("[100000000000000000000").has_value());
}

TEST(JsonTest, NumbersBesideABigIntegerKeepTheirValues) {
  const auto json =
      Json::Parse("[18446744073709551616,0e40,-0e161,0.1,1e-400,-7,9223372036854775807]");
  ASSERT_TRUE(json.has_value());
  EXPECT_EQ(*json, Json::Arr({18446744073709551616.0, 0.0, -0.0, 0.1, 0.0, -7, INT64_MAX}));
  EXPECT_TRUE(json->AsArray()[6].IsInt());
  EXPECT_FALSE(Json::Parse("[18446744073709551616,1e999]").has_value());
  const auto too_big = Json::Parse("[18446744073709551616,1.8e308]");
  ASSERT_FALSE(too_big.has_value());
  EXPECT_EQ(too_big.error().message, "JSON: number too big for a double");
}

TEST(JsonTest, OnlyTheLenientParserTakesDeepNesting) {
  const auto nested = [](size_t depth) {
    return R"({"x":)" + std::string(depth, '[') + std::string(depth, ']') + R"(,"y":1})";
  };
  EXPECT_TRUE(Json::Parse(nested(400)).has_value());
  EXPECT_FALSE(Json::Parse(nested(9000)).has_value());
  const auto lenient = ParseLenient(nested(9000));
  ASSERT_TRUE(lenient.has_value()) << lenient.error().message;
  EXPECT_EQ((*lenient)["y"].AsInt(), 1);
  EXPECT_FALSE((*lenient)["x"].IsNull());
  EXPECT_FALSE(Json::Parse(R"({"n":100000000000000000000,"x":)" + nested(9000) + "}").has_value());
}

}  // namespace
}  // namespace tutti
