// SPDX-License-Identifier: Apache-2.0
#include "operator/syntax.h"

namespace tutti::syntax {
namespace {

bool IsLowerOrDigit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool IsAlphanumeric(char c) {
  return IsLowerOrDigit(c) || (c >= 'A' && c <= 'Z');
}

// Letters, digits, '-', '_', '.', with a letter or digit at both ends.
bool IsNamePart(std::string_view text) {
  if (text.empty() || !IsAlphanumeric(text.front()) || !IsAlphanumeric(text.back())) {
    return false;
  }
  for (const char c : text) {
    if (!IsAlphanumeric(c) && c != '-' && c != '_' && c != '.') {
      return false;
    }
  }
  return true;
}

std::string Quoted(std::string_view text) {
  return "\"" + std::string(text.substr(0, 100)) + "\"";
}

}  // namespace

std::string CheckSubdomain(std::string_view name) {
  bool good = !name.empty() && name.size() <= 253;
  bool label_start = true;
  for (size_t i = 0; good && i < name.size(); ++i) {
    const char c = name[i];
    const bool label_end = i + 1 == name.size() || name[i + 1] == '.';
    if (c == '.') {
      good = !label_start && !label_end;
      label_start = true;
      continue;
    }
    good = IsLowerOrDigit(c) || (c == '-' && !label_start && !label_end);
    label_start = false;
  }
  return good ? ""
              : Quoted(name) +
                    " must be lower case letters, digits, '-' and '.', at most 253 of them, "
                    "with a letter or digit at the ends of each part";
}

std::string CheckQualifiedName(std::string_view name) {
  const size_t slash = name.find('/');
  if (slash != std::string_view::npos) {
    const std::string prefix = CheckSubdomain(name.substr(0, slash));
    if (!prefix.empty()) {
      return "the part before '/': " + prefix;
    }
  }
  const std::string_view part = slash == std::string_view::npos ? name : name.substr(slash + 1);
  if (part.size() > 63 || !IsNamePart(part)) {
    return Quoted(name) +
           " must be letters, digits, '-', '_' and '.', at most 63 of them, with a letter "
           "or digit at both ends; a DNS name and '/' may come before it";
  }
  return "";
}

std::string CheckLabelValue(std::string_view value) {
  if (value.empty() || (value.size() <= 63 && IsNamePart(value))) {
    return "";
  }
  return Quoted(value) +
         " must be letters, digits, '-', '_' and '.', at most 63 of them, with a letter or "
         "digit at both ends, or empty";
}

}  // namespace tutti::syntax
