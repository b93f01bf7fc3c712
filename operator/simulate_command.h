// SPDX-License-Identifier: Apache-2.0
// `tutti simulate`: reads the files, asks sim/timeline.h, prints.
#pragma once

#include <string>
#include <vector>

namespace tutti {

struct SimulateFlags {
  std::vector<std::string> files;  // "-": standard input
  std::string until;               // a Go duration; "": until nothing more happens
  std::string output = "text";     // or json
  bool fair_sharing = false;
  bool batch = false;  // one case a line on standard input, one answer a line
};

// The exit code: 0, or 2 for bad input (said on standard error; a batch answers it in its line and
// goes on).
int RunSimulate(const SimulateFlags& flags);

}  // namespace tutti
