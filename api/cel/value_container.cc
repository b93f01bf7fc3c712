// SPDX-License-Identifier: Apache-2.0
// Lists and maps.
#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "api/cel/value.h"

namespace tutti::api::cel {
namespace {

constexpr size_t kSmallMap = 8;

uint64_t HashBytes(std::string_view text) {
  uint64_t hash = 1469598103934665603ULL;
  for (const char c : text) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211ULL;
  }
  return hash;
}

uint64_t HashKey(const Value& key) {
  const auto tag = static_cast<uint64_t>(key.kind) * 0x9E3779B97F4A7C15ULL;
  switch (key.kind) {
    case Kind::kBool:
      return tag + (key.boolean ? 1 : 0);
    case Kind::kInt:
    case Kind::kDuration:
    case Kind::kTimestamp:
      return tag + static_cast<uint64_t>(key.integer) * 0xBF58476D1CE4E5B9ULL;
    case Kind::kUint:
      return tag + key.unsigned_integer * 0xBF58476D1CE4E5B9ULL;
    case Kind::kDouble:
      return tag + std::hash<double>()(key.number + 0.0);
    case Kind::kString:
    case Kind::kType:
      return tag + HashBytes(key.Text());
    default:
      return tag;
  }
}

// Go's == on the interface values: type and value are the same.
bool SameKey(const Value& a, const Value& b) {
  if (a.kind != b.kind) {
    return false;
  }
  switch (a.kind) {
    case Kind::kNull:
      return true;
    case Kind::kBool:
      return a.boolean == b.boolean;
    case Kind::kInt:
    case Kind::kDuration:
      return a.integer == b.integer;
    case Kind::kTimestamp:
      return a.integer == b.integer && a.nanos == b.nanos && a.zone_minutes == b.zone_minutes;
    case Kind::kUint:
      return a.unsigned_integer == b.unsigned_integer;
    case Kind::kDouble:
      return a.number == b.number;
    case Kind::kString:
    case Kind::kType:
      return a.Text() == b.Text();
    case Kind::kIp:
      return a.ip->width == b.ip->width && std::memcmp(a.ip->bytes, b.ip->bytes, 16) == 0;
    case Kind::kOptional:
      return a.optional == nullptr && b.optional == nullptr;
    default:
      return false;  // lists, maps and the like are compared by address, which never agrees
  }
}

bool Hashable(const Value& key) {
  return key.kind != Kind::kBytes && key.kind != Kind::kSemver && key.kind != Kind::kFormat;
}

// Entry index + 1, or 0.
size_t Locate(const MapObject& map, const Value& key) {
  if (map.index == nullptr) {
    for (size_t i = 0; i < map.used; ++i) {
      if (map.entries[i].present && SameKey(map.entries[i].key, key)) {
        return i + 1;
      }
    }
    return 0;
  }
  size_t slot = HashKey(key) & (map.index_size - 1);
  while (map.index[slot] != 0) {
    const MapObject::Entry& entry = map.entries[map.index[slot] - 1];
    if (entry.present && SameKey(entry.key, key)) {
      return map.index[slot];
    }
    slot = (slot + 1) & (map.index_size - 1);
  }
  return 0;
}

void InsertIndex(MapObject& map, size_t entry) {
  size_t slot = HashKey(map.entries[entry].key) & (map.index_size - 1);
  while (map.index[slot] != 0) {
    slot = (slot + 1) & (map.index_size - 1);
  }
  map.index[slot] = static_cast<uint32_t>(entry + 1);
}

bool LosslessInt(double value, int64_t& out) {
  if (!(value > -9223372036854775808.0 && value < 9223372036854775808.0)) {
    return false;
  }
  out = static_cast<int64_t>(value);
  return static_cast<double>(out) == value;
}

bool LosslessUint(double value, uint64_t& out) {
  if (!(value >= 0 && value < 18446744073709551616.0)) {
    return false;
  }
  out = static_cast<uint64_t>(value);
  return static_cast<double>(out) == value;
}

// The exact key, then the number of another type with the same value.
size_t LocateNumber(const MapObject& map, const Value& key) {
  if (map.size == 0) {
    return 0;
  }
  if (const size_t at = Locate(map, key); at != 0) {
    return at;
  }
  if (key.kind == Kind::kDouble) {
    if (int64_t i = 0; LosslessInt(key.number, i)) {
      if (const size_t at = Locate(map, Int(i)); at != 0) {
        return at;
      }
    }
    uint64_t u = 0;
    return LosslessUint(key.number, u) ? Locate(map, Uint(u)) : 0;
  }
  if (key.kind == Kind::kInt) {
    return key.integer >= 0 ? Locate(map, Uint(static_cast<uint64_t>(key.integer))) : 0;
  }
  if (key.kind == Kind::kUint) {
    return key.unsigned_integer <= INT64_MAX
               ? Locate(map, Int(static_cast<int64_t>(key.unsigned_integer)))
               : 0;
  }
  return 0;
}

using DomainAttributes = std::map<std::string, AttributeValue>;
using DomainCapacity = std::map<std::string, Quantity>;

template <typename Map>
const typename Map::mapped_type* Lookup(const Map& map, std::string_view key) {
  // The maps have no transparent comparison (their type is part of the contract); ids and domains
  // are short enough for the small-string buffer or cost one allocation.
  const auto it = map.find(std::string(key));
  return it == map.end() ? nullptr : &it->second;
}

const SelectorDevice& AsDevice(const Value& map) {
  return *static_cast<const SelectorDevice*>(map.map);
}

Value DeviceField(const SelectorDevice& device, std::string_view name, bool& found) {
  found = true;
  if (name == "driver") {
    return StringView(device.driver);
  }
  if (name == "attributes") {
    return MapValue(MapForm::kAttributes, &device);
  }
  if (name == "capacity") {
    return MapValue(MapForm::kCapacity, &device);
  }
  if (name == "allowMultipleAllocations") {
    return Bool(device.allow_multiple_allocations);
  }
  found = false;
  return Null();
}

}  // namespace

