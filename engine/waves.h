// SPDX-License-Identifier: Apache-2.0
// How fast workloads are asked to give way for others that are no more important: for quota that is
// theirs, or for a fairer share. A queue that falls below its quota by that has a claim of its own
// at once, so that without a limit one end sets off a chain of evictions in which hardly anybody
// gets on. Such evictions come in waves: one pass for each tree of cohorts, in which each queue
// gets one of its workloads through. The next wave may begin after an interval when a workload of
// the tree has ended by itself meanwhile, else after ten. (Kueue is held back by its cycles: it
// retries what was refused once a second, and one preemptor of a queue at a time.)
//
// Not limited: who takes room that is free; who displaces only less important workloads; who counts
// on those who are leaving already; who has come, or was changed, since the last wave.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/time.h"
#include "engine/ids.h"

namespace tutti::engine {

class Waves {
 public:
  // 0: no limit.
  void SetInterval(Duration interval) { interval_ = interval; }

  // Whether a workload of this queue has to leave those alone that are as important as it, or more.
  // `arrival`: Arrivals() when it came.
  [[nodiscard]] bool HoldsBack(NodeId root, QueueId queue, uint64_t arrival, Time now) const;
  // In the running pass somebody has to give way for one of this queue that is no more important.
  void Strike(NodeId root, QueueId queue) { struck_.emplace(root, queue); }
  void EndPass(Time now);
  // A workload of the tree has ended by itself.
  void RoomCame(NodeId root);

  uint64_t Arrive() { return ++arrivals_; }

  // When the next wave is over; nullopt = there is none.
  [[nodiscard]] std::optional<Time> Over() const;
  // The trees whose wave is over, each once: those who were held back are to be asked again.
  [[nodiscard]] std::vector<NodeId> TakeOver(Time now);
  void Clear() { waves_.clear(); }  // NodeIds have changed

 private:
  struct Wave {
    Time began;
    uint64_t arrivals = 0;
    bool room_came = false;
  };
  [[nodiscard]] Time OverAt(const Wave& wave) const {
    return wave.began + (wave.room_came ? interval_ : 10 * interval_);
  }
  Duration interval_{};
  uint64_t arrivals_ = 0;
  std::map<NodeId, Wave> waves_;                 // by root
  std::set<std::pair<NodeId, QueueId>> struck_;  // of the running pass
};

}  // namespace tutti::engine
