// SPDX-License-Identifier: Apache-2.0
#include "operator/config.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <limits>
#include <sstream>

#include "base/names.h"
#include "operator/config_devices.h"
#include "operator/config_reader.h"
#include "operator/yaml.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::string_view kKueueConfigVersion = "config.kueue.x-k8s.io/v1beta2";
constexpr std::string_view kTuttiConfigVersion = "config.tutti.dev/v1alpha1";
constexpr std::string_view kNamespaceNameLabel = "kubernetes.io/metadata.name";

// A LabelSelector with strict fields. Keeps `*out` when absent.
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

void ReadOptionalSpan(Section* section, std::string_view field, std::optional<Duration>* out) {
  Duration value{-1};
  section->Span(field, Duration::zero(), &value);
  if (value >= Duration::zero()) {
    *out = value;
  }
}

void ReadManager(Section* root, Config* config) {
  Section webhook = root->Sub("webhook");
  ReadPort(&webhook, "port", &config->webhook.port);
  webhook.Text("host", &config->webhook.host);
  webhook.Text("certDir", &config->webhook.cert_dir);
  webhook.Finish();

  Section metrics = root->Sub("metrics");
  ReadAddress(&metrics, "bindAddress", &config->metrics.bind);
  metrics.Bool("enableClusterQueueResources", &config->metrics.cluster_queue_resources);
  metrics.Refuse("customLabels", "custom metric labels");
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
    if (!count.IsInt() || count.AsInt() < 1) {
      controller.Report("groupKindConcurrency." + kind, "must be a number of at least 1");
    }
  }
  if (!concurrency.AsObject().empty()) {
    config->notes.emplace_back(
        "controller.groupKindConcurrency is accepted and has no effect: one thread decides, writes "
        "run in parallel (maxConcurrentWrites)");
  }
  controller.Finish();

  Section tls = root->Sub("tls");
  tls.Choice("minVersion", {"VersionTLS12", "VersionTLS13"}, [config](size_t choice) {
    config->tls_min_version = choice == 0 ? TlsVersion::k12 : TlsVersion::k13;
  });
  tls.Refuse("cipherSuites", "a list of TLS cipher suites");
  tls.Refuse("curvePreferences", "a list of TLS curves");
  tls.Finish();

  Section certs = root->Sub("internalCertManagement");
  certs.Bool("enable", &config->internal_certs.enabled);
  certs.Text("webhookServiceName", &config->internal_certs.webhook_service);
  certs.Text("webhookSecretName", &config->internal_certs.webhook_secret);
  certs.Finish();

  Section connection = root->Sub("clientConnection");
  double qps = 0;
  int32_t burst = 0;
  connection.Number("qps", &qps);
  connection.Int("burst", 0, std::numeric_limits<int32_t>::max(), &burst);
  connection.Finish();
  if (root->Present("clientConnection")) {
    config->notes.emplace_back(
        "clientConnection is accepted and has no effect: the number of writes at the same time is "
        "limited instead (maxConcurrentWrites)");
  }
}

