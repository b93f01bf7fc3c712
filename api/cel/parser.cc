// SPDX-License-Identifier: Apache-2.0
#include "api/cel/parser.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "api/cel/lexer.h"
#include "api/cel/numbers.h"

namespace tutti::api::cel {
namespace {

constexpr int kMaxDepth = 250;  // cel-go's default

bool IsReserved(std::string_view word) {
  static constexpr std::array<std::string_view, 20> kReserved = {
      "as",  "break",  "const", "continue", "else",    "for",       "function",
      "if",  "import", "let",   "loop",     "package", "namespace", "return",
      "var", "void",   "while", "true",     "false",   "null"};
  return std::find(kReserved.begin(), kReserved.end(), word) != kReserved.end();
}

std::string_view OperatorName(std::string_view symbol) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kNames = {{
      {"<", "_<_"},
      {"<=", "_<=_"},
      {">", "_>_"},
      {">=", "_>=_"},
      {"==", "_==_"},
      {"!=", "_!=_"},
      {"in", "@in"},
      {"*", "_*_"},
      {"/", "_/_"},
      {"%", "_%_"},
      {"+", "_+_"},
      {"-", "_-_"},
  }};
  for (const auto& [from, to] : kNames) {
    if (from == symbol) {
      return to;
    }
  }
  return {};
}

class Parser {
 public:
  Parser(std::string_view source, std::vector<Token> tokens, Ast& ast)
      : source_(source), tokens_(std::move(tokens)), ast_(ast) {}

  Status Run() {
    Expr* root = Expression();
    if (root != nullptr && Now().kind != TokenKind::kEnd) {
      root = Unexpected("an operator or the end");
    }
    if (root == nullptr) {
      return Fail(ErrorCode::kInvalid, Position(source_, problem_offset_) + problem_);
    }
    ast_.root = root;
    return {};
  }

 private:
  // Counts how deep expressions are nested in each other: what the parser's own recursion depends
  // on.
  class Nesting {
   public:
    explicit Nesting(int& counter) : counter_(counter) { ++counter_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    ~Nesting() { --counter_; }
    [[nodiscard]] bool Exceeded() const { return counter_ > kMaxDepth + 1; }

   private:
    int& counter_;
  };

  [[nodiscard]] const Token& Now() const { return tokens_[at_]; }
  [[nodiscard]] const Token& Ahead(size_t count) const {
    return tokens_[std::min(at_ + count, tokens_.size() - 1)];
  }
  [[nodiscard]] bool Is(std::string_view symbol) const {
    return Now().kind == TokenKind::kSymbol && Now().text == symbol;
  }
  bool Accept(std::string_view symbol) {
    if (!Is(symbol)) {
      return false;
    }
    ++at_;
    return true;
  }

  Expr* Problem(uint32_t offset, std::string message) {
    if (problem_.empty()) {
      problem_ = std::move(message);
      problem_offset_ = offset;
    }
    return nullptr;
  }
  Expr* Unexpected(std::string_view wanted) {
    const std::string found = Now().kind == TokenKind::kEnd
                                  ? "the end"
                                  : "\"" + std::string(Now().text.substr(0, 40)) + "\"";
    return Problem(Now().offset, "found " + found + " where " + std::string(wanted) + " belongs");
  }
  Expr* TooDeep() { return Problem(Now().offset, "nested, or chained, more than 250 times"); }
  // Notes how deep the tree is below `expr`, which was made from these parts; `counted`: it is
  // itself one of the nodes that cel-go counts.
  Expr* Deepened(Expr* expr, bool counted, const Expr* target, const std::vector<Expr*>& parts) {
    int depth = target == nullptr ? 0 : target->depth;
    for (const Expr* part : parts) {
      depth = std::max(depth, part->depth);
    }
    expr->depth = depth + (counted ? 1 : 0);
    if (ast_.TooLarge()) {
      return Problem(Now().offset, "macros make the expression too large");
    }
    return expr->depth > kMaxDepth ? TooDeep() : expr;
  }

