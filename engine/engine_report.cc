// SPDX-License-Identifier: Apache-2.0
// Reports for status and metrics, and the check of the engine's books against a recomputation.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "engine/engine_impl.h"

namespace tutti::engine {

namespace {

std::vector<FlavorUsage> UsageOf(const UsageBook& book, const QueueConfig& config,
                                 const Tables& tables) {
  std::vector<FlavorUsage> out;
  for (const GroupConfig& group : config.groups) {
    for (const FlavorQuota& flavor : group.flavors) {
      for (size_t index = 0; index < flavor.pairs.size(); ++index) {
        FlavorUsage usage;
        usage.flavor = tables.flavors.Name(flavor.flavor);
        usage.resource = tables.resources.Name(group.resources[index]);
        usage.nominal = Saturate(flavor.limits[index].nominal);
        if (auto sums = book.usage.find(flavor.pairs[index]); sums != book.usage.end()) {
          usage.reserved = Saturate(sums->second.reserved);
          usage.admitted = Saturate(sums->second.admitted);
          // Without a cohort there is nobody to borrow from.
          usage.borrowed = config.cohort.empty()
                               ? 0
                               : Saturate(std::max<Amount>(
                                     0, sums->second.reserved - flavor.limits[index].nominal));
        }
        out.push_back(std::move(usage));
      }
    }
  }
  return out;
}

}  // namespace

QueueHealth EngineImpl::Health(const std::string& cluster_queue) const {
  EnsureTree();
  auto found = queue_ids_.find(cluster_queue);
  if (found == queue_ids_.end() || !Queue(found->second).exists) {
    return {false, "NotFound", "ClusterQueue " + cluster_queue + " doesn't exist"};
  }
  return Queue(found->second).health;
}

QueueReport EngineImpl::Report(const std::string& cluster_queue) const {
  QueueReport report;
  auto found = queue_ids_.find(cluster_queue);
  if (found == queue_ids_.end()) {
    return report;
  }
  EnsureTree();
  const QueueState& queue = Queue(found->second);
  report.pending =
      static_cast<int32_t>(queue.pending->Size() + queue.outside.size() + queue.waiting.size());
  report.parked = report.pending;
  if (queue.health.active) {
    report.parked = static_cast<int32_t>(
        queue.outside.size() +
        (queue.config.strict_fifo ? 0 : queue.pending->Parked(!queue.waiting.empty())));
  }
  report.reserving = queue.book.reserving;
  report.admitted = queue.book.admitted;
  report.usage = UsageOf(queue.book, queue.config, tables_);
  if (shares_ && queue.exists) {
    report.weighted_share = shares_->Of(queue.node).Weighted();
  }
  return report;
}

int64_t RoundShare(double share) {
  const double up = std::ceil(share);
  // 2^63 is the first double beyond int64.
  return up >= 9223372036854775808.0 ? std::numeric_limits<int64_t>::max()
                                     : static_cast<int64_t>(up);
}

std::optional<double> EngineImpl::CohortShare(const std::string& cohort) const {
  EnsureTree();
  auto found = cohort_nodes_.find(cohort);
  if (!shares_ || found == cohort_nodes_.end()) {
    return std::nullopt;
  }
  return shares_->Of(found->second).Weighted();
}

CohortReport EngineImpl::ReportCohort(const std::string& cohort) const {
  EnsureTree();
  CohortReport report;
  const auto found = cohort_nodes_.find(cohort);
  if (found == cohort_nodes_.end()) {
    return report;
  }
  const NodeId top = found->second;
  std::map<FlavorResourceId, FlavorUsage> sums;
  for (const FlavorResourceId pair : tree_.QuotaCells(top)) {
    sums[pair].nominal = Saturate(tree_.SubtreeQuota(top, pair));
  }
  const auto queues = queues_of_root_.find(tree_.Root(top));
  for (const QueueId id :
       queues == queues_of_root_.end() ? std::vector<QueueId>{} : queues->second) {
    const QueueState& queue = Queue(id);
    NodeId node = queue.node;
    while (node.Valid() && node != top) {
      node = tree_.Parent(node);
    }
    if (!node.Valid()) {
      continue;
    }
    report.admitted += queue.book.admitted;
    for (const auto& [pair, amounts] : queue.book.usage) {
      FlavorUsage& sum = sums[pair];
      sum.reserved = Saturate(Amount{sum.reserved} + amounts.reserved);
    }
  }
  for (auto& [pair, sum] : sums) {
    sum.flavor = tables_.flavors.Name(tables_.pairs.Flavor(pair));
    sum.resource = tables_.resources.Name(tables_.pairs.Resource(pair));
    report.usage.push_back(std::move(sum));
  }
  return report;
}

QueueReport EngineImpl::ReportLocal(const api::ObjectKey& local_queue) const {
  EnsureTree();
  QueueReport report;
  auto found = local_queue_ids_.find(local_queue);
  if (found == local_queue_ids_.end()) {
    return report;
  }
  const LocalQueueState& local = Local(found->second);
  report.pending = static_cast<int32_t>(local.pending.size());
  report.parked = static_cast<int32_t>(std::count_if(local.pending.begin(), local.pending.end(),
                                                     [&](WorkloadId id) { return IsParked(id); }));
  report.reserving = local.book.reserving;
  report.admitted = local.book.admitted;
  if (local.exists && Queue(local.queue).exists) {
    report.usage = UsageOf(local.book, Queue(local.queue).config, tables_);
    for (FlavorUsage& usage : report.usage) {
      usage.borrowed = 0;  // only a ClusterQueue borrows
    }
  }
  return report;
}

bool EngineImpl::IsParked(WorkloadId id) const {
  const WorkloadState& workload = Workload(id);
  if (workload.place == Place::kUnqueued || workload.place == Place::kOutside) {
    return true;
  }
  const QueueState& queue = Queue(workload.queue);
  return !queue.health.active ||
         (workload.place == Place::kQueued && !queue.config.strict_fifo &&
          queue.pending->Class(queue.pending->ClassOf(id)).IsParked(!queue.waiting.empty()));
}

api::Amounts EngineImpl::PendingRequests(const std::string& cluster_queue) const {
  api::Amounts sums;
  const auto found = queue_ids_.find(cluster_queue);
  if (found == queue_ids_.end()) {
    return sums;
  }
  const QueueState& queue = Queue(found->second);
  for (const GroupConfig& group : queue.config.groups) {
    for (const ResourceId resource : group.resources) {
      sums[tables_.resources.Name(resource)] = 0;
    }
  }
  const auto add = [&](WorkloadId id) {
    for (const PodSetSpec& pod_set : Workload(id).spec->pod_sets) {
      for (const auto& [resource, amount] : pod_set.per_pod) {
        int64_t& sum = sums[tables_.resources.Name(resource)];
        sum = Saturate(Amount{sum} + Amount{amount} * pod_set.count);
      }
      if (const auto pods = sums.find("pods"); pods != sums.end()) {
        pods->second = Saturate(Amount{pods->second} + pod_set.count);
      }
    }
  };
  for (const WorkloadId id : queue.pending->Order()) {
    add(id);
  }
  std::for_each(queue.outside.begin(), queue.outside.end(), add);
  std::for_each(queue.waiting.begin(), queue.waiting.end(), add);
  return sums;
}

std::vector<std::string> EngineImpl::PendingOrder(const std::string& cluster_queue) const {
  std::vector<std::string> ids;
  auto found = queue_ids_.find(cluster_queue);
  if (found == queue_ids_.end()) {
    return ids;
  }
  const QueueState& queue = Queue(found->second);
  WorkloadSet others = queue.outside;
  others.insert(queue.waiting.begin(), queue.waiting.end());
  std::vector<WorkloadId> order = queue.pending->Order();
  const auto middle = static_cast<std::ptrdiff_t>(order.size());
  order.insert(order.end(), others.begin(), others.end());
  if (!IsUsageBased(queue)) {  // else those that are not in the queue come last
    std::inplace_merge(order.begin(), order.begin() + middle, order.end(), others.key_comp());
  }
  for (const WorkloadId id : order) {
    ids.push_back(Key(id).id);
  }
  return ids;
}

std::vector<std::string> EngineImpl::QueuesUsingFlavor(const std::string& flavor) const {
  std::vector<std::string> names;
  const FlavorId id = tables_.flavors.Find(flavor);
  for (const auto& [name, queue_id] : queue_ids_) {
    const std::vector<GroupConfig>& groups = Queue(queue_id).config.groups;
    const bool uses = std::any_of(groups.begin(), groups.end(), [&](const GroupConfig& group) {
      return std::any_of(group.flavors.begin(), group.flavors.end(),
                         [&](const FlavorQuota& quota) { return quota.flavor == id; });
    });
    if (id.Valid() && uses) {
      names.push_back(name);
    }
  }
  return names;
}

std::string EngineImpl::SanityCheck() const {
  EnsureTree();
  // One state per workload, and the sums of what they use.
  std::map<QueueId, UsageBook> queue_books;
  std::map<LocalQueueId, UsageBook> local_books;
  std::map<QueueId, size_t> queued;
  size_t pending = 0;
  std::set<std::string_view> specs;
  for (uint32_t index = 0; index < workloads_.size(); ++index) {
    const WorkloadId id{index};
    const WorkloadState& workload = Workload(id);
    if (workload.phase == Phase::kFree) {
      continue;
    }
    const std::string& name = Key(id).id;
    specs.insert(workload.spec->key);
    if (Find(name) != id) {
      return "workload " + name + " is not found by its id";
    }
    if (workload.phase == Phase::kPending) {
      ++pending;
      const bool in_order = workload.place == Place::kQueued &&
                            Queue(workload.queue).pending->ClassOf(id).Valid() &&
                            Queue(workload.queue).pending->Contains(id);
      const bool in_outside =
          workload.place == Place::kOutside && Queue(workload.queue).outside.contains(id);
      const bool in_waiting = workload.place == Place::kWaiting &&
                              Queue(workload.queue).waiting.contains(id) &&
                              FindWaiting(id) != nullptr;
      if (workload.place != Place::kUnqueued && !in_order && !in_outside && !in_waiting) {
        return "pending workload " + name + " is in no queue";
      }
      const std::vector<WorkloadId>& siblings = Local(workload.local_queue).pending;
      if (workload.place_in_local >= siblings.size() || siblings[workload.place_in_local] != id) {
        return "pending workload " + name + " is missing in its LocalQueue";
      }
      if (workload.queue.Valid()) {
        ++queued[workload.queue];
      }
      continue;
    }
    if (!Queue(workload.queue).reserved.contains(id)) {
      return "reserved workload " + name + " is missing in its ClusterQueue";
    }
    queue_books[workload.queue].Add(workload.usage, workload.admitted, +1);
    local_books[workload.local_queue].Add(workload.usage, workload.admitted, +1);
  }
  size_t listed = 0;
  for (const LocalQueueState& local : local_queues_) {
    listed += local.pending.size();
  }
  if (pending != pending_count_ || pending != listed) {
    return "count of pending workloads is wrong";
  }
  if (specs.size() != specs_.size()) {
    return "specs are kept that no workload has";
  }
  for (const auto& [name, id] : queue_ids_) {
    const QueueState& queue = Queue(id);
    if (queue.pending->Size() + queue.outside.size() + queue.waiting.size() != queued[id]) {
      return "ClusterQueue " + name + " holds workloads that are not pending there";
    }
    if (queue.lively != lively_.contains(queue.name) ||
        (!queue.lively && !config_dirty_ && !IsIdle(queue))) {
      return "ClusterQueue " + name + " has something to do, and no pass would look at it";
    }
    if (!queue.lively && queue.pending->HasNodeWaiters() && !node_waiting_.contains(queue.name)) {
      return "ClusterQueue " + name + " waits for nodes, and no pass would look at it";
    }
    if (std::string wrong = queue.pending->SanityCheck(); !wrong.empty()) {
      return "ClusterQueue " + name + ": " + wrong;
    }
    if (queue.evicting != std::count_if(queue.reserved.begin(), queue.reserved.end(),
                                        [&](WorkloadId held) { return Workload(held).evicting; })) {
      return "ClusterQueue " + name + ": count of those that give way is wrong";
    }
    if (!(queue.book == queue_books[id])) {
      return "ClusterQueue " + name + ": usage is not the sum of its workloads";
    }
  }
  for (const auto& [key, id] : local_queue_ids_) {
    if (!(Local(id).book == local_books[id])) {
      return "LocalQueue " + key.ToString() + ": usage is not the sum of its workloads";
    }
  }
  // Usage of the tree: leaves from the books, parents from their children.
  std::map<std::pair<NodeId, FlavorResourceId>, Amount> expected;
  for (const auto& [name, id] : queue_ids_) {
    if (Queue(id).exists) {
      for (const auto& [pair, sums] : Queue(id).book.usage) {
        expected[{Queue(id).node, pair}] = sums.reserved;
      }
    }
  }
  std::vector<std::pair<int, NodeId>> by_height;
  for (uint32_t index = 0; index < tree_.Size(); ++index) {
    by_height.emplace_back(tree_.Height(NodeId{index}), NodeId{index});
  }
  std::sort(by_height.begin(), by_height.end());
  for (const auto& [height, node] : by_height) {
    for (const FlavorResourceId pair : tree_.Cells(node)) {
      const std::string what = "quota node " + std::to_string(node.value) + ", " +
                               tables_.flavors.Name(tables_.pairs.Flavor(pair)) + "/" +
                               tables_.resources.Name(tables_.pairs.Resource(pair)) + ": ";
      const Amount usage = expected[{node, pair}];
      if (tree_.Usage(node, pair) != usage) {
        return what + "usage is not the sum of what is below";
      }
      if (usage < 0) {
        return what + "usage is negative";
      }
      if (tree_.RawAvailable(node, pair) < 0 && !excused_.contains({tree_.Root(node), pair})) {
        return what + "more is used than the limits allow";
      }
      if (tree_.HasParent(node)) {
        expected[{tree_.Parent(node), pair}] +=
            std::max<Amount>(0, usage - tree_.LocalQuota(node, pair));
      }
    }
  }
  return capacity_->SanityCheck();
}

}  // namespace tutti::engine
