// SPDX-License-Identifier: Apache-2.0
// What the searches for victims have in common: workloads are taken out of the tree one after the
// other until the asking one fits, then as many as possible are put back. At the end the tree is as
// before.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "engine/preemption.h"

namespace tutti::engine {

// Whether the policy lets the asking workload preempt this one.
[[nodiscard]] bool MayPreempt(const VictimQuestion& question, api::PreemptionPolicy policy,
                              const Holder& holder);

class Removals {
 public:
  // Both outlive this object. `counted`: the request is counted as used in the tree while victims
  // are looked for (fair sharing); it is not while this class asks whether it fits.
  Removals(const VictimQuestion& question, bool borrow, bool counted = false);
  ~Removals();
  Removals(const Removals&) = delete;
  Removals& operator=(const Removals&) = delete;

  // Takes it out; true when that was enough: the quota fits and the pods have a place.
  bool Take(const Holder& holder, PreemptReason reason);
  // After the last one: true when all together are enough for the place, too; cuts what came after
  // those that suffice.
  bool Suffices();
  // Puts back whoever isn't needed, from the last but one to the first, and says who is left.
  // `may_stay` is asked with the candidate back in the tree (not set: everybody may).
  using MayStay = std::function<bool(const Victim& back, const std::vector<Victim>& others)>;
  [[nodiscard]] std::vector<Victim> Minimal(const MayStay& may_stay = {});

 private:
  void Count(int sign);
  void TakeOff(const Victim& victim);
  void PutBack(const Victim& victim);
  [[nodiscard]] bool QuotaFits();
  [[nodiscard]] bool Placed(const std::vector<Victim>& gone) const;

  const VictimQuestion& question_;
  const bool borrow_;
  const bool counted_;
  std::vector<Victim> gone_;
  size_t enough_ = 0;  // so many make the quota fit; 0 = not yet
  bool placed_ = false;
};

}  // namespace tutti::engine
