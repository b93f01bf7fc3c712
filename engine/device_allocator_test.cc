// SPDX-License-Identifier: Apache-2.0
#include "engine/device_allocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/device_test_util.h"

namespace tutti::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class DeviceAllocatorTest : public testing::Test {
 protected:
  void SetUp() override {
    inventory_.SetClass(MakeClass("gpu"));
    nodes_.labels = {{"n1", {{"rack", "a"}}}, {"n2", {{"rack", "b"}}}};
  }
  void TearDown() override { EXPECT_EQ(inventory_.SanityCheck(), ""); }

  void Slice(api::ResourceSlice slice) { inventory_.SetSlice(Shared(std::move(slice))); }
  void Taken(const std::string& pool, const std::string& device) {
    book_.Take({inventory_.AcquireId(kDriver, pool, device), false, {}});
  }
  CompiledClaim Compiled(const api::ClaimSpec& spec, const std::string& label = "claim c") {
    auto compiled = CompileClaim(std::make_shared<api::ClaimSpec>(spec), label, inventory_);
    EXPECT_TRUE(compiled.has_value()) << compiled.error().message;
    return std::move(*compiled);
  }
  Allocation Run(const std::vector<api::ClaimSpec>& specs, const std::string& node = "n1") {
    std::vector<CompiledClaim> claims;
    for (size_t i = 0; i < specs.size(); ++i)
      claims.push_back(Compiled(specs[i], "claim c" + std::to_string(i)));
    std::vector<const CompiledClaim*> pointers;
    for (const CompiledClaim& claim : claims)
      pointers.push_back(&claim);
    steps_ = kStepsPerPod;
    return AllocateDevices(inventory_, book_, node, pointers, steps_);
  }
  // "gpu:gpu-0 gpu:gpu-1" for each claim, "|" between claims; otherwise why not.
  std::string Devices(const std::vector<api::ClaimSpec>& specs, const std::string& node = "n1") {
    const Allocation found = Run(specs, node);
    switch (found.end) {
      case AllocationEnd::kNoDevices:
        return "none";
      case AllocationEnd::kUpdating:
        return "updating: " + found.message;
      case AllocationEnd::kInvalid:
        return "invalid: " + found.message;
      case AllocationEnd::kGaveUp:
        return "gave up";
      case AllocationEnd::kDone:
        break;
    }
    std::string text;
    for (size_t c = 0; c < found.claims.size(); ++c) {
      text += c == 0 ? "" : "|";
      const CompiledClaim claim = Compiled(specs[c]);
      for (size_t d = 0; d < found.claims[c].devices.size(); ++d) {
        const PickedDevice& device = found.claims[c].devices[d];
        text += (d == 0 ? "" : " ") +
                claim.requests[device.request].alternatives[device.alternative].label + ":" +
                inventory_.At(device.place).device->name;
      }
    }
    return text;
  }
  std::string Devices(const api::ClaimSpec& spec, const std::string& node = "n1") {
    return Devices(std::vector<api::ClaimSpec>{spec}, node);
  }

  FakeNodes nodes_;
  DeviceInventory inventory_{nodes_};
  DeviceBook book_;
  int64_t steps_ = 0;
};

// --- order and counts

TEST_F(DeviceAllocatorTest, TheFirstFreeDevicesInOrderAreTaken) {
  Slice(Gpus("n1", 4));
  Taken("n1", "gpu-1");
  EXPECT_EQ(Devices(MakeClaim({Exact("a", 2)})), "a:gpu-0 a:gpu-2");
  EXPECT_EQ(Devices(MakeClaim({Exact("a", 3)})), "a:gpu-0 a:gpu-2 a:gpu-3");
  EXPECT_EQ(Devices(MakeClaim({Exact("a", 4)})), "none");
  EXPECT_EQ(Devices(MakeClaim({Exact("a")}), "n2"), "none");
}

