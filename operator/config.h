// SPDX-License-Identifier: Apache-2.0
// The configuration file: Kueue's Configuration (config.kueue.x-k8s.io/v1beta2 or v1beta1, field
// names and defaults of v0.19.2) and our own TuttiConfiguration as an optional second document.
// Strict: an unknown field, a duplicate key or a wrong type is an error that names line, path and,
// where close, the likely intended name. Every field is read and checked; what asks for a feature
// that this version doesn't have is then refused (config_built.cc), unless it says what is done
// anyway; nothing is ignored silently. Pure apart from LoadConfig.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/core.h"
#include "api/quantity.h"
#include "base/result.h"
#include "base/time.h"
#include "engine/device_mapping.h"
#include "operator/custom_labels.h"
#include "operator/gates.h"
#include "reconciler/resource_rules.h"

namespace tutti {

struct Address {
  std::string host;  // "" = every address
  uint16_t port = 0;
};

enum class Mode { kObserve, kTakeover, kGreenfield };
enum class CapacitySetting { kAuto, kRequire, kRelease, kObserve, kOff };
enum class HttpClient { kBeast, kCpprestsdk };
enum class Steering { kNone, kPreferred, kNodeSelector };
// Whether admission webhooks are served.
enum class WebhookServing {
  kAuto,    // where a webhook configuration of ours exists
  kAlways,  // from the start, for configurations that somebody else keeps
};
enum class TlsVersion { k12, k13 };
enum class PreemptionStrategy { kLessThanOrEqualToFinalShare, kLessThanInitialShare };

struct Config {
  // --- Kueue's Configuration ---
  std::string ns;  // own namespace

  struct Webhook {
    uint16_t port = 9443;
    std::string host;
    std::string cert_dir;  // used when certificates are not managed here
  } webhook;

  struct MetricsSection {
    std::optional<Address> bind = Address{"", 8443};  // nothing = off
    bool cluster_queue_resources = false;
    bool local_queues = true;
    api::LabelSelector local_queue_selector;  // not present = every LocalQueue
    std::vector<CustomLabel> custom_labels;
  } metrics;

  struct Health {
    std::optional<Address> bind = Address{"", 8081};
    std::string readiness_name = "readyz";
    std::string liveness_name = "healthz";
  } health;

  struct LeaderElection {
    bool enabled = true;
    std::string name;
    std::string ns;  // "" = own namespace
    Duration lease_duration = std::chrono::seconds(15);
    Duration renew_deadline = std::chrono::seconds(10);
    Duration retry_period = std::chrono::seconds(2);
  } leader_election;

  Duration cache_sync_timeout = std::chrono::minutes(2);
  std::map<std::string, int32_t> group_kind_concurrency;  // "Job.batch" -> workers
  struct ClientConnection {
    double qps = 300;  // negative = no limit
    int32_t burst = 500;
  } client_connection;

  TlsVersion tls_min_version = TlsVersion::k12;
  std::vector<std::string> tls_cipher_suites;  // Go's names; empty = the library's choice
  std::vector<int32_t> tls_curve_preferences;  // Go's numbers; empty = the library's choice

  bool manage_jobs_without_queue_name = false;
  api::LabelSelector managed_jobs_namespace_selector;  // always present

  struct InternalCertManagement {
    bool enabled = true;
    std::string webhook_service = "kueue-webhook-service";
    std::string webhook_secret = "kueue-webhook-server-cert";
  } internal_certs;

  struct WaitForPodsReady {
    bool enabled = true;
    Duration timeout = std::chrono::minutes(30);
    std::optional<Duration> recovery_timeout;  // nothing = as `timeout`
    bool block_admission = false;
    bool requeue_by_creation = false;  // timestamp: Creation instead of Eviction
    std::optional<int32_t> backoff_limit;
    int32_t backoff_base_seconds = 60;
    int32_t backoff_max_seconds = 3600;
  } wait_for_pods_ready;

