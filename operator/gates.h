// SPDX-License-Identifier: Apache-2.0
// Feature gates by Kueue's names and defaults (v0.19.2). A gate that asks for something this
// version doesn't do is refused; a value that says what is done anyway is accepted. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tutti {

struct GateInfo {
  std::string_view name;
  bool fallback;   // the default
  bool locked;     // may only be set to its default
  bool can_be_on;  // built here
  bool can_be_off;
};

// Every known gate, sorted by name.
[[nodiscard]] const std::vector<GateInfo>& KnownGates();

class FeatureGates {
 public:
  // Checks every entry and then the dependencies between gates. kInvalid: one problem per line.
  static Result<FeatureGates> From(const std::map<std::string, bool>& settings);
  // "A=true,B=false"
  static Result<std::map<std::string, bool>> ParseFlag(std::string_view text);

  // What holds: the setting, else Kueue's default. REQUIRES: a known name. A default-on gate of a
  // feature that isn't built reads as on; ask only for gates that something here depends on.
  [[nodiscard]] bool Enabled(std::string_view name) const;

 private:
  std::map<std::string, bool, std::less<>> settings_;
};

}  // namespace tutti
