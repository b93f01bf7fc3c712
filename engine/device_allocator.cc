// SPDX-License-Identifier: Apache-2.0
// See device_allocator.h.
#include "engine/device_allocator.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>

#include "engine/device_share.h"

namespace tutti::engine {
namespace {

enum class Step {
  kDone,
  kNo,
  kTooMany,  // more than 32 devices in one claim: alternatives with fewer may still do
  kStop,     // end_ says why
};

struct Location {
  size_t pool = 0;
  size_t device = 0;
};

// What a constraint has seen: the values of the devices that it covers.
struct ConstraintState {
  const std::string* attribute = nullptr;
  bool distinct = false;
  std::vector<const api::cel::AttributeValue*> values;
};

struct Pick {
  size_t claim = 0;
  size_t request = 0;
  size_t alternative = 0;
  size_t pool = 0;
  int32_t place = -1;
  bool admin = false;
  bool shared = false;
  bool charged = false;
  Capacities consumed;
};

struct Candidate {
  size_t pool = 0;
  int32_t place = -1;
};

// A request's place in the search.
struct Position {
  size_t claim = 0;
  size_t request = 0;
  size_t alternative = 0;
  int64_t device = 0;
};

class Search {
 public:
  Search(const DeviceInventory& inventory, const DeviceBook& book, const std::string& node,
         const std::vector<const CompiledClaim*>& claims)
      : inventory_(inventory),
        book_(book),
        node_(node),
        claims_(claims),
        view_(inventory.ViewOf(node)),
        counters_(view_.pools.size()) {}

  Allocation Run(int64_t& steps, bool with_selectors) {
    Allocation out;
    budget_ = std::min(steps, kStepsPerPod);
    const int64_t before = budget_;
    const bool found = Prepare() && Next({}, false, {}) == Step::kDone;
    steps -= before - std::max<int64_t>(0, budget_);
    if (found) {
      out.end = AllocationEnd::kDone;
      Collect(out, with_selectors);
    } else {
      out.end = end_;
      out.message = std::move(message_);
    }
    return out;
  }

 private:
  // --- before the search

  bool Prepare() {
    size_t requests = 0;
    for (const CompiledClaim* claim : claims_)
      requests += claim->requests.size();
    if (claims_.size() > kMaxClaimsToAllocate || requests > kMaxClaimsToAllocate * 32)
      return Stop(AllocationEnd::kGaveUp, "");
    constraints_.resize(claims_.size());
    devices_in_claim_.resize(claims_.size());
    int64_t least_in_all = 0;
    for (size_t c = 0; c < claims_.size(); ++c) {
      int64_t least = 0;
      for (size_t r = 0; r < claims_[c]->requests.size(); ++r) {
        const CompiledRequest& request = claims_[c]->requests[r];
        int64_t fewest = std::numeric_limits<int64_t>::max();
        for (size_t a = 0; a < request.alternatives.size(); ++a) {
          if (request.alternatives[a].all && !FindAll({c, r, a, 0}))
            return false;
          fewest = std::min(fewest, CountOf({c, r, a, 0}));
        }
        least = api::SaturatingAdd(least, fewest);
      }
      if (least > api::kMaxDevicesPerClaim) {
        return Stop(AllocationEnd::kInvalid, claims_[c]->label + ": it asks for " +
                                                 std::to_string(least) +
                                                 " devices; a claim can have at most " +
                                                 std::to_string(api::kMaxDevicesPerClaim));
      }
      least_in_all += least;
      for (const api::DeviceConstraint& constraint : claims_[c]->spec->constraints) {
        const bool match = !constraint.match_attribute.empty();
        constraints_[c].push_back(
            {match ? &constraint.match_attribute : &constraint.distinct_attribute, !match, {}});
      }
    }
    picks_.reserve(static_cast<size_t>(least_in_all));
    return true;
  }

