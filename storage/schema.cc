// SPDX-License-Identifier: Apache-2.0
#include "storage/schema.h"

#include <string>

namespace tutti::storage {
namespace {

// Texts that repeat (namespaces, queues, flavors, reasons) are stored once in `name`.
constexpr const char* kVersion1 = R"sql(
CREATE TABLE name (
  id INTEGER PRIMARY KEY,
  text TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE event_kind (
  id INTEGER PRIMARY KEY,
  text TEXT NOT NULL
) STRICT;
CREATE TABLE event (
  id INTEGER PRIMARY KEY,
  time INTEGER NOT NULL,                        -- microseconds since 1970, UTC
  kind INTEGER NOT NULL REFERENCES event_kind,
  namespace INTEGER NOT NULL REFERENCES name,
  workload TEXT NOT NULL,
  uid TEXT NOT NULL,
  job TEXT NOT NULL,
  local_queue INTEGER NOT NULL REFERENCES name,
  cluster_queue INTEGER NOT NULL REFERENCES name,
  reason INTEGER NOT NULL REFERENCES name,
  message TEXT NOT NULL
) STRICT;
CREATE TABLE amount (
  event INTEGER NOT NULL REFERENCES event ON DELETE CASCADE,
  flavor INTEGER NOT NULL REFERENCES name,
  resource INTEGER NOT NULL REFERENCES name,
  amount INTEGER NOT NULL,                      -- cpu in milli-units, the rest in units
  PRIMARY KEY (event, flavor, resource)
) STRICT, WITHOUT ROWID;
CREATE INDEX event_by_uid ON event (uid, time);
CREATE INDEX event_by_time ON event (time);
)sql";

// The number of pods; indexes for the history of one name and for one kind of event in a span of
// time.
constexpr const char* kVersion2 = R"sql(
ALTER TABLE event ADD COLUMN pods INTEGER NOT NULL DEFAULT 0;
CREATE INDEX event_by_kind ON event (kind, time);
CREATE INDEX event_by_name ON event (workload, time);
)sql";

}  // namespace

const std::vector<const char*>& Migrations() {
  static const std::vector<const char*> migrations{kVersion1, kVersion2};
  return migrations;
}

int64_t SchemaVersion() {
  return static_cast<int64_t>(Migrations().size());
}

Status Migrate(Database* database) {
  TRY_ASSIGN(const int64_t version, database->UserVersion());
  if (version > SchemaVersion()) {
    return Fail(ErrorCode::kInvalid, "the file has schema version " + std::to_string(version) +
                                         ", this program knows " + std::to_string(SchemaVersion()));
  }
  for (int64_t next = version; next < SchemaVersion(); ++next) {
    TRY_ASSIGN(Transaction transaction, Transaction::Begin(database));
    TRY(database->Execute(Migrations()[static_cast<size_t>(next)]));
    TRY(database->Execute(("PRAGMA user_version=" + std::to_string(next + 1)).c_str()));
    TRY(transaction.Commit());
  }
  return {};
}

}  // namespace tutti::storage
