// SPDX-License-Identifier: Apache-2.0
// A "no" from memory is the "no" of a fresh look: random clusters in which everything changes, and
// gangs that are asked about again and again, against a Capacity that knows only the last state.
#include "engine/fit_memory.h"

#include <array>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/capacity.h"
#include "engine/capacity_test_util.h"
#include "engine/device_test_util.h"

namespace tutti::engine {
namespace {

uint64_t Seeds() {
  const char* text = std::getenv("TUTTI_TWIN_SEEDS");
  return text == nullptr ? 150 : std::strtoull(text, nullptr, 10);
}

Refused Of(size_t slots) {
  Refused refused;
  refused.wanted = {10};
  refused.now = refused.empty = {0};
  refused.alone.resize(slots);
  return refused;
}

TEST(FitMemoryTest, SumsFollowTheNodes) {
  Refused refused = Of(2);
  refused.Set(0, 0, {3, 8});
  refused.Set(5, 0, {4, 4});
  EXPECT_TRUE(refused.ShortNow());
  EXPECT_FALSE(refused.ShortWhenEmpty());
  refused.Set(0, 0, {6, 8});
  EXPECT_FALSE(refused.ShortNow());
  refused.Set(5, 0, {0, 0});
  EXPECT_EQ(refused.now[0], 6);
  EXPECT_TRUE(refused.ShortWhenEmpty());
}

TEST(FitMemoryTest, WhatIsAskedInTurnIsNotDrivenOutByMoreThanItHolds) {
  FitMemory memory;
  const size_t slots = FitMemory::kLimit / sizeof(AloneCount) / 4;  // three are enough
  const std::vector<std::string> keys = {"a", "b", "c", "d", "e"};
  for (int round = 0; round < 3; ++round) {
    int known = 0;
    for (const std::string& key : keys) {
      if (memory.Find(key) != nullptr)
        ++known;
      else
        memory.Keep(key, Of(slots));
    }
    EXPECT_EQ(known, round == 0 ? 0 : 3);
    EXPECT_LE(memory.Bytes(), FitMemory::kLimit);
  }
  // The first ones are gone; their place is for others some time later.
  for (int round = 0; round < 12; ++round) {
    for (const std::string key : {"d", "e"}) {
      if (memory.Find(key) == nullptr)
        memory.Keep(key, Of(slots));
    }
  }
  EXPECT_NE(memory.Find("d"), nullptr);
  EXPECT_NE(memory.Find("e"), nullptr);
  memory.Forget("d");
  EXPECT_EQ(memory.Find("d"), nullptr);
}

// The last state of everything, from which a new Capacity can be made.
class World {
 public:
  explicit World(uint64_t seed) : random_(seed) {
    capacity_->SetDevicesKnown(true);
    for (const char* name : {"gpu", "net"})
      SetClass(name);
    for (const char* name : {"one", "two", "small", "pair", "net", "part", "all"})
      SetTemplate(name);
    for (int n = 0; n < 5; ++n)
      SetNode("n" + std::to_string(n));
    for (int i = 0; i < 8; ++i)
      gangs_.push_back(NewGang(i));
  }

  void Step() {
    for (int changes = Below(4); changes >= 0; --changes)
      ChangeOne();
    ASSERT_EQ(capacity_->SanityCheck(), "");
    const std::unique_ptr<Capacity> fresh = Fresh();
    for (const Gang& gang : gangs_) {
      const FitKind known = capacity_->Check(gang, Reason::kNone).kind;
      ASSERT_EQ(static_cast<int>(known), static_cast<int>(fresh->Check(gang).kind))
          << gang.id << ": " << fresh->Check(gang).message;
      const FitResult again = capacity_->Check(gang);
      ASSERT_EQ(static_cast<int>(known), static_cast<int>(again.kind));
      ASSERT_EQ(again.message, fresh->Check(gang).message);
      ++kinds[static_cast<size_t>(known)];
    }
    if (Below(4) == 0)
      gangs_[static_cast<size_t>(Below(8))] = NewGang(Below(8));
  }

  static inline std::array<int64_t, 4> kinds{};  // by FitKind

 private:
  struct BoundPod {
    std::string node;
    std::shared_ptr<const api::PodShape> shape;
  };

  int Below(int limit) { return static_cast<int>(random_() % static_cast<uint64_t>(limit)); }
  std::string SomeNode() { return "n" + std::to_string(Below(7)); }

