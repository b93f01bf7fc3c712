// SPDX-License-Identifier: Apache-2.0
// The watches that feed the controller core: which kinds are watched, and whether all of them have
// been listed once. Loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kube/client.h"
#include "kube/loop.h"
#include "kube/watcher.h"
#include "operator/metrics.h"
#include "reconciler/core.h"

namespace tutti {

class CoreWatches {
 public:
  struct Kinds {
    reconciler::GangApi gang_api = reconciler::GangApi::kNone;  // kNone = no PodGroups
    bool devices = false;
    bool volumes = false;
    std::vector<const reconciler::JobKind*> jobs = {};
  };
  // Starts everything. The core gets every object; `on_change` is called after each, and
  // `on_synced` once, when every kind has been listed. Ends with this object.
  CoreWatches(kube::Client& client, kube::Loop& loop, Metrics& metrics, reconciler::Core& core,
              const Kinds& kinds, std::function<void()> on_change, std::function<void()> on_synced);
  CoreWatches(const CoreWatches&) = delete;
  CoreWatches& operator=(const CoreWatches&) = delete;

  [[nodiscard]] int Expected() const { return expected_; }
  [[nodiscard]] int Synced() const { return synced_; }
  // ProvisioningRequests and their PodTemplates: watched while the server has the kind, which may
  // come and go. The core is told when all of them are known.
  void SetProvisioning(bool served);

 private:
  template <typename T, typename Handler>
  std::unique_ptr<kube::Watch> MakeWatch(api::Resource resource, std::string label_selector,
                                         Result<T> (*decode)(const Json&), Handler handler,
                                         void (CoreWatches::*on_synced)(const std::string&));
  template <typename T, typename Handler>
  void Watch(api::Resource resource, Result<T> (*decode)(const Json&), Handler handler);
  template <typename T, typename Handler>
  void Watch(api::Kind kind, Result<T> (*decode)(const Json&), Handler handler);
  void WatchJobs(const reconciler::JobKind& kind);
  void OnSynced(const std::string& kind);
  void OnProvisioningSynced(const std::string& kind);

  kube::Client& client_;
  kube::Loop& loop_;
  Metrics& metrics_;
  reconciler::Core& core_;
  std::function<void()> on_change_;
  std::function<void()> on_synced_;
  uint64_t seed_ = 0;
  int expected_ = 0;
  int synced_ = 0;
  bool started_ = false;
  std::vector<std::unique_ptr<kube::Watch>> watches_;
  std::vector<std::unique_ptr<kube::Watch>> provisioning_;
  std::optional<bool> provisioning_served_;
  size_t provisioning_synced_ = 0;
};

}  // namespace tutti
