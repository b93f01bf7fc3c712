// SPDX-License-Identifier: Apache-2.0
#include "audit/histories.h"

#include <algorithm>

namespace tutti::audit {
namespace {

int64_t SecondsOf(Duration duration) {
  return std::chrono::floor<std::chrono::seconds>(duration).count();
}

// What a pod takes of its node.
struct Holding {
  int64_t devices = 0;
  int64_t per_hour = 0;  // of all of them, ten-thousandths
};

// A pod comes to a node, or leaves it.
struct Step {
  Time at;
  int32_t held = 0;
  int32_t done = 0;
  int64_t devices = 0;
  int64_t per_hour = 0;
};

// Why nothing can be said of this gang's start; "" = it can.
std::string WhyUnjudged(const Gang& gang, const HistoryOptions& options) {
  if (!gang.unjudged.empty()) {
    return gang.unjudged;
  }
  if (gang.sure == GangKind::kLoose && !options.count_loose) {
    return "a work queue: its pods may work alone (--count-work-queues counts it)";
  }
  if (!gang.known) {
    return "the job itself is not in the input";
  }
  if (gang.pods.empty()) {
    return gang.finished ? "it has ended and its pods are gone"
                         : (gang.active > 0 ? "its pods are not in the input" : "");
  }
  int32_t live = 0;
  int32_t succeeded = 0;
  for (const PodTimes& pod : gang.pods) {
    live += pod.ended ? 0 : 1;
    succeeded += pod.succeeded ? 1 : 0;
  }
  const auto seen = static_cast<int32_t>(gang.pods.size());
  if (live < gang.active || succeeded < gang.succeeded || (gang.finished && seen < gang.size)) {
    return "some of its pods are gone, or not in the input";
  }
  return "";
}

class Sweep {
 public:
  Sweep(const Facts& facts, const Prices& prices, const HistoryOptions& options, Histories& out)
      : facts_(facts), prices_(prices), options_(options), out_(out) {}

  GangHistory Run(const Gang& gang) {
    GangHistory history;
    const Time end = gang.ended ? std::min(*gang.ended, facts_.now) : facts_.now;
    const std::vector<Step> steps = StepsOf(gang, end, history);
    Time at = kNoTime;
    Step sum;
    std::optional<Spell> spell;
    bool was_whole = false;  // since it last held nothing: whoever starts again starts anew
    const auto pass = [&](Time to) {
      if (to <= at || sum.held == 0) {
        return;
      }
      const int64_t seconds = SecondsOf(to - at);
      const Money cost(sum.per_hour, 1, seconds);
      history.device_seconds += sum.devices * seconds;
      history.cost += cost;
      if (spell) {
        spell->device_seconds += sum.devices * seconds;
        spell->cost += cost;
      }
    };
    const auto close = [&](Time to, bool ongoing) {
      if (spell && to - spell->begin > options_.tolerance) {
        spell->end = to;
        spell->ongoing = ongoing;
        history.spells.push_back(*spell);
      }
      spell.reset();
    };
    for (size_t i = 0; i < steps.size();) {
      const Time now = steps[i].at;
      pass(now);
      at = now;
      for (; i < steps.size() && steps[i].at == now; ++i) {
        sum.held += steps[i].held;
        sum.done += steps[i].done;
        sum.devices += steps[i].devices;
        sum.per_hour += steps[i].per_hour;
      }
      const int32_t missing = gang.size - sum.held - sum.done;
      const bool partial = sum.held > 0 && missing > 0;
      if (partial && !spell) {
        spell = Spell{now, now, !was_whole, false, 0, 0, 0, {}};
      } else if (!partial) {
        close(now, false);
      }
      if (partial) {
        spell->held = sum.held;
        spell->missing = missing;
      }
      if (missing <= 0) {
        history.whole = history.whole.value_or(now);
      }
      was_whole = (was_whole || missing <= 0) && sum.held > 0;
    }
    // Till now it goes on as it was left.
    pass(end);
    close(end, !gang.ended);
    history.partial_start = std::any_of(history.spells.begin(), history.spells.end(),
                                        [](const Spell& one) { return one.start; });
    Plot(gang, history, end);
    return history;
  }

