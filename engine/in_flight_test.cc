// SPDX-License-Identifier: Apache-2.0
// Gangs in flight against a scheduler that means harm: it puts pods on any node that admits them,
// in any order. Whatever was released must land.
#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/capacity_test_util.h"
#include "engine/engine.h"

namespace tutti::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kGpu = "nvidia.com/gpu";

// --- tables
// ----------------------------------------------------------------------------------------

class InFlightTest : public ::testing::Test {
 protected:
  void Node(const std::string& name, int64_t gpus, int64_t cpu = 64,
            const api::StringMap& labels = {}) {
    capacity_->SetNode(MakeNode(name, {{kGpu, gpus}, {"cpu", cpu}}, labels));
  }
  void Fly(const Gang& gang) {
    const FitResult fit = capacity_->Check(gang);
    ASSERT_EQ(fit.kind, FitKind::kFits) << fit.message;
    capacity_->Reserve(gang, fit.placement);
  }
  void Land(const std::string& node, const Gang& gang) {
    capacity_->SetPod("uid-" + std::to_string(++pods_), node, gang.pod_sets[0].shape, gang.id,
                      "main");
  }
  // "clear", or the gangs to wait for.
  std::vector<std::string> Waits(const Gang& gang) {
    const FlightResult result = capacity_->CheckFlights(gang);
    EXPECT_EQ(result.clear, result.waits_for.empty());
    return result.waits_for;
  }

  std::unique_ptr<Capacity> capacity_ = MakeCapacity();
  int pods_ = 0;
};

TEST_F(InFlightTest, PodsThatAreAlikeOnlyHaveToBeCounted) {
  Node("a", 4);
  Node("b", 4);
  Fly(MakeGang("ns/one", 3, {{kGpu, 1}}));
  Fly(MakeGang("ns/two", 3, {{kGpu, 1}}));
  EXPECT_THAT(Waits(MakeGang("ns/x", 2, {{kGpu, 1}})), IsEmpty());  // 3 + 3 + 2 = 8
}

TEST_F(InFlightTest, AGangThatWouldTakePlacesOfOneInFlightWaits) {
  Node("a", 4);
  Node("b", 4);
  const Gang whole = MakeGang("ns/whole", 1, {{kGpu, 4}});
  Fly(whole);
  // By plan it goes to the other node, and it lands wherever `whole` is: but if it is first there
  // is a node left for `whole` only as long as it takes no more than one.
  EXPECT_THAT(Waits(MakeGang("ns/x", 1, {{kGpu, 1}})), IsEmpty());
  EXPECT_THAT(Waits(MakeGang("ns/x", 2, {{kGpu, 1}})), ElementsAre("ns/whole"));
  Land("b", whole);
  EXPECT_THAT(Waits(MakeGang("ns/x", 4, {{kGpu, 1}})), IsEmpty());
}

TEST_F(InFlightTest, WhatIsLeftOverOnTheNodesTakesNoPlaces) {
  for (const char* name : {"a", "b", "c", "d"})
    Node(name, 8, 64);
  // Two of these leave 32 of 64 cpu on their nodes.
  const Gang gang = MakeGang("ns/x", 4, {{kGpu, 8}, {"cpu", 32}});
  Fly(MakeGang("ns/cpu", 32, {{"cpu", 1}}));
  EXPECT_THAT(Waits(gang), IsEmpty());  // all 32 on one node still leave room for it
  Fly(MakeGang("ns/more", 1, {{"cpu", 1}}));
  EXPECT_THAT(Waits(gang), ElementsAre("ns/cpu", "ns/more"));  // 33 take a node
  EXPECT_THAT(Waits(MakeGang("ns/x", 3, {{kGpu, 8}, {"cpu", 32}})), IsEmpty());
}

