// SPDX-License-Identifier: Apache-2.0
// See device_fit.h.
#include "engine/device_fit.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

namespace tutti::engine {
namespace {

std::string NamespaceOf(const Gang& gang) {
  return gang.id.substr(0, gang.id.find('/'));
}

// The one node that a selector of the allocator names; null if it selects by labels.
const std::string* OnlyNode(const api::NodeSelector& selector) {
  if (selector.terms.size() != 1 || !selector.terms[0].expressions.empty() ||
      selector.terms[0].fields.size() != 1) {
    return nullptr;
  }
  const api::Requirement& field = selector.terms[0].fields[0];
  return field.key == "metadata.name" && field.op == "In" && field.values.size() == 1
             ? &field.values[0]
             : nullptr;
}

}  // namespace

// --- what the pods ask for
// ------------------------------------------------------------------------------

const CompiledClaim* GangDevices::Compile(std::shared_ptr<const api::ClaimSpec> spec,
                                          const std::string& label) {
  Result<CompiledClaim> compiled = CompileClaim(std::move(spec), label, ledger_.inventory());
  if (!compiled) {
    problem_ = compiled.error().message;
    problem_kind_ = FitKind::kNever;
    return nullptr;
  }
  compiled_.push_back(std::make_unique<CompiledClaim>(std::move(*compiled)));
  return compiled_.back().get();
}

// False: problem_ says why the pods can't be placed at all.
bool GangDevices::Resolve(const Gang& gang, Kind& kind) {
  const auto refuse = [&](const std::string& what) {
    problem_ = what;
    problem_kind_ = FitKind::kNotNow;
    return false;
  };
  for (const api::PodClaim& claim : kind.set->shape->claims) {
    const bool of_group = std::find(gang.group_claims.begin(), gang.group_claims.end(), claim) !=
                          gang.group_claims.end();
    ClaimUse use;
    use.name = claim.name;
    const api::ObjectKey key{NamespaceOf(gang),
                             claim.claim.empty() ? claim.claim_template : claim.claim};
    const std::string label = "claim " + claim.name + " (" +
                              (claim.claim.empty() ? "ResourceClaimTemplate " : "ResourceClaim ") +
                              key.ToString() + ")";
    if (claim.claim.empty()) {
      const auto spec = ledger_.FindTemplate(key);
      if (spec == nullptr)
        return refuse("ResourceClaimTemplate " + key.ToString() + " does not exist");
      if (!of_group) {
        if ((use.claim = Compile(spec, label)) == nullptr)
          return false;
        kind.uses.push_back(std::move(use));
        continue;
      }
    }
    const std::string shared = claim.claim.empty() ? GroupKey(gang.id, claim.name) : SharedKey(key);
    const auto known = std::find_if(shared_.begin(), shared_.end(),
                                    [&](const SharedClaim& s) { return s.key == shared; });
    use.shared = static_cast<int32_t>(known - shared_.begin());
    if (known == shared_.end()) {
      SharedClaim entry;
      entry.key = shared;
      entry.name = claim.name;
      std::shared_ptr<const api::ClaimSpec> spec;
      if (claim.claim.empty()) {
        spec = ledger_.FindTemplate(key);
      } else {
        const ClaimRecord* record = ledger_.FindClaim(key);
        if (record == nullptr)
          return refuse("ResourceClaim " + key.ToString() + " does not exist");
        if (record->deleting)
          return refuse("ResourceClaim " + key.ToString() + " is being deleted");
        int64_t pods = static_cast<int64_t>(record->consumers);
        for (const GangPodSet& set : gang.pod_sets) {
          const std::vector<api::PodClaim>& claims = set.shape->claims;
          if (std::any_of(claims.begin(), claims.end(),
                          [&](const api::PodClaim& c) { return c.claim == claim.claim; }))
            pods += std::max(0, set.count);
        }
        if (!of_group && pods > api::kMaxClaimConsumers) {
          return refuse("ResourceClaim " + key.ToString() + " can be used by " +
                        std::to_string(api::kMaxClaimConsumers) +
                        " pods at a time, with this job " + std::to_string(pods) + " would use it");
        }
        spec = record->spec;
        if (record->allocated) {
          entry.fixed = true;
          entry.node_selector = record->node_selector;
        }
      }
      if (const PromisedClaim* promised = ledger_.PromisedTo(shared, gang.id);
          promised != nullptr && !entry.fixed) {
        entry.fixed = true;
        entry.node_selector = promised->node_selector;
      }
      entry.claim = Compile(spec, label);
      if (entry.claim == nullptr && !entry.fixed)
        return false;
      problem_.clear();  // an allocated claim needs no class
      shared_.push_back(std::move(entry));
    }
    use.claim = shared_[static_cast<size_t>(use.shared)].claim;
    kind.uses.push_back(std::move(use));
  }
  std::set<std::string> resources;
  for (const api::ContainerResource& container : kind.set->shape->container_resources) {
    if (ledger_.inventory().ClassOfResource(container.resource) != nullptr)
      resources.insert(container.resource);
  }
  kind.resources.assign(resources.begin(), resources.end());
  return true;
}

std::unique_ptr<GangDevices> GangDevices::Prepare(const DeviceLedger& ledger,
                                                  const NodeLabels& labels, const Gang& gang,
                                                  const std::vector<const GangPodSet*>& kinds) {
  std::unique_ptr<GangDevices> out(new GangDevices(ledger, labels));
  bool needs = false;
  for (const GangPodSet* set : kinds) {
    Kind kind;
    kind.set = set;
    const bool resolved = out->Resolve(gang, kind);
    needs |= !resolved || kind.Needs();
    out->kinds_.push_back(std::move(kind));
    if (!resolved)
      return out;
  }
  return needs ? std::move(out) : nullptr;
}

const CompiledClaim* GangDevices::ExtendedClaim(size_t kind, const DeviceBins& bins,
                                                size_t bin) const {
  const std::vector<std::string>& resources = kinds_[kind].resources;
  if (resources.empty() || resources.size() > 64)
    return nullptr;
  uint64_t mask = 0;
  std::set<std::string> missing;
  for (size_t i = 0; i < resources.size(); ++i) {
    if (bins.Offers(bin, resources[i]))
      continue;
    mask |= uint64_t{1} << i;
    missing.insert(resources[i]);
  }
  const auto [it, added] = extended_.try_emplace({kind, mask}, nullptr);
  if (added) {
    const auto spec = ExtendedResourceClaim(kinds_[kind].set->shape->container_resources, missing,
                                            ledger_.inventory());
    if (spec != nullptr) {
      std::string names;
      for (const std::string& name : missing)
        names += (names.empty() ? "" : ", ") + name;
      // Its classes exist, or they would stand for nothing.
      if (auto compiled = CompileClaim(spec, "devices for " + names, ledger_.inventory()))
        it->second = std::make_unique<CompiledClaim>(std::move(*compiled));
    }
  }
  return it->second.get();
}

// --- the search
// -----------------------------------------------------------------------------------------

class DeviceSearcher {
 public:
  DeviceSearcher(const GangDevices& gang, const DeviceBins& bins, DeviceBook& book, bool empty)
      : gang_(gang), bins_(bins), empty_(empty), trial_(book), shared_(gang.shared_.size()) {
    for (size_t s = 0; s < shared_.size(); ++s) {
      const GangDevices::SharedClaim& claim = gang.shared_[s];
      // On the empty cluster the claim is not allocated either.
      if (claim.fixed && (!empty || claim.claim == nullptr))
        Fix(s, empty ? std::nullopt : claim.node_selector);
    }
  }

