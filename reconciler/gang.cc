// SPDX-License-Identifier: Apache-2.0
#include "reconciler/gang.h"

#include <algorithm>

#include "base/names.h"

namespace tutti::reconciler {
namespace {

api::WriteRequest Create(GangApi version, const QueuedJob& job, const std::string& name,
                         Json policy, const std::string& priority_class,
                         const std::vector<api::PodClaim>& claims = {}) {
  api::WriteRequest write;
  write.verb = api::Verb::kCreate;
  write.resource = PodGroupResource(version);
  write.key = {job.meta.ns, name};
  write.field_manager = names::kUpdateManager;
  Json spec = Json::Obj({{"schedulingPolicy", std::move(policy)}});
  // 1.37 refuses to schedule a group whose priority differs from its pods'; 1.36 drops the field
  // unless workload-aware preemption is on, where it would make the group able to preempt.
  if (version == GangApi::kV1Beta1 && !priority_class.empty()) {
    spec.Set("priorityClassName", priority_class);
  }
  if (!claims.empty()) {
    Json list = Json::Arr();
    for (const api::PodClaim& claim : claims) {
      Json entry = Json::Obj({{"name", claim.name}});
      if (!claim.claim.empty()) {
        entry.Set("resourceClaimName", claim.claim);
      } else {
        entry.Set("resourceClaimTemplateName", claim.claim_template);
      }
      list.Push(std::move(entry));
    }
    spec.Set("resourceClaims", std::move(list));
  }
  const api::Resource& kind = job.kind.Resource();
  const api::OwnerReference owner{kind.ApiVersion(), kind.kind, job.meta.name, job.meta.uid,
                                  /*controller=*/false};
  write.body =
      Json::Obj({{"apiVersion", write.resource.ApiVersion()},
                 {"kind", write.resource.kind},
                 {"metadata", Json::Obj({{"name", name},
                                         {"namespace", job.meta.ns},
                                         {"ownerReferences", Json::Arr({api::ToJson(owner)})}})},
                 {"spec", std::move(spec)}});
  return write;
}

}  // namespace

api::Resource PodGroupResource(GangApi version) {
  api::Resource resource = api::ResourceOf(api::Kind::kPodGroup);
  resource.version = version == GangApi::kV1Beta1 ? "v1beta1" : "v1alpha2";
  return resource;
}

api::WriteRequest CreateGroup(GangApi version, const QueuedJob& job, const std::string& name,
                              int32_t min_count, const std::string& priority_class,
                              const std::vector<api::PodClaim>& claims) {
  return Create(version, job, name, Json::Obj({{"gang", Json::Obj({{"minCount", min_count}})}}),
                priority_class, claims);
}

api::WriteRequest DeleteGroup(GangApi version, const api::PodGroup& group) {
  api::WriteRequest write;
  write.verb = api::Verb::kDelete;
  write.resource = PodGroupResource(version);
  write.key = group.meta.Key();
  write.body = Json::Obj({{"preconditions", Json::Obj({{"uid", group.meta.uid}})}});
  return write;
}

api::WriteRequest StripGroup(GangApi version, const api::ObjectKey& key) {
  api::WriteRequest write;
  write.verb = api::Verb::kMergePatch;
  write.resource = PodGroupResource(version);
  write.key = key;
  write.field_manager = names::kUpdateManager;
  write.body = Json::Obj({{"metadata", Json::Obj({{"finalizers", Json()}})}});
  return write;
}

std::vector<api::WriteRequest> OpenGroup(GangApi version, const QueuedJob& job,
                                         const api::PodGroup& group,
                                         const std::string& priority_class) {
  std::vector<api::WriteRequest> writes;
  if (!group.meta.deleted.has_value()) {
    writes.push_back(DeleteGroup(version, group));
  }
  writes.push_back(StripGroup(version, group.meta.Key()));
  writes.push_back(
      Create(version, job, group.meta.name, Json::Obj({{"basic", Json::Obj()}}), priority_class));
  return writes;
}

api::WriteRequest CloseGroup(GangApi version, const api::PodGroup& group) {
  api::WriteRequest write;
  write.verb = api::Verb::kMergePatch;
  write.resource = PodGroupResource(version);
  write.key = group.meta.Key();
  write.field_manager = names::kUpdateManager;
  write.body = Json::Obj(
      {{"metadata",
        Json::Obj({{"uid", group.meta.uid},
                   {"labels", Json::Obj({{std::string(names::kStartedLabel), "true"}})}})}});
  return write;
}

std::vector<api::WriteRequest> DeleteControllersGroup(GangApi version, const api::PodGroup& group) {
  std::vector<api::WriteRequest> writes;
  for (const api::OwnerReference& owner : group.meta.owners) {
    if (owner.kind == "Workload" && owner.api_version.starts_with("scheduling.k8s.io/")) {
      api::WriteRequest write;
      write.verb = api::Verb::kDelete;
      write.resource = PodGroupResource(version);
      write.resource.kind = "Workload";
      write.resource.plural = "workloads";
      write.key = {group.meta.ns, owner.name};
      write.body = Json::Obj({{"preconditions", Json::Obj({{"uid", owner.uid}})}});
      writes.push_back(std::move(write));
    }
  }
  writes.push_back(DeleteGroup(version, group));
  return writes;
}

bool MadeFor(const api::PodGroup& group, const std::string& job_uid) {
  return group.meta.owners.size() == 1 && group.meta.owners.front().uid == job_uid &&
         !group.meta.owners.front().controller;
}

bool MadeByController(const api::PodGroup& group, const std::string& job_uid) {
  const api::OwnerReference* controller = group.meta.Controller();
  return controller != nullptr && controller->uid == job_uid;
}

bool CanAdopt(const api::PodGroup& group, const QueuedJob& job, int32_t min_count) {
  return !group.meta.deleted.has_value() && group.min_count == min_count &&
         MadeFor(group, job.meta.uid);
}

std::string ForeignGroup(const api::PodGroup& group, const std::string& job_uid) {
  const auto& owners = group.meta.owners;
  if (owners.empty() || std::any_of(owners.begin(), owners.end(),
                                    [&](const auto& owner) { return owner.uid == job_uid; })) {
    return "";
  }
  return "spec.template.spec.schedulingGroup.podGroupName: PodGroup \"" + group.meta.name +
         "\" belongs to " + owners.front().kind + " \"" + owners.front().name +
         "\"; name another group, or none";
}

}  // namespace tutti::reconciler
