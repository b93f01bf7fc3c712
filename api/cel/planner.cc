// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "api/cel/parser.h"
#include "api/cel/program.h"

namespace tutti::api::cel {
namespace {

constexpr size_t kLongestFoldedText = 256;

bool IsTypeConversion(std::string_view function) {
  for (const std::string_view name : {"bool", "bytes", "double", "dyn", "duration", "int", "string",
                                      "timestamp", "type", "uint"}) {
    if (name == function) {
      return true;
    }
  }
  return false;
}

std::string_view RuntimeTypeName(const TypeNode& type) {
  switch (type.kind) {
    case TypeKind::kNull:
      return "null_type";
    case TypeKind::kTimestamp:
      return "google.protobuf.Timestamp";
    case TypeKind::kDuration:
      return "google.protobuf.Duration";
    case TypeKind::kList:
      return "list";
    case TypeKind::kMap:
      return "map";
    case TypeKind::kOptional:
      return "optional_type";
    case TypeKind::kType:
      return "type";
    default:
      return type.name;
  }
}

void AddQualifier(Attribute& attribute, const Qualifier& qualifier) {
  if (attribute.root == Attribute::Root::kConditional) {
    AddQualifier(*attribute.yes, qualifier);
    AddQualifier(*attribute.no, qualifier);
    return;
  }
  attribute.qualifiers.push_back(qualifier);
}

}  // namespace

class Planner {
 public:
  Planner(std::string_view source, Program& program) : source_(source), program_(program) {}

  Status Run(const Ast& ast) {
    program_.root_ = Plan(*ast.root);
    program_.slots_ = slots_;
    if (!problem_.empty()) {
      return Fail(ErrorCode::kInvalid, Position(source_, problem_offset_) + problem_);
    }
    return {};
  }

 private:
  using Form = Node::Form;

  Node* NewNode(Form form) {
    program_.nodes_.push_back(std::make_unique<Node>());
    program_.nodes_.back()->form = form;
    return program_.nodes_.back().get();
  }

  Node* Constant(const Value& value) {
    Node* node = NewNode(Form::kConstant);
    node->value = value;
    return node;
  }

  Node* Problem(const Expr& where, std::string message) {
    if (problem_.empty()) {
      problem_ = std::move(message);
      problem_offset_ = where.offset;
    }
    return Constant(Null());
  }

  static bool HasAttribute(const Node& node) {
    return node.form == Form::kAttribute || node.form == Form::kTest;
  }

  Node* Plan(const Expr& expr) {
    switch (expr.form) {
      case Expr::Form::kLiteral:
        return Constant(expr.literal);
      case Expr::Form::kIdent:
        return Ident(expr);
      case Expr::Form::kSelect: {
        Node* node = AsAttribute(Plan(*expr.target));
        Qualifier qualifier;
        qualifier.test_only = expr.test_only;
        SetKey(qualifier, program_.constants_->Text(expr.name));
        if (expr.test_only) {
          node->form = Form::kTest;
        }
        AddQualifier(*node->attribute, qualifier);
        return node;
      }
      case Expr::Form::kCall:
        return Call(expr);
      case Expr::Form::kList:
      case Expr::Form::kMap:
        return Literal(expr);
      case Expr::Form::kComprehension:
        return Loop(expr);
    }
    return Constant(Null());
  }

  Node* Ident(const Expr& expr) {
    if (expr.is_type) {
      return Constant(Type(RuntimeTypeName(*expr.type->parameters[0])));
    }
    if (expr.type->kind == TypeKind::kType) {
      return Problem(expr, "\"" + expr.name + "\" is a type in a variable, which cel-go can't run");
    }
    Node* node = NewNode(Form::kAttribute);
    node->attribute = std::make_unique<Attribute>();
    for (auto it = scopes_.rbegin(); it != scopes_.rend(); ++it) {
      if (it->first == expr.name) {
        node->attribute->slot = it->second;
        break;
      }
    }
    return node;
  }

  // The node itself if it is a chain of selections, else a chain that starts with its value.
  Node* AsAttribute(Node* node) {
    if (HasAttribute(*node)) {
      node->form = Form::kAttribute;
      return node;
    }
    Node* out = NewNode(Form::kAttribute);
    out->attribute = std::make_unique<Attribute>();
    out->attribute->root = Attribute::Root::kValue;
    out->attribute->operand = node;
    return out;
  }

