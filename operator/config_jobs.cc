// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <limits>
#include <set>
#include <utility>

#include "operator/config_devices.h"
#include "operator/config_sections.h"
#include "operator/suggest.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

constexpr int32_t kMaxInt = std::numeric_limits<int32_t>::max();

// Kueue's names of job kinds.
constexpr std::string_view kFrameworks[] = {
    "batch/job",
    "deployment",
    "jobset.x-k8s.io/jobset",
    "kubeflow.org/jaxjob",
    "kubeflow.org/mpijob",
    "kubeflow.org/paddlejob",
    "kubeflow.org/pytorchjob",
    "kubeflow.org/tfjob",
    "kubeflow.org/xgboostjob",
    "leaderworkerset.x-k8s.io/leaderworkerset",
    "pod",
    "ray.io/raycluster",
    "ray.io/rayjob",
    "ray.io/rayservice",
    "sparkoperator.k8s.io/sparkapplication",
    "statefulset",
    "trainer.kubeflow.org/trainjob",
    "workload.codeflare.dev/appwrapper",
};

void ReadOptionalSpan(Section* section, std::string_view field, std::optional<Duration>* out) {
  Duration value{-1};
  section->Span(field, Duration::zero(), &value);
  if (value >= Duration::zero()) {
    *out = value;
  }
}

void ReadWaitForPodsReady(Section* root, bool v1beta1, Config* config) {
  auto& ready = config->wait_for_pods_ready;
  Section wait = root->Sub("waitForPodsReady");
  if (v1beta1) {
    bool enable = false;
    wait.Bool("enable", &enable);
    ready.enabled = ready.enabled && enable;
    ready.timeout = std::chrono::minutes(5);
    ready.block_admission = true;
  } else if (wait.Present("enable")) {
    wait.Raw("enable");
    wait.Report("enable",
                "the v1beta2 configuration has no such field; to switch the feature off, "
                "set the feature gate DisableWaitForPodsReady to true");
  }
  Duration timeout = Duration::zero();  // 0s is the default, as in Kueue
  wait.Span("timeout", Duration::zero(), &timeout);
  if (timeout > Duration::zero()) {
    ready.timeout = timeout;
  }
  ReadOptionalSpan(&wait, "recoveryTimeout", &ready.recovery_timeout);
  wait.Bool("blockAdmission", &ready.block_admission);
  Section strategy = wait.Sub("requeuingStrategy");
  strategy.Choice("timestamp", {"Eviction", "Creation"},
                  [&ready](size_t choice) { ready.requeue_by_creation = choice == 1; });
  int32_t limit = -1;
  strategy.Int("backoffLimitCount", 0, kMaxInt, &limit);
  if (limit >= 0) {
    ready.backoff_limit = limit;
  }
  strategy.Int("backoffBaseSeconds", 0, kMaxInt, &ready.backoff_base_seconds);
  strategy.Int("backoffMaxSeconds", 0, kMaxInt, &ready.backoff_max_seconds);
  strategy.Finish();
  wait.Finish();
}

// "Kind.version.group"
bool IsKindName(std::string_view text) {
  const size_t first = text.find('.');
  const size_t second = first == std::string_view::npos ? first : text.find('.', first + 1);
  return first != std::string_view::npos && first > 0 && second != std::string_view::npos &&
         second > first + 1 && second + 1 < text.size();
}

void CheckKindNames(Section* section, std::string_view field,
                    const std::vector<std::string>& names) {
  std::set<std::string> seen;
  for (size_t at = 0; at < names.size(); ++at) {
    const std::string where = std::string(field) + "[" + std::to_string(at) + "]";
    if (!IsKindName(names[at])) {
      section->Report(where, "'" + names[at] + "' must have the form Kind.version.group");
    } else if (!seen.insert(names[at]).second) {
      section->Report(where, "'" + names[at] + "' is there twice");
    }
  }
}

void ReadIntegrations(Section* root, bool v1beta1, Config* config) {
  auto& out = config->integrations;
  Section section = root->Sub("integrations");
  std::vector<std::string> frameworks;
  section.Texts("frameworks", &frameworks);
  if (!frameworks.empty()) {
    out.frameworks = frameworks;
  }
  const std::vector<std::string_view> known(std::begin(kFrameworks), std::end(kFrameworks));
  std::set<std::string> seen;
  for (size_t at = 0; at < frameworks.size(); ++at) {
    const std::string where = "frameworks[" + std::to_string(at) + "]";
    if (std::find(known.begin(), known.end(), frameworks[at]) == known.end()) {
      section.Report(where, "'" + frameworks[at] + "' is no framework of Kueue" +
                                DidYouMean(frameworks[at], known));
    } else if (!seen.insert(frameworks[at]).second) {
      section.Report(where, "'" + frameworks[at] + "' is there twice");
    }
  }
  section.Texts("externalFrameworks", &out.external_frameworks);
  CheckKindNames(&section, "externalFrameworks", out.external_frameworks);
  section.Texts("labelKeysToCopy", &out.label_keys_to_copy);
  if (v1beta1) {
    Section pods = section.Sub("podOptions");
    api::LabelSelector ignored;
    ReadSelector(&pods, "namespaceSelector", &ignored);
    ReadSelector(&pods, "podSelector", &ignored);
    pods.Finish();
    if (section.Present("podOptions")) {
      config->notes.emplace_back(
          "integrations.podOptions has no effect: use managedJobsNamespaceSelector");
    }
  }
  section.Finish();
}

