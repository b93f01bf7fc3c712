// SPDX-License-Identifier: Apache-2.0
// The smallest changes after which a job that waits would start. Each is tried: applied to a copy
// of the state, on which the controller decides anew. Pure and deterministic; how many are tried is
// bounded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/meta.h"
#include "api/quantity.h"
#include "base/json.h"
#include "base/time.h"
#include "engine/engine.h"
#include "reconciler/core.h"
#include "why/state.h"

namespace tutti::why {

// What becomes of a job in a decided state.
struct Verdict {
  enum class Kind {
    kStarts,    // it has, or is given, quota and a place
    kPreempts,  // it will, when others have given way
    kWaits,
    kAbsent,  // it stands in no queue
  };
  Kind kind = Kind::kAbsent;
  std::vector<api::ObjectKey> victims;  // kPreempts
  engine::PendingReason reason = engine::PendingReason::kPendingEvaluation;
  std::string message;
};
[[nodiscard]] Verdict Judge(const reconciler::Core& core, const api::ObjectKey& workload);

// "Job team/train"; "Workload team/x" of one without a job that is known.
[[nodiscard]] std::string TitleOf(const reconciler::Core& core, const reconciler::Unit& unit);
// What a workload with quota holds by its admission, over all pod sets: resource to amount, of the
// given flavor or ("") of all.
[[nodiscard]] api::Amounts HeldBy(const reconciler::Core& core, const reconciler::Unit& unit,
                                  const std::string& flavor);
[[nodiscard]] std::string QueueOf(const reconciler::Core& core, const reconciler::Unit& unit);

struct PodsAsked {
  std::string name;
  int32_t count = 0;
  api::Amounts each;
};
// What a job asks for, as quota counts it, devices of claims left out.
[[nodiscard]] std::vector<PodsAsked> PodsOf(const State& state, const reconciler::Core& core,
                                            const reconciler::Unit& unit);
[[nodiscard]] api::Amounts TotalOf(const std::vector<PodsAsked>& pods);
// "8 nvidia.com/gpu, 32 cpu, 64Gi memory": devices first, at most so many.
[[nodiscard]] std::string AmountsText(const api::Amounts& amounts, size_t most = 100);

// In the order in which they are shown: what costs nobody anything comes first.
enum class RemedyKind {
  kResume,       // a queue that is stopped
  kUncordon,     // nodes that are cordoned
  kEnds,         // other jobs are over
  kAhead,        // jobs that are before it in its queue are not there
  kPlacement,    // the job asks less of its nodes
  kParallelism,  // the job runs fewer pods at a time
  kQuota,
  kNodes,
  kQuotaAndNodes,
  kPriority,
};
[[nodiscard]] std::string_view ToString(RemedyKind kind);  // "resume", …

struct MoreQuota {
  std::string cluster_queue;
  std::string flavor;
  std::string resource;
  int64_t amount = 0;
};

struct Remedy {
  RemedyKind kind = RemedyKind::kEnds;
  std::string text;         // what to do, or what has to happen
  std::vector<Edit> edits;  // the same as objects
  // How much of it, for what comes in amounts.
  std::vector<MoreQuota> quota;   // kQuota, kQuotaAndNodes
  int32_t nodes = 0;              // kNodes, kQuotaAndNodes, kUncordon
  int32_t parallelism = 0;        // kParallelism
  std::vector<std::string> jobs;  // kEnds, kAhead: who; kPriority: who has to give way
};

struct Remedies {
  std::vector<Remedy> found;            // by kind, then the smallest first
  std::vector<std::string> not_enough;  // what was tried in vain, with the reason
  size_t tried = 0;
  bool cut_short = false;  // not all of what might help was tried
};

struct SearchLimits {
  size_t trials = 400;
};

// REQUIRES: `base` is what `state` decides at `now`, and the workload waits in it.
[[nodiscard]] Remedies FindRemedies(const State& state, const reconciler::Core& base,
                                    const api::ObjectKey& workload, Time now,
                                    const SearchLimits& limits);

}  // namespace tutti::why
