// SPDX-License-Identifier: Apache-2.0
// Stands in for api/cel/ until that is merged: conjunctions of comparisons, as the tests of the
// devices use them.
#include <charconv>

#include "api/cel/device_selector.h"

namespace tutti::api::cel {
namespace {

Result<bool> Compare(std::string_view part, const SelectorDevice& device) {
  while (!part.empty() && part.front() == ' ')
    part.remove_prefix(1);
  while (!part.empty() && part.back() == ' ')
    part.remove_suffix(1);
  if (part == "true" || part == "false")
    return part == "true";
  const size_t at = part.find(" == ");
  const std::string left(part.substr(0, at));
  const std::string right(part.substr(at + 4));
  const std::string text = right.size() > 1 ? right.substr(1, right.size() - 2) : "";
  if (left == "device.driver")
    return device.driver == text;
  const size_t open = left.find("[\"");
  const size_t close = left.find("\"].");
  const auto domain = device.attributes.find(left.substr(open + 2, close - open - 2));
  if (domain == device.attributes.end())
    return Fail(ErrorCode::kInvalid, "no such key: " + left.substr(close + 3));
  const auto id = domain->second.find(left.substr(close + 3));
  if (id == domain->second.end())
    return Fail(ErrorCode::kInvalid, "no such key: " + left.substr(close + 3));
  const auto* value = std::get_if<std::string>(&id->second);
  return value != nullptr && *value == text;
}

}  // namespace

Result<std::shared_ptr<const DeviceSelector>> DeviceSelector::Compile(std::string_view expression) {
  if (expression.find("device") == std::string_view::npos && expression != "true" &&
      expression != "false") {
    return Fail(ErrorCode::kInvalid, "undeclared reference");
  }
  auto selector = std::shared_ptr<DeviceSelector>(new DeviceSelector());
  selector->expression_ = expression;
  return std::shared_ptr<const DeviceSelector>(selector);
}

Result<bool> DeviceSelector::Matches(const SelectorDevice& device) const {
  std::string_view rest = expression_;
  while (true) {
    const size_t at = rest.find("&&");
    const Result<bool> part = Compare(rest.substr(0, at), device);
    if (!part || !*part || at == std::string_view::npos)
      return part;
    rest = rest.substr(at + 2);
  }
}

}  // namespace tutti::api::cel
