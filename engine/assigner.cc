// SPDX-License-Identifier: Apache-2.0
// See assigner.h; the rules are in docs/engine.md, "Flavors" and "Places".
#include "engine/assigner.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <set>

#include "engine/flavor_match.h"

namespace tutti::engine {

namespace {

// How good a flavor is, the worst first; of a flavor the worst of its resources counts.
enum class Rank : uint8_t { kNoFit, kNoCandidates, kNoPlace, kPreempt, kReclaim, kFit };

// What flavors are compared by.
struct Grade {
  Rank rank = Rank::kNoFit;
  int level = 0;  // borrowing height
};

// One flavor tried for one group of one pod set.
struct Candidate {
  Rank rank = Rank::kNoFit;  // the worst of its resources
  int level = 0;             // the highest of its resources
  // That of the resource which is liked least, as Kueue compares them: with
  // PreemptionOverBorrowing one that borrows may be liked less than one that preempts.
  Grade grade;
  size_t index = 0;
  PendingReason reason = PendingReason::kPendingEvaluation;
  std::vector<Fact> facts;
  std::vector<ResourceChoice> choices;
  std::optional<GangPodSet> gang_pod_set;  // set when a place is needed
  std::optional<FitResult> fit;            // set when it was asked for
  bool in_flight = false;                  // has a place, but must wait for others to land
};

struct Request {
  ResourceId resource;
  size_t index = 0;   // in the group
  Amount amount = 0;  // without what is held
  Amount held = 0;
  FlavorId held_in;
};

Fact MakeFact(FactKind kind, size_t pod_set, FlavorId flavor, ResourceId resource) {
  Fact fact;
  fact.kind = kind;
  fact.pod_set = pod_set;
  fact.flavor = flavor;
  fact.resource = resource;
  return fact;
}

class Assigner {
 public:
  Assigner(const AssignContext& context, const std::string& gang_id,
           const std::vector<PodSetSpec>& pod_sets, const std::vector<size_t>& start)
      : context_(context), pod_sets_(pod_sets), start_(start) {
    result_.gang.id = gang_id;
    if (!pod_sets.empty()) {
      result_.gang.group_claims = pod_sets.front().group_claims;
    }
  }

  Assignment Run() {
    const size_t groups = context_.queue.groups.size();
    result_.pod_sets.resize(pod_sets_.size());
    result_.next_flavor.assign(pod_sets_.size() * groups, 0);
    result_.contested.assign(pod_sets_.size() * groups, kNoFlavor);
    for (size_t index = 0; index < pod_sets_.size(); ++index) {
      if (!AssignPodSet(index)) {
        result_.mode = FitMode::kNoFit;
        break;
      }
    }
    if (result_.mode == FitMode::kFit) {
      result_.refusal = Refusal{};
    }
    result_.unplaced = no_place_ && !in_flight_ && !short_of_quota_;
    return std::move(result_);
  }

 private:
  // False when the pod set can't get flavors at all.
  bool AssignPodSet(size_t index) {
    const PodSetSpec& pod_set = pod_sets_[index];
    const QueueConfig& queue = context_.queue;
    std::vector<std::vector<Request>> by_group(queue.groups.size());
    bool covered = true;
    auto add = [&](ResourceId resource, Amount amount) {
      const ResourcePosition* position = queue.Find(resource);
      if (position != nullptr) {
        Request request{resource, position->index, amount, 0, {}};
        for (const PodSetSpec::Held& held : pod_set.held) {
          if (held.resource == resource) {
            request.held = std::min(held.amount, amount);
            request.amount -= request.held;
            request.held_in = held.flavor;
          }
        }
        by_group[position->group].push_back(request);
      } else if (amount != 0 && resource != context_.pods && !context_.ignore_undeclared) {
        Note(MakeFact(FactKind::kNotCovered, index, FlavorId{}, resource));
        covered = false;
      }
    };
    for (const auto& [resource, per_pod] : pod_set.per_pod) {
      add(resource, Amount{per_pod} * pod_set.count);
    }
    add(context_.pods, pod_set.count);
    if (!covered) {
      return false;
    }
    Usage before = result_.usage;
    bool assigned = true;
    std::vector<ResourceChoice>& choices = result_.pod_sets[index];
    for (size_t group = 0; group < by_group.size(); ++group) {
      if (by_group[group].empty()) {
        continue;
      }
      std::optional<Candidate> best = BestFlavor(index, group, by_group[group], choices);
      if (!best) {
        // Pods that don't exist need no flavor.
        assigned = assigned && pod_set.count == 0;
        all_fit_ = all_fit_ && assigned;
        continue;
      }
      Take(index, group, std::move(*best), choices);
    }
    std::sort(choices.begin(), choices.end(),
              [](const auto& a, const auto& b) { return a.resource < b.resource; });
    if (!assigned) {
      choices.clear();
      result_.usage = std::move(before);
    }
    return assigned;
  }

