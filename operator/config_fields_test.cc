// SPDX-License-Identifier: Apache-2.0
// Every field of Kueue's Configuration is known in both versions, typed, and in the documentation.
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/config.h"

namespace tutti {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;

Result<Config> Parse(const std::string& version, const std::string& body) {
  return ParseConfig(
      "apiVersion: config.kueue.x-k8s.io/" + version + "\nkind: Configuration\n" + body, {});
}

enum class In { kBoth, kOld, kNew };

struct Field {
  In in;
  std::string path;   // as in docs/configuration.md, "" = below a documented one
  std::string value;  // YAML at that path
};

const std::vector<Field>& Fields() {
  static const std::vector<Field> fields = {
      {In::kBoth, "namespace", "x"},
      {In::kBoth, "webhook.port", "9443"},
      {In::kBoth, "webhook.host", "h"},
      {In::kBoth, "webhook.certDir", "/d"},
      {In::kBoth, "leaderElection.leaderElect", "true"},
      {In::kBoth, "leaderElection.leaseDuration", "15s"},
      {In::kBoth, "leaderElection.renewDeadline", "10s"},
      {In::kBoth, "leaderElection.retryPeriod", "2s"},
      {In::kBoth, "leaderElection.resourceLock", "leases"},
      {In::kBoth, "leaderElection.resourceName", "lock"},
      {In::kBoth, "leaderElection.resourceNamespace", "place"},
      {In::kBoth, "metrics.bindAddress", "':8443'"},
      {In::kBoth, "metrics.enableClusterQueueResources", "true"},
      {In::kBoth, "metrics.localQueueMetrics.enable", "true"},
      {In::kBoth, "metrics.localQueueMetrics.localQueueSelector", "{}"},
      {In::kBoth, "metrics.customLabels", "[{name: a, sourceLabelKey: b}]"},
      {In::kBoth, "metrics.customLabels", "[{name: a, sourceAnnotationKey: b}]"},
      {In::kNew, "metrics.customLabels", "[{name: a, sourceKind: Cohort, trackedValues: [x]}]"},
      {In::kBoth, "health.healthProbeBindAddress", "':8081'"},
      {In::kBoth, "health.readinessEndpointName", "r"},
      {In::kBoth, "health.livenessEndpointName", "l"},
      {In::kBoth, "pprofBindAddress", "':1'"},
      {In::kBoth, "controller.groupKindConcurrency", "{Job.batch: 5}"},
      {In::kBoth, "controller.cacheSyncTimeout", "1m"},
      {In::kBoth, "tls.minVersion", "VersionTLS12"},
      {In::kBoth, "tls.cipherSuites", "[TLS_AES_128_GCM_SHA256]"},
      {In::kBoth, "tls.curvePreferences", "[29]"},
      {In::kBoth, "manageJobsWithoutQueueName", "true"},
      {In::kBoth, "managedJobsNamespaceSelector", "{matchLabels: {a: b}}"},
      {In::kBoth, "internalCertManagement.enable", "true"},
      {In::kBoth, "internalCertManagement.webhookServiceName", "s"},
      {In::kBoth, "internalCertManagement.webhookSecretName", "s"},
      {In::kOld, "waitForPodsReady.enable", "true"},
      {In::kBoth, "waitForPodsReady.timeout", "5m"},
      {In::kBoth, "waitForPodsReady.recoveryTimeout", "3m"},
      {In::kBoth, "waitForPodsReady.blockAdmission", "true"},
      {In::kBoth, "waitForPodsReady.requeuingStrategy.timestamp", "Creation"},
      {In::kBoth, "waitForPodsReady.requeuingStrategy.backoffLimitCount", "1"},
      {In::kBoth, "waitForPodsReady.requeuingStrategy.backoffBaseSeconds", "1"},
      {In::kBoth, "waitForPodsReady.requeuingStrategy.backoffMaxSeconds", "1"},
      {In::kBoth, "clientConnection.qps", "300"},
      {In::kBoth, "clientConnection.burst", "500"},
      {In::kBoth, "integrations.frameworks", "[batch/job]"},
      {In::kBoth, "integrations.externalFrameworks", "[A.v1.b]"},
      {In::kBoth, "integrations.labelKeysToCopy", "[a]"},
      {In::kOld, "integrations.podOptions", "{namespaceSelector: {}, podSelector: {}}"},
      {In::kOld, "queueVisibility", "{updateIntervalSeconds: 5, clusterQueues: {maxCount: 10}}"},
      {In::kBoth, "multiKueue.gcInterval", "1m"},
      {In::kBoth, "multiKueue.origin", "o"},
      {In::kBoth, "multiKueue.workerLostTimeout", "1m"},
      {In::kBoth, "multiKueue.dispatcherName", "d"},
      {In::kBoth, "multiKueue.externalFrameworks", "[{name: A.v1.b}]"},
      {In::kNew, "multiKueue.clusterProfile", "{accessProviders: [], credentialsProviders: []}"},
      {In::kNew, "multiKueue.incrementalDispatcherConfig", "{stepSize: 3}"},
      {In::kOld, "fairSharing.enable", "true"},
      {In::kBoth, "fairSharing.preemptionStrategies", "[LessThanInitialShare]"},
      {In::kBoth, "admissionFairSharing.usageHalfLifeTime", "1m"},
      {In::kBoth, "admissionFairSharing.usageSamplingInterval", "1m"},
      {In::kBoth, "admissionFairSharing.resourceWeights", "{cpu: 2}"},
      {In::kBoth, "resources.excludeResourcePrefixes", "[a]"},
      {In::kNew, "resources.quotaCheckStrategy", "IgnoreUndeclared"},
      {In::kBoth, "resources.transformations",
       "[{input: a, strategy: Replace, multiplyBy: b, outputs: {c: 1}}]"},
      {In::kBoth, "resources.deviceClassMappings", "[{name: a/b, deviceClassNames: [c]}]"},
      {In::kBoth, "featureGates", "{MultiKueue: false}"},
      {In::kBoth, "objectRetentionPolicies.workloads.afterFinished", "1h"},
      {In::kBoth, "objectRetentionPolicies.workloads.afterDeactivatedByKueue", "1h"},
      {In::kNew, "visibilityServer.bindAddress", "127.0.0.1"},
      {In::kNew, "visibilityServer.bindPort", "8082"},
  };
  return fields;
}

// "a.b.c" and a value as nested flow maps.
std::string Nested(const std::string& path, const std::string& value) {
  std::string text;
  std::string close;
  std::istringstream parts(path);
  bool first = true;
  for (std::string part; std::getline(parts, part, '.'); first = false) {
    text += (first ? "" : "{") + part + ": ";
    close += first ? "" : "}";
  }
  return text + value + close + "\n";
}

TEST(ConfigFieldsTest, EveryFieldIsKnownInItsVersionsAndInNoOther) {
  for (const Field& field : Fields()) {
    for (const auto& [version, absent] :
         {std::pair("v1beta1", In::kNew), std::pair("v1beta2", In::kOld)}) {
      const auto config = Parse(version, Nested(field.path, field.value));
      const std::string error = config ? "" : config.error().message;
      if (field.in == absent) {
        EXPECT_THAT(error, testing::AnyOf(HasSubstr("unknown field"), HasSubstr("no such field")))
            << version << " " << field.path;
      } else {
        // Refused as a feature at most, never as a field or for its type.
        EXPECT_THAT(error, testing::AnyOf(std::string(), HasSubstr("not supported by this version"),
                                          HasSubstr("exclude it with")))
            << version << " " << field.path;
      }
    }
  }
}

TEST(ConfigFieldsTest, EveryFieldIsInTheDocumentation) {
  std::ifstream file(std::string(TUTTI_SOURCE_DIR) + "/docs/configuration.md");
  std::ostringstream text;
  text << file.rdbuf();
  for (const Field& field : Fields()) {
    // Rows name the first field in full and its neighbours as `.name`.
    const size_t dot = field.path.rfind('.');
    const std::string last = dot == std::string::npos ? field.path : field.path.substr(dot);
    EXPECT_THAT(text.str(),
                testing::AnyOf(HasSubstr("`" + field.path + "`"), HasSubstr("`" + last + "`")))
        << field.path;
  }
}

TEST(ConfigFieldsTest, OldVersionHasItsOwnDefaults) {
  auto config = Parse("v1beta1", "");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_FALSE(config->wait_for_pods_ready.enabled);
  config = Parse("v1beta1", "waitForPodsReady: {enable: true}\n");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_TRUE(config->wait_for_pods_ready.enabled);
  EXPECT_EQ(config->wait_for_pods_ready.timeout, minutes(5));
  EXPECT_TRUE(config->wait_for_pods_ready.block_admission);
  config = Parse("v1beta1", "waitForPodsReady: {enable: true, blockAdmission: false}\n");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_FALSE(config->wait_for_pods_ready.block_admission);
  EXPECT_TRUE(Parse("v1beta1", "fairSharing: {enable: false}\n"));
  config = Parse("v1beta1", "fairSharing: {enable: true}\n");
  ASSERT_TRUE(config && config->fair_sharing);
  EXPECT_THAT(config->fair_sharing->strategies,
              testing::ElementsAre(PreemptionStrategy::kLessThanOrEqualToFinalShare,
                                   PreemptionStrategy::kLessThanInitialShare));
  config = Parse("v1beta1", "queueVisibility: {}\nintegrations: {podOptions: {}}\n");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_THAT(config->notes, testing::UnorderedElementsAre(HasSubstr("queueVisibility has no"),
                                                           HasSubstr("podOptions has no effect")));
}

TEST(ConfigFieldsTest, DefaultsOfTheRest) {
  const auto config = Parse("v1beta2", "");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_THAT(config->integrations.frameworks, testing::ElementsAre("batch/job"));
  EXPECT_EQ(config->client_connection.qps, 300);
  EXPECT_EQ(config->client_connection.burst, 500);
  EXPECT_FALSE(config->fair_sharing);
  EXPECT_FALSE(config->admission_fair_sharing);
  EXPECT_FALSE(config->retention.after_finished);
  EXPECT_EQ(config->visibility.port, 8082);
  EXPECT_EQ(config->multi_kueue.worker_lost_timeout, minutes(15));
}

TEST(ConfigFieldsTest, WrongValuesAreNamed) {
  struct Case {
    std::string body;
    std::string problem;
  };
  const std::vector<Case> cases = {
      {"integrations: {frameworks: [batch/jobs]}\n",
       "integrations.frameworks[0]: 'batch/jobs' is no framework of Kueue; did you mean "
       "'batch/job'?"},
      {"integrations: {frameworks: [batch/job, batch/job]}\n", "'batch/job' is there twice"},
      {"integrations: {externalFrameworks: [A.v1]}\n", "must have the form Kind.version.group"},
      {"fairSharing: {}\n", "fairSharing.preemptionStrategies: must be [LessThanOrEqualTo"},
      {"fairSharing: {preemptionStrategies: [LessThanInitialShare, LessThanOrEqualToFinalShare]}\n",
       "fairSharing.preemptionStrategies: must be"},
      {"fairSharing: {preemptionStrategies: [Least]}\n",
       "fairSharing.preemptionStrategies: must be"},
      {"admissionFairSharing: {resourceWeights: {cpu: -1}}\n",
       "resourceWeights.cpu: must be a number of at least 0"},
      {"admissionFairSharing: {usageSamplingInterval: 0s}\n",
       "usageSamplingInterval: must be at least"},
      {"resources: {transformations: [{input: a}, {input: a}]}\n", "'a' is there twice"},
      {"resources: {transformations: [{strategy: Replace}]}\n",
       "transformations[0].input: is missing"},
      {"resources: {transformations: [{input: a, strategy: Keep}]}\n",
       "strategy: must be one of Retain, Replace"},
      {"resources: {transformations: [{input: a, outputs: {b: much}}]}\n",
       "outputs.b: must be a quantity"},
      {"resources: {quotaCheckStrategy: IgnoreUndeclared, excludeResourcePrefixes: [a]}\n",
       "remove excludeResourcePrefixes"},
      {"objectRetentionPolicies: {workloads: {afterFinished: -1s}}\n", "must be at least"},
      {"visibilityServer: {bindAddress: here}\n",
       "visibilityServer.bindAddress: must be an IP address"},
      {"multiKueue: {incrementalDispatcherConfig: {stepSize: 0}}\n", "stepSize: must be between 1"},
      {"metrics: {customLabels: [{sourceLabelKey: a}]}\n", "customLabels[0].name: is missing"},
      {"metrics: {customLabels: [{name: a, sourceLabelKey: a, sourceAnnotationKey: b}]}\n",
       "use one of them"},
      {"tls: {minVersion: VersionTLS13, cipherSuites: [A]}\n", "must be empty with minVersion"},
  };
  for (const Case& c : cases) {
    const auto config = Parse("v1beta2", c.body);
    ASSERT_FALSE(config) << c.body;
    EXPECT_THAT(config.error().message, HasSubstr(c.problem)) << c.body;
  }
}

}  // namespace
}  // namespace tutti
