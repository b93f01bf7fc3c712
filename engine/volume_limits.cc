// SPDX-License-Identifier: Apache-2.0
// How many pods of a gang find their volumes on a node: kube-scheduler's own choice, pod after pod
// (the smallest volume that will do), counted per node or, where nodes see the same volumes, over
// all of these.
#include <algorithm>
#include <limits>
#include <utility>

#include "engine/volume_fit.h"

namespace tutti::engine {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// The smallest first.
bool Before(const api::PersistentVolume& a, const api::PersistentVolume& b) {
  return a.capacity != b.capacity ? a.capacity < b.capacity : a.meta.name < b.meta.name;
}

}  // namespace

bool GangVolumes::BigEnough(const api::PersistentVolume& volume, const api::VolumeClaimSpec& spec) {
  return volume.capacity >= spec.storage.value_or(api::Quantity()) && volume.block == spec.block &&
         volume.attributes_class == spec.attributes_class && !volume.meta.deleted;
}

// Whether the volume, which nobody has, may be bound to the claim. On the empty cluster those that
// somebody has count too.
bool GangVolumes::Serves(const api::PersistentVolume& volume, const Late& late, Basis basis) {
  const bool free = (volume.phase == "Available" && !volume.claim) || basis == Basis::kEmpty;
  const auto& modes = volume.access_modes;
  return free && volume.storage_class == late.storage_class && BigEnough(volume, *late.spec) &&
         (!late.spec->selector.present || late.spec->selector.Matches(volume.meta.labels)) &&
         std::all_of(late.spec->access_modes.begin(), late.spec->access_modes.end(),
                     [&](const std::string& mode) {
                       return std::find(modes.begin(), modes.end(), mode) != modes.end();
                     });
}

const GangVolumes::Limits& GangVolumes::LimitsOf(Basis basis) const {
  const auto [it, added] = limits_.try_emplace(basis);
  if (added)
    it->second = Solve(basis);
  return it->second;
}

int64_t GangVolumes::Limit(Basis basis, size_t node, size_t kind) const {
  const std::vector<int64_t>& limit = LimitsOf(basis).by_kind[kind];
  return limit.empty() ? kNoLimit : limit[node];
}

void GangVolumes::Apply(FitProblem& problem, Basis basis) const {
  const Limits& limits = LimitsOf(basis);
  const size_t kinds = problem.kinds.size();
  for (size_t k = 0; k < kinds; ++k) {
    if (limits.by_kind[k].empty())
      continue;
    for (size_t n = 0; n < problem.bins; ++n) {
      int64_t& cap = problem.cap[n * kinds + k];
      cap = std::min(cap, limits.by_kind[k][n]);
    }
  }
  // From here on there is one kind of pods.
  for (const Domain& domain : limits.domains) {
    int64_t left = domain.pods;
    for (const size_t n : domain.nodes) {
      problem.cap[n] = std::min(problem.cap[n], left);
      left -= problem.cap[n];
    }
  }
  if (limits.follow.empty())
    return;
  // The tightest set of nodes that takes all, else the largest.
  const int64_t want = problem.kinds[0].count;
  const std::vector<size_t>* best = nullptr;
  int64_t best_sum = 0;
  for (size_t n = 0; n < problem.bins; ++n) {
    if (problem.cap[n] == 0 || limits.follow[n].empty())
      continue;
    int64_t sum = 0;
    for (const size_t other : limits.follow[n])
      sum += problem.cap[other];
    if (best == nullptr || (best_sum < want ? sum > best_sum : sum >= want && sum < best_sum)) {
      best = &limits.follow[n];
      best_sum = sum;
    }
  }
  for (size_t n = 0; n < problem.bins; ++n) {
    if (best == nullptr || !std::binary_search(best->begin(), best->end(), n))
      problem.cap[n] = 0;
  }
}

GangVolumes::Limits GangVolumes::Solve(Basis basis) const {
  Limits out;
  out.by_kind.resize(needs_.size());
  for (size_t k = 0; k < needs_.size(); ++k) {
    const Need& need = needs_[k];
    std::vector<int64_t>& limit = out.by_kind[k];
    if (!need.shape->volumes)
      continue;
    limit.assign(Nodes().size(), kNoLimit);
    for (size_t n = 0; n < need.reach.size(); ++n)
      limit[n] = need.reach[n] != 0 ? kNoLimit : 0;
    LimitByVolumes(need, basis, out, limit);
    LimitByShared(need, basis, out, limit);
    LimitByAttachments(need, basis, limit);
  }
  return out;
}