  // Which devices "all" means here.
  bool FindAll(const Position& at) {
    const DeviceAlternative& alternative = AlternativeAt(at);
    const auto refuse = [&](const std::string& what) {
      return Stop(AllocationEnd::kUpdating, Label(at) + ": it asks for all devices, but " + what);
    };
    if (const std::string far = inventory_.FarProblem(node_); !far.empty())
      return refuse(far);
    std::vector<Candidate>& all = all_[{at.claim, at.request, at.alternative}];
    for (size_t p = 0; p < view_.pools.size(); ++p) {
      const PoolView& pool = view_.pools[p];
      if (pool.incomplete)
        return refuse("resource pool " + pool.Name() + " is being updated");
      if (!pool.invalid.empty())
        return refuse("resource pool " + pool.Name() + " is invalid: " + pool.invalid);
      for (const PoolView::Device& device : pool.devices) {
        const Selection selection = Selected(at, device);
        if (selection == Selection::kError)
          return false;
        if (selection == Selection::kMatches &&
            ConsumedBy(alternative.request->capacity, *inventory_.At(device.place).device) &&
            HasCapacity(at, device.place)) {
          all.push_back({p, device.place});
        }
      }
    }
    return true;
  }

  // --- the search

  // Everything from this position on.
  Step Next(Position at, bool in_list, Location start) {
    if (--budget_ < 0)
      return Stopped(AllocationEnd::kGaveUp);
    if (at.claim >= claims_.size())
      return Step::kDone;
    const CompiledClaim& claim = *claims_[at.claim];
    if (at.request >= claim.requests.size()) {
      const Step step = Next({at.claim + 1, 0, 0, 0}, false, {});
      // Of no concern to this claim: an earlier claim may change what the later one needs.
      return step == Step::kTooMany ? Step::kNo : step;
    }
    const CompiledRequest& request = claim.requests[at.request];
    if (request.is_list && !in_list) {
      bool all_too_many = true;
      for (size_t a = 0; a < request.alternatives.size(); ++a) {
        const Step step = Next({at.claim, at.request, a, 0}, true, {});
        if (step == Step::kDone || step == Step::kStop)
          return step;
        all_too_many &= step == Step::kTooMany;
      }
      return all_too_many ? Step::kTooMany : Step::kNo;
    }
    const DeviceAlternative& alternative = request.alternatives[at.alternative];
    const int64_t count = CountOf(at);
    if (alternative.all && count == 0)
      return Step::kNo;  // "all" is at least one
    if (at.device >= count)
      return Next({at.claim, at.request + 1, 0, 0}, false, {});
    if (devices_in_claim_[at.claim] + count - at.device > api::kMaxDevicesPerClaim)
      return Step::kTooMany;
    return alternative.all ? TakeOneOfAll(at, in_list) : TryDevices(at, in_list, start);
  }

  // The order among "all" devices doesn't matter, so there is nothing else to try.
  Step TakeOneOfAll(const Position& at, bool in_list) {
    const Candidate& candidate = all_[{at.claim, at.request, at.alternative}][at.device];
    bool constraint_failed = false;
    if (!Take(at, candidate, constraint_failed)) {
      if (!constraint_failed)
        return Step::kNo;
      Stop(AllocationEnd::kInvalid, Label(at) + ": it asks for all devices, but device " +
                                        NameOf(candidate.place) + " breaks a constraint");
      return Step::kStop;
    }
    const Step step = Next({at.claim, at.request, at.alternative, at.device + 1}, in_list, {});
    if (step != Step::kDone)
      Undo();
    return step;
  }

  // Only combinations are tried, not permutations: the next device of a request comes after this.
  Step TryDevices(const Position& at, bool in_list, Location start) {
    const DeviceAlternative& alternative = AlternativeAt(at);
    for (size_t p = start.pool; p < view_.pools.size(); ++p) {
      const PoolView& pool = view_.pools[p];
      for (size_t d = p == start.pool ? start.device : 0; d < pool.devices.size(); ++d) {
        if (--budget_ < 0)
          return Stopped(AllocationEnd::kGaveUp);
        const int32_t place = pool.devices[d].place;
        if (InUse(at, alternative.request->admin_access, place))
          continue;
        const Selection selection = Selected(at, pool.devices[d]);
        if (selection == Selection::kError)
          return Step::kStop;
        bool ignored = false;
        if (selection != Selection::kMatches || !Take(at, {p, place}, ignored))
          continue;
        const Step step =
            Next({at.claim, at.request, at.alternative, at.device + 1}, in_list, {p, d + 1});
        if (step == Step::kDone)
          return step;
        Undo();
        if (step != Step::kNo)
          return step;
      }
    }
    return Step::kNo;
  }

