// SPDX-License-Identifier: Apache-2.0
// A create for threads that may wait: those of the servers. Never on a thread of the client or on
// the loop.
#pragma once

#include "api/meta.h"
#include "base/json.h"
#include "base/result.h"
#include "kube/client.h"

namespace tutti {

// Waits 10 s at most (kTimeout).
Result<Json> CreateAndWait(kube::Client& client, const api::Resource& resource, Json body);

}  // namespace tutti
