// SPDX-License-Identifier: Apache-2.0
// Random clusters and gangs against a plain model of kube-scheduler's filters that recomputes
// everything from lists at every question and tries every arrangement. After each step the books
// must add up, every answer must agree, and the version must have grown if any waiting gang began
// to fit.
#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "engine/capacity.h"
#include "engine/capacity_test_util.h"

namespace tutti::engine {
namespace {

// --- the model
// -------------------------------------------------------------------------------------------

struct ModelPod {
  std::string node;
  std::shared_ptr<const api::PodShape> shape;
  std::string gang;
  std::string pod_set;
};

struct ModelSlot {
  GangPodSet set;
  std::string node;
};

// What stands on a node: shapes.
using Load = std::vector<const api::PodShape*>;

class Model {
 public:
  std::map<std::string, api::Node> nodes;
  std::map<std::string, ModelPod> pods;
  std::map<std::string, std::vector<ModelSlot>> promises;  // by gang

  static bool Admits(const api::Node& node, const GangPodSet& set) {
    const api::PodShape& shape = *set.shape;
    if (!shape.node_name.empty() && shape.node_name != node.meta.name)
      return false;
    api::StringMap selector = shape.node_selector;
    for (const auto& [key, value] : set.node_selector) {
      if (selector.emplace(key, value).first->second != value)
        return false;
    }
    for (const auto& [key, value] : selector) {
      auto label = node.meta.labels.find(key);
      if (label == node.meta.labels.end() || label->second != value)
        return false;
    }
    if (shape.has_required_affinity) {
      bool any = false;
      for (const api::NodeSelectorTerm& term : shape.required_affinity) {
        any |= term.Matches(node.meta.labels, node.meta.name);
      }
      if (!any)
        return false;
    }
    std::vector<api::Toleration> tolerations = shape.tolerations;
    tolerations.insert(tolerations.end(), set.tolerations.begin(), set.tolerations.end());
    std::vector<api::Taint> taints = node.taints;
    if (node.unschedulable)
      taints.push_back({"node.kubernetes.io/unschedulable", "", "NoSchedule"});
    for (const api::Taint& taint : taints) {
      if (taint.effect == "PreferNoSchedule")
        continue;
      bool tolerated = false;
      for (const api::Toleration& toleration : tolerations)
        tolerated |= toleration.Tolerates(taint);
      if (!tolerated)
        return false;
    }
    return true;
  }

  // One more pod beside what stands there.
  static bool FitsBeside(const api::Node& node, const Load& load, const api::PodShape& shape) {
    const auto allocatable = [&](const std::string& name) {
      auto it = node.allocatable.find(name);
      return it == node.allocatable.end() ? int64_t{0} : it->second;
    };
    if (static_cast<int64_t>(load.size()) + 1 > allocatable("pods"))
      return false;
    for (const auto& [name, amount] : shape.requests) {
      if (amount <= 0 || name == "ignored")
        continue;
      int64_t used = 0;
      for (const api::PodShape* other : load) {
        auto it = other->requests.find(name);
        if (it != other->requests.end())
          used += it->second;
      }
      if (amount > allocatable(name) - used)
        return false;
    }
    for (const api::PodShape* other : load) {
      for (const api::HostPort& a : other->host_ports) {
        for (const api::HostPort& b : shape.host_ports) {
          if (api::Clash(a, b))
            return false;
        }
      }
    }
    return true;
  }

  enum class Basis { kNow, kBound, kEmpty };
  [[nodiscard]] std::map<std::string, Load> Loads(Basis basis) const {
    std::map<std::string, Load> loads;
    for (const auto& [name, node] : nodes)
      loads[name];
    if (basis == Basis::kEmpty)
      return loads;
    for (const auto& [uid, pod] : pods)
      loads[pod.node].push_back(pod.shape.get());
    if (basis == Basis::kBound)
      return loads;
    for (const auto& [gang, slots] : promises) {
      for (const ModelSlot& slot : slots)
        loads[slot.node].push_back(slot.set.shape.get());
    }
    return loads;
  }

  // Every arrangement is tried (like pods never go back to an earlier node).
  bool Fits(const Gang& gang, std::map<std::string, Load>& loads, size_t set = 0, int32_t done = 0,
            std::string from = "") const {
    while (set < gang.pod_sets.size() && done >= gang.pod_sets[set].count) {
      ++set;
      done = 0;
      from = "";
    }
    if (set == gang.pod_sets.size())
      return true;
    for (auto it = nodes.lower_bound(from); it != nodes.end(); ++it) {
      const auto& [name, node] = *it;
      if (!Admits(node, gang.pod_sets[set]) ||
          !FitsBeside(node, loads[name], *gang.pod_sets[set].shape)) {
        continue;
      }
      loads[name].push_back(gang.pod_sets[set].shape.get());
      const bool fits = Fits(gang, loads, set, done + 1, name);
      loads[name].pop_back();
      if (fits)
        return true;
    }
    return false;
  }

