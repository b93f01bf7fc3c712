// SPDX-License-Identifier: Apache-2.0
// Random clusters, claims and gangs through Capacity, against a twin that keeps its own books by
// device name and places pod after pod. More seeds with TUTTI_TWIN_SEEDS.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "engine/capacity.h"
#include "engine/capacity_test_util.h"
#include "engine/device_ledger.h"
#include "engine/device_test_util.h"

namespace tutti::engine {
namespace {

uint64_t Seeds() {
  const char* text = std::getenv("TUTTI_TWIN_SEEDS");
  return text == nullptr ? 400 : std::strtoull(text, nullptr, 10);
}

class Cluster {
 public:
  explicit Cluster(uint64_t seed) : random_(seed) {
    capacity_->SetDevicesKnown(true);
    capacity_->SetDeviceClass(MakeClass("gpu", {"device.driver == \"gpu.example.com\""}));
    for (int i = 1; i <= 3; ++i) {
      for (const bool matched : {false, true}) {
        api::ResourceClaimTemplate claim_template;
        claim_template.meta.ns = "ns";
        claim_template.meta.name = TemplateName(i, matched);
        claim_template.spec = MakeClaim({Exact("gpu", i)});
        if (matched)
          claim_template.spec.constraints.push_back({{}, "gpu.example.com/root", ""});
        capacity_->SetResourceClaimTemplate(claim_template);
      }
    }
    const int nodes = 1 + Below(5);
    for (int n = 0; n < nodes; ++n)
      AddNode("n" + std::to_string(n));
  }

  void Step() {
    switch (Below(8)) {
      case 0:
        AddNode("n" + std::to_string(Below(5)));
        break;
      case 1:
        ForeignClaim();
        break;
      case 2:
        EndClaim();
        break;
      case 3:
      case 4:
        Land();
        break;
      case 5:
        Release();
        break;
      default:
        TryGang();
    }
    ASSERT_EQ(capacity_->SanityCheck(), "");
    for (const Gang& gang : refused_) {
      ASSERT_EQ(static_cast<int>(capacity_->Check(gang, Reason::kNone).kind),
                static_cast<int>(capacity_->Check(gang).kind));
    }
  }

  static inline int64_t fits = 0;
  static inline int64_t fits_not = 0;

 private:
  struct Node {
    int64_t cpu = 0;
    std::vector<std::string> roots;  // by device
  };
  struct Promise {
    std::string pod_set, node;
    std::vector<std::string> devices;
  };
  struct Flight {
    std::vector<Promise> promises;                                 // in the order of the placement
    std::map<std::pair<std::string, std::string>, int32_t> slots;  // pod set, node
    std::map<std::string, std::shared_ptr<const api::PodShape>> shapes;
  };
  struct Claim {
    std::vector<std::string> devices;
    std::string pod, node;  // "" = of no pod that is known
    int64_t cpu = 0;
  };

  int Below(int limit) { return static_cast<int>(random_() % static_cast<uint64_t>(limit)); }
  static std::string TemplateName(int count, bool matched) {
    return (matched ? "matched-" : "plain-") + std::to_string(count);
  }

  void AddNode(const std::string& name) {
    // A node that is in use keeps its devices: what happens otherwise is another test.
    if (nodes_.contains(name)) {
      capacity_->SetNode(MakeNode(name, {{"cpu", nodes_[name].cpu}}));
      return;
    }
    Node& node = nodes_[name];
    node.cpu = 1000 * (1 + Below(6));
    std::vector<api::Device> devices;
    const int count = Below(6);
    for (int d = 0; d < count; ++d) {
      // Ids follow the order of publication, since no device ever goes.
      names_[static_cast<int32_t>(names_.size())] = DeviceName(name, static_cast<size_t>(d));
      node.roots.push_back("r" + std::to_string(Below(2)));
      devices.push_back(MakeDevice(std::to_string(d), {{"root", node.roots.back()}}));
    }
    capacity_->SetNode(MakeNode(name, {{"cpu", node.cpu}}));
    capacity_->SetResourceSlice(Shared(MakeSlice(name, name, std::move(devices))));
  }

  static std::string DeviceName(const std::string& node, size_t device) {
    return kDriver + "/" + node + "/" + std::to_string(device);
  }

  // The first devices of a node, in order, that one claim can have; nothing if there are none.
  std::vector<size_t> Pick(const std::string& node, const std::set<std::string>& taken, int count,
                           bool matched) const {
    std::vector<size_t> free;
    const Node& state = nodes_.at(node);
    for (size_t d = 0; d < state.roots.size(); ++d) {
      if (!taken.contains(DeviceName(node, d)))
        free.push_back(d);
    }
    std::vector<size_t> best;
    for (uint32_t bits = 1; bits < (1U << free.size()); ++bits) {
      std::vector<size_t> chosen;
      std::set<std::string> roots;
      for (size_t i = 0; i < free.size(); ++i) {
        if ((bits >> i & 1U) != 0) {
          chosen.push_back(free[i]);
          roots.insert(state.roots[free[i]]);
        }
      }
      if (chosen.size() != static_cast<size_t>(count) || (matched && roots.size() > 1))
        continue;
      if (best.empty() || chosen < best)
        best = chosen;
    }
    return best;
  }

