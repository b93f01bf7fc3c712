// SPDX-License-Identifier: Apache-2.0
#include "audit/object_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::audit {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Outcome {
  std::vector<std::string> objects;  // "kind/name"
  std::vector<std::string> problems;
};

Outcome Read(std::string_view text, size_t chunk) {
  Outcome out;
  ObjectStream stream("in", [&](const Json& object, const std::string&) {
    out.objects.push_back(object["kind"].AsString() + "/" + object["metadata"]["name"].AsString());
  });
  for (size_t at = 0; at < text.size(); at += chunk) {
    stream.Feed(text.substr(at, chunk));
  }
  stream.Finish();
  out.problems = stream.Problems();
  return out;
}

std::string Object(const std::string& kind, const std::string& name) {
  return R"({"kind":")" + kind + R"(","metadata":{"name":")" + name +
         R"(","x":"]}\"{[\\","items":[1]}})";
}

TEST(ObjectStreamTest, ReadsAllFormsWhereverThePiecesEnd) {
  const std::string text = R"({"apiVersion":"v1","items":[)" + Object("Pod", "a") + " ,\n" +
                           Object("Job", "b") + R"(],"kind":"List","metadata":{"a":[{}]}})" + "\n" +
                           Object("Node", "c") + "\n[" + Object("Pod", "d") + "," +
                           Object("Pod", "e") +
                           R"(] {"kind":"PodList","items":[{"metadata":{"name":"f"}}]})";
  for (size_t chunk = 1; chunk < 40; ++chunk) {
    const Outcome out = Read(text, chunk);
    EXPECT_THAT(out.objects, ElementsAre("Pod/a", "Job/b", "Node/c", "Pod/d", "Pod/e", "Pod/f"));
    EXPECT_THAT(out.problems, IsEmpty());
  }
}

TEST(ObjectStreamTest, ACutFileGivesWhatIsWholeAndSaysWhereItEnds) {
  const std::string text =
      R"({"items":[)" + Object("Pod", "a") + "," + Object("Pod", "b").substr(0, 20);
  const Outcome out = Read(text, 7);
  EXPECT_THAT(out.objects, ElementsAre("Pod/a"));
  EXPECT_THAT(out.problems,
              ElementsAre("in: it ends in the middle of items[1]: it was cut off, and "
                          "what came after is missing"));
}

TEST(ObjectStreamTest, ABrokenItemCostsItselfOnly) {
  const Outcome out = Read(R"({"items":[{"kind":"Pod" "metadata":{}},)" + Object("Pod", "b") +
                               R"(,{"kind":"Pod"},{"metadata":{"name":"x"}}],"kind":"List"})",
                           5);
  EXPECT_THAT(out.objects, ElementsAre("Pod/b"));
  EXPECT_THAT(out.problems, ElementsAre(HasSubstr("in: items[0] can't be read"),
                                        HasSubstr("in: items[2] (Pod) has no metadata.name"),
                                        HasSubstr("in: items[3] has no kind")));
}

TEST(ObjectStreamTest, ManyProblemsAreCounted) {
  std::string text = R"({"items":[)";
  for (int i = 0; i < 50; ++i) {
    text += "{},";
  }
  const Outcome out = Read(text + Object("Pod", "a") + "]}", 11);
  EXPECT_THAT(out.objects, ElementsAre("Pod/a"));
  ASSERT_EQ(out.problems.size(), 4U);
  EXPECT_EQ(out.problems.back(), "in: and 47 more like these");
}

TEST(ObjectStreamTest, NothingAndNonsenseAreSaid) {
  EXPECT_THAT(Read("", 1).problems, ElementsAre("in: it is empty"));
  EXPECT_THAT(Read("error: You must be logged in", 3).problems,
              ElementsAre(HasSubstr("something that is not JSON")));
  EXPECT_THAT(Read(R"({"kind":"List","items":[]})", 3).problems, IsEmpty());
  EXPECT_THAT(Read(R"({"kind":"PodList","items":null})", 3).problems, IsEmpty());
}

}  // namespace
}  // namespace tutti::audit
