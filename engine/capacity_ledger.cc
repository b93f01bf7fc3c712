// SPDX-License-Identifier: Apache-2.0
// See capacity_ledger.h.
#include "engine/capacity_ledger.h"

#include <algorithm>
#include <array>

namespace tutti::engine {

// Names that kube-scheduler's Fit looks at; all others it ignores on both sides.
bool CountsForFit(std::string_view name) {
  if (name == "cpu" || name == "memory" || name == "ephemeral-storage")
    return true;
  if (name.starts_with("hugepages-") || name.starts_with("attachable-volumes-"))
    return true;
  if (name.find('/') == std::string_view::npos)
    return false;
  return name.find("kubernetes.io/") != std::string_view::npos || !name.starts_with("requests.");
}

bool PortsClash(const std::vector<api::HostPort>& a, const std::vector<api::HostPort>& b) {
  for (const api::HostPort& x : a) {
    for (const api::HostPort& y : b) {
      if (api::Clash(x, y))
        return true;
    }
  }
  return false;
}

std::vector<api::HostPort> PortsOf(const api::PodShape& shape) {
  std::vector<api::HostPort> ports;
  for (const api::HostPort& port : shape.host_ports) {
    if (port.port > 0)
      ports.push_back(port);
  }
  std::sort(ports.begin(), ports.end());
  return ports;
}

namespace {

// What promises take of a resource of the node.
Wide Promised(const NodeState& node, int32_t resource) {
  Wide sum = 0;
  for (const Holding& holding : node.holdings) {
    if (holding.promised == 0)
      continue;
    for (const auto& [id, amount] : holding.load->first.requests) {
      if (id == resource)
        sum += Wide{amount} * holding.promised;
    }
  }
  return sum;
}

}  // namespace

int64_t FreeOn(const NodeState& node, int32_t resource, Basis basis) {
  const Cell* cell = node.Find(resource);
  if (cell == nullptr)
    return 0;
  Wide used = basis == Basis::kEmpty ? Wide{0} : cell->used;
  if (basis == Basis::kBoundOnly && node.promised > 0)
    used -= Promised(node, resource);
  return used < cell->allocatable ? static_cast<int64_t>(cell->allocatable - used) : 0;
}

bool PortTakenOn(const NodeState& node, const std::vector<api::HostPort>& ports, Basis basis) {
  if (ports.empty() || basis == Basis::kEmpty)
    return false;
  return std::any_of(node.holdings.begin(), node.holdings.end(), [&](const Holding& holding) {
    return (basis == Basis::kNow || holding.bound > 0) &&
           PortsClash(ports, holding.load->first.ports);
  });
}

CapacityLedger::CapacityLedger() {
  resource_ids_.emplace(kPodsResource, kPodsId);
  resource_names_.emplace_back(kPodsResource);
}

int32_t CapacityLedger::FindResource(const std::string& name) const {
  auto it = resource_ids_.find(name);
  return it == resource_ids_.end() ? -1 : it->second;
}

// --- small parts
// ----------------------------------------------------------------------------------------

int32_t CapacityLedger::ResourceId(const std::string& name) {
  auto [it, added] = resource_ids_.try_emplace(name, static_cast<int32_t>(resource_names_.size()));
  if (added)
    resource_names_.push_back(name);
  return it->second;
}

LoadRef CapacityLedger::AcquireLoad(const api::PodShape& shape) {
  Load load;
  load.requests.emplace_back(kPodsId, 1);
  for (const auto& [name, amount] : shape.requests) {
    if (amount > 0 && CountsForFit(name))
      load.requests.emplace_back(ResourceId(name), amount);
  }
  std::sort(load.requests.begin(), load.requests.end());
  load.ports = PortsOf(shape);
  auto it = loads_.try_emplace(std::move(load), 0).first;
  ++it->second;
  return it;
}

void CapacityLedger::ReleaseLoad(LoadRef load) {
  if (--load->second == 0)
    loads_.erase(load);
}

NodeState& CapacityLedger::NodeOf(const std::string& name) {
  auto [it, added] = nodes_.try_emplace(name);
  if (!added)
    return it->second;
  it->second.facts.name = name;
  if (free_slots_.empty()) {
    it->second.slot = by_slot_.size();
    by_slot_.push_back(&it->second);
  } else {
    it->second.slot = free_slots_.back();
    free_slots_.pop_back();
    by_slot_[it->second.slot] = &it->second;
  }
  marks_.Mark(it->second.slot);
  return it->second;
}

void CapacityLedger::DropIfUnused(NodeState* node) {
  if (node->present || !node->holdings.empty())
    return;
  marks_.Mark(node->slot);
  by_slot_[node->slot] = nullptr;
  free_slots_.push_back(node->slot);
  nodes_.erase(nodes_.find(std::string(node->facts.name)));
}

GangState& CapacityLedger::GangOf(const std::string& id) {
  auto [it, added] = gangs_.try_emplace(id);
  if (added)
    it->second.id = id;
  return it->second;
}

void CapacityLedger::DropIfUnused(GangState* gang) {
  if (gang->reservation || gang->bound > 0)
    return;
  gangs_.erase(gangs_.find(std::string(gang->id)));
}

std::vector<api::HostPort> CapacityLedger::PortsInUse(const NodeState& node) {
  std::vector<api::HostPort> ports;
  for (const Holding& holding : node.holdings) {
    const std::vector<api::HostPort>& more = holding.load->first.ports;
    ports.insert(ports.end(), more.begin(), more.end());
  }
  std::sort(ports.begin(), ports.end());
  ports.erase(std::unique(ports.begin(), ports.end()), ports.end());
  return ports;
}

void CapacityLedger::Touch(NodeState* node) {
  for (const Touched& touched : touched_) {
    if (touched.node == node)
      return;
  }
  marks_.Mark(node->slot);
  touched_.push_back({node, node->cells, PortsInUse(*node)});
}

// Ends a call: the version grows if any node has more room than before; forgets unused nodes.
void CapacityLedger::Finish() {
  bool helps = false;
  for (const Touched& before : touched_) {
    if (!before.node->present)
      continue;
    for (const Cell& cell : before.cells) {
      const Cell* after = before.node->Find(cell.resource);
      helps |= cell.used > (after == nullptr ? Wide{0} : after->used);
    }
    const std::vector<api::HostPort> ports = PortsInUse(*before.node);
    helps |= !std::includes(ports.begin(), ports.end(), before.ports.begin(), before.ports.end());
  }
  for (const Touched& before : touched_)
    DropIfUnused(before.node);
  touched_.clear();
  if (helps)
    ++version_;
}

void CapacityLedger::Add(NodeState* node, GangState* gang, LoadRef load, int32_t bound,
                         int32_t promised) {
  Touch(node);
  gang->bound += bound;
  auto it = std::find_if(node->holdings.begin(), node->holdings.end(),
                         [&](const Holding& h) { return h.gang == gang && h.load == load; });
  if (it == node->holdings.end()) {
    node->holdings.push_back({gang, load, 0, 0});
    it = node->holdings.end() - 1;
    ++load->second;
  }
  it->bound += bound;
  it->promised += promised;
  node->promised += promised;
  for (const auto& [resource, amount] : load->first.requests) {
    Cell& cell = node->At(resource);
    cell.used += Wide{amount} * (bound + promised);
  }
  if (it->bound == 0 && it->promised == 0) {
    *it = node->holdings.back();
    node->holdings.pop_back();
    ReleaseLoad(load);
    std::erase_if(node->cells, [](const Cell& c) { return c.allocatable == 0 && c.used == 0; });
  }
}

const std::vector<const NodeState*>& CapacityLedger::Nodes() const {
  if (present_stale_) {
    present_.clear();
    for (const auto& [name, node] : nodes_) {
      if (node.present)
        present_.push_back(&node);
    }
    present_stale_ = false;
  }
  return present_;
}

// --- nodes and pods
// -------------------------------------------------------------------------------------

void CapacityLedger::SetNode(const api::Node& node) {
  NodeState& state = NodeOf(node.meta.name);
  NodeFacts facts = pool_.Acquire(node);
  bool helps = !state.present;
  bool changed = !state.present || state.facts != facts;
  if (state.present) {
    helps |= state.facts.unschedulable && !facts.unschedulable;
    helps |= state.facts.labels != facts.labels;
    const std::vector<api::Taint>& taints = pool_.Taints(facts.taint_set);
    for (const api::Taint& old : pool_.Taints(state.facts.taint_set)) {
      helps |= std::find(taints.begin(), taints.end(), old) == taints.end();
    }
    pool_.Release(state.facts);
  }
  state.facts = std::move(facts);
  std::vector<Cell> before = std::move(state.cells);
  state.cells.clear();
  for (const Cell& cell : before) {
    if (cell.used != 0)
      state.cells.push_back(Cell{cell.resource, 0, cell.used});
  }
  for (const auto& [name, amount] : node.allocatable) {
    if (amount <= 0 || (name != kPodsResource && !CountsForFit(name)))
      continue;
    Cell& cell = state.At(ResourceId(name));
    cell.allocatable = amount;
    auto old = std::find_if(before.begin(), before.end(),
                            [&](const Cell& c) { return c.resource == cell.resource; });
    helps |= old == before.end() || old->allocatable < amount;
    changed |= old == before.end() || old->allocatable != amount;
  }
  for (const Cell& cell : before) {
    const Cell* now = state.Find(cell.resource);
    changed |= cell.allocatable > 0 && (now == nullptr || now->allocatable == 0);
  }
  state.cells.shrink_to_fit();
  if (!state.present)
    present_stale_ = true;
  state.present = true;
  if (changed) {
    marks_.Mark(state.slot);
    NodesChanged();
  }
  if (helps)
    ++version_;
}

// Even one node less may let others pass: a gang in flight that can't land any more protects
// nothing.
void CapacityLedger::NodesChanged() {
  ++bound_version_;
  ++flight_version_;
}

void CapacityLedger::RemoveNode(const std::string& name) {
  auto it = nodes_.find(name);
  if (it == nodes_.end() || !it->second.present)
    return;
  NodeState& node = it->second;
  pool_.Release(node.facts);
  node.facts = NodeFacts{};
  node.facts.name = name;
  node.present = false;
  marks_.Mark(node.slot);
  present_stale_ = true;
  NodesChanged();
  for (Cell& cell : node.cells)
    cell.allocatable = 0;
  std::erase_if(node.cells, [](const Cell& c) { return c.used == 0; });
  DropIfUnused(&node);
}

void CapacityLedger::SetPod(const std::string& uid, const std::string& node_name,
                            const api::PodShape& shape, const std::string& gang_id,
                            const std::string& pod_set, const PodIdentity& who) {
  ++bound_version_;
  NodeState& node = NodeOf(node_name);
  GangState& gang = GangOf(gang_id);
  PodRecord record{&node, AcquireLoad(shape), &gang, pod_set_names_.Acquire(pod_set), 0};
  record.tag = tags_.Acquire(who, shape);
  record.leaving = who.leaving;
  Add(&node, &gang, record.load, 1, 0);
  CountTag(node.tags, record.tag, 1, 0, record.leaving ? 1 : 0);
  CountBound(gang, record.pod_set, 1);

  auto [it, added] = pods_.try_emplace(uid, record);
  bool joins = added;
  bool seen_anew = record.tag != nullptr;  // by rules of other pods
  if (!added) {
    const PodRecord old = it->second;
    seen_anew = old.tag != record.tag || old.node != record.node || old.leaving != record.leaving;
    joins = old.gang != &gang || old.pod_set != record.pod_set;
    record.used_serial = old.used_serial;
    ForgetPod(old);
    it->second = record;
  }
  if (joins && gang.reservation && gang.reservation->serial != record.used_serial &&
      UseSlot(gang, pod_set, &node)) {
    it->second.used_serial = gang.reservation->serial;
  }
  flight_version_ += seen_anew ? 1 : 0;
  Finish();
}

void CapacityLedger::RemovePod(const std::string& uid) {
  auto it = pods_.find(uid);
  if (it == pods_.end())
    return;
  ++bound_version_;
  const PodRecord record = it->second;
  pods_.erase(it);
  flight_version_ += record.tag != nullptr ? 1 : 0;
  ForgetPod(record);
  Finish();
}

void CapacityLedger::ForgetPod(const PodRecord& record) {
  CountTag(record.node->tags, record.tag, -1, 0, record.leaving ? -1 : 0);
  tags_.Release(record.tag);
  Add(record.node, record.gang, record.load, -1, 0);
  CountBound(*record.gang, record.pod_set, -1);
  ReleaseLoad(record.load);
  pod_set_names_.Release(record.pod_set);
  DropIfUnused(record.gang);
}

void CapacityLedger::SetNamespace(const std::string& name, const api::StringMap& labels) {
  auto [it, added] = namespaces_.try_emplace(name);
  if (!added && it->second == labels)
    return;
  it->second = labels;
  ++flight_version_;
}

void CapacityLedger::RemoveNamespace(const std::string& name) {
  if (namespaces_.erase(name) > 0)
    ++flight_version_;
}

const api::StringMap& CapacityLedger::NamespaceLabels(const std::string& name) const {
  static const api::StringMap kNone;
  auto it = namespaces_.find(name);
  return it == namespaces_.end() ? kNone : it->second;
}

// --- promises
// -------------------------------------------------------------------------------------------

void CapacityLedger::Reserve(const Gang& gang, const Placement& placement) {
  GangState& state = GangOf(gang.id);
  if (state.reservation)
    DropReservation(state);
  Reservation reservation;
  reservation.serial = ++last_serial_;
  for (const GangPodSet& set : gang.pod_sets) {
    reservation.sets.push_back({set.name,
                                set.shape,
                                set.node_selector,
                                set.tolerations,
                                AcquireLoad(*set.shape),
                                tags_.Acquire(IdentityOf(*set.shape), *set.shape),
                                FlightOf(gang, set),
                                {}});
  }
  std::map<std::pair<size_t, std::string>, int32_t> slots;
  for (const PlacementSlot& slot : placement) {
    if (slot.count > 0 && slot.pod_set < reservation.sets.size()) {
      slots[{slot.pod_set, slot.node}] += slot.count;
    }
  }
  for (const auto& [where, count] : slots) {
    SetPlan& plan = reservation.sets[where.first];
    NodeState& node = NodeOf(where.second);
    plan.slots.emplace_back(&node, count);
    plan.flight->second.unbound += count;
    reservation.unbound += count;
    CountTag(node.tags, plan.tag, 0, count, 0);
    Add(&node, &state, plan.load, 0, count);
  }
  state.reservation = std::move(reservation);
  if (state.reservation->unbound > 0)
    EnterFlight(state);
  Finish();
}

void CapacityLedger::EnterFlight(GangState& gang) {
  Reservation& reservation = *gang.reservation;
  bool mixed = false;
  for (SetPlan& plan : reservation.sets) {
    if (plan.slots.empty())
      continue;
    mixed |= reservation.only_kind != nullptr && reservation.only_kind != &plan.flight->second;
    reservation.only_kind = &plan.flight->second;
  }
  in_flight_[reservation.serial] = &gang;
  if (mixed) {
    reservation.only_kind = nullptr;
    mixed_[reservation.serial] = &gang;
  } else {
    ++reservation.only_kind->gangs;
  }
  ++flight_version_;
}

void CapacityLedger::LeaveFlight(const GangState& gang) {
  const Reservation& reservation = *gang.reservation;
  in_flight_.erase(reservation.serial);
  if (reservation.only_kind == nullptr) {
    mixed_.erase(reservation.serial);
  } else {
    --reservation.only_kind->gangs;
  }
  ++flight_version_;
}

ClaimScope ScopeOf(const Gang& gang, const GangPodSet& set) {
  const std::vector<api::PodClaim>& claims = set.shape->claims;
  if (claims.empty())
    return {};
  const bool shared = std::any_of(claims.begin(), claims.end(), [&](const api::PodClaim& claim) {
    return std::find(gang.group_claims.begin(), gang.group_claims.end(), claim) !=
           gang.group_claims.end();
  });
  return {gang.id.substr(0, gang.id.find('/')), shared};
}

FlightKinds::iterator CapacityLedger::FlightOf(const Gang& gang, const GangPodSet& set) {
  const ClaimScope scope = ScopeOf(gang, set);
  auto alike = std::find_if(flights_.begin(), flights_.end(), [&](const auto& known) {
    return known.second.Is(*set.shape, set.node_selector, set.tolerations, scope);
  });
  if (alike == flights_.end()) {
    alike = flights_
                .emplace(++last_flight_,
                         FlightKind{set.shape, set.node_selector, set.tolerations, scope, 0, 0, 0})
                .first;
  }
  ++alike->second.plans;
  return alike;
}

const Reservation* CapacityLedger::ReservationOf(const std::string& gang_id) const {
  auto it = gangs_.find(gang_id);
  return it == gangs_.end() || !it->second.reservation ? nullptr : &*it->second.reservation;
}

void CapacityLedger::DropReservation(GangState& gang) {
  if (gang.reservation->unbound > 0)
    LeaveFlight(gang);
  for (SetPlan& plan : gang.reservation->sets) {
    for (const auto& [node, count] : plan.slots) {
      CountTag(node->tags, plan.tag, 0, -count, 0);
      Add(node, &gang, plan.load, 0, -count);
    }
    tags_.Release(plan.tag);
    ReleaseLoad(plan.load);
    plan.flight->second.unbound -= plan.Unbound();
    if (--plan.flight->second.plans == 0)
      flights_.erase(plan.flight);
  }
  gang.reservation.reset();
}

void CapacityLedger::Release(const std::string& gang_id) {
  auto it = gangs_.find(gang_id);
  if (it == gangs_.end() || !it->second.reservation)
    return;
  DropReservation(it->second);
  DropIfUnused(&it->second);
  Finish();
}

// A slot on the pod's own node, else on a node that is gone, else on the first by name.
bool CapacityLedger::UseSlot(GangState& gang, const std::string& pod_set, NodeState* node) {
  for (SetPlan& plan : gang.reservation->sets) {
    if (plan.name != pod_set || plan.slots.empty())
      continue;
    auto slot = std::find_if(plan.slots.begin(), plan.slots.end(),
                             [&](const auto& s) { return s.first == node; });
    if (slot == plan.slots.end()) {
      slot = std::find_if(plan.slots.begin(), plan.slots.end(),
                          [](const auto& s) { return !s.first->present; });
    }
    if (slot == plan.slots.end())
      slot = plan.slots.begin();
    CountTag(slot->first->tags, plan.tag, 0, -1, 0);
    Add(slot->first, &gang, plan.load, 0, -1);
    if (--slot->second == 0)
      plan.slots.erase(slot);
    --plan.flight->second.unbound;
    ++flight_version_;
    if (--gang.reservation->unbound == 0)
      LeaveFlight(gang);
    return true;
  }
  return false;
}

int32_t CapacityLedger::Unbound(const std::string& gang_id) const {
  auto it = gangs_.find(gang_id);
  if (it == gangs_.end() || !it->second.reservation)
    return 0;
  return static_cast<int32_t>(it->second.reservation->unbound);
}

int32_t CapacityLedger::Bound(const std::string& gang_id, const std::string& pod_set) const {
  auto gang = gangs_.find(gang_id);
  if (gang == gangs_.end())
    return 0;
  const int32_t name = pod_set_names_.Find(pod_set);
  for (const auto& [set, count] : gang->second.bound_sets) {
    if (set == name)
      return count;
  }
  return 0;
}

int64_t CapacityLedger::BoundOf(const std::string& gang_id) const {
  auto gang = gangs_.find(gang_id);
  return gang == gangs_.end() ? 0 : gang->second.bound;
}

void CapacityLedger::CountBound(GangState& gang, int32_t pod_set, int32_t change) {
  auto it = std::find_if(gang.bound_sets.begin(), gang.bound_sets.end(),
                         [&](const auto& set) { return set.first == pod_set; });
  if (it == gang.bound_sets.end())
    it = gang.bound_sets.insert(it, {pod_set, 0});
  if ((it->second += change) == 0)
    gang.bound_sets.erase(it);
}

bool CapacityLedger::Delegated(const NodeState& node, int32_t resource) const {
  const std::string& name = resource_names_[static_cast<size_t>(resource)];
  if (!delegated_.contains(name) && !name.starts_with(api::kImplicitResourcePrefix))
    return false;
  const Cell* cell = node.Find(resource);
  return cell == nullptr || cell->allocatable <= 0;
}

const NodeState* CapacityLedger::FindNode(const std::string& name) const {
  const auto it = nodes_.find(name);
  return it == nodes_.end() || !it->second.present ? nullptr : &it->second;
}

bool CapacityLedger::SlotBroken(const SetPlan& plan, const NodeState& node,
                                const NodeFilter& filter) const {
  if (!node.present || filter.Check(node.facts) != Verdict::kAdmits)
    return true;
  for (const auto& [resource, amount] : plan.load->first.requests) {
    const Cell* cell = node.Find(resource);
    if ((cell == nullptr || cell->used > cell->allocatable) && !Delegated(node, resource))
      return true;
  }
  const std::vector<api::HostPort>& ports = plan.load->first.ports;
  if (ports.empty())
    return false;
  int32_t alike = 0;
  for (const Holding& holding : node.holdings) {
    if (PortsClash(ports, holding.load->first.ports))
      alike += holding.bound + holding.promised;
  }
  return alike > 1;
}

bool CapacityLedger::PlanBroken(const std::string& gang_id) const {
  auto it = gangs_.find(gang_id);
  if (it == gangs_.end() || !it->second.reservation)
    return false;
  for (const SetPlan& plan : it->second.reservation->sets) {
    if (plan.slots.empty())
      continue;
    const NodeFilter filter(pool_, *plan.shape, plan.node_selector, plan.tolerations);
    for (const auto& [node, count] : plan.slots) {
      if (SlotBroken(plan, *node, filter))
        return true;
    }
  }
  return false;
}

int32_t CapacityLedger::CountNodes(const api::StringMap& labels) const {
  int32_t count = 0;
  for (const NodeState* node : Nodes())
    count += pool_.HasLabels(node->facts, labels) ? 1 : 0;
  return count;
}

// --- self-check
// -----------------------------------------------------------------------------------------

std::string CapacityLedger::SanityCheck() const {
  struct Sum {
    int64_t bound = 0;
    int64_t promised = 0;
  };
  using Key = std::pair<const GangState*, const Load*>;
  std::map<std::string, std::map<Key, Sum>> expected;
  std::map<const GangState*, int64_t> bound;
  std::map<std::pair<const GangState*, int32_t>, int32_t> bound_sets;
  std::map<const Load*, int64_t> refs;
  std::map<std::string, std::map<const PodTag*, std::array<int64_t, 3>>> tags;
  std::map<const FlightKind*, std::pair<int64_t, int64_t>> flying;  // unbound, plans
  std::map<const FlightKind*, int64_t> solo;
  size_t in_flight = 0;
  for (const auto& [uid, pod] : pods_) {
    ++expected[pod.node->facts.name][{pod.gang, &pod.load->first}].bound;
    ++bound[pod.gang];
    ++bound_sets[{pod.gang, pod.pod_set}];
    ++refs[&pod.load->first];
    if (pod.tag != nullptr) {
      ++tags[pod.node->facts.name][pod.tag][0];
      tags[pod.node->facts.name][pod.tag][2] += pod.leaving ? 1 : 0;
    }
  }
  for (const auto& [id, gang] : gangs_) {
    if (gang.id != id)
      return "gang " + id + " is filed under another name";
    if (gang.bound != bound[&gang])
      return "gang " + id + " counts a wrong number of bound pods";
    int64_t in_sets = 0;
    for (const auto& [set, count] : gang.bound_sets) {
      if (count <= 0 || count != bound_sets[{&gang, set}])
        return "gang " + id + " counts a podset wrong";
      in_sets += count;
    }
    if (in_sets != gang.bound)
      return "gang " + id + " misses a podset";
    if (!gang.reservation && gang.bound == 0)
      return "gang " + id + " is kept without need";
    if (!gang.reservation)
      continue;
    const Reservation& reservation = *gang.reservation;
    int64_t unbound = 0;
    for (const SetPlan& plan : reservation.sets) {
      unbound += plan.Unbound();
      if (!plan.flight->second.Is(*plan.shape, plan.node_selector, plan.tolerations,
                                  plan.flight->second.scope))
        return "gang " + id + " flies as another kind";
      flying[&plan.flight->second].first += plan.Unbound();
      ++flying[&plan.flight->second].second;
    }
    if (unbound != reservation.unbound)
      return "gang " + id + " counts a wrong number of unbound pods";
    auto listed = in_flight_.find(reservation.serial);
    if ((listed != in_flight_.end() && listed->second == &gang) != (unbound > 0))
      return "gang " + id + " is listed wrongly as in flight";
    in_flight += unbound > 0 ? 1 : 0;
    if (unbound > 0 && reservation.only_kind != nullptr)
      ++solo[reservation.only_kind];
    if ((unbound > 0 && reservation.only_kind == nullptr) != mixed_.contains(reservation.serial))
      return "gang " + id + " is listed wrongly among those of several kinds";
    for (const SetPlan& plan : gang.reservation->sets) {
      ++refs[&plan.load->first];
      for (const auto& [node, count] : plan.slots) {
        if (count <= 0)
          return "gang " + id + " has an empty slot on " + node->facts.name;
        expected[node->facts.name][{&gang, &plan.load->first}].promised += count;
        if (plan.tag != nullptr)
          tags[node->facts.name][plan.tag][1] += count;
      }
    }
  }
  size_t present = 0;
  for (const auto& [name, node] : nodes_) {
    if (node.facts.name != name)
      return "node " + name + " is filed under another name";
    if (!node.present && node.holdings.empty())
      return "node " + name + " is kept without need";
    present += node.present ? 1 : 0;
    std::map<Key, Sum>& sums = expected[name];
    std::map<int32_t, Wide> used;
    int64_t promised = 0;
    if (sums.size() != node.holdings.size())
      return "node " + name + " holds a wrong set of gangs";
    for (const Holding& holding : node.holdings) {
      const Sum& sum = sums[{holding.gang, &holding.load->first}];
      if (sum.bound != holding.bound || sum.promised != holding.promised) {
        return "node " + name + " counts wrong pods of gang " + holding.gang->id;
      }
      ++refs[&holding.load->first];
      promised += holding.promised;
      for (const auto& [resource, amount] : holding.load->first.requests) {
        used[resource] += Wide{amount} * (holding.bound + holding.promised);
      }
    }
    std::map<const PodTag*, std::array<int64_t, 3>> counted;
    for (const TagUse& use : node.tags)
      counted[use.tag] = {use.bound, use.promised, use.leaving};
    if (counted != tags[name] || counted.size() != node.tags.size())
      return "node " + name + " counts pods wrongly that rules look at";
    if (promised != node.promised)
      return "node " + name + " counts wrong promises";
    int32_t last = -1;
    for (const Cell& cell : node.cells) {
      if (cell.resource <= last)
        return "node " + name + " has its resources in disorder";
      last = cell.resource;
      if (cell.used != used[cell.resource]) {
        return "node " + name + " has a wrong sum of " + resource_names_[cell.resource];
      }
      used.erase(cell.resource);
    }
    for (const auto& [resource, amount] : used) {
      if (amount != 0)
        return "node " + name + " misses " + resource_names_[resource];
    }
  }
  for (const auto& [name, sums] : expected) {
    if (!sums.empty() && nodes_.find(name) == nodes_.end())
      return "node " + name + " is missing";
  }
  for (const auto& [load, count] : loads_) {
    if (refs[&load] != count || count == 0)
      return "a load has a wrong number of holders";
  }
  for (const auto& [id, kind] : flights_) {
    if (flying[&kind] != std::pair{kind.unbound, kind.plans} || solo[&kind] != kind.gangs ||
        kind.plans == 0)
      return "a kind of pods in flight is counted wrong";
  }
  if (in_flight != in_flight_.size())
    return "a gang is listed as in flight that is not";
  if (Nodes().size() != present)
    return "the list of nodes is stale";
  return "";
}

}  // namespace tutti::engine
