// SPDX-License-Identifier: Apache-2.0
// List and watch of one collection as an explicit state machine: inputs are what arrived and `now`,
// outputs are events and what to do next. No thread, no clock, no I/O; lives on the loop thread.
// States: listing (paged, or streamed where the server can) -> watching -> (410: listing again,
// with a diff against what was known, so that objects deleted meanwhile are reported).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/meta.h"
#include "base/result.h"
#include "base/time.h"

namespace tutti::kube {

enum class WatchEventType {
  kInitialAdd,  // before the first kSynced
  kAdded,
  kModified,
  kDeleted,   // `object` is the last state that is known
  kSynced,    // once: everything that existed has been delivered
  kAbsent,    // once, before kSynced: nothing is served there (WatchOptions::optional)
  kRelisted,  // a later list is complete; its differences came before as Added/Modified/Deleted
};

// One object of a page or one event of a stream, decoded on an I/O thread.
struct WatchItem {
  enum class Type { kAdded, kModified, kDeleted, kBookmark, kInitialEnd, kError };
  Type type = Type::kAdded;
  api::ObjectKey key;
  std::string uid;
  std::string resource_version;
  std::shared_ptr<const void> object;  // null: the typed decoder refused it (see error)
  Error error;                         // kError: the server's; else the decoder's
};

struct UntypedWatchEvent {
  WatchEventType type = WatchEventType::kAdded;
  api::ObjectKey key;
  std::shared_ptr<const void> object;    // null for kSynced and kRelisted
  std::shared_ptr<const void> previous;  // kModified: what it replaces
};

struct WatchLimits {
  int page_size = 500;
  bool try_streaming_list = true;
  Duration min_watch = std::chrono::minutes(5);  // timeoutSeconds is drawn between the two
  Duration max_watch = std::chrono::minutes(10);
  Duration idle = std::chrono::minutes(3);  // bookmarks come about once a minute
  Duration backoff_min = std::chrono::milliseconds(800);
  Duration backoff_max = std::chrono::seconds(30);
  uint64_t seed = 1;
};

struct WatchCounters {
  uint64_t lists = 0;
  uint64_t watches = 0;
  uint64_t events = 0;
  uint64_t expired = 0;        // 410
  uint64_t errors = 0;         // failed lists and watches
  uint64_t decode_errors = 0;  // objects that the decoder refused
};

class WatchMachine {
 public:
  struct Next {
    enum class Do { kList, kWatch, kWait, kNothing };
    Do what = Do::kNothing;
    std::string continue_token;    // kList
    std::string resource_version;  // kWatch; "" with send_initial_events
    bool send_initial_events = false;
    int timeout_seconds = 0;
    Time until = kNoTime;  // kWait: call OnTimer then
  };

  explicit WatchMachine(WatchLimits limits);

  Next Start(Time now);
  Next OnTimer(Time now);
  Next OnPage(std::vector<WatchItem> items, const std::string& resource_version,
              const std::string& continue_token, Time now, std::vector<UntypedWatchEvent>& out);
  Next OnListError(const Error& error, Time now);
  // kNothing: go on reading. Anything else: give the stream up and do that.
  Next OnItems(std::vector<WatchItem> items, Time now, std::vector<UntypedWatchEvent>& out);
  // The stream ended; `error` null when the server ended it in order.
  Next OnWatchEnd(const Error* error, Time now);

  [[nodiscard]] bool Synced() const { return synced_; }
  [[nodiscard]] size_t Size() const { return known_.size(); }
  [[nodiscard]] const WatchCounters& Counters() const { return counters_; }
  [[nodiscard]] const std::string& ResourceVersion() const { return resource_version_; }

 private:
  enum class State { kIdle, kListing, kStreaming, kWatching, kWaiting };
  struct Known {
    std::string uid;
    std::string resource_version;
    std::shared_ptr<const void> object;
    uint64_t pass = 0;  // of the list that saw it last
  };

  Next BeginList(Time now);
  Next BeginWatch(Time now);
  Next Backoff(Time now, const Error* error = nullptr);
  Next Relist(Time now);
  void Put(WatchItem& item, bool from_list, std::vector<UntypedWatchEvent>& out);
  void Drop(const WatchItem& item, std::vector<UntypedWatchEvent>& out);
  void FinishList(std::vector<UntypedWatchEvent>& out);
  double Random();  // [0, 1)

  WatchLimits limits_;
  State state_ = State::kIdle;
  bool relist_ = true;    // the next attempt starts with a list
  bool expired_ = false;  // a 410 since the last complete list
  bool streaming_;        // ask for streaming lists
  bool synced_ = false;
  Time watch_started_ = kNoTime;
  std::string resource_version_;
  std::map<api::ObjectKey, Known> known_;
  uint64_t pass_ = 0;
  bool unreadable_ = false;  // this pass met a line that can't be read
  int failures_ = 0;
  uint64_t random_;
  WatchCounters counters_;
};

}  // namespace tutti::kube
