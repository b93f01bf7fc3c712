// SPDX-License-Identifier: Apache-2.0
// Which devices exist and who may use them: ResourceSlices sorted into pools, as each node sees
// them, DeviceClasses, and the memory of which selector matches which device. The rules are those
// of kube-scheduler 1.36 (k8s.io/dynamic-resource-allocation/structured, "incubating"): highest
// generation, completeness, validity, and the order in which devices are tried, since the first fit
// decides which device a pod gets.
//
// Incremental: an equal slice changes nothing, a changed one costs its pool and the views of the
// nodes that see it; a device that stays as it is keeps what the selectors said of it. Pure, not
// thread-safe; the caches behind const functions are not visible.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/cel/device_selector.h"
#include "api/dra.h"
#include "engine/node_filter.h"

namespace tutti::engine {

// The labels of nodes, asked for slices and devices that name nodes by a selector.
class NodeLabels {
 public:
  virtual ~NodeLabels() = default;
  [[nodiscard]] virtual bool Matches(const api::NodeSelector& selector,
                                     const std::string& node) const = 0;
};

// A device at its place in a slice.
struct PublishedDevice {
  int32_t id = -1;  // of (driver, pool, device), what allocations speak of; -1: the place is free
  const api::Device* device = nullptr;
  const api::ResourceSlice* slice = nullptr;
  bool plain_capacity = true;  // no capacity has a request policy
  // What it takes of the counters of its pool's generation: index, amount. The same index may
  // appear twice.
  std::vector<std::pair<int32_t, api::Quantity>> charges;
};

struct SharedCounter {
  std::string set;
  std::string name;
  api::Quantity total;
};

// The slices of a pool that have the same generation.
struct PoolGeneration {
  std::vector<std::string> slices;  // names, ascending
  std::vector<int32_t> devices;     // places of all their devices
  std::vector<SharedCounter> counters;
  std::string invalid;  // why its counters are of no use; "" = they are good
};

// A pool as one node sees it.
struct PoolView {
  std::string driver;
  std::string pool;
  bool incomplete = false;  // being updated: gives no device
  std::string invalid;      // not empty: gives no device
  bool binding = false;     // some device has binding conditions
  struct Device {
    int32_t place = -1;
    bool here = true;  // false: another device of the slice is for this node, this one isn't
  };
  std::vector<Device> devices;  // in the order in which they are tried
  const PoolGeneration* generation = nullptr;
  [[nodiscard]] std::string Name() const { return driver + "/" + pool; }
};

struct NodeView {
  std::vector<PoolView> pools;  // in the order in which they are tried
  uint64_t serial = 0;          // no other view ever has the same
};

// Nodes that see other devices than before.
struct ChangedViews {
  bool all = false;
  std::vector<std::string> nodes;  // otherwise; may name one twice
};

enum class Selection : uint8_t { kUnknown, kMatches, kDiffers, kError };

class DeviceInventory {
 public:
  explicit DeviceInventory(const NodeLabels& labels) : labels_(labels) {}
  DeviceInventory(const DeviceInventory&) = delete;
  DeviceInventory& operator=(const DeviceInventory&) = delete;

  // False when nothing changed but metadata.
  bool SetSlice(std::shared_ptr<const api::ResourceSlice> slice);
  bool RemoveSlice(const std::string& name);
  bool SetClass(const api::DeviceClass& device_class);
  bool RemoveClass(const std::string& name);
  // The node is new, gone, or its labels changed.
  void NodeChanged(const std::string& node);

  // Valid until the next change.
  [[nodiscard]] const NodeView& ViewOf(const std::string& node) const;
  // A pool that has no device for the node, but is enough to refuse a request for all devices since
  // its counters count everywhere: "resource pool d/p is being updated"; "" = none.
  [[nodiscard]] std::string FarProblem(const std::string& node) const;
  // Places of the driver's devices in the newest generations of its pools, whatever nodes they are
  // for; pools that are being updated are left out.
  [[nodiscard]] std::vector<int32_t> DevicesOf(const std::string& driver) const;
  [[nodiscard]] const PublishedDevice& At(int32_t place) const { return places_[place]; }
  // What changed since the last call.
  [[nodiscard]] ChangedViews TakeChanges() { return std::exchange(changes_, {}); }
  // The node that alone is concerned when the device is taken or given back; "" if none is (it
  // isn't published). Null: several may be, because they see it or count what it takes.
  [[nodiscard]] const std::string* OnlyNodeOf(int32_t id) const;
  // Whether the request could be given a device of which OnlyNodeOf is null, or a selector fails.
  [[nodiscard]] bool SelectsWide(const std::vector<int32_t>& selectors) const;
  [[nodiscard]] size_t Places() const { return places_.size(); }
  [[nodiscard]] size_t Devices() const { return device_count_; }
  [[nodiscard]] const api::DeviceClass* FindClass(const std::string& name) const;
  // The class whose devices stand for this extended resource: the newest that names it, of equally
  // old ones the first by name, or the one that the name itself carries. Null: none.
  [[nodiscard]] const api::DeviceClass* ClassOfResource(const std::string& resource) const;
  // Names of all resources for which ClassOfResource has an answer, but those made of class names.
  [[nodiscard]] std::set<std::string> MappedResources() const;

