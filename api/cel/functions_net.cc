// SPDX-License-Identifier: Apache-2.0
// Addresses and networks, as Go's net/netip reads them; no zones, no IPv4 in IPv6.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string>

#include "api/cel/functions.h"

namespace tutti::api::cel {
namespace {

bool ParseIpv4(std::string_view text, uint8_t* out) {
  for (int i = 0; i < 4; ++i) {
    const size_t end = i < 3 ? text.find('.') : text.size();
    if (end == std::string_view::npos || end == 0 || end > 3 || (end > 1 && text[0] == '0')) {
      return false;
    }
    unsigned value = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + end, value);
    if (error != std::errc() || stop != text.data() + end || value > 255) {
      return false;
    }
    out[i] = static_cast<uint8_t>(value);
    text.remove_prefix(i < 3 ? end + 1 : end);
  }
  return true;
}

bool ParseIpv6(std::string_view text, uint8_t* out) {
  size_t at = 0;  // bytes of `out`
  size_t gap = SIZE_MAX;
  if (text.starts_with("::")) {
    gap = 0;
    text.remove_prefix(2);
    if (text.empty()) {
      return true;
    }
  }
  while (at < 16) {
    unsigned value = 0;
    const size_t digits = std::min(text.find_first_not_of("0123456789abcdefABCDEF"), text.size());
    if (digits == 0 || digits > 4) {
      return false;
    }
    std::from_chars(text.data(), text.data() + digits, value, 16);
    if (digits < text.size() && text[digits] == '.') {
      // An IPv4 address fills the end.
      if ((gap == SIZE_MAX && at != 12) || at + 4 > 16 || !ParseIpv4(text, out + at)) {
        return false;
      }
      text = {};
      at += 4;
      break;
    }
    out[at] = static_cast<uint8_t>(value >> 8U);
    out[at + 1] = static_cast<uint8_t>(value);
    at += 2;
    text.remove_prefix(digits);
    if (text.empty()) {
      break;
    }
    if (text[0] != ':' || text.size() == 1) {
      return false;
    }
    text.remove_prefix(1);
    if (text[0] == ':') {
      if (gap != SIZE_MAX) {
        return false;
      }
      gap = at;
      text.remove_prefix(1);
      if (text.empty()) {
        break;
      }
    }
  }
  if (!text.empty()) {
    return false;
  }
  if (at < 16) {
    if (gap == SIZE_MAX) {
      return false;
    }
    const size_t tail = at - gap;
    std::memmove(out + 16 - tail, out + gap, tail);
    std::memset(out + gap, 0, 16 - at);
    return true;
  }
  return gap == SIZE_MAX;  // "::" must stand for something
}

bool ParseIp(std::string_view text, IpObject& out) {
  out = IpObject();
  const size_t mark = text.find_first_of(".:%");
  if (mark == std::string_view::npos || text[mark] == '%') {
    return false;
  }
  if (text[mark] == '.') {
    out.width = 4;
    return ParseIpv4(text, out.bytes);
  }
  out.width = 16;
  if (!ParseIpv6(text, out.bytes)) {
    return false;
  }
  static constexpr std::array<uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
  return !std::equal(kMapped.begin(), kMapped.end(), out.bytes);
}

bool ParseCidr(std::string_view text, CidrObject& out) {
  const size_t slash = text.rfind('/');
  if (slash == std::string_view::npos || !ParseIp(text.substr(0, slash), out.address)) {
    return false;
  }
  const std::string_view bits = text.substr(slash + 1);
  unsigned value = 0;
  const auto [end, error] = std::from_chars(bits.data(), bits.data() + bits.size(), value);
  if (error != std::errc() || end != bits.data() + bits.size() ||
      (bits.size() > 1 && bits[0] == '0') || value > out.address.width * 8U) {
    return false;
  }
  out.bits = static_cast<uint8_t>(value);
  return true;
}

std::string IpText(const IpObject& ip) {
  std::string out;
  if (ip.width == 4) {
    for (int i = 0; i < 4; ++i) {
      out += (i > 0 ? "." : "") + std::to_string(ip.bytes[i]);
    }
    return out;
  }
  std::array<unsigned, 8> groups{};
  for (size_t i = 0; i < 8; ++i) {
    groups[i] = static_cast<unsigned>(ip.bytes[2 * i]) << 8U | ip.bytes[2 * i + 1];
  }
  // The longest run of two or more zero groups is left out; the first of equal ones.
  size_t best = 8;
  size_t best_size = 1;
  for (size_t i = 0; i < 8; ++i) {
    size_t end = i;
    while (end < 8 && groups[end] == 0) {
      ++end;
    }
    if (end - i > best_size) {
      best = i;
      best_size = end - i;
    }
  }
  for (size_t i = 0; i < 8; ++i) {
    if (i == best) {
      out += "::";
      i += best_size - 1;
      continue;
    }
    if (i > 0 && !out.ends_with(':')) {
      out += ":";
    }
    std::array<char, 8> buffer{};
    const auto [end, error] =
        std::to_chars(buffer.data(), buffer.data() + buffer.size(), groups[i], 16);
    out.append(buffer.data(), error == std::errc() ? end : buffer.data());
  }
  return out;
}

void Mask(IpObject& ip, unsigned bits) {
  for (unsigned i = 0; i < 16; ++i) {
    const unsigned kept = bits > i * 8 ? std::min(bits - i * 8, 8U) : 0;
    ip.bytes[i] = static_cast<uint8_t>(ip.bytes[i] & (0xFF00U >> kept));
  }
}

bool SamePrefix(const IpObject& a, const IpObject& b, unsigned bits) {
  IpObject left = a;
  IpObject right = b;
  Mask(left, bits);
  Mask(right, bits);
  return left.width == right.width && std::memcmp(left.bytes, right.bytes, 16) == 0;
}

bool Is(const CallFrame& call, size_t i, Kind kind) {
  return call.count > i && call.args[i].kind == kind;
}

Value IpValue(Context& context, const IpObject& ip) {
  auto* copy = context.New<IpObject>();
  *copy = ip;
  Value out;
  out.kind = Kind::kIp;
  out.ip = copy;
  return out;
}

Value CidrValue(Context& context, const CidrObject& cidr) {
  auto* copy = context.New<CidrObject>();
  *copy = cidr;
  Value out;
  out.kind = Kind::kCidr;
  out.cidr = copy;
  return out;
}

Value NotAnAddress(Context& context) {
  return context.Error("not an IP address (zones and IPv4-mapped IPv6 are not allowed)");
}

template <typename Test>
Value IpTest(const CallFrame& call, Test test) {
  return Is(call, 0, Kind::kIp) ? Bool(test(*call.args[0].ip)) : NoSuchOverload();
}

bool AllZero(const IpObject& ip) {
  return std::all_of(ip.bytes, ip.bytes + ip.width, [](uint8_t b) { return b == 0; });
}

bool IsLoopback(const IpObject& ip) {
  if (ip.width == 4) {
    return ip.bytes[0] == 127;
  }
  return ip.bytes[15] == 1 &&
         std::all_of(ip.bytes, ip.bytes + 15, [](uint8_t b) { return b == 0; });
}

bool IsMulticast(const IpObject& ip) {
  return ip.width == 4 ? (ip.bytes[0] & 0xF0U) == 0xE0U : ip.bytes[0] == 0xFF;
}

bool IsLinkLocalUnicast(const IpObject& ip) {
  return ip.width == 4 ? ip.bytes[0] == 169 && ip.bytes[1] == 254
                       : ip.bytes[0] == 0xFE && (ip.bytes[1] & 0xC0U) == 0x80U;
}

}  // namespace

