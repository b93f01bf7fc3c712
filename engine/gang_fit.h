// SPDX-License-Identifier: Apache-2.0
// The search for places: how many pods of each kind go to which node so that all of them fit at
// once. Knows only numbers (free amounts per node, requests per kind). One kind of pod: exact by
// counting. Several kinds: first-fit by decreasing size, then an exact table over the rarer kinds
// where it is small enough, then backtracking with a step budget. A found answer is always a proof.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::engine {

struct PodKind {
  std::vector<int64_t> request;  // per resource of the problem, >= 0; one resource is "pods"
  int64_t count = 0;             // > 0
};

struct FitProblem {
  size_t resources = 0;
  std::vector<PodKind> kinds;
  // kinds x kinds: pods of these kinds can't share a node (host ports). The diagonal is not read:
  // `cap` holds at most 1 for such a kind.
  std::vector<uint8_t> clash;
  // Per resource, what the cluster has in all: tells which request is large.
  std::vector<int64_t> total;

  // Nodes, in the order that breaks ties.
  size_t bins = 0;
  std::vector<int64_t> free;  // bins x resources, >= 0
  std::vector<int64_t> cap;   // bins x kinds: pods of that kind if it had the node for itself

  [[nodiscard]] const int64_t* Free(size_t bin) const { return free.data() + bin * resources; }
  [[nodiscard]] int64_t Cap(size_t bin, size_t kind) const {
    return cap[bin * kinds.size() + kind];
  }
  [[nodiscard]] bool Clash(size_t a, size_t b) const { return clash[a * kinds.size() + b] != 0; }
};

struct Assigned {
  size_t bin = 0;
  size_t kind = 0;
  int64_t count = 0;
  bool operator==(const Assigned&) const = default;
};

enum class SearchEnd {
  kFound,
  kImpossible,  // proven
  kGaveUp,      // the budget is used up
};

struct SearchResult {
  SearchEnd end = SearchEnd::kFound;
  std::vector<Assigned> assigned;  // all pods, or as many as first-fit placed
  std::vector<int64_t> placed;     // per kind
};

// Limits of the two searches for unlike pods; together about 10 ms.
inline constexpr int64_t kTableBudget = 3'000'000;
inline constexpr int64_t kBacktrackBudget = 200'000;

// Pods with `request` that fit into `free`, at most `limit`.
[[nodiscard]] int64_t FitCount(const int64_t* free, const std::vector<int64_t>& request,
                               int64_t limit);

[[nodiscard]] SearchResult Search(const FitProblem& problem);

// One stage alone, so that tests can hold each against the truth.
[[nodiscard]] SearchResult FirstFitForTest(const FitProblem& problem);
[[nodiscard]] SearchResult TableForTest(const FitProblem& problem);  // kGaveUp: too large
[[nodiscard]] SearchResult BacktrackForTest(const FitProblem& problem);

}  // namespace tutti::engine
