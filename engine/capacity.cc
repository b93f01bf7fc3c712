// SPDX-License-Identifier: Apache-2.0
// The questions of capacity.h, asked of the books in capacity_ledger.h: which nodes admit the pods
// (node_filter.h), how much is free there, is there an arrangement (gang_fit.h), and if not, why
// (fit_message.h). Loop thread.
#include "engine/capacity.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "api/quantity.h"
#include "engine/capacity_ledger.h"
#include "engine/fit_message.h"
#include "engine/gang_fit.h"
#include "engine/node_filter.h"

namespace tutti::engine {
namespace {

// What of the pod's rules is not decided here; "" = all is.
std::string LeftToScheduler(const api::PodShape& shape) {
  std::string text;
  const auto add = [&](const std::string& what) { text += (text.empty() ? "" : ", ") + what; };
  if (shape.has_pod_affinity) add("inter-pod affinity");
  if (shape.has_topology_spread) add("topology spread (DoNotSchedule)");
  if (shape.has_volumes_claims) add("volume claims");
  if (shape.has_resource_claims) add("resource claims");
  if (shape.has_scheduling_gates) add("scheduling gates");
  if (!shape.scheduler_name.empty() && shape.scheduler_name != "default-scheduler") {
    add("schedulerName " + shape.scheduler_name);
  }
  return text;
}

// --- a question, prepared -------------------------------------------------------------------------------

// Pods that are alike in everything that decides where they may go.
struct KindQuery {
  const GangPodSet* first = nullptr;
  std::vector<size_t> pod_sets;
  std::vector<api::HostPort> ports;
};

struct Query {
  std::vector<std::string> names;  // of the resources, sorted, "pods" last
  std::vector<int32_t> ids;        // -1: no node or pod ever had it
  std::vector<KindQuery> kinds;
  std::vector<NodeFilter> filters;
  std::vector<Verdict> verdicts;  // nodes x kinds
  std::string undecided;
  FitProblem problem;  // kinds, clash, total; the nodes are filled in per basis
};

enum class Basis {
  kNow,        // pods and promises
  kBoundOnly,  // pods
  kEmpty,      // nothing
};

class CapacityImpl final : public Capacity {
 public:
  void SetNode(const api::Node& node) override { ledger_.SetNode(node); }
  void RemoveNode(const std::string& name) override { ledger_.RemoveNode(name); }
  void SetPod(const std::string& uid, const std::string& node,
              std::shared_ptr<const api::PodShape> shape, const std::string& gang,
              const std::string& pod_set) override {
    ledger_.SetPod(uid, node, *shape, gang, pod_set);
  }
  void RemovePod(const std::string& uid) override { ledger_.RemovePod(uid); }
  FitResult Check(const Gang& gang) const override;
  bool FitsWhateverInFlight(const Gang& gang) const override;
  void Reserve(const Gang& gang, const Placement& placement) override {
    ledger_.Reserve(gang, placement);
  }
  void Release(const std::string& gang_id) override { ledger_.Release(gang_id); }
  int32_t Unbound(const std::string& gang_id) const override { return ledger_.Unbound(gang_id); }
  int32_t Bound(const std::string& gang_id, const std::string& pod_set) const override {
    return ledger_.Bound(gang_id, pod_set);
  }
  bool PlanBroken(const std::string& gang_id) const override { return ledger_.PlanBroken(gang_id); }
  int32_t CountNodes(const api::StringMap& labels) const override {
    return ledger_.CountNodes(labels);
  }
  uint64_t Version() const override { return ledger_.Version(); }
  std::string SanityCheck() const override { return ledger_.SanityCheck(); }

 private:
  std::optional<Query> Prepare(const Gang& gang) const;
  void FillNodes(Query& query, Basis basis) const;
  static bool PortTaken(const NodeState& node, const std::vector<api::HostPort>& ports, Basis basis);
  Placement ToPlacement(const Gang& gang, const Query& query,
                        const std::vector<Assigned>& assigned) const;
  KindFacts FactsOf(const Gang& gang, const Query& now, const Query& empty, size_t kind,
                    bool never) const;
  std::vector<std::string> Holders(const Query& query, size_t kind, int32_t resource) const;
  [[nodiscard]] const std::vector<const NodeState*>& Nodes() const { return ledger_.Nodes(); }

