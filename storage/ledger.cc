// SPDX-License-Identifier: Apache-2.0
#include "storage/ledger.h"

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>

#include "storage/schema.h"
#include "storage/sqlite.h"

namespace tutti::storage {
namespace {

constexpr size_t kMaxCachedNames = 50'000;
constexpr int64_t kExpireStep = 500;                  // rows deleted per transaction
constexpr uintmax_t kMaxCheckedBytes = 64ULL << 20U;  // larger files are not scanned at the start
constexpr Duration kExpireEvery = std::chrono::minutes(1);  // of ledger time

int64_t Micros(Time time) {
  return time.time_since_epoch().count();
}

std::string_view CutMessage(std::string_view text) {
  if (text.size() <= kMaxMessage) {
    return text;
  }
  size_t end = kMaxMessage;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) {
    --end;
  }
  return text.substr(0, end);
}

// Moves the file and its companions out of the way; one older copy is overwritten.
void RenameAside(const std::string& path, const std::string& suffix) {
  for (const char* companion : {"", "-wal", "-shm"}) {
    std::error_code ignored;
    const std::string from = path + companion;
    if (std::filesystem::exists(from, ignored)) {
      std::filesystem::rename(from, path + suffix + companion, ignored);
    }
  }
}

}  // namespace

std::string_view ToString(LedgerEvent event) {
  switch (event) {
    case LedgerEvent::kCreated:
      return "Created";
    case LedgerEvent::kPending:
      return "Pending";
    case LedgerEvent::kQuotaReserved:
      return "QuotaReserved";
    case LedgerEvent::kAdmitted:
      return "Admitted";
    case LedgerEvent::kReleased:
      return "Released";
    case LedgerEvent::kPodsBound:
      return "PodsBound";
    case LedgerEvent::kPodsReady:
      return "PodsReady";
    case LedgerEvent::kEvicted:
      return "Evicted";
    case LedgerEvent::kQuotaReturned:
      return "QuotaReturned";
    case LedgerEvent::kRequeued:
      return "Requeued";
    case LedgerEvent::kFinished:
      return "Finished";
    case LedgerEvent::kDeactivated:
      return "Deactivated";
    case LedgerEvent::kDeleted:
      return "Deleted";
    case LedgerEvent::kForeseen:
      return "Foreseen";
    case LedgerEvent::kNotForeseen:
      return "NotForeseen";
  }
  return "Unknown";
}

class Ledger::Writer {
 public:
  Writer(std::string path, const LedgerOptions& options)
      : path_(std::move(path)), options_(options), thread_([this] { Loop(); }) {}

  ~Writer() {
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

  void Append(LedgerRow row) {
    bool full_batch = false;
    {
      const std::scoped_lock lock(mutex_);
      if (queue_.size() >= options_.queue_limit) {
        ++stats_.dropped;
        return;
      }
      queue_.push_back(std::move(row));
      ++appended_;
      full_batch = queue_.size() == options_.batch;
    }
    if (full_batch) {
      wake_.notify_one();
    }
  }

  void Flush() {
    std::unique_lock lock(mutex_);
    const uint64_t target = appended_;
    flush_to_ = std::max(flush_to_, target);
    wake_.notify_one();
    done_.wait(lock, [&] { return handled_ >= target; });
  }

  LedgerStats stats() const {
    const std::scoped_lock lock(mutex_);
    LedgerStats copy = stats_;
    copy.queued = queue_.size();
    return copy;
  }

 private:
  void Loop() {
    TryOpen();
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait_for(lock, options_.flush_interval, [this] {
        return stopping_ || queue_.size() >= options_.batch || flush_to_ > handled_;
      });
      while (!queue_.empty()) {
        std::vector<LedgerRow> batch;
        while (!queue_.empty() && batch.size() < options_.batch) {
          batch.push_back(std::move(queue_.front()));
          queue_.pop_front();
        }
        lock.unlock();
        const bool written = Write(batch);
        lock.lock();
        (written ? stats_.written : stats_.dropped) += batch.size();
        handled_ += batch.size();
        done_.notify_all();
      }
      if (stopping_) {
        return;
      }
    }
  }

  void Count(uint64_t LedgerStats::*counter, const std::string& error) {
    const std::scoped_lock lock(mutex_);
    ++(stats_.*counter);
    stats_.last_error = error;
  }

