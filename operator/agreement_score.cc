// SPDX-License-Identifier: Apache-2.0
#include "operator/agreement_score.h"

#include <string>

#include "base/log.h"
#include "operator/bridge.h"

namespace tutti {

void AgreementScore::Take(const std::vector<reconciler::ObservedDecision>& decisions,
                          Metrics& metrics, storage::Ledger& ledger) {
  for (const reconciler::ObservedDecision& decision : decisions) {
    last_.push_back(decision.agreed);
    agreed_ += decision.agreed ? 1 : 0;
    if (last_.size() > kLast) {
      agreed_ -= last_.front() ? 1 : 0;
      last_.pop_front();
    }
    ledger.Append(ToLedgerRow(decision));
    log::Write(decision.agreed ? log::Level::kDebug : log::Level::kInfo, "observed",
               {{"kind", ToString(decision.kind)},
                {"workload", decision.workload.ToString()},
                {"agreed", decision.agreed ? "yes" : "no"},
                {"live", decision.live},
                {"tutti", decision.ours}});
  }
  if (!decisions.empty()) {
    metrics.Set(Metric::kObserveAgreement,
                static_cast<double>(agreed_) / static_cast<double>(last_.size()));
  }
}

}  // namespace tutti
