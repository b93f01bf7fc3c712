// SPDX-License-Identifier: Apache-2.0
#include "reconciler/world.h"

#include "reconciler/gang.h"

namespace tutti::reconciler {

std::shared_ptr<const QueuedJob> World::JobOf(const std::string& uid) const {
  const auto it = job_by_uid.find(uid);
  return it == job_by_uid.end() ? nullptr : it->second;
}

size_t World::CountJobs() const {
  return job_by_uid.size();
}

std::optional<PodMember> World::MemberOf(const WatchedPod& pod) const {
  for (const JobKind* kind : kinds) {
    if (auto member = kind->MemberOf(pod)) {
      return member;
    }
  }
  return std::nullopt;
}

std::string World::OwnerOf(const api::ObjectMeta& object) const {
  for (const JobKind* kind : kinds) {
    if (std::string uid = kind->OwnerOf(object); !uid.empty()) {
      return uid;
    }
  }
  return "";
}

std::vector<const api::Pod*> World::PodsOf(const std::string& job_uid) const {
  std::vector<const api::Pod*> out;
  const auto it = pods_by_job.find(job_uid);
  if (it == pods_by_job.end()) {
    return out;
  }
  for (const api::ObjectKey& key : it->second) {
    if (const auto pod = pods.Find(key)) {
      out.push_back(pod.get());
    }
  }
  return out;
}

std::vector<const api::PodGroup*> World::GroupsOf(const std::string& job_uid) const {
  std::vector<const api::PodGroup*> out;
  const auto it = groups_by_job.find(job_uid);
  if (it == groups_by_job.end()) {
    return out;
  }
  for (const api::ObjectKey& key : it->second) {
    if (const auto group = groups.Find(key); group != nullptr && MadeFor(*group, job_uid)) {
      out.push_back(group.get());
    }
  }
  return out;
}

const api::PodGroup* World::ControllersGroupOf(const std::string& job_uid) const {
  const auto it = groups_by_job.find(job_uid);
  if (it == groups_by_job.end()) {
    return nullptr;
  }
  for (const api::ObjectKey& key : it->second) {
    if (const auto group = groups.Find(key);
        group != nullptr && MadeByController(*group, job_uid)) {
      return group.get();
    }
  }
  return nullptr;
}

int32_t World::ActivePods(const std::string& job_uid) const {
  int32_t count = 0;
  for (const api::Pod* pod : PodsOf(job_uid)) {
    if (!pod->Terminal() && !pod->meta.deleted.has_value()) {
      ++count;
    }
  }
  return count;
}

api::PodContext World::ContextOf(const std::string& ns, const std::string& runtime_class) const {
  api::PodContext context;
  context.ns = ns;
  const auto& all = limit_ranges.All();
  for (auto it = all.lower_bound({ns, ""}); it != all.end() && it->first.ns == ns; ++it) {
    context.limit_ranges.push_back(it->second.get());
  }
  if (!runtime_class.empty()) {
    if (const auto found = runtime_classes.Find({"", runtime_class})) {
      context.runtime_class = found.get();
    }
  }
  return context;
}

}  // namespace tutti::reconciler
