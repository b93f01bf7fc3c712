// SPDX-License-Identifier: Apache-2.0
#include "kube/watcher.h"

#include <atomic>
#include <utility>

#include "base/json_lenient.h"
#include "base/log.h"

namespace tutti::kube {
namespace {

void FillMeta(const Json& object, WatchItem& item) {
  const Json& meta = object["metadata"];
  item.key = {meta["namespace"].AsString(), meta["name"].AsString()};
  item.uid = meta["uid"].AsString();
  item.resource_version = meta["resourceVersion"].AsString();
}

void DecodeInto(const Json& object, const DecodeFn& decode, WatchItem& item) {
  Result<std::shared_ptr<const void>> value = decode(object);
  if (value) {
    item.object = std::move(*value);
  } else {
    item.error = std::move(value.error());
  }
}

}  // namespace

WatchItem DecodeListItem(const Json& object, const DecodeFn& decode) {
  WatchItem item;
  FillMeta(object, item);
  DecodeInto(object, decode, item);
  return item;
}

WatchItem DecodeWatchLine(std::string_view line, const DecodeFn& decode) {
  WatchItem item;
  const Result<Json> json = ParseLenient(line);
  if (!json) {
    item.type = WatchItem::Type::kError;
    item.error = json.error().With("watch event");
    return item;
  }
  const std::string& type = (*json)["type"].AsString();
  const Json& object = (*json)["object"];
  if (type == "ERROR") {
    item.type = WatchItem::Type::kError;
    item.error = ErrorFromStatus(object, 0);
    return item;
  }
  FillMeta(object, item);
  if (type == "BOOKMARK") {
    const bool end =
        object["metadata"]["annotations"]["k8s.io/initial-events-end"].AsString() == "true";
    item.type = end ? WatchItem::Type::kInitialEnd : WatchItem::Type::kBookmark;
    return item;
  }
  if (type == "ADDED") {
    item.type = WatchItem::Type::kAdded;
  } else if (type == "MODIFIED") {
    item.type = WatchItem::Type::kModified;
  } else if (type == "DELETED") {
    item.type = WatchItem::Type::kDeleted;
  } else {
    item.type = WatchItem::Type::kError;
    item.error = {ErrorCode::kDecode, "watch event of unknown type '" + type + "'", 0, {}};
    return item;
  }
  DecodeInto(object, decode, item);
  return item;
}

// Callbacks of requests hold the driver weakly and carry the generation in which they were started;
// what arrives from an older one is ignored.
class Watch::Driver : public std::enable_shared_from_this<Driver> {
 public:
  Driver(Client& client, Loop& loop, api::Resource resource, WatchOptions options, DecodeFn decode,
         UntypedEventFn on_event)
      : client_(client),
        loop_(loop),
        resource_(std::move(resource)),
        options_(std::move(options)),
        decode_(std::make_shared<const DecodeFn>(std::move(decode))),
        on_event_(std::move(on_event)),
        machine_(options_.limits) {}

  void Start() { Act(machine_.Start(loop_.Now())); }

  void Stop() {
    stopped_ = true;
    Abandon();
  }

  [[nodiscard]] const WatchMachine& Machine() const { return machine_; }
  [[nodiscard]] const std::string& LastError() const { return last_error_; }

 private:
  struct Page {
    std::vector<WatchItem> items;
    std::string resource_version;
    std::string continue_token;
  };

  void Abandon() {
    ++generation_;
    if (request_ != 0) {
      client_.Cancel(std::exchange(request_, 0));
    }
  }

  void Act(const WatchMachine::Next& next) {
    if (stopped_ || next.what == WatchMachine::Next::Do::kNothing) {
      return;
    }
    Abandon();
    switch (next.what) {
      case WatchMachine::Next::Do::kList:
        OpenList(next.continue_token);
        break;
      case WatchMachine::Next::Do::kWatch:
        OpenWatch(next);
        break;
      case WatchMachine::Next::Do::kWait:
        loop_.PostAt(next.until, Guarded([](Driver& self) {
                       self.Act(self.machine_.OnTimer(self.loop_.Now()));
                     }));
        break;
      case WatchMachine::Next::Do::kNothing:
        break;
    }
  }

