// SPDX-License-Identifier: Apache-2.0
// A batch line of `tutti simulate` from any text: one answer or one error, the same each time, and
// what is admitted does not wait.
#include <set>

#include "fuzz/fuzz.h"
#include "sim/timeline.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const tutti::Json answer = tutti::sim::SimulateLine(AsText(data, size));
  REQUIRE(answer.Has("id"));
  REQUIRE(answer.Has("error") != answer.Has("steps"));
  for (const tutti::Json& step : answer["steps"].AsArray()) {
    std::set<std::string> pending;
    for (const tutti::Json& workload : step["pending"].AsArray()) {
      REQUIRE(!workload["reason"].AsString().empty());
      pending.insert(workload["workload"].AsString());
    }
    for (const tutti::Json& workload : step["admitted"].AsArray()) {
      REQUIRE(!workload["clusterQueue"].AsString().empty());
      REQUIRE(!pending.contains(workload["workload"].AsString()));
    }
  }
  REQUIRE(tutti::sim::SimulateLine(AsText(data, size)) == answer);
  return 0;
}