  DeviceSearch Run(FitProblem& problem) {
    const bool open = std::any_of(shared_.begin(), shared_.end(),
                                  [](const SharedState& shared) { return !shared.fixed; });
    out_.result = open ? Anchor(problem, 0) : Leaf(problem);
    if (out_.result.end == SearchEnd::kImpossible && gave_up_)
      out_.result.end = SearchEnd::kGaveUp;
    out_.gave_up = gave_up_;
    for (const auto& [kind, claim] : out_.plan.shared) {
      const std::string* node = claim.node_selector ? OnlyNode(*claim.node_selector) : nullptr;
      if (node != nullptr)
        out_.plan.node = *node;
    }
    return std::move(out_);
  }

  // Only the counts. False: a problem, or the budget ended.
  bool CountOnly(FitProblem& problem) { return CountCaps(problem) && !gave_up_; }

 private:
  struct SharedState {
    bool fixed = false;
    std::optional<api::NodeSelector> selector;
    std::vector<int8_t> by_bin;  // -1 unknown
  };

  void Fix(size_t shared, std::optional<api::NodeSelector> selector) {
    shared_[shared].fixed = true;
    shared_[shared].selector = std::move(selector);
    shared_[shared].by_bin.clear();
  }

  bool Allowed(size_t kind, const FitProblem& problem, size_t bin) {
    for (const GangDevices::ClaimUse& use : gang_.kinds_[kind].uses) {
      if (use.shared < 0)
        continue;
      SharedState& state = shared_[static_cast<size_t>(use.shared)];
      if (!state.fixed || !state.selector)
        continue;
      if (const std::string* node = OnlyNode(*state.selector)) {
        if (*node != bins_.Name(bin))
          return false;
        continue;
      }
      if (state.by_bin.empty())
        state.by_bin.assign(problem.bins, -1);
      int8_t& known = state.by_bin[bin];
      if (known < 0)
        known = gang_.labels_.Matches(*state.selector, bins_.Name(bin)) ? 1 : 0;
      if (known == 0)
        return false;
    }
    return true;
  }

