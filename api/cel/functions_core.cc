// SPDX-License-Identifier: Apache-2.0
// Operators, conversions and times of the standard library.
#include <cmath>
#include <limits>

#include "api/cel/functions.h"
#include "api/cel/lexer.h"
#include "api/cel/numbers.h"

namespace tutti::api::cel {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

Value Converted(Context& context, const Value& from, std::string_view to) {
  return Fail(
      Failure::kConversion,
      context.Text(std::string(TypeName(from)) + " can't be read as " + std::string(to)).Text());
}

// What a call says that no overload fits. The messages of failed conversions of strings name both.
bool IsOne(const CallFrame& call, Kind kind) {
  return call.count == 1 && call.args[0].kind == kind;
}

Value AddToTime(const Value& time, int64_t nanos) {
  int64_t seconds = time.integer + nanos / kSecond;
  int64_t rest = static_cast<int64_t>(time.nanos) + nanos % kSecond;
  if (rest >= kSecond) {
    rest -= kSecond;
    ++seconds;
  } else if (rest < 0) {
    rest += kSecond;
    --seconds;
  }
  if (seconds < kMinUnixTime || seconds > kMaxUnixTime) {
    return Fail(Failure::kTimestampOverflow);
  }
  return Timestamp(seconds, static_cast<uint32_t>(rest), time.zone_minutes);
}

Value TimeDifference(const Value& a, const Value& b) {
  int64_t nanos = 0;
  const int64_t seconds = a.integer - b.integer;  // both are in the range of timestamps
  if (__builtin_mul_overflow(seconds, kSecond, &nanos) ||
      __builtin_add_overflow(nanos, static_cast<int64_t>(a.nanos) - static_cast<int64_t>(b.nanos),
                             &nanos)) {
    return Fail(Failure::kDurationOverflow);
  }
  return Duration(nanos);
}

template <typename IntOp, typename UintOp, typename DoubleOp>
Value Arithmetic(const CallFrame& call, IntOp int_op, UintOp uint_op, DoubleOp double_op) {
  if (call.count != 2 || call.args[0].kind != call.args[1].kind) {
    return NoSuchOverload();
  }
  const Value& a = call.args[0];
  const Value& b = call.args[1];
  switch (a.kind) {
    case Kind::kInt: {
      int64_t out = 0;
      return int_op(a.integer, b.integer, &out) ? Fail(Failure::kIntOverflow) : Int(out);
    }
    case Kind::kUint: {
      uint64_t out = 0;
      return uint_op(a.unsigned_integer, b.unsigned_integer, &out) ? Fail(Failure::kUintOverflow)
                                                                   : Uint(out);
    }
    case Kind::kDouble:
      return Double(double_op(a.number, b.number));
    default:
      return NoSuchOverload();
  }
}

template <typename Test>
Value Ordered(const CallFrame& call, Test test) {
  if (call.count != 2) {
    return NoSuchOverload();
  }
  const Value order = Compare(call.args[0], call.args[1]);
  return order.IsError() ? order : Bool(test(order.integer));
}

Value Joined(Context& context, const Value& a, const Value& b) {
  char* text = context.NewText(a.size + b.size);
  if (text == nullptr) {
    return TooLarge();
  }
  std::copy(a.text, a.text + a.size, text);
  std::copy(b.text, b.text + b.size, text + a.size);
  Value out = StringView({text, a.size + b.size});
  out.kind = a.kind;
  return out;
}

// The moment in the zone of the second argument (UTC without one).
bool InZone(const CallFrame& call, CivilTime& out, Value& failure) {
  if (call.count < 1 || call.args[0].kind != Kind::kTimestamp ||
      (call.count == 2 && call.args[1].kind != Kind::kString) || call.count > 2) {
    failure = NoSuchOverload();
    return false;
  }
  int64_t offset = 0;
  if (call.count == 2) {
    const std::string_view zone = call.args[1].Text();
    const size_t colon = zone.find(':');
    if (colon == std::string_view::npos) {
      if (!zone.empty() && zone != "UTC") {
        failure = call.context.Error("time zones by name are not known here: \"" +
                                     std::string(zone.substr(0, 64)) + "\"");
        return false;
      }
    } else {
      int64_t hours = 0;
      int64_t minutes = 0;
      if (!ParseInt64(zone.substr(0, colon), hours) ||
          !ParseInt64(zone.substr(colon + 1), minutes) || std::abs(hours) > 1'000'000 ||
          std::abs(minutes) > 1'000'000) {
        failure = call.context.Error("not a time zone");
        return false;
      }
      offset = zone[0] == '-' ? hours * 60 - minutes : hours * 60 + minutes;
    }
  }
  out = ToCivil(call.args[0].integer + offset * 60);
  return true;
}

template <typename Field>
Value TimeField(const CallFrame& call, Field field) {
  CivilTime civil;
  Value failure;
  return InZone(call, civil, failure) ? Int(field(civil)) : failure;
}

bool DoubleToInt(double value, int64_t& out) {
  if (!(value > -9223372036854775808.0 && value < 9223372036854775808.0)) {
    return false;
  }
  out = static_cast<int64_t>(value);
  return true;
}

bool DoubleToUint(double value, uint64_t& out) {
  if (!(value >= 0 && value < 18446744073709551616.0)) {
    return false;
  }
  out = static_cast<uint64_t>(value);
  return true;
}

}  // namespace