TEST_F(InFlightTest, GangsInOtherPoolsDoNotMatter) {
  Node("a", 4, 64, {{"pool", "x"}});
  Node("b", 4, 64, {{"pool", "y"}});
  Gang flying = MakeGang("ns/flying", 2, {{kGpu, 1}});
  flying.pod_sets[0].node_selector = {{"pool", "x"}};
  Fly(flying);
  Gang gang = MakeGang("ns/x", 1, {{kGpu, 4}});
  gang.pod_sets[0].node_selector = {{"pool", "y"}};
  EXPECT_THAT(Waits(gang), IsEmpty());
}

TEST_F(InFlightTest, AHostPortClosesANode) {
  Node("a", 8);
  Node("b", 8);
  auto shape = MakeShape({{kGpu, 1}});
  shape->host_ports.push_back({"", "TCP", 80});
  Fly(MakeGang("ns/flying", 1, shape));
  auto other = MakeShape({{kGpu, 2}});
  other->host_ports.push_back({"", "TCP", 80});
  EXPECT_THAT(Waits(MakeGang("ns/x", 1, other)), IsEmpty());
  EXPECT_EQ(capacity_->Check(MakeGang("ns/x", 2, other)).kind, FitKind::kNotNow);
  other->host_ports[0].port = 81;
  EXPECT_THAT(Waits(MakeGang("ns/x", 2, other)), IsEmpty());
}

TEST_F(InFlightTest, AGangThatCannotLandAnywayHoldsNobodyBack) {
  Node("a", 4);
  Node("b", 4);
  Fly(MakeGang("ns/whole", 2, {{kGpu, 4}}));
  capacity_->RemoveNode("b");
  Node("c", 2);
  EXPECT_THAT(Waits(MakeGang("ns/x", 2, {{kGpu, 1}})), IsEmpty());
}

TEST_F(InFlightTest, GangsOfSeveralKindsAreProtectedAndWait) {
  for (const char* name : {"a", "b", "c"})
    Node(name, 4);
  Gang mixed{
      "ns/mixed",
      {MakeSet("driver", 1, MakeShape({{kGpu, 1}})), MakeSet("worker", 2, MakeShape({{kGpu, 4}}))}};
  const Gang small = MakeGang("ns/small", 1, {{kGpu, 1}});
  Fly(mixed);
  EXPECT_THAT(Waits(small), ElementsAre("ns/mixed"));
  capacity_->Release("ns/mixed");
  Fly(small);
  EXPECT_EQ(capacity_->Check(mixed).kind, FitKind::kFits);
  EXPECT_THAT(Waits(mixed), ElementsAre("ns/small"));
  Land("c", small);
  EXPECT_THAT(Waits(mixed), IsEmpty());
}

TEST_F(InFlightTest, TheFlightVersionTellsWhenToAskAgain) {
  Node("a", 4);
  const Gang gang = MakeGang("ns/x", 2, {{kGpu, 1}});
  Fly(gang);
  uint64_t seen = capacity_->FlightVersion();
  Land("a", gang);
  EXPECT_GT(capacity_->FlightVersion(), seen);
  seen = capacity_->FlightVersion();
  capacity_->SetPod("foreign", "a", MakeShape({{kGpu, 1}}), "", "");
  EXPECT_EQ(capacity_->FlightVersion(), seen);
  capacity_->Release("ns/x");
  EXPECT_GT(capacity_->FlightVersion(), seen);
  seen = capacity_->FlightVersion();
  capacity_->RemovePod("foreign");
  EXPECT_EQ(capacity_->FlightVersion(), seen);
}

