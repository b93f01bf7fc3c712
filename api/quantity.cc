// SPDX-License-Identifier: Apache-2.0
#include "api/quantity.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

namespace tutti::api {
namespace {

__extension__ using Wide = __int128;

constexpr int kMaxDigits = 38;  // 10^38 - 1 < 2^127
constexpr int32_t kNano = -9;   // finest step that the API server keeps
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

using Digits = std::vector<uint8_t>;  // most significant first, no leading zeros

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

// 10^power; power in 0..38.
Wide Pow10(int power) {
  Wide out = 1;
  for (int i = 0; i < power; ++i) {
    out *= 10;
  }
  return out;
}

int DigitCount(Wide value) {
  int count = 0;
  while (value != 0) {
    value /= 10;
    ++count;
  }
  return count;
}

void MultiplyBy1024(Digits& digits) {
  uint32_t carry = 0;
  for (size_t i = digits.size(); i-- > 0;) {
    carry += static_cast<uint32_t>(digits[i]) * 1024;
    digits[i] = static_cast<uint8_t>(carry % 10);
    carry /= 10;
  }
  Digits head;
  while (carry != 0) {
    head.insert(head.begin(), static_cast<uint8_t>(carry % 10));
    carry /= 10;
  }
  digits.insert(digits.begin(), head.begin(), head.end());
}

// Drops the last `count` digits, rounding away from zero.
void DropRoundingUp(Digits& digits, size_t count) {
  const size_t keep = count < digits.size() ? digits.size() - count : 0;
  const bool rest = std::any_of(digits.begin() + static_cast<std::ptrdiff_t>(keep), digits.end(),
                                [](uint8_t digit) { return digit != 0; });
  digits.resize(keep);
  if (!rest) {
    return;
  }
  size_t i = keep;
  while (i > 0 && digits[i - 1] == 9) {
    digits[--i] = 0;
  }
  if (i > 0) {
    ++digits[i - 1];
  } else {
    digits.insert(digits.begin(), 1);
  }
}

struct Suffix {
  int64_t exponent = 0;  // of 10, or of 1024
  bool binary = false;
  bool scientific = false;
};

bool ReadSuffix(std::string_view text, Suffix& out) {
  static constexpr std::string_view kDecimal = "num kMGTPE";  // 10^-9 … 10^18, ' ' = 10^0
  static constexpr std::string_view kBinary = "KMGTPE";
  if (text.empty()) {
    return true;
  }
  if (text.size() == 1) {
    const size_t at = kDecimal.find(text[0]);
    if (at == std::string_view::npos || text[0] == ' ') {
      return false;
    }
    out.exponent = (static_cast<int64_t>(at) - 3) * 3;
    return true;
  }
  if (text.size() == 2 && text[1] == 'i') {
    const size_t at = kBinary.find(text[0]);
    if (at == std::string_view::npos) {
      return false;
    }
    out.exponent = static_cast<int64_t>(at) + 1;
    out.binary = true;
    return true;
  }
  if (text[0] != 'e' && text[0] != 'E') {
    return false;
  }
  text.remove_prefix(1);
  if (text[0] == '+') {
    text.remove_prefix(1);
    if (text.empty() || !IsDigit(text[0])) {
      return false;
    }
  }
  int64_t parsed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (error != std::errc() || end != text.data() + text.size()) {
    return false;
  }
  // The API server keeps 32 bits of it.
  out.exponent = static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint64_t>(parsed)));
  out.scientific = true;
  return true;
}

tl::unexpected<Error> Malformed(std::string_view text) {
  return Fail(ErrorCode::kInvalid,
              "\"" + std::string(text.substr(0, 64)) +
                  "\" is not a quantity: write a number with an optional suffix "
                  "(m, k, M, G, T, Ki, Mi, Gi, Ti), like 500m, 2 or 1Gi");
}

