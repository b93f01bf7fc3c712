// SPDX-License-Identifier: Apache-2.0
// The queueing kinds from any JSON: a decoder refuses nothing but a missing name, no count or quota
// is negative without a problem being named, and what was written once is written the same again.
#include "api/batch.h"
#include "api/kueue.h"
#include "fuzz/fuzz.h"

namespace api = tutti::api;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const tutti::Result<tutti::Json> json = tutti::Json::Parse(AsText(data, size));
  if (!json) {
    return 0;
  }
  const bool named = !(*json)["metadata"]["name"].AsString().empty();
  const tutti::Result<api::Workload> workload = api::WorkloadFromJson(*json);
  REQUIRE(workload.has_value() == named);
  REQUIRE(api::ClusterQueueFromJson(*json).has_value() == named);
  REQUIRE(api::CohortFromJson(*json).has_value() == named);
  REQUIRE(api::LocalQueueFromJson(*json).has_value() == named);
  REQUIRE(api::ResourceFlavorFromJson(*json).has_value() == named);
  REQUIRE(api::AdmissionCheckFromJson(*json).has_value() == named);
  REQUIRE(api::TopologyFromJson(*json).has_value() == named);
  if (const auto job = api::JobFromJson(*json)) {
    REQUIRE(job->GangSize() >= 0);
    REQUIRE(job->PodCount() >= 0);
  }
  if (const auto queue = api::ClusterQueueFromJson(*json)) {
    for (const api::ResourceGroup& group : queue->groups) {
      for (const api::FlavorQuotas& flavor : group.flavors) {
        for (const api::ResourceQuota& quota : flavor.resources) {
          REQUIRE(quota.nominal.Sign() >= 0);
          REQUIRE(!quota.lending_limit || *quota.lending_limit <= quota.nominal ||
                  !queue->problem.empty());
        }
      }
    }
  }
  if (workload) {
    for (const api::PodSet& pod_set : workload->pod_sets) {
      REQUIRE(pod_set.count >= 0);
      REQUIRE(tutti::Json::Parse(pod_set.template_json).has_value());
    }
    const auto created = api::WorkloadFromJson(api::ToJson(*workload));
    REQUIRE(created.has_value());
    REQUIRE(api::ToJson(*created) == api::ToJson(*workload));
    // The first write may lose what has no place in the API (a year beyond 9999); the next may not.
    api::Workload once = *workload;
    once.status = api::WorkloadStatusFromJson(api::StatusApplyBody(*workload, true)["status"]);
    api::Workload twice = *workload;
    twice.status = api::WorkloadStatusFromJson(api::StatusApplyBody(once, true)["status"]);
    REQUIRE(api::StatusApplyBody(twice, true) == api::StatusApplyBody(once, true));
  }
  return 0;
}