TEST_F(InFlightTest, AWaitingGangIsHinderedOnlyByWhatCouldTakeItsPlaces) {
  Node("a", 4, 64, {{"pool", "x"}});
  Node("b", 4, 64, {{"pool", "x"}});
  Node("c", 4, 64, {{"pool", "y"}});
  Gang waiting = MakeGang("ns/waiting", 1, {{kGpu, 4}});
  waiting.pod_sets[0].node_selector = {{"pool", "x"}};
  Gang one = MakeGang("ns/one", 1, {{kGpu, 1}});
  EXPECT_FALSE(capacity_->Hinders(one, waiting, {}));
  EXPECT_TRUE(capacity_->Hinders(one, waiting, {one}));
  Gang elsewhere = one;
  elsewhere.pod_sets[0].node_selector = {{"pool", "y"}};
  EXPECT_FALSE(capacity_->Hinders(elsewhere, waiting, {one, one}));
  waiting.pod_sets[0].count = 3;  // has no places anyway
  EXPECT_FALSE(capacity_->Hinders(one, waiting, {one, one}));
}

// --- the scheduler that means harm
// ---------------------------------------------------------------------

struct SimPod {
  std::string gang;
  std::shared_ptr<const api::PodShape> shape;
};

// Nodes, bound pods and pods to be bound; all gangs are of pods that are alike.
class HarmfulScheduler {
 public:
  enum class Way { kRandom, kSpread, kPack, kHarm };

  HarmfulScheduler(uint32_t seed, Capacity& capacity) : random_(seed), capacity_(capacity) {
    way_ = static_cast<Way>(seed % 4);
  }

  int Pick(int low, int high) {
    return low + static_cast<int>(random_() % static_cast<uint32_t>(high - low + 1));
  }

  void AddNode(const api::Node& node) {
    nodes_[node.meta.name] = node;
    capacity_.SetNode(node);
  }
  void Release(const Gang& gang) {
    for (int32_t i = 0; i < gang.pod_sets[0].count; ++i)
      flying_.push_back({gang.id, gang.pod_sets[0].shape});
  }
  [[nodiscard]] bool Idle() const { return flying_.empty(); }
  [[nodiscard]] bool Bound(const std::string& gang) const {
    return std::none_of(flying_.begin(), flying_.end(),
                        [&](const SimPod& pod) { return pod.gang == gang; });
  }

  // Binds one pod, any. False: no node admits it.
  bool BindOne() {
    const auto at = static_cast<size_t>(Pick(0, static_cast<int>(flying_.size()) - 1));
    const SimPod pod = flying_[at];
    flying_.erase(flying_.begin() + static_cast<std::ptrdiff_t>(at));
    std::vector<std::string> possible;
    for (const auto& [name, node] : nodes_) {
      if (Admits(name, *pod.shape))
        possible.push_back(name);
    }
    if (possible.empty()) {
      lost_.insert(pod.gang);
      return false;
    }
    Bind(pod, Choose(pod, possible));
    return true;
  }
  void Finish(const std::string& gang) {
    for (auto it = bound_.begin(); it != bound_.end();) {
      if (it->second.first.gang == gang) {
        capacity_.RemovePod(it->first);
        it = bound_.erase(it);
      } else {
        ++it;
      }
    }
  }
  [[nodiscard]] const std::set<std::string>& lost() const { return lost_; }

