// SPDX-License-Identifier: Apache-2.0
// Where a command that reads a cluster or files of one puts what it finds.
#pragma once

#include <functional>
#include <string>

#include "base/json.h"

namespace tutti {

struct ObjectSink {
  std::function<void(const Json& object, const std::string& where)> take;
  std::function<void(std::string text)> note;  // what could not be read
};

}  // namespace tutti
