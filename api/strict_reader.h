// SPDX-License-Identifier: Apache-2.0
// Reading objects as strictly as Go's decoder: a member of the wrong type is a problem, named by
// its path. Used by the decoders of kinds where a value that is read wrongly would place a pod
// wrongly. Pure; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/core.h"
#include "api/quantity.h"
#include "base/json.h"

namespace tutti::api {

// A place in an object. Its typed readers note the first member that has another type than Go's
// structs have, and then give what an absent member would. It refers to the place that it was
// reached from, which must live as long.
class StrictReader {
 public:
  StrictReader(const Json& json, std::string& problem) : json_(&json), problem_(&problem) {}

  [[nodiscard]] bool Absent() const { return json_->IsNull(); }

  [[nodiscard]] StrictReader At(std::string_view key) const {
    if (!json_->IsNull() && !json_->IsObject())
      Bad("must be an object");
    return {(*json_)[key], this, key, -1};
  }

  [[nodiscard]] std::string Text() const {
    if (!json_->IsNull() && !json_->IsString())
      Bad("must be a string");
    return json_->AsString();
  }
  [[nodiscard]] bool Bool() const {
    if (!json_->IsNull() && !json_->IsBool())
      Bad("must be true or false");
    return json_->AsBool();
  }
  [[nodiscard]] int64_t Int(int64_t fallback = 0) const {
    if (!json_->IsNull() && !json_->IsInt())
      Bad("must be a whole number of 64 bits");
    return json_->AsInt(fallback);
  }
  [[nodiscard]] Quantity Amount() const {
    if (json_->IsNull())
      return {};
    Result<Quantity> quantity = Quantity::FromJson(*json_);
    if (!quantity)
      Bad(quantity.error().message);
    return quantity.value_or(Quantity());
  }

  template <typename Function>  // void(const StrictReader& item)
  void ForEach(Function function) const {
    if (!json_->IsNull() && !json_->IsArray())
      Bad("must be a list");
    int64_t index = 0;
    for (const Json& item : json_->AsArray())
      function(StrictReader(item, this, {}, index++));
  }
  template <typename Function>  // void(const std::string& key, const StrictReader& value)
  void ForEachMember(Function function) const {
    if (!json_->IsNull() && !json_->IsObject())
      Bad("must be an object");
    for (const auto& [key, value] : json_->AsObject())
      function(key, StrictReader(value, this, key, -1));
  }

  [[nodiscard]] std::vector<std::string> Texts() const {
    std::vector<std::string> out;
    ForEach([&](const StrictReader& item) { out.push_back(item.Text()); });
    return out;
  }
  [[nodiscard]] std::map<std::string, Quantity> Amounts() const {
    std::map<std::string, Quantity> out;
    ForEachMember(
        [&](const std::string& key, const StrictReader& value) { out[key] = value.Amount(); });
    return out;
  }

  void Bad(const std::string& what) const {
    if (problem_->empty())
      *problem_ = Path() + ": " + what;
  }

 private:
  StrictReader(const Json& json, const StrictReader* parent, std::string_view key, int64_t index)
      : json_(&json), parent_(parent), key_(key), index_(index), problem_(parent->problem_) {}

  [[nodiscard]] std::string Path() const {
    std::string path = parent_ == nullptr ? "" : parent_->Path();
    if (index_ >= 0)
      return path + "[" + std::to_string(index_) + "]";
    if (!path.empty() && !key_.empty())
      path += ".";
    return path + std::string(key_);
  }

  const Json* json_;
  const StrictReader* parent_ = nullptr;
  std::string_view key_;
  int64_t index_ = -1;
  std::string* problem_;
};

inline std::vector<Requirement> ReadRequirements(const StrictReader& list) {
  std::vector<Requirement> out;
  list.ForEach([&](const StrictReader& item) {
    out.push_back({item.At("key").Text(), item.At("operator").Text(), item.At("values").Texts()});
  });
  return out;
}

inline std::optional<NodeSelector> ReadNodeSelector(const StrictReader& json) {
  if (json.Absent())
    return std::nullopt;
  NodeSelector out;
  json.At("nodeSelectorTerms").ForEach([&](const StrictReader& item) {
    out.terms.push_back(
        {ReadRequirements(item.At("matchExpressions")), ReadRequirements(item.At("matchFields"))});
  });
  return out;
}

}  // namespace tutti::api
