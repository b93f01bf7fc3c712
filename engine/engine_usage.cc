// SPDX-License-Identifier: Apache-2.0
// Admission fair sharing: usage of LocalQueues in the past orders the lanes of their ClusterQueue;
// usage_ledger.h has the arithmetic.
#include "engine/engine_impl.h"

namespace tutti::engine {

bool EngineImpl::IsUsageBased(const QueueState& queue) const {
  return usage_based_ && queue.config.usage_based;
}

void EngineImpl::SetAdmissionFairSharing(const std::optional<AdmissionFairSharing>& config) {
  usage_based_ = config.has_value();
  past_.Configure(config.value_or(AdmissionFairSharing{}));
  for (const auto& [name, id] : queue_ids_) {
    ResolveQueue(id);  // into lanes, or out of them
  }
  ConfigChanged();
}

Consumption EngineImpl::BaseUnits(const Usage& usage) const {
  Consumption sum;
  for (const auto& [pair, amount] : usage) {
    const std::string& resource = tables_.resources.Name(tables_.pairs.Resource(pair));
    sum[resource] += api::FromAmount(resource, Saturate(amount)).ApproximateDouble();
  }
  return sum;
}

Consumption EngineImpl::AdmittedUse(const LocalQueueState& local) const {
  Usage admitted;
  for (const auto& [pair, sums] : local.book.usage) {
    AddUsage(admitted, pair, sums.admitted);
  }
  return BaseUnits(admitted);
}

// The LocalQueue's usage has changed: where its workloads stand in the queue has, too.
void EngineImpl::PlaceLane(LocalQueueId id) {
  const LocalQueueState& local = Local(id);
  if (!local.exists || !IsUsageBased(Queue(local.queue))) {
    return;
  }
  QueueState& queue = Queue(local.queue);
  const WorkloadId first = queue.pending->First();
  queue.pending->SetUsage(id, past_.Usage(local.key, local.fair_weight));
  if (queue.pending->First() != first) {
    queue.touched = true;
    Wake(local.queue);
  }
}

void EngineImpl::ChargeEntry(WorkloadId id) {
  const WorkloadState& workload = Workload(id);
  if (IsUsageBased(Queue(workload.queue))) {
    past_.Charge(Local(workload.local_queue).key, Key(id).id, BaseUnits(workload.usage), now_);
    PlaceLane(workload.local_queue);
  }
}

void EngineImpl::RefundEntry(WorkloadId id) {
  past_.Refund(Local(Workload(id).local_queue).key, Key(id).id);
  PlaceLane(Workload(id).local_queue);
}

void EngineImpl::SettleEntry(WorkloadId id) {
  const WorkloadState& workload = Workload(id);
  if (IsUsageBased(Queue(workload.queue))) {
    const LocalQueueState& local = Local(workload.local_queue);
    past_.Settle(local.key, Key(id).id, AdmittedUse(local), now_);
    PlaceLane(workload.local_queue);
  }
}

void EngineImpl::RestoreConsumption(const api::ObjectKey& local_queue, const Consumption& consumed,
                                    Time now) {
  past_.Restore(local_queue, consumed, now);
  PlaceLane(LocalByKey(local_queue));
}

void EngineImpl::SampleConsumption(const api::ObjectKey& local_queue, Time now) {
  const LocalQueueId id = LocalByKey(local_queue);
  past_.Sample(local_queue, AdmittedUse(Local(id)), now);
  PlaceLane(id);
}

std::optional<PastUsage> EngineImpl::PastUsageOf(const api::ObjectKey& local_queue) const {
  auto found = local_queue_ids_.find(local_queue);
  if (!usage_based_ || found == local_queue_ids_.end() || !Local(found->second).exists) {
    return std::nullopt;
  }
  return PastUsage{past_.Consumed(local_queue),
                   past_.Usage(local_queue, Local(found->second).fair_weight),
                   past_.UpdatedAt(local_queue)};
}

}  // namespace tutti::engine
