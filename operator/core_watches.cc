// SPDX-License-Identifier: Apache-2.0
#include "operator/core_watches.h"

#include <utility>

#include "api/core.h"
#include "api/kueue.h"
#include "api/provisioning.h"
#include "api/storage.h"
#include "base/log.h"
#include "base/names.h"
#include "operator/bridge.h"
#include "reconciler/gang.h"
#include "reconciler/job_kind.h"

namespace tutti {

template <typename T, typename Handler>
std::unique_ptr<kube::Watch> CoreWatches::MakeWatch(
    api::Resource resource, std::string label_selector, Result<T> (*decode)(const Json&),
    Handler handler, void (CoreWatches::*on_synced)(const std::string&)) {
  kube::WatchOptions options;
  options.limits.seed = ++seed_;
  options.label_selector = std::move(label_selector);
  const std::string kind = resource.plural;
  return kube::WatchTyped<T>(client_, loop_, std::move(resource), options, decode,
                             [this, handler, kind, on_synced](const kube::WatchEvent<T>& event) {
                               metrics_.Add(Metric::kWatchEvents, {kind, EventName(event.type)});
                               if (event.type == kube::WatchEventType::kSynced) {
                                 (this->*on_synced)(kind);
                               } else if (event.type != kube::WatchEventType::kRelisted) {
                                 (core_.*handler)(event.object,
                                                  event.type == kube::WatchEventType::kDeleted);
                                 on_change_();
                               }
                             });
}

template <typename T, typename Handler>
void CoreWatches::Watch(api::Resource resource, Result<T> (*decode)(const Json&), Handler handler) {
  ++expected_;
  watches_.push_back(
      MakeWatch<T>(std::move(resource), "", decode, handler, &CoreWatches::OnSynced));
}

template <typename T, typename Handler>
void CoreWatches::Watch(api::Kind kind, Result<T> (*decode)(const Json&), Handler handler) {
  Watch(api::ResourceOf(kind), decode, handler);
}

void CoreWatches::WatchJobs(const reconciler::JobKind& job_kind) {
  ++expected_;
  kube::WatchOptions options;
  options.limits.seed = ++seed_;
  options.optional = job_kind.Optional();
  const std::string kind = job_kind.Resource().plural;
  auto absent = std::make_shared<bool>(false);
  watches_.push_back(std::make_unique<kube::Watch>(
      client_, loop_, job_kind.Resource(), options,
      [&job_kind](const Json& json) -> Result<std::shared_ptr<const void>> {
        TRY_ASSIGN(std::shared_ptr<const reconciler::QueuedJob> job, job_kind.Decode(json));
        return std::shared_ptr<const void>(std::move(job));
      },
      [this, kind, absent](const kube::UntypedWatchEvent& event) {
        metrics_.Add(Metric::kWatchEvents, {kind, EventName(event.type)});
        switch (event.type) {
          case kube::WatchEventType::kAbsent:
            // Nobody waits for it; its objects come in whenever it is installed.
            log::Info("kind of job is not installed", {{"kind", kind}});
            *absent = true;
            OnSynced(kind);
            break;
          case kube::WatchEventType::kSynced:
            if (!*absent) {
              OnSynced(kind);
            }
            break;
          case kube::WatchEventType::kRelisted:
            break;
          default:
            core_.OnJob(std::static_pointer_cast<const reconciler::QueuedJob>(event.object),
                        event.type == kube::WatchEventType::kDeleted);
            on_change_();
        }
      }));
}

CoreWatches::CoreWatches(kube::Client& client, kube::Loop& loop, Metrics& metrics,
                         reconciler::Core& core, const Kinds& which,
                         std::function<void()> on_change, std::function<void()> on_synced)
    : client_(client),
      loop_(loop),
      metrics_(metrics),
      core_(core),
      on_change_(std::move(on_change)),
      on_synced_(std::move(on_synced)) {
  using api::Kind;
  using reconciler::Core;
  Watch(Kind::kNamespace, &api::NamespaceFromJson, &Core::OnNamespace);
  Watch(Kind::kResourceFlavor, &api::ResourceFlavorFromJson, &Core::OnFlavor);
  Watch(Kind::kCohort, &api::CohortFromJson, &Core::OnCohort);
  Watch(Kind::kClusterQueue, &api::ClusterQueueFromJson, &Core::OnClusterQueue);
  Watch(Kind::kLocalQueue, &api::LocalQueueFromJson, &Core::OnLocalQueue);
  Watch(Kind::kAdmissionCheck, &api::AdmissionCheckFromJson, &Core::OnAdmissionCheck);
  Watch(api::ProvisioningConfigResource(), &api::ProvisioningConfigFromJson,
        &Core::OnProvisioningConfig);
  Watch(Kind::kWorkloadPriorityClass, &api::WorkloadPriorityClassFromJson,
        &Core::OnWorkloadPriorityClass);
  Watch(Kind::kPriorityClass, &api::PriorityClassFromJson, &Core::OnPriorityClass);
  Watch(Kind::kRuntimeClass, &api::RuntimeClassFromJson, &Core::OnRuntimeClass);
  Watch(Kind::kLimitRange, &api::LimitRangeFromJson, &Core::OnLimitRange);
  Watch(Kind::kNode, &api::NodeFromJson, &Core::OnNode);
  if (which.devices) {
    Watch(Kind::kDeviceClass, &api::DeviceClassFromJson, &Core::OnDeviceClass);
    Watch(Kind::kResourceSlice, &api::ResourceSliceFromJson, &Core::OnResourceSlice);
    Watch(Kind::kResourceClaimTemplate, &api::ResourceClaimTemplateFromJson,
          &Core::OnResourceClaimTemplate);
    Watch(Kind::kResourceClaim, &api::ResourceClaimFromJson, &Core::OnResourceClaim);
  }
  if (which.volumes) {
    Watch(Kind::kStorageClass, &api::StorageClassFromJson, &Core::OnStorageClass);
    Watch(Kind::kCsiDriver, &api::CsiDriverFromJson, &Core::OnCsiDriver);
    Watch(Kind::kCsiNode, &api::CsiNodeFromJson, &Core::OnCsiNode);
    Watch(Kind::kCsiStorageCapacity, &api::CsiStorageCapacityFromJson, &Core::OnCsiStorageCapacity);
    Watch(Kind::kPersistentVolume, &api::PersistentVolumeFromJson, &Core::OnPersistentVolume);
    Watch(Kind::kPersistentVolumeClaim, &api::PersistentVolumeClaimFromJson,
          &Core::OnPersistentVolumeClaim);
    Watch(Kind::kVolumeAttachment, &api::VolumeAttachmentFromJson, &Core::OnVolumeAttachment);
  }
  Watch(Kind::kWorkload, &api::WorkloadFromJson, &Core::OnWorkload);
  for (const reconciler::JobKind* kind : which.jobs) {
    if (!kind->MadeOfPods()) {
      WatchJobs(*kind);
    }
  }
  Watch(Kind::kPod, &reconciler::WatchedPodFromJson, &Core::OnPod);
  if (which.gang_api != reconciler::GangApi::kNone) {
    Watch(reconciler::PodGroupResource(which.gang_api), &api::PodGroupFromJson, &Core::OnPodGroup);
  }
  started_ = true;
}

void CoreWatches::OnSynced(const std::string& kind) {
  ++synced_;
  log::Debug("cache synced", {{"kind", kind}});
  if (started_ && synced_ == expected_) {
    on_synced_();
  }
}

void CoreWatches::SetProvisioning(bool served) {
  if (provisioning_served_ == served) {
    return;
  }
  provisioning_served_ = served;
  provisioning_.clear();
  provisioning_synced_ = 0;
  if (!served) {
    core_.SetProvisioning(false);
    on_change_();
    return;
  }
  using reconciler::Core;
  provisioning_.push_back(MakeWatch<api::ProvisioningRequest>(
      api::ProvisioningRequestResource(), "", &api::ProvisioningRequestFromJson,
      &Core::OnProvisioningRequest, &CoreWatches::OnProvisioningSynced));
  provisioning_.push_back(MakeWatch<api::PodTemplate>(
      api::PodTemplateResource(), std::string(names::kManagedLabel) + "=true",
      &api::PodTemplateFromJson, &Core::OnPodTemplate, &CoreWatches::OnProvisioningSynced));
}

void CoreWatches::OnProvisioningSynced(const std::string& kind) {
  log::Debug("cache synced", {{"kind", kind}});
  if (++provisioning_synced_ == provisioning_.size()) {
    core_.SetProvisioning(true);
    on_change_();
  }
}

}  // namespace tutti
