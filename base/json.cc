// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>
#include <simdjson.h>

#include "base/json_lenient.h"

namespace tutti {
namespace {

constexpr size_t kMaxDepth = 512;

bool HasDuplicateKey(const Json::Object& object) {
  std::vector<std::string_view> keys;
  keys.reserve(object.size());
  for (const Json::Member& member : object) {
    keys.push_back(member.first);
  }
  std::sort(keys.begin(), keys.end());
  return std::adjacent_find(keys.begin(), keys.end()) != keys.end();
}

// The last one of equal keys wins, as Go's encoding/json has it.
Json Unique(Json::Object members) {
  if (!HasDuplicateKey(members)) {
    return Json(std::move(members));
  }
  Json unique;
  for (Json::Member& member : members) {
    unique.Set(member.first, std::move(member.second));
  }
  return unique;
}

Json FromElement(const simdjson::dom::element& element) {
  using Type = simdjson::dom::element_type;
  switch (element.type()) {
    case Type::NULL_VALUE:
      return {};
    case Type::BOOL:
      return Json(bool(element));
    case Type::INT64:
      return Json(int64_t(element));
    case Type::UINT64: {
      const auto value = uint64_t(element);
      return value <= static_cast<uint64_t>(INT64_MAX) ? Json(static_cast<int64_t>(value))
                                                       : Json(static_cast<double>(value));
    }
    case Type::DOUBLE:
      return Json(double(element));
    case Type::STRING:
      return Json(std::string_view(element));
    case Type::ARRAY: {
      Json::Array out;
      const simdjson::dom::array array = element;
      out.reserve(array.size());
      for (const simdjson::dom::element child : array) {
        out.push_back(FromElement(child));
      }
      return Json(std::move(out));
    }
    case Type::OBJECT: {
      Json::Object out;
      const simdjson::dom::object object = element;
      out.reserve(object.size());
      for (const auto& [key, child] : object) {
        out.emplace_back(std::string(key), FromElement(child));
      }
      return Unique(std::move(out));
    }
  }
  return {};
}

// Builds a Json for what simdjson refuses but Go's decoder takes: integers beyond 64 bits (they
// become doubles). With `lenient`, what is nested deeper than kMaxDepth becomes null.
class Builder : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, Builder> {
 public:
  explicit Builder(bool lenient) : lenient_(lenient) {}

  Json Take() { return std::move(root_); }
  [[nodiscard]] bool NumberTooBig() const { return number_too_big_; }

  bool Null() { return Put(Json()); }
  bool Bool(bool value) { return Put(Json(value)); }
  // Numbers come as text: RapidJSON's own conversion reads 0e40 as something else than 0.
  bool RawNumber(const char* text, rapidjson::SizeType size, bool) {
    int64_t integer = 0;
    const char* end = text + size;
    if (const auto [stop, error] = std::from_chars(text, end, integer);
        error == std::errc() && stop == end) {
      return Put(Json(integer));
    }
    double real = 0;
    const auto [stop, error] = std::from_chars(text, end, real);
    if (error == std::errc::result_out_of_range) {  // beyond a double, or closer to 0 than any
      real = std::strtod(std::string(text, size).c_str(), nullptr);
      number_too_big_ = !std::isfinite(real);
      return !number_too_big_ && Put(Json(real));
    }
    return error == std::errc() && stop == end && Put(Json(real));
  }
  bool String(const char* text, rapidjson::SizeType size, bool) {
    return Put(Json(std::string_view(text, size)));
  }
  bool Key(const char* text, rapidjson::SizeType size, bool) {
    if (skipped_ == 0) {
      open_.back().key.assign(text, size);
    }
    return true;
  }
  bool StartObject() { return Open(Json::Obj()); }
  bool EndObject(rapidjson::SizeType) { return Close(); }
  bool StartArray() { return Open(Json::Arr()); }
  bool EndArray(rapidjson::SizeType) { return Close(); }

 private:
  struct Level {
    Json value;
    std::string key;
  };

  bool Put(Json value) {
    if (skipped_ > 0) {
      return true;
    }
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (Level& level = open_.back(); level.value.IsArray()) {
      level.value.Push(std::move(value));
    } else {
      level.value.MutableObject().emplace_back(level.key, std::move(value));
    }
    return true;
  }
  bool Open(Json value) {
    if (skipped_ > 0 || open_.size() >= kMaxDepth) {
      ++skipped_;
      return lenient_;
    }
    open_.push_back({std::move(value), {}});
    return true;
  }
  bool Close() {
    if (skipped_ > 0) {
      --skipped_;
      return Put(Json());
    }
    Json value = std::move(open_.back().value);
    open_.pop_back();
    return Put(value.IsObject() ? Unique(std::move(value.MutableObject())) : std::move(value));
  }