// coefficient * 10^exponent in units of 10^scale, away from zero, saturating.
int64_t Scaled(Wide coefficient, int32_t exponent, int32_t scale) {
  if (coefficient == 0) {
    return 0;
  }
  const bool negative = coefficient < 0;
  Wide magnitude = negative ? -coefficient : coefficient;
  int64_t shift = static_cast<int64_t>(exponent) - scale;
  while (shift < 0) {
    const int step = static_cast<int>(std::min<int64_t>(-shift, kMaxDigits));
    const Wide divisor = Pow10(step);
    magnitude = magnitude / divisor + (magnitude % divisor != 0 ? 1 : 0);
    shift += step;
    if (magnitude == 1 && shift < 0) {
      shift = 0;  // any smaller part of a unit counts as one
    }
  }
  while (shift > 0 && magnitude <= kMax) {
    magnitude *= 10;
    --shift;
  }
  if (negative) {
    return magnitude > static_cast<Wide>(kMax) ? kMin : static_cast<int64_t>(-magnitude);
  }
  return magnitude > static_cast<Wide>(kMax) ? kMax : static_cast<int64_t>(magnitude);
}

int32_t ToInt32(int64_t value) {
  return static_cast<int32_t>(std::clamp<int64_t>(value, std::numeric_limits<int32_t>::min(),
                                                  std::numeric_limits<int32_t>::max()));
}

// 10^power as Go's math.Pow10 has it: a product, or a quotient, of two of its constants.
double GoPow10(int32_t power) {
  static constexpr std::array<double, 10> kSteps = {1e0,   1e32,  1e64,  1e96,  1e128,
                                                    1e160, 1e192, 1e224, 1e256, 1e288};
  static constexpr std::array<double, 11> kNegativeSteps = {
      1e-0, 1e-32, 1e-64, 1e-96, 1e-128, 1e-160, 1e-192, 1e-224, 1e-256, 1e-288, 1e-320};
  static constexpr std::array<double, 32> kOnes = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22, 1e23,
                                                   1e24, 1e25, 1e26, 1e27, 1e28, 1e29, 1e30, 1e31};
  if (power > 308) {
    return std::numeric_limits<double>::infinity();
  }
  if (power < -323) {
    return 0;
  }
  const auto size = static_cast<size_t>(std::abs(power));
  return power >= 0 ? kSteps[size / 32] * kOnes[size % 32]
                    : kNegativeSteps[size / 32] / kOnes[size % 32];
}

std::string WideToString(Wide value) {
  const bool negative = value < 0;
  std::string out;
  do {
    const int digit = static_cast<int>(value % 10);
    out.push_back(static_cast<char>('0' + (digit < 0 ? -digit : digit)));
    value /= 10;
  } while (value != 0);
  if (negative) {
    out.push_back('-');
  }
  std::reverse(out.begin(), out.end());
  return out;
}

bool CountedInMilli(std::string_view resource) {
  return resource == "cpu";
}

bool CountedInBytes(std::string_view resource) {
  return resource == "memory" || resource == "ephemeral-storage" ||
         resource.starts_with("hugepages-");
}

}  // namespace

Quantity Quantity::FromInt(int64_t value) {
  Quantity out;
  out.coefficient_ = value;
  return out;
}

Quantity Quantity::FromMilli(int64_t milli) {
  Quantity out;
  out.coefficient_ = milli;
  out.exponent_ = milli == 0 ? 0 : -3;
  out.scale_ = -3;
  return out;
}

Quantity Quantity::FromBytes(int64_t value) {
  Quantity out = FromInt(value);
  out.format_ = Format::kBinary;
  return out;
}

