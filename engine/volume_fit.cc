// SPDX-License-Identifier: Apache-2.0
// What a gang's volumes ask for: claims as they are, one by one. The limits that follow are
// computed in volume_limits.cc.
#include "engine/volume_fit.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace tutti::engine {
namespace {

// Labels of volumes that VolumeZone compares with those of nodes, and what they are called today.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kZoneLabels = {{
    {"failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"},
    {"failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"},
    {"topology.kubernetes.io/zone", "topology.kubernetes.io/zone"},
    {"topology.kubernetes.io/region", "topology.kubernetes.io/region"},
}};

// "a__b" of a volume in several zones. Empty: not valid, the label counts for nothing.
std::set<std::string> ZonesOf(std::string_view text) {
  std::set<std::string> zones;
  while (true) {
    const size_t end = text.find("__");
    std::string_view zone = text.substr(0, end);
    while (!zone.empty() && zone.front() == ' ')
      zone.remove_prefix(1);
    while (!zone.empty() && zone.back() == ' ')
      zone.remove_suffix(1);
    if (zone.empty())
      return {};
    zones.emplace(zone);
    if (end == std::string_view::npos)
      return zones;
    text.remove_prefix(end + 2);
  }
}

bool SelectsByName(const api::NodeSelector& selector) {
  return std::any_of(selector.terms.begin(), selector.terms.end(),
                     [](const api::NodeSelectorTerm& term) { return !term.fields.empty(); });
}

std::string NodesText(const std::vector<std::string>& names) {
  if (names.size() == 1)
    return "node " + names.front();
  return std::to_string(names.size()) + " nodes";
}

}  // namespace

std::unique_ptr<const GangVolumes> GangVolumes::Prepare(const CapacityLedger& ledger,
                                                        const VolumeBook& book,
                                                        const std::vector<VolumeKind>& kinds,
                                                        bool others) {
  if (std::none_of(kinds.begin(), kinds.end(),
                   [](const VolumeKind& kind) { return kind.shape->volumes.has_value(); }))
    return nullptr;
  std::unique_ptr<GangVolumes> out(new GangVolumes(ledger, book));
  out->others_ = others;
  for (const VolumeKind& kind : kinds) {
    Need& need = out->needs_.emplace_back();
    need.shape = kind.shape;
    need.count = kind.count;
  }
  for (Need& need : out->needs_)
    out->Add(need);
  out->CheckShared();
  if (out->problem_.empty())
    out->LimitsOf(Basis::kNow);  // what can't be decided is known from here on
  return out;
}

void GangVolumes::Refuse(const std::string& why, bool never) {
  if (problem_.empty() || (never && !never_)) {
    problem_ = why;
    never_ = never;
  }
}

void GangVolumes::NotDecided(const std::string& what) const {
  undecided_.insert(what);
}

void GangVolumes::Say(Need& need, const std::string& text) {
  if (need.text.find(text) == std::string::npos)
    need.text += (need.text.empty() ? "" : ", ") + text;
}

void GangVolumes::Restrict(Need& need, const std::vector<char>& nodes) {
  if (need.reach.empty())
    need.reach.assign(nodes.size(), 1);
  for (size_t n = 0; n < nodes.size(); ++n)
    need.reach[n] = need.reach[n] != 0 && nodes[n] != 0 ? 1 : 0;
}

void GangVolumes::Add(Need& need) {
  if (!need.shape->volumes)
    return;
  for (const api::PodVolume& volume : need.shape->volumes->claims) {
    if (volume.made) {
      AddMade(volume, need);
    } else {
      AddNamed(volume, need);
    }
  }
  // As kube-scheduler takes them: the smallest first, equal ones in the pod's order.
  const api::Quantity none;
  std::stable_sort(need.own.begin(), need.own.end(), [&](const Late& a, const Late& b) {
    return a.spec->storage.value_or(none) < b.spec->storage.value_or(none);
  });
}