  // How many alike pods the nodes take, each node by itself.
  int64_t Places(int count, bool matched, int64_t cpu, bool empty) const {
    int64_t places = 0;
    for (const auto& [name, node] : nodes_) {
      std::set<std::string> taken = empty ? std::set<std::string>() : taken_;
      int64_t room = node.cpu;
      if (!empty && cpu_used_.contains(name))
        room -= cpu_used_.at(name);
      while (room >= cpu) {
        const std::vector<size_t> devices = Pick(name, taken, count, matched);
        if (devices.empty())
          break;
        for (const size_t device : devices)
          taken.insert(DeviceName(name, device));
        room -= cpu;
        ++places;
      }
    }
    return places;
  }

  void TryGang() {
    const bool two_sets = Below(3) == 0;
    Gang gang{"ns/gang-" + std::to_string(++next_gang_), {}};
    struct Ask {
      int count;
      bool matched;
      int64_t cpu;
    };
    std::vector<Ask> asks;
    for (int s = 0; s < (two_sets ? 2 : 1); ++s) {
      asks.push_back({1 + Below(3), Below(2) == 0, 1000 * (1 + Below(2))});
      auto shape = MakeShape({{"cpu", asks.back().cpu}});
      shape->claims = {{"gpu", "", TemplateName(asks.back().count, asks.back().matched)}};
      gang.pod_sets.push_back(MakeSet("s" + std::to_string(s), 1 + Below(4), shape));
    }
    const FitResult result = capacity_->Check(gang);
    (result.kind == FitKind::kFits ? fits : fits_not) += 1;
    if (!two_sets) {
      const Ask& ask = asks[0];
      const int32_t count = gang.pod_sets[0].count;
      ASSERT_EQ(result.kind == FitKind::kFits,
                Places(ask.count, ask.matched, ask.cpu, false) >= count);
      ASSERT_EQ(result.kind == FitKind::kNever,
                Places(ask.count, ask.matched, ask.cpu, true) < count);
    }
    ASSERT_EQ(result.message.empty(), result.kind == FitKind::kFits);
    if (result.kind != FitKind::kFits) {
      refused_.push_back(gang);  // asked again after each step
      if (refused_.size() > 4)
        refused_.erase(refused_.begin());
      return;
    }
    capacity_->Reserve(gang, result.placement);
    Flight& flight = flights_[gang.id];
    std::map<std::string, int32_t> placed;
    for (const PlacementSlot& slot : result.placement) {
      const GangPodSet& set = gang.pod_sets[slot.pod_set];
      placed[set.name] += slot.count;
      flight.slots[{set.name, slot.node}] += slot.count;
      flight.shapes[set.name] = set.shape;
      cpu_used_[slot.node] += set.shape->requests.at("cpu") * slot.count;
      ASSERT_LE(cpu_used_[slot.node], nodes_[slot.node].cpu);
      ASSERT_NE(slot.devices, nullptr);
      ASSERT_EQ(slot.devices->pods.size(), static_cast<size_t>(slot.count));
      for (const PodDevices& pod : slot.devices->pods) {
        ASSERT_EQ(pod.size(), 1U);
        ASSERT_EQ(pod[0].uses.size(), static_cast<size_t>(asks[slot.pod_set].count));
        Promise promise{set.name, slot.node, {}};
        std::set<std::string> roots;
        for (const DeviceUse& use : pod[0].uses) {
          const std::string name = names_.at(use.id);
          ASSERT_NE(name.find("/" + slot.node + "/"), std::string::npos) << name;
          ASSERT_TRUE(taken_.insert(name).second) << name << " is promised twice";
          promise.devices.push_back(name);
          roots.insert(nodes_[slot.node].roots[std::stoul(name.substr(name.rfind('/') + 1))]);
        }
        ASSERT_TRUE(!asks[slot.pod_set].matched || roots.size() == 1);
        flight.promises.push_back(std::move(promise));
      }
    }
    for (const GangPodSet& set : gang.pod_sets)
      ASSERT_EQ(placed[set.name], set.count);
  }

  // Free devices of a node, any of them.
  std::vector<std::string> SomeFree(const std::string& node, size_t count) {
    std::vector<std::string> free;
    for (size_t d = 0; d < nodes_[node].roots.size(); ++d) {
      if (!taken_.contains(DeviceName(node, d)))
        free.push_back(DeviceName(node, d));
    }
    std::shuffle(free.begin(), free.end(), random_);
    free.resize(std::min(count, free.size()));
    return free;
  }