  // A function for the loop that runs only while the present generation lasts.
  template <typename Fn>
  std::function<void()> Guarded(Fn fn) {
    return [weak = weak_from_this(), generation = generation_, fn = std::move(fn)] {
      const std::shared_ptr<Driver> self = weak.lock();
      if (self != nullptr && !self->stopped_ && self->generation_ == generation) {
        fn(*self);
      }
    };
  }

  void OpenList(const std::string& continue_token) {
    ListOptions list;
    list.ns = options_.ns;
    list.label_selector = options_.label_selector;
    list.field_selector = options_.field_selector;
    list.limit = options_.limits.page_size;
    list.continue_token = continue_token;
    request_ = client_.List(
        resource_, list,
        [weak = weak_from_this(), generation = generation_, loop = &loop_,
         decode = decode_](Result<Json> answer) {  // I/O thread
          if (weak.expired()) {
            return;
          }
          auto page = std::make_shared<Result<Page>>(DecodePage(std::move(answer), *decode));
          loop->Post([weak, generation, page] {
            const std::shared_ptr<Driver> self = weak.lock();
            if (self != nullptr && !self->stopped_ && self->generation_ == generation) {
              self->OnPage(std::move(*page));
            }
          });
        });
  }

  static Result<Page> DecodePage(Result<Json> answer, const DecodeFn& decode) {
    TRY(answer);
    Page page;
    page.resource_version = (*answer)["metadata"]["resourceVersion"].AsString();
    page.continue_token = (*answer)["metadata"]["continue"].AsString();
    const Json::Array& items = (*answer)["items"].AsArray();
    page.items.reserve(items.size());
    for (const Json& item : items) {
      page.items.push_back(DecodeListItem(item, decode));
    }
    return page;
  }

  void OnPage(Result<Page> page) {
    request_ = 0;
    if (!page) {
      const bool absent = Absent(page.error());
      if (!absent) {
        NoteError(page.error(), "list");
      }
      Act(machine_.OnListError(page.error(), loop_.Now()));
      TellAbsent(absent);
      return;
    }
    LogRefused(page->items);
    std::vector<UntypedWatchEvent> events;
    const auto next = machine_.OnPage(std::move(page->items), page->resource_version,
                                      page->continue_token, loop_.Now(), events);
    last_error_.clear();
    // The next request goes out first: it is under way while the events are worked on.
    Act(next);
    Deliver(events);
  }

  void OpenWatch(const WatchMachine::Next& next) {
    WatchRequest watch;
    watch.ns = options_.ns;
    watch.label_selector = options_.label_selector;
    watch.field_selector = options_.field_selector;
    watch.resource_version = next.resource_version;
    watch.send_initial_events = next.send_initial_events;
    watch.timeout_seconds = next.timeout_seconds;
    watch.idle_timeout =
        std::chrono::duration_cast<std::chrono::milliseconds>(options_.limits.idle);
    StreamCallbacks callbacks;
    callbacks.on_lines = [weak = weak_from_this(), generation = generation_, loop = &loop_,
                          decode = decode_](std::string_view lines) {  // I/O thread
      if (weak.expired()) {
        return;
      }
      auto items = std::make_shared<std::vector<WatchItem>>();
      while (!lines.empty()) {
        const size_t end = std::min(lines.find('\n'), lines.size() - 1);
        if (end > 0) {
          items->push_back(DecodeWatchLine(lines.substr(0, end), *decode));
        }
        lines.remove_prefix(end + 1);
      }
      loop->Post([weak, generation, items] {
        const std::shared_ptr<Driver> self = weak.lock();
        if (self != nullptr && !self->stopped_ && self->generation_ == generation) {
          self->OnItems(std::move(*items));
        }
      });
    };
    callbacks.on_end = [weak = weak_from_this(), generation = generation_,
                        loop = &loop_](Result<HttpResponse> how) {  // I/O thread
      auto end = std::make_shared<Result<HttpResponse>>(std::move(how));
      loop->Post([weak, generation, end] {
        const std::shared_ptr<Driver> self = weak.lock();
        if (self != nullptr && !self->stopped_ && self->generation_ == generation) {
          self->OnEnd(std::move(*end));
        }
      });
    };
    request_ = client_.Watch(resource_, watch, std::move(callbacks));
  }

