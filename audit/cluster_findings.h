// SPDX-License-Identifier: Apache-2.0
// What of the cluster stands in the way: gangs that wait and why, quotas that no node can hold,
// devices that no job can take, requests that could be claims. Whether pods have a place is the
// engine's answer (engine/capacity.h).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "audit/collect.h"
#include "audit/model.h"

namespace tutti::audit {

struct ClusterFindings {
  std::vector<WaitingGang> waiting;  // longest wait first
  std::vector<QuotaFinding> quotas;
  std::vector<Fragment> fragments;  // most devices first
  std::vector<ClaimHint> claims;
  std::map<std::string, ResourceTotals> totals;  // accelerators
};

ClusterFindings LookAtCluster(const Facts& facts, std::vector<std::string>& notes);

}  // namespace tutti::audit
