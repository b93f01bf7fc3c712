// SPDX-License-Identifier: Apache-2.0
// See gang_fit.h.
#include "engine/gang_fit.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

namespace tutti::engine {
namespace {

__extension__ using Wide = __int128;

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

// Millionths of the whole cluster that one pod takes of a resource.
int64_t Share(const FitProblem& problem, size_t kind, size_t resource) {
  const int64_t request = problem.kinds[kind].request[resource];
  if (request == 0)
    return 0;
  const int64_t total = problem.total[resource];
  if (total <= 0)
    return kHuge;
  return static_cast<int64_t>(std::min<Wide>(Wide{request} * 1'000'000 / total, kHuge));
}

struct Dominant {
  size_t resource = 0;
  int64_t share = 0;
};

Dominant DominantOf(const FitProblem& problem, size_t kind) {
  Dominant best;
  for (size_t r = 0; r < problem.resources; ++r) {
    const int64_t share = Share(problem, kind, r);
    if (share > best.share)
      best = {r, share};
  }
  return best;
}

// The part of a node's room that these kinds could use at all. Nodes that differ only in the rest
// are alike for the search.
std::vector<int64_t> UsefulFree(const FitProblem& problem, size_t bin) {
  std::vector<int64_t> useful(problem.resources);
  for (size_t r = 0; r < problem.resources; ++r) {
    Wide sum = 0;
    for (size_t k = 0; k < problem.kinds.size(); ++k) {
      sum += Wide{problem.Cap(bin, k)} * problem.kinds[k].request[r];
    }
    useful[r] = static_cast<int64_t>(std::min<Wide>(sum, problem.Free(bin)[r]));
  }
  return useful;
}

// --- first-fit
// ---------------------------------------------------------------------------------------

// Kinds in the given order, each onto the fullest node that takes it.
SearchResult FirstFit(const FitProblem& problem, const std::vector<size_t>& order) {
  const size_t kinds = problem.kinds.size();
  SearchResult result;
  result.placed.assign(kinds, 0);
  std::vector<int64_t> free = problem.free;
  std::vector<uint8_t> present(problem.bins * kinds, 0);
  std::vector<size_t> bins;
  for (size_t kind : order) {
    const std::vector<int64_t>& request = problem.kinds[kind].request;
    const size_t dominant = DominantOf(problem, kind).resource;
    bins.clear();
    for (size_t bin = 0; bin < problem.bins; ++bin) {
      if (problem.Cap(bin, kind) > 0)
        bins.push_back(bin);
    }
    std::sort(bins.begin(), bins.end(), [&](size_t a, size_t b) {
      const int64_t free_a = free[a * problem.resources + dominant];
      const int64_t free_b = free[b * problem.resources + dominant];
      return free_a != free_b ? free_a < free_b : a < b;
    });
    int64_t left = problem.kinds[kind].count;
    for (size_t bin : bins) {
      if (left == 0)
        break;
      bool clash = false;
      for (size_t other = 0; other < kinds; ++other) {
        clash |= other != kind && present[bin * kinds + other] && problem.Clash(kind, other);
      }
      if (clash)
        continue;
      int64_t* room = free.data() + bin * problem.resources;
      const int64_t count = FitCount(room, request, std::min(left, problem.Cap(bin, kind)));
      if (count == 0)
        continue;
      for (size_t r = 0; r < problem.resources; ++r)
        room[r] -= count * request[r];
      present[bin * kinds + kind] = 1;
      result.assigned.push_back({bin, kind, count});
      left -= count;
    }
    result.placed[kind] = problem.kinds[kind].count - left;
    if (left > 0)
      result.end = SearchEnd::kGaveUp;
  }
  return result;
}

// Kinds, the largest first.
std::vector<size_t> BySize(const FitProblem& problem) {
  std::vector<size_t> order(problem.kinds.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<int64_t> share;
  for (size_t k = 0; k < order.size(); ++k)
    share.push_back(DominantOf(problem, k).share);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return share[a] > share[b]; });
  return order;
}

// --- proofs that it can't be
// ---------------------------------------------------------------------------

bool SumsTooSmall(const FitProblem& problem) {
  std::vector<Wide> room(problem.resources, 0);
  for (size_t bin = 0; bin < problem.bins; ++bin) {
    const std::vector<int64_t> useful = UsefulFree(problem, bin);
    for (size_t r = 0; r < problem.resources; ++r)
      room[r] += useful[r];
  }
  for (size_t r = 0; r < problem.resources; ++r) {
    Wide need = 0;
    for (const PodKind& kind : problem.kinds)
      need += Wide{kind.count} * kind.request[r];
    if (need > room[r])
      return true;
  }
  return false;
}

bool OneKindTooMany(const FitProblem& problem) {
  for (size_t k = 0; k < problem.kinds.size(); ++k) {
    Wide places = 0;
    for (size_t bin = 0; bin < problem.bins; ++bin)
      places += problem.Cap(bin, k);
    if (places < problem.kinds[k].count)
      return true;
  }
  return false;
}

// --- candidates
// ------------------------------------------------------------------------------------------

struct Candidate {
  size_t bin = 0;
  size_t group = 0;  // nodes of one group are alike
};

// Nodes that can take anything, in packing order; of nodes that are alike only as many as there are
// pods.
std::vector<Candidate> Candidates(const FitProblem& problem, size_t main_kind) {
  Wide pods = 0;
  for (const PodKind& kind : problem.kinds)
    pods += kind.count;
  const size_t dominant = DominantOf(problem, main_kind).resource;
  std::vector<size_t> bins;
  for (size_t bin = 0; bin < problem.bins; ++bin) {
    for (size_t k = 0; k < problem.kinds.size(); ++k) {
      if (problem.Cap(bin, k) == 0)
        continue;
      bins.push_back(bin);
      break;
    }
  }
  std::sort(bins.begin(), bins.end(), [&](size_t a, size_t b) {
    const int64_t free_a = problem.Free(a)[dominant];
    const int64_t free_b = problem.Free(b)[dominant];
    return free_a != free_b ? free_a < free_b : a < b;
  });
  std::map<std::vector<int64_t>, std::pair<size_t, int64_t>>
      groups;  // alike -> id, how many so far
  std::vector<Candidate> candidates;
  for (size_t bin : bins) {
    std::vector<int64_t> key = UsefulFree(problem, bin);
    for (size_t k = 0; k < problem.kinds.size(); ++k)
      key.push_back(problem.Cap(bin, k));
    auto [it, added] = groups.try_emplace(std::move(key), groups.size(), 0);
    if (it->second.second++ >= pods)
      continue;
    candidates.push_back({bin, it->second.first});
  }
  return candidates;
}

// --- exact table over the rarer kinds
// --------------------------------------------------------------------

// What one node can hold: counts of the rarer kinds and then at most `main` of the most frequent
// one.
struct Option {
  std::vector<int64_t> rare;
  int64_t main = 0;
};

class Table {
 public:
  explicit Table(const FitProblem& problem) : problem_(problem) {
    for (size_t k = 1; k < problem.kinds.size(); ++k) {
      if (problem.kinds[k].count > problem.kinds[main_].count)
        main_ = k;
    }
    for (size_t k = 0; k < problem.kinds.size(); ++k) {
      if (k == main_)
        continue;
      rare_.push_back(k);
      stride_.push_back(states_);
      if (states_ <= kTableBudget)
        states_ *= std::min(problem.kinds[k].count, kTableBudget) + 1;
    }
  }

