// SPDX-License-Identifier: Apache-2.0
// The steps are those of SetDefaults_Pod, of the admission plugins LimitRanger and RuntimeClass,
// and of the request aggregation that kube-scheduler uses (KEP-753 sidecars, KEP-2837 pod-level
// resources, KEP-1287 in-place resize). Pure, but for the table of interned shapes.
#include "api/pod_requests.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <unordered_map>

#include "api/decode.h"
#include "api/pod_rules.h"
#include "api/storage.h"

namespace tutti::api {
namespace {

struct Container {
  const Json* json = nullptr;
  std::string path;  // spec.template.spec.containers[0]
  bool sidecar = false;
  ResourceList requests;
  ResourceList limits;
};

struct PodSpec {
  std::string path;  // spec.template.spec
  std::vector<Container> containers;
  std::vector<Container> init_containers;
  bool has_pod_level = false;
  ResourceList pod_requests;
  ResourceList pod_limits;
  ResourceList overhead;
};

using ListOf = ResourceList Container::*;
using Problems = std::vector<std::string>;

bool SupportedAtPodLevel(std::string_view resource) {
  return resource == "cpu" || resource == "memory" || resource.starts_with("hugepages-");
}

void FillAbsent(ResourceList& target, const ResourceList& from) {
  target.insert(from.begin(), from.end());
}

void AddList(ResourceList& sum, const ResourceList& more) {
  for (const auto& [resource, quantity] : more) {
    const auto [it, inserted] = sum.emplace(resource, quantity);
    if (!inserted) {
      it->second = it->second + quantity;
    }
  }
}

void MaxList(ResourceList& target, const ResourceList& other) {
  for (const auto& [resource, quantity] : other) {
    const auto [it, inserted] = target.emplace(resource, quantity);
    if (!inserted && quantity > it->second) {
      it->second = quantity;
    }
  }
}

void MinList(ResourceList& target, const ResourceList& other) {
  for (const auto& [resource, quantity] : other) {
    const auto [it, inserted] = target.emplace(resource, quantity);
    if (!inserted && quantity < it->second) {
      it->second = quantity;
    }
  }
}

// Reads what is well formed, rounded as the API server stores it, and appends a message for each
// entry that is not.
ResourceList ReadList(const Json& json, const std::string& path, Problems& problems) {
  ResourceList out;
  if (!json.IsNull() && !json.IsObject()) {
    problems.push_back(path + ": must be a map of resource names to quantities");
    return out;
  }
  for (const auto& [resource, value] : json.AsObject()) {
    Result<Quantity> quantity = Quantity::FromJson(value);
    if (!quantity) {
      problems.push_back(path + "[" + resource + "]: " + quantity.error().message);
    } else if (quantity->Sign() < 0) {
      problems.push_back(path + "[" + resource + "]: \"" + quantity->ToString() +
                         "\" must not be negative");
    } else {
      out[resource] = quantity->RoundedUpToMilli();
    }
  }
  return out;
}

std::vector<Container> ReadContainers(const Json& list, const std::string& path,
                                      Problems& problems) {
  std::vector<Container> out;
  out.reserve(list.AsArray().size());
  for (const Json& json : list.AsArray()) {
    Container container;
    container.json = &json;
    container.path = path + "[" + std::to_string(out.size()) + "]";
    container.sidecar = json["restartPolicy"].AsString() == "Always";
    const Json& resources = json["resources"];
    if (!resources.IsNull()) {
      container.requests =
          ReadList(resources["requests"], container.path + ".resources.requests", problems);
      container.limits =
          ReadList(resources["limits"], container.path + ".resources.limits", problems);
    }
    out.push_back(std::move(container));
  }
  return out;
}

PodSpec ReadPodSpec(const Json& pod, const std::string& path, Problems& problems) {
  PodSpec out;
  out.path = path.empty() ? "spec" : path + ".spec";
  const Json& spec = pod["spec"];
  out.containers = ReadContainers(spec["containers"], out.path + ".containers", problems);
  out.init_containers =
      ReadContainers(spec["initContainers"], out.path + ".initContainers", problems);
  const Json& resources = spec["resources"];
  if (resources.IsObject()) {
    out.has_pod_level = true;
    out.pod_requests = ReadList(resources["requests"], out.path + ".resources.requests", problems);
    out.pod_limits = ReadList(resources["limits"], out.path + ".resources.limits", problems);
  }
  out.overhead = ReadList(spec["overhead"], out.path + ".overhead", problems);
  return out;
}

// Sum of the containers and sidecars, but at least what any init container needs together with the
// sidecars before it.
ResourceList Aggregate(const PodSpec& spec, ListOf list) {
  ResourceList sum;
  for (const Container& container : spec.containers) {
    AddList(sum, container.*list);
  }
  ResourceList sidecars;
  ResourceList highest;
  for (const Container& container : spec.init_containers) {
    if (container.sidecar) {
      AddList(sum, container.*list);
      AddList(sidecars, container.*list);
      MaxList(highest, sidecars);
    } else {
      ResourceList now = container.*list;
      AddList(now, sidecars);
      MaxList(highest, now);
    }
  }
  MaxList(sum, highest);
  return sum;
}

void DefaultRequestsFromLimits(PodSpec& spec) {
  for (Container& container : spec.containers) {
    FillAbsent(container.requests, container.limits);
  }
  for (Container& container : spec.init_containers) {
    FillAbsent(container.requests, container.limits);
  }
}

void DefaultPodLevel(PodSpec& spec) {
  if (spec.pod_requests.empty() && spec.pod_limits.empty()) {
    return;
  }
  for (const auto& [resource, quantity] : Aggregate(spec, &Container::limits)) {
    if (resource.starts_with("hugepages-") && !spec.pod_requests.contains(resource)) {
      spec.pod_limits.emplace(resource, quantity);
    }
  }
  if (spec.pod_limits.empty()) {
    return;
  }
  for (const auto& [resource, quantity] : Aggregate(spec, &Container::requests)) {
    if (resource == "cpu" || resource == "memory") {
      spec.pod_requests.emplace(resource, quantity);
    }
  }
  for (const auto& [resource, quantity] : spec.pod_limits) {
    if (SupportedAtPodLevel(resource)) {
      spec.pod_requests.emplace(resource, quantity);
    }
  }
}

void ApplyLimitRanges(PodSpec& spec, const std::vector<const LimitRange*>& ranges) {
  for (const LimitRange* range : ranges) {
    ResourceList limits;
    ResourceList requests;
    for (const LimitRangeItem& item : range->items) {
      if (item.type != "Container") {
        continue;
      }
      for (const auto& [resource, quantity] : item.default_limit) {
        limits[resource] = quantity;  // within one object the last item wins
      }
      for (const auto& [resource, quantity] : item.default_request) {
        requests[resource] = quantity;
      }
    }
    for (std::vector<Container>* list : {&spec.containers, &spec.init_containers}) {
      for (Container& container : *list) {
        FillAbsent(container.limits, limits);
        FillAbsent(container.requests, requests);
      }
    }
  }
}

PodSpec ReadDefaulted(const Json& pod, const PodContext& context, Problems& problems) {
  PodSpec spec = ReadPodSpec(pod, context.path, problems);
  DefaultRequestsFromLimits(spec);
  DefaultPodLevel(spec);
  ApplyLimitRanges(spec, context.limit_ranges);
  if (context.runtime_class != nullptr && spec.overhead.empty()) {
    spec.overhead = context.runtime_class->overhead;
  }
  return spec;
}

ResourceList TotalRequests(const PodSpec& spec) {
  ResourceList out = Aggregate(spec, &Container::requests);
  for (const auto& [resource, quantity] : spec.pod_requests) {
    if (SupportedAtPodLevel(resource)) {
      out[resource] = quantity;
    }
  }
  AddList(out, spec.overhead);
  return out;
}

bool Overflows(std::string_view resource, const Quantity& quantity) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  return resource == "cpu" ? quantity > Quantity::FromMilli(kMax)
                           : quantity > Quantity::FromInt(kMax);
}

std::vector<Requirement> ReadRequirements(const Json& list) {
  std::vector<Requirement> out;
  for (const Json& item : list.AsArray()) {
    out.push_back(
        {item["key"].AsString(), item["operator"].AsString(), ReadStrings(item["values"])});
  }
  return out;
}

void ReadHostPorts(const Container& container, bool host_network, std::vector<HostPort>& out) {
  for (const Json& port : (*container.json)["ports"].AsArray()) {
    int32_t number = ReadInt32(port["hostPort"]);
    if (number == 0 && host_network) {
      number = ReadInt32(port["containerPort"]);
    }
    if (number > 0) {
      const std::string& protocol = port["protocol"].AsString();
      out.push_back({port["hostIP"].AsString(), protocol.empty() ? "TCP" : protocol, number});
    }
  }
}

// Extended resources, and the names that ask for a device class directly.
bool MayBeDevices(std::string_view resource) {
  if (resource.starts_with("deviceclass.resource.kubernetes.io/"))
    return true;
  return resource.find('/') != std::string_view::npos &&
         resource.find("kubernetes.io/") == std::string_view::npos &&
         !resource.starts_with("requests.");
}

void ReadContainerResources(const PodSpec& spec, std::vector<ContainerResource>& out) {
  int32_t container = 0;
  for (const auto* list : {&spec.init_containers, &spec.containers}) {
    for (const Container& part : *list) {
      int32_t index = 0;
      for (const auto& [resource, quantity] : part.requests) {
        // The scheduler makes no device request of a fraction.
        const int64_t amount = quantity.Value();
        if (MayBeDevices(resource) && amount > 0 && Quantity::FromInt(amount) == quantity) {
          out.push_back(
              {container, list == &spec.init_containers && !part.sidecar, resource, amount, index});
        }
        ++index;
      }
      ++container;
    }
  }
}

// Disks that kube-scheduler compares between pods (VolumeRestrictions) or counts (NodeVolumeLimits,
// CSI migration).
constexpr std::string_view kInlineDisks[] = {
    "awsElasticBlockStore", "azureDisk", "cinder", "gcePersistentDisk", "iscsi",
    "portworxVolume",       "rbd"};

Status ReadVolumes(const Json& volumes, const std::string& path, const std::string& ns,
                   PodShape& out) {
  PodVolumes found;
  found.ns = ns;
  for (const Json& volume : volumes.AsArray()) {
    const std::string& name = volume["name"].AsString();
    const Json& made = volume["ephemeral"]["volumeClaimTemplate"];
    if (volume["persistentVolumeClaim"].IsObject()) {
      found.claims.push_back(
          {name, volume["persistentVolumeClaim"]["claimName"].AsString(), std::nullopt});
    } else if (made.IsObject()) {
      Result<VolumeClaimSpec> spec = VolumeClaimSpecFromJson(made);
      if (!spec) {
        return Fail(
            spec.error().With(path + ".volumes[" + name + "].ephemeral.volumeClaimTemplate"));
      }
      found.claims.push_back({name, "", std::move(*spec)});
    }
    out.has_inline_disks = out.has_inline_disks ||
                           std::any_of(std::begin(kInlineDisks), std::end(kInlineDisks),
                                       [&](std::string_view kind) { return volume.Has(kind); });
  }
  if (!found.claims.empty()) {
    out.volumes = std::move(found);
  }
  return {};
}

Status ReadPlacement(const Json& pod, const PodSpec& parsed, const std::string& ns, PodShape& out) {
  const Json& spec = pod["spec"];
  out.node_selector = StringMapFromJson(spec["nodeSelector"]);
  Result<std::vector<Toleration>> tolerations = TolerationsFromJson(spec["tolerations"]);
  if (!tolerations) {
    return Fail(Error{ErrorCode::kInvalid, parsed.path + "." + tolerations.error().message, 0,
                      std::nullopt});
  }
  out.tolerations = std::move(*tolerations);
  static constexpr std::string_view kRequired = "requiredDuringSchedulingIgnoredDuringExecution";
  const Json& affinity = spec["affinity"];
  const Json& required = affinity["nodeAffinity"][kRequired];
  out.has_required_affinity = required.IsObject();
  for (const Json& item : required["nodeSelectorTerms"].AsArray()) {
    NodeSelectorTerm term{ReadRequirements(item["matchExpressions"]),
                          ReadRequirements(item["matchFields"])};
    if (!term.expressions.empty() || !term.fields.empty()) {
      out.required_affinity.push_back(std::move(term));
    }
  }
  const bool host_network = spec["hostNetwork"].AsBool();
  for (const Container& container : parsed.init_containers) {
    if (container.sidecar) {
      ReadHostPorts(container, host_network, out.host_ports);
    }
  }
  for (const Container& container : parsed.containers) {
    ReadHostPorts(container, host_network, out.host_ports);
  }
  std::sort(out.host_ports.begin(), out.host_ports.end());
  const std::string& scheduler = spec["schedulerName"].AsString();
  out.scheduler_name = scheduler == "default-scheduler" ? "" : scheduler;
  out.node_name = spec["nodeName"].AsString();

  const auto non_empty = [](const Json& list) { return !list.AsArray().empty(); };
  ReadRules(pod, ns, out);
  TRY(ReadVolumes(spec["volumes"], parsed.path, ns, out));
  for (const Json& claim : spec["resourceClaims"].AsArray()) {
    out.claims.push_back({claim["name"].AsString(), claim["resourceClaimName"].AsString(),
                          claim["resourceClaimTemplateName"].AsString()});
  }
  ReadContainerResources(parsed, out.container_resources);
  out.has_scheduling_gates = non_empty(spec["schedulingGates"]);
  return {};
}

// A resize in progress: what was asked, what runs and what the node has set aside, the largest of
// them; what was asked does not count once the node has refused it.
ResourceList Effective(const ResourceList& spec, const Json& actuated, const Json& allocated,
                       bool infeasible) {
  Problems ignored;
  ResourceList out = infeasible ? ResourceList() : spec;
  MaxList(out, ReadList(actuated, "", ignored));
  MaxList(out, ReadList(allocated, "", ignored));
  return out;
}

void ApplyStatus(const Json& status, PodSpec& spec) {
  bool infeasible = false;
  for (const Json& condition : status["conditions"].AsArray()) {
    if (condition["type"].AsString() == "PodResizePending") {
      infeasible = condition["reason"].AsString() == "Infeasible";
      break;
    }
  }
  const auto apply = [&](const Json& statuses, std::vector<Container>& containers, bool all) {
    for (const Json& item : statuses.AsArray()) {
      const Json& resources = item["resources"];
      if (!resources.IsObject()) {
        continue;
      }
      for (Container& container : containers) {
        if ((all || container.sidecar) &&
            (*container.json)["name"].AsString() == item["name"].AsString()) {
          container.requests = Effective(container.requests, resources["requests"],
                                         item["allocatedResources"], infeasible);
        }
      }
    }
  };
  apply(status["containerStatuses"], spec.containers, true);
  apply(status["initContainerStatuses"], spec.init_containers, false);
  const Json& pod_level = status["resources"];
  if (pod_level.IsObject() && !spec.pod_requests.empty()) {
    ResourceList effective = Effective(spec.pod_requests, pod_level["requests"],
                                       status["allocatedResources"], infeasible);
    for (auto& [resource, quantity] : spec.pod_requests) {
      const auto it = effective.find(resource);
      quantity = it == effective.end() ? Quantity() : it->second;
    }
  }
}

// "path: Invalid value: ["cpu"]: text (cpu: 3 > 2)" for the resources where `larger` exceeds
// `smaller`; resources in only one of them are not compared.
void CompareLists(const std::string& path, std::string_view text, const ResourceList& larger,
                  const ResourceList& smaller, Problems& out) {
  std::string names;
  std::string amounts;
  for (const auto& [resource, quantity] : larger) {
    const auto it = smaller.find(resource);
    if (it == smaller.end() || ToAmount(resource, quantity) <= ToAmount(resource, it->second)) {
      continue;
    }
    names += (names.empty() ? "\"" : ",\"") + resource + "\"";
    amounts += (amounts.empty() ? "" : ", ") + resource + ": " + quantity.ToString() + " > " +
               it->second.ToString();
  }
  if (!names.empty()) {
    out.push_back(path + ": Invalid value: [" + names + "]: " + std::string(text) + " (" + amounts +
                  ")");
  }
}

void CheckRequestsWithinLimits(const PodSpec& spec, Problems& out) {
  static constexpr std::string_view kText = "requests must not exceed its limits";
  for (const auto* list : {&spec.init_containers, &spec.containers}) {
    for (const Container& container : *list) {
      CompareLists(container.path, kText, container.requests, container.limits, out);
    }
  }
  if (spec.has_pod_level) {
    CompareLists(spec.path + ".resources", kText, spec.pod_requests, spec.pod_limits, out);
  }
}

size_t HashOf(const PodShape& shape) {
  size_t hash = 1469598103934665603ULL;
  const auto mix = [&](size_t value) { hash = (hash ^ value) * 1099511628211ULL; };
  const std::hash<std::string> text;
  for (const auto& [resource, amount] : shape.requests) {
    mix(text(resource));
    mix(static_cast<size_t>(amount));
  }
  for (const auto& [key, value] : shape.node_selector) {
    mix(text(key));
    mix(text(value));
  }
  for (const Toleration& toleration : shape.tolerations) {
    mix(text(toleration.key));
    mix(text(toleration.value));
  }
  mix(shape.required_affinity.size());
  mix(shape.host_ports.size());
  for (const PodClaim& claim : shape.claims) {
    mix(text(claim.name));
    mix(text(claim.claim));
    mix(text(claim.claim_template));
  }
  if (shape.volumes) {
    mix(text(shape.volumes->ns));
    for (const PodVolume& volume : shape.volumes->claims) {
      mix(text(volume.name));
      mix(text(volume.claim));
    }
  }
  mix(shape.container_resources.size());
  mix(text(shape.scheduler_name));
  mix(text(shape.node_name));
  if (shape.rules) {
    mix(text(shape.rules->ns));
    for (const auto& [key, value] : shape.rules->labels) {
      mix(text(key));
      mix(text(value));
    }
  }
  return hash;
}

}  // namespace

