// SPDX-License-Identifier: Apache-2.0
// The kinds of volumes from any JSON: reading twice gives equal values.
#include "api/storage.h"
#include "fuzz/fuzz.h"

namespace api = tutti::api;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const tutti::Result<tutti::Json> parsed = tutti::Json::Parse(AsText(data, size));
  if (!parsed) {
    return 0;
  }
  if (const auto claim = api::PersistentVolumeClaimFromJson(*parsed)) {
    REQUIRE(claim->spec == api::PersistentVolumeClaimFromJson(*parsed)->spec);
    REQUIRE(!claim->Bound() || !claim->spec.volume_name.empty());
    REQUIRE(*api::VolumeClaimSpecFromJson(*parsed) == claim->spec);
  }
  if (const auto volume = api::PersistentVolumeFromJson(*parsed)) {
    const auto again = api::PersistentVolumeFromJson(*parsed);
    REQUIRE(volume->capacity == again->capacity && volume->claim == again->claim &&
            volume->affinity == again->affinity);
    REQUIRE(!volume->migrated || !volume->driver.empty());
  }
  if (const auto storage_class = api::StorageClassFromJson(*parsed)) {
    REQUIRE(storage_class->allowed == api::StorageClassFromJson(*parsed)->allowed);
    REQUIRE(!storage_class->Driver().empty() || storage_class->provisioner.empty());
  }
  (void)api::CsiNodeFromJson(*parsed);
  (void)api::CsiDriverFromJson(*parsed);
  (void)api::CsiStorageCapacityFromJson(*parsed);
  (void)api::VolumeAttachmentFromJson(*parsed);
  return 0;
}
