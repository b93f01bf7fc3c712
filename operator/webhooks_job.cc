// SPDX-License-Identifier: Apache-2.0
// Rules for batch/v1 Job: hold, keep held; what labels may say.
#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/names.h"
#include "base/slice_names.h"
#include "operator/syntax.h"
#include "operator/webhooks.h"
#include "operator/webhooks_common.h"

namespace tutti::webhooks {
namespace {

constexpr std::string_view kEqualCompletions = "kueue.x-k8s.io/job-completions-equal-parallelism";

bool Suspended(const Json& job) {
  return job["spec"]["suspend"].AsBool();
}

bool Elastic(const Json& job) {
  return Annotation(job, names::kElasticJobAnnotation) == "true";
}

// The pods of an elastic Job wait for quota by a gate in their template.
void GatePods(const Json& job, Json& patch) {
  const Json& pod_spec = job["spec"]["template"]["spec"];
  const Json::Array& gates = pod_spec["schedulingGates"].AsArray();
  const bool there = std::any_of(gates.begin(), gates.end(), [](const Json& gate) {
    return gate["name"].AsString() == names::kElasticGate;
  });
  if (!pod_spec.IsObject() || there) {
    return;
  }
  const std::string path = "/spec/template/spec/schedulingGates";
  Json gate = Json::Obj({{"name", names::kElasticGate}});
  if (pod_spec["schedulingGates"].IsArray()) {
    patch.Push(Operation("add", path + "/-", std::move(gate)));
  } else {
    patch.Push(Operation("add", path, Json::Arr({std::move(gate)})));
  }
}

class JobCheck {
 public:
  JobCheck(const Request& request, const Rules& rules)
      : request_(request),
        rules_(rules),
        job_(*request.object),
        old_(*request.old_object),
        update_(request.IsUpdate()),
        suspended_(Suspended(job_)),
        was_suspended_(!update_ || Suspended(old_)) {}

  // For every kind that is held by spec.suspend.
  std::vector<std::string> RunCommon() {
    Common();
    if (rules_.elastic_jobs && Elastic(job_)) {
      Say(Field("annotations", names::kElasticJobAnnotation) +
          "only a Job can be elastic: take it off");
    }
    return std::move(problems_);
  }

  std::vector<std::string> Run() {
    Common();
    MinParallelism();
    EqualCompletions();
    if (update_ && Elastic(job_) != Elastic(old_)) {
      Say(Field("annotations", names::kElasticJobAnnotation) + "can be set only at creation");
    }
    return std::move(problems_);
  }

 private:
  void Say(std::string problem) { problems_.push_back(std::move(problem)); }

  void Common() {
    Holding();
    Queue();
    Priority();
    ExecutionTime();
    Prebuilt();
    CheckGates(request_, &problems_);
  }

  // Behind the mutating rule: somebody else's webhook may have changed it after us.
  void Holding() {
    const std::string& queue = Label(job_, names::kQueueNameLabel);
    const std::string& old_queue = Label(old_, names::kQueueNameLabel);
    const bool managed =
        rules_.manage_jobs_without_queue_name || !queue.empty() || !old_queue.empty();
    if (update_ && rules_.others_may_resume) {
      return;
    }
    if (managed && Manages(rules_, request_.ns) && was_suspended_ && !suspended_) {
      Say(update_ ? "spec.suspend: only the queue controller may resume a queued Job"
                  : "spec.suspend: a queued Job must be held at creation, but something resumed "
                    "it: change "
                    "the webhook or policy that did");
    }
  }