size_t ListSize(const Value& list) {
  return list.list->size;
}

Value ListGet(const ListObject& list, size_t index) {
  const ListObject* at = &list;
  while (at->form == ListObject::Form::kConcat) {
    if (index < at->first->size) {
      at = at->first;
    } else {
      index -= at->first->size;
      at = at->second;
    }
  }
  return index < at->size ? at->items[index] : Fail(Failure::kIndexOutOfRange);
}

bool AsIndex(const Value& value, int64_t& index) {
  switch (value.kind) {
    case Kind::kInt:
      index = value.integer;
      return true;
    case Kind::kUint:
      index = static_cast<int64_t>(value.unsigned_integer);
      return value.unsigned_integer <= INT64_MAX;
    case Kind::kDouble:
      return LosslessInt(value.number, index);
    default:
      return false;
  }
}

Value NewGrowingList(Context& context) {
  auto* list = context.New<ListObject>();
  list->form = ListObject::Form::kGrowing;
  return ListValue(list);
}

Value ListConcat(Context& context, const Value& a, const Value& b) {
  if (b.kind != Kind::kList) {
    return NoSuchOverload();
  }
  if (a.list->form == ListObject::Form::kGrowing) {
    // The accumulator grows in place, as in cel-go.
    auto* list = const_cast<ListObject*>(a.list);
    const size_t more = ListSize(b);
    if (list->size + more > list->capacity) {
      const size_t capacity = std::max(list->capacity * 2, list->size + std::max<size_t>(more, 4));
      Value* items = context.NewValues(capacity);
      if (items == nullptr) {
        return TooLarge();
      }
      std::copy(list->items, list->items + list->size, items);
      list->items = items;
      list->capacity = capacity;
    }
    for (size_t i = 0; i < more; ++i) {
      list->items[list->size] = ListGet(*b.list, i);
      ++list->size;
    }
    return a;
  }
  if (ListSize(a) == 0) {
    return b;
  }
  if (ListSize(b) == 0) {
    return a;
  }
  auto* list = context.New<ListObject>();
  list->form = ListObject::Form::kConcat;
  list->first = a.list;
  list->second = b.list;
  list->size = a.list->size + b.list->size;
  return list->size > (size_t{1} << 40) ? TooLarge() : ListValue(list);
}

