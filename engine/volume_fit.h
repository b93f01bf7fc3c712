// SPDX-License-Identifier: Apache-2.0
// What volumes mean for the places of a gang, as kube-scheduler 1.36 filters nodes (VolumeBinding,
// VolumeZone, VolumeRestrictions, NodeVolumeLimits): which nodes reach the volumes that claims are
// bound to, how many pods on a node find a volume of their own, where one can be made, and how many
// the node may attach. Claims that a pod template names are shared by all pods of the podset;
// generic ephemeral volumes are made for each pod. What depends on choices that can't be foreseen
// is said and limited from above only. Pure; lives at most as long as its arguments and only until
// they change.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/core.h"
#include "api/storage.h"
#include "engine/capacity_ledger.h"
#include "engine/gang_fit.h"
#include "engine/volume_book.h"

namespace tutti::engine {

// How a pod's volumes stand to those of gangs in flight.
enum class VolumeUse {
  kFree,     // others can't take anything from it
  kChooses,  // volumes or attachments that others may take, node by node
  kAlone,    // what is taken on one node is missing on others
};

// Pods that are alike.
struct VolumeKind {
  const api::PodShape* shape = nullptr;
  int64_t count = 0;
};

class GangVolumes {
 public:
  // Null when no pod has a volume with a claim. `others`: the gang has rules or devices, which are
  // not decided together with limits over several nodes.
  static std::unique_ptr<const GangVolumes> Prepare(const CapacityLedger& ledger,
                                                    const VolumeBook& book,
                                                    const std::vector<VolumeKind>& kinds,
                                                    bool others);
  [[nodiscard]] static VolumeUse UseOf(const CapacityLedger& ledger, const VolumeBook& book,
                                       const api::PodShape& shape, int64_t count);

  // Why no node would do, whatever is free; "" = some might.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  // It is not a matter of waiting.
  [[nodiscard]] bool never() const { return never_; }
  [[nodiscard]] const std::set<std::string>& undecided() const { return undecided_; }
  // For a person: what limits the pods of a kind to some nodes; "" = nothing.
  [[nodiscard]] const std::string& Text(size_t kind) const { return needs_[kind].text; }

  // Most pods of the kind on a node, as far as its volumes go.
  [[nodiscard]] int64_t Limit(Basis basis, size_t node, size_t kind) const;
  // Lowers `problem.cap` to that, and to what holds over several nodes.
  void Apply(FitProblem& problem, Basis basis) const;

 private:
  // A claim that is bound when the first pod that uses it gets a node.
  struct Late {
    const api::VolumeClaimSpec* spec = nullptr;
    std::string storage_class;
    const api::PersistentVolumeClaim* claim = nullptr;  // null: made for each pod
    const api::PersistentVolume* fixed = nullptr;       // a volume that is kept for it
    // By node: a volume could be made for it; `could_make`: if there were enough storage.
    std::vector<char> can_make = {};
    std::vector<char> could_make = {};
    [[nodiscard]] bool CanMake(size_t node, Basis basis) const {
      return (basis == Basis::kEmpty ? could_make : can_make)[node] != 0;
    }
  };
  struct Need {
    const api::PodShape* shape = nullptr;
    int64_t count = 0;
    std::vector<char> reach;   // by node; empty: all
    std::vector<Late> own;     // of each pod, by size
    std::vector<Late> shared;  // of all of its pods together
    std::string text;
  };
  struct Volume {
    const api::PersistentVolume* volume = nullptr;
    std::vector<size_t> nodes;  // that reach it, ascending
    std::vector<char> serves;   // by the claims that are looked at
    bool taken = false;
  };
  // Nodes that see the same volumes: pods on all of them together.
  struct Domain {
    std::vector<size_t> nodes;
    int64_t pods = 0;
  };
  struct Limits {
    std::vector<std::vector<int64_t>> by_kind;  // by node; empty: none
    std::vector<Domain> domains;                // of the only kind
    // Of the only kind: nodes to which all pods go once the first is on this node; by that node.
    std::vector<std::vector<size_t>> follow;
  };

  GangVolumes(const CapacityLedger& ledger, const VolumeBook& book)
      : ledger_(ledger), book_(book) {}

  void Add(Need& need);
  void AddNamed(const api::PodVolume& volume, Need& need);
  void AddBound(const api::PersistentVolumeClaim& claim, Need& need);
  void AddMade(const api::PodVolume& volume, Need& need);
  void AddLate(Late late, bool shared, Need& need);
  void CheckShared();
  void Refuse(const std::string& why, bool never = false);
  static void Restrict(Need& need, const std::vector<char>& nodes);
  static void Say(Need& need, const std::string& text);

  [[nodiscard]] const std::vector<const NodeState*>& Nodes() const { return ledger_.Nodes(); }
  [[nodiscard]] const std::string* LabelOf(size_t node, const std::string& key) const;
  [[nodiscard]] bool Holds(const api::Requirement& requirement, size_t node) const;
  [[nodiscard]] std::vector<size_t> Reaching(const api::PersistentVolume& volume) const;
  [[nodiscard]] std::vector<char> InZone(const api::PersistentVolume& volume) const;
  [[nodiscard]] std::vector<char> CanMake(const api::VolumeClaimSpec& spec,
                                          const std::string& storage_class, bool if_enough) const;
  [[nodiscard]] static bool Serves(const api::PersistentVolume& volume, const Late& late,
                                   Basis basis);
  [[nodiscard]] static bool BigEnough(const api::PersistentVolume& volume,
                                      const api::VolumeClaimSpec& spec);

  const Limits& LimitsOf(Basis basis) const;
  [[nodiscard]] Limits Solve(Basis basis) const;
  void LimitByVolumes(const Need& need, Basis basis, Limits& limits,
                      std::vector<int64_t>& limit) const;
  void LimitByShared(const Need& need, Basis basis, Limits& limits,
                     std::vector<int64_t>& limit) const;
  void LimitByAttachments(const Need& need, Basis basis, std::vector<int64_t>& limit) const;
  [[nodiscard]] std::vector<Volume> VolumesFor(const std::vector<Late>& lates, Basis basis) const;
  void TakePromised(std::vector<Volume>& volumes, Basis basis) const;
  [[nodiscard]] int64_t PodsWith(const Need& need, const std::vector<const Volume*>& volumes,
                                 size_t node, Basis basis) const;
  [[nodiscard]] static int64_t AtMost(const Need& need, size_t volumes, size_t node, Basis basis);
  void Attached(size_t node, const std::string& driver, Basis basis,
                std::set<std::string>& out) const;
  [[nodiscard]] std::pair<std::string, std::string> AttachmentOf(
      const api::PersistentVolumeClaim& claim) const;
  [[nodiscard]] std::string DriverOf(const api::VolumeClaimSpec& made) const;
  [[nodiscard]] bool UsesDriver(const api::PodVolumes& volumes, const std::string& driver) const;
  void NotDecided(const std::string& what) const;

  const CapacityLedger& ledger_;
  const VolumeBook& book_;
  std::vector<Need> needs_;
  bool others_ = false;
  std::string problem_;
  bool never_ = false;
  mutable std::set<std::string> undecided_;  // grows while limits are computed; all are in Prepare
  mutable std::map<Basis, Limits> limits_;
  mutable std::map<std::string, std::map<std::string, std::vector<size_t>>> nodes_by_label_;
};

}  // namespace tutti::engine
