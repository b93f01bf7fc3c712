// SPDX-License-Identifier: Apache-2.0
// Gangs with devices in flight, against a scheduler that means harm: any node that admits a pod,
// any devices that its claims select, in any order, and the news of it in any order, late. Whatever
// was released must land. (Without devices: in_flight_test.cc.)
#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/capacity_test_util.h"
#include "engine/device_test_util.h"
#include "engine/engine.h"

namespace tutti::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// --- tables
// ----------------------------------------------------------------------------------------

std::string SizeIsText(const std::string& size) {
  return "device.attributes[\"gpu.example.com\"].size == \"" + size + "\"";
}

// The templates of all tests: how many devices, of which size ("" = any), of the same root.
struct Ask {
  int count = 1;
  std::string size;
  bool matched = false;
};
const std::map<std::string, Ask>& Asks() {
  static const std::map<std::string, Ask> kAsks = {
      {"any-1", {1, "", false}},        {"any-2", {2, "", false}},
      {"any-4", {4, "", false}},        {"small-1", {1, "small", false}},
      {"small-2", {2, "small", false}}, {"large-1", {1, "large", false}},
      {"matched-2", {2, "", true}}};
  return kAsks;
}

api::ResourceClaimTemplate TemplateOf(const std::string& name) {
  const Ask& ask = Asks().at(name);
  api::ResourceClaimTemplate made;
  made.meta.ns = "ns";
  made.meta.name = name;
  std::vector<std::string> selectors;
  if (!ask.size.empty())
    selectors.push_back(SizeIsText(ask.size));
  made.spec = MakeClaim({Exact("gpu", ask.count, "gpu", selectors)});
  if (ask.matched)
    made.spec.constraints.push_back({{}, "gpu.example.com/root", ""});
  return made;
}

void SetUpDevices(Capacity& capacity) {
  capacity.SetDevicesKnown(true);
  capacity.SetDeviceClass(MakeClass("gpu", {"device.driver == \"gpu.example.com\""}));
  for (const auto& [name, ask] : Asks())
    capacity.SetResourceClaimTemplate(TemplateOf(name));
}

std::shared_ptr<api::PodShape> PodWith(const std::vector<std::string>& templates, int64_t cpu = 1) {
  auto shape = MakeShape({{"cpu", cpu}});
  for (const std::string& name : templates)
    shape->claims.push_back({name, "", name});
  return shape;
}

api::ResourceSlice SliceOf(const std::string& node, int small, int large) {
  std::vector<api::Device> devices;
  for (int d = 0; d < small + large; ++d) {
    devices.push_back(MakeDevice(std::to_string(d), {{"size", d < small ? "small" : "large"},
                                                     {"root", std::to_string(d % 2)}}));
  }
  return MakeSlice(node, node, std::move(devices));
}

// A claim of a pod, with these devices of the node ("" = not allocated).
api::ResourceClaim ClaimOf(const std::string& name, const std::string& pod_claim,
                           const std::string& uid, const std::string& node,
                           const std::vector<std::string>& devices) {
  api::ResourceClaim claim;
  claim.meta.ns = "ns";
  claim.meta.name = name;
  claim.meta.annotations[std::string(api::kPodClaimNameAnnotation)] = pod_claim;
  claim.spec = TemplateOf(pod_claim).spec;
  if (node.empty())
    return claim;
  claim.allocation.emplace();
  for (const std::string& device : devices) {
    api::DeviceResult result;
    result.request = "gpu";
    result.driver = kDriver;
    result.pool = node;
    result.device = device;
    claim.allocation->results.push_back(std::move(result));
  }
  api::NodeSelectorTerm term;
  term.fields.push_back({"metadata.name", "In", {node}});
  claim.allocation->node_selector = api::NodeSelector{{term}};
  claim.reserved_for.push_back({"", "pods", "pod-" + uid, uid});
  return claim;
}

class DeviceFlightTest : public ::testing::Test {
 protected:
  void SetUp() override { SetUpDevices(*capacity_); }
  void TearDown() override { EXPECT_EQ(capacity_->SanityCheck(), ""); }

