// SPDX-License-Identifier: Apache-2.0
// What a crowd of waiting jobs costs the controller, apart from the network: memory of each, what
// is left when they are gone, the start against many objects, an event while they are parked.
// docs/performance.md shows the results.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <malloc.h>

#include "api/core.h"
#include "api/kueue.h"
#include "base/json.h"
#include "engine/testing/scale.h"
#include "reconciler/batch_job.h"
#include "reconciler/core.h"
#include "reconciler/queued_pod.h"

namespace tutti::reconciler {
namespace {

using engine::testing::Uid;

constexpr int kQueues = 100;
constexpr int kShapes = 20;

std::string Quoted(const std::string& text) {
  return '"' + text + '"';
}

std::string JobName(int64_t number) {
  return "training-run-" + std::to_string(10000000 + number);
}

std::string Meta(const std::string& name, char kind, int64_t number, const std::string& more = "") {
  return R"("metadata":{"name":)" + Quoted(name) + R"(,"namespace":"ns","uid":)" +
         Quoted(Uid(kind, number)) +
         R"(,"resourceVersion":"1","generation":1,"creationTimestamp":"2026-01-01T00:00:00Z")" +
         more + "}";
}

std::string QueueName(int64_t number) {
  return "q" + std::to_string(number % kQueues);
}

std::string Template(int64_t number) {
  return R"({"metadata":{},"spec":{"restartPolicy":"Never","containers":[{"name":"main","image":"busybox","resources":{"requests":{"cpu":")" +
         std::to_string(1000 + number % kShapes) + R"(m","memory":"4Gi"}}}]}})";
}

std::string JobText(int64_t number) {
  return R"({"apiVersion":"batch/v1","kind":"Job",)" +
         Meta(JobName(number), 'a', number,
              R"(,"labels":{"kueue.x-k8s.io/queue-name":)" + Quoted(QueueName(number)) + "}") +
         R"(,"spec":{"suspend":true,"parallelism":2,"completions":2,"backoffLimit":0,"template":)" +
         Template(number) + R"(},"status":{}})";
}

std::string WorkloadText(int64_t number) {
  return R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload",)" +
         Meta("job-" + JobName(number), 'b', number) +
         R"(,"spec":{"active":true,"priority":0,"queueName":)" + Quoted(QueueName(number)) +
         R"(,"podSets":[{"name":"main","count":2,"template":)" + Template(number) +
         R"(}]},"status":{}})";
}

std::string NodeText(int64_t number) {
  const std::string name = "node-" + std::to_string(number);
  return R"({"apiVersion":"v1","kind":"Node","metadata":{"name":)" + Quoted(name) + R"(,"uid":)" +
         Quoted(Uid('c', number)) + R"(,"labels":{"kubernetes.io/hostname":)" + Quoted(name) +
         R"(}},"status":{"allocatable":{"cpu":"64","memory":"256Gi","pods":"110"},"conditions":[{"type":"Ready","status":"True"}]}})";
}

template <auto decode, auto take>
void Feed(Core& core, const std::string& text) {
  const auto json = Json::Parse(text);
  auto decoded = decode(*json);
  using T = typename decltype(decoded)::value_type;
  (core.*take)(std::make_shared<const T>(std::move(*decoded)), /*deleted=*/false);
}

void FeedJob(Core& core, int64_t number, bool deleted) {
  core.OnJob(*BatchJobKind().Decode(*Json::Parse(JobText(number))), deleted);
}

// Of a Workload that no job made.
void FeedWorkload(Core& core, int64_t number) {
  Feed<&api::WorkloadFromJson, &Core::OnWorkload>(core, WorkloadText(number));
}

Options Small(Mode mode) {
  Options options;
  options.mode = mode;
  options.managed_namespaces.present = true;  // all
  return options;
}

class Crowd {
 public:
  // Queues that are full: `quota` of cpu each, all kept by nobody.
  explicit Crowd(Options options, const std::string& quota = "0") : core_(std::move(options)) {
    Feed<&api::NamespaceFromJson, &Core::OnNamespace>(
        core_, R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":"ns"}})");
    Feed<&api::ResourceFlavorFromJson, &Core::OnFlavor>(
        core_, R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"ResourceFlavor",)"
               R"("metadata":{"name":"default"},"spec":{}})");
    for (int i = 0; i < kQueues; ++i) {
      const std::string name = QueueName(i);
      Feed<&api::ClusterQueueFromJson, &Core::OnClusterQueue>(
          core_,
          R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"ClusterQueue","metadata":{"name":)" +
              Quoted(name) +
              R"(},"spec":{"namespaceSelector":{},"resourceGroups":[{"coveredResources":["cpu","memory"],"flavors":[{"name":"default","resources":[{"name":"cpu","nominalQuota":)" +
              Quoted(quota) + R"(},{"name":"memory","nominalQuota":"1000Ti"}]}]}]}})");
      Feed<&api::LocalQueueFromJson, &Core::OnLocalQueue>(
          core_,
          R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"LocalQueue","metadata":{"name":)" +
              Quoted(name) + R"(,"namespace":"ns"},"spec":{"clusterQueue":)" + Quoted(name) + "}}");
    }
  }

  Core& core() { return core_; }

  // A step; Workloads that it creates exist then, whatever else it writes is under way.
  void Step() {
    now_ += std::chrono::milliseconds(10);
    for (const Effect& effect : core_.Step(now_).effects) {
      std::vector<Json> made;
      for (const api::WriteRequest& write : effect.writes) {
        if (write.resource.kind == "Workload" && write.subresource.empty() &&
            write.verb == api::Verb::kCreate) {
          Json object = write.body;
          Json meta = object["metadata"];
          meta.Set("uid", Uid('d', ++created_));
          meta.Set("resourceVersion", std::to_string(created_));
          meta.Set("creationTimestamp", "2026-01-01T00:00:00Z");
          object.Set("metadata", std::move(meta));
          made.push_back(std::move(object));
        }
      }
      if (made.size() == effect.writes.size()) {
        core_.OnOutcome(effect.token, made, std::nullopt);
      }
    }
  }
  [[nodiscard]] int64_t created() const { return created_; }

 private:
  Core core_;
  Time now_ = *ParseTime("2026-01-02T00:00:00Z");
  int64_t created_ = 0;
};

