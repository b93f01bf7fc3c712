// SPDX-License-Identifier: Apache-2.0
#include "api/cel/device_selector.h"

#include <utility>

#include "api/cel/ast.h"
#include "api/cel/checker.h"
#include "api/cel/lexer.h"
#include "api/cel/parser.h"
#include "api/cel/program.h"
#include "api/cel/semver.h"

namespace tutti::api::cel {
namespace {

constexpr size_t kMaxExpressionBytes = 10 * 1024;  // CELSelectorExpressionMaxLength of the API

bool IsList(const AttributeValue& value) {
  return std::holds_alternative<std::vector<int64_t>>(value) ||
         std::holds_alternative<std::vector<bool>>(value) ||
         std::holds_alternative<std::vector<std::string>>(value) ||
         std::holds_alternative<std::vector<Version>>(value);
}

// What the scheduler finds before it evaluates: attributes that it can't give to CEL. Such a device
// fails whatever the expression looks at.
Status CheckDevice(const SelectorDevice& device, const Features& features) {
  SemverObject ignored;
  for (const auto& [domain, attributes] : device.attributes) {
    for (const auto& [id, value] : attributes) {
      const auto* version = std::get_if<Version>(&value);
      bool good = version == nullptr || ParseSemver(version->text, ignored);
      if (const auto* list = std::get_if<std::vector<Version>>(&value); list != nullptr) {
        for (const Version& item : *list) {
          good = good && ParseSemver(item.text, ignored);
        }
      }
      if (!good) {
        return Fail(ErrorCode::kInvalid,
                    "attribute " + domain + "/" + id + " is not a semantic version");
      }
      if (!features.list_type_attributes && IsList(value)) {
        return Fail(ErrorCode::kInvalid, "attribute " + domain + "/" + id +
                                             " is a list, which needs DRAListTypeAttributes");
      }
    }
  }
  return {};
}

}  // namespace

DeviceSelector::DeviceSelector(std::string expression, Features features,
                               std::unique_ptr<const Program> program)
    : expression_(std::move(expression)), features_(features), program_(std::move(program)) {}

DeviceSelector::~DeviceSelector() = default;

Result<std::shared_ptr<const DeviceSelector>> DeviceSelector::Compile(std::string_view expression,
                                                                      Features features) {
  if (expression.size() > kMaxExpressionBytes) {
    return Fail(ErrorCode::kInvalid, "a CEL expression may have 10240 bytes, this one has " +
                                         std::to_string(expression.size()));
  }
  if (!IsUtf8(expression)) {
    return Fail(ErrorCode::kInvalid, "a CEL expression must be UTF-8");
  }
  auto constants = std::make_unique<Context>();
  Ast ast(*constants);
  TypePool types;
  TRY(Parse(expression, ast));
  TRY(Check(expression, features, ast, types));
  TRY_ASSIGN(std::unique_ptr<const Program> program,
             Program::Plan(expression, ast, std::move(constants)));
  return std::shared_ptr<const DeviceSelector>(
      new DeviceSelector(std::string(expression), features, std::move(program)));
}

Result<bool> DeviceSelector::Matches(const SelectorDevice& device) const {
  TRY(CheckDevice(device, features_));
  Context context;
  const Value value = program_->Run(context, device);
  if (value.IsError()) {
    return Fail(ErrorCode::kInvalid, Message(value));
  }
  if (value.kind != Kind::kBool) {
    return Fail(ErrorCode::kInvalid,
                "the expression gives a " + std::string(TypeName(value)) + " instead of a bool");
  }
  return value.boolean;
}

uint64_t DeviceSelector::CostForTest(const SelectorDevice& device) const {
  Context context;
  (void)program_->Run(context, device);
  return context.cost;
}

}  // namespace tutti::api::cel
