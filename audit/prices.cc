// SPDX-License-Identifier: Apache-2.0
#include "audit/prices.h"

#include <algorithm>
#include <array>

#include "api/quantity.h"

namespace tutti::audit {
namespace {

constexpr int64_t kUnits = 10'000;  // of a price, per currency unit
constexpr int64_t kSecondsPerHour = 3600;
constexpr int64_t kCentsPerUnit = 100;

bool NameMatches(std::string_view pattern, std::string_view resource) {
  return pattern.ends_with('*') ? resource.starts_with(pattern.substr(0, pattern.size() - 1))
                                : pattern == resource;
}

bool HasLabels(const api::StringMap& labels, const api::StringMap& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& label) {
    const std::string* value = api::FindIn(labels, label.first);
    return value != nullptr && *value == label.second;
  });
}

}  // namespace

Money::Money(int64_t per_hour, int64_t devices, int64_t seconds)
    : value_(api::SaturatingMul(api::SaturatingMul(per_hour, devices), seconds)) {}

Money& Money::operator+=(const Money& other) {
  value_ = api::SaturatingAdd(value_, other.value_);
  return *this;
}

int64_t Money::Cents() const {
  constexpr int64_t kPerCent = kUnits * kSecondsPerHour / kCentsPerUnit;
  return value_ / kPerCent + (value_ % kPerCent >= kPerCent / 2 ? 1 : 0);
}

std::string Money::ToString() const {
  return FormatCents(Cents());
}

std::string FormatCents(int64_t cents) {
  std::string units = std::to_string(cents / kCentsPerUnit);
  for (size_t i = units.size(); i > 3;) {
    i -= 3;
    units.insert(i, 1, ',');
  }
  const std::string rest = std::to_string(cents % kCentsPerUnit);
  return units + (rest.size() < 2 ? ".0" : ".") + rest;
}

Result<int64_t> ParsePrice(std::string_view text) {
  const auto bad = [&text] {
    return Fail(ErrorCode::kInvalid,
                "must be a price such as \"2.50\", with at most four decimals, is \"" +
                    std::string(text) + "\"");
  };
  const size_t dot = std::min(text.find('.'), text.size());
  const std::string_view whole = text.substr(0, dot);
  const std::string_view rest = dot < text.size() ? text.substr(dot + 1) : std::string_view();
  constexpr size_t kMaxDigits = 9;
  if (whole.empty() || whole.size() > kMaxDigits || rest.size() > 4 ||
      (dot < text.size() && rest.empty())) {
    return bad();
  }
  int64_t out = 0;
  for (const char c : std::string(whole) + std::string(rest) + std::string(4 - rest.size(), '0')) {
    if (c < '0' || c > '9') {
      return bad();
    }
    out = out * 10 + (c - '0');
  }
  return out;
}

std::string FormatPrice(int64_t per_hour) {
  std::string rest = std::to_string(kUnits + per_hour % kUnits).substr(1);
  while (rest.size() > 2 && rest.back() == '0') {
    rest.pop_back();
  }
  return std::to_string(per_hour / kUnits) + "." + rest;
}

Prices Prices::Examples() {
  Prices out;
  out.examples_ = true;
  const auto add = [&out](const char* resource, int64_t cents) {
    out.prices_.push_back({resource, {}, cents * (kUnits / kCentsPerUnit)});
  };
  add("nvidia.com/gpu", 250);
  add("nvidia.com/mig-*", 50);
  add("amd.com/gpu", 200);
  add("gpu.intel.com/*", 100);
  add("google.com/tpu", 300);
  add("aws.amazon.com/neuron*", 150);
  add("habana.ai/gaudi", 150);
  add("gpu.nvidia.com", 250);  // classes of devices
  add("mig.nvidia.com", 50);
  add("gpu.amd.com", 200);
  return out;
}

Result<Prices> Prices::FromJson(const Json& json) {
  Prices out;
  if (json.Has("currency")) {
    out.currency_ = json["currency"].AsString();
    if (out.currency_.empty()) {
      return Fail(ErrorCode::kInvalid, "currency: must be a text such as \"USD\"");
    }
  }
  if (!json["prices"].IsArray() || json["prices"].AsArray().empty()) {
    return Fail(ErrorCode::kInvalid,
                "prices: must be a list of {resource, nodeLabels, perHour}, such as "
                "{\"resource\": \"nvidia.com/gpu\", \"perHour\": \"2.50\"}");
  }
  const Json::Array& prices = json["prices"].AsArray();
  for (size_t i = 0; i < prices.size(); ++i) {
    const std::string where = "prices[" + std::to_string(i) + "].";
    Price price{prices[i]["resource"].AsString(), api::StringMapFromJson(prices[i]["nodeLabels"]),
                0};
    if (price.resource.empty()) {
      return Fail(ErrorCode::kInvalid, where + "resource: is missing");
    }
    const Json& per_hour = prices[i]["perHour"];
    const std::string text =
        per_hour.IsInt() ? std::to_string(per_hour.AsInt()) : per_hour.AsString();
    if (per_hour.IsDouble()) {
      return Fail(ErrorCode::kInvalid, where + "perHour: write it in quotes, so that it is exact");
    }
    Result<int64_t> parsed = ParsePrice(text);
    if (!parsed) {
      return Fail(parsed.error().With(where + "perHour"));
    }
    price.per_hour = *parsed;
    out.prices_.push_back(std::move(price));
  }
  return out;
}

int64_t Prices::PerHour(std::string_view resource, const api::StringMap& node_labels,
                        bool* found) const {
  const Price* best = nullptr;
  for (const Price& price : prices_) {
    if (NameMatches(price.resource, resource) && HasLabels(node_labels, price.node_labels) &&
        (best == nullptr || price.node_labels.size() > best->node_labels.size())) {
      best = &price;
    }
  }
  if (found != nullptr) {
    *found = best != nullptr;
  }
  return best == nullptr ? 0 : best->per_hour;
}

bool IsAccelerator(std::string_view resource) {
  constexpr std::array<std::string_view, 4> kPrefixes = {"nvidia.com/mig-", "gpu.intel.com/",
                                                         "aws.amazon.com/neuron", "habana.ai/"};
  return resource.ends_with("/gpu") || resource.ends_with("/tpu") ||
         resource == "nvidia.com/gpu.shared" ||
         std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](std::string_view prefix) { return resource.starts_with(prefix); });
}

}  // namespace tutti::audit