  // One podset of any size: nodes are filled one after the other.
  bool FitsByCounting(const Gang& gang, std::map<std::string, Load> loads) const {
    int32_t left = gang.pod_sets[0].count;
    for (const auto& [name, node] : nodes) {
      if (!Admits(node, gang.pod_sets[0]))
        continue;
      while (left > 0 && FitsBeside(node, loads[name], *gang.pod_sets[0].shape)) {
        loads[name].push_back(gang.pod_sets[0].shape.get());
        --left;
      }
    }
    return left <= 0;
  }

  bool Truth(const Gang& gang, Basis basis) const {
    std::map<std::string, Load> loads = Loads(basis);
    return gang.pod_sets.size() == 1 ? FitsByCounting(gang, loads) : Fits(gang, loads);
  }

  // "" or why the placement is wrong.
  [[nodiscard]] std::string CheckPlacement(const Gang& gang, const Placement& placement) const {
    std::map<std::string, Load> loads = Loads(Basis::kNow);
    std::vector<int32_t> counts(gang.pod_sets.size(), 0);
    for (size_t i = 0; i < placement.size(); ++i) {
      const PlacementSlot& slot = placement[i];
      if (slot.count <= 0)
        return "an empty slot";
      if (i > 0 && std::tie(placement[i - 1].pod_set, placement[i - 1].node) >=
                       std::tie(slot.pod_set, slot.node)) {
        return "slots out of order";
      }
      auto node = nodes.find(slot.node);
      if (node == nodes.end())
        return "a node that isn't there: " + slot.node;
      const GangPodSet& set = gang.pod_sets[slot.pod_set];
      if (!Admits(node->second, set))
        return "a node that doesn't admit the pod: " + slot.node;
      for (int32_t n = 0; n < slot.count; ++n) {
        if (!FitsBeside(node->second, loads[slot.node], *set.shape))
          return "no room on " + slot.node;
        loads[slot.node].push_back(set.shape.get());
      }
      counts[slot.pod_set] += slot.count;
    }
    for (size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] != std::max(0, gang.pod_sets[i].count))
        return "a wrong number of pods";
    }
    return "";
  }

  // The header's rule for slots.
  void Bind(const std::string& gang, const std::string& pod_set, const std::string& node) {
    auto promise = promises.find(gang);
    if (promise == promises.end())
      return;
    std::vector<ModelSlot>& slots = promise->second;
    size_t best = slots.size();
    int best_rank = 3;
    for (size_t i = 0; i < slots.size(); ++i) {
      if (slots[i].set.name != pod_set)
        continue;
      const int rank = slots[i].node == node ? 0 : nodes.count(slots[i].node) == 0 ? 1 : 2;
      if (rank < best_rank) {
        best = i;
        best_rank = rank;
      }
    }
    if (best < slots.size())
      slots.erase(slots.begin() + static_cast<std::ptrdiff_t>(best));
  }

  // Whether the gang fits after every way in which the scheduler may place the unbound pods of
  // others.
  bool FitsAfterAnyLanding(const Gang& gang) const {
    std::vector<GangPodSet> flying;
    for (const auto& [id, slots] : promises) {
      if (id == gang.id)
        continue;
      for (const ModelSlot& slot : slots)
        flying.push_back(slot.set);
    }
    std::map<std::string, Load> loads = Loads(Basis::kBound);
    return AnyLanding(gang, flying, 0, loads);
  }

 private:
  bool AnyLanding(const Gang& gang, const std::vector<GangPodSet>& flying, size_t next,
                  std::map<std::string, Load>& loads) const {
    if (next == flying.size())
      return Fits(gang, loads);
    bool placed = false;
    for (const auto& [name, node] : nodes) {
      if (!Admits(node, flying[next]) || !FitsBeside(node, loads[name], *flying[next].shape))
        continue;
      placed = true;
      loads[name].push_back(flying[next].shape.get());
      const bool ok = AnyLanding(gang, flying, next + 1, loads);
      loads[name].pop_back();
      if (!ok)
        return false;
    }
    return placed || AnyLanding(gang, flying, next + 1, loads);
  }
};

// --- random parts
// ----------------------------------------------------------------------------------------

class World {
 public:
  World(uint32_t seed, int most_nodes, int most_pods)
      : random_(seed), most_nodes_(most_nodes), most_pods_(most_pods) {}

