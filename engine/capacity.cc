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
#include "engine/device_fit.h"
#include "engine/fit_message.h"
#include "engine/gang_fit.h"
#include "engine/in_flight.h"
#include "engine/node_filter.h"
#include "engine/placement_rules.h"
#include "engine/volume_fit.h"

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
  std::vector<Verdict> verdicts;        // nodes x kinds
  std::optional<PlacementRules> rules;  // of the only kind
  std::string undecided;
  FitProblem kinds_only;        // kinds and clash; FillNodes adds the nodes
  std::vector<char> delegated;  // by resource: where a node has none, devices stand for it
  std::shared_ptr<const GangDevices> devices;  // null: no pod needs any
  std::unique_ptr<const GangVolumes> volumes;  // null: no pod has any

  void Undecided(const std::string& what) {
    undecided += (undecided.empty() ? "left to the scheduler: " : "; ") + what;
  }
};

class CapacityImpl final : public Capacity, private NodeLabels, private DeviceBins {
 public:
  void SetNode(const api::Node& node) override {
    const NodeState* state = ledger_.FindNode(node.meta.name);
    const bool added = state == nullptr;
    const auto labels = added ? decltype(NodeFacts::labels)() : state->facts.labels;
    ledger_.SetNode(node);
    if (added || labels != ledger_.FindNode(node.meta.name)->facts.labels)
      devices_.NodeChanged(node.meta.name);
  }
  void RemoveNode(const std::string& name) override {
    ledger_.RemoveNode(name);
    devices_.NodeChanged(name);
  }
  void SetDevicesKnown(bool known) override { devices_known_ = known; }
  void SetResourceSlice(std::shared_ptr<const api::ResourceSlice> slice) override {
    const bool changed = devices_.SetSlice(std::move(slice));
    charge_version_ += changed ? 1 : 0;
    Helps(changed);
  }
  void RemoveResourceSlice(const std::string& name) override {
    ++charge_version_;
    Helps(devices_.RemoveSlice(name));
  }
  void SetDeviceClass(const api::DeviceClass& device_class) override {
    ++charge_version_;
    Helps(devices_.SetClass(device_class));
    ledger_.SetDelegated(devices_.inventory().MappedResources());
  }
  void RemoveDeviceClass(const std::string& name) override {
    ++charge_version_;
    Helps(devices_.RemoveClass(name));
    ledger_.SetDelegated(devices_.inventory().MappedResources());
  }
  void SetResourceClaimTemplate(const api::ResourceClaimTemplate& claim_template) override {
    ++charge_version_;
    Helps(devices_.SetTemplate(claim_template));
  }
  void RemoveResourceClaimTemplate(const api::ObjectKey& key) override {
    ++charge_version_;
    Helps(devices_.RemoveTemplate(key));
  }
  void SetResourceClaim(const api::ResourceClaim& claim, const std::string& gang,
                        const std::string& pod_set) override {
    Helps(devices_.SetClaim(claim, gang, pod_set));
  }
  void RemoveResourceClaim(const api::ObjectKey& key) override { Helps(devices_.RemoveClaim(key)); }
  DeviceCharge ChargeOf(const DeviceQuota& quota, const std::string& ns, const api::PodShape& shape,
                        const std::vector<api::PodClaim>& shared) const override;
  uint64_t DeviceVersion() const override { return charge_version_; }
  void SetPod(const std::string& uid, const std::string& node,
              std::shared_ptr<const api::PodShape> shape, const std::string& gang,
              const std::string& pod_set, const PodIdentity& who) override {
    ledger_.SetPod(uid, node, *shape, gang, pod_set, who);
    volumes_.SetPod(uid, node, std::move(shape));
  }
  void SetNamespace(const std::string& name, const api::StringMap& labels) override {
    ledger_.SetNamespace(name, labels);
  }
  void RemoveNamespace(const std::string& name) override { ledger_.RemoveNamespace(name); }
  void RemovePod(const std::string& uid) override {
    ledger_.RemovePod(uid);
    volumes_.RemovePod(uid);
  }
  VolumeBook& Volumes() override { return volumes_; }
  FitResult Check(const Gang& gang) const override;
  FlightResult CheckFlights(const Gang& gang) const override;
  bool Hinders(const Gang& next, const Gang& waiting,
               const std::vector<Gang>& since) const override;
  void Reserve(const Gang& gang, const Placement& placement) override {
    ledger_.Reserve(gang, placement);
    Helps(devices_.Reserve(gang.id, PromisesOf(gang, placement)));
  }
  void Release(const std::string& gang_id) override {
    ledger_.Release(gang_id);
    Helps(devices_.Release(gang_id));
  }
  int32_t Unbound(const std::string& gang_id) const override { return ledger_.Unbound(gang_id); }
  int32_t Bound(const std::string& gang_id, const std::string& pod_set) const override {
    return ledger_.Bound(gang_id, pod_set);
  }
  bool PlanBroken(const std::string& gang_id) const override {
    return ledger_.PlanBroken(gang_id) || devices_.PlanBroken(gang_id);
  }
  int32_t CountNodes(const api::StringMap& labels) const override {
    return ledger_.CountNodes(labels);
  }
  uint64_t Version() const override {
    return ledger_.Version() + device_version_ + volumes_.version();
  }
  uint64_t FlightVersion() const override {
    return ledger_.FlightVersion() + device_version_ + volumes_.version();
  }
  std::string SanityCheck() const override {
    std::string problem = ledger_.SanityCheck();
    if (problem.empty())
      problem = devices_.SanityCheck();
    return problem.empty() ? volumes_.SanityCheck() : problem;
  }