Result<PodShape> ShapeOf(const Json& pod, const PodContext& context) {
  Problems problems;
  const PodSpec spec = ReadDefaulted(pod, context, problems);
  if (!problems.empty()) {
    return Fail(ErrorCode::kInvalid, problems.front());
  }
  CheckRequestsWithinLimits(spec, problems);
  if (!problems.empty()) {
    return Fail(ErrorCode::kInvalid, std::string(kRequestsAboveLimits) + Aggregate(problems));
  }
  PodShape out;
  for (const auto& [resource, quantity] : TotalRequests(spec)) {
    if (Overflows(resource, quantity)) {
      return Fail(ErrorCode::kInvalid, spec.path + ": the pod's total request of " + resource +
                                           ", " + quantity.ToString() +
                                           ", is beyond 64 bits; ask for less");
    }
    out.requests.emplace_hint(out.requests.end(), resource, ToAmount(resource, quantity));
  }
  TRY(ReadPlacement(pod, spec, context.ns, out));
  return out;
}

Result<PodShape> ShapeOfRunning(const Json& pod) {
  Problems problems;
  PodSpec spec = ReadPodSpec(pod, "", problems);
  if (!problems.empty()) {
    return Fail(ErrorCode::kInvalid, problems.front());
  }
  DefaultRequestsFromLimits(spec);
  ApplyStatus(pod["status"], spec);
  PodShape out;
  out.requests = ToAmounts(TotalRequests(spec));
  TRY(ReadPlacement(pod, spec, pod["metadata"]["namespace"].AsString(), out));
  out.node_name.clear();
  return out;
}