  CapacityLedger ledger_;
};

// Nothing for a gang without pods.
std::optional<Query> CapacityImpl::Prepare(const Gang& gang) const {
  Query query;
  std::set<std::string> undecided;
  std::set<std::string> names;
  std::vector<int64_t> counts;
  for (size_t i = 0; i < gang.pod_sets.size(); ++i) {
    const GangPodSet& set = gang.pod_sets[i];
    if (set.count <= 0) continue;
    if (const std::string rules = LeftToScheduler(*set.shape); !rules.empty()) undecided.insert(rules);
    for (const auto& [name, amount] : set.shape->requests) {
      if (amount > 0 && CountsForFit(name)) names.insert(name);
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
  if (query.kinds.empty()) return std::nullopt;
  for (const std::string& rules : undecided) {
    query.undecided += (query.undecided.empty() ? "left to the scheduler: " : "; ") + rules;
  }

  for (const std::string& name : names) {
    query.names.push_back(name);
    query.ids.push_back(ledger_.FindResource(name));
  }
  query.names.emplace_back(kPodsResource);
  query.ids.push_back(kPodsId);

  FitProblem& problem = query.problem;
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

  const std::vector<const NodeState*>& nodes = Nodes();
  problem.bins = nodes.size();
  query.verdicts.reserve(nodes.size() * query.kinds.size());
  for (const NodeState* node : nodes) {
    for (const NodeFilter& filter : query.filters) query.verdicts.push_back(filter.Check(node->facts));
  }
  return query;
}

bool CapacityImpl::PortTaken(const NodeState& node, const std::vector<api::HostPort>& ports,
                             Basis basis) {
  if (ports.empty() || basis == Basis::kEmpty) return false;
  return std::any_of(node.holdings.begin(), node.holdings.end(), [&](const Holding& holding) {
    return (basis == Basis::kNow || holding.bound > 0) &&
           PortsClash(ports, holding.load->first.ports);
  });
}

void CapacityImpl::FillNodes(Query& query, Basis basis) const {
  FitProblem& problem = query.problem;
  const size_t resources = problem.resources;
  const size_t kinds = problem.kinds.size();
  const std::vector<const NodeState*>& nodes = Nodes();
  problem.free.assign(problem.bins * resources, 0);
  problem.cap.assign(problem.bins * kinds, 0);
  std::vector<Wide> total(resources, 0);
  for (size_t n = 0; n < nodes.size(); ++n) {
    const NodeState& node = *nodes[n];
    int64_t* free = problem.free.data() + n * resources;
    for (size_t r = 0; r < resources; ++r) {
      const Cell* cell = node.Find(query.ids[r]);
      if (cell == nullptr) continue;
      total[r] += cell->allocatable;
      Wide used = basis == Basis::kEmpty ? Wide{0} : cell->used;
      if (basis == Basis::kBoundOnly) {
        for (const Holding& holding : node.holdings) {
          if (holding.promised == 0) continue;
          for (const auto& [resource, amount] : holding.load->first.requests) {
            if (resource == query.ids[r]) used -= Wide{amount} * holding.promised;
          }
        }
      }
      if (used < cell->allocatable) free[r] = static_cast<int64_t>(cell->allocatable - used);
    }
    for (size_t k = 0; k < kinds; ++k) {
      if (query.verdicts[n * kinds + k] != Verdict::kAdmits) continue;
      const PodKind& kind = problem.kinds[k];
      const int64_t limit = query.kinds[k].ports.empty() ? kind.count : 1;
      const int64_t cap = FitCount(free, kind.request, limit);
      if (cap > 0 && !PortTaken(node, query.kinds[k].ports, basis)) {
        problem.cap[n * kinds + k] = cap;
      }
    }
  }
  problem.total.clear();
  for (const Wide sum : total) {
    problem.total.push_back(
        static_cast<int64_t>(std::min<Wide>(sum, std::numeric_limits<int64_t>::max())));
  }
}

FitResult CapacityImpl::Check(const Gang& gang) const {
  std::optional<Query> query = Prepare(gang);
  if (!query) return {};
  FillNodes(*query, Basis::kNow);
  const SearchResult now = Search(query->problem);
  FitResult result;
  if (now.end == SearchEnd::kFound) {
    result.kind = query->undecided.empty() ? FitKind::kFits : FitKind::kUndecided;
    result.message = query->undecided;
    result.placement = ToPlacement(gang, *query, now.assigned);
    return result;
  }
  Query empty = *query;
  FillNodes(empty, Basis::kEmpty);
  const SearchResult when_empty = Search(empty.problem);
  const bool never = when_empty.end == SearchEnd::kImpossible;
  result.kind = never ? FitKind::kNever : FitKind::kNotNow;
  FitFacts facts;
  facts.never = never;
  facts.gave_up = !never && (now.end == SearchEnd::kGaveUp || when_empty.end == SearchEnd::kGaveUp);
  const SearchResult& told = never ? when_empty : now;
  facts.alone_each_fits = true;
  facts.blocking = query->kinds.size();
  for (size_t k = 0; k < query->kinds.size(); ++k) {
    KindFacts kind = FactsOf(gang, *query, empty, k, never);
    kind.placed = told.placed[k];
    const Query& basis = never ? empty : *query;
    Wide places = 0;
    for (size_t n = 0; n < basis.problem.bins; ++n) places += basis.problem.Cap(n, k);
    const bool fits_alone = places >= kind.count;
    // Explain a kind that can't be placed even alone, else the first that first-fit left over.
    if (!fits_alone && facts.alone_each_fits) {
      facts.alone_each_fits = false;
      facts.blocking = k;
    } else if (facts.blocking == query->kinds.size() && kind.placed < kind.count) {
      facts.blocking = k;
    }
    facts.kinds.push_back(std::move(kind));
  }
  KindFacts& blocking = facts.kinds[facts.blocking];
  if (!never) {
    const ResourceFacts* scarce = ShortResource(blocking);
    std::string_view name = scarce != nullptr ? std::string_view(scarce->name) : std::string_view();
    if (scarce == nullptr) {  // short only together: the largest request stands for it
      int64_t fewest = std::numeric_limits<int64_t>::max();
      for (const ResourceFacts& resource : blocking.resources) {
        if (resource.places >= fewest) continue;
        fewest = resource.places;
        name = resource.name;
      }
    }
    for (size_t r = 0; r < query->names.size(); ++r) {
      if (query->names[r] == name) {
        blocking.holders = Holders(*query, facts.blocking, query->ids[r]);
      }
    }
  }
  result.message = FitMessage(facts);
  if (!query->undecided.empty()) result.message += " (" + query->undecided + ")";
  return result;
}

KindFacts CapacityImpl::FactsOf(const Gang& gang, const Query& now, const Query& empty, size_t k,
                                bool never) const {
  const KindQuery& query = now.kinds[k];
  const PodKind& pods = now.problem.kinds[k];
  const size_t kinds = now.kinds.size();
  KindFacts facts;
  facts.count = pods.count;
  for (size_t i : query.pod_sets) {
    facts.pod_sets += (facts.pod_sets.empty() ? "" : ",") + gang.pod_sets[i].name;
  }
  const api::PodShape& shape = *query.first->shape;
  std::vector<std::string> selection;
  if (!shape.node_name.empty()) selection.push_back("node name " + shape.node_name);
  for (const auto& [key, value] : shape.node_selector) selection.push_back(key + "=" + value);
  for (const auto& [key, value] : query.first->node_selector) {
    const std::string* own = api::FindIn(shape.node_selector, key);
    if (own == nullptr || *own != value) selection.push_back(key + "=" + value);
  }
  if (shape.has_required_affinity || !shape.required_affinity.empty()) {
    selection.emplace_back("the required node affinity");
  }
  for (const std::string& part : selection) {
    facts.selection += (facts.selection.empty() ? "" : ", ") + part;
  }
  facts.has_ports = !query.ports.empty();
  for (const api::HostPort& port : query.ports) {
    facts.ports += (facts.ports.empty() ? "" : ", ") + std::to_string(port.port) + "/" +
                   (port.protocol.empty() ? "TCP" : port.protocol);
  }

  const std::vector<const NodeState*>& nodes = Nodes();
  for (size_t n = 0; n < nodes.size(); ++n) {
    const Verdict verdict = now.verdicts[n * kinds + k];
    if (verdict == Verdict::kNoMatch) continue;
    ++facts.nodes.matching;
    if (verdict == Verdict::kCordoned) {
      ++facts.nodes.cordoned;
    } else if (verdict == Verdict::kTainted) {
      ++facts.nodes.tainted;
      facts.nodes.taints.insert(now.filters[k].UntoleratedTaint(nodes[n]->facts));
    } else if (empty.problem.Cap(n, k) == 0) {
      ++facts.nodes.too_small;
    } else if (!never && now.problem.Cap(n, k) == 0) {
      const bool room = FitCount(now.problem.Free(n), pods.request, 1) == 1;
      ++(room ? facts.nodes.port_taken : facts.nodes.full);
    }
  }
  const FitProblem& problem = never ? empty.problem : now.problem;
  for (size_t r = 0; r < now.names.size(); ++r) {
    if (pods.request[r] == 0) continue;
    ResourceFacts resource;
    resource.name = now.names[r];
    resource.request = pods.request[r];
    Wide sum = 0;
    Wide places = 0;
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (now.verdicts[n * kinds + k] != Verdict::kAdmits) continue;
      const int64_t free = problem.Free(n)[r];
      sum += free;
      places += free / resource.request;
      resource.largest = std::max(resource.largest, empty.problem.Free(n)[r]);
    }
    resource.places = static_cast<int64_t>(std::min<Wide>(places, pods.count));
    resource.enough_in_total = places < pods.count && sum >= Wide{pods.count} * resource.request;
    facts.resources.push_back(std::move(resource));
  }
  return facts;
}

std::vector<std::string> CapacityImpl::Holders(const Query& query, size_t kind,
                                               int32_t resource) const {
  std::unordered_map<const GangState*, Wide> amounts;  // order of iteration is not used
  const std::vector<const NodeState*>& nodes = Nodes();
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (query.verdicts[n * query.kinds.size() + kind] != Verdict::kAdmits) continue;
    for (const Holding& holding : nodes[n]->holdings) {
      for (const auto& [id, amount] : holding.load->first.requests) {
        if (id == resource) amounts[holding.gang] += Wide{amount} * (holding.bound + holding.promised);
      }
    }
  }
  std::vector<std::pair<Wide, std::string>> sorted;
  for (const auto& [gang, amount] : amounts) {
    sorted.emplace_back(-amount, gang->id.empty() ? "pods outside the queues" : gang->id);
  }
  const size_t shown = std::min<size_t>(3, sorted.size());
  std::partial_sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(shown), sorted.end());
  std::vector<std::string> names;
  for (size_t i = 0; i < shown; ++i) names.push_back(sorted[i].second);
  return names;
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
        placement.push_back({*set, nodes[sorted[next].bin]->facts.name, static_cast<int32_t>(count)});
        have -= count;
        want -= count;
        if (want == 0 && ++set != query.kinds[k].pod_sets.end()) want = gang.pod_sets[*set].count;
      }
    }
  }
  std::stable_sort(placement.begin(), placement.end(),
                   [](const PlacementSlot& a, const PlacementSlot& b) { return a.pod_set < b.pod_set; });
  return placement;
}

