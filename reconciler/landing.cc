// SPDX-License-Identifier: Apache-2.0
#include "reconciler/landing.h"

#include <algorithm>

namespace tutti::reconciler {
namespace {

std::string Seconds(Duration duration) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(duration).count()) + "s";
}

}  // namespace

LandingResult JudgeLanding(const LandingInput& input, Time now) {
  LandingResult result;
  const api::Pod* outsider = nullptr;
  const api::Pod* refused = nullptr;
  for (const api::Pod* pod : input.pods) {
    if (pod->Terminal() || pod->meta.deleted.has_value()) {
      continue;
    }
    ++result.live;
    if (!input.group.empty() && pod->scheduling_group != input.group &&
        (outsider == nullptr || pod->meta.name < outsider->meta.name)) {
      outsider = pod;
    }
    if (!pod->node_name.empty()) {
      ++result.bound;
      continue;
    }
    ++result.unbound;
    // The most telling message: a pod that itself does not fit, not one that waits for its gang.
    if (!pod->unschedulable_message.empty() &&
        (refused == nullptr ||
         refused->unschedulable_message.find("waiting for minCount") != std::string::npos)) {
      refused = pod;
    }
  }
  if (outsider != nullptr && outsider->node_name.empty()) {
    result.kind = LandingResult::Kind::kTakeBack;
    result.message = "pod " + outsider->meta.name + " is not in group " + input.group +
                     ": is the admission policy that joins pods to their group installed?";
    return result;
  }
  if (result.bound >= input.needed) {
    result.kind = LandingResult::Kind::kLanded;
    return result;
  }
  const Time deadline = input.released_at + input.timeout;
  const std::optional<Time> partial_deadline =
      result.bound > 0 && input.first_bound_at.has_value()
          ? std::optional<Time>(*input.first_bound_at + input.partial_timeout)
          : std::nullopt;
  const bool late = now >= deadline;
  const bool torn = partial_deadline.has_value() && now >= *partial_deadline;
  if (!late && !torn) {
    result.look_again_at = partial_deadline ? std::min(deadline, *partial_deadline) : deadline;
    return result;
  }
  result.kind = LandingResult::Kind::kTakeBack;
  result.message = std::to_string(result.bound) + " of " + std::to_string(input.needed) +
                   " pods were placed " +
                   (torn && !late ? Seconds(input.partial_timeout) + " after the first"
                                  : "within " + Seconds(input.timeout));
  if (result.live < input.needed) {
    result.message +=
        "; only " + std::to_string(result.live) + " pods exist: " +
        (input.create_error.empty()
             ? "see the job's FailedCreate events (a ResourceQuota, a policy or a webhook refuses "
               "the others)"
             : input.create_error);
  } else if (refused != nullptr) {
    result.message += "; pod " + refused->meta.name + ": " + refused->unschedulable_message;
  }
  return result;
}

std::string NewestMessage(const Json& events) {
  constexpr size_t kMaxMessage = 500;
  const auto seen_at = [](const Json& event) {
    // RFC 3339 in UTC: text order is time order to the second, which is all that events have.
    for (const Json* time : {&event["series"]["lastObservedTime"], &event["lastTimestamp"],
                             &event["eventTime"], &event["metadata"]["creationTimestamp"]}) {
      if (!time->AsString().empty()) {
        return time->AsString().substr(0, 19);
      }
    }
    return std::string();
  };
  const Json* newest = nullptr;
  for (const Json& event : events["items"].AsArray()) {
    if (newest == nullptr || seen_at(event) >= seen_at(*newest)) {
      newest = &event;
    }
  }
  std::string message = newest != nullptr ? (*newest)["message"].AsString() : "";
  if (message.size() > kMaxMessage) {
    size_t end = kMaxMessage;
    while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xC0U) == 0x80U) {
      --end;  // not inside a character
    }
    message.resize(end);
    message += "…";
  }
  return message;
}

}  // namespace tutti::reconciler
