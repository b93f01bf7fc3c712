// SPDX-License-Identifier: Apache-2.0
// See config.h.
#include "engine/config.h"

#include <algorithm>
#include <optional>
#include <set>

namespace tutti::engine {

namespace {

Amount NotNegative(const std::string& resource, const api::Quantity& quantity) {
  return std::max<int64_t>(0, api::ToAmount(resource, quantity));
}

QuotaLimits CompileLimits(const api::ResourceQuota& quota) {
  QuotaLimits limits;
  limits.nominal = NotNegative(quota.name, quota.nominal);
  if (quota.borrowing_limit) {
    limits.borrowing = NotNegative(quota.name, *quota.borrowing_limit);
  }
  if (quota.lending_limit) {
    limits.lending = NotNegative(quota.name, *quota.lending_limit);
  }
  return limits;
}

std::vector<GroupConfig> CompileGroups(const std::vector<api::ResourceGroup>& groups,
                                       Tables& tables) {
  std::vector<GroupConfig> compiled;
  std::set<std::string> seen_resources;
  std::set<std::string> seen_flavors;
  for (const api::ResourceGroup& group : groups) {
    GroupConfig out;
    std::vector<std::string> covered;
    for (const std::string& resource : group.covered_resources) {
      if (seen_resources.insert(resource).second) {
        covered.push_back(resource);
        out.resources.push_back(tables.resources.Intern(resource));
      }
    }
    for (const api::FlavorQuotas& flavor : group.flavors) {
      if (!seen_flavors.insert(flavor.name).second) {
        continue;
      }
      FlavorQuota quota;
      quota.flavor = tables.flavors.Intern(flavor.name);
      for (size_t index = 0; index < covered.size(); ++index) {
        quota.pairs.push_back(tables.pairs.Intern(quota.flavor, out.resources[index]));
        auto found = std::find_if(
            flavor.resources.begin(), flavor.resources.end(),
            [&](const api::ResourceQuota& resource) { return resource.name == covered[index]; });
        quota.limits.push_back(found == flavor.resources.end() ? QuotaLimits{}
                                                               : CompileLimits(*found));
      }
      out.flavors.push_back(std::move(quota));
    }
    compiled.push_back(std::move(out));
  }
  return compiled;
}

}  // namespace

const ResourcePosition* QueueConfig::Find(ResourceId resource) const {
  auto position =
      std::lower_bound(positions_.begin(), positions_.end(), resource,
                       [](const auto& entry, ResourceId key) { return entry.first < key; });
  return position != positions_.end() && position->first == resource ? &position->second : nullptr;
}

void QueueConfig::IndexResources() {
  positions_.clear();
  for (size_t group = 0; group < groups.size(); ++group) {
    for (size_t index = 0; index < groups[group].resources.size(); ++index) {
      positions_.emplace_back(groups[group].resources[index], ResourcePosition{group, index});
    }
  }
  std::sort(positions_.begin(), positions_.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
}

FlavorConfig Compile(const api::ResourceFlavor& flavor) {
  FlavorConfig config;
  config.exists = true;
  config.labels = flavor.node_labels;
  config.taints = flavor.node_taints;
  config.tolerations = flavor.tolerations;
  return config;
}

QueueConfig Compile(const api::ClusterQueue& queue, Tables& tables) {
  QueueConfig config;
  config.cohort = queue.cohort;
  config.fair_weight = queue.fair_weight.ApproximateDouble();
  config.strict_fifo = queue.strict_fifo;
  config.usage_based = queue.usage_based_admission;
  config.fungibility = queue.fungibility;
  config.preemption = queue.preemption;
  config.stopped = queue.stop_policy != api::StopPolicy::kNone;
  config.terminating = queue.meta.deleted.has_value();
  config.problem = queue.problem;
  config.selector = queue.namespace_selector;
  config.groups = CompileGroups(queue.groups, tables);
  config.IndexResources();
  return config;
}

CohortConfig Compile(const api::Cohort& cohort, Tables& tables) {
  CohortConfig config;
  config.parent = cohort.parent;
  config.fair_weight = cohort.fair_weight.ApproximateDouble();
  config.problem = cohort.problem;
  config.groups = CompileGroups(cohort.groups, tables);
  return config;
}

}  // namespace tutti::engine
