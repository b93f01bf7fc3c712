// SPDX-License-Identifier: Apache-2.0
// A pod group: pods with one name in kueue.x-k8s.io/pod-group-name are one job. Its Workload has
// the group's name and a pod set per role. Pods that failed are replaced by their user; what is too
// much goes.
#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/names.h"
#include "reconciler/pod_kind.h"
#include "reconciler/pod_template.h"

namespace tutti::reconciler {
namespace {

constexpr size_t kMaxPodSets = 18;

// What is kept of a group, and what goes.
struct Selection {
  std::vector<PodPtr> kept;
  std::vector<PodPtr> excess;    // too many of a role: deleted
  std::vector<PodPtr> replaced;  // others have taken their part: let go
};

bool HasFinalizer(const PodPtr& pod) {
  return pod->meta.HasFinalizer(names::kManagedLabel);
}

// Those that are kept come first: not let go yet, started, older.
void SortActive(std::vector<PodPtr>& pods) {
  std::sort(pods.begin(), pods.end(), [](const PodPtr& a, const PodPtr& b) {
    const auto rank = [](const PodPtr& pod) {
      return std::tuple(!HasFinalizer(pod), pod->queued->gated, pod->meta.created, pod->meta.name);
    };
    return rank(a) < rank(b);
  });
}

// Those that are kept come first: not let go yet, active until later, older.
void SortInactive(std::vector<PodPtr>& pods) {
  const auto last_active = [](const PodPtr& pod) {
    const Time deleted = pod->meta.deleted.value_or(Time::max());
    const Time failed = pod->queued->failed_at == kNoTime ? Time::max() : pod->queued->failed_at;
    return std::min(deleted, failed);
  };
  std::sort(pods.begin(), pods.end(), [&](const PodPtr& a, const PodPtr& b) {
    return std::tuple(!HasFinalizer(a), last_active(b), a->meta.created, a->meta.name) <
           std::tuple(!HasFinalizer(b), last_active(a), b->meta.created, b->meta.name);
  });
}

Result<int32_t> TotalOf(const WatchedPod& pod) {
  constexpr std::string_view kWhere = "metadata.annotations[kueue.x-k8s.io/pod-group-total-count]";
  TRY_ASSIGN(const std::optional<int32_t> total,
             PositiveInt(pod.meta.Annotation(names::kPodGroupTotalCount), kWhere));
  if (!total.has_value()) {
    return Fail(ErrorCode::kInvalid,
                std::string(kWhere) + ": a pod with a group needs the number of its pods here");
  }
  return *total;
}

api::ObjectMeta GroupMeta(const std::string& uid, const std::string& name,
                          const std::vector<PodPtr>& pods) {
  // What all pods should agree on is read from the first that has not failed.
  const auto alive = std::find_if(pods.begin(), pods.end(),
                                  [](const PodPtr& pod) { return pod->phase != "Failed"; });
  api::ObjectMeta meta = (alive != pods.end() ? *alive : pods.front())->meta;
  meta.uid = uid;
  meta.name = name;
  meta.owners.clear();
  meta.finalizers.clear();
  // Deleted is a group whose user has deleted every pod. Those that a stop deletes wait for others
  // in their place.
  meta.deleted.reset();
  if (std::all_of(pods.begin(), pods.end(), [](const PodPtr& pod) {
        return pod->meta.deleted.has_value() && !pod->queued->stopped;
      })) {
    meta.deleted = pods.front()->meta.deleted;
  }
  for (const PodPtr& pod : pods) {
    meta.created = std::min(meta.created, pod->meta.created);
  }
  return meta;
}

class PodGroup final : public GatedPodsJob {
 public:
  PodGroup(const JobKind& job_kind, std::string uid, std::string name, std::vector<PodPtr> pods)
      : GatedPodsJob(job_kind, meta_, pods), meta_(GroupMeta(uid, name, pods)) {}

  // --- what it is and does ---