  void SetClaim(const std::string& name, const std::vector<std::string>& devices,
                const std::string& gang, const std::string& pod_set) {
    api::ResourceClaim claim;
    claim.meta.ns = "ns";
    claim.meta.name = name;
    if (!gang.empty())
      claim.meta.annotations[std::string(api::kPodClaimNameAnnotation)] = "gpu";
    claim.allocation.emplace();
    for (const std::string& device : devices) {
      api::DeviceResult result;
      result.driver = kDriver;
      const size_t pool = device.find('/') + 1;
      const size_t own = device.rfind('/') + 1;
      result.pool = device.substr(pool, own - 1 - pool);
      result.device = device.substr(own);
      claim.allocation->results.push_back(std::move(result));
    }
    capacity_->SetResourceClaim(claim, gang, pod_set);
  }

  std::string NextClaim() { return "c" + std::to_string(++next_claim_); }

  void ForeignClaim() {
    const std::string node = "n" + std::to_string(Below(static_cast<int>(nodes_.size())));
    if (!nodes_.contains(node))
      return;
    const std::vector<std::string> devices = SomeFree(node, 1);
    if (devices.empty())
      return;
    const std::string name = NextClaim();
    SetClaim(name, devices, "", "");
    taken_.insert(devices.begin(), devices.end());
    claims_[name].devices = devices;
  }

  void EndClaim() {
    if (claims_.empty())
      return;
    auto it = claims_.begin();
    std::advance(it, Below(static_cast<int>(claims_.size())));
    const Claim& claim = it->second;
    capacity_->RemoveResourceClaim({"ns", it->first});
    if (!claim.pod.empty()) {
      capacity_->RemovePod(claim.pod);
      cpu_used_[claim.node] -= claim.cpu;
    }
    for (const std::string& device : claim.devices)
      taken_.erase(device);
    claims_.erase(it);
  }

  // A pod of a gang gets its devices, those promised to it or others of its node, and is bound.
  void Land() {
    if (flights_.empty())
      return;
    auto it = flights_.begin();
    std::advance(it, Below(static_cast<int>(flights_.size())));
    Flight& flight = it->second;
    if (flight.promises.empty())
      return;
    size_t index = static_cast<size_t>(Below(static_cast<int>(flight.promises.size())));
    const Promise planned = flight.promises[index];
    if (flight.slots[{planned.pod_set, planned.node}] == 0)
      return;
    std::vector<std::string> devices = planned.devices;
    if (Below(3) == 0) {
      const std::vector<std::string> others = SomeFree(planned.node, devices.size());
      if (others.size() == devices.size()) {
        devices = others;
        index = 0;  // the first promise of the pod set is what the allocation replaces
        while (flight.promises[index].pod_set != planned.pod_set)
          ++index;
      }
    }
    for (const std::string& device : flight.promises[index].devices)
      taken_.erase(device);
    flight.promises.erase(flight.promises.begin() + static_cast<std::ptrdiff_t>(index));
    taken_.insert(devices.begin(), devices.end());
    const std::string name = NextClaim();
    const std::string pod = "pod-" + name;
    const auto& shape = flight.shapes[planned.pod_set];
    SetClaim(name, devices, it->first, planned.pod_set);
    if (Below(2) == 0)
      SetClaim(name, devices, it->first, planned.pod_set);  // said again
    capacity_->SetPod(pod, planned.node, shape, it->first, planned.pod_set);
    --flight.slots[{planned.pod_set, planned.node}];
    claims_[name] = {devices, pod, planned.node, shape->requests.at("cpu")};
  }

  void Release() {
    if (flights_.empty())
      return;
    auto it = flights_.begin();
    std::advance(it, Below(static_cast<int>(flights_.size())));
    capacity_->Release(it->first);
    for (const Promise& promise : it->second.promises) {
      for (const std::string& device : promise.devices)
        taken_.erase(device);
    }
    for (const auto& [where, count] : it->second.slots)
      cpu_used_[where.second] -= it->second.shapes[where.first]->requests.at("cpu") * count;
    flights_.erase(it);
  }

  std::mt19937_64 random_;
  std::unique_ptr<Capacity> capacity_ = MakeCapacity();
  std::map<std::string, Node> nodes_;
  std::set<std::string> taken_;
  std::map<std::string, int64_t> cpu_used_;
  std::map<std::string, Flight> flights_;
  std::vector<Gang> refused_;
  std::map<std::string, Claim> claims_;
  std::map<int32_t, std::string> names_;  // of devices, by id
  int next_gang_ = 0;
  int next_claim_ = 0;
};

TEST(DeviceGangTwin, CountsAsItsTwinAndPromisesNothingTwice) {
  Cluster::fits = Cluster::fits_not = 0;
  for (uint64_t seed = 1; seed <= Seeds(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Cluster cluster(seed);
    for (int step = 0; step < 40 && !testing::Test::HasFailure(); ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      cluster.Step();
    }
    if (testing::Test::HasFailure())
      break;
  }
  EXPECT_GT(Cluster::fits, static_cast<int64_t>(Seeds()));
  EXPECT_GT(Cluster::fits_not, static_cast<int64_t>(Seeds()));
}

}  // namespace
}  // namespace tutti::engine