  void SetAvailable(bool available) {
    const std::scoped_lock lock(mutex_);
    stats_.available = available;
  }

  void Close() {
    database_.reset();
    names_.clear();
    SetAvailable(false);
  }

  // Opens or creates the file; a damaged or newer one is moved aside first.
  void TryOpen() {
    next_open_ = std::chrono::steady_clock::now() + options_.reopen_interval;
    for (int attempt = 0; attempt < 2; ++attempt) {
      const Status status = OpenOnce();
      if (status) {
        SetAvailable(true);
        return;
      }
      Close();
      if (status.error().code == ErrorCode::kDecode) {
        Count(&LedgerStats::corrupt_files, status.error().message);
        RenameAside(path_, ".corrupt");
      } else if (status.error().code == ErrorCode::kInvalid) {
        Count(&LedgerStats::open_errors, status.error().message);
        RenameAside(path_, ".newer");
      } else {
        Count(&LedgerStats::open_errors, status.error().message);
        return;
      }
    }
  }

  Status OpenOnce() {
    TRY_ASSIGN(Database database, Database::Open(path_, Database::Access::kReadWrite));
    std::error_code ignored;
    const uintmax_t size = std::filesystem::file_size(path_, ignored);
    if (!ignored && size > 0 && size <= kMaxCheckedBytes) {
      TRY_ASSIGN(Statement * check, database.Prepare("PRAGMA quick_check(1)"));
      TRY_ASSIGN(const bool row, check->Step());
      const std::string verdict = row ? check->Text(0) : "ok";
      check->Reset();
      if (verdict != "ok") {
        return Fail(ErrorCode::kDecode, verdict);
      }
    }
    if (options_.max_pages > 0) {
      TRY(database.Execute(
          ("PRAGMA max_page_count=" + std::to_string(options_.max_pages)).c_str()));
    }
    TRY(Migrate(&database));
    for (int i = 1; i <= kLedgerEventCount; ++i) {
      TRY_ASSIGN(
          Statement * kind,
          database.Prepare("INSERT INTO event_kind(id,text) VALUES(?1,?2) ON CONFLICT DO NOTHING"));
      kind->Bind(1, int64_t{i}).Bind(2, ToString(static_cast<LedgerEvent>(i)));
      TRY(kind->Run());
    }
    database_.emplace(std::move(database));
    return {};
  }

  // True when the rows are in the file.
  bool Write(const std::vector<LedgerRow>& batch) {
    for (int attempt = 0; attempt < 2; ++attempt) {
      if (!database_ && std::chrono::steady_clock::now() >= next_open_) {
        TryOpen();
      }
      if (!database_) {
        return false;
      }
      const Status status = WriteBatch(batch);
      if (status) {
        Expire();
        return true;
      }
      Count(&LedgerStats::write_errors, status.error().message);
      names_.clear();  // may hold ids that were rolled back
      if (status.error().code == ErrorCode::kDecode) {
        Close();
        Count(&LedgerStats::corrupt_files, status.error().message);
        RenameAside(path_, ".corrupt");
        next_open_ = {};
      } else if (status.error().code == ErrorCode::kUnavailable) {
        // Full: the oldest rows make room, once.
        if (attempt > 0 ||
            !DeleteOldest(std::max<int64_t>(kExpireStep, int64_t(batch.size()) * 4))) {
          return false;
        }
      } else {
        // Read-only, moved away under us, locked: try a fresh connection later.
        Close();
        next_open_ = std::chrono::steady_clock::now() + options_.reopen_interval;
        return false;
      }
    }
    return false;
  }

  Status WriteBatch(const std::vector<LedgerRow>& batch) {
    TRY_ASSIGN(Transaction transaction, Transaction::Begin(&*database_));
    for (const LedgerRow& row : batch) {
      TRY(WriteRow(row));
    }
    return transaction.Commit();
  }

