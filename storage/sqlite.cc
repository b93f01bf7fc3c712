// SPDX-License-Identifier: Apache-2.0
#include "storage/sqlite.h"

#include <utility>

#include <sqlite3.h>

namespace tutti::storage {
namespace {

ErrorCode CodeOf(int sqlite_code) {
  switch (sqlite_code & 0xFF) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return ErrorCode::kDecode;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
    case SQLITE_AUTH:
      return ErrorCode::kForbidden;
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_NOMEM:
      return ErrorCode::kUnavailable;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return ErrorCode::kConflict;
    default:
      return ErrorCode::kInternal;
  }
}

tl::unexpected<Error> FailWith(sqlite3* handle, int code) {
  std::string message = sqlite3_errstr(code);
  if (handle != nullptr && (sqlite3_errcode(handle) & 0xFF) == (code & 0xFF)) {
    message = sqlite3_errmsg(handle);
  }
  return Fail(CodeOf(code), message);
}

}  // namespace

Statement::~Statement() {
  sqlite3_finalize(statement_);
}

Statement& Statement::Bind(int index, int64_t value) {
  sqlite3_bind_int64(statement_, index, value);
  return *this;
}

Statement& Statement::Bind(int index, std::string_view value) {
  sqlite3_bind_text64(statement_, index, value.empty() ? "" : value.data(), value.size(),
                      SQLITE_TRANSIENT, SQLITE_UTF8);
  return *this;
}

Result<bool> Statement::Step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) {
    return true;
  }
  if (code == SQLITE_DONE) {
    return false;
  }
  return FailWith(database_, code);
}

Status Statement::Run() {
  auto row = Step();
  Reset();
  TRY(row);
  return {};
}

void Statement::Reset() {
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

int64_t Statement::Int(int column) const {
  return sqlite3_column_int64(statement_, column);
}

double Statement::Real(int column) const {
  return sqlite3_column_double(statement_, column);
}

std::string Statement::Text(int column) const {
  const void* text = sqlite3_column_text(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  return text == nullptr ? ""
                         : std::string(static_cast<const char*>(text), static_cast<size_t>(size));
}

Result<Database> Database::Open(const std::string& path, Access access) {
  sqlite3* handle = nullptr;
  const int flags = SQLITE_OPEN_NOMUTEX |
                    (access == Access::kReadWrite ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
                                                  : SQLITE_OPEN_READONLY);
  const int code = sqlite3_open_v2(path.c_str(), &handle, flags, nullptr);
  Database database(handle);
  if (code != SQLITE_OK) {
    return FailWith(handle, code);
  }
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, 5000);
  if (access == Access::kReadOnly) {
    // A reader never checkpoints: two connections that do so at once can damage the file in the
    // SQLite versions before 3.51.3.
    sqlite3_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    return database;
  }
  TRY(
      database.Execute("PRAGMA auto_vacuum=INCREMENTAL;"
                       "PRAGMA journal_mode=WAL;"
                       "PRAGMA synchronous=NORMAL;"
                       "PRAGMA foreign_keys=ON;"
                       "PRAGMA journal_size_limit=4194304;"));
  return database;
}

Database::~Database() {
  Close();
}

Database::Database(Database&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), statements_(std::move(other.statements_)) {}

Database& Database::operator=(Database&& other) noexcept {
  if (this != &other) {
    Close();
    handle_ = std::exchange(other.handle_, nullptr);
    statements_ = std::move(other.statements_);
  }
  return *this;
}

void Database::Close() {
  statements_.clear();
  if (handle_ != nullptr) {
    sqlite3_close_v2(handle_);
    handle_ = nullptr;
  }
}

Status Database::Execute(const char* sql) {
  const int code = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) {
    return FailWith(handle_, code);
  }
  return {};
}

Result<Statement*> Database::Prepare(std::string_view sql) {
  const auto found = statements_.find(sql);
  if (found != statements_.end()) {
    found->second->Reset();
    return found->second.get();
  }
  sqlite3_stmt* raw = nullptr;
  const int code = sqlite3_prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &raw, nullptr);
  if (code != SQLITE_OK) {
    return FailWith(handle_, code);
  }
  auto statement = std::make_unique<Statement>(handle_, raw);
  Statement* result = statement.get();
  statements_.emplace(std::string(sql), std::move(statement));
  return result;
}

int64_t Database::LastInsertId() const {
  return sqlite3_last_insert_rowid(handle_);
}

int64_t Database::Changes() const {
  return sqlite3_changes64(handle_);
}

bool Database::InTransaction() const {
  return handle_ != nullptr && sqlite3_get_autocommit(handle_) == 0;
}

Result<int64_t> Database::UserVersion() {
  TRY_ASSIGN(Statement * statement, Prepare("PRAGMA user_version"));
  TRY_ASSIGN(const bool row, statement->Step());
  const int64_t version = row ? statement->Int(0) : 0;
  statement->Reset();
  return version;
}

Result<Transaction> Transaction::Begin(Database* database) {
  TRY(database->Execute("BEGIN IMMEDIATE"));
  return Transaction(database);
}

Transaction::~Transaction() {
  // Some errors (disk full) have rolled back already.
  if (database_ != nullptr && database_->InTransaction()) {
    (void)database_->Execute("ROLLBACK");
  }
}

Status Transaction::Commit() {
  TRY(database_->Execute("COMMIT"));
  database_ = nullptr;
  return {};
}

}  // namespace tutti::storage