Result<Quantity> Quantity::Parse(std::string_view text) {
  // The scanner takes what the API server's takes, oddities included: digits may be missing
  // altogether ("m" is zero), and a fraction may be empty ("1.").
  if (text.empty()) {
    return Malformed(text);
  }
  size_t at = 0;
  bool negative = false;
  if (text[0] == '-' || text[0] == '+') {
    negative = text[0] == '-';
    ++at;
  }
  const size_t first = at;
  Digits digits;
  const auto read_digits = [&] {
    const size_t begin = at;
    while (at < text.size() && IsDigit(text[at])) {
      digits.push_back(static_cast<uint8_t>(text[at] - '0'));
      ++at;
    }
    return at - begin;
  };
  while (at < text.size() && text[at] == '0') {
    ++at;
  }
  const bool leading_zero = at > first;
  const size_t whole_digits = read_digits();
  size_t fraction_digits = 0;
  if (at < text.size() && text[at] == '.') {
    ++at;
    fraction_digits = read_digits();
  }
  const std::string_view suffix_text = text.substr(at);
  const bool any_digit = leading_zero || whole_digits + fraction_digits > 0;
  Suffix suffix;
  if (!ReadSuffix(suffix_text, suffix)) {
    return Malformed(text);
  }

  // The API server has an exact 64-bit path and a slow one. Which one is taken decides whether text
  // without digits passes and whether the text itself is kept as the canonical form.
  const auto counted_whole = static_cast<int64_t>(std::max<size_t>(whole_digits, 1));
  const auto counted_fraction = static_cast<int64_t>(fraction_digits);
  bool exact_path = false;
  if (suffix.binary) {
    exact_path = fraction_digits == 0 && 15 - counted_whole - suffix.exponent * 3 - 1 >= 0;
  } else {
    exact_path =
        counted_whole + counted_fraction <= 18 && suffix.exponent - counted_fraction >= kNano;
  }
  const bool nothing_after_sign = at == text.size() && at == first;
  if (!any_digit && !exact_path && !nothing_after_sign) {
    return Malformed(text);
  }

  Quantity out;
  out.format_ =
      suffix.binary ? Format::kBinary : (suffix.scientific ? Format::kExponent : Format::kDecimal);
  const bool ends_in_thousand = digits.size() >= 3 && digits[digits.size() - 1] == 0 &&
                                digits[digits.size() - 2] == 0 && digits[digits.size() - 3] == 0;
  if (exact_path) {
    if (suffix.binary) {
      int low_bits = 0;
      for (const uint8_t digit : digits) {
        low_bits = (low_bits * 10 + digit) & 7;
      }
      if (low_bits != 0) {
        out.text_ = text;
      }
    } else if ((suffix.exponent - counted_fraction) % 3 == 0 && whole_digits > 0 &&
               !ends_in_thousand) {
      out.text_ = text;
    }
  }

  // From here on: digits * 10^exponent, exactly.
  digits.erase(digits.begin(),
               std::find_if(digits.begin(), digits.end(), [](uint8_t d) { return d != 0; }));
  int64_t exponent = suffix.binary ? -counted_fraction : suffix.exponent - counted_fraction;
  out.wide_ = !exact_path;
  out.scale_ = ToInt32(exponent);
  if (digits.empty()) {
    out.text_.clear();
    return out;
  }
  if (suffix.binary) {
    for (int64_t i = 0; i < suffix.exponent; ++i) {
      MultiplyBy1024(digits);
    }
  }
  if (out.wide_) {
    out.scale_ = kNano;
  }
  if (exponent < kNano) {
    const auto drop = static_cast<size_t>(kNano - exponent);
    DropRoundingUp(digits, drop);
    exponent = kNano;
  }
  while (digits.size() > 1 && digits.back() == 0) {
    digits.pop_back();
    ++exponent;
  }
  if (digits.size() > kMaxDigits) {
    const size_t drop = digits.size() - kMaxDigits;
    DropRoundingUp(digits, drop);
    exponent += static_cast<int64_t>(drop);
    if (digits.size() > kMaxDigits) {  // 99…9 became 100…0
      digits.pop_back();
      ++exponent;
    }
  }
  Wide magnitude = 0;
  for (const uint8_t digit : digits) {
    magnitude = magnitude * 10 + digit;
  }
  out.coefficient_ = negative ? -magnitude : magnitude;
  out.exponent_ = ToInt32(exponent);
  if (suffix.binary && (out > FromInt(kMax) || out < FromInt(-kMax))) {
    out.coefficient_ = negative ? -static_cast<Wide>(kMax) : static_cast<Wide>(kMax);
    out.exponent_ = 0;
    out.scale_ = 0;
    out.wide_ = true;
    out.text_.clear();
  }
  return out;
}

