// SPDX-License-Identifier: Apache-2.0
// Core: the kinds of resource.k8s.io go on to the engine's books; claims are told whose gang they
// belong to, as soon as their pod is known as one of a job's; and what claims cost in quota is
// added to what a job asks for.
#include "reconciler/core.h"

namespace tutti::reconciler {
namespace {

// UID of the pod that a claim was made for; "" when it was made for none.
std::string OwningPod(const api::ObjectMeta& meta) {
  const api::OwnerReference* owner = meta.Controller();
  return owner != nullptr && owner->kind == "Pod" ? owner->uid : "";
}

}  // namespace

// What devices cost may have changed for every job that asks for some.
void Core::DevicesChanged(uint64_t version_before) {
  if (engine_->capacity().DeviceVersion() == version_before) {
    return;
  }
  for (const api::ObjectKey& key : units_with_devices_) {
    Dirty(key);
  }
}

void Core::ChargeDevices(const Unit& unit, const std::vector<api::PodClaim>& shared,
                         engine::PodSetInput& pod_set, std::string& misconfigured) {
  const api::PodShape& shape = *pod_set.shape;
  if (shape.claims.empty() && shape.container_resources.empty()) {
    return;
  }
  units_with_devices_.insert(unit.key);
  if (!options_.devices || !options_.device_quota) {
    if (options_.reject_claims_without_quota && !shape.claims.empty() && misconfigured.empty()) {
      misconfigured = std::string("resourceClaims: devices can't be counted here (") +
                      (options_.devices ? "feature gate KueueDRAIntegration is off"
                                        : "the cluster doesn't serve resource.k8s.io/v1") +
                      "), so no queue admits them";
    }
    return;
  }
  const engine::DeviceCharge charge =
      engine_->capacity().ChargeOf(device_quota_, unit.key.ns, shape, shared);
  if (!charge.problem.empty()) {
    if (misconfigured.empty()) {
      misconfigured = charge.problem;
    }
    return;
  }
  for (const std::string& resource : charge.replaced) {
    pod_set.requests.erase(resource);
  }
  api::AddTo(pod_set.requests, charge.amounts);
}

void Core::OnResourceSlice(std::shared_ptr<const api::ResourceSlice> slice, bool deleted) {
  const uint64_t before = engine_->capacity().DeviceVersion();
  if (deleted) {
    engine_->capacity().RemoveResourceSlice(slice->meta.name);
  } else {
    engine_->capacity().SetResourceSlice(std::move(slice));
  }
  DevicesChanged(before);
}

void Core::OnDeviceClass(std::shared_ptr<const api::DeviceClass> device_class, bool deleted) {
  const uint64_t before = engine_->capacity().DeviceVersion();
  if (deleted) {
    engine_->capacity().RemoveDeviceClass(device_class->meta.name);
  } else {
    engine_->capacity().SetDeviceClass(*device_class);
  }
  DevicesChanged(before);
}

void Core::OnResourceClaimTemplate(std::shared_ptr<const api::ResourceClaimTemplate> claim_template,
                                   bool deleted) {
  const uint64_t before = engine_->capacity().DeviceVersion();
  if (deleted) {
    engine_->capacity().RemoveResourceClaimTemplate(claim_template->meta.Key());
  } else {
    engine_->capacity().SetResourceClaimTemplate(*claim_template);
  }
  DevicesChanged(before);
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
      const auto member = world_.MemberOf(*pod);
      const auto unit = member ? unit_of_job_.find(member->job_uid) : unit_of_job_.end();
      if (unit != unit_of_job_.end()) {
        gang = unit->second.ToString();
        pod_set = member->pod_set;
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
