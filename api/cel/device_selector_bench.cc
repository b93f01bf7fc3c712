// SPDX-License-Identifier: Apache-2.0
// How long one selector takes for one device. Run: ninja cel_bench && api/cel_bench
#include <string>

#include <benchmark/benchmark.h>

#include "api/cel/device_selector.h"

namespace tutti::api::cel {
namespace {

SelectorDevice Gpu() {
  SelectorDevice device;
  device.driver = "gpu.example.com";
  auto& own = device.attributes["gpu.example.com"];
  own["productName"] = std::string("NVIDIA A100-SXM4-80GB");
  own["architecture"] = std::string("Ampere");
  own["brand"] = std::string("Nvidia");
  own["cudaComputeCapability"] = Version{"8.0.0"};
  own["driverVersion"] = Version{"550.54.15"};
  own["index"] = int64_t{3};
  own["type"] = std::string("gpu");
  own["uuid"] = std::string("GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c");
  device.capacity["gpu.example.com"]["memory"] = *Quantity::Parse("80Gi");
  return device;
}

void Match(benchmark::State& state, const char* expression) {
  const auto selector = DeviceSelector::Compile(expression);
  if (!selector) {
    state.SkipWithError(selector.error().message.c_str());
    return;
  }
  const SelectorDevice device = Gpu();
  for (auto _ : state) {
    benchmark::DoNotOptimize((*selector)->Matches(device));
  }
}

BENCHMARK_CAPTURE(Match, Driver, R"(device.driver == "gpu.example.com")");
BENCHMARK_CAPTURE(Match, AttributeAndCapacity,
                  R"(device.attributes["gpu.example.com"].type == "gpu" && )"
                  R"(device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0)");
BENCHMARK_CAPTURE(Match, Version,
                  R"(device.attributes["gpu.example.com"].driverVersion)"
                  R"(.isGreaterThan(semver("535.0.0")))");
BENCHMARK_CAPTURE(Match, Regex,
                  R"(device.attributes["gpu.example.com"].productName.matches("A100.*80GB$"))");
BENCHMARK_CAPTURE(Match, Loop,
                  R"(["H100", "A100"].exists(m, )"
                  R"(device.attributes["gpu.example.com"].productName.contains(m)))");

}  // namespace
}  // namespace tutti::api::cel

BENCHMARK_MAIN();
