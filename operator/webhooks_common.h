// SPDX-License-Identifier: Apache-2.0
// What the rules for jobs of all kinds share: reading labels and annotations, and building patches.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/names.h"
#include "operator/webhooks.h"

namespace tutti::webhooks {

inline const std::string& Label(const Json& object, std::string_view key) {
  return object["metadata"]["labels"][key].AsString();
}

inline const std::string& Annotation(const Json& object, std::string_view key) {
  return object["metadata"]["annotations"][key].AsString();
}

inline bool Has(const Json& object, const char* map, std::string_view key) {
  return object["metadata"][map].Has(key);
}

inline Json Operation(const char* op, const std::string& path, Json value) {
  return Json::Obj({{"op", op}, {"path", path}, {"value", std::move(value)}});
}

// "a/b~c" as a part of a JSON pointer.
inline std::string Escape(std::string_view key) {
  std::string out;
  for (const char c : key) {
    out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  }
  return out;
}

// A number of 1 and more; nothing for anything else.
inline std::optional<int64_t> Positive(const std::string& text) {
  if (text.empty() || text.size() > 18 ||
      text.find_first_not_of("0123456789") != std::string::npos) {
    return std::nullopt;
  }
  const int64_t value = std::stoll(text);
  return value > 0 ? std::optional<int64_t>(value) : std::nullopt;
}

inline bool Manages(const Rules& rules, const std::string& ns) {
  return !rules.manages || rules.manages(ns);
}

inline std::string Field(const char* map, std::string_view key) {
  return "metadata." + std::string(map) + "[" + std::string(key) + "]: ";
}

// The Workload that somebody else makes for the job; "" = none.
inline const std::string& PrebuiltName(const Json& job) {
  const std::string& annotation = Annotation(job, names::kPrebuiltWorkload);
  return annotation.empty() ? Label(job, names::kPrebuiltWorkload) : annotation;
}

// The queue that a new object gets, its own or the namespace's default; "" = none.
inline std::string QueueOf(const Json& object, const Request& request, const Rules& rules) {
  const std::string& own = Label(object, names::kQueueNameLabel);
  if (!own.empty() || Has(object, "labels", names::kQueueNameLabel)) {
    return own;
  }
  return rules.has_default_queue && rules.has_default_queue(request.ns) ? "default" : "";
}

// Problems of the label that names the queue.
void CheckQueueName(const Json& object, std::vector<std::string>& problems);
// Problems of a changed WorkloadPriorityClass; `held`: nothing of the object runs.
void CheckPriorityClass(const Request& request, bool held, std::vector<std::string>& problems);

// Adds members to string maps of an object ("/metadata/labels"), making the maps where they are
// missing.
class MapPatch {
 public:
  MapPatch(Json& patch, std::string path, const Json& existing)
      : patch_(patch), path_(std::move(path)), existing_(existing), there_(existing.IsObject()) {}

  void Set(std::string_view key, std::string_view value) {
    if (existing_[key].AsString() == value && existing_.Has(key)) {
      return;
    }
    if (!there_) {
      patch_.Push(Operation("add", path_, Json::Obj()));
      there_ = true;
    }
    patch_.Push(Operation("add", path_ + "/" + Escape(key), value));
  }

 private:
  Json& patch_;
  std::string path_;
  const Json& existing_;
  bool there_;
};

}  // namespace tutti::webhooks
