// SPDX-License-Identifier: Apache-2.0
// Names that other programs can see. Kueue's keys come from its API documentation; ours share one
// prefix, so that renaming the project is a change of one line.
#pragma once

#include <string_view>

namespace tutti::names {

inline constexpr std::string_view kPrefix = "tutti.dev";
// Label on a Job's pod template, written at release; a policy turns it into spec.schedulingGroup.
inline constexpr std::string_view kPodGroupLabel = "tutti.dev/pod-group";
// Label on a PodGroup with claims: "true" = new pods of the Job stay out of it; a policy sees to
// that.
inline constexpr std::string_view kStartedLabel = "tutti.dev/started";
// Annotation on a Job: names of spec.template.spec.resourceClaims that the whole gang shares.
inline constexpr std::string_view kGangClaimsAnnotation = "tutti.dev/gang-claims";
// Annotation on a ResourceFlavor: Auto, Require, Release, Observe or Off.
inline constexpr std::string_view kCapacityModeAnnotation = "tutti.dev/capacity-mode";

// Annotations on a Job or Workload that `tutti simulate` reads: Go durations, from the start of the
// simulation and from the start of the job.
inline constexpr std::string_view kSimulateArrivalAnnotation = "tutti.dev/simulate-arrival";
inline constexpr std::string_view kSimulateRuntimeAnnotation = "tutti.dev/simulate-runtime";

inline constexpr std::string_view kKueueGroup = "kueue.x-k8s.io";
inline constexpr std::string_view kKueueVersion = "kueue.x-k8s.io/v1beta2";
inline constexpr std::string_view kQueueNameLabel = "kueue.x-k8s.io/queue-name";
inline constexpr std::string_view kPriorityClassLabel = "kueue.x-k8s.io/priority-class";
inline constexpr std::string_view kMaxExecTimeLabel = "kueue.x-k8s.io/max-exec-time-seconds";
inline constexpr std::string_view kJobUidLabel = "kueue.x-k8s.io/job-uid";
inline constexpr std::string_view kPodSetLabel = "kueue.x-k8s.io/podset";
inline constexpr std::string_view kLocalQueueNameLabel = "kueue.x-k8s.io/local-queue-name";
inline constexpr std::string_view kClusterQueueNameLabel = "kueue.x-k8s.io/cluster-queue-name";
inline constexpr std::string_view kPriorityBoostAnnotation = "kueue.x-k8s.io/priority-boost";
inline constexpr std::string_view kAdmissionGatedByAnnotation = "kueue.x-k8s.io/admission-gated-by";
// On pods that are queued, also as finalizer; on what was made for others to act on.
inline constexpr std::string_view kManagedLabel = "kueue.x-k8s.io/managed";
inline constexpr std::string_view kAdmissionGate = "kueue.x-k8s.io/admission";
inline constexpr std::string_view kTopologyGate = "kueue.x-k8s.io/topology";
inline constexpr std::string_view kPodGroupName = "kueue.x-k8s.io/pod-group-name";
inline constexpr std::string_view kPodGroupTotalCount = "kueue.x-k8s.io/pod-group-total-count";
inline constexpr std::string_view kPodGroupFast = "kueue.x-k8s.io/pod-group-fast-admission";
inline constexpr std::string_view kPodGroupServing = "kueue.x-k8s.io/pod-group-serving";
inline constexpr std::string_view kRetriableInGroup = "kueue.x-k8s.io/retriable-in-group";
inline constexpr std::string_view kRoleHash = "kueue.x-k8s.io/role-hash";
inline constexpr std::string_view kIsGroupWorkload = "kueue.x-k8s.io/is-group-workload";
inline constexpr std::string_view kSuspendingParent = "kueue.x-k8s.io/pod-suspending-parent";
inline constexpr std::string_view kMinParallelismAnnotation = "kueue.x-k8s.io/job-min-parallelism";
// Annotation or label on a job: the Workload that somebody else makes for it.
inline constexpr std::string_view kPrebuiltWorkload = "kueue.x-k8s.io/prebuilt-workload-name";
inline constexpr std::string_view kElasticJobAnnotation = "kueue.x-k8s.io/elastic-job";
inline constexpr std::string_view kSliceReplacementAnnotation =
    "kueue.x-k8s.io/workload-slice-replacement-for";
inline constexpr std::string_view kStoppingAnnotation = "kueue.x-k8s.io/stopping";
inline constexpr std::string_view kResourceInUseFinalizer = "kueue.x-k8s.io/resource-in-use";

// Field managers (server-side apply), as Kueue's.
inline constexpr std::string_view kAdmissionManager = "kueue-admission";
inline constexpr std::string_view kPodsReadyManager = "kueue-job-controller-PodsReady";
inline constexpr std::string_view kReclaimableManager = "kueue-reclaimable-pods";
inline constexpr std::string_view kReplacementManager = "kueue-pod-controller";
inline constexpr std::string_view kUpdateManager = "kueue";

// spec.controllerName of the AdmissionChecks that ask an autoscaler; also the field manager of what
// that controller writes.
inline constexpr std::string_view kProvisioningController = "kueue.x-k8s.io/provisioning-request";
// Annotations of a job with this prefix are parameters of its ProvisioningRequests.
inline constexpr std::string_view kProvisioningParameterPrefix = "provreq.kueue.x-k8s.io/";

inline constexpr std::string_view kLeaseName = "c1f6bfd2.kueue.x-k8s.io";
inline constexpr std::string_view kDefaultNamespace = "tutti-system";
inline constexpr std::string_view kServiceAccount = "tutti-controller-manager";

}  // namespace tutti::names