 private:
  std::optional<Query> Prepare(const Gang& gang) const;
  FitProblem FillNodes(const Query& query, Basis basis) const;
  Placement ToPlacement(const Gang& gang, const Query& query,
                        const std::vector<Assigned>& assigned) const;
  std::string Explain(const Gang& gang, const Query& query, const FitProblem& now,
                      const FitProblem& empty, FitFacts facts,
                      const std::vector<int64_t>& placed) const;
  static SearchResult Ruled(const Query& query, const FitProblem& problem,
                            const std::vector<int64_t>& caps, Basis basis);
  FitResult RuledOut(const Query& query, int64_t placed) const;
  KindFacts FactsOf(const Gang& gang, const Query& query, const FitProblem& now,
                    const FitProblem& empty, size_t kind, bool never) const;
  std::vector<std::string> Holders(const Query& query, size_t kind, int32_t resource) const;
  [[nodiscard]] const std::vector<const NodeState*>& Nodes() const { return ledger_.Nodes(); }

  // For devices.
  [[nodiscard]] bool NeedsDevices(const api::PodShape& shape) const;
  [[nodiscard]] bool NeedsDevices(const Gang& gang) const;
  [[nodiscard]] VolumeUse UseOfVolumes(const api::PodShape& shape, int64_t count) const;
  [[nodiscard]] VolumeUse UseOfVolumes(const Gang& gang) const;
  [[nodiscard]] bool Matches(const api::NodeSelector& selector,
                             const std::string& node) const override;
  [[nodiscard]] const std::string& Name(size_t bin) const override {
    return Nodes()[bin]->facts.name;
  }
  [[nodiscard]] bool Offers(size_t bin, const std::string& resource) const override;
  DeviceSearch Find(const Query& query, FitProblem& problem, Basis basis) const;
  void AttachDevices(const Gang& gang, const Query& query, DevicePlan plan,
                     Placement& placement) const;
  static std::vector<PodPromise> PromisesOf(const Gang& gang, const Placement& placement);
  void Helps(bool helps) { device_version_ += helps ? 1 : 0; }

  CapacityLedger ledger_;
  DeviceLedger devices_{*this};
  bool devices_known_ = false;
  uint64_t device_version_ = 0;  // something may fit that did not
  uint64_t charge_version_ = 0;
  VolumeBook volumes_;
  InFlight flights_{ledger_, volumes_};
};

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

