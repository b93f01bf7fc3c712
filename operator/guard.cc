// SPDX-License-Identifier: Apache-2.0
#include "operator/guard.h"

#include <algorithm>

#include "base/names.h"

namespace tutti {
namespace {

// A holder that shut down in order empties the lease; one that crashed lets it run out. The factor
// allows for clocks that differ.
constexpr int kLivesPerLease = 4;

bool TouchesQueueKinds(const Json& webhook) {
  for (const Json& rule : webhook["rules"].AsArray()) {
    for (const Json& group : rule["apiGroups"].AsArray()) {
      if (group.AsString() == names::kKueueGroup) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

std::vector<std::string> OtherControllers(const GuardInput& input, Time now) {
  std::vector<std::string> found;
  for (const Json& lease : input.leases["items"].AsArray()) {
    const Json& spec = lease["spec"];
    const std::string& ns = lease["metadata"]["namespace"].AsString();
    const std::string& holder = spec["holderIdentity"].AsString();
    // In our own namespace the lease itself decides who acts.
    if (lease["metadata"]["name"].AsString() != names::kLeaseName || holder.empty() ||
        ns == input.own_namespace) {
      continue;
    }
    const auto renewed = ParseTime(spec["renewTime"].AsString());
    const auto life = std::chrono::seconds(spec["leaseDurationSeconds"].AsInt(15));
    if (renewed && now < *renewed + kLivesPerLease * life) {
      found.push_back("Lease " + ns + "/" + std::string(names::kLeaseName) + " is held by " +
                      holder + " (renewed " + spec["renewTime"].AsString() +
                      "): scale that controller to zero first");
    }
  }
  for (const Json& list : input.webhook_lists) {
    for (const Json& configuration : list["items"].AsArray()) {
      for (const Json& webhook : configuration["webhooks"].AsArray()) {
        const Json& service = webhook["clientConfig"]["service"];
        if (!TouchesQueueKinds(webhook) || service.IsNull() ||
            service["namespace"].AsString() == input.own_namespace) {
          continue;
        }
        found.push_back("webhook " + webhook["name"].AsString() + " of " +
                        configuration["metadata"]["name"].AsString() + " leads to service " +
                        service["namespace"].AsString() + "/" + service["name"].AsString() +
                        ": uninstall that controller's webhooks first");
        break;
      }
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace tutti