  void SetClass(const std::string& name) {
    api::DeviceClass device_class =
        MakeClass(name, {"device.attributes[\"gpu.example.com\"].kind == \"" + name + "\""});
    if (name == "gpu")
      device_class.extended_resource_name = "example.com/gpu";
    classes_[name] = device_class;
    capacity_->SetDeviceClass(device_class);
  }
  void SetTemplate(const std::string& name) {
    api::ResourceClaimTemplate made;
    made.meta.ns = "ns";
    made.meta.name = name;
    const std::string small = "device.attributes[\"gpu.example.com\"].size == \"small\"";
    const int more = Below(8) == 0 ? 1 : 0;
    if (name == "one")
      made.spec = MakeClaim({Exact("gpu", 1 + more)});
    if (name == "two")
      made.spec = MakeClaim({Exact("gpu", 2 + more)});
    if (name == "small")
      made.spec = MakeClaim({Exact("gpu", 1 + more, "gpu", {small})});
    if (name == "pair") {
      made.spec = MakeClaim({Exact("a", 1 + more), Exact("b", 1, "gpu", {small})});
      made.spec.constraints.push_back({{}, "gpu.example.com/root", ""});
    }
    if (name == "net")
      made.spec = MakeClaim({Exact("net", 1 + more, "net")});
    if (name == "part")
      made.spec = MakeClaim({Exact("part", 2, "gpu", {small})});
    if (name == "all")
      made.spec = MakeClaim({All("gpu")});
    templates_[name] = made;
    capacity_->SetResourceClaimTemplate(made);
  }
  void SetNode(const std::string& name) {
    api::Node node =
        MakeNode(name, {{"cpu", 1000 * (1 + Below(6))}}, {{"zone", Below(2) == 0 ? "a" : "b"}});
    node.unschedulable = Below(8) == 0;
    if (Below(8) == 0)
      node.taints = {{"key", "", "NoSchedule"}};
    if (Below(6) == 0)
      node.allocatable["example.com/gpu"] = 2;
    nodes_[name] = node;
    capacity_->SetNode(node);
  }
  api::Device NewDevice(const std::string& name, const std::string& kind) {
    api::Device device = MakeDevice(name, {{"kind", kind},
                                           {"size", Below(2) == 0 ? "small" : "large"},
                                           {"root", Below(2) == 0 ? "0" : "1"}});
    if (Below(8) == 0)
      device = WithTaint(device, "ill", "NoSchedule");
    return device;
  }
  // Of a node: whole devices, or parts of one with counters; or of all nodes.
  void SetSlice() {
    const std::string node = SomeNode();
    api::ResourceSlice slice;
    std::vector<api::Device> devices;
    const int count = Below(6);
    for (int d = 0; d < count; ++d)
      devices.push_back(NewDevice("d" + std::to_string(d), Below(6) == 0 ? "net" : "gpu"));
    switch (Below(7)) {
      case 0: {
        if (wide_ || Below(3) != 0)
          return;
        wide_ = true;
        slice = MakeSlice("wide", "", {NewDevice("w", "net"), NewDevice("v", "net")});
        slice.all_nodes = true;
        break;
      }
      case 1: {
        slice = MakeSlice("parts-" + node, node, {});
        slice.slice_count = 2;
        slice.pool += "-parts";
        slice.generation = 1;
        api::ResourceSlice counters = slice;
        counters.meta.name += "-counters";
        counters.shared_counters.push_back({"set", {{"slots", Amount("3")}}});
        PutSlice(counters);
        for (int d = 0; d < 4; ++d)
          slice.devices.push_back(
              WithCounters(NewDevice("p" + std::to_string(d), "gpu"), "set", "slots", "1"));
        break;
      }
      default:
        slice = MakeSlice("gpus-" + node, node, std::move(devices));
        slice.generation = ++generation_;
        slice.slice_count = Below(12) == 0 ? 2 : 1;
    }
    PutSlice(slice);
  }
  void PutSlice(const api::ResourceSlice& slice) {
    slices_[slice.meta.name] = slice;
    capacity_->SetResourceSlice(Shared(slice));
  }
  void SetClaim() {
    api::ResourceClaim claim;
    claim.meta.ns = "ns";
    claim.meta.name = "c" + std::to_string(Below(6));
    claim.spec = MakeClaim({Exact("gpu")});
    if (!slices_.empty() && Below(3) != 0) {
      auto slice = std::next(slices_.begin(), Below(static_cast<int>(slices_.size())));
      claim.allocation.emplace();
      for (const api::Device& device : slice->second.devices) {
        if (Below(2) == 0)
          continue;
        api::DeviceResult result;
        result.driver = kDriver;
        result.pool = slice->second.pool;
        result.device = device.name;
        claim.allocation->results.push_back(std::move(result));
      }
    }
    claims_[claim.meta.name] = claim;
    capacity_->SetResourceClaim(claim, "", "");
  }

