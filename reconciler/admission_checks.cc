// SPDX-License-Identifier: Apache-2.0
#include "reconciler/admission_checks.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "base/names.h"
#include "reconciler/workload_writes.h"

namespace tutti::reconciler {
namespace {

constexpr std::string_view kMultiKueueController = "kueue.x-k8s.io/multikueue";

std::set<std::string> FlavorsOf(const api::ClusterQueue& queue) {
  std::set<std::string> flavors;
  for (const api::ResourceGroup& group : queue.groups) {
    for (const api::FlavorQuotas& flavor : group.flavors) {
      flavors.insert(flavor.name);
    }
  }
  return flavors;
}

std::string Joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) {
    out += (out.empty() ? "" : ",") + name;
  }
  return out;
}

// Adds `more` to `all`; another value for a key that is there already is an error.
Status AddAll(const Json& more, std::string_view field, const std::string& check,
              api::StringMap& all) {
  for (const auto& [key, value] : api::StringMapFromJson(more)) {
    const auto [known, fresh] = all.emplace(key, value);
    if (!fresh && known->second != value) {
      return Fail(ErrorCode::kInvalid, "status.admissionChecks[" + check + "].podSetUpdates." +
                                           std::string(field) + "[" + key + "]: \"" + value +
                                           "\", but another check needs \"" + known->second + "\"");
    }
  }
  return {};
}

}  // namespace

std::set<std::string> RequiredChecks(const api::ClusterQueue& queue,
                                     const std::optional<api::Admission>& admission) {
  std::set<std::string> required;
  if (queue.admission_checks.empty()) {
    return required;
  }
  const std::set<std::string> all = FlavorsOf(queue);
  std::set<std::string> assigned;
  if (admission.has_value()) {
    for (const api::PodSetAssignment& assignment : admission->assignments) {
      for (const auto& [resource, flavor] : assignment.flavors) {
        assigned.insert(flavor);
      }
    }
  }
  // A check may be listed more than once, for different flavors.
  std::map<std::string, std::set<std::string>> flavors_of;
  for (const api::ClusterQueue::Check& check : queue.admission_checks) {
    std::set<std::string>& flavors = flavors_of[check.name];
    if (check.on_flavors.empty()) {
      flavors.insert(all.begin(), all.end());
    } else {
      flavors.insert(check.on_flavors.begin(), check.on_flavors.end());
    }
  }
  for (const auto& [name, flavors] : flavors_of) {
    const auto covers = [&flavors = flavors](const std::string& flavor) {
      return flavors.contains(flavor);
    };
    if (admission.has_value() ? std::any_of(assigned.begin(), assigned.end(), covers)
                              : std::all_of(all.begin(), all.end(), covers)) {
      required.insert(name);
    }
  }
  return required;
}

bool UsesCheck(const api::ClusterQueue& queue, std::string_view check) {
  return std::any_of(queue.admission_checks.begin(), queue.admission_checks.end(),
                     [&](const api::ClusterQueue::Check& entry) { return entry.name == check; });
}

