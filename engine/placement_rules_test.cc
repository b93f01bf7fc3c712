// SPDX-License-Identifier: Apache-2.0
// Rules of pods about each other: tables derived by hand, and a random comparison with a naive
// scheduler that places pod by pod and tries every node.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/capacity_test_util.h"

namespace tutti::engine {
namespace {

using ::testing::HasSubstr;

constexpr const char* kHost = "kubernetes.io/hostname";
constexpr const char* kZone = "zone";

api::LabelSelector Select(const std::string& app) {
  api::LabelSelector selector;
  selector.present = true;
  selector.requirements.push_back({"app", "In", {app}});
  return selector;
}

api::PodAffinityTerm Term(const std::string& key, const std::string& app) {
  api::PodAffinityTerm term;
  term.topology_key = key;
  term.selector = Select(app);
  term.namespaces = {"ns"};
  return term;
}

api::SpreadConstraint SpreadOver(const std::string& key, const std::string& app, int32_t skew = 1) {
  api::SpreadConstraint constraint;
  constraint.topology_key = key;
  constraint.selector = Select(app);
  constraint.max_skew = skew;
  return constraint;
}

// A pod of 1 cpu with label app=a and these rules.
std::shared_ptr<api::PodShape> Ruled() {
  auto shape = MakeShape({{"cpu", 1}});
  shape->rules.emplace();
  shape->rules->ns = "ns";
  shape->rules->labels = {{"app", "a"}};
  return shape;
}

class PlacementRulesTest : public ::testing::Test {
 protected:
  void Node(const std::string& name, int64_t cpu, const std::string& zone,
            std::vector<api::Taint> taints = {}) {
    api::StringMap labels;
    if (!zone.empty())
      labels[kZone] = zone;
    capacity_->SetNode(MakeNode(name, {{"cpu", cpu}}, labels, std::move(taints)));
  }
  void Pod(const std::string& node, const std::string& app, const std::string& ns = "ns",
           bool leaving = false) {
    capacity_->SetPod("uid-" + std::to_string(++pods_), node, MakeShape({}), "", "",
                      {ns, {{"app", app}}, leaving});
  }
  // The most pods of this shape that are said to fit, or -1 when it is left to the scheduler.
  int Most(const std::shared_ptr<api::PodShape>& shape) {
    int most = 0;
    for (int count = 1; count <= 12; ++count) {
      const FitResult fit = capacity_->Check(MakeGang("ns/x", count, shape));
      if (fit.kind == FitKind::kUndecided)
        return -1;
      if (fit.kind == FitKind::kFits)
        most = count;
    }
    return most;
  }

