// SPDX-License-Identifier: Apache-2.0
#include "api/cel/checker.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "api/cel/format_string.h"
#include "api/cel/functions.h"
#include "api/cel/parser.h"
#include "api/cel/regex.h"

namespace tutti::api::cel {
namespace {

// Types grow beyond that only by repeated nesting of variables, doubling each time.
constexpr uint32_t kMaxTypeWeight = 2'000;
constexpr size_t kMaxSteps = 2'000'000;

bool IsDyn(const TypeNode& type) {
  return type.kind == TypeKind::kDyn || type.kind == TypeKind::kAny;
}

// What null may be assigned to.
bool IsNullable(const TypeNode& type) {
  return type.kind == TypeKind::kOptional || type.kind == TypeKind::kOpaque ||
         type.kind == TypeKind::kStruct || type.kind == TypeKind::kTimestamp ||
         type.kind == TypeKind::kDuration || type.kind == TypeKind::kNull;
}

class Checker {
 public:
  Checker(std::string_view source, const Features& features, Ast& ast, TypePool& pool)
      : source_(source), features_(features), ast_(ast), pool_(pool) {
    const TypeNode* attribute = features.list_type_attributes ? &types::kDyn : &types::kAny;
    const TypeNode* attributes = pool_.Map(&types::kString, pool_.Map(&types::kString, attribute));
    const TypeNode* capacity =
        pool_.Map(&types::kString, pool_.Map(&types::kString, &types::kQuantity));
    fields_ = {{"driver", &types::kString},
               {"attributes", attributes},
               {"capacity", capacity},
               {"allowMultipleAllocations", &types::kBool}};
    for (const auto& [name, type] :
         std::initializer_list<std::pair<std::string_view, const TypeNode*>>{
             {"bool", &types::kBool},
             {"bytes", &types::kBytes},
             {"double", &types::kDouble},
             {"google.protobuf.Duration", &types::kDuration},
             {"int", &types::kInt},
             {"list", pool_.List(&types::kDyn)},
             {"map", pool_.Map(&types::kDyn, &types::kDyn)},
             {"null_type", &types::kNull},
             {"string", &types::kString},
             {"google.protobuf.Timestamp", &types::kTimestamp},
             {"type", &types::kType},
             {"uint", &types::kUint},
             {"optional_type", pool_.Optional(&types::kDyn)},
             {"net.IP", &types::kIp},
             {"net.CIDR", &types::kCidr}}) {
      type_names_[name] = pool_.TypeOf(type);
    }
  }

  Status Run() {
    Visit(*ast_.root);
    if (problem_.empty()) {
      Finish(ast_.root, /*exempt=*/false);
    }
    if (problem_.empty()) {
      const TypeKind kind = ast_.root->type->kind;
      if (kind != TypeKind::kBool && kind != TypeKind::kAny &&
          !(features_.list_type_attributes && kind == TypeKind::kDyn)) {
        Problem(*ast_.root, "must evaluate to bool, not to " + ToString(*ast_.root->type));
      }
    }
    if (!problem_.empty()) {
      return Fail(ErrorCode::kInvalid, Position(source_, problem_offset_) + problem_);
    }
    return {};
  }

 private:
  void Problem(const Expr& where, std::string message) {
    if (problem_.empty()) {
      problem_ = std::move(message);
      problem_offset_ = where.offset;
    }
  }

  // --- substitution -----------------------------------------------------------------------------

  [[nodiscard]] const TypeNode* Bound(const TypeNode& type) const {
    return type.kind == TypeKind::kVariable ? bindings_[type.variable] : nullptr;
  }

  const TypeNode* NewVariable() {
    bindings_.push_back(nullptr);
    return pool_.Variable(static_cast<uint32_t>(bindings_.size() - 1));
  }

  void Bind(const TypeNode& variable, const TypeNode* type) {
    trail_.emplace_back(variable.variable, bindings_[variable.variable]);
    bindings_[variable.variable] = type;
  }

