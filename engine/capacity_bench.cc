// SPDX-License-Identifier: Apache-2.0
// Speed and memory of the capacity check: 5,000 nodes (GPU and CPU pools, labels as real nodes have
// them) with 20 pods each of 100 shapes. Memory is read from the allocator.
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <malloc.h>

#include "engine/capacity.h"
#include "engine/capacity_test_util.h"

namespace tutti::engine {
namespace {

constexpr int kNodes = 5000;
constexpr int kPodsPerNode = 20;
constexpr int kShapes = 100;
constexpr int64_t kGi = int64_t{1} << 30;

api::Node BenchNode(int i) {
  const bool gpu = i % 2 == 0;
  api::Node node = MakeNode("node-" + std::to_string(10000 + i),
                            {{"cpu", 128'000},
                             {"memory", 1024 * kGi},
                             {"ephemeral-storage", 2000 * kGi},
                             {"hugepages-2Mi", 0},
                             {"hugepages-1Gi", 0}},
                            {{"pool", gpu ? "gpu" : "cpu"},
                             {"topology.kubernetes.io/zone", "z" + std::to_string(i % 3)},
                             {"topology.kubernetes.io/region", "r1"},
                             {"kubernetes.io/arch", "amd64"},
                             {"kubernetes.io/os", "linux"},
                             {"node.kubernetes.io/instance-type", gpu ? "g8" : "c128"}});
  for (int l = 0; l < 10; ++l)
    node.meta.labels["example.com/l" + std::to_string(l)] = "true";
  if (gpu) {
    node.allocatable["nvidia.com/gpu"] = 8;
    node.taints = {{"nvidia.com/gpu", "", "NoSchedule"}};
  }
  return node;
}

std::vector<std::shared_ptr<const api::PodShape>> BenchShapes() {
  std::vector<std::shared_ptr<const api::PodShape>> shapes;
  for (int i = 0; i < kShapes; ++i) {
    auto shape = MakeShape({{"cpu", 500 + 100 * i}, {"memory", (1 + i % 16) * kGi}});
    shape->tolerations = {{"nvidia.com/gpu", "Exists", "", "", {}}};
    if (i % 2 == 0) {
      shape->requests["nvidia.com/gpu"] = 1 << (i / 2 % 3);
      shape->node_selector = {{"pool", "gpu"}};
    } else {
      shape->node_selector = {{"pool", "cpu"}};
    }
    if (i % 10 == 0) {
      shape->has_required_affinity = true;
      shape->required_affinity = {{{{"topology.kubernetes.io/zone", "In", {"z0", "z1"}}}, {}}};
    }
    shapes.push_back(shape);
  }
  return shapes;
}

// The cluster with small pods on every node; `full` leaves no GPU and little cpu.
std::unique_ptr<Capacity> BenchCluster(bool full) {
  std::unique_ptr<Capacity> capacity = MakeCapacity();
  std::vector<std::shared_ptr<const api::PodShape>> small;
  for (int i = 0; i < kShapes; ++i) {
    small.push_back(MakeShape({{"cpu", full ? 6200 + i : 100 + i}, {"memory", kGi / 4}}));
  }
  const auto gpu_pod = MakeShape({{"cpu", 100}, {"nvidia.com/gpu", full ? 8 : 2}});
  for (int n = 0; n < kNodes; ++n) {
    const api::Node node = BenchNode(n);
    capacity->SetNode(node);
    for (int p = 0; p < kPodsPerNode; ++p) {
      const int i = n * kPodsPerNode + p;
      const bool gpu = p == 0 && n % 2 == 0;
      capacity->SetPod("00000000-0000-4000-8000-" + std::to_string(100'000'000'000 + i),
                       node.meta.name, gpu ? gpu_pod : small[static_cast<size_t>(i % kShapes)],
                       gpu ? "team/gang-" + std::to_string(n / 32) : "", gpu ? "main" : "");
    }
  }
  return capacity;
}

void CheckThatFits(benchmark::State& state) {
  const std::unique_ptr<Capacity> capacity = BenchCluster(/*full=*/false);
  const auto shapes = BenchShapes();
  size_t i = 0;
  for (auto _ : state) {
    const FitResult result = capacity->Check(
        MakeGang("ns/x", static_cast<int32_t>(state.range(0)), shapes[i++ % kShapes]));
    if (result.kind != FitKind::kFits)
      state.SkipWithError(result.message.c_str());
  }
}
BENCHMARK(CheckThatFits)->Arg(1)->Arg(100)->Arg(1000)->Unit(benchmark::kMicrosecond);

void CheckThatDoesNotFit(benchmark::State& state) {
  const std::unique_ptr<Capacity> capacity = BenchCluster(/*full=*/true);
  const auto shapes = BenchShapes();
  size_t i = 0;
  for (auto _ : state) {
    const FitResult result = capacity->Check(MakeGang("ns/x", 1000, shapes[2 * i++ % kShapes]));
    if (result.kind != FitKind::kNotNow)
      state.SkipWithError(result.message.c_str());
  }
}
BENCHMARK(CheckThatDoesNotFit)->Unit(benchmark::kMicrosecond);

// A leader and 999 workers.
void CheckUnlikePods(benchmark::State& state) {
  const std::unique_ptr<Capacity> capacity = BenchCluster(/*full=*/false);
  const auto shapes = BenchShapes();
  size_t i = 0;
  for (auto _ : state) {
    const Gang gang{
        "ns/x",
        {MakeSet("leader", 1, shapes[1]), MakeSet("worker", 999, shapes[2 * i++ % kShapes])}};
    const FitResult result = capacity->Check(gang);
    if (result.kind != FitKind::kFits)
      state.SkipWithError(result.message.c_str());
  }
}
BENCHMARK(CheckUnlikePods)->Unit(benchmark::kMicrosecond);

// Two kinds that fit alone but not together: proven by the table while it is small enough.
void CheckUnlikePodsThatDoNotFit(benchmark::State& state) {
  std::unique_ptr<Capacity> capacity = MakeCapacity();
  for (int n = 0; n < kNodes; ++n)
    capacity->SetNode(MakeNode("n" + std::to_string(n), {{"cpu", 11}}));
  const Gang gang{
      "ns/x",
      {MakeSet("a", static_cast<int32_t>(state.range(0)), MakeShape({{"cpu", 6}})),
       MakeSet("b", kNodes - static_cast<int32_t>(state.range(0)) + 1, MakeShape({{"cpu", 7}}))}};
  for (auto _ : state) {
    const FitResult result = capacity->Check(gang);
    if (result.kind == FitKind::kFits)
      state.SkipWithError("fits");
  }
}
BENCHMARK(CheckUnlikePodsThatDoNotFit)->Arg(1)->Arg(100)->Arg(2500)->Unit(benchmark::kMicrosecond);

// A gang of 1,000 from the check to the last bound pod and away again.
void LifeOfAGang(benchmark::State& state) {
  const std::unique_ptr<Capacity> capacity = BenchCluster(/*full=*/false);
  const Gang gang = MakeGang("ns/x", 1000, BenchShapes()[1]);
  for (auto _ : state) {
    const FitResult result = capacity->Check(gang);
    capacity->Reserve(gang, result.placement);
    int pod = 0;
    for (const PlacementSlot& slot : result.placement) {
      for (int32_t i = 0; i < slot.count; ++i) {
        capacity->SetPod("p" + std::to_string(pod++), slot.node, gang.pod_sets[0].shape, "ns/x",
                         "main");
      }
    }
    if (capacity->Unbound("ns/x") != 0)
      state.SkipWithError("unbound pods");
    capacity->Release("ns/x");
    while (pod > 0)
      capacity->RemovePod("p" + std::to_string(--pod));
  }
}
BENCHMARK(LifeOfAGang)->Unit(benchmark::kMicrosecond);

void Heartbeat(benchmark::State& state) {
  const std::unique_ptr<Capacity> capacity = BenchCluster(/*full=*/false);
  std::vector<api::Node> nodes;
  for (int n = 0; n < kNodes; ++n)
    nodes.push_back(BenchNode(n));
  size_t i = 0;
  for (auto _ : state)
    capacity->SetNode(nodes[i++ % kNodes]);
}
BENCHMARK(Heartbeat)->Unit(benchmark::kMicrosecond);

void InFlight(benchmark::State& state) {
  const std::unique_ptr<Capacity> capacity = BenchCluster(/*full=*/false);
  const auto shapes = BenchShapes();
  for (int g = 0; g < state.range(0); ++g) {
    const Gang gang =
        MakeGang("ns/g" + std::to_string(g), 10, shapes[static_cast<size_t>(g) % kShapes]);
    capacity->Reserve(gang, capacity->Check(gang).placement);
  }
  const Gang gang = MakeGang("ns/x", 10, shapes[3]);
  for (auto _ : state)
    benchmark::DoNotOptimize(capacity->CheckFlights(gang));
}
BENCHMARK(InFlight)->Arg(0)->Arg(10)->Arg(100)->Unit(benchmark::kMicrosecond);

void Memory(benchmark::State& state) {
  for (auto _ : state) {
    const size_t start = mallinfo2().uordblks;
    std::unique_ptr<Capacity> nodes = MakeCapacity();
    for (int n = 0; n < kNodes; ++n)
      nodes->SetNode(BenchNode(n));
    benchmark::DoNotOptimize(nodes->CountNodes({}));
    const size_t with_nodes = mallinfo2().uordblks;
    nodes.reset();
    const size_t again = mallinfo2().uordblks;
    const std::unique_ptr<Capacity> all = BenchCluster(/*full=*/false);
    const size_t with_pods = mallinfo2().uordblks;
    state.counters["bytes/node"] = static_cast<double>(with_nodes - start) / kNodes;
    state.counters["bytes/pod"] =
        static_cast<double>((with_pods - again) - (with_nodes - start)) / (kNodes * kPodsPerNode);
  }
}
BENCHMARK(Memory)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tutti::engine

BENCHMARK_MAIN();
