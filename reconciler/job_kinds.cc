// SPDX-License-Identifier: Apache-2.0
#include "reconciler/job_kinds.h"

#include <algorithm>

#include "reconciler/batch_job.h"
#include "reconciler/jobset_kind.h"
#include "reconciler/pod_kind.h"
#include "reconciler/statefulset_kind.h"

namespace tutti::reconciler {

const std::vector<const JobKind*>& AllJobKinds() {
  static const std::vector<const JobKind*> kKinds = {&StatefulSetKind(), &PodKind(), &JobSetKind(),
                                                     &BatchJobKind()};
  return kKinds;
}

const std::vector<std::string_view>& BuiltFrameworks() {
  static const std::vector<std::string_view> kFrameworks = [] {
    std::vector<std::string_view> names;
    for (const JobKind* kind : AllJobKinds()) {
      names.push_back(kind->Framework());
    }
    names.emplace_back("deployment");
    return names;
  }();
  return kFrameworks;
}

std::vector<const JobKind*> KindsFor(const std::vector<std::string>& frameworks) {
  const auto has = [&](std::string_view name) {
    return std::find(frameworks.begin(), frameworks.end(), name) != frameworks.end();
  };
  std::vector<const JobKind*> kinds;
  for (const JobKind* kind : AllJobKinds()) {
    if (has(kind->Framework())) {
      kinds.push_back(kind);
    } else if (kind == &PodKind() && has("deployment")) {
      kinds.push_back(&PodKindOfParents());
    }
  }
  return kinds;
}

}  // namespace tutti::reconciler