  std::unique_ptr<Capacity> capacity_ = MakeCapacity();
  int pods_ = 0;
};

TEST_F(PlacementRulesTest, AntiAffinityToItselfOnTheHostIsOnePodPerNode) {
  Node("a", 4, "x");
  Node("b", 4, "x");
  Node("c", 0, "y");
  auto shape = Ruled();
  shape->rules->anti_affinity.push_back(Term(kHost, "a"));
  EXPECT_EQ(Most(shape), 2);
  const FitResult three = capacity_->Check(MakeGang("ns/x", 3, shape));
  EXPECT_EQ(three.kind, FitKind::kNever);
  EXPECT_THAT(three.message,
              HasSubstr("room for 2 of 3 pods when it is empty; without the pods' own "
                        "rules all would: anti-affinity within "
                        "kubernetes.io/hostname"));
  Pod("a", "a");
  EXPECT_EQ(Most(shape), 1);
  EXPECT_EQ(capacity_->Check(MakeGang("ns/x", 2, shape)).kind, FitKind::kNotNow);
  Pod("b", "a", "elsewhere");
  EXPECT_EQ(Most(shape), 1);
}

TEST_F(PlacementRulesTest, AntiAffinityOverZonesIsOnePodPerZoneAndIgnoresNodesWithoutOne) {
  Node("a", 4, "x");
  Node("b", 4, "x");
  Node("c", 4, "y");
  auto shape = Ruled();
  shape->rules->anti_affinity.push_back(Term(kZone, "a"));
  EXPECT_EQ(Most(shape), 2);
  Node("d", 3, "");
  EXPECT_EQ(Most(shape), 5);
}

TEST_F(PlacementRulesTest, PodsThatAreThereKeepOthersAwayByTheirOwnRules) {
  Node("a", 4, "x");
  Node("b", 4, "x");
  Node("c", 2, "y");
  auto hermit = MakeShape({});
  hermit->rules.emplace();
  hermit->rules->anti_affinity.push_back(Term(kZone, "a"));
  capacity_->SetPod("hermit", "a", hermit, "", "", {"ns", {{"app", "h"}}, false});
  auto shape = Ruled();
  shape->rules->anti_affinity.push_back(Term(kHost, "none"));
  EXPECT_EQ(Most(shape), 2);
  capacity_->RemovePod("hermit");
  EXPECT_EQ(Most(shape), 10);
}

TEST_F(PlacementRulesTest, AffinityToItselfTakesOneZoneThatHoldsAll) {
  Node("a", 2, "x");
  Node("b", 2, "x");
  Node("c", 3, "y");
  auto shape = Ruled();
  shape->rules->affinity.push_back(Term(kZone, "a"));
  EXPECT_EQ(Most(shape), 4);
  // The tightest zone that holds all.
  const FitResult three = capacity_->Check(MakeGang("ns/x", 3, shape));
  EXPECT_EQ(three.placement, (Placement{{0, "c", 3}}));
  Pod("c", "a");
  EXPECT_EQ(Most(shape), 3);  // where one is, the others have to be
}

TEST_F(PlacementRulesTest, AffinityToOthersWaitsForThem) {
  Node("a", 2, "x");
  Node("b", 2, "y");
  auto shape = Ruled();
  shape->rules->affinity.push_back(Term(kZone, "server"));
  EXPECT_EQ(capacity_->Check(MakeGang("ns/x", 1, shape)).kind, FitKind::kNotNow);
  const uint64_t seen = capacity_->FlightVersion();
  Pod("b", "server");
  EXPECT_GT(capacity_->FlightVersion(), seen);
  EXPECT_EQ(Most(shape), 2);
}

TEST_F(PlacementRulesTest, SpreadFillsTheDomainsEvenly) {
  Node("a", 5, "x");
  Node("b", 2, "y");
  Node("c", 9, "z");
  auto shape = Ruled();
  shape->rules->spread.push_back(SpreadOver(kZone, "a"));
  EXPECT_EQ(Most(shape), 3 + 2 + 3);  // y is full at 2, the others may be one ahead
  shape->rules->spread[0].max_skew = 2;
  EXPECT_EQ(Most(shape), 4 + 2 + 4);
  shape->rules->spread[0].max_skew = 1;
  const FitResult five = capacity_->Check(MakeGang("ns/x", 5, shape));
  EXPECT_EQ(five.placement, (Placement{{0, "a", 2}, {0, "b", 2}, {0, "c", 1}}));
  // Three are on x already: the others catch up first.
  for (int i = 0; i < 3; ++i)
    Pod("a", "a");
  EXPECT_EQ(Most(shape), 0 + 2 + 3);
  // A pod that is being deleted doesn't count.
  Pod("c", "a", "ns", /*leaving=*/true);
  EXPECT_EQ(Most(shape), 0 + 2 + 3);
}

TEST_F(PlacementRulesTest, TooFewDomainsCountAsEmptyOnes) {
  Node("a", 5, "x");
  Node("b", 5, "y");
  auto shape = Ruled();
  shape->rules->spread.push_back(SpreadOver(kZone, "a", 2));
  shape->rules->spread[0].min_domains = 3;
  EXPECT_EQ(Most(shape), 4);
  Node("c", 1, "z");
  EXPECT_EQ(Most(shape), 3 + 3 + 1);
}

TEST_F(PlacementRulesTest, NodesThatAreOutOfReachAreDomainsOrNotByPolicy) {
  Node("a", 5, "x");
  Node("b", 5, "y", {{"k", "", "NoSchedule"}});
  auto shape = Ruled();
  shape->rules->spread.push_back(SpreadOver(kZone, "a"));
  EXPECT_EQ(Most(shape), 1);  // y counts as an empty domain that nothing can fill
  shape->rules->spread[0].honor_taints = true;
  EXPECT_EQ(Most(shape), 5);
  shape->node_selector = {{kZone, "x"}};
  shape->rules->spread[0].honor_taints = false;
  EXPECT_EQ(Most(shape), 5);
  shape->rules->spread[0].honor_affinity = false;
  EXPECT_EQ(Most(shape), 1);
}

TEST_F(PlacementRulesTest, SpreadOverPodsOfOthersOnlyClosesDomains) {
  Node("a", 3, "x");
  Node("b", 3, "y");
  Pod("a", "server");
  Pod("a", "server");
  auto shape = Ruled();
  shape->rules->spread.push_back(SpreadOver(kZone, "server"));
  EXPECT_EQ(Most(shape), 3);
  shape->rules->spread[0].max_skew = 2;
  EXPECT_EQ(Most(shape), 6);
}

TEST_F(PlacementRulesTest, WhatIsNotDecidedIsSaid) {
  Node("a", 3, "x");
  Node("b", 3, "y");
  auto two = Ruled();
  two->rules->spread = {SpreadOver(kZone, "a"), SpreadOver(kHost, "a")};
  const FitResult fit = capacity_->Check(MakeGang("ns/x", 2, two));
  EXPECT_EQ(fit.kind, FitKind::kUndecided);
  EXPECT_THAT(fit.message, HasSubstr("left to the scheduler: spread over zone, spread over "
                                     "kubernetes.io/hostname"));
  auto ruled = Ruled();
  ruled->rules->anti_affinity.push_back(Term(kHost, "a"));
  const Gang mixed{"ns/x", {MakeSet("one", 1, ruled), MakeSet("two", 1, MakeShape({{"cpu", 2}}))}};
  EXPECT_THAT(capacity_->Check(mixed).message, HasSubstr("rules of unlike pods about each other"));
}

TEST_F(PlacementRulesTest, PromisedPodsCountLikeBoundOnes) {
  Node("a", 4, "x");
  Node("b", 4, "y");
  auto shape = Ruled();
  shape->rules->anti_affinity.push_back(Term(kHost, "a"));
  const Gang first = MakeGang("ns/first", 1, shape);
  capacity_->Reserve(first, capacity_->Check(first).placement);
  EXPECT_EQ(Most(shape), 1);
  EXPECT_EQ(capacity_->SanityCheck(), "");
  capacity_->Release("ns/first");
  EXPECT_EQ(Most(shape), 2);
}

// --- a naive scheduler
// ------------------------------------------------------------------------------------

struct SomePod {
  std::string ns;
  api::StringMap labels;
  std::vector<api::PodAffinityTerm> anti_affinity;
  bool leaving = false;
};

struct SomeNode {
  api::Node node;
  std::vector<SomePod> pods;
  int64_t room = 0;  // pods of the gang
};

// The filters of the two plugins, one pod at a time, written down as they are described.
class Naive {
 public:
  std::vector<SomeNode> nodes;
  std::shared_ptr<const api::PodShape> shape;
  std::map<std::string, api::StringMap> namespaces;

