// SPDX-License-Identifier: Apache-2.0
#include "api/cel/format_string.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "api/cel/functions.h"
#include "api/cel/numbers.h"

namespace tutti::api::cel {
namespace {

constexpr int kDefaultPrecision = 6;
constexpr int kMaxPrecision = 1000;

struct Clause {
  char verb = 's';
  int precision = kDefaultPrecision;
};

// Reads the clause behind the "%" at text[at]; moves `at` behind it. False: malformed.
bool ReadClause(std::string_view text, size_t& at, Clause& out) {
  ++at;
  if (at < text.size() && text[at] == '.') {
    const size_t end = text.find_first_not_of("0123456789", at + 1);
    if (end == std::string_view::npos || end == at + 1) {
      return false;
    }
    int64_t precision = 0;
    if (!ParseInt64(text.substr(at + 1, end - at - 1), precision)) {
      return false;
    }
    out.precision = static_cast<int>(std::min<int64_t>(precision, kMaxPrecision));
    at = end;
  }
  if (at >= text.size() || std::string_view("sdfebxXo").find(text[at]) == std::string_view::npos) {
    return false;
  }
  out.verb = text[at];
  ++at;
  return true;
}

std::string Quoted(std::string_view text) {
  static constexpr std::string_view kFrom = "\a\b\f\n\r\t\v\\\"";
  static constexpr std::string_view kTo = "abfnrtv\\\"";
  std::string out = "\"";
  for (const char c : text) {
    if (const size_t i = kFrom.find(c); i != std::string_view::npos) {
      out.push_back('\\');
      out.push_back(kTo[i]);
    } else if (static_cast<uint8_t>(c) < 0x20 || c == 0x7F) {
      std::array<char, 8> buffer{};
      const int size = std::snprintf(buffer.data(), buffer.size(), "\\x%02x",
                                     static_cast<unsigned>(static_cast<uint8_t>(c)));
      out.append(buffer.data(), static_cast<size_t>(size));
    } else {
      out.push_back(c);
    }
  }
  return out + "\"";
}

std::string Printed(const char* format, int precision, double value) {
  std::string out(static_cast<size_t>(precision) + 400, '\0');
  const int size = std::snprintf(out.data(), out.size(), format, precision, value);
  out.resize(static_cast<size_t>(std::max(size, 0)));
  return out;
}

class Formatter {
 public:
  explicit Formatter(Context& context) : context_(context) {}

  bool Append(const Clause& clause, const Value& value, std::string& out) {
    switch (clause.verb) {
      case 's':
        return Text(value, out);
      case 'd':
        return Decimal(value, out);
      case 'f':
      case 'e':
        return Number(clause, value, out);
      case 'b':
        if (value.kind == Kind::kBool) {
          out += value.boolean ? "1" : "0";
          return true;
        }
        return Radix(value, 2, false, out);
      case 'o':
        return Radix(value, 8, false, out);
      default:
        return Hex(value, clause.verb == 'X', out);
    }
  }

 private:
  // %s of a value on its own.
  bool Text(const Value& value, std::string& out) {
    switch (value.kind) {
      case Kind::kList:
        return List(value, out);
      case Kind::kMap:
        return Map(value, out);
      case Kind::kNull:
        out += "null";
        return true;
      case Kind::kInt:
      case Kind::kUint:
      case Kind::kDouble:
      case Kind::kBool:
      case Kind::kString:
      case Kind::kTimestamp:
      case Kind::kBytes:
      case Kind::kDuration:
      case Kind::kType: {
        const Value text = ToText(context_, value);
        out += text.IsError() ? std::string_view() : text.Text();
        return !text.IsError() && out.size() <= Context::kMaxTextBytes;
      }
      default:
        return false;
    }
  }

