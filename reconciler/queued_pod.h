// SPDX-License-Identifier: Apache-2.0
// A pod as the watch shows it, with what is needed of one that is queued by itself, as member of a
// pod group or as a StatefulSet's: label kueue.x-k8s.io/managed (a StatefulSet's gets it at its
// start), and a sign that it was held at its creation.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/core.h"
#include "base/json.h"
#include "base/result.h"
#include "base/time.h"

namespace tutti::reconciler {

// What the annotation kueue.x-k8s.io/pod-suspending-parent says on the pods of a queued
// StatefulSet; also the name of the framework.
inline constexpr std::string_view kStatefulSetParent = "statefulset";

struct QueuedPod {
  std::string spec_json;      // compact, as it is
  std::string role;           // of a group member: RoleOf
  std::string message;        // status.message
  bool gated = false;         // has the gate kueue.x-k8s.io/admission
  bool stopped = false;       // was told that it has to go (condition TerminationTarget)
  int64_t grace_seconds = 0;  // metadata.deletionGracePeriodSeconds
  // Since when it is known as failed (ContainersReady is False for that reason); kNoTime.
  Time failed_at = kNoTime;
};

// A pod of an elastic job that waits for quota (gate kueue.x-k8s.io/elastic-job).
struct SliceHold {
  std::vector<std::string> other_gates;
  api::StringMap node_selector;
};

struct WatchedPod : api::Pod {
  std::shared_ptr<const QueuedPod> queued;      // null: not queued by itself
  std::shared_ptr<const SliceHold> slice_hold;  // null: not held by that gate

  [[nodiscard]] bool HasNode() const { return !node_name.empty(); }
};

using PodPtr = std::shared_ptr<const WatchedPod>;

Result<WatchedPod> WatchedPodFromJson(const Json& json);

// Pods of a group that ask for the same have the same role: the annotation
// kueue.x-k8s.io/role-hash, or, without it, the first 8 hex digits of a SHA-256 over what matters
// to admission, by Kueue's rule. It is the name of the role's pod set. `spec` is as the API server
// sends it: the order of its members counts.
[[nodiscard]] std::string RoleOf(const api::ObjectMeta& meta, const Json& spec);

// Whether pods of these specs have the same role by that rule, whatever wrote the two and in which
// order.
[[nodiscard]] bool SameRole(const Json& spec, const Json& other);

// Name of the pod group: annotation, else label; "" = none.
[[nodiscard]] std::string GroupNameOf(const api::ObjectMeta& pod);

}  // namespace tutti::reconciler