  int Pick(int low, int high) {
    return low + static_cast<int>(random_() % static_cast<uint32_t>(high - low + 1));
  }
  bool Chance(int in) { return Pick(1, in) == 1; }

  api::Node RandomNode() {
    api::Node node = MakeNode("n" + std::to_string(Pick(1, most_nodes_)),
                              {{"cpu", Pick(0, 8)}, {"memory", Pick(2, 9)}});
    if (Chance(2))
      node.allocatable["nvidia.com/gpu"] = Pick(0, 4);
    if (Chance(3))
      node.allocatable["pods"] = Pick(0, 4);
    if (Chance(2))
      node.meta.labels["zone"] = "z" + std::to_string(Pick(1, 2));
    if (Chance(3))
      node.meta.labels["size"] = std::to_string(Pick(1, 3));
    if (Chance(6))
      node.taints.push_back({"k", Chance(2) ? "v" : "", "NoSchedule"});
    if (Chance(8))
      node.taints.push_back({"m", "", Chance(2) ? "NoExecute" : "PreferNoSchedule"});
    node.unschedulable = Chance(10);
    return node;
  }

  std::shared_ptr<api::PodShape> RandomShape() {
    auto shape = MakeShape({{"cpu", Pick(0, 4)}});
    if (Chance(2))
      shape->requests["memory"] = Pick(0, 4);
    if (Chance(3))
      shape->requests["nvidia.com/gpu"] = Pick(0, 2);
    if (Chance(12))
      shape->requests["ignored"] = 3;
    if (Chance(8))
      shape->host_ports.push_back({Chance(2) ? "" : "10.0.0.1", "TCP", Pick(1, 2)});
    if (Chance(6))
      shape->node_selector["zone"] = "z" + std::to_string(Pick(1, 3));
    if (Chance(4))
      shape->tolerations.push_back({"k", "Exists", "", "", {}});
    if (Chance(12))
      shape->tolerations.push_back({"", "Exists", "", "", {}});
    if (Chance(6)) {
      shape->has_required_affinity = true;
      const int terms = Pick(0, 2);
      for (int i = 0; i < terms; ++i)
        shape->required_affinity.push_back(RandomTerm());
    }
    if (Chance(30))
      shape->node_name = "n" + std::to_string(Pick(1, most_nodes_));
    return shape;
  }

  // `sets` podsets with together at most most_pods_ pods.
  Gang RandomGang(const std::string& id, int sets) {
    Gang gang{id, {}};
    int left = most_pods_;
    for (int i = 0; i < sets && left > 0; ++i) {
      const int count = sets == 1 ? Pick(1, left) : Pick(0, std::min(left, 3));
      GangPodSet set = MakeSet("set" + std::to_string(i), count, RandomShape());
      left -= set.count;
      if (Chance(8))
        set.node_selector["size"] = std::to_string(Pick(1, 3));
      if (Chance(8))
        set.tolerations.push_back({"m", "Exists", "", "", {}});
      if (i > 0 && Chance(5))
        set.shape = gang.pod_sets[0].shape;
      gang.pod_sets.push_back(std::move(set));
    }
    return gang;
  }

 private:
  api::NodeSelectorTerm RandomTerm() {
    api::NodeSelectorTerm term;
    switch (Pick(1, 6)) {
      case 1:
        term.expressions.push_back({"zone", "In", {"z1", "z3"}});
        break;
      case 2:
        term.expressions.push_back({"zone", "NotIn", {"z1"}});
        break;
      case 3:
        term.expressions.push_back({"size", Chance(2) ? "Gt" : "Lt", {"2"}});
        break;
      case 4:
        term.expressions.push_back({"size", Chance(2) ? "Exists" : "DoesNotExist", {}});
        break;
      case 5:
        term.fields.push_back({"metadata.name", Chance(2) ? "In" : "NotIn", {"n1"}});
        break;
      default:
        break;  // an empty term
    }
    if (Chance(3))
      term.expressions.push_back({"zone", "Exists", {}});
    return term;
  }

  std::mt19937 random_;
  int most_nodes_;
  int most_pods_;
};

// --- the comparison
// --------------------------------------------------------------------------------------

struct Tally {
  int checks = 0, fits = 0, not_now = 0, never = 0, grew = 0, sure = 0, unsure = 0;
};

class Twin {
 public:
  Twin(uint32_t seed, int most_nodes, int most_pods, int most_sets)
      : world_(seed, most_nodes, most_pods), most_sets_(most_sets) {
    for (int i = 0; i < 4; ++i)
      waiting_.push_back(NewGang("ns/waiting" + std::to_string(i)));
  }

