// SPDX-License-Identifier: Apache-2.0
#include "reconciler/resource_rules.h"

#include <gtest/gtest.h>

namespace tutti::reconciler {
namespace {

api::Quantity Q(const char* text) {
  return api::Quantity::Parse(text).value();
}

TEST(ResourceRulesTest, WithoutRulesNothingChanges) {
  const api::Amounts requests{{"cpu", 1500}, {"memory", 1024}};
  EXPECT_EQ(ApplyResourceRules({}, requests), requests);
}

TEST(ResourceRulesTest, ExcludedPrefixesAreNotCounted) {
  const ResourceRules rules{{"networking.example.com/"}, {}};
  EXPECT_EQ(ApplyResourceRules(rules, {{"cpu", 1}, {"networking.example.com/vpc1", 2}}),
            (api::Amounts{{"cpu", 1}}));
}

TEST(ResourceRulesTest, OutputsAreInputTimesFactor) {
  ResourceRules rules;
  rules.transformations.push_back({"example.com/small", true, "", {{"cpu", Q("500m")}}});
  EXPECT_EQ(ApplyResourceRules(rules, {{"example.com/small", 3}, {"memory", 8}}),
            (api::Amounts{{"cpu", 1500}, {"memory", 8}}));
  rules.transformations[0].replace = false;
  EXPECT_EQ(ApplyResourceRules(rules, {{"example.com/small", 3}, {"cpu", 1000}}),
            (api::Amounts{{"cpu", 2500}, {"example.com/small", 3}}));
}

TEST(ResourceRulesTest, OutputsOfSeveralInputsAddUpInAnyOrder) {
  ResourceRules rules;
  rules.transformations.push_back({"example.com/b", true, "", {{"example.com/credits", Q("100")}}});
  rules.transformations.push_back({"example.com/a", true, "", {{"example.com/credits", Q("10")}}});
  EXPECT_EQ(ApplyResourceRules(rules, {{"example.com/a", 2}, {"example.com/b", 1}}),
            (api::Amounts{{"example.com/credits", 120}}));
}

TEST(ResourceRulesTest, AnAllowanceReducesWhatIsGeneratedAndNothingElse) {
  ResourceRules rules;
  rules.transformations.push_back({"example.com/a", true, "", {{"memory", Q("-8")}}});
  rules.transformations.push_back({"example.com/b", true, "", {{"memory", Q("5")}}});
  EXPECT_EQ(ApplyResourceRules(rules, {{"example.com/a", 1}, {"example.com/b", 3}, {"memory", 4}}),
            (api::Amounts{{"memory", 11}}));
  EXPECT_EQ(ApplyResourceRules(rules, {{"example.com/a", 1}, {"example.com/b", 1}, {"memory", 4}}),
            (api::Amounts{{"memory", 4}}));
}

// kueue#12962: 300m x 1000 became 3000.
TEST(ResourceRulesTest, AFractionOfACoreIsNotRoundedBeforeItIsMultiplied) {
  const auto credits = [](int64_t milli, const char* factor) {
    ResourceRules rules;
    rules.transformations.push_back({"cpu", true, "", {{"example.com/credits", Q(factor)}}});
    return ApplyResourceRules(rules, {{"cpu", milli}}).at("example.com/credits");
  };
  EXPECT_EQ(credits(300, "1000"), 300);
  EXPECT_EQ(credits(1, "1000"), 1);
  EXPECT_EQ(credits(1500, "2"), 3);
  EXPECT_EQ(credits(333, "3"), 1) << "0.999, rounded up at the end";
  EXPECT_EQ(credits(250, "500m"), 1) << "0.125, rounded up at the end";
}

// kueue#13986: what is kept is what was asked for, whatever signs the outputs have.
TEST(ResourceRulesTest, OutputsOfMixedSignsLeaveWhatIsKeptAndDoNotDependOnTheOrder) {
  for (const bool turned : {false, true}) {
    ResourceRules rules;
    rules.transformations.push_back(
        {"cpu", false, "", {{"cpu", Q("-3")}, {"example.com/credits", Q("-5")}}});
    rules.transformations.push_back({"memory", false, "", {{"example.com/credits", Q("2")}}});
    if (turned) {
      std::swap(rules.transformations[0], rules.transformations[1]);
    }
    EXPECT_EQ(ApplyResourceRules(rules, {{"cpu", 2000}, {"memory", 4}}),
              (api::Amounts{{"cpu", 2000}, {"example.com/credits", 0}, {"memory", 4}}));
    EXPECT_EQ(ApplyResourceRules(rules, {{"cpu", 2000}, {"memory", 6}}),
              (api::Amounts{{"cpu", 2000}, {"example.com/credits", 2}, {"memory", 6}}));
  }
}

TEST(ResourceRulesTest, MultiplyByCountsWhereItIsRequested) {
  ResourceRules rules;
  rules.transformations.push_back(
      {"example.com/memory-mi", false, "example.com/gpu", {{"example.com/total", Q("1")}}});
  EXPECT_EQ(
      ApplyResourceRules(rules, {{"example.com/memory-mi", 100}, {"example.com/gpu", 4}}),
      (api::Amounts{
          {"example.com/gpu", 4}, {"example.com/memory-mi", 100}, {"example.com/total", 400}}));
  EXPECT_EQ(ApplyResourceRules(rules, {{"example.com/memory-mi", 100}}),
            (api::Amounts{{"example.com/memory-mi", 100}, {"example.com/total", 100}}));
}

}  // namespace
}  // namespace tutti::reconciler