void ReadTransformations(Section* resources, std::vector<reconciler::ResourceTransformation>* out) {
  std::set<std::string> inputs;
  size_t at = 0;
  for (const Json& item : resources->Items("transformations")) {
    Section section = resources->Item("transformations", at++, item);
    reconciler::ResourceTransformation rule;
    section.Text("input", &rule.input);
    if (rule.input.empty()) {
      section.Report("input", "is missing");
    } else if (!inputs.insert(rule.input).second) {
      section.Report("input", "'" + rule.input + "' is there twice");
    }
    section.Choice("strategy", {"Retain", "Replace"},
                   [&rule](size_t choice) { rule.replace = choice == 1; });
    section.Text("multiplyBy", &rule.multiply_by);
    const Json& outputs = section.Raw("outputs");
    if (!outputs.IsNull() && !outputs.IsObject()) {
      section.Report("outputs", "must be a map of resource names to quantities");
    }
    for (const auto& [name, value] : outputs.AsObject()) {
      const std::string text = value.IsInt() ? std::to_string(value.AsInt()) : value.AsString();
      auto quantity = api::Quantity::Parse(text);
      if (!quantity) {
        section.Report("outputs." + name, "must be a quantity such as 5Gi or 500m");
        continue;
      }
      rule.outputs.emplace(name, std::move(*quantity));
    }
    section.Finish();
    out->push_back(std::move(rule));
  }
}

void ReadResources(Section* root, bool v1beta1, Config* config) {
  auto& out = config->resources;
  Section section = root->Sub("resources");
  section.Texts("excludeResourcePrefixes", &out.exclude_prefixes);
  if (!v1beta1) {
    section.Choice("quotaCheckStrategy", {"BlockUndeclared", "IgnoreUndeclared"},
                   [&out](size_t choice) { out.ignore_undeclared = choice == 1; });
    if (out.ignore_undeclared && !out.exclude_prefixes.empty()) {
      section.Report("quotaCheckStrategy",
                     "IgnoreUndeclared leaves nothing to exclude; remove excludeResourcePrefixes");
    }
  }
  ReadTransformations(&section, &out.transformations);
  config->device_mappings = ReadDeviceClassMappings(&section, config->gates);
  section.Finish();
}

void ReadFairSharing(Section* root, bool v1beta1, Config* config) {
  using enum PreemptionStrategy;
  Section section = root->Sub("fairSharing");
  bool enable = root->Present("fairSharing");
  if (v1beta1) {
    enable = false;
    section.Bool("enable", &enable);
  }
  std::vector<std::string> names;
  section.Texts("preemptionStrategies", &names);
  section.Finish();
  std::vector<PreemptionStrategy> strategies;
  for (const std::string& name : names) {
    if (name == "LessThanOrEqualToFinalShare" || name == "LessThanInitialShare") {
      strategies.push_back(name == "LessThanInitialShare" ? kLessThanInitialShare
                                                          : kLessThanOrEqualToFinalShare);
    }
  }
  const bool in_order =
      std::is_sorted(strategies.begin(), strategies.end()) &&
      std::adjacent_find(strategies.begin(), strategies.end()) == strategies.end();
  if (strategies.size() != names.size() || !in_order || (enable && !v1beta1 && names.empty())) {
    section.Report("preemptionStrategies",
                   "must be [LessThanOrEqualToFinalShare], [LessThanInitialShare] or "
                   "[LessThanOrEqualToFinalShare, LessThanInitialShare]");
    return;
  }
  if (enable) {
    if (strategies.empty()) {
      strategies = {kLessThanOrEqualToFinalShare, kLessThanInitialShare};
    }
    config->fair_sharing = Config::FairSharing{std::move(strategies)};
  }
}