  // --- one device

  [[nodiscard]] bool InUse(const Position& at, bool admin, int32_t place) const {
    const int32_t id = inventory_.At(place).id;
    if (!admin && book_.Whole(id) > 0)
      return true;
    return std::any_of(picks_.begin(), picks_.end(), [&](const Pick& pick) {
      return !pick.shared && inventory_.At(pick.place).id == id &&
             (!admin || pick.claim == at.claim);
    });
  }

  // kUnknown never; kError has stopped the search.
  Selection Selected(const Position& at, const PoolView::Device& device) {
    const DeviceAlternative& alternative = AlternativeAt(at);
    for (size_t s = 0; s < alternative.selectors.size(); ++s) {
      const Selection selection = inventory_.Select(alternative.selectors[s], device.place);
      if (selection == Selection::kMatches)
        continue;
      if (selection == Selection::kError) {
        const bool of_class = s < alternative.class_selectors;
        const size_t number = of_class ? s : s - alternative.class_selectors;
        Stop(AllocationEnd::kInvalid,
             Label(at) + ": selector " + std::to_string(number) +
                 (of_class ? " of device class " + alternative.request->device_class : "") +
                 ", device " + NameOf(device.place) + ": " +
                 inventory_.SelectorError(alternative.selectors[s], device.place));
      }
      return selection;
    }
    return device.here ? Selection::kMatches : Selection::kDiffers;
  }

  [[nodiscard]] bool HasCapacity(const Position& at, int32_t place) const {
    const PublishedDevice& published = inventory_.At(place);
    const Capacities& asked = AlternativeAt(at).request->capacity;
    if (!published.device->facts.allow_multiple_allocations && asked.empty() &&
        published.plain_capacity) {
      return true;  // all of it, and it is free
    }
    const std::optional<Capacities> consumed = ConsumedBy(asked, *published.device);
    return consumed && CapacityLeft(*published.device, *consumed, book_.Consumed(published.id),
                                    PickedCapacity(published.id));
  }

  // What the shares picked so far consume of a device; null when there is none. Valid until the
  // next call.
  [[nodiscard]] const Capacities* PickedCapacity(int32_t id) const {
    picked_capacity_.clear();
    bool any = false;
    for (const Pick& pick : picks_) {
      if (!pick.shared || inventory_.At(pick.place).id != id)
        continue;
      any = true;
      for (const auto& [name, amount] : pick.consumed) {
        const auto [it, added] = picked_capacity_.emplace(name, amount);
        if (!added)
          it->second = it->second + amount;
      }
    }
    return any ? &picked_capacity_ : nullptr;
  }

  [[nodiscard]] bool Shared(int32_t id) const {
    return book_.Shares(id) > 0 || std::any_of(picks_.begin(), picks_.end(), [&](const Pick& pick) {
             return pick.shared && inventory_.At(pick.place).id == id;
           });
  }

  // Takes a selected device if all else allows it.
  bool Take(const Position& at, const Candidate& candidate, bool& constraint_failed) {
    const DeviceAlternative& alternative = AlternativeAt(at);
    const PublishedDevice& published = inventory_.At(candidate.place);
    const api::Device& device = *published.device;
    Pick pick;
    pick.claim = at.claim;
    pick.request = at.request;
    pick.alternative = at.alternative;
    pick.pool = candidate.pool;
    pick.place = candidate.place;
    pick.admin = alternative.request->admin_access;
    pick.shared = device.facts.allow_multiple_allocations;
    if (InUse(at, pick.admin, candidate.place) || !HasCapacity(at, candidate.place) ||
        TaintBlocks(device, *alternative.request)) {
      return false;
    }
    // A shared device takes its counters once, with the first share.
    pick.charged = !published.charges.empty() && !(pick.shared && Shared(published.id));
    if (pick.charged && !Charge(candidate.pool, published))
      return false;
    for (size_t i = 0; i < alternative.constraints.size(); ++i) {
      if (AddTo(constraints_[at.claim][alternative.constraints[i]], device))
        continue;
      while (i-- > 0)
        constraints_[at.claim][alternative.constraints[i]].values.pop_back();
      if (pick.charged)
        Discharge(candidate.pool, published);
      constraint_failed = true;
      return false;
    }
    if (pick.shared)
      pick.consumed = *ConsumedBy(alternative.request->capacity, device);
    ++devices_in_claim_[at.claim];
    picks_.push_back(std::move(pick));
    return true;
  }

