// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "operator/config_sections.h"
#include "reconciler/job_kinds.h"

namespace tutti {

void CheckBuilt(Section* root, Config* config) {
  const auto refuse = [root](bool asked, const std::string& field, const std::string& feature) {
    if (asked) {
      root->Report(field, feature + ": not supported by this version; remove the field");
    }
  };
  const auto& frameworks = config->integrations.frameworks;
  for (size_t at = 0; at < frameworks.size(); ++at) {
    const auto& built = reconciler::BuiltFrameworks();
    if (std::find(built.begin(), built.end(), frameworks[at]) == built.end()) {
      std::string list;
      for (const std::string_view name : built) {
        list += (list.empty() ? "" : ", ") + std::string(name);
      }
      root->Report("integrations.frameworks[" + std::to_string(at) + "]",
                   "'" + frameworks[at] + "': not supported by this version; supported: " + list);
    }
  }
  refuse(!config->integrations.external_frameworks.empty(), "integrations.externalFrameworks",
         "external frameworks");
  refuse(!config->tls_cipher_suites.empty(), "tls.cipherSuites", "a list of TLS cipher suites");
  refuse(!config->tls_curve_preferences.empty(), "tls.curvePreferences", "a list of TLS curves");

  const Config::MultiKueue none;
  const auto& multi = config->multi_kueue;
  refuse(multi.gc_interval != none.gc_interval, "multiKueue.gcInterval", "MultiKueue");
  refuse(multi.origin != none.origin, "multiKueue.origin", "MultiKueue");
  refuse(multi.worker_lost_timeout != none.worker_lost_timeout, "multiKueue.workerLostTimeout",
         "MultiKueue");
  refuse(multi.dispatcher != none.dispatcher, "multiKueue.dispatcherName", "MultiKueue");
  refuse(!multi.external_frameworks.empty(), "multiKueue.externalFrameworks", "MultiKueue");
  refuse(multi.cluster_profile, "multiKueue.clusterProfile", "MultiKueue");
  refuse(multi.step_size.has_value(), "multiKueue.incrementalDispatcherConfig", "MultiKueue");

  const auto note = [config](bool asked, const char* text) {
    if (asked) {
      config->notes.emplace_back(text);
    }
  };
  note(!config->metrics.custom_labels.empty() && !config->gates.Enabled("CustomMetricLabels"),
       "metrics.customLabels has no effect: the feature gate CustomMetricLabels is off");
  note(!config->group_kind_concurrency.empty(),
       "controller.groupKindConcurrency is accepted and has no effect: one thread decides, writes "
       "run in parallel (maxConcurrentWrites)");
  note(root->Present("clientConnection"),
       "clientConnection is accepted and has no effect: the number of writes at the same time is "
       "limited instead (maxConcurrentWrites)");
}

}  // namespace tutti
