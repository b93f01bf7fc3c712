// SPDX-License-Identifier: Apache-2.0
// What an audit looks at: gangs (jobs of several pods), their pods' times on nodes, and what was
// found. Plain values.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/core.h"
#include "audit/prices.h"
#include "base/time.h"

namespace tutti::audit {

// How sure it is that the pods of a job need each other.
enum class GangKind : uint8_t {
  kDeclared,  // the job says so: a pod group, a JobSet, a MPI-like job, a quorum
  kAssumed,   // a Job with as many pods at a time as completions
  kLoose,     // a work queue: its pods may well work alone
};

// One pod on its node.
struct PodTimes {
  std::string name;
  std::string uid;
  uint32_t node = 0;  // index into Facts::nodes; 0: none
  Time created = kNoTime;
  Time bound = kNoTime;       // kNoTime: not yet
  std::optional<Time> ended;  // containers ended, or its deletion began
  bool succeeded = false;
  bool guessed = false;   // `bound` is not from its condition PodScheduled
  std::string taken_for;  // why it lost its place (condition DisruptionTarget); "" = it didn't
  std::shared_ptr<const api::PodShape> shape;
  // What it takes of accelerators (Facts::DevicesOf); of a claim that the gang's pods share the
  // first has all.
  api::Amounts devices;
};

// On a node, of no job of several pods.
struct OtherPod {
  std::string ns;
  PodTimes times;
};

// Pods of one template.
struct PartOfGang {
  std::string name;
  int32_t count = 0;
  std::shared_ptr<const std::string> pod_template;  // compact JSON; null: look at the pods
};

struct Gang {
  std::string kind;  // "Job", "JobSet", "pod group", …
  std::string ns;
  std::string name;
  std::string uid;  // of its object; "" = it has none
  GangKind sure = GangKind::kAssumed;
  int32_t size = 0;  // pods that must run together; 0: not known
  std::string queue;
  Time created = kNoTime;
  std::optional<Time> ended;  // complete, failed, or suspended again
  bool finished = false;      // for good
  bool suspended = false;
  bool known = false;  // its object was in the input
  // As its own status says, to notice pods that the input lacks.
  int32_t active = 0;
  int32_t succeeded = 0;
  // It has a Workload that has no quota: why, in its words.
  std::string quota_message;
  bool waits_for_quota = false;
  // Its Workload was evicted last: when, and why.
  std::optional<Time> evicted;
  std::string evicted_for;
  std::vector<PartOfGang> parts;
  std::vector<PodTimes> pods;
  api::Amounts devices;  // of the whole gang (CollectOptions::for_ledger)
  std::string manifest;  // compact JSON as submitted; kept only for proposals
  std::string unjudged;  // why nothing can be said of its start; "" = judged

  [[nodiscard]] std::string Title() const { return kind + " " + ns + "/" + name; }
};

// A time during which some pods of a gang had a node and others that it needs had none.
struct Spell {
  Time begin;
  Time end;
  bool start = true;     // before it first was whole; else it had lost a member
  bool ongoing = false;  // at the time of the audit
  int32_t held = 0;      // pods on nodes at its end
  int32_t missing = 0;   // at its end
  int64_t device_seconds = 0;
  Money cost;
};

struct GangHistory {
  size_t gang = 0;  // index into Facts::gangs
  std::vector<Spell> spells;
  std::optional<Time> first_bound;
  std::optional<Time> whole;   // when it first was
  int64_t devices = 0;         // of the whole gang
  int64_t device_seconds = 0;  // held, spells included
  Money cost;                  // of these
  bool partial_start = false;  // a spell at the start, longer than the tolerance
  [[nodiscard]] Duration PartialAtStart() const;
  [[nodiscard]] int64_t IdleDeviceSeconds(bool start) const;
  [[nodiscard]] Money IdleCost(bool start) const;
};

// A change of the number of devices that gangs hold, whole and in part.
struct DevicesAt {
  Time at;
  int64_t whole = 0;  // differences
  int64_t partial = 0;
};

struct NodeFacts {
  std::string name;
  api::StringMap labels;
  api::Amounts allocatable;
  bool unschedulable = false;
  bool ready = true;
  bool known = false;  // in the input; else a pod names it
  api::Amounts used;   // by pods that hold something
};

struct WaitingGang {
  size_t gang = 0;
  Time since = kNoTime;
  int32_t bound = 0;    // pods that have a node already
  int32_t missing = 0;  // those that still need one
  std::string verdict;  // "fits now", "no room now", "fits never", "left to the scheduler"
  std::string why;      // the engine's words
};

struct QuotaFinding {
  std::string queue;  // "": all queues of the flavor together
  std::string flavor;
  std::string resource;
  int64_t quota = 0;
  int64_t capacity = 0;  // of the nodes that match the flavor
  int32_t nodes = 0;
};

// Free devices on a node that no pod of any job in the input could take.
struct Fragment {
  std::string node;
  std::string resource;
  int64_t stranded = 0;
  int64_t free = 0;
  std::string why;
};

struct ClaimHint {
  std::string resource;
  api::StringMap wanted;  // labels by which jobs choose the kind of device now
  size_t gangs = 0;
  std::string example;   // title of one
  std::string selector;  // what a claim could say instead, CEL
  std::string device_class;
};

struct ResourceTotals {
  int64_t allocatable = 0;
  int64_t used = 0;
  int64_t stranded = 0;
};

}  // namespace tutti::audit
