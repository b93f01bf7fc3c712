// SPDX-License-Identifier: Apache-2.0
// The table of functions: declarations for the checker, implementations and cost rules for the
// evaluator. Overload ids are cel-go's, since cost rules depend on them.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "api/cel/types.h"
#include "api/cel/value.h"

namespace tutti::api::cel {

class Regex;
struct Function;

// How much a call costs besides its arguments. "Size" is ActualSize; 0.1 per rune of text
// traversed.
enum class CostRule : uint8_t {
  kOne,
  kTraverse,       // 0.1 × size of the first argument, rounded up
  kTraverseTwice,  // 0.2 ×
  kJoin,           // 0.2 × size of the result
  kScan,           // every leaf of the first argument
  kFind,           // (size + 1) × 0.1 times pattern × 0.25, each rounded up
  kContains,       // product of both sides × 0.1
  kAdd,            // both sides × 0.1
  kMinimum,        // the smaller side × 0.1
  kEquals,         // the same; 1 for the types of Kubernetes
  kInList,         // size of the list
  kContainsIp,
  kContainsIpText,
  kContainsCidr,
  kContainsCidrText,
  kValidate,
  kListOutput,      // size of the result + 11
  kFlatten,         // depth × size + 11
  kCompareAll,      // 2 × size² of the first argument + 11; 2.1 × for text
  kCompareAllKeys,  // the same of the second
  kSets,            // product of sizes + 1
  kSetsTwice,
  kAuthorization,  // 350,000
};

struct Overload {
  std::string_view id;
  const Function* function = nullptr;
  bool member = false;
  std::vector<const TypeNode*> args;  // the target first
  const TypeNode* result = nullptr;
  uint32_t variables = 0;  // type variables are numbered from 0
  CostRule cost = CostRule::kOne;
};

struct CallFrame {
  Context& context;
  const Value* args;
  size_t count;
  const Overload* overload;  // the one the checker found, if it is the only one
  const Regex* regex;        // of a constant pattern
};

// Arguments are never errors. Does not throw.
using Implementation = Value (*)(const CallFrame& call);

struct Function {
  std::string_view name;
  Implementation run = nullptr;
  bool has_cost = false;           // the rule below goes before those of the overloads
  CostRule cost = CostRule::kOne;  // also when the checker left several overloads
  // One implementation for all overloads, which is not asked whether it takes the arguments.
  bool singleton = false;
  std::deque<Overload> overloads;
};

// Null: no such function. The table is built once and never changes.
[[nodiscard]] const Function* FindFunction(std::string_view name);

// Absent: cel-go's rule panics on these arguments, which ends the evaluation.
[[nodiscard]] std::optional<uint64_t> CallCost(CostRule rule, const Value* args, size_t count,
                                               const Value& result, Context& context);

// Whether the overload takes the values, as cel-go asks before a call: by kind and name, of a list
// with elements also by the first one.
[[nodiscard]] bool Takes(const Overload& overload, const Value* args, size_t count);

// Implementations, by library.
Value RunNot(const CallFrame& call);
Value RunNegate(const CallFrame& call);
Value RunAdd(const CallFrame& call);
Value RunSubtract(const CallFrame& call);
Value RunMultiply(const CallFrame& call);
Value RunDivide(const CallFrame& call);
Value RunModulo(const CallFrame& call);
Value RunLess(const CallFrame& call);
Value RunLessEquals(const CallFrame& call);
Value RunGreater(const CallFrame& call);
Value RunGreaterEquals(const CallFrame& call);
Value RunIn(const CallFrame& call);
Value RunSize(const CallFrame& call);
Value RunNotStrictlyFalse(const CallFrame& call);
Value RunNever(const CallFrame& call);  // no value fits

Value RunToBool(const CallFrame& call);
Value RunToBytes(const CallFrame& call);
Value RunToDouble(const CallFrame& call);
Value RunToDuration(const CallFrame& call);
Value RunToDyn(const CallFrame& call);
Value RunToInt(const CallFrame& call);
Value RunToString(const CallFrame& call);
Value RunToTimestamp(const CallFrame& call);
Value RunToUint(const CallFrame& call);
Value RunTypeOf(const CallFrame& call);
// The text that string(value) gives; an error for values without one.
Value ToText(Context& context, const Value& value);

Value RunFullYear(const CallFrame& call);
Value RunMonth(const CallFrame& call);
Value RunDayOfYear(const CallFrame& call);
Value RunDayOfMonth(const CallFrame& call);
Value RunDate(const CallFrame& call);
Value RunDayOfWeek(const CallFrame& call);
Value RunHours(const CallFrame& call);
Value RunMinutes(const CallFrame& call);
Value RunSeconds(const CallFrame& call);
Value RunMilliseconds(const CallFrame& call);

Value RunContains(const CallFrame& call);
Value RunStartsWith(const CallFrame& call);
Value RunEndsWith(const CallFrame& call);
Value RunCharAt(const CallFrame& call);
Value RunIndexOf(const CallFrame& call);      // strings and lists
Value RunLastIndexOf(const CallFrame& call);  // strings and lists
Value RunLowerAscii(const CallFrame& call);
Value RunUpperAscii(const CallFrame& call);
Value RunReplace(const CallFrame& call);
Value RunSplit(const CallFrame& call);
Value RunSubstring(const CallFrame& call);
Value RunTrim(const CallFrame& call);
Value RunJoin(const CallFrame& call);
Value RunQuote(const CallFrame& call);
Value RunFormatString(const CallFrame& call);
Value ListIndexOf(const CallFrame& call, bool last);

Value RunMatches(const CallFrame& call);
Value RunFind(const CallFrame& call);
Value RunFindAll(const CallFrame& call);

Value RunIsSorted(const CallFrame& call);
Value RunSum(const CallFrame& call);
Value RunMax(const CallFrame& call);
Value RunMin(const CallFrame& call);
Value RunSlice(const CallFrame& call);
Value RunFlatten(const CallFrame& call);
Value RunSort(const CallFrame& call);
Value RunSortByKeys(const CallFrame& call);
Value RunRange(const CallFrame& call);
Value RunReverse(const CallFrame& call);
Value RunDistinct(const CallFrame& call);
Value RunSetsContains(const CallFrame& call);
Value RunSetsEquivalent(const CallFrame& call);
Value RunSetsIntersects(const CallFrame& call);
Value RunMapInsert(const CallFrame& call);
Value RunIncludes(const CallFrame& call);

Value RunOptionalOf(const CallFrame& call);
Value RunOptionalOfNonZero(const CallFrame& call);
Value RunOptionalNone(const CallFrame& call);
Value RunOptionalValue(const CallFrame& call);
Value RunHasValue(const CallFrame& call);
Value RunUnwrap(const CallFrame& call);
Value RunFirst(const CallFrame& call);
Value RunLast(const CallFrame& call);

Value RunQuantity(const CallFrame& call);
Value RunIsQuantity(const CallFrame& call);
Value RunSign(const CallFrame& call);
Value RunIsGreaterThan(const CallFrame& call);  // quantities and versions
Value RunIsLessThan(const CallFrame& call);
Value RunCompareTo(const CallFrame& call);
Value RunApproximateFloat(const CallFrame& call);
Value RunAsInteger(const CallFrame& call);
Value RunIsInteger(const CallFrame& call);
Value RunQuantityAdd(const CallFrame& call);
Value RunQuantitySub(const CallFrame& call);
Value RunSemver(const CallFrame& call);
Value RunIsSemver(const CallFrame& call);
Value RunMajor(const CallFrame& call);
Value RunMinor(const CallFrame& call);
Value RunPatch(const CallFrame& call);

Value RunIp(const CallFrame& call);
Value RunIsIp(const CallFrame& call);
Value RunIpIsCanonical(const CallFrame& call);
Value RunFamily(const CallFrame& call);
Value RunIsUnspecified(const CallFrame& call);
Value RunIsLoopback(const CallFrame& call);
Value RunIsLinkLocalMulticast(const CallFrame& call);
Value RunIsLinkLocalUnicast(const CallFrame& call);
Value RunIsGlobalUnicast(const CallFrame& call);
Value RunCidr(const CallFrame& call);
Value RunIsCidr(const CallFrame& call);
Value RunContainsIp(const CallFrame& call);
Value RunContainsCidr(const CallFrame& call);
Value RunPrefixLength(const CallFrame& call);
Value RunMasked(const CallFrame& call);
Value AddressText(Context& context, const Value& value);  // kIp, kCidr

Value RunUrl(const CallFrame& call);
Value RunIsUrl(const CallFrame& call);
Value RunScheme(const CallFrame& call);
Value RunHost(const CallFrame& call);
Value RunHostname(const CallFrame& call);
Value RunPort(const CallFrame& call);
Value RunEscapedPath(const CallFrame& call);
Value RunQuery(const CallFrame& call);
[[nodiscard]] bool IsRequestUri(std::string_view text);
[[nodiscard]] bool IsIpv6(std::string_view text);  // without a zone; IPv4-mapped ones, too

Value RunNamedFormat(const CallFrame& call);  // format.named(name)
Value RunFormat(const CallFrame& call);       // format.<name>(), by the overload
Value RunValidate(const CallFrame& call);

}  // namespace tutti::api::cel
