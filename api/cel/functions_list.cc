// SPDX-License-Identifier: Apache-2.0
// Lists and maps: the API server's list library, the list, set and two-variable extensions,
// optional values.
#include <algorithm>
#include <numeric>

#include "api/cel/functions.h"

namespace tutti::api::cel {
namespace {

bool IsList(const CallFrame& call, size_t i) {
  return call.count > i && call.args[i].kind == Kind::kList;
}

// Overloads of list functions are told apart by the first element, when the program runs.
bool FirstIs(const Value& list, bool (*test)(Kind)) {
  return list.list->size == 0 || test(ListGet(*list.list, 0).kind);
}

bool IsSummable(Kind kind) {
  return kind == Kind::kInt || kind == Kind::kUint || kind == Kind::kDouble ||
         kind == Kind::kDuration;
}

// -1: the smallest, 1: the largest.
Value Extreme(const CallFrame& call, int64_t sign) {
  if (!IsList(call, 0) || !FirstIs(call.args[0], IsComparable)) {
    return NoSuchOverload();
  }
  const ListObject& list = *call.args[0].list;
  if (list.size == 0) {
    return call.context.Error(sign > 0 ? "max called on empty list" : "min called on empty list");
  }
  Value best = ListGet(list, 0);
  for (size_t i = 1; i < list.size; ++i) {
    if (!call.context.Work(1)) {
      return TooLarge();
    }
    const Value next = ListGet(list, i);
    if (!IsComparable(next.kind)) {
      return NoSuchOverload();
    }
    const Value order = Compare(best, next);
    if (order.kind == Kind::kInt && order.integer == -sign) {
      best = next;
    }
  }
  return best;
}

Value Sorted(const CallFrame& call, const Value& list, const Value& keys) {
  const size_t size = ListSize(list);
  if (size != ListSize(keys)) {
    return call.context.Error("sortBy: as many keys as elements are needed");
  }
  if (size == 0) {
    return list;
  }
  const Kind kind = ListGet(*keys.list, 0).kind;
  if (!IsComparable(kind)) {
    return call.context.Error("list elements must be comparable");
  }
  Value* items = call.context.NewValues(size);
  if (items == nullptr || !call.context.Work(size * 8)) {
    return TooLarge();
  }
  std::vector<std::pair<Value, size_t>> order(size);
  for (size_t i = 0; i < size; ++i) {
    order[i] = {ListGet(*keys.list, i), i};
    if (order[i].first.kind != kind && size > 1) {
      return call.context.Error("list elements must have the same type");
    }
  }
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    const Value compared = Compare(a.first, b.first);
    return compared.kind == Kind::kInt && compared.integer < 0;
  });
  for (size_t i = 0; i < size; ++i) {
    items[i] = ListGet(*list.list, order[i].second);
  }
  auto* out = call.context.New<ListObject>();
  out->items = items;
  out->size = size;
  return ListValue(out);
}

// False: too large.
bool Flatten(Context& context, const Value& list, int64_t depth, std::vector<Value>& out) {
  for (size_t i = 0; i < ListSize(list); ++i) {
    if (!context.Work(1) || out.size() > Context::kMaxElements) {
      return false;
    }
    const Value item = ListGet(*list.list, i);
    if (item.kind == Kind::kList && depth > 0) {
      if (!Flatten(context, item, depth - 1, out)) {
        return false;
      }
    } else {
      out.push_back(item);
    }
  }
  return true;
}

// The first element of `items` that isn't in `list`; kBool true if all are.
Value ContainsAll(Context& context, const Value& list, const Value& items) {
  for (size_t i = 0; i < ListSize(items); ++i) {
    const std::array<Value, 2> args = {ListGet(*items.list, i), list};
    const Value contained = RunIn(CallFrame{context, args.data(), 2, nullptr, nullptr});
    if (!contained.IsTrue()) {
      return contained;
    }
  }
  return Bool(true);
}

