// SPDX-License-Identifier: Apache-2.0
#include "engine/device_quota.h"

#include <gtest/gtest.h>

#include "engine/device_test_util.h"

namespace tutti::engine {
namespace {

using Kind = DeviceQuotaSource::Kind;
const std::string kModel = "device.attributes[\"gpu.example.com\"].model == ";

class DeviceQuotaTest : public testing::Test {
 protected:
  void SetUp() override { inventory_.SetClass(MakeClass("gpu")); }

  DeviceCharge Charge(const api::ClaimSpec& spec, const api::Amounts& requests = {}) {
    return DeviceQuota(mappings_).ChargeOf({{"c", "t", &spec}}, requests, inventory_);
  }
  void Add(api::ResourceSlice slice) { inventory_.SetSlice(Shared(std::move(slice))); }

  FakeNodes nodes_;
  DeviceInventory inventory_{nodes_};
  std::vector<DeviceClassMapping> mappings_ = {{"gpus", {"gpu", "gpu-small"}, {}}};
};

TEST_F(DeviceQuotaTest, DevicesOfAllRequestsAndClassesOfAMappingAddUp) {
  const DeviceCharge charge = Charge(MakeClaim({Exact("a", 2), Exact("b", 3, "gpu-small")}));
  EXPECT_EQ(charge.problem, "");
  EXPECT_EQ(charge.amounts, (api::Amounts{{"gpus", 5}}));
}

TEST_F(DeviceQuotaTest, AClassWithoutAMappingIsNamed) {
  const DeviceCharge charge = Charge(MakeClaim({Exact("a", 1, "nic")}));
  EXPECT_EQ(charge.problem,
            "resourceClaims[c] (ResourceClaimTemplate t), request a: DeviceClass nic is in no "
            "deviceClassMappings of the configuration: add it there, and its resource to the "
            "ClusterQueue");
}

TEST_F(DeviceQuotaTest, WhatHasNoFixedNumberIsRefused) {
  api::ClaimSpec list;
  list.requests = {FirstAvailable("a", {Exact("x"), Exact("y")})};
  EXPECT_NE(Charge(list).problem.find("firstAvailable"), std::string::npos);
  EXPECT_NE(Charge(MakeClaim({All("a")})).problem.find("allocationMode All"), std::string::npos);
  api::ExactRequest admin = Exact("a");
  admin.admin_access = true;
  EXPECT_NE(Charge(MakeClaim({admin})).problem.find("adminAccess"), std::string::npos);
}

TEST_F(DeviceQuotaTest, SelectorsMustMatchEnoughDevicesOfTheCluster) {
  Add(MakeSlice("s", "n1",
                {MakeDevice("0", {{"model", "a"}}), MakeDevice("1", {{"model", "a"}}),
                 MakeDevice("2", {{"model", "b"}})}));
  const auto ask = [this](int64_t count, const std::string& model) {
    return Charge(MakeClaim({Exact("r", count, "gpu", {kModel + model})}));
  };
  EXPECT_EQ(ask(2, "\"a\"").amounts, (api::Amounts{{"gpus", 2}}));
  EXPECT_NE(ask(2, "\"b\"").problem.find("only 1 in the cluster match"), std::string::npos);
  // One device can't satisfy two requests.
  EXPECT_NE(Charge(MakeClaim({Exact("x", 1, "gpu", {kModel + "\"b\""}),
                              Exact("y", 1, "gpu", {kModel + "\"b\""})}))
                .problem.find("request y: asks for 1 devices, but only 0"),
            std::string::npos);
  EXPECT_NE(Charge(MakeClaim({Exact("r", 1, "gpu", {"nonsense"})})).problem.find("selector fails"),
            std::string::npos);
}

TEST_F(DeviceQuotaTest, ACounterIsChargedByTheLargestDeviceThatMatches) {
  mappings_ = {{"gpu-memory", {"gpu"}, {{Kind::kCounter, "memory", kDriver, ""}}},
               {"gpu-slices", {"gpu"}, {{Kind::kCounter, "slices", kDriver, kModel + "\"a\""}}}};
  api::Device small = WithCounters(MakeDevice("0", {{"model", "a"}}), "set", "memory", "10Gi");
  small.consumes[0].counters["slices"] = Amount("1");
  api::Device large = WithCounters(MakeDevice("1", {{"model", "b"}}), "set", "memory", "40Gi");
  large.consumes[0].counters["slices"] = Amount("4");
  api::ResourceSlice slice = MakeSlice("s", "n1", {small, large});
  slice.slice_count = 2;  // the one with the counters is missing
  Add(slice);
  EXPECT_NE(Charge(MakeClaim({Exact("r")})).problem.find("only 0 match"), std::string::npos);
  api::ResourceSlice counters = MakeSlice("t", "n1", {});
  counters.pool = slice.pool;
  counters.slice_count = 2;
  counters.shared_counters = {{"set", {{"memory", Amount("80Gi")}, {"slices", Amount("8")}}}};
  Add(counters);
  const DeviceCharge charge = Charge(MakeClaim({Exact("r")}));
  EXPECT_EQ(charge.problem, "");
  EXPECT_EQ(charge.amounts, (api::Amounts{{"gpu-memory", int64_t{40} << 30}, {"gpu-slices", 1}}));
  EXPECT_NE(Charge(MakeClaim({Exact("r", 2)})).problem.find("asks for 2 devices of driver"),
            std::string::npos);
}

TEST_F(DeviceQuotaTest, ACapacityIsChargedAsThePolicyRoundsIt) {
  mappings_ = {{"gpu-memory", {"gpu"}, {{Kind::kCapacity, "memory", kDriver, ""}}}};
  api::Device device = WithCapacity(MakeDevice("0"), "memory", "80Gi");
  api::CapacityPolicy policy;
  policy.default_value = Amount("4Gi");
  policy.has_range = true;
  policy.min = Amount("2Gi");
  policy.step = Amount("2Gi");
  policy.max = Amount("60Gi");
  device.capacity["memory"].policy = policy;
  Add(MakeSlice("s", "n1", {device}));
  const auto ask = [this](const std::string& amount) {
    api::ExactRequest request = Exact("r");
    if (!amount.empty())
      request.capacity["memory"] = Amount(amount);
    return Charge(MakeClaim({request}));
  };
  EXPECT_EQ(ask("").amounts["gpu-memory"], int64_t{4} << 30);
  EXPECT_EQ(ask("5Gi").amounts["gpu-memory"], int64_t{6} << 30);
  EXPECT_NE(ask("70Gi").problem.find("no device that matches has the capacity memory"),
            std::string::npos);
}

TEST_F(DeviceQuotaTest, ExtendedResourcesThatAClassStandsForCountAsTheClass) {
  api::DeviceClass with_name = MakeClass("gpu");
  with_name.extended_resource_name = "example.com/gpu";
  inventory_.SetClass(with_name);
  const DeviceCharge charge =
      Charge(MakeClaim({Exact("a", 1)}), {{"cpu", 1000}, {"example.com/gpu", 2}});
  EXPECT_EQ(charge.amounts, (api::Amounts{{"gpus", 3}}));
  EXPECT_EQ(charge.replaced, (std::set<std::string>{"example.com/gpu"}));

  mappings_ = {{"gpu-memory", {"gpu"}, {{Kind::kCounter, "memory", kDriver, ""}}}};
  EXPECT_NE(DeviceQuota(mappings_)
                .ChargeOf({}, {{"example.com/gpu", 2}}, inventory_)
                .problem.find("ask for it by a ResourceClaimTemplate"),
            std::string::npos);
}

// known-bugs D2
TEST_F(DeviceQuotaTest, OfSeveralClassesForOneResourceTheOneThatTheSchedulerTakesIsCharged) {
  const auto add = [this](const std::string& name, int created) {
    api::DeviceClass device_class = MakeClass(name);
    device_class.extended_resource_name = "example.com/gpu";
    device_class.meta.created = Time(std::chrono::seconds(created));
    inventory_.SetClass(device_class);
  };
  mappings_ = {{"old", {"a-old"}, {}}, {"new", {"b-new", "c-new"}, {}}};
  add("a-old", 1);
  add("b-new", 2);
  const DeviceQuota quota(mappings_);
  EXPECT_EQ(quota.ChargeOf({}, {{"example.com/gpu", 2}}, inventory_).amounts,
            (api::Amounts{{"new", 2}}));
  inventory_.RemoveClass("b-new");
  EXPECT_EQ(quota.ChargeOf({}, {{"example.com/gpu", 2}}, inventory_).amounts,
            (api::Amounts{{"old", 2}}));
}

// known-bugs D7
TEST_F(DeviceQuotaTest, CountersThatMakeNoSenseAreClamped) {
  mappings_ = {{"gpu-memory", {"gpu"}, {{Kind::kCounter, "memory", kDriver, ""}}}};
  api::ResourceSlice slice =
      MakeSlice("s", "n1", {WithCounters(MakeDevice("0"), "set", "memory", "-1")});
  slice.shared_counters = {{"set", {{"memory", Amount("1")}}}};
  Add(slice);
  EXPECT_EQ(Charge(MakeClaim({Exact("r")})).amounts["gpu-memory"], 0);
  slice.devices = {WithCounters(MakeDevice("0"), "set", "memory", "9223372036854775807"),
                   WithCounters(MakeDevice("1"), "set", "memory", "1")};
  Add(slice);
  EXPECT_EQ(Charge(MakeClaim({Exact("r", 2)})).amounts["gpu-memory"], INT64_MAX);
}

TEST_F(DeviceQuotaTest, AmountsSaturate) {
  const DeviceCharge charge = Charge(MakeClaim({Exact("a", INT64_MAX), Exact("b", INT64_MAX)}));
  EXPECT_EQ(charge.amounts.at("gpus"), INT64_MAX);
}

}  // namespace
}  // namespace tutti::engine