  Expr* Expression() {
    const Nesting nesting(nesting_);
    if (nesting.Exceeded()) {
      return TooDeep();
    }
    Expr* condition = Or();
    if (condition == nullptr || !Is("?")) {
      return condition;
    }
    const uint32_t offset = Now().offset;
    ++at_;
    Expr* yes = Or();
    if (yes == nullptr) {
      return nullptr;
    }
    if (!Accept(":")) {
      return Unexpected("\":\"");
    }
    Expr* no = Expression();
    if (no == nullptr) {
      return nullptr;
    }
    Expr* choice = ast_.Call("_?_:_", {condition, yes, no}, offset);
    return Deepened(choice, /*counted=*/true, nullptr, choice->args);
  }

  // Chains become balanced trees: a long one must not be a deep one.
  Expr* Balanced(std::string_view function, const std::vector<Expr*>& terms,
                 const std::vector<uint32_t>& offsets, size_t low, size_t high) {
    if (low == high) {
      return terms[low];
    }
    const size_t middle = (low + high) / 2;
    Expr* left = Balanced(function, terms, offsets, low, middle);
    Expr* right = Balanced(function, terms, offsets, middle + 1, high);
    Expr* out = ast_.Call(function, {left, right}, offsets[middle]);
    out->depth = std::max(left->depth, right->depth);
    return out;
  }

  template <typename Next>
  Expr* Logic(std::string_view symbol, std::string_view function, Next next) {
    std::vector<Expr*> terms;
    std::vector<uint32_t> offsets;
    do {
      Expr* term = next();
      if (term == nullptr) {
        return nullptr;
      }
      terms.push_back(term);
      offsets.push_back(Now().offset);
    } while (Accept(symbol));
    return Balanced(function, terms, offsets, 0, terms.size() - 1);
  }

  Expr* Or() {
    return Logic("||", "_||_", [this] { return And(); });
  }
  Expr* And() {
    return Logic("&&", "_&&_", [this] { return Relation(0); });
  }

  [[nodiscard]] int RelationPrecedence() const {
    static constexpr std::array<std::string_view, 7> kSymbols = {"<",  "<=", ">=", ">",
                                                                 "==", "!=", "in"};
    return Now().kind == TokenKind::kSymbol &&
                   std::find(kSymbols.begin(), kSymbols.end(), Now().text) != kSymbols.end()
               ? 1
               : 0;
  }
  [[nodiscard]] int CalculationPrecedence() const {
    if (Is("*") || Is("/") || Is("%")) {
      return 2;
    }
    return Is("+") || Is("-") ? 1 : 0;
  }

  Expr* Relation(int minimum) {
    Expr* left = Calculation(1);
    while (left != nullptr && RelationPrecedence() > minimum) {
      left = Binary(left, [this] { return Relation(1); });
    }
    return left;
  }

  Expr* Calculation(int minimum) {
    Expr* left = Unary();
    while (left != nullptr && CalculationPrecedence() >= minimum) {
      const int precedence = CalculationPrecedence();
      left = Binary(left, [&] { return Calculation(precedence + 1); });
    }
    return left;
  }

  template <typename Right>
  Expr* Binary(Expr* left, Right parse_right) {
    const Token& symbol = Now();
    ++at_;
    Expr* right = parse_right();
    if (right == nullptr) {
      return nullptr;
    }
    Expr* out = ast_.Call(OperatorName(symbol.text), {left, right}, symbol.offset);
    return Deepened(out, /*counted=*/true, nullptr, out->args);
  }

  [[nodiscard]] bool NumberIsNext(size_t ahead) const {
    const TokenKind kind = Ahead(ahead).kind;
    return kind == TokenKind::kInt || kind == TokenKind::kDouble;
  }

  Expr* Unary() {
    const uint32_t offset = Now().offset;
    const std::string_view symbol = Is("!") ? "!" : "-";
    // A minus before a number is part of the number.
    if (!Is(symbol) || (Is("-") && NumberIsNext(1))) {
      return Member();
    }
    size_t count = 0;
    while (Accept(symbol)) {
      ++count;
    }
    Expr* operand = Member();
    if (operand == nullptr || count % 2 == 0) {
      return operand;
    }
    Expr* out = ast_.Call(symbol == "!" ? "!_" : "-_", {operand}, offset);
    return Deepened(out, /*counted=*/false, nullptr, out->args);
  }

