// SPDX-License-Identifier: Apache-2.0
// The quota tree as built from configuration and usage books, health of ClusterQueues, and who has
// to be tried again after a change.
#include <algorithm>

#include "engine/engine_impl.h"

namespace tutti::engine {

void EngineImpl::ConfigChanged() {
  config_dirty_ = true;
  if (!needs_pass_ && pending_count_ > 0) {
    needs_pass_ = true;
    only_config_ = true;
  }
}

void EngineImpl::EnsureTree() const {
  if (config_dirty_) {
    // The tree, health and wake flags are a cache of the configuration and the books.
    const_cast<EngineImpl*>(this)->Rebuild();  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  }
}

void EngineImpl::Rebuild() {
  config_dirty_ = false;
  flavors_.resize(tables_.flavors.Size());
  tree_ = QuotaTree{};
  queues_of_root_.clear();
  evicted_by_.clear();
  waves_.Clear();
  for (Waiting& waiting : waiting_) {
    waiting.flavors.clear();
  }
  excused_.clear();

  shares_.reset();
  cohort_nodes_.clear();
  auto cohort_node = [&](const std::string& name) {
    auto [position, added] = cohort_nodes_.try_emplace(name);
    if (added) {
      position->second = tree_.AddNode();
    }
    return position->second;
  };
  auto set_limits = [&](NodeId node, const std::vector<GroupConfig>& groups) {
    for (const GroupConfig& group : groups) {
      for (const FlavorQuota& flavor : group.flavors) {
        for (size_t index = 0; index < flavor.pairs.size(); ++index) {
          tree_.SetLimits(node, flavor.pairs[index], flavor.limits[index]);
        }
      }
    }
  };
  for (const auto& [name, cohort] : cohorts_) {
    const NodeId node = cohort_node(name);
    if (!cohort.parent.empty()) {
      tree_.SetParent(node, cohort_node(cohort.parent));
    }
    if (cohort.problem.empty()) {
      set_limits(node, cohort.groups);
    }
  }
  for (const auto& [name, id] : queue_ids_) {
    QueueState& queue = Queue(id);
    queue.node = NodeId{};
    if (!queue.exists) {
      continue;
    }
    queue.node = tree_.AddNode();
    if (!queue.config.cohort.empty()) {
      tree_.SetParent(queue.node, cohort_node(queue.config.cohort));
    }
    if (queue.config.problem.empty()) {
      set_limits(queue.node, queue.config.groups);
    }
  }
  tree_.Finish();
  queue_at_.assign(tree_.Size(), QueueId{});
  if (fair_sharing_) {
    ShareFairly();
  }

  for (const auto& [name, id] : queue_ids_) {
    QueueState& queue = Queue(id);
    queue.wake = true;
    Mark(id);
    const QueueHealth before = queue.health;
    JudgeHealth(queue);
    queue.tell_all = queue.tell_all || before.active != queue.health.active;
    if (!queue.exists) {
      continue;
    }
    queues_of_root_[tree_.Root(queue.node)].push_back(id);
    queue_at_[queue.node.value] = id;
    for (const auto& [pair, sums] : queue.book.usage) {
      tree_.AddUsage(queue.node, pair, sums.reserved);
    }
  }
  for (uint32_t index = 0; index < tree_.Size(); ++index) {
    for (const FlavorResourceId pair : tree_.Cells(NodeId{index})) {
      if (tree_.RawAvailable(NodeId{index}, pair) < 0) {
        excused_.emplace(tree_.Root(NodeId{index}), pair);
      }
    }
  }
}

void EngineImpl::ShareFairly() {
  shares_.emplace(tree_, tables_);
  for (const auto& [name, cohort] : cohorts_) {
    shares_->SetWeight(cohort_nodes_.at(name), cohort.fair_weight);
  }
  for (const auto& [name, id] : queue_ids_) {
    if (Queue(id).exists) {
      shares_->SetWeight(Queue(id).node, Queue(id).config.fair_weight);
    }
  }
}

void EngineImpl::SetFairSharing(const std::optional<FairSharing>& fair_sharing) {
  if (fair_sharing != fair_sharing_) {
    fair_sharing_ = fair_sharing;
    ConfigChanged();
  }
}

void EngineImpl::JudgeHealth(QueueState& queue) const {
  queue.health = QueueHealth{};
  auto inactive = [&](std::string reason, std::string message) {
    queue.health = QueueHealth{false, std::move(reason), std::move(message)};
  };
  if (!queue.exists) {
    inactive("NotFound", "ClusterQueue " + queue.name + " doesn't exist");
    return;
  }
  if (queue.config.terminating) {
    inactive("Terminating", "Can't admit new workloads; clusterQueue is terminating");
    return;
  }
  std::vector<std::pair<std::string, std::string>> problems;  // reason, what is wrong
  if (queue.config.stopped) {
    problems.emplace_back("Stopped", "is stopped");
  }
  std::string missing;
  for (const GroupConfig& group : queue.config.groups) {
    for (const FlavorQuota& flavor : group.flavors) {
      if (!flavors_[flavor.flavor.value].exists) {
        missing += (missing.empty() ? "" : ",") + tables_.flavors.Name(flavor.flavor);
      }
    }
  }
  if (!missing.empty()) {
    problems.emplace_back("FlavorNotFound", "references missing ResourceFlavor(s): " + missing);
  }
  if (!queue.config.problem.empty()) {
    problems.emplace_back("Misconfigured", queue.config.problem);
  }
  if (!queue.config.cohort.empty()) {
    const NodeId cohort = cohort_nodes_.at(queue.config.cohort);
    if (tree_.InCycle(cohort)) {
      problems.emplace_back("HasCycle",
                            "cohort " + queue.config.cohort +
                                " is in or below a cycle of parentName; remove one link");
    } else {
      // Names along the way up; a tree has few levels.
      std::string name = queue.config.cohort;
      while (!name.empty()) {
        auto config = cohorts_.find(name);
        if (config == cohorts_.end()) {
          break;
        }
        if (!config->second.problem.empty()) {
          problems.emplace_back("Misconfigured", "cohort " + name + ": " + config->second.problem);
        }
        name = config->second.parent;
      }
    }
  }
  if (!queue.outside_reason.empty()) {
    problems.emplace_back(queue.outside_reason, queue.outside_message);
  }
  if (problems.empty()) {
    return;
  }
  std::string message;
  for (const auto& [reason, what] : problems) {
    message += (message.empty() ? "" : ", ") + what;
  }
  inactive(problems.front().first, "Can't admit new workloads: " + message + ".");
}

void EngineImpl::Wake(QueueId id) {
  only_config_ = false;
  if (config_dirty_) {
    return;  // the rebuild wakes everything
  }
  const QueueState& queue = Queue(id);
  if (!queue.exists) {
    return;
  }
  for (const QueueId other : queues_of_root_[tree_.Root(queue.node)]) {
    Queue(other).wake = true;
    Mark(other);
    needs_pass_ = needs_pass_ || !Queue(other).pending->Empty() || !Queue(other).waiting.empty();
  }
}

void EngineImpl::ExcuseOverLimit(NodeId node, FlavorResourceId pair) {
  for (NodeId at = node; at.Valid(); at = tree_.Parent(at)) {
    if (tree_.RawAvailable(at, pair) < 0) {
      excused_.emplace(tree_.Root(node), pair);
      return;
    }
  }
}

}  // namespace tutti::engine
