// SPDX-License-Identifier: Apache-2.0
// Devices for a whole gang: the part of the capacity check that adds claims to the search for
// places. For identical pods with devices that are local to their nodes it counts per node how many
// pods kube-scheduler's greedy allocator serves one after another, which is exact; everything else
// is tried out with undo and within a budget of steps (docs/devices.md). Claims that pods share are
// allocated once, with the first pod that uses them, and say where the others may run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/capacity.h"
#include "engine/device_allocator.h"
#include "engine/device_ledger.h"
#include "engine/gang_fit.h"
#include "engine/node_marks.h"

namespace tutti::engine {

// The nodes of a search, by their numbers.
class DeviceBins {
 public:
  virtual ~DeviceBins() = default;
  [[nodiscard]] virtual const std::string& Name(size_t bin) const = 0;
  [[nodiscard]] virtual size_t Slot(size_t bin) const = 0;  // of Marks
  [[nodiscard]] virtual const NodeMarks& Marks() const = 0;
  // The node offers this resource by itself (allocatable > 0).
  [[nodiscard]] virtual bool Offers(size_t bin, const std::string& resource) const = 0;
};

// Steps of the allocator for one question about one gang.
inline constexpr int64_t kStepsPerGang = 2'000'000;

// What was chosen for the places that a search found.
struct DevicePlan {
  std::map<std::pair<size_t, size_t>, std::vector<PodDevices>> pods;  // by kind and bin
  std::vector<std::pair<size_t, PromisedClaim>> shared;               // with the kind that needs it
  bool must_be_bound = false;  // some device has binding conditions
  std::string node;            // the one that has the devices of a shared claim; "" = none alone
};

struct DeviceSearch {
  SearchResult result;
  DevicePlan plan;       // of kFound
  bool gave_up = false;  // a node may serve more than was counted
  // Not empty: the scheduler would refuse the pods whatever is free.
  std::string problem;
  FitKind problem_kind = FitKind::kNotNow;
};

class GangDevices {
 public:
  // One kind of alike pods per entry. Null when none of them needs devices. All arguments must
  // outlive it, and the ledger must not change meanwhile.
  static std::unique_ptr<GangDevices> Prepare(const DeviceLedger& ledger, const NodeLabels& labels,
                                              const Gang& gang,
                                              const std::vector<const GangPodSet*>& kinds);

  // As Search of gang_fit.h, for devices and amounts together. The caps of `problem` become what
  // nodes and devices allow where no shared claim is open. `empty`: as if nothing were taken.
  [[nodiscard]] DeviceSearch Search(FitProblem& problem, const DeviceBins& bins, bool empty) const;

  // Only the first part of Search: the caps of `problem` become what each node by itself can serve.
  // False: there is a problem, or the budget ended.
  [[nodiscard]] bool CountAlone(FitProblem& problem, const DeviceBins& bins, bool empty) const;
  // Whether what one node can serve has nothing to do with other nodes: no claim is shared, and no
  // device that concerns several nodes could be given to the pods (of the nodes looked at so far).
  [[nodiscard]] bool Local() const;
  // What the pods' claims are made from, in order; equal pointers mean equal claims as long as the
  // classes stay.
  [[nodiscard]] std::vector<std::shared_ptr<const api::ClaimSpec>> Specs() const;

  // Adds to the slots of a placement what the plan has for them. `kind_of`: of each pod set.
  void Attach(DevicePlan plan, const std::vector<size_t>& kind_of,
              const std::map<std::string, size_t>& bin_of, Placement& placement) const;

  // Which devices a kind is short of, for a person; "" if it isn't short of any. `caps` (bins x
  // kinds) is what nodes would take apart from devices; `missing` of the `count` pods have no
  // place.
  [[nodiscard]] std::string Explain(const std::vector<int64_t>& caps, const DeviceBins& bins,
                                    size_t kind, int64_t count, int64_t missing, bool empty) const;

 private:
  friend class DeviceSearcher;

  struct ClaimUse {
    std::string name;                      // in the pod
    const CompiledClaim* claim = nullptr;  // null for a shared one that needs no allocation
    int32_t shared = -1;                   // index in shared_
  };
  struct SharedClaim {
    std::string key;
    std::string name;
    const CompiledClaim* claim = nullptr;            // null if it can't be allocated (again)
    bool fixed = false;                              // allocated, or promised to another gang
    std::optional<api::NodeSelector> node_selector;  // of a fixed one
  };
  struct Kind {
    const GangPodSet* set = nullptr;
    std::vector<ClaimUse> uses;          // in the pod's order
    std::vector<std::string> resources;  // that a class stands for, sorted
    [[nodiscard]] bool Needs() const { return !uses.empty() || !resources.empty(); }
  };

  GangDevices(const DeviceLedger& ledger, const NodeLabels& labels)
      : ledger_(ledger), labels_(labels) {}
  bool Resolve(const Gang& gang, Kind& kind);
  const CompiledClaim* Compile(std::shared_ptr<const api::ClaimSpec> spec,
                               const std::string& label);
  // The claim for the resources that a node doesn't offer by itself; null when it offers all.
  const CompiledClaim* ExtendedClaim(size_t kind, const DeviceBins& bins, size_t bin) const;
  [[nodiscard]] bool SelectsWide(const CompiledClaim& claim) const;

  const DeviceLedger& ledger_;
  const NodeLabels& labels_;
  std::vector<Kind> kinds_;
  std::vector<SharedClaim> shared_;
  std::vector<std::unique_ptr<CompiledClaim>> compiled_;
  std::string problem_;
  FitKind problem_kind_ = FitKind::kNotNow;
  mutable std::map<std::pair<size_t, uint64_t>, std::unique_ptr<CompiledClaim>> extended_;
};

}  // namespace tutti::engine