  // Exactly which numbers of pods per node can be reached, pod by pod.
  bool CanPlace(int count) {
    std::vector<int> counts(nodes.size(), 0);
    reached_.clear();
    dead_end_ = false;
    return Reach(counts, count);
  }
  // Whether some order of choices of the last CanPlace ended early.
  [[nodiscard]] bool DeadEnd() const { return dead_end_; }
  bool CanReach(const std::vector<int>& wanted) {
    std::vector<int> counts(nodes.size(), 0);
    reached_.clear();
    return ReachExactly(counts, wanted);
  }

 private:
  bool Reach(std::vector<int>& counts, int left) {
    if (left == 0)
      return true;
    if (!reached_.insert(counts).second)
      return false;
    bool any = false;
    bool moved = false;
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (!Admits(n, counts))
        continue;
      moved = true;
      ++counts[n];
      any = Reach(counts, left - 1) || any;
      --counts[n];
    }
    dead_end_ = dead_end_ || !moved;
    return any;
  }
  bool ReachExactly(std::vector<int>& counts, const std::vector<int>& wanted) {
    if (counts == wanted)
      return true;
    if (!reached_.insert(counts).second)
      return false;
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (counts[n] == wanted[n] || !Admits(n, counts))
        continue;
      ++counts[n];
      const bool reached = ReachExactly(counts, wanted);
      --counts[n];
      if (reached)
        return true;
    }
    return false;
  }

  using Pair = std::pair<std::string, std::string>;
  [[nodiscard]] std::optional<Pair> PairOf(size_t n, const std::string& key) const {
    auto label = nodes[n].node.meta.labels.find(key);
    return label == nodes[n].node.meta.labels.end() ? std::nullopt
                                                    : std::optional<Pair>({key, label->second});
  }
  [[nodiscard]] std::vector<SomePod> PodsOn(size_t n, const std::vector<int>& counts) const {
    std::vector<SomePod> pods = nodes[n].pods;
    for (int i = 0; i < counts[n]; ++i) {
      pods.push_back({shape->rules->ns, shape->rules->labels, shape->rules->anti_affinity, false});
    }
    return pods;
  }
  [[nodiscard]] bool Means(const api::PodAffinityTerm& term, const std::string& ns,
                           const api::StringMap& labels) const {
    const bool by_name =
        std::find(term.namespaces.begin(), term.namespaces.end(), ns) != term.namespaces.end();
    auto known = namespaces.find(ns);
    const bool by_labels =
        known != namespaces.end() && term.namespace_selector.Matches(known->second);
    return (by_name || by_labels) && term.selector.Matches(labels);
  }
  [[nodiscard]] bool Tainted(size_t n) const { return !nodes[n].node.taints.empty(); }
  [[nodiscard]] bool Selected(size_t n) const {
    for (const auto& [key, value] : shape->node_selector) {
      if (nodes[n].node.meta.Label(key) != value)
        return false;
    }
    return true;
  }

