// SPDX-License-Identifier: Apache-2.0
#include "engine/gang_fit.h"

#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace tutti::engine {
namespace {

// Kinds and nodes; the last resource is "pods".
FitProblem Problem(std::vector<PodKind> kinds, const std::vector<std::vector<int64_t>>& nodes,
                   std::vector<uint8_t> clash = {}) {
  FitProblem problem;
  problem.kinds = std::move(kinds);
  problem.resources = problem.kinds[0].request.size();
  problem.clash = std::move(clash);
  problem.clash.resize(problem.kinds.size() * problem.kinds.size(), 0);
  problem.total.assign(problem.resources, 0);
  problem.bins = nodes.size();
  for (const std::vector<int64_t>& node : nodes) {
    for (size_t r = 0; r < problem.resources; ++r) {
      problem.free.push_back(node[r]);
      problem.total[r] += node[r];
    }
    for (size_t k = 0; k < problem.kinds.size(); ++k) {
      const int64_t limit = problem.Clash(k, k) ? 1 : problem.kinds[k].count;
      problem.cap.push_back(FitCount(node.data(), problem.kinds[k].request, limit));
    }
  }
  return problem;
}

// The answer respects every limit and places exactly all pods.
void ExpectValid(const FitProblem& problem, const SearchResult& result) {
  std::vector<int64_t> free = problem.free;
  std::vector<int64_t> placed(problem.kinds.size(), 0);
  std::vector<int64_t> on_node(problem.bins * problem.kinds.size(), 0);
  for (const Assigned& a : result.assigned) {
    ASSERT_GT(a.count, 0);
    placed[a.kind] += a.count;
    on_node[a.bin * problem.kinds.size() + a.kind] += a.count;
    for (size_t r = 0; r < problem.resources; ++r) {
      free[a.bin * problem.resources + r] -= a.count * problem.kinds[a.kind].request[r];
    }
  }
  for (const int64_t left : free)
    EXPECT_GE(left, 0);
  for (size_t k = 0; k < problem.kinds.size(); ++k)
    EXPECT_EQ(placed[k], problem.kinds[k].count);
  for (size_t n = 0; n < problem.bins; ++n) {
    for (size_t k = 0; k < problem.kinds.size(); ++k) {
      const int64_t count = on_node[n * problem.kinds.size() + k];
      EXPECT_LE(count, problem.Cap(n, k));
      for (size_t other = 0; other < k; ++other) {
        if (problem.Clash(k, other)) {
          EXPECT_TRUE(count == 0 || on_node[n * problem.kinds.size() + other] == 0);
        }
      }
    }
  }
}

// Pod by pod onto every node: the plain truth for small cases.
bool BruteForce(const FitProblem& problem, std::vector<int64_t>& free,
                std::vector<int64_t>& on_node, std::vector<int64_t>& left) {
  size_t k = 0;
  while (k < left.size() && left[k] == 0)
    ++k;
  if (k == left.size())
    return true;
  const size_t kinds = problem.kinds.size();
  for (size_t n = 0; n < problem.bins; ++n) {
    bool fits = on_node[n * kinds + k] < problem.Cap(n, k);
    for (size_t other = 0; other < kinds && fits; ++other) {
      fits = other == k || on_node[n * kinds + other] == 0 || !problem.Clash(k, other);
    }
    for (size_t r = 0; r < problem.resources && fits; ++r) {
      fits = free[n * problem.resources + r] >= problem.kinds[k].request[r];
    }
    if (!fits)
      continue;
    const auto take = [&](int64_t times) {
      for (size_t r = 0; r < problem.resources; ++r) {
        free[n * problem.resources + r] -= times * problem.kinds[k].request[r];
      }
      on_node[n * kinds + k] += times;
      left[k] -= times;
    };
    take(1);
    const bool found = BruteForce(problem, free, on_node, left);
    take(-1);
    if (found)
      return true;
  }
  return false;
}

TEST(GangFitTest, LikePodsAreCountedPerNode) {
  EXPECT_EQ(Search(Problem({{{2, 1}, 5}}, {{5, 9}, {4, 9}, {3, 9}})).end, SearchEnd::kFound);
  const SearchResult no = Search(Problem({{{2, 1}, 6}}, {{5, 9}, {4, 9}, {3, 9}}));
  EXPECT_EQ(no.end, SearchEnd::kImpossible);
  EXPECT_EQ(no.placed, (std::vector<int64_t>{5}));
}

TEST(GangFitTest, TheFullestNodeIsUsedFirstThenTheFirst) {
  const SearchResult result = Search(Problem({{{2, 1}, 3}}, {{8, 9}, {4, 9}, {4, 9}}));
  EXPECT_EQ(result.assigned, (std::vector<Assigned>{{1, 0, 2}, {2, 0, 1}}));
}

TEST(GangFitTest, TheResourceThatIsLargestAgainstTheClusterDecidesWhatFullMeans) {
  // Of the second resource there is little in all: the node with the least of it is filled first.
  const SearchResult result = Search(Problem({{{10, 1, 1}, 1}}, {{1000, 2, 9}, {900, 4, 9}}));
  EXPECT_EQ(result.assigned, (std::vector<Assigned>{{0, 0, 1}}));
}

TEST(GangFitTest, AWayIsFoundWhereTheLeaderMustNotTakeAWorkersPlace) {
  // Hosts of 2, 4 and 3; a leader of 1 and four workers of 2: only with the leader on the 3.
  const FitProblem problem = Problem({{{1, 1}, 1}, {{2, 1}, 4}}, {{2, 9}, {4, 9}, {3, 9}});
  const SearchResult result = Search(problem);
  EXPECT_EQ(result.end, SearchEnd::kFound);
  ExpectValid(problem, result);
}

TEST(GangFitTest, AWayIsFoundWhereDecreasingSizeMissesIt) {
  // By size: 6 onto the 9, then 5 and 4 don't find their only partner.
  const FitProblem problem =
      Problem({{{6, 1}, 1}, {{5, 1}, 1}, {{4, 1}, 2}, {{1, 1}, 1}}, {{9, 9}, {11, 9}});
  const SearchResult result = Search(problem);
  EXPECT_EQ(result.end, SearchEnd::kFound);
  ExpectValid(problem, result);
}

TEST(GangFitTest, EachAloneButNotTogetherIsImpossible) {
  const SearchResult result = Search(Problem({{{3, 1}, 1}, {{4, 1}, 1}}, {{6, 9}}));
  EXPECT_EQ(result.end, SearchEnd::kImpossible);
}

TEST(GangFitTest, KindsWithTheSameHostPortNeverShareANode) {
  const std::vector<PodKind> kinds = {{{1, 1}, 1}, {{1, 1}, 2}};
  const std::vector<uint8_t> clash = {1, 1, 1, 1};
  EXPECT_EQ(Search(Problem(kinds, {{9, 9}, {9, 9}}, clash)).end, SearchEnd::kImpossible);
  const FitProblem problem = Problem(kinds, {{9, 9}, {9, 9}, {9, 9}}, clash);
  const SearchResult result = Search(problem);
  EXPECT_EQ(result.end, SearchEnd::kFound);
  ExpectValid(problem, result);
}

TEST(GangFitTest, AmountsNearTheEndOfTheRangeDoNotOverflow) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(Search(Problem({{{kMax, 1}, 2}, {{kMax - 1, 1}, 1}}, {{kMax, 9}, {kMax, 9}})).end,
            SearchEnd::kImpossible);
  EXPECT_EQ(Search(Problem({{{kMax, 1}, 2}, {{1, 1}, 3}}, {{kMax, 9}, {kMax, 9}, {3, 9}})).end,
            SearchEnd::kFound);
}