  // A value inside a list or map.
  bool Member(const Value& value, std::string& out) {
    if (!context_.Work(1) || out.size() > Context::kMaxTextBytes) {
      return false;
    }
    switch (value.kind) {
      case Kind::kString:
        out += Quoted(value.Text());
        return true;
      case Kind::kBytes: {
        const Value text = ToText(context_, value);
        if (text.IsError()) {
          return false;
        }
        out += "b" + Quoted(text.Text());
        return true;
      }
      case Kind::kTimestamp:
      case Kind::kDuration: {
        const Value text = ToText(context_, value);
        out += std::string(value.kind == Kind::kTimestamp ? "timestamp(" : "duration(") +
               Quoted(text.Text()) + ")";
        return true;
      }
      case Kind::kDouble:
        if (std::isnan(value.number) || std::isinf(value.number)) {
          out +=
              std::isnan(value.number) ? "\"NaN\"" : (value.number < 0 ? "\"-Inf\"" : "\"+Inf\"");
        } else {
          out += Printed("%.*f", kDefaultPrecision, value.number);
        }
        return true;
      default:
        return Text(value, out);
    }
  }

  bool List(const Value& list, std::string& out) {
    out += "[";
    for (size_t i = 0; i < ListSize(list); ++i) {
      out += i == 0 ? "" : ", ";
      if (!Member(ListGet(*list.list, i), out)) {
        return false;
      }
    }
    out += "]";
    return true;
  }

