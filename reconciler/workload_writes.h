// SPDX-License-Identifier: Apache-2.0
// Writes to a Workload outside of its status, and what its state says at a glance. Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "api/kueue.h"
#include "api/request.h"
#include "base/json.h"

namespace tutti::reconciler {

// A merge patch of the main resource, guarded by resourceVersion.
[[nodiscard]] api::WriteRequest WorkloadPatch(const api::Workload& workload, Json body);
// A merge patch of the status, guarded by resourceVersion: takes off what another manager wrote,
// which an apply can't. Lists (conditions, checks) are replaced whole.
[[nodiscard]] api::WriteRequest StatusPatch(const api::Workload& workload, Json status);
// Without resourceVersion: the status write before it in the same batch moves it.
[[nodiscard]] api::WriteRequest DropFinalizer(const api::Workload& workload);
// spec.active: false. Without resourceVersion, as above; guarded by the UID.
[[nodiscard]] api::WriteRequest DeactivatePatch(const api::Workload& workload);
// Guarded by the UID.
[[nodiscard]] api::WriteRequest DeleteWorkload(const api::Workload& workload);

// status.reclaimablePods by pod set, by the manager that owns it in Kueue.
[[nodiscard]] api::WriteRequest ApplyReclaimable(const api::Workload& workload,
                                                 const std::map<std::string, int32_t>& counts);

// The condition WaitingForReplacementPods of these conditions, by the manager that owns it in
// Kueue.
[[nodiscard]] api::WriteRequest ApplyReplacements(const api::Workload& workload,
                                                  const api::Conditions& conditions);

// Taken back to start again at once, with its place in the queue.
[[nodiscard]] bool StartsAgain(const api::Workload& workload);
// The condition exists and is False.
[[nodiscard]] bool IsFalse(const api::Conditions& conditions, std::string_view type);

}  // namespace tutti::reconciler
