// SPDX-License-Identifier: Apache-2.0
// The executable form of a checked expression, and its evaluation. The structure follows cel-go's
// planner where that shows: chains of selections are one "attribute", optional values are unwrapped
// when an attribute starts with one, and the cost of a run counts the same steps.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/cel/ast.h"
#include "api/cel/functions.h"
#include "api/cel/regex.h"
#include "api/cel/value.h"
#include "base/result.h"

namespace tutti::api::cel {

inline constexpr uint64_t kCostLimit = 1'000'000;

struct Node;

struct Qualifier {
  bool optional = false;   // .?x, [?x]
  bool test_only = false;  // the last one of has()
  Value key;               // when `node` is null
  std::string text;        // the key if it is a string: maps of the device are asked with it
  const Node* node = nullptr;
  bool resolve = false;  // `node` is an attribute: its own step costs nothing
};

struct Attribute {
  enum class Root : uint8_t { kVariable, kValue, kConditional };
  Root root = Root::kVariable;
  int slot = -1;                   // kVariable; -1: the device
  const Node* operand = nullptr;   // kValue; kConditional: the condition
  std::unique_ptr<Attribute> yes;  // kConditional
  std::unique_ptr<Attribute> no;
  std::vector<Qualifier> qualifiers;  // not of kConditional
};

struct Node {
  enum class Form : uint8_t {
    kConstant,
    kFolded,  // a call whose arguments are constants: a value, and the cost of the call
    kAttribute,
    kTest,  // has()
    kCall,
    kEquals,
    kNotEquals,
    kAnd,
    kOr,
    kList,
    kMap,
    kLoop,
    kInConstants,
    kOptionalOr,
    kOptionalOrValue,
  };
  Form form = Form::kConstant;
  Value value;
  uint64_t cost = 0;  // kFolded
  CostRule rule = CostRule::kOne;
  std::unique_ptr<Attribute> attribute;
  const Function* function = nullptr;
  const Overload* overload = nullptr;
  bool guarded = false;         // asks the overload whether it takes the arguments
  bool stops_at_error = false;  // an argument that fails: the later ones aren't looked at
  std::unique_ptr<const Regex> regex;
  std::vector<const Node*> args;  // kMap: key, value, key, value …
  std::vector<bool> optional;

  // kLoop
  int accumulator = 0;  // slots
  int variable = -1;
  int variable2 = -1;
  const Node* range = nullptr;
  const Node* init = nullptr;
  const Node* condition = nullptr;
  const Node* step = nullptr;
  const Node* result = nullptr;
};

class Program {
 public:
  // Error: kInvalid, where cel-go refuses to make a program.
  static Result<std::unique_ptr<const Program>> Plan(std::string_view source, const Ast& ast,
                                                     std::unique_ptr<Context> constants);

  // The value, or the error with which the evaluation ends. `context.cost` is the cost.
  [[nodiscard]] Value Run(Context& context, const SelectorDevice& device) const;

 private:
  friend class Planner;
  Program() = default;

  std::unique_ptr<Context> constants_;
  std::vector<std::unique_ptr<Node>> nodes_;
  const Node* root_ = nullptr;
  int slots_ = 0;
};

}  // namespace tutti::api::cel