  // Nothing when the table would be too large.
  std::optional<SearchResult> Run() {
    if (states_ > kTableBudget)
      return std::nullopt;
    const std::vector<Candidate> candidates = Candidates(problem_, main_);
    if (static_cast<int64_t>(candidates.size()) * states_ > kTableBudget / 2)
      return std::nullopt;
    std::vector<std::vector<Option>> options_of_group;
    int64_t work = 0;
    for (const Candidate& candidate : candidates) {
      if (candidate.group >= options_of_group.size())
        options_of_group.resize(candidate.group + 1);
      std::vector<Option>& options = options_of_group[candidate.group];
      if (options.empty() && !ListOptions(candidate.bin, options))
        return std::nullopt;
      work += static_cast<int64_t>(options.size()) * states_;
      if (work > kTableBudget)
        return std::nullopt;
    }

    const int64_t want = problem_.kinds[main_].count;
    std::vector<int64_t> best(states_,
                              -1);  // by counts of rare kinds placed: most of the main kind
    best[0] = 0;
    for (const Candidate& candidate : candidates) {
      if (best.back() >= want)
        break;
      const std::vector<Option>& options = options_of_group[candidate.group];
      std::vector<int64_t> next = best;
      std::vector<Step> steps(states_);
      for (int32_t s = 0; s < states_; ++s)
        steps[s] = {s, -1};
      for (int32_t s = 0; s < states_; ++s) {
        if (best[s] < 0)
          continue;
        for (size_t o = 0; o < options.size(); ++o) {
          const int32_t to = Advance(s, options[o]);
          const int64_t value = std::min(want, best[s] + options[o].main);
          if (value <= next[to])
            continue;
          next[to] = value;
          steps[to] = {s, static_cast<int32_t>(o)};
        }
      }
      best = std::move(next);
      steps_.push_back(std::move(steps));
    }
    SearchResult result;
    result.placed.assign(problem_.kinds.size(), 0);
    if (best.back() < want) {
      result.end = SearchEnd::kImpossible;
      return result;
    }
    ReadBack(candidates, options_of_group, result);
    return result;
  }

