// SPDX-License-Identifier: Apache-2.0
#include "api/dra.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::api {
namespace {

using testing::ElementsAre;

Json Parsed(std::string_view text) {
  Result<Json> json = Json::Parse(text);
  EXPECT_TRUE(json.has_value()) << text;
  return json.value_or(Json());
}

Quantity Q(std::string_view text) {
  return Quantity::Parse(text).value();
}

constexpr std::string_view kSlice = R"({
  "metadata": {"name": "node-1-gpus", "resourceVersion": "7"},
  "spec": {
    "driver": "gpu.example.com",
    "pool": {"name": "node-1", "generation": 3, "resourceSliceCount": 2},
    "nodeName": "node-1",
    "devices": [{
      "name": "gpu-0",
      "attributes": {
        "model": {"string": "a100"}, "pci.example.com/root": {"string": "pci0"},
        "index": {"int": 0}, "ecc": {"bool": true}, "driver": {"version": "1.2.3"},
        "links": {"ints": [1, 2]}},
      "capacity": {
        "memory": {"value": "40Gi", "requestPolicy": {
          "default": "1Gi", "validRange": {"min": "1Gi", "max": "40Gi", "step": "1Gi"}}},
        "other.example.com/cores": {"value": "8", "requestPolicy": {"validValues": ["1", "8"]}}},
      "consumesCounters": [{"counterSet": "chip", "counters": {"slots": {"value": "2"}}}],
      "taints": [{"key": "k", "value": "v", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}],
      "bindsToNode": true,
      "bindingConditions": ["attached"], "bindingFailureConditions": ["failed"],
      "allowMultipleAllocations": true}]}})";

TEST(ResourceSlice, IsRead) {
  const Result<ResourceSlice> slice = ResourceSliceFromJson(Parsed(kSlice));
  ASSERT_TRUE(slice.has_value()) << slice.error().message;
  EXPECT_EQ(slice->driver, "gpu.example.com");
  EXPECT_EQ(slice->pool, "node-1");
  EXPECT_EQ(slice->generation, 3);
  EXPECT_EQ(slice->slice_count, 2);
  EXPECT_EQ(slice->node_name, "node-1");
  ASSERT_EQ(slice->devices.size(), 1U);
  const Device& device = slice->devices[0];
  EXPECT_EQ(device.facts.driver, "gpu.example.com");
  EXPECT_TRUE(device.facts.allow_multiple_allocations);
  EXPECT_EQ(device.facts.attributes.size(), 2U);
  EXPECT_EQ(device.facts.capacity.at("other.example.com").at("cores"), Q("8"));
  EXPECT_EQ(device.capacity.at("memory").policy->step, Q("1Gi"));
  EXPECT_EQ(device.capacity.at("other.example.com/cores").policy->valid_values,
            (std::vector<Quantity>{Q("1"), Q("8")}));
  EXPECT_EQ(device.consumes[0].counters.at("slots"), Q("2"));
  EXPECT_EQ(device.taints, (std::vector<Taint>{{"k", "v", "NoSchedule"}}));
  EXPECT_TRUE(device.binds_to_node);
  EXPECT_THAT(device.binding_conditions, ElementsAre("attached"));
}

TEST(ResourceSlice, ReadsSharedCountersAndEveryWayToNameNodes) {
  const Result<ResourceSlice> slice = ResourceSliceFromJson(Parsed(R"({
    "metadata": {"name": "s"}, "spec": {"driver": "d", "pool": {"name": "p"},
    "perDeviceNodeSelection": true,
    "sharedCounters": [{"name": "chip", "counters": {"slots": {"value": "8"}}}],
    "devices": [{"name": "a", "nodeName": "n"}, {"name": "b", "allNodes": true},
      {"name": "c", "nodeSelector": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}]}}]}})"));
  ASSERT_TRUE(slice.has_value()) << slice.error().message;
  EXPECT_TRUE(slice->per_device_nodes);
  EXPECT_EQ(slice->shared_counters[0].counters.at("slots"), Q("8"));
  EXPECT_EQ(slice->devices[0].node_name, "n");
  EXPECT_TRUE(slice->devices[1].all_nodes);
  EXPECT_TRUE(slice->devices[2].node_selector->Matches({{"rack", "r1"}}, "n"));
  EXPECT_FALSE(slice->devices[2].node_selector->Matches({{"rack", "r2"}}, "n"));
}