  void Node(const std::string& name, int small, int large = 0, int64_t cpu = 64,
            api::StringMap labels = {}) {
    capacity_->SetNode(MakeNode(name, {{"cpu", cpu}}, std::move(labels)));
    capacity_->SetResourceSlice(Shared(SliceOf(name, small, large)));
  }
  static Gang Pods(const std::string& id, int32_t count, const std::vector<std::string>& templates,
                   api::StringMap selector = {}) {
    auto shape = PodWith(templates);
    shape->node_selector = std::move(selector);
    return MakeGang("ns/" + id, count, shape);
  }
  void Fly(const Gang& gang) {
    const FitResult fit = capacity_->Check(gang);
    ASSERT_EQ(fit.kind, FitKind::kFits) << fit.message;
    capacity_->Reserve(gang, fit.placement);
  }
  std::vector<std::string> Waits(const Gang& gang) {
    const FlightResult result = capacity_->CheckFlights(gang);
    EXPECT_EQ(result.clear, result.waits_for.empty());
    return result.waits_for;
  }

  std::unique_ptr<Capacity> capacity_ = MakeCapacity();
};

TEST_F(DeviceFlightTest, DevicesThatAreAsGoodAsEachOtherAreCounted) {
  Node("a", 4);
  Node("b", 4);
  Fly(Pods("one", 3, {"any-1"}));
  EXPECT_THAT(Waits(Pods("x", 5, {"any-1"})), IsEmpty());
  // Three single devices may break both nodes, but wherever they are two pairs are left.
  EXPECT_THAT(Waits(Pods("x", 1, {"any-4"})), ElementsAre("ns/one"));
  EXPECT_THAT(Waits(Pods("x", 2, {"any-2"})), IsEmpty());
  Fly(Pods("two", 1, {"any-1"}));
  EXPECT_THAT(Waits(Pods("x", 2, {"any-2"})), ElementsAre("ns/one", "ns/two"));
}

TEST_F(DeviceFlightTest, PodsWithoutDevicesAndThoseWithThemMindOnlyTheAmounts) {
  Node("a", 4, 0, /*cpu=*/8);
  Node("b", 4, 0, /*cpu=*/8);
  Fly(Pods("gpus", 8, {"any-1"}));
  EXPECT_THAT(Waits(MakeGang("ns/x", 4, {{"cpu", 1}})), IsEmpty());
  EXPECT_THAT(Waits(MakeGang("ns/x", 5, {{"cpu", 1}})), ElementsAre("ns/gpus"))
      << "five on one node leave three cpus there for four devices";
}

TEST_F(DeviceFlightTest, WhatSelectsOtherDevicesTakesNone) {
  Node("a", 4, 4);
  Fly(Pods("small", 4, {"small-1"}));
  EXPECT_THAT(Waits(Pods("x", 4, {"large-1"})), IsEmpty());
  // Any four may be the four small ones.
  EXPECT_THAT(Waits(Pods("x", 4, {"any-1"})), ElementsAre("ns/small"));
  Node("b", 4, 0);
  EXPECT_THAT(Waits(Pods("x", 4, {"any-1"})), IsEmpty());
}

TEST_F(DeviceFlightTest, WhatCannotBeCountedIsReleasedAlone) {
  Node("a", 8, 0, 64, {{"pool", "x"}});
  Node("b", 8, 0, 64, {{"pool", "y"}});
  Fly(Pods("matched", 1, {"matched-2"}, {{"pool", "x"}}));
  EXPECT_THAT(Waits(Pods("x", 1, {"any-1"})), ElementsAre("ns/matched"));
  EXPECT_THAT(Waits(MakeGang("ns/x", 1, {{"cpu", 1}})), ElementsAre("ns/matched"));
  EXPECT_THAT(Waits(Pods("x", 1, {"any-1"}, {{"pool", "y"}})), IsEmpty());
  EXPECT_THAT(Waits(Pods("x", 1, {"matched-2"}, {{"pool", "y"}})), IsEmpty());
  // Two claims that may, but need not, get the same devices.
  EXPECT_THAT(Waits(Pods("x", 1, {"any-1", "small-1"}, {{"pool", "x"}})),
              ElementsAre("ns/matched"));
  capacity_->Release("ns/matched");
  Fly(Pods("plain", 1, {"any-1"}));
  EXPECT_THAT(Waits(Pods("x", 1, {"matched-2"}, {{"pool", "y"}})), ElementsAre("ns/plain"));
}

