// SPDX-License-Identifier: Apache-2.0
#include "reconciler/workload_writes.h"

#include <string>
#include <string_view>
#include <utility>

#include "base/names.h"
#include "reconciler/status.h"

namespace tutti::reconciler {
namespace {

// An apply of a part of the status by the manager that owns it in Kueue; guarded by the UID.
api::WriteRequest ApplyPart(const api::Workload& workload, std::string_view manager, Json status) {
  api::WriteRequest write;
  write.verb = api::Verb::kApply;
  write.resource = api::ResourceOf(api::Kind::kWorkload);
  write.key = workload.meta.Key();
  write.subresource = "status";
  write.field_manager = manager;
  write.body = Json::Obj({{"apiVersion", names::kKueueVersion},
                          {"kind", "Workload"},
                          {"metadata", Json::Obj({{"name", workload.meta.name},
                                                  {"namespace", workload.meta.ns},
                                                  {"uid", workload.meta.uid}})},
                          {"status", std::move(status)}});
  return write;
}

}  // namespace

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

api::WriteRequest StatusPatch(const api::Workload& workload, Json status) {
  api::WriteRequest write = WorkloadPatch(workload, Json::Obj({{"status", std::move(status)}}));
  write.subresource = "status";
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

api::WriteRequest DeactivatePatch(const api::Workload& workload) {
  api::WriteRequest write =
      WorkloadPatch(workload, Json::Obj({{"spec", Json::Obj({{"active", false}})}}));
  write.body.At("metadata").Erase("resourceVersion");
  write.body.At("metadata").Set("uid", workload.meta.uid);
  return write;
}

api::WriteRequest ApplyReclaimable(const api::Workload& workload,
                                   const std::map<std::string, int32_t>& counts) {
  Json status = Json::Obj();
  Json list = Json::Arr();
  for (const api::PodSet& pod_set : workload.pod_sets) {
    if (const auto count = counts.find(pod_set.name); count != counts.end() && count->second > 0) {
      list.Push(Json::Obj({{"name", pod_set.name}, {"count", count->second}}));
    }
  }
  if (!list.AsArray().empty()) {
    status.Set("reclaimablePods", std::move(list));
  }
  return ApplyPart(workload, names::kReclaimableManager, std::move(status));
}

api::WriteRequest ApplyReplacements(const api::Workload& workload,
                                    const api::Conditions& conditions) {
  api::Condition condition = *api::FindCondition(conditions, "WaitingForReplacementPods");
  if (condition.observed_generation == 0) {
    condition.observed_generation = workload.meta.generation;
  }
  return ApplyPart(workload, names::kReplacementManager,
                   Json::Obj({{"conditions", api::ToJson(api::Conditions{std::move(condition)})}}));
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
