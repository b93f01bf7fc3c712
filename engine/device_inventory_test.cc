// SPDX-License-Identifier: Apache-2.0
#include "engine/device_inventory.h"

#include <gtest/gtest.h>

#include "engine/device_test_util.h"

namespace tutti::engine {
namespace {

class DeviceInventoryTest : public testing::Test {
 protected:
  void SetUp() override { nodes_.labels = {{"n1", {{"rack", "a"}}}, {"n2", {{"rack", "b"}}}}; }
  void TearDown() override { EXPECT_EQ(inventory_.SanityCheck(), ""); }

  bool Set(api::ResourceSlice slice) {
    const bool changed = inventory_.SetSlice(Shared(std::move(slice)));
    EXPECT_EQ(inventory_.SanityCheck(), "");
    return changed;
  }
  // "pool: d0 d1; pool2 incomplete"
  std::string View(const std::string& node) {
    std::string text;
    for (const PoolView& pool : inventory_.ViewOf(node).pools) {
      text += (text.empty() ? "" : "; ") + pool.pool + ":";
      if (pool.incomplete)
        text += " incomplete";
      if (!pool.invalid.empty())
        text += " invalid, " + pool.invalid;
      for (const PoolView::Device& device : pool.devices)
        text += " " + inventory_.At(device.place).device->name + (device.here ? "" : "(away)");
    }
    return text;
  }
  // A slice of pool p.
  api::ResourceSlice Part(const std::string& name, const std::string& node, int64_t generation,
                          int64_t count, std::vector<api::Device> devices) {
    api::ResourceSlice slice = MakeSlice(name, node, std::move(devices));
    slice.pool = "p";
    slice.generation = generation;
    slice.slice_count = count;
    return slice;
  }

