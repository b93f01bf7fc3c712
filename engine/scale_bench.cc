// SPDX-License-Identifier: Apache-2.0
// How the engine's costs grow with the number of queues and of waiting workloads: decisions a
// second, one arrival, one end, a search for victims, a fair-sharing pass, bytes per workload. The
// complexity that is expected stands beside each. docs/performance.md shows the results.
#include <algorithm>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <malloc.h>

#include "engine/engine.h"
#include "engine/testing/scale.h"

namespace tutti::engine {
namespace {

using testing::Full;
using testing::Name;
using testing::Queue;
using testing::Scale;

// All that wait are admitted: decisions a second. O(log n) each.
void BM_Admissions(benchmark::State& state) {
  const int64_t queues = state.range(0);
  const int64_t pending = state.range(1);
  int64_t admitted = 0;
  for (auto step : state) {
    state.PauseTiming();
    auto scale = std::make_unique<Scale>();
    for (int64_t i = 0; i < queues; ++i) {
      scale->AddQueue(Queue(Name(i), "", int64_t{1} << 50));
    }
    for (int64_t number = 0; number < pending; ++number) {
      scale->engine().SetPending(scale->Workload(number, Name(number % queues)));
    }
    state.ResumeTiming();
    const PassResult result = scale->engine().RunPass(kNoTime);
    admitted += static_cast<int64_t>(result.admitted.size());
    state.PauseTiming();
    scale.reset();
    state.ResumeTiming();
  }
  if (admitted != pending * state.iterations()) {
    state.SkipWithError("not all were admitted");
  }
  state.SetItemsProcessed(admitted);
}
BENCHMARK(BM_Admissions)
    ->ArgNames({"queues", "pending"})
    ->Args({10, 1000})
    ->Args({10, 10000})
    ->Args({10, 100000})
    ->Args({1000, 100000})
    ->Args({10000, 100000})
    ->Unit(benchmark::kMillisecond);

// A workload arrives that has to wait. O(log n).
void BM_Arrival(benchmark::State& state) {
  const int64_t queues = state.range(0);
  const int64_t pending = state.range(1);
  const std::unique_ptr<Scale> scale = Full(queues, pending);
  int64_t number = pending + queues;
  for (auto step : state) {
    const WorkloadInput input = scale->Workload(number, Name(number % queues));
    scale->engine().SetPending(input);
    if (!scale->engine().RunPass(kNoTime).admitted.empty()) {
      state.SkipWithError("it was admitted");
    }
    scale->engine().Remove(input.id);
    ++number;
  }
}

// A workload ends, and the next one of its queue is admitted. O(log n).
void BM_End(benchmark::State& state) {
  const int64_t queues = state.range(0);
  const int64_t pending = state.range(1);
  const std::unique_ptr<Scale> scale = Full(queues, pending);
  // What runs in each queue, in the order of the ends; a new one waits for each that ends.
  std::vector<std::string> running;
  for (int64_t number = 0; number < queues; ++number) {
    running.push_back(Scale::Id(number));
  }
  int64_t number = pending + queues;
  for (auto step : state) {
    const size_t queue = static_cast<size_t>(number % queues);
    scale->engine().Remove(running[queue]);
    const PassResult result = scale->engine().RunPass(kNoTime);
    if (result.admitted.size() != 1) {
      state.SkipWithError("not exactly one was admitted");
      return;
    }
    running[queue] = result.admitted.front().id;
    scale->engine().SetPending(scale->Workload(number, Name(number % queues)));
    ++number;
  }
}

void Sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"queues", "pending"});
  for (const int64_t pending : {1000, 10000, 100000, 1000000}) {
    bench->Args({10, pending});
  }
  bench->Args({1000, 100000})->Args({10000, 100000})->Unit(benchmark::kMicrosecond);
}
BENCHMARK(BM_Arrival)->Apply(Sizes);
BENCHMARK(BM_End)->Apply(Sizes);

// Someone more important wants quota that `candidates` others borrow, in a tree of 4 levels.
// O(c log c): candidates in order, then the fewest of them.
void BM_Preemption(benchmark::State& state) {
  const int64_t candidates = state.range(0);
  const std::unique_ptr<Scale> scale = testing::Lent(candidates);
  if (scale == nullptr) {
    state.SkipWithError("the cohort isn't full");
    return;
  }
  int64_t number = candidates * 2;
  for (auto step : state) {
    WorkloadInput input = scale->Workload(++number, "lender", 100);
    input.pod_sets[0].count = 3;
    scale->engine().SetPending(input);
    const PassResult result = scale->engine().RunPass(kNoTime);
    if (result.preempted.empty()) {
      state.SkipWithError("nobody was preempted");
      return;
    }
    state.PauseTiming();
    scale->engine().Remove(input.id);
    for (const PreemptDecision& victim : result.preempted) {
      scale->engine().MarkEvicting(victim.id, false);
    }
    state.ResumeTiming();
  }
}
BENCHMARK(BM_Preemption)->ArgName("candidates")->Arg(500)->Arg(5000)->Unit(benchmark::kMillisecond);

// Fair sharing over many queues of one cohort: one workload ends, the queue with the smallest share
// gets its place.
void BM_FairSharingPass(benchmark::State& state) {
  const int64_t queues = state.range(0);
  std::vector<std::string> running;
  const std::unique_ptr<Scale> scale = testing::Shared(queues, running);
  if (running.size() < 2) {
    state.SkipWithError("nothing runs");
    return;
  }
  int64_t number = queues * 10;
  size_t next = 0;
  for (auto step : state) {
    scale->engine().Remove(running[next % running.size()]);
    const PassResult result = scale->engine().RunPass(kNoTime);
    for (const AdmitDecision& admitted : result.admitted) {
      running[next % running.size()] = admitted.id;
    }
    scale->engine().SetPending(scale->Workload(number, Name(number % queues)));
    ++number;
    ++next;
  }
}
BENCHMARK(BM_FairSharingPass)
    ->ArgName("queues")
    ->Arg(100)
    ->Arg(1000)
    ->Unit(benchmark::kMillisecond);

// Bytes of the heap for each waiting workload, all of the engine's books together.
void BM_MemoryPerPending(benchmark::State& state) {
  const int64_t pending = state.range(0);
  double bytes = 0;
  for (auto step : state) {
    malloc_trim(0);
    const size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    const std::unique_ptr<Scale> scale = Full(100, pending);
    bytes = static_cast<double>(mallinfo2().uordblks + mallinfo2().hblkhd - before);
  }
  state.counters["bytes_per_workload"] = bytes / static_cast<double>(pending);
}
BENCHMARK(BM_MemoryPerPending)
    ->ArgName("pending")
    ->Arg(100000)
    ->Arg(1000000)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tutti::engine

BENCHMARK_MAIN();
