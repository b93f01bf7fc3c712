// SPDX-License-Identifier: Apache-2.0
// Options::mode kObserve: another controller decides, and is followed. The engine holds what that
// controller has written, change by change, and decides after each of them what it would do next;
// what the other one does then is compared with that. Nothing is written. Part of Core.
//
// A guess is what the last pass admitted: held by the engine until something changes, then taken
// back and made anew. One that comes true is kept as a reservation like any other.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "api/kueue.h"
#include "base/time.h"
#include "engine/engine.h"
#include "reconciler/output.h"

namespace tutti::reconciler {

class Core;
struct Unit;

class Observer {
 public:
  explicit Observer(Core& core) : core_(core) {}

  // A Workload as the watch shows it, in order; nullptr: it was not there, or is gone.
  void Saw(const api::ObjectKey& key, std::shared_ptr<const api::Workload> before,
           std::shared_ptr<const api::Workload> after);
  // Everything since the last step, one change after the other.
  void Step();
  // When there is something to do without further input; kNoTime = never.
  [[nodiscard]] Time NextLook() const;

 private:
  struct Change {
    api::ObjectKey key;
    std::shared_ptr<const api::Workload> before;
    std::shared_ptr<const api::Workload> after;
  };
  struct Guess {
    engine::AdmitDecision decision;
    Time first = kNoTime;  // since when it stands without a break
    Time last = kNoTime;   // when it was made last
    bool stands = false;
    bool told = false;  // as not started
  };
  struct Victim {
    engine::PreemptDecision decision;
    Time last = kNoTime;
    bool stands = false;
  };

  // The state of one Workload into the engine.
  void Follow(Unit& unit, const std::shared_ptr<const api::Workload>& workload);
  void FollowPending(Unit& unit, const api::Workload& workload);
  void Judge(const Change& change);
  void JudgeReservation(const Change& change);
  void JudgePreemption(const Change& change);
  void Pass();
  void TakeBackGuesses();
  // Guesses that nobody follows.
  void TellNotStarted();
  void Tell(ObservedDecision::Kind kind, const api::ObjectKey& key, bool agreed, std::string live,
            std::string ours);
  [[nodiscard]] std::string WhyNot(const api::ObjectKey& key) const;

  Core& core_;
  std::vector<Change> changes_;
  std::map<api::ObjectKey, Guess> guesses_;
  std::map<api::ObjectKey, Victim> victims_;
  // Reasons told last, by workload: the engine tells each once.
  std::map<api::ObjectKey, std::string> reasons_;
  bool first_ = true;
  // Something was followed that had not been guessed: what stands was guessed without it.
  bool stale_ = false;
};

}  // namespace tutti::reconciler
