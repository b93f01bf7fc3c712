// SPDX-License-Identifier: Apache-2.0
// URLs, as Go's net/url reads them.
#include <algorithm>
#include <string>

#include "api/cel/functions.h"

namespace tutti::api::cel {
namespace {

enum class Place { kPath, kHost, kZone, kUser, kQuery, kFragment };

bool IsAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

int Hex(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  if (c >= 'a' && c <= 'f') {
    return c - 'a' + 10;
  }
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool OneOf(char c, std::string_view set) {
  return c != '\0' && set.find(c) != std::string_view::npos;
}

bool MustEscape(char c, Place place) {
  if (IsAlphanumeric(c) || OneOf(c, "-_.~")) {
    return false;
  }
  switch (place) {
    case Place::kPath:
      return !OneOf(c, "$&+,/:;=@");
    case Place::kHost:
    case Place::kZone:
      return !OneOf(c, "!$&'()*+,;=:[]<>\"");
    default:
      return true;
  }
}

// False: a bad escape, or a character that can't be in a host.
bool Unescape(std::string_view text, Place place, std::string& out) {
  out.clear();
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size() || Hex(text[i + 1]) < 0 || Hex(text[i + 2]) < 0) {
        return false;
      }
      const bool percent = text.substr(i, 3) == "%25";
      const auto value = static_cast<char>(Hex(text[i + 1]) * 16 + Hex(text[i + 2]));
      if ((place == Place::kHost && Hex(text[i + 1]) < 8 && !percent) ||
          (place == Place::kZone && !percent && value != ' ' && MustEscape(value, Place::kHost))) {
        return false;
      }
      out.push_back(value);
      i += 2;
    } else if ((place == Place::kHost || place == Place::kZone) && static_cast<uint8_t>(c) < 0x80 &&
               MustEscape(c, place)) {
      return false;
    } else {
      out.push_back(c == '+' && place == Place::kQuery ? ' ' : c);
    }
  }
  return true;
}

std::string Escape(std::string_view text, Place place) {
  static constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (MustEscape(c, place)) {
      out.push_back('%');
      out.push_back(kDigits[static_cast<uint8_t>(c) >> 4U]);
      out.push_back(kDigits[static_cast<uint8_t>(c) & 15U]);
    } else {
      out.push_back(c);
    }
  }
  return out;
}

bool IsValidlyEncoded(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return OneOf(c, "!$&'()*+,;=:@[]%") || !MustEscape(c, Place::kPath);
  });
}

bool IsOptionalPort(std::string_view text) {
  return text.empty() || (text[0] == ':' && std::all_of(text.begin() + 1, text.end(), [](char c) {
                            return c >= '0' && c <= '9';
                          }));
}

struct Parts {
  std::string scheme;
  std::string user;
  bool has_user = false;
  std::string host;
  std::string escaped_path;
  std::string query;
  bool force_query = false;
  std::string opaque;
  std::string fragment;
};

bool ParseHost(std::string_view scheme, std::string_view host, std::string& out) {
  const size_t bracket = host.rfind('[');
  if (bracket != std::string_view::npos && bracket > 0) {
    return false;
  }
  if (bracket == 0) {
    const size_t close = host.rfind(']');
    if (close == std::string_view::npos || !IsOptionalPort(host.substr(close + 1))) {
      return false;
    }
    const std::string_view name = host.substr(1, close - 1);
    const size_t zone = name.find("%25");
    std::string address;
    std::string zone_text;
    if (!Unescape(name.substr(0, zone), Place::kHost, address) ||
        (zone != std::string_view::npos && !Unescape(name.substr(zone), Place::kZone, zone_text))) {
      return false;
    }
    if (zone == std::string_view::npos && address.find('%') != std::string::npos) {
      return false;
    }
    if (!IsIpv6(address) || zone_text == "%") {
      return false;
    }
    out = "[" + address + zone_text + "]" + std::string(host.substr(close + 1));
    return true;
  }
  size_t colon = host.find(':');
  if (colon != std::string_view::npos) {
    if (scheme != "http" && scheme != "https") {
      colon = host.rfind(':');
    }
    if (!IsOptionalPort(host.substr(colon))) {
      return false;
    }
  }
  return Unescape(host, Place::kHost, out);
}

