// SPDX-License-Identifier: Apache-2.0
// Rules for the kinds of kueue.x-k8s.io, on top of their schemas. What the decoders of api/ find
// wrong
// (`problem`) comes first; here is what they don't look at because it doesn't disturb decisions,
// and what an update may not change.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <set>

#include "api/kueue.h"
#include "base/names.h"
#include "operator/syntax.h"
#include "operator/webhooks.h"

namespace tutti::webhooks {
namespace {

using Problems = std::vector<std::string>;

constexpr size_t kMaxFlavors = 256;
constexpr size_t kMaxResources = 256;
constexpr size_t kMaxPairsPerGroup = 512;

std::string Index(const std::string& path, size_t at) {
  return path + "[" + std::to_string(at) + "]";
}

void AddProblem(const std::string& text, Problems* problems) {
  if (!text.empty()) {
    problems->push_back(text);
  }
}

bool BeingDeleted(const Request& request) {
  return request.IsUpdate() && !(*request.object)["metadata"]["deletionTimestamp"].IsNull();
}

// Keys and values of a map of labels; with `keys_only`, of annotations.
void CheckLabels(const Json& labels, const std::string& path, bool keys_only, Problems* problems) {
  for (const auto& [key, value] : labels.AsObject()) {
    const std::string bad_key = syntax::CheckQualifiedName(key);
    if (!bad_key.empty()) {
      problems->push_back(path + ": " + bad_key);
    }
    const std::string bad_value = keys_only ? "" : syntax::CheckLabelValue(value.AsString());
    if (!bad_value.empty()) {
      problems->push_back(path + "[" + key + "]: " + bad_value);
    }
  }
}

void CheckTolerations(const Json& list, const std::string& path, Problems* problems) {
  size_t at = 0;
  for (const Json& toleration : list.AsArray()) {
    const std::string item = Index(path, at++);
    const std::string& key = toleration["key"].AsString();
    const std::string& op = toleration["operator"].AsString();
    if (!key.empty() && !syntax::CheckQualifiedName(key).empty()) {
      problems->push_back(item + ".key: " + syntax::CheckQualifiedName(key));
    }
    if (key.empty() && op != "Exists") {
      problems->push_back(item + ".operator: must be Exists where key is empty");
    }
    if (op == "Exists" && !toleration["value"].AsString().empty()) {
      problems->push_back(item + ".value: must be empty where operator is Exists");
    }
  }
}

bool HasFinalizer(const Json& object, std::string_view name) {
  for (const Json& finalizer : object["metadata"]["finalizers"].AsArray()) {
    if (finalizer.AsString() == name) {
      return true;
    }
  }
  return false;
}

bool ConditionTrue(const Json& object, std::string_view type) {
  for (const Json& condition : object["status"]["conditions"].AsArray()) {
    if (condition["type"].AsString() == type) {
      return condition["status"].AsString() == "True";
    }
  }
  return false;
}

// Entries of a list by a member's text.
std::map<std::string, const Json*> ByName(const Json& list, std::string_view member = "name") {
  std::map<std::string, const Json*> entries;
  for (const Json& item : list.AsArray()) {
    entries.emplace(item[member].AsString(), &item);
  }
  return entries;
}

// --- ClusterQueue ---

void CheckSizes(const Json& spec, Problems* problems) {
  size_t flavors = 0;
  size_t resources = 0;
  size_t at = 0;
  for (const Json& group : spec["resourceGroups"].AsArray()) {
    const std::string path = Index("spec.resourceGroups", at++);
    const size_t group_flavors = group["flavors"].AsArray().size();
    const size_t group_resources = group["coveredResources"].AsArray().size();
    flavors += group_flavors;
    resources += group_resources;
    if (group_flavors * group_resources > kMaxPairsPerGroup) {
      problems->push_back(path + ": flavors times resources must be at most " +
                          std::to_string(kMaxPairsPerGroup));
    }
    for (const Json& name : group["coveredResources"].AsArray()) {
      const std::string bad = syntax::CheckQualifiedName(name.AsString());
      if (!bad.empty()) {
        problems->push_back(path + ".coveredResources: " + bad);
      }
    }
  }
  if (flavors > kMaxFlavors) {
    problems->push_back("spec.resourceGroups: at most " + std::to_string(kMaxFlavors) +
                        " flavors in all");
  }
  if (resources > kMaxResources) {
    problems->push_back("spec.resourceGroups: at most " + std::to_string(kMaxResources) +
                        " covered resources in all");
  }
}

void CheckOnFlavors(const Request& request, Problems* problems) {
  const Json& spec = (*request.object)["spec"];
  const Json& old_spec = (*request.old_object)["spec"];
  std::set<std::string> flavors;
  for (const Json& group : spec["resourceGroups"].AsArray()) {
    for (const Json& flavor : group["flavors"].AsArray()) {
      flavors.insert(flavor["name"].AsString());
    }
  }
  const auto old_checks = ByName(old_spec["admissionChecksStrategy"]["admissionChecks"]);
  size_t at = 0;
  for (const Json& check : spec["admissionChecksStrategy"]["admissionChecks"].AsArray()) {
    const std::string path =
        Index("spec.admissionChecksStrategy.admissionChecks", at++) + ".onFlavors";
    const auto old_check = old_checks.find(check["name"].AsString());
    const bool unchanged = old_check != old_checks.end() &&
                           (*old_check->second)["onFlavors"] == check["onFlavors"] &&
                           old_spec["resourceGroups"] == spec["resourceGroups"];
    for (const Json& name : check["onFlavors"].AsArray()) {
      if (!unchanged && flavors.count(name.AsString()) == 0) {
        problems->push_back(
            path + ": \"" + name.AsString() +
            "\" is not a flavor of spec.resourceGroups: add the flavor or remove the name");
      }
    }
  }
}

// --- Workload ---

void CheckResourceNames(const Json& resources, const std::string& path, Problems* problems) {
  for (const char* list : {"requests", "limits"}) {
    if (resources[list].Has("pods")) {
      problems->push_back(path + ".resources." + list +
                          ": the resource name \"pods\" is reserved for counting pods: remove it");
    }
  }
}

void CheckSlices(const Json& request, const std::string& path, Problems* problems) {
  const bool topology = request.Has("podSetSliceRequiredTopology");
  const bool size = request.Has("podSetSliceSize");
  if (topology != size) {
    problems->push_back(path +
                        ": podSetSliceRequiredTopology and podSetSliceSize must be set together");
  } else if (size && request["podSetSliceSize"].AsInt() <= 0) {
    problems->push_back(path + ".podSetSliceSize: must be more than 0");
  }
}

bool Elastic(const Json& workload) {
  return workload["metadata"]["annotations"][names::kElasticJobAnnotation].AsString() == "true";
}

void CheckPodSets(const Json& workload, const Rules& rules, Problems* problems) {
  size_t at = 0;
  for (const Json& pod_set : workload["spec"]["podSets"].AsArray()) {
    const std::string path = Index("spec.podSets", at++);
    const Json& pod = pod_set["template"];
    CheckLabels(pod["metadata"]["labels"], path + ".template.metadata.labels", false, problems);
    CheckLabels(pod["metadata"]["annotations"], path + ".template.metadata.annotations", true,
                problems);
    for (const char* list : {"initContainers", "containers"}) {
      size_t container_at = 0;
      for (const Json& container : pod["spec"][list].AsArray()) {
        CheckResourceNames(container["resources"],
                           Index(path + ".template.spec." + list, container_at++), problems);
      }
    }
    CheckResourceNames(pod["spec"]["resources"], path + ".template.spec", problems);
    CheckSlices(pod_set["topologyRequest"], path + ".topologyRequest", problems);
    if (rules.elastic_jobs && Elastic(workload) && pod_set.Has("minCount")) {
      problems->push_back(path + ".minCount: cannot be used together with " +
                          std::string(names::kElasticJobAnnotation));
    }
  }
}

void CheckAdmission(const Json& workload, const Json& old, Problems* problems) {
  const Json& admission = workload["status"]["admission"];
  // One that was like this already goes through, so that it can be repaired or removed.
  const bool was_missing =
      ConditionTrue(old, "QuotaReserved") && old["status"]["admission"].IsNull();
  if (ConditionTrue(workload, "QuotaReserved") && admission.IsNull() && !was_missing) {
    problems->push_back("status.admission: must be set while the condition QuotaReserved is True");
  }
  const auto pod_sets = ByName(workload["spec"]["podSets"]);
  size_t at = 0;
  for (const Json& assignment : admission["podSetAssignments"].AsArray()) {
    const std::string path = Index("status.admission.podSetAssignments", at++);
    if (pod_sets.count(assignment["name"].AsString()) == 0) {
      problems->push_back(path + ".name: \"" + assignment["name"].AsString() +
                          "\" is not a podSet of the spec");
    }
    const int64_t count = assignment["count"].AsInt();
    auto usage = api::ResourceListFromJson(assignment["resourceUsage"]);
    if (!usage) {
      problems->push_back(path + ".resourceUsage: " + usage.error().message);
      continue;
    }
    for (const auto& [resource, quantity] : *usage) {
      if (count > 0 && api::ToAmount(resource, quantity) % count != 0) {
        problems->push_back(path + ".resourceUsage[" + resource + "]: " + quantity.ToString() +
                            " can't be divided by the count " + std::to_string(count));
      }
    }
  }
}

void CheckReclaimable(const Json& workload, const Json& old, Problems* problems) {
  const auto pod_sets = ByName(workload["spec"]["podSets"]);
  const auto before = ByName(old["status"]["reclaimablePods"]);
  size_t at = 0;
  for (const Json& entry : workload["status"]["reclaimablePods"].AsArray()) {
    const std::string path = Index("status.reclaimablePods", at++);
    const auto pod_set = pod_sets.find(entry["name"].AsString());
    if (pod_set == pod_sets.end()) {
      problems->push_back(path + ".name: \"" + entry["name"].AsString() +
                          "\" is not a podSet of the spec");
    } else if (const auto same = before.find(entry["name"].AsString());
               Elastic(workload) && same != before.end() &&
               (*same->second)["count"].AsInt() == entry["count"].AsInt()) {
      continue;  // of its size before it was made smaller: written anew next
    } else if (entry["count"].AsInt() > (*pod_set->second)["count"].AsInt(1)) {
      problems->push_back(path + ".count: must be at most the podSet's count, " +
                          std::to_string((*pod_set->second)["count"].AsInt(1)));
    }
  }
}

void CheckPodSetUpdates(const Json& workload, Problems* problems) {
  const auto pod_sets = ByName(workload["spec"]["podSets"]);
  size_t check_at = 0;
  for (const Json& check : workload["status"]["admissionChecks"].AsArray()) {
    const std::string check_path = Index("status.admissionChecks", check_at++);
    size_t at = 0;
    for (const Json& update : check["podSetUpdates"].AsArray()) {
      const std::string path = Index(check_path + ".podSetUpdates", at++);
      if (pod_sets.count(update["name"].AsString()) == 0) {
        problems->push_back(path + ".name: \"" + update["name"].AsString() +
                            "\" is not a podSet of the spec");
      }
      CheckLabels(update["labels"], path + ".labels", false, problems);
      CheckLabels(update["annotations"], path + ".annotations", true, problems);
      CheckLabels(update["nodeSelector"], path + ".nodeSelector", false, problems);
      CheckTolerations(update["tolerations"], path + ".tolerations", problems);
    }
  }
}

// The assignments without the fields that may change while quota is held.
Json WithoutTopology(const Json& admission) {
  Json copy = admission;
  if (copy.IsObject() && copy["podSetAssignments"].IsArray()) {
    for (Json& assignment : copy.At("podSetAssignments").MutableArray()) {
      assignment.Erase("topologyAssignment");
      assignment.Erase("delayedTopologyRequest");
    }
  }
  return copy;
}

// Equal but for counts that became smaller.
bool SameOrSmaller(const Json& now, const Json& old) {
  const auto& list = now.AsArray();
  const auto& old_list = old.AsArray();
  if (list.size() != old_list.size()) {
    return false;
  }
  for (size_t i = 0; i < list.size(); ++i) {
    Json with_old_count = list[i];
    with_old_count.Set("count", old_list[i]["count"]);
    if (!(with_old_count == old_list[i]) ||
        list[i]["count"].AsInt(1) > old_list[i]["count"].AsInt(1)) {
      return false;
    }
  }
  return true;
}

// Pod sets of an elastic workload that are smaller now than when they were admitted.
std::set<std::string> ScaledDown(const Json& workload) {
  std::set<std::string> found;
  if (!Elastic(workload)) {
    return found;
  }
  const auto pod_sets = ByName(workload["spec"]["podSets"]);
  for (const Json& assignment : workload["status"]["admission"]["podSetAssignments"].AsArray()) {
    const auto pod_set = pod_sets.find(assignment["name"].AsString());
    const int64_t count = pod_set == pod_sets.end() ? 0 : (*pod_set->second)["count"].AsInt(1);
    if (assignment["count"].AsInt() > count) {
      found.insert(assignment["name"].AsString());
    }
  }
  return found;
}

void CheckReclaimableUpdate(const Json& now, const Json& old, Problems* problems) {
  const bool reserved = ConditionTrue(old, "QuotaReserved");
  const std::set<std::string> smaller = ScaledDown(now);
  const auto reclaimable = ByName(now["status"]["reclaimablePods"]);
  for (const Json& entry : old["status"]["reclaimablePods"].AsArray()) {
    const auto found = reclaimable.find(entry["name"].AsString());
    const int64_t count = found == reclaimable.end() ? 0 : (*found->second)["count"].AsInt();
    if (reserved && ConditionTrue(now, "QuotaReserved") && count < entry["count"].AsInt() &&
        smaller.count(entry["name"].AsString()) == 0) {
      problems->push_back("status.reclaimablePods[" + entry["name"].AsString() +
                          "].count: cannot become smaller while quota is reserved");
    }
  }
}

void CheckWorkloadUpdate(const Json& now, const Json& old, const Rules& rules, Problems* problems) {
  const Json& pod_sets = now["spec"]["podSets"];
  const Json& old_pod_sets = old["spec"]["podSets"];
  if (ConditionTrue(old, "QuotaReserved") && !(pod_sets == old_pod_sets) &&
      !(rules.elastic_jobs && SameOrSmaller(pod_sets, old_pod_sets))) {
    problems->push_back("spec.podSets: cannot be changed while quota is reserved");
  }
  CheckReclaimableUpdate(now, old, problems);
  const Json& admission = now["status"]["admission"];
  const Json& old_admission = old["status"]["admission"];
  if (!admission.IsNull() && !old_admission.IsNull() &&
      !(WithoutTopology(admission) == WithoutTopology(old_admission))) {
    problems->push_back("status.admission: may be set or cleared, but not changed");
  }
  const auto checks = ByName(now["status"]["admissionChecks"]);
  for (const Json& old_check : old["status"]["admissionChecks"].AsArray()) {
    const auto found = checks.find(old_check["name"].AsString());
    if (found != checks.end() && old_check["state"].AsString() == "Ready" &&
        (*found->second)["state"].AsString() == "Ready" &&
        !((*found->second)["podSetUpdates"] == old_check["podSetUpdates"])) {
      problems->push_back("status.admissionChecks[" + old_check["name"].AsString() +
                          "].podSetUpdates: cannot be changed while the check is Ready");
    }
  }
  const std::string& cluster = now["status"]["clusterName"].AsString();
  const bool replaces =
      rules.elastic_jobs &&
      !now["metadata"]["annotations"][names::kSliceReplacementAnnotation].AsString().empty();
  if (!cluster.empty() && old["status"]["clusterName"].AsString().empty() && !replaces) {
    bool nominated = false;
    for (const Json& name : old["status"]["nominatedClusterNames"].AsArray()) {
      nominated = nominated || name.AsString() == cluster;
    }
    if (!nominated) {
      problems->push_back("status.clusterName: \"" + cluster +
                          "\" must be one of status.nominatedClusterNames before the update");
    }
  }
}

}  // namespace

Verdict MutateWorkload(const Request& request, const Rules& rules) {
  Verdict verdict;
  if (rules.partial_admission || request.IsUpdate()) {
    return verdict;
  }
  size_t at = 0;
  for (const Json& pod_set : (*request.object)["spec"]["podSets"].AsArray()) {
    if (pod_set.Has("minCount")) {
      verdict.patch.Push(Json::Obj(
          {{"op", "remove"}, {"path", "/spec/podSets/" + std::to_string(at) + "/minCount"}}));
    }
    ++at;
  }
  return verdict;
}

Verdict MutateWithFinalizer(const Request& request, const Rules& /*rules*/) {
  Verdict verdict;
  const Json& object = *request.object;
  if (request.IsUpdate() || HasFinalizer(object, names::kResourceInUseFinalizer)) {
    return verdict;
  }
  const bool has_list = object["metadata"]["finalizers"].IsArray();
  const Json name{names::kResourceInUseFinalizer};
  verdict.patch.Push(
      Json::Obj({{"op", "add"},
                 {"path", has_list ? "/metadata/finalizers/-" : "/metadata/finalizers"},
                 {"value", has_list ? name : Json::Arr({name})}}));
  return verdict;
}

Verdict ValidateClusterQueue(const Request& request, const Rules& /*rules*/) {
  Verdict verdict;
  if (BeingDeleted(request)) {
    return verdict;  // finalizers must be removable, whatever the object says
  }
  const auto queue = api::ClusterQueueFromJson(*request.object);
  AddProblem(queue ? queue->problem : queue.error().message, &verdict.problems);
  const Json& spec = (*request.object)["spec"];
  CheckSizes(spec, &verdict.problems);
  CheckLabels(spec["namespaceSelector"]["matchLabels"], "spec.namespaceSelector.matchLabels", false,
              &verdict.problems);
  CheckOnFlavors(request, &verdict.problems);
  return verdict;
}

Verdict ValidateCohort(const Request& request, const Rules& /*rules*/) {
  Verdict verdict;
  if (BeingDeleted(request)) {
    return verdict;
  }
  const auto cohort = api::CohortFromJson(*request.object);
  AddProblem(cohort ? cohort->problem : cohort.error().message, &verdict.problems);
  CheckSizes((*request.object)["spec"], &verdict.problems);
  return verdict;
}

Verdict ValidateResourceFlavor(const Request& request, const Rules& /*rules*/) {
  Verdict verdict;
  if (BeingDeleted(request)) {
    return verdict;
  }
  const Json& spec = (*request.object)["spec"];
  Problems& problems = verdict.problems;
  CheckLabels(spec["nodeLabels"], "spec.nodeLabels", false, &problems);
  std::set<std::pair<std::string, std::string>> seen;
  size_t at = 0;
  for (const Json& taint : spec["nodeTaints"].AsArray()) {
    const std::string path = Index("spec.nodeTaints", at++);
    const std::string& key = taint["key"].AsString();
    const std::string bad_key = syntax::CheckQualifiedName(key);
    if (!bad_key.empty()) {
      problems.push_back(path + ".key: " + bad_key);
    }
    const std::string bad_value = syntax::CheckLabelValue(taint["value"].AsString());
    if (!bad_value.empty()) {
      problems.push_back(path + ".value: " + bad_value);
    }
    if (!seen.emplace(key, taint["effect"].AsString()).second) {
      problems.push_back(path + ": the taint \"" + key + "\" with the effect " +
                         taint["effect"].AsString() + " is there twice: remove one");
    }
  }
  CheckTolerations(spec["tolerations"], "spec.tolerations", &problems);
  return verdict;
}

namespace {

// KEP-7990: the annotation is there with a number or not at all.
void CheckBoost(const Json& workload, Problems* problems) {
  const Json* value = workload["metadata"]["annotations"].Find(names::kPriorityBoostAnnotation);
  if (value == nullptr) {
    return;
  }
  const std::string& text = value->AsString();
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  int32_t boost = 0;
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), boost);
  if (error != std::errc() || end != text.data() + text.size()) {
    problems->push_back(
        "metadata.annotations[" + std::string(names::kPriorityBoostAnnotation) + "]: \"" + text +
        "\" must be a valid signed integer of 32 bits; use \"0\" " + "for none, or remove it");
  }
}

}  // namespace

Verdict ValidateWorkload(const Request& request, const Rules& rules) {
  Verdict verdict;
  if (BeingDeleted(request)) {
    return verdict;
  }
  const Json& workload = *request.object;
  Problems& problems = verdict.problems;
  const auto decoded = api::WorkloadFromJson(workload);
  AddProblem(decoded ? decoded->problem : decoded.error().message, &problems);
  CheckPodSets(workload, rules, &problems);
  CheckGates(request, &problems);
  if (rules.priority_boost) {
    CheckBoost(workload, &problems);
  }
  CheckAdmission(workload, *request.old_object, &problems);
  CheckReclaimable(workload, *request.old_object, &problems);
  CheckPodSetUpdates(workload, &problems);
  if (request.IsUpdate()) {
    CheckWorkloadUpdate(workload, *request.old_object, rules, &problems);
  }
  return verdict;
}

}  // namespace tutti::webhooks
