// SPDX-License-Identifier: Apache-2.0
// Any text compiles or is refused, and what compiles ends with a verdict or an error; the same
// twice.
#include "api/cel/device_selector.h"
#include "fuzz/fuzz.h"

using tutti::api::cel::DeviceSelector;
using tutti::api::cel::Features;
using tutti::api::cel::SelectorDevice;
using tutti::api::cel::Version;

namespace {

SelectorDevice TestDevice() {
  SelectorDevice device;
  device.driver = "d";
  device.attributes["d"]["s"] = std::string("text");
  device.attributes["d"]["n"] = int64_t{7};
  device.attributes["d"]["b"] = true;
  device.attributes["d"]["v"] = Version{"1.2.3-rc.1"};
  device.attributes["d"]["l"] = std::vector<std::string>{"a", "b"};
  device.capacity["d"]["m"] = *tutti::api::Quantity::Parse("1Gi");
  return device;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 1024) {
    return 0;
  }
  static const SelectorDevice device = TestDevice();
  const auto selector = DeviceSelector::Compile(AsText(data, size), Features{true});
  if (!selector) {
    REQUIRE(selector.error().code == tutti::ErrorCode::kInvalid);
    REQUIRE(!selector.error().message.empty());
    return 0;
  }
  const tutti::Result<bool> first = (*selector)->Matches(device);
  const tutti::Result<bool> second = (*selector)->Matches(device);
  REQUIRE(first.has_value() == second.has_value());
  if (first) {
    REQUIRE(*first == *second);
  } else {
    REQUIRE(first.error().code == tutti::ErrorCode::kInvalid);
    REQUIRE(first.error().message == second.error().message);
  }
  return 0;
}