  const bool lenient_;
  Json root_;
  std::vector<Level> open_;
  size_t skipped_ = 0;
  bool number_too_big_ = false;
};

Result<Json> ParseSlowly(std::string_view text, bool lenient) {
  rapidjson::MemoryStream stream(text.data(), text.size());
  rapidjson::Reader reader;
  Builder builder(lenient);
  constexpr unsigned kFlags = rapidjson::kParseIterativeFlag |
                              rapidjson::kParseNumbersAsStringsFlag |
                              rapidjson::kParseValidateEncodingFlag;
  if (!reader.Parse<kFlags>(stream, builder)) {
    if (builder.NumberTooBig()) {
      return Fail(ErrorCode::kDecode, "JSON: number too big for a double");
    }
    return Fail(ErrorCode::kDecode,
                reader.GetParseErrorCode() == rapidjson::kParseErrorTermination
                    ? "JSON: nested deeper than " + std::to_string(kMaxDepth)
                    : "JSON: malformed at byte " + std::to_string(reader.GetErrorOffset()));
  }
  return builder.Take();
}

using Writer = rapidjson::Writer<rapidjson::StringBuffer>;

void WriteTo(const Json& json, Writer& writer, bool sorted) {
  if (json.IsNull()) {
    writer.Null();
  } else if (json.IsBool()) {
    writer.Bool(json.AsBool());
  } else if (json.IsInt()) {
    writer.Int64(json.AsInt());
  } else if (json.IsDouble()) {
    if (!writer.Double(json.AsDouble())) {
      writer.Null();  // NaN and infinities have no JSON form
    }
  } else if (json.IsString()) {
    const std::string& text = json.AsString();
    writer.String(text.data(), static_cast<rapidjson::SizeType>(text.size()));
  } else if (json.IsArray()) {
    writer.StartArray();
    for (const Json& item : json.AsArray()) {
      WriteTo(item, writer, sorted);
    }
    writer.EndArray();
  } else {
    writer.StartObject();
    std::vector<const Json::Member*> members;
    members.reserve(json.AsObject().size());
    for (const Json::Member& member : json.AsObject()) {
      members.push_back(&member);
    }
    if (sorted) {
      std::sort(members.begin(), members.end(),
                [](const auto* a, const auto* b) { return a->first < b->first; });
    }
    for (const Json::Member* member : members) {
      writer.Key(member->first.data(), static_cast<rapidjson::SizeType>(member->first.size()));
      WriteTo(member->second, writer, sorted);
    }
    writer.EndObject();
  }
}

std::string DumpWith(const Json& json, bool sorted) {
  rapidjson::StringBuffer buffer;
  Writer writer(buffer);
  WriteTo(json, writer, sorted);
  return {buffer.GetString(), buffer.GetSize()};
}

}  // namespace

namespace {

Result<Json> ParseWith(std::string_view text, bool lenient) {
  thread_local simdjson::dom::parser parser;
  simdjson::dom::element element;
  if (parser.allocate(std::max<size_t>(text.size(), 1), kMaxDepth) != simdjson::SUCCESS) {
    return Fail(ErrorCode::kDecode, "JSON: out of memory");
  }
  const auto error = parser.parse(text.data(), text.size()).get(element);
  if (error == simdjson::NUMBER_ERROR || (lenient && error == simdjson::DEPTH_ERROR)) {
    return ParseSlowly(text, lenient);
  }
  if (error != simdjson::SUCCESS) {
    return Fail(ErrorCode::kDecode, std::string("JSON: ") + simdjson::error_message(error));
  }
  return FromElement(element);
}

}  // namespace

Result<Json> Json::Parse(std::string_view text) {
  return ParseWith(text, /*lenient=*/false);
}

Result<Json> ParseLenient(std::string_view text) {
  return ParseWith(text, /*lenient=*/true);
}

bool Json::AsBool(bool fallback) const {
  const bool* value = std::get_if<bool>(&value_);
  return value != nullptr ? *value : fallback;
}

int64_t Json::AsInt(int64_t fallback) const {
  if (const int64_t* value = std::get_if<int64_t>(&value_)) {
    return *value;
  }
  if (const double* value = std::get_if<double>(&value_)) {
    if (*value >= -9.2e18 && *value <= 9.2e18) {
      return static_cast<int64_t>(*value);
    }
  }
  return fallback;
}

double Json::AsDouble(double fallback) const {
  if (const double* value = std::get_if<double>(&value_)) {
    return *value;
  }
  if (const int64_t* value = std::get_if<int64_t>(&value_)) {
    return static_cast<double>(*value);
  }
  return fallback;
}

const std::string& Json::AsString() const {
  static const std::string kEmpty;
  const std::string* value = std::get_if<std::string>(&value_);
  return value != nullptr ? *value : kEmpty;
}

const Json::Array& Json::AsArray() const {
  static const Array kEmpty;
  const Array* value = std::get_if<Array>(&value_);
  return value != nullptr ? *value : kEmpty;
}

const Json::Object& Json::AsObject() const {
  static const Object kEmpty;
  const Object* value = std::get_if<Object>(&value_);
  return value != nullptr ? *value : kEmpty;
}

const Json* Json::Find(std::string_view key) const {
  for (const Member& member : AsObject()) {
    if (member.first == key) {
      return &member.second;
    }
  }
  return nullptr;
}

const Json& Json::operator[](std::string_view key) const {
  static const Json kNull;
  const Json* found = Find(key);
  return found != nullptr ? *found : kNull;
}

Json::Object& Json::MutableObject() {
  if (!IsObject()) {
    value_ = Object{};
  }
  return std::get<Object>(value_);
}

Json::Array& Json::MutableArray() {
  if (!IsArray()) {
    value_ = Array{};
  }
  return std::get<Array>(value_);
}

Json& Json::At(std::string_view key) {
  Object& object = MutableObject();
  for (Member& member : object) {
    if (member.first == key) {
      return member.second;
    }
  }
  object.emplace_back(std::string(key), Json());
  return object.back().second;
}

Json& Json::Set(std::string_view key, Json value) {
  At(key) = std::move(value);
  return *this;
}

Json& Json::Push(Json value) {
  MutableArray().push_back(std::move(value));
  return *this;
}

bool Json::Erase(std::string_view key) {
  Object* object = std::get_if<Object>(&value_);
  if (object == nullptr) {
    return false;
  }
  const auto it = std::find_if(object->begin(), object->end(),
                               [&](const Member& member) { return member.first == key; });
  if (it == object->end()) {
    return false;
  }
  object->erase(it);
  return true;
}

std::string Json::Dump() const {
  return DumpWith(*this, /*sorted=*/false);
}

std::string Json::DumpSorted() const {
  return DumpWith(*this, /*sorted=*/true);
}

bool operator==(const Json& a, const Json& b) {
  if (a.IsNumber() && b.IsNumber() && a.IsInt() != b.IsInt()) {
    return a.AsDouble() == b.AsDouble();
  }
  if (a.IsObject() && b.IsObject()) {
    const auto& left = a.AsObject();
    if (left.size() != b.AsObject().size()) {
      return false;
    }
    return std::all_of(left.begin(), left.end(), [&](const Json::Member& member) {
      const Json* other = b.Find(member.first);
      return other != nullptr && member.second == *other;
    });
  }
  return a.value_ == b.value_;
}

void ApplyMergePatch(Json& target, const Json& patch) {
  if (!patch.IsObject()) {
    target = patch;
    return;
  }
  if (!target.IsObject()) {
    target = Json::Obj();
  }
  for (const auto& [key, value] : patch.AsObject()) {
    if (value.IsNull()) {
      target.Erase(key);
    } else {
      ApplyMergePatch(target.At(key), value);
    }
  }
}

Json DiffMergePatch(const Json& from, const Json& to) {
  Json out = Json::Obj();
  for (const auto& [key, value] : to.AsObject()) {
    const Json* old = from.Find(key);
    if (old == nullptr) {
      out.Set(key, value);
    } else if (value.IsObject() && old->IsObject()) {
      Json inner = DiffMergePatch(*old, value);
      if (!inner.AsObject().empty()) {
        out.Set(key, std::move(inner));
      }
    } else if (!(*old == value)) {
      out.Set(key, value);
    }
  }
  for (const auto& [key, value] : from.AsObject()) {
    if (!to.Has(key) && !value.IsNull()) {
      out.Set(key, Json());
    }
  }
  return out;
}

}  // namespace tutti
