// SPDX-License-Identifier: Apache-2.0
// Names of workload slices and their pods that other programs can see, as names.h.
#pragma once

#include <string_view>

namespace tutti::names {

// Gate of the pods of an elastic job, until there is quota for them.
inline constexpr std::string_view kElasticGate = "kueue.x-k8s.io/elastic-job";
// On Workloads and pods: the first Workload of those that took each other's place.
inline constexpr std::string_view kSliceNameAnnotation = "kueue.x-k8s.io/workload-slice-name";

}  // namespace tutti::names