  Expr* Member() {
    Expr* expr = Primary();
    while (expr != nullptr && (Is(".") || Is("["))) {
      const uint32_t offset = Now().offset;
      const bool index = Is("[");
      ++at_;
      const bool optional = Accept("?");
      expr = index ? Index(expr, optional, offset) : Field(expr, optional, offset);
    }
    return expr;
  }

  Expr* Index(Expr* target, bool optional, uint32_t offset) {
    Expr* index = Expression();
    if (index == nullptr) {
      return nullptr;
    }
    if (!Accept("]")) {
      return Unexpected("\"]\"");
    }
    Expr* out = ast_.Call(optional ? "_[?_]" : "_[_]", {target, index}, offset);
    return Deepened(out, /*counted=*/true, nullptr, out->args);
  }

  Expr* Field(Expr* target, bool optional, uint32_t offset) {
    const Token& name = Now();
    if (name.kind != TokenKind::kIdentifier) {
      return Unexpected("a field or function name");
    }
    ++at_;
    if (!optional && Is("(")) {
      return Call(name.text, target, Now().offset);
    }
    if (optional) {
      Expr* field = ast_.Literal(ast_.constants().Text(name.text), name.offset);
      Expr* out = ast_.Call("_?._", {target, field}, offset);
      return Deepened(out, /*counted=*/true, nullptr, out->args);
    }
    Expr* select = ast_.New(Expr::Form::kSelect, offset);
    select->name = name.text;
    select->target = target;
    return Deepened(select, /*counted=*/true, target, {});
  }

  // After the name of the function, at "(".
  Expr* Call(std::string_view function, Expr* target, uint32_t offset) {
    ++at_;
    std::vector<Expr*> args;
    if (!Is(")")) {
      do {
        Expr* arg = Expression();
        if (arg == nullptr) {
          return nullptr;
        }
        args.push_back(arg);
      } while (Accept(","));
    }
    if (!Accept(")")) {
      return Unexpected("\",\" or \")\"");
    }
    const MacroResult macro = ExpandMacro(ast_, function, target, args, offset);
    if (macro.is_macro && macro.expr == nullptr) {
      return Problem(macro.error_offset, macro.error);
    }
    if (macro.is_macro) {
      return Deepened(macro.expr, target != nullptr, target, args);
    }
    Expr* call = target == nullptr ? ast_.Call(function, args, offset)
                                   : ast_.MemberCall(function, target, args, offset);
    return Deepened(call, target != nullptr, target, args);
  }

  Expr* Primary() {
    const Token& token = Now();
    if (Is("(")) {
      ++at_;
      Expr* inner = Expression();
      if (inner != nullptr && !Accept(")")) {
        return Unexpected("\")\"");
      }
      return inner;
    }
    if (Is("[")) {
      return List();
    }
    if (Is("{")) {
      return Map();
    }
    const bool dot = Is(".");
    if (token.kind == TokenKind::kIdentifier || (dot && Ahead(1).kind == TokenKind::kIdentifier)) {
      at_ += dot ? 1 : 0;
      return Name(dot);
    }
    return Literal();
  }

  Expr* Name(bool dot) {
    const Token& name = Now();
    size_t ahead = 1;
    while (Ahead(ahead).text == "." && Ahead(ahead + 1).kind == TokenKind::kIdentifier) {
      ahead += 2;
    }
    if (Ahead(ahead).kind == TokenKind::kSymbol && Ahead(ahead).text == "{") {
      return Problem(name.offset, "messages can't be made here: no message type is of use");
    }
    if (IsReserved(name.text)) {
      return Problem(name.offset, "\"" + std::string(name.text) + "\" is a reserved word");
    }
    ++at_;
    // A leading dot means the outermost scope, which is the only one that names are looked up in.
    const std::string text = (dot ? "." : "") + std::string(name.text);
    return Is("(") ? Call(text, nullptr, Now().offset) : ast_.Ident(text, name.offset);
  }