  // Counts work; a check that takes too long ends as a refusal.
  bool Step() {
    if (++steps_ <= kMaxSteps) {
      return true;
    }
    Problem(*ast_.root, "the types are too complex");
    return false;
  }

  const TypeNode* Substitute(const TypeNode* type, bool variables_to_dyn) {
    if (!Step()) {
      return &types::kError;
    }
    if (const TypeNode* bound = Bound(*type); bound != nullptr) {
      return Substitute(bound, variables_to_dyn);
    }
    if (type->kind == TypeKind::kVariable) {
      return variables_to_dyn ? &types::kDyn : type;
    }
    if (type->parameters.empty()) {
      return type;
    }
    std::vector<const TypeNode*> parameters;
    bool changed = false;
    for (const TypeNode* parameter : type->parameters) {
      parameters.push_back(Substitute(parameter, variables_to_dyn));
      changed = changed || parameters.back() != parameter;
    }
    if (!changed) {
      return type;
    }
    const TypeNode* out = pool_.Make(type->kind, std::move(parameters));
    if (out->weight > kMaxTypeWeight) {
      Problem(*ast_.root, "the types are too complex");
      return &types::kError;
    }
    return out;
  }

  // The overload's type with its own variables replaced by fresh ones, `first` on.
  const TypeNode* Instantiate(const TypeNode* type, uint32_t first) {
    if (type->kind == TypeKind::kVariable) {
      return pool_.Variable(first + type->variable);
    }
    if (type->parameters.empty()) {
      return type;
    }
    std::vector<const TypeNode*> parameters;
    for (const TypeNode* parameter : type->parameters) {
      parameters.push_back(Instantiate(parameter, first));
    }
    return pool_.Make(type->kind, std::move(parameters));
  }

  // --- assignability ----------------------------------------------------------------------------

  bool NotReferencedIn(const TypeNode& variable, const TypeNode& within) {
    if (!Step()) {
      return false;
    }
    if (within.kind == TypeKind::kVariable) {
      if (within.variable == variable.variable) {
        return false;
      }
      const TypeNode* bound = Bound(within);
      return bound == nullptr || NotReferencedIn(variable, *bound);
    }
    for (const TypeNode* parameter : within.parameters) {
      if (!NotReferencedIn(variable, *parameter)) {
        return false;
      }
    }
    return true;
  }

  static bool IsEqualOrLessSpecific(const TypeNode& a, const TypeNode& b) {
    if (IsDyn(a) || a.kind == TypeKind::kVariable) {
      return true;
    }
    if (IsDyn(b) || b.kind == TypeKind::kVariable || a.kind != b.kind || a.name != b.name) {
      return false;
    }
    if (a.kind == TypeKind::kType) {
      return true;
    }
    if (a.parameters.size() != b.parameters.size()) {
      return false;
    }
    for (size_t i = 0; i < a.parameters.size(); ++i) {
      if (!IsEqualOrLessSpecific(*a.parameters[i], *b.parameters[i])) {
        return false;
      }
    }
    return true;
  }

  static const TypeNode* MostGeneral(const TypeNode* a, const TypeNode* b) {
    return IsEqualOrLessSpecific(*a, *b) ? a : b;
  }

  struct Fit {
    bool valid = false;
    bool bound = false;
  };

  Fit FitsVariable(const TypeNode* type, const TypeNode* variable) {
    if (type->kind == TypeKind::kVariable && type->variable == variable->variable) {
      return {true, true};
    }
    if (const TypeNode* bound = Bound(*variable); bound != nullptr) {
      if (SameType(*type, *bound, /*same_variables=*/true)) {
        return {true, true};
      }
      if (Assignable(type, bound)) {
        const TypeNode* general = MostGeneral(type, bound);
        if (NotReferencedIn(*variable, *general)) {
          Bind(*variable, general);
        }
        return {true, true};
      }
      return {false, true};
    }
    if (NotReferencedIn(*variable, *type)) {
      Bind(*variable, type);
      return {true, false};
    }
    return {false, false};
  }

