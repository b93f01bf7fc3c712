// SPDX-License-Identifier: Apache-2.0
// Canonical text reads back as the same value; the whole-number views agree with each other.
#include "api/quantity.h"
#include "fuzz/fuzz.h"

using tutti::api::Quantity;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 512) {
    return 0;
  }
  const tutti::Result<Quantity> parsed = Quantity::Parse(AsText(data, size));
  if (!parsed) {
    REQUIRE(parsed.error().code == tutti::ErrorCode::kInvalid);
    return 0;
  }
  const Quantity& quantity = *parsed;
  const std::string text = quantity.ToString();
  const tutti::Result<Quantity> again = Quantity::Parse(text);
  REQUIRE(again.has_value());
  REQUIRE(*again == quantity);
  REQUIRE(again->ToString() == text);
  REQUIRE(again->Value() == quantity.Value());
  REQUIRE(again->MilliValue() == quantity.MilliValue());

  const int64_t value = quantity.Value();
  const int64_t milli = quantity.MilliValue();
  constexpr int64_t kSafe = INT64_MAX / 1000 - 1;
  if (value > -kSafe && value < kSafe) {
    REQUIRE(value == milli / 1000 + (milli % 1000 > 0 ? 1 : 0) - (milli % 1000 < 0 ? 1 : 0));
    REQUIRE(quantity.RoundedUpToMilli() == Quantity::FromMilli(milli));
    const Quantity whole = Quantity::FromInt(value);
    REQUIRE(quantity.Sign() >= 0 ? quantity <= whole : quantity >= whole);
    REQUIRE((quantity + whole) + -whole == quantity);
  }
  REQUIRE((quantity + -quantity).IsZero());
  REQUIRE(quantity + Quantity() == quantity);
  REQUIRE((quantity <=> -quantity) == (quantity.Sign() <=> 0));
  return 0;
}
