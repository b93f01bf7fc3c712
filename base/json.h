// SPDX-License-Identifier: Apache-2.0
// A small JSON value with the order of members kept, parsed by simdjson and written by RapidJSON
// (both only inside json.cc). Integers stay integers (int64), so that a value read and written
// again is the same number. Values are plain data: copy, move, compare. Not thread-safe.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace tutti {

class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;  // in order; keys unique after Parse (the last one wins)

  Json() = default;
  Json(std::nullptr_t) {}                                   // NOLINT(google-explicit-constructor)
  Json(bool value) : value_(value) {}                       // NOLINT(google-explicit-constructor)
  Json(int value) : value_(static_cast<int64_t>(value)) {}  // NOLINT(google-explicit-constructor)
  Json(int64_t value) : value_(value) {}                    // NOLINT(google-explicit-constructor)
  Json(double value) : value_(value) {}                     // NOLINT(google-explicit-constructor)
  Json(const char* value) : value_(std::string(value)) {}   // NOLINT(google-explicit-constructor)
  Json(std::string_view value)
      : value_(std::string(value)) {}                    // NOLINT(google-explicit-constructor)
  Json(std::string value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Json(Array value) : value_(std::move(value)) {}        // NOLINT(google-explicit-constructor)
  Json(Object value) : value_(std::move(value)) {}       // NOLINT(google-explicit-constructor)

  // Json::Obj({{"a", 1}, {"b", "x"}}), Json::Arr({1, 2})
  static Json Obj(std::initializer_list<Member> members = {}) { return Json(Object(members)); }
  static Json Arr(std::initializer_list<Json> items = {}) { return Json(Array(items)); }

  // Depth is limited to 512; input must be UTF-8. Errors: kDecode.
  static Result<Json> Parse(std::string_view text);

  [[nodiscard]] bool IsNull() const { return std::holds_alternative<std::monostate>(value_); }
  [[nodiscard]] bool IsBool() const { return std::holds_alternative<bool>(value_); }
  [[nodiscard]] bool IsInt() const { return std::holds_alternative<int64_t>(value_); }
  [[nodiscard]] bool IsDouble() const { return std::holds_alternative<double>(value_); }
  [[nodiscard]] bool IsNumber() const { return IsInt() || IsDouble(); }
  [[nodiscard]] bool IsString() const { return std::holds_alternative<std::string>(value_); }
  [[nodiscard]] bool IsArray() const { return std::holds_alternative<Array>(value_); }
  [[nodiscard]] bool IsObject() const { return std::holds_alternative<Object>(value_); }

  // Lenient readers: the fallback when the type is another (they never fail).
  [[nodiscard]] bool AsBool(bool fallback = false) const;
  [[nodiscard]] int64_t AsInt(int64_t fallback = 0) const;
  [[nodiscard]] double AsDouble(double fallback = 0) const;
  [[nodiscard]] const std::string& AsString() const;  // "" when not a string
  [[nodiscard]] const Array& AsArray() const;         // empty when not an array
  [[nodiscard]] const Object& AsObject() const;       // empty when not an object

  // The member, or the null value. Works on any type, so paths can be chained:
  // job["spec"]["template"]["metadata"]["labels"].
  [[nodiscard]] const Json& operator[](std::string_view key) const;
  [[nodiscard]] const Json* Find(std::string_view key) const;  // null pointer when absent
  [[nodiscard]] bool Has(std::string_view key) const { return Find(key) != nullptr; }

  // Writers. A null value becomes an object or an array on first use; REQUIRES that type otherwise.
  Json& Set(std::string_view key, Json value);  // returns *this
  Json& At(std::string_view key);               // the member, created as null when absent
  Json& Push(Json value);                       // returns *this
  bool Erase(std::string_view key);
  [[nodiscard]] Object& MutableObject();
  [[nodiscard]] Array& MutableArray();

  [[nodiscard]] std::string Dump() const;        // compact, members in order
  [[nodiscard]] std::string DumpSorted() const;  // members sorted: equal content gives equal text

  friend bool operator==(const Json& a, const Json& b);  // members compared regardless of order

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

// RFC 7386. `patch` members that are null remove.
void ApplyMergePatch(Json& target, const Json& patch);

// The smallest merge patch that turns `from` into `to`: null members for what is gone.
// Returns an empty object when both are equal.
[[nodiscard]] Json DiffMergePatch(const Json& from, const Json& to);

}  // namespace tutti
