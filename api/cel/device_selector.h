// SPDX-License-Identifier: Apache-2.0
// CEL expressions that select devices: spec.selectors of DeviceClass, the selectors of device
// requests (KEP-4381). The environment is that of Kubernetes 1.36 (docs/devices.md).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/quantity.h"
#include "base/result.h"

namespace tutti::api::cel {

struct Version {
  std::string text;  // semver as the API has it
};

using AttributeValue =
    std::variant<int64_t, bool, std::string, Version, std::vector<int64_t>, std::vector<bool>,
                 std::vector<std::string>, std::vector<Version>>;

// What `device` means in an expression.
struct SelectorDevice {
  std::string driver;
  // domain -> id; names without a domain are filed under the driver.
  std::map<std::string, std::map<std::string, AttributeValue>> attributes;
  std::map<std::string, std::map<std::string, Quantity>> capacity;
  bool allow_multiple_allocations = false;
};

// A compiled expression. Immutable; may be used by several threads.
class DeviceSelector {
 public:
  // kInvalid with a message for a person where Kubernetes refuses to compile it.
  static Result<std::shared_ptr<const DeviceSelector>> Compile(std::string_view expression);

  // Whether the device matches, or the run-time error that the evaluation ends with.
  [[nodiscard]] Result<bool> Matches(const SelectorDevice& device) const;
  [[nodiscard]] const std::string& expression() const { return expression_; }

 private:
  DeviceSelector() = default;
  std::string expression_;
};

}  // namespace tutti::api::cel
