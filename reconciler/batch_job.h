// SPDX-License-Identifier: Apache-2.0
// batch/v1 Job as a queued kind: how a Workload is made from it, when the two still belong
// together, and the patches that start it and put it back exactly as it was submitted. Pure
// functions.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/batch.h"
#include "api/kueue.h"
#include "api/request.h"
#include "base/result.h"
#include "reconciler/job_kind.h"

namespace tutti::reconciler {

[[nodiscard]] const JobKind& BatchJobKind();
[[nodiscard]] std::shared_ptr<const QueuedJob> MakeBatchJob(api::Job job);

// The parts of it, on the object itself.

// The Workload for a job. kInvalid when a label or annotation of the job can't be used; the message
// names it.
Result<api::Workload> WorkloadFor(const api::Job& job, const Priority& priority);

// Whether `workload` still describes `job` (pods, containers, tolerations, time limit).
[[nodiscard]] bool Equivalent(const api::Job& job, const api::Workload& workload);
// The same but for the number of pods.
[[nodiscard]] bool EquivalentButCount(const api::Job& job, const api::Workload& workload);

// One merge patch: template additions and suspend: false, guarded by resourceVersion. kInvalid when
// the template, the flavor or a check has one of the keys with another value (a permanent error).
Result<api::WriteRequest> StartPatch(const api::Job& job, const api::Workload& workload,
                                     const StartInfo& info);

// suspend: true, nothing else (a template change in the same write is refused by the API server).
[[nodiscard]] api::WriteRequest SuspendPatch(const api::Job& job);

// Template and parallelism back to what `workload` recorded; nullopt when nothing differs.
// REQUIRES: the window for template changes is open (RestoreWindowOpen).
[[nodiscard]] std::optional<api::WriteRequest> RestorePatch(const api::Job& job,
                                                            const api::Workload& workload);
// status.startTime gone: where no Job controller does that, the template of a suspended Job stays
// closed for ever.
[[nodiscard]] api::WriteRequest ResetStartPatch(const api::Job& job);
// suspended, no active pods, and Suspended=True seen or never started.
[[nodiscard]] bool RestoreWindowOpen(const api::Job& job);

// The PodGroup that the Job's pods are to join by our label; "" = none.
[[nodiscard]] std::string GroupLabelOf(const api::Job& job);

// The claims that the whole gang is to share: entries of spec.template.spec.resourceClaims named by
// the annotation tutti.dev/gang-claims (comma-separated), in the template's order. At most 4 (API
// doc of PodGroup). kInvalid with the field when a name is unknown, or when a claim of a single pod
// comes after a shared one (kube-scheduler 1.36 and 1.37 would swap their devices).
Result<std::vector<api::PodClaim>> GangClaimsOf(const api::Job& job);

}  // namespace tutti::reconciler
