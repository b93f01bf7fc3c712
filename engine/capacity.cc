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
#include "engine/in_flight.h"
#include "engine/node_filter.h"

namespace tutti::engine {
namespace {

// --- a question, prepared
// -------------------------------------------------------------------------------

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
  FitProblem kinds_only;  // kinds and clash; FillNodes adds the nodes
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
  FlightResult CheckFlights(const Gang& gang) const override { return flights_.Check(gang); }
  bool Hinders(const Gang& next, const Gang& waiting,
               const std::vector<Gang>& since) const override {
    return flights_.Hinders(next, waiting, since);
  }
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
  uint64_t FlightVersion() const override { return ledger_.FlightVersion(); }
  std::string SanityCheck() const override { return ledger_.SanityCheck(); }

 private:
  std::optional<Query> Prepare(const Gang& gang) const;
  FitProblem FillNodes(const Query& query, Basis basis) const;
  Placement ToPlacement(const Gang& gang, const Query& query,
                        const std::vector<Assigned>& assigned) const;
  std::string Explain(const Gang& gang, const Query& query, const FitProblem& now,
                      const FitProblem& empty, FitFacts facts,
                      const std::vector<int64_t>& placed) const;
  KindFacts FactsOf(const Gang& gang, const Query& query, const FitProblem& now,
                    const FitProblem& empty, size_t kind, bool never) const;
  std::vector<std::string> Holders(const Query& query, size_t kind, int32_t resource) const;
  [[nodiscard]] const std::vector<const NodeState*>& Nodes() const { return ledger_.Nodes(); }