  bool Assignable(const TypeNode* a, const TypeNode* b) {
    if (!Step()) {
      return false;
    }
    if (b->kind == TypeKind::kVariable) {
      const Fit fit = FitsVariable(a, b);
      if (fit.valid) {
        return true;
      }
      if (fit.bound) {
        return false;
      }
    }
    if (a->kind == TypeKind::kVariable) {
      return FitsVariable(b, a).valid;
    }
    if (IsDyn(*a) || IsDyn(*b) || a->kind == TypeKind::kError || b->kind == TypeKind::kError) {
      return true;
    }
    if (a->kind == TypeKind::kNull) {
      return IsNullable(*b);
    }
    if (b->kind == TypeKind::kNull) {
      return IsNullable(*a);
    }
    if (a->kind == TypeKind::kType || b->kind == TypeKind::kType) {
      return a->kind == b->kind;
    }
    if (a->kind != b->kind || a->name != b->name || a->parameters.size() != b->parameters.size()) {
      return false;
    }
    for (size_t i = 0; i < a->parameters.size(); ++i) {
      if (!Assignable(a->parameters[i], b->parameters[i])) {
        return false;
      }
    }
    return true;
  }

  void Undo(size_t mark) {
    while (trail_.size() > mark) {
      bindings_[trail_.back().first] = trail_.back().second;
      trail_.pop_back();
    }
  }

  // What was bound is kept only if all fits.
  bool TryAssign(const TypeNode* a, const TypeNode* b) {
    const size_t mark = trail_.size();
    if (Assignable(a, b)) {
      return true;
    }
    Undo(mark);
    return false;
  }

  // --- expressions ------------------------------------------------------------------------------

  const TypeNode* LookupVariable(std::string_view name) {
    for (auto it = scopes_.rbegin(); it != scopes_.rend(); ++it) {
      if (it->first == name) {
        return it->second;
      }
    }
    return name == "device" ? &types::kDevice : nullptr;
  }

  static std::string_view WithoutDot(std::string_view name) {
    return name.starts_with(".") ? name.substr(1) : name;
  }

  // "a.b.c" of a chain of plain selections.
  static bool QualifiedName(const Expr& expr, std::string& out) {
    if (expr.form == Expr::Form::kIdent) {
      out = expr.name;
      return true;
    }
    if (expr.form == Expr::Form::kSelect && !expr.test_only && QualifiedName(*expr.target, out)) {
      out += "." + expr.name;
      return true;
    }
    return false;
  }

  void Visit(Expr& expr) {
    if (!problem_.empty()) {
      expr.type = &types::kError;
      return;
    }
    switch (expr.form) {
      case Expr::Form::kLiteral:
        expr.type = LiteralType(expr.literal);
        break;
      case Expr::Form::kIdent:
        VisitIdent(expr);
        break;
      case Expr::Form::kSelect:
        VisitSelect(expr);
        break;
      case Expr::Form::kCall:
        VisitCall(expr);
        break;
      case Expr::Form::kList:
        VisitList(expr);
        break;
      case Expr::Form::kMap:
        VisitMap(expr);
        break;
      case Expr::Form::kComprehension:
        VisitComprehension(expr);
        break;
    }
    if (expr.type == nullptr) {
      expr.type = &types::kError;
    } else if (expr.type->weight > kMaxTypeWeight) {
      Problem(expr, "the types are too complex");
    }
  }

  static const TypeNode* LiteralType(const Value& value) {
    switch (value.kind) {
      case Kind::kBool:
        return &types::kBool;
      case Kind::kInt:
        return &types::kInt;
      case Kind::kUint:
        return &types::kUint;
      case Kind::kDouble:
        return &types::kDouble;
      case Kind::kString:
        return &types::kString;
      case Kind::kBytes:
        return &types::kBytes;
      case Kind::kNull:
        return &types::kNull;
      default:
        return &types::kError;
    }
  }

