// SPDX-License-Identifier: Apache-2.0
// See in_flight.h. Three upper bounds on the places that a gang can lose, each valid by itself; the
// smallest counts. Vocabulary: a *place* is room for one pod of a kind on one node, counted on what
// bound pods leave; *slack* is what is left of a resource on a node when all its places are taken.
#include "engine/in_flight.h"

#include <algorithm>
#include <limits>

#include "api/quantity.h"
#include "engine/gang_fit.h"
#include "engine/node_filter.h"
#include "engine/volume_fit.h"

namespace tutti::engine {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

int64_t Clamp(Wide value) {
  return static_cast<int64_t>(std::min<Wide>(value, kMax));
}

}  // namespace

int64_t InFlight::View::Request(int32_t resource) const {
  for (const auto& [id, amount] : requests) {
    if (id == resource)
      return amount;
  }
  return 0;
}

bool InFlight::View::Alike(const View& other) const {
  return node_selector == other.node_selector && tolerations == other.tolerations &&
         scope == other.scope && (shape == other.shape || *shape == *other.shape);
}

// Views are kept while nothing changes that they show: plans don't.
void InFlight::Refresh() const {
  const uint64_t devices = device_ledger_.Version();
  const uint64_t bound = ledger_.BoundVersion() + volumes_.changes();  // neither ever falls
  if (seen_ == bound && seen_devices_ == devices && seen_known_ == devices_known_)
    return;
  views_.clear();
  seen_ = bound;
  seen_devices_ = devices;
  seen_known_ = devices_known_;
  if (devices_known_)
    devices_.Refresh();
}

int64_t InFlight::FreeAt(const NodeState& node, int32_t resource, Basis basis) const {
  return FlightDevices::IsKind(resource) ? devices_.FreeOn(resource, node, basis)
                                         : FreeOn(node, resource, basis);
}

InFlight::ViewRef InFlight::MakeView(std::shared_ptr<const api::PodShape> shape,
                                     const api::StringMap& node_selector,
                                     const std::vector<api::Toleration>& tolerations,
                                     const ClaimScope& scope, Basis basis) const {
  auto view = std::make_shared<View>();
  view->shape = std::move(shape);
  view->node_selector = node_selector;
  view->tolerations = tolerations;
  view->scope = scope;
  view->basis = basis;
  view->unproven = view->shape->rules ||
                   !LeftToScheduler(*view->shape, devices_known_, volumes_.known()).empty();
  if (devices_known_)
    view->devices = devices_.NeedsOf(*view->shape, scope);
  view->ports = PortsOf(*view->shape);
  view->requests.emplace_back(kPodsId, 1);
  for (const auto& [name, amount] : view->shape->requests) {
    if (amount <= 0 || !CountsForFit(name))
      continue;
    if (devices_known_ && device_ledger_.inventory().ClassOfResource(name) != nullptr)
      continue;  // here devices, there an amount: such pods are opaque anyway
    const int32_t id = ledger_.FindResource(name);
    view->unknown_resource |= id < 0;
    view->requests.emplace_back(id, amount);
  }
  if (view->devices.counted)
    view->requests.insert(view->requests.end(), view->devices.amounts.begin(),
                          view->devices.amounts.end());
  std::sort(view->requests.begin(), view->requests.end());
  const std::vector<const NodeState*>& nodes = ledger_.Nodes();
  view->cap.assign(nodes.size(), 0);
  view->ever.assign(nodes.size(), 0);
  if (view->unknown_resource)
    return view;
  const NodeFilter filter(ledger_.Facts(), *view->shape, view->node_selector, view->tolerations);
  Wide places = 0;
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (filter.Check(nodes[n]->facts) != Verdict::kAdmits)
      continue;
    const auto cap_on = [&](Basis amounts) {
      int64_t cap = view->ports.empty() ? kMax : 1;
      for (const auto& [resource, amount] : view->requests) {
        cap = std::min(cap, FreeAt(*nodes[n], resource, amounts) / amount);
        if (cap == 0)
          break;
      }
      return cap;
    };
    view->ever[n] = cap_on(Basis::kEmpty);
    const int64_t cap = view->ever[n] == 0 ? 0 : cap_on(basis);
    if (cap == 0 || PortTakenOn(*nodes[n], view->ports, basis))
      continue;
    view->cap[n] = cap;
  }
  if (view->shape->volumes)
    LimitByVolumes(*view);
  for (const int64_t cap : view->cap) {
    view->most = std::max(view->most, cap);
    places += cap;
  }
  view->places = Clamp(places);
  return view;
}