bool ParseAuthority(std::string_view authority, Parts& out) {
  const size_t at = authority.rfind('@');
  const std::string_view host = at == std::string_view::npos ? authority : authority.substr(at + 1);
  if (!ParseHost(out.scheme, host, out.host)) {
    return false;
  }
  if (at == std::string_view::npos) {
    return true;
  }
  const std::string_view user = authority.substr(0, at);
  const bool valid = std::all_of(user.begin(), user.end(), [](char c) {
    return IsAlphanumeric(c) || OneOf(c, "-._:~!$&'()*+,;=%@");
  });
  std::string name;
  std::string password;
  const size_t colon = user.find(':');
  if (!valid || !Unescape(user.substr(0, colon), Place::kUser, name) ||
      (colon != std::string_view::npos &&
       !Unescape(user.substr(colon + 1), Place::kUser, password))) {
    return false;
  }
  out.has_user = true;
  out.user = Escape(name, Place::kUser);
  if (colon != std::string_view::npos) {
    out.user += ":" + Escape(password, Place::kUser);
  }
  return true;
}

// True and an empty scheme: there is none. False: it is missing before ":".
bool TakeScheme(std::string_view& rest, std::string& scheme) {
  for (size_t i = 0; i < rest.size(); ++i) {
    const char c = rest[i];
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (letter || (i > 0 && ((c >= '0' && c <= '9') || OneOf(c, "+-.")))) {
      continue;
    }
    if (c != ':') {
      return true;
    }
    if (i == 0) {
      return false;
    }
    for (const char s : rest.substr(0, i)) {
      scheme.push_back(s >= 'A' && s <= 'Z' ? static_cast<char>(s - 'A' + 'a') : s);
    }
    rest.remove_prefix(i + 1);
    return true;
  }
  return true;
}

bool ParseUrl(std::string_view text, bool for_request, Parts& out) {
  if (std::any_of(text.begin(), text.end(),
                  [](char c) { return static_cast<uint8_t>(c) < 0x20 || c == 0x7F; })) {
    return false;
  }
  if (text.empty() && for_request) {
    return false;
  }
  if (text == "*") {
    out.escaped_path = "*";
    return true;
  }
  std::string_view rest = text;
  if (!TakeScheme(rest, out.scheme)) {
    return false;
  }
  const size_t question = rest.find('?');
  if (question != std::string_view::npos) {
    out.query = rest.substr(question + 1);
    out.force_query = out.query.empty();
    rest = rest.substr(0, question);
  }
  if (!rest.starts_with('/')) {
    if (!out.scheme.empty()) {
      out.opaque = rest;
      return true;
    }
    if (for_request || rest.substr(0, rest.find('/')).find(':') != std::string_view::npos) {
      return false;
    }
  }
  if ((!out.scheme.empty() || (!for_request && !rest.starts_with("///"))) &&
      rest.starts_with("//")) {
    rest.remove_prefix(2);
    const size_t slash = std::min(rest.find('/'), rest.size());
    if (!ParseAuthority(rest.substr(0, slash), out)) {
      return false;
    }
    rest.remove_prefix(slash);
  }
  std::string path;
  if (!Unescape(rest, Place::kPath, path)) {
    return false;
  }
  out.escaped_path = IsValidlyEncoded(rest) ? std::string(rest) : Escape(path, Place::kPath);
  if (path == "*") {
    out.escaped_path = "*";
  }
  return true;
}

const UrlObject* Of(const CallFrame& call) {
  return call.args[0].kind == Kind::kUrl ? call.args[0].url : nullptr;
}

Value Field(const CallFrame& call, std::string_view UrlObject::*field) {
  const UrlObject* url = Of(call);
  return url == nullptr ? NoSuchOverload() : StringView(url->*field);
}

}  // namespace

bool IsRequestUri(std::string_view text) {
  Parts parts;
  return ParseUrl(text, /*for_request=*/true, parts);
}

Value RunIsUrl(const CallFrame& call) {
  return call.args[0].kind == Kind::kString ? Bool(IsRequestUri(call.args[0].Text()))
                                            : NoSuchOverload();
}

