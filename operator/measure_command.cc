// SPDX-License-Identifier: Apache-2.0
#include "operator/measure_command.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "audit/collect.h"
#include "cli/objects.h"
#include "measure/compare.h"
#include "measure/ledger.h"
#include "measure/report.h"
#include "operator/dumps.h"
#include "operator/measure_watch.h"
#include "operator/price_file.h"
#include "operator/read_cluster.h"
#include "operator/terminal.h"

namespace tutti {
namespace {

constexpr int kExitBadInput = 2;

Result<Duration> Span(const std::string& flag, const std::string& text, Duration least) {
  const Result<Duration> parsed = ParseDuration(text);
  if (!parsed || *parsed < least) {
    return Fail(ErrorCode::kInvalid, flag + ": must be a duration of at least " +
                                         FormatDuration(least) + " such as 1h, is \"" + text +
                                         "\"");
  }
  return *parsed;
}

Result<Time> Moment(const std::string& what, const std::string& text) {
  const Result<Time> parsed = ParseTime(text);
  if (!parsed) {
    return Fail(ErrorCode::kInvalid,
                what + ": must be a time such as 2026-12-01T12:00:00Z, is \"" + text + "\"");
  }
  return *parsed;
}

// A folder without files of its own is one of dumps, a folder each.
std::vector<std::string> DumpsOf(const std::vector<std::string>& inputs) {
  namespace fs = std::filesystem;
  std::vector<std::string> out;
  for (const std::string& input : inputs) {
    std::error_code error;
    std::vector<std::string> folders;
    bool files = false;
    if (fs::is_directory(input, error)) {
      for (const auto& entry : fs::directory_iterator(input, error)) {
        if (entry.is_directory(error)) {
          folders.push_back(entry.path());
        } else {
          files = true;
        }
      }
    }
    if (folders.empty() || files) {
      out.push_back(input);
    } else {
      std::sort(folders.begin(), folders.end());
      out.insert(out.end(), folders.begin(), folders.end());
    }
  }
  return out;
}

Status RecordDump(const std::string& dump, measure::Ledger& ledger) {
  audit::CollectOptions options;
  options.for_ledger = true;
  audit::Collector collector(options);
  const ObjectSink sink = {
      [&](const Json& object, const std::string& where) { collector.Take(object, where); },
      [&](std::string text) { std::fprintf(stderr, "tutti measure: %s\n", text.c_str()); }};
  TRY(ReadDumps({dump}, sink));
  const audit::Facts facts = collector.Finish();
  if (facts.now == kNoTime) {
    return Fail(ErrorCode::kInvalid, dump + ": no time in it, so nothing says when it was made");
  }
  std::set<std::string> alive;
  size_t pods = 0;
  const auto see = [&](const std::string& ns, const audit::PodTimes& pod) {
    ++pods;
    if (!pod.ended) {
      alive.insert(measure::PodId(ns, pod));
    }
  };
  for (const audit::Gang& gang : facts.gangs) {
    for (const audit::PodTimes& pod : gang.pods) {
      see(gang.ns, pod);
    }
  }
  for (const audit::OtherPod& pod : facts.others) {
    see(pod.ns, pod.times);
  }
  const Status begun = ledger.Begin("dumps", facts.now, /*sampled=*/true);
  if (!begun) {
    return Fail(begun.error().With(dump));
  }
  TRY(ledger.Record(facts, &alive));
  std::fprintf(stderr, "%s: %s, %s and %s\n", dump.c_str(), FormatTime(facts.now).c_str(),
               cli::Count(facts.gangs.size(), "job").c_str(), cli::Count(pods, "pod").c_str());
  return {};
}

Status Measure(const MeasureFlags& flags) {
  TRY_ASSIGN(const Duration every, Span("--every", flags.every, std::chrono::seconds(1)));
  Duration run_for{};
  if (!flags.run_for.empty()) {
    TRY_ASSIGN(run_for, Span("--for", flags.run_for, std::chrono::seconds(1)));
  }
  Result<std::unique_ptr<measure::Ledger>> opened = measure::Ledger::Open(flags.ledger);
  if (!opened) {
    return Fail(opened.error().With("--ledger " + flags.ledger));
  }
  const std::unique_ptr<measure::Ledger> ledger = std::move(*opened);
  if (!flags.inputs.empty()) {
    for (const std::string& dump : DumpsOf(flags.inputs)) {
      TRY(RecordDump(dump, *ledger));
    }
  } else {
    TRY_ASSIGN(const kube::ClusterAccess access, AccessTo(flags.kubeconfig, flags.context));
    TRY(WatchIntoLedger(access,
                        {.ns = flags.ns,
                         .every = every,
                         .run_for = run_for,
                         .say =
                             [](const std::string& text) {
                               std::fprintf(stderr, "tutti measure: %s\n", text.c_str());
                             }},
                        *ledger));
  }
  std::fprintf(stderr, "the ledger is in %s; `tutti measure report %s` shows it\n",
               flags.ledger.c_str(), flags.ledger.c_str());
  return {};
}

Result<measure::Windows> ReadLedger(const std::string& path, const LedgerViewFlags& flags) {
  audit::HistoryOptions options;
  options.count_loose = flags.count_work_queues;
  TRY_ASSIGN(options.tolerance, Span("--tolerance", flags.tolerance, Duration::zero()));
  TRY_ASSIGN(audit::Prices prices, ReadPrices(flags.prices));
  TRY_ASSIGN(measure::Recorded recorded, measure::Ledger::Read(path));
  if (recorded.watched.empty()) {
    return Fail(ErrorCode::kInvalid, path + ": nothing has been recorded in it yet");
  }
  return measure::Windows(std::move(recorded), std::move(prices), options);
}

// The window of a ledger; empty texts are its begin and its end.
Result<std::pair<Time, Time>> Bounds(const measure::Windows& windows, const std::string& where,
                                     const std::string& from, const std::string& to) {
  Time begin = windows.Begin();
  Time end = windows.End();
  if (!from.empty()) {
    TRY_ASSIGN(begin, Moment(where + " from", from));
  }
  if (!to.empty()) {
    TRY_ASSIGN(end, Moment(where + " to", to));
  }
  if (begin >= end && !(from.empty() && to.empty())) {
    return Fail(ErrorCode::kInvalid, where + ": the window from " + FormatTime(begin) + " to " +
                                         FormatTime(end) + " is empty");
  }
  return std::pair(begin, end);
}

void Print(const LedgerViewFlags& flags, const auto& what) {
  const std::string text = flags.output == "json"
                               ? measure::ToJson(what).Dump() + "\n"
                               : measure::ToText(what, TerminalWidth(flags.width));
  std::fputs(text.c_str(), stdout);
}

Status Report(const MeasureReportFlags& flags) {
  Duration every{};
  if (!flags.every.empty()) {
    TRY_ASSIGN(every, Span("--every", flags.every, std::chrono::minutes(1)));
  }
  TRY_ASSIGN(const measure::Windows windows, ReadLedger(flags.ledger, flags.view));
  TRY_ASSIGN(const auto bounds, Bounds(windows, flags.ledger, flags.from, flags.to));
  constexpr int64_t kMostParts = 10'000;
  if (every > Duration::zero() && (bounds.second - bounds.first) / every > kMostParts) {
    return Fail(ErrorCode::kInvalid, "--every " + flags.every + ": makes more than " +
                                         std::to_string(kMostParts) +
                                         " rows; give a longer time, or --from and --to");
  }
  Print(flags.view, measure::MakeReport(flags.ledger, windows, bounds.first, bounds.second, every));
  return {};
}

struct Side {
  std::string path;
  std::string from;
  std::string to;
};

// FILE or FILE@FROM..TO
Side ParseSide(const std::string& text) {
  const size_t at = text.rfind('@');
  const size_t dots = at == std::string::npos ? at : text.find("..", at);
  if (dots == std::string::npos) {
    return {text, "", ""};
  }
  return {text.substr(0, at), text.substr(at + 1, dots - at - 1), text.substr(dots + 2)};
}

Status Compare(const CompareFlags& flags) {
  const Side a = ParseSide(flags.a);
  const Side b = ParseSide(flags.b);
  TRY_ASSIGN(const measure::Windows windows_a, ReadLedger(a.path, flags.view));
  TRY_ASSIGN(const measure::Windows windows_b, ReadLedger(b.path, flags.view));
  TRY_ASSIGN(const auto of_a, Bounds(windows_a, "A, " + a.path, a.from, a.to));
  TRY_ASSIGN(const auto of_b, Bounds(windows_b, "B, " + b.path, b.from, b.to));
  Print(flags.view, measure::Compare(windows_a, windows_a.Cut(of_a.first, of_a.second), a.path,
                                     windows_b, windows_b.Cut(of_b.first, of_b.second), b.path));
  return {};
}

int Finish(const char* name, const Status& status) {
  if (!status) {
    std::fprintf(stderr, "tutti %s: %s\n", name, status.error().message.c_str());
    return kExitBadInput;
  }
  return 0;
}

}  // namespace

int RunMeasure(const MeasureFlags& flags) {
  return Finish("measure", Measure(flags));
}

int RunMeasureReport(const MeasureReportFlags& flags) {
  return Finish("measure report", Report(flags));
}

int RunCompare(const CompareFlags& flags) {
  return Finish("compare", Compare(flags));
}

}  // namespace tutti