std::shared_ptr<const PodShape> InternShape(PodShape shape) {
  struct Table {
    std::mutex mutex;
    std::unordered_multimap<size_t, std::weak_ptr<const PodShape>> shapes;
    size_t sweep_at = 1024;
  };
  static Table& table = *new Table;  // outlives all threads
  const size_t hash = HashOf(shape);
  const std::lock_guard lock(table.mutex);
  const auto [begin, end] = table.shapes.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    if (std::shared_ptr<const PodShape> known = it->second.lock(); known && *known == shape) {
      return known;
    }
  }
  if (table.shapes.size() >= table.sweep_at) {
    std::erase_if(table.shapes, [](const auto& entry) { return entry.second.expired(); });
    table.sweep_at = std::max<size_t>(1024, table.shapes.size() * 2);
  }
  auto added = std::make_shared<const PodShape>(std::move(shape));
  table.shapes.emplace(hash, added);
  return added;
}

std::vector<std::string> CheckQuantities(const Json& pod, const std::string& path) {
  Problems problems;
  const PodSpec spec = ReadPodSpec(pod, path, problems);
  const auto check = [&](const std::string& where, const ResourceList& list) {
    if (list.contains("pods")) {
      problems.push_back(where + "[pods]: the name is reserved; remove it");
    }
  };
  for (const auto* containers : {&spec.init_containers, &spec.containers}) {
    for (const Container& container : *containers) {
      check(container.path + ".resources.requests", container.requests);
      check(container.path + ".resources.limits", container.limits);
    }
  }
  check(spec.path + ".resources.requests", spec.pod_requests);
  check(spec.path + ".resources.limits", spec.pod_limits);
  return problems;
}

