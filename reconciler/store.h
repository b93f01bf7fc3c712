// SPDX-License-Identifier: Apache-2.0
// A cache of one kind as the API server last showed it. Both watch events and the answers to our
// own writes go in; the newer resourceVersion wins, so that a write is seen at once and a late
// event never takes it back. (resourceVersions of one resource are ordered integers: Kubernetes API
// concepts, "resource versions", guaranteed since 1.35 and true of every etcd-backed server.)
// Loop thread only.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "api/meta.h"

namespace tutti::reconciler {

inline uint64_t VersionNumber(const std::string& resource_version) {
  uint64_t value = 0;
  std::from_chars(resource_version.data(), resource_version.data() + resource_version.size(),
                  value);
  return value;
}

template <typename T>
class Store {
 public:
  using Ptr = std::shared_ptr<const T>;
  using Map = std::map<api::ObjectKey, Ptr>;

  struct Change {
    Ptr before;
    bool applied = false;  // false: older than what is known
  };

  Change Upsert(Ptr object) {
    const api::ObjectKey key = object->meta.Key();
    const uint64_t version = VersionNumber(object->meta.resource_version);
    if (const auto gone = gone_.find(key); gone != gone_.end()) {
      if (version <= gone->second) {
        return {nullptr, false};
      }
      gone_.erase(gone);
    }
    Ptr& slot = objects_[key];
    if (slot != nullptr && VersionNumber(slot->meta.resource_version) > version) {
      return {slot, false};
    }
    Ptr before = std::exchange(slot, std::move(object));
    ++changes_;
    names_ += before == nullptr ? 1 : 0;
    return {std::move(before), true};
  }

  // `last` is the object as the DELETED event shows it (its resourceVersion is that of the
  // deletion), or as it was last seen when a list no longer has it. Its end comes after all of its
  // own versions, so only another object of the same name is newer.
  Change Remove(const T& last) {
    const api::ObjectKey key = last.meta.Key();
    const auto it = objects_.find(key);
    uint64_t version = VersionNumber(last.meta.resource_version);
    if (it != objects_.end()) {
      const uint64_t known = VersionNumber(it->second->meta.resource_version);
      if (known > version && it->second->meta.uid != last.meta.uid) {
        return {it->second, false};
      }
      version = std::max(version, known);
    }
    Remember(key, version);
    if (it == objects_.end()) {
      return {nullptr, false};
    }
    Ptr before = std::move(it->second);
    objects_.erase(it);
    ++changes_;
    ++names_;
    return {std::move(before), true};
  }

  [[nodiscard]] Ptr Find(const api::ObjectKey& key) const {
    const auto it = objects_.find(key);
    return it == objects_.end() ? nullptr : it->second;
  }
  [[nodiscard]] const Map& All() const { return objects_; }
  [[nodiscard]] size_t Size() const { return objects_.size(); }
  // They count up whenever anything here changes, and whenever a name comes or goes: for who keeps
  // something that follows from it.
  [[nodiscard]] uint64_t Changes() const { return changes_; }
  [[nodiscard]] uint64_t Names() const { return names_; }

 private:
  void Remember(const api::ObjectKey& key, uint64_t version) {
    constexpr size_t kMaxRemembered = 20'000;
    gone_[key] = version;
    order_.push_back(key);
    if (order_.size() > kMaxRemembered) {
      gone_.erase(order_.front());
      order_.pop_front();
    }
  }

  Map objects_;
  uint64_t changes_ = 0;
  uint64_t names_ = 0;
  std::map<api::ObjectKey, uint64_t> gone_;  // deleted names, against late answers
  std::deque<api::ObjectKey> order_;
};

}  // namespace tutti::reconciler
