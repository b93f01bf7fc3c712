// SPDX-License-Identifier: Apache-2.0
#include "operator/yaml.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>

#include <yaml-cpp/yaml.h>

namespace tutti::yaml {
namespace {

bool IsOneOf(std::string_view text, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words) {
    if (text == word) {
      return true;
    }
  }
  return false;
}

// [-+]? (0x.. | 0o.. | 0b.. | 0.. octal | decimal), underscores ignored.
bool ParseInteger(std::string_view raw, int64_t* out) {
  std::string text;
  for (const char c : raw) {
    if (c != '_') {
      text += c;
    }
  }
  size_t at = 0;
  const bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    at = 1;
  }
  int base = 10;
  if (text.size() > at + 1 && text[at] == '0') {
    const char kind = text[at + 1];
    if (kind == 'x' || kind == 'X') {
      base = 16;
      at += 2;
    } else if (kind == 'o' || kind == 'O') {
      base = 8;
      at += 2;
    } else if (kind == 'b' || kind == 'B') {
      base = 2;
      at += 2;
    } else {
      base = 8;
      at += 1;
    }
  }
  if (at >= text.size()) {
    return false;
  }
  const uint64_t limit = negative ? (1ULL << 63) : static_cast<uint64_t>(INT64_MAX);
  uint64_t value = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    int digit = 99;
    if (c >= '0' && c <= '9') {
      digit = c - '0';
    } else if (c >= 'a' && c <= 'f') {
      digit = c - 'a' + 10;
    } else if (c >= 'A' && c <= 'F') {
      digit = c - 'A' + 10;
    }
    if (digit >= base) {
      return false;
    }
    const auto step = static_cast<uint64_t>(digit);
    if (value > (limit - step) / static_cast<uint64_t>(base)) {
      return false;
    }
    value = value * static_cast<uint64_t>(base) + step;
  }
  *out = negative ? static_cast<int64_t>(0 - value) : static_cast<int64_t>(value);
  return true;
}

// [-+]? (. digits | digits (. digits*)?) ([eE] [-+]? digits)?
bool LooksLikeFloat(std::string_view text) {
  size_t at = 0;
  const auto digits = [&] {
    const size_t start = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
      ++at;
    }
    return at - start;
  };
  if (at < text.size() && (text[at] == '-' || text[at] == '+')) {
    ++at;
  }
  const size_t whole = digits();
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (digits() == 0 && whole == 0) {
      return false;
    }
  } else if (whole == 0) {
    return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) {
      ++at;
    }
    if (digits() == 0) {
      return false;
    }
  }
  return at == text.size();
}