  [[nodiscard]] std::optional<Time> StoppedAt() const override {
    std::optional<Time> last;
    for (const PodPtr& pod : pods_) {
      const std::optional<Time> overdue = Overdue(*pod);
      if (overdue.has_value() && !pod->Terminal()) {
        last = std::max(last.value_or(kNoTime), *overdue);
      }
    }
    return last;
  }
  [[nodiscard]] bool Finished(bool* success, std::string* message) const override {
    const auto total = Total();
    if (Serving() || !total) {
      return false;
    }
    int32_t succeeded = 0;
    bool over = true;
    bool retriable = true;
    for (const PodPtr& pod : pods_) {
      succeeded += pod->phase == "Succeeded" ? 1 : 0;
      over = over && pod->Terminal();
      retriable = retriable && pod->meta.Annotation(names::kRetriableInGroup) != "false";
    }
    if (succeeded != *total && (!over || retriable)) {
      return false;
    }
    *success = true;  // how its pods ended is in the message, as in Kueue
    *message = "Pods succeeded: " + std::to_string(succeeded) + "/" + std::to_string(*total) + ".";
    return true;
  }
  [[nodiscard]] int32_t Remaining(const api::PodSet& pod_set) const override {
    return Serving() ? pod_set.count : std::max(0, pod_set.count - Succeeded(pod_set.name));
  }
  [[nodiscard]] bool PodsReady(const std::vector<const api::Pod*>& /*pods*/) const override {
    const auto total = Total();
    int32_t ready = 0;
    for (const PodPtr& pod : pods_) {
      ready += pod->phase == "Succeeded" || (pod->ready && RunnableOrSucceeded(*pod)) ? 1 : 0;
    }
    return total && ready >= *total;
  }
  [[nodiscard]] std::vector<std::pair<std::string, int32_t>> Reclaimable() const override {
    std::map<std::string, int32_t> counts;
    for (const PodPtr& pod : pods_) {
      if (pod->phase == "Succeeded" && !Serving()) {
        ++counts[pod->queued->role];
      }
    }
    return {counts.begin(), counts.end()};
  }
  // Nobody makes pods that are missing.
  [[nodiscard]] int32_t PodsToLand(const api::Workload& /*workload*/) const override {
    return static_cast<int32_t>(
        std::count_if(pods_.begin(), pods_.end(), [](const PodPtr& pod) { return Started(*pod); }));
  }

  // --- its Workload ---

  [[nodiscard]] std::string WorkloadName() const override { return meta.name; }
  [[nodiscard]] bool OwnsAlone() const override { return false; }
  [[nodiscard]] bool MayTake(const api::Workload& workload) const override {
    return workload.meta.Annotation(names::kIsGroupWorkload) == "true";
  }
  [[nodiscard]] Result<api::Workload> Describe() const override {
    TRY_ASSIGN(const int32_t total, Total());
    TRY(CheckAgreement(total));
    const Selection selection = Select(nullptr);
    // Pods on their way out are no reason to queue: their replacements are.
    const auto runnable =
        std::count_if(selection.kept.begin(), selection.kept.end(),
                      [](const PodPtr& pod) { return !pod->meta.deleted.has_value(); });
    if (runnable == 0 || (!Fast() && runnable < total)) {
      return Fail(ErrorCode::kInvalid,
                  "'" + meta.name + "' group has fewer runnable pods than expected");
    }
    TRY_ASSIGN(api::Workload workload, WorkloadWithoutPods(kind, meta));
    workload.meta.name = WorkloadName();
    workload.meta.labels.clear();
    workload.meta.annotations[std::string(names::kIsGroupWorkload)] = "true";
    workload.meta.owners.clear();
    std::map<std::string, api::PodSet> roles;
    for (const PodPtr& pod : selection.kept) {
      workload.meta.owners.push_back(OwnerOf(*pod));
      const std::string& role = pod->queued->role;
      const auto known = roles.find(role);
      if (known != roles.end()) {
        ++known->second.count;
      } else if (!Fast() || roles.empty()) {
        roles.emplace(role, PodSetOf(*pod, role, Fast() ? total : 1));
      }
    }
    if (Fast()) {
      roles.begin()->second.count = total;
    }
    if (roles.size() > kMaxPodSets) {
      return Fail(ErrorCode::kInvalid,
                  "pods of a group may have at most " + std::to_string(kMaxPodSets) +
                      " different roles, but there are " + std::to_string(roles.size()));
    }
    for (auto& [role, pod_set] : roles) {
      workload.pod_sets.push_back(std::move(pod_set));
    }
    return workload;
  }
  [[nodiscard]] bool Matches(const api::Workload& workload) const override {
    const auto limit = PositiveInt(meta.Label(names::kMaxExecTimeLabel), "");
    if (limit && *limit != workload.max_execution_seconds) {
      return false;
    }
    const Selection selection = Select(&workload);
    std::map<std::string, int32_t> counts;
    for (const PodPtr& pod : selection.kept) {
      counts[pod->queued->role] += RunnableOrSucceeded(*pod) ? 1 : 0;
    }
    for (const api::PodSet& pod_set : workload.pod_sets) {
      if (const auto count = counts.find(pod_set.name); count != counts.end()) {
        if (count->second > pod_set.count) {
          return false;
        }
        counts.erase(count);
      }
    }
    return counts.empty() && !selection.kept.empty();
  }

