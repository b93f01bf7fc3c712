// SPDX-License-Identifier: Apache-2.0
// See fit_message.h.
#include "engine/fit_message.h"

#include "api/quantity.h"

namespace tutti::engine {
namespace {

std::string Join(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts)
    text += (text.empty() ? "" : ", ") + part;
  return text;
}

std::string Label(const std::string& resource) {
  return resource == "pods" ? "pod slots" : resource;
}

// Devices and pod slots are plain numbers; a quantity would make 8,000 of them "8k".
std::string Amount(const std::string& resource, int64_t amount) {
  const bool measured = resource == "cpu" || resource == "memory" ||
                        resource == "ephemeral-storage" || resource.starts_with("hugepages-");
  return measured ? api::FormatAmount(resource, amount) : std::to_string(amount);
}

std::string Nodes(int64_t count) {
  return std::to_string(count) + (count == 1 ? " node" : " nodes");
}

std::string TaintText(const NodeCounts& nodes) {
  std::vector<std::string> shown;
  for (const std::string& taint : nodes.taints) {
    if (shown.size() == 2) {
      shown.emplace_back("...");
      break;
    }
    shown.push_back(taint);
  }
  return std::to_string(nodes.tainted) + " tainted (" + Join(shown) + ")";
}

std::string NodeText(const KindFacts& kind) {
  const NodeCounts& nodes = kind.nodes;
  std::vector<std::string> parts;
  if (nodes.full > 0)
    parts.push_back(std::to_string(nodes.full) + " full");
  if (nodes.port_taken > 0)
    parts.push_back(std::to_string(nodes.port_taken) + " with the host port taken");
  if (nodes.no_devices > 0)
    parts.push_back(std::to_string(nodes.no_devices) + " without the devices");
  if (nodes.no_volumes > 0)
    parts.push_back(std::to_string(nodes.no_volumes) + " without the volumes");
  if (nodes.too_small > 0)
    parts.push_back(std::to_string(nodes.too_small) + " too small");
  if (nodes.cordoned > 0)
    parts.push_back(std::to_string(nodes.cordoned) + " cordoned");
  if (nodes.tainted > 0)
    parts.push_back(TaintText(nodes));
  std::string text = Nodes(nodes.matching) + (nodes.matching == 1 ? " matches" : " match");
  if (!kind.selection.empty())
    text += " " + kind.selection;
  if (!parts.empty())
    text += ": " + Join(parts);
  return text;
}

std::string RequestText(const KindFacts& kind) {
  std::vector<std::string> parts;
  for (const ResourceFacts& resource : kind.resources) {
    if (resource.name == "pods")
      continue;
    parts.push_back(resource.name + " " + Amount(resource.name, resource.request));
  }
  return Join(parts);
}

std::string ShortText(const FitFacts& facts, const KindFacts& kind) {
  const int64_t missing = kind.count - kind.placed;
  // One kind: each node could serve its pods, but they see the same devices.
  if (facts.alone_each_fits && facts.kinds.size() == 1 && !kind.devices.empty())
    return kind.devices;
  if (facts.alone_each_fits)
    return "the podsets fit one by one but not together";
  if (const ResourceFacts* scarce = ShortResource(kind)) {
    std::string text = "short of " + Label(scarce->name) + ": " +
                       Amount(scarce->name, api::SaturatingMul(missing, scarce->request)) +
                       " more needed";
    if (scarce->request > 1 && scarce->name != "pods") {
      text += ", " + Amount(scarce->name, scarce->request) + " per pod on one node";
    }
    if (scarce->enough_in_total)
      text += " (enough is free in all, but in smaller pieces)";
    return text;
  }
  if (!kind.devices.empty())
    return kind.devices;
  if (!kind.volumes.empty()) {
    return "short of nodes with the volumes: room for " + std::to_string(missing) + " more needed";
  }
  if (kind.has_ports) {
    return "short of nodes with host port " + kind.ports + " free: " + std::to_string(missing) +
           " more needed";
  }
  return "short of nodes with " + RequestText(kind) + " together: room for " +
         std::to_string(missing) + " more needed";
}

// Why not even one pod of this kind can ever run; "" when one can.
std::string NotEvenOne(const KindFacts& kind) {
  if (kind.nodes.matching == 0) {
    return kind.selection.empty() ? "the cluster has no node" : "no node matches " + kind.selection;
  }
  if (kind.nodes.Usable() == 0)
    return "no usable node: " + NodeText(kind);
  if (kind.nodes.no_volumes == kind.nodes.Usable())
    return "no usable node has the volumes: " + kind.volumes + " (" + NodeText(kind) + ")";
  if (kind.nodes.too_small < kind.nodes.Usable())
    return "";
  for (const ResourceFacts& resource : kind.resources) {
    if (resource.largest >= resource.request)
      continue;
    return "a pod needs " + Label(resource.name) + " " + Amount(resource.name, resource.request) +
           ", the largest usable node has " + Amount(resource.name, resource.largest) + " (" +
           NodeText(kind) + ")";
  }
  return "no node has " + RequestText(kind) + " together (" + NodeText(kind) + ")";
}

}  // namespace

const ResourceFacts* ShortResource(const KindFacts& kind) {
  const ResourceFacts* scarce = nullptr;
  for (const ResourceFacts& resource : kind.resources) {
    if (resource.places >= kind.count)
      continue;
    if (scarce == nullptr || resource.places < scarce->places)
      scarce = &resource;
  }
  return scarce;
}

std::string FitMessage(const FitFacts& facts) {
  const KindFacts& kind = facts.kinds[facts.blocking];
  const bool several = facts.kinds.size() > 1;
  const std::string prefix = several ? "podset " + kind.pod_sets + ": " : "";
  if (facts.never) {
    if (std::string reason = NotEvenOne(kind); !reason.empty()) {
      return "can't ever fit as the cluster is: " + prefix + reason;
    }
  }
  int64_t count = 0;
  int64_t placed = 0;
  std::vector<std::string> parts;
  for (const KindFacts& k : facts.kinds) {
    count += k.count;
    placed += k.placed;
    parts.push_back(k.pod_sets + " " + std::to_string(k.placed) + " of " + std::to_string(k.count));
  }
  const std::string fits = std::to_string(placed) + " of " + std::to_string(count) + " pods";
  std::string text =
      facts.never ? "can't ever fit as the cluster is: room for " + fits + " when it is empty"
                  : fits + " fit now";
  if (several)
    text += " (" + Join(parts) + ")";
  text += "; " + prefix + ShortText(facts, kind);
  if (facts.gave_up)
    text += "; no arrangement was found within the limit of the search";
  text += "; " + NodeText(kind);
  if (!kind.volumes.empty())
    text += "; " + kind.volumes;
  if (!kind.holders.empty())
    text += "; most is held by " + Join(kind.holders);
  return text;
}

}  // namespace tutti::engine