bool IsZeroValue(const Value& value) {
  switch (value.kind) {
    case Kind::kNull:
      return true;
    case Kind::kBool:
      return !value.boolean;
    case Kind::kInt:
    case Kind::kUint:
    case Kind::kDuration:
      return value.integer == 0;
    case Kind::kDouble:
      return value.number == 0;
    case Kind::kString:
    case Kind::kBytes:
      return value.size == 0;
    case Kind::kList:
      return ListSize(value) == 0;
    case Kind::kMap:
      return MapSize(value) == 0;
    case Kind::kTimestamp:
      return value.integer == -62135596800 && value.nanos == 0;
    default:
      return false;
  }
}

Value At(const CallFrame& call, bool last) {
  if (!IsList(call, 0)) {
    return NoSuchOverload();
  }
  const ListObject& list = *call.args[0].list;
  return list.size == 0 ? OptionalNone()
                        : call.context.Optional(ListGet(list, last ? list.size - 1 : 0));
}

}  // namespace

Value ListIndexOf(const CallFrame& call, bool last) {
  const ListObject& list = *call.args[0].list;
  for (size_t step = 0; step < list.size; ++step) {
    const size_t i = last ? list.size - 1 - step : step;
    if (!call.context.Work(1)) {
      return TooLarge();
    }
    const Value equal = EqualMethod(call.context, ListGet(list, i), call.args[1]);
    if (equal.IsFatal()) {
      return equal;
    }
    if (equal.IsTrue()) {
      return Int(static_cast<int64_t>(i));
    }
  }
  return Int(-1);
}

Value RunIsSorted(const CallFrame& call) {
  if (!IsList(call, 0) || !FirstIs(call.args[0], IsComparable)) {
    return NoSuchOverload();
  }
  const ListObject& list = *call.args[0].list;
  for (size_t i = 1; i < list.size; ++i) {
    if (!call.context.Work(1)) {
      return TooLarge();
    }
    const Value next = ListGet(list, i);
    if (!IsComparable(next.kind)) {
      return NoSuchOverload();
    }
    const Value order = Compare(ListGet(list, i - 1), next);
    if (order.kind == Kind::kInt && order.integer > 0) {
      return Bool(false);
    }
  }
  return Bool(true);
}

Value RunSum(const CallFrame& call) {
  if (!IsList(call, 0) || !FirstIs(call.args[0], IsSummable)) {
    return NoSuchOverload();
  }
  const ListObject& list = *call.args[0].list;
  // An empty list has the zero of its static type, or of int.
  Value sum = Int(0);
  if (list.size > 0) {
    sum.kind = ListGet(list, 0).kind;
  } else if (call.overload != nullptr) {
    const TypeKind kind = call.overload->result->kind;
    sum.kind = kind == TypeKind::kUint       ? Kind::kUint
               : kind == TypeKind::kDouble   ? Kind::kDouble
               : kind == TypeKind::kDuration ? Kind::kDuration
                                             : Kind::kInt;
  }
  for (size_t i = 0; i < list.size; ++i) {
    if (!call.context.Work(1)) {
      return TooLarge();
    }
    const std::array<Value, 2> args = {sum, ListGet(list, i)};
    sum = RunAdd(CallFrame{call.context, args.data(), 2, nullptr, nullptr});
    if (sum.IsError()) {
      return sum;
    }
  }
  return sum;
}

Value RunMax(const CallFrame& call) {
  return Extreme(call, 1);
}
Value RunMin(const CallFrame& call) {
  return Extreme(call, -1);
}

