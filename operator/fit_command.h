// SPDX-License-Identifier: Apache-2.0
// `tutti fit`: reads the files, asks cli/fit.h, prints.
#pragma once

#include <string>
#include <vector>

namespace tutti {

struct FitFlags {
  std::vector<std::string> files;  // "-": standard input
  std::string output = "text";     // or json
  bool batch = false;              // one question a line on standard input, one answer a line
};

// The exit code: 0 all fit, 1 some don't, 2 bad input (said on standard error; a batch answers it
// in its line and goes on).
int RunFit(const FitFlags& flags);

}  // namespace tutti