bool SyncChecks(std::vector<api::AdmissionCheckState>& checks,
                const std::set<std::string>& required, Time now) {
  bool changed = std::erase_if(checks, [&](const api::AdmissionCheckState& check) {
                   return !required.contains(check.name);
                 }) > 0;
  for (const std::string& name : required) {
    if (std::none_of(checks.begin(), checks.end(),
                     [&](const api::AdmissionCheckState& check) { return check.name == name; })) {
      api::AdmissionCheckState state;
      state.name = name;
      state.state = "Pending";
      state.last_transition = now;
      checks.push_back(std::move(state));
      changed = true;
    }
  }
  if (changed) {
    std::sort(checks.begin(), checks.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
  }
  return changed;
}

api::WriteRequest ChecksPatch(const api::Workload& workload,
                              const std::vector<api::AdmissionCheckState>& checks) {
  api::Workload next = workload;
  next.status.checks = checks;
  Json list = api::StatusApplyBody(next, /*strict=*/false)["status"]["admissionChecks"];
  return StatusPatch(workload, Json::Obj({{"admissionChecks", std::move(list)}}));
}

bool AnyCheckIs(const api::WorkloadStatus& status, std::string_view state) {
  return std::any_of(status.checks.begin(), status.checks.end(),
                     [&](const api::AdmissionCheckState& check) { return check.state == state; });
}

std::string DescribeChecks(const api::WorkloadStatus& status, std::string_view state) {
  std::vector<const api::AdmissionCheckState*> found;
  for (const api::AdmissionCheckState& check : status.checks) {
    if (check.state == state) {
      found.push_back(&check);
    }
  }
  std::sort(found.begin(), found.end(),
            [](const auto* a, const auto* b) { return a->name < b->name; });
  std::string list;
  for (const api::AdmissionCheckState* check : found) {
    list += (list.empty() ? "\"" : "; \"") + check->name + "\"" +
            (check->message.empty() ? "" : " (" + check->message + ")");
  }
  return std::string(found.size() > 1 ? "AdmissionChecks" : "AdmissionCheck") + " in " +
         std::string(state) + " state: " + list;
}

std::optional<Time> RetryAt(const api::WorkloadStatus& status, Time now) {
  std::optional<Time> latest;
  for (const api::AdmissionCheckState& check : status.checks) {
    if (check.state != "Retry" || !check.requeue_after_seconds.has_value() ||
        check.last_transition == kNoTime) {
      continue;
    }
    const Time at = check.last_transition + std::chrono::seconds(*check.requeue_after_seconds);
    if (at > now && (!latest.has_value() || at > *latest)) {
      latest = at;
    }
  }
  return latest;
}

Result<CheckUpdates> UpdatesFor(const api::WorkloadStatus& status, std::string_view pod_set) {
  CheckUpdates all;
  for (const api::AdmissionCheckState& check : status.checks) {
    for (const Json& update : check.pod_set_updates.AsArray()) {
      if (update["name"].AsString() != pod_set) {
        continue;
      }
      TRY(AddAll(update["labels"], "labels", check.name, all.labels));
      TRY(AddAll(update["annotations"], "annotations", check.name, all.annotations));
      TRY(AddAll(update["nodeSelector"], "nodeSelector", check.name, all.node_selector));
      TRY_ASSIGN(const std::vector<api::Toleration> tolerations,
                 api::TolerationsFromJson(update["tolerations"]));
      for (const api::Toleration& toleration : tolerations) {
        if (std::find(all.tolerations.begin(), all.tolerations.end(), toleration) ==
            all.tolerations.end()) {
          all.tolerations.push_back(toleration);
        }
      }
    }
  }
  return all;
}

std::pair<std::string, std::string> ChecksProblem(const api::ClusterQueue& queue,
                                                  const Store<api::AdmissionCheck>& checks) {
  std::set<std::string> names;
  std::set<std::string> per_flavor;
  for (const api::ClusterQueue::Check& check : queue.admission_checks) {
    names.insert(check.name);
    if (!check.on_flavors.empty()) {
      per_flavor.insert(check.name);
    }
  }
  std::vector<std::string> missing;
  std::vector<std::string> inactive;
  std::vector<std::string> multikueue;
  std::vector<std::string> multikueue_per_flavor;
  std::vector<std::string> provisioning;
  for (const std::string& name : names) {
    const auto check = checks.Find({"", name});
    if (check == nullptr) {
      missing.push_back(name);
      continue;
    }
    if (!api::IsTrue(check->conditions, "Active")) {
      inactive.push_back(name);
    }
    if (check->controller == kMultiKueueController) {
      multikueue.push_back(name);
      if (per_flavor.contains(name)) {
        multikueue_per_flavor.push_back(name);
      }
    } else if (check->controller == names::kProvisioningController) {
      provisioning.push_back(name);
    }
  }
  std::string reason;
  std::string message;
  const auto add = [&](std::string_view why, const std::string& what) {
    if (reason.empty()) {
      reason = why;
    }
    message += (message.empty() ? "" : ", ") + what;
  };
  if (!missing.empty()) {
    add("AdmissionCheckNotFound", "references missing AdmissionCheck(s): " + Joined(missing));
  }
  if (!inactive.empty()) {
    add("AdmissionCheckInactive", "references inactive AdmissionCheck(s): " + Joined(inactive));
  }
  if (multikueue.size() > 1) {
    add("MultipleMultiKueueAdmissionChecks",
        "Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, found: " +
            Joined(multikueue));
  }
  if (!multikueue_per_flavor.empty()) {
    add("MultiKueueAdmissionCheckAppliedPerFlavor",
        "Cannot specify MultiKueue AdmissionCheck per flavor, found: " +
            Joined(multikueue_per_flavor));
  }
  if (!multikueue.empty() && !provisioning.empty()) {
    add("MultiKueueWithProvisioningRequest",
        "Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, found: " +
            Joined(multikueue) + ", " + Joined(provisioning));
  }
  return {reason, message};
}

}  // namespace tutti::reconciler