size_t MapSize(const Value& map) {
  switch (map.map_form()) {
    case MapForm::kEmpty:
      return 0;
    case MapForm::kDevice:
      return 4;
    case MapForm::kAttributes:
    case MapForm::kAttributesOnly:
      return AsDevice(map).attributes.size();
    case MapForm::kCapacity:
    case MapForm::kCapacityOnly:
      return AsDevice(map).capacity.size();
    case MapForm::kDomainAttributes:
      return static_cast<const DomainAttributes*>(map.map)->size();
    case MapForm::kDomainCapacity:
      return static_cast<const DomainCapacity*>(map.map)->size();
    case MapForm::kLiteral:
      return static_cast<const MapObject*>(map.map)->size;
  }
  return 0;
}

Value MapFind(Context& context, const Value& map, const Value& key, bool& found) {
  found = false;
  const bool text = key.kind == Kind::kString;
  switch (map.map_form()) {
    case MapForm::kEmpty:
      return Null();
    case MapForm::kDevice:
      return text ? DeviceField(AsDevice(map), key.Text(), found) : Null();
    case MapForm::kAttributes:
    case MapForm::kAttributesOnly: {
      const auto* domain = text ? Lookup(AsDevice(map).attributes, key.Text()) : nullptr;
      found = domain != nullptr || map.map_form() == MapForm::kAttributes;
      return domain != nullptr ? MapValue(MapForm::kDomainAttributes, domain)
                               : MapValue(MapForm::kEmpty, nullptr);
    }
    case MapForm::kCapacity:
    case MapForm::kCapacityOnly: {
      const auto* domain = text ? Lookup(AsDevice(map).capacity, key.Text()) : nullptr;
      found = domain != nullptr || map.map_form() == MapForm::kCapacity;
      return domain != nullptr ? MapValue(MapForm::kDomainCapacity, domain)
                               : MapValue(MapForm::kEmpty, nullptr);
    }
    case MapForm::kDomainAttributes: {
      const auto& domain = *static_cast<const DomainAttributes*>(map.map);
      const AttributeValue* value = text ? Lookup(domain, key.Text()) : nullptr;
      found = value != nullptr;
      return found ? FromAttribute(context, *value) : Null();
    }
    case MapForm::kDomainCapacity: {
      const auto& domain = *static_cast<const DomainCapacity*>(map.map);
      const Quantity* value = text ? Lookup(domain, key.Text()) : nullptr;
      found = value != nullptr;
      return found ? QuantityValue(value, /*computed=*/false) : Null();
    }
    case MapForm::kLiteral: {
      const auto& object = *static_cast<const MapObject*>(map.map);
      if (object.size == 0) {
        return Null();
      }
      if (!Hashable(key)) {
        return Fail(Failure::kInternal, "a map can't be asked for a key of this type");
      }
      if (!context.Work(1)) {
        return TooLarge();
      }
      const size_t at = LocateNumber(object, key);
      found = at != 0;
      return found ? object.entries[at - 1].value : Null();
    }
  }
  return Null();
}

Value MapContains(Context& context, const Value& map, const Value& key) {
  Value strict = map;
  if (map.map_form() == MapForm::kAttributes) {
    strict.form = static_cast<uint8_t>(MapForm::kAttributesOnly);
  } else if (map.map_form() == MapForm::kCapacity) {
    strict.form = static_cast<uint8_t>(MapForm::kCapacityOnly);
  }
  bool found = false;
  const Value value = MapFind(context, strict, key, found);
  return value.IsFatal() ? value : Bool(found);
}

