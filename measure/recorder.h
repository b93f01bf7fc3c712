// SPDX-License-Identifier: Apache-2.0
// Objects as a watch shows them, kept small, and from time to time the facts of what has changed.
// Pure: time comes from outside. What an object means is audit::Collector's to say; here is only
// which objects have to be looked at together: a job and all of its pods.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>

#include "audit/collect.h"
#include "base/json.h"
#include "base/time.h"

namespace tutti::measure {

// An object without what nothing here depends on: environment, volumes, rules of placement.
struct Slim {
  std::string name;  // kind, group, namespace and name
  std::string id;    // these and the UID
  std::string unit;  // pods and the job that they belong to have the same
  bool pod = false;
  std::string pod_id;  // as PodId
  std::string text;    // JSON
};

// From any thread. `kind` and `version` stand for what items of lists don't say.
[[nodiscard]] Slim MakeSlim(Json object, const std::string& kind, const std::string& version);

class Recorder {
 public:
  Recorder();

  // `deleted`: its last state. From then on it is gone, at the latest at `now`.
  void Take(std::shared_ptr<const Slim> object, bool deleted, Time now);
  // Whether anything came since the last Collect.
  [[nodiscard]] bool Changed() const { return !dirty_.empty() || others_changed_; }
  // All jobs and nodes, and the pods of the units that have changed since the last call.
  audit::Facts Collect(Time now);
  // The next Collect looks at everything.
  void TouchAll();
  // Of pods that are there.
  [[nodiscard]] std::set<std::string> Alive() const;

 private:
  struct Entry {
    std::shared_ptr<const Slim> object;
    Time gone = kNoTime;  // kNoTime: it is there
  };
  void Forget(Time now);
  // Jobs that were deleted and made again under the same name: those before.
  [[nodiscard]] std::set<std::string> Replaced() const;  // ids
  // Of jobs that were replaced (`earlier`), or of all others.
  audit::Facts CollectThose(Time now, const std::set<std::string>& replaced, bool earlier);

  std::unordered_map<std::string, Entry> objects_;
  std::map<std::string, std::set<std::string>> pods_of_;  // unit -> ids
  std::set<std::string> others_;                          // ids of what is no pod
  std::set<std::string> dirty_;                           // units
  std::map<Time, std::set<std::string>> gone_;            // ids
  bool others_changed_ = false;
};

}  // namespace tutti::measure
