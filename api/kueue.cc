// SPDX-License-Identifier: Apache-2.0
// What the schema and the admission policies refuse can still be in the store: written before they
// were installed, or past them. Such an object is decoded as far as possible and carries a
// `problem`.
#include "api/kueue.h"

#include <algorithm>
#include <set>

#include "api/decode.h"
#include "api/pod_requests.h"
#include "base/names.h"

namespace tutti::api {
namespace {

constexpr size_t kMaxProblemText = 2048;

class Problems {
 public:
  void Add(const std::string& field, const std::string& text) {
    if (text_.size() < kMaxProblemText) {
      text_ += (text_.empty() ? "" : "; ") + field + ": " + text;
    }
  }
  [[nodiscard]] std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

std::string Index(const std::string& path, size_t index) {
  return path + "[" + std::to_string(index) + "]";
}

Quantity ReadQuota(const Json& json, const std::string& field, Problems& problems) {
  Result<Quantity> quantity = Quantity::FromJson(json);
  if (!quantity) {
    problems.Add(field, quantity.error().message);
    return {};
  }
  if (quantity->Sign() < 0) {
    problems.Add(field, "\"" + quantity->ToString() + "\" must not be negative");
    return {};
  }
  return std::move(*quantity);
}

struct GroupRules {
  bool has_parent = false;
  std::string parent_field;            // named in the fix
  bool lending_within_nominal = true;  // a Cohort may lend more than it has of its own
};

ResourceQuota ReadResourceQuota(const Json& json, const std::string& path, const GroupRules& rules,
                                Problems& problems) {
  ResourceQuota out;
  out.name = json["name"].AsString();
  if (json["nominalQuota"].IsNull()) {
    problems.Add(path + ".nominalQuota", "is missing; set it, 0 for none");
  } else {
    out.nominal = ReadQuota(json["nominalQuota"], path + ".nominalQuota", problems);
  }
  const auto read_limit = [&](const char* name, std::optional<Quantity>& limit) {
    if (json[name].IsNull()) {
      return;
    }
    const std::string field = path + "." + name;
    limit = ReadQuota(json[name], field, problems);
    if (!rules.has_parent) {
      problems.Add(field, "has no meaning without " + rules.parent_field + "; set " +
                              rules.parent_field + " or remove the limit");
    }
  };
  read_limit("borrowingLimit", out.borrowing_limit);
  read_limit("lendingLimit", out.lending_limit);
  if (rules.lending_within_nominal && out.lending_limit && *out.lending_limit > out.nominal) {
    problems.Add(path + ".lendingLimit", "\"" + out.lending_limit->ToString() +
                                             "\" must not be above nominalQuota \"" +
                                             out.nominal.ToString() + "\"");
  }
  return out;
}

std::vector<ResourceGroup> ReadGroups(const Json& list, const GroupRules& rules,
                                      Problems& problems) {
  std::vector<ResourceGroup> out;
  std::set<std::string> seen_resources;
  std::set<std::string> seen_flavors;
  for (const Json& json : list.AsArray()) {
    const std::string path = Index("spec.resourceGroups", out.size());
    ResourceGroup group;
    group.covered_resources = ReadStrings(json["coveredResources"]);
    for (size_t i = 0; i < group.covered_resources.size(); ++i) {
      if (!seen_resources.insert(group.covered_resources[i]).second) {
        problems.Add(Index(path + ".coveredResources", i),
                     "\"" + group.covered_resources[i] +
                         "\" is covered twice; list each resource in one group only");
      }
    }
    for (const Json& flavor_json : json["flavors"].AsArray()) {
      const std::string flavor_path = Index(path + ".flavors", group.flavors.size());
      FlavorQuotas flavor;
      flavor.name = flavor_json["name"].AsString();
      if (flavor.name.empty()) {
        problems.Add(flavor_path + ".name", "must name a ResourceFlavor");
      } else if (!seen_flavors.insert(flavor.name).second) {
        problems.Add(flavor_path + ".name",
                     "\"" + flavor.name + "\" is used twice; list each flavor once");
      }
      const auto& resources = flavor_json["resources"].AsArray();
      for (const Json& resource : resources) {
        const size_t at = flavor.resources.size();
        const std::string resource_path = Index(flavor_path + ".resources", at);
        flavor.resources.push_back(ReadResourceQuota(resource, resource_path, rules, problems));
        if (at < group.covered_resources.size() &&
            flavor.resources.back().name != group.covered_resources[at]) {
          problems.Add(resource_path + ".name",
                       "\"" + flavor.resources.back().name + "\" must be coveredResources[" +
                           std::to_string(at) + "], \"" + group.covered_resources[at] + "\"");
        }
      }
      if (resources.size() != group.covered_resources.size()) {
        problems.Add(flavor_path + ".resources",
                     "has " + std::to_string(resources.size()) + " entries, coveredResources has " +
                         std::to_string(group.covered_resources.size()) +
                         "; list the same resources in the same order");
      }
      group.flavors.push_back(std::move(flavor));
    }
    out.push_back(std::move(group));
  }
  return out;
}

Quantity ReadFairWeight(const Json& fair_sharing, Problems& problems) {
  const Json& json = fair_sharing["weight"];
  if (json.IsNull()) {
    return Quantity::FromInt(1);
  }
  static const std::string kField = "spec.fairSharing.weight";
  Result<Quantity> weight = Quantity::FromJson(json);
  if (!weight) {
    problems.Add(kField, weight.error().message);
    return Quantity::FromInt(1);
  }
  static const Quantity kSmallest = Quantity::Parse("1n").value_or(Quantity());
  if (weight->Sign() < 0 || (!weight->IsZero() && *weight <= kSmallest)) {
    problems.Add(kField, "\"" + weight->ToString() + "\" must be 0 or more than 1n");
    return Quantity::FromInt(1);
  }
  return std::move(*weight);
}

// The index of the value in `allowed`; an absent value is 0.
size_t ReadEnum(const Json& json, const std::string& field,
                std::initializer_list<std::string_view> allowed, Problems& problems) {
  if (json.IsNull() || (json.IsString() && json.AsString().empty())) {
    return 0;
  }
  size_t index = 0;
  std::string names;
  for (const std::string_view name : allowed) {
    if (json.IsString() && json.AsString() == name) {
      return index;
    }
    names += (names.empty() ? "" : ", ") + std::string(name);
    ++index;
  }
  problems.Add(field, json.Dump().substr(0, 64) + " must be one of " + names);
  return 0;
}

StopPolicy ReadStopPolicy(const Json& json, Problems& problems) {
  static constexpr StopPolicy kPolicies[] = {StopPolicy::kNone, StopPolicy::kHold,
                                             StopPolicy::kHoldAndDrain};
  return kPolicies[ReadEnum(json, "spec.stopPolicy", {"None", "Hold", "HoldAndDrain"}, problems)];
}

void ReadFungibility(const Json& json, FlavorFungibility& out, Problems& problems) {
  static const std::string kPath = "spec.flavorFungibility";
  out.borrow_try_next = ReadEnum(json["whenCanBorrow"], kPath + ".whenCanBorrow",
                                 {"MayStopSearch", "TryNextFlavor", "Borrow"}, problems) == 1;
  const size_t preempt = ReadEnum(json["whenCanPreempt"], kPath + ".whenCanPreempt",
                                  {"TryNextFlavor", "MayStopSearch", "Preempt"}, problems);
  out.preempt_try_next = preempt == 0;
  const Json& preference = json["preference"];
  out.prefer_preemption_over_borrowing =
      ReadEnum(preference, kPath + ".preference",
               {"BorrowingOverPreemption", "PreemptionOverBorrowing"}, problems) == 1;
  if (!preference.IsNull() && !(out.borrow_try_next && out.preempt_try_next)) {
    problems.Add(kPath + ".preference",
                 "needs whenCanBorrow and whenCanPreempt to be TryNextFlavor");
  }
}

void ReadPreemption(const Json& json, Preemption& out, Problems& problems) {
  static const std::string kPath = "spec.preemption";
  static constexpr PreemptionPolicy kWithin[] = {PreemptionPolicy::kNever,
                                                 PreemptionPolicy::kLowerPriority,
                                                 PreemptionPolicy::kLowerOrNewerEqualPriority};
  static constexpr PreemptionPolicy kReclaim[] = {
      PreemptionPolicy::kNever, PreemptionPolicy::kLowerPriority, PreemptionPolicy::kAny};
  out.within_cluster_queue =
      kWithin[ReadEnum(json["withinClusterQueue"], kPath + ".withinClusterQueue",
                       {"Never", "LowerPriority", "LowerOrNewerEqualPriority"}, problems)];
  out.reclaim_within_cohort =
      kReclaim[ReadEnum(json["reclaimWithinCohort"], kPath + ".reclaimWithinCohort",
                        {"Never", "LowerPriority", "Any"}, problems)];
  const Json& borrow = json["borrowWithinCohort"];
  out.borrow_within_cohort = ReadEnum(borrow["policy"], kPath + ".borrowWithinCohort.policy",
                                      {"Never", "LowerPriority"}, problems) == 1;
  out.max_priority_threshold = ReadOptionalInt32(borrow["maxPriorityThreshold"]);
  if (out.borrow_within_cohort && out.reclaim_within_cohort == PreemptionPolicy::kNever) {
    problems.Add(kPath + ".borrowWithinCohort.policy",
                 "LowerPriority needs reclaimWithinCohort other than Never");
  }
}

void ReadPodSets(const Json& list, std::vector<PodSet>& out, Problems& problems) {
  std::set<std::string> names;
  size_t with_min_count = 0;
  for (const Json& json : list.AsArray()) {
    const std::string path = Index("spec.podSets", out.size());
    PodSet pod_set;
    if (!json["name"].AsString().empty()) {
      pod_set.name = json["name"].AsString();
    }
    if (!names.insert(pod_set.name).second) {
      problems.Add(path + ".name", "\"" + pod_set.name + "\" is used twice; names must differ");
    }
    pod_set.count = ReadInt32(json["count"], 1);
    if (pod_set.count < 0) {
      problems.Add(path + ".count", "must not be negative");
      pod_set.count = 0;
    }
    pod_set.min_count = ReadOptionalInt32(json["minCount"]);
    if (pod_set.min_count) {
      ++with_min_count;
      if (*pod_set.min_count < 1 || *pod_set.min_count > pod_set.count) {
        problems.Add(path + ".minCount", std::to_string(*pod_set.min_count) +
                                             " must be between 1 and count, " +
                                             std::to_string(pod_set.count));
      }
    }
    const Json& pod_template = json["template"];
    pod_set.template_json = pod_template.IsObject() ? pod_template.Dump() : "{}";
    for (const std::string& text : CheckQuantities(pod_template, path + ".template")) {
      const size_t colon = text.find(": ");
      problems.Add(text.substr(0, colon), text.substr(colon + 2));
    }
    pod_set.topology_request = json["topologyRequest"];
    out.push_back(std::move(pod_set));
  }
  if (out.empty()) {
    problems.Add("spec.podSets", "must have at least one entry");
  }
  if (with_min_count > 1) {
    problems.Add("spec.podSets", "at most one entry may use minCount");
  }
}

}  // namespace

Result<ClusterQueue> ClusterQueueFromJson(const Json& json) {
  ClusterQueue out;
  TRY_ASSIGN(out.meta, ReadMeta(json, "ClusterQueue"));
  Problems problems;
  const Json& spec = json["spec"];
  out.cohort = (spec.Has("cohortName") ? spec["cohortName"] : spec["cohort"]).AsString();
  out.strict_fifo = ReadEnum(spec["queueingStrategy"], "spec.queueingStrategy",
                             {"BestEffortFIFO", "StrictFIFO"}, problems) == 1;
  Result<LabelSelector> selector = LabelSelectorFromJson(spec["namespaceSelector"]);
  if (selector) {
    out.namespace_selector = std::move(*selector);
  } else {
    problems.Add("spec.namespaceSelector", selector.error().message);
  }
  const GroupRules rules{!out.cohort.empty(), "cohortName", true};
  out.groups = ReadGroups(spec["resourceGroups"], rules, problems);
  ReadFungibility(spec["flavorFungibility"], out.fungibility, problems);
  ReadPreemption(spec["preemption"], out.preemption, problems);
  out.stop_policy = ReadStopPolicy(spec["stopPolicy"], problems);
  for (const Json& check : spec["admissionChecksStrategy"]["admissionChecks"].AsArray()) {
    if (!check["name"].AsString().empty()) {
      out.admission_checks.push_back({check["name"].AsString(), ReadStrings(check["onFlavors"])});
    }
  }
  out.fair_weight = ReadFairWeight(spec["fairSharing"], problems);
  out.usage_based_admission =
      spec["admissionScope"]["admissionMode"].AsString() == "UsageBasedAdmissionFairSharing";
  const Json& status = json["status"];
  out.conditions = ConditionsFromJson(status["conditions"]);
  out.status_json = status.IsObject() ? status.DumpSorted() : "";
  out.problem = problems.Take();
  return out;
}

Result<Cohort> CohortFromJson(const Json& json) {
  Cohort out;
  TRY_ASSIGN(out.meta, ReadMeta(json, "Cohort"));
  Problems problems;
  const Json& spec = json["spec"];
  out.parent = (spec.Has("parentName") ? spec["parentName"] : spec["parent"]).AsString();
  const GroupRules rules{!out.parent.empty(), "parentName", false};
  out.groups = ReadGroups(spec["resourceGroups"], rules, problems);
  out.fair_weight = ReadFairWeight(spec["fairSharing"], problems);
  out.status_json = json["status"].IsObject() ? json["status"].DumpSorted() : "";
  out.problem = problems.Take();
  return out;
}

Result<LocalQueue> LocalQueueFromJson(const Json& json) {
  LocalQueue out;
  TRY_ASSIGN(out.meta, ReadMeta(json, "LocalQueue"));
  Problems ignored;  // an unknown stopPolicy counts as None, a bad weight as 1
  out.cluster_queue = json["spec"]["clusterQueue"].AsString();
  out.stop_policy = ReadStopPolicy(json["spec"]["stopPolicy"], ignored);
  out.fair_weight = ReadFairWeight(json["spec"]["fairSharing"], ignored);
  const Json& status = json["status"];
  out.conditions = ConditionsFromJson(status["conditions"]);
  out.status_json = status.IsObject() ? status.DumpSorted() : "";
  return out;
}

Result<ResourceFlavor> ResourceFlavorFromJson(const Json& json) {
  ResourceFlavor out;
  TRY_ASSIGN(out.meta, ReadMeta(json, "ResourceFlavor"));
  const Json& spec = json["spec"];
  out.node_labels = StringMapFromJson(spec["nodeLabels"]);
  out.node_taints = TaintsFromJson(spec["nodeTaints"]).value_or(std::vector<Taint>());
  out.tolerations = TolerationsFromJson(spec["tolerations"]).value_or(std::vector<Toleration>());
  out.topology_name = spec["topologyName"].AsString();
  return out;
}

Result<AdmissionCheck> AdmissionCheckFromJson(const Json& json) {
  AdmissionCheck out;
  TRY_ASSIGN(out.meta, ReadMeta(json, "AdmissionCheck"));
  out.controller = json["spec"]["controllerName"].AsString();
  if (const Json& parameters = json["spec"]["parameters"]; parameters.IsObject()) {
    out.parameters = {parameters["apiGroup"].AsString(), parameters["kind"].AsString(),
                      parameters["name"].AsString()};
  }
  out.conditions = ConditionsFromJson(json["status"]["conditions"]);
  return out;
}

Result<Topology> TopologyFromJson(const Json& json) {
  Topology out;
  TRY_ASSIGN(out.meta, ReadMeta(json, "Topology"));
  for (const Json& level : json["spec"]["levels"].AsArray()) {
    out.levels.push_back(level["nodeLabel"].AsString());
  }
  return out;
}

Result<WorkloadPriorityClass> WorkloadPriorityClassFromJson(const Json& json) {
  WorkloadPriorityClass out;
  TRY_ASSIGN(out.meta, ReadMeta(json, "WorkloadPriorityClass"));
  out.value = ReadInt32(json["value"]);
  out.description = json["description"].AsString();
  return out;
}

Result<Workload> WorkloadFromJson(const Json& json) {
  Workload out;
  TRY_ASSIGN(out.meta, ReadMeta(json, "Workload"));
  Problems problems;
  const Json& spec = json["spec"];
  out.queue_name = spec["queueName"].AsString();
  ReadPodSets(spec["podSets"], out.pod_sets, problems);
  out.priority = ReadInt32(spec["priority"]);
  if (const Json& ref = spec["priorityClassRef"]; ref.IsObject()) {
    out.priority_class =
        PriorityClassRef{ref["group"].AsString(), ref["kind"].AsString(), ref["name"].AsString()};
  }
  out.active = spec["active"].AsBool(true);
  out.max_execution_seconds = ReadOptionalInt32(spec["maximumExecutionTimeSeconds"]);
  for (const Json& gate : spec["preemptionGates"].AsArray()) {
    out.preemption_gates.push_back(gate["name"].AsString());
  }
  out.problem = problems.Take();
  out.status = WorkloadStatusFromJson(json["status"], &out.problem);
  return out;
}

Json ToJson(const Workload& workload) {
  Json metadata = Json::Obj({{"name", workload.meta.name}, {"namespace", workload.meta.ns}});
  if (!workload.meta.labels.empty()) {
    metadata.Set("labels", ToJson(workload.meta.labels));
  }
  if (!workload.meta.annotations.empty()) {
    metadata.Set("annotations", ToJson(workload.meta.annotations));
  }
  for (const OwnerReference& owner : workload.meta.owners) {
    metadata.At("ownerReferences").Push(ToJson(owner));
  }
  for (const std::string& finalizer : workload.meta.finalizers) {
    metadata.At("finalizers").Push(finalizer);
  }

  Json spec = Json::Obj();
  if (!workload.queue_name.empty()) {
    spec.Set("queueName", workload.queue_name);
  }
  for (const PodSet& pod_set : workload.pod_sets) {
    Json item = Json::Obj({{"name", pod_set.name}, {"count", pod_set.count}});
    if (pod_set.min_count) {
      item.Set("minCount", *pod_set.min_count);
    }
    item.Set("template", Json::Parse(pod_set.template_json).value_or(Json::Obj()));
    if (!pod_set.topology_request.IsNull()) {
      item.Set("topologyRequest", pod_set.topology_request);
    }
    spec.At("podSets").Push(std::move(item));
  }
  spec.Set("priority", workload.priority);
  if (workload.priority_class) {
    spec.Set("priorityClassRef", Json::Obj({{"group", workload.priority_class->group},
                                            {"kind", workload.priority_class->kind},
                                            {"name", workload.priority_class->name}}));
  }
  if (!workload.active) {
    spec.Set("active", false);
  }
  if (workload.max_execution_seconds) {
    spec.Set("maximumExecutionTimeSeconds", *workload.max_execution_seconds);
  }
  return Json::Obj({{"apiVersion", names::kKueueVersion},
                    {"kind", "Workload"},
                    {"metadata", std::move(metadata)},
                    {"spec", std::move(spec)}});
}

}  // namespace tutti::api
