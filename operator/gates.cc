// SPDX-License-Identifier: Apache-2.0
#include "operator/gates.h"

#include <algorithm>

#include "operator/suggest.h"

namespace tutti {
namespace {

// name, default, locked, can be on, can be off
constexpr GateInfo kGates[] = {
    {"AdmissionFairSharing", true, false, false, true},
    {"AdmissionGatedBy", true, false, true, false},
    {"AssignQueueLabelsForPods", true, false, true, false},
    {"CleanupProvisioningRequestsOnEviction", true, false, true, true},
    {"ConcurrentAdmission", false, false, false, true},
    {"CustomMetricLabels", false, false, true, true},
    {"DeferRayServiceFinalizationForRedisCleanup", true, false, false, true},
    {"DisableWaitForPodsReady", false, false, true, true},
    {"ElasticJobsViaWorkloadSlices", true, false, true, true},
    {"ElasticJobsViaWorkloadSlicesWithTAS", false, false, false, true},
    {"FailureRecoveryPolicy", false, false, false, true},
    {"FairSharingPreemptWithinNominal", true, false, false, true},
    {"FairSharingPrioritizeNonBorrowing", true, false, false, true},
    {"FastQuotaReleaseInPodIntegration", false, false, false, true},
    {"FinishOrphanedWorkloads", true, false, true, false},
    {"FlavorFungibility", true, false, true, false},
    {"FlavorFungibilityPreserveScanProgress", true, false, true, false},
    {"HierarchicalCohorts", true, true, true, false},
    {"KueueDRAIntegration", true, false, true, true},
    {"KueueDRAIntegrationConsumableCapacity", false, false, true, true},
    {"KueueDRAIntegrationExtendedResource", true, false, true, true},
    {"KueueDRAIntegrationPartitionableDevices", true, false, true, true},
    {"KueueDRARejectWorkloadsWhenDRADisabled", true, false, false, true},
    {"LWSImmutableGroupSize", true, false, false, true},
    {"LocalQueueMetrics", true, false, true, true},
    {"ManagedJobsNamespaceSelectorAlwaysRespected", true, true, true, false},
    {"MetricForWorkloadCreationLatency", true, false, true, true},
    {"MetricsForCohorts", true, false, true, true},
    {"MultiKueue", true, false, false, true},
    {"MultiKueueAdaptersForCustomJobs", true, false, false, true},
    {"MultiKueueAllowInsecureKubeconfigs", false, true, false, true},
    {"MultiKueueClusterProfile", false, false, false, true},
    {"MultiKueueIncrementalDispatcherConfig", true, false, false, true},
    {"MultiKueueIncrementalDispatcherRespectConfigOrder", true, false, false, true},
    {"MultiKueueKubeConfigPathValidation", false, false, false, true},
    {"MultiKueueManagerQuotaAutomation", false, false, false, true},
    {"MultiKueueOrchestratedPreemption", false, false, true, true},
    {"MultiKueueRedoAdmissionOnEvictionInWorker", true, true, true, false},
    {"MultiKueueRemoteSpecSync", true, false, false, true},
    {"MultiKueueWaitForWorkloadAdmitted", true, true, true, false},
    {"ObjectRetentionPolicies", true, true, true, false},
    {"PartialAdmission", true, false, true, false},
    {"PodIntegrationValidateGroupOwner", true, false, false, true},
    {"PrioritizePreemptorWorkloads", false, false, true, true},
    {"PriorityBoost", false, false, true, true},
    {"PrioritySortingWithinCohort", true, false, true, true},
    {"PropagateBatchJobLabelsToWorkload", true, true, true, false},
    {"QuotaCheckStrategy", true, false, true, true},
    {"ReclaimablePods", true, false, true, true},
    {"RecomputeAssignmentUponPreemptionTargetsOverlap", false, false, true, true},
    {"RejectUpdatesToCQWithInvalidOnFlavors", false, false, false, true},
    {"RemoveFinalizersWithStrictPatch", true, false, true, false},
    {"SchedulerLibraryIntegration", false, false, false, true},
    {"SchedulerLongRequeueInterval", false, false, false, true},
    {"SchedulerTimestampPreemptionBuffer", false, false, false, true},
    {"SchedulingEquivalenceHashing", true, false, true, true},
    {"ShortWorkloadNames", false, false, false, true},
    {"SkipAncestorCheckForDeletedWorkloads", true, false, false, true},
    {"SkipFinalizersForPodsSuspendedByParent", true, true, true, false},
    {"SkipReassignmentForPodOwnedWorkloads", true, false, false, true},
    {"SparkApplicationIntegration", false, false, false, true},
    {"TASAssignmentsEncodingByHostnamePrefix", true, false, false, true},
    {"TASBalancedPlacement", false, false, false, true},
    {"TASCacheNodeMatchResults", true, false, false, true},
    {"TASCacheTopologyTree", false, false, false, true},
    {"TASCachingRemainingResources", true, false, false, true},
    {"TASFailedNodeReplacement", true, false, false, true},
    {"TASFailedNodeReplacementFailFast", true, false, false, true},
    {"TASHandleOverlappingFlavors", true, false, false, true},
    {"TASMultiLayerTopology", true, false, false, true},
    {"TASProfileMixed", true, false, false, true},
    {"TASRecomputeAssignmentWithinSchedulingCycle", true, false, false, true},
    {"TASReplaceNodeDueToNotReadyOverFixedTime", false, false, false, true},
    {"TASReplaceNodeOnNodeTaints", true, false, false, true},
    {"TASReplaceNodeOnPodTermination", true, false, false, true},
    {"TASRespectNodeAffinityPreferred", false, false, false, true},
    {"TASValidateWorkloadSliceSize", true, false, true, false},
    {"TLSOptions", true, false, true, false},
    {"TopologyAwareScheduling", true, false, false, true},
    {"UnadmittedWorkloadsExplicitStatus", false, false, true, true},
    {"UnadmittedWorkloadsObservability", false, false, true, true},
    {"ValidateRayAndSparkJobUpdates", true, false, false, true},
    {"VectorizedResourceRequests", true, false, true, true},
    {"VisibilityOnDemand", true, false, true, true},
    {"WorkloadIdentifierAnnotations", true, false, false, true},
    {"WorkloadPriorityClassDefaulting", false, false, true, true},
    {"WorkloadRequestUseMergePatch", false, false, false, true},
    {"WorkloadValidateResourcesAreNonNegative", true, false, true, false},
    {"WorkloadValidationForPodSetMetadata", true, false, true, false},
};

struct Dependency {
  std::string_view gate;
  std::string_view needs;
};
constexpr Dependency kDependencies[] = {
    {"TASProfileMixed", "TopologyAwareScheduling"},
    {"TASHandleOverlappingFlavors", "TopologyAwareScheduling"},
    {"TASFailedNodeReplacement", "TopologyAwareScheduling"},
    {"TASFailedNodeReplacementFailFast", "TopologyAwareScheduling"},
    {"TASReplaceNodeOnPodTermination", "TopologyAwareScheduling"},
    {"TASReplaceNodeDueToNotReadyOverFixedTime", "TopologyAwareScheduling"},
    {"TASBalancedPlacement", "TopologyAwareScheduling"},
    {"TASReplaceNodeOnNodeTaints", "TopologyAwareScheduling"},
    {"TASMultiLayerTopology", "TopologyAwareScheduling"},
    {"TASRespectNodeAffinityPreferred", "TopologyAwareScheduling"},
    {"TASRecomputeAssignmentWithinSchedulingCycle", "TopologyAwareScheduling"},
    {"ElasticJobsViaWorkloadSlicesWithTAS", "TopologyAwareScheduling"},
    {"TASFailedNodeReplacementFailFast", "TASFailedNodeReplacement"},
    {"TASReplaceNodeOnPodTermination", "TASFailedNodeReplacement"},
    {"TASReplaceNodeDueToNotReadyOverFixedTime", "TASFailedNodeReplacement"},
    {"UnadmittedWorkloadsExplicitStatus", "UnadmittedWorkloadsObservability"},
    {"ElasticJobsViaWorkloadSlicesWithTAS", "ElasticJobsViaWorkloadSlices"},
    {"KueueDRAIntegrationExtendedResource", "KueueDRAIntegration"},
    {"KueueDRAIntegrationPartitionableDevices", "KueueDRAIntegration"},
    {"KueueDRAIntegrationConsumableCapacity", "KueueDRAIntegration"},
};

const GateInfo* FindGate(std::string_view name) {
  for (const GateInfo& gate : kGates) {
    if (gate.name == name) {
      return &gate;
    }
  }
  return nullptr;
}

std::string CheckSetting(const std::string& name, bool value) {
  const GateInfo* gate = FindGate(name);
  if (gate == nullptr) {
    std::vector<std::string_view> names;
    for (const GateInfo& known : kGates) {
      names.push_back(known.name);
    }
    return "unknown feature gate" + DidYouMean(name, names);
  }
  if (gate->locked && value != gate->fallback) {
    return std::string("the gate is locked to ") + (gate->fallback ? "true" : "false");
  }
  if (value && !gate->can_be_on) {
    return "not supported by this version; leave the gate out or set it to false";
  }
  if (!value && !gate->can_be_off) {
    return "switching this off is not supported by this version; leave the gate out or set it to "
           "true";
  }
  return "";
}

}  // namespace

const std::vector<GateInfo>& KnownGates() {
  static const std::vector<GateInfo> gates(std::begin(kGates), std::end(kGates));
  return gates;
}

Result<FeatureGates> FeatureGates::From(const std::map<std::string, bool>& settings) {
  FeatureGates gates;
  std::string problems;
  const auto report = [&problems](std::string_view gate, const std::string& what) {
    problems +=
        (problems.empty() ? "" : "\n") + ("featureGates." + std::string(gate)) + ": " + what;
  };
  for (const auto& [name, value] : settings) {
    const std::string problem = CheckSetting(name, value);
    if (!problem.empty()) {
      report(name, problem);
    }
    gates.settings_[name] = value;
  }
  if (problems.empty()) {
    for (const Dependency& dependency : kDependencies) {
      if (gates.Enabled(dependency.gate) && !gates.Enabled(dependency.needs)) {
        report(dependency.gate, "is on but depends on " + std::string(dependency.needs) +
                                    ", which is off; switch both off");
      }
    }
  }
  if (!problems.empty()) {
    return Fail(ErrorCode::kInvalid, problems);
  }
  return gates;
}

Result<std::map<std::string, bool>> FeatureGates::ParseFlag(std::string_view text) {
  std::map<std::string, bool> settings;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    std::string_view item = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    while (!item.empty() && item.front() == ' ') {
      item.remove_prefix(1);
    }
    while (!item.empty() && item.back() == ' ') {
      item.remove_suffix(1);
    }
    if (item.empty()) {
      continue;
    }
    const size_t equals = item.find('=');
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : item.substr(equals + 1);
    if (value != "true" && value != "false") {
      return Fail(ErrorCode::kInvalid,
                  "--feature-gates: '" + std::string(item) + "' is not Name=true or Name=false");
    }
    settings[std::string(item.substr(0, equals))] = value == "true";
  }
  return settings;
}

bool FeatureGates::Enabled(std::string_view name) const {
  const auto found = settings_.find(name);
  if (found != settings_.end()) {
    return found->second;
  }
  const GateInfo* gate = FindGate(name);
  return gate != nullptr && gate->fallback;
}

}  // namespace tutti
