// SPDX-License-Identifier: Apache-2.0
// The books behind the devices part of Capacity: claims as the API server has them, what their
// allocations take, and what gangs were promised and have not been given yet. Rules of counting are
// kube-scheduler's (every claim with an allocation takes its devices, admin access takes none).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/dra.h"
#include "engine/device_book.h"
#include "engine/device_inventory.h"

namespace tutti::engine {

// One claim of one pod, or one that pods share, promised before it is allocated.
struct PromisedClaim {
  std::string name;    // in the pod; kExtendedClaim for the one that the scheduler makes
  std::string shared;  // its identity if pods share it, else ""
  DeviceUses uses;
  std::optional<api::NodeSelector> node_selector;
  bool operator==(const PromisedClaim&) const = default;
};
using PodDevices = std::vector<PromisedClaim>;

// No pod can name a claim like this.
inline const std::string kExtendedClaim = "<extended resources>";

// The devices of the pods of one placement slot, one entry per pod.
struct SlotDevices {
  std::vector<PodDevices> pods;
};

struct PodPromise {
  std::string pod_set;
  std::string node;
  PodDevices claims;  // those that are not allocated yet
};

struct ClaimRecord {
  std::shared_ptr<const api::ClaimSpec> spec;
  bool allocated = false;
  bool deleting = false;
  std::optional<api::NodeSelector> node_selector;
  DeviceUses uses;
  size_t consumers = 0;  // entries of reservedFor
  std::string consumer;  // uid of the pod, if it is the only one
  std::string gang;      // "" = of no known gang
  std::string pod_set;
  std::string pod_claim;  // the pod's name for it, "" = it wasn't made for a pod
  bool operator==(const ClaimRecord&) const = default;
};

// How many alike pods a node can serve one after another, as far as it was tried.
struct ServedCount {
  uint64_t at = 0;  // time of NodeMarks when it was counted; 0: never
  int32_t pods = 0;
  bool all = false;  // it can't serve more
};

class DeviceLedger {
 public:
  explicit DeviceLedger(const NodeLabels& labels) : inventory_(labels) {}
  DeviceLedger(const DeviceLedger&) = delete;
  DeviceLedger& operator=(const DeviceLedger&) = delete;

  // Each returns whether something may fit now that did not before.
  bool SetSlice(std::shared_ptr<const api::ResourceSlice> slice);
  bool RemoveSlice(const std::string& name);
  bool SetClass(const api::DeviceClass& device_class);
  bool RemoveClass(const std::string& name);
  bool SetTemplate(const api::ResourceClaimTemplate& claim_template);
  bool RemoveTemplate(const api::ObjectKey& key);
  // `gang` and `pod_set` as in Capacity. An allocation of a gang's claim takes the place of what
  // the gang was promised for it.
  bool SetClaim(const api::ResourceClaim& claim, const std::string& gang,
                const std::string& pod_set);
  bool RemoveClaim(const api::ObjectKey& key);
  void NodeChanged(const std::string& node) { inventory_.NodeChanged(node); }
  // Nodes that see other devices than before, or of whose devices some were taken or given back,
  // since the last call. A device that several nodes see concerns only gangs that may be given
  // such devices (DeviceInventory::SelectsWide): these must not remember anything, for they aren't
  // told.
  [[nodiscard]] ChangedViews TakeChanges();

  // For trials that put everything back: the devices of a gang's claims and promises count as free,
  // or as taken again. While a trial is on nothing is remembered of what nodes can serve.
  void SetTrial(bool on) { on_trial_ = on; }
  [[nodiscard]] bool OnTrial() const { return on_trial_; }
  void Hide(const std::string& gang) const;
  void Show(const std::string& gang) const;

  // Replaces what the gang was promised.
  bool Reserve(const std::string& gang, std::vector<PodPromise> pods);
  bool Release(const std::string& gang);
  // A promised device isn't there any more or was taken by somebody else.
  [[nodiscard]] bool PlanBroken(const std::string& gang) const;
  // A shared claim that another gang was promised. Null: there is none.
  [[nodiscard]] const PromisedClaim* PromisedTo(const std::string& shared,
                                                const std::string& except_gang) const;

