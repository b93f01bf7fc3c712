// SPDX-License-Identifier: Apache-2.0
#include "measure/windows.h"

#include <algorithm>
#include <utility>

#include "audit/text.h"
#include "cli/objects.h"

namespace tutti::measure {
namespace {

int64_t SecondsOf(Duration duration) {
  return std::chrono::floor<std::chrono::seconds>(duration).count();
}

size_t SizeOf(const api::Amounts& devices) {
  int64_t sum = 0;
  for (const auto& [resource, amount] : devices) {
    sum += amount;
  }
  constexpr std::array<int64_t, kSizes - 1> kUpTo = {0, 7, 8, 16, 64};
  return static_cast<size_t>(
      std::find_if(kUpTo.begin(), kUpTo.end(), [sum](int64_t most) { return sum <= most; }) -
      kUpTo.begin());
}

// The value that `percent` of 100 don't exceed.
Duration Percentile(const std::vector<Duration>& sorted, size_t percent) {
  return sorted.empty() ? Duration::zero() : sorted[(sorted.size() * percent + 99) / 100 - 1];
}

bool Within(const Window& window, Time at) {
  return at >= window.from && at < window.to;
}

}  // namespace

Share& Share::operator+=(const Share& other) {
  device_seconds += other.device_seconds;
  cost += other.cost;
  return *this;
}

const std::array<const char*, kSizes>& SizeNames() {
  static const std::array<const char*, kSizes> names = {"none",    "1 to 7",   "8",
                                                        "9 to 16", "17 to 64", "more"};
  return names;
}

int64_t Window::Held() const {
  return whole.device_seconds + others.device_seconds + Wasted();
}

int64_t Window::Wasted() const {
  return partially.device_seconds + lost_members.device_seconds;
}

Windows::Windows(Recorded recorded, audit::Prices prices, const audit::HistoryOptions& options)
    : recorded_(std::move(recorded)),
      prices_(std::move(prices)),
      options_(options),
      histories_(audit::Follow(recorded_.facts, prices_, options_)) {}

Time Windows::Begin() const {
  return recorded_.watched.empty() ? kNoTime : recorded_.watched.front().begin;
}

template <typename Take>
void Windows::Watched(const Window& window, Time begin, Time end, Take take) const {
  begin = std::max(begin, window.from);
  end = std::min(end, window.to);
  for (const Span& span : recorded_.watched) {
    const Time from = std::max(begin, span.begin);
    const Time to = std::min(end, span.end);
    if (from < to) {
      take(from, to);
    }
  }
}

Time Windows::EndOf(const audit::Gang& gang) const {
  return gang.finished && gang.ended ? std::min(*gang.ended, recorded_.facts.now)
                                     : recorded_.facts.now;
}

void Windows::CountHeld(Window& out, const audit::PodTimes& pod, Time end,
                        const audit::GangHistory* history) const {
  if (pod.bound == kNoTime || pod.devices.empty()) {
    return;
  }
  const audit::NodeFacts& node = recorded_.facts.nodes[pod.node];
  int64_t devices = 0;
  int64_t per_hour = 0;
  for (const auto& [resource, amount] : pod.devices) {
    devices += amount;
    per_hour += amount * prices_.PerHour(resource, node.labels);
  }
  const auto share = [&](Time from, Time to) {
    const int64_t seconds = SecondsOf(to - from);
    return Share{devices * seconds, audit::Money(per_hour, 1, seconds)};
  };
  const Time gone = pod.ended ? std::min(*pod.ended, end) : end;
  Watched(out, pod.bound, gone, [&](Time from, Time to) {
    if (history == nullptr) {
      out.others += share(from, to);
      return;
    }
    // Spells are apart from each other and in order; what is between them was whole.
    Time at = from;
    for (const audit::Spell& spell : history->spells) {
      const Time begin = std::max(spell.begin, at);
      const Time stop = std::min(spell.end, to);
      if (begin >= stop) {
        continue;
      }
      out.whole += share(at, begin);
      (spell.start ? out.partially : out.lost_members) += share(begin, stop);
      at = stop;
    }
    out.whole += share(at, to);
  });
}

void Windows::CountGang(Window& out, size_t index) const {
  const audit::Gang& gang = recorded_.facts.gangs[index];
  const audit::GangHistory& history = histories_.gangs[index];
  const bool judged = gang.unjudged.empty();
  const Time end = EndOf(gang);
  const size_t size = SizeOf(gang.devices);
  if (Within(out, gang.created)) {
    ++out.created;
    ++out.sizes[size];
  }
  int64_t devices = 0;
  int64_t per_hour = 0;
  for (const auto& [resource, amount] : gang.devices) {
    devices += amount;
    per_hour += amount * prices_.PerHour(resource, {});
  }
  // Suspended by its owner, and in no queue: it asks for nothing.
  const bool asks = !gang.suspended || !gang.queue.empty();
  if (asks) {
    Watched(out, gang.created, end, [&](Time from, Time to) {
      const int64_t seconds = SecondsOf(to - from);
      out.asked += {devices * seconds, audit::Money(per_hour, 1, seconds)};
      out.asked_by_size[size] += devices * seconds;
    });
  }
  for (const audit::PodTimes& pod : gang.pods) {
    CountHeld(out, pod, end, judged ? &history : nullptr);
    if (!pod.taken_for.empty() && pod.ended && Within(out, *pod.ended)) {
      ++out.pods_taken[pod.taken_for];
    }
  }
  if (!judged) {
    return;
  }
  for (const audit::Spell& spell : history.spells) {
    Watched(out, spell.begin, spell.end,
            [&](Time from, Time to) { out.partial_time += spell.start ? to - from : Duration(); });
    const bool begins = Within(out, spell.begin);
    if (begins && !spell.start) {
      ++out.lost;
    } else if (begins && history.first_bound == spell.begin) {
      ++out.partial;
    } else if (begins) {
      ++out.restarted_partially;
    }
  }
  if (history.first_bound && Within(out, *history.first_bound)) {
    ++out.started;
  }
  const bool waits_at_end = asks && gang.created < out.to && end >= out.to &&
                            (!history.whole || *history.whole >= out.to);
  if (waits_at_end) {
    ++out.waiting;
    out.longest_waiting = std::max(out.longest_waiting, out.to - gang.created);
  }
}

Window Windows::Cut(Time from, Time to) const {
  Window out;
  out.from = from;
  out.to = to;
  for (const Span& span : recorded_.watched) {
    out.sampled = out.sampled || (span.sampled && span.begin < to && span.end > from);
  }
  Watched(out, from, to, [&](Time begin, Time end) { out.watched += end - begin; });
  std::vector<Duration> waits;
  for (size_t i = 0; i < recorded_.facts.gangs.size(); ++i) {
    CountGang(out, i);
    const audit::Gang& gang = recorded_.facts.gangs[i];
    const audit::GangHistory& history = histories_.gangs[i];
    if (gang.unjudged.empty() && history.whole && Within(out, *history.whole)) {
      waits.push_back(std::max(*history.whole - gang.created, Duration::zero()));
    }
  }
  std::sort(waits.begin(), waits.end());
  out.waits = {waits.size(), Percentile(waits, 50), Percentile(waits, 90),
               waits.empty() ? Duration::zero() : waits.back()};
  for (const audit::OtherPod& pod : recorded_.facts.others) {
    CountHeld(out, pod.times, recorded_.facts.now, nullptr);
  }
  for (const Supply& one : recorded_.supply) {
    const int64_t per_hour = one.amount * prices_.PerHour(one.resource, one.node_labels);
    Watched(out, one.begin, one.end, [&](Time begin, Time end) {
      const int64_t seconds = SecondsOf(end - begin);
      out.supply += {one.amount * seconds, audit::Money(per_hour, 1, seconds)};
    });
  }
  for (const Eviction& eviction : recorded_.evictions) {
    if (Within(out, eviction.at)) {
      ++out.evictions[eviction.reason];
    }
  }
  return out;
}

std::vector<std::string> Windows::Notes(const Window& window) const {
  std::vector<std::string> notes;
  if (window.watched < window.to - window.from) {
    notes.push_back("watched for " + audit::Span(window.watched) + " of " +
                    audit::Span(window.to - window.from) +
                    ": hours are those of the time that was watched, and jobs that came and went "
                    "in between are missing");
  }
  if (window.sampled) {
    notes.push_back("from " + cli::Count(recorded_.dumps, "dump") +
                    ": pods that came and went between two of them are missing, and of what had "
                    "gone at the next one the time since the last is not counted");
  }
  if (recorded_.ends_unseen > 0) {
    notes.push_back(cli::Count(recorded_.ends_unseen, "pod") +
                    " ended when nobody watched: counted up to the last look");
  }
  for (const auto& [reason, count] : histories_.unjudged) {
    notes.push_back(cli::Count(count, "job") + " in the ledger not judged: " + reason);
  }
  for (const auto& [resource, pods] : histories_.unpriced) {
    notes.push_back("no price for " + resource + " (" + cli::Count(pods, "pod") +
                    "): it costs nothing here; give one with --prices");
  }
  return notes;
}

}  // namespace tutti::measure
