// SPDX-License-Identifier: Apache-2.0
#include "operator/terminal.h"

#include <algorithm>

#include <sys/ioctl.h>
#include <unistd.h>

namespace tutti {

namespace {
constexpr int kNarrow = 80;
constexpr int kWide = 120;
}  // namespace

size_t TerminalWidth(int wanted) {
  if (wanted > 0) {
    return static_cast<size_t>(wanted);
  }
  winsize size{};
  if (isatty(STDOUT_FILENO) != 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
      size.ws_col > 0) {
    return static_cast<size_t>(std::min<int>(size.ws_col, kWide));
  }
  return kNarrow;
}

}  // namespace tutti
