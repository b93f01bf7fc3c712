// SPDX-License-Identifier: Apache-2.0
// In which order the entries of one cycle are processed; docs/engine.md, "Order" and "Fair
// sharing".
#include <algorithm>

#include "engine/engine_impl.h"

namespace tutti::engine {

EngineImpl::EntryOrder::EntryOrder(EngineImpl& engine, std::vector<Entry>& entries)
    : entries_(entries) {
  if (engine.shares_) {
    tournament_.emplace(engine.tree_, *engine.shares_, engine.rules_.priority_within_cohort);
    for (size_t index = 0; index < entries.size(); ++index) {
      const Entry& entry = entries[index];
      QueueState& queue = engine.Queue(entry.queue);
      const Usage& usage =
          entry.hold_only ? queue.pending->Class(entry.cls).hold : entry.assignment.usage;
      tournament_->Add(index, queue.node, usage, engine.Key(entry.workload));
    }
    return;
  }
  std::sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) {
    if (a.level != b.level) {
      return a.level < b.level;
    }
    return engine.rules_.priority_within_cohort
               ? Before(engine.Key(a.workload), engine.Key(b.workload))
               : IsOlder(engine.Key(a.workload), engine.Key(b.workload));
  });
}

void EngineImpl::EntryOrder::UsageChanged(NodeId queue) {
  if (tournament_) {
    tournament_->UsageChanged(queue);
  }
}

EngineImpl::Entry* EngineImpl::EntryOrder::Next() {
  if (tournament_) {
    const std::optional<size_t> index = tournament_->Pop();
    return index ? &entries_[*index] : nullptr;
  }
  return next_ < entries_.size() ? &entries_[next_++] : nullptr;
}

}  // namespace tutti::engine
