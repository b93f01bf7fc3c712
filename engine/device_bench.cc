// SPDX-License-Identifier: Apache-2.0
// Speed and memory of the capacity check with devices: 5,000 nodes with 8 GPUs each.
#include <string>

#include <benchmark/benchmark.h>
#include <malloc.h>

#include "engine/capacity.h"
#include "engine/capacity_test_util.h"
#include "engine/device_test_util.h"

namespace tutti::engine {
namespace {

constexpr int kNodes = 5000;
constexpr int kGpus = 8;

std::string NodeName(int i) {
  return "node-" + std::to_string(10000 + i);
}

// Attributes and capacity as GPU drivers publish them.
api::ResourceSlice BenchSlice(int node) {
  std::vector<api::Device> devices;
  for (int i = 0; i < kGpus; ++i) {
    api::Device device =
        MakeDevice("gpu-" + std::to_string(i),
                   {{"uuid", "GPU-" + std::to_string(node) + "-4b1c-9f0e-" + std::to_string(i)},
                    {"productName", "NVIDIA H100 80GB HBM3"},
                    {"architecture", "Hopper"},
                    {"brand", "Nvidia"},
                    {"type", "gpu"}});
    device.facts.attributes[kDriver]["index"] = int64_t{i};
    device.facts.attributes[kDriver]["driverVersion"] = api::cel::Version{"550.54.15"};
    device.facts.attributes["resource.kubernetes.io"]["pcieRoot"] =
        "pci0000:" + std::to_string(i / 2);
    devices.push_back(WithCapacity(std::move(device), "memory", "80Gi"));
  }
  return MakeSlice(NodeName(node) + "-gpus", NodeName(node), std::move(devices));
}

api::ResourceClaim BenchClaim(int node, int number, int count) {
  api::ResourceClaim claim;
  claim.meta.ns = "ns";
  claim.meta.name = "pod-" + std::to_string(node) + "-" + std::to_string(number);
  claim.meta.annotations[std::string(api::kPodClaimNameAnnotation)] = "gpu";
  claim.spec = MakeClaim({Exact("gpu", count)});
  claim.allocation.emplace();
  for (int i = 0; i < count; ++i) {
    api::DeviceResult result;
    result.request = "gpu";
    result.driver = kDriver;
    result.pool = NodeName(node);
    result.device = "gpu-" + std::to_string(number * count + i);
    claim.allocation->results.push_back(std::move(result));
  }
  return claim;
}

std::unique_ptr<Capacity> BenchCluster() {
  std::unique_ptr<Capacity> capacity = MakeCapacity();
  capacity->SetDevicesKnown(true);
  capacity->SetDeviceClass(MakeClass("gpu", {R"(device.driver == "gpu.example.com")"}));
  for (const int count : {1, 8}) {
    api::ResourceClaimTemplate claim_template;
    claim_template.meta.ns = "ns";
    claim_template.meta.name = "gpus-" + std::to_string(count);
    claim_template.spec = MakeClaim(
        {Exact("gpu", count, "gpu", {R"(device.attributes["gpu.example.com"].type == "gpu")"})});
    capacity->SetResourceClaimTemplate(claim_template);
  }
  for (int n = 0; n < kNodes; ++n) {
    capacity->SetNode(MakeNode(NodeName(n), {{"cpu", 128'000}}));
    capacity->SetResourceSlice(Shared(BenchSlice(n)));
  }
  return capacity;
}

Gang BenchGang(int pods, int gpus) {
  auto shape = MakeShape({{"cpu", 8000}});
  shape->claims = {{"gpu", "", "gpus-" + std::to_string(gpus)}};
  return MakeGang("ns/train", pods, shape);
}

void BM_Check(benchmark::State& state) {
  const auto capacity = BenchCluster();
  const Gang gang = BenchGang(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  for (auto _ : state) {
    const FitResult result = capacity->Check(gang);
    if (result.kind != FitKind::kFits)
      state.SkipWithError(result.message.c_str());
    benchmark::DoNotOptimize(result);
  }
}
BENCHMARK(BM_Check)->Args({1000, 8})->Args({1000, 1})->Args({1, 8})->Unit(benchmark::kMillisecond);

// The first check after a start: no selector has been asked and no node looked at.
void BM_FirstCheck(benchmark::State& state) {
  const Gang gang = BenchGang(1000, 8);
  for (auto _ : state) {
    state.PauseTiming();
    auto capacity = BenchCluster();
    state.ResumeTiming();
    benchmark::DoNotOptimize(capacity->Check(gang));
    state.PauseTiming();
    capacity.reset();
    state.ResumeTiming();
  }
}
BENCHMARK(BM_FirstCheck)->Iterations(3)->Unit(benchmark::kMillisecond);

// Two devices of each node are left: no place, and the reason is put together.
void BM_CheckWithoutRoom(benchmark::State& state) {
  const auto capacity = BenchCluster();
  for (int n = 0; n < kNodes; ++n) {
    capacity->SetResourceClaim(BenchClaim(n, 0, 6), "ns/gang-" + std::to_string(n / 16), "main");
  }
  const Gang gang = BenchGang(1000, 8);
  for (auto _ : state) {
    const FitResult result = capacity->Check(gang);
    if (result.kind != FitKind::kNotNow)
      state.SkipWithError("it should not fit");
    benchmark::DoNotOptimize(result);
  }
}
BENCHMARK(BM_CheckWithoutRoom)->Unit(benchmark::kMillisecond);

void BM_ReserveAndRelease(benchmark::State& state) {
  const auto capacity = BenchCluster();
  const Gang gang = BenchGang(1000, 8);
  const FitResult result = capacity->Check(gang);
  for (auto _ : state) {
    capacity->Reserve(gang, result.placement);
    capacity->Release(gang.id);
  }
}
BENCHMARK(BM_ReserveAndRelease)->Unit(benchmark::kMillisecond);

void BM_EqualSlice(benchmark::State& state) {
  const auto capacity = BenchCluster();
  const auto slice = Shared(BenchSlice(7));
  for (auto _ : state)
    capacity->SetResourceSlice(slice);
}
BENCHMARK(BM_EqualSlice)->Unit(benchmark::kMicrosecond);

// One slice after another changes; a check follows each.
void BM_CheckAfterOneChange(benchmark::State& state) {
  const auto capacity = BenchCluster();
  const Gang gang = BenchGang(1000, 8);
  int64_t generation = 1;
  for (auto _ : state) {
    api::ResourceSlice slice = BenchSlice(static_cast<int>(generation % kNodes));
    slice.generation = ++generation;
    capacity->SetResourceSlice(Shared(std::move(slice)));
    benchmark::DoNotOptimize(capacity->Check(gang));
  }
}
BENCHMARK(BM_CheckAfterOneChange)->Unit(benchmark::kMillisecond);

void BM_Memory(benchmark::State& state) {
  for (auto _ : state) {
    const size_t before = mallinfo2().uordblks;
    const auto capacity = BenchCluster();
    const size_t cluster = mallinfo2().uordblks - before;
    benchmark::DoNotOptimize(capacity->Check(BenchGang(1000, 8)));
    const size_t checked = mallinfo2().uordblks - before;
    state.counters["bytes/device"] = static_cast<double>(cluster) / (kNodes * kGpus);
    state.counters["bytes/device_checked"] = static_cast<double>(checked) / (kNodes * kGpus);
  }
}
BENCHMARK(BM_Memory)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tutti::engine

BENCHMARK_MAIN();