 private:
  [[nodiscard]] int64_t Free(const std::string& node, const std::string& resource) const {
    const api::Node& known = nodes_.at(node);
    auto allocatable = known.allocatable.find(resource);
    int64_t free = allocatable == known.allocatable.end() ? 0 : allocatable->second;
    for (const auto& [uid, pod] : bound_) {
      auto request = pod.first.shape->requests.find(resource);
      if (pod.second == node && request != pod.first.shape->requests.end())
        free -= request->second;
    }
    return free;
  }
  [[nodiscard]] int64_t Places(const std::string& node, const api::PodShape& shape) const {
    for (const auto& [key, value] : shape.node_selector) {
      if (nodes_.at(node).meta.Label(key) != value)
        return 0;
    }
    int64_t places = 1000;
    for (const auto& [resource, amount] : shape.requests) {
      if (amount > 0)
        places = std::min(places, Free(node, resource) / amount);
    }
    return places;
  }
  [[nodiscard]] bool Admits(const std::string& node, const api::PodShape& shape) const {
    return Places(node, shape) > 0;
  }
  void Bind(const SimPod& pod, const std::string& node) {
    const std::string uid = "uid-" + std::to_string(++pods_);
    bound_[uid] = {pod, node};
    capacity_.SetPod(uid, node, pod.shape, pod.gang, "main");
  }
  // The places that the pods in flight have between them, fewest first.
  [[nodiscard]] int64_t Comfort() const {
    int64_t least = 1000000;
    for (const SimPod& pod : flying_) {
      int64_t places = 0;
      for (const auto& [name, node] : nodes_)
        places += Places(name, *pod.shape);
      least = std::min(least, places);
    }
    return least;
  }
  std::string Choose(const SimPod& pod, const std::vector<std::string>& possible) {
    if (way_ == Way::kRandom)
      return possible[static_cast<size_t>(Pick(0, static_cast<int>(possible.size()) - 1))];
    std::string best;
    int64_t best_score = 0;
    for (const std::string& node : possible) {
      int64_t score = Free(node, kGpu);
      if (way_ == Way::kPack)
        score = -score;
      if (way_ == Way::kHarm) {
        bound_["try"] = {pod, node};
        score = -Comfort();
        bound_.erase("try");
      }
      if (best.empty() || score > best_score) {
        best = node;
        best_score = score;
      }
    }
    return best;
  }

  std::mt19937 random_;
  Capacity& capacity_;
  Way way_;
  std::map<std::string, api::Node> nodes_;
  std::map<std::string, std::pair<SimPod, std::string>> bound_;
  std::vector<SimPod> flying_;
  std::set<std::string> lost_;
  int pods_ = 0;
};

std::shared_ptr<const api::PodShape> RandomShape(HarmfulScheduler& world) {
  auto shape = MakeShape({{"cpu", world.Pick(1, 6)}});
  const int gpus = std::vector<int>{0, 1, 1, 2, 4}[static_cast<size_t>(world.Pick(0, 4))];
  if (gpus > 0)
    shape->requests[kGpu] = gpus;
  if (world.Pick(1, 3) == 1)
    shape->node_selector["pool"] = world.Pick(1, 2) == 1 ? "x" : "y";
  return shape;
}

void RandomNodes(HarmfulScheduler& world) {
  const int nodes = world.Pick(3, 7);
  for (int n = 0; n < nodes; ++n) {
    world.AddNode(MakeNode("n" + std::to_string(n),
                           {{kGpu, world.Pick(1, 2) * 4}, {"cpu", world.Pick(8, 24)}},
                           {{"pool", world.Pick(1, 2) == 1 ? "x" : "y"}}));
  }
}

struct Score {
  int released = 0;
  int lost = 0;
  int waited = 0;  // had a place and was not released
};

