// SPDX-License-Identifier: Apache-2.0
// The API server's format library: format.<name>(), format.named(name), validate(text).
#include <algorithm>
#include <array>
#include <string>

#include "api/cel/functions.h"
#include "api/cel/numbers.h"

namespace tutti::api::cel {
namespace {

// Sizes of regular expressions are those that the API server charges for.
constexpr std::array<FormatObject, 13> kFormats = {{
    {"dns1123Label", "DNS1123Label", 30},
    {"dns1123Subdomain", "DNS1123Subdomain", 60},
    {"dns1035Label", "DNS1035Label", 30},
    {"qualifiedName", "QualifiedName", 60},
    {"dns1123LabelPrefix", "DNS1123LabelPrefix", 30},
    {"dns1123SubdomainPrefix", "DNS1123SubdomainPrefix", 60},
    {"dns1035LabelPrefix", "DNS1035LabelPrefix", 30},
    {"labelValue", "LabelValue", 40},
    {"uri", "URI", 1103},
    {"uuid", "uuid", 70},
    {"byte", "byte", 84},
    {"date", "date", 71},
    {"datetime", "datetime", 71},
}};

bool IsLower(char c) {
  return c >= 'a' && c <= 'z';
}

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

bool IsAlphanumeric(char c) {
  return IsLower(c) || IsDigit(c) || (c >= 'A' && c <= 'Z');
}

// [a-z0-9]([-a-z0-9]*[a-z0-9])?
bool LooksLikeLabel(std::string_view text) {
  const auto ends_well = [](char c) { return IsLower(c) || IsDigit(c); };
  return !text.empty() && ends_well(text.front()) && ends_well(text.back()) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return ends_well(c) || c == '-'; });
}

bool LooksLikeSubdomain(std::string_view text) {
  while (true) {
    const size_t dot = text.find('.');
    if (!LooksLikeLabel(text.substr(0, dot))) {
      return false;
    }
    if (dot == std::string_view::npos) {
      return true;
    }
    text.remove_prefix(dot + 1);
  }
}

// Letters and digits at both ends, also "-", "_" and "." between.
bool LooksLikeName(std::string_view text) {
  return !text.empty() && IsAlphanumeric(text.front()) && IsAlphanumeric(text.back()) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return IsAlphanumeric(c) || c == '-' || c == '_' || c == '.'; });
}

using Problems = std::vector<std::string_view>;

constexpr std::string_view kTooLong = "too long";
constexpr std::string_view kEmpty = "must not be empty";
constexpr std::string_view kSyntax = "does not match the format";

Problems Label(std::string_view text) {
  Problems out;
  if (text.size() > 63) {
    out.push_back(kTooLong);
  }
  if (!LooksLikeLabel(text)) {
    out.push_back(kSyntax);
  }
  return out;
}

Problems Label1035(std::string_view text) {
  Problems out;
  if (text.size() > 63) {
    out.push_back(kTooLong);
  }
  if (!LooksLikeLabel(text) || !IsLower(text[0])) {
    out.push_back(kSyntax);
  }
  return out;
}

Problems Subdomain(std::string_view text) {
  Problems out;
  if (text.size() > 253) {
    out.push_back(kTooLong);
  }
  if (!LooksLikeSubdomain(text)) {
    out.push_back(kSyntax);
  }
  return out;
}

Problems QualifiedName(std::string_view text) {
  Problems out;
  const size_t slash = text.find('/');
  if (slash != std::string_view::npos) {
    if (text.find('/', slash + 1) != std::string_view::npos) {
      return {kSyntax};
    }
    const std::string_view prefix = text.substr(0, slash);
    if (prefix.empty()) {
      out.push_back(kEmpty);
    } else {
      out = Subdomain(prefix);
    }
    text.remove_prefix(slash + 1);
  }
  if (text.empty()) {
    out.push_back(kEmpty);
  } else if (text.size() > 63) {
    out.push_back(kTooLong);
  }
  if (!LooksLikeName(text)) {
    out.push_back(kSyntax);
  }
  return out;
}

Problems LabelValue(std::string_view text) {
  Problems out;
  if (text.size() > 63) {
    out.push_back(kTooLong);
  }
  if (!text.empty() && !LooksLikeName(text)) {
    out.push_back(kSyntax);
  }
  return out;
}

// A prefix may end in a dash: what it is put before will follow.
std::string WithoutDash(std::string_view text) {
  std::string out(text);
  if (out.size() > 1 && out.back() == '-') {
    out.resize(out.size() - 2);
    out.push_back('a');
  }
  return out;
}

bool IsUuid(std::string_view text) {
  static constexpr std::array<size_t, 5> kGroups = {8, 4, 4, 4, 12};
  for (size_t i = 0; i < kGroups.size(); ++i) {
    if (i > 0 && text.starts_with('-')) {
      text.remove_prefix(1);
    }
    if (text.size() < kGroups[i] ||
        !std::all_of(text.begin(), text.begin() + kGroups[i], [](char c) {
          return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
        })) {
      return false;
    }
    text.remove_prefix(kGroups[i]);
  }
  return text.empty();
}

