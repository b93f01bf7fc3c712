// SPDX-License-Identifier: Apache-2.0
#include "reconciler/workload_writes.h"

#include <string>
#include <utility>

#include "base/names.h"
#include "reconciler/status.h"

namespace tutti::reconciler {

api::WriteRequest WorkloadPatch(const api::Workload& workload, Json body) {
  api::WriteRequest write;
  write.verb = api::Verb::kMergePatch;
  write.resource = api::ResourceOf(api::Kind::kWorkload);
  write.key = workload.meta.Key();
  write.field_manager = names::kUpdateManager;
  body.At("metadata").Set("resourceVersion", workload.meta.resource_version);
  write.body = std::move(body);
  return write;
}

api::WriteRequest DropFinalizer(const api::Workload& workload) {
  Json finalizers = Json::Arr();
  for (const std::string& finalizer : workload.meta.finalizers) {
    if (finalizer != names::kResourceInUseFinalizer) {
      finalizers.Push(finalizer);
    }
  }
  api::WriteRequest write = WorkloadPatch(
      workload, Json::Obj({{"metadata", Json::Obj({{"finalizers", std::move(finalizers)}})}}));
  write.body.At("metadata").Erase("resourceVersion");
  return write;
}

api::WriteRequest DeleteWorkload(const api::Workload& workload) {
  api::WriteRequest write;
  write.verb = api::Verb::kDelete;
  write.resource = api::ResourceOf(api::Kind::kWorkload);
  write.key = workload.meta.Key();
  write.body = Json::Obj({{"preconditions", Json::Obj({{"uid", workload.meta.uid}})}});
  return write;
}

bool HasLeftovers(const api::Job& job) {
  const auto parsed = Json::Parse(job.template_json);
  if (!parsed) {
    return false;
  }
  const Json& labels = (*parsed)["metadata"]["labels"];
  return labels.Has(names::kPodSetLabel) || labels.Has(names::kPodGroupLabel);
}

bool StartsAgain(const api::Workload& workload) {
  return workload.Evicted() &&
         api::FindCondition(workload.status.conditions, "Evicted")->reason == reason::kGangRestart;
}

bool IsFalse(const api::Conditions& conditions, std::string_view type) {
  const api::Condition* condition = api::FindCondition(conditions, type);
  return condition != nullptr && condition->status == "False";
}

}  // namespace tutti::reconciler
