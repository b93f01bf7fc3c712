// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor.h"

#include <algorithm>
#include <array>

namespace tutti::cli {
namespace {

constexpr int kOldestMinor = 34;
constexpr int kNewestMinor = 37;
// The policies without which queued Jobs are not held, and those without which pods don't join
// their gang.
constexpr std::array<std::string_view, 3> kHoldPolicies = {
    "tutti-hold-queued-jobs", "tutti-keep-jobs-held", "tutti-only-queue-releases"};
constexpr std::array<std::string_view, 2> kGangPolicies = {"tutti-pod-joins-group",
                                                           "tutti-labelled-pod-is-in-its-group"};

bool Has(const std::vector<std::string>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

std::string Join(const std::vector<std::string>& list) {
  std::string out;
  for (const std::string& item : list) {
    out += (out.empty() ? "" : ", ") + item;
  }
  return out;
}

// Control planes whose flags their users can't set, by the suffix of the version.
std::string_view ManagedBy(const DoctorFacts& facts) {
  if (facts.git_version.find("-eks-") != std::string::npos) {
    return "EKS";
  }
  if (facts.git_version.find("-gke.") != std::string::npos) {
    return "GKE";
  }
  return "";
}

// What native gangs need of each component, by minor version.
struct GangFlags {
  std::string version;  // of scheduling.k8s.io
  std::vector<std::string> gates;
};

std::optional<GangFlags> GangFlagsOf(int minor) {
  if (minor == 36) {
    return GangFlags{"v1alpha2", {"GenericWorkload", "GangScheduling"}};
  }
  if (minor >= 37) {
    return GangFlags{"v1beta1", {"GenericWorkload"}};
  }
  return std::nullopt;
}

std::string GateFlag(const std::vector<std::string>& gates) {
  std::string out = "--feature-gates=";
  for (size_t i = 0; i < gates.size(); ++i) {
    out += (i == 0 ? "" : ",") + gates[i] + "=true";
  }
  return out;
}

std::vector<std::string> FlagLines(const std::string& api, const std::vector<std::string>& gates) {
  return {"kube-apiserver           --runtime-config=" + api + "=true " + GateFlag(gates),
          "kube-controller-manager  " + GateFlag(gates),
          "kube-scheduler           " + GateFlag(gates)};
}

// Gates of the list that the component is known not to have on.
std::vector<std::string> Lacking(const ComponentGates& component,
                                 const std::vector<std::string>& wanted) {
  std::vector<std::string> out;
  if (component.source.empty()) {
    return out;
  }
  for (const std::string& gate : wanted) {
    const auto found = component.gates.find(gate);
    // Alpha gates are off unless they are set.
    if (found == component.gates.end() || !found->second) {
      out.push_back(gate);
    }
  }
  return out;
}

bool KnownOn(const ComponentGates& component, const std::string& gate) {
  const auto found = component.gates.find(gate);
  return found != component.gates.end() && found->second;
}

Finding Version(const DoctorFacts& facts) {
  Finding out{FindingLevel::kOk, "version", "Kubernetes " + facts.git_version, "", {}};
  if (facts.minor < kOldestMinor) {
    out.level = FindingLevel::kProblem;
    out.text +=
        " is older than 1." + std::to_string(kOldestMinor) + ", the oldest that is supported";
    out.fix = {"upgrade the control plane"};
  } else if (facts.minor > kNewestMinor) {
    out.level = FindingLevel::kNote;
    out.text += " is newer than 1." + std::to_string(kNewestMinor) + ", the newest that was tried";
  }
  if (const std::string_view managed = ManagedBy(facts); !managed.empty()) {
    out.text += "; a managed control plane (" + std::string(managed) + "): its gates can't be set";
  }
  return out;
}

Finding QueueApi(const DoctorFacts& facts) {
  if (Has(facts.queue_versions, "v1beta2")) {
    return {FindingLevel::kOk, "queue API", "kueue.x-k8s.io/v1beta2 is served", "", {}};
  }
  return {FindingLevel::kProblem,
          "queue API",
          facts.queue_versions.empty()
              ? "kueue.x-k8s.io is not served"
              : "kueue.x-k8s.io is served only as " + Join(facts.queue_versions),
          "the operator waits for it and does nothing",
          {facts.queue_versions.empty() ? "kubectl apply --server-side -f crds/"
                                        : "upgrade the installed CRDs to a version with v1beta2"}};
}

Finding Holding(const DoctorFacts& facts) {
  Finding out{FindingLevel::kOk, "holding Jobs", "", "", {}};
  if (!facts.policies.has_value()) {
    out.level = FindingLevel::kNote;
    out.text = "the admission policies can't be read with these credentials";
    return out;
  }
  const auto installed = [&facts](std::string_view name) {
    return facts.policies->count(std::string(name)) > 0;
  };
  std::vector<std::string> missing;
  for (const std::string_view name : kHoldPolicies) {
    if (!installed(name)) {
      missing.emplace_back(name);
    }
  }
  if (missing.empty()) {
    out.text = "the API server holds queued Jobs itself, by policy";
    return out;
  }
  const bool webhook = facts.job_webhook.value_or(false);
  out.level = FindingLevel::kMissing;
  out.instead = webhook ? "a webhook holds queued Jobs; while the operator is away, it refuses them"
                        : "queued Jobs are suspended after they were created; their pods may start "
                          "for a moment";
  if (!facts.mutating_policy_versions.empty()) {
    out.text = "not installed, or not bound: " + Join(missing);
    out.fix = {Has(facts.mutating_policy_versions, "v1")
                   ? "helm upgrade … --set policies.enabled=true"
                   : "helm upgrade … --set policies.enabled=true --set policies.betaApi=true"};
    return out;
  }
  out.text = "MutatingAdmissionPolicies are not served";
  if (!webhook) {
    out.fix.emplace_back("helm upgrade … --set webhook.enabled=true --set webhook.jobs=true");
  }
  if (facts.minor >= 34 && facts.minor < 36 && ManagedBy(facts).empty()) {
    out.fix.emplace_back(
        "or kube-apiserver  --runtime-config=admissionregistration.k8s.io/v1beta1=true "
        "--feature-gates=MutatingAdmissionPolicy=true");
  }
  return out;
}

void SayComponents(const DoctorFacts& facts, const std::vector<std::string>& gates, Finding* out) {
  const std::array<std::pair<std::string_view, const ComponentGates*>, 3> components = {
      {{"kube-apiserver", &facts.api_server},
       {"kube-controller-manager", &facts.controller_manager},
       {"kube-scheduler", &facts.scheduler}}};
  std::vector<std::string> unseen;
  for (const auto& [name, component] : components) {
    if (component->source.empty()) {
      unseen.emplace_back(name);
      continue;
    }
    const std::vector<std::string> lacking = Lacking(*component, gates);
    if (lacking.empty()) {
      continue;
    }
    out->level = FindingLevel::kMissing;
    out->text +=
        "; " + std::string(name) + " lacks " + Join(lacking) + " (by " + component->source + ")";
    out->fix.push_back(std::string(name) + "  " + GateFlag(lacking));
    if (name == "kube-scheduler") {
      out->instead =
          "gangs are bound pod by pod; the operator notices at start and releases all "
          "pods of a job at once, watching that they land";
    } else if (name == "kube-controller-manager" && out->instead.empty()) {
      out->instead = "deleted PodGroups keep their finalizer; the operator takes it off";
    }
  }
  if (!unseen.empty() && out->level == FindingLevel::kOk) {
    out->text += "; gates of " + Join(unseen) +
                 " can't be seen from here: the operator proves at "
                 "start that gangs are held (metric tutti_native_gangs)";
  }
}

Finding NativeGangs(const DoctorFacts& facts) {
  Finding out{FindingLevel::kOk, "native gangs", "", "", {}};
  const auto flags = GangFlagsOf(facts.minor);
  const bool usable = Has(facts.group_versions, "v1alpha2") || Has(facts.group_versions, "v1beta1");
  if (!usable) {
    out.level = FindingLevel::kMissing;
    out.text = facts.group_versions.empty()
                   ? "PodGroups (scheduling.k8s.io) are not served"
                   : "PodGroups are served only as " + Join(facts.group_versions) +
                         ", which is not supported";
    out.instead =
        "all pods of a job are released at once; a job that isn't whole 60 s later is taken back";
    if (!ManagedBy(facts).empty()) {
      out.fix = {"nothing: the gates of a managed control plane can't be set"};
    } else if (flags) {
      out.fix = FlagLines("scheduling.k8s.io/" + flags->version, flags->gates);
    } else {
      out.fix = {"needs Kubernetes 1.36"};
    }
    return out;
  }
  out.text = "PodGroups are served as " + Join(facts.group_versions);
  if (flags) {
    SayComponents(facts, flags->gates, &out);
  }
  std::vector<std::string> missing;
  for (const std::string_view name : kGangPolicies) {
    if (facts.policies.has_value() && facts.policies->count(std::string(name)) == 0) {
      missing.emplace_back(name);
    }
  }
  if (!missing.empty()) {
    out.level = FindingLevel::kMissing;
    out.text += "; not installed, or not bound: " + Join(missing);
    out.instead = "PodGroups are not used: pods can't join them";
    out.fix.emplace_back("helm upgrade … --set nativeGang.enabled=true");
  }
  return out;
}

Finding GangDetails(const DoctorFacts& facts) {
  Finding out{FindingLevel::kOk, "gang options", "nothing in the way", "", {}};
  std::vector<std::string> notes;
  if (KnownOn(facts.controller_manager, "WorkloadWithJob") ||
      KnownOn(facts.api_server, "WorkloadWithJob")) {
    notes.emplace_back(
        "WorkloadWithJob is on: the Job controller makes groups of its own for Indexed Jobs");
  }
  if (KnownOn(facts.scheduler, "WorkloadAwarePreemption") ||
      KnownOn(facts.api_server, "WorkloadAwarePreemption")) {
    notes.emplace_back(
        "WorkloadAwarePreemption is on: kube-scheduler may evict pods of queued jobs "
        "for gangs with a higher priority");
  }
  if (!notes.empty()) {
    out.level = FindingLevel::kNote;
    out.text = Join(notes);
  }
  return out;
}

Finding Devices(const DoctorFacts& facts) {
  Finding out{FindingLevel::kOk, "devices (DRA)", "", "", {}};
  if (!Has(facts.claim_versions, "v1")) {
    out.level = FindingLevel::kMissing;
    out.text = facts.claim_versions.empty()
                   ? "ResourceClaims are not served"
                   : "resource.k8s.io is served only as " + Join(facts.claim_versions);
    out.instead =
        "device claims are left to the scheduler; resources such as nvidia.com/gpu are "
        "counted as always";
    out.fix = {"kube-apiserver  --runtime-config=resource.k8s.io/v1=true"};
    return out;
  }
  out.text = "resource.k8s.io/v1 is served";
  if (facts.resource_slices.has_value() && facts.device_classes.has_value()) {
    out.text += "; " + std::to_string(*facts.device_classes) + " device classes, " +
                std::to_string(*facts.resource_slices) + " resource slices";
    if (*facts.resource_slices == 0 && *facts.device_classes > 0) {
      out.level = FindingLevel::kNote;
      out.text += ": no driver publishes devices";
    }
  }
  const std::vector<std::string> gate = {"DRAWorkloadResourceClaims"};
  if (!facts.group_versions.empty() && !facts.api_server.source.empty() &&
      !Lacking(facts.api_server, gate).empty()) {
    out.text += "; one claim for a whole gang needs DRAWorkloadResourceClaims, which is off";
    if (out.level == FindingLevel::kOk) {
      out.level = FindingLevel::kNote;
    }
  }
  return out;
}

Finding RightsOf(const DoctorFacts& facts) {
  Finding out{FindingLevel::kOk, "rights", "", "", {}};
  if (facts.rights.account.empty() || !facts.rights.problem.empty()) {
    out.level = FindingLevel::kNote;
    out.text = facts.rights.problem.empty() ? "not asked for" : facts.rights.problem;
    return out;
  }
  const std::string account = "ServiceAccount " + facts.rights.account;
  if (facts.rights.denied.empty()) {
    out.text = account + " may do what the operator does";
    return out;
  }
  out.level = FindingLevel::kProblem;
  out.text = account + " may not " + Join(facts.rights.denied);
  out.instead = "the operator does not become ready";
  out.fix = {"apply the ClusterRole and its binding of the chart"};
  return out;
}

Finding Others(const DoctorFacts& facts) {
  if (facts.other_controllers.empty()) {
    return {FindingLevel::kOk, "other controllers", "none of these kinds is alive", "", {}};
  }
  return {FindingLevel::kProblem,
          "other controllers",
          Join(facts.other_controllers),
          "the operator does not act beside it",
          {}};
}

std::string_view LevelName(FindingLevel level) {
  switch (level) {
    case FindingLevel::kOk:
      return "ok";
    case FindingLevel::kNote:
      return "note";
    case FindingLevel::kMissing:
      return "missing";
    case FindingLevel::kProblem:
      return "problem";
  }
  return "problem";
}

// Words of `text` in lines of at most `width`, each line indented; the first continues `first`.
void Wrap(std::string_view first, std::string_view text, size_t indent, size_t width,
          std::string* out) {
  std::string line(first);
  line.resize(std::max(indent, line.size()), ' ');
  bool empty = true;
  size_t at = 0;
  while (at < text.size()) {
    size_t end = text.find(' ', at);
    end = end == std::string_view::npos ? text.size() : end;
    const std::string_view word = text.substr(at, end - at);
    if (!empty && line.size() + 1 + word.size() > width) {
      *out += line + "\n";
      line.assign(indent, ' ');
      empty = true;
    }
    line += empty ? "" : " ";
    line += word;
    empty = false;
    at = end + 1;
  }
  *out += line + "\n";
}

}  // namespace

std::vector<Finding> Diagnose(const DoctorFacts& facts) {
  std::vector<Finding> out = {Version(facts),     QueueApi(facts),    Holding(facts),
                              NativeGangs(facts), GangDetails(facts), Devices(facts),
                              RightsOf(facts),    Others(facts)};
  for (const std::string& problem : facts.problems) {
    out.push_back({FindingLevel::kNote, "not readable", problem, "", {}});
  }
  return out;
}

bool AllWell(const std::vector<Finding>& findings) {
  return std::all_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.level == FindingLevel::kOk || finding.level == FindingLevel::kNote;
  });
}