bool IsBase64(std::string_view text) {
  size_t padding = 0;
  while (padding < 2 && text.ends_with('=')) {
    text.remove_suffix(1);
    ++padding;
  }
  return (text.size() + padding) % 4 == 0 && text.size() + padding > 0 &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return IsAlphanumeric(c) || c == '+' || c == '/'; });
}

bool IsDate(std::string_view text) {
  Moment ignored;
  return text.size() == 10 && ParseRfc3339(std::string(text) + "T00:00:00Z", ignored);
}

// A date, "T", hh:mm:ss, perhaps any character and digits, and "Z" or a zone; in either case. What
// comes behind a second "T" isn't looked at.
bool IsDateTime(std::string_view text) {
  const size_t t = text.find_first_of("Tt");
  if (t == std::string_view::npos || !IsDate(text.substr(0, t))) {
    return false;
  }
  std::string_view time = text.substr(t + 1);
  time = time.substr(0, time.find_first_of("Tt"));
  const auto two_digits = [&time](size_t at) {
    return time.size() >= at + 2 && IsDigit(time[at]) && IsDigit(time[at + 1]);
  };
  if (!two_digits(0) || !two_digits(3) || !two_digits(6) || time[2] != ':' || time[5] != ':' ||
      time.substr(0, 2) > "23" || time.substr(3, 2) > "59" || time.substr(6, 2) > "59") {
    return false;
  }
  const auto is_zone = [](std::string_view zone) {
    return zone == "Z" || zone == "z" ||
           (zone.size() == 6 && (zone[0] == '+' || zone[0] == '-') && IsDigit(zone[1]) &&
            IsDigit(zone[2]) && zone[3] == ':' && IsDigit(zone[4]) && IsDigit(zone[5]));
  };
  const std::string_view rest = time.substr(8);
  if (is_zone(rest)) {
    return true;
  }
  const size_t end = rest.empty() ? rest.size() : rest.find_first_not_of("0123456789", 1);
  return end != std::string_view::npos && end > 1 && is_zone(rest.substr(end));
}

Problems Validate(std::string_view format, std::string_view text) {
  const auto test = [](bool good) { return good ? Problems() : Problems{kSyntax}; };
  if (format == "dns1123Label") {
    return Label(text);
  }
  if (format == "dns1123LabelPrefix") {
    return Label(WithoutDash(text));
  }
  if (format == "dns1123Subdomain") {
    return Subdomain(text);
  }
  if (format == "dns1123SubdomainPrefix") {
    return Subdomain(WithoutDash(text));
  }
  if (format == "dns1035Label") {
    return Label1035(text);
  }
  if (format == "dns1035LabelPrefix") {
    return Label1035(WithoutDash(text));
  }
  if (format == "qualifiedName") {
    return QualifiedName(text);
  }
  if (format == "labelValue") {
    return LabelValue(text);
  }
  if (format == "uri") {
    return test(IsRequestUri(text));
  }
  if (format == "uuid") {
    return test(IsUuid(text));
  }
  if (format == "byte") {
    return test(IsBase64(text));
  }
  if (format == "date") {
    return test(IsDate(text));
  }
  return test(IsDateTime(text));
}

Value FormatValue(const FormatObject& format) {
  Value out;
  out.kind = Kind::kFormat;
  out.format = &format;
  return out;
}

const FormatObject* Find(std::string_view name) {
  for (const FormatObject& format : kFormats) {
    if (format.name == name) {
      return &format;
    }
  }
  return nullptr;
}

}  // namespace

Value RunFormat(const CallFrame& call) {
  constexpr std::string_view kPrefix = "format.";
  const FormatObject* format = Find(call.overload->id.substr(kPrefix.size()));
  return format == nullptr ? NoSuchOverload() : FormatValue(*format);
}

Value RunNamedFormat(const CallFrame& call) {
  if (call.args[0].kind != Kind::kString) {
    return NoSuchOverload();
  }
  const FormatObject* format = Find(call.args[0].Text());
  return format == nullptr ? OptionalNone() : call.context.Optional(FormatValue(*format));
}

Value RunValidate(const CallFrame& call) {
  if (call.args[0].kind != Kind::kFormat || call.args[1].kind != Kind::kString) {
    return NoSuchOverload();
  }
  std::vector<Value> problems;
  for (const std::string_view problem : Validate(call.args[0].format->name, call.args[1].Text())) {
    problems.push_back(StringView(problem));
  }
  return problems.empty() ? OptionalNone() : call.context.Optional(call.context.List(problems));
}

}  // namespace tutti::api::cel