  void Queue() {
    const std::string& queue = Label(job_, names::kQueueNameLabel);
    const std::string& old_queue = Label(old_, names::kQueueNameLabel);
    const std::string field = Field("labels", names::kQueueNameLabel);
    if (Has(job_, "labels", names::kQueueNameLabel)) {
      const std::string problem = syntax::CheckSubdomain(queue);
      if (!problem.empty()) {
        Say(field + "not the name of a LocalQueue: " + problem);
      }
    }
    const bool was_managed = update_ && rules_.manage_jobs_without_queue_name;
    if (!suspended_ && (!old_queue.empty() || was_managed) && queue != old_queue) {
      Say(field + "cannot be changed from \"" + old_queue + "\" to \"" + queue +
          "\" while the Job runs: delete the Job and create it in the other queue");
    } else if (update_ && !old_queue.empty() && queue.empty() && rules_.has_default_queue &&
               rules_.has_default_queue(request_.ns)) {
      Say(field + "cannot be removed in a namespace with a default LocalQueue: set another queue");
    }
  }

  void Priority() {
    const std::string& now = Label(job_, names::kPriorityClassLabel);
    const std::string& before = Label(old_, names::kPriorityClassLabel);
    const std::string field = Field("labels", names::kPriorityClassLabel);
    if (Has(job_, "labels", names::kPriorityClassLabel) && !syntax::CheckSubdomain(now).empty()) {
      Say(field + "not the name of a WorkloadPriorityClass: " + syntax::CheckSubdomain(now));
    }
    if (!before.empty() && now.empty()) {
      Say(field + "cannot be removed: set it to another WorkloadPriorityClass instead of \"" +
          before + "\"");
    }
    if (update_ && !suspended_ && before.empty() && !now.empty()) {
      Say(field + "cannot be added while the Job runs");
    }
  }

  void ExecutionTime() {
    const std::string field = Field("labels", names::kMaxExecTimeLabel);
    const std::string& now = Label(job_, names::kMaxExecTimeLabel);
    if (Has(job_, "labels", names::kMaxExecTimeLabel)) {
      const auto limit = Positive(now);
      if (!limit || *limit > INT32_MAX) {
        Say(field + "\"" + now + "\" must be a number of seconds from 1 to 2147483647");
      }
    }
    if (update_ && !(suspended_ && was_suspended_) &&
        now != Label(old_, names::kMaxExecTimeLabel)) {
      Say(field + "can be changed only while the Job is suspended");
    }
  }

  void Prebuilt() {
    const std::string& name = PrebuiltName(job_);
    const std::string field = Field("annotations", names::kPrebuiltWorkload);
    if (!name.empty() && !syntax::CheckSubdomain(name).empty()) {
      Say(field + "not the name of a Workload: " + syntax::CheckSubdomain(name));
    }
    if (update_ && !suspended_ && name != PrebuiltName(old_)) {
      Say(field + "cannot be changed while the Job runs");
    }
  }

  void MinParallelism() {
    if (update_ && !was_suspended_ && Has(old_, "annotations", names::kMinParallelismAnnotation) &&
        job_["spec"]["parallelism"].AsInt(1) != old_["spec"]["parallelism"].AsInt(1)) {
      Say("spec.parallelism: cannot be changed while a Job with kueue.x-k8s.io/job-min-parallelism "
          "runs");
    }
    if (!Has(job_, "annotations", names::kMinParallelismAnnotation)) {
      return;
    }
    const std::string& text = Annotation(job_, names::kMinParallelismAnnotation);
    if (update_ && text == Annotation(old_, names::kMinParallelismAnnotation)) {
      return;
    }
    if (rules_.elastic_jobs && Elastic(job_)) {
      Say(Field("annotations", names::kMinParallelismAnnotation) +
          "an elastic Job can't be admitted in part: take off this annotation or " +
          std::string(names::kElasticJobAnnotation));
    }
    const int64_t parallelism = job_["spec"]["parallelism"].AsInt(1);
    const int64_t pods = std::min(parallelism, job_["spec"]["completions"].AsInt(parallelism));
    const auto minimum = Positive(text);
    if (!minimum || *minimum >= pods) {
      Say(Field("annotations", names::kMinParallelismAnnotation) + "\"" + text +
          "\" must be a number from 1 to " + std::to_string(std::max<int64_t>(0, pods - 1)) +
          ", less than the number of pods");
    }
  }

