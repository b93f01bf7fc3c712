// SPDX-License-Identifier: Apache-2.0
// Writes to a Workload outside of its status, and what its state says at a glance. Pure functions.
#pragma once

#include <cstdint>
#include <string_view>

#include "api/batch.h"
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

// With its pods (propagation Background); guarded by the UID.
[[nodiscard]] api::WriteRequest DeleteJob(const api::Job& job);
// status.reclaimablePods of the only pod set, by the manager that owns it in Kueue; 0 = none.
[[nodiscard]] api::WriteRequest ApplyReclaimable(const api::Workload& workload, int32_t count);

// A start left its labels in the template (the Workload was lost, or its reservation withdrawn).
[[nodiscard]] bool HasLeftovers(const api::Job& job);
// Taken back to start again at once, with its place in the queue.
[[nodiscard]] bool StartsAgain(const api::Workload& workload);
// The condition exists and is False.
[[nodiscard]] bool IsFalse(const api::Conditions& conditions, std::string_view type);

}  // namespace tutti::reconciler
