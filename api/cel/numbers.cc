// SPDX-License-Identifier: Apache-2.0
#include "api/cel/numbers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

namespace tutti::api::cel {
namespace {

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

bool IsHexDigit(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return out;
}

// Underscores stand between digits, or between the prefix 0x and a digit.
bool RemoveUnderscores(std::string& text, bool hex) {
  const auto is_digit = [hex](char c) { return hex ? IsHexDigit(c) : IsDigit(c); };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out.push_back(text[i]);
      continue;
    }
    const bool before = i > 0 && (is_digit(text[i - 1]) || (hex && i == 2));
    if (!before || i + 1 >= text.size() || !is_digit(text[i + 1])) {
      return false;
    }
  }
  text = out;
  return true;
}

// Shortest digits that read back the same, and the decimal exponent of the first.
void Shortest(double value, std::string& digits, int& exponent) {
  std::array<char, 64> buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(),
                                          std::fabs(value), std::chars_format::scientific);
  std::string_view text(buffer.data(), error == std::errc() ? end : buffer.data());
  const size_t e = text.find('e');
  digits.clear();
  for (const char c : text.substr(0, e)) {
    if (c != '.') {
      digits.push_back(c);
    }
  }
  exponent = 0;
  std::string_view tail = text.substr(e + 1);
  tail.remove_prefix(tail.starts_with('+') ? 1 : 0);
  std::from_chars(tail.data(), tail.data() + tail.size(), exponent);
}

bool Special(double value, std::string& out) {
  if (std::isnan(value)) {
    out = "NaN";
    return true;
  }
  if (std::isinf(value)) {
    out = value < 0 ? "-Inf" : "+Inf";
    return true;
  }
  return false;
}

// Days since 1970-01-01 of a civil date (Gregorian, proleptic).
int64_t DaysFromCivil(int64_t year, int month, int day) {
  year -= month <= 2 ? 1 : 0;
  const int64_t era = (year >= 0 ? year : year - 399) / 400;
  const int64_t year_of_era = year - era * 400;
  const int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * 146097 + day_of_era - 719468;
}

bool IsLeap(int64_t year) {
  return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

int DaysInMonth(int64_t year, int month) {
  static constexpr std::array<int, 12> kDays = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return kDays[static_cast<size_t>(month - 1)] + (month == 2 && IsLeap(year) ? 1 : 0);
}

// Reads exactly `count` digits.
bool TakeDigits(std::string_view& text, size_t count, int& out) {
  if (text.size() < count || !std::all_of(text.begin(), text.begin() + count, IsDigit)) {
    return false;
  }
  out = 0;
  for (size_t i = 0; i < count; ++i) {
    out = out * 10 + (text[i] - '0');
  }
  text.remove_prefix(count);
  return true;
}

bool Take(std::string_view& text, char c) {
  if (!text.starts_with(c)) {
    return false;
  }
  text.remove_prefix(1);
  return true;
}

}  // namespace

bool ParseDouble(std::string_view text, double& out) {
  bool negative = false;
  if (text.starts_with('+') || text.starts_with('-')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  std::string body = Lower(text);
  if (body == "inf" || body == "infinity") {
    out = negative ? -std::numeric_limits<double>::infinity()
                   : std::numeric_limits<double>::infinity();
    return true;
  }
  if (body == "nan") {
    out = std::numeric_limits<double>::quiet_NaN();
    return true;
  }
  const bool hex = body.starts_with("0x");
  if (!RemoveUnderscores(body, hex)) {
    return false;
  }
  std::string_view digits = body;
  digits.remove_prefix(hex ? 2 : 0);
  // from_chars also takes "inf" and the like: only digits, a point and an exponent may come here.
  const size_t bad = digits.find_first_not_of(hex ? "0123456789abcdef.p+-" : "0123456789.e+-");
  if (bad != std::string_view::npos || digits.empty() ||
      (hex && digits.find('p') == std::string_view::npos)) {
    return false;
  }
  if (digits[0] == '-' || digits[0] == '+') {
    return false;
  }
  std::string plain(digits);
  // "1e+5" is fine for from_chars; so are ".5" and "5.".
  double value = 0;
  const auto [end, error] =
      std::from_chars(plain.data(), plain.data() + plain.size(), value,
                      hex ? std::chars_format::hex : std::chars_format::general);
  if (end != plain.data() + plain.size()) {
    return false;
  }
  if (error == std::errc::result_out_of_range) {
    // Too large is an error, too small is zero.
    const size_t e = plain.find(hex ? 'p' : 'e');
    const bool tiny = (e != std::string::npos && plain.substr(e).find('-') != std::string::npos) ||
                      (e == std::string::npos && plain.starts_with("0"));
    if (!tiny) {
      return false;
    }
    value = 0;
  } else if (error != std::errc()) {
    return false;
  }
  out = negative ? -value : value;
  return true;
}

bool ParseInt64(std::string_view text, int64_t& out) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) {
      return false;
    }
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

