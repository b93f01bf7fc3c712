// SPDX-License-Identifier: Apache-2.0
// Core: the kinds of resource.k8s.io go on to the engine's books; claims are told whose gang they
// belong to, as soon as their pod is known as one of a job's.
#include "reconciler/core.h"

namespace tutti::reconciler {
namespace {

// UID of the pod that a claim was made for; "" when it was made for none.
std::string OwningPod(const api::ObjectMeta& meta) {
  const api::OwnerReference* owner = meta.Controller();
  return owner != nullptr && owner->kind == "Pod" ? owner->uid : "";
}

}  // namespace

void Core::OnResourceSlice(std::shared_ptr<const api::ResourceSlice> slice, bool deleted) {
  if (deleted) {
    engine_->capacity().RemoveResourceSlice(slice->meta.name);
  } else {
    engine_->capacity().SetResourceSlice(std::move(slice));
  }
}

void Core::OnDeviceClass(std::shared_ptr<const api::DeviceClass> device_class, bool deleted) {
  if (deleted) {
    engine_->capacity().RemoveDeviceClass(device_class->meta.name);
  } else {
    engine_->capacity().SetDeviceClass(*device_class);
  }
}

void Core::OnResourceClaimTemplate(std::shared_ptr<const api::ResourceClaimTemplate> claim_template,
                                   bool deleted) {
  if (deleted) {
    engine_->capacity().RemoveResourceClaimTemplate(claim_template->meta.Key());
  } else {
    engine_->capacity().SetResourceClaimTemplate(*claim_template);
  }
}

void Core::OnResourceClaim(std::shared_ptr<const api::ResourceClaim> claim, bool deleted) {
  const auto change = deleted ? world_.claims.Remove(*claim) : world_.claims.Upsert(claim);
  if (!change.applied) {
    return;
  }
  const api::ObjectKey key = claim->meta.Key();
  const std::string pod = OwningPod(claim->meta);
  const std::string before = change.before == nullptr ? "" : OwningPod(change.before->meta);
  if (!before.empty() && (deleted || before != pod)) {
    if (const auto index = world_.claims_by_pod.find(before); index != world_.claims_by_pod.end()) {
      index->second.erase(key);
      if (index->second.empty()) {
        world_.claims_by_pod.erase(index);
      }
    }
  }
  if (deleted) {
    engine_->capacity().RemoveResourceClaim(key);
    return;
  }
  if (!pod.empty()) {
    world_.claims_by_pod[pod].insert(key);
  }
  LinkClaim(*claim);
}

void Core::LinkClaim(const api::ResourceClaim& claim) {
  std::string gang;
  std::string pod_set;
  const api::OwnerReference* owner = claim.meta.Controller();
  if (owner != nullptr && owner->kind == "Pod") {
    const auto pod = world_.pods.Find({claim.meta.ns, owner->name});
    if (pod != nullptr && pod->meta.uid == owner->uid) {
      if (const auto unit = unit_of_job_.find(OwningJob(pod->meta)); unit != unit_of_job_.end()) {
        gang = unit->second.ToString();
        pod_set = "main";
      }
    }
  }
  engine_->capacity().SetResourceClaim(claim, gang, pod_set);
}

void Core::LinkClaimsOf(const std::string& pod_uid) {
  const auto index = world_.claims_by_pod.find(pod_uid);
  if (index == world_.claims_by_pod.end()) {
    return;
  }
  for (const api::ObjectKey& key : index->second) {
    if (const auto claim = world_.claims.Find(key)) {
      LinkClaim(*claim);
    }
  }
}

}  // namespace tutti::reconciler
