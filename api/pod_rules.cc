// SPDX-License-Identifier: Apache-2.0
#include "api/pod_rules.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "api/decode.h"

namespace tutti::api {
namespace {

constexpr std::string_view kRequired = "requiredDuringSchedulingIgnoredDuringExecution";
constexpr std::string_view kJobName = "job-name";
constexpr std::string_view kPrefixedJobName = "batch.kubernetes.io/job-name";
constexpr std::array<std::string_view, 5> kPerPod = {
    "controller-uid", "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-completion-index", "apps.kubernetes.io/pod-index",
    "statefulset.kubernetes.io/pod-name"};

bool Readable(const Requirement& requirement) {
  static constexpr std::array<std::string_view, 4> kOperators = {"In", "NotIn", "Exists",
                                                                 "DoesNotExist"};
  // Labels with these prefixes are given at the release.
  return !IsPerPodLabel(requirement.key) && !requirement.key.starts_with("tutti.dev/") &&
         !requirement.key.starts_with("kueue.x-k8s.io/") &&
         std::find(kOperators.begin(), kOperators.end(), requirement.op) != kOperators.end();
}

// False when it can't be used.
bool ReadSelector(const Json& json, LabelSelector& out) {
  Result<LabelSelector> read = LabelSelectorFromJson(json);
  if (!read) {
    return false;
  }
  out = std::move(*read);
  return std::all_of(out.requirements.begin(), out.requirements.end(), Readable);
}

// A key that the pod doesn't have is left out (API doc of matchLabelKeys).
bool MergeKeys(const Json& keys, std::string_view op, const StringMap& labels, LabelSelector& out) {
  for (const Json& item : keys.AsArray()) {
    const std::string& key = item.AsString();
    if (IsPerPodLabel(key)) {
      return false;
    }
    if (const std::string* value = FindIn(labels, key)) {
      out.requirements.push_back({key, std::string(op), {*value}});
    }
  }
  return true;
}

bool ReadTerms(const Json& list, const PodRules& pod, std::vector<PodAffinityTerm>& out) {
  for (const Json& item : list.AsArray()) {
    PodAffinityTerm term;
    term.topology_key = item["topologyKey"].AsString();
    if (term.topology_key.empty() || !ReadSelector(item["labelSelector"], term.selector) ||
        !MergeKeys(item["matchLabelKeys"], "In", pod.labels, term.selector) ||
        !MergeKeys(item["mismatchLabelKeys"], "NotIn", pod.labels, term.selector)) {
      return false;
    }
    term.namespaces = ReadStrings(item["namespaces"]);
    std::sort(term.namespaces.begin(), term.namespaces.end());
    Result<LabelSelector> spaces = LabelSelectorFromJson(item["namespaceSelector"]);
    if (!spaces) {
      return false;
    }
    term.namespace_selector = std::move(*spaces);
    // Neither names nor a selector: the pod's own namespace.
    if (term.namespaces.empty() && !term.namespace_selector.present) {
      term.namespaces.push_back(pod.ns);
    }
    out.push_back(std::move(term));
  }
  return true;
}

// "" is the default.
bool ReadPolicy(const Json& json, bool& honor) {
  const std::string& text = json.AsString();
  if (text == "Honor") {
    honor = true;
  } else if (text == "Ignore") {
    honor = false;
  } else {
    return text.empty();
  }
  return true;
}

bool ReadSpread(const Json& list, const PodRules& pod, std::vector<SpreadConstraint>& out) {
  for (const Json& item : list.AsArray()) {
    const std::string& when = item["whenUnsatisfiable"].AsString();
    if (when == "ScheduleAnyway") {
      continue;
    }
    SpreadConstraint constraint;
    constraint.topology_key = item["topologyKey"].AsString();
    constraint.max_skew = ReadInt32(item["maxSkew"]);
    constraint.min_domains = item["minDomains"].IsNumber() ? ReadInt32(item["minDomains"]) : 1;
    if (when != "DoNotSchedule" || constraint.topology_key.empty() || constraint.max_skew <= 0 ||
        constraint.min_domains <= 0 ||
        !ReadPolicy(item["nodeAffinityPolicy"], constraint.honor_affinity) ||
        !ReadPolicy(item["nodeTaintsPolicy"], constraint.honor_taints) ||
        !ReadSelector(item["labelSelector"], constraint.selector) ||
        !MergeKeys(item["matchLabelKeys"], "In", pod.labels, constraint.selector)) {
      return false;
    }
    out.push_back(std::move(constraint));
  }
  return true;
}

bool AnySpread(const Json& list) {
  return std::any_of(list.AsArray().begin(), list.AsArray().end(), [](const Json& item) {
    return item["whenUnsatisfiable"].AsString() != "ScheduleAnyway";
  });
}

}  // namespace

bool IsPerPodLabel(std::string_view key) {
  return std::find(kPerPod.begin(), kPerPod.end(), key) != kPerPod.end();
}

StringMap RuleLabels(const StringMap& labels) {
  StringMap out = labels;
  std::erase_if(out, [](const auto& label) { return IsPerPodLabel(label.first); });
  // A recorded template has the prefixed one alone; its pods have both.
  if (const std::string* name = FindIn(out, kPrefixedJobName)) {
    out.emplace(kJobName, *name);
  }
  return out;
}

void ReadRules(const Json& pod, const std::string& ns, PodShape& out) {
  const Json& spec = pod["spec"];
  const Json& affinity = spec["affinity"]["podAffinity"][kRequired];
  const Json& anti_affinity = spec["affinity"]["podAntiAffinity"][kRequired];
  const Json& spread = spec["topologySpreadConstraints"];
  out.has_pod_affinity = !affinity.AsArray().empty() || !anti_affinity.AsArray().empty();
  out.has_topology_spread = AnySpread(spread);
  if (!out.has_pod_affinity && !out.has_topology_spread) {
    return;
  }
  PodRules rules;
  rules.ns = ns;
  rules.labels = RuleLabels(StringMapFromJson(pod["metadata"]["labels"]));
  if (ReadTerms(affinity, rules, rules.affinity) &&
      ReadTerms(anti_affinity, rules, rules.anti_affinity) &&
      ReadSpread(spread, rules, rules.spread)) {
    out.rules = std::move(rules);
  }
}

}  // namespace tutti::api
