// SPDX-License-Identifier: Apache-2.0
// Strings: of the standard library, of the strings extension, and regular expressions.
#include <algorithm>

#include "api/cel/format_string.h"
#include "api/cel/functions.h"
#include "api/cel/lexer.h"
#include "api/cel/regex.h"

namespace tutti::api::cel {
namespace {

bool AreStrings(const CallFrame& call, size_t count) {
  if (call.count < count) {
    return false;
  }
  for (size_t i = 0; i < count; ++i) {
    if (call.args[i].kind != Kind::kString) {
      return false;
    }
  }
  return true;
}

// Byte offsets of the runes, and of the end.
std::vector<size_t> RuneStarts(std::string_view text) {
  std::vector<size_t> out;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<uint8_t>(text[i]) & 0xC0U) != 0x80U) {
      out.push_back(i);
    }
  }
  out.push_back(text.size());
  return out;
}

Value OutOfRange() {
  return Fail(Failure::kIndexOutOfRange);
}

// A part of the argument: nothing is copied.
Value Part(std::string_view text) {
  return StringView(text);
}

bool IsSpace(uint32_t rune) {
  return (rune >= 0x09 && rune <= 0x0D) || rune == 0x20 || rune == 0x85 || rune == 0xA0 ||
         rune == 0x1680 || (rune >= 0x2000 && rune <= 0x200A) || rune == 0x2028 || rune == 0x2029 ||
         rune == 0x202F || rune == 0x205F || rune == 0x3000;
}

uint32_t RuneAt(std::string_view text) {
  const auto lead = static_cast<uint8_t>(text[0]);
  const size_t width = lead < 0x80 ? 1 : (lead < 0xE0 ? 2 : (lead < 0xF0 ? 3 : 4));
  if (width == 1 || width > text.size()) {
    return lead < 0x80 ? lead : 0xFFFD;
  }
  uint32_t rune = lead & (0x7FU >> width);
  for (size_t i = 1; i < width; ++i) {
    rune = (rune << 6U) | (static_cast<uint8_t>(text[i]) & 0x3FU);
  }
  return rune;
}

Value Changed(Context& context, std::string_view text, char from, char to, int shift) {
  Value out = context.Text(text);
  if (!out.IsError()) {
    auto* bytes = const_cast<char*>(out.text);
    for (size_t i = 0; i < out.size; ++i) {
      if (bytes[i] >= from && bytes[i] <= to) {
        bytes[i] = static_cast<char>(bytes[i] + shift);
      }
    }
  }
  return out;
}

// The pieces between separators, at most `limit`. An empty separator cuts between runes.
std::vector<std::string_view> Pieces(std::string_view text, std::string_view separator,
                                     size_t limit) {
  std::vector<std::string_view> out;
  if (limit == 0) {
    return out;
  }
  if (separator.empty()) {
    const std::vector<size_t> starts = RuneStarts(text);
    for (size_t i = 0; i + 1 < starts.size(); ++i) {
      if (out.size() + 1 == limit) {
        out.push_back(text.substr(starts[i]));
        return out;
      }
      out.push_back(text.substr(starts[i], starts[i + 1] - starts[i]));
    }
    return out;
  }
  while (out.size() + 1 < limit) {
    const size_t at = text.find(separator);
    if (at == std::string_view::npos) {
      break;
    }
    out.push_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
  }
  out.push_back(text);
  return out;
}

Value TextList(Context& context, const std::vector<std::string_view>& texts) {
  Value* items = context.NewValues(texts.size());
  if (items == nullptr) {
    return TooLarge();
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    items[i] = StringView(texts[i]);
  }
  auto* list = context.New<ListObject>();
  list->items = items;
  list->size = texts.size();
  return ListValue(list);
}

size_t Limit(int64_t count) {
  return count < 0 ? SIZE_MAX : static_cast<size_t>(count);
}

// Position of `part` in runes, or -1.
int64_t FindForward(std::string_view text, std::string_view part, size_t first_rune) {
  const std::vector<size_t> starts = RuneStarts(text);
  const size_t at = text.find(part, starts[first_rune]);
  if (at == std::string_view::npos) {
    return -1;
  }
  return std::lower_bound(starts.begin(), starts.end(), at) - starts.begin();
}

int64_t FindBackward(std::string_view text, std::string_view part, size_t last_rune) {
  const std::vector<size_t> starts = RuneStarts(text);
  const size_t at = text.rfind(part, starts[last_rune]);
  if (at == std::string_view::npos) {
    return -1;
  }
  return std::lower_bound(starts.begin(), starts.end(), at) - starts.begin();
}

bool CanIndex(const CallFrame& call) {
  return AreStrings(call, 2) &&
         (call.count == 2 || (call.count == 3 && call.args[2].kind == Kind::kInt));
}

}  // namespace

Value RunContains(const CallFrame& call) {
  if (!AreStrings(call, 2)) {
    return NoSuchOverload();
  }
  const std::string_view text = call.args[0].Text();
  if (!call.context.Work(text.size() / 16)) {
    return TooLarge();
  }
  return Bool(text.find(call.args[1].Text()) != std::string_view::npos);
}

