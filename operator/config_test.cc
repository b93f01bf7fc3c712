// SPDX-License-Identifier: Apache-2.0
#include "operator/config.h"

#include <cstdio>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace tutti {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr const char* kHead = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n";
constexpr const char* kOurHead =
    "apiVersion: config.tutti.dev/v1alpha1\nkind: TuttiConfiguration\n";

Result<Config> Kueue(const std::string& body, const ConfigContext& context = {}) {
  return ParseConfig(kHead + body, context);
}
Result<Config> Ours(const std::string& body) {
  return ParseConfig(kOurHead + body, {});
}

TEST(ConfigTest, AReadinessTimeoutOfZeroIsTheDefault) {
  const auto config = ParseConfig(
      "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
      "waitForPodsReady: {timeout: 0s}\n",
      {});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->wait_for_pods_ready.timeout, minutes(30));
}

TEST(ConfigTest, EmptyTextGivesKueuesDefaults) {
  const auto config = ParseConfig("", {});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->ns, "tutti-system");
  EXPECT_EQ(config->webhook.port, 9443);
  EXPECT_EQ(config->metrics.bind->port, 8443);
  EXPECT_FALSE(config->metrics.cluster_queue_resources);
  EXPECT_TRUE(config->metrics.local_queues);
  EXPECT_EQ(config->health.bind->port, 8081);
  EXPECT_TRUE(config->leader_election.enabled);
  EXPECT_EQ(config->leader_election.name, "c1f6bfd2.kueue.x-k8s.io");
  EXPECT_EQ(config->leader_election.lease_duration, seconds(15));
  EXPECT_FALSE(config->manage_jobs_without_queue_name);
  EXPECT_TRUE(config->internal_certs.enabled);
  EXPECT_EQ(config->internal_certs.webhook_secret, "kueue-webhook-server-cert");
  EXPECT_TRUE(config->wait_for_pods_ready.enabled);
  EXPECT_EQ(config->wait_for_pods_ready.timeout, minutes(30));
  EXPECT_FALSE(config->wait_for_pods_ready.block_admission);
  EXPECT_FALSE(config->wait_for_pods_ready.backoff_limit);
  EXPECT_EQ(config->mode, Mode::kGreenfield);
  EXPECT_EQ(config->steering, Steering::kPreferred);
  EXPECT_EQ(config->landing.timeout, seconds(60));
  EXPECT_EQ(config->ledger.path, "/var/lib/tutti/ledger.db");
  EXPECT_EQ(config->max_concurrent_writes, 16);
  EXPECT_TRUE(config->notes.empty());
}