  Status WriteRow(const LedgerRow& row) {
    TRY_ASSIGN(const int64_t ns, NameId(row.workload.ns));
    TRY_ASSIGN(const int64_t local_queue, NameId(row.local_queue));
    TRY_ASSIGN(const int64_t cluster_queue, NameId(row.cluster_queue));
    TRY_ASSIGN(const int64_t reason, NameId(row.reason));
    TRY_ASSIGN(
        Statement * insert,
        database_->Prepare("INSERT INTO event(time,kind,namespace,workload,uid,job,local_queue,"
                           "cluster_queue,reason,message,pods) "
                           "VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11)"));
    insert->Bind(1, Micros(row.time))
        .Bind(2, static_cast<int64_t>(row.event))
        .Bind(3, ns)
        .Bind(4, row.workload.name)
        .Bind(5, row.uid)
        .Bind(6, row.job)
        .Bind(7, local_queue)
        .Bind(8, cluster_queue)
        .Bind(9, reason)
        .Bind(10, CutMessage(row.message))
        .Bind(11, int64_t{row.pods});
    TRY(insert->Run());
    newest_ = std::max(newest_, row.time);
    const int64_t event = database_->LastInsertId();
    for (const LedgerAmount& amount : row.amounts) {
      TRY_ASSIGN(const int64_t flavor, NameId(amount.flavor));
      TRY_ASSIGN(const int64_t resource, NameId(amount.resource));
      TRY_ASSIGN(Statement * child,
                 database_->Prepare("INSERT INTO amount(event,flavor,resource,amount) "
                                    "VALUES(?1,?2,?3,?4) ON CONFLICT DO UPDATE SET "
                                    "amount=amount+excluded.amount"));
      child->Bind(1, event).Bind(2, flavor).Bind(3, resource).Bind(4, amount.amount);
      TRY(child->Run());
    }
    return {};
  }

  Result<int64_t> NameId(const std::string& text) {
    const auto found = names_.find(text);
    if (found != names_.end()) {
      return found->second;
    }
    TRY_ASSIGN(Statement * select, database_->Prepare("SELECT id FROM name WHERE text=?1"));
    select->Bind(1, text);
    TRY_ASSIGN(const bool row, select->Step());
    int64_t id = row ? select->Int(0) : 0;
    select->Reset();
    if (!row) {
      TRY_ASSIGN(Statement * insert, database_->Prepare("INSERT INTO name(text) VALUES(?1)"));
      insert->Bind(1, text);
      TRY(insert->Run());
      id = database_->LastInsertId();
    }
    if (names_.size() >= kMaxCachedNames) {
      names_.clear();
    }
    names_.emplace(text, id);
    return id;
  }

  // Ledger time decides, not the clock: a replay deletes the same rows.
  void Expire() {
    if (options_.retention <= Duration::zero() || newest_ < last_expiry_ + kExpireEvery) {
      return;
    }
    const Status status = DeleteUntil(newest_ - options_.retention, kExpireStep);
    if (!status) {
      Count(&LedgerStats::write_errors, status.error().message);
      last_expiry_ = newest_;
      return;
    }
    // A full step means that more is due: go on after the next batch.
    if (database_->Changes() < kExpireStep) {
      last_expiry_ = newest_;
    }
  }

  Status DeleteUntil(Time cutoff, int64_t limit) {
    int64_t deleted = 0;
    {
      TRY_ASSIGN(Transaction transaction, Transaction::Begin(&*database_));
      TRY_ASSIGN(Statement * erase,
                 database_->Prepare("DELETE FROM event WHERE id IN (SELECT id FROM event WHERE "
                                    "time<?1 ORDER BY time LIMIT ?2)"));
      erase->Bind(1, Micros(cutoff)).Bind(2, limit);
      TRY(erase->Run());
      deleted = database_->Changes();
      TRY(transaction.Commit());
    }
    if (deleted > 0) {
      (void)database_->Execute("PRAGMA incremental_vacuum(200)");
      const std::scoped_lock lock(mutex_);
      stats_.expired += static_cast<uint64_t>(deleted);
    }
    return {};
  }

  bool DeleteOldest(int64_t rows) {
    const uint64_t before = stats().expired;
    const Status status = DeleteUntil(Time::max(), rows);
    return status.has_value() && stats().expired > before;
  }

  const std::string path_;
  const LedgerOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  std::deque<LedgerRow> queue_;
  uint64_t appended_ = 0;
  uint64_t handled_ = 0;
  uint64_t flush_to_ = 0;
  bool stopping_ = false;
  LedgerStats stats_;