  std::optional<Candidate> BestFlavor(size_t index, size_t group,
                                      const std::vector<Request>& requests,
                                      const std::vector<ResourceChoice>& chosen) {
    const GroupConfig& config = context_.queue.groups[group];
    const size_t slot = index * context_.queue.groups.size() + group;
    const size_t first = slot < start_.size() ? start_[slot] : 0;
    std::optional<Candidate> best;
    std::vector<Fact> facts;
    std::optional<PendingReason> reason;
    for (size_t flavor = first; flavor < config.flavors.size(); ++flavor) {
      if (slot < context_.only.size() && context_.only[slot] != kNoFlavor &&
          context_.only[slot] != flavor) {
        continue;
      }
      Candidate candidate = Try(index, config.flavors[flavor], requests, chosen);
      candidate.index = flavor;
      std::move(candidate.facts.begin(), candidate.facts.end(), std::back_inserter(facts));
      if (candidate.rank != Rank::kFit &&
          (!reason || Severity(candidate.reason) < Severity(*reason))) {
        reason = candidate.reason;
      }
      const bool stop = StopsAt(candidate);
      if (stop ||
          (candidate.rank != Rank::kNoFit && (!best || IsBetter(candidate.grade, best->grade)))) {
        best = std::move(candidate);
      }
      if (stop) {
        result_.next_flavor[slot] = flavor + 1 < config.flavors.size() ? flavor + 1 : 0;
        break;
      }
    }
    if (best && best->rank == Rank::kFit) {
      return best;
    }
    if (pod_sets_[index].count > 0) {
      std::move(facts.begin(), facts.end(), std::back_inserter(result_.refusal.facts));
      Worsen(reason.value_or(PendingReason::kNoMatchingFlavor));
    }
    return best;
  }

  // Kueue's order of flavors: those that lead nowhere now are the worst whatever is preferred.
  [[nodiscard]] bool IsBetter(const Grade& a, const Grade& b) const {
    const bool a_leads = a.rank > Rank::kNoPlace;
    const bool b_leads = b.rank > Rank::kNoPlace;
    if (a_leads != b_leads) {
      return a_leads;
    }
    if (context_.queue.fungibility.prefer_preemption_over_borrowing) {
      return a.level != b.level ? a.level < b.level : a.rank > b.rank;
    }
    return a.rank != b.rank ? a.rank > b.rank : a.level < b.level;
  }

  // Whether later flavors aren't looked at.
  [[nodiscard]] bool StopsAt(const Candidate& candidate) const {
    const api::FlavorFungibility& fungibility = context_.queue.fungibility;
    const Grade& grade = candidate.grade;
    const bool preempts = grade.rank == Rank::kPreempt || grade.rank == Rank::kReclaim;
    return candidate.rank > Rank::kNoPlace && !(preempts && fungibility.preempt_try_next) &&
           !(grade.level > 0 && fungibility.borrow_try_next);
  }