TEST(ResourceSlice, EqualSpecsAreToldFromEveryChange) {
  const ResourceSlice slice = ResourceSliceFromJson(Parsed(kSlice)).value();
  Json again = Parsed(kSlice);
  again.At("metadata").Set("resourceVersion", "8");
  EXPECT_TRUE(SameSpec(slice, ResourceSliceFromJson(again).value()));
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"\"generation\": 3", "\"generation\": 4"},
           {"\"resourceSliceCount\": 2", "\"resourceSliceCount\": 1"},
           {"a100", "h100"},
           {"[1, 2]", "[1, 3]"},
           {"1.2.3", "1.2.4"},
           {"\"ecc\": {\"bool\": true}", "\"ecc\": {\"bool\": false}"},
           {"40Gi\", \"requestPolicy", "41Gi\", \"requestPolicy"},
           {"\"step\": \"1Gi\"", "\"step\": \"2Gi\""},
           {"\"slots\": {\"value\": \"2\"}", "\"slots\": {\"value\": \"3\"}"},
           {"NoSchedule", "NoExecute"},
           {"\"bindsToNode\": true", "\"bindsToNode\": false"},
           {"attached", "ready"},
           {"\"allowMultipleAllocations\": true", "\"allowMultipleAllocations\": false"}}) {
    std::string text(kSlice);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    EXPECT_FALSE(SameSpec(slice, ResourceSliceFromJson(Parsed(text)).value())) << to;
  }
}

TEST(Device, AttributesAreFoundByTheirFullName) {
  const Device device = ResourceSliceFromJson(Parsed(kSlice)).value().devices[0];
  ASSERT_NE(FindAttribute(device, "gpu.example.com/model"), nullptr);
  EXPECT_EQ(std::get<std::string>(*FindAttribute(device, "gpu.example.com/model")), "a100");
  ASSERT_NE(FindAttribute(device, "pci.example.com/root"), nullptr);
  EXPECT_EQ(FindAttribute(device, "model"), nullptr);
  EXPECT_EQ(FindAttribute(device, "pci.example.com/model"), nullptr);
}

TEST(Device, AttributesAreTheSameOnlyWithinOneType) {
  using V = cel::AttributeValue;
  EXPECT_TRUE(SameAttribute(V(int64_t{1}), V(int64_t{1})));
  EXPECT_FALSE(SameAttribute(V(int64_t{1}), V(true)));
  EXPECT_FALSE(SameAttribute(V(std::string("1.0.0")), V(cel::Version{"1.0.0"})));
  EXPECT_TRUE(SameAttribute(V(cel::Version{"1.0.0"}), V(cel::Version{"1.0.0"})));
  EXPECT_FALSE(SameAttribute(V(std::vector<int64_t>{1}), V(std::vector<int64_t>{1})));
}

TEST(DeviceClass, IsRead) {
  const Result<DeviceClass> device_class = DeviceClassFromJson(Parsed(R"({
    "metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu",
    "selectors": [{"cel": {"expression": "device.driver == 'd'"}}, {"later": {}}]}})"));
  ASSERT_TRUE(device_class.has_value());
  EXPECT_THAT(device_class->selectors, ElementsAre("device.driver == 'd'", ""));
  EXPECT_EQ(device_class->extended_resource_name, "example.com/gpu");
}

