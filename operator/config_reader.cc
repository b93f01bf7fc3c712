// SPDX-License-Identifier: Apache-2.0
#include "operator/config_reader.h"

#include <algorithm>

#include "operator/suggest.h"

namespace tutti {
namespace {

const Json& NullJson() {
  static const Json null;
  return null;
}

const Json::Array& NoItems() {
  static const Json::Array none;
  return none;
}

}  // namespace

std::string_view TypeName(const Json& value) {
  if (value.IsNull()) {
    return "null";
  }
  if (value.IsBool()) {
    return "a boolean";
  }
  if (value.IsNumber()) {
    return "a number";
  }
  if (value.IsString()) {
    return "a text";
  }
  return value.IsArray() ? "a list" : "a map";
}

void Problems::Add(const std::string& path, const std::string& what) {
  const int line = document_->LineOf(path);
  std::string text = line > 0 ? "line " + std::to_string(line) + ": " : "";
  if (!path.empty()) {
    text += path + ": ";
  }
  all_.push_back(text + what);
}

Section::Section(Problems* problems, const Json& value, std::string path)
    : problems_(problems), value_(value.IsObject() ? value : NullJson()), path_(std::move(path)) {
  if (!value.IsNull() && !value.IsObject()) {
    problems_->Add(path_, "must be a map, is " + std::string(TypeName(value)));
  }
}

std::string Section::PathOf(std::string_view field) const {
  return path_.empty() ? std::string(field) : path_ + "." + std::string(field);
}

const Json& Section::Raw(std::string_view field) {
  known_.push_back(field);
  return value_[field];
}

void Section::Report(std::string_view field, const std::string& what) {
  problems_->Add(PathOf(field), what);
}

const Json* Section::Typed(std::string_view field, bool (Json::*is)() const,
                           std::string_view type) {
  const Json& value = Raw(field);
  if (value.IsNull()) {
    return nullptr;
  }
  if (!(value.*is)()) {
    Report(field, "must be " + std::string(type) + ", is " + std::string(TypeName(value)));
    return nullptr;
  }
  return &value;
}

void Section::Bool(std::string_view field, bool* out) {
  if (const Json* value = Typed(field, &Json::IsBool, "true or false")) {
    *out = value->AsBool();
  }
}

void Section::Text(std::string_view field, std::string* out) {
  if (const Json* value = Typed(field, &Json::IsString, "a text")) {
    *out = value->AsString();
  }
}

void Section::Int(std::string_view field, int64_t low, int64_t high, int32_t* out) {
  if (const Json* value = Typed(field, &Json::IsInt, "a whole number")) {
    if (value->AsInt() < low || value->AsInt() > high) {
      Report(field, "must be between " + std::to_string(low) + " and " + std::to_string(high) +
                        ", is " + std::to_string(value->AsInt()));
      return;
    }
    *out = static_cast<int32_t>(value->AsInt());
  }
}

void Section::Number(std::string_view field, double* out) {
  if (const Json* value = Typed(field, &Json::IsNumber, "a number")) {
    *out = value->IsInt() ? static_cast<double>(value->AsInt()) : value->AsDouble();
  }
}

void Section::Span(std::string_view field, Duration low, Duration* out) {
  if (const Json* value = Typed(field, &Json::IsString, "a duration such as 30s or 5m")) {
    const auto parsed = ParseDuration(value->AsString());
    if (!parsed) {
      Report(field, "must be a duration such as 30s or 5m: " + parsed.error().message);
    } else if (*parsed < low) {
      Report(field, "must be at least " + FormatDuration(low) + ", is " + value->AsString());
    } else {
      *out = *parsed;
    }
  }
}

void Section::Texts(std::string_view field, std::vector<std::string>* out) {
  std::vector<std::string> texts;
  size_t at = 0;
  for (const Json& item : Items(field)) {
    if (!item.IsString()) {
      problems_->Add(PathOf(field) + "[" + std::to_string(at) + "]",
                     "must be a text, is " + std::string(TypeName(item)));
      return;
    }
    texts.push_back(item.AsString());
    ++at;
  }
  if (Present(field)) {
    *out = std::move(texts);
  }
}

void Section::Choice(std::string_view field, const std::vector<std::string_view>& words,
                     const std::function<void(size_t)>& apply) {
  // A bare Off is false in YAML; where Off is a word, it is meant.
  if (const Json& raw = Raw(field); raw.IsBool() && !raw.AsBool()) {
    const auto off = std::find(words.begin(), words.end(), "Off");
    if (off != words.end()) {
      apply(static_cast<size_t>(off - words.begin()));
      return;
    }
  }
  const Json* value = Typed(field, &Json::IsString, "a text");
  if (value == nullptr) {
    return;
  }
  const auto found = std::find(words.begin(), words.end(), value->AsString());
  if (found == words.end()) {
    std::string list;
    for (const std::string_view word : words) {
      list += (list.empty() ? "" : ", ") + std::string(word);
    }
    Report(field, "must be one of " + list + ", is '" + value->AsString() + "'" +
                      DidYouMean(value->AsString(), words));
    return;
  }
  apply(static_cast<size_t>(found - words.begin()));
}

Section Section::Sub(std::string_view field) {
  const Json& value = Raw(field);
  return {problems_, value, PathOf(field)};
}

Section Section::Item(std::string_view field, size_t at, const Json& item) {
  return {problems_, item, PathOf(field) + "[" + std::to_string(at) + "]"};
}

const Json::Array& Section::Items(std::string_view field) {
  const Json* value = Typed(field, &Json::IsArray, "a list");
  return value == nullptr ? NoItems() : value->AsArray();
}

void Section::Refuse(std::string_view field, const std::string& feature, const Json& allowed) {
  const Json& value = Raw(field);
  const bool empty = value.IsNull() || (value.IsArray() && value.AsArray().empty()) ||
                     (value.IsObject() && value.AsObject().empty());
  if (!empty && !(!allowed.IsNull() && value == allowed)) {
    Report(field, feature + ": not supported by this version; remove the field");
  }
}

void Section::Finish() {
  for (const auto& [name, unused] : value_.AsObject()) {
    if (std::find(known_.begin(), known_.end(), name) == known_.end()) {
      Report(name, "unknown field" + DidYouMean(name, known_));
    }
  }
}

}  // namespace tutti