Result<Quantity> Quantity::FromJson(const Json& json) {
  if (json.IsString()) {
    std::string_view text = json.AsString();
    constexpr std::string_view kSpace = " \t\n\v\f\r";
    while (!text.empty() && kSpace.find(text.front()) != std::string_view::npos) {
      text.remove_prefix(1);
    }
    while (!text.empty() && kSpace.find(text.back()) != std::string_view::npos) {
      text.remove_suffix(1);
    }
    return Parse(text);
  }
  if (json.IsInt()) {
    return Parse(std::to_string(json.AsInt()));
  }
  if (json.IsDouble()) {
    std::array<char, 32> buffer{};
    const auto [end, error] =
        std::to_chars(buffer.data(), buffer.data() + buffer.size(), json.AsDouble());
    return Parse(std::string_view(buffer.data(), error == std::errc() ? end : buffer.data()));
  }
  if (json.IsNull()) {
    return Quantity();
  }
  return Fail(ErrorCode::kInvalid,
              "a quantity must be a string or a number, not " + json.Dump().substr(0, 64));
}

int64_t Quantity::Value() const {
  return Scaled(coefficient_, exponent_, 0);
}

int64_t Quantity::MilliValue() const {
  return Scaled(coefficient_, exponent_, -3);
}

std::optional<int64_t> Quantity::KeptAt(int32_t scale) const {
  Wide value = coefficient_;
  for (int64_t shift = static_cast<int64_t>(exponent_) - scale; shift > 0 && value != 0; --shift) {
    if (value > kMax || value < kMin) {
      return std::nullopt;
    }
    value *= 10;
  }
  if (value > kMax || value < kMin) {
    return std::nullopt;
  }
  return static_cast<int64_t>(value);
}

std::optional<int64_t> Quantity::AsInt64() const {
  return wide_ || scale_ < 0 ? std::nullopt : KeptAt(0);
}

double Quantity::ApproximateDouble() const {
  // The API server multiplies the digits that it keeps by a power of ten, and rounds each.
  const std::string text =
      WideToString(coefficient_) + "e" + std::to_string(static_cast<int64_t>(exponent_) - scale_);
  double digits = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), digits);
  if (error == std::errc::result_out_of_range) {
    digits = std::copysign(std::numeric_limits<double>::infinity(), Sign());
  }
  return coefficient_ == 0 ? 0.0 : (scale_ == 0 ? digits : digits * GoPow10(scale_));
}

Quantity Quantity::RoundedUpToMilli() const {
  if (exponent_ >= -3) {
    return *this;
  }
  Quantity out = *this;
  out.text_.clear();
  const Wide divisor = Pow10(-3 - exponent_);
  const Wide rest = coefficient_ % divisor;
  out.coefficient_ = coefficient_ / divisor + (rest > 0 ? 1 : (rest < 0 ? -1 : 0));
  out.exponent_ = -3;
  out.scale_ = -3;
  return out;
}

