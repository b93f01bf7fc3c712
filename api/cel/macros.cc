// SPDX-License-Identifier: Apache-2.0
// The macros of the standard, of optional values, bindings, two-variable comprehensions and sortBy.
// Each becomes a comprehension: from `range`, with `accumulator` = `init`, while `condition`, do
// accumulator = `step`; the value is `result`.
#include <utility>

#include "api/cel/parser.h"

namespace tutti::api::cel {
namespace {

class Expander {
 public:
  Expander(Ast& ast, Expr* target, const std::vector<Expr*>& args, uint32_t offset)
      : ast_(ast), target_(target), args_(args), offset_(offset) {}

  MacroResult Has() {
    Expr* select = args_[0];
    if (select->form != Expr::Form::kSelect || select->test_only) {
      return Error(*args_[0], "has() needs a field selection, like has(a.b)");
    }
    select->test_only = true;
    return Done(select);
  }

  // `variables`: how many of the arguments name loop variables.
  MacroResult All(size_t variables) {
    Expr* condition = Call(kNotStrictlyFalse, {Accumulator()});
    Expr* step = Call("_&&_", {Accumulator(), args_[variables]});
    return Loop(variables, Literal(Bool(true)), condition, step, Accumulator());
  }

  MacroResult Exists(size_t variables) {
    Expr* condition = Call(kNotStrictlyFalse, {Call("!_", {Accumulator()})});
    Expr* step = Call("_||_", {Accumulator(), args_[variables]});
    return Loop(variables, Literal(Bool(false)), condition, step, Accumulator());
  }

  MacroResult ExistsOne(size_t variables) {
    Expr* step = Call(
        "_?_:_", {args_[variables], Call("_+_", {Accumulator(), Literal(Int(1))}), Accumulator()});
    return Loop(variables, Literal(Int(0)), Literal(Bool(true)), step,
                Call("_==_", {Accumulator(), Literal(Int(1))}));
  }

  // map(x, f), map(x, p, f), transformList(…)
  MacroResult Map(size_t variables) {
    Expr* item = NewList({args_.back()});
    return Collect(variables, args_.size() == variables + 2, NewList({}),
                   Call("_+_", {Accumulator(), item}));
  }

  MacroResult Filter() {
    if (args_[0]->form != Expr::Form::kIdent) {
      return Error(*args_[0], "the first argument must be a name");
    }
    Expr* item = NewList({ast_.Ident(args_[0]->name, offset_)});
    return Collect(1, /*filtered=*/true, NewList({}), Call("_+_", {Accumulator(), item}));
  }

  MacroResult TransformMap(bool entries) {
    std::vector<Expr*> insert = {Accumulator()};
    if (!entries) {
      if (args_[0]->form != Expr::Form::kIdent) {
        return Error(*args_[0], "the argument must be a name");
      }
      insert.push_back(ast_.Ident(args_[0]->name, offset_));
    }
    insert.push_back(args_.back());
    return Collect(2, args_.size() == 4, ast_.New(Expr::Form::kMap, offset_),
                   Call(kMapInsert, std::move(insert)));
  }

  MacroResult Bind() {
    if (args_[0]->form != Expr::Form::kIdent) {
      return Error(*args_[0], "the first argument must be a name");
    }
    return Done(Let(args_[0]->name, args_[1], args_[2]));
  }

  MacroResult OptMap(bool flat) {
    if (args_[0]->form != Expr::Form::kIdent) {
      return Error(*args_[0], "the first argument must be a name");
    }
    Expr* copy = ast_.Copy(*target_);
    if (copy == nullptr) {
      return Error(*target_, "macros make the expression too large");
    }
    Expr* value = Let(args_[0]->name, Member("value", copy), args_[1]);
    if (!flat) {
      value = Call("optional.of", {value});
    }
    return Done(Call("_?_:_", {Member("hasValue", target_), value, Call("optional.none", {})}));
  }

  MacroResult SortBy() {
    using Form = Expr::Form;
    const Form form = target_->form;
    if (form != Form::kList && form != Form::kSelect && form != Form::kIdent &&
        form != Form::kComprehension && form != Form::kCall) {
      return Error(*target_, "sortBy() can't be applied to this");
    }
    Expr* list = target_;
    target_ = ast_.Ident(kSortByInput, offset_);
    MacroResult keys = Map(1);
    if (keys.expr == nullptr) {
      return keys;
    }
    Expr* sorted =
        ast_.MemberCall(kSortByKeys, ast_.Ident(kSortByInput, offset_), {keys.expr}, offset_);
    return Done(Let(kSortByInput, list, sorted));
  }

