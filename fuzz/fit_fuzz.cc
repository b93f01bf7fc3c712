// SPDX-License-Identifier: Apache-2.0
// A batch line of `tutti fit` from any text: one answer or one error, the same each time, and a
// gang that fits has a place for every pod.
#include "cli/fit.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const tutti::Json answer = tutti::cli::FitLine(AsText(data, size));
  REQUIRE(answer.Has("id"));
  REQUIRE(answer.Has("error") != answer.Has("answers"));
  REQUIRE(answer["error"].AsString().empty() == answer.Has("answers"));
  for (const tutti::Json& gang : answer["answers"].AsArray()) {
    int64_t placed = 0;
    for (const tutti::Json& slot : gang["placement"].AsArray()) {
      REQUIRE(slot["count"].AsInt() > 0);
      REQUIRE(!slot["node"].AsString().empty());
      placed += slot["count"].AsInt();
    }
    const std::string& verdict = gang["verdict"].AsString();
    const bool has_plan = verdict == "Fits" || verdict == "Undecided";
    REQUIRE(placed == (has_plan ? gang["pods"].AsInt() : 0));
    REQUIRE(has_plan || !gang["message"].AsString().empty());
  }
  REQUIRE(tutti::cli::FitLine(AsText(data, size)) == answer);
  return 0;
}
