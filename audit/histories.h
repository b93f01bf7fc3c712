// SPDX-License-Identifier: Apache-2.0
// Who started partially, for how long, and what it cost. Pure.
//
// A gang needs `size` pods at a time. Over time it holds those that have a node and have not
// ended, and it has done those that ended well. While it holds some and held + done < size, the
// held ones wait for the others: a spell. The first pods of a gang never land in the same second,
// so spells of up to the tolerance are normal and not counted. What is counted of a spell is the
// time from the binding of each pod, when its devices are taken from everybody else.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "audit/collect.h"
#include "audit/model.h"

namespace tutti::audit {

struct HistoryOptions {
  Duration tolerance = std::chrono::seconds(10);
  bool count_loose = false;  // work queues as if their pods needed each other
};

struct Histories {
  std::vector<GangHistory> gangs;  // one for each of Facts::gangs
  std::vector<DevicesAt> devices;  // in order of time
  // Pods that the input must have had and hasn't, and so on: reason -> number of gangs not judged.
  std::map<std::string, size_t> unjudged;
  std::map<std::string, size_t> unpriced;  // device -> pods
};

// Sets Gang::unjudged. Devices of a node that isn't in the input have the price without labels.
Histories Follow(Facts& facts, const Prices& prices, const HistoryOptions& options);

}  // namespace tutti::audit