  Candidate Try(size_t index, const FlavorQuota& quota, const std::vector<Request>& requests,
                const std::vector<ResourceChoice>& chosen) {
    Candidate candidate;
    const PodSetSpec& pod_set = pod_sets_[index];
    const FlavorConfig& flavor = context_.flavors[quota.flavor.value];
    Fact fact = MakeFact(FactKind::kNoFlavor, index, quota.flavor, ResourceId{});
    bool usable = flavor.exists;
    const auto elsewhere = std::find_if(requests.begin(), requests.end(), [&](const auto& request) {
      return request.held_in.Valid() && request.held_in != quota.flavor;
    });
    if (usable && elsewhere != requests.end()) {
      usable = false;
      fact.kind = FactKind::kHeldElsewhere;
      fact.other = elsewhere->held_in;
    } else if (usable) {
      if (auto taint = UntoleratedTaint(*pod_set.shape, flavor)) {
        usable = false;
        fact.kind = FactKind::kTaint;
        const api::Taint& found = flavor.taints[*taint];
        fact.text = found.key + (found.value.empty() ? "" : "=" + found.value) + ":" + found.effect;
      } else if (!MatchesNodeLabels(*pod_set.shape, flavor)) {
        usable = false;
        fact.kind = FactKind::kAffinity;
      }
    }
    if (usable) {
      TryQuota(index, quota, requests, candidate);
      if (candidate.rank != Rank::kNoFit) {
        TryPlace(index, quota, chosen, candidate);
      }
      return candidate;
    }
    candidate.reason = ReasonOf(fact.kind);
    candidate.facts.push_back(std::move(fact));
    return candidate;
  }

  void TryQuota(size_t index, const FlavorQuota& quota, const std::vector<Request>& requests,
                Candidate& candidate) {
    candidate.rank = Rank::kFit;
    candidate.grade = {Rank::kFit, 0};
    auto fail = [&](Fact fact, Rank rank) {
      const PendingReason reason = ReasonOf(fact.kind);
      if (candidate.facts.empty() || Severity(reason) > Severity(candidate.reason)) {
        candidate.reason = reason;
      }
      candidate.facts.push_back(std::move(fact));
      candidate.rank = std::min(candidate.rank, rank);
    };
    for (const Request& request : requests) {
      const FlavorResourceId pair = quota.pairs[request.index];
      const Amount earlier = Assumed(pair);
      const Amount total = earlier + request.amount;
      const Amount potential = context_.tree.PotentialAvailable(context_.node, pair);
      Fact fact = MakeFact(FactKind::kInsufficient, index, quota.flavor, request.resource);
      // A request at the end of int64 is a saturated one: its real size is unknown.
      if (total > potential || request.amount >= std::numeric_limits<int64_t>::max()) {
        fact.kind = FactKind::kExceedsMax;
        fact.a = earlier;
        fact.b = request.amount;
        fact.c = potential;
        fail(std::move(fact), Rank::kNoFit);
        continue;
      }
      const QuotaTree::Level level =
          context_.tree.LowestSubtreeThatFits(context_.node, pair, total);
      int height = level.height;
      const Amount available = context_.tree.Available(context_.node, pair);
      const bool fits = total <= available;
      Rank rank = Rank::kFit;
      if (!fits) {
        fact.a = total - available;
        rank = Rank::kNoFit;
        if (context_.tree.Nominal(context_.node, pair) >= total || level.below_root ||
            context_.queue.preemption.borrow_within_cohort ||
            (context_.fair_sharing &&
             context_.queue.preemption.reclaim_within_cohort != api::PreemptionPolicy::kNever)) {
          rank = Rank::kNoCandidates;
          if (context_.chance) {
            const PreemptionChance chance = context_.chance(pair, total);
            rank = RankOf(chance.kind);
            height = chance.level;
          }
        }
        fail(std::move(fact), rank);
      }
      if (const Grade grade{rank, height}; IsBetter(candidate.grade, grade)) {
        candidate.grade = grade;
      }
      candidate.level = std::max(candidate.level, height);
      candidate.choices.push_back({request.resource, quota.flavor, pair,
                                   static_cast<int64_t>(request.amount + request.held), fits,
                                   request.held});
    }
  }

  static Rank RankOf(PreemptionChance::Kind kind) {
    switch (kind) {
      case PreemptionChance::Kind::kNone:
        return Rank::kNoCandidates;
      case PreemptionChance::Kind::kPreempt:
        return Rank::kPreempt;
      case PreemptionChance::Kind::kReclaim:
        return Rank::kReclaim;
    }
    return Rank::kNoCandidates;
  }