Value RunNever(const CallFrame& /*call*/) {
  return NoSuchOverload();
}

Value RunNot(const CallFrame& call) {
  return IsOne(call, Kind::kBool) ? Bool(!call.args[0].boolean) : NoSuchOverload();
}

Value RunNotStrictlyFalse(const CallFrame& call) {
  return Bool(!call.args[0].IsFalse());
}

Value RunNegate(const CallFrame& call) {
  const Value& value = call.args[0];
  if (value.kind == Kind::kInt || value.kind == Kind::kDuration) {
    if (value.integer == INT64_MIN) {
      return Fail(Failure::kIntOverflow);
    }
    return value.kind == Kind::kInt ? Int(-value.integer) : Duration(-value.integer);
  }
  return value.kind == Kind::kDouble ? Double(-value.number) : NoSuchOverload();
}

Value RunAdd(const CallFrame& call) {
  const Value& a = call.args[0];
  const Value& b = call.args[1];
  if (a.kind == Kind::kList) {
    return ListConcat(call.context, a, b);
  }
  if ((a.kind == Kind::kString || a.kind == Kind::kBytes) && a.kind == b.kind) {
    return Joined(call.context, a, b);
  }
  if (a.kind == Kind::kDuration && b.kind == Kind::kDuration) {
    int64_t out = 0;
    return __builtin_add_overflow(a.integer, b.integer, &out) ? Fail(Failure::kDurationOverflow)
                                                              : Duration(out);
  }
  if (a.kind == Kind::kDuration && b.kind == Kind::kTimestamp) {
    return AddToTime(b, a.integer);
  }
  if (a.kind == Kind::kTimestamp && b.kind == Kind::kDuration) {
    return AddToTime(a, b.integer);
  }
  return Arithmetic(
      call, [](int64_t x, int64_t y, int64_t* out) { return __builtin_add_overflow(x, y, out); },
      [](uint64_t x, uint64_t y, uint64_t* out) { return __builtin_add_overflow(x, y, out); },
      [](double x, double y) { return x + y; });
}