  // The claims to allocate for a pod, with their names; shared ones only while they are open.
  struct Wanted {
    std::vector<const CompiledClaim*> claims;
    std::vector<const GangDevices::ClaimUse*> uses;  // null: the extended resources
  };
  Wanted WantedBy(size_t kind, size_t bin) const {
    Wanted wanted;
    for (const GangDevices::ClaimUse& use : gang_.kinds_[kind].uses) {
      if (use.shared >= 0 && shared_[static_cast<size_t>(use.shared)].fixed)
        continue;
      wanted.claims.push_back(use.claim);
      wanted.uses.push_back(&use);
    }
    if (const CompiledClaim* extended = gang_.ExtendedClaim(kind, bins_, bin)) {
      wanted.claims.push_back(extended);
      wanted.uses.push_back(nullptr);
    }
    return wanted;
  }

  // Nothing when this node can't serve the pod now; sets out_.problem when none ever should.
  std::optional<Allocation> Allocate(size_t bin, const Wanted& wanted, bool with_selectors) {
    Allocation found = AllocateDevices(gang_.ledger_.inventory(), trial_.book(), bins_.Name(bin),
                                       wanted.claims, steps_, with_selectors);
    switch (found.end) {
      case AllocationEnd::kDone:
        return found;
      case AllocationEnd::kNoDevices:
        break;
      case AllocationEnd::kGaveUp:
        gave_up_ = true;
        break;
      case AllocationEnd::kUpdating:
      case AllocationEnd::kInvalid:
        out_.problem = std::move(found.message);
        out_.problem_kind =
            found.end == AllocationEnd::kInvalid ? FitKind::kNever : FitKind::kNotNow;
        break;
    }
    return std::nullopt;
  }

  // Serves up to `count` pods of a kind on a node, one after another as the scheduler does.
  int64_t Serve(size_t kind, size_t bin, int64_t count, std::vector<PodDevices>* pods) {
    const Wanted wanted = WantedBy(kind, bin);
    if (wanted.claims.empty()) {
      if (pods != nullptr)
        pods->resize(pods->size() + static_cast<size_t>(count));
      return count;
    }
    for (int64_t done = 0; done < count; ++done) {
      const std::optional<Allocation> found =
          Allocate(bin, wanted, /*with_selectors=*/pods != nullptr);
      if (!found)
        return done;
      size_t taken = 0;
      PodDevices devices;
      for (size_t c = 0; c < found->claims.size(); ++c) {
        DeviceUses uses = found->claims[c].Uses();
        trial_.Take(uses);
        taken += uses.size();
        out_.plan.must_be_bound |= pods != nullptr && found->claims[c].must_be_bound;
        if (pods != nullptr && !uses.empty()) {
          devices.push_back({wanted.uses[c] == nullptr ? kExtendedClaim : wanted.uses[c]->name, "",
                             std::move(uses), found->claims[c].node_selector});
        }
      }
      if (pods != nullptr)
        pods->push_back(std::move(devices));
      else if (taken == 0)
        return count;  // admin access only: each pod gets the same
    }
    return count;
  }

