// SPDX-License-Identifier: Apache-2.0
// The visibility API (visibility.kueue.x-k8s.io/v1beta1 and v1beta2, as in Kueue v0.19.2): who
// waits in a queue, in order. Read only: the subresource `pendingworkloads` of ClusterQueues and
// LocalQueues, and what the API server's aggregation layer needs to know of the API. Pure and
// thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "api/meta.h"
#include "base/result.h"
#include "base/time.h"
#include "net/server.h"

namespace tutti::visibility {

struct PendingWorkload {
  api::ObjectKey key;
  std::vector<api::OwnerReference> owners;
  Time created = kNoTime;
  int32_t priority = 0;
  std::string local_queue;  // in key.ns
};

// ns "" = a ClusterQueue, else a LocalQueue. The answer: everything that waits in the ClusterQueue
// (that of the LocalQueue), in queue order; nothing = no such queue. An error: no answer now.
using Lookup =
    std::function<Result<std::optional<std::vector<PendingWorkload>>>(const api::ObjectKey& queue)>;

// Answers everything below /apis and /openapi; errors are metav1.Status objects.
net::Response Answer(const net::Request& request, const Lookup& lookup);

// A metav1.Status of a failure.
net::Response Failure(int code, const std::string& reason, const std::string& message);

}  // namespace tutti::visibility
