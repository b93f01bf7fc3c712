// SPDX-License-Identifier: Apache-2.0
// The trials of one search for remedies (remedies.h), shared by its parts.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "why/remedies.h"

namespace tutti::why {

// The name of the tree of Cohorts that a ClusterQueue is in; its own name when it is in none.
[[nodiscard]] std::string RootOf(const reconciler::Core& core, const std::string& cluster_queue);

// What the nodes have is in the way, not the quota.
[[nodiscard]] bool IsAboutPlaces(const Verdict& verdict);

class Search {
 public:
  Search(const State& state, const reconciler::Core& base, const api::ObjectKey& workload, Time now,
         const SearchLimits& limits);
  [[nodiscard]] Remedies Run();

 private:
  using Amounts = std::vector<MoreQuota>;

  // search.cc
  Verdict Try(const std::vector<Edit>& edits);
  bool Starts(const std::vector<Edit>& edits);
  // The least n of 1…most with which it starts; nothing: not even with `most`. `guess`: looked at
  // first. As far as more never hurts, which holds for quota and nodes.
  std::optional<int64_t> Least(int64_t most, int64_t guess,
                               const std::function<std::vector<Edit>(int64_t)>& edits);
  void Found(RemedyKind kind, std::string text, std::vector<Edit> edits);
  void NotEnough(const std::string& what, const Verdict& verdict);
  void TryQueues();
  void TryUncordon();
  void TryParallelism();
  void TryPriority();

  // search_quota.cc
  void TryQuota();
  void TryNodes();
  // One way to take flavors, one for each group of resources that the job needs.
  [[nodiscard]] std::vector<Amounts> FlavorChoices() const;
  [[nodiscard]] int64_t Guess(const MoreQuota& more, int64_t asked) const;
  [[nodiscard]] std::vector<Edit> QuotaEdits(const Amounts& more) const;
  // Takes off what isn't needed. REQUIRES: it starts with `more` and `others`.
  void Shrink(Amounts& more, const std::vector<Edit>& others);
  void TryWithNodes(const Amounts& more);
  struct NodeKind {
    const Json* like = nullptr;
    std::string words;
    size_t count = 0;
  };
  [[nodiscard]] std::vector<NodeKind> NodeKinds() const;
  [[nodiscard]] static std::vector<Edit> NodeEdits(const NodeKind& kind, int64_t count);

  // search_jobs.cc
  void TryEnds();
  void TryAhead();
  void TryPlacement();
  [[nodiscard]] std::vector<Edit> EndOf(const reconciler::Unit& unit) const;
  // The pod templates of the job and of its Workload changed alike; nothing: the job is of a kind
  // whose templates aren't known, or `change` finds nothing to do.
  [[nodiscard]] std::optional<std::vector<Edit>> PodEdits(
      const std::function<bool(Json& pod_template)>& change) const;

  const State& state_;
  const reconciler::Core& base_;
  const api::ObjectKey key_;
  const Time now_;
  const size_t budget_;
  const reconciler::Unit& unit_;
  Verdict before_;
  std::string queue_;
  std::string root_;
  std::vector<PodsAsked> pods_;
  api::Amounts total_;
  std::string short_of_;  // the resource by which holders are measured
  Remedies out_;
};

}  // namespace tutti::why
