// SPDX-License-Identifier: Apache-2.0
// RAII over SQLite's C interface: a connection with cached prepared statements, errors as values.
// sqlite3.h stays inside sqlite.cc. A connection and its statements belong to one thread.
// Error codes: kDecode = the file is corrupt or no database; kForbidden = read-only or can't be
// opened; kUnavailable = disk full or I/O error; kConflict = locked by someone else.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace tutti::storage {

// A prepared statement. Bind from 1, step, read columns from 0, Reset before the next use.
class Statement {
 public:
  Statement(sqlite3* database, sqlite3_stmt* statement)
      : database_(database), statement_(statement) {}
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& Bind(int index, int64_t value);
  Statement& Bind(int index, std::string_view value);  // copied
  // True: a row is there. False: done.
  Result<bool> Step();
  // Steps a statement that gives no rows, then resets it.
  Status Run();
  void Reset();

  [[nodiscard]] int64_t Int(int column) const;
  [[nodiscard]] double Real(int column) const;
  [[nodiscard]] std::string Text(int column) const;

 private:
  sqlite3* database_;
  sqlite3_stmt* statement_;
};

class Database {
 public:
  enum class Access { kReadWrite, kReadOnly };

  // Read-write: creates the file (not its directory), WAL, synchronous NORMAL, foreign keys.
  static Result<Database> Open(const std::string& path, Access access);
  ~Database();
  Database(Database&& other) noexcept;
  Database& operator=(Database&& other) noexcept;

  // One or more statements, rows ignored.
  Status Execute(const char* sql);
  // Cached by text; reset and without bindings from before.
  Result<Statement*> Prepare(std::string_view sql);
  [[nodiscard]] int64_t LastInsertId() const;
  [[nodiscard]] int64_t Changes() const;
  [[nodiscard]] bool InTransaction() const;
  Result<int64_t> UserVersion();

 private:
  explicit Database(sqlite3* handle) : handle_(handle) {}
  void Close();

  sqlite3* handle_ = nullptr;
  std::map<std::string, std::unique_ptr<Statement>, std::less<>> statements_;
};

// BEGIN IMMEDIATE … COMMIT; rolled back when it goes out of scope without Commit.
class Transaction {
 public:
  static Result<Transaction> Begin(Database* database);
  ~Transaction();
  Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  Status Commit();

 private:
  explicit Transaction(Database* database) : database_(database) {}
  Database* database_;
};

}  // namespace tutti::storage
