// SPDX-License-Identifier: Apache-2.0
// Quantities and versions of the API server's libraries.
#include <string>
#include <utility>

#include "api/cel/functions.h"
#include "api/cel/semver.h"

namespace tutti::api::cel {
namespace {

bool Is(const CallFrame& call, size_t i, Kind kind) {
  return call.count > i && call.args[i].kind == kind;
}

// Compares two quantities or two versions.
bool Order(const CallFrame& call, int& order) {
  if (call.count != 2 || call.args[0].kind != call.args[1].kind) {
    return false;
  }
  if (call.args[0].kind == Kind::kQuantity) {
    const auto compared = *call.args[0].quantity <=> *call.args[1].quantity;
    order = compared < 0 ? -1 : (compared > 0 ? 1 : 0);
    return true;
  }
  if (call.args[0].kind == Kind::kSemver) {
    order = CompareSemver(*call.args[0].semver, *call.args[1].semver);
    return true;
  }
  return false;
}

Value Sum(const CallFrame& call, bool negative) {
  if (!Is(call, 0, Kind::kQuantity)) {
    return NoSuchOverload();
  }
  Quantity other;
  if (Is(call, 1, Kind::kQuantity)) {
    other = *call.args[1].quantity;
  } else if (Is(call, 1, Kind::kInt)) {
    other = Quantity::FromInt(call.args[1].integer);
  } else {
    return NoSuchOverload();
  }
  const Quantity& one = *call.args[0].quantity;
  Quantity sum = negative ? one - other : one + other;
  return QuantityValue(call.context.Keep(std::move(sum)), /*computed=*/true);
}

// semver(text [, normalize])
bool ReadSemver(const CallFrame& call, std::string& storage, SemverObject& out, bool& types_fit) {
  types_fit = Is(call, 0, Kind::kString) && (call.count == 1 || Is(call, 1, Kind::kBool));
  if (!types_fit) {
    return false;
  }
  storage = call.args[0].Text();
  if (call.count == 2 && call.args[1].boolean && !NormalizeSemver(call.args[0].Text(), storage)) {
    return false;
  }
  return ParseSemver(storage, out);
}

template <typename Get>
Value SemverPart(const CallFrame& call, Get get) {
  return Is(call, 0, Kind::kSemver) ? Int(static_cast<int64_t>(get(*call.args[0].semver)))
                                    : NoSuchOverload();
}

}  // namespace

Value RunQuantity(const CallFrame& call) {
  if (!Is(call, 0, Kind::kString)) {
    return NoSuchOverload();
  }
  Result<Quantity> parsed = Quantity::Parse(call.args[0].Text());
  if (!parsed) {
    return call.context.Error(parsed.error().message);
  }
  return QuantityValue(call.context.Keep(std::move(*parsed)), /*computed=*/false);
}

Value RunIsQuantity(const CallFrame& call) {
  return Is(call, 0, Kind::kString) ? Bool(Quantity::Parse(call.args[0].Text()).has_value())
                                    : NoSuchOverload();
}

Value RunSign(const CallFrame& call) {
  return Is(call, 0, Kind::kQuantity) ? Int(call.args[0].quantity->Sign()) : NoSuchOverload();
}

Value RunIsGreaterThan(const CallFrame& call) {
  int order = 0;
  return Order(call, order) ? Bool(order > 0) : NoSuchOverload();
}

Value RunIsLessThan(const CallFrame& call) {
  int order = 0;
  return Order(call, order) ? Bool(order < 0) : NoSuchOverload();
}

Value RunCompareTo(const CallFrame& call) {
  int order = 0;
  return Order(call, order) ? Int(order) : NoSuchOverload();
}

Value RunApproximateFloat(const CallFrame& call) {
  return Is(call, 0, Kind::kQuantity) ? Double(call.args[0].quantity->ApproximateDouble())
                                      : NoSuchOverload();
}

Value RunAsInteger(const CallFrame& call) {
  if (!Is(call, 0, Kind::kQuantity)) {
    return NoSuchOverload();
  }
  const auto value = call.args[0].quantity->AsInt64();
  return value ? Int(*value) : call.context.Error("cannot convert value to integer");
}

Value RunIsInteger(const CallFrame& call) {
  return Is(call, 0, Kind::kQuantity) ? Bool(call.args[0].quantity->AsInt64().has_value())
                                      : NoSuchOverload();
}

Value RunQuantityAdd(const CallFrame& call) {
  return Sum(call, /*negative=*/false);
}

Value RunQuantitySub(const CallFrame& call) {
  return Sum(call, /*negative=*/true);
}

Value RunSemver(const CallFrame& call) {
  std::string storage;
  SemverObject parsed;
  bool types_fit = false;
  if (!ReadSemver(call, storage, parsed, types_fit)) {
    return types_fit ? call.context.Error("not a semantic version") : NoSuchOverload();
  }
  auto* semver = call.context.New<SemverObject>();
  *semver = parsed;
  const Value prerelease = call.context.Text(parsed.prerelease);
  if (prerelease.IsError()) {
    return prerelease;
  }
  semver->prerelease = prerelease.Text();
  return SemverValue(semver);
}

Value RunIsSemver(const CallFrame& call) {
  std::string storage;
  SemverObject parsed;
  bool types_fit = false;
  const bool valid = ReadSemver(call, storage, parsed, types_fit);
  return types_fit ? Bool(valid) : NoSuchOverload();
}

Value RunMajor(const CallFrame& call) {
  return SemverPart(call, [](const SemverObject& semver) { return semver.major; });
}
Value RunMinor(const CallFrame& call) {
  return SemverPart(call, [](const SemverObject& semver) { return semver.minor; });
}
Value RunPatch(const CallFrame& call) {
  return SemverPart(call, [](const SemverObject& semver) { return semver.patch; });
}

}  // namespace tutti::api::cel
