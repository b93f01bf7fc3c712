// SPDX-License-Identifier: Apache-2.0
#include "operator/fit_command.h"

#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <utility>

#include "cli/fit.h"
#include "operator/documents.h"

namespace tutti {
namespace {

constexpr int kExitDoesNotFit = 1;
constexpr int kExitBadInput = 2;

Result<std::vector<cli::Document>> ReadFitInput(const std::vector<std::string>& files) {
  std::vector<cli::Document> out;
  for (const std::string& file : files) {
    const std::string name = file == "-" ? "standard input" : file;
    std::string text;
    if (file == "-") {
      text.assign(std::istreambuf_iterator<char>(std::cin), {});
    } else {
      std::ifstream in(file, std::ios::binary);
      text.assign(std::istreambuf_iterator<char>(in), {});
      if (!in) {
        return Fail(ErrorCode::kInvalid, name + ": can't be read");
      }
    }
    Result<std::vector<Json>> documents = ReadDocuments(text);
    if (!documents) {
      return Fail(documents.error().With(name));
    }
    const bool several = documents->size() > 1;
    for (size_t i = 0; i < documents->size(); ++i) {
      out.push_back({several ? name + ", document " + std::to_string(i + 1) : name,
                     std::move((*documents)[i])});
    }
  }
  return out;
}

int RunFitBatch() {
  int code = 0;
  for (std::string line; std::getline(std::cin, line);) {
    if (line.empty()) {
      continue;
    }
    const Json answer = cli::FitLine(line);
    if (answer.Has("error")) {
      code = kExitBadInput;
    }
    std::cout << answer.Dump() << std::endl;  // one at a time: somebody waits for it
  }
  return code;
}

}  // namespace

int RunFit(const FitFlags& flags) {
  if (flags.batch) {
    return RunFitBatch();
  }
  if (flags.files.empty()) {
    std::fprintf(stderr, "tutti fit: give -f FILE (- for standard input), or --batch\n");
    return kExitBadInput;
  }
  const auto documents = ReadFitInput(flags.files);
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
