// SPDX-License-Identifier: Apache-2.0
#include "operator/pending_lookup.h"

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>

namespace tutti {
namespace {

constexpr std::chrono::seconds kLimit{5};

using Found = Result<std::optional<std::vector<visibility::PendingWorkload>>>;

}  // namespace

std::optional<std::vector<visibility::PendingWorkload>> PendingIn(const reconciler::Core& core,
                                                                  const api::ObjectKey& queue) {
  const reconciler::World& world = core.world();
  std::string cluster_queue = queue.name;
  if (!queue.ns.empty()) {
    const auto local = world.local_queues.Find(queue);
    if (local == nullptr) {
      return std::nullopt;
    }
    cluster_queue = local->cluster_queue;
  }
  if (world.cluster_queues.Find({"", cluster_queue}) == nullptr) {
    return std::nullopt;
  }
  std::vector<visibility::PendingWorkload> pending;
  for (const std::string& id : core.engine().PendingOrder(cluster_queue)) {
    const size_t slash = id.find('/');
    const auto workload = world.workloads.Find({id.substr(0, slash), id.substr(slash + 1)});
    if (workload == nullptr) {
      continue;  // deleted, and the engine is told in the next step
    }
    pending.push_back({workload->meta.Key(), workload->meta.owners, workload->meta.created,
                       workload->priority, workload->queue_name});
  }
  return pending;
}

visibility::Lookup LookUpOnLoop(kube::Loop& loop, std::function<const reconciler::Core*()> core) {
  return [&loop, core = std::move(core)](const api::ObjectKey& queue) -> Found {
    const auto answer = std::make_shared<std::promise<Found>>();
    auto future = answer->get_future();
    loop.Post([answer, core, queue] {
      if (const reconciler::Core* present = core()) {
        answer->set_value(PendingIn(*present, queue));
      } else {
        answer->set_value(
            Fail(ErrorCode::kUnavailable, "this replica doesn't decide (yet): ask again"));
      }
    });
    if (future.wait_for(kLimit) != std::future_status::ready) {
      return Fail(ErrorCode::kTimeout, "no answer within 5s: the controller is busy or stops");
    }
    return future.get();
  };
}

}  // namespace tutti
