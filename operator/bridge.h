// SPDX-License-Identifier: Apache-2.0
// From the reconcilers' data to the parts that act on it: history rows to the ledger, samples to
// the metrics, settings to options. Pure conversions.
#pragma once

#include <string_view>

#include "kube/client.h"
#include "kube/executor.h"
#include "kube/watch_machine.h"
#include "operator/config.h"
#include "operator/metrics.h"
#include "reconciler/options.h"
#include "reconciler/output.h"
#include "storage/ledger.h"

namespace tutti {

[[nodiscard]] std::string_view ModeName(Mode mode);                   // as in the configuration
[[nodiscard]] std::string_view EventName(kube::WatchEventType type);  // as the metrics say it

[[nodiscard]] storage::LedgerRow ToLedgerRow(const reconciler::HistoryRow& row);
[[nodiscard]] storage::LedgerRow ToLedgerRow(const reconciler::ObservedDecision& decision);

// Samples name metrics and labels by text; unknown names are reported as bugs by the caller. What
// is counted of a ClusterQueue and names the LocalQueue too is counted for both, the latter if
// `wanted`.
[[nodiscard]] bool Record(const reconciler::MetricSample& sample, Metrics& metrics,
                          const std::function<bool(const api::ObjectKey& local_queue)>& wanted);

// As in the metrics of writes; both kinds of patch are one.
[[nodiscard]] std::string_view VerbName(api::Verb verb);
// A write that the API server answered.
void RecordWrite(const kube::WriteSample& sample, Metrics& metrics);

struct ServerFacts {
  kube::Discovery discovery;
  bool join_policy = false;  // the policy that puts labelled pods into their group is installed
  bool volumes = false;      // all kinds of volumes may be listed and watched
  bool autoscaler = false;   // an autoscaler's API group or status was found
};

// What the ledger did between two looks, into its metrics; returns `now`.
storage::LedgerStats RecordLedger(const storage::LedgerStats& now,
                                  const storage::LedgerStats& before, Metrics& metrics);

[[nodiscard]] reconciler::Options ToOptions(const Config& config, const ServerFacts& facts);
// How gangs are handed over on this server, and why not natively if not.
struct GangChoice {
  reconciler::GangApi api = reconciler::GangApi::kNone;
  std::string reason;
};
[[nodiscard]] GangChoice ChooseGangApi(const Config& config, const ServerFacts& facts);

}  // namespace tutti
