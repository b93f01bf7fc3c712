// SPDX-License-Identifier: Apache-2.0
// What is asked of an autoscaler: ProvisioningRequest (autoscaling.x-k8s.io/v1, of the cluster
// autoscaler's API), the PodTemplates that it names, and Kueue's ProvisioningRequestConfig (KEP
// 1136). Only the fields that have a meaning here. Plain values; decoders fail (kDecode) only for
// objects without a name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/meta.h"
#include "base/json.h"
#include "base/result.h"

namespace tutti::api {

// Annotations on the pods that may use what was provisioned for them.
inline constexpr std::string_view kConsumeProvisioningRequestAnnotation =
    "autoscaling.x-k8s.io/consume-provisioning-request";
inline constexpr std::string_view kProvisioningClassAnnotation =
    "autoscaling.x-k8s.io/provisioning-class-name";

enum class PodSetMerge {
  kNone,
  kIdenticalTemplates,     // IdenticalPodTemplates
  kIdenticalRequirements,  // IdenticalWorkloadSchedulingRequirements
};

struct ProvisioningConfig {
  ObjectMeta meta;
  std::string class_name;
  StringMap parameters;
  std::vector<std::string> managed_resources;  // empty = all
  int32_t backoff_limit = 3;
  int32_t backoff_base_seconds = 60;
  int32_t backoff_max_seconds = 1800;
  PodSetMerge merge = PodSetMerge::kNone;
  // podSetUpdates.nodeSelector: label key, and the detail of the class that holds its value.
  std::vector<std::pair<std::string, std::string>> node_selector;
};

struct ProvisioningRequest {
  ObjectMeta meta;
  std::string class_name;
  StringMap parameters;
  struct PodSet {
    std::string pod_template;
    int32_t count = 0;
    bool operator==(const PodSet&) const = default;
  };
  std::vector<PodSet> pod_sets;
  Conditions conditions;
  StringMap class_details;  // status.provisioningClassDetails
};

// Only who owns it: its content is never read back.
struct PodTemplate {
  ObjectMeta meta;
};

[[nodiscard]] Resource ProvisioningConfigResource();
[[nodiscard]] Resource ProvisioningRequestResource();
[[nodiscard]] Resource PodTemplateResource();

Result<ProvisioningConfig> ProvisioningConfigFromJson(const Json& json);
Result<ProvisioningRequest> ProvisioningRequestFromJson(const Json& json);
Result<PodTemplate> PodTemplateFromJson(const Json& json);

}  // namespace tutti::api