void ReadJobs(Section* root, Config* config) {
  root->Bool("manageJobsWithoutQueueName", &config->manage_jobs_without_queue_name);
  ReadSelector(root, "managedJobsNamespaceSelector", &config->managed_jobs_namespace_selector);

  auto& ready = config->wait_for_pods_ready;
  Section wait = root->Sub("waitForPodsReady");
  wait.Span("timeout", milliseconds(1), &ready.timeout);
  ReadOptionalSpan(&wait, "recoveryTimeout", &ready.recovery_timeout);
  wait.Bool("blockAdmission", &ready.block_admission);
  if (wait.Present("enable")) {
    wait.Raw("enable");
    wait.Report("enable",
                "the v1beta2 configuration has no such field; to switch the feature off, "
                "set the feature gate DisableWaitForPodsReady to true");
  }
  Section strategy = wait.Sub("requeuingStrategy");
  strategy.Choice("timestamp", {"Eviction", "Creation"},
                  [&ready](size_t choice) { ready.requeue_by_creation = choice == 1; });
  int32_t limit = -1;
  strategy.Int("backoffLimitCount", 0, std::numeric_limits<int32_t>::max(), &limit);
  if (limit >= 0) {
    ready.backoff_limit = limit;
  }
  strategy.Int("backoffBaseSeconds", 0, std::numeric_limits<int32_t>::max(),
               &ready.backoff_base_seconds);
  strategy.Int("backoffMaxSeconds", 0, std::numeric_limits<int32_t>::max(),
               &ready.backoff_max_seconds);
  strategy.Finish();
  wait.Finish();
  if (root->Present("waitForPodsReady")) {
    config->notes.emplace_back(
        "waitForPodsReady is accepted; this version watches that pods are placed (landing.timeout "
        "of "
        "TuttiConfiguration), not that they become ready");
  }

  Section integrations = root->Sub("integrations");
  size_t at = 0;
  for (const Json& framework : integrations.Items("frameworks")) {
    if (framework.AsString() != "batch/job") {
      integrations.Report(
          "frameworks[" + std::to_string(at) + "]",
          "'" + framework.AsString() + "': not supported by this version; supported is batch/job");
    }
    ++at;
  }
  integrations.Refuse("externalFrameworks", "external frameworks");
  integrations.Refuse("labelKeysToCopy", "copying labels to Workloads");
  integrations.Finish();

  Section resources = root->Sub("resources");
  resources.Refuse("excludeResourcePrefixes", "leaving resources out of the quota");
  resources.Refuse("quotaCheckStrategy", "ignoring undeclared resources", Json("BlockUndeclared"));
  resources.Refuse("transformations", "resource transformations");
  config->device_mappings = ReadDeviceClassMappings(&resources, config->gates);
  resources.Finish();

  Section policies = root->Sub("objectRetentionPolicies");
  policies.Refuse("workloads", "deleting finished Workloads");
  policies.Finish();
}

void RefuseUnbuilt(Section* root) {
  // A present section switches these on, even an empty one.
  for (const auto& [field, feature] :
       {std::pair{"fairSharing", "fair sharing"},
        std::pair{"admissionFairSharing", "admission fair sharing"}}) {
    if (!root->Raw(field).IsNull()) {
      root->Report(field,
                   std::string(feature) + ": not supported by this version; remove the field");
    }
  }
  Section multi = root->Sub("multiKueue");
  multi.Refuse("gcInterval", "MultiKueue", Json("1m0s"));
  multi.Refuse("origin", "MultiKueue", Json("multikueue"));
  multi.Refuse("workerLostTimeout", "MultiKueue", Json("15m0s"));
  multi.Refuse("dispatcherName", "MultiKueue",
               Json("kueue.x-k8s.io/multikueue-dispatcher-all-at-once"));
  multi.Refuse("externalFrameworks", "MultiKueue");
  multi.Refuse("clusterProfile", "MultiKueue");
  multi.Refuse("incrementalDispatcherConfig", "MultiKueue");
  multi.Finish();
  Section visibility = root->Sub("visibilityServer");
  visibility.Refuse("bindAddress", "the visibility server", Json("0.0.0.0"));
  visibility.Refuse("bindPort", "the visibility server", Json(8082));
  visibility.Finish();
}

