// SPDX-License-Identifier: Apache-2.0
// The syntax of names in the Kubernetes API (labels, annotations, object names). Each function
// gives "" or what is wrong, for "field: …" messages. Pure.
#pragma once

#include <string>
#include <string_view>

namespace tutti::syntax {

[[nodiscard]] std::string CheckSubdomain(std::string_view name);      // object names
[[nodiscard]] std::string CheckQualifiedName(std::string_view name);  // label and annotation keys
[[nodiscard]] std::string CheckLabelValue(std::string_view value);

}  // namespace tutti::syntax
