// SPDX-License-Identifier: Apache-2.0
// What steering is worth: the same jobs on the same nodes, with pods that go to the planned nodes
// and with pods that kube-scheduler spreads (LeastAllocated). Decisions are the engine's; time is
// simulated; binding takes no time. The jobs are made up in the shape of a published trace of a GPU
// cluster: most want one GPU, few want many, run times spread over four decades. Deterministic from
// the seed. Prints the table of docs/engine.md.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/engine.h"

namespace tutti::engine {
namespace {

constexpr const char* kGpu = "nvidia.com/gpu";
constexpr int kNodes = 40;
constexpr int kGpusPerNode = 8;
constexpr int kJobs = 6000;

struct SimJob {
  std::string id;
  double submitted = 0;  // hours
  double runs = 0;       // hours
  int pods = 1;
  int gpus = 1;  // per pod
  double started = -1;
  [[nodiscard]] int Size() const { return pods * gpus; }
};

// Uniform in (0, 1]; the distributions of <random> differ between libraries.
class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  double Roll() { return (static_cast<double>(random_() >> 11) + 1) / 9007199254740992.0; }
  double Normal() {
    return std::sqrt(-2 * std::log(Roll())) * std::cos(2 * 3.14159265358979 * Roll());
  }

 private:
  std::mt19937_64 random_;
};

std::vector<SimJob> MakeJobs(uint64_t seed, double load) {
  struct Size {
    double share;
    int pods;
    int gpus;
  };
  static const std::vector<Size> kSizes = {{0.64, 1, 1}, {0.10, 1, 2}, {0.11, 1, 4}, {0.09, 1, 8},
                                           {0.03, 2, 8}, {0.02, 4, 8}, {0.01, 8, 8}};
  Dice dice(seed);
  std::vector<SimJob> jobs(kJobs);
  double work = 0;
  for (int j = 0; j < kJobs; ++j) {
    SimJob& job = jobs[static_cast<size_t>(j)];
    job.id = "ns/j" + std::to_string(j);
    double roll = dice.Roll();
    for (const Size& size : kSizes) {
      job.pods = size.pods;
      job.gpus = size.gpus;
      roll -= size.share;
      if (roll <= 0)
        break;
    }
    job.runs = std::clamp(0.5 * std::exp(1.8 * dice.Normal()), 0.01, 100.0);
    work += job.runs * job.Size();
  }
  const double span = work / (load * kNodes * kGpusPerNode);
  double at = 0;
  for (SimJob& job : jobs) {
    at += -std::log(dice.Roll()) * span / kJobs;
    job.submitted = at;
  }
  return jobs;
}

class Simulation {
 public:
  Simulation(std::vector<SimJob> jobs, bool steered) : jobs_(std::move(jobs)), steered_(steered) {
    api::ResourceFlavor flavor;
    flavor.meta.name = "gpu";
    engine_->SetFlavor(flavor);
    engine_->SetFlavorCapacityMode("gpu", CapacityMode::kRequire);
    for (int n = 0; n < kNodes; ++n) {
      api::Node node;
      node.meta.name = (n < 10 ? "n0" : "n") + std::to_string(n);
      node.allocatable = {{kGpu, kGpusPerNode}, {"pods", 110}};
      engine_->capacity().SetNode(node);
      free_[node.meta.name] = kGpusPerNode;
    }
    api::ClusterQueue queue;
    queue.meta.name = "q";
    queue.namespace_selector.present = true;
    api::ResourceQuota quota;
    quota.name = kGpu;
    quota.nominal = api::FromAmount(kGpu, int64_t{kNodes} * kGpusPerNode);
    queue.groups.push_back({{kGpu}, {{"gpu", {quota}}}});
    engine_->SetClusterQueue(queue);
    api::LocalQueue local;
    local.meta.ns = "ns";
    local.meta.name = "q";
    local.cluster_queue = "q";
    engine_->SetLocalQueue(local);
    for (size_t j = 0; j < jobs_.size(); ++j)
      by_id_[jobs_[j].id] = j;
  }

  void Run() {
    size_t next = 0;
    while (next < jobs_.size() || !ends_.empty()) {
      const double arrival = next < jobs_.size() ? jobs_[next].submitted : kNever;
      const double end = ends_.empty() ? kNever : ends_.begin()->first;
      Advance(std::min(arrival, end), arrival);
      if (end <= arrival) {
        End(ends_.begin()->second);
        ends_.erase(ends_.begin());
      } else {
        Submit(jobs_[next++]);
      }
      while (engine_->NeedsPass()) {
        for (const AdmitDecision& decision : engine_->RunPass(kNoTime).admitted)
          Start(decision);
      }
    }
  }

