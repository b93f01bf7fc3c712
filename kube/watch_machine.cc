// SPDX-License-Identifier: Apache-2.0
#include "kube/watch_machine.h"

#include <algorithm>
#include <utility>

namespace tutti::kube {
namespace {

// An orderly end sooner than this counts as a failure: a server that ends every watch at once must
// not be asked in a tight loop.
constexpr Duration kShortWatch = std::chrono::seconds(1);

}  // namespace

WatchMachine::WatchMachine(WatchLimits limits)
    : limits_(limits),
      streaming_(limits.try_streaming_list),
      random_(limits.seed * 0x9e3779b97f4a7c15ULL + 1) {}

double WatchMachine::Random() {
  // SplitMix64: deterministic from the seed.
  random_ += 0x9e3779b97f4a7c15ULL;
  uint64_t x = random_;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  x ^= x >> 31;
  return static_cast<double>(x >> 11) / static_cast<double>(1ULL << 53);
}

WatchMachine::Next WatchMachine::Start(Time now) {
  return BeginList(now);
}

WatchMachine::Next WatchMachine::OnTimer(Time now) {
  if (state_ != State::kWaiting) {
    return {};
  }
  return relist_ ? BeginList(now) : BeginWatch(now);
}

WatchMachine::Next WatchMachine::BeginList(Time now) {
  ++pass_;
  unreadable_ = false;
  ++counters_.lists;
  relist_ = true;
  Next next;
  if (streaming_) {
    next = BeginWatch(now);
    state_ = State::kStreaming;
    next.send_initial_events = true;
    next.resource_version.clear();
    return next;
  }
  state_ = State::kListing;
  next.what = Next::Do::kList;
  return next;
}

WatchMachine::Next WatchMachine::BeginWatch(Time now) {
  ++counters_.watches;
  state_ = State::kWatching;
  watch_started_ = now;
  Next next;
  next.what = Next::Do::kWatch;
  next.resource_version = resource_version_;
  const auto low = std::chrono::duration_cast<std::chrono::seconds>(limits_.min_watch).count();
  const auto high = std::chrono::duration_cast<std::chrono::seconds>(limits_.max_watch).count();
  next.timeout_seconds =
      static_cast<int>(low + static_cast<int64_t>(Random() * static_cast<double>(high - low)));
  return next;
}

WatchMachine::Next WatchMachine::Backoff(Time now, const Error* error) {
  // 0.8 s, doubled up to 30 s, plus up to the same again so that clients spread out.
  Duration wait = limits_.backoff_min;
  for (int i = 0; i < failures_ && wait < limits_.backoff_max; ++i) {
    wait *= 2;
  }
  wait = std::min(wait, limits_.backoff_max);
  wait += Duration(static_cast<int64_t>(Random() * static_cast<double>(wait.count())));
  wait = std::min(wait, limits_.backoff_max);
  if (error != nullptr && error->retry_after.has_value()) {
    wait = std::max<Duration>(wait, *error->retry_after);
  }
  ++failures_;
  state_ = State::kWaiting;
  Next next;
  next.what = Next::Do::kWait;
  next.until = now + wait;
  return next;
}

WatchMachine::Next WatchMachine::Relist(Time now) {
  ++counters_.expired;
  relist_ = true;
  // At once, unless this list itself has expired before.
  return std::exchange(expired_, true) ? Backoff(now) : BeginList(now);
}

void WatchMachine::Put(WatchItem& item, bool from_list, std::vector<UntypedWatchEvent>& out) {
  if (item.object == nullptr) {
    // Only the typed decoder refused it: the object exists, so nothing is reported as deleted.
    ++counters_.decode_errors;
    const auto it = known_.find(item.key);
    if (it != known_.end() && it->second.uid == item.uid) {
      it->second.pass = pass_;
      it->second.resource_version = std::move(item.resource_version);
    }
    return;
  }
  ++counters_.events;
  auto it = known_.find(item.key);
  if (it != known_.end() && it->second.uid != item.uid) {
    // Deleted and created again while nobody looked.
    out.push_back({WatchEventType::kDeleted, item.key, std::move(it->second.object), nullptr});
    known_.erase(it);
    it = known_.end();
  }
  if (it == known_.end()) {
    const WatchEventType type =
        !synced_ && from_list ? WatchEventType::kInitialAdd : WatchEventType::kAdded;
    out.push_back({type, item.key, item.object, nullptr});
    known_.emplace(std::move(item.key), Known{std::move(item.uid), std::move(item.resource_version),
                                              std::move(item.object), pass_});
    return;
  }
  Known& known = it->second;
  known.pass = pass_;
  if (known.resource_version == item.resource_version) {
    return;
  }
  out.push_back({WatchEventType::kModified, item.key, item.object, std::move(known.object)});
  known.resource_version = std::move(item.resource_version);
  known.object = std::move(item.object);
}

void WatchMachine::Drop(const WatchItem& item, std::vector<UntypedWatchEvent>& out) {
  ++counters_.events;
  const auto it = known_.find(item.key);
  if (it == known_.end()) {
    return;
  }
  // The event carries the state at deletion, unless it can't be decoded.
  std::shared_ptr<const void> last =
      item.object != nullptr && it->second.uid == item.uid ? item.object : it->second.object;
  known_.erase(it);
  out.push_back({WatchEventType::kDeleted, item.key, std::move(last), nullptr});
}

void WatchMachine::FinishList(std::vector<UntypedWatchEvent>& out) {
  for (auto it = known_.begin(); it != known_.end();) {
    if (it->second.pass == pass_ || unreadable_) {
      ++it;
      continue;
    }
    out.push_back({WatchEventType::kDeleted, it->first, std::move(it->second.object), nullptr});
    it = known_.erase(it);
  }
  out.push_back(
      {synced_ ? WatchEventType::kRelisted : WatchEventType::kSynced, {}, nullptr, nullptr});
  synced_ = true;
  relist_ = false;
  expired_ = false;
  failures_ = 0;
}

WatchMachine::Next WatchMachine::OnPage(std::vector<WatchItem> items,
                                        const std::string& resource_version,
                                        const std::string& continue_token, Time now,
                                        std::vector<UntypedWatchEvent>& out) {
  if (state_ != State::kListing) {
    return {};
  }
  for (WatchItem& item : items) {
    Put(item, /*from_list=*/true, out);
  }
  if (!continue_token.empty()) {
    Next next;
    next.what = Next::Do::kList;
    next.continue_token = continue_token;
    return next;
  }
  resource_version_ = resource_version;
  FinishList(out);
  return BeginWatch(now);
}

WatchMachine::Next WatchMachine::OnListError(const Error& error, Time now) {
  if (state_ != State::kListing) {
    return {};
  }
  if (error.code == ErrorCode::kExpired) {
    return Relist(now);
  }
  ++counters_.errors;
  return Backoff(now, &error);
}

WatchMachine::Next WatchMachine::OnItems(std::vector<WatchItem> items, Time now,
                                         std::vector<UntypedWatchEvent>& out) {
  if (state_ != State::kStreaming && state_ != State::kWatching) {
    return {};
  }
  for (WatchItem& item : items) {
    switch (item.type) {
      case WatchItem::Type::kAdded:
      case WatchItem::Type::kModified:
      case WatchItem::Type::kDeleted:
        if (state_ == State::kWatching) {
          resource_version_ = item.resource_version;
          failures_ = 0;
        }
        if (item.type == WatchItem::Type::kDeleted) {
          Drop(item, out);
        } else {
          Put(item, state_ == State::kStreaming, out);
        }
        break;
      case WatchItem::Type::kBookmark:
        if (state_ == State::kWatching) {
          resource_version_ = item.resource_version;
          failures_ = 0;
        }
        break;
      case WatchItem::Type::kInitialEnd:
        resource_version_ = item.resource_version;
        if (state_ == State::kStreaming) {
          FinishList(out);
          state_ = State::kWatching;
        }
        break;
      case WatchItem::Type::kError:
        if (item.error.code == ErrorCode::kExpired) {
          return Relist(now);
        }
        if (item.error.code == ErrorCode::kDecode) {
          // A line that can't be read: one object is stale or missing until its next event, the
          // others go on. What a list couldn't show is not reported as deleted.
          ++counters_.decode_errors;
          unreadable_ = true;
          break;
        }
        ++counters_.errors;
        return Backoff(now, &item.error);
    }
  }
  return {};
}

WatchMachine::Next WatchMachine::OnWatchEnd(const Error* error, Time now) {
  if (state_ != State::kStreaming && state_ != State::kWatching) {
    return {};
  }
  if (error == nullptr) {
    if (state_ == State::kWatching && now - watch_started_ >= kShortWatch) {
      return BeginWatch(now);
    }
    return Backoff(now);
  }
  if (error->code == ErrorCode::kExpired) {
    return Relist(now);
  }
  ++counters_.errors;
  if (state_ == State::kStreaming && error->code == ErrorCode::kInvalid) {
    streaming_ = false;  // a server without streaming lists: pages, from now on
    return BeginList(now);
  }
  return Backoff(now, error);
}

}  // namespace tutti::kube