// Gangs come at random and are released as soon as `careful` or a plan alone allows it.
Score Simulate(uint32_t seed, bool careful) {
  const std::unique_ptr<Capacity> capacity = MakeCapacity();
  HarmfulScheduler world(seed, *capacity);
  RandomNodes(world);
  Score score;
  std::vector<std::string> running;
  for (int step = 0; step < 120; ++step) {
    const Gang gang = MakeGang("ns/g" + std::to_string(step), world.Pick(1, 5), RandomShape(world));
    const FitResult fit = capacity->Check(gang);
    if (fit.kind == FitKind::kFits) {
      if (careful && !capacity->CheckFlights(gang).clear) {
        ++score.waited;
      } else {
        capacity->Reserve(gang, fit.placement);
        world.Release(gang);
        running.push_back(gang.id);
        ++score.released;
      }
    }
    for (int bind = world.Pick(0, 3); bind > 0 && !world.Idle(); --bind)
      world.BindOne();
    if (!running.empty() && world.Pick(1, 2) == 1) {
      const auto at = static_cast<size_t>(world.Pick(0, static_cast<int>(running.size()) - 1));
      if (world.Bound(running[at])) {
        world.Finish(running[at]);
        capacity->Release(running[at]);
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
  }
  while (!world.Idle())
    world.BindOne();
  EXPECT_EQ(capacity->SanityCheck(), "");
  score.lost = static_cast<int>(world.lost().size());
  return score;
}

TEST(HarmfulSchedulerTest, PlansAloneTearGangsAndTheFlightCheckTearsNone) {
  Score plain;
  Score careful;
  const auto add = [](Score& sum, const Score& more) {
    sum.released += more.released;
    sum.lost += more.lost;
    sum.waited += more.waited;
  };
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    add(plain, Simulate(seed, /*careful=*/false));
    const Score score = Simulate(seed, /*careful=*/true);
    ASSERT_EQ(score.lost, 0) << "seed " << seed;
    add(careful, score);
  }
  RecordProperty("released by plan", plain.released);
  RecordProperty("of these torn", plain.lost);
  RecordProperty("released with the check", careful.released);
  RecordProperty("waited", careful.waited);
  std::printf(
      "by plan alone: %d released, %d torn; with the check: %d released, 0 torn, %d waits\n",
      plain.released, plain.lost, careful.released, careful.waited);
  EXPECT_GT(plain.lost, plain.released / 50);
  EXPECT_GT(careful.released, plain.released * 3 / 4);
}

// --- the engine
// ----------------------------------------------------------------------------------------

class EngineFlightTest : public ::testing::Test {
 protected:
  EngineFlightTest() { Start(*engine_); }

  static void Start(Engine& engine) {
    api::ResourceFlavor flavor;
    flavor.meta.name = "default";
    engine.SetFlavor(flavor);
    engine.SetFlavorCapacityMode("default", CapacityMode::kRequire);
    api::ClusterQueue queue;
    queue.meta.name = "q";
    queue.namespace_selector.present = true;
    api::ResourceQuota quota;
    quota.name = kGpu;
    quota.nominal = api::FromAmount(kGpu, 1000000);
    api::ResourceQuota cpu;
    cpu.name = "cpu";
    cpu.nominal = api::FromAmount("cpu", 1000000000);
    queue.groups.push_back({{kGpu, "cpu"}, {{"default", {quota, cpu}}}});
    engine.SetClusterQueue(queue);
    api::LocalQueue local;
    local.meta.ns = "ns";
    local.meta.name = "q";
    local.cluster_queue = "q";
    engine.SetLocalQueue(local);
  }
  static WorkloadInput Input(const std::string& name, int number, int32_t pods,
                             std::shared_ptr<const api::PodShape> shape, int64_t priority = 0) {
    WorkloadInput input;
    input.id = "ns/" + name;
    input.uid = name;
    input.ns = "ns";
    input.local_queue = "q";
    input.priority = priority;
    input.queue_time = kNoTime + std::chrono::seconds(number);
    PodSetInput pod_set;
    pod_set.name = "main";
    pod_set.count = pods;
    pod_set.requests = shape->requests;
    pod_set.shape = std::move(shape);
    input.pod_sets.push_back(std::move(pod_set));
    return input;
  }
  void Node(const std::string& name, int64_t gpus) {
    engine_->capacity().SetNode(MakeNode(name, {{kGpu, gpus}, {"cpu", 100}}));
  }
  void Submit(const std::string& name, int32_t pods, int64_t gpus, int64_t priority = 0) {
    engine_->SetPending(Input(name, ++number_, pods, MakeShape({{kGpu, gpus}}), priority));
  }
  std::vector<std::string> Pass() {
    std::vector<std::string> names;
    for (const AdmitDecision& decision : engine_->RunPass(kNoTime).admitted)
      names.push_back(decision.id.substr(3));
    EXPECT_EQ(engine_->SanityCheck(), "");
    EXPECT_FALSE(engine_->NeedsPass());
    return names;
  }
  void Land(const std::string& name, int64_t gpus, const std::string& node) {
    engine_->capacity().SetPod("uid-" + std::to_string(++pods_), node, MakeShape({{kGpu, gpus}}),
                               "ns/" + name, "main");
  }
  PendingDecision Why(const std::string& name) {
    return engine_->WhyPending("ns/" + name).value_or(PendingDecision{});
  }

  std::unique_ptr<Engine> engine_ = MakeEngine();
  int number_ = 0;
  int pods_ = 0;
};

TEST_F(EngineFlightTest, AGangThatCompetesWithOneInFlightWaitsForItAndIsWoken) {
  Node("a", 4);
  Node("b", 4);
  Submit("small", 2, 1);
  Submit("whole", 1, 4);
  EXPECT_THAT(Pass(), ElementsAre("small"));
  EXPECT_EQ(Why("whole").reason, PendingReason::kWaitingForCapacity);
  EXPECT_THAT(Why("whole").message,
              HasSubstr("a place for the whole gang in flavor default is free, but waits until "
                        "ns/small (just released) has all nodes"));
  Land("small", 1, "a");
  EXPECT_TRUE(engine_->NeedsPass());
  EXPECT_THAT(Pass(), IsEmpty());  // the other one may still go to b
  Land("small", 1, "a");
  EXPECT_TRUE(engine_->NeedsPass());
  EXPECT_THAT(Pass(), ElementsAre("whole"));
}

TEST_F(EngineFlightTest, OnePodJobsOnAHalfEmptyClusterDoNotWait) {
  for (int n = 0; n < 10; ++n)
    Node("n" + std::to_string(n), 8);
  std::vector<std::string> all;
  for (int n = 0; n < 80; ++n) {
    Submit("one-" + std::to_string(100 + n), 1, 1);
    all.push_back("one-" + std::to_string(100 + n));
  }
  EXPECT_EQ(Pass(), all);
}

TEST_F(EngineFlightTest, NobodyWaitsForAGangThatIsBoundToItsNode) {
  Node("a", 4);
  Node("b", 4);
  engine_->SetPinning(true);
  Submit("small", 2, 1);
  Submit("whole", 1, 4);
  const PassResult result = engine_->RunPass(kNoTime);
  ASSERT_EQ(result.admitted.size(), 2U);
  EXPECT_EQ(result.admitted[0].pinned_node, "a");
  EXPECT_EQ(result.admitted[1].pinned_node, "b");
  // A gang on two nodes is not bound to any.
  engine_->Remove("ns/small");
  engine_->Remove("ns/whole");
  Submit("wide", 2, 3);
  EXPECT_EQ(engine_->RunPass(kNoTime).admitted.at(0).pinned_node, "");
}

TEST_F(EngineFlightTest, TheReleaseOfAGangThatIsTakenBackWakesThoseWhoWaitForIt) {
  Node("a", 4);
  Node("b", 4);
  Submit("small", 2, 1);
  Submit("whole", 1, 4);
  EXPECT_THAT(Pass(), ElementsAre("small"));
  engine_->Remove("ns/small");
  EXPECT_THAT(Pass(), ElementsAre("whole"));
}

TEST_F(EngineFlightTest, AGangLeftWithoutHopeByALostNodeHoldsNobodyBack) {
  Node("a", 4);
  Node("b", 4);
  Node("c", 2);
  Submit("whole", 2, 4);
  Submit("pair", 2, 1);
  EXPECT_THAT(Pass(), ElementsAre("whole"));
  engine_->capacity().RemoveNode("b");
  EXPECT_TRUE(engine_->NeedsPass());
  EXPECT_THAT(Pass(), ElementsAre("pair"));
}

TEST_F(EngineFlightTest, AStreamOfSmallJobsDoesNotKeepAGangWaiting) {
  for (const char* name : {"a", "b", "c", "d"})
    Node(name, 4);
  Submit("first", 2, 1);
  Submit("gang", 3, 4);
  EXPECT_THAT(Pass(), ElementsAre("first"));
  // Smaller ones keep coming; each would put off the gang for another while.
  Submit("s1", 1, 1);
  EXPECT_THAT(Pass(), IsEmpty());
  EXPECT_THAT(Why("s1").message, HasSubstr("waits behind ns/gang"));
  Submit("s2", 1, 1);
  EXPECT_THAT(Pass(), IsEmpty());
  Submit("urgent", 1, 1, /*priority=*/1);
  EXPECT_THAT(Pass(), ElementsAre("urgent"));
  for (const char* name : {"first", "first", "urgent"})
    Land(name, 1, "d");
  // The gang goes, and the last place is for one of the others as soon as the gang has its nodes.
  EXPECT_EQ(Pass().front(), "gang");
  for (const char* node : {"a", "b", "c"})
    Land("gang", 4, node);
  Pass();
  EXPECT_EQ(engine_->Report("q").pending, 1);
}

TEST_F(EngineFlightTest, AWaiterThatGoesAwayLetsTheOthersPass) {
  for (const char* name : {"a", "b", "c", "d"})
    Node(name, 4);
  Submit("first", 2, 1);
  Submit("gang", 3, 4);
  Pass();
  Submit("s1", 1, 1);
  EXPECT_THAT(Pass(), IsEmpty());
  engine_->Remove("ns/gang");
  EXPECT_TRUE(engine_->NeedsPass());
  EXPECT_THAT(Pass(), ElementsAre("s1"));
}

// Random jobs, a scheduler that means harm, nodes that only come: whatever is released lands, and
// when no more jobs come, all of them have run.
TEST_F(EngineFlightTest, WhateverIsReleasedLandsAndEverybodyGetsATurn) {
  for (uint32_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const std::unique_ptr<Engine> engine = MakeEngine();
    Start(*engine);
    HarmfulScheduler world(seed, engine->capacity());
    RandomNodes(world);
    std::map<std::string, Gang> gangs;
    std::vector<std::string> running;
    size_t submitted = 0;
    size_t finished = 0;
    for (int step = 0; step < 1500; ++step) {
      if (step < 60) {
        auto shape = RandomShape(world);
        const Gang gang = MakeGang("ns/w" + std::to_string(step), world.Pick(1, 4), shape);
        if (engine->capacity().Check(gang).kind != FitKind::kNever) {
          engine->SetPending(Input("w" + std::to_string(step), world.Pick(0, 30),
                                   gang.pod_sets[0].count, shape, world.Pick(0, 1)));
          gangs[gang.id] = gang;
          ++submitted;
        }
      }
      if (engine->NeedsPass()) {
        for (const AdmitDecision& decision : engine->RunPass(kNoTime).admitted) {
          ASSERT_TRUE(decision.placed);
          world.Release(gangs.at(decision.id));
          running.push_back(decision.id);
        }
        ASSERT_EQ(engine->SanityCheck(), "");
      }
      for (int bind = world.Pick(0, 3); bind > 0 && !world.Idle(); --bind)
        ASSERT_TRUE(world.BindOne()) << "a pod of " << *world.lost().begin() << " has no node";
      if (!running.empty() && world.Pick(1, 3) == 1) {
        const auto at = static_cast<size_t>(world.Pick(0, static_cast<int>(running.size()) - 1));
        if (world.Bound(running[at])) {
          world.Finish(running[at]);
          engine->Remove(running[at]);
          running.erase(running.begin() + static_cast<std::ptrdiff_t>(at));
          ++finished;
        }
      }
    }
    ASSERT_EQ(finished, submitted);
  }
}

}  // namespace
}  // namespace tutti::engine