  static void SetKey(Qualifier& qualifier, const Value& key) {
    qualifier.key = key;
    if (key.kind == Kind::kString) {
      qualifier.text = key.Text();
    }
  }

  Node* Index(const Expr& expr, bool optional) {
    Node* node = AsAttribute(Plan(*expr.args[0]));
    const Node* index = Plan(*expr.args[1]);
    Qualifier qualifier;
    qualifier.optional = optional;
    if (index->form == Form::kConstant) {
      const Kind kind = index->value.kind;
      if (kind != Kind::kString && kind != Kind::kInt && kind != Kind::kUint &&
          kind != Kind::kBool && kind != Kind::kDouble) {
        return Problem(expr, "a " + std::string(TypeName(index->value)) + " can't be an index");
      }
      SetKey(qualifier, index->value);
    } else {
      qualifier.node = index;
      qualifier.resolve = HasAttribute(*index);
    }
    AddQualifier(*node->attribute, qualifier);
    return node;
  }

  std::unique_ptr<Attribute> Branch(Node* node) {
    if (HasAttribute(*node)) {
      return std::move(node->attribute);
    }
    auto out = std::make_unique<Attribute>();
    out->root = Attribute::Root::kValue;
    out->operand = node;
    return out;
  }

  Node* Conditional(const Expr& expr) {
    Node* node = NewNode(Form::kAttribute);
    node->attribute = std::make_unique<Attribute>();
    node->attribute->root = Attribute::Root::kConditional;
    node->attribute->operand = Plan(*expr.args[0]);
    node->attribute->yes = Branch(Plan(*expr.args[1]));
    node->attribute->no = Branch(Plan(*expr.args[2]));
    return node;
  }

  Node* Logic(const Expr& expr, Form form) {
    Node* node = NewNode(form);
    for (const Expr* arg : expr.args) {
      const Node* term = Plan(*arg);
      if (term->form == form) {
        node->args.insert(node->args.end(), term->args.begin(), term->args.end());
      } else {
        node->args.push_back(term);
      }
    }
    return node;
  }

  Node* Call(const Expr& expr) {
    const std::string_view name = expr.name;
    if (name == "_?._") {
      return Index(expr, /*optional=*/true);
    }
    if (name == "_[_]" || name == "_[?_]") {
      return Index(expr, name == "_[?_]");
    }
    if (name == "_?_:_") {
      return Conditional(expr);
    }
    if (name == "_&&_" || name == "_||_") {
      return Logic(expr, name == "_&&_" ? Form::kAnd : Form::kOr);
    }
    Node* node = NewNode(name == "_==_"      ? Form::kEquals
                         : name == "_!=_"    ? Form::kNotEquals
                         : name == "or"      ? Form::kOptionalOr
                         : name == "orValue" ? Form::kOptionalOrValue
                                             : Form::kCall);
    node->function = FindFunction(name);
    node->overload = expr.overload;
    node->rule = node->function->has_cost || node->overload == nullptr ? node->function->cost
                                                                       : node->overload->cost;
    if (expr.target != nullptr) {
      node->args.push_back(Plan(*expr.target));
    }
    for (const Expr* arg : expr.args) {
      node->args.push_back(Plan(*arg));
    }
    // Several overloads are one function of any number of arguments; format() is such a one.
    node->stops_at_error = node->args.size() > 2 || name == "format" ||
                           (node->overload == nullptr && !node->function->singleton &&
                            node->function->overloads.size() > 1);
    node->guarded = node->overload != nullptr && !node->function->singleton;
    return node->form == Form::kCall ? Optimized(expr, node) : node;
  }

  Node* Optimized(const Expr& expr, Node* node) {
    const std::string_view name = node->function->name;
    const auto is_constant = [](const Node* arg) { return arg->form == Form::kConstant; };
    if (node->overload != nullptr && node->overload->id == "in_list" &&
        is_constant(node->args[1]) && node->args[1]->value.kind == Kind::kList) {
      return InConstants(node);
    }
    if (IsTypeConversion(name) && node->args.size() == 1 && is_constant(node->args[0])) {
      const Value value = RunHere(*node, *program_.constants_);
      if (value.IsError()) {
        return Problem(expr, Message(value));
      }
      return Constant(value);
    }
    if ((name == "matches" || name == "find" || name == "findAll") && is_constant(node->args[1]) &&
        node->args[1]->value.kind == Kind::kString) {
      node->regex = Regex::Compile(node->args[1]->value.Text());
      if (node->regex == nullptr) {
        return Problem(expr, "not a regular expression (RE2 syntax)");
      }
      node->stops_at_error = true;
      node->guarded = false;
    }
    const bool foldable = std::all_of(node->args.begin(), node->args.end(), [](const Node* arg) {
      return arg->form == Form::kConstant || arg->form == Form::kFolded;
    });
    if (foldable) {
      Fold(*node);
    }
    return node;
  }

