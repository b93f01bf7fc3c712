// SPDX-License-Identifier: Apache-2.0
// The parts of core Kubernetes objects that decisions need, decoded once when an event arrives.
// Everything else of an object is dropped (memory of the caches is decided here). What must be
// written back verbatim (pod templates) is kept as compact JSON text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/meta.h"
#include "api/quantity.h"
#include "base/json.h"
#include "base/result.h"

namespace tutti::api {

struct Taint {
  std::string key;
  std::string value;
  std::string effect;  // NoSchedule, PreferNoSchedule, NoExecute
  bool operator==(const Taint&) const = default;
};

struct Toleration {
  std::string key;  // "" with Exists = every key
  std::string op;   // "" = Equal
  std::string value;
  std::string effect;  // "" = every effect
  std::optional<int64_t> seconds;
  bool operator==(const Toleration&) const = default;
  [[nodiscard]] bool Tolerates(const Taint& taint) const;
};

// One requirement of a label or node selector (In, NotIn, Exists, DoesNotExist, Gt, Lt).
struct Requirement {
  std::string key;
  std::string op;
  std::vector<std::string> values;
  bool operator==(const Requirement&) const = default;
  // An unknown operator matches nothing.
  [[nodiscard]] bool Matches(const StringMap& labels) const;
};

struct NodeSelectorTerm {
  std::vector<Requirement> expressions;  // on labels
  std::vector<Requirement> fields;       // metadata.name only
  bool operator==(const NodeSelectorTerm&) const = default;
  // A term without any requirement matches nothing (Kubernetes' rule).
  [[nodiscard]] bool Matches(const StringMap& labels, std::string_view node_name) const;
};

// v1.NodeSelector: terms are ORed; without a term it matches nothing.
struct NodeSelector {
  std::vector<NodeSelectorTerm> terms;
  bool operator==(const NodeSelector&) const = default;
  [[nodiscard]] bool Matches(const StringMap& labels, std::string_view node_name) const;
};

// metav1.LabelSelector; a nil selector matches nothing, an empty one everything.
struct LabelSelector {
  bool present = false;
  std::vector<Requirement> requirements;  // matchLabels turned into In
  bool operator==(const LabelSelector&) const = default;
  [[nodiscard]] bool Matches(const StringMap& labels) const;
};
Result<LabelSelector> LabelSelectorFromJson(const Json& json);

struct HostPort {
  std::string ip;        // "" and 0.0.0.0 = every address
  std::string protocol;  // TCP by default
  int32_t port = 0;
  auto operator<=>(const HostPort&) const = default;
};
[[nodiscard]] bool Clash(const HostPort& a, const HostPort& b);

// spec.resourceClaims[]: one of the two names is set.
struct PodClaim {
  std::string name;
  std::string claim;           // resourceClaimName
  std::string claim_template;  // resourceClaimTemplateName
  auto operator<=>(const PodClaim&) const = default;
};

// What one container asks of a resource that a device class may stand for (KEP-5004).
struct ContainerResource {
  int32_t container = 0;     // index in initContainers followed by containers
  bool short_lived = false;  // an init container that is no sidecar
  std::string resource;
  int64_t amount = 0;  // > 0
  int32_t index = 0;   // of the resource among the container's requests, sorted by name
  auto operator<=>(const ContainerResource&) const = default;
};

// A term of required inter-pod affinity or anti-affinity; label keys are merged (pod_rules.h).
struct PodAffinityTerm {
  std::string topology_key;
  LabelSelector selector;
  std::vector<std::string> namespaces;  // sorted
  LabelSelector namespace_selector;     // by labels of the namespace, besides the names
  bool operator==(const PodAffinityTerm&) const = default;
  [[nodiscard]] bool Matches(const std::string& ns, const StringMap& ns_labels,
                             const StringMap& labels) const;
};

// A topology spread constraint with DoNotSchedule.
struct SpreadConstraint {
  std::string topology_key;
  LabelSelector selector;   // over pods of the same namespace
  int32_t max_skew = 1;     // > 0
  int32_t min_domains = 1;  // > 0
  bool honor_affinity = true;
  bool honor_taints = false;
  bool operator==(const SpreadConstraint&) const = default;
};

// Rules about other pods, and what of the pod itself they may match.
struct PodRules {
  std::string ns;
  StringMap labels;  // without those that differ from pod to pod
  std::vector<PodAffinityTerm> affinity;
  std::vector<PodAffinityTerm> anti_affinity;
  std::vector<SpreadConstraint> spread;
  bool operator==(const PodRules&) const = default;
};

// What a PersistentVolumeClaim asks for: its spec, or that of the template in a pod.
struct VolumeClaimSpec {
  // Nothing: the cluster's default class, if there is one when the claim is made.
  std::optional<std::string> storage_class;
  std::vector<std::string> access_modes;  // ReadWriteOnce, ReadWriteOncePod, …
  bool block = false;                     // volumeMode Block
  std::optional<Quantity> storage;        // resources.requests.storage
  LabelSelector selector;                 // of volumes; not present: any
  std::string volume_name;
  std::string attributes_class;
  bool operator==(const VolumeClaimSpec&) const = default;
};

// spec.volumes[] that stand for a claim: one that exists, or one made for each pod.
struct PodVolume {
  std::string name;
  std::string claim;                    // "" with `made`
  std::optional<VolumeClaimSpec> made;  // generic ephemeral volume
  bool operator==(const PodVolume&) const = default;
};

struct PodVolumes {
  std::string ns;
  std::vector<PodVolume> claims;  // in the pod's order; not empty
  bool operator==(const PodVolumes&) const = default;
};

// What placing one pod takes: the result of all defaulting (see pod_requests.h). Equal shapes are
// shared, so a gang of identical pods has one pointer.
struct PodShape {
  Amounts requests;  // kube-scheduler's PodRequests: cpu in milli, the rest in units
  StringMap node_selector;
  std::vector<NodeSelectorTerm> required_affinity;  // terms are ORed
  bool has_required_affinity = false;               // present though all terms were dropped
  std::vector<Toleration> tolerations;
  std::vector<HostPort> host_ports;
  std::string scheduler_name;                          // "" = default-scheduler
  std::string node_name;                               // preset spec.nodeName
  std::vector<PodClaim> claims;                        // in the pod's order
  std::vector<ContainerResource> container_resources;  // in the order of the containers
  bool has_pod_affinity = false;                       // required inter-pod (anti)affinity
  bool has_topology_spread = false;                    // DoNotSchedule constraints
  std::optional<PodRules> rules;      // these two; nothing though there are some: can't be read
  std::optional<PodVolumes> volumes;  // those with claims; nothing: none has
  // Things the scheduler checks that Tutti leaves to it; each is said in the pending message.
  bool has_inline_disks = false;  // disks of in-tree plugins in the pod itself
  bool has_scheduling_gates = false;
  bool operator==(const PodShape&) const = default;
};

struct Pod {
  ObjectMeta meta;
  std::string phase;  // Pending, Running, Succeeded, Failed, Unknown
  std::string node_name;
  std::string scheduling_group;  // spec.schedulingGroup.podGroupName
  bool ready = false;
  bool scheduled = false;                 // condition PodScheduled True or nodeName set
  std::string unschedulable_message;      // of PodScheduled=False, else ""
  std::shared_ptr<const PodShape> shape;  // requests of a running pod per UseStatusResources
  [[nodiscard]] bool Terminal() const { return phase == "Succeeded" || phase == "Failed"; }
};

struct Node {
  ObjectMeta meta;
  bool unschedulable = false;
  std::vector<Taint> taints;
  Amounts allocatable;
};

struct Namespace {
  ObjectMeta meta;
};

struct PriorityClass {
  ObjectMeta meta;
  int32_t value = 0;
  bool global_default = false;
};

struct RuntimeClass {
  ObjectMeta meta;
  ResourceList overhead;
};

struct LimitRangeItem {
  std::string type;  // Container, Pod, PersistentVolumeClaim
  ResourceList max, min, default_limit, default_request;
};
struct LimitRange {
  ObjectMeta meta;
  std::vector<LimitRangeItem> items;
};

// scheduling.k8s.io PodGroup (v1alpha2 of 1.36, v1beta1 of 1.37).
struct PodGroup {
  // One of the two names is set.
  ObjectMeta meta;
  int32_t min_count = 0;                 // 0 = basic policy
  std::vector<PodClaim> claims;          // spec.resourceClaims
  std::vector<std::string> made_claims;  // status.resourceClaimStatuses[].name
  Conditions conditions;
};

Result<Pod> PodFromJson(const Json& json);
Result<Node> NodeFromJson(const Json& json);
Result<Namespace> NamespaceFromJson(const Json& json);
Result<PriorityClass> PriorityClassFromJson(const Json& json);
Result<RuntimeClass> RuntimeClassFromJson(const Json& json);
Result<LimitRange> LimitRangeFromJson(const Json& json);
Result<PodGroup> PodGroupFromJson(const Json& json);
Result<std::vector<Toleration>> TolerationsFromJson(const Json& json);
Result<std::vector<Taint>> TaintsFromJson(const Json& json);
Json ToJson(const std::vector<Toleration>& tolerations);

}  // namespace tutti::api