TEST_F(DeviceFlightTest, DevicesOfTheWholeClusterCannotBeCountedByNode) {
  Node("a", 0);
  Node("b", 0);
  api::ResourceSlice wide = SliceOf("fabric", 4, 0);
  wide.node_name.clear();
  wide.all_nodes = true;
  capacity_->SetResourceSlice(Shared(wide));
  Fly(Pods("one", 1, {"any-1"}));
  EXPECT_THAT(Waits(Pods("x", 1, {"any-1"})), ElementsAre("ns/one"));
  EXPECT_THAT(Waits(Pods("x", 1, {"any-1"}, {{"kubernetes.io/hostname", "a"}})),
              ElementsAre("ns/one"));
}

TEST_F(DeviceFlightTest, EqualTemplateNamesOfTwoNamespacesAreNotMixedUp) {
  api::ResourceClaimTemplate other = TemplateOf("any-4");
  other.meta.ns = "other";
  other.meta.name = "any-1";
  capacity_->SetResourceClaimTemplate(other);
  Node("a", 4);
  Node("b", 4);
  Fly(Pods("one", 2, {"any-1"}));
  Gang gang = Pods("x", 1, {"any-1"});
  gang.id = "other/x";
  EXPECT_THAT(Waits(gang), ElementsAre("ns/one")) << "it needs a whole node";
}

// The pod is known as bound before its claim is known as allocated, or the other way round.
TEST_F(DeviceFlightTest, UntilItIsKnownWhichDevicesAPodHasNothingIsSaid) {
  Node("a", 4);
  Node("b", 4);
  const Gang two = Pods("two", 2, {"any-2"});
  Fly(two);
  const Gang next = Pods("x", 2, {"any-1"});
  EXPECT_THAT(Waits(next), IsEmpty());
  capacity_->SetPod("u1", "a", two.pod_sets[0].shape, two.id, "main");
  EXPECT_THAT(Waits(next), ElementsAre("ns/two"));
  uint64_t seen = capacity_->FlightVersion();
  capacity_->SetResourceClaim(ClaimOf("c1", "any-2", "u1", "a", {"0", "1"}), "ns/two", "main");
  EXPECT_GT(capacity_->FlightVersion(), seen);
  EXPECT_THAT(Waits(next), IsEmpty());
  // Of the other one the claim comes first: it is counted as a pod that may go anywhere.
  capacity_->SetResourceClaim(ClaimOf("c2", "any-2", "u2", "b", {"0", "1"}), "ns/two", "main");
  EXPECT_THAT(Waits(next), IsEmpty());
  EXPECT_THAT(Waits(Pods("x", 1, {"any-4"})), ElementsAre("ns/two"));
  seen = capacity_->FlightVersion();
  capacity_->SetPod("u2", "b", two.pod_sets[0].shape, two.id, "main");
  EXPECT_GT(capacity_->FlightVersion(), seen);
  EXPECT_THAT(Waits(next), IsEmpty());
}

TEST_F(DeviceFlightTest, AClaimThatIsKnownDoesNotStandForThatOfAnotherPod) {
  Node("a", 4);
  Node("b", 4);
  const Gang two = Pods("two", 2, {"any-2"});
  Fly(two);
  const Gang next = Pods("x", 2, {"any-1"});
  capacity_->SetResourceClaim(ClaimOf("c2", "any-2", "u2", "b", {"0", "1"}), "ns/two", "main");
  EXPECT_THAT(Waits(next), IsEmpty());
  capacity_->SetPod("u1", "a", two.pod_sets[0].shape, two.id, "main");
  EXPECT_THAT(Waits(next), ElementsAre("ns/two"));
  capacity_->SetResourceClaim(ClaimOf("c1", "any-2", "u1", "a", {"0", "1"}), "ns/two", "main");
  EXPECT_THAT(Waits(next), IsEmpty());
}

// --- the scheduler that means harm
// ---------------------------------------------------------------------

class HarmfulAllocator {
 public:
  enum class Way { kRandom, kSpread, kPack, kHarm };

  HarmfulAllocator(uint32_t seed, Capacity& capacity)
      : random_(seed), capacity_(capacity), way_(static_cast<Way>(seed % 4)) {
    SetUpDevices(capacity);
    const int nodes = Pick(2, 5);
    for (int n = 0; n < nodes; ++n) {
      const std::string name = "n" + std::to_string(n);
      SimNode& node = nodes_[name];
      node.cpu = Pick(6, 20);
      node.pool = Pick(1, 2) == 1 ? "x" : "y";
      const int small = Pick(0, 2) * 2;
      const int large = Pick(0, 2) * 2;
      for (int d = 0; d < small + large; ++d)
        node.devices.push_back({d < small ? "small" : "large", d % 2, false});
      capacity.SetNode(MakeNode(name, {{"cpu", node.cpu}}, {{"pool", node.pool}}));
      capacity.SetResourceSlice(Shared(SliceOf(name, small, large)));
    }
  }

