// SPDX-License-Identifier: Apache-2.0
// What is known of volumes: claims, volumes, classes, limits of attachment, and which pods on which
// nodes use which claims. Plain books; what they mean for a gang is decided in volume_fit.h.
// Loop thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "api/core.h"
#include "api/storage.h"

namespace tutti::engine {

class VolumeBook {
 public:
  // A pod on a node with volumes that stand for claims.
  struct User {
    std::string node;
    std::shared_ptr<const api::PodShape> shape;
  };
  using Volumes = std::map<std::string, api::PersistentVolume>;

  // Until the caller says that it passes on all of these kinds, pods with claims of volumes are
  // left to the scheduler.
  void SetKnown(bool known) { known_ = known; }
  [[nodiscard]] bool known() const { return known_; }
  // Grows whenever something may fit that did not, and with every change.
  [[nodiscard]] uint64_t version() const { return version_; }
  [[nodiscard]] uint64_t changes() const { return changes_; }

  void SetClaim(const api::PersistentVolumeClaim& claim);
  void RemoveClaim(const api::ObjectKey& key);
  void SetVolume(const api::PersistentVolume& volume);
  void RemoveVolume(const std::string& name);
  void SetClass(const api::StorageClass& storage_class);
  void RemoveClass(const std::string& name);
  void SetNode(const api::CsiNode& node);
  void RemoveNode(const std::string& name);
  void SetDriver(const api::CsiDriver& driver);
  void RemoveDriver(const std::string& name);
  void SetCapacity(const api::CsiStorageCapacity& capacity);
  void RemoveCapacity(const api::ObjectKey& key);
  void SetAttachment(const api::VolumeAttachment& attachment);
  void RemoveAttachment(const std::string& name);
  // A pod without such volumes is not kept.
  void SetPod(const std::string& uid, const std::string& node,
              std::shared_ptr<const api::PodShape> shape);
  void RemovePod(const std::string& uid);

  // Null: there is none.
  [[nodiscard]] const api::PersistentVolumeClaim* FindClaim(const api::ObjectKey& key) const;
  [[nodiscard]] const api::PersistentVolume* FindVolume(const std::string& name) const;
  [[nodiscard]] const api::StorageClass* FindClass(const std::string& name) const;
  [[nodiscard]] const api::CsiDriver* FindDriver(const std::string& name) const;
  // Volumes of a class that may be bound to claims, by name.
  [[nodiscard]] const std::set<std::string>& VolumesOf(const std::string& storage_class) const;
  // The class of claims that name none: "" without a default class.
  [[nodiscard]] std::string DefaultClass() const;
  // Limits by driver; null: none.
  [[nodiscard]] const std::map<std::string, int32_t>* LimitsOf(const std::string& node) const;
  // Whether any node limits what the driver may attach.
  [[nodiscard]] bool Limits(const std::string& driver) const { return limited_.contains(driver); }
  [[nodiscard]] const std::map<api::ObjectKey, api::CsiStorageCapacity>& capacities() const {
    return capacities_;
  }
  // Attachments of a node; null: none.
  [[nodiscard]] const std::map<std::string, api::VolumeAttachment>* AttachmentsOf(
      const std::string& node) const;
  // Pods by uid.
  [[nodiscard]] const std::map<std::string, User>& users() const { return users_; }
  // Of a node; null: none.
  [[nodiscard]] const std::set<std::string>* UsersOn(const std::string& node) const;
  // Pods on nodes that name the claim; null: none.
  [[nodiscard]] const std::set<std::string>* UsersOf(const api::ObjectKey& claim) const;
  // Claims that were made for a pod; null: none.
  [[nodiscard]] const std::set<api::ObjectKey>* MadeFor(const std::string& pod_uid) const;

  // "" or what is wrong with the indexes.
  [[nodiscard]] std::string SanityCheck() const;

 private:
  void Forget(const api::PersistentVolumeClaim& claim);
  void CountLimits(const api::CsiNode& node, int64_t by);
  void Changed(bool helps = true) {
    ++changes_;
    version_ += helps ? 1 : 0;
  }

  bool known_ = false;
  uint64_t version_ = 0;
  uint64_t changes_ = 0;
  std::map<api::ObjectKey, api::PersistentVolumeClaim> claims_;
  Volumes volumes_;
  std::map<std::string, api::StorageClass> classes_;
  std::map<std::string, api::CsiNode> nodes_;
  std::map<std::string, int64_t> limited_;  // nodes that limit it, by driver
  std::map<std::string, api::CsiDriver> drivers_;
  std::map<api::ObjectKey, api::CsiStorageCapacity> capacities_;
  std::map<std::string, User> users_;

  std::map<std::string, std::set<std::string>> volumes_of_class_;
  std::map<std::string, std::set<api::ObjectKey>> made_for_;
  std::map<std::string, std::map<std::string, api::VolumeAttachment>> attachments_;  // by node
  std::map<std::string, std::string> node_of_attachment_;
  std::map<std::string, std::set<std::string>> users_on_;
  std::map<api::ObjectKey, std::set<std::string>> users_of_;
};

}  // namespace tutti::engine