TEST(ConfigTest, EveryFieldIsRead) {
  const auto config = ParseConfig(R"yaml(
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
namespace: batch
webhook: {port: 9444, host: 127.0.0.1, certDir: /certs}
metrics:
  bindAddress: "127.0.0.1:9000"
  enableClusterQueueResources: true
  localQueueMetrics:
    enable: true
    localQueueSelector: {matchLabels: {team: a}}
health: {healthProbeBindAddress: "[::1]:9001", readinessEndpointName: /ready, livenessEndpointName: live}
pprofBindAddress: "0"
leaderElection:
  leaderElect: false
  leaseDuration: 4s
  renewDeadline: 3s
  retryPeriod: 500ms
  resourceLock: leases
  resourceName: other
  resourceNamespace: elsewhere
controller:
  groupKindConcurrency: {Job.batch: 5}
  cacheSyncTimeout: 10s
tls: {minVersion: VersionTLS13}
manageJobsWithoutQueueName: true
managedJobsNamespaceSelector:
  matchExpressions:
  - {key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, batch]}
internalCertManagement: {enable: false, webhookServiceName: s, webhookSecretName: t}
waitForPodsReady:
  timeout: 5m
  recoveryTimeout: 3m
  blockAdmission: true
  requeuingStrategy: {timestamp: Creation, backoffLimitCount: 0, backoffBaseSeconds: 1, backoffMaxSeconds: 2}
clientConnection: {qps: -1, burst: 7}
integrations: {frameworks: [batch/job], labelKeysToCopy: []}
resources: {excludeResourcePrefixes: [], quotaCheckStrategy: BlockUndeclared}
featureGates: {FlavorFungibility: true, MultiKueue: false}
objectRetentionPolicies: {workloads: {}}
visibilityServer: {bindAddress: 0.0.0.0, bindPort: 8082}
multiKueue: {gcInterval: 1m0s, origin: multikueue}
---
apiVersion: config.tutti.dev/v1alpha1
kind: TuttiConfiguration
mode: Observe
nativeGang: Off
landing: {timeout: 2m, backoffBase: 1s, backoffMax: 5s}
pendingReasonDelay: 0s
capacity: {mode: Release}
steering: NodeSelector
ledger: {path: "", retention: 24h}
maxConcurrentWrites: 4
metricsPlain: true
)yaml",
                                  {});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->ns, "batch");
  EXPECT_EQ(config->webhook.cert_dir, "/certs");
  EXPECT_EQ(config->metrics.bind->host, "127.0.0.1");
  EXPECT_EQ(config->metrics.bind->port, 9000);
  EXPECT_TRUE(config->metrics.cluster_queue_resources);
  EXPECT_TRUE(config->metrics.local_queue_selector.Matches({{"team", "a"}}));
  EXPECT_FALSE(config->metrics.local_queue_selector.Matches({{"team", "b"}}));
  EXPECT_EQ(config->health.bind->host, "::1");
  EXPECT_EQ(config->health.readiness_name, "ready");
  EXPECT_FALSE(config->leader_election.enabled);
  EXPECT_EQ(config->leader_election.retry_period, milliseconds(500));
  EXPECT_EQ(config->leader_election.ns, "elsewhere");
  EXPECT_EQ(config->cache_sync_timeout, seconds(10));
  EXPECT_EQ(config->tls_min_version, TlsVersion::k13);
  EXPECT_TRUE(config->manage_jobs_without_queue_name);
  EXPECT_FALSE(
      config->managed_jobs_namespace_selector.Matches({{"kubernetes.io/metadata.name", "batch"}}));
  EXPECT_TRUE(
      config->managed_jobs_namespace_selector.Matches({{"kubernetes.io/metadata.name", "x"}}));
  EXPECT_FALSE(config->internal_certs.enabled);
  EXPECT_EQ(config->wait_for_pods_ready.recovery_timeout, minutes(3));
  EXPECT_TRUE(config->wait_for_pods_ready.requeue_by_creation);
  EXPECT_EQ(config->wait_for_pods_ready.backoff_limit, 0);
  EXPECT_FALSE(config->gates.Enabled("MultiKueue"));
  EXPECT_EQ(config->mode, Mode::kObserve);
  EXPECT_FALSE(config->native_gang);
  EXPECT_EQ(config->landing.backoff_max, seconds(5));
  EXPECT_EQ(config->pending_reason_delay, Duration::zero());
  EXPECT_EQ(config->capacity, CapacitySetting::kRelease);
  EXPECT_EQ(config->steering, Steering::kNodeSelector);
  EXPECT_EQ(config->ledger.path, "");
  EXPECT_EQ(config->ledger.retention, hours(24));
  EXPECT_TRUE(config->metrics_plain);
  EXPECT_THAT(config->notes, testing::ElementsAre(testing::HasSubstr("groupKindConcurrency"),
                                                  testing::HasSubstr("clientConnection")));
}