  [[nodiscard]] const DeviceInventory& inventory() const { return inventory_; }
  [[nodiscard]] const DeviceBook& book() const { return book_; }
  // For trials that leave it as it was.
  [[nodiscard]] DeviceBook& TrialBook() const { return book_; }
  [[nodiscard]] const ClaimRecord* FindClaim(const api::ObjectKey& key) const;
  // Null: there is no such template.
  [[nodiscard]] std::shared_ptr<const api::ClaimSpec> FindTemplate(const api::ObjectKey& key) const;
  // Gangs and claims that have the device, by number. Valid until the next change.
  [[nodiscard]] const std::vector<int32_t>& HoldersOf(int32_t id) const {
    static const std::vector<int32_t> kNone;
    const auto index = static_cast<size_t>(id);
    return index < holders_.size() ? holders_[index] : kNone;
  }
  // "team/train", "claim ns/x" for those of no gang.
  [[nodiscard]] const std::string& HolderName(int32_t holder) const {
    return holder_names_.Text(holder);
  }
  [[nodiscard]] size_t HolderLimit() const { return holder_names_.Limit(); }

  // Memory of counts for pods with these claims, by the node's slot; right as long as the node has
  // no later mark (devices that several nodes see make it forget everything).
  [[nodiscard]] std::vector<ServedCount>& ServedCounts(
      const std::vector<std::shared_ptr<const api::ClaimSpec>>& claims, bool empty,
      size_t slots) const;

  // Grows with everything but promises.
  [[nodiscard]] uint64_t Version() const { return version_; }
  // Claims that have the device.
  [[nodiscard]] int32_t ClaimsWith(int32_t id) const {
    const auto index = static_cast<size_t>(id);
    return index < claims_with_.size() ? claims_with_[index] : 0;
  }
  template <typename Visit>
  void ForClaimsOf(const std::string& gang, const Visit& visit) const {
    const auto it = claims_of_.find(gang);
    if (it == claims_of_.end())
      return;
    for (const api::ObjectKey& key : it->second)
      visit(claims_.at(key));
  }
  // Gangs with pods whose claims are open, and these pods.
  [[nodiscard]] const std::map<std::string, std::vector<PodPromise>>& Promises() const {
    return promises_;
  }

  [[nodiscard]] std::string SanityCheck() const;

 private:
  void ClassesChanged(bool changed);
  void Touch(int32_t id);
  void CountClaim(const api::ObjectKey& key, const ClaimRecord& record, int sign);
  void Take(const DeviceUses& uses, const std::string& holder);
  void Give(const DeviceUses& uses, const std::string& holder);
  DeviceUses UsesOf(const api::ClaimAllocation& allocation);
  void Confirm(const api::ObjectKey& key, const ClaimRecord& record);

  DeviceInventory inventory_;
  template <typename Visit>
  void ForUsesOf(const std::string& gang, const Visit& visit) const;

  mutable DeviceBook book_;
  bool on_trial_ = false;
  std::map<api::ObjectKey, ClaimRecord> claims_;
  std::map<api::ObjectKey, std::shared_ptr<const api::ClaimSpec>> templates_;
  std::map<std::string, std::set<api::ObjectKey>> claims_of_;  // by gang; not of those of no gang
  std::vector<int32_t> claims_with_;                           // by id of the device
  uint64_t version_ = 1;
  std::map<std::string, std::vector<PodPromise>> promises_;  // by gang; pods with open claims

  using ServedKey = std::pair<std::vector<std::shared_ptr<const api::ClaimSpec>>, bool>;
  mutable std::map<ServedKey, std::vector<ServedCount>> served_;  // keys compare as pointers
  ChangedViews changes_;

  StringPool holder_names_;
  std::vector<std::vector<int32_t>> holders_;  // by id of the device
};

// Identity of a claim that pods share: one that exists by its name, one of a PodGroup by the
// gang's.
[[nodiscard]] std::string SharedKey(const api::ObjectKey& claim);
[[nodiscard]] std::string GroupKey(const std::string& gang, const std::string& claim);

}  // namespace tutti::engine
