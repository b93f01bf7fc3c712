// SPDX-License-Identifier: Apache-2.0
#include "api/cel/program.h"

#include <array>
#include <memory_resource>

namespace tutti::api::cel {
namespace {

constexpr uint64_t kListCost = 10;
constexpr uint64_t kMapCost = 30;

// A variable of a loop. Accumulators are computed when they are first looked at.
struct Slot {
  enum class State : uint8_t { kUnset, kPending, kSet };
  State state = State::kUnset;
  Value value;
  const Node* init = nullptr;
};

class Evaluation {
 public:
  Evaluation(Context& context, const SelectorDevice& device, Slot* slots)
      : context_(context), device_(device), slots_(slots) {}

  Value Evaluate(const Node& node) {
    switch (node.form) {
      case Node::Form::kConstant:
        return node.value;
      case Node::Form::kFolded:
        return Spent(node.cost, node.value);
      case Node::Form::kAttribute: {
        const Value value = Resolve(*node.attribute);
        return value.IsFatal() || node.attribute->root == Attribute::Root::kConditional
                   ? value
                   : Spent(1, value);
      }
      case Node::Form::kTest:
        return Test(node);
      case Node::Form::kCall:
        return Call(node);
      case Node::Form::kEquals:
      case Node::Form::kNotEquals:
        return Equality(node);
      case Node::Form::kAnd:
        return Logic(node, /*stop=*/false);
      case Node::Form::kOr:
        return Logic(node, /*stop=*/true);
      case Node::Form::kList:
        return List(node);
      case Node::Form::kMap:
        return Map(node);
      case Node::Form::kLoop:
        return Loop(node);
      case Node::Form::kInConstants:
        return InConstants(node);
      case Node::Form::kOptionalOr:
      case Node::Form::kOptionalOrValue:
        return OptionalOr(node);
    }
    return NoSuchOverload();
  }

 private:
  Value Spent(uint64_t cost, const Value& value) {
    context_.cost += cost;
    return context_.cost > kCostLimit && !value.IsFatal() ? Fail(Failure::kCostLimit) : value;
  }

  Value Charged(const Node& node, const Value* args, size_t count, const Value& result) {
    const std::optional<uint64_t> cost = CallCost(node.rule, args, count, result, context_);
    return cost ? Spent(*cost, result)
                : Fail(Failure::kInternal, "the cost of a call can't be told for these arguments");
  }

  // --- attributes -------------------------------------------------------------------------------

  Value Variable(int slot_number) {
    if (slot_number < 0) {
      return MapValue(MapForm::kDevice, &device_);
    }
    Slot& slot = slots_[slot_number];
    if (slot.state == Slot::State::kPending) {
      slot.state = Slot::State::kSet;
      Value value = Evaluate(*slot.init);
      // An empty list or map as the start of a loop is one that grows in place.
      if (value.kind == Kind::kList && ListSize(value) == 0) {
        value = NewGrowingList(context_);
      } else if (value.kind == Kind::kMap && MapSize(value) == 0) {
        value = NewMap(context_, /*growing=*/true);
      }
      slot.value = value;
    }
    return slot.value;
  }

  Value Resolve(const Attribute& attribute) {
    if (attribute.root == Attribute::Root::kConditional) {
      const Value condition = Evaluate(*attribute.operand);
      if (condition.kind == Kind::kBool) {
        return Resolve(condition.boolean ? *attribute.yes : *attribute.no);
      }
      return condition.IsError() ? condition : NoSuchOverload();
    }
    Value object = attribute.root == Attribute::Root::kVariable ? Variable(attribute.slot)
                                                                : Evaluate(*attribute.operand);
    if (object.IsError()) {
      return object;
    }
    bool optional = object.kind == Kind::kOptional;
    if (optional) {
      if (object.optional == nullptr) {
        return object;
      }
      object = Native(*object.optional);
    }
    for (const Qualifier& qualifier : attribute.qualifiers) {
      optional = optional || qualifier.optional;
      bool present = true;
      object = Qualify(qualifier, object, optional, present);
      if (object.IsError()) {
        return object;
      }
      if (!present) {
        return OptionalNone();
      }
    }
    return optional ? context_.Optional(object) : object;
  }

