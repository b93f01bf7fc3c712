// SPDX-License-Identifier: Apache-2.0
// Proves that native gangs really gate here. What the API server serves says nothing about the
// scheduler's gates, and no condition of a PodGroup does (it is True even without the plugin); so
// two pods are made in our own namespace that no node can ever run: one alone in a gang of two, and
// a free one after it. kube-scheduler looks at the free one (condition PodScheduled=False); if it
// has looked at the one of the gang, too, gangs don't gate. Lives on the loop thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/time.h"
#include "kube/client.h"
#include "kube/loop.h"
#include "reconciler/options.h"

namespace tutti {

class GangProbe {
 public:
  struct Dependencies {
    kube::Loop* loop = nullptr;
    kube::Client* client = nullptr;
    std::function<bool()> may_write;  // asked before each write; once no, the probe ends
  };
  // `ns`: our own namespace. REQUIRES: api != kNone.
  GangProbe(std::string ns, reconciler::GangApi api, Dependencies dependencies);
  ~GangProbe();  // the objects of a probe under way stay; the next probe removes them
  GangProbe(const GangProbe&) = delete;
  GangProbe& operator=(const GangProbe&) = delete;

  // What an earlier life left is removed first. `proved` is called once, as soon as the answer is
  // known (never kOff; kUnproven: the probe could not be carried out); the objects are removed
  // after it. If the PodGroup is not let go when its pods are gone
  // (feature gate GenericWorkload off in kube-controller-manager) its finalizer is taken off and
  // `kept` is called with a message. REQUIRES: not running.
  void Start(std::function<void(const reconciler::GangFinding&)> proved,
             std::function<void(const std::string&)> kept);
  [[nodiscard]] bool Running() const;

  static constexpr Duration kPoll = std::chrono::milliseconds(250);
  // How long the scheduler may take until it has looked at the free pod.
  static constexpr Duration kPatience = std::chrono::seconds(30);
  // After that, how long the gang's pod may take to be looked at: it is older. And after the gang's
  // pod, its group.
  static constexpr Duration kSettle = std::chrono::seconds(1);
  // Policies act a moment after they are stored: a refusal is believed after so long.
  static constexpr Duration kPolicyPatience = std::chrono::seconds(5);
  static constexpr Duration kGroupGrace = std::chrono::seconds(10);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace tutti
