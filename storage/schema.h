// SPDX-License-Identifier: Apache-2.0
// The ledger's tables and how older files are brought up to date. The file's user_version is the
// number of migrations applied; each runs in one transaction. Migrations are never edited, only
// added.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "storage/sqlite.h"

namespace tutti::storage {

[[nodiscard]] const std::vector<const char*>& Migrations();
[[nodiscard]] int64_t SchemaVersion();

// kInvalid when the file was written by a newer version.
Status Migrate(Database* database);

}  // namespace tutti::storage
