// SPDX-License-Identifier: Apache-2.0
// Hand-computed tables for the quota tree and its undo.
#include "engine/quota_tree.h"

#include <gtest/gtest.h>

#include "engine/stage.h"

namespace tutti::engine {
namespace {

constexpr FlavorResourceId kCpu{0};

QuotaLimits Limits(int64_t nominal, std::optional<int64_t> borrowing = {},
                   std::optional<int64_t> lending = {}) {
  QuotaLimits limits;
  limits.nominal = nominal;
  if (borrowing) {
    limits.borrowing = *borrowing;
  }
  if (lending) {
    limits.lending = *lending;
  }
  return limits;
}

int64_t Int(Amount amount) {
  return static_cast<int64_t>(amount);
}

// root(2) ── left(borrow 4, lend 5) ── a 10 (lend 6), b 0
//         └─ right ── c 3 (borrow 1)
struct Tree {
  QuotaTree tree;
  NodeId root = tree.AddNode();
  NodeId left = tree.AddNode();
  NodeId right = tree.AddNode();
  NodeId a = tree.AddNode();
  NodeId b = tree.AddNode();
  NodeId c = tree.AddNode();
  Tree() {
    tree.SetParent(left, root);
    tree.SetParent(right, root);
    tree.SetParent(a, left);
    tree.SetParent(b, left);
    tree.SetParent(c, right);
    tree.SetLimits(root, kCpu, Limits(2));
    tree.SetLimits(left, kCpu, Limits(0, 4, 5));
    tree.SetLimits(a, kCpu, Limits(10, {}, 6));
    tree.SetLimits(b, kCpu, Limits(0));
    tree.SetLimits(c, kCpu, Limits(3, 1));
    tree.Finish();
  }
};

TEST(QuotaTreeTest, SubtreesOfTheEmptyTree) {
  const Tree t;
  // a keeps 10 - 6 = 4, lends 6; left has 6, keeps 6 - 5 = 1, lends 5; right has c's 3.
  EXPECT_EQ(Int(t.tree.LocalQuota(t.a, kCpu)), 4);
  EXPECT_EQ(Int(t.tree.SubtreeQuota(t.left, kCpu)), 6);
  EXPECT_EQ(Int(t.tree.LocalQuota(t.left, kCpu)), 1);
  EXPECT_EQ(Int(t.tree.SubtreeQuota(t.right, kCpu)), 3);
  EXPECT_EQ(Int(t.tree.SubtreeQuota(t.root, kCpu)), 2 + 5 + 3);
  // left: 1 + 10 of the root, at most 6 + 4. a: 4 + 10; b: 0 + 10; c: 10, at most 3 + 1.
  EXPECT_EQ(Int(t.tree.PotentialAvailable(t.left, kCpu)), 10);
  EXPECT_EQ(Int(t.tree.PotentialAvailable(t.a, kCpu)), 14);
  EXPECT_EQ(Int(t.tree.PotentialAvailable(t.b, kCpu)), 10);
  EXPECT_EQ(Int(t.tree.PotentialAvailable(t.c, kCpu)), 4);
  EXPECT_EQ(Int(t.tree.Available(t.a, kCpu)), 14);
  EXPECT_EQ(Int(t.tree.Available(t.c, kCpu)), 4);
  EXPECT_EQ(t.tree.Height(t.a), 0);
  EXPECT_EQ(t.tree.Height(t.left), 1);
  EXPECT_EQ(t.tree.Height(t.root), 2);
}

TEST(QuotaTreeTest, UsageBubblesUpBeyondWhatIsKept) {
  Tree t;
  t.tree.AddUsage(t.a, kCpu, 3);
  EXPECT_EQ(Int(t.tree.Usage(t.left, kCpu)), 0);  // within the 4 that a keeps
  t.tree.AddUsage(t.a, kCpu, 5);
  // 8 used, 4 of them beyond; left keeps 1 of these.
  EXPECT_EQ(Int(t.tree.Usage(t.left, kCpu)), 4);
  EXPECT_EQ(Int(t.tree.Usage(t.root, kCpu)), 3);
  // root 10 - 3 = 7. left: kept 0 left, from root min(7, 5 - 3 + 4 = 6). c: min(7, 4).
  EXPECT_EQ(Int(t.tree.Available(t.left, kCpu)), 6);
  EXPECT_EQ(Int(t.tree.Available(t.b, kCpu)), 6);
  EXPECT_EQ(Int(t.tree.Available(t.c, kCpu)), 4);
  t.tree.AddUsage(t.c, kCpu, 4);
  EXPECT_EQ(Int(t.tree.Available(t.c, kCpu)), 0);
  EXPECT_EQ(Int(t.tree.Available(t.b, kCpu)), 3);  // root: 10 - 7
  t.tree.RemoveUsage(t.a, kCpu, 5);
  EXPECT_EQ(Int(t.tree.Usage(t.a, kCpu)), 3);
  EXPECT_EQ(Int(t.tree.Usage(t.left, kCpu)), 0);
  EXPECT_EQ(Int(t.tree.Usage(t.root, kCpu)), 4);
}

TEST(QuotaTreeTest, LevelsOfBorrowing) {
  Tree t;
  struct Row {
    NodeId queue;
    int64_t amount;
    int height;
    bool below_root;
  };
  const Row rows[] = {
      {t.a, 10, 0, true},   // own nominal
      {t.a, 11, 2, false},  // 7 beyond what it keeps, left has 6
      {t.b, 6, 1, true},    // left's 6
      {t.b, 7, 2, false},   // needs the root
      {t.c, 3, 0, true},   {t.c, 4, 2, false}, {t.b, 100, 2, false},
  };
  for (const Row& row : rows) {
    const QuotaTree::Level level = t.tree.LowestSubtreeThatFits(row.queue, kCpu, row.amount);
    EXPECT_EQ(level.height, row.height) << row.amount;
    EXPECT_EQ(level.below_root, row.below_root) << row.amount;
  }
}

TEST(QuotaTreeTest, LoweredQuotaLeavesNothing) {
  QuotaTree tree;
  const NodeId queue = tree.AddNode();
  tree.SetLimits(queue, kCpu, Limits(4));
  tree.Finish();
  tree.AddUsage(queue, kCpu, 7);
  EXPECT_EQ(Int(tree.RawAvailable(queue, kCpu)), -3);
  EXPECT_EQ(Int(tree.Available(queue, kCpu)), 0);
  EXPECT_EQ(Int(tree.PotentialAvailable(queue, kCpu)), 4);
}

TEST(QuotaTreeTest, SumsBeyondSixtyFourBitsStayExact) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  QuotaTree tree;
  const NodeId root = tree.AddNode();
  const NodeId a = tree.AddNode();
  const NodeId b = tree.AddNode();
  tree.SetParent(a, root);
  tree.SetParent(b, root);
  tree.SetLimits(a, kCpu, Limits(kMax));
  tree.SetLimits(b, kCpu, Limits(kMax));
  tree.Finish();
  tree.AddUsage(a, kCpu, kMax);
  tree.AddUsage(b, kCpu, kMax);
  EXPECT_EQ(Saturate(tree.Usage(root, kCpu)), kMax);
  EXPECT_EQ(Int(tree.Available(a, kCpu)), 0);
  tree.RemoveUsage(a, kCpu, kMax);
  EXPECT_EQ(Int(tree.Available(a, kCpu)), kMax);
  EXPECT_EQ(Int(tree.Usage(root, kCpu)), kMax);
}

TEST(QuotaTreeTest, NodesBelowACycleAreCutOff) {
  QuotaTree tree;
  const NodeId one = tree.AddNode();
  const NodeId two = tree.AddNode();
  const NodeId queue = tree.AddNode();
  const NodeId other = tree.AddNode();
  tree.SetParent(one, two);
  tree.SetParent(two, one);
  tree.SetParent(queue, one);
  tree.SetLimits(queue, kCpu, Limits(4));
  tree.Finish();
  EXPECT_TRUE(tree.InCycle(one));
  EXPECT_TRUE(tree.InCycle(queue));
  EXPECT_FALSE(tree.InCycle(other));
  tree.AddUsage(queue, kCpu, 3);
  EXPECT_EQ(Int(tree.Usage(queue, kCpu)), 3);
}

TEST(StageTest, UndoesUnlessCommitted) {
  Tree t;
  const std::unique_ptr<Capacity> capacity = MakeCapacity();
  api::Node node;
  node.meta.name = "n1";
  node.allocatable = {{"cpu", 4000}, {"pods", 10}};
  capacity->SetNode(node);
  auto shape = std::make_shared<api::PodShape>();
  shape->requests["cpu"] = 2000;
  const Gang gang{"ns/w", {GangPodSet{"main", 1, shape, {}, {}}}};
  t.tree.AddUsage(t.a, kCpu, 6);
  {
    Stage stage(t.tree, *capacity);
    stage.AddUsage(t.b, kCpu, 3);
    stage.AddUsage(t.b, kCpu, 2);
    const FitResult fit = capacity->Check(gang);
    ASSERT_EQ(fit.kind, FitKind::kFits);
    stage.Reserve(gang, fit.placement);
    EXPECT_EQ(Int(t.tree.Usage(t.b, kCpu)), 5);
    EXPECT_EQ(capacity->Unbound("ns/w"), 1);
  }
  EXPECT_EQ(Int(t.tree.Usage(t.a, kCpu)), 6);
  EXPECT_EQ(Int(t.tree.Usage(t.b, kCpu)), 0);
  EXPECT_EQ(Int(t.tree.Usage(t.left, kCpu)), 2);
  EXPECT_EQ(Int(t.tree.Usage(t.root, kCpu)), 1);
  EXPECT_EQ(capacity->Unbound("ns/w"), 0);
  {
    Stage stage(t.tree, *capacity);
    stage.AddUsage(t.b, kCpu, 5);
    stage.Commit();
  }
  EXPECT_EQ(Int(t.tree.Usage(t.b, kCpu)), 5);
}

}  // namespace
}  // namespace tutti::engine
