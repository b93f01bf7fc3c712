// SPDX-License-Identifier: Apache-2.0
// What this process may do: asked of the API server with SelfSubjectAccessReviews, which everybody
// may make and which store nothing.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "api/meta.h"
#include "base/result.h"
#include "kube/client.h"

namespace tutti {

struct Right {
  api::Resource resource;
  std::string verb;  // list, watch, …
};

// To list and to watch each kind that capacity with volumes is computed from.
[[nodiscard]] std::vector<Right> RightsForVolumes();

// Asks for one after the other until one is missing; `done` gets that one, or nothing. A server
// that doesn't answer such questions counts as refusing; other errors are passed on. `client` must
// outlive the answer, which comes on the client's thread.
void FindMissingRight(kube::Client& client, std::vector<Right> wanted,
                      std::function<void(Result<std::optional<Right>>)> done);

}  // namespace tutti
