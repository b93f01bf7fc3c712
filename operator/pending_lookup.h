// SPDX-License-Identifier: Apache-2.0
// What the visibility API shows, read on the loop thread for whoever asks from another one.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "kube/loop.h"
#include "operator/visibility.h"
#include "reconciler/core.h"

namespace tutti {

// Who waits in the ClusterQueue of `queue` (visibility.h, Lookup). Loop thread only; O(waiting).
[[nodiscard]] std::optional<std::vector<visibility::PendingWorkload>> PendingIn(
    const reconciler::Core& core, const api::ObjectKey& queue);

// Posts the question to the loop and waits for the answer, 5 s at most (kTimeout). `core` is called
// on the loop; null = it decides nothing at present (kUnavailable). Never call it on the loop
// itself.
[[nodiscard]] visibility::Lookup LookUpOnLoop(kube::Loop& loop,
                                              std::function<const reconciler::Core*()> core);

}  // namespace tutti