  void Run(int steps, bool landings, Tally& tally) {
    for (int step = 0; step < steps && !testing::Test::HasFatalFailure(); ++step) {
      std::vector<bool> before;
      for (const Gang& gang : waiting_)
        before.push_back(model_.Truth(gang, Model::Basis::kNow));
      const uint64_t version = capacity_->Version();
      Step();
      ASSERT_EQ(capacity_->SanityCheck(), "");
      for (size_t i = 0; i < waiting_.size(); ++i) {
        if (before[i] || !model_.Truth(waiting_[i], Model::Basis::kNow))
          continue;
        ++tally.grew;
        ASSERT_GT(capacity_->Version(), version) << "a gang began to fit";
      }
      Compare(waiting_[static_cast<size_t>(world_.Pick(0, 3))], tally);
      Compare(NewGang("ns/once"), tally);
      if (landings)
        CompareLandings(NewGang("ns/once"), tally);
      for (const auto& [id, slots] : model_.promises) {
        ASSERT_EQ(capacity_->Unbound(id), static_cast<int32_t>(slots.size()));
        ASSERT_EQ(capacity_->PlanBroken(id), ModelBroken(slots));
      }
      ASSERT_EQ(capacity_->CountNodes({{"zone", "z1"}}),
                std::count_if(model_.nodes.begin(), model_.nodes.end(),
                              [](const auto& n) { return n.second.meta.Label("zone") == "z1"; }));
      if (world_.Chance(3)) {  // nothing new: nothing moves
        const uint64_t now = capacity_->Version();
        for (const auto& [name, node] : model_.nodes)
          capacity_->SetNode(node);
        for (const auto& [uid, pod] : model_.pods) {
          capacity_->SetPod(uid, pod.node, pod.shape, pod.gang, pod.pod_set);
        }
        ASSERT_EQ(capacity_->Version(), now);
        ASSERT_EQ(capacity_->SanityCheck(), "");
      }
    }
  }

 private:
  Gang NewGang(const std::string& id) { return world_.RandomGang(id, world_.Pick(1, most_sets_)); }

  void Step() {
    switch (world_.Pick(1, 12)) {
      case 1:
      case 2:
      case 3: {
        const api::Node node = world_.RandomNode();
        capacity_->SetNode(node);
        model_.nodes[node.meta.name] = node;
        break;
      }
      case 4: {
        const std::string name = world_.RandomNode().meta.name;
        if (!world_.Chance(3))
          break;
        capacity_->RemoveNode(name);
        model_.nodes.erase(name);
        break;
      }
      case 5:
        SetPod("pod" + std::to_string(world_.Pick(1, 6)), "", "");
        break;
      case 6:
      case 7: {
        if (model_.pods.empty())
          break;
        auto it = std::next(model_.pods.begin(),
                            world_.Pick(0, static_cast<int>(model_.pods.size()) - 1));
        capacity_->RemovePod(it->first);
        model_.pods.erase(it);
        break;
      }
      case 8:
      case 9:
        Reserve();
        break;
      case 10:
      case 11:
        BindOne();
        break;
      default: {
        if (model_.promises.empty())
          break;
        const std::string id = model_.promises.begin()->first;
        capacity_->Release(id);
        model_.promises.erase(id);
      }
    }
  }

  void SetPod(const std::string& uid, const std::string& gang, const std::string& pod_set,
              std::shared_ptr<const api::PodShape> shape = nullptr, std::string node = "") {
    if (shape == nullptr)
      shape = world_.RandomShape();
    if (node.empty())
      node = world_.RandomNode().meta.name;
    auto known = model_.pods.find(uid);
    const bool joins = known == model_.pods.end() || known->second.gang != gang ||
                       known->second.pod_set != pod_set;
    capacity_->SetPod(uid, node, shape, gang, pod_set);
    if (joins && !gang.empty())
      model_.Bind(gang, pod_set, node);
    model_.pods[uid] = {node, shape, gang, pod_set};
  }

  void Reserve() {
    if (model_.promises.size() >= 3)
      return;
    const Gang gang = NewGang("ns/g" + std::to_string(++gangs_));
    const FitResult result = capacity_->Check(gang);
    if (result.kind != FitKind::kFits)
      return;
    ASSERT_EQ(model_.CheckPlacement(gang, result.placement), "");
    capacity_->Reserve(gang, result.placement);
    std::vector<ModelSlot>& slots = model_.promises[gang.id];
    for (const PlacementSlot& slot : result.placement) {
      for (int32_t i = 0; i < slot.count; ++i)
        slots.push_back({gang.pod_sets[slot.pod_set], slot.node});
    }
  }