std::string Quantity::ToString() const {
  if (!text_.empty()) {
    return text_;
  }
  if (coefficient_ == 0) {
    return "0";
  }
  Wide mantissa = coefficient_;
  int64_t exponent = exponent_;
  while (mantissa % 10 == 0) {
    mantissa /= 10;
    ++exponent;
  }
  if (format_ == Format::kBinary && exponent >= 0) {
    const int64_t value = Value();
    if (value <= -1024 || value >= 1024) {
      static constexpr std::array<const char*, 7> kSuffixes = {"",   "Ki", "Mi", "Gi",
                                                               "Ti", "Pi", "Ei"};
      int64_t rest = value;
      size_t step = 0;
      while (rest % 1024 == 0 && step + 1 < kSuffixes.size()) {
        rest /= 1024;
        ++step;
      }
      return std::to_string(rest) + kSuffixes[step];
    }
  }
  while (exponent % 3 != 0) {
    if (DigitCount(mantissa) >= kMaxDigits) {  // no room: print all of it without a suffix
      return WideToString(mantissa) + "e" + std::to_string(exponent);
    }
    mantissa *= 10;
    --exponent;
  }
  const std::string number = WideToString(mantissa);
  if (exponent == 0) {
    return number;
  }
  if (format_ == Format::kExponent || exponent < -9 || exponent > 18) {
    return number + "e" + std::to_string(exponent);
  }
  static constexpr std::string_view kSuffixes = "num kMGTPE";
  return number + kSuffixes[static_cast<size_t>(exponent / 3 + 3)];
}

std::strong_ordering operator<=>(const Quantity& a, const Quantity& b) {
  if (a.Sign() != b.Sign()) {
    return a.Sign() <=> b.Sign();
  }
  if (a.Sign() == 0) {
    return std::strong_ordering::equal;
  }
  const bool negative = a.Sign() < 0;
  Wide left = negative ? -a.coefficient_ : a.coefficient_;
  Wide right = negative ? -b.coefficient_ : b.coefficient_;
  const int left_digits = DigitCount(left);
  const int right_digits = DigitCount(right);
  const int64_t left_size = static_cast<int64_t>(left_digits) + a.exponent_;
  const int64_t right_size = static_cast<int64_t>(right_digits) + b.exponent_;
  std::strong_ordering order = left_size <=> right_size;
  if (order == 0) {
    // Same number of places before the point: bring both to the same number of digits.
    if (left_digits < right_digits) {
      left *= Pow10(right_digits - left_digits);
    } else {
      right *= Pow10(left_digits - right_digits);
    }
    order = left < right   ? std::strong_ordering::less
            : left > right ? std::strong_ordering::greater
                           : std::strong_ordering::equal;
  }
  return negative ? 0 <=> order : order;
}

bool operator==(const Quantity& a, const Quantity& b) {
  return (a <=> b) == 0;
}

Quantity operator*(const Quantity& a, const Quantity& b) {
  Quantity out;
  out.format_ = a.format_;
  if (a.IsZero() || b.IsZero()) {
    return out;
  }
  Wide left = a.coefficient_;
  Wide right = b.coefficient_;
  out.exponent_ = a.exponent_ + b.exponent_;
  while (DigitCount(left) + DigitCount(right) > kMaxDigits) {
    (DigitCount(left) > DigitCount(right) ? left : right) /= 10;
    ++out.exponent_;
  }
  out.coefficient_ = left * right;
  out.scale_ = out.exponent_;
  out.wide_ = true;
  return out;
}

Quantity operator+(const Quantity& a, const Quantity& b) {
  Quantity out;
  out.format_ = a.IsZero() ? b.format_ : a.format_;
  if (!a.wide_ && !b.wide_) {
    // The scale of a zero doesn't count here.
    out.scale_ = b.IsZero() ? a.scale_ : a.IsZero() ? b.scale_ : std::min(a.scale_, b.scale_);
    const std::optional<int64_t> left = a.KeptAt(out.scale_);
    const std::optional<int64_t> right = b.KeptAt(out.scale_);
    int64_t kept = 0;
    if (left && right && !__builtin_add_overflow(*left, *right, &kept)) {
      out.coefficient_ = kept;
      out.exponent_ = kept == 0 ? 0 : out.scale_;
      return out;
    }
  }
  out.scale_ = std::min(a.scale_, b.scale_);
  out.wide_ = true;
  if (a.IsZero() || b.IsZero()) {
    const Quantity& other = a.IsZero() ? b : a;
    out.coefficient_ = other.coefficient_;
    out.exponent_ = other.exponent_;
    return out;
  }
  out.exponent_ = std::min(a.exponent_, b.exponent_);
  const auto widen = [&](const Quantity& quantity, Wide& value) {
    value = quantity.coefficient_;
    const int64_t shift = static_cast<int64_t>(quantity.exponent_) - out.exponent_;
    if (shift + DigitCount(value) > kMaxDigits) {
      return false;
    }
    value *= Pow10(static_cast<int>(shift));
    return true;
  };
  Wide left = 0;
  Wide right = 0;
  if (widen(a, left) && widen(b, right) &&
      !__builtin_add_overflow(left, right, &out.coefficient_) &&
      DigitCount(out.coefficient_) <= kMaxDigits) {
    out.exponent_ = out.coefficient_ == 0 ? 0 : out.exponent_;
    return out;
  }
  // Far beyond int64: the part that has more places before the point decides.
  const auto places = [](const Quantity& quantity) {
    return static_cast<int64_t>(DigitCount(quantity.coefficient_)) + quantity.exponent_;
  };
  const Quantity& larger = places(a) >= places(b) ? a : b;
  out.coefficient_ = larger.coefficient_;
  out.exponent_ = larger.exponent_;
  return out;
}

