// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/config.h"

namespace tutti {
namespace {

using Kind = engine::DeviceQuotaSource::Kind;

Result<Config> Parse(const std::string& mappings, bool capacities = false) {
  return ParseConfig(
      "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n" +
          std::string(capacities ? "featureGates: {KueueDRAIntegrationConsumableCapacity: "
                                   "true}\n"
                                 : "") +
          "resources:\n  deviceClassMappings:\n" + mappings,
      {});
}

TEST(ConfigDevicesTest, MappingsAreRead) {
  const auto config = Parse(R"yaml(
  - {name: example.com/gpus, deviceClassNames: [gpu, gpu-large]}
  - name: example.com/gpu-memory
    deviceClassNames: [gpu-part]
    sources:
    - counter:
        name: memory
        driver: gpu.example.com
        deviceSelector: {cel: {expression: 'device.attributes["gpu.example.com"].model == "a"'}}
)yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->device_mappings,
            (std::vector<engine::DeviceClassMapping>{
                {"example.com/gpus", {"gpu", "gpu-large"}, {}},
                {"example.com/gpu-memory",
                 {"gpu-part"},
                 {{Kind::kCounter, "memory", "gpu.example.com",
                   "device.attributes[\"gpu.example.com\"].model == \"a\""}}}}));
}

TEST(ConfigDevicesTest, CapacitiesNeedTheirGate) {
  const std::string text = R"yaml(
  - name: gpu-memory
    deviceClassNames: [gpu]
    sources:
    - capacity: {name: memory, driver: gpu.example.com, deviceSelector: {cel: {expression: "true"}}}
)yaml";
  ASSERT_TRUE(Parse(text, true));
  EXPECT_THAT(Parse(text).error().message,
              testing::HasSubstr("needs the feature gate KueueDRAIntegrationConsumableCapacity"));
}

TEST(ConfigDevicesTest, ClassesMayBeSharedOnlyByDifferentCounters) {
  const auto mapping = [](const std::string& name, const std::string& counter) {
    return "  - name: " + name +
           "\n    deviceClassNames: [gpu]\n"
           "    sources: [{counter: {name: " +
           counter + ", driver: d.example.com, deviceSelector: {cel: {expression: \"true\"}}}}]\n";
  };
  EXPECT_TRUE(Parse(mapping("a", "memory") + mapping("b", "slices")));
  EXPECT_THAT(Parse(mapping("a", "memory") + mapping("b", "memory")).error().message,
              testing::HasSubstr("'gpu' is charged by counter memory already"));
}

TEST(ConfigDevicesTest, ProblemsNameTheField) {
  const std::pair<const char*, const char*> cases[] = {
      {"  - {deviceClassNames: [gpu]}\n", "deviceClassMappings[0].name"},
      {"  - {name: a}\n", "deviceClassMappings[0].deviceClassNames: at least one name is required"},
      {"  - {name: a, deviceClassNames: [gpu]}\n  - {name: a, deviceClassNames: [nic]}\n",
       "deviceClassMappings[1].name: 'a' is there twice"},
      {"  - {name: a, deviceClassNames: [gpu, gpu]}\n", "'gpu' is there twice"},
      {"  - {name: a, deviceClassNames: [gpu]}\n  - {name: b, deviceClassNames: [gpu]}\n",
       "'gpu' is mapped to a already"},
      {"  - {name: a, deviceClassNames: [gpu], sources: [{}]}\n",
       "exactly one of counter and capacity must be set"},
      {"  - {name: a, deviceClassNames: [gpu], sources: [{counter: {name: m, driver: d}}]}\n",
       "sources[0].counter.deviceSelector.cel.expression: is required"},
      {"  - {name: a, deviceClassNames: [gpu], sources: [{counter: {name: m, driver: d, "
       "deviceSelector: {cel: {expression: \"device.\"}}}}]}\n",
       "sources[0].counter.deviceSelector.cel.expression"},
      {"  - {name: a, deviceClassNames: [gpu], typo: 1}\n", "deviceClassMappings[0].typo"},
  };
  for (const auto& [text, problem] : cases) {
    const auto config = Parse(text);
    ASSERT_FALSE(config) << text;
    EXPECT_THAT(config.error().message, testing::HasSubstr(problem)) << text;
  }
}

}  // namespace
}  // namespace tutti
