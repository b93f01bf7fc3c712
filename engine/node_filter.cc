// SPDX-License-Identifier: Apache-2.0
// See node_filter.h.
#include "engine/node_filter.h"

#include <algorithm>

namespace tutti::engine {
namespace {

constexpr std::string_view kCordonTaint = "node.kubernetes.io/unschedulable";
constexpr std::string_view kNoSchedule = "NoSchedule";
constexpr std::string_view kNoExecute = "NoExecute";

bool KeepsPodsAway(const api::Taint& taint) {
  return taint.effect == kNoSchedule || taint.effect == kNoExecute;
}

// Value of a label, -1 when absent.
int32_t ValueOf(const NodeFacts& facts, int32_t key) {
  for (const auto& [label, value] : facts.labels) {
    if (label == key)
      return value;
  }
  return -1;
}

}  // namespace

std::string LeftToScheduler(const api::PodShape& shape, bool devices, bool volumes) {
  std::string text;
  const auto add = [&](const std::string& what) { text += (text.empty() ? "" : ", ") + what; };
  if (shape.has_pod_affinity && !shape.rules)
    add("inter-pod affinity");
  if (shape.has_topology_spread && !shape.rules)
    add("topology spread (DoNotSchedule)");
  if (shape.volumes && !volumes)
    add("volume claims");
  if (shape.has_inline_disks)
    add("disks in the pod itself");
  if (!shape.claims.empty() && !devices)
    add("resource claims");
  if (shape.has_scheduling_gates)
    add("scheduling gates");
  if (!shape.scheduler_name.empty() && shape.scheduler_name != "default-scheduler") {
    add("schedulerName " + shape.scheduler_name);
  }
  return text;
}

int32_t StringPool::Acquire(const std::string& text) {
  auto [it, added] = ids_.try_emplace(text, 0);
  if (added) {
    if (unused_.empty()) {
      it->second = static_cast<int32_t>(entries_.size());
      entries_.emplace_back();
    } else {
      it->second = unused_.back();
      unused_.pop_back();
    }
    entries_[it->second] = Entry{&it->first, 0};
  }
  ++entries_[it->second].refs;
  return it->second;
}

void StringPool::Release(int32_t id) {
  Entry& entry = entries_[id];
  if (--entry.refs > 0)
    return;
  ids_.erase(ids_.find(*entry.text));
  entry.text = nullptr;
  unused_.push_back(id);
}

int32_t StringPool::Find(const std::string& text) const {
  auto it = ids_.find(text);
  return it == ids_.end() ? -1 : it->second;
}

NodeFacts FactPool::Acquire(const api::Node& node) {
  NodeFacts facts;
  facts.name = node.meta.name;
  facts.unschedulable = node.unschedulable;
  facts.labels.reserve(node.meta.labels.size());
  for (const auto& [key, value] : node.meta.labels) {
    facts.labels.emplace_back(strings_.Acquire(key), strings_.Acquire(value));
  }
  std::sort(facts.labels.begin(), facts.labels.end());

  std::vector<api::Taint> taints;
  std::string text;
  for (const api::Taint& taint : node.taints) {
    if (!KeepsPodsAway(taint))
      continue;
    taints.push_back(taint);
    for (const std::string* part : {&taint.key, &taint.value, &taint.effect}) {
      text += std::to_string(part->size()) + ":" + *part;
    }
  }
  if (taints.empty())
    return facts;
  auto [it, added] = taint_ids_.try_emplace(text, 0);
  if (added) {
    if (unused_taint_sets_.empty()) {
      it->second = static_cast<int32_t>(taint_sets_.size());
      taint_sets_.emplace_back();
    } else {
      it->second = unused_taint_sets_.back();
      unused_taint_sets_.pop_back();
    }
    taint_sets_[it->second] = TaintSet{text, std::move(taints), 0};
  }
  ++taint_sets_[it->second].refs;
  facts.taint_set = it->second;
  return facts;
}

void FactPool::Release(const NodeFacts& facts) {
  for (const auto& [key, value] : facts.labels) {
    strings_.Release(key);
    strings_.Release(value);
  }
  if (facts.taint_set < 0)
    return;
  TaintSet& set = taint_sets_[facts.taint_set];
  if (--set.refs > 0)
    return;
  taint_ids_.erase(set.key);
  set = TaintSet{};
  unused_taint_sets_.push_back(facts.taint_set);
}

const std::vector<api::Taint>& FactPool::Taints(int32_t taint_set) const {
  static const std::vector<api::Taint> kNone;
  return taint_set < 0 ? kNone : taint_sets_[taint_set].taints;
}

bool FactPool::HasLabels(const NodeFacts& facts, const api::StringMap& labels) const {
  for (const auto& [key, value] : labels) {
    const int32_t key_id = strings_.Find(key);
    const int32_t value_id = strings_.Find(value);
    if (key_id < 0 || value_id < 0 || ValueOf(facts, key_id) != value_id)
      return false;
  }
  return true;
}

NodeFilter::NodeFilter(const FactPool& pool, const api::PodShape& shape,
                       const api::StringMap& more_selector,
                       const std::vector<api::Toleration>& more_tolerations)
    : pool_(pool),
      shape_(shape),
      more_tolerations_(more_tolerations),
      taint_memo_(pool.TaintSets(), int8_t{-1}) {
  for (const api::StringMap* selector : {&shape.node_selector, &more_selector}) {
    for (const auto& [key, value] : *selector) {
      const int32_t key_id = pool.strings().Find(key);
      const int32_t value_id = pool.strings().Find(value);
      if (key_id < 0 || value_id < 0)
        impossible_selector_ = true;
      selector_.emplace_back(key_id, value_id);
    }
  }
  for (const api::NodeSelectorTerm& term : shape.required_affinity) {
    if (term.expressions.empty() && term.fields.empty())
      continue;  // matches nothing
    Term compiled{{}, {{}, term.fields}};
    for (const api::Requirement& requirement : term.expressions) {
      compiled.rules.push_back(
          Rule{&requirement, pool.strings().Find(requirement.key), requirement.Matches({}), {}});
    }
    terms_.push_back(std::move(compiled));
  }
  tolerates_cordon_ =
      Tolerated(api::Taint{std::string(kCordonTaint), "", std::string(kNoSchedule)});
}

Verdict NodeFilter::Check(const NodeFacts& facts) const {
  if (!Matches(facts))
    return Verdict::kNoMatch;
  if (facts.unschedulable && !tolerates_cordon_)
    return Verdict::kCordoned;
  return facts.taint_set < 0 ? Verdict::kAdmits : TaintVerdict(facts.taint_set);
}

std::string NodeFilter::UntoleratedTaint(const NodeFacts& facts) const {
  for (const api::Taint& taint : pool_.Taints(facts.taint_set)) {
    if (Tolerated(taint))
      continue;
    return taint.key + (taint.value.empty() ? "" : "=" + taint.value) + ":" + taint.effect;
  }
  return "";
}

bool NodeFilter::Tolerated(const api::Taint& taint) const {
  const auto tolerates = [&](const api::Toleration& t) { return t.Tolerates(taint); };
  return std::any_of(shape_.tolerations.begin(), shape_.tolerations.end(), tolerates) ||
         std::any_of(more_tolerations_.begin(), more_tolerations_.end(), tolerates);
}

Verdict NodeFilter::TaintVerdict(int32_t taint_set) const {
  int8_t& memo = taint_memo_[taint_set];
  if (memo < 0) {
    Verdict verdict = Verdict::kAdmits;
    for (const api::Taint& taint : pool_.Taints(taint_set)) {
      if (Tolerated(taint))
        continue;
      verdict = taint.key == kCordonTaint ? Verdict::kCordoned : Verdict::kTainted;
      if (verdict == Verdict::kTainted)
        break;
    }
    memo = static_cast<int8_t>(verdict);
  }
  return static_cast<Verdict>(memo);
}

bool NodeFilter::Matches(const NodeFacts& facts) const {
  if (!shape_.node_name.empty() && shape_.node_name != facts.name)
    return false;
  if (impossible_selector_)
    return false;
  for (const auto& [key, value] : selector_) {
    if (ValueOf(facts, key) != value)
      return false;
  }
  if (!shape_.has_required_affinity && shape_.required_affinity.empty())
    return true;
  return std::any_of(terms_.begin(), terms_.end(),
                     [&](const Term& term) { return Holds(term, facts); });
}

bool NodeFilter::Holds(const Rule& rule, const NodeFacts& facts) const {
  const int32_t value = rule.key < 0 ? -1 : ValueOf(facts, rule.key);
  if (value < 0)
    return rule.if_absent;
  auto [it, added] = rule.by_value.try_emplace(value, false);
  if (added) {
    it->second = rule.requirement->Matches({{rule.requirement->key, pool_.strings().Text(value)}});
  }
  return it->second;
}

bool NodeFilter::Holds(const Term& term, const NodeFacts& facts) const {
  for (const Rule& rule : term.rules) {
    if (!Holds(rule, facts))
      return false;
  }
  return term.fields.fields.empty() || term.fields.Matches({}, facts.name);
}

}  // namespace tutti::engine
