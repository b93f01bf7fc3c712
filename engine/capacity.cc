// SPDX-License-Identifier: Apache-2.0
// The questions of capacity.h, asked of the books in capacity_ledger.h: which nodes admit the pods
// (node_filter.h), how much is free there, is there an arrangement (gang_fit.h), and if not, why
// (fit_message.h). Loop thread.
#include "engine/capacity.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "api/quantity.h"
#include "engine/capacity_impl.h"

namespace tutti::engine {

// --- devices
// ---------------------------------------------------------------------------------------------

bool CapacityImpl::Matches(const api::NodeSelector& selector, const std::string& node) const {
  const NodeState* state = ledger_.FindNode(node);
  if (state == nullptr)
    return false;
  // The filter's rules for affinity are those of node selectors; taints are another question.
  static const api::StringMap kNoLabels;
  static const std::vector<api::Toleration> kNoTolerations;
  api::PodShape pod;
  pod.has_required_affinity = true;
  pod.required_affinity = selector.terms;
  return NodeFilter(ledger_.Facts(), pod, kNoLabels, kNoTolerations).Check(state->facts) !=
         Verdict::kNoMatch;
}

void CapacityImpl::DevicesChanged(bool helps) {
  device_version_ += helps ? 1 : 0;
  const ChangedViews changed = devices_.TakeChanges();
  if (changed.all)
    ledger_.Marks().MarkAll();
  for (const std::string& name : changed.nodes) {
    if (const NodeState* node = ledger_.FindNode(name))
      ledger_.Marks().Mark(node->slot);
  }
}

bool QueryBins::Offers(size_t bin, const std::string& resource) const {
  const int32_t id = ledger_.FindResource(resource);
  const Cell* cell = id < 0 ? nullptr : nodes_[bin]->Find(id);
  return cell != nullptr && cell->allocatable > 0;
}

DeviceSearch CapacityImpl::Find(const Query& query, FitProblem& problem, Basis basis) const {
  if (query.devices != nullptr) {
    return query.devices->Search(problem, QueryBins(ledger_, *query.nodes), basis == Basis::kEmpty);
  }
  DeviceSearch out;
  out.result = Search(problem);
  return out;
}

void CapacityImpl::AttachDevices(const Gang& gang, const Query& query, DevicePlan plan,
                                 Placement& placement) const {
  std::vector<size_t> kind_of(gang.pod_sets.size(), 0);
  for (size_t k = 0; k < query.kinds.size(); ++k) {
    for (const size_t set : query.kinds[k].pod_sets)
      kind_of[set] = k;
  }
  std::map<std::string, size_t> bin_of;
  const std::vector<const NodeState*>& nodes = Nodes();
  for (size_t n = 0; n < nodes.size(); ++n)
    bin_of.emplace_hint(bin_of.end(), nodes[n]->facts.name, n);
  query.devices->Attach(std::move(plan), kind_of, bin_of, placement);
}

std::vector<PodPromise> CapacityImpl::PromisesOf(const Gang& gang, const Placement& placement) {
  std::vector<PodPromise> out;
  for (const PlacementSlot& slot : placement) {
    if (slot.devices == nullptr || slot.pod_set >= gang.pod_sets.size())
      continue;
    for (const PodDevices& pod : slot.devices->pods)
      out.push_back({gang.pod_sets[slot.pod_set].name, slot.node, pod});
  }
  return out;
}

// Nothing for a gang without pods.
std::optional<Query> CapacityImpl::Prepare(const Gang& gang,
                                           const std::vector<const NodeState*>& nodes) const {
  Query query;
  query.nodes = &nodes;
  std::set<std::string> undecided;
  std::set<std::string> names;
  std::vector<int64_t> counts;
  for (size_t i = 0; i < gang.pod_sets.size(); ++i) {
    const GangPodSet& set = gang.pod_sets[i];
    if (set.count <= 0)
      continue;
    if (const std::string rules = LeftToScheduler(*set.shape, devices_known_, volumes_.known());
        !rules.empty())
      undecided.insert(rules);
    for (const auto& [name, amount] : set.shape->requests) {
      if (amount > 0 && CountsForFit(name))
        names.insert(name);
    }
    auto alike = std::find_if(query.kinds.begin(), query.kinds.end(), [&](const KindQuery& kind) {
      return kind.first->node_selector == set.node_selector &&
             kind.first->tolerations == set.tolerations &&
             (kind.first->shape == set.shape || *kind.first->shape == *set.shape);
    });
    if (alike == query.kinds.end()) {
      query.kinds.push_back({&set, {i}, PortsOf(*set.shape)});
      counts.push_back(set.count);
    } else {
      alike->pod_sets.push_back(i);
      counts[alike - query.kinds.begin()] += set.count;
    }
  }
  if (query.kinds.empty())
    return std::nullopt;
  for (const std::string& rules : undecided)
    query.Undecided(rules);

  for (const std::string& name : names) {
    query.names.push_back(name);
    query.ids.push_back(ledger_.FindResource(name));
  }
  query.names.emplace_back(kPodsResource);
  query.ids.push_back(kPodsId);
  query.delegated.assign(query.names.size(), 0);
  if (devices_known_) {
    std::vector<const GangPodSet*> kinds;
    for (const KindQuery& kind : query.kinds)
      kinds.push_back(kind.first);
    query.devices = GangDevices::Prepare(devices_, *this, gang, kinds);
    for (size_t r = 0; r + 1 < query.names.size(); ++r)
      query.delegated[r] = devices_.inventory().ClassOfResource(query.names[r]) != nullptr ? 1 : 0;
  }

  FitProblem& problem = query.kinds_only;
  problem.resources = query.names.size();
  for (size_t k = 0; k < query.kinds.size(); ++k) {
    const GangPodSet& set = *query.kinds[k].first;
    PodKind kind;
    kind.count = counts[k];
    for (size_t r = 0; r + 1 < query.names.size(); ++r) {
      auto request = set.shape->requests.find(query.names[r]);
      kind.request.push_back(
          request == set.shape->requests.end() ? 0 : std::max<int64_t>(0, request->second));
    }
    kind.request.push_back(1);
    problem.kinds.push_back(std::move(kind));
    query.filters.emplace_back(ledger_.Facts(), *set.shape, set.node_selector, set.tolerations);
    for (const KindQuery& other : query.kinds) {
      problem.clash.push_back(PortsClash(query.kinds[k].ports, other.ports) ? 1 : 0);
    }
  }

  const bool rules = std::any_of(query.kinds.begin(), query.kinds.end(), [](const auto& kind) {
    return kind.first->shape->rules.has_value();
  });
  if (rules && query.kinds.size() == 1) {
    query.rules.emplace(ledger_, *query.kinds[0].first, query.filters[0]);
  } else if (rules) {
    query.Undecided("rules of unlike pods about each other");
  }

  if (volumes_.known()) {
    std::vector<VolumeKind> kinds;
    for (size_t k = 0; k < query.kinds.size(); ++k)
      kinds.push_back({query.kinds[k].first->shape.get(), counts[k]});
    query.volumes =
        GangVolumes::Prepare(ledger_, volumes_, kinds, rules || query.devices != nullptr);
    if (query.volumes != nullptr) {
      for (const std::string& what : query.volumes->undecided())
        query.Undecided(what);
    }
  }

  problem.bins = nodes.size();
  query.verdicts.reserve(nodes.size() * query.kinds.size());
  for (const NodeState* node : nodes) {
    for (const NodeFilter& filter : query.filters)
      query.verdicts.push_back(filter.Check(node->facts));
  }
  return query;
}

FitProblem CapacityImpl::FillNodes(const Query& query, Basis basis) const {
  FitProblem problem = query.kinds_only;
  const size_t resources = problem.resources;
  const size_t kinds = problem.kinds.size();
  const std::vector<const NodeState*>& nodes = *query.nodes;
  problem.free.assign(problem.bins * resources, 0);
  problem.cap.assign(problem.bins * kinds, 0);
  std::vector<Wide> total(resources, 0);
  for (size_t n = 0; n < nodes.size(); ++n) {
    const NodeState& node = *nodes[n];
    int64_t* free = problem.free.data() + n * resources;
    for (size_t r = 0; r < resources; ++r) {
      const Cell* cell = node.Find(query.ids[r]);
      if (query.delegated[r] != 0 && (cell == nullptr || cell->allocatable <= 0)) {
        free[r] = std::numeric_limits<int64_t>::max();  // the devices decide
        continue;
      }
      if (cell == nullptr)
        continue;
      total[r] += cell->allocatable;
      free[r] = FreeOn(node, query.ids[r], basis);
    }
    for (size_t k = 0; k < kinds; ++k) {
      if (query.verdicts[n * kinds + k] != Verdict::kAdmits)
        continue;
      const PodKind& kind = problem.kinds[k];
      const int64_t limit = query.kinds[k].ports.empty() ? kind.count : 1;
      const int64_t cap = FitCount(free, kind.request, limit);
      if (cap > 0 && !PortTakenOn(node, query.kinds[k].ports, basis)) {
        problem.cap[n * kinds + k] = cap;
      }
    }
  }
  for (const Wide sum : total) {
    problem.total.push_back(
        static_cast<int64_t>(std::min<Wide>(sum, std::numeric_limits<int64_t>::max())));
  }
  if (query.volumes != nullptr)
    query.volumes->Apply(problem, basis);
  return problem;
}

FitResult CapacityImpl::Check(const Gang& gang, Reason reason) const {
  const std::string key = on_trial_ ? "" : KeyOf(gang);
  if (reason == Reason::kNone) {
    if (const std::optional<FitKind> known = Recall(gang, key)) {
      FitResult result;
      result.kind = *known;
      return result;
    }
  }
  std::optional<Query> query = Prepare(gang, Nodes());
  if (!query)
    return {};
  FitResult result;
  if (query->volumes != nullptr && !query->volumes->problem().empty()) {
    const bool never = query->volumes->never();
    result.kind = never ? FitKind::kNever : FitKind::kNotNow;
    result.message = (never ? "can't ever fit as the cluster is: " : "doesn't fit now: ") +
                     query->volumes->problem();
    return result;
  }
  FitProblem now = FillNodes(*query, Basis::kNow);
  const std::vector<int64_t> caps = now.cap;
  DeviceSearch searched = Find(*query, now, Basis::kNow);
  SearchResult& found = searched.result;
  if (!searched.problem.empty()) {
    result.kind = searched.problem_kind;
    result.message = std::move(searched.problem);
    return result;
  }
  if (query->rules && found.end == SearchEnd::kFound) {
    SearchResult ruled = Ruled(*query, now, caps, Basis::kNow);
    if (ruled.end == SearchEnd::kImpossible)
      return RuledOut(*query, ruled.placed[0]);
    if (ruled.end == SearchEnd::kFound && query->devices == nullptr)
      found = std::move(ruled);
    else
      query->Undecided(query->rules->Text() +
                       (ruled.end == SearchEnd::kFound ? " with devices" : ""));
  }
  if (found.end == SearchEnd::kFound) {
    result.kind = query->undecided.empty() ? FitKind::kFits : FitKind::kUndecided;
    result.message = query->undecided;
    result.placement = ToPlacement(gang, *query, found.assigned);
    result.tied =
        !searched.plan.node.empty() &&
        std::all_of(result.placement.begin(), result.placement.end(),
                    [&](const PlacementSlot& slot) { return slot.node == searched.plan.node; });
    if (query->devices != nullptr)
      AttachDevices(gang, *query, std::move(searched.plan), result.placement);
    return result;
  }
  FitProblem empty = FillNodes(*query, Basis::kEmpty);
  const std::vector<int64_t> empty_caps = empty.cap;
  const bool same = query->devices == nullptr && empty.free == now.free && empty.cap == now.cap;
  const DeviceSearch on_empty = same ? searched : Find(*query, empty, Basis::kEmpty);
  const SearchResult& when_empty = on_empty.result;
  if (query->rules && when_empty.end == SearchEnd::kFound &&
      Ruled(*query, empty, empty_caps, Basis::kEmpty).end == SearchEnd::kImpossible) {
    return RuledOut(*query, found.placed[0]);
  }
  if (!searched.gave_up && !on_empty.gave_up && on_empty.problem.empty())
    Remember(gang, key, *query, now, empty, when_empty);
  FitFacts facts;
  facts.never = when_empty.end == SearchEnd::kImpossible;
  facts.gave_up =
      !facts.never && (found.end == SearchEnd::kGaveUp || when_empty.end == SearchEnd::kGaveUp);
  result.kind = facts.never ? FitKind::kNever : FitKind::kNotNow;
  if (reason == Reason::kNone)
    return result;
  const std::vector<int64_t>& placed = facts.never ? when_empty.placed : found.placed;
  if (query->devices != nullptr) {
    for (size_t k = 0; k < query->kinds.size(); ++k) {
      const int64_t count = now.kinds[k].count;
      facts.devices.push_back(query->devices->Explain(facts.never ? empty_caps : caps,
                                                      QueryBins(ledger_, *query->nodes), k, count,
                                                      count - placed[k], facts.never));
    }
  }
  result.message = Explain(gang, *query, now, empty, std::move(facts), placed);
  return result;
}

// --- a "no" that is remembered
// -------------------------------------------------------------------------------

// "" for gangs of which nothing is remembered.
std::string CapacityImpl::KeyOf(const Gang& gang) {
  if (!gang.group_claims.empty())
    return "";
  std::string key = gang.id.substr(0, gang.id.find('/'));  // claims are looked up there
  const auto add = [&](std::string_view text) {
    key += '\n';
    key += text;
  };
  for (const GangPodSet& set : gang.pod_sets) {
    if (set.count <= 0)
      continue;
    if (set.shape->rules || set.shape->volumes)
      return "";
    add(std::to_string(reinterpret_cast<uintptr_t>(set.shape.get())));
    add(std::to_string(set.count));
    for (const auto& [label, value] : set.node_selector) {
      add(label);
      add(value);
    }
    for (const api::Toleration& toleration : set.tolerations) {
      add("tolerates");
      add(toleration.key);
      add(toleration.op);
      add(toleration.value);
      add(toleration.effect);
    }
  }
  return key;
}

std::optional<FitKind> CapacityImpl::Recall(const Gang& gang, const std::string& key) const {
  Refused* known = key.empty() ? nullptr : memory_.Find(key);
  if (known == nullptr)
    return std::nullopt;
  if (ledger_.Marks().All() > known->seen || !Update(gang, *known) || !known->ShortNow()) {
    memory_.Forget(key);
    return std::nullopt;
  }
  return known->ShortWhenEmpty() ? FitKind::kNever : FitKind::kNotNow;
}

// Counts the nodes that have changed anew. False when what was remembered is of no use.
bool CapacityImpl::Update(const Gang& gang, Refused& known) const {
  const std::vector<size_t> slots = ledger_.Marks().SlotsSince(known.seen);
  std::vector<const NodeState*> changed;
  for (const size_t slot : slots) {
    if (const NodeState* node = ledger_.NodeAt(slot)) {
      changed.push_back(node);
      continue;
    }
    for (size_t k = 0; k < known.wanted.size(); ++k)
      known.Set(slot, k, {});
  }
  const std::optional<Query> query = Prepare(gang, changed);
  if (!query ||
      (query->devices == nullptr ? !known.specs.empty() : query->devices->Specs() != known.specs)) {
    return false;
  }
  FitProblem now = FillNodes(*query, Basis::kNow);
  FitProblem empty = FillNodes(*query, Basis::kEmpty);
  const QueryBins bins(ledger_, changed);
  if (query->devices != nullptr &&
      (!query->devices->CountAlone(now, bins, /*empty=*/false) ||
       !query->devices->CountAlone(empty, bins, /*empty=*/true) || !query->devices->Local())) {
    return false;
  }
  for (size_t n = 0; n < changed.size(); ++n) {
    for (size_t k = 0; k < known.wanted.size(); ++k) {
      if (now.Cap(n, k) > AloneCount::kMost || empty.Cap(n, k) > AloneCount::kMost)
        return false;
      known.Set(changed[n]->slot, k,
                {static_cast<uint16_t>(now.Cap(n, k)), static_cast<uint16_t>(empty.Cap(n, k))});
    }
  }
  known.seen = ledger_.Marks().Now();
  // That all would fit if the cluster were empty follows from the sums for one kind of pod only.
  if (known.wanted.size() == 1 || known.ShortWhenEmpty())
    return true;
  return !known.arrangement.empty() && std::all_of(slots.begin(), slots.end(), [&](size_t slot) {
    return ArrangementHolds(gang, known, slot);
  });
}

bool CapacityImpl::ArrangementHolds(const Gang& gang, const Refused& known, size_t slot) const {
  std::vector<int64_t> counts(known.wanted.size(), 0);
  bool any = false;
  for (const Refused::Part& part : known.arrangement) {
    if (part.slot != slot)
      continue;
    counts[part.kind] += part.count;
    any = true;
  }
  if (!any)
    return true;
  const NodeState* node = ledger_.NodeAt(slot);
  if (node == nullptr)
    return false;
  const std::vector<const NodeState*> nodes = {node};
  const std::optional<Query> query = Prepare(gang, nodes);
  if (!query)
    return false;
  FitProblem problem = FillNodes(*query, Basis::kEmpty);
  for (size_t k = 0; k < counts.size(); ++k)
    problem.kinds[k].count = counts[k];
  return Find(*query, problem, Basis::kEmpty).result.end == SearchEnd::kFound;
}

void CapacityImpl::Remember(const Gang& gang, const std::string& key, const Query& query,
                            const FitProblem& now, const FitProblem& empty,
                            const SearchResult& when_empty) const {
  if (key.empty() || (query.devices != nullptr && !query.devices->Local()))
    return;
  const size_t kinds = query.kinds.size();
  Refused refused;
  refused.seen = ledger_.Marks().Now();
  for (size_t k = 0; k < kinds; ++k) {
    for (const size_t set : query.kinds[k].pod_sets)
      refused.shapes.push_back(gang.pod_sets[set].shape);
    refused.wanted.push_back(now.kinds[k].count);
  }
  refused.now.assign(kinds, 0);
  refused.empty.assign(kinds, 0);
  refused.alone.resize(ledger_.Slots() * kinds);
  if (query.devices != nullptr)
    refused.specs = query.devices->Specs();
  const std::vector<const NodeState*>& nodes = *query.nodes;
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (size_t k = 0; k < kinds; ++k) {
      if (now.Cap(n, k) > AloneCount::kMost || empty.Cap(n, k) > AloneCount::kMost)
        return;
      refused.Set(nodes[n]->slot, k,
                  {static_cast<uint16_t>(now.Cap(n, k)), static_cast<uint16_t>(empty.Cap(n, k))});
    }
  }
  if (!refused.ShortNow())
    return;
  if (!refused.ShortWhenEmpty()) {
    if (when_empty.end != SearchEnd::kFound)
      return;
    for (const Assigned& part : when_empty.assigned) {
      if (kinds > 1)
        refused.arrangement.push_back({nodes[part.bin]->slot, part.kind, part.count});
    }
  }
  memory_.Keep(key, std::move(refused));
}

