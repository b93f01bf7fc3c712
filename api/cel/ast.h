// SPDX-License-Identifier: Apache-2.0
// The syntax tree between parser, checker and planner. Macros are expanded by the parser, so that a
// comprehension is the only loop.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "api/cel/types.h"
#include "api/cel/value.h"
#include "base/result.h"

namespace tutti::api::cel {

struct Overload;

struct Expr {
  enum class Form : uint8_t { kLiteral, kIdent, kSelect, kCall, kList, kMap, kComprehension };
  Form form = Form::kLiteral;
  uint32_t offset = 0;  // bytes into the source, for messages
  int depth = 0;        // operators, selections and member calls on the longest path; by the parser

  Value literal;
  std::string name;            // kIdent, kSelect (field), kCall (function)
  bool test_only = false;      // kSelect: has()
  Expr* target = nullptr;      // kSelect, kCall of a member
  std::vector<Expr*> args;     // kCall, kList; kMap: key, value, key, value …
  std::vector<bool> optional;  // kList: per element; kMap: per entry

  // kComprehension
  Expr* range = nullptr;
  std::string variable;
  std::string variable2;  // empty: one variable
  std::string accumulator;
  Expr* init = nullptr;
  Expr* condition = nullptr;
  Expr* step = nullptr;
  Expr* result = nullptr;

  // Set by the checker.
  const TypeNode* type = nullptr;
  const Overload* overload = nullptr;  // kCall: the only one that fits; null if several do
  bool is_type = false;                // kIdent: the name of a type
};

class Ast {
 public:
  // More nodes than that only come from macros that copy their target over and over.
  static constexpr size_t kMaxNodes = 100'000;

  explicit Ast(Context& constants) : constants_(constants) {}

  Expr* New(Expr::Form form, uint32_t offset);
  // A deep copy; null when there would be too many nodes.
  Expr* Copy(const Expr& expr);
  [[nodiscard]] bool TooLarge() const { return nodes_.size() > kMaxNodes; }

  Expr* Literal(const Value& value, uint32_t offset);
  Expr* Ident(std::string_view name, uint32_t offset);
  Expr* Call(std::string_view function, std::vector<Expr*> args, uint32_t offset);
  Expr* MemberCall(std::string_view function, Expr* target, std::vector<Expr*> args,
                   uint32_t offset);

  [[nodiscard]] Context& constants() const { return constants_; }

  Expr* root = nullptr;

 private:
  std::deque<Expr> nodes_;
  Context& constants_;
};

// "line 2, column 7: " of a byte offset.
[[nodiscard]] std::string Position(std::string_view source, uint32_t offset);

}  // namespace tutti::api::cel