  int Pick(int low, int high) {
    return low + static_cast<int>(random_() % static_cast<uint32_t>(high - low + 1));
  }

  std::shared_ptr<const api::PodShape> RandomShape() {
    static const std::vector<std::vector<std::string>> kClaims = {{},
                                                                  {"any-1"},
                                                                  {"any-1"},
                                                                  {"any-2"},
                                                                  {"any-4"},
                                                                  {"small-1"},
                                                                  {"small-2"},
                                                                  {"large-1"},
                                                                  {"matched-2"},
                                                                  {"small-1", "large-1"},
                                                                  {"any-1", "small-1"}};
    auto shape = PodWith(kClaims[static_cast<size_t>(Pick(0, 10))], Pick(1, 4));
    if (Pick(1, 3) == 1)
      shape->node_selector["pool"] = Pick(1, 2) == 1 ? "x" : "y";
    return shape;
  }

  void Release(const Gang& gang) {
    for (int32_t i = 0; i < gang.pod_sets[0].count; ++i) {
      const SimPod pod{"u" + std::to_string(++pods_), gang.id, gang.pod_sets[0].shape, "", {}};
      for (const api::PodClaim& claim : pod.shape->claims)
        capacity_.SetResourceClaim(ClaimOf(pod.uid + "-" + claim.name, claim.name, "", "", {}),
                                   gang.id, "main");
      flying_.push_back(pod);
    }
  }
  [[nodiscard]] bool Idle() const { return flying_.empty() && news_.empty(); }
  // All its pods, and everybody knows.
  [[nodiscard]] bool Bound(const std::string& gang) const {
    const auto of_gang = [&](const SimPod& pod) { return pod.gang == gang; };
    return std::none_of(flying_.begin(), flying_.end(), of_gang) &&
           std::none_of(news_.begin(), news_.end(),
                        [&](const News& news) { return of_gang(news.pod); });
  }

  // Binds a pod or lets a piece of news through. False: no node admits the pod.
  bool Step() {
    if (!news_.empty() && (flying_.empty() || Pick(1, 2) == 1)) {
      const auto at = news_.begin() + Pick(0, static_cast<int>(news_.size()) - 1);
      Tell(*at);
      news_.erase(at);
      return true;
    }
    if (flying_.empty())
      return true;
    const auto at = flying_.begin() + Pick(0, static_cast<int>(flying_.size()) - 1);
    SimPod pod = *at;
    flying_.erase(at);
    std::vector<std::string> possible;
    for (const auto& [name, node] : nodes_) {
      if (Choices(node, *pod.shape))
        possible.push_back(name);
    }
    if (possible.empty()) {
      lost_.insert(pod.gang);
      return false;
    }
    pod.node = Choose(pod, possible);
    Take(pod);
    bound_[pod.uid] = pod;
    news_.push_back({pod, -1});
    for (size_t c = 0; c < pod.shape->claims.size(); ++c)
      news_.push_back({pod, static_cast<int>(c)});
    return true;
  }
  void Finish(const std::string& gang) {
    for (auto it = bound_.begin(); it != bound_.end();) {
      if (it->second.gang != gang) {
        ++it;
        continue;
      }
      Give(it->second);
      for (const api::PodClaim& claim : it->second.shape->claims)
        capacity_.RemoveResourceClaim({"ns", it->first + "-" + claim.name});
      capacity_.RemovePod(it->first);
      it = bound_.erase(it);
    }
  }
  [[nodiscard]] const std::set<std::string>& lost() const { return lost_; }

 private:
  struct SimDevice {
    std::string size;
    int root = 0;
    bool taken = false;
  };
  struct SimNode {
    int64_t cpu = 0;
    std::string pool;
    std::vector<SimDevice> devices;
  };
  struct SimPod {
    std::string uid, gang;
    std::shared_ptr<const api::PodShape> shape;
    std::string node;
    std::vector<std::vector<size_t>> devices;  // by claim
  };
  struct News {
    SimPod pod;
    int claim = -1;  // -1: that it is bound
  };

