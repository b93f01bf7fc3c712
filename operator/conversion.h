// SPDX-License-Identifier: Apache-2.0
// Conversion of kueue.x-k8s.io objects between v1beta1 and v1beta2, for the `/convert` webhook of
// CustomResourceDefinitions: a ConversionReview in, its answer out. Rules: Kueue v0.19.2's
// conversions. Only the kinds whose fields differ are known here; the others have strategy None.
//
// v1beta2 to v1beta1 and back loses nothing: fields that only v1beta2 has are carried along, and
// our v1beta1 schemas know them (Kueue drops them). What only v1beta1 has is read where it has a
// successor and dropped otherwise: status.pendingWorkloadsStatus, status.flavors,
// fairSharing.admissionFairSharingStatus of ClusterQueues and Cohorts, a priorityClassName without
// a source. Pure and thread-safe.
#pragma once

#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace tutti::conversion {

inline constexpr std::string_view kPath = "/convert";

// The ConversionReview to send back. All objects or none are converted: where one can't be, the
// answer's result says which and why. kInvalid when the body is no review (HTTP 400).
Result<Json> Answer(const Json& review);

// Converts one object in place; nothing to do when it has that version already. kInvalid names the
// field.
Status Convert(Json* object, std::string_view api_version);

}  // namespace tutti::conversion
