// SPDX-License-Identifier: Apache-2.0
#include "operator/conversion.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tutti::conversion {
namespace {

constexpr std::string_view kOld = "kueue.x-k8s.io/v1beta1";
constexpr std::string_view kNew = "kueue.x-k8s.io/v1beta2";
constexpr std::string_view kWorkloadClassSource = "kueue.x-k8s.io/workloadpriorityclass";
constexpr std::string_view kPodClassSource = "scheduling.k8s.io/priorityclass";
// The schema's limit of a list within one slice; also the most that a slice list is expanded to, so
// that a small object can't be turned into one that fills the memory.
constexpr size_t kMaxDomains = 100'000;

// The member as something to change; null when it is no object.
Json* ObjectIn(Json* parent, std::string_view key) {
  if (parent == nullptr || !parent->IsObject() || !(*parent)[key].IsObject()) {
    return nullptr;
  }
  return &parent->At(key);
}

Json* ListIn(Json* parent, std::string_view key) {
  if (parent == nullptr || !parent->IsObject() || !(*parent)[key].IsArray()) {
    return nullptr;
  }
  return &parent->At(key);
}

void Rename(Json* parent, std::string_view from, std::string_view to) {
  if (parent == nullptr || !parent->Has(from)) {
    return;
  }
  Json value = std::move(parent->At(from));
  parent->Erase(from);
  if (!value.IsNull()) {
    parent->Set(to, std::move(value));
  }
}

void EraseIn(Json* parent, std::string_view key) {
  if (parent != nullptr) {
    parent->Erase(key);
  }
}

// --- topology assignments: a domain each (v1beta1), runs of domains (v1beta2) ---

// The texts as one text or as a common start, a common end and what is between.
Json EncodeValues(const std::vector<std::string_view>& values) {
  const std::string_view first = values.front();
  size_t prefix = first.size();
  size_t suffix = first.size();
  bool same = true;
  for (const std::string_view value : values) {
    same = same && value == first;
    const auto [a, b] = std::mismatch(first.begin(), first.end(), value.begin(), value.end());
    prefix = std::min(prefix, static_cast<size_t>(a - first.begin()));
    const auto [c, d] = std::mismatch(first.rbegin(), first.rend(), value.rbegin(), value.rend());
    suffix = std::min(suffix, static_cast<size_t>(c - first.rbegin()));
  }
  if (same) {
    return Json::Obj({{"universal", first}});
  }
  size_t shortest = first.size();
  for (const std::string_view value : values) {
    shortest = std::min(shortest, value.size());
  }
  suffix = std::min(suffix, shortest - prefix);
  Json roots = Json::Arr();
  for (const std::string_view value : values) {
    roots.Push(value.substr(prefix, value.size() - prefix - suffix));
  }
  Json individual = Json::Obj();
  if (prefix > 0) {
    individual.Set("prefix", first.substr(0, prefix));
  }
  individual.Set("roots", std::move(roots));
  if (suffix > 0) {
    individual.Set("suffix", first.substr(first.size() - suffix));
  }
  return Json::Obj({{"individual", std::move(individual)}});
}

Json EncodeSlice(const Json::Array& domains, size_t begin, size_t end, size_t levels) {
  Json values = Json::Arr();
  for (size_t level = 0; level < levels; ++level) {
    std::vector<std::string_view> texts;
    for (size_t at = begin; at < end; ++at) {
      texts.push_back(domains[at]["values"].AsArray()[level].AsString());
    }
    values.Push(EncodeValues(texts));
  }
  const int64_t first = domains[begin]["count"].AsInt();
  const bool same =
      std::all_of(domains.begin() + static_cast<std::ptrdiff_t>(begin),
                  domains.begin() + static_cast<std::ptrdiff_t>(end),
                  [first](const Json& domain) { return domain["count"].AsInt() == first; });
  Json counts = Json::Obj();
  if (same) {
    counts.Set("universal", first);
  } else {
    Json individual = Json::Arr();
    for (size_t at = begin; at < end; ++at) {
      individual.Push(domains[at]["count"].AsInt());
    }
    counts.Set("individual", std::move(individual));
  }
  return Json::Obj({{"domainCount", static_cast<int64_t>(end - begin)},
                    {"podCounts", std::move(counts)},
                    {"valuesPerLevel", std::move(values)}});
}

Status CompressTopology(Json* assignment) {
  const Json::Array domains = (*assignment)["domains"].AsArray();
  const size_t levels = (*assignment)["levels"].AsArray().size();
  for (size_t at = 0; at < domains.size(); ++at) {
    if (domains[at]["values"].AsArray().size() != levels) {
      return Fail(ErrorCode::kInvalid, "topologyAssignment.domains[" + std::to_string(at) +
                                           "].values must have one entry for each of levels");
    }
  }
  Json slices = Json::Arr();
  for (size_t begin = 0; begin < domains.size(); begin += kMaxDomains) {
    slices.Push(EncodeSlice(domains, begin, std::min(domains.size(), begin + kMaxDomains), levels));
  }
  assignment->Erase("domains");
  assignment->Set("slices", std::move(slices));
  return {};
}

std::string ValueAt(const Json& level, size_t at) {
  if (const Json* universal = level.Find("universal")) {
    return universal->AsString();
  }
  const Json& individual = level["individual"];
  const Json::Array& roots = individual["roots"].AsArray();
  return individual["prefix"].AsString() + (at < roots.size() ? roots[at].AsString() : "") +
         individual["suffix"].AsString();
}

Status ExpandTopology(Json* assignment) {
  const Json::Array slices = (*assignment)["slices"].AsArray();
  size_t total = 0;
  for (const Json& slice : slices) {
    total += static_cast<size_t>(std::max<int64_t>(0, slice["domainCount"].AsInt()));
    if (total > kMaxDomains) {
      return Fail(ErrorCode::kInvalid, "topologyAssignment.slices stand for more than " +
                                           std::to_string(kMaxDomains) +
                                           " domains: read the object as v1beta2");
    }
  }
  Json domains = Json::Arr();
  for (const Json& slice : slices) {
    const Json& counts = slice["podCounts"];
    const Json::Array& individual = counts["individual"].AsArray();
    const auto size = static_cast<size_t>(std::max<int64_t>(0, slice["domainCount"].AsInt()));
    for (size_t at = 0; at < size; ++at) {
      Json values = Json::Arr();
      for (const Json& level : slice["valuesPerLevel"].AsArray()) {
        values.Push(ValueAt(level, at));
      }
      const int64_t count =
          at < individual.size() ? individual[at].AsInt() : counts["universal"].AsInt();
      domains.Push(Json::Obj({{"values", std::move(values)}, {"count", count}}));
    }
  }
  assignment->Erase("slices");
  assignment->Set("domains", std::move(domains));
  return {};
}

Status ForEachTopology(Json* status, Status (*change)(Json*)) {
  Json* assignments = ListIn(ObjectIn(status, "admission"), "podSetAssignments");
  if (assignments == nullptr) {
    return {};
  }
  size_t at = 0;
  for (Json& assignment : assignments->MutableArray()) {
    if (Json* topology = ObjectIn(&assignment, "topologyAssignment")) {
      if (Status status_of = change(topology); !status_of) {
        return Fail(status_of.error().With("status.admission.podSetAssignments[" +
                                           std::to_string(at) + "]"));
      }
    }
    ++at;
  }
  return {};
}

// --- the kinds ---

Status ClusterQueueToNew(Json* spec, Json* status) {
  Rename(spec, "cohort", "cohortName");
  if (spec != nullptr) {
    const Json checks = (*spec)["admissionChecks"];
    spec->Erase("admissionChecks");
    if (!checks.AsArray().empty()) {
      Json rules = Json::Arr();
      for (const Json& name : checks.AsArray()) {
        rules.Push(Json::Obj({{"name", name}}));
      }
      spec->Set("admissionChecksStrategy", Json::Obj({{"admissionChecks", std::move(rules)}}));
    }
  }
  if (Json* fungibility = ObjectIn(spec, "flavorFungibility")) {
    for (const auto& [field, old] :
         {std::pair("whenCanBorrow", "Borrow"), std::pair("whenCanPreempt", "Preempt")}) {
      if ((*fungibility)[field].AsString() == old) {
        fungibility->Set(field, "MayStopSearch");
      }
    }
  }
  EraseIn(status, "pendingWorkloadsStatus");
  EraseIn(ObjectIn(status, "fairSharing"), "admissionFairSharingStatus");
  return {};
}

Status ClusterQueueToOld(Json* spec, Json* /*status*/) {
  Rename(spec, "cohortName", "cohort");
  return {};
}

Status CohortToNew(Json* /*spec*/, Json* status) {
  EraseIn(ObjectIn(status, "fairSharing"), "admissionFairSharingStatus");
  return {};
}

Status CohortToOld(Json* /*spec*/, Json* /*status*/) {
  return {};
}

Status LocalQueueToNew(Json* /*spec*/, Json* status) {
  Rename(status, "flavorUsage", "flavorsUsage");
  EraseIn(status, "flavors");
  return {};
}

Status LocalQueueToOld(Json* /*spec*/, Json* status) {
  Rename(status, "flavorsUsage", "flavorUsage");
  return {};
}

Status MultiKueueClusterToNew(Json* spec, Json* /*status*/) {
  if (spec == nullptr) {
    return {};
  }
  Json source = Json::Obj();
  if (!(*spec)["kubeConfig"]["location"].AsString().empty()) {
    source.Set("kubeConfig", (*spec)["kubeConfig"]);
  }
  if ((*spec)["clusterProfileRef"].IsObject()) {
    source.Set("clusterProfileRef", (*spec)["clusterProfileRef"]);
  }
  spec->Erase("kubeConfig");
  spec->Erase("clusterProfileRef");
  spec->Set("clusterSource", std::move(source));
  return {};
}

Status MultiKueueClusterToOld(Json* spec, Json* /*status*/) {
  if (spec == nullptr) {
    return {};
  }
  const Json source = (*spec)["clusterSource"];
  spec->Erase("clusterSource");
  // Required in v1beta1; an empty location stands for none.
  spec->Set("kubeConfig", source["kubeConfig"].IsObject()
                              ? source["kubeConfig"]
                              : Json::Obj({{"location", ""}, {"locationType", "Secret"}}));
  if (source["clusterProfileRef"].IsObject()) {
    spec->Set("clusterProfileRef", source["clusterProfileRef"]);
  }
  return {};
}

Status WorkloadToNew(Json* spec, Json* status) {
  if (spec != nullptr) {
    const std::string source = (*spec)["priorityClassSource"].AsString();
    const std::string name = (*spec)["priorityClassName"].AsString();
    spec->Erase("priorityClassSource");
    spec->Erase("priorityClassName");
    const bool workload_class = source == kWorkloadClassSource;
    if (!name.empty() && (workload_class || source == kPodClassSource)) {
      spec->Set("priorityClassRef",
                Json::Obj({{"group", workload_class ? "kueue.x-k8s.io" : "scheduling.k8s.io"},
                           {"kind", workload_class ? "WorkloadPriorityClass" : "PriorityClass"},
                           {"name", name}}));
    }
  }
  Rename(status, "accumulatedPastExexcutionTimeSeconds", "accumulatedPastExecutionTimeSeconds");
  return ForEachTopology(status, CompressTopology);
}

Status WorkloadToOld(Json* spec, Json* status) {
  if (spec != nullptr) {
    const Json ref = (*spec)["priorityClassRef"];
    spec->Erase("priorityClassRef");
    if (ref.IsObject()) {
      spec->Set("priorityClassName", ref["name"]);
      spec->Set("priorityClassSource", ref["kind"].AsString() == "WorkloadPriorityClass"
                                           ? kWorkloadClassSource
                                           : kPodClassSource);
    }
  }
  Rename(status, "accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds");
  return ForEachTopology(status, ExpandTopology);
}

struct Kind {
  std::string_view name;
  Status (*to_new)(Json* spec, Json* status);  // null pointers for what isn't there
  Status (*to_old)(Json* spec, Json* status);
};

constexpr Kind kKinds[] = {
    {"ClusterQueue", ClusterQueueToNew, ClusterQueueToOld},
    {"Cohort", CohortToNew, CohortToOld},
    {"LocalQueue", LocalQueueToNew, LocalQueueToOld},
    {"MultiKueueCluster", MultiKueueClusterToNew, MultiKueueClusterToOld},
    {"Workload", WorkloadToNew, WorkloadToOld},
};

}  // namespace