Value RunSubtract(const CallFrame& call) {
  const Value& a = call.args[0];
  const Value& b = call.args[1];
  if (a.kind == Kind::kDuration && b.kind == Kind::kDuration) {
    int64_t out = 0;
    return __builtin_sub_overflow(a.integer, b.integer, &out) ? Fail(Failure::kDurationOverflow)
                                                              : Duration(out);
  }
  if (a.kind == Kind::kTimestamp && b.kind == Kind::kTimestamp) {
    return TimeDifference(a, b);
  }
  if (a.kind == Kind::kTimestamp && b.kind == Kind::kDuration) {
    return b.integer == INT64_MIN ? Fail(Failure::kDurationOverflow) : AddToTime(a, -b.integer);
  }
  return Arithmetic(
      call, [](int64_t x, int64_t y, int64_t* out) { return __builtin_sub_overflow(x, y, out); },
      [](uint64_t x, uint64_t y, uint64_t* out) { return __builtin_sub_overflow(x, y, out); },
      [](double x, double y) { return x - y; });
}

Value RunMultiply(const CallFrame& call) {
  return Arithmetic(
      call, [](int64_t x, int64_t y, int64_t* out) { return __builtin_mul_overflow(x, y, out); },
      [](uint64_t x, uint64_t y, uint64_t* out) { return __builtin_mul_overflow(x, y, out); },
      [](double x, double y) { return x * y; });
}

Value RunDivide(const CallFrame& call) {
  const Value& b = call.args[1];
  if (call.args[0].kind == b.kind && ((b.kind == Kind::kInt && b.integer == 0) ||
                                      (b.kind == Kind::kUint && b.unsigned_integer == 0))) {
    return Fail(Failure::kDivideByZero);
  }
  return Arithmetic(
      call,
      [](int64_t x, int64_t y, int64_t* out) {
        const bool overflow = x == INT64_MIN && y == -1;
        *out = overflow ? 0 : x / y;
        return overflow;
      },
      [](uint64_t x, uint64_t y, uint64_t* out) {
        *out = x / y;
        return false;
      },
      [](double x, double y) { return x / y; });
}

Value RunModulo(const CallFrame& call) {
  const Value& b = call.args[1];
  if (call.args[0].kind != b.kind || (b.kind != Kind::kInt && b.kind != Kind::kUint)) {
    return NoSuchOverload();
  }
  if (b.integer == 0) {  // the same bits for both kinds
    return Fail(Failure::kModulusByZero);
  }
  return Arithmetic(
      call,
      [](int64_t x, int64_t y, int64_t* out) {
        const bool overflow = x == INT64_MIN && y == -1;
        *out = overflow ? 0 : x % y;
        return overflow;
      },
      [](uint64_t x, uint64_t y, uint64_t* out) {
        *out = x % y;
        return false;
      },
      [](double x, double /*y*/) { return x; });
}

Value RunLess(const CallFrame& call) {
  return Ordered(call, [](int64_t order) { return order < 0; });
}
Value RunLessEquals(const CallFrame& call) {
  return Ordered(call, [](int64_t order) { return order <= 0; });
}
Value RunGreater(const CallFrame& call) {
  return Ordered(call, [](int64_t order) { return order > 0; });
}
Value RunGreaterEquals(const CallFrame& call) {
  return Ordered(call, [](int64_t order) { return order >= 0; });
}

Value RunIn(const CallFrame& call) {
  const Value& item = call.args[0];
  const Value& container = call.args[1];
  if (container.kind == Kind::kMap) {
    return MapContains(call.context, container, item);
  }
  if (container.kind != Kind::kList) {
    return NoSuchOverload();
  }
  for (size_t i = 0; i < ListSize(container); ++i) {
    if (!call.context.Work(1)) {
      return TooLarge();
    }
    const Value equal = EqualMethod(call.context, item, ListGet(*container.list, i));
    if (equal.IsTrue() || equal.IsFatal()) {
      return equal;
    }
  }
  return Bool(false);
}

Value RunSize(const CallFrame& call) {
  const Value& value = call.args[0];
  switch (value.kind) {
    case Kind::kString:
    case Kind::kBytes:
    case Kind::kList:
    case Kind::kMap:
      return Int(static_cast<int64_t>(ActualSize(value)));
    default:
      return NoSuchOverload();
  }
}

