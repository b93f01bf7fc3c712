// SPDX-License-Identifier: Apache-2.0
// Admission fair sharing (KEP-4136): what each LocalQueue has used in the past, fading with a
// half-life, so that who used less lately goes first within a ClusterQueue. Until a job has run,
// it is charged a penalty for entering, or one queue could start everything at once. Rules with
// numbers: docs/engine.md, "Admission fair sharing".
//
// Resources by name in base units (cores, bytes, devices), as doubles: these are measures of the
// past, not quota. Times must not run backwards; an earlier one counts as no time passed.
#pragma once

#include <map>
#include <string>

#include "api/core.h"
#include "base/time.h"
#include "engine/engine.h"

namespace tutti::engine {

class UsageLedger {
 public:
  void Configure(const AdmissionFairSharing& config) { config_ = config; }

  // What an earlier run has written to the LocalQueue's status: added to what is known, once per
  // LocalQueue; later calls do nothing.
  void Restore(const api::ObjectKey& local_queue, const Consumption& consumed, Time now);
  void Remove(const api::ObjectKey& local_queue) { entries_.erase(local_queue); }

  // The price of entering: the share of one sampling interval of `requests`. Replaces the one that
  // the workload had.
  void Charge(const api::ObjectKey& local_queue, const std::string& workload,
              const Consumption& requests, Time now);
  // It will not be admitted: the price is given back.
  void Refund(const api::ObjectKey& local_queue, const std::string& workload);
  // It was admitted: the price becomes part of what was consumed. `admitted` is what all admitted
  // workloads of the LocalQueue use.
  void Settle(const api::ObjectKey& local_queue, const std::string& workload,
              const Consumption& admitted, Time now);
  // Lets the past fade and adds the present.
  void Sample(const api::ObjectKey& local_queue, const Consumption& admitted, Time now);

  // What orders LocalQueues: weighted sum over resources, prices included, divided by the
  // LocalQueue's weight; infinite for weight 0.
  [[nodiscard]] double Usage(const api::ObjectKey& local_queue, double weight) const;
  [[nodiscard]] Consumption Consumed(const api::ObjectKey& local_queue) const;
  // When its past was last faded; not set when nothing is known of it.
  [[nodiscard]] Time UpdatedAt(const api::ObjectKey& local_queue) const;

 private:
  struct Entry {
    Consumption consumed;
    std::map<std::string, Consumption> charges;  // by workload
    Time last_update = kNoTime;
    bool restored = false;
  };
  // 1 - 0.5^(elapsed / half-life); 0 when the half-life is 0.
  [[nodiscard]] double Alpha(Duration elapsed) const;
  void Fade(Entry& entry, const Consumption& admitted, Time now) const;
  Entry& At(const api::ObjectKey& local_queue, Time now);

  AdmissionFairSharing config_;
  std::map<api::ObjectKey, Entry> entries_;
};

}  // namespace tutti::engine