 private:
  static MacroResult Done(Expr* expr) { return {true, expr, {}, 0}; }
  static MacroResult Error(const Expr& where, std::string message) {
    return {true, nullptr, std::move(message), where.offset};
  }

  Expr* Call(std::string_view function, std::vector<Expr*> args) {
    return ast_.Call(function, std::move(args), offset_);
  }
  Expr* Member(std::string_view function, Expr* target) {
    return ast_.MemberCall(function, target, {}, offset_);
  }
  Expr* Literal(const Value& value) { return ast_.Literal(value, offset_); }
  Expr* Accumulator() { return ast_.Ident(kAccumulator, offset_); }
  Expr* NewList(std::vector<Expr*> items) {
    Expr* list = ast_.New(Expr::Form::kList, offset_);
    list->optional.assign(items.size(), false);
    list->args = std::move(items);
    return list;
  }

  Expr* Let(std::string_view name, Expr* value, Expr* result) {
    Expr* let = ast_.New(Expr::Form::kComprehension, offset_);
    let->range = NewList({});
    let->variable = kUnused;
    let->accumulator = name;
    let->init = value;
    let->condition = Literal(Bool(false));
    let->step = ast_.Ident(name, offset_);
    let->result = result;
    return let;
  }

  MacroResult Collect(size_t variables, bool filtered, Expr* init, Expr* step) {
    if (filtered) {
      step = Call("_?_:_", {args_[variables], step, Accumulator()});
    }
    return Loop(variables, init, Literal(Bool(true)), step, Accumulator());
  }

  MacroResult Loop(size_t variables, Expr* init, Expr* condition, Expr* step, Expr* result) {
    for (size_t i = 0; i < variables; ++i) {
      if (args_[i]->form != Expr::Form::kIdent) {
        return Error(*args_[i], "the argument must be a name");
      }
      if (args_[i]->name == kAccumulator || args_[i]->name == "__result__") {
        return Error(*args_[i], "this name is taken");
      }
    }
    if (variables == 2 && args_[0]->name == args_[1]->name) {
      return Error(*args_[1], "two variables of the same name");
    }
    Expr* loop = ast_.New(Expr::Form::kComprehension, offset_);
    loop->range = target_;
    loop->variable = args_[0]->name;
    if (variables == 2) {
      loop->variable2 = args_[1]->name;
    }
    loop->accumulator = kAccumulator;
    loop->init = init;
    loop->condition = condition;
    loop->step = step;
    loop->result = result;
    return Done(loop);
  }

  Ast& ast_;
  Expr* target_;
  const std::vector<Expr*>& args_;
  uint32_t offset_;
};

}  // namespace

MacroResult ExpandMacro(Ast& ast, std::string_view function, Expr* target,
                        const std::vector<Expr*>& args, uint32_t offset) {
  Expander expand(ast, target, args, offset);
  const size_t count = args.size();
  if (target == nullptr) {
    return function == "has" && count == 1 ? expand.Has() : MacroResult();
  }
  const bool loop = count == 2 || count == 3;  // with one variable or with two
  if (function == "all" && loop) {
    return expand.All(count - 1);
  }
  if (function == "exists" && loop) {
    return expand.Exists(count - 1);
  }
  if ((function == "exists_one" && loop) || (function == "existsOne" && count == 3)) {
    return expand.ExistsOne(count - 1);
  }
  if (function == "map" && loop) {
    return expand.Map(1);
  }
  if (function == "filter" && count == 2) {
    return expand.Filter();
  }
  const bool transform = count == 3 || count == 4;
  if (function == "transformList" && transform) {
    return expand.Map(2);
  }
  if (function == "transformMap" && transform) {
    return expand.TransformMap(/*entries=*/false);
  }
  if (function == "transformMapEntry" && transform) {
    return expand.TransformMap(/*entries=*/true);
  }
  if (function == "bind" && count == 3 && target->form == Expr::Form::kIdent &&
      target->name == "cel") {
    return expand.Bind();
  }
  if ((function == "optMap" || function == "optFlatMap") && count == 2) {
    return expand.OptMap(function == "optFlatMap");
  }
  if (function == "sortBy" && count == 2) {
    return expand.SortBy();
  }
  return {};
}

}  // namespace tutti::api::cel
