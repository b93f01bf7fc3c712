// SPDX-License-Identifier: Apache-2.0
#include "operator/simulate_command.h"

#include <cstdio>
#include <utility>

#include "operator/input_files.h"
#include "sim/timeline.h"

namespace tutti {
namespace {

constexpr int kExitBadInput = 2;

Result<sim::Report> Run(const SimulateFlags& flags) {
  if (flags.files.empty()) {
    return Fail(ErrorCode::kInvalid, "give -f FILE (- for standard input), or --batch");
  }
  sim::Options options;
  options.fair_sharing = flags.fair_sharing;
  if (!flags.until.empty()) {
    const Result<Duration> until = ParseDuration(flags.until);
    if (!until || *until < Duration::zero()) {
      return Fail(ErrorCode::kInvalid,
                  "--until: must be a duration such as 24h, is \"" + flags.until + "\"");
    }
    options.until = *until;
  }
  TRY_ASSIGN(const std::vector<cli::Document> documents, ReadInputFiles(flags.files));
  return sim::Simulate(documents, options);
}

}  // namespace

int RunSimulate(const SimulateFlags& flags) {
  if (flags.batch) {
    return AnswerLines(sim::SimulateLine) ? 0 : kExitBadInput;
  }
  const Result<sim::Report> report = Run(flags);
  if (!report) {
    std::fprintf(stderr, "tutti simulate: %s\n", report.error().message.c_str());
    return kExitBadInput;
  }
  const std::string text =
      flags.output == "json" ? sim::ToJson(*report).Dump() + "\n" : sim::ToText(*report);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace tutti