Quantity operator-(const Quantity& a, const Quantity& b) {
  if (!a.wide_ && !b.wide_ && b.KeptAt(b.scale_) == kMin) {
    if (const Quantity sum = a + b; !sum.wide_) {
      return sum;
    }
  }
  Quantity opposite = b;
  opposite.coefficient_ = -opposite.coefficient_;
  return a + opposite;
}

int64_t ToAmount(std::string_view resource, const Quantity& quantity) {
  return CountedInMilli(resource) ? quantity.MilliValue() : quantity.Value();
}

Quantity FromAmount(std::string_view resource, int64_t amount) {
  if (CountedInMilli(resource)) {
    return Quantity::FromMilli(amount);
  }
  return CountedInBytes(resource) ? Quantity::FromBytes(amount) : Quantity::FromInt(amount);
}

Amounts ToAmounts(const ResourceList& list) {
  Amounts out;
  for (const auto& [resource, quantity] : list) {
    out.emplace_hint(out.end(), resource, ToAmount(resource, quantity));
  }
  return out;
}

int64_t SaturatingAdd(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_add_overflow(a, b, &out)) {
    return a < 0 ? kMin : kMax;
  }
  return out;
}

int64_t SaturatingMul(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) {
    return (a < 0) != (b < 0) ? kMin : kMax;
  }
  return out;
}

void AddTo(Amounts& sum, const Amounts& more, int64_t times) {
  for (const auto& [resource, amount] : more) {
    int64_t& target = sum[resource];
    target = SaturatingAdd(target, SaturatingMul(amount, times));
  }
}

void MaxInto(Amounts& target, const Amounts& other) {
  for (const auto& [resource, amount] : other) {
    const auto [it, inserted] = target.emplace(resource, amount);
    if (!inserted) {
      it->second = std::max(it->second, amount);
    }
  }
}

std::string FormatAmount(std::string_view resource, int64_t amount) {
  return FromAmount(resource, amount).ToString();
}

Result<ResourceList> ResourceListFromJson(const Json& json) {
  ResourceList out;
  if (!json.IsNull() && !json.IsObject()) {
    return Fail(ErrorCode::kInvalid, "must be a map of resource names to quantities");
  }
  for (const auto& [resource, value] : json.AsObject()) {
    Result<Quantity> quantity = Quantity::FromJson(value);
    if (!quantity) {
      return Fail(Error{ErrorCode::kInvalid, "[" + resource + "]: " + quantity.error().message, 0,
                        std::nullopt});
    }
    out[resource] = std::move(*quantity);
  }
  return out;
}

Json ToJson(const ResourceList& list) {
  Json::Object out;
  out.reserve(list.size());
  for (const auto& [resource, quantity] : list) {
    out.emplace_back(resource, quantity.ToString());
  }
  return Json(std::move(out));
}

}  // namespace tutti::api
