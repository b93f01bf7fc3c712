// SPDX-License-Identifier: Apache-2.0
// Everything that one step of the controller wants done, as data. The operator carries it out; the
// simulator and the tests look at it. Order matters only within one effect.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "api/meta.h"
#include "api/quantity.h"
#include "api/request.h"
#include "base/time.h"

namespace tutti::reconciler {

// Writes that belong together: carried out one after the other, the rest is dropped after a
// failure. Effects with the same `order_key` never run at the same time and keep their order.
struct Effect {
  uint64_t token = 0;
  std::string order_key;
  std::vector<api::WriteRequest> writes;
  bool tells = false;  // nothing happens by it: a reason for waiting, counts of a queue
};

// A GET whose answer a decision waits for (Core::OnRead). Rare: what is asked often is watched.
struct Read {
  uint64_t token = 0;
  std::string path;  // with query, from "/api…"
};

struct EventRecord {
  std::string api_version;
  std::string kind;
  api::ObjectKey object;
  std::string uid;
  bool warning = false;
  std::string reason;
  std::string message;
  bool any_message = false;  // one event for all that differ by the message only, with a count
};

enum class HistoryKind {
  kCreated,
  kPending,
  kQuotaReserved,
  kReleased,
  kLanded,
  kEvicted,
  kRequeued,
  kFinished,
  kDeleted,
};
[[nodiscard]] std::string_view ToString(HistoryKind kind);

// One state change of one workload, for the ledger.
struct HistoryRow {
  Time time = kNoTime;
  HistoryKind kind = HistoryKind::kCreated;
  api::ObjectKey workload;
  std::string workload_uid;
  std::string job;  // name of the Job, in the workload's namespace
  std::string local_queue;
  std::string cluster_queue;
  int32_t pods = 0;
  struct Amount {
    std::string flavor;
    std::string resource;
    int64_t amount = 0;
  };
  std::vector<Amount> amounts;
  std::string reason;
  std::string message;
};

// Mode Observe: what another controller decided, and what would have been decided here on the same
// state.
struct ObservedDecision {
  enum class Kind {
    kReserved,    // it gave quota
    kPreempted,   // it made somebody give way
    kNotStarted,  // it leaves waiting who could start
  };
  Time time = kNoTime;
  Kind kind = Kind::kReserved;
  api::ObjectKey workload;
  std::string workload_uid;
  std::string local_queue;
  std::string cluster_queue;
  bool agreed = false;
  std::string live;  // what it did
  std::string ours;  // what would have been done here
};
[[nodiscard]] std::string_view ToString(ObservedDecision::Kind kind);

// A metric sample by its exported name; the operator knows type and help text.
struct MetricSample {
  enum class Op { kAdd, kSet, kObserve, kRemove };  // kRemove drops all series with these labels
  Op op = Op::kAdd;
  std::string name;
  std::vector<std::pair<std::string, std::string>> labels;
  double value = 0;
};

struct Output {
  std::vector<Effect> effects;
  std::vector<Read> reads;
  std::vector<EventRecord> events;
  std::vector<HistoryRow> history;
  std::vector<MetricSample> metrics;
  std::vector<ObservedDecision> observed;
  int passes = 0;  // engine passes in this step
  std::vector<std::string>
      bugs;  // broken invariants that were survived; each is logged and counted
};

}  // namespace tutti::reconciler