bool IsIpv6(std::string_view text) {
  IpObject ip;
  return text.find(':') < text.find('.') && ParseIpv6(text, ip.bytes);
}

Value AddressText(Context& context, const Value& value) {
  if (value.kind == Kind::kIp) {
    return context.Text(IpText(*value.ip));
  }
  return context.Text(IpText(value.cidr->address) + "/" + std::to_string(value.cidr->bits));
}

// ip(string), and cidr.ip()
Value RunIp(const CallFrame& call) {
  if (Is(call, 0, Kind::kCidr)) {
    return IpValue(call.context, call.args[0].cidr->address);
  }
  if (!Is(call, 0, Kind::kString)) {
    return NoSuchOverload();
  }
  IpObject ip;
  return ParseIp(call.args[0].Text(), ip) ? IpValue(call.context, ip) : NotAnAddress(call.context);
}

Value RunIsIp(const CallFrame& call) {
  IpObject ip;
  return Is(call, 0, Kind::kString) ? Bool(ParseIp(call.args[0].Text(), ip)) : NoSuchOverload();
}

Value RunIpIsCanonical(const CallFrame& call) {
  if (!Is(call, 0, Kind::kString)) {
    return NoSuchOverload();
  }
  IpObject ip;
  return ParseIp(call.args[0].Text(), ip) ? Bool(IpText(ip) == call.args[0].Text())
                                          : NotAnAddress(call.context);
}