  bool ResolveName(Expr& expr, std::string_view full) {
    const std::string_view name = WithoutDot(full);
    if (const TypeNode* type = LookupVariable(name); type != nullptr) {
      expr.type = type;
    } else if (const auto it = type_names_.find(name); it != type_names_.end()) {
      expr.type = it->second;
      expr.is_type = true;
    } else {
      return false;
    }
    const std::string copy(name);
    expr.form = Expr::Form::kIdent;
    expr.name = copy;
    return true;
  }

  void VisitIdent(Expr& expr) {
    if (!ResolveName(expr, expr.name)) {
      Problem(expr, "there is no variable \"" + expr.name + "\"");
    }
  }

  void VisitSelect(Expr& expr) {
    std::string qualified;
    if (QualifiedName(expr, qualified) && ResolveName(expr, qualified)) {
      return;
    }
    Visit(*expr.target);
    const TypeNode* field = FieldType(expr, *expr.target, expr.name, /*optional=*/false);
    expr.type = expr.test_only ? &types::kBool : Substitute(field, false);
  }

  const TypeNode* FieldType(const Expr& where, const Expr& operand, std::string_view field,
                            bool optional) {
    const TypeNode* target = Substitute(operand.type, false);
    const bool unwrap = target->kind == TypeKind::kOptional;
    if (unwrap) {
      target = target->parameters[0];
    }
    const TypeNode* result = &types::kDyn;
    if (target->kind == TypeKind::kMap) {
      result = target->parameters[1];
    } else if (target->kind == TypeKind::kStruct) {
      const auto it = target == &types::kDevice ? fields_.find(field) : fields_.end();
      if (it == fields_.end()) {
        Problem(where, ToString(*target) + " has no field \"" + std::string(field) + "\"");
        return &types::kError;
      }
      result = it->second;
    } else if (target->kind == TypeKind::kVariable) {
      TryAssign(&types::kDyn, target);
    } else if (!IsDyn(*target) && target->kind != TypeKind::kError) {
      Problem(where, "a " + ToString(*target) + " has no fields");
    }
    return unwrap || optional ? pool_.Optional(result) : result;
  }

  void VisitCall(Expr& expr) {
    if (expr.name == "_?._") {
      Visit(*expr.args[0]);
      const std::string field(expr.args[1]->literal.Text());
      expr.args[1]->type = &types::kString;
      expr.type = Substitute(FieldType(expr, *expr.args[0], field, /*optional=*/true), false);
      return;
    }
    for (Expr* arg : expr.args) {
      Visit(*arg);
    }
    const Function* function = nullptr;
    if (expr.target != nullptr) {
      std::string qualified;
      if (QualifiedName(*expr.target, qualified)) {
        function = LookupFunction(qualified + "." + expr.name);
      }
      if (function != nullptr) {
        expr.target = nullptr;
      } else {
        Visit(*expr.target);
      }
    }
    if (function == nullptr) {
      function = LookupFunction(expr.name);
    }
    if (function == nullptr) {
      Problem(expr, "there is no function \"" + expr.name + "\"");
      return;
    }
    expr.name = function->name;
    Resolve(expr, *function);
  }

  const Function* LookupFunction(std::string_view name) const {
    const Function* function = FindFunction(WithoutDot(name));
    if (function != nullptr && function->name == "includes" && !features_.list_type_attributes) {
      return nullptr;
    }
    return function;
  }

