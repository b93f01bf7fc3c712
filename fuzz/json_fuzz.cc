// SPDX-License-Identifier: Apache-2.0
// What was read and written again is the same value; a merge patch made from two values leads from
// the one to the other.
#include "base/json.h"
#include "fuzz/fuzz.h"

using tutti::Json;

namespace {

bool HasNull(const Json& json) {
  if (json.IsNull()) {
    return true;
  }
  for (const auto& [key, value] : json.AsObject()) {
    if (HasNull(value)) {
      return true;
    }
  }
  return false;  // inside arrays a null is an ordinary value
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const tutti::Result<Json> json = Json::Parse(AsText(data, size));
  if (!json) {
    REQUIRE(json.error().code == tutti::ErrorCode::kDecode);
    return 0;
  }
  const std::string text = json->Dump();
  const tutti::Result<Json> again = Json::Parse(text);
  REQUIRE(again.has_value());
  REQUIRE(*again == *json);
  REQUIRE(again->Dump() == text);
  const tutti::Result<Json> sorted = Json::Parse(json->DumpSorted());
  REQUIRE(sorted.has_value());
  REQUIRE(*sorted == *json);
  REQUIRE(sorted->DumpSorted() == json->DumpSorted());
  if (json->AsArray().size() == 2) {
    const Json& from = json->AsArray()[0];
    const Json& to = json->AsArray()[1];
    if (from.IsObject() && to.IsObject() && !HasNull(from) && !HasNull(to)) {
      Json target = from;
      tutti::ApplyMergePatch(target, tutti::DiffMergePatch(from, to));
      REQUIRE(target == to);
    }
  }
  return 0;
}
