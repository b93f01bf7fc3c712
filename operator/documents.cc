// SPDX-License-Identifier: Apache-2.0
#include "operator/documents.h"

#include <string>
#include <utility>

#include "operator/yaml.h"

namespace tutti {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

// Where the JSON value that begins at 0 ends: one after its closing bracket, or the text's end.
// Looks at brackets and strings only; the parser judges the rest.
size_t EndOfValue(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (--depth <= 0) {
        return i + 1;
      }
    }
  }
  return text.size();
}

}  // namespace

Result<std::vector<Json>> ReadDocuments(std::string_view text) {
  std::vector<Json> out;
  size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) {
    return out;
  }
  if (text[begin] != '{' && text[begin] != '[') {
    Result<std::vector<yaml::Document>> documents = yaml::Parse(text);
    if (!documents) {
      const bool too_large = text.size() > yaml::kMaxBytes;
      return Fail(
          documents.error().code,
          documents.error().message + (too_large ? "; JSON may be larger (kubectl -o json)" : ""));
    }
    for (yaml::Document& document : *documents) {
      out.push_back(std::move(document.value));
    }
    return out;
  }
  for (size_t number = 1; begin != std::string_view::npos; ++number) {
    const std::string_view rest = text.substr(begin);
    const size_t length = EndOfValue(rest);
    Result<Json> value = Json::Parse(rest.substr(0, length));
    if (!value) {
      return Fail(value.error().With("JSON document " + std::to_string(number)));
    }
    if (value->IsArray()) {
      for (Json& element : value->MutableArray()) {
        out.push_back(std::move(element));
      }
    } else {
      out.push_back(std::move(*value));
    }
    begin = text.find_first_not_of(kSpace, begin + length);
  }
  return out;
}

}  // namespace tutti
