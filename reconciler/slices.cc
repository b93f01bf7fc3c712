// SPDX-License-Identifier: Apache-2.0
#include "reconciler/slices.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/names.h"
#include "base/slice_names.h"
#include "reconciler/pod_template.h"
#include "reconciler/workload_writes.h"

namespace tutti::reconciler {

bool IsSlice(const api::Workload& workload) {
  return workload.meta.Annotation(names::kElasticJobAnnotation) == "true";
}

std::string SliceName(const api::Workload& workload) {
  const std::string_view name = workload.meta.Annotation(names::kSliceNameAnnotation);
  return name.empty() ? workload.meta.name : std::string(name);
}

std::optional<api::ObjectKey> ReplacedKey(const api::Workload& workload) {
  const std::string_view key = workload.meta.Annotation(names::kSliceReplacementAnnotation);
  const size_t slash = key.find('/');
  if (slash == std::string_view::npos || key.substr(0, slash) != workload.meta.ns) {
    return std::nullopt;
  }
  return api::ObjectKey{workload.meta.ns, std::string(key.substr(slash + 1))};
}

Slices ChooseSlices(std::vector<const api::Workload*> live) {
  Slices out;
  const auto find = [&](const std::optional<api::ObjectKey>& key) -> const api::Workload* {
    const auto found = std::find_if(live.begin(), live.end(), [&](const api::Workload* workload) {
      return key.has_value() && workload->meta.Key() == *key;
    });
    return found != live.end() ? *found : nullptr;
  };
  // Creation is known to the second only: within one, who replaces another is the later one.
  std::map<const api::Workload*, size_t> depth;
  for (const api::Workload* workload : live) {
    size_t& links = depth[workload];
    for (const api::Workload* at = find(ReplacedKey(*workload)); at != nullptr;
         at = find(ReplacedKey(*at))) {
      if (++links > live.size()) {
        break;  // a circle
      }
    }
  }
  std::sort(live.begin(), live.end(), [&](const api::Workload* a, const api::Workload* b) {
    return std::tie(a->meta.created, depth[a], a->meta.uid) <
           std::tie(b->meta.created, depth[b], b->meta.uid);
  });
  const auto keeps = [](const api::Workload* workload) {
    return workload->QuotaReserved() && !workload->Evicted();
  };
  const auto replaced = [&](const api::Workload* workload) {
    return std::any_of(live.begin(), live.end(), [&](const api::Workload* other) {
      return other != workload && keeps(other) && ReplacedKey(*other) == workload->meta.Key();
    });
  };
  const auto last = [&](auto&& suits) {
    const auto found = std::find_if(live.rbegin(), live.rend(), suits);
    return found != live.rend() ? *found : nullptr;
  };
  out.head = last([&](const auto* workload) { return keeps(workload) && !replaced(workload); });
  if (out.head == nullptr) {
    out.head = last([](const auto* workload) { return workload->QuotaReserved(); });
  }
  if (out.head == nullptr) {
    out.head = last([](const auto* workload) { return !workload->Evicted(); });
  }
  if (out.head == nullptr) {
    out.head = last([](const auto*) { return true; });
  }
  if (out.head != nullptr && out.head->QuotaReserved()) {
    out.next = last([&](const auto* workload) {
      return workload != out.head && ReplacedKey(*workload) == out.head->meta.Key();
    });
  }
  return out;
}

void MakeSlice(api::Workload& fresh, const api::Workload* replaced) {
  auto& annotations = fresh.meta.annotations;
  annotations[std::string(names::kElasticJobAnnotation)] = "true";
  std::string& name = annotations[std::string(names::kSliceNameAnnotation)];
  name = fresh.meta.name;
  if (replaced == nullptr) {
    return;
  }
  name = SliceName(*replaced);
  annotations[std::string(names::kSliceReplacementAnnotation)] = replaced->meta.Key().ToString();
  for (api::PodSet& pod_set : fresh.pod_sets) {
    for (const api::PodSet& old : replaced->pod_sets) {
      if (old.name == pod_set.name) {
        Json pod_template = ParseTemplate(old.template_json);
        pod_template.At("metadata").At("annotations").Set(names::kSliceNameAnnotation, name);
        pod_set.template_json = pod_template.Dump();
      }
    }
  }
}

int32_t DonePods(const QueuedJob& job, const api::PodSet& pod_set) {
  for (const auto& [name, count] : job.Reclaimable()) {
    if (name == pod_set.name) {
      return job.Elastic() ? std::max(0, pod_set.count - job.Remaining(pod_set))
                           : std::min(count, pod_set.count);
    }
  }
  return 0;
}

bool IsScaledDown(const api::Workload& workload, const api::PodSet& pod_set) {
  if (!workload.status.admission.has_value()) {
    return false;
  }
  const auto& assignments = workload.status.admission->assignments;
  return std::any_of(assignments.begin(), assignments.end(), [&](const auto& assignment) {
    return assignment.name == pod_set.name && assignment.count.value_or(0) > pod_set.count;
  });
}

api::WriteRequest ResizePatch(const api::Workload& workload, const std::vector<int32_t>& counts) {
  api::Workload next = workload;
  for (size_t i = 0; i < next.pod_sets.size() && i < counts.size(); ++i) {
    next.pod_sets[i].count = counts[i];
  }
  return WorkloadPatch(
      workload,
      Json::Obj({{"spec", Json::Obj({{"podSets", api::ToJson(next)["spec"]["podSets"]}})}}));
}

int32_t CountStarted(const std::vector<PodPtr>& pods, const std::string& pod_set) {
  return static_cast<int32_t>(std::count_if(pods.begin(), pods.end(), [&](const PodPtr& pod) {
    return !pod->Terminal() && !pod->meta.deleted.has_value() && pod->slice_hold == nullptr &&
           pod->meta.Label(names::kPodSetLabel) == pod_set;
  }));
}

std::vector<PodPtr> PodsToLetGo(const std::vector<PodPtr>& pods,
                                const std::map<std::string, int32_t>& granted) {
  std::map<std::string, int32_t> room = granted;
  std::vector<PodPtr> held;
  for (const PodPtr& pod : pods) {
    // One in deletion takes its room until it has ended; without a node it never runs.
    const bool gone = pod->Terminal() || (pod->meta.deleted.has_value() && !pod->HasNode());
    if (gone) {
      continue;
    }
    if (pod->slice_hold != nullptr) {
      held.push_back(pod);
    } else if (const auto found = room.find(std::string(pod->meta.Label(names::kPodSetLabel)));
               found != room.end()) {
      --found->second;
    }
  }
  std::sort(held.begin(), held.end(),
            [](const PodPtr& a, const PodPtr& b) { return a->meta.name < b->meta.name; });
  std::erase_if(held, [&](const PodPtr& pod) {
    const auto found = room.find(std::string(pod->meta.Label(names::kPodSetLabel)));
    return found == room.end() || --found->second < 0;
  });
  return held;
}

api::WriteRequest LetGoPatch(const WatchedPod& pod, const CheckUpdates& updates) {
  api::WriteRequest write;
  write.verb = api::Verb::kMergePatch;
  write.resource = api::ResourceOf(api::Kind::kPod);
  write.key = pod.meta.Key();
  write.field_manager = names::kUpdateManager;
  Json metadata = Json::Obj({{"resourceVersion", pod.meta.resource_version}});
  for (const auto& [key, value] : updates.annotations) {
    if (pod.meta.Annotation(key) != value) {
      metadata.At("annotations").Set(key, value);
    }
  }
  Json gates = Json::Arr();
  for (const std::string& gate : pod.slice_hold->other_gates) {
    gates.Push(Json::Obj({{"name", gate}}));
  }
  Json spec = Json::Obj({{"schedulingGates", std::move(gates)}});
  for (const auto& [key, value] : updates.node_selector) {
    if (!pod.slice_hold->node_selector.contains(key)) {  // the API server lets it only be added to
      spec.At("nodeSelector").Set(key, value);
    }
  }
  write.body = Json::Obj({{"metadata", std::move(metadata)}, {"spec", std::move(spec)}});
  return write;
}

}  // namespace tutti::reconciler
