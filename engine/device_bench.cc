// SPDX-License-Identifier: Apache-2.0
// Speed and memory of the capacity check with devices: 5,000 nodes with 8 GPUs each.
#include <chrono>
#include <string>
#include <tuple>

#include <benchmark/benchmark.h>
#include <malloc.h>

#include "engine/capacity.h"
#include "engine/capacity_test_util.h"
#include "engine/device_test_util.h"
#include "engine/engine.h"

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

void FillCluster(Capacity& capacity, int nodes) {
  capacity.SetDevicesKnown(true);
  capacity.SetDeviceClass(MakeClass("gpu", {R"(device.driver == "gpu.example.com")"}));
  for (const int count : {1, 8}) {
    api::ResourceClaimTemplate claim_template;
    claim_template.meta.ns = "ns";
    claim_template.meta.name = "gpus-" + std::to_string(count);
    claim_template.spec = MakeClaim(
        {Exact("gpu", count, "gpu", {R"(device.attributes["gpu.example.com"].type == "gpu")"})});
    capacity.SetResourceClaimTemplate(claim_template);
  }
  for (int n = 0; n < nodes; ++n) {
    capacity.SetNode(MakeNode(NodeName(n), {{"cpu", 128'000}}));
    capacity.SetResourceSlice(Shared(BenchSlice(n)));
  }
}

std::unique_ptr<Capacity> BenchCluster() {
  std::unique_ptr<Capacity> capacity = MakeCapacity();
  FillCluster(*capacity, kNodes);
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

// --- many different gangs that wait
// ---------------------------------------------------------------------------------

constexpr int kWaiting = 1000;

std::string ClaimName(int i) {
  return "claim-" + std::to_string(i);
}

// Gangs that differ in their pods, their number and what they claim; none has a place.
WorkloadInput WaitingGang(int i, bool claims, bool leader) {
  WorkloadInput input;
  input.id = "ns/w" + std::to_string(10000 + i);
  input.uid = input.id;
  input.ns = "ns";
  input.local_queue = "q";
  input.queue_time = kNoTime + std::chrono::seconds(i);
  PodSetInput workers;
  workers.name = "worker";
  workers.count = 100 + i;
  auto shape = MakeShape({{"cpu", claims ? 2000 + i : 120'000 + i}});
  if (claims)
    shape->claims = {{"gpu", "", ClaimName(i)}};
  workers.requests = shape->requests;
  workers.shape = std::move(shape);
  input.pod_sets.push_back(std::move(workers));
  if (leader) {
    PodSetInput set;
    set.name = "leader";
    set.count = 1;
    set.shape = MakeShape({{"cpu", 1000}});
    set.requests = set.shape->requests;
    input.pod_sets.push_back(std::move(set));
  }
  return input;
}

// A cluster of `nodes` with two GPUs and little cpu left on each, and the gangs that wait for it.
std::unique_ptr<Engine> WaitingCrowd(int nodes, bool claims, bool leader) {
  std::unique_ptr<Engine> engine = MakeEngine();
  Capacity& capacity = engine->capacity();
  FillCluster(capacity, nodes);
  const auto rest = MakeShape({{"cpu", 100'000}});
  for (int n = 0; n < nodes; ++n) {
    const std::string gang = "ns/gang-" + std::to_string(n / 16);
    capacity.SetResourceClaim(BenchClaim(n, 0, 6), gang, "main");
    capacity.SetPod("uid-" + std::to_string(n), NodeName(n), rest, gang, "main");
  }
  for (int i = 0; claims && i < kWaiting; ++i) {
    api::ResourceClaimTemplate claim_template;
    claim_template.meta.ns = "ns";
    claim_template.meta.name = ClaimName(i);
    claim_template.spec = MakeClaim(
        {Exact("gpu", 3 + i % 6, "gpu",
               {"device.attributes[\"gpu.example.com\"].index < " + std::to_string(8 + i % 20)})});
    capacity.SetResourceClaimTemplate(claim_template);
  }
  api::ResourceFlavor flavor;
  flavor.meta.name = "default";
  engine->SetFlavor(flavor);
  api::ClusterQueue queue;
  queue.meta.name = "q";
  queue.namespace_selector.present = true;
  api::ResourceQuota quota;
  quota.name = "cpu";
  quota.nominal = api::FromAmount("cpu", int64_t{1} << 50);
  queue.groups.push_back({{"cpu"}, {{"default", {quota}}}});
  engine->SetClusterQueue(queue);
  api::LocalQueue local;
  local.meta.ns = "ns";
  local.meta.name = "q";
  local.cluster_queue = "q";
  engine->SetLocalQueue(local);
  for (int i = 0; i < kWaiting; ++i)
    engine->SetPending(WaitingGang(i, claims, leader));
  return engine;
}

enum class Change : int64_t { kNode, kSlice, kPodGoes, kNewNode, kCordon };

// Each in turn gives room somewhere, for nobody enough; the next one takes it away again.
void ChangeOne(Capacity& capacity, Change change, int step) {
  const int n = step / 2 * 7 % 1000;
  const bool more = step % 2 == 0;
  switch (change) {
    case Change::kNode:
      capacity.SetNode(MakeNode(NodeName(n), {{"cpu", more ? 128'002 : 128'000}}));
      break;
    case Change::kSlice: {
      api::ResourceSlice slice = BenchSlice(n);
      slice.generation = 2 + step;
      capacity.SetResourceSlice(Shared(std::move(slice)));
      break;
    }
    case Change::kPodGoes: {
      const std::string gang = "ns/gang-" + std::to_string(n / 16);
      api::ResourceClaim claim = BenchClaim(n, 0, 6);
      if (more) {
        capacity.RemovePod("uid-" + std::to_string(n));
        claim.allocation.reset();
      } else {
        capacity.SetPod("uid-" + std::to_string(n), NodeName(n), MakeShape({{"cpu", 100'000}}),
                        gang, "main");
      }
      capacity.SetResourceClaim(claim, gang, "main");
      break;
    }
    case Change::kNewNode:
      if (more) {
        capacity.SetNode(MakeNode(NodeName(n) + "-new", {{"cpu", 128'000}}));
        api::ResourceSlice slice = BenchSlice(n);
        slice.meta.name = slice.pool = slice.node_name = NodeName(n) + "-new";
        capacity.SetResourceSlice(Shared(std::move(slice)));
      } else {
        capacity.RemoveNode(NodeName(n) + "-new");
        capacity.RemoveResourceSlice(NodeName(n) + "-new");
      }
      break;
    case Change::kCordon: {
      api::Node node = MakeNode(NodeName(n), {{"cpu", 128'000}});
      node.unschedulable = more;
      capacity.SetNode(node);
      break;
    }
  }
}

struct Crowd {
  std::unique_ptr<Engine> engine;
  double first_pass_ms = 0;  // everybody is looked at and told why it waits
  size_t told = 0;
};

// The last one is kept: it takes longer than what is measured.
Crowd& CrowdOf(int nodes, bool claims, bool leader) {
  static std::tuple<int, bool, bool> last;
  static Crowd crowd;
  if (last == std::tuple{nodes, claims, leader})
    return crowd;
  last = {nodes, claims, leader};
  crowd.engine = nullptr;
  crowd.engine = WaitingCrowd(nodes, claims, leader);
  const auto start = std::chrono::steady_clock::now();
  const PassResult result = crowd.engine->RunPass(kNoTime);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  crowd.first_pass_ms = took.count();
  crowd.told = result.admitted.empty() ? result.pending.size() : 0;
  return crowd;
}

// 1,000 different gangs wait, one thing changes, still none of them fits.
void BM_ThousandWaitOneChange(benchmark::State& state) {
  const auto change = static_cast<Change>(state.range(1));
  Crowd& crowd =
      CrowdOf(static_cast<int>(state.range(0)), state.range(2) != 0, state.range(3) != 0);
  if (crowd.told != kWaiting)
    state.SkipWithError("everybody should wait and know why");
  int step = 0;
  for (auto _ : state) {
    ChangeOne(crowd.engine->capacity(), change, step++);
    if (!crowd.engine->RunPass(kNoTime).admitted.empty())
      state.SkipWithError("somebody was admitted");
  }
  state.counters["first_pass_ms"] = crowd.first_pass_ms;
}
BENCHMARK(BM_ThousandWaitOneChange)
    ->ArgNames({"nodes", "change", "claims", "leader"})
    ->Args({5000, 0, 1, 0})
    ->Args({5000, 1, 1, 0})
    ->Args({5000, 2, 1, 0})
    ->Args({5000, 3, 1, 0})
    ->Args({5000, 4, 1, 0})
    ->Args({5000, 0, 0, 0})
    ->Args({5000, 2, 0, 0})
    ->Args({5000, 2, 1, 1})
    ->Iterations(6)
    ->Unit(benchmark::kMillisecond);

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