 private:
  struct Step {
    int32_t from;
    int32_t option;  // -1: nothing on this node
  };

  [[nodiscard]] int64_t CountIn(int32_t state, size_t i) const {
    return state / stride_[i] % (problem_.kinds[rare_[i]].count + 1);
  }

  [[nodiscard]] int32_t Advance(int32_t state, const Option& option) const {
    int64_t to = 0;
    for (size_t i = 0; i < rare_.size(); ++i) {
      to +=
          stride_[i] * std::min(problem_.kinds[rare_[i]].count, CountIn(state, i) + option.rare[i]);
    }
    return static_cast<int32_t>(to);
  }

  // Everything that the node can hold, without what is worse in every respect. False: too many.
  bool ListOptions(size_t bin, std::vector<Option>& options) const {
    std::vector<int64_t> counts(rare_.size(), 0);
    constexpr size_t kMost = 400;
    size_t tried = 0;
    for (;;) {
      if (++tried > 20 * kMost)
        return false;
      if (const std::optional<int64_t> main = MainWith(bin, counts)) {
        options.push_back({counts, *main});
        if (options.size() > kMost)
          return false;
      }
      size_t i = 0;
      for (; i < counts.size(); ++i) {
        const int64_t most = std::min(problem_.Cap(bin, rare_[i]), problem_.kinds[rare_[i]].count);
        if (counts[i] < most) {
          ++counts[i];
          break;
        }
        counts[i] = 0;
      }
      if (i == counts.size())
        break;
    }
    std::vector<Option> best;
    for (size_t a = 0; a < options.size(); ++a) {
      bool worse = false;
      for (size_t b = 0; b < options.size() && !worse; ++b) {
        worse = a != b && options[b].main >= options[a].main;
        for (size_t i = 0; i < rare_.size() && worse; ++i) {
          worse = options[b].rare[i] >= options[a].rare[i];
        }
      }
      if (!worse)
        best.push_back(options[a]);  // two options never have the same rare counts
    }
    options = std::move(best);
    return true;
  }

  // Pods of the main kind that fit beside these; nothing if already these don't fit.
  [[nodiscard]] std::optional<int64_t> MainWith(size_t bin,
                                                const std::vector<int64_t>& counts) const {
    std::vector<int64_t> room(problem_.Free(bin), problem_.Free(bin) + problem_.resources);
    bool main_clashes = false;
    for (size_t i = 0; i < rare_.size(); ++i) {
      if (counts[i] == 0)
        continue;
      main_clashes |= problem_.Clash(rare_[i], main_);
      for (size_t j = 0; j < i; ++j) {
        if (counts[j] > 0 && problem_.Clash(rare_[i], rare_[j]))
          return std::nullopt;
      }
      const std::vector<int64_t>& request = problem_.kinds[rare_[i]].request;
      if (FitCount(room.data(), request, counts[i]) < counts[i])
        return std::nullopt;
      for (size_t r = 0; r < room.size(); ++r)
        room[r] -= counts[i] * request[r];
    }
    if (main_clashes)
      return 0;
    return FitCount(room.data(), problem_.kinds[main_].request, problem_.Cap(bin, main_));
  }