  void OnItems(std::vector<WatchItem> items) {
    LogRefused(items);
    for (const WatchItem& item : items) {
      if (item.type == WatchItem::Type::kError && item.error.code != ErrorCode::kExpired) {
        NoteError(item.error, "watch");
      }
    }
    std::vector<UntypedWatchEvent> events;
    const auto next = machine_.OnItems(std::move(items), loop_.Now(), events);
    Act(next);
    if (next.what == WatchMachine::Next::Do::kNothing) {
      last_error_.clear();
    }
    Deliver(events);
  }

  void OnEnd(Result<HttpResponse> how) {
    request_ = 0;
    if (how && how->status >= 200 && how->status < 300) {
      Act(machine_.OnWatchEnd(nullptr, loop_.Now()));
      return;
    }
    Result<Json> decoded = DecodeAnswer(std::move(how));
    const Error error = decoded ? Error{ErrorCode::kInternal, "no watch", 0, {}} : decoded.error();
    const bool absent = Absent(error);
    if (error.code != ErrorCode::kExpired && error.code != ErrorCode::kInvalid && !absent) {
      NoteError(error, "watch");
    }
    Act(machine_.OnWatchEnd(&error, loop_.Now()));
    TellAbsent(absent);
  }

  [[nodiscard]] bool Absent(const Error& error) const {
    return options_.optional && error.code == ErrorCode::kNotFound && !machine_.Synced();
  }

  void TellAbsent(bool absent) {
    if (absent && !std::exchange(absent_told_, true)) {
      Deliver({{WatchEventType::kAbsent, {}, nullptr, nullptr}});
    }
  }

  void Deliver(const std::vector<UntypedWatchEvent>& events) {
    const std::shared_ptr<Driver> self = shared_from_this();  // a handler may destroy the Watch
    for (const UntypedWatchEvent& event : events) {
      if (stopped_) {
        return;
      }
      on_event_(event);
    }
  }

  void LogRefused(const std::vector<WatchItem>& items) const {
    for (const WatchItem& item : items) {
      if (item.object == nullptr && item.type != WatchItem::Type::kError &&
          !item.error.message.empty()) {
        log::Warn("object can't be decoded", {{"resource", resource_.plural},
                                              {"object", item.key.ToString()},
                                              {"error", item.error.message}});
      }
    }
  }

  void NoteError(const Error& error, std::string_view what) {
    last_error_ = std::string(what) + " " + resource_.plural + ": " + error.message;
    log::Warn("watch trouble", {{"resource", resource_.plural},
                                {"step", what},
                                {"code", ToString(error.code)},
                                {"error", error.message}});
  }

  Client& client_;
  Loop& loop_;
  const api::Resource resource_;
  const WatchOptions options_;
  const std::shared_ptr<const DecodeFn> decode_;
  const UntypedEventFn on_event_;
  WatchMachine machine_;
  uint64_t generation_ = 0;
  RequestId request_ = 0;
  bool absent_told_ = false;
  bool stopped_ = false;
  std::string last_error_;
};

Watch::Watch(Client& client, Loop& loop, api::Resource resource, WatchOptions options,
             DecodeFn decode, UntypedEventFn on_event)
    : driver_(std::make_shared<Driver>(client, loop, std::move(resource), std::move(options),
                                       std::move(decode), std::move(on_event))) {
  driver_->Start();
}

Watch::~Watch() {
  driver_->Stop();
}

bool Watch::Synced() const {
  return driver_->Machine().Synced();
}
size_t Watch::Size() const {
  return driver_->Machine().Size();
}
const WatchCounters& Watch::Counters() const {
  return driver_->Machine().Counters();
}
std::string Watch::LastError() const {
  return driver_->LastError();
}

}  // namespace tutti::kube