// Nodes out of reach of a pod's volumes are no places, and nobody gets there.
void InFlight::LimitByVolumes(View& view) const {
  if (!volumes_.known())
    return;
  const auto limits = GangVolumes::Prepare(ledger_, volumes_, {{view.shape.get(), kMax}}, false);
  view.unproven = view.unproven || !limits->undecided().empty();
  for (size_t n = 0; n < view.cap.size(); ++n) {
    view.cap[n] = std::min(view.cap[n], limits->Limit(view.basis, n, 0));
    view.ever[n] = std::min(view.ever[n], limits->Limit(Basis::kEmpty, n, 0));
  }
}

InFlight::ViewRef InFlight::ViewOf(uint64_t flight) const {
  ViewRef& view = views_[flight];
  if (view == nullptr) {
    const FlightKind& kind = ledger_.Flights().at(flight);
    view =
        MakeView(kind.shape, kind.node_selector, kind.tolerations, kind.scope, Basis::kBoundOnly);
  }
  return view;
}

InFlight::ViewRef InFlight::ViewOf(const Gang& gang, const GangPodSet& set) const {
  const ClaimScope scope = ScopeOf(gang, set);
  for (const auto& [id, kind] : ledger_.Flights()) {
    if (kind.Is(*set.shape, set.node_selector, set.tolerations, scope))
      return ViewOf(id);
  }
  return MakeView(set.shape, set.node_selector, set.tolerations, scope, Basis::kBoundOnly);
}

// Alike podsets together.
InFlight::Groups InFlight::GroupsOf(const Gang& gang) const {
  Groups groups;
  for (const GangPodSet& set : gang.pod_sets) {
    if (set.count <= 0)
      continue;
    const ViewRef view = ViewOf(gang, set);
    auto alike = std::find_if(groups.begin(), groups.end(),
                              [&](const Group& group) { return group.view->Alike(*view); });
    if (alike == groups.end()) {
      groups.push_back({view, set.count});
    } else {
      alike->count += set.count;
    }
  }
  return groups;
}

InFlight::Groups InFlight::GroupsOf(const Reservation& reservation) const {
  std::map<uint64_t, int64_t> counts;
  for (const SetPlan& plan : reservation.sets) {
    if (const int64_t unbound = plan.Unbound(); unbound > 0)
      counts[plan.flight->first] += unbound;
  }
  Groups groups;
  for (const auto& [flight, count] : counts)
    groups.push_back({ViewOf(flight), count});
  return groups;
}

// Whether a pod of `from` may take a place of `to`. What is free now doesn't limit it: when others
// end, it may get room on a node that has none now, and take more than they gave back.
bool InFlight::Reaches(const View& from, const View& to) {
  for (size_t n = 0; n < to.cap.size(); ++n) {
    if (to.cap[n] > 0 && from.ever[n] > 0)
      return true;
  }
  return false;
}

// Whether a pod of one may run where one of the other may, or be given a device that the other
// could. For pods whose devices can't be counted.
bool InFlight::Meet(const Groups& a, const Groups& b) {
  for (const Group& left : a) {
    for (const Group& right : b) {
      if (left.view->devices.any && right.view->devices.any &&
          (left.view->devices.wide || right.view->devices.wide))
        return true;
      for (size_t n = 0; n < left.view->ever.size(); ++n) {
        if (left.view->ever[n] > 0 && right.view->ever[n] > 0)
          return true;
      }
    }
  }
  return false;
}

// Some devices can't be counted, or what two kinds of its pods select overlaps in part.
bool InFlight::Opaque(const Groups& gang) const {
  for (const Group& group : gang) {
    if (group.view->Opaque())
      return true;
    for (const auto& [kind, amount] : group.view->devices.amounts) {
      for (const Group& other : gang) {
        for (const auto& [other_kind, other_amount] : other.view->devices.amounts) {
          if (devices_.Overlap(kind, other_kind))
            return true;
        }
      }
    }
  }
  return false;
}

