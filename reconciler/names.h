// SPDX-License-Identifier: Apache-2.0
// Names that Tutti gives to objects. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tutti::reconciler {

// Kueue's name of a job's Workload: "<kind>-<owner>-<5 hex>", 253 characters at most; the hash is
// over kind, group, owner name and owner UID, and `extra` if there is one (of a workload slice: the
// job's generation).
[[nodiscard]] std::string WorkloadName(std::string_view kind, std::string_view group,
                                       std::string_view owner_name, std::string_view owner_uid,
                                       std::string_view extra = "");

// The first `digits` hex digits of the text's SHA-256.
[[nodiscard]] std::string ShortSha256(const std::string& text, size_t digits);

// The PodGroup of one admission: "<job>-<8 of the workload's UID>-<number>", at most 63 characters,
// valid as an object name and as a label value. `number` counts the admissions, so a name is never
// used twice.
[[nodiscard]] std::string GroupName(std::string_view job_name, std::string_view workload_uid,
                                    int number);

// Kueue's names of the ProvisioningRequest of one attempt, "<workload>-<check>-<attempt>", and of
// the PodTemplate of one of its pod sets; a name of more than 247 characters is cut and ends in a
// hash.
[[nodiscard]] std::string ProvisioningRequestName(std::string_view workload, std::string_view check,
                                                  int32_t attempt);
[[nodiscard]] std::string ProvisioningTemplateName(std::string_view request,
                                                   std::string_view pod_set);
// Which attempt of the workload for the check has the request of that name; nullopt = none.
[[nodiscard]] std::optional<int32_t> ProvisioningAttempt(std::string_view request,
                                                         std::string_view workload,
                                                         std::string_view check);

}  // namespace tutti::reconciler
