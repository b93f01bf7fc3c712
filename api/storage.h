// SPDX-License-Identifier: Apache-2.0
// Volumes: the parts of PersistentVolumeClaim, PersistentVolume and of storage.k8s.io/v1 that
// decide where a pod can run. Plain values. Decoders fail (kInvalid, the message names the field)
// where Go's decoder would; what validation of the API server excludes is not checked again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/core.h"
#include "api/meta.h"
#include "api/quantity.h"
#include "base/json.h"
#include "base/result.h"

namespace tutti::api {

inline constexpr std::string_view kReadWriteOncePod = "ReadWriteOncePod";
// A provisioner that makes no volumes.
inline constexpr std::string_view kNoProvisioner = "kubernetes.io/no-provisioner";

struct PersistentVolumeClaim {
  ObjectMeta meta;
  VolumeClaimSpec spec;
  std::string phase;           // Pending, Bound, Lost
  bool bind_complete = false;  // pv.kubernetes.io/bind-completed
  // volume.kubernetes.io/selected-node: the scheduler has chosen where its volume is to be made.
  std::string selected_node;  // "" = not yet

  [[nodiscard]] bool Bound() const { return !spec.volume_name.empty() && bind_complete; }
  [[nodiscard]] std::string Class() const { return spec.storage_class.value_or(""); }
  [[nodiscard]] bool OnePod() const;  // ReadWriteOncePod
};

struct ClaimReference {
  std::string ns;
  std::string name;
  std::string uid;  // "" = any claim of this name
  bool operator==(const ClaimReference&) const = default;
  [[nodiscard]] bool IsFor(const PersistentVolumeClaim& claim) const;
};

struct PersistentVolume {
  ObjectMeta meta;
  std::string storage_class;
  Quantity capacity;
  std::vector<std::string> access_modes;
  bool block = false;
  std::string attributes_class;
  std::string phase;  // Available, Bound, Released, …
  std::optional<ClaimReference> claim;
  std::optional<NodeSelector> affinity;  // nothing: every node reaches it
  std::string driver;                    // of a CSI volume, or of the driver that took it over
  std::string handle;                    // of a CSI volume
  // A disk of an in-tree plugin that a CSI driver has taken over (`driver`): what its zones mean is
  // translated by kube-scheduler.
  bool migrated = false;
};

struct TopologyTerm {
  std::vector<std::pair<std::string, std::vector<std::string>>> values;  // by label, all must match
  bool operator==(const TopologyTerm&) const = default;
};

struct StorageClass {
  ObjectMeta meta;
  std::string provisioner;
  bool waits = false;                 // WaitForFirstConsumer, else Immediate
  std::vector<TopologyTerm> allowed;  // terms are ORed; none: everywhere
  [[nodiscard]] bool IsDefault() const;
  // The CSI driver that in-tree provisioners have become; else the provisioner.
  [[nodiscard]] std::string_view Driver() const;
  [[nodiscard]] bool Migrated() const { return Driver() != provisioner; }
};

struct CsiNode {
  ObjectMeta meta;  // named after its node
  // Volumes that may be attached, by driver; drivers without a limit are left out.
  std::map<std::string, int32_t> limits;
};

struct CsiDriver {
  ObjectMeta meta;
  bool storage_capacity = false;  // publishes CSIStorageCapacity
};

struct CsiStorageCapacity {
  ObjectMeta meta;
  std::string storage_class;
  LabelSelector nodes;           // not present: no node
  std::optional<Quantity> size;  // of the largest volume: maximumVolumeSize, else capacity
};

struct VolumeAttachment {
  ObjectMeta meta;
  std::string attacher;
  std::string node;
  std::string volume;  // PersistentVolume; "" = inline
};

// {metadata, spec} of a claim or of a template of claims. The class of the old annotation goes
// before that of the spec.
Result<VolumeClaimSpec> VolumeClaimSpecFromJson(const Json& json);
Result<PersistentVolumeClaim> PersistentVolumeClaimFromJson(const Json& json);
Result<PersistentVolume> PersistentVolumeFromJson(const Json& json);
Result<StorageClass> StorageClassFromJson(const Json& json);
Result<CsiNode> CsiNodeFromJson(const Json& json);
Result<CsiDriver> CsiDriverFromJson(const Json& json);
Result<CsiStorageCapacity> CsiStorageCapacityFromJson(const Json& json);
Result<VolumeAttachment> VolumeAttachmentFromJson(const Json& json);

}  // namespace tutti::api
