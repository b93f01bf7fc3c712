// SPDX-License-Identifier: Apache-2.0
#include "operator/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::yaml {
namespace {

// What kubectl and other Kubernetes tools make of the same text.
TEST(YamlTest, ScalarsFollowTheRulesOfKubernetesTools) {
  struct Case {
    std::string yaml;
    std::string json;
  };
  const std::vector<Case> cases = {
      {"true", "true"},
      {"Yes", "true"},
      {"on", "true"},
      {"y", "true"},
      {"off", "false"},
      {"N", "false"},
      {"'yes'", "\"yes\""},
      {"\"true\"", "\"true\""},
      {"tRue", "\"tRue\""},
      {"~", "null"},
      {"null", "null"},
      {"'null'", "\"null\""},
      {"''", "\"\""},
      {"12", "12"},
      {"-3", "-3"},
      {"+4", "4"},
      {"1_000", "1000"},
      {"010", "8"},
      {"0o14", "12"},
      {"0x1F", "31"},
      {"0b101", "5"},
      {"09", "9.0"},
      {"1.5", "1.5"},
      {".5", "0.5"},
      {"1e3", "1000.0"},
      {"1.10", "1.1"},
      {"'1.10'", "\"1.10\""},
      {"1.2.3", "\"1.2.3\""},
      {"500m", "\"500m\""},
      {"1Gi", "\"1Gi\""},
      {"0x", "\"0x\""},
      {"2001-12-14", "\"2001-12-14\""},
      {"12:30", "\"12:30\""},
      {"!!str 12", "\"12\""},
      {"!!int '7'", "7"},
      {"9223372036854775807", "9223372036854775807"},
      {"-9223372036854775808", "-9223372036854775808"},
      {"|\n  a\n  b\n", "\"a\\nb\\n\""},
      {"[a, 1, {b: c}]", "[\"a\",1,{\"b\":\"c\"}]"},
      {"{1: a, true: b}", "{\"1\":\"a\",\"true\":\"b\"}"},
      {"", "null"},
      {"# only a comment", "null"},
  };
  for (const Case& c : cases) {
    const auto json = ToJson(c.yaml);
    ASSERT_TRUE(json) << c.yaml << ": " << json.error().message;
    EXPECT_EQ(json->Dump(), c.json) << c.yaml;
  }
}

TEST(YamlTest, MergeKeysFillInWhatIsNotGiven) {
  const auto json =
      ToJson("base: &b {x: 1, w: 2}\nmore: &m {w: 3, z: 4}\nall:\n  <<: [*b, *m]\n  x: 0\n");
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ((*json)["all"].DumpSorted(), R"({"w":2,"x":0,"z":4})");
}

TEST(YamlTest, ErrorsNameTheLine) {
  struct Case {
    std::string yaml;
    std::string message;
  };
  const std::vector<Case> cases = {
      {"a: 1\nb: 2\na: 3\n", "line 3: a: this key is given twice"},
      {"x:\n  - {k: 1,\n     k: 2}\n", "line 3: x[0].k: this key is given twice"},
      {"a: [1, 2\n", "line "},
      {"a: !!int x\n", "line 1: a: 'x' is not an integer"},
      {"? [1]\n: x\n", "a key must be a plain text"},
      {"a: 1\n---\nb: 2\n", "one document is expected, the text has 2"},
      {"a: *nowhere\n", "line 1"},
      {"a:\n  <<: 5\n", "'<<' takes a map"},
      {"a: 1e999\n", "out of range"},
  };
  for (const Case& c : cases) {
    const auto json = ToJson(c.yaml);
    ASSERT_FALSE(json) << c.yaml;
    EXPECT_THAT(json.error().message, testing::HasSubstr(c.message)) << c.yaml;
  }
}

TEST(YamlTest, BombsAreRefused) {
  std::string nested;
  for (int i = 0; i < 200; ++i) {
    nested += std::string(static_cast<size_t>(i), ' ') + "a:\n";
  }
  EXPECT_THAT(ToJson(nested).error().message, testing::HasSubstr("nested too deeply"));
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 8; ++i) {
    const std::string previous = "*a" + std::to_string(i - 1);
    laughs += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) {
      laughs += (j == 0 ? "" : ", ") + previous;
    }
    laughs += "]\n";
  }
  EXPECT_THAT(ToJson(laughs).error().message, testing::HasSubstr("too many values"));
  EXPECT_THAT(ToJson("a: &a [*a]").error().message, testing::HasSubstr("line 1"));
  EXPECT_THAT(ToJson(std::string(kMaxBytes + 1, ' ')).error().message,
              testing::HasSubstr("larger than"));
}

TEST(YamlTest, KnowsTheLineOfEveryPath) {
  const auto documents = Parse("a: 1\n---\n\nb:\n  c:\n  - d: x\n    e: y\n");
  ASSERT_TRUE(documents) << documents.error().message;
  ASSERT_EQ(documents->size(), 2U);
  EXPECT_EQ((*documents)[0].LineOf("a"), 1);
  EXPECT_EQ((*documents)[1].LineOf("b.c[0].e"), 7);
  EXPECT_EQ((*documents)[1].LineOf("nothing"), 0);
}

}  // namespace
}  // namespace tutti::yaml
