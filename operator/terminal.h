// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace tutti {

// Columns for text on standard output: `wanted`, or (0) those of the terminal up to 120, or 80.
[[nodiscard]] size_t TerminalWidth(int wanted);

}  // namespace tutti
