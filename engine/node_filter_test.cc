// SPDX-License-Identifier: Apache-2.0
#include "engine/node_filter.h"

#include <gtest/gtest.h>

#include "engine/capacity_test_util.h"

namespace tutti::engine {
namespace {

using api::NodeSelectorTerm;
using api::PodShape;
using api::Requirement;
using api::Taint;
using api::Toleration;

class NodeFilterTest : public testing::Test {
 protected:
  Verdict Ask(const PodShape& shape, const api::Node& node, const api::StringMap& selector = {},
              const std::vector<Toleration>& tolerations = {}) {
    const NodeFacts facts = pool_.Acquire(node);
    const Verdict verdict = NodeFilter(pool_, shape, selector, tolerations).Check(facts);
    pool_.Release(facts);
    return verdict;
  }

  FactPool pool_;
};

TEST_F(NodeFilterTest, APodWithoutRulesGoesAnywhere) {
  EXPECT_EQ(Ask({}, MakeNode("a", {})), Verdict::kAdmits);
}

TEST_F(NodeFilterTest, SelectorOfThePodAndOfTheFlavorMustBothMatch) {
  PodShape shape;
  shape.node_selector = {{"disk", "ssd"}};
  const api::Node ssd = MakeNode("a", {}, {{"disk", "ssd"}, {"zone", "z1"}});
  EXPECT_EQ(Ask(shape, ssd), Verdict::kAdmits);
  EXPECT_EQ(Ask(shape, ssd, {{"zone", "z1"}}), Verdict::kAdmits);
  EXPECT_EQ(Ask(shape, ssd, {{"zone", "z2"}}), Verdict::kNoMatch);
  EXPECT_EQ(Ask(shape, ssd, {{"disk", "hdd"}}), Verdict::kNoMatch);  // contradicts the pod
  EXPECT_EQ(Ask(shape, MakeNode("b", {}, {{"disk", "hdd"}})), Verdict::kNoMatch);
  EXPECT_EQ(Ask(shape, MakeNode("c", {})), Verdict::kNoMatch);
}

TEST_F(NodeFilterTest, LabelWithEmptyValueIsNotTheSameAsNoLabel) {
  PodShape shape;
  shape.node_selector = {{"gpu", ""}};
  EXPECT_EQ(Ask(shape, MakeNode("a", {}, {{"gpu", ""}})), Verdict::kAdmits);
  EXPECT_EQ(Ask(shape, MakeNode("b", {})), Verdict::kNoMatch);
}

TEST_F(NodeFilterTest, ALabelValueIsNoLabelKey) {
  PodShape shape;
  shape.node_selector = {{"x", "x"}};
  EXPECT_EQ(Ask(shape, MakeNode("a", {}, {{"y", "x"}, {"z", "y"}})), Verdict::kNoMatch);
}

TEST_F(NodeFilterTest, AffinityTermsAreAlternativesAndTheirRequirementsAreNot) {
  PodShape shape;
  shape.has_required_affinity = true;
  shape.required_affinity = {
      NodeSelectorTerm{
          {Requirement{"zone", "In", {"z1", "z2"}}, Requirement{"old", "DoesNotExist", {}}}, {}},
      NodeSelectorTerm{{Requirement{"size", "Gt", {"4"}}}, {}}};
  EXPECT_EQ(Ask(shape, MakeNode("a", {}, {{"zone", "z2"}})), Verdict::kAdmits);
  EXPECT_EQ(Ask(shape, MakeNode("a", {}, {{"zone", "z3"}})), Verdict::kNoMatch);
  EXPECT_EQ(Ask(shape, MakeNode("a", {}, {{"zone", "z1"}, {"old", ""}})), Verdict::kNoMatch);
  EXPECT_EQ(Ask(shape, MakeNode("a", {}, {{"size", "5"}})), Verdict::kAdmits);
  EXPECT_EQ(Ask(shape, MakeNode("a", {}, {{"size", "4"}})), Verdict::kNoMatch);
  EXPECT_EQ(Ask(shape, MakeNode("a", {}, {{"size", "big"}})), Verdict::kNoMatch);
}

TEST_F(NodeFilterTest, NodeSelectorAndAffinityAreBothAsked) {
  PodShape shape;
  shape.node_selector = {{"disk", "ssd"}};
  shape.has_required_affinity = true;
  shape.required_affinity = {NodeSelectorTerm{{Requirement{"zone", "NotIn", {"z1"}}}, {}}};
  EXPECT_EQ(Ask(shape, MakeNode("a", {}, {{"disk", "ssd"}})), Verdict::kAdmits);
  EXPECT_EQ(Ask(shape, MakeNode("a", {}, {{"disk", "ssd"}, {"zone", "z1"}})), Verdict::kNoMatch);
  EXPECT_EQ(Ask(shape, MakeNode("a", {}, {{"zone", "z2"}})), Verdict::kNoMatch);
}

TEST_F(NodeFilterTest, RequiredAffinityWithoutUsableTermsMatchesNothing) {
  PodShape shape;
  shape.has_required_affinity = true;
  EXPECT_EQ(Ask(shape, MakeNode("a", {})), Verdict::kNoMatch);
  shape.required_affinity = {NodeSelectorTerm{}};
  EXPECT_EQ(Ask(shape, MakeNode("a", {})), Verdict::kNoMatch);
}

TEST_F(NodeFilterTest, MatchFieldsChooseNodesByName) {
  PodShape shape;
  shape.has_required_affinity = true;
  shape.required_affinity = {NodeSelectorTerm{{}, {Requirement{"metadata.name", "In", {"b"}}}}};
  EXPECT_EQ(Ask(shape, MakeNode("a", {})), Verdict::kNoMatch);
  EXPECT_EQ(Ask(shape, MakeNode("b", {})), Verdict::kAdmits);
  shape.required_affinity[0].expressions = {Requirement{"zone", "Exists", {}}};
  EXPECT_EQ(Ask(shape, MakeNode("b", {})), Verdict::kNoMatch);
  EXPECT_EQ(Ask(shape, MakeNode("b", {}, {{"zone", ""}})), Verdict::kAdmits);
}

TEST_F(NodeFilterTest, PresetNodeNameAllowsOnlyThatNode) {
  PodShape shape;
  shape.node_name = "b";
  EXPECT_EQ(Ask(shape, MakeNode("a", {})), Verdict::kNoMatch);
  EXPECT_EQ(Ask(shape, MakeNode("b", {})), Verdict::kAdmits);
}

TEST_F(NodeFilterTest, CordonedNodeTakesOnlyPodsThatTolerateTheCordon) {
  api::Node node = MakeNode("a", {});
  node.unschedulable = true;
  PodShape shape;
  EXPECT_EQ(Ask(shape, node), Verdict::kCordoned);
  shape.tolerations = {
      Toleration{"node.kubernetes.io/unschedulable", "Exists", "", "NoSchedule", {}}};
  EXPECT_EQ(Ask(shape, node), Verdict::kAdmits);
  shape.tolerations[0].effect = "NoExecute";
  EXPECT_EQ(Ask(shape, node), Verdict::kCordoned);
  shape.tolerations = {Toleration{"", "Exists", "", "", {}}};
  EXPECT_EQ(Ask(shape, node), Verdict::kAdmits);
}

TEST_F(NodeFilterTest, TheCordonTaintCountsAsCordoned) {
  const api::Node node =
      MakeNode("a", {}, {}, {Taint{"node.kubernetes.io/unschedulable", "", "NoSchedule"}});
  EXPECT_EQ(Ask({}, node), Verdict::kCordoned);
}

TEST_F(NodeFilterTest, NoScheduleAndNoExecuteTaintsKeepPodsAwayPreferNoScheduleDoesNot) {
  EXPECT_EQ(Ask({}, MakeNode("a", {}, {}, {Taint{"k", "v", "NoSchedule"}})), Verdict::kTainted);
  EXPECT_EQ(Ask({}, MakeNode("a", {}, {}, {Taint{"k", "v", "NoExecute"}})), Verdict::kTainted);
  EXPECT_EQ(Ask({}, MakeNode("a", {}, {}, {Taint{"k", "v", "PreferNoSchedule"}})),
            Verdict::kAdmits);
}

TEST_F(NodeFilterTest, EveryTaintMustBeToleratedByThePodOrTheFlavor) {
  const api::Node node =
      MakeNode("a", {}, {}, {Taint{"k", "v", "NoSchedule"}, Taint{"m", "", "NoExecute"}});
  PodShape shape;
  shape.tolerations = {Toleration{"k", "Equal", "v", "", {}}};
  EXPECT_EQ(Ask(shape, node), Verdict::kTainted);
  EXPECT_EQ(Ask(shape, node, {}, {Toleration{"m", "Exists", "", "NoExecute", 30}}),
            Verdict::kAdmits);
  shape.tolerations[0].value = "w";
  EXPECT_EQ(Ask(shape, node, {}, {Toleration{"m", "Exists", "", "", {}}}), Verdict::kTainted);
}

TEST_F(NodeFilterTest, NamesTheFirstTaintThatIsNotTolerated) {
  const NodeFacts facts = pool_.Acquire(
      MakeNode("a", {}, {}, {Taint{"k", "v", "NoSchedule"}, Taint{"m", "", "NoExecute"}}));
  PodShape shape;
  EXPECT_EQ(NodeFilter(pool_, shape, {}, {}).UntoleratedTaint(facts), "k=v:NoSchedule");
  shape.tolerations = {Toleration{"k", "Exists", "", "", {}}};
  EXPECT_EQ(NodeFilter(pool_, shape, {}, {}).UntoleratedTaint(facts), "m:NoExecute");
}

TEST_F(NodeFilterTest, TheOrderOfTaintsAndSharedValuesDoNotMixNodesUp) {
  const NodeFacts a = pool_.Acquire(MakeNode("a", {}, {}, {Taint{"k", "v", "NoSchedule"}}));
  const NodeFacts b = pool_.Acquire(MakeNode("b", {}, {}, {Taint{"kv", "", "NoSchedule"}}));
  PodShape shape;
  shape.tolerations = {Toleration{"kv", "Exists", "", "", {}}};
  EXPECT_EQ(NodeFilter(pool_, shape, {}, {}).Check(a), Verdict::kTainted);
  EXPECT_EQ(NodeFilter(pool_, shape, {}, {}).Check(b), Verdict::kAdmits);
  // One filter asked about both, as the search does it.
  const api::StringMap no_selector;
  const std::vector<Toleration> no_tolerations;
  const NodeFilter filter(pool_, shape, no_selector, no_tolerations);
  EXPECT_EQ(filter.Check(a), Verdict::kTainted);
  EXPECT_EQ(filter.Check(b), Verdict::kAdmits);
}

TEST_F(NodeFilterTest, NothingIsLeftInThePoolWhenTheNodesAreGone) {
  std::vector<NodeFacts> all;
  for (int i = 0; i < 10; ++i) {
    all.push_back(pool_.Acquire(MakeNode("n" + std::to_string(i), {}, {{"zone", "z"}},
                                         {Taint{"k", std::to_string(i % 3), "NoSchedule"}})));
  }
  EXPECT_EQ(pool_.strings().Size(), 13u);  // two keys, z, ten host names
  for (const NodeFacts& facts : all)
    pool_.Release(facts);
  EXPECT_EQ(pool_.strings().Size(), 0u);
  const size_t sets = pool_.TaintSets();
  all[0] = pool_.Acquire(MakeNode("n", {}, {}, {Taint{"new", "", "NoSchedule"}}));
  EXPECT_EQ(pool_.TaintSets(), sets);  // ids are used again
  pool_.Release(all[0]);
}

}  // namespace
}  // namespace tutti::engine