  FakeNodes nodes_;
  DeviceInventory inventory_{nodes_};
};

TEST_F(DeviceInventoryTest, AnEqualSliceChangesNothing) {
  EXPECT_TRUE(Set(Gpus("n1", 2)));
  EXPECT_FALSE(Set(Gpus("n1", 2)));
  api::ResourceSlice again = Gpus("n1", 2);
  again.meta.resource_version = "9";
  EXPECT_FALSE(Set(again));
  EXPECT_TRUE(Set(Gpus("n1", 3)));
  EXPECT_EQ(View("n1"), "n1: gpu-0 gpu-1 gpu-2");
  EXPECT_EQ(inventory_.Devices(), 3U);
  EXPECT_TRUE(inventory_.RemoveSlice("n1-gpus"));
  EXPECT_FALSE(inventory_.RemoveSlice("n1-gpus"));
  EXPECT_EQ(View("n1"), "");
  EXPECT_EQ(inventory_.Devices(), 0U);
}

TEST_F(DeviceInventoryTest, ADeviceThatStaysAsItIsKeepsItsPlaceAndItsVerdicts) {
  Set(Gpus("n1", 3));
  const int32_t first = inventory_.ViewOf("n1").pools[0].devices[0].place;
  const int32_t second = inventory_.ViewOf("n1").pools[0].devices[1].place;
  const int32_t selector = inventory_.Selector("device.driver == \"gpu.example.com\"");
  EXPECT_EQ(inventory_.Select(selector, first), Selection::kMatches);
  api::ResourceSlice changed = Gpus("n1", 2);
  changed.generation = 2;
  changed.devices[1].facts.attributes[kDriver]["model"] = std::string("t4");
  Set(changed);
  const auto& devices = inventory_.ViewOf("n1").pools[0].devices;
  EXPECT_EQ(devices[0].place, first);
  EXPECT_NE(devices[1].place, second);
  EXPECT_EQ(inventory_.At(first).slice->generation, 2);
}

TEST_F(DeviceInventoryTest, TheHighestGenerationCounts) {
  Set(Part("old", "n1", 1, 1, {MakeDevice("old")}));
  Set(Part("new", "n1", 2, 1, {MakeDevice("new")}));
  EXPECT_EQ(View("n1"), "p: new");
  inventory_.RemoveSlice("new");
  EXPECT_EQ(View("n1"), "p: old");
}

TEST_F(DeviceInventoryTest, PoolsAreIncompleteUntilAllSlicesOfTheGenerationAreThere) {
  Set(Part("a", "n1", 1, 2, {MakeDevice("a")}));
  EXPECT_EQ(View("n1"), "p: incomplete");
  Set(Part("b", "n2", 1, 2, {MakeDevice("b")}));
  EXPECT_EQ(View("n1"), "p: a") << "slices for other nodes count";
  EXPECT_EQ(View("n2"), "p: b");
  Set(Part("c", "n1", 2, 2, {MakeDevice("c")}));
  EXPECT_EQ(View("n1"), "p: incomplete");
  EXPECT_EQ(View("n2"), "") << "a newer generation elsewhere outdates what this node sees";
}

TEST_F(DeviceInventoryTest, DuplicateDevicesMakeAPoolInvalidForTheNodesThatSeeBoth) {
  Set(Part("a", "n1", 1, 3, {MakeDevice("x")}));
  Set(Part("b", "n1", 1, 3, {MakeDevice("x")}));
  Set(Part("c", "n2", 1, 3, {MakeDevice("y")}));
  EXPECT_EQ(View("n1"), "p: invalid, duplicate device name x");
  EXPECT_EQ(View("n2"), "p: y");
}

TEST_F(DeviceInventoryTest, DuplicateCounterSetsMakeAPoolInvalid) {
  for (const std::string name : {"a", "b"}) {
    api::ResourceSlice slice = Part(name, "n1", 1, 3, {});
    slice.shared_counters = {{"chip", {{"slots", Amount("1")}}}};
    Set(slice);
  }
  Set(Part("c", "n1", 1, 3, {MakeDevice("x")}));
  EXPECT_EQ(View("n1"), "p: invalid, duplicate counter set chip");
  EXPECT_EQ(inventory_.FarProblem("n1"), "");
  EXPECT_EQ(inventory_.FarProblem("n2"),
            "resource pool gpu.example.com/p is invalid: duplicate counter set chip");
}

TEST_F(DeviceInventoryTest, ASliceCanMoveToAnotherPoolAndNode) {
  Set(Gpus("n1", 1));
  api::ResourceSlice moved = Gpus("n1", 1);
  moved.pool = "other";
  Set(moved);
  EXPECT_EQ(View("n1"), "other: gpu-0");
  moved.node_name = "n2";
  Set(moved);
  EXPECT_EQ(View("n1"), "");
  EXPECT_EQ(View("n2"), "other: gpu-0");
  moved.node_name = "";
  moved.node_selector = SelectNodes("rack", "a");
  Set(moved);
  EXPECT_EQ(View("n1"), "other: gpu-0");
  EXPECT_EQ(View("n2"), "");
}

TEST_F(DeviceInventoryTest, NodesAreMatchedByLabelsAndSeenAgainWhenTheyChange) {
  api::ResourceSlice slice = Part("a", "", 1, 1, {MakeDevice("x"), MakeDevice("y")});
  slice.per_device_nodes = true;
  slice.devices[0].node_name = "n1";
  slice.devices[1].node_selector = SelectNodes("rack", "b");
  Set(slice);
  EXPECT_EQ(View("n1"), "p: x y(away)");
  EXPECT_EQ(View("n2"), "p: x(away) y");
  nodes_.labels["n2"]["rack"] = "c";
  inventory_.NodeChanged("n2");
  EXPECT_EQ(View("n2"), "");
}

TEST_F(DeviceInventoryTest, IdsOutliveSlicesForAsLongAsSomebodySpeaksOfThem) {
  Set(Gpus("n1", 1));
  const int32_t id = inventory_.AcquireId(kDriver, "n1", "gpu-0");
  inventory_.RemoveSlice("n1-gpus");
  EXPECT_EQ(inventory_.FindId(kDriver, "n1", "gpu-0"), id);
  EXPECT_EQ(inventory_.NameOf(id), "gpu.example.com/n1/gpu-0");
  inventory_.ReleaseId(id);
  EXPECT_EQ(inventory_.FindId(kDriver, "n1", "gpu-0"), -1);
}

}  // namespace
}  // namespace tutti::engine
