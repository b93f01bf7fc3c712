// SPDX-License-Identifier: Apache-2.0
// resources.deviceClassMappings of Kueue's Configuration, with its rules (v0.19.2). Pure.
#pragma once

#include <vector>

#include "engine/device_mapping.h"
#include "operator/config_reader.h"
#include "operator/gates.h"

namespace tutti {

// `resources` is the section of that name; what is wrong is reported to it.
[[nodiscard]] std::vector<engine::DeviceClassMapping> ReadDeviceClassMappings(
    Section* resources, const FeatureGates& gates);

}  // namespace tutti