bool ParseUint64(std::string_view text, uint64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

bool ParseBool(std::string_view text, bool& out) {
  static constexpr std::array<std::string_view, 6> kTrue = {"1", "t", "T", "TRUE", "true", "True"};
  static constexpr std::array<std::string_view, 6> kFalse = {"0",     "f",     "F",
                                                             "FALSE", "false", "False"};
  out = std::find(kTrue.begin(), kTrue.end(), text) != kTrue.end();
  return out || std::find(kFalse.begin(), kFalse.end(), text) != kFalse.end();
}

std::string FormatShortest(double value) {
  std::string out;
  if (Special(value, out)) {
    return out;
  }
  std::string digits;
  int exponent = 0;
  Shortest(value, digits, exponent);
  const std::string sign = std::signbit(value) ? "-" : "";
  // Go's %g with the shortest precision decides as if the precision were 6.
  if (exponent < -4 || exponent >= 6) {
    out = sign + digits.substr(0, 1);
    if (digits.size() > 1) {
      out += "." + digits.substr(1);
    }
    const int magnitude = std::abs(exponent);
    out += exponent < 0 ? "e-" : "e+";
    out += (magnitude < 10 ? "0" : "") + std::to_string(magnitude);
    return out;
  }
  return FormatPlain(value);
}

std::string FormatPlain(double value) {
  std::string out;
  if (Special(value, out)) {
    return out;
  }
  std::string digits;
  int exponent = 0;
  Shortest(value, digits, exponent);
  if (exponent < 0) {
    out = "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  } else if (static_cast<size_t>(exponent) + 1 >= digits.size()) {
    out = digits + std::string(static_cast<size_t>(exponent) + 1 - digits.size(), '0');
  } else {
    out = digits.substr(0, static_cast<size_t>(exponent) + 1) + "." +
          digits.substr(static_cast<size_t>(exponent) + 1);
  }
  return (std::signbit(value) ? "-" : "") + out;
}

bool ParseGoDuration(std::string_view text, int64_t& nanos) {
  bool negative = false;
  if (text.starts_with('+') || text.starts_with('-')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  if (text == "0") {
    nanos = 0;
    return true;
  }
  if (text.empty()) {
    return false;
  }
  static constexpr std::array<std::pair<std::string_view, int64_t>, 8> kUnits = {{
      {"ns", 1},
      {"us", 1'000},
      {"\xC2\xB5s", 1'000},  // micro sign
      {"\xCE\xBCs", 1'000},  // Greek mu
      {"ms", 1'000'000},
      {"s", 1'000'000'000},
      {"m", 60'000'000'000},
      {"h", 3'600'000'000'000},
  }};
  constexpr uint64_t kLimit = uint64_t{1} << 63U;
  uint64_t total = 0;
  while (!text.empty()) {
    uint64_t whole = 0;
    const size_t begin_size = text.size();
    while (!text.empty() && IsDigit(text[0])) {
      if (whole > kLimit / 10) {
        return false;
      }
      whole = whole * 10 + static_cast<uint64_t>(text[0] - '0');
      if (whole > kLimit) {
        return false;
      }
      text.remove_prefix(1);
    }
    const bool before = text.size() != begin_size;
    uint64_t fraction = 0;
    double scale = 1;
    bool after = false;
    if (Take(text, '.')) {
      bool overflow = false;
      while (!text.empty() && IsDigit(text[0])) {
        after = true;
        if (!overflow) {
          if (fraction > (kLimit - 1) / 10) {
            overflow = true;
          } else {
            const uint64_t next = fraction * 10 + static_cast<uint64_t>(text[0] - '0');
            if (next > kLimit) {
              overflow = true;
            } else {
              fraction = next;
              scale *= 10;
            }
          }
        }
        text.remove_prefix(1);
      }
    }
    if (!before && !after) {
      return false;
    }
    size_t unit_size = 0;
    while (unit_size < text.size() && text[unit_size] != '.' && !IsDigit(text[unit_size])) {
      ++unit_size;
    }
    const std::string_view unit = text.substr(0, unit_size);
    const auto known = std::find_if(kUnits.begin(), kUnits.end(),
                                    [unit](const auto& entry) { return entry.first == unit; });
    if (known == kUnits.end()) {
      return false;
    }
    text.remove_prefix(unit_size);
    const auto factor = static_cast<uint64_t>(known->second);
    if (whole > kLimit / factor) {
      return false;
    }
    whole *= factor;
    if (fraction > 0) {
      whole += static_cast<uint64_t>(static_cast<double>(fraction) *
                                     (static_cast<double>(factor) / scale));
      if (whole > kLimit) {
        return false;
      }
    }
    total += whole;
    if (total > kLimit) {
      return false;
    }
  }
  if (negative) {
    nanos = static_cast<int64_t>(0 - total);
    return true;
  }
  nanos = static_cast<int64_t>(total);
  return total < kLimit;
}

bool ParseRfc3339(std::string_view text, Moment& out) {
  int year = 0;
  int month = 0;
  int day = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;
  if (!TakeDigits(text, 4, year) || !Take(text, '-') || !TakeDigits(text, 2, month) ||
      !Take(text, '-') || !TakeDigits(text, 2, day) || !Take(text, 'T')) {
    return false;
  }
  // Go takes one digit for the hour, too.
  const bool short_hour = text.size() > 1 && text[1] == ':';
  if (!TakeDigits(text, short_hour ? 1 : 2, hour) || !Take(text, ':') ||
      !TakeDigits(text, 2, minute) || !Take(text, ':') || !TakeDigits(text, 2, second)) {
    return false;
  }
  if (month < 1 || month > 12 || day < 1 || day > DaysInMonth(year, month) || hour > 23 ||
      minute > 59 || second > 59) {
    return false;
  }
  out.nanos = 0;
  if (text.size() > 1 && (text[0] == '.' || text[0] == ',') && IsDigit(text[1])) {
    text.remove_prefix(1);
    uint32_t scale = 100'000'000;
    while (!text.empty() && IsDigit(text[0])) {
      out.nanos += static_cast<uint32_t>(text[0] - '0') * scale;
      scale /= 10;
      text.remove_prefix(1);
    }
  }
  out.zone_minutes = 0;
  if (!Take(text, 'Z')) {
    const bool west = text.starts_with('-');
    int zone_hour = 0;
    int zone_minute = 0;
    if ((!Take(text, '+') && !Take(text, '-')) || !TakeDigits(text, 2, zone_hour) ||
        !Take(text, ':') || !TakeDigits(text, 2, zone_minute) || zone_hour > 24 ||
        zone_minute > 60) {
      return false;
    }
    out.zone_minutes = (zone_hour * 60 + zone_minute) * (west ? -1 : 1);
  }
  out.seconds = DaysFromCivil(year, month, day) * 86400 + hour * 3600 + minute * 60 + second -
                static_cast<int64_t>(out.zone_minutes) * 60;
  return text.empty();
}

CivilTime ToCivil(int64_t unix_seconds) {
  int64_t days = unix_seconds / 86400;
  int64_t rest = unix_seconds % 86400;
  if (rest < 0) {
    rest += 86400;
    --days;
  }
  CivilTime out;
  out.hour = static_cast<int>(rest / 3600);
  out.minute = static_cast<int>(rest / 60 % 60);
  out.second = static_cast<int>(rest % 60);
  out.weekday = static_cast<int>(((days + 4) % 7 + 7) % 7);
  const int64_t shifted = days + 719468;
  const int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
  const int64_t day_of_era = shifted - era * 146097;
  const int64_t year_of_era =
      (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  const int64_t day_of_year =
      day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const int64_t month = (5 * day_of_year + 2) / 153;
  out.day = static_cast<int>(day_of_year - (153 * month + 2) / 5 + 1);
  out.month = static_cast<int>(month < 10 ? month + 3 : month - 9);
  out.year = year_of_era + era * 400 + (out.month <= 2 ? 1 : 0);
  out.day_of_year = static_cast<int>(days - DaysFromCivil(out.year, 1, 1));
  return out;
}

std::string FormatRfc3339(const Moment& moment) {
  const CivilTime civil = ToCivil(moment.seconds + static_cast<int64_t>(moment.zone_minutes) * 60);
  std::array<char, 64> buffer{};
  const int length = std::snprintf(buffer.data(), buffer.size(), "%04d-%02d-%02dT%02d:%02d:%02d",
                                   static_cast<int>(civil.year), civil.month, civil.day, civil.hour,
                                   civil.minute, civil.second);
  std::string out(buffer.data(), static_cast<size_t>(std::max(length, 0)));
  if (moment.nanos != 0) {
    std::string fraction = std::to_string(1'000'000'000 + moment.nanos).substr(1);
    fraction.erase(fraction.find_last_not_of('0') + 1);
    out += "." + fraction;
  }
  if (moment.zone_minutes == 0) {
    return out + "Z";
  }
  const int zone = std::abs(moment.zone_minutes);
  const int zone_length = std::snprintf(buffer.data(), buffer.size(), "%c%02d:%02d",
                                        moment.zone_minutes < 0 ? '-' : '+', zone / 60, zone % 60);
  return out + std::string(buffer.data(), static_cast<size_t>(std::max(zone_length, 0)));
}

}  // namespace tutti::api::cel