// All that nobody has, of the classes that the pods' own volumes are of, the smallest first.
std::vector<GangVolumes::Volume> GangVolumes::VolumesFor(const std::vector<Late>& lates,
                                                         Basis basis) const {
  std::set<std::string> classes;
  for (const Late& late : lates)
    classes.insert(late.storage_class);
  std::vector<Volume> out;
  for (const std::string& storage_class : classes) {
    for (const std::string& name : book_.VolumesOf(storage_class)) {
      Volume volume{book_.FindVolume(name), {}, {}, false};
      if (basis != Basis::kEmpty && (volume.volume->claim || volume.volume->phase != "Available"))
        continue;
      for (const Late& late : lates)
        volume.serves.push_back(Serves(*volume.volume, late, basis) ? 1 : 0);
      volume.nodes = Reaching(*volume.volume);
      out.push_back(std::move(volume));
    }
  }
  std::sort(out.begin(), out.end(),
            [](const Volume& a, const Volume& b) { return Before(*a.volume, *b.volume); });
  return out;
}

// What pods that have a node already, by plan or in fact, are going to take: their claims are not
// seen as bound yet.
void GangVolumes::TakePromised(std::vector<Volume>& volumes, Basis basis) const {
  if (basis == Basis::kEmpty || volumes.empty())
    return;
  std::set<api::ObjectKey> done;
  const auto take = [&](const api::PodShape& shape, const NodeState& state) {
    const auto& nodes = Nodes();
    const auto at = std::lower_bound(
        nodes.begin(), nodes.end(), state.facts.name,
        [](const NodeState* node, const std::string& name) { return node->facts.name < name; });
    if (at == nodes.end() || (*at)->facts.name != state.facts.name)
      return;
    const auto node = static_cast<size_t>(at - nodes.begin());
    std::vector<Late> lates;
    for (const api::PodVolume& entry : shape.volumes->claims) {
      const api::ObjectKey key{shape.volumes->ns, entry.claim};
      const api::PersistentVolumeClaim* claim = entry.made ? nullptr : book_.FindClaim(key);
      if (!entry.made && (claim == nullptr || !claim->spec.volume_name.empty() ||
                          !claim->selected_node.empty() || !done.insert(key).second))
        continue;
      const api::VolumeClaimSpec& spec = entry.made ? *entry.made : claim->spec;
      lates.push_back({&spec, spec.storage_class.value_or(entry.made ? book_.DefaultClass() : ""),
                       claim, nullptr});
    }
    std::stable_sort(lates.begin(), lates.end(), [](const Late& a, const Late& b) {
      return a.spec->storage.value_or(api::Quantity()) < b.spec->storage.value_or(api::Quantity());
    });
    for (const Late& late : lates) {
      const auto found = std::find_if(volumes.begin(), volumes.end(), [&](const Volume& volume) {
        return !volume.taken && Serves(*volume.volume, late, basis) &&
               std::binary_search(volume.nodes.begin(), volume.nodes.end(), node);
      });
      if (found != volumes.end())
        found->taken = true;
    }
  };
  for (const auto& [uid, user] : book_.users()) {
    const NodeState* node = ledger_.FindNode(user.node);
    const auto& claims = user.shape->volumes->claims;
    const auto made =
        std::count_if(claims.begin(), claims.end(), [](const auto& c) { return !!c.made; });
    const std::set<api::ObjectKey>* theirs = book_.MadeFor(uid);
    const auto bound =
        theirs == nullptr ? 0 : std::count_if(theirs->begin(), theirs->end(), [&](const auto& key) {
          return !book_.FindClaim(key)->spec.volume_name.empty();
        });
    if (node != nullptr && made > bound)
      take(*user.shape, *node);
  }
  if (basis != Basis::kNow)
    return;
  for (const auto& [serial, gang] : ledger_.InFlight()) {
    for (const SetPlan& set : gang->reservation->sets) {
      if (!set.shape->volumes)
        continue;
      for (const auto& [node, count] : set.slots) {
        for (int32_t i = 0; i < count; ++i)
          take(*set.shape, *node);
      }
    }
  }
}