  void Undo() {
    const Pick& pick = picks_.back();
    const DeviceAlternative& alternative =
        AlternativeAt({pick.claim, pick.request, pick.alternative, 0});
    for (const size_t constraint : alternative.constraints)
      constraints_[pick.claim][constraint].values.pop_back();
    if (pick.charged)
      Discharge(pick.pool, inventory_.At(pick.place));
    --devices_in_claim_[pick.claim];
    picks_.pop_back();
  }

  static bool AddTo(ConstraintState& state, const api::Device& device) {
    const api::cel::AttributeValue* value = api::FindAttribute(device, *state.attribute);
    if (value == nullptr)
      return false;
    if (state.distinct) {
      for (const api::cel::AttributeValue* other : state.values) {
        if (api::IsListAttribute(*value) || api::SameAttribute(*value, *other))
          return false;
      }
    } else if (!state.values.empty() && !api::SameAttribute(*value, *state.values.front())) {
      return false;
    }
    state.values.push_back(value);
    return true;
  }

  // Every counter of the pool must stay at 0 or above, also those that this device leaves alone: a
  // pool that is over-committed gives nothing that counts.
  bool Charge(size_t pool, const PublishedDevice& published) {
    std::optional<std::vector<api::Quantity>>& left = counters_[pool];
    if (!left)
      left = CountersLeft(inventory_, book_, *view_.pools[pool].generation);
    for (const auto& [counter, amount] : published.charges)
      (*left)[counter] = (*left)[counter] - amount;
    if (std::none_of(left->begin(), left->end(),
                     [](const api::Quantity& amount) { return amount.Sign() < 0; })) {
      return true;
    }
    Discharge(pool, published);
    return false;
  }

  void Discharge(size_t pool, const PublishedDevice& published) {
    for (const auto& [counter, amount] : published.charges)
      (*counters_[pool])[counter] = (*counters_[pool])[counter] + amount;
  }

  // --- the result

  void Collect(Allocation& out, bool with_selectors) const {
    out.claims.resize(claims_.size());
    for (size_t c = 0; c < claims_.size(); ++c)
      out.claims[c].devices.reserve(static_cast<size_t>(devices_in_claim_[c]));
    for (const Pick& pick : picks_) {
      PickedDevice device;
      device.place = pick.place;
      device.request = pick.request;
      device.alternative = pick.alternative;
      device.admin = pick.admin;
      device.use = {inventory_.At(pick.place).id, pick.shared, pick.consumed};
      out.claims[pick.claim].devices.push_back(std::move(device));
    }
    for (AllocatedClaim& claim : out.claims) {
      if (with_selectors)
        claim.node_selector = SelectorOf(claim);
      claim.must_be_bound =
          std::any_of(claim.devices.begin(), claim.devices.end(), [&](const PickedDevice& device) {
            return !inventory_.At(device.place).device->binding_conditions.empty();
          });
    }
  }