TEST(ConfigTest, ProblemsOfKueuesDocumentNameLinePathAndRemedy) {
  struct Case {
    std::string body;
    std::string problem;
  };
  const std::vector<Case> cases = {
      {"namespaces: x\n", "line 3: namespaces: unknown field; did you mean 'namespace'?"},
      {"webhook:\n  prot: 1\n", "line 4: webhook.prot: unknown field; did you mean 'port'?"},
      {"zzzzzzzzzz: 1\n", "line 3: zzzzzzzzzz: unknown field"},
      {"namespace: a\nnamespace: b\n", "line 4: namespace: this key is given twice"},
      {"namespace: 5\n", "line 3: namespace: must be a text, is a number"},
      {"webhook: 5\n", "line 3: webhook: must be a map, is a number"},
      {"webhook: {port: 70000}\n", "webhook.port: must be between 0 and 65535"},
      {"metrics: {bindAddress: 'x'}\n", "metrics.bindAddress: 'x' is not an address"},
      {"metrics: {bindAddress: '::1:80'}\n", "goes into brackets"},
      {"metrics: {bindAddress: ':99999'}\n", "at most 65535"},
      {"leaderElection: {leaderElect: 'yes'}\n",
       "leaderElection.leaderElect: must be true or false, is a text"},
      {"leaderElection: {leaseDuration: 15}\n",
       "must be a duration such as 30s or 5m, is a number"},
      {"leaderElection: {leaseDuration: 5s}\n", "leaseDuration: must be longer than renewDeadline"},
      {"leaderElection: {resourceLock: endpoints}\n", "must be one of leases"},
      {"pprofBindAddress: :6060\n", "pprofBindAddress: Go profiles: not supported"},
      {"tls: {minVersion: VersionTLS14}\n",
       "must be one of VersionTLS12, VersionTLS13, is 'VersionTLS14'; did you mean"},
      {"tls: {cipherSuites: [A]}\n",
       "tls.cipherSuites: a list of TLS cipher suites: not supported"},
      {"managedJobsNamespaceSelector: {}\n", "matches the namespace kube-system; exclude it with"},
      {"namespace: own\nmanagedJobsNamespaceSelector:\n  matchExpressions:\n"
       "  - {key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}\n",
       "matches the namespace own;"},
      {"managedJobsNamespaceSelector: {matchExpressions: [{key: a, operator: in, values: [b]}]}\n",
       "managedJobsNamespaceSelector.matchExpressions[0].operator: must be one of In, NotIn"},
      {"managedJobsNamespaceSelector: {matchLabels: {a: 1}}\n",
       "matchLabels.a: must be a text; put it into quotes"},
      {"waitForPodsReady: {enable: true}\n", "set the feature gate DisableWaitForPodsReady"},
      {"waitForPodsReady: {requeuingStrategy: {timestamp: Evictoin}}\n",
       "did you mean 'Eviction'?"},
      {"waitForPodsReady: {requeuingStrategy: {backoffLimitCount: -1}}\n",
       "backoffLimitCount: must be between 0"},
      {"integrations: {frameworks: [batch/job, kubeflow.org/mpijob]}\n",
       "integrations.frameworks[1]: 'kubeflow.org/mpijob': not supported by this version"},
      {"integrations: {externalFrameworks: [a.v1.b]}\n", "external frameworks: not supported"},
      {"multiKueue: {origin: me}\n", "multiKueue.origin: MultiKueue: not supported"},
      {"featureGates: {Nope: true}\n", "line 3: featureGates.Nope: unknown feature gate"},
      {"featureGates: {MultiKueue: true}\n",
       "featureGates.MultiKueue: not supported by this version"},
      {"featureGates: {MultiKueue: 1}\n", "featureGates.MultiKueue: must be true or false"},
      {"clientConnection: {qps: many}\n", "clientConnection.qps: must be a number"},
      {"waitForPodsReady: {recoveryTimeout: -1s}\n", "must be at least"},
      {"controller: {groupKindConcurrency: {Job.batch: 0}}\n", "must be a number of at least 1"},
      {"queueVisibility: {}\n", "queueVisibility: unknown field"},
  };
  for (const Case& c : cases) {
    const auto config = Kueue(c.body);
    ASSERT_FALSE(config) << c.body;
    EXPECT_THAT(config.error().message, testing::HasSubstr(c.problem)) << c.body;
  }
}

