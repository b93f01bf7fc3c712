// SPDX-License-Identifier: Apache-2.0
// The native PodGroup API behind one adapter: v1alpha2 of Kubernetes 1.36, v1beta1 of 1.37, or
// none. Everything that differs between the versions is in gang.cc. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "api/batch.h"
#include "api/core.h"
#include "api/request.h"
#include "reconciler/options.h"

namespace tutti::reconciler {

[[nodiscard]] api::Resource PodGroupResource(GangApi version);  // REQUIRES: version != kNone

// A fresh gang PodGroup, owned by the job (not as its controller: that would freeze parallelism).
[[nodiscard]] api::WriteRequest CreateGroup(GangApi version, const api::Job& job,
                                            const std::string& name, int32_t min_count,
                                            const std::string& priority_class);
[[nodiscard]] api::WriteRequest DeleteGroup(GangApi version, const api::PodGroup& group);
// The group's finalizer cleared: for a group whose controller does not do it.
[[nodiscard]] api::WriteRequest StripGroup(GangApi version, const api::ObjectKey& key);
// Delete, strip and create again as `basic` under the same name: lets a replacement pod pass that
// waits for a quorum which can't be met any more. Running pods are not touched. Only for groups
// without claims of their own.
[[nodiscard]] std::vector<api::WriteRequest> OpenGroup(GangApi version, const api::Job& job,
                                                       const api::PodGroup& group,
                                                       const std::string& priority_class);
// A group found under the name that we wanted to create: ours from before a crash?
[[nodiscard]] bool CanAdopt(const api::PodGroup& group, const api::Job& job, int32_t min_count);

}  // namespace tutti::reconciler
