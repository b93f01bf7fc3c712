// SPDX-License-Identifier: Apache-2.0
// A write to the API server as data. Reconcilers return these; kube/ carries them out in order per
// object; tests and the simulator look at them or apply them to a fake server.
#pragma once

#include <string>

#include "api/meta.h"
#include "base/json.h"

namespace tutti::api {

enum class Verb {
  kCreate,      // POST, name given (never generateName: a POST may be repeated by the transport)
  kApply,       // server-side apply, force, as `field_manager`
  kMergePatch,  // RFC 7386; put metadata.resourceVersion into the body for a precondition
  kJsonPatch,
  kUpdate,  // PUT, resourceVersion in the body
  kDelete,  // background propagation; body may hold preconditions {"uid": …}
};

struct WriteRequest {
  Verb verb = Verb::kMergePatch;
  Resource resource;
  ObjectKey key;
  std::string subresource;  // "", "status"
  std::string field_manager;
  Json body;
};

[[nodiscard]] std::string Describe(
    const WriteRequest& request);  // "PATCH jobs team-a/train (status)"

}  // namespace tutti::api
