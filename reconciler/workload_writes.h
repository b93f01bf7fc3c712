// SPDX-License-Identifier: Apache-2.0
// Writes to a Workload outside of its status, and what its state says at a glance. Pure functions.
#pragma once

#include <string_view>

#include "api/batch.h"
#include "api/kueue.h"
#include "api/request.h"
#include "base/json.h"

namespace tutti::reconciler {

// A merge patch of the main resource, guarded by resourceVersion.
[[nodiscard]] api::WriteRequest WorkloadPatch(const api::Workload& workload, Json body);
// Without resourceVersion: the status write before it in the same batch moves it.
[[nodiscard]] api::WriteRequest DropFinalizer(const api::Workload& workload);
// Guarded by the UID.
[[nodiscard]] api::WriteRequest DeleteWorkload(const api::Workload& workload);

// A start left its labels in the template (the Workload was lost, or its reservation withdrawn).
[[nodiscard]] bool HasLeftovers(const api::Job& job);
// Taken back to start again at once, with its place in the queue.
[[nodiscard]] bool StartsAgain(const api::Workload& workload);
// The condition exists and is False.
[[nodiscard]] bool IsFalse(const api::Conditions& conditions, std::string_view type);

}  // namespace tutti::reconciler
