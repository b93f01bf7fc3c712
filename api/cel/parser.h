// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/cel/ast.h"
#include "base/result.h"

namespace tutti::api::cel {

// Parses and expands the macros. Trees deeper than 250 operators, selections and calls are refused,
// as by cel-go, which bounds every later recursion over the tree. Error: kInvalid.
[[nodiscard]] Status Parse(std::string_view source, Ast& ast);

// What the expansion of a macro gives: nothing (not a macro), a tree, or an error.
struct MacroResult {
  bool is_macro = false;
  Expr* expr = nullptr;
  std::string error;
  uint32_t error_offset = 0;
};

[[nodiscard]] MacroResult ExpandMacro(Ast& ast, std::string_view function, Expr* target,
                                      const std::vector<Expr*>& args, uint32_t offset);

// Names that no user can write.
inline constexpr std::string_view kAccumulator = "@result";
inline constexpr std::string_view kUnused = "#unused";
inline constexpr std::string_view kSortByInput = "@__sortBy_input__";
inline constexpr std::string_view kSortByKeys = "@sortByAssociatedKeys";
inline constexpr std::string_view kMapInsert = "cel.@mapInsert";
inline constexpr std::string_view kNotStrictlyFalse = "@not_strictly_false";

}  // namespace tutti::api::cel