  struct Integrations {
    std::vector<std::string> frameworks = {"batch/job"};
    std::vector<std::string> external_frameworks;  // Kind.version.group
    std::vector<std::string> label_keys_to_copy;   // from a job to its Workload
  } integrations;

  struct MultiKueue {
    Duration gc_interval = std::chrono::minutes(1);
    std::string origin = "multikueue";
    Duration worker_lost_timeout = std::chrono::minutes(15);
    std::string dispatcher = "kueue.x-k8s.io/multikueue-dispatcher-all-at-once";
    std::vector<std::string> external_frameworks;
    bool cluster_profile = false;      // the section has providers
    std::optional<int32_t> step_size;  // incrementalDispatcherConfig
  } multi_kueue;

  struct FairSharing {
    std::vector<PreemptionStrategy> strategies;  // one or two, in the order of their use
  };
  std::optional<FairSharing> fair_sharing;  // nothing = off

  struct AdmissionFairSharing {
    Duration usage_half_life = Duration::zero();  // zero = no memory of past usage
    Duration usage_sampling_interval = std::chrono::minutes(5);
    std::map<std::string, double> resource_weights;  // a resource that isn't named has 1
  };
  std::optional<AdmissionFairSharing> admission_fair_sharing;  // nothing = off

  struct Resources {
    bool ignore_undeclared = false;  // quotaCheckStrategy
    std::vector<std::string> exclude_prefixes;
    std::vector<reconciler::ResourceTransformation> transformations;
  } resources;
  std::vector<engine::DeviceClassMapping> device_mappings;

  struct Retention {  // of Workloads; nothing = they are kept, zero = deleted at once
    std::optional<Duration> after_finished;
    std::optional<Duration> after_deactivated;  // afterDeactivatedByKueue
  } retention;

  Address visibility{"", 8082};  // bindAddress 0.0.0.0 is every address

  FeatureGates gates;

  // --- TuttiConfiguration ---
  Mode mode = Mode::kGreenfield;
  bool native_gang = true;  // Auto; false = Off
  struct Landing {
    Duration timeout = std::chrono::seconds(60);
    Duration backoff_base = std::chrono::seconds(10);
    Duration backoff_max = std::chrono::minutes(10);
  } landing;
  Duration pending_reason_delay = std::chrono::seconds(1);
  Duration preemption_interval = std::chrono::seconds(1);
  CapacitySetting capacity = CapacitySetting::kAuto;
  Steering steering = Steering::kPreferred;
  struct Ledger {
    std::string path = "/var/lib/tutti/ledger.db";  // "" = no ledger
    Duration retention = std::chrono::hours(24 * 30);
  } ledger;
  WebhookServing webhooks = WebhookServing::kAuto;
  bool scheduler = true;  // controllers.scheduler; false: nothing new is admitted
  // controllers.core; false: jobs are held, started and stopped, queues and Workloads are left to
  // another controller
  bool core = true;
  int32_t max_concurrent_writes = 16;
  HttpClient http_client = HttpClient::kBeast;
  bool metrics_plain = false;  // metrics.bindAddress without TLS and without authentication

  // What is accepted but has no effect here, or not the one it has elsewhere: logged once at start.
  std::vector<std::string> notes;
};

struct ConfigContext {
  std::string own_namespace;       // of the service account; "" outside a cluster
  std::string feature_gates_flag;  // --feature-gates; exclusive with featureGates in the file
};

// The whole text, one or two documents; an empty text gives the defaults. kInvalid: every problem,
// one per line.
Result<Config> ParseConfig(std::string_view text, const ConfigContext& context);
// Reads the file; path "" gives the defaults.
Result<Config> LoadConfig(const std::string& path, const ConfigContext& context);

// "host:port", ":port"; nothing for "" and "0" (off).
Result<std::optional<Address>> ParseAddress(std::string_view text);

}  // namespace tutti