Value RunUrl(const CallFrame& call) {
  if (call.args[0].kind != Kind::kString) {
    return NoSuchOverload();
  }
  const std::string_view text = call.args[0].Text();
  const size_t hash = text.find('#');
  Parts parts;
  std::string fragment;
  if (!IsRequestUri(text) || !ParseUrl(text.substr(0, hash), /*for_request=*/false, parts) ||
      (hash != std::string_view::npos &&
       !Unescape(text.substr(hash + 1), Place::kFragment, fragment))) {
    return call.context.Error("not a URL, or not an absolute one");
  }
  std::string whole = parts.scheme.empty() ? "" : parts.scheme + ":";
  if (!parts.opaque.empty()) {
    whole += parts.opaque;
  } else {
    if (parts.has_user || !parts.host.empty()) {
      whole += "//" + (parts.has_user ? parts.user + "@" : "") + Escape(parts.host, Place::kHost);
    }
    whole += parts.escaped_path;
  }
  if (parts.force_query || !parts.query.empty()) {
    whole += "?" + parts.query;
  }
  if (hash != std::string_view::npos && hash + 1 < text.size()) {
    whole += text.substr(hash);
  }
  auto* url = call.context.New<UrlObject>();
  url->text = call.context.Text(whole).Text();
  url->scheme = call.context.Text(parts.scheme).Text();
  url->host = call.context.Text(parts.host).Text();
  url->escaped_path = call.context.Text(parts.escaped_path).Text();
  url->query = call.context.Text(parts.query).Text();
  url->hostname = url->host;
  const size_t colon = url->host.rfind(':');
  if (colon != std::string_view::npos && IsOptionalPort(url->host.substr(colon))) {
    url->hostname = url->host.substr(0, colon);
    url->port = url->host.substr(colon + 1);
  }
  if (url->hostname.starts_with('[') && url->hostname.ends_with(']')) {
    url->hostname = url->hostname.substr(1, url->hostname.size() - 2);
  }
  Value out;
  out.kind = Kind::kUrl;
  out.url = url;
  return out;
}

Value RunScheme(const CallFrame& call) {
  return Field(call, &UrlObject::scheme);
}
Value RunHost(const CallFrame& call) {
  return Field(call, &UrlObject::host);
}
Value RunHostname(const CallFrame& call) {
  return Field(call, &UrlObject::hostname);
}
Value RunPort(const CallFrame& call) {
  return Field(call, &UrlObject::port);
}
Value RunEscapedPath(const CallFrame& call) {
  return Field(call, &UrlObject::escaped_path);
}

// Key -> list of values; pairs that can't be read are left out.
Value RunQuery(const CallFrame& call) {
  const UrlObject* url = Of(call);
  if (url == nullptr) {
    return NoSuchOverload();
  }
  const Value map = NewMap(call.context, /*growing=*/false);
  auto* object = const_cast<MapObject*>(static_cast<const MapObject*>(map.map));
  std::string_view rest = url->query;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view pair = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const size_t equals = std::min(pair.find('='), pair.size());
    std::string key;
    std::string value;
    if (pair.empty() || pair.find(';') != std::string_view::npos ||
        !Unescape(pair.substr(0, equals), Place::kQuery, key) ||
        !Unescape(pair.substr(std::min(equals + 1, pair.size())), Place::kQuery, value)) {
      continue;
    }
    const Value name = call.context.Text(key);
    bool found = false;
    Value list = MapFind(call.context, map, name, found);
    if (!found) {
      list = NewGrowingList(call.context);
    }
    const Value one = call.context.List({call.context.Text(value)});
    if (name.IsError() || one.IsError()) {
      return TooLarge();
    }
    list = ListConcat(call.context, list, one);
    Value failure;
    if (list.IsError() || !MapSet(call.context, *object, name, list, failure)) {
      return TooLarge();
    }
  }
  // The lists are complete.
  for (size_t i = 0; i < object->used; ++i) {
    const_cast<ListObject*>(object->entries[i].value.list)->form = ListObject::Form::kArray;
  }
  return map;
}

}  // namespace tutti::api::cel
