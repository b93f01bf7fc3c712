// SPDX-License-Identifier: Apache-2.0
// "Did you mean …?" for names in error messages. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tutti {

// "; did you mean 'x'?" for the known name closest to `name` (at most about a third of its letters
// differ; case does not count), else "".
[[nodiscard]] std::string DidYouMean(std::string_view name,
                                     const std::vector<std::string_view>& known);

}  // namespace tutti