std::vector<std::pair<Value, Value>> MapEntries(Context& context, const Value& map) {
  std::vector<std::pair<Value, Value>> out;
  switch (map.map_form()) {
    case MapForm::kEmpty:
      break;
    case MapForm::kDevice:
      for (const std::string_view name :
           {"allowMultipleAllocations", "attributes", "capacity", "driver"}) {
        bool found = false;
        const Value value = DeviceField(AsDevice(map), name, found);
        out.emplace_back(StringView(name), value);
      }
      break;
    case MapForm::kAttributes:
    case MapForm::kAttributesOnly:
      for (const auto& [name, domain] : AsDevice(map).attributes) {
        out.emplace_back(StringView(name), MapValue(MapForm::kDomainAttributes, &domain));
      }
      break;
    case MapForm::kCapacity:
    case MapForm::kCapacityOnly:
      for (const auto& [name, domain] : AsDevice(map).capacity) {
        out.emplace_back(StringView(name), MapValue(MapForm::kDomainCapacity, &domain));
      }
      break;
    case MapForm::kDomainAttributes:
      for (const auto& [name, value] : *static_cast<const DomainAttributes*>(map.map)) {
        out.emplace_back(StringView(name), FromAttribute(context, value));
      }
      break;
    case MapForm::kDomainCapacity:
      for (const auto& [name, value] : *static_cast<const DomainCapacity*>(map.map)) {
        out.emplace_back(StringView(name), QuantityValue(&value, /*computed=*/false));
      }
      break;
    case MapForm::kLiteral: {
      const auto& object = *static_cast<const MapObject*>(map.map);
      for (size_t i = 0; i < object.used; ++i) {
        if (object.entries[i].present) {
          out.emplace_back(object.entries[i].key, object.entries[i].value);
        }
      }
      break;
    }
  }
  return out;
}

Value NewMap(Context& context, bool growing) {
  auto* map = context.New<MapObject>();
  map->growing = growing;
  return MapValue(MapForm::kLiteral, map);
}

bool MapSet(Context& context, MapObject& map, const Value& key, const Value& value,
            Value& failure) {
  if (!Hashable(key)) {
    failure = Fail(Failure::kInternal, "a key of this type can't be in a map");
    return false;
  }
  if (const size_t at = Locate(map, key); at != 0) {
    map.entries[at - 1].value = value;
    return true;
  }
  if (map.used == map.capacity) {
    const size_t capacity = std::max<size_t>(map.capacity * 2, kSmallMap);
    // Twice the entries of the values, so that the limit on elements holds for maps, too.
    if (context.NewValues(map.used == 0 ? kSmallMap : map.used) == nullptr) {
      failure = TooLarge();
      return false;
    }
    auto* entries = static_cast<MapObject::Entry*>(
        context.Allocate(capacity * sizeof(MapObject::Entry), alignof(MapObject::Entry)));
    std::uninitialized_default_construct_n(entries, capacity);
    std::copy(map.entries, map.entries + map.used, entries);
    map.entries = entries;
    map.capacity = capacity;
    if (capacity > kSmallMap) {
      map.index_size = capacity * 2;
      map.index = static_cast<uint32_t*>(
          context.Allocate(map.index_size * sizeof(uint32_t), alignof(uint32_t)));
      std::fill(map.index, map.index + map.index_size, 0U);
      for (size_t i = 0; i < map.used; ++i) {
        InsertIndex(map, i);
      }
    }
  }
  map.entries[map.used] = MapObject::Entry{key, value, true};
  ++map.used;
  ++map.size;
  if (map.index != nullptr) {
    InsertIndex(map, map.used - 1);
  }
  return true;
}

void MapErase(MapObject& map, const Value& key) {
  if (const size_t at = Locate(map, key); at != 0) {
    map.entries[at - 1].present = false;
    --map.size;
  }
}

}  // namespace tutti::api::cel
