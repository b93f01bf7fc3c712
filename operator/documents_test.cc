// SPDX-License-Identifier: Apache-2.0
#include "operator/documents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/yaml.h"

namespace tutti {
namespace {

using testing::HasSubstr;

std::vector<std::string> Texts(std::string_view text) {
  std::vector<std::string> out;
  const auto documents = ReadDocuments(text);
  EXPECT_TRUE(documents.has_value()) << documents.error().message;
  for (const Json& document : *documents) {
    out.push_back(document.Dump());
  }
  return out;
}

using Strings = std::vector<std::string>;

TEST(DocumentsTest, YamlDocumentsAreDividedByDashes) {
  EXPECT_EQ(Texts("kind: Node\n---\n---\nkind: Pod\n"),
            (Strings{R"({"kind":"Node"})", R"({"kind":"Pod"})"}));
}

TEST(DocumentsTest, JsonValuesFollowEachOther) {
  EXPECT_EQ(Texts(" {\"a\": \"}{\"}\n{\"b\": \"\\\"}\"}{\"c\": [[1]]} "),
            (Strings{R"({"a":"}{"})", R"({"b":"\"}"})", R"({"c":[[1]]})"}));
}

TEST(DocumentsTest, ElementsOfAnArrayAreDocuments) {
  EXPECT_EQ(Texts("[{\"a\": 1}, {\"b\": 2}]"), (Strings{R"({"a":1})", R"({"b":2})"}));
}

TEST(DocumentsTest, AnEmptyTextHasNoDocuments) {
  EXPECT_EQ(Texts(""), Strings{});
  EXPECT_EQ(Texts(" \n"), Strings{});
  EXPECT_EQ(Texts("# a comment\n"), Strings{});
}

TEST(DocumentsTest, ErrorsNameTheDocumentOrTheLine) {
  EXPECT_THAT(ReadDocuments("{\"a\": 1} {\"b\": }").error().message, HasSubstr("JSON document 2"));
  EXPECT_FALSE(ReadDocuments("{\"a\": 1").has_value());
  EXPECT_FALSE(ReadDocuments("{\"a\": 1}}").has_value());
  EXPECT_THAT(ReadDocuments("a: 1\n b: 2\n").error().message, HasSubstr("line 2"));
}

TEST(DocumentsTest, ALargeFileIsSaidToBeBetterAsJson) {
  EXPECT_THAT(ReadDocuments("a: " + std::string(yaml::kMaxBytes, 'x')).error().message,
              HasSubstr("JSON may be larger"));
  EXPECT_EQ(Texts("{\"a\": \"" + std::string(yaml::kMaxBytes, 'x') + "\"}").size(), 1U);
}

}  // namespace
}  // namespace tutti