Value RunStartsWith(const CallFrame& call) {
  return AreStrings(call, 2) ? Bool(call.args[0].Text().starts_with(call.args[1].Text()))
                             : NoSuchOverload();
}

Value RunEndsWith(const CallFrame& call) {
  return AreStrings(call, 2) ? Bool(call.args[0].Text().ends_with(call.args[1].Text()))
                             : NoSuchOverload();
}

Value RunCharAt(const CallFrame& call) {
  if (!AreStrings(call, 1) || call.args[1].kind != Kind::kInt) {
    return NoSuchOverload();
  }
  const std::string_view text = call.args[0].Text();
  const std::vector<size_t> starts = RuneStarts(text);
  const int64_t index = call.args[1].integer;
  if (index < 0 || static_cast<uint64_t>(index) >= starts.size()) {
    return OutOfRange();
  }
  const auto at = static_cast<size_t>(index);
  return at + 1 == starts.size() ? Part("")
                                 : Part(text.substr(starts[at], starts[at + 1] - starts[at]));
}

Value RunIndexOf(const CallFrame& call) {
  if (call.args[0].kind == Kind::kList && call.count == 2) {
    return ListIndexOf(call, /*last=*/false);
  }
  if (!CanIndex(call)) {
    return NoSuchOverload();
  }
  const std::string_view part = call.args[1].Text();
  const int64_t offset = call.count == 3 ? call.args[2].integer : 0;
  if (part.empty()) {
    return Int(offset);
  }
  if (offset < 0) {
    return OutOfRange();
  }
  const size_t runes = RuneCount(call.args[0].Text());
  if (static_cast<uint64_t>(offset) >= runes) {
    return Int(-1);
  }
  return Int(FindForward(call.args[0].Text(), part, static_cast<size_t>(offset)));
}

Value RunLastIndexOf(const CallFrame& call) {
  if (call.args[0].kind == Kind::kList && call.count == 2) {
    return ListIndexOf(call, /*last=*/true);
  }
  if (!CanIndex(call)) {
    return NoSuchOverload();
  }
  const std::string_view text = call.args[0].Text();
  const std::string_view part = call.args[1].Text();
  const auto runes = static_cast<int64_t>(RuneCount(text));
  if (call.count == 2) {
    if (part.empty()) {
      return Int(runes);
    }
    if (text.size() < part.size()) {
      return Int(-1);
    }
  } else if (part.empty()) {
    return Int(call.args[2].integer);
  }
  const int64_t offset = call.count == 3 ? call.args[2].integer : runes - 1;
  if (offset < 0) {
    return OutOfRange();
  }
  if (offset >= runes) {
    return Int(-1);
  }
  return Int(FindBackward(text, part, static_cast<size_t>(offset)));
}

Value RunLowerAscii(const CallFrame& call) {
  return AreStrings(call, 1) ? Changed(call.context, call.args[0].Text(), 'A', 'Z', 'a' - 'A')
                             : NoSuchOverload();
}

Value RunUpperAscii(const CallFrame& call) {
  return AreStrings(call, 1) ? Changed(call.context, call.args[0].Text(), 'a', 'z', 'A' - 'a')
                             : NoSuchOverload();
}

Value RunReplace(const CallFrame& call) {
  if (!AreStrings(call, 3) || (call.count == 4 && call.args[3].kind != Kind::kInt)) {
    return NoSuchOverload();
  }
  const std::string_view text = call.args[0].Text();
  const std::string_view from = call.args[1].Text();
  const std::string_view to = call.args[2].Text();
  size_t left = call.count == 4 ? Limit(call.args[3].integer) : SIZE_MAX;
  std::string out;
  if (from.empty()) {  // before each rune, and at the end
    const std::vector<size_t> starts = RuneStarts(text);
    for (size_t i = 0; i < starts.size(); ++i) {
      if (left > 0) {
        out += to;
        --left;
      }
      if (i + 1 < starts.size()) {
        out += text.substr(starts[i], starts[i + 1] - starts[i]);
      }
      if (out.size() > Context::kMaxTextBytes) {
        return TooLarge();
      }
    }
    return call.context.Text(out);
  }
  size_t at = 0;
  while (left > 0) {
    const size_t found = text.find(from, at);
    if (found == std::string_view::npos) {
      break;
    }
    out += text.substr(at, found - at);
    out += to;
    at = found + from.size();
    --left;
    if (out.size() > Context::kMaxTextBytes) {
      return TooLarge();
    }
  }
  out += text.substr(at);
  return call.context.Text(out);
}

Value RunSplit(const CallFrame& call) {
  if (!AreStrings(call, 2) || (call.count == 3 && call.args[2].kind != Kind::kInt)) {
    return NoSuchOverload();
  }
  const size_t limit = call.count == 3 ? Limit(call.args[2].integer) : SIZE_MAX;
  if (!call.context.Work(call.args[0].size / 4)) {
    return TooLarge();
  }
  return TextList(call.context, Pieces(call.args[0].Text(), call.args[1].Text(), limit));
}