// Pods that find their volumes among these, one after the other, on a node that sees all of them.
int64_t GangVolumes::PodsWith(const Need& need, const std::vector<const Volume*>& volumes,
                              size_t node, Basis basis) const {
  std::vector<char> used(volumes.size(), 0);
  for (int64_t pods = 0; pods < need.count; ++pods) {
    bool took = false;
    for (size_t c = 0; c < need.own.size(); ++c) {
      const Late& late = need.own[c];
      if (late.fixed != nullptr) {
        const std::vector<size_t> reached = Reaching(*late.fixed);
        if (std::binary_search(reached.begin(), reached.end(), node))
          continue;
      } else {
        size_t chosen = volumes.size();
        for (size_t v = 0; v < volumes.size(); ++v) {
          if (used[v] != 0 || volumes[v]->serves[c] == 0)
            continue;
          if (chosen == volumes.size()) {
            chosen = v;
            continue;
          }
          if (volumes[v]->volume->capacity != volumes[chosen]->volume->capacity)
            break;
          // The scheduler takes any of them, and they are not alike for the other claims.
          if (volumes[v]->serves != volumes[chosen]->serves) {
            NotDecided("PersistentVolumes of equal size that serve different claims");
            return AtMost(need, volumes.size(), node, basis);
          }
        }
        if (chosen < volumes.size()) {
          used[chosen] = 1;
          took = true;
          continue;
        }
      }
      if (!late.CanMake(node, basis))
        return pods;
    }
    if (!took)
      return kNoLimit;
  }
  return need.count;
}

// Whatever volumes the scheduler takes.
int64_t GangVolumes::AtMost(const Need& need, size_t volumes, size_t node, Basis basis) {
  const bool made = std::any_of(need.own.begin(), need.own.end(), [&](const Late& late) {
    return late.fixed != nullptr || late.CanMake(node, basis);
  });
  return made ? kNoLimit : static_cast<int64_t>(volumes / need.own.size());
}

void GangVolumes::LimitByVolumes(const Need& need, Basis basis, Limits& limits,
                                 std::vector<int64_t>& limit) const {
  const auto reachable = [&](size_t n) { return need.reach.empty() || need.reach[n] != 0; };
  const size_t nodes = Nodes().size();
  bool needed = false;  // somewhere no volume could be made
  for (size_t n = 0; n < nodes && !needed; ++n) {
    needed = reachable(n) && std::any_of(need.own.begin(), need.own.end(),
                                         [&](const Late& late) { return !late.CanMake(n, basis); });
  }
  if (!needed)
    return;
  std::vector<Volume> volumes = VolumesFor(need.own, basis);
  TakePromised(volumes, basis);
  std::erase_if(volumes, [](const Volume& volume) {
    return volume.taken || std::none_of(volume.serves.begin(), volume.serves.end(),
                                        [](char serves) { return serves != 0; });
  });
  std::vector<std::vector<const Volume*>> at(nodes);
  for (const Volume& volume : volumes) {
    for (const size_t n : volume.nodes)
      at[n].push_back(&volume);
  }
  // Which volumes are left for a node depends on others.
  const auto undecided = [&](const std::string& why) {
    NotDecided(why);
    for (size_t n = 0; n < nodes && need.own.size() > 1; ++n)
      limit[n] = reachable(n) ? AtMost(need, at[n].size(), n, basis) : 0;
  };
  bool limited = false;
  for (size_t n = 0; n < nodes; ++n) {
    if (limit[n] == 0)
      continue;
    const int64_t pods = PodsWith(need, at[n], n, basis);
    limited |= pods < need.count || !at[n].empty();
    limit[n] = std::min(limit[n], pods);
  }
  const bool local = std::all_of(volumes.begin(), volumes.end(),
                                 [](const Volume& volume) { return volume.nodes.size() <= 1; });
  if (!limited || volumes.empty())
    return;
  if (needs_.size() > 1 && std::any_of(needs_.begin(), needs_.end(), [&](const Need& other) {
        return &other != &need &&
               std::any_of(other.own.begin(), other.own.end(), [&](const Late& theirs) {
                 return std::any_of(need.own.begin(), need.own.end(), [&](const Late& mine) {
                   return mine.storage_class == theirs.storage_class;
                 });
               });
      })) {
    undecided("PersistentVolumes that unlike pods share out");
    return;
  }
  if (local)
    return;
  // Nodes that see the same volumes.
  std::map<std::vector<size_t>, std::vector<const Volume*>> groups;
  std::vector<char> grouped(nodes, 0);
  bool apart = needs_.size() == 1 && !others_;
  for (const Volume& volume : volumes)
    groups[volume.nodes].push_back(&volume);
  std::vector<Domain> domains;
  for (const auto& [members, theirs] : groups) {
    Domain domain;
    for (const size_t n : members) {
      apart = apart && grouped[n] == 0;
      grouped[n] = 1;
      if (reachable(n))
        domain.nodes.push_back(n);
    }
    if (domain.nodes.empty())
      continue;
    for (const Late& late : need.own) {
      apart = apart && (late.fixed == nullptr || members.size() == 1) &&
              std::all_of(domain.nodes.begin(), domain.nodes.end(), [&](size_t n) {
                return late.CanMake(n, basis) == late.CanMake(domain.nodes.front(), basis);
              });
    }
    domain.pods = PodsWith(need, theirs, domain.nodes.front(), basis);
    if (domain.nodes.size() > 1 && domain.pods != kNoLimit)
      domains.push_back(std::move(domain));
  }
  if (domains.empty())
    return;
  if (apart) {
    limits.domains = std::move(domains);
    return;
  }
  undecided("PersistentVolumes that several nodes reach");
}

