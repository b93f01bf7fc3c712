// SPDX-License-Identifier: Apache-2.0
// Reads one map of a configuration document field by field and remembers which fields were asked
// for; Finish() reports the others as unknown. Problems are collected, not thrown: one run shows
// them all. Used by config.cc only. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/time.h"
#include "operator/yaml.h"

namespace tutti {

class Problems {
 public:
  explicit Problems(const yaml::Document* document) : document_(document) {}
  // "line 7: metrics.bindAddress: …"
  void Add(const std::string& path, const std::string& what);
  [[nodiscard]] const std::vector<std::string>& all() const { return all_; }

 private:
  const yaml::Document* document_;
  std::vector<std::string> all_;
};

class Section {
 public:
  // `value` may be null (an absent or empty section): every reader then keeps the default.
  Section(Problems* problems, const Json& value, std::string path);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string PathOf(std::string_view field) const;
  // The member; null when absent. Marks it as known.
  const Json& Raw(std::string_view field);
  [[nodiscard]] bool Present(std::string_view field) const { return !value_[field].IsNull(); }

  // Each keeps `*out` when the field is absent or wrong; a wrong one is reported.
  void Bool(std::string_view field, bool* out);
  void Text(std::string_view field, std::string* out);
  void Int(std::string_view field, int64_t low, int64_t high, int32_t* out);
  void Number(std::string_view field, double* out);
  // "30s", "5m"; must be at least `low`.
  void Span(std::string_view field, Duration low, Duration* out);
  void Texts(std::string_view field, std::vector<std::string>* out);
  // One of the words; the position is returned through `apply`.
  void Choice(std::string_view field, const std::vector<std::string_view>& words,
              const std::function<void(size_t)>& apply);

  Section Sub(std::string_view field);
  // The map that is item `at` of the list `field`.
  Section Item(std::string_view field, size_t at, const Json& item);
  // Items of a list; reports another type.
  const Json::Array& Items(std::string_view field);

  // Refuses the field unless it is absent, null, an empty list, an empty map or equal to `allowed`.
  void Refuse(std::string_view field, const std::string& feature, const Json& allowed = {});
  void Report(std::string_view field, const std::string& what);

  // Reports members that no call above asked for.
  void Finish();

 private:
  const Json* Typed(std::string_view field, bool (Json::*is)() const, std::string_view type);

  Problems* problems_;
  const Json& value_;
  std::string path_;
  std::vector<std::string_view> known_;
};

[[nodiscard]] std::string_view TypeName(const Json& value);

}  // namespace tutti
