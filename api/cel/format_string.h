// SPDX-License-Identifier: Apache-2.0
// string.format() of CEL's strings library, version 2: clauses %s %d %f %e %b %x %X %o, with en-US
// number formats.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/cel/ast.h"

namespace tutti::api::cel {

// Checks a literal format against the types of its literal list of arguments. Empty: fine.
[[nodiscard]] std::string CheckFormat(std::string_view format, const std::vector<Expr*>& args);

// A string, or an error.
[[nodiscard]] Value FormatText(Context& context, std::string_view format, const Value& list);

}  // namespace tutti::api::cel
