// SPDX-License-Identifier: Apache-2.0
// `tutti measure`: keeps watching a cluster, or reads dumps of it, and writes a ledger; `tutti
// measure report` and `tutti compare` read such ledgers. Of the cluster they only read.
#pragma once

#include <string>
#include <vector>

namespace tutti {

struct MeasureFlags {
  std::string ledger = "tutti-measure.db";
  std::vector<std::string> inputs;  // dumps in the order of time; none: watch a cluster
  std::string kubeconfig;
  std::string context;
  std::string ns;             // only what is in this namespace; "" = all
  std::string every = "15s";  // a round
  std::string run_for;        // "" = until it is stopped
};

// What reports and comparisons have in common.
struct LedgerViewFlags {
  std::string prices;
  std::string tolerance = "10s";
  bool count_work_queues = false;
  std::string output = "text";
  int width = 0;  // columns; 0: of the terminal
};

struct MeasureReportFlags {
  std::string ledger;
  std::string from;
  std::string to;
  std::string every;  // a row for each so long; "" = none
  LedgerViewFlags view;
};

struct CompareFlags {
  std::string a;  // FILE or FILE@FROM..TO
  std::string b;
  LedgerViewFlags view;
};

// Exit codes: 0, or 2: bad input, or the ledger or the cluster can't be used.
int RunMeasure(const MeasureFlags& flags);
int RunMeasureReport(const MeasureReportFlags& flags);
int RunCompare(const CompareFlags& flags);

}  // namespace tutti