  void ChangeOne() {
    switch (Below(14)) {
      case 0:
      case 1:
        SetNode(SomeNode());
        break;
      case 2: {
        const std::string name = SomeNode();
        capacity_->RemoveNode(name);
        nodes_.erase(name);
        break;
      }
      case 3:
      case 4:
      case 5:
        SetSlice();
        break;
      case 6: {
        if (slices_.empty())
          break;
        const auto it = std::next(slices_.begin(), Below(static_cast<int>(slices_.size())));
        wide_ = wide_ && it->first != "wide";
        capacity_->RemoveResourceSlice(it->first);
        slices_.erase(it);
        break;
      }
      case 7:
      case 8:
        SetClaim();
        break;
      case 9: {
        const std::string name = "c" + std::to_string(Below(6));
        capacity_->RemoveResourceClaim({"ns", name});
        claims_.erase(name);
        break;
      }
      case 10: {
        const std::string uid = "pod" + std::to_string(Below(5));
        auto shape = MakeShape({{"cpu", 1000 * (1 + Below(2))}});
        if (Below(4) == 0)
          shape->host_ports.push_back({"", "TCP", 80});
        pods_[uid] = {SomeNode(), shape};
        capacity_->SetPod(uid, pods_[uid].node, shape, "", "");
        break;
      }
      case 11: {
        const std::string uid = "pod" + std::to_string(Below(5));
        capacity_->RemovePod(uid);
        pods_.erase(uid);
        break;
      }
      case 12: {
        const std::string name =
            std::next(templates_.begin(), Below(static_cast<int>(templates_.size())))->first;
        if (Below(2) == 0) {
          SetTemplate(name);
        } else if (templates_.size() > 5) {
          capacity_->RemoveResourceClaimTemplate({"ns", name});
          templates_.erase(name);
        }
        break;
      }
      default:
        for (const char* name : {"one", "two", "small", "pair", "net", "part", "all"}) {
          if (!templates_.contains(name))
            SetTemplate(name);
        }
        if (Below(4) == 0) {
          const std::string name = Below(2) == 0 ? "gpu" : "net";
          capacity_->RemoveDeviceClass(name);
          classes_.erase(name);
        } else {
          SetClass(Below(2) == 0 ? "gpu" : "net");
        }
    }
  }

  Gang NewGang(int number) {
    Gang gang{"ns/g" + std::to_string(number), {}};
    for (int sets = 1 + Below(5) / 3; sets > 0; --sets) {
      auto shape = MakeShape({{"cpu", 1000 * (1 + Below(3))}});
      if (Below(4) == 0)
        shape->node_selector["zone"] = "a";
      if (Below(6) == 0)
        shape->host_ports.push_back({"", "TCP", 80});
      if (Below(5) == 0)
        shape->tolerations.push_back({"key", "Exists", "", "", {}});
      switch (Below(6)) {
        case 0:
          break;
        case 1:
          shape->requests["example.com/gpu"] = 1;
          shape->container_resources.push_back({0, false, "example.com/gpu", 1, 0});
          break;
        case 2:
          shape->claims = {{"shared", "c" + std::to_string(Below(6)), ""}};
          break;
        default: {
          static const std::vector<std::string> kNames = {"one", "two",  "small", "pair",
                                                          "net", "part", "all"};
          const std::string& name = kNames[static_cast<size_t>(Below(7))];
          shape->claims = {{name, "", name}};
        }
      }
      gang.pod_sets.push_back(MakeSet("s" + std::to_string(sets), 1 + Below(9), shape));
    }
    if (Below(8) == 0 && !gang.pod_sets[0].shape->claims.empty())
      gang.group_claims = gang.pod_sets[0].shape->claims;
    return gang;
  }

  std::unique_ptr<Capacity> Fresh() const {
    std::unique_ptr<Capacity> fresh = MakeCapacity();
    fresh->SetDevicesKnown(true);
    for (const auto& [name, device_class] : classes_)
      fresh->SetDeviceClass(device_class);
    for (const auto& [name, claim_template] : templates_)
      fresh->SetResourceClaimTemplate(claim_template);
    for (const auto& [name, node] : nodes_)
      fresh->SetNode(node);
    for (const auto& [name, slice] : slices_)
      fresh->SetResourceSlice(Shared(slice));
    for (const auto& [name, claim] : claims_)
      fresh->SetResourceClaim(claim, "", "");
    for (const auto& [uid, pod] : pods_)
      fresh->SetPod(uid, pod.node, pod.shape, "", "");
    return fresh;
  }

  std::mt19937_64 random_;
  std::unique_ptr<Capacity> capacity_ = MakeCapacity();
  std::map<std::string, api::DeviceClass> classes_;
  std::map<std::string, api::ResourceClaimTemplate> templates_;
  std::map<std::string, api::Node> nodes_;
  std::map<std::string, api::ResourceSlice> slices_;
  std::map<std::string, api::ResourceClaim> claims_;
  std::map<std::string, BoundPod> pods_;
  std::vector<Gang> gangs_;
  bool wide_ = false;
  int64_t generation_ = 1;
};

TEST(FitMemoryTest, ANoFromMemoryIsTheNoOfAFreshLook) {
  World::kinds = {};
  for (uint64_t seed = 1; seed <= Seeds(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(seed);
    for (int step = 0; step < 40 && !testing::Test::HasFailure(); ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      world.Step();
    }
    if (testing::Test::HasFailure())
      break;
  }
  for (const FitKind kind : {FitKind::kFits, FitKind::kNotNow, FitKind::kNever})
    EXPECT_GT(World::kinds[static_cast<size_t>(kind)], 2 * static_cast<int64_t>(Seeds()));
}

}  // namespace
}  // namespace tutti::engine
