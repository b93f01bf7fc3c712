// SPDX-License-Identifier: Apache-2.0
// apps/v1 StatefulSet as a queued kind: one pod set of all its replicas, held and started by the
// scheduling gates of its pods. It never ends by itself; scaled to 0 it is on hold. Rules of Kueue
// v0.19.2 (integration `statefulset`).
#pragma once

#include "reconciler/job_kind.h"

namespace tutti::reconciler {

[[nodiscard]] const JobKind& StatefulSetKind();

}  // namespace tutti::reconciler