std::string Aggregate(const std::vector<std::string>& problems) {
  std::string text;
  for (const std::string& problem : problems) {
    text += (text.empty() ? "" : ", ") + problem;
  }
  return problems.size() > 1 ? "[" + text + "]" : text;
}

std::vector<std::string> CheckLimits(const Json& pod, const PodContext& context) {
  static constexpr std::string_view kAboveMax = "requests must not be above the limitRange max";
  static constexpr std::string_view kBelowMin = "requests must not be below the limitRange min";
  Problems out;
  const PodSpec spec = ReadDefaulted(pod, context, out);
  if (!out.empty()) {
    return out;
  }
  CheckRequestsWithinLimits(spec, out);
  // Of several ranges the strictest bound counts.
  LimitRangeItem per_container;
  LimitRangeItem per_pod;
  for (const LimitRange* range : context.limit_ranges) {
    for (const LimitRangeItem& item : range->items) {
      if (item.type == "Container" || item.type == "Pod") {
        LimitRangeItem& summary = item.type == "Pod" ? per_pod : per_container;
        MinList(summary.max, item.max);
        MaxList(summary.min, item.min);
      }
    }
  }
  for (const auto* containers : {&spec.init_containers, &spec.containers}) {
    for (const Container& container : *containers) {
      ResourceList lowest = container.requests;
      MinList(lowest, container.limits);
      ResourceList highest = container.requests;
      MaxList(highest, container.limits);
      CompareLists(container.path, kAboveMax, highest, per_container.max, out);
      CompareLists(container.path, kBelowMin, per_container.min, lowest, out);
    }
  }
  const ResourceList total = TotalRequests(spec);
  CompareLists(spec.path, kAboveMax, total, per_pod.max, out);
  CompareLists(spec.path, kBelowMin, per_pod.min, total, out);
  return out;
}

}  // namespace tutti::api