  [[nodiscard]] bool Admits(size_t n, const std::vector<int>& counts) const {
    return counts[n] < nodes[n].room && Selected(n) && !Tainted(n) && AffinityAdmits(n, counts) &&
           SpreadAdmits(n, counts);
  }
  [[nodiscard]] bool AffinityAdmits(size_t n, const std::vector<int>& counts) const {
    const api::PodRules& rules = *shape->rules;
    std::map<Pair, int> keep_away;
    std::map<Pair, int> together;
    for (size_t m = 0; m < nodes.size(); ++m) {
      for (const SomePod& pod : PodsOn(m, counts)) {
        for (const api::PodAffinityTerm& term : pod.anti_affinity) {
          const auto pair = PairOf(m, term.topology_key);
          if (pair && Means(term, rules.ns, rules.labels))
            ++keep_away[*pair];
        }
        for (const api::PodAffinityTerm& term : rules.anti_affinity) {
          const auto pair = PairOf(m, term.topology_key);
          if (pair && Means(term, pod.ns, pod.labels))
            ++keep_away[*pair];
        }
        if (std::all_of(rules.affinity.begin(), rules.affinity.end(),
                        [&](const auto& term) { return Means(term, pod.ns, pod.labels); })) {
          for (const api::PodAffinityTerm& term : rules.affinity) {
            if (const auto pair = PairOf(m, term.topology_key))
              ++together[*pair];
          }
        }
      }
    }
    for (const auto& [key, value] : nodes[n].node.meta.labels) {
      if (keep_away.contains({key, value}))
        return false;
    }
    bool exist = true;
    for (const api::PodAffinityTerm& term : rules.affinity) {
      const auto pair = PairOf(n, term.topology_key);
      if (!pair)
        return false;
      exist = exist && together.contains(*pair);
    }
    return exist || (together.empty() && std::all_of(rules.affinity.begin(), rules.affinity.end(),
                                                     [&](const auto& term) {
                                                       return Means(term, rules.ns, rules.labels);
                                                     }));
  }
  [[nodiscard]] bool SpreadAdmits(size_t n, const std::vector<int>& counts) const {
    const api::PodRules& rules = *shape->rules;
    for (const api::SpreadConstraint& constraint : rules.spread) {
      std::map<std::string, int> matched;
      for (size_t m = 0; m < nodes.size(); ++m) {
        const bool all_keys = std::all_of(
            rules.spread.begin(), rules.spread.end(),
            [&](const auto& other) { return PairOf(m, other.topology_key).has_value(); });
        if (!all_keys || (constraint.honor_affinity && !Selected(m)) ||
            (constraint.honor_taints && Tainted(m))) {
          continue;
        }
        int& sum = matched[PairOf(m, constraint.topology_key)->second];
        for (const SomePod& pod : PodsOn(m, counts)) {
          sum +=
              !pod.leaving && pod.ns == rules.ns && constraint.selector.Matches(pod.labels) ? 1 : 0;
        }
      }
      const auto pair = PairOf(n, constraint.topology_key);
      if (!pair)
        return false;
      int least = 1000;
      for (const auto& [value, sum] : matched)
        least = std::min(least, sum);
      if (static_cast<int32_t>(matched.size()) < constraint.min_domains)
        least = 0;
      auto here = matched.find(pair->second);
      const int self = constraint.selector.Matches(rules.labels) ? 1 : 0;
      if ((here == matched.end() ? 0 : here->second) + self - least > constraint.max_skew)
        return false;
    }
    return true;
  }

  std::set<std::vector<int>> reached_;
  bool dead_end_ = false;
};

class RandomWorld {
 public:
  explicit RandomWorld(uint32_t seed) : random_(seed) {}
  int Pick(int low, int high) {
    return low + static_cast<int>(random_() % static_cast<uint32_t>(high - low + 1));
  }
  bool Chance(int in) { return Pick(1, in) == 1; }
  std::string App() { return Chance(2) ? "a" : "b"; }
  std::string TopologyKey() {
    return std::vector<std::string>{kHost, kZone, "rack"}[static_cast<size_t>(Pick(0, 2))];
  }
  api::PodAffinityTerm RandomTerm() {
    api::PodAffinityTerm term = Term(TopologyKey(), App());
    if (Chance(4))
      term.namespaces = {"other"};
    if (Chance(4)) {
      term.namespaces.clear();
      term.namespace_selector.present = true;
      if (Chance(2))
        term.namespace_selector.requirements.push_back({"env", "In", {"prod"}});
    }
    if (Chance(8))
      term.selector = {};
    return term;
  }