  static Value RunHere(const Node& node, Context& context);

  // Small values only: what a selector keeps must not grow with what it computes.
  void Fold(Node& node) {
    Context scratch;
    Value value = RunHere(node, scratch);
    switch (value.kind) {
      case Kind::kNull:
      case Kind::kBool:
      case Kind::kInt:
      case Kind::kUint:
      case Kind::kDouble:
      case Kind::kTimestamp:
      case Kind::kDuration:
        break;
      case Kind::kQuantity:
        value.quantity = program_.constants_->Keep(*value.quantity);
        break;
      case Kind::kString:
        if (value.size > kLongestFoldedText) {
          return;
        }
        value = program_.constants_->Text(value.Text());
        break;
      case Kind::kSemver: {
        if (value.semver->prerelease.size() > kLongestFoldedText) {
          return;
        }
        auto* copy = program_.constants_->New<SemverObject>();
        *copy = *value.semver;
        copy->prerelease = program_.constants_->Text(copy->prerelease).Text();
        value.semver = copy;
        break;
      }
      default:
        return;
    }
    node.cost = scratch.cost;
    node.value = value;
    node.form = Form::kFolded;
  }

  Node* InConstants(Node* node) {
    const Value list = node->args[1]->value;
    const size_t size = ListSize(list);
    if (size == 0) {
      return Constant(Bool(false));
    }
    for (size_t i = 0; i < size; ++i) {
      switch (ListGet(*list.list, i).kind) {
        case Kind::kBool:
        case Kind::kInt:
        case Kind::kUint:
        case Kind::kDouble:
        case Kind::kString:
          break;
        default:
          return node;
      }
    }
    node->form = Form::kInConstants;
    node->value = list;
    return node;
  }

  Node* Literal(const Expr& expr) {
    Node* node = NewNode(expr.form == Expr::Form::kList ? Form::kList : Form::kMap);
    node->optional = expr.optional;
    bool constant = true;
    for (const Expr* arg : expr.args) {
      node->args.push_back(Plan(*arg));
      constant = constant && node->args.back()->form == Form::kConstant;
    }
    if (!constant) {
      return node;
    }
    const Value value = RunHere(*node, *program_.constants_);
    return value.IsFatal() ? Problem(expr, Message(value)) : Constant(value);
  }

  int NewSlot(const std::string& name) {
    if (name == kUnused) {
      return -1;
    }
    scopes_.emplace_back(name, slots_);
    return slots_++;
  }

  Node* Loop(const Expr& expr) {
    Node* node = NewNode(Form::kLoop);
    node->init = Plan(*expr.init);
    node->range = Plan(*expr.range);
    const size_t outer = scopes_.size();
    node->accumulator = NewSlot(expr.accumulator);
    node->variable = NewSlot(expr.variable);
    node->variable2 = expr.variable2.empty() ? -1 : NewSlot(expr.variable2);
    node->condition = Plan(*expr.condition);
    node->step = Plan(*expr.step);
    scopes_.resize(outer + 1);
    node->result = Plan(*expr.result);
    scopes_.resize(outer);
    return node;
  }

  std::string_view source_;
  Program& program_;
  std::vector<std::pair<std::string, int>> scopes_;
  int slots_ = 0;
  std::string problem_;
  uint32_t problem_offset_ = 0;
};

Value Planner::RunHere(const Node& node, Context& context) {
  const SelectorDevice nobody;  // constants don't look at the device
  const uint64_t before = context.cost;
  Program one;
  one.root_ = &node;
  const Value value = one.Run(context, nobody);
  if (value.IsFatal()) {
    context.cost = before;
  }
  return value;
}

Result<std::unique_ptr<const Program>> Program::Plan(std::string_view source, const Ast& ast,
                                                     std::unique_ptr<Context> constants) {
  auto program = std::unique_ptr<Program>(new Program());
  program->constants_ = std::move(constants);
  TRY(Planner(source, *program).Run(ast));
  return std::unique_ptr<const Program>(std::move(program));
}

}  // namespace tutti::api::cel