// At most so much of it goes with one pod: of devices that both select the scheduler may give it
// any, also where it could have had others.
int64_t InFlight::Takes(const View& by, int32_t resource) const {
  if (!FlightDevices::IsKind(resource))
    return by.Request(resource);
  if (by.Opaque())
    return FlightDevices::kMostOfNode;
  int64_t takes = 0;
  for (const auto& [kind, amount] : by.devices.amounts) {
    if (kind == resource || devices_.Overlap(kind, resource))
      takes = api::SaturatingAdd(takes, amount);
  }
  return takes;
}

// Most places of `to` that one pod of `by` takes. Of any packing of a node with pods of `to` (and
// others), taking so many of them away makes room for it: for each resource either enough is given
// back, or all that use it are gone, and then it fits since the scheduler places it only where it
// does.
int64_t InFlight::Damage(const View& by, const View& to) const {
  int64_t damage = 0;
  for (const auto& [resource, amount] : to.requests) {
    if (const int64_t takes = Takes(by, resource); takes > 0)
      damage = std::max(damage, (takes - 1) / amount + 1);
  }
  return std::min(damage, to.most);
}

// On a node with `cap` places and slack s, the first place goes when s + 1 is taken, each further
// one with another request. Where s + 1 is more than a request, places before the last cost more
// than their average, so the average of all is a lower limit of what they cost.
const std::vector<InFlight::Step>& InFlight::Steps(View& view, int32_t resource) const {
  auto [it, added] = view.steps.try_emplace(resource);
  std::vector<Step>& steps = it->second;
  if (!added)
    return steps;
  const int64_t request = view.Request(resource);
  const std::vector<const NodeState*>& nodes = ledger_.Nodes();
  std::map<std::pair<int64_t, int64_t>, int64_t> count;
  for (size_t n = 0; n < view.cap.size(); ++n) {
    const int64_t cap = view.cap[n];
    if (cap == 0)
      continue;
    const int64_t slack = FreeAt(*nodes[n], resource, view.basis) - cap * request;
    if (slack + 1 <= request) {
      ++count[{slack + 1, 1}];
      if (cap > 1)
        count[{request, 1}] += cap - 1;
    } else {
      ++count[{slack + 1 + (cap - 1) * request, cap}];
    }
  }
  for (const auto& [step, times] : count)
    steps.push_back({step.first, step.second, times});
  std::stable_sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) {
    return Wide{a.cost} * b.places < Wide{b.cost} * a.places;
  });
  return steps;
}

// Each place goes through one resource; of each resource `others` have so much in all, and no way
// of spreading it (not even one that cuts pods into pieces) takes more places than the cheapest
// steps.
int64_t InFlight::LossByAmounts(View& view, const Groups& others) const {
  Wide loss = 0;
  for (const auto& [resource, request] : view.requests) {
    Wide amount = 0;
    Wide most = 0;  // places of this resource, pod by pod
    for (const Group& other : others) {
      const int64_t takes = Takes(*other.view, resource);
      if (takes == 0)
        continue;
      amount += Wide{takes} * other.count;
      most += Wide{(takes - 1) / request + 1} * other.count;
    }
    Wide lost = 0;
    for (const Step& step : Steps(view, resource)) {
      const Wide whole = Wide{step.cost} * step.nodes;
      if (whole <= amount) {
        amount -= whole;
        lost += Wide{step.places} * step.nodes;
        continue;
      }
      lost += amount * step.places / step.cost;
      break;
    }
    loss += std::min(lost, most);
  }
  return Clamp(loss);
}

// Node by node the worst that all of `others` together could do there.
int64_t InFlight::LossByNode(const View& view, const Groups& others) const {
  const std::vector<const NodeState*>& nodes = ledger_.Nodes();
  Wide loss = 0;
  for (size_t n = 0; n < view.cap.size(); ++n) {
    if (view.cap[n] == 0)
      continue;
    int64_t worst = 0;
    for (const auto& [resource, request] : view.requests) {
      Wide taken = 0;
      for (const Group& other : others) {
        taken += Wide{Takes(*other.view, resource)} * std::min(other.count, other.view->ever[n]);
      }
      const Wide slack =
          Wide{FreeAt(*nodes[n], resource, view.basis)} - Wide{view.cap[n]} * request;
      if (taken > slack)
        worst = std::max(worst, Clamp((taken - slack - 1) / request + 1));
    }
    loss += std::min(worst, view.cap[n]);
  }
  return Clamp(loss);
}

