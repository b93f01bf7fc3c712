// SPDX-License-Identifier: Apache-2.0
#include "api/cel/value.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "api/cel/semver.h"

namespace tutti::api::cel {
namespace {

struct AttributeVisitor {
  Context& context;

  Value operator()(int64_t number) const { return Int(number); }
  Value operator()(bool flag) const { return Bool(flag); }
  Value operator()(const std::string& text) const { return StringView(text); }
  Value operator()(const Version& version) const {
    auto* semver = context.New<SemverObject>();
    if (!ParseSemver(version.text, *semver)) {
      return Fail(Failure::kInternal, "an attribute's version can't be parsed");
    }
    return SemverValue(semver);
  }
  template <typename T>
  Value operator()(const std::vector<T>& list) const {
    std::vector<Value> items;
    items.reserve(list.size());
    for (const T& item : list) {
      items.push_back((*this)(item));
    }
    return context.List(items);
  }
  Value operator()(const std::vector<bool>& list) const {
    std::vector<Value> items;
    items.reserve(list.size());
    for (const bool item : list) {
      items.push_back(Bool(item));
    }
    return context.List(items);
  }
};

}  // namespace

Value* Context::NewValues(size_t count) {
  elements_ += count;
  if (count > kMaxElements || elements_ > kMaxElements || !Work(count)) {
    return nullptr;
  }
  auto* out = static_cast<Value*>(arena_.allocate((count + 1) * sizeof(Value), alignof(Value)));
  std::uninitialized_default_construct_n(out, count);
  return out;
}

char* Context::NewText(size_t bytes) {
  text_bytes_ += bytes;
  if (bytes > kMaxTextBytes || text_bytes_ > kMaxTextBytes) {
    return nullptr;
  }
  return static_cast<char*>(arena_.allocate(bytes + 1, 1));
}

const Quantity* Context::Keep(Quantity quantity) {
  quantities_.push_back(std::make_unique<Quantity>(std::move(quantity)));
  return quantities_.back().get();
}

Value Context::Text(std::string_view text) {
  char* copy = NewText(text.size());
  if (copy == nullptr) {
    return TooLarge();
  }
  if (!text.empty()) {
    std::memcpy(copy, text.data(), text.size());
  }
  return StringView({copy, text.size()});
}

Value Context::Bytes(std::string_view text) {
  Value out = Text(text);
  if (!out.IsError()) {
    out.kind = Kind::kBytes;
  }
  return out;
}

Value Context::Error(std::string_view message) {
  const Value text = Text(message.substr(0, 400));
  return text.IsError() ? text : Fail(Failure::kInvalid, text.Text());
}

Value Context::List(const std::vector<Value>& items) {
  Value* copy = NewValues(items.size());
  if (copy == nullptr) {
    return TooLarge();
  }
  std::copy(items.begin(), items.end(), copy);
  auto* list = New<ListObject>();
  list->items = copy;
  list->size = items.size();
  return ListValue(list);
}

Value Context::Optional(const Value& value) {
  auto* copy = New<Value>();
  *copy = value;
  Value out;
  out.kind = Kind::kOptional;
  out.optional = copy;
  return out;
}

Value Null() {
  return {};
}

Value Bool(bool value) {
  Value out;
  out.kind = Kind::kBool;
  out.boolean = value;
  return out;
}

Value Int(int64_t value) {
  Value out;
  out.kind = Kind::kInt;
  out.integer = value;
  return out;
}

Value Uint(uint64_t value) {
  Value out;
  out.kind = Kind::kUint;
  out.unsigned_integer = value;
  return out;
}

Value Double(double value) {
  Value out;
  out.kind = Kind::kDouble;
  out.number = value;
  return out;
}

Value StringView(std::string_view text) {
  Value out;
  out.kind = Kind::kString;
  out.text = text.data();
  out.size = text.size();
  return out;
}

Value Type(std::string_view name) {
  Value out = StringView(name);
  out.kind = Kind::kType;
  return out;
}

Value Duration(int64_t nanos) {
  Value out;
  out.kind = Kind::kDuration;
  out.integer = nanos;
  return out;
}

Value Timestamp(int64_t seconds, uint32_t nanos, int16_t zone_minutes) {
  Value out;
  out.kind = Kind::kTimestamp;
  out.integer = seconds;
  out.nanos = nanos;
  out.zone_minutes = zone_minutes;
  return out;
}

Value OptionalNone() {
  Value out;
  out.kind = Kind::kOptional;
  out.optional = nullptr;
  return out;
}

Value QuantityValue(const Quantity* quantity, bool computed) {
  Value out;
  out.kind = Kind::kQuantity;
  out.form = computed ? 1 : 0;
  out.quantity = quantity;
  return out;
}

Value Fail(Failure failure, std::string_view detail) {
  Value out = StringView(detail);
  out.kind = Kind::kError;
  out.form = static_cast<uint8_t>(failure);
  return out;
}

Value NoSuchOverload() {
  return Fail(Failure::kNoSuchOverload);
}

Value TooLarge() {
  return Fail(Failure::kTooLarge);
}

Value ListValue(const ListObject* list) {
  Value out;
  out.kind = Kind::kList;
  out.list = list;
  return out;
}

Value MapValue(MapForm form, const void* map) {
  Value out;
  out.kind = Kind::kMap;
  out.form = static_cast<uint8_t>(form);
  out.map = map;
  return out;
}

std::string_view TypeName(const Value& value) {
  switch (value.kind) {
    case Kind::kError:
      return "error";
    case Kind::kNull:
      return "null_type";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kUint:
      return "uint";
    case Kind::kDouble:
      return "double";
    case Kind::kString:
      return "string";
    case Kind::kBytes:
      return "bytes";
    case Kind::kList:
      return "list";
    case Kind::kMap:
      return "map";
    case Kind::kType:
      return "type";
    case Kind::kTimestamp:
      return "google.protobuf.Timestamp";
    case Kind::kDuration:
      return "google.protobuf.Duration";
    case Kind::kOptional:
      return "optional_type";
    case Kind::kQuantity:
      return "kubernetes.Quantity";
    case Kind::kSemver:
      return "kubernetes.Semver";
    case Kind::kUrl:
      return "kubernetes.URL";
    case Kind::kIp:
      return "net.IP";
    case Kind::kCidr:
      return "net.CIDR";
    case Kind::kFormat:
      return "kubernetes.NamedFormat";
  }
  return "";
}

std::string Message(const Value& error) {
  const std::string detail(error.Text());
  switch (error.failure()) {
    case Failure::kNoSuchOverload:
      return "no such overload: the types don't fit this function or operator";
    case Failure::kNoSuchKey:
      return "no such key: " + detail;
    case Failure::kIndexOutOfRange:
      return "index out of range";
    case Failure::kBadIndex:
      return "a list can't be indexed with a " + detail;
    case Failure::kIntOverflow:
      return "integer overflow";
    case Failure::kUintOverflow:
      return "unsigned integer overflow";
    case Failure::kDurationOverflow:
      return "duration out of range";
    case Failure::kTimestampOverflow:
      return "timestamp out of range";
    case Failure::kDivideByZero:
      return "division by zero";
    case Failure::kModulusByZero:
      return "modulus by zero";
    case Failure::kNanOrder:
      return "NaN values cannot be ordered";
    case Failure::kOptionalNone:
      return "optional.none() has no value";
    case Failure::kConversion:
      return "type conversion error: " + detail;
    case Failure::kInvalid:
    case Failure::kInternal:
      return detail;
    case Failure::kCostLimit:
      return "the cost limit of 1000000 is exceeded";
    case Failure::kTooLarge:
      return "the evaluation needs more memory or steps than is allowed";
  }
  return detail;
}

Value FromAttribute(Context& context, const AttributeValue& value) {
  return std::visit(AttributeVisitor{context}, value);
}

size_t RuneCount(std::string_view text) {
  // Strings are valid UTF-8 except where a device's attribute isn't: then each stray byte counts.
  size_t count = 0;
  for (const char c : text) {
    count += (static_cast<uint8_t>(c) & 0xC0U) != 0x80U ? 1 : 0;
  }
  return count;
}

uint64_t ActualSize(const Value& value) {
  switch (value.kind) {
    case Kind::kString:
      return RuneCount(value.Text());
    case Kind::kBytes:
      return value.size;
    case Kind::kList:
      return ListSize(value);
    case Kind::kMap:
      return MapSize(value);
    case Kind::kIp:
      return value.ip->width;
    case Kind::kCidr:
      return (value.cidr->bits + 7U) / 8U;
    default:
      return 1;
  }
}

}  // namespace tutti::api::cel