  // Pods of a kind that a node can serve, at most `limit`.
  int64_t Count(size_t kind, size_t bin, int64_t limit) {
    const size_t mark = trial_.Mark();
    const int64_t count = Serve(kind, bin, limit, nullptr);
    trial_.Rollback(mark);
    return count;
  }

  // What is known of pods that have their own claims only: these depend on nothing but the node.
  // Null when other things count.
  std::vector<ServedCount>* MemoryOf(size_t kind, size_t bins) const {
    const GangDevices::Kind& pods = gang_.kinds_[kind];
    if (!pods.resources.empty() || trial_.Mark() > 0 || gang_.ledger_.OnTrial())
      return nullptr;
    std::vector<std::shared_ptr<const api::ClaimSpec>> claims;
    for (const GangDevices::ClaimUse& use : pods.uses) {
      if (use.shared >= 0)
        return nullptr;
      claims.push_back(use.claim->spec);
    }
    size_t slots = 0;
    for (size_t bin = 0; bin < bins; ++bin)
      slots = std::max(slots, bins_.Slot(bin) + 1);
    return &gang_.ledger_.ServedCounts(claims, empty_, slots);
  }

  int64_t CountFromMemory(size_t kind, size_t bin, int64_t limit, ServedCount& known) {
    if (known.at > 0 && !bins_.Marks().Since(bins_.Slot(bin), known.at) &&
        (known.all || known.pods >= limit)) {
      return std::min<int64_t>(known.pods, limit);
    }
    const bool gave_up_before = std::exchange(gave_up_, false);
    const int64_t count = Count(kind, bin, limit);
    // Not what the budget cut short, nor what ended in a problem.
    if (out_.problem.empty() && !gave_up_)
      known = {bins_.Marks().Now(), static_cast<int32_t>(count), count < limit};
    gave_up_ |= gave_up_before;
    return count;
  }

  // The caps of `problem` become what each node can serve by itself. False: out_.problem says why
  // no node ever should.
  bool CountCaps(FitProblem& problem) {
    const size_t kinds = problem.kinds.size();
    for (size_t k = 0; k < kinds; ++k) {
      if (!gang_.kinds_[k].Needs())
        continue;
      std::vector<ServedCount>* memory = MemoryOf(k, problem.bins);
      for (size_t bin = 0; bin < problem.bins; ++bin) {
        int64_t& cap = problem.cap[bin * kinds + k];
        if (cap == 0)
          continue;
        cap = memory != nullptr          ? CountFromMemory(k, bin, cap, (*memory)[bins_.Slot(bin)])
              : Allowed(k, problem, bin) ? Count(k, bin, cap)
                                         : 0;
        if (!out_.problem.empty())
          return false;
      }
    }
    return true;
  }

  // Everything shared has its place: counts per node, searches, and tries the result out.
  SearchResult Leaf(FitProblem& problem) {
    if (!CountCaps(problem))
      return Nothing(problem);
    most_placed_.assign(problem.kinds.size(), 0);
    SearchResult found = engine::Search(problem);
    if (found.end != SearchEnd::kFound)
      return found;
    if (TryOut(found.assigned) || Greedy(problem, found))
      return found;
    // Each node by itself could serve its pods, together they don't.
    found.placed = most_placed_;
    found.end = TooFewDevices(problem) ? SearchEnd::kImpossible : SearchEnd::kGaveUp;
    return found;
  }

  // A proof: some request of the pods' own claims wants more devices than there are, each counted
  // once however many nodes see it.
  bool TooFewDevices(const FitProblem& problem) const {
    const DeviceInventory& inventory = gang_.ledger_.inventory();
    for (size_t k = 0; k < problem.kinds.size(); ++k) {
      for (const GangDevices::ClaimUse& use : gang_.kinds_[k].uses) {
        if (use.shared >= 0)
          continue;
        for (const CompiledRequest& request : use.claim->requests) {
          const DeviceAlternative& alternative = request.alternatives.front();
          if (request.is_list || alternative.all || alternative.request->admin_access)
            continue;
          const int64_t demand = api::SaturatingMul(problem.kinds[k].count, alternative.count);
          if (Supply(problem, k, alternative, inventory, demand) < demand)
            return true;
        }
      }
    }
    return false;
  }

