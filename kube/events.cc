// SPDX-License-Identifier: Apache-2.0
#include "kube/events.h"

#include <algorithm>
#include <utility>

namespace tutti::kube {
namespace {

constexpr size_t kMaxMessage = 1024;  // the API server refuses longer ones
constexpr size_t kMaxName = 253;

std::string Cut(std::string_view text, size_t limit) {
  if (text.size() <= limit) {
    return std::string(text);
  }
  size_t end = limit;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) {
    --end;  // not inside a character
  }
  return std::string(text.substr(0, end));
}

std::string Hex(uint64_t value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  do {
    out.insert(out.begin(), kDigits[value & 15]);
    value >>= 4;
  } while (value != 0);
  return out;
}

}  // namespace

EventRecorder::EventRecorder(EventOptions options, Sink sink)
    : options_(std::move(options)), sink_(std::move(sink)), pace_(options_.pace) {}

void EventRecorder::Send(std::string key, api::WriteRequest request, Time now) {
  if (waiting_.size() >= options_.max_waiting) {
    waiting_.pop_front();
    ++dropped_;
  }
  waiting_.emplace_back(std::move(key), std::move(request));
  Pump(now);
}

std::optional<Time> EventRecorder::Pump(Time now) {
  while (!waiting_.empty() && pace_.Take(now)) {
    ++written_;
    auto [key, request] = std::move(waiting_.front());
    waiting_.pop_front();
    sink_(std::move(key), std::move(request));
  }
  return waiting_.empty() ? std::nullopt : std::optional<Time>(pace_.Next(now));
}

bool EventRecorder::Take(const std::string& object, Time now) {
  auto it = buckets_.find(object);
  if (it == buckets_.end()) {
    if (buckets_.size() >= options_.max_tracked) {
      buckets_.erase(bucket_age_.front());
      bucket_age_.pop_front();
    }
    it = buckets_.emplace(object, Bucket{static_cast<double>(options_.burst), now, {}}).first;
    it->second.age = bucket_age_.insert(bucket_age_.end(), object);
  } else {
    bucket_age_.splice(bucket_age_.end(), bucket_age_, it->second.age);
  }
  Bucket& bucket = it->second;
  const double earned = static_cast<double>((now - bucket.at).count()) /
                        static_cast<double>(std::max<int64_t>(options_.refill.count(), 1));
  bucket.tokens = std::min(static_cast<double>(options_.burst), bucket.tokens + earned);
  bucket.at = now;
  if (bucket.tokens < 1) {
    return false;
  }
  bucket.tokens -= 1;
  return true;
}

void EventRecorder::Record(const ObjectReference& object, std::string_view type,
                           std::string_view reason, std::string_view message, Time now,
                           bool any_message) {
  const std::string text = Cut(message, kMaxMessage);
  const std::string object_key =
      object.kind + "/" + object.ns + "/" + object.name + "/" + object.uid;
  std::string key = object_key;
  key.append("\n").append(type).append("\n").append(reason).append("\n");
  key.append(any_message ? "" : text);
  const auto found = series_.find(key);
  if (found != series_.end() && now - found->second.last < options_.coalesce) {
    Series& series = found->second;
    ++series.count;
    ++coalesced_;
    series.last = now;
    series_age_.splice(series_age_.end(), series_age_, series.age);
    if (now - series.written_at >= options_.flush_interval && Take(object_key, now)) {
      WriteCount(series, now);
    }
    return;
  }
  if (!Take(object_key, now)) {
    ++dropped_;
    return;
  }
  if (found != series_.end()) {
    series_age_.erase(found->second.age);
    series_.erase(found);
  } else if (series_.size() >= options_.max_tracked) {
    series_.erase(series_age_.front());
    series_age_.pop_front();
  }
  Series series;
  series.ns = object.ns.empty() ? "default" : object.ns;
  // Unique without asking anybody: the time in microseconds, and a counter for equal times.
  const std::string suffix =
      "." + Hex(static_cast<uint64_t>(now.time_since_epoch().count())) + Hex(sequence_++ & 0xfff);
  series.name = object.name.substr(0, kMaxName - suffix.size()) + suffix;
  series.last = series.written_at = now;

  api::WriteRequest request;
  request.verb = api::Verb::kCreate;
  request.resource = api::ResourceOf(api::Kind::kEvent);
  request.key = {series.ns, series.name};
  Json involved = Json::Obj({{"apiVersion", object.api_version},
                             {"kind", object.kind},
                             {"name", object.name},
                             {"uid", object.uid}});
  if (!object.ns.empty()) {
    involved.Set("namespace", object.ns);
  }
  if (!object.resource_version.empty()) {
    involved.Set("resourceVersion", object.resource_version);
  }
  Json source = Json::Obj({{"component", options_.component}});
  if (!options_.instance.empty()) {
    source.Set("host", options_.instance);
  }
  request.body =
      Json::Obj({{"apiVersion", "v1"},
                 {"kind", "Event"},
                 {"metadata", Json::Obj({{"namespace", series.ns}, {"name", series.name}})},
                 {"involvedObject", std::move(involved)},
                 {"reason", reason},
                 {"message", text},
                 {"type", type},
                 {"source", std::move(source)},
                 {"firstTimestamp", FormatTime(now)},
                 {"lastTimestamp", FormatTime(now)},
                 {"count", 1},
                 {"reportingComponent", options_.component},
                 {"reportingInstance", options_.instance}});
  std::string lane = "event/" + series.ns + "/" + series.name;
  series.age = series_age_.insert(series_age_.end(), key);
  series_.emplace(std::move(key), std::move(series));
  Send(std::move(lane), std::move(request), now);
}

void EventRecorder::WriteCount(Series& series, Time now) {
  series.written_at = now;
  series.written_count = series.count;
  api::WriteRequest request;
  request.verb = api::Verb::kMergePatch;
  request.resource = api::ResourceOf(api::Kind::kEvent);
  request.key = {series.ns, series.name};
  request.body = Json::Obj({{"count", series.count}, {"lastTimestamp", FormatTime(series.last)}});
  Send("event/" + series.ns + "/" + series.name, std::move(request), now);
}

void EventRecorder::Flush(Time now) {
  for (auto it = series_.begin(); it != series_.end();) {
    Series& series = it->second;
    if (series.count > series.written_count && now - series.written_at >= options_.flush_interval) {
      // The object's part of the key is everything before the first line break.
      if (Take(it->first.substr(0, it->first.find('\n')), now)) {
        WriteCount(series, now);
      } else {
        series.written_at = now;  // asked again after the interval
      }
    }
    if (now - series.last >= options_.coalesce) {
      series_age_.erase(series.age);
      it = series_.erase(it);
    } else {
      ++it;
    }
  }
}

}  // namespace tutti::kube