 private:
  std::vector<Step> StepsOf(const Gang& gang, Time end, GangHistory& history) {
    std::vector<Step> steps;
    holdings_.clear();
    for (const PodTimes& pod : gang.pods) {
      Holding holding;
      const NodeFacts& node = facts_.nodes[pod.node];
      for (const auto& [resource, count] : pod.devices) {
        bool found = false;
        holding.devices += count;
        holding.per_hour += count * prices_.PerHour(resource, node.labels, &found);
        if (!found) {
          ++out_.unpriced[resource];
        }
      }
      holdings_.push_back(holding);
      if (pod.bound == kNoTime || pod.bound >= end) {
        continue;
      }
      if (!history.first_bound || pod.bound < *history.first_bound) {
        history.first_bound = pod.bound;
      }
      steps.push_back({pod.bound, 1, 0, holding.devices, holding.per_hour});
      if (pod.ended && *pod.ended < end) {
        steps.push_back(
            {*pod.ended, -1, pod.succeeded ? 1 : 0, -holding.devices, -holding.per_hour});
      }
    }
    history.devices = DevicesOfAll(gang.size);
    std::stable_sort(steps.begin(), steps.end(),
                     [](const Step& a, const Step& b) { return a.at < b.at; });
    return steps;
  }

  // Of `size` pods: those with most devices, since some pods may have taken the place of others.
  // Pods that nobody has made yet count like the largest.
  [[nodiscard]] int64_t DevicesOfAll(int32_t size) const {
    std::vector<int64_t> devices;
    for (const Holding& holding : holdings_) {
      devices.push_back(holding.devices);
    }
    std::sort(devices.rbegin(), devices.rend());
    int64_t sum = 0;
    for (size_t i = 0; i < static_cast<size_t>(size) && !devices.empty(); ++i) {
      sum += i < devices.size() ? devices[i] : devices.front();
    }
    return sum;
  }

  // The devices of each pod: partial within a spell, whole outside.
  void Plot(const Gang& gang, const GangHistory& history, Time end) {
    for (size_t i = 0; i < gang.pods.size(); ++i) {
      const PodTimes& pod = gang.pods[i];
      const int64_t devices = holdings_[i].devices;
      if (devices == 0 || pod.bound == kNoTime || pod.bound >= end) {
        continue;
      }
      const Time gone = pod.ended ? std::min(*pod.ended, end) : end;
      out_.devices.push_back({pod.bound, devices, 0});
      if (gone < facts_.now) {
        out_.devices.push_back({gone, -devices, 0});
      }
      for (const Spell& spell : history.spells) {
        const Time from = std::max(spell.begin, pod.bound);
        const Time to = std::min(spell.end, gone);
        if (from < to) {
          out_.devices.push_back({from, -devices, devices});
          out_.devices.push_back({to, devices, -devices});
        }
      }
    }
  }

  const Facts& facts_;
  const Prices& prices_;
  const HistoryOptions& options_;
  Histories& out_;
  std::vector<Holding> holdings_;
};

}  // namespace

Duration GangHistory::PartialAtStart() const {
  Duration sum{};
  for (const Spell& spell : spells) {
    sum += spell.start ? spell.end - spell.begin : Duration{};
  }
  return sum;
}

int64_t GangHistory::IdleDeviceSeconds(bool start) const {
  int64_t sum = 0;
  for (const Spell& spell : spells) {
    sum += spell.start == start ? spell.device_seconds : 0;
  }
  return sum;
}

Money GangHistory::IdleCost(bool start) const {
  Money sum;
  for (const Spell& spell : spells) {
    if (spell.start == start) {
      sum += spell.cost;
    }
  }
  return sum;
}

Histories Follow(Facts& facts, const Prices& prices, const HistoryOptions& options) {
  Histories out;
  Sweep sweep(facts, prices, options, out);
  for (size_t i = 0; i < facts.gangs.size(); ++i) {
    Gang& gang = facts.gangs[i];
    gang.unjudged = WhyUnjudged(gang, options);
    GangHistory history;
    if (gang.unjudged.empty()) {
      history = sweep.Run(gang);
    } else {
      ++out.unjudged[gang.unjudged];
    }
    history.gang = i;
    out.gangs.push_back(std::move(history));
  }
  std::stable_sort(out.devices.begin(), out.devices.end(),
                   [](const DevicesAt& a, const DevicesAt& b) { return a.at < b.at; });
  return out;
}

}  // namespace tutti::audit
