// SPDX-License-Identifier: Apache-2.0
// Rules of pods about other pods: required inter-pod affinity and anti-affinity, topology spread
// with DoNotSchedule (1.36 plugins InterPodAffinity and PodTopologySpread, default profile). For a
// gang of pods that are alike they come down to numbers: nodes that are out, limits per topology
// domain, and the choice of one domain for all. Exact then, both ways: a gang that is said to fit
// can be placed, pod by pod, by the scheduler's own filters, and in every order that these allow; a
// gang that is said not to fit can't.
//
// Except where pods of a gang with affinity to themselves may begin anywhere: the scheduler's first
// choice decides for the rest, and only steering makes it the planned one.
//
// Not decided here (see undecided): self-matching rules over several topologies at once, and unlike
// pods of one gang.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/capacity.h"
#include "engine/capacity_ledger.h"
#include "engine/gang_fit.h"
#include "engine/node_filter.h"

namespace tutti::engine {

class PlacementRules {
 public:
  // REQUIRES: set.shape->rules. All must outlive this; the ledger may not change meanwhile.
  PlacementRules(const CapacityLedger& ledger, const GangPodSet& set, const NodeFilter& filter);

  // Places for `problem`, which has one kind of pods, under the rules. kGaveUp: not decided.
  [[nodiscard]] SearchResult Place(const FitProblem& problem, Basis basis) const;
  // For a person: "anti-affinity over kubernetes.io/hostname, spread over zone".
  [[nodiscard]] std::string Text() const;

 private:
  using Domain = std::pair<int32_t, int32_t>;  // ids of a label's key and value
  // What the rules make of the nodes.
  struct Limits {
    bool decided = true;
    std::vector<int64_t> cap;      // per node
    std::vector<int32_t> domain;   // per node: index of its domain, -1 = in none
    std::vector<int64_t> matched;  // per domain: pods that count already
    std::vector<int64_t> most;     // per domain: so many more pods may come
    bool level = false;            // the domains must be filled evenly
    std::vector<int32_t>
        group;  // per node: all pods go to nodes of one group; empty = no such rule
    int32_t groups = 0;
  };

  [[nodiscard]] const std::vector<const NodeState*>& Nodes() const { return ledger_.Nodes(); }
  [[nodiscard]] int32_t Key(const std::string& topology_key) const;
  [[nodiscard]] bool Matches(const api::PodAffinityTerm& term, const std::string& ns,
                             const api::StringMap& labels) const;
  [[nodiscard]] bool MatchesOwn(const api::PodAffinityTerm& term) const;
  [[nodiscard]] Limits LimitsOf(const FitProblem& problem, Basis basis) const;
  void ForbidByAntiAffinity(Basis basis, Limits& limits) const;
  void RequireAffinity(Basis basis, Limits& limits) const;
  void OnePerDomain(Limits& limits) const;
  void Spread(Basis basis, Limits& limits) const;
  void SpreadOver(const api::SpreadConstraint& constraint, int32_t key,
                  const std::vector<bool>& has_keys, bool own, Basis basis, Limits& limits) const;

  const CapacityLedger& ledger_;
  const api::PodRules& rules_;
  const NodeFilter& filter_;
};

}  // namespace tutti::engine
