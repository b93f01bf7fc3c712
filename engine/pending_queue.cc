// SPDX-License-Identifier: Apache-2.0
// See pending_queue.h. A class is taken out of `ready_` before its first member changes and put
// back afterwards, because that member is its sort key.
#include "engine/pending_queue.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace tutti::engine {

namespace {

// Who leaves a queue is nearly always its first: that one needs no search.
void EraseFrom(WorkloadSet& set, WorkloadId workload) {
  if (*set.begin() == workload) {
    set.erase(set.begin());
  } else {
    set.erase(workload);
  }
}

}  // namespace

bool Before(const OrderKey& a, const OrderKey& b) {
  if (a.priority != b.priority) {
    return a.priority > b.priority;
  }
  return IsOlder(a, b);
}

bool IsOlder(const OrderKey& a, const OrderKey& b) {
  return std::tie(a.queue_time, a.uid_prefix, a.uid, a.id) <
         std::tie(b.queue_time, b.uid_prefix, b.uid, b.id);
}

OrderKey MakeKey(int64_t priority, Time queue_time, std::string uid, std::string id,
                 Time reserved_at) {
  uint64_t prefix = 0;
  for (size_t i = 0; i < sizeof prefix; ++i) {
    prefix = prefix << 8 | (i < uid.size() ? static_cast<unsigned char>(uid[i]) : 0);
  }
  return {priority, queue_time, reserved_at, prefix, std::move(uid), std::move(id)};
}

bool ByYielding::operator()(WorkloadId a, WorkloadId b) const {
  const OrderKey& x = (*keys)[a.value];
  const OrderKey& y = (*keys)[b.value];
  return std::tie(x.priority, y.reserved_at, x.uid_prefix, x.uid, x.id) <
         std::tie(y.priority, x.reserved_at, y.uid_prefix, y.uid, y.id);
}

bool PendingQueue::ByFirst::operator()(ClassId a, ClassId b) const {
  const WorkloadId first_a = *queue->Class(a).members.begin();
  const WorkloadId first_b = *queue->Class(b).members.begin();
  return ByOrder{queue->keys_}(first_a, first_b);
}

void PendingQueue::Add(WorkloadId workload, const std::shared_ptr<const WorkloadSpec>& spec,
                       LocalQueueId lane_id) {
  Changed();
  Lane& lane = lanes_.try_emplace(lane_id, this).first->second;
  auto [position, is_new] = lane.classes.try_emplace(spec.get(), ClassId{next_class_});
  const ClassId id = position->second;
  if (is_new) {
    ++next_class_;
    auto added = std::make_unique<WorkloadClass>(keys_);
    added->spec = spec;
    added->lane = lane_id;
    added->members.insert(workload);
    classes_.emplace(id.value, std::move(added));
    lane.ready.insert(id);
  } else {
    WorkloadClass& known = Class(id);
    if (known.ready) {
      lane.ready.erase(id);
    }
    known.members.insert(workload);
    if (known.ready) {
      lane.ready.insert(id);
    } else if (known.order_matters && *known.members.begin() == workload) {
      // Who has to wait behind whom, and who may preempt whom, depends on the order: the new first
      // one is asked anew.
      Ready(id);
    }
  }
  class_of_[workload.value] = id;
  lane.order.insert(workload);
}

void PendingQueue::Remove(WorkloadId workload) {
  auto position = class_of_.find(workload.value);
  if (position == class_of_.end()) {
    return;
  }
  Changed();
  const ClassId id = position->second;
  class_of_.erase(position);
  WorkloadClass& known = Class(id);
  const LocalQueueId lane_id = known.lane;
  Lane& lane = LaneOf(known);
  EraseFrom(lane.order, workload);
  if (known.ready) {
    lane.ready.erase(id);
  }
  EraseFrom(known.members, workload);
  if (known.members.empty()) {
    node_waiters_.erase(id);
    flight_waiters_.erase(id);
    lane.classes.erase(known.spec.get());
    classes_.erase(id.value);
  } else if (known.ready) {
    lane.ready.insert(id);
  }
  if (lane.order.empty()) {
    lanes_.erase(lane_id);
  }
}

size_t PendingQueue::Parked(bool behind) const {
  size_t parked = 0;
  for (const auto& [id, known] : classes_) {
    parked += known->IsParked(behind) ? known->members.size() : 0;
  }
  return parked;
}

