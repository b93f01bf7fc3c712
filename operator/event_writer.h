// SPDX-License-Identifier: Apache-2.0
// Events of the reconcilers, written when nothing more important is: recorder, its timer, metrics.
// Loop thread; lives until the loop has ended, and no longer than the executor.
#pragma once

#include <cstdint>
#include <string>

#include "kube/events.h"
#include "kube/executor.h"
#include "kube/loop.h"
#include "operator/metrics.h"
#include "reconciler/output.h"

namespace tutti {

class EventWriter {
 public:
  // `instance`: who says it, a host or pod name.
  EventWriter(kube::Loop& loop, kube::Executor& executor, Metrics& metrics, std::string instance);
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  // Notes what one step wants written and told, and writes what may be written now.
  void Carry(const reconciler::Output& output);
  // Counts of equal events that are due, and the metrics. Call about every 10 s.
  void Housekeeping();

 private:
  void Pump();

  struct Seen {
    uint64_t written = 0;
    uint64_t coalesced = 0;
    uint64_t dropped = 0;
  };

  kube::Loop& loop_;
  Metrics& metrics_;
  kube::EventRecorder recorder_;
  bool pump_planned_ = false;
  Seen seen_;  // by the metrics
};

}  // namespace tutti
