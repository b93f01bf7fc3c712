// SPDX-License-Identifier: Apache-2.0
// `tutti fit`: would these gangs fit this cluster, and if not, what is missing? Answers with the
// engine's own check (engine/capacity.h) on plain Kubernetes objects, so it says what the
// controller would decide about places; quota is not looked at. Pure: documents in, answers out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "cli/objects.h"
#include "engine/capacity.h"

namespace tutti::cli {

struct FitPodSet {
  std::string name;
  int32_t count = 0;
};

// The answer for one gang. Gangs are placed in the order of the input: one that fits keeps its
// places from those behind it.
struct FitAnswer {
  std::string gang;  // "Job ns/name", "Workload ns/name"
  std::vector<FitPodSet> pod_sets;
  engine::FitResult fit;
};

struct FitReport {
  std::vector<FitAnswer> answers;
  // What was in the input and didn't count, one line per kind or object.
  std::vector<std::string> notes;
  [[nodiscard]] bool AllFit() const;
};

// Looks at Nodes, Pods, LimitRanges, RuntimeClasses, and at ResourceSlices, DeviceClasses,
// ResourceClaims and ResourceClaimTemplates of resource.k8s.io/v1, at PersistentVolumeClaims,
// PersistentVolumes, and at StorageClasses, CSINodes, CSIDrivers, CSIStorageCapacities and
// VolumeAttachments of storage.k8s.io/v1, and asks for a place for
// - every Job that has pods to start and none that is active,
// - every Workload without an owner: its podsets are one gang.
// Pods count against their node as in kube-scheduler: bound and not terminal, terminating ones
// included; devices by the allocations of claims. What is not in the input does not exist: without
// its ResourceClaimTemplate or PersistentVolumeClaim a gang doesn't fit, and the message says so. A
// namespace that is left out is "default". kInvalid names the document, the object and the field;
// so do two objects of one kind and name, and an input without any gang.
Result<FitReport> Fit(const std::vector<Document>& documents);

// "Fits", "NotNow", "Never", "Undecided".
[[nodiscard]] std::string_view VerdictName(engine::FitKind kind);

[[nodiscard]] std::string ToText(const FitReport& report);
// {"answers": [{"gang", "verdict", "message", "pods", "placement": [{"podSet", "node", "count"}]}],
//  "notes": […]}
[[nodiscard]] Json ToJson(const FitReport& report);

// One line of a batch: {"id": …, "items": [objects]} gives the report with the same id, or
// {"id": …, "error": "…"}. Total.
[[nodiscard]] Json FitLine(std::string_view line);

}  // namespace tutti::cli