size_t Heap() {
  malloc_trim(0);
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// Bytes for each Job that waits, its Workload included; and what is left of all when they are gone.
void BM_MemoryOfWaitingJobs(benchmark::State& state) {
  const int64_t jobs = state.range(0);
  for (auto step : state) {
    const size_t before = Heap();
    Crowd crowd(Small(Mode::kGreenfield));
    crowd.core().OnSynced();
    crowd.Step();
    const size_t idle = Heap();
    for (int64_t i = 0; i < jobs; ++i) {
      FeedJob(crowd.core(), i, /*deleted=*/false);
      if (i % 1000 == 999) {
        crowd.Step();
      }
    }
    for (int i = 0; i < 100 && crowd.created() < jobs; ++i) {
      crowd.Step();
    }
    if (crowd.created() != jobs) {
      state.SkipWithError("not every Job has a Workload");
      return;
    }
    crowd.Step();
    state.counters["bytes_per_job"] =
        static_cast<double>(Heap() - idle) / static_cast<double>(jobs);
    std::vector<std::shared_ptr<const api::Workload>> gone;
    for (const auto& [key, workload] : crowd.core().world().workloads.All()) {
      gone.push_back(workload);
    }
    for (int64_t i = 0; i < jobs; ++i) {
      FeedJob(crowd.core(), i, /*deleted=*/true);
    }
    for (const auto& workload : gone) {
      crowd.core().OnWorkload(workload, /*deleted=*/true);
    }
    gone = {};
    crowd.Step();
    state.counters["left_bytes"] = static_cast<double>(Heap() - before);
    state.counters["idle_bytes"] = static_cast<double>(idle - before);
  }
}
BENCHMARK(BM_MemoryOfWaitingJobs)
    ->ArgName("jobs")
    ->Arg(100000)
    ->Arg(1000000)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

// What a start has to read: the pages of the lists, as text.
std::vector<std::string> Texts() {
  std::vector<std::string> texts;
  for (int64_t i = 0; i < 5000; ++i) {
    texts.push_back(NodeText(i));
  }
  for (int64_t i = 0; i < 50000; ++i) {
    texts.push_back(WorkloadText(i));
  }
  return texts;
}

// The least that a start can do: to read the texts.
void BM_StartReading(benchmark::State& state) {
  const std::vector<std::string> texts = Texts();
  for (auto step : state) {
    for (const std::string& text : texts) {
      benchmark::DoNotOptimize(Json::Parse(text));
    }
  }
}
BENCHMARK(BM_StartReading)->Unit(benchmark::kMillisecond);

// The same, until everything has been decided once: 50,000 Workloads, 5,000 nodes.
void BM_Start(benchmark::State& state) {
  const std::vector<std::string> texts = Texts();
  for (auto step : state) {
    Crowd crowd(Small(Mode::kGreenfield));
    for (size_t i = 0; i < texts.size(); ++i) {
      if (i < 5000) {
        Feed<&api::NodeFromJson, &Core::OnNode>(crowd.core(), texts[i]);
      } else {
        Feed<&api::WorkloadFromJson, &Core::OnWorkload>(crowd.core(), texts[i]);
      }
    }
    crowd.core().OnSynced();
    crowd.Step();
    if (crowd.core().engine().Report("q0").pending != 50000 / kQueues) {
      state.SkipWithError("not all Workloads are queued");
    }
  }
}
BENCHMARK(BM_Start)->Unit(benchmark::kMillisecond);

// One event of a pod somewhere while 100,000 Workloads wait for quota, and what follows from it: at
// 100 events a second 200 µs are 2 % of a core.
void BM_EventWhileParked(benchmark::State& state) {
  Crowd crowd(Small(Mode::kGreenfield));
  for (int64_t i = 0; i < 100; ++i) {
    Feed<&api::NodeFromJson, &Core::OnNode>(crowd.core(), NodeText(i));
  }
  for (int64_t i = 0; i < state.range(0); ++i) {
    FeedWorkload(crowd.core(), i);
  }
  crowd.core().OnSynced();
  for (int i = 0; i < 200; ++i) {
    crowd.Step();
  }
  int64_t version = 1;
  for (auto step : state) {
    const std::string phase = version % 2 == 0 ? "Running" : "Pending";
    const std::string text =
        R"({"apiVersion":"v1","kind":"Pod",)" + Meta("pod", 'e', 1) +
        R"(,"spec":{"nodeName":"node-7","containers":[{"name":"main","resources":{"requests":{"cpu":"1"}}}]},"status":{"phase":)" +
        Quoted(phase) + "}}";
    Feed<&WatchedPodFromJson, &Core::OnPod>(crowd.core(), text);
    crowd.Step();
    ++version;
  }
}
BENCHMARK(BM_EventWhileParked)
    ->ArgName("parked")
    ->Arg(1000)
    ->Arg(100000)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tutti::reconciler

BENCHMARK_MAIN();
