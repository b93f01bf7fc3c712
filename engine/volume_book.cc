// SPDX-License-Identifier: Apache-2.0
// See volume_book.h.
#include "engine/volume_book.h"

#include <utility>

namespace tutti::engine {
namespace {

template <typename Map, typename Key>
auto* Find(Map& map, const Key& key) {
  const auto it = map.find(key);
  return it == map.end() ? nullptr : &it->second;
}

template <typename Map, typename Key, typename Value>
void EraseFrom(Map& index, const Key& key, const Value& value) {
  const auto it = index.find(key);
  if (it == index.end())
    return;
  it->second.erase(value);
  if (it->second.empty())
    index.erase(it);
}

std::string MadeForPod(const api::PersistentVolumeClaim& claim) {
  const api::OwnerReference* owner = claim.meta.Controller();
  return owner != nullptr && owner->kind == "Pod" ? owner->uid : "";
}

bool SameClaim(const api::PersistentVolumeClaim& a, const api::PersistentVolumeClaim& b) {
  return a.meta.uid == b.meta.uid && a.meta.deleted == b.meta.deleted &&
         MadeForPod(a) == MadeForPod(b) && a.spec == b.spec && a.phase == b.phase &&
         a.bind_complete == b.bind_complete && a.selected_node == b.selected_node;
}

bool SameVolume(const api::PersistentVolume& a, const api::PersistentVolume& b) {
  return a.meta.deleted == b.meta.deleted && a.meta.labels == b.meta.labels &&
         a.storage_class == b.storage_class && a.capacity == b.capacity &&
         a.access_modes == b.access_modes && a.block == b.block &&
         a.attributes_class == b.attributes_class && a.phase == b.phase && a.claim == b.claim &&
         a.affinity == b.affinity && a.driver == b.driver && a.handle == b.handle &&
         a.migrated == b.migrated;
}

bool SameClass(const api::StorageClass& a, const api::StorageClass& b) {
  return a.provisioner == b.provisioner && a.waits == b.waits && a.allowed == b.allowed &&
         a.IsDefault() == b.IsDefault() && a.meta.created == b.meta.created;
}

template <typename Key, typename Value, typename Same>
bool Put(std::map<Key, Value>& map, const Key& key, const Value& value, Same same) {
  const auto [it, added] = map.try_emplace(key, value);
  if (added)
    return true;
  if (same(it->second, value))
    return false;
  it->second = value;
  return true;
}

}  // namespace

void VolumeBook::Forget(const api::PersistentVolumeClaim& claim) {
  if (const std::string pod = MadeForPod(claim); !pod.empty())
    EraseFrom(made_for_, pod, claim.meta.Key());
}

void VolumeBook::SetClaim(const api::PersistentVolumeClaim& claim) {
  const api::ObjectKey key = claim.meta.Key();
  if (const auto known = claims_.find(key); known != claims_.end()) {
    if (SameClaim(known->second, claim))
      return;
    Forget(known->second);
  }
  claims_[key] = claim;
  if (const std::string pod = MadeForPod(claim); !pod.empty())
    made_for_[pod].insert(key);
  Changed();
}

void VolumeBook::RemoveClaim(const api::ObjectKey& key) {
  const auto known = claims_.find(key);
  if (known == claims_.end())
    return;
  Forget(known->second);
  claims_.erase(known);
  Changed();  // its attachment may not count any more
}

void VolumeBook::SetVolume(const api::PersistentVolume& volume) {
  const std::string& name = volume.meta.name;
  if (const api::PersistentVolume* known = FindVolume(name)) {
    if (SameVolume(*known, volume))
      return;
    EraseFrom(volumes_of_class_, known->storage_class, name);
  }
  volumes_[name] = volume;
  volumes_of_class_[volume.storage_class].insert(name);
  Changed();
}

void VolumeBook::RemoveVolume(const std::string& name) {
  const api::PersistentVolume* known = FindVolume(name);
  if (known == nullptr)
    return;
  EraseFrom(volumes_of_class_, known->storage_class, name);
  volumes_.erase(name);
  Changed();  // an attachment of it doesn't count any more
}

void VolumeBook::SetClass(const api::StorageClass& storage_class) {
  if (Put(classes_, storage_class.meta.name, storage_class, SameClass))
    Changed();
}

void VolumeBook::RemoveClass(const std::string& name) {
  if (classes_.erase(name) > 0)
    Changed();  // another one may be the default now
}

void VolumeBook::CountLimits(const api::CsiNode& node, int64_t by) {
  for (const auto& [driver, limit] : node.limits) {
    if ((limited_[driver] += by) == 0)
      limited_.erase(driver);
  }
}

void VolumeBook::SetNode(const api::CsiNode& node) {
  const auto known = nodes_.find(node.meta.name);
  if (known != nodes_.end() && known->second.limits == node.limits)
    return;
  if (known != nodes_.end())
    CountLimits(known->second, -1);
  nodes_[node.meta.name] = node;
  CountLimits(node, 1);
  Changed();
}

void VolumeBook::RemoveNode(const std::string& name) {
  const auto known = nodes_.find(name);
  if (known == nodes_.end())
    return;
  CountLimits(known->second, -1);
  nodes_.erase(known);
  Changed();  // no limits
}

void VolumeBook::SetDriver(const api::CsiDriver& driver) {
  if (Put(drivers_, driver.meta.name, driver,
          [](const auto& a, const auto& b) { return a.storage_capacity == b.storage_capacity; }))
    Changed();
}

void VolumeBook::RemoveDriver(const std::string& name) {
  if (drivers_.erase(name) > 0)
    Changed();  // capacity is not asked for any more
}

void VolumeBook::SetCapacity(const api::CsiStorageCapacity& capacity) {
  if (Put(capacities_, capacity.meta.Key(), capacity, [](const auto& a, const auto& b) {
        return a.storage_class == b.storage_class && a.nodes == b.nodes && a.size == b.size;
      }))
    Changed();
}

void VolumeBook::RemoveCapacity(const api::ObjectKey& key) {
  if (capacities_.erase(key) > 0)
    Changed(/*helps=*/false);
}

void VolumeBook::SetAttachment(const api::VolumeAttachment& attachment) {
  const std::string& name = attachment.meta.name;
  if (const std::string* node = Find(node_of_attachment_, name)) {
    const api::VolumeAttachment& known = attachments_.at(*node).at(name);
    if (known.attacher == attachment.attacher && known.node == attachment.node &&
        known.volume == attachment.volume)
      return;
  }
  RemoveAttachment(name);
  attachments_[attachment.node][name] = attachment;
  node_of_attachment_[name] = attachment.node;
  Changed(/*helps=*/false);
}

void VolumeBook::RemoveAttachment(const std::string& name) {
  const auto known = node_of_attachment_.find(name);
  if (known == node_of_attachment_.end())
    return;
  EraseFrom(attachments_, known->second, name);
  node_of_attachment_.erase(known);
  Changed();
}

void VolumeBook::SetPod(const std::string& uid, const std::string& node,
                        std::shared_ptr<const api::PodShape> shape) {
  if (const User* known = Find(users_, uid); known != nullptr) {
    if (shape->volumes && known->node == node && known->shape->volumes == shape->volumes)
      return;
    RemovePod(uid);
  }
  if (!shape->volumes)
    return;
  users_on_[node].insert(uid);
  bool made = false;
  for (const api::PodVolume& volume : shape->volumes->claims) {
    made |= volume.made.has_value();
    if (!volume.made)
      users_of_[{shape->volumes->ns, volume.claim}].insert(uid);
  }
  users_[uid] = {node, std::move(shape)};
  Changed(/*helps=*/made);  // it may have taken another volume than was foreseen
}

void VolumeBook::RemovePod(const std::string& uid) {
  const auto known = users_.find(uid);
  if (known == users_.end())
    return;
  EraseFrom(users_on_, known->second.node, uid);
  for (const api::PodVolume& volume : known->second.shape->volumes->claims) {
    if (!volume.made)
      EraseFrom(users_of_, api::ObjectKey{known->second.shape->volumes->ns, volume.claim}, uid);
  }
  users_.erase(known);
  Changed();
}

const api::PersistentVolumeClaim* VolumeBook::FindClaim(const api::ObjectKey& key) const {
  return Find(claims_, key);
}

const api::PersistentVolume* VolumeBook::FindVolume(const std::string& name) const {
  return Find(volumes_, name);
}

const api::StorageClass* VolumeBook::FindClass(const std::string& name) const {
  return Find(classes_, name);
}

const api::CsiDriver* VolumeBook::FindDriver(const std::string& name) const {
  return Find(drivers_, name);
}

const std::set<std::string>& VolumeBook::VolumesOf(const std::string& storage_class) const {
  static const std::set<std::string> kNone;
  const auto* found = Find(volumes_of_class_, storage_class);
  return found == nullptr ? kNone : *found;
}

// The newest of several, then by name (admission plugin DefaultStorageClass).
std::string VolumeBook::DefaultClass() const {
  const api::StorageClass* best = nullptr;
  for (const auto& [name, storage_class] : classes_) {
    if (storage_class.IsDefault() &&
        (best == nullptr || storage_class.meta.created > best->meta.created))
      best = &storage_class;
  }
  return best == nullptr ? "" : best->meta.name;
}

const std::map<std::string, int32_t>* VolumeBook::LimitsOf(const std::string& node) const {
  const api::CsiNode* found = Find(nodes_, node);
  return found == nullptr || found->limits.empty() ? nullptr : &found->limits;
}

const std::map<std::string, api::VolumeAttachment>* VolumeBook::AttachmentsOf(
    const std::string& node) const {
  return Find(attachments_, node);
}

const std::set<std::string>* VolumeBook::UsersOn(const std::string& node) const {
  return Find(users_on_, node);
}

const std::set<std::string>* VolumeBook::UsersOf(const api::ObjectKey& claim) const {
  return Find(users_of_, claim);
}

const std::set<api::ObjectKey>* VolumeBook::MadeFor(const std::string& pod_uid) const {
  return Find(made_for_, pod_uid);
}

std::string VolumeBook::SanityCheck() const {
  size_t listed = 0;
  for (const auto& [storage_class, names] : volumes_of_class_) {
    listed += names.size();
    for (const std::string& name : names) {
      const api::PersistentVolume* volume = FindVolume(name);
      if (volume == nullptr || volume->storage_class != storage_class)
        return "PersistentVolume " + name + " is listed in a wrong class";
    }
  }
  if (listed != volumes_.size())
    return "a PersistentVolume is in no class";
  size_t made = 0;
  for (const auto& [key, claim] : claims_) {
    const std::string pod = MadeForPod(claim);
    const std::set<api::ObjectKey>* keys = pod.empty() ? nullptr : MadeFor(pod);
    if (!pod.empty() && (keys == nullptr || !keys->contains(key)))
      return "PersistentVolumeClaim " + key.ToString() + " is not listed with its pod";
    made += pod.empty() ? 0 : 1;
  }
  size_t indexed = 0;
  for (const auto& [pod, keys] : made_for_)
    indexed += keys.size();
  if (indexed != made)
    return "a claim is listed with a pod that it was not made for";
  std::map<std::string, std::set<std::string>> on;
  std::map<api::ObjectKey, std::set<std::string>> of;
  for (const auto& [uid, user] : users_) {
    on[user.node].insert(uid);
    for (const api::PodVolume& volume : user.shape->volumes->claims) {
      if (!volume.made)
        of[{user.shape->volumes->ns, volume.claim}].insert(uid);
    }
  }
  return on == users_on_ && of == users_of_ ? "" : "pods with volumes are indexed wrongly";
}

}  // namespace tutti::engine
