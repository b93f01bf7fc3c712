// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <limits>
#include <map>
#include <utility>

#include <arpa/inet.h>

#include "operator/config_sections.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kMaxCustomLabels = 20;
constexpr size_t kMaxCustomLabelsOfKind = 6;
constexpr size_t kMaxCustomLabelsOfWorkloads = 2;
constexpr size_t kMaxTrackedValues = 16;
constexpr size_t kMaxTrackedValuesOfWorkloads = 12;

void ReadAddress(Section* section, std::string_view field, std::optional<Address>* out) {
  const Json& raw = section->Raw(field);
  if (raw.IsNull()) {
    return;
  }
  // A plain 0 is a number in YAML and means the same as "0".
  const std::string text = raw.IsInt() ? std::to_string(raw.AsInt()) : raw.AsString();
  if (!raw.IsString() && !raw.IsInt()) {
    section->Report(field, "must be an address such as :8081 or 127.0.0.1:8081");
    return;
  }
  auto address = ParseAddress(text);
  if (!address) {
    section->Report(field, address.error().message);
    return;
  }
  *out = std::move(*address);
}

void ReadPort(Section* section, std::string_view field, uint16_t* out) {
  int32_t port = *out;
  section->Int(field, 0, 65535, &port);
  *out = static_cast<uint16_t>(port);
}

void ReadCustomLabels(Section* metrics, bool v1beta1, std::vector<CustomLabel>* out) {
  using Source = CustomLabel::Source;
  std::map<Source, size_t> of_kind;
  size_t at = 0;
  for (const Json& item : metrics->Items("customLabels")) {
    Section section = metrics->Item("customLabels", at++, item);
    CustomLabel label;
    section.Text("name", &label.name);
    section.Text("sourceLabelKey", &label.label_key);
    section.Text("sourceAnnotationKey", &label.annotation_key);
    if (!v1beta1) {
      section.Choice("sourceKind", {"ClusterQueue", "Cohort", "LocalQueue", "Workload"},
                     [&label](size_t choice) { label.source = static_cast<Source>(choice); });
      section.Texts("trackedValues", &label.tracked_values);
    }
    if (label.name.empty()) {
      section.Report("name", "is missing");
    }
    if (!label.label_key.empty() && !label.annotation_key.empty()) {
      section.Report("sourceAnnotationKey", "is set together with sourceLabelKey; use one of them");
    }
    const bool workload = label.source == Source::kWorkload;
    const size_t values = workload ? kMaxTrackedValuesOfWorkloads : kMaxTrackedValues;
    if (label.tracked_values.size() > values) {
      section.Report("trackedValues", "at most " + std::to_string(values) + " values");
    }
    const size_t labels = workload ? kMaxCustomLabelsOfWorkloads : kMaxCustomLabelsOfKind;
    if (++of_kind[label.source] > labels) {
      section.Report("sourceKind", "at most " + std::to_string(labels) + " labels of this kind");
    }
    section.Finish();
    out->push_back(std::move(label));
  }
  if (out->size() > kMaxCustomLabels) {
    metrics->Report("customLabels", "at most 20 labels");
  }
}

bool IsAddress(const std::string& text) {
  in6_addr space{};
  return inet_pton(AF_INET, text.c_str(), &space) == 1 ||
         inet_pton(AF_INET6, text.c_str(), &space) == 1;
}

// Without effect in Kueue as well.
void ReadQueueVisibility(Section* root, Config* config) {
  Section section = root->Sub("queueVisibility");
  int32_t number = 0;
  section.Int("updateIntervalSeconds", 0, std::numeric_limits<int32_t>::max(), &number);
  Section queues = section.Sub("clusterQueues");
  queues.Int("maxCount", 0, std::numeric_limits<int32_t>::max(), &number);
  queues.Finish();
  section.Finish();
  if (root->Present("queueVisibility")) {
    config->notes.emplace_back(
        "queueVisibility has no effect: ask the visibility API (docs/visibility.md)");
  }
}

}  // namespace