void GangVolumes::AddNamed(const api::PodVolume& volume, Need& need) {
  const api::ObjectKey key{need.shape->volumes->ns, volume.claim};
  const std::string title = "PersistentVolumeClaim " + key.ToString();
  const api::PersistentVolumeClaim* claim = book_.FindClaim(key);
  if (claim == nullptr)
    return Refuse(title + " doesn't exist");
  if (claim->phase == "Lost")
    return Refuse(title + " has lost its PersistentVolume " + claim->spec.volume_name);
  if (claim->meta.deleted)
    return Refuse(title + " is being deleted");
  if (claim->Bound())
    return AddBound(*claim, need);
  if (!claim->spec.volume_name.empty())
    return Refuse(title + " is not bound yet to PersistentVolume " + claim->spec.volume_name);
  const std::string storage_class = claim->Class();
  const api::StorageClass* found = book_.FindClass(storage_class);
  if (storage_class.empty())
    return Refuse(title + " is not bound yet, and has no StorageClass");
  if (found == nullptr)
    return Refuse(title + " is not bound yet, and its StorageClass " + storage_class +
                  " doesn't exist");
  if (!found->waits)
    return Refuse(title + " is not bound yet (StorageClass " + storage_class +
                  " binds at once, whether or not a pod waits)");
  Late late{&claim->spec, storage_class, claim, nullptr};
  const size_t uses =
      static_cast<size_t>(std::count_if(needs_.begin(), needs_.end(), [&](const Need& other) {
        if (!other.shape->volumes || other.shape->volumes->ns != key.ns)
          return false;
        const auto& claims = other.shape->volumes->claims;
        return std::any_of(claims.begin(), claims.end(), [&](const api::PodVolume& entry) {
          return !entry.made && entry.claim == key.name;
        });
      }));
  AddLate(std::move(late), need.count > 1 || uses > 1, need);
  Say(need, title + " (StorageClass " + storage_class + ") is bound when its first pod has a node");
}

void GangVolumes::AddBound(const api::PersistentVolumeClaim& claim, Need& need) {
  const std::string title = "PersistentVolumeClaim " + claim.meta.Key().ToString();
  const api::PersistentVolume* volume = book_.FindVolume(claim.spec.volume_name);
  if (volume == nullptr)
    return Refuse(title + " is bound to PersistentVolume " + claim.spec.volume_name +
                  ", which doesn't exist");
  if (volume->migrated)
    return NotDecided("PersistentVolume " + volume->meta.name + " of an in-tree plugin");
  if (volume->affinity && SelectsByName(*volume->affinity))
    return NotDecided("PersistentVolume " + volume->meta.name + " that selects nodes by field");
  std::vector<char> nodes = InZone(*volume);
  if (volume->affinity) {
    std::vector<char> reached(Nodes().size(), 0);
    for (const size_t n : Reaching(*volume))
      reached[n] = nodes.empty() ? 1 : nodes[n];
    nodes = std::move(reached);
  }
  if (nodes.empty())
    return;
  Restrict(need, nodes);
  std::vector<std::string> names;
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (nodes[n] != 0)
      names.push_back(Nodes()[n]->facts.name);
  }
  if (names.size() < nodes.size()) {
    Say(need, "PersistentVolume " + volume->meta.name + " of claim " + claim.meta.Key().ToString() +
                  " is reached by " + NodesText(names));
  }
}

void GangVolumes::AddMade(const api::PodVolume& volume, Need& need) {
  const api::VolumeClaimSpec& spec = *volume.made;
  const std::string storage_class = spec.storage_class.value_or(book_.DefaultClass());
  const api::StorageClass* found = book_.FindClass(storage_class);
  if (found == nullptr && !storage_class.empty() && book_.VolumesOf(storage_class).empty()) {
    return Refuse("volume " + volume.name + ": StorageClass " + storage_class + " doesn't exist");
  }
  if (found == nullptr || !found->waits || !spec.volume_name.empty()) {
    return NotDecided("volume " + volume.name +
                      (storage_class.empty() ? " without a StorageClass"
                                             : " of StorageClass " + storage_class +
                                                   ", which is bound before a node is chosen"));
  }
  AddLate({&spec, storage_class, nullptr, nullptr}, false, need);
  Say(need, "each pod's volume " + volume.name + " is of StorageClass " + storage_class);
}

void GangVolumes::AddLate(Late late, bool shared, Need& need) {
  if (late.claim != nullptr && !late.claim->selected_node.empty()) {
    // Decided before: it is to be made for this node.
    std::vector<char> only(Nodes().size(), 0);
    const std::vector<char> can_make = CanMake(*late.spec, late.storage_class, false);
    for (size_t n = 0; n < only.size(); ++n)
      only[n] = Nodes()[n]->facts.name == late.claim->selected_node ? can_make[n] : 0;
    return Restrict(need, only);
  }
  late.can_make = CanMake(*late.spec, late.storage_class, false);
  late.could_make = CanMake(*late.spec, late.storage_class, true);
  if (late.claim != nullptr) {
    for (const std::string& name : book_.VolumesOf(late.storage_class)) {
      const api::PersistentVolume* volume = book_.FindVolume(name);
      if (volume->claim && volume->claim->IsFor(*late.claim) && BigEnough(*volume, *late.spec) &&
          late.fixed == nullptr)
        late.fixed = volume;
    }
  }
  (shared ? need.shared : need.own).push_back(std::move(late));
}