  // What is left of a value that cel-go takes out of an optional: its Go value, converted back.
  static Value Native(const Value& value) {
    switch (value.kind) {
      case Kind::kOptional:
        return value.optional == nullptr ? Null() : Native(*value.optional);
      case Kind::kQuantity:
      case Kind::kSemver:
      case Kind::kUrl:
      case Kind::kIp:
      case Kind::kCidr:
      case Kind::kFormat:
        return Fail(Failure::kInvalid, "unsupported conversion of a value taken from an optional");
      case Kind::kType: {
        Value text = value;
        text.kind = Kind::kString;
        return text;
      }
      case Kind::kMap: {
        Value map = value;
        if (map.map_form() == MapForm::kAttributes) {
          map.form = static_cast<uint8_t>(MapForm::kAttributesOnly);
        } else if (map.map_form() == MapForm::kCapacity) {
          map.form = static_cast<uint8_t>(MapForm::kCapacityOnly);
        }
        return map;
      }
      default:
        return value;
    }
  }

  // `lenient`: a missing element makes `present` false instead of an error.
  Value Qualify(const Qualifier& qualifier, const Value& object, bool lenient, bool& present) {
    if (object.IsError()) {
      return object;
    }
    Value key = qualifier.key;
    if (qualifier.node != nullptr) {
      key = qualifier.resolve ? Resolve(*qualifier.node->attribute) : Dynamic(*qualifier.node);
      if (key.IsError()) {
        return lenient ? key : Spent(1, key);
      }
      if (key.kind != Kind::kString && key.kind != Kind::kInt && key.kind != Kind::kUint &&
          key.kind != Kind::kBool && key.kind != Kind::kDouble) {
        const Value error = Fail(Failure::kBadIndex, TypeName(key));
        return lenient ? error : Spent(1, error);
      }
    }
    bool found = false;
    Value value = Element(qualifier, object, key, found);
    if (value.IsFatal()) {
      return value;
    }
    if (qualifier.test_only) {
      if (value.IsError()) {
        return lenient ? value : Spent(1, value);
      }
      if (lenient) {
        present = found;
        return found ? Spent(1, Bool(true)) : Null();
      }
      return Spent(1, Bool(found));
    }
    if (value.IsError() && !found) {
      return lenient ? value : Spent(1, value);
    }
    if (!found) {
      if (lenient) {
        present = false;
        return Null();
      }
      return Spent(1, Missing(object, key));
    }
    return Spent(1, value);
  }

  // An index that is neither constant nor an attribute is one attribute of its own.
  Value Dynamic(const Node& node) {
    Value value = Evaluate(node);
    if (value.kind == Kind::kOptional) {
      value = value.optional == nullptr ? value : context_.Optional(Native(*value.optional));
    }
    return value;
  }

  Value Missing(const Value& object, const Value& key) {
    if (object.kind == Kind::kList) {
      return Fail(Failure::kIndexOutOfRange);
    }
    const Value text = ToText(context_, key);
    return Fail(Failure::kNoSuchKey, text.IsError() ? std::string_view() : text.Text());
  }

  Value Element(const Qualifier& qualifier, const Value& object, const Value& key, bool& found) {
    if (object.kind == Kind::kMap) {
      if (!qualifier.text.empty()) {
        if (const Value value = FastElement(qualifier.text, object, found);
            value.kind != Kind::kFormat) {
          return value;
        }
      }
      return MapFind(context_, object, key, found);
    }
    if (object.kind == Kind::kList) {
      int64_t index = 0;
      if (!AsIndex(key, index)) {
        return Fail(Failure::kBadIndex, TypeName(key));
      }
      found = index >= 0 && static_cast<uint64_t>(index) < ListSize(object);
      return found ? ListGet(*object.list, static_cast<size_t>(index)) : Null();
    }
    return Null();  // nothing is in a value that is neither
  }

  // Looks into the device's maps without making a string of the key. kFormat: not one of them.
  Value FastElement(const std::string& key, const Value& object, bool& found) {
    switch (object.map_form()) {
      case MapForm::kAttributes: {
        const auto it = device_.attributes.find(key);
        found = true;
        return it == device_.attributes.end() ? MapValue(MapForm::kEmpty, nullptr)
                                              : MapValue(MapForm::kDomainAttributes, &it->second);
      }
      case MapForm::kCapacity: {
        const auto it = device_.capacity.find(key);
        found = true;
        return it == device_.capacity.end() ? MapValue(MapForm::kEmpty, nullptr)
                                            : MapValue(MapForm::kDomainCapacity, &it->second);
      }
      case MapForm::kDomainAttributes: {
        const auto& domain = *static_cast<const std::map<std::string, AttributeValue>*>(object.map);
        const auto it = domain.find(key);
        found = it != domain.end();
        return found ? FromAttribute(context_, it->second) : Null();
      }
      case MapForm::kDomainCapacity: {
        const auto& domain = *static_cast<const std::map<std::string, Quantity>*>(object.map);
        const auto it = domain.find(key);
        found = it != domain.end();
        return found ? QuantityValue(&it->second, /*computed=*/false) : Null();
      }
      default: {
        Value other;
        other.kind = Kind::kFormat;
        return other;
      }
    }
  }