  // Writer thread only.
  std::optional<Database> database_;
  std::unordered_map<std::string, int64_t> names_;
  std::chrono::steady_clock::time_point next_open_;
  Time newest_ = kNoTime;
  Time last_expiry_ = kNoTime;

  std::thread thread_;  // last: starts when everything above exists
};

Ledger::Ledger(std::unique_ptr<Writer> writer) : writer_(std::move(writer)) {}

Ledger::~Ledger() = default;

std::unique_ptr<Ledger> Ledger::Open(const std::string& path, const LedgerOptions& options) {
  return std::unique_ptr<Ledger>(
      new Ledger(path.empty() ? nullptr : std::make_unique<Writer>(path, options)));
}

void Ledger::Append(LedgerRow row) {
  if (writer_) {
    writer_->Append(std::move(row));
  }
}

void Ledger::Flush() {
  if (writer_) {
    writer_->Flush();
  }
}

LedgerStats Ledger::stats() const {
  return writer_ ? writer_->stats() : LedgerStats{};
}

struct LedgerReader::Impl {
  Database database;
};

LedgerReader::LedgerReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

LedgerReader::~LedgerReader() = default;

Result<std::unique_ptr<LedgerReader>> LedgerReader::Open(const std::string& path) {
  TRY_ASSIGN(Database database, Database::Open(path, Database::Access::kReadOnly));
  TRY_ASSIGN(const int64_t version, database.UserVersion());
  if (version != SchemaVersion()) {
    return Fail(ErrorCode::kInvalid, path + " has schema version " + std::to_string(version) +
                                         ", this program reads " + std::to_string(SchemaVersion()));
  }
  return std::unique_ptr<LedgerReader>(
      new LedgerReader(std::make_unique<Impl>(Impl{std::move(database)})));
}

Result<std::vector<LedgerRow>> LedgerReader::History(const api::ObjectKey& workload) {
  TRY_ASSIGN(Statement * select,
             impl_->database.Prepare(
                 "SELECT e.id,e.time,e.kind,n.text,e.workload,e.uid,e.job,l.text,c.text,r.text,"
                 "e.message,e.pods FROM event e JOIN name n ON n.id=e.namespace "
                 "JOIN name l ON l.id=e.local_queue JOIN name c ON c.id=e.cluster_queue "
                 "JOIN name r ON r.id=e.reason "
                 "WHERE n.text=?1 AND e.workload=?2 "
                 "ORDER BY e.time,e.id"));
  select->Bind(1, workload.ns).Bind(2, workload.name);
  std::vector<LedgerRow> rows;
  while (true) {
    TRY_ASSIGN(const bool more, select->Step());
    if (!more) {
      break;
    }
    LedgerRow row;
    const int64_t id = select->Int(0);
    row.time = Time(Duration(select->Int(1)));
    row.event = static_cast<LedgerEvent>(select->Int(2));
    row.workload = {select->Text(3), select->Text(4)};
    row.uid = select->Text(5);
    row.job = select->Text(6);
    row.local_queue = select->Text(7);
    row.cluster_queue = select->Text(8);
    row.reason = select->Text(9);
    row.message = select->Text(10);
    row.pods = static_cast<int32_t>(select->Int(11));
    TRY_ASSIGN(Statement * amounts,
               impl_->database.Prepare(
                   "SELECT f.text,r.text,a.amount FROM amount a JOIN name f ON f.id=a.flavor "
                   "JOIN name r ON r.id=a.resource WHERE a.event=?1 ORDER BY f.text,r.text"));
    amounts->Bind(1, id);
    while (true) {
      TRY_ASSIGN(const bool amount, amounts->Step());
      if (!amount) {
        break;
      }
      row.amounts.push_back({amounts->Text(0), amounts->Text(1), amounts->Int(2)});
    }
    amounts->Reset();
    rows.push_back(std::move(row));
  }
  select->Reset();
  return rows;
}