// Claims that only one pod may use.
void GangVolumes::CheckShared() {
  std::map<api::ObjectKey, int64_t> users;
  for (const Need& need : needs_) {
    if (!need.shape->volumes)
      continue;
    std::set<std::string> named;
    for (const api::PodVolume& volume : need.shape->volumes->claims) {
      if (!volume.made && named.insert(volume.claim).second)
        users[{need.shape->volumes->ns, volume.claim}] += need.count;
    }
  }
  for (const auto& [key, pods] : users) {
    const api::PersistentVolumeClaim* claim = book_.FindClaim(key);
    if (claim == nullptr || !claim->OnePod())
      continue;
    const std::string title = "PersistentVolumeClaim " + key.ToString();
    if (pods > 1) {
      Refuse(title + " is for one pod only (ReadWriteOncePod), and " + std::to_string(pods) +
                 " pods of the gang use it",
             /*never=*/true);
      continue;
    }
    if (const std::set<std::string>* pods_now = book_.UsersOf(key)) {
      if (std::any_of(pods_now->begin(), pods_now->end(), [&](const std::string& uid) {
            return ledger_.FindNode(book_.users().at(uid).node) != nullptr;
          }))
        Refuse(title + " is for one pod only (ReadWriteOncePod), and another pod uses it");
    }
    for (const auto& [serial, gang] : ledger_.InFlight()) {
      for (const SetPlan& set : gang->reservation->sets) {
        if (set.slots.empty() || !set.shape->volumes || set.shape->volumes->ns != key.ns)
          continue;
        const auto& claims = set.shape->volumes->claims;
        if (std::any_of(claims.begin(), claims.end(), [&](const api::PodVolume& entry) {
              return !entry.made && entry.claim == key.name;
            }))
          Refuse(title + " is for one pod only (ReadWriteOncePod), and " + gang->id + " uses it");
      }
    }
  }
}

VolumeUse GangVolumes::UseOf(const CapacityLedger& ledger, const VolumeBook& book,
                             const api::PodShape& shape, int64_t count) {
  if (!shape.volumes)
    return VolumeUse::kFree;
  const GangVolumes self(ledger, book);
  VolumeUse use = VolumeUse::kFree;
  const auto at_least = [&](VolumeUse other) { use = std::max(use, other); };
  for (const api::PodVolume& volume : shape.volumes->claims) {
    std::string storage_class;
    std::string driver;
    if (volume.made) {
      storage_class = volume.made->storage_class.value_or(book.DefaultClass());
      if (const api::StorageClass* found = book.FindClass(storage_class))
        driver = found->Driver();
    } else if (const auto* claim = book.FindClaim({shape.volumes->ns, volume.claim})) {
      driver = self.AttachmentOf(*claim).first;
      if (!claim->Bound() && claim->spec.volume_name.empty() && claim->selected_node.empty()) {
        storage_class = claim->Class();
        if (count > 1)
          at_least(VolumeUse::kAlone);
      }
    }
    if (!driver.empty() && book.Limits(driver))
      at_least(VolumeUse::kChooses);
    if (storage_class.empty())
      continue;
    for (const std::string& name : book.VolumesOf(storage_class)) {
      const api::PersistentVolume& choice = *book.FindVolume(name);
      if (choice.claim || choice.phase != "Available")
        continue;
      const bool local = self.Reaching(choice).size() <= 1;
      at_least(local ? VolumeUse::kChooses : VolumeUse::kAlone);
      if (!local)
        break;
    }
  }
  return use;
}

// --- nodes
// ---------------------------------------------------------------------------------------------

const std::string* GangVolumes::LabelOf(size_t node, const std::string& key) const {
  const StringPool& strings = ledger_.Facts().strings();
  const int32_t id = strings.Find(key);
  if (id < 0)
    return nullptr;
  for (const auto& [label, value] : Nodes()[node]->facts.labels) {
    if (label == id)
      return &strings.Text(value);
  }
  return nullptr;
}

bool GangVolumes::Holds(const api::Requirement& requirement, size_t node) const {
  const std::string* value = LabelOf(node, requirement.key);
  return value == nullptr ? requirement.Matches({})
                          : requirement.Matches({{requirement.key, *value}});
}

