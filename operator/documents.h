// SPDX-License-Identifier: Apache-2.0
// Text that a person or kubectl wrote, as JSON documents: YAML (several documents, divided by ---)
// or JSON (several values after each other). Pure.
#pragma once

#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace tutti {

// Text that begins with { or [ is JSON, of any size; a JSON array is its elements. Everything else
// is YAML, with the limits of yaml.h. kDecode names the document or the line.
Result<std::vector<Json>> ReadDocuments(std::string_view text);

}  // namespace tutti
