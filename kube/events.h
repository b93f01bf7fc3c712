// SPDX-License-Identifier: Apache-2.0
// Events as data: equal ones are counted in one object, each object has a token bucket, and what is
// left goes out as ordinary write requests (core/v1), at a pace that leaves the server to more
// important writes. Dropping is fine and counted. Loop thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/meta.h"
#include "api/request.h"
#include "base/pace.h"
#include "base/time.h"

namespace tutti::kube {

struct ObjectReference {
  std::string api_version;
  std::string kind;
  std::string ns;  // "" = cluster-scoped; its events go to the namespace "default"
  std::string name;
  std::string uid;
  std::string resource_version;
};

struct EventOptions {
  std::string component = "tutti";
  std::string instance;                                // host or pod name
  int burst = 25;                                      // per object
  Duration refill = std::chrono::seconds(300);         // one more event per object
  Duration coalesce = std::chrono::minutes(10);        // equal events within this share an object
  Duration flush_interval = std::chrono::seconds(10);  // counts are written at most this often
  size_t max_tracked = 4096;                           // objects and events remembered
  size_t max_waiting = 10'000;                         // to be written; then the oldest is dropped
  PaceOptions pace = {.busy_rate = 3};
};

class EventRecorder {
 public:
  using Sink = std::function<void(std::string key, api::WriteRequest request)>;

  EventRecorder(EventOptions options, Sink sink);

  // `type` is "Normal" or "Warning"; the message is cut at 1,024 bytes. `any_message`: events that
  // differ by the message only are counted as equal ones; the first message stays.
  void Record(const ObjectReference& object, std::string_view type, std::string_view reason,
              std::string_view message, Time now, bool any_message = false);
  // Writes the counts that are due. Call about every flush_interval.
  void Flush(Time now);
  // Something more important is written now.
  void GiveWay(Time now) { pace_.Act(now); }
  // Sends what may be sent; when to call it again, if something is left.
  std::optional<Time> Pump(Time now);

  [[nodiscard]] uint64_t Written() const { return written_; }
  [[nodiscard]] uint64_t Coalesced() const { return coalesced_; }
  [[nodiscard]] uint64_t Dropped() const { return dropped_; }
  [[nodiscard]] size_t Waiting() const { return waiting_.size(); }

 private:
  struct Series {
    std::string ns;
    std::string name;  // of the Event object
    Time last = kNoTime;
    Time written_at = kNoTime;
    int64_t count = 1;
    int64_t written_count = 1;
    std::list<std::string>::iterator age;
  };
  struct Bucket {
    double tokens = 0;
    Time at = kNoTime;
    std::list<std::string>::iterator age;
  };

  bool Take(const std::string& object, Time now);
  void WriteCount(Series& series, Time now);
  void Send(std::string key, api::WriteRequest request, Time now);

  EventOptions options_;
  Sink sink_;
  Pace pace_;
  std::deque<std::pair<std::string, api::WriteRequest>> waiting_;
  std::map<std::string, Series> series_;
  std::list<std::string> series_age_;  // oldest first
  std::map<std::string, Bucket> buckets_;
  std::list<std::string> bucket_age_;
  uint64_t sequence_ = 0;
  uint64_t written_ = 0;
  uint64_t coalesced_ = 0;
  uint64_t dropped_ = 0;
};

}  // namespace tutti::kube
