// SPDX-License-Identifier: Apache-2.0
// The audit as one value, and its three forms: for a terminal, for a browser, for programs. Pure.
#pragma once

#include <string>
#include <vector>

#include "audit/cluster_findings.h"
#include "audit/collect.h"
#include "audit/histories.h"
#include "base/json.h"

namespace tutti::audit {

struct Summary {
  size_t gangs = 0;
  size_t judged = 0;
  size_t partial = 0;       // started partially
  size_t partial_now = 0;   // and are not whole yet
  size_t lost = 0;          // lost a member later, and ran on in part
  size_t whole = 0;         // judged and whole at once
  size_t not_started = 0;   // judged, no pod has had a node
  Duration partial_time{};  // of all partial starts together
  Duration longest{};
  int64_t device_seconds = 0;  // held by judged gangs
  int64_t idle_seconds = 0;    // of these at partial starts
  int64_t idle_lost_seconds = 0;
  Money cost;
  Money idle_cost;
  Money idle_lost_cost;
  Time first = kNoTime;  // the first binding
};

struct Audit {
  std::string source;  // what was looked at: "dump.json", "cluster https://…"
  Facts facts;
  Histories histories;
  ClusterFindings cluster;
  Prices prices;
  Duration tolerance{};
  Summary summary;
  std::vector<size_t> worst;  // indexes of gangs that started partially, most costly first
};

Audit MakeAudit(std::string source, Facts facts, Prices prices, const HistoryOptions& options);

// At most `width` columns as far as names allow.
[[nodiscard]] std::string ToText(const Audit& audit, size_t width);
// Everything, with every spell; times RFC 3339, durations in seconds, costs as decimal text.
[[nodiscard]] Json ToJson(const Audit& audit);
// One file without scripts or anything loaded from elsewhere; light and dark.
[[nodiscard]] std::string ToHtml(const Audit& audit);

}  // namespace tutti::audit