Value RunSubstring(const CallFrame& call) {
  if (!AreStrings(call, 1) || call.args[1].kind != Kind::kInt ||
      (call.count == 3 && call.args[2].kind != Kind::kInt)) {
    return NoSuchOverload();
  }
  const std::string_view text = call.args[0].Text();
  const std::vector<size_t> starts = RuneStarts(text);
  const auto runes = static_cast<int64_t>(starts.size()) - 1;
  const int64_t begin = call.args[1].integer;
  const int64_t end = call.count == 3 ? call.args[2].integer : runes;
  if (begin < 0 || begin > runes || end < 0 || end > runes || begin > end) {
    return OutOfRange();
  }
  const size_t first = starts[static_cast<size_t>(begin)];
  return Part(text.substr(first, starts[static_cast<size_t>(end)] - first));
}

Value RunTrim(const CallFrame& call) {
  if (!AreStrings(call, 1)) {
    return NoSuchOverload();
  }
  const std::string_view text = call.args[0].Text();
  const std::vector<size_t> starts = RuneStarts(text);
  size_t begin = 0;
  size_t end = starts.size() - 1;
  while (begin < end && IsSpace(RuneAt(text.substr(starts[begin])))) {
    ++begin;
  }
  while (end > begin && IsSpace(RuneAt(text.substr(starts[end - 1])))) {
    --end;
  }
  return Part(text.substr(starts[begin], starts[end] - starts[begin]));
}

Value RunJoin(const CallFrame& call) {
  if (call.args[0].kind != Kind::kList || (call.count == 2 && call.args[1].kind != Kind::kString)) {
    return NoSuchOverload();
  }
  const std::string_view separator = call.count == 2 ? call.args[1].Text() : std::string_view();
  std::string out;
  for (size_t i = 0; i < ListSize(call.args[0]); ++i) {
    const Value item = ListGet(*call.args[0].list, i);
    if (item.kind != Kind::kString) {
      return call.context.Error("join: not a string");
    }
    out += i == 0 ? std::string_view() : separator;
    out += item.Text();
    if (out.size() > Context::kMaxTextBytes || !call.context.Work(1)) {
      return TooLarge();
    }
  }
  return call.context.Text(out);
}

Value RunQuote(const CallFrame& call) {
  if (!AreStrings(call, 1)) {
    return NoSuchOverload();
  }
  static constexpr std::string_view kFrom = "\a\b\f\n\r\t\v\\\"";
  static constexpr std::string_view kTo = "abfnrtv\\\"";
  std::string out = "\"";
  for (const char c : call.args[0].Text()) {
    if (const size_t i = kFrom.find(c); i != std::string_view::npos) {
      out.push_back('\\');
      out.push_back(kTo[i]);
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
  return call.context.Text(out);
}

Value RunFormatString(const CallFrame& call) {
  if (call.count != 2 || call.args[0].kind != Kind::kString || call.args[1].kind != Kind::kList) {
    return NoSuchOverload();
  }
  return FormatText(call.context, call.args[0].Text(), call.args[1]);
}

namespace {

// Runs `use` with the text and the constant pattern, or that of the second argument.
template <typename Use>
Value WithPattern(const CallFrame& call, Use use) {
  if (call.regex != nullptr) {
    // Then cel-go takes all that is a string in Go: names of types, and strings in optionals.
    Value text = call.args[0];
    while (text.kind == Kind::kOptional && text.optional != nullptr) {
      text = *text.optional;
    }
    if (text.kind != Kind::kString && text.kind != Kind::kType) {
      return NoSuchOverload();
    }
    return call.context.Work(text.size) ? use(*call.regex, text.Text()) : TooLarge();
  }
  if (!AreStrings(call, 2)) {
    return NoSuchOverload();
  }
  if (!call.context.Work(call.args[0].size)) {
    return TooLarge();
  }
  if (!call.context.Work(1000 + call.args[1].size)) {  // compiling isn't cheap
    return TooLarge();
  }
  const auto regex = Regex::Compile(call.args[1].Text());
  return regex == nullptr ? call.context.Error("not a regular expression (RE2 syntax)")
                          : use(*regex, call.args[0].Text());
}

}  // namespace

Value RunMatches(const CallFrame& call) {
  return WithPattern(
      call, [](const Regex& regex, std::string_view text) { return Bool(regex.Matches(text)); });
}

Value RunFind(const CallFrame& call) {
  return WithPattern(call, [](const Regex& regex, std::string_view text) {
    const auto found = regex.FindAll(text, 1);
    return found.empty() ? StringView("") : StringView(found[0]);
  });
}

Value RunFindAll(const CallFrame& call) {
  if (call.count == 3 && call.args[2].kind != Kind::kInt) {
    return NoSuchOverload();
  }
  const size_t limit = call.count == 3 ? Limit(call.args[2].integer) : SIZE_MAX;
  return WithPattern(call, [&](const Regex& regex, std::string_view text) {
    return TextList(call.context, regex.FindAll(text, limit));
  });
}

}  // namespace tutti::api::cel
