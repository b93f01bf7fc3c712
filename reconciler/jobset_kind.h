// SPDX-License-Identifier: Apache-2.0
// JobSet (jobset.x-k8s.io/v1alpha2) as a queued kind: a pod set for each replicated job, held and
// let go by spec.suspend. The JobSet controller hands what a start adds to the child Jobs that it
// resumes. Rules of Kueue v0.19.2 (integration jobset.x-k8s.io/jobset); docs/jobset.md.
#pragma once

#include <memory>

#include "reconciler/job_kind.h"

namespace tutti::reconciler {

[[nodiscard]] const JobKind& JobSetKind();

}  // namespace tutti::reconciler
