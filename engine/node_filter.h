// SPDX-License-Identifier: Apache-2.0
// Which nodes admit a pod, apart from free amounts and host ports: kube-scheduler's filters
// NodeName, NodeUnschedulable, TaintToleration and NodeAffinity (1.36 default profile). Labels and
// taints of nodes are interned, so that a filter compares numbers; the rules themselves are those
// of api/core.h (each is evaluated once per distinct label value or taint set). Pure, not
// thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "api/core.h"

namespace tutti::engine {

// Reference-counted ids of strings; an id is reused once its last holder is gone.
class StringPool {
 public:
  int32_t Acquire(const std::string& text);
  void Hold(int32_t id) { ++entries_[id].refs; }  // REQUIRES: somebody has it
  void Release(int32_t id);
  [[nodiscard]] int32_t Find(const std::string& text) const;  // -1: no holder has it
  [[nodiscard]] const std::string& Text(int32_t id) const { return *entries_[id].text; }
  [[nodiscard]] size_t Size() const { return ids_.size(); }
  [[nodiscard]] size_t Limit() const { return entries_.size(); }  // every id is below

 private:
  struct Entry {
    const std::string* text = nullptr;  // the key in ids_
    int32_t refs = 0;
  };
  std::map<std::string, int32_t> ids_;
  std::vector<Entry> entries_;
  std::vector<int32_t> unused_;
};

// What the filters look at on one node.
struct NodeFacts {
  std::string name;
  std::vector<std::pair<int32_t, int32_t>> labels;  // ids of key and value, sorted
  int32_t taint_set = -1;                           // -1: no taint that keeps pods away
  bool unschedulable = false;
  bool operator==(const NodeFacts&) const = default;
};

// Owns the interned parts of all NodeFacts.
class FactPool {
 public:
  [[nodiscard]] NodeFacts Acquire(const api::Node& node);
  void Release(const NodeFacts& facts);

  [[nodiscard]] const StringPool& strings() const { return strings_; }
  // NoSchedule and NoExecute taints only, in the node's order.
  [[nodiscard]] const std::vector<api::Taint>& Taints(int32_t taint_set) const;
  [[nodiscard]] size_t TaintSets() const { return taint_sets_.size(); }
  [[nodiscard]] bool HasLabels(const NodeFacts& facts, const api::StringMap& labels) const;

 private:
  struct TaintSet {
    std::string key;  // of taint_ids_
    std::vector<api::Taint> taints;
    int32_t refs = 0;
  };
  StringPool strings_;
  std::map<std::string, int32_t> taint_ids_;
  std::vector<TaintSet> taint_sets_;
  std::vector<int32_t> unused_taint_sets_;
};

// What of the pod's rules is not decided by the capacity check; "" = all is. `devices`, `volumes`:
// their claims are decided.
[[nodiscard]] std::string LeftToScheduler(const api::PodShape& shape, bool devices, bool volumes);

enum class Verdict : uint8_t {
  kAdmits,
  kNoMatch,   // node name, node selector or required affinity
  kCordoned,  // unschedulable (the field or its taint)
  kTainted,   // any other NoSchedule or NoExecute taint that is not tolerated
};

// One pod's rules, ready to be asked about many nodes. Lives at most as long as its arguments and
// only until the pool changes.
class NodeFilter {
 public:
  // All four must outlive the filter.
  NodeFilter(const FactPool& pool, const api::PodShape& shape, const api::StringMap& more_selector,
             const std::vector<api::Toleration>& more_tolerations);

  [[nodiscard]] Verdict Check(const NodeFacts& facts) const;
  // The first taint of the node that is not tolerated, "key=value:effect"; "" when there is none.
  [[nodiscard]] std::string UntoleratedTaint(const NodeFacts& facts) const;

 private:
  struct Rule {
    const api::Requirement* requirement;
    int32_t key;  // -1: no node has this label
    bool if_absent;
    mutable std::unordered_map<int32_t, bool> by_value;
  };
  struct Term {
    std::vector<Rule> rules;
    api::NodeSelectorTerm fields;  // without expressions
  };

  [[nodiscard]] bool Tolerated(const api::Taint& taint) const;
  [[nodiscard]] Verdict TaintVerdict(int32_t taint_set) const;
  [[nodiscard]] bool Matches(const NodeFacts& facts) const;
  [[nodiscard]] bool Holds(const Rule& rule, const NodeFacts& facts) const;
  [[nodiscard]] bool Holds(const Term& term, const NodeFacts& facts) const;

  const FactPool& pool_;
  const api::PodShape& shape_;
  const std::vector<api::Toleration>& more_tolerations_;
  std::vector<std::pair<int32_t, int32_t>> selector_;  // all must be on the node
  bool impossible_selector_ = false;                   // names a label that no node has
  bool tolerates_cordon_ = false;
  std::vector<Term> terms_;
  mutable std::vector<int8_t> taint_memo_;  // by taint set: -1 unknown, else a Verdict
};

}  // namespace tutti::engine
