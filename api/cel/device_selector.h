// SPDX-License-Identifier: Apache-2.0
// CEL selectors of DRA device requests and device classes, as the scheduler of Kubernetes 1.36
// evaluates them (k8s.io/dynamic-resource-allocation/cel): the environment of the API server plus
// the variable `device`. What is supported and where results may differ: docs/devices.md, section
// CEL.
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

struct Version {  // semantic version 2.0.0, as the API has it ("1.2.3-rc.1")
  std::string text;
  friend bool operator==(const Version&, const Version&) = default;
};

using AttributeValue =
    std::variant<int64_t, bool, std::string, Version, std::vector<int64_t>, std::vector<bool>,
                 std::vector<std::string>, std::vector<Version>>;

// What `device` means in an expression.
struct SelectorDevice {
  std::string driver;
  // Domain -> id -> value. Names without a domain are filed under the driver's name by the caller.
  std::map<std::string, std::map<std::string, AttributeValue>> attributes;
  std::map<std::string, std::map<std::string, Quantity>> capacity;
  bool allow_multiple_allocations = false;
};

// Feature gates of the API server that change the language.
struct Features {
  // DRAListTypeAttributes (alpha in 1.36): attributes may be lists, `includes()` exists. When off,
  // a device with a list fails to evaluate, as in the scheduler.
  bool list_type_attributes = false;
};

class Program;

// Immutable and safe to use from several threads at once.
class DeviceSelector {
 public:
  // Parses and type-checks. Error: kInvalid, what Kubernetes would refuse when the object is
  // created, or an expression beyond the limits of docs/devices.md; the message names line and
  // column. The estimate of the worst-case cost, which the API server makes too, is not made.
  static Result<std::shared_ptr<const DeviceSelector>> Compile(std::string_view expression,
                                                               Features features = {});

  // Whether the device is selected. Error (kInvalid): the run-time error with which the evaluation
  // ends in Kubernetes, too: a missing attribute, a wrong type, more than 1,000,000 units of cost.
  [[nodiscard]] Result<bool> Matches(const SelectorDevice& device) const;

  [[nodiscard]] const std::string& expression() const { return expression_; }

  // Units of cost that the last part of a run added up to, for tests of the cost model.
  [[nodiscard]] uint64_t CostForTest(const SelectorDevice& device) const;

  DeviceSelector(const DeviceSelector&) = delete;
  DeviceSelector& operator=(const DeviceSelector&) = delete;
  ~DeviceSelector();

 private:
  DeviceSelector(std::string expression, Features features, std::unique_ptr<const Program> program);

  std::string expression_;
  Features features_;
  std::unique_ptr<const Program> program_;
};

}  // namespace tutti::api::cel
