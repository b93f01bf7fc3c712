// SPDX-License-Identifier: Apache-2.0
// Why a workload is not admitted: facts noted by the very code that decided, turned into text only
// when somebody reads it. The fingerprint leaves moving numbers out, so that ten thousand waiting
// workloads are not told again each time that a number changes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config.h"
#include "engine/engine.h"
#include "engine/ids.h"

namespace tutti::engine {

enum class FactKind : uint8_t {
  kNotCovered,     // resource is in no resource group of the ClusterQueue
  kNoFlavor,       // flavor object missing
  kTaint,          // text = the taint
  kHeldElsewhere,  // the slice that it replaces has flavor `other`
  kAffinity,       // node selector or affinity excludes the flavor
  kExceedsMax,     // a = earlier pod sets, b = this pod set, c = maximum capacity
  kInsufficient,   // a = how much more is needed
  kNeverFits,      // text = what the capacity check said
  kNoPlace,        // text = what the capacity check said
  kInFlight,       // text = which gangs in flight it waits for
};

struct Fact {
  FactKind kind = FactKind::kNotCovered;
  size_t pod_set = 0;
  FlavorId flavor;
  FlavorId other;
  ResourceId resource;
  Amount a = 0;
  Amount b = 0;
  Amount c = 0;
  std::string text;
};

struct Refusal {
  PendingReason reason = PendingReason::kPendingEvaluation;
  // Would fit by itself, but an older or less borrowing workload of the cohort has the first claim.
  bool held_back = false;
  bool waits_for_nodes = false;  // may change with nodes and pods, whatever the facts say
  std::string plain;             // not empty: the whole text; the facts don't count
  std::vector<Fact> facts;
  [[nodiscard]] uint64_t Fingerprint() const;
  // Of all that Text() says, moving numbers included.
  [[nodiscard]] uint64_t Details() const;
  // False: facts about places say only that there is none (Reason::kNone).
  [[nodiscard]] bool HasTexts() const;
  void TakeTexts(const Refusal& other);  // for the same facts
};

// How far the reason is from admission; the larger the worse.
[[nodiscard]] int Severity(PendingReason reason);
[[nodiscard]] PendingReason ReasonOf(FactKind kind);

// "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 2
// more needed". `pod_sets` are the names.
[[nodiscard]] std::string Text(const Refusal& refusal, const std::vector<std::string>& pod_sets,
                               const Tables& tables);

}  // namespace tutti::engine