Value RunSlice(const CallFrame& call) {
  if (!IsList(call, 0) || call.args[1].kind != Kind::kInt || call.args[2].kind != Kind::kInt) {
    return NoSuchOverload();
  }
  const ListObject& list = *call.args[0].list;
  const int64_t begin = call.args[1].integer;
  const int64_t end = call.args[2].integer;
  if (begin < 0 || end < begin || static_cast<uint64_t>(end) > list.size) {
    return Fail(Failure::kIndexOutOfRange);
  }
  const auto size = static_cast<size_t>(end - begin);
  Value* items = call.context.NewValues(size);
  if (items == nullptr) {
    return TooLarge();
  }
  for (size_t i = 0; i < size; ++i) {
    items[i] = ListGet(list, static_cast<size_t>(begin) + i);
  }
  auto* out = call.context.New<ListObject>();
  out->items = items;
  out->size = size;
  return ListValue(out);
}

Value RunFlatten(const CallFrame& call) {
  if (!IsList(call, 0) || (call.count == 2 && call.args[1].kind != Kind::kInt)) {
    return NoSuchOverload();
  }
  const int64_t depth = call.count == 2 ? call.args[1].integer : 1;
  if (depth < 0) {
    return call.context.Error("flatten: level must be non-negative");
  }
  std::vector<Value> out;
  return Flatten(call.context, call.args[0], depth, out) ? call.context.List(out) : TooLarge();
}

Value RunSort(const CallFrame& call) {
  return IsList(call, 0) ? Sorted(call, call.args[0], call.args[0]) : NoSuchOverload();
}

Value RunSortByKeys(const CallFrame& call) {
  return IsList(call, 0) && IsList(call, 1) ? Sorted(call, call.args[0], call.args[1])
                                            : NoSuchOverload();
}

Value RunRange(const CallFrame& call) {
  if (call.args[0].kind != Kind::kInt) {
    return NoSuchOverload();
  }
  const auto size = static_cast<size_t>(std::max<int64_t>(call.args[0].integer, 0));
  Value* items = call.context.NewValues(size);
  if (items == nullptr) {
    return TooLarge();
  }
  for (size_t i = 0; i < size; ++i) {
    items[i] = Int(static_cast<int64_t>(i));
  }
  auto* out = call.context.New<ListObject>();
  out->items = items;
  out->size = size;
  return ListValue(out);
}

Value RunReverse(const CallFrame& call) {
  if (!IsList(call, 0)) {
    return NoSuchOverload();
  }
  const ListObject& list = *call.args[0].list;
  Value* items = call.context.NewValues(list.size);
  if (items == nullptr) {
    return TooLarge();
  }
  for (size_t i = 0; i < list.size; ++i) {
    items[i] = ListGet(list, list.size - 1 - i);
  }
  auto* out = call.context.New<ListObject>();
  out->items = items;
  out->size = list.size;
  return ListValue(out);
}

Value RunDistinct(const CallFrame& call) {
  if (!IsList(call, 0)) {
    return NoSuchOverload();
  }
  const ListObject& list = *call.args[0].list;
  std::vector<Value> out;
  for (size_t i = 0; i < list.size; ++i) {
    const Value item = ListGet(list, i);
    bool seen = false;
    for (size_t k = 0; k < out.size() && !seen; ++k) {
      if (!call.context.Work(1)) {
        return TooLarge();
      }
      // cel-go leaves out the comparison at the same position.
      seen = k != i && EqualMethod(call.context, item, out[k]).IsTrue();
    }
    if (!seen) {
      out.push_back(item);
    }
  }
  return call.context.List(out);
}

Value RunSetsContains(const CallFrame& call) {
  return IsList(call, 0) && IsList(call, 1) ? ContainsAll(call.context, call.args[0], call.args[1])
                                            : NoSuchOverload();
}

Value RunSetsEquivalent(const CallFrame& call) {
  if (!IsList(call, 0) || !IsList(call, 1)) {
    return NoSuchOverload();
  }
  const Value first = ContainsAll(call.context, call.args[0], call.args[1]);
  return first.IsTrue() ? ContainsAll(call.context, call.args[1], call.args[0]) : first;
}

