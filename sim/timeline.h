// SPDX-License-Identifier: Apache-2.0
// `tutti simulate`: a whole run from a set of objects, and one step at a time for a program that
// brings its own events.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/time.h"
#include "cli/objects.h"
#include "engine/engine.h"

namespace tutti::sim {

struct Options {
  std::optional<Duration> until;  // none: until nothing more happens
  bool fair_sharing = false;      // with both preemption strategies
};

enum class EventKind { kArrives, kWaits, kStarts, kPreempted, kEnds };
[[nodiscard]] std::string_view ToString(EventKind kind);  // "arrives", …

struct Event {
  Duration at{};
  EventKind kind = EventKind::kArrives;
  std::string workload;
  std::string text;  // waits: why; starts: where; preempted: for whom
};

struct JobResult {
  std::string workload;  // "ns/name"
  std::string title;     // "Job ns/name"
  std::string cluster_queue;
  int32_t pods = 0;
  Duration arrives{};
  std::optional<Duration> started;  // the last time
  std::optional<Duration> ended;
  Duration waited{};  // in all, until its last start or the end of the simulation
  int32_t preempted = 0;
  // While it waits: why.
  std::string reason;
  std::string message;
};

// One flavor and resource of a ClusterQueue: what it held, averaged over the simulation and at
// most.
struct UsageResult {
  std::string cluster_queue;
  std::string flavor;
  std::string resource;
  int64_t nominal = 0;
  double mean = 0;
  int64_t peak = 0;
};

struct Report {
  Duration end{};
  std::vector<Event> events;    // in order of time
  std::vector<JobResult> jobs;  // in order of arrival
  std::vector<UsageResult> usage;
  std::vector<std::string> notes;
};

// ResourceFlavors, Cohorts, ClusterQueues, LocalQueues, priority classes, and what `tutti fit`
// reads of a cluster stand from the start; every Job and Workload arrives when its annotation
// tutti.dev/simulate-arrival says, else at its creationTimestamp counted from the first of them,
// and runs as long as tutti.dev/simulate-runtime says, else, for a Job that has ended, as long as
// it did. kInvalid names the document, the object and the field; so does an input without any job.
Result<Report> Simulate(const std::vector<cli::Document>& documents, const Options& options);

// One line of a batch: {"id", "fairSharing": false, "items": [objects], "steps": [{"apply":
// [objects], "delete":
// [{"kind", "namespace", "name"}], "end": ["ns/name"]}]}. Jobs and Workloads in `apply` arrive with
// their step, a second apart. The answer: {"id", "steps": [{"admitted": [{"workload",
// "clusterQueue", "podSets": [{"name", "count", "flavors"}]}], "preempted": [{"victim",
// "preemptor", "reason"}], "pending": [{"workload", "reason", "message"}]}]}, pending being all
// that wait after the step; or
// {"id", "error"}. Total.
[[nodiscard]] Json SimulateLine(std::string_view line);

// sim/report.cc. The text fits a terminal of 80 columns as far as names allow.
[[nodiscard]] std::string ToText(const Report& report);
[[nodiscard]] Json ToJson(const Report& report);

}  // namespace tutti::sim