Json PlainScalar(const std::string& text) {
  if (IsOneOf(text, {"", "~", "null", "Null", "NULL"})) {
    return {};
  }
  if (IsOneOf(text, {"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})) {
    return true;
  }
  if (IsOneOf(text, {"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})) {
    return false;
  }
  int64_t integer = 0;
  if (ParseInteger(text, &integer)) {
    return integer;
  }
  if (LooksLikeFloat(text)) {
    return std::strtod(text.c_str(), nullptr);
  }
  return text;
}

class Converter {
 public:
  explicit Converter(Document* document) : document_(document) {}

  Result<Json> Convert(const YAML::Node& node, const std::string& path, int depth) {
    if (depth > kMaxDepth) {
      return FailAt(node, path,
                    "nested too deeply (at most " + std::to_string(kMaxDepth) + " levels)");
    }
    if (++nodes_ > kMaxNodes) {
      return FailAt(node, path, "too many values (at most " + std::to_string(kMaxNodes) + ")");
    }
    document_->lines.emplace(path, Line(node));
    switch (node.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null:
        return Json();
      case YAML::NodeType::Scalar:
        return Scalar(node, path);
      case YAML::NodeType::Sequence: {
        Json::Array items;
        for (const YAML::Node& child : node) {
          TRY_ASSIGN(Json item,
                     Convert(child, path + "[" + std::to_string(items.size()) + "]", depth + 1));
          items.push_back(std::move(item));
        }
        return Json(std::move(items));
      }
      case YAML::NodeType::Map:
        return Map(node, path, depth);
    }
    return Json();
  }

 private:
  static int Line(const YAML::Node& node) { return node.Mark().line + 1; }

  static tl::unexpected<Error> FailAt(const YAML::Node& node, const std::string& path,
                                      const std::string& what) {
    std::string message = "line " + std::to_string(Line(node)) + ": ";
    if (!path.empty()) {
      message += path + ": ";
    }
    return Fail(ErrorCode::kDecode, message + what);
  }

  static Result<Json> Scalar(const YAML::Node& node, const std::string& path) {
    const std::string& tag = node.Tag();
    const std::string& text = node.Scalar();
    if (tag == "!" || tag == "tag:yaml.org,2002:str") {
      return Json(text);
    }
    const Json value = PlainScalar(text);
    if (tag == "tag:yaml.org,2002:int" && !value.IsInt()) {
      return FailAt(node, path, "'" + text + "' is not an integer");
    }
    if (tag == "tag:yaml.org,2002:bool" && !value.IsBool()) {
      return FailAt(node, path, "'" + text + "' is not a boolean");
    }
    if (tag == "tag:yaml.org,2002:float" && !value.IsNumber()) {
      return FailAt(node, path, "'" + text + "' is not a number");
    }
    if (value.IsDouble() && !std::isfinite(value.AsDouble())) {
      return FailAt(node, path, "'" + text + "' is out of range");
    }
    return value;
  }

  static Result<std::string> Key(const YAML::Node& node, const std::string& path) {
    if (!node.IsScalar()) {
      return FailAt(node, path, "a key must be a plain text");
    }
    TRY_ASSIGN(const Json key, Scalar(node, path));
    return key.IsString() ? key.AsString() : key.Dump();
  }

  Result<Json> Map(const YAML::Node& node, const std::string& path, int depth) {
    Json::Object members;
    std::set<std::string> seen;
    std::vector<YAML::Node> merged;
    for (const auto& entry : node) {
      if (entry.first.IsScalar() && entry.first.Scalar() == "<<" && entry.first.Tag() != "!") {
        merged.push_back(entry.second);
        continue;
      }
      TRY_ASSIGN(std::string key, Key(entry.first, path));
      const std::string child = path.empty() ? key : path + "." + key;
      if (!seen.insert(key).second) {
        return FailAt(entry.first, child, "this key is given twice; remove one of them");
      }
      TRY_ASSIGN(Json value, Convert(entry.second, child, depth + 1));
      document_->lines[child] = Line(entry.first);
      members.emplace_back(std::move(key), std::move(value));
    }
    for (const YAML::Node& source : merged) {
      TRY(Merge(source, path, depth, &seen, &members));
    }
    return Json(std::move(members));
  }

  // "<<": a map, or a list of maps of which the first wins. Keys of the map itself win over both.
  Status Merge(const YAML::Node& source, const std::string& path, int depth,
               std::set<std::string>* seen, Json::Object* members) {
    if (source.IsSequence()) {
      for (const YAML::Node& item : source) {
        if (!item.IsMap()) {
          return FailAt(item, path, "'<<' takes a map or a list of maps");
        }
        TRY(Merge(item, path, depth + 1, seen, members));
      }
      return {};
    }
    if (!source.IsMap()) {
      return FailAt(source, path, "'<<' takes a map or a list of maps");
    }
    TRY_ASSIGN(Json value, Convert(source, path, depth + 1));
    for (auto& member : value.MutableObject()) {
      if (seen->insert(member.first).second) {
        members->push_back(std::move(member));
      }
    }
    return {};
  }

  Document* document_;
  int nodes_ = 0;
};

}  // namespace

int Document::LineOf(const std::string& path) const {
  const auto found = lines.find(path);
  return found == lines.end() ? 0 : found->second;
}

Result<std::vector<Document>> Parse(std::string_view text) {
  if (text.size() > kMaxBytes) {
    return Fail(ErrorCode::kDecode,
                "the text is larger than " + std::to_string(kMaxBytes) + " bytes");
  }
  try {
    std::vector<Document> documents;
    for (const YAML::Node& node : YAML::LoadAll(std::string(text))) {
      Document document;
      Converter converter(&document);
      TRY_ASSIGN(document.value, converter.Convert(node, "", 0));
      if (!document.value.IsNull()) {
        documents.push_back(std::move(document));
      }
    }
    return documents;
  } catch (const YAML::Exception& error) {
    return Fail(ErrorCode::kDecode,
                "line " + std::to_string(error.mark.line + 1) + ": " + error.msg);
  } catch (const std::exception& error) {
    return Fail(ErrorCode::kDecode, error.what());
  }
}

Result<Json> ToJson(std::string_view text) {
  TRY_ASSIGN(auto documents, Parse(text));
  if (documents.empty()) {
    return Json();
  }
  if (documents.size() > 1) {
    return Fail(ErrorCode::kDecode,
                "one document is expected, the text has " + std::to_string(documents.size()));
  }
  return std::move(documents.front().value);
}

}  // namespace tutti::yaml