// What the rules make of the places that amounts and ports leave, `caps`. Devices only take away
// from these, so what is impossible is impossible with them, too.
SearchResult CapacityImpl::Ruled(const Query& query, const FitProblem& problem,
                                 const std::vector<int64_t>& caps, Basis basis) {
  if (query.devices == nullptr)
    return query.rules->Place(problem, basis);
  FitProblem without = problem;
  without.cap = caps;
  return query.rules->Place(without, basis);
}

Placement CapacityImpl::ToPlacement(const Gang& gang, const Query& query,
                                    const std::vector<Assigned>& assigned) const {
  const std::vector<const NodeState*>& nodes = Nodes();
  std::vector<Assigned> sorted = assigned;
  std::sort(sorted.begin(), sorted.end(), [](const Assigned& a, const Assigned& b) {
    return a.kind != b.kind ? a.kind < b.kind : a.bin < b.bin;
  });
  Placement placement;
  size_t next = 0;
  for (size_t k = 0; k < query.kinds.size(); ++k) {
    std::vector<size_t>::const_iterator set = query.kinds[k].pod_sets.begin();
    int64_t want = gang.pod_sets[*set].count;
    for (; next < sorted.size() && sorted[next].kind == k; ++next) {
      int64_t have = sorted[next].count;
      while (have > 0) {
        const int64_t count = std::min(have, want);
        placement.push_back(
            {*set, nodes[sorted[next].bin]->facts.name, static_cast<int32_t>(count)});
        have -= count;
        want -= count;
        if (want == 0 && ++set != query.kinds[k].pod_sets.end())
          want = gang.pod_sets[*set].count;
      }
    }
  }
  std::stable_sort(
      placement.begin(), placement.end(),
      [](const PlacementSlot& a, const PlacementSlot& b) { return a.pod_set < b.pod_set; });
  return placement;
}