  // Asks whether all pod sets so far, with this flavor added to the last one, have a place.
  void TryPlace(size_t index, const FlavorQuota& quota, const std::vector<ResourceChoice>& chosen,
                Candidate& candidate) {
    const PodSetSpec& pod_set = pod_sets_[index];
    if (pod_set.count <= pod_set.held_pods) {
      return;
    }
    std::vector<ResourceChoice> choices = chosen;
    choices.insert(choices.end(), candidate.choices.begin(), candidate.choices.end());
    const bool needed = std::any_of(choices.begin(), choices.end(), [&](const auto& choice) {
      return context_.flavors[choice.flavor.value].mode == CapacityMode::kRequire;
    });
    if (!needed) {
      return;
    }
    candidate.gang_pod_set = MakeGangPodSet(pod_set, choices, context_.flavors);
    Gang gang = result_.gang;
    const bool same_pod_set =
        !result_.gang_pod_sets.empty() && result_.gang_pod_sets.back() == index;
    if (same_pod_set) {
      const GangPodSet& known = gang.pod_sets.back();
      if (known.node_selector == candidate.gang_pod_set->node_selector &&
          known.tolerations == candidate.gang_pod_set->tolerations) {
        return;  // nothing new to ask
      }
      gang.pod_sets.pop_back();
    }
    gang.pod_sets.push_back(*candidate.gang_pod_set);
    if (candidate.rank == Rank::kNoCandidates) {
      return;
    }
    const FitResult fit = context_.capacity.Check(gang, context_.reason);
    const bool never = fit.kind == FitKind::kNever;
    if (!never && (candidate.rank != Rank::kFit || result_.mode != FitMode::kFit)) {
      return;  // the place is asked for when it is known who gives way
    }
    candidate.fit = fit;
    if (fit.kind == FitKind::kFits || fit.kind == FitKind::kUndecided) {
      MindFlights(index, quota, gang, candidate);
      return;
    }
    Fact fact = MakeFact(never ? FactKind::kNeverFits : FactKind::kNoPlace, index, quota.flavor,
                         ResourceId{});
    fact.text = fit.message;
    candidate.rank = never ? Rank::kNoFit : Rank::kNoPlace;
    candidate.grade.rank = candidate.rank;
    candidate.reason = ReasonOf(fact.kind);
    candidate.facts.push_back(std::move(fact));
  }

  // A place by plan is none as long as the scheduler may put pods of other gangs there.
  void MindFlights(size_t index, const FlavorQuota& quota, const Gang& gang, Candidate& candidate) {
    const FlightResult flights = context_.capacity.CheckFlights(gang);
    std::string text;
    if (!flights.clear && (context_.pinning || candidate.fit->tied) &&
        Pinned(context_.capacity, gang, *candidate.fit)) {
      return;
    }
    if (!flights.clear) {
      text = "waits until " + Names(flights.waits_for) + " (just released) " +
             (flights.waits_for.size() == 1 ? "has" : "have") +
             " all nodes: until then the scheduler may put pods where the others have their place";
      if (!result_.waiting) {
        result_.waiting = gang;
      }
    } else if (context_.claim != nullptr &&
               context_.capacity.Hinders(gang, context_.claim->gang, context_.claim->since)) {
      text = "waits behind " + context_.claim->id +
             ", which is before it and waits for jobs that were just released: one could take the "
             "other's place";
    } else {
      return;
    }
    Fact fact = MakeFact(FactKind::kInFlight, index, quota.flavor, ResourceId{});
    fact.text = std::move(text);
    candidate.rank = Rank::kNoPlace;
    candidate.grade.rank = candidate.rank;
    candidate.in_flight = true;
    candidate.reason = ReasonOf(fact.kind);
    candidate.facts.push_back(std::move(fact));
  }

  static std::string Names(const std::vector<std::string>& gangs) {
    constexpr size_t kShown = 3;
    std::string text;
    for (size_t index = 0; index < gangs.size() && index < kShown; ++index) {
      text += (index == 0 ? "" : ", ") + gangs[index];
    }
    return gangs.size() <= kShown
               ? text
               : text + " and " + std::to_string(gangs.size() - kShown) + " more";
  }

