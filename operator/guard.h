// SPDX-License-Identifier: Apache-2.0
// Two controllers of the same kinds would undo each other's work. Before Tutti acts, and from time
// to time while it does, it looks for another one: a live Lease of the name that Kueue and Tutti
// use, in any namespace, or admission webhooks of these kinds that lead somewhere else. Pure
// functions.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/time.h"

namespace tutti {

struct GuardInput {
  std::string own_namespace;
  std::string own_identity;         // holder identity of this process
  Json leases;                      // LeaseList of all namespaces
  std::vector<Json> webhook_lists;  // Mutating- and ValidatingWebhookConfigurationList
};

// Who else is there, one sentence each, naming the object and what to do; empty = nobody.
[[nodiscard]] std::vector<std::string> OtherControllers(const GuardInput& input, Time now);

}  // namespace tutti
