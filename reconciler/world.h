// SPDX-License-Identifier: Apache-2.0
// Everything that the API server has shown, by kind, with the indexes that reconcilers use.
// Loop thread only.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "api/batch.h"
#include "api/core.h"
#include "api/dra.h"
#include "api/kueue.h"
#include "api/pod_requests.h"
#include "reconciler/store.h"

namespace tutti::reconciler {

struct World {
  Store<api::Job> jobs;
  Store<api::Pod> pods;
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

  std::map<std::string, api::ObjectKey> job_by_uid;
  std::map<std::string, std::set<api::ObjectKey>> pods_by_job;    // UID of the owning Job
  std::map<std::string, std::set<api::ObjectKey>> groups_by_job;  // UID of an owning Job

  std::map<std::string, std::set<api::ObjectKey>> claims_by_pod;  // UID of the controlling Pod

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

// UID of the Job that controls a pod or owns a group; "" when none.
[[nodiscard]] std::string OwningJob(const api::ObjectMeta& meta);

}  // namespace tutti::reconciler
