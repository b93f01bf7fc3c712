// SPDX-License-Identifier: Apache-2.0
#include "operator/queue_metrics.h"

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
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

}  // namespace

void QueueMetrics::Set(Metric metric, std::vector<std::string> labels, double value,
                       Metrics& metrics) {
  metrics.Set(metric, Metrics::Labels(labels.begin(), labels.end()), value);
  present_.insert({metric, std::move(labels)});
}

void QueueMetrics::Quotas(const api::ClusterQueue& queue, const engine::QueueReport& report,
                          Metrics& metrics) {
  constexpr double kUnlimited = std::numeric_limits<double>::infinity();
  for (const api::ResourceGroup& group : queue.groups) {
    for (const api::FlavorQuotas& flavor : group.flavors) {
      for (const api::ResourceQuota& quota : flavor.resources) {
        const std::vector<std::string> labels{queue.cohort, queue.meta.name, flavor.name,
                                              quota.name};
        const auto amount = [&quota](const api::Quantity& quantity) {
          return Exported(quota.name, api::ToAmount(quota.name, quantity));
        };
        Set(Metric::kNominalQuota, labels, amount(quota.nominal), metrics);
        Set(Metric::kBorrowingLimit, labels,
            quota.borrowing_limit ? amount(*quota.borrowing_limit) : kUnlimited, metrics);
        Set(Metric::kLendingLimit, labels,
            quota.lending_limit ? amount(*quota.lending_limit) : kUnlimited, metrics);
      }
    }
  }
  for (const engine::FlavorUsage& usage : report.usage) {
    const std::vector<std::string> labels{queue.cohort, queue.meta.name, usage.flavor,
                                          usage.resource};
    Set(Metric::kResourceReservation, labels, Exported(usage.resource, usage.reserved), metrics);
    Set(Metric::kResourceUsage, labels, Exported(usage.resource, usage.admitted), metrics);
  }
}

bool QueueMetrics::Wants(const reconciler::World& world, const api::ObjectKey& local_queue) const {
  if (!config_.local_queues) {
    return false;
  }
  if (!config_.local_queue_selector.present) {
    return true;
  }
  const auto queue = world.local_queues.Find(local_queue);
  return queue != nullptr && config_.local_queue_selector.Matches(queue->meta.labels);
}

// A finished workload keeps its admission, so it is known whose it was.
void QueueMetrics::SetFinished(const reconciler::World& world, Metrics& metrics) {
  std::map<std::string, int64_t> of_cluster_queue;
  std::map<api::ObjectKey, int64_t> of_local_queue;
  for (const auto& [key, workload] : world.workloads.All()) {
    if (!workload->Finished()) {
      continue;
    }
    ++of_local_queue[{key.ns, workload->queue_name}];
    if (workload->status.admission.has_value()) {
      ++of_cluster_queue[workload->status.admission->cluster_queue];
    }
  }
  for (const auto& [key, queue] : world.cluster_queues.All()) {
    Set(Metric::kFinishedWorkloads, {key.name}, static_cast<double>(of_cluster_queue[key.name]),
        metrics);
  }
  for (const auto& [key, queue] : world.local_queues.All()) {
    if (Wants(world, key)) {
      Set(Metric::kLocalQueueFinishedWorkloads, {key.name, key.ns},
          static_cast<double>(of_local_queue[key]), metrics);
    }
  }
}

void QueueMetrics::ShowCustomLabels(const reconciler::World& world, Metrics& metrics) const {
  using Source = CustomLabel::Source;
  const auto show = [&](Source source, const auto& store) {
    if (!custom_.Has(source)) {
      return;
    }
    for (const auto& [key, object] : store.All()) {
      metrics.SetCustomValues(source, key.ns.empty() ? key.name : key.ToString(),
                              custom_.ValuesOf(source, object->meta));
    }
  };
  show(Source::kClusterQueue, world.cluster_queues);
  show(Source::kLocalQueue, world.local_queues);
  show(Source::kCohort, world.cohorts);
}

void QueueMetrics::SetAdmitted(const reconciler::World& world, Metrics& metrics) {
  if (!metrics.SplitByWorkload(Metric::kAdmittedActiveWorkloads)) {
    return;
  }
  std::map<std::vector<std::string>, double> counts;
  for (const auto& [key, workload] : world.workloads.All()) {
    if (workload->Admitted() && !workload->Finished() && workload->status.admission.has_value()) {
      std::vector<std::string> labels =
          custom_.ValuesOf(CustomLabel::Source::kWorkload, workload->meta);
      labels.insert(labels.begin(), workload->status.admission->cluster_queue);
      ++counts[std::move(labels)];
    }
  }
  for (const auto& [labels, count] : counts) {
    Set(Metric::kAdmittedActiveWorkloads, labels, count, metrics);
  }
}

