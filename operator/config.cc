// SPDX-License-Identifier: Apache-2.0
#include "operator/config.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>

#include "base/names.h"
#include "operator/config_reader.h"
#include "operator/config_sections.h"
#include "operator/yaml.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::string_view kKueueConfigVersion = "config.kueue.x-k8s.io/v1beta2";
constexpr std::string_view kOldKueueConfigVersion = "config.kueue.x-k8s.io/v1beta1";
constexpr std::string_view kTuttiConfigVersion = "config.tutti.dev/v1alpha1";
constexpr std::string_view kNamespaceNameLabel = "kubernetes.io/metadata.name";

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
  const bool v1beta1 = document.value["apiVersion"].AsString() == kOldKueueConfigVersion;
  ReadManager(&root, v1beta1, config);
  ReadJobs(&root, v1beta1, config);
  CheckSelector(&root, *config);
  CheckBuilt(&root, config);
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
  root.Span("preemptionInterval", Duration::zero(), &config->preemption_interval);
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
  root.Choice("webhooks", {"Auto", "Always"},
              [config](size_t choice) { config->webhooks = static_cast<WebhookServing>(choice); });
  Section controllers = root.Sub("controllers");
  controllers.Bool("scheduler", &config->scheduler);
  controllers.Bool("core", &config->core);
  controllers.Finish();
  root.Int("maxConcurrentWrites", 1, 1024, &config->max_concurrent_writes);
  root.Choice("httpClient", {"Beast", "Cpprestsdk"},
              [config](size_t choice) { config->http_client = static_cast<HttpClient>(choice); });
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
    const bool of_kueue = version == kKueueConfigVersion || version == kOldKueueConfigVersion;
    const yaml::Document** slot = of_kueue && kind == "Configuration" ? &kueue
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