TEST(GangFitTest, LargeUnlikeGangsEndWithinTheBudget) {
  // Eight kinds of 40 pods that fill 120 nodes nearly to the last unit.
  std::mt19937 random(7);
  std::vector<PodKind> kinds;
  int64_t need = 0;
  for (int k = 0; k < 8; ++k) {
    kinds.push_back({{20 + static_cast<int64_t>(random() % 50), 1}, 40});
    need += kinds.back().request[0] * 40;
  }
  const std::vector<std::vector<int64_t>> nodes(120, {need / 120 + 1, 110});
  const FitProblem problem = Problem(kinds, nodes);
  const SearchResult result = Search(problem);
  if (result.end == SearchEnd::kFound) {
    ExpectValid(problem, result);
  } else {
    EXPECT_EQ(result.end, SearchEnd::kGaveUp);
  }
}

TEST(GangFitTest, SmallUnlikeGangsAgreeWithTryingEverything) {
  std::mt19937 random(20261130);
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  int found = 0;
  int beyond_first_fit = 0;
  constexpr int kRounds = 20000;
  for (int round = 0; round < kRounds; ++round) {
    const size_t kinds = 1 + random() % 4;
    std::vector<PodKind> list;
    int64_t pods = 0;
    for (size_t k = 0; k < kinds; ++k) {
      const int64_t count = pick(1, 3);
      if (pods + count > 6)
        break;
      pods += count;
      list.push_back({{pick(0, 6), pick(0, 4), 1}, count});
    }
    std::vector<std::vector<int64_t>> nodes;
    for (int64_t n = pick(1, 4); n > 0; --n)
      nodes.push_back({pick(0, 10), pick(0, 8), pick(1, 4)});
    std::vector<uint8_t> clash(list.size() * list.size(), 0);
    if (random() % 3 == 0) {
      for (size_t a = 0; a < list.size(); ++a) {
        for (size_t b = 0; b <= a; ++b) {
          clash[a * list.size() + b] = clash[b * list.size() + a] = random() % 4 == 0 ? 1 : 0;
        }
      }
    }
    FitProblem problem = Problem(list, nodes, clash);
    for (int64_t& cap : problem.cap) {
      if (random() % 8 == 0)
        cap = 0;  // a node that the filters refuse
    }
    std::vector<int64_t> free = problem.free;
    std::vector<int64_t> on_node(problem.bins * list.size(), 0);
    std::vector<int64_t> left;
    for (const PodKind& kind : list)
      left.push_back(kind.count);
    const bool truth = BruteForce(problem, free, on_node, left);
    const SearchResult result = Search(problem);
    const SearchResult table = TableForTest(problem);
    const SearchResult backtrack = BacktrackForTest(problem);
    const SearchEnd expected = truth ? SearchEnd::kFound : SearchEnd::kImpossible;
    ASSERT_EQ(result.end, expected) << "round " << round;
    ASSERT_EQ(table.end, expected) << "round " << round;
    ASSERT_EQ(backtrack.end, expected) << "round " << round;
    if (!truth)
      continue;
    ExpectValid(problem, table);
    ExpectValid(problem, backtrack);
    ++found;
    ExpectValid(problem, result);
    beyond_first_fit += FirstFitForTest(problem).end == SearchEnd::kFound ? 0 : 1;
  }
  EXPECT_GT(found, kRounds / 5);
  EXPECT_LT(found, kRounds * 4 / 5);
  EXPECT_GT(beyond_first_fit, 20);
}

}  // namespace
}  // namespace tutti::engine