void ReadAdmissionFairSharing(Section* root, Config* config) {
  Section section = root->Sub("admissionFairSharing");
  Config::AdmissionFairSharing out;
  section.Span("usageHalfLifeTime", Duration::zero(), &out.usage_half_life);
  section.Span("usageSamplingInterval", milliseconds(1), &out.usage_sampling_interval);
  const Json& weights = section.Raw("resourceWeights");
  if (!weights.IsNull() && !weights.IsObject()) {
    section.Report("resourceWeights", "must be a map of resource names to numbers");
  }
  for (const auto& [name, value] : weights.AsObject()) {
    const double weight = value.IsInt() ? static_cast<double>(value.AsInt()) : value.AsDouble(-1);
    if (!value.IsNumber() || weight < 0) {
      section.Report("resourceWeights." + name, "must be a number of at least 0");
      continue;
    }
    out.resource_weights[name] = weight;
  }
  section.Finish();
  if (root->Present("admissionFairSharing")) {
    config->admission_fair_sharing = std::move(out);
  }
}

void ReadMultiKueue(Section* root, bool v1beta1, Config* config) {
  auto& out = config->multi_kueue;
  Section section = root->Sub("multiKueue");
  section.Span("gcInterval", Duration::zero(), &out.gc_interval);
  section.Text("origin", &out.origin);
  section.Span("workerLostTimeout", Duration::zero(), &out.worker_lost_timeout);
  section.Text("dispatcherName", &out.dispatcher);
  size_t at = 0;
  for (const Json& item : section.Items("externalFrameworks")) {
    Section framework = section.Item("externalFrameworks", at++, item);
    std::string name;
    framework.Text("name", &name);
    if (!IsKindName(name)) {
      framework.Report("name", "'" + name + "' must have the form Kind.version.group");
    }
    framework.Finish();
    out.external_frameworks.push_back(std::move(name));
  }
  if (!v1beta1) {
    // Refused as a whole where anything is in it, so its providers are not taken apart.
    Section profile = section.Sub("clusterProfile");
    for (const char* field : {"accessProviders", "credentialsProviders"}) {
      out.cluster_profile = out.cluster_profile || !profile.Items(field).empty();
    }
    profile.Finish();
    Section dispatcher = section.Sub("incrementalDispatcherConfig");
    int32_t step = 0;
    dispatcher.Int("stepSize", 1, kMaxInt, &step);
    dispatcher.Finish();
    if (step > 0) {
      out.step_size = step;
    }
  }
  section.Finish();
}

void ReadRetention(Section* root, Config* config) {
  Section policies = root->Sub("objectRetentionPolicies");
  Section section = policies.Sub("workloads");
  ReadOptionalSpan(&section, "afterFinished", &config->retention.after_finished);
  ReadOptionalSpan(&section, "afterDeactivatedByKueue", &config->retention.after_deactivated);
  section.Finish();
  policies.Finish();
}

}  // namespace

void ReadSelector(Section* parent, std::string_view field, api::LabelSelector* out) {
  const Json& raw = parent->Raw(field);
  if (raw.IsNull()) {
    return;
  }
  Section section = parent->Sub(field);
  const Json& labels = section.Raw("matchLabels");
  if (!labels.IsNull() && !labels.IsObject()) {
    section.Report("matchLabels", "must be a map of texts");
    return;
  }
  for (const auto& [key, value] : labels.AsObject()) {
    if (!value.IsString()) {
      section.Report("matchLabels." + key, "must be a text; put it into quotes");
      return;
    }
  }
  size_t at = 0;
  for (const Json& item : section.Items("matchExpressions")) {
    Section expression = section.Item("matchExpressions", at, item);
    std::string key;
    std::vector<std::string> values;
    bool no_values = false;
    expression.Text("key", &key);
    expression.Choice("operator", {"In", "NotIn", "Exists", "DoesNotExist"},
                      [&no_values](size_t choice) { no_values = choice >= 2; });
    expression.Texts("values", &values);
    if (key.empty()) {
      expression.Report("key", "is missing");
    }
    if (!expression.Present("operator")) {
      expression.Report("operator", "is missing; use In, NotIn, Exists or DoesNotExist");
    } else if (no_values != values.empty()) {
      expression.Report("values", no_values ? "must be empty with Exists and DoesNotExist"
                                            : "must not be empty with In and NotIn");
    }
    expression.Finish();
    ++at;
  }
  section.Finish();
  auto selector = api::LabelSelectorFromJson(raw);
  if (!selector) {
    parent->Report(field, selector.error().message);
    return;
  }
  *out = std::move(*selector);
}

void ReadJobs(Section* root, bool v1beta1, Config* config) {
  root->Bool("manageJobsWithoutQueueName", &config->manage_jobs_without_queue_name);
  ReadSelector(root, "managedJobsNamespaceSelector", &config->managed_jobs_namespace_selector);
  ReadWaitForPodsReady(root, v1beta1, config);
  ReadIntegrations(root, v1beta1, config);
  ReadResources(root, v1beta1, config);
  ReadFairSharing(root, v1beta1, config);
  ReadAdmissionFairSharing(root, config);
  ReadMultiKueue(root, v1beta1, config);
  ReadRetention(root, config);
}

}  // namespace tutti
