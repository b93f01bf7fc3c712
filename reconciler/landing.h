// SPDX-License-Identifier: Apache-2.0
// Has a released gang landed? Judged by its pods alone: the PodGroup's condition proves nothing (it
// is set before anything is bound, and even where the gang plugin is off). A pure function.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/core.h"
#include "base/json.h"
#include "base/time.h"

namespace tutti::reconciler {

struct LandingInput {
  std::vector<const api::Pod*> pods;  // of the job, all that exist
  int32_t needed = 0;                 // live pods that must be bound at the same time
  std::string group;                  // group that the pods must carry; "" = none
  Time released_at = kNoTime;
  std::optional<Time> first_bound_at;  // when a bound pod was seen first
  Duration timeout{};
  Duration partial_timeout{};
  std::string create_error;  // what the Job controller said last of a pod it could not make
};

struct LandingResult {
  enum class Kind { kLanded, kWaiting, kTakeBack };
  Kind kind = Kind::kWaiting;
  int32_t bound = 0;             // live pods with a node
  int32_t live = 0;              // neither terminal nor being deleted
  int32_t unbound = 0;           // live pods without a node
  Time look_again_at = kNoTime;  // for kWaiting
  std::string message;           // for kTakeBack: what differed from the plan
};

[[nodiscard]] LandingResult JudgeLanding(const LandingInput& input, Time now);

// The message of the newest event in an EventList, shortened to fit a condition; "" when there is
// none.
[[nodiscard]] std::string NewestMessage(const Json& events);

}  // namespace tutti::reconciler
