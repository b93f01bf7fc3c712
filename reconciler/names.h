// SPDX-License-Identifier: Apache-2.0
// Names that Tutti gives to objects. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace tutti::reconciler {

// Kueue's name of a job's Workload: "<kind>-<owner>-<5 hex>", 253 characters at most; the hash is
// over kind, group, owner name and owner UID.
[[nodiscard]] std::string WorkloadName(std::string_view kind, std::string_view group,
                                       std::string_view owner_name, std::string_view owner_uid);

// The PodGroup of one admission: "<job>-<8 of the workload's UID>-<number>", at most 63 characters,
// valid as an object name and as a label value. `number` counts the admissions, so a name is never
// used twice.
[[nodiscard]] std::string GroupName(std::string_view job_name, std::string_view workload_uid,
                                    int number);

}  // namespace tutti::reconciler
