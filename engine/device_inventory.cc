// SPDX-License-Identifier: Apache-2.0
// See device_inventory.h.
#include "engine/device_inventory.h"

#include <algorithm>

namespace tutti::engine {
namespace {

// No part of a device's name can contain it.
constexpr char kSeparator = '\n';

// Instead of a place.
constexpr int32_t kNowhere = -1;
constexpr int32_t kSeveral = -2;

std::string IdText(const std::string& driver, const std::string& pool, const std::string& device) {
  return driver + kSeparator + pool + kSeparator + device;
}

bool HasPolicy(const api::Device& device) {
  return std::any_of(device.capacity.begin(), device.capacity.end(),
                     [](const auto& entry) { return entry.second.policy.has_value(); });
}

}  // namespace

// --- ids
// ------------------------------------------------------------------------------------------------

int32_t DeviceInventory::AcquireId(const std::string& driver, const std::string& pool,
                                   const std::string& device) {
  const int32_t id = ids_.Acquire(IdText(driver, pool, device));
  id_limit_ = std::max(id_limit_, static_cast<size_t>(id) + 1);
  return id;
}

void DeviceInventory::HoldId(int32_t id) {
  ids_.Hold(id);
}

void DeviceInventory::ReleaseId(int32_t id) {
  ids_.Release(id);
}

int32_t DeviceInventory::FindId(const std::string& driver, const std::string& pool,
                                const std::string& device) const {
  return ids_.Find(IdText(driver, pool, device));
}

std::string DeviceInventory::NameOf(int32_t id) const {
  std::string text = ids_.Text(id);
  std::replace(text.begin(), text.end(), kSeparator, '/');
  return text;
}

// --- slices
// ---------------------------------------------------------------------------------------------

int32_t DeviceInventory::TakePlace() {
  if (free_places_.empty()) {
    places_.emplace_back();
    return static_cast<int32_t>(places_.size()) - 1;
  }
  const int32_t place = free_places_.back();
  free_places_.pop_back();
  return place;
}

void DeviceInventory::Found(int32_t id, int32_t place) {
  const auto index = static_cast<size_t>(id);
  if (index >= place_of_id_.size())
    place_of_id_.resize(index + 1, kNowhere);
  int32_t& known = place_of_id_[index];
  known = known == kNowhere || known == place ? place : kSeveral;
}

void DeviceInventory::Lost(int32_t id, int32_t place) {
  int32_t& known = place_of_id_[static_cast<size_t>(id)];
  if (known == place) {
    known = kNowhere;
  } else if (known == kSeveral) {  // rare: a pool whose generations overlap
    known = kNowhere;
    for (size_t other = 0; other < places_.size(); ++other) {
      if (places_[other].id == id && static_cast<int32_t>(other) != place)
        Found(id, static_cast<int32_t>(other));
    }
  }
}

const std::string* DeviceInventory::OnlyNodeOf(int32_t id) const {
  static const std::string kNone;
  const auto index = static_cast<size_t>(id);
  const int32_t place = index < place_of_id_.size() ? place_of_id_[index] : kNowhere;
  if (place == kNowhere)
    return &kNone;
  return place == kSeveral || IsWide(place) ? nullptr : &places_[place].slice->node_name;
}

bool DeviceInventory::IsWide(int32_t place) const {
  const api::ResourceSlice& slice = *places_[place].slice;
  if (slice.node_name.empty())
    return true;
  if (places_[place].charges.empty())
    return false;
  const auto pool = pools_.find({slice.driver, slice.pool});
  return pool == pools_.end() || !pool->second.one_node;
}

bool DeviceInventory::SelectsWide(const std::vector<int32_t>& selectors) const {
  for (const PoolKey& key : wider_pools_) {
    for (const auto& [number, generation] : pools_.at(key).generations) {
      for (const int32_t place : generation.devices) {
        if (IsWide(place) &&
            std::none_of(selectors.begin(), selectors.end(), [&](int32_t selector) {
              return Select(selector, place) == Selection::kDiffers;
            })) {
          return true;
        }
      }
    }
  }
  return false;
}

void DeviceInventory::FreePlace(int32_t place) {
  Lost(places_[place].id, place);
  ReleaseId(places_[place].id);
  places_[place] = PublishedDevice{};
  free_places_.push_back(place);
  for (SelectorState& selector : selectors_) {
    if (static_cast<size_t>(place) < selector.by_place.size())
      selector.by_place[place] = Selection::kUnknown;
  }
}

bool DeviceInventory::SetSlice(std::shared_ptr<const api::ResourceSlice> slice) {
  SliceState& state = slices_[slice->meta.name];
  if (state.slice != nullptr && api::SameSpec(*state.slice, *slice))
    return false;
  const SliceState old = state;
  const PoolKey key{slice->driver, slice->pool};
  // A device that stays as it is keeps its place, and with it what selectors said of it.
  std::map<std::string, int32_t> reusable;
  if (old.slice != nullptr && old.slice->driver == slice->driver &&
      old.slice->pool == slice->pool) {
    for (size_t i = 0; i < old.places.size(); ++i)
      reusable.try_emplace(old.slice->devices[i].name, static_cast<int32_t>(i));
  }
  for (const int32_t place : old.places)
    Lost(places_[place].id, place);
  std::vector<bool> kept(old.places.size(), false);
  std::vector<int32_t> places;
  for (const api::Device& device : slice->devices) {
    const auto same = reusable.find(device.name);
    if (same != reusable.end() && !kept[same->second] &&
        old.slice->devices[same->second] == device) {
      kept[same->second] = true;
      places.push_back(old.places[same->second]);
    } else {
      places.push_back(TakePlace());
      places_[places.back()].id = AcquireId(slice->driver, slice->pool, device.name);
    }
    PublishedDevice& published = places_[places.back()];
    Found(published.id, places.back());
    published.device = &device;
    published.slice = slice.get();
    published.plain_capacity = !HasPolicy(device);
  }
  for (size_t i = 0; i < old.places.size(); ++i) {
    if (!kept[i])
      FreePlace(old.places[i]);
  }
  device_count_ += places.size();
  device_count_ -= old.places.size();
  if (old.slice != nullptr)
    Unlink(old);
  state.slice = std::move(slice);
  state.places = std::move(places);
  pools_[key].slices.insert(state.slice->meta.name);
  if (!state.slice->node_name.empty())
    pools_of_node_[state.slice->node_name].insert(key);
  if (old.slice != nullptr && PoolKey{old.slice->driver, old.slice->pool} != key)
    Rebuild({old.slice->driver, old.slice->pool});
  Rebuild(key);
  return true;
}

bool DeviceInventory::RemoveSlice(const std::string& name) {
  const auto it = slices_.find(name);
  if (it == slices_.end())
    return false;
  const SliceState old = std::move(it->second);
  slices_.erase(it);
  for (const int32_t place : old.places)
    FreePlace(place);
  device_count_ -= old.places.size();
  Unlink(old);
  Rebuild({old.slice->driver, old.slice->pool});
  return true;
}

// Takes a slice out of its pool. The caller rebuilds the pool.
void DeviceInventory::Unlink(const SliceState& state) {
  const api::ResourceSlice& slice = *state.slice;
  const PoolKey key{slice.driver, slice.pool};
  PoolState& pool = pools_[key];
  pool.slices.erase(slice.meta.name);
  if (slice.node_name.empty())
    return;
  ForgetView(slice.node_name);
  const bool others =
      std::any_of(pool.slices.begin(), pool.slices.end(), [&](const std::string& name) {
        const auto it = slices_.find(name);
        return it != slices_.end() && it->second.slice->node_name == slice.node_name;
      });
  if (others)
    return;
  const auto of_node = pools_of_node_.find(slice.node_name);
  of_node->second.erase(key);
  if (of_node->second.empty())
    pools_of_node_.erase(of_node);
}

// Brings everything that depends on a pool's slices up to date.
void DeviceInventory::Rebuild(const PoolKey& key) {
  const auto it = pools_.find(key);
  PoolState& pool = it->second;
  const bool was_wide = pool.wide;
  const std::string old_problem = pool.far_problem;
  wide_pools_.erase(key);
  wider_pools_.erase(key);
  far_problems_.erase(key);
  pool.generations.clear();
  pool.wide = false;
  pool.far_problem.clear();
  if (pool.slices.empty()) {
    pools_.erase(it);
    if (was_wide || !old_problem.empty())
      ForgetViews();
    return;
  }
  const std::string& first_node = slices_.at(*pool.slices.begin()).slice->node_name;
  pool.one_node = !first_node.empty();
  for (const std::string& name : pool.slices) {
    const SliceState& state = slices_.at(name);
    pool.generations[state.slice->generation].slices.push_back(name);
    pool.one_node &= state.slice->node_name == first_node;
    if (!state.slice->node_name.empty())
      ForgetView(state.slice->node_name);
    else if (state.slice->shared_counters.empty())
      pool.wide = true;
  }
  for (auto& [number, generation] : pool.generations)
    BuildGeneration(generation);
  if (pool.wide)
    wide_pools_.insert(key);
  if (!pool.one_node)
    wider_pools_.insert(key);
  if (pool.wide || was_wide)
    ForgetViews();
  // What a node sees that has none of the devices: the counters only, which count everywhere.
  PoolView far;
  if (View(key, pool, "", far)) {
    if (far.incomplete)
      pool.far_problem = "resource pool " + far.Name() + " is being updated";
    else if (!far.invalid.empty())
      pool.far_problem = "resource pool " + far.Name() + " is invalid: " + far.invalid;
    if (!pool.far_problem.empty() && !pool.wide)
      far_problems_.insert(key);
  }
  if (pool.far_problem != old_problem)
    ForgetViews();
}

void DeviceInventory::ForgetView(const std::string& node) {
  views_.erase(node);
  changes_.nodes.push_back(node);
}

void DeviceInventory::ForgetViews() {
  views_.clear();
  changes_.all = true;
}

void DeviceInventory::BuildGeneration(PoolGeneration& generation) {
  std::map<std::pair<std::string, std::string>, int32_t> index;
  std::set<std::string> sets;
  for (const std::string& name : generation.slices) {
    for (const api::CounterSet& set : slices_.at(name).slice->shared_counters) {
      if (!sets.insert(set.name).second) {
        generation.invalid = "duplicate counter set " + set.name;
        continue;
      }
      for (const auto& [counter, total] : set.counters) {
        index[{set.name, counter}] = static_cast<int32_t>(generation.counters.size());
        generation.counters.push_back({set.name, counter, total});
      }
    }
  }
  for (const std::string& name : generation.slices) {
    for (const int32_t place : slices_.at(name).places) {
      generation.devices.push_back(place);
      PublishedDevice& published = places_[place];
      published.charges.clear();
      for (const api::CounterConsumption& part : published.device->consumes) {
        if (!sets.contains(part.counter_set) && generation.invalid.empty())
          generation.invalid = "counter set " + part.counter_set + " not found";
        for (const auto& [counter, amount] : part.counters) {
          const auto at = index.find({part.counter_set, counter});
          if (at != index.end()) {
            published.charges.emplace_back(at->second, amount);
          } else if (generation.invalid.empty()) {
            generation.invalid =
                "counter " + counter + " not found in counter set " + part.counter_set;
          }
        }
      }
    }
  }
}

// --- what a node sees
// -----------------------------------------------------------------------------------

void DeviceInventory::NodeChanged(const std::string& node) {
  ForgetView(node);
}

bool DeviceInventory::DeviceIsHere(const api::Device& device, const std::string& node) const {
  if (!device.node_name.empty())
    return device.node_name == node;
  if (device.all_nodes)
    return true;
  return device.node_selector && labels_.Matches(*device.node_selector, node);
}

bool DeviceInventory::Relevant(const api::ResourceSlice& slice, const std::string& node) const {
  if (!slice.shared_counters.empty())
    return true;
  if (node.empty())
    return false;
  if (!slice.node_name.empty())
    return slice.node_name == node;
  if (slice.all_nodes)
    return true;
  if (slice.node_selector)
    return labels_.Matches(*slice.node_selector, node);
  return slice.per_device_nodes &&
         std::any_of(slice.devices.begin(), slice.devices.end(),
                     [&](const api::Device& device) { return DeviceIsHere(device, node); });
}

bool DeviceInventory::View(const PoolKey& key, const PoolState& pool, const std::string& node,
                           PoolView& out) const {
  std::vector<const SliceState*> relevant;  // by name
  int64_t number = 0;
  for (const std::string& name : pool.slices) {
    const SliceState& state = slices_.at(name);
    if (!Relevant(*state.slice, node))
      continue;
    if (!relevant.empty() && state.slice->generation < number)
      continue;
    if (!relevant.empty() && state.slice->generation > number)
      relevant.clear();
    number = state.slice->generation;
    relevant.push_back(&state);
  }
  if (relevant.empty())
    return false;
  out.driver = key.first;
  out.pool = key.second;
  const PoolGeneration& generation = pool.generations.at(number);
  const auto expected =
      static_cast<size_t>(std::max<int64_t>(0, relevant.front()->slice->slice_count));
  if (relevant.size() != expected) {
    // Some slices aren't for this node: count them all, and look for a newer generation.
    if (pool.generations.rbegin()->first > number)
      return false;
    if (generation.slices.size() != expected) {
      out.incomplete = true;
      return true;
    }
  }
  out.generation = &generation;
  std::set<std::string> names;
  for (const SliceState* state : relevant) {
    if (!state->slice->shared_counters.empty())
      continue;
    for (size_t i = 0; i < state->places.size(); ++i) {
      const api::Device& device = state->slice->devices[i];
      if (!names.insert(device.name).second && out.invalid.empty())
        out.invalid = "duplicate device name " + device.name;
      out.binding |= !device.binding_conditions.empty();
      out.devices.push_back(
          {state->places[i], !state->slice->per_device_nodes || DeviceIsHere(device, node)});
    }
  }
  if (out.invalid.empty())
    out.invalid = generation.invalid;
  if (!out.invalid.empty()) {
    out.devices.clear();
    out.binding = false;
  }
  return true;
}

std::set<DeviceInventory::PoolKey> DeviceInventory::Near(const std::string& node) const {
  std::set<PoolKey> near = wide_pools_;
  if (const auto local = pools_of_node_.find(node); local != pools_of_node_.end())
    near.insert(local->second.begin(), local->second.end());
  return near;
}

std::string DeviceInventory::FarProblem(const std::string& node) const {
  if (far_problems_.empty())
    return "";
  const std::set<PoolKey> near = Near(node);
  for (const PoolKey& key : far_problems_) {
    if (!near.contains(key))
      return pools_.at(key).far_problem;
  }
  return "";
}

NodeView DeviceInventory::BuildView(const std::string& node) const {
  NodeView view;
  for (const PoolKey& key : Near(node)) {
    PoolView pool;
    if (View(key, pools_.at(key), node, pool))
      view.pools.push_back(std::move(pool));
  }
  // Keys are sorted; pools with binding conditions come last.
  std::stable_partition(view.pools.begin(), view.pools.end(),
                        [](const PoolView& pool) { return !pool.binding; });
  return view;
}

const NodeView& DeviceInventory::ViewOf(const std::string& node) const {
  const auto known = views_.find(node);
  if (known != views_.end())
    return known->second;
  NodeView& view = views_.emplace(node, BuildView(node)).first->second;
  view.serial = ++last_serial_;
  return view;
}

// --- classes
// --------------------------------------------------------------------------------------------

bool DeviceInventory::SetClass(const api::DeviceClass& device_class) {
  const auto it = classes_.find(device_class.meta.name);
  if (it != classes_.end() && it->second.selectors == device_class.selectors &&
      it->second.extended_resource_name == device_class.extended_resource_name &&
      it->second.meta.created == device_class.meta.created) {
    return false;
  }
  classes_[device_class.meta.name] = device_class;
  return true;
}

bool DeviceInventory::RemoveClass(const std::string& name) {
  return classes_.erase(name) > 0;
}

std::vector<int32_t> DeviceInventory::DevicesOf(const std::string& driver) const {
  std::vector<int32_t> out;
  for (auto it = pools_.lower_bound({driver, ""}); it != pools_.end() && it->first.first == driver;
       ++it) {
    if (it->second.generations.empty())
      continue;
    const PoolGeneration& newest = it->second.generations.rbegin()->second;
    const auto slice = slices_.find(newest.slices.front());
    if (slice != slices_.end() &&
        slice->second.slice->slice_count == static_cast<int64_t>(newest.slices.size()))
      out.insert(out.end(), newest.devices.begin(), newest.devices.end());
  }
  return out;
}

const api::DeviceClass* DeviceInventory::FindClass(const std::string& name) const {
  const auto it = classes_.find(name);
  return it == classes_.end() ? nullptr : &it->second;
}

const api::DeviceClass* DeviceInventory::ClassOfResource(const std::string& resource) const {
  if (resource.starts_with(api::kImplicitResourcePrefix))
    return FindClass(resource.substr(api::kImplicitResourcePrefix.size()));
  const api::DeviceClass* best = nullptr;
  for (const auto& [name, device_class] : classes_) {  // of equally old ones the first by name
    if (device_class.extended_resource_name == resource && !resource.empty() &&
        (best == nullptr || device_class.meta.created > best->meta.created)) {
      best = &device_class;
    }
  }
  return best;
}

std::set<std::string> DeviceInventory::MappedResources() const {
  std::set<std::string> out;
  for (const auto& [name, device_class] : classes_) {
    if (!device_class.extended_resource_name.empty())
      out.insert(device_class.extended_resource_name);
  }
  return out;
}

// --- selectors
// ------------------------------------------------------------------------------------------

int32_t DeviceInventory::Selector(const std::string& expression) const {
  const auto [it, added] =
      selector_ids_.try_emplace(expression, static_cast<int32_t>(selectors_.size()));
  if (added) {
    SelectorState state;
    if (auto compiled = api::cel::DeviceSelector::Compile(expression))
      state.compiled = std::move(*compiled);
    else
      state.error = compiled.error().message;
    selectors_.push_back(std::move(state));
  }
  return it->second;
}

Selection DeviceInventory::Select(int32_t selector, int32_t place) const {
  SelectorState& state = selectors_[selector];
  if (state.compiled == nullptr)
    return Selection::kError;
  if (state.by_place.size() < places_.size())
    state.by_place.resize(places_.size(), Selection::kUnknown);
  Selection& known = state.by_place[place];
  if (known == Selection::kUnknown) {
    const Result<bool> matches = state.compiled->Matches(places_[place].device->facts);
    known = !matches ? Selection::kError : *matches ? Selection::kMatches : Selection::kDiffers;
  }
  return known;
}

std::string DeviceInventory::SelectorError(int32_t selector, int32_t place) const {
  const SelectorState& state = selectors_[selector];
  if (state.compiled == nullptr)
    return "does not compile: " + state.error;
  const Result<bool> matches = state.compiled->Matches(places_[place].device->facts);
  return matches ? "" : matches.error().message;
}

void DeviceInventory::TrimSelectors(size_t limit) {
  if (selectors_.size() <= limit)
    return;
  selectors_.clear();
  selector_ids_.clear();
}

// --- self-check
// -----------------------------------------------------------------------------------------

std::string DeviceInventory::SanityCheck() const {
  std::set<int32_t> used;
  std::map<PoolKey, std::set<std::string>> pools;
  size_t devices = 0;
  for (const auto& [name, state] : slices_) {
    if (state.places.size() != state.slice->devices.size())
      return "slice " + name + " has a wrong number of places";
    pools[{state.slice->driver, state.slice->pool}].insert(name);
    for (size_t i = 0; i < state.places.size(); ++i) {
      const PublishedDevice& published = places_[state.places[i]];
      const api::Device& device = state.slice->devices[i];
      if (!used.insert(state.places[i]).second)
        return "slice " + name + ": a place is used twice";
      if (published.device != &device || published.slice != state.slice.get())
        return "slice " + name + ": device " + device.name + " has lost its place";
      if (published.id != FindId(state.slice->driver, state.slice->pool, device.name))
        return "slice " + name + ": device " + device.name + " has a wrong id";
      ++devices;
    }
  }
  if (devices != device_count_)
    return "the devices are counted wrong";
  if (used.size() + free_places_.size() != places_.size())
    return "places are lost";
  std::map<int32_t, int32_t> by_id;
  for (const int32_t place : used) {
    const auto [it, added] = by_id.try_emplace(places_[place].id, place);
    if (!added)
      it->second = kSeveral;
  }
  for (size_t id = 0; id < place_of_id_.size(); ++id) {
    const auto it = by_id.find(static_cast<int32_t>(id));
    if (place_of_id_[id] != (it == by_id.end() ? kNowhere : it->second))
      return "a device is sought at a wrong place";
  }
  if (pools.size() != pools_.size())
    return "a pool is missing or kept without need";
  for (const auto& [key, pool] : pools_) {
    if (pools[key] != pool.slices)
      return "pool " + key.first + "/" + key.second + " has a wrong set of slices";
  }
  for (const auto& [node, view] : views_) {
    const NodeView again = BuildView(node);
    const bool same = std::equal(
        view.pools.begin(), view.pools.end(), again.pools.begin(), again.pools.end(),
        [](const PoolView& a, const PoolView& b) {
          return a.driver == b.driver && a.pool == b.pool && a.incomplete == b.incomplete &&
                 a.invalid == b.invalid && a.generation == b.generation &&
                 std::equal(a.devices.begin(), a.devices.end(), b.devices.begin(), b.devices.end(),
                            [](const PoolView::Device& x, const PoolView::Device& y) {
                              return x.place == y.place && x.here == y.here;
                            });
        });
    if (!same)
      return "the view of node " + node + " is stale";
  }
  for (const SelectorState& selector : selectors_) {
    for (size_t place = 0; place < selector.by_place.size(); ++place) {
      const Selection known = selector.by_place[place];
      if (known == Selection::kUnknown)
        continue;
      if (!used.contains(static_cast<int32_t>(place)))
        return "a selector remembers a device that is gone";
      const Result<bool> matches = selector.compiled->Matches(places_[place].device->facts);
      if (known != (!matches   ? Selection::kError
                    : *matches ? Selection::kMatches
                               : Selection::kDiffers))
        return "a selector remembers a wrong answer";
    }
  }
  return "";
}

}  // namespace tutti::engine
