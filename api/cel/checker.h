// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "api/cel/ast.h"
#include "api/cel/device_selector.h"
#include "base/result.h"

namespace tutti::api::cel {

// Type-checks as cel-go's checker does with homogeneous literals, then applies the API server's
// validators of literals. Fills in the checker's members of each Expr; the types belong to `pool`.
// Error: kInvalid, the first problem with its position.
[[nodiscard]] Status Check(std::string_view source, const Features& features, Ast& ast,
                           TypePool& pool);

}  // namespace tutti::api::cel
