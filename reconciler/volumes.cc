// SPDX-License-Identifier: Apache-2.0
// Core: claims, volumes and what limits them go on to the engine's books, which know what has
// changed for whom.
#include "engine/volume_book.h"
#include "reconciler/core.h"

namespace tutti::reconciler {

void Core::OnPersistentVolumeClaim(std::shared_ptr<const api::PersistentVolumeClaim> claim,
                                   bool deleted) {
  if (deleted) {
    engine_->capacity().Volumes().RemoveClaim(claim->meta.Key());
  } else {
    engine_->capacity().Volumes().SetClaim(*claim);
  }
}

void Core::OnPersistentVolume(std::shared_ptr<const api::PersistentVolume> volume, bool deleted) {
  if (deleted) {
    engine_->capacity().Volumes().RemoveVolume(volume->meta.name);
  } else {
    engine_->capacity().Volumes().SetVolume(*volume);
  }
}

void Core::OnStorageClass(std::shared_ptr<const api::StorageClass> storage_class, bool deleted) {
  if (deleted) {
    engine_->capacity().Volumes().RemoveClass(storage_class->meta.name);
  } else {
    engine_->capacity().Volumes().SetClass(*storage_class);
  }
}

void Core::OnCsiNode(std::shared_ptr<const api::CsiNode> node, bool deleted) {
  if (deleted) {
    engine_->capacity().Volumes().RemoveNode(node->meta.name);
  } else {
    engine_->capacity().Volumes().SetNode(*node);
  }
}

void Core::OnCsiDriver(std::shared_ptr<const api::CsiDriver> driver, bool deleted) {
  if (deleted) {
    engine_->capacity().Volumes().RemoveDriver(driver->meta.name);
  } else {
    engine_->capacity().Volumes().SetDriver(*driver);
  }
}

void Core::OnCsiStorageCapacity(std::shared_ptr<const api::CsiStorageCapacity> capacity,
                                bool deleted) {
  if (deleted) {
    engine_->capacity().Volumes().RemoveCapacity(capacity->meta.Key());
  } else {
    engine_->capacity().Volumes().SetCapacity(*capacity);
  }
}

void Core::OnVolumeAttachment(std::shared_ptr<const api::VolumeAttachment> attachment,
                              bool deleted) {
  if (deleted) {
    engine_->capacity().Volumes().RemoveAttachment(attachment->meta.name);
  } else {
    engine_->capacity().Volumes().SetAttachment(*attachment);
  }
}

}  // namespace tutti::reconciler
