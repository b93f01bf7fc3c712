// SPDX-License-Identifier: Apache-2.0
#include "api/cel/semver.h"

#include <algorithm>
#include <charconv>
#include <vector>

namespace tutti::api::cel {
namespace {

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

bool IsWordCharacter(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
}

bool ReadNumber(std::string_view text, uint64_t& out) {
  if (text.empty() || !std::all_of(text.begin(), text.end(), IsDigit) ||
      (text.size() > 1 && text[0] == '0')) {
    return false;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

// Cuts the part before the first "." off `rest`.
std::string_view NextPart(std::string_view& rest, bool& more) {
  const size_t dot = rest.find('.');
  more = dot != std::string_view::npos;
  const std::string_view part = rest.substr(0, dot);
  rest = more ? rest.substr(dot + 1) : std::string_view();
  return part;
}

bool IsNumeric(std::string_view part) {
  return std::all_of(part.begin(), part.end(), IsDigit);
}

bool PartsAreValid(std::string_view text, bool numbers_are_checked) {
  bool more = true;
  while (more) {
    const std::string_view part = NextPart(text, more);
    if (part.empty() || !std::all_of(part.begin(), part.end(), IsWordCharacter)) {
      return false;
    }
    uint64_t number = 0;
    if (numbers_are_checked && IsNumeric(part) && !ReadNumber(part, number)) {
      return false;
    }
  }
  return true;
}

int ComparePart(std::string_view a, std::string_view b) {
  const bool a_numeric = IsNumeric(a);
  if (a_numeric != IsNumeric(b)) {
    return a_numeric ? -1 : 1;
  }
  // Numbers have no leading zeros: the longer one is larger.
  if (a_numeric && a.size() != b.size()) {
    return a.size() < b.size() ? -1 : 1;
  }
  const int order = a.compare(b);
  return order < 0 ? -1 : (order > 0 ? 1 : 0);
}

}  // namespace

bool ParseSemver(std::string_view text, SemverObject& out) {
  const size_t first = text.find('.');
  if (first == std::string_view::npos) {
    return false;
  }
  const size_t second = text.find('.', first + 1);
  if (second == std::string_view::npos) {
    return false;
  }
  std::string_view patch = text.substr(second + 1);
  const size_t plus = patch.find('+');
  if (plus != std::string_view::npos) {
    if (!PartsAreValid(patch.substr(plus + 1), /*numbers_are_checked=*/false)) {
      return false;
    }
    patch = patch.substr(0, plus);
  }
  const size_t dash = patch.find('-');
  out.prerelease = {};
  if (dash != std::string_view::npos) {
    out.prerelease = patch.substr(dash + 1);
    if (!PartsAreValid(out.prerelease, /*numbers_are_checked=*/true)) {
      return false;
    }
    patch = patch.substr(0, dash);
  }
  return ReadNumber(text.substr(0, first), out.major) &&
         ReadNumber(text.substr(first + 1, second - first - 1), out.minor) &&
         ReadNumber(patch, out.patch);
}

int CompareSemver(const SemverObject& a, const SemverObject& b) {
  if (a.major != b.major) {
    return a.major < b.major ? -1 : 1;
  }
  if (a.minor != b.minor) {
    return a.minor < b.minor ? -1 : 1;
  }
  if (a.patch != b.patch) {
    return a.patch < b.patch ? -1 : 1;
  }
  if (a.prerelease.empty() || b.prerelease.empty()) {
    return static_cast<int>(a.prerelease.empty()) - static_cast<int>(b.prerelease.empty());
  }
  std::string_view left = a.prerelease;
  std::string_view right = b.prerelease;
  bool left_more = true;
  bool right_more = true;
  while (left_more && right_more) {
    const int order = ComparePart(NextPart(left, left_more), NextPart(right, right_more));
    if (order != 0) {
      return order;
    }
  }
  return static_cast<int>(left_more) - static_cast<int>(right_more);
}

bool NormalizeSemver(std::string_view text, std::string& out) {
  if (!text.empty() && text[0] == 'v') {
    text.remove_prefix(1);
  }
  std::vector<std::string> parts;
  bool more = true;
  while (more && parts.size() < 2) {
    parts.emplace_back(NextPart(text, more));
  }
  if (more) {
    parts.emplace_back(text);
  }
  for (std::string& part : parts) {
    if (part.size() > 1) {
      part.erase(0, part.find_first_not_of('0'));
      if (part.empty() || !IsDigit(part[0])) {
        part.insert(part.begin(), '0');
      }
    }
  }
  if (parts.size() < 3 && parts.back().find_first_of("+-") != std::string::npos) {
    return false;
  }
  parts.resize(3, "0");
  out = parts[0] + "." + parts[1] + "." + parts[2];
  return true;
}

Value SemverValue(const SemverObject* semver) {
  Value out;
  out.kind = Kind::kSemver;
  out.semver = semver;
  return out;
}

}  // namespace tutti::api::cel
