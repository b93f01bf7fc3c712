// SPDX-License-Identifier: Apache-2.0
// What an accelerator costs per hour, by resource and by labels of its node. Amounts are exact: a
// cost is a sum of price x devices x seconds in integers, rounded once, when it is shown.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/meta.h"
#include "base/json.h"
#include "base/result.h"

namespace tutti::audit {

// Ten-thousandths of a currency unit x seconds per hour: the unit of a price x devices x seconds.
class Money {
 public:
  Money() = default;
  // `per_hour` in ten-thousandths.
  Money(int64_t per_hour, int64_t devices, int64_t seconds);
  Money& operator+=(const Money& other);
  // In cents, rounded half up.
  [[nodiscard]] int64_t Cents() const;
  [[nodiscard]] std::string ToString() const;  // "1,234.56"
  auto operator<=>(const Money&) const = default;

 private:
  int64_t value_ = 0;  // saturates
};

struct Price {
  std::string resource;  // or the name of a DeviceClass; may end in *
  api::StringMap node_labels;
  int64_t per_hour = 0;  // ten-thousandths
};

class Prices {
 public:
  // Made-up round numbers: examples, and marked as such wherever a cost is shown.
  static Prices Examples();
  // {"currency": "USD", "prices": [{"resource", "nodeLabels"?, "perHour": "2.50"}]}. kInvalid names
  // the field.
  static Result<Prices> FromJson(const Json& json);

  // Of the prices for the resource whose labels the node has: the one with most labels, of those
  // the first. 0 and false: none.
  [[nodiscard]] int64_t PerHour(std::string_view resource, const api::StringMap& node_labels,
                                bool* found = nullptr) const;
  [[nodiscard]] const std::string& Currency() const { return currency_; }
  [[nodiscard]] bool AreExamples() const { return examples_; }
  [[nodiscard]] const std::vector<Price>& All() const { return prices_; }

 private:
  std::string currency_ = "USD";
  std::vector<Price> prices_;
  bool examples_ = false;
};

// Whether a resource of a pod is an accelerator: a GPU, a slice of one, a TPU and the like.
[[nodiscard]] bool IsAccelerator(std::string_view resource);

// "2.50" as ten-thousandths; nothing with more than four decimals, a sign or other text.
[[nodiscard]] Result<int64_t> ParsePrice(std::string_view text);
[[nodiscard]] std::string FormatPrice(int64_t per_hour);  // "2.50", "0.0375"
[[nodiscard]] std::string FormatCents(int64_t cents);     // "1,234.56"

}  // namespace tutti::audit