  CapacityLedger ledger_;
  InFlight flights_{ledger_};
};

// Nothing for a gang without pods.
std::optional<Query> CapacityImpl::Prepare(const Gang& gang) const {
  Query query;
  std::set<std::string> undecided;
  std::set<std::string> names;
  std::vector<int64_t> counts;
  for (size_t i = 0; i < gang.pod_sets.size(); ++i) {
    const GangPodSet& set = gang.pod_sets[i];
    if (set.count <= 0)
      continue;
    if (const std::string rules = LeftToScheduler(*set.shape); !rules.empty())
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
  for (const std::string& rules : undecided) {
    query.undecided += (query.undecided.empty() ? "left to the scheduler: " : "; ") + rules;
  }

  for (const std::string& name : names) {
    query.names.push_back(name);
    query.ids.push_back(ledger_.FindResource(name));
  }
  query.names.emplace_back(kPodsResource);
  query.ids.push_back(kPodsId);

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

  const std::vector<const NodeState*>& nodes = Nodes();
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
  const std::vector<const NodeState*>& nodes = Nodes();
  problem.free.assign(problem.bins * resources, 0);
  problem.cap.assign(problem.bins * kinds, 0);
  std::vector<Wide> total(resources, 0);
  for (size_t n = 0; n < nodes.size(); ++n) {
    const NodeState& node = *nodes[n];
    int64_t* free = problem.free.data() + n * resources;
    for (size_t r = 0; r < resources; ++r) {
      const Cell* cell = node.Find(query.ids[r]);
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
  return problem;
}

FitResult CapacityImpl::Check(const Gang& gang) const {
  const std::optional<Query> query = Prepare(gang);
  if (!query)
    return {};
  const FitProblem now = FillNodes(*query, Basis::kNow);
  const SearchResult found = Search(now);
  FitResult result;
  if (found.end == SearchEnd::kFound) {
    result.kind = query->undecided.empty() ? FitKind::kFits : FitKind::kUndecided;
    result.message = query->undecided;
    result.placement = ToPlacement(gang, *query, found.assigned);
    return result;
  }
  const FitProblem empty = FillNodes(*query, Basis::kEmpty);
  const bool same = empty.free == now.free && empty.cap == now.cap;
  const SearchResult when_empty = same ? found : Search(empty);
  FitFacts facts;
  facts.never = when_empty.end == SearchEnd::kImpossible;
  facts.gave_up =
      !facts.never && (found.end == SearchEnd::kGaveUp || when_empty.end == SearchEnd::kGaveUp);
  result.kind = facts.never ? FitKind::kNever : FitKind::kNotNow;
  result.message = Explain(gang, *query, now, empty, std::move(facts),
                           result.kind == FitKind::kNever ? when_empty.placed : found.placed);
  return result;
}

std::string CapacityImpl::Explain(const Gang& gang, const Query& query, const FitProblem& now,
                                  const FitProblem& empty, FitFacts facts,
                                  const std::vector<int64_t>& placed) const {
  const FitProblem& basis = facts.never ? empty : now;
  facts.alone_each_fits = true;
  facts.blocking = query.kinds.size();
  for (size_t k = 0; k < query.kinds.size(); ++k) {
    KindFacts kind = FactsOf(gang, query, now, empty, k, facts.never);
    kind.placed = placed[k];
    Wide places = 0;
    for (size_t n = 0; n < basis.bins; ++n)
      places += basis.Cap(n, k);
    // Explain a kind that can't be placed even alone, else the first that first-fit left over.
    if (places < kind.count && facts.alone_each_fits) {
      facts.alone_each_fits = false;
      facts.blocking = k;
    } else if (facts.blocking == query.kinds.size() && kind.placed < kind.count) {
      facts.blocking = k;
    }
    facts.kinds.push_back(std::move(kind));
  }
  KindFacts& blocking = facts.kinds[facts.blocking];
  if (!facts.never) {
    const ResourceFacts* scarce = ShortResource(blocking);
    if (scarce == nullptr) {  // short only together: the scarcest by itself stands for it
      scarce = &*std::min_element(
          blocking.resources.begin(), blocking.resources.end(),
          [](const ResourceFacts& a, const ResourceFacts& b) { return a.places < b.places; });
    }
    blocking.holders = Holders(query, facts.blocking, ledger_.FindResource(scarce->name));
  }
  const std::string text = FitMessage(facts);
  return query.undecided.empty() ? text : text + " (" + query.undecided + ")";
}

KindFacts CapacityImpl::FactsOf(const Gang& gang, const Query& query, const FitProblem& now,
                                const FitProblem& empty, size_t k, bool never) const {
  const KindQuery& kind = query.kinds[k];
  const PodKind& pods = now.kinds[k];
  const size_t kinds = query.kinds.size();
  KindFacts facts;
  facts.count = pods.count;
  for (size_t i : kind.pod_sets) {
    facts.pod_sets += (facts.pod_sets.empty() ? "" : ",") + gang.pod_sets[i].name;
  }
  const api::PodShape& shape = *kind.first->shape;
  std::vector<std::string> selection;
  if (!shape.node_name.empty())
    selection.push_back("node name " + shape.node_name);
  for (const auto& [key, value] : shape.node_selector)
    selection.push_back(key + "=" + value);
  for (const auto& [key, value] : kind.first->node_selector) {
    const std::string* own = api::FindIn(shape.node_selector, key);
    if (own == nullptr || *own != value)
      selection.push_back(key + "=" + value);
  }
  if (shape.has_required_affinity || !shape.required_affinity.empty()) {
    selection.emplace_back("the required node affinity");
  }
  for (const std::string& part : selection) {
    facts.selection += (facts.selection.empty() ? "" : ", ") + part;
  }
  facts.has_ports = !kind.ports.empty();
  for (const api::HostPort& port : kind.ports) {
    facts.ports += (facts.ports.empty() ? "" : ", ") + std::to_string(port.port) + "/" +
                   (port.protocol.empty() ? "TCP" : port.protocol);
  }

  const std::vector<const NodeState*>& nodes = Nodes();
  for (size_t n = 0; n < nodes.size(); ++n) {
    const Verdict verdict = query.verdicts[n * kinds + k];
    if (verdict == Verdict::kNoMatch)
      continue;
    ++facts.nodes.matching;
    if (verdict == Verdict::kCordoned) {
      ++facts.nodes.cordoned;
    } else if (verdict == Verdict::kTainted) {
      ++facts.nodes.tainted;
      facts.nodes.taints.insert(query.filters[k].UntoleratedTaint(nodes[n]->facts));
    } else if (empty.Cap(n, k) == 0) {
      ++facts.nodes.too_small;
    } else if (!never && now.Cap(n, k) == 0) {
      const bool room = FitCount(now.Free(n), pods.request, 1) == 1;
      ++(room ? facts.nodes.port_taken : facts.nodes.full);
    }
  }
  const FitProblem& problem = never ? empty : now;
  for (size_t r = 0; r < query.names.size(); ++r) {
    if (pods.request[r] == 0)
      continue;
    ResourceFacts resource;
    resource.name = query.names[r];
    resource.request = pods.request[r];
    Wide sum = 0;
    Wide places = 0;
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (query.verdicts[n * kinds + k] != Verdict::kAdmits)
        continue;
      const int64_t free = problem.Free(n)[r];
      sum += free;
      places += free / resource.request;
      resource.largest = std::max(resource.largest, empty.Free(n)[r]);
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
    if (query.verdicts[n * query.kinds.size() + kind] != Verdict::kAdmits)
      continue;
    for (const Holding& holding : nodes[n]->holdings) {
      for (const auto& [id, amount] : holding.load->first.requests) {
        if (id == resource)
          amounts[holding.gang] += Wide{amount} * (holding.bound + holding.promised);
      }
    }
  }
  std::vector<std::pair<Wide, std::string>> sorted;
  for (const auto& [gang, amount] : amounts) {
    sorted.emplace_back(-amount, gang->id.empty() ? "pods outside the queues" : gang->id);
  }
  const size_t shown = std::min<size_t>(3, sorted.size());
  std::partial_sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(shown),
                    sorted.end());
  std::vector<std::string> names;
  for (size_t i = 0; i < shown; ++i)
    names.push_back(sorted[i].second);
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

}  // namespace

std::unique_ptr<Capacity> MakeCapacity() {
  return std::make_unique<CapacityImpl>();
}

}  // namespace tutti::engine
