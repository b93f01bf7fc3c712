// SPDX-License-Identifier: Apache-2.0
// The watches behind `tutti measure`: list and watch requests of one connection, into a ledger, one
// round after the other. What can't be watched for a while is not counted as watched.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "kube/kubeconfig.h"
#include "measure/ledger.h"

namespace tutti {

struct MeasureWatchOptions {
  std::string ns;  // "" = all
  Duration every{};
  Duration run_for{};  // zero: until it is stopped
  // What a person should know: that it began, what may not be watched, interruptions.
  std::function<void(const std::string&)> say;
};

// Until `run_for` is over or SIGINT or SIGTERM comes. An error when the cluster gives no answer at
// the start, or when the ledger can't be written. REQUIRES: no other thread has been started.
Status WatchIntoLedger(const kube::ClusterAccess& access, const MeasureWatchOptions& options,
                       measure::Ledger& ledger);

}  // namespace tutti
