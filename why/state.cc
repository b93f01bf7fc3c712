// SPDX-License-Identifier: Apache-2.0
#include "why/state.h"

#include <algorithm>
#include <set>
#include <utility>

#include "api/core.h"
#include "api/dra.h"
#include "api/kueue.h"
#include "reconciler/job_kinds.h"
#include "reconciler/queued_pod.h"

namespace tutti::why {
namespace {

using reconciler::Core;
using Feed = std::function<void(Core&)>;
using Reader = Result<Feed> (*)(const Json&);

template <auto decode, auto take>
Result<Feed> Read(const Json& object) {
  auto decoded = decode(object);
  if (!decoded) {
    return Fail(decoded.error());
  }
  using T = typename decltype(decoded)::value_type;
  auto shared = std::make_shared<const T>(std::move(*decoded));
  return Feed([shared](Core& core) { (core.*take)(shared, /*deleted=*/false); });
}

struct Known {
  std::string_view group;
  std::string_view kind;
  Reader read;
};

// In the order in which a controller is shown them: what others refer to comes first.
const std::vector<Known>& Kinds() {
  static const std::vector<Known> kinds = {
      {"", "Namespace", &Read<&api::NamespaceFromJson, &Core::OnNamespace>},
      {"kueue.x-k8s.io", "ResourceFlavor", &Read<&api::ResourceFlavorFromJson, &Core::OnFlavor>},
      {"kueue.x-k8s.io", "Cohort", &Read<&api::CohortFromJson, &Core::OnCohort>},
      {"kueue.x-k8s.io", "AdmissionCheck",
       &Read<&api::AdmissionCheckFromJson, &Core::OnAdmissionCheck>},
      {"kueue.x-k8s.io", "ClusterQueue", &Read<&api::ClusterQueueFromJson, &Core::OnClusterQueue>},
      {"kueue.x-k8s.io", "LocalQueue", &Read<&api::LocalQueueFromJson, &Core::OnLocalQueue>},
      {"kueue.x-k8s.io", "WorkloadPriorityClass",
       &Read<&api::WorkloadPriorityClassFromJson, &Core::OnWorkloadPriorityClass>},
      {"scheduling.k8s.io", "PriorityClass",
       &Read<&api::PriorityClassFromJson, &Core::OnPriorityClass>},
      {"node.k8s.io", "RuntimeClass", &Read<&api::RuntimeClassFromJson, &Core::OnRuntimeClass>},
      {"", "LimitRange", &Read<&api::LimitRangeFromJson, &Core::OnLimitRange>},
      {"", "Node", &Read<&api::NodeFromJson, &Core::OnNode>},
      {"resource.k8s.io", "DeviceClass", &Read<&api::DeviceClassFromJson, &Core::OnDeviceClass>},
      {"resource.k8s.io", "ResourceSlice",
       &Read<&api::ResourceSliceFromJson, &Core::OnResourceSlice>},
      {"resource.k8s.io", "ResourceClaimTemplate",
       &Read<&api::ResourceClaimTemplateFromJson, &Core::OnResourceClaimTemplate>},
      {"resource.k8s.io", "ResourceClaim",
       &Read<&api::ResourceClaimFromJson, &Core::OnResourceClaim>},
      {"kueue.x-k8s.io", "Workload", &Read<&api::WorkloadFromJson, &Core::OnWorkload>},
  };
  return kinds;
}
constexpr int kJobs = 100;
constexpr int kPods = 101;

std::string_view GroupOf(const Json& object) {
  const std::string_view version = object["apiVersion"].AsString();
  const size_t slash = version.find('/');
  return slash == std::string_view::npos ? std::string_view() : version.substr(0, slash);
}

const reconciler::JobKind* JobKindOf(const Json& object,
                                     const std::vector<const reconciler::JobKind*>& kinds) {
  for (const reconciler::JobKind* kind : kinds) {
    if (!kind->MadeOfPods() && kind->Resource().kind == object["kind"].AsString() &&
        kind->Resource().ApiVersion() == object["apiVersion"].AsString()) {
      return kind;
    }
  }
  return nullptr;
}

// Where the kind stands in the order; nothing: no decision depends on it.
std::optional<int> RankIn(const Json& object,
                          const std::vector<const reconciler::JobKind*>& job_kinds) {
  const std::string& kind = object["kind"].AsString();
  const std::string_view group = GroupOf(object);
  if (kind == "Pod" && group.empty()) {
    return kPods;
  }
  for (size_t i = 0; i < Kinds().size(); ++i) {
    if (Kinds()[i].kind == kind && Kinds()[i].group == group) {
      return static_cast<int>(i);
    }
  }
  return JobKindOf(object, job_kinds) != nullptr ? std::optional<int>(kJobs) : std::nullopt;
}

int RankOf(std::string_view kind) {
  for (size_t i = 0; i < Kinds().size(); ++i) {
    if (Kinds()[i].kind == kind) {
      return static_cast<int>(i);
    }
  }
  return kind == "Pod" ? kPods : kJobs;
}

api::ObjectKey KeyOf(const Json& object) {
  return {object["metadata"]["namespace"].AsString(), object["metadata"]["name"].AsString()};
}

}  // namespace

State::State(reconciler::Options options) : options_(std::move(options)) {}

bool State::Knows(const Json& object) {
  return RankIn(object, reconciler::AllJobKinds()).has_value() ||
         (object["kind"].AsString() == "Lease" && GroupOf(object) == "coordination.k8s.io");
}

void State::SeeTimes(const Json& object) {
  const auto see = [&](const Json& text) {
    if (const Result<Time> time = ParseTime(text.AsString())) {
      newest_ = std::max(newest_, *time);
    }
  };
  see(object["metadata"]["creationTimestamp"]);
  see(object["spec"]["renewTime"]);
  for (const Json& condition : object["status"]["conditions"].AsArray()) {
    see(condition["lastTransitionTime"]);
  }
}

Status State::Take(const Json& object) {
  SeeTimes(object);
  const std::optional<int> rank = RankIn(object, options_.job_kinds);
  if (!rank) {
    return {};  // a Lease, or a kind of job that isn't in use
  }
  const std::string& kind = object["kind"].AsString();
  const api::ObjectKey key = KeyOf(object);
  if (key.name.empty()) {
    return Fail(ErrorCode::kInvalid, kind + ": metadata.name is missing");
  }
  Json copy = object;
  if (copy["metadata"]["uid"].AsString().empty()) {
    copy.At("metadata").Set("uid", kind + "/" + key.ToString());
  }
  Item item;
  Result<Feed> feed = Feed();
  if (*rank == kPods) {
    feed = Read<&reconciler::WatchedPodFromJson, &Core::OnPod>(copy);
  } else if (*rank == kJobs) {
    auto job = JobKindOf(copy, options_.job_kinds)->Decode(copy);
    if (!job) {
      feed = Fail(job.error());
    } else {
      feed = Feed([shared = *job](Core& core) { core.OnJob(shared, /*deleted=*/false); });
    }
  } else {
    feed = Kinds()[static_cast<size_t>(*rank)].read(copy);
  }
  if (!feed) {
    return Fail(feed.error().With(kind + " " + key.ToString()));
  }
  item.feed = std::move(*feed);
  if (*rank != kPods) {
    item.json = std::make_shared<const Json>(std::move(copy));
  }
  options_.devices = options_.devices || kind == "DeviceClass" || kind == "ResourceSlice";
  items_[{*rank, kind, key}] = std::move(item);
  return {};
}

void State::Finish() {
  std::set<std::string> missing;
  for (const auto& [id, item] : items_) {
    missing.insert(std::get<2>(id).ns);
  }
  missing.erase("");
  for (const api::ObjectKey& known : Names("Namespace")) {
    missing.erase(known.name);
  }
  for (const std::string& name : missing) {
    const Json labels = Json::Obj({{"kubernetes.io/metadata.name", name}});
    (void)Take(Json::Obj({{"apiVersion", "v1"},
                          {"kind", "Namespace"},
                          {"metadata", Json::Obj({{"name", name}, {"labels", labels}})}}));
    ++assumed_;
  }
}

const Json* State::Find(std::string_view kind, const api::ObjectKey& key) const {
  const auto found = items_.find({RankOf(kind), std::string(kind), key});
  return found == items_.end() ? nullptr : found->second.json.get();
}

std::vector<api::ObjectKey> State::Names(std::string_view kind) const {
  std::vector<api::ObjectKey> out;
  for (auto at = items_.lower_bound({RankOf(kind), std::string(kind), {}});
       at != items_.end() && std::get<1>(at->first) == kind; ++at) {
    out.push_back(std::get<2>(at->first));
  }
  return out;
}

void State::Apply(const std::vector<Edit>& edits) {
  for (const Edit& edit : edits) {
    if (edit.object) {
      (void)Take(*edit.object);
    } else {
      items_.erase({RankOf(edit.kind), edit.kind, edit.key});
    }
  }
}

std::unique_ptr<reconciler::Core> State::Decide(Time now) const {
  auto core = std::make_unique<Core>(options_);
  for (const auto& [id, item] : items_) {
    item.feed(*core);
  }
  core->OnSynced();
  (void)core->Step(now);
  return core;
}

}  // namespace tutti::why