// `count` pods of one kind. A pod that is alike takes exactly one place and leaves the slack alone,
// so it adds to whatever the unlike ones do.
bool InFlight::KeepsLike(View& view, int64_t count, const Groups& others) const {
  Wide need = count;
  Wide loss = 0;
  for (const Group& other : others) {
    (other.view.get() == &view ? need : loss) +=
        Wide{other.view.get() == &view ? 1 : Damage(*other.view, view)} * other.count;
  }
  if (need + loss <= view.places)
    return true;  // the usual case, without a look at the nodes

  need = count;
  loss = 0;
  Groups unlike;
  for (const Group& other : others) {
    if (other.view.get() == &view) {
      need += other.count;
      continue;
    }
    if (!Reaches(*other.view, view))
      continue;
    const Wide most = Wide{Damage(*other.view, view)} * other.count;
    if (PortsClash(other.view->ports, view.ports)) {
      need += most;  // a port has no amount: each such pod closes its node
      continue;
    }
    loss += most;
    unlike.push_back(other);
  }
  const Wide spare = Wide{view.places} - need;
  return spare >= 0 && (loss <= spare || LossByAmounts(view, unlike) <= spare ||
                        LossByNode(view, unlike) <= spare);
}

// Pods of several kinds: a packing with so many more pods of each kind as the others take places
// leaves a packing of the gang wherever they go.
bool InFlight::KeepsUnlike(const Groups& gang, const Groups& others) const {
  std::vector<int32_t> resources;
  for (const Group& group : gang) {
    for (const auto& [resource, amount] : group.view->requests)
      resources.push_back(resource);
  }
  std::sort(resources.begin(), resources.end());
  resources.erase(std::unique(resources.begin(), resources.end()), resources.end());
  const std::vector<const NodeState*>& nodes = ledger_.Nodes();
  FitProblem problem;
  problem.resources = resources.size();
  problem.bins = nodes.size();
  for (const Group& group : gang) {
    PodKind kind;
    for (const int32_t resource : resources)
      kind.request.push_back(group.view->Request(resource));
    Wide count = group.count;
    for (const Group& other : others) {
      if (Reaches(*other.view, *group.view))
        count += Wide{Damage(*other.view, *group.view)} * other.count;
    }
    kind.count = Clamp(count);
    problem.kinds.push_back(std::move(kind));
    for (const Group& other : gang) {
      problem.clash.push_back(PortsClash(group.view->ports, other.view->ports) ? 1 : 0);
    }
  }
  std::vector<Wide> total(resources.size(), 0);
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (size_t r = 0; r < resources.size(); ++r) {
      problem.free.push_back(FreeAt(*nodes[n], resources[r], gang.front().view->basis));
      total[r] += FreeAt(*nodes[n], resources[r], Basis::kEmpty);
    }
    for (size_t k = 0; k < gang.size(); ++k)
      problem.cap.push_back(std::min(gang[k].view->cap[n], problem.kinds[k].count));
  }
  for (const Wide sum : total)
    problem.total.push_back(Clamp(sum));
  return Search(problem).end == SearchEnd::kFound;
}

bool InFlight::Unproven(const Groups& gang) {
  return std::any_of(gang.begin(), gang.end(),
                     [](const Group& group) { return group.view->unproven; });
}

// Whether `gang` has its places wherever `others` go.
bool InFlight::Keeps(const Groups& gang, const Groups& others) const {
  if (gang.size() == 1)
    return KeepsLike(*gang.front().view, gang.front().count, others);
  return KeepsUnlike(gang, others);
}

// All that is in flight, without the pods of `own`.
InFlight::Groups InFlight::FlyingBut(const Groups& own) const {
  Groups others;
  for (const auto& [id, kind] : ledger_.Flights()) {
    if (kind.unbound == 0)
      continue;
    const ViewRef view = ViewOf(id);
    int64_t count = kind.unbound;
    for (const Group& group : own)
      count -= group.view == view ? group.count : 0;
    if (count > 0)
      others.push_back({view, count});
  }
  return others;
}