  // --- writes ---

  [[nodiscard]] Result<std::vector<api::WriteRequest>> Start(
      const api::Workload& workload, const std::vector<StartInfo>& infos) const override {
    std::vector<api::WriteRequest> writes;
    for (const PodPtr& pod : Select(&workload).kept) {
      if (!reconciler::Held(*pod)) {
        continue;
      }
      const auto info = std::find_if(infos.begin(), infos.end(), [&](const StartInfo& one) {
        return one.pod_set == pod->queued->role;
      });
      if (info != infos.end()) {
        TRY_ASSIGN(api::WriteRequest write, UngatePatch(*pod, *info));
        writes.push_back(std::move(write));
      }
    }
    return writes;
  }
  [[nodiscard]] std::vector<api::WriteRequest> Stop(const StopReason& why) const override {
    std::vector<api::WriteRequest> writes;
    for (const PodPtr& pod : pods_) {
      if (Started(*pod)) {
        Append(writes, StopPod(*pod, why));
      }
    }
    return writes;
  }
  [[nodiscard]] std::vector<api::WriteRequest> Restore(
      const api::Workload& /*workload*/) const override {
    return {};
  }
  [[nodiscard]] bool HasLeftovers() const override { return false; }
  [[nodiscard]] Chores Tidy(const api::Workload* workload) const override {
    Chores chores;
    const Selection selection = Select(workload);
    for (const PodPtr& pod : selection.excess) {
      Append(chores.writes, FinalizePod(*pod));
      if (!pod->meta.deleted.has_value()) {
        chores.writes.push_back(DeletePod(*pod));
        chores.excess.push_back(pod->meta);
      }
    }
    for (const PodPtr& pod : selection.replaced) {
      Append(chores.writes, FinalizePod(*pod));
    }
    if (workload == nullptr || workload->Finished()) {
      return chores;
    }
    std::vector<api::OwnerReference> owners;
    for (const PodPtr& pod : selection.kept) {
      const auto& known = workload->meta.owners;
      if (std::none_of(known.begin(), known.end(), [&](const api::OwnerReference& owner) {
            return owner.uid == pod->meta.uid;
          })) {
        owners.push_back(OwnerOf(*pod));
      }
    }
    if (!owners.empty()) {
      chores.writes.push_back(OwnersPatch(*workload, owners));
      chores.new_owners = static_cast<int>(owners.size());
    }
    return chores;
  }
  [[nodiscard]] std::vector<api::WriteRequest> Finalize() const override {
    std::vector<api::WriteRequest> writes;
    for (const PodPtr& pod : pods_) {
      Append(writes, FinalizePod(*pod));
    }
    return writes;
  }
  [[nodiscard]] std::vector<api::WriteRequest> Discard(const StopReason& why) const override {
    std::vector<api::WriteRequest> writes;
    for (const PodPtr& pod : pods_) {
      if (!pod->meta.deleted.has_value()) {
        Append(writes, StopPod(*pod, why));
      } else {
        Append(writes, FinalizePod(*pod));
      }
    }
    return writes;
  }
  [[nodiscard]] std::optional<bool> WaitsForReplacements(
      const api::Workload& workload) const override {
    std::map<std::string, int32_t> counts;
    for (const PodPtr& pod : pods_) {
      counts[pod->queued->role] += RunnableOrSucceeded(*pod) ? 1 : 0;
    }
    return std::any_of(workload.pod_sets.begin(), workload.pod_sets.end(),
                       [&](const api::PodSet& pod_set) {
                         const int32_t here = counts[pod_set.name];
                         return Fast() ? pod_set.count > 0 && here == 0 : here < pod_set.count;
                       });
  }

  [[nodiscard]] const api::ObjectMeta& EventMeta() const override { return pods_.front()->meta; }
  [[nodiscard]] std::string CreatorUid() const override { return ""; }

 private:
  static void Append(std::vector<api::WriteRequest>& writes, std::vector<api::WriteRequest> more) {
    std::move(more.begin(), more.end(), std::back_inserter(writes));
  }
  static void Append(std::vector<api::WriteRequest>& writes,
                     std::optional<api::WriteRequest> more) {
    if (more.has_value()) {
      writes.push_back(std::move(*more));
    }
  }
  static api::OwnerReference OwnerOf(const WatchedPod& pod) {
    return {"v1", "Pod", pod.meta.name, pod.meta.uid, /*controller=*/false};
  }