Value RunFamily(const CallFrame& call) {
  return Is(call, 0, Kind::kIp) ? Int(call.args[0].ip->width == 4 ? 4 : 6) : NoSuchOverload();
}

Value RunIsUnspecified(const CallFrame& call) {
  return IpTest(call, AllZero);
}

Value RunIsLoopback(const CallFrame& call) {
  return IpTest(call, IsLoopback);
}

Value RunIsLinkLocalMulticast(const CallFrame& call) {
  return IpTest(call, [](const IpObject& ip) {
    return ip.width == 4 ? ip.bytes[0] == 224 && ip.bytes[1] == 0 && ip.bytes[2] == 0
                         : ip.bytes[0] == 0xFF && (ip.bytes[1] & 0x0FU) == 2;
  });
}

Value RunIsLinkLocalUnicast(const CallFrame& call) {
  return IpTest(call, IsLinkLocalUnicast);
}

Value RunIsGlobalUnicast(const CallFrame& call) {
  return IpTest(call, [](const IpObject& ip) {
    const bool broadcast =
        ip.width == 4 && std::all_of(ip.bytes, ip.bytes + 4, [](uint8_t b) { return b == 255; });
    return !AllZero(ip) && !broadcast && !IsLoopback(ip) && !IsMulticast(ip) &&
           !IsLinkLocalUnicast(ip);
  });
}

Value RunCidr(const CallFrame& call) {
  if (!Is(call, 0, Kind::kString)) {
    return NoSuchOverload();
  }
  CidrObject cidr;
  return ParseCidr(call.args[0].Text(), cidr)
             ? CidrValue(call.context, cidr)
             : call.context.Error("not a network address like 10.0.0.0/8");
}

Value RunIsCidr(const CallFrame& call) {
  CidrObject cidr;
  return Is(call, 0, Kind::kString) ? Bool(ParseCidr(call.args[0].Text(), cidr)) : NoSuchOverload();
}

Value RunContainsIp(const CallFrame& call) {
  if (!Is(call, 0, Kind::kCidr)) {
    return NoSuchOverload();
  }
  IpObject ip;
  if (Is(call, 1, Kind::kIp)) {
    ip = *call.args[1].ip;
  } else if (!Is(call, 1, Kind::kString)) {
    return NoSuchOverload();
  } else if (!ParseIp(call.args[1].Text(), ip)) {
    return NotAnAddress(call.context);
  }
  const CidrObject& cidr = *call.args[0].cidr;
  return Bool(SamePrefix(cidr.address, ip, cidr.bits));
}

Value RunContainsCidr(const CallFrame& call) {
  if (!Is(call, 0, Kind::kCidr)) {
    return NoSuchOverload();
  }
  CidrObject other;
  if (Is(call, 1, Kind::kCidr)) {
    other = *call.args[1].cidr;
  } else if (!Is(call, 1, Kind::kString)) {
    return NoSuchOverload();
  } else if (!ParseCidr(call.args[1].Text(), other)) {
    return call.context.Error("not a network address like 10.0.0.0/8");
  }
  const CidrObject& cidr = *call.args[0].cidr;
  return Bool(cidr.bits <= other.bits && SamePrefix(cidr.address, other.address, cidr.bits));
}

Value RunPrefixLength(const CallFrame& call) {
  return Is(call, 0, Kind::kCidr) ? Int(call.args[0].cidr->bits) : NoSuchOverload();
}

Value RunMasked(const CallFrame& call) {
  if (!Is(call, 0, Kind::kCidr)) {
    return NoSuchOverload();
  }
  CidrObject masked = *call.args[0].cidr;
  Mask(masked.address, masked.bits);
  return CidrValue(call.context, masked);
}

}  // namespace tutti::api::cel