TEST_F(DeviceAllocatorTest, PoolsAreTriedByDriverAndNameAndSlicesByName) {
  Slice(MakeSlice("z", "n1", {MakeDevice("z0")}, "b.example.com"));
  auto second = MakeSlice("s2", "n1", {MakeDevice("second")}, "a.example.com");
  auto first = MakeSlice("s1", "n1", {MakeDevice("first")}, "a.example.com");
  first.slice_count = second.slice_count = 2;
  Slice(second);
  Slice(first);
  EXPECT_EQ(Devices(MakeClaim({Exact("a", 3)})), "a:first a:second a:z0");
}

TEST_F(DeviceAllocatorTest, PoolsWithBindingConditionsComeLastAndAreTold) {
  auto late = MakeSlice("s", "n1", {MakeDevice("bound")}, "a.example.com");
  late.devices[0].binding_conditions = {"attached"};
  Slice(late);
  Slice(Gpus("n1", 1));
  EXPECT_EQ(Devices(MakeClaim({Exact("a")})), "a:gpu-0");
  EXPECT_FALSE(Run({MakeClaim({Exact("a")})}).claims[0].must_be_bound);
  EXPECT_TRUE(Run({MakeClaim({Exact("a", 2)})}).claims[0].must_be_bound);
}

TEST_F(DeviceAllocatorTest, ClaimsAreServedInThePodsOrder) {
  Slice(Gpus("n1", 3));
  EXPECT_EQ(Devices({MakeClaim({Exact("a")}), MakeClaim({Exact("b", 2)})}),
            "a:gpu-0|b:gpu-1 b:gpu-2");
  EXPECT_EQ(Devices({MakeClaim({Exact("a", 2)}), MakeClaim({Exact("b", 2)})}), "none");
  EXPECT_EQ(Devices(std::vector<api::ClaimSpec>{}), "");
}

TEST_F(DeviceAllocatorTest, EarlierChoicesAreRevisedWhenLaterRequestsNeedTheDevice) {
  Slice(MakeSlice("s", "n1",
                  {MakeDevice("a100", {{"model", "a100"}}), MakeDevice("t4", {{"model", "t4"}})}));
  const std::string a100 = R"(device.attributes["gpu.example.com"].model == "a100")";
  EXPECT_EQ(Devices(MakeClaim({Exact("any"), Exact("big", 1, "gpu", {a100})})), "any:t4 big:a100");
  EXPECT_EQ(Devices({MakeClaim({Exact("any")}), MakeClaim({Exact("big", 1, "gpu", {a100})})}),
            "any:t4|big:a100");
}

TEST_F(DeviceAllocatorTest, ClassAndRequestSelectorsMustAllMatch) {
  inventory_.SetClass(
      MakeClass("big", {R"(device.driver == "gpu.example.com")",
                        R"(device.attributes["gpu.example.com"].model == "a100")"}));
  Slice(MakeSlice("s", "n1",
                  {MakeDevice("0", {{"model", "a100"}, {"slot", "0"}}),
                   MakeDevice("1", {{"model", "t4"}, {"slot", "1"}}),
                   MakeDevice("2", {{"model", "a100"}, {"slot", "1"}})}));
  Slice(MakeSlice("other", "n1", {MakeDevice("x", {}, "other.example.com")}, "other.example.com"));
  EXPECT_EQ(Devices(MakeClaim({Exact("a", 2, "big")})), "a:0 a:2");
  EXPECT_EQ(Devices(MakeClaim(
                {Exact("a", 1, "big", {R"(device.attributes["gpu.example.com"].slot == "1")"})})),
            "a:2");
}