  [[nodiscard]] bool Fast() const { return meta.Annotation(names::kPodGroupFast) == "true"; }
  [[nodiscard]] bool Serving() const { return meta.Annotation(names::kPodGroupServing) == "true"; }
  [[nodiscard]] Result<int32_t> Total() const { return TotalOf(*pods_.front()); }
  [[nodiscard]] int32_t Succeeded(const std::string& role) const {
    return static_cast<int32_t>(std::count_if(pods_.begin(), pods_.end(), [&](const PodPtr& pod) {
      return pod->phase == "Succeeded" && pod->queued->role == role;
    }));
  }

  [[nodiscard]] Status CheckAgreement(int32_t total) const {
    const std::string_view queue = meta.Label(names::kQueueNameLabel);
    for (const PodPtr& pod : pods_) {
      if (pod->phase == "Failed") {
        continue;
      }
      if (pod->meta.Label(names::kQueueNameLabel) != queue) {
        return Fail(ErrorCode::kInvalid,
                    "metadata.labels[kueue.x-k8s.io/queue-name]: the pods of group '" + meta.name +
                        "' name different queues, \"" + std::string(queue) + "\" and \"" +
                        std::string(pod->meta.Label(names::kQueueNameLabel)) + "\" (pod " +
                        pod->meta.name + ")");
      }
      TRY_ASSIGN(const int32_t here, TotalOf(*pod));
      if (here != total) {
        return Fail(ErrorCode::kInvalid,
                    "metadata.annotations[kueue.x-k8s.io/pod-group-total-count]: the pods of group "
                    "'" +
                        meta.name + "' say different numbers, " + std::to_string(total) + " and " +
                        std::to_string(here) + " (pod " + pod->meta.name + ")");
      }
    }
    return {};
  }

  // Of one role, or of the whole group: `count` active ones are kept, and of the inactive as many
  // as are missing.
  static void Divide(std::vector<PodPtr> pods, size_t count, bool keep_inactive, Selection& out) {
    const auto middle = std::stable_partition(
        pods.begin(), pods.end(), [](const PodPtr& pod) { return RunnableOrSucceeded(*pod); });
    std::vector<PodPtr> active(pods.begin(), middle);
    std::vector<PodPtr> inactive(middle, pods.end());
    SortActive(active);
    const size_t kept = std::min(count, active.size());
    out.kept.insert(out.kept.end(), active.begin(), active.begin() + static_cast<int64_t>(kept));
    out.excess.insert(out.excess.end(), active.begin() + static_cast<int64_t>(kept), active.end());
    SortInactive(inactive);
    const size_t missing = keep_inactive ? std::min(count - kept, inactive.size()) : 0;
    out.kept.insert(out.kept.end(), inactive.begin(),
                    inactive.begin() + static_cast<int64_t>(missing));
    out.replaced.insert(out.replaced.end(), inactive.begin() + static_cast<int64_t>(missing),
                        inactive.end());
  }

  // Without a Workload: as many as the group is to have. With one: as many as each role has there;
  // pods that have no part in it (of an unknown role) are kept, so that Matches sees them.
  [[nodiscard]] Selection Select(const api::Workload* workload) const {
    Selection out;
    if (workload == nullptr) {
      const auto total = Total();
      Divide(pods_, total ? static_cast<size_t>(*total) : pods_.size(), /*keep_inactive=*/false,
             out);
      return out;
    }
    std::map<std::string, std::vector<PodPtr>> roles;
    for (const PodPtr& pod : pods_) {
      roles[pod->queued->role].push_back(pod);
    }
    for (const api::PodSet& pod_set : workload->pod_sets) {
      const auto role = roles.find(pod_set.name);
      if (role != roles.end()) {
        // While nothing is reserved nobody has to take the place of a pod that is deleted.
        Divide(std::move(role->second), static_cast<size_t>(pod_set.count),
               /*keep_inactive=*/true, out);
        roles.erase(role);
      }
    }
    for (auto& [role, pods] : roles) {
      std::move(pods.begin(), pods.end(), std::back_inserter(out.kept));
    }
    return out;
  }

  api::ObjectMeta meta_;
};

}  // namespace

std::shared_ptr<const QueuedJob> MakePodGroup(const JobKind& kind, std::string uid,
                                              std::string name, std::vector<PodPtr> pods) {
  return std::make_shared<const PodGroup>(kind, std::move(uid), std::move(name), std::move(pods));
}

}  // namespace tutti::reconciler