Status Convert(Json* object, std::string_view api_version) {
  const std::string from = (*object)["apiVersion"].AsString();
  for (const std::string_view version : {std::string_view(from), api_version}) {
    if (version != kOld && version != kNew) {
      return Fail(ErrorCode::kInvalid, "no conversion from " + from + " to " +
                                           std::string(api_version) +
                                           ": versions are kueue.x-k8s.io/v1beta1 and v1beta2");
    }
  }
  const std::string& kind = (*object)["kind"].AsString();
  const auto* found = std::find_if(std::begin(kKinds), std::end(kKinds),
                                   [&kind](const Kind& known) { return known.name == kind; });
  if (found == std::end(kKinds)) {
    return Fail(ErrorCode::kInvalid,
                "kind " + kind + " has the same fields in each version: use strategy None");
  }
  if (from == api_version) {
    return {};
  }
  object->Set("apiVersion", api_version);
  return (api_version == kNew ? found->to_new : found->to_old)(ObjectIn(object, "spec"),
                                                               ObjectIn(object, "status"));
}

Result<Json> Answer(const Json& review) {
  const Json& request = review["request"];
  const std::string& uid = request["uid"].AsString();
  if (review["kind"].AsString() != "ConversionReview" ||
      review["apiVersion"].AsString() != "apiextensions.k8s.io/v1" || uid.empty()) {
    return Fail(ErrorCode::kInvalid,
                "the body must be a ConversionReview of apiextensions.k8s.io/v1 with a request");
  }
  Json converted = Json::Arr();
  std::string problem;
  for (const Json& object : request["objects"].AsArray()) {
    Json copy = object;
    if (const Status status = Convert(&copy, request["desiredAPIVersion"].AsString()); !status) {
      const Json& metadata = object["metadata"];
      problem = object["kind"].AsString() + " " + metadata["namespace"].AsString() +
                (metadata["namespace"].AsString().empty() ? "" : "/") +
                metadata["name"].AsString() + ": " + status.error().message;
      break;
    }
    converted.Push(std::move(copy));
  }
  Json response = Json::Obj({{"uid", uid}});
  if (problem.empty()) {
    response.Set("result", Json::Obj({{"status", "Success"}}));
    response.Set("convertedObjects", std::move(converted));
  } else {
    response.Set("result", Json::Obj({{"status", "Failure"}, {"message", problem}}));
  }
  return Json::Obj({{"apiVersion", "apiextensions.k8s.io/v1"},
                    {"kind", "ConversionReview"},
                    {"response", std::move(response)}});
}

}  // namespace tutti::conversion