  // Free devices that the request selects on nodes that take such pods; `enough` if one can be
  // shared.
  int64_t Supply(const FitProblem& problem, size_t kind, const DeviceAlternative& alternative,
                 const DeviceInventory& inventory, int64_t enough) const {
    std::set<int32_t> devices;
    for (size_t bin = 0; bin < problem.bins; ++bin) {
      if (problem.Cap(bin, kind) == 0)
        continue;
      for (const PoolView& pool : inventory.ViewOf(bins_.Name(bin)).pools) {
        for (const PoolView::Device& device : pool.devices) {
          const PublishedDevice& published = inventory.At(device.place);
          if (!device.here || trial_.book().Whole(published.id) > 0 ||
              TaintBlocks(*published.device, *alternative.request) ||
              !std::all_of(alternative.selectors.begin(), alternative.selectors.end(),
                           [&](int32_t selector) {
                             return inventory.Select(selector, device.place) == Selection::kMatches;
                           })) {
            continue;
          }
          if (published.device->facts.allow_multiple_allocations)
            return enough;
          devices.insert(published.id);
        }
      }
    }
    return static_cast<int64_t>(devices.size());
  }

  // Whether the devices suffice for this arrangement; then the plan has them.
  bool TryOut(std::vector<Assigned> assigned) {
    std::sort(assigned.begin(), assigned.end(), [](const Assigned& a, const Assigned& b) {
      return a.bin != b.bin ? a.bin < b.bin : a.kind < b.kind;
    });
    const size_t mark = trial_.Mark();
    out_.plan.pods.clear();
    for (const Assigned& part : assigned) {
      std::vector<PodDevices>& pods = out_.plan.pods[{part.kind, part.bin}];
      if (Serve(part.kind, part.bin, part.count, &pods) < part.count) {
        trial_.Rollback(mark);
        out_.plan.pods.clear();
        return false;
      }
    }
    return true;
  }

