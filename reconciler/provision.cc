// SPDX-License-Identifier: Apache-2.0
// When an autoscaler is asked for nodes, and what comes back into the checks of a workload: the
// wiring of provisioning.h. See core.h.
#include <algorithm>
#include <string>
#include <utility>

#include "base/names.h"
#include "reconciler/admission_checks.h"
#include "reconciler/core.h"
#include "reconciler/names.h"
#include "reconciler/provisioning.h"

namespace tutti::reconciler {
namespace {

// Said of a failed creation: what the next try or the next event settles is no news.
bool WorthTelling(ErrorCode code) {
  return code != ErrorCode::kAlreadyExists && code != ErrorCode::kConflict &&
         code != ErrorCode::kCancelled && code != ErrorCode::kThrottled;
}

}  // namespace

void Core::SetProvisioning(bool served) {
  if (provisioning_ == served) {
    return;
  }
  provisioning_ = served;
  if (!served) {  // the kind went with all of its objects
    world_.provisioning_requests = {};
    world_.requests_by_workload.clear();
  }
  JudgeProvisioningChecks();
  DirtyAll();
}

void Core::JudgeProvisioningChecks() {
  for (const auto& [key, check] : world_.admission_checks.All()) {
    if (check->controller == names::kProvisioningController) {
      DirtyStatus("AdmissionCheck/" + key.name);
    }
  }
}

void Core::OnProvisioningConfig(std::shared_ptr<const api::ProvisioningConfig> config,
                                bool deleted) {
  const auto change = deleted ? world_.provisioning_configs.Remove(*config)
                              : world_.provisioning_configs.Upsert(config);
  if (change.applied) {
    JudgeProvisioningChecks();
    DirtyAll();
  }
}

void Core::OnProvisioningRequest(std::shared_ptr<const api::ProvisioningRequest> request,
                                 bool deleted) {
  const auto change = deleted ? world_.provisioning_requests.Remove(*request)
                              : world_.provisioning_requests.Upsert(request);
  if (!change.applied) {
    return;
  }
  const api::ObjectKey key = request->meta.Key();
  const auto unlink = [&](const api::ObjectMeta& meta) {
    const auto known = world_.requests_by_workload.find(OwningWorkload(meta));
    if (known != world_.requests_by_workload.end()) {
      known->second.erase(key);
      if (known->second.empty()) {
        world_.requests_by_workload.erase(known);
      }
    }
  };
  if (change.before != nullptr) {
    unlink(change.before->meta);
  }
  const std::string owner = OwningWorkload(request->meta);
  if (!deleted && !owner.empty()) {
    world_.requests_by_workload[owner].insert(key);
  }
  if (const api::OwnerReference* controller = request->meta.Controller()) {
    Dirty({key.ns, controller->name});
  }
}

void Core::OnPodTemplate(std::shared_ptr<const api::PodTemplate> pod_template, bool deleted) {
  if (deleted) {
    world_.pod_templates.Remove(*pod_template);
    return;
  }
  world_.pod_templates.Upsert(pod_template);
}

std::set<std::string> Core::ProvisionedFlavors() const {
  std::set<std::string> flavors;
  for (const auto& [key, queue] : world_.cluster_queues.All()) {
    for (const api::ClusterQueue::Check& entry : queue->admission_checks) {
      const auto check = world_.admission_checks.Find({"", entry.name});
      if (check == nullptr || check->controller != names::kProvisioningController) {
        continue;
      }
      flavors.insert(entry.on_flavors.begin(), entry.on_flavors.end());
      if (entry.on_flavors.empty()) {
        for (const api::ResourceGroup& group : queue->groups) {
          for (const api::FlavorQuotas& flavor : group.flavors) {
            flavors.insert(flavor.name);
          }
        }
      }
    }
  }
  return flavors;
}

std::vector<const api::ProvisioningRequest*> Core::RequestsOf(const api::Workload& workload) const {
  std::vector<const api::ProvisioningRequest*> requests;
  const auto known = world_.requests_by_workload.find(workload.meta.uid);
  if (known != world_.requests_by_workload.end()) {
    for (const api::ObjectKey& key : known->second) {
      if (const auto request = world_.provisioning_requests.Find(key)) {
        requests.push_back(request.get());
      }
    }
  }
  return requests;
}

bool Core::EndProvisioning(Unit& unit, const api::Workload& workload) {
  if (!workload.Finished() && !(workload.Evicted() && options_.end_requests_on_eviction)) {
    return false;
  }
  std::vector<api::WriteRequest> writes;
  for (const api::ProvisioningRequest* request : RequestsOf(workload)) {
    if (!request->meta.deleted.has_value() &&
        unit.dropped_requests.insert(request->meta.uid).second) {
      writes.push_back(DeleteRequest(*request));
    }
  }
  Emit(unit, std::move(writes));
  return unit.in_flight != 0;
}

bool Core::SyncProvisioning(Unit& unit, const api::Workload& workload) {
  const std::vector<const api::ProvisioningRequest*> requests = RequestsOf(workload);
  if (!provisioning_.value_or(false) || (workload.status.checks.empty() && requests.empty())) {
    return false;
  }
  std::vector<api::AdmissionCheckState> states = workload.status.checks;
  struct Ask {
    std::string check;
    std::shared_ptr<const api::ProvisioningConfig> config;
    int32_t attempt = 0;
  };
  std::vector<Ask> asks;
  std::set<const api::ProvisioningRequest*> used;
  for (api::AdmissionCheckState& state : states) {
    const auto check = world_.admission_checks.Find({"", state.name});
    if (check == nullptr || check->controller != names::kProvisioningController) {
      continue;
    }
    std::shared_ptr<const api::ProvisioningConfig> config;
    if (ProvisioningProblem(*check, world_.provisioning_configs, /*served=*/true).reason.empty()) {
      config = world_.provisioning_configs.Find({"", check->parameters->name});
    }
    Attempt latest;
    bool needed = false;
    if (config != nullptr) {
      needed = !PodsToAskFor(workload, *config).empty();
      if (needed) {
        latest = LatestAttempt(requests, workload.meta.name, state.name, *config);
        used.insert(latest.request);
      }
    }
    state = CheckAfter(workload, std::move(state), config.get(), latest, now_);
    if (needed && latest.request == nullptr && unit.ask_error_check == state.name &&
        !unit.ask_error.empty()) {
      state.message = unit.ask_error;
    }
    const auto attempt = needed ? NextAttempt(workload, state, latest) : std::optional<int32_t>();
    if (attempt.has_value()) {
      asks.push_back({state.name, config, *attempt});
    }
  }

  std::vector<api::WriteRequest> writes;
  if (states != workload.status.checks) {
    for (size_t i = 0; i < states.size(); ++i) {
      const api::AdmissionCheckState& before = workload.status.checks[i];
      if (states[i].state != before.state) {
        EventOn(workload, /*warning=*/false, "AdmissionCheckUpdated",
                "Admission check " + states[i].name + " updated state from " + before.state +
                    " to " + states[i].state +
                    (states[i].message.empty() ? "" : " with message: " + states[i].message));
      }
    }
    writes.push_back(ApplyChecks(workload, states));
  }
  for (const api::ProvisioningRequest* request : requests) {
    if (!used.contains(request) && !request->meta.deleted.has_value() &&
        unit.dropped_requests.insert(request->meta.uid).second) {
      writes.push_back(DeleteRequest(*request));
    }
    for (const api::ProvisioningRequest::PodSet& pod_set : request->pod_sets) {
      const auto pod_template = world_.pod_templates.Find({request->meta.ns, pod_set.pod_template});
      if (used.contains(request) && pod_template != nullptr) {
        if (auto hand_over = HandOver(*pod_template, *request)) {
          writes.push_back(std::move(*hand_over));
        }
      }
    }
  }
  std::vector<std::pair<std::string, std::string>> asking(writes.size());
  if (!asks.empty()) {
    // One at a time: another check's turn comes with the answer.
    const Ask& ask = asks.front();
    const std::string name = ProvisioningRequestName(workload.meta.name, ask.check, ask.attempt);
    const std::vector<AskedPods> pods = PodsToAskFor(workload, *ask.config);
    std::vector<api::WriteRequest> creations;
    std::string problem;
    for (const AskedPods& asked : pods) {
      const std::string of = ProvisioningTemplateName(name, asked.pod_sets.front()->name);
      const auto existing = world_.pod_templates.Find({workload.meta.ns, of});
      auto created = CreateTemplate(workload, asked, world_.flavors, name, existing.get());
      if (!created) {
        problem = "Error creating PodTemplate \"" + of + "\": " + created.error().message;
        break;
      }
      creations.push_back(std::move(*created));
      asking.emplace_back("PodTemplate", of);
    }
    if (!problem.empty()) {
      // Nothing that is tried again: the template or the flavor has to change.
      asking.resize(writes.size());
      if (unit.ask_error != problem) {
        unit.ask_error = problem;
        unit.ask_error_check = ask.check;
        EventOn(workload, /*warning=*/true, "FailedCreate", problem);
        Dirty(unit.key);
      }
    } else {
      for (api::WriteRequest& write : creations) {
        writes.push_back(std::move(write));
      }
      writes.push_back(CreateRequest(workload, *ask.config, name, pods));
      asking.emplace_back("ProvisioningRequest", name);
      unit.asking_check = ask.check;
    }
  }
  Emit(unit, std::move(writes));
  if (unit.in_flight != 0) {
    unit.asking = std::move(asking);
  }
  return unit.in_flight != 0;
}

void Core::TellAsked(Unit& unit, size_t written, const std::optional<Error>& error) {
  if (error.has_value()) {
    unit.dropped_requests.clear();  // what was not deleted is tried again
  }
  const std::vector<std::pair<std::string, std::string>> asking = std::exchange(unit.asking, {});
  const auto workload = world_.workloads.Find(unit.key);
  if (asking.empty() || asking.back().first.empty() || workload == nullptr) {
    return;
  }
  if (!error.has_value()) {
    unit.ask_error.clear();
    EventOn(*workload, /*warning=*/false, "ProvisioningRequestCreated",
            "Created " + asking.back().first + ": \"" + asking.back().second + "\"");
    return;
  }
  if (written < asking.size() && !asking[written].first.empty() && WorthTelling(error->code)) {
    const std::string message = "Error creating " + asking[written].first + " \"" +
                                asking[written].second + "\": " + error->message;
    if (unit.ask_error != message) {
      EventOn(*workload, /*warning=*/true, "FailedCreate", message);
    }
    unit.ask_error = message;
    unit.ask_error_check = unit.asking_check;
  }
}

}  // namespace tutti::reconciler
