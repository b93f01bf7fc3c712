// SPDX-License-Identifier: Apache-2.0
#include "engine/testing/scale.h"

#include <utility>

namespace tutti::engine::testing {

std::string Uid(char first, int64_t number) {
  uint64_t bits = static_cast<uint64_t>(number) * 0x9E3779B97F4A7C15;
  std::string uid(1, first);
  for (int i = 1; i < 36; ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    uid += dash ? '-' : "0123456789abcdef"[bits >> 60];
    bits = bits << 4 | bits >> 60;
  }
  return uid;
}

api::ClusterQueue Queue(const std::string& name, const std::string& cohort, int64_t nominal) {
  api::ClusterQueue queue;
  queue.meta.name = name;
  queue.cohort = cohort;
  queue.namespace_selector.present = true;
  api::ResourceQuota quota;
  quota.name = "cpu";
  quota.nominal = api::FromAmount("cpu", nominal);
  queue.groups.push_back({{"cpu"}, {{"default", {quota}}}});
  return queue;
}

std::string Name(int64_t index) {
  return "q" + std::to_string(index);
}

Scale::Scale() : engine_(MakeEngine()) {
  api::ResourceFlavor flavor;
  flavor.meta.name = "default";
  engine_->SetFlavor(flavor);
  engine_->SetFlavorCapacityMode("default", CapacityMode::kOff);
  for (int i = 0; i < kShapes; ++i) {
    auto shape = std::make_shared<api::PodShape>();
    shape->requests["cpu"] = 1000 + i;
    shapes_.push_back(std::move(shape));
  }
}

void Scale::AddQueue(const api::ClusterQueue& queue) {
  engine_->SetClusterQueue(queue);
  api::LocalQueue local;
  local.meta.ns = "ns";
  local.meta.name = local.cluster_queue = queue.meta.name;
  engine_->SetLocalQueue(local);
}

std::string Scale::Id(int64_t number) {
  const std::string digits = std::to_string(number);
  return "ns/job-training-run-" + std::string(8 - digits.size(), '0') + digits + "-3f2ac";
}

WorkloadInput Scale::Workload(int64_t number, const std::string& queue, int64_t priority) const {
  WorkloadInput input;
  input.id = Id(number);
  input.uid = input.workload_uid = Uid('a', number);
  input.job_uid = Uid('b', number);
  input.ns = "ns";
  input.local_queue = queue;
  input.priority = priority;
  input.queue_time = kNoTime + std::chrono::seconds(number);
  PodSetInput pod_set;
  pod_set.name = "main";
  pod_set.count = 1;
  pod_set.shape = shapes_[static_cast<size_t>(number % kShapes)];
  pod_set.requests = pod_set.shape->requests;
  input.pod_sets.push_back(std::move(pod_set));
  return input;
}

std::unique_ptr<Scale> Full(int64_t queues, int64_t pending) {
  auto scale = std::make_unique<Scale>();
  for (int64_t i = 0; i < queues; ++i) {
    scale->AddQueue(Queue(Name(i), "", 1500));
  }
  for (int64_t number = 0; number < pending + queues; ++number) {
    scale->engine().SetPending(scale->Workload(number, Name(number % queues)));
  }
  scale->engine().RunPass(kNoTime);
  return scale;
}

std::unique_ptr<Scale> Lent(int64_t candidates) {
  constexpr int64_t kLeaves = 8;
  auto scale = std::make_unique<Scale>();
  for (int64_t level = 0; level < 3; ++level) {
    for (int64_t i = 0; i < (int64_t{1} << level); ++i) {
      api::Cohort cohort;
      cohort.meta.name = "c" + std::to_string(level) + "-" + std::to_string(i);
      if (level > 0) {
        cohort.parent = "c" + std::to_string(level - 1) + "-" + std::to_string(i / 2);
      }
      scale->engine().SetCohort(cohort);
    }
  }
  const int64_t each = candidates / kLeaves * 1020;
  for (int64_t i = 0; i < kLeaves; ++i) {
    scale->AddQueue(Queue(Name(i), "c2-" + std::to_string(i % 4), each));
  }
  api::ClusterQueue lender = Queue("lender", "c2-0", each);
  lender.preemption.reclaim_within_cohort = api::PreemptionPolicy::kAny;
  scale->AddQueue(lender);
  for (int64_t number = 0; number < candidates * 2; ++number) {
    scale->engine().SetPending(scale->Workload(number, Name(number % kLeaves)));
  }
  const size_t admitted = scale->engine().RunPass(kNoTime).admitted.size();
  return admitted < static_cast<size_t>(candidates) ? nullptr : std::move(scale);
}

std::unique_ptr<Scale> Shared(int64_t queues, std::vector<std::string>& running) {
  auto scale = std::make_unique<Scale>();
  scale->engine().SetFairSharing(FairSharing{});
  for (int64_t i = 0; i < queues; ++i) {
    scale->AddQueue(Queue(Name(i), "all", 1000));
  }
  for (int64_t number = 0; number < queues * 10; ++number) {
    scale->engine().SetPending(scale->Workload(number, Name(number % queues)));
  }
  running.clear();
  for (const AdmitDecision& admitted : scale->engine().RunPass(kNoTime).admitted) {
    running.push_back(admitted.id);
  }
  return scale;
}

}  // namespace tutti::engine::testing