  void Take(size_t index, size_t group, Candidate best, std::vector<ResourceChoice>& choices) {
    for (const ResourceChoice& choice : best.choices) {
      AddUsage(result_.usage, choice.pair, choice.amount - choice.held);
      choices.push_back(choice);
    }
    result_.borrowing = std::max(result_.borrowing, best.level);
    const size_t slot = index * context_.queue.groups.size() + group;
    if (best.rank != Rank::kFit) {
      result_.contested[slot] = best.index;
      result_.mode = FitMode::kPreempt;
      all_fit_ = false;
    }
    if (all_fit_) {
      result_.fitting = slot + 1;
    }
    if (best.rank == Rank::kNoPlace) {
      (best.in_flight ? in_flight_ : no_place_) = true;
    } else if (best.rank != Rank::kFit) {
      short_of_quota_ = true;
    }
    if (best.gang_pod_set) {
      if (result_.gang_pod_sets.empty() || result_.gang_pod_sets.back() != index) {
        result_.gang_pod_sets.push_back(index);
        result_.gang.pod_sets.emplace_back();
      }
      result_.gang.pod_sets.back() = std::move(*best.gang_pod_set);
    }
    if (best.fit) {
      result_.fit = std::move(*best.fit);
    }
  }

  [[nodiscard]] Amount Assumed(FlavorResourceId pair) const {
    for (const auto& [known, amount] : result_.usage) {
      if (known == pair) {
        return amount;
      }
    }
    return 0;
  }

  void Note(Fact fact) {
    Worsen(ReasonOf(fact.kind));
    result_.refusal.facts.push_back(std::move(fact));
  }

  void Worsen(PendingReason reason) {
    if (Severity(reason) > Severity(result_.refusal.reason)) {
      result_.refusal.reason = reason;
    }
  }

  const AssignContext& context_;
  const std::vector<PodSetSpec>& pod_sets_;
  const std::vector<size_t>& start_;
  Assignment result_;
  bool all_fit_ = true;
  bool no_place_ = false;
  bool in_flight_ = false;
  bool short_of_quota_ = false;
};

}  // namespace

void AddUsage(Usage& usage, FlavorResourceId pair, Amount amount) {
  if (amount == 0) {
    return;
  }
  auto position =
      std::lower_bound(usage.begin(), usage.end(), pair,
                       [](const auto& entry, FlavorResourceId key) { return entry.first < key; });
  if (position != usage.end() && position->first == pair) {
    position->second += amount;
  } else {
    usage.insert(position, {pair, amount});
  }
}

GangPodSet MakeGangPodSet(const PodSetSpec& pod_set, const std::vector<ResourceChoice>& choices,
                          const std::vector<FlavorConfig>& flavors) {
  GangPodSet out{
      pod_set.name, std::max(0, pod_set.count - pod_set.held_pods), pod_set.shape, {}, {}};
  std::set<FlavorId> seen;
  for (const ResourceChoice& choice : choices) {
    if (!seen.insert(choice.flavor).second) {
      continue;
    }
    const FlavorConfig& flavor = flavors[choice.flavor.value];
    out.node_selector.insert(flavor.labels.begin(), flavor.labels.end());
    for (const api::Toleration& toleration : flavor.tolerations) {
      if (std::find(out.tolerations.begin(), out.tolerations.end(), toleration) ==
          out.tolerations.end()) {
        out.tolerations.push_back(toleration);
      }
    }
  }
  return out;
}

std::optional<Gang> Pinned(const Capacity& capacity, const Gang& gang, const FitResult& fit) {
  if (fit.kind != FitKind::kFits || fit.placement.empty()) {
    return std::nullopt;
  }
  const std::string& node = fit.placement.front().node;
  const api::StringMap label = {{"kubernetes.io/hostname", node}};
  if (std::any_of(fit.placement.begin(), fit.placement.end(),
                  [&](const PlacementSlot& slot) { return slot.node != node; }) ||
      capacity.CountNodes(label) != 1) {
    return std::nullopt;
  }
  Gang pinned = gang;
  for (GangPodSet& pod_set : pinned.pod_sets) {
    pod_set.node_selector.insert(label.begin(), label.end());
  }
  const FitResult there = capacity.Check(pinned);
  if (there.kind != FitKind::kFits || there.placement != fit.placement ||
      !capacity.CheckFlights(pinned).clear) {
    return std::nullopt;
  }
  return pinned;
}

Assignment Assign(const AssignContext& context, const std::string& gang_id,
                  const std::vector<PodSetSpec>& pod_sets, const std::vector<size_t>& start) {
  return Assigner(context, gang_id, pod_sets, start).Run();
}

}  // namespace tutti::engine
