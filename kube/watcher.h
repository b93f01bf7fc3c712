// SPDX-License-Identifier: Apache-2.0
// Runs a WatchMachine against the API: JSON is parsed and decoded into T on I/O threads, events are
// delivered on the loop thread in order. The objects are immutable and shared with the machine.
//
//   auto watch = WatchTyped<api::Job>(client, loop, api::ResourceOf(api::Kind::kJob), {},
//                                     &api::JobFromJson, [&](const WatchEvent<api::Job>& e) {…});
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "api/meta.h"
#include "base/json.h"
#include "base/result.h"
#include "kube/client.h"
#include "kube/loop.h"
#include "kube/watch_machine.h"

namespace tutti::kube {

template <typename T>
struct WatchEvent {
  WatchEventType type = WatchEventType::kAdded;
  api::ObjectKey key;
  std::shared_ptr<const T>
      object;  // kDeleted: the last known state; null: kSynced, kAbsent, kRelisted
  std::shared_ptr<const T> previous;  // kModified only
};

struct WatchOptions {
  std::string ns;  // "" = all namespaces
  std::string label_selector;
  std::string field_selector;
  // The resource may not be served, or not yet: said by kAbsent, and asked for again until it is.
  bool optional = false;
  WatchLimits limits;
};

using DecodeFn = std::function<Result<std::shared_ptr<const void>>(const Json&)>;  // any thread
using UntypedEventFn = std::function<void(const UntypedWatchEvent&)>;

// Destroying it stops the stream; no event is delivered afterwards. Loop thread only.
class Watch {
 public:
  Watch(Client& client, Loop& loop, api::Resource resource, WatchOptions options, DecodeFn decode,
        UntypedEventFn on_event);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  [[nodiscard]] bool Synced() const;
  [[nodiscard]] size_t Size() const;
  [[nodiscard]] const WatchCounters& Counters() const;
  [[nodiscard]] std::string LastError() const;  // "" after success; for health reports

 private:
  class Driver;
  std::shared_ptr<Driver> driver_;
};

template <typename T>
std::unique_ptr<Watch> WatchTyped(Client& client, Loop& loop, api::Resource resource,
                                  WatchOptions options, Result<T> (*decode)(const Json&),
                                  std::function<void(const WatchEvent<T>&)> on_event) {
  return std::make_unique<Watch>(
      client, loop, std::move(resource), std::move(options),
      [decode](const Json& json) -> Result<std::shared_ptr<const void>> {
        TRY_ASSIGN(T value, decode(json));
        return std::shared_ptr<const void>(std::make_shared<const T>(std::move(value)));
      },
      [on_event = std::move(on_event)](const UntypedWatchEvent& event) {
        on_event({event.type, event.key, std::static_pointer_cast<const T>(event.object),
                  std::static_pointer_cast<const T>(event.previous)});
      });
}

// Decoding of what arrives; used by the driver and by tests. A line that isn't JSON is an error
// item.
WatchItem DecodeWatchLine(std::string_view line, const DecodeFn& decode);
WatchItem DecodeListItem(const Json& object, const DecodeFn& decode);

}  // namespace tutti::kube
