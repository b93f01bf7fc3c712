// SPDX-License-Identifier: Apache-2.0
// How a simulation is shown.
#include <algorithm>
#include <cmath>

#include "api/quantity.h"
#include "sim/timeline.h"

namespace tutti::sim {
namespace {

// Whole seconds: "1h30m", "45s".
std::string Span(Duration span) {
  std::string text = FormatDuration(std::chrono::round<std::chrono::seconds>(span));
  if (text.ends_with("m0s")) {
    text.resize(text.size() - 2);
  }
  if (text.ends_with("h0m")) {
    text.resize(text.size() - 2);
  }
  return text;
}

std::string Amount(const std::string& resource, int64_t amount) {
  return api::FromAmount(resource, amount).ToString();
}

// Columns as wide as their widest cell, two blanks between; the last one is not padded.
std::string Table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const std::vector<std::string>& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string out;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) {
        line.append(widths[i] - row[i].size() + 2, ' ');
      }
    }
    while (line.ends_with(' ')) {
      line.pop_back();
    }
    out += line + '\n';
  }
  return out;
}

struct Totals {
  size_t ended = 0;
  size_t running = 0;
  size_t waiting = 0;
  int64_t preemptions = 0;
  std::vector<Duration> waits;  // sorted
};

Totals Sum(const Report& report) {
  Totals out;
  for (const JobResult& job : report.jobs) {
    if (job.ended) {
      ++out.ended;
    } else if (job.started && job.message.empty()) {
      ++out.running;
    } else {
      ++out.waiting;
    }
    out.preemptions += job.preempted;
    out.waits.push_back(job.waited);
  }
  std::sort(out.waits.begin(), out.waits.end());
  return out;
}

// Nearest rank; 0 of nothing.
Duration Rank(const std::vector<Duration>& sorted, int percent) {
  if (sorted.empty()) {
    return Duration::zero();
  }
  const size_t rank = (sorted.size() * static_cast<size_t>(percent) + 99) / 100;
  return sorted[std::max<size_t>(rank, 1) - 1];
}

}  // namespace

std::string ToText(const Report& report) {
  std::vector<std::vector<std::string>> rows = {{"TIME", "JOB", "", ""}};
  for (const Event& event : report.events) {
    if (event.kind != EventKind::kArrives) {
      rows.push_back(
          {Span(event.at), event.workload, std::string(ToString(event.kind)), event.text});
    }
  }
  std::string out = Table(rows) + '\n';

  const Totals totals = Sum(report);
  out += cli::Count(report.jobs.size(), "job") + " in " + Span(report.end) + ": " +
         std::to_string(totals.ended) + " ended, " + std::to_string(totals.running) + " running, " +
         std::to_string(totals.waiting) + " waiting; " +
         cli::Count(static_cast<size_t>(totals.preemptions), "preemption") + '\n';
  out += "wait: median " + Span(Rank(totals.waits, 50)) + ", p90 " + Span(Rank(totals.waits, 90)) +
         ", longest " + Span(Rank(totals.waits, 100)) + "\n\n";

  rows = {{"CLUSTER QUEUE", "FLAVOR", "RESOURCE", "QUOTA", "MEAN", "PEAK"}};
  for (const UsageResult& usage : report.usage) {
    rows.push_back(
        {usage.cluster_queue, usage.flavor, usage.resource, Amount(usage.resource, usage.nominal),
         Amount(usage.resource, std::llround(usage.mean)), Amount(usage.resource, usage.peak)});
  }
  out += Table(rows);

  bool head = false;
  for (const JobResult& job : report.jobs) {
    if (!job.message.empty()) {
      out += head ? "" : "\nStill waiting:\n";
      head = true;
      out += "  " + job.workload + ": " + job.message + '\n';
    }
  }
  for (const std::string& note : report.notes) {
    out += "note: " + note + '\n';
  }
  return out;
}

Json ToJson(const Report& report) {
  const auto seconds = [](Duration span) { return static_cast<double>(span.count()) / 1e6; };
  Json events = Json::Arr();
  for (const Event& event : report.events) {
    events.Push(Json::Obj({{"at", seconds(event.at)},
                           {"event", ToString(event.kind)},
                           {"workload", event.workload},
                           {"text", event.text}}));
  }
  Json jobs = Json::Arr();
  for (const JobResult& job : report.jobs) {
    Json out = Json::Obj({{"workload", job.workload},
                          {"clusterQueue", job.cluster_queue},
                          {"pods", static_cast<int64_t>(job.pods)},
                          {"arrives", seconds(job.arrives)},
                          {"waited", seconds(job.waited)},
                          {"preempted", static_cast<int64_t>(job.preempted)}});
    if (job.started) {
      out.Set("started", seconds(*job.started));
    }
    if (job.ended) {
      out.Set("ended", seconds(*job.ended));
    }
    if (!job.message.empty()) {
      out.Set("reason", job.reason);
      out.Set("message", job.message);
    }
    jobs.Push(std::move(out));
  }
  Json usage = Json::Arr();
  for (const UsageResult& row : report.usage) {
    usage.Push(Json::Obj({{"clusterQueue", row.cluster_queue},
                          {"flavor", row.flavor},
                          {"resource", row.resource},
                          {"nominalQuota", Amount(row.resource, row.nominal)},
                          {"mean", Amount(row.resource, std::llround(row.mean))},
                          {"peak", Amount(row.resource, row.peak)}}));
  }
  Json notes = Json::Arr();
  for (const std::string& note : report.notes) {
    notes.Push(note);
  }
  return Json::Obj({{"seconds", seconds(report.end)},
                    {"events", std::move(events)},
                    {"jobs", std::move(jobs)},
                    {"usage", std::move(usage)},
                    {"notes", std::move(notes)}});
}

}  // namespace tutti::sim