VolumeUse CapacityImpl::UseOfVolumes(const api::PodShape& shape, int64_t count) const {
  return volumes_.known() && shape.volumes ? GangVolumes::UseOf(ledger_, volumes_, shape, count)
                                           : VolumeUse::kFree;
}

VolumeUse CapacityImpl::UseOfVolumes(const Gang& gang) const {
  VolumeUse use = VolumeUse::kFree;
  for (const GangPodSet& set : gang.pod_sets) {
    if (set.count > 0)
      use = std::max(use, UseOfVolumes(*set.shape, set.count));
  }
  return use;
}

// Which volumes pods in flight get is the scheduler's choice, too, and no count of places covers
// it: gangs that choose volumes, or have any to attach where that is limited, are released one
// after the other among themselves.
FlightResult CapacityImpl::CheckFlights(const Gang& gang) const {
  const VolumeUse volumes = UseOfVolumes(gang);
  FlightResult result;
  for (const auto& [serial, state] : ledger_.InFlight()) {
    if (state->id == gang.id)
      continue;
    bool waits = volumes == VolumeUse::kAlone;
    for (const SetPlan& set : state->reservation->sets) {
      const int64_t unbound = set.Unbound();
      if (waits || unbound == 0)
        continue;
      const VolumeUse theirs = UseOfVolumes(*set.shape, unbound);
      waits = theirs == VolumeUse::kAlone ||
              (theirs == VolumeUse::kChooses && volumes == VolumeUse::kChooses);
    }
    if (waits)
      result.waits_for.push_back(state->id);
  }
  result.clear = result.waits_for.empty();
  return result.clear ? flights_.Check(gang) : result;
}