// Whatever an in-flight pod takes on a node: of a valid packing of this gang on the node, taking away
// D pods of each kind makes room for it, D = max over resources of ceil(its request / the kind's). For
// each resource either so many pods of a kind go that enough is freed, or all that use it go, and then
// the in-flight pods fit since the scheduler places them only where they do. So a packing of the gang
// with D more pods of each kind per in-flight pod always leaves a packing of the gang.
bool CapacityImpl::FitsWhateverInFlight(const Gang& gang) const {
  std::optional<Query> query = Prepare(gang);
  if (!query) return true;
  if (!query->undecided.empty()) return false;
  FillNodes(*query, Basis::kNow);
  if (Search(query->problem).end != SearchEnd::kFound) return false;
  const std::vector<const NodeState*>& nodes = Nodes();
  const size_t kinds = query->kinds.size();
  std::vector<int64_t> wanted;
  for (PodKind& kind : query->problem.kinds) {
    wanted.push_back(kind.count);
    kind.count = std::numeric_limits<int64_t>::max();  // caps are what a node takes of any number
  }
  FillNodes(*query, Basis::kBoundOnly);
  std::vector<int64_t> extra(kinds, 0);
  for (const auto& [id, state] : ledger_.Gangs()) {
    if (!state.reservation || id == gang.id) continue;
    Gang flying;
    for (const SetPlan& plan : state.reservation->sets) {
      int32_t count = 0;
      for (const auto& [node, slots] : plan.slots) count += slots;
      if (count == 0) continue;
      flying.pod_sets.assign(1, {plan.name, count, plan.shape, plan.node_selector, plan.tolerations});
      std::optional<Query> where = Prepare(flying);
      FillNodes(*where, Basis::kBoundOnly);
      for (size_t k = 0; k < kinds; ++k) {
        const PodKind& kind = query->problem.kinds[k];
        int64_t damage = 0;  // one pod of the plan takes at most so many places of this kind
        for (size_t r = 0; r < query->names.size(); ++r) {
          if (kind.request[r] == 0) continue;
          const std::string& name = query->names[r];
          int64_t takes = 1;
          if (name != kPodsResource) {
            auto request = plan.shape->requests.find(name);
            takes = request == plan.shape->requests.end() ? 0 : std::max<int64_t>(0, request->second);
          }
          if (takes > 0) damage = std::max(damage, (takes - 1) / kind.request[r] + 1);
        }
        int64_t worst = 0;
        for (size_t n = 0; n < nodes.size() && worst < damage; ++n) {
          if (where->problem.Cap(n, 0) == 0) continue;
          worst = std::max(worst, std::min(damage, query->problem.Cap(n, k)));
        }
        extra[k] = api::SaturatingAdd(extra[k], api::SaturatingMul(worst, count));
      }
    }
  }
  bool inflated = false;
  for (size_t k = 0; k < kinds; ++k) {
    inflated |= extra[k] > 0;
    query->problem.kinds[k].count = api::SaturatingAdd(wanted[k], extra[k]);
  }
  if (!inflated) return true;
  FillNodes(*query, Basis::kBoundOnly);  // caps follow the counts
  return Search(query->problem).end == SearchEnd::kFound;
}

}  // namespace

std::unique_ptr<Capacity> MakeCapacity() { return std::make_unique<CapacityImpl>(); }

}  // namespace tutti::engine
