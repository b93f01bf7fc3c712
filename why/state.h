// SPDX-License-Identifier: Apache-2.0
// The objects of a cluster as data: read, changed at will, and decided on by the controller itself
// (reconciler::Core with its engine), of which nothing is carried out. There is no rule here: what
// an object means is what the controller makes of it. Pure.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "api/meta.h"
#include "base/json.h"
#include "base/result.h"
#include "base/time.h"
#include "reconciler/core.h"
#include "reconciler/options.h"

namespace tutti::why {

// One object put in place of what it was, or taken away.
struct Edit {
  std::string kind;
  api::ObjectKey key;
  std::optional<Json> object;  // nothing: it is gone
};

// Copies share the objects: cheap enough to make one for every change that is tried.
class State {
 public:
  explicit State(reconciler::Options options);

  // Whether decisions depend on objects like this, by its kind and API group.
  [[nodiscard]] static bool Knows(const Json& object);
  // Adds or replaces. REQUIRES: Knows(object). kInvalid, kDecode: can't be read; names the object.
  Status Take(const Json& object);
  // After the last object: namespaces that objects live in and nobody listed exist, without labels.
  void Finish();

  // nullptr: there is none, or it is a Pod, whose text isn't kept.
  [[nodiscard]] const Json* Find(std::string_view kind, const api::ObjectKey& key) const;
  [[nodiscard]] std::vector<api::ObjectKey> Names(std::string_view kind) const;
  [[nodiscard]] size_t Size() const { return items_.size(); }
  // The newest time that an object names; kNoTime: none does.
  [[nodiscard]] Time Newest() const { return newest_; }
  [[nodiscard]] const reconciler::Options& options() const { return options_; }
  // Namespaces that Finish had to make up.
  [[nodiscard]] size_t Assumed() const { return assumed_; }

  // REQUIRES: objects that Take accepts.
  void Apply(const std::vector<Edit>& edits);

  // A controller that has seen these objects and nothing else, after its first step.
  [[nodiscard]] std::unique_ptr<reconciler::Core> Decide(Time now) const;

 private:
  struct Item {
    std::shared_ptr<const Json> json;
    std::function<void(reconciler::Core&)> feed;
  };
  using ItemKey = std::tuple<int, std::string, api::ObjectKey>;  // order of reading, kind, name
  void SeeTimes(const Json& object);

  reconciler::Options options_;
  std::map<ItemKey, Item> items_;
  Time newest_ = kNoTime;
  size_t assumed_ = 0;
};

}  // namespace tutti::why
