// SPDX-License-Identifier: Apache-2.0
#include "why/answer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "api/kueue.h"
#include "base/names.h"
#include "cli/objects.h"
#include "why/search.h"

namespace tutti::why {
namespace {

using reconciler::Core;
using reconciler::Unit;

struct Form {
  std::string_view prefix;
  Target::Kind kind;
  std::string_view object;
};
constexpr std::array<Form, 13> kForms = {{
    {"job", Target::Kind::kJob, "Job"},
    {"jobs", Target::Kind::kJob, "Job"},
    {"jobset", Target::Kind::kJob, "JobSet"},
    {"statefulset", Target::Kind::kJob, "StatefulSet"},
    {"workload", Target::Kind::kWorkload, "Workload"},
    {"wl", Target::Kind::kWorkload, "Workload"},
    {"pod", Target::Kind::kPod, "Pod"},
    {"queue", Target::Kind::kQueue, "LocalQueue"},
    {"localqueue", Target::Kind::kQueue, "LocalQueue"},
    {"lq", Target::Kind::kQueue, "LocalQueue"},
    {"clusterqueue", Target::Kind::kQueue, "ClusterQueue"},
    {"cq", Target::Kind::kQueue, "ClusterQueue"},
    {"pods", Target::Kind::kPod, "Pod"},
}};

Time TimeOf(const api::Condition* condition) {
  return condition != nullptr ? condition->last_transition : kNoTime;
}

std::vector<QuotaLine> QuotaOf(const Core& core, const std::string& queue,
                               const api::Amounts& asked) {
  std::vector<QuotaLine> lines;
  const std::string root = RootOf(core, queue);
  const bool cohort = root.starts_with("cohort ");
  for (const engine::FlavorUsage& usage : core.engine().Report(queue).usage) {
    QuotaLine line{
        usage.flavor, usage.resource, usage.nominal, usage.reserved, usage.borrowed, {}, {}, 0};
    if (const auto amount = asked.find(usage.resource); amount != asked.end()) {
      line.asked = amount->second;
    }
    if (cohort) {
      for (const engine::FlavorUsage& all :
           core.engine().ReportCohort(root.substr(sizeof("cohort ") - 1)).usage) {
        if (all.flavor == usage.flavor && all.resource == usage.resource) {
          line.cohort_nominal = all.nominal;
          line.cohort_reserved = all.reserved;
        }
      }
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<Holder> HoldersOf(const Core& core, const std::string& queue,
                              const api::ObjectKey& but) {
  std::vector<Holder> holders;
  const std::string root = RootOf(core, queue);
  std::vector<std::string> flavors;
  for (const engine::FlavorUsage& usage : core.engine().Report(queue).usage) {
    if (std::find(flavors.begin(), flavors.end(), usage.flavor) == flavors.end()) {
      flavors.push_back(usage.flavor);
    }
  }
  for (const auto& [key, unit] : core.units()) {
    if (unit.in_engine != Unit::InEngine::kReserved || key == but) {
      continue;
    }
    const std::string theirs = QueueOf(core, unit);
    if (RootOf(core, theirs) != root) {
      continue;
    }
    Holder holder{TitleOf(core, unit), theirs, {}, kNoTime};
    for (const std::string& flavor : flavors) {
      api::AddTo(holder.amounts, HeldBy(core, unit, flavor));
    }
    if (holder.amounts.empty()) {
      continue;
    }
    if (const auto workload = core.world().workloads.Find(key)) {
      holder.since = TimeOf(api::FindCondition(workload->status.conditions, "QuotaReserved"));
    }
    holders.push_back(std::move(holder));
  }
  return holders;
}

// What the workloads that were seen hold of a ClusterQueue's flavor by their statuses.
int64_t SeenOf(const Core& core, const std::string& queue, const std::string& flavor,
               const std::string& resource) {
  int64_t seen = 0;
  for (const auto& [key, unit] : core.units()) {
    if (unit.in_engine == Unit::InEngine::kReserved && !unit.assumed.has_value() &&
        QueueOf(core, unit) == queue) {
      const api::Amounts held = HeldBy(core, unit, flavor);
      if (const auto amount = held.find(resource); amount != held.end()) {
        seen = api::SaturatingAdd(seen, amount->second);
      }
    }
  }
  return seen;
}

// Quota that is in use by the ClusterQueues' statuses, and of which no workload was seen.
std::vector<std::string> UnseenOf(const State& state, const Core& core, const std::string& queue) {
  std::vector<std::string> out;
  const std::string root = RootOf(core, queue);
  for (const auto& [key, found] : core.world().cluster_queues.All()) {
    if (RootOf(core, key.name) != root) {
      continue;
    }
    const Json& status = (*state.Find("ClusterQueue", key))["status"];
    for (const Json& flavor : status["flavorsReservation"].AsArray()) {
      const std::string& name = flavor["name"].AsString();
      for (const Json& resource : flavor["resources"].AsArray()) {
        const std::string& of = resource["name"].AsString();
        const auto total = api::Quantity::FromJson(resource["total"]);
        const int64_t more =
            total ? api::ToAmount(of, *total) - SeenOf(core, key.name, name, of) : 0;
        if (more > 0) {
          out.push_back(api::FormatAmount(of, more) + " " + of + " of flavor " + name +
                        " in ClusterQueue " + key.name);
        }
      }
    }
  }
  return out;
}

// By the devices, else by cpu, the largest first.
void SortBySize(std::vector<Holder>& holders) {
  const auto size = [](const Holder& holder) {
    int64_t devices = 0;
    int64_t cpu = 0;
    for (const auto& [resource, amount] : holder.amounts) {
      if (resource == "cpu") {
        cpu = amount;
      } else if (resource.find('/') != std::string::npos) {
        devices = api::SaturatingAdd(devices, amount);
      }
    }
    return std::pair(devices, cpu);
  };
  std::stable_sort(holders.begin(), holders.end(),
                   [&](const Holder& a, const Holder& b) { return size(a) > size(b); });
}

// Why a job that might be queued stands in no queue.
std::string HeldBackBy(const Core& core, const Unit& unit, Time now) {
  const auto workload = core.world().workloads.Find(unit.key);
  const auto job = core.world().JobOf(unit.job_uid);
  if (job != nullptr && !job->OnHold().empty()) {
    return std::string(job->OnHold());
  }
  if (workload == nullptr) {
    return "it has no Workload yet; if that lasts, an event of the job says what is in the way "
           "(a priority class that doesn't exist, say)";
  }
  if (!workload->active) {
    return "it is deactivated; Workload spec.active: true lets it queue again";
  }
  if (const std::string_view gate = workload->meta.Annotation(names::kAdmissionGatedByAnnotation);
      !gate.empty()) {
    return "admission is gated by " + std::string(gate) + " (annotation " +
           std::string(names::kAdmissionGatedByAnnotation) + ")";
  }
  if (workload->status.requeue_at.has_value() && *workload->status.requeue_at > now) {
    return "it backs off after an eviction until " + FormatTime(*workload->status.requeue_at);
  }
  if (workload->Evicted() && workload->status.admission.has_value()) {
    const api::Condition* evicted = api::FindCondition(workload->status.conditions, "Evicted");
    return "it was evicted (" + evicted->reason + ") and its pods are still going";
  }
  const api::Condition* reserved = api::FindCondition(workload->status.conditions, "QuotaReserved");
  return "its controller is about to bring job and Workload in line" +
         (reserved != nullptr && !reserved->message.empty()
              ? "; its status says: " + reserved->message
              : std::string());
}

std::string PlainReason(engine::PendingReason reason) {
  switch (reason) {
    case engine::PendingReason::kMisconfigured:
      return "something that it names is missing or can't be used";
    case engine::PendingReason::kNotAccepted:
      return "its queue doesn't accept it";
    case engine::PendingReason::kSuspended:
      return "its queue admits nothing now";
    case engine::PendingReason::kNoMatchingFlavor:
      return "no flavor of its queue is for pods like these";
    case engine::PendingReason::kExceedsMaxQuota:
      return "it asks for more than its queue could ever have";
    case engine::PendingReason::kWaitingForQuota:
      return "the quota that is left is not enough";
    case engine::PendingReason::kNeverFitsCluster:
      return "the nodes could not hold all its pods at once, not even empty";
    case engine::PendingReason::kWaitingForCapacity:
      return "there is quota, but no place for all its pods at once";
    case engine::PendingReason::kWaitingForPreemptedWorkloads:
      return "others have to stop first";
    case engine::PendingReason::kPreemptionGated:
      return "others would have to give way, and a gate of it forbids that";
    case engine::PendingReason::kBehindHead:
      return "its queue is strictly first in, first out, and another job is before it";
    case engine::PendingReason::kPendingEvaluation:
      return "it has not been decided on yet";
  }
  return "";
}

void FillWaiting(const State& state, const Core& core, const Unit& unit, Time now,
                 const SearchLimits& limits, JobAnswer& answer) {
  const auto workload = core.world().workloads.Find(unit.key);
  if (core.world().cluster_queues.Find({"", answer.cluster_queue}) == nullptr) {
    // Nothing can be decided; what its controller last said of it may help.
    answer.state = JobAnswer::State::kWaits;
    answer.summary =
        "waits, and " +
        (answer.cluster_queue.empty()
             ? "LocalQueue " + api::ObjectKey{unit.key.ns, answer.local_queue}.ToString()
             : "ClusterQueue " + answer.cluster_queue) +
        " is not in the input: it doesn't exist, or may not be listed";
    const api::Condition* told =
        workload != nullptr ? api::FindCondition(workload->status.conditions, "QuotaReserved")
                            : nullptr;
    if (told != nullptr && told->status != "True") {
      answer.reason = told->reason;
      answer.message = told->message;
    }
    return;
  }
  const Verdict verdict = Judge(core, unit.key);
  answer.unseen = UnseenOf(state, core, answer.cluster_queue);
  const std::vector<std::string> order = core.engine().PendingOrder(answer.cluster_queue);
  const auto place = std::find(order.begin(), order.end(), unit.key.ToString());
  answer.waiting = order.size();
  answer.position = place == order.end() ? 0 : static_cast<size_t>(place - order.begin()) + 1;
  switch (verdict.kind) {
    case Verdict::Kind::kAbsent:
      answer.state = JobAnswer::State::kHeldBack;
      answer.summary = "stands in no queue for now: " + HeldBackBy(core, unit, now);
      return;
    case Verdict::Kind::kStarts:
      answer.state = JobAnswer::State::kStartsNext;
      answer.summary =
          answer.unseen.empty()
              ? "waits for the next decision only: quota and a place are free in this state"
              : "waits, and what for can't be seen from here: part of the quota is used by jobs "
                "that may not be listed";
      return;
    case Verdict::Kind::kPreempts: {
      answer.state = JobAnswer::State::kWaitsForOthersToStop;
      answer.summary = "waits until others have given way for it:";
      for (const api::ObjectKey& victim : verdict.victims) {
        answer.summary += (&victim == &verdict.victims.front() ? " " : ", ") +
                          TitleOf(core, core.units().at(victim));
      }
      break;
    }
    case Verdict::Kind::kWaits:
      answer.state = JobAnswer::State::kWaits;
      answer.summary = "waits: " + PlainReason(verdict.reason);
      break;
  }
  answer.reason = engine::ToString(verdict.reason);
  answer.message = verdict.message;
  answer.quota = QuotaOf(core, answer.cluster_queue, TotalOf(answer.pods));
  for (QuotaLine& line : answer.quota) {
    if (line.resource == "pods") {
      for (const PodsAsked& pods : answer.pods) {
        line.asked += pods.count;
      }
    }
  }
  answer.holders = HoldersOf(core, answer.cluster_queue, unit.key);
  SortBySize(answer.holders);
  if (answer.state == JobAnswer::State::kWaits && answer.unseen.empty()) {
    answer.remedies = FindRemedies(state, core, unit.key, now, limits);
  }
}

JobAnswer ExplainUnit(const State& state, const Core& core, const Unit& unit, Time now,
                      const SearchLimits& limits) {
  JobAnswer answer;
  answer.title = TitleOf(core, unit);
  answer.workload = unit.key.ToString();
  answer.cluster_queue = QueueOf(core, unit);
  answer.pods = PodsOf(state, core, unit);
  answer.local_queue = unit.queued_in.name;
  const auto workload = core.world().workloads.Find(unit.key);
  const auto job = core.world().JobOf(unit.job_uid);
  if (job != nullptr) {
    answer.since = job->meta.created;
  }
  if (workload != nullptr) {
    answer.local_queue = workload->queue_name;
    answer.priority = workload->priority;
    answer.since = job != nullptr ? job->meta.created : workload->meta.created;
  }
  const std::string root = RootOf(core, answer.cluster_queue);
  if (root.starts_with("cohort ")) {
    answer.cohort = root.substr(sizeof("cohort ") - 1);
  }
  std::string message;
  bool success = false;
  const bool ended = job != nullptr && job->Finished(&success, &message);
  if (ended || (workload != nullptr && workload->Finished())) {
    answer.state = JobAnswer::State::kFinished;
    if (workload != nullptr) {
      const api::Condition* end = api::FindCondition(workload->status.conditions, "Finished");
      answer.since = end != nullptr ? end->last_transition : answer.since;
      message = message.empty() && end != nullptr ? end->message : message;
    }
    answer.summary = "is finished" + (message.empty() ? "" : ": " + message);
    return answer;
  }
  if (workload != nullptr && workload->QuotaReserved() && !workload->Evicted()) {
    answer.state = JobAnswer::State::kHasQuota;
    answer.since = TimeOf(api::FindCondition(workload->status.conditions, "QuotaReserved"));
    const std::vector<const api::Pod*> pods = core.world().PodsOf(unit.job_uid);
    const auto placed = std::count_if(pods.begin(), pods.end(), [](const api::Pod* pod) {
      return !pod->node_name.empty() && !pod->Terminal();
    });
    int32_t wanted = 0;
    for (const PodsAsked& asked : answer.pods) {
      wanted += asked.count;
    }
    answer.summary = workload->Admitted()
                         ? "is admitted: " + std::to_string(placed) + " of " +
                               std::to_string(wanted) + " pods have a node"
                         : std::string("has its quota and waits for admission checks");
    for (const api::AdmissionCheckState& check : workload->status.checks) {
      if (check.state != "Ready") {
        answer.summary += "; check " + check.name + " is " + check.state +
                          (check.message.empty() ? "" : ": " + check.message);
      }
    }
    return answer;
  }
  if (workload != nullptr) {
    // It has been in the queue since it came back to it, whatever its age decides.
    const api::Condition* requeued = api::FindCondition(workload->status.conditions, "Requeued");
    if (requeued != nullptr && requeued->status == "True") {
      answer.since = std::max(answer.since, requeued->last_transition);
    }
  }
  FillWaiting(state, core, unit, now, limits, answer);
  return answer;
}

// An object that no unit belongs to.
JobAnswer NotQueued(const std::string& title, std::string summary) {
  JobAnswer answer;
  answer.title = title;
  answer.summary = std::move(summary);
  return answer;
}

const Unit* UnitOfJob(const Core& core, const std::string& uid) {
  for (const auto& [key, unit] : core.units()) {
    if (unit.job_uid == uid) {
      return &unit;
    }
  }
  return nullptr;
}

QueueAnswer ExplainQueue(const Core& core, const std::string& title, const std::string& name) {
  QueueAnswer answer;
  answer.title = title;
  answer.cluster_queue = name;
  const std::string root = RootOf(core, name);
  if (root.starts_with("cohort ")) {
    answer.cohort = root.substr(sizeof("cohort ") - 1);
  }
  const engine::QueueHealth health = core.engine().Health(name);
  answer.active = health.active;
  answer.quota = QuotaOf(core, name, {});
  answer.holders = HoldersOf(core, name, {});
  SortBySize(answer.holders);
  const std::vector<std::string> order = core.engine().PendingOrder(name);
  const engine::QueueReport report = core.engine().Report(name);
  answer.waiting = static_cast<size_t>(report.pending);
  answer.holding = static_cast<size_t>(report.reserving);
  if (!order.empty()) {
    const size_t slash = order.front().find('/');
    const auto unit =
        core.units().find({order.front().substr(0, slash), order.front().substr(slash + 1)});
    answer.head = unit != core.units().end() ? TitleOf(core, unit->second) : order.front();
    if (const auto why = core.engine().WhyPending(order.front())) {
      answer.head_reason = engine::ToString(why->reason);
      answer.head_message = why->message;
    }
  }
  answer.summary = !answer.active        ? "admits nothing: " + health.message
                   : answer.waiting == 0 ? std::string("is active, and nobody waits")
                                         : "is active; " + cli::Count(answer.waiting, "job") +
                                               (answer.waiting == 1 ? " waits" : " wait");
  return answer;
}

}  // namespace

Result<Target> ParseTarget(std::string_view text, const std::string& ns) {
  const size_t slash = text.find('/');
  const std::string_view prefix = text.substr(0, slash);
  if (slash != std::string_view::npos && slash + 1 < text.size()) {
    for (const Form& form : kForms) {
      if (form.prefix == prefix) {
        const bool cluster = form.object == "ClusterQueue";
        return Target{form.kind,
                      std::string(form.object),
                      {cluster ? "" : ns, std::string(text.substr(slash + 1))}};
      }
    }
  }
  return Fail(ErrorCode::kInvalid,
              "\"" + std::string(text) +
                  "\": ask about job/NAME, jobset/NAME, statefulset/NAME, workload/NAME, pod/NAME, "
                  "queue/NAME or clusterqueue/NAME");
}

std::vector<std::string> Candidates(const State& state, const Target& target) {
  std::vector<std::string> out;
  for (const api::ObjectKey& key : state.Names(target.object)) {
    if (key.ns == target.key.ns) {
      out.push_back(key.name);
    }
  }
  if (target.object == "LocalQueue") {
    for (const api::ObjectKey& key : state.Names("ClusterQueue")) {
      out.push_back(key.name);
    }
  }
  return out;
}

Result<Answer> Explain(const State& state, const Target& target, Time now,
                       const SearchLimits& limits) {
  Answer answer;
  answer.now = now;
  const std::unique_ptr<Core> core = state.Decide(now);
  const std::string title = target.object + " " + target.key.ToString();
  const auto missing = [&] { return Fail(ErrorCode::kNotFound, title + " doesn't exist"); };
  if (target.kind == Target::Kind::kQueue) {
    const auto local = core->world().local_queues.Find(target.key);
    if (target.object == "LocalQueue" && local != nullptr) {
      QueueAnswer queue = ExplainQueue(*core, title, local->cluster_queue);
      if (local->stop_policy != api::StopPolicy::kNone) {
        queue.active = false;
        queue.summary =
            "admits nothing: LocalQueue " + target.key.ToString() + " is stopped (spec.stopPolicy)";
      }
      answer.what = std::move(queue);
      return answer;
    }
    if (core->world().cluster_queues.Find({"", target.key.name}) == nullptr) {
      return missing();
    }
    answer.what = ExplainQueue(*core, "ClusterQueue " + target.key.name, target.key.name);
    return answer;
  }
  const Unit* unit = nullptr;
  if (target.kind == Target::Kind::kWorkload) {
    const auto found = core->units().find(target.key);
    if (found == core->units().end()) {
      return missing();
    }
    unit = &found->second;
  } else if (target.kind == Target::Kind::kPod) {
    const auto pod = core->world().pods.Find(target.key);
    if (pod == nullptr) {
      return missing();
    }
    if (const auto member = core->world().MemberOf(*pod)) {
      unit = UnitOfJob(*core, member->job_uid);
    }
    if (unit == nullptr) {
      answer.what = NotQueued(title, pod->node_name.empty()
                                         ? "belongs to no job that a queue decides on; what it "
                                           "waits for is kube-scheduler's to say"
                                         : "runs on node " + pod->node_name +
                                               " and belongs to no job that a queue decides on");
      return answer;
    }
  } else {
    const Json* object = state.Find(target.object, target.key);
    if (object == nullptr) {
      return missing();
    }
    unit = UnitOfJob(*core, (*object)["metadata"]["uid"].AsString());
    if (unit == nullptr) {
      const bool labelled =
          !(*object)["metadata"]["labels"][names::kQueueNameLabel].AsString().empty();
      answer.what = NotQueued(
          title, labelled ? "names a queue, but is not managed by it: another controller owns or "
                            "runs it, or its namespace isn't managed"
                          : "names no queue (label " + std::string(names::kQueueNameLabel) +
                                "), so no queue decides on it; `tutti fit` says whether it would "
                                "find a place");
      return answer;
    }
  }
  JobAnswer job = ExplainUnit(state, *core, *unit, now, limits);
  for (const std::string& unseen : job.unseen) {
    answer.notes.push_back("in use by jobs that are not in the input: " + unseen +
                           "; what would start the job can't be checked without them");
  }
  answer.what = std::move(job);
  return answer;
}

std::string_view ToString(JobAnswer::State state) {
  switch (state) {
    case JobAnswer::State::kNotQueued:
      return "NotQueued";
    case JobAnswer::State::kHeldBack:
      return "HeldBack";
    case JobAnswer::State::kWaits:
      return "Waits";
    case JobAnswer::State::kWaitsForOthersToStop:
      return "WaitsForOthersToStop";
    case JobAnswer::State::kStartsNext:
      return "StartsNext";
    case JobAnswer::State::kHasQuota:
      return "HasQuota";
    case JobAnswer::State::kFinished:
      return "Finished";
  }
  return "";
}

}  // namespace tutti::why
