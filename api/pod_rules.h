// SPDX-License-Identifier: Apache-2.0
// The rules of a pod about other pods: required inter-pod affinity and anti-affinity, and topology
// spread with DoNotSchedule, as kube-scheduler 1.36 reads them (plugins InterPodAffinity and
// PodTopologySpread). matchLabelKeys and mismatchLabelKeys are merged into the selectors, as the
// API server does when it creates a pod.
#pragma once

#include <string>

#include "api/core.h"
#include "base/json.h"

namespace tutti::api {

// Labels that differ between the pods of one Job or that only the API server gives a pod. They are
// left out of PodRules::labels and PodLabels, and a rule that names one is not read.
[[nodiscard]] bool IsPerPodLabel(std::string_view key);

// The labels of a pod that rules of other pods may look at. `ns` is the pod's namespace.
[[nodiscard]] StringMap RuleLabels(const StringMap& labels);

// Fills has_pod_affinity, has_topology_spread and rules of `out`. Rules stay empty, with the flag
// set, where something can't be read or depends on what is not known here: an unknown operator, a
// selector over labels that differ from pod to pod, a constraint of an unknown kind.
void ReadRules(const Json& pod, const std::string& ns, PodShape& out);

}  // namespace tutti::api