void ReadGates(Section* root, const ConfigContext& context, Config* config) {
  std::map<std::string, bool> settings;
  const Json& field = root->Raw("featureGates");
  if (!field.IsNull() && !field.IsObject()) {
    root->Report("featureGates", "must be a map of gate names to true or false");
    return;
  }
  for (const auto& [name, value] : field.AsObject()) {
    if (!value.IsBool()) {
      root->Report("featureGates." + name, "must be true or false");
      return;
    }
    settings[name] = value.AsBool();
  }
  if (!context.feature_gates_flag.empty()) {
    if (!settings.empty()) {
      root->Report("featureGates",
                   "is set together with the flag --feature-gates; use one of them");
      return;
    }
    auto flag = FeatureGates::ParseFlag(context.feature_gates_flag);
    if (!flag) {
      root->Report("", flag.error().message);
      return;
    }
    settings = std::move(*flag);
  }
  auto gates = FeatureGates::From(settings);
  if (!gates) {
    std::istringstream lines(gates.error().message);
    for (std::string line; std::getline(lines, line);) {
      const size_t colon = line.find(": ");
      root->Report(line.substr(0, colon), line.substr(colon + 2));
    }
    return;
  }
  config->gates = std::move(*gates);
  if (config->gates.Enabled("DisableWaitForPodsReady")) {
    config->wait_for_pods_ready.enabled = false;
  }
  if (!config->gates.Enabled("LocalQueueMetrics")) {
    config->metrics.local_queues = false;
  }
}

// Own namespace first: other defaults depend on it.
void SetDefaults(const ConfigContext& context, const std::string& ns, Config* config) {
  config->ns = !ns.empty()                      ? ns
               : !context.own_namespace.empty() ? context.own_namespace
                                                : std::string(names::kDefaultNamespace);
  config->leader_election.name = std::string(names::kLeaseName);
  config->webhook.cert_dir = "/tmp/k8s-webhook-server/serving-certs";
  config->managed_jobs_namespace_selector.present = true;
  config->managed_jobs_namespace_selector.requirements = {
      {std::string(kNamespaceNameLabel), "NotIn", {"kube-system", config->ns}}};
}

void CheckSelector(Section* root, const Config& config) {
  for (const std::string& ns : {std::string("kube-system"), config.ns}) {
    const api::StringMap labels{{std::string(kNamespaceNameLabel), ns}};
    if (config.managed_jobs_namespace_selector.Matches(labels)) {
      root->Report("managedJobsNamespaceSelector",
                   "matches the namespace " + ns +
                       "; exclude it with {key: " + std::string(kNamespaceNameLabel) +
                       ", operator: NotIn, values: [" + ns + "]}");
    }
  }
}

void ReadKueue(const yaml::Document& document, const ConfigContext& context, Problems* problems,
               Config* config) {
  Section root(problems, document.value, "");
  root.Raw("apiVersion");
  root.Raw("kind");
  std::string ns;
  root.Text("namespace", &ns);
  SetDefaults(context, ns, config);
  ReadGates(&root, context, config);
  ReadManager(&root, config);
  ReadJobs(&root, config);
  RefuseUnbuilt(&root);
  CheckSelector(&root, *config);
  root.Finish();
}

void ReadTutti(const yaml::Document& document, Problems* problems, Config* config) {
  Section root(problems, document.value, "");
  root.Raw("apiVersion");
  root.Raw("kind");
  root.Choice("mode", {"Observe", "Takeover", "Greenfield"},
              [config](size_t choice) { config->mode = static_cast<Mode>(choice); });
  root.Choice("nativeGang", {"Auto", "Off"},
              [config](size_t choice) { config->native_gang = choice == 0; });
  Section landing = root.Sub("landing");
  landing.Span("timeout", milliseconds(1), &config->landing.timeout);
  landing.Span("backoffBase", milliseconds(1), &config->landing.backoff_base);
  landing.Span("backoffMax", milliseconds(1), &config->landing.backoff_max);
  if (config->landing.backoff_max < config->landing.backoff_base) {
    landing.Report("backoffMax", "must not be shorter than backoffBase");
  }
  landing.Finish();
  root.Span("pendingReasonDelay", Duration::zero(), &config->pending_reason_delay);
  Section capacity = root.Sub("capacity");
  capacity.Choice(
      "mode", {"Auto", "Require", "Release", "Observe", "Off"},
      [config](size_t choice) { config->capacity = static_cast<CapacitySetting>(choice); });
  capacity.Finish();
  root.Choice("steering", {"None", "Preferred", "NodeSelector"},
              [config](size_t choice) { config->steering = static_cast<Steering>(choice); });
  Section ledger = root.Sub("ledger");
  ledger.Text("path", &config->ledger.path);
  ledger.Span("retention", seconds(1), &config->ledger.retention);
  ledger.Finish();
  root.Int("maxConcurrentWrites", 1, 1024, &config->max_concurrent_writes);
  root.Bool("metricsPlain", &config->metrics_plain);
  root.Finish();
}

}  // namespace