bool CapacityImpl::Hinders(const Gang& next, const Gang& waiting,
                           const std::vector<Gang>& since) const {
  if (UseOfVolumes(next) != VolumeUse::kFree || UseOfVolumes(waiting) != VolumeUse::kFree)
    return Check(waiting, Reason::kNone).kind == FitKind::kFits;
  // Whether those who wait have their places is told by counting places, but not for all devices.
  return flights_.Hinders(next, waiting, since) &&
         (!NeedsDevices(waiting) || Check(waiting, Reason::kNone).kind == FitKind::kFits);
}

bool CapacityImpl::NeedsDevices(const api::PodShape& shape) const {
  return devices_known_ &&
         (!shape.claims.empty() ||
          std::any_of(shape.container_resources.begin(), shape.container_resources.end(),
                      [this](const api::ContainerResource& asked) {
                        return devices_.inventory().ClassOfResource(asked.resource) != nullptr;
                      }));
}

bool CapacityImpl::NeedsDevices(const Gang& gang) const {
  return std::any_of(gang.pod_sets.begin(), gang.pod_sets.end(), [this](const GangPodSet& set) {
    return set.count > 0 && NeedsDevices(*set.shape);
  });
}

DeviceCharge CapacityImpl::ChargeOf(const DeviceQuota& quota, const std::string& ns,
                                    const api::PodShape& shape,
                                    const std::vector<api::PodClaim>& shared) const {
  std::vector<std::shared_ptr<const api::ClaimSpec>> specs;  // keeps what the claims point to
  std::vector<TemplateClaim> claims;
  for (const api::PodClaim& claim : shape.claims) {
    if (claim.claim_template.empty() ||
        std::find(shared.begin(), shared.end(), claim) != shared.end()) {
      continue;
    }
    specs.push_back(devices_.FindTemplate({ns, claim.claim_template}));
    if (specs.back() == nullptr) {
      return {{},
              {},
              "resourceClaims[" + claim.name + "]: ResourceClaimTemplate " + ns + "/" +
                  claim.claim_template + " does not exist"};
    }
    claims.push_back({claim.name, claim.claim_template, specs.back().get()});
  }
  return quota.ChargeOf(claims, shape.requests, devices_.inventory());
}

std::unique_ptr<Capacity> MakeCapacity() {
  return std::make_unique<CapacityImpl>();
}

}  // namespace tutti::engine