  // Kind after kind, node after node, as many pods as nodes and devices take, in a few orders.
  bool Greedy(const FitProblem& problem, SearchResult& found) {
    std::vector<size_t> kinds(problem.kinds.size());
    std::iota(kinds.begin(), kinds.end(), size_t{0});
    std::vector<size_t> bins(problem.bins);
    std::iota(bins.begin(), bins.end(), size_t{0});
    for (const bool reverse_kinds : {false, true}) {
      for (const bool tightest_first : {true, false}) {
        std::vector<size_t> order = bins;
        if (tightest_first) {
          std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
            return CapSum(problem, a) < CapSum(problem, b);
          });
        }
        if (GreedyOnce(problem, kinds, order, found))
          return true;
        if (steps_ <= 0)
          return false;
      }
      std::reverse(kinds.begin(), kinds.end());
      if (problem.kinds.size() == 1 || reverse_kinds)
        break;
    }
    return false;
  }

  static int64_t CapSum(const FitProblem& problem, size_t bin) {
    int64_t sum = 0;
    for (size_t k = 0; k < problem.kinds.size(); ++k)
      sum += problem.Cap(bin, k);
    return sum;
  }

  bool GreedyOnce(const FitProblem& problem, const std::vector<size_t>& kinds,
                  const std::vector<size_t>& order, SearchResult& found) {
    const size_t mark = trial_.Mark();
    std::vector<int64_t> room = problem.free;
    std::vector<uint8_t> has(problem.bins * problem.kinds.size(), 0);
    std::vector<Assigned> assigned;
    out_.plan.pods.clear();
    bool complete = true;
    std::vector<int64_t> placed(problem.kinds.size(), 0);
    for (const size_t k : kinds) {
      const PodKind& kind = problem.kinds[k];
      int64_t left = kind.count;
      for (const size_t bin : order) {
        if (left == 0)
          break;
        bool clash = problem.Cap(bin, k) == 0;
        for (size_t other = 0; other < problem.kinds.size() && !clash; ++other)
          clash = other != k && has[bin * problem.kinds.size() + other] && problem.Clash(k, other);
        if (clash)
          continue;
        int64_t* free = room.data() + bin * problem.resources;
        const int64_t want = FitCount(free, kind.request, std::min(left, problem.Cap(bin, k)));
        if (want == 0)
          continue;
        std::vector<PodDevices> pods;
        const int64_t served = Serve(k, bin, want, &pods);
        if (served == 0)
          continue;
        out_.plan.pods[{k, bin}] = std::move(pods);
        for (size_t r = 0; r < problem.resources; ++r)
          free[r] -= served * kind.request[r];
        has[bin * problem.kinds.size() + k] = 1;
        assigned.push_back({bin, k, served});
        placed[k] += served;
        left -= served;
      }
      complete &= left == 0;
    }
    if (!complete) {
      trial_.Rollback(mark);
      out_.plan.pods.clear();
      if (std::accumulate(placed.begin(), placed.end(), int64_t{0}) >=
          std::accumulate(most_placed_.begin(), most_placed_.end(), int64_t{0}))
        most_placed_ = std::move(placed);
      return false;
    }
    found.assigned = std::move(assigned);
    return true;
  }

  // Open shared claims of the first kind from `kind` on that has any: on each node in turn they are
  // allocated together with the pod's own, as for the first pod, and fix where the rest may run.
  SearchResult Anchor(const FitProblem& problem, size_t kind) {
    while (kind < gang_.kinds_.size() && !HasOpen(kind))
      ++kind;
    if (kind == gang_.kinds_.size()) {
      FitProblem copy = problem;
      return Leaf(copy);
    }
    SearchResult best = Nothing(problem);
    std::set<std::string> tried;
    for (size_t bin = 0; bin < problem.bins; ++bin) {
      if (problem.Cap(bin, kind) == 0 || !Allowed(kind, problem, bin))
        continue;
      const Wanted wanted = WantedBy(kind, bin);
      const std::optional<Allocation> first = Allocate(bin, wanted, /*with_selectors=*/true);
      if (!out_.problem.empty())
        return Nothing(problem);
      if (!first)
        continue;
      const std::vector<SharedState> before = shared_;
      const size_t mark = trial_.Mark();
      const size_t shared_mark = out_.plan.shared.size();
      std::string signature;
      bool hopeless = false;
      for (size_t c = 0; c < wanted.uses.size(); ++c) {
        const GangDevices::ClaimUse* use = wanted.uses[c];
        if (use == nullptr || use->shared < 0)
          continue;
        const auto s = static_cast<size_t>(use->shared);
        const AllocatedClaim& claim = first->claims[c];
        DeviceUses uses = claim.Uses();
        for (const DeviceUse& device : uses)
          signature += std::to_string(device.id) + " ";
        if (claim.node_selector) {
          const std::string* node = OnlyNode(*claim.node_selector);
          signature += node != nullptr ? *node : "";
          hopeless |= node != nullptr && !RoomForAll(problem, s, bin);
        }
        trial_.Take(uses);
        out_.plan.must_be_bound |= claim.must_be_bound;
        out_.plan.shared.emplace_back(kind, PromisedClaim{use->name, gang_.shared_[s].key,
                                                          std::move(uses), claim.node_selector});
        Fix(s, claim.node_selector);
      }
      // Unlike pods may come first, and the claim get other devices.
      gave_up_ |= !hopeless && gang_.kinds_.size() > 1;
      if (!hopeless && tried.insert(signature).second) {
        SearchResult found = Anchor(problem, kind + 1);
        if (found.end == SearchEnd::kFound || !out_.problem.empty())
          return found;
        if (found.end == SearchEnd::kGaveUp)
          gave_up_ = true;
        if (std::accumulate(found.placed.begin(), found.placed.end(), int64_t{0}) >
            std::accumulate(best.placed.begin(), best.placed.end(), int64_t{0}))
          best = std::move(found);
      }
      shared_ = before;
      trial_.Rollback(mark);
      out_.plan.shared.resize(shared_mark);
      if (steps_ <= 0)
        break;
    }
    best.end = SearchEnd::kImpossible;
    return best;
  }

  bool HasOpen(size_t kind) const {
    return std::any_of(gang_.kinds_[kind].uses.begin(), gang_.kinds_[kind].uses.end(),
                       [&](const GangDevices::ClaimUse& use) {
                         return use.shared >= 0 && !shared_[static_cast<size_t>(use.shared)].fixed;
                       });
  }

  // The node alone has amounts enough for all pods that share the claim.
  bool RoomForAll(const FitProblem& problem, size_t shared, size_t bin) const {
    for (size_t k = 0; k < gang_.kinds_.size(); ++k) {
      for (const GangDevices::ClaimUse& use : gang_.kinds_[k].uses) {
        if (use.shared == static_cast<int32_t>(shared) &&
            problem.Cap(bin, k) < problem.kinds[k].count) {
          return false;
        }
      }
    }
    return true;
  }

  static SearchResult Nothing(const FitProblem& problem) {
    SearchResult result;
    result.end = SearchEnd::kImpossible;
    result.placed.assign(problem.kinds.size(), 0);
    return result;
  }

  const GangDevices& gang_;
  const DeviceBins& bins_;
  const bool empty_;
  DeviceTrial trial_;
  std::vector<SharedState> shared_;
  int64_t steps_ = kStepsPerGang;
  std::vector<int64_t> most_placed_;  // by kind, of the orders that were tried out
  bool gave_up_ = false;
  DeviceSearch out_;
};