TEST_F(DeviceAllocatorTest, ARuntimeErrorOfASelectorMakesTheClaimInvalid) {
  Slice(MakeSlice("s", "n1", {MakeDevice("0", {{"model", "a100"}}), MakeDevice("1")}));
  const std::string model = R"(device.attributes["gpu.example.com"].model == "a100")";
  EXPECT_EQ(Devices(MakeClaim({Exact("a", 1, "gpu", {model})})), "a:0")
      << "a device that isn't looked at can't fail";
  EXPECT_THAT(Devices(MakeClaim({Exact("a", 2, "gpu", {"true", model})})),
              HasSubstr("invalid: claim c0: request a: selector 1, device gpu.example.com/n1/1: "));
  inventory_.SetClass(MakeClass("models", {model}));
  EXPECT_THAT(Devices(MakeClaim({Exact("a", 2, "models")})),
              HasSubstr("request a: selector 0 of device class models, device gpu"));
}

TEST_F(DeviceAllocatorTest, ASelectorThatDoesNotCompileMakesTheClaimInvalid) {
  Slice(Gpus("n1", 1));
  EXPECT_THAT(Devices(MakeClaim({Exact("a", 1, "gpu", {"nonsense"})})),
              HasSubstr("does not compile"));
}

TEST_F(DeviceAllocatorTest, UnknownClassesAndKindsAreRefusedWhenCompiled) {
  const auto error = [&](const api::ClaimSpec& spec) {
    const auto compiled =
        CompileClaim(std::make_shared<api::ClaimSpec>(spec), "claim c", inventory_);
    return compiled ? "" : compiled.error().message;
  };
  EXPECT_EQ(error(MakeClaim({Exact("a", 1, "none")})),
            "claim c: request a: device class none does not exist");
  EXPECT_NE(error(MakeClaim({Exact("a", 1, "")})), "");
  EXPECT_NE(error(MakeClaim({Exact("a", 1, "gpu", {""})})), "");
  api::ClaimSpec spec = MakeClaim({Exact("a")});
  spec.requests[0].exactly->mode = "Most";
  EXPECT_NE(error(spec), "");
  spec = MakeClaim({Exact("a")});
  spec.constraints.emplace_back();
  EXPECT_NE(error(spec), "");
  spec = MakeClaim({});
  spec.requests.push_back({"a", {}, {}});
  EXPECT_NE(error(spec), "");
}

TEST_F(DeviceAllocatorTest, AClaimHasAtMost32Devices) {
  Slice(Gpus("n1", 40));
  EXPECT_THAT(Devices(MakeClaim({Exact("a", 33)})), HasSubstr("it asks for 33 devices"));
  EXPECT_EQ(Run({MakeClaim({Exact("a", 32)})}).claims[0].devices.size(), 32U);
  EXPECT_EQ(Run({MakeClaim({Exact("a", 20)}), MakeClaim({Exact("b", 20)})}).end,
            AllocationEnd::kDone);
}

TEST_F(DeviceAllocatorTest, TheBudgetEndsAHopelessSearch) {
  Slice(Gpus("n1", 40));
  api::ClaimSpec spec = MakeClaim({Exact("a", 10), Exact("b", 31)});
  spec.requests[1].exactly->count = 22;
  std::vector<api::ClaimSpec> specs{spec, MakeClaim({Exact("c", 9)})};
  EXPECT_EQ(Run(specs).end, AllocationEnd::kGaveUp);
  EXPECT_EQ(steps_, 0);
}

// --- all devices

TEST_F(DeviceAllocatorTest, AllMeansEverySelectedDeviceAndAtLeastOne) {
  Slice(MakeSlice("s", "n1",
                  {MakeDevice("0", {{"k", "x"}}), MakeDevice("1", {{"k", "y"}}),
                   MakeDevice("2", {{"k", "x"}})}));
  const std::string x = R"(device.attributes["gpu.example.com"].k == "x")";
  EXPECT_EQ(Devices(MakeClaim({All("a", "gpu", {x})})), "a:0 a:2");
  EXPECT_EQ(Devices(MakeClaim({All("a", "gpu", {"false"})})), "none");
  EXPECT_EQ(Devices(MakeClaim({Exact("one"), All("a", "gpu", {x})})), "one:1 a:0 a:2");
  Taken("n1", "2");
  EXPECT_EQ(Devices(MakeClaim({All("a", "gpu", {x})})), "none");
}