  void Resolve(Expr& expr, const Function& function) {
    std::vector<const TypeNode*> args;
    if (expr.target != nullptr) {
      args.push_back(expr.target->type);
    }
    for (const Expr* arg : expr.args) {
      args.push_back(arg->type);
    }
    const TypeNode* result = nullptr;
    size_t fitting = 0;
    for (const Overload& overload : function.overloads) {
      if (overload.member != (expr.target != nullptr) || overload.args.size() != args.size()) {
        continue;
      }
      const auto first = static_cast<uint32_t>(bindings_.size());
      bindings_.resize(bindings_.size() + overload.variables, nullptr);
      const size_t mark = trail_.size();
      bool fits = true;
      for (size_t i = 0; i < args.size() && fits; ++i) {
        fits = Assignable(args[i], Instantiate(overload.args[i], first));
      }
      if (!fits) {
        Undo(mark);
        continue;
      }
      ++fitting;
      expr.overload = fitting == 1 ? &overload : nullptr;
      const TypeNode* this_result = Substitute(Instantiate(overload.result, first), false);
      if (result == nullptr) {
        result = this_result;
      } else if (!IsDyn(*result) && !SameType(*this_result, *result, /*same_variables=*/true)) {
        result = &types::kDyn;
      }
    }
    if (result == nullptr) {
      std::string list;
      for (const TypeNode* arg : args) {
        list += (list.empty() ? "" : ", ") + ToString(*Substitute(arg, true));
      }
      Problem(expr, "\"" + std::string(function.name) + "\" can't be applied to (" + list + ")");
      return;
    }
    expr.type = result;
  }

  const TypeNode* Join(const TypeNode* previous, const TypeNode* current) {
    if (previous == nullptr) {
      return current;
    }
    if (TryAssign(previous, current)) {
      return MostGeneral(previous, current);
    }
    return &types::kDyn;  // refused later by Homogeneous, unless string.format() may have it
  }

  const TypeNode* Unwrapped(const Expr& where) {
    const TypeNode* type = where.type;
    if (type->kind == TypeKind::kOptional) {
      return type->parameters[0];
    }
    if (!IsDyn(*type)) {
      Problem(where, "expected an optional after \"?\", found " + ToString(*type));
    }
    return type;
  }

  void VisitList(Expr& expr) {
    const TypeNode* element = nullptr;
    for (size_t i = 0; i < expr.args.size(); ++i) {
      Expr& item = *expr.args[i];
      Visit(item);
      element = Join(element, expr.optional[i] ? Unwrapped(item) : item.type);
    }
    expr.type = pool_.List(element == nullptr ? NewVariable() : element);
  }

  void VisitMap(Expr& expr) {
    const TypeNode* key_type = nullptr;
    const TypeNode* value_type = nullptr;
    for (size_t i = 0; i < expr.args.size(); i += 2) {
      Expr& key = *expr.args[i];
      Expr& value = *expr.args[i + 1];
      Visit(key);
      key_type = Join(key_type, key.type);
      Visit(value);
      value_type = Join(value_type, expr.optional[i / 2] ? Unwrapped(value) : value.type);
    }
    if (key_type == nullptr) {
      key_type = NewVariable();
      value_type = NewVariable();
    }
    expr.type = pool_.Map(key_type, value_type);
  }

  void VisitComprehension(Expr& expr) {
    Visit(*expr.range);
    Visit(*expr.init);
    const TypeNode* range = Substitute(expr.range->type, false);
    const TypeNode* accumulator = expr.init->type;
    const bool two = !expr.variable2.empty();
    const TypeNode* first = &types::kDyn;
    const TypeNode* second = &types::kDyn;
    if (range->kind == TypeKind::kList) {
      first = two ? &types::kInt : range->parameters[0];
      second = range->parameters[0];
    } else if (range->kind == TypeKind::kMap) {
      first = range->parameters[0];
      second = range->parameters[1];
    } else if (range->kind == TypeKind::kDyn || range->kind == TypeKind::kError ||
               range->kind == TypeKind::kVariable) {
      TryAssign(&types::kDyn, range);
    } else {
      Problem(*expr.range, "a " + ToString(*range) + " can't be looped over");
    }
    const size_t outer = scopes_.size();
    scopes_.emplace_back(expr.accumulator, accumulator);
    scopes_.emplace_back(expr.variable, first);
    if (two) {
      scopes_.emplace_back(expr.variable2, second);
    }
    Visit(*expr.condition);
    Require(*expr.condition, &types::kBool);
    Visit(*expr.step);
    Require(*expr.step, accumulator);
    scopes_.resize(outer + 1);
    Visit(*expr.result);
    scopes_.resize(outer);
    expr.type = Substitute(expr.result->type, false);
  }