  // One device that is local to a node ties the claim to it; otherwise all requirements of the
  // devices together.
  [[nodiscard]] std::optional<api::NodeSelector> SelectorOf(const AllocatedClaim& claim) const {
    api::NodeSelectorTerm term;
    const auto add = [](const std::vector<api::Requirement>& from,
                        std::vector<api::Requirement>& to) {
      for (const api::Requirement& requirement : from) {
        if (std::find(to.begin(), to.end(), requirement) == to.end())
          to.push_back(requirement);
      }
    };
    for (const PickedDevice& picked : claim.devices) {
      const PublishedDevice& published = inventory_.At(picked.place);
      const bool per_device = published.slice->per_device_nodes;
      const std::string& node_name =
          per_device ? published.device->node_name : published.slice->node_name;
      const std::optional<api::NodeSelector>& selector =
          per_device ? published.device->node_selector : published.slice->node_selector;
      if (!node_name.empty() || published.device->binds_to_node) {
        api::NodeSelectorTerm here;
        here.fields.push_back({"metadata.name", "In", {node_}});
        return api::NodeSelector{{here}};
      }
      if (selector && !selector->terms.empty()) {
        add(selector->terms.front().fields, term.fields);
        add(selector->terms.front().expressions, term.expressions);
      }
    }
    if (term.fields.empty() && term.expressions.empty())
      return std::nullopt;
    return api::NodeSelector{{std::move(term)}};
  }

  // --- small parts

  [[nodiscard]] const DeviceAlternative& AlternativeAt(const Position& at) const {
    return claims_[at.claim]->requests[at.request].alternatives[at.alternative];
  }
  [[nodiscard]] int64_t CountOf(const Position& at) const {
    const DeviceAlternative& alternative = AlternativeAt(at);
    if (!alternative.all)
      return alternative.count;
    return static_cast<int64_t>(all_.at({at.claim, at.request, at.alternative}).size());
  }
  [[nodiscard]] std::string Label(const Position& at) const {
    return claims_[at.claim]->label + ": request " + AlternativeAt(at).label;
  }
  [[nodiscard]] std::string NameOf(int32_t place) const {
    return inventory_.NameOf(inventory_.At(place).id);
  }
  bool Stop(AllocationEnd end, std::string message) {
    end_ = end;
    message_ = std::move(message);
    return false;
  }
  Step Stopped(AllocationEnd end) {
    Stop(end, "");
    return Step::kStop;
  }

  const DeviceInventory& inventory_;
  const DeviceBook& book_;
  const std::string& node_;
  const std::vector<const CompiledClaim*>& claims_;
  const NodeView& view_;

  std::vector<std::optional<std::vector<api::Quantity>>> counters_;  // left, by pool of the view
  std::vector<std::vector<ConstraintState>> constraints_;            // by claim
  std::vector<int64_t> devices_in_claim_;
  std::map<std::array<size_t, 3>, std::vector<Candidate>> all_;  // claim, request, alternative
  std::vector<Pick> picks_;
  mutable Capacities picked_capacity_;
  int64_t budget_ = 0;
  AllocationEnd end_ = AllocationEnd::kNoDevices;
  std::string message_;
};

}  // namespace

DeviceUses AllocatedClaim::Uses() const {
  DeviceUses uses;
  for (const PickedDevice& device : devices) {
    if (!device.admin)
      uses.push_back(device.use);
  }
  return uses;
}

bool TaintBlocks(const api::Device& device, const api::ExactRequest& request) {
  return std::any_of(device.taints.begin(), device.taints.end(), [&](const api::Taint& taint) {
    if (taint.effect != "NoSchedule" && taint.effect != "NoExecute")
      return false;
    return std::none_of(
        request.tolerations.begin(), request.tolerations.end(),
        [&](const api::Toleration& toleration) { return toleration.Tolerates(taint); });
  });
}

std::vector<api::Quantity> CountersLeft(const DeviceInventory& inventory, const DeviceBook& book,
                                        const PoolGeneration& generation) {
  std::vector<api::Quantity> left;
  left.reserve(generation.counters.size());
  for (const SharedCounter& counter : generation.counters)
    left.push_back(counter.total);
  for (const int32_t place : generation.devices) {
    const PublishedDevice& published = inventory.At(place);
    if (published.charges.empty() || !book.Taken(published.id))
      continue;
    for (const auto& [counter, amount] : published.charges)
      left[counter] = left[counter] - amount;
  }
  return left;
}

Allocation AllocateDevices(const DeviceInventory& inventory, const DeviceBook& book,
                           const std::string& node, const std::vector<const CompiledClaim*>& claims,
                           int64_t& steps, bool with_selectors) {
  return Search(inventory, book, node, claims).Run(steps, with_selectors);
}

}  // namespace tutti::engine