TEST_F(DeviceAllocatorTest, AllIsRefusedWhileAPoolIsIncomplete) {
  Slice(Gpus("n1", 2));
  auto partial = MakeSlice("p", "n1", {MakeDevice("x")}, "other.example.com");
  partial.slice_count = 2;
  Slice(partial);
  EXPECT_THAT(Devices(MakeClaim({All("a")})),
              HasSubstr("updating: claim c0: request a: it asks for all devices, but resource "
                        "pool other.example.com/n1 is being updated"));
  EXPECT_EQ(Devices(MakeClaim({Exact("a", 2)})), "a:gpu-0 a:gpu-1");
  EXPECT_EQ(Devices(MakeClaim({Exact("a", 3)})), "none") << "an incomplete pool gives nothing";
}

TEST_F(DeviceAllocatorTest, AllThatBreaksAConstraintIsAnInvalidClaim) {
  Slice(MakeSlice("s", "n1", {MakeDevice("0", {{"k", "x"}}), MakeDevice("1", {{"k", "y"}})}));
  api::ClaimSpec spec = MakeClaim({All("a")});
  spec.constraints.push_back({{}, "gpu.example.com/k", ""});
  EXPECT_THAT(Devices(spec), HasSubstr("device gpu.example.com/n1/1 breaks a constraint"));
}

// --- alternatives

TEST_F(DeviceAllocatorTest, TheFirstAlternativeThatWorksIsTaken) {
  Slice(Gpus("n1", 3));
  api::ClaimSpec spec;
  spec.requests.push_back(FirstAvailable("any", {Exact("many", 4), Exact("two", 2), Exact("one")}));
  EXPECT_EQ(Devices(spec), "any/two:gpu-0 any/two:gpu-1");
  spec.requests.push_back(MakeClaim({Exact("more", 2)}).requests[0]);
  EXPECT_EQ(Devices(spec), "any/one:gpu-0 more:gpu-1 more:gpu-2");
}

TEST_F(DeviceAllocatorTest, AlternativesWithFewerDevicesKeepAClaimWithin32) {
  Slice(Gpus("n1", 40));
  api::ClaimSpec spec = MakeClaim({Exact("a", 30)});
  spec.requests.push_back(FirstAvailable("b", {Exact("many", 5), Exact("two", 2)}));
  const Allocation found = Run({spec});
  ASSERT_EQ(found.end, AllocationEnd::kDone);
  EXPECT_EQ(found.claims[0].devices.size(), 32U);
  EXPECT_EQ(found.claims[0].devices.back().alternative, 1U);
}

// --- constraints

TEST_F(DeviceAllocatorTest, MatchAttributeHoldsDevicesTogether) {
  Slice(MakeSlice("s", "n1",
                  {MakeDevice("0", {{"root", "a"}}), MakeDevice("1", {{"root", "b"}}),
                   MakeDevice("2"), MakeDevice("3", {{"root", "b"}})}));
  api::ClaimSpec spec = MakeClaim({Exact("a", 2)});
  spec.constraints.push_back({{}, "gpu.example.com/root", ""});
  EXPECT_EQ(Devices(spec), "a:1 a:3");
  spec.constraints[0].requests = {"b"};
  EXPECT_EQ(Devices(spec), "a:0 a:1") << "a constraint on other requests";
  spec = MakeClaim({Exact("a"), Exact("b"), Exact("c")});
  spec.constraints.push_back({{"a", "c"}, "gpu.example.com/root", ""});
  EXPECT_EQ(Devices(spec), "a:1 b:0 c:3");
}

