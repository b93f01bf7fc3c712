// SPDX-License-Identifier: Apache-2.0
// See pending_queue.h. A class is taken out of `ready_` before its first member changes and put
// back afterwards, because that member is its sort key.
#include "engine/pending_queue.h"

#include <tuple>

namespace tutti::engine {

bool Before(const OrderKey& a, const OrderKey& b) {
  if (a.priority != b.priority) {
    return a.priority > b.priority;
  }
  return std::tie(a.queue_time, a.uid, a.id) < std::tie(b.queue_time, b.uid, b.id);
}

bool ByYielding::operator()(WorkloadId a, WorkloadId b) const {
  const OrderKey& x = (*keys)[a.value];
  const OrderKey& y = (*keys)[b.value];
  return std::tie(x.priority, y.reserved_at, x.uid, x.id) <
         std::tie(y.priority, x.reserved_at, y.uid, y.id);
}

bool PendingQueue::ByFirst::operator()(ClassId a, ClassId b) const {
  const WorkloadId first_a = *queue->Class(a).members.begin();
  const WorkloadId first_b = *queue->Class(b).members.begin();
  return queue->order_.key_comp()(first_a, first_b);
}

void PendingQueue::Add(WorkloadId workload, const std::string& key,
                       const std::shared_ptr<const std::vector<PodSetSpec>>& pod_sets) {
  auto [position, is_new] = by_key_.try_emplace(key, ClassId{next_class_});
  const ClassId id = position->second;
  if (is_new) {
    ++next_class_;
    auto added = std::make_unique<WorkloadClass>(keys_);
    added->key = key;
    added->pod_sets = pod_sets;
    added->members.insert(workload);
    classes_.emplace(id.value, std::move(added));
    ready_.insert(id);
  } else {
    WorkloadClass& known = Class(id);
    if (known.ready) {
      ready_.erase(id);
    }
    known.members.insert(workload);
    if (known.ready) {
      ready_.insert(id);
    } else if (known.order_matters && *known.members.begin() == workload) {
      // Who has to wait behind whom, and who may preempt whom, depends on the order: the new first
      // one is asked anew.
      Ready(id);
    }
  }
  class_of_[workload.value] = id;
  order_.insert(workload);
}

void PendingQueue::Remove(WorkloadId workload) {
  auto position = class_of_.find(workload.value);
  if (position == class_of_.end()) {
    return;
  }
  const ClassId id = position->second;
  class_of_.erase(position);
  order_.erase(workload);
  WorkloadClass& known = Class(id);
  if (known.ready) {
    ready_.erase(id);
  }
  known.members.erase(workload);
  if (known.members.empty()) {
    node_waiters_.erase(id);
    flight_waiters_.erase(id);
    by_key_.erase(known.key);
    classes_.erase(id.value);
  } else if (known.ready) {
    ready_.insert(id);
  }
}

WorkloadId PendingQueue::First() const {
  return order_.empty() ? WorkloadId{} : *order_.begin();
}

WorkloadId PendingQueue::Candidate(bool strict) const {
  if (strict) {
    const WorkloadId first = First();
    return first.Valid() && Class(ClassOf(first)).ready ? first : WorkloadId{};
  }
  return ready_.empty() ? WorkloadId{} : *Class(*ready_.begin()).members.begin();
}

ClassId PendingQueue::ClassOf(WorkloadId workload) const {
  auto found = class_of_.find(workload.value);
  return found == class_of_.end() ? ClassId{} : found->second;
}

void PendingQueue::Park(ClassId id) {
  WorkloadClass& known = Class(id);
  if (known.ready) {
    ready_.erase(id);
    known.ready = false;
  }
  if (known.waits_for_nodes) {
    node_waiters_.insert(id);
  } else {
    node_waiters_.erase(id);
  }
  if (known.waits_for_flights) {
    flight_waiters_.insert(id);
  } else {
    flight_waiters_.erase(id);
  }
}

void PendingQueue::Ready(ClassId id) {
  node_waiters_.erase(id);
  flight_waiters_.erase(id);
  MakeReady(id);
}

void PendingQueue::MakeReady(ClassId id) {
  WorkloadClass& known = Class(id);
  if (!known.ready) {
    known.ready = true;
    known.hold.clear();
    known.next_flavor.clear();
    ready_.insert(id);
  }
}

void PendingQueue::ReadyAll() {
  node_waiters_.clear();
  flight_waiters_.clear();
  for (const auto& [id, known] : classes_) {
    MakeReady(ClassId{id});
  }
}

void PendingQueue::ReadyNodeWaiters() {
  for (const ClassId id : node_waiters_) {
    MakeReady(id);
  }
  node_waiters_.clear();
  flight_waiters_.clear();
}

void PendingQueue::ReadyFlightWaiters() {
  for (const ClassId id : flight_waiters_) {
    node_waiters_.erase(id);
    MakeReady(id);
  }
  flight_waiters_.clear();
}

std::string PendingQueue::SanityCheck() const {
  size_t members = 0;
  size_t ready = 0;
  for (const auto& [id, known] : classes_) {
    members += known->members.size();
    ready += known->ready ? 1 : 0;
    if (known->members.empty()) {
      return "class without members";
    }
    if (known->ready != ready_.contains(ClassId{id})) {
      return "class ready flag and ready set differ";
    }
    if (!known->ready && known->waits_for_nodes != node_waiters_.contains(ClassId{id})) {
      return "class waits for nodes but is not in the set of those";
    }
    if (!known->ready && known->waits_for_flights != flight_waiters_.contains(ClassId{id})) {
      return "class waits for flights but is not in the set of those";
    }
    for (const WorkloadId member : known->members) {
      if (ClassOf(member) != ClassId{id} || !order_.contains(member)) {
        return "class member is not indexed";
      }
    }
  }
  if (members != order_.size() || members != class_of_.size() || ready != ready_.size() ||
      classes_.size() != by_key_.size()) {
    return "sizes of the indexes differ";
  }
  return "";
}

}  // namespace tutti::engine
