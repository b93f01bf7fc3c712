// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

namespace tutti::log {
namespace {
Sink& TheSink() {
  static Sink sink;
  return sink;
}
}  // namespace

void SetSink(Sink sink) {
  TheSink() = std::move(sink);
}

void Write(Level level, std::string_view event, std::initializer_list<Field> fields) {
  if (TheSink()) {
    TheSink()(level, event, fields.begin(), fields.size());
  }
}

}  // namespace tutti::log
