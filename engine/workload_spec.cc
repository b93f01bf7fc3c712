// SPDX-License-Identifier: Apache-2.0
#include "engine/workload_spec.h"

#include <string_view>

namespace tutti::engine {

namespace {

void Put(std::string& key, std::string_view text) {
  const auto size = static_cast<uint32_t>(text.size());
  key.append(std::to_string(size)).append(":").append(text);
}

void Put(std::string& key, int64_t number) {
  key.append(std::to_string(number)).append(",");
}

void Put(std::string& key, const api::Requirement& requirement) {
  Put(key, requirement.key);
  Put(key, requirement.op);
  Put(key, static_cast<int64_t>(requirement.values.size()));
  for (const std::string& value : requirement.values) {
    Put(key, value);
  }
}

void Put(std::string& key, const api::Amounts& amounts) {
  Put(key, static_cast<int64_t>(amounts.size()));
  for (const auto& [resource, amount] : amounts) {
    Put(key, resource);
    Put(key, amount);
  }
}

void Put(std::string& key, const api::StringMap& labels) {
  Put(key, static_cast<int64_t>(labels.size()));
  for (const auto& [label, value] : labels) {
    Put(key, label);
    Put(key, value);
  }
}

void Put(std::string& key, const std::vector<api::Requirement>& requirements) {
  Put(key, static_cast<int64_t>(requirements.size()));
  for (const api::Requirement& requirement : requirements) {
    Put(key, requirement);
  }
}

void Put(std::string& key, const api::LabelSelector& selector) {
  Put(key, selector.present ? 1 : 0);
  Put(key, selector.requirements);
}

void Put(std::string& key, const std::vector<api::PodAffinityTerm>& terms) {
  Put(key, static_cast<int64_t>(terms.size()));
  for (const api::PodAffinityTerm& term : terms) {
    Put(key, term.topology_key);
    Put(key, term.selector);
    Put(key, static_cast<int64_t>(term.namespaces.size()));
    for (const std::string& ns : term.namespaces) {
      Put(key, ns);
    }
    Put(key, term.namespace_selector);
  }
}

void Put(std::string& key, const api::PodRules& rules) {
  Put(key, rules.ns);
  Put(key, rules.labels);
  Put(key, rules.affinity);
  Put(key, rules.anti_affinity);
  Put(key, static_cast<int64_t>(rules.spread.size()));
  for (const api::SpreadConstraint& constraint : rules.spread) {
    Put(key, constraint.topology_key);
    Put(key, constraint.selector);
    Put(key, constraint.max_skew);
    Put(key, constraint.min_domains);
    Put(key, (constraint.honor_affinity ? 1 : 0) + (constraint.honor_taints ? 2 : 0));
  }
}

void Put(std::string& key, const api::PodVolumes& volumes) {
  Put(key, volumes.ns);
  for (const api::PodVolume& volume : volumes.claims) {
    Put(key, volume.name);
    Put(key, volume.claim);
    Put(key, volume.made ? 1 : 0);
    if (!volume.made)
      continue;
    const api::VolumeClaimSpec& spec = *volume.made;
    Put(key, spec.storage_class ? 1 : 0);
    Put(key, spec.storage_class.value_or(""));
    Put(key, static_cast<int64_t>(spec.access_modes.size()));
    for (const std::string& mode : spec.access_modes)
      Put(key, mode);
    Put(key, (spec.block ? 1 : 0) + (spec.storage ? 2 : 0));
    Put(key, spec.storage.value_or(api::Quantity()).ToString());
    Put(key, spec.selector);
    Put(key, spec.volume_name);
    Put(key, spec.attributes_class);
  }
}

void Put(std::string& key, const api::PodShape& shape) {
  Put(key, shape.requests);
  Put(key, shape.node_selector);
  Put(key, static_cast<int64_t>(shape.required_affinity.size()));
  for (const api::NodeSelectorTerm& term : shape.required_affinity) {
    Put(key, term.expressions);
    Put(key, term.fields);
  }
  Put(key, static_cast<int64_t>(shape.tolerations.size()));
  for (const api::Toleration& toleration : shape.tolerations) {
    Put(key, toleration.key);
    Put(key, toleration.op);
    Put(key, toleration.value);
    Put(key, toleration.effect);
  }
  Put(key, static_cast<int64_t>(shape.host_ports.size()));
  for (const api::HostPort& port : shape.host_ports) {
    Put(key, port.ip);
    Put(key, port.protocol);
    Put(key, port.port);
  }
  Put(key, shape.scheduler_name);
  Put(key, shape.node_name);
  Put(key, (shape.has_required_affinity ? 1 : 0) + (shape.has_pod_affinity ? 2 : 0) +
               (shape.has_topology_spread ? 4 : 0) + (shape.has_inline_disks ? 8 : 0) +
               (shape.has_scheduling_gates ? 32 : 0) + (shape.rules ? 64 : 0));
  if (shape.rules)
    Put(key, *shape.rules);
  Put(key, static_cast<int64_t>(shape.volumes ? shape.volumes->claims.size() : 0));
  if (shape.volumes)
    Put(key, *shape.volumes);
  Put(key, static_cast<int64_t>(shape.claims.size()));
  for (const api::PodClaim& claim : shape.claims) {
    Put(key, claim.name);
    Put(key, claim.claim);
    Put(key, claim.claim_template);
  }
  Put(key, static_cast<int64_t>(shape.container_resources.size()));
  for (const api::ContainerResource& resource : shape.container_resources) {
    Put(key, resource.container);
    Put(key, resource.short_lived ? 1 : 0);
    Put(key, resource.resource);
    Put(key, resource.amount);
    Put(key, resource.index);
  }
}

}  // namespace

std::string ClassKey(const WorkloadInput& input) {
  std::string key = input.preemption_gated ? "gated" : "";
  if (!input.replaces.empty()) {
    Put(key, input.id);
    Put(key, input.replaces);
  }
  Put(key, input.priority);
  for (const api::PodClaim& claim : input.group_claims) {
    Put(key, claim.name);
  }
  for (const PodSetInput& pod_set : input.pod_sets) {
    Put(key, pod_set.name);
    Put(key, pod_set.count);
    Put(key, pod_set.min_count.value_or(-1));
    Put(key, pod_set.requests);
    Put(key, *pod_set.shape);
    if (!pod_set.shape->claims.empty())
      Put(key, input.ns);  // the names mean other claims in another namespace
  }
  return key;
}

}  // namespace tutti::engine
