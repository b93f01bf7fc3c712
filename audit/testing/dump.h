// SPDX-License-Identifier: Apache-2.0
// A made-up cluster with planted partial starts. What was planted is counted while the dump is
// written, from the times alone, by other arithmetic than the audit's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::audit::planted {

struct Planted {
  std::string ns;
  std::string job;
  int64_t seconds = 0;         // from the first pod's binding to the last one's, or till now
  int64_t device_seconds = 0;  // held by the early pods meanwhile
  int64_t cents = 0;           // at the price of dump.cc, rounded half up
  bool ongoing = false;
};

struct DumpOptions {
  uint64_t seed = 1;
  int jobs = 2000;
  int planted = 50;
  int nodes = 500;
  int pods_per_job = 0;  // 0: from 2 to 16
  int padding = 0;       // bytes of environment in every pod
};

struct DumpTruth {
  std::vector<Planted> planted;  // in order of name
  int64_t device_seconds = 0;    // of these together
  std::string at;                // the time of the dump
};

// The price that `cents` are of, as a price file.
std::string_view PriceFile();

// Calls `write` with pieces of one List, as kubectl writes it.
DumpTruth WriteDump(const DumpOptions& options, const std::function<void(std::string_view)>& write);

}  // namespace tutti::audit::planted
