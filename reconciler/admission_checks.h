// SPDX-License-Identifier: Apache-2.0
// Two-phase admission: which AdmissionChecks a workload needs, and what their states ask for. Pure
// functions; rules of Kueue v0.19.2 (docs/admission-checks.md).
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/kueue.h"
#include "api/meta.h"
#include "api/request.h"
#include "base/result.h"
#include "base/time.h"
#include "reconciler/world.h"

namespace tutti::reconciler {

// Before a reservation: the checks that apply whatever the flavors; with one: those of the assigned
// flavors. A check without onFlavors applies to all flavors of its ClusterQueue.
[[nodiscard]] std::set<std::string> RequiredChecks(const api::ClusterQueue& queue,
                                                   const std::optional<api::Admission>& admission);

[[nodiscard]] bool UsesCheck(const api::ClusterQueue& queue, std::string_view check);

// Adds what is missing as Pending, drops what is not required, sorts by name. Whether the set
// changed.
bool SyncChecks(std::vector<api::AdmissionCheckState>& checks,
                const std::set<std::string>& required, Time now);

// The list as a merge patch of the status, guarded by resourceVersion: entries that a check's
// controller has written can be removed in no other way.
[[nodiscard]] api::WriteRequest ChecksPatch(const api::Workload& workload,
                                            const std::vector<api::AdmissionCheckState>& checks);

[[nodiscard]] bool AnyCheckIs(const api::WorkloadStatus& status, std::string_view state);
// `AdmissionChecks in Retry state: "a" (why); "b"`.
[[nodiscard]] std::string DescribeChecks(const api::WorkloadStatus& status, std::string_view state);
// Until when the checks that ask for another try want the workload to wait: the latest of their
// requeueAfterSeconds; nullopt = not at all.
[[nodiscard]] std::optional<Time> RetryAt(const api::WorkloadStatus& status, Time now);

// What ready checks want added to the pods of a pod set.
// kInvalid, with the field and the check, when two checks want different values for one key.
Result<CheckUpdates> UpdatesFor(const api::WorkloadStatus& status, std::string_view pod_set);

// Why a ClusterQueue can't admit because of its checks: reason and message of Kueue; "" = it can.
[[nodiscard]] std::pair<std::string, std::string> ChecksProblem(
    const api::ClusterQueue& queue, const Store<api::AdmissionCheck>& checks);

}  // namespace tutti::reconciler