  // Share of all GPU hours that were used while jobs came, in per cent.
  [[nodiscard]] double Utilisation() const { return 100 * used_ / span_; }
  // Mean share of nodes that were empty while jobs came, in per cent.
  [[nodiscard]] double EmptyNodes() const { return 100 * empty_ / span_; }
  // Waits of jobs with `least` to `most` GPUs, in minutes, at a quantile.
  [[nodiscard]] double Wait(int least, int most, double quantile) const {
    std::vector<double> waits;
    for (const SimJob& job : jobs_) {
      if (job.Size() >= least && job.Size() <= most)
        waits.push_back(60 * (job.started - job.submitted));
    }
    std::sort(waits.begin(), waits.end());
    return waits[static_cast<size_t>(quantile * static_cast<double>(waits.size() - 1))];
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  struct Bound {
    std::string uid;
    std::string node;
  };

  void Advance(double to, double arrival) {
    if (arrival != kNever) {  // after the last arrival the cluster only runs empty
      used_ += (to - now_) * busy_ / (kNodes * kGpusPerNode);
      int empty = 0;
      for (const auto& [node, free] : free_)
        empty += free == kGpusPerNode ? 1 : 0;
      empty_ += (to - now_) * empty / kNodes;
      span_ += to - now_;
    }
    now_ = to;
  }
  void Submit(const SimJob& job) {
    auto shape = std::make_shared<api::PodShape>();
    shape->requests[kGpu] = job.gpus;
    WorkloadInput input;
    input.id = job.id;
    input.uid = job.id;
    input.ns = "ns";
    input.local_queue = "q";
    input.queue_time = kNoTime + std::chrono::milliseconds(static_cast<int64_t>(now_ * 3'600'000));
    PodSetInput pod_set;
    pod_set.name = "main";
    pod_set.count = job.pods;
    pod_set.requests = shape->requests;
    pod_set.shape = std::move(shape);
    input.pod_sets.push_back(std::move(pod_set));
    engine_->SetPending(input);
  }
  void Start(const AdmitDecision& decision) {
    SimJob& job = jobs_[by_id_.at(decision.id)];
    job.started = now_;
    ends_.emplace(now_ + job.runs, job.id);
    auto shape = std::make_shared<api::PodShape>();
    shape->requests[kGpu] = job.gpus;
    for (const PlacementSlot& slot : decision.placement) {
      for (int32_t pod = 0; pod < slot.count; ++pod) {
        const std::string node = steered_ && free_[slot.node] >= job.gpus ? slot.node : Emptiest();
        if (free_[node] < job.gpus) {
          ADD_FAILURE() << job.id << " has no node";
          return;
        }
        free_[node] -= job.gpus;
        busy_ += job.gpus;
        const std::string uid = job.id + "/" + std::to_string(bound_[job.id].size());
        bound_[job.id].push_back({uid, node});
        engine_->capacity().SetPod(uid, node, shape, job.id, "main");
      }
    }
  }
  // LeastAllocated; ties by name.
  [[nodiscard]] std::string Emptiest() const {
    auto best = free_.begin();
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->second > best->second)
        best = it;
    }
    return best->first;
  }
  void End(const std::string& id) {
    const int gpus = jobs_[by_id_.at(id)].gpus;
    for (const Bound& pod : bound_[id]) {
      engine_->capacity().RemovePod(pod.uid);
      free_[pod.node] += gpus;
      busy_ -= gpus;
    }
    bound_.erase(id);
    engine_->Remove(id);
  }

  std::vector<SimJob> jobs_;
  bool steered_;
  std::unique_ptr<Engine> engine_ = MakeEngine();
  std::map<std::string, size_t> by_id_;
  std::map<std::string, int> free_;
  std::map<std::string, std::vector<Bound>> bound_;
  std::multimap<double, std::string> ends_;
  double now_ = 0;
  double used_ = 0;
  double empty_ = 0;
  double span_ = 0;
  double busy_ = 0;
};

Simulation Simulate(double load, bool steered) {
  Simulation simulation(MakeJobs(20260101, load), steered);
  simulation.Run();
  std::printf("| %.0f %% | %s | %.0f %% | %.0f %% | %.0f | %.0f | %.0f | %.0f | %.0f |\n",
              100 * load, steered ? "planned nodes" : "spread", simulation.Utilisation(),
              simulation.EmptyNodes(), simulation.Wait(1, 4, 0.95), simulation.Wait(8, 8, 0.5),
              simulation.Wait(8, 8, 0.95), simulation.Wait(16, 64, 0.5),
              simulation.Wait(16, 64, 0.95));
  return simulation;
}

TEST(PackingTest, PlannedNodesKeepRoomForGangs) {
  std::printf(
      "| load | pods go to | GPUs in use | nodes empty | 1-4 GPUs p95 | 8 GPUs p50 | p95 "
      "| 16-64 GPUs p50 | p95 |\n|---|---|---|---|---|---|---|---|---|\n");
  for (const double load : {0.6, 0.75, 0.85}) {
    const Simulation spread = Simulate(load, /*steered=*/false);
    const Simulation planned = Simulate(load, /*steered=*/true);
    EXPECT_GT(planned.Utilisation(), spread.Utilisation() + 3);
    EXPECT_LT(planned.Wait(16, 64, 0.95), spread.Wait(16, 64, 0.95) / 5);
    EXPECT_LE(planned.Wait(1, 4, 0.95), spread.Wait(1, 4, 0.95) + 1);
  }
}

}  // namespace
}  // namespace tutti::engine