TEST_F(DeviceAllocatorTest, ConstraintsNameASubrequestOrItsList) {
  Slice(MakeSlice("s", "n1",
                  {MakeDevice("0", {{"root", "a"}}), MakeDevice("1", {{"root", "b"}}),
                   MakeDevice("2", {{"root", "b"}})}));
  api::ClaimSpec spec;
  spec.requests.push_back(FirstAvailable("l", {Exact("two", 2), Exact("one")}));
  spec.constraints.push_back({{"l/two"}, "gpu.example.com/root", ""});
  EXPECT_EQ(Devices(spec), "l/two:1 l/two:2");
  spec.constraints[0].requests = {"l"};
  EXPECT_EQ(Devices(spec), "l/two:1 l/two:2");
  spec.constraints[0].requests = {"l/one"};
  EXPECT_EQ(Devices(spec), "l/two:0 l/two:1");
}

TEST_F(DeviceAllocatorTest, DistinctAttributeHoldsAllDevicesApartAlsoWithinOneRequest) {
  // 1.36.3 compares only with the last device of a request: it would take 0, 1 and 2.
  Slice(MakeSlice("s", "n1",
                  {MakeDevice("0", {{"root", "a"}}), MakeDevice("1", {{"root", "b"}}),
                   MakeDevice("2", {{"root", "a"}}), MakeDevice("3", {{"root", "c"}})}));
  api::ClaimSpec spec = MakeClaim({Exact("a", 3)});
  spec.constraints.push_back({{}, "", "gpu.example.com/root"});
  EXPECT_EQ(Devices(spec), "a:0 a:1 a:3");
  EXPECT_EQ(Devices(MakeClaim({Exact("a", 4)})), "a:0 a:1 a:2 a:3");
  spec.requests[0].exactly->count = 4;
  EXPECT_EQ(Devices(spec), "none");
}

TEST_F(DeviceAllocatorTest, ValuesOfUnlikeTypesNeverMatch) {
  auto slice = MakeSlice("s", "n1", {MakeDevice("0"), MakeDevice("1"), MakeDevice("2")});
  slice.devices[0].facts.attributes[kDriver]["v"] = int64_t{1};
  slice.devices[1].facts.attributes[kDriver]["v"] = std::string("1");
  slice.devices[2].facts.attributes[kDriver]["v"] = int64_t{1};
  Slice(slice);
  api::ClaimSpec spec = MakeClaim({Exact("a", 2)});
  spec.constraints.push_back({{}, "gpu.example.com/v", ""});
  EXPECT_EQ(Devices(spec), "a:0 a:2");
}

// --- taints and admin access

TEST_F(DeviceAllocatorTest, TaintsKeepRequestsAwayUnlessTolerated) {
  Slice(MakeSlice("s", "n1",
                  {WithTaint(MakeDevice("0"), "sick", "NoSchedule"),
                   WithTaint(MakeDevice("1"), "sick", "NoExecute"),
                   WithTaint(MakeDevice("2"), "sick", "None"), MakeDevice("3")}));
  EXPECT_EQ(Devices(MakeClaim({Exact("a", 2)})), "a:2 a:3");
  api::ExactRequest tolerant = Exact("a", 3);
  tolerant.tolerations = {{"sick", "Exists", "", "NoSchedule", {}}};
  EXPECT_EQ(Devices(MakeClaim({tolerant})), "a:0 a:2 a:3");
  EXPECT_EQ(Devices(MakeClaim({All("a")})), "none");
}

TEST_F(DeviceAllocatorTest, AdminAccessIgnoresUseAndTakesNothing) {
  Slice(Gpus("n1", 2));
  Taken("n1", "gpu-0");
  api::ExactRequest admin = Exact("a", 2);
  admin.admin_access = true;
  const Allocation found = Run({MakeClaim({admin})});
  ASSERT_EQ(found.end, AllocationEnd::kDone);
  EXPECT_EQ(found.claims[0].devices.size(), 2U);
  EXPECT_TRUE(found.claims[0].Uses().empty());
  admin.count = 3;
  EXPECT_EQ(Devices(MakeClaim({admin})), "none") << "not twice in one claim";
  admin.count = 1;
  EXPECT_EQ(Devices({MakeClaim({admin}), MakeClaim({admin})}), "a:gpu-0|a:gpu-0");
}

