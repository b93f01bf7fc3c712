// SPDX-License-Identifier: Apache-2.0
// The ledger: what happened to every workload, in a SQLite file. History, never truth: Append never
// blocks and never fails, rows that can't be written are counted and lost, and no decision reads
// them. A damaged file is renamed aside (<path>.corrupt) and a new one begun; without a usable file
// the operator goes on and the ledger tries again later.
//
// Threads: Append and stats from any; one writer thread owns the only read-write connection.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/meta.h"
#include "base/result.h"
#include "base/time.h"

namespace tutti::storage {

// Stored by number: only add at the end.
enum class LedgerEvent {
  kCreated = 1,
  kPending,  // the reason why it waits changed
  kQuotaReserved,
  kAdmitted,
  kReleased,   // the Job was started
  kPodsBound,  // every pod of the gang has a node
  kPodsReady,
  kEvicted,
  kQuotaReturned,  // quota back without a new turn in the queue
  kRequeued,       // quota back, waits again
  kFinished,
  kDeactivated,
  kDeleted,
  // Mode Observe: a decision of another controller that was foreseen, or was not. The reason is its
  // kind, the message says on a line each what that controller did and what Tutti would have done.
  kForeseen,
  kNotForeseen,
};
[[nodiscard]] std::string_view ToString(LedgerEvent event);
inline constexpr int kLedgerEventCount = 15;

struct LedgerAmount {
  std::string flavor;
  std::string resource;
  int64_t amount = 0;  // cpu in milli-units, the rest in units
  bool operator==(const LedgerAmount&) const = default;
};

struct LedgerRow {
  Time time = kNoTime;
  LedgerEvent event = LedgerEvent::kCreated;
  api::ObjectKey workload;
  std::string uid;
  std::string job;  // "Job/name"
  std::string local_queue;
  std::string cluster_queue;
  int32_t pods = 0;
  std::string reason;
  std::string message;                // cut at kMaxMessage bytes
  std::vector<LedgerAmount> amounts;  // at most one per flavor and resource
  bool operator==(const LedgerRow&) const = default;
};
inline constexpr size_t kMaxMessage = 2048;

struct LedgerOptions {
  size_t queue_limit = 20'000;  // rows waiting; more are dropped
  size_t batch = 100;
  std::chrono::milliseconds flush_interval{200};
  std::chrono::milliseconds reopen_interval{10'000};
  // Rows older than the newest one by more than this are deleted, a few at a time. 0 = keep.
  Duration retention = std::chrono::hours(24 * 30);
  int64_t max_pages = 0;  // of 4 KiB; the oldest rows give way. 0 = no limit
};

struct LedgerStats {
  uint64_t written = 0;
  uint64_t dropped = 0;
  uint64_t open_errors = 0;
  uint64_t write_errors = 0;
  uint64_t corrupt_files = 0;  // renamed aside
  uint64_t expired = 0;        // deleted by retention or to make room
  size_t queued = 0;
  bool available = false;  // the file is open
  std::string last_error;
};

class Ledger {
 public:
  // Never fails: the file is opened by the writer thread. An empty path makes a ledger that drops
  // every row without counting it.
  static std::unique_ptr<Ledger> Open(const std::string& path, const LedgerOptions& options = {});
  // Writes what is queued (at most one attempt per batch), then closes.
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  void Append(LedgerRow row);
  // Waits until every row appended before is written or given up.
  void Flush();
  [[nodiscard]] LedgerStats stats() const;

 private:
  class Writer;
  explicit Ledger(std::unique_ptr<Writer> writer);
  std::unique_ptr<Writer> writer_;
};

// Amount-seconds of quota held by a ClusterQueue: the integral over time of the amount reserved.
struct QueueUsage {
  std::string cluster_queue;
  std::string flavor;
  std::string resource;
  double amount_seconds = 0;
  int64_t reservations = 0;
};

struct ReasonCount {
  LedgerEvent event = LedgerEvent::kCreated;
  std::string reason;
  int64_t count = 0;
};

// Questions to the file, on a connection of their own that only reads. One thread.
class LedgerReader {
 public:
  static Result<std::unique_ptr<LedgerReader>> Open(const std::string& path);
  ~LedgerReader();

  // In order of time. Workloads of the same name that existed one after the other are all included.
  Result<std::vector<LedgerRow>> History(const api::ObjectKey& workload);
  // From QuotaReserved to QuotaReturned, Requeued, Finished or Deleted, cut to [from, to).
  Result<std::vector<QueueUsage>> Usage(Time from, Time to);
  // Events in [from, to) by kind and reason; "" = every ClusterQueue.
  Result<std::vector<ReasonCount>> CountReasons(Time from, Time to,
                                                const std::string& cluster_queue);
  // The last `limit` rows of kinds kForeseen and kNotForeseen, the newest first; without amounts.
  Result<std::vector<LedgerRow>> Observed(int64_t limit);
  Result<int64_t> RowCount();

 private:
  struct Impl;
  explicit LedgerReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::storage
