// SPDX-License-Identifier: Apache-2.0
// A pod as the watch shows it, with what is needed of one that is queued by itself or as member of
// a pod group: label kueue.x-k8s.io/managed, and a sign that it was held at its creation.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "api/core.h"
#include "base/json.h"
#include "base/result.h"
#include "base/time.h"

namespace tutti::reconciler {

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

struct WatchedPod : api::Pod {
  std::shared_ptr<const QueuedPod> queued;  // null: not queued by itself

  [[nodiscard]] bool HasNode() const { return !node_name.empty(); }
};

Result<WatchedPod> WatchedPodFromJson(const Json& json);

// Pods of a group that ask for the same have the same role: the annotation
// kueue.x-k8s.io/role-hash, or, without it, the first 8 hex digits of a SHA-256 over what matters
// to admission, by Kueue's rule. It is the name of the role's pod set. `spec` is as the API server
// sends it: the order of its members counts.
[[nodiscard]] std::string RoleOf(const api::ObjectMeta& meta, const Json& spec);

// Name of the pod group: annotation, else label; "" = none.
[[nodiscard]] std::string GroupNameOf(const api::ObjectMeta& pod);

}  // namespace tutti::reconciler