  // Ids of devices that exist or are spoken of; held until released.
  int32_t AcquireId(const std::string& driver, const std::string& pool, const std::string& device);
  void HoldId(int32_t id);
  void ReleaseId(int32_t id);
  // -1: nobody speaks of it.
  [[nodiscard]] int32_t FindId(const std::string& driver, const std::string& pool,
                               const std::string& device) const;
  [[nodiscard]] std::string NameOf(int32_t id) const;         // driver/pool/device
  [[nodiscard]] size_t IdLimit() const { return id_limit_; }  // every id is below

  // A compiled expression by its number; equal expressions share one. Numbers stay valid until
  // DropUnusedSelectors.
  [[nodiscard]] int32_t Selector(const std::string& expression) const;
  // kError: it doesn't compile, or ends in a run-time error on this device (SelectorError has it).
  [[nodiscard]] Selection Select(int32_t selector, int32_t place) const;
  [[nodiscard]] std::string SelectorError(int32_t selector, int32_t place) const;
  // Forgets all compiled selectors when there are more than `limit`.
  void TrimSelectors(size_t limit);

  // Compares all that is kept with a computation from scratch; "" or what differs.
  [[nodiscard]] std::string SanityCheck() const;

 private:
  struct SliceState {
    std::shared_ptr<const api::ResourceSlice> slice;
    std::vector<int32_t> places;  // of its devices, in order
  };
  using PoolKey = std::pair<std::string, std::string>;  // driver, pool
  struct PoolState {
    std::set<std::string> slices;
    std::map<int64_t, PoolGeneration> generations;
    bool wide = false;        // a slice of devices isn't for one named node
    bool one_node = false;    // all slices, counters included, are for the same named node
    std::string far_problem;  // as seen by a node that has none of its devices
  };
  struct SelectorState {
    std::shared_ptr<const api::cel::DeviceSelector> compiled;
    std::string error;  // of the compilation
    std::vector<Selection> by_place;
  };

  void Unlink(const SliceState& state);
  void Rebuild(const PoolKey& key);
  void BuildGeneration(PoolGeneration& generation);
  int32_t TakePlace();
  void FreePlace(int32_t place);
  void Found(int32_t id, int32_t place);
  void Lost(int32_t id, int32_t place);
  [[nodiscard]] bool IsWide(int32_t place) const;
  void ForgetView(const std::string& node);
  void ForgetViews();
  [[nodiscard]] bool Relevant(const api::ResourceSlice& slice, const std::string& node) const;
  [[nodiscard]] bool DeviceIsHere(const api::Device& device, const std::string& node) const;
  // Nothing when the node sees nothing of the pool, or only an outdated part.
  [[nodiscard]] bool View(const PoolKey& key, const PoolState& pool, const std::string& node,
                          PoolView& out) const;
  [[nodiscard]] std::set<PoolKey> Near(const std::string& node) const;
  [[nodiscard]] NodeView BuildView(const std::string& node) const;

  const NodeLabels& labels_;
  std::map<std::string, SliceState> slices_;
  std::map<PoolKey, PoolState> pools_;
  std::map<std::string, std::set<PoolKey>> pools_of_node_;  // by a slice's node name
  std::set<PoolKey> wide_pools_;
  std::set<PoolKey> far_problems_;
  std::map<std::string, api::DeviceClass> classes_;
  std::vector<PublishedDevice> places_;
  std::vector<int32_t> free_places_;
  size_t device_count_ = 0;
  StringPool ids_;
  size_t id_limit_ = 0;
  std::vector<int32_t> place_of_id_;  // kNowhere, kSeveral
  std::set<PoolKey> wider_pools_;     // those that are not one_node
  ChangedViews changes_;

  mutable std::map<std::string, NodeView> views_;
  mutable uint64_t last_serial_ = 0;
  mutable std::map<std::string, int32_t> selector_ids_;
  mutable std::vector<SelectorState> selectors_;
};

}  // namespace tutti::engine