TEST(ConfigTest, ProblemsOfOurDocumentAreNamed) {
  struct Case {
    std::string body;
    std::string problem;
  };
  const std::vector<Case> cases = {
      {"mode: Greenfeld\n",
       "line 3: mode: must be one of Observe, Takeover, Greenfield, is 'Greenfeld'; did you mean"},
      {"nativeGang: On\n", "nativeGang: must be a text, is a boolean"},
      {"mode: Off\n", "mode: must be a text, is a boolean"},
      {"landing: {timeout: 0s}\n", "landing.timeout: must be at least"},
      {"landing: {backoffBase: 1h}\n", "landing.backoffMax: must not be shorter than backoffBase"},
      {"maxConcurrentWrites: 0\n", "maxConcurrentWrites: must be between 1 and 1024"},
      {"ledger: {file: x}\n", "ledger.file: unknown field"},
      {"capacity: {mode: Requires}\n", "did you mean 'Require'?"},
  };
  for (const Case& c : cases) {
    const auto config = Ours(c.body);
    ASSERT_FALSE(config) << c.body;
    EXPECT_THAT(config.error().message, testing::HasSubstr(c.problem)) << c.body;
  }
}

TEST(ConfigTest, DocumentsMustBeKnownAndSingle) {
  EXPECT_THAT(ParseConfig("apiVersion: config.kueue.x-k8s.io/v1alpha1\nkind: Configuration\n", {})
                  .error()
                  .message,
              testing::HasSubstr("use config.kueue.x-k8s.io/v1beta2"));
  EXPECT_THAT(ParseConfig(std::string(kHead) + "---\n" + kHead, {}).error().message,
              testing::HasSubstr("a second document of kind Configuration"));
  EXPECT_THAT(ParseConfig("a: [", {}).error().message, testing::HasSubstr("line"));
  EXPECT_TRUE(ParseConfig(kOurHead, {}));
  EXPECT_TRUE(ParseConfig(std::string(kOurHead) + "---\n" + kHead, {}));
}

TEST(ConfigTest, AllProblemsAreToldAtOnce) {
  const auto config = ParseConfig(
      std::string(kHead) + "nope: 1\nwebhook: {port: x}\n---\n" + kOurHead + "mode: x\n", {});
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message,
              testing::AllOf(testing::HasSubstr("nope"), testing::HasSubstr("webhook.port"),
                             testing::HasSubstr("mode")));
}

TEST(ConfigTest, OwnNamespaceComesFromFileThenServiceAccountThenDefault) {
  ConfigContext context;
  context.own_namespace = "from-account";
  EXPECT_EQ(Kueue("", context)->ns, "from-account");
  EXPECT_EQ(Kueue("namespace: from-file\n", context)->ns, "from-file");
  EXPECT_FALSE(Kueue("", context)
                   ->managed_jobs_namespace_selector.Matches(
                       {{"kubernetes.io/metadata.name", "from-account"}}));
}

TEST(ConfigTest, GatesComeFromTheFlagOrTheFileNotBoth) {
  ConfigContext context;
  context.feature_gates_flag = "DisableWaitForPodsReady=true,LocalQueueMetrics=false";
  const auto config = Kueue("", context);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_FALSE(config->wait_for_pods_ready.enabled);
  EXPECT_FALSE(config->metrics.local_queues);
  EXPECT_THAT(Kueue("featureGates: {MultiKueue: false}\n", context).error().message,
              testing::HasSubstr("use one of them"));
  context.feature_gates_flag = "Broken";
  EXPECT_FALSE(Kueue("", context));
}

TEST(ConfigTest, AddressesMayBeOff) {
  const auto config = Kueue("metrics: {bindAddress: '0'}\nhealth: {healthProbeBindAddress: 0}\n");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_FALSE(config->metrics.bind);
  EXPECT_FALSE(config->health.bind);
}

TEST(ConfigTest, FileThatCannotBeReadOrIsWrongIsNamed) {
  EXPECT_THAT(LoadConfig("/nonexistent/config.yaml", {}).error().message,
              testing::HasSubstr("/nonexistent/config.yaml"));
  std::string path = testing::TempDir() + "config-XXXXXX";
  const int fd = mkstemp(path.data());
  ASSERT_GE(fd, 0);
  close(fd);
  std::ofstream(path) << kHead << "nope: 1\n";
  EXPECT_THAT(LoadConfig(path, {}).error().message,
              testing::AllOf(testing::HasSubstr(path), testing::HasSubstr("nope")));
  std::remove(path.c_str());
  EXPECT_TRUE(LoadConfig("", {}));
}

}  // namespace
}  // namespace tutti
