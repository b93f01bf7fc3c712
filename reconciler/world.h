// SPDX-License-Identifier: Apache-2.0
// Everything that the API server has shown, by kind, with the indexes that reconcilers use.
// Loop thread only.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/core.h"
#include "api/dra.h"
#include "api/kueue.h"
#include "api/pod_requests.h"
#include "api/provisioning.h"
#include "reconciler/job_kind.h"
#include "reconciler/store.h"

namespace tutti::reconciler {

struct World {
  std::vector<const JobKind*> kinds;             // those in use, as asked (job_kinds.h)
  std::map<std::string, Store<QueuedJob>> jobs;  // by framework; those with an object
  Store<WatchedPod> pods;
  Store<api::PodGroup> groups;
  Store<api::Workload> workloads;
  Store<api::ClusterQueue> cluster_queues;
  Store<api::LocalQueue> local_queues;
  Store<api::Cohort> cohorts;
  Store<api::ResourceFlavor> flavors;
  Store<api::AdmissionCheck> admission_checks;
  Store<api::WorkloadPriorityClass> workload_priorities;
  Store<api::PriorityClass> priorities;
  Store<api::Namespace> namespaces;
  Store<api::LimitRange> limit_ranges;
  Store<api::RuntimeClass> runtime_classes;
  Store<api::ResourceClaim> claims;
  Store<api::ProvisioningConfig> provisioning_configs;
  Store<api::ProvisioningRequest> provisioning_requests;
  Store<api::PodTemplate> pod_templates;

  std::map<std::string, std::shared_ptr<const QueuedJob>> job_by_uid;
  std::map<std::string, std::set<std::string>> jobs_of_namespace;  // UIDs
  std::map<std::string, std::set<api::ObjectKey>> pods_by_job;     // UID of their job (MemberOf)
  std::map<std::string, std::set<api::ObjectKey>> groups_by_job;   // UID of an owning job

  std::map<std::string, std::set<api::ObjectKey>> claims_by_pod;  // UID of the controlling Pod

  // UID of the controlling Workload
  std::map<std::string, std::set<api::ObjectKey>> requests_by_workload;

  // nullptr: there is none, or none any more.
  [[nodiscard]] std::shared_ptr<const QueuedJob> JobOf(const std::string& uid) const;
  [[nodiscard]] size_t CountJobs() const;
  // The job that a pod belongs to; nullopt: none of a kind in use.
  [[nodiscard]] std::optional<PodMember> MemberOf(const WatchedPod& pod) const;
  // UID of the job that owns an object; "" = none of a kind in use.
  [[nodiscard]] std::string OwnerOf(const api::ObjectMeta& object) const;
  [[nodiscard]] std::vector<const api::Pod*> PodsOf(const std::string& job_uid) const;
  // Those made for this job alone (gang.h, MadeFor).
  [[nodiscard]] std::vector<const api::PodGroup*> GroupsOf(const std::string& job_uid) const;
  // The one that the Job controller made for the job by itself; nullptr when there is none.
  [[nodiscard]] const api::PodGroup* ControllersGroupOf(const std::string& job_uid) const;
  // Pods that are neither terminal nor being deleted.
  [[nodiscard]] int32_t ActivePods(const std::string& job_uid) const;
  [[nodiscard]] api::PodContext ContextOf(const std::string& ns,
                                          const std::string& runtime_class) const;
};

}  // namespace tutti::reconciler