FlightResult InFlight::Check(const Gang& gang) const {
  const std::vector<std::string> unclear =
      devices_known_ ? devices_.Unclear() : std::vector<std::string>{};
  if (ledger_.InFlight().empty() && unclear.empty())
    return {};
  Refresh();
  const Groups mine = GroupsOf(gang);
  if (mine.empty())
    return {};
  const Reservation* reserved = ledger_.ReservationOf(gang.id);
  const Groups own = reserved == nullptr ? Groups{} : GroupsOf(*reserved);
  const Groups flying = FlyingBut(own);
  const bool opaque = Opaque(mine);
  const bool lands = opaque || Unproven(mine) || Keeps(mine, flying);
  const auto touched = [&](const View& their) {
    return std::any_of(mine.begin(), mine.end(), [&](const Group& my) {
      return Reaches(*my.view, their) || Reaches(their, *my.view);
    });
  };

  // Gangs of pods that are alike, kind by kind: how the pods are divided into gangs makes no
  // difference. One that might not land even without this gang is none to be protected from it.
  Groups with_mine = flying;
  with_mine.insert(with_mine.end(), mine.begin(), mine.end());
  std::vector<const FlightKind*> kinds;
  for (const auto& [id, kind] : ledger_.Flights()) {
    if (kind.gangs == 0)
      continue;
    const ViewRef ref = ViewOf(id);
    View& view = *ref;
    if (opaque || view.Opaque() ? Meet(mine, {{ref, 1}})
        : lands
            ? !Unproven({{ref, 1}}) && !KeepsLike(view, 0, with_mine) && KeepsLike(view, 0, flying)
            : touched(view)) {
      kinds.push_back(&kind);
    }
  }
  std::vector<const GangState*> mixed;
  for (const auto& [serial, their] : ledger_.Mixed()) {
    if (their->id == gang.id)
      continue;
    const Groups theirs = GroupsOf(*their->reservation);
    bool waits = false;
    if (opaque || Opaque(theirs)) {
      waits = Meet(mine, theirs);
    } else if (!lands) {
      waits = std::any_of(theirs.begin(), theirs.end(),
                          [&](const Group& group) { return touched(*group.view); });
    } else if (!Unproven(theirs)) {
      Groups both = theirs;
      both.insert(both.end(), own.begin(), own.end());
      const Groups before = FlyingBut(both);
      Groups others = before;
      others.insert(others.end(), mine.begin(), mine.end());
      waits = !Keeps(theirs, others) && Keeps(theirs, before);
    }
    if (waits)
      mixed.push_back(their);
  }
  // Until it is known which devices landed pods have, nothing is said about those that are left.
  const bool devices = std::any_of(with_mine.begin(), with_mine.end(),
                                   [](const Group& group) { return group.view->devices.any; });
  FlightResult result;
  if (devices)
    result.waits_for = unclear;
  std::erase(result.waits_for, gang.id);
  for (const auto& [serial, their] : ledger_.InFlight()) {
    const FlightKind* kind = their->reservation->only_kind;
    const bool counts = kind == nullptr
                            ? std::find(mixed.begin(), mixed.end(), their) != mixed.end()
                            : std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
    if (counts && their->id != gang.id &&
        std::find(unclear.begin(), unclear.end(), their->id) == unclear.end())
      result.waits_for.push_back(their->id);
  }
  result.clear = result.waits_for.empty();
  return result;
}

bool InFlight::Hinders(const Gang& next, const Gang& waiting,
                       const std::vector<Gang>& since) const {
  Refresh();
  Groups theirs = GroupsOf(waiting);
  if (Groups more = GroupsOf(next); Opaque(theirs) || Opaque(more))
    return Meet(theirs, more);
  for (Group& group : theirs) {
    const View& view = *group.view;
    group.view =
        MakeView(view.shape, view.node_selector, view.tolerations, view.scope, Basis::kNow);
  }
  if (theirs.empty() || !Keeps(theirs, {}))
    return false;
  bool reaches = false;
  Groups others;
  const auto add = [&](const Gang& gang) {
    for (Group group : GroupsOf(gang)) {
      for (const Group& own : theirs) {
        reaches |= &gang == &next && Reaches(*group.view, *own.view);
        // Alike pods are recognised by their view.
        if (own.view->Alike(*group.view))
          group.view = own.view;
      }
      others.push_back(std::move(group));
    }
  };
  for (const Gang& gang : since)
    add(gang);
  add(next);
  return reaches && !Keeps(theirs, others);
}

}  // namespace tutti::engine