  void Tell(const News& news) {
    const SimPod& pod = news.pod;
    if (news.claim < 0) {
      capacity_.SetPod(pod.uid, pod.node, pod.shape, pod.gang, "main");
      return;
    }
    const std::string& name = pod.shape->claims[static_cast<size_t>(news.claim)].name;
    std::vector<std::string> devices;
    for (const size_t device : pod.devices[static_cast<size_t>(news.claim)])
      devices.push_back(std::to_string(device));
    capacity_.SetResourceClaim(ClaimOf(pod.uid + "-" + name, name, pod.uid, pod.node, devices),
                               pod.gang, "main");
  }

  // Devices for the claims from this one on, tried in the order of `order`.
  static bool Assign(std::vector<SimDevice>& devices, const std::vector<size_t>& order,
                     const std::vector<api::PodClaim>& claims,
                     std::vector<std::vector<size_t>>& chosen) {
    if (claims.empty())
      return true;
    if (chosen.empty())
      chosen.emplace_back();
    const size_t claim = chosen.size() - 1;
    const Ask& ask = Asks().at(claims[claim].name);
    if (chosen[claim].size() == static_cast<size_t>(ask.count)) {
      if (chosen.size() == claims.size())
        return true;
      chosen.emplace_back();
      if (Assign(devices, order, claims, chosen))
        return true;
      chosen.pop_back();
      return false;
    }
    for (const size_t d : order) {
      SimDevice& device = devices[d];
      if (device.taken || (!ask.size.empty() && ask.size != device.size) ||
          (ask.matched && !chosen[claim].empty() &&
           devices[chosen[claim].front()].root != device.root))
        continue;
      device.taken = true;
      chosen[claim].push_back(d);
      if (Assign(devices, order, claims, chosen))
        return true;
      chosen[claim].pop_back();
      device.taken = false;
    }
    return false;
  }
  bool Choices(const SimNode& node, const api::PodShape& shape) const {
    const auto pool = shape.node_selector.find("pool");
    if (pool != shape.node_selector.end() && pool->second != node.pool)
      return false;
    if (shape.requests.at("cpu") > node.cpu)
      return false;
    std::vector<SimDevice> devices = node.devices;
    std::vector<size_t> order(devices.size());
    for (size_t d = 0; d < order.size(); ++d)
      order[d] = d;
    std::vector<std::vector<size_t>> chosen;
    return Assign(devices, order, shape.claims, chosen);
  }
  void Take(SimPod& pod) {
    SimNode& node = nodes_.at(pod.node);
    node.cpu -= pod.shape->requests.at("cpu");
    std::vector<size_t> order(node.devices.size());
    for (size_t d = 0; d < order.size(); ++d)
      order[d] = d;
    std::shuffle(order.begin(), order.end(), random_);
    ASSERT_TRUE(Assign(node.devices, order, pod.shape->claims, pod.devices));
  }
  void Give(const SimPod& pod) {
    SimNode& node = nodes_.at(pod.node);
    node.cpu += pod.shape->requests.at("cpu");
    for (const std::vector<size_t>& claim : pod.devices) {
      for (const size_t device : claim)
        node.devices[device].taken = false;
    }
  }
  // Of the pods in flight the one with fewest nodes to go to.
  [[nodiscard]] int64_t Comfort() const {
    int64_t least = 1000;
    for (const SimPod& pod : flying_) {
      least = std::min(least, std::count_if(nodes_.begin(), nodes_.end(), [&](const auto& node) {
                         return Choices(node.second, *pod.shape);
                       }));
    }
    return least;
  }
  std::string Choose(const SimPod& pod, const std::vector<std::string>& possible) {
    if (way_ == Way::kRandom)
      return possible[static_cast<size_t>(Pick(0, static_cast<int>(possible.size()) - 1))];
    std::string best;
    int64_t best_score = 0;
    for (const std::string& name : possible) {
      const SimNode& node = nodes_.at(name);
      int64_t score = std::count_if(node.devices.begin(), node.devices.end(),
                                    [](const SimDevice& device) { return !device.taken; });
      if (way_ == Way::kPack)
        score = -score;
      if (way_ == Way::kHarm) {
        SimPod trial = pod;
        trial.node = name;
        Take(trial);
        score = -Comfort();
        Give(trial);
      }
      if (best.empty() || score > best_score) {
        best = name;
        best_score = score;
      }
    }
    return best;
  }