// --- partitions

TEST_F(DeviceAllocatorTest, SharedCountersLimitPartitions) {
  auto counters = MakeSlice("counters", "n1", {});
  counters.shared_counters = {{"chip", {{"slots", Amount("4")}}}};
  auto partitions =
      MakeSlice("parts", "n1",
                {WithCounters(MakeDevice("whole"), "chip", "slots", "4"),
                 WithCounters(MakeDevice("half-0"), "chip", "slots", "2"),
                 WithCounters(MakeDevice("half-1"), "chip", "slots", "2"), MakeDevice("free")});
  counters.slice_count = partitions.slice_count = 2;
  Slice(counters);
  Slice(partitions);
  EXPECT_EQ(Devices(MakeClaim({Exact("a")})), "a:whole");
  EXPECT_EQ(Devices(MakeClaim({Exact("a", 3)})), "a:half-0 a:half-1 a:free");
  EXPECT_EQ(Devices(MakeClaim({Exact("a", 4)})), "none");
  Taken("n1", "half-1");
  EXPECT_EQ(Devices(MakeClaim({Exact("a")})), "a:half-0");
  Taken("n1", "whole");  // over-committed: nothing that counts is given
  EXPECT_EQ(Devices(MakeClaim({Exact("a")})), "a:free");
}

TEST_F(DeviceAllocatorTest, PoolsWithUnknownCountersAreInvalid) {
  Slice(MakeSlice("parts", "n1", {WithCounters(MakeDevice("p"), "chip", "slots", "1")}));
  Slice(MakeSlice("other", "n1", {MakeDevice("x")}, "other.example.com"));
  EXPECT_EQ(Devices(MakeClaim({Exact("a")})), "a:x");
  EXPECT_EQ(Devices(MakeClaim({Exact("a", 2)})), "none");
  EXPECT_THAT(Devices(MakeClaim({All("a")})), HasSubstr("is invalid: counter set chip not found"));
}

TEST_F(DeviceAllocatorTest, PoolsOfOneNameAndTwoDriversHaveTheirOwnCounters) {
  // 1.36.3 files counters under the pool's name alone.
  for (const std::string driver : {"a.example.com", "b.example.com"}) {
    auto counters = MakeSlice("counters-" + driver, "n1", {}, driver);
    counters.shared_counters = {
        {"chip", {{"slots", Amount(driver == "a.example.com" ? "1" : "3")}}}};
    auto parts = MakeSlice("parts-" + driver, "n1",
                           {WithCounters(MakeDevice("p-" + driver), "chip", "slots", "1")}, driver);
    counters.slice_count = parts.slice_count = 2;
    Slice(counters);
    Slice(parts);
  }
  EXPECT_EQ(Devices(MakeClaim({Exact("a", 2)})), "a:p-a.example.com a:p-b.example.com");
}

// --- consumable capacity

