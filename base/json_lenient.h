// SPDX-License-Identifier: Apache-2.0
// For what the API server has accepted: one user's odd object must not hide everybody's.
#pragma once

#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace tutti {

// Like Json::Parse, but what is nested deeper than 512 becomes null instead of an error.
Result<Json> ParseLenient(std::string_view text);

}  // namespace tutti