Value RunTypeOf(const CallFrame& call) {
  return Type(TypeName(call.args[0]));
}

Value RunToDyn(const CallFrame& call) {
  return call.args[0];
}

Value RunToBool(const CallFrame& call) {
  const Value& value = call.args[0];
  if (value.kind == Kind::kBool) {
    return value;
  }
  bool out = false;
  if (value.kind != Kind::kString) {
    return NoSuchOverload();
  }
  return ParseBool(value.Text(), out) ? Bool(out) : Converted(call.context, value, "bool");
}

Value RunToBytes(const CallFrame& call) {
  Value value = call.args[0];
  if (value.kind != Kind::kString && value.kind != Kind::kBytes) {
    return NoSuchOverload();
  }
  value.kind = Kind::kBytes;
  return value;
}

Value RunToDouble(const CallFrame& call) {
  const Value& value = call.args[0];
  double out = 0;
  switch (value.kind) {
    case Kind::kDouble:
      return value;
    case Kind::kInt:
      return Double(static_cast<double>(value.integer));
    case Kind::kUint:
      return Double(static_cast<double>(value.unsigned_integer));
    case Kind::kString:
      return ParseDouble(value.Text(), out) ? Double(out)
                                            : Converted(call.context, value, "double");
    default:
      return NoSuchOverload();
  }
}

Value RunToDuration(const CallFrame& call) {
  const Value& value = call.args[0];
  if (value.kind == Kind::kDuration) {
    return value;
  }
  int64_t nanos = 0;
  if (value.kind == Kind::kString && ParseGoDuration(value.Text(), nanos)) {
    return Duration(nanos);
  }
  // The overload for int is declared, but its conversion does not exist.
  return value.kind == Kind::kString || value.kind == Kind::kInt
             ? Converted(call.context, value, "duration")
             : NoSuchOverload();
}

Value RunToInt(const CallFrame& call) {
  const Value& value = call.args[0];
  int64_t out = 0;
  switch (value.kind) {
    case Kind::kInt:
      return value;
    case Kind::kUint:
      return value.unsigned_integer <= INT64_MAX ? Int(static_cast<int64_t>(value.unsigned_integer))
                                                 : Fail(Failure::kIntOverflow);
    case Kind::kDouble:
      return DoubleToInt(value.number, out) ? Int(out) : Fail(Failure::kIntOverflow);
    case Kind::kDuration:
    case Kind::kTimestamp:
      return Int(value.integer);
    case Kind::kString:
      return ParseInt64(value.Text(), out) ? Int(out) : Converted(call.context, value, "int");
    default:
      return NoSuchOverload();
  }
}

Value RunToUint(const CallFrame& call) {
  const Value& value = call.args[0];
  uint64_t out = 0;
  switch (value.kind) {
    case Kind::kUint:
      return value;
    case Kind::kInt:
      return value.integer >= 0 ? Uint(static_cast<uint64_t>(value.integer))
                                : Fail(Failure::kUintOverflow);
    case Kind::kDouble:
      return DoubleToUint(value.number, out) ? Uint(out) : Fail(Failure::kUintOverflow);
    case Kind::kString:
      return ParseUint64(value.Text(), out) ? Uint(out) : Converted(call.context, value, "uint");
    default:
      return NoSuchOverload();
  }
}