DeviceSearch GangDevices::Search(FitProblem& problem, const DeviceBins& bins, bool empty) const {
  if (!problem_.empty()) {
    DeviceSearch out;
    out.result.end = SearchEnd::kImpossible;
    out.result.placed.assign(problem.kinds.size(), 0);
    out.problem = problem_;
    out.problem_kind = problem_kind_;
    return out;
  }
  DeviceBook nothing;
  return DeviceSearcher(*this, bins, empty ? nothing : ledger_.TrialBook(), empty).Run(problem);
}

bool GangDevices::SelectsWide(const CompiledClaim& claim) const {
  return std::any_of(
      claim.requests.begin(), claim.requests.end(), [&](const CompiledRequest& request) {
        return std::any_of(request.alternatives.begin(), request.alternatives.end(),
                           [&](const DeviceAlternative& alternative) {
                             return ledger_.inventory().SelectsWide(alternative.selectors);
                           });
      });
}

bool GangDevices::CountAlone(FitProblem& problem, const DeviceBins& bins, bool empty) const {
  DeviceBook nothing;
  return problem_.empty() &&
         DeviceSearcher(*this, bins, empty ? nothing : ledger_.TrialBook(), empty)
             .CountOnly(problem);
}

bool GangDevices::Local() const {
  const auto wide = [&](const auto& claim) { return claim != nullptr && SelectsWide(*claim); };
  return shared_.empty() && std::none_of(compiled_.begin(), compiled_.end(), wide) &&
         std::none_of(extended_.begin(), extended_.end(),
                      [&](const auto& entry) { return wide(entry.second); });
}

std::vector<std::shared_ptr<const api::ClaimSpec>> GangDevices::Specs() const {
  std::vector<std::shared_ptr<const api::ClaimSpec>> specs;
  for (const auto& claim : compiled_)
    specs.push_back(claim->spec);
  return specs;
}

void GangDevices::Attach(DevicePlan plan, const std::vector<size_t>& kind_of,
                         const std::map<std::string, size_t>& bin_of, Placement& placement) const {
  for (PlacementSlot& slot : placement) {
    const size_t kind = kind_of[slot.pod_set];
    auto devices = std::make_shared<SlotDevices>();
    std::vector<PodDevices>& pods = plan.pods[{kind, bin_of.at(slot.node)}];
    const auto count = std::min(pods.size(), static_cast<size_t>(slot.count));
    devices->pods.assign(
        std::make_move_iterator(pods.begin()),
        std::make_move_iterator(pods.begin() + static_cast<std::ptrdiff_t>(count)));
    pods.erase(pods.begin(), pods.begin() + static_cast<std::ptrdiff_t>(count));
    devices->pods.resize(static_cast<size_t>(slot.count));
    for (auto& [of_kind, claim] : plan.shared) {
      if (of_kind == kind && !claim.uses.empty() && !devices->pods.empty()) {
        devices->pods.front().push_back(std::move(claim));
        claim.uses.clear();
      }
    }
    const bool any = std::any_of(devices->pods.begin(), devices->pods.end(),
                                 [](const PodDevices& pod) { return !pod.empty(); });
    if (any)
      slot.devices = std::move(devices);
  }
}

}  // namespace tutti::engine
