// SPDX-License-Identifier: Apache-2.0
// batch/v1 Job: the fields that queueing needs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "api/core.h"
#include "api/meta.h"
#include "base/result.h"

namespace tutti::api {

struct Job {
  ObjectMeta meta;
  bool suspend = false;
  int32_t parallelism = 1;
  std::optional<int32_t> completions;
  bool indexed = false;
  std::string managed_by;
  std::string template_json;  // compact PodTemplateSpec, as submitted

  int32_t active = 0;
  int32_t ready = 0;
  int32_t succeeded = 0;
  int32_t failed = 0;
  int32_t terminating = 0;
  int32_t uncounted_succeeded = 0;
  // Counts of indexes that the completions still have.
  int32_t failed_indexes = 0;  // finally failed (backoffLimitPerIndex)
  int32_t completed_indexes = 0;
  std::optional<Time> start_time;
  Conditions conditions;

  // Pods that run at the same time: min(parallelism, completions).
  [[nodiscard]] int32_t PodCount() const;
  // Pods still to be started together: min(parallelism, completions - succeeded - finally failed).
  [[nodiscard]] int32_t GangSize() const;
  [[nodiscard]] bool Finished(bool* success = nullptr, std::string* message = nullptr) const;
};

Result<Job> JobFromJson(const Json& json);
// Number of indexes less than `below` in "1,3-5,7"; malformed parts count 0.
int32_t CountIndexes(std::string_view ranges, int32_t below);

}  // namespace tutti::api
