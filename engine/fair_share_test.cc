// SPDX-License-Identifier: Apache-2.0
// Shares by hand, and the tournament against a naive one that computes everything anew.
#include "engine/fair_share.h"

#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/tournament.h"

namespace tutti::engine {
namespace {

QuotaLimits Nominal(int64_t nominal, std::optional<int64_t> lending = {}) {
  QuotaLimits limits;
  limits.nominal = nominal;
  if (lending) {
    limits.lending = *lending;
  }
  return limits;
}

// root ── a (gpu 4, cpu 40), b (gpu 8, cpu 80), empty (no quota)
struct Flat {
  Tables tables;
  FlavorId flavor = tables.flavors.Intern("default");
  FlavorId spot = tables.flavors.Intern("spot");
  FlavorResourceId gpu = tables.pairs.Intern(flavor, tables.resources.Intern("gpu"));
  FlavorResourceId cpu = tables.pairs.Intern(flavor, tables.resources.Intern("cpu"));
  FlavorResourceId spot_gpu = tables.pairs.Intern(spot, tables.resources.Intern("gpu"));
  QuotaTree tree;
  NodeId root = tree.AddNode();
  NodeId a = tree.AddNode();
  NodeId b = tree.AddNode();
  NodeId empty = tree.AddNode();
  Flat() {
    for (const NodeId queue : {a, b, empty}) {
      tree.SetParent(queue, root);
    }
    tree.SetLimits(a, gpu, Nominal(4));
    tree.SetLimits(a, cpu, Nominal(40));
    tree.SetLimits(b, gpu, Nominal(8));
    tree.SetLimits(b, cpu, Nominal(80));
    tree.Finish();
  }
};

TEST(FairShareTest, NothingBorrowedIsNoShare) {
  Flat t;
  const FairShares shares(t.tree, t.tables);
  t.tree.AddUsage(t.a, t.gpu, 4);
  const FairShare share = shares.Of(t.a);
  EXPECT_EQ(share.Weighted(), 0);
  EXPECT_EQ(RoundShare(share.Weighted()), 0);
  EXPECT_FALSE(share.dominant.Valid());
  EXPECT_TRUE(share.borrowed.empty());
}

TEST(FairShareTest, TheMostBorrowedResourceCounts) {
  Flat t;
  const FairShares shares(t.tree, t.tables);
  t.tree.AddUsage(t.a, t.gpu, 7);   // 3 borrowed of 12: 250 per mille
  t.tree.AddUsage(t.a, t.cpu, 46);  // 6 borrowed of 120: 50 per mille
  const FairShare share = shares.Of(t.a);
  EXPECT_EQ(share.ratio, 250);
  EXPECT_EQ(t.tables.resources.Name(share.dominant), "gpu");
  EXPECT_TRUE(share.BorrowsAnyOf({{t.gpu, 1}}));
  EXPECT_FALSE(share.BorrowsAnyOf({{t.gpu, 0}}));
  EXPECT_FALSE(share.BorrowsAnyOf({{t.spot_gpu, 1}}));
}

TEST(FairShareTest, WeightDividesAndZeroIsBoundless) {
  Flat t;
  FairShares shares(t.tree, t.tables);
  t.tree.AddUsage(t.a, t.gpu, 7);
  t.tree.AddUsage(t.b, t.gpu, 9);  // 1 of 12: 83.33 per mille
  shares.SetWeight(t.a, 2);
  shares.SetWeight(t.b, 0);
  EXPECT_EQ(RoundShare(shares.Of(t.a).Weighted()), 125);
  EXPECT_EQ(RoundShare(shares.Of(t.b).Weighted()), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(CompareShares(shares.Of(t.a), shares.Of(t.b)), -1);
  shares.SetWeight(t.a, 0);
  // Both without weight: by ratio, 250 against 83.
  EXPECT_EQ(CompareShares(shares.Of(t.a), shares.Of(t.b)), 1);
  shares.SetWeight(t.b, 1);
  EXPECT_EQ(RoundShare(shares.Of(t.b).Weighted()), 84) << "rounded up";
  shares.SetWeight(t.a, -3);
  EXPECT_EQ(RoundShare(shares.Of(t.a).Weighted()), std::numeric_limits<int64_t>::max());
}

TEST(FairShareTest, TinyWeightDoesNotOverflow) {
  Flat t;
  FairShares shares(t.tree, t.tables);
  t.tree.AddUsage(t.a, t.gpu, 7);
  shares.SetWeight(t.a, 1e-300);
  EXPECT_EQ(RoundShare(shares.Of(t.a).Weighted()), std::numeric_limits<int64_t>::max());
}

TEST(FairShareTest, QuotaOfOnlyOneFlavorStillLendsToTheOther) {
  Tables tables;
  const ResourceId resource = tables.resources.Intern("gpu");
  const FlavorResourceId one = tables.pairs.Intern(tables.flavors.Intern("one"), resource);
  const FlavorResourceId two = tables.pairs.Intern(tables.flavors.Intern("two"), resource);
  QuotaTree tree;
  const NodeId root = tree.AddNode();
  const NodeId a = tree.AddNode();
  const NodeId b = tree.AddNode();
  tree.SetParent(a, root);
  tree.SetParent(b, root);
  tree.SetLimits(a, one, Nominal(0));
  tree.SetLimits(a, two, Nominal(0));
  tree.SetLimits(b, one, Nominal(6));
  tree.SetLimits(b, two, Nominal(4));
  tree.Finish();
  const FairShares shares(tree, tables);
  tree.AddUsage(a, one, 1);
  tree.AddUsage(a, two, 1);
  // 2 borrowed over both flavors, of 10.
  EXPECT_EQ(shares.Of(a).ratio, 200);
}

TEST(FairShareTest, UsageOfAFlavorWithoutQuotaIsNoBorrowing) {
  Flat t;
  const FairShares shares(t.tree, t.tables);
  t.tree.AddUsage(t.a, t.spot_gpu, 5);
  EXPECT_EQ(shares.Of(t.a).ratio, 0);
}

TEST(FairShareTest, LoneQueueAndRootShareWithNobody) {
  Flat t;
  const FairShares shares(t.tree, t.tables);
  t.tree.AddUsage(t.a, t.gpu, 100);
  EXPECT_EQ(shares.Of(t.root).ratio, 0);
}

TEST(FairShareTest, LendingLimitOfAChildIsNotLendable) {
  Tables tables;
  const FlavorResourceId gpu =
      tables.pairs.Intern(tables.flavors.Intern("f"), tables.resources.Intern("gpu"));
  QuotaTree tree;
  const NodeId root = tree.AddNode();
  const NodeId a = tree.AddNode();
  const NodeId b = tree.AddNode();
  tree.SetParent(a, root);
  tree.SetParent(b, root);
  tree.SetLimits(a, gpu, Nominal(0));
  tree.SetLimits(b, gpu, Nominal(10, 4));
  tree.Finish();
  const FairShares shares(tree, tables);
  tree.AddUsage(a, gpu, 1);
  EXPECT_EQ(shares.Of(a).ratio, 250) << "1 of the 4 that b lends";
}

// --- tournament ---

struct Head {
  NodeId queue;
  Usage usage;
  OrderKey key;
};

bool Better(QuotaTree& tree, const FairShares& shares, NodeId child_a, const Head& a,
            NodeId child_b, const Head& b) {
  auto share = [&](NodeId child, const Head& head) {
    for (const auto& [pair, amount] : head.usage) {
      tree.AddUsage(head.queue, pair, amount);
    }
    FairShare found = shares.Of(child);
    for (const auto& [pair, amount] : head.usage) {
      tree.RemoveUsage(head.queue, pair, amount);
    }
    return found;
  };
  const FairShare share_a = share(child_a, a);
  const FairShare share_b = share(child_b, b);
  const bool borrows_a = share_a.BorrowsAnyOf(a.usage);
  const bool borrows_b = share_b.BorrowsAnyOf(b.usage);
  if (borrows_a != borrows_b) {
    return borrows_b;
  }
  const int order = CompareShares(share_a, share_b);
  return order != 0 ? order < 0 : Before(a.key, b.key);
}

// The contest below `node`, from scratch: index into heads, or nothing.
std::optional<size_t> Contest(QuotaTree& tree, const FairShares& shares,
                              const std::vector<Head>& heads, const std::vector<bool>& gone,
                              NodeId node) {
  for (size_t index = 0; index < heads.size(); ++index) {
    if (heads[index].queue == node) {
      return gone[index] ? std::nullopt : std::optional(index);
    }
  }
  std::optional<size_t> best;
  NodeId best_child;
  for (uint32_t child = 0; child < tree.Size(); ++child) {
    if (tree.Parent(NodeId{child}) != node) {
      continue;
    }
    const std::optional<size_t> found = Contest(tree, shares, heads, gone, NodeId{child});
    if (found &&
        (!best || Better(tree, shares, NodeId{child}, heads[*found], best_child, heads[*best]))) {
      best = found;
      best_child = NodeId{child};
    }
  }
  return best;
}

TEST(TournamentTest, AgreesWithANaiveOne) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    auto pick = [&](int least, int most) {
      return std::uniform_int_distribution<int>(least, most)(random);
    };
    Tables tables;
    std::vector<FlavorResourceId> pairs;
    for (const char* flavor : {"f", "g"}) {
      for (const char* resource : {"cpu", "gpu"}) {
        pairs.push_back(
            tables.pairs.Intern(tables.flavors.Intern(flavor), tables.resources.Intern(resource)));
      }
    }
    QuotaTree tree;
    std::vector<NodeId> cohorts;
    const int cohort_count = pick(1, 4);
    for (int index = 0; index < cohort_count; ++index) {
      cohorts.push_back(tree.AddNode());
      if (index > 0) {
        tree.SetParent(cohorts.back(), cohorts[pick(0, index - 1)]);
      }
    }
    std::vector<Head> heads;
    const int queue_count = pick(1, 8);
    for (int index = 0; index < queue_count; ++index) {
      const NodeId queue = tree.AddNode();
      tree.SetParent(queue, cohorts[pick(0, cohort_count - 1)]);
      Head head{
          queue, {}, MakeKey(pick(0, 1), Time{}, std::to_string(index), std::to_string(index))};
      for (const FlavorResourceId pair : pairs) {
        tree.SetLimits(queue, pair, Nominal(pick(0, 6)));
        if (pick(0, 1) == 1) {
          AddUsage(head.usage, pair, pick(1, 4));
        }
      }
      heads.push_back(std::move(head));
    }
    tree.Finish();
    FairShares shares(tree, tables);
    for (uint32_t node = 0; node < tree.Size(); ++node) {
      shares.SetWeight(NodeId{node}, pick(0, 3));
    }
    for (const Head& head : heads) {
      for (const FlavorResourceId pair : pairs) {
        tree.AddUsage(head.queue, pair, pick(0, 6));
      }
    }
    Tournament tournament(tree, shares);
    for (size_t index = 0; index < heads.size(); ++index) {
      tournament.Add(index, heads[index].queue, heads[index].usage, heads[index].key);
    }
    std::vector<bool> gone(heads.size(), false);
    for (size_t step = 0; step < heads.size(); ++step) {
      const std::optional<size_t> expected = Contest(tree, shares, heads, gone, cohorts.front());
      const std::optional<size_t> got = tournament.Pop();
      ASSERT_EQ(got, expected) << "seed " << seed << ", step " << step;
      gone[*got] = true;
      if (pick(0, 1) == 1) {  // admitted: the queue's usage grows
        for (const auto& [pair, amount] : heads[*got].usage) {
          tree.AddUsage(heads[*got].queue, pair, amount);
        }
      }
    }
    EXPECT_EQ(tournament.Pop(), std::nullopt);
  }
}

TEST(TournamentTest, OfSeveralTreesTheFirstInOrderGoesFirst) {
  Tables tables;
  QuotaTree tree;
  const NodeId late = tree.AddNode();
  const NodeId early = tree.AddNode();
  tree.Finish();
  const FairShares shares(tree, tables);
  Tournament tournament(tree, shares);
  const Usage nothing;
  const OrderKey low = MakeKey(0, Time{}, "a", "a");
  const OrderKey high = MakeKey(1, Time{}, "b", "b");
  tournament.Add(0, late, nothing, low);
  tournament.Add(1, early, nothing, high);
  EXPECT_EQ(tournament.Pop(), 1U);
  EXPECT_EQ(tournament.Pop(), 0U);
  EXPECT_EQ(tournament.Pop(), std::nullopt);
}

}  // namespace
}  // namespace tutti::engine