// By the reasons that their conditions name, or would if nobody has said anything yet.
void QueueMetrics::SetUnadmitted(const reconciler::World& world, Metrics& metrics) {
  std::map<std::vector<std::string>, int64_t> of_cluster_queue;
  std::map<std::vector<std::string>, int64_t> of_local_queue;
  for (const auto& [key, workload] : world.workloads.All()) {
    if (workload->Admitted() || workload->Finished() || workload->meta.deleted.has_value()) {
      continue;
    }
    const auto local = world.local_queues.Find({key.ns, workload->queue_name});
    if (local == nullptr) {
      continue;
    }
    const api::Condition* admitted = api::FindCondition(workload->status.conditions, "Admitted");
    const api::Condition* reserved =
        api::FindCondition(workload->status.conditions, "QuotaReserved");
    const std::string reason = admitted == nullptr ? "NoReservation" : admitted->reason;
    const std::string cause = reserved == nullptr          ? "PendingEvaluation"
                              : reserved->status == "True" ? ""
                                                           : reserved->reason;
    ++of_cluster_queue[{local->cluster_queue, reason, cause}];
    ++of_local_queue[{local->meta.name, key.ns, local->cluster_queue, reason, cause}];
  }
  for (const auto& [labels, count] : of_cluster_queue) {
    Set(Metric::kUnadmittedWorkloads, labels, static_cast<double>(count), metrics);
  }
  for (const auto& [labels, count] : of_local_queue) {
    if (Wants(world, {labels[1], labels[0]})) {
      Set(Metric::kLocalQueueUnadmittedWorkloads, labels, static_cast<double>(count), metrics);
    }
  }
}

// Kueue's series about a Cohort end with its object, and come back when something changes below the
// name.
bool QueueMetrics::IsSilent(const std::string& cohort, bool exists,
                            const engine::CohortReport& report) {
  const bool existed = cohort_objects_.erase(cohort) > 0;
  if (exists) {
    cohort_objects_.insert(cohort);
    deleted_cohorts_.erase(cohort);
    return false;
  }
  std::string numbers = std::to_string(report.admitted);
  for (const engine::FlavorUsage& usage : report.usage) {
    numbers += "|" + usage.flavor + "/" + usage.resource + "=" + std::to_string(usage.reserved) +
               "/" + std::to_string(usage.nominal);
  }
  if (existed) {
    deleted_cohorts_[cohort] = std::move(numbers);
    return true;
  }
  const auto deleted = deleted_cohorts_.find(cohort);
  if (deleted == deleted_cohorts_.end()) {
    return false;
  }
  if (deleted->second == numbers) {
    return true;
  }
  deleted_cohorts_.erase(deleted);
  return false;
}

void QueueMetrics::SetCohorts(const reconciler::World& world, const engine::Engine& engine,
                              Metrics& metrics) {
  std::set<std::string> names;  // a cohort that is only named exists too
  for (const auto& [key, cohort] : world.cohorts.All()) {
    names.insert(key.name);
    names.insert(cohort->parent);
  }
  for (const auto& [key, queue] : world.cluster_queues.All()) {
    names.insert(queue->cohort);
  }
  names.erase("");
  for (const std::string& name : names) {
    if (cohorts_) {
      const auto cohort = world.cohorts.Find({"", name});
      Set(Metric::kCohortInfo, {name, cohort == nullptr ? "" : cohort->parent, RootOf(world, name)},
          1, metrics);
    }
    const engine::CohortReport report = engine.ReportCohort(name);
    if (IsSilent(name, world.cohorts.Find({"", name}) != nullptr, report)) {
      continue;
    }
    Set(Metric::kCohortSubtreeActive, {name}, report.admitted, metrics);
    for (const engine::FlavorUsage& usage : report.usage) {
      const std::vector<std::string> labels{name, usage.flavor, usage.resource};
      if (usage.nominal > 0) {
        Set(Metric::kCohortSubtreeQuota, labels, Exported(usage.resource, usage.nominal), metrics);
      }
      if (usage.reserved > 0) {
        Set(Metric::kCohortSubtreeReservations, labels, Exported(usage.resource, usage.reserved),
            metrics);
      }
    }
  }
  for (const std::string& gone : named_cohorts_) {
    if (names.count(gone) == 0) {
      metrics.RemoveCohort(gone);
      cohort_objects_.erase(gone);
      deleted_cohorts_.erase(gone);
    }
  }
  named_cohorts_ = std::move(names);
}