double PendingQueue::UsageOf(LocalQueueId lane) const {
  auto found = lane_usage_.find(lane);
  return found == lane_usage_.end() ? 0 : found->second;
}

template <typename Pick>
WorkloadId PendingQueue::FirstOfLanes(const Pick& pick) const {
  if (lanes_.size() == 1) {
    return pick(lanes_.begin()->second);
  }
  WorkloadId best;
  double best_usage = 0;
  for (const auto& [id, lane] : lanes_) {
    const WorkloadId found = pick(lane);
    if (!found.Valid()) {
      continue;
    }
    const double usage = UsageOf(id);
    if (!best.Valid() || usage < best_usage ||
        (usage == best_usage && ByOrder{keys_}(found, best))) {
      best = found;
      best_usage = usage;
    }
  }
  return best;
}

WorkloadId PendingQueue::First() const {
  return FirstOfLanes([](const Lane& lane) { return *lane.order.begin(); });
}

WorkloadId PendingQueue::Behind() const {
  const WorkloadId first = First();
  for (const auto& [id, lane] : lanes_) {
    if (*lane.order.rbegin() != first) {
      return *lane.order.rbegin();
    }
  }
  return first;
}

WorkloadId PendingQueue::Candidate(bool strict) const {
  if (strict) {
    const WorkloadId first = First();
    return first.Valid() && Class(ClassOf(first)).ready ? first : WorkloadId{};
  }
  return FirstOfLanes([&](const Lane& lane) {
    return lane.ready.empty() ? WorkloadId{} : *Class(*lane.ready.begin()).members.begin();
  });
}

std::vector<WorkloadId> PendingQueue::Order() const {
  std::vector<std::pair<double, WorkloadId>> all;
  all.reserve(Size());
  for (const auto& [id, lane] : lanes_) {
    for (const WorkloadId workload : lane.order) {
      all.emplace_back(UsageOf(id), workload);
    }
  }
  if (lanes_.size() > 1) {
    std::sort(all.begin(), all.end(), [&](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : ByOrder{keys_}(a.second, b.second);
    });
  }
  std::vector<WorkloadId> order;
  order.reserve(all.size());
  for (const auto& [usage, workload] : all) {
    order.push_back(workload);
  }
  return order;
}

ClassId PendingQueue::ClassOf(WorkloadId workload) const {
  auto found = class_of_.find(workload.value);
  return found == class_of_.end() ? ClassId{} : found->second;
}

void PendingQueue::Park(ClassId id) {
  Changed();
  WorkloadClass& known = Class(id);
  if (known.ready) {
    LaneOf(known).ready.erase(id);
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
    Changed();
    known.ready = true;
    known.hold.clear();
    known.next_flavor.clear();
    LaneOf(known).ready.insert(id);
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
    auto lane = lanes_.find(known->lane);
    if (lane == lanes_.end()) {
      return "class in no lane";
    }
    auto position = lane->second.classes.find(known->spec.get());
    if (position == lane->second.classes.end() || position->second != ClassId{id}) {
      return "class is not found by its spec";
    }
    if (known->ready != lane->second.ready.contains(ClassId{id})) {
      return "class ready flag and ready set differ";
    }
    if (!known->ready && known->waits_for_nodes != node_waiters_.contains(ClassId{id})) {
      return "class waits for nodes but is not in the set of those";
    }
    if (!known->ready && known->waits_for_flights != flight_waiters_.contains(ClassId{id})) {
      return "class waits for flights but is not in the set of those";
    }
    for (const WorkloadId member : known->members) {
      if (ClassOf(member) != ClassId{id} || !lane->second.order.contains(member)) {
        return "class member is not indexed";
      }
    }
  }
  size_t in_lanes = 0;
  size_t ready_in_lanes = 0;
  size_t classes_in_lanes = 0;
  for (const auto& [id, lane] : lanes_) {
    in_lanes += lane.order.size();
    ready_in_lanes += lane.ready.size();
    classes_in_lanes += lane.classes.size();
    if (lane.order.empty()) {
      return "empty lane";
    }
  }
  if (members != in_lanes || members != class_of_.size() || ready != ready_in_lanes ||
      classes_.size() != classes_in_lanes) {
    return "sizes of the indexes differ";
  }
  return "";
}

}  // namespace tutti::engine