  Expr* List() {
    Expr* list = ast_.New(Expr::Form::kList, Now().offset);
    ++at_;
    while (!Is("]") && !Is(",")) {
      list->optional.push_back(Accept("?"));
      Expr* item = Expression();
      if (item == nullptr) {
        return nullptr;
      }
      list->args.push_back(item);
      if (!Is(",") || (Ahead(1).kind == TokenKind::kSymbol && Ahead(1).text == "]")) {
        break;
      }
      ++at_;
      if (Is(",")) {
        return Unexpected("a list element");
      }
    }
    Accept(",");
    return Accept("]") ? Deepened(list, /*counted=*/false, nullptr, list->args)
                       : Unexpected("\",\" or \"]\"");
  }

  Expr* Map() {
    Expr* map = ast_.New(Expr::Form::kMap, Now().offset);
    ++at_;
    while (!Is("}") && !Is(",")) {
      map->optional.push_back(Accept("?"));
      Expr* key = Expression();
      if (key == nullptr) {
        return nullptr;
      }
      if (!Accept(":")) {
        return Unexpected("\":\"");
      }
      Expr* value = Expression();
      if (value == nullptr) {
        return nullptr;
      }
      map->args.push_back(key);
      map->args.push_back(value);
      if (!Is(",") || (Ahead(1).kind == TokenKind::kSymbol && Ahead(1).text == "}")) {
        break;
      }
      ++at_;
      if (Is(",")) {
        return Unexpected("a map entry");
      }
    }
    Accept(",");
    return Accept("}") ? Deepened(map, /*counted=*/false, nullptr, map->args)
                       : Unexpected("\",\" or \"}\"");
  }

  Expr* Literal() {
    const uint32_t offset = Now().offset;
    const bool negative = Is("-");
    at_ += negative ? 1 : 0;
    const Token& token = Now();
    Value value;
    switch (token.kind) {
      case TokenKind::kInt:
        if (!ReadInt(token.text, negative, value)) {
          return Problem(offset, "an int beyond 64 bits");
        }
        break;
      case TokenKind::kUint:
        if (!ReadUint(token.text.substr(0, token.text.size() - 1), value)) {
          return Problem(offset, "a uint beyond 64 bits");
        }
        break;
      case TokenKind::kDouble: {
        double number = 0;
        if (!ParseDouble(std::string(negative ? "-" : "") + std::string(token.text), number)) {
          return Problem(offset, "a double out of range");
        }
        value = Double(number);
        break;
      }
      case TokenKind::kString:
        value = ast_.constants().Text(token.value);
        break;
      case TokenKind::kBytes:
        value = ast_.constants().Bytes(token.value);
        break;
      case TokenKind::kTrue:
      case TokenKind::kFalse:
        value = Bool(token.kind == TokenKind::kTrue);
        break;
      case TokenKind::kNull:
        break;
      default:
        return Unexpected("a value");
    }
    ++at_;
    return ast_.Literal(value, offset);
  }

  static bool ReadUint(std::string_view text, Value& out) {
    const bool hex = text.starts_with("0x");
    text.remove_prefix(hex ? 2 : 0);
    uint64_t number = 0;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), number, hex ? 16 : 10);
    out = Uint(number);
    return error == std::errc() && end == text.data() + text.size();
  }

  static bool ReadInt(std::string_view text, bool negative, Value& out) {
    Value magnitude;
    if (!ReadUint(text, magnitude)) {
      return false;
    }
    const uint64_t limit = static_cast<uint64_t>(INT64_MAX) + (negative ? 1 : 0);
    if (magnitude.unsigned_integer > limit) {
      return false;
    }
    out = Int(static_cast<int64_t>(negative ? 0 - magnitude.unsigned_integer
                                            : magnitude.unsigned_integer));
    return true;
  }

  std::string_view source_;
  std::vector<Token> tokens_;
  Ast& ast_;
  size_t at_ = 0;
  int nesting_ = 0;
  std::string problem_;
  uint32_t problem_offset_ = 0;
};

}  // namespace

Status Parse(std::string_view source, Ast& ast) {
  TRY_ASSIGN(std::vector<Token> tokens, Tokenize(source));
  return Parser(source, std::move(tokens), ast).Run();
}

}  // namespace tutti::api::cel
