// SPDX-License-Identifier: Apache-2.0
// The kinds of resource.k8s.io from any JSON: reading twice gives equal values, and an attribute
// that was read is found under its full name.
#include "api/dra.h"
#include "fuzz/fuzz.h"

namespace api = tutti::api;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const tutti::Result<tutti::Json> parsed = tutti::Json::Parse(AsText(data, size));
  if (!parsed) {
    return 0;
  }
  if (const auto slice = api::ResourceSliceFromJson(*parsed)) {
    REQUIRE(api::SameSpec(*slice, *api::ResourceSliceFromJson(*parsed)));
    for (const api::Device& device : slice->devices) {
      REQUIRE(device == device);
      for (const auto& [domain, ids] : device.facts.attributes) {
        for (const auto& [id, value] : ids) {
          if (domain.find('/') == std::string::npos) {
            REQUIRE(api::FindAttribute(device, domain + "/" + id) == &value);
          }
          REQUIRE(api::SameAttribute(value, value) != api::IsListAttribute(value));
        }
      }
    }
  }
  if (const auto claim = api::ResourceClaimFromJson(*parsed)) {
    const auto again = api::ResourceClaimFromJson(*parsed);
    REQUIRE(again->spec == claim->spec && again->allocation == claim->allocation);
  }
  (void)api::DeviceClassFromJson(*parsed);
  (void)api::ResourceClaimTemplateFromJson(*parsed);
  return 0;
}
