// SPDX-License-Identifier: Apache-2.0
// What `tutti measure` has seen, in a SQLite file: jobs of several pods, their pods' times on
// nodes, other pods with accelerators, what the nodes had, evictions, and when somebody watched.
// Facts, not sums: prices and windows are chosen when it is read. One thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "audit/collect.h"
#include "base/result.h"
#include "base/time.h"

namespace tutti::measure {

// A time during which the cluster was watched, or of which there are dumps.
struct Span {
  Time begin;
  Time end;
  bool sampled = false;  // dumps: what came and went between two of them was not seen
};

// A node had so many accelerators that pods could use.
struct Supply {
  std::string resource;
  int64_t amount = 0;
  api::StringMap node_labels;
  Time begin;
  Time end;
};

struct Eviction {
  size_t gang = 0;  // index into Facts::gangs
  Time at;
  std::string reason;
};

// All that a ledger holds.
struct Recorded {
  std::string source;
  std::vector<Span> watched;  // in order of time, apart from each other
  size_t dumps = 0;
  audit::Facts facts;  // gangs, nodes, others; `now` is the end of what was watched
  std::vector<Supply> supply;
  std::vector<Eviction> evictions;
  size_t ends_unseen = 0;  // pods whose end fell into a time that nobody watched
};

class Ledger {
 public:
  // Creates the file where there is none. kInvalid: a file of something else, or of a newer
  // version; kForbidden, kUnavailable: it can't be used.
  static Result<std::unique_ptr<Ledger>> Open(const std::string& path);
  // For reading only: kInvalid when there is none.
  static Result<Recorded> Read(const std::string& path);
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // From now on what Record is given belongs to a new span. kInvalid: of another source than the
  // ledger, or earlier than its end; the message says which.
  Status Begin(const std::string& source, Time at, bool sampled);
  // What was seen up to facts.now: gangs and pods that are new or have changed, all nodes. `alive`:
  // the UIDs of all pods that there are; others that had no end have come to theirs unseen, and
  // so have jobs that `facts` lacks. Null: nothing is missing. Atomic.
  Status Record(const audit::Facts& facts, const std::set<std::string>* alive);
  // Nothing has changed up to `now`.
  Status Extend(Time now);
  // The end of what is in the ledger; kNoTime: nothing is.
  [[nodiscard]] Time End() const;

 private:
  struct Impl;
  explicit Ledger(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// What a pod is called in the ledger and in `alive`.
[[nodiscard]] std::string PodId(const std::string& ns, const audit::PodTimes& pod);

}  // namespace tutti::measure