  Naive Make() {
    Naive naive;
    naive.namespaces = {{"ns", {}}, {"other", {{"env", "prod"}}}};
    const int nodes = Pick(1, 4);
    for (int n = 0; n < nodes; ++n) {
      SomeNode node;
      node.room = Pick(0, 3);
      api::StringMap labels;
      if (!Chance(6))
        labels[kZone] = Chance(2) ? "x" : "y";
      if (!Chance(6))
        labels["rack"] = "r" + std::to_string(Pick(1, 3));
      node.node = MakeNode("n" + std::to_string(n), {{"cpu", node.room}}, labels);
      if (Chance(8))
        node.node.taints.push_back({"k", "", "NoSchedule"});
      for (int pods = Pick(0, 2) * Pick(0, 1); pods > 0; --pods) {
        SomePod pod{Chance(4) ? "other" : "ns", {{"app", App()}}, {}, Chance(5)};
        if (Chance(4))
          pod.anti_affinity.push_back(RandomTerm());
        node.pods.push_back(std::move(pod));
      }
      naive.nodes.push_back(std::move(node));
    }
    auto shape = Ruled();
    if (Chance(6))
      shape->node_selector[kZone] = "x";
    if (Chance(3))
      shape->rules->affinity.push_back(RandomTerm());
    if (Chance(8))
      shape->rules->affinity.push_back(RandomTerm());
    if (Chance(3))
      shape->rules->anti_affinity.push_back(RandomTerm());
    if (Chance(8))
      shape->rules->anti_affinity.push_back(RandomTerm());
    for (int i = Pick(0, 2); i > 0; --i) {
      api::SpreadConstraint constraint = SpreadOver(TopologyKey(), App(), Pick(1, 2));
      constraint.min_domains = Pick(1, 3);
      constraint.honor_affinity = !Chance(3);
      constraint.honor_taints = Chance(3);
      shape->rules->spread.push_back(std::move(constraint));
    }
    naive.shape = shape;
    return naive;
  }

 private:
  std::mt19937 random_;
};

TEST(PlacementRulesTwinTest, AgreesWithASchedulerThatTriesEverything) {
  int fits = 0;
  int not_now = 0;
  int undecided = 0;
  for (uint32_t seed = 1; seed <= 20000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomWorld world(seed);
    Naive naive = world.Make();
    const std::unique_ptr<Capacity> capacity = MakeCapacity();
    for (const auto& [name, labels] : naive.namespaces)
      capacity->SetNamespace(name, labels);
    int pods = 0;
    for (const SomeNode& node : naive.nodes) {
      capacity->SetNode(node.node);
      for (const SomePod& pod : node.pods) {
        auto shape = MakeShape({});
        shape->rules.emplace();
        shape->rules->anti_affinity = pod.anti_affinity;
        capacity->SetPod("uid-" + std::to_string(++pods), node.node.meta.name, shape, "", "",
                         {pod.ns, pod.labels, pod.leaving});
      }
    }
    ASSERT_EQ(capacity->SanityCheck(), "");
    const int count = world.Pick(1, 5);
    const Gang gang = MakeGang("ns/x", count, naive.shape);
    const FitResult fit = capacity->Check(gang);
    if (fit.kind == FitKind::kUndecided) {
      ++undecided;
      continue;
    }
    const bool truth = naive.CanPlace(count);
    ASSERT_EQ(fit.kind == FitKind::kFits, truth) << fit.message;
    ++(truth ? fits : not_now);
    if (!truth)
      continue;
    // Pods with affinity to themselves may begin where the rest has no room; nothing else leads
    // astray.
    if (naive.shape->rules->affinity.empty()) {
      ASSERT_FALSE(naive.DeadEnd());
    }
    std::vector<int> planned(naive.nodes.size(), 0);
    for (const PlacementSlot& slot : fit.placement)
      planned[static_cast<size_t>(slot.node[1] - '0')] += slot.count;
    ASSERT_TRUE(naive.CanReach(planned)) << "the plan can't be carried out";
  }
  EXPECT_GT(fits, 3000);
  EXPECT_GT(not_now, 3000);
  EXPECT_LT(undecided, 4000);
}

}  // namespace
}  // namespace tutti::engine