// A claim that is not bound yet and that all pods use: the first one decides where the others go.
void GangVolumes::LimitByShared(const Need& need, Basis basis, Limits& limits,
                                std::vector<int64_t>& limit) const {
  const size_t nodes = Nodes().size();
  for (const Late& late : need.shared) {
    std::vector<std::vector<size_t>> follow(nodes);
    std::vector<Volume> volumes = VolumesFor({late}, basis);
    TakePromised(volumes, basis);
    if (late.fixed != nullptr) {
      volumes.clear();
      volumes.push_back({late.fixed, Reaching(*late.fixed), {1}, false});
    }
    std::vector<const Volume*> chosen(nodes, nullptr);
    for (const Volume& volume : volumes) {
      if (volume.taken || volume.serves[0] == 0)
        continue;
      for (const size_t n : volume.nodes) {
        if (chosen[n] == nullptr) {
          chosen[n] = &volume;
          follow[n] = volume.nodes;
        } else if (chosen[n]->volume->capacity == volume.volume->capacity &&
                   chosen[n]->nodes != volume.nodes) {
          NotDecided("PersistentVolumes of equal size that different nodes reach");
        }
      }
    }
    std::vector<char> reached(nodes, 0);
    for (size_t n = 0; n < nodes; ++n) {
      if (follow[n].empty() && late.CanMake(n, basis))
        follow[n] = {n};
      if (limit[n] == 0)
        follow[n].clear();
      for (const size_t other : follow[n])
        reached[other] = 1;
    }
    for (size_t n = 0; n < nodes; ++n)
      limit[n] = reached[n] != 0 ? limit[n] : 0;
    const bool only = need.shared.size() == 1 && need.own.empty() && needs_.size() == 1 && !others_;
    if (only) {
      limits.follow = std::move(follow);
    } else {
      NotDecided("PersistentVolumeClaim " + late.claim->meta.Key().ToString() +
                 ", which is bound when its first pod has a node");
    }
  }
}

// --- attachments
// -----------------------------------------------------------------------------------------

// Driver and a name that is the same for the same volume; the driver is "" when nothing is
// attached.
std::pair<std::string, std::string> GangVolumes::AttachmentOf(
    const api::PersistentVolumeClaim& claim) const {
  const api::PersistentVolume* volume =
      claim.spec.volume_name.empty() ? nullptr : book_.FindVolume(claim.spec.volume_name);
  if (volume == nullptr) {
    const api::StorageClass* found = book_.FindClass(claim.Class());
    if (found == nullptr)
      return {};
    return {std::string(found->Driver()), "claim " + claim.meta.Key().ToString()};
  }
  if (volume->migrated)
    return {volume->driver, "volume " + volume->meta.name};
  if (volume->driver.empty() || volume->handle.empty())
    return {};
  return {volume->driver, volume->handle};
}