  Value Test(const Node& node) {
    const Value value = Resolve(*node.attribute);
    if (value.IsFatal()) {
      return value;
    }
    if (node.attribute->root == Attribute::Root::kConditional) {
      context_.cost -= context_.cost > 0 ? 1 : 0;  // cel-go takes back what it never charged
    }
    if (value.kind == Kind::kOptional) {
      return Bool(value.optional != nullptr);
    }
    return value;
  }

  // --- calls ------------------------------------------------------------------------------------

  Value Call(const Node& node) {
    std::array<Value, 4> args;
    const size_t count = node.args.size();
    const bool strict = node.function->run != RunNotStrictlyFalse;
    Value error;
    bool failed = false;
    for (size_t i = 0; i < count; ++i) {
      args[i] = Evaluate(*node.args[i]);
      if (args[i].IsFatal()) {
        return args[i];
      }
      if (args[i].IsError() && strict && !failed) {
        failed = true;
        error = args[i];
        if (node.stops_at_error && i + 1 < count) {
          return error;  // the rest isn't looked at, and the call isn't charged
        }
      }
    }
    Value result = error;
    if (!failed && node.guarded && !Takes(*node.overload, args.data(), count)) {
      result = NoSuchOverload();
    } else if (!failed) {
      result = node.function->run(
          CallFrame{context_, args.data(), count, node.overload, node.regex.get()});
      if (result.IsFatal()) {
        return result;
      }
    }
    return Charged(node, args.data(), count, result);
  }

  Value Equality(const Node& node) {
    const std::array<Value, 2> args = {Evaluate(*node.args[0]), Evaluate(*node.args[1])};
    Value result;
    if (args[0].IsError()) {
      result = args[0];
    } else if (args[1].IsError()) {
      result = args[1];
    } else {
      result = Equal(context_, args[0], args[1]);
      if (node.form == Node::Form::kNotEquals && !result.IsFatal()) {
        result = Bool(!result.IsTrue());  // what can't be compared is not equal
      }
    }
    if (args[0].IsFatal() || args[1].IsFatal()) {
      return args[0].IsFatal() ? args[0] : args[1];
    }
    return Charged(node, args.data(), 2, result);
  }

  Value Logic(const Node& node, bool stop) {
    Value error;
    bool failed = false;
    for (const Node* arg : node.args) {
      const Value value = Evaluate(*arg);
      if (value.IsFatal() || (value.kind == Kind::kBool && value.boolean == stop)) {
        return value;
      }
      if (value.kind != Kind::kBool && !failed) {
        failed = true;
        error = value.IsError() ? value : NoSuchOverload();
      }
    }
    return failed ? error : Bool(!stop);
  }

  Value InConstants(const Node& node) {
    const Value value = Evaluate(*node.args[0]);
    if (value.IsError()) {
      return value;
    }
    if (value.kind == Kind::kBytes || value.kind == Kind::kSemver || value.kind == Kind::kFormat) {
      return Fail(Failure::kInternal,
                  "a value of this type can't be looked for in a list of constants");
    }
    for (size_t i = 0; i < ListSize(node.value); ++i) {
      if (EqualMethod(context_, value, ListGet(*node.value.list, i)).IsTrue()) {
        return Bool(true);
      }
    }
    return Bool(false);
  }

  Value OptionalOr(const Node& node) {
    const Value left = Evaluate(*node.args[0]);
    if (left.kind != Kind::kOptional) {
      return left;
    }
    if (left.optional == nullptr) {
      return Evaluate(*node.args[1]);
    }
    return node.form == Node::Form::kOptionalOr ? left : *left.optional;
  }

  // --- literals ---------------------------------------------------------------------------------

  Value List(const Node& node) {
    Value* items = context_.NewValues(node.args.size());
    if (items == nullptr) {
      return TooLarge();
    }
    size_t size = 0;
    for (size_t i = 0; i < node.args.size(); ++i) {
      Value item = Evaluate(*node.args[i]);
      if (item.IsError()) {
        return item.IsFatal() ? item : Spent(kListCost, item);
      }
      if (node.optional[i]) {
        if (item.kind != Kind::kOptional) {
          return Spent(kListCost, context_.Error("an optional list element that is no optional"));
        }
        if (item.optional == nullptr) {
          continue;
        }
        item = *item.optional;
      }
      items[size++] = item;
    }
    auto* list = context_.New<ListObject>();
    list->items = items;
    list->size = size;
    return Spent(kListCost, ListValue(list));
  }

