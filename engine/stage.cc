// SPDX-License-Identifier: Apache-2.0
// See stage.h. Usage of the tree is a function of the leaves' sums, so undoing in any order is
// exact.
#include "engine/stage.h"

namespace tutti::engine {

Stage::~Stage() {
  for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) {
    tree_.RemoveUsage(change->node, change->id, change->amount);
  }
  for (const std::string& gang : reserved_) {
    capacity_.Release(gang);
  }
}

void Stage::AddUsage(NodeId node, FlavorResourceId id, Amount amount) {
  tree_.AddUsage(node, id, amount);
  changes_.push_back({node, id, amount});
}

void Stage::Reserve(const Gang& gang, const Placement& placement) {
  capacity_.Reserve(gang, placement);
  reserved_.push_back(gang.id);
}

void Stage::Commit() {
  changes_.clear();
  reserved_.clear();
}

}  // namespace tutti::engine
