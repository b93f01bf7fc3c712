// SPDX-License-Identifier: Apache-2.0
// Values of CEL expressions while they are evaluated. A Value is 24 bytes and trivially copyable;
// what it points to lives in the Context of the evaluation, in the compiled program, or in the
// device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <string>
#include <string_view>
#include <vector>

#include "api/cel/device_selector.h"

namespace tutti::api::cel {

enum class Kind : uint8_t {
  kError,
  kNull,
  kBool,
  kInt,
  kUint,
  kDouble,
  kString,
  kBytes,
  kList,
  kMap,
  kType,
  kTimestamp,
  kDuration,
  kOptional,
  kQuantity,
  kSemver,
  kUrl,
  kIp,
  kCidr,
  kFormat,
};

enum class Failure : uint8_t {
  kNoSuchOverload,
  kNoSuchKey,        // detail: the key
  kIndexOutOfRange,  // detail: the index
  kBadIndex,         // detail: the type
  kIntOverflow,
  kUintOverflow,
  kDurationOverflow,
  kTimestampOverflow,
  kDivideByZero,
  kModulusByZero,
  kNanOrder,
  kOptionalNone,
  kConversion,  // detail: from and to
  kInvalid,     // detail: the whole message
  // The failures from here on end the evaluation; || and && don't absorb them.
  kCostLimit,
  kTooLarge,
  kInternal,  // detail: the whole message
};

enum class MapForm : uint8_t {
  kEmpty,           // what an unknown domain gives
  kDevice,          // SelectorDevice
  kAttributes,      // all domains: a key that is missing gives the empty map
  kAttributesOnly,  // the same, but a missing key is missing
  kDomainAttributes,
  kCapacity,
  kCapacityOnly,
  kDomainCapacity,
  kLiteral,  // MapObject
};

struct ListObject;
struct MapObject;
struct SemverObject;
struct UrlObject;
struct IpObject;
struct CidrObject;
struct FormatObject;

struct Value {
  Kind kind = Kind::kNull;
  // kError: Failure. kMap: MapForm. kQuantity: 1 for the result of arithmetic (see Equal).
  uint8_t form = 0;
  // kTimestamp: offset of its zone from UTC in minutes.
  int16_t zone_minutes = 0;
  uint32_t nanos = 0;  // kTimestamp: 0..999,999,999
  union {
    bool boolean;
    int64_t integer;  // kInt; kDuration: nanoseconds; kTimestamp: Unix seconds
    uint64_t unsigned_integer;
    double number;
    const char* text;  // kString, kBytes, kType, kError
    const ListObject* list;
    const void* map;
    const Value* optional;  // null: optional.none()
    const Quantity* quantity;
    const SemverObject* semver;
    const UrlObject* url;
    const IpObject* ip;
    const CidrObject* cidr;
    const FormatObject* format;
  };
  size_t size = 0;  // bytes of text

  Value() : integer(0) {}
  [[nodiscard]] std::string_view Text() const { return {text, size}; }
  [[nodiscard]] bool IsError() const { return kind == Kind::kError; }
  [[nodiscard]] Failure failure() const { return static_cast<Failure>(form); }
  [[nodiscard]] bool IsFatal() const { return IsError() && failure() >= Failure::kCostLimit; }
  [[nodiscard]] bool IsTrue() const { return kind == Kind::kBool && boolean; }
  [[nodiscard]] bool IsFalse() const { return kind == Kind::kBool && !boolean; }
  [[nodiscard]] MapForm map_form() const { return static_cast<MapForm>(form); }
};
static_assert(sizeof(Value) == 24);

// A list is an array, two lists one after the other (cheap to make, as in cel-go), or one that
// grows: the accumulator of a comprehension.
struct ListObject {
  enum class Form : uint8_t { kArray, kConcat, kGrowing };
  Form form = Form::kArray;
  size_t size = 0;
  size_t capacity = 0;  // kGrowing
  Value* items = nullptr;
  const ListObject* first = nullptr;   // kConcat
  const ListObject* second = nullptr;  // kConcat
};

struct MapObject {
  struct Entry {
    Value key;
    Value value;
    bool present = true;
  };
  bool growing = false;  // the accumulator of transformMap
  size_t size = 0;       // entries that are present
  size_t used = 0;       // entries, in the order of insertion
  size_t capacity = 0;
  Entry* entries = nullptr;
  uint32_t* index = nullptr;  // open addressing, entry + 1; null while small
  size_t index_size = 0;
};

struct SemverObject {
  uint64_t major = 0;
  uint64_t minor = 0;
  uint64_t patch = 0;
  std::string_view prerelease;  // without "-", dot-separated
};

struct UrlObject {
  std::string_view text;  // as Go's URL.String() prints it
  std::string_view scheme;
  std::string_view host;  // with the port
  std::string_view hostname;
  std::string_view port;
  std::string_view escaped_path;
  std::string_view query;  // raw
};

struct IpObject {
  uint8_t bytes[16] = {};
  uint8_t width = 4;  // 4 or 16
};

struct CidrObject {
  IpObject address;
  uint8_t bits = 0;
};

struct FormatObject {
  std::string_view name;     // in format.<name>()
  std::string_view printed;  // what equality looks at
  uint64_t regex_size = 0;   // for the cost of validate()
};

// Memory and limits of one evaluation (or of one compilation, for constants). Not thread-safe.
class Context {
 public:
  // More work than this is never useful: the cost limit would be far exceeded, too.
  static constexpr uint64_t kMaxWork = 20'000'000;
  static constexpr size_t kMaxElements = 2'000'000;
  static constexpr size_t kMaxTextBytes = 32'000'000;