void QueueMetrics::ForgetLocalQueues(const reconciler::World& world, Metrics& metrics) {
  std::set<api::ObjectKey> present;
  for (const auto& [key, queue] : world.local_queues.All()) {
    if (Wants(world, key)) {
      present.insert(key);
    }
  }
  for (const api::ObjectKey& gone : local_queues_) {
    if (present.count(gone) == 0) {
      metrics.RemoveLocalQueue(gone);
    }
  }
  local_queues_ = std::move(present);
}

void QueueMetrics::Update(const reconciler::World& world, const engine::Engine& engine,
                          Metrics& metrics) {
  for (const auto& [key, queue] : world.cluster_queues.All()) {
    Set(Metric::kClusterQueueInfo,
        {key.name, queue->cohort, queue->cohort.empty() ? "" : RootOf(world, queue->cohort)}, 1,
        metrics);
    const engine::QueueReport report = engine.Report(key.name);
    if (report.weighted_share) {
      Set(Metric::kClusterQueueWeightedShare, {key.name, queue->cohort},
          std::isinf(*report.weighted_share) ? std::numeric_limits<double>::quiet_NaN()
                                             : *report.weighted_share,
          metrics);
    }
    if (config_.cluster_queue_resources) {
      Quotas(*queue, report, metrics);
      for (const auto& [resource, amount] : engine.PendingRequests(key.name)) {
        Set(Metric::kResourcePending, {key.name, resource}, Exported(resource, amount), metrics);
      }
    }
  }
  for (const auto& [key, cohort] : world.cohorts.All()) {
    if (const std::optional<double> share = engine.CohortShare(key.name)) {
      Set(Metric::kCohortWeightedShare, {key.name}, *share, metrics);
    }
  }
  for (const auto& [key, queue] : world.local_queues.All()) {
    if (!Wants(world, key)) {
      continue;
    }
    const engine::QueueReport report = engine.ReportLocal(key);
    const bool active =
        engine.Health(queue->cluster_queue).active && queue->stop_policy == api::StopPolicy::kNone;
    Set(Metric::kLocalQueuePendingWorkloads, {key.name, key.ns, "active"},
        report.pending - report.parked, metrics);
    Set(Metric::kLocalQueuePendingWorkloads, {key.name, key.ns, "inadmissible"}, report.parked,
        metrics);
    Set(Metric::kLocalQueueReservingActiveWorkloads, {key.name, key.ns}, report.reserving, metrics);
    Set(Metric::kLocalQueueAdmittedActiveWorkloads, {key.name, key.ns}, report.admitted, metrics);
    for (const char* state : {"True", "False", "Unknown"}) {
      const bool now = std::string_view(state) == (active ? "True" : "False");
      Set(Metric::kLocalQueueStatus, {key.name, key.ns, state}, now ? 1 : 0, metrics);
    }
    if (const auto past = engine.PastUsageOf(key)) {
      Set(Metric::kLocalQueuePastUsage, {key.name, key.ns, queue->cluster_queue}, past->usage,
          metrics);
    }
    if (config_.cluster_queue_resources) {
      for (const engine::FlavorUsage& usage : report.usage) {
        const std::vector<std::string> labels{key.name, key.ns, usage.flavor, usage.resource};
        Set(Metric::kLocalQueueResourceReservation, labels,
            Exported(usage.resource, usage.reserved), metrics);
        Set(Metric::kLocalQueueResourceUsage, labels, Exported(usage.resource, usage.admitted),
            metrics);
      }
    }
  }
  SetFinished(world, metrics);
  SetAdmitted(world, metrics);
  if (reasons_) {
    SetUnadmitted(world, metrics);
  }
  SetCohorts(world, engine, metrics);
  ForgetLocalQueues(world, metrics);
  for (const Series& series : known_) {
    if (present_.count(series) == 0) {
      metrics.Remove(series.metric, Metrics::Labels(series.labels.begin(), series.labels.end()));
    }
  }
  known_ = std::exchange(present_, {});
}

}  // namespace tutti
