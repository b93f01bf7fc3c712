// SPDX-License-Identifier: Apache-2.0
// Cost of calls: the estimator of the API server's libraries, then those of cel-go's list and set
// extensions, then cel-go's defaults.
#include <cmath>

#include "api/cel/functions.h"

namespace tutti::api::cel {
namespace {

constexpr double kPerRune = 0.1;
constexpr double kPerPatternRune = 0.25;
constexpr uint64_t kNewList = 11;  // the call and the list

uint64_t Up(double value) {
  return static_cast<uint64_t>(std::ceil(value));
}

// Below zero it wraps, as in Go.
uint64_t Down(double value) {
  return value >= 1e18    ? uint64_t{1} << 60U
         : value <= -1e18 ? uint64_t{1} << 63U
                          : static_cast<uint64_t>(static_cast<int64_t>(value));
}

// Sizes in cel-go's own rules look into optional values.
uint64_t SizeWithin(const Value& value) {
  return value.kind == Kind::kOptional && value.optional != nullptr ? SizeWithin(*value.optional)
                                                                    : ActualSize(value);
}

uint64_t Leaves(const Value& value, Context& context) {
  switch (value.kind) {
    case Kind::kString:
    case Kind::kBytes:
      return static_cast<uint64_t>(static_cast<double>(value.size) * kPerRune);
    case Kind::kList: {
      uint64_t sum = 0;
      for (size_t i = 0; i < ListSize(value) && context.Work(1); ++i) {
        sum += Leaves(ListGet(*value.list, i), context);
      }
      return sum;
    }
    case Kind::kMap: {
      uint64_t sum = 0;
      for (const auto& [key, item] : MapEntries(context, value)) {
        if (!context.Work(1)) {
          break;
        }
        sum += Leaves(key, context) + Leaves(item, context);
      }
      return sum;
    }
    default:
      return 1;
  }
}

std::optional<uint64_t> SelfComparison(const Value& list) {
  if (list.kind != Kind::kList) {
    return std::nullopt;
  }
  const auto size = static_cast<double>(ListSize(list));
  double factor = 2;
  if (size > 0) {
    const Kind first = ListGet(*list.list, 0).kind;
    factor += first == Kind::kString || first == Kind::kBytes ? kPerRune : 0;
  }
  return Down(size * size * factor) + kNewList;
}

// A format's own size of its regular expression stands for the pattern.
uint64_t Validation(const Value* args) {
  if (args[0].kind != Kind::kFormat) {
    return 1;
  }
  return Up((1.0 + static_cast<double>(ActualSize(args[1]))) * kPerRune) *
         Up(static_cast<double>(args[0].format->regex_size) * kPerPatternRune);
}

bool IsKubernetes(Kind kind) {
  return kind == Kind::kQuantity || kind == Kind::kSemver || kind == Kind::kUrl ||
         kind == Kind::kIp || kind == Kind::kCidr || kind == Kind::kFormat;
}

}  // namespace

std::optional<uint64_t> CallCost(CostRule rule, const Value* args, size_t count,
                                 const Value& result, Context& context) {
  const auto size = [&](size_t i) {
    return i < count ? static_cast<double>(SizeWithin(args[i])) : 1.0;
  };
  switch (rule) {
    case CostRule::kOne:
      return 1;
    case CostRule::kTraverse:
      return Up(size(0) * kPerRune);
    case CostRule::kTraverseTwice:
      return Up(size(0) * 2 * kPerRune);
    case CostRule::kJoin:
      return Up(static_cast<double>(ActualSize(result)) * 2 * kPerRune);
    case CostRule::kScan:
      return Leaves(args[0], context);
    case CostRule::kFind:
      return Up((1.0 + size(0)) * kPerRune) * Up(size(1) * kPerPatternRune);
    case CostRule::kContains:
      return Up(size(0) * kPerRune) * Up(size(1) * kPerRune);
    case CostRule::kAdd:
      return Up((size(0) + size(1)) * kPerRune);
    case CostRule::kEquals:
      if (IsKubernetes(args[0].kind)) {
        return 1;
      }
      [[fallthrough]];
    case CostRule::kMinimum:
      return Up(std::min(size(0), size(1)) * kPerRune);
    case CostRule::kInList:
      return SizeWithin(args[1]);
    case CostRule::kContainsIp:
      return Up(2 * size(0) * kPerRune);
    case CostRule::kContainsIpText:
      return Up(2 * size(0) * kPerRune) + Up(size(1) * kPerRune);
    case CostRule::kContainsCidr:
      return Up(2 * size(0) * kPerRune) + Up(size(0) * kPerRune) + 1;
    case CostRule::kContainsCidrText:
      return Up(2 * size(0) * kPerRune) + Up(size(0) * kPerRune) + 1 + Up(size(1) * kPerRune);
    case CostRule::kValidate:
      return Validation(args);
    case CostRule::kListOutput:
      return ActualSize(result) + kNewList;
    case CostRule::kFlatten: {
      if (count == 2 && args[1].kind != Kind::kInt) {
        return std::nullopt;
      }
      const double depth = count == 2 ? static_cast<double>(args[1].integer) : 1.0;
      return Down(depth * size(0)) + kNewList;
    }
    case CostRule::kCompareAll:
      return SelfComparison(args[0]);
    case CostRule::kCompareAllKeys:
      return SelfComparison(args[1]);
    case CostRule::kSets:
      return 1 + Down(size(0) * size(1));
    case CostRule::kSetsTwice:
      return 1 + Down(2 * size(0) * size(1));
    case CostRule::kAuthorization:
      return 350'000;
  }
  return 1;
}

}  // namespace tutti::api::cel