std::string ToText(const DoctorFacts& facts, const std::vector<Finding>& findings) {
  constexpr size_t kIndent = 29;
  constexpr size_t kWidth = 80;
  std::string out = "Control plane " + facts.server + "\n\n";
  for (const Finding& finding : findings) {
    std::string head(LevelName(finding.level));
    head.resize(9, ' ');
    Wrap(head + finding.area, finding.text, kIndent, kWidth, &out);
    if (!finding.instead.empty()) {
      Wrap("           instead", finding.instead, kIndent, kWidth, &out);
    }
    for (size_t i = 0; i < finding.fix.size(); ++i) {
      // Verbatim, to be copied: never wrapped.
      std::string line = i == 0 ? "           to change it" : "";
      line.resize(kIndent, ' ');
      out += line + finding.fix[i] + "\n";
    }
  }
  out += AllWell(findings) ? "\nNothing is missing.\n"
                           : "\nWhat each part guarantees: docs/guarantees.md\n";
  return out;
}

Json ToJson(const DoctorFacts& facts, const std::vector<Finding>& findings) {
  Json list = Json::Arr();
  for (const Finding& finding : findings) {
    Json fix = Json::Arr();
    for (const std::string& line : finding.fix) {
      fix.Push(line);
    }
    list.Push(Json::Obj({{"level", LevelName(finding.level)},
                         {"area", finding.area},
                         {"text", finding.text},
                         {"instead", finding.instead},
                         {"fix", std::move(fix)}}));
  }
  return Json::Obj(
      {{"server", facts.server}, {"version", facts.git_version}, {"findings", std::move(list)}});
}

