// SPDX-License-Identifier: Apache-2.0
// Pod templates inside of jobs: what the user gave, what a start adds, how that is taken off again.
// For every kind whose pods come from templates. Pure functions on parsed PodTemplateSpecs.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "reconciler/job_kind.h"

namespace tutti::reconciler {

// {} for what isn't JSON.
[[nodiscard]] Json ParseTemplate(const std::string& text);
// Members that are absent or empty mean the same to the API server.
[[nodiscard]] bool SameOrEmpty(const Json& a, const Json& b);

// As the user gave it: without the labels that the API server adds to a Job's template.
[[nodiscard]] Json SubmittedTemplate(const std::string& template_json);

// Whether a template still asks for the pods that a Workload recorded (containers and, unless the
// job may have been started, tolerations).
[[nodiscard]] bool SamePods(const Json& recorded, const Json& current, bool may_be_started);

// A merge patch of the template at `path` (for messages: "spec.template"): what a start adds. {} =
// nothing. kInvalid when the template, the flavor or a check has one of the keys with another value
// (a permanent error).
Result<Json> TemplateAdditions(const Json& recorded, const Json& current, const StartInfo& info,
                               std::string_view path);

// A merge patch back to what was recorded; {} = nothing differs. Looks only at what a start
// changes.
[[nodiscard]] Json TemplateRestore(const Json& recorded, const Json& current);

// A start left its labels in it.
[[nodiscard]] bool TemplateHasLeftovers(const Json& current);

}  // namespace tutti::reconciler
