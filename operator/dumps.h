// SPDX-License-Identifier: Apache-2.0
// Files that hold a cluster's objects, as `kubectl get -o json` writes them, of any size.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "operator/object_sink.h"

namespace tutti {

// Files, folders of *.json, *.yaml and *.yml, "-" for standard input. What is broken in them is
// noted and left out; kInvalid when a file can't be opened, or nothing at all could be read.
Status ReadDumps(const std::vector<std::string>& inputs, const ObjectSink& sink);

// The commands that make such files without secrets.
[[nodiscard]] std::string_view HowToDump();

}  // namespace tutti