ComponentGates GatesFromMetrics(std::string_view text) {
  constexpr std::string_view kMetric = "kubernetes_feature_enabled{";
  constexpr std::string_view kName = "name=\"";
  ComponentGates out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.starts_with(kMetric)) {
      continue;
    }
    const size_t name = line.find(kName);
    const size_t close =
        line.find('"', name == std::string_view::npos ? line.size() : name + kName.size());
    const size_t value = line.rfind(' ');
    if (name == std::string_view::npos || close == std::string_view::npos ||
        value == std::string_view::npos || value < close) {
      continue;
    }
    out.gates[std::string(line.substr(name + kName.size(), close - name - kName.size()))] =
        line.substr(value + 1) == "1";
  }
  if (!out.gates.empty()) {
    out.source = "its metrics";
  }
  return out;
}

ComponentGates GatesFromPods(const Json& pod_list, std::string_view component) {
  constexpr std::string_view kFlag = "--feature-gates";
  ComponentGates out;
  bool first = true;
  for (const Json& pod : pod_list["items"].AsArray()) {
    if (pod["metadata"]["labels"]["component"].AsString() != component) {
      continue;
    }
    std::map<std::string, bool> gates;
    for (const Json& container : pod["spec"]["containers"].AsArray()) {
      bool value_follows = false;
      for (const char* list : {"command", "args"}) {
        for (const Json& argument : container[list].AsArray()) {
          std::string_view text = argument.AsString();
          if (!value_follows) {
            if (text == kFlag) {
              value_follows = true;
              continue;
            }
            if (!text.starts_with(kFlag) || text.substr(kFlag.size(), 1) != "=") {
              continue;
            }
            text.remove_prefix(kFlag.size() + 1);
          }
          value_follows = false;
          while (!text.empty()) {
            const size_t end = std::min(text.find(','), text.size());
            const std::string_view item = text.substr(0, end);
            text.remove_prefix(std::min(end + 1, text.size()));
            const size_t equals = item.find('=');
            if (equals != std::string_view::npos) {
              gates[std::string(item.substr(0, equals))] = item.substr(equals + 1) == "true";
            }
          }
        }
      }
    }
    if (first) {
      out.gates = std::move(gates);
      out.source = "the flags of pod " + pod["metadata"]["namespace"].AsString() + "/" +
                   pod["metadata"]["name"].AsString();
      first = false;
      continue;
    }
    for (auto& [name, on] : out.gates) {
      const auto other = gates.find(name);
      on = on && other != gates.end() && other->second;
    }
  }
  return out;
}

}  // namespace tutti::cli