Value RunSetsIntersects(const CallFrame& call) {
  if (!IsList(call, 0) || !IsList(call, 1)) {
    return NoSuchOverload();
  }
  for (size_t i = 0; i < ListSize(call.args[0]); ++i) {
    const std::array<Value, 2> args = {ListGet(*call.args[0].list, i), call.args[1]};
    const Value contained = RunIn(CallFrame{call.context, args.data(), 2, nullptr, nullptr});
    if (contained.IsTrue() || contained.IsFatal()) {
      return contained;
    }
  }
  return Bool(false);
}

Value RunMapInsert(const CallFrame& call) {
  if (call.args[0].kind != Kind::kMap || call.args[0].map_form() != MapForm::kLiteral ||
      (call.count == 2 && call.args[1].kind != Kind::kMap)) {
    return NoSuchOverload();
  }
  Value map = call.args[0];
  auto* object = const_cast<MapObject*>(static_cast<const MapObject*>(map.map));
  if (!object->growing) {
    // Only the accumulator of transformMap comes here, and it grows.
    return NoSuchOverload();
  }
  std::vector<std::pair<Value, Value>> entries;
  if (call.count == 3) {
    entries.emplace_back(call.args[1], call.args[2]);
  } else {
    entries = MapEntries(call.context, call.args[1]);
  }
  for (const auto& [key, value] : entries) {
    bool found = false;
    const Value old = MapFind(call.context, map, key, found);
    if (old.IsFatal()) {
      return old;
    }
    if (found) {
      return call.context.Error("insert failed: the key is there already");
    }
    Value failure;
    if (!MapSet(call.context, *object, key, value, failure)) {
      return failure;
    }
  }
  return map;
}

Value RunIncludes(const CallFrame& call) {
  constexpr size_t kMaxAttributeValues = 48;  // ResourceSliceMaxAttributeValuesPerDevice
  const Value& target = call.args[0];
  if (target.kind != Kind::kList) {
    return Bool(EqualMethod(call.context, target, call.args[1]).IsTrue());
  }
  for (size_t i = 0; i < ListSize(target); ++i) {
    if (i >= kMaxAttributeValues) {
      return call.context.Error("'includes' can't be applied to lists of more than 48 values");
    }
    if (EqualMethod(call.context, ListGet(*target.list, i), call.args[1]).IsTrue()) {
      return Bool(true);
    }
  }
  return Bool(false);
}

Value RunOptionalOf(const CallFrame& call) {
  return call.context.Optional(call.args[0]);
}

Value RunOptionalOfNonZero(const CallFrame& call) {
  return IsZeroValue(call.args[0]) ? OptionalNone() : call.context.Optional(call.args[0]);
}

Value RunOptionalNone(const CallFrame& /*call*/) {
  return OptionalNone();
}

Value RunOptionalValue(const CallFrame& call) {
  if (call.args[0].kind != Kind::kOptional) {
    return NoSuchOverload();
  }
  return call.args[0].optional == nullptr ? Fail(Failure::kOptionalNone) : *call.args[0].optional;
}

Value RunHasValue(const CallFrame& call) {
  return call.args[0].kind == Kind::kOptional ? Bool(call.args[0].optional != nullptr)
                                              : NoSuchOverload();
}

Value RunUnwrap(const CallFrame& call) {
  if (!IsList(call, 0)) {
    return NoSuchOverload();
  }
  std::vector<Value> out;
  for (size_t i = 0; i < ListSize(call.args[0]); ++i) {
    if (!call.context.Work(1)) {
      return TooLarge();
    }
    const Value item = ListGet(*call.args[0].list, i);
    if (item.kind != Kind::kOptional) {
      return call.context.Error("a value in the list is not optional");
    }
    if (item.optional != nullptr) {
      out.push_back(*item.optional);
    }
  }
  return call.context.List(out);
}

Value RunFirst(const CallFrame& call) {
  return At(call, /*last=*/false);
}
Value RunLast(const CallFrame& call) {
  return At(call, /*last=*/true);
}

}  // namespace tutti::api::cel
