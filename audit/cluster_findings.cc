// SPDX-License-Identifier: Apache-2.0
#include "audit/cluster_findings.h"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>
#include <utility>

#include "api/pod_requests.h"
#include "audit/text.h"

namespace tutti::audit {
namespace {

constexpr size_t kMostShapes = 64;    // kinds of pods that fragments are judged by
constexpr size_t kMostReasons = 500;  // gangs whose wait is explained
constexpr std::string_view kProduct = "nvidia.com/gpu.product";
constexpr std::string_view kMemory = "nvidia.com/gpu.memory";
constexpr std::string_view kMig = "nvidia.com/mig-";

std::string Verdict(engine::FitKind kind) {
  switch (kind) {
    case engine::FitKind::kFits:
      return "fits now";
    case engine::FitKind::kNotNow:
      return "no room now";
    case engine::FitKind::kNever:
      return "fits never";
    case engine::FitKind::kUndecided:
      return "left to the scheduler";
  }
  return "";
}

// A queue's gate is not the pod's own wish.
std::shared_ptr<const api::PodShape> WithoutGates(
    const std::shared_ptr<const api::PodShape>& shape) {
  if (!shape->has_scheduling_gates) {
    return shape;
  }
  api::PodShape out = *shape;
  out.has_scheduling_gates = false;
  return api::InternShape(std::move(out));
}

// The pods that a gang still needs a node for.
Result<engine::Gang> StillToPlace(const Facts& facts, const Gang& gang, int32_t missing) {
  engine::Gang out;
  out.id = gang.ns + "/" + gang.name;
  std::vector<std::pair<std::shared_ptr<const api::PodShape>, int32_t>> kinds;
  int32_t left = missing;
  for (const PodTimes& pod : gang.pods) {
    if (pod.bound != kNoTime || pod.ended || left == 0) {
      continue;
    }
    --left;
    const auto shape = WithoutGates(pod.shape);
    const auto found = std::find_if(kinds.begin(), kinds.end(),
                                    [&](const auto& kind) { return kind.first == shape; });
    if (found == kinds.end()) {
      kinds.emplace_back(shape, 1);
    } else {
      ++found->second;
    }
  }
  for (const auto& [shape, count] : kinds) {
    out.pod_sets.push_back({"pods-" + std::to_string(out.pod_sets.size()), count, shape, {}, {}});
  }
  // Pods that nobody has made yet, from the templates.
  for (const PartOfGang& part : gang.parts) {
    const int32_t count = std::min(part.count, left);
    if (count <= 0 || part.pod_template == nullptr) {
      continue;
    }
    TRY_ASSIGN(const Json pod_template, Json::Parse(*part.pod_template));
    TRY_ASSIGN(auto shape, facts.cluster->Shape(gang.ns, "spec.template", pod_template));
    out.pod_sets.push_back({part.name, count, WithoutGates(shape), {}, {}});
    left -= count;
  }
  return out;
}

void Waiting(const Facts& facts, ClusterFindings& out, std::vector<std::string>& notes) {
  for (size_t i = 0; i < facts.gangs.size(); ++i) {
    const Gang& gang = facts.gangs[i];
    if (!gang.known || gang.finished) {
      continue;
    }
    WaitingGang waiting;
    waiting.gang = i;
    waiting.since = gang.created;
    int32_t done = 0;
    for (const PodTimes& pod : gang.pods) {
      waiting.bound += pod.bound != kNoTime && !pod.ended ? 1 : 0;
      done += pod.succeeded ? 1 : 0;
    }
    waiting.missing = gang.size - waiting.bound - done;
    if (waiting.missing > 0 && (gang.pods.empty() ? gang.active == 0 : true)) {
      out.waiting.push_back(std::move(waiting));
    }
  }
  std::stable_sort(out.waiting.begin(), out.waiting.end(),
                   [](const auto& a, const auto& b) { return a.since < b.since; });
  size_t unexplained = 0;
  for (size_t i = 0; i < out.waiting.size(); ++i) {
    WaitingGang& waiting = out.waiting[i];
    if (facts.cluster->Nodes() == 0 || i >= kMostReasons) {
      ++unexplained;
      continue;
    }
    const Gang& gang = facts.gangs[waiting.gang];
    const Result<engine::Gang> wanted = StillToPlace(facts, gang, waiting.missing);
    if (!wanted) {
      waiting.verdict = "can't be read";
      waiting.why = wanted.error().message;
    } else if (wanted->pod_sets.empty()) {
      waiting.verdict = "not known";
      waiting.why = "its pods are not made yet, and nothing says what they ask for";
    } else {
      const engine::FitResult fit = facts.capacity->Check(*wanted);
      waiting.verdict = Verdict(fit.kind);
      waiting.why = fit.message;
    }
  }
  if (unexplained > 0 && facts.cluster->Nodes() > 0) {
    notes.push_back("of the gangs that wait only the " + std::to_string(kMostReasons) +
                    " that wait longest are explained");
  }
}

bool Matches(const NodeFacts& node, const api::ResourceFlavor& flavor) {
  return std::all_of(flavor.node_labels.begin(), flavor.node_labels.end(), [&](const auto& label) {
    const std::string* value = api::FindIn(node.labels, label.first);
    return value != nullptr && *value == label.second;
  });
}

bool Compared(const std::string& resource) {
  return resource == "cpu" || resource == "memory" || IsAccelerator(resource);
}

void Quotas(const Facts& facts, ClusterFindings& out) {
  if (facts.cluster->Nodes() == 0) {
    return;
  }
  struct Held {
    api::Amounts amounts;
    int32_t nodes = 0;
  };
  std::map<std::string, Held> held;
  for (const auto& [name, flavor] : facts.flavors) {
    Held& all = held[name];
    for (const NodeFacts& node : facts.nodes) {
      if (node.known && Matches(node, flavor)) {
        ++all.nodes;
        api::AddTo(all.amounts, node.allocatable);
      }
    }
  }
  std::map<std::pair<std::string, std::string>, std::pair<int64_t, int>> sums;
  const auto compare = [&](const std::string& queue, const std::string& flavor,
                           const std::string& resource, int64_t quota) {
    const auto found = held.find(flavor);
    if (found == held.end()) {
      return;  // the flavor isn't there: its queue is inactive, and says so
    }
    const auto amount = found->second.amounts.find(resource);
    const int64_t capacity = amount == found->second.amounts.end() ? 0 : amount->second;
    if (quota > capacity) {
      out.quotas.push_back({queue, flavor, resource, quota, capacity, found->second.nodes});
    }
  };
  for (const auto& [name, queue] : facts.cluster_queues) {
    for (const api::ResourceGroup& group : queue.groups) {
      for (const api::FlavorQuotas& flavor : group.flavors) {
        for (const api::ResourceQuota& quota : flavor.resources) {
          if (Compared(quota.name)) {
            const int64_t amount = api::ToAmount(quota.name, quota.nominal);
            compare(name, flavor.name, quota.name, amount);
            auto& [sum, queues] = sums[{flavor.name, quota.name}];
            sum = api::SaturatingAdd(sum, amount);
            ++queues;
          }
        }
      }
    }
  }
  for (const auto& [key, sum] : sums) {
    if (sum.second > 1) {
      compare("", key.first, key.second, sum.first);
    }
  }
}

int64_t Of(const api::Amounts& amounts, std::string_view resource) {
  const auto found = amounts.find(std::string(resource));
  return found == amounts.end() ? 0 : found->second;
}

// How many pods of this shape have a place on each node, beside each other and what is there.
std::map<std::string, int64_t> Places(const Facts& facts,
                                      const std::shared_ptr<const api::PodShape>& shape,
                                      int64_t most) {
  const auto check = [&](int64_t count) {
    engine::Gang gang;
    gang.id = "fragments";
    gang.pod_sets.push_back({"main", static_cast<int32_t>(count), shape, {}, {}});
    return facts.capacity->Check(gang, engine::Reason::kNone);
  };
  int64_t fits = 0;
  std::map<std::string, int64_t> out;
  int64_t no = std::min<int64_t>(most, 1'000'000) + 1;
  while (fits + 1 < no) {
    const int64_t middle = fits + (no - fits) / 2;
    const engine::FitResult result = check(middle);
    if (result.kind != engine::FitKind::kFits) {
      no = middle;
      continue;
    }
    fits = middle;
    out.clear();
    for (const engine::PlacementSlot& slot : result.placement) {
      out[slot.node] += slot.count;
    }
  }
  return out;
}

std::string WhyStranded(const NodeFacts& node, const Facts& facts, const std::string& resource,
                        int64_t free, bool some_fit) {
  if (node.unschedulable) {
    return "the node is cordoned";
  }
  if (!node.ready) {
    return "the node is not ready";
  }
  if (some_fit) {
    return "left over beside whole pods of the sizes that jobs ask for";
  }
  const api::PodShape* smallest = nullptr;
  for (const auto& shape : facts.demand) {
    if (const int64_t asks = Of(shape->requests, resource);
        asks > 0 && (smallest == nullptr || asks < Of(smallest->requests, resource))) {
      smallest = shape.get();
    }
  }
  const int64_t least = Of(smallest->requests, resource);
  if (free < least) {
    return "no job asks for fewer than " + std::to_string(least) + " on one node";
  }
  for (const std::string other : {"cpu", "memory"}) {
    const int64_t left = Of(node.allocatable, other) - Of(node.used, other);
    if (left < Of(smallest->requests, other)) {
      return "only " + api::FormatAmount(other, std::max<int64_t>(left, 0)) + " " + other +
             " left beside them; the smallest pod asks for " +
             api::FormatAmount(other, Of(smallest->requests, other));
    }
  }
  return "taints, labels or room for other things keep every job of the input away";
}

void Fragments(const Facts& facts, ClusterFindings& out, std::vector<std::string>& notes) {
  std::set<std::string> resources;
  for (const NodeFacts& node : facts.nodes) {
    for (const auto& [resource, amount] : node.allocatable) {
      if (amount > 0 && IsAccelerator(resource)) {
        resources.insert(resource);
        out.totals[resource].allocatable += amount;
        out.totals[resource].used += std::min(Of(node.used, resource), amount);
      }
    }
  }
  for (const std::string& resource : resources) {
    const int64_t free_in_all = out.totals[resource].allocatable - out.totals[resource].used;
    std::map<std::string, int64_t> usable;
    size_t shapes = 0;
    bool more = false;
    for (const auto& shape : facts.demand) {
      const int64_t asks = Of(shape->requests, resource);
      if (asks == 0) {
        continue;
      }
      if (++shapes > kMostShapes) {
        more = true;
        break;
      }
      for (const auto& [node, count] : Places(facts, shape, free_in_all / asks)) {
        usable[node] = std::max(usable[node], count * asks);
      }
    }
    if (shapes == 0) {
      notes.push_back("no job in the input asks for " + resource +
                      ": whether its free devices can be used isn't judged");
      continue;
    }
    if (more) {
      notes.push_back("fragments of " + resource + " are judged by the " +
                      std::to_string(kMostShapes) + " most common kinds of pods");
    }
    for (const NodeFacts& node : facts.nodes) {
      const int64_t free = Of(node.allocatable, resource) - Of(node.used, resource);
      const auto found = usable.find(node.name);
      const int64_t can = found == usable.end() ? 0 : found->second;
      if (node.known && free > can) {
        out.totals[resource].stranded += free - can;
        out.fragments.push_back({node.name, resource, free - can, free,
                                 WhyStranded(node, facts, resource, free, can > 0)});
      }
    }
  }
  std::stable_sort(out.fragments.begin(), out.fragments.end(),
                   [](const Fragment& a, const Fragment& b) { return a.stranded > b.stranded; });
}

// Labels by which a pod chooses the kind of its devices.
api::StringMap DeviceLabels(const api::PodShape& shape) {
  constexpr std::array<std::string_view, 6> kLabels = {kProduct,
                                                       kMemory,
                                                       "nvidia.com/gpu.family",
                                                       "cloud.google.com/gke-accelerator",
                                                       "k8s.amazonaws.com/accelerator",
                                                       "amd.com/gpu.product-name"};
  api::StringMap out;
  const auto take = [&](const std::string& key, const std::string& value) {
    if (std::find(kLabels.begin(), kLabels.end(), key) != kLabels.end()) {
      out[key] = value;
    }
  };
  for (const auto& [key, value] : shape.node_selector) {
    take(key, value);
  }
  for (const api::NodeSelectorTerm& term : shape.required_affinity) {
    for (const api::Requirement& one : term.expressions) {
      if (one.op == "In" && one.values.size() == 1) {
        take(one.key, one.values.front());
      } else if (one.op == "Gt" && one.values.size() == 1) {
        take(one.key, "> " + one.values.front());
      }
    }
  }
  return out;
}

// What the NVIDIA driver publishes of a device, by the label that stands for it.
std::pair<std::string, std::string> ClassAndSelector(const std::string& resource,
                                                     const api::StringMap& wanted) {
  const std::string domain = "[\"gpu.nvidia.com\"]";
  if (resource.starts_with(kMig)) {
    return {"mig.nvidia.com",
            "device.attributes" + domain + ".profile == \"" + resource.substr(kMig.size()) + "\""};
  }
  if (resource != "nvidia.com/gpu") {
    return {};
  }
  std::string selector;
  const auto also = [&](const std::string& text) {
    selector += (selector.empty() ? "" : " && ") + text;
  };
  if (const std::string* product = api::FindIn(wanted, kProduct)) {
    also("device.attributes" + domain + ".productName.replace(\" \", \"-\") == \"" + *product +
         "\"");
  }
  if (const std::string* memory = api::FindIn(wanted, kMemory)) {
    const bool more = memory->starts_with("> ");
    also("device.capacity" + domain + ".memory.compareTo(quantity(\"" +
         (more ? memory->substr(2) : *memory) + "Mi\")) " + (more ? ">" : ">=") + " 0");
  }
  return {"gpu.nvidia.com", selector};
}

void Claims(const Facts& facts, ClusterFindings& out) {
  std::map<std::pair<std::string, api::StringMap>, ClaimHint> hints;
  for (const Gang& gang : facts.gangs) {
    std::set<std::pair<std::string, api::StringMap>> once;
    for (const PodTimes& pod : gang.pods) {
      for (const auto& [resource, amount] : pod.shape->requests) {
        if (amount == 0 || !IsAccelerator(resource)) {
          continue;
        }
        const api::StringMap wanted = DeviceLabels(*pod.shape);
        if ((wanted.empty() && !resource.starts_with(kMig)) ||
            !once.insert({resource, wanted}).second) {
          continue;
        }
        ClaimHint& hint = hints[{resource, wanted}];
        if (hint.gangs++ == 0) {
          hint.resource = resource;
          hint.wanted = wanted;
          hint.example = gang.Title();
          std::tie(hint.device_class, hint.selector) = ClassAndSelector(resource, wanted);
        }
      }
    }
  }
  for (auto& [key, hint] : hints) {
    out.claims.push_back(std::move(hint));
  }
  std::stable_sort(out.claims.begin(), out.claims.end(),
                   [](const ClaimHint& a, const ClaimHint& b) { return a.gangs > b.gangs; });
}

}  // namespace

ClusterFindings LookAtCluster(const Facts& facts, std::vector<std::string>& notes) {
  ClusterFindings out;
  Waiting(facts, out, notes);
  Quotas(facts, out);
  Fragments(facts, out, notes);
  Claims(facts, out);
  return out;
}

}  // namespace tutti::audit