  Value Map(const Node& node) {
    const Value map = NewMap(context_, /*growing=*/false);
    auto* object = const_cast<MapObject*>(static_cast<const MapObject*>(map.map));
    for (size_t i = 0; i < node.args.size(); i += 2) {
      const Value key = Evaluate(*node.args[i]);
      if (key.IsError()) {
        return key.IsFatal() ? key : Spent(kMapCost, key);
      }
      Value value = Evaluate(*node.args[i + 1]);
      if (value.IsError()) {
        return value.IsFatal() ? value : Spent(kMapCost, value);
      }
      if (node.optional[i / 2]) {
        if (value.kind != Kind::kOptional) {
          return Spent(kMapCost, context_.Error("an optional map entry that is no optional"));
        }
        if (value.optional == nullptr) {
          MapErase(*object, key);
          continue;
        }
        value = *value.optional;
      }
      Value failure;
      if (!MapSet(context_, *object, key, value, failure)) {
        return failure;
      }
    }
    return Spent(kMapCost, map);
  }

  // --- loops ------------------------------------------------------------------------------------

  // False: the loop ends here; `fatal` may be set.
  bool Turn(const Node& node, Value& fatal) {
    if (!context_.Work(1)) {
      fatal = TooLarge();
      return false;
    }
    const Value condition = Evaluate(*node.condition);
    if (condition.IsFatal()) {
      fatal = condition;
      return false;
    }
    if (condition.IsFalse()) {
      return false;
    }
    const Value next = Evaluate(*node.step);
    Slot& accumulator = slots_[node.accumulator];
    accumulator.state = Slot::State::kSet;
    accumulator.value = next;
    if (next.IsFatal()) {
      fatal = next;
      return false;
    }
    return true;
  }

  Value Loop(const Node& node) {
    const Value range = Evaluate(*node.range);
    if (range.IsError()) {
      return range;
    }
    if (range.kind != Kind::kList && range.kind != Kind::kMap) {
      return NoSuchOverload();
    }
    Slot& accumulator = slots_[node.accumulator];
    accumulator = Slot{Slot::State::kPending, Null(), node.init};
    Value fatal;
    if (range.kind == Kind::kList) {
      const size_t size = ListSize(range);
      for (size_t i = 0; i < size; ++i) {
        const Value item = ListGet(*range.list, i);
        if (node.variable2 >= 0) {
          Set(node.variable, Int(static_cast<int64_t>(i)));
          Set(node.variable2, item);
        } else {
          Set(node.variable, item);
        }
        if (!Turn(node, fatal)) {
          break;
        }
      }
    } else {
      for (const auto& [key, value] : MapEntries(context_, range)) {
        Set(node.variable, key);
        if (node.variable2 >= 0) {
          Set(node.variable2, value);
        }
        if (!Turn(node, fatal)) {
          break;
        }
      }
    }
    if (fatal.IsFatal()) {
      return fatal;
    }
    return Immutable(Evaluate(*node.result));
  }

  void Set(int slot, const Value& value) {
    if (slot >= 0) {
      slots_[slot] = Slot{Slot::State::kSet, value, nullptr};
    }
  }

  // The result of a loop doesn't grow any more.
  Value Immutable(const Value& value) {
    if (value.kind == Kind::kList && value.list->form == ListObject::Form::kGrowing) {
      auto* list = context_.New<ListObject>();
      list->items = value.list->items;
      list->size = value.list->size;
      return ListValue(list);
    }
    if (value.kind == Kind::kMap && value.map_form() == MapForm::kLiteral &&
        static_cast<const MapObject*>(value.map)->growing) {
      auto* map = context_.New<MapObject>();
      *map = *static_cast<const MapObject*>(value.map);
      map->growing = false;
      return MapValue(MapForm::kLiteral, map);
    }
    return value;
  }

  Context& context_;
  const SelectorDevice& device_;
  Slot* slots_;
};

}  // namespace

Value Program::Run(Context& context, const SelectorDevice& device) const {
  std::array<Slot, 8> few;
  std::vector<Slot> many;
  Slot* slots = few.data();
  if (slots_ > static_cast<int>(few.size())) {
    many.resize(static_cast<size_t>(slots_));
    slots = many.data();
  }
  return Evaluation(context, device, slots).Evaluate(*root_);
}

}  // namespace tutti::api::cel