  bool Map(const Value& map, std::string& out) {
    std::vector<std::pair<std::string, std::string>> pairs;
    for (const auto& [key, value] : MapEntries(context_, map)) {
      std::string key_text;
      std::string value_text;
      if ((key.kind != Kind::kString && key.kind != Kind::kBool && key.kind != Kind::kInt &&
           key.kind != Kind::kUint) ||
          !Member(key, key_text) || !Member(value, value_text)) {
        return false;
      }
      pairs.emplace_back(std::move(key_text), std::move(value_text));
    }
    std::stable_sort(pairs.begin(), pairs.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    out += "{";
    for (size_t i = 0; i < pairs.size(); ++i) {
      out += (i == 0 ? "" : ", ") + pairs[i].first + ":" + pairs[i].second;
    }
    out += "}";
    return true;
  }

  static bool Decimal(const Value& value, std::string& out) {
    if (value.kind == Kind::kInt) {
      out += std::to_string(value.integer);
      return true;
    }
    if (value.kind == Kind::kUint) {
      out += std::to_string(value.unsigned_integer);
      return true;
    }
    return false;
  }

  // Numbers as en-US writes them: 1,234.50 and 1.230000×10⁰³.
  static bool Number(const Clause& clause, const Value& value, std::string& out) {
    double number = value.number;
    if (value.kind == Kind::kString &&
        (value.Text() == "NaN" || value.Text() == "Infinity" || value.Text() == "-Infinity")) {
      (void)ParseDouble(value.Text(), number);
    } else if (value.kind != Kind::kDouble) {
      return false;
    }
    // Of %e the library takes the precision for a width.
    const auto put = [&](const std::string& printed) {
      const size_t width = RuneCount(printed);
      const auto wanted = clause.verb == 'e' ? static_cast<size_t>(clause.precision) : 0;
      out += std::string(wanted > width ? wanted - width : 0, ' ') + printed;
    };
    if (std::isnan(number)) {
      put("NaN");
      return true;
    }
    if (std::isinf(number)) {
      put(number < 0 ? "-\xE2\x88\x9E" : "\xE2\x88\x9E");
      return true;
    }
    if (number == 0) {
      number = 0;  // no sign
    }
    if (clause.verb == 'f') {
      std::string text = Printed("%.*f", clause.precision, number);
      const size_t begin = text.starts_with('-') ? 1 : 0;
      for (size_t i = std::min(text.find('.'), text.size()); i > begin + 3; i -= 3) {
        text.insert(i - 3, ",");
      }
      out += text;
      return true;
    }
    // There are six digits behind the point always.
    const std::string text = Printed("%.*e", kDefaultPrecision, number);
    const size_t e = text.find('e');
    std::string printed = text.substr(0, e) + "\xC3\x97" + "10";
    static constexpr std::array<std::string_view, 10> kRaised = {
        "\xE2\x81\xB0", "\xC2\xB9",     "\xC2\xB2",     "\xC2\xB3",     "\xE2\x81\xB4",
        "\xE2\x81\xB5", "\xE2\x81\xB6", "\xE2\x81\xB7", "\xE2\x81\xB8", "\xE2\x81\xB9"};
    for (const char c : text.substr(e + 1)) {
      if (c == '-') {
        printed += "\xE2\x81\xBB";
      } else if (c != '+') {
        printed += kRaised[static_cast<size_t>(c - '0')];
      }
    }
    put(printed);
    return true;
  }

  static bool Radix(const Value& value, unsigned radix, bool upper, std::string& out) {
    bool negative = false;
    uint64_t magnitude = 0;
    if (value.kind == Kind::kInt) {
      negative = value.integer < 0;
      magnitude = negative ? 0 - static_cast<uint64_t>(value.integer)
                           : static_cast<uint64_t>(value.integer);
    } else if (value.kind == Kind::kUint) {
      magnitude = value.unsigned_integer;
    } else {
      return false;
    }
    std::string digits;
    do {
      digits.push_back((upper ? "0123456789ABCDEF" : "0123456789abcdef")[magnitude % radix]);
      magnitude /= radix;
    } while (magnitude != 0);
    digits += negative ? "-" : "";
    out.append(digits.rbegin(), digits.rend());
    return true;
  }

  static bool Hex(const Value& value, bool upper, std::string& out) {
    if (value.kind != Kind::kString && value.kind != Kind::kBytes) {
      return Radix(value, 16, upper, out);
    }
    const char* digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
    for (const char c : value.Text()) {
      out.push_back(digits[static_cast<uint8_t>(c) >> 4U]);
      out.push_back(digits[static_cast<uint8_t>(c) & 15U]);
    }
    return true;
  }

  Context& context_;
};

bool HasText(const Expr& expr) {
  switch (expr.type->kind) {
    case TypeKind::kAny:
    case TypeKind::kStruct:
    case TypeKind::kOpaque:
    case TypeKind::kOptional:
    case TypeKind::kError:
    case TypeKind::kVariable:
      return false;
    default:
      break;
  }
  if (expr.form == Expr::Form::kList || expr.form == Expr::Form::kMap) {
    return std::all_of(expr.args.begin(), expr.args.end(),
                       [](const Expr* arg) { return HasText(*arg); });
  }
  return true;
}

bool Accepts(char verb, const Expr& arg) {
  const TypeKind kind = arg.type->kind;
  if (verb == 's') {
    return HasText(arg);
  }
  if (kind == TypeKind::kDyn) {
    return true;
  }
  const bool whole = kind == TypeKind::kInt || kind == TypeKind::kUint;
  switch (verb) {
    case 'f':
    case 'e':
      return kind == TypeKind::kDouble || kind == TypeKind::kString;
    case 'b':
      return whole || kind == TypeKind::kBool;
    case 'x':
    case 'X':
      return whole || kind == TypeKind::kString || kind == TypeKind::kBytes;
    default:
      return whole;
  }
}

}  // namespace

std::string CheckFormat(std::string_view format, const std::vector<Expr*>& args) {
  size_t next = 0;
  size_t at = 0;
  while (at < format.size()) {
    if (format[at] != '%') {
      ++at;
      continue;
    }
    if (format.substr(at, 2) == "%%") {
      at += 2;
      continue;
    }
    if (next >= args.size()) {
      return "format() has too few arguments";
    }
    Clause clause;
    if (!ReadClause(format, at, clause)) {
      return "format(): a clause that doesn't exist";
    }
    if (!Accepts(clause.verb, *args[next])) {
      return "format(): %" + std::string(1, clause.verb) + " can't be used for " +
             ToString(*args[next]->type);
    }
    ++next;
  }
  return next < args.size() ? "format() has too many arguments" : "";
}

Value FormatText(Context& context, std::string_view format, const Value& list) {
  std::string out;
  Formatter formatter(context);
  size_t next = 0;
  size_t at = 0;
  while (at < format.size()) {
    if (format[at] != '%') {
      out.push_back(format[at++]);
      continue;
    }
    if (format.substr(at, 2) == "%%") {
      out.push_back('%');
      at += 2;
      continue;
    }
    if (next >= ListSize(list)) {
      return context.Error("format: index out of range");
    }
    Clause clause;
    if (!ReadClause(format, at, clause) ||
        !formatter.Append(clause, ListGet(*list.list, next), out)) {
      return out.size() > Context::kMaxTextBytes ? TooLarge()
                                                 : context.Error("format: a clause doesn't fit");
    }
    ++next;
  }
  return context.Text(out);
}

}  // namespace tutti::api::cel
