// SPDX-License-Identifier: Apache-2.0
// Consumable capacity (KEP-5075): what one request takes of a device's capacities, rounded up as
// the device's policies say, and whether that much is left. Rules: kube-scheduler 1.36,
// structured/internal/incubating/consumable_capacity.go.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "api/dra.h"
#include "engine/device_book.h"

namespace tutti::engine {

// Of every capacity of the device: the rounded amount where it is asked for, else the policy's
// default or all of it. Nothing if a capacity is asked for that the device lacks or an amount that
// the policy forbids.
[[nodiscard]] std::optional<Capacities> ConsumedBy(const Capacities& requested,
                                                   const api::Device& device);

// `consumed` together with what is already taken (either may be null) stays within the device.
[[nodiscard]] bool CapacityLeft(const api::Device& device, const Capacities& consumed,
                                const Capacities* taken, const Capacities* also_taken);

}  // namespace tutti::engine
