// SPDX-License-Identifier: Apache-2.0
// See removals.h.
#include "engine/removals.h"

#include <algorithm>

namespace tutti::engine {

bool MayPreempt(const VictimQuestion& question, api::PreemptionPolicy policy,
                const Holder& holder) {
  switch (policy) {
    case api::PreemptionPolicy::kNever:
      return false;
    case api::PreemptionPolicy::kLowerPriority:
      return holder.priority < question.priority;
    case api::PreemptionPolicy::kLowerOrNewerEqualPriority:
      return holder.priority < question.priority ||
             (holder.priority == question.priority && question.queue_time < holder.queue_time);
    case api::PreemptionPolicy::kAny:
      return true;
  }
  return false;
}

Removals::Removals(const VictimQuestion& question, bool borrow, bool counted)
    : question_(question), borrow_(borrow), counted_(counted) {
  Count(+1);
}

Removals::~Removals() {
  for (const Victim& victim : gone_) {
    PutBack(victim);
  }
  Count(-1);
}

void Removals::Count(int sign) {
  if (!counted_) {
    return;
  }
  for (const auto& [pair, amount] : question_.usage) {
    if (sign > 0) {
      question_.tree.AddUsage(question_.queue, pair, amount);
    } else {
      question_.tree.RemoveUsage(question_.queue, pair, amount);
    }
  }
}

void Removals::TakeOff(const Victim& victim) {
  for (const auto& [pair, amount] : *victim.usage) {
    question_.tree.RemoveUsage(victim.queue, pair, amount);
  }
}

void Removals::PutBack(const Victim& victim) {
  for (const auto& [pair, amount] : *victim.usage) {
    question_.tree.AddUsage(victim.queue, pair, amount);
  }
}

bool Removals::QuotaFits() {
  Count(-1);
  const QuotaTree& tree = question_.tree;
  const bool fits =
      std::all_of(question_.usage.begin(), question_.usage.end(), [&](const auto& entry) {
        const auto& [pair, amount] = entry;
        return (borrow_ || tree.Usage(question_.queue, pair) + amount <=
                               tree.SubtreeQuota(question_.queue, pair)) &&
               amount <= tree.Available(question_.queue, pair);
      });
  Count(+1);
  return fits;
}

bool Removals::Placed(const std::vector<Victim>& gone) const {
  if (!question_.placed) {
    return true;
  }
  std::vector<WorkloadId> ids;
  ids.reserve(gone.size());
  for (const Victim& victim : gone) {
    ids.push_back(victim.workload);
  }
  return question_.placed(ids);
}

bool Removals::Take(const Holder& holder, PreemptReason reason) {
  gone_.push_back({holder.workload, holder.queue, holder.usage, holder.evicting, reason});
  TakeOff(gone_.back());
  if (enough_ == 0 && QuotaFits()) {
    enough_ = gone_.size();
    placed_ = Placed(gone_);
  }
  return placed_;
}

bool Removals::Suffices() {
  if (placed_) {
    return true;
  }
  if (enough_ == 0 || gone_.size() == enough_ || !Placed(gone_)) {
    return false;
  }
  // All of them give a place, the first `enough_` don't: cut where there is just one.
  size_t not_placed = enough_;
  size_t placed = gone_.size();
  while (placed - not_placed > 1) {
    const size_t middle = not_placed + (placed - not_placed) / 2;
    const std::vector<Victim> some(gone_.begin(),
                                   gone_.begin() + static_cast<std::ptrdiff_t>(middle));
    (Placed(some) ? placed : not_placed) = middle;
  }
  while (gone_.size() > placed) {
    PutBack(gone_.back());
    gone_.pop_back();
  }
  return true;
}

std::vector<Victim> Removals::Minimal(const MayStay& may_stay) {
  for (size_t index = gone_.size() - 1; index-- > 0;) {
    const Victim victim = gone_[index];
    PutBack(victim);
    std::vector<Victim> others = gone_;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(index));
    if (QuotaFits() && Placed(others) && (!may_stay || may_stay(victim, others))) {
      gone_ = std::move(others);
    } else {
      TakeOff(victim);
    }
  }
  return gone_;
}

}  // namespace tutti::engine
