// SPDX-License-Identifier: Apache-2.0
// Can the pods of a pod set use the nodes of a flavor? Only what the flavor itself says is looked
// at (nodeLabels, nodeTaints, tolerations); real nodes are the capacity check's business.
#pragma once

#include <optional>

#include "api/core.h"
#include "engine/config.h"

namespace tutti::engine {

// The first NoSchedule or NoExecute taint that neither the pod nor the flavor tolerates; its index
// in flavor.taints.
[[nodiscard]] std::optional<size_t> UntoleratedTaint(const api::PodShape& shape,
                                                     const FlavorConfig& flavor);

// nodeSelector and required node affinity, reduced to the label keys of this flavor: other keys are
// somebody else's. A term with nothing left matches everything.
[[nodiscard]] bool MatchesNodeLabels(const api::PodShape& shape, const FlavorConfig& flavor);

}  // namespace tutti::engine
