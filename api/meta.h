// SPDX-License-Identifier: Apache-2.0
// Object metadata, conditions and the table of kinds that Tutti reads or writes. Plain values.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/time.h"

namespace tutti::api {

using StringMap = std::map<std::string, std::string>;

struct ObjectKey {
  std::string ns;  // empty for cluster-scoped kinds
  std::string name;
  auto operator<=>(const ObjectKey&) const = default;
  [[nodiscard]] std::string ToString() const { return ns.empty() ? name : ns + "/" + name; }
};

struct OwnerReference {
  std::string api_version;
  std::string kind;
  std::string name;
  std::string uid;
  bool controller = false;
  bool operator==(const OwnerReference&) const = default;
};

struct ObjectMeta {
  std::string name;
  std::string ns;
  std::string uid;
  std::string resource_version;  // opaque: equality only
  int64_t generation = 0;
  Time created = kNoTime;
  std::optional<Time> deleted;  // deletionTimestamp
  StringMap labels;
  StringMap annotations;
  std::vector<OwnerReference> owners;
  std::vector<std::string> finalizers;

  [[nodiscard]] ObjectKey Key() const { return {ns, name}; }
  [[nodiscard]] const OwnerReference* Controller() const;
  [[nodiscard]] std::string_view Label(std::string_view key) const;       // "" when absent
  [[nodiscard]] std::string_view Annotation(std::string_view key) const;  // "" when absent
  [[nodiscard]] bool HasFinalizer(std::string_view name) const;
};

ObjectMeta MetaFromJson(const Json& metadata);
StringMap StringMapFromJson(const Json& json);
Json ToJson(const StringMap& map);
Json ToJson(const OwnerReference& owner);
const std::string* FindIn(const StringMap& map, std::string_view key);  // null when absent

// metav1.Condition.
struct Condition {
  std::string type;
  std::string status;  // True, False, Unknown
  std::string reason;
  std::string message;
  Time last_transition = kNoTime;
  int64_t observed_generation = 0;
  bool operator==(const Condition&) const = default;
};
using Conditions = std::vector<Condition>;

[[nodiscard]] const Condition* FindCondition(const Conditions& conditions, std::string_view type);
[[nodiscard]] bool IsTrue(const Conditions& conditions, std::string_view type);
// Adds or replaces; last_transition changes only with the status. True when anything but the
// transition time changed. The message is cut at 32,768 bytes (API limit) at a character boundary.
bool SetCondition(Conditions& conditions, Condition condition, Time now);
bool RemoveCondition(Conditions& conditions, std::string_view type);
Conditions ConditionsFromJson(const Json& json);
Json ToJson(const Conditions& conditions);

enum class Kind {
  kJob,
  kPod,
  kNode,
  kNamespace,
  kLimitRange,
  kPriorityClass,
  kRuntimeClass,
  kPodGroup,
  kResourceSlice,
  kDeviceClass,
  kResourceClaim,
  kResourceClaimTemplate,
  kPersistentVolumeClaim,
  kPersistentVolume,
  kStorageClass,
  kCsiNode,
  kCsiDriver,
  kCsiStorageCapacity,
  kVolumeAttachment,
  kWorkload,
  kClusterQueue,
  kLocalQueue,
  kCohort,
  kResourceFlavor,
  kAdmissionCheck,
  kTopology,
  kWorkloadPriorityClass,
  kEvent,
  kLease,
};

// How a kind is addressed. PodGroup's version depends on the server (discovery) and is passed in.
struct Resource {
  std::string group;  // "" = core
  std::string version;
  std::string plural;
  std::string kind;
  bool namespaced = true;
  [[nodiscard]] std::string ApiVersion() const {
    return group.empty() ? version : group + "/" + version;
  }
  // /api/v1/namespaces/ns/pods/name, without a name the collection; ns "" = all namespaces.
  [[nodiscard]] std::string Path(std::string_view ns, std::string_view name = {},
                                 std::string_view subresource = {}) const;
};
[[nodiscard]] Resource ResourceOf(Kind kind);

}  // namespace tutti::api
