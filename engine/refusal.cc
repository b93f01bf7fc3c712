// SPDX-License-Identifier: Apache-2.0
// All texts about pending workloads that depend on quota, flavors or nodes are made here.
#include "engine/refusal.h"

#include <algorithm>

#include "engine/hasher.h"

namespace tutti::engine {

std::string_view ToString(PendingReason reason) {
  switch (reason) {
    case PendingReason::kMisconfigured:
    case PendingReason::kNotAccepted:
      return "Misconfigured";
    case PendingReason::kSuspended:
      return "Suspended";
    case PendingReason::kNoMatchingFlavor:
      return "NoMatchingFlavor";
    case PendingReason::kExceedsMaxQuota:
      return "ExceedsMaxQuota";
    case PendingReason::kWaitingForQuota:
      return "WaitingForQuota";
    case PendingReason::kNeverFitsCluster:
      return "NeverFitsCluster";
    case PendingReason::kWaitingForCapacity:
      return "WaitingForCapacity";
    case PendingReason::kWaitingForPreemptedWorkloads:
      return "WaitingForPreemptedWorkloads";
    case PendingReason::kPreemptionGated:
      return "PreemptionGated";
    case PendingReason::kBehindHead:
      return "BehindHead";
    case PendingReason::kPendingEvaluation:
      return "PendingEvaluation";
  }
  return "PendingEvaluation";
}

std::string_view ToString(PreemptReason reason) {
  switch (reason) {
    case PreemptReason::kInClusterQueue:
      return "InClusterQueue";
    case PreemptReason::kInCohortReclamation:
      return "InCohortReclamation";
    case PreemptReason::kInCohortFairSharing:
      return "InCohortFairSharing";
    case PreemptReason::kInCohortReclaimWhileBorrowing:
      return "InCohortReclaimWhileBorrowing";
  }
  return "";
}

int Severity(PendingReason reason) {
  switch (reason) {
    case PendingReason::kMisconfigured:
    case PendingReason::kNotAccepted:
      return 7;
    case PendingReason::kSuspended:
      return 6;
    case PendingReason::kNoMatchingFlavor:
      return 5;
    case PendingReason::kExceedsMaxQuota:
      return 4;
    case PendingReason::kNeverFitsCluster:
      return 3;
    case PendingReason::kWaitingForQuota:
      return 2;
    case PendingReason::kWaitingForCapacity:
      return 1;
    case PendingReason::kWaitingForPreemptedWorkloads:
    case PendingReason::kPreemptionGated:
    case PendingReason::kBehindHead:
    case PendingReason::kPendingEvaluation:
      return 0;
  }
  return 0;
}

PendingReason ReasonOf(FactKind kind) {
  switch (kind) {
    case FactKind::kNotCovered:
    case FactKind::kNoFlavor:
    case FactKind::kTaint:
    case FactKind::kAffinity:
    case FactKind::kHeldElsewhere:
      return PendingReason::kNoMatchingFlavor;
    case FactKind::kExceedsMax:
      return PendingReason::kExceedsMaxQuota;
    case FactKind::kInsufficient:
      return PendingReason::kWaitingForQuota;
    case FactKind::kNeverFits:
      return PendingReason::kNeverFitsCluster;
    case FactKind::kNoPlace:
    case FactKind::kInFlight:
      return PendingReason::kWaitingForCapacity;
  }
  return PendingReason::kPendingEvaluation;
}

uint64_t Refusal::Fingerprint() const {
  Hasher hash;
  hash.Mix(static_cast<uint64_t>(reason));
  hash.Mix(uint64_t{held_back});
  hash.Mix(plain);
  for (const Fact& fact : facts) {
    hash.Mix(static_cast<uint64_t>(fact.kind));
    hash.Mix(uint64_t{fact.pod_set});
    hash.Mix(uint64_t{fact.flavor.value});
    hash.Mix(uint64_t{fact.resource.value});
    if (fact.kind == FactKind::kTaint) {
      hash.Mix(fact.text);
    }
    if (fact.kind == FactKind::kExceedsMax) {
      hash.Mix(static_cast<uint64_t>(fact.c));
    }
  }
  return hash.value();
}

uint64_t Refusal::Details() const {
  Hasher hash;
  hash.Mix(Fingerprint());
  for (const Fact& fact : facts) {
    hash.Mix(uint64_t{fact.other.value});
    hash.Mix(fact.a);
    hash.Mix(fact.b);
    hash.Mix(fact.c);
    hash.Mix(fact.text);
  }
  return hash.value();
}

namespace {

bool LacksText(const Fact& fact) {
  return (fact.kind == FactKind::kNeverFits || fact.kind == FactKind::kNoPlace) &&
         fact.text.empty();
}

}  // namespace

bool Refusal::HasTexts() const {
  return std::none_of(facts.begin(), facts.end(), LacksText);
}

void Refusal::TakeTexts(const Refusal& other) {
  for (Fact& fact : facts) {
    if (!LacksText(fact)) {
      continue;
    }
    const auto same = std::find_if(other.facts.begin(), other.facts.end(), [&](const Fact& known) {
      return known.kind == fact.kind && known.pod_set == fact.pod_set &&
             known.flavor == fact.flavor;
    });
    if (same != other.facts.end()) {
      fact.text = same->text;
    }
  }
}

namespace {

std::string FactText(const Fact& fact, const Tables& tables) {
  const std::string flavor = fact.flavor.Valid() ? tables.flavors.Name(fact.flavor) : "";
  const std::string resource = fact.resource.Valid() ? tables.resources.Name(fact.resource) : "";
  const std::string detail = fact.text.empty() ? "" : ": " + fact.text;
  auto amount = [&](Amount value) { return api::FormatAmount(resource, Saturate(value)); };
  switch (fact.kind) {
    case FactKind::kNotCovered:
      return "resource " + resource + " unavailable in ClusterQueue";
    case FactKind::kNoFlavor:
      return "flavor " + flavor + " not found";
    case FactKind::kTaint:
      return "untolerated taint " + fact.text + " in flavor " + flavor;
    case FactKind::kAffinity:
      return "flavor " + flavor + " doesn't match node affinity";
    case FactKind::kHeldElsewhere:
      return "flavor " + flavor + " isn't the one of the slice that it replaces, " +
             tables.flavors.Name(fact.other);
    case FactKind::kExceedsMax:
      return "insufficient quota for " + resource + " in flavor " + flavor +
             ", previously considered podsets requests (" + amount(fact.a) +
             ") + current podset request (" + amount(fact.b) + ") > maximum capacity (" +
             amount(fact.c) + ")";
    case FactKind::kInsufficient:
      return "insufficient unused quota for " + resource + " in flavor " + flavor + ", " +
             amount(fact.a) + " more needed";
    case FactKind::kNeverFits:
      return "flavor " + flavor + " has no nodes that could ever hold the whole gang" + detail;
    case FactKind::kNoPlace:
      return "no place for the whole gang in flavor " + flavor + " now" + detail;
    case FactKind::kInFlight:
      return "a place for the whole gang in flavor " + flavor + " is free, but " + fact.text;
  }
  return "";
}

}  // namespace

std::string Text(const Refusal& refusal, const std::vector<std::string>& pod_sets,
                 const Tables& tables) {
  if (!refusal.plain.empty()) {
    return refusal.plain;
  }
  if (refusal.held_back) {
    return "its quota or place is kept for another workload that was there first; tried again when "
           "quota or that workload changes";
  }
  std::string text;
  for (size_t pod_set = 0; pod_set < pod_sets.size(); ++pod_set) {
    std::vector<std::string> parts;
    for (const Fact& fact : refusal.facts) {
      if (fact.pod_set == pod_set) {
        parts.push_back(FactText(fact, tables));
      }
    }
    if (parts.empty()) {
      continue;
    }
    std::sort(parts.begin(), parts.end());
    parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
    text += text.empty() ? "" : "; ";
    text += "couldn't assign flavors to pod set " + pod_sets[pod_set] + ": ";
    for (size_t index = 0; index < parts.size(); ++index) {
      text += (index == 0 ? "" : ", ") + parts[index];
    }
  }
  return text;
}

}  // namespace tutti::engine
