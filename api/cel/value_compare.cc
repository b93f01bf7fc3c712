// SPDX-License-Identifier: Apache-2.0
// Equality and order.
#include <cmath>
#include <cstring>
#include <utility>

#include "api/cel/semver.h"
#include "api/cel/value.h"

namespace tutti::api::cel {
namespace {

int CompareDouble(double a, double b) {
  return a < b ? -1 : (a > b ? 1 : 0);
}

int CompareIntDouble(int64_t i, double d) {
  if (d < -9223372036854775808.0) {
    return 1;
  }
  if (d > 9223372036854775807.0) {
    return -1;
  }
  return CompareDouble(static_cast<double>(i), d);
}

int CompareUintDouble(uint64_t u, double d) {
  if (d < 0) {
    return 1;
  }
  if (d > 18446744073709551615.0) {
    return -1;
  }
  return CompareDouble(static_cast<double>(u), d);
}

int CompareIntUint(int64_t i, uint64_t u) {
  if (i < 0 || u > INT64_MAX) {
    return -1;
  }
  const auto other = static_cast<int64_t>(u);
  return i < other ? -1 : (i > other ? 1 : 0);
}

bool IsNumber(Kind kind) {
  return kind == Kind::kInt || kind == Kind::kUint || kind == Kind::kDouble;
}

// Neither is NaN.
int CompareNumbers(const Value& a, const Value& b) {
  switch (a.kind) {
    case Kind::kInt:
      if (b.kind == Kind::kInt) {
        return a.integer < b.integer ? -1 : (a.integer > b.integer ? 1 : 0);
      }
      return b.kind == Kind::kUint ? CompareIntUint(a.integer, b.unsigned_integer)
                                   : CompareIntDouble(a.integer, b.number);
    case Kind::kUint:
      if (b.kind == Kind::kUint) {
        return a.unsigned_integer < b.unsigned_integer
                   ? -1
                   : (a.unsigned_integer > b.unsigned_integer ? 1 : 0);
      }
      return b.kind == Kind::kInt ? -CompareIntUint(b.integer, a.unsigned_integer)
                                  : CompareUintDouble(a.unsigned_integer, b.number);
    default:
      if (b.kind == Kind::kDouble) {
        return CompareDouble(a.number, b.number);
      }
      return b.kind == Kind::kInt ? -CompareIntDouble(b.integer, a.number)
                                  : -CompareUintDouble(b.unsigned_integer, a.number);
  }
}

bool IsNan(const Value& value) {
  return value.kind == Kind::kDouble && std::isnan(value.number);
}

Value EqualLists(Context& context, const Value& a, const Value& b) {
  if (b.kind != Kind::kList) {
    return Bool(false);
  }
  const size_t size = ListSize(a);
  if (size != ListSize(b)) {
    return Bool(false);
  }
  Value error;
  bool failed = false;
  for (size_t i = 0; i < size; ++i) {
    if (!context.Work(1)) {
      return TooLarge();
    }
    const Value equal = Equal(context, ListGet(*a.list, i), ListGet(*b.list, i));
    if (equal.IsFatal() || equal.IsFalse()) {
      return equal;
    }
    if (equal.IsError() && !failed) {
      failed = true;
      error = equal;
    }
  }
  // cel-go forgets errors of the elements, except in lists that were added up.
  return failed && a.list->form == ListObject::Form::kConcat ? error : Bool(true);
}

Value EqualMaps(Context& context, const Value& a, const Value& b) {
  if (b.kind != Kind::kMap || MapSize(a) != MapSize(b)) {
    return Bool(false);
  }
  for (const auto& [key, value] : MapEntries(context, a)) {
    if (!context.Work(1)) {
      return TooLarge();
    }
    bool found = false;
    const Value other = MapFind(context, b, key, found);
    if (other.IsFatal()) {
      return other;
    }
    if (!found) {
      return Bool(false);
    }
    const Value equal = Equal(context, value, other);
    if (equal.IsFatal() || equal.IsFalse()) {
      return equal;
    }
  }
  return Bool(true);
}

}  // namespace

Value EqualMethod(Context& context, const Value& a, const Value& b) {
  if (IsNumber(a.kind)) {
    return Bool(IsNumber(b.kind) && !IsNan(a) && !IsNan(b) && CompareNumbers(a, b) == 0);
  }
  switch (a.kind) {
    case Kind::kNull:
      return Bool(b.kind == Kind::kNull);
    case Kind::kBool:
      return Bool(b.kind == Kind::kBool && a.boolean == b.boolean);
    case Kind::kString:
    case Kind::kBytes:
    case Kind::kType:
      if (!context.Work(a.size / 16)) {
        return TooLarge();
      }
      return Bool(b.kind == a.kind && a.Text() == b.Text());
    case Kind::kTimestamp:
      return Bool(b.kind == a.kind && a.integer == b.integer && a.nanos == b.nanos);
    case Kind::kDuration:
      return Bool(b.kind == a.kind && a.integer == b.integer);
    case Kind::kList:
      return EqualLists(context, a, b);
    case Kind::kMap:
      return EqualMaps(context, a, b);
    case Kind::kOptional:
      if (b.kind != Kind::kOptional) {
        return Bool(false);
      }
      if (a.optional == nullptr || b.optional == nullptr) {
        return Bool(a.optional == b.optional);
      }
      if (a.optional->IsError()) {
        return *a.optional;
      }
      return EqualMethod(context, *a.optional, *b.optional);
    case Kind::kQuantity:
      // The result of add() and sub() isn't the type that Equal looks for on its right side.
      if (b.kind != Kind::kQuantity || b.form != 0) {
        return NoSuchOverload();
      }
      return Bool(*a.quantity == *b.quantity);
    case Kind::kSemver:
      if (b.kind != a.kind) {
        return NoSuchOverload();
      }
      return Bool(CompareSemver(*a.semver, *b.semver) == 0);
    case Kind::kUrl:
      if (b.kind != a.kind) {
        return NoSuchOverload();
      }
      return Bool(a.url->text == b.url->text);
    case Kind::kIp:
      if (b.kind != a.kind) {
        return NoSuchOverload();
      }
      return Bool(a.ip->width == b.ip->width && std::memcmp(a.ip->bytes, b.ip->bytes, 16) == 0);
    case Kind::kCidr:
      if (b.kind != a.kind) {
        return NoSuchOverload();
      }
      return Bool(a.cidr->bits == b.cidr->bits && a.cidr->address.width == b.cidr->address.width &&
                  std::memcmp(a.cidr->address.bytes, b.cidr->address.bytes, 16) == 0);
    case Kind::kFormat:
      if (b.kind != a.kind) {
        return NoSuchOverload();
      }
      return Bool(a.format->printed == b.format->printed);
    default:
      return a;  // kError
  }
}

Value Equal(Context& context, const Value& a, const Value& b) {
  if (a.kind == Kind::kNull || b.kind == Kind::kNull) {
    return Bool(a.kind == b.kind);
  }
  return EqualMethod(context, a, b);
}

bool IsComparable(Kind kind) {
  return IsNumber(kind) || kind == Kind::kBool || kind == Kind::kString || kind == Kind::kBytes ||
         kind == Kind::kTimestamp || kind == Kind::kDuration;
}

Value Compare(const Value& a, const Value& b) {
  if (IsNumber(a.kind)) {
    if (IsNan(a) || IsNan(b)) {
      return Fail(Failure::kNanOrder);
    }
    return IsNumber(b.kind) ? Int(CompareNumbers(a, b)) : NoSuchOverload();
  }
  if (a.kind != b.kind) {
    return NoSuchOverload();
  }
  switch (a.kind) {
    case Kind::kBool:
      return Int(static_cast<int>(a.boolean) - static_cast<int>(b.boolean));
    case Kind::kString:
    case Kind::kBytes: {
      const int order = a.Text().compare(b.Text());
      return Int(order < 0 ? -1 : (order > 0 ? 1 : 0));
    }
    case Kind::kDuration:
      return Int(a.integer < b.integer ? -1 : (a.integer > b.integer ? 1 : 0));
    case Kind::kTimestamp: {
      const auto left = std::pair(a.integer, a.nanos);
      const auto right = std::pair(b.integer, b.nanos);
      return Int(left < right ? -1 : (left > right ? 1 : 0));
    }
    default:
      return NoSuchOverload();
  }
}

}  // namespace tutti::api::cel