  void EqualCompletions() {
    const std::string field = Field("annotations", kEqualCompletions);
    const std::string& text = Annotation(job_, kEqualCompletions);
    if (Has(job_, "annotations", kEqualCompletions) && text != "true" && text != "false") {
      Say(field + "must be \"true\" or \"false\"");
    }
    if (text == "true") {
      if (job_["spec"]["completionMode"].AsString() != "Indexed") {
        Say(field + "needs spec.completionMode: Indexed");
      }
      if (job_["spec"]["completions"].AsInt(1) != job_["spec"]["parallelism"].AsInt(1)) {
        Say("spec.completions: must be equal to spec.parallelism where " +
            std::string(kEqualCompletions) + " is true");
      }
    }
    if (update_ && !suspended_ && !was_suspended_ &&
        (text == "true") != (Annotation(old_, kEqualCompletions) == "true")) {
      Say(field + "cannot be changed while the Job runs");
    }
  }

  const Request& request_;
  const Rules& rules_;
  const Json& job_;
  const Json& old_;
  const bool update_;
  const bool suspended_;
  const bool was_suspended_;
  std::vector<std::string> problems_;
};

}  // namespace

Verdict MutateJob(const Request& request, const Rules& rules) {
  Verdict verdict;
  const Json& job = *request.object;
  const Json& old = *request.old_object;
  if (!Manages(rules, request.ns)) {
    return verdict;
  }
  if (request.IsUpdate()) {
    const bool queued = rules.manage_jobs_without_queue_name ||
                        !Label(job, names::kQueueNameLabel).empty() ||
                        !Label(old, names::kQueueNameLabel).empty();
    if (queued && IsRoot(old) && Suspended(old) && !Suspended(job)) {
      verdict.patch.Push(Operation("add", "/spec/suspend", true));
    }
    return verdict;
  }
  if (!IsRoot(job)) {
    return verdict;
  }
  const bool has_labels = job["metadata"]["labels"].IsObject();
  const auto label = [&](std::string_view key, const char* value) {
    if (!has_labels && verdict.patch.AsArray().empty()) {
      verdict.patch.Push(Operation("add", "/metadata/labels", Json::Obj()));
    }
    verdict.patch.Push(Operation("add", "/metadata/labels/" + Escape(key), value));
  };
  bool queued = rules.manage_jobs_without_queue_name || !Label(job, names::kQueueNameLabel).empty();
  if (!Has(job, "labels", names::kQueueNameLabel) && rules.has_default_queue &&
      rules.has_default_queue(request.ns)) {
    label(names::kQueueNameLabel, "default");
    queued = true;
  }
  if (queued && rules.default_priority_class && Label(job, names::kPriorityClassLabel).empty()) {
    label(names::kPriorityClassLabel, "default");
  }
  if (queued && !Suspended(job)) {
    verdict.patch.Push(Operation("add", "/spec/suspend", true));
  }
  if (queued && rules.elastic_jobs && Elastic(job)) {
    GatePods(job, verdict.patch);
  }
  return verdict;
}

namespace {

// A held object can't change hands; what belongs to another controller isn't ours to judge.
std::optional<Verdict> JudgeOwner(const Request& request) {
  if (IsRoot(*request.object)) {
    return std::nullopt;
  }
  if (request.IsUpdate() && IsRoot(*request.old_object) && Suspended(*request.old_object)) {
    return Verdict{
        {"metadata.ownerReferences: a held Job can't be given to a controller: create it as that "
         "controller's from the start"},
        {}};
  }
  return Verdict{};
}

}  // namespace

Verdict ValidateJob(const Request& request, const Rules& rules) {
  if (auto verdict = JudgeOwner(request)) {
    return *verdict;
  }
  return {JobCheck(request, rules).Run(), {}};
}

Verdict ValidateSuspendedKind(const Request& request, const Rules& rules) {
  if (auto verdict = JudgeOwner(request)) {
    return *verdict;
  }
  return {JobCheck(request, rules).RunCommon(), {}};
}

}  // namespace tutti::webhooks
