// SPDX-License-Identifier: Apache-2.0
// Admission fair sharing: what LocalQueues used in the past is kept in their status
// (admissionFairSharingStatus, KEP-4136), read back after a start and sampled now and then.
#include "base/json.h"
#include "reconciler/core.h"

namespace tutti::reconciler {

void Core::RestorePast(const api::LocalQueue& queue) {
  if (!options_.admission_fair_sharing) {
    return;
  }
  engine::Consumption consumed;
  const auto status = Json::Parse(queue.status_json.empty() ? "{}" : queue.status_json);
  if (status) {
    const Json& past = (*status)["fairSharing"]["admissionFairSharingStatus"]["consumedResources"];
    for (const auto& [resource, amount] : past.AsObject()) {
      // What somebody else wrote there and can't be read counts as nothing.
      if (const auto quantity = api::Quantity::FromJson(amount); quantity && quantity->Sign() > 0) {
        consumed[resource] = quantity->ApproximateDouble();
      }
    }
  }
  engine_->RestoreConsumption(queue.meta.Key(), consumed, now_);
}

void Core::SamplePast() {
  if (!options_.admission_fair_sharing || now_ < next_sample_) {
    return;
  }
  next_sample_ = now_ + options_.admission_fair_sharing->usage_sampling_interval;
  for (const auto& [key, queue] : world_.local_queues.All()) {
    if (engine_->PastUsageOf(key)) {
      engine_->SampleConsumption(key, now_);
      DirtyStatus("LocalQueue/" + key.ToString());
    }
  }
}

}  // namespace tutti::reconciler