Result<std::optional<Address>> ParseAddress(std::string_view text) {
  if (text.empty() || text == "0") {
    return std::optional<Address>();
  }
  const size_t colon = text.rfind(':');
  const std::string hint =
      "'" + std::string(text) + "' is not an address such as :8081 or 127.0.0.1:8081";
  if (colon == std::string_view::npos) {
    return Fail(ErrorCode::kInvalid, hint);
  }
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return Fail(ErrorCode::kInvalid, hint + "; an IPv6 address goes into brackets");
  }
  int port = 0;
  if (digits.empty() || digits.size() > 5) {
    return Fail(ErrorCode::kInvalid, hint);
  }
  for (const char c : digits) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) {
      return Fail(ErrorCode::kInvalid, hint);
    }
    port = port * 10 + (c - '0');
  }
  if (port > 65535) {
    return Fail(ErrorCode::kInvalid, hint + "; the port must be at most 65535");
  }
  return std::optional<Address>(Address{std::string(host), static_cast<uint16_t>(port)});
}

Result<Config> ParseConfig(std::string_view text, const ConfigContext& context) {
  auto documents = yaml::Parse(text);
  if (!documents) {
    return Fail(ErrorCode::kInvalid, documents.error().message);
  }
  std::string problems;
  const auto note = [&problems](const std::string& problem) {
    problems += (problems.empty() ? "" : "\n") + problem;
  };
  const yaml::Document empty;
  const yaml::Document* kueue = nullptr;
  const yaml::Document* tutti = nullptr;
  for (const yaml::Document& document : *documents) {
    const std::string& version = document.value["apiVersion"].AsString();
    const std::string& kind = document.value["kind"].AsString();
    const yaml::Document** slot = version == kKueueConfigVersion && kind == "Configuration" ? &kueue
                                  : version == kTuttiConfigVersion && kind == "TuttiConfiguration"
                                      ? &tutti
                                      : nullptr;
    const std::string where =
        "line " + std::to_string(std::max(1, document.LineOf("apiVersion"))) + ": ";
    if (slot == nullptr) {
      note(where + "apiVersion '" + version + "' and kind '" + kind + "' are not known; use " +
           std::string(kKueueConfigVersion) + " Configuration or " +
           std::string(kTuttiConfigVersion) + " TuttiConfiguration");
    } else if (*slot != nullptr) {
      note(where + "a second document of kind " + kind + "; remove one of them");
    } else {
      *slot = &document;
    }
  }
  Config config;
  Problems kueue_problems(kueue == nullptr ? &empty : kueue);
  ReadKueue(kueue == nullptr ? empty : *kueue, context, &kueue_problems, &config);
  Problems tutti_problems(tutti == nullptr ? &empty : tutti);
  ReadTutti(tutti == nullptr ? empty : *tutti, &tutti_problems, &config);
  for (const Problems* list : {&kueue_problems, &tutti_problems}) {
    for (const std::string& problem : list->all()) {
      note(problem);
    }
  }
  if (!problems.empty()) {
    return Fail(ErrorCode::kInvalid, problems);
  }
  return config;
}

Result<Config> LoadConfig(const std::string& path, const ConfigContext& context) {
  if (path.empty()) {
    return ParseConfig("", context);
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return Fail(ErrorCode::kNotFound, "cannot read the configuration file " + path);
  }
  std::ostringstream text;
  text << file.rdbuf();
  auto config = ParseConfig(text.str(), context);
  if (!config) {
    return Fail(config.error().With(path));
  }
  return config;
}

}  // namespace tutti