TEST_F(DeviceAllocatorTest, SharesTakePartOfTheCapacity) {
  api::Device nic = WithCapacity(MakeDevice("nic"), "bandwidth", "10");
  nic.facts.allow_multiple_allocations = true;
  Slice(MakeSlice("s", "n1", {nic}));
  api::ExactRequest four = Exact("a");
  four.capacity = {{"bandwidth", Amount("4")}};
  const Allocation found = Run({MakeClaim({four}), MakeClaim({four})});
  ASSERT_EQ(found.end, AllocationEnd::kDone);
  EXPECT_EQ(found.claims[1].devices[0].use.consumed, (Capacities{{"bandwidth", Amount("4")}}));
  EXPECT_EQ(Devices({MakeClaim({four}), MakeClaim({four}), MakeClaim({four})}), "none");
  EXPECT_EQ(Devices(MakeClaim({Exact("a")})), "a:nic") << "unasked: all of it";
  for (const DeviceUse& use : found.claims[0].Uses())
    book_.Take(use);
  EXPECT_EQ(Devices(MakeClaim({four})), "a:nic");
  EXPECT_EQ(Devices({MakeClaim({four}), MakeClaim({four})}), "none");
  EXPECT_EQ(Devices(MakeClaim({Exact("a")})), "none");
  four.capacity = {{"other", Amount("1")}};
  EXPECT_EQ(Devices(MakeClaim({four})), "none") << "the device has no such capacity";
}

TEST_F(DeviceAllocatorTest, AskedCapacityAlsoFiltersDevicesThatAreNotShared) {
  Slice(MakeSlice("s", "n1",
                  {WithCapacity(MakeDevice("small"), "memory", "10Gi"),
                   WithCapacity(MakeDevice("large"), "memory", "40Gi")}));
  api::ExactRequest request = Exact("a");
  request.capacity = {{"memory", Amount("20Gi")}};
  EXPECT_EQ(Devices(MakeClaim({request})), "a:large");
  api::ExactRequest all = All("a");
  all.capacity = request.capacity;
  EXPECT_EQ(Devices(MakeClaim({all})), "a:large") << "smaller ones are not among all";
}

TEST_F(DeviceAllocatorTest, ASharedDeviceTakesItsCountersOnce) {
  auto counters = MakeSlice("counters", "n1", {});
  counters.shared_counters = {{"chip", {{"slots", Amount("1")}}}};
  api::Device part = WithCapacity(WithCounters(MakeDevice("p"), "chip", "slots", "1"), "m", "2");
  part.facts.allow_multiple_allocations = true;
  auto parts = MakeSlice("parts", "n1", {part});
  counters.slice_count = parts.slice_count = 2;
  Slice(counters);
  Slice(parts);
  api::ExactRequest one = Exact("a");
  one.capacity = {{"m", Amount("1")}};
  EXPECT_EQ(Devices({MakeClaim({one}), MakeClaim({one})}), "a:p|a:p");
  EXPECT_EQ(Devices({MakeClaim({one}), MakeClaim({one}), MakeClaim({one})}), "none");
}

// --- where the claim may be used

TEST_F(DeviceAllocatorTest, TheNodeSelectorFollowsTheDevices) {
  Slice(Gpus("n1", 1));
  auto rack = MakeSlice("rack", "", {MakeDevice("link", {}, "z.example.com")}, "z.example.com");
  rack.node_selector = SelectNodes("rack", "a");
  Slice(rack);
  auto everywhere =
      MakeSlice("all", "", {MakeDevice("license", {}, "y.example.com")}, "y.example.com");
  everywhere.all_nodes = true;
  Slice(everywhere);
  const auto selector = [&](const std::string& driver) {
    return Run({MakeClaim({Exact("a", 1, "gpu", {"device.driver == \"" + driver + "\""})})})
        .claims[0]
        .node_selector;
  };
  ASSERT_TRUE(selector(kDriver).has_value());
  EXPECT_TRUE(selector(kDriver)->Matches({}, "n1"));
  EXPECT_FALSE(selector(kDriver)->Matches({{"rack", "a"}}, "n2"));
  EXPECT_EQ(selector("z.example.com"), SelectNodes("rack", "a"));
  EXPECT_FALSE(selector("y.example.com").has_value());
  EXPECT_EQ(Devices(MakeClaim({Exact("a", 2)}), "n2"), "none") << "only the license is there";
}