void ReadManager(Section* root, bool v1beta1, Config* config) {
  Section webhook = root->Sub("webhook");
  ReadPort(&webhook, "port", &config->webhook.port);
  webhook.Text("host", &config->webhook.host);
  webhook.Text("certDir", &config->webhook.cert_dir);
  webhook.Finish();

  Section metrics = root->Sub("metrics");
  ReadAddress(&metrics, "bindAddress", &config->metrics.bind);
  metrics.Bool("enableClusterQueueResources", &config->metrics.cluster_queue_resources);
  ReadCustomLabels(&metrics, v1beta1, &config->metrics.custom_labels);
  Section local = metrics.Sub("localQueueMetrics");
  local.Bool("enable", &config->metrics.local_queues);
  ReadSelector(&local, "localQueueSelector", &config->metrics.local_queue_selector);
  local.Finish();
  metrics.Finish();

  Section health = root->Sub("health");
  ReadAddress(&health, "healthProbeBindAddress", &config->health.bind);
  health.Text("readinessEndpointName", &config->health.readiness_name);
  health.Text("livenessEndpointName", &config->health.liveness_name);
  for (std::string* name : {&config->health.readiness_name, &config->health.liveness_name}) {
    if (!name->empty() && name->front() == '/') {
      name->erase(0, 1);
    }
  }
  health.Finish();

  root->Refuse("pprofBindAddress", "Go profiles", Json("0"));

  Section election = root->Sub("leaderElection");
  election.Bool("leaderElect", &config->leader_election.enabled);
  election.Span("leaseDuration", seconds(1), &config->leader_election.lease_duration);
  election.Span("renewDeadline", milliseconds(100), &config->leader_election.renew_deadline);
  election.Span("retryPeriod", milliseconds(10), &config->leader_election.retry_period);
  election.Choice("resourceLock", {"leases"}, [](size_t) {});
  election.Text("resourceName", &config->leader_election.name);
  election.Text("resourceNamespace", &config->leader_election.ns);
  if (config->leader_election.lease_duration <= config->leader_election.renew_deadline) {
    election.Report("leaseDuration", "must be longer than renewDeadline");
  }
  if (config->leader_election.renew_deadline <= config->leader_election.retry_period) {
    election.Report("renewDeadline", "must be longer than retryPeriod");
  }
  election.Finish();

  Section controller = root->Sub("controller");
  controller.Span("cacheSyncTimeout", seconds(1), &config->cache_sync_timeout);
  const Json& concurrency = controller.Raw("groupKindConcurrency");
  if (!concurrency.IsNull() && !concurrency.IsObject()) {
    controller.Report("groupKindConcurrency", "must be a map of kind.group to a number");
  }
  for (const auto& [kind, count] : concurrency.AsObject()) {
    if (!count.IsInt() || count.AsInt() < 1 || count.AsInt() > 1000) {
      controller.Report("groupKindConcurrency." + kind, "must be a number of at least 1");
      continue;
    }
    config->group_kind_concurrency[kind] = static_cast<int32_t>(count.AsInt());
  }
  controller.Finish();

  Section tls = root->Sub("tls");
  tls.Choice("minVersion", {"VersionTLS12", "VersionTLS13"}, [config](size_t choice) {
    config->tls_min_version = choice == 0 ? TlsVersion::k12 : TlsVersion::k13;
  });
  tls.Texts("cipherSuites", &config->tls_cipher_suites);
  if (config->tls_min_version == TlsVersion::k13 && !config->tls_cipher_suites.empty()) {
    tls.Report("cipherSuites", "must be empty with minVersion VersionTLS13");
  }
  for (const Json& curve : tls.Items("curvePreferences")) {
    if (!curve.IsInt() || curve.AsInt() < 0 || curve.AsInt() > 65535) {
      tls.Report("curvePreferences", "must be a list of numbers of TLS curves, such as 29");
      break;
    }
    config->tls_curve_preferences.push_back(static_cast<int32_t>(curve.AsInt()));
  }
  tls.Finish();

  Section certs = root->Sub("internalCertManagement");
  certs.Bool("enable", &config->internal_certs.enabled);
  certs.Text("webhookServiceName", &config->internal_certs.webhook_service);
  certs.Text("webhookSecretName", &config->internal_certs.webhook_secret);
  certs.Finish();

  Section connection = root->Sub("clientConnection");
  connection.Number("qps", &config->client_connection.qps);
  connection.Int("burst", 0, std::numeric_limits<int32_t>::max(), &config->client_connection.burst);
  connection.Finish();

  if (v1beta1) {
    ReadQueueVisibility(root, config);
    return;
  }
  Section visibility = root->Sub("visibilityServer");
  std::string address = "0.0.0.0";
  visibility.Text("bindAddress", &address);
  if (!IsAddress(address)) {
    visibility.Report("bindAddress", "must be an IP address, such as 0.0.0.0 or 127.0.0.1");
  }
  config->visibility.host = address == "0.0.0.0" || address == "::" ? "" : address;
  ReadPort(&visibility, "bindPort", &config->visibility.port);
  visibility.Finish();
}

}  // namespace tutti
