// SPDX-License-Identifier: Apache-2.0
// The file of prices that --prices names.
#pragma once

#include <string>

#include "audit/prices.h"
#include "base/result.h"

namespace tutti {

// JSON or YAML; "" gives the made-up examples. kInvalid names the file and the field.
Result<audit::Prices> ReadPrices(const std::string& file);

}  // namespace tutti
