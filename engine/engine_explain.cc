// SPDX-License-Identifier: Apache-2.0
// Why a workload waits, and who has to be told. The reason comes from the refusal that the deciding
// code left behind; nothing is worked out a second time.
#include <algorithm>

#include "engine/engine_impl.h"
#include "engine/hasher.h"

namespace tutti::engine {

namespace {

bool CanNeverRun(PendingReason reason) {
  return reason == PendingReason::kNoMatchingFlavor || reason == PendingReason::kExceedsMaxQuota ||
         reason == PendingReason::kNeverFitsCluster;
}

}  // namespace

EngineImpl::Explanation EngineImpl::Explain(WorkloadId id, bool with_text) const {
  const WorkloadState& workload = Workload(id);
  auto plain = [](PendingReason reason, std::string text) {
    Explanation out{reason, 0, 0, std::move(text)};
    Hasher hash(static_cast<uint64_t>(reason) + 1);
    hash.Mix(std::string_view(out.text));
    out.fingerprint = out.details = hash.value();
    return out;
  };
  const LocalQueueState& local = Local(workload.local_queue);
  if (workload.place == Place::kUnqueued) {
    if (!local.exists) {
      return plain(PendingReason::kMisconfigured,
                   "LocalQueue " + local.key.name + " doesn't exist");
    }
    if (local.stopped) {
      return plain(PendingReason::kSuspended, "LocalQueue " + local.key.name + " is inactive");
    }
    return plain(PendingReason::kMisconfigured,
                 "ClusterQueue " + Queue(local.queue).name + " doesn't exist");
  }
  const QueueState& queue = Queue(workload.queue);
  if (!workload.misconfigured.empty()) {
    return plain(
        workload.invalid_requests ? PendingReason::kNotAccepted : PendingReason::kMisconfigured,
        workload.misconfigured);
  }
  if (workload.place == Place::kOutside) {
    return plain(PendingReason::kNotAccepted,
                 "Workload namespace doesn't match ClusterQueue selector");
  }
  if (!queue.health.active) {
    return plain(PendingReason::kSuspended, "ClusterQueue " + queue.name + " is inactive");
  }
  if (workload.place == Place::kWaiting) {
    const Waiting* waiting = FindWaiting(id);
    Explanation out{waiting->refusal.reason, waiting->refusal.Fingerprint(),
                    waiting->refusal.Details() + waiting->victims, ""};
    if (with_text) {
      out.text = Text(waiting->refusal, waiting->pod_sets, tables_);
      if (waiting->victims > 0) {
        out.text +=
            ". Pending the preemption of " + std::to_string(waiting->victims) + " workload(s)";
      }
    }
    return out;
  }
  const WorkloadId first = Head(queue);
  if (queue.config.strict_fifo && id != first) {
    if (Workload(first).place == Place::kQueued) {
      const WorkloadClass& head = queue.pending->Class(queue.pending->ClassOf(first));
      if (head.tried && CanNeverRun(head.refusal.reason)) {
        return plain(PendingReason::kBehindHead,
                     "waits behind " + Key(first).id + " at the head of StrictFIFO ClusterQueue " +
                         queue.name + ", which can't be admitted as it is (" +
                         std::string(ToString(head.refusal.reason)) + ")");
      }
    }
    return plain(PendingReason::kBehindHead,
                 "waits behind an older or more important workload of "
                 "StrictFIFO ClusterQueue " +
                     queue.name);
  }
  const WorkloadClass& cls = queue.pending->Class(queue.pending->ClassOf(id));
  if (!cls.tried) {
    return plain(PendingReason::kPendingEvaluation,
                 "Workload is pending evaluation in the scheduling queue");
  }
  if (rules_.tell_bypassed && workload.joined_at == cls.tries) {
    return plain(cls.refusal.reason,
                 "Bypassed scheduling evaluation because an equivalent workload recently failed");
  }
  Explanation out{cls.refusal.reason, cls.refusal.Fingerprint(), cls.refusal.Details(), ""};
  if (with_text) {
    out.text = TextOf(cls, cls.refusal);
  }
  return out;
}

std::string EngineImpl::TextOf(const WorkloadClass& cls, const Refusal& refusal) const {
  std::vector<std::string> names;
  for (const PodSetSpec& spec : cls.spec->pod_sets) {
    names.push_back(spec.name);
  }
  return Text(refusal, names, tables_);
}

// Admissions after a class was refused may have made it worse for it: ask again.
void EngineImpl::Refresh(QueueState& queue, ClassId id) {
  const WorkloadClass& cls = queue.pending->Class(id);
  // One that waits for gangs in flight is tried again when these have landed, whatever else
  // changed.
  if (cls.ready || cls.refusal.held_back || !cls.refusal.plain.empty() || cls.waits_for_flights ||
      cls.refused_at == admissions_) {
    return;
  }
  const WorkloadId first = *cls.members.begin();
  Assignment now = Assign(Context(queue, first), Key(first).id, *SpecsOf(first, cls), {});
  if (now.mode != FitMode::kFit) {
    Park(queue, id, now);
  }
}

// What is missing costs far more than that something is, so it is worked out for those who are
// told.
void EngineImpl::FillTexts(WorkloadId id) {
  const WorkloadState& workload = Workload(id);
  if (workload.place != Place::kQueued || !Queue(workload.queue).health.active) {
    return;
  }
  QueueState& queue = Queue(workload.queue);
  WorkloadClass& cls = queue.pending->Class(queue.pending->ClassOf(id));
  if (!cls.tried || cls.refusal.HasTexts()) {
    return;
  }
  const WorkloadId first = *cls.members.begin();
  const Assignment now =
      Assign(Context(queue, first, Reason::kText), Key(first).id, *SpecsOf(first, cls), {});
  cls.refusal.TakeTexts(now.refusal);
}

std::optional<PendingDecision> EngineImpl::WhyPending(const std::string& id) const {
  EnsureTree();
  const WorkloadId known = Find(id);
  if (!known.Valid() || Workload(known).phase != Phase::kPending) {
    return std::nullopt;
  }
  Explanation why = Explain(known, /*with_text=*/true);
  // The reason is that of the last pass, the numbers are those of now.
  const WorkloadState& workload = Workload(known);
  if (workload.place == Place::kQueued && why.reason != PendingReason::kBehindHead &&
      Queue(workload.queue).health.active) {
    const QueueState& queue = Queue(workload.queue);
    const WorkloadClass& cls = queue.pending->Class(queue.pending->ClassOf(known));
    if (cls.tried && !cls.refusal.held_back) {
      const Assignment now =
          Assign(Context(queue, known, Reason::kText), id, *SpecsOf(known, cls), {});
      if (now.mode != FitMode::kFit) {
        return PendingDecision{id, now.refusal.reason, TextOf(cls, now.refusal)};
      }
    }
  }
  return PendingDecision{id, why.reason, std::move(why.text)};
}

void EngineImpl::TellOne(WorkloadId id, bool numbers_too, PassResult& result) {
  WorkloadState& workload = Workload(id);
  if (workload.phase != Phase::kPending) {
    return;  // gone or admitted since it was noted
  }
  Explanation why = Explain(id, /*with_text=*/false);
  if (why.fingerprint == workload.told && (!numbers_too || why.details == workload.told_details)) {
    return;
  }
  if (why.reason != PendingReason::kBehindHead) {
    FillTexts(id);
  }
  why = Explain(id, /*with_text=*/true);
  if (why.fingerprint == workload.told && why.details == workload.told_details) {
    return;
  }
  workload.told = why.fingerprint;
  workload.told_details = why.details;
  result.pending.push_back({Key(id).id, why.reason, std::move(why.text)});
}

void EngineImpl::TellAll(PassResult& result) {
  for (auto at = lively_.begin(); at != lively_.end();) {
    QueueState& queue = Queue(at->second);
    if (queue.touched || queue.tell_all || !queue.untold.empty()) {
      TellQueue(queue, result);
    }
    if (queue.pending->HasNodeWaiters()) {
      node_waiting_.emplace(queue.name, at->second);
    }
    if (IsIdle(queue)) {
      queue.lively = false;
      at = lively_.erase(at);
    } else {
      ++at;
    }
  }
  auto by_order = [&](WorkloadId a, WorkloadId b) { return Before(Key(a), Key(b)); };
  std::sort(untold_.begin(), untold_.end(), by_order);
  for (const WorkloadId id : untold_) {
    TellOne(id, /*numbers_too=*/false, result);
  }
  untold_.clear();
}

void EngineImpl::TellQueue(QueueState& queue, PassResult& result) {
  const WorkloadId first = queue.pending->First();
  if (queue.health.active && first.Valid()) {
    Refresh(queue, queue.pending->ClassOf(first));
  }
  for (size_t index = 0; index < queue.changed.size(); ++index) {  // grows while walked
    if (queue.pending->HasClass(queue.changed[index])) {
      Refresh(queue, queue.changed[index]);
    }
  }
  std::vector<WorkloadId> listeners = std::move(queue.untold);
  queue.untold.clear();
  bool everybody = queue.tell_all;
  if (queue.config.strict_fifo && !queue.pending->Empty() &&
      queue.pending->Size() + queue.waiting.size() > 1) {
    const WorkloadId last = queue.pending->Behind();
    const uint64_t behind = Explain(last, /*with_text=*/false).fingerprint;
    everybody = everybody || behind != queue.told_behind;
    queue.told_behind = behind;
    if (queue.told_head.Valid()) {
      listeners.push_back(queue.told_head);  // no longer the head, perhaps
    }
  }
  if (everybody) {
    listeners = queue.pending->Order();
    listeners.insert(listeners.end(), queue.outside.begin(), queue.outside.end());
    listeners.insert(listeners.end(), queue.waiting.begin(), queue.waiting.end());
  } else if (!queue.config.strict_fifo) {
    for (const ClassId id : queue.changed) {
      if (queue.pending->HasClass(id)) {
        const WorkloadSet& members = queue.pending->Class(id).members;
        listeners.insert(listeners.end(), members.begin(), members.end());
      }
    }
  }
  std::sort(listeners.begin(), listeners.end(),
            [&](WorkloadId a, WorkloadId b) { return Before(Key(a), Key(b)); });
  if (first.Valid()) {
    // A number that moved is told to the head only.
    TellOne(first, /*numbers_too=*/true, result);
  }
  for (const WorkloadId id : listeners) {
    TellOne(id, /*numbers_too=*/false, result);
  }
  queue.changed.clear();
  queue.told_head = first;
  queue.tell_all = false;
  queue.touched = false;
}

}  // namespace tutti::engine
