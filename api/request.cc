// SPDX-License-Identifier: Apache-2.0
#include "api/request.h"

namespace tutti::api {

std::string Describe(const WriteRequest& request) {
  std::string out;
  switch (request.verb) {
    case Verb::kCreate:
      out = "POST";
      break;
    case Verb::kApply:
      out = "APPLY";
      break;
    case Verb::kMergePatch:
    case Verb::kJsonPatch:
      out = "PATCH";
      break;
    case Verb::kUpdate:
      out = "PUT";
      break;
    case Verb::kDelete:
      out = "DELETE";
      break;
  }
  out += " " + request.resource.plural + " " + request.key.ToString();
  if (!request.subresource.empty()) {
    out += " (" + request.subresource + ")";
  }
  return out;
}

}  // namespace tutti::api
