// SPDX-License-Identifier: Apache-2.0
// `tutti doctor`: what of a cluster's control plane Tutti can use, what is missing, what it does
// instead, and the flags that change it. Pure: facts in, findings out; operator/doctor_command
// collects the facts. Gates and versions: Kubernetes 1.34 to 1.37 (docs/doctor.md).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace tutti::cli {

// Feature gates of one control plane component, as far as they can be seen from outside.
struct ComponentGates {
  std::map<std::string, bool> gates;  // effective values, or only those that were set by flag
  std::string source;  // "its metrics", "the flags of pod kube-system/x"; "" = not seen
};

// Rights that the operator's account lacks, "watch pods"; only where they could be asked for.
struct Rights {
  std::string account;  // "ns/name" of the ServiceAccount; "" = not asked
  std::vector<std::string> denied;
  std::string problem;  // why they could not be asked for
};

struct DoctorFacts {
  std::string server;       // URL
  std::string git_version;  // v1.36.3, v1.34.2-eks-1234
  int minor = 0;            // of 1.x

  // Versions that serve the kind, preferred first.
  std::vector<std::string> queue_versions;              // kueue.x-k8s.io clusterqueues
  std::vector<std::string> group_versions;              // scheduling.k8s.io podgroups
  std::vector<std::string> claim_versions;              // resource.k8s.io resourceclaims
  std::vector<std::string> mutating_policy_versions;    // admissionregistration.k8s.io
  std::vector<std::string> validating_policy_versions;  // admissionregistration.k8s.io

  ComponentGates api_server, controller_manager, scheduler;

  // Installed and bound; nullopt: could not be read.
  std::optional<std::set<std::string>> policies;
  std::optional<bool> job_webhook;  // our own webhook for Jobs is installed
  std::optional<int> resource_slices, device_classes;
  std::vector<std::string> other_controllers;  // one sentence each
  Rights rights;
  std::vector<std::string> problems;  // what could not be read, and why
};

enum class FindingLevel {
  kOk,
  kNote,     // works; worth knowing
  kMissing,  // Tutti works without it, with less
  kProblem,  // Tutti can't do its work
};

struct Finding {
  FindingLevel level = FindingLevel::kOk;
  std::string area;              // "native gangs"
  std::string text;              // what was found
  std::string instead;           // what Tutti does without it; "" when nothing is missing
  std::vector<std::string> fix;  // lines, commands and flags verbatim; empty: nothing to do
};

// In a fixed order of areas.
[[nodiscard]] std::vector<Finding> Diagnose(const DoctorFacts& facts);
[[nodiscard]] bool AllWell(const std::vector<Finding>& findings);  // only kOk and kNote

[[nodiscard]] std::string ToText(const DoctorFacts& facts, const std::vector<Finding>& findings);
// {"server", "version", "findings": [{"level", "area", "text", "instead", "fix": []}]}
[[nodiscard]] Json ToJson(const DoctorFacts& facts, const std::vector<Finding>& findings);

// --- reading what components say of themselves ---

// kubernetes_feature_enabled{name="X",…} 0|1 in the Prometheus text format; other lines are
// skipped.
[[nodiscard]] ComponentGates GatesFromMetrics(std::string_view text);
// --feature-gates of the containers of static pods (label component=<name>, as kubeadm makes them).
// Of several pods of a component a gate counts as on only if it is on in all.
[[nodiscard]] ComponentGates GatesFromPods(const Json& pod_list, std::string_view component);

}  // namespace tutti::cli