Value ToText(Context& context, const Value& value) {
  switch (value.kind) {
    case Kind::kString:
      return value;
    case Kind::kNull:
      return StringView("null");
    case Kind::kBool:
      return StringView(value.boolean ? "true" : "false");
    case Kind::kInt:
      return context.Text(std::to_string(value.integer));
    case Kind::kUint:
      return context.Text(std::to_string(value.unsigned_integer));
    case Kind::kDouble:
      return context.Text(FormatShortest(value.number));
    case Kind::kBytes: {
      Value text = value;
      text.kind = Kind::kString;
      return IsUtf8(value.Text()) ? text : context.Error("bytes that are not UTF-8 have no text");
    }
    case Kind::kType: {
      Value text = value;
      text.kind = Kind::kString;
      return text;
    }
    case Kind::kDuration: {
      const auto seconds = static_cast<double>(value.integer / kSecond);
      const auto nanos = static_cast<double>(value.integer % kSecond);
      return context.Text(FormatPlain(seconds + nanos / 1e9) + "s");
    }
    case Kind::kTimestamp:
      return context.Text(FormatRfc3339({value.integer, value.nanos, value.zone_minutes}));
    case Kind::kIp:
    case Kind::kCidr:
      return AddressText(context, value);
    default:
      return Converted(context, value, "string");
  }
}

Value RunToString(const CallFrame& call) {
  const Kind kind = call.args[0].kind;
  if (kind == Kind::kNull || kind == Kind::kType) {
    return NoSuchOverload();
  }
  return ToText(call.context, call.args[0]);
}

Value RunToTimestamp(const CallFrame& call) {
  const Value& value = call.args[0];
  switch (value.kind) {
    case Kind::kTimestamp:
      return value;
    case Kind::kInt:
      if (value.integer < kMinUnixTime || value.integer > kMaxUnixTime) {
        return Fail(Failure::kTimestampOverflow);
      }
      return Timestamp(value.integer, 0, 0);
    case Kind::kString: {
      Moment moment;
      if (!ParseRfc3339(value.Text(), moment)) {
        return Converted(call.context, value, "timestamp");
      }
      if (moment.seconds < kMinUnixTime || moment.seconds > kMaxUnixTime) {
        return Fail(Failure::kTimestampOverflow);
      }
      return Timestamp(moment.seconds, moment.nanos, static_cast<int16_t>(moment.zone_minutes));
    }
    default:
      return NoSuchOverload();
  }
}

Value RunFullYear(const CallFrame& call) {
  return TimeField(call, [](const CivilTime& civil) { return civil.year; });
}
Value RunMonth(const CallFrame& call) {
  return TimeField(call, [](const CivilTime& civil) { return civil.month - 1; });
}
Value RunDayOfYear(const CallFrame& call) {
  return TimeField(call, [](const CivilTime& civil) { return civil.day_of_year; });
}
Value RunDayOfMonth(const CallFrame& call) {
  return TimeField(call, [](const CivilTime& civil) { return civil.day - 1; });
}
Value RunDate(const CallFrame& call) {
  return TimeField(call, [](const CivilTime& civil) { return civil.day; });
}
Value RunDayOfWeek(const CallFrame& call) {
  return TimeField(call, [](const CivilTime& civil) { return civil.weekday; });
}

Value RunHours(const CallFrame& call) {
  return IsOne(call, Kind::kDuration)
             ? Int(call.args[0].integer / (3600 * kSecond))
             : TimeField(call, [](const CivilTime& civil) { return civil.hour; });
}
Value RunMinutes(const CallFrame& call) {
  return IsOne(call, Kind::kDuration)
             ? Int(call.args[0].integer / (60 * kSecond))
             : TimeField(call, [](const CivilTime& civil) { return civil.minute; });
}
Value RunSeconds(const CallFrame& call) {
  return IsOne(call, Kind::kDuration)
             ? Int(call.args[0].integer / kSecond)
             : TimeField(call, [](const CivilTime& civil) { return civil.second; });
}
Value RunMilliseconds(const CallFrame& call) {
  if (IsOne(call, Kind::kDuration)) {
    return Int(call.args[0].integer / 1'000'000);
  }
  const uint32_t nanos = call.args[0].kind == Kind::kTimestamp ? call.args[0].nanos : 0;
  return TimeField(call, [nanos](const CivilTime& /*civil*/) { return nanos / 1'000'000; });
}

}  // namespace tutti::api::cel