// Names of what a driver has attached to a node, or will have.
void GangVolumes::Attached(size_t node, const std::string& driver, Basis basis,
                           std::set<std::string>& out) const {
  if (basis == Basis::kEmpty)
    return;
  const std::string& name = Nodes()[node]->facts.name;
  const auto add = [&](const api::PersistentVolumeClaim* claim) {
    if (claim == nullptr)
      return;
    auto [of, id] = AttachmentOf(*claim);
    if (of == driver)
      out.insert(std::move(id));
  };
  if (const std::set<std::string>* pods = book_.UsersOn(name)) {
    for (const std::string& uid : *pods) {
      const api::PodVolumes& volumes = *book_.users().at(uid).shape->volumes;
      for (const api::PodVolume& volume : volumes.claims) {
        if (!volume.made)
          add(book_.FindClaim({volumes.ns, volume.claim}));
      }
      if (const std::set<api::ObjectKey>* made = book_.MadeFor(uid)) {
        for (const api::ObjectKey& key : *made)
          add(book_.FindClaim(key));
      }
    }
  }
  if (const auto* attachments = book_.AttachmentsOf(name)) {
    for (const auto& [id, attachment] : *attachments) {
      const api::PersistentVolume* volume = book_.FindVolume(attachment.volume);
      if (attachment.attacher == driver && volume != nullptr && !volume->migrated &&
          !volume->driver.empty())
        out.insert(volume->handle);
    }
  }
  if (basis != Basis::kNow)
    return;
  for (const auto& [serial, gang] : ledger_.InFlight()) {
    for (const SetPlan& set : gang->reservation->sets) {
      if (!set.shape->volumes)
        continue;
      const auto slot = std::find_if(set.slots.begin(), set.slots.end(),
                                     [&](const auto& s) { return s.first == Nodes()[node]; });
      if (slot == set.slots.end())
        continue;
      for (const api::PodVolume& volume : set.shape->volumes->claims) {
        if (!volume.made) {
          add(book_.FindClaim({set.shape->volumes->ns, volume.claim}));
          continue;
        }
        if (DriverOf(*volume.made) != driver)
          continue;
        for (int32_t i = 0; i < slot->second; ++i)
          out.insert(gang->id + " " + set.name + " " + volume.name + " " + std::to_string(i));
      }
    }
  }
}

std::string GangVolumes::DriverOf(const api::VolumeClaimSpec& made) const {
  const api::StorageClass* found =
      book_.FindClass(made.storage_class.value_or(book_.DefaultClass()));
  return found == nullptr ? "" : std::string(found->Driver());
}

// The volumes that all pods share are attached to a node once, those of each pod again and again.
void GangVolumes::LimitByAttachments(const Need& need, Basis basis,
                                     std::vector<int64_t>& limit) const {
  std::map<std::string, std::pair<std::set<std::string>, int64_t>>
      wanted;  // shared, each; by driver
  for (const api::PodVolume& volume : need.shape->volumes->claims) {
    if (volume.made) {
      if (const std::string driver = DriverOf(*volume.made); !driver.empty())
        ++wanted[driver].second;
    } else if (const auto* claim = book_.FindClaim({need.shape->volumes->ns, volume.claim})) {
      auto [driver, id] = AttachmentOf(*claim);
      if (!driver.empty())
        wanted[driver].first.insert(std::move(id));
    }
  }
  for (const auto& [driver, volumes] : wanted) {
    if (!book_.Limits(driver))
      continue;
    bool limited = false;
    for (size_t n = 0; n < limit.size(); ++n) {
      const std::map<std::string, int32_t>* limits = book_.LimitsOf(Nodes()[n]->facts.name);
      if (limits == nullptr || limit[n] == 0)
        continue;
      const auto most = limits->find(driver);
      if (most == limits->end())
        continue;
      std::set<std::string> attached;
      Attached(n, driver, basis, attached);
      int64_t shared = 0;
      for (const std::string& id : volumes.first)
        shared += attached.contains(id) ? 0 : 1;
      const int64_t each = volumes.second;
      if (shared + each == 0)
        continue;
      limited = true;
      const int64_t left = int64_t{most->second} - static_cast<int64_t>(attached.size());
      int64_t pods = 0;
      if (left >= shared + each)
        pods = each == 0 ? kNoLimit : (left - shared) / each;
      limit[n] = std::min(limit[n], pods);
    }
    if (limited && needs_.size() > 1 &&
        std::any_of(needs_.begin(), needs_.end(), [&](const Need& other) {
          return &other != &need && other.shape->volumes &&
                 UsesDriver(*other.shape->volumes, driver);
        }))
      NotDecided("how many volumes of " + driver + " unlike pods attach to a node");
  }
}

bool GangVolumes::UsesDriver(const api::PodVolumes& volumes, const std::string& driver) const {
  return std::any_of(volumes.claims.begin(), volumes.claims.end(),
                     [&](const api::PodVolume& volume) {
                       if (volume.made)
                         return DriverOf(*volume.made) == driver;
                       const auto* claim = book_.FindClaim({volumes.ns, volume.claim});
                       return claim != nullptr && AttachmentOf(*claim).first == driver;
                     });
}

}  // namespace tutti::engine
