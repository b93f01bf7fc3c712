// SPDX-License-Identifier: Apache-2.0
// Configuration objects as the engine uses them: names interned, amounts as numbers, everything
// that has no influence on decisions dropped. Equal values mean that nothing has to be decided
// again, so a watch event of a mere status change costs a comparison.
#pragma once

#include <string>
#include <vector>

#include "api/kueue.h"
#include "engine/engine.h"
#include "engine/ids.h"
#include "engine/quota_tree.h"

namespace tutti::engine {

struct Tables {
  Names<FlavorId> flavors;
  Names<ResourceId> resources;
  FlavorResources pairs;
};

struct FlavorConfig {
  bool exists = false;
  CapacityMode mode = CapacityMode::kRequire;
  api::StringMap labels;
  std::vector<api::Taint> taints;
  std::vector<api::Toleration> tolerations;
  bool operator==(const FlavorConfig&) const = default;
};

struct FlavorQuota {
  FlavorId flavor;
  std::vector<FlavorResourceId> pairs;  // by covered resource
  std::vector<QuotaLimits> limits;      // by covered resource
  bool operator==(const FlavorQuota&) const = default;
};

struct GroupConfig {
  std::vector<ResourceId> resources;  // covered
  std::vector<FlavorQuota> flavors;   // in order of preference
  bool operator==(const GroupConfig&) const = default;
};

// Where a resource is in a ClusterQueue.
struct ResourcePosition {
  size_t group = 0;
  size_t index = 0;
  bool operator==(const ResourcePosition&) const = default;
};

struct QueueConfig {
  std::string cohort;
  double fair_weight = 1;
  bool strict_fifo = false;
  bool usage_based = false;  // admission mode UsageBasedAdmissionFairSharing
  api::FlavorFungibility fungibility;
  api::Preemption preemption;
  bool stopped = false;
  bool terminating = false;
  std::string problem;
  api::LabelSelector selector;
  std::vector<GroupConfig> groups;
  bool operator==(const QueueConfig&) const = default;

  // Null when the ClusterQueue does not cover the resource.
  [[nodiscard]] const ResourcePosition* Find(ResourceId resource) const;
  void IndexResources();

 private:
  std::vector<std::pair<ResourceId, ResourcePosition>> positions_;  // sorted
};

struct CohortConfig {
  std::string parent;
  double fair_weight = 1;
  std::string problem;
  std::vector<GroupConfig> groups;
  bool operator==(const CohortConfig&) const = default;
};

FlavorConfig Compile(const api::ResourceFlavor& flavor);
// Negative quotas count as 0, a resource that a flavor leaves out as quota 0, a second mention of a
// resource or flavor is dropped: what validation refuses does no harm here.
QueueConfig Compile(const api::ClusterQueue& queue, Tables& tables);
CohortConfig Compile(const api::Cohort& cohort, Tables& tables);

}  // namespace tutti::engine