  void BindOne() {
    for (const auto& [id, slots] : model_.promises) {
      if (slots.empty() || world_.Chance(3))
        continue;
      const ModelSlot slot =
          slots[static_cast<size_t>(world_.Pick(0, static_cast<int>(slots.size()) - 1))];
      SetPod("gang-pod" + std::to_string(++pods_), std::string(id), slot.set.name,
             world_.Chance(6) ? nullptr : slot.set.shape, world_.Chance(2) ? slot.node : "");
      return;
    }
  }

  bool ModelBroken(const std::vector<ModelSlot>& slots) const {
    const std::map<std::string, Load> loads = model_.Loads(Model::Basis::kNow);
    for (const ModelSlot& slot : slots) {
      auto node = model_.nodes.find(slot.node);
      if (node == model_.nodes.end() || !Model::Admits(node->second, slot.set))
        return true;
      Load others = loads.at(slot.node);  // without one of its own
      others.erase(std::find(others.begin(), others.end(), slot.set.shape.get()));
      if (!Model::FitsBeside(node->second, others, *slot.set.shape))
        return true;
    }
    return false;
  }

  void Compare(const Gang& gang, Tally& tally) {
    const FitKind without_reason = capacity_->Check(gang, Reason::kNone).kind;
    const FitResult result = capacity_->Check(gang);
    ASSERT_EQ(static_cast<int>(without_reason), static_cast<int>(result.kind));
    const bool now = model_.Truth(gang, Model::Basis::kNow);
    const bool empty = model_.Truth(gang, Model::Basis::kEmpty);
    ++tally.checks;
    const FitKind expected = now ? FitKind::kFits : empty ? FitKind::kNotNow : FitKind::kNever;
    ++(now ? tally.fits : empty ? tally.not_now : tally.never);
    ASSERT_EQ(static_cast<int>(result.kind), static_cast<int>(expected)) << result.message;
    ASSERT_EQ(result.message.empty(), now);
    if (now) {
      ASSERT_EQ(model_.CheckPlacement(gang, result.placement), "");
    } else {
      ASSERT_TRUE(result.placement.empty());
    }
  }

  void CompareLandings(const Gang& gang, Tally& tally) {
    const bool says =
        capacity_->Check(gang).kind == FitKind::kFits && capacity_->CheckFlights(gang).clear;
    size_t flying = 0;
    for (const auto& [id, slots] : model_.promises)
      flying += slots.size();
    if (flying > 5)
      return;
    const bool truth = model_.FitsAfterAnyLanding(gang);
    if (says) {
      ++tally.sure;
      ASSERT_TRUE(truth) << "an in-flight pod could land so that the gang doesn't fit";
    }
    if (truth && !says)
      ++tally.unsure;
  }

  World world_;
  int most_sets_;
  Model model_;
  std::unique_ptr<Capacity> capacity_ = MakeCapacity();
  std::vector<Gang> waiting_;
  int gangs_ = 0;
  int pods_ = 0;
};

TEST(CapacityTwinTest, UnlikePodsAgreeWithTryingEveryArrangement) {
  Tally tally;
  for (uint32_t seed = 1; seed <= 80; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Twin(seed, 4, 6, 3).Run(60, /*landings=*/false, tally);
    if (HasFatalFailure())
      return;
  }
  EXPECT_GT(tally.fits, tally.checks / 10);
  EXPECT_GT(tally.not_now, tally.checks / 50);
  EXPECT_GT(tally.never, tally.checks / 10);
  EXPECT_GT(tally.grew, 100);
}

TEST(CapacityTwinTest, LikePodsAgreeWithCountingOnLargerClusters) {
  Tally tally;
  for (uint32_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Twin(1000 + seed, 25, 20, 1).Run(120, /*landings=*/false, tally);
    if (HasFatalFailure())
      return;
  }
  EXPECT_GT(tally.fits, tally.checks / 10);
  EXPECT_GT(tally.not_now, tally.checks / 50);
  EXPECT_GT(tally.never, tally.checks / 10);
  EXPECT_GT(tally.grew, 50);
}

TEST(CapacityTwinTest, AGangThatFitsWhateverIsInFlightFitsAfterEveryLanding) {
  Tally tally;
  for (uint32_t seed = 1; seed <= 80; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Twin(2000 + seed, 4, 3, 2).Run(60, /*landings=*/true, tally);
    if (HasFatalFailure())
      return;
  }
  EXPECT_GT(tally.sure, 300);
  EXPECT_LT(tally.unsure, tally.sure);  // careful, but of use
}

}  // namespace
}  // namespace tutti::engine