// Most volumes are on one node: an index by label finds it without a look at the others.
std::vector<size_t> GangVolumes::Reaching(const api::PersistentVolume& volume) const {
  std::vector<size_t> out;
  const size_t nodes = Nodes().size();
  if (!volume.affinity) {
    for (size_t n = 0; n < nodes; ++n)
      out.push_back(n);
    return out;
  }
  const auto holds = [&](const api::NodeSelectorTerm& term, size_t node) {
    return std::all_of(
        term.expressions.begin(), term.expressions.end(),
        [&](const api::Requirement& requirement) { return Holds(requirement, node); });
  };
  for (const api::NodeSelectorTerm& term : volume.affinity->terms) {
    if (term.expressions.empty() && term.fields.empty())
      continue;  // matches nothing
    const auto in = std::find_if(term.expressions.begin(), term.expressions.end(),
                                 [](const auto& requirement) { return requirement.op == "In"; });
    if (in == term.expressions.end()) {
      for (size_t n = 0; n < nodes; ++n) {
        if (holds(term, n))
          out.push_back(n);
      }
      continue;
    }
    const auto [index, added] = nodes_by_label_.try_emplace(in->key);
    if (added) {
      for (size_t n = 0; n < nodes; ++n) {
        if (const std::string* value = LabelOf(n, in->key))
          index->second[*value].push_back(n);
      }
    }
    for (const std::string& value : in->values) {
      const auto found = index->second.find(value);
      if (found == index->second.end())
        continue;
      for (const size_t n : found->second) {
        if (holds(term, n))
          out.push_back(n);
      }
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// By node; empty: everywhere. A node without any of these labels is taken to be in every zone.
std::vector<char> GangVolumes::InZone(const api::PersistentVolume& volume) const {
  std::vector<char> out;
  for (const auto& [label, today] : kZoneLabels) {
    const std::string* value = api::FindIn(volume.meta.labels, label);
    const std::set<std::string> zones =
        value == nullptr ? std::set<std::string>() : ZonesOf(*value);
    if (zones.empty())
      continue;
    if (out.empty())
      out.assign(Nodes().size(), 1);
    for (size_t n = 0; n < out.size(); ++n) {
      if (std::none_of(kZoneLabels.begin(), kZoneLabels.end(), [&](const auto& any) {
            return LabelOf(n, std::string(any.first)) != nullptr;
          }))
        continue;
      const std::string* have = LabelOf(n, std::string(label));
      if (have == nullptr)
        have = LabelOf(n, std::string(today));
      if (have == nullptr || !zones.contains(*have))
        out[n] = 0;
    }
  }
  return out;
}

// By node: could a volume be made for the claim if a pod were put there?
std::vector<char> GangVolumes::CanMake(const api::VolumeClaimSpec& spec,
                                       const std::string& storage_class, bool if_enough) const {
  const size_t nodes = Nodes().size();
  std::vector<char> out(nodes, 0);
  const api::StorageClass* found = book_.FindClass(storage_class);
  if (found == nullptr || found->provisioner.empty() || found->provisioner == api::kNoProvisioner)
    return out;
  const api::CsiDriver* driver = book_.FindDriver(found->provisioner);
  const bool by_capacity =
      !if_enough && spec.storage && driver != nullptr && driver->storage_capacity;
  std::vector<const api::CsiStorageCapacity*> capacities;
  for (const auto& [key, capacity] : book_.capacities()) {
    if (by_capacity && capacity.storage_class == storage_class && capacity.nodes.present &&
        capacity.size && capacity.size->Value() >= spec.storage->Value())
      capacities.push_back(&capacity);
  }
  for (size_t n = 0; n < nodes; ++n) {
    const bool allowed =
        found->allowed.empty() ||
        std::any_of(found->allowed.begin(), found->allowed.end(), [&](const auto& term) {
          return !term.values.empty() &&
                 std::all_of(term.values.begin(), term.values.end(), [&](const auto& label) {
                   const std::string* have = LabelOf(n, label.first);
                   return have != nullptr && std::find(label.second.begin(), label.second.end(),
                                                       *have) != label.second.end();
                 });
        });
    const bool enough =
        !by_capacity ||
        std::any_of(capacities.begin(), capacities.end(), [&](const auto* capacity) {
          return std::all_of(
              capacity->nodes.requirements.begin(), capacity->nodes.requirements.end(),
              [&](const api::Requirement& requirement) { return Holds(requirement, n); });
        });
    out[n] = allowed && enough ? 1 : 0;
  }
  return out;
}

}  // namespace tutti::engine
