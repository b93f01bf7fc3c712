// SPDX-License-Identifier: Apache-2.0
#include "api/cel/ast.h"

#include <algorithm>
#include <utility>

namespace tutti::api::cel {

Expr* Ast::New(Expr::Form form, uint32_t offset) {
  Expr& expr = nodes_.emplace_back();
  expr.form = form;
  expr.offset = offset;
  return &expr;
}

Expr* Ast::Copy(const Expr& expr) {
  if (TooLarge()) {
    return nullptr;
  }
  Expr* out = New(expr.form, expr.offset);
  out->literal = expr.literal;
  out->name = expr.name;
  out->test_only = expr.test_only;
  out->optional = expr.optional;
  out->variable = expr.variable;
  out->variable2 = expr.variable2;
  out->accumulator = expr.accumulator;
  bool complete = true;
  const auto copy = [&](const Expr* from) -> Expr* {
    if (from == nullptr) {
      return nullptr;
    }
    Expr* to = Copy(*from);
    complete = complete && to != nullptr;
    return to;
  };
  out->target = copy(expr.target);
  for (const Expr* arg : expr.args) {
    out->args.push_back(copy(arg));
  }
  out->range = copy(expr.range);
  out->init = copy(expr.init);
  out->condition = copy(expr.condition);
  out->step = copy(expr.step);
  out->result = copy(expr.result);
  return complete ? out : nullptr;
}

Expr* Ast::Literal(const Value& value, uint32_t offset) {
  Expr* out = New(Expr::Form::kLiteral, offset);
  out->literal = value;
  return out;
}

Expr* Ast::Ident(std::string_view name, uint32_t offset) {
  Expr* out = New(Expr::Form::kIdent, offset);
  out->name = name;
  return out;
}

Expr* Ast::Call(std::string_view function, std::vector<Expr*> args, uint32_t offset) {
  Expr* out = New(Expr::Form::kCall, offset);
  out->name = function;
  out->args = std::move(args);
  return out;
}

Expr* Ast::MemberCall(std::string_view function, Expr* target, std::vector<Expr*> args,
                      uint32_t offset) {
  Expr* out = Call(function, std::move(args), offset);
  out->target = target;
  return out;
}

std::string Position(std::string_view source, uint32_t offset) {
  const std::string_view before = source.substr(0, offset);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t start = before.rfind('\n');
  const size_t column = before.size() - (start == std::string_view::npos ? 0 : start + 1) + 1;
  return "line " + std::to_string(line) + ", column " + std::to_string(column) + ": ";
}

}  // namespace tutti::api::cel
