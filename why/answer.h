// SPDX-License-Identifier: Apache-2.0
// `tutti why`: what becomes of a job or a queue, in plain words and as JSON. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/meta.h"
#include "base/json.h"
#include "base/result.h"
#include "base/time.h"
#include "why/remedies.h"
#include "why/state.h"

namespace tutti::why {

// What is asked about.
struct Target {
  enum class Kind { kJob, kWorkload, kPod, kQueue };
  Kind kind = Kind::kJob;
  std::string object;  // the API kind: Job, JobSet, StatefulSet, Workload, Pod, LocalQueue, …
  api::ObjectKey key;
};
// "job/train", "workload/x", "pod/x", "queue/main", "clusterqueue/team-a". kInvalid says which
// forms there are.
[[nodiscard]] Result<Target> ParseTarget(std::string_view text, const std::string& ns);

struct QuotaLine {
  std::string flavor;
  std::string resource;
  int64_t nominal = 0;
  int64_t reserved = 0;
  int64_t borrowed = 0;
  // All of the cohort's, this queue's included; nothing: no cohort.
  std::optional<int64_t> cohort_nominal;
  std::optional<int64_t> cohort_reserved;
  int64_t asked = 0;  // by the job
};

struct Holder {
  std::string title;
  std::string cluster_queue;
  api::Amounts amounts;  // of the flavors of the queue that is asked about
  Time since = kNoTime;
};

struct JobAnswer {
  enum class State {
    kNotQueued,  // no queue is to decide on it
    kHeldBack,   // it stands in no queue for now
    kWaits,
    kWaitsForOthersToStop,
    kStartsNext,  // nothing is in its way
    kHasQuota,    // it runs, or is about to
    kFinished,
  };
  std::string title;
  State state = State::kNotQueued;
  std::string summary;  // one sentence
  std::string workload;
  std::string local_queue;
  std::string cluster_queue;
  std::string cohort;
  int64_t priority = 0;
  std::vector<PodsAsked> pods;
  Time since = kNoTime;  // it waits, has quota or is finished
  size_t position = 0;   // in the ClusterQueue's order, from 1; 0 = in none
  size_t waiting = 0;    // of so many
  std::string reason;
  std::string message;
  std::vector<QuotaLine> quota;
  std::vector<Holder> holders;       // the largest first
  std::vector<std::string> unseen;   // quota in use by workloads that were not listed
  std::optional<Remedies> remedies;  // kWaits, and nothing is unseen
};

struct QueueAnswer {
  std::string title;
  std::string cluster_queue;
  std::string cohort;
  bool active = false;
  std::string summary;
  size_t waiting = 0;
  size_t holding = 0;  // workloads with quota
  std::vector<QuotaLine> quota;
  std::vector<Holder> holders;
  std::string head;  // who is next; "" = nobody waits
  std::string head_reason;
  std::string head_message;
};

struct Answer {
  Time now = kNoTime;
  std::string source;
  std::variant<JobAnswer, QueueAnswer> what;
  std::vector<std::string> notes;
};

// kNotFound: there is no such object.
[[nodiscard]] Result<Answer> Explain(const State& state, const Target& target, Time now,
                                     const SearchLimits& limits);
// Names that a target of this kind could have had, in its namespace.
[[nodiscard]] std::vector<std::string> Candidates(const State& state, const Target& target);

[[nodiscard]] std::string_view ToString(JobAnswer::State state);
[[nodiscard]] std::string ToText(const Answer& answer, size_t width);
[[nodiscard]] Json ToJson(const Answer& answer);

}  // namespace tutti::why
