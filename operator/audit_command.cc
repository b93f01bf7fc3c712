// SPDX-License-Identifier: Apache-2.0
#include "operator/audit_command.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "audit/propose.h"
#include "audit/report.h"
#include "audit/yaml_text.h"
#include "operator/dumps.h"
#include "operator/price_file.h"
#include "operator/read_cluster.h"
#include "operator/terminal.h"

namespace tutti {
namespace {

constexpr int kExitBadInput = 2;

Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) {
    return Fail(ErrorCode::kInvalid, path + ": can't be written");
  }
  return {};
}

// The proposed files, and what they change as one diff beside them. Into an empty or new folder
// only, so that nobody's work is overwritten.
Status WriteProposal(const std::string& folder, const audit::Audit& report) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || !fs::is_empty(folder, error) || error) {
    return Fail(ErrorCode::kInvalid, "--propose " + folder + ": must be a new or an empty folder");
  }
  std::string diff;
  const std::vector<audit::ProposedFile> files = audit::Propose(report);
  for (const audit::ProposedFile& file : files) {
    const fs::path path = fs::path(folder) / file.path;
    fs::create_directories(path.parent_path(), error);
    TRY(WriteFile(path.string(), file.after));
    diff += audit::UnifiedDiff(file.path, file.before, file.after);
  }
  TRY(WriteFile((fs::path(folder) / "changes.diff").string(), diff));
  std::fprintf(stderr, "%s in %s, what they change in changes.diff; nothing was applied\n",
               cli::Count(files.size(), "manifest").c_str(), folder.c_str());
  return {};
}

Result<audit::Audit> Make(const AuditFlags& flags) {
  audit::HistoryOptions options;
  options.count_loose = flags.count_work_queues;
  const Result<Duration> tolerance = ParseDuration(flags.tolerance);
  if (!tolerance || *tolerance < Duration::zero()) {
    return Fail(ErrorCode::kInvalid,
                "--tolerance: must be a duration such as 10s, is \"" + flags.tolerance + "\"");
  }
  options.tolerance = *tolerance;
  audit::CollectOptions collect;
  collect.keep_manifests = !flags.propose.empty();
  if (!flags.at.empty()) {
    const Result<Time> at = ParseTime(flags.at);
    if (!at) {
      return Fail(ErrorCode::kInvalid,
                  "--at: must be a time such as 2026-12-01T12:00:00Z, is \"" + flags.at + "\"");
    }
    collect.now = *at;
  }
  TRY_ASSIGN(audit::Prices prices, ReadPrices(flags.prices));
  std::string source;
  if (flags.inputs.empty() && !collect.now) {
    collect.now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  }
  audit::Collector collector(collect);
  const ObjectSink sink = {
      [&](const Json& object, const std::string& where) { collector.Take(object, where); },
      [&](std::string text) { collector.Note(std::move(text)); }};
  if (flags.inputs.empty()) {
    TRY_ASSIGN(source, ReadCluster({.user_agent = "tutti-audit",
                                    .kubeconfig = flags.kubeconfig,
                                    .context = flags.context,
                                    .ns = flags.ns},
                                   sink));
  } else {
    TRY(ReadDumps(flags.inputs, sink));
    for (const std::string& input : flags.inputs) {
      source += (source.empty() ? "" : ", ") + (input == "-" ? "standard input" : input);
    }
  }
  return audit::MakeAudit(std::move(source), collector.Finish(), std::move(prices), options);
}

Status Run(const AuditFlags& flags) {
  TRY_ASSIGN(const audit::Audit report, Make(flags));
  const std::string text = flags.output == "json" ? audit::ToJson(report).Dump() + "\n"
                           : flags.output == "html"
                               ? audit::ToHtml(report)
                               : audit::ToText(report, TerminalWidth(flags.width));
  std::fputs(text.c_str(), stdout);
  if (!flags.html.empty()) {
    TRY(WriteFile(flags.html, audit::ToHtml(report)));
    std::fprintf(stderr, "the page is in %s\n", flags.html.c_str());
  }
  if (!flags.propose.empty()) {
    TRY(WriteProposal(flags.propose, report));
  }
  return {};
}

}  // namespace

int RunAudit(const AuditFlags& flags) {
  if (flags.how_to_dump) {
    std::fwrite(HowToDump().data(), 1, HowToDump().size(), stdout);
    return 0;
  }
  if (const Status run = Run(flags); !run) {
    std::fprintf(stderr, "tutti audit: %s\n", run.error().message.c_str());
    return kExitBadInput;
  }
  return 0;
}

}  // namespace tutti
