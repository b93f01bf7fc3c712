// SPDX-License-Identifier: Apache-2.0
#include "storage/ledger.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storage/schema.h"
#include "storage/sqlite.h"

namespace tutti::storage {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

Time At(int64_t second) {
  return Time(seconds(1'800'000'000 + second));
}

LedgerRow Row(LedgerEvent event, int64_t second, const std::string& name = "job-train-1") {
  LedgerRow row;
  row.time = At(second);
  row.event = event;
  row.workload = {"team-a", name};
  row.uid = "uid-" + name;
  row.job = "Job/train";
  row.local_queue = "main";
  row.cluster_queue = "cq-a";
  row.pods = 4;
  row.reason = std::string(ToString(event));
  row.message = "message of " + std::string(ToString(event));
  return row;
}

LedgerRow Reserved(int64_t second, const std::string& name, int64_t gpus) {
  LedgerRow row = Row(LedgerEvent::kQuotaReserved, second, name);
  row.amounts = {{"a100", "nvidia.com/gpu", gpus}};
  return row;
}

class LedgerTest : public testing::Test {
 protected:
  LedgerTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ledger-XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
    path_ = directory_ + "/ledger.db";
  }
  ~LedgerTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  void Write(const std::vector<LedgerRow>& rows, const LedgerOptions& options = {}) {
    auto ledger = Ledger::Open(path_, options);
    for (const LedgerRow& row : rows) {
      ledger->Append(row);
    }
    ledger->Flush();
    ASSERT_EQ(ledger->stats().written, rows.size()) << ledger->stats().last_error;
  }

  int64_t Count() {
    auto reader = LedgerReader::Open(path_);
    EXPECT_TRUE(reader) << reader.error().message;
    return reader ? (*reader)->RowCount().value_or(-1) : -1;
  }

  std::string directory_;
  std::string path_;
};

TEST_F(LedgerTest, GivesBackEveryFieldInOrderOfTime) {
  LedgerRow reserved = Row(LedgerEvent::kQuotaReserved, 5);
  reserved.amounts = {{"a100", "nvidia.com/gpu", 8}, {"default", "cpu", 64'000}};
  const LedgerRow created = Row(LedgerEvent::kCreated, 1);
  const LedgerRow other = Row(LedgerEvent::kCreated, 2, "job-other-1");
  Write({reserved, other, created});
  auto reader = LedgerReader::Open(path_);
  ASSERT_TRUE(reader) << reader.error().message;
  const auto rows = (*reader)->History({"team-a", "job-train-1"});
  ASSERT_TRUE(rows) << rows.error().message;
  EXPECT_THAT(*rows, testing::ElementsAre(created, reserved));
}

TEST_F(LedgerTest, KeepsMicrosecondsAndForeignText) {
  LedgerRow row = Row(LedgerEvent::kPending, 1);
  row.time += Duration(123'456);
  row.message = std::string("quotes ' \" and a NUL") + '\0' + "after; \xC3\xA4";
  Write({row});
  auto reader = LedgerReader::Open(path_);
  ASSERT_TRUE(reader);
  EXPECT_THAT((*reader)->History({"team-a", "job-train-1"}).value(), testing::ElementsAre(row));
}

TEST_F(LedgerTest, CutsLongMessagesAtACharacter) {
  LedgerRow row = Row(LedgerEvent::kPending, 1);
  row.message = std::string(kMaxMessage - 1, 'x') + "\xC3\xA4\xC3\xA4";
  Write({row});
  auto reader = LedgerReader::Open(path_);
  ASSERT_TRUE(reader);
  EXPECT_EQ((*reader)->History({"team-a", "job-train-1"}).value().at(0).message,
            std::string(kMaxMessage - 1, 'x'));
}

TEST_F(LedgerTest, UsageIsAmountTimesTimeWithinTheSpan) {
  Write({
      Reserved(0, "one", 4),  // 0..100: 4*100
      Row(LedgerEvent::kFinished, 100, "one"),
      Reserved(50, "two", 2),                 // 50..80, requeued, 90..150 (cut at 120)
      Row(LedgerEvent::kEvicted, 70, "two"),  // quota is still held
      Row(LedgerEvent::kRequeued, 80, "two"), Reserved(90, "two", 2),
      Row(LedgerEvent::kDeleted, 150, "two"), Reserved(110, "three", 1),  // open: 110..120
      Reserved(120, "four", 1),                                           // not in the span
  });
  auto reader = LedgerReader::Open(path_);
  ASSERT_TRUE(reader);
  const auto usage = (*reader)->Usage(At(10), At(120));
  ASSERT_TRUE(usage) << usage.error().message;
  ASSERT_EQ(usage->size(), 1U);
  EXPECT_EQ(usage->front().cluster_queue, "cq-a");
  EXPECT_EQ(usage->front().flavor, "a100");
  EXPECT_EQ(usage->front().resource, "nvidia.com/gpu");
  EXPECT_DOUBLE_EQ(usage->front().amount_seconds, 4 * 90 + 2 * 30 + 2 * 30 + 1 * 10);
  EXPECT_EQ(usage->front().reservations, 4);
}

TEST_F(LedgerTest, CountsReasonsPerKindAndQueue) {
  LedgerRow preempted = Row(LedgerEvent::kEvicted, 3);
  preempted.reason = "Preempted";
  LedgerRow elsewhere = preempted;
  elsewhere.cluster_queue = "cq-b";
  Write({Row(LedgerEvent::kCreated, 1), preempted, preempted, elsewhere});
  auto reader = LedgerReader::Open(path_);
  ASSERT_TRUE(reader);
  const auto all = (*reader)->CountReasons(At(0), At(10), "").value();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[1].reason, "Preempted");
  EXPECT_EQ(all[1].count, 3);
  const auto of_queue = (*reader)->CountReasons(At(2), At(10), "cq-b").value();
  ASSERT_EQ(of_queue.size(), 1U);
  EXPECT_EQ(of_queue[0].count, 1);
}

TEST_F(LedgerTest, AppendFromManyThreadsLosesNothing) {
  constexpr int kThreads = 4;
  constexpr int kRows = 500;
  {
    auto ledger = Ledger::Open(path_);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&ledger, t] {
        for (int i = 0; i < kRows; ++i) {
          ledger->Append(Row(LedgerEvent::kCreated, i, "w" + std::to_string(t)));
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }
  EXPECT_EQ(Count(), kThreads * kRows);
}

TEST_F(LedgerTest, FullQueueDropsAndCounts) {
  LedgerOptions options;
  options.queue_limit = 10;
  options.batch = 1000;
  options.flush_interval = hours(1);  // nothing is written before Flush
  auto ledger = Ledger::Open(path_, options);
  for (int i = 0; i < 25; ++i) {
    ledger->Append(Row(LedgerEvent::kCreated, i));
  }
  EXPECT_EQ(ledger->stats().dropped, 15U);
  ledger->Flush();
  EXPECT_EQ(ledger->stats().written, 10U);
  EXPECT_EQ(Count(), 10);
}

TEST_F(LedgerTest, EmptyPathMeansNoLedger) {
  auto ledger = Ledger::Open("");
  ledger->Append(Row(LedgerEvent::kCreated, 1));
  ledger->Flush();
  EXPECT_EQ(ledger->stats().dropped, 0U);
  EXPECT_FALSE(ledger->stats().available);
}

TEST_F(LedgerTest, MissingDirectoryCountsAndIsTriedAgain) {
  path_ = directory_ + "/later/ledger.db";
  LedgerOptions options;
  options.reopen_interval = std::chrono::milliseconds(0);
  auto ledger = Ledger::Open(path_, options);
  ledger->Append(Row(LedgerEvent::kCreated, 1));
  ledger->Flush();
  EXPECT_EQ(ledger->stats().dropped, 1U);
  EXPECT_GE(ledger->stats().open_errors, 1U);
  EXPECT_FALSE(ledger->stats().available);
  std::filesystem::create_directory(directory_ + "/later");
  ledger->Append(Row(LedgerEvent::kCreated, 2));
  ledger->Flush();
  EXPECT_TRUE(ledger->stats().available);
  EXPECT_EQ(Count(), 1);
}

TEST_F(LedgerTest, GarbageIsMovedAsideAndANewFileBegun) {
  std::ofstream(path_) << std::string(10'000, 'g');
  auto ledger = Ledger::Open(path_);
  ledger->Append(Row(LedgerEvent::kCreated, 1));
  ledger->Flush();
  EXPECT_EQ(ledger->stats().corrupt_files, 1U);
  EXPECT_EQ(ledger->stats().written, 1U);
  EXPECT_TRUE(std::filesystem::exists(path_ + ".corrupt"));
  EXPECT_EQ(Count(), 1);
}

TEST_F(LedgerTest, DamagedPagesAreNoticedAtTheStart) {
  std::vector<LedgerRow> rows;
  for (int i = 0; i < 2000; ++i) {
    rows.push_back(Row(LedgerEvent::kCreated, i, "w" + std::to_string(i)));
  }
  Write(rows);
  {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096 * 12);
    file << std::string(4096 * 20, '\xA5');
  }
  auto ledger = Ledger::Open(path_);
  ledger->Append(Row(LedgerEvent::kCreated, 1));
  ledger->Flush();
  EXPECT_EQ(ledger->stats().corrupt_files, 1U) << ledger->stats().last_error;
  EXPECT_EQ(ledger->stats().written, 1U);
  EXPECT_EQ(Count(), 1);
}

TEST_F(LedgerTest, FileOfANewerVersionIsKeptAside) {
  Write({Row(LedgerEvent::kCreated, 1)});
  {
    auto database = Database::Open(path_, Database::Access::kReadWrite);
    ASSERT_TRUE(database);
    ASSERT_TRUE(database->Execute("PRAGMA user_version=99"));
  }
  EXPECT_FALSE(LedgerReader::Open(path_));
  Write({Row(LedgerEvent::kCreated, 1), Row(LedgerEvent::kFinished, 2)});
  EXPECT_EQ(Count(), 2);
  EXPECT_TRUE(std::filesystem::exists(path_ + ".newer"));
}

TEST_F(LedgerTest, FileOfVersionOneIsMigratedAndKeepsItsRows) {
  {
    auto database = Database::Open(path_, Database::Access::kReadWrite);
    ASSERT_TRUE(database);
    ASSERT_TRUE(database->Execute(Migrations()[0]));
    ASSERT_TRUE(database->Execute(
        "INSERT INTO event_kind VALUES(1,'Created'); INSERT INTO name "
        "VALUES(1,'team-a'),(2,'q'),(3,'');"
        "INSERT INTO "
        "event(time,kind,namespace,workload,uid,job,local_queue,cluster_queue,reason,message)"
        " VALUES(5,1,1,'old','u','Job/old',2,2,3,'');"
        "INSERT INTO amount VALUES(1,2,1,7);"
        "PRAGMA user_version=1"));
  }
  LedgerOptions options;
  options.retention = Duration::zero();
  Write({Row(LedgerEvent::kFinished, 2)}, options);
  auto reader = LedgerReader::Open(path_);
  ASSERT_TRUE(reader) << reader.error().message;
  const auto rows = (*reader)->History({"team-a", "old"}).value();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].pods, 0);
  EXPECT_EQ(rows[0].job, "Job/old");
  EXPECT_THAT(rows[0].amounts, testing::ElementsAre(LedgerAmount{"q", "team-a", 7}));
  EXPECT_EQ(Count(), 2);
}

TEST_F(LedgerTest, RetentionDeletesWhatIsOlderThanTheNewestRowByMore) {
  LedgerOptions options;
  options.retention = hours(1);
  LedgerRow old = Reserved(0, "old", 3);
  Write({old, Row(LedgerEvent::kCreated, 3599)}, options);
  EXPECT_EQ(Count(), 2);
  Write({Row(LedgerEvent::kFinished, 3700)}, options);
  EXPECT_EQ(Count(), 2);
  auto reader = LedgerReader::Open(path_);
  EXPECT_TRUE((*reader)->History({"team-a", "old"}).value().empty());
  EXPECT_TRUE((*reader)->Usage(At(-10), At(10'000)).value().empty());  // amounts went with it
}

TEST_F(LedgerTest, SizeLimitMakesTheOldestRowsGiveWay) {
  LedgerOptions options;
  options.max_pages = 60;
  options.retention = Duration::zero();
  auto ledger = Ledger::Open(path_, options);
  for (int i = 0; i < 6000; ++i) {
    LedgerRow row = Row(LedgerEvent::kPending, i, "w" + std::to_string(i));
    row.message = std::string(300, 'm');
    ledger->Append(std::move(row));
    if (i % 500 == 499) {
      ledger->Flush();
    }
  }
  ledger->Flush();
  const LedgerStats stats = ledger->stats();
  EXPECT_GT(stats.expired, 0U);
  EXPECT_TRUE(stats.available);
  EXPECT_GT(stats.written, 5500U) << stats.last_error;
  EXPECT_LE(std::filesystem::file_size(path_), 60U * 4096U);
  auto reader = LedgerReader::Open(path_);
  EXPECT_FALSE((*reader)->History({"team-a", "w5999"}).value().empty());
  EXPECT_TRUE((*reader)->History({"team-a", "w0"}).value().empty());
}

// Runs `body` in a child process and returns its exit code, or -signal.
int InChild(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST_F(LedgerTest, ReadOnlyDirectoryIsSurvived) {
  ASSERT_EQ(chmod(directory_.c_str(), 0555), 0);
  const int code = InChild([this] {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) {
      return 10;
    }
    auto ledger = Ledger::Open(path_);
    ledger->Append(Row(LedgerEvent::kCreated, 1));
    ledger->Flush();
    const LedgerStats stats = ledger->stats();
    return stats.dropped == 1 && stats.open_errors >= 1 && !stats.available ? 0 : 1;
  });
  chmod(directory_.c_str(), 0755);
  EXPECT_EQ(code, 0);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(LedgerTest, FullDiskIsSurvivedAndCounted) {
  // A file system of 256 KiB, in a mount namespace of its own.
  const int code = InChild([this] {
    if (unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", directory_.c_str(), "tmpfs", 0, "size=256k") != 0) {
      return 77;
    }
    LedgerOptions options;
    options.retention = Duration::zero();
    auto ledger = Ledger::Open(path_, options);
    for (int i = 0; i < 4000; ++i) {
      LedgerRow row = Row(LedgerEvent::kPending, i, "w" + std::to_string(i));
      row.message = std::string(500, 'm');
      ledger->Append(std::move(row));
    }
    ledger->Flush();
    const LedgerStats stats = ledger->stats();
    // Some rows are in, the rest is counted, and nothing was taken for a damaged file.
    return stats.written > 0 && stats.dropped > 0 && stats.written + stats.dropped == 4000 &&
                   stats.write_errors > 0 && stats.corrupt_files == 0
               ? 0
               : 1;
  });
  if (code == 77) {
    GTEST_SKIP() << "mounting a small file system is not permitted here";
  }
  EXPECT_EQ(code, 0);
}

TEST_F(LedgerTest, KillInTheMiddleLosesOnlyWhatWasNotWritten) {
  for (int round = 0; round < 3; ++round) {
    // Before the child starts: the file may be there a moment before its tables are.
    const int64_t before = std::filesystem::exists(path_) ? Count() : 0;
    int fds[2];
    ASSERT_EQ(pipe(fds), 0);
    const pid_t child = fork();
    if (child == 0) {
      close(fds[0]);
      auto ledger = Ledger::Open(path_);
      for (int i = 0;; ++i) {
        ledger->Append(Row(LedgerEvent::kCreated, i, "w"));
        if (i % 50 == 49) {
          ledger->Flush();
          const char byte = 'x';
          if (write(fds[1], &byte, 1) != 1) {
            _exit(1);
          }
        }
      }
    }
    close(fds[1]);
    char byte = 0;
    for (int i = 0; i < 10; ++i) {
      ASSERT_EQ(read(fds[0], &byte, 1), 1);
    }
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    close(fds[0]);
    auto ledger = Ledger::Open(path_);
    ledger->Append(Row(LedgerEvent::kFinished, 1));
    ledger->Flush();
    EXPECT_EQ(ledger->stats().corrupt_files, 0U);
    EXPECT_GE(Count(), before + 500 + (round == 0 ? 1 : 0));
  }
}

TEST_F(LedgerTest, ReaderWorksWhileTheWriterWrites) {
  auto ledger = Ledger::Open(path_);
  ledger->Append(Row(LedgerEvent::kCreated, 1));
  ledger->Flush();
  auto reader = LedgerReader::Open(path_);
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_EQ((*reader)->RowCount().value(), 1);
  ledger->Append(Row(LedgerEvent::kFinished, 2));
  ledger->Flush();
  EXPECT_EQ((*reader)->RowCount().value(), 2);
}

}  // namespace
}  // namespace tutti::storage
