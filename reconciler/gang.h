// SPDX-License-Identifier: Apache-2.0
// The native PodGroup API behind one adapter: v1alpha2 of Kubernetes 1.36, v1beta1 of 1.37, or
// none. Everything that differs between the versions is in gang.cc. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "api/core.h"
#include "api/request.h"
#include "reconciler/job_kind.h"
#include "reconciler/options.h"

namespace tutti::reconciler {

[[nodiscard]] api::Resource PodGroupResource(GangApi version);  // REQUIRES: version != kNone

// A fresh gang PodGroup, owned by the job (not as its controller: that would freeze parallelism).
// `claims`: ResourceClaims that its pods share.
[[nodiscard]] api::WriteRequest CreateGroup(GangApi version, const QueuedJob& job,
                                            const std::string& name, int32_t min_count,
                                            const std::string& priority_class,
                                            const std::vector<api::PodClaim>& claims = {});
[[nodiscard]] api::WriteRequest DeleteGroup(GangApi version, const api::PodGroup& group);
// The group's finalizer cleared: for a group whose controller does not do it.
[[nodiscard]] api::WriteRequest StripGroup(GangApi version, const api::ObjectKey& key);
// Delete, strip and create again as `basic` under the same name: lets a replacement pod pass that
// waits for a quorum which can't be met any more. Running pods are not touched. Only for groups
// without claims of their own.
[[nodiscard]] std::vector<api::WriteRequest> OpenGroup(GangApi version, const QueuedJob& job,
                                                       const api::PodGroup& group,
                                                       const std::string& priority_class);
// New pods of its Job stay out of the group from now on (label tutti.dev/started and a policy): for
// groups with claims, which can't be opened.
[[nodiscard]] api::WriteRequest CloseGroup(GangApi version, const api::PodGroup& group);
// The scheduling.k8s.io Workload that the Job controller made a group from, deleted together with
// the group: it would make the group again.
[[nodiscard]] std::vector<api::WriteRequest> DeleteControllersGroup(GangApi version,
                                                                    const api::PodGroup& group);

// Made for this job alone, by us (or by someone who did it as we do): nobody else's to lose.
[[nodiscard]] bool MadeFor(const api::PodGroup& group, const std::string& job_uid);
// Made by the Job controller (feature gate WorkloadWithJob), which puts the job's pods into it.
[[nodiscard]] bool MadeByController(const api::PodGroup& group, const std::string& job_uid);
// A group found under the name that we wanted to create: ours from before a crash?
[[nodiscard]] bool CanAdopt(const api::PodGroup& group, const QueuedJob& job, int32_t min_count);
// Why a group that the user named in a Job's template can't be used; "" = it can: it belongs to
// nobody, to this job, or to several owners of which the job is one.
[[nodiscard]] std::string ForeignGroup(const api::PodGroup& group, const std::string& job_uid);

}  // namespace tutti::reconciler
