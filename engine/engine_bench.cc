// SPDX-License-Identifier: Apache-2.0
// What a pass costs with 10,000 workloads waiting in 10 ClusterQueues of one cohort.
#include <string>

#include <benchmark/benchmark.h>

#include "engine/engine.h"

namespace tutti::engine {
namespace {

constexpr int kQueues = 10;
constexpr int kPending = 10000;

std::shared_ptr<const api::PodShape> Shape(int64_t cpu) {
  auto shape = std::make_shared<api::PodShape>();
  shape->requests["cpu"] = cpu;
  return shape;
}

WorkloadInput Workload(int number, int queue, int64_t cpu) {
  WorkloadInput input;
  input.id = "ns/w" + std::to_string(number);
  input.uid = "uid-" + std::to_string(number);
  input.ns = "ns";
  input.local_queue = "q" + std::to_string(queue);
  input.queue_time = kNoTime + std::chrono::seconds(number);
  PodSetInput pod_set;
  pod_set.name = "main";
  pod_set.count = 4;
  pod_set.requests["cpu"] = cpu;
  pod_set.shape = Shape(cpu);
  input.pod_sets.push_back(std::move(pod_set));
  return input;
}

// Quota 1000 per queue; one workload per queue takes all of it; the others wait. `shapes`: how many
// different requests there are.
std::unique_ptr<Engine> Crowd(int64_t shapes, bool strict, CapacityMode mode, int nodes) {
  std::unique_ptr<Engine> engine = MakeEngine();
  api::ResourceFlavor flavor;
  flavor.meta.name = "default";
  engine->SetFlavor(flavor);
  engine->SetFlavorCapacityMode("default", mode);
  for (int index = 0; index < nodes; ++index) {
    api::Node node;
    node.meta.name = "n" + std::to_string(index);
    node.allocatable = {{"cpu", 10}, {"pods", 110}};
    engine->capacity().SetNode(node);
  }
  for (int index = 0; index < kQueues; ++index) {
    api::ClusterQueue queue;
    queue.meta.name = "q" + std::to_string(index);
    queue.cohort = "x";
    queue.strict_fifo = strict;
    queue.namespace_selector.present = true;
    api::ResourceQuota quota;
    quota.name = "cpu";
    quota.nominal = api::FromAmount("cpu", mode == CapacityMode::kOff ? 1000 : 100000000);
    queue.groups.push_back({{"cpu"}, {{"default", {quota}}}});
    engine->SetClusterQueue(queue);
    api::LocalQueue local;
    local.meta.ns = "ns";
    local.meta.name = queue.meta.name;
    local.cluster_queue = queue.meta.name;
    engine->SetLocalQueue(local);
    if (mode == CapacityMode::kOff) {
      engine->SetPending(Workload(kPending + index, index, 250));
    }
  }
  engine->RunPass(kNoTime);
  for (int number = 0; number < kPending; ++number) {
    engine->SetPending(Workload(number, number % kQueues, 251 + number / kQueues % shapes));
  }
  engine->RunPass(kNoTime);
  return engine;
}

// A quota change that lets nobody in.
void BM_PassAfterQuotaChange(benchmark::State& state) {
  std::unique_ptr<Engine> engine =
      Crowd(state.range(0), state.range(1) != 0, CapacityMode::kOff, 0);
  int64_t told = 0;
  int64_t nominal = 0;
  for (auto step : state) {
    api::Cohort cohort;
    cohort.meta.name = "x";
    api::ResourceQuota quota;
    quota.name = "cpu";
    nominal = nominal == 1 ? 2 : 1;
    quota.nominal = api::FromAmount("cpu", nominal);
    cohort.groups.push_back({{"cpu"}, {{"default", {quota}}}});
    engine->SetCohort(cohort);
    const PassResult result = engine->RunPass(kNoTime);
    if (!result.admitted.empty()) {
      state.SkipWithError("somebody was admitted");
    }
    told += static_cast<int64_t>(result.pending.size());
  }
  state.counters["told"] =
      benchmark::Counter(static_cast<double>(told), benchmark::Counter::kAvgIterations);
}
BENCHMARK(BM_PassAfterQuotaChange)
    ->ArgNames({"shapes", "strict"})
    ->Args({1, 0})
    ->Args({20, 0})
    ->Args({1000, 0})
    ->Args({20, 1})
    ->Unit(benchmark::kMicrosecond);

// A node changes, still nobody fits: each class of equal workloads asks the capacity check once.
void BM_PassAfterNodeChange(benchmark::State& state) {
  std::unique_ptr<Engine> engine =
      Crowd(state.range(0), false, CapacityMode::kRequire, static_cast<int>(state.range(1)));
  int64_t cpu = 10;
  for (auto step : state) {
    api::Node node;
    node.meta.name = "n0";
    node.allocatable = {{"cpu", cpu = cpu == 10 ? 11 : cpu + 1}, {"pods", 110}};
    if (cpu > 200) {
      cpu = 10;
    }
    engine->capacity().SetNode(node);
    benchmark::DoNotOptimize(engine->RunPass(kNoTime));
  }
}
BENCHMARK(BM_PassAfterNodeChange)
    ->ArgNames({"shapes", "nodes"})
    ->Args({1, 1000})
    ->Args({20, 1000})
    ->Unit(benchmark::kMicrosecond);

void BM_NothingToDo(benchmark::State& state) {
  std::unique_ptr<Engine> engine = Crowd(20, false, CapacityMode::kOff, 0);
  for (auto step : state) {
    benchmark::DoNotOptimize(engine->NeedsPass());
  }
}
BENCHMARK(BM_NothingToDo);

// One workload ends, the next one starts, 10,000 wait.
void BM_OneEndsOneStarts(benchmark::State& state) {
  std::unique_ptr<Engine> engine = Crowd(20, false, CapacityMode::kOff, 0);
  int number = kPending;
  std::string running = "ns/w" + std::to_string(kPending);
  for (auto step : state) {
    engine->Remove(running);
    ++number;
    WorkloadInput input = Workload(number + kQueues, 0, 250);
    input.priority = 1;
    engine->SetPending(input);
    const PassResult result = engine->RunPass(kNoTime);
    if (result.admitted.size() != 1) {
      state.SkipWithError("expected one admission");
    }
    running = input.id;
  }
}
BENCHMARK(BM_OneEndsOneStarts)->Unit(benchmark::kMicrosecond);

void BM_SetPendingAndRemove(benchmark::State& state) {
  std::unique_ptr<Engine> engine = Crowd(20, false, CapacityMode::kOff, 0);
  const WorkloadInput input = Workload(kPending * 2, 3, 255);
  for (auto step : state) {
    engine->SetPending(input);
    engine->Remove(input.id);
  }
}
BENCHMARK(BM_SetPendingAndRemove)->Unit(benchmark::kMicrosecond);

// A watch event that changes nothing.
void BM_SetPendingUnchanged(benchmark::State& state) {
  std::unique_ptr<Engine> engine = Crowd(20, false, CapacityMode::kOff, 0);
  const WorkloadInput input = Workload(17, 7, 251 + 1);
  engine->SetPending(input);
  for (auto step : state) {
    engine->SetPending(input);
  }
}
BENCHMARK(BM_SetPendingUnchanged)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tutti::engine

BENCHMARK_MAIN();
