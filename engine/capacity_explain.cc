// SPDX-License-Identifier: Apache-2.0
// Why a gang has no place, in facts that are counted on the problem that was just solved; the text
// is made of them in fit_message.h.
#include <algorithm>
#include <optional>
#include <unordered_map>

#include "engine/capacity_impl.h"

namespace tutti::engine {

// There are enough places, but not with what the pods ask of each other and of those around them.
FitResult CapacityImpl::RuledOut(const Query& query, int64_t placed) const {
  const FitProblem empty = FillNodes(query, Basis::kEmpty);
  const SearchResult when_empty = query.rules->Place(empty, Basis::kEmpty);
  FitResult result;
  const bool never = when_empty.end == SearchEnd::kImpossible;
  result.kind = never ? FitKind::kNever : FitKind::kNotNow;
  const std::string of = " of " + std::to_string(empty.kinds[0].count) + " pods";
  result.message = never ? "can't ever fit as the cluster is: room for " +
                               std::to_string(when_empty.placed[0]) + of + " when it is empty"
                         : std::to_string(placed) + of + " fit now";
  result.message += "; without the pods' own rules all would: " + query.rules->Text();
  if (!query.undecided.empty())
    result.message += " (" + query.undecided + ")";
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
    if (k < facts.devices.size())
      kind.devices = facts.devices[k];
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
  const auto out_of_reach = [&](size_t n) {
    return query.volumes != nullptr &&
           query.volumes->Limit(never ? Basis::kEmpty : Basis::kNow, n, k) == 0;
  };
  if (query.volumes != nullptr)
    facts.volumes = query.volumes->Text(k);
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
    } else if (out_of_reach(n)) {
      ++facts.nodes.no_volumes;
    } else if (empty.Cap(n, k) == 0) {
      const bool room = FitCount(empty.Free(n), pods.request, 1) == 1;
      ++(room ? facts.nodes.no_devices : facts.nodes.too_small);
    } else if (!never && now.Cap(n, k) == 0) {
      const bool room = FitCount(now.Free(n), pods.request, 1) == 1;
      const bool port = room && PortTakenOn(*nodes[n], kind.ports, Basis::kNow);
      ++(port ? facts.nodes.port_taken : room ? facts.nodes.no_devices : facts.nodes.full);
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
      if (query.verdicts[n * kinds + k] != Verdict::kAdmits || out_of_reach(n))
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

}  // namespace tutti::engine
