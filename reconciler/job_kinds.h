// SPDX-License-Identifier: Apache-2.0
// The kinds of jobs that can be queued, by their names in the configuration file
// (integrations.frameworks).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reconciler/job_kind.h"

namespace tutti::reconciler {

// In the order in which they are asked whose a pod is: a kind whose jobs are made of jobs of
// another kind, or of pods that look like another's, comes before that.
[[nodiscard]] const std::vector<const JobKind*>& AllJobKinds();
// Frameworks that are built; some work through the pods of others' making and are no kind by
// themselves (deployment).
[[nodiscard]] const std::vector<std::string_view>& BuiltFrameworks();
// The kinds that these frameworks need.
[[nodiscard]] std::vector<const JobKind*> KindsFor(const std::vector<std::string>& frameworks);

}  // namespace tutti::reconciler