  void Require(const Expr& expr, const TypeNode* type) {
    if (!TryAssign(type, expr.type)) {
      Problem(expr, "expected " + ToString(*Substitute(type, true)) + ", found " +
                        ToString(*Substitute(expr.type, true)));
    }
  }

  // --- after all variables are known ------------------------------------------------------------

  // Final types, then the validators. `exempt`: inside the arguments of string.format().
  void Finish(Expr* expr, bool exempt) {
    if (expr == nullptr || !problem_.empty()) {
      return;
    }
    expr->type = Substitute(expr->type == nullptr ? &types::kDyn : expr->type, true);
    const bool inside = exempt || (expr->form == Expr::Form::kCall && expr->name == "format");
    Finish(expr->target, inside);
    for (Expr* arg : expr->args) {
      Finish(arg, inside);
    }
    for (Expr* part : {expr->range, expr->init, expr->condition, expr->step, expr->result}) {
      Finish(part, exempt);
    }
    if (!problem_.empty()) {
      return;
    }
    switch (expr->form) {
      case Expr::Form::kList:
        if (!exempt) {
          Homogeneous(*expr, 0, 1, /*entries=*/false);
        }
        break;
      case Expr::Form::kMap:
        if (!exempt) {
          Homogeneous(*expr, 0, 2, /*entries=*/false);
          Homogeneous(*expr, 1, 2, /*entries=*/true);
        }
        break;
      case Expr::Form::kCall:
        ValidateCall(*expr);
        break;
      default:
        break;
    }
  }

  // Every `stride`th argument from `first` on has exactly the type of the first one.
  void Homogeneous(const Expr& expr, size_t first, size_t stride, bool entries) {
    const TypeNode* wanted = nullptr;
    for (size_t i = first; i < expr.args.size(); i += stride) {
      const Expr& item = *expr.args[i];
      const TypeNode* type = item.type;
      const bool optional = (stride == 1 || entries) && expr.optional[i / stride];
      if (optional) {
        if (type->kind != TypeKind::kOptional) {
          Problem(item, "an optional whose type is not known before it runs");
          return;
        }
        type = type->parameters[0];
      }
      if (wanted == nullptr) {
        wanted = type;
      } else if (!SameType(*wanted, *type, /*same_variables=*/false)) {
        Problem(item, "expected type " + ToString(*wanted) + " but found " + ToString(*type));
        return;
      }
    }
  }

  void ValidateCall(const Expr& expr) {
    if (expr.name == "matches" && !expr.args.empty() &&
        expr.args[0]->form == Expr::Form::kLiteral && expr.args[0]->literal.kind == Kind::kString &&
        !Regex::Compile(expr.args[0]->literal.Text())) {
      Problem(*expr.args[0], "not a regular expression (RE2 syntax)");
    }
    if (expr.name == "format" && expr.target != nullptr &&
        expr.target->form == Expr::Form::kLiteral && expr.target->literal.kind == Kind::kString &&
        expr.args.size() == 1 && expr.args[0]->form == Expr::Form::kList) {
      if (const std::string problem = CheckFormat(expr.target->literal.Text(), expr.args[0]->args);
          !problem.empty()) {
        Problem(expr, problem);
      }
    }
  }

  std::string_view source_;
  Features features_;
  Ast& ast_;
  TypePool& pool_;
  std::map<std::string_view, const TypeNode*> fields_;
  std::map<std::string_view, const TypeNode*> type_names_;
  std::vector<std::pair<std::string_view, const TypeNode*>> scopes_;
  std::vector<const TypeNode*> bindings_;  // by variable
  std::vector<std::pair<uint32_t, const TypeNode*>> trail_;
  size_t steps_ = 0;
  std::string problem_;
  uint32_t problem_offset_ = 0;
};

}  // namespace

Status Check(std::string_view source, const Features& features, Ast& ast, TypePool& pool) {
  return Checker(source, features, ast, pool).Run();
}

}  // namespace tutti::api::cel
