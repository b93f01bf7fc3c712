// SPDX-License-Identifier: Apache-2.0
// Trials: what nodes would take if some gangs were gone. The books are changed and put back;
// see CapacityTrial in capacity.h.
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "engine/capacity_impl.h"

namespace tutti::engine {

// What a holding takes of its node.
void CapacityLedger::Count(NodeState& node, const Holding& holding, int sign) {
  for (const auto& [resource, amount] : holding.load->first.requests) {
    node.At(resource).used += Wide{amount} * (holding.bound + holding.promised) * sign;
  }
  node.promised += int64_t{holding.promised} * sign;
}

CapacityLedger::Hidden CapacityLedger::Hide(const std::string& gang_id) {
  Hidden hidden;
  const auto gang = gangs_.find(gang_id);
  if (gang == gangs_.end())
    return hidden;
  for (auto& [name, node] : nodes_) {
    for (const Holding& holding : node.holdings) {
      if (holding.gang == &gang->second) {
        Count(node, holding, -1);
        hidden.emplace_back(&node, holding);
      }
    }
    std::erase_if(node.holdings,
                  [&](const Holding& holding) { return holding.gang == &gang->second; });
  }
  return hidden;
}

void CapacityLedger::Show(const Hidden& hidden) {
  for (const auto& [node, holding] : hidden) {
    node->holdings.push_back(holding);
    Count(*node, holding, +1);
  }
}

CapacityLedger::Hidden CapacityLedger::Promise(const Gang& gang, const Placement& placement) {
  Hidden promised;
  for (const PlacementSlot& slot : placement) {
    const auto node = nodes_.find(slot.node);
    if (node == nodes_.end() || slot.count <= 0 || slot.pod_set >= gang.pod_sets.size())
      continue;
    const Holding holding{nullptr, AcquireLoad(*gang.pod_sets[slot.pod_set].shape), 0, slot.count};
    node->second.holdings.push_back(holding);
    Count(node->second, holding, +1);
    promised.emplace_back(&node->second, holding);
  }
  return promised;
}

void CapacityLedger::Unpromise(const Hidden& promised) {
  for (const auto& [node, holding] : promised) {
    Count(*node, holding, -1);
    std::erase_if(node->holdings, [](const Holding& known) { return known.gang == nullptr; });
    std::erase_if(node->cells, [](const Cell& c) { return c.allocatable == 0 && c.used == 0; });
    ReleaseLoad(holding.load);
  }
}

class CapacityTrialImpl final : public CapacityTrial {
 public:
  explicit CapacityTrialImpl(CapacityImpl& capacity) : capacity_(capacity) {
    capacity_.on_trial_ = true;
    capacity_.devices_.SetTrial(true);
  }
  CapacityTrialImpl(const CapacityTrialImpl&) = delete;
  CapacityTrialImpl& operator=(const CapacityTrialImpl&) = delete;
  ~CapacityTrialImpl() override {
    for (auto use = taken_.rbegin(); use != taken_.rend(); ++use)
      capacity_.devices_.TrialBook().Give(*use);
    capacity_.ledger_.Unpromise(promised_);
    SetGone({});
    capacity_.on_trial_ = false;
    capacity_.devices_.SetTrial(false);
  }

  void SetGone(const std::set<std::string>& gangs) override {
    for (auto known = gone_.begin(); known != gone_.end();) {
      if (gangs.contains(known->first)) {
        ++known;
        continue;
      }
      capacity_.ledger_.Show(known->second);
      capacity_.devices_.Show(known->first);
      known = gone_.erase(known);
    }
    for (const std::string& gang : gangs) {
      if (!gone_.contains(gang)) {
        gone_.emplace(gang, capacity_.ledger_.Hide(gang));
        capacity_.devices_.Hide(gang);
      }
    }
  }

  void Promise(const Gang& gang, const Placement& placement) override {
    CapacityLedger::Hidden more = capacity_.ledger_.Promise(gang, placement);
    promised_.insert(promised_.end(), more.begin(), more.end());
    for (const PodPromise& pod : CapacityImpl::PromisesOf(gang, placement)) {
      for (const PromisedClaim& claim : pod.claims) {
        for (const DeviceUse& use : claim.uses) {
          capacity_.devices_.TrialBook().Take(use);
          taken_.push_back(use);
        }
      }
    }
  }

  [[nodiscard]] FitResult Check(const Gang& gang) const override {
    return capacity_.Check(gang, Reason::kNone);
  }

 private:
  CapacityImpl& capacity_;
  std::map<std::string, CapacityLedger::Hidden> gone_;
  CapacityLedger::Hidden promised_;
  std::vector<DeviceUse> taken_;
};

std::unique_ptr<CapacityTrial> CapacityImpl::Try() {
  return std::make_unique<CapacityTrialImpl>(*this);
}

}  // namespace tutti::engine