  std::mt19937 random_;
  Capacity& capacity_;
  Way way_;
  std::map<std::string, SimNode> nodes_;  // what is free there
  std::map<std::string, SimPod> bound_;
  std::vector<SimPod> flying_;
  std::vector<News> news_;
  std::set<std::string> lost_;
  int pods_ = 0;
};

struct Score {
  int released = 0;
  int lost = 0;
  int waited = 0;    // had a place and was not released
  int together = 0;  // released while others were in flight
};

Score Simulate(uint32_t seed, bool careful) {
  const std::unique_ptr<Capacity> capacity = MakeCapacity();
  HarmfulAllocator world(seed, *capacity);
  Score score;
  std::vector<std::string> running;
  for (int step = 0; step < 100; ++step) {
    const Gang gang =
        MakeGang("ns/g" + std::to_string(step), world.Pick(1, 4), world.RandomShape());
    const FitResult fit = capacity->Check(gang);
    if (fit.kind == FitKind::kFits) {
      if (careful && !capacity->CheckFlights(gang).clear) {
        ++score.waited;
      } else {
        capacity->Reserve(gang, fit.placement);
        score.together += world.Idle() ? 0 : 1;
        world.Release(gang);
        running.push_back(gang.id);
        ++score.released;
      }
    }
    for (int more = world.Pick(0, 5); more > 0 && !world.Idle(); --more)
      world.Step();
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
    world.Step();
  EXPECT_EQ(capacity->SanityCheck(), "");
  score.lost = static_cast<int>(world.lost().size());
  return score;
}

TEST(HarmfulAllocatorTest, PlansAloneTearGangsAndTheFlightCheckTearsNone) {
  Score plain;
  Score careful;
  const auto add = [](Score& sum, const Score& more) {
    sum.released += more.released;
    sum.lost += more.lost;
    sum.waited += more.waited;
    sum.together += more.together;
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
  RecordProperty("of these beside others", careful.together);
  RecordProperty("waited", careful.waited);
  std::printf(
      "by plan alone: %d released, %d torn; with the check: %d released, %d of them beside others, "
      "0 torn, %d waits\n",
      plain.released, plain.lost, careful.released, careful.together, careful.waited);
  EXPECT_GT(plain.lost, plain.released / 50);
  EXPECT_GT(careful.released, plain.released / 2);
  EXPECT_GT(careful.together, careful.released / 10);
}

// --- the engine
// ----------------------------------------------------------------------------------------

std::unique_ptr<Engine> NewEngine() {
  std::unique_ptr<Engine> engine = MakeEngine();
  api::ResourceFlavor flavor;
  flavor.meta.name = "default";
  engine->SetFlavor(flavor);
  api::ClusterQueue queue;
  queue.meta.name = "q";
  queue.namespace_selector.present = true;
  api::ResourceQuota cpu;
  cpu.name = "cpu";
  cpu.nominal = api::FromAmount("cpu", 1000000000);
  queue.groups.push_back({{"cpu"}, {{"default", {cpu}}}});
  engine->SetClusterQueue(queue);
  api::LocalQueue local;
  local.meta.ns = "ns";
  local.meta.name = "q";
  local.cluster_queue = "q";
  engine->SetLocalQueue(local);
  return engine;
}

WorkloadInput InputOf(const Gang& gang, int number, int64_t priority = 0) {
  WorkloadInput input;
  input.id = gang.id;
  input.uid = gang.id;
  input.ns = "ns";
  input.local_queue = "q";
  input.priority = priority;
  input.queue_time = kNoTime + std::chrono::seconds(number);
  input.group_claims = gang.group_claims;
  PodSetInput pod_set;
  pod_set.name = "main";
  pod_set.count = gang.pod_sets[0].count;
  pod_set.requests = gang.pod_sets[0].shape->requests;
  pod_set.shape = gang.pod_sets[0].shape;
  input.pod_sets.push_back(std::move(pod_set));
  return input;
}

TEST(EngineDeviceFlightTest, GangsThatAskForTheSameKindOfDeviceStartInOnePass) {
  const std::unique_ptr<Engine> engine = NewEngine();
  SetUpDevices(engine->capacity());
  for (const char* name : {"a", "b", "c", "d"}) {
    engine->capacity().SetNode(MakeNode(name, {{"cpu", 64}}));
    engine->capacity().SetResourceSlice(Shared(SliceOf(name, 8, 0)));
  }
  for (int g = 0; g < 16; ++g)
    engine->SetPending(InputOf(MakeGang("ns/g" + std::to_string(g), 2, PodWith({"any-1"})), g));
  EXPECT_THAT(engine->RunPass(kNoTime).admitted, SizeIs(16));
  EXPECT_EQ(engine->SanityCheck(), "");
}

// kubernetes/kubernetes#140087: pods after the first that share a claim may be bound elsewhere.
TEST(EngineDeviceFlightTest, AGangThatASharedClaimTiesToANodeIsBoundToIt) {
  for (const bool of_group : {false, true}) {
    SCOPED_TRACE(of_group ? "claim of the group" : "claim by name");
    const std::unique_ptr<Engine> engine = NewEngine();
    Capacity& capacity = engine->capacity();
    SetUpDevices(capacity);
    for (const char* name : {"a", "b"}) {
      capacity.SetNode(MakeNode(name, {{"cpu", 64}}));
      capacity.SetResourceSlice(Shared(SliceOf(name, 2, 0)));
    }
    api::ResourceClaim claim;
    claim.meta.ns = "ns";
    claim.meta.name = "ours";
    claim.spec = TemplateOf("any-1").spec;
    capacity.SetResourceClaim(claim, "", "");
    const auto gang = [&](const std::string& name) {
      auto shape = MakeShape({{"cpu", 1}});
      shape->claims = {of_group ? api::PodClaim{"gpu", "", "any-1"}
                                : api::PodClaim{"gpu", "ours", ""}};
      Gang made = MakeGang("ns/" + name, 3, shape);
      if (of_group)
        made.group_claims = shape->claims;
      return made;
    };
    engine->SetPending(InputOf(gang("first"), 1));
    const PassResult result = engine->RunPass(kNoTime);
    ASSERT_THAT(result.admitted, SizeIs(1));
    EXPECT_EQ(result.admitted[0].pinned_node, result.admitted[0].placement.front().node);
    EXPECT_EQ(result.admitted[0].note, "");
    // One that the claim doesn't tie is not.
    engine->SetPending(InputOf(MakeGang("ns/free", 1, {{"cpu", 1}}), 2));
    const PassResult next = engine->RunPass(kNoTime);
    for (const AdmitDecision& decision : next.admitted)
      EXPECT_EQ(decision.pinned_node, "");
  }
}

TEST(EngineDeviceFlightTest, ATieThatNoLabelCanSayIsNoted) {
  const std::unique_ptr<Engine> engine = NewEngine();
  Capacity& capacity = engine->capacity();
  SetUpDevices(capacity);
  api::Node node = MakeNode("a", {{"cpu", 64}});
  node.meta.labels.clear();
  capacity.SetNode(node);
  capacity.SetResourceSlice(Shared(SliceOf("a", 2, 0)));
  Gang gang = MakeGang("ns/g", 3, PodWith({"any-1"}));
  gang.group_claims = gang.pod_sets[0].shape->claims;
  engine->SetPending(InputOf(gang, 1));
  const PassResult result = engine->RunPass(kNoTime);
  ASSERT_THAT(result.admitted, SizeIs(1));
  EXPECT_EQ(result.admitted[0].pinned_node, "");
  EXPECT_THAT(result.admitted[0].note, HasSubstr("node a can't be told by kubernetes.io/hostname"));
}

// Whatever is released lands, and when no more jobs come, all of them have run.
TEST(EngineDeviceFlightTest, WhateverIsReleasedLandsAndEverybodyGetsATurn) {
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const std::unique_ptr<Engine> engine = NewEngine();
    HarmfulAllocator world(seed, engine->capacity());
    std::map<std::string, Gang> gangs;
    std::vector<std::string> running;
    size_t submitted = 0;
    size_t finished = 0;
    for (int step = 0; step < 1500; ++step) {
      if (step < 40) {
        const Gang gang =
            MakeGang("ns/w" + std::to_string(step), world.Pick(1, 4), world.RandomShape());
        if (engine->capacity().Check(gang).kind != FitKind::kNever) {
          engine->SetPending(InputOf(gang, world.Pick(0, 30), world.Pick(0, 1)));
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
      for (int more = world.Pick(0, 5); more > 0 && !world.Idle(); --more)
        ASSERT_TRUE(world.Step()) << "a pod of " << *world.lost().begin() << " has no node";
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
