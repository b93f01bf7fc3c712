// SPDX-License-Identifier: Apache-2.0
#include "operator/core_watches.h"

#include <utility>

#include "api/batch.h"
#include "api/core.h"
#include "api/kueue.h"
#include "api/storage.h"
#include "base/log.h"
#include "operator/bridge.h"
#include "reconciler/gang.h"

namespace tutti {

template <typename T, typename Handler>
void CoreWatches::Watch(api::Resource resource, Result<T> (*decode)(const Json&), Handler handler) {
  ++expected_;
  kube::WatchOptions options;
  options.limits.seed = ++seed_;
  const std::string kind = resource.plural;
  watches_.push_back(kube::WatchTyped<T>(
      client_, loop_, std::move(resource), options, decode,
      [this, handler, kind](const kube::WatchEvent<T>& event) {
        metrics_.Add(Metric::kWatchEvents, {kind, EventName(event.type)});
        if (event.type == kube::WatchEventType::kSynced) {
          OnSynced(kind);
        } else if (event.type != kube::WatchEventType::kRelisted) {
          (core_.*handler)(event.object, event.type == kube::WatchEventType::kDeleted);
          on_change_();
        }
      }));
}

template <typename T, typename Handler>
void CoreWatches::Watch(api::Kind kind, Result<T> (*decode)(const Json&), Handler handler) {
  Watch(api::ResourceOf(kind), decode, handler);
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
  Watch(Kind::kJob, &api::JobFromJson, &Core::OnJob);
  Watch(Kind::kPod, &api::PodFromJson, &Core::OnPod);
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

}  // namespace tutti
