// SPDX-License-Identifier: Apache-2.0
// Rules for JobSet: those of every job that is held by spec.suspend, and what the annotations of
// its pod templates may ask of topology-aware scheduling.
#include <algorithm>
#include <cstdint>
#include <string>

#include "base/names.h"
#include "operator/syntax.h"
#include "operator/webhooks.h"
#include "operator/webhooks_common.h"

namespace tutti::webhooks {
namespace {

constexpr std::string_view kRequired = "kueue.x-k8s.io/podset-required-topology";
constexpr std::string_view kPreferred = "kueue.x-k8s.io/podset-preferred-topology";
constexpr std::string_view kUnconstrained = "kueue.x-k8s.io/podset-unconstrained-topology";
constexpr std::string_view kGroup = "kueue.x-k8s.io/podset-group-name";
constexpr std::string_view kSliceRequired = "kueue.x-k8s.io/podset-slice-required-topology";
constexpr std::string_view kSliceSize = "kueue.x-k8s.io/podset-slice-size";

// `path`: of the annotations; `pods`: how many the pod set has.
void CheckTopology(const Json& annotations, const std::string& path, int64_t pods,
                   std::vector<std::string>& problems) {
  const auto has = [&](std::string_view key) { return annotations.Has(key); };
  const auto say = [&](std::string_view key, const std::string& what) {
    problems.push_back(path + "[" + std::string(key) + "]: " + what);
  };
  if (static_cast<int>(has(kRequired)) + static_cast<int>(has(kPreferred)) +
          static_cast<int>(has(kUnconstrained)) >
      1) {
    problems.push_back(path + ": must not contain more than one topology annotation: [\"" +
                       std::string(kRequired) + "\", \"" + std::string(kPreferred) + "\", \"" +
                       std::string(kUnconstrained) + "\"]");
  }
  for (const std::string_view key : {kRequired, kPreferred, kSliceRequired}) {
    if (has(key) && !syntax::CheckQualifiedName(annotations[key].AsString()).empty()) {
      say(key, "not the name of a node label: " +
                   syntax::CheckQualifiedName(annotations[key].AsString()));
    }
  }
  if (const std::string& value = annotations[kUnconstrained].AsString();
      has(kUnconstrained) && value != "true" && value != "false") {
    say(kUnconstrained, "must be \"true\" or \"false\"");
  }
  if (has(kGroup)) {
    const std::string& name = annotations[kGroup].AsString();
    if (Positive(name) || name == "0") {
      say(kGroup, "must not be a number");
    }
    for (const std::string_view other : {kSliceSize, kSliceRequired}) {
      if (has(other)) {
        say(kGroup, "may not be set when '" + std::string(other) + "' is specified");
      }
    }
    if (!has(kRequired) && !has(kPreferred)) {
      say(kGroup, "may not be set when neither '" + std::string(kPreferred) + "' nor '" +
                      std::string(kRequired) + "' is specified");
    }
  }
  if (has(kSliceRequired) && !has(kSliceSize)) {
    say(kSliceSize, "must be set when '" + std::string(kSliceRequired) + "' is specified");
  }
  if (!has(kSliceSize)) {
    return;
  }
  if (!has(kSliceRequired)) {
    say(kSliceSize, "may not be set when '" + std::string(kSliceRequired) + "' is not specified");
  }
  const std::string& text = annotations[kSliceSize].AsString();
  const auto size = Positive(text);
  if (!size) {
    say(kSliceSize, "Invalid value: \"" + text + "\": must be a number greater than 0");
  } else if (*size > pods) {
    say(kSliceSize, "Invalid value: \"" + text + "\": must not be greater than pod set count " +
                        std::to_string(pods));
  }
}

}  // namespace

Verdict ValidateJobSet(const Request& request, const Rules& rules) {
  Verdict verdict = ValidateSuspendedKind(request, rules);
  if (!IsRoot(*request.object)) {
    return verdict;
  }
  int64_t index = 0;
  for (const Json& job : (*request.object)["spec"]["replicatedJobs"].AsArray()) {
    const Json& spec = job["template"]["spec"];
    const int64_t parallelism = spec["parallelism"].AsInt(1);
    const int64_t each = std::min(parallelism, spec["completions"].AsInt(parallelism));
    CheckTopology(spec["template"]["metadata"]["annotations"],
                  "spec.replicatedJobs[" + std::to_string(index++) +
                      "].template.spec.template.metadata.annotations",
                  job["replicas"].AsInt(1) * each, verdict.problems);
  }
  return verdict;
}

}  // namespace tutti::webhooks
