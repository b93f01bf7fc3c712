// SPDX-License-Identifier: Apache-2.0
// See placement_rules.h.
#include "engine/placement_rules.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

namespace tutti::engine {
namespace {

int32_t ValueOf(const NodeState& node, int32_t key) {
  for (const auto& [label, value] : node.facts.labels) {
    if (label == key)
      return value;
  }
  return -1;
}

}  // namespace

PlacementRules::PlacementRules(const CapacityLedger& ledger, const GangPodSet& set,
                               const NodeFilter& filter)
    : ledger_(ledger), rules_(*set.shape->rules), filter_(filter) {}

int32_t PlacementRules::Key(const std::string& topology_key) const {
  return ledger_.Facts().strings().Find(topology_key);
}

bool PlacementRules::Matches(const api::PodAffinityTerm& term, const std::string& ns,
                             const api::StringMap& labels) const {
  return term.Matches(ns, ledger_.NamespaceLabels(ns), labels);
}

bool PlacementRules::MatchesOwn(const api::PodAffinityTerm& term) const {
  return Matches(term, rules_.ns, rules_.labels);
}

// Domains in which a pod stands that these pods must not be with, or that must not be with them.
void PlacementRules::ForbidByAntiAffinity(Basis basis, Limits& limits) const {
  std::set<Domain> forbidden;
  for (const NodeState* node : Nodes()) {
    for (const TagUse& use : node->tags) {
      if (use.Count(basis) == 0)
        continue;
      const auto forbid = [&](const api::PodAffinityTerm& term) {
        const int32_t key = Key(term.topology_key);
        const int32_t value = key < 0 ? -1 : ValueOf(*node, key);
        if (value >= 0)
          forbidden.emplace(key, value);
      };
      for (const api::PodAffinityTerm& term : use.tag->anti_affinity) {
        if (MatchesOwn(term))
          forbid(term);
      }
      for (const api::PodAffinityTerm& term : rules_.anti_affinity) {
        if (Matches(term, use.tag->ns, use.tag->labels))
          forbid(term);
      }
    }
  }
  if (forbidden.empty())
    return;
  for (size_t n = 0; n < Nodes().size(); ++n) {
    for (const Domain& label : Nodes()[n]->facts.labels) {
      if (forbidden.contains(label))
        limits.cap[n] = 0;
    }
  }
}

// A pod counts when it matches all terms. Nodes need every topology key. Without any such pod a
// gang that matches its own terms may begin, and its first pod decides the domains of all.
void PlacementRules::RequireAffinity(Basis basis, Limits& limits) const {
  if (rules_.affinity.empty())
    return;
  const auto all = [&](const auto& matches) {
    return std::all_of(rules_.affinity.begin(), rules_.affinity.end(), matches);
  };
  std::vector<int32_t> keys;
  for (const api::PodAffinityTerm& term : rules_.affinity)
    keys.push_back(Key(term.topology_key));
  std::set<Domain> present;
  for (const NodeState* node : Nodes()) {
    for (const TagUse& use : node->tags) {
      if (use.Count(basis) == 0 || !all([&](const api::PodAffinityTerm& term) {
            return Matches(term, use.tag->ns, use.tag->labels);
          })) {
        continue;
      }
      for (const int32_t key : keys) {
        if (const int32_t value = key < 0 ? -1 : ValueOf(*node, key); value >= 0)
          present.emplace(key, value);
      }
    }
  }
  const bool own = all([&](const api::PodAffinityTerm& term) { return MatchesOwn(term); });
  // On the empty cluster those that it waits for could come.
  if (present.empty() && !own) {
    if (basis != Basis::kEmpty)
      limits.cap.assign(limits.cap.size(), 0);
    return;
  }
  std::map<std::vector<int32_t>, int32_t> groups;
  if (present.empty())
    limits.group.assign(limits.cap.size(), -1);
  for (size_t n = 0; n < Nodes().size(); ++n) {
    std::vector<int32_t> values;
    bool possible = true;
    for (const int32_t key : keys) {
      const int32_t value = key < 0 ? -1 : ValueOf(*Nodes()[n], key);
      possible = possible && value >= 0 && (present.empty() || present.contains({key, value}));
      values.push_back(value);
    }
    if (!possible) {
      limits.cap[n] = 0;
    } else if (present.empty()) {
      limits.group[n] =
          groups.try_emplace(values, static_cast<int32_t>(groups.size())).first->second;
    }
  }
  limits.groups = static_cast<int32_t>(groups.size());
}

// Anti-affinity of the pods to each other.
void PlacementRules::OnePerDomain(Limits& limits) const {
  std::set<int32_t> keys;
  for (const api::PodAffinityTerm& term : rules_.anti_affinity) {
    if (MatchesOwn(term))
      keys.insert(Key(term.topology_key));
  }
  keys.erase(-1);  // no node has it: no limit
  if (keys.empty())
    return;
  if (keys.size() > 1) {
    limits.decided = false;
    return;
  }
  std::map<int32_t, int32_t> index;  // by value
  std::vector<int32_t> usable;       // nodes of the domain that could take a pod
  limits.domain.assign(limits.cap.size(), -1);
  for (size_t n = 0; n < Nodes().size(); ++n) {
    const int32_t value = ValueOf(*Nodes()[n], *keys.begin());
    if (value < 0)
      continue;  // the rule doesn't apply there
    const int32_t domain =
        index.try_emplace(value, static_cast<int32_t>(index.size())).first->second;
    if (static_cast<size_t>(domain) == usable.size())
      usable.push_back(0);
    limits.domain[n] = domain;
    limits.cap[n] = std::min<int64_t>(limits.cap[n], 1);
    usable[static_cast<size_t>(domain)] += limits.cap[n] > 0 ? 1 : 0;
  }
  if (std::all_of(usable.begin(), usable.end(), [](int32_t nodes) { return nodes <= 1; })) {
    limits.domain.clear();  // one pod per node says it all
    return;
  }
  limits.matched.assign(index.size(), 0);
  limits.most.assign(index.size(), 1);
}

void PlacementRules::Spread(Basis basis, Limits& limits) const {
  std::vector<int32_t> keys;
  for (const api::SpreadConstraint& constraint : rules_.spread)
    keys.push_back(Key(constraint.topology_key));
  const size_t nodes = Nodes().size();
  std::vector<bool> has_keys(nodes, true);
  for (size_t n = 0; n < nodes; ++n) {
    for (const int32_t key : keys)
      has_keys[n] = has_keys[n] && key >= 0 && ValueOf(*Nodes()[n], key) >= 0;
    if (!has_keys[n])
      limits.cap[n] = 0;
  }
  // Constraints that these pods don't count for only close nodes; they come first, since the other
  // kind measures what is left.
  for (const bool own : {false, true}) {
    for (size_t c = 0; c < rules_.spread.size(); ++c) {
      if (rules_.spread[c].selector.Matches(rules_.labels) == own && limits.decided)
        SpreadOver(rules_.spread[c], keys[c], has_keys, own, basis, limits);
    }
  }
}

void PlacementRules::SpreadOver(const api::SpreadConstraint& constraint, int32_t key,
                                const std::vector<bool>& has_keys, bool own, Basis basis,
                                Limits& limits) const {
  const size_t nodes = Nodes().size();
  std::map<int32_t, int32_t> index;  // by value
  std::vector<int64_t> matched;
  std::vector<int32_t> domain(nodes, -1);
  for (size_t n = 0; n < nodes; ++n) {
    const NodeFacts& facts = Nodes()[n]->facts;
    if (!has_keys[n] || (constraint.honor_affinity && filter_.Check(facts) == Verdict::kNoMatch) ||
        (constraint.honor_taints && !filter_.UntoleratedTaint(facts).empty())) {
      continue;
    }
    const auto [it, added] =
        index.try_emplace(ValueOf(*Nodes()[n], key), static_cast<int32_t>(index.size()));
    domain[n] = it->second;
    if (added)
      matched.push_back(0);
    for (const TagUse& use : Nodes()[n]->tags) {
      if (use.tag->ns == rules_.ns && constraint.selector.Matches(use.tag->labels))
        matched[static_cast<size_t>(it->second)] += use.CountStaying(basis);
    }
  }
  const bool enough_domains = static_cast<int64_t>(index.size()) >= constraint.min_domains;
  if (!own) {
    const int64_t least = enough_domains ? *std::min_element(matched.begin(), matched.end()) : 0;
    for (size_t n = 0; n < nodes; ++n) {
      const int64_t here = domain[n] < 0 ? 0 : matched[static_cast<size_t>(domain[n])];
      if (here - least > constraint.max_skew)
        limits.cap[n] = 0;
    }
    return;
  }
  if (!limits.domain.empty() || !limits.group.empty()) {
    limits.decided = false;  // two rules that the pods' own places move
    return;
  }
  limits.domain = std::move(domain);
  limits.matched = std::move(matched);
  std::vector<int64_t> room(limits.matched.size(), 0);
  for (size_t n = 0; n < nodes; ++n) {
    if (limits.domain[n] >= 0)
      room[static_cast<size_t>(limits.domain[n])] += limits.cap[n];
  }
  // The lowest domain can be raised to `top` at most, and no domain higher than that plus the skew.
  int64_t top = enough_domains ? std::numeric_limits<int64_t>::max() / 4 : 0;
  for (size_t d = 0; d < room.size(); ++d)
    top = std::min(top, limits.matched[d] + room[d]);
  limits.level = enough_domains;
  for (size_t d = 0; d < room.size(); ++d) {
    limits.most.push_back(
        std::clamp<int64_t>(top + constraint.max_skew - limits.matched[d], 0, room[d]));
  }
}

PlacementRules::Limits PlacementRules::LimitsOf(const FitProblem& problem, Basis basis) const {
  Limits limits;
  limits.cap = problem.cap;
  ForbidByAntiAffinity(basis, limits);
  RequireAffinity(basis, limits);
  OnePerDomain(limits);
  if (limits.decided)
    Spread(basis, limits);
  return limits;
}

SearchResult PlacementRules::Place(const FitProblem& problem, Basis basis) const {
  const Limits limits = LimitsOf(problem, basis);
  SearchResult result;
  result.placed.assign(1, 0);
  if (!limits.decided) {
    result.end = SearchEnd::kGaveUp;
    return result;
  }
  const int64_t want = problem.kinds[0].count;
  std::vector<size_t> order(limits.cap.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return limits.cap[a] < limits.cap[b]; });
  const auto in_domain = [&](size_t n) { return limits.domain.empty() ? -1 : limits.domain[n]; };
  // Pods that the nodes of a group take (-1: there are no groups).
  const auto total = [&](int32_t group) {
    std::vector<int64_t> most = limits.most;
    int64_t sum = 0;
    for (const size_t n : order) {
      if (group >= 0 && limits.group[n] != group)
        continue;
      int64_t count = limits.cap[n];
      if (const int32_t domain = in_domain(n); domain >= 0) {
        int64_t& left = most[static_cast<size_t>(domain)];
        count = std::min(count, left);
        left -= count;
      }
      sum += std::min(count, want);
    }
    return sum;
  };
  int32_t group = -1;
  int64_t best = 0;
  if (limits.group.empty()) {
    best = total(-1);
  } else {
    // The tightest group that takes all, else the largest.
    for (int32_t g = 0; g < limits.groups; ++g) {
      const int64_t sum = total(g);
      const bool better = group < 0 || (best < want ? sum > best : sum >= want && sum < best);
      if (better) {
        group = g;
        best = sum;
      }
    }
  }
  result.placed[0] = std::min(best, want);
  if (best < want) {
    result.end = SearchEnd::kImpossible;
    return result;
  }
  std::vector<int64_t> most = limits.most;
  if (limits.level) {
    // Up to the lowest level at which all have a place; what is too much goes from the last ones.
    const auto taken = [&](size_t d, int64_t level) {
      return std::clamp<int64_t>(level - limits.matched[d], 0, limits.most[d]);
    };
    int64_t low = 0;
    int64_t high = 0;
    for (size_t d = 0; d < most.size(); ++d)
      high = std::max(high, limits.matched[d] + limits.most[d]);
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      int64_t sum = 0;
      for (size_t d = 0; d < most.size(); ++d)
        sum += taken(d, middle);
      if (sum >= want) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    int64_t sum = 0;
    for (size_t d = 0; d < most.size(); ++d) {
      most[d] = taken(d, low);
      sum += most[d];
    }
    for (size_t d = most.size(); d-- > 0 && sum > want;) {
      if (taken(d, low) > taken(d, low - 1)) {
        --most[d];
        --sum;
      }
    }
  }
  int64_t left = want;
  for (const size_t n : order) {
    if (group >= 0 && limits.group[n] != group)
      continue;
    int64_t count = std::min(limits.cap[n], left);
    if (const int32_t domain = in_domain(n); domain >= 0) {
      int64_t& room = most[static_cast<size_t>(domain)];
      count = std::min(count, room);
      room -= count;
    }
    if (count > 0)
      result.assigned.push_back({n, 0, count});
    left -= count;
  }
  return result;
}

std::string PlacementRules::Text() const {
  std::string text;
  const auto add = [&](std::string_view what, const std::string& key) {
    text += (text.empty() ? "" : ", ") + std::string(what) + " " + key;
  };
  for (const api::PodAffinityTerm& term : rules_.affinity)
    add("affinity within", term.topology_key);
  for (const api::PodAffinityTerm& term : rules_.anti_affinity)
    add("anti-affinity within", term.topology_key);
  for (const api::SpreadConstraint& constraint : rules_.spread)
    add("spread over", constraint.topology_key);
  return text;
}

}  // namespace tutti::engine
