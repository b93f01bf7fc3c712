// SPDX-License-Identifier: Apache-2.0
// Mode Observe: how many of the last decisions of the live controller were foreseen; into the
// metrics, the ledger and the log. Loop thread only.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "operator/metrics.h"
#include "reconciler/output.h"
#include "storage/ledger.h"

namespace tutti {

class AgreementScore {
 public:
  static constexpr size_t kLast = 1000;

  void Take(const std::vector<reconciler::ObservedDecision>& decisions, Metrics& metrics,
            storage::Ledger& ledger);

 private:
  std::deque<bool> last_;
  size_t agreed_ = 0;  // of these
};

}  // namespace tutti