  explicit Context(std::pmr::memory_resource* upstream = std::pmr::get_default_resource())
      : arena_(buffer_, sizeof(buffer_), upstream) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // False when the budget is used up: return TooLarge() then.
  [[nodiscard]] bool Work(uint64_t steps) {
    work_ += steps;
    return work_ <= kMaxWork;
  }
  // Null when there are too many; return TooLarge() then.
  [[nodiscard]] Value* NewValues(size_t count);
  [[nodiscard]] char* NewText(size_t bytes);
  void* Allocate(size_t bytes, size_t align) { return arena_.allocate(bytes, align); }
  template <typename T>
  T* New() {
    return new (arena_.allocate(sizeof(T), alignof(T))) T();
  }
  // Quantities hold a string: kept apart so that they are destroyed.
  const Quantity* Keep(Quantity quantity);

  Value Text(std::string_view text);   // copies
  Value Bytes(std::string_view text);  // copies
  Value Error(std::string_view message);
  Value List(const std::vector<Value>& items);
  Value Optional(const Value& value);

  uint64_t cost = 0;

 private:
  alignas(16) std::byte buffer_[1024];
  std::pmr::monotonic_buffer_resource arena_;
  std::vector<std::unique_ptr<Quantity>> quantities_;
  uint64_t work_ = 0;
  size_t elements_ = 0;
  size_t text_bytes_ = 0;
};

Value Null();
Value Bool(bool value);
Value Int(int64_t value);
Value Uint(uint64_t value);
Value Double(double value);
Value StringView(std::string_view text);  // does not copy
Value Type(std::string_view name);        // does not copy
Value Duration(int64_t nanos);
Value Timestamp(int64_t seconds, uint32_t nanos, int16_t zone_minutes);
Value OptionalNone();
Value QuantityValue(const Quantity* quantity, bool computed);
Value Fail(Failure failure, std::string_view detail = {});  // does not copy the detail
Value NoSuchOverload();
Value TooLarge();
Value ListValue(const ListObject* list);
Value MapValue(MapForm form, const void* map);

[[nodiscard]] std::string_view TypeName(const Value& value);
[[nodiscard]] std::string Message(const Value& error);  // of a kError

// Equality as cel-go has it; numbers compare across types. May be an error: quantities, versions,
// addresses compare only with their like.
Value Equal(Context& context, const Value& a, const Value& b);
// The method of the left value alone; differs from Equal only when null is involved.
Value EqualMethod(Context& context, const Value& a, const Value& b);
// -1, 0, 1 as kInt, or an error.
Value Compare(const Value& a, const Value& b);
[[nodiscard]] bool IsComparable(Kind kind);

[[nodiscard]] size_t ListSize(const Value& list);
// index < ListSize(list).
[[nodiscard]] Value ListGet(const ListObject& list, size_t index);
// Index or key 0..2^63; false: not an index.
[[nodiscard]] bool AsIndex(const Value& value, int64_t& index);
Value ListConcat(Context& context, const Value& a, const Value& b);
Value NewGrowingList(Context& context);

[[nodiscard]] size_t MapSize(const Value& map);
// found: whether the key is there. The result may be a fatal error (key that Go can't hash).
Value MapFind(Context& context, const Value& map, const Value& key, bool& found);
// As MapFind, for `in`: a missing domain of the device is missing.
Value MapContains(Context& context, const Value& map, const Value& key);
// The entries in a fixed order: sorted for the device's maps, else that of insertion.
[[nodiscard]] std::vector<std::pair<Value, Value>> MapEntries(Context& context, const Value& map);
Value NewMap(Context& context, bool growing);
// Adds or replaces. False: too large or a key that can't be hashed (failure is set).
bool MapSet(Context& context, MapObject& map, const Value& key, const Value& value, Value& failure);
void MapErase(MapObject& map, const Value& key);

// The value of an attribute as CEL sees it. Error: a list although lists are off, a bad version.
Value FromAttribute(Context& context, const AttributeValue& value);

[[nodiscard]] size_t RuneCount(std::string_view text);
// The number that cost rules call size: runes, bytes, elements; 1 for what has no size.
[[nodiscard]] uint64_t ActualSize(const Value& value);

}  // namespace tutti::api::cel
