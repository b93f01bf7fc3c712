// SPDX-License-Identifier: Apache-2.0
// resource.Quantity of Kubernetes: an exact decimal with a suffix ("500m", "1Gi", "1e3", "0.5").
// Hand-written because no C++ library has this format. Values are kept exactly as a decimal of up
// to 38 digits; text that the API server would refuse is refused here with the same meaning.
// Source: apimachinery's Quantity documentation (format and rounding rules).
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace tutti::api {

class Quantity {
 public:
  Quantity() = default;                      // 0
  static Quantity FromInt(int64_t value);    // decimal format
  static Quantity FromMilli(int64_t milli);  // decimal format
  static Quantity FromBytes(int64_t value);  // binary format: 1Gi, 512Mi
  // Accepts what the API server accepts; kInvalid names what is wrong otherwise.
  static Result<Quantity> Parse(std::string_view text);
  // JSON strings and numbers.
  static Result<Quantity> FromJson(const Json& json);

  // Rounded away from zero to whole units; saturates at the ends of int64.
  [[nodiscard]] int64_t Value() const;
  [[nodiscard]] int64_t MilliValue() const;
  // The API server stores resource lists of pods, nodes and limit ranges like this.
  [[nodiscard]] Quantity RoundedUpToMilli() const;
  // What CEL's isInteger() and asInteger() see, which is how the API server happens to keep a
  // number: absent for fractions, for "1000m" and "1.0", and for what is not kept in 64 bits
  // ("1.5Gi").
  [[nodiscard]] std::optional<int64_t> AsInt64() const;
  // CEL's asApproximateFloat().
  [[nodiscard]] double ApproximateDouble() const;
  [[nodiscard]] bool IsZero() const { return coefficient_ == 0; }
  [[nodiscard]] int Sign() const { return coefficient_ < 0 ? -1 : (coefficient_ > 0 ? 1 : 0); }
  // The canonical form, as the API server writes a built-in object back: "1500m" for "1.5". Text
  // that the API server keeps as it is ("1.500", "+5") is kept here too.
  [[nodiscard]] std::string ToString() const;

  friend std::strong_ordering operator<=>(const Quantity& a, const Quantity& b);  // by value
  friend bool operator==(const Quantity& a, const Quantity& b);                   // by value
  // Exact up to 38 digits; beyond that the larger part. As in the API server, b = -2^63 is its own
  // opposite where a - b is computed in 64 bits.
  friend Quantity operator+(const Quantity& a, const Quantity& b);
  friend Quantity operator-(const Quantity& a, const Quantity& b);
  // Exact up to 38 digits, printed in the form of a; beyond that the last digits are dropped.
  friend Quantity operator*(const Quantity& a, const Quantity& b);

 private:
  [[nodiscard]] std::optional<int64_t> KeptAt(int32_t scale) const;  // absent: not an int64

  // value = coefficient_ * 10^exponent_ (binary suffixes are multiplied out; exact)
  __extension__ __int128 coefficient_ = 0;
  int32_t exponent_ = 0;
  enum class Format : uint8_t { kDecimal, kBinary, kExponent };
  Format format_ = Format::kDecimal;  // how the canonical form is printed
  // How the API server keeps the number: a multiple of 10^scale_ (at most exponent_, unless the
  // number is 0), in 64 bits or, if wide_, in any number of digits. CEL shows both.
  int32_t scale_ = 0;
  bool wide_ = false;
  std::string text_;  // the parsed text where it counts as canonical
};

using ResourceList = std::map<std::string, Quantity>;  // name -> amount, sorted by name

// Whole amounts as Kueue and kube-scheduler count them: cpu in milli-units, everything else in
// units, each rounded up. Sums saturate.
using Amounts = std::map<std::string, int64_t>;

[[nodiscard]] int64_t ToAmount(std::string_view resource, const Quantity& quantity);
[[nodiscard]] Quantity FromAmount(std::string_view resource, int64_t amount);
[[nodiscard]] Amounts ToAmounts(const ResourceList& list);
[[nodiscard]] int64_t SaturatingAdd(int64_t a, int64_t b);
[[nodiscard]] int64_t SaturatingMul(int64_t a, int64_t b);
void AddTo(Amounts& sum, const Amounts& more, int64_t times = 1);
// Per resource the larger one.
void MaxInto(Amounts& target, const Amounts& other);
// A person's form of an amount: cpu 1500 -> "1500m", memory 1073741824 -> "1Gi".
[[nodiscard]] std::string FormatAmount(std::string_view resource, int64_t amount);

Result<ResourceList> ResourceListFromJson(const Json& json);  // error names the resource
Json ToJson(const ResourceList& list);

}  // namespace tutti::api
