// SPDX-License-Identifier: Apache-2.0
#include "operator/queue_metrics.h"

#include <limits>
#include <map>
#include <string_view>
#include <utility>

namespace tutti {
namespace {

// In the unit that Kueue exports: cores, bytes, pieces.
double Exported(std::string_view resource, int64_t amount) {
  return resource == "cpu" ? static_cast<double>(amount) / 1000.0 : static_cast<double>(amount);
}

// The topmost cohort; cycles and missing parents end the walk.
std::string RootOf(const reconciler::World& world, std::string cohort) {
  std::set<std::string> seen;
  while (seen.insert(cohort).second) {
    const auto found = world.cohorts.Find({"", cohort});
    if (found == nullptr || found->parent.empty()) {
      break;
    }
    cohort = found->parent;
  }
  return cohort;
}

void Quotas(const api::ClusterQueue& queue, const engine::QueueReport& report, Metrics& metrics) {
  constexpr double kUnlimited = std::numeric_limits<double>::infinity();
  for (const api::ResourceGroup& group : queue.groups) {
    for (const api::FlavorQuotas& flavor : group.flavors) {
      for (const api::ResourceQuota& quota : flavor.resources) {
        const Metrics::Labels labels{queue.cohort, queue.meta.name, flavor.name, quota.name};
        const auto amount = [&quota](const api::Quantity& quantity) {
          return Exported(quota.name, api::ToAmount(quota.name, quantity));
        };
        metrics.Set(Metric::kNominalQuota, labels, amount(quota.nominal));
        metrics.Set(Metric::kBorrowingLimit, labels,
                    quota.borrowing_limit ? amount(*quota.borrowing_limit) : kUnlimited);
        metrics.Set(Metric::kLendingLimit, labels,
                    quota.lending_limit ? amount(*quota.lending_limit) : kUnlimited);
      }
    }
  }
  for (const engine::FlavorUsage& usage : report.usage) {
    const Metrics::Labels labels{queue.cohort, queue.meta.name, usage.flavor, usage.resource};
    metrics.Set(Metric::kResourceReservation, labels, Exported(usage.resource, usage.reserved));
    metrics.Set(Metric::kResourceUsage, labels, Exported(usage.resource, usage.admitted));
  }
}

}  // namespace

void QueueMetrics::Update(const reconciler::World& world, const engine::Engine& engine,
                          Metrics& metrics) {
  // A queue may have changed its cohort or its flavors: the series are made anew.
  for (const Metric metric :
       {Metric::kClusterQueueInfo, Metric::kNominalQuota, Metric::kBorrowingLimit,
        Metric::kLendingLimit, Metric::kResourceReservation, Metric::kResourceUsage}) {
    metrics.Clear(metric);
  }
  for (const auto& [key, queue] : world.cluster_queues.All()) {
    metrics.Set(
        Metric::kClusterQueueInfo,
        {key.name, queue->cohort, queue->cohort.empty() ? "" : RootOf(world, queue->cohort)}, 1);
    if (config_.cluster_queue_resources) {
      Quotas(*queue, engine.Report(key.name), metrics);
    }
  }
  if (!config_.local_queues) {
    return;
  }
  std::set<api::ObjectKey> present;
  for (const auto& [key, queue] : world.local_queues.All()) {
    if (config_.local_queue_selector.present &&
        !config_.local_queue_selector.Matches(queue->meta.labels)) {
      continue;
    }
    present.insert(key);
    const engine::QueueReport report = engine.ReportLocal(key);
    const bool active =
        engine.Health(queue->cluster_queue).active && queue->stop_policy == api::StopPolicy::kNone;
    metrics.Set(Metric::kLocalQueuePendingWorkloads, {key.name, key.ns, "active"},
                active ? report.pending : 0);
    metrics.Set(Metric::kLocalQueuePendingWorkloads, {key.name, key.ns, "inadmissible"},
                active ? 0 : report.pending);
    metrics.Set(Metric::kLocalQueueReservingActiveWorkloads, {key.name, key.ns}, report.reserving);
    metrics.Set(Metric::kLocalQueueAdmittedActiveWorkloads, {key.name, key.ns}, report.admitted);
    for (const std::string_view state : {"True", "False", "Unknown"}) {
      const bool now = state == (active ? "True" : "False");
      metrics.Set(Metric::kLocalQueueStatus, {key.name, key.ns, state}, now ? 1 : 0);
    }
    if (config_.cluster_queue_resources) {
      for (const engine::FlavorUsage& usage : report.usage) {
        const Metrics::Labels labels{key.name, key.ns, usage.flavor, usage.resource};
        metrics.Set(Metric::kLocalQueueResourceReservation, labels,
                    Exported(usage.resource, usage.reserved));
        metrics.Set(Metric::kLocalQueueResourceUsage, labels,
                    Exported(usage.resource, usage.admitted));
      }
    }
  }
  for (const api::ObjectKey& gone : local_queues_) {
    if (present.count(gone) == 0) {
      metrics.RemoveLocalQueue(gone);
    }
  }
  local_queues_ = std::move(present);
}

}  // namespace tutti
