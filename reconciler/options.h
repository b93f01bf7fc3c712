// SPDX-License-Identifier: Apache-2.0
// What the reconcilers need to know of the configuration and of the server. Set once at start.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/core.h"
#include "base/time.h"
#include "engine/device_mapping.h"
#include "engine/engine.h"
#include "reconciler/resource_rules.h"

namespace tutti::reconciler {

class JobKind;
const JobKind& BatchJobKind();

enum class Mode {
  kObserve,     // decides, writes nothing
  kTakeover,    // installed Kueue CRDs, never touched
  kGreenfield,  // our CRDs
};

// How whole gangs are handed to the scheduler; chosen by discovery.
enum class GangApi {
  kNone,      // no PodGroup API or no pod policy: all-at-once release and the landing watch
  kV1Alpha2,  // scheduling.k8s.io/v1alpha2 of Kubernetes 1.36
  kV1Beta1,   // scheduling.k8s.io/v1beta1 of Kubernetes 1.37
};

// Whether native gangs hold on this cluster, and how that is known.
struct GangFinding {
  enum class State {
    kOff,          // not used: by configuration, or not served
    kUnproven,     // served, and taken on trust so far
    kGates,        // proved: a pod that is alone in its gang is not started
    kDoesNotGate,  // proved: it is, so groups are not used
  };
  State state = State::kUnproven;
  std::string message;  // for a person: why; which component lacks which feature gate
};

// What a released gang's Job gets to keep its pods near the plan. kube-scheduler alone spreads pods
// (LeastAllocated), which leaves no room for the next gang.
enum class Steering {
  kNone,          // the scheduler chooses
  kPreferred,     // preferred node affinity to the planned nodes
  kNodeSelector,  // kubernetes.io/hostname when the plan has one node and the engine says that it
                  // may be bound to it (AdmitDecision::pinned_node), else as kPreferred
};

// Kueue's waitForPodsReady, with its defaults.
struct WaitForPodsReady {
  bool enabled = true;
  Duration timeout = std::chrono::minutes(30);  // from Admitted until all pods are ready once
  // From the loss of readiness until it is back; nullopt = for ever.
  std::optional<Duration> recovery_timeout = std::chrono::minutes(30);
  bool block_admission = false;  // one workload at a time until its pods are ready
  // Place in the queue of a workload that was evicted for this: age of its eviction, or its own.
  bool requeue_by_creation = false;
  std::optional<int32_t> backoff_limit;  // so many times back to the queue, then deactivated
  Duration backoff_base = std::chrono::seconds(60);
  Duration backoff_max = std::chrono::seconds(3600);
};

enum class CapacityChoice { kAuto, kRequire, kRelease, kObserve, kOff };

struct Options {
  Mode mode = Mode::kGreenfield;
  GangApi gang_api = GangApi::kNone;
  Steering steering = Steering::kPreferred;
  CapacityChoice capacity = CapacityChoice::kAuto;
  bool devices = false;  // resource.k8s.io/v1 is served: its objects are passed in
  bool volumes = false;  // all kinds of volumes (core.h) may be read: they are passed in
  // Quota for devices (gate KueueDRAIntegration); off: claims are refused, or cost nothing.
  bool device_quota = true;
  bool reject_claims_without_quota = true;  // gate KueueDRARejectWorkloadsWhenDRADisabled
  bool extended_resource_quota = true;      // gate KueueDRAIntegrationExtendedResource
  std::vector<engine::DeviceClassMapping> device_mappings;
  bool autoscaler_seen = false;  // by discovery: Karpenter's API group or an autoscaler's status

  std::string own_namespace = "tutti-system";
  // metav1.LabelSelector over namespaces whose jobs are managed.
  api::LabelSelector managed_namespaces;
  bool manage_jobs_without_queue_name = false;
  // Gate WorkloadIdentifierAnnotations: a prebuilt Workload may be named by an annotation, too.
  bool prebuilt_by_annotation = true;

  // Kinds of jobs that are queued, in the order of AllJobKinds (job_kinds.h).
  std::vector<const JobKind*> job_kinds = {&BatchJobKind()};

  // Gate SkipReassignmentForPodOwnedWorkloads: the Workload of an evicted pod isn't queued again.
  bool pods_stay_evicted = true;

  ResourceRules resources;
  std::vector<std::string> label_keys_to_copy;  // from a job to its Workload, at creation
  std::vector<std::string> annotation_keys_to_copy;
  bool scheduler = true;  // false: nothing new is admitted; quota is held and given back as ever
  // false: only what Kueue's job controllers do. Queues, flavors, checks, and what becomes of a
  // Workload apart from its job, belong to another controller. Implies no scheduler.
  bool core = true;
  std::optional<engine::FairSharing> fair_sharing = {};
  std::optional<engine::AdmissionFairSharing> admission_fair_sharing = {};
  engine::Rules rules = {};
  bool reclaimable_pods = true;  // gate ReclaimablePods: pods that are done give their quota back
  bool priority_boost = false;   // gate PriorityBoost: the annotation counts
  bool preemption_gates =
      true;                     // gate MultiKueueOrchestratedPreemption: spec.preemptionGates count
  bool workload_slices = true;  // gate ElasticJobsViaWorkloadSlices
  // Gate UnadmittedWorkloadsObservability: conditions say which of Kueue's detailed reasons it is.
  bool detailed_reasons = false;
  // Gate UnadmittedWorkloadsExplicitStatus: from the start, before anything was decided.
  bool explicit_status = false;

  Duration landing_timeout = std::chrono::seconds(60);
  // Once a first pod is bound, the rest of the gang has this long.
  Duration partial_binding_timeout = std::chrono::seconds(10);
  Duration backoff_base = std::chrono::seconds(10);
  Duration backoff_max = std::chrono::minutes(10);
  WaitForPodsReady wait_for_pods_ready;
  // objectRetentionPolicies.workloads: how long after its end a Workload is deleted, and a Job
  // after its Workload was deactivated by the controller; nullopt = kept.
  std::optional<Duration> retain_finished;
  std::optional<Duration> retain_deactivated;
  // While checks of a reserved workload are pending its place is kept so long; then others may use
  // it, and it is looked for again when the checks are ready.
  Duration place_hold = std::chrono::seconds(60);
  // So long the Job controller may take to see a suspended Job, before its start time is reset for
  // it.
  Duration job_controller_grace = std::chrono::seconds(1);
  // ProvisioningRequests of an evicted workload are deleted (gate
  // CleanupProvisioningRequestsOnEviction).
  bool end_requests_on_eviction = true;
  Duration reclaim_interval = std::chrono::seconds(1);  // between writes of reclaimablePods
  Duration pending_reason_delay = std::chrono::seconds(1);
  Duration queue_status_interval = std::chrono::seconds(1);
};

}  // namespace tutti::reconciler