TEST_F(DeviceAllocatorTest, DevicesOfOneSliceCanBelongToDifferentNodes) {
  auto slice = MakeSlice("s", "", {MakeDevice("of-n2"), MakeDevice("of-rack"), MakeDevice("any")});
  slice.per_device_nodes = true;
  slice.devices[0].node_name = "n2";
  slice.devices[1].node_selector = SelectNodes("rack", "a");
  slice.devices[2].all_nodes = true;
  slice.devices[2].binds_to_node = true;
  Slice(slice);
  EXPECT_EQ(Devices(MakeClaim({Exact("a", 2)})), "a:of-rack a:any");
  EXPECT_EQ(Devices(MakeClaim({Exact("a", 2)}), "n2"), "a:of-n2 a:any");
  EXPECT_EQ(Devices(MakeClaim({All("a")})), "a:of-rack a:any");
  EXPECT_EQ(Run({MakeClaim({Exact("a")})}).claims[0].node_selector, SelectNodes("rack", "a"));
  EXPECT_TRUE(Run({MakeClaim({Exact("a", 2)})}).claims[0].node_selector->Matches({}, "n1"))
      << "a device that binds to its node ties the claim to it";
  nodes_.labels["n1"]["rack"] = "b";
  inventory_.NodeChanged("n1");
  EXPECT_EQ(Devices(MakeClaim({Exact("a")})), "a:any");
}

// --- extended resources

TEST_F(DeviceAllocatorTest, ContainersGetDevicesForExtendedResources) {
  auto gpu = MakeClass("gpu");
  gpu.extended_resource_name = "example.com/gpu";
  inventory_.SetClass(gpu);
  const auto claim = ExtendedResourceClaim({{0, true, "example.com/gpu", 3, 0},
                                            {1, true, "example.com/gpu", 5, 2},
                                            {2, false, "example.com/gpu", 1, 0},
                                            {10, false, "example.com/gpu", 2, 1},
                                            {10, false, "other.example.com/x", 2, 3}},
                                           {"example.com/gpu", "other.example.com/x"}, inventory_);
  ASSERT_NE(claim, nullptr);
  std::vector<std::string> requests;
  for (const api::DeviceRequest& request : claim->requests) {
    requests.push_back(request.name + "=" + std::to_string(request.exactly->count) + " " +
                       request.exactly->device_class);
  }
  EXPECT_THAT(requests, ElementsAre("container-1-request-2=2 gpu", "container-10-request-1=2 gpu",
                                    "container-2-request-0=1 gpu"))
      << "init containers reuse 3 devices; the larger rest counts";
  EXPECT_EQ(ExtendedResourceClaim({{0, false, "other.example.com/x", 1, 0}},
                                  {"other.example.com/x"}, inventory_),
            nullptr);
}

TEST_F(DeviceAllocatorTest, OfClassesWithOneResourceNameTheNewestCountsThenTheFirstByName) {
  const auto with_name = [&](const std::string& name, int seconds) {
    auto device_class = MakeClass(name);
    device_class.extended_resource_name = "example.com/gpu";
    device_class.meta.created = kNoTime + std::chrono::seconds(seconds);
    inventory_.SetClass(device_class);
  };
  with_name("z", 100);
  with_name("m", 200);
  with_name("a", 100);
  EXPECT_EQ(inventory_.ClassOfResource("example.com/gpu")->meta.name, "m");
  with_name("m", 100);
  EXPECT_EQ(inventory_.ClassOfResource("example.com/gpu")->meta.name, "a");
  inventory_.RemoveClass("a");
  EXPECT_EQ(inventory_.ClassOfResource("example.com/gpu")->meta.name, "m");
  EXPECT_EQ(inventory_.ClassOfResource("deviceclass.resource.kubernetes.io/z")->meta.name, "z");
  EXPECT_EQ(inventory_.ClassOfResource("example.com/none"), nullptr);
  EXPECT_EQ(inventory_.ClassOfResource(""), nullptr);
}

}  // namespace
}  // namespace tutti::engine
