// SPDX-License-Identifier: Apache-2.0
#include "api/storage.h"

#include <algorithm>
#include <utility>

#include "api/decode.h"
#include "api/strict_reader.h"

namespace tutti::api {
namespace {

using Reader = StrictReader;

constexpr std::string_view kClassAnnotation = "volume.beta.kubernetes.io/storage-class";
constexpr std::string_view kBindCompleted = "pv.kubernetes.io/bind-completed";
constexpr std::string_view kSelectedNode = "volume.kubernetes.io/selected-node";

// In-tree plugins that kube-scheduler 1.36 always takes for their CSI drivers: the volume's field
// and the provisioner's name.
struct Plugin {
  std::string_view field;
  std::string_view provisioner;
  std::string_view driver;
};
constexpr Plugin kMigrated[] = {
    {"awsElasticBlockStore", "kubernetes.io/aws-ebs", "ebs.csi.aws.com"},
    {"azureDisk", "kubernetes.io/azure-disk", "disk.csi.azure.com"},
    {"cinder", "kubernetes.io/cinder", "cinder.csi.openstack.org"},
    {"gcePersistentDisk", "kubernetes.io/gce-pd", "pd.csi.storage.gke.io"},
    {"portworxVolume", "kubernetes.io/portworx-volume", "pxd.portworx.com"},
};

tl::unexpected<Error> Problem(std::string_view kind, const ObjectMeta& meta,
                              const std::string& problem) {
  return Fail(ErrorCode::kInvalid,
              std::string(kind) + " " + meta.Key().ToString() + ": " + problem);
}

std::optional<Quantity> OptionalAmount(const Reader& json) {
  return json.Absent() ? std::nullopt : std::optional<Quantity>(json.Amount());
}

LabelSelector ReadSelector(const Json& json, const Reader& at) {
  Result<LabelSelector> selector = LabelSelectorFromJson(json);
  if (!selector)
    at.Bad(selector.error().message);
  return std::move(selector).value_or(LabelSelector());
}

bool ReadBlock(const Reader& json) {
  return json.At("volumeMode").Text() == "Block";
}

// Of an object with metadata and spec.
VolumeClaimSpec ReadClaimSpec(const Json& json, const Reader& object) {
  VolumeClaimSpec out;
  const Reader spec = object.At("spec");
  if (const Reader name = spec.At("storageClassName"); !name.Absent())
    out.storage_class = name.Text();
  if (const Json& old = json["metadata"]["annotations"][kClassAnnotation]; old.IsString())
    out.storage_class = old.AsString();
  out.access_modes = spec.At("accessModes").Texts();
  out.block = ReadBlock(spec);
  out.storage = OptionalAmount(spec.At("resources").At("requests").At("storage"));
  out.selector = ReadSelector(json["spec"]["selector"], spec.At("selector"));
  out.volume_name = spec.At("volumeName").Text();
  out.attributes_class = spec.At("volumeAttributesClassName").Text();
  return out;
}

}  // namespace

bool PersistentVolumeClaim::OnePod() const {
  return std::find(spec.access_modes.begin(), spec.access_modes.end(), kReadWriteOncePod) !=
         spec.access_modes.end();
}

bool ClaimReference::IsFor(const PersistentVolumeClaim& other) const {
  return name == other.meta.name && ns == other.meta.ns && (uid.empty() || uid == other.meta.uid);
}

bool StorageClass::IsDefault() const {
  return meta.Annotation("storageclass.kubernetes.io/is-default-class") == "true" ||
         meta.Annotation("storageclass.beta.kubernetes.io/is-default-class") == "true";
}

std::string_view StorageClass::Driver() const {
  for (const Plugin& plugin : kMigrated) {
    if (plugin.provisioner == provisioner)
      return plugin.driver;
  }
  return provisioner;
}

Result<VolumeClaimSpec> VolumeClaimSpecFromJson(const Json& json) {
  std::string problem;
  VolumeClaimSpec out = ReadClaimSpec(json, Reader(json, problem));
  if (!problem.empty())
    return Fail(ErrorCode::kInvalid, problem);
  return out;
}

Result<PersistentVolumeClaim> PersistentVolumeClaimFromJson(const Json& json) {
  PersistentVolumeClaim out;
  TRY_ASSIGN(out.meta, ReadMeta(json, "PersistentVolumeClaim"));
  std::string problem;
  const Reader object(json, problem);
  out.spec = ReadClaimSpec(json, object);
  out.phase = object.At("status").At("phase").Text();
  out.bind_complete = FindIn(out.meta.annotations, kBindCompleted) != nullptr;
  out.selected_node = out.meta.Annotation(kSelectedNode);
  if (!problem.empty())
    return Problem("PersistentVolumeClaim", out.meta, problem);
  return out;
}

Result<PersistentVolume> PersistentVolumeFromJson(const Json& json) {
  PersistentVolume out;
  TRY_ASSIGN(out.meta, ReadMeta(json, "PersistentVolume"));
  std::string problem;
  const Reader object(json, problem);
  const Reader spec = object.At("spec");
  out.storage_class = spec.At("storageClassName").Text();
  if (const std::string* old = FindIn(out.meta.annotations, kClassAnnotation))
    out.storage_class = *old;
  out.capacity = spec.At("capacity").At("storage").Amount();
  out.access_modes = spec.At("accessModes").Texts();
  out.block = ReadBlock(spec);
  out.attributes_class = spec.At("volumeAttributesClassName").Text();
  out.phase = object.At("status").At("phase").Text();
  if (const Reader claim = spec.At("claimRef"); !claim.Absent()) {
    out.claim = ClaimReference{claim.At("namespace").Text(), claim.At("name").Text(),
                               claim.At("uid").Text()};
  }
  out.affinity = ReadNodeSelector(spec.At("nodeAffinity").At("required"));
  if (const Reader csi = spec.At("csi"); !csi.Absent()) {
    out.driver = csi.At("driver").Text();
    out.handle = csi.At("volumeHandle").Text();
  }
  for (const Plugin& plugin : kMigrated) {
    if (json["spec"].Has(plugin.field)) {
      out.driver = plugin.driver;
      out.migrated = true;
    }
  }
  if (!problem.empty())
    return Problem("PersistentVolume", out.meta, problem);
  return out;
}

Result<StorageClass> StorageClassFromJson(const Json& json) {
  StorageClass out;
  TRY_ASSIGN(out.meta, ReadMeta(json, "StorageClass"));
  std::string problem;
  const Reader object(json, problem);
  out.provisioner = object.At("provisioner").Text();
  out.waits = object.At("volumeBindingMode").Text() == "WaitForFirstConsumer";
  object.At("allowedTopologies").ForEach([&](const Reader& item) {
    out.allowed.emplace_back();
    item.At("matchLabelExpressions").ForEach([&](const Reader& label) {
      out.allowed.back().values.emplace_back(label.At("key").Text(), label.At("values").Texts());
    });
  });
  if (!problem.empty())
    return Problem("StorageClass", out.meta, problem);
  return out;
}

Result<CsiNode> CsiNodeFromJson(const Json& json) {
  CsiNode out;
  TRY_ASSIGN(out.meta, ReadMeta(json, "CSINode"));
  std::string problem;
  Reader(json, problem).At("spec").At("drivers").ForEach([&](const Reader& driver) {
    const Reader allocatable = driver.At("allocatable");
    const Reader count = allocatable.At("count");
    if (!count.Absent())
      out.limits[driver.At("name").Text()] = ClampToInt32(count.Int());
  });
  if (!problem.empty())
    return Problem("CSINode", out.meta, problem);
  return out;
}

Result<CsiDriver> CsiDriverFromJson(const Json& json) {
  CsiDriver out;
  TRY_ASSIGN(out.meta, ReadMeta(json, "CSIDriver"));
  std::string problem;
  out.storage_capacity = Reader(json, problem).At("spec").At("storageCapacity").Bool();
  if (!problem.empty())
    return Problem("CSIDriver", out.meta, problem);
  return out;
}

Result<CsiStorageCapacity> CsiStorageCapacityFromJson(const Json& json) {
  CsiStorageCapacity out;
  TRY_ASSIGN(out.meta, ReadMeta(json, "CSIStorageCapacity"));
  std::string problem;
  const Reader object(json, problem);
  out.storage_class = object.At("storageClassName").Text();
  out.nodes = ReadSelector(json["nodeTopology"], object.At("nodeTopology"));
  out.size = OptionalAmount(object.At("maximumVolumeSize"));
  if (!out.size)
    out.size = OptionalAmount(object.At("capacity"));
  if (!problem.empty())
    return Problem("CSIStorageCapacity", out.meta, problem);
  return out;
}

Result<VolumeAttachment> VolumeAttachmentFromJson(const Json& json) {
  VolumeAttachment out;
  TRY_ASSIGN(out.meta, ReadMeta(json, "VolumeAttachment"));
  std::string problem;
  const Reader object(json, problem);
  const Reader spec = object.At("spec");
  out.attacher = spec.At("attacher").Text();
  out.node = spec.At("nodeName").Text();
  out.volume = spec.At("source").At("persistentVolumeName").Text();
  if (!problem.empty())
    return Problem("VolumeAttachment", out.meta, problem);
  return out;
}

}  // namespace tutti::api
