// SPDX-License-Identifier: Apache-2.0
#include "api/batch.h"

#include <algorithm>
#include <charconv>

#include "api/decode.h"

namespace tutti::api {
namespace {

int32_t SizeAsInt32(const Json& array) {
  return ClampToInt32(static_cast<int64_t>(array.AsArray().size()));
}

bool ReadIndex(std::string_view text, int64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && out >= 0;
}

}  // namespace

int32_t Job::PodCount() const {
  return completions ? std::min(parallelism, *completions) : parallelism;
}

int32_t Job::GangSize() const {
  if (!completions) {
    // A work queue starts no more pods once one of them succeeded.
    return succeeded + uncounted_succeeded > 0 ? std::min(active, parallelism) : parallelism;
  }
  // status.succeeded of an Indexed Job may still count indexes that its completions, made fewer, no
  // longer have.
  const int64_t done = indexed && completed_indexes > 0
                           ? completed_indexes
                           : static_cast<int64_t>(succeeded) + uncounted_succeeded;
  const int64_t left = static_cast<int64_t>(*completions) - done - failed_indexes;
  return ClampToInt32(std::clamp<int64_t>(left, 0, std::max(parallelism, 0)));
}

bool Job::Finished(bool* success, std::string* message) const {
  for (const Condition& condition : conditions) {
    if (condition.status == "True" &&
        (condition.type == "Complete" || condition.type == "Failed")) {
      if (success != nullptr) {
        *success = condition.type == "Complete";
      }
      if (message != nullptr) {
        *message = condition.message;
      }
      return true;
    }
  }
  return false;
}

Result<Job> JobFromJson(const Json& json) {
  Job out;
  TRY_ASSIGN(out.meta, ReadMeta(json, "Job"));
  const Json& spec = json["spec"];
  out.suspend = spec["suspend"].AsBool();
  out.completions = ReadOptionalInt32(spec["completions"]);
  if (!spec["parallelism"].IsNumber() && !out.completions) {
    out.completions = 1;  // both absent: a job of one pod
  }
  out.parallelism = std::max(ReadInt32(spec["parallelism"], 1), 0);
  if (out.completions) {
    out.completions = std::max(*out.completions, 0);
  }
  out.indexed = spec["completionMode"].AsString() == "Indexed";
  out.managed_by = spec["managedBy"].AsString();
  out.template_json = spec["template"].IsObject() ? spec["template"].Dump() : "{}";

  const Json& status = json["status"];
  const auto count = [&](std::string_view field) { return std::max(ReadInt32(status[field]), 0); };
  out.active = count("active");
  out.ready = count("ready");
  out.succeeded = count("succeeded");
  out.failed = count("failed");
  out.terminating = count("terminating");
  out.uncounted_succeeded = SizeAsInt32(status["uncountedTerminatedPods"]["succeeded"]);
  const int32_t indexes = out.completions.value_or(INT32_MAX);
  out.failed_indexes = CountIndexes(status["failedIndexes"].AsString(), indexes);
  out.completed_indexes = CountIndexes(status["completedIndexes"].AsString(), indexes);
  out.start_time = ReadOptionalTime(status["startTime"]);
  out.conditions = ConditionsFromJson(status["conditions"]);
  return out;
}

int32_t CountIndexes(std::string_view ranges, int32_t below) {
  int64_t count = 0;
  while (!ranges.empty()) {
    const size_t comma = ranges.find(',');
    const std::string_view part = ranges.substr(0, comma);
    ranges = comma == std::string_view::npos ? std::string_view() : ranges.substr(comma + 1);
    const size_t dash = part.find('-');
    int64_t first = 0;
    if (!ReadIndex(part.substr(0, dash), first)) {
      continue;
    }
    int64_t last = first;
    if (dash != std::string_view::npos && !ReadIndex(part.substr(dash + 1), last)) {
      continue;
    }
    last = std::min<int64_t>(last, static_cast<int64_t>(below) - 1);
    if (last >= first) {
      count = std::min<int64_t>(count + std::min<int64_t>(last - first, INT32_MAX) + 1, INT32_MAX);
    }
  }
  return static_cast<int32_t>(count);
}

}  // namespace tutti::api
