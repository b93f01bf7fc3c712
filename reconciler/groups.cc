// SPDX-License-Identifier: Apache-2.0
// The PodGroups of a job: which one its pods are to join and what must be true of it before the
// release, and how groups go again. See core.h.
#include <algorithm>
#include <string>
#include <utility>

#include "base/names.h"
#include "reconciler/core.h"
#include "reconciler/gang.h"
#include "reconciler/names.h"
#include "reconciler/status.h"

namespace tutti::reconciler {
namespace {

// A PodGroup without pods that is still there so long after its deletion has no controller.
constexpr Duration kGroupGrace = std::chrono::seconds(10);
// So long the claims of a new group may take to be made.
constexpr Duration kClaimGrace = std::chrono::seconds(5);
// A group that the Job controller makes is seen so long after the Job's status at the latest.
constexpr Duration kControllerGrace = std::chrono::seconds(2);

bool Holds(const std::vector<const api::Pod*>& pods, const std::string& group) {
  return std::any_of(pods.begin(), pods.end(), [&](const api::Pod* pod) {
    return !pod->Terminal() && pod->scheduling_group == group;
  });
}

std::string ClaimPath(const std::string& ns, const std::string& name) {
  return "/apis/resource.k8s.io/v1/namespaces/" + ns + "/resourceclaims/" + name;
}

}  // namespace

bool Core::UseGroups() const {
  return options_.gang_api != GangApi::kNone &&
         gang_finding_.state != GangFinding::State::kDoesNotGate;
}

void Core::SetGangFinding(GangFinding finding) {
  gang_finding_ = std::move(finding);
  for (const auto& [key, queue] : world_.cluster_queues.All()) {
    DirtyQueue(key.name);
  }
}

std::vector<api::WriteRequest> Core::DeleteGroups(const std::string& job_uid) const {
  std::vector<api::WriteRequest> writes;
  if (options_.gang_api == GangApi::kNone) {
    return writes;
  }
  for (const api::PodGroup* group : world_.GroupsOf(job_uid)) {
    if (!group->meta.deleted.has_value()) {
      writes.push_back(DeleteGroup(options_.gang_api, *group));
    }
  }
  return writes;
}

bool Core::StripStuckGroups(Unit& unit) {
  std::vector<const api::PodGroup*> stuck;
  const std::vector<const api::Pod*> pods = world_.PodsOf(unit.job_uid);
  for (const api::PodGroup* group : world_.GroupsOf(unit.job_uid)) {
    const bool in_use = std::any_of(pods.begin(), pods.end(), [&](const api::Pod* pod) {
      return !pod->Terminal() && pod->scheduling_group == group->meta.name;
    });
    if (group->meta.deleted.has_value() && !group->meta.finalizers.empty() && !in_use) {
      stuck.push_back(group);
    }
  }
  if (stuck.empty() || options_.gang_api == GangApi::kNone) {
    unit.group_stuck_since = kNoTime;
    return false;
  }
  if (unit.group_stuck_since == kNoTime) {
    unit.group_stuck_since = now_;
  }
  if (now_ < unit.group_stuck_since + kGroupGrace) {
    WakeAt(unit, unit.group_stuck_since + kGroupGrace);
    return true;
  }
  std::vector<api::WriteRequest> writes;
  for (const api::PodGroup* group : stuck) {
    writes.push_back(StripGroup(options_.gang_api, group->meta.Key()));
  }
  unit.group_stuck_since = kNoTime;
  if (const auto job = world_.JobOf(unit.job_uid)) {
    Event(*job, /*warning=*/true, "GroupFinalizerRemoved",
          "PodGroup " + stuck.front()->meta.name +
              " was not let go after its last pod: is the feature gate GenericWorkload on in the "
              "kube-controller-manager?");
  }
  Emit(unit, std::move(writes));
  return true;
}

std::string Core::GroupProblem(const Unit& unit, const QueuedJob& job) const {
  const auto claims = job.GangClaims();
  if (!claims) {
    return claims.error().message;
  }
  if (!claims->empty() && !UseGroups()) {
    return "metadata.annotations[tutti.dev/gang-claims]: native gangs are not used here" +
           (gang_finding_.message.empty() ? std::string() : ": " + gang_finding_.message);
  }
  if (UseGroups() && !unit.refs.preset_group.empty()) {
    if (const auto group = world_.groups.Find({job.meta.ns, unit.refs.preset_group})) {
      return ForeignGroup(*group, job.meta.uid);
    }
  }
  return "";
}

Core::GroupPlan Core::PlanGroup(Unit& unit, const QueuedJob& job, const api::Workload& workload,
                                int32_t needed) {
  GroupPlan plan;
  // Before the admission it is a reason to wait; it may have changed since.
  if (std::string problem = GroupProblem(unit, job); !problem.empty()) {
    return plan.Refuse(std::move(problem));
  }
  if (!UseGroups() || !job.JoinsGroups()) {
    return plan;
  }
  const auto claims = job.GangClaims();
  if (!unit.refs.preset_group.empty()) {
    return PlanPresetGroup(unit, job, needed);
  }
  if (const api::PodGroup* theirs = world_.ControllersGroupOf(job.meta.uid)) {
    job_controller_groups_ = true;
    return PlanControllersGroup(unit, *theirs, needed, !claims->empty());
  }
  if (const std::optional<Time> synced = job.ControllersFirstSync()) {
    // Its first sync makes the group, if at all: nothing may be released before.
    if (*synced == kNoTime) {
      return plan.Wait();  // the job's status comes back here
    }
    if (job_controller_groups_ && now_ < *synced + kControllerGrace &&
        TotalEvictions(workload.status) == 0) {
      WakeAt(unit, *synced + kControllerGrace);
      return plan.Wait();
    }
  }
  if (needed <= 1 && claims->empty()) {
    return plan;
  }
  for (int number = TotalEvictions(workload.status) + 1;; ++number) {
    plan.name = GroupName(job.meta.name, workload.meta.uid, number);
    const auto existing = world_.groups.Find({job.meta.ns, plan.name});
    if (existing == nullptr) {
      api::WriteRequest create = CreateGroup(options_.gang_api, job, plan.name, std::max(needed, 1),
                                             unit.refs.priority_class, *claims);
      if (claims->empty()) {
        plan.writes.push_back(std::move(create));
        return plan;
      }
      unit.group_since = now_;
      Emit(unit, {std::move(create)});  // and read back before the release
      return plan.Wait();
    }
    if (CanAdopt(*existing, job, std::max(needed, 1)) &&
        (existing->claims == *claims || existing->claims.empty())) {
      return claims->empty() ? plan : AwaitClaims(unit, *existing, *claims, std::move(plan));
    }
  }
}

Core::GroupPlan Core::AwaitClaims(Unit& unit, const api::PodGroup& group,
                                  const std::vector<api::PodClaim>& claims, GroupPlan plan) {
  if (group.claims.empty()) {
    return plan.Refuse(
        "metadata.annotations[tutti.dev/gang-claims]: kube-apiserver stores PodGroups without "
        "their resourceClaims: the feature gate DRAWorkloadResourceClaims is off");
  }
  bool complete = true;
  for (const api::PodClaim& claim : claims) {
    if (claim.claim.empty()) {
      const auto& made = group.made_claims;
      if (std::find(made.begin(), made.end(), claim.name) == made.end()) {
        complete = false;
        const Time due =
            (unit.group_since != kNoTime ? unit.group_since : group.meta.created) + kClaimGrace;
        if (now_ >= due) {
          return plan.Refuse("no ResourceClaim was made for \"" + claim.name + "\" of PodGroup " +
                             group.meta.name + " within 5s: does ResourceClaimTemplate \"" +
                             claim.claim_template +
                             "\" exist, and is the feature gate DRAWorkloadResourceClaims on in "
                             "kube-controller-manager?");
        }
        WakeAt(unit, due);
      }
      continue;
    }
    const Result<Json>* found = Ask(unit, ClaimPath(group.meta.ns, claim.claim));
    if (found == nullptr) {
      complete = false;  // the answer comes back here
    } else if (!*found && found->error().code == ErrorCode::kNotFound) {
      return plan.Refuse("ResourceClaim \"" + claim.claim +
                         "\", which the gang is to share, does not exist: create it, or name "
                         "another in spec.template.spec.resourceClaims");
    }
  }
  return complete ? plan : plan.Wait();
}

// The user named the group in the template: the name is fixed, so its last use must be over first.
Core::GroupPlan Core::PlanPresetGroup(Unit& unit, const QueuedJob& job, int32_t needed) {
  GroupPlan plan;
  const std::string& preset = unit.refs.preset_group;
  if (Holds(world_.PodsOf(unit.job_uid), preset)) {
    return plan.Wait();  // a pod's end comes back here
  }
  const auto existing = world_.groups.Find({job.meta.ns, preset});
  if (existing == nullptr) {
    plan.writes.push_back(
        CreateGroup(options_.gang_api, job, preset, std::max(needed, 1), unit.refs.priority_class));
    return plan;
  }
  if (!MadeFor(*existing, job.meta.uid) || CanAdopt(*existing, job, std::max(needed, 1))) {
    return plan;  // the user's own, or ours from before a crash
  }
  if (!existing->meta.deleted.has_value()) {
    Emit(unit, {DeleteGroup(options_.gang_api, *existing)});
  } else {
    StripStuckGroups(unit);
  }
  return plan.Wait();  // its end comes back here
}

// The Job controller puts the pods into a group of its own: a second one would only keep them from
// being made. Theirs is used where it says what we would; else it goes, for good: the controller
// makes it for new jobs only.
Core::GroupPlan Core::PlanControllersGroup(Unit& unit, const api::PodGroup& theirs, int32_t needed,
                                           bool claims) {
  GroupPlan plan;
  if (Holds(world_.PodsOf(unit.job_uid), theirs.meta.name) || theirs.meta.deleted.has_value()) {
    return plan.Wait();  // the end of its pods, or its own, comes back here
  }
  if (theirs.min_count == needed && !claims) {
    return plan;
  }
  Emit(unit, DeleteControllersGroup(options_.gang_api, theirs));
  return plan.Wait();
}

// What a replacement of a lost member meets in its group. True when something was done about it.
bool Core::HelpReplacement(Unit& unit, const QueuedJob& job, const api::Workload& workload,
                           const api::Pod* unplaced, int32_t live) {
  if (options_.gang_api == GangApi::kNone ||
      (unplaced == nullptr && live >= GangSize(job, workload))) {
    return false;
  }
  const std::string name = unplaced != nullptr ? unplaced->scheduling_group : job.GroupLabel();
  if (name.empty()) {
    return false;  // a pod of its own
  }
  const auto group = world_.groups.Find({job.meta.ns, name});
  if (group == nullptr) {
    if (unplaced == nullptr || (name != job.GroupLabel() && name != unit.refs.preset_group)) {
      return false;
    }
    // Deleted for opening, and the last write was lost.
    api::PodGroup lost;
    lost.meta.name = name;
    lost.meta.ns = job.meta.ns;
    lost.meta.deleted = now_;
    auto writes = OpenGroup(options_.gang_api, job, lost, unit.refs.priority_class);
    writes.erase(writes.begin());  // nothing to strip
    Emit(unit, std::move(writes));
    return true;
  }
  // The scheduler lets a replacement pass only when live pods meet the quorum; members that have
  // finished don't count, those that are still to come do.
  const bool blocked = group->min_count > std::max(live, GangSize(job, workload));
  const bool theirs = MadeByController(*group, unit.job_uid);
  if (!blocked || (!theirs && !MadeFor(*group, unit.job_uid))) {
    return false;
  }
  const bool templates = std::any_of(group->claims.begin(), group->claims.end(),
                                     [](const auto& claim) { return claim.claim.empty(); });
  if (unplaced == nullptr) {
    if (group->claims.empty() || templates || !group->meta.Label(names::kStartedLabel).empty()) {
      return false;
    }
    // A member is gone and its replacement is to come. The claims stay with the group, so it can't
    // be made anew; the pod comes as one of its own and shares them by name.
    Event(job, /*warning=*/false, "GroupClosed",
          "Replacement pods stay out of PodGroup " + name + ", whose quorum can't be met any more");
    Emit(unit, {CloseGroup(options_.gang_api, *group)});
    return true;
  }
  if (theirs || !group->claims.empty()) {
    EvictUnit(unit, &job, workload,
              {.reason = std::string(reason::kGangRestart),
               .cause = std::string(reason::kMemberLost),
               .message = "Pod " + unplaced->meta.name +
                          " replaces a lost member and can't pass: " + std::to_string(live) +
                          " live pods are left of " + std::to_string(group->min_count) +
                          " in PodGroup " + name +
                          (theirs ? ", which the Job controller made"
                                  : ", whose claims would not survive its renewal")});
    return true;
  }
  Event(job, /*warning=*/false, "GroupOpened",
        "Replacement pod " + unplaced->meta.name + " passes without the whole gang: " +
            std::to_string(live) + " live pods are left of " + std::to_string(group->min_count));
  Emit(unit, OpenGroup(options_.gang_api, job, *group, unit.refs.priority_class));
  return true;
}

}  // namespace tutti::reconciler
