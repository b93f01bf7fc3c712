// SPDX-License-Identifier: Apache-2.0
#include "cli/cluster_input.h"

#include <algorithm>

#include "api/dra.h"
#include "api/pod_requests.h"
#include "api/pod_rules.h"
#include "api/storage.h"
#include "engine/volume_book.h"

namespace tutti::cli {
namespace {

constexpr std::string_view kDevicesVersion = "resource.k8s.io/v1";
constexpr std::string_view kNamespaceName = "kubernetes.io/metadata.name";
constexpr std::string_view kJobName = "batch.kubernetes.io/job-name";

bool OfDevices(std::string_view kind) {
  return kind == "ResourceSlice" || kind == "DeviceClass" || kind == "ResourceClaim" ||
         kind == "ResourceClaimTemplate";
}

bool OfVolumes(std::string_view kind) {
  return kind == "PersistentVolumeClaim" || kind == "PersistentVolume" || kind == "StorageClass" ||
         kind == "CSINode" || kind == "CSIDriver" || kind == "CSIStorageCapacity" ||
         kind == "VolumeAttachment";
}

bool ByNamespaceLabels(const api::PodShape& shape) {
  const auto selects = [](const api::PodAffinityTerm& term) {
    return !term.namespace_selector.requirements.empty();
  };
  return shape.rules &&
         (std::any_of(shape.rules->affinity.begin(), shape.rules->affinity.end(), selects) ||
          std::any_of(shape.rules->anti_affinity.begin(), shape.rules->anti_affinity.end(),
                      selects));
}

}  // namespace

ClusterInput::ClusterInput(engine::Capacity& capacity) : capacity_(capacity) {
  capacity_.SetDevicesKnown(true);
  capacity_.Volumes().SetKnown(true);
}

bool ClusterInput::Knows(std::string_view kind) {
  return kind == "Node" || kind == "Namespace" || kind == "Pod" || kind == "LimitRange" ||
         kind == "RuntimeClass" || OfDevices(kind) || OfVolumes(kind);
}

Status ClusterInput::Add(const InputObject& object, const std::string& holder) {
  if (!object.ns.empty()) {
    UseNamespace(object.ns);
  }
  if (object.kind == "Node") {
    TRY_ASSIGN(const api::Node node, api::NodeFromJson(object.object));
    capacity_.SetNode(node);
    ++nodes_;
  } else if (object.kind == "Namespace") {
    api::StringMap labels = api::StringMapFromJson(object.object["metadata"]["labels"]);
    labels[std::string(kNamespaceName)] = object.name;  // the API server's
    capacity_.SetNamespace(object.name, labels);
    namespaces_.insert(object.name);
  } else if (object.kind == "Pod") {
    TRY_ASSIGN(const api::Pod pod, api::PodFromJson(object.object));
    AddPod(object, pod, holder);
  } else if (object.kind == "LimitRange") {
    TRY_ASSIGN(api::LimitRange range, api::LimitRangeFromJson(object.object));
    limit_ranges_[object.ns][object.name] = std::move(range);
  } else if (object.kind == "RuntimeClass") {
    TRY_ASSIGN(api::RuntimeClass runtime_class, api::RuntimeClassFromJson(object.object));
    runtime_classes_[object.name] = std::move(runtime_class);
  } else if (OfVolumes(object.kind)) {
    TRY(AddOfVolumes(object));
  } else {
    TRY(AddOfDevices(object));
  }
  return {};
}

Status ClusterInput::AddOfDevices(const InputObject& input) {
  const auto& [where, kind, ns, name, object] = input;
  const std::string& version = object["apiVersion"].AsString();
  if (!version.empty() && version != kDevicesVersion) {
    return Fail(ErrorCode::kInvalid, input.Title() + ": apiVersion must be " +
                                         std::string(kDevicesVersion) + ", is " + version);
  }
  if (kind == "ResourceSlice") {
    TRY_ASSIGN(api::ResourceSlice slice, api::ResourceSliceFromJson(object));
    capacity_.SetResourceSlice(std::make_shared<const api::ResourceSlice>(std::move(slice)));
  } else if (kind == "DeviceClass") {
    TRY_ASSIGN(const api::DeviceClass device_class, api::DeviceClassFromJson(object));
    capacity_.SetDeviceClass(device_class);
  } else if (kind == "ResourceClaimTemplate") {
    TRY_ASSIGN(api::ResourceClaimTemplate claim_template,
               api::ResourceClaimTemplateFromJson(object));
    claim_template.meta.ns = ns;
    capacity_.SetResourceClaimTemplate(claim_template);
  } else {
    TRY_ASSIGN(api::ResourceClaim claim, api::ResourceClaimFromJson(object));
    claim.meta.ns = ns;
    // What it holds counts as it is. None belongs to a gang that is asked about: those have no
    // pods yet.
    capacity_.SetResourceClaim(claim, /*gang=*/"", /*pod_set=*/"");
    claims_.insert(claim.meta.Key());
    if (const api::OwnerReference* owner = claim.meta.Controller();
        owner != nullptr && owner->kind == "Pod") {
      generated_.insert({ns + "/" + owner->name,
                         std::string(claim.meta.Annotation(api::kPodClaimNameAnnotation))});
    }
  }
  return {};
}

Status ClusterInput::AddOfVolumes(const InputObject& input) {
  engine::VolumeBook& volumes = capacity_.Volumes();
  const Json& object = input.object;
  if (input.kind == "PersistentVolumeClaim") {
    TRY_ASSIGN(const api::PersistentVolumeClaim claim, api::PersistentVolumeClaimFromJson(object));
    volumes.SetClaim(claim);
  } else if (input.kind == "PersistentVolume") {
    TRY_ASSIGN(const api::PersistentVolume volume, api::PersistentVolumeFromJson(object));
    volumes.SetVolume(volume);
  } else if (input.kind == "StorageClass") {
    TRY_ASSIGN(const api::StorageClass storage_class, api::StorageClassFromJson(object));
    volumes.SetClass(storage_class);
  } else if (input.kind == "CSINode") {
    TRY_ASSIGN(const api::CsiNode node, api::CsiNodeFromJson(object));
    volumes.SetNode(node);
  } else if (input.kind == "CSIDriver") {
    TRY_ASSIGN(const api::CsiDriver driver, api::CsiDriverFromJson(object));
    volumes.SetDriver(driver);
  } else if (input.kind == "CSIStorageCapacity") {
    TRY_ASSIGN(const api::CsiStorageCapacity capacity, api::CsiStorageCapacityFromJson(object));
    volumes.SetCapacity(capacity);
  } else {
    TRY_ASSIGN(const api::VolumeAttachment attachment, api::VolumeAttachmentFromJson(object));
    volumes.SetAttachment(attachment);
  }
  return {};
}

void ClusterInput::AddPod(const InputObject& object, const api::Pod& pod,
                          const std::string& holder) {
  const std::string& ns = object.ns;
  if (pod.node_name.empty()) {
    ++unbound_pods_;
    return;
  }
  if (pod.Terminal()) {
    return;  // holds nothing
  }
  by_namespace_labels_ |= ByNamespaceLabels(*pod.shape);
  // Claims name the pod that they were made for by its uid.
  const std::string uid = pod.meta.uid.empty() ? "Pod " + ns + "/" + pod.meta.name : pod.meta.uid;
  capacity_.SetPod(uid, pod.node_name, pod.shape, /*gang=*/holder, /*pod_set=*/"",
                   {ns, api::RuleLabels(pod.meta.labels), pod.meta.deleted.has_value()});
  if (!pod.shape->claims.empty()) {
    users_.push_back({ns, pod.meta.name, pod.shape});
  }
}

// Pods on nodes with a claim that the input doesn't have: what it holds counts as free.
size_t ClusterInput::PodsWithoutClaims() const {
  return static_cast<size_t>(std::count_if(users_.begin(), users_.end(), [&](const User& user) {
    const auto& claims = user.shape->claims;
    return std::any_of(claims.begin(), claims.end(), [&](const api::PodClaim& claim) {
      return claim.claim.empty() ? !generated_.contains({user.ns + "/" + user.pod, claim.name})
                                 : !claims_.contains({user.ns, claim.claim});
    });
  }));
}

void ClusterInput::Finish() {
  for (const std::string& ns : used_namespaces_) {
    if (!namespaces_.contains(ns)) {
      capacity_.SetNamespace(ns, {{std::string(kNamespaceName), ns}});
    }
  }
}

Result<std::shared_ptr<const api::PodShape>> ClusterInput::Shape(const std::string& ns,
                                                                 const std::string& path,
                                                                 const Json& pod_template) {
  api::PodContext context;
  context.path = path;
  context.ns = ns;
  if (const auto ranges = limit_ranges_.find(ns); ranges != limit_ranges_.end()) {
    for (const auto& [name, range] : ranges->second) {
      context.limit_ranges.push_back(&range);
    }
  }
  const std::string& runtime_class = pod_template["spec"]["runtimeClassName"].AsString();
  if (const auto found = runtime_classes_.find(runtime_class); found != runtime_classes_.end()) {
    context.runtime_class = &found->second;
  } else if (!runtime_class.empty()) {
    unknown_runtime_classes_.insert(runtime_class);
  }
  TRY_ASSIGN(api::PodShape shape, api::ShapeOf(pod_template, context));
  const std::vector<std::string> violations = api::CheckLimits(pod_template, context);
  if (!violations.empty()) {
    return Fail(ErrorCode::kInvalid, violations.front());
  }
  by_namespace_labels_ |= ByNamespaceLabels(shape);
  return api::InternShape(std::move(shape));
}

std::vector<std::string> ClusterInput::Notes() const {
  std::vector<std::string> notes;
  if (unbound_pods_ > 0) {
    notes.push_back(Count(unbound_pods_, "Pod") +
                    " without a node left out: they may take places first");
  }
  if (const size_t pods = PodsWithoutClaims(); pods > 0) {
    notes.push_back(Count(pods, "Pod") +
                    " with a ResourceClaim that is not in the input: its devices count as free");
  }
  for (const std::string& name : unknown_runtime_classes_) {
    notes.push_back("RuntimeClass " + name + " is not in the input: no overhead counted");
  }
  if (by_namespace_labels_) {
    for (const std::string& ns : used_namespaces_) {
      if (!namespaces_.contains(ns)) {
        notes.push_back("Namespace " + ns + " is not in the input: no labels but its name");
      }
    }
  }
  return notes;
}

Json TemplateOfJob(const Json& job, const Json& pod_template) {
  if (job["spec"]["manualSelector"].AsBool()) {
    return pod_template;
  }
  Json metadata = pod_template["metadata"].IsObject() ? pod_template["metadata"] : Json::Obj({});
  Json labels = metadata["labels"].IsObject() ? metadata["labels"] : Json::Obj({});
  labels.Set(kJobName, job["metadata"]["name"].AsString());
  metadata.Set("labels", std::move(labels));
  Json out = pod_template;
  out.Set("metadata", std::move(metadata));
  return out;
}

}  // namespace tutti::cli