TEST(ResourceClaim, IsRead) {
  const Result<ResourceClaim> claim = ResourceClaimFromJson(Parsed(R"({
    "metadata": {"name": "c", "namespace": "ns"},
    "spec": {"devices": {
      "requests": [
        {"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount",
          "count": 2, "adminAccess": true, "selectors": [{"cel": {"expression": "true"}}],
          "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule",
            "tolerationSeconds": 5}],
          "capacity": {"requests": {"memory": "10Gi"}}}},
        {"name": "any", "firstAvailable": [
          {"name": "big", "deviceClassName": "big", "allocationMode": "All"},
          {"name": "small", "deviceClassName": "small"}]}],
      "constraints": [{"requests": ["gpu", "any/big"], "matchAttribute": "d/root"},
        {"distinctAttribute": "d/uuid"}]}},
    "status": {
      "allocation": {
        "devices": {"results": [
          {"request": "gpu", "driver": "d", "pool": "p", "device": "0", "adminAccess": true},
          {"request": "any/big", "driver": "d", "pool": "p", "device": "1", "shareID": "s",
            "consumedCapacity": {"memory": "10Gi"}}]},
        "nodeSelector": {"nodeSelectorTerms": [
          {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}},
      "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}})"));
  ASSERT_TRUE(claim.has_value()) << claim.error().message;
  ASSERT_EQ(claim->spec.requests.size(), 2U);
  const ExactRequest& exactly = *claim->spec.requests[0].exactly;
  EXPECT_EQ(exactly.count, 2);
  EXPECT_TRUE(exactly.admin_access);
  EXPECT_EQ(exactly.tolerations[0].seconds, 5);
  EXPECT_EQ(exactly.capacity.at("memory"), Q("10Gi"));
  const DeviceRequest& any = claim->spec.requests[1];
  EXPECT_FALSE(any.exactly.has_value());
  EXPECT_EQ(any.first_available[0].mode, "All");
  EXPECT_EQ(any.first_available[1].mode, "ExactCount");
  EXPECT_EQ(any.first_available[1].count, 1);
  EXPECT_THAT(claim->spec.constraints[0].requests, ElementsAre("gpu", "any/big"));
  EXPECT_EQ(claim->spec.constraints[1].distinct_attribute, "d/uuid");
  EXPECT_TRUE(claim->allocation->results[0].admin_access);
  EXPECT_EQ(claim->allocation->results[1].share_id, "s");
  EXPECT_TRUE(claim->allocation->node_selector->Matches({}, "n"));
  EXPECT_EQ(claim->reserved_for[0].resource, "pods");
}

TEST(ResourceClaimTemplate, IsRead) {
  const Result<ResourceClaimTemplate> one = ResourceClaimTemplateFromJson(
      Parsed(R"({"metadata": {"name": "t", "namespace": "ns"}, "spec": {"spec": {"devices":
      {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}}})"));
  ASSERT_TRUE(one.has_value());
  EXPECT_EQ(one->spec.requests[0].exactly->device_class, "gpu");
  EXPECT_EQ(one->spec.requests[0].exactly->count, 1);
}

TEST(Dra, WrongTypesAreRefusedAndNamed) {
  const auto slice = [](const std::string& spec) {
    const auto read =
        ResourceSliceFromJson(Parsed(R"({"metadata":{"name":"s"},"spec":)" + spec + "}"));
    return read ? "" : read.error().message;
  };
  EXPECT_EQ(slice(R"({"driver":1})"), "ResourceSlice s: spec.driver: must be a string");
  EXPECT_EQ(slice(R"({"pool":[]})"), "ResourceSlice s: spec.pool: must be an object");
  EXPECT_EQ(slice(R"({"pool":{"generation":"1"}})"),
            "ResourceSlice s: spec.pool.generation: must be a whole number of 64 bits");
  EXPECT_EQ(slice(R"({"devices":{}})"), "ResourceSlice s: spec.devices: must be a list");
  EXPECT_EQ(slice(R"({"devices":[{"name":"a"},{"allNodes":1}]})"),
            "ResourceSlice s: spec.devices[1].allNodes: must be true or false");
  EXPECT_EQ(slice(R"({"devices":[{"attributes":{"a":{"ints":[1,"2"]}}}]})"),
            "ResourceSlice s: spec.devices[0].attributes.a.ints[1]: must be a whole number of 64 "
            "bits");
  EXPECT_NE(slice(R"({"devices":[{"capacity":{"m":{"value":"1Q"}}}]})"), "");
  EXPECT_EQ(slice("null"), "");
  EXPECT_FALSE(ResourceSliceFromJson(Parsed("{}")).has_value());
  const auto claim = ResourceClaimFromJson(Parsed(
      R"({"metadata":{"name":"c","namespace":"ns"},"spec":{"devices":{"requests":["x"]}}})"));
  ASSERT_FALSE(claim.has_value());
  EXPECT_EQ(claim.error().message,
            "ResourceClaim ns/c: spec.devices.requests[0]: must be an object");
}

}  // namespace
}  // namespace tutti::api
