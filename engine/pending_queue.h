// SPDX-License-Identifier: Apache-2.0
// The waiting workloads of one ClusterQueue. Order: higher priority, older queue time, uid, id;
// with admission fair sharing before all that the LocalQueue's usage: each LocalQueue then is a
// lane. Equal workloads (same pod sets and priority) form a class: what one of them was told in a
// state is true for all, so a class is tried once and then parked until something relevant changes.
// Everything here is O(log n) except where said.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/time.h"
#include "engine/ids.h"
#include "engine/refusal.h"
#include "engine/workload_spec.h"

namespace tutti::engine {

struct OrderKey {
  int64_t priority = 0;
  Time queue_time = kNoTime;
  Time reserved_at = kNoTime;  // of reserved ones, in whole seconds; no part of the queue order
  // The first bytes of the uid as a number that compares like them: most comparisons end here,
  // without a look at the text.
  uint64_t uid_prefix = 0;
  std::string uid;
  std::string id;
  bool operator==(const OrderKey&) const = default;
};
[[nodiscard]] OrderKey MakeKey(int64_t priority, Time queue_time, std::string uid, std::string id,
                               Time reserved_at = kNoTime);
[[nodiscard]] bool Before(const OrderKey& a, const OrderKey& b);
// The same without the priority.
[[nodiscard]] bool IsOlder(const OrderKey& a, const OrderKey& b);

// By WorkloadId; entries are stable while the workload is in a set.
using OrderTable = std::deque<OrderKey>;

struct ByOrder {
  const OrderTable* keys;
  bool operator()(WorkloadId a, WorkloadId b) const {
    return Before((*keys)[a.value], (*keys)[b.value]);
  }
};
using WorkloadSet = std::set<WorkloadId, ByOrder>;

// Who gives way first: lower priority, reserved later, uid, id.
struct ByYielding {
  const OrderTable* keys;
  bool operator()(WorkloadId a, WorkloadId b) const;
};
using HolderSet = std::set<WorkloadId, ByYielding>;

struct WorkloadClass {
  explicit WorkloadClass(const OrderTable* keys) : members(ByOrder{keys}) {}
  std::shared_ptr<const WorkloadSpec> spec;
  LocalQueueId lane;  // all members are in this one
  WorkloadSet members;
  bool ready = true;  // to be tried
  bool tried = false;
  Refusal refusal;                 // of the last try
  bool waits_for_nodes = false;    // the refusal may change when nodes or pods do
  bool waits_for_flights = false;  // also when a pod in flight binds; implies waits_for_nodes
  // The refusal may be another for a member that comes before those that were there.
  bool order_matters = false;
  // Of one that only a preemption would help: the quota that it keeps, as a parked StrictFIFO head,
  // from being borrowed by others.
  Usage hold;
  int hold_level = 0;
  uint64_t refused_at = 0;          // number of admissions at that time
  uint64_t tries = 0;               // that ended with a refusal
  std::vector<size_t> next_flavor;  // where to go on within the running pass
  uint64_t told = 0;                // fingerprint that all members have been told

  // `behind`: another of its queue waits for those whom it preempts. Who would be told to wait for
  // a preemption is then in line for the next one.
  [[nodiscard]] bool IsParked(bool behind) const {
    return !ready && !refusal.held_back && !(behind && !hold.empty());
  }
};

class PendingQueue {
 public:
  // `changed` is called whenever there may be something else to try, or to tell.
  explicit PendingQueue(const OrderTable* keys, std::function<void()> changed = {})
      : keys_(keys), changed_(std::move(changed)) {}
  PendingQueue(const PendingQueue&) = delete;
  PendingQueue& operator=(const PendingQueue&) = delete;

  // The class is that of `spec` (the object, not its contents) in `lane`. A parked class for which
  // the order matters is tried again when this becomes its first member. `lane`: not valid without
  // admission fair sharing.
  void Add(WorkloadId workload, const std::shared_ptr<const WorkloadSpec>& spec, LocalQueueId lane);
  void Remove(WorkloadId workload);
  // Lower usage goes first; equal usage is like no lanes. 0 until set. O(log lanes).
  void SetUsage(LocalQueueId lane, double usage) {
    lane_usage_[lane] = usage;
    Changed();
  }

  // Members of classes that were refused and are neither in line nor kept from quota that would be
  // there. `behind`: WorkloadClass::IsParked. O(classes).
  [[nodiscard]] size_t Parked(bool behind) const;
  [[nodiscard]] bool Empty() const { return class_of_.empty(); }
  [[nodiscard]] size_t Size() const { return class_of_.size(); }
  [[nodiscard]] bool Contains(WorkloadId workload) const {
    return class_of_.contains(workload.value);
  }
  // In order; O(n), with lanes O(n log n).
  [[nodiscard]] std::vector<WorkloadId> Order() const;
  // Not valid when empty. O(lanes).
  [[nodiscard]] WorkloadId First() const;
  // One that is not First(), if there is another; not valid when empty. O(lanes).
  [[nodiscard]] WorkloadId Behind() const;
  // The workload to try next. StrictFIFO: only the very first one; nothing while it is parked.
  [[nodiscard]] WorkloadId Candidate(bool strict) const;

  [[nodiscard]] ClassId ClassOf(WorkloadId workload) const;
  [[nodiscard]] bool HasClass(ClassId id) const { return classes_.contains(id.value); }
  [[nodiscard]] WorkloadClass& Class(ClassId id) { return *classes_.at(id.value); }
  [[nodiscard]] const WorkloadClass& Class(ClassId id) const { return *classes_.at(id.value); }

  void Park(ClassId id);
  void Ready(ClassId id);
  void ReadyAll();          // O(classes)
  void ReadyNodeWaiters();  // O(classes waiting for nodes)
  void ReadyFlightWaiters();
  [[nodiscard]] bool HasNodeWaiters() const { return !node_waiters_.empty(); }
  [[nodiscard]] bool HasFlightWaiters() const { return !flight_waiters_.empty(); }

  // Checks the bookkeeping; "" or what is wrong. O(n).
  [[nodiscard]] std::string SanityCheck() const;

 private:
  struct ByFirst {
    const PendingQueue* queue;
    bool operator()(ClassId a, ClassId b) const;
  };
  struct Lane {
    explicit Lane(const PendingQueue* queue)
        : order(ByOrder{queue->keys_}), ready(ByFirst{queue}) {}
    WorkloadSet order;
    std::set<ClassId, ByFirst> ready;
    std::unordered_map<const WorkloadSpec*, ClassId> classes;  // looked up, never iterated
  };
  void MakeReady(ClassId id);
  void Changed() const {
    if (changed_) {
      changed_();
    }
  }
  Lane& LaneOf(const WorkloadClass& known) { return lanes_.at(known.lane); }
  [[nodiscard]] double UsageOf(LocalQueueId lane) const;
  // Of the workloads that `pick` names in each lane (not valid = none) the first in order.
  template <typename Pick>
  [[nodiscard]] WorkloadId FirstOfLanes(const Pick& pick) const;

  const OrderTable* keys_;
  std::function<void()> changed_;
  std::map<LocalQueueId, Lane> lanes_;  // none is empty
  std::map<LocalQueueId, double> lane_usage_;
  std::map<uint32_t, std::unique_ptr<WorkloadClass>> classes_;
  std::unordered_map<uint32_t, ClassId> class_of_;  // looked up, never iterated
  std::set<ClassId> node_waiters_;                  // parked ones
  std::set<ClassId> flight_waiters_;                // parked ones, all of them node waiters too
  uint32_t next_class_ = 0;
};

}  // namespace tutti::engine