  void ReadBack(const std::vector<Candidate>& candidates,
                const std::vector<std::vector<Option>>& options_of_group,
                SearchResult& result) const {
    int64_t main_left = problem_.kinds[main_].count;
    auto state = static_cast<int32_t>(states_ - 1);
    for (size_t n = steps_.size(); n-- > 0;) {
      const Step step = steps_[n][state];
      if (step.option < 0)
        continue;
      const Option& option = options_of_group[candidates[n].group][step.option];
      for (size_t i = 0; i < rare_.size(); ++i) {
        const int64_t count = CountIn(state, i) - CountIn(step.from, i);
        if (count > 0)
          result.assigned.push_back({candidates[n].bin, rare_[i], count});
      }
      const int64_t count = std::min(option.main, main_left);
      if (count > 0)
        result.assigned.push_back({candidates[n].bin, main_, count});
      main_left -= count;
      state = step.from;
    }
    for (size_t k = 0; k < problem_.kinds.size(); ++k)
      result.placed[k] = problem_.kinds[k].count;
  }

  const FitProblem& problem_;
  size_t main_ = 0;
  std::vector<size_t> rare_;
  std::vector<int64_t> stride_;
  int64_t states_ = 1;
  std::vector<std::vector<Step>> steps_;
};

// --- backtracking
// ----------------------------------------------------------------------------------------

// Node by node; on each node only fillings to which no pod that is left could be added. Complete
// when it ends within the budget.
class Backtrack {
 public:
  explicit Backtrack(const FitProblem& problem) : problem_(problem), kinds_(problem.kinds.size()) {
    size_t largest = 0;
    for (size_t k = 1; k < kinds_; ++k) {
      if (DominantOf(problem, k).share > DominantOf(problem, largest).share)
        largest = k;
    }
    candidates_ = Candidates(problem, largest);
    caps_after_.assign((candidates_.size() + 1) * kinds_, 0);
    for (size_t n = candidates_.size(); n-- > 0;) {
      for (size_t k = 0; k < kinds_; ++k) {
        caps_after_[n * kinds_ + k] =
            caps_after_[(n + 1) * kinds_ + k] + problem.Cap(candidates_[n].bin, k);
      }
    }
  }

  SearchResult Run() {
    SearchResult result;
    result.placed.assign(kinds_, 0);
    std::vector<int64_t> left;
    for (const PodKind& kind : problem_.kinds)
      left.push_back(kind.count);
    std::vector<Frame> stack;
    if (!Push(stack, left)) {
      result.end = SearchEnd::kGaveUp;
      return result;
    }
    while (!stack.empty()) {
      Frame& frame = stack.back();
      if (frame.next == frame.fillings.size()) {
        stack.pop_back();
        if (!stack.empty())
          Undo(stack.back(), left);
        continue;
      }
      if (++steps_ > kBacktrackBudget)
        break;
      const std::vector<int64_t>& filling = frame.fillings[frame.next++];
      bool done = true;
      for (size_t k = 0; k < kinds_; ++k) {
        left[k] -= filling[k];
        done &= left[k] == 0;
      }
      if (done) {
        Collect(stack, result);
        return result;
      }
      if (!CanStill(stack.size(), left)) {
        Undo(frame, left);
        continue;
      }
      if (!Push(stack, left))
        break;
    }
    result.end = steps_ > kBacktrackBudget ? SearchEnd::kGaveUp : SearchEnd::kImpossible;
    return result;
  }

 private:
  struct Frame {
    std::vector<std::vector<int64_t>> fillings;
    size_t next = 0;
  };

  [[nodiscard]] bool CanStill(size_t n, const std::vector<int64_t>& left) const {
    for (size_t k = 0; k < kinds_; ++k) {
      if (caps_after_[n * kinds_ + k] < left[k])
        return false;
    }
    return true;
  }

  void Undo(const Frame& frame, std::vector<int64_t>& left) const {
    const std::vector<int64_t>& filling = frame.fillings[frame.next - 1];
    for (size_t k = 0; k < kinds_; ++k)
      left[k] += filling[k];
  }

  // The next node with its fillings; false when the budget ends.
  bool Push(std::vector<Frame>& stack, const std::vector<int64_t>& left) {
    Frame frame;
    if (stack.size() < candidates_.size()) {
      const size_t bin = candidates_[stack.size()].bin;
      std::vector<int64_t> room(problem_.Free(bin), problem_.Free(bin) + problem_.resources);
      std::vector<int64_t> filling(kinds_, 0);
      Fill(bin, 0, left, room, filling, frame.fillings);
    }
    stack.push_back(std::move(frame));
    return steps_ <= kBacktrackBudget;
  }

