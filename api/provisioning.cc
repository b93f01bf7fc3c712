// SPDX-License-Identifier: Apache-2.0
#include "api/provisioning.h"

#include <string>

#include "api/decode.h"

namespace tutti::api {

Resource ProvisioningConfigResource() {
  return {"kueue.x-k8s.io", "v1beta2", "provisioningrequestconfigs", "ProvisioningRequestConfig",
          false};
}

Resource ProvisioningRequestResource() {
  return {"autoscaling.x-k8s.io", "v1", "provisioningrequests", "ProvisioningRequest", true};
}

Resource PodTemplateResource() {
  return {"", "v1", "podtemplates", "PodTemplate", true};
}

Result<ProvisioningConfig> ProvisioningConfigFromJson(const Json& json) {
  ProvisioningConfig out;
  TRY_ASSIGN(out.meta, ReadMeta(json, "ProvisioningRequestConfig"));
  const Json& spec = json["spec"];
  out.class_name = spec["provisioningClassName"].AsString();
  out.parameters = StringMapFromJson(spec["parameters"]);
  out.managed_resources = ReadStrings(spec["managedResources"]);
  const Json& retry = spec["retryStrategy"];
  out.backoff_limit = ReadInt32(retry["backoffLimitCount"], out.backoff_limit);
  out.backoff_base_seconds = ReadInt32(retry["backoffBaseSeconds"], out.backoff_base_seconds);
  out.backoff_max_seconds = ReadInt32(retry["backoffMaxSeconds"], out.backoff_max_seconds);
  const std::string& merge = spec["podSetMergePolicy"].AsString();
  if (merge == "IdenticalPodTemplates") {
    out.merge = PodSetMerge::kIdenticalTemplates;
  } else if (merge == "IdenticalWorkloadSchedulingRequirements") {
    out.merge = PodSetMerge::kIdenticalRequirements;
  }
  for (const Json& entry : spec["podSetUpdates"]["nodeSelector"].AsArray()) {
    out.node_selector.emplace_back(entry["key"].AsString(),
                                   entry["valueFromProvisioningClassDetail"].AsString());
  }
  return out;
}

Result<ProvisioningRequest> ProvisioningRequestFromJson(const Json& json) {
  ProvisioningRequest out;
  TRY_ASSIGN(out.meta, ReadMeta(json, "ProvisioningRequest"));
  const Json& spec = json["spec"];
  out.class_name = spec["provisioningClassName"].AsString();
  out.parameters = StringMapFromJson(spec["parameters"]);
  for (const Json& pod_set : spec["podSets"].AsArray()) {
    out.pod_sets.push_back(
        {pod_set["podTemplateRef"]["name"].AsString(), ReadInt32(pod_set["count"])});
  }
  out.conditions = ConditionsFromJson(json["status"]["conditions"]);
  out.class_details = StringMapFromJson(json["status"]["provisioningClassDetails"]);
  return out;
}

Result<PodTemplate> PodTemplateFromJson(const Json& json) {
  PodTemplate out;
  TRY_ASSIGN(out.meta, ReadMeta(json, "PodTemplate"));
  return out;
}

}  // namespace tutti::api
