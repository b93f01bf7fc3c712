// SPDX-License-Identifier: Apache-2.0
// The admission check that asks an autoscaler for nodes (KEP 1136; controller name
// kueue.x-k8s.io/provisioning-request): which pods are asked for, the objects that ask, and what an
// answer means for the check. Pure functions; docs/provisioning.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/kueue.h"
#include "api/provisioning.h"
#include "api/request.h"
#include "base/result.h"
#include "base/time.h"
#include "reconciler/store.h"

namespace tutti::reconciler {

// Why a check of this controller can't work: reason and message of its condition Active; "" = it
// can. `served`: the API server has the kind ProvisioningRequest.
struct CheckProblem {
  std::string reason;
  std::string message;
};
[[nodiscard]] CheckProblem ProvisioningProblem(const api::AdmissionCheck& check,
                                               const Store<api::ProvisioningConfig>& configs,
                                               bool served);

// Pods of one template that are asked for together: one pod set, or several that are merged by
// podSetMergePolicy.
struct AskedPods {
  std::vector<const api::PodSet*> pod_sets;           // the first one gives template and name
  const api::PodSetAssignment* assignment = nullptr;  // of the first one; may be null
  int64_t count = 0;
};
// Of the pod sets that use a managed resource and have pods by their admission. Empty: no request
// is needed. REQUIRES: workload.status.admission.
[[nodiscard]] std::vector<AskedPods> PodsToAskFor(const api::Workload& workload,
                                                  const api::ProvisioningConfig& config);

// The newest request of the workload for the check that is as `config` would make it now, with its
// attempt; {nullptr, 0} without one.
struct Attempt {
  const api::ProvisioningRequest* request = nullptr;
  int32_t number = 0;
};
[[nodiscard]] Attempt LatestAttempt(const std::vector<const api::ProvisioningRequest*>& requests,
                                    std::string_view workload, std::string_view check,
                                    const api::ProvisioningConfig& config);

// The check's entry as the latest attempt's answer wants it. `config` null: the check is not
// active. The transition time follows the state. `now` counts for a retry: the pause begins with
// the failure.
[[nodiscard]] api::AdmissionCheckState CheckAfter(const api::Workload& workload,
                                                  api::AdmissionCheckState check,
                                                  const api::ProvisioningConfig* config,
                                                  const Attempt& latest, Time now);

// The attempt that has to be made now; nullopt = none. `check` as CheckAfter returned it.
[[nodiscard]] std::optional<int32_t> NextAttempt(const api::Workload& workload,
                                                 const api::AdmissionCheckState& check,
                                                 const Attempt& latest);

// Creates the ProvisioningRequest of an attempt, owned by the workload.
[[nodiscard]] api::WriteRequest CreateRequest(const api::Workload& workload,
                                              const api::ProvisioningConfig& config,
                                              const std::string& name,
                                              const std::vector<AskedPods>& pods);
// Creates one of its PodTemplates, as the pods will be after the start: with selectors and
// tolerations of their flavors, requests filled from limits. Owned by the workload until the
// request exists (HandOver). `existing`: one of that name is there, left by a request that is gone;
// it is replaced. kInvalid, with the field, when template and flavor contradict each other.
Result<api::WriteRequest> CreateTemplate(const api::Workload& workload, const AskedPods& pods,
                                         const Store<api::ResourceFlavor>& flavors,
                                         const std::string& request,
                                         const api::PodTemplate* existing);
// Makes the request the owner of its template, so that both go together; nullopt = it is.
[[nodiscard]] std::optional<api::WriteRequest> HandOver(const api::PodTemplate& pod_template,
                                                        const api::ProvisioningRequest& request);
// Guarded by the UID.
[[nodiscard]] api::WriteRequest DeleteRequest(const api::ProvisioningRequest& request);

// All entries of status.admissionChecks, applied by the controller of the check; guarded by
// resourceVersion.
[[nodiscard]] api::WriteRequest ApplyChecks(const api::Workload& workload,
                                            const std::vector<api::AdmissionCheckState>& checks);

// UID of the Workload that controls an object; "" = none.
[[nodiscard]] std::string OwningWorkload(const api::ObjectMeta& meta);

}  // namespace tutti::reconciler
