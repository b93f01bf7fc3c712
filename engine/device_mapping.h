// SPDX-License-Identifier: Apache-2.0
// resources.deviceClassMappings of the configuration (KEP-2941): which DeviceClasses count as which
// quota resource, and of what. Plain values; operator/config_devices checks them.
#pragma once

#include <string>
#include <vector>

namespace tutti::engine {

struct DeviceQuotaSource {
  enum class Kind { kCounter, kCapacity };
  Kind kind = Kind::kCounter;
  std::string name;      // of the counter, or of the capacity as devices write it
  std::string driver;    // whose devices are looked at
  std::string selector;  // CEL: which of them; "" = all
  bool operator==(const DeviceQuotaSource&) const = default;
};

struct DeviceClassMapping {
  std::string resource;              // as in coveredResources
  std::vector<std::string> classes;  // names of DeviceClasses
  std::vector<DeviceQuotaSource> sources;
  bool operator==(const DeviceClassMapping&) const = default;
};

}  // namespace tutti::engine
