// SPDX-License-Identifier: Apache-2.0
#include "audit/yaml_text.h"

#include <algorithm>
#include <array>
#include <vector>

namespace tutti::audit {
namespace {

constexpr size_t kContext = 3;

bool Letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Whether YAML 1.1 and 1.2 read it as this string without quotes.
bool Plain(const std::string& text) {
  constexpr std::array<std::string_view, 11> kWords = {"true", "false", "null", "yes",  "no",  "on",
                                                       "off",  "y",     "n",    ".nan", ".inf"};
  if (text.empty() || !Letter(text.front())) {
    return false;
  }
  std::string lower;
  for (const char c : text) {
    if (!Letter(c) && !(c >= '0' && c <= '9') && c != '-' && c != '.' && c != '/' && c != '_') {
      return false;
    }
    lower += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  return std::find(kWords.begin(), kWords.end(), lower) == kWords.end();
}

std::string Scalar(const Json& value) {
  if (value.IsString() && Plain(value.AsString())) {
    return value.AsString();
  }
  return value.Dump();  // JSON's strings, numbers, {} and [] are YAML's
}

bool IsBlock(const Json& value) {
  return (value.IsObject() && !value.AsObject().empty()) ||
         (value.IsArray() && !value.AsArray().empty());
}

void Write(const Json& value, size_t indent, std::string& out);

void WriteMembers(const Json& value, size_t indent, bool first_is_indented, std::string& out) {
  bool first = first_is_indented;
  for (const auto& [key, member] : value.AsObject()) {
    out += first ? "" : std::string(indent, ' ');
    first = false;
    out += Scalar(Json(key)) + ":";
    if (IsBlock(member)) {
      out += "\n";
      Write(member, member.IsArray() ? indent : indent + 2, out);
    } else {
      out += " " + Scalar(member) + "\n";
    }
  }
}

void Write(const Json& value, size_t indent, std::string& out) {
  if (value.IsArray() && IsBlock(value)) {
    for (const Json& item : value.AsArray()) {
      out += std::string(indent, ' ') + "-";
      if (item.IsObject() && IsBlock(item)) {
        out += " ";
        WriteMembers(item, indent + 2, /*first_is_indented=*/true, out);
      } else if (IsBlock(item)) {
        out += "\n";
        Write(item, indent + 2, out);
      } else {
        out += " " + Scalar(item) + "\n";
      }
    }
  } else if (IsBlock(value)) {
    WriteMembers(value, indent, /*first_is_indented=*/false, out);
  } else {
    out += std::string(indent, ' ') + Scalar(value) + "\n";
  }
}

std::vector<std::string_view> LinesOf(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1);
    out.push_back(text.substr(0, end + 1));
    text.remove_prefix(end + 1);
  }
  return out;
}

struct Edit {
  char kind = ' ';  // ' ', '-', '+'
  std::string_view line;
};

// By the longest common subsequence.
std::vector<Edit> EditsOf(const std::vector<std::string_view>& before,
                          const std::vector<std::string_view>& after) {
  const size_t columns = after.size() + 1;
  std::vector<uint32_t> common((before.size() + 1) * columns, 0);
  for (size_t i = before.size(); i-- > 0;) {
    for (size_t j = after.size(); j-- > 0;) {
      common[i * columns + j] = before[i] == after[j] ? common[(i + 1) * columns + j + 1] + 1
                                                      : std::max(common[(i + 1) * columns + j],
                                                                 common[i * columns + j + 1]);
    }
  }
  std::vector<Edit> out;
  size_t i = 0;
  size_t j = 0;
  while (i < before.size() || j < after.size()) {
    if (i < before.size() && j < after.size() && before[i] == after[j]) {
      out.push_back({' ', before[i]});
      ++i;
      ++j;
    } else if (i < before.size() && (j == after.size() || common[(i + 1) * columns + j] >=
                                                              common[i * columns + j + 1])) {
      out.push_back({'-', before[i++]});
    } else {
      out.push_back({'+', after[j++]});
    }
  }
  return out;
}

std::string Range(size_t first, size_t count) {
  return std::to_string(count == 0 ? first : first + 1) + "," + std::to_string(count);
}

}  // namespace

std::string ToYaml(const Json& value) {
  std::string out;
  Write(value, 0, out);
  return out;
}

std::string UnifiedDiff(const std::string& path, std::string_view before, std::string_view after) {
  if (before == after) {
    return "";
  }
  const std::vector<Edit> edits = EditsOf(LinesOf(before), LinesOf(after));
  std::string out =
      "--- " + (before.empty() ? "/dev/null" : "a/" + path) + "\n+++ b/" + path + "\n";
  size_t old_line = 0;
  size_t new_line = 0;
  for (size_t i = 0; i < edits.size();) {
    // The next change, with the lines around it, to where more than twice those are equal.
    size_t change = i;
    while (change < edits.size() && edits[change].kind == ' ') {
      ++change;
    }
    if (change == edits.size()) {
      break;
    }
    const size_t begin = change - std::min(kContext, change - i);
    size_t end = change;
    for (size_t equal = 0; end < edits.size() && equal <= 2 * kContext; ++end) {
      equal = edits[end].kind == ' ' ? equal + 1 : 0;
    }
    while (end > change && edits[end - 1].kind == ' ') {
      --end;
    }
    end = std::min(end + kContext, edits.size());
    old_line += begin - i;
    new_line += begin - i;
    size_t old_count = 0;
    size_t new_count = 0;
    std::string body;
    for (size_t k = begin; k < end; ++k) {
      old_count += edits[k].kind != '+' ? 1 : 0;
      new_count += edits[k].kind != '-' ? 1 : 0;
      body += edits[k].kind;
      body += edits[k].line;
    }
    out += "@@ -" + Range(old_line, old_count) + " +" + Range(new_line, new_count) + " @@\n" + body;
    old_line += old_count;
    new_line += new_count;
    i = end;
  }
  return out;
}

}  // namespace tutti::audit