Result<std::vector<QueueUsage>> LedgerReader::Usage(Time from, Time to) {
  // Each reservation ends with the first event of the same workload that gives quota back.
  TRY_ASSIGN(
      Statement * select,
      impl_->database.Prepare(
          "WITH span AS (SELECT e.id,e.cluster_queue,max(e.time,?1) AS start,"
          "min(?2,ifnull((SELECT min(x.time) FROM event x WHERE x.uid=e.uid AND "
          "(x.time>e.time OR (x.time=e.time AND x.id>e.id)) AND x.kind IN (?3,?4,?5,?6)),?2)) "
          "AS stop FROM event e WHERE e.kind=?7 AND e.time<?2) "
          "SELECT c.text,f.text,r.text,sum(CAST(a.amount AS REAL)*(s.stop-s.start)/1e6),"
          "count(*) FROM span s JOIN amount a ON a.event=s.id JOIN name c ON "
          "c.id=s.cluster_queue JOIN name f ON f.id=a.flavor JOIN name r ON r.id=a.resource "
          "WHERE s.stop>s.start GROUP BY 1,2,3 ORDER BY 1,2,3"));
  select->Bind(1, Micros(from))
      .Bind(2, Micros(to))
      .Bind(3, static_cast<int64_t>(LedgerEvent::kQuotaReturned))
      .Bind(4, static_cast<int64_t>(LedgerEvent::kRequeued))
      .Bind(5, static_cast<int64_t>(LedgerEvent::kFinished))
      .Bind(6, static_cast<int64_t>(LedgerEvent::kDeleted))
      .Bind(7, static_cast<int64_t>(LedgerEvent::kQuotaReserved));
  std::vector<QueueUsage> usage;
  while (true) {
    TRY_ASSIGN(const bool more, select->Step());
    if (!more) {
      break;
    }
    usage.push_back(
        {select->Text(0), select->Text(1), select->Text(2), select->Real(3), select->Int(4)});
  }
  select->Reset();
  return usage;
}

Result<std::vector<ReasonCount>> LedgerReader::CountReasons(Time from, Time to,
                                                            const std::string& cluster_queue) {
  TRY_ASSIGN(Statement * select,
             impl_->database.Prepare(
                 "SELECT e.kind,r.text,count(*) FROM event e JOIN name r ON r.id=e.reason "
                 "JOIN name c ON c.id=e.cluster_queue WHERE e.time>=?1 AND e.time<?2 AND "
                 "(?3='' OR c.text=?3) GROUP BY 1,2 ORDER BY 1,2"));
  select->Bind(1, Micros(from)).Bind(2, Micros(to)).Bind(3, cluster_queue);
  std::vector<ReasonCount> counts;
  while (true) {
    TRY_ASSIGN(const bool more, select->Step());
    if (!more) {
      break;
    }
    counts.push_back({static_cast<LedgerEvent>(select->Int(0)), select->Text(1), select->Int(2)});
  }
  select->Reset();
  return counts;
}

Result<std::vector<LedgerRow>> LedgerReader::Observed(int64_t limit) {
  TRY_ASSIGN(Statement * select,
             impl_->database.Prepare(
                 "SELECT e.time,e.kind,n.text,e.workload,e.uid,l.text,c.text,r.text,e.message "
                 "FROM event e JOIN name n ON n.id=e.namespace JOIN name l ON l.id=e.local_queue "
                 "JOIN name c ON c.id=e.cluster_queue JOIN name r ON r.id=e.reason "
                 "WHERE e.kind IN (?1,?2) ORDER BY e.id DESC LIMIT ?3"));
  select->Bind(1, static_cast<int64_t>(LedgerEvent::kForeseen))
      .Bind(2, static_cast<int64_t>(LedgerEvent::kNotForeseen))
      .Bind(3, limit);
  std::vector<LedgerRow> rows;
  while (true) {
    TRY_ASSIGN(const bool more, select->Step());
    if (!more) {
      break;
    }
    LedgerRow row;
    row.time = Time(Duration(select->Int(0)));
    row.event = static_cast<LedgerEvent>(select->Int(1));
    row.workload = {select->Text(2), select->Text(3)};
    row.uid = select->Text(4);
    row.local_queue = select->Text(5);
    row.cluster_queue = select->Text(6);
    row.reason = select->Text(7);
    row.message = select->Text(8);
    rows.push_back(std::move(row));
  }
  select->Reset();
  return rows;
}

Result<int64_t> LedgerReader::RowCount() {
  TRY_ASSIGN(Statement * select, impl_->database.Prepare("SELECT count(*) FROM event"));
  TRY_ASSIGN(const bool row, select->Step());
  const int64_t count = row ? select->Int(0) : 0;
  select->Reset();
  return count;
}

}  // namespace tutti::storage