bool CapacityImpl::Offers(size_t bin, const std::string& resource) const {
  const int32_t id = ledger_.FindResource(resource);
  const Cell* cell = id < 0 ? nullptr : Nodes()[bin]->Find(id);
  return cell != nullptr && cell->allocatable > 0;
}

DeviceSearch CapacityImpl::Find(const Query& query, FitProblem& problem, Basis basis) const {
  if (query.devices != nullptr)
    return query.devices->Search(problem, *this, basis == Basis::kEmpty);
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
std::optional<Query> CapacityImpl::Prepare(const Gang& gang) const {
  Query query;
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

FitResult CapacityImpl::Check(const Gang& gang) const {
  std::optional<Query> query = Prepare(gang);
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
    if (query->devices != nullptr)
      AttachDevices(gang, *query, std::move(searched.plan), result.placement);
    return result;
  }
  FitProblem empty = FillNodes(*query, Basis::kEmpty);
  const std::vector<int64_t> empty_caps = empty.cap;
  const bool same = query->devices == nullptr && empty.free == now.free && empty.cap == now.cap;
  const SearchResult when_empty = same ? found : Find(*query, empty, Basis::kEmpty).result;
  if (query->rules && when_empty.end == SearchEnd::kFound &&
      Ruled(*query, empty, empty_caps, Basis::kEmpty).end == SearchEnd::kImpossible) {
    return RuledOut(*query, found.placed[0]);
  }
  FitFacts facts;
  facts.never = when_empty.end == SearchEnd::kImpossible;
  facts.gave_up =
      !facts.never && (found.end == SearchEnd::kGaveUp || when_empty.end == SearchEnd::kGaveUp);
  result.kind = facts.never ? FitKind::kNever : FitKind::kNotNow;
  const std::vector<int64_t>& placed = facts.never ? when_empty.placed : found.placed;
  if (query->devices != nullptr) {
    for (size_t k = 0; k < query->kinds.size(); ++k) {
      const int64_t count = now.kinds[k].count;
      facts.devices.push_back(query->devices->Explain(facts.never ? empty_caps : caps, *this, k,
                                                      count, count - placed[k], facts.never));
    }
  }
  result.message = Explain(gang, *query, now, empty, std::move(facts), placed);
  return result;
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

// Which devices and volumes pods in flight get is the scheduler's choice, too, and no count of
// places covers it: gangs with devices are released one after the other, and so are those that
// choose volumes, or have any to attach where that is limited, among themselves.
FlightResult CapacityImpl::CheckFlights(const Gang& gang) const {
  const bool devices = NeedsDevices(gang);
  const VolumeUse volumes = UseOfVolumes(gang);
  FlightResult result;
  for (const auto& [serial, state] : ledger_.InFlight()) {
    if (state->id == gang.id)
      continue;
    bool waits = devices || volumes == VolumeUse::kAlone;
    for (const SetPlan& set : state->reservation->sets) {
      const int64_t unbound = set.Unbound();
      if (waits || unbound == 0)
        continue;
      const VolumeUse theirs = UseOfVolumes(*set.shape, unbound);
      waits = NeedsDevices(*set.shape) || theirs == VolumeUse::kAlone ||
              (theirs == VolumeUse::kChooses && volumes == VolumeUse::kChooses);
    }
    if (waits)
      result.waits_for.push_back(state->id);
  }
  result.clear = result.waits_for.empty();
  return result.clear && !devices ? flights_.Check(gang) : result;
}

bool CapacityImpl::Hinders(const Gang& next, const Gang& waiting,
                           const std::vector<Gang>& since) const {
  if (NeedsDevices(next) || NeedsDevices(waiting) || UseOfVolumes(next) != VolumeUse::kFree ||
      UseOfVolumes(waiting) != VolumeUse::kFree)
    return Check(waiting).kind == FitKind::kFits;
  return flights_.Hinders(next, waiting, since);
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

}  // namespace

std::unique_ptr<Capacity> MakeCapacity() {
  return std::make_unique<CapacityImpl>();
}

}  // namespace tutti::engine
