// SPDX-License-Identifier: Apache-2.0
// A trial of changes to quota usage and node reservations: each change takes effect at once and is
// logged; unless Commit() is called, the destructor takes all of them back.
#pragma once

#include <string>
#include <vector>

#include "engine/capacity.h"
#include "engine/quota_tree.h"

namespace tutti::engine {

class Stage {
 public:
  Stage(QuotaTree& tree, Capacity& capacity) : tree_(tree), capacity_(capacity) {}
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  void AddUsage(NodeId node, FlavorResourceId id, Amount amount);
  void Reserve(const Gang& gang, const Placement& placement);
  void Commit();

 private:
  struct Change {
    NodeId node;
    FlavorResourceId id;
    Amount amount = 0;
  };
  QuotaTree& tree_;
  Capacity& capacity_;
  std::vector<Change> changes_;
  std::vector<std::string> reserved_;
};

}  // namespace tutti::engine
