// SPDX-License-Identifier: Apache-2.0
#include "operator/bridge.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "reconciler/job_kinds.h"

namespace tutti {
namespace {

constexpr std::string_view kKueuePrefix = "kueue_";

storage::LedgerEvent EventOf(reconciler::HistoryKind kind) {
  switch (kind) {
    case reconciler::HistoryKind::kCreated:
      return storage::LedgerEvent::kCreated;
    case reconciler::HistoryKind::kPending:
      return storage::LedgerEvent::kPending;
    case reconciler::HistoryKind::kQuotaReserved:
      return storage::LedgerEvent::kQuotaReserved;
    case reconciler::HistoryKind::kReleased:
      return storage::LedgerEvent::kReleased;
    case reconciler::HistoryKind::kLanded:
      return storage::LedgerEvent::kPodsBound;
    case reconciler::HistoryKind::kEvicted:
      return storage::LedgerEvent::kEvicted;
    case reconciler::HistoryKind::kRequeued:
      return storage::LedgerEvent::kRequeued;
    case reconciler::HistoryKind::kFinished:
      return storage::LedgerEvent::kFinished;
    case reconciler::HistoryKind::kDeleted:
      return storage::LedgerEvent::kDeleted;
  }
  return storage::LedgerEvent::kCreated;
}

const MetricInfo* FindMetric(std::string_view name) {
  static const auto* const kByName = [] {
    auto* map = new std::map<std::string_view, const MetricInfo*>;
    for (const MetricInfo& info : MetricTable()) {
      map->emplace(info.name, &info);
    }
    return map;
  }();
  const auto it = kByName->find(name);
  return it != kByName->end() ? it->second : nullptr;
}

std::string_view LabelOf(const reconciler::MetricSample& sample, std::string_view name) {
  for (const auto& [label, value] : sample.labels) {
    if (label == name) {
      return value;
    }
  }
  return "";
}

void RecordAs(const MetricInfo& info, const reconciler::MetricSample& sample, Metrics& metrics) {
  using Op = reconciler::MetricSample::Op;
  std::vector<std::string_view> values;
  for (const std::string_view label : info.labels) {
    values.push_back(LabelOf(sample, label));
  }
  switch (sample.op) {
    case Op::kAdd:
      metrics.Add(info.id, values, sample.value);
      break;
    case Op::kSet:
      metrics.Set(info.id, values, sample.value);
      break;
    case Op::kObserve:
      metrics.Observe(info.id, values, sample.value);
      break;
    case Op::kRemove:
      break;
  }
}

}  // namespace

std::string_view ModeName(Mode mode) {
  switch (mode) {
    case Mode::kObserve:
      return "Observe";
    case Mode::kTakeover:
      return "Takeover";
    case Mode::kGreenfield:
      return "Greenfield";
  }
  return "Greenfield";
}

std::string_view EventName(kube::WatchEventType type) {
  switch (type) {
    case kube::WatchEventType::kInitialAdd:
      return "INITIAL";
    case kube::WatchEventType::kAdded:
      return "ADDED";
    case kube::WatchEventType::kModified:
      return "MODIFIED";
    case kube::WatchEventType::kDeleted:
      return "DELETED";
    case kube::WatchEventType::kSynced:
      return "SYNCED";
    case kube::WatchEventType::kAbsent:
      return "ABSENT";
    case kube::WatchEventType::kRelisted:
      return "RELISTED";
  }
  return "";
}

storage::LedgerRow ToLedgerRow(const reconciler::HistoryRow& row) {
  storage::LedgerRow out;
  out.time = row.time;
  out.event = EventOf(row.kind);
  out.workload = row.workload;
  out.uid = row.workload_uid;
  out.job = row.job.empty() ? "" : "Job/" + row.job;
  out.local_queue = row.local_queue;
  out.cluster_queue = row.cluster_queue;
  out.pods = row.pods;
  out.reason = row.reason;
  out.message = row.message;
  for (const auto& amount : row.amounts) {
    out.amounts.push_back({amount.flavor, amount.resource, amount.amount});
  }
  return out;
}

storage::LedgerRow ToLedgerRow(const reconciler::ObservedDecision& decision) {
  storage::LedgerRow out;
  out.time = decision.time;
  out.event =
      decision.agreed ? storage::LedgerEvent::kForeseen : storage::LedgerEvent::kNotForeseen;
  out.workload = decision.workload;
  out.uid = decision.workload_uid;
  out.local_queue = decision.local_queue;
  out.cluster_queue = decision.cluster_queue;
  out.reason = std::string(reconciler::ToString(decision.kind));
  out.message = decision.live + "\n" + decision.ours;
  return out;
}

bool Record(const reconciler::MetricSample& sample, Metrics& metrics,
            const std::function<bool(const api::ObjectKey& local_queue)>& wanted) {
  if (sample.op == reconciler::MetricSample::Op::kRemove) {
    if (const std::string_view cohort = LabelOf(sample, "cohort"); !cohort.empty()) {
      metrics.RemoveCohort(cohort);
      return true;
    }
    if (const std::string_view queue = LabelOf(sample, "cluster_queue"); !queue.empty()) {
      metrics.RemoveClusterQueue(queue);
    }
    if (const std::string_view queue = LabelOf(sample, "name"); !queue.empty()) {
      metrics.RemoveLocalQueue({std::string(LabelOf(sample, "namespace")), std::string(queue)});
    }
    return true;
  }
  const MetricInfo* info = FindMetric(sample.name);
  if (info == nullptr) {
    return false;
  }
  if (!metrics.SplitByWorkload(info->id)) {  // else QueueMetrics sets it
    RecordAs(*info, sample, metrics);
  }
  const std::string_view local_queue = LabelOf(sample, "name");
  if (local_queue.empty() || sample.name.rfind(kKueuePrefix, 0) != 0) {
    return true;
  }
  const MetricInfo* local =
      FindMetric("kueue_local_queue_" + sample.name.substr(kKueuePrefix.size()));
  const api::ObjectKey key{std::string(LabelOf(sample, "namespace")), std::string(local_queue)};
  if (local != nullptr && wanted(key)) {
    RecordAs(*local, sample, metrics);
  }
  return true;
}

std::string_view VerbName(api::Verb verb) {
  switch (verb) {
    case api::Verb::kCreate:
      return "create";
    case api::Verb::kApply:
      return "apply";
    case api::Verb::kUpdate:
      return "update";
    case api::Verb::kDelete:
      return "delete";
    case api::Verb::kMergePatch:
    case api::Verb::kJsonPatch:
      return "patch";
  }
  return "patch";
}

void RecordWrite(const kube::WriteSample& sample, Metrics& metrics) {
  std::string resource(sample.resource);
  if (!sample.subresource.empty()) {
    resource += "/" + std::string(sample.subresource);
  }
  const std::string_view verb = VerbName(sample.verb);
  metrics.Add(Metric::kApiWrites, {verb, resource, sample.code});
  metrics.Observe(Metric::kApiWriteSeconds, {verb},
                  std::chrono::duration<double>(sample.latency).count());
}

GangChoice ChooseGangApi(const Config& config, const ServerFacts& facts) {
  const auto& served = facts.discovery.podgroup_versions;
  const auto serves = [&](std::string_view version) {
    return std::find(served.begin(), served.end(), version) != served.end();
  };
  if (!config.native_gang) {
    return {reconciler::GangApi::kNone, "nativeGang: Off in the configuration"};
  }
  if (config.mode == Mode::kTakeover) {
    return {reconciler::GangApi::kNone, "an alpha API is not used after a takeover"};
  }
  if (!serves("v1beta1") && !serves("v1alpha2")) {
    return {reconciler::GangApi::kNone,
            "the server does not serve scheduling.k8s.io PodGroups (feature gate GenericWorkload)"};
  }
  if (!facts.join_policy) {
    return {reconciler::GangApi::kNone,
            "MutatingAdmissionPolicy tutti-pod-joins-group is not installed"};
  }
  return {serves("v1beta1") ? reconciler::GangApi::kV1Beta1 : reconciler::GangApi::kV1Alpha2, ""};
}

storage::LedgerStats RecordLedger(const storage::LedgerStats& now,
                                  const storage::LedgerStats& before, Metrics& metrics) {
  const auto add = [&](Metric metric, const Metrics::Labels& labels, uint64_t a, uint64_t b) {
    metrics.Add(metric, labels, static_cast<double>(a - b));
  };
  metrics.Set(Metric::kLedgerQueued, static_cast<double>(now.queued));
  add(Metric::kLedgerRows, {}, now.written, before.written);
  add(Metric::kLedgerDropped, {}, now.dropped, before.dropped);
  add(Metric::kLedgerErrors, {"open"}, now.open_errors, before.open_errors);
  add(Metric::kLedgerErrors, {"write"}, now.write_errors, before.write_errors);
  add(Metric::kLedgerErrors, {"corrupt"}, now.corrupt_files, before.corrupt_files);
  return now;
}

reconciler::Options ToOptions(const Config& config, const ServerFacts& facts) {
  reconciler::Options options;
  options.scheduler = config.scheduler && config.core;
  options.core = config.core;
  options.job_kinds = reconciler::KindsFor(config.integrations.frameworks);
  options.pods_stay_evicted = config.gates.Enabled("SkipReassignmentForPodOwnedWorkloads");
  options.label_keys_to_copy = config.integrations.label_keys_to_copy;
  if (config.gates.Enabled("CustomMetricLabels")) {
    const CustomLabels custom(config.metrics.custom_labels);
    const std::vector<std::string> labels = custom.WorkloadLabelKeys();
    options.label_keys_to_copy.insert(options.label_keys_to_copy.end(), labels.begin(),
                                      labels.end());
    options.annotation_keys_to_copy = custom.WorkloadAnnotationKeys();
  }
  options.resources = {config.resources.exclude_prefixes, config.resources.transformations};
  options.devices = facts.discovery.devices;
  options.volumes = facts.volumes;
  options.device_quota = config.gates.Enabled("KueueDRAIntegration");
  options.reject_claims_without_quota =
      config.gates.Enabled("KueueDRARejectWorkloadsWhenDRADisabled");
  options.extended_resource_quota = config.gates.Enabled("KueueDRAIntegrationExtendedResource");
  options.device_mappings = config.device_mappings;
  options.end_requests_on_eviction = config.gates.Enabled("CleanupProvisioningRequestsOnEviction");
  options.reclaimable_pods = config.gates.Enabled("ReclaimablePods");
  options.priority_boost = config.gates.Enabled("PriorityBoost");
  options.preemption_gates = config.gates.Enabled("MultiKueueOrchestratedPreemption");
  options.workload_slices = config.gates.Enabled("ElasticJobsViaWorkloadSlices");
  options.detailed_reasons = config.gates.Enabled("UnadmittedWorkloadsObservability");
  options.explicit_status = config.gates.Enabled("UnadmittedWorkloadsExplicitStatus");
  options.rules = {
      .priority_within_cohort = config.gates.Enabled("PrioritySortingWithinCohort"),
      .ignore_undeclared =
          config.resources.ignore_undeclared && config.gates.Enabled("QuotaCheckStrategy"),
      .tell_bypassed =
          options.explicit_status && config.gates.Enabled("SchedulingEquivalenceHashing"),
      // Whom it watches isn't held back.
      .preemption_interval =
          config.mode == Mode::kObserve ? Duration::zero() : config.preemption_interval,
  };
  switch (config.mode) {
    case Mode::kObserve:
      options.mode = reconciler::Mode::kObserve;
      break;
    case Mode::kTakeover:
      options.mode = reconciler::Mode::kTakeover;
      break;
    case Mode::kGreenfield:
      options.mode = reconciler::Mode::kGreenfield;
      break;
  }
  switch (config.capacity) {
    case CapacitySetting::kAuto:
      options.capacity = reconciler::CapacityChoice::kAuto;
      break;
    case CapacitySetting::kRequire:
      options.capacity = reconciler::CapacityChoice::kRequire;
      break;
    case CapacitySetting::kRelease:
      options.capacity = reconciler::CapacityChoice::kRelease;
      break;
    case CapacitySetting::kObserve:
      options.capacity = reconciler::CapacityChoice::kObserve;
      break;
    case CapacitySetting::kOff:
      options.capacity = reconciler::CapacityChoice::kOff;
      break;
  }
  switch (config.steering) {
    case Steering::kNone:
      options.steering = reconciler::Steering::kNone;
      break;
    case Steering::kPreferred:
      options.steering = reconciler::Steering::kPreferred;
      break;
    case Steering::kNodeSelector:
      options.steering = reconciler::Steering::kNodeSelector;
      break;
  }
  if (options.mode == reconciler::Mode::kObserve &&
      options.capacity == reconciler::CapacityChoice::kAuto) {
    // Beside a controller that goes by quota alone: with places it would be compared with a
    // promise that the other one does not make.
    options.capacity = reconciler::CapacityChoice::kOff;
  }
  options.gang_api = ChooseGangApi(config, facts).api;
  options.autoscaler_seen = facts.autoscaler;
  options.own_namespace = config.ns;
  if (config.fair_sharing) {
    engine::FairSharing& fair = options.fair_sharing.emplace();
    for (const PreemptionStrategy strategy : config.fair_sharing->strategies) {
      fair.strategies.push_back(strategy == PreemptionStrategy::kLessThanInitialShare
                                    ? engine::FairStrategy::kLessThanInitialShare
                                    : engine::FairStrategy::kLessThanOrEqualToFinalShare);
    }
  }
  if (config.admission_fair_sharing && config.gates.Enabled("AdmissionFairSharing")) {
    options.admission_fair_sharing = {config.admission_fair_sharing->usage_half_life,
                                      config.admission_fair_sharing->usage_sampling_interval,
                                      config.admission_fair_sharing->resource_weights};
  }
  options.managed_namespaces = config.managed_jobs_namespace_selector;
  options.manage_jobs_without_queue_name = config.manage_jobs_without_queue_name;
  options.prebuilt_by_annotation = config.gates.Enabled("WorkloadIdentifierAnnotations");
  options.landing_timeout = config.landing.timeout;
  options.backoff_base = config.landing.backoff_base;
  options.backoff_max = config.landing.backoff_max;
  options.pending_reason_delay = config.pending_reason_delay;
  const Config::WaitForPodsReady& ready = config.wait_for_pods_ready;
  options.wait_for_pods_ready = {
      .enabled = ready.enabled,
      .timeout = ready.timeout,
      .recovery_timeout = ready.recovery_timeout.value_or(ready.timeout),
      .block_admission = ready.block_admission,
      .requeue_by_creation = ready.requeue_by_creation,
      .backoff_limit = ready.backoff_limit,
      .backoff_base = std::chrono::seconds(ready.backoff_base_seconds),
      .backoff_max = std::chrono::seconds(ready.backoff_max_seconds),
  };
  options.retain_finished = config.retention.after_finished;
  options.retain_deactivated = config.retention.after_deactivated;
  return options;
}

}  // namespace tutti
