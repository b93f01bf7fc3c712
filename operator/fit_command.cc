// SPDX-License-Identifier: Apache-2.0
#include "operator/fit_command.h"

#include <cstdio>
#include <utility>

#include "cli/fit.h"
#include "operator/input_files.h"

namespace tutti {
namespace {

constexpr int kExitDoesNotFit = 1;
constexpr int kExitBadInput = 2;

}  // namespace

int RunFit(const FitFlags& flags) {
  if (flags.batch) {
    return AnswerLines(cli::FitLine) ? 0 : kExitBadInput;
  }
  if (flags.files.empty()) {
    std::fprintf(stderr, "tutti fit: give -f FILE (- for standard input), or --batch\n");
    return kExitBadInput;
  }
  const auto documents = ReadInputFiles(flags.files);
  const Result<cli::FitReport> report =
      documents ? cli::Fit(*documents) : Result<cli::FitReport>(Fail(documents.error()));
  if (!report) {
    std::fprintf(stderr, "tutti fit: %s\n", report.error().message.c_str());
    return kExitBadInput;
  }
  const std::string text =
      flags.output == "json" ? cli::ToJson(*report).Dump() + "\n" : cli::ToText(*report);
  std::fputs(text.c_str(), stdout);
  return report->AllFit() ? 0 : kExitDoesNotFit;
}

}  // namespace tutti