  // Fillings with many of the first kinds come first. The depth is the number of kinds.
  void Fill(size_t bin, size_t kind, const std::vector<int64_t>& left, std::vector<int64_t>& room,
            std::vector<int64_t>& filling, std::vector<std::vector<int64_t>>& out) {
    if (++steps_ > kBacktrackBudget)
      return;
    if (kind == kinds_) {
      for (size_t k = 0; k < kinds_; ++k) {
        if (MostOf(bin, k, left[k] - filling[k], room, filling) > 0)
          return;  // not full yet
      }
      out.push_back(filling);
      return;
    }
    const std::vector<int64_t>& request = problem_.kinds[kind].request;
    for (int64_t count = MostOf(bin, kind, left[kind], room, filling); count >= 0; --count) {
      filling[kind] = count;
      for (size_t r = 0; r < room.size(); ++r)
        room[r] -= count * request[r];
      Fill(bin, kind + 1, left, room, filling, out);
      for (size_t r = 0; r < room.size(); ++r)
        room[r] += count * request[r];
      filling[kind] = 0;
      if (steps_ > kBacktrackBudget)
        return;
    }
  }

  [[nodiscard]] int64_t MostOf(size_t bin, size_t kind, int64_t left,
                               const std::vector<int64_t>& room,
                               const std::vector<int64_t>& filling) const {
    for (size_t other = 0; other < kinds_; ++other) {
      if (other != kind && filling[other] > 0 && problem_.Clash(kind, other))
        return 0;
    }
    const int64_t most = std::min(left, problem_.Cap(bin, kind) - filling[kind]);
    return most <= 0 ? 0 : FitCount(room.data(), problem_.kinds[kind].request, most);
  }

  void Collect(const std::vector<Frame>& stack, SearchResult& result) const {
    for (size_t n = 0; n < stack.size(); ++n) {
      const std::vector<int64_t>& filling = stack[n].fillings[stack[n].next - 1];
      for (size_t k = 0; k < kinds_; ++k) {
        if (filling[k] > 0)
          result.assigned.push_back({candidates_[n].bin, k, filling[k]});
      }
    }
    for (size_t k = 0; k < kinds_; ++k)
      result.placed[k] = problem_.kinds[k].count;
  }

  const FitProblem& problem_;
  size_t kinds_;
  std::vector<Candidate> candidates_;
  std::vector<int64_t> caps_after_;  // per candidate and kind: sum of caps from there on
  int64_t steps_ = 0;
};

}  // namespace

int64_t FitCount(const int64_t* free, const std::vector<int64_t>& request, int64_t limit) {
  int64_t count = limit;
  for (size_t r = 0; r < request.size(); ++r) {
    if (request[r] == 0)
      continue;
    // A division only where the limit isn't reached anyway (most checks ask for few pods).
    if (free[r] < request[r])
      return 0;
    if (count > 1)
      count = std::min(count, free[r] / request[r]);
  }
  return count;
}

SearchResult FirstFitForTest(const FitProblem& problem) {
  return FirstFit(problem, BySize(problem));
}

SearchResult TableForTest(const FitProblem& problem) {
  const SearchResult too_large{
      SearchEnd::kGaveUp, {}, std::vector<int64_t>(problem.kinds.size(), 0)};
  return Table(problem).Run().value_or(too_large);
}

SearchResult BacktrackForTest(const FitProblem& problem) {
  return Backtrack(problem).Run();
}

SearchResult Search(const FitProblem& problem) {
  SearchResult first = FirstFit(problem, BySize(problem));
  if (first.end == SearchEnd::kFound)
    return first;
  if (problem.kinds.size() == 1 || OneKindTooMany(problem) || SumsTooSmall(problem)) {
    first.end = SearchEnd::kImpossible;
    return first;
  }
  std::optional<SearchResult> better = Table(problem).Run();
  if (!better)
    better = Backtrack(problem).Run();
  if (better->end == SearchEnd::kFound)
    return *better;
  first.end = better->end;
  return first;
}

}  // namespace tutti::engine
